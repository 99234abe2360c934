//! How bright the samples of an image are shown.

use flcc_runtime::core::each_type;
use flcc_runtime::{Pixel, Pixels};

use super::canvas::Color;
use super::panel::Look;
use crate::data::Image;

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

    /// The look of a pixel.
    pub fn look(&self, pixel: usize) -> Look {
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
    pub fn brightest(&self, pixels: impl Iterator<Item = usize>) -> Look {
        let light = |look: &Look| match look {
            Look::Shown(color) => color.iter().map(|&part| i32::from(part)).sum(),
            Look::Missing => -1,
        };
        pixels.map(|pixel| self.look(pixel)).max_by_key(light).unwrap_or(Look::Missing)
    }
}
