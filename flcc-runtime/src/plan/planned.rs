//! A plan: how a spec is computed. Immutable, shared freely, executed from many threads at once.

use std::fmt;
use std::sync::Arc;

use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::settings::Planner;
use crate::plan::solver::{Method, Offer, Platform};
use crate::run::execute::{Execute, Regional};
use crate::run::words::time;

/// A plan. Cheap to clone.
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

struct Inner {
    spec: Spec,
    planner: Planner,
    chosen: Chosen,
    runner_up: Option<Chosen>,
    candidates: Vec<Candidate>,
}

/// An offer with what executes it.
struct Chosen {
    offer: Offer,
    execute: Arc<dyn Execute>,
    workers: usize,
}

impl Chosen {
    fn new((offer, execute, workers): (Offer, Box<dyn Execute>, usize)) -> Chosen {
        Chosen { offer, execute: execute.into(), workers }
    }
}

/// One line of `explain()`.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The kernel, or the solver where it refused.
    pub kernel: String,
    /// Its method.
    pub method: Method,
    /// What became of it.
    pub outcome: Outcome,
    /// Its estimate.
    pub estimate_ns: Option<f64>,
}

impl Candidate {
    pub(crate) fn of(offer: &Offer, outcome: Outcome) -> Candidate {
        Candidate {
            kernel: offer.kernel.to_string(),
            method: offer.method,
            outcome,
            estimate_ns: Some(offer.estimate_ns),
        }
    }

    pub(crate) fn refused(name: &str, method: Method, reason: &str) -> Candidate {
        Candidate { kernel: name.to_string(), method, outcome: Outcome::Refused(reason.to_string()), estimate_ns: None }
    }
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Chosen by estimate.
    Estimated,
    /// Asked for by name.
    Named,
    /// Chosen by wisdom, which measured so many nanoseconds.
    Known(u64),
    /// Timed at so many nanoseconds, the median of its rounds.
    Measured(u64),
    /// Stopped after so many nanoseconds, when it could not win any more.
    Stopped(u64),
    /// Not chosen, by estimate.
    Slower,
    /// Not chosen, but templates that turn out to be of low rank may take it.
    RunnerUp,
    /// It failed while it was being timed.
    Failed(String),
    /// It does not serve the spec here.
    Refused(String),
}

impl Plan {
    pub(crate) fn new(
        spec: Spec,
        planner: Planner,
        chosen: (Offer, Box<dyn Execute>, usize),
        runner_up: Option<(Offer, Box<dyn Execute>, usize)>,
        candidates: Vec<Candidate>,
    ) -> Plan {
        Plan(Arc::new(Inner {
            spec,
            planner,
            chosen: Chosen::new(chosen),
            runner_up: runner_up.map(Chosen::new),
            candidates,
        }))
    }

    /// What computes regions of results; `None` where whole results are computed.
    pub(crate) fn regional(&self) -> Option<&dyn Regional> {
        self.0.chosen.execute.regional()
    }

    /// What it computes.
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The kernel's name, tile included.
    pub fn kernel(&self) -> &KernelKey {
        &self.0.chosen.offer.kernel
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.0.chosen.offer.method
    }

    /// Where it computes.
    pub fn platform(&self) -> Platform {
        self.0.chosen.offer.recipe.platform()
    }

    /// How many threads work on an execution.
    pub fn workers(&self) -> usize {
        self.0.chosen.workers
    }

    /// Bytes that one execution takes for its scratch, above images, templates and results.
    pub fn scratch_bytes(&self) -> usize {
        self.0.chosen.execute.scratch_bytes(self.workers())
    }

    /// Bytes that each bound template takes.
    pub fn template_bytes(&self) -> usize {
        self.0.chosen.execute.template_bytes()
    }

    /// Tiles of one image.
    pub fn tiles(&self) -> usize {
        self.0.chosen.execute.tiles()
    }

    /// Every solver with what it offered and what became of it.
    pub fn candidates(&self) -> &[Candidate] {
        &self.0.candidates
    }

    /// The planner that made it, for images of other sizes.
    pub fn planner(&self) -> &Planner {
        &self.0.planner
    }

    /// What was considered and why this was chosen, a line each.
    pub fn explain(&self) -> String {
        self.to_string()
    }

    pub(crate) fn primary(&self) -> Choice<'_> {
        Choice(&self.0.chosen)
    }

    /// The separable runner-up, and up to which rank it is the faster one by estimate.
    pub(crate) fn runner_up(&self) -> Option<(Choice<'_>, usize)> {
        let runner_up = self.0.runner_up.as_ref()?;
        // The estimate of a runner-up is for rank 1; an error of a factor of two in it must not make a bad choice.
        let rank = (self.0.chosen.offer.estimate_ns / runner_up.offer.estimate_ns / 1.5).floor();
        (rank >= 1.0).then_some((Choice(runner_up), rank as usize))
    }
}

/// One of a plan's ways to execute.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a>(&'a Chosen);

impl Choice<'_> {
    pub(crate) fn kernel(&self) -> KernelKey {
        self.0.offer.kernel.clone()
    }

    pub(crate) fn method(&self) -> Method {
        self.0.offer.method
    }

    pub(crate) fn execute(&self) -> Arc<dyn Execute> {
        Arc::clone(&self.0.execute)
    }

    pub(crate) fn workers(&self) -> usize {
        self.0.workers
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "spec     {}", self.spec())?;
        writeln!(f, "kernel   {} ({})", self.kernel(), self.method())?;
        writeln!(f, "threads  {}", self.workers())?;
        writeln!(f, "tiles    {} an image", self.tiles())?;
        writeln!(f, "scratch  {} bytes, {} bytes a template", self.scratch_bytes(), self.template_bytes())?;
        for line in self.0.chosen.execute.describe() {
            writeln!(f, "{line}")?;
        }
        let threads = if self.workers() == 1 { "1 thread".into() } else { format!("{} threads", self.workers()) };
        writeln!(f, "times    estimates are of one thread, what is measured is a median of runs on {threads}")?;
        for candidate in self.candidates() {
            let estimate = candidate.estimate_ns.map_or(String::new(), |ns| format!("  estimated {}", time(ns)));
            let outcome = match &candidate.outcome {
                Outcome::Estimated => "chosen by estimate".into(),
                Outcome::Named => "asked for by name".into(),
                Outcome::Known(ns) => format!("chosen by wisdom: measured {}", time(*ns as f64)),
                Outcome::Measured(ns) => format!("measured {}", time(*ns as f64)),
                Outcome::Stopped(ns) => format!("stopped after {}", time(*ns as f64)),
                Outcome::Slower => "slower by estimate".into(),
                Outcome::RunnerUp => "runner-up, if a template turns out to be of low rank".into(),
                Outcome::Failed(reason) => format!("failed while being timed: {reason}"),
                Outcome::Refused(reason) => format!("refuses: {reason}"),
            };
            let chosen = match candidate.outcome {
                Outcome::Measured(_) if candidate.kernel == self.kernel().to_string() => ": chosen",
                _ => "",
            };
            writeln!(f, "  {:9} {}{estimate}  {outcome}{chosen}", candidate.method.to_string(), candidate.kernel)?;
        }
        for offer in self.0.planner.left_out(self.spec()) {
            let (method, kernel, accuracy) = (offer.method.to_string(), &offer.kernel, self.spec().accuracy());
            writeln!(
                f,
                "  {method:9} {kernel}  estimated {}  refuses: {} does not keep accuracy {accuracy} here; \
                 acc=fast takes it",
                time(offer.estimate_ns),
                kernel.dtype
            )?;
        }
        Ok(())
    }
}
