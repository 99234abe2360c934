//! Scores of volumes by a kernel that transforms parts of them, and one that makes windows.

use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::Function;
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::method::{Around, Desk, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::{Makes, Own, Room};
use crate::cuda::transform::Transform;
use crate::cuda::volume::{self, Block};
use crate::cuda::windows::{self, LOW};
use crate::problem::error_model::Figures;

/// The method, by its source of two kernels, for tiles of at most so many outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeScores {
    /// The source.
    pub entry: &'static Entry,
    /// Transforms of the largest tile.
    pub transforms: usize,
}

/// A template's spectrum, of one channel.
struct Spectrum {
    block: Block,
    transforms: usize,
    cross: Function,
    windows: Function,
    spectrum: Buffer,
    wave: f64,
}

impl Method for VolumeScores {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.entry)
    }

    fn makes(&self) -> Makes {
        Makes::Scores
    }

    fn source(&self, template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let mut options = own_options(around.options);
        options.extend(windows::options(template));
        Some(Source { text: self.entry.source(), options })
    }

    fn rounding(&self, template: [usize; 3]) -> Rounding {
        let cross = Block::of(self.entry).rounding();
        Rounding { cross, subnormal: true, by_tile: false, running: Some(windows::steps(template)) }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let block = Block::of(self.entry);
        let spectra: Vec<_> =
            channels.iter().flat_map(|values| block.spectrum_with_noise(desk.template, values)).collect();
        let (code, cross) = desk.kernel()?;
        let module = desk.gpu.module(&code.cubin, Some(code.key))?;
        let windows = module.function("flcc_windows")?.with_shared(windows::shared(desk.template))?;
        let (spectrum, wave) = (Buffer::of(desk.stream, &spectra)?, volume::wave(&spectra));
        Ok(Box::new(Spectrum { block, transforms: self.transforms, cross: cross.clone(), windows, spectrum, wave }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        Block::of(self.entry).bytes_with_noise()
    }

    fn own(&self) -> Own {
        Own { lows: self.transforms * LOW, ..Own::default() }
    }
}

impl Taps for Spectrum {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        let Some(thresholds) = of.thresholds else {
            return Err(Fault::new(self.cross.name(), "a template without thresholds"));
        };
        let lows = (at.batch.places[Room::Lows], self.transforms);
        let spectrum = self.spectrum.address(at.stream);
        self.block.cross(at.stream, &self.cross, at.batch, (spectrum, thresholds, of.view), lows)?;
        windows::launch(at.stream, &self.windows, at.batch, (of.constants, thresholds, of.view), lows)
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
