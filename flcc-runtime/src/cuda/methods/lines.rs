//! Sums of signals by a kernel that transforms stretches, from the signal to the result or of gathered samples.

use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Function, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::line::Line;
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::Makes;
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines(pub &'static Entry);

/// A template's spectrum.
struct Spectrum {
    line: Line,
    taps: usize,
    function: Function,
    spectrum: Buffer,
}

impl Method for Lines {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn makes(&self) -> Makes {
        Makes::Cross
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        Some(Source { text: self.0.source(), options: own_options(around.options) })
    }

    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        Rounding { cross: Line::of(self.0).rounding(), subnormal: true, by_tile: false, running: None }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let line = Line::of(self.0);
        let spectra: Vec<_> = channels.iter().flat_map(|values| line.spectrum(values)).collect();
        let (_, function) = desk.kernel()?;
        let spectrum = Buffer::of(desk.stream, &spectra)?;
        Ok(Box::new(Spectrum { line, taps: desk.template[2], function: function.clone(), spectrum }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        Line::of(self.0).spectrum_bytes()
    }

    fn covers(&self, [depth, height, _]: [usize; 3]) -> bool {
        depth == 1 && height == 1
    }
}

impl Taps for Spectrum {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        at.gathered(|job| self.straight(at.stream, job))
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        self.line.launch(stream, &self.function, self.taps, job, self.spectrum.address(stream))
    }
}
