//! Units that search what they compute, so that no map crosses to the host.

use flcc_core::dtype::{DType, Pixel};
use flcc_core::peaks::{Found, Search};
use flcc_core::view::AnyView;

use crate::cuda::bound::DeviceTemplates;
use crate::cuda::driver::buffer::{Buffer, Plain, bytes_of_mut};
use crate::cuda::driver::launch::{Argument, BestView};
use crate::cuda::fault::Fault;
use crate::cuda::reduction::{Kernels, Reduction, THREADS, Work};
use crate::cuda::rooms::Room;
use crate::cuda::schedule::Device;
use crate::cuda::slot::Slot;
use crate::cuda::unit::Unit;
use crate::run::device_image::DeviceImage;
use crate::run::execute::{Copies, Statistics};
use crate::run::search::found_in;

/// What a device said of the results of a group.
struct Told {
    /// Peaks of each result that are asked for, best first, by index and score.
    places: Vec<Vec<(usize, f64)>>,
    /// The best score of each and how many positions attain it.
    optimum: Vec<Option<(f64, usize)>>,
}

/// A unit that searches what it computes: of a group of images it tells what was found in each result.
pub(crate) struct Searcher<'a> {
    unit: &'a Unit,
    search: &'a Search,
    out: DType,
    reduction: Option<Reduction>,
    kernels: Option<&'a Kernels>,
}

impl<'a> Searcher<'a> {
    /// A search by a unit. Where the device has no room for it, or no kernels, results cross to the host.
    pub fn new(unit: &'a Unit, search: &'a Search) -> Searcher<'a> {
        let out = unit.out_type();
        let reduction = Reduction::new(&search.sought(out), out, unit.group() * unit.templates());
        let reduction = reduction.filter(|reduction| unit.slots() * reduction.bytes() <= unit.spare_bytes());
        let kernels = reduction.and_then(|_| unit.peaks().ok());
        Searcher { unit, search, out, reduction: reduction.filter(|_| kernels.is_some()), kernels }
    }

    /// Puts the search of so many results of a slot into its queue; without room on the device there is none.
    fn reduce(&self, slot: &mut Slot, count: usize) -> Result<(), Fault> {
        let (Some(reduction), Some(kernels)) = (&self.reduction, self.kernels) else { return Ok(()) };
        let (stream, results) = (slot.stream.clone(), slot.rooms[Room::Result].address(&slot.stream));
        if slot.peaks.as_ref().is_none_or(|work| work.made_for != *reduction) {
            slot.peaks = None;
            slot.peaks = Work::new(self.unit.gpu(), &stream, reduction).ok();
        }
        match &mut slot.peaks {
            Some(work) => reduction.submit(kernels, work, &stream, results, count),
            None => Ok(()),
        }
    }

    /// What the device told of so many results, when its stream was waited for; `None` where there are too many peaks.
    fn told(&self, slot: &Slot, count: usize) -> Option<Told> {
        let (reduction, work) = (self.reduction.as_ref()?, slot.peaks.as_ref()?);
        let scores = reduction.view.scores as usize;
        let best = (0..if reduction.best { count } else { 0 }).map(|result| work.best.read(result));
        let best: Vec<_> = best.map(|best| (best.count > 0).then_some(best)).collect();
        let mut places = vec![Vec::new(); count];
        if reduction.lists {
            let found = work.count.read(0) as usize;
            if found > reduction.room() {
                return None;
            }
            for place in (0..found).map(|number| work.list.read(number)) {
                let index = place.index as usize;
                places.get_mut(index / scores)?.push((index % scores, place.score));
            }
        } else {
            for (places, best) in places.iter_mut().zip(&best) {
                let asked = best.filter(|best| {
                    self.search.sought(self.out).best_alone && self.search.reaches(best.score, self.out)
                });
                places.extend(asked.map(|best| (best.first as usize, best.score)));
            }
        }
        let counted = |best: &Option<BestView>| best.map(|best| (best.score, best.count as usize));
        let asked = self.search.sought(self.out).optimum;
        let optimum = (0..count).map(|result| best.get(result).and_then(counted).filter(|_| asked)).collect();
        Some(Told { places: places.into_iter().map(|places| self.search.keep(places)).collect(), optimum })
    }

    /// What was found, where the device told it; `None` where results have to cross.
    fn found<T: Pixel + Plain>(&self, slot: &Slot, count: usize) -> Result<Option<Vec<Found>>, Fault> {
        let (Some(told), Some(reduction)) = (self.told(slot, count), &self.reduction) else { return Ok(None) };
        let windows = match self.search.window_reach() {
            None => Vec::new(),
            Some(reach) => match self.windows::<T>(slot, reduction, &told.places, reach)? {
                Some(windows) => windows,
                None => return Ok(None),
            },
        };
        let (mut windows, mut found) = (windows.into_iter(), Vec::with_capacity(count));
        for (places, optimum) in told.places.iter().zip(told.optimum) {
            let own: Vec<Vec<f64>> = windows.by_ref().take(places.len()).collect();
            found.push(self.search.found_apart(places, &own, optimum));
        }
        Ok(Some(found))
    }

    /// The scores around all places; `None` where these are more than the results.
    fn windows<T: Pixel + Plain>(
        &self,
        slot: &Slot,
        reduction: &Reduction,
        places: &[Vec<(usize, f64)>],
        reach: usize,
    ) -> Result<Option<Vec<Vec<f64>>>, Fault> {
        let (stream, each) = (&slot.stream, reduction.view.scores as usize);
        let sides = reduction.view.lengths.map(|length| if length > 1 { 2 * reach + 1 } else { 1 });
        let volume: usize = sides.iter().product();
        let of_result = |(result, places): (usize, &Vec<(usize, f64)>)| {
            places.iter().map(|place| (result * each + place.0) as u64).collect::<Vec<_>>()
        };
        let all: Vec<u64> = places.iter().enumerate().flat_map(of_result).collect();
        let Some(kernels) = self.kernels.filter(|_| all.len() * volume <= places.len() * each) else { return Ok(None) };
        if all.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let mut boxes = vec![T::default(); all.len() * volume];
        let made = Buffer::of(stream, &all).and_then(|made| Ok((made, Buffer::new(stream, size_of_val(&boxes[..]))?)));
        // Without room for them results cross as well.
        let Ok((indices, out)) = made else { return Ok(None) };
        let arguments = [
            Argument::Room(slot.rooms[Room::Result].address(stream), places.len() * each * reduction.size),
            Argument::Sought(&reduction.view),
            Argument::Int(reach as i32),
            Argument::Room(indices.address(stream), size_of_val(&all[..])),
            Argument::Room(out.address(stream), size_of_val(&boxes[..])),
        ];
        stream.launch(&kernels.windows, [all.len() as u32, 1, 1], [THREADS, 1], &arguments)?;
        out.read(stream, 0, bytes_of_mut(&mut boxes))?;
        let window = |(index, own): (&u64, &[T])| self.inside_of(*index as usize % each, sides, own);
        Ok(Some(all.iter().zip(boxes.chunks(volume)).map(window).collect()))
    }

    /// What of the box around a place lies in the result: the scores of its window.
    fn inside_of<T: Pixel>(&self, index: usize, sides: [usize; 3], scores: &[T]) -> Vec<f64> {
        let Some(window) = self.search.window(index) else { return Vec::new() };
        let at = self.search.position(index);
        let skipped = [0, 1, 2].map(|axis| window[axis].start + sides[axis] / 2 - at[axis]);
        let mut values = Vec::new();
        for (z, y) in window[0].clone().flat_map(|z| window[1].clone().map(move |y| (z, y))) {
            let row = (skipped[0] + z - window[0].start) * sides[1] + skipped[1] + y - window[1].start;
            let begin = row * sides[2] + skipped[2];
            values.extend(scores[begin..begin + window[2].len()].iter().map(|score| score.to_f64()));
        }
        values
    }

    /// What the host finds in results, one after the other, by all its threads.
    fn on_host<T: Pixel + Plain>(&self, slot: &Slot, count: usize) -> Result<Vec<Found>, Fault> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut scores = vec![vec![T::default(); self.unit.out_shape().len()]];
        let one = |result: usize| {
            let bytes = bytes_of_mut(&mut scores[0]);
            slot.rooms[Room::Result].read(&slot.stream, result * bytes.len(), bytes)?;
            Ok(found_in(self.search, workers, &scores).pop().unwrap_or_default())
        };
        (0..count).map(one).collect()
    }

    fn collect_as<T: Pixel + Plain>(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        found: &mut [Found],
    ) -> Result<Statistics, Fault> {
        if self.unit.look_again(slot, bound)? {
            self.reduce(slot, found.len())?;
        }
        let statistics = self.unit.statistics(slot, found.len())?;
        let all = match self.found::<T>(slot, found.len())? {
            Some(all) => all,
            None => self.on_host::<T>(slot, found.len())?,
        };
        found.iter_mut().zip(all).for_each(|(to, found)| *to = found);
        Ok(statistics)
    }
}

impl Searcher<'_> {
    /// Puts an image that lies on the device into a slot's queue; as [`Device::submit`].
    ///
    /// # Errors
    /// The device's.
    pub fn submit_resident(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        image: &DeviceImage<'_>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        Ok(self.unit.submit_resident(slot, bound, image, None, go_on)? && {
            self.reduce(slot, self.unit.templates())?;
            true
        })
    }
}

impl Device<Found> for Searcher<'_> {
    type Slot = Slot;
    type Bound = DeviceTemplates;

    fn number(&self) -> usize {
        self.unit.device()
    }

    fn tiles(&self) -> usize {
        self.unit.tiles()
    }

    fn group(&self) -> usize {
        self.unit.group()
    }

    fn slots(&self) -> usize {
        self.unit.slots()
    }

    fn slot(&self) -> Result<Slot, Fault> {
        self.unit.slot()
    }

    fn submit(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        (images, found): (&[AnyView<'_>], &mut [Found]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        Ok(self.unit.enter(slot, bound, (images, &mut []), copies, go_on)? && {
            self.reduce(slot, found.len())?;
            true
        })
    }

    fn collect(&self, slot: &mut Slot, bound: &DeviceTemplates, found: &mut [Found]) -> Result<Statistics, Fault> {
        match self.out {
            DType::F64 => self.collect_as::<f64>(slot, bound, found),
            _ => self.collect_as::<f32>(slot, bound, found),
        }
    }

    fn settle(slot: &Slot) {
        slot.settle();
    }
}
