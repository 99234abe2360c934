//! Pictures as SVG: curves over sizes or threads, and maps of choices.
//!
//! What is told apart by colour (those of Okabe and Ito, for all kinds of colour vision) is told apart by its mark too.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints, IntoLogRange};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::experiments::Method;

/// A part of a picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const INK: RGBColor = RGBColor(30, 30, 30);
const PALE: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(222, 222, 222);
/// Of the palette of Okabe and Ito: vermillion, blue, bluish green; and orange, sky blue, yellow for areas.
const LINES: [RGBColor; 3] = [RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 158, 115)];
const AREAS: [RGBColor; 3] = [RGBColor(230, 159, 0), RGBColor(86, 180, 233), RGBColor(240, 228, 66)];

const WIDTH: u32 = 960;
const HEIGHT: u32 = 430;
/// Pixels above and below the panels.
const HEAD: u32 = 54;
const FOOT: u32 = 34;

/// The words above a picture.
pub struct Head {
    /// What it shows.
    pub title: String,
    /// On which machine, and which sizes stand for all.
    pub about: String,
}

/// Which line a curve is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The method: colour and kind of mark.
    pub method: Method,
    /// Whether the mark is filled and the line thick.
    pub filled: bool,
}

/// One curve of a picture: its name, its style and its points.
pub struct Curve {
    /// Its name in the legend.
    pub name: &'static str,
    /// How it is drawn.
    pub style: Style,
    /// Points, ascending.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one another.
pub struct Panel {
    /// What they are of.
    pub title: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// The axes of curves, both logarithmic.
pub struct Axes {
    /// Title of the axis across.
    pub across: String,
    /// Values told on it.
    pub ticks: Vec<f64>,
    /// Title of the axis upwards.
    pub upright: String,
    /// A value upwards to draw a line at.
    pub line: Option<f64>,
}

/// A cell of a map: the place of its column and row, and what was taken there, if anything can be.
pub struct Cell {
    /// The column, from the left.
    pub column: usize,
    /// The row, from below.
    pub row: usize,
    /// What was taken; `None` where every method refuses.
    pub took: Option<Method>,
}

/// A map of choices, over template and image size.
pub struct Map {
    /// What it is of.
    pub title: String,
    /// The cells that there is an answer for.
    pub cells: Vec<Cell>,
}

fn place(method: Method) -> usize {
    match method {
        Method::Direct | Method::Auto => 0,
        Method::Fourier => 1,
        Method::Separable => 2,
    }
}

fn words(size: i32, color: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&color)
}

fn centred(size: i32, color: RGBColor) -> TextStyle<'static> {
    words(size, color).pos(Pos::new(HPos::Center, VPos::Center))
}

/// Draws a picture of so many panels side by side.
fn picture(
    head: &Head,
    panels: usize,
    draw: impl Fn(usize, &Area<'_>) -> Result<(), String>,
    foot: impl Fn(&Area<'_>) -> Result<(), String>,
) -> Result<String, String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE).map_err(told)?;
        let (above, rest) = root.split_vertically(HEAD);
        above.draw(&Text::new(head.title.clone(), (14, 10), words(17, INK))).map_err(told)?;
        above.draw(&Text::new(head.about.clone(), (14, 33), words(12, PALE))).map_err(told)?;
        let (middle, below) = rest.split_vertically(HEIGHT - HEAD - FOOT);
        for (at, area) in middle.split_evenly((1, panels)).iter().enumerate() {
            draw(at, area)?;
        }
        foot(&below)?;
        root.present().map_err(told)?;
    }
    Ok(text)
}

fn told(error: impl Display) -> String {
    format!("drawing: {error}")
}

/// A picture of curves, whose panels share their axes.
pub fn curves(head: &Head, panels: &[Panel], axes: &Axes) -> Result<String, String> {
    let points = || panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
    let (left, right) = bounds(points().map(|point| point.0).chain(axes.ticks.iter().copied()))?;
    let (low, high) = bounds(points().map(|point| point.1).chain(axes.line))?;
    let across = (left / 1.08, right * 1.08);
    let upright = (low / 1.25, high * 1.25);
    let draw = |at: usize, area: &Area<'_>| {
        let panel = &panels[at];
        let mut chart = ChartBuilder::on(area)
            .caption(&panel.title, words(14, INK))
            .margin_left(6)
            .margin_right(14)
            .margin_bottom(4)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(
                (across.0..across.1).log_scale().with_key_points(axes.ticks.clone()),
                (upright.0..upright.1).log_scale().with_key_points(ticks(upright.0, upright.1)),
            )
            .map_err(told)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .axis_style(PALE)
            .label_style(words(12, INK))
            .axis_desc_style(words(13, INK))
            .x_desc(axes.across.as_str())
            .y_desc(axes.upright.as_str())
            .x_label_formatter(&|value| number(*value))
            .y_label_formatter(&|value| number(*value))
            .draw()
            .map_err(told)?;
        if let Some(value) = axes.line {
            let ends = [(across.0, value), (across.1, value)];
            chart.draw_series(LineSeries::new(ends, INK.stroke_width(1))).map_err(told)?;
        }
        for curve in &panel.curves {
            let color = LINES[place(curve.style.method)];
            let wide = if curve.style.filled { 2 } else { 1 };
            chart.draw_series(LineSeries::new(curve.points.clone(), color.stroke_width(wide))).map_err(told)?;
            for &point in &curve.points {
                let pixel = chart.backend_coord(&point);
                let (x, y) = area.get_base_pixel();
                mark(area, (pixel.0 - x, pixel.1 - y), curve.style)?;
            }
        }
        Ok(())
    };
    let foot = |area: &Area<'_>| {
        let Some(panel) = panels.first() else { return Ok(()) };
        let step = WIDTH as i32 / (panel.curves.len() as i32 + 1).max(1);
        for (at, curve) in panel.curves.iter().enumerate() {
            let x = step / 2 + at as i32 * step;
            let wide = if curve.style.filled { 2 } else { 1 };
            let color = LINES[place(curve.style.method)];
            area.draw(&PathElement::new([(x, 15), (x + 36, 15)], color.stroke_width(wide))).map_err(told)?;
            mark(area, (x + 18, 15), curve.style)?;
            let style = words(13, INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(curve.name, (x + 44, 15), style)).map_err(told)?;
        }
        Ok(())
    };
    picture(head, panels.len(), draw, foot)
}

/// The least and the largest of positive values.
fn bounds(values: impl Iterator<Item = f64>) -> Result<(f64, f64), String> {
    let wide = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    match values.filter(|value| *value > 0.0 && value.is_finite()).fold((f64::INFINITY, 0.0), wide) {
        (low, high) if low <= high => Ok((low, high)),
        _ => Err("expected values above 0 to draw, got none".into()),
    }
}

/// A curve's mark: circles for the direct method, triangles for Fourier, squares for separable.
fn mark(area: &Area<'_>, (x, y): (i32, i32), Style { method, filled }: Style) -> Result<(), String> {
    let color = LINES[place(method)];
    let fill = if filled { color } else { WHITE };
    match method {
        Method::Direct | Method::Auto => {
            area.draw(&Circle::new((x, y), 4, fill.filled())).map_err(told)?;
            area.draw(&Circle::new((x, y), 4, color.stroke_width(1))).map_err(told)
        }
        Method::Fourier => {
            let corners = [(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)];
            area.draw(&Polygon::new(corners, fill.filled())).map_err(told)?;
            let around = [corners[0], corners[1], corners[2], corners[0]];
            area.draw(&PathElement::new(around, color.stroke_width(1))).map_err(told)
        }
        Method::Separable => {
            area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], fill.filled())).map_err(told)?;
            area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], color.stroke_width(1))).map_err(told)
        }
    }
}

/// Values to tell between two: powers of ten, with 2 and 5 of each where there is room.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// A number in few digits.
fn number(value: f64) -> String {
    let rounded = format!("{value:.4}");
    rounded.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A picture of maps, which share their axes: templates across, images upwards.
pub fn maps(head: &Head, maps: &[Map], templates: &[usize], images: &[usize]) -> Result<String, String> {
    let (columns, rows) = (templates.len().max(1) as i32, images.len().max(1) as i32);
    let draw = |at: usize, area: &Area<'_>| {
        let map = &maps[at];
        let (wide, high) = area.dim_in_pixel();
        let (left, top, right, bottom) = (70, 28, 14, 46);
        let (cell, line) = ((wide as i32 - left - right) / columns, (high as i32 - top - bottom) / rows);
        let corner = |column: i32, row: i32| (left + column * cell, top + (rows - row) * line);
        let middle = left + columns * cell / 2;
        area.draw(&Text::new(map.title.as_str(), (middle, 14), centred(14, INK))).map_err(told)?;
        // What no cell covers was not asked for.
        let all = [corner(0, 0), corner(columns, rows)];
        area.draw(&Rectangle::new(all, RGBColor(245, 245, 245).filled())).map_err(told)?;
        for run in runs(&map.cells) {
            let first = corner(run.columns.start as i32, run.row as i32);
            let last = corner(run.columns.end as i32, run.row as i32 + 1);
            let fill = run.took.map_or(WHITE, |method| AREAS[place(method)]);
            area.draw(&Rectangle::new([first, last], fill.filled())).map_err(told)?;
            for column in run.columns {
                let (x, y) = corner(column as i32, run.row as i32);
                sign(area, (x + cell / 2, y - line / 2), run.took)?;
            }
        }
        // White lines between the cells.
        for column in 0..=columns {
            let ends = [corner(column, 0), corner(column, rows)];
            area.draw(&PathElement::new(ends, WHITE.stroke_width(1))).map_err(told)?;
        }
        for row in 0..=rows {
            let ends = [corner(0, row), corner(columns, row)];
            area.draw(&PathElement::new(ends, WHITE.stroke_width(1))).map_err(told)?;
        }
        // As many labels as have room.
        let every = (26 / cell.max(1) + 1) as usize;
        for (column, side) in templates.iter().enumerate().step_by(every) {
            let (x, y) = corner(column as i32, 0);
            area.draw(&Text::new(side.to_string(), (x + cell / 2, y + 11), centred(12, INK))).map_err(told)?;
        }
        for (row, side) in images.iter().enumerate() {
            let (x, y) = corner(0, row as i32);
            let style = words(12, INK).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw(&Text::new(side.to_string(), (x - 6, y - line / 2), style)).map_err(told)?;
        }
        let below = top + rows * line + 30;
        area.draw(&Text::new("template side (samples)", (middle, below), centred(13, INK))).map_err(told)?;
        let upwards = ("sans-serif", 13).into_font().transform(FontTransform::Rotate270).color(&INK);
        let upwards = upwards.pos(Pos::new(HPos::Center, VPos::Center));
        area.draw(&Text::new("image side (samples)", (18, top + rows * line / 2), upwards)).map_err(told)
    };
    let foot = |area: &Area<'_>| {
        let entries = [
            (Some(Method::Direct), "direct"),
            (Some(Method::Fourier), "Fourier"),
            (Some(Method::Separable), "separable"),
            (None, "refused"),
        ];
        let used = |took: &Option<Method>| maps.iter().flat_map(|map| &map.cells).any(|cell| cell.took == *took);
        for (at, (took, name)) in entries.into_iter().filter(|(took, _)| used(took)).enumerate() {
            let x = 70 + at as i32 * 150;
            let fill = took.map_or(WHITE, |method| AREAS[place(method)]);
            area.draw(&Rectangle::new([(x, 6), (x + 24, 24)], fill.filled())).map_err(told)?;
            sign(area, (x + 12, 15), took)?;
            let style = words(13, INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(name, (x + 32, 15), style)).map_err(told)?;
        }
        Ok(())
    };
    picture(head, maps.len(), draw, foot)
}

/// Cells of a row side by side where the same was taken.
#[derive(Debug, PartialEq)]
struct Run {
    row: usize,
    columns: Range<usize>,
    took: Option<Method>,
}

/// The runs of cells, row by row.
fn runs(cells: &[Cell]) -> Vec<Run> {
    let mut cells: Vec<&Cell> = cells.iter().collect();
    cells.sort_by_key(|cell| (cell.row, cell.column));
    let mut runs: Vec<Run> = Vec::new();
    for Cell { column, row, took } in cells {
        match runs.last_mut() {
            Some(run) if (run.row, run.columns.end, run.took) == (*row, *column, *took) => run.columns.end += 1,
            _ => runs.push(Run { row: *row, columns: *column..*column + 1, took: *took }),
        }
    }
    runs
}

/// What tells cells apart besides their colours: nothing for direct, a dot for Fourier, a bar for separable, a cross
/// where there is nothing.
fn sign(area: &Area<'_>, (x, y): (i32, i32), took: Option<Method>) -> Result<(), String> {
    match took {
        Some(Method::Direct | Method::Auto) => Ok(()),
        Some(Method::Fourier) => area.draw(&Circle::new((x, y), 2, INK.filled())).map_err(told),
        Some(Method::Separable) => {
            area.draw(&PathElement::new([(x - 3, y), (x + 3, y)], INK.stroke_width(2))).map_err(told)
        }
        None => {
            for ends in [[(x - 3, y - 3), (x + 3, y + 3)], [(x - 3, y + 3), (x + 3, y - 3)]] {
                area.draw(&PathElement::new(ends, PALE.stroke_width(1))).map_err(told)?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cells_side_by_side_are_one_run() {
        let cell = |column, row, took| Cell { column, row, took };
        let [direct, fourier] = [Some(Method::Direct), Some(Method::Fourier)];
        let cells =
            [cell(1, 0, direct), cell(0, 0, direct), cell(2, 0, fourier), cell(2, 1, fourier), cell(0, 1, None)];
        let run = |row, columns, took| Run { row, columns, took };
        let expected = [run(0, 0..2, direct), run(0, 2..3, fourier), run(1, 0..1, None), run(1, 2..3, fourier)];
        assert_eq!(runs(&cells), expected);
    }

    #[test]
    fn few_values_are_told() {
        assert_eq!(ticks(0.9, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ticks(0.02, 300.0), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!([0.01, 0.5, 1.0, 20.0, 2000.0].map(number), ["0.01", "0.5", "1", "20", "2000"]);
        assert!(bounds([0.0, f64::NAN].into_iter()).is_err());
        assert_eq!(bounds([3.0, 0.5, 2.0].into_iter()), Ok((0.5, 3.0)));
    }
}
