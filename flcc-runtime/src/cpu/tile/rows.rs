//! The last step of every other tile: scores row by row (`score/rows.rs`), doubtful panels settled as they come.

use flcc_core::measure::{Formula, Scaling};
use flcc_core::with_formula;

use crate::cpu::engine::Bands;
use crate::cpu::real::Real;
use crate::cpu::score::rows::{self, ChannelRow, Common, Constants};
use crate::cpu::tile::bound::{BoundTemplate, Judged};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::finishing::{Finishing, Store, largest, squares};
use crate::cpu::tile::scratch::TileScratch;
use crate::isa;
use crate::problem::overflow::{Overflow, Squares};
use crate::problem::powers::{joined, power_of_two};
use crate::run::results::Scores;
use crate::run::tiling::TileBox;

impl<T: Real> TileContext<T> {
    /// Scores every row of the tile that is asked for; returns how many panels were repaired.
    pub(super) fn finish_rows(
        &self,
        last: &Finishing<'_, T>,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<u64> {
        let (tile, bound, template) = (last.tile, last.bound, last.template());
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        if template.checked.nonfinite {
            scratch.rows.out.fill(f64::NAN);
        }
        let doubt =
            (self.scheme.integers.is_none() && self.degenerates()).then(|| self.doubt(tile, &template.judged, scratch));
        let (image_scale, template_scale) = (scratch.scale, template.checked.scale);
        let larger = image_scale.min(template_scale);
        let (common, unscale) = match self.scheme.measure.row().scaling {
            Scaling::Own => (Common::of(1.0, 1.0), [1.0 / image_scale, 1.0 / template_scale]),
            Scaling::Common => (Common::of(image_scale, template_scale), [1.0 / larger, 1.0 / larger]),
            Scaling::Relative => (Common::of(image_scale, template_scale), [1.0, 1.0]),
            Scaling::Unit | Scaling::Fixed => (Common::of(1.0, 1.0), [1.0, 1.0]),
        };
        let constants = Constants {
            n: bound.weights.n,
            template: template.checked.energy,
            common,
            unscale: joined(unscale),
            doubt,
        };
        let overflow = self.overflow(&constants, image_scale, larger);
        let sum_pitch = if bound.mask.is_some() { self.pitches.cross } else { self.pitches.samples };
        let mut flat_known = false;
        let parts: usize = (0..3).map(|axis| tile.shape[axis].div_ceil(self.parts[axis].max(1))).product();
        let patience = self.patience.saturating_mul(parts as u64);
        // Whether to give up is the whole tile's matter, whatever part of it is asked for.
        let whole = last.whole();
        if let Some(doubt) = doubt.filter(|_| self.patience < u64::MAX && !whole && !template.checked.nonfinite) {
            let mut doubts = 0;
            for (z, y) in (0..tile.shape[0]).flat_map(|z| (0..tile.shape[1]).map(move |y| (z, y))) {
                let cross_at = z * self.pitches.cross.plane + y * self.pitches.cross.row;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row;
                if self.finish_row(&constants, template, cross_at, sum_at, tile.shape[2], scratch) {
                    if !flat_known {
                        self.find_flat(last.image, last.samples, tile.shape, scratch);
                        flat_known = true;
                    }
                    let unsettled =
                        |x: &usize| in_doubt(scratch, doubt, cross_at, *x, last.marked) && !scratch.flat[cross_at + x];
                    doubts += (0..tile.shape[2]).filter(unsettled).count() as u64;
                    if doubts > patience {
                        return None;
                    }
                }
            }
        }
        let mut repaired = 0;
        for z in z0..z1 {
            for y in y0..y1 {
                let cross_at = z * self.pitches.cross.plane + y * self.pitches.cross.row + x0;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row + x0;
                let width = x1 - x0;
                if !template.checked.nonfinite {
                    let doubtful = self.finish_row(&constants, template, cross_at, sum_at, width, scratch);
                    if doubtful {
                        if !flat_known {
                            self.find_flat(last.image, last.samples, tile.shape, scratch);
                            flat_known = true;
                        }
                        repaired += self.settle(last, [z, y], doubt?, scratch);
                        if whole && repaired > patience {
                            return None;
                        }
                    }
                    if let Some(rule) = &overflow {
                        for x in (0..width).filter(|&x| !(last.marked && scratch.hit[cross_at + x])) {
                            if scratch.rows.overflows(self.scheme.measure, x, rule, &constants) {
                                scratch.rows.out[x] = last.repair(self, [z, y, x0 + x], &mut scratch.panel);
                                repaired += 1;
                            }
                        }
                    }
                }
                if last.marked {
                    let hits = &scratch.hit[cross_at..cross_at + width];
                    scratch.rows.out.iter_mut().zip(hits).filter(|(_, hit)| **hit).for_each(|(out, _)| *out = f64::NAN);
                }
                (store.write)(last.number, last.place(z, y), Scores::Double(&scratch.rows.out[..width]));
            }
        }
        Some(repaired)
    }

    /// Which squared differences of a tile are taken again; `None` where all are what they seem.
    fn overflow(&self, constants: &Constants, image_scale: f64, common_scale: f64) -> Option<Overflow> {
        if !self.scheme.squares_differences() || !self.scheme.repairs() {
            return None;
        }
        let squares = Squares {
            weights: constants.n * self.spec.channels() as f64,
            ordinary: power_of_two(T::REACH + 1),
            image_scale,
            common: constants.common.image,
            template: constants.template * constants.common.template * constants.common.template,
            scale: common_scale,
            masked: self.scheme.masked,
        };
        Overflow::of(&squares, self.spec.out_type())
    }

    fn finish_row(
        &self,
        constants: &Constants,
        template: &BoundTemplate,
        cross_at: usize,
        sum_at: usize,
        width: usize,
        scratch: &mut TileScratch<T>,
    ) -> bool {
        let TileScratch { crosses, sums, factors, rows, .. } = scratch;
        if let ([cross], None, false) = (&crosses[..], self.scheme.integers, self.needs().square) {
            rows::show(&self.isas, &cross[cross_at..cross_at + width], constants, &mut rows.out);
            return false;
        }
        let exact = &template.checked;
        let row = |channel: usize| -> ChannelRow<'_> {
            let part =
                |sum: &[f64]| -> std::ops::Range<usize> { if sum.is_empty() { 0..0 } else { sum_at..sum_at + width } };
            let [i, ii] = &sums[channel];
            let template_sum = exact.exact_sums.get(channel).copied().unwrap_or(0);
            ChannelRow {
                number: channel,
                template_sum,
                width,
                i: &i[part(i)],
                ii: &ii[part(ii)],
                factor: factors[channel],
            }
        };
        for (channel, cross) in crosses.iter().enumerate() {
            let row = row(channel);
            let cross = &cross[cross_at..cross_at + width];
            isa::vectorized!(&self.isas, || rows.take(cross));
            rows::add(&self.isas, self.scheme.measure, self.scheme.integers, &row, constants, rows);
        }
        rows::settle(&self.isas, self.scheme.measure, self.scheme.integers, width, constants, exact.exact_energy, rows)
    }

    /// Decides the doubtful panels of the row finished last, `[z, y]` of the tile; returns how many were recomputed.
    fn settle(
        &self,
        last: &Finishing<'_, T>,
        [z, y]: [usize; 2],
        doubt: (f64, f64),
        scratch: &mut TileScratch<T>,
    ) -> u64 {
        let degenerate = with_formula!(self.scheme.measure, F => <F as Formula>::DEGENERATE);
        let (x0, x1) = last.tile.keep[2];
        let cross_at = z * self.pitches.cross.plane + y * self.pitches.cross.row + x0;
        let mut repaired = 0;
        for x in 0..x1 - x0 {
            if !in_doubt(scratch, doubt, cross_at, x, last.marked) {
                continue;
            }
            scratch.rows.out[x] = if scratch.flat[cross_at + x] {
                degenerate
            } else {
                repaired += 1;
                last.repair(self, [z, y, x0 + x], &mut scratch.panel)
            };
        }
        repaired
    }

    /// Below which energy a panel of this tile is doubtful: `energy <= .0 + .1 * sum of squares`.
    fn doubt(&self, tile: &TileBox, Judged { doubt, unseen }: &Judged, scratch: &TileScratch<T>) -> (f64, f64) {
        if doubt.is_constant() {
            return doubt.at(0.0, 0.0);
        }
        let inputs = scratch.inputs.iter().zip(&scratch.factors);
        let energy = inputs.clone().map(|(input, factor)| squares(input) * factor * factor).sum();
        let sample = inputs.clone().map(|(input, factor)| largest(input) * factor).fold(0.0, f64::max);
        let inputs = inputs.map(|(input, &factor)| (&input[..], factor));
        let strong = unseen.strong(inputs, T::to_f64, energy, sample);
        let (mut result, mut peak) = (0.0, 0.0);
        for (channel, (cross, factor)) in scratch.crosses.iter().zip(&scratch.factors).enumerate() {
            let (square, most) = self.results(tile.shape, cross);
            let all = match self.engine.bands(channel, [tile.shape[1], tile.shape[2]], &scratch.work) {
                Bands::Tile { result } => result,
                _ => 0.0,
            };
            result += square.max(all) * factor * factor;
            peak += most * factor;
        }
        doubt.at_peak(energy, result.sqrt(), peak.max(unseen.most(sample, &strong)))
    }
}

/// Whether panel `x` of the row finished last, whose cross term begins at `cross_at`, is in doubt; one that is to be
/// NaN is not.
fn in_doubt<T: Real>(scratch: &TileScratch<T>, doubt: (f64, f64), cross_at: usize, x: usize, marked: bool) -> bool {
    let (energy, square) = scratch.rows.panel(x);
    let certain = energy > doubt.0 + doubt.1 * square;
    let settled = certain || (marked && scratch.hit[cross_at + x]);
    !settled
}
