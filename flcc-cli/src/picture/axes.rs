//! Axes with round ticks, drawn by plotters around an area of a canvas.

use std::ops::Range;

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::IntoDrawingArea;
use plotters::element::Circle;
use plotters::series::LineSeries;
use plotters::style::{Color as _, IntoFont, RGBColor, ShapeStyle};

use super::canvas::{Area, Canvas, Color, INK, Pen, text_width};

/// A tick and what stands at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub text: String,
}

/// The multiples of 1, 2 or 5 times a power of ten from `low` to `high`, some up to `most`, but at least one of them.
pub fn round_ticks(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let most = most.max(2) as f64;
    // Halves, so that no range overflows.
    let rough = 2.0 * ((high / 2.0 - low / 2.0) / most);
    let power = rough.log10().floor();
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| (times, power)).into_iter().find(|(times, power)| {
        let count = (high / (times * 10f64.powf(*power))).floor() - (low / (times * 10f64.powf(*power))).ceil() + 1.0;
        count <= most
    });
    let Some((times, power)) = step.filter(|_| rough.is_finite() && rough > 1e-300 && low < high) else {
        return vec![Tick { value: low, text: shortest(low) }];
    };
    // A power of ten below 1 is no double: dividing by its inverse, which is one, makes 0.6 of 6 of them.
    let multiple = |k: f64| if power < 0.0 { k * times / 10f64.powf(-power) } else { k * times * 10f64.powf(power) };
    let unit = multiple(1.0);
    // A score that rounding took from 1.0 has its tick too.
    let (first, last) = ((low / unit - 1e-5).ceil(), (high / unit + 1e-5).floor());
    let power = if times == 10.0 { power + 1.0 } else { power };
    let values = (0..=(most as usize + 1)).map(|k| first + k as f64).take_while(|k| *k <= last).map(multiple);
    let largest = low.abs().max(high.abs());
    let tick = |value: f64| Tick { value: value.clamp(low, high), text: text_of(value, power, largest) };
    let ticks: Vec<Tick> = values.map(tick).collect();
    if ticks.is_empty() { vec![tick(low)] } else { ticks }
}

/// A value to the last digit of a step of this power of ten, beside others up to the largest: all of them with the
/// power of ten of that, if one is needed.
fn text_of(value: f64, power: f64, largest: f64) -> String {
    let text = if value == 0.0 || (1e-4..1e6).contains(&largest) {
        let digits = if value == 0.0 && !(1e-4..1e6).contains(&largest) { 0.0 } else { -power };
        format!("{:.*}", digits.clamp(0.0, 12.0) as usize, value + 0.0)
    } else {
        let exponent = largest.log10().floor();
        let digits = (exponent - power).clamp(0.0, 12.0) as usize;
        // In two steps: no power of ten overflows.
        let half = (exponent / 2.0).floor();
        let mantissa = value / 10f64.powf(half) / 10f64.powf(exponent - half);
        format!("{mantissa:.digits$}e{exponent}")
    };
    text.replace('-', "−")
}

/// One axis: what values stand where, from 0 at its beginning to 1 at its end.
#[derive(Clone, Debug)]
pub struct Axis {
    pub title: String,
    pub from: f64,
    pub to: f64,
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// Ticks of values, however long the axis is.
    const MOST: usize = 10;

    /// Samples, each as wide as the next; ticks at their middles.
    pub fn samples(title: &str, first: i64, count: usize, pixels: i64, size: f64) -> Axis {
        let last = first as f64 + count as f64 - 1.0;
        let widest = text_width(&format!("{last}"), size).max(text_width(&format!("{first}"), size));
        let most = (pixels as f64 / (1.6 * widest + size)).max(2.0).min(count as f64 + 1.0);
        let mut ticks = round_ticks(first as f64, last.max(first as f64), most as usize);
        ticks.retain(|tick| tick.value.fract() == 0.0);
        ticks.iter_mut().for_each(|tick| tick.text = format!("{}", tick.value).replace('-', "−"));
        Axis { title: title.into(), from: first as f64 - 0.5, to: last + 0.5, ticks }
    }

    /// Values; of a range without width the one value in its middle.
    pub fn values(title: &str, low: f64, high: f64, pixels: i64, size: f64) -> Axis {
        if low < high {
            let most = ((pixels as f64 / (2.4 * size)) as usize).min(Self::MOST);
            let Some(base) = base(low, high) else {
                return Axis { title: title.into(), from: low, to: high, ticks: round_ticks(low, high, most) };
            };
            let mut ticks = round_ticks(low - base, high - base, most);
            // Between the neighbours of a number there is nothing.
            let told = |tick: &Tick| (((base + tick.value) - base) - tick.value).abs() <= 1e-3 * (high - low);
            ticks.retain(told);
            ticks.iter_mut().for_each(|tick| tick.value = (base + tick.value).clamp(low, high));
            let (plain, short) = (format!("{base}"), format!("{base:e}"));
            let taken = if short.len() < plain.len() { short } else { plain }.replace('-', "−");
            let sign = if base < 0.0 { "+" } else { "−" };
            let title = format!("{title} {sign} {}", taken.trim_start_matches('−'));
            return Axis { title, from: low, to: high, ticks };
        }
        let ticks = if low == high { vec![Tick { value: low, text: shortest(low) }] } else { Vec::new() };
        Axis { title: title.into(), from: low, to: high, ticks }
    }

    /// Where a value stands.
    pub fn at(&self, value: f64) -> f64 {
        let part = (value / 2.0 - self.from / 2.0) / (self.to / 2.0 - self.from / 2.0);
        if part.is_finite() { part } else { 0.5 }
    }

    /// How much room its texts need across.
    pub fn room(&self, size: f64) -> i64 {
        let widest = self.ticks.iter().map(|tick| text_width(&tick.text, size)).fold(0.0, f64::max);
        (widest + 2.6 * size + 8.0) as i64
    }
}

/// What is taken off values that differ by less than a millionth of them, whose texts would be alike: a round number
/// among them, which the title tells.
fn base(low: f64, high: f64) -> Option<f64> {
    let span = high - low;
    if !(span.is_finite() && span * 1e6 < low.abs().max(high.abs())) {
        return None;
    }
    let power = span.log10().ceil();
    // A power of ten below 1 is no double; its inverse is.
    let round = |value: f64| match power < 0.0 {
        true => (value * 10f64.powf(-power)).round() / 10f64.powf(-power),
        false => (value / 10f64.powf(power)).round() * 10f64.powf(power),
    };
    Some(round(low / 2.0 + high / 2.0)).filter(|base| base.is_finite())
}

/// The one value of a constant map.
fn shortest(value: f64) -> String {
    let text = format!("{}", (value as f32));
    if text.len() <= 9 { text } else { format!("{value:.3e}") }.replace('-', "−")
}

/// How much room the texts under an area need.
pub fn room_below(size: f64) -> i64 {
    (2.9 * size + 8.0) as i64
}

/// What is drawn inside the axes: lines through places from 0 to 1, rings around some.
#[derive(Default)]
pub struct Drawn {
    pub lines: Vec<(Vec<(f64, f64)>, Color)>,
    pub rings: Vec<(f64, f64, Color)>,
}

/// The side that the values of the vertical axis stand on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// An axis as plotters asks for it: places from 0 to 1, the other way round if it is turned.
struct Places<'a> {
    axis: &'a Axis,
    turned: bool,
}

impl Ranged for Places<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let part = if self.turned { 1.0 - place } else { *place };
        from + (f64::from(to - from) * part.clamp(-9.0, 9.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        let all = if hint.weight().allow_light_points() { &[] } else { &self.axis.ticks[..] };
        all.iter().map(|tick| self.axis.at(tick.value)).collect()
    }

    fn range(&self) -> Range<f64> {
        0.0..1.0
    }
}

impl ValueFormatter<f64> for Places<'_> {
    fn format_ext(&self, place: &f64) -> String {
        let near = |tick: &&Tick| (self.axis.at(tick.value) - place).abs() < 1e-9;
        self.axis.ticks.iter().find(near).map_or(String::new(), |tick| tick.text.clone())
    }
}

/// Draws the axes of an area around it, `down` if the vertical one begins at the top, and lines into it.
pub fn draw(
    canvas: &mut Canvas,
    area: Area,
    across: Option<&Axis>,
    upright: (&Axis, Side),
    down: bool,
    drawn: &Drawn,
    size: f64,
) {
    let (axis, side) = upright;
    let below = across.map_or(0, |_| room_below(size));
    let (left, right) = if side == Side::Left { (axis.room(size), 0) } else { (0, axis.room(size)) };
    let outer = [area[0] - left, area[1], area[2] + left + right, area[3] + below];
    // An area without room for texts has none; plotters is not asked.
    if outer[0] < 0 || outer[0] + outer[2] > canvas.width || outer[1] + outer[3] > canvas.height || area[2] < 1 {
        return;
    }
    let none = Axis { title: String::new(), from: 0.0, to: 1.0, ticks: Vec::new() };
    let along = across.unwrap_or(&none);
    let root = Pen(canvas).into_drawing_area();
    let root = root.shrink((outer[0] as i32, outer[1] as i32), (outer[2] as u32, outer[3] as u32));
    let mut builder = ChartBuilder::on(&root);
    builder.set_label_area_size(LabelAreaPosition::Bottom, below as i32);
    builder.set_label_area_size(LabelAreaPosition::Left, left as i32);
    builder.set_label_area_size(LabelAreaPosition::Right, right as i32);
    let (x, y) = (Places { axis: along, turned: false }, Places { axis, turned: down });
    let ink = RGBColor(INK[0], INK[1], INK[2]);
    // The canvas refuses nothing: what a backend could fail at does not happen here.
    let _ = builder.build_cartesian_2d(x, y).map(|mut chart| {
        let letters = ("sans-serif", size).into_font().color(&ink);
        let _ = chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(ink)
            .label_style(letters.clone())
            .axis_desc_style(letters)
            .set_all_tick_mark_size((size / 3.0) as i32)
            .x_desc(along.title.clone())
            .y_desc(axis.title.clone())
            .draw();
        let thick = ((size / 13.0).round() as u32).max(1);
        for (line, color) in &drawn.lines {
            let style = ShapeStyle::from(RGBColor(color[0], color[1], color[2])).stroke_width(thick);
            // A lone sample is a dot.
            let line = if let [one] = line[..] { vec![one, one] } else { line.clone() };
            let dot = if line.len() == 2 && line[0] == line[1] { Some(line[0]) } else { None };
            let _ = chart.draw_series(LineSeries::new(line, style));
            let _ = chart.draw_series(dot.map(|at| Circle::new(at, thick, style.filled())));
        }
        for &(x, y, color) in &drawn.rings {
            let fill = RGBColor(color[0], color[1], color[2]).filled();
            let _ = chart.draw_series([
                Circle::new((x, y), (size / 2.6) as i32, ink.filled()),
                Circle::new((x, y), (size / 3.6) as i32, fill),
            ]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64, most: usize) -> Vec<String> {
        round_ticks(low, high, most).into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(texts(-0.3871, 0.9998, 8), ["−0.2", "0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(texts(0.0, 332.0, 8), ["0", "50", "100", "150", "200", "250", "300"]);
        assert_eq!(texts(0.0, 4.0, 5), ["0", "1", "2", "3", "4"]);
        assert_eq!(texts(0.612, 0.6204, 5), ["0.612", "0.614", "0.616", "0.618", "0.620"]);
        assert_eq!(texts(0.0, 2.5e7, 4), ["0", "1e7", "2e7"]);
        assert_eq!(texts(0.0, 2.5e7, 6), ["0", "0.5e7", "1.0e7", "1.5e7", "2.0e7", "2.5e7"]);
        assert_eq!(texts(1.2e7, 1.3e7, 4), ["1.20e7", "1.25e7", "1.30e7"]);
        assert_eq!(texts(-3e-7, 3e-7, 4), ["−2e−7", "0", "2e−7"]);
        assert_eq!(texts(0.5, 0.999_999_94, 6), ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
        assert!(round_ticks(-0.3, 0.7, 9).iter().any(|tick| tick.value == 0.6));
    }

    #[test]
    fn values_that_hardly_differ_are_told_by_what_they_differ_from() {
        let told = |low: f64, high: f64| {
            let axis = Axis::values("score", low, high, 300, 13.0);
            let texts: Vec<String> = axis.ticks.iter().map(|tick| tick.text.clone()).collect();
            assert!(axis.ticks.iter().all(|tick| (low..=high).contains(&tick.value)), "{low} {high}");
            (axis.title, texts)
        };
        let (title, texts) = told(1e9 - 3e-4, 1e9 + 3e-4);
        assert_eq!(title, "score − 1e9");
        assert_eq!(texts, ["−0.0003", "−0.0002", "−0.0001", "0.0000", "0.0001", "0.0002", "0.0003"]);
        let (title, texts) = told(-2.5e12 - 300.0, -2.5e12 + 300.0);
        assert_eq!((title.as_str(), texts[0].as_str()), ("score + 2.5e12", "−300"));
        assert_eq!(told(0.5, 0.6).0, "score");
        assert_eq!(told(1.0, 1.0 + f64::EPSILON).0, "score − 1");
        assert!(!told(1e16, 1e16 + 2.0).1.is_empty());
    }

    #[test]
    fn every_range_has_ticks_within_it() {
        let ends = [-1e308, -1e16, -3.0, -1e-310, 0.0, 1e-300, 1.0, 1.0 + f64::EPSILON, 1e16, 1e16 + 2.0, 1.7e308];
        for (i, &low) in ends.iter().enumerate() {
            for &high in &ends[i..] {
                for most in [0, 1, 2, 5, 50] {
                    let ticks = round_ticks(low, high, most);
                    assert!(!ticks.is_empty() && ticks.len() <= most.max(2) + 2, "{low} {high} {most} {ticks:?}");
                    assert!(ticks.iter().all(|tick| (low..=high).contains(&tick.value)), "{low} {high} {ticks:?}");
                    let axis = Axis::values("", low, high, 300, 13.0);
                    assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&axis.at(tick.value))));
                }
            }
        }
        assert_eq!(texts(f64::INFINITY, f64::NEG_INFINITY, 5).len(), 1);
    }

    #[test]
    fn samples_have_whole_ticks() {
        for count in [1, 2, 3, 5, 10, 384, 1_000_000] {
            for pixels in [1, 40, 500] {
                let axis = Axis::samples("column", -7, count, pixels, 13.0);
                assert!(!axis.ticks.is_empty(), "{count} {pixels}");
                assert!(axis.ticks.iter().all(|tick| tick.value.fract() == 0.0 && !tick.text.contains('.')));
            }
        }
        let axis = Axis::samples("column", 0, 5, 480, 13.0);
        assert_eq!(axis.ticks.len(), 5);
        assert!((axis.at(0.0) - 0.1).abs() < 1e-12 && (axis.at(4.0) - 0.9).abs() < 1e-12);
    }
}
