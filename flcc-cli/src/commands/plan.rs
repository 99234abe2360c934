//! plan: which kernel a spec is computed with, and why.

use std::io::Write;

use flcc_runtime::account::{Floor, Outcome, Row};
use flcc_runtime::{Effort, Spec};
use serde_json::{Value, json};

use crate::args::{Plan, Planning};
use crate::error::Error;
use crate::memory::check_data;
use crate::session::{Session, override_spec};

/// Prints the kernel of each spec, the account with `--explain`, everything with `--json`.
///
/// # Errors
/// A refusal, with its reason; a memory limit that no plan meets.
pub fn run(args: &Plan, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let session = Session::new(planning, Effort::Estimate, false)?;
    for spec in &args.specs {
        one(&override_spec(spec, planning)?, &session, args, planning, out)?;
        out.flush()?;
    }
    Ok(())
}

/// Prints one of the plans.
fn one(spec: &Spec, session: &Session, args: &Plan, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    if session.measures() {
        check_data(spec, spec.templates())?;
    }
    let plan = session.planner.plan(spec)?;
    // What cannot be kept is told after what was found.
    let kept = session.keep_wisdom();
    if planning.json {
        let account = plan.account();
        let candidates: Vec<Value> = account.rows.iter().map(row).collect();
        let Floor { operations, operations_ns, bytes, bytes_ns } = account.floor;
        let value = json!({
            "spec": account.spec,
            "method": account.method.to_string(),
            "platform": account.platform.to_string(),
            "kernel": account.kernel,
            "decided": account.decided,
            "place": account.place,
            "threads": account.threads,
            "tiles": account.tiles,
            "scratch_bytes": account.scratch_bytes,
            "template_bytes": account.template_bytes,
            "ns": account.ns,
            "measured": account.measured,
            "floor": {
                "operations": operations,
                "operations_ns": operations_ns,
                "bytes": bytes,
                "bytes_ns": bytes_ns,
            },
            "choosing_ns": account.took.choosing.as_nanos() as u64,
            "building_ns": account.took.building.as_nanos() as u64,
            "notes": account.notes,
            "candidates": candidates,
        });
        writeln!(out, "{value}")?;
    } else if args.explain {
        write!(out, "{}", plan.explain())?;
    } else {
        writeln!(out, "{}", plan.kernel())?;
    }
    kept
}

/// What is told of one that was considered.
fn row(Row { candidate, bytes }: &Row) -> Value {
    let (outcome, ns, reason) = match &candidate.outcome {
        Outcome::Estimated => ("estimated", None, None),
        Outcome::Known(ns) => ("known", Some(*ns), None),
        Outcome::Measured(ns) => ("measured", Some(*ns), None),
        Outcome::Stopped(ns) => ("stopped", Some(*ns), None),
        Outcome::Named => ("named", None, None),
        Outcome::Slower => ("slower", None, None),
        Outcome::RunnerUp => ("runner-up", None, None),
        Outcome::Failed(reason) => ("failed", None, Some(reason)),
        Outcome::Refused(reason) => ("refused", None, Some(reason)),
    };
    json!({
        "kernel": candidate.kernel,
        "method": candidate.method.to_string(),
        "platform": candidate.platform.map(|platform| platform.to_string()),
        "outcome": outcome,
        "estimate_ns": candidate.estimate_ns,
        "least_ns": ns,
        "bytes": bytes,
        "reason": reason,
    })
}
