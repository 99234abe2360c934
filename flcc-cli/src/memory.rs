//! Refusals of what the memory does not hold, before anything of that size is asked for: an allocation that fails ends
//! the process, and one that the system has promised but cannot keep ends others too.

use flcc_runtime::rooms::free::available;
use flcc_runtime::{PeakOptions, Plan, Platform, Spec};

use crate::error::Error;
use crate::io::RawFormat;

/// Refuses what takes more than there is.
///
/// # Errors
/// What is needed and what there is.
pub fn check(what: &str, needed: f64) -> Result<(), Error> {
    let available = available();
    if needed > available {
        return Err(Error::Failed(format!(
            "memory: expected at most {available:.0} bytes, which are free, got {what} that takes about {needed:.0}"
        )));
    }
    Ok(())
}

/// Refuses frames, of a layout that an argument tells, that take more than half of what there is.
///
/// # Errors
/// What a frame may take and what it takes.
pub fn check_frame(argument: &str, format: &RawFormat) -> Result<(), Error> {
    let (most, bytes) = (available() / 2.0, format.frame_bytes());
    if bytes as f64 > most {
        return Err(Error::Failed(format!(
            "{argument}: expected frames of at most {most:.0} bytes (half of the free memory), got {bytes} ({format})"
        )));
    }
    Ok(())
}

/// Bytes of the results of a spec.
pub fn results(spec: &Spec) -> f64 {
    let count = spec.out_shape().len() as f64 * spec.images().max(1) as f64 * spec.templates() as f64;
    count * spec.out_type().row().size as f64
}

/// Bytes of templates as they are copied and checked when they are bound, in f64.
fn copies(spec: &Spec) -> f64 {
    32.0 * spec.template().len() as f64 * spec.channels() as f64 * spec.templates() as f64
}

/// Bytes that an execution takes: scratch, bound templates, and so many of results and of what the caller makes of
/// them.
fn taken(plan: &Plan, results: f64) -> f64 {
    let spec = plan.spec();
    // What a plan for a device takes lies there, and was held against what is there.
    let here = match plan.platform() {
        Platform::Cuda => 0.0,
        _ => plan.scratch_bytes() as f64 + plan.template_bytes() as f64 * spec.templates() as f64,
    };
    here + copies(spec) + results
}

/// Refuses an execution that does not fit, with so many bytes of results and of what the caller makes of them.
///
/// # Errors
/// As [`check`].
pub fn check_plan(plan: &Plan, results: f64) -> Result<(), Error> {
    check(&plan.spec().to_string(), taken(plan, results))
}

/// Refuses lists of peaks that do not fit beside an execution: as many as are asked for, or as there is room for, since
/// each keeps a box of its distance for itself.
///
/// # Errors
/// As [`check`].
pub fn check_peaks(plan: &Plan, results: f64, options: &PeakOptions) -> Result<(), Error> {
    /// As found, as told and as text.
    const EACH: f64 = 512.0;
    let (spec, shape) = (plan.spec(), plan.spec().out_shape());
    let side = options.distance(Some(spec.template())).saturating_add(1);
    let boxes: f64 = shape.lengths().iter().map(|length| length.div_ceil(side) as f64).product();
    let count = options.top.map_or(boxes, |top| boxes.min(top as f64)) * spec.templates() as f64;
    let what = format!(
        "{spec} with a list of up to {count:.0} peaks (a smaller --top or a larger --min-distance shortens it)"
    );
    check(&what, taken(plan, results) + EACH * count)
}

/// Refuses made-up data that do not fit: images, so many templates and results, and the oracle's copy of an image.
///
/// # Errors
/// As [`check`].
pub fn check_data(spec: &Spec, templates: usize) -> Result<(), Error> {
    let (images, templates, channels) = (spec.images().max(1) as f64, templates as f64, spec.channels() as f64);
    let (image, template) = (spec.image().len() as f64 * channels, spec.template().len() as f64 * channels);
    let size = |dtype: flcc_runtime::DType| dtype.row().size as f64;
    let arrays = images * image * size(spec.image_type()) + templates * template * size(spec.template_type());
    check(&format!("{spec}"), arrays + results(spec) + 16.0 * image + 2.0 * copies(spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_one_line() {
        let error = check("a map", 1e18).unwrap_err();
        assert!(error.status() == 1 && error.to_string().starts_with("memory: expected at most "), "{error}");
        assert!(check_data(&"zncc:f32:10000000x10000000*3x3:valid".parse().unwrap(), 1).is_err());
        assert!(check_data(&"zncc:f32:10x10*3x3:valid".parse().unwrap(), 1).is_ok());
        assert!(check_data(&"zncc:f32:10x10*3x3:valid".parse().unwrap(), 1 << 50).is_err());
    }
}
