//! conformance: judge a folder of vectors and print the counts.

use std::io::Write;

use flcc_runtime::Effort;
use serde_json::{Value, json};

use crate::args::{Conformance, Planning};
use crate::conformance::{self, CaseResult, Options, State};
use crate::error::Error;
use crate::session::{Progress, Session, accuracy};

/// Runs the cases; status 1 if one failed or there was none.
///
/// # Errors
/// An index that is not read.
pub fn run(args: &Conformance, planning: &Planning, out: &mut dyn Write) -> Result<u8, Error> {
    let session = Session::new(planning, Effort::Estimate, false)?;
    let precision = planning.precision.map(|precision| precision.0);
    let results = args.results.clone();
    let options = Options { planner: session.planner.clone(), precision, accuracy: accuracy(planning), results };
    let progress = Progress::new();
    let mut done = 0;
    let report = conformance::run(&args.folder, &options, |_, total| {
        done += 1;
        progress.tell(done, total);
    })?;
    drop(progress);
    session.keep_wisdom()?;
    let [pass, fail, skip] = report.counts();
    let status = u8::from(fail > 0 || report.cases.is_empty());
    if planning.json {
        let cases: Vec<Value> = report.cases.iter().map(case_json).collect();
        writeln!(
            out,
            "{}",
            json!({"cases": report.cases.len(), "pass": pass, "fail": fail, "skip": skip, "results": cases})
        )?;
        return Ok(status);
    }
    for case in &report.cases {
        let line = match &case.state {
            State::Fail(reason) => format!("FAIL {}  {reason}", case.id),
            State::Skip(reason) => format!("SKIP {}  {reason}", case.id),
            State::Pass if args.verbose => match case.ratio {
                Some(ratio) => {
                    format!("PASS {}  {ratio:.3} x tolerance  {}", case.id, case.kernel.as_deref().unwrap_or(""))
                }
                None => format!("PASS {}  the error that was due", case.id),
            },
            State::Pass => continue,
        };
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{:16} PASS FAIL SKIP  worst err/tol", "group")?;
    for (name, [pass, fail, skip], worst) in report.groups() {
        writeln!(out, "{name:16} {pass:4} {fail:4} {skip:4}  {worst:.3}")?;
    }
    writeln!(out, "{report}")?;
    Ok(status)
}

fn case_json(case: &CaseResult) -> Value {
    let (state, message) = match &case.state {
        State::Pass => ("pass", None),
        State::Fail(reason) => ("fail", Some(reason)),
        State::Skip(reason) => ("skip", Some(reason)),
    };
    json!({
        "id": case.id,
        "group": case.group,
        "state": state,
        "message": message,
        "ratio": case.ratio,
        "error": case.error,
        "kernel": case.kernel,
        "kernels": case.kernels,
        "status": case.status,
    })
}
