//! What the last steps of a tile share: where its rows go, single panels, panels that are flat.

use flcc_core::measure::Measure;
use flcc_core::view::AnyView;

use crate::cpu::gather;
use crate::cpu::real::Real;
use crate::cpu::score::repair::Panels;
use crate::cpu::score::window_sums;
use crate::cpu::tile::bound::{BoundTemplate, BoundTemplates, Judged};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::scratch::TileScratch;
use crate::isa::prefetch::Coming;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Scores;
use crate::run::tiling::TileBox;

/// What takes the scores.
pub struct Store<'a> {
    /// Gets a template's number, the place of a row in the result, the row.
    pub write: &'a mut dyn FnMut(usize, [usize; 3], Scores<'_>),
    /// Where rows from such a place on will be written, if that is a plane of `f32` side by side.
    pub lines: &'a dyn Fn(usize, [usize; 3]) -> Option<Coming>,
}

/// What the last steps of a tile need of the first.
pub(super) struct Finishing<'a, T: Real> {
    pub(super) image: &'a AnyView<'a>,
    pub(super) tile: &'a TileBox,
    pub(super) samples: Samples,
    /// Whether some sample was NaN or infinite.
    pub(super) marked: bool,
    pub(super) bound: &'a BoundTemplates<T>,
    /// The template's number.
    pub(super) number: usize,
    /// How far the cross term may be off.
    pub(super) judged: Judged,
    /// The rectangles of the coarse part, whose cross term is still to be added.
    pub(super) heights: Option<&'a [f64]>,
}

impl<T: Real> Finishing<'_, T> {
    pub(super) fn template(&self) -> &BoundTemplate {
        &self.bound.templates[self.number]
    }

    /// Whether all of the tile is asked for.
    pub(super) fn whole(&self) -> bool {
        (0..3).all(|axis| self.tile.keep[axis] == (0, self.tile.shape[axis]))
    }

    /// Where a row of the tile goes.
    pub(super) fn place(&self, z: usize, y: usize) -> [usize; 3] {
        let TileBox { place, keep, .. } = self.tile;
        [place[0] + z - keep[0].0, place[1] + y - keep[1].0, place[2]]
    }

    /// The score of one panel, given by its place in the tile, recomputed alone.
    pub(super) fn repair(&self, context: &TileContext<T>, position: [usize; 3], panel: &mut [f64]) -> f64 {
        let panels = Panels {
            image: self.image,
            boundary: context.spec.boundary(),
            template: context.spec.template().padded(),
            weights: &self.bound.weights,
            isas: context.isas,
        };
        let begin = [0, 1, 2].map(|axis| self.samples.begin[axis] + position[axis] as isize);
        panels.score(context.scheme.measure, begin, &self.template().checked, panel)
    }
}

impl<T: Real> TileContext<T> {
    /// Marks the panels all of whose samples are equal (zncc) or zero (ncc, nssd), from the samples themselves.
    pub(super) fn find_flat(
        &self,
        image: &AnyView<'_>,
        samples: Samples,
        outputs: [usize; 3],
        scratch: &mut TileScratch<T>,
    ) {
        let TileScratch { low, high, flat, window, .. } = scratch;
        flat.fill(true);
        let zero_only = self.scheme.measure != Measure::Zncc;
        let tile = window_sums::Lattice {
            shape: samples.len,
            row_pitch: self.pitches.samples.row,
            plane_pitch: self.pitches.samples.plane,
        };
        let template = self.spec.template().padded();
        for channel in 0..self.spec.channels() {
            // As they are, in f64, which holds every pixel type: no rounding can make two samples equal.
            gather::exact(&image.channel(channel), self.spec.boundary(), samples, low, self.pitches.samples);
            high.copy_from_slice(low);
            window_sums::minimum(&self.isas, low, window, &tile, template);
            window_sums::maximum(&self.isas, high, window, &tile, template);
            for z in 0..outputs[0] {
                for y in 0..outputs[1] {
                    let from = z * self.pitches.samples.plane + y * self.pitches.samples.row;
                    let to = z * self.pitches.cross.plane + y * self.pitches.cross.row;
                    for x in 0..outputs[2] {
                        let (low, high) = (low[from + x], high[from + x]);
                        flat[to + x] &= low == high && !(zero_only && low != 0.0);
                    }
                }
            }
        }
    }

    /// The mean square and the largest magnitude of a cross term over a tile of this shape.
    pub(super) fn results<R: Real>(&self, [depth, height, width]: [usize; 3], cross: &[R]) -> (f64, f64) {
        let Pitch { row, plane, .. } = self.pitches.cross;
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| z * plane + y * row));
        let (total, peak) = rows.fold((0.0, 0.0f64), |(total, peak), at| {
            let row = &cross[at..at + width];
            (total + squares(row), peak.max(largest(row)))
        });
        (total / (depth * height * width) as f64, peak)
    }
}

/// The largest magnitude, in eight lanes.
pub(super) fn largest<T: Real>(values: &[T]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder().iter().map(|value| value.to_f64().abs()).fold(0.0, f64::max);
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(value.to_f64().abs());
        }
    }
    lanes.into_iter().fold(rest, f64::max)
}

/// The sum of squares, in eight lanes so that it is vectorised, always in the same order.
pub(super) fn squares<T: Real>(values: &[T]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|value| value.to_f64() * value.to_f64()).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value.to_f64() * value.to_f64();
        }
    }
    lanes.iter().sum::<f64>() + rest
}
