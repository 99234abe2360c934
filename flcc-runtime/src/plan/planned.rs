//! A plan: how a spec is computed. Immutable, shared freely, executed from many threads at once.

use std::sync::Arc;
use std::time::Duration;

use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::settings::Planner;
use crate::plan::solver::{Method, Offer, Platform};
use crate::problem::template::{Checked, Weights};
use crate::run::execute::{Execute, Regional};

/// A plan. Cheap to clone.
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

struct Inner {
    spec: Spec,
    planner: Planner,
    chosen: Chosen,
    runner_up: Option<Chosen>,
    candidates: Vec<Candidate>,
    took: Took,
}

/// How long a plan took to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Choosing: wisdom looked up, offers made and compared, and what was timed.
    pub choosing: Duration,
    /// Building what executes: libraries' plans, constants of transforms, kernels compiled for a GPU.
    pub building: Duration,
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

/// A way to compute a spec that was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The kernel, or the solver where it refused.
    pub kernel: String,
    /// The method that it belongs to.
    pub method: Method,
    /// Where it computes; `None` where wisdom names a kernel that is not offered here.
    pub platform: Option<Platform>,
    /// What became of it.
    pub outcome: Outcome,
    /// Nanoseconds that it is estimated to take; `None` where it refused or wisdom names it.
    pub estimate_ns: Option<f64>,
}

impl Candidate {
    pub(crate) fn of(offer: &Offer, outcome: Outcome) -> Candidate {
        Candidate {
            kernel: offer.kernel.to_string(),
            method: offer.method,
            platform: Some(offer.recipe.platform()),
            outcome,
            estimate_ns: Some(offer.estimate_ns),
        }
    }

    pub(crate) fn refused(name: &str, (method, platform): (Method, Platform), reason: &str) -> Candidate {
        Candidate {
            kernel: name.to_string(),
            method,
            platform: Some(platform),
            outcome: Outcome::Refused(reason.to_string()),
            estimate_ns: None,
        }
    }

    /// Whether it is what a plan takes.
    pub(crate) fn is(&self, plan: &Plan) -> bool {
        self.kernel == plan.kernel().to_string()
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

impl Outcome {
    /// The time that was measured, in nanoseconds, now or by wisdom.
    pub fn measured(&self) -> Option<f64> {
        match self {
            Outcome::Known(ns) | Outcome::Measured(ns) => Some(*ns as f64),
            _ => None,
        }
    }
}

impl Plan {
    pub(crate) fn new(
        spec: Spec,
        planner: Planner,
        chosen: (Offer, Box<dyn Execute>, usize),
        runner_up: Option<(Offer, Box<dyn Execute>, usize)>,
        candidates: Vec<Candidate>,
        took: Took,
    ) -> Plan {
        Plan(Arc::new(Inner {
            spec,
            planner,
            chosen: Chosen::new(chosen),
            runner_up: runner_up.map(Chosen::new),
            candidates,
            took,
        }))
    }

    /// How long it took to make.
    pub fn took(&self) -> Took {
        self.0.took
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

    /// The method that was chosen.
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

    /// Bytes that one execution takes with all its templates bound, above images and results.
    #[doc(hidden)]
    pub fn held_bytes(&self) -> usize {
        self.0.chosen.execute.held_bytes(self.workers(), self.spec().templates())
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

    pub(crate) fn primary(&self) -> Choice<'_> {
        Choice(&self.0.chosen)
    }

    /// What computes with these templates: the runner-up where their separable rank is so low that it is the faster one
    /// by estimate. `explain()` is told in a line why, where there is a choice.
    pub(crate) fn choose(&self, checked: &[Checked], weights: &Weights) -> (Choice<'_>, String) {
        let primary = self.primary();
        let Some((runner_up, limit)) = self.runner_up() else { return (primary, String::new()) };
        if checked.iter().any(|template| template.nonfinite) {
            return (primary, String::new());
        }
        match runner_up.execute().rank(checked, weights, limit) {
            Some(rank) => {
                let kernel = runner_up.kernel();
                let note = format!(
                    "the templates' separable rank is {rank}, at most the {limit} up to which {kernel} is faster by \
                     estimate\n"
                );
                (runner_up, note)
            }
            None => {
                let note = format!(
                    "the templates' separable rank is above {limit}, up to which the separable method would be \
                     faster\n"
                );
                (primary, note)
            }
        }
    }

    /// The separable runner-up, and up to which rank it is the faster one by estimate.
    fn runner_up(&self) -> Option<(Choice<'_>, usize)> {
        let runner_up = self.0.runner_up.as_ref()?;
        let rank = most_rank(&self.0.chosen.offer, &runner_up.offer);
        (rank >= 1).then_some((Choice(runner_up), rank))
    }
}

/// Up to which rank a separable runner-up, whose estimate is for rank 1, is faster than what was chosen. An error of a
/// factor of two in an estimate must not make a bad choice.
pub(crate) fn most_rank(chosen: &Offer, runner_up: &Offer) -> usize {
    (chosen.estimate_ns / runner_up.estimate_ns / 1.5) as usize
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
