//! tune: costs fitted to times on this machine.

use std::fmt::Write as _;
use std::io::Write;

use flcc_runtime::plan::cost::{Costs, TERMS};
use flcc_runtime::plan::settings::SOURCE;
use flcc_runtime::tune::grid::{Sample, samples};
use flcc_runtime::tune::{draw, fit, unroll};
use flcc_runtime::{Effort, Platform, SpecError, Wisdom, files};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Map, json};

use crate::args::{Planning, Tune};
use crate::error::Error;
use crate::session::{Session, check_wisdom, override_spec, wisdom_file};

/// Of how many specs one is kept to judge the costs by.
const HELD_OUT: usize = 5;

/// Offers beyond so many times the best estimate are not timed: nothing has to be told apart there.
const MOST: f64 = 12.0;

/// Times, fits and tells; keeps the costs in the wisdom file, if one is named.
///
/// # Errors
/// A file that cannot be written; wisdom as for other commands.
pub fn run(args: &Tune, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    if args.unroll {
        return unroll(args, planning, out);
    }
    if planning.threads > 1 {
        return Err(SpecError::new("--threads", "one thread, which costs are of", planning.threads).into());
    }
    if planning.platform == Platform::Cuda || !planning.devices.is_empty() {
        return Err(SpecError::new("--platform", "the CPU, whose costs are fitted", "a GPU").into());
    }
    if args.drawing.count == 0 {
        return Err(SpecError::new("--count", "at least one spec", 0).into());
    }
    let planning = &Planning { platform: Platform::Cpu, ..planning.clone() };
    let session = Session::new(planning, Effort::Estimate, false)?;
    let specs = draw::specs(args.drawing.seed as u64, args.drawing.count);
    let specs = specs.iter().map(|spec| override_spec(spec, planning)).collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        specs.iter().try_for_each(|spec| writeln!(out, "{spec}"))?;
        return Ok(());
    }
    let bar = ProgressBar::with_draw_target(Some(specs.len() as u64), ProgressDrawTarget::stderr());
    let mut of_specs: Vec<Vec<Sample>> = Vec::new();
    let mut table = format!("spec,kernel,estimate_ns,ns,{}\n", TERMS.map(|term| term.name()).join(","));
    for spec in &specs {
        let found = samples(&session.planner, spec, MOST, 6);
        for Sample { kernel, work, estimate_ns, ns } in &found {
            let amounts = TERMS.map(|term| work.of(term).to_string()).join(",");
            let _ = writeln!(table, "\"{spec}\",{kernel},{estimate_ns},{ns},{amounts}");
        }
        of_specs.push(found);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(file) = &args.samples {
        let failed = |error| Error::Failed(format!("--samples {file:?}: {error}"));
        files::replace(&files::target(file).map_err(failed)?, |to| to.write_all(table.as_bytes())).map_err(failed)?;
    }
    let part = |held: bool| -> Vec<Sample> {
        let chosen = of_specs.iter().enumerate().filter(|(number, _)| (number % HELD_OUT == HELD_OUT - 1) == held);
        chosen.flat_map(|(_, samples)| samples.iter().cloned()).collect()
    };
    let (fitted_to, held_out) = (part(false), part(true));
    let before = session.planner.machine().costs();
    let after = fit::fit(&fitted_to, before);
    let machine = session.planner.machine();
    if planning.json {
        let instructions = machine.isas().iter().next().map_or("portable", |isa| isa.name());
        let line = json!({
            "processor": machine.model(), "instructions": instructions, "cores": machine.cores(),
            "specs": specs.len(), "samples": fitted_to.len() + held_out.len(),
            "before": fit::errors(&held_out, &before), "after": fit::errors(&held_out, &after),
            "costs": TERMS.iter().map(|term| (term.name().to_string(), json!(after.of(*term)))).collect::<Map<_, _>>(),
        });
        writeln!(out, "{line}")?;
        return keep(planning, &session, &after);
    }
    writeln!(out, "# {} ways to compute {} specs", fitted_to.len() + held_out.len(), specs.len())?;
    for (name, costs) in [("before", &before), ("after", &after)] {
        let (of_fitted, of_held) = (fit::errors(&fitted_to, costs), fit::errors(&held_out, costs));
        writeln!(
            out,
            "# estimate over time, or time over estimate, {name}: median {:.2}, worst {:.1}; held out {:.2}, {:.1}",
            of_fitted.0, of_fitted.1, of_held.0, of_held.1
        )?;
    }
    for term in TERMS {
        writeln!(out, "{} = {} # {}", term.name(), after.of(term), before.of(term))?;
    }
    keep(planning, &session, &after)
}

/// Keeps costs in the wisdom file, if one is named.
fn keep(planning: &Planning, session: &Session, costs: &Costs) -> Result<(), Error> {
    if let Some((argument, file)) = wisdom_file(planning)? {
        check_wisdom(argument, &file)?;
        let machine = session.planner.machine().without_devices();
        let (_, kept) = Wisdom::update(&file, |wisdom| wisdom.insert_costs(&machine, SOURCE, costs))
            .map_err(Error::wisdom(argument))?;
        kept?;
    }
    Ok(())
}

/// Times each listed size's own kernel beside the one for any size.
fn unroll(args: &Tune, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let platform = if planning.platform == Platform::Any { Platform::Cpu } else { planning.platform };
    let planning = &Planning { platform, threads: 1, ..planning.clone() };
    let specs = unroll::specs(platform);
    if args.dry_run {
        specs.iter().try_for_each(|spec| writeln!(out, "{spec}"))?;
        return Ok(());
    }
    let session = Session::new(planning, Effort::Estimate, false)?;
    let bar = ProgressBar::with_draw_target(Some(specs.len() as u64), ProgressDrawTarget::stderr());
    for spec in &specs {
        let gain = unroll::gain(&session.planner, spec)?;
        bar.inc(1);
        let Some(gain) = gain else { continue };
        let ratio = gain.any_ns / gain.own_ns;
        if planning.json {
            let line = json!({
                "spec": spec.to_string(), "kernel": gain.own.to_string(), "own_ns": gain.own_ns,
                "any_ns": gain.any_ns, "spread": gain.spread, "pays": gain.pays(),
            });
            writeln!(out, "{line}")?;
        } else {
            let verdict = if gain.pays() { "pays" } else { "does not pay" };
            let (own, any) = (gain.own_ns / 1e6, gain.any_ns / 1e6);
            writeln!(
                out,
                "{:32}  {:36}  {own:9.4} ms  for any size {any:9.4} ms  {ratio:5.2}  spread {:.2}  {verdict}",
                spec.to_string(),
                gain.own.to_string(),
                gain.spread
            )?;
        }
        out.flush()?;
    }
    bar.finish_and_clear();
    Ok(())
}
