//! Correlation of one tile of f32 by Fourier transforms of our own, for results that fit in one of them.
//!
//! Samples are real, so half of their frequencies say it all. Down the columns, columns `x` and `x + LANES` are the
//! real and the imaginary part of one transform; their spectra are the even and the odd part of its own, taken apart
//! row by row. The columns' frequencies 1 to `N / 2 - 1` are rows of complex numbers then. Those of 0 and `N / 2` are
//! real, and share one row, the first lane's, whose product with the template is taken apart in the same way. So a tile
//! takes half of what `fft/pair.rs` takes for a pair, and a template a quarter: its spectrum is made in f32, by the
//! same transform, wherever it is bound, which makes binding cheap enough for templates that are used once.
//!
//! With `Z = A + iB` of two real lines and `S = C + iD` of the template's: `A C* + i B D* = Z U + Z'* V`, where `Z'` is
//! `Z` at the opposite frequency, `U = (C + D)* / 2` and `V = (C - D)* / 2`. NaN and infinities never get here:
//! `gather.rs` replaces them.

use crate::cpu::aligned::Aligned;
use crate::cpu::fft::dither::Dither;
use crate::cpu::fft::pair::{
    Ground, Planes, Samples, Sums, Wanted, after_first, before_last, first_back, from_last, product, stride, to_last,
    transposed,
};
use crate::cpu::fft::stages::{self, last};
use crate::cpu::memory::Memory;
use crate::isa::simd::{Job, Simd};
use crate::isa::{IsaSet, Vectors};
use crate::problem::error_model::Figure;
use crate::problem::lanes;
use crate::run::geometry::Pitch;

/// The shape of a tile: all of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Samples of a transform, on both axes: one of [`LENGTHS`](stages::LENGTHS).
    pub length: usize,
    /// Outputs: height and width.
    pub outputs: [usize; 2],
    /// Height and width of the template.
    pub template: [usize; 2],
}

impl Layout {
    /// The shape of the buffers: input, as long and as wide as the transform; output, with what it writes past the
    /// results.
    pub fn pitches(&self) -> (Pitch, Pitch) {
        let [height, width] = self.outputs;
        let pitch = |width: usize, rows: usize| {
            // Rows half a page apart would fall on few sets of the cache.
            let row = if width.is_multiple_of(256) { width + 16 } else { width };
            Pitch { row, plane: row * rows, rows, planes: 1 }
        };
        (pitch(self.length, self.length), pitch(width.next_multiple_of(32), height))
    }
}

/// Buffers of one worker.
pub struct Scratch {
    strip: Planes,
    halves: [Planes; 2],
    tile: Planes,
    /// The template's samples, with zeros past them.
    template: Aligned<f32>,
    /// The first lane's frequencies.
    line: [Vec<f32>; 2],
    /// The figure of the tile computed last.
    pub figure: Figure,
}

/// The transform of tiles of one shape.
pub struct Transform {
    layout: Layout,
    vectors: Vectors,
    twiddles: Vec<Vec<[f32; 2]>>,
    dither: Dither,
    /// Where a transform leaves each frequency.
    places: Vec<usize>,
    /// Where it leaves the opposite of what it leaves at each place.
    opposites: Vec<usize>,
}

impl Transform {
    /// The engine, if this processor has an instruction set that it is compiled for.
    ///
    /// # Panics
    /// A length without stages, or a template and outputs that do not fit in it.
    pub fn new(layout: Layout, isas: &IsaSet) -> Option<Transform> {
        let n = layout.length;
        assert!(!stages::radices(n).is_empty(), "transform: expected a length with stages, got {n}");
        for axis in 0..2 {
            let reach = layout.outputs[axis] + layout.template[axis] - 1;
            assert!(reach <= n, "outputs: expected at most {n} samples under them, got {reach}");
        }
        let vectors = Vectors::new(isas)?;
        let mut places = vec![0; n];
        (0..n).for_each(|place| places[stages::frequency(n, place)] = place);
        let opposites = (0..n).map(|place| places[(n - stages::frequency(n, place)) % n]).collect();
        let dither = Dither::new(n, |place| stages::frequency(n, place));
        Some(Transform { layout, vectors, twiddles: stages::stages(n), dither, places, opposites })
    }

    /// How a tile is laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Values of a plane: a group of `LANES` frequencies of height for each position along width, groups a little
    /// apart.
    fn plane_len(&self) -> usize {
        self.layout.length / 2 * stride(self.layout.length)
    }

    /// Columns of the template's buffer: whole pairs of vectors.
    fn template_row(&self) -> usize {
        self.layout.template[1].next_multiple_of(2 * self.vectors.lanes())
    }

    /// Buffers of a worker.
    pub fn scratch(&self, memory: &mut Memory) -> Scratch {
        let (n, lanes) = (self.layout.length, self.vectors.lanes());
        Scratch {
            strip: Planes::of(n * lanes, memory),
            halves: [Planes::of(n / 2 * lanes, memory), Planes::of(n / 2 * lanes, memory)],
            tile: Planes::of(self.plane_len(), memory),
            template: memory.aligned(0.0, n * self.template_row()),
            line: [memory.values(0.0, n), memory.values(0.0, n)],
            figure: Figure::default(),
        }
    }

    /// Bytes of a template's spectrum.
    pub fn spectrum_bytes(&self) -> usize {
        Planes::bytes(self.plane_len() + self.layout.length)
    }

    /// Room for a template's spectrum.
    pub fn room(&self) -> Planes {
        Planes::new(self.plane_len() + self.layout.length)
    }

    /// The spectrum of a template, conjugate, with `U` in the first lane and `V` past the planes, divided by what
    /// transforms multiply by.
    pub fn prepare(&self, template: &[f64], scratch: &mut Scratch, spectrum: &mut Planes) {
        let Scratch { strip, halves, template: samples, line, .. } = scratch;
        let plane = self.plane_len();
        let columns = Columns { transform: self, strip, halves, tile: &mut *spectrum };
        self.run_sized(Prepare { columns, template, samples, row: self.template_row() });
        let lanes = self.vectors.lanes();
        take_line(&spectrum.re, &spectrum.im, lanes, line);
        let [line_re, line_im] = line;
        let [(re_rows, re_past), (im_rows, im_past)] =
            [&mut spectrum.re, &mut spectrum.im].map(|values| values.split_at_mut(plane));
        for (place, &opposite) in self.opposites.iter().enumerate() {
            // The line is conjugate already: its even part is `C*`, its odd part over `-i` is `D*`.
            let (re, im, re_opposite, im_opposite) =
                (line_re[place], line_im[place], line_re[opposite], line_im[opposite]);
            let (c, d) = ([re + re_opposite, im - im_opposite], [-(im + im_opposite), re - re_opposite]);
            re_rows[place * lanes] = 0.25 * (c[0] + d[0]);
            im_rows[place * lanes] = 0.25 * (c[1] + d[1]);
            re_past[place] = 0.25 * (c[0] - d[0]);
            im_past[place] = 0.25 * (c[1] - d[1]);
        }
    }

    /// What the transform of a prepared template is off by at frequency 0, where it is the sum of the template's
    /// values: what equal samples of 1 err by.
    pub fn off(&self, spectrum: &Planes, sum: f64) -> f64 {
        let samples = (self.layout.length * self.layout.length) as f64;
        // Twice the even part of `U` and `V`, see `prepare`.
        let found = 2.0 * samples * (f64::from(spectrum.re[0]) + f64::from(spectrum.re[self.plane_len()]));
        (found - sum).abs()
    }

    /// The cross term of the first `outputs` (height and width) of a tile, and its figure. Rows of `out` are written up
    /// to the next 32 past `outputs`.
    pub fn run(&self, ground: Ground<'_>, template: &Planes, scratch: &mut Scratch, outputs: [usize; 2]) {
        let Scratch { strip, halves, tile, line, figure, .. } = scratch;
        *figure = self.run_sized(Correlate {
            columns: Columns { transform: self, strip, halves, tile },
            ground,
            template,
            line,
            outputs,
        });
    }

    fn run_sized<J: AnyLength>(&self, job: J) -> J::Output {
        match self.layout.length {
            64 => self.vectors.run(OfLength::<J, 64>(job)),
            128 => self.vectors.run(OfLength::<J, 128>(job)),
            256 => self.vectors.run(OfLength::<J, 256>(job)),
            512 => self.vectors.run(OfLength::<J, 512>(job)),
            _ => self.vectors.run(OfLength::<J, 1024>(job)),
        }
    }
}

/// Work under transforms of whatever length.
trait AnyLength {
    type Output;
    /// Does it under those of `N` samples; `#[inline(always)]`.
    fn run<S: Simd, const N: usize>(self, s: S) -> Self::Output;
}

/// A job under transforms of `N` samples.
struct OfLength<J, const N: usize>(J);

impl<J: AnyLength, const N: usize> Job for OfLength<J, N> {
    type Output = J::Output;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> J::Output {
        self.0.run::<S, N>(s)
    }
}

/// The transform of a template.
struct Prepare<'a> {
    columns: Columns<'a>,
    template: &'a [f64],
    /// Room for its values in rows of `row`; zeros past them.
    samples: &'a mut [f32],
    row: usize,
}

impl AnyLength for Prepare<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const N: usize>(mut self, s: S) {
        let width = self.columns.transform.layout.template[1];
        for (row, values) in self.samples.chunks_exact_mut(self.row).zip(self.template.chunks_exact(width)) {
            balanced(values, &mut row[..values.len()]);
        }
        self.columns.forward::<S, N>(s, self.samples, self.row, self.row, None);
        // Either transform has left everything doubled.
        let scale = 0.25 / (N * N) as f32;
        let twiddles = &self.columns.transform.twiddles;
        let (re, im) = self.columns.tile_rows::<S>();
        for group in 0..N / 2 / S::LANES {
            let range = group * stride(N)..group * stride(N) + N;
            let (re, im) = (&mut re[range.clone()], &mut im[range]);
            to_last::<S, N>(s, re, im, twiddles, None);
            last(s, re, im, None);
            conjugate(s, re, im, scale);
        }
    }
}

/// Values that are rounded together, so that their sum stays what it was.
const BALANCED: usize = 16;

/// Rounds values, each sixteen so that their sum stays what it was to within one rounding: the last takes what the
/// others were rounded by. What equal values are rounded by is equal, and a constant image would add it up.
#[inline(always)]
fn balanced(values: &[f64], rounded: &mut [f32]) {
    let (whole, rest) = values.as_chunks::<BALANCED>();
    let (to_whole, to_rest) = rounded.as_chunks_mut::<BALANCED>();
    for (values, rounded) in whole.iter().zip(to_whole) {
        let mut left = [0.0; BALANCED];
        for ((left, to), &value) in left.iter_mut().zip(rounded.iter_mut()).zip(values) {
            *to = value as f32;
            *left = value - f64::from(*to);
        }
        rounded[BALANCED - 1] = (f64::from(rounded[BALANCED - 1]) + lanes::folded(left, |a, b| a + b)) as f32;
    }
    let mut left = 0.0;
    for (to, &value) in to_rest.iter_mut().zip(rest) {
        *to = value as f32;
        left += value - f64::from(*to);
    }
    if let Some(last) = to_rest.last_mut() {
        *last = (f64::from(*last) + left) as f32;
    }
}

/// The transform of a tile, times a template's, and back.
struct Correlate<'a> {
    columns: Columns<'a>,
    ground: Ground<'a>,
    template: &'a Planes,
    line: &'a mut [Vec<f32>; 2],
    outputs: [usize; 2],
}

impl AnyLength for Correlate<'_> {
    type Output = Figure;

    #[inline(always)]
    fn run<S: Simd, const N: usize>(mut self, s: S) -> Figure {
        let Ground { input, in_row, out, out_row } = self.ground;
        let transform = self.columns.transform;
        let mut rows = [0.0; N];
        let Sums { energy, column } = self.columns.forward::<S, N>(s, input, in_row, N, Some(&mut rows));
        let (template_re, template_im) = (S::rows(&self.template.re), S::rows(&self.template.im));
        let (mut result, mut first) = (0.0, 0.0);
        for group in 0..N / 2 / S::LANES {
            let range = group * stride(N)..group * stride(N) + N;
            let (template_re, template_im) = (&template_re[range.clone()], &template_im[range.clone()]);
            let (re, im) = self.columns.tile_rows::<S>();
            let (re, im) = (&mut re[range.clone()], &mut im[range.clone()]);
            let noise = transform.dither.of::<S, N>(s, s.load_at(&rows, group * S::LANES), group * S::LANES, 0);
            to_last::<S, N>(s, re, im, &transform.twiddles, Some(noise));
            if group > 0 {
                result += product(s, re, im, (template_re, template_im), noise, None);
            } else {
                // The first lane's product takes opposite frequencies, so all of them have to be there before.
                last(s, re, im, Some(noise));
                take_line(&self.columns.tile.re, &self.columns.tile.im, S::LANES, self.line);
                let (re, im) = self.columns.tile_rows::<S>();
                result += multiply(s, &mut re[range.clone()], &mut im[range.clone()], template_re, template_im);
                let past = transform.plane_len();
                let opposite = [&self.template.re[past..], &self.template.im[past..]];
                let tile = &mut *self.columns.tile;
                first = add_opposite([&mut tile.re, &mut tile.im], S::LANES, self.line, opposite, &transform.opposites);
                let (re, im) = self.columns.tile_rows::<S>();
                first_back(s, &mut re[range.clone()], &mut im[range.clone()]);
            }
            let (re, im) = self.columns.tile_rows::<S>();
            let (re, im) = (&mut re[range.clone()], &mut im[range]);
            from_last::<S, N>(s, re, im, &transform.twiddles);
        }
        let peak = self.columns.back::<S, N>(s, out, out_row, self.outputs);
        // Each frequency stands for its opposite too; the first lane's two lines are in both terms, so this is rather
        // more.
        Figure { energy, result: 2.0 * result + first, peak, column, ..Figure::default() }
    }
}

/// Transforms down columns, and back.
struct Columns<'a> {
    transform: &'a Transform,
    strip: &'a mut Planes,
    halves: &'a mut [Planes; 2],
    tile: &'a mut Planes,
}

impl Columns<'_> {
    #[inline(always)]
    fn tile_rows<S: Simd>(&mut self) -> (&mut [S::Row], &mut [S::Row]) {
        (S::rows_mut(&mut self.tile.re), S::rows_mut(&mut self.tile.im))
    }

    /// Down the columns that are given, then transposed into the tile, whose others become 0. With `rows`, which get
    /// the sums of squares of the rows of frequencies, columns have noise on the way, and their sums are returned.
    #[inline(always)]
    fn forward<S: Simd, const N: usize>(
        &mut self,
        s: S,
        input: &[f32],
        pitch: usize,
        columns: usize,
        mut rows: Option<&mut [f32]>,
    ) -> Sums {
        let Columns { transform: Transform { twiddles, dither, places, .. }, strip, halves: [left, right], tile } =
            self;
        let (mut energy, mut largest) = (0.0, s.splat(0.0));
        let (re, im) = (&mut S::rows_mut(&mut strip.re)[..N], &mut S::rows_mut(&mut strip.im)[..N]);
        let left = (&mut S::rows_mut(&mut left.re)[..N / 2], &mut S::rows_mut(&mut left.im)[..N / 2]);
        let right = (&mut S::rows_mut(&mut right.re)[..N / 2], &mut S::rows_mut(&mut right.im)[..N / 2]);
        let (tile_re, tile_im) = (S::rows_mut(&mut tile.re), S::rows_mut(&mut tile.im));
        let samples = Samples { from: input, pitch, beside: S::LANES };
        if let Some(rows) = &mut rows {
            rows.fill(0.0);
        }
        let mut squares = if rows.is_some() { samples.squares::<S, N>(s) } else { s.splat(0.0) };
        for x in (0..N).step_by(2 * S::LANES) {
            if x < columns {
                let noise = if rows.is_some() { Some(dither.of::<S, N>(s, squares, x / 2, 0)) } else { None };
                energy += f64::from(s.total(squares));
                largest = s.larger_magnitude(squares, largest);
                let ahead = x + 2 * S::LANES;
                let next = (noise.is_some() && ahead < columns).then(|| samples.beyond(ahead));
                squares = samples.beyond(x).first::<S, N>(s, [re, im], &twiddles[0], noise, next, None);
                after_first::<S, N>(s, re, im, twiddles);
                last(s, re, im, noise);
                take_apart::<S, N>(s, (re, im), (left.0, left.1), (right.0, right.1), places);
            }
            for group in 0..N / 2 / S::LANES {
                let (from, to) = (group * S::LANES, group * stride(N) + x);
                for (half, to) in [(&left, to), (&right, to + S::LANES)] {
                    let (re, im) = (&mut tile_re[to..to + S::LANES], &mut tile_im[to..to + S::LANES]);
                    if x < columns {
                        transposed(
                            s,
                            [&half.0[from..from + S::LANES], &half.1[from..from + S::LANES]],
                            [re, im],
                            rows.as_deref_mut().map(|rows| &mut rows[from..]),
                        );
                    } else {
                        re.iter_mut().chain(im).for_each(|row| s.store(row, s.splat(0.0)));
                    }
                }
            }
        }
        Sums { energy, column: f64::from(f32::from_bits(s.largest(largest))) }
    }

    /// Transposed out of the tile, and up the columns that are wanted; returns the largest magnitude of a result.
    #[inline(always)]
    fn back<S: Simd, const N: usize>(
        &mut self,
        s: S,
        out: &mut [f32],
        pitch: usize,
        [rows, columns]: [usize; 2],
    ) -> f64 {
        let Columns { transform: Transform { twiddles, places, .. }, strip, halves: [left, right], tile } = self;
        let mut largest = s.splat(0.0);
        let (re, im) = (&mut S::rows_mut(&mut strip.re)[..N], &mut S::rows_mut(&mut strip.im)[..N]);
        let left = (&mut S::rows_mut(&mut left.re)[..N / 2], &mut S::rows_mut(&mut left.im)[..N / 2]);
        let right = (&mut S::rows_mut(&mut right.re)[..N / 2], &mut S::rows_mut(&mut right.im)[..N / 2]);
        let (tile_re, tile_im) = (S::rows(&tile.re), S::rows(&tile.im));
        for x in (0..columns).step_by(2 * S::LANES) {
            for group in 0..N / 2 / S::LANES {
                let (from, to) = (group * stride(N) + x, group * S::LANES);
                s.transpose(&tile_re[from..from + S::LANES], &mut left.0[to..to + S::LANES]);
                s.transpose(&tile_im[from..from + S::LANES], &mut left.1[to..to + S::LANES]);
                let from = from + S::LANES;
                s.transpose(&tile_re[from..from + S::LANES], &mut right.0[to..to + S::LANES]);
                s.transpose(&tile_im[from..from + S::LANES], &mut right.1[to..to + S::LANES]);
            }
            put_together::<S, N>(s, (left.0, left.1), (right.0, right.1), (re, im), places);
            first_back(s, re, im);
            before_last::<S, N>(s, re, im, twiddles);
            let wanted =
                Wanted { pitch, beside: (x + S::LANES < columns).then_some(S::LANES), rows, lanes: [S::LANES; 2] };
            let peaks = wanted.last_back::<S, N, true>(s, re, im, &twiddles[0], &mut out[x..], None);
            largest = s.larger_magnitude(peaks, largest);
        }
        f64::from(f32::from_bits(s.largest(largest)))
    }
}

/// The spectra of two real columns, doubled, from that of one as the real and the other as the imaginary part:
/// frequencies 0 (its imaginary part is frequency `N / 2`) to `N / 2 - 1`.
#[inline(always)]
fn take_apart<S: Simd, const N: usize>(
    s: S,
    (re, im): (&[S::Row], &[S::Row]),
    (left_re, left_im): (&mut [S::Row], &mut [S::Row]),
    (right_re, right_im): (&mut [S::Row], &mut [S::Row]),
    places: &[usize],
) {
    let twice = |row: &S::Row| {
        let value = s.load(row);
        s.add(value, value)
    };
    let (zero, half) = (places[0], places[N / 2]);
    s.store(&mut left_re[0], twice(&re[zero]));
    s.store(&mut left_im[0], twice(&re[half]));
    s.store(&mut right_re[0], twice(&im[zero]));
    s.store(&mut right_im[0], twice(&im[half]));
    for k in 1..N / 2 {
        let (place, opposite) = (places[k], places[N - k]);
        let (a, b) = (s.load(&re[place]), s.load(&im[place]));
        let (c, d) = (s.load(&re[opposite]), s.load(&im[opposite]));
        s.store(&mut left_re[k], s.add(a, c));
        s.store(&mut left_im[k], s.sub(b, d));
        s.store(&mut right_re[k], s.add(b, d));
        s.store(&mut right_im[k], s.sub(c, a));
    }
}

/// The spectrum of which two real columns are the real and the imaginary part, from theirs.
#[inline(always)]
fn put_together<S: Simd, const N: usize>(
    s: S,
    (left_re, left_im): (&[S::Row], &[S::Row]),
    (right_re, right_im): (&[S::Row], &[S::Row]),
    (re, im): (&mut [S::Row], &mut [S::Row]),
    places: &[usize],
) {
    let (zero, half) = (places[0], places[N / 2]);
    s.store(&mut re[zero], s.load(&left_re[0]));
    s.store(&mut re[half], s.load(&left_im[0]));
    s.store(&mut im[zero], s.load(&right_re[0]));
    s.store(&mut im[half], s.load(&right_im[0]));
    for k in 1..N / 2 {
        let (place, opposite) = (places[k], places[N - k]);
        let (a, b) = (s.load(&left_re[k]), s.load(&left_im[k]));
        let (c, d) = (s.load(&right_re[k]), s.load(&right_im[k]));
        s.store(&mut re[place], s.sub(a, d));
        s.store(&mut im[place], s.add(b, c));
        s.store(&mut re[opposite], s.add(a, d));
        s.store(&mut im[opposite], s.sub(c, b));
    }
}

/// Conjugates, times a factor.
#[inline(always)]
fn conjugate<S: Simd>(s: S, re: &mut [S::Row], im: &mut [S::Row], factor: f32) {
    let (factor, opposite) = (s.splat(factor), s.splat(-factor));
    re.iter_mut().for_each(|row| s.store(row, s.mul(s.load(row), factor)));
    im.iter_mut().for_each(|row| s.store(row, s.mul(s.load(row), opposite)));
}

/// Times the template's spectrum; returns the product's sum of squares.
#[inline(always)]
fn multiply<S: Simd>(
    s: S,
    re: &mut [S::Row],
    im: &mut [S::Row],
    template_re: &[S::Row],
    template_im: &[S::Row],
) -> f64 {
    let mut squares = s.splat(0.0);
    for ((re, im), (template_re, template_im)) in re.iter_mut().zip(im).zip(template_re.iter().zip(template_im)) {
        let value = stages::Complex::<S> { re: s.load(re), im: s.load(im) };
        let value = value.times(s, s.load(template_re), s.load(template_im));
        squares = value.square(s, squares);
        s.store(re, value.re);
        s.store(im, value.im);
    }
    f64::from(s.total(squares))
}

/// Copies the first lane of the first group.
fn take_line(re: &[f32], im: &[f32], lanes: usize, [line_re, line_im]: &mut [Vec<f32>; 2]) {
    line_re.iter_mut().zip(re.iter().step_by(lanes)).for_each(|(to, from)| *to = *from);
    line_im.iter_mut().zip(im.iter().step_by(lanes)).for_each(|(to, from)| *to = *from);
}

/// Adds `Z'* V` to the first lane's product `Z U`; returns the sum of squares of what becomes of it.
fn add_opposite(
    [re, im]: [&mut [f32]; 2],
    lanes: usize,
    [line_re, line_im]: &[Vec<f32>; 2],
    [v_re, v_im]: [&[f32]; 2],
    opposites: &[usize],
) -> f64 {
    let mut squares = 0.0;
    let product = re.iter_mut().step_by(lanes).zip(im.iter_mut().step_by(lanes));
    for (((re, im), (v_re, v_im)), &opposite) in product.zip(v_re.iter().zip(v_im)).zip(opposites) {
        let (z_re, z_im) = (line_re[opposite], line_im[opposite]);
        *re += z_re * v_re + z_im * v_im;
        *im += z_re * v_im - z_im * v_re;
        squares += *re * *re + *im * *im;
    }
    f64::from(squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fft::expected;
    use crate::cpu::testing::{self, Ratios, noise, seeds, sets};
    use crate::problem::error_model::{Figures, Rounding};

    fn layouts() -> Vec<Layout> {
        let layout = |length, outputs, template| Layout { length, outputs, template };
        vec![
            layout(64, [41, 41], [24, 24]),
            layout(64, [5, 64], [60, 1]),
            layout(64, [1, 1], [64, 64]),
            layout(128, [65, 96], [64, 33]),
            layout(256, [100, 90], [120, 130]),
            layout(512, [312, 10], [201, 40]),
            layout(1024, [7, 1000], [30, 25]),
        ]
    }

    /// Samples of a tile, with zeros past them.
    fn gathered(layout: &Layout, mut sample: impl FnMut(usize, usize) -> f32) -> Aligned<f32> {
        let (pitch, _) = layout.pitches();
        let mut input = Aligned::new(0.0, pitch.elements());
        for y in 0..layout.outputs[0] + layout.template[0] - 1 {
            for x in 0..layout.outputs[1] + layout.template[1] - 1 {
                input[y * pitch.row + x] = sample(y, x);
            }
        }
        input
    }

    /// One result, by its definition.
    fn expected(layout: &Layout, input: &[f32], template: &[f64], y: usize, x: usize) -> f64 {
        let (pitch, _) = layout.pitches();
        let rows = template.chunks(layout.template[1]).enumerate();
        let row = |(k, taps): (usize, &[f64])| -> f64 {
            input[(y + k) * pitch.row + x..].iter().zip(taps).map(|(&sample, tap)| f64::from(sample) * tap).sum()
        };
        rows.map(row).sum()
    }

    /// Results to look at: all, or some of many.
    fn places(layout: &Layout) -> impl Iterator<Item = (usize, usize)> {
        let [height, width] = layout.outputs;
        let step = (height * width * layout.template[0] * layout.template[1] / 4_000_000).max(1);
        (0..height * width).step_by(step).map(move |at| (at / width, at % width))
    }

    #[test]
    fn it_correlates() {
        for isas in sets() {
            for layout in layouts() {
                let transform = Transform::new(layout, &isas).unwrap();
                let (mut tile, mut taps) = (noise(5), noise(9));
                let input = gathered(&layout, |_, _| tile());
                let template: Vec<f64> =
                    (0..layout.template[0] * layout.template[1]).map(|_| f64::from(taps())).collect();
                let (mut spectrum, mut scratch) = (transform.room(), transform.scratch(&mut Memory::making()));
                // Another template before it leaves nothing behind.
                transform.prepare(&vec![1e6; template.len()], &mut scratch, &mut spectrum);
                transform.prepare(&template, &mut scratch, &mut spectrum);
                let (in_pitch, pitch) = layout.pitches();
                let mut out = Aligned::new(f32::NAN, pitch.elements());
                let ground = Ground { input: &input, in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
                transform.run(ground, &spectrum, &mut scratch, layout.outputs);
                let norm = template.iter().map(|value| value * value).sum::<f64>().sqrt();
                let tolerance = 1e-6 * norm * (layout.length as f64).sqrt();
                for (y, x) in places(&layout) {
                    let (got, want) = (f64::from(out[y * pitch.row + x]), expected(&layout, &input, &template, y, x));
                    assert!((got - want).abs() <= tolerance, "{isas} {layout:?} at {y},{x}: {got} for {want}");
                }
                let energy: f64 = input.iter().map(|&value| f64::from(value).powi(2)).sum();
                let figure = scratch.figure;
                assert!((figure.energy / energy - 1.0).abs() < 1e-4, "{isas}: {figure:?}, expected {energy}");
                let largest = places(&layout).map(|(y, x)| out[y * pitch.row + x].abs()).fold(0.0, f32::max);
                assert!(figure.peak >= f64::from(largest) && figure.column > 0.0, "{isas}: {figure:?}");
                // By Parseval; the first lane counts more than once.
                let wrapped = energy * norm * norm / (layout.length * layout.length) as f64;
                assert!(
                    figure.result > 0.3 * wrapped && figure.result < 3.0 * wrapped,
                    "{isas} {layout:?}: {figure:?}, about {wrapped}"
                );
            }
        }
    }

    /// A tile down its columns alone; gives the sums of squares of its rows of frequencies.
    struct Down<'a> {
        columns: Columns<'a>,
        input: &'a [f32],
        pitch: usize,
    }

    impl AnyLength for Down<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<S: Simd, const N: usize>(mut self, s: S) -> Vec<f32> {
            let mut rows = vec![f32::NAN; N / 2];
            self.columns.forward::<S, N>(s, self.input, self.pitch, N, Some(&mut rows));
            rows
        }
    }

    #[test]
    fn sums_of_squares_are_those_of_the_rows_of_frequencies() {
        for isas in sets() {
            let transform =
                Transform::new(Layout { length: 64, outputs: [49, 48], template: [16, 16] }, &isas).unwrap();
            let (pitch, _) = transform.layout.pitches();
            let (mut scratch, mut tile) = (transform.scratch(&mut Memory::making()), noise(1));
            // Every row of frequencies has another sum.
            let input = gathered(&transform.layout, |y, x| tile() * (1.0 + (y * x) as f32));
            let Scratch { strip, halves, tile, .. } = &mut scratch;
            let columns = Columns { transform: &transform, strip, halves, tile };
            let rows = transform.run_sized(Down { columns, input: &input, pitch: pitch.row });
            let lanes = transform.vectors.lanes();
            for (row, &got) in rows.iter().enumerate() {
                let at = |x: usize| (row / lanes * stride(64) + x) * lanes + row % lanes;
                let square = |x| f64::from(scratch.tile.re[at(x)]).powi(2) + f64::from(scratch.tile.im[at(x)]).powi(2);
                let exact: f64 = (0..64).map(square).sum();
                assert!((f64::from(got) / exact - 1.0).abs() < 1e-5, "{isas}, row {row}: {got} for {exact}");
            }
        }
    }

    #[test]
    fn the_sum_of_a_template_is_found_again() {
        for isas in sets() {
            for layout in layouts() {
                let transform = Transform::new(layout, &isas).unwrap();
                let (mut scratch, mut spectrum) = (transform.scratch(&mut Memory::making()), transform.room());
                let template: Vec<f64> =
                    (0..layout.template[0] * layout.template[1]).map(|k| (k % 7) as f64 - 1.0).collect();
                transform.prepare(&template, &mut scratch, &mut spectrum);
                let sum: f64 = template.iter().sum();
                assert!(
                    transform.off(&spectrum, sum) < 1e-4 * sum,
                    "{isas} {layout:?}: {}, {sum}",
                    transform.off(&spectrum, sum)
                );
                assert!((transform.off(&spectrum, 3.0 * sum) - 2.0 * sum).abs() < 1e-4 * sum);
            }
        }
    }

    /// The largest error of a result over what the model of `problem/error_model.rs` grants it at 8 standard
    /// deviations: below 1, and not so far below that panels are recomputed for nothing.
    #[test]
    fn errors_stay_within_their_estimate() {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for layout in layouts() {
                    errors_of(&layout, &isas, 100 * seed, &mut ratios);
                }
            }
            ratios.judge(&format!("one tile, {isas}"));
        }
    }

    #[test]
    fn a_few_equal_samples_under_stripes_err_by_less_than_they_are_granted() {
        let layouts: Vec<Layout> = layouts().into_iter().filter(|layout| layout.template[1] > 2).collect();
        judge_hostile("a few equal samples under stripes", testing::striped, &layouts);
    }

    #[test]
    fn copies_of_few_levels_err_by_less_than_they_are_granted() {
        let layouts: Vec<Layout> = layouts().into_iter().filter(|layout| layout.template[1] > 2).collect();
        judge_hostile("copies of few levels beside a step", testing::copied, &layouts);
        judge_hostile("copies of few levels among blocks", testing::among_blocks, &layouts);
    }

    #[test]
    fn copies_in_few_lines_err_by_less_than_they_are_granted() {
        let layout = |length, outputs, template| Layout { length, outputs, template };
        let layouts = [
            layout(1024, [1023, 135], [2, 890]),
            layout(512, [73, 510], [440, 3]),
            layout(256, [256, 33], [1, 224]),
            layout(128, [126, 29], [3, 100]),
        ];
        judge_hostile("copies of few levels in few lines", testing::among_blocks, &layouts);
    }

    fn judge_hostile(name: &str, make: testing::Hostile, layouts: &[Layout]) {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for &layout in layouts {
                    let [height, width] = [0, 1].map(|axis| layout.outputs[axis] + layout.template[axis] - 1);
                    let template = [1, layout.template[0], layout.template[1]];
                    let seed = 100 * seed + layout.length as u64;
                    let (image, taps) = make([1, height, width], template, seed);
                    testing::at_amplitudes(&mut ratios, &image, seed, |image, ratios| {
                        let input = gathered(&layout, |y, x| image[y * width + x]);
                        judge(&layout, &isas, &input, &taps, 0, ratios, name);
                    });
                }
            }
            println!("{name}, {isas}, {} panels: {:.3}", ratios.panels(), ratios.all());
        }
    }

    /// Adds every panel of a tile of each image, under a template of noise, a smooth one, and one with a bright tap.
    fn errors_of(layout: &Layout, isas: &IsaSet, seed: u64, ratios: &mut Ratios) {
        for (kind, (name, image)) in testing::IMAGES.iter().enumerate() {
            let amplitude = testing::amplitude(seed + kind as u64);
            let mut tile = noise(seed + kind as u64 + 3);
            let input = gathered(layout, |y, x| amplitude * image(y, x, tile()));
            for shape in ["noise", "smooth", "bright"] {
                let count = layout.template[0] * layout.template[1];
                if count == 1 {
                    continue;
                }
                let mut template = testing::template(count, shape == "smooth", noise(seed + kind as u64 + 50));
                if shape == "bright" {
                    template.iter_mut().for_each(|tap| *tap *= 1e-3);
                    template[count / 3] = 1.0;
                }
                judge(layout, isas, &input, &template, kind, ratios, &format!("{name}, {shape} template"));
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
        let (mut scratch, mut spectrum, mut out) =
            (transform.scratch(&mut Memory::making()), transform.room(), Aligned::new(0.0, pitch.elements()));
        let energies = testing::window_energies(input, in_pitch.row, layout.template);
        transform.prepare(template, &mut scratch, &mut spectrum);
        let ground = Ground { input, in_row: in_pitch.row, out: &mut out, out_row: pitch.row };
        transform.run(ground, &spectrum, &mut scratch, layout.outputs);
        let rounding = Rounding::Single { len: (layout.length * layout.length) as f64 };
        let off = transform.off(&spectrum, template.iter().sum());
        let figures = Figures { off, ..Figures::of([template].into_iter()) };
        let doubt = testing::doubt_of(template.len(), &figures, rounding);
        let (unseen, figure) = (testing::unseen(&figures, rounding), scratch.figure);
        let limits = doubt.at_peak(figure.energy, figure.result.sqrt(), figure.peak(&unseen));
        let expected = expected::correlated(input, &in_pitch, template, [1, layout.template[0], layout.template[1]]);
        let of_expected = expected::of_expected(input, template);
        let [height, width] = layout.outputs;
        let (len, norms) = ((layout.length * layout.length) as f64, [figure.energy.sqrt(), testing::norm(template)]);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let error = (f64::from(out[y * pitch.row + x]) - expected[y * in_pitch.row + x]).abs();
            let error = (error - of_expected).max(0.0);
            // Taps are rounded: that is in proportion to what varies in the panel.
            let of_taps = 5.0 * f64::from(f32::EPSILON) / 2.0 * energies(y, x).sqrt();
            let granted = 0.8e-5 * limits.0.sqrt() + of_taps;
            ratios.add_worst(error, (len, 15.0, 5.0), norms);
            ratios.add_granted(kind, error, granted, || format!("{isas} {layout:?} {name}, at {y},{x}"));
        }
    }
}
