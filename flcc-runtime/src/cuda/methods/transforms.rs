//! Sums by a kernel that transforms tiles, parts of volumes, or stretches of signals, from the image to the result or
//! of gathered samples.

use std::marker::PhantomData;

use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Function, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::line::Line;
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::tile::Shape;
use crate::cuda::transform::Transform;
use crate::cuda::volume::Block;
use crate::problem::error_model::Figures;

/// The method of images, by its kernel.
pub(crate) type Tiles = Transforms<Shape>;

/// The method of volumes, by its kernel.
pub(crate) type Volumes = Transforms<Block>;

/// The method of signals, by its kernel.
pub(crate) type Lines = Transforms<Line>;

/// A method by a kernel of some kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transforms<T>(&'static Entry, PhantomData<T>);

impl<T: Transform> Transforms<T> {
    pub fn new(entry: &'static Entry) -> Transforms<T> {
        Transforms(entry, PhantomData)
    }
}

/// A template's spectra, channel by channel.
struct Spectrum<T> {
    transform: T,
    template: [usize; 3],
    function: Function,
    spectrum: Buffer,
}

impl<T: Transform> Method for Transforms<T> {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        Some(Source { text: self.0.source(), options: own_options(around.options) })
    }

    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        Rounding { cross: T::of(self.0).rounding(), subnormal: true, by_tile: false, running: None }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (transform, template) = (T::of(self.0), desk.template);
        let spectra: Vec<_> = channels.iter().flat_map(|values| transform.spectrum(template, values)).collect();
        let (_, function) = desk.kernel()?;
        let spectrum = Buffer::of(desk.stream, &spectra)?;
        Ok(Box::new(Spectrum { transform, template, function: function.clone(), spectrum }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        T::of(self.0).spectrum_bytes()
    }

    fn covers(&self, outputs: [usize; 3]) -> bool {
        T::covers(outputs)
    }
}

impl<T: Transform> Taps for Spectrum<T> {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        at.gathered(|job| self.straight(at.stream, job))
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        self.transform.launch(stream, &self.function, self.template, job, self.spectrum.address(stream))
    }
}
