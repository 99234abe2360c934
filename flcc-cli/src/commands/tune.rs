//! tune: costs fitted to times on this machine.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use flcc_runtime::rooms::files;
use flcc_runtime::rooms::plan::cost::{Costs, TERMS, Work};
use flcc_runtime::rooms::plan::settings::SOURCE;
use flcc_runtime::rooms::tune::grid::{Sample, Timed, expected, samples};
use flcc_runtime::rooms::tune::{draw, fit, unroll};
use flcc_runtime::{Effort, Platform, Spec, SpecError, Wisdom};
use serde_json::{Map, json};

use crate::args::{Planning, Tune};
use crate::error::Error;
use crate::memory::check_data;
use crate::outputs::{Holds, Inputs, Output};
use crate::session::{Progress, Session, check_wisdom, override_spec, wisdom_file};

/// Of how many specs one is kept to judge the costs by.
const HELD_OUT: usize = 5;

/// Offers beyond so many times the best estimate are not timed: nothing has to be told apart there.
const MOST: f64 = 12.0;

/// Offers of a solver that are timed at most.
const OFFERS: usize = 6;

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
    if args.drawing.count == 0 {
        return Err(SpecError::new("--count", "at least one spec", 0).into());
    }
    let platform = if planning.platform == Platform::Auto { Platform::Cpu } else { planning.platform };
    let planning = &Planning { platform, ..planning.clone() };
    let session = Session::new(planning, Effort::Estimate, false)?;
    let specs = draw::specs(args.drawing.seed as u64, args.drawing.count);
    let specs = specs.iter().map(|spec| override_spec(spec, planning)).collect::<Result<Vec<_>, _>>()?;
    if args.dry_run {
        specs.iter().chain(&args.specs).try_for_each(|spec| writeln!(out, "{spec}"))?;
        // A sum of nothing is -0.
        let seconds = specs.iter().map(|spec| expected(&session.planner, spec, MOST, OFFERS)).sum::<f64>();
        writeln!(
            out,
            "# about {:.0} s, and as long as is planned for {} specs",
            seconds.ceil() + 0.0,
            args.specs.len()
        )?;
        return Ok(());
    }
    if let Some(samples) = &args.samples {
        let wisdom = wisdom_file(planning)?.map(|(argument, path)| Output { argument, path, holds: Holds::Wisdom });
        let mut inputs = Inputs::new();
        inputs.add_output(&Output { argument: "--samples", path: samples.clone(), holds: Holds::Wisdom });
        inputs.check(wisdom.as_slice())?;
    }
    let mut kept = args.samples.as_deref().map(Samples::open).transpose()?;
    let progress = Progress::new();
    let mut of_specs: Vec<Vec<Sample>> = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        let known = kept.as_ref().and_then(|kept| kept.of(spec));
        let found = match known {
            Some(found) => found,
            None => {
                let found = samples(&session.planner, spec, MOST, OFFERS);
                kept.iter_mut().try_for_each(|kept| kept.add(spec, &found))?;
                found
            }
        };
        of_specs.push(found);
        progress.tell(number + 1, specs.len());
    }
    drop(progress);
    let part = |held: bool| -> Vec<Sample> {
        let chosen = of_specs.iter().enumerate().filter(|(number, _)| (number % HELD_OUT == HELD_OUT - 1) == held);
        chosen.flat_map(|(_, samples)| samples.iter().cloned()).collect()
    };
    let (fitted_to, held_out) = (part(false), part(true));
    let before = *session.planner.machine().costs();
    let after = fit::fit(&fitted_to, before);
    let timed = told(fitted_to.iter().chain(&held_out));
    let (judged, judged_held_out) = (fit::judged(&fitted_to), fit::judged(&held_out));
    let machine = session.planner.machine();
    if planning.json {
        // The machine's own terms: those of the processor, or of the GPU that was timed.
        let device = machine.devices().first().filter(|_| platform == Platform::Cuda);
        let (processor, instructions) = match device {
            Some(device) => (device.name.clone(), device.target()),
            None => (
                machine.model().to_string(),
                machine.isas().iter().next().map_or("portable", |isa| isa.name()).to_string(),
            ),
        };
        let terms = TERMS.into_iter().filter(|term| term.of_device() == device.is_some());
        let line = json!({
            "processor": processor, "instructions": instructions, "cores": machine.cores(),
            "specs": specs.len(), "samples": judged.len() + judged_held_out.len(), "timed": timed,
            "before": fit::errors(&judged_held_out, &before), "after": fit::errors(&judged_held_out, &after),
            "costs": terms.map(|term| (term.name().to_string(), json!(after.of(term)))).collect::<Map<_, _>>(),
        });
        writeln!(out, "{line}")?;
        return keep(args, planning, &session, &after);
    }
    let ways = judged.len() + judged_held_out.len();
    writeln!(out, "# {ways} ways to compute {} specs, timed {timed}", specs.len())?;
    for (name, costs) in [("before", &before), ("after", &after)] {
        let (of_fitted, of_held) = (fit::errors(&judged, costs), fit::errors(&judged_held_out, costs));
        writeln!(
            out,
            "# estimate over time, or time over estimate, {name}: median {:.2}, worst {:.1}; held out {:.2}, {:.1}",
            of_fitted.0, of_fitted.1, of_held.0, of_held.1
        )?;
    }
    for term in TERMS {
        writeln!(out, "{} = {} # {}", term.name(), after.of(term), before.of(term))?;
    }
    keep(args, planning, &session, &after)
}

/// How those of the samples were timed that estimates are judged by.
fn told<'a>(mut samples: impl Iterator<Item = &'a Sample>) -> &'static str {
    let timed = if samples.any(|sample| sample.timed == Timed::Kernels) { Timed::Kernels } else { Timed::Calls };
    timed.how()
}

/// Keeps costs in the wisdom file, if one is named, and what is measured of the specs that were given.
fn keep(args: &Tune, planning: &Planning, session: &Session, costs: &Costs) -> Result<(), Error> {
    if let Some((argument, file)) = wisdom_file(planning)? {
        check_wisdom(argument, &file)?;
        let machine = session.planner.machine().without_devices();
        let (_, kept) = Wisdom::update(&file, |wisdom| wisdom.insert_costs(&machine, SOURCE, costs))
            .map_err(Error::wisdom(argument))?;
        kept?;
        let planning = Planning { effort: planning.effort.or(Some(Effort::Measure)), ..planning.clone() };
        let measuring = Session::new(&planning, Effort::Measure, false)?;
        let progress = Progress::new();
        for (number, spec) in args.specs.iter().enumerate() {
            let spec = override_spec(spec, &planning)?;
            check_data(&spec, spec.templates())?;
            measuring.planner.plan(&spec)?;
            // One by one, so that nothing is lost where the rest is not awaited.
            measuring.keep_wisdom()?;
            progress.tell(number + 1, args.specs.len());
        }
    }
    Ok(())
}

/// The first line of a file of samples.
fn header() -> String {
    format!("spec,kernel,timed,estimate_ns,ns,overlaps,{}\n", TERMS.map(|term| term.name()).join(","))
}

/// A file of samples, which grows spec by spec: what was timed before it was interrupted is there.
struct Samples<'a> {
    file: &'a Path,
    text: String,
    known: HashMap<String, Vec<Sample>>,
}

impl Samples<'_> {
    /// What a file has; one that is not there has nothing.
    fn open(file: &Path) -> Result<Samples<'_>, Error> {
        let text = match files::read_bounded(file, MOST_SAMPLES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => header(),
            read => String::from_utf8_lossy(&read.map_err(failed(file))?).into_owned(),
        };
        let wrong = |expected: &str, got: &str| SpecError::new(format!("--samples {file:?}"), expected, got);
        let Some(rows) = text.strip_prefix(&header()) else {
            let expected = "a file of samples of this version, or none yet";
            return Err(wrong(expected, text.lines().next().unwrap_or("")).into());
        };
        let mut known: HashMap<String, Vec<Sample>> = HashMap::new();
        for line in rows.lines() {
            let (spec, sample) = read(line).ok_or_else(|| wrong("lines of samples", line))?;
            known.entry(spec).or_default().extend(sample);
        }
        Ok(Samples { file, text, known })
    }

    /// What was timed of a spec.
    fn of(&self, spec: &Spec) -> Option<Vec<Sample>> {
        self.known.get(&spec.to_string()).cloned()
    }

    /// Keeps what was timed of a spec; a spec of which nothing was has a line as well.
    fn add(&mut self, spec: &Spec, found: &[Sample]) -> Result<(), Error> {
        for Sample { kernel, timed, work, estimate_ns, ns } in found {
            let amounts = TERMS.map(|term| work.of(term).to_string()).join(",");
            let overlaps = u8::from(work.overlaps());
            let timed = timed.name();
            let _ = writeln!(self.text, "\"{spec}\",{kernel},{timed},{estimate_ns},{ns},{overlaps},{amounts}");
        }
        if found.is_empty() {
            let _ = writeln!(self.text, "\"{spec}\"");
        }
        let failed = failed(self.file);
        let target = files::target(self.file).map_err(&failed)?;
        files::replace(&target, |to| to.write_all(self.text.as_bytes())).map_err(failed)
    }
}

/// The most bytes of a file of samples.
const MOST_SAMPLES: usize = 1 << 28;

fn failed(file: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::Failed(format!("--samples {file:?}: {error}"))
}

/// A line of a file of samples: the spec and what was timed of it, if anything was.
fn read(line: &str) -> Option<(String, Option<Sample>)> {
    let (spec, rest) = line.strip_prefix('"')?.split_once('"')?;
    if rest.is_empty() {
        return Some((spec.to_string(), None));
    }
    let fields: Vec<&str> = rest.strip_prefix(',')?.split(',').collect();
    let [kernel, timed, estimate_ns, ns, overlaps, amounts @ ..] = &fields[..] else { return None };
    let timed = Timed::ALL.into_iter().find(|one| one.name() == *timed)?;
    let amounts: Vec<f64> = amounts.iter().map(|amount| amount.parse().ok()).collect::<Option<_>>()?;
    if amounts.len() != TERMS.len() {
        return None;
    }
    let work = TERMS.into_iter().zip(amounts).fold(Work::default(), |work, (term, amount)| work.and(term, amount));
    let work = if *overlaps == "1" { work.overlapped() } else { work };
    let (estimate_ns, ns) = (estimate_ns.parse().ok()?, ns.parse().ok().filter(|ns: &f64| *ns > 0.0)?);
    Some((spec.to_string(), Some(Sample { kernel: kernel.parse().ok()?, timed, work, estimate_ns, ns })))
}

/// Times each listed size's own kernel beside the one for any size.
fn unroll(args: &Tune, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let platform = if planning.platform == Platform::Auto { Platform::Cpu } else { planning.platform };
    let planning = &Planning { platform, threads: 1, ..planning.clone() };
    let specs = unroll::specs(platform);
    if args.dry_run {
        specs.iter().try_for_each(|spec| writeln!(out, "{spec}"))?;
        return Ok(());
    }
    let session = Session::new(planning, Effort::Estimate, false)?;
    let progress = Progress::new();
    for (number, spec) in specs.iter().enumerate() {
        let gain = unroll::gain(&session.planner, spec)?;
        progress.tell(number + 1, specs.len());
        let Some(gain) = gain else { continue };
        let ratio = gain.any_ns / gain.own_ns;
        if planning.json {
            let line = json!({
                "spec": spec.to_string(), "kernel": gain.own.to_string(), "own_ns": gain.own_ns,
                "any_ns": gain.any_ns, "spread": gain.spread, "pays": gain.pays(), "timed": gain.timed.how(),
            });
            writeln!(out, "{line}")?;
        } else {
            let verdict = if gain.pays() { "pays" } else { "does not pay" };
            let (own, any) = (gain.own_ns / 1e6, gain.any_ns / 1e6);
            writeln!(
                out,
                "{:32}  {:36}  {own:9.4} ms  for any size {any:9.4} ms  {ratio:5.2}  spread {:.2}  {verdict}, timed {}",
                spec.to_string(),
                gain.own.to_string(),
                gain.spread,
                gain.timed.how()
            )?;
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flcc_runtime::rooms::plan::cost::Term;

    use super::*;

    #[test]
    fn samples_are_read_as_they_are_kept() {
        let folder = std::env::temp_dir().join(format!("flcc-samples-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("samples.csv");
        let work = Work::default().and(Term::DeviceTile, 3.0).and(Term::DeviceCopy, 40.0);
        let sample = |timed, work, ns| {
            let kernel = "tile64_f32_any_b16x16".parse().unwrap();
            Sample { kernel, timed, work, estimate_ns: 5.5, ns }
        };
        let found = [
            sample(Timed::Kernels, work.of_kernels(), 7.0),
            sample(Timed::Rest, work.beside_kernels(), 9.0),
            sample(Timed::Calls, work.overlapped(), 20.0),
        ];
        let spec = "corr:f32:60x70*5x6:valid".parse().unwrap();
        Samples::open(&file).unwrap().add(&spec, &found).unwrap();
        let read = Samples::open(&file).unwrap().of(&spec).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let told = |one: &Sample| (one.timed, one.work.clone(), one.ns);
        assert_eq!(read.iter().map(told).collect::<Vec<_>>(), found.iter().map(told).collect::<Vec<_>>());
        // What a device timed is told wherever it timed anything.
        assert_eq!(super::told(found.iter()), "on the device, without copies");
        assert_eq!(super::told(found[1..].iter()), "as whole calls");
    }
}
