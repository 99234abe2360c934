//! The account of a plan: what was considered, which rule decided, and what the hardware would allow.

use std::fmt::{self, Write};

use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::spec::Accuracy;

use crate::plan::cost::Term;
pub use crate::plan::planned::{Candidate, Outcome, Took};

use crate::plan::planned::Plan;
use crate::plan::settings::SOURCE;
use crate::plan::solver::{Method, Platform};
use crate::run::words::{amount, time};

/// What there is to tell of a plan. Its `Display` is a text for people, and ends with a table.
#[derive(Clone, Debug)]
pub struct Account {
    /// The plan's spec.
    pub spec: String,
    /// The name of the plan's kernel, tile included.
    pub kernel: String,
    /// The kernel's method.
    pub method: Method,
    /// Where it computes.
    pub platform: Platform,
    /// Which rule decided, in a sentence.
    pub decided: String,
    /// Why this platform and not the other, in a sentence.
    pub place: String,
    /// Threads that work on an execution.
    pub threads: usize,
    /// Tiles of one image.
    pub tiles: usize,
    /// Bytes of an execution's scratch.
    pub scratch_bytes: usize,
    /// Bytes of each bound template.
    pub template_bytes: usize,
    /// The least that the hardware takes.
    pub floor: Floor,
    /// Nanoseconds for one image with all templates, as measured or by estimate; `None` where nothing is known.
    pub ns: Option<f64>,
    /// Whether [`Account::ns`] was measured.
    pub measured: bool,
    /// How long the plan took to make.
    pub took: Took,
    /// What else there is to know: wisdom that was ignored, what a device does.
    pub notes: Vec<String>,
    /// What was considered: offers first, the chosen one among them, then who refuses.
    pub rows: Vec<Row>,
}

/// Something that was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What became of it.
    pub candidate: Candidate,
    /// Bytes of its scratch and of all bound templates, on the plan's threads; `None` for GPUs, where only building
    /// it could tell, and for who refuses.
    pub bytes: Option<usize>,
}

/// The least that the hardware takes for one image and all templates, by the machine's table of costs
/// ([`cost`](crate::plan::cost)): what is larger of computing and of moving data, each at full speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Multiply-adds (of `sad` absolute differences). Direct: one a tap and output. Separable, of rank 1: one a tap
    /// along each axis and output. Fourier: those of a real transform of the image and of one for each result,
    /// `2.5 n log2 n` operations each, two in a multiply-add.
    pub operations: f64,
    /// What they take on all of the plan's threads, or on its device, in nanoseconds.
    pub operations_ns: f64,
    /// Bytes of the image and the results; 0 where the second-level cache holds them.
    pub bytes: f64,
    /// What it takes to move them through the memory of the plan's threads, or to and from its device, in nanoseconds.
    pub bytes_ns: f64,
}

impl Floor {
    /// The floor of a plan's method where the plan computes.
    fn of(plan: &Plan) -> Floor {
        let (spec, machine) = (plan.spec(), plan.planner().machine());
        let templates = spec.templates() as f64;
        let outputs = spec.out_shape().len() as f64 * templates;
        let samples = spec.image().len() as f64 * spec.channels() as f64;
        let operations = match plan.method() {
            Method::Fourier => 2.5 * samples * samples.log2().max(1.0) * (1.0 + templates) / 2.0,
            Method::Separable => outputs * spec.template().lengths().iter().sum::<usize>() as f64,
            Method::Direct | Method::Auto => spec.direct_operations() * templates,
        };
        let moved = samples * spec.image_type().row().size as f64 + outputs * spec.out_type().row().size as f64;
        let costs = machine.costs();
        let (tap, byte, bytes, [computing, moving]) = match plan.platform() {
            Platform::Cuda => {
                let units = machine.devices().first().map_or(1, |device| device.multiprocessors) as f64;
                (device_tap(plan), Term::DeviceCopy, moved, [units, 1.0])
            }
            Platform::Cpu | Platform::Auto => {
                let far = if moved > machine.caches().l2 as f64 { moved } else { 0.0 };
                (tap(plan), Term::Memory, far, [plan.workers().max(1) as f64; 2])
            }
        };
        Floor {
            operations,
            operations_ns: operations * costs.of(tap) / computing,
            bytes,
            bytes_ns: bytes * costs.of(byte) / moving,
        }
    }

    /// The larger of both, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.operations_ns.max(self.bytes_ns)
    }
}

/// The term whose cost is the full speed of a CPU plan's kernel.
fn tap(plan: &Plan) -> Term {
    let dtype = &plan.kernel().dtype;
    let (double, bytes) = (*dtype == DType::F64.name(), *dtype == DType::U8.name());
    match plan.spec().op() {
        Op::Match(Measure::Sad) if double => Term::DifferenceDouble,
        Op::Match(Measure::Sad) => Term::DifferenceSingle,
        _ if double => Term::TapDouble,
        _ if bytes => Term::TapByte,
        _ => Term::TapSingle,
    }
}

/// The term whose cost is the full speed of a GPU plan's kernel.
fn device_tap(plan: &Plan) -> Term {
    match tap(plan) {
        Term::TapDouble | Term::DifferenceDouble => Term::DeviceTapDouble,
        Term::TapByte => Term::DeviceTapByte,
        _ => Term::DeviceTapSingle,
    }
}

impl Account {
    /// The account of a plan. Every offer for the CPU is built to tell what memory it takes, so it takes longer than
    /// the plan.
    pub(crate) fn of(plan: &Plan) -> Account {
        let all: Vec<Candidate> = plan.candidates().iter().cloned().chain(left_out(plan)).collect();
        let chosen = all.iter().find(|one| one.is(plan));
        let measured = chosen.and_then(|one| one.outcome.measured());
        Account {
            spec: plan.spec().to_string(),
            kernel: plan.kernel().to_string(),
            method: plan.method(),
            platform: plan.platform(),
            decided: decided(plan, chosen),
            place: place(plan),
            threads: plan.workers(),
            tiles: plan.tiles(),
            scratch_bytes: plan.scratch_bytes(),
            template_bytes: plan.template_bytes(),
            floor: Floor::of(plan),
            ns: measured.or_else(|| chosen?.estimate_ns),
            measured: measured.is_some(),
            took: plan.took(),
            notes: notes(plan),
            rows: rows(plan, all),
        }
    }
}

/// What accuracy fast would offer in the place of promised.
fn left_out(plan: &Plan) -> Vec<Candidate> {
    let accuracy = plan.spec().accuracy();
    let told = plan.planner().left_out(plan.spec()).into_iter().map(|offer| {
        let dtype = &offer.kernel.dtype;
        let fast = Accuracy::Fast;
        let reason = format!("{dtype} does not keep accuracy {accuracy} here; acc={fast} takes it");
        Candidate::of(&offer, Outcome::Refused(reason))
    });
    told.collect()
}

/// What is told of each, those that offer first.
fn rows(plan: &Plan, all: Vec<Candidate>) -> Vec<Row> {
    let (spec, planner) = (plan.spec(), plan.planner());
    let (refused, offered): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| matches!(one.outcome, Outcome::Refused(_)));
    let bytes_of = |one: &Candidate| {
        if one.is(plan) {
            return Some(plan.held_bytes());
        }
        let offer = planner.offer(spec, &one.kernel.parse().ok()?)?;
        if offer.recipe.platform() != Platform::Cpu {
            return None;
        }
        let execute = offer.recipe.build(spec, planner.memory_limit).ok()?;
        // As many as would execute it, one where none has room.
        let most = offer.work.threads(planner.machine().costs(), planner.threads);
        let workers = (1..=most).rev().find(|&workers| planner.fits(spec, execute.as_ref(), workers)).unwrap_or(1);
        Some(execute.held_bytes(workers, spec.templates()))
    };
    let offered = offered.into_iter().map(|candidate| Row { bytes: bytes_of(&candidate), candidate });
    offered.chain(refused.into_iter().map(|candidate| Row { candidate, bytes: None })).collect()
}

/// Which rule decided.
fn decided(plan: &Plan, chosen: Option<&Candidate>) -> String {
    let count = |of: fn(&Outcome) -> bool| plan.candidates().iter().filter(|one| of(&one.outcome)).count();
    let offers = count(|outcome| !matches!(outcome, Outcome::Refused(_) | Outcome::RunnerUp));
    let timed = count(|outcome| matches!(outcome, Outcome::Measured(_) | Outcome::Stopped(_) | Outcome::Failed(_)));
    match chosen.map(|one| &one.outcome) {
        Some(Outcome::Named) => "asked for by its name".into(),
        Some(Outcome::Known(_)) => "chosen by wisdom: measured before, it was the fastest".into(),
        Some(Outcome::Measured(_)) => {
            format!("chosen by measurement: the least median of {timed} that were timed, of {offers} offers")
        }
        _ if offers == 1 => "chosen by estimate: it is the only offer".into(),
        _ => format!("chosen by estimate: the least of {offers} offers; none was timed"),
    }
}

/// Why the platform is what it is.
fn place(plan: &Plan) -> String {
    let planner = plan.planner();
    let (name, other) = match plan.platform() {
        Platform::Cuda => ("GPU", Platform::Cpu),
        Platform::Cpu | Platform::Auto => ("CPU", Platform::Cuda),
    };
    match planner.platform {
        Platform::Cpu => return "CPU, which was asked for".into(),
        Platform::Cuda if name == "GPU" => return "GPU, which was asked for".into(),
        Platform::Cuda => return "CPU, in the place of the GPU that was asked for".into(),
        Platform::Auto => {}
    }
    if planner.machine().devices().is_empty() {
        return match planner.why_no_gpu() {
            Some(reason) => format!("CPU: {reason}"),
            None => "CPU: no GPU was looked for, since to open one takes longer than this work".into(),
        };
    }
    let others = plan.candidates().iter().filter(|one| one.platform == Some(other));
    let best = others.filter_map(|one| {
        let measured = one.outcome.measured().map(|ns| (ns, "measured"));
        measured.or(Some((one.estimate_ns?, "estimated"))).map(|(ns, how)| (ns, how, one))
    });
    let name_of_other = if name == "GPU" { "CPU" } else { "GPU, copies included," };
    match best.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((ns, how, one)) => format!("{name}: by the {name_of_other} {} is {how} to take {}", one.kernel, time(ns)),
        None => format!("{name}: there is no offer of the {}", &name_of_other[..3]),
    }
}

/// What else there is to know.
fn notes(plan: &Plan) -> Vec<String> {
    let planner = plan.planner();
    let machine = planner.machine();
    let learnt = planner.learnt();
    let passed = learnt.passed_over(&machine.fingerprint(), SOURCE, plan.spec(), planner.threads, plan.kernel());
    let costs = learnt.costs_passed_over(&machine.without_devices(), SOURCE);
    passed.into_iter().chain(costs).chain(plan.primary().execute().describe()).collect()
}

impl Plan {
    /// What was considered, why this was chosen and what the hardware would allow, as a text with a table.
    pub fn explain(&self) -> String {
        self.to_string()
    }

    /// What [`Plan::explain`] says, in parts.
    pub fn account(&self) -> Account {
        Account::of(self)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.account().fmt(f)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, what: String| writeln!(f, "{name:8} {what}");
        line("spec", self.spec.clone())?;
        line("kernel", format!("{} ({})", self.kernel, self.method))?;
        line("decided", self.decided.clone())?;
        line("platform", self.place.clone())?;
        line("threads", format!("{}; tiles of an image: {}", self.threads, self.tiles))?;
        let [scratch, template] = [self.scratch_bytes, self.template_bytes].map(|bytes| amount(bytes as f64, "B"));
        line("memory", format!("{scratch} of scratch, {template} a template"))?;
        let Floor { operations, operations_ns, bytes, bytes_ns } = self.floor;
        let moved = match bytes {
            0.0 => "image and results fit in the cache".into(),
            _ => format!("{} moved in {}", amount(bytes, "B"), time(bytes_ns)),
        };
        line(
            "floor",
            format!("{} multiply-adds in {}; {moved}", amount(operations, "").trim_end(), time(operations_ns)),
        )?;
        if let Some(ns) = self.ns {
            let how = if self.measured { "measured" } else { "estimated" };
            let times = ns / self.floor.ns().max(1.0);
            line("time", format!("{} an image, {how}: {times:.1} times the floor", time(ns)))?;
        }
        let [choosing, building] = [self.took.choosing, self.took.building].map(|took| time(took.as_nanos() as f64));
        line("planned", format!("{choosing} to choose, {building} to build"))?;
        for note in &self.notes {
            line("note", note.clone())?;
        }
        self.table(f)
    }
}

impl Account {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.rows.iter().map(|row| row.candidate.kernel.len()).max().unwrap_or(0);
        writeln!(f)?;
        writeln!(
            f,
            "  {:wide$}  {:9}  {:>9}  {:>9}  {:>8}  outcome",
            "kernel", "method", "estimated", "measured", "memory"
        )?;
        let dash = || "-".to_string();
        for Row { candidate, bytes } in &self.rows {
            let Candidate { kernel, method, outcome, estimate_ns, .. } = candidate;
            let chosen = *kernel == self.kernel;
            let mark = if chosen { '>' } else { ' ' };
            let estimate = estimate_ns.map_or_else(dash, time);
            let measured = outcome.measured().map_or_else(dash, time);
            let memory = bytes.map_or_else(dash, |bytes| amount(bytes as f64, "B"));
            let method = method.to_string();
            let mut said = String::new();
            match outcome {
                _ if chosen => said.push_str("chosen"),
                Outcome::Stopped(ns) => write!(said, "stopped after {}: it could not win", time(*ns as f64))?,
                Outcome::RunnerUp => said.push_str("taken where a template turns out to be of low rank"),
                Outcome::Failed(reason) => write!(said, "failed while it was timed: {reason}")?,
                Outcome::Refused(reason) => write!(said, "refuses: {reason}")?,
                Outcome::Slower => said.push_str("slower by estimate"),
                Outcome::Known(_) | Outcome::Measured(_) | Outcome::Estimated | Outcome::Named => {
                    said.push_str("slower");
                }
            }
            writeln!(f, "{mark} {kernel:wide$}  {method:9}  {estimate:>9}  {measured:>9}  {memory:>8}  {said}")?;
        }
        Ok(())
    }
}
