//! Execution: tiles handed to workers, rows written to the caller's results. The only file that names rayon.
//!
//! One worker runs in the caller's thread and allocates nothing. Several share the tiles through one counter; which
//! worker computes a tile changes nothing in it.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flcc_core::error::{ExecError, SpecError};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut, Layout};

use crate::cpu::bind::{self, Checked, Weights};
use crate::cpu::planar::Coming;
use crate::cpu::real::Real;
use crate::cpu::strip;
use crate::cpu::tile::{BoundTemplates, Scores, Statistics, Store, TileContext, TileScratch};
use crate::tiling::TileBox;

/// Stops a run from another thread: at the next tile it returns [`ExecError::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not used yet.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops every run that watches this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How images and results in memory that is not pinned come to a GPU and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Copies {
    /// By pinned memory of the library, filled and emptied by several threads, while kernels run; from the second group
    /// of a slot on. It takes as many bytes of the host as the groups of all slots and their results.
    #[default]
    Staged,
    /// By the driver, which holds the calling thread meanwhile.
    Direct,
}

/// What a caller watches a run with, and what it decides about one.
#[derive(Clone, Copy, Default)]
pub struct Control<'a> {
    /// Called after every tile, from any worker, with the tiles done and all tiles; on GPUs after every group of
    /// images. Where the CPU takes over it goes on in tiles of the CPU's plan, so both numbers may change.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Asked before every tile; on GPUs before every batch of tiles.
    pub cancel: Option<&'a CancelToken>,
    /// Called when one of several devices fails, with its words: the others then compute what it had. Without it, that
    /// is the run's error. Where the CPU takes over from the last one
    /// ([`Planner::fall_back`](crate::Planner::fall_back)), that one is told too.
    pub failed: Option<&'a (dyn Fn(&str) + Sync)>,
    /// How memory that is not pinned comes to GPUs.
    pub copies: Copies,
}

/// Why a run did not finish, and what is there of it.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// Why.
    pub error: ExecError,
    /// The images without results, where a device failed: they can be computed by something else.
    pub undone: Vec<usize>,
    /// Counts of what was done.
    pub statistics: Statistics,
}

impl From<ExecError> for Box<Unfinished> {
    fn from(error: ExecError) -> Box<Unfinished> {
        Box::new(Unfinished { error, undone: Vec::new(), statistics: Statistics::default() })
    }
}

impl From<SpecError> for Box<Unfinished> {
    fn from(error: SpecError) -> Box<Unfinished> {
        ExecError::from(error).into()
    }
}

/// Images, each with a template of its own.
pub struct Pairs<'a> {
    /// The spec of each.
    pub spec: &'a Spec,
    /// The images.
    pub images: &'a [AnyView<'a>],
    /// As many templates.
    pub templates: &'a [AnyView<'a>],
    /// The mask that all of them have.
    pub weights: &'a Weights,
}

impl Pairs<'_> {
    /// Checks template `number` and makes its values ready, in the place of another's.
    fn check(&self, number: usize, checked: &mut Checked) -> Result<(), SpecError> {
        let numbered = |error: SpecError| SpecError { argument: format!("template {number}"), ..error };
        bind::check_template_into(self.spec, &self.templates[number], self.weights, checked).map_err(numbered)
    }
}

/// What a plan executes with: a method on a platform, for one spec.
pub trait Execute: Send + Sync {
    /// Templates in the form of the method.
    ///
    /// # Errors
    /// A template that the method cannot take, or a device that fails.
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError>;
    /// The rank that the separable method would need for each template, if none is over `limit`.
    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize>;
    /// Bytes of the scratch of so many workers.
    fn scratch_bytes(&self, workers: usize) -> usize;
    /// Bytes of one bound template.
    fn template_bytes(&self) -> usize;
    /// Tiles of one image.
    fn tiles(&self) -> usize;
    /// Scratch for so many workers and results.
    fn scratch(&self, workers: usize, results: usize) -> Scratch;
    /// As [`Execute::execute`], of images that lie on a device.
    ///
    /// # Errors
    /// A plan for another platform, an image on another device, or a device that fails.
    #[cfg(feature = "cuda")]
    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[crate::cuda::buffer::DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let _ = (bound, images, outs, scratch);
        Err(SpecError::new(
            "images",
            "images in the memory of the host, since the plan is one for the CPU",
            "images on a device",
        )
        .into())
    }
    /// How many images at a time keep everything busy.
    fn appetite(&self) -> usize {
        1
    }
    /// What computes results band by band; `None` where only a whole result is computed.
    fn banded(&self) -> Option<&dyn Banded> {
        None
    }
    /// More lines for `explain()`.
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }
    /// Computes `outs[k]` of image `k` with template `k` alone; both are arrays of the spec, which has one template.
    ///
    /// Where there is nothing better, templates are bound one after the other.
    ///
    /// # Errors
    /// As [`Execute::bind`] and [`Execute::execute`], and a template that cannot be matched; its number is in the
    /// error.
    fn execute_pairs(
        &self,
        pairs: &Pairs<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let mut statistics = Statistics::default();
        let total = pairs.images.len();
        for (number, out) in outs.iter_mut().enumerate() {
            if control.cancel.is_some_and(CancelToken::is_cancelled) {
                return Err(ExecError::Cancelled { done: number, total });
            }
            let mut checked = Checked::default();
            pairs.check(number, &mut checked)?;
            let bound = self.bind(vec![checked], pairs.weights.clone())?;
            let alone = Control { progress: None, ..*control };
            let run = self.execute(
                bound.as_ref(),
                &pairs.images[number..=number],
                std::slice::from_mut(out),
                scratch,
                &alone,
            );
            statistics.add(run.map_err(|unfinished| match unfinished.error {
                ExecError::Cancelled { .. } => ExecError::Cancelled { done: number, total },
                error => error,
            })?);
            control.progress.iter().for_each(|progress| progress(number + 1, total));
        }
        Ok(statistics)
    }
    /// Computes `outs[image * templates + template]`.
    ///
    /// # Errors
    /// Cancelled, scratch of another plan, or a device that fails; nothing writes the results any more.
    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>>;
}

/// Execution of a band of a result: some of its positions along the slowest axis that has more than one, and all of the
/// other axes. A band has the bits that it has in the whole result.
pub trait Banded: Send + Sync {
    /// Where bands may begin and end along that axis: 0, then upwards, to the length of the axis.
    fn seams(&self) -> Vec<usize>;
    /// Tiles between two neighbouring seams.
    fn tiles(&self) -> usize;
    /// Computes from seam `band.start` to seam `band.end`, an image with every template; the arrays have the band's
    /// shape.
    ///
    /// # Errors
    /// Cancelled, or scratch of another plan.
    fn execute_band(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        band: Range<usize>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError>;
}

/// The buffers of a run: made by a plan, for that plan, used by one run at a time.
pub struct Scratch {
    /// Whose it is.
    owner: Owner,
    workers: Box<dyn Any + Send>,
    outputs: Vec<Output>,
    bytes: usize,
}

/// What tells an executor from every other one of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Scratch {
    pub(crate) fn new<W: Any + Send>(owner: Owner, workers: Vec<W>, results: usize, bytes: usize) -> Scratch {
        Scratch { owner, workers: Box::new(workers), outputs: Vec::with_capacity(results), bytes }
    }

    /// The workers and room for results, if the scratch is this executor's.
    pub(crate) fn parts<W: Any + Send>(&mut self, owner: Owner) -> Result<(&mut Vec<W>, &mut Vec<Output>), SpecError> {
        let foreign = || SpecError::new("scratch", "the scratch of this plan", "that of another");
        let workers = if self.owner == owner { self.workers.downcast_mut() } else { None };
        Ok((workers.ok_or_else(foreign)?, &mut self.outputs))
    }

    /// Bytes that the buffers take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A CPU method in one type.
pub struct CpuExecute<T: Real> {
    owner: Owner,
    /// What is the same for every tile.
    context: TileContext<T>,
    /// Directly, by small tiles, each centred for itself: for parts of tiles that the context leaves in doubt.
    closer: Option<TileContext<f32>>,
    /// In f64: for parts that are in doubt still.
    careful: Option<TileContext<f64>>,
    /// Directly in f64, for parts that transforms leave in doubt.
    last: Option<TileContext<f64>>,
}

/// Templates bound to all ways.
struct CpuBound<T: Real> {
    plain: BoundTemplates<T>,
    /// Made when a tile asks for it, unless it was made before, as is the next.
    closer: OnceLock<BoundTemplates<f32>>,
    careful: OnceLock<BoundTemplates<f64>>,
    last: OnceLock<BoundTemplates<f64>>,
}

impl<T: Real> CpuBound<T> {
    fn new(plain: BoundTemplates<T>) -> CpuBound<T> {
        CpuBound { plain, closer: OnceLock::new(), careful: OnceLock::new(), last: OnceLock::new() }
    }
}

/// Buffers of one worker for all ways.
struct CpuWorker<T: Real> {
    plain: TileScratch<T>,
    closer: Option<TileScratch<f32>>,
    careful: Option<TileScratch<f64>>,
    last: Option<TileScratch<f64>>,
    /// Of pairs: the template of the last one.
    pair: Option<CpuBound<T>>,
}

impl<T: Real> CpuExecute<T> {
    /// Executes tiles by `context`, and parts that it gives up by `closer`, then by `careful`, then by `last`.
    pub fn new(
        mut context: TileContext<T>,
        mut closer: Option<TileContext<f32>>,
        mut careful: Option<TileContext<f64>>,
        last: Option<TileContext<f64>>,
    ) -> CpuExecute<T> {
        if let Some(careful) = &careful {
            // The same for a region as for the whole result, of which the careful way alone knows nothing.
            (context.parts, context.patience) = (careful.capacity, patience(careful));
        }
        if let (Some(closer), Some(careful)) = (&mut closer, &careful) {
            (closer.parts, closer.patience) = (careful.capacity, patience(careful));
        }
        if let (Some(careful), Some(last)) = (&mut careful, &last) {
            (careful.parts, careful.patience) = (last.capacity, patience(last));
        }
        CpuExecute { owner: Owner::new(), context, closer, careful, last }
    }

    /// One tile of an image to its place in the results from number `first` on.
    ///
    /// # Safety
    /// The results' elements are borrowed exclusively by the running call, and no other thread writes what this tile
    /// keeps of these.
    unsafe fn tile_to(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &CpuBound<T>,
        worker: &mut CpuWorker<T>,
        outputs: Outputs<'_>,
        first: usize,
    ) -> Statistics {
        let [_, rows, columns] = tile.keep.map(|(from, to)| to - from);
        let mut whole_rows = |template: usize, place: [usize; 3], planes: usize| {
            // SAFETY: as promised to this function; these rows are all of the tile's place in the result, and nothing
            // of other tiles' places.
            unsafe { outputs.rows(first + template, place, [planes, rows, columns]) }
        };
        if let Some(statistics) = self.context.run_strip(image, tile, &bound.plain, &mut worker.plain, &mut whole_rows)
        {
            return statistics;
        }
        let mut write = |template, place, scores: Scores<'_>| {
            // SAFETY: as promised to this function.
            unsafe { outputs.write(first + template, place, scores) }
        };
        let lines = |template, place| outputs.lines(first + template, place);
        self.tile(image, tile, bound, worker, &mut Store { write: &mut write, lines: &lines })
    }

    /// Binds template `number` of some pairs in the place of the last; its careful form only when a tile asks for it.
    fn bind_pair(&self, pairs: &Pairs<'_>, number: usize, worker: &mut CpuWorker<T>) -> Result<CpuBound<T>, SpecError> {
        let failed = |error| SpecError::new(format!("template {number}"), "one that decomposes", error);
        let mut checked = Checked::default();
        let Some(mut bound) = worker.pair.take() else {
            pairs.check(number, &mut checked)?;
            let mut plain = self.context.bind(vec![checked], pairs.weights.clone()).map_err(failed)?;
            // As those that are bound in its place.
            plain.keep_whole();
            return Ok(CpuBound::new(plain));
        };
        (bound.closer, bound.careful, bound.last) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        pairs.check(number, &mut bound.plain.templates[0].checked)?;
        self.context.rebind(&mut bound.plain, &mut worker.plain).map_err(failed)?;
        Ok(bound)
    }

    fn tile(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &CpuBound<T>,
        worker: &mut CpuWorker<T>,
        store: &mut Store<'_>,
    ) -> Statistics {
        let CpuWorker { plain, closer, careful, last, .. } = worker;
        let mut ways = (closer, careful, last);
        if let Some(mut statistics) = self.context.run(image, tile, &bound.plain, plain, store) {
            for part in plain.again() {
                let Statistics { repaired, tiles, .. } = self.part(image, part, bound, &mut ways, store);
                statistics.add(Statistics { panels: 0, repaired, tiles });
            }
            return statistics;
        }
        let mut statistics = Statistics::default();
        for part in tile.parts(self.context.parts) {
            statistics.add(self.part(image, &part, bound, &mut ways, store));
        }
        statistics
    }

    /// A part of a tile that the context gave up.
    fn part(
        &self,
        image: &AnyView<'_>,
        part: &TileBox,
        bound: &CpuBound<T>,
        ways: &mut Ways<'_>,
        store: &mut Store<'_>,
    ) -> Statistics {
        let (near, exact, last) = ways;
        if let (Some(closer), Some(scratch)) = (&self.closer, near) {
            let bound = bound.closer.get_or_init(|| closer.bind_again(&bound.plain));
            if let Some(statistics) =
                closer.run(image, part, bound, scratch, store).filter(|_| scratch.again().is_empty())
            {
                return statistics;
            }
        }
        let (Some(careful), Some(scratch)) = (&self.careful, exact) else { return Statistics::default() };
        let again = bound.careful.get_or_init(|| careful.bind_again(&bound.plain));
        let done = careful.run(image, part, again, scratch, store);
        let (Some(direct), Some(room)) = (&self.last, last) else { return done.unwrap_or_default() };
        let left: Vec<TileBox> =
            if done.is_some() { scratch.again().to_vec() } else { part.parts(direct.capacity).collect() };
        // What is computed again was counted, but for a part that was given up whole.
        let whole = done.is_none();
        let mut statistics = done.unwrap_or_default();
        for part in &left {
            let again = bound.last.get_or_init(|| direct.bind_again(&bound.plain));
            let Statistics { panels, repaired, tiles } =
                direct.run(image, part, again, room, store).unwrap_or_default();
            statistics.add(Statistics { panels: if whole { panels } else { 0 }, repaired, tiles });
        }
        statistics
    }
}

/// Buffers for what a context gave up: of `closer`, `careful` and `last`.
type Ways<'a> = (&'a mut Option<TileScratch<f32>>, &'a mut Option<TileScratch<f64>>, &'a mut Option<TileScratch<f64>>);

impl<T: Real> Execute for CpuExecute<T> {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let failed = |error| SpecError::new("template", "one that decomposes", error);
        let plain = self.context.bind(checked, weights).map_err(failed)?;
        let bound = CpuBound::new(plain);
        if let Some(closer) = &self.closer {
            bound.closer.get_or_init(|| closer.bind_again(&bound.plain));
        }
        if let Some(careful) = &self.careful {
            bound.careful.get_or_init(|| careful.bind_again(&bound.plain));
        }
        if let Some(last) = &self.last {
            bound.last.get_or_init(|| last.bind_again(&bound.plain));
        }
        Ok(Arc::new(bound))
    }

    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        self.context.rank(checked, weights, limit)
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        // Of the worker itself the contexts count their own part.
        let careful = self.careful.as_ref().map_or(size_of::<TileScratch<f64>>(), TileContext::scratch_bytes);
        let closer = self.closer.as_ref().map_or(size_of::<TileScratch<f32>>(), TileContext::scratch_bytes);
        let last = self.last.as_ref().map_or(size_of::<TileScratch<f64>>(), TileContext::scratch_bytes);
        let counted = size_of::<TileScratch<T>>() + size_of::<TileScratch<f32>>() + 2 * size_of::<TileScratch<f64>>();
        let worker = size_of::<CpuWorker<T>>().saturating_sub(counted);
        let all = self
            .context
            .scratch_bytes()
            .saturating_add(closer)
            .saturating_add(careful)
            .saturating_add(last)
            .saturating_add(worker);
        all.saturating_mul(workers)
    }

    fn template_bytes(&self) -> usize {
        let closer = self.closer.as_ref().map_or(0, TileContext::template_bytes);
        let others = [&self.careful, &self.last].into_iter().flatten().map(TileContext::template_bytes).sum::<usize>();
        self.context.template_bytes() + closer + others
    }

    fn tiles(&self) -> usize {
        self.context.tiling.count()
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        let worker = || CpuWorker {
            plain: self.context.scratch(),
            closer: self.closer.as_ref().map(TileContext::scratch),
            careful: self.careful.as_ref().map(TileContext::scratch),
            last: self.last.as_ref().map(TileContext::scratch),
            pair: None,
        };
        let all: Vec<CpuWorker<T>> = (0..workers).map(|_| worker()).collect();
        Scratch::new(self.owner, all, results, self.scratch_bytes(workers))
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let (workers, outputs) = scratch.parts::<CpuWorker<T>>(self.owner)?;
        let bound: &CpuBound<T> = bound
            .downcast_ref()
            .ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        outputs.clear();
        outputs.extend(outs.iter_mut().map(Output::new));
        let outputs = Outputs { list: outputs, origin: [0; 3] };
        let (tiles, templates) = (self.context.tiling.count(), bound.plain.templates.len());
        let total = tiles * images.len();
        run(workers, total, control, |index, worker| {
            let (image, tile) = (index / tiles, self.context.tiling.get(index % tiles));
            // SAFETY: `outs` is borrowed mutably for the whole call, so nothing else touches its elements; each index
            // is handed to one worker once, and the parts of a result that different tiles keep do not overlap
            // (`Tiling`'s property test), so no element is written by two workers.
            unsafe { self.tile_to(&images[image], &tile, bound, worker, outputs, image * templates) }
        })
        .map_err(Box::from)
    }

    fn banded(&self) -> Option<&dyn Banded> {
        Some(self)
    }

    fn execute_pairs(
        &self,
        pairs: &Pairs<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let (workers, outputs) = scratch.parts::<CpuWorker<T>>(self.owner)?;
        // What was bound last may have had another mask.
        workers.iter_mut().for_each(|worker| worker.pair = None);
        outputs.clear();
        outputs.extend(outs.iter_mut().map(Output::new));
        let outputs = Outputs { list: outputs, origin: [0; 3] };
        let wrong: Mutex<Option<(usize, SpecError)>> = Mutex::default();
        let first_wrong = || wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let tiling = &self.context.tiling;
        let statistics = run(workers, outs.len(), control, |number, worker| {
            // Pairs are handed out in order, so those before the first that is wrong are all looked at.
            if first_wrong().as_ref().is_some_and(|(first, _)| *first < number) {
                return Statistics::default();
            }
            let bound = match self.bind_pair(pairs, number, worker) {
                Ok(bound) => bound,
                Err(error) => {
                    let mut first = first_wrong();
                    if first.as_ref().is_none_or(|(first, _)| number < *first) {
                        *first = Some((number, error));
                    }
                    return Statistics::default();
                }
            };
            let mut statistics = Statistics::default();
            for tile in (0..tiling.count()).map(|index| tiling.get(index)) {
                // SAFETY: `outs` is borrowed mutably for the whole call; a pair has a result of its own, and each
                // number is handed to one worker once.
                statistics.add(unsafe { self.tile_to(&pairs.images[number], &tile, &bound, worker, outputs, number) });
            }
            worker.pair = Some(bound);
            statistics
        })?;
        match wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error.into()),
            None => Ok(statistics),
        }
    }
}

impl<T: Real> Banded for CpuExecute<T> {
    fn seams(&self) -> Vec<usize> {
        self.context.tiling.seams()
    }

    fn tiles(&self) -> usize {
        self.context.tiling.count() / (self.context.tiling.seams().len() - 1)
    }

    fn execute_band(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        band: Range<usize>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let (workers, outputs) = scratch.parts::<CpuWorker<T>>(self.owner)?;
        let bound: &CpuBound<T> = bound
            .downcast_ref()
            .ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        outputs.clear();
        outputs.extend(outs.iter_mut().map(Output::new));
        let tiles = Banded::tiles(self);
        let tiles = band.start * tiles..band.end * tiles;
        let origin = self.context.tiling.get(tiles.start).place;
        let outputs = Outputs { list: outputs, origin };
        run(workers, tiles.len(), control, |index, worker| {
            let tile = self.context.tiling.get(tiles.start + index);
            // SAFETY: as in `execute`; these tiles are those of the band, which the arrays hold.
            unsafe { self.tile_to(image, &tile, bound, worker, outputs, 0) }
        })
    }
}

/// How many panels of a part are rather recomputed one by one than all of it by a careful context.
fn patience(careful: &TileContext<f64>) -> u64 {
    // A panel of a part takes some 30 ns by the direct kernels and 50 by transforms, one alone about 1 ns for each
    // sample.
    let (outputs, samples) = (careful.capacity.iter().product::<usize>() as u64, careful.spec.template().len() as u64);
    (outputs / 32).min(40 * outputs / samples.max(1)).max(16)
}

/// Hands out `total` indices to the workers until all are done: neighbours together, which share samples and lines of
/// results, and fewer at a time towards the end, so that all workers end together.
pub(crate) fn run<S: Send>(
    workers: &mut [S],
    total: usize,
    control: &Control<'_>,
    work: impl Fn(usize, &mut S) -> Statistics + Sync,
) -> Result<Statistics, ExecError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cancelled = || control.cancel.is_some_and(CancelToken::is_cancelled);
    let busy = workers.len().min(total);
    let after = |next: usize| next + ((total - next) / (2 * busy)).max(1);
    let share = |worker: &mut S| {
        let mut statistics = Statistics::default();
        while let Ok(begin) =
            next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| (next < total).then(|| after(next)))
        {
            for index in begin..after(begin) {
                if cancelled() {
                    return statistics;
                }
                statistics.add(work(index, worker));
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = control.progress {
                    progress(done, total);
                }
            }
        }
        statistics
    };
    let statistics = match &mut workers[..busy] {
        [] => Statistics::default(),
        [only] => share(only),
        several => {
            let sum = Mutex::new(Statistics::default());
            pool(several.len()).scope(|scope| {
                for worker in several {
                    scope.spawn(|_| {
                        let mine = share(worker);
                        sum.lock().unwrap_or_else(PoisonError::into_inner).add(mine);
                    });
                }
            });
            sum.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    };
    let done = done.into_inner();
    if done < total { Err(ExecError::Cancelled { done, total }) } else { Ok(statistics) }
}

/// Bytes that a thread copies at a time; fewer are not worth a second thread.
#[cfg(feature = "cuda")]
const COPIED_AT_ONCE: usize = 1 << 20;
/// Threads that copy at most: more than that many do not make memory faster.
#[cfg(feature = "cuda")]
const COPIERS: usize = 8;

/// Copies bytes to as many, by several threads where there are many.
#[cfg(feature = "cuda")]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    use rayon::prelude::*;

    if from.len() <= COPIED_AT_ONCE {
        return to.copy_from_slice(from);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COPIERS);
    let parts = to.par_chunks_mut(COPIED_AT_ONCE).zip(from.par_chunks(COPIED_AT_ONCE));
    pool(threads).install(|| parts.for_each(|(to, from)| to.copy_from_slice(from)));
}

/// One persistent pool for each number of threads asked for.
fn pool(threads: usize) -> Arc<rayon::ThreadPool> {
    static POOLS: OnceLock<Mutex<HashMap<usize, Arc<rayon::ThreadPool>>>> = OnceLock::new();
    let mut pools = POOLS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let build = |threads: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("flcc-{index}")).build()
    };
    // A system that is out of threads still has the one that asks.
    let made = pools.entry(threads).or_insert_with(|| {
        Arc::new(
            build(threads)
                .or_else(|_| rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build())
                .expect("a pool of the current thread"),
        )
    });
    Arc::clone(made)
}

/// A result to write, as a pointer: its borrow is held by the call that made it.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    F32(*mut f32, Layout),
    F64(*mut f64, Layout),
}

// SAFETY: an `Output` is an address and a layout; it is dereferenced only in `Outputs::write` and `Outputs::rows`,
// whose callers answer for exclusive access. Between runs the addresses in a scratch are not used: `execute` replaces
// them first.
unsafe impl Send for Output {}

impl Output {
    fn new(view: &mut AnyViewMut<'_>) -> Output {
        match view {
            AnyViewMut::F32(view) => {
                let (data, layout) = view.parts();
                Output::F32(data.as_mut_ptr(), *layout)
            }
            AnyViewMut::F64(view) => {
                let (data, layout) = view.parts();
                Output::F64(data.as_mut_ptr(), *layout)
            }
        }
    }
}

/// The results of a run, or a band of them, shared by its workers.
#[derive(Clone, Copy)]
struct Outputs<'a> {
    list: &'a [Output],
    /// Where the results' first elements lie in the whole ones; no place before that is written.
    origin: [usize; 3],
}

// SAFETY: as `Output`; workers write disjoint elements.
unsafe impl Sync for Outputs<'_> {}

impl Outputs<'_> {
    /// A place of a whole result in what is there of it.
    fn inside(&self, place: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|axis| place[axis] - self.origin[axis])
    }

    /// Rows of one result of f32 from a place of it, if nothing else lies between the first and the last of their
    /// elements: one row or a part of it, whole rows of a plane, or whole planes.
    ///
    /// # Safety
    /// The result's elements are borrowed exclusively by the running call, and nothing else uses these rows meanwhile.
    unsafe fn rows(
        &self,
        result: usize,
        place: [usize; 3],
        [planes, count, columns]: [usize; 3],
    ) -> Option<strip::Rows<'_>> {
        let &Output::F32(data, ref layout) = &self.list[result] else { return None };
        let [z, y, x] = self.inside(place);
        let [depth, height, width] = layout.shape().padded();
        let ([step, pitch, column], _) = layout.strides();
        // What leads to rows that there are none of may be anything.
        let pitch = if height == 1 { width } else { usize::try_from(pitch).ok().filter(|pitch| *pitch >= width)? };
        let nested = depth == 1 || step.unsigned_abs() >= (height - 1) * pitch + width;
        let inside = z + planes <= depth && y + count <= height && x + columns <= width;
        if column != 1 || !nested || !inside || planes * count * columns == 0 {
            return None;
        }
        let whole = [count == height, columns == width];
        let plane = match [planes, count] {
            [1, 1] => 0,
            [1, _] if whole[1] => 0,
            _ if whole == [true, true] => usize::try_from(step).ok()?,
            _ => return None,
        };
        let len = (planes - 1) * plane + (count - 1) * pitch + columns;
        // SAFETY: the first and the last element are positions of the layout (just checked), so all between them lie in
        // the slice of its view. What lies between rows is no position's: rows are no longer than their pitch and
        // planes no longer than theirs, and several rows are whole ones, several planes whole ones. So the slice has
        // these rows' positions and no others; exclusive access is the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(data.add(layout.offset([z, y, x], 0)), len) };
        Some(strip::Rows { out, pitch, plane })
    }

    /// Where the rows of one result of f32 lie from a place of it on, to be asked for and no more.
    fn lines(&self, result: usize, place: [usize; 3]) -> Option<Coming> {
        let &Output::F32(data, ref layout) = &self.list[result] else { return None };
        let place = self.inside(place);
        let ([_, pitch, column], _) = layout.strides();
        let [_, rows, width] = layout.shape().padded();
        let pitch = usize::try_from(pitch).ok().filter(|_| column == 1)?;
        Some(Coming { from: data.wrapping_add(layout.offset(place, 0)), pitch, rows, width })
    }

    /// Writes a row of scores, rounded once, from a place of one result.
    ///
    /// # Safety
    /// The result's elements are borrowed exclusively by the running call, and no other thread writes this row.
    unsafe fn write(&self, result: usize, place: [usize; 3], scores: Scores<'_>) {
        let place = self.inside(place);
        // SAFETY: as promised to this function.
        unsafe {
            match (&self.list[result], scores) {
                (&Output::F32(data, ref layout), Scores::Single(row)) => {
                    write_row(data, layout, place, row, |score| score)
                }
                (&Output::F32(data, ref layout), Scores::Double(row)) => {
                    write_row(data, layout, place, row, |score| score as f32)
                }
                (&Output::F64(data, ref layout), Scores::Single(row)) => write_row(data, layout, place, row, f64::from),
                (&Output::F64(data, ref layout), Scores::Double(row)) => {
                    write_row(data, layout, place, row, |score| score)
                }
            }
        }
    }
}

/// Writes a row from a place of a result.
///
/// # Safety
/// `data` and `layout` are of a `ViewMut`; its elements are borrowed exclusively, and no other thread writes this row.
unsafe fn write_row<S: Copy, T>(
    data: *mut T,
    layout: &Layout,
    [z, y, x]: [usize; 3],
    row: &[S],
    round: impl Fn(S) -> T,
) {
    let [depth, height, width] = layout.shape().padded();
    assert!(
        z < depth && y < height && x + row.len() <= width,
        "a row of {} at {z},{y},{x} of {}",
        row.len(),
        layout.shape()
    );
    if row.is_empty() {
        return;
    }
    if layout.row_step() == 1 {
        // SAFETY: every position of the row lies in the layout's shape (asserted above), so in the slice of the view;
        // they lie side by side; exclusive access is the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(data.add(layout.offset([z, y, x], 0)), row.len()) };
        out.iter_mut().zip(row).for_each(|(out, &score)| *out = round(score));
        return;
    }
    for (k, &score) in row.iter().enumerate() {
        // SAFETY: as above, one position at a time.
        unsafe { data.add(layout.offset([z, y, x + k], 0)).write(round(score)) };
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn many_threads_copy_every_byte() {
        for len in [0, 1, COPIED_AT_ONCE, COPIED_AT_ONCE + 1, 5 * COPIED_AT_ONCE - 3] {
            let from: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut to = vec![255; len];
            copy(&from, &mut to);
            assert!(from == to, "{len}");
        }
    }
}
