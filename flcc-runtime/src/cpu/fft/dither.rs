//! Noise that is added to the samples of a line and taken from its spectrum, so that no error follows the samples.
//!
//! A transform adds samples that lie far apart. Where these have few levels, their sums have few, each of them is
//! rounded one way, and the errors follow the samples: under a template of the same texture they add up, to more than
//! all noise of rounding (a picture of even squares, one of them of two levels, half a tile beside the others). With
//! noise in the samples there are more sums. The real and the imaginary part of a line each get at most a sixteenth of
//! the energy that both have, which is many units in the last place of a sum of few samples. Nothing of it is left in
//! the result, for its spectrum is known. Every sample has it, since faint ones have to have it too: a strong one, with
//! noise or without, is a whole number of units in the last place of their sum, so it has no say in how that is
//! rounded.
//!
//! Every line has noise of its own, in proportion to what it has of samples, and loses it before its spectrum is used:
//! first columns, then the rows of what these have become. What a texture of equal rows or of stripes has is in few of
//! those rows, where it is much stronger than the samples were, and needs noise as strong.
//!
//! Source: Roberts, "Picture coding using pseudo-random noise", 1962, which takes the noise away that it added.

use crate::cpu::aligned::Aligned;
use crate::isa::simd::Simd;
use crate::problem::noise::{mirrored, number, numbers, real_spectrum, share};

/// The noise of lines of one length.
pub(crate) struct Dither {
    /// What a line gets, over the root of its sum of squares ([`mirrored`]).
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
    line: &'a [f32],
    spectrum: &'a [f32],
    /// What both are multiplied by in the real and in the imaginary parts.
    by: [S::Single; 2],
}

impl Dither {
    /// That of transforms of `length` samples, which leave frequency `frequency(place)` at a place.
    pub(crate) fn new(length: usize, frequency: impl Fn(usize) -> usize) -> Dither {
        let (mut noise, share) = (numbers(length as u64), share(length));
        let line: Vec<f32> = mirrored(length, || (f64::from(number(&mut noise)) * share) as f32);
        let frequencies = real_spectrum(&line);
        let spectrum = (0..length).map(|place| frequencies[frequency(place)] as f32).collect();
        let factors = [0; 2].map(|_| {
            let mut factors = Aligned::new(0.0, 2 * length);
            factors.iter_mut().for_each(|factor| *factor = number(&mut noise));
            factors
        });
        Dither { line, spectrum, factors }
    }

    /// The noise of lines from number `first` of plane number `plane` on, of which these are the sums of squares. A
    /// line of zeros has none.
    #[inline(always)]
    pub(crate) fn of<S: Simd, const N: usize>(
        &self,
        s: S,
        squares: S::Single,
        first: usize,
        plane: usize,
    ) -> Noise<'_, S> {
        let root = s.root(squares);
        let at = first + plane % N;
        let [re, im] = &self.factors;
        // No closures: they would not be compiled for the instruction set.
        Noise {
            line: &self.line[..N],
            spectrum: &self.spectrum[..N],
            by: [s.mul(root, s.load_at(re, at)), s.mul(root, s.load_at(im, at))],
        }
    }
}

impl<S: Simd> Noise<'_, S> {
    /// Samples at `k` of the lines, real and imaginary parts, with theirs.
    #[inline(always)]
    pub(crate) fn add(&self, s: S, k: usize, [re, im]: [S::Single; 2]) -> [S::Single; 2] {
        let noise = s.splat(self.line[k]);
        [s.mul_add(self.by[0], noise, re), s.mul_add(self.by[1], noise, im)]
    }

    /// What the transform left at `place`, without the noise.
    #[inline(always)]
    pub(crate) fn take(&self, s: S, place: usize, [re, im]: [S::Single; 2]) -> [S::Single; 2] {
        let noise = s.splat(self.spectrum[place]);
        [s.sub_mul(self.by[0], noise, re), s.sub_mul(self.by[1], noise, im)]
    }
}

#[cfg(test)]
mod tests {
    use rustfft::num_complex::Complex64;

    use super::*;
    use crate::cpu::testing::sets;
    use crate::isa::Vectors;
    use crate::isa::simd::Job;

    #[test]
    fn noise_has_the_spectrum_that_is_taken_away() {
        for length in [64, 256, 1024] {
            let frequency = |place| (place + length / 2) % length;
            let Dither { line, spectrum, .. } = Dither::new(length, frequency);
            for (place, &got) in spectrum.iter().enumerate() {
                let turn = std::f64::consts::TAU * frequency(place) as f64 / length as f64;
                let exact: Complex64 =
                    (0..).zip(&line).map(|(k, &value)| Complex64::cis(-turn * f64::from(k)) * f64::from(value)).sum();
                assert!((exact - f64::from(got)).norm() < 1e-7, "{length}, {place}: {got} for {exact}");
            }
        }
    }

    /// What a vector of lines gets, all of whose sums of squares are one number.
    struct Added<'a> {
        of: &'a Dither,
        squares: f32,
        first: usize,
        plane: usize,
    }

    impl Job for Added<'_> {
        type Output = Vec<[Vec<f32>; 2]>;

        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Self::Output {
            let noise = self.of.of::<S, 64>(s, s.splat(self.squares), self.first, self.plane);
            let of_sample = |k| {
                noise.add(s, k, [s.splat(0.0); 2]).map(|part| {
                    let mut values = vec![0.0; S::LANES];
                    s.store_at(&mut values, 0, part);
                    values
                })
            };
            (0..64).map(of_sample).collect()
        }
    }

    #[test]
    fn lines_get_faint_noise_of_their_own_and_zeros_none() {
        for isas in sets() {
            let (dither, vectors) = (Dither::new(64, |place| place), Vectors::new(&isas).unwrap());
            let lanes = vectors.lanes();
            let added = |squares, first, plane| vectors.run(Added { of: &dither, squares, first, plane });
            let zeros = added(0.0, 0, 0);
            assert!(zeros.iter().flatten().flatten().all(|&value| value == 0.0), "{isas}");
            for squares in [f32::MIN_POSITIVE, 1.0, 3e37] {
                // The last lines of a plane whose number is beyond their own.
                let noise = added(squares, 64 - lanes, 64 + 63);
                for (part, lane) in [0, 1].into_iter().flat_map(|part| (0..lanes).map(move |lane| (part, lane))) {
                    let of_line = noise.iter().map(|parts| f64::from(parts[part][lane]).powi(2)).sum::<f64>();
                    let share = of_line / f64::from(squares);
                    assert!(share > 1.0 / 16.0 / 16.0 && share < 1.0 / 16.0, "{isas}, {squares}: {share}");
                }
            }
            assert_ne!(added(1.0, 0, 0), added(1.0, 0, 1), "{isas}: equal planes");
            let [re, im] = &added(1.0, 0, 0)[5];
            assert!(re != im && re[0] != re[1], "{isas}: equal lines");
        }
    }
}
