//! Noise that is added to the samples of a line and taken from its spectrum, so that no error follows the samples.
//!
//! A transform adds samples that lie far apart. Where these have few levels, their sums have few, each of them is
//! rounded one way, and the errors follow the samples: under a template of the same texture they add up, to more than
//! all noise of rounding (a picture of even squares, one of them of two levels, half a tile beside the others). With
//! noise in the samples there are more sums. All of it has at most a sixteenth of the energy of the line's largest
//! sample, and yet many units in the last place of a sum of few samples. Nothing of it is left in the result, for its
//! spectrum is known. Every sample has it, since faint ones have to have it too: a strong one, with noise or without,
//! is a whole number of units in the last place of their sum, so it has no say in how that is rounded.
//!
//! Every line has noise of its own, in proportion to what it has of samples, and loses it before its spectrum is used:
//! first columns, then the rows of what these have become. What a texture of equal rows or of stripes has is in few of
//! those rows, where it is much stronger than the samples were, and needs noise as strong.
//!
//! Source: Roberts, "Picture coding using pseudo-random noise", 1962, which takes the noise away that it added.

use crate::cpu::aligned::Aligned;
use crate::isa::simd::Simd;
use crate::problem::noise::{number, numbers, share, spectrum};

/// The noise of lines of one length.
pub(crate) struct Dither {
    /// What a line gets, over its largest sample: as much at `k` as at `length - k`, so that the spectrum is real.
    line: Vec<f32>,
    /// The spectrum, in the order that a transform leaves.
    spectrum: Vec<f32>,
    /// What that is multiplied by in each line, whose magnitude is 0.5 to 1, so that equal lines have unequal noise:
    /// real parts, and as many imaginary ones.
    factors: [Aligned<f32>; 2],
}

/// The noise of a vector of lines.
#[derive(Clone, Copy)]
pub(crate) struct Noise<'a, S: Simd> {
    of: &'a Dither,
    /// What the line and its spectrum are multiplied by in the real and in the imaginary parts.
    by: [S::Single; 2],
}

impl Dither {
    /// That of transforms of `length` samples, which leave frequency `frequency(place)` at a place.
    pub(crate) fn new(length: usize, frequency: impl Fn(usize) -> usize) -> Dither {
        let (mut noise, share) = (numbers(length as u64), share(length));
        let mut line = vec![0.0; length];
        for k in 0..=length / 2 {
            line[k] = (f64::from(number(&mut noise)) * share) as f32;
            line[(length - k) % length] = line[k];
        }
        let frequencies = spectrum(line.iter().map(|&value| f64::from(value)));
        let spectrum = (0..length).map(|place| frequencies[frequency(place)].re as f32).collect();
        let factors = [0; 2].map(|_| {
            let mut factors = Aligned::new(0.0, 2 * length);
            factors.iter_mut().for_each(|factor| *factor = number(&mut noise));
            factors
        });
        Dither { line, spectrum, factors }
    }

    /// The noise of lines from `first` on, of such sums of squares, in a plane of so many.
    #[inline(always)]
    pub(crate) fn of<S: Simd>(&self, s: S, squares: S::Single, first: usize, plane: usize) -> Noise<'_, S> {
        // The root; that of 0 is 0, so where there is nothing nothing is added.
        let root = s.mul(squares, s.reciprocal_root(s.add(squares, s.splat(f32::MIN_POSITIVE))));
        let at = first + plane % self.line.len();
        let [re, im] = &self.factors;
        Noise { of: self, by: [re, im].map(|factors| s.mul(root, s.load_at(factors, at))) }
    }
}

impl<S: Simd> Noise<'_, S> {
    /// Samples at `k` of the lines, real and imaginary parts, with theirs.
    #[inline(always)]
    pub(crate) fn add(&self, s: S, k: usize, [re, im]: [S::Single; 2]) -> [S::Single; 2] {
        let noise = s.splat(self.of.line[k]);
        [s.mul_add(self.by[0], noise, re), s.mul_add(self.by[1], noise, im)]
    }

    /// What the transform left at `place`, without the noise.
    #[inline(always)]
    pub(crate) fn take(&self, s: S, place: usize, [re, im]: [S::Single; 2]) -> [S::Single; 2] {
        let noise = s.splat(self.of.spectrum[place]);
        [s.sub_mul(self.by[0], noise, re), s.sub_mul(self.by[1], noise, im)]
    }
}

/// The sum of squares in each lane of some vectors.
#[inline(always)]
pub(crate) fn squares<S: Simd>(s: S, re: &[S::Row], im: &[S::Row]) -> S::Single {
    let mut squares = [s.splat(0.0); 4];
    for (re, im) in re.chunks_exact(2).zip(im.chunks_exact(2)) {
        for (at, row) in [&re[0], &im[0], &re[1], &im[1]].into_iter().enumerate() {
            let value = s.load(row);
            squares[at] = s.mul_add(value, value, squares[at]);
        }
    }
    s.add(s.add(squares[0], squares[1]), s.add(squares[2], squares[3]))
}

#[cfg(test)]
mod tests {
    use rustfft::num_complex::Complex64;

    use super::*;

    #[test]
    fn noise_is_faint_and_has_the_spectrum_that_is_taken_away() {
        for length in [64, 256, 1024] {
            let frequency = |place| (place + length / 2) % length;
            let Dither { line, spectrum, factors } = Dither::new(length, frequency);
            let energy: f64 = line.iter().map(|&value| f64::from(value).powi(2)).sum();
            assert!(energy > 1.0 / 64.0 && energy < 1.0 / 16.0, "{length}: {energy}");
            assert!(
                factors.iter().flat_map(|factors| factors.iter()).all(|factor| (0.5..=1.0).contains(&factor.abs()))
            );
            for (place, &got) in spectrum.iter().enumerate() {
                let turn = std::f64::consts::TAU * frequency(place) as f64 / length as f64;
                let exact: Complex64 =
                    (0..).zip(&line).map(|(k, &value)| Complex64::cis(-turn * f64::from(k)) * f64::from(value)).sum();
                assert!((exact - f64::from(got)).norm() < 1e-7, "{length}, {place}: {got} for {exact}");
            }
        }
    }
}
