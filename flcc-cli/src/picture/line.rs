//! Plots of lines: the signal above, the scores below, over the same samples.

use flcc_runtime::Pixels;

use super::axes::{self, Axis, Drawn, Side};
use super::canvas::{Area, Canvas, Color, INK, text_width};
use super::curve::{Curve, WIDTH};
use super::labels::{self, Boxed};
use super::panel::{self, Entry, LETTERS, Swatch};
use super::scene::{Heat, Mark, Scene, style};
use super::tones::Tones;
use crate::error::Error;

/// Pixels up a plot.
const HEIGHT: i64 = 240;

/// One plot of curves.
struct Plot<'a> {
    title: String,
    curves: Vec<(&'a Curve, Color)>,
    rings: Vec<(f64, f64, Color)>,
}

/// The scores of a line.
pub fn heat(heat: &Heat<'_>) -> Result<Canvas, Error> {
    let curve = Curve::of_map(heat.map, heat.first.first().copied().unwrap_or(0));
    let plot = Plot { title: heat.title(), curves: vec![(&curve, INK)], rings: Vec::new() };
    Ok(plots(&[plot], &[])?.0)
}

/// The signal with the spans of its peaks, and the scores of each template with their peaks.
pub fn annotated(scene: &Scene<'_>) -> Result<Canvas, Error> {
    let (image, tones) = (scene.image, Tones::new(scene.image));
    let channels = image.channels();
    let signal = Curve::of(image.shape().len(), 0, |x| tones.sample(x * channels));
    let kind = if matches!(image.pixels(), Pixels::U8(_) | Pixels::U16(_)) { "signal (counts)" } else { "signal" };
    let title = if channels > 1 { format!("signal (channel 1 of {channels})") } else { kind.into() };
    let color = |group: usize| if scene.names.len() > 1 { dark(style(group).0) } else { INK };
    let place = |mark: &Mark| mark.origin.first().copied().unwrap_or(0);
    let above = Plot { title, curves: vec![(&signal, INK)], rings: Vec::new() };
    let below = Plot {
        title: scene.title(),
        curves: scene.curves.iter().map(|(group, curve)| (curve, color(*group))).collect(),
        rings: scene.marks.iter().map(|mark| (place(mark) as f64, mark.score, style(mark.group).0)).collect(),
    };
    let (mut canvas, areas, along, upright) = plots(&[above, below], &scene.legend())?;
    let [signal, scores] = areas[..] else { return Ok(canvas) };
    // Spans are tinted under what is drawn already: dark lines stay dark.
    let mut marks: Vec<&Mark> = scene.marks.iter().collect();
    marks.sort_by_key(|mark| (mark.rank, mark.group));
    for mark in marks.iter().rev() {
        let at = |sample: f64| signal[0] + (along.at(sample).clamp(0.0, 1.0) * signal[2] as f64) as i64;
        let (from, to) = (at(place(mark) as f64 - 0.5), at((place(mark) + mark.shape.len() as i64) as f64 - 0.5));
        canvas.shade([from, signal[1], (to - from).max(2), signal[3] - 1], style(mark.group).0);
    }
    for (area, value) in [(signal, None), (scores, Some(&upright[1]))] {
        let tall = (1.15 * LETTERS) as i64;
        let boxes: Vec<Boxed> = marks
            .iter()
            .map(|mark| {
                let x = area[0] + (along.at(place(mark) as f64) * area[2] as f64) as i64;
                let wide = (text_width(&scene.label(mark), LETTERS) + 0.6 * LETTERS) as i64;
                let area = match value {
                    Some(axis) => {
                        let y = area[1] + ((1.0 - axis.at(mark.score)) * area[3] as f64) as i64;
                        [x - 4, y - 4, 9, 9]
                    }
                    None => {
                        let end = along.at((place(mark) + mark.shape.len() as i64) as f64) * area[2] as f64;
                        [x, area[1] + 3, area[0] + end as i64 - x, area[3] - 6]
                    }
                };
                Boxed { area, label: [wide, tall] }
            })
            .collect();
        let placed = match value {
            Some(_) => labels::place(area, &boxes, |boxed| labels::around(boxed, 2)),
            None => labels::place([area[0] - 8, area[1], area[2] + 16, area[3]], &boxes, labels::atop),
        };
        for ((mark, boxed), place) in marks.iter().zip(&boxes).zip(placed).rev() {
            let (Some([x, y]), [wide, tall]) = (place, boxed.label) else { continue };
            canvas.fill([x, y, wide, tall], INK);
            canvas.fill([x + 1, y + 1, wide - 2, tall - 2], style(mark.group).0);
            canvas.text(x + wide / 2, y + tall / 2, 0.5, LETTERS, &scene.label(mark), INK);
        }
    }
    Ok(canvas)
}

/// A colour that stands out from white.
fn dark(color: Color) -> Color {
    color.map(|part| (f64::from(part) * 0.72) as u8)
}

/// Plots under one another over the same samples, with a legend.
fn plots(plots: &[Plot<'_>], legend: &[Entry]) -> Result<(Canvas, Vec<Area>, Axis, Vec<Axis>), Error> {
    let size = LETTERS;
    let curves = || plots.iter().flat_map(|plot| plot.curves.iter().map(|(curve, _)| *curve));
    let first = curves().map(|curve| curve.first).min().unwrap_or(0);
    let last = curves().map(Curve::last).max().unwrap_or(0);
    let along = Axis::samples("sample", first, (last - first + 1).max(1) as usize, WIDTH, size);
    let upright: Vec<Axis> = plots
        .iter()
        .map(|plot| {
            let ends = |(low, high): (f64, f64), curve: &Curve| (low.min(curve.low), high.max(curve.high));
            let (low, high) =
                plot.curves.iter().map(|(curve, _)| *curve).fold((f64::INFINITY, f64::NEG_INFINITY), ends);
            // A little room, so that no line lies on the frame.
            let room = (high / 2.0 - low / 2.0) * 0.12;
            let roomy = |value: f64, room: f64| if (value + room).is_finite() { value + room } else { value };
            let mut axis = if low < high {
                Axis::values(&plot.title, roomy(low, -room), roomy(high, room), HEIGHT, size)
            } else {
                Axis::values(&plot.title, low, high, HEIGHT, size)
            };
            axis.title.clone_from(&plot.title);
            axis
        })
        .collect();
    let mut legend: Vec<Entry> = legend.to_vec();
    if curves().any(|curve| !curve.gaps.is_empty()) {
        legend.push(Entry { swatch: Swatch::Missing, name: "no number".into() });
    }
    let left = upright.iter().map(|axis| axis.room(size)).max().unwrap_or(0) + 8;
    let (line, gap) = ((1.6 * size) as i64, (1.2 * size) as i64);
    let width = left + WIDTH + 3 * size as i64;
    let rows = panel::rows(&legend, width - 2 * gap, size);
    let count = rows.last().map_or(0, |(row, ..)| row + 1);
    let below = gap + plots.len() as i64 * (HEIGHT + gap) - gap + axes::room_below(size) + gap / 2;
    let mut canvas = Canvas::new(width, below + count * line + gap / 2)?;
    let mut areas = Vec::new();
    for (k, (plot, axis)) in plots.iter().zip(&upright).enumerate() {
        let area = [left, gap + k as i64 * (HEIGHT + gap), WIDTH, HEIGHT];
        let across = |sample: f64| area[0] + (along.at(sample).clamp(0.0, 1.0) * WIDTH as f64) as i64;
        for (from, to) in plot.curves.iter().flat_map(|(curve, _)| &curve.gaps) {
            let (from, to) = (across(*from as f64 - 0.5), across(*to as f64 + 0.5));
            canvas.hatch([from, area[1], (to - from).max(2), HEIGHT - 1]);
        }
        let place = |&(x, y): &(f64, f64)| (along.at(x), axis.at(y));
        let mut drawn = Drawn::default();
        for (curve, color) in &plot.curves {
            drawn.lines.extend(curve.runs.iter().map(|run| (run.iter().map(place).collect(), *color)));
        }
        drawn.rings = plot.rings.iter().map(|&(x, y, color)| (along.at(x), axis.at(y), color)).collect();
        // The samples stand under the last plot; the others have ticks alone.
        let mut bare = along.clone();
        bare.title.clear();
        bare.ticks.iter_mut().for_each(|tick| tick.text.clear());
        let across = if k + 1 == plots.len() { &along } else { &bare };
        axes::draw(&mut canvas, area, Some(across), (axis, Side::Left), false, &drawn, size);
        areas.push(area);
    }
    for ((row, x, _), entry) in rows.iter().zip(&legend) {
        panel::draw_entry(&mut canvas, gap + x, below + row * line, size, entry);
    }
    Ok((canvas, areas, along, upright))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_without_extent_is_drawn() {
        let none = Curve::of(4, 0, |_| f64::NAN);
        for curve in [none, Curve::of(1, 0, |_| 5.0), Curve::of(0, 0, |_| 5.0), Curve::of(2, 0, |k| [-1e308, 1e308][k])]
        {
            plots(&[Plot { title: "zncc".into(), curves: vec![(&curve, INK)], rings: vec![(0.0, 5.0, INK)] }], &[])
                .unwrap();
        }
    }
}
