//! Correlation of tiles of f32 by Fourier transforms down the columns and taps along the rows, two halves of a tile at
//! a time.
//!
//! Rows of a band are as many as a transform has samples. Its columns are transformed a vector of them at a time; of
//! each frequency the row that they make is correlated with that frequency of the template's columns, product by
//! product, as a direct kernel does; and the columns of that are transformed back. Of `n` samples a column gives
//! `n + 1 - kh` outputs, each for `2 kw n / (n + 1 - kh)` multiply-adds where a direct kernel takes `kh kw`, and half
//! of a two-dimensional transform: nothing is transposed, no columns of outputs are lost at a tile's sides, and what
//! goes wrong in one column stays within the template's width. With templates of 8 to some 20 samples a side that is
//! less than either. Source: overlap-save along one axis, as in T. G. Stockham, "High-speed convolution and
//! correlation", 1966.
//!
//! The two halves of a tile's width are the real and the imaginary part, as in `fft/pair.rs`. The halves may share some
//! columns of outputs, and the last two bands some rows: nothing past a tile's own samples is ever read. NaN and
//! infinities never get here when a tile was gathered; where it reads the image, they show in its results' mean square.

use rustfft::num_complex::Complex64;

use crate::cpu::aligned::Aligned;
use crate::cpu::fft::dither::Dither;
use crate::cpu::fft::pair::{Ground, Planes, Samples, Wanted, after_first, before_last, padded};
use crate::cpu::fft::stages::{self, Complex, LAST, dft};
use crate::cpu::memory::Memory;
use crate::isa::prefetch::LINE;
use crate::isa::simd::{Job, Simd};
use crate::isa::{self, IsaSet, Vectors};
use crate::problem::error_model::{Figure, Rounding};
use crate::run::geometry::Pitch;

/// The lengths of transforms.
pub const LENGTHS: [usize; 2] = [64, 128];

/// Columns of outputs of either half that are brought to an end before the next, and the least that a tile has.
pub const CHUNK: usize = 64;

/// The widest template: its columns lie within a chunk and the one before.
pub const WIDEST: usize = 48;

/// Columns that are asked for together: long runs of each row, for memory's sake, but no more than the caches hold.
const ASKED: usize = 2 * CHUNK;

/// The shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Samples of a transform: one of [`LENGTHS`].
    pub length: usize,
    /// Outputs of a whole tile: height, and width, which is at least [`CHUNK`].
    pub outputs: [usize; 2],
    /// Height and width of the template.
    pub template: [usize; 2],
}

impl Layout {
    /// Rows of outputs of a band.
    pub fn band(&self) -> usize {
        self.length + 1 - self.template[0]
    }

    /// Columns of outputs of either half of a tile that is so wide.
    pub fn half(width: usize) -> usize {
        width.div_ceil(2).next_multiple_of(CHUNK)
    }

    /// Where the outputs of a chunk lie along a row of a tile that is so wide: in either half.
    pub fn places(width: usize, chunk: usize) -> [usize; 2] {
        [chunk * CHUNK, width - Layout::half(width) + chunk * CHUNK]
    }

    /// The shape of the buffers, whole vectors a row: input and output.
    pub fn pitches(&self) -> (Pitch, Pitch) {
        let ([height, width], [rows, columns]) = (self.outputs, self.template);
        let pitch = |row: usize, rows: usize| Pitch { row, plane: row * rows, rows, planes: 1 };
        (
            pitch(padded(width + columns - 1 + 16), height + rows - 1),
            pitch(padded(width.next_multiple_of(16) + 16), height),
        )
    }

    /// Values from one frequency's row of columns to the next's: an odd number of lines, or they would fall on few sets
    /// of the cache.
    fn row(&self) -> usize {
        odd_lines(CHUNK + self.template[1] - 1 + 16)
    }
}

/// From one frequency's row of results to the next's.
const RESULTS: usize = CHUNK + LINE;

fn odd_lines(values: usize) -> usize {
    (values.div_ceil(LINE) | 1) * LINE
}

/// Buffers of one worker.
pub struct Scratch {
    strip: Planes,
    /// The columns of a chunk, by frequency.
    columns: Planes,
    /// The columns of the chunk's outputs, by frequency.
    results: Planes,
    /// Samples of a strip of a band that has fewer rows than a transform.
    short: Aligned<f32>,
    /// A figure for each chunk of the tile computed last, band by band: of both halves.
    pub figures: Vec<Figure>,
    /// The largest mean square of a column of that tile's results; neither a number nor infinite unless all samples are
    /// finite.
    pub result: f64,
}

/// The transform of tiles of one shape.
pub struct Transform {
    layout: Layout,
    vectors: Vectors,
    twiddles: Vec<Vec<[f32; 2]>>,
    dither: Dither,
}

impl Transform {
    /// The engine, if this processor has an instruction set that it is compiled for.
    ///
    /// # Panics
    /// A length that is none of [`LENGTHS`], or a template or outputs that it does not serve.
    pub fn new(layout: Layout, isas: &IsaSet) -> Option<Transform> {
        let Layout { length, outputs: [_, width], template: [rows, columns] } = layout;
        assert!(LENGTHS.contains(&length), "transform: expected one of {LENGTHS:?} samples, got {length}");
        assert!(
            rows <= length && columns <= WIDEST,
            "template: expected at most {length} x {WIDEST} samples, got {rows} x {columns}"
        );
        assert!(width >= CHUNK, "outputs: expected at least {CHUNK} a row, got {width}");
        let vectors = Vectors::new(isas)?;
        let dither = Dither::new(length, |place| stages::frequency(length, place));
        Some(Transform { layout, vectors, twiddles: stages::stages(length), dither })
    }

    /// How a tile is laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The vectors that it runs in.
    pub(crate) fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    fn most_figures(&self) -> usize {
        let [height, width] = self.layout.outputs;
        height.div_ceil(self.layout.band()) * (Layout::half(width) / CHUNK)
    }

    /// Buffers of a worker.
    pub fn scratch(&self, memory: &mut Memory) -> Scratch {
        let (n, lanes) = (self.layout.length, self.vectors.lanes());
        Scratch {
            strip: Planes::of(n * lanes, memory),
            columns: Planes::of(n * self.layout.row(), memory),
            results: Planes::of(n * RESULTS, memory),
            short: memory.aligned(0.0, n * 2 * lanes),
            figures: memory.values(Figure::default(), self.most_figures()),
            result: 0.0,
        }
    }

    /// Bytes of a template's spectrum.
    pub fn spectrum_bytes(&self) -> usize {
        Planes::bytes(self.layout.length * self.layout.template[1])
    }

    /// The spectra of a template's columns, frequency by frequency as transforms leave them.
    fn spectra(&self, template: &[f64]) -> Vec<Complex64> {
        let (n, [height, width]) = (self.layout.length, self.layout.template);
        let turns: Vec<Complex64> =
            (0..n).map(|k| Complex64::from_polar(1.0, -std::f64::consts::TAU * k as f64 / n as f64)).collect();
        let mut spectra = vec![Complex64::default(); n * width];
        for (place, row) in spectra.chunks_mut(width).enumerate() {
            let frequency = stages::frequency(n, place);
            for (y, values) in template.chunks(width).enumerate().take(height) {
                let turn = turns[frequency * y % n];
                row.iter_mut().zip(values).for_each(|(sum, value)| *sum += turn * value);
            }
        }
        spectra
    }

    /// The spectra of a template's columns, conjugate and divided by the samples of the transform: computed in f64,
    /// rounded once.
    pub fn prepare(&self, template: &[f64]) -> Planes {
        let spectra = self.spectra(template);
        let mut planes = Planes::new(spectra.len());
        for (at, value) in spectra.iter().enumerate() {
            let value = value.conj() / self.layout.length as f64;
            (planes.re[at], planes.im[at]) = (value.re as f32, value.im as f32);
        }
        planes
    }

    /// How a template's columns add up where an image's columns repeat, as they are or as a wave along the rows: the
    /// largest squared magnitude of any frequency's sum of them, and the largest sum of the squared magnitudes of its
    /// partial sums. That is, the largest of its spectrum on both axes, at twice as many waves as there are columns.
    fn drift(&self, template: &[f64]) -> [f64; 2] {
        let (n, [_, width]) = (self.layout.length, self.layout.template);
        let turns: Vec<Complex64> = (0..2 * width)
            .map(|k| Complex64::from_polar(1.0, std::f64::consts::PI * k as f64 / width as f64))
            .collect();
        let mut drift = [0.0f64; 2];
        // The spectrum is that of real numbers: half of it says all.
        let rows = self.spectra(template);
        for (_, row) in rows.chunks(width).enumerate().filter(|(place, _)| stages::frequency(n, *place) <= n / 2) {
            for wave in 0..turns.len() {
                let (mut sum, mut squares, mut at) = (Complex64::default(), 0.0, 0);
                for value in row {
                    sum += value * turns[at];
                    squares += sum.norm_sqr();
                    at += wave;
                    at -= if at >= turns.len() { turns.len() } else { 0 };
                }
                drift = [drift[0].max(sum.norm_sqr()), drift[1].max(squares)];
            }
        }
        drift
    }

    /// How its cross terms with a template are rounded, if that is to be told.
    pub fn rounding(&self, template: Option<&[f64]>) -> Rounding {
        let Layout { length, template: [_, columns], .. } = self.layout;
        let drift = template.map_or([0.0; 2], |template| self.drift(template));
        Rounding::Columns { len: length as f64, columns: columns as f64, drift }
    }

    /// The cross term of the first `outputs` (height, and width, at least [`CHUNK`]) of a tile, and its figures; with
    /// `ahead`, its samples and outputs lie in an image and a result, and are asked for before they are used. Writes
    /// nothing but these outputs.
    pub fn run(&self, ground: Ground<'_>, template: &Planes, scratch: &mut Scratch, outputs: [usize; 2], ahead: bool) {
        assert!(outputs[1] >= CHUNK, "outputs: expected at least {CHUNK} a row, got {}", outputs[1]);
        let job = Correlate { transform: self, ground, template, scratch, outputs, ahead };
        match self.layout.length {
            64 if ahead => self.vectors.run(OfLength::<64, false>(job)),
            64 => self.vectors.run(OfLength::<64, true>(job)),
            _ if ahead => self.vectors.run(OfLength::<128, false>(job)),
            _ => self.vectors.run(OfLength::<128, true>(job)),
        }
    }
}

/// What is asked for while chunks are computed, a row of either with each frequency: samples to be read, of one half
/// and then of the other, and outputs to be written.
#[derive(Clone, Copy)]
struct Ahead {
    samples: [*const f32; 2],
    in_row: usize,
    outputs: [*const f32; 2],
    out_row: usize,
    /// Rows of outputs; of samples there are as many as a transform has.
    rows: usize,
    step: usize,
}

impl Ahead {
    /// The next row of samples and of outputs, of transforms of `N` samples.
    #[inline(always)]
    fn next<const N: usize>(&mut self) -> [*const f32; 2] {
        let (half, row) = (self.step / N % 2, self.step % N);
        self.step += 1;
        // Rows that there are none of are the last one again.
        let output = row.min(self.rows - 1);
        [self.samples[half].wrapping_add(row * self.in_row), self.outputs[half].wrapping_add(output * self.out_row)]
    }
}

/// The larger of two numbers, of which one that is none is the largest.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// A tile, its buffers and where the results go.
struct Correlate<'a> {
    transform: &'a Transform,
    ground: Ground<'a>,
    template: &'a Planes,
    scratch: &'a mut Scratch,
    outputs: [usize; 2],
    ahead: bool,
}

/// A tile under transforms of `N` samples; if they are not to be `JUDGED`, figures have the mean square of results
/// alone.
struct OfLength<'a, const N: usize, const JUDGED: bool>(Correlate<'a>);

impl<const N: usize, const JUDGED: bool> Job for OfLength<'_, N, JUDGED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut tile = self.0;
        let (band, [height, _]) = (tile.transform.layout.band(), tile.outputs);
        let bands = height.div_ceil(band);
        tile.scratch.result = 0.0;
        // The last band ends with the tile, over rows of the one before, whose results are to stay: it comes first.
        let order = |number: usize| if number == 0 { bands - 1 } else { number - 1 };
        let first_row = |number: usize| (order(number) * band).min(height.saturating_sub(band));
        for number in 0..bands {
            let next = (number + 1 < bands).then(|| first_row(number + 1));
            tile.band::<S, N, JUDGED>(s, order(number), first_row(number), next);
        }
    }
}

impl Correlate<'_> {
    /// A band, from a row of the tile on; `next` is that of the one after it.
    #[inline(always)]
    fn band<S: Simd, const N: usize, const JUDGED: bool>(
        &mut self,
        s: S,
        number: usize,
        y: usize,
        next: Option<usize>,
    ) {
        let Layout { template: [kh, kw], .. } = self.transform.layout;
        let [height, width] = self.outputs;
        let half = Layout::half(width);
        // From the first half's outputs to the second's, and columns that either needs.
        let (beside, columns) = (width - half, half + kw - 1);
        let rows = self.transform.layout.band().min(height);
        let there = (height + kh - 1 - y).min(N);
        let (mut begin, mut have) = (0, 0);
        let mut ahead = None;
        let mut before = s.splat(0.0);
        for x in (0..half).step_by(CHUNK) {
            if self.ahead && x % ASKED == 0 {
                ahead = self.coming([y, x], next, beside, rows);
            }
            if x > begin {
                self.keep_columns::<S, N>(s, x - begin, have - x);
                begin = x;
            }
            let mut largest = s.splat(0.0);
            while have < (x + CHUNK + kw - 1).min(columns) {
                // The last strip ends with the samples, over some that the one before it had.
                let at = have.min(columns - S::LANES);
                let squares = self.strip::<S, N>(s, [y, at], beside, [at - begin, there]);
                largest = s.larger_magnitude(squares, largest);
                have = at + S::LANES;
            }
            let result = self.along::<S, N>(s, &mut ahead);
            let peak = self.back::<S, N, JUDGED>(s, [y, x], beside, rows);
            let column = f64::from(f32::from_bits(s.largest(s.larger_magnitude(before, largest))));
            before = largest;
            // Of a column: its transforms round for themselves.
            self.scratch.result = larger(self.scratch.result, result);
            self.scratch.figures[number * (half / CHUNK) + x / CHUNK] =
                Figure { energy: column, result, peak, column, ..Figure::default() };
        }
    }

    /// What is to be asked for from a chunk on: what comes after the columns that are asked for with it.
    #[inline(always)]
    fn coming(&self, [y, x]: [usize; 2], next: Option<usize>, beside: usize, rows: usize) -> Option<Ahead> {
        let Ground { input, in_row, out, out_row } = &self.ground;
        let half = self.outputs[1] - beside;
        let lead = (self.transform.layout.template[1] - 1).next_multiple_of(LINE);
        let (y, x, lead) = if x + ASKED < half { (y, x + ASKED, lead) } else { (next?, 0, 0) };
        // Addresses only; some may lie past the end.
        let (samples, outputs) =
            (input.as_ptr().wrapping_add(y * in_row + x + lead), out.as_ptr().wrapping_add(y * out_row + x));
        Some(Ahead {
            samples: [samples, samples.wrapping_add(beside)],
            in_row: *in_row,
            outputs: [outputs, outputs.wrapping_add(beside)],
            out_row: *out_row,
            rows,
            step: 0,
        })
    }

    /// Brings the columns from `from` on, `count` of them, to the begin of the buffer.
    #[inline(always)]
    fn keep_columns<S: Simd, const N: usize>(&mut self, s: S, from: usize, count: usize) {
        let row = self.transform.layout.row();
        let [re, im] = self.scratch.columns.parts();
        for values in [re, im] {
            for values in S::rows_mut(values).chunks_exact_mut(row / S::LANES).take(N) {
                for v in 0..count.div_ceil(S::LANES) {
                    let value = s.load(&values[from / S::LANES + v]);
                    s.store(&mut values[v], value);
                }
            }
        }
    }

    /// Down a strip of columns, from a row and a column of the samples to a column of the buffer; returns the sum of
    /// squares of each.
    #[inline(always)]
    fn strip<S: Simd, const N: usize>(
        &mut self,
        s: S,
        [y, x]: [usize; 2],
        beside: usize,
        [to, there]: [usize; 2],
    ) -> S::Single {
        let Ground { input, in_row, .. } = self.ground;
        let (twiddles, row) = (&self.transform.twiddles, self.transform.layout.row());
        let Scratch { strip, short, columns, .. } = &mut *self.scratch;
        let (re, im) = (&mut S::rows_mut(&mut strip.re)[..N], &mut S::rows_mut(&mut strip.im)[..N]);
        let from = &input[y * in_row + x..];
        let samples = if there < N {
            // Zeros below the rows that there are.
            for (number, pair) in short.chunks_exact_mut(2 * S::LANES).enumerate() {
                let (first, second) = pair.split_at_mut(S::LANES);
                if number < there {
                    first.copy_from_slice(&from[number * in_row..][..S::LANES]);
                    second.copy_from_slice(&from[number * in_row + beside..][..S::LANES]);
                } else {
                    pair.fill(0.0);
                }
            }
            Samples { from: short, pitch: 2 * S::LANES, beside: S::LANES }
        } else {
            Samples { from, pitch: in_row, beside }
        };
        let squares = samples.squares::<S, N>(s);
        let noise = self.transform.dither.of::<S, N>(s, squares, to % N, 0);
        samples.first::<S, N>(s, [re, im], &twiddles[0], Some(noise), None, None);
        after_first::<S, N>(s, re, im, twiddles);
        for (number, (re, im)) in re.chunks_exact(LAST).zip(im.chunks_exact(LAST)).enumerate() {
            let mut x = [Complex::zero(s); LAST];
            for (q, x) in x.iter_mut().enumerate() {
                *x = Complex { re: s.load(&re[q]), im: s.load(&im[q]) };
            }
            dft(s, &mut x);
            let (mut parts_re, mut parts_im) = ([s.splat(0.0); LAST], [s.splat(0.0); LAST]);
            for (q, x) in x.iter().enumerate() {
                let x = x.without(s, &noise, number * LAST + q);
                (parts_re[q], parts_im[q]) = (x.re, x.im);
            }
            let at = number * LAST * row + to;
            s.store_apart(&mut columns.re, at, row, parts_re, LAST);
            s.store_apart(&mut columns.im, at, row, parts_im, LAST);
        }
        squares
    }

    /// Along the rows of all frequencies of a chunk, while lines are asked for; returns the largest mean square of a
    /// column of results.
    #[inline(always)]
    fn along<S: Simd, const N: usize>(&mut self, s: S, ahead: &mut Option<Ahead>) -> f64 {
        let mut largest = s.splat(0.0);
        // As many vectors at a time as sums stay in registers.
        if S::REGISTERS >= 32 {
            for x in (0..CHUNK).step_by(4 * S::LANES) {
                let squares = self.along_block::<S, N, 4>(s, x, ahead);
                squares.iter().for_each(|squares| largest = s.larger_magnitude(*squares, largest));
            }
        } else {
            for x in (0..CHUNK).step_by(2 * S::LANES) {
                let squares = self.along_block::<S, N, 2>(s, x, ahead);
                squares.iter().for_each(|squares| largest = s.larger_magnitude(*squares, largest));
            }
        }
        f64::from(f32::from_bits(s.largest(largest)))
    }

    /// Products and sums along rows of `X` vectors of every frequency, from column `x` on; returns each column's sum of
    /// squares.
    #[inline(always)]
    fn along_block<S: Simd, const N: usize, const X: usize>(
        &mut self,
        s: S,
        x: usize,
        ahead: &mut Option<Ahead>,
    ) -> [S::Single; X] {
        let (row, kw) = (self.transform.layout.row(), self.transform.layout.template[1]);
        let Scratch { columns, results, .. } = &mut *self.scratch;
        let mut squares = [s.splat(0.0); X];
        for frequency in 0..N {
            let asked = if x == 0 { ahead.as_mut().map(Ahead::next::<N>) } else { None };
            let (taps_re, taps_im) =
                (&self.template.re[frequency * kw..][..kw], &self.template.im[frequency * kw..][..kw]);
            let (from, needed) = (frequency * row + x, kw - 1 + X * S::LANES);
            let (re, im) = (&columns.re[from..][..needed], &columns.im[from..][..needed]);
            // Products of real and imaginary parts apart, so that no sum waits for another.
            let mut sums = [[s.splat(0.0); 4]; X];
            for j in 0..kw {
                if let Some([samples, outputs]) = asked
                    && j < ASKED / LINE
                {
                    isa::ask_line::<false>(samples.wrapping_add(j * LINE));
                    isa::ask_line::<true>(outputs.wrapping_add(j * LINE));
                }
                let (tap_re, tap_im) = (s.splat(taps_re[j]), s.splat(taps_im[j]));
                let (re, im) = (&S::rows(&re[j..])[..X], &S::rows(&im[j..])[..X]);
                for v in 0..X {
                    let (re, im) = (s.load(&re[v]), s.load(&im[v]));
                    sums[v][0] = s.mul_add(re, tap_re, sums[v][0]);
                    sums[v][1] = s.mul_add(im, tap_im, sums[v][1]);
                    sums[v][2] = s.mul_add(re, tap_im, sums[v][2]);
                    sums[v][3] = s.mul_add(im, tap_re, sums[v][3]);
                }
            }
            if let Some([samples, outputs]) = asked {
                for line in kw..ASKED / LINE {
                    isa::ask_line::<false>(samples.wrapping_add(line * LINE));
                    isa::ask_line::<true>(outputs.wrapping_add(line * LINE));
                }
            }
            let at = frequency * RESULTS + x;
            let to_re = &mut S::rows_mut(&mut results.re[at..])[..X];
            let to_im = &mut S::rows_mut(&mut results.im[at..])[..X];
            for v in 0..X {
                let result = Complex::<S> { re: s.sub(sums[v][0], sums[v][1]), im: s.add(sums[v][2], sums[v][3]) };
                squares[v] = result.square(s, squares[v]);
                s.store(&mut to_re[v], result.re);
                s.store(&mut to_im[v], result.im);
            }
        }
        squares
    }

    /// Up the columns of a chunk's results, to the outputs; returns their largest magnitude.
    #[inline(always)]
    fn back<S: Simd, const N: usize, const JUDGED: bool>(
        &mut self,
        s: S,
        [y, x]: [usize; 2],
        beside: usize,
        rows: usize,
    ) -> f64 {
        let Ground { out, out_row, .. } = &mut self.ground;
        let twiddles = &self.transform.twiddles;
        let Scratch { strip, results, .. } = &mut *self.scratch;
        let (re, im) = (&mut S::rows_mut(&mut strip.re)[..N], &mut S::rows_mut(&mut strip.im)[..N]);
        let wanted = Wanted { pitch: *out_row, beside: Some(beside), rows, lanes: [S::LANES; 2] };
        let mut largest = s.splat(0.0);
        for column in (0..CHUNK).step_by(S::LANES) {
            for (number, (re, im)) in re.chunks_exact_mut(LAST).zip(im.chunks_exact_mut(LAST)).enumerate() {
                let at = number * LAST * RESULTS + column;
                let from_re = s.load_apart::<LAST>(&results.re, at, RESULTS);
                let from_im = s.load_apart::<LAST>(&results.im, at, RESULTS);
                // Real and imaginary parts change places, as in `butterfly::inverse`.
                let mut x = [Complex::zero(s); LAST];
                for (q, x) in x.iter_mut().enumerate() {
                    *x = Complex { re: from_im[q], im: from_re[q] };
                }
                dft(s, &mut x);
                for (q, x) in x.iter().enumerate() {
                    s.store(&mut im[q], x.re);
                    s.store(&mut re[q], x.im);
                }
            }
            before_last::<S, N>(s, re, im, twiddles);
            let out = &mut out[y * *out_row + x + column..];
            let peaks = wanted.last_back::<S, N, JUDGED>(s, re, im, &twiddles[0], out, None);
            largest = s.larger_magnitude(peaks, largest);
        }
        f64::from(f32::from_bits(s.largest(largest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, Ratios, noise, seeds, sets};
    use crate::problem::error_model::Figures;

    fn layouts() -> Vec<Layout> {
        let layout = |length, outputs, template| Layout { length, outputs, template };
        vec![
            layout(64, [98, 200], [16, 16]),
            layout(64, [57, 64], [8, 8]),
            layout(64, [150, 131], [5, 3]),
            layout(64, [33, 129], [32, 24]),
            layout(64, [64, 100], [1, 3]),
            layout(64, [56, 128], [9, 48]),
            layout(128, [97, 300], [32, 32]),
            layout(128, [200, 140], [9, 48]),
        ]
    }

    /// A tile's samples in rows of the layout's pitch, and nothing but them: what lies beside is not a number.
    fn gathered(layout: &Layout, mut sample: impl FnMut(usize, usize) -> f32) -> Aligned<f32> {
        let (pitch, _) = layout.pitches();
        let [rows, columns] = [0, 1].map(|axis| layout.outputs[axis] + layout.template[axis] - 1);
        let mut input = Aligned::new(f32::NAN, pitch.elements());
        for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
            input[y * pitch.row + x] = sample(y, x);
        }
        input
    }

    /// Every product, in f64.
    fn expected(layout: &Layout, input: &[f32], template: &[f64]) -> Vec<f64> {
        let (pitch, _) = layout.pitches();
        let ([height, width], columns) = (layout.outputs, layout.template[1]);
        let mut out = vec![0.0; height * width];
        for (y, out) in out.chunks_mut(width).enumerate() {
            for (k, tap) in template.iter().enumerate() {
                let samples = &input[(y + k / columns) * pitch.row + k % columns..][..width];
                out.iter_mut().zip(samples).for_each(|(sum, sample)| *sum += tap * f64::from(*sample));
            }
        }
        out
    }

    #[test]
    fn it_correlates() {
        for (isas, layout) in
            sets().into_iter().flat_map(|isas| layouts().into_iter().map(move |layout| (isas, layout)))
        {
            let transform = Transform::new(layout, &isas).unwrap();
            let (mut tile, mut taps) = (noise(5), noise(9));
            let input = gathered(&layout, |_, _| tile());
            let template: Vec<f64> = (0..layout.template[0] * layout.template[1]).map(|_| f64::from(taps())).collect();
            let expected = expected(&layout, &input, &template);
            let (spectrum, mut scratch) = (transform.prepare(&template), transform.scratch(&mut Memory::making()));
            let (in_pitch, pitch) = layout.pitches();
            let [height, width] = layout.outputs;
            let norm = template.iter().map(|value| value * value).sum::<f64>().sqrt();
            // Whole tiles and cut ones, from less than a band on.
            for outputs in [
                [height, width],
                [height - 7, width.max(CHUNK + 5) - 5],
                [1, CHUNK],
                [height.min(layout.band() + 1), width],
            ] {
                for ahead in [false, true] {
                    let mut out = Aligned::new(f32::NAN, pitch.elements());
                    // Nothing but the samples of these outputs is there.
                    let end =
                        (outputs[0] + layout.template[0] - 2) * in_pitch.row + outputs[1] + layout.template[1] - 1;
                    let ground =
                        Ground { input: &input[..end], in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
                    transform.run(ground, &spectrum, &mut scratch, outputs, ahead);
                    for (y, row) in out.chunks(pitch.row).enumerate() {
                        let count = if y < outputs[0] { outputs[1] } else { 0 };
                        for (x, got) in row[..count].iter().enumerate() {
                            let (got, want) = (f64::from(*got), expected[y * width + x]);
                            let tolerance = 1e-6 * norm * (layout.length as f64).sqrt();
                            assert!(
                                (got - want).abs() <= tolerance,
                                "{isas} {layout:?} {outputs:?} at {y},{x}: {got} for {want}"
                            );
                        }
                        assert!(
                            row[count..].iter().all(|value| value.is_nan()),
                            "{isas} {layout:?} {outputs:?}: wrote past row {y}"
                        );
                    }
                }
            }
        }
    }

    /// A tile of which less is wanted gives what another tile gave before it no part in its results.
    #[test]
    fn results_are_the_tiles_own() {
        for (isas, layout) in
            sets().into_iter().flat_map(|isas| layouts().into_iter().map(move |layout| (isas, layout)))
        {
            let transform = Transform::new(layout, &isas).unwrap();
            let mut samples = noise(3);
            let (input, bright) = (gathered(&layout, |_, _| samples()), gathered(&layout, |_, _| 1e30));
            let spectrum =
                transform.prepare(&testing::template(layout.template[0] * layout.template[1], false, noise(4)));
            let (in_pitch, pitch) = layout.pitches();
            let outputs = [layout.outputs[0].min(layout.band() / 2 + 1), CHUNK];
            let results = [false, true].map(|after| {
                let (mut scratch, mut out) =
                    (transform.scratch(&mut Memory::making()), Aligned::new(0.0, pitch.elements()));
                let mut run = |input: &[f32], outputs: [usize; 2]| {
                    let ground = Ground { input, in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
                    transform.run(ground, &spectrum, &mut scratch, outputs, false);
                };
                if after {
                    run(&bright, layout.outputs);
                }
                run(&input, outputs);
                let rows = out.chunks(pitch.row).take(outputs[0]);
                rows.flat_map(|row| row[..outputs[1]].iter().map(|value| value.to_bits())).collect::<Vec<u32>>()
            });
            assert_eq!(results[0], results[1], "{isas} {layout:?}");
        }
    }

    #[test]
    fn figures_are_those_of_the_strongest_columns() {
        for isas in sets() {
            let layout = Layout { length: 64, outputs: [49, 256], template: [16, 16] };
            let transform = Transform::new(layout, &isas).unwrap();
            let mut samples = noise(1);
            let input = gathered(&layout, |_, x| if x == 70 { 50.0 } else { samples() });
            let template = testing::template(256, false, noise(2));
            let (in_pitch, pitch) = layout.pitches();
            let (mut scratch, mut out) =
                (transform.scratch(&mut Memory::making()), Aligned::new(0.0, pitch.elements()));
            let ground = Ground { input: &input, in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
            transform.run(ground, &transform.prepare(&template), &mut scratch, layout.outputs, false);
            let square = |y: usize, x: usize| f64::from(input[y * in_pitch.row + x]).powi(2);
            let energy = |x: usize| (0..64).map(|y| square(y, x) + square(y, x + 128)).sum::<f64>();
            for chunk in 0..2 {
                let figure = scratch.figures[chunk];
                let most = (chunk * 64..chunk * 64 + 64 + 15).map(energy).fold(0.0, f64::max);
                // The strip that ends a chunk's columns may hold some more.
                assert!(
                    figure.energy > 0.9999 * most && figure.energy < 2.0 * 2500.0 * 64.0,
                    "{isas}: {figure:?}, expected {most}"
                );
                let peak =
                    (0..49).flat_map(|y| Layout::places(256, chunk).map(|at| &out[y * pitch.row + at..][..CHUNK]));
                let peak = peak.flatten().fold(0.0f32, |most, value| most.max(value.abs()));
                assert!(
                    figure.peak >= f64::from(peak) && figure.result > 0.0,
                    "{isas}: {figure:?}, largest output {peak}"
                );
            }
            // A bright column is in the chunks that it reaches.
            assert!(scratch.figures.iter().all(|figure| figure.energy > 2500.0 * 63.0), "{isas}");
        }
    }

    /// What is done to columns of image and template.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Columns {
        AsTheyAre,
        /// Their sign alternates.
        Alternate,
        /// They are all the same: those of the template, those of the image's left half, and all samples of its right
        /// half.
        Equal,
    }

    /// As the test of `fft/pair.rs` that is called the same, and with columns of alternate sign and with equal ones.
    #[test]
    fn errors_stay_within_their_estimate() {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for layout in layouts() {
                    for columns in [Columns::AsTheyAre, Columns::Alternate, Columns::Equal] {
                        errors_of(&layout, &isas, 100 * seed, columns, &mut ratios);
                    }
                }
            }
            ratios.judge(&format!("transforms of columns, {isas}"));
        }
    }

    #[test]
    fn a_few_equal_samples_under_stripes_err_by_less_than_they_are_granted() {
        judge_hostile("a few equal samples under stripes", testing::striped);
    }

    #[test]
    fn copies_of_few_levels_err_by_less_than_they_are_granted() {
        judge_hostile("copies of few levels beside a step", testing::copied);
        judge_hostile("copies of few levels among blocks", testing::among_blocks);
    }

    fn judge_hostile(name: &str, make: testing::Hostile) {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for layout in layouts().into_iter().filter(|layout| layout.template[0].max(layout.template[1]) > 2) {
                    let sides = [0, 1].map(|axis| layout.outputs[axis] + layout.template[axis] - 1);
                    // Stripes across columns, and down them.
                    for [down, along] in [[0, 1], [1, 0]] {
                        let turned = |sides: [usize; 2]| [1, sides[down], sides[along]];
                        let [shape, template] = [turned(sides), turned(layout.template)];
                        if template[2] < 3 {
                            continue;
                        }
                        let seed = 200 * seed + (template[2] + along) as u64;
                        let (image, taps) = make(shape, template, seed);
                        let place = |at: [usize; 2], width: usize| at[down] * width + at[along];
                        let [rows, across] = layout.template;
                        let taps: Vec<f64> =
                            (0..rows * across).map(|k| taps[place([k / across, k % across], template[2])]).collect();
                        testing::at_amplitudes(&mut ratios, &image, seed, |image, ratios| {
                            let input = gathered(&layout, |y, x| {
                                // Beyond the samples there are a few that no output needs.
                                let at = [y, x];
                                if at[along] < shape[2] {
                                    image.get(place(at, shape[2])).copied().unwrap_or(0.0)
                                } else {
                                    0.0
                                }
                            });
                            judge(&layout, &isas, &input, &taps, 0, ratios, name);
                        });
                    }
                }
            }
            println!("{name}, {isas}, {} panels: {:.3}", ratios.panels(), ratios.all());
        }
    }

    fn errors_of(layout: &Layout, isas: &IsaSet, seed: u64, columns: Columns, ratios: &mut Ratios) {
        let sign = |x: usize| if columns == Columns::Alternate && !x.is_multiple_of(2) { -1.0 } else { 1.0 };
        let [height, width] = layout.outputs;
        for (kind, (name, image)) in testing::IMAGES.iter().enumerate() {
            let amplitude = testing::amplitude(seed + kind as u64);
            let mut tile = noise(seed + kind as u64 + 3);
            let mut line = noise(seed + kind as u64 + 7);
            let line: Vec<f32> = (0..height + layout.template[0]).map(|y| amplitude * image(y, 0, line())).collect();
            let input = gathered(layout, |y, x| match columns {
                Columns::Equal if x < Layout::places(width, 0)[1] => line[y],
                Columns::Equal => line[0],
                _ => sign(x) as f32 * amplitude * image(y, x, tile()),
            });
            for smooth in [false, true] {
                let [rows, across] = layout.template;
                let mut template = testing::template(rows * across, smooth, noise(seed + kind as u64 + 50));
                template.iter_mut().enumerate().for_each(|(k, tap)| *tap *= sign(k % across));
                if columns == Columns::Equal && rows > 1 {
                    let profile = testing::template(rows, smooth && rows > 2, noise(seed + kind as u64 + 60));
                    template
                        .iter_mut()
                        .enumerate()
                        .for_each(|(k, tap)| *tap = profile[k / across] / (across as f64).sqrt());
                }
                judge(layout, isas, &input, &template, kind, ratios, name);
            }
        }
    }

    /// Adds every panel of a tile.
    fn judge(
        layout: &Layout,
        isas: &IsaSet,
        input: &[f32],
        template: &[f64],
        kind: usize,
        ratios: &mut Ratios,
        name: &str,
    ) {
        let transform = Transform::new(*layout, isas).unwrap();
        let (in_pitch, pitch) = layout.pitches();
        let (mut scratch, mut out) = (transform.scratch(&mut Memory::making()), Aligned::new(0.0, pitch.elements()));
        let [height, width] = layout.outputs;
        let expected = expected(layout, input, template);
        let ground = Ground { input, in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
        transform.run(ground, &transform.prepare(template), &mut scratch, layout.outputs, false);
        let rounding = transform.rounding(Some(template));
        let doubt = testing::doubt(template, rounding);
        let unseen = testing::unseen(&Figures::of([template].into_iter()), rounding);
        let chunks = Layout::half(width) / CHUNK;
        let columns = layout.template[1] as f64;
        let mut limits = vec![(0.0f64, 0.0); height * width];
        let mut energies = vec![0.0f64; height * width];
        for (band, chunk) in
            (0..height.div_ceil(layout.band())).flat_map(|band| (0..chunks).map(move |chunk| (band, chunk)))
        {
            let figure = scratch.figures[band * chunks + chunk];
            let (limit, share) = doubt.at_peak(figure.energy, figure.result.sqrt(), figure.peak(&unseen));
            for y in (band * layout.band()..height).take(layout.band()) {
                for x in Layout::places(width, chunk).into_iter().flat_map(|at| at..at + CHUNK) {
                    let most = &mut limits[y * width + x];
                    *most = (most.0.max(limit), share);
                    energies[y * width + x] = energies[y * width + x].max(figure.energy);
                }
            }
        }
        let finite: Vec<f32> = input.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
        let squares = testing::window_squares(&finite, in_pitch.row, layout.template);
        let norm = testing::norm(template);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let error = (f64::from(out[y * pitch.row + x]) - expected[y * width + x]).abs();
            let norms = [(columns * energies[y * width + x]).sqrt(), norm];
            ratios.add_worst(error, (layout.length as f64, 10.0, columns + 2.0), norms);
            ratios.add(kind, error, limits[y * width + x], squares(y, x), || {
                format!("{isas} {layout:?} {name} at {y},{x}")
            });
        }
    }
}
