//! Sums and scores of images by transforms of tiles that no block has room for, in several kernels.

use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Address, Argument, Function, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{own_options, wide_option};
use crate::cuda::large::{EXTENT_BYTES, Large, extents};
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::{Makes, Own, Places, Room};
use crate::cuda::windows::{self, LOW, Share, Windows};
use crate::cuda::windows_of_planes::DownRows;
use crate::problem::error_model::{self, Figures};

/// The method, by its source, for tiles of at most so many outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeTiles {
    entry: &'static Entry,
    /// Pairs of transforms of the largest tile.
    pairs: usize,
    /// Where scores are made of it.
    scores: Option<Scores>,
}

/// What scores of the largest tile take.
#[derive(Clone, Copy, Debug)]
struct Scores {
    /// How warps share its windows.
    share: Share,
    /// Rows and columns of blocks that find extents of its samples.
    extents: [usize; 2],
}

impl LargeTiles {
    /// Of sums.
    pub fn sums(entry: &'static Entry, template: [usize; 3], outputs: [usize; 3]) -> LargeTiles {
        LargeTiles { entry, pairs: Large::of(entry).shape.pairs(template, outputs).0, scores: None }
    }

    /// Of scores.
    pub fn scores(entry: &'static Entry, template: [usize; 3], outputs: [usize; 3]) -> LargeTiles {
        let scores = Scores { share: DownRows::share(template, outputs), extents: extents(template, outputs) };
        LargeTiles { scores: Some(scores), ..LargeTiles::sums(entry, template, outputs) }
    }
}

/// A bound template of one channel, and the kernels.
struct Bound {
    large: Large,
    pairs: usize,
    template: [usize; 3],
    /// The template's spectrum, turns, and noise.
    spectrum: Buffer,
    wave: f64,
    there: Function,
    columns: Function,
    back: Function,
    scores: Option<ScoreKernels>,
}

/// What scores take besides.
struct ScoreKernels {
    look: Function,
    about: Function,
    windows: Function,
    /// Where warps share sums of bands.
    bands: Option<Function>,
    of: Scores,
}

/// Where the parts of a room lie.
struct Between<'a> {
    numbers: Argument<'a>,
    abouts: Argument<'a>,
    samples: Argument<'a>,
    results: Argument<'a>,
    wanted: Argument<'a>,
}

impl Method for LargeTiles {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.entry)
    }

    fn makes(&self) -> Makes {
        if self.scores.is_some() { Makes::Scores } else { Makes::Cross }
    }

    fn source(&self, template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let mut options = own_options(around.options);
        if self.scores.is_some() {
            options.push("-DFLCC_SCORED".into());
            options.extend(DownRows::options(template));
            options.extend(wide_option(around.wide));
        }
        Some(Source { text: self.entry.source(), options })
    }

    fn wide(&self, slow: bool) -> Wide {
        if slow && self.scores.is_some() { Wide::TwoSingles } else { Wide::Double }
    }

    fn rounding(&self, template: [usize; 3]) -> Rounding {
        let cross = error_model::Rounding::Large { len: Large::of(self.entry).samples() as f64 };
        // Its kernels take the figures of their tiles.
        Rounding { cross, subnormal: true, by_tile: false, running: self.scores.map(|_| DownRows::steps(template)) }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (large, scored) = (Large::of(self.entry), self.scores.is_some());
        let values = channels.first().ok_or_else(|| Fault::new(self.entry.name, "a template without a channel"))?;
        let (code, there) = desk.kernel()?;
        let module = desk.gpu.module(&code.cubin, Some(code.key))?;
        let shared = |name: &str| module.function(name)?.with_shared(large.shared);
        let bound = large.bound_template(desk.template, values, scored);
        let scores = match self.scores {
            None => None,
            Some(of) => Some(ScoreKernels {
                look: module.function("flcc_look")?,
                about: module.function("flcc_about")?,
                windows: module.function("flcc_windows")?.with_shared(DownRows::shared(desk.template))?,
                bands: if of.share.bands.count > 0 { Some(module.function("flcc_bands")?) } else { None },
                of,
            }),
        };
        Ok(Box::new(Bound {
            large,
            pairs: self.pairs,
            template: desk.template,
            spectrum: Buffer::of(desk.stream, &bound)?,
            wave: large.wave(&bound),
            there: there.clone(),
            columns: shared("flcc_columns")?,
            back: shared(if scored { "flcc_cross" } else { "flcc_rows_back" })?,
            scores,
        }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        Large::of(self.entry).bound_bytes(self.scores.is_some())
    }

    fn covers(&self, [depth, _, _]: [usize; 3]) -> bool {
        depth == 1 && self.scores.is_none()
    }

    fn own(&self) -> Own {
        let extents = |scores: Scores| scores.extents.iter().product::<usize>() * EXTENT_BYTES;
        let lows = self.scores.map_or(0, |scores| 2 * self.pairs * LOW + scores.share.bands.bytes + extents(scores));
        Own { lows, numbers: Large::of(self.entry).room(self.pairs), ..Own::default() }
    }
}

impl Bound {
    /// Does `work` for as many of so many pairs at a time as a room suffices for: from which one on, how many, and
    /// where their parts of the room lie.
    fn in_parts(
        &self,
        places: &Places,
        pairs: usize,
        work: impl Fn(usize, usize, &Between<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let room = places[Room::Numbers];
        let each = self.large.pairs_in(room.bytes).min(MOST_BLOCKS / 2);
        for first in (0..pairs).step_by(each) {
            let count = each.min(pairs - first);
            let parts = self.large.parts(count);
            let mut at = 0;
            let mut next = |bytes: usize| {
                at += bytes;
                Argument::Room(room.skip(at - bytes), bytes)
            };
            let between = Between {
                numbers: next(parts.numbers),
                abouts: next(parts.abouts),
                samples: next(parts.samples),
                results: next(parts.results),
                wanted: next(parts.wanted),
            };
            work(first, count, &between)?;
        }
        Ok(())
    }

    /// The template's spectrum, turns and noise from some float on.
    fn spectrum_from(&self, stream: &Stream, floats: usize) -> Argument<'static> {
        let bytes = self.large.bound_bytes(self.scores.is_some()) - floats * size_of::<f32>();
        Argument::Room(Address::skip(self.spectrum.address(stream), floats * size_of::<f32>()), bytes)
    }

    /// Puts a kernel of rows or columns of so many pairs into a stream's queue.
    fn launch(
        &self,
        stream: &Stream,
        kernel: &Function,
        pairs: usize,
        arguments: &[Argument<'_>],
    ) -> Result<(), Fault> {
        stream.launch(kernel, [self.large.blocks(), pairs as u32, 1], [self.large.threads, 1], arguments)
    }

    /// Puts the kernels that make scores into a stream's queue.
    fn score(&self, at: &Run<'_>, of: &Scoring<'_>, kernels: &ScoreKernels) -> Result<(), Fault> {
        let Some(thresholds) = of.thresholds else {
            return Err(Fault::new(self.there.name(), "a template without thresholds"));
        };
        let (stream, batch) = (at.stream, at.batch);
        let (tiles, transforms) = (batch.layout.tiles as usize, 2 * self.pairs);
        let lows = batch.places[Room::Lows];
        let (image, view) = (batch.image_room(), Argument::Image(&batch.image));
        let (layout, wholes) = (Argument::Layout(&batch.layout), batch.tile_room());
        let turns = self.spectrum_from(stream, 2 * self.large.samples());
        // Behind the thresholds are sums of bands, then extents.
        let sums = lows.skip(tiles * transforms * LOW);
        let [bands, across] = kernels.of.extents;
        let bytes = tiles * bands * across * EXTENT_BYTES;
        let extents = Argument::Room(sums.skip(tiles * kernels.of.share.bands.bytes), bytes);
        let grid = [across as u32, bands as u32, tiles as u32];
        stream.launch(&kernels.look, grid, [self.large.threads, 1], &[image, view, layout, wholes, extents])?;
        let [bands, across] = [bands, across].map(|count| Argument::Int(count as i32));
        self.in_parts(&batch.places, tiles * self.pairs, |first, count, between| {
            let (pairs, from) = (Argument::Int(self.pairs as i32), Argument::Int(first as i32));
            let Between { numbers, abouts, samples, results, wanted } = *between;
            let arguments = [image, view, layout, wholes, pairs, from, extents, across, bands, wanted, abouts];
            stream.launch(&kernels.about, [count as u32, 1, 1], [64, 1], &arguments)?;
            let arguments = [image, view, layout, wholes, pairs, from, numbers, turns, wanted, abouts, samples];
            self.launch(stream, &self.there, count, &arguments)?;
            self.launch(stream, &self.columns, count, &[numbers, self.spectrum_from(stream, 0), wanted])?;
            let arguments = [
                numbers,
                turns,
                self.spectrum_from(stream, self.large.before_noise()),
                layout,
                wholes,
                pairs,
                from,
                wanted,
                abouts,
                Argument::Room(batch.places[Room::Result], batch.result_reach),
                Argument::Result(of.view),
                samples,
                results,
                Argument::Thresholds(thresholds),
                Argument::Room(lows, tiles * transforms * LOW),
            ];
            self.launch(stream, &self.back, count, &arguments)
        })?;
        let windows = (&kernels.windows, kernels.of.share);
        let bands = kernels.bands.as_ref().map(|kernel| (kernel, sums));
        windows::launch(stream, windows, batch, (of.constants, thresholds, of.view), (lows, transforms), bands)
    }
}

impl Taps for Bound {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        match &self.scores {
            Some(kernels) => self.score(at, of, kernels),
            None => at.gathered(0, |job| self.straight(at.stream, job)),
        }
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        let Some(tools) = job.tools else { return Err(Fault::new(self.there.name(), "no room for numbers")) };
        let shares = self.large.shares(self.template, job);
        let pairs = job.count * self.large.shape.pairs(self.template, job.outputs).0;
        let turns = self.spectrum_from(stream, 2 * self.large.samples());
        self.in_parts(tools.places, pairs, |first, count, between| {
            let (shares, first, numbers) = (Argument::Shares(&shares), Argument::Int(first as i32), between.numbers);
            let view = Argument::Image(job.view);
            let arguments = [job.samples, view, shares, first, numbers, turns, job.extraordinary];
            self.launch(stream, &self.there, count, &arguments)?;
            let spectrum = self.spectrum_from(stream, 0);
            self.launch(stream, &self.columns, count, &[numbers, spectrum, Argument::Null])?;
            let (result, factor) = (Argument::Result(job.result), Argument::Double(job.factor));
            let arguments = [numbers, turns, shares, first, job.out, result, factor, job.extraordinary];
            self.launch(stream, &self.back, count, &arguments)
        })
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
