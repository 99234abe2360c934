//! bench --grid: how well plans are chosen for specs, made-up ones where none is given.

use std::io::Write;

use flcc_runtime::Effort;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::rooms::tune::draw;
use flcc_runtime::rooms::tune::grid::{Comparison, judge};
use serde_json::json;

use crate::args::{Bench, Planning};
use crate::error::Error;
use crate::session::{Session, override_spec};

/// Judges plans for every spec that is given, else for every made-up one but the first few that are to be left out, and
/// tells how many were as good as the best.
///
/// # Errors
/// A plan that fails.
pub fn run(args: &Bench, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let session = Session::new(planning, Effort::Measure, false)?;
    let specs = match &args.specs[..] {
        [] => draw::specs(args.drawing.seed as u64, args.drawing.count).into_iter().skip(args.skip).collect(),
        given => given.to_vec(),
    };
    if !planning.json {
        writeln!(out, "{}", row(COLUMNS.map(str::to_string)))?;
    }
    let mut judged = Vec::new();
    for spec in specs {
        let compared = match judge(&session.planner, &override_spec(&spec, planning)?) {
            Ok(compared) => compared,
            // What the options do not serve is told, and the rest judged.
            Err(error) => {
                session.note(&format!("{spec}: {error}"));
                continue;
            }
        };
        writeln!(out, "{}", if planning.json { line(&compared) } else { row(columns(&compared)) })?;
        out.flush()?;
        judged.push(compared);
    }
    if planning.json {
        return Ok(());
    }
    let mut spreads: Vec<f64> = judged.iter().map(|compared| compared.spread).collect();
    spreads.sort_by(f64::total_cmp);
    let of = |share: f64| spreads.get((spreads.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    writeln!(out, "one plan timed twice: median {:.1} % apart, one in ten {:.1} %", 100.0 * of(0.5), 100.0 * of(0.9))?;
    let ratio_of_estimate = |compared: &Comparison| compared.estimate.ratio;
    let ratio_of_measure = |compared: &Comparison| compared.measure.ratio;
    writeln!(out, "{}", summary("measure", &judged, ratio_of_measure))?;
    writeln!(out, "{}", summary("estimate", &judged, ratio_of_estimate))?;
    Ok(())
}

/// How many choices are within some shares of the best; a difference within a spec's own spread is none.
fn summary(name: &str, judged: &[Comparison], ratio: impl Fn(&Comparison) -> f64) -> String {
    let ratio = |compared: &Comparison| {
        let ratio = ratio(compared);
        if ratio <= 1.0 + compared.spread { 1.0 } else { ratio }
    };
    let within = |most: f64| {
        let count = judged.iter().filter(|compared| ratio(compared) <= most).count();
        100.0 * count as f64 / judged.len().max(1) as f64
    };
    let worst = judged.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let worst = worst.map_or(String::new(), |worst| format!("; worst {:.2} ({})", ratio(worst), worst.spec));
    let [five, twenty, quarter, double] = [1.05, 1.2, 1.25, 2.0].map(within);
    format!(
        "{name:8}: within 5 % of the best {five:.0} %, 20 % {twenty:.0} %, 25 % {quarter:.0} %, twice it \
         {double:.0} %{worst}"
    )
}

/// The columns of the table.
const COLUMNS: [&str; 8] = ["spec", "best", "ms", "measure", "ratio", "estimate", "ratio", "spread"];

fn row([spec, best, ms, measure, first, estimate, second, spread]: [String; 8]) -> String {
    format!("{spec:48} {best:36} {ms:>10} {measure:36} {first:>6} {estimate:36} {second:>6} {spread:>6}")
}

/// What the kernel is where it is not the best one.
fn other(kernel: &KernelKey, best: &KernelKey) -> String {
    if kernel == best { "=".into() } else { kernel.to_string() }
}

fn columns(compared: &Comparison) -> [String; 8] {
    let Comparison { spec, estimate, measure, best, spread, .. } = compared;
    [
        spec.to_string(),
        best.0.to_string(),
        format!("{:.4}", best.1 / 1e6),
        other(&measure.kernel, &best.0),
        format!("{:.2}", measure.ratio),
        other(&estimate.kernel, &best.0),
        format!("{:.2}", estimate.ratio),
        format!("{spread:.2}"),
    ]
}

/// The line of `--json`.
fn line(compared: &Comparison) -> String {
    let Comparison { spec, estimate, measure, best, spread, planned, timed } = compared;
    json!({
        "spec": spec.to_string(),
        "best": best.0.to_string(),
        "best_ns": best.1,
        "measure": measure.kernel.to_string(),
        "measure_ratio": measure.ratio,
        "estimate": estimate.kernel.to_string(),
        "estimate_ratio": estimate.ratio,
        "spread": spread,
        "plan_ns": planned.as_nanos() as u64,
        "timed": timed.how(),
    })
    .to_string()
}
