//! plan: which kernel a spec is computed with, and why.

use std::io::Write;

use flcc_runtime::{Effort, Outcome, Spec};
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
        let candidates: Vec<Value> = plan
            .candidates()
            .iter()
            .map(|candidate| {
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
                    "outcome": outcome,
                    "estimate_ns": candidate.estimate_ns,
                    "least_ns": ns,
                    "reason": reason,
                })
            })
            .collect();
        let value = json!({
            "spec": plan.spec().to_string(),
            "method": plan.method().to_string(),
            "kernel": plan.kernel().to_string(),
            "threads": plan.workers(),
            "tiles": plan.tiles(),
            "scratch_bytes": plan.scratch_bytes(),
            "template_bytes": plan.template_bytes(),
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
