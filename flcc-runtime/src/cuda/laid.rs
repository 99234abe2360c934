//! Images laid on a device, whose kernels it times: in the groups of a run, and without the copies of one.

use std::sync::Arc;
use std::time::Duration;

use flcc_core::error::ExecError;
use flcc_core::view::AnyView;

use crate::cuda::bound::DeviceTemplates;
use crate::cuda::driver::buffer::Buffer;
use crate::cuda::fault::Fault;
use crate::cuda::slot::{Images, Slot};
use crate::cuda::unit::{LAID_FILLER_BYTES, Unit};
use crate::run::execute::{Clock, Clocked, Pairs};

/// A group of images in a slot of the first unit.
struct Laid<'u> {
    unit: &'u Unit,
    slot: Slot,
    /// What is cleared while runs are put into the queue.
    filler: Buffer,
    group: Group,
    /// Images that all units compute meanwhile.
    together: f64,
}

/// What lies there.
enum Group {
    /// Images, and the templates that were bound on each unit.
    Bound(Images, Arc<Vec<DeviceTemplates>>),
    /// Images and as many templates.
    Pairs([Images; 2]),
}

/// A clock of the kernels of images with templates that were bound on each unit.
///
/// # Errors
/// The first device's.
pub(crate) fn clock<'u>(units: &'u [Unit], bound: Arc<Vec<DeviceTemplates>>, images: &[AnyView<'_>]) -> Clocked<'u> {
    laid(units, images.len(), |unit, slot, count| {
        let Some(templates) = bound.first() else { return Ok(None) };
        let images = unit.lay(slot, templates, &images[..count])?;
        Ok(images.map(|images| Group::Bound(images, Arc::clone(&bound))))
    })
}

/// A clock of the kernel of pairs, which all units have.
///
/// # Errors
/// The first device's.
pub(crate) fn clock_of_pairs<'u>(units: &'u [Unit], pairs: &Pairs<'_>) -> Clocked<'u> {
    laid(units, pairs.images.len(), |unit, slot, count| {
        Ok(unit.lay_pairs(slot, &pairs.images[..count], &pairs.templates[..count])?.map(Group::Pairs))
    })
}

/// A group of so many images, which `lay` lays in a slot.
fn laid<'u>(
    units: &'u [Unit],
    images: usize,
    lay: impl FnOnce(&Unit, &mut Slot, usize) -> Result<Option<Group>, Fault>,
) -> Clocked<'u> {
    let Some(unit) = units.first() else { return Ok(None) };
    let named = |fault: Fault| fault.on(unit.device());
    let count = images.min(unit.group()).max(1);
    let mut slot = unit.slot().map_err(named)?;
    let filler = Buffer::new(&slot.stream, LAID_FILLER_BYTES).map_err(named)?;
    let group = lay(unit, &mut slot, count);
    slot.settle();
    let Some(group) = group.map_err(named)? else { return Ok(None) };
    // Groups go to the units in turns.
    let busy = units.len().min(images.div_ceil(count));
    Ok(Some(Box::new(Laid { unit, slot, filler, group, together: (count * busy) as f64 })))
}

impl Clock for Laid<'_> {
    fn time(&mut self, runs: usize, limit: Option<Duration>) -> Result<Duration, ExecError> {
        let Laid { unit, slot, filler, group, together } = self;
        let place = (slot, filler);
        let limit = limit.map(|limit| limit.mul_f64(*together));
        let time = match group {
            Group::Bound(images, bound) => unit.time_laid(place, &bound[0], images, runs, limit),
            Group::Pairs(pairs) => unit.time_laid_pairs(place, pairs, runs, limit),
        };
        Ok(time.map_err(|fault| fault.on(unit.device()))?.each.div_f64(*together))
    }
}

/// Nothing is in the queue of a slot that is given back.
impl Drop for Laid<'_> {
    fn drop(&mut self) {
        self.slot.settle();
    }
}
