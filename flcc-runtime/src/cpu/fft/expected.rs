//! For tests: what transforms of tiles are to give.

use rustfft::num_complex::Complex;

use crate::cpu::fft::library::TileTransform;
use crate::cpu::testing::norm;
use crate::run::geometry::Pitch;

/// Correlation of a whole tile in f64, by transforms of another make: valid where the template lies within it.
pub fn correlated(input: &[f32], pitch: &Pitch, template: &[f64], [_, rows, columns]: [usize; 3]) -> Vec<f64> {
    let shape = [pitch.planes, pitch.rows, pitch.row];
    let transform = TileTransform::<f64>::new(shape);
    let mut real: Vec<f64> = input.iter().map(|&value| f64::from(value)).collect();
    let mut padded = vec![0.0; real.len()];
    for (row, values) in template.chunks(columns).enumerate() {
        let at = row / rows * pitch.plane + row % rows * pitch.row;
        padded[at..at + columns].copy_from_slice(values);
    }
    let mut scratch = vec![Complex::default(); transform.scratch_len()];
    let [mut spectrum, mut other] = [(), ()].map(|()| vec![Complex::default(); transform.spectrum_len()]);
    let kept = [shape[0], shape[1]];
    transform.forward(&mut padded, kept, &mut other, &mut scratch);
    transform.correlate(&mut real, kept, &other, kept, &mut spectrum, &mut scratch);
    let samples = (shape[0] * shape[1] * shape[2]) as f64;
    real.iter().map(|value| value / samples).collect()
}

/// What [`correlated`] errs by: it comes from transforms of all of the tile, so it is no exact zero where a pair is.
pub fn of_expected(input: &[f32], template: &[f64]) -> f64 {
    1e-15 * input.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() * norm(template)
}
