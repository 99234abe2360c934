//! The Fourier method: overlap-save on tiles of a fast length, with real ("half") transforms.
//!
//! A tile of `F` samples gives `F - T + 1` outputs an axis: `x (*) t = IFFT(FFT(x) conj(FFT(t)))`, where the template
//! lies at the tile's origin, so the first outputs are free of wrap-around. The spectrum of a bound template is kept, that
//! of a tile serves every template. Error: absolute over the tile, see docs/numerics.md. Source: dissertation 2.1.2.

use realfft::num_complex::Complex;

use super::real::Real;
use super::transform::{TileTransform, multiply_conj};
use crate::pad::Pitch;

/// The transform of one tile shape.
pub struct Fourier<T: Real> {
    transform: TileTransform<T>,
    /// Shape of the transformed tile.
    shape: [usize; 3],
    /// Template samples an axis.
    template: [usize; 3],
}

/// Buffers of one worker.
pub struct FourierScratch<T: Real> {
    real: Vec<T>,
    spectra: Vec<Vec<Complex<T>>>,
    product: Vec<Complex<T>>,
    work: Vec<Complex<T>>,
}

impl<T: Real> Fourier<T> {
    /// An engine for tiles of `shape` samples.
    pub fn new(shape: [usize; 3], template: [usize; 3]) -> Fourier<T> {
        Fourier { transform: TileTransform::new(shape), shape, template }
    }

    /// Shape of the transformed tile.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Samples of the transformed tile.
    pub fn samples(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape of the buffers: input as gathered, output as the inverse transform leaves it.
    pub fn pitches(&self) -> (Pitch, Pitch) {
        let [depth, height, width] = self.shape;
        let pitch = Pitch { row: width, plane: width * height, rows: height, planes: depth };
        (pitch, pitch)
    }

    /// Buffers for `slots` spectra at a time.
    pub fn scratch(&self, slots: usize) -> FourierScratch<T> {
        let zero = Complex::new(T::of(0.0), T::of(0.0));
        FourierScratch {
            real: vec![T::of(0.0); self.samples()],
            spectra: vec![vec![zero; self.transform.spectrum_len()]; slots],
            product: vec![zero; self.transform.spectrum_len()],
            work: vec![zero; self.transform.scratch_len()],
        }
    }

    /// Bytes of that.
    pub fn scratch_bytes(&self, slots: usize) -> usize {
        self.samples() * size_of::<T>() + ((slots + 1) * self.transform.spectrum_len() + self.transform.scratch_len()) * 2 * size_of::<T>()
    }

    /// Bytes of one template's spectrum.
    pub fn spectrum_bytes(&self) -> usize {
        self.transform.spectrum_len() * 2 * size_of::<T>()
    }

    /// The spectrum of a template, divided by the transform's length.
    pub fn prepare(&self, template: &[T]) -> Vec<Complex<T>> {
        let mut scratch = self.scratch(1);
        let [kd, kh, kw] = self.template;
        let [_, height, width] = self.shape;
        for z in 0..kd {
            for y in 0..kh {
                let from = (z * kh + y) * kw;
                let to = (z * height + y) * width;
                scratch.real[to..to + kw].copy_from_slice(&template[from..from + kw]);
            }
        }
        let mut spectrum = scratch.spectra.remove(0);
        self.transform.forward(&mut scratch.real, [kd, kh], &mut spectrum, &mut scratch.work);
        let factor = T::of(1.0 / self.samples() as f64);
        for value in &mut spectrum {
            *value = Complex::new(value.re * factor, value.im * factor);
        }
        spectrum
    }

    /// Transforms a gathered tile, zeros where it has no samples, into a slot; `outputs` are those of the tile.
    pub fn load(&self, input: &[T], outputs: [usize; 3], slot: usize, scratch: &mut FourierScratch<T>) {
        scratch.real.copy_from_slice(&input[..self.samples()]);
        let used = [0, 1].map(|axis| outputs[axis] + self.template[axis] - 1);
        self.transform.forward(&mut scratch.real, used, &mut scratch.spectra[slot], &mut scratch.work);
    }

    /// The cross term of the tile in a slot with a prepared template, for its first `outputs`.
    pub fn run(&self, slot: usize, template: &[Complex<T>], scratch: &mut FourierScratch<T>, outputs: [usize; 3], out: &mut [T]) {
        multiply_conj(&scratch.spectra[slot], template, &mut scratch.product);
        self.transform.inverse(&mut scratch.product, &mut out[..self.samples()], [outputs[0], outputs[1]], &mut scratch.work);
    }
}
