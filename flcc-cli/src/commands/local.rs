//! local: statistics of every window of an image.

use std::io::Write;
use std::time::Instant;

use flcc_runtime::{DType, Mode, PlanError, Platform, Refusal, SpecError, window_stats};
use serde_json::json;

use crate::args::{Local, Planning};
use crate::data::Image;
use crate::error::Error;

/// Computes and writes the statistic.
///
/// # Errors
/// A wrong call, a file, platform cuda.
pub fn run(args: &Local, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    if planning.platform == Platform::Cuda {
        return Err(PlanError::Refused(Refusal::new("local", "window statistics run on platform cpu")).into());
    }
    let boundary = args.extent.boundary()?;
    let mode = args.extent.mode.unwrap_or(Mode::Same);
    let image = Image::open(&args.image, args.extent.gray)?;
    if image.channels() != 1 {
        return Err(SpecError::new("image", "1 channel (--gray folds colour)", image.channels()).into());
    }
    let dtype = match planning.precision {
        Some(precision) => precision.0,
        None if image.dtype() == DType::F64 => DType::F64,
        None => DType::F32,
    };
    let began = Instant::now();
    let map = window_stats(&image.view()?, args.window, args.statistic, mode, boundary, dtype)?;
    let ns = began.elapsed().as_nanos() as u64;
    crate::io::save_npy(&args.output, map.shape().lengths(), map.data())?;
    if planning.json {
        let value = json!({
            "statistic": args.statistic.to_string(),
            "window": args.window.lengths(),
            "shape": map.shape().lengths(),
            "output": args.output.display().to_string(),
            "ns": ns,
        });
        writeln!(out, "{value}")?;
    }
    Ok(())
}
