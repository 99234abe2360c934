//! Refusals of what the memory does not hold, before anything of that size is asked for: an allocation that fails ends
//! the process, and one that the system has promised but cannot keep ends others too.

use flcc_runtime::rooms::free::{available, short_of};
use flcc_runtime::rooms::plan::needed;
pub use flcc_runtime::rooms::plan::needed::results;
use flcc_runtime::{PeakOptions, Plan, Spec};

use crate::error::Error;
use crate::io::RawFormat;

/// Refuses what takes more than there is.
///
/// # Errors
/// What is needed and what there is.
pub fn check(what: &str, needed: f64) -> Result<(), Error> {
    let Some(free) = short_of(needed) else { return Ok(()) };
    let expected = format!("at most {free:.0} bytes, which are free");
    Err(Error::Failed(format!("memory: expected {expected}, got {what} that takes about {needed:.0}")))
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

/// Refuses an execution that does not fit, with so many bytes of results and of what the caller makes of them.
///
/// # Errors
/// As [`check`].
pub fn check_plan(plan: &Plan, results: f64) -> Result<(), Error> {
    check(&plan.spec().to_string(), needed::execution(plan) + results)
}

/// Refuses lists of peaks that do not fit beside an execution.
///
/// # Errors
/// As [`check`].
pub fn check_peaks(plan: &Plan, results: f64, options: &PeakOptions) -> Result<(), Error> {
    /// As found, as told and as text.
    const EACH: f64 = 512.0;
    let spec = plan.spec();
    let count = needed::peaks(spec, options);
    let what = format!(
        "{spec} with a list of up to {count:.0} peaks (a smaller --top or a larger --min-distance shortens it)"
    );
    check(&what, needed::execution(plan) + results + EACH * count)
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
    check(&format!("{spec}"), arrays + results(spec) + 16.0 * image + 2.0 * needed::checking(spec))
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
