//! One run: groups of images to the slots of one or several devices, results in the order of the images.
//!
//! A device that fails is left out, and what it had is computed by the others, where the caller watches failures
//! ([`Control::failed`]); else it is the run's error. Knows devices and what comes of images by a trait alone: results
//! in arrays, or what a search found. Tests run it on made-up devices.

use std::collections::VecDeque;
use std::ops::Range;

use flcc_core::error::ExecError;
use flcc_core::view::AnyView;

use crate::cuda::fault::Fault;
use crate::run::execute::{CancelToken, Control, Copies, Statistics, Unfinished};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

/// What a run needs of a device that a spec was planned for; an `O` comes of each image and template.
pub(crate) trait Device<O> {
    /// Room for one group of images, with a queue of its own.
    type Slot;
    /// Templates in the form of the device.
    type Bound;

    /// The device's number among the machine's devices.
    fn number(&self) -> usize;

    /// Tiles of one image.
    fn tiles(&self) -> usize;

    /// Images of a group.
    fn group(&self) -> usize;

    /// Slots that take turns, at most.
    fn slots(&self) -> usize;

    /// A slot.
    ///
    /// # Errors
    /// The device is out of memory, or lost.
    fn slot(&self) -> Result<Self::Slot, Fault>;

    /// Puts a group of images into a slot's queue; `false`: not all of it, since `go_on` said so.
    ///
    /// # Errors
    /// The device's.
    fn submit(
        &self,
        slot: &mut Self::Slot,
        bound: &Self::Bound,
        group: (&[AnyView<'_>], &mut [O]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault>;

    /// Takes a group's results out of a slot.
    ///
    /// # Errors
    /// The device's, also of what was put in before.
    fn collect(&self, slot: &mut Self::Slot, bound: &Self::Bound, outs: &mut [O]) -> Result<Statistics, Fault>;

    /// Waits until nothing is in a slot's queue, whatever became of it.
    fn settle(slot: &Self::Slot);
}

/// A slot and the unit that it belongs to.
pub(crate) struct Seat<S> {
    pub(crate) unit: usize,
    pub(crate) slot: S,
}

/// Computes `outs[image * templates + template]` on all units, with the seats that are there and others where they
/// help.
///
/// # Errors
/// Cancelled, or a device that fails; then nothing writes the results any more, and no seat is left.
pub(crate) fn run<O, D: Device<O>>(
    units: &[D],
    bound: &[D::Bound],
    images: &[AnyView<'_>],
    outs: &mut [O],
    seats: &mut Vec<Seat<D::Slot>>,
    control: &Control<'_>,
) -> Result<Statistics, Box<Unfinished>> {
    let templates = outs.len() / images.len().max(1);
    let mut run: Run<'_, O, D> = Run::new(units, bound, (images, templates), seats, control);
    let result = run.work(outs);
    let result = result.map(|()| run.statistics).map_err(|error| run.unfinished(error));
    drop(run);
    if result.is_err() {
        seats.clear();
    }
    result
}

/// One run: groups of images given to the seats of the units that are there, and their results taken.
struct Run<'r, O, D: Device<O>> {
    units: &'r [D],
    bound: &'r [D::Bound],
    images: &'r [AnyView<'r>],
    templates: usize,
    /// Images of a group.
    group: usize,
    control: &'r Control<'r>,
    seats: &'r mut Vec<Seat<D::Slot>>,
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

impl<'r, O, D: Device<O>> Run<'r, O, D> {
    fn new(
        units: &'r [D],
        bound: &'r [D::Bound],
        (images, templates): (&'r [AnyView<'r>], usize),
        seats: &'r mut Vec<Seat<D::Slot>>,
        control: &'r Control<'r>,
    ) -> Run<'r, O, D> {
        let group = units.first().map_or(1, D::group);
        Run {
            units,
            bound,
            images,
            templates,
            group,
            control,
            seats,
            slots: units.iter().map(D::slots).collect(),
            queue: (0..images.len().div_ceil(group)).collect(),
            flying: VecDeque::new(),
            statistics: Statistics::default(),
            done: 0,
        }
    }

    /// Until every group is done.
    fn work(&mut self, outs: &mut [O]) -> Result<(), ExecError> {
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
        let first = group * self.group;
        first..(first + self.group).min(self.images.len())
    }

    /// The results of a group.
    fn results(&self, group: usize) -> Range<usize> {
        let images = self.span(group);
        images.start * self.templates..images.end * self.templates
    }

    /// Tiles of so many images.
    fn tiles(&self, images: usize) -> usize {
        images * self.units.first().map_or(0, D::tiles)
    }

    /// Tiles of all images.
    fn total(&self) -> usize {
        self.tiles(self.images.len())
    }

    /// Puts a group into a seat's queue.
    fn submit(&mut self, seat: usize, group: usize, outs: &mut [O]) -> Result<(), ExecError> {
        let arrays = (&self.images[self.span(group)], &mut outs[self.results(group)]);
        let Seat { unit, slot } = &mut self.seats[seat];
        let unit = *unit;
        let cancelled = || self.control.cancel.is_some_and(CancelToken::is_cancelled);
        match self.units[unit].submit(slot, &self.bound[unit], arrays, self.control.copies, |_| !cancelled()) {
            Ok(true) => self.flying.push_back((seat, group)),
            Ok(false) => {
                self.queue.push_front(group);
                return Err(ExecError::Cancelled { done: self.done, total: self.total() });
            }
            Err(fault) => {
                self.queue.push_front(group);
                self.give_up(unit, fault)?;
            }
        }
        Ok(())
    }

    /// Takes a group's results out of a seat.
    fn collect(&mut self, seat: usize, group: usize, outs: &mut [O]) -> Result<(), ExecError> {
        let (images, results) = (self.span(group).len(), self.results(group));
        let Seat { unit, slot } = &mut self.seats[seat];
        let unit = *unit;
        match self.units[unit].collect(slot, &self.bound[unit], &mut outs[results]) {
            Ok(counts) => {
                self.statistics.add(counts);
                self.done += self.tiles(images);
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

    /// A seat with nothing in its queue, made now if a unit has fewer than it may have and there is work for one more;
    /// or the unit that could not make its first.
    fn seat(&mut self) -> Result<Option<usize>, (usize, Fault)> {
        let wanted = self.queue.len() + self.flying.len();
        // Seats of a unit that was given up do not count: the last group may find none but those.
        let there = self.seats.iter().filter(|seat| self.slots[seat.unit] > 0).count();
        // Units take turns.
        for round in 0..self.slots.iter().copied().max().unwrap_or(0) {
            for (unit, device) in self.units.iter().enumerate() {
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
        let mut groups: Vec<usize> =
            self.queue.iter().copied().chain(self.flying.iter().map(|(_, group)| *group)).collect();
        groups.sort_unstable();
        let undone = groups.into_iter().flat_map(|group| self.span(group)).collect();
        Box::new(Unfinished { error, undone, statistics: self.statistics })
    }

    /// Leaves a unit out, and puts what it had back into the queue.
    fn give_up(&mut self, unit: usize, fault: Fault) -> Result<(), ExecError> {
        self.slots[unit] = 0;
        let fault = fault.on(self.units[unit].number());
        let Some(failed) = self.control.failed.filter(|_| self.slots.iter().any(|slots| *slots > 0)) else {
            return Err(fault.into());
        };
        failed(&fault.to_string());
        let (seats, flying) = (&self.seats, std::mem::take(&mut self.flying));
        let (lost, kept): (Vec<_>, Vec<_>) = flying.into_iter().partition(|(seat, _)| seats[*seat].unit == unit);
        self.flying = kept.into();
        lost.into_iter().rev().for_each(|(_, group)| self.queue.push_front(group));
        seats.iter().filter(|seat| seat.unit == unit).for_each(|seat| D::settle(&seat.slot));
        Ok(())
    }
}

/// Copies into the caller's memory have ended before it is given back, whatever ended the run: also a callback that
/// panics.
impl<O, D: Device<O>> Drop for Run<'_, O, D> {
    fn drop(&mut self) {
        self.seats.iter().for_each(|seat| D::settle(&seat.slot));
    }
}
