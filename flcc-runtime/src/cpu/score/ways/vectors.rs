//! Scores of a whole tile in vectors (`score/vector.rs`), then what they leave in doubt: one channel in f32, no mask.

use flcc_core::dtype::DType;
use flcc_core::measure::{Formula, Measure};
use flcc_core::spec::Spec;
use flcc_core::wide::Wide;
use flcc_core::with_formula;

use crate::cpu::bands::{Bands, Grid};
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::finishing::largest;
use crate::cpu::score::{Buffers, Finishing, Judged, Own, Score, Store, Tiles, plain, split, vector};
use crate::isa::prefetch::Coming;
use crate::isa::{self, IsaSet, Vectors};
use crate::problem::error_model::{self, Figure, Steps};
use crate::problem::scheme::{Scheme, largest_pixel};
use crate::run::geometry::Pitch;
use crate::run::results::Scores;

/// Rows of a tile whose cross terms are made whole and scored before the next.
const ROWS_AT_A_TIME: usize = 8;

/// Scores in vectors.
struct InVectors {
    vectors: Vectors,
    /// Cross terms are the bits of `i32`.
    bits: bool,
}

/// This way, if it takes such tiles and the processor has vectors.
pub(super) fn of<T: Real>(
    spec: &Spec,
    scheme: &Scheme,
    isas: &IsaSet,
    row: usize,
    bytes: bool,
) -> Option<Box<dyn Score<T>>> {
    let vectors = in_vectors(spec, scheme, T::DTYPE, row).then(|| Vectors::new(isas)).flatten()?;
    Some(Box::new(InVectors { vectors, bits: bytes && scheme.measure == Measure::Zncc }))
}

/// Whether cross terms in this type, whose rows lie `row` apart, become scores in vectors, on processors that have
/// them.
pub fn in_vectors(spec: &Spec, scheme: &Scheme, real: DType, row: usize) -> bool {
    let measured = plain(spec, real) && matches!(scheme.measure, Measure::Zncc | Measure::Ncc);
    // Rows of a transform lie side by side: only where they are whole vectors may one be written to its end.
    let roomy = row.is_multiple_of(vector::WHOLE_VECTORS);
    let probable = scheme.promise.is_some_and(|promise| promise.deviations.is_some());
    let largest = spec.template().len() as f64 * largest_pixel(spec.work_type());
    let exact = scheme.integers.is_none() || largest.powi(2) < 2f64.powi(52);
    // Exact integers fit in tiles of f32, but their scores not in results of f64.
    measured && roomy && probable && exact && spec.out_type() == DType::F32
}

impl<T: Real> Score<T> for InVectors {
    fn in_place(&self) -> bool {
        false
    }

    fn takes_samples(&self) -> bool {
        true
    }

    fn takes_sums(&self) -> bool {
        false
    }

    fn takes_bits(&self) -> bool {
        self.bits
    }

    fn in_singles(&self) -> bool {
        true
    }

    fn adds_parts(&self) -> Option<&Vectors> {
        Some(&self.vectors)
    }

    fn own(&self, tiles: &Tiles<'_>, memory: &mut Memory) -> Own {
        let vectors = Some(vector::Scratch::new(tiles.capacity, tiles.spec.template().padded(), memory));
        let split = tiles.splitter.map(|splitter| splitter.scratch(tiles.capacity[2], memory));
        Own { vectors, split, ..Own::default() }
    }

    fn finish(&self, last: &Finishing<'_>, buffers: &mut Buffers<T>, store: &mut Store<'_>) -> Option<u64> {
        let Tiles { scheme, cross_pitch: Pitch { row, plane, .. }, .. } = last.tiles;
        let degenerate = with_formula!(scheme.measure, F => <F as Formula>::DEGENERATE) as f32;
        let mut repaired = 0;
        if self.score_tile(last, buffers, store.lines)? {
            if scheme.integers.is_some() {
                // Their energy is exact: it is 0 where all samples are equal, and nowhere else.
                let [depth, height, width] = last.tile.shape;
                for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
                    let scores = &mut T::singles_mut(&mut buffers.crosses[0])?[z * plane + y * row..][..width];
                    scores.iter_mut().filter(|score| score.is_nan()).for_each(|score| *score = degenerate);
                }
            } else {
                repaired = settle(last, degenerate, buffers)?;
            }
        }
        let Buffers { crosses, hit, .. } = buffers;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * plane + y * row;
            let scores = &mut T::singles_mut(&mut crosses[0])?[at + x0..at + x1];
            if last.marked {
                scores
                    .iter_mut()
                    .zip(&hit[at + x0..at + x1])
                    .filter(|(_, hit)| **hit)
                    .for_each(|(score, _)| *score = f32::NAN);
            }
            (store.write)(last.number, last.place(z, y), Scores::Single(scores));
        }
        Some(repaired)
    }
}

impl InVectors {
    /// Makes scores of the cross term of the whole tile; returns whether some are NaN, which those in doubt are.
    fn score_tile<T: Real>(
        &self,
        last: &Finishing<'_>,
        buffers: &mut Buffers<T>,
        lines: &dyn Fn(usize, [usize; 3]) -> Option<Coming>,
    ) -> Option<bool> {
        let vectors = &self.vectors;
        let Finishing { template, judged: Judged { doubt, unseen }, .. } = *last;
        let Tiles { spec, scheme, sample_pitch, cross_pitch, splitter, .. } = last.tiles;
        let (window, shape) = (spec.template().padded(), last.tile.shape);
        let outputs = [shape[1], shape[2]];
        let Buffers { inputs, crosses, own: Own { vectors: work, split, .. }, .. } = buffers;
        let (input, cross, work) = (T::singles(&inputs[0])?, T::singles_mut(&mut crosses[0])?, work.as_mut()?);
        let exact = scheme.integers.map(|_| vector::Exact {
            template_sum: template.exact_sums.first().map_or(0.0, |&sum| sum as f64),
            gain: 1.0 / (template.exact_energy as f64).sqrt(),
            bits: self.bits,
        });
        let steps = Steps::new(shape, window);
        let running =
            scheme.promise.map_or(0.0, |promise| error_model::of_running_sums(&promise, &steps, Wide::Double));
        let (centred, share) = (scheme.measure == Measure::Zncc, doubt.at(0.0, 0.0).1);
        let formula = vector::Formula { window, centred, exact, share, running };
        work.largest_row = 0.0;
        let own = match (last.bands)(0) {
            Bands::Tile { result: all } => {
                let energy = vectors.run(vector::Energy(&input[..last.samples.len[0] * sample_pitch.plane]));
                let (result, peak) = last.results(cross);
                let largest = largest(input);
                let strong = unseen.strong([(input, 1.0)].into_iter(), f64::from, energy, largest);
                Figure { energy, result: result.max(all), peak, column: largest.powi(2), strong }
            }
            _ => Figure::default(),
        };
        let grid = match (last.bands)(0) {
            Bands::Grid(grid) => grid,
            _ => Grid::of(&own, outputs),
        };
        let [rows, columns] = grid.places(outputs);
        let [height, width] = grid.place;
        let lanes = vectors.lanes();
        let mut doubtful = false;
        for z in 0..shape[0] {
            let ahead = if last.whole() { lines(last.number, last.place(z, 0)) } else { None };
            if window[0] > 1 {
                let samples = [last.samples.len[1], last.samples.len[2]];
                let pitches = [sample_pitch.row, sample_pitch.plane];
                vectors.run(vector::Stack { depth: window[0], plane: z, input, pitches, samples, scratch: &mut *work });
            }
            for row in 0..rows {
                // A vector that belongs to several places takes the highest limit.
                work.limits.fill(0.0);
                for column in 0..columns {
                    let figure = grid.figure(z, row, column);
                    let (limit, _) = doubt.at_peak(figure.energy, figure.result.sqrt(), figure.peak(&unseen));
                    let limit = limit + running * work.largest_row;
                    for begin in grid.begins(column) {
                        let end = (begin + width).div_ceil(lanes).min(work.limits.len());
                        work.limits[begin / lanes..end].iter_mut().for_each(|most| *most = limit.max(*most));
                    }
                }
                let (input, cross) = (&input[z * sample_pitch.plane..], &mut cross[z * cross_pitch.plane..]);
                let (in_row, out_row) = (sample_pitch.row, cross_pitch.row);
                let rows = [row * height, outputs[0].min((row + 1) * height)];
                // Scored before the next rows are added to, while they are near.
                let step = if last.heights.is_some() { ROWS_AT_A_TIME } else { rows[1] - rows[0] };
                for begin in (rows[0]..rows[1]).step_by(step) {
                    let rows = [begin, rows[1].min(begin + step)];
                    if let (Some(heights), Some(splitter), Some(scratch)) = (last.heights, splitter, &mut *split) {
                        let cross = &mut *cross;
                        vectors.run(split::Add {
                            splitter,
                            heights,
                            input,
                            in_row,
                            outputs,
                            rows,
                            cross,
                            out_row,
                            scratch,
                        });
                    }
                    let buffers = vector::Buffers { input, in_row, cross: &mut *cross, out_row, outputs };
                    doubtful |= vectors.run(vector::ScoreRows { formula, buffers, rows, scratch: &mut *work, ahead });
                }
            }
        }
        Some(doubtful)
    }
}

/// Decides the panels that scoring left as NaN; returns how many were recomputed. Parts of the tile with more of them
/// than `patience` are left to who does that better, in `buffers.again`.
fn settle<T: Real>(last: &Finishing<'_>, degenerate: f32, buffers: &mut Buffers<T>) -> Option<u64> {
    let Tiles { parts, isas, cross_pitch, .. } = last.tiles;
    let (mut repaired, mut flat_known) = (0, false);
    for part in last.tile.parts(parts) {
        let begin = [0, 1, 2].map(|axis| part.origin[axis] - last.tile.origin[axis]);
        // Whether to give up is the whole part's matter, whatever is asked for of it.
        let mut doubts = doubts_of(last, begin, part.shape, flat_known, buffers)?;
        if doubts == Doubts::Flat {
            last.find_flat(buffers);
            flat_known = true;
            doubts = doubts_of(last, begin, part.shape, flat_known, buffers)?;
        }
        if doubts == Doubts::Many {
            if buffers.again.iter().all(|other| other.origin != part.origin) {
                buffers.again.push(part);
            }
            continue;
        }
        let [z, y, x] = [0, 1, 2].map(|axis| (begin[axis] + part.keep[axis].0, begin[axis] + part.keep[axis].1));
        let Buffers { crosses, flat, hit, panel, .. } = &mut *buffers;
        let scores = T::singles_mut(&mut crosses[0])?;
        for (z, y) in (z.0..z.1).flat_map(|z| (y.0..y.1).map(move |y| (z, y))) {
            let row = z * cross_pitch.plane + y * cross_pitch.row;
            // Most rows have none, and all of a row is soon looked at.
            if isa::vectorized!(&isas, || !any_nan(&scores[row + x.0..row + x.1])) {
                continue;
            }
            for x in x.0..x.1 {
                let at = row + x;
                if !scores[at].is_nan() {
                    continue;
                }
                if flat_known && flat[at] {
                    scores[at] = degenerate;
                } else if !(last.marked && hit[at]) {
                    scores[at] = last.repair([z, y, x], panel) as f32;
                    // A flat one is left as it was collected.
                    repaired += u64::from(panel.iter().any(|sample| *sample != panel[0]));
                }
            }
        }
    }
    Some(repaired)
}

/// How many panels of a part of the tile are to be recomputed: those that scoring left as NaN, but for flat ones and
/// those to be NaN. Where it is not known yet which are flat, more than `patience` are counted only if the gathered
/// samples of none before are all equal.
fn doubts_of<T: Real>(
    last: &Finishing<'_>,
    [z0, y0, x0]: [usize; 3],
    shape: [usize; 3],
    flat_known: bool,
    buffers: &Buffers<T>,
) -> Option<Doubts> {
    let Tiles { spec, isas, patience, sample_pitch, cross_pitch, .. } = last.tiles;
    let (input, scores) = (T::singles(&buffers.inputs[0])?, T::singles(&buffers.crosses[0])?);
    let rows = || (z0..z0 + shape[0]).flat_map(move |z| (y0..y0 + shape[1]).map(move |y| (z, y)));
    let row = |(z, y): (usize, usize)| z * cross_pitch.plane + y * cross_pitch.row + x0;
    let nans = |at: usize| isa::vectorized!(&isas, || nans(&scores[at..at + shape[2]]));
    let mut seen = 0;
    if rows().all(|place| {
        seen += nans(row(place)) as u64;
        seen <= patience
    }) {
        return Some(Doubts::Few);
    }
    let [kd, kh, kw] = spec.template().padded();
    let Pitch { row: in_row, plane: in_plane, .. } = sample_pitch;
    let equal = |from: usize| {
        let first = input[from];
        let line = |from: usize| input[from..from + kw].iter().all(|sample| *sample == first);
        line(from) && (0..kd).all(|z| (0..kh).all(|y| line(from + z * in_plane + y * in_row)))
    };
    let mut doubts = 0;
    for (z, y) in rows() {
        let at = row((z, y));
        for x in (0..shape[2]).filter(|x| scores[at + x].is_nan() && !(last.marked && buffers.hit[at + x])) {
            match flat_known {
                true if buffers.flat[at + x] => {}
                false if equal(z * in_plane + y * in_row + x0 + x) => return Some(Doubts::Flat),
                _ => doubts += 1,
            }
            if doubts > patience {
                return Some(Doubts::Many);
            }
        }
    }
    Some(Doubts::Few)
}

/// What is known of the panels of a part of a tile that scoring left as NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubts {
    /// Few are to be recomputed, if any.
    Few,
    /// Many are.
    Many,
    /// Some may be flat: it must be known which.
    Flat,
}

#[inline(always)]
fn any_nan(scores: &[f32]) -> bool {
    scores.iter().fold(false, |any, score| any | score.is_nan())
}

#[inline(always)]
fn nans(scores: &[f32]) -> usize {
    scores.iter().map(|score| u32::from(score.is_nan())).sum::<u32>() as usize
}
