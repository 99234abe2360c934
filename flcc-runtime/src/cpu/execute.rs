//! A CPU method executed: tiles handed to workers, rows written to the caller's results.
//!
//! One worker runs in the caller's thread and allocates nothing. Several share the tiles through one counter; which
//! worker computes a tile changes nothing in it.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::error::{ExecError, SpecError};
use flcc_core::view::{AnyView, AnyViewMut};

use crate::cpu::ladder::{Ladder, LadderBound, LadderScratch, Part};
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::Store;
use crate::cpu::tile::bound::BoundTemplates;
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::scratch::TileScratch;
use crate::problem::template::{Checked, Weights};
use crate::run::execute::{AtHand, Control, Execute, Owner, Pairs, Regional, Scratch, Statistics, Taker, Unfinished};
use crate::run::results::{Output, Outputs, Scores};
use crate::run::tiling::TileBox;
use crate::run::workers::run;

/// A CPU method in one type.
pub struct CpuExecute<T: Real> {
    owner: Owner,
    /// What is the same for every tile.
    context: TileContext<T>,
    /// For parts of tiles that the context leaves in doubt.
    ladder: Ladder,
    /// Whether both were made to take as little memory as possible.
    short: bool,
}

/// Templates bound to all ways.
struct CpuBound<T: Real> {
    plain: BoundTemplates<T>,
    ladder: LadderBound,
}

/// Buffers of one worker for all ways.
struct CpuWorker<T: Real> {
    plain: TileScratch<T>,
    ladder: LadderScratch,
    /// The template of the pair computed last, where images have a template each.
    pair: Option<CpuBound<T>>,
}

impl<T: Real> CpuExecute<T> {
    /// Executes tiles by `context`, and parts that it gives up by a ladder of closer ways. Both were made to take as
    /// little memory as possible where that is `short`.
    pub fn new(mut context: TileContext<T>, ladder: Ladder, short: bool) -> CpuExecute<T> {
        // The same for a region as for the whole result, of which the ladder alone knows nothing.
        ladder.leads(&mut context);
        CpuExecute { owner: Owner::new(), context, ladder, short }
    }

    /// A worker.
    fn worker(&self, memory: &mut Memory) -> CpuWorker<T> {
        CpuWorker { plain: self.context.scratch(memory), ladder: self.ladder.scratch(memory), pair: None }
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
        if let Some(statistics) =
            self.context.run_in_place(image, tile, &bound.plain, &mut worker.plain, &mut whole_rows)
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
            return Ok(CpuBound { plain, ladder: self.ladder.unbound() });
        };
        bound.ladder.forget();
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
        let CpuWorker { plain, ladder, .. } = worker;
        let mut closer = |tile: &TileBox, store: &mut Store<'_>| {
            self.ladder.run(Part { image, tile }, &bound.plain, &bound.ladder, ladder, store)
        };
        if let Some(mut statistics) = self.context.run(image, tile, &bound.plain, plain, store) {
            for part in plain.again() {
                let Statistics { repaired, tiles, .. } = closer(part, store);
                statistics.add(Statistics { panels: 0, repaired, tiles });
            }
            return statistics;
        }
        let mut statistics = Statistics::default();
        for part in tile.parts(self.context.parts) {
            statistics.add(closer(&part, store));
        }
        statistics
    }
}

impl<T: Real> Execute for CpuExecute<T> {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let failed = |error| SpecError::new("template", "one that decomposes", error);
        let plain = self.context.bind(checked, weights).map_err(failed)?;
        let ladder = self.ladder.bind(&plain.templates, &plain.weights);
        Ok(Arc::new(CpuBound { plain, ladder }))
    }

    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        self.context.rank(checked, weights, limit)
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        let mut memory = Memory::counting();
        self.worker(&mut memory);
        memory.bytes().saturating_add(size_of::<CpuWorker<T>>()).saturating_mul(workers)
    }

    fn template_bytes(&self) -> usize {
        self.context.template_bytes() + self.ladder.template_bytes()
    }

    fn tiles(&self) -> usize {
        self.context.tiling.count()
    }

    fn short_of_memory(&self) -> bool {
        self.short
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        let all: Vec<CpuWorker<T>> = (0..workers).map(|_| self.worker(&mut Memory::making())).collect();
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

    fn regional(&self) -> Option<&dyn Regional> {
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
        let same = |bound: &CpuBound<T>| bound.plain.weights.values == pairs.weights.values;
        workers.iter_mut().for_each(|worker| worker.pair = worker.pair.take().filter(same));
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

impl<T: Real> Regional for CpuExecute<T> {
    fn counts(&self) -> [usize; 3] {
        self.context.tiling.counts()
    }

    fn seam(&self, axis: usize, number: usize) -> usize {
        self.context.tiling.seam(axis, number)
    }

    fn samples(&self, region: &[Range<usize>; 3]) -> [Range<isize>; 3] {
        let tiling = &self.context.tiling;
        let (under, lengths) = (tiling.under(region), self.context.spec.image().padded());
        // Of all tiles under a region only the last of an axis may have another length than the first.
        let [first, last] = [0, 1].map(|end| under.clone().map(|run| if end == 0 { run.start } else { run.end - 1 }));
        let [begin, end] = [first, last].map(|at| tiling.samples(&tiling.at(at)));
        let mut reach = [0; 3];
        for (row, column) in [(first[1], first[2]), (first[1], last[2]), (last[1], first[2]), (last[1], last[2])] {
            let of_tile = self.context.reach(&tiling.at([first[0], row, column]));
            reach = [0, 1, 2].map(|axis| reach[axis].max(of_tile[axis]));
        }
        [0, 1, 2].map(|axis| {
            let far = (end.begin[axis] + reach[axis] as isize).min(lengths[axis] as isize);
            begin.begin[axis]..(end.begin[axis] + end.len[axis] as isize).max(far)
        })
    }

    fn execute_region(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: AtHand<'_>,
        region: &[Range<usize>; 3],
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
        let outputs = Outputs { list: outputs, origin: [0, 1, 2].map(|axis| region[axis].start) };
        let under = self.context.tiling.under(region);
        let [planes, rows, columns] = [0, 1, 2].map(|axis| under[axis].len());
        run(workers, planes * rows * columns, control, |index, worker| {
            let at = [index / (rows * columns), index / columns % rows, index % columns];
            let tile = self.context.tiling.at([0, 1, 2].map(|axis| under[axis].start + at[axis]));
            let mut tile = tile.within(region);
            for axis in 0..3 {
                // Where a tile lies in the image is all that it does not decide from its own samples.
                tile.origin[axis] -= image.skipped[axis];
            }
            // SAFETY: as in `execute`; of these tiles the places in the region are kept, which the arrays hold.
            unsafe { self.tile_to(image.view, &tile, bound, worker, outputs, 0) }
        })
    }

    fn execute_tiles(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        takers: &mut [&mut dyn Taker],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let (workers, _) = scratch.parts::<CpuWorker<T>>(self.owner)?;
        let bound: &CpuBound<T> = bound
            .downcast_ref()
            .ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        let mut pairs: Vec<_> = workers.iter_mut().zip(takers).collect();
        run(&mut pairs, self.context.tiling.count(), control, |index, (worker, taker)| {
            let tile = self.context.tiling.get(index);
            let lengths = tile.keep.map(|(from, to)| to - from);
            let Some(mut outs) = taker.room(lengths) else { return Statistics::default() };
            let list: Vec<Output> = outs.iter_mut().map(Output::new).collect();
            let outputs = Outputs { list: &list, origin: tile.place };
            // SAFETY: `outs` is borrowed mutably from a taker that this worker alone has, until all is written.
            let statistics = unsafe { self.tile_to(image, &tile, bound, worker, outputs, 0) };
            drop(outs);
            taker.take(tile.place, lengths);
            statistics
        })
    }
}
