//! Runs that a caller puts into streams of its own, on images that lie on a device.

use flcc_core::error::{ExecError, Kind, SpecError};

use crate::plan::matcher::Matcher;
use crate::run::device_image::{DeviceImages, DeviceResults, DeviceStream, Enqueued, Extraordinary};
use crate::run::execute::Scratch;

/// Room on a device for runs of a [`Matcher`] that go into streams of the caller's: made once, for any number of runs.
///
/// A run takes buffers of this queue, so its runs have to come one after the other: put them into one stream, or order
/// the streams by events. For runs side by side make a queue for each.
pub struct DeviceQueue {
    /// The first to go: it waits for the device, which may still read what the matcher has there.
    scratch: Scratch,
    matcher: Matcher,
    device: usize,
    extraordinary: Extraordinary,
}

impl Matcher {
    /// Room for runs on a device of the plan that [`DeviceQueue::enqueue`] puts into streams of the caller's.
    /// `extraordinary` says what they do about samples that are not finite or of magnitudes that call for a scale.
    ///
    /// # Errors
    /// A plan for the CPU, a device that is not the plan's, or one that is out of memory.
    pub fn queue(&self, device: usize, extraordinary: Extraordinary) -> Result<DeviceQueue, ExecError> {
        let scratch = self.executor().0.queue(device)?;
        Ok(DeviceQueue { matcher: self.clone(), device, extraordinary, scratch })
    }
}

impl DeviceQueue {
    /// Puts a run into a stream: the results of all images with every template, one image after the other, are in `out`
    /// when the stream has done what was put into it until now.
    ///
    /// Nothing is allocated, nothing is waited for, and no memory is used that is not the device's or pinned, so the
    /// stream may record a graph, which may be launched any number of times. Where one kernel goes from the image to
    /// the result it takes all images in one launch; else a group at
    /// most, of as many images as the plan is for ([`Spec::images`](crate::Spec::images)) or fewer.
    ///
    /// # Errors
    /// Images or results that are not the spec's or on another device; a device that takes no more work.
    pub fn enqueue<'a>(
        &mut self,
        stream: DeviceStream,
        images: impl Into<DeviceImages<'a>>,
        out: &mut DeviceResults<'_>,
    ) -> Result<(), ExecError> {
        let images = images.into();
        if images.count() == 0 {
            return Err(SpecError::of(Kind::DimsMismatch, "images", "at least one image", "none").into());
        }
        self.matcher.check_resident(images.first())?;
        self.matcher.check_results(images.first().device(), images.count(), out)?;
        let run = Enqueued { stream, images: &images, out, extraordinary: self.extraordinary };
        let (execute, bound) = self.matcher.executor();
        execute.enqueue(bound, run, &mut self.scratch)
    }

    /// Whether a run has met samples that its kernel does not serve, of all runs since this was last forgotten: what it
    /// left in its results is not to be used, and [`Matcher::execute_on_device`] computes it. Nothing is waited for: it
    /// is known of the runs that are done. Never of a queue that computes such samples
    /// ([`Extraordinary::Computed`]).
    pub fn unserved(&mut self) -> bool {
        self.matcher.executor().0.unserved(&mut self.scratch, false).unwrap_or(true)
    }

    /// Forgets what runs have told; whether they had told of something. No run is under way meanwhile: it might tell
    /// just before.
    pub fn forget(&mut self) -> bool {
        self.matcher.executor().0.unserved(&mut self.scratch, true).unwrap_or(true)
    }

    /// The number of its device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// The matcher whose runs it takes.
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Bytes of the device that it holds.
    pub fn bytes(&self) -> usize {
        self.scratch.bytes()
    }
}
