//! A matcher with the scratch that it was last used with, for callers on several threads at once.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use flcc_core::error::ExecError;
use flcc_core::peaks::{Peak, PeakOptions};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};
#[cfg(feature = "cuda")]
use flcc_runtime::cuda::KeptContext;
use flcc_runtime::{Control, Matcher, Plan, Scratch};
#[cfg(feature = "cuda")]
use flcc_runtime::{DeviceImage, DeviceResults};

use crate::needed;
use crate::status::Failure;
#[cfg(feature = "cuda")]
use crate::status::flcc_status::FLCC_ERROR_REFUSED;

/// How many images of a stream are looked at together at most: many enough to keep every device busy, few enough that
/// what is noted of each is no memory to speak of.
const TOGETHER: usize = 1024;

/// Views of some images and of their results.
pub(crate) type Group<'v> = (Vec<AnyView<'v>>, Vec<AnyViewMut<'v>>);

/// A matcher and spare scratch, one for each caller that there was at once.
pub(crate) struct Runner {
    matcher: Matcher,
    spare: Mutex<Vec<Scratch>>,
}

impl Runner {
    /// Binds templates.
    pub fn new(plan: &Plan, templates: &[AnyView<'_>], mask: Option<&AnyView<'_>>) -> Result<Runner, Failure> {
        needed::to_bind(plan)?;
        Ok(Runner { matcher: plan.bind(templates, mask.map(|mask| mask as _))?, spare: Mutex::default() })
    }

    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Computes results of an image on a device: `run` is given the number of the first that the matcher computes on,
    /// and what computes there; while it answers that the image does not lie there, those of the others.
    #[cfg(feature = "cuda")]
    pub fn on_device(
        &self,
        run: impl Fn(
            usize,
            &mut dyn FnMut(&DeviceImage<'_>, &mut DeviceResults<'_>) -> Result<(), Failure>,
        ) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let _kept = KeptContext::new();
        let devices = self.matcher.devices();
        let mut done = Err(Failure::new(
            FLCC_ERROR_REFUSED,
            "matcher",
            "a plan that computes on a GPU (platform=cuda)",
            "one that computes on the CPU",
        ));
        for device in devices {
            let mut begun = false;
            done = run(device, &mut |image, results| {
                begun = true;
                let mut scratch = self.take()?;
                let done = self.matcher.execute_on_device(image, results, &mut scratch, &Control::default());
                self.keep(scratch);
                Ok(done.map(|_| ())?)
            });
            if begun {
                break;
            }
        }
        done
    }

    /// Computes the results of `count` images, whose views and those of their results `group` makes.
    pub fn execute<'v>(
        &self,
        count: usize,
        group: impl Fn(Range<usize>) -> Result<Group<'v>, Failure>,
    ) -> Result<(), Failure> {
        let mut scratch = self.take()?;
        let done = groups(self.matcher.plan().spec(), count, TOGETHER).try_for_each(|numbers| {
            let (images, mut results) = group(numbers)?;
            self.matcher.execute_into(&images, &mut results, &mut scratch, &Control::default())?;
            Ok(())
        });
        self.keep(scratch);
        done
    }

    fn take(&self) -> Result<Scratch, Failure> {
        if let Some(scratch) = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(scratch);
        }
        needed::to_execute(self.matcher.plan())?;
        Ok(self.matcher.make_scratch())
    }

    fn keep(&self, scratch: Scratch) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// The peaks of `count` images, told to `each` with the number of the first image that they are of: those of every
    /// template of an image, image by image.
    pub fn peaks<'v>(
        &self,
        count: usize,
        options: &PeakOptions,
        views: impl Fn(Range<usize>) -> Result<Vec<AnyView<'v>>, Failure>,
        mut each: impl FnMut(usize, Vec<Vec<Peak>>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let plan = self.matcher.plan();
        let together = needed::to_find(plan, options, count)?;
        groups(plan.spec(), count, together).try_for_each(|numbers| {
            let first = numbers.start;
            each(first, self.matcher.peaks(&views(numbers)?, options)?)
        })
    }
}

/// Views of some images, of their templates and of their results.
pub(crate) type PairsOfGroup<'v> = (Vec<AnyView<'v>>, Vec<AnyView<'v>>, Vec<AnyViewMut<'v>>);

/// Computes the results of `count` images, each with a template of its own, whose views `group` makes.
pub(crate) fn pairs<'v>(
    plan: &Plan,
    mask: Option<&AnyView<'_>>,
    count: usize,
    group: impl Fn(Range<usize>) -> Result<PairsOfGroup<'v>, Failure>,
) -> Result<(), Failure> {
    needed::to_bind(plan)?;
    needed::to_execute(plan)?;
    let pairs = plan.pairs(mask.map(|mask| mask as _))?;
    let mut scratch = pairs.make_scratch();
    groups(plan.spec(), count, TOGETHER).try_for_each(|numbers| {
        let first = numbers.start;
        let (images, templates, mut results) = group(numbers)?;
        let done = pairs.execute_into(&images, &templates, &mut results, &mut scratch, &Control::default());
        done.map_err(|error| counted(error, first))?;
        Ok(())
    })
}

/// An error of a group as one of the call, whose pairs are counted from the first.
fn counted(error: ExecError, first: usize) -> ExecError {
    let ExecError::Spec(mut error) = error else { return error };
    if let Some((name, number)) = error.argument.rsplit_once(' ')
        && let Ok(number) = number.parse::<usize>()
    {
        error.argument = format!("{name} {}", first + number);
    }
    error.into()
}

/// The images of a call, some at a time where the spec leaves open how many there are.
fn groups(spec: &Spec, count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let size = if spec.images() == 0 { most.min(TOGETHER) } else { count.max(1) };
    // A spec of so many images hears of none, too, and says what it expected.
    let last = if spec.images() == 0 { count } else { count.max(1) };
    (0..last).step_by(size).map(move |first| first..count.min(first.saturating_add(size)))
}
