//! What the ways to make scores share: where rows go, single panels, panels that are flat.

use flcc_core::measure::Measure;

use crate::cpu::gather;
use crate::cpu::real::Real;
use crate::cpu::score::repair::Panels;
use crate::cpu::score::window_sums;
use crate::cpu::score::{Buffers, Finishing, Tiles};
use crate::run::geometry::Pitch;
use crate::run::tiling::TileBox;

impl Finishing<'_> {
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
    pub(super) fn repair(&self, position: [usize; 3], panel: &mut [f64]) -> f64 {
        let Tiles { spec, scheme, isas, .. } = self.tiles;
        let panels = Panels {
            image: self.image,
            boundary: spec.boundary(),
            template: spec.template().padded(),
            weights: self.weights,
            isas,
        };
        let begin = [0, 1, 2].map(|axis| self.samples.begin[axis] + position[axis] as isize);
        panels.score(scheme.measure, begin, self.template, panel)
    }

    /// Marks the panels all of whose samples are equal (zncc) or zero (ncc, nssd), from the samples themselves.
    pub(super) fn find_flat<T: Real>(&self, buffers: &mut Buffers<T>) {
        let (Tiles { spec, scheme, isas, sample_pitch: samples, cross_pitch: cross, .. }, outputs) =
            (self.tiles, self.tile.shape);
        let Buffers { low, high, flat, window, .. } = buffers;
        flat.fill(true);
        let zero_only = scheme.measure != Measure::Zncc;
        let tile = window_sums::Lattice { shape: self.samples.len, row_pitch: samples.row, plane_pitch: samples.plane };
        let template = spec.template().padded();
        for channel in 0..spec.channels() {
            // As they are, in f64, which holds every pixel type: no rounding can make two samples equal.
            gather::exact(&self.image.channel(channel), spec.boundary(), self.samples, low, samples);
            high.copy_from_slice(low);
            window_sums::minimum(&isas, low, window, &tile, template);
            window_sums::maximum(&isas, high, window, &tile, template);
            for z in 0..outputs[0] {
                for y in 0..outputs[1] {
                    let from = z * samples.plane + y * samples.row;
                    let to = z * cross.plane + y * cross.row;
                    for x in 0..outputs[2] {
                        let (low, high) = (low[from + x], high[from + x]);
                        flat[to + x] &= low == high && !(zero_only && low != 0.0);
                    }
                }
            }
        }
    }

    /// The mean square and the largest magnitude of a cross term over the tile.
    pub(super) fn results<R: Real>(&self, cross: &[R]) -> (f64, f64) {
        let (Pitch { row, plane, .. }, [depth, height, width]) = (self.tiles.cross_pitch, self.tile.shape);
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
