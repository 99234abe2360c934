//! Sums by a kernel that transforms tiles, parts of volumes, or stretches of signals, from the image to the result or
//! of gathered samples.

use std::marker::PhantomData;
use std::sync::Arc;

use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Argument, Function, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::line::Line;
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps, Unbound};
use crate::cuda::tile::Shape;
use crate::cuda::transform::{Spectra, Transform};
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

/// A template's spectra, channel by channel, among those of all templates that were bound together.
struct Spectrum<T> {
    transform: T,
    template: [usize; 3],
    function: Function,
    spectra: Arc<Buffer>,
    /// Bytes of the templates before it.
    before: usize,
    /// Of the first of several what serves all.
    several: Option<Several>,
}

/// What one launch for several templates takes besides their spectra.
struct Several {
    /// The kernel with shared memory for several templates a block, where a device has it.
    sharing: Option<Function>,
    factors: Buffer,
    count: usize,
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
        let one = Unbound { channels: channels.to_vec(), straight: None };
        self.bind_all(desk, &[one])?.pop().ok_or_else(|| Fault::new("transform", "no template"))
    }

    fn bind_all(&self, desk: &Desk<'_>, all: &[Unbound]) -> Result<Vec<Box<dyn Taps>>, Fault> {
        let (transform, template) = (T::of(self.0), desk.template);
        let (_, function) = desk.kernel()?;
        let channels = || all.iter().flat_map(|of| &of.channels);
        let spectra: Vec<_> = channels().flat_map(|values| transform.spectrum(template, values)).collect();
        let spectra = Arc::new(Buffer::of(desk.stream, &spectra)?);
        let factors: Option<Vec<f64>> = all.iter().map(|of| of.straight).collect();
        let together = |factors: &Vec<f64>| (2..=MOST_BLOCKS).contains(&factors.len()) && transform.serves_several();
        let mut several = match factors.filter(together) {
            None => None,
            Some(factors) => {
                let shared = transform.shared_by_several(most_shared(desk.gpu.device.capability));
                let sharing = (shared > 0).then(|| function.clone().with_shared(shared)).transpose()?;
                Some(Several { sharing, factors: Buffer::of(desk.stream, &factors)?, count: factors.len() })
            }
        };
        let bytes = transform.spectrum_bytes() * desk.channels;
        let one = |number: usize| -> Box<dyn Taps> {
            let (function, spectra) = (function.clone(), Arc::clone(&spectra));
            Box::new(Spectrum {
                transform,
                template,
                function,
                spectra,
                before: number * bytes,
                several: several.take(),
            })
        };
        Ok((0..all.len()).map(one).collect())
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
        at.gathered(0, |job| self.straight(at.stream, job))
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        let spectrum = self.spectra.address(stream).skip(self.before);
        self.transform.launch(stream, &self.function, self.template, job, spectrum)
    }

    fn straight_all(&self, stream: &Stream, job: &Job<'_>, apart: usize) -> Option<Result<(), Fault>> {
        let Several { sharing, factors, count } = self.several.as_ref()?;
        let spectra = Spectra {
            all: Argument::Room(self.spectra.address(stream), count * self.transform.spectrum_bytes()),
            factors: Argument::Room(factors.address(stream), count * size_of::<f64>()),
            count: *count,
            apart,
        };
        Some(self.transform.launch_all(stream, (&self.function, sharing.as_ref()), self.template, job, &spectra))
    }
}
