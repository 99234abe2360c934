//! Scores row by row in f64 or integers (`score/rows.rs`), doubtful panels settled as they come: what serves every
//! tile.

use flcc_core::measure::{Formula, Scaling};
use flcc_core::with_formula;

use crate::cpu::bands::Bands;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::finishing::{largest, squares};
use crate::cpu::score::rows::{self, ChannelRow, Common, Constants, RowBuffers};
use crate::cpu::score::{Buffers, Finishing, Judged, Own, Score, Store, Tiles};
use crate::isa::{self, Vectors};
use crate::problem::overflow::{Overflow, Squares};
use crate::problem::powers::{joined, power_of_two};
use crate::run::results::Scores;

/// Scores in rows.
pub(super) struct Rows;

impl<T: Real> Score<T> for Rows {
    fn in_place(&self) -> bool {
        false
    }

    fn takes_samples(&self) -> bool {
        true
    }

    fn takes_sums(&self) -> bool {
        true
    }

    fn takes_bits(&self) -> bool {
        false
    }

    fn in_singles(&self) -> bool {
        false
    }

    fn adds_parts(&self) -> Option<&Vectors> {
        None
    }

    fn own(&self, tiles: &Tiles<'_>, memory: &mut Memory) -> Own {
        Own { rows: RowBuffers::new(tiles.capacity[2], tiles.scheme.integers, memory), ..Own::default() }
    }

    fn finish(&self, last: &Finishing<'_>, buffers: &mut Buffers<T>, store: &mut Store<'_>) -> Option<u64> {
        let Finishing { tile, template, weights, .. } = *last;
        let Tiles { scheme, parts, patience: of_part, sample_pitch, cross_pitch, .. } = last.tiles;
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        if template.nonfinite {
            buffers.own.rows.out.fill(f64::NAN);
        }
        let normalised = scheme.measure.row().normalised;
        let doubt = (scheme.integers.is_none() && normalised).then(|| doubt_of(last, buffers));
        let (image_scale, template_scale) = (buffers.scale, template.scale);
        let larger = image_scale.min(template_scale);
        let (common, unscale) = match scheme.measure.row().scaling {
            Scaling::Own => (Common::of(1.0, 1.0), [1.0 / image_scale, 1.0 / template_scale]),
            Scaling::Common => (Common::of(image_scale, template_scale), [1.0 / larger, 1.0 / larger]),
            Scaling::Relative => (Common::of(image_scale, template_scale), [1.0, 1.0]),
            Scaling::Unit | Scaling::Fixed => (Common::of(1.0, 1.0), [1.0, 1.0]),
        };
        let constants = Constants { n: weights.n, template: template.energy, common, unscale: joined(unscale), doubt };
        let overflow = overflow_of::<T>(&last.tiles, &constants, image_scale, larger);
        let sum_pitch = if weights.values.is_some() { cross_pitch } else { sample_pitch };
        let mut flat_known = false;
        let count: usize = (0..3).map(|axis| tile.shape[axis].div_ceil(parts[axis].max(1))).product();
        let patience = of_part.saturating_mul(count as u64);
        // Whether to give up is the whole tile's matter, whatever part of it is asked for.
        let whole = last.whole();
        if let Some(doubt) = doubt.filter(|_| of_part < u64::MAX && !whole && !template.nonfinite) {
            let mut doubts = 0;
            for (z, y) in (0..tile.shape[0]).flat_map(|z| (0..tile.shape[1]).map(move |y| (z, y))) {
                let cross_at = z * cross_pitch.plane + y * cross_pitch.row;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row;
                if finish_row(last, &constants, [cross_at, sum_at], tile.shape[2], buffers) {
                    if !flat_known {
                        last.find_flat(buffers);
                        flat_known = true;
                    }
                    let unsettled =
                        |x: &usize| in_doubt(buffers, doubt, cross_at, *x, last.marked) && !buffers.flat[cross_at + x];
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
                let cross_at = z * cross_pitch.plane + y * cross_pitch.row + x0;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row + x0;
                let width = x1 - x0;
                if !template.nonfinite {
                    let doubtful = finish_row(last, &constants, [cross_at, sum_at], width, buffers);
                    if doubtful {
                        if !flat_known {
                            last.find_flat(buffers);
                            flat_known = true;
                        }
                        repaired += settle(last, [z, y], doubt?, buffers);
                        if whole && repaired > patience {
                            return None;
                        }
                    }
                    if let Some(rule) = &overflow {
                        for x in (0..width).filter(|&x| !(last.marked && buffers.hit[cross_at + x])) {
                            if buffers.own.rows.overflows(scheme.measure, x, rule, &constants) {
                                buffers.own.rows.out[x] = last.repair([z, y, x0 + x], &mut buffers.panel);
                                repaired += 1;
                            }
                        }
                    }
                }
                if last.marked {
                    let hits = &buffers.hit[cross_at..cross_at + width];
                    buffers
                        .own
                        .rows
                        .out
                        .iter_mut()
                        .zip(hits)
                        .filter(|(_, hit)| **hit)
                        .for_each(|(out, _)| *out = f64::NAN);
                }
                (store.write)(last.number, last.place(z, y), Scores::Double(&buffers.own.rows.out[..width]));
            }
        }
        Some(repaired)
    }
}

/// Which squared differences of a tile are taken again; `None` where all are what they seem.
fn overflow_of<T: Real>(
    tiles: &Tiles<'_>,
    constants: &Constants,
    image_scale: f64,
    common_scale: f64,
) -> Option<Overflow> {
    let Tiles { spec, scheme, .. } = tiles;
    if !scheme.squares_differences() || !scheme.repairs() {
        return None;
    }
    let squares = Squares {
        weights: constants.n * spec.channels() as f64,
        ordinary: power_of_two(scheme.reach(spec.out_type(), T::REACH) + 1),
        image_scale,
        common: constants.common.image,
        template: constants.template * constants.common.template * constants.common.template,
        scale: common_scale,
        masked: scheme.masked,
    };
    Overflow::of(&squares, spec.out_type())
}

/// Scores of so many panels of a row, whose cross terms and sums begin at these places; returns whether some are in
/// doubt.
fn finish_row<T: Real>(
    last: &Finishing<'_>,
    constants: &Constants,
    [cross_at, sum_at]: [usize; 2],
    width: usize,
    buffers: &mut Buffers<T>,
) -> bool {
    let Finishing { template, tiles: Tiles { scheme, isas, .. }, .. } = last;
    let Buffers { crosses, sums, factors, own: Own { rows, .. }, .. } = buffers;
    if let ([cross], None, false) = (&crosses[..], scheme.integers, scheme.measure.row().needs.square) {
        rows::show(isas, &cross[cross_at..cross_at + width], constants, &mut rows.out);
        return false;
    }
    let row = |channel: usize| -> ChannelRow<'_> {
        let part =
            |sum: &[f64]| -> std::ops::Range<usize> { if sum.is_empty() { 0..0 } else { sum_at..sum_at + width } };
        let [i, ii] = &sums[channel];
        let template_sum = template.exact_sums.get(channel).copied().unwrap_or(0);
        ChannelRow { number: channel, template_sum, width, i: &i[part(i)], ii: &ii[part(ii)], factor: factors[channel] }
    };
    for (channel, cross) in crosses.iter().enumerate() {
        let row = row(channel);
        let cross = &cross[cross_at..cross_at + width];
        isa::vectorized!(isas, || rows.take(cross));
        rows::add(isas, scheme.measure, scheme.integers, &row, constants, rows);
    }
    rows::settle(isas, scheme.measure, scheme.integers, width, constants, template.exact_energy, rows)
}

/// Decides the doubtful panels of the row finished last, `[z, y]` of the tile; returns how many were recomputed.
fn settle<T: Real>(last: &Finishing<'_>, [z, y]: [usize; 2], doubt: (f64, f64), buffers: &mut Buffers<T>) -> u64 {
    let Tiles { scheme, cross_pitch, .. } = last.tiles;
    let degenerate = with_formula!(scheme.measure, F => <F as Formula>::DEGENERATE);
    let (x0, x1) = last.tile.keep[2];
    let cross_at = z * cross_pitch.plane + y * cross_pitch.row + x0;
    let mut repaired = 0;
    for x in 0..x1 - x0 {
        if !in_doubt(buffers, doubt, cross_at, x, last.marked) {
            continue;
        }
        buffers.own.rows.out[x] = if buffers.flat[cross_at + x] {
            degenerate
        } else {
            repaired += 1;
            last.repair([z, y, x0 + x], &mut buffers.panel)
        };
    }
    repaired
}

/// Below which energy a panel of this tile is doubtful: `energy <= .0 + .1 * sum of squares`.
fn doubt_of<T: Real>(last: &Finishing<'_>, buffers: &Buffers<T>) -> (f64, f64) {
    let Judged { doubt, unseen } = last.judged;
    if doubt.is_constant() {
        return doubt.at(0.0, 0.0);
    }
    let inputs = buffers.inputs.iter().zip(&buffers.factors);
    let energy = inputs.clone().map(|(input, factor)| squares(input) * factor * factor).sum();
    let sample = inputs.clone().map(|(input, factor)| largest(input) * factor).fold(0.0, f64::max);
    let inputs = inputs.map(|(input, &factor)| (&input[..], factor));
    let strong = unseen.strong(inputs, T::to_f64, energy, sample);
    let (mut result, mut peak) = (0.0, 0.0);
    for (channel, (cross, factor)) in buffers.crosses.iter().zip(&buffers.factors).enumerate() {
        let (square, most) = last.results(cross);
        let all = match (last.bands)(channel) {
            Bands::Tile { result } => result,
            _ => 0.0,
        };
        result += square.max(all) * factor * factor;
        peak += most * factor;
    }
    doubt.at_peak(energy, result.sqrt(), peak.max(unseen.most(sample, &strong)))
}

/// Whether panel `x` of the row finished last, whose cross term begins at `cross_at`, is in doubt; one that is to be
/// NaN is not.
fn in_doubt<T: Real>(buffers: &Buffers<T>, doubt: (f64, f64), cross_at: usize, x: usize, marked: bool) -> bool {
    let (energy, square) = buffers.own.rows.panel(x);
    let certain = energy > doubt.0 + doubt.1 * square;
    let settled = certain || (marked && buffers.hit[cross_at + x]);
    !settled
}
