//! Noise that samples get before they are transformed and that is taken from their spectrum, so that no error of the
//! transform follows their texture: its numbers, how strong it is, and the spectrum of a line of it.

use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

/// Numbers in -1..1.
pub fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// A number of magnitude 0.5 to 1: none is near 0, where there would be next to no noise in a whole line.
pub fn number(noise: &mut impl FnMut() -> f32) -> f32 {
    let number = noise();
    number / 2.0 + 0.5f32.copysign(number)
}

/// What each of so many numbers of noise is at most, over what it is in proportion to, such as the largest sample: all
/// of them have at most a sixteenth of the energy of that.
pub fn share(samples: usize) -> f64 {
    0.25 / (samples as f64).sqrt()
}

/// A line of numbers that has as much at `k` as at `length - k`, so that its spectrum is real.
pub fn mirrored(length: usize, mut number: impl FnMut() -> f32) -> Vec<f32> {
    let mut line = vec![0.0; length];
    for k in 0..=length / 2 {
        line[k] = number();
        line[(length - k) % length] = line[k];
    }
    line
}

/// The spectrum of a [`mirrored`] line.
pub fn real_spectrum(line: &[f32]) -> Vec<f64> {
    spectrum(line.iter().map(|&value| f64::from(value))).into_iter().map(|frequency| frequency.re).collect()
}

/// The spectrum of a line of values.
pub fn spectrum(values: impl Iterator<Item = f64>) -> Vec<Complex64> {
    let mut line: Vec<Complex64> = values.map(|value| Complex64::new(value, 0.0)).collect();
    FftPlanner::new().plan_fft_forward(line.len()).process(&mut line);
    line
}
