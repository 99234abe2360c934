//! Execution on GPUs: the units of one or several devices as one executor.

use std::any::Any;
use std::sync::Arc;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::peaks::{Found, Search};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::cuda::bound::DeviceTemplates;
use crate::cuda::decisions::Decisions;
use crate::cuda::fault::Fault;
use crate::cuda::laid;
use crate::cuda::paired::Paired;
use crate::cuda::schedule::{self, Device, Seat};
use crate::cuda::searcher::Searcher;
use crate::cuda::slot::Slot;
use crate::cuda::unit::Unit;
use crate::problem::template::{Checked, Weights};
use crate::run::device_image::{DeviceImage, DevicePairs, DeviceResults, Enqueued};
use crate::run::execute::{
    CancelToken, Clocked, Control, Copies, DeviceTime, Execute, Owner, Pairs, Scratch, Statistics, Unfinished,
    pairs_in_turn,
};

/// What the scratch of a run is made of.
type Seats = Vec<Seat<Slot>>;

/// A method on one or several GPUs, for one spec.
pub struct CudaExecute {
    owner: Owner,
    templates: usize,
    units: Vec<Unit>,
}

impl CudaExecute {
    /// Opens the devices and makes everything that depends on the spec alone.
    ///
    /// # Errors
    /// A device's, or NVRTC's.
    pub fn new(spec: &Spec, decisions: Vec<Decisions>) -> Result<CudaExecute, Fault> {
        let unit = |decisions: Decisions| {
            let device = decisions.device.index;
            Unit::new(spec, decisions).map_err(|fault| fault.on(device))
        };
        let mut units = decisions.into_iter().map(unit).collect::<Result<Vec<_>, _>>()?;
        let group = units.iter().map(Unit::group).min().unwrap_or(1);
        units.iter_mut().for_each(|unit| unit.limit_group(group));
        Ok(CudaExecute { owner: Owner::new(), templates: spec.templates(), units })
    }

    fn group(&self) -> usize {
        self.units.first().map_or(1, Unit::group)
    }

    /// The number of the unit of a device.
    fn unit_of(&self, argument: &str, device: usize) -> Result<usize, SpecError> {
        let unit = self.units.iter().position(|unit| unit.device() == device);
        unit.ok_or_else(|| SpecError::new(argument, "one on a device of the plan", format!("device {device}")))
    }

    fn tiles_of_image(&self) -> usize {
        self.units.first().map_or(0, Unit::tiles)
    }

    /// Work on one image that asks before each batch whether to go on, with progress when it is done; nothing comes of
    /// it where it was cancelled.
    fn watched(
        &self,
        control: &Control<'_>,
        work: impl FnOnce(&mut dyn FnMut(usize) -> bool) -> Result<Option<Statistics>, ExecError>,
    ) -> Result<Statistics, ExecError> {
        let total = self.tiles_of_image();
        let mut go_on = |_| !control.cancel.is_some_and(CancelToken::is_cancelled);
        let statistics = work(&mut go_on)?.ok_or(ExecError::Cancelled { done: 0, total })?;
        control.progress.iter().for_each(|progress| progress(total, total));
        Ok(statistics)
    }

    /// What was bound, and the seats of a scratch.
    fn seated<'b, 's>(
        &self,
        bound: &'b (dyn Any + Send + Sync),
        scratch: &'s mut Scratch,
    ) -> Result<(&'b Vec<DeviceTemplates>, &'s mut Seats), Box<Unfinished>> {
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        Ok((bound.downcast_ref().ok_or_else(foreign)?, seats))
    }

    /// Runs `work` on the unit of an image's device, with what was bound there and a slot; no slot is left where it
    /// fails.
    fn resident<R>(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &DeviceImage<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(&Unit, &DeviceTemplates, &mut Slot) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let bound: &Vec<DeviceTemplates> = bound.downcast_ref().ok_or_else(foreign)?;
        self.there(image, scratch, |number, unit, slot| work(unit, &bound[number], slot))
    }

    /// Runs `work` on the unit of an image's device, with its number and a slot; no slot is left where it fails.
    fn there<R>(
        &self,
        image: &DeviceImage<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(usize, &Unit, &mut Slot) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        let unit = self.unit_of("image", image.device())?;
        let index = match seats.iter().position(|seat| seat.unit == unit) {
            Some(index) => index,
            None => {
                let slot = self.units[unit].slot().map_err(|fault| fault.on(image.device()))?;
                seats.push(Seat { unit, slot });
                seats.len() - 1
            }
        };
        let result = work(unit, &self.units[unit], &mut seats[index].slot);
        if result.is_err() {
            seats.iter().for_each(|seat| seat.slot.settle());
            seats.clear();
        }
        result
    }
}

/// What is told of templates that another plan bound.
fn foreign() -> SpecError {
    SpecError::new("templates", "those bound to this plan", "those of another")
}

/// Refuses a unit that does not compute pairs where they lie.
fn taking_pairs(unit: &Unit) -> Result<(), SpecError> {
    match unit.takes_pairs() {
        true => Ok(()),
        false => Err(SpecError::new("plan", "one whose kernel takes pairs where they lie", "one that binds templates")),
    }
}

impl<'o> Device<AnyViewMut<'o>> for Unit {
    type Slot = Slot;
    type Bound = DeviceTemplates;

    fn number(&self) -> usize {
        self.device()
    }

    fn tiles(&self) -> usize {
        Unit::tiles(self)
    }

    fn group(&self) -> usize {
        Unit::group(self)
    }

    fn slots(&self) -> usize {
        Unit::slots(self)
    }

    fn slot(&self) -> Result<Slot, Fault> {
        Unit::slot(self)
    }

    fn submit(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        group: (&[AnyView<'_>], &mut [AnyViewMut<'o>]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        Unit::submit(self, slot, bound, group, copies, go_on)
    }

    fn collect(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        outs: &mut [AnyViewMut<'o>],
    ) -> Result<Statistics, Fault> {
        Unit::collect(self, slot, bound, outs)
    }

    fn settle(slot: &Slot) {
        slot.settle();
    }
}

/// A unit that computes pairs.
struct PairedUnit<'u>(&'u Unit);

impl<'a, 'o> Device<Paired<'a, 'o>> for PairedUnit<'_> {
    type Slot = Slot;
    type Bound = ();

    fn number(&self) -> usize {
        self.0.device()
    }

    /// Progress is in pairs.
    fn tiles(&self) -> usize {
        1
    }

    fn group(&self) -> usize {
        self.0.group()
    }

    fn slots(&self) -> usize {
        self.0.slots()
    }

    fn slot(&self) -> Result<Slot, Fault> {
        self.0.slot()
    }

    fn submit(
        &self,
        slot: &mut Slot,
        (): &(),
        group: (&[AnyView<'_>], &mut [Paired<'a, 'o>]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        self.0.submit_paired(slot, group, copies, go_on)
    }

    fn collect(&self, slot: &mut Slot, (): &(), pairs: &mut [Paired<'a, 'o>]) -> Result<Statistics, Fault> {
        self.0.collect_paired(slot, pairs)
    }

    fn settle(slot: &Slot) {
        slot.settle();
    }
}

impl Execute for CudaExecute {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let bind = |unit: &Unit| unit.bind(&checked, &weights).map_err(|fault| fault.on(unit.device()));
        let bound: Vec<DeviceTemplates> = self.units.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Arc::new(bound))
    }

    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        self.units.first()?.rank(checked, weights, limit)
    }

    fn scratch_bytes(&self, _workers: usize) -> usize {
        self.units.iter().map(|unit| unit.slots() * unit.slot_bytes()).sum()
    }

    fn template_bytes(&self) -> usize {
        self.units.iter().map(Unit::template_bytes).sum()
    }

    fn tiles(&self) -> usize {
        self.tiles_of_image()
    }

    fn appetite(&self) -> usize {
        self.group() * self.units.iter().map(Unit::slots).sum::<usize>()
    }

    fn scratch(&self, _workers: usize, _results: usize) -> Scratch {
        Scratch::new(self.owner, Vec::<Seat<Slot>>::new(), 0, self.scratch_bytes(1))
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let (bound, seats) = self.seated(bound, scratch)?;
        schedule::run(&self.units, bound, images, outs, seats, control)
    }

    fn search(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Option<Result<Statistics, Box<Unfinished>>> {
        let searchers: Vec<Searcher<'_>> = self.units.iter().map(|unit| Searcher::new(unit, search)).collect();
        let run = self.seated(bound, scratch);
        Some(run.and_then(|(bound, seats)| schedule::run(&searchers, bound, images, found, seats, control)))
    }

    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let mut statistics = Statistics::default();
        for (image, outs) in images.iter().zip(outs.chunks_mut(self.templates)) {
            let named = |fault: Fault| fault.on(image.device());
            statistics.add(self.resident(bound, image, scratch, |unit, bound, slot| {
                unit.submit_resident(slot, bound, image, None, &mut |_| true).map_err(named)?;
                Ok(unit.collect(slot, bound, outs).map_err(named)?)
            })?);
        }
        Ok(statistics)
    }

    fn execute_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &DeviceImage<'_>,
        out: &mut DeviceResults<'_>,
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let named = |fault: Fault| fault.on(image.device());
        self.watched(control, |go_on| {
            self.resident(bound, image, scratch, |unit, bound, slot| {
                Ok(match unit.submit_resident(slot, bound, image, Some(out), go_on).map_err(named)? {
                    true => Some(unit.collect_resident(slot, bound).map_err(named)?),
                    false => None,
                })
            })
        })
    }

    fn queue(&self, device: usize) -> Result<Scratch, ExecError> {
        let unit = self.unit_of("device", device)?;
        let slot = self.units[unit].slot().map_err(|fault| fault.on(device))?;
        Ok(Scratch::new(self.owner, vec![Seat { unit, slot }], 0, self.units[unit].slot_bytes()))
    }

    fn enqueue(
        &self,
        bound: &(dyn Any + Send + Sync),
        run: Enqueued<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), ExecError> {
        let device = run.images.first().device();
        let (bound, seats) = self.seated(bound, scratch).map_err(|unfinished| unfinished.error)?;
        let Some(Seat { unit, slot }) = seats.first_mut().filter(|seat| self.units[seat.unit].device() == device)
        else {
            return Err(SpecError::new("images", "images on the queue's device", format!("device {device}")).into());
        };
        Ok(self.units[*unit].enqueue(slot, &bound[*unit], run).map_err(|fault| fault.on(device))?)
    }

    fn unserved(&self, scratch: &mut Scratch, forget: bool) -> Result<bool, SpecError> {
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        Ok(seats.iter_mut().any(|seat| seat.slot.unserved(forget)))
    }

    fn time_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[DeviceImage<'_>],
        outs: &mut [DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<DeviceTime, ExecError> {
        let [first, ..] = images else {
            return Err(SpecError::new("images", "at least one", "none").into());
        };
        self.resident(bound, first, scratch, |unit, bound, slot| {
            let time = unit.time_resident(slot, bound, images, outs, runs);
            Ok(time.map_err(|fault| fault.on(first.device()))?)
        })
    }

    fn clock<'a>(&'a self, bound: &Arc<dyn Any + Send + Sync>, images: &[AnyView<'_>]) -> Clocked<'a> {
        laid::clock(&self.units, Arc::clone(bound).downcast().map_err(|_| foreign())?, images)
    }

    fn clock_of_pairs<'a>(&'a self, pairs: &Pairs<'_>) -> Clocked<'a> {
        if !self.units.iter().all(Unit::takes_pairs) {
            return Ok(None);
        }
        laid::clock_of_pairs(&self.units, pairs)
    }

    fn search_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &DeviceImage<'_>,
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let named = |fault: Fault| fault.on(image.device());
        self.watched(control, |go_on| {
            self.resident(bound, image, scratch, |unit, bound, slot| {
                let searcher = Searcher::new(unit, search);
                Ok(match searcher.submit_resident(slot, bound, image, go_on).map_err(named)? {
                    true => Some(searcher.collect(slot, bound, found).map_err(named)?),
                    false => None,
                })
            })
        })
    }

    /// By one kernel for many, where there is such a kernel. What that does not serve is bound and computed by itself.
    fn execute_pairs(
        &self,
        pairs: &Pairs<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        if !self.units.iter().all(Unit::takes_pairs) {
            return pairs_in_turn(self, pairs, 0..outs.len(), outs, scratch, control);
        }
        let units: Vec<PairedUnit<'_>> = self.units.iter().map(PairedUnit).collect();
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        let all = pairs.templates.iter().zip(outs.iter_mut());
        let mut paired: Vec<_> = all.map(|(template, out)| Paired { template, out, again: false }).collect();
        let run = schedule::run(&units, &vec![(); units.len()], pairs.images, &mut paired, seats, control);
        let statistics = run.map_err(|unfinished| unfinished.error)?;
        let again = paired.iter().enumerate().filter(|(_, pair)| pair.again).map(|(number, _)| number);
        let again: Vec<usize> = again.collect();
        pairs_in_turn(self, pairs, again, outs, scratch, &Control { progress: None, ..*control })?;
        Ok(statistics)
    }

    fn execute_pairs_on_device(
        &self,
        pairs: &DevicePairs<'_>,
        out: &mut DeviceResults<'_>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let named = |fault: Fault| fault.on(pairs.images.device());
        self.there(&pairs.images, scratch, |_, unit, slot| {
            taking_pairs(unit)?;
            unit.submit_paired_resident(slot, pairs, out).map_err(named)?;
            unit.collect_paired_resident(slot, pairs, weights)
        })
    }

    fn time_pairs_on_device(
        &self,
        pairs: &[DevicePairs<'_>],
        outs: &mut [DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<DeviceTime, ExecError> {
        let [first, ..] = pairs else {
            return Err(SpecError::new("images", "at least one", "none").into());
        };
        self.there(&first.images, scratch, |_, unit, slot| {
            taking_pairs(unit)?;
            let time = unit.time_paired_resident(slot, pairs, outs, runs);
            Ok(time.map_err(|fault| fault.on(first.images.device()))?)
        })
    }

    fn devices(&self) -> Vec<usize> {
        self.units.iter().map(Unit::device).collect()
    }

    fn describe(&self) -> Vec<String> {
        self.units.iter().flat_map(Unit::describe).collect()
    }
}
