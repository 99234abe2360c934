//! An image with its peaks marked.

use flcc_runtime::Pixel;
use flcc_runtime::Pixels;
use flcc_runtime::core::each_type;

use super::canvas::{Canvas, Color, INK, text_width};
use super::labels::{self, Boxed};
use super::panel::{self, Entry, Look, Panel, Swatch};
use super::{Mark, Scene, line, style};
use crate::data::Image;

/// The picture of an image: of a volume the slice through the middle of the best peak with the marks that it cuts, and
/// beside it the brightest of all slices with every mark.
pub fn picture(scene: &Scene<'_>) -> Canvas {
    let image = scene.image;
    if image.shape().axes() == 1 {
        return line::annotated(scene);
    }
    let [d, h, w] = image.shape().padded();
    let volume = image.shape().axes() == 3;
    let depth = |mark: &Mark| {
        if volume { (mark.origin.first().copied().unwrap_or(0), mark.shape.padded()[0] as i64) } else { (0, 1) }
    };
    let best = scene.marks.iter().min_by_key(|mark| mark.rank);
    let slice = best.map_or(d as i64 / 2, |mark| depth(mark).0 + depth(mark).1 / 2).clamp(0, d as i64 - 1) as usize;
    let tones = Tones::new(image);
    let look = |pixel: usize| tones.look(pixel);
    let mut panels = vec![Panel {
        caption: if volume { format!("slice {slice} (of 0 to {})", d - 1) } else { String::new() },
        first: [0, 0],
        look: Box::new(|y, x| look((slice * h + y) * w + x)),
    }];
    if volume {
        panels.push(Panel {
            caption: "maximum over all slices".into(),
            first: [0, 0],
            look: Box::new(|y, x| tones.brightest((0..d).map(|z| (z * h + y) * w + x))),
        });
    }
    let mut legend = scene.legend();
    if tones.missing {
        legend.push(Entry { swatch: Swatch::Missing, name: "no number".into() });
    }
    let mut laid = panel::lay([h, w], &panels, 1.0, &legend);
    let size = laid.size;
    for (panel, area) in laid.areas.clone().into_iter().enumerate() {
        let cut = |mark: &&Mark| panel == 1 || (depth(mark).0..depth(mark).0 + depth(mark).1).contains(&(slice as i64));
        let mut marks: Vec<&Mark> = scene.marks.iter().filter(cut).collect();
        marks.sort_by_key(|mark| (mark.rank, mark.group));
        let thick = ((size / 6.5) as i64).max(1);
        let tall = (1.15 * size) as i64;
        let boxes: Vec<Boxed> = marks
            .iter()
            .map(|mark| {
                let [.., y, x] = mark.origin[..] else { return Boxed { area: [0; 4], label: [0; 2] } };
                let ([_, mh, mw], [fy, fx]) = (mark.shape.padded().map(|length| length as i64), laid.factors);
                let wide = (text_width(&scene.label(mark), size) + 0.6 * size) as i64;
                Boxed { area: [area[0] + x * fx, area[1] + y * fy, mw * fx, mh * fy], label: [wide, tall] }
            })
            .collect();
        let places = labels::place(area, &boxes, |boxed| labels::around(boxed, thick + 1));
        // The best are drawn last, so that nothing covers them; labels lie over all boxes.
        let mut within = Canvas::part(&laid.canvas, area);
        let here = |[x, y, w, h]: [i64; 4]| [x - area[0], y - area[1], w, h];
        for (mark, boxed) in marks.iter().zip(&boxes).rev() {
            let (color, dash) = style(mark.group);
            let thick = if mark.rank == 1 { thick + (thick + 1) / 2 } else { thick };
            within.outline(here(boxed.area), thick, color, dash * thick);
        }
        for ((mark, boxed), place) in marks.iter().zip(&boxes).zip(&places).rev() {
            let (Some([x, y]), [wide, tall]) = (place, boxed.label) else { continue };
            let [x, y, ..] = here([*x, *y, 0, 0]);
            within.fill([x, y, wide, tall], INK);
            within.fill([x + 1, y + 1, wide - 2, tall - 2], style(mark.group).0);
            within.text(x + wide / 2, y + tall / 2, 0.5, size, &scene.label(mark), INK);
        }
        laid.canvas.put(&within, area);
    }
    laid.canvas
}

/// Grey or colour of an image's samples, stretched to 8 bits: 8-bit samples as they are, others from their smallest to
/// their largest.
pub struct Tones<'a> {
    image: &'a Image,
    pub low: f64,
    pub high: f64,
    /// Whether a sample is no number.
    pub missing: bool,
}

impl Tones<'_> {
    pub fn new(image: &Image) -> Tones<'_> {
        if let Pixels::U8(_) = image.pixels() {
            return Tones { image, low: 0.0, high: 255.0, missing: false };
        }
        let mut tones = Tones { image, low: f64::INFINITY, high: f64::NEG_INFINITY, missing: false };
        each_type!(Pixels, image.pixels(), data => for &value in data.iter() {
            let value = Pixel::to_f64(value);
            if value.is_finite() {
                (tones.low, tones.high) = (tones.low.min(value), tones.high.max(value));
            } else {
                tones.missing = true;
            }
        });
        tones
    }

    pub fn sample(&self, index: usize) -> f64 {
        each_type!(Pixels, self.image.pixels(), data => data.get(index).map_or(f64::NAN, |&value| Pixel::to_f64(value)))
    }

    fn look(&self, pixel: usize) -> Look {
        let tone = |index: usize| {
            let value = self.sample(index);
            let part = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
            let tone = if self.high > self.low { (part * 255.0).round() as u8 } else { 128 };
            value.is_finite().then_some(tone)
        };
        let color: Option<Color> = match self.image.channels() {
            3 => (|| Some([tone(pixel * 3)?, tone(pixel * 3 + 1)?, tone(pixel * 3 + 2)?]))(),
            channels => tone(pixel * channels).map(|tone| [tone; 3]),
        };
        color.map_or(Look::Missing, Look::Shown)
    }

    /// The look of the brightest of some pixels.
    fn brightest(&self, pixels: impl Iterator<Item = usize>) -> Look {
        let light = |look: &Look| match look {
            Look::Shown(color) => color.iter().map(|&part| i32::from(part)).sum(),
            Look::Missing => -1,
        };
        pixels.map(|pixel| self.look(pixel)).max_by_key(light).unwrap_or(Look::Missing)
    }
}
