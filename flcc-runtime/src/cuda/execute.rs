//! Execution on GPUs: groups of images to the slots of one or several devices, results in the order of the images.
//!
//! A device that fails is left out, and what it had is computed by the others, where the caller watches failures
//! ([`Control::failed`]); else it is the run's error.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use super::Fault;
use super::buffer::DeviceImage;
use super::unit::{Bound, Decisions, SLOTS, Slot, Unit};
use crate::cpu::bind::{Checked, Weights};
use crate::cpu::tile::Statistics;
use crate::exec::{CancelToken, Control, Execute, Owner, Scratch, Unfinished};

/// A method on one or several GPUs, for one spec.
pub struct CudaExecute {
    owner: Owner,
    templates: usize,
    units: Vec<Unit>,
}

/// A slot and the unit that it belongs to.
struct Seat {
    unit: usize,
    slot: Slot,
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

    fn tiles_of_image(&self) -> usize {
        self.units.first().map_or(0, Unit::tiles)
    }
}

/// One run: groups of images given to the seats of the units that are there, and their results taken.
struct Run<'r> {
    execute: &'r CudaExecute,
    bound: &'r [Bound],
    images: &'r [AnyView<'r>],
    control: &'r Control<'r>,
    seats: &'r mut Vec<Seat>,
    /// Slots that each unit may have: none once it was given up.
    slots: Vec<usize>,
    /// Groups that wait for a seat.
    queue: VecDeque<usize>,
    /// Seats that are busy and their groups, those put in first at the front.
    flying: VecDeque<(usize, usize)>,
    statistics: Statistics,
    /// Tiles done.
    done: usize,
}

impl<'r> Run<'r> {
    fn new(
        execute: &'r CudaExecute,
        bound: &'r [Bound],
        images: &'r [AnyView<'r>],
        seats: &'r mut Vec<Seat>,
        control: &'r Control<'r>,
    ) -> Run<'r> {
        Run {
            execute,
            bound,
            images,
            control,
            seats,
            slots: vec![SLOTS; execute.units.len()],
            queue: (0..images.len().div_ceil(execute.group())).collect(),
            flying: VecDeque::new(),
            statistics: Statistics::default(),
            done: 0,
        }
    }

    /// Until every group is done.
    fn work(&mut self, outs: &mut [AnyViewMut<'_>]) -> Result<(), ExecError> {
        loop {
            let free = match self.seat() {
                Ok(free) => free,
                Err((unit, fault)) => {
                    self.give_up(unit, fault)?;
                    continue;
                }
            };
            if let Some(seat) = free
                && let Some(group) = self.queue.pop_front()
            {
                self.submit(seat, group, outs)?;
            } else if let Some((seat, group)) = self.flying.pop_front() {
                self.collect(seat, group, outs)?;
            } else {
                return Ok(());
            }
        }
    }

    /// The images of a group.
    fn span(&self, group: usize) -> Range<usize> {
        let size = self.execute.group();
        group * size..(group * size + size).min(self.images.len())
    }

    /// The results of a group.
    fn results(&self, group: usize) -> Range<usize> {
        let images = self.span(group);
        images.start * self.execute.templates..images.end * self.execute.templates
    }

    /// Tiles of all images.
    fn total(&self) -> usize {
        self.images.len() * self.execute.tiles_of_image()
    }

    /// Puts a group into a seat's queue.
    fn submit(&mut self, seat: usize, group: usize, outs: &mut [AnyViewMut<'_>]) -> Result<(), ExecError> {
        let arrays = (&self.images[self.span(group)], &mut outs[self.results(group)]);
        let Seat { unit, slot } = &mut self.seats[seat];
        let unit = *unit;
        let cancelled = || self.control.cancel.is_some_and(CancelToken::is_cancelled);
        match self.execute.units[unit].submit(slot, &self.bound[unit], arrays, self.control.copies, |_| !cancelled()) {
            Ok(true) => self.flying.push_back((seat, group)),
            Ok(false) => return Err(ExecError::Cancelled { done: self.done, total: self.total() }),
            Err(fault) => {
                self.queue.push_front(group);
                self.give_up(unit, fault)?;
            }
        }
        Ok(())
    }

    /// Takes a group's results out of a seat.
    fn collect(&mut self, seat: usize, group: usize, outs: &mut [AnyViewMut<'_>]) -> Result<(), ExecError> {
        let (images, results) = (self.span(group).len(), self.results(group));
        let Seat { unit, slot } = &mut self.seats[seat];
        let unit = *unit;
        match self.execute.units[unit].collect(slot, &mut outs[results]) {
            Ok(counts) => {
                self.statistics.add(counts);
                self.done += images * self.execute.tiles_of_image();
                if let Some(progress) = self.control.progress {
                    progress(self.done, self.total());
                }
                Ok(())
            }
            Err(fault) => {
                self.queue.push_front(group);
                self.give_up(unit, fault)
            }
        }
    }

    /// A seat with nothing in its queue, made now if a unit has fewer than it may have and there is work for one more; or the
    /// unit that could not make its first.
    fn seat(&mut self) -> Result<Option<usize>, (usize, Fault)> {
        let units = &self.execute.units;
        let wanted = self.queue.len() + self.flying.len();
        // Seats of a unit that was given up do not count: the last group may find none but those.
        let there = self.seats.iter().filter(|seat| self.slots[seat.unit] > 0).count();
        // Units take turns.
        for round in 0..SLOTS {
            for (unit, device) in units.iter().enumerate() {
                if round >= self.slots[unit] {
                    continue;
                }
                let mut own = self.seats.iter().enumerate().filter(|(_, seat)| seat.unit == unit);
                match own.nth(round) {
                    Some((index, _)) if !self.flying.iter().any(|(seat, _)| *seat == index) => return Ok(Some(index)),
                    Some(_) => {}
                    None if there < wanted => match device.slot() {
                        Ok(slot) => {
                            self.seats.push(Seat { unit, slot });
                            return Ok(Some(self.seats.len() - 1));
                        }
                        // A device without room for a second goes on with one.
                        Err(_) if round > 0 => self.slots[unit] = round,
                        Err(fault) => return Err((unit, fault)),
                    },
                    None => {}
                }
            }
        }
        Ok(None)
    }

    /// What is left of a run that ended early: what waits, and what no seat will give any more.
    fn unfinished(&self, error: ExecError) -> Box<Unfinished> {
        let mut groups: Vec<usize> = self.queue.iter().copied().chain(self.flying.iter().map(|(_, group)| *group)).collect();
        groups.sort_unstable();
        let undone = groups.into_iter().flat_map(|group| self.span(group)).collect();
        Box::new(Unfinished { error, undone, statistics: self.statistics })
    }

    /// Leaves a unit out, and puts what it had back into the queue.
    fn give_up(&mut self, unit: usize, fault: Fault) -> Result<(), ExecError> {
        self.slots[unit] = 0;
        let fault = fault.on(self.execute.units[unit].device());
        let Some(failed) = self.control.failed.filter(|_| self.slots.iter().any(|slots| *slots > 0)) else {
            return Err(fault.into());
        };
        failed(&fault.to_string());
        let (seats, flying) = (&self.seats, std::mem::take(&mut self.flying));
        let (lost, kept): (Vec<_>, Vec<_>) = flying.into_iter().partition(|(seat, _)| seats[*seat].unit == unit);
        self.flying = kept.into();
        lost.into_iter().rev().for_each(|(_, group)| self.queue.push_front(group));
        seats.iter().filter(|seat| seat.unit == unit).for_each(|seat| seat.slot.settle());
        Ok(())
    }
}

/// Copies into the caller's memory have ended before it is given back, whatever ended the run: also a callback that panics.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.seats.iter().for_each(|seat| seat.slot.settle());
    }
}

impl Execute for CudaExecute {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let bind = |unit: &Unit| unit.bind(&checked, &weights).map_err(|fault| fault.on(unit.device()));
        let bound: Vec<Bound> = self.units.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Arc::new(bound))
    }

    fn rank(&self, _checked: &[Checked], _weights: &Weights, _limit: usize) -> Option<usize> {
        None
    }

    fn scratch_bytes(&self, _workers: usize) -> usize {
        SLOTS * self.units.iter().map(Unit::slot_bytes).sum::<usize>()
    }

    fn template_bytes(&self) -> usize {
        self.units.iter().map(Unit::template_bytes).sum()
    }

    fn tiles(&self) -> usize {
        self.tiles_of_image()
    }

    fn appetite(&self) -> usize {
        self.group() * SLOTS * self.units.len()
    }

    fn scratch(&self, _workers: usize, _results: usize) -> Scratch {
        Scratch::new(self.owner, Vec::<Seat>::new(), 0, self.scratch_bytes(1))
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let (seats, _) = scratch.parts::<Seat>(self.owner)?;
        let bound: &Vec<Bound> =
            bound.downcast_ref().ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        let mut run = Run::new(self, bound, images, seats, control);
        let result = run.work(outs);
        let result = result.map(|()| run.statistics).map_err(|error| run.unfinished(error));
        drop(run);
        if result.is_err() {
            seats.clear();
        }
        result
    }

    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let (seats, _) = scratch.parts::<Seat>(self.owner)?;
        let bound: &Vec<Bound> =
            bound.downcast_ref().ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        let mut work = || -> Result<Statistics, ExecError> {
            let mut statistics = Statistics::default();
            for (image, outs) in images.iter().zip(outs.chunks_mut(self.templates)) {
                let unit = self.units.iter().position(|unit| unit.device() == image.device());
                let unit =
                    unit.ok_or_else(|| SpecError::new("image", "one on a device of the plan", format!("device {}", image.device())))?;
                let named = |fault: Fault| fault.on(image.device());
                let index = match seats.iter().position(|seat| seat.unit == unit) {
                    Some(index) => index,
                    None => {
                        seats.push(Seat { unit, slot: self.units[unit].slot().map_err(named)? });
                        seats.len() - 1
                    }
                };
                let slot = &mut seats[index].slot;
                self.units[unit].submit_resident(slot, &bound[unit], image).map_err(named)?;
                statistics.add(self.units[unit].collect(slot, outs).map_err(named)?);
            }
            Ok(statistics)
        };
        let result = work();
        if result.is_err() {
            seats.iter().for_each(|seat| seat.slot.settle());
            seats.clear();
        }
        result
    }

    fn describe(&self) -> Vec<String> {
        self.units.iter().flat_map(Unit::describe).collect()
    }
}
