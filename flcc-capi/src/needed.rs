//! Whether there is memory for what comes next, before it is asked for: an allocation that fails ends the process, and
//! one that the system has promised but cannot keep ends others too.

use flcc_core::error::counted;
use flcc_core::peaks::PeakOptions;
use flcc_core::spec::Spec;
use flcc_runtime::Plan;
use flcc_runtime::rooms::free::short_of;
use flcc_runtime::rooms::plan::needed;

use crate::status::Failure;
use crate::status::flcc_status::FLCC_ERROR_NO_MEMORY;

/// What is had without a question, which takes longer than most calls that need so little.
const LITTLE: f64 = 16.0 * 1024.0 * 1024.0;

/// Whether there are so many bytes.
pub(crate) fn has_memory(bytes: f64) -> Result<(), Failure> {
    if bytes <= LITTLE {
        return Ok(());
    }
    let Some(free) = short_of(bytes) else { return Ok(()) };
    let expected = format!("at most {free:.0} bytes, which are free");
    Err(Failure::new(FLCC_ERROR_NO_MEMORY, "memory", expected, format!("{bytes:.0}")))
}

/// An empty vector with room, if there is memory for it.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>, Failure> {
    has_memory(count as f64 * size_of::<T>() as f64)?;
    let mut vector = Vec::new();
    let refused = |_| Failure::new(FLCC_ERROR_NO_MEMORY, "memory", format!("room for {count} values"), "none");
    vector.try_reserve_exact(count).map_err(refused)?;
    Ok(vector)
}

/// The most samples of an image. The planner looks at tiles of every size, in a second for so many, and in minutes for
/// what is larger than any memory.
const MOST_SAMPLES: f64 = 68_719_476_736.0;

/// Whether a spec can be planned.
pub(crate) fn to_plan(spec: &Spec) -> Result<(), Failure> {
    if spec.image().len() as f64 * spec.channels() as f64 > MOST_SAMPLES {
        let got = format!("{} with {}", spec.image(), counted(spec.channels(), "channel"));
        return Err(Failure::invalid("image", format!("at most {MOST_SAMPLES:.0} samples"), got));
    }
    has_memory(needed::planning(spec))
}

/// Whether templates can be bound.
pub(crate) fn to_bind(plan: &Plan) -> Result<(), Failure> {
    has_memory(needed::binding(plan))
}

/// Whether there is scratch for one call more.
pub(crate) fn to_execute(plan: &Plan) -> Result<(), Failure> {
    has_memory(needed::scratch(plan))
}

/// Bytes that lists of peaks of several images may take together.
const LISTS: f64 = 256.0 * 1024.0 * 1024.0;

/// Bytes of a peak, as found and as told.
const PEAK: f64 = 256.0;

/// How many of `count` images peaks can be looked for in at a time: scratch, some rows of results, and lists of
/// peaks.
pub(crate) fn to_find(plan: &Plan, options: &PeakOptions, count: usize) -> Result<usize, Failure> {
    let spec = plan.spec();
    let each = PEAK * needed::peaks(spec, options);
    // As many images as the spec says go together.
    let images = if spec.images() > 0 { count } else { ((LISTS / each.max(1.0)) as usize).clamp(1, count.max(1)) };
    has_memory(needed::scratch(plan) + plan.peaks_bytes(options) as f64 + each * images as f64)?;
    Ok(images)
}

/// Whether a template's poses can be made by so many threads, and their peaks be looked for.
pub(crate) fn to_pose(spec: &Spec, options: &PeakOptions, poses: usize, threads: usize) -> Result<(), Failure> {
    has_memory(needed::posing(spec, poses, threads) + PEAK * needed::peaks(spec, options))
}
