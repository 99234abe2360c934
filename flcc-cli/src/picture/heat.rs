//! A map in colours, with a bar that tells the values.

use std::ops::Range;

use flcc_runtime::Best;

use super::axes::{self, Axis, Drawn, Side};
use super::canvas::{Canvas, Color};
use super::line;
use super::panel::{self, Entry, Laid, Look, Panel, Swatch};
use super::scene::Heat;
use crate::error::Error;

/// The picture of a map: of a volume the slice of the best score and beside it the best of each column of slices, if
/// there are several.
///
/// # Errors
/// A picture that takes more memory than there is.
pub fn picture(heat: &Heat<'_>) -> Result<Canvas, Error> {
    let (map, minimum) = (heat.map, heat.map.best() == Best::Smallest);
    if map.shape().axes() == 1 {
        return line::heat(heat);
    }
    let [d, h, w] = map.shape().padded();
    let better = |a: f64, b: f64| if minimum { a < b } else { a > b };
    let mut best: Option<(usize, f64)> = None;
    let (mut low, mut high, mut missing) = (f64::INFINITY, f64::NEG_INFINITY, false);
    for index in 0..map.shape().len() {
        let score = map.get(index);
        if !score.is_finite() {
            missing = true;
            continue;
        }
        (low, high) = (low.min(score), high.max(score));
        if best.is_none_or(|(_, top)| better(score, top)) {
            best = Some((index, score));
        }
    }
    let slice = best.map_or(d / 2, |(index, _)| index / (h * w));
    // Halves, so that no range overflows.
    let tone = move |score: f64| if high > low { (score / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
    let paint = move |score: f64| {
        if !score.is_finite() {
            return Look::Missing;
        }
        Look::Shown(perceptual(if minimum { 1.0 - tone(score) } else { tone(score) }))
    };
    let best_of = move |slices: Range<usize>, rows: Range<usize>, columns: Range<usize>| {
        let all =
            slices.flat_map(|z| panel::each(rows.clone(), columns.clone()).map(move |(y, x)| (z * h + y) * w + x));
        let finite = all.map(|index| map.get(index)).filter(|score| score.is_finite());
        finite.reduce(|a, b| if better(b, a) { b } else { a }).unwrap_or(f64::NAN)
    };
    let first = |axis: usize| heat.first.get(axis).copied().unwrap_or(0);
    let axes = map.shape().axes();
    let origin = [first(axes - 2), first(axes - 1)];
    let mut panels = Vec::new();
    let volume = axes == 3;
    let last = first(0) + d as i64 - 1;
    let told = format!("slice {} (of {} to {last})", first(0) + slice as i64, first(0));
    panels.push(Panel {
        caption: if volume { told } else { String::new() },
        first: origin,
        look: Box::new(move |rows, columns| paint(best_of(slice..slice + 1, rows, columns))),
    });
    if d > 1 {
        let what = if minimum { "minimum" } else { "maximum" };
        panels.push(Panel {
            caption: format!("{what} over all slices"),
            first: origin,
            look: Box::new(move |rows, columns| paint(best_of(0..d, rows, columns))),
        });
    }
    let legend: Vec<Entry> =
        missing.then(|| Entry { swatch: Swatch::Missing, name: "no number".into() }).into_iter().collect();
    let mut laid = panel::lay([h, w], &panels, if best.is_some() { 9.0 } else { 1.0 }, &legend, 1)?;
    if best.is_some() {
        bar(&mut laid, &heat.title(), low, high, paint);
    }
    Ok(laid.canvas)
}

/// The colours from `high` down to `low`, and values beside them.
fn bar(laid: &mut Laid, title: &str, low: f64, high: f64, paint: impl Fn(f64) -> Look) {
    let size = laid.size;
    let [_, top, _, tall] = laid.areas[0];
    // Long enough for its title, and no longer than the eye takes in.
    let tall = tall.clamp((9.0 * size) as i64, (48.0 * size) as i64);
    let area = [laid.right, top, (1.4 * size) as i64, tall];
    for y in 0..area[3] {
        let part = y as f64 / (area[3] - 1).max(1) as f64;
        if let Look::Shown(color) = paint(high * (1.0 - part) + low * part) {
            laid.canvas.fill([area[0], area[1] + y, area[2], 1], color);
        }
    }
    let values = Axis::values(title, low, high, area[3], size);
    axes::draw(&mut laid.canvas, area, None, (&values, Side::Right), false, &Drawn::default(), size);
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
}
