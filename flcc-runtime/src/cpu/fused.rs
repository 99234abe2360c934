//! Window sums and scores of a whole tile, fused, in vectors: one channel in f32, no mask, zncc or ncc.
//!
//! `r = cross / sqrt(energy)` with `energy = sum P^2 - (sum P)^2 / n`. Sums run down the columns in f64: a row is added, the row
//! that leaves the window is subtracted. Along the row they are made of blocks: neighbours are added in registers until a
//! block is as wide as a vector, and a window is some blocks and what is left over; a wide one slides by a block at a time.
//! For integers all of this is exact. For floats what is subtracted leaves rounding behind, of the size of the
//! tile's energy: [`steps`] says how many roundings, docs/numerics.md what that does to the doubt. A panel whose energy
//! does not exceed its limit is left as NaN, which no other panel becomes; the caller settles it.

use super::aligned::Aligned;
use super::simd::{Job, Simd};

/// Roundings that a window sum of a tile of these outputs may have gone through, at most.
pub fn steps([height, width]: [usize; 2]) -> f64 {
    (2 * height + width / 2 + 8) as f64
}

/// An exact cross term of integers: the score is `(n cross - sum P * template_sum) * gain / sqrt(n sum P^2 - (sum P)^2)`.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// `sum t`, or 0 where the measure does not centre.
    pub template_sum: f64,
    /// 1 over the root of the template's energy.
    pub gain: f64,
}

/// What a tile's scores are made with.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// Height and width of the template.
    pub window: [usize; 2],
    /// The mean of a panel is taken from it.
    pub centred: bool,
    /// Samples are integers, and so is the cross term: no energy above 0 is in doubt.
    pub exact: Option<Exact>,
    /// A panel is in doubt unless its energy exceeds its limit plus this share of its sum of squares.
    pub share: f64,
}

/// Where the samples and the cross term of a tile lie.
pub struct Buffers<'a> {
    /// Samples.
    pub input: &'a [f32],
    /// From one row of samples to the next: whole vectors, zeros past the samples.
    pub in_row: usize,
    /// Cross terms; scores afterwards.
    pub cross: &'a mut [f32],
    /// From one row of cross terms to the next: whole vectors.
    pub out_row: usize,
    /// Outputs: height and width.
    pub outputs: [usize; 2],
}

/// Sums of one row, each for samples and for squares.
pub struct FusedScratch {
    columns: [Aligned<f64>; 2],
    blocks: [Aligned<f64>; 2],
    fours: [Aligned<f64>; 2],
    twos: [Aligned<f64>; 2],
    /// The limit of each panel of a row.
    pub limits: Aligned<f64>,
}

impl FusedScratch {
    /// For tiles of up to so many outputs a row, of templates of this width.
    pub fn new(outputs: usize, window: usize) -> FusedScratch {
        let row = || [Aligned::new(0.0, row_len(outputs, window)), Aligned::new(0.0, row_len(outputs, window))];
        FusedScratch { columns: row(), blocks: row(), fours: row(), twos: row(), limits: Aligned::new(0.0, row_len(outputs, window)) }
    }

    /// Bytes of that.
    pub fn bytes(outputs: usize, window: usize) -> usize {
        9 * Aligned::<f64>::bytes(row_len(outputs, window))
    }
}

/// Values of a row of sums, with what vectors reach past it.
fn row_len(outputs: usize, window: usize) -> usize {
    (outputs + window).next_multiple_of(16) + 64
}

/// Scores rows `rows` of a tile; the rows before them were scored by the same buffers just before, unless they begin at 0.
pub struct Rows<'a> {
    /// How.
    pub formula: Formula,
    /// The tile.
    pub buffers: Buffers<'a>,
    /// First row and the one after the last.
    pub rows: [usize; 2],
    /// Row sums, and the limits of the panels of these rows.
    pub scratch: &'a mut FusedScratch,
}

impl Job for Rows<'_> {
    /// Whether some panel is NaN.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        let mut doubtful = false;
        for y in self.rows[0]..self.rows[1] {
            self.sums(s, y);
            doubtful |= match (self.formula.centred, self.formula.exact.is_some()) {
                (true, true) => self.scores::<S, true, true>(s, y),
                (true, false) => self.scores::<S, true, false>(s, y),
                (false, true) => self.scores::<S, false, true>(s, y),
                (false, false) => self.scores::<S, false, false>(s, y),
            };
        }
        doubtful
    }
}

/// The last vectors of columns, of sums of two and of four neighbours.
#[derive(Clone, Copy)]
struct Delayed<S: Simd> {
    one: S::Double,
    two: S::Double,
    four: S::Double,
}

impl<S: Simd> Delayed<S> {
    #[inline(always)]
    fn new(s: S) -> Delayed<S> {
        let zero = s.splat_double(0.0);
        Delayed { one: zero, two: zero, four: zero }
    }

    /// Takes the next columns; afterwards `two` lies one vector back, `four` two, and the block that is returned as many as
    /// a block has doublings.
    #[inline(always)]
    fn push(&mut self, s: S, next: S::Double) -> S::Double {
        let two = s.add_double(self.one, s.slide::<1>(self.one, next));
        let four = s.add_double(self.two, s.slide::<2>(self.two, two));
        let block = if S::HALF == 8 { s.add_double(self.four, s.slide::<4>(self.four, four)) } else { four };
        *self = Delayed { one: next, two, four };
        block
    }
}

/// How a window divides into blocks.
struct Division {
    /// Whole blocks.
    blocks: usize,
    /// Where four, two and one more samples begin, if they do.
    four: Option<usize>,
    two: Option<usize>,
    one: Option<usize>,
}

impl Division {
    #[inline(always)]
    fn new(width: usize, block: usize) -> Division {
        let (blocks, rest) = (width / block, width % block);
        let mut at = blocks * block;
        let mut part = |samples: usize| {
            let begin = (rest & samples != 0).then_some(at);
            at += rest & samples;
            begin
        };
        let (four, two, one) = (part(4), part(2), part(1));
        Division { blocks, four, two, one }
    }
}

impl Rows<'_> {
    /// Brings the column sums to row `y` and makes blocks of them.
    #[inline(always)]
    fn sums<S: Simd>(&mut self, s: S, y: usize) {
        let Buffers { input, in_row, outputs, .. } = self.buffers;
        let [height, width] = self.formula.window;
        let vectors = (outputs[1] + width - 1).div_ceil(S::HALF);
        let all = ((outputs[1].next_multiple_of(S::LANES) + width).div_ceil(S::HALF) + 4).min(self.scratch.columns[0].len() / S::HALF);
        let FusedScratch { columns: [sums, squares], blocks, fours, twos, .. } = &mut *self.scratch;
        let (sums, squares) = (&mut sums[..], &mut squares[..]);
        let ([sum_blocks, square_blocks], [sum_fours, square_fours], [sum_twos, square_twos]) = (blocks, fours, twos);
        let (sum_blocks, square_blocks) = (&mut sum_blocks[..], &mut square_blocks[..]);
        let (sum_fours, square_fours) = (&mut sum_fours[..], &mut square_fours[..]);
        let (sum_twos, square_twos) = (&mut sum_twos[..], &mut square_twos[..]);
        if y == 0 {
            sums.fill(0.0);
            squares.fill(0.0);
            for row in 0..height - 1 {
                let row = &input[row * in_row..];
                for v in 0..vectors {
                    let at = v * S::HALF;
                    let value = s.widen(row, at);
                    s.store_double(sums, at, s.add_double(s.load_double(sums, at), value));
                    s.store_double(squares, at, s.mul_add_double(value, value, s.load_double(squares, at)));
                }
            }
        }
        let enters = &input[(y + height - 1) * in_row..][..vectors * S::HALF];
        let leaves = if y == 0 { None } else { Some(&input[(y - 1) * in_row..][..vectors * S::HALF]) };
        let division = Division::new(width, S::HALF);
        let (mut sum_delay, mut square_delay) = (Delayed::new(s), Delayed::new(s));
        let zero = s.splat_double(0.0);
        for v in 0..all {
            let at = v * S::HALF;
            let (mut sum, mut square) = (zero, zero);
            if v < vectors {
                let value = s.widen(enters, at);
                sum = s.add_double(s.load_double(sums, at), value);
                square = s.mul_add_double(value, value, s.load_double(squares, at));
                if let Some(leaves) = leaves {
                    let value = s.widen(leaves, at);
                    sum = s.sub_double(sum, value);
                    square = s.sub_mul_double(value, value, square);
                }
                s.store_double(sums, at, sum);
                s.store_double(squares, at, square);
            }
            s.store_double(sum_blocks, at, sum_delay.push(s, sum));
            s.store_double(square_blocks, at, square_delay.push(s, square));
            if division.four.is_some() {
                s.store_double(sum_fours, at, sum_delay.four);
                s.store_double(square_fours, at, square_delay.four);
            }
            if division.two.is_some() {
                s.store_double(sum_twos, at, sum_delay.two);
                s.store_double(square_twos, at, square_delay.two);
            }
        }
    }

    /// Scores of row `y`; returns whether some panel is NaN.
    #[inline(always)]
    fn scores<S: Simd, const CENTRED: bool, const EXACT: bool>(&mut self, s: S, y: usize) -> bool {
        let Formula { window, exact, share, .. } = self.formula;
        let Buffers { out_row, outputs, .. } = self.buffers;
        let scores = &mut self.buffers.cross[y * out_row..][..outputs[1].next_multiple_of(S::LANES)];
        let limits = &self.scratch.limits[..];
        let n = (window[0] * window[1]) as f64;
        let (count, per_sample, share) = (s.splat_double(n), s.splat_double(1.0 / n), s.splat_double(share));
        let exact = exact.unwrap_or(Exact { template_sum: 0.0, gain: 1.0 });
        let (template_sum, gain) = (s.splat_double(exact.template_sum), s.splat(exact.gain as f32));
        let division = Division::new(window[1], S::HALF);
        let mut slide = Slide::new(s, self.scratch, division.blocks);
        let mut seen = s.splat(0.0);
        let zero = s.splat_double(0.0);
        for x in (0..outputs[1]).step_by(S::LANES) {
            let cross = s.load_at(scores, x);
            let (mut energies, mut centred) = ([zero; 2], [zero; 2]);
            for half in 0..2 {
                let at = x + half * S::HALF;
                let [i, ii] = slide.next(s, at, &division);
                let energy = match (CENTRED, EXACT) {
                    (true, true) => s.sub_mul_double(i, i, s.mul_double(ii, count)),
                    (true, false) => s.sub_mul_double(s.mul_double(i, per_sample), i, ii),
                    (false, _) => ii,
                };
                let limit = if EXACT { zero } else { s.mul_add_double(share, ii, s.load_double(limits, at)) };
                energies[half] = s.above(energy, limit);
                if CENTRED && EXACT {
                    centred[half] = s.sub_mul_double(i, template_sum, s.mul_double(s.widen(scores, at), count));
                }
            }
            let root = s.reciprocal_root(s.narrow(energies[0], energies[1]));
            let cross = if CENTRED && EXACT { s.narrow(centred[0], centred[1]) } else { cross };
            let score = if EXACT { s.mul(s.mul(cross, gain), root) } else { s.mul(cross, root) };
            let score = s.clamp(score);
            // What lies past the row is no panel.
            if x + S::LANES <= outputs[1] {
                seen = s.add(seen, score);
            }
            s.store_at(scores, x, score);
        }
        let whole = outputs[1] / S::LANES * S::LANES;
        s.any_nan(seen) || scores[whole..outputs[1]].iter().any(|score| score.is_nan())
    }
}

/// Window sums along a row, a vector after the other: of samples and of squares.
struct Slide<'a, S: Simd> {
    blocks: usize,
    sums: [Line<'a, S>; 2],
}

/// One of the two sums.
struct Line<'a, S: Simd> {
    /// The sum of the whole blocks of the next window, where windows slide.
    sum: S::Double,
    blocks: &'a [f64],
    fours: &'a [f64],
    twos: &'a [f64],
    columns: &'a [f64],
}

/// From this many blocks on a window slides.
const SLIDES: usize = 3;

impl<'a, S: Simd> Slide<'a, S> {
    #[inline(always)]
    fn new(s: S, scratch: &'a FusedScratch, blocks: usize) -> Slide<'a, S> {
        let mut sums = [Line::new(s, scratch, 0), Line::new(s, scratch, 1)];
        if blocks >= SLIDES {
            for line in &mut sums {
                for block in 0..blocks {
                    line.sum = s.add_double(line.sum, s.load_double(line.blocks, (block + Line::<S>::BACK) * S::HALF));
                }
            }
        }
        Slide { blocks, sums }
    }

    /// Sums of samples and of squares of the windows that begin at `at` and the columns after it; `at` is that of the call
    /// before plus a vector.
    #[inline(always)]
    fn next(&mut self, s: S, at: usize, division: &Division) -> [S::Double; 2] {
        let [i, ii] = &mut self.sums;
        [i.next(s, at, self.blocks, division), ii.next(s, at, self.blocks, division)]
    }
}

impl<'a, S: Simd> Line<'a, S> {
    #[inline(always)]
    fn new(s: S, scratch: &'a FusedScratch, which: usize) -> Line<'a, S> {
        let FusedScratch { blocks, fours, twos, columns, .. } = scratch;
        let sum = s.splat_double(0.0);
        Line { sum, blocks: &blocks[which], fours: &fours[which], twos: &twos[which], columns: &columns[which] }
    }

    /// Doublings of a block: the vectors that it lies back.
    const BACK: usize = if S::HALF == 8 { 3 } else { 2 };

    #[inline(always)]
    fn next(&mut self, s: S, at: usize, blocks: usize, division: &Division) -> S::Double {
        let base = at + Self::BACK * S::HALF;
        let mut window = s.splat_double(0.0);
        if blocks >= SLIDES {
            window = self.sum;
            let change = s.sub_double(s.load_double(self.blocks, base + blocks * S::HALF), s.load_double(self.blocks, base));
            self.sum = s.add_double(self.sum, change);
        } else if blocks > 0 {
            window = s.load_double(self.blocks, base);
            if blocks == 2 {
                window = s.add_double(window, s.load_double(self.blocks, base + S::HALF));
            }
        }
        if let Some(from) = division.four {
            window = s.add_double(window, s.load_double(self.fours, at + from + 2 * S::HALF));
        }
        if let Some(from) = division.two {
            window = s.add_double(window, s.load_double(self.twos, at + from + S::HALF));
        }
        if let Some(from) = division.one {
            window = s.add_double(window, s.load_double(self.columns, at + from));
        }
        window
    }
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
    use crate::cpu::isa::{ISAS, Isa, IsaSet, Vectors};
    use proptest::prelude::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        (0..count).map(|_| (next() % 256) as f32).collect()
    }

    /// A tile, its template's size and what is asked of it.
    struct Case {
        window: [usize; 2],
        outputs: [usize; 2],
        centred: bool,
        exact: bool,
        seed: u64,
    }

    /// Scores a case in parts of so many rows and compares it with the plain formula, panel by panel.
    fn check(vectors: &Vectors, case: &Case, part: usize) {
        let Case { window: [kh, kw], outputs: [height, width], centred, exact, seed } = *case;
        let (in_row, out_row) = ((width + kw - 1).next_multiple_of(16), width.next_multiple_of(16));
        let mut input = vec![0.0; in_row * (height + kh - 1)];
        for (row, samples) in input.chunks_mut(in_row).zip(numbers((height + kh - 1) * (width + kw - 1), seed).chunks(width + kw - 1)) {
            row[..samples.len()].copy_from_slice(samples);
        }
        // One corner of equal samples: panels in doubt.
        for row in input.chunks_mut(in_row).take((height + kh) / 2) {
            row[..(width + kw) / 2].fill(if centred { 9.0 } else { 0.0 });
        }
        let cross: Vec<f32> = numbers(out_row * height, seed + 1);
        let mut scores = cross.clone();
        let n = (kh * kw) as f64;
        let exact = exact.then_some(Exact { template_sum: if centred { 77.0 } else { 0.0 }, gain: 1.0 / 1234.0 });
        let formula = Formula { window: [kh, kw], centred, exact, share: 1e-9 };
        let mut scratch = FusedScratch::new(width, kw);
        scratch.limits.fill(1e-3);
        let mut doubtful = false;
        for first in (0..height).step_by(part) {
            let buffers = Buffers { input: &input, in_row, cross: &mut scores, out_row, outputs: [height, width] };
            let rows = [first, height.min(first + part)];
            doubtful |= vectors.run(Rows { formula, buffers, rows, scratch: &mut scratch });
        }
        let mut some = false;
        for y in 0..height {
            for x in 0..width {
                let panel = (0..kh).flat_map(|i| input[(y + i) * in_row + x..][..kw].iter().map(|&value| f64::from(value)));
                let (i, ii) = panel.fold((0.0, 0.0), |(i, ii), value| (i + value, ii + value * value));
                let cross = f64::from(cross[y * out_row + x]);
                let (cross, energy) = match (centred, exact) {
                    (true, Some(exact)) => ((n * cross - i * exact.template_sum) * exact.gain, n * ii - i * i),
                    (true, None) => (cross, ii - i * i / n),
                    (false, Some(exact)) => (cross * exact.gain, ii),
                    (false, None) => (cross, ii),
                };
                let got = f64::from(scores[y * out_row + x]);
                let limit = if exact.is_some() { 0.0 } else { 1e-3 + 1e-9 * ii };
                some |= got.is_nan();
                if energy > limit {
                    let want = (cross / energy.sqrt()).clamp(-1.0, 1.0);
                    assert!((got - want).abs() <= 1e-6, "{kh}x{kw} at {y},{x}: {got} for {want}");
                } else {
                    assert!(got.is_nan(), "{kh}x{kw} at {y},{x}: energy {energy} is not certain, got {got}");
                }
            }
        }
        assert_eq!(doubtful, some, "{kh}x{kw}");
    }

    fn every_set(mut check: impl FnMut(&Vectors)) {
        for isa in ISAS.into_iter().filter(|isa| *isa != Isa::Portable && isa.detected()) {
            check(&Vectors::new(&IsaSet::detect().restrict(isa)).expect("a set that was detected"));
        }
    }

    #[test]
    fn every_width_divides_into_blocks() {
        every_set(|vectors| {
            for width in (1..=40).chain([63, 64, 65, 200]) {
                check(vectors, &Case { window: [2, width], outputs: [5, 50], centred: true, exact: false, seed: width as u64 }, 5);
            }
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
            window in prop::array::uniform2(1usize..24), outputs in (1usize..20, 1usize..70), part in 1usize..20,
            centred in any::<bool>(), exact in any::<bool>(), seed in any::<u32>(),
        ) {
            let case = Case { window, outputs: [outputs.0, outputs.1], centred, exact, seed: seed.into() };
            every_set(|vectors| check(vectors, &case, part));
        }
    }
}
