//! Devices with the CPU behind them: one executor over the others.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::error::{ExecError, SpecError};
use flcc_core::peaks::{Found, Search};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::plan::planned::Plan;
use crate::plan::settings::Planner;
use crate::problem::template::{Checked, Weights};
use crate::run::execute::{Clocked, Control, Execute, Pairs, Scratch, Statistics, Unfinished};
use crate::run::search::{Buffers, Searching};

/// An executor of devices with the CPU behind it. A run asks the devices first; images that have no results when none
/// is left are computed by the CPU, one by one, and so are all pairs of a run. Images that lie on a device have nothing
/// behind them.
pub(crate) struct Fallback {
    devices: Box<dyn Execute>,
    spec: Spec,
    planner: Planner,
    /// The CPU's, made when it is first needed.
    plan: Mutex<Option<Plan>>,
}

/// Templates as the devices have them, or why these did not take them, and what the CPU binds when it is needed.
struct Both {
    there: Result<Arc<dyn Any + Send + Sync>, ExecError>,
    checked: Vec<Checked>,
    weights: Weights,
    here: Mutex<Option<Arc<Here>>>,
}

/// Templates bound on the CPU.
struct Here {
    execute: Arc<dyn Execute>,
    bound: Arc<dyn Any + Send + Sync>,
    workers: usize,
}

impl Fallback {
    /// The executor with the CPU behind it, if it computes on devices and the planner has the CPU take over.
    pub fn behind(execute: Box<dyn Execute>, spec: &Spec, planner: &Planner) -> Box<dyn Execute> {
        if !planner.fall_back || execute.devices().is_empty() {
            return execute;
        }
        Box::new(Fallback { devices: execute, spec: spec.clone(), planner: planner.on_cpu(), plan: Mutex::default() })
    }

    /// The CPU's plan, for any number of images.
    fn plan(&self) -> Result<Plan, ExecError> {
        let mut made = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &*made {
            Some(plan) => plan.clone(),
            None => made.insert(self.planner.plan(&self.spec.clone().with_images(0)?)?).clone(),
        })
    }

    fn here(&self, bound: &Both) -> Result<Arc<Here>, ExecError> {
        let mut made = bound.here.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = &*made {
            return Ok(Arc::clone(here));
        }
        let plan = self.plan()?;
        let (choice, _) = plan.choose(&bound.checked, &bound.weights);
        let (execute, workers) = (choice.execute(), choice.workers());
        let bound = execute.bind(bound.checked.clone(), bound.weights.clone())?;
        Ok(Arc::clone(made.insert(Arc::new(Here { execute, bound, workers }))))
    }

    /// What a run of the devices came to, with the images that they left undone computed by `each` on the CPU.
    fn go_on(
        &self,
        run: Result<Statistics, Box<Unfinished>>,
        bound: &Both,
        images: usize,
        control: &Control<'_>,
        mut each: impl FnMut(&Here, usize, &mut Scratch, &Control<'_>) -> Result<Statistics, ExecError>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let unfinished = match run {
            Err(unfinished) if takes_over(&unfinished.error, control) => unfinished,
            run => return run,
        };
        let here = self.here(bound)?;
        let mut scratch = here.execute.scratch(here.workers, self.spec.templates());
        let tiles = here.execute.tiles();
        let total = images * tiles;
        let mut done = total - unfinished.undone.len() * tiles;
        let mut statistics = unfinished.statistics;
        for &image in &unfinished.undone {
            // Whatever steps the work on an image is counted in.
            let step = |now: usize, of: usize| done + now * tiles / of.max(1);
            let progress = |now, of| control.progress.iter().for_each(|progress| progress(step(now, of), total));
            match each(&here, image, &mut scratch, &Control { progress: Some(&progress), ..*control }) {
                Err(ExecError::Cancelled { done: now, total: of }) => {
                    return Err(ExecError::Cancelled { done: step(now, of), total }.into());
                }
                counts => statistics.add(counts?),
            }
            done += tiles;
        }
        Ok(statistics)
    }
}

impl Both {
    fn of(bound: &(dyn Any + Send + Sync)) -> Result<&Both, SpecError> {
        let foreign = || SpecError::new("templates", "those bound to this plan", "those of another");
        bound.downcast_ref().ok_or_else(foreign)
    }

    /// The templates as the devices have them, or why the devices have none.
    fn there(&self) -> Result<&(dyn Any + Send + Sync), ExecError> {
        self.there.as_deref().map_err(ExecError::clone)
    }

    /// The templates as the devices have them, for a run of so many images: all are undone where the devices have none.
    fn for_run(&self, images: usize) -> Result<&(dyn Any + Send + Sync), Box<Unfinished>> {
        let undone = (0..images).collect();
        self.there().map_err(|error| Box::new(Unfinished { error, undone, statistics: Statistics::default() }))
    }
}

/// Whether the CPU takes over after an error; who listens is told.
fn takes_over(error: &ExecError, control: &Control<'_>) -> bool {
    let ExecError::Device { what, reason } = error else { return false };
    control.failed.iter().for_each(|failed| failed(&format!("{what}: {reason}; the CPU goes on")));
    true
}

/// A control in which a device that fails leaves its images to the other devices first, whoever listens.
fn watched<'a>(control: &Control<'a>) -> Control<'a> {
    Control { failed: control.failed.or(Some(&|_| ())), ..*control }
}

impl Execute for Fallback {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        let there = match self.devices.bind(checked.clone(), weights.clone()) {
            Err(error) if !matches!(error, ExecError::Device { .. }) => return Err(error),
            there => there,
        };
        Ok(Arc::new(Both { there, checked, weights, here: Mutex::default() }))
    }

    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        self.devices.rank(checked, weights, limit)
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        self.devices.scratch_bytes(workers)
    }

    fn template_bytes(&self) -> usize {
        self.devices.template_bytes()
    }

    fn tiles(&self) -> usize {
        self.devices.tiles()
    }

    fn short_of_memory(&self) -> bool {
        self.devices.short_of_memory()
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        self.devices.scratch(workers, results)
    }

    #[cfg(feature = "cuda")]
    fn execute_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        self.devices.execute_resident(Both::of(bound)?.there()?, images, outs, scratch)
    }

    #[cfg(feature = "cuda")]
    fn execute_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &crate::run::device_image::DeviceImage<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.devices.execute_on_device(Both::of(bound)?.there()?, image, out, scratch, control)
    }

    #[cfg(feature = "cuda")]
    fn queue(&self, device: usize) -> Result<Scratch, ExecError> {
        self.devices.queue(device)
    }

    #[cfg(feature = "cuda")]
    fn enqueue(
        &self,
        bound: &(dyn Any + Send + Sync),
        run: crate::run::device_image::Enqueued<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), ExecError> {
        self.devices.enqueue(Both::of(bound)?.there()?, run, scratch)
    }

    #[cfg(feature = "cuda")]
    fn unserved(&self, scratch: &mut Scratch, forget: bool) -> Result<bool, SpecError> {
        self.devices.unserved(scratch, forget)
    }

    #[cfg(feature = "cuda")]
    fn time_on_device(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<crate::run::execute::DeviceTime, ExecError> {
        self.devices.time_on_device(Both::of(bound)?.there()?, images, outs, scratch, runs)
    }

    fn clock<'a>(&'a self, bound: &Arc<dyn Any + Send + Sync>, images: &[AnyView<'_>]) -> Clocked<'a> {
        self.devices.clock(Both::of(bound.as_ref())?.there.as_ref().map_err(ExecError::clone)?, images)
    }

    fn clock_of_pairs<'a>(&'a self, pairs: &Pairs<'_>) -> Clocked<'a> {
        self.devices.clock_of_pairs(pairs)
    }

    #[cfg(feature = "cuda")]
    fn search_resident(
        &self,
        bound: &(dyn Any + Send + Sync),
        image: &crate::run::device_image::DeviceImage<'_>,
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.devices.search_resident(Both::of(bound)?.there()?, image, search, found, scratch, control)
    }

    fn search(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        search: &Search,
        found: &mut [Found],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Option<Result<Statistics, Box<Unfinished>>> {
        let bound = match Both::of(bound) {
            Ok(bound) => bound,
            Err(foreign) => return Some(Err(foreign.into())),
        };
        let run = match bound.for_run(images.len()) {
            Ok(there) => self.devices.search(there, images, search, found, scratch, &watched(control))?,
            Err(undone) => Err(undone),
        };
        let mut rooms = Buffers::default();
        Some(self.go_on(run, bound, images.len(), control, |here, image, scratch, control| {
            let searching = Searching::new(&self.spec, search, here.workers);
            let images = &images[image..=image];
            let (of_image, statistics) =
                searching.of(here.execute.as_ref(), here.bound.as_ref(), images, scratch, &mut rooms, control)?;
            found[image * self.spec.templates()..].iter_mut().zip(of_image).for_each(|(to, found)| *to = found);
            Ok(statistics)
        }))
    }

    fn devices(&self) -> Vec<usize> {
        self.devices.devices()
    }

    fn appetite(&self) -> usize {
        self.devices.appetite()
    }

    fn describe(&self) -> Vec<String> {
        self.devices.describe()
    }

    /// All pairs of a run are computed by one kernel: that of the CPU if the devices fail at one.
    fn execute_pairs(
        &self,
        pairs: &Pairs<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        match self.devices.execute_pairs(pairs, outs, scratch, &watched(control)) {
            Err(error) if takes_over(&error, control) => {
                let execute = self.plan()?.primary().execute();
                let workers = self.planner.pair_workers(&self.spec, execute.as_ref());
                execute.execute_pairs(pairs, outs, &mut execute.scratch(workers, outs.len()), control)
            }
            run => run,
        }
    }

    #[cfg(feature = "cuda")]
    fn execute_pairs_on_device(
        &self,
        pairs: &crate::run::device_image::DevicePairs<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        self.devices.execute_pairs_on_device(pairs, out, weights, scratch)
    }

    #[cfg(feature = "cuda")]
    fn time_pairs_on_device(
        &self,
        pairs: &[crate::run::device_image::DevicePairs<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<crate::run::execute::DeviceTime, ExecError> {
        self.devices.time_pairs_on_device(pairs, outs, scratch, runs)
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let bound = Both::of(bound)?;
        let run = bound
            .for_run(images.len())
            .and_then(|there| self.devices.execute(there, images, outs, scratch, &watched(control)));
        let templates = self.spec.templates();
        self.go_on(run, bound, images.len(), control, |here, image, scratch, control| {
            let outs = &mut outs[image * templates..(image + 1) * templates];
            let run = here.execute.execute(here.bound.as_ref(), &images[image..=image], outs, scratch, control);
            run.map_err(|unfinished| unfinished.error)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use flcc_core::dtype::Pixels;
    use flcc_core::peaks::PeakOptions;
    use flcc_core::score::ScoreMap;

    use super::*;
    use crate::plan::machine::Machine;
    use crate::plan::planned::Took;
    use crate::plan::solvers::SOLVERS;
    use crate::plan::testing::{At, Clockwork, Failing, fault};
    use crate::plan::trial::{Ran, Trial};
    use crate::run::execute::CancelToken;

    /// A plan for a device that fails, with the CPU behind it if the planner has it so; and how often it failed.
    fn failing(spec: &Spec, planner: &Planner, at: At) -> (Plan, Arc<AtomicUsize>) {
        let offer = SOLVERS[0].offers(spec, planner.machine()).unwrap().remove(0);
        let (execute, runs) = Failing::build(&offer, spec, at);
        let execute = Fallback::behind(execute, spec, planner);
        let plan = Plan::new(spec.clone(), planner.clone(), (offer, execute, 1), None, Vec::new(), Took::default());
        (plan, runs)
    }

    fn pixels(count: usize, seed: u32) -> Pixels {
        Pixels::U8(
            (0..count as u32).map(|index| (index.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 23) as u8).collect(),
        )
    }

    #[test]
    fn devices_with_the_cpu_behind_them_have_their_clock() {
        let spec: Spec = "zncc:u8:20x30*5x6:valid".parse().unwrap();
        let planner = Planner::with_machine(Machine::detect().unwrap()).fall_back(true);
        let device = Clockwork::new(Duration::from_micros(7), Duration::ZERO);
        let execute = Fallback::behind(Box::new(device.execute(&spec)), &spec, &planner);
        let mut trial = Trial::new(&spec);
        let mut ready = trial.ready(execute.as_ref(), 1).unwrap();
        assert_eq!(trial.run(&mut ready, None), Ok(Ran::Done(Duration::from_micros(7))));
    }

    #[test]
    fn the_cpu_takes_over_what_a_device_leaves_undone() {
        let spec: Spec = "zncc:u8:0@20x30*2@5x6:valid,acc=exact".parse().unwrap();
        let (templates, images) =
            ([1, 2].map(|seed| pixels(30, seed)), [3, 4, 5, 6, 7, 8, 9].map(|seed| pixels(600, seed)));
        let templates = templates.each_ref().map(|template| AnyView::dense(template, spec.template(), 1).unwrap());
        let images = images.each_ref().map(|image| AnyView::dense(image, spec.image(), 1).unwrap());
        let planner = Planner::with_machine(Machine::detect().unwrap()).threads(2);
        let plan = planner.plan(&spec).unwrap();
        let expected = plan.execute(&images, &templates, None).unwrap();
        let same =
            |maps: &[ScoreMap]| maps.len() == 14 && maps.iter().zip(&expected).all(|(a, b)| a.data() == b.data());

        // By itself a failure is the run's error.
        let bind = |planner: &Planner, at: At| {
            let (plan, runs) = failing(&spec, planner, at);
            (plan.bind(&templates, None), runs)
        };
        let (matcher, runs) = bind(&planner, At::Running);
        assert_eq!(matcher.unwrap().execute(&images).unwrap_err(), fault());
        assert_eq!(bind(&planner, At::Binding).0.map(|_| ()).unwrap_err(), fault());
        assert_eq!(runs.load(Ordering::Relaxed), 1);

        // A stream gives what is there, and the error for what is not; nothing is tried again.
        let (matcher, runs) = bind(&planner, At::Running);
        let results: Vec<_> = matcher.unwrap().stream().run(images).collect();
        assert_eq!(results.len(), 7);
        for (index, result) in results.iter().enumerate() {
            match result {
                Ok(maps) => assert!(index % 4 == 1 && maps[1].data() == expected[2 * index + 1].data(), "{index}"),
                Err(error) => assert!(index % 4 != 1 && *error == fault(), "{index}"),
            }
        }
        assert_eq!(runs.load(Ordering::Relaxed), 2);

        // Where the CPU is to take over, results are there, in order, and each failure is told once.
        let planner = planner.fall_back(true);
        let options = PeakOptions { top: Some(3), ..PeakOptions::default() };
        let peaks = plan.bind(&templates, None).unwrap().peaks(&images, &options).unwrap();
        for at in [At::Running, At::Searching, At::Binding] {
            let (matcher, runs) = bind(&planner, at);
            let matcher = matcher.unwrap();
            assert!(same(&matcher.execute(&images).unwrap()), "unheard");
            let told = Mutex::new(Vec::new());
            let failed = |words: &str| told.lock().unwrap().push(words.to_string());
            let last = Mutex::new((0, 0));
            let progress = |done: usize, total: usize| *last.lock().unwrap() = (done, total);
            let control = Control { progress: Some(&progress), failed: Some(&failed), ..Control::default() };
            assert!(same(&matcher.execute_with(&images, &control).unwrap().0));
            assert_eq!(*told.lock().unwrap(), ["device 3: a copy: it is lost; the CPU goes on"]);
            let (done, total) = *last.lock().unwrap();
            assert!(done == total && total >= images.len(), "{done} of {total}");
            assert_eq!(runs.load(Ordering::Relaxed), if at == At::Binding { 0 } else { 2 });

            // A stream of them takes four at a time.
            told.lock().unwrap().clear();
            let results: Vec<_> = matcher.stream().run_with(images, &control).collect();
            assert!(same(&results.into_iter().flat_map(Result::unwrap).collect::<Vec<_>>()));
            assert_eq!(told.lock().unwrap().len(), 2);

            told.lock().unwrap().clear();
            let (found, _) = matcher.search(&images, &options, false, &control).unwrap();
            assert!(found.iter().map(|found| &found.peaks).eq(&peaks), "{at:?}: {found:?}");
            assert_eq!(told.lock().unwrap().len(), 1);
        }
    }

    #[test]
    fn the_cpu_takes_over_pairs() {
        let spec: Spec = "zncc:u8:0@20x30*5x6:valid".parse().unwrap();
        let (templates, images) = ([1, 2, 3].map(|seed| pixels(30, seed)), [4, 5, 6].map(|seed| pixels(600, seed)));
        let templates = templates.each_ref().map(|template| AnyView::dense(template, spec.template(), 1).unwrap());
        let images = images.each_ref().map(|image| AnyView::dense(image, spec.image(), 1).unwrap());
        let planner = Planner::with_machine(Machine::detect().unwrap()).threads(2);
        let (expected, counts) = planner
            .plan(&spec)
            .unwrap()
            .pairs(None)
            .unwrap()
            .execute_with(&images, &templates, &Control::default())
            .unwrap();
        for at in [At::Running, At::Binding] {
            let alone = failing(&spec, &planner, at).0.pairs(None).unwrap();
            assert_eq!(alone.execute(&images, &templates).unwrap_err(), fault());
            let pairs = failing(&spec, &planner.clone().fall_back(true), at).0.pairs(None).unwrap();
            let told = Mutex::new(Vec::new());
            let failed = |words: &str| told.lock().unwrap().push(words.to_string());
            let control = Control { failed: Some(&failed), ..Control::default() };
            assert_eq!(pairs.execute_with(&images, &templates, &control).unwrap(), (expected.clone(), counts));
            assert_eq!(*told.lock().unwrap(), ["device 3: a copy: it is lost; the CPU goes on"]);
            // What is wrong with a template is nothing that the CPU could do better.
            let flat = Pixels::U8(vec![7; 30]);
            let flat = [templates[0], AnyView::dense(&flat, spec.template(), 1).unwrap(), templates[2]];
            let error = pairs.execute(&images, &flat).unwrap_err();
            assert!(error.to_string().contains("template 1"), "{error}");
        }
    }

    #[test]
    fn who_takes_over_can_be_cancelled() {
        let spec: Spec = "zncc:u8:0@20x30*5x6:valid".parse().unwrap();
        let (template, image) = (pixels(30, 1), pixels(600, 2));
        let (template, image) =
            (AnyView::dense(&template, spec.template(), 1).unwrap(), AnyView::dense(&image, spec.image(), 1).unwrap());
        let planner = Planner::with_machine(Machine::detect().unwrap()).threads(1).fall_back(true);
        let matcher = failing(&spec, &planner, At::Binding).0.bind(&[template], None).unwrap();
        let token = CancelToken::new();
        let (stop, calls) = (token.clone(), AtomicUsize::new(0));
        let progress = |_: usize, _: usize| {
            if calls.fetch_add(1, Ordering::Relaxed) == 1 {
                stop.cancel()
            }
        };
        let control = Control { progress: Some(&progress), cancel: Some(&token), ..Control::default() };
        let error = matcher.execute_with(&[image; 5], &control).unwrap_err();
        assert_eq!(error, ExecError::Cancelled { done: 2, total: 5 });
    }
}
