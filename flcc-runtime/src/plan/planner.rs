//! From a spec to a plan: wisdom, then measurement, then estimated cost.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use flcc_core::error::{PlanError, Refusal};
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::fallback::Fallback;
use crate::plan::planned::{Candidate, Outcome, Plan, Took, most_rank};
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
        let forced = self.method != Method::Auto;
        let (mut eligible, mut others): (Vec<(&'static str, Offer)>, Vec<Offer>) = Default::default();
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
                    for offer in of_solver.into_iter().map(|offer| self.on_threads(offer)) {
                        if may_take(&offer, forced) {
                            eligible.push((solver.name(), offer));
                        } else {
                            others.push(offer);
                        }
                    }
                }
            }
        }
        eligible.sort_by(|a, b| a.1.estimate_ns.total_cmp(&b.1.estimate_ns));
        let of_all = eligible.first().map_or(0.0, |(_, offer)| offer.estimate_ns * spec.images().max(1) as f64);
        if let Some(planner) = self.with_gpu(of_all) {
            return planner.search(spec, &planner, Vec::new());
        }
        let mut fitting: Vec<Fitting> = Vec::new();
        let mut passed: Vec<Candidate> = Vec::new();
        let mut taken: HashMap<&str, usize> = HashMap::new();
        // Of each solver what would take the least memory, where that is too much.
        let mut short: BTreeMap<&str, (usize, Offer)> = BTreeMap::new();
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
                Err(Misfit::Memory(bytes)) => {
                    if short.get(name).is_none_or(|(least, _)| bytes < *least) {
                        short.insert(name, (bytes, offer));
                    }
                }
                Err(Misfit::Refused(reason)) => {
                    failed = true;
                    let of = (offer.method, offer.recipe.platform());
                    candidates.push(Candidate::refused(&offer.kernel.to_string(), of, &reason.reason));
                    refusal.get_or_insert(reason);
                }
            }
        }
        let limit = self.memory_limit.unwrap_or(0);
        for (bytes, offer) in short.values() {
            let alike = |(other, ..): &Fitting| {
                other.method == offer.method && other.recipe.platform() == offer.recipe.platform()
            };
            if !fitting.iter().any(alike) {
                let reason = format!("it takes {bytes} bytes, beyond the memory limit of {limit}");
                candidates.push(Candidate::of(offer, Outcome::Refused(reason)));
            }
        }
        let least = short.values().map(|(bytes, _)| *bytes).min();
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
                (None, Some(needed), _) => PlanError::Memory { needed, limit },
                (None, None, Some(refusal)) => PlanError::Refused(refusal),
                (None, None, None) => PlanError::Refused(Refusal::new("planner", "no method serves this spec")),
            });
        };
        fitting[chosen].2 = workers;
        candidates.extend(passed);
        let mut runner_up: Option<Fitting> = None;
        others.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
        for offer in others {
            if offer.eligible == Eligible::ByName {
                continue;
            }
            if offer.eligible == Eligible::ByRank {
                // A GPU's kernels are compiled, so they are not built where no rank would make them the faster ones.
                let compiled = offer.recipe.platform() == Platform::Cuda;
                if compiled && most_rank(&fitting[chosen].0, &offer) == 0 {
                    candidates.push(Candidate::of(&offer, Outcome::Slower));
                } else if runner_up.is_none()
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
            // What won among all won among those that this planner may take, if it is one of them.
            let of = |whose: &str| wisdom.lookup(whose, SOURCE, spec, self.threads).cloned();
            self.known_as().as_deref().and_then(of).or_else(|| of(&self.machine.fingerprint()))?
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
        let runner_up =
            runner_up.map(|(offer, execute, workers)| (offer, Fallback::behind(execute, spec, self), workers));
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
            _ => offer.work.threads(self.machine.costs(), self.threads),
        };
        let fitting = (1..=most).rev().find(|&workers| self.fits(spec, execute.as_ref(), workers));
        let workers = fitting.ok_or_else(|| Misfit::Memory(execute.held_bytes(1, spec.templates())))?;
        Ok((execute, workers))
    }

    /// Whether an execution by so many threads, with the templates, takes no more memory than it may.
    pub(crate) fn fits(&self, spec: &Spec, execute: &dyn Execute, workers: usize) -> bool {
        self.memory_limit.is_none_or(|limit| execute.held_bytes(workers, spec.templates()) <= limit)
    }

    /// What became of the offers, sorted by estimate, in a race: each is run once, a GPU's after runs that warm up, and
    /// stopped when it cannot win. Then those that came near the best meet it again, in turns, and the median decides.
    /// Nothing new begins when 20 runs of the best, or 100 ms, are over, a run of as many images as come together; what
    /// it takes to make kernels of a GPU ready does not count.
    ///
    /// Offers whose kernels a device times differ by these alone, so copies, which are the same for all of them, do not
    /// hide by how much. What a call takes besides is added to each: it is measured of the first, and once more, of the
    /// one with the fastest kernels, where others are near that are timed as whole calls.
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
        let of_device =
            self.machine.devices().iter().map(|device| device.memory / (2 * NEAR.1)).min().unwrap_or(usize::MAX);
        let holds = |(offer, execute, workers): &Fitting| {
            self.memory_limit.is_none()
                && (offer.recipe.platform() == Platform::Cpu
                    || execute.held_bytes(*workers, spec.templates()) <= of_device)
        };
        let ready = |trial: &mut Trial, fitting: &'a Fitting, warm: bool| -> Result<Ready<'a>, String> {
            let (offer, execute, workers) = fitting;
            let begun = Instant::now();
            let mut ready = trial.ready(execute.as_ref(), *workers)?;
            // A clock holds images beside those of a call.
            if !holds(fitting) {
                ready.by_calls();
            }
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
        let warm_calls = |trial: &mut Trial, ready: &mut Ready<'_>, platform| {
            let begun = Instant::now();
            let warm = trial.warm_calls(ready, platform);
            compiling.set(compiling.get() + begun.elapsed());
            warm
        };
        let mut near: Vec<Near<'_>> = Vec::new();
        // What a call takes beside kernels that a device times.
        let mut beside: Option<Duration> = None;
        // For how long threads were busy, so that each has a core.
        let mut settled = Duration::ZERO;
        for (index, fitting) in offers.iter().enumerate() {
            let offer = &fitting.0;
            let hopeless = best.is_some_and(|(other, _)| !patient && self.is_hopeless(offer, &offers[other].0));
            if hopeless || best.is_some_and(|(_, least)| spent(least)) {
                outcomes.push(Outcome::Slower);
                continue;
            }
            let least = best.map(|(_, least)| least);
            let first = ready(&mut trial, fitting, false).and_then(|ready| {
                let rest = if ready.on_device() { beside.unwrap_or_default() } else { Duration::ZERO };
                let threads = fitting.2 > 1 && !ready.on_device();
                let settling = if threads { SETTLING.saturating_sub(settled) } else { Duration::ZERO };
                let (ran, ready, busy) =
                    first(&mut trial, ready, least.map(|least| least.saturating_sub(rest)), settling)?;
                settled += busy;
                Ok((ran, ready))
            });
            let first = first.and_then(|(ran, mut ready)| {
                let (Ran::Done(took), true, None) = (ran, ready.on_device(), beside) else { return Ok((ran, ready)) };
                warm_calls(&mut trial, &mut ready, offer.recipe.platform())?;
                let call = trial.call(&mut ready, least.map(lost))?;
                beside = Some(call.time().saturating_sub(took));
                Ok((if let Ran::Stopped(_) = call { Ran::Stopped(took) } else { ran }, ready))
            });
            let (ran, ready) = match first {
                Ok(first) => first,
                Err(reason) => {
                    outcomes.push(Outcome::Failed(reason));
                    continue;
                }
            };
            let on_device = ready.on_device();
            let all = whole(ran.time(), on_device, beside);
            if let Ran::Stopped(_) = ran {
                outcomes.push(Outcome::Stopped(nanoseconds(all)));
                continue;
            }
            outcomes.push(Outcome::Measured(nanoseconds(all)));
            if least.is_none_or(|least| all < least) {
                best = Some((index, all));
            }
            let ready = holds(fitting).then_some(ready);
            near.push(Near { index, ready, on_device, times: vec![ran.time()], out: false });
            near.sort_by_key(|one| one.whole(beside));
            near.truncate(NEAR.1);
        }
        let Some((_, least)) = best else { return outcomes };
        let close = |time: Duration, least: Duration| time.as_secs_f64() <= NEAR.0 * least.as_secs_f64();
        let fastest = near.iter().filter(|one| one.on_device).map(|one| one.times[0]).min();
        near.retain(|one| {
            let rivals = fastest.filter(|_| one.on_device);
            close(one.whole(beside), least) && rivals.is_none_or(|fastest| close(one.times[0], fastest))
        });
        // One that nothing came near has won.
        if near.len() > 1 {
            let mixed = near.iter().any(|one| !one.on_device);
            let devices = near.iter().filter(|one| one.on_device && mixed);
            let called = devices.min_by_key(|one| one.times[0]).map(|one| one.index);
            let mut rests = Vec::new();
            let [rounds, most] = if near.iter().all(|one| one.on_device) { ROUNDS_OF_A_CLOCK } else { ROUNDS };
            for round in 0..most {
                if round > 0 && round % STAGE == 0 {
                    let rest = if rests.is_empty() { beside } else { Some(median(&mut rests.clone())) };
                    leave_out(&mut near, rest);
                }
                let left = near.iter().filter(|one| !one.out).count();
                if left < 2 || (round >= rounds && spent(least)) {
                    break;
                }
                for one in near.iter_mut().filter(|one| !one.out) {
                    let fitting = &offers[one.index];
                    let again = match one.ready.take() {
                        Some(kept) => Ok(kept),
                        None => ready(&mut trial, fitting, true),
                    };
                    let timed = again.and_then(|mut again| {
                        let took = trial.mean(&mut again, LEAST)?;
                        if called == Some(one.index) {
                            warm_calls(&mut trial, &mut again, fitting.0.recipe.platform())?;
                            rests.push(trial.mean_of_calls(&mut again, LEAST)?.saturating_sub(took));
                        }
                        one.ready = holds(fitting).then_some(again);
                        Ok(took)
                    });
                    match timed {
                        Ok(took) => one.times.push(took),
                        Err(reason) => {
                            outcomes[one.index] = Outcome::Failed(reason);
                            one.out = true;
                        }
                    }
                }
            }
            if !rests.is_empty() {
                beside = Some(median(&mut rests));
            }
        }
        for one in &mut near {
            one.times = vec![median(&mut one.times)];
            if let Outcome::Measured(ns) = &mut outcomes[one.index] {
                *ns = nanoseconds(one.whole(beside));
            }
        }
        // Those that were left behind did not win, however lucky their runs until then were.
        let stayed = |index: usize| near.iter().any(|one| one.index == index && !one.out);
        let slowest = near.iter().filter(|one| !one.out).map(|one| nanoseconds(one.whole(beside))).min().unwrap_or(0);
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            if let Outcome::Measured(ns) = outcome
                && !stayed(index)
            {
                *ns = (*ns).max(slowest);
            }
        }
        outcomes
    }

    /// Whether an offer is estimated to take so much longer than another that it is not timed. Two of a GPU are held
    /// against each other by what their kernels are estimated to take.
    fn is_hopeless(&self, offer: &Offer, best: &Offer) -> bool {
        let on_gpu = [offer, best].iter().all(|offer| offer.recipe.platform() == Platform::Cuda);
        let costs = self.machine.costs();
        let estimate = |offer: &Offer| if on_gpu { offer.work.of_kernels().ns_on(costs, 1) } else { offer.estimate_ns };
        estimate(offer) > HOPE * estimate(best)
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
        if let Some(whose) = self.known_as()
            && let Ok(entry) = Entry::new(kernel, least, timings)
        {
            let entry = if tried.is_some() { entry.with_workers(workers) } else { entry };
            let mut wisdom = self.wisdom.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = wisdom.insert(&whose, SOURCE, spec, self.threads, entry);
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
        let estimate = |threads: usize| offer.work.ns_on(costs, threads);
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
        for _ in 0..ROUNDS_OF_THREADS[usize::from(patient)] {
            for (ready, times) in ready.iter_mut().zip(&mut times) {
                times.push(trial.mean(ready, LEAST).ok()?);
            }
        }
        let medians = times.iter_mut().map(|times| nanoseconds(median(times)));
        counts.iter().copied().zip(medians).min_by_key(|(_, ns)| *ns)
    }
}

/// Rounds of those that come near the best and are called: at least, and at most where there is time.
const ROUNDS: [usize; 2] = [3, 31];

/// The same where devices time kernels: their clocks drift so little that none is needed that there is no time for.
const ROUNDS_OF_A_CLOCK: [usize; 2] = [0, 11];

/// Rounds of numbers of threads: of effort measure, and of patient.
const ROUNDS_OF_THREADS: [usize; 2] = [3, 11];

/// After so many rounds, and as many again, those are left out that are behind, so that there is time for the others.
const STAGE: usize = 5;

/// Who is left out: whose median takes longer than so many times the least.
const BEHIND: f64 = 1.12;

/// How long one timing lasts at least, so that small runs are timed by many.
const LEAST: Duration = Duration::from_micros(200);

/// How long threads are busy before what they take is timed: a system may wake several on one core, and moves them to
/// others after tens of milliseconds only. On 2 cores of a virtual machine 440 us became 260 after 25 ms.
const SETTLING: Duration = Duration::from_millis(30);

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

/// An offer that came near the best.
struct Near<'a> {
    index: usize,
    /// What executes it, where it may be held.
    ready: Option<Ready<'a>>,
    /// Whether a device timed it, without copies.
    on_device: bool,
    times: Vec<Duration>,
    /// Whether it is not timed any more, since it is behind.
    out: bool,
}

impl Near<'_> {
    /// What a call takes, by its first time.
    fn whole(&self, beside: Option<Duration>) -> Duration {
        whole(self.times[0], self.on_device, beside)
    }
}

/// What a call takes, by a time that may be that of its kernels alone and by what it takes beside these.
fn whole(time: Duration, on_device: bool, beside: Option<Duration>) -> Duration {
    time + if on_device { beside.unwrap_or_default() } else { Duration::ZERO }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Leaves out those whose median is far behind the least of all.
fn leave_out(near: &mut [Near<'_>], beside: Option<Duration>) {
    let so_far = |one: &Near<'_>| whole(median(&mut one.times.clone()), one.on_device, beside).as_secs_f64();
    let least = near.iter().map(so_far).fold(f64::INFINITY, f64::min);
    near.iter_mut().for_each(|one| one.out |= so_far(one) > BEHIND * least);
}

/// How long a first run may take beside this best.
fn lost(best: Duration) -> Duration {
    (3 * best).max(GRACE)
}

/// Times what is ready for the first time, after a run that warms up caches and pages; that one is all where it takes
/// far longer than the best. Threads are to be busy for so long before they are timed; tells for how long they were.
fn first<'a>(
    trial: &mut Trial,
    mut ready: Ready<'a>,
    best: Option<Duration>,
    settling: Duration,
) -> Result<(Ran, Ready<'a>, Duration), String> {
    let mut busy = Duration::ZERO;
    let mut ran = trial.run(&mut ready, best.map(lost))?;
    if let Ran::Done(took) = &mut ran
        && best.is_none_or(|best| *took < lost(best))
    {
        if *took < settling {
            trial.mean(&mut ready, settling)?;
        }
        busy = settling;
        *took = trial.mean(&mut ready, LEAST)?;
        // Who would be left behind has a second chance: something else may have run meanwhile.
        if best.is_some_and(|best| took.as_secs_f64() > NEAR.0 * best.as_secs_f64() && *took < 3 * best) {
            *took = trial.mean(&mut ready, LEAST)?.min(*took);
        }
    }
    Ok((ran, ready, busy))
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
    use crate::plan::cost::{Term, Work};
    use crate::plan::testing::{At, Clockwork, Failing};
    use crate::plan::wisdom::Wisdom;

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
    fn what_was_measured_of_some_offers_is_no_wisdom_of_all() {
        let spec: Spec = "corr:f32:60x70*9x9:valid".parse().unwrap();
        let all = Planner::new().unwrap().platform(Platform::Cpu).threads(1).effort(Effort::Measure);
        let direct = all.clone().method(Method::Direct);
        let known = |planner: &Planner| {
            let plan = planner.plan(&spec).unwrap();
            plan.candidates().iter().any(|one| matches!(one.outcome, Outcome::Known(_)))
        };
        // A memory limit leaves offers out, and nothing is kept.
        assert!(!known(&all.clone().memory_limit(Some(1 << 26))) && all.learnt().is_empty());
        assert!(!known(&direct) && known(&direct) && known(&direct.clone().effort(Effort::Estimate)));
        let note = all.clone().effort(Effort::Estimate).plan(&spec).unwrap().explain();
        assert!(note.contains("wisdom of this spec is ignored: it is of method=direct alone"), "{note}");
        assert!(!known(&all) && known(&all));
        assert_eq!(all.learnt().len(), 2);
        // What won among all serves a method that is its own.
        let winner = all.plan(&spec).unwrap().method();
        let other = Planner::with_machine(all.machine().clone()).platform(Platform::Cpu).threads(1);
        let mut wisdom = Wisdom::new();
        let plain = |machine: &str| !machine.contains(crate::plan::wisdom::ONLY);
        for (key, entry) in all.learnt().iter().filter(|(key, _)| plain(&key.machine)) {
            wisdom.insert(&key.machine, &key.source, &spec, key.threads, entry.clone()).unwrap();
        }
        assert_eq!(wisdom.len(), 1);
        assert!(known(&other.method(winner).wisdom(wisdom)));
    }

    #[test]
    fn what_does_not_fit_in_memory_is_told() {
        let spec: Spec = "zncc:f32:500x500*40x41:valid".parse().unwrap();
        let planner = Planner::new().unwrap().platform(Platform::Cpu).threads(1);
        let nothing = planner.clone().method(Method::Fourier).memory_limit(Some(1)).plan(&spec).map(|_| ());
        let Err(PlanError::Memory { needed, .. }) = nothing else { panic!("{nothing:?}") };
        let least = needed - 1;
        let plan = planner.memory_limit(Some(least)).plan(&spec).unwrap();
        let expected = format!("beyond the memory limit of {least}");
        let told = |one: &Candidate| matches!(&one.outcome, Outcome::Refused(reason) if reason.contains(&expected));
        let told: Vec<Method> = plan.candidates().iter().filter(|one| told(one)).map(|one| one.method).collect();
        assert_eq!(told, [Method::Fourier], "{}", plan.explain());
    }

    #[test]
    fn those_behind_are_left_out() {
        let near = |micros: &[u64], on_device| Near {
            index: 0,
            ready: None,
            on_device,
            times: micros.iter().copied().map(Duration::from_micros).collect(),
            out: false,
        };
        // By medians, however a first or a worst time went, which stay where they are.
        let mut all = [near(&[900, 100, 101], false), near(&[90, 130, 120], false), near(&[111, 500, 105], false)];
        leave_out(&mut all, None);
        assert_eq!(all.each_ref().map(|one| one.out), [false, true, false]);
        assert_eq!(all[0].times[0], Duration::from_micros(900));
        // Kernels by what a call takes with them.
        let mut all = [near(&[10], true), near(&[20], true), near(&[1010], false)];
        leave_out(&mut all, Some(Duration::from_micros(1000)));
        assert_eq!(all.each_ref().map(|one| one.out), [false; 3]);
        leave_out(&mut all, Some(Duration::from_micros(1)));
        assert_eq!(all.each_ref().map(|one| one.out), [false, true, true]);
    }

    #[test]
    fn threads_settle_before_they_are_timed() {
        let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
        let calls = |settling| {
            let device = Clockwork::new(Duration::ZERO, Duration::from_millis(1));
            let (mut trial, execute) = (Trial::new(&spec), device.execute(&spec));
            let mut ready = trial.ready(&execute, 1).unwrap();
            ready.by_calls();
            let (_, _, busy) = first(&mut trial, ready, None, settling).unwrap();
            assert_eq!(busy, settling);
            device.seen().0
        };
        // One that warms up and one that is timed, which fills the time of a small one; and some between them.
        assert_eq!((calls(Duration::ZERO), calls(SETTLING) > 2), (2, true));
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
                assert!(pairs.work.pieces() > 100 && pairs.work.ns(costs) > alone.work.ns(costs), "{}", pairs.kernel);
                let shared = pairs.work.ns_on(costs, 2) / pairs.work.ns(costs);
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

    /// What a planner that takes its time chooses of such devices, tried in turn, and what became of each; `None` is
    /// the CPU.
    fn raced(devices: &[Option<&Clockwork>]) -> (Option<usize>, Vec<Outcome>) {
        let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
        let planner = Planner::new().unwrap().threads(1).effort(Effort::Patient);
        let fitting = |device: &Option<&Clockwork>| -> Fitting {
            let offer = match device {
                Some(device) => device.offer(&spec),
                None => SOLVERS[0].offers(&spec, &planner.machine).unwrap().remove(0),
            };
            let execute = offer.recipe.build(&spec, None).unwrap();
            (offer, execute, 1)
        };
        let fitting: Vec<Fitting> = devices.iter().map(fitting).collect();
        let mut candidates = Vec::new();
        let chosen = planner.choose(&spec, &fitting, &mut candidates).map(|(chosen, _)| chosen);
        (chosen, candidates.into_iter().map(|candidate| candidate.outcome).collect())
    }

    #[test]
    fn kernels_decide_where_calls_take_what_they_copy() {
        let device = |micros| Clockwork::new(Duration::from_micros(micros), Duration::from_millis(2));
        let devices = [20, 5, 30, 6].map(device);
        let (chosen, outcomes) = raced(&devices.each_ref().map(Some));
        assert_eq!(chosen, Some(1));
        // A call of one tells what a call of each takes beside its kernels.
        let ns = outcomes.iter().map(|outcome| outcome.measured().unwrap() as u64).collect::<Vec<_>>();
        assert!(ns[1] >= 2_000_000, "{ns:?}");
        assert_eq!([ns[0] - ns[1], ns[2] - ns[1], ns[3] - ns[1]], [15_000, 25_000, 1_000]);
        assert!(devices[0].seen().0 > 0);
        assert_eq!(devices[1..].iter().map(|device| device.seen().0).sum::<usize>(), 0);
        // Who came near the fastest kernels was timed again, however near the calls of the others are.
        let rounds = devices.map(|device| device.seen().1.len());
        assert!(rounds[1] > 10 && rounds[3] > 10 && rounds[0] < 5 && rounds[2] < 5, "{rounds:?}");
    }

    #[test]
    fn a_device_races_the_cpu_by_whole_calls() {
        // Its kernels take no time to speak of, and its calls do.
        let slow = Clockwork::new(Duration::from_nanos(1), Duration::from_millis(20));
        for order in [[Some(&slow), None], [None, Some(&slow)]] {
            let (chosen, outcomes) = raced(&order);
            let ns = outcomes.iter().map(|outcome| match outcome {
                Outcome::Measured(ns) | Outcome::Stopped(ns) => *ns,
                other => panic!("{other:?}"),
            });
            let ns = ns.collect::<Vec<_>>();
            let index = order.iter().position(Option::is_some).unwrap();
            assert!(ns[index] >= 20_000_000, "{ns:?}");
            assert_eq!(chosen.map(|chosen| ns[chosen]), ns.iter().min().copied());
        }
        // One that cannot win by its kernels alone is not called.
        let lost = Clockwork::new(Duration::from_secs(3600), Duration::ZERO);
        let (chosen, outcomes) = raced(&[None, Some(&lost)]);
        assert_eq!((chosen, &outcomes[1]), (Some(0), &Outcome::Stopped(3_600_000_000_000)));
        assert_eq!(lost.seen(), (0, vec![1]));
    }

    #[test]
    fn a_gpus_offers_are_given_up_by_what_their_kernels_are_estimated_to_take() {
        let planner = Planner::new().unwrap();
        let costs = planner.machine.costs();
        let device = Clockwork::new(Duration::ZERO, Duration::ZERO);
        let offer = |taps: f64, on_gpu: bool| {
            let work = Work::default().and(Term::DeviceCopy, 1e9).and(Term::DeviceTapSingle, taps);
            let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
            let of_cpu = SOLVERS[0].offers(&spec, &planner.machine).unwrap().remove(0);
            let offer = if on_gpu { device.offer(&spec) } else { of_cpu };
            Offer { estimate_ns: work.ns_on(costs, 1), work, ..offer }
        };
        assert!(planner.is_hopeless(&offer(9e6, true), &offer(1e6, true)));
        assert!(!planner.is_hopeless(&offer(7e6, true), &offer(1e6, true)));
        assert!(!planner.is_hopeless(&offer(9e6, true), &offer(1e6, false)));
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
