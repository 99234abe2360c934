//! What each way to compute a spec takes, in turns.

use std::time::Duration;

use flcc_core::error::{PlanError, Refusal};
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::cost::{Costs, Work};
use crate::plan::planned::Plan;
use crate::plan::settings::{Effort, Planner};
use crate::plan::solver::{Eligible, Method, Offer, Platform};
use crate::plan::solvers::SOLVERS;
use crate::plan::trial::{Ran, Ready, Trial, runs_to_warm_up};
use crate::run::execute::Execute;

/// Interleaved rounds that a judgement is made of.
pub const ROUNDS: usize = 11;

/// A choice that looks so many times slower than the best is timed in as many rounds again, and again: the machine may
/// have done something else meanwhile. The middle one of the three medians counts.
const BEHIND: f64 = 1.05;

/// How long one timing lasts at least.
const LEAST: Duration = Duration::from_micros(300);

/// How long any first run may take: it meets page faults and cold code.
const PATIENCE: Duration = Duration::from_millis(50);

/// Of a method estimated to take so many times the best, only the way with the least estimate is timed: a race of its
/// ways would take most of a grid's time.
const FAR: f64 = 10.0;

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
    /// What was timed of all kernels.
    pub timed: Timed,
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
    for (cheapest, near) in rivals(promising(planner, spec, f64::INFINITY, usize::MAX)) {
        let raced = near.then(|| fresh().effort(Effort::Measure).method(cheapest.method).plan(spec).ok()).flatten();
        // A method that is asked for may take what auto would not.
        let raced = raced.filter(|plan| {
            let offer = planner.offer(spec, plan.kernel());
            offer.is_some_and(|offer| offer.eligible == Eligible::ByCost)
        });
        if let Some(plan) = raced.or_else(|| fresh().plan_with_kernel(spec, &cheapest.kernel).ok()) {
            add(plan);
        }
    }
    let (mut times, timed) = in_turns(spec, &plans)?;
    if looks_behind(&times, &[&measure, &estimate].map(|chosen| place_of(&plans, chosen))) {
        let [(second, _), (third, _)] = [in_turns(spec, &plans)?, in_turns(spec, &plans)?];
        times = times.iter().zip(second).zip(third).map(|((&a, b), c)| middle([a, b, c])).collect();
    }
    let (first, again) = (times[0], times[1]);
    let (best, least) = least_of(&times);
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
        timed,
    })
}

/// Where a plan stands among others, by its kernel.
fn place_of(plans: &[Plan], plan: &Plan) -> usize {
    plans.iter().position(|other| other.kernel() == plan.kernel()).unwrap_or(0)
}

/// The least of some times, and where it stands.
fn least_of(times: &[f64]) -> (usize, f64) {
    let ahead = |best: (usize, f64), (index, &ns): (usize, &f64)| if ns < best.1 { (index, ns) } else { best };
    times.iter().enumerate().fold((0, f64::INFINITY), ahead)
}

/// Whether one of those chosen takes longer than [`BEHIND`] times the least.
fn looks_behind(times: &[f64], chosen: &[usize]) -> bool {
    let (_, least) = least_of(times);
    chosen.iter().any(|&index| times[index] > BEHIND * least)
}

/// The second of three numbers.
fn middle(mut numbers: [f64; 3]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[1]
}

/// The cheapest offer of each method, and whether its ways are to be raced: where it is not [`FAR`] from the best.
fn rivals(offers: Vec<Offer>) -> Vec<(Offer, bool)> {
    let cheaper = |a: &&Offer, b: &&Offer| a.estimate_ns.total_cmp(&b.estimate_ns);
    let least = offers.iter().map(|offer| offer.estimate_ns).fold(f64::INFINITY, f64::min);
    let cheapest = |method| offers.iter().filter(|offer| offer.method == method).min_by(cheaper);
    [Method::Direct, Method::Fourier, Method::Separable]
        .into_iter()
        .filter_map(cheapest)
        .map(|offer| (offer.clone(), offer.estimate_ns <= FAR * least))
        .collect()
}

/// The median times of plans of one spec, in nanoseconds: one that takes ten times the best is not timed again. Kernels
/// are timed where devices can time those of all plans, else whole calls.
pub(crate) fn in_turns(spec: &Spec, plans: &[Plan]) -> Result<(Vec<f64>, Timed), PlanError> {
    let failed = |reason: String| PlanError::Refused(Refusal::new("grid", reason));
    let mut trial = Trial::new(spec);
    let executes: Vec<_> = plans.iter().map(|plan| (plan.primary().execute(), plan.workers())).collect();
    let mut ready: Vec<Ready<'_>> = executes
        .iter()
        .map(|(execute, workers)| trial.ready(execute.as_ref(), *workers))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let timed = if ready.iter().all(Ready::on_device) { Timed::Kernels } else { Timed::Calls };
    if timed == Timed::Calls {
        ready.iter_mut().for_each(Ready::by_calls);
    }
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
    Ok((times.iter_mut().map(|times| median(times)).collect(), timed))
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What was timed of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Whole calls, from the host's memory to the host's memory.
    Calls,
    /// Its kernels by a device's clock, on data that lies there.
    Kernels,
    /// What a call takes longer than its kernels.
    Rest,
}

impl Timed {
    /// All of them.
    pub const ALL: [Timed; 3] = [Timed::Calls, Timed::Kernels, Timed::Rest];

    /// What it is called in files.
    pub fn name(self) -> &'static str {
        match self {
            Timed::Calls => "calls",
            Timed::Kernels => "kernels",
            Timed::Rest => "rest",
        }
    }

    /// How it was timed, as what is told to people ends.
    pub fn how(self) -> &'static str {
        match self {
            Timed::Calls => "as whole calls",
            Timed::Kernels => "on the device, without copies",
            Timed::Rest => "as what calls take beside kernels",
        }
    }
}

/// What an offer takes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The kernel, tile included.
    pub kernel: KernelKey,
    /// What was timed.
    pub timed: Timed,
    /// The work of the offer that was timed.
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
/// `count` of a solver. Where a device can time an offer's kernels it does; what a call takes besides is then timed of
/// one offer, for it is that of all, and kept where it is most of the call.
pub fn samples(planner: &Planner, spec: &Spec, most: f64, count: usize) -> Vec<Sample> {
    let offers = promising(planner, spec, most, count);
    let mut timing = Timing { costs: *planner.machine().costs(), trial: Trial::new(spec), best: LONGEST, rest: false };
    let all = offers.iter().filter_map(|offer| {
        let execute: Box<dyn Execute> = offer.recipe.build(spec, None).ok()?;
        timing.of(offer, execute.as_ref()).ok()
    });
    all.flatten().collect()
}

/// What any offer may take where none is known.
const LONGEST: Duration = Duration::from_secs(10);

/// What is known while the offers for a spec are timed.
struct Timing {
    costs: Costs,
    trial: Trial,
    /// The least time of an image.
    best: Duration,
    /// Whether it was timed what a call takes beside its kernels.
    rest: bool,
}

impl Timing {
    /// The samples of an offer: none where it takes ten times the best.
    fn of(&mut self, offer: &Offer, execute: &dyn Execute) -> Result<Vec<Sample>, String> {
        let Timing { trial, .. } = self;
        let platform = offer.recipe.platform();
        let mut ready = trial.ready(execute, 1)?;
        if platform == Platform::Cuda {
            trial.warm_up(&mut ready, platform)?;
        }
        let limit = (10 * self.best).max(PATIENCE);
        let Ran::Done(mut least) = trial.run(&mut ready, Some(limit))? else { return Ok(Vec::new()) };
        for _ in 0..rounds(least) {
            least = least.min(trial.mean(&mut ready, LEAST)?);
        }
        // What a clock is too coarse for says nothing.
        if least.is_zero() {
            return Ok(Vec::new());
        }
        self.best = self.best.min(least);
        let sample = |timed, work: Work, took: Duration| {
            let (kernel, estimate_ns) = (offer.kernel.clone(), work.ns_on(&self.costs, 1));
            Sample { kernel, timed, work, estimate_ns, ns: took.as_nanos() as f64 }
        };
        if !ready.on_device() {
            return Ok(vec![sample(Timed::Calls, offer.work.clone(), least)]);
        }
        let mut found = vec![sample(Timed::Kernels, offer.work.of_kernels(), least)];
        // Where copies go on beside kernels no difference tells what they take.
        if !self.rest && !offer.work.overlaps() {
            self.rest = true;
            let rest = rest(trial, &mut ready, platform, least);
            found.extend(rest.map(|rest| sample(Timed::Rest, offer.work.beside_kernels(), rest)));
        }
        Ok(found)
    }
}

/// How many times what takes so long is timed again.
fn rounds(time: Duration) -> usize {
    if time < Duration::from_millis(100) { RUNS as usize } else { 1 }
}

/// What a call takes longer than kernels that take so long; `None` where that is less than they take, since a small
/// difference of long times says nothing, and where a call fails.
fn rest(trial: &mut Trial, ready: &mut Ready<'_>, platform: Platform, kernels: Duration) -> Option<Duration> {
    trial.warm_calls(ready, platform).ok()?;
    let mut least = trial.mean_of_calls(ready, LEAST).ok()?;
    for _ in 1..rounds(least) {
        least = least.min(trial.mean_of_calls(ready, LEAST).ok()?);
    }
    least.checked_sub(kernels).filter(|&rest| rest > kernels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cost::Term;
    use crate::plan::testing::Clockwork;

    #[test]
    fn choices_that_look_behind_are_judged_thrice() {
        let times = [10.6, 10.4, 10.0, 30.0];
        assert_eq!(least_of(&times), (2, 10.0));
        assert!(!looks_behind(&times, &[1, 2]) && looks_behind(&times, &[0, 2]) && looks_behind(&times, &[3]));
        assert_eq!(middle([30.0, 10.0, 20.0]), 20.0);
    }

    #[test]
    fn a_method_has_its_cheapest_way_and_a_race_where_it_is_near() {
        let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
        let clockwork = Clockwork::new(Duration::from_micros(1), Duration::from_micros(1));
        let offer = |method, estimate_ns| Offer { method, estimate_ns, ..clockwork.offer(&spec) };
        let offers = [
            (Method::Fourier, 900.0),
            (Method::Direct, 80.0),
            (Method::Separable, 801.0),
            (Method::Fourier, 790.0),
            (Method::Direct, 95.0),
        ];
        let found = rivals(offers.map(|(method, ns)| offer(method, ns)).into());
        let found: Vec<_> = found.iter().map(|(offer, near)| (offer.method, offer.estimate_ns, *near)).collect();
        let expected =
            [(Method::Direct, 80.0, true), (Method::Fourier, 790.0, true), (Method::Separable, 801.0, false)];
        assert_eq!(found, expected);
        assert!(rivals(Vec::new()).is_empty());
    }

    #[test]
    fn a_devices_kernels_are_sampled_and_the_rest_of_a_call_once() {
        let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
        let planner = Planner::new().unwrap();
        let costs = *planner.machine().costs();
        let work = Work::default()
            .and(Term::DeviceTapSingle, 1e4)
            .and(Term::DeviceStraight, 1.0)
            .and(Term::DeviceTrip, 1.0)
            .and(Term::DeviceCopy, 1e4);
        let mut timing = Timing { costs, trial: Trial::new(&spec), best: LONGEST, rest: false };
        let mut of = |kernels: u64, call: u64, work: Work| {
            let device = Clockwork::new(Duration::from_micros(kernels), Duration::from_micros(call));
            let offer = Offer { work, ..device.offer(&spec) };
            timing.of(&offer, &device.execute(&spec)).unwrap()
        };
        // Copies beside kernels are no difference of two times.
        let streamed = of(9, 1000, work.clone().overlapped());
        assert_eq!(streamed.iter().map(|sample| sample.timed).collect::<Vec<_>>(), [Timed::Kernels]);
        let first = of(8, 1000, work.clone());
        let [kernels, rest] = &first[..] else { panic!("{first:?}") };
        assert_eq!((kernels.timed, kernels.ns, &kernels.work), (Timed::Kernels, 8e3, &work.of_kernels()));
        assert_eq!(kernels.estimate_ns, work.of_kernels().ns(&costs));
        assert_eq!((rest.timed, &rest.work), (Timed::Rest, &work.beside_kernels()));
        assert!(rest.ns >= 992e3, "{rest:?}");
        let second = of(7, 1000, work.clone());
        assert_eq!(second.iter().map(|sample| (sample.timed, sample.ns)).collect::<Vec<_>>(), [(Timed::Kernels, 7e3)]);
        // Ten times the best, and longer than any first run may take.
        assert!(of(3_600_000_000, 0, work).is_empty());
    }
}
