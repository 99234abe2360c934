//! Window sums and scores of a whole tile in vectors, in one pass: one channel in f32, no mask, zncc or ncc.
//!
//! `r = cross / sqrt(energy)` with `energy = sum P^2 - (sum P)^2 / n`. Sums run down the columns in f64: a row is
//! added, the row that leaves the window is subtracted; in a volume the same is done from plane to plane before
//! ([`Stack`]). Along the row they are added up from its begin, within a vector and from vector to vector, and a window
//! is the difference of two of these. For integers all of this is exact. For floats what is subtracted leaves rounding
//! behind, of the size of what rows of windows had before: `Steps` says how many roundings, docs/numerics.md what
//! that does to the doubt. A panel whose energy does not exceed its limit is left as NaN, which no other panel becomes;
//! the caller settles it.

use crate::cpu::aligned::Aligned;
use crate::cpu::memory::Memory;
use crate::isa;
use crate::isa::prefetch::Coming;
use crate::isa::simd::{Job, Simd};

/// Values of whole vectors, of whatever instruction set.
pub const WHOLE_VECTORS: usize = 16;

/// An exact cross term of integers: the score is
/// `(n cross - sum P * template_sum) * gain / sqrt(n sum P^2 - (sum P)^2)`.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// `sum t`, or 0 where the measure does not centre.
    pub template_sum: f64,
    /// 1 over the root of the template's energy.
    pub gain: f64,
    /// Cross terms of a centred measure are the bits of `i32`.
    pub bits: bool,
}

/// What a tile's scores are made with.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// Depth, height and width of the template.
    pub window: [usize; 3],
    /// The mean of a panel is taken from it.
    pub centred: bool,
    /// Samples are integers, and so is the cross term: no energy above 0 is in doubt.
    pub exact: Option<Exact>,
    /// A panel is in doubt unless its energy exceeds its limit plus this share of its sum of squares.
    pub share: f64,
    /// What is added to the limit, of the largest sum of squares of a row of windows so far: what running sums may be
    /// off by.
    pub running: f64,
}

/// Where the samples and the cross term of a plane of a tile lie.
pub struct Buffers<'a> {
    /// Samples of the first plane under the template.
    pub input: &'a [f32],
    /// From one row of samples to the next: whole vectors, zeros past the samples.
    pub in_row: usize,
    /// Cross terms of the plane; scores afterwards.
    pub cross: &'a mut [f32],
    /// From one row of cross terms to the next: whole vectors.
    pub out_row: usize,
    /// Outputs: height and width.
    pub outputs: [usize; 2],
}

/// Sums of one plane and of one row, each for samples and for squares.
pub struct Scratch {
    /// Sums of the planes under the template, row by row and a row of zeros; empty where there is one plane.
    stack: [Aligned<f64>; 2],
    /// Sums of the columns under the template.
    columns: [Aligned<f64>; 2],
    /// Totals of `columns` from the row's begin up to before each: one further than columns, and 0 first.
    totals: [Aligned<f64>; 2],
    /// What leaves the first window.
    zeros: Aligned<f32>,
    /// The limit of the panels of a row, one for each vector of outputs, with what the rows so far add to it.
    pub limits: Vec<f64>,
    /// The largest sum of squares of the samples under a row of outputs so far; 0 before a tile's first row.
    pub largest_row: f64,
    row: usize,
}

impl Scratch {
    /// For tiles of up to so many outputs an axis, of templates of this shape.
    pub fn new(outputs: [usize; 3], window: [usize; 3], memory: &mut Memory) -> Scratch {
        let row = row_len(outputs, window);
        let mut pair = |len: usize| [memory.aligned(0.0, len), memory.aligned(0.0, len)];
        Scratch {
            stack: pair(stack_rows(outputs, window) * row),
            columns: pair(row),
            totals: pair(row),
            zeros: memory.aligned(0.0, row),
            limits: memory.values(0.0, limits(outputs)),
            largest_row: 0.0,
            row,
        }
    }
}

/// Values of a row of sums, with what vectors reach past it.
fn row_len(outputs: [usize; 3], window: [usize; 3]) -> usize {
    (outputs[2] + window[2]).next_multiple_of(16) + 32
}

/// Rows of the sums over planes, with one of zeros.
fn stack_rows(outputs: [usize; 3], window: [usize; 3]) -> usize {
    if window[0] > 1 { outputs[1] + window[1] } else { 0 }
}

/// Limits of a row: as many as the narrowest vectors need.
fn limits(outputs: [usize; 3]) -> usize {
    outputs[2].div_ceil(4)
}

/// Brings the sums over the planes under a template to the next output plane of a tile.
pub struct Stack<'a> {
    /// Planes of the template.
    pub depth: usize,
    /// The output plane; the sums are those of the one before, unless it is the first.
    pub plane: usize,
    /// Samples of the whole tile.
    pub input: &'a [f32],
    /// From one row of samples to the next, and from one plane to the next.
    pub pitches: [usize; 2],
    /// Samples: rows and columns.
    pub samples: [usize; 2],
    /// Where the sums are.
    pub scratch: &'a mut Scratch,
}

impl Job for Stack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Stack { depth, plane, input, pitches: [in_row, in_plane], samples: [rows, columns], scratch } = self;
        let vectors = columns.div_ceil(S::HALF);
        let Scratch { stack: [sums, squares], zeros, row: pitch, .. } = scratch;
        let nothing = Single::<S>(&S::half_rows(zeros)[..vectors]);
        for y in 0..rows {
            let line = |z: usize| {
                Single::<S>(&S::half_rows(&input[z * in_plane + y * in_row..][..vectors * S::HALF])[..vectors])
            };
            let (sums, squares) = (
                &mut S::double_rows_mut(&mut sums[y * *pitch..])[..vectors],
                &mut S::double_rows_mut(&mut squares[y * *pitch..])[..vectors],
            );
            let (enter, leave) = if plane == 0 { (depth - 1, None) } else { (plane + depth - 1, Some(plane - 1)) };
            if plane == 0 {
                clear(s, sums, squares);
                for z in 0..depth - 1 {
                    add(s, line(z), sums, squares);
                }
            }
            let (enters, leaves) = (line(enter), leave.map_or(nothing, line));
            for v in 0..vectors {
                let sum = enters.add(s, v, [s.load_double(&sums[v]), s.load_double(&squares[v])]);
                let [sum, square] = leaves.take(s, v, sum);
                s.store_double(&mut sums[v], sum);
                s.store_double(&mut squares[v], square);
            }
        }
    }
}

/// A row of what column sums are made of.
trait Line<S: Simd>: Copy {
    /// A sum and a sum of squares with vector `v` of it.
    fn add(self, s: S, v: usize, sums: [S::Double; 2]) -> [S::Double; 2];
    /// Without it.
    fn take(self, s: S, v: usize, sums: [S::Double; 2]) -> [S::Double; 2];
}

/// A line of samples.
#[derive(Clone, Copy)]
struct Single<'a, S: Simd>(&'a [S::HalfRow]);

impl<S: Simd> Line<S> for Single<'_, S> {
    #[inline(always)]
    fn add(self, s: S, v: usize, [sum, square]: [S::Double; 2]) -> [S::Double; 2] {
        let value = s.widen(&self.0[v]);
        [s.add_double(sum, value), s.mul_add_double(value, value, square)]
    }

    #[inline(always)]
    fn take(self, s: S, v: usize, [sum, square]: [S::Double; 2]) -> [S::Double; 2] {
        let value = s.widen(&self.0[v]);
        [s.sub_double(sum, value), s.sub_mul_double(value, value, square)]
    }
}

/// Sums of samples and of squares.
#[derive(Clone, Copy)]
struct Stacked<'a, S: Simd>(&'a [S::DoubleRow], &'a [S::DoubleRow]);

impl<S: Simd> Line<S> for Stacked<'_, S> {
    #[inline(always)]
    fn add(self, s: S, v: usize, [sum, square]: [S::Double; 2]) -> [S::Double; 2] {
        [s.add_double(sum, s.load_double(&self.0[v])), s.add_double(square, s.load_double(&self.1[v]))]
    }

    #[inline(always)]
    fn take(self, s: S, v: usize, [sum, square]: [S::Double; 2]) -> [S::Double; 2] {
        [s.sub_double(sum, s.load_double(&self.0[v])), s.sub_double(square, s.load_double(&self.1[v]))]
    }
}

#[inline(always)]
fn clear<S: Simd>(s: S, sums: &mut [S::DoubleRow], squares: &mut [S::DoubleRow]) {
    for (sum, square) in sums.iter_mut().zip(squares) {
        s.store_double(sum, s.splat_double(0.0));
        s.store_double(square, s.splat_double(0.0));
    }
}

/// Adds a line to sums as long as it.
#[inline(always)]
fn add<S: Simd>(s: S, line: impl Line<S>, sums: &mut [S::DoubleRow], squares: &mut [S::DoubleRow]) {
    let vectors = sums.len().min(squares.len());
    for v in 0..vectors {
        let [sum, square] = line.add(s, v, [s.load_double(&sums[v]), s.load_double(&squares[v])]);
        s.store_double(&mut sums[v], sum);
        s.store_double(&mut squares[v], square);
    }
}

/// Scores rows `rows` of a plane; the rows before them were scored by the same buffers just before, unless they begin
/// at 0.
pub struct ScoreRows<'a> {
    /// What sums become.
    pub formula: Formula,
    /// The plane.
    pub buffers: Buffers<'a>,
    /// First row and the one after the last.
    pub rows: [usize; 2],
    /// Sums over planes, if there are several, row sums, and the limits of the panels of these rows.
    pub scratch: &'a mut Scratch,
    /// Where the scores of the plane will be written, a line of which is asked for with every vector of them.
    pub ahead: Option<Coming>,
}

impl Job for ScoreRows<'_> {
    /// Whether some panel is NaN.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        let (factors, mut doubtful) = (Factors::new(s, &self.formula), false);
        for y in self.rows[0]..self.rows[1] {
            self.sums(s, y);
            let columns = self.buffers.outputs[1] + self.formula.window[2] - 1;
            let Scratch { totals: [_, squares], largest_row, limits, .. } = &mut *self.scratch;
            if squares[columns] > *largest_row {
                let more = self.formula.running * (squares[columns] - *largest_row);
                limits.iter_mut().for_each(|limit| *limit += more);
                *largest_row = squares[columns];
            }
            doubtful |= match (self.formula.centred, self.formula.exact) {
                (true, Some(exact)) if exact.bits => self.scores::<S, true, true, true>(s, y, &factors),
                (true, Some(_)) => self.scores::<S, true, true, false>(s, y, &factors),
                (true, None) => self.scores::<S, true, false, false>(s, y, &factors),
                (false, Some(_)) => self.scores::<S, false, true, false>(s, y, &factors),
                (false, None) => self.scores::<S, false, false, false>(s, y, &factors),
            };
        }
        doubtful
    }
}

impl ScoreRows<'_> {
    /// Brings the column sums to row `y` and adds them up along it.
    #[inline(always)]
    fn sums<S: Simd>(&mut self, s: S, y: usize) {
        let Buffers { input, in_row, outputs, .. } = self.buffers;
        let [depth, height, width] = self.formula.window;
        let vectors = (outputs[1] + width - 1).div_ceil(S::HALF);
        let Scratch { stack: [sums, squares], columns, totals, zeros, row: pitch, .. } = &mut *self.scratch;
        let run = Running { y, height, vectors, columns, totals };
        if depth == 1 {
            let nothing = Single::<S>(&S::half_rows(zeros)[..vectors]);
            run.sums(s, |row| Single(&S::half_rows(&input[row * in_row..][..vectors * S::HALF])[..vectors]), nothing);
        } else {
            let line = |row: usize| {
                let at = row * *pitch;
                Stacked::<S>(&S::double_rows(&sums[at..])[..vectors], &S::double_rows(&squares[at..])[..vectors])
            };
            // After the rows of samples the scratch has one of zeros.
            run.sums(s, line, line(sums.len() / *pitch - 1));
        }
    }

    /// Scores of row `y`; returns whether some panel is NaN.
    #[inline(always)]
    fn scores<S: Simd, const CENTRED: bool, const EXACT: bool, const BITS: bool>(
        &mut self,
        s: S,
        y: usize,
        factors: &Factors<S>,
    ) -> bool {
        let (out_row, width, window) = (self.buffers.out_row, self.buffers.outputs[1], self.formula.window[2]);
        let vectors = width.div_ceil(S::LANES);
        let reach = vectors * S::LANES;
        let scores = &mut S::rows_mut(&mut self.buffers.cross[y * out_row..][..reach])[..vectors];
        let [sums, squares] = &self.scratch.totals;
        let energies = Energies::<S, CENTRED, EXACT, BITS> {
            factors,
            sums: [&pairs::<S>(&sums[..reach])[..vectors], &pairs::<S>(&sums[window..][..reach])[..vectors]],
            squares: [&pairs::<S>(&squares[..reach])[..vectors], &pairs::<S>(&squares[window..][..reach])[..vectors]],
            limits: &self.scratch.limits[..vectors],
        };
        let ahead = self.ahead.map(|lines| lines.from.wrapping_add(y * lines.pitch));
        let mut seen = s.splat(0.0);
        // The next vector's energies are begun before this one's scores are ended, so that neither waits for the other.
        let mut made = energies.of(s, 0, s.load(&scores[0]));
        for number in 1..vectors {
            let next = energies.of(s, number, s.load(&scores[number]));
            let value = factors.score::<EXACT>(s, made);
            s.store(&mut scores[number - 1], value);
            if let Some(row) = ahead {
                isa::ask_line::<true>(row.wrapping_add(number * S::LANES));
            }
            seen = s.add(seen, value);
            made = next;
        }
        let value = factors.score::<EXACT>(s, made);
        s.store(&mut scores[vectors - 1], value);
        // What lies past the row is no panel.
        s.any_nan(seen, S::LANES) | s.any_nan(value, width - (vectors - 1) * S::LANES)
    }
}

/// The numbers of a formula, in every lane.
struct Factors<S: Simd> {
    count: S::Double,
    per_sample: S::Double,
    share: S::Double,
    template_sum: S::Double,
    gain: S::Single,
}

impl<S: Simd> Factors<S> {
    #[inline(always)]
    fn new(s: S, formula: &Formula) -> Factors<S> {
        let n = formula.window.iter().product::<usize>() as f64;
        let exact = formula.exact.unwrap_or(Exact { template_sum: 0.0, gain: 1.0, bits: false });
        Factors {
            count: s.splat_double(n),
            per_sample: s.splat_double(1.0 / n),
            share: s.splat_double(formula.share),
            template_sum: s.splat_double(exact.template_sum),
            gain: s.splat(exact.gain as f32),
        }
    }

    /// Scores of energies and cross terms; NaN of NaN.
    #[inline(always)]
    fn score<const EXACT: bool>(&self, s: S, (energy, cross): (S::Single, S::Single)) -> S::Single {
        let cross = if EXACT { s.mul(cross, self.gain) } else { cross };
        s.clamp(s.mul(cross, s.reciprocal_root(energy)))
    }
}

/// What energies of a row are made of.
struct Energies<'a, S: Simd, const CENTRED: bool, const EXACT: bool, const BITS: bool> {
    factors: &'a Factors<S>,
    /// Totals before the first column of each window, and before the first past it.
    sums: [&'a [[S::DoubleRow; 2]]; 2],
    squares: [&'a [[S::DoubleRow; 2]]; 2],
    limits: &'a [f64],
}

impl<S: Simd, const CENTRED: bool, const EXACT: bool, const BITS: bool> Energies<'_, S, CENTRED, EXACT, BITS> {
    /// The energies of a vector of panels, NaN where they are in doubt, and the cross term that goes with them.
    #[inline(always)]
    fn of(&self, s: S, number: usize, cross: S::Single) -> (S::Single, S::Single) {
        let Factors { count, per_sample, share, template_sum, .. } = *self.factors;
        let zero = s.splat_double(0.0);
        let crosses = match (CENTRED && EXACT, BITS) {
            (true, true) => s.split_integers(cross),
            (true, false) => s.split(cross),
            (false, _) => [zero; 2],
        };
        let limit = s.splat_double(self.limits[number]);
        let (mut energies, mut centred) = ([[zero; 2]; 2], [zero; 2]);
        for half in 0..2 {
            let (i, ii) = (difference(s, self.sums, number, half), difference(s, self.squares, number, half));
            let energy = match (CENTRED, EXACT) {
                (true, true) => s.sub_mul_double(i, i, s.mul_double(ii, count)),
                (true, false) => s.sub_mul_double(s.mul_double(i, per_sample), i, ii),
                (false, _) => ii,
            };
            energies[half] = [energy, if EXACT { zero } else { s.mul_add_double(share, ii, limit) }];
            if CENTRED && EXACT {
                centred[half] = s.sub_mul_double(i, template_sum, s.mul_double(crosses[half], count));
            }
        }
        let cross = if CENTRED && EXACT { s.narrow(centred[0], centred[1]) } else { cross };
        (s.narrow_above(energies[0], energies[1]), cross)
    }
}

/// Column sums on their way to row `y`, and their totals along it.
struct Running<'a> {
    y: usize,
    height: usize,
    vectors: usize,
    columns: &'a mut [Aligned<f64>; 2],
    totals: &'a mut [Aligned<f64>; 2],
}

impl Running<'_> {
    /// Brings the column sums to row `y` and takes their totals. `line` reads a row of samples, or of sums over planes;
    /// `nothing` is what leaves the first window.
    #[inline(always)]
    fn sums<S: Simd, L: Line<S>>(self, s: S, line: impl Fn(usize) -> L, nothing: L) {
        let Running { y, height, vectors, columns: [sums, squares], totals: [sum_totals, square_totals] } = self;
        let (sums, squares) = (&mut S::double_rows_mut(sums)[..vectors], &mut S::double_rows_mut(squares)[..vectors]);
        let sum_totals = &mut S::double_rows_mut(&mut sum_totals[1..])[..vectors];
        let square_totals = &mut S::double_rows_mut(&mut square_totals[1..])[..vectors];
        if y == 0 {
            clear(s, sums, squares);
            for row in 0..height - 1 {
                add(s, line(row), sums, squares);
            }
        }
        let (enters, leaves) = (line(y + height - 1), if y == 0 { nothing } else { line(y - 1) });
        let mut before = s.splat_double(0.0);
        // The next vector's columns are brought on before this one's are added up, so that neither waits for the other.
        let mut column = step(s, 0, enters, leaves, sums, squares);
        for v in 1..vectors {
            let next = step(s, v, enters, leaves, sums, squares);
            let ([total, square_total], after) = s.totals(column[0], column[1], before);
            s.store_double(&mut sum_totals[v - 1], total);
            s.store_double(&mut square_totals[v - 1], square_total);
            (before, column) = (after, next);
        }
        let ([total, square_total], _) = s.totals(column[0], column[1], before);
        s.store_double(&mut sum_totals[vectors - 1], total);
        s.store_double(&mut square_totals[vectors - 1], square_total);
    }
}

/// Brings vector `v` of column sums from one row to the next.
#[inline(always)]
fn step<S: Simd, L: Line<S>>(
    s: S,
    v: usize,
    enters: L,
    leaves: L,
    sums: &mut [S::DoubleRow],
    squares: &mut [S::DoubleRow],
) -> [S::Double; 2] {
    let column = enters.add(s, v, [s.load_double(&sums[v]), s.load_double(&squares[v])]);
    let [sum, square] = leaves.take(s, v, column);
    s.store_double(&mut sums[v], sum);
    s.store_double(&mut squares[v], square);
    [sum, square]
}

/// What half a vector of windows adds up to, by the totals before and after each.
#[inline(always)]
fn difference<S: Simd>(s: S, [before, after]: [&[[S::DoubleRow; 2]]; 2], number: usize, half: usize) -> S::Double {
    s.sub_double(s.load_double(&after[number][half]), s.load_double(&before[number][half]))
}

/// Sums of as many windows as a vector of `f32` has values, after each other.
#[inline(always)]
fn pairs<S: Simd>(sums: &[f64]) -> &[[S::DoubleRow; 2]] {
    S::double_rows(sums).as_chunks().0
}

/// The sum of squares of a buffer, to a few digits.
pub struct Energy<'a>(pub &'a [f32]);

impl Job for Energy<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let rows = S::rows(self.0);
        let mut sums = [s.splat(0.0); 4];
        for four in rows.chunks_exact(4) {
            for (sum, row) in sums.iter_mut().zip(four) {
                let value = s.load(row);
                *sum = s.mul_add(value, value, *sum);
            }
        }
        for row in rows.chunks_exact(4).remainder() {
            let value = s.load(row);
            sums[0] = s.mul_add(value, value, sums[0]);
        }
        let rest: f64 = self.0[rows.len() * S::LANES..].iter().map(|value| f64::from(*value).powi(2)).sum();
        sums.iter().map(|sum| f64::from(s.total(*sum))).sum::<f64>() + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing;
    use crate::isa::Vectors;
    use crate::problem::error_model::{Promise, Steps, of_running_sums};
    use flcc_core::wide::Wide;
    use proptest::prelude::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        (0..count).map(|_| (next() % 256) as f32).collect()
    }

    /// A tile, its template's shape and what is asked of it.
    struct Case {
        window: [usize; 3],
        outputs: [usize; 3],
        centred: bool,
        exact: bool,
        seed: u64,
    }

    /// Scores a case in parts of so many rows and compares it with the plain formula, panel by panel.
    fn check(vectors: &Vectors, case: &Case, part: usize) {
        let Case { window: [kd, kh, kw], outputs: [depth, height, width], centred, exact, seed } = *case;
        let [planes, rows, columns] = [depth + kd - 1, height + kh - 1, width + kw - 1];
        let (in_row, out_row) = (columns.next_multiple_of(16), width.next_multiple_of(16));
        let (in_plane, out_plane) = (in_row * rows, out_row * height);
        let mut input = vec![0.0; in_plane * planes];
        for (row, samples) in input.chunks_mut(in_row).zip(numbers(planes * rows * columns, seed).chunks(columns)) {
            row[..samples.len()].copy_from_slice(samples);
        }
        // One corner of equal samples: panels in doubt.
        for plane in input.chunks_mut(in_plane).take((depth + kd) / 2) {
            for row in plane.chunks_mut(in_row).take((height + kh) / 2) {
                row[..(width + kw) / 2].fill(if centred { 9.0 } else { 0.0 });
            }
        }
        let cross: Vec<f32> = numbers(out_plane * depth, seed + 1);
        let bits = exact && centred && seed % 2 == 0;
        let mut scores = cross.clone();
        if bits {
            scores.iter_mut().for_each(|value| *value = f32::from_bits(*value as u32));
        }
        let n = (kd * kh * kw) as f64;
        let exact = exact.then_some(Exact { template_sum: if centred { 77.0 } else { 0.0 }, gain: 1.0 / 1234.0, bits });
        let formula = Formula { window: case.window, centred, exact, share: 1e-9, running: 0.0 };
        let mut scratch = Scratch::new(case.outputs, case.window, &mut Memory::making());
        scratch.limits.fill(1e-3);
        let mut doubtful = false;
        for z in 0..depth {
            if kd > 1 {
                let stack = Stack {
                    depth: kd,
                    plane: z,
                    input: &input,
                    pitches: [in_row, in_plane],
                    samples: [rows, columns],
                    scratch: &mut scratch,
                };
                vectors.run(stack);
            }
            for first in (0..height).step_by(part) {
                let (input, cross) = (&input[z * in_plane..], &mut scores[z * out_plane..]);
                let buffers = Buffers { input, in_row, cross, out_row, outputs: [height, width] };
                let rows = [first, height.min(first + part)];
                doubtful |= vectors.run(ScoreRows { formula, buffers, rows, scratch: &mut scratch, ahead: None });
            }
        }
        let mut some = false;
        for (z, y, x) in (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x)))) {
            let lines = (0..kd).flat_map(|dz| (0..kh).map(move |dy| (z + dz) * in_plane + (y + dy) * in_row + x));
            let panel = lines.flat_map(|at| input[at..at + kw].iter().map(|&value| f64::from(value)));
            let (i, ii) = panel.fold((0.0, 0.0), |(i, ii), value| (i + value, ii + value * value));
            let at = z * out_plane + y * out_row + x;
            let cross = f64::from(cross[at]);
            let (cross, energy) = match (centred, exact) {
                (true, Some(exact)) => ((n * cross - i * exact.template_sum) * exact.gain, n * ii - i * i),
                (true, None) => (cross, ii - i * i / n),
                (false, Some(exact)) => (cross * exact.gain, ii),
                (false, None) => (cross, ii),
            };
            let got = f64::from(scores[at]);
            let limit = if exact.is_some() { 0.0 } else { 1e-3 + 1e-9 * ii };
            some |= got.is_nan();
            if energy > limit {
                let want = (cross / energy.sqrt()).clamp(-1.0, 1.0);
                assert!((got - want).abs() <= 1e-6, "{kd}x{kh}x{kw} at {z},{y},{x}: {got} for {want}");
            } else {
                assert!(got.is_nan(), "{kd}x{kh}x{kw} at {z},{y},{x}: energy {energy} is not certain, got {got}");
            }
        }
        assert_eq!(doubtful, some, "{kd}x{kh}x{kw}");
    }

    fn every_set(mut check: impl FnMut(&Vectors)) {
        for isas in testing::sets() {
            check(&Vectors::new(&isas).expect("a set that was detected"));
        }
    }

    #[test]
    fn every_width_of_template() {
        every_set(|vectors| {
            for width in (1..=40).chain([63, 64, 65, 200]) {
                check(
                    vectors,
                    &Case {
                        window: [1, 2, width],
                        outputs: [1, 5, 50],
                        centred: true,
                        exact: false,
                        seed: width as u64,
                    },
                    5,
                );
            }
        });
    }

    /// Where the limit of running sums leaves no doubt, the energy is right to the fifth of the promise that is kept
    /// for it.
    #[test]
    fn scores_of_running_sums_keep_their_part_of_the_promise() {
        let promise = Promise { error: 1e-5, deviations: Some(8.0) };
        let outputs: [usize; 3] = [1, 60, 300];
        every_set(|vectors| {
            let (mut certain, mut largest) = (0, 0.0f64);
            for (window, (kind, (name, image))) in [[1usize, 3, 4], [1, 8, 8], [1, 30, 21]]
                .into_iter()
                .flat_map(|window| testing::IMAGES.iter().enumerate().map(move |image| (window, image)))
            {
                let [_, height, width] = window;
                let (rows, columns) = (outputs[1] + height - 1, outputs[2] + width - 1);
                let (in_row, out_row) = (columns.next_multiple_of(16), outputs[2].next_multiple_of(16));
                let mut noise = testing::noise(kind as u64 + 1);
                let mut input = vec![0.0; in_row * rows];
                for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                    input[y * in_row + x] = image(y, x, noise());
                }
                let energy = |y: usize, x: usize| {
                    let panel = || {
                        (0..height)
                            .flat_map(|i| input[(y + i) * in_row + x..][..width].iter().map(|&value| f64::from(value)))
                    };
                    let mean = panel().sum::<f64>() / (height * width) as f64;
                    panel().map(|value| (value - mean).powi(2)).sum::<f64>()
                };
                // Scores of a half, if the energy is right.
                let mut scores = vec![0.0; out_row * outputs[1]];
                let places = || (0..outputs[1]).flat_map(|y| (0..outputs[2]).map(move |x| (y, x)));
                places().for_each(|(y, x)| scores[y * out_row + x] = (0.5 * energy(y, x).sqrt()) as f32);
                let mut scratch = Scratch::new(outputs, window, &mut Memory::making());
                let running = of_running_sums(&promise, &Steps::new(outputs, window), Wide::Double);
                let formula = Formula { window, centred: true, exact: None, share: 1e-9, running };
                let buffers =
                    Buffers { input: &input, in_row, cross: &mut scores, out_row, outputs: [outputs[1], outputs[2]] };
                vectors.run(ScoreRows { formula, buffers, rows: [0, outputs[1]], scratch: &mut scratch, ahead: None });
                for (y, x) in places().filter(|&(y, x)| !scores[y * out_row + x].is_nan()) {
                    // Half an energy's relative error is a score's; beside it, the root and the products in f32.
                    let error = (f64::from(scores[y * out_row + x]) - 0.5).abs();
                    assert!(error <= 0.5 * 0.2e-5 + 2e-7, "{window:?} {name} at {y},{x}: off by {error:.2e}");
                    (certain, largest) = (certain + 1, largest.max(error));
                }
            }
            println!("largest error {largest:.2e} of {certain} panels that are not in doubt");
            assert!(certain > 200_000, "only {certain} panels are not in doubt");
        });
    }

    #[test]
    fn the_energy_of_a_buffer() {
        every_set(|vectors| {
            for count in [0, 1, 17, 64, 1000] {
                let values = numbers(count, 3);
                let want: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
                assert!((vectors.run(Energy(&values)) - want).abs() <= 1e-5 * want);
            }
        });
    }

    proptest! {
        #[test]
        fn scores_are_those_of_the_plain_formula(
            depth in 1usize..6, window in prop::array::uniform2(1usize..24), planes in 1usize..4,
            outputs in (1usize..20, 1usize..70), part in 1usize..20, centred in any::<bool>(), exact in any::<bool>(),
            seed in any::<u32>(),
        ) {
            let (window, outputs) = ([depth, window[0], window[1]], [planes, outputs.0, outputs.1]);
            let case = Case { window, outputs, centred, exact, seed: seed.into() };
            every_set(|vectors| check(vectors, &case, part));
        }
    }
}
