//! Scores by a kernel that transforms tiles, or parts of volumes, and one that makes windows.

use std::marker::PhantomData;

use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Argument, Function};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{own_options, wide_option};
use crate::cuda::method::{Around, Desk, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::{Makes, Own, Room};
use crate::cuda::tile::Shape;
use crate::cuda::transform::Scored;
use crate::cuda::volume::Block;
use crate::cuda::windows::{self, LOW, Share, Windows};
use crate::problem::error_model::Figures;

/// The method of images.
pub(crate) type TileScores = Scores<Shape>;

/// The method of volumes.
pub(crate) type VolumeScores = Scores<Block>;

/// A method, by its source of two kernels, for tiles of at most so many outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scores<T> {
    /// The source.
    entry: &'static Entry,
    /// Transforms of the largest tile.
    transforms: usize,
    /// How blocks share the windows of a tile: of a region as of the whole, so that its bits are those of the whole.
    share: Share,
    of: PhantomData<T>,
}

impl<T: Scored> Scores<T> {
    /// For tiles of a whole result of at most so many outputs.
    pub fn new(entry: &'static Entry, template: [usize; 3], outputs: [usize; 3]) -> Scores<T> {
        let transforms = T::of(entry).transforms(template, outputs);
        Scores { entry, transforms, share: T::Windows::share(template, outputs), of: PhantomData }
    }
}

/// A template's spectrum, of one channel.
struct Spectrum<T> {
    transform: T,
    transforms: usize,
    share: Share,
    cross: Function,
    windows: Function,
    spectrum: Buffer,
    wave: f64,
}

impl<T: Scored> Method for Scores<T> {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.entry)
    }

    fn makes(&self) -> Makes {
        Makes::Scores
    }

    fn wide(&self, slow: bool) -> Wide {
        if slow { Wide::TwoSingles } else { Wide::Double }
    }

    fn source(&self, template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let mut options = own_options(around.options);
        options.extend(T::Windows::options(template));
        options.extend(wide_option(around.wide));
        Some(Source { text: self.entry.source(), options })
    }

    fn rounding(&self, template: [usize; 3]) -> Rounding {
        let cross = T::of(self.entry).rounding();
        // Its threads take the figures of their tiles.
        Rounding { cross, subnormal: true, by_tile: false, running: Some(T::Windows::steps(template)) }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let transform = T::of(self.entry);
        let spectra: Vec<_> =
            channels.iter().flat_map(|values| transform.spectrum_with_noise(desk.template, values)).collect();
        let (code, cross) = desk.kernel()?;
        let module = desk.gpu.module(&code.cubin, Some(code.key))?;
        let windows = module.function("flcc_windows")?.with_shared(T::Windows::shared(desk.template))?;
        let (spectrum, wave) = (Buffer::of(desk.stream, &spectra)?, transform.wave(&spectra));
        let (cross, Scores { transforms, share, .. }) = (cross.clone(), *self);
        Ok(Box::new(Spectrum { transform, transforms, share, cross, windows, spectrum, wave }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        T::of(self.entry).bytes_with_noise()
    }

    fn own(&self) -> Own {
        Own { lows: self.transforms * LOW, ..Own::default() }
    }
}

impl<T: Scored> Taps for Spectrum<T> {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        let Some(thresholds) = of.thresholds else {
            return Err(Fault::new(self.cross.name(), "a template without thresholds"));
        };
        let (lows, batch) = (at.batch.places[Room::Lows], at.batch);
        let tiles = batch.layout.tiles as usize;
        // Cross terms go to where results are to be, and each transform's threshold to `lows`.
        let arguments = [
            batch.image_room(),
            Argument::Image(&batch.image),
            Argument::Layout(&batch.layout),
            batch.tile_room(),
            Argument::Thresholds(thresholds),
            Argument::Room(self.spectrum.address(at.stream), self.transform.bytes_with_noise()),
            Argument::Room(batch.places[Room::Result], batch.result_reach),
            Argument::Result(of.view),
            Argument::Room(lows, tiles * self.transforms * LOW),
        ];
        let grid = [self.transforms as u32 / 2, 1, tiles as u32];
        at.stream.launch(&self.cross, grid, [self.transform.threads() as u32, 1], &arguments)?;
        let windows = (&self.windows, self.share);
        windows::launch(at.stream, windows, batch, (of.constants, thresholds, of.view), (lows, self.transforms), None)
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
