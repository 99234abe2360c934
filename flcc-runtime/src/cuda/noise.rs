//! Noise in the samples of a transform on a device (`problem/noise.rs`): each of them gets the product of a number of
//! its plane, of its row and of its column, times the largest, so that the noise's spectrum is a product as well.

use rustfft::num_complex::Complex64;

use crate::problem::noise::{number, numbers, share, spectrum};

/// The numbers of planes, rows and columns.
pub(crate) struct Lines([Vec<f32>; 3]);

impl Lines {
    /// For transforms of such a shape. An axis of one sample has the number 1.
    pub fn new(shape: [usize; 3]) -> Lines {
        let samples = shape.iter().product::<usize>();
        let mut noise = numbers(samples as u64);
        let mut lines = shape
            .map(|length| (0..length).map(|_| if length > 1 { number(&mut noise) } else { 1.0 }).collect::<Vec<_>>());
        lines[1].iter_mut().for_each(|number| *number = (f64::from(*number) * share(samples)) as f32);
        Lines(lines)
    }

    /// Numbers of an axis.
    pub fn of(&self, axis: usize) -> &[f32] {
        &self.0[axis]
    }

    /// Their spectrum.
    pub fn spectrum(&self, axis: usize) -> Vec<Complex64> {
        spectrum(self.of(axis).iter().map(|&number| f64::from(number)))
    }

    /// Bytes of [`Lines::table`].
    pub fn table_bytes([depth, height, width]: [usize; 3]) -> usize {
        ((depth + height + width / 2 + 1) * 2 + depth + height + width) * size_of::<f32>()
    }

    /// The three spectra, of which the last is half a one, and after them the numbers.
    pub fn table(&self) -> Vec<f32> {
        let spectra = [0, 1, 2].into_iter().flat_map(|axis| {
            let line = self.spectrum(axis);
            let count = if axis == 2 { line.len() / 2 + 1 } else { line.len() };
            line.into_iter().take(count).flat_map(|value| [value.re as f32, value.im as f32])
        });
        spectra.chain(self.0.iter().flatten().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_faint_and_its_spectrum_is_the_product() {
        for shape in [[1, 1, 40], [1, 6, 8], [4, 3, 5]] {
            let (lines, samples) = (Lines::new(shape), shape.iter().product::<usize>());
            let noise =
                |at: [usize; 3]| [0, 1, 2].map(|axis| f64::from(lines.of(axis)[at[axis]])).iter().product::<f64>();
            let places = |shape: [usize; 3]| {
                (0..shape.iter().product())
                    .map(move |k| [k / shape[2] / shape[1], k / shape[2] % shape[1], k % shape[2]])
            };
            let energy: f64 = places(shape).map(|at| noise(at) * noise(at)).sum();
            assert!(energy > 1.0 / 16.0 / 64.0 && energy < 1.0 / 16.0, "{shape:?}: {energy}");
            let table = lines.table();
            assert_eq!(size_of_val(&table[..]), Lines::table_bytes(shape));
            let half = [shape[0], shape[1], shape[2] / 2 + 1];
            let number = |at: usize| Complex64::new(table[2 * at].into(), table[2 * at + 1].into());
            for frequency in places(half) {
                let turns = |at: [usize; 3]| -> f64 {
                    [0, 1, 2].map(|axis| (at[axis] * frequency[axis]) as f64 / shape[axis] as f64).iter().sum()
                };
                let exact: Complex64 =
                    places(shape).map(|at| noise(at) * Complex64::cis(-std::f64::consts::TAU * turns(at))).sum();
                let [z, y, x] = frequency;
                let got = number(z) * number(half[0] + y) * number(half[0] + half[1] + x);
                assert!((got - exact).norm() < 1e-6 / (samples as f64).sqrt(), "{shape:?} {frequency:?}");
            }
            let begin = 2 * half.iter().sum::<usize>();
            assert_eq!(table[begin..], [0, 1, 2].map(|axis| lines.of(axis)).concat());
        }
    }
}
