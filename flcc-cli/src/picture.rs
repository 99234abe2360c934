//! Pictures of results as PNG: an image with its peaks marked, a map in colours.
//!
//! Nothing here is measured from: values are stretched to what a screen shows. Small images are enlarged by a whole
//! factor so that numbers can be read.

use std::path::Path;

use flcc_runtime::core::each_type;
use flcc_runtime::{Best, Pixel, Pixels, ScoreMap, Shape};

use crate::data::Image;
use crate::error::Error;
use crate::io;

/// A peak to draw.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where the template's first sample lies in the image; may be outside.
    pub origin: Vec<i64>,
    /// The template's shape.
    pub shape: Shape,
    /// Its rank, from 1.
    pub rank: usize,
    /// Which template it belongs to: chooses the colour.
    pub group: usize,
}

type Color = [u8; 3];

const WHITE: Color = [255; 3];
const INK: Color = [32, 32, 32];
/// What is no number.
const MISSING: Color = [150, 150, 150];

/// Colours of the marks, told apart by most eyes and bright on photographs; after Okabe and Ito, "Color Universal
/// Design".
const MARKS: [Color; 6] =
    [[255, 196, 0], [86, 200, 255], [240, 120, 220], [60, 220, 140], [255, 120, 60], [240, 240, 90]];

/// The length that the longer side of a small image is enlarged to, about.
const COMFORTABLE: usize = 720;
/// The largest enlargement of a pixel.
const LARGEST_FACTOR: usize = 16;

/// Writes the image with a numbered rectangle around each mark: of a volume the slice through the middle of the best
/// peak with the marks that it cuts, of a line a plot with bands.
///
/// # Errors
/// A file that is not written.
pub fn save_annotated(path: &Path, image: &Image, marks: &[Mark]) -> Result<(), Error> {
    let canvas = if image.shape().axes() == 1 { annotated_line(image, marks) } else { annotated_plane(image, marks) };
    canvas.save("--annotate", path)
}

/// Writes a map in colours from its smallest to its largest finite value, the better the brighter, with a bar that
/// tells the values; what is no number is grey. Of a volume the slice of the best position.
///
/// # Errors
/// A file that is not written.
pub fn save_heatmap(path: &Path, map: &ScoreMap) -> Result<(), Error> {
    let minimum = map.best() == Best::Smallest;
    let [_, h, w] = map.shape().padded();
    let value = |index: usize| map.get(index);
    let better = |a: f64, b: f64| if minimum { a < b } else { a > b };
    let mut best: Option<(usize, f64)> = None;
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for index in 0..map.shape().len() {
        let score = value(index);
        if score.is_finite() {
            (low, high) = (low.min(score), high.max(score));
            if best.is_none_or(|(_, top)| better(score, top)) {
                best = Some((index, score));
            }
        }
    }
    let slice = best.map_or(0, |(index, _)| index / (h * w)) * h * w;
    let tone = |score: f64| if high > low { ((score - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
    let paint = |score: f64| {
        if score.is_finite() { perceptual(if minimum { 1.0 - tone(score) } else { tone(score) }) } else { MISSING }
    };
    let canvas = if map.shape().axes() == 1 {
        let mut canvas = plot(w, value, low, high);
        canvas.strip(w, |x| paint(value(x)));
        canvas
    } else {
        let factor = factor(h, w);
        let mut canvas = Canvas::new(w * factor, h * factor);
        for y in 0..canvas.height {
            for x in 0..canvas.width {
                canvas.set(x as i64, y as i64, paint(value(slice + y / factor * w + x / factor)));
            }
        }
        canvas.with_bar(low, high, paint)
    };
    canvas.save("--heatmap", path)
}

/// How much a plane is enlarged.
fn factor(height: usize, width: usize) -> usize {
    let side = height.max(width).max(1);
    ((COMFORTABLE + side / 2) / side).clamp(1, LARGEST_FACTOR)
}

/// The colour of a value from 0 to 1: dark blue over green to yellow, evenly for the eye and in order for grey
/// printers. A polynomial for matplotlib's viridis, by Matt Zucker (public domain).
fn perceptual(t: f64) -> Color {
    const TERMS: [[f64; 3]; 7] = [
        [0.277_727_327_223_417_7, 0.005_407_344_544_966_578, 0.334_099_805_335_306_1],
        [0.105_093_043_108_577_4, 1.404_613_529_898_575, 1.384_590_162_594_685],
        [-0.330_861_828_725_556_3, 0.214_847_559_468_213, 0.095_095_163_028_236_59],
        [-4.634_230_498_983_486, -5.799_100_973_351_585, -19.332_440_956_279_87],
        [6.228_269_936_347_081, 14.179_933_366_805_09, 56.690_552_600_681_05],
        [4.776_384_997_670_288, -13.745_145_377_746_01, -65.353_032_633_372_34],
        [-5.435_455_855_934_631, 4.645_852_612_178_535, 26.312_435_249_583_2],
    ];
    [0, 1, 2].map(|channel| {
        let value = TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term[channel]);
        (value.clamp(0.0, 1.0) * 255.0).round() as u8
    })
}

/// Grey or colour of an image's samples, stretched to 8 bits: 8-bit samples as they are, others from their smallest to
/// their largest.
struct Tones<'a> {
    image: &'a Image,
    low: f64,
    high: f64,
}

impl Tones<'_> {
    fn new(image: &Image) -> Tones<'_> {
        let (low, high) = if let Pixels::U8(_) = image.pixels() {
            (0.0, 255.0)
        } else {
            let finite = |low: f64, high: f64, value: f64| {
                if value.is_finite() { (low.min(value), high.max(value)) } else { (low, high) }
            };
            let none = (f64::INFINITY, f64::NEG_INFINITY);
            each_type!(Pixels, image.pixels(), data => {
                data.iter().fold(none, |(low, high), &value| finite(low, high, Pixel::to_f64(value)))
            })
        };
        Tones { image, low, high }
    }

    fn sample(&self, index: usize) -> f64 {
        each_type!(Pixels, self.image.pixels(), data => data.get(index).map_or(f64::NAN, |&value| Pixel::to_f64(value)))
    }

    fn color(&self, pixel: usize) -> Color {
        let tone = |index: usize| {
            let value = self.sample(index);
            match () {
                () if !value.is_finite() => 0,
                () if self.high > self.low => ((value - self.low) / (self.high - self.low) * 255.0).round() as u8,
                () => 128,
            }
        };
        match self.image.channels() {
            3 => [0, 1, 2].map(|channel| tone(pixel * 3 + channel)),
            channels => [tone(pixel * channels); 3],
        }
    }
}

fn annotated_plane(image: &Image, marks: &[Mark]) -> Canvas {
    let [d, h, w] = image.shape().padded();
    let volume = image.shape().axes() == 3;
    // The slice through the middle of the best peak.
    let depth = |mark: &Mark| {
        if volume { (mark.origin.first().copied().unwrap_or(0), mark.shape.padded()[0] as i64) } else { (0, 1) }
    };
    let best = marks.iter().min_by_key(|mark| mark.rank);
    let slice = best.map_or(d as i64 / 2, |mark| depth(mark).0 + depth(mark).1 / 2).clamp(0, d as i64 - 1);
    let tones = Tones::new(image);
    let factor = factor(h, w);
    let mut canvas = Canvas::new(w * factor, h * factor);
    for y in 0..canvas.height {
        for x in 0..canvas.width {
            let pixel = (slice as usize * h + y / factor) * w + x / factor;
            canvas.set(x as i64, y as i64, tones.color(pixel));
        }
    }
    // The best are drawn last, so that nothing covers them.
    let mut drawn: Vec<&Mark> =
        marks.iter().filter(|mark| (depth(mark).0..depth(mark).0 + depth(mark).1).contains(&slice)).collect();
    drawn.sort_by_key(|mark| std::cmp::Reverse(mark.rank));
    for mark in drawn {
        let [.., y, x] = mark.origin[..] else { continue };
        let [_, mh, mw] = mark.shape.padded().map(|length| length as i64);
        let f = factor as i64;
        canvas.mark([x * f, y * f, mw * f, mh * f], MARKS[mark.group % MARKS.len()], mark.rank);
    }
    canvas
}

fn annotated_line(image: &Image, marks: &[Mark]) -> Canvas {
    let n = image.shape().len();
    let tones = Tones::new(image);
    let channels = image.channels();
    let (low, high) = if let Pixels::U8(data) = image.pixels() {
        data.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
            (low.min(value.into()), high.max(value.into()))
        })
    } else {
        (tones.low, tones.high)
    };
    let mut canvas = plot(n, |x| tones.sample(x * channels), low, high);
    let scale = canvas.width as f64 / n as f64;
    let mut drawn: Vec<&Mark> = marks.iter().collect();
    drawn.sort_by_key(|mark| std::cmp::Reverse(mark.rank));
    for mark in drawn {
        let x = (mark.origin.first().copied().unwrap_or(0) as f64 * scale) as i64;
        let width = ((mark.shape.len() as f64 * scale) as i64).max(3);
        let color = MARKS[mark.group % MARKS.len()];
        canvas.tint([x, 0, width, canvas.height as i64], color);
        canvas.label(x, 2, color, mark.rank);
    }
    canvas
}

const PLOT_HEIGHT: usize = 260;
const PLOT_MARGIN: usize = 24;

/// A curve of `n` values, several to a column where there are more than columns.
fn plot(n: usize, value: impl Fn(usize) -> f64, low: f64, high: f64) -> Canvas {
    let width = n.clamp(COMFORTABLE, 2 * COMFORTABLE);
    let mut canvas = Canvas::new(width, PLOT_HEIGHT);
    canvas.fill([0, 0, width as i64, PLOT_HEIGHT as i64], WHITE);
    let inner = (PLOT_HEIGHT - 2 * PLOT_MARGIN) as f64;
    let row = |value: f64| {
        let tone = if high > low { (value - low) / (high - low) } else { 0.5 };
        PLOT_MARGIN as i64 + ((1.0 - tone) * inner).round() as i64
    };
    let mut last: Option<i64> = None;
    for x in 0..width {
        let (from, to) = (x * n / width, ((x + 1) * n).div_ceil(width).min(n));
        let rows = (from..to).map(&value).filter(|value| value.is_finite()).map(row);
        let (top, bottom) = rows.fold((i64::MAX, i64::MIN), |(top, bottom), row| (top.min(row), bottom.max(row)));
        if top > bottom {
            last = None;
            continue;
        }
        let (from, to) = last.map_or((top, bottom), |last| (top.min(last), bottom.max(last)));
        canvas.fill([x as i64, from, 1, to - from + 1], INK);
        last = Some((top + bottom) / 2);
    }
    canvas
}

/// Bytes red, green, blue.
struct Canvas {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        let (width, height) = (width.max(1), height.max(1));
        Canvas { width, height, data: vec![0; width * height * 3] }
    }

    fn save(&self, argument: &str, path: &Path) -> Result<(), Error> {
        io::save_png_rgb8(path, self.width, self.height, &self.data).map_err(Error::io(argument))
    }

    fn at(&self, x: i64, y: i64) -> Option<usize> {
        let inside = x >= 0 && y >= 0 && x < self.width as i64 && y < self.height as i64;
        inside.then(|| (y as usize * self.width + x as usize) * 3)
    }

    fn set(&mut self, x: i64, y: i64, color: Color) {
        if let Some(at) = self.at(x, y) {
            self.data[at..at + 3].copy_from_slice(&color);
        }
    }

    /// Calls `change` on every pixel of a rectangle (x, y, width, height) that lies on the canvas.
    fn each(&mut self, [x, y, width, height]: [i64; 4], mut change: impl FnMut(&mut [u8])) {
        let (right, bottom) =
            (x.saturating_add(width).min(self.width as i64), y.saturating_add(height).min(self.height as i64));
        for y in y.max(0)..bottom {
            for x in x.max(0)..right {
                if let Some(at) = self.at(x, y) {
                    change(&mut self.data[at..at + 3]);
                }
            }
        }
    }

    fn fill(&mut self, area: [i64; 4], color: Color) {
        self.each(area, |pixel| pixel.copy_from_slice(&color));
    }

    /// Mixes a third of a colour in.
    fn tint(&mut self, area: [i64; 4], color: Color) {
        self.each(area, |pixel| {
            pixel.iter_mut().zip(color).for_each(|(p, c)| *p = ((2 * u16::from(*p) + u16::from(c)) / 3) as u8)
        });
    }

    /// The outline of a rectangle, `thick` pixels wide, outside of it.
    fn outline(&mut self, [x, y, width, height]: [i64; 4], gap: i64, thick: i64, color: Color) {
        let (x, y, width, height) =
            (x - gap - thick, y - gap - thick, width + 2 * (gap + thick), height + 2 * (gap + thick));
        self.fill([x, y, width, thick], color);
        self.fill([x, y + height - thick, width, thick], color);
        self.fill([x, y, thick, height], color);
        self.fill([x + width - thick, y, thick, height], color);
    }

    /// A rectangle with its number: a dark line on both sides of the coloured one keeps it legible on any ground.
    fn mark(&mut self, area: [i64; 4], color: Color, rank: usize) {
        let thick = if rank == 1 { 3 } else { 2 };
        self.outline(area, -1, thick + 2, INK);
        self.outline(area, 0, thick, color);
        let height = label_height();
        let above = area[1] - thick - height;
        let y = if above >= 0 { above } else { area[1].max(0) };
        self.label((area[0] - thick).max(0), y, color, rank);
    }

    /// A number on a coloured ground.
    fn label(&mut self, x: i64, y: i64, color: Color, number: usize) {
        let text = number.to_string();
        let width = text_width(&text) + 4;
        self.fill([x - 1, y - 1, width + 2, label_height() + 2], INK);
        self.fill([x, y, width, label_height()], color);
        self.text(x + 2, y + 2, &text, INK);
    }

    /// Digits and what numbers need besides; other characters stay blank.
    fn text(&mut self, x: i64, y: i64, text: &str, color: Color) {
        for (index, character) in text.chars().enumerate() {
            let rows = FONT.iter().find(|(known, _)| *known == character).map_or([0; 7], |(_, rows)| *rows);
            for (row, bits) in rows.iter().enumerate() {
                for column in (0..5).filter(|column| bits >> (4 - column) & 1 == 1) {
                    let left = x + (index as i64 * 6 + column) * ZOOM;
                    self.fill([left, y + row as i64 * ZOOM, ZOOM, ZOOM], color);
                }
            }
        }
    }

    /// A strip of colours along the bottom of a plot.
    fn strip(&mut self, n: usize, paint: impl Fn(usize) -> Color) {
        let (width, height) = (self.width, self.height as i64);
        for x in 0..width {
            self.fill([x as i64, height - 16, 1, 16], paint(x * n / width));
        }
    }

    /// The same on white, with a bar of the colours from `high` to `low` at its right.
    fn with_bar(self, low: f64, high: f64, paint: impl Fn(f64) -> Color) -> Canvas {
        if low > high {
            return self;
        }
        const MARGIN: i64 = 10;
        const BAR: i64 = 18;
        let ticks = [high, low + 0.75 * (high - low), low + 0.5 * (high - low), low + 0.25 * (high - low), low];
        let texts = ticks.map(tick_text);
        let widest = texts.iter().map(|text| text_width(text)).max().unwrap_or(0);
        let (inner_width, inner_height) = (self.width as i64, (self.height as i64).max(5 * label_height()));
        let (width, height) = (inner_width + 4 * MARGIN + BAR + widest, inner_height + 2 * MARGIN);
        let mut canvas = Canvas::new(width as usize, height as usize);
        canvas.fill([0, 0, width, height], WHITE);
        for y in 0..self.height {
            let (from, to) = (y * self.width * 3, ((y + MARGIN as usize) * canvas.width + MARGIN as usize) * 3);
            canvas.data[to..to + self.width * 3].copy_from_slice(&self.data[from..from + self.width * 3]);
        }
        let left = inner_width + 2 * MARGIN;
        for y in 0..inner_height {
            let part = y as f64 / (inner_height - 1) as f64;
            canvas.fill([left, MARGIN + y, BAR, 1], paint(high + (low - high) * part));
        }
        for (index, text) in texts.iter().enumerate() {
            let y = MARGIN + (inner_height - 1) * index as i64 / 4;
            canvas.fill([left + BAR, y, 4, 1], INK);
            let top = (y - 7 * ZOOM / 2).clamp(MARGIN, MARGIN + inner_height - 7 * ZOOM);
            canvas.text(left + BAR + MARGIN, top, text, INK);
        }
        canvas
    }
}

/// A value at the bar, in few characters.
fn tick_text(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        magnitude if (1e-2..1e4).contains(&magnitude) => {
            format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').into()
        }
        _ => format!("{value:.2e}"),
    }
}

/// Pixels of a dot of a character.
const ZOOM: i64 = 2;

fn text_width(text: &str) -> i64 {
    (text.chars().count() as i64 * 6 - 1).max(0) * ZOOM
}

fn label_height() -> i64 {
    7 * ZOOM + 4
}

/// Rows of five dots, the left one the highest bit.
const FONT: [(char, [u8; 7]); 14] = [
    ('0', [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e]),
    ('1', [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e]),
    ('2', [0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f]),
    ('3', [0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e]),
    ('4', [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02]),
    ('5', [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e]),
    ('6', [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e]),
    ('7', [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08]),
    ('8', [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e]),
    ('9', [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c]),
    ('.', [0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c]),
    ('-', [0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00]),
    ('+', [0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00]),
    ('e', [0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colours_are_those_of_viridis() {
        // matplotlib: (68, 1, 84), (33, 145, 140), (253, 231, 37).
        for (t, expected) in [(0.0, [68, 1, 84]), (0.5, [33, 145, 140]), (1.0, [253, 231, 37])] {
            let got = perceptual(t);
            assert!(got.iter().zip(expected).all(|(&a, b): (&u8, u8)| a.abs_diff(b) <= 6), "{t}: {got:?}");
        }
        let brightness =
            |t: f64| perceptual(t).iter().zip([0.299, 0.587, 0.114]).map(|(&c, w)| f64::from(c) * w).sum::<f64>();
        assert!((0..20).all(|k| brightness(f64::from(k) / 20.0) < brightness(f64::from(k + 1) / 20.0)));
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [1.0, -0.25, 0.0, 123.456, 1e-6, 2.5e7].map(tick_text),
            ["1", "-0.25", "0", "123.456", "1.00e-6", "2.50e7"]
        );
    }

    #[test]
    fn marks_may_lie_outside() {
        let mut canvas = Canvas::new(40, 30);
        for x in [-1000, -5, 0, 35, 1000] {
            canvas.mark([x, x, 10, 10], WHITE, 12345);
        }
        canvas.mark([i64::MIN / 4, 0, i64::MAX / 4, 3], WHITE, 1);
        assert_eq!(canvas.data.len(), 40 * 30 * 3);
    }
}
