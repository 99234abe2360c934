//! The shortest way: correlation of f32 by a direct kernel, from the image's own rows to the result's own rows.
//!
//! For tiles as wide as the result whose samples all lie in the image. Afterwards, when they are in the cache, they are looked
//! at once, for NaN, infinities and magnitudes that need a scale; with any of these the tile is computed again in the usual
//! way, over what was written. A kernel computes whole blocks, and a
//! result has no room for more, so what is left at the right and below is computed by blocks that end there: an output
//! does not depend on where in a block it lies, so what is computed twice is the same twice, and the same as the usual way's.

use flcc_core::view::View;

use super::direct::{Direct, Slab};
use super::isa::Vectors;
use super::real::{Real, power_of_two};
use super::simd::{Job, Simd};
use crate::pad::{Pitch, Samples};
use crate::tiling::TileBox;

/// Where a tile's results go: rows of the result, from the first to the last of the tile.
pub struct Rows<'a> {
    /// From the first result of the first row.
    pub out: &'a mut [f32],
    /// From one row to the next.
    pub pitch: usize,
    /// From one plane to the next, if there are several.
    pub plane: usize,
}

/// The samples of a tile, as they lie in an image.
pub struct Strip<'a> {
    view: &'a View<'a, f32>,
    samples: Samples,
    pitch: Pitch,
}

impl<'a> Strip<'a> {
    /// The samples, if all of them lie in the image, side by side along rows.
    pub fn new(view: &'a View<'a, f32>, samples: Samples) -> Option<Strip<'a>> {
        let lengths = view.shape().padded();
        let inside = (0..3).all(|axis| samples.begin[axis] >= 0 && samples.begin[axis] as usize + samples.len[axis] <= lengths[axis]);
        let ([plane, row, column], _) = view.layout().strides();
        let (plane, row) = (usize::try_from(plane).ok()?, usize::try_from(row).ok()?);
        if !inside || column != 1 || row < samples.len[2] {
            return None;
        }
        Some(Strip { view, samples, pitch: Pitch { row, plane, rows: samples.len[1], planes: samples.len[0] } })
    }

    /// The elements from the first of the samples on.
    pub fn samples(&self) -> &'a [f32] {
        self.from([0; 3])
    }

    /// The elements from one of the samples on.
    fn from(&self, position: [usize; 3]) -> &'a [f32] {
        self.view.from_position([0, 1, 2].map(|axis| self.samples.begin[axis] as usize + position[axis]))
    }

    /// Whether all samples are finite and can be computed with as they are.
    pub fn ordinary(&self, vectors: &Vectors) -> bool {
        let [depth, height, width] = self.samples.len;
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| (z, y)));
        let largest = rows.map(|(z, y)| vectors.run(Largest(&self.from([z, y, 0])[..width]))).max().unwrap_or(0);
        let [low, high] = [-<f32 as Real>::REACH, <f32 as Real>::REACH].map(|exponent| (power_of_two(exponent) as f32).to_bits());
        largest == 0 || (low..=high).contains(&largest)
    }

    /// Computes the kept rows of `planes` planes of a tile from plane `z` on; `false`, and nothing, if they are smaller than a block.
    pub fn correlate(&self, direct: &Direct<f32>, template: &[f32], tile: &TileBox, [z, planes]: [usize; 2], rows: Rows<'_>) -> bool {
        let [_, (y0, y1), (x0, x1)] = tile.keep;
        let (height, width) = (y1 - y0, x1 - x0);
        let [block_height, block_width] = direct.block();
        if height < block_height || width < block_width {
            return false;
        }
        let [whole_height, whole_width] = [height / block_height * block_height, width / block_width * block_width];
        // The tile without its ragged ends, the blocks that end with them, and the one in the corner.
        let parts = [
            ([0, 0], [whole_height, whole_width]),
            ([0, width - block_width], [whole_height, block_width]),
            ([height - block_height, 0], [block_height, whole_width]),
            ([height - block_height, width - block_width], [block_height, block_width]),
        ];
        let ragged = [true, whole_width < width, whole_height < height, whole_width < width && whole_height < height];
        for (([y, x], [height, width]), _) in parts.into_iter().zip(ragged).filter(|(_, needed)| *needed) {
            let slab = Slab {
                input: self.from([z, y0 + y, x0 + x]),
                in_pitch: self.pitch,
                out: &mut rows.out[y * rows.pitch + x..],
                out_pitch: Pitch { row: rows.pitch, plane: rows.plane, rows: height, planes },
                outputs: [planes, height, width],
            };
            direct.run(template, &[], slab);
        }
        true
    }
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
