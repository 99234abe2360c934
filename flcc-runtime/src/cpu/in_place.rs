//! The shortest way: correlation from the image's own rows to the result's own rows.
//!
//! For tiles as wide as the result. With NaN, infinities or magnitudes that need a scale among the samples the tile is
//! computed again in the usual way, over what was written. Which samples are looked at may depend on what is asked for
//! of a tile, so whatever is accepted here has the bits of the usual way: that scales up tiles whose samples are all
//! faint, which are never accepted, and down nothing but outputs that overflow.
//!
//! How a tile is correlated so is its engine's matter (`engines/`); here is what they share.

use flcc_core::boundary::Boundary;
use flcc_core::view::{AnyView, View};

use crate::cpu::gather::{self, Target};
use crate::cpu::real::Real;
use crate::isa::simd::{Job, Simd};
use crate::isa::{IsaSet, Vectors};
use crate::problem::powers::power_of_two;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Rows;
use crate::run::tiling::TileBox;

/// A tile to be correlated from an image's rows to the results' rows.
pub struct InPlace<'a, 'r> {
    /// The image.
    pub image: Source<'a>,
    /// The tile.
    pub tile: &'a TileBox,
    /// The samples under it.
    pub samples: Samples,
    /// The samples under the tile, and what transforms reach past them where the image has it.
    pub reached: Samples,
    /// Samples an axis of the templates.
    pub template: [usize; 3],
    /// How many templates there are.
    pub templates: usize,
    /// A worker's buffers.
    pub room: Room<'a>,
    /// Hands out the rows of a template's result from a place of it in so many planes, if they can be written as they
    /// are.
    pub rows: &'a mut dyn FnMut(usize, [usize; 3], usize) -> Option<Rows<'r>>,
}

impl InPlace<'_, '_> {
    /// Whether all of the tile is asked for.
    pub fn whole(&self) -> bool {
        self.tile.keep == self.tile.shape.map(|len| (0, len))
    }
}

/// Buffers for what is gathered all the same.
pub struct Room<'a> {
    /// For samples.
    pub samples: &'a mut [f32],
    /// For their marks.
    pub marks: &'a mut [f32],
    /// For outputs.
    pub outputs: &'a mut [f32],
    /// For samples as bytes.
    pub bytes: &'a mut [i8],
    /// The shape of those.
    pub byte_pitch: Option<Pitch>,
}

/// An image with what continues it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The image.
    pub image: &'a AnyView<'a>,
    /// What continues it.
    pub boundary: Boundary,
    /// The instruction sets that loops are compiled for.
    pub isas: IsaSet,
}

impl<'a> Source<'a> {
    /// The samples, if all of them are `f32` and lie in the image, side by side along rows.
    pub fn here(&self, samples: Samples) -> Option<InImage<'a>> {
        if let AnyView::F32(view) = self.image { InImage::new(view, samples) } else { None }
    }

    /// Samples an axis, of an image of `f32`.
    pub fn singles(&self) -> Option<[usize; 3]> {
        if let AnyView::F32(view) = self.image { Some(view.shape().padded()) } else { None }
    }

    /// Gathers samples; returns whether they are finite and can be computed with as they are.
    pub fn gather(&self, samples: Samples, out: &mut [f32], marks: &mut [f32], pitch: Pitch) -> bool {
        let target = Target { out, marks, pitch, hides: None, reach: f32::REACH, isas: self.isas };
        let done = gather::gather(self.image, self.boundary, samples, 0.0, None, target);
        !done.marked && done.scale == 1.0
    }

    /// Gathers samples as bytes, if they are bytes.
    pub fn bytes(&self, samples: Samples, out: &mut [i8], pitch: Pitch) -> Option<()> {
        let AnyView::U8(view) = self.image else { return None };
        gather::bytes(view, self.boundary, samples, out, pitch, &self.isas);
        Some(())
    }
}

/// The samples of a tile, as they lie in an image.
pub struct InImage<'a> {
    view: &'a View<'a, f32>,
    samples: Samples,
    pitch: Pitch,
}

impl<'a> InImage<'a> {
    fn new(view: &'a View<'a, f32>, samples: Samples) -> Option<InImage<'a>> {
        let lengths = view.shape().padded();
        let inside = (0..3)
            .all(|axis| samples.begin[axis] >= 0 && samples.begin[axis] as usize + samples.len[axis] <= lengths[axis]);
        let ([plane, row, column], _) = view.layout().strides();
        // What leads to rows that there are none of may be anything.
        let row = if lengths[1] == 1 { samples.len[2] } else { usize::try_from(row).ok()? };
        let plane = if lengths[0] == 1 { 0 } else { usize::try_from(plane).ok()? };
        if !inside || column != 1 || row < samples.len[2] {
            return None;
        }
        Some(InImage { view, samples, pitch: Pitch { row, plane, rows: samples.len[1], planes: samples.len[0] } })
    }

    /// The elements from the first of the samples on.
    pub fn samples(&self) -> &'a [f32] {
        self.from([0; 3])
    }

    /// How many they are on each axis.
    pub fn shape(&self) -> [usize; 3] {
        self.samples.len
    }

    /// From one of them to the next.
    pub fn pitch(&self) -> Pitch {
        self.pitch
    }

    /// The elements from one of the samples on.
    pub fn from(&self, position: [usize; 3]) -> &'a [f32] {
        self.view.from_position([0, 1, 2].map(|axis| self.samples.begin[axis] as usize + position[axis]))
    }

    /// Whether all samples are finite and can be computed with as they are.
    pub fn ordinary(&self, vectors: &Vectors) -> bool {
        let [depth, height, width] = self.samples.len;
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| (z, y)));
        let largest = rows.map(|(z, y)| vectors.run(Largest(&self.from([z, y, 0])[..width]))).max().unwrap_or(0);
        let [low, high] =
            [-<f32 as Real>::REACH, <f32 as Real>::REACH].map(|exponent| (power_of_two(exponent) as f32).to_bits());
        largest == 0 || (low..=high).contains(&largest)
    }
}

/// What outputs tell of the samples that they were computed from.
#[derive(Debug, Default)]
pub struct Seen {
    /// Some output was not finite.
    nonfinite: bool,
    /// Some output was larger than samples below the reach can make it.
    within_reach: bool,
}

impl Seen {
    /// Takes note of some outputs of a template, the largest magnitude of which is this.
    pub fn add<T: Real>(&mut self, largest: f64, template: &[T]) {
        let weight: f64 = template.iter().map(|tap| tap.to_f64().abs()).sum();
        self.nonfinite |= !largest.is_finite();
        self.within_reach |= largest > 2.0 * power_of_two(-<f32 as Real>::REACH) * weight;
    }

    /// Whether the samples are known to be finite, some of them within the reach, and none so large that a product or a
    /// sum was not finite: what is not finite makes no output finite that it feeds.
    pub fn ordinary(&self) -> bool {
        self.within_reach && !self.nonfinite
    }
}

/// Whether samples of this energy are known to be finite and to be computed with as they are.
pub fn ordinary_by_energy(energy: f64, count: usize) -> bool {
    let [low, high] = [-<f32 as Real>::REACH, <f32 as Real>::REACH].map(|exponent| power_of_two(exponent).powi(2));
    // The largest square is at least their mean, and at most their sum.
    energy >= 2.0 * low * count as f64 && energy <= high / 2.0
}

/// The bits of the largest magnitude.
struct Largest<'a>(&'a [f32]);

impl Job for Largest<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let rows = S::rows(self.0);
        let mut largest = [s.splat(0.0); 4];
        for four in rows.chunks_exact(4) {
            for (largest, row) in largest.iter_mut().zip(four) {
                *largest = s.larger_magnitude(s.load(row), *largest);
            }
        }
        for row in rows.chunks_exact(4).remainder() {
            largest[0] = s.larger_magnitude(s.load(row), largest[0]);
        }
        let rest = self.0[rows.len() * S::LANES..].iter().map(|value| value.magnitude()).max().unwrap_or(0);
        largest.iter().fold(rest, |most, lanes| most.max(s.largest(*lanes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_tell_whether_samples_are_ordinary() {
        let told = |outputs: &[f32]| {
            let mut seen = Seen::default();
            outputs.iter().for_each(|largest| seen.add(f64::from(*largest), &[0.5, -1.5]));
            seen.ordinary()
        };
        let least = power_of_two(-<f32 as Real>::REACH) as f32;
        assert!(told(&[1.0]) && told(&[4.1 * least]) && told(&[0.0, 1.0]) && told(&[f32::MAX]));
        assert!(!told(&[]) && !told(&[0.0]) && !told(&[3.9 * least]));
        assert!(!told(&[f32::NAN]) && !told(&[1.0, f32::INFINITY]) && !told(&[f32::NAN, 1.0]));
    }
}
