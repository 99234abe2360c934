//! Execution on GPUs: the units of one or several devices as one executor.

use std::any::Any;
use std::sync::Arc;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::cuda::fault::Fault;
use crate::cuda::schedule::{self, Device, Seat};
use crate::cuda::unit::{Bound, Decisions, SLOTS, Slot, Unit};
use crate::problem::template::{Checked, Weights};
use crate::run::device_image::DeviceImage;
use crate::run::execute::{Control, Copies, Execute, Owner, Scratch, Statistics, Unfinished};

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

    fn tiles_of_image(&self) -> usize {
        self.units.first().map_or(0, Unit::tiles)
    }
}

impl Device for Unit {
    type Slot = Slot;
    type Bound = Bound;

    fn number(&self) -> usize {
        self.device()
    }

    fn tiles(&self) -> usize {
        Unit::tiles(self)
    }

    fn group(&self) -> usize {
        Unit::group(self)
    }

    fn slot(&self) -> Result<Slot, Fault> {
        Unit::slot(self)
    }

    fn submit(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        group: (&[AnyView<'_>], &mut [AnyViewMut<'_>]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        Unit::submit(self, slot, bound, group, copies, go_on)
    }

    fn collect(&self, slot: &mut Slot, bound: &Bound, outs: &mut [AnyViewMut<'_>]) -> Result<Statistics, Fault> {
        Unit::collect(self, slot, bound, outs)
    }

    fn settle(slot: &Slot) {
        slot.settle();
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
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        let bound: &Vec<Bound> = bound
            .downcast_ref()
            .ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        schedule::run(&self.units, bound, images, outs, seats, control)
    }

    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let (seats, _) = scratch.parts::<Seat<Slot>>(self.owner)?;
        let bound: &Vec<Bound> = bound
            .downcast_ref()
            .ok_or_else(|| SpecError::new("templates", "those bound to this plan", "those of another"))?;
        let mut work = || -> Result<Statistics, ExecError> {
            let mut statistics = Statistics::default();
            for (image, outs) in images.iter().zip(outs.chunks_mut(self.templates)) {
                let unit = self.units.iter().position(|unit| unit.device() == image.device());
                let unit = unit.ok_or_else(|| {
                    SpecError::new("image", "one on a device of the plan", format!("device {}", image.device()))
                })?;
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
                statistics.add(self.units[unit].collect(slot, &bound[unit], outs).map_err(named)?);
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
