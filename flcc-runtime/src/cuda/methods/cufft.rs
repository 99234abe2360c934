//! The cross term of gathered samples by cuFFT's transforms, and under a mask the window sums too.

use std::any::Any;

use flcc_generated::Entry;

use crate::cuda::driver::buffer::{Buffer, bytes_of_mut};
use crate::cuda::driver::launch::Stream;
use crate::cuda::driver::transforms::{self, Transforms};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::Part;
use crate::cuda::method::{Around, Desk, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::{Makes, Own, Room, Sides};
use crate::cuda::types::Cross;
use crate::problem::error_model::{self, Figures, Library};

/// The method, by its transforms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cufft {
    /// Their shape.
    pub shape: [usize; 3],
    /// They are in double precision.
    pub double: bool,
    /// Templates are under a mask.
    pub masked: bool,
    /// Window sums under it are needed.
    pub sums: bool,
}

/// A template's spectra, channel by channel.
struct Spectrum {
    method: Cufft,
    spectrum: Buffer,
    /// Their largest magnitude, or no less than it.
    wave: f64,
}

impl Cufft {
    /// The type of its cross term.
    fn cross(&self) -> Cross {
        if self.double { Cross::F64 } else { Cross::F32 }
    }

    /// The spectrum of values laid at the origin and turned, so that a product with it correlates: computed in f64, and
    /// rounded once where transforms are in f32. Equal values that were rounded before or on the way would be wrong
    /// alike, which equal samples add up. With it comes what a wave of amplitude 1 comes to at most.
    fn spectrum(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<(Buffer, f64), Fault> {
        let [depth, height, width] = self.shape;
        let [kd, kh, kw] = desk.template;
        let stream = desk.stream;
        let len = depth * height * width;
        let mut padded = vec![0.0f64; len * channels.len()];
        for (channel, values) in channels.iter().enumerate() {
            for (k, &value) in values.iter().enumerate() {
                let [z, y, x] = [k / (kh * kw), k / kw % kh, k % kw];
                assert!(z < kd);
                let at = [(depth - z) % depth, (height - y) % height, (width - x) % width];
                padded[channel * len + (at[0] * height + at[1]) * width + at[2]] = value / len as f64;
            }
        }
        let transforms = Transforms::new(stream, self.shape, channels.len(), true)?;
        let samples = Buffer::of(stream, &padded)?;
        let mut values = vec![0.0f64; transforms::spectrum(self.shape) * channels.len() * 2];
        let spectrum = Buffer::new(stream, size_of_val(&values[..]))?;
        transforms.there(samples.address(stream), spectrum.address(stream))?;
        stream.wait()?;
        if self.double {
            // Nowhere is a spectrum larger than the sum of all magnitudes, which in f64 puts hardly a panel in doubt.
            return Ok((spectrum, channels.iter().flatten().map(|value| value.abs()).sum()));
        }
        spectrum.download(stream, 0, bytes_of_mut(&mut values))?;
        stream.wait()?;
        let largest = |spectrum: &[f64]| {
            let squares = spectrum.chunks_exact(2).map(|part| part[0] * part[0] + part[1] * part[1]);
            squares.fold(0.0, f64::max).sqrt() * len as f64
        };
        let wave = values.chunks(2 * transforms::spectrum(self.shape)).map(largest).sum();
        let rounded: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Ok((Buffer::of(stream, &rounded)?, wave))
    }
}

/// The transforms of a slot.
fn opened<'a>(at: &Run<'a>) -> Result<&'a Transforms, Fault> {
    at.open.downcast_ref().ok_or_else(|| Fault::new("transform", "a slot that was opened for another method"))
}

impl Method for Cufft {
    fn entry(&self) -> Option<&'static Entry> {
        None
    }

    fn makes(&self) -> Makes {
        if self.sums { Makes::CrossAndSums } else { Makes::Cross }
    }

    fn source(&self, _template: [usize; 3], _around: &Around<'_>) -> Option<Source> {
        None
    }

    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        let len = self.shape.iter().product::<usize>() as f64;
        Rounding {
            cross: error_model::Rounding::Fourier { len, by: Library::CUFFT },
            subnormal: false,
            by_tile: true,
            running: None,
        }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (spectrum, wave) = self.spectrum(desk, channels)?;
        Ok(Box::new(Spectrum { method: *self, spectrum, wave }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        transforms::spectrum(self.shape) * 2 * self.cross().size()
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Fourier]
    }

    /// Transforms write their results over the whole tile; sums that come by transform lie as they do.
    fn sides(&self, outputs: [usize; 3], _template: [usize; 3]) -> Sides {
        let sums = if self.masked { self.shape } else { Sides::dense(outputs) };
        Sides { samples: self.shape, cross: self.shape, sums }
    }

    fn own(&self) -> Own {
        Own {
            squares: if self.sums { self.shape.iter().product::<usize>() * size_of::<f64>() } else { 0 },
            spectrum: transforms::spectrum(self.shape) * 2 * self.cross().size(),
            work: transforms::work_bytes(self.shape, 1, self.double),
        }
    }

    fn open(&self, stream: &Stream, lanes: usize) -> Result<Box<dyn Any + Send>, Fault> {
        Ok(Box::new(Transforms::new(stream, self.shape, lanes, self.double)?))
    }

    fn mask(&self, desk: &Desk<'_>, weights: &[f64]) -> Result<Option<Buffer>, Fault> {
        if !self.sums {
            return Ok(None);
        }
        let (spectrum, _) = self.spectrum(desk, &vec![weights.to_vec(); desk.channels])?;
        Ok(Some(spectrum))
    }

    fn load(&self, at: &Run<'_>) -> Result<(), Fault> {
        let (transforms, places) = (opened(at)?, &at.batch.places);
        let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
        let Some(mask) = at.mask else { return transforms.there(places[Room::Samples], spectra) };
        at.steps.square(at.stream, at.batch)?;
        for (from, to) in [(Room::Squares, Room::Square), (Room::Samples, Room::Sum)] {
            transforms.there(places[from], spectra)?;
            let count = transforms::spectrum(self.shape);
            at.steps.multiply(at.stream, at.batch, count, spectra, mask, product)?;
            transforms.back(product, places[to])?;
        }
        Ok(())
    }
}

impl Taps for Spectrum {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        let places = &at.batch.places;
        let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
        let (count, template) = (transforms::spectrum(self.method.shape), self.spectrum.address(at.stream));
        at.steps.multiply(at.stream, at.batch, count, spectra, template, product)?;
        opened(at)?.back(product, places[Room::Cross])
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
