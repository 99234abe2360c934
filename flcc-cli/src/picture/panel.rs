//! Planes of samples side by side, each with its axes and a caption, and a legend below them all.

use std::ops::Range;

use super::axes::{self, Axis, Drawn, Side};
use super::canvas::{Area, Canvas, Color, INK, shortened, text_width};
use crate::error::Error;

/// The length that the longer side of a small plane is enlarged to, about.
const COMFORTABLE: usize = 600;
/// The largest enlargement of a sample.
const LARGEST_FACTOR: usize = 96;
/// The least that a side is enlarged to.
const LEAST: usize = 40;
/// The length that a plane is enlarged to at most where its boxes are small.
const ROOMY: usize = 2000;
/// What no side of a picture, and no picture, has more of.
const MOST_SIDE: i64 = 30_000;
const MOST_PIXELS: i64 = 64_000_000;
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
    /// The look of the samples in rows and columns: of one, or of a cell where the plane is shrunk.
    pub look: Box<dyn Fn(Range<usize>, Range<usize>) -> Look + 'a>,
}

/// The rows and columns of a cell's samples.
pub fn each(rows: Range<usize>, columns: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    rows.flat_map(move |y| columns.clone().map(move |x| (y, x)))
}

/// How samples of an axis are drawn: each in `pixels` of them, or a cell of so many `samples` in one. One of both is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub pixels: i64,
    pub samples: usize,
}

impl Scale {
    /// How long so many samples are.
    fn drawn(self, count: usize) -> i64 {
        count.div_ceil(self.samples) as i64 * self.pixels
    }

    /// The pixels from the first sample to the last one's end, where any part of a cell counts as the cell.
    pub fn span(self, first: i64, count: i64) -> (i64, i64) {
        let samples = self.samples as i64;
        let (from, to) = (first.div_euclid(samples), (first + count + samples - 1).div_euclid(samples));
        (from * self.pixels, to * self.pixels)
    }

    /// The pixel of a place between samples, both from the first one's beginning.
    pub fn place(self, at: f64) -> f64 {
        at / self.samples as f64 * self.pixels as f64
    }
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
    /// No swatch.
    None,
}

/// A picture whose planes are drawn and whose sizes are known.
pub struct Laid {
    pub canvas: Canvas,
    /// Where each plane lies.
    pub areas: Vec<Area>,
    /// How its rows and columns are drawn.
    pub scales: [Scale; 2],
    /// The size of letters.
    pub size: f64,
    /// Where the room at the right begins.
    pub right: i64,
}

/// How much rows and columns are enlarged: alike, at least by `wish` while the plane does not get too long, but a side
/// of few samples more.
fn factors(height: usize, width: usize, wish: usize) -> [usize; 2] {
    let side = height.max(width).max(1);
    let both = ((COMFORTABLE + side / 2) / side).clamp(1, LARGEST_FACTOR);
    let both = both.max(wish.min(ROOMY / side));
    [height, width].map(|length| if length * both < LEAST { LEAST.div_ceil(length.max(1)) } else { both })
}

/// The enlargement that gives sides of so many samples room to be seen beside their lines.
pub fn roomy(samples: usize) -> usize {
    const ROOM: usize = 24;
    ROOM.div_ceil(samples.max(1))
}

/// How rows and columns are drawn where a cell of so many samples is a pixel: a side of few of them has smaller cells.
fn scales(height: usize, width: usize, wish: usize, cell: usize) -> [Scale; 2] {
    if cell < 2 {
        return factors(height, width, wish).map(|factor| Scale { pixels: factor as i64, samples: 1 });
    }
    [height, width].map(|length| {
        let samples = cell.min(length / LEAST).max(1);
        let pixels = if length < LEAST { LEAST.div_ceil(length.max(1)) as i64 } else { 1 };
        Scale { pixels, samples }
    })
}

/// The size of letters beside a plane: its shorter side says what is large.
fn letters(shorter: i64) -> f64 {
    LETTERS * (shorter as f64 / 1000.0).clamp(1.0, 8.0)
}

/// Where the parts of a picture lie.
struct Layout {
    scales: [Scale; 2],
    size: f64,
    axes: Vec<(Axis, Axis)>,
    areas: Vec<Area>,
    /// Where the room at the right begins.
    free: i64,
    /// Where the legend begins, and its rows.
    below: i64,
    rows: Vec<(i64, i64, i64)>,
    /// The sizes of the whole picture.
    width: i64,
    height: i64,
}

/// Draws planes of one shape, with `right` times the size of letters left free at the right of them: small ones
/// enlarged, by `wish` if there is room, and those that would make too large a picture shrunk.
///
/// # Errors
/// A picture that takes more memory than there is.
pub fn lay(
    [height, width]: [usize; 2],
    panels: &[Panel<'_>],
    right: f64,
    legend: &[Entry],
    wish: usize,
) -> Result<Laid, Error> {
    let across = width.saturating_mul(panels.len().max(1));
    let wish = wish.min(ROOMY / height.max(across).max(1));
    let pixels = (height as f64 * across as f64 / MOST_PIXELS as f64).sqrt() as usize;
    let mut cell = (height.max(across) / MOST_SIDE as usize).max(pixels).max(1);
    let fits = |plan: &Layout| plan.width.max(plan.height) <= MOST_SIDE && plan.width * plan.height <= MOST_PIXELS;
    let mut plan = layout([height, width], panels, right, legend, scales(height, width, wish, cell));
    while !fits(&plan) && cell < height.max(width) {
        cell += (cell / 16).max(1);
        plan = layout([height, width], panels, right, legend, scales(height, width, wish, cell));
    }
    let Layout { scales, size, axes, areas, free, below, rows, .. } = plan;
    let (margin, line) = (size as i64, (1.6 * size) as i64);
    let mut canvas = Canvas::new(plan.width, plan.height)?;
    let cells = |scale: Scale, length: usize| {
        let cell = move |from: usize| (from..(from + scale.samples).min(length), scale.drawn(from), scale.pixels);
        (0..length).step_by(scale.samples).map(cell)
    };
    for ((panel, area), (down, across)) in panels.iter().zip(&areas).zip(&axes) {
        canvas.text(area[0], area[1] - line / 2 - margin / 4, 0.0, size, &panel.caption, INK);
        for (rows, y, tall) in cells(scales[0], height) {
            for (columns, x, wide) in cells(scales[1], width) {
                let at = [area[0] + x, area[1] + y, wide, tall];
                match (panel.look)(rows.clone(), columns) {
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
    Ok(Laid { canvas, areas, scales, size, right: free })
}

/// Where everything lies where rows and columns are drawn so.
fn layout(
    [height, width]: [usize; 2],
    panels: &[Panel<'_>],
    right: f64,
    legend: &[Entry],
    scales: [Scale; 2],
) -> Layout {
    const DOWN: &str = "row (samples)";
    let (tall, wide) = (scales[0].drawn(height), scales[1].drawn(width));
    let size = letters(tall.min(wide));
    let margin = size as i64;
    let line = (1.6 * size) as i64;
    let axes: Vec<(Axis, Axis)> = panels
        .iter()
        .map(|panel| {
            let axis = |title: &str, first: i64, count: usize, pixels: i64, scale: Scale| {
                let mut axis = Axis::samples(title, first, count, pixels, size);
                // The last cell may have fewer samples and is as long.
                axis.to = axis.from + (count.div_ceil(scale.samples) * scale.samples) as f64;
                axis
            };
            let down = axis(DOWN, panel.first[0], height, tall, scales[0]);
            (down, axis("column (samples)", panel.first[1], width, wide, scales[1]))
        })
        .collect();
    let captioned = panels.iter().any(|panel| !panel.caption.is_empty());
    // A side that is shorter than its title has room above.
    let over = (text_width(DOWN, size) as i64 - tall) / 2 + margin / 2;
    let top = (margin + if captioned { line } else { 0 }).max(over);
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
    let height = below + count * line + margin / 2;
    Layout { scales, size, axes, areas, free, below, rows, width: total, height }
}

/// The row, the place and the width of each entry of a legend: one behind the other in one row, or in columns.
pub fn rows(legend: &[Entry], width: i64, size: f64) -> Vec<(i64, i64, i64)> {
    let wide = |entry: &Entry| {
        (swatch_width(&entry.swatch, size) + text_width(&shortened(&entry.name, 48), size) + 2.5 * size) as i64
    };
    let all: Vec<i64> = legend.iter().map(wide).collect();
    let (total, widest) = (all.iter().sum::<i64>(), all.iter().copied().max().unwrap_or(0));
    if total <= width {
        let begins = all.iter().scan(0, |x, wide| Some(std::mem::replace(x, *x + wide)));
        return begins.zip(&all).map(|(x, wide)| (0, x, *wide)).collect();
    }
    let columns = (width / widest.max(1)).max(1);
    (0..).zip(&all).map(|(k, wide)| (k / columns, k % columns * widest, *wide)).collect()
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
        assert_eq!(factors(5, 5, 1), [96, 96]);
        assert_eq!(factors(303, 384, 1), [2, 2]);
        assert_eq!(factors(1080, 1920, 1), [1, 1]);
        assert_eq!(factors(1, 500, 1), [40, 1]);
        assert_eq!(factors(1, 1, 1), [96, 96]);
        assert_eq!(factors(7, 3000, 1), [6, 1]);
        // Small boxes want more, as far as there is room.
        assert_eq!(factors(172, 448, roomy(8)), [3, 3]);
        assert_eq!(factors(172, 448, roomy(1)), [4, 4]);
        assert_eq!(factors(303, 384, roomy(52)), [2, 2]);
        assert_eq!(factors(1080, 1920, roomy(8)), [1, 1]);
    }

    #[test]
    fn large_planes_are_shrunk_by_whole_cells() {
        let [down, along] = scales(1, 3_000_000, 1, 103);
        assert_eq!((down, along), (Scale { pixels: 40, samples: 1 }, Scale { pixels: 1, samples: 103 }));
        assert_eq!(scales(20_000, 20_000, 1, 3).map(|scale| scale.drawn(20_000)), [6667; 2]);
        assert_eq!(along.span(-1, 2), (-1, 1));
        assert_eq!(along.span(103, 103), (1, 2));
        assert_eq!(down.span(-1, 3), (-40, 80));
    }

    #[test]
    fn no_picture_is_larger_than_the_bound() {
        for shape in [[1, 3_000_000], [3_000_000, 1], [1, 49_981], [20_000, 3], [9000, 9000], [30_000, 30_000]] {
            let panel = || Panel {
                caption: "slice 3 of 9".into(),
                first: [0, 0],
                look: Box::new(move |rows, columns| {
                    assert!(!rows.is_empty() && rows.end <= shape[0] && !columns.is_empty() && columns.end <= shape[1]);
                    Look::Shown([9, 9, 9])
                }),
            };
            for panels in [vec![panel()], vec![panel(), panel()]] {
                let laid = lay(shape, &panels, 9.0, &[], 1).unwrap();
                let (width, height) = (laid.canvas.width, laid.canvas.height);
                assert!(width.max(height) <= MOST_SIDE && width * height <= MOST_PIXELS, "{shape:?} {height}x{width}");
                // What is drawn is most of a long side, and margins stay small beside a short one.
                let [x, y, wide, tall] = laid.areas[0];
                assert!(shape[0].min(shape[1]) > 3 || width.min(height) < 800, "{shape:?} {height}x{width}");
                assert!(wide >= 40 && tall >= 40 && wide.max(tall) > 2000, "{shape:?} {x} {y} {wide} {tall}");
            }
        }
    }

    #[test]
    fn planes_lie_side_by_side_and_within() {
        for shape in [[1, 1], [1, 900], [900, 1], [5, 5], [30, 40], [1500, 20]] {
            let panel = || Panel {
                caption: "slice 3 of 9".into(),
                first: [-4, 1_000_000],
                look: Box::new(
                    |y, x| if (y.start + x.start) % 2 == 0 { Look::Missing } else { Look::Shown([9, 9, 9]) },
                ),
            };
            let legend: Vec<Entry> = (0..20)
                .map(|k| Entry { swatch: Swatch::Box(INK, k, "A".into()), name: "a long name of a template".into() })
                .collect();
            let laid = lay(shape, &[panel(), panel()], 8.0, &legend, 1).unwrap();
            let [a, b] = laid.areas[..] else { panic!("two planes") };
            assert!(a[0] > 0 && a[0] + a[2] < b[0] && b[0] + b[2] < laid.right && laid.right < laid.canvas.width);
            assert!(a[1] + a[3] < laid.canvas.height);
            assert_eq!([a[3], a[2]], [laid.scales[0].drawn(shape[0]), laid.scales[1].drawn(shape[1])]);
        }
    }
}
