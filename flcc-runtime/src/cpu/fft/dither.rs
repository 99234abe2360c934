//! Noise that is added to the samples of a tile and taken from their spectrum, so that no error follows the samples.
//!
//! A transform adds samples that lie far apart. Where these have few levels, their sums have few, each of them is
//! rounded one way, and the errors follow the samples: under a template of the same texture they add up, to more than
//! all noise of rounding (a picture of even squares, one of them of two levels, half a tile beside the others). With
//! noise in the samples there are more sums. All of it has about a sixteenth of the largest sample's energy, and yet
//! many units in the last place of a sum of few samples. Nothing of it is left in the result, for its spectrum
//! is known, and short: a number for each row, times one of eight for each column, is eight columns of frequencies.
//! Every row has it, since faint samples have to have it too: a strong one, with noise or without, is a whole number of
//! units in the last place of their sum, so it has no say in how that is rounded. What frequency 0 of height adds up
//! along the rows has noise of its own, which a template of equal rows needs.
//!
//! Source: Roberts, "Picture coding using pseudo-random noise", 1962, which takes the noise away that it added.

use rustfft::num_complex::Complex64;

use crate::cpu::aligned::Aligned;
use crate::cpu::fft::stages::{self, Complex, LAST};
use crate::isa::simd::Simd;
use crate::problem::noise::{numbers, share, spectrum};

/// What noise is multiplied by in one column of each eight: all different, so that equal columns have different sums.
const SIDES: [f32; LAST] = [1.0, 0.571, 0.857, 0.643, 0.929, 0.5, 0.714, 0.786];

/// Real and imaginary parts.
type Parts = [Aligned<f32>; 2];

/// Zeros.
fn parts(len: usize) -> Parts {
    [0; 2].map(|_| Aligned::new(0.0, len))
}

/// Writes one of them.
fn write([re, im]: &mut Parts, at: usize, value: Complex64) {
    (re[at], im[at]) = (value.re as f32, value.im as f32);
}

/// The noise of tiles of one shape, and its spectrum.
pub(crate) struct Dither {
    /// The largest noise over the largest sample.
    share: f32,
    /// Of each row, in -1..1.
    rows: Vec<f32>,
    /// [`SIDES`] as often as a vector has them.
    sides: Aligned<f32>,
    /// The spectrum of the rows, a vector for each group of frequencies along height.
    of_rows: Parts,
    /// What sums along the rows of frequency 0 of height get: that of each column, beside zeros.
    along: Parts,
    /// The spectrum of that before the last stage of the rows' transform.
    of_along: Parts,
}

/// The noise of a tile at its scale.
#[derive(Clone, Copy)]
pub(crate) struct Scaled<'a> {
    of: &'a Dither,
    by: f32,
}

impl Dither {
    /// Noise of `length` rows of a tile of so many samples, without its spectra.
    fn of_length(length: usize, samples: usize, lanes: usize) -> Dither {
        let mut noise = numbers(length as u64);
        let rows = (0..length).map(|_| noise()).collect();
        let mut sides = Aligned::new(0.0, lanes.max(LAST));
        sides.chunks_exact_mut(LAST).for_each(|sides| sides.copy_from_slice(&SIDES));
        let [along, of_along] = [0; 2].map(|_| parts(length * lanes));
        Dither { share: share(samples) as f32, rows, sides, of_rows: parts(length), along, of_along }
    }

    /// Noise of pairs of tiles of `length` rows and columns, the same in both; of lines of as many rows, whose noise is
    /// taken away before the turn.
    pub(crate) fn of_pairs(length: usize, lanes: usize, line: bool) -> Dither {
        let mut dither = Dither::of_length(length, length * length, lanes);
        let (both, added) = (Complex64::new(1.0, 1.0), if line { 1 } else { length / LAST });
        dither.write_rows(both * added as f64, |place| stages::frequency(length, place));
        dither.write_along(both, lanes);
        dither
    }

    /// Noise of columns of `length` rows, the same in both tiles of a pair.
    pub(crate) fn of_strips(length: usize, lanes: usize) -> Dither {
        let mut dither = Dither::of_length(length, length, lanes);
        dither.write_rows(Complex64::new(1.0, 1.0), |place| stages::frequency(length, place));
        dither
    }

    /// Noise of single tiles of `length` rows and columns, whose first half of frequencies along height stands for all,
    /// doubled.
    pub(crate) fn of_halves(length: usize, lanes: usize) -> Dither {
        let mut dither = Dither::of_length(length, length * length, lanes);
        let twice = Complex64::new(2.0 * (length / LAST) as f64, 0.0);
        let half = dither.write_rows(twice, |frequency| frequency)[length / 2];
        // The imaginary part of the first frequency is the one in the middle.
        dither.of_rows[1][0] = (twice * half).re as f32;
        dither.write_along(Complex64::new(2.0, 0.0), lanes);
        dither
    }

    /// Writes the spectrum of the rows, times a factor, by the frequency at each place; returns it without that.
    fn write_rows(&mut self, factor: Complex64, frequency: impl Fn(usize) -> usize) -> Vec<Complex64> {
        let line = spectrum(self.rows.iter().map(|&value| f64::from(value)));
        for place in 0..line.len() {
            write(&mut self.of_rows, place, line[frequency(place)] * factor);
        }
        line
    }

    /// Writes what the rows of frequency 0 get, as noise in every sample would leave it there, and its spectrum.
    fn write_along(&mut self, factor: Complex64, lanes: usize) {
        let length = self.rows.len();
        let (mut noise, factor) = (numbers(!length as u64), factor * length as f64);
        let values: Vec<f64> = (0..length).map(|_| noise().into()).collect();
        for (place, &value) in values.iter().enumerate() {
            write(&mut self.along, place * lanes, value * factor);
        }
        let line = spectrum(values.into_iter());
        for place in 0..length {
            // The last stage backwards.
            let terms = (0..LAST).map(|q| {
                let angle = std::f64::consts::TAU * (place % LAST * q) as f64 / LAST as f64;
                line[stages::frequency(length, place / LAST * LAST + q)] * Complex64::from_polar(1.0, angle)
            });
            write(&mut self.of_along, place * lanes, terms.sum::<Complex64>() * factor / LAST as f64);
        }
    }

    /// The noise of tiles whose first samples lie at each of `begins`.
    #[inline(always)]
    pub(crate) fn of<S: Simd, const N: usize>(&self, s: S, from: &[f32], pitch: usize, begins: &[usize]) -> Scaled<'_> {
        let mut largest = s.splat(0.0);
        for begin in begins {
            for y in 0..N {
                for x in (0..N).step_by(S::LANES) {
                    largest = s.larger_magnitude(s.load_at(from, begin + y * pitch + x), largest);
                }
            }
        }
        self.scaled(f32::from_bits(s.largest(largest)) * self.share)
    }

    /// The noise at a scale.
    pub(crate) fn scaled(&self, by: f32) -> Scaled<'_> {
        Scaled { of: self, by }
    }

    /// The noise of a strip of columns that are transformed by themselves, each at a scale of its own.
    #[inline(always)]
    pub(crate) fn strip<S: Simd, const N: usize>(
        &self,
        s: S,
        from: &[f32],
        pitch: usize,
        begins: [usize; 2],
    ) -> Strip<'_, S> {
        let mut largest = s.splat(0.0);
        for begin in begins {
            for y in 0..N {
                largest = s.larger_magnitude(s.load_at(from, begin + y * pitch), largest);
            }
        }
        let sides = s.mul(s.splat(self.share), s.load_at(&self.sides, 0));
        Strip { of: self, by: [s.mul(largest, sides); 2] }
    }
}

impl<'a> Scaled<'a> {
    /// What the noise is multiplied by.
    pub(crate) fn scale(&self) -> f32 {
        self.by
    }

    /// So many times as strong.
    pub(crate) fn times(self, factor: f32) -> Scaled<'a> {
        Scaled { by: self.by * factor, ..self }
    }

    /// The noise of two strips of columns, which begin at these columns of a tile.
    #[inline(always)]
    pub(crate) fn strip<S: Simd>(&self, s: S, columns: [usize; 2]) -> Strip<'a, S> {
        let by = |column: usize| s.mul(s.splat(self.by), s.load_at(&self.of.sides, column % LAST));
        Strip { of: self.of, by: [by(columns[0]), by(columns[1])] }
    }

    /// The spectrum of the rows' noise in a group of frequencies along height, for each of eight columns.
    #[inline(always)]
    pub(crate) fn of_rows<S: Simd>(&self, s: S, group: usize) -> [Complex<S>; LAST] {
        let [re, im] = &self.of.of_rows;
        let (re, im) = (s.load(&S::rows(re)[group]), s.load(&S::rows(im)[group]));
        let mut sides = [Complex::zero(s); LAST];
        for (to, side) in sides.iter_mut().zip(SIDES) {
            let by = s.splat(self.by * side);
            *to = Complex { re: s.mul(by, re), im: s.mul(by, im) };
        }
        sides
    }

    /// Adds noise to a group of rows before it is transformed.
    #[inline(always)]
    pub(crate) fn add_along<S: Simd>(&self, s: S, group: usize, re: &mut [S::Row], im: &mut [S::Row]) {
        if group == 0 {
            let [noise_re, noise_im] = &self.of.along;
            add(s, re, self.by, S::rows(noise_re));
            add(s, im, self.by, S::rows(noise_im));
        }
    }

    /// Takes that away from a group of rows before the last stage of its transform.
    #[inline(always)]
    pub(crate) fn take_along<S: Simd>(&self, s: S, group: usize, re: &mut [S::Row], im: &mut [S::Row]) {
        if group == 0 {
            let [noise_re, noise_im] = &self.of.of_along;
            add(s, re, -self.by, S::rows(noise_re));
            add(s, im, -self.by, S::rows(noise_im));
        }
    }

    /// Takes away all that is left of the noise in a group of rows of a tile, before the last stage of its transform.
    #[inline(always)]
    pub(crate) fn take<S: Simd>(&self, s: S, group: usize, re: &mut [S::Row], im: &mut [S::Row]) {
        self.take_along(s, group, re, im);
        // The first vectors are sums of every eighth column.
        for (noise, (re, im)) in self.of_rows(s, group).into_iter().zip(re.iter_mut().zip(im)) {
            s.store(re, s.sub(s.load(re), noise.re));
            s.store(im, s.sub(s.load(im), noise.im));
        }
    }
}

/// Adds so many times some vectors to others.
#[inline(always)]
fn add<S: Simd>(s: S, to: &mut [S::Row], times: f32, values: &[S::Row]) {
    let times = s.splat(times);
    to.iter_mut().zip(values).for_each(|(to, value)| s.store(to, s.mul_add(times, s.load(value), s.load(to))));
}

/// The noise of two strips of columns.
#[derive(Clone, Copy)]
pub(crate) struct Strip<'a, S: Simd> {
    of: &'a Dither,
    /// What numbers of rows are multiplied by in each.
    by: [S::Single; 2],
}

impl<S: Simd> Strip<'_, S> {
    /// Samples of both in a row, with theirs.
    #[inline(always)]
    pub(crate) fn add(&self, s: S, y: usize, x: Complex<S>) -> Complex<S> {
        let noise = s.splat(self.of.rows[y]);
        Complex { re: s.mul_add(self.by[0], noise, x.re), im: s.mul_add(self.by[1], noise, x.im) }
    }

    /// Takes the noise away from the spectra of these columns, of which a vector lies at `place`.
    #[inline(always)]
    pub(crate) fn take(&self, s: S, place: usize, x: Complex<S>) -> Complex<S> {
        let [re, im] = &self.of.of_rows;
        let (re, im) = (s.splat(re[place]), s.splat(im[place]));
        Complex { re: s.sub_mul(self.by[0], re, x.re), im: s.sub_mul(self.by[1], im, x.im) }
    }
}
