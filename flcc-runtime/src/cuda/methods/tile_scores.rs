//! Scores from the image by a kernel that transforms tiles.

use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::Function;
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::method::{Around, Desk, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::Makes;
use crate::cuda::tile::Shape;
use crate::cuda::transform::Transform;
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileScores(pub &'static Entry);

/// A template's spectra, channel by channel.
struct Spectrum {
    shape: Shape,
    function: Function,
    spectrum: Buffer,
    wave: f64,
}

impl Method for TileScores {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn makes(&self) -> Makes {
        Makes::Scores
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        Some(Source { text: self.0.source(), options: own_options(around.options) })
    }

    fn rounding(&self, template: [usize; 3]) -> Rounding {
        let shape = Shape::of(self.0);
        // Its threads take the figures of their tiles.
        Rounding { cross: shape.rounding(), subnormal: true, by_tile: false, running: Some(shape.steps(template)) }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let shape = Shape::of(self.0);
        let spectra: Vec<_> =
            channels.iter().flat_map(|values| shape.spectrum_with_noise(desk.template, values)).collect();
        let (_, function) = desk.kernel()?;
        let (spectrum, wave) = (Buffer::of(desk.stream, &spectra)?, shape.wave(&spectra));
        Ok(Box::new(Spectrum { shape, function: function.clone(), spectrum, wave }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        Shape::of(self.0).bytes_with_noise()
    }
}

impl Taps for Spectrum {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        let Some(thresholds) = of.thresholds else {
            return Err(Fault::new(self.function.name(), "a template without thresholds"));
        };
        let of_template = (self.spectrum.address(at.stream), of.constants, thresholds);
        self.shape.score(at.stream, &self.function, at.batch, of_template, of.view)
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
