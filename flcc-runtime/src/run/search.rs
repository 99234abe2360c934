//! Peaks where no map is asked for. Each worker searches a tile right after it computed it, in a buffer of its own that
//! stays in its cache, and nothing else is kept of the tile, where what is looked for allows that.
//!
//! Else results are computed band by band into buffers that all share. One worker searches each band before it computes
//! the next; several search it once they have no tile of the next left, while others are at their last.

use std::any::Any;
use std::mem::swap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use flcc_core::dtype::{DType, Pixel};
use flcc_core::each_type;
use flcc_core::error::ExecError;
use flcc_core::peaks::tiles::{Gathered, Room, Shared, Tile};
use flcc_core::peaks::{Candidates, Found, Search};
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut, ViewMut};

use crate::run::execute::{AtHand, Beside, Control, Execute, Regional, Scratch, Statistics, Taker};
use crate::run::workers::run;

/// Bytes of results of a worker that are held before they are searched, if tiles are not larger.
const BAND: usize = 4 << 20;
/// Workers that have as much at most: more of them share it.
const BANDS: usize = 8;
/// Positions that a worker searches at a time; few in tests, whose results are small.
const PIECE: usize = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Positions of a finished map that one thread searches before others have woken up; few in tests.
const ALONE: usize = if cfg!(test) { 1 << 8 } else { 1 << 19 };

/// Scores near the seams of tiles that are held until all tiles are searched, of all templates and workers; few in
/// tests.
const NEAR: usize = if cfg!(test) { 1 << 10 } else { 1 << 17 };
/// Bytes of each, in a list that grew by doubling.
const NEAR_BYTES: usize = 2 * 3 * size_of::<usize>();
/// Tiles that a worker holds at most because too much near their seams may still count.
const WAITING: usize = 4;
/// Tiles of an image for each worker, so that of several images one at a time keeps all busy.
const EACH: usize = 4;

/// Bytes of results that so many workers hold. After each band they wait for each other, so more of them have larger
/// ones, as processors of more cores have larger caches.
fn band(workers: usize) -> usize {
    BAND * workers.clamp(1, BANDS)
}

/// How the results of a spec are searched.
pub(crate) struct Searching<'a> {
    spec: &'a Spec,
    search: &'a Search,
    workers: usize,
    /// [`band`] of these workers, but where a test has it smaller.
    band: usize,
}

/// A result as a run of slices: all that lies at one position of its slowest axis of more than one.
#[derive(Clone, Copy)]
struct Slices {
    axis: usize,
    count: usize,
    len: usize,
}

impl Slices {
    fn of(shape: Shape) -> Slices {
        let lengths = shape.padded();
        let axis = (0..2).find(|&axis| lengths[axis] > 1).unwrap_or(2);
        Slices { axis, count: lengths[axis], len: lengths[axis + 1..].iter().product() }
    }
}

/// Where bands may begin along an axis, its length behind them, and how many tiles lie between two of these.
fn seams(regional: &dyn Regional, axis: usize) -> (Vec<usize>, usize) {
    let counts = regional.counts();
    let tiles = (0..3).filter(|&other| other != axis).map(|other| counts[other]).product();
    ((0..=counts[axis]).map(|number| regional.seam(axis, number)).collect(), tiles)
}

/// Buffers of a search, to be used again by the next: of f32 or f64.
#[derive(Default)]
pub(crate) struct Buffers(Option<Box<dyn Any + Send>>);

impl Buffers {
    fn take<T: Pixel>(&mut self, count: usize) -> Vec<Vec<T>> {
        let kept = self.0.take().and_then(|kept| kept.downcast::<Vec<Vec<T>>>().ok());
        let mut buffers = kept.map_or_else(Vec::new, |kept| *kept);
        buffers.resize_with(count, Vec::new);
        buffers
    }

    fn keep<T: Pixel>(&mut self, buffers: Vec<Vec<T>>) {
        self.0 = Some(Box::new(buffers));
    }
}

/// Computes images into arrays of the spec, image by image and template by template.
type Compute<'a> = dyn FnMut(&[AnyView<'_>], &mut [AnyViewMut<'_>], &Control<'_>) -> Result<Statistics, ExecError> + 'a;

impl<'a> Searching<'a> {
    /// How the results of a spec are searched by so many workers.
    pub fn new(spec: &'a Spec, search: &'a Search, workers: usize) -> Searching<'a> {
        Searching { spec, search, workers, band: band(workers) }
    }

    /// The same with about so many bytes of results at a time, if a number is given.
    pub fn with_band(self, band: Option<usize>) -> Searching<'a> {
        Searching { band: band.unwrap_or(self.band), ..self }
    }
}

impl Searching<'_> {
    /// How many images are computed before they are searched.
    fn together(&self, appetite: usize) -> usize {
        let bytes = self.spec.out_shape().len() * self.spec.templates() * self.spec.out_type().row().size;
        (self.band / bytes.max(1)).max(appetite)
    }

    /// Whether one image's results are too many to be computed before they are searched.
    fn needs_bands(&self) -> bool {
        self.together(0) == 0
    }

    /// Bytes of results that are held at a time.
    pub fn bytes(&self, regional: Option<&dyn Regional>, appetite: usize) -> usize {
        // Where tiles turn out to need too much, the others take over.
        let by_tiles = regional.filter(|regional| self.takes_tiles(*regional, 1)).map_or(0, |regional| {
            let lengths = self.tile(regional).0;
            let near = NEAR.min(self.spec.out_shape().len().saturating_mul(self.spec.templates()));
            self.tile_bytes(lengths) * (1 + self.room(lengths).waiting) * self.workers.max(1) + near * NEAR_BYTES
        });
        by_tiles.max(self.bytes_together(regional, appetite))
    }

    /// Bytes of the results that workers share.
    fn bytes_together(&self, regional: Option<&dyn Regional>, appetite: usize) -> usize {
        let slices = Slices::of(self.spec.out_shape());
        let slice = self.slice_bytes(slices);
        let Some(regional) = regional.filter(|_| self.needs_bands()) else {
            return (slice * slices.count).saturating_mul(self.together(appetite));
        };
        let (seams, tiles) = seams(regional, slices.axis);
        let reach = self.search.reach().min(slices.count);
        let (mut most, mut seam) = (0, 0);
        while seam + 1 < seams.len() {
            let next = self.next_seam(&seams, seam, tiles, reach, slices);
            (most, seam) = (most.max(seams[next] - seams[seam]), next);
        }
        slice.saturating_mul((most + 2 * reach).min(slices.count)).saturating_mul(self.bands_at_once())
    }

    /// Most results of a tile along each axis, and along which axes there are several tiles.
    fn tile(&self, regional: &dyn Regional) -> ([usize; 3], [bool; 3]) {
        let counts = regional.counts();
        let length = |axis: usize, number: usize| regional.seam(axis, number + 1) - regional.seam(axis, number);
        // The first and the last may be cut.
        let longest = |axis: usize| (0..counts[axis].min(3)).map(|number| length(axis, number)).max().unwrap_or(0);
        ([0, 1, 2].map(longest), counts.map(|count| count > 1))
    }

    /// Whether each worker searches the tiles that it computes, of so many images one after the other: several images
    /// of few tiles are computed together.
    fn takes_tiles(&self, regional: &dyn Regional, images: usize) -> bool {
        let ((lengths, split), workers) = (self.tile(regional), self.workers.max(1));
        let enough = images == 1 || regional.counts().iter().product::<usize>() >= EACH * workers;
        let fits = self.tile_bytes(lengths).saturating_mul(workers) <= self.band;
        enough && fits && self.search.takes_tiles(lengths, split)
    }

    /// Bytes of the results of a tile with all templates.
    fn tile_bytes(&self, lengths: [usize; 3]) -> usize {
        lengths.iter().product::<usize>() * self.spec.templates() * self.spec.out_type().row().size
    }

    /// What each worker may hold of the results of a template, of tiles of such lengths.
    fn room(&self, lengths: [usize; 3]) -> Room {
        let workers = self.workers.max(1);
        let fit = self.band / self.tile_bytes(lengths).max(1) / workers;
        // If they were computed for nothing, that is to be a small part of all.
        let few = 1 + self.spec.out_shape().len() / lengths.iter().product::<usize>().max(1) / (16 * workers);
        Room {
            near: NEAR / (self.spec.templates() * workers).max(1),
            positions: self.spec.out_shape().len() / workers,
            waiting: fit.saturating_sub(1).min(few).min(WAITING),
        }
    }

    /// Bands whose results are held at a time: that which is computed, and with several workers that before it, unless
    /// what lies within reach of a band takes much beside it.
    fn bands_at_once(&self) -> usize {
        let slices = Slices::of(self.spec.out_shape());
        let beside = 2 * self.search.reach().min(slices.count) * self.slice_bytes(slices);
        if self.workers > 1 && beside <= self.band / 4 { 2 } else { 1 }
    }

    /// Bytes of a slice of the results of all templates.
    fn slice_bytes(&self, slices: Slices) -> usize {
        slices.len * self.spec.templates() * self.spec.out_type().row().size
    }

    /// Searches the results of images: where they lie, if the executor does that, else band by band or whole.
    pub fn of(
        &self,
        execute: &dyn Execute,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        let mut found = vec![Found::default(); images.len() * self.spec.templates()];
        if let Some(run) = execute.search(bound, images, self.search, &mut found, scratch, control) {
            return run.map(|statistics| (found, statistics)).map_err(|unfinished| unfinished.error);
        }
        let by_tiles = execute.regional().filter(|regional| self.takes_tiles(*regional, images.len()));
        let by_bands = execute.regional().filter(|_| self.needs_bands());
        if by_tiles.is_none() && by_bands.is_none() {
            return self.whole(execute, bound, images, scratch, buffers, control);
        }
        let (mut all, mut statistics, tiles) = (Vec::new(), Statistics::default(), execute.tiles());
        let mut watch = Watch::new(control, images.len() * tiles);
        for image in images {
            let (found, counts) = watch.part(tiles, true, |control| {
                let tiled = by_tiles.map(|regional| self.tiled(regional, bound, image, scratch, buffers, control));
                match (tiled.transpose()?.flatten(), by_bands) {
                    (Some(found), _) => Ok(found),
                    (None, Some(regional)) => self.banded(regional, bound, image, scratch, buffers, control),
                    (None, None) => self.whole(execute, bound, &[*image], scratch, buffers, control),
                }
            })?;
            all.extend(found);
            statistics.add(counts);
        }
        Ok((all, statistics))
    }

    /// Searches images whose results are computed whole, several at a time.
    fn whole(
        &self,
        execute: &dyn Execute,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        let compute: &mut Compute<'_> = &mut |images, outs, control| {
            execute.execute(bound, images, outs, scratch, control).map_err(|unfinished| unfinished.error)
        };
        match self.spec.out_type() {
            DType::F64 => self.whole_as::<f64>(images, execute.appetite(), buffers, control, compute),
            _ => self.whole_as::<f32>(images, execute.appetite(), buffers, control, compute),
        }
    }

    fn whole_as<T: Pixel>(
        &self,
        images: &[AnyView<'_>],
        appetite: usize,
        buffers: &mut Buffers,
        control: &Control<'_>,
        compute: &mut Compute<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError>
    where
        for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
    {
        let (shape, templates) = (self.spec.out_shape(), self.spec.templates());
        let together = self.together(appetite).clamp(1, images.len().max(1));
        let mut rooms = buffers.take::<T>(together * templates);
        rooms.iter_mut().for_each(|room| room.resize(shape.len(), T::default()));
        let (mut found, mut statistics) = (Vec::new(), Statistics::default());
        let mut watch = Watch::new(control, images.len());
        for group in images.chunks(together) {
            let rooms = &mut rooms[..group.len() * templates];
            let mut outs = views(rooms.iter_mut().map(Vec::as_mut_slice), shape)?;
            // What is not known is in how many steps an image is computed.
            statistics.add(watch.part(group.len(), true, |control| compute(group, &mut outs, control))?);
            found.extend(found_in(self.search, self.workers, rooms));
        }
        buffers.keep(rooms);
        Ok((found, statistics))
    }

    /// Searches an image tile by tile; `None` if more would have to be held of tiles than there is room for.
    fn tiled(
        &self,
        regional: &dyn Regional,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<Option<(Vec<Found>, Statistics)>, ExecError> {
        match self.spec.out_type() {
            DType::F64 => self.tiled_as::<f64>(regional, bound, image, scratch, buffers, control),
            _ => self.tiled_as::<f32>(regional, bound, image, scratch, buffers, control),
        }
    }

    fn tiled_as<T: Pixel>(
        &self,
        regional: &dyn Regional,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<Option<(Vec<Found>, Statistics)>, ExecError>
    where
        for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
    {
        let (workers, templates) = (self.workers.max(1), self.spec.templates());
        let room = self.room(self.tile(regional).0);
        let mut rooms = buffers.take::<T>(workers * templates);
        let full = AtomicBool::new(false);
        let shared: Vec<Mutex<Shared<T>>> = (0..templates).map(|_| Mutex::default()).collect();
        let mut searchers: Vec<Searcher<'_, T>> = rooms
            .chunks_mut(templates.max(1))
            .map(|rooms| {
                let gathered = (0..templates).map(|_| self.search.gathered(room)).collect();
                Searcher { search: self.search, rooms, gathered, shared: &shared, full: &full }
            })
            .collect();
        let mut takers: Vec<&mut dyn Taker> = searchers.iter_mut().map(|one| one as &mut dyn Taker).collect();
        // Tiles that nobody searches are not done.
        let tell = |done: usize, total: usize| {
            if let Some(progress) = control.progress.filter(|_| !full.load(Ordering::Relaxed)) {
                progress(done, total);
            }
        };
        let progress: Option<&(dyn Fn(usize, usize) + Sync)> = control.progress.is_some().then_some(&tell);
        let control = Control { progress, ..*control };
        let statistics = regional.execute_tiles(bound, image, &mut takers, scratch, &control)?;
        let mut gathered: Vec<_> = searchers.into_iter().map(|searcher| searcher.gathered.into_iter()).collect();
        let found = (!full.into_inner()).then(|| {
            let mut next = || gathered.iter_mut().filter_map(Iterator::next).collect();
            (0..templates).map(|_| self.search.found_in_tiles(next())).collect()
        });
        buffers.keep(rooms);
        Ok(found.map(|found| (found, statistics)))
    }

    /// Searches an image whose results are computed band by band.
    fn banded(
        &self,
        regional: &dyn Regional,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        match self.spec.out_type() {
            DType::F64 => self.banded_as::<f64>(regional, bound, image, scratch, buffers, control),
            _ => self.banded_as::<f32>(regional, bound, image, scratch, buffers, control),
        }
    }

    fn banded_as<T: Pixel>(
        &self,
        regional: &dyn Regional,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        scratch: &mut Scratch,
        buffers: &mut Buffers,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError>
    where
        for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
    {
        let (shape, templates) = (self.spec.out_shape(), self.spec.templates());
        let slices = Slices::of(shape);
        let (seams, tiles) = seams(regional, slices.axis);
        let last = seams.len() - 1;
        let reach = self.search.reach().min(slices.count);
        let mut rooms = buffers.take::<T>(self.bands_at_once() * templates);
        let mut before = rooms.split_off(templates);
        let candidates = Mutex::new(vec![vec![self.search.candidates(); templates]; self.workers.max(1)]);
        let mut statistics = Statistics::default();
        let mut watch = Watch::new(control, last * tiles);
        // Slices that the buffers hold, up to which all were searched, and what is left to search of the band before.
        let (mut held, mut searched, mut left) = (0..0usize, 0usize, (0..0usize, 0usize));
        let mut seam = 0;
        while seam < last {
            let next = self.next_seam(&seams, seam, tiles, reach, slices);
            // Those that the search still needs move to the front.
            let begin = searched.saturating_sub(reach).max(held.start);
            let (kept, end) = (held.end - begin, seams[next]);
            let still = (begin - held.start) * slices.len..held.len() * slices.len;
            match before.is_empty() {
                true => rooms.iter_mut().for_each(|room| room.copy_within(still.clone(), 0)),
                false => swap(&mut rooms, &mut before),
            }
            let filled = (end - begin) * slices.len;
            rooms.iter_mut().for_each(|room| grow(room, filled));
            for (room, before) in rooms.iter_mut().zip(&before) {
                room[..still.len()].copy_from_slice(&before[still.clone()]);
            }
            let mut lengths = shape.padded();
            lengths[slices.axis] = end - held.end;
            let band = Shape::new(&shape.unpad(&lengths))?;
            let mut outs = views(rooms.iter_mut().map(|room| &mut room[kept * slices.len..filled]), band)?;
            let band_before = Pieces::new(self.search, &before, left.0, left.1, &candidates);
            let part = watch.part((next - seam) * tiles, false, |control| {
                let region = regional.band(slices.axis, seams[seam]..end);
                let image = AtHand { view: image, skipped: [0; 3] };
                let piece = || band_before.piece();
                let control = Control { beside: Beside::of(&piece), ..*control };
                regional.execute_region(bound, image, &region, &mut outs, scratch, &control)
            });
            statistics.add(part?);
            band_before.finish(self.workers);
            held = begin..end;
            let until = if next == last { slices.count } else { end.saturating_sub(reach).max(searched) };
            left = (searched * slices.len..until * slices.len, begin * slices.len);
            if next == last || before.is_empty() {
                Pieces::new(self.search, &rooms, left.0, left.1, &candidates).finish(self.workers);
                left = (0..0, 0);
            }
            (searched, seam) = (until, next);
        }
        rooms.append(&mut before);
        buffers.keep(rooms);
        Ok((found(self.search, candidates.into_inner().unwrap_or_else(PoisonError::into_inner)), statistics))
    }

    /// The seam up to which to compute after another: so that the buffers stay in the cache, but that all workers have
    /// enough to do, and that what is moved to the front is no more than what is computed.
    fn next_seam(&self, seams: &[usize], from: usize, tiles: usize, reach: usize, slices: Slices) -> usize {
        let last = seams.len() - 1;
        let most = self.band / self.bands_at_once() / self.slice_bytes(slices).max(1);
        let fits = |seam: &usize| {
            let count = seams[*seam] - seams[from];
            let few = (*seam - from) * tiles < 2 * self.workers;
            count <= most || few || count < 2 * reach
        };
        (from + 2..=last).take_while(fits).last().unwrap_or(from + 1)
    }
}

/// What so many threads find in a map, 0 for as many as there are cores; one where it has few positions.
pub(crate) fn found_in_map(search: &Search, threads: usize, scores: &AnyView<'_>) -> Found {
    let workers = match threads {
        _ if scores.shape().len() <= ALONE => 1,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    each_type!(AnyView, scores, view => {
        let gathered;
        let dense = match view.as_dense().filter(|_| view.channels() == 1) {
            Some(dense) => dense,
            None => {
                gathered = view.channel(0).to_vec();
                &gathered
            }
        };
        found_in(search, workers, &[dense]).swap_remove(0)
    })
}

/// A worker's search of the tiles that it computes.
struct Searcher<'a, T> {
    search: &'a Search,
    /// Room for a tile, template by template.
    rooms: &'a mut [Vec<T>],
    /// What was found, template by template.
    gathered: Vec<Gathered<T>>,
    /// The best of all workers, template by template.
    shared: &'a [Mutex<Shared<T>>],
    /// Whether some worker has no room for more.
    full: &'a AtomicBool,
}

impl<T: Pixel> Taker for Searcher<'_, T>
where
    for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
{
    fn room(&mut self, lengths: [usize; 3]) -> Option<Vec<AnyViewMut<'_>>> {
        let full = self.full;
        let shape = Shape::new(&lengths).ok().filter(|_| !full.load(Ordering::Relaxed));
        let rooms = shape.and_then(|shape| {
            self.rooms.iter_mut().for_each(|room| grow(room, shape.len()));
            views(self.rooms.iter_mut().map(|room| &mut room[..shape.len()]), shape).ok()
        });
        if rooms.is_none() {
            // A tile that has none is not searched.
            full.store(true, Ordering::Relaxed);
        }
        rooms
    }

    fn take(&mut self, place: [usize; 3], lengths: [usize; 3]) {
        let tile = Tile { place, lengths };
        for ((room, gathered), shared) in self.rooms.iter_mut().zip(&mut self.gathered).zip(self.shared) {
            self.search.share(gathered, &mut shared.lock().unwrap_or_else(PoisonError::into_inner));
            if !self.search.gather(tile, room, gathered) {
                self.full.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Makes a buffer hold as many, whatever they are.
fn grow<T: Pixel>(room: &mut Vec<T>, len: usize) {
    if room.len() < len {
        room.resize(len, T::default());
    }
}

/// What several workers find in whole results.
pub(crate) fn found_in<T: Pixel>(search: &Search, workers: usize, results: &[impl AsRef<[T]> + Sync]) -> Vec<Found> {
    let candidates = Mutex::new(vec![vec![search.candidates(); results.len()]; workers.max(1)]);
    let positions = 0..results.first().map_or(0, |first| first.as_ref().len());
    Pieces::new(search, results, positions, 0, &candidates).finish(workers);
    found(search, candidates.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Positions of results that are to be searched, piece by piece, by whoever has time.
struct Pieces<'a, T: Pixel, R> {
    search: &'a Search,
    results: &'a [R],
    positions: Range<usize>,
    /// The index of the first result that is at hand.
    first: usize,
    /// The next piece.
    next: AtomicUsize,
    /// What was found, result by result, for each of those who search at a time.
    candidates: &'a Mutex<Vec<Vec<Candidates<T>>>>,
}

impl<'a, T: Pixel, R: AsRef<[T]> + Sync> Pieces<'a, T, R> {
    fn new(
        search: &'a Search,
        results: &'a [R],
        positions: Range<usize>,
        first: usize,
        candidates: &'a Mutex<Vec<Vec<Candidates<T>>>>,
    ) -> Pieces<'a, T, R> {
        Pieces { search, results, positions, first, next: AtomicUsize::new(0), candidates }
    }

    /// Searches a piece, if one is left that nobody has begun.
    fn piece(&self) -> bool {
        let all = || self.candidates.lock().unwrap_or_else(PoisonError::into_inner);
        // A place for what is found comes before the piece's number: nobody takes a piece without one, and pieces come
        // in order into each place, as `Search::look` wants them.
        let Some(mut mine) = all().pop() else { return false };
        let (index, of_one) = (self.next.fetch_add(1, Ordering::Relaxed), self.positions.len().div_ceil(PIECE));
        let there = index < of_one * self.results.len();
        if there {
            let begin = self.positions.start + index % of_one * PIECE;
            let piece = begin..(begin + PIECE).min(self.positions.end);
            self.search.look(self.results[index / of_one].as_ref(), self.first, piece, &mut mine[index / of_one]);
        }
        all().push(mine);
        there
    }

    /// Searches what is left with so many workers.
    fn finish(&self, workers: usize) {
        let pieces = self.positions.len().div_ceil(PIECE) * self.results.len();
        let left = pieces.saturating_sub(self.next.load(Ordering::Relaxed));
        let all = run(&mut vec![(); workers.max(1)], left, &Control::default(), |_, ()| {
            self.piece();
            Statistics::default()
        });
        assert!(all.is_ok(), "nobody cancels this");
    }
}

/// What the workers found in each result.
fn found<T: Pixel>(search: &Search, candidates: Vec<Vec<Candidates<T>>>) -> Vec<Found> {
    let mut workers: Vec<_> = candidates.into_iter().map(Vec::into_iter).collect();
    let results = workers.first().map_or(0, ExactSizeIterator::len);
    (0..results).map(|_| search.found(workers.iter_mut().filter_map(Iterator::next))).collect()
}

/// Buffers as results of a shape.
fn views<'v, T: Pixel>(rooms: impl Iterator<Item = &'v mut [T]>, shape: Shape) -> Result<Vec<AnyViewMut<'v>>, ExecError>
where
    AnyViewMut<'v>: From<ViewMut<'v, T>>,
{
    rooms.map(|room| Ok(ViewMut::new(room, shape)?.into())).collect()
}

/// Progress and cancelling of a run that is done in parts.
struct Watch<'a> {
    control: &'a Control<'a>,
    done: usize,
    total: usize,
}

impl<'a> Watch<'a> {
    fn new(control: &'a Control<'a>, total: usize) -> Watch<'a> {
        Watch { control, done: 0, total }
    }

    /// Runs a part of so many steps, counted among those of the whole; `scaled`, where the part counts steps of its
    /// own.
    fn part<R>(
        &mut self,
        steps: usize,
        scaled: bool,
        part: impl FnOnce(&Control<'_>) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let (before, total) = (self.done, self.total);
        let here = |now: usize, of: usize| before + if scaled { now * steps / of.max(1) } else { now };
        let tell = |now: usize, of: usize| {
            self.control.progress.iter().for_each(|progress| progress(here(now, of), total));
        };
        let progress: Option<&(dyn Fn(usize, usize) + Sync)> =
            if self.control.progress.is_some() { Some(&tell) } else { None };
        let done = part(&Control { progress, ..*self.control }).map_err(|error| match error {
            ExecError::Cancelled { done, total: of } => ExecError::Cancelled { done: here(done, of), total },
            error => error,
        })?;
        self.done += steps;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::matcher::Matcher;
    use crate::plan::settings::Planner;
    use crate::plan::solver::Method;
    use crate::run::execute::CancelToken;
    use flcc_core::dtype::Pixels;
    use flcc_core::error::Kind;
    use flcc_core::peaks::PeakOptions;
    use flcc_core::subpixel::Subpixel;
    use proptest::prelude::*;

    /// Samples of few levels, so that scores are equal, some no numbers.
    fn noise(spec: &Spec, count: usize, seed: u64) -> Pixels {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state >> 53 == 0 { f64::NAN } else { ((state >> 40) % 5) as f64 }
        };
        Pixels::F64((0..count).map(|_| draw()).collect()).cast(spec.image_type())
    }

    const SPECS: [&str; 8] = [
        "zncc:f32:3@90x70*2@7x6:valid",
        "ssd:u8:50x61*5x5:same,reflect",
        "ncc:f64:3000*9:full",
        "zncc:u8:2@20x21x22*3x4x5:valid",
        "sad:f32:64x300*3x70:valid,roi=10,90:40x150",
        "corr:f32:1x4000*1x31:valid",
        "zncc:f32:200x12*20x12:valid",
        "nssd:u16:4x60x30*4x3x3:valid",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn bands_have_the_peaks_of_the_map(
            text in prop::sample::select(&SPECS[..]),
            method in prop::sample::select(&[Method::Direct, Method::Fourier, Method::Auto][..]),
            (seed, threads, band) in (0u64..1000, 1usize..4, 0usize..20_000),
            top in prop::option::of(0usize..9),
            threshold in prop::option::of(-0.5f64..0.9),
            (min_distance, exclude_border) in (prop::option::of(0usize..30), 0usize..4),
            subpixel in prop::option::of(prop::sample::select(&Subpixel::ALL[..])),
        ) {
            let spec: Spec = text.parse().unwrap();
            let images: Vec<Pixels> =
                (0..spec.images().max(1)).map(|k| noise(&spec, spec.image().len(), seed + 31 * k as u64)).collect();
            let views: Vec<AnyView<'_>> =
                images.iter().map(|image| AnyView::dense(image, spec.image(), 1).unwrap()).collect();
            let templates: Vec<AnyView<'_>> = (0..spec.templates())
                .map(|k| views[0].part([0, 0, k], spec.template()).unwrap())
                .collect();
            // What there is no such method for, or templates with a NaN, show nothing.
            let planner = Planner::new().unwrap().threads(threads).method(method);
            prop_assume!(method != Method::Fourier || !text.starts_with("sad"));
            let matcher = planner.plan(&spec).unwrap().bind(&templates, None);
            prop_assume!(!matches!(&matcher, Err(ExecError::Spec(error)) if error.kind == Kind::NonfiniteTemplate));
            let matcher = matcher.unwrap();
            let options = PeakOptions { top, threshold, min_distance, exclude_border, subpixel };
            let maps = matcher.execute(&views).unwrap();
            let search = Search::of(&spec, options).with_optimum(true);
            let expected: Vec<Found> = maps.iter().map(|map| search.in_view(&map.view())).collect();
            let steps = Mutex::new(Vec::new());
            let progress = |done: usize, total: usize| steps.lock().unwrap().push((done, total));
            let control = Control { progress: Some(&progress), ..Control::default() };
            let found = matcher.search_in(&views, &options, true, &control, Some(band)).unwrap().0;
            prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            let steps = steps.into_inner().unwrap();
            prop_assert!(steps.iter().any(|(done, total)| done == total));
            prop_assert!(steps.iter().all(|(done, total)| done <= total));
        }
    }

    #[test]
    fn a_search_that_is_cancelled_says_so_and_the_next_one_is_right() {
        let spec: Spec = "zncc:f32:1500x300*7x6:valid".parse().unwrap();
        let image = noise(&spec, spec.image().len(), 5);
        let view = AnyView::dense(&image, spec.image(), 1).unwrap();
        let template = Pixels::F64((0..spec.template().len()).map(|tap| (tap * tap % 11) as f64).collect());
        let template = template.cast(spec.template_type());
        let template = AnyView::dense(&template, spec.template(), 1).unwrap();
        let options = PeakOptions { top: Some(5), min_distance: Some(4), ..PeakOptions::default() };
        for threads in [1, 3] {
            let planner = Planner::new().unwrap().threads(threads).method(Method::Direct);
            let matcher = planner.plan(&spec).unwrap().bind(&[template], None).unwrap();
            let token = CancelToken::default();
            let progress = |_: usize, _: usize| token.cancel();
            let control = Control { progress: Some(&progress), cancel: Some(&token), ..Control::default() };
            let search = |control: &Control<'_>| matcher.search_in(&[view], &options, true, control, Some(4000));
            let ended = search(&control).map(|(found, _)| found);
            assert!(matches!(ended, Err(ExecError::Cancelled { done, total }) if done < total), "{ended:?}");
            let expected =
                Search::of(&spec, options).with_optimum(true).in_view(&matcher.execute(&[view]).unwrap()[0].view());
            let found = search(&Control::default()).unwrap().0;
            assert_eq!(format!("{found:?}"), format!("{:?}", [expected]));
        }
    }

    /// A result of many tiles, and whether its searcher takes them one by one.
    fn by_tiles(text: &str, threads: usize, method: Method, options: &PeakOptions, band: usize) -> (Matcher, bool) {
        let spec: Spec = text.parse().unwrap();
        let plan = Planner::new().unwrap().threads(threads).method(method).plan(&spec).unwrap();
        let template = |seed: usize| {
            let taps = (0..spec.template().len()).map(|tap| ((tap * (tap + seed)) % 11) as f64);
            Pixels::F64(taps.collect()).cast(spec.template_type())
        };
        let templates: Vec<Pixels> = (0..spec.templates()).map(template).collect();
        let views: Vec<AnyView<'_>> =
            templates.iter().map(|taps| AnyView::dense(taps, spec.template(), 1).unwrap()).collect();
        let matcher = plan.bind(&views, None).unwrap();
        let search = Search::of(&spec, *options);
        let searching = Searching::new(&spec, &search, threads).with_band(Some(band));
        let taken = searching.needs_bands() && searching.takes_tiles(matcher.regional().unwrap().0, 1);
        (matcher, taken)
    }

    #[test]
    fn tiles_have_the_peaks_of_the_map() {
        let (all, band) = (PeakOptions::default(), 3 << 19);
        let best = PeakOptions { top: Some(1), ..all };
        let options = [
            (best, true),
            (PeakOptions { top: Some(16), ..all }, true),
            (PeakOptions { top: Some(2), exclude_border: 3, threshold: Some(0.1), ..all }, true),
            (PeakOptions { top: Some(5), min_distance: Some(0), ..all }, true),
            (PeakOptions { threshold: Some(0.5), ..all }, true),
            // More than is held of it, near the seams of all tiles or in the first one: the bands take over.
            (PeakOptions { threshold: Some(0.25), ..all }, true),
            (PeakOptions { threshold: Some(-0.9), ..all }, true),
            (PeakOptions { top: Some(0), ..all }, true),
            (PeakOptions { subpixel: Some(Subpixel::default()), ..best }, false),
            (all, false),
        ];
        for (text, method) in [
            ("zncc:f32:900x1100*9x8:valid", Method::Fourier),
            ("zncc:u8:700x900*2@6x6:valid", Method::Direct),
            ("ssd:u16:40x120x120*3x4x4:valid", Method::Direct),
            ("zncc:f32:1000000*30:valid", Method::Fourier),
            ("zncc:f64:600000*30:full", Method::Fourier),
        ] {
            let spec: Spec = text.parse().unwrap();
            let image = noise(&spec, spec.image().len(), 3);
            let view = AnyView::dense(&image, spec.image(), 1).unwrap();
            for (options, taken) in options {
                for threads in [1, 3] {
                    let (matcher, takes) = by_tiles(text, threads, method, &options, band);
                    assert_eq!(takes, taken, "{text} {options:?}: {}", matcher.kernel());
                    let search = Search::of(&spec, options).with_optimum(true);
                    let maps = matcher.execute(&[view]).unwrap();
                    let expected: Vec<Found> = maps.iter().map(|map| search.in_view(&map.view())).collect();
                    let steps = Mutex::new(Vec::new());
                    let progress = |done: usize, total: usize| steps.lock().unwrap().push((done, total));
                    let control = Control { progress: Some(&progress), ..Control::default() };
                    let (found, counts) = matcher.search_in(&[view], &options, true, &control, Some(band)).unwrap();
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{text} {options:?} {threads}");
                    assert_eq!(counts.panels, (maps.len() * maps[0].shape().len()) as u64);
                    let steps = steps.into_inner().unwrap();
                    let total = steps[0].1;
                    assert!(steps.contains(&(total, total)));
                    assert!(steps.len() >= total);
                }
            }
        }
    }

    #[test]
    fn a_search_by_tiles_is_cancelled_as_any_run() {
        let (text, options) = ("zncc:f32:900x1100*9x8:valid", PeakOptions { top: Some(3), ..PeakOptions::default() });
        let image = noise(&text.parse().unwrap(), 900 * 1100, 5);
        let view = AnyView::dense(&image, Shape::new(&[900, 1100]).unwrap(), 1).unwrap();
        for threads in [1, 2] {
            let (matcher, takes) = by_tiles(text, threads, Method::Direct, &options, 3 << 19);
            let token = CancelToken::default();
            let progress = |_: usize, _: usize| token.cancel();
            let control = Control { progress: Some(&progress), cancel: Some(&token), ..Control::default() };
            let ended = matcher.search_in(&[view], &options, true, &control, Some(3 << 19)).map(|(found, _)| found);
            assert!(takes && matches!(ended, Err(ExecError::Cancelled { done, total }) if done < total), "{ended:?}");
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_image() {
        let options = PeakOptions { top: Some(4), min_distance: Some(4), ..PeakOptions::default() };
        let bytes = |text: &str| {
            let plan = Planner::new().unwrap().threads(2).plan(&text.parse().unwrap()).unwrap();
            plan.peaks_bytes(&options)
        };
        for text in
            ["zncc:f32:20000x2000*32x32:valid", "zncc:u8:100000000*500:valid", "zncc:f32:900x300x300*9x9x9:valid"]
        {
            assert!(bytes(text) <= 2 * band(2), "{text}: {}", bytes(text));
        }
        // Of small images several at a time.
        assert!(bytes("zncc:u8:64x64*16x16:valid") <= band(2));
    }
}
