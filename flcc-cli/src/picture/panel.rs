//! Planes of samples side by side, each with its axes and a caption, and a legend below them all.

use super::axes::{self, Axis, Drawn, Side};
use super::canvas::{Area, Canvas, Color, INK, shortened, text_width};

/// The length that the longer side of a small plane is enlarged to, about.
const COMFORTABLE: usize = 600;
/// The largest enlargement of a sample.
const LARGEST_FACTOR: usize = 96;
/// The least that a side is enlarged to.
const LEAST: usize = 40;
/// The size of letters where a picture is not large.
pub const LETTERS: f64 = 13.0;

/// How a sample looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A colour.
    Shown(Color),
    /// It is no number.
    Missing,
}

/// One plane.
pub struct Panel<'a> {
    pub caption: String,
    /// The position of its first sample.
    pub first: [i64; 2],
    /// The look of the sample in a row and a column.
    pub look: Box<dyn Fn(usize, usize) -> Look + 'a>,
}

/// An entry of the legend.
#[derive(Clone)]
pub struct Entry {
    pub swatch: Swatch,
    pub name: String,
}

/// What stands before a name in the legend.
#[derive(Clone)]
pub enum Swatch {
    /// A box's line: colour, dash, and what stands in it.
    Box(Color, i64, String),
    /// What is no number.
    Missing,
    /// Nothing.
    None,
}

/// A picture whose planes are drawn and whose sizes are known.
pub struct Laid {
    pub canvas: Canvas,
    /// Where each plane lies.
    pub areas: Vec<Area>,
    /// How much its rows and columns are enlarged.
    pub factors: [i64; 2],
    /// The size of letters.
    pub size: f64,
    /// Where the room at the right begins.
    pub right: i64,
}

/// How much rows and columns are enlarged: alike, but a side of few samples more.
fn factors(height: usize, width: usize) -> [i64; 2] {
    let side = height.max(width).max(1);
    let both = ((COMFORTABLE + side / 2) / side).clamp(1, LARGEST_FACTOR);
    [height, width].map(|length| if length * both < LEAST { LEAST.div_ceil(length.max(1)) } else { both } as i64)
}

/// The size of letters for a drawing this long.
pub fn letters(longest: i64) -> f64 {
    LETTERS * (longest as f64 / 1400.0).clamp(1.0, 12.0)
}

/// Draws planes of one shape, with `right` times the size of letters left free at the right of them.
pub fn lay([height, width]: [usize; 2], panels: &[Panel<'_>], right: f64, legend: &[Entry]) -> Laid {
    let factors = factors(height, width);
    let (tall, wide) = (height as i64 * factors[0], width as i64 * factors[1]);
    let size = letters(tall.max(wide * panels.len() as i64));
    let margin = size as i64;
    let line = (1.6 * size) as i64;
    let axes: Vec<(Axis, Axis)> = panels
        .iter()
        .map(|panel| {
            // A side that is shorter than its title has a shorter one.
            let title = if text_width("row (samples)", size) < tall as f64 { "row (samples)" } else { "row" };
            let down = Axis::samples(title, panel.first[0], height, tall, size);
            (down, Axis::samples("column (samples)", panel.first[1], width, wide, size))
        })
        .collect();
    let captioned = panels.iter().any(|panel| !panel.caption.is_empty());
    let top = margin + if captioned { line } else { 0 };
    // A title turned by a quarter and a caption want room where a plane is small.
    let room = |panel: &Panel<'_>| (text_width(&panel.caption, size) as i64).max((9.0 * size) as i64).max(wide);
    let upright = if right > 2.0 { tall.max((9.0 * size) as i64) } else { tall };
    let mut x = margin / 2;
    let mut areas = Vec::new();
    for (panel, (down, _)) in panels.iter().zip(&axes) {
        x += down.room(size);
        areas.push([x, top, wide, tall]);
        x += room(panel) + margin;
    }
    let (free, free_width) = (x, (right * size) as i64);
    let total = (free + free_width).max((24.0 * size) as i64);
    let rows = rows(legend, total - 2 * margin, size);
    let below = top + upright + axes::room_below(size) + size as i64 / 2;
    let count = rows.last().map_or(0, |(row, ..)| row + 1);
    let mut canvas = Canvas::new(total, below + count * line + margin / 2);
    for ((panel, area), (down, across)) in panels.iter().zip(&areas).zip(&axes) {
        canvas.text(area[0], top - line / 2 - margin / 4, 0.0, size, &panel.caption, INK);
        for y in 0..height {
            for x in 0..width {
                let at = [area[0] + x as i64 * factors[1], area[1] + y as i64 * factors[0], factors[1], factors[0]];
                match (panel.look)(y, x) {
                    Look::Shown(color) => canvas.fill(at, color),
                    Look::Missing => canvas.hatch(at),
                }
            }
        }
        axes::draw(&mut canvas, *area, Some(across), (down, Side::Left), true, &Drawn::default(), size);
    }
    for ((row, x, _), entry) in rows.iter().zip(legend) {
        draw_entry(&mut canvas, margin + x, below + row * line, size, entry);
    }
    Laid { canvas, areas, factors, size, right: free }
}

/// The row, the place and the width of each entry of a legend.
pub fn rows(legend: &[Entry], width: i64, size: f64) -> Vec<(i64, i64, i64)> {
    let (mut row, mut x) = (0, 0);
    let mut rows = Vec::new();
    for entry in legend {
        let wide =
            (swatch_width(&entry.swatch, size) + text_width(&shortened(&entry.name, 48), size) + 2.5 * size) as i64;
        if x > 0 && x + wide > width {
            (row, x) = (row + 1, 0);
        }
        rows.push((row, x, wide));
        x += wide;
    }
    rows
}

fn swatch_width(swatch: &Swatch, size: f64) -> f64 {
    match swatch {
        Swatch::Box(_, _, text) => text_width(text, size) + size,
        Swatch::Missing => 1.6 * size,
        Swatch::None => 0.0,
    }
}

/// Draws an entry of the legend whose upper left corner this is.
pub fn draw_entry(canvas: &mut Canvas, x: i64, y: i64, size: f64, entry: &Entry) {
    let (wide, tall) = (swatch_width(&entry.swatch, size) as i64, (1.1 * size) as i64);
    let top = y + (0.2 * size) as i64;
    match &entry.swatch {
        Swatch::Box(color, dash, text) => {
            let thick = ((size / 7.0) as i64).max(1);
            canvas.outline([x + thick, top, wide, tall], thick, *color, *dash);
            canvas.text(x + thick + wide / 2, top + tall / 2, 0.5, size, text, INK);
        }
        Swatch::Missing => canvas.hatch([x, top, wide, tall]),
        Swatch::None => {}
    }
    canvas.text(x + wide + size as i64, top + tall / 2, 0.0, size, &shortened(&entry.name, 48), INK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_planes_are_enlarged_by_whole_factors() {
        assert_eq!(factors(5, 5), [96, 96]);
        assert_eq!(factors(303, 384), [2, 2]);
        assert_eq!(factors(1080, 1920), [1, 1]);
        assert_eq!(factors(1, 500), [40, 1]);
        assert_eq!(factors(1, 1), [96, 96]);
        assert_eq!(factors(7, 3000), [6, 1]);
    }

    #[test]
    fn planes_lie_side_by_side_and_within() {
        for shape in [[1, 1], [1, 900], [900, 1], [5, 5], [30, 40], [1500, 20]] {
            let panel = || Panel {
                caption: "slice 3 of 9".into(),
                first: [-4, 1_000_000],
                look: Box::new(|y, x| if (y + x) % 2 == 0 { Look::Missing } else { Look::Shown([9, 9, 9]) }),
            };
            let legend: Vec<Entry> = (0..20)
                .map(|k| Entry { swatch: Swatch::Box(INK, k, "A".into()), name: "a long name of a template".into() })
                .collect();
            let laid = lay(shape, &[panel(), panel()], 8.0, &legend);
            let [a, b] = laid.areas[..] else { panic!("two planes") };
            assert!(a[0] > 0 && a[0] + a[2] < b[0] && b[0] + b[2] < laid.right && laid.right < laid.canvas.width);
            assert!(a[1] + a[3] < laid.canvas.height);
            assert_eq!([a[3], a[2]], [shape[0] as i64 * laid.factors[0], shape[1] as i64 * laid.factors[1]]);
        }
    }
}
