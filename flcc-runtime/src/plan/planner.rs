//! From a spec to a plan: wisdom, then measurement, then estimated cost.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use flcc_core::error::{PlanError, Refusal};
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::fallback::Fallback;
use crate::plan::planned::{Candidate, Outcome, Plan, Took};
use crate::plan::settings::{Effort, Planner, SOURCE};
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::plan::solvers::SOLVERS;
use crate::plan::trial::{Ran, Ready, Trial};
use crate::plan::wisdom::Entry;
use crate::run::execute::Execute;

impl Planner {
    /// A plan for a spec.
    ///
    /// # Errors
    /// A forced method, platform or kernel that does not serve the spec, with its reason; a memory limit that no offer
    /// meets, with the least that one would.
    pub fn plan(&self, spec: &Spec) -> Result<Plan, PlanError> {
        if let Some(kernel) = &self.kernel {
            return self.plan_with_kernel(spec, kernel);
        }
        self.search(spec, self, Vec::new())
    }

    /// A plan for a spec that belongs to `owner`, who has tried some candidates before.
    fn search(&self, spec: &Spec, owner: &Planner, mut candidates: Vec<Candidate>) -> Result<Plan, PlanError> {
        if let Some(plan) = self.remembered(spec, owner) {
            return Ok(plan);
        }
        let mut watch = Watch::new();
        let mut offers: Vec<(&'static str, Offer)> = Vec::new();
        let mut refusal: Option<Refusal> = None;
        let of = |solver: &dyn Solver| (solver.method(), solver.platform());
        for solver in &SOLVERS {
            let asked = self.asks(*solver);
            match solver.offers(spec, &self.machine) {
                Err(reason) => {
                    candidates.push(Candidate::refused(solver.name(), of(*solver), &reason.reason));
                    if asked && refusal.is_none() {
                        refusal = Some(reason);
                    }
                }
                Ok(_) if !asked => {
                    let reason = format!("method {} on platform {} was asked for", self.method, self.platform);
                    candidates.push(Candidate::refused(solver.name(), of(*solver), &reason));
                }
                Ok(of_solver) => {
                    offers.extend(of_solver.into_iter().map(|offer| (solver.name(), self.on_threads(offer))));
                }
            }
        }
        let forced = self.method != Method::Auto;
        let (mut eligible, others): (Vec<_>, Vec<_>) =
            offers.into_iter().partition(|(_, offer)| may_take(offer, forced));
        eligible.sort_by(|a, b| a.1.estimate_ns.total_cmp(&b.1.estimate_ns));
        let of_all = eligible.first().map_or(0.0, |(_, offer)| offer.estimate_ns * spec.images().max(1) as f64);
        if let Some(planner) = self.with_gpu(of_all) {
            return planner.search(spec, &planner, Vec::new());
        }
        let mut fitting: Vec<Fitting> = Vec::new();
        let mut passed: Vec<Candidate> = Vec::new();
        let mut taken: HashMap<&str, usize> = HashMap::new();
        let mut least: Option<usize> = None;
        let mut failed = false;
        for (name, offer) in eligible {
            // The best few of a solver stand for the rest, unless memory decides; without measuring the best of all
            // does.
            let kept = taken.entry(name).or_default();
            if *kept >= self.offers_of_a_solver() {
                continue;
            }
            if self.effort == Effort::Estimate && !fitting.is_empty() {
                *kept += 1;
                passed.push(Candidate::of(&offer, Outcome::Slower));
                continue;
            }
            match watch.building(|| self.fit(spec, &offer)) {
                Ok((execute, workers)) => {
                    *kept += 1;
                    fitting.push((offer, execute, workers));
                }
                Err(Misfit::Memory(bytes)) => least = Some(least.map_or(bytes, |least| least.min(bytes))),
                Err(Misfit::Refused(reason)) => {
                    failed = true;
                    let of = (offer.method, offer.recipe.platform());
                    candidates.push(Candidate::refused(&offer.kernel.to_string(), of, &reason.reason));
                    refusal.get_or_insert(reason);
                }
            }
        }
        let ran = if fitting.is_empty() { None } else { self.choose(spec, &fitting, &mut candidates) };
        let Some((chosen, workers)) = ran else {
            let absent = self.machine.devices().is_empty();
            if (failed || absent || !fitting.is_empty()) && self.fall_back && self.platform == Platform::Cuda {
                if absent {
                    // The CPU's plan tells the same refusals.
                    candidates.clear();
                }
                return self.on_cpu().search(spec, owner, candidates);
            }
            let failure = candidates.iter().rev().find_map(|candidate| match &candidate.outcome {
                Outcome::Failed(reason) if !fitting.is_empty() => {
                    Some(Refusal::new(&candidate.kernel, format!("it failed while it was timed: {reason}")))
                }
                _ => None,
            });
            return Err(match (failure, least, refusal) {
                (Some(failure), ..) => PlanError::Refused(failure),
                (None, Some(needed), _) => PlanError::Memory { needed, limit: self.memory_limit.unwrap_or(0) },
                (None, None, Some(refusal)) => PlanError::Refused(refusal),
                (None, None, None) => PlanError::Refused(Refusal::new("planner", "no method serves this spec")),
            });
        };
        fitting[chosen].2 = workers;
        candidates.extend(passed);
        let mut runner_up: Option<Fitting> = None;
        for (_, offer) in others {
            if offer.eligible == Eligible::ByName {
                continue;
            }
            if offer.eligible == Eligible::ByRank {
                if runner_up.is_none()
                    && let Ok((execute, workers)) = watch.building(|| self.fit(spec, &offer))
                {
                    candidates.push(Candidate::of(&offer, Outcome::RunnerUp));
                    runner_up = Some((offer, execute, workers));
                }
            } else {
                let reason = "its sums would not be the exact integers that other methods give; it can be forced";
                // Once a method; what another platform refuses is another matter.
                let told = |other: &Candidate| {
                    other.method == offer.method && matches!(&other.outcome, Outcome::Refused(r) if r == reason)
                };
                if !candidates.iter().any(told) {
                    candidates.push(Candidate::of(&offer, Outcome::Refused(reason.into())));
                }
            }
        }
        let took = watch.took();
        Ok(owner.planned(spec, fitting.swap_remove(chosen), runner_up, candidates, took))
    }

    /// The plan that uses a kernel by its name, whatever the others would cost: two regions of one problem under one
    /// kernel, tile included, have the same bits where they overlap. A name without a tile takes the tile that is
    /// estimated to be the fastest.
    ///
    /// # Errors
    /// No method offers that kernel for the spec, or the memory limit.
    pub fn plan_with_kernel(&self, spec: &Spec, kernel: &KernelKey) -> Result<Plan, PlanError> {
        let mut watch = Watch::new();
        let Some(offer) = self.offer(spec, kernel) else {
            // What the CPU does not know may be a kernel of a GPU that was not looked for.
            if let Some(found) = self.with_gpu(f64::INFINITY).filter(|found| found.offer(spec, kernel).is_some()) {
                return found.plan_with_kernel(spec, kernel);
            }
            let why = self.why_not(spec, kernel).map_or_else(String::new, |refusal| format!(": {refusal}"));
            return Err(Refusal::new("planner", format!("no method offers the kernel {kernel} for {spec}{why}")).into());
        };
        let (execute, workers) = watch.building(|| self.fit(spec, &offer)).map_err(|misfit| match misfit {
            Misfit::Memory(needed) => PlanError::Memory { needed, limit: self.memory_limit.unwrap_or(0) },
            Misfit::Refused(refusal) => PlanError::Refused(refusal),
        })?;
        let candidates = vec![Candidate::of(&offer, Outcome::Named)];
        Ok(self.planned(spec, (offer, execute, workers), None, candidates, watch.took()))
    }

    /// The plan that wisdom knows, if it is one that may be taken.
    fn remembered(&self, spec: &Spec, owner: &Planner) -> Option<Plan> {
        let mut watch = Watch::new();
        let entry = {
            let wisdom = self.wisdom.lock().unwrap_or_else(PoisonError::into_inner);
            wisdom.lookup(&self.machine.fingerprint(), SOURCE, spec, self.threads).cloned()?
        };
        let offer = self.offer(spec, entry.kernel()).filter(|offer| may_take(offer, offer.method == self.method))?;
        let candidate = |kernel: &KernelKey, outcome| Candidate {
            kernel: kernel.to_string(),
            method: offer.method,
            platform: None,
            outcome,
            estimate_ns: None,
        };
        let mut candidates = vec![Candidate {
            platform: Some(offer.recipe.platform()),
            estimate_ns: Some(offer.estimate_ns),
            ..candidate(&offer.kernel, Outcome::Known(entry.least_ns()))
        }];
        candidates.extend(
            entry.others().iter().map(|(kernel, ns)| Candidate {
                method: Method::of(kernel),
                ..candidate(kernel, Outcome::Measured(*ns))
            }),
        );
        let (execute, workers) = watch.building(|| self.fit(spec, &offer)).ok()?;
        let workers = match entry.workers() {
            Some(known) if self.fits(spec, execute.as_ref(), known) => known,
            _ => workers,
        };
        Some(owner.planned(spec, (offer, execute, workers), None, candidates, watch.took()))
    }

    /// The plan of what was chosen, with the CPU behind devices where it is to take over.
    fn planned(
        &self,
        spec: &Spec,
        (offer, execute, workers): Fitting,
        runner_up: Option<Fitting>,
        candidates: Vec<Candidate>,
        took: Took,
    ) -> Plan {
        let execute = Fallback::behind(execute, spec, self);
        Plan::new(spec.clone(), self.clone(), (offer, execute, workers), runner_up, candidates, took)
    }

    fn offers_of_a_solver(&self) -> usize {
        match self.effort {
            Effort::Estimate => 2,
            Effort::Measure => 8,
            Effort::Patient => 16,
        }
    }

    /// Builds an offer with as many workers as the memory limit allows.
    fn fit(&self, spec: &Spec, offer: &Offer) -> Result<(Box<dyn Execute>, usize), Misfit> {
        let execute = offer.recipe.build(spec, self.memory_limit).map_err(Misfit::Refused)?;
        // On a GPU they search its results for peaks.
        let most = match offer.recipe.platform() {
            Platform::Cuda => self.threads.max(1),
            _ => offer.work.threads(&self.machine.costs(), self.threads),
        };
        let fitting = (1..=most).rev().find(|&workers| self.fits(spec, execute.as_ref(), workers));
        let workers = fitting.ok_or_else(|| Misfit::Memory(execute.held_bytes(1, spec.templates())))?;
        Ok((execute, workers))
    }

    /// Whether an execution by so many threads, with the templates, takes no more memory than it may.
    fn fits(&self, spec: &Spec, execute: &dyn Execute, workers: usize) -> bool {
        self.memory_limit.is_none_or(|limit| execute.held_bytes(workers, spec.templates()) <= limit)
    }

    /// What became of the offers, sorted by estimate, in a race: each is run once, a GPU's after runs that warm up, and
    /// stopped when it cannot win. Then those that came near the best meet it again, in turns, and the median decides.
    /// Nothing new begins when 20 runs of the best, or 100 ms, are over, a run of as many images as come together; what
    /// it takes to make kernels of a GPU ready does not count.
    fn race<'a>(&self, spec: &Spec, offers: &'a [Fitting]) -> Vec<Outcome> {
        let patient = self.effort == Effort::Patient;
        // Making up a large image takes as long as some runs, and is none.
        let mut trial = Trial::new(spec);
        let begun = Instant::now();
        let mut best: Option<(usize, Duration)> = None;
        let compiling = Cell::new(Duration::ZERO);
        // Of the offer that has most of them.
        let images = Cell::new(1);
        let spent = |best: Duration| {
            let runs = (20 * images.get() * best).max(Duration::from_millis(100));
            !patient && begun.elapsed().saturating_sub(compiling.get()) > runs
        };
        let mut outcomes = Vec::new();
        // What is ready holds memory: several at once only where there is enough for all of them.
        let of_device = self.machine.devices().iter().map(|device| device.memory / (2 * NEAR.1)).min().unwrap_or(0);
        let holds = |(offer, execute, workers): &Fitting| {
            self.memory_limit.is_none()
                && (offer.recipe.platform() == Platform::Cpu
                    || execute.held_bytes(*workers, spec.templates()) <= of_device)
        };
        let ready = |trial: &mut Trial, fitting: &'a Fitting, warm: bool| -> Result<Ready<'a>, String> {
            let (offer, execute, workers) = fitting;
            let begun = Instant::now();
            let mut ready = trial.ready(execute.as_ref(), *workers)?;
            images.set(images.get().max(ready.images() as u32));
            let platform = offer.recipe.platform();
            // A GPU's first runs load kernels, make plans of transforms, allocate and pin memory.
            if warm || platform == Platform::Cuda {
                trial.warm_up(&mut ready, platform)?;
            }
            if platform == Platform::Cuda {
                compiling.set(compiling.get() + begun.elapsed());
            }
            Ok(ready)
        };
        let mut near: Vec<(usize, Option<Ready<'_>>, Vec<Duration>)> = Vec::new();
        for (index, fitting) in offers.iter().enumerate() {
            let offer = &fitting.0;
            let hopeless =
                best.is_some_and(|(other, _)| !patient && offer.estimate_ns > HOPE * offers[other].0.estimate_ns);
            if hopeless || best.is_some_and(|(_, least)| spent(least)) {
                outcomes.push(Outcome::Slower);
                continue;
            }
            let first = ready(&mut trial, fitting, false)
                .and_then(|ready| first(&mut trial, ready, best.map(|(_, least)| least)));
            match first {
                Err(reason) => outcomes.push(Outcome::Failed(reason)),
                Ok((Ran::Stopped(after), _)) => outcomes.push(Outcome::Stopped(nanoseconds(after))),
                Ok((Ran::Done(took), ready)) => {
                    outcomes.push(Outcome::Measured(nanoseconds(took)));
                    if best.is_none_or(|(_, least)| took < least) {
                        best = Some((index, took));
                    }
                    near.push((index, holds(fitting).then_some(ready), vec![took]));
                    near.sort_by_key(|(_, _, times)| times[0]);
                    near.truncate(NEAR.1);
                }
            }
        }
        let Some((_, least)) = best else { return outcomes };
        near.retain(|(_, _, times)| times[0].as_secs_f64() <= NEAR.0 * least.as_secs_f64());
        // One that nothing came near has won.
        if near.len() > 1 {
            for round in 0..ROUNDS[1] {
                if round >= ROUNDS[0] && spent(least) {
                    break;
                }
                for (index, kept, times) in &mut near {
                    let again = match kept.take() {
                        Some(kept) => Ok(kept),
                        None => ready(&mut trial, &offers[*index], true),
                    };
                    let timed = again.and_then(|mut again| Ok((trial.mean(&mut again, LEAST)?, again)));
                    let timed = timed.map(|(took, again)| {
                        *kept = holds(&offers[*index]).then_some(again);
                        took
                    });
                    match timed {
                        Ok(took) => times.push(took),
                        Err(reason) => outcomes[*index] = Outcome::Failed(reason),
                    }
                }
            }
        }
        for (index, _, times) in &mut near {
            times.sort_unstable();
            if let Outcome::Measured(ns) = &mut outcomes[*index] {
                *ns = nanoseconds(times[times.len() / 2]);
            }
        }
        // Those that were left behind did not win, however lucky their one run was.
        let slowest = near.iter().map(|(_, _, times)| nanoseconds(times[times.len() / 2])).min().unwrap_or(0);
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            if let Outcome::Measured(ns) = outcome
                && !near.iter().any(|(other, ..)| *other == index)
            {
                *ns = (*ns).max(slowest);
            }
        }
        outcomes
    }

    /// Which of the offers, sorted by estimate, to take and with how many threads; `None` if each failed when it ran.
    fn choose(&self, spec: &Spec, offers: &[Fitting], candidates: &mut Vec<Candidate>) -> Option<(usize, usize)> {
        if self.effort == Effort::Estimate || offers.len() == 1 && self.effort == Effort::Measure {
            candidates.push(Candidate::of(&offers[0].0, Outcome::Estimated));
            return Some((0, offers[0].2));
        }
        let mut race = self.race(spec, offers);
        let ahead = |(index, outcome): (usize, &Outcome)| match outcome {
            Outcome::Measured(ns) => Some((index, *ns)),
            _ => None,
        };
        let (chosen, least) = race.iter().enumerate().filter_map(ahead).min_by_key(|(_, ns)| *ns).unzip();
        let tried = chosen.and_then(|chosen: usize| self.shared(spec, &offers[chosen]));
        if let (Some(chosen), Some(least), Some((_, took))) = (chosen, least, tried) {
            // It stays the least however the second look at it went.
            race[chosen] = Outcome::Measured(took.min(least));
        }
        let mut timings = Vec::new();
        for ((offer, ..), outcome) in offers.iter().zip(&race) {
            if let Outcome::Measured(ns) = outcome {
                timings.push((offer.kernel.clone(), *ns));
            }
            candidates.push(Candidate::of(offer, outcome.clone()));
        }
        let (chosen, least) = (chosen?, least?);
        let (workers, least) = tried.map_or((offers[chosen].2, least), |(workers, took)| (workers, took.min(least)));
        let kernel = offers[chosen].0.kernel.clone();
        timings.retain(|(other, _)| *other != kernel);
        // Offers name themselves in the grammar of kernel names, so there is nothing to refuse.
        if let Ok(entry) = Entry::new(kernel, least, timings) {
            let entry = if tried.is_some() { entry.with_workers(workers) } else { entry };
            let _ = self.wisdom.lock().unwrap_or_else(PoisonError::into_inner).insert(
                &self.machine.fingerprint(),
                SOURCE,
                spec,
                self.threads,
                entry,
            );
        }
        Some((chosen, workers))
    }

    /// With how many threads an offer takes the least time, and how long that is in nanoseconds: those that its
    /// estimate chose beside one and all, and with effort patient beside every power of two, in turns. `None` where
    /// there is nothing to try, or nothing to gain.
    fn shared(&self, spec: &Spec, (offer, execute, workers): &Fitting) -> Option<(usize, u64)> {
        if offer.recipe.platform() != Platform::Cpu {
            return None;
        }
        let patient = self.effort == Effort::Patient;
        let costs = self.machine.costs();
        let estimate = |threads: usize| offer.work.ns_on(&costs, threads);
        let all = self.threads.min(offer.work.pieces()).max(1);
        let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&threads| threads < all);
        let mut counts: Vec<usize> = powers.filter(|&threads| patient || threads == 1).chain([all]).collect();
        counts.retain(|&threads| {
            let hopeful = patient || estimate(threads) < NEAR.0 * estimate(*workers);
            threads != *workers && hopeful && self.fits(spec, execute.as_ref(), threads)
        });
        if counts.is_empty() {
            return None;
        }
        // The present number first: what is as fast is not taken in its place.
        counts.insert(0, *workers);
        let mut trial = Trial::new(spec);
        let mut warmed = |threads: usize| {
            let mut ready = trial.ready(execute.as_ref(), threads).ok()?;
            trial.warm_up(&mut ready, offer.recipe.platform()).ok()?;
            Some(ready)
        };
        let mut ready: Vec<_> = counts.iter().map(|&threads| warmed(threads)).collect::<Option<_>>()?;
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); counts.len()];
        for _ in 0..ROUNDS[if patient { 1 } else { 0 }] {
            for (ready, times) in ready.iter_mut().zip(&mut times) {
                times.push(trial.mean(ready, LEAST).ok()?);
            }
        }
        let medians = times.iter_mut().map(|times| {
            times.sort_unstable();
            nanoseconds(times[times.len() / 2])
        });
        counts.iter().copied().zip(medians).min_by_key(|(_, ns)| *ns)
    }
}

/// Rounds of those that come near the best: at least, and at most where there is time.
const ROUNDS: [usize; 2] = [3, 11];

/// How long one timing lasts at least, so that small runs are timed by many.
const LEAST: Duration = Duration::from_micros(200);

/// How long a first run may take before it is held against the best: it meets page faults and cold code.
const GRACE: Duration = Duration::from_millis(5);

/// How many times longer than the best something may be estimated to take, and is timed all the same.
const HOPE: f64 = 8.0;

/// Who is timed again: those that took up to this share of the best, and no more than so many.
const NEAR: (f64, usize) = (1.4, 6);

/// Whether an offer is one that auto may take by its cost, or where its method is `forced`.
fn may_take(offer: &Offer, forced: bool) -> bool {
    match offer.eligible {
        Eligible::ByCost => true,
        Eligible::ByRank | Eligible::OnlyIfForced => forced,
        Eligible::ByName => false,
    }
}

/// Times what is ready for the first time, after a run that warms up caches and pages; that one is all where it takes
/// far longer than the best.
fn first<'a>(trial: &mut Trial, mut ready: Ready<'a>, best: Option<Duration>) -> Result<(Ran, Ready<'a>), String> {
    let lost = |best: Duration| (3 * best).max(GRACE);
    let mut ran = trial.run(&mut ready, best.map(lost))?;
    if let Ran::Done(took) = &mut ran
        && best.is_none_or(|best| *took < lost(best))
    {
        *took = trial.mean(&mut ready, LEAST)?;
        // Who would be left behind has a second chance: something else may have run meanwhile.
        if best.is_some_and(|best| took.as_secs_f64() > NEAR.0 * best.as_secs_f64() && *took < 3 * best) {
            *took = trial.mean(&mut ready, LEAST)?.min(*took);
        }
    }
    Ok((ran, ready))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells apart the time that a plan takes to be chosen and to be built.
struct Watch {
    begun: Instant,
    building: Duration,
}

impl Watch {
    fn new() -> Watch {
        Watch { begun: Instant::now(), building: Duration::ZERO }
    }

    fn building<T>(&mut self, build: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let built = build();
        self.building += begun.elapsed();
        built
    }

    fn took(&self) -> Took {
        Took { choosing: self.begun.elapsed().saturating_sub(self.building), building: self.building }
    }
}

/// An offer with what executes it and its workers.
type Fitting = (Offer, Box<dyn Execute>, usize);

/// Why an offer is not taken.
enum Misfit {
    Memory(usize),
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{At, Failing};

    #[test]
    fn gpus_are_looked_for_where_that_is_worth_the_time() {
        // A described machine is another one; who names a platform has decided.
        let afar = Planner::with_machine(Planner::new().unwrap().machine().clone());
        assert!(afar.with_gpu(1e12).is_none());
        let here = Planner::new().unwrap();
        assert!(here.clone().platform(Platform::Cpu).with_gpu(1e12).is_none());
        let found = here.with_gpu(1e12);
        let known = found.as_ref().is_some_and(|planner| {
            assert!(planner.machine().devices().len() == 1 && planner.fall_back && planner.with_gpu(1e12).is_none());
            true
        });
        // Small work looks for none, but takes what this process has found.
        assert_eq!(here.with_gpu(1e6).is_some(), known);
    }

    #[test]
    fn the_best_is_tried_on_other_threads_and_they_are_remembered() {
        let spec: Spec = "zncc:f32:400x300*5x6:valid".parse().unwrap();
        let planner = Planner::new().unwrap().platform(Platform::Cpu).threads(4).effort(Effort::Patient);
        let plan = planner.plan(&spec).unwrap();
        let known = planner.wisdom.lock().unwrap().iter().next().unwrap().1.clone();
        // What is tried: 1, 2 and 4 of them, and what the estimate chose.
        let tried = known.workers();
        let pieces = planner.offer(&spec, plan.kernel()).unwrap().work.pieces();
        assert!(pieces == 1 || tried.is_some_and(|workers| [1, 2, 3, 4].contains(&workers)), "{known:?}");
        assert_eq!(tried.unwrap_or(1), plan.workers());
        // Another number of them by the same wisdom is taken as it stands there, unless memory forbids it.
        let key = (planner.machine.fingerprint(), Entry::new(plan.kernel().clone(), 1, vec![]).unwrap());
        let _ = planner.wisdom.lock().unwrap().insert(&key.0, SOURCE, &spec, 4, key.1.with_workers(3));
        assert_eq!(planner.plan(&spec).unwrap().workers(), 3);
        let least = plan.primary().execute().scratch_bytes(1);
        let short = planner.clone().memory_limit(Some(least + plan.template_bytes()));
        assert_eq!(short.plan(&spec).unwrap().workers(), 1);
    }

    #[test]
    fn a_template_of_two_samples_is_timed_under_a_mask() {
        let spec: Spec = "zncc:f32:300*2:valid,mask01".parse().unwrap();
        let plan = Planner::new().unwrap().threads(1).effort(Effort::Measure).plan(&spec).unwrap();
        let failed = plan.candidates().iter().filter(|one| matches!(one.outcome, Outcome::Failed(_)));
        assert_eq!(failed.count(), 0, "{}", plan.explain());
    }

    #[test]
    fn pairs_are_planned_with_what_binding_takes() {
        let planner = Planner::new().unwrap().platform(Platform::Cpu).threads(2);
        let spec = |text: &str| -> Spec { text.parse().unwrap() };
        let (alone, pairs) = (spec("zncc:f32:0@64x64*24x24:valid"), spec("zncc:f32:0@64x64*24x24:valid,pairs"));
        for solver in SOLVERS.iter().filter(|solver| solver.platform() == Platform::Cpu) {
            let works = |spec: &Spec| solver.offers(spec, &planner.machine).unwrap_or_default();
            let costs = planner.machine.costs();
            for (alone, pairs) in works(&alone).iter().zip(&works(&pairs)) {
                // Threads share pairs; a template is transformed once more.
                assert!(pairs.work.pieces() > 100 && pairs.work.ns(&costs) > alone.work.ns(&costs), "{}", pairs.kernel);
                let shared = pairs.work.ns_on(&costs, 2) / pairs.work.ns(&costs);
                assert!(shared < 0.75, "{}: {shared}", pairs.kernel);
            }
        }
        // They are timed as they run, and remembered as what they are.
        let measured = planner.clone().effort(Effort::Measure).plan(&pairs).unwrap();
        let known = measured.candidates().iter().filter(|one| matches!(one.outcome, Outcome::Measured(_))).count();
        assert!(known > 0, "{measured}");
        assert!(planner.learnt().iter().all(|(key, _)| key.spec == pairs.to_string()));
        assert!(planner.plan(&pairs).unwrap().explain().contains("chosen by wisdom"));
    }

    #[test]
    fn what_fails_while_it_is_timed_is_not_taken() {
        let spec: Spec = "zncc:f32:60x70*5x6:valid".parse().unwrap();
        let planner = Planner::new().unwrap().threads(1).effort(Effort::Measure);
        let offer = || SOLVERS[0].offers(&spec, &planner.machine).unwrap().remove(0);
        let working = |estimate_ns: f64| -> Fitting {
            let offer = Offer { estimate_ns, ..offer() };
            let execute = offer.recipe.build(&spec, None).unwrap();
            (offer, execute, 1)
        };
        let broken = |estimate_ns: f64| -> Fitting {
            let offer = Offer { estimate_ns, ..offer() };
            let (execute, _) = Failing::build(&offer, &spec, At::Running);
            (offer, execute, 1)
        };
        let mut candidates = Vec::new();
        // However little the one that fails promised to take.
        assert_eq!(planner.choose(&spec, &[broken(1.0), working(1e6), working(1e9)], &mut candidates), Some((1, 1)));
        let failed = |candidate: &Candidate| match &candidate.outcome {
            Outcome::Failed(reason) => reason.contains("it is lost"),
            _ => false,
        };
        assert!(failed(&candidates[0]), "{:?}", candidates[0]);
        assert!(
            matches!(candidates[1].outcome, Outcome::Measured(_)) && matches!(candidates[2].outcome, Outcome::Slower)
        );
        assert_eq!(planner.choose(&spec, &[broken(1.0), broken(2.0)], &mut candidates), None);
        assert!(candidates[3..].iter().all(failed) && candidates.len() == 5);
    }
}
