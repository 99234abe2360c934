//! What each way to compute a spec takes, in turns.

use std::time::Duration;

use flcc_core::error::{PlanError, Refusal};
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::cost::Work;
use crate::plan::planned::Plan;
use crate::plan::settings::{Effort, Planner};
use crate::plan::solver::{Eligible, Method, Offer, Platform};
use crate::plan::solvers::SOLVERS;
use crate::plan::trial::{Ran, Ready, Trial, runs_to_warm_up};
use crate::run::execute::Execute;

/// Interleaved rounds that a judgement is made of.
pub const ROUNDS: usize = 11;

/// How long one timing lasts at least.
const LEAST: Duration = Duration::from_micros(300);

/// How long any first run may take: it meets page faults and cold code.
const PATIENCE: Duration = Duration::from_millis(50);

/// How a choice compares with the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The kernel that was chosen.
    pub kernel: KernelKey,
    /// The median time of the chosen kernel in nanoseconds.
    pub ns: f64,
    /// The median time over the best of all; below 1 + `spread` it is as good as the best.
    pub ratio: f64,
}

/// How the choices for a spec compare with each other method.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was planned.
    pub spec: Spec,
    /// The choice by estimated costs.
    pub estimate: Judged,
    /// The choice by measurement.
    pub measure: Judged,
    /// The kernel with the least median, and that in nanoseconds.
    pub best: (KernelKey, f64),
    /// How far the measured choice was from itself, timed twice in the same rounds: a share.
    pub spread: f64,
    /// How long planning by measurement took.
    pub planned: Duration,
}

/// Plans a spec by estimate and by measurement, and times both choices in turns with the best that each method has by
/// measurement. `planner` says what with: machine, threads, platform; what it remembers is left out.
///
/// # Errors
/// As [`Planner::plan`], or a plan that fails.
pub fn judge(planner: &Planner, spec: &Spec) -> Result<Comparison, PlanError> {
    let fresh = || planner.clone().wisdom(crate::Wisdom::default());
    let estimate = fresh().effort(Effort::Estimate).plan(spec)?;
    let begun = std::time::Instant::now();
    let measure = fresh().effort(Effort::Measure).plan(spec)?;
    let planned = begun.elapsed();
    let mut plans: Vec<Plan> = vec![measure.clone(), measure.clone()];
    let mut add = |plan: Plan| {
        if plans.iter().all(|other| other.kernel() != plan.kernel()) {
            plans.push(plan);
        }
    };
    add(estimate.clone());
    for method in [Method::Direct, Method::Fourier, Method::Separable] {
        // What auto would never take is no rival.
        if let Ok(plan) = fresh().effort(Effort::Measure).method(method).plan(spec)
            && eligible(planner, spec, plan.kernel())
        {
            add(plan);
        }
    }
    let times = in_turns(spec, &plans)?;
    let (first, again) = (times[0], times[1]);
    let (best, least) = times
        .iter()
        .enumerate()
        .fold((0, f64::INFINITY), |best, (index, &ns)| if ns < best.1 { (index, ns) } else { best });
    let judged = |plan: &Plan| {
        let of = plans.iter().zip(&times).filter(|(other, _)| other.kernel() == plan.kernel());
        let ns = of.map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
        Judged { kernel: plan.kernel().clone(), ns, ratio: ns / least }
    };
    Ok(Comparison {
        spec: spec.clone(),
        estimate: judged(&estimate),
        measure: judged(&measure),
        best: (plans[best].kernel().clone(), least),
        spread: (first / again).max(again / first) - 1.0,
        planned,
    })
}

/// Whether auto may choose a kernel by its cost.
fn eligible(planner: &Planner, spec: &Spec, kernel: &KernelKey) -> bool {
    planner.offer(spec, kernel).is_some_and(|offer| offer.eligible == Eligible::ByCost)
}

/// The median times of plans of one spec, in nanoseconds: one that takes ten times the best is not timed again.
pub(crate) fn in_turns(spec: &Spec, plans: &[Plan]) -> Result<Vec<f64>, PlanError> {
    let failed = |reason: String| PlanError::Refused(Refusal::new("grid", reason));
    let mut trial = Trial::new(spec);
    let executes: Vec<_> = plans.iter().map(|plan| (plan.primary().execute(), plan.workers())).collect();
    let mut ready: Vec<Ready<'_>> = executes
        .iter()
        .map(|(execute, workers)| trial.ready(execute.as_ref(), *workers))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let mut times: Vec<Vec<f64>> = plans.iter().map(|_| Vec::new()).collect();
    let mut stopped = vec![false; plans.len()];
    let mut best = Duration::MAX;
    for ((ready, times), stopped) in ready.iter_mut().zip(&mut times).zip(&mut stopped) {
        let limit = (best < Duration::MAX).then(|| (10 * best).max(PATIENCE));
        match trial.run(ready, limit).map_err(failed)? {
            Ran::Done(took) => best = best.min(took),
            Ran::Stopped(after) => {
                times.push(after.as_nanos() as f64);
                *stopped = true;
            }
        }
    }
    for _ in 0..ROUNDS {
        for ((ready, times), _) in ready.iter_mut().zip(&mut times).zip(&stopped).filter(|(_, stopped)| !**stopped) {
            times.push(trial.mean(ready, LEAST).map_err(failed)?.as_nanos() as f64);
        }
    }
    Ok(times.iter_mut().map(|times| median(times)).collect())
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What an offer takes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The kernel, tile included.
    pub kernel: KernelKey,
    /// The work of the offer.
    pub work: Work,
    /// What that was estimated to take.
    pub estimate_ns: f64,
    /// What it took on one thread: the least of a few rounds.
    pub ns: f64,
}

/// What is timed of a spec: offers estimated to take no more than `most` times the best, and at most `count` of a
/// solver.
fn promising(planner: &Planner, spec: &Spec, most: f64, count: usize) -> Vec<Offer> {
    let machine = planner.machine();
    let mut offers: Vec<Offer> = Vec::new();
    for solver in SOLVERS.iter().filter(|solver| planner.asks(**solver)) {
        let mut of_solver = solver.offers(spec, machine).unwrap_or_default();
        of_solver.retain(|offer| offer.eligible == Eligible::ByCost);
        of_solver.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
        of_solver.truncate(count);
        offers.extend(of_solver);
    }
    let least = offers.iter().map(|offer| offer.estimate_ns).fold(f64::INFINITY, f64::min);
    offers.retain(|offer| offer.estimate_ns <= most * least);
    offers
}

/// About how many seconds [`samples`] takes.
pub fn expected(planner: &Planner, spec: &Spec, most: f64, count: usize) -> f64 {
    let runs = |offer: &Offer| match offer.recipe.platform() {
        Platform::Cuda => RUNS + 1.0 + runs_to_warm_up(Platform::Cuda) as f64,
        _ => RUNS + 1.0,
    };
    let each = |offer: Offer| runs(&offer) * (offer.estimate_ns / 1e9).max(LEAST.as_secs_f64());
    promising(planner, spec, most, count).into_iter().map(each).sum()
}

/// Runs of an offer after the first, where they are short.
const RUNS: f64 = 4.0;

/// Times the offers for a spec on one thread, those estimated to take no more than `most` times the best, and at most
/// `count` of a solver.
pub fn samples(planner: &Planner, spec: &Spec, most: f64, count: usize) -> Vec<Sample> {
    let offers = promising(planner, spec, most, count);
    let mut trial = Trial::new(spec);
    let mut best = Duration::from_secs(10);
    offers
        .into_iter()
        .filter_map(|offer| {
            let execute: Box<dyn Execute> = offer.recipe.build(spec, None).ok()?;
            let mut ready = trial.ready(execute.as_ref(), 1).ok()?;
            if offer.recipe.platform() == Platform::Cuda {
                trial.warm_up(&mut ready, Platform::Cuda).ok()?;
            }
            let Ran::Done(mut ns) = trial.run(&mut ready, Some((10 * best).max(PATIENCE))).ok()? else { return None };
            for _ in 0..if ns < Duration::from_millis(100) { RUNS as usize } else { 1 } {
                ns = ns.min(trial.mean(&mut ready, LEAST).ok()?);
            }
            best = best.min(ns);
            let Offer { kernel, work, estimate_ns, .. } = offer;
            Some(Sample { kernel, work, estimate_ns, ns: ns.as_nanos() as f64 })
        })
        .collect()
}
