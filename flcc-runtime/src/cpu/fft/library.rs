//! Fourier transforms of real tiles of 1 to 3 axes, and the product of spectra that correlates.
//!
//! Half spectra. Along width, two real rows are transformed as one complex row, real and imaginary part, and told apart
//! by the symmetry of the spectra of real rows; a tile of a single row goes through realfft. `BLOCK` rows are
//! transformed at a time, few enough for the first cache, and are told apart while they are transposed, so that every
//! other axis is transformed in contiguous memory: the spectrum lies as
//! `[frequency of width][frequency of height][frequency of depth]`. Each frequency of width is a plane of its own;
//! planes lie some samples apart where their distance would otherwise fall on few sets of the cache. The layout is
//! private: spectra of one shape meet only each other.
//!
//! Nothing is normalised: a forward and an inverse multiply by the number of samples, which the caller divides the
//! template's spectrum by. Correlation, nothing is flipped: `out = image · conj(template)`. It is circular: results
//! whose window wraps round the tile are the caller's to leave out. Nothing is allocated after [`TileTransform::new`],
//! no thread started.
//!
//! Source: Frigo and Johnson, "The Design and Implementation of FFTW3", 2005 (axis by axis, transposed).

use std::array;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::num_traits::Zero;
use rustfft::{Fft, FftNum};

pub use planned::Sample;

/// The transform of one tile shape. Cheap to make again, for its parts live as long as the process.
#[derive(Clone)]
pub struct TileTransform<T: Sample> {
    shape: [usize; 3],
    /// The axes longer than 1, with ones in front: the same samples in the same order.
    depth: usize,
    height: usize,
    width: usize,
    /// Frequencies of width.
    half: usize,
    /// From one frequency of width to the next.
    plane_stride: usize,
    axes: Axes<T>,
    /// What the one-dimensional transforms take of the scratch; the rest holds a block of rows, or a plane.
    axis_scratch: usize,
    scratch_len: usize,
}

/// Rows transformed before they are transposed, in pairs. The fastest of 4, 8, 16 and 32 for f32 tiles of 64x64 and
/// 128x128 on a Cascade Lake core (the others 10 to 40 % slower, why was not looked into); larger tiles were too noisy
/// to rank, f64 unmeasured.
const BLOCK: usize = 16;

/// Bytes after which addresses fall on the same set of the first cache.
const PAGE: usize = 4096;

/// The transforms along the axes longer than 1.
#[derive(Clone)]
enum Axes<T> {
    Line(planned::Row<T>),
    Plane { width: planned::Axis<T>, height: planned::Axis<T> },
    Volume { width: planned::Axis<T>, height: planned::Axis<T>, depth: planned::Axis<T> },
}

impl<T: Sample> TileTransform<T> {
    /// The transform of tiles of depth, height and width, with ones for the axes that a tile does not have.
    ///
    /// # Panics
    /// An axis of length 0.
    pub fn new(shape: [usize; 3]) -> TileTransform<T> {
        assert!(!shape.contains(&0), "tile: expected at least one sample on every axis, got {shape:?}");
        let [depth, height, width] = squeezed(shape);
        let half = width / 2 + 1;
        let plane = depth * height;
        let line = 64 / size_of::<Complex<T>>();
        let plane_stride = if (plane * size_of::<Complex<T>>()).is_multiple_of(PAGE) { plane + line } else { plane };
        let (axes, axis_scratch, room) = if height == 1 {
            let row = T::row(width);
            let scratch = row.scratch_len();
            (Axes::Line(row), scratch, 0)
        } else {
            let (x, y) = (T::axis(width), T::axis(height));
            let scratch = x.scratch_len().max(y.scratch_len());
            let room = plane.max(BLOCK / 2 * width);
            if depth == 1 {
                (Axes::Plane { width: x, height: y }, scratch, room)
            } else {
                let z = T::axis(depth);
                let scratch = scratch.max(z.scratch_len());
                (Axes::Volume { width: x, height: y, depth: z }, scratch, room)
            }
        };
        TileTransform {
            shape,
            depth,
            height,
            width,
            half,
            plane_stride,
            axes,
            axis_scratch,
            scratch_len: axis_scratch + room,
        }
    }

    /// Depth, height and width of the tile.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Samples of the tile: what a forward and an inverse multiply by.
    #[expect(clippy::len_without_is_empty, reason = "a tile has at least one sample")]
    pub fn len(&self) -> usize {
        self.depth * self.height * self.width
    }

    /// Complex numbers of a spectrum.
    pub fn spectrum_len(&self) -> usize {
        (self.half - 1) * self.plane_stride + self.depth * self.height
    }

    /// Complex numbers of the scratch that every call takes; their values do not matter.
    pub fn scratch_len(&self) -> usize {
        self.scratch_len
    }

    /// The spectrum of a dense tile, which may be destroyed.
    ///
    /// Only the first `used` planes and rows are read; the others count as zero whatever they hold.
    ///
    /// # Panics
    /// Lengths that are not the tile's, `used` above its depth or height, a scratch that is too short.
    pub fn forward(&self, real: &mut [T], used: [usize; 2], spectrum: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let (scratch, room) = self.checked(real, used, spectrum, scratch);
        let part = self.clear_unused(real, used);
        match &self.axes {
            Axes::Line(row) => row.forward(real, spectrum, scratch),
            Axes::Plane { width, height } => {
                self.forward_rows(width, real, part, spectrum, scratch, room);
                self.planes(spectrum).for_each(|plane| height.forward.process_with_scratch(plane, scratch));
            }
            Axes::Volume { width, height, depth } => {
                self.forward_rows(width, real, part, spectrum, scratch, room);
                let turned = &mut room[..self.depth * self.height];
                for plane in self.planes(spectrum) {
                    some(&height.forward, &mut plane[..part[0] * self.height], scratch);
                    transpose(plane, self.height, turned, self.depth, self.depth);
                    depth.forward.process_outofplace_with_scratch(turned, plane, scratch);
                }
            }
        }
    }

    /// The tile of a spectrum, which is destroyed, times the number of samples.
    ///
    /// Only the first `wanted` planes and rows are computed; the others hold anything.
    ///
    /// # Panics
    /// As [`TileTransform::forward`].
    pub fn inverse(&self, spectrum: &mut [Complex<T>], real: &mut [T], wanted: [usize; 2], scratch: &mut [Complex<T>]) {
        let (scratch, room) = self.checked(real, wanted, spectrum, scratch);
        let part = self.squeezed_part(wanted);
        match &self.axes {
            Axes::Line(row) => row.inverse(spectrum, real, scratch),
            Axes::Plane { width, height } => {
                self.planes(spectrum).for_each(|plane| height.inverse.process_with_scratch(plane, scratch));
                self.inverse_rows(width, spectrum, real, part, scratch, room);
            }
            Axes::Volume { width, height, depth } => {
                let turned = &mut room[..self.depth * self.height];
                for plane in self.planes(spectrum) {
                    depth.inverse.process_outofplace_with_scratch(plane, turned, scratch);
                    transpose_back(turned, self.depth, plane, self.height, part[0]);
                    some(&height.inverse, &mut plane[..part[0] * self.height], scratch);
                }
                self.inverse_rows(width, spectrum, real, part, scratch, room);
            }
        }
    }

    /// Forward, product and inverse in one call, in place: each plane of the spectrum is finished while it is in the
    /// cache.
    ///
    /// `real[x] = Σ_p image[x + p] · template[p]`, circular, times the number of samples and whatever the template's
    /// spectrum was multiplied by. The spectrum is scratch too.
    ///
    /// # Panics
    /// As [`TileTransform::forward`], or a template of another length than the spectrum.
    pub fn correlate(
        &self,
        real: &mut [T],
        used: [usize; 2],
        template: &[Complex<T>],
        wanted: [usize; 2],
        spectrum: &mut [Complex<T>],
        scratch: &mut [Complex<T>],
    ) {
        self.checked(real, wanted, template, scratch);
        let (scratch, room) = self.checked(real, used, spectrum, scratch);
        let [read, written] = [self.clear_unused(real, used), self.squeezed_part(wanted)];
        match &self.axes {
            Axes::Line(row) => {
                row.forward(real, spectrum, scratch);
                multiply_conj_in_place(spectrum, template);
                row.inverse(spectrum, real, scratch);
            }
            Axes::Plane { width, height } => {
                self.forward_rows(width, real, read, spectrum, scratch, room);
                let column = &mut room[..self.height];
                for (plane, template) in self.planes(spectrum).zip(template.chunks(self.plane_stride)) {
                    height.forward.process_outofplace_with_scratch(plane, column, scratch);
                    multiply_conj_in_place(column, template);
                    height.inverse.process_outofplace_with_scratch(column, plane, scratch);
                }
                self.inverse_rows(width, spectrum, real, written, scratch, room);
            }
            Axes::Volume { width, height, depth } => {
                self.forward_rows(width, real, read, spectrum, scratch, room);
                let turned = &mut room[..self.depth * self.height];
                for (plane, template) in self.planes(spectrum).zip(template.chunks(self.plane_stride)) {
                    some(&height.forward, &mut plane[..read[0] * self.height], scratch);
                    transpose(plane, self.height, turned, self.depth, self.depth);
                    depth.forward.process_with_scratch(turned, scratch);
                    multiply_conj_in_place(turned, template);
                    depth.inverse.process_with_scratch(turned, scratch);
                    transpose_back(turned, self.depth, plane, self.height, written[0]);
                    some(&height.inverse, &mut plane[..written[0] * self.height], scratch);
                }
                self.inverse_rows(width, spectrum, real, written, scratch, room);
            }
        }
    }

    /// Checks every length of a call; the scratch in its two parts.
    fn checked<'a>(
        &self,
        real: &[T],
        [planes, rows]: [usize; 2],
        spectrum: &[Complex<T>],
        scratch: &'a mut [Complex<T>],
    ) -> (&'a mut [Complex<T>], &'a mut [Complex<T>]) {
        let [depth, height, _] = self.shape;
        assert_eq!(real.len(), self.len(), "samples of the tile");
        assert_eq!(spectrum.len(), self.spectrum_len(), "numbers of the spectrum");
        assert!(
            planes <= depth && rows <= height,
            "part: expected at most {depth}x{height} planes and rows, got {planes}x{rows}"
        );
        assert!(
            scratch.len() >= self.scratch_len,
            "scratch: expected at least {}, got {}",
            self.scratch_len,
            scratch.len()
        );
        scratch.split_at_mut(self.axis_scratch)
    }

    /// The planes and rows of the squeezed tile that hold these of the tile as it was given.
    fn squeezed_part(&self, [planes, rows]: [usize; 2]) -> [usize; 2] {
        match self.shape {
            [1, _, 1] | [_, 1, 1] | [1, 1, _] => [1, 1],
            // Single samples for rows: each plane is a row.
            [_, _, 1] | [_, 1, _] => [1, planes],
            _ => [planes, rows],
        }
    }

    /// Zeros where a row is used in part, because the tile was squeezed. Returns the squeezed part.
    fn clear_unused(&self, real: &mut [T], [planes, rows]: [usize; 2]) -> [usize; 2] {
        let [_, height, width] = self.shape;
        if width == 1 || height == 1 {
            let (used, unused) = real.split_at_mut(planes * height * width);
            used.chunks_exact_mut(height * width).for_each(|plane| plane[rows * width..].fill(T::zero()));
            unused.fill(T::zero());
        }
        self.squeezed_part([planes, rows])
    }

    /// The planes of a spectrum, one for each frequency of width, without what lies between them: for each frequency of
    /// height those of depth, of a tile without its axes of one sample.
    pub(crate) fn planes<'a>(
        &self,
        spectrum: &'a mut [Complex<T>],
    ) -> impl Iterator<Item = &'a mut [Complex<T>]> + use<'a, T> {
        let plane = self.depth * self.height;
        spectrum.chunks_mut(self.plane_stride).map(move |chunk| &mut chunk[..plane])
    }

    /// Blocks of rows that lie together in the tile, as ranges of their numbers.
    fn blocks(&self, [planes, rows]: [usize; 2]) -> impl Iterator<Item = Range<usize>> + use<T> {
        let height = self.height;
        let (runs, length) = if rows == height { (1, planes * height) } else { (planes, rows) };
        (0..runs).flat_map(move |run| {
            let end = run * height + length;
            (run * height..end).step_by(BLOCK).map(move |first| first..end.min(first + BLOCK))
        })
    }

    /// Width to frequencies, transposed; zeros for the rows that are not used.
    fn forward_rows(
        &self,
        width: &planned::Axis<T>,
        real: &[T],
        used: [usize; 2],
        spectrum: &mut [Complex<T>],
        scratch: &mut [Complex<T>],
        room: &mut [Complex<T>],
    ) {
        let w = self.width;
        let block = &mut room[..BLOCK / 2 * w];
        for rows in self.blocks(used) {
            let pairs = &mut block[..rows.len().div_ceil(2) * w];
            for (pair, rows) in pairs.chunks_exact_mut(w).zip(real[rows.start * w..rows.end * w].chunks(2 * w)) {
                join(rows, pair);
            }
            width.forward.process_with_scratch(pairs, scratch);
            turn_out(block, w, &mut spectrum[rows.start..], self.plane_stride, rows.len());
        }
        if used != [self.depth, self.height] {
            for plane in self.planes(spectrum) {
                let (some, none) = plane.split_at_mut(used[0] * self.height);
                some.chunks_exact_mut(self.height).for_each(|row| row[used[1]..].fill(Complex::zero()));
                none.fill(Complex::zero());
            }
        }
    }

    /// Transposed frequencies to width, for the rows that are wanted.
    fn inverse_rows(
        &self,
        width: &planned::Axis<T>,
        spectrum: &[Complex<T>],
        real: &mut [T],
        wanted: [usize; 2],
        scratch: &mut [Complex<T>],
        room: &mut [Complex<T>],
    ) {
        let w = self.width;
        let block = &mut room[..BLOCK / 2 * w];
        for rows in self.blocks(wanted) {
            turn_in(&spectrum[rows.start..], self.plane_stride, block, w, rows.len());
            let pairs = &mut block[..rows.len().div_ceil(2) * w];
            width.inverse.process_with_scratch(pairs, scratch);
            for (pair, rows) in pairs.chunks_exact(w).zip(real[rows.start * w..rows.end * w].chunks_mut(2 * w)) {
                part(pair, rows);
            }
        }
    }
}

/// A transform of none, one or many.
fn some<T: FftNum>(fft: &Arc<dyn Fft<T>>, buffer: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
    if !buffer.is_empty() {
        fft.process_with_scratch(buffer, scratch);
    }
}

/// Two rows, or one and zeros, as one complex row.
fn join<T: FftNum>(rows: &[T], pair: &mut [Complex<T>]) {
    let (first, second) = rows.split_at(pair.len());
    if second.is_empty() {
        pair.iter_mut().zip(first).for_each(|(pair, &re)| *pair = Complex { re, im: T::zero() });
    } else {
        pair.iter_mut().zip(first).zip(second).for_each(|((pair, &re), &im)| *pair = Complex { re, im });
    }
}

/// The inverse of [`join`].
fn part<T: FftNum>(pair: &[Complex<T>], rows: &mut [T]) {
    let (first, second) = rows.split_at_mut(pair.len());
    if second.is_empty() {
        pair.iter().zip(first).for_each(|(pair, first)| *first = pair.re);
    } else {
        pair.iter().zip(first).zip(second).for_each(|((pair, first), second)| (*first, *second) = (pair.re, pair.im));
    }
}

/// The half spectra of a block's pairs of rows, to columns `stride` apart.
///
/// With `z` the spectrum of `a + i·b`: `2·A(k) = z(k) + conj z(-k)` and `2i·B(k) = z(k) − conj z(-k)`.
fn turn_out<T: FftNum>(block: &[Complex<T>], width: usize, out: &mut [Complex<T>], stride: usize, rows: usize) {
    let pairs: [&[Complex<T>]; BLOCK / 2] = array::from_fn(|pair| &block[pair * width..][..width]);
    let half = T::from_f64(0.5).expect("a float");
    let column = |k: usize, minus_k: usize| {
        let mut values = [Complex::zero(); BLOCK];
        for (values, pair) in values.chunks_exact_mut(2).zip(pairs) {
            let (z, y) = (pair[k], pair[minus_k]);
            values[0] = Complex { re: half * (z.re + y.re), im: half * (z.im - y.im) };
            values[1] = Complex { re: half * (z.im + y.im), im: half * (y.re - z.re) };
        }
        values
    };
    for ((k, minus_k), out) in negated(width).zip(out.chunks_mut(stride)) {
        let values = column(k, minus_k);
        if rows == BLOCK {
            out[..BLOCK].copy_from_slice(&values);
        } else {
            out[..rows].copy_from_slice(&values[..rows]);
        }
    }
}

/// The inverse of [`turn_out`]: the spectra of pairs of rows from the half spectra of rows.
///
/// `z(k) = A(k) + i·B(k)` and `z(-k) = conj A(k) + i·conj B(k)`. Where `k` is `-k`, `A` and `B` are real but for
/// rounding.
fn turn_in<T: FftNum>(spectrum: &[Complex<T>], stride: usize, block: &mut [Complex<T>], width: usize, rows: usize) {
    let mut parts = block.chunks_exact_mut(width);
    let mut pairs: [&mut [Complex<T>]; BLOCK / 2] =
        array::from_fn(|_| &mut parts.next().expect("pairs of rows")[..width]);
    for ((k, minus_k), column) in negated(width).zip(spectrum.chunks(stride)) {
        let mut values = [Complex::zero(); BLOCK];
        if rows == BLOCK {
            values.copy_from_slice(&column[..BLOCK]);
        } else {
            values[..rows].copy_from_slice(&column[..rows]);
        }
        for (pair, values) in pairs.iter_mut().zip(values.chunks_exact(2)) {
            let (a, b) = (values[0], values[1]);
            if k == minus_k {
                pair[k] = Complex { re: a.re, im: b.re };
            } else {
                pair[k] = Complex { re: a.re - b.im, im: a.im + b.re };
                pair[minus_k] = Complex { re: a.re + b.im, im: b.re - a.im };
            }
        }
    }
}

/// The frequencies of a half spectrum, each with its negative.
fn negated(width: usize) -> impl Iterator<Item = (usize, usize)> {
    iter::once((0, 0)).chain((1..=width / 2).map(move |k| (k, width - k)))
}

/// The product that correlates: `out = image · conj(template)`.
///
/// # Panics
/// Lengths that differ.
pub fn multiply_conj<T: FftNum>(image: &[Complex<T>], template: &[Complex<T>], out: &mut [Complex<T>]) {
    assert!(image.len() == out.len() && template.len() == out.len(), "spectra: expected {} numbers each", out.len());
    for ((out, i), t) in out.iter_mut().zip(image).zip(template) {
        *out = Complex { re: i.re * t.re + i.im * t.im, im: i.im * t.re - i.re * t.im };
    }
}

/// `image ·= conj(template)`.
fn multiply_conj_in_place<T: FftNum>(image: &mut [Complex<T>], template: &[Complex<T>]) {
    for (i, t) in image.iter_mut().zip(template) {
        *i = Complex { re: i.re * t.re + i.im * t.im, im: i.im * t.re - i.re * t.im };
    }
}

/// The smallest length of at least `at_least` that the transforms are fast for: even and 2^a 3^b 5^c, or 1. What no
/// fast length that fits a `usize` reaches stays as it is.
pub fn fast_length(at_least: usize) -> usize {
    if at_least <= 1 {
        return 1;
    }
    // For each odd part the least power of two that reaches; the powers of one prime are few.
    let powers = |prime: usize| iter::successors(Some(1usize), move |power| power.checked_mul(prime));
    let mut least: Option<usize> = None;
    for fives in powers(5).take_while(|power| *power < at_least) {
        let odd = powers(3).map_while(|threes| fives.checked_mul(threes)).take_while(|odd| *odd < at_least);
        for odd in odd {
            let twos = at_least.div_ceil(odd).max(2).checked_next_power_of_two();
            let length = twos.and_then(|twos| odd.checked_mul(twos));
            least = least.into_iter().chain(length).min();
        }
    }
    least.unwrap_or(at_least)
}

/// All fast lengths of a range, rising.
pub fn fast_lengths(range: Range<usize>) -> impl Iterator<Item = usize> {
    let times = |factor: usize| move |length: &usize| length.checked_mul(factor);
    let below = |length: &usize| *length < range.end;
    let fives = iter::successors(Some(1usize), times(5)).take_while(below);
    let odd = fives.flat_map(|fives| iter::successors(Some(fives), times(3)).take_while(below));
    let even = odd.flat_map(|odd| iter::successors(odd.checked_mul(2), times(2)).take_while(below));
    let mut lengths: Vec<usize> = even.chain([1]).filter(|length| range.contains(length)).collect();
    lengths.sort_unstable();
    lengths.into_iter()
}

/// The axes longer than 1, with ones in front.
fn squeezed(shape: [usize; 3]) -> [usize; 3] {
    let mut squeezed = [1; 3];
    for (to, &n) in squeezed.iter_mut().rev().zip(shape.iter().rev().filter(|&&n| n > 1)) {
        *to = n;
    }
    squeezed
}

/// A matrix of `rows` rows, transposed into rows of `out_columns` numbers.
fn transpose<T: Copy>(matrix: &[T], columns: usize, out: &mut [T], out_columns: usize, rows: usize) {
    for first in (0..rows).step_by(BLOCK) {
        let end = rows.min(first + BLOCK);
        let block = &matrix[first * columns..end * columns];
        for (column, out) in (0..columns).zip(out.chunks_exact_mut(out_columns)) {
            for (value, row) in out[first..end].iter_mut().zip(block.chunks_exact(columns)) {
                *value = row[column];
            }
        }
    }
}

/// The first `rows` rows of a matrix that was transposed.
fn transpose_back<T: Copy>(turned: &[T], turned_columns: usize, matrix: &mut [T], columns: usize, rows: usize) {
    for first in (0..rows).step_by(BLOCK) {
        let end = rows.min(first + BLOCK);
        let block = &mut matrix[first * columns..end * columns];
        for (column, turned) in (0..columns).zip(turned.chunks_exact(turned_columns)) {
            for (&value, row) in turned[first..end].iter().zip(block.chunks_exact_mut(columns)) {
                row[column] = value;
            }
        }
    }
}

/// One-dimensional transforms, each planned once for the process. Every length has a planner of its own: one that knows
/// other lengths makes a transform of what it has, so that its last bits would depend on what was planned before.
mod planned {
    use std::collections::HashMap;
    use std::sync::{Arc, LazyLock, Mutex, PoisonError};

    use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
    use rustfft::num_complex::Complex;
    use rustfft::{Fft, FftNum, FftPlanner};

    /// A type that tiles are transformed in: `f32` or `f64`.
    pub trait Sample: FftNum {
        /// The transforms of real lines.
        fn row(length: usize) -> Row<Self>;
        /// The transforms of complex ones.
        fn axis(length: usize) -> Axis<Self>;
    }

    /// The real transforms along width.
    #[derive(Clone)]
    pub struct Row<T> {
        forward: Arc<dyn RealToComplex<T>>,
        inverse: Arc<dyn ComplexToReal<T>>,
    }

    /// The complex transforms along height or depth.
    #[derive(Clone)]
    pub struct Axis<T> {
        pub forward: Arc<dyn Fft<T>>,
        pub inverse: Arc<dyn Fft<T>>,
    }

    impl<T: FftNum> Row<T> {
        pub fn scratch_len(&self) -> usize {
            self.forward.get_scratch_len().max(self.inverse.get_scratch_len())
        }

        pub fn forward(&self, row: &mut [T], frequencies: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
            self.forward.process_with_scratch(row, frequencies, scratch).expect("lengths are the plan's own");
        }

        pub fn inverse(&self, frequencies: &mut [Complex<T>], row: &mut [T], scratch: &mut [Complex<T>]) {
            // Zero but for rounding; realfft would complain.
            frequencies[0].im = T::zero();
            if row.len().is_multiple_of(2) {
                frequencies[row.len() / 2].im = T::zero();
            }
            self.inverse.process_with_scratch(frequencies, row, scratch).expect("lengths are the plan's own");
        }
    }

    impl<T: FftNum> Axis<T> {
        pub fn scratch_len(&self) -> usize {
            [&self.forward, &self.inverse]
                .iter()
                .map(|fft| fft.get_inplace_scratch_len().max(fft.get_outofplace_scratch_len()))
                .max()
                .unwrap_or(0)
        }
    }

    type Plans<T> = LazyLock<Mutex<HashMap<usize, T>>>;

    /// The plan for a length, made if there is none yet.
    fn found<T: Clone>(plans: &Plans<T>, length: usize, make: impl FnOnce() -> T) -> T {
        plans.lock().unwrap_or_else(PoisonError::into_inner).entry(length).or_insert_with(make).clone()
    }

    macro_rules! planned {
        ($type:ty, $rows:ident, $axes:ident) => {
            static $rows: Plans<Row<$type>> = LazyLock::new(Mutex::default);
            static $axes: Plans<Axis<$type>> = LazyLock::new(Mutex::default);

            impl Sample for $type {
                fn row(length: usize) -> Row<$type> {
                    found(&$rows, length, || {
                        let mut planner = RealFftPlanner::new();
                        Row { forward: planner.plan_fft_forward(length), inverse: planner.plan_fft_inverse(length) }
                    })
                }

                fn axis(length: usize) -> Axis<$type> {
                    found(&$axes, length, || {
                        let mut planner = FftPlanner::new();
                        Axis { forward: planner.plan_fft_forward(length), inverse: planner.plan_fft_inverse(length) }
                    })
                }
            }
        };
    }

    planned!(f32, SINGLE_ROWS, SINGLE_AXES);
    planned!(f64, DOUBLE_ROWS, DOUBLE_AXES);

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A planner that knew 1944 would make the transform of 486 of other parts.
        #[test]
        fn bits_do_not_depend_on_what_was_planned_before() {
            let _ = f64::axis(1944);
            let _ = f64::row(1944);
            let mut planned: Vec<Complex<f64>> =
                (0..486).map(|k| Complex::new((k as f64).sin(), (k as f64 * 0.7).cos())).collect();
            let (mut fresh, mut row) = (planned.clone(), planned.iter().map(|value| value.re).collect::<Vec<f64>>());
            f64::axis(486).forward.process(&mut planned);
            FftPlanner::new().plan_fft_forward(486).process(&mut fresh);
            assert_eq!(planned, fresh);
            let real = f64::row(486);
            let (mut ours, mut theirs) = (vec![Complex::default(); 244], vec![Complex::default(); 244]);
            real.forward(&mut row.clone(), &mut ours, &mut vec![Complex::default(); real.scratch_len()]);
            RealFftPlanner::new().plan_fft_forward(486).process(&mut row, &mut theirs).unwrap();
            assert_eq!(ours, theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [[usize; 3]; 27] = [
        [1, 1, 1],
        [1, 1, 2],
        [1, 1, 7],
        [1, 1, 60],
        [1, 1, 97],
        [1, 1, 640],
        [1, 9, 1],
        [11, 1, 1],
        [1, 2, 2],
        [1, 2, 3],
        [1, 3, 2],
        [1, 5, 7],
        [1, 16, 16],
        [1, 17, 31],
        [1, 30, 24],
        [1, 33, 20],
        [1, 64, 3],
        [1, 3, 64],
        [5, 1, 6],
        [6, 7, 1],
        [2, 2, 2],
        [2, 3, 5],
        [3, 4, 6],
        [4, 16, 8],
        [7, 5, 11],
        [8, 18, 10],
        [17, 3, 2],
    ];

    /// Uniform in -0.5..0.5.
    fn noise<T: Sample>(seed: u64, n: usize) -> Vec<T> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                T::from_f64((state >> 40) as f64 / (1u64 << 24) as f64 - 0.5).unwrap()
            })
            .collect()
    }

    /// Dirty memory: what a computation must not see.
    fn dirty<T: Sample>(n: usize) -> Vec<Complex<T>> {
        let nan = T::from_f64(f64::NAN).unwrap();
        vec![Complex::new(nan, nan); n]
    }

    fn wide<T: Into<f64> + Copy>(values: &[T]) -> Vec<f64> {
        values.iter().map(|&value| value.into()).collect()
    }

    fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
        values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
    }

    /// `Σ x · exp(-2πi (kz z/d + ky y/h + kx x/w))`.
    fn frequency(tile: &[f64], [d, h, w]: [usize; 3], [kz, ky, kx]: [usize; 3]) -> Complex<f64> {
        let mut sum = Complex::zero();
        for (i, value) in tile.iter().enumerate() {
            let turns = |k: usize, at: usize, n: usize| (k * at % n) as f64 / n as f64;
            let phase = turns(kz, i / (h * w), d) + turns(ky, i / w % h, h) + turns(kx, i % w, w);
            sum += Complex::from_polar(*value, -std::f64::consts::TAU * phase);
        }
        sum
    }

    /// What `n` samples of norm 1 may lose in one transform, in the Frobenius norm of the spectrum or the tile.
    fn bound(unit: f64, n: usize) -> f64 {
        4.0 * unit * (n as f64).log2().max(1.0)
    }

    /// Forward against the definition, back again, and a correlation against its plain sum.
    fn check<T: Sample + Into<f64>>(shape: [usize; 3], unit: f64) {
        let [d, h, w] = shape;
        let transform = TileTransform::<T>::new(shape);
        let n = transform.len();
        let tile: Vec<T> = noise(n as u64, n);
        let (mut real, mut scratch, mut spectrum) =
            (tile.clone(), dirty(transform.scratch_len()), dirty(transform.spectrum_len()));
        transform.forward(&mut real, [d, h], &mut spectrum, &mut scratch);

        let exact = wide(&tile);
        let [sd, sh, sw] = squeezed(shape);
        let mut errors = Vec::new();
        for kx in 0..=sw / 2 {
            for (ky, kz) in (0..sh).flat_map(|ky| (0..sd).map(move |kz| (ky, kz))) {
                let got = spectrum[kx * transform.plane_stride + ky * sd + kz];
                let difference =
                    Complex::<f64>::new(got.re.into(), got.im.into()) - frequency(&exact, [sd, sh, sw], [kz, ky, kx]);
                errors.push(difference.norm());
            }
        }
        let error = norm(errors) / (norm(exact.iter().copied()) * (n as f64).sqrt());
        assert!(error <= bound(unit, n) + 1e-14, "{shape:?}: forward {error:e}");

        scratch.fill(dirty(1)[0]);
        transform.inverse(&mut spectrum.clone(), &mut real, [d, h], &mut scratch);
        let back = norm(wide(&real).iter().zip(&exact).map(|(b, t)| b / n as f64 - t)) / norm(exact.iter().copied());
        assert!(back <= 2.0 * bound(unit, n), "{shape:?}: there and back {back:e}");

        let template: Vec<T> = noise(n as u64 + 1, n);
        let mut template_spectrum = dirty(transform.spectrum_len());
        transform.forward(&mut template.clone(), [d, h], &mut template_spectrum, &mut scratch);
        let weights = wide(&template);
        let expected: Vec<f64> = (0..n)
            .map(|x| {
                let at = |axis: usize, p: usize| {
                    let stride = [h * w, w, 1][axis];
                    (x / stride % shape[axis] + p / stride % shape[axis]) % shape[axis] * stride
                };
                (0..n).map(|p| exact[at(0, p) + at(1, p) + at(2, p)] * weights[p]).sum()
            })
            .collect();
        let allowed = 3.0 * bound(unit, n) * norm(exact.iter().copied()) * norm(weights.iter().copied());
        let far = |got: &[T]| norm(wide(got).iter().zip(&expected).map(|(g, e)| g / n as f64 - e));

        let mut product = dirty(transform.spectrum_len());
        multiply_conj(&spectrum, &template_spectrum, &mut product);
        transform.inverse(&mut product, &mut real, [d, h], &mut scratch);
        assert!(far(&real) <= allowed, "{shape:?}: three steps {:e} of {allowed:e}", far(&real));

        let mut real = tile.clone();
        spectrum.fill(dirty(1)[0]);
        scratch.fill(dirty(1)[0]);
        transform.correlate(&mut real, [d, h], &template_spectrum, [d, h], &mut spectrum, &mut scratch);
        assert!(far(&real) <= allowed, "{shape:?}: one step {:e} of {allowed:e}", far(&real));
    }

    #[test]
    fn single_precision() {
        SHAPES.iter().for_each(|&shape| check::<f32>(shape, f64::from(f32::EPSILON) / 2.0));
    }

    #[test]
    fn double_precision() {
        SHAPES.iter().for_each(|&shape| check::<f64>(shape, f64::EPSILON / 2.0));
    }

    #[test]
    fn rows_not_used_are_zero_and_rows_not_wanted_change_nothing() {
        for shape in SHAPES {
            let [d, h, w] = shape;
            let transform = TileTransform::<f64>::new(shape);
            let n = transform.len();
            let tile: Vec<f64> = noise(3, n);
            let template: Vec<Complex<f64>> =
                noise(4, 2 * transform.spectrum_len()).chunks(2).map(|c| Complex::new(c[0], c[1])).collect();
            for part in
                [[0, h], [d, 0], [d, h - 1], [d.div_ceil(2), h], [d.div_ceil(2), h.div_ceil(2)], [d - d / 3, h - h / 3]]
            {
                let inside = |i: usize| i / (h * w) < part[0] && i / w % h < part[1];
                let only = |other: f64| -> Vec<f64> {
                    tile.iter().enumerate().map(|(i, &t)| if inside(i) { t } else { other }).collect()
                };
                let (mut scratch, mut cut, mut whole) =
                    (dirty(transform.scratch_len()), dirty(transform.spectrum_len()), dirty(transform.spectrum_len()));
                transform.forward(&mut only(f64::NAN), part, &mut cut, &mut scratch);
                transform.forward(&mut only(0.0), [d, h], &mut whole, &mut scratch);
                let planes = |spectrum: &mut Vec<Complex<f64>>| {
                    transform.planes(spectrum).flat_map(|plane| plane.to_vec()).collect::<Vec<_>>()
                };
                let (cut_planes, whole_planes) = (planes(&mut cut), planes(&mut whole));
                let error = norm(cut_planes.iter().zip(&whole_planes).map(|(a, b)| (a - b).norm()));
                assert!(error <= 1e-13 * (n as f64), "{shape:?} used {part:?}: {error:e}");

                let (mut all, mut some) = (vec![f64::NAN; n], vec![f64::NAN; n]);
                transform.inverse(&mut whole, &mut all, [d, h], &mut scratch);
                transform.inverse(&mut cut, &mut some, part, &mut scratch);
                let near = |a: &[f64], b: &[f64]| {
                    (0..n).filter(|&i| inside(i)).all(|i| (a[i] - b[i]).abs() <= 1e-13 * (n * n) as f64)
                };
                assert!(near(&some, &all), "{shape:?} wanted {part:?}");

                let (mut all, mut some) = (only(0.0), only(f64::NAN));
                transform.correlate(&mut all, [d, h], &template, [d, h], &mut whole, &mut scratch);
                transform.correlate(&mut some, part, &template, part, &mut cut, &mut scratch);
                assert!(near(&some, &all), "{shape:?} correlated {part:?}");
            }
        }
    }

    #[test]
    fn planes_are_set_apart_where_they_would_meet_in_the_cache() {
        let transform = TileTransform::<f32>::new([1, 512, 2]);
        assert_eq!(transform.plane_stride, 520);
        assert_eq!(transform.spectrum_len(), 520 + 512);
        check::<f32>([1, 512, 2], f64::from(f32::EPSILON) / 2.0);
        check::<f64>([1, 256, 3], f64::EPSILON / 2.0);
        check::<f64>([16, 16, 4], f64::EPSILON / 2.0);
    }

    #[test]
    fn fast_lengths_are_even_and_smooth() {
        assert_eq!(fast_lengths(0..41).collect::<Vec<_>>(), [1, 2, 4, 6, 8, 10, 12, 16, 18, 20, 24, 30, 32, 36, 40]);
        assert_eq!(fast_lengths(7..7).next(), None);
        assert_eq!([0, 1, 2, 3, 7, 13, 26, 42, 501, 1025].map(fast_length), [1, 1, 2, 4, 8, 16, 30, 48, 512, 1080]);
        // Found at once, however far apart they are, and none that does not fit.
        assert_eq!([300_000_000_001, usize::MAX].map(fast_length), [301_989_888_000, usize::MAX]);
        for least in 2..3000 {
            let smooth =
                |n: usize| [2, 3, 5].iter().fold(n, |n, p| (0..12).fold(n, |n, _| if n % p == 0 { n / p } else { n }));
            assert_eq!(Some(fast_length(least)), (least..).find(|n| n % 2 == 0 && smooth(*n) == 1));
        }
    }

    #[test]
    #[should_panic(expected = "scratch: expected at least")]
    fn a_short_scratch_is_refused() {
        let transform = TileTransform::<f32>::new([1, 4, 4]);
        let mut spectrum = dirty(transform.spectrum_len());
        transform.forward(&mut [0.0; 16], [1, 4], &mut spectrum, &mut []);
    }
}
