//! local: statistics of every window of an image.

use std::io::Write;
use std::time::Instant;

use flcc_runtime::WindowStats;
use flcc_runtime::{
    Accuracy, Boundary, Control, DType, Effort, Kind, Method, Mode, PlanError, Platform, Refusal, SpecError, Stat,
};
use serde_json::json;

use crate::args::{Local, Planning};
use crate::data::Image;
use crate::error::Error;
use crate::memory::check;
use crate::outputs::{self, Holds, Inputs, Output, Written};
use crate::picture::Heat;
use crate::session::Progress;

/// Computes and writes the statistic.
///
/// # Errors
/// A wrong call, a file; a platform, a method or an option that window statistics do not have; too little memory.
pub fn run(args: &Local, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    if planning.platform == Platform::Cuda {
        return Err(PlanError::Refused(Refusal::new("local", "window statistics run on platform cpu")).into());
    }
    if planning.method != Method::Auto {
        let reason = format!("window sums have one method, none is {} (--method auto)", planning.method);
        return Err(PlanError::Refused(Refusal::new("local", reason)).into());
    }
    let nothing = |argument: &str, got: String| {
        SpecError::new(argument, "none for local, which has one kernel and nothing to measure", got)
    };
    if let Some(effort) = planning.effort.filter(|effort| *effort != Effort::Estimate) {
        return Err(nothing("--effort", effort.to_string()).into());
    }
    if let Some(file) = &planning.wisdom {
        return Err(nothing("--wisdom", file.display().to_string()).into());
    }
    let output = Output { argument: "-o", path: args.output.clone(), holds: Holds::Result };
    let mut inputs = Inputs::new();
    inputs.add("IMAGE", &args.image);
    inputs.check(&[output])?;
    outputs::check_standard_output("-o", &args.output, 1, planning.json.then_some("the fields of --json"))?;
    let named = |error: SpecError| Error::from(error).named("IMAGE", "--window");
    let boundary = args.extent.boundary().map_err(named)?;
    let mode = args.extent.mode.unwrap_or(Mode::Same);
    let image = Image::open("IMAGE", &args.image, &args.extent.reading)?;
    if image.channels() != 1 {
        return Err(SpecError::new("IMAGE", "1 channel (--gray folds colour)", image.channels()).into());
    }
    if planning.accuracy == Some(Accuracy::Exact) {
        exact(args, &image, boundary)?;
    }
    let dtype = match planning.precision {
        Some(precision) => precision.0,
        None if image.dtype() == DType::F64 => DType::F64,
        None => DType::F32,
    };
    let view = image.view()?;
    let statistics = WindowStats::new(&view, args.window, args.statistic, mode, boundary, dtype).map_err(named)?;
    let statistics = statistics.threads(planning.threads)?.memory_limit(planning.memory_limit.map(|bytes| bytes.0));
    outputs::result_format("-o", &args.output, statistics.out_shape().axes())?;
    let needed = statistics.out_shape().len() as f64 * dtype.row().size as f64 + statistics.scratch_bytes()? as f64;
    check(&format!("the {} over {} of {}", args.statistic, args.window, image.shape()), needed)?;
    let progress = Progress::new();
    let tell = |done, total| progress.tell(done, total);
    let began = Instant::now();
    let map = statistics.run(&Control { progress: Some(&tell), ..Control::default() })?;
    let ns = began.elapsed().as_nanos() as u64;
    drop(progress);
    // Where the first window begins.
    let whole = mode.region(image.shape(), args.window).map_err(named)?;
    let window = args.window.padded();
    let first = [0, 1, 2].map(|axis| whole.origin[axis] as i64 - (window[axis] as i64 - 1));
    let name = args.statistic.to_string();
    let heat = Heat { map: &map, first: &image.shape().unpad(&first), measure: &name };
    outputs::write("-o", &args.output, Written { heat, column: &name }, out)?;
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

/// Accuracy exact: integer sums are exact whatever is asked for, as far as f64 holds them; floats are summed in f64.
fn exact(args: &Local, image: &Image, boundary: Boundary) -> Result<(), SpecError> {
    let Some(max) = image.dtype().row().max else {
        return Ok(());
    };
    let outside = boundary.value().unwrap_or(0.0);
    if outside.fract() != 0.0 || outside < 0.0 || outside > f64::from(max) {
        let expected = format!("an integer of {} at accuracy exact", image.dtype());
        return Err(SpecError::of(Kind::NotExact, "--cval", expected, outside));
    }
    let largest = f64::from(max).powi(if args.statistic == Stat::Var { 2 } else { 1 }) * args.window.len() as f64;
    if !matches!(args.statistic, Stat::Min | Stat::Max) && largest >= 2f64.powi(53) {
        let expected = format!(
            "a window whose sums stay below 2^53 at accuracy exact, for the {} of {}",
            args.statistic,
            image.dtype()
        );
        return Err(SpecError::of(Kind::NotExact, "--window", expected, args.window));
    }
    Ok(())
}
