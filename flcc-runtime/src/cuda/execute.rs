//! Execution on GPUs: groups of images to the slots of one or several devices, results in the order of the images.
//!
//! A device that fails is left out, and what it had is computed by the others, where the caller watches failures
//! ([`Control::failed`]); else it is the run's error.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use super::Fault;
use super::unit::{Bound, Decisions, SLOTS, Slot, Unit};
use crate::cpu::bind::{Checked, Weights};
use crate::cpu::tile::Statistics;
use crate::exec::{CancelToken, Control, Execute, Owner, Scratch};

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
        let mut units = decisions.into_iter().map(|decisions| Unit::new(spec, decisions)).collect::<Result<Vec<_>, _>>()?;
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

    /// Gives the groups to the seats of the units that are there, and takes their results.
    fn work(
        &self,
        seats: &mut Vec<Seat>,
        bound: &[Bound],
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let size = self.group();
        let total = images.len() * self.tiles_of_image();
        let mut alive = vec![true; self.units.len()];
        let mut queue: VecDeque<usize> = (0..images.len().div_ceil(size)).collect();
        let mut flying: VecDeque<(usize, usize)> = VecDeque::new();
        let mut statistics = Statistics::default();
        let mut done = 0;
        let span = |group: usize| group * size..(group * size + size).min(images.len());
        loop {
            let free = self.seat(seats, &alive, &flying, queue.len() + flying.len());
            let next = match free {
                Ok(Some(seat)) => queue.pop_front().map(|group| (seat, group)),
                Ok(None) => None,
                Err((unit, fault)) => {
                    self.give_up(unit, fault, &mut alive, seats, &mut flying, &mut queue, control)?;
                    continue;
                }
            };
            if let Some((index, group)) = next {
                let Seat { unit, slot } = &mut seats[index];
                let unit = *unit;
                let cancelled = || control.cancel.is_some_and(CancelToken::is_cancelled);
                match self.units[unit].submit(slot, &bound[unit], &images[span(group)], |_| !cancelled()) {
                    Ok(true) => flying.push_back((index, group)),
                    Ok(false) => return Err(ExecError::Cancelled { done, total }),
                    Err(fault) => {
                        queue.push_front(group);
                        self.give_up(unit, fault, &mut alive, seats, &mut flying, &mut queue, control)?;
                    }
                }
            } else if let Some((index, group)) = flying.pop_front() {
                let Seat { unit, slot } = &mut seats[index];
                let unit = *unit;
                let mine = span(group);
                match self.units[unit].collect(slot, &mut outs[mine.start * self.templates..mine.end * self.templates]) {
                    Ok(counts) => {
                        statistics.add(counts);
                        done += mine.len() * self.tiles_of_image();
                        if let Some(progress) = control.progress {
                            progress(done, total);
                        }
                    }
                    Err(fault) => {
                        queue.push_front(group);
                        self.give_up(unit, fault, &mut alive, seats, &mut flying, &mut queue, control)?;
                    }
                }
            } else {
                return Ok(statistics);
            }
        }
    }

    /// A seat with nothing in its queue, made now if a unit has fewer than it may have and there is work for one more.
    fn seat(
        &self,
        seats: &mut Vec<Seat>,
        alive: &[bool],
        flying: &VecDeque<(usize, usize)>,
        groups: usize,
    ) -> Result<Option<usize>, (usize, Fault)> {
        let busy = |index: usize| flying.iter().any(|(seat, _)| *seat == index);
        let wanted = groups.min(SLOTS * self.units.len());
        // Units take turns.
        for round in 0..SLOTS {
            for unit in (0..self.units.len()).filter(|&unit| alive[unit]) {
                let mut own = seats.iter().enumerate().filter(|(_, seat)| seat.unit == unit);
                match own.nth(round) {
                    Some((index, _)) if !busy(index) => return Ok(Some(index)),
                    Some(_) => {}
                    None if seats.len() < wanted => {
                        let slot = self.units[unit].slot().map_err(|fault| (unit, fault))?;
                        seats.push(Seat { unit, slot });
                        return Ok(Some(seats.len() - 1));
                    }
                    None => {}
                }
            }
        }
        Ok(None)
    }

    /// Leaves a unit out, and puts what it had back into the queue.
    #[allow(clippy::too_many_arguments, reason = "the state of a run")]
    fn give_up(
        &self,
        unit: usize,
        fault: Fault,
        alive: &mut [bool],
        seats: &[Seat],
        flying: &mut VecDeque<(usize, usize)>,
        queue: &mut VecDeque<usize>,
        control: &Control<'_>,
    ) -> Result<(), ExecError> {
        alive[unit] = false;
        let fault = Fault::new(format!("device {}: {}", self.units[unit].gpu().device.index, fault.what), fault.reason);
        let Some(failed) = control.failed.filter(|_| alive.contains(&true)) else {
            return Err(fault.into());
        };
        failed(&fault.to_string());
        let lost: Vec<usize> = flying.iter().filter(|(seat, _)| seats[*seat].unit == unit).map(|(_, group)| *group).collect();
        flying.retain(|(seat, _)| seats[*seat].unit != unit);
        lost.into_iter().rev().for_each(|group| queue.push_front(group));
        seats.iter().filter(|seat| seat.unit == unit).for_each(|seat| seat.slot.settle());
        Ok(())
    }
}

impl Execute for CudaExecute {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let bound: Vec<Bound> = self.units.iter().map(|unit| unit.bind(&checked, &weights)).collect::<Result<_, _>>()?;
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
    ) -> Result<Statistics, ExecError> {
        let (seats, _) = scratch.parts::<Seat>(self.owner)?;
        let bound: &Vec<Bound> =
            bound.downcast_ref().ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        let result = self.work(seats, bound, images, outs, control);
        if result.is_err() {
            // Copies into the caller's memory must have ended before it is given back.
            seats.iter().for_each(|seat| seat.slot.settle());
            seats.clear();
        }
        result
    }

    fn describe(&self) -> Vec<String> {
        self.units.iter().flat_map(Unit::describe).collect()
    }
}
