//! For tests: a device that fails, and one with a clock.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flcc_core::error::{ExecError, Refusal};
use flcc_core::peaks::{Found, Search};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::plan::machine::Machine;
use crate::plan::solver::{Offer, Platform, Recipe};
use crate::plan::solvers::SOLVERS;
use crate::problem::template::{Checked, Weights};
use crate::run::execute::{Clock, Clocked, Control, Execute, Pairs, Scratch, Statistics, Unfinished};
use crate::run::search::{Buffers, Searching};

/// What a device fails at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// Binding templates.
    Binding,
    /// The run, of which every third image is computed.
    Running,
    /// The run, of which every third image is computed, where results are searched on the device.
    Searching,
}

/// What executes an offer, as device 3 that fails.
pub struct Failing {
    execute: Box<dyn Execute>,
    spec: Spec,
    at: At,
    /// Runs that failed.
    runs: Arc<AtomicUsize>,
}

/// The error of such a device.
pub fn fault() -> ExecError {
    ExecError::Device { what: "device 3: a copy".into(), reason: "it is lost".into() }
}

impl Failing {
    /// What executes an offer of the CPU, and a count of the runs that failed.
    pub fn build(offer: &Offer, spec: &Spec, at: At) -> (Box<dyn Execute>, Arc<AtomicUsize>) {
        let (execute, runs) = (offer.recipe.build(spec, None).unwrap(), Arc::new(AtomicUsize::new(0)));
        (Box::new(Failing { execute, spec: spec.clone(), at, runs: Arc::clone(&runs) }), runs)
    }

    /// Does every third image, and spoils what others had.
    fn run(
        &self,
        images: usize,
        mut each: impl FnMut(usize, bool) -> Result<Statistics, ExecError>,
    ) -> Result<Statistics, Box<Unfinished>> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let mut statistics = Statistics::default();
        for image in 0..images {
            statistics.add(each(image, image % 3 != 1)?);
        }
        let undone = (0..images).filter(|image| image % 3 != 1).collect();
        Err(Box::new(Unfinished { error: fault(), undone, statistics }))
    }
}

impl Execute for Failing {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        if self.at == At::Binding { Err(fault()) } else { self.execute.bind(checked, weights) }
    }

    fn rank(&self, _checked: &[Checked], _weights: &Weights, _limit: usize) -> Option<usize> {
        None
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        self.execute.scratch_bytes(workers)
    }

    fn template_bytes(&self) -> usize {
        self.execute.template_bytes()
    }

    fn tiles(&self) -> usize {
        self.execute.tiles()
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        self.execute.scratch(workers, results)
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
        if self.at != At::Searching {
            return None;
        }
        let searching = Searching::new(&self.spec, search, 1);
        Some(self.run(images.len(), |image, spoilt| {
            let (here, rooms) = (&images[image..=image], &mut Buffers::default());
            let (all, statistics) = searching.of(self.execute.as_ref(), bound, here, scratch, rooms, control)?;
            for (to, one) in found[image * self.spec.templates()..].iter_mut().zip(all) {
                *to = if spoilt { Found::default() } else { one };
            }
            Ok(statistics)
        }))
    }

    fn devices(&self) -> Vec<usize> {
        vec![3]
    }

    fn appetite(&self) -> usize {
        4
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        let templates = self.spec.templates();
        self.run(images.len(), |image, spoilt| {
            let outs = &mut outs[image * templates..(image + 1) * templates];
            let run = self.execute.execute(bound, &images[image..=image], outs, scratch, control);
            for out in outs.iter_mut().filter(|_| spoilt) {
                let AnyViewMut::F32(out) = out else { unreachable!("the spec's results are f32") };
                out.parts().0.fill(f32::NAN);
            }
            run.map_err(|unfinished| unfinished.error)
        })
    }
}

/// A made-up device whose clock tells of every run that its kernels took as long as a test says, and whose calls take
/// no less than it says. The CPU computes.
#[derive(Clone, Debug)]
pub struct Clockwork {
    kernels: Duration,
    call: Duration,
    seen: Arc<Seen>,
}

/// What a made-up device was asked for.
#[derive(Debug, Default)]
struct Seen {
    calls: AtomicUsize,
    runs: Mutex<Vec<usize>>,
}

impl Clockwork {
    pub fn new(kernels: Duration, call: Duration) -> Clockwork {
        Clockwork { kernels, call, seen: Arc::default() }
    }

    /// How many calls there were, and how many runs the clock was asked for each time.
    pub fn seen(&self) -> (usize, Vec<usize>) {
        (self.seen.calls.load(Ordering::Relaxed), self.seen.runs.lock().unwrap().clone())
    }

    /// An offer of it: the work of one of the CPU's.
    pub fn offer(&self, spec: &Spec) -> Offer {
        let offer = SOLVERS[0].offers(spec, &Machine::detect().unwrap()).unwrap().remove(0);
        Offer { recipe: Arc::new(self.clone()), ..offer }
    }

    /// What executes that.
    pub fn execute(&self, spec: &Spec) -> impl Execute + use<> {
        let offer = SOLVERS[0].offers(spec, &Machine::detect().unwrap()).unwrap().remove(0);
        Working { execute: offer.recipe.build(spec, None).unwrap(), device: self.clone() }
    }
}

impl Recipe for Clockwork {
    fn platform(&self) -> Platform {
        Platform::Cuda
    }

    fn build(&self, spec: &Spec, _memory_limit: Option<usize>) -> Result<Box<dyn Execute>, Refusal> {
        Ok(Box::new(self.execute(spec)))
    }
}

impl Clock for Clockwork {
    fn time(&mut self, runs: usize, _limit: Option<Duration>) -> Result<Duration, ExecError> {
        self.seen.runs.lock().unwrap().push(runs);
        Ok(self.kernels)
    }
}

struct Working {
    execute: Box<dyn Execute>,
    device: Clockwork,
}

impl Execute for Working {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, ExecError> {
        self.execute.bind(checked, weights)
    }

    fn rank(&self, _checked: &[Checked], _weights: &Weights, _limit: usize) -> Option<usize> {
        None
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        self.execute.scratch_bytes(workers)
    }

    fn template_bytes(&self) -> usize {
        self.execute.template_bytes()
    }

    fn tiles(&self) -> usize {
        self.execute.tiles()
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        self.execute.scratch(workers, results)
    }

    fn clock<'a>(&'a self, _bound: &Arc<dyn Any + Send + Sync>, _images: &[AnyView<'_>]) -> Clocked<'a> {
        Ok(Some(Box::new(self.device.clone())))
    }

    fn clock_of_pairs<'a>(&'a self, _pairs: &Pairs<'_>) -> Clocked<'a> {
        Ok(Some(Box::new(self.device.clone())))
    }

    fn devices(&self) -> Vec<usize> {
        vec![3]
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, Box<Unfinished>> {
        self.device.seen.calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.device.call);
        self.execute.execute(bound, images, outs, scratch, control)
    }
}
