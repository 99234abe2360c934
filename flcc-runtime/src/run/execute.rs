//! What a plan executes with, whatever computes: the trait, what a caller watches a run with, and its buffers.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::peaks::{Found, Search};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::problem::template::{self, Checked, Weights};
use crate::run::results::Output;

/// Stops a run from another thread: at the next tile it returns [`ExecError::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not used yet.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops every run that watches this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How images and results in memory that is not pinned come to a GPU and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Copies {
    /// By pinned memory of the library, filled and emptied by several threads, while kernels run; from the second group
    /// of a slot on. It takes as many bytes of the host as the groups of all slots and their results.
    #[default]
    Staged,
    /// By the driver, which holds the calling thread meanwhile.
    Direct,
}

/// What a device took for runs of images that lie on it.
#[cfg(feature = "cuda")]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceTime {
    /// For each run, by the device's clock.
    pub each: Duration,
    /// Whether all runs stood in its queue before the first began, so that it never waited for the host.
    pub queued: bool,
}

/// Times the kernels of images that were laid on a device, by the device's clock: no copy is in its times.
pub trait Clock {
    /// The mean time of an image in `runs` runs of all that lie there. Where one run takes an image longer than
    /// `limit`, that run is all, and its time comes back.
    ///
    /// # Errors
    /// The device's.
    fn time(&mut self, runs: usize, limit: Option<Duration>) -> Result<Duration, ExecError>;
}

/// A clock, where a device can tell its own time from the host's.
pub type Clocked<'a> = Result<Option<Box<dyn Clock + 'a>>, ExecError>;

/// Counts of what a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Panels scored.
    pub panels: u64,
    /// Panels recomputed one by one, because the tile's rounding left them in doubt.
    pub repaired: u64,
    /// Tiles computed.
    pub tiles: u64,
}

impl Statistics {
    /// The sum of two counts.
    pub fn add(&mut self, other: Statistics) {
        self.panels += other.panels;
        self.repaired += other.repaired;
        self.tiles += other.tiles;
    }
}

/// What a caller watches a run with, and what it decides about one.
#[derive(Clone, Copy, Default)]
pub struct Control<'a> {
    /// Called after every tile, from any worker, with the tiles done and all tiles; on GPUs after every group of
    /// images. Where the CPU takes over it goes on in tiles of the CPU's plan, so both numbers may change; a search for
    /// peaks that finds too many to go on as it began begins again.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Asked before every tile; on GPUs before every batch of tiles.
    pub cancel: Option<&'a CancelToken>,
    /// Called when one of several devices fails, with its words: the others then compute what it had. Without it, that
    /// is the run's error. Where the CPU takes over from the last one
    /// ([`Planner::fall_back`](crate::Planner::fall_back)), that one is told too.
    pub failed: Option<&'a (dyn Fn(&str) + Sync)>,
    /// How memory that is not pinned comes to GPUs.
    pub copies: Copies,
    /// What threads do that have no tile left, while others are at their last.
    #[doc(hidden)]
    pub beside: Beside<'a>,
}

/// Work for threads that wait for others: of the library alone.
#[derive(Clone, Copy, Default)]
pub struct Beside<'a>(Option<&'a (dyn Fn() -> bool + Sync)>);

impl<'a> Beside<'a> {
    /// No such work.
    pub(crate) const NOTHING: Beside<'static> = Beside(None);

    /// Calls `piece` until it says that nothing was left to do.
    pub(crate) fn of(piece: &'a (dyn Fn() -> bool + Sync)) -> Beside<'a> {
        Beside(Some(piece))
    }

    /// Does all that is left.
    pub(crate) fn finish(self) {
        while self.0.is_some_and(|piece| piece()) {}
    }
}

/// Why a run did not finish, and what is there of it.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// The error that ended it.
    pub error: ExecError,
    /// The images without results, where a device failed: they can be computed by something else.
    pub undone: Vec<usize>,
    /// Counts of what was done.
    pub statistics: Statistics,
}

impl From<ExecError> for Box<Unfinished> {
    fn from(error: ExecError) -> Box<Unfinished> {
        Box::new(Unfinished { error, undone: Vec::new(), statistics: Statistics::default() })
    }
}

impl From<SpecError> for Box<Unfinished> {
    fn from(error: SpecError) -> Box<Unfinished> {
        ExecError::from(error).into()
    }
}

/// Images, each with a template of its own.
pub struct Pairs<'a> {
    /// The spec of each.
    pub spec: &'a Spec,
    /// The images.
    pub images: &'a [AnyView<'a>],
    /// The templates, as many as images.
    pub templates: &'a [AnyView<'a>],
    /// The mask that all of them have.
    pub weights: &'a Weights,
}

impl Pairs<'_> {
    /// Checks template `number` and makes its values ready, in the place of another's.
    pub(crate) fn check(&self, number: usize, checked: &mut Checked) -> Result<(), SpecError> {
        let numbered = |error: SpecError| SpecError { argument: format!("template {number}"), ..error };
        template::check_template_into(self.spec, &self.templates[number], self.weights, checked).map_err(numbered)
    }
}

/// What a plan executes with: a method on a platform, for one spec.
pub trait Execute: Send + Sync {
    /// Templates in the form of the method.
    ///
    /// # Errors
    /// A template that the method cannot take, or a device that fails.
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError>;
    /// The rank that the separable method would need for each template, if none is over `limit`.
    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize>;
    /// Bytes of the scratch of so many workers.
    fn scratch_bytes(&self, workers: usize) -> usize;
    /// Bytes of one bound template.
    fn template_bytes(&self) -> usize;
    /// Bytes of an execution by so many workers with so many bound templates, above images and results.
    fn held_bytes(&self, workers: usize, templates: usize) -> usize {
        self.scratch_bytes(workers).saturating_add(self.template_bytes().saturating_mul(templates))
    }
    /// Tiles of one image.
    fn tiles(&self) -> usize;
    /// Whether it was built to take as little memory as possible, by ways that may round otherwise.
    fn short_of_memory(&self) -> bool {
        false
    }
    /// Scratch for so many workers and results.
    fn scratch(&self, workers: usize, results: usize) -> Scratch;
    /// As [`Execute::execute`], of images that lie on a device.
    ///
    /// # Errors
    /// A plan for another platform, an image on another device, or a device that fails.
    #[cfg(feature = "cuda")]
    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let _ = (bound, images, outs, scratch);
        Err(SpecError::new(
            "images",
            "images in the memory of the host, since the plan is one for the CPU",
            "images on a device",
        )
        .into())
    }
    /// As [`Execute::execute_resident`], of one image, with results that stay on its device; they are there when this
    /// returns.
    ///
    /// # Errors
    /// As there, or cancelled.
    #[cfg(feature = "cuda")]
    fn execute_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &crate::run::device_image::DeviceImage<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let _ = (out, control);
        self.execute_resident(bound, std::slice::from_ref(image), &mut [], scratch)
    }
    /// Scratch for runs that are put into streams of the caller's on the device of this number: all that they take.
    ///
    /// # Errors
    /// A plan for another platform or device, or a device out of memory.
    #[cfg(feature = "cuda")]
    fn queue(&self, device: usize) -> Result<Scratch, ExecError> {
        let _ = device;
        Err(SpecError::new("plan", "one for GPUs", "one for the CPU").into())
    }
    /// Puts a run into a caller's stream, with scratch that was made for that.
    ///
    /// # Errors
    /// Other scratch, images on another device, or the device's.
    #[cfg(feature = "cuda")]
    fn enqueue(
        &self,
        bound: &(dyn Any + Send + Sync),
        run: crate::run::device_image::Enqueued<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), ExecError> {
        let _ = (bound, run);
        self.unserved(scratch, false)?;
        Ok(())
    }
    /// Whether a run in a caller's stream has told of samples that its kernel does not serve; what was told is
    /// forgotten if that is asked for.
    ///
    /// # Errors
    /// Other scratch.
    #[cfg(feature = "cuda")]
    fn unserved(&self, scratch: &mut Scratch, forget: bool) -> Result<bool, SpecError> {
        let _ = (scratch, forget);
        Err(SpecError::new("plan", "one for GPUs", "one for the CPU"))
    }
    /// The device's time for `runs` runs of images that lie on one device, in turn, each with its results.
    ///
    /// # Errors
    /// As [`Execute::execute_on_device`].
    #[cfg(feature = "cuda")]
    fn time_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<DeviceTime, ExecError> {
        let _ = (outs, runs);
        self.execute_resident(bound, images, &mut [], scratch).map(|_| DeviceTime::default())
    }
    /// A clock of the kernels of a run of these images, which are copied to the device and computed once. `None` where
    /// no device computes, or the host decides something between kernels.
    ///
    /// # Errors
    /// As [`Execute::execute`].
    fn clock<'a>(&'a self, bound: &Arc<dyn Any + Send + Sync>, images: &[AnyView<'_>]) -> Clocked<'a> {
        let _ = (bound, images);
        Ok(None)
    }
    /// As [`Execute::clock`], of images that have a template of their own each; `None` also where templates are bound
    /// one after the other.
    ///
    /// # Errors
    /// As [`Execute::execute_pairs`].
    fn clock_of_pairs<'a>(&'a self, pairs: &Pairs<'_>) -> Clocked<'a> {
        let _ = pairs;
        Ok(None)
    }
    /// As [`Execute::search`], of one image that lies on a device.
    ///
    /// # Errors
    /// As [`Execute::execute_on_device`].
    #[cfg(feature = "cuda")]
    fn search_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &crate::run::device_image::DeviceImage<'_>,
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let _ = (search, found, control);
        self.execute_resident(bound, std::slice::from_ref(image), &mut [], scratch)
    }
    /// Searches what it computes where results lie, `found[image * templates + template]`; `None` where nothing is
    /// gained by it: then results are computed and searched by who asks.
    ///
    /// # Errors
    /// As [`Execute::execute`].
    fn search(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Option<Result<Statistics, Box<Unfinished>>> {
        let _ = (bound, images, search, found, scratch, control);
        None
    }
    /// The numbers of the devices that it computes on; none where the CPU computes.
    fn devices(&self) -> Vec<usize> {
        Vec::new()
    }
    /// How many images at a time keep everything busy.
    fn appetite(&self) -> usize {
        1
    }
    /// What computes regions of results; `None` where only a whole result is computed.
    fn regional(&self) -> Option<&dyn Regional> {
        None
    }
    /// More lines for `explain()`.
    fn describe(&self) -> Vec<String> {
        Vec::new()
    }
    /// Computes `outs[k]` of image `k` with template `k` alone; both are arrays of the spec, which has one template.
    ///
    /// Where there is nothing better, templates are bound one after the other.
    ///
    /// # Errors
    /// As [`Execute::bind`] and [`Execute::execute`], and a template that cannot be matched; its number is in the
    /// error.
    fn execute_pairs(
        &self,
        pairs: &Pairs<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        pairs_in_turn(self, pairs, 0..outs.len(), outs, scratch, control)
    }
    /// As [`Execute::execute_pairs`], of images and templates that lie on a device, with results that stay there; they
    /// are there when this returns.
    ///
    /// # Errors
    /// A plan whose kernel takes no such pairs, a device that is not the plan's or fails, a template that cannot be
    /// matched.
    #[cfg(feature = "cuda")]
    fn execute_pairs_on_device(
        &self,
        pairs: &crate::run::device_image::DevicePairs<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        let _ = (pairs, out, weights, scratch);
        Err(SpecError::new("images", "images in the memory of the host, as the plan's kernel takes", NOT_THERE).into())
    }
    /// The device's time for `runs` such runs in turn, each with its results.
    ///
    /// # Errors
    /// As [`Execute::execute_pairs_on_device`].
    #[cfg(feature = "cuda")]
    fn time_pairs_on_device(
        &self,
        pairs: &[crate::run::device_image::DevicePairs<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<DeviceTime, ExecError> {
        let _ = (pairs, outs, scratch, runs);
        Err(SpecError::new("images", "images in the memory of the host, as the plan's kernel takes", NOT_THERE).into())
    }
    /// Computes `outs[image * templates + template]`.
    ///
    /// # Errors
    /// Cancelled, scratch of another plan, or a device that fails; nothing writes the results any more.
    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>>;
}

/// What images are that a plan does not take.
#[cfg(feature = "cuda")]
const NOT_THERE: &str = "images on a device";

/// Computes some of the pairs, one after the other: each template is bound and used once.
///
/// # Errors
/// As [`Execute::execute_pairs`].
pub(crate) fn pairs_in_turn<E: Execute + ?Sized>(
    by: &E,
    pairs: &Pairs<'_>,
    numbers: impl IntoIterator<Item = usize>,
    outs: &mut [AnyViewMut<'_>],
    scratch: &mut Scratch,
    control: &Control<'_>,
) -> Result<Statistics, ExecError> {
    let mut statistics = Statistics::default();
    let total = pairs.images.len();
    for number in numbers {
        if control.cancel.is_some_and(CancelToken::is_cancelled) {
            return Err(ExecError::Cancelled { done: number, total });
        }
        let mut checked = Checked::default();
        pairs.check(number, &mut checked)?;
        let bound = by.bind(vec![checked], pairs.weights.clone())?;
        let alone = Control { progress: None, ..*control };
        let (images, outs) = (&pairs.images[number..=number], &mut outs[number..=number]);
        let run = by.execute(bound.as_ref(), images, outs, scratch, &alone);
        statistics.add(run.map_err(|unfinished| match unfinished.error {
            ExecError::Cancelled { .. } => ExecError::Cancelled { done: number, total },
            error => error,
        })?);
        control.progress.iter().for_each(|progress| progress(number + 1, total));
    }
    Ok(statistics)
}

/// An image, or as much of it as a region looks at: what the boundary makes of its ends has to be what it makes of the
/// image's.
#[derive(Clone, Copy)]
pub struct AtHand<'a> {
    /// The samples at hand.
    pub view: &'a AnyView<'a>,
    /// How many positions before these the image has along each axis that are not there.
    pub skipped: [usize; 3],
}

/// Takes the results of one tile after the other, of one worker.
pub trait Taker: Send {
    /// Arrays for the results of a tile of such lengths, template by template; `None` if no more tiles are wanted.
    fn room(&mut self, lengths: [usize; 3]) -> Option<Vec<AnyViewMut<'_>>>;
    /// The arrays hold the tile whose first result has this place.
    fn take(&mut self, place: [usize; 3], lengths: [usize; 3]);
}

/// Execution of regions of a result: positions of it from one to another, exclusive, along each of three axes. A region
/// has the bits that it has in the whole result.
pub trait Regional: Send + Sync {
    /// How many tiles the result has along each axis. A tile is computed whole, whatever of it is asked for.
    fn counts(&self) -> [usize; 3];
    /// Where a tile begins along an axis; of the number behind the last, the length of the axis.
    fn seam(&self, axis: usize, number: usize) -> usize;
    /// The samples along each axis that a region looks at; some may lie outside the image.
    fn samples(&self, region: &[Range<usize>; 3]) -> [Range<isize>; 3];
    /// Computes a region, an image with every template; the arrays have the region's shape.
    ///
    /// # Errors
    /// Cancelled, or scratch of another plan.
    fn execute_region(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: AtHand<'_>,
        region: &[Range<usize>; 3],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError>;

    /// Computes all tiles of an image with every template, each into what one of the takers has for it. There are as
    /// many workers as takers, if the scratch has as many.
    ///
    /// # Errors
    /// Cancelled, or scratch of another plan.
    fn execute_tiles(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &AnyView<'_>,
        takers: &mut [&mut dyn Taker],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError>;

    /// The positions from one of an axis to another, and all of the other axes.
    fn band(&self, axis: usize, positions: Range<usize>) -> [Range<usize>; 3] {
        let counts = self.counts();
        let mut region = [0, 1, 2].map(|axis| 0..self.seam(axis, counts[axis]));
        region[axis] = positions;
        region
    }
}

/// The buffers of a run: made by a plan, for that plan, used by one run at a time.
pub struct Scratch {
    /// Whose it is.
    owner: Owner,
    workers: Box<dyn Any + Send>,
    outputs: Vec<Output>,
    bytes: usize,
}

/// What tells an executor from every other one of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Scratch {
    pub(crate) fn new<W: Any + Send>(owner: Owner, workers: Vec<W>, results: usize, bytes: usize) -> Scratch {
        Scratch { owner, workers: Box::new(workers), outputs: Vec::with_capacity(results), bytes }
    }

    /// The workers and room for results, if the scratch is this executor's.
    pub(crate) fn parts<W: Any + Send>(&mut self, owner: Owner) -> Result<(&mut Vec<W>, &mut Vec<Output>), SpecError> {
        let foreign = || SpecError::new("scratch", "the scratch of this plan", "that of another");
        let workers = if self.owner == owner { self.workers.downcast_mut() } else { None };
        Ok((workers.ok_or_else(foreign)?, &mut self.outputs))
    }

    /// Bytes that the buffers take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
