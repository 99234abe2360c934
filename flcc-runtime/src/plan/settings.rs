//! What a plan is made for and with: the machine, how hard to think, limits, and what is remembered.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::error::{Refusal, SpecError};
use flcc_core::key::KernelKey;
use flcc_core::spec::{Accuracy, Spec};

use crate::plan::machine::Machine;
use crate::plan::solver::{Method, Offer, Platform, Solver};
use crate::plan::solvers::{self, SOLVERS};
use crate::plan::wisdom::{ONLY, Wisdom};
use crate::run::execute::Execute;

/// How hard to think about a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// By estimated cost; microseconds.
    #[default]
    Estimate,
    /// The promising offers are timed on made-up data, the best also on one thread or all where that is promising. Of a
    /// GPU's the fastest kernels are taken, for copies take as long by all of them; calls are what it and the CPU are
    /// compared by.
    Measure,
    /// Every offer is timed, for longer, and the best on one, two, four and so on of the threads.
    Patient,
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effort::Estimate => "estimate",
            Effort::Measure => "measure",
            Effort::Patient => "patient",
        })
    }
}

impl FromStr for Effort {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Effort, SpecError> {
        match text {
            "estimate" => Ok(Effort::Estimate),
            "measure" => Ok(Effort::Measure),
            "patient" => Ok(Effort::Patient),
            _ => Err(SpecError::new("effort", "estimate, measure or patient", text)),
        }
    }
}

/// What a plan's work must take the CPU, in nanoseconds, for `auto` to look for a GPU: longer than to open one.
const WORTH_A_GPU: f64 = 5e8;

/// What stands for the code that wisdom was measured with: other code, other wisdom.
pub const SOURCE: &str = concat!("flcc-", env!("CARGO_PKG_VERSION"), "-", env!("FLCC_CODE"));

/// Makes plans. Cheap to clone; clones share what they learn.
#[derive(Clone)]
pub struct Planner {
    pub(crate) machine: Arc<Machine>,
    pub(crate) effort: Effort,
    pub(crate) threads: usize,
    pub(crate) memory_limit: Option<usize>,
    pub(crate) platform: Platform,
    pub(crate) fall_back: bool,
    pub(crate) method: Method,
    pub(crate) kernel: Option<KernelKey>,
    /// Whether `auto` may look for GPUs: the machine is the one that this runs on.
    pub(crate) seeks: bool,
    pub(crate) wisdom: Arc<Mutex<Wisdom>>,
}

impl Planner {
    /// A planner for this machine: all its cores, effort estimate, no memory limit, and the first GPU where the work of
    /// a plan is estimated to take the CPU more than half a second, or once this process uses GPUs anyway.
    ///
    /// # Errors
    /// `FLCC_ISA` names no instruction set.
    pub fn new() -> Result<Planner, SpecError> {
        Ok(Planner { seeks: true, ..Planner::with_machine(Machine::detect()?) })
    }

    /// A planner for a described machine.
    pub fn with_machine(machine: Machine) -> Planner {
        let threads = machine.cores().max(1);
        Planner {
            machine: Arc::new(machine),
            effort: Effort::default(),
            threads,
            memory_limit: None,
            platform: Platform::default(),
            fall_back: false,
            method: Method::default(),
            kernel: None,
            seeks: false,
            wisdom: Arc::default(),
        }
    }

    /// How hard to think.
    pub fn effort(self, effort: Effort) -> Planner {
        Planner { effort, ..self }
    }

    /// Threads to execute with; 0 for one a core. They may change which kernel a plan takes, and a kernel's results are
    /// the same with any number of them.
    pub fn threads(self, threads: usize) -> Planner {
        let threads = if threads == 0 { self.machine.cores().max(1) } else { threads };
        Planner { threads, ..self }
    }

    /// Bytes that a plan may take above images, templates and results: its scratch and bound templates.
    pub fn memory_limit(self, bytes: Option<usize>) -> Planner {
        Planner { memory_limit: bytes, ..self }
    }

    /// Where to compute. `cuda` looks for GPUs now and takes the first, unless the machine was described with some.
    /// [`Platform::Auto`] takes GPUs into account that the machine was described with, or that [`Planner::devices`]
    /// named. A planner of [`Planner::new`] looks for them by itself where a plan's work is estimated to take the CPU
    /// more than half a second, for to open a GPU takes some tenths of one, or once this process has found some; what
    /// these fail at the CPU computes.
    pub fn platform(self, platform: Platform) -> Planner {
        if platform != Platform::Cuda || !self.machine.devices().is_empty() {
            return Planner { platform, ..self };
        }
        let machine = solvers::with_devices((*self.machine).clone());
        let first = machine.devices().iter().take(1).cloned().collect();
        let about = machine.cuda().to_string();
        Planner { platform, machine: Arc::new(machine.with_devices(first, about)), ..self }
    }

    /// Uses these GPUs, by their numbers: images of a call or a stream are spread over them.
    ///
    /// # Errors
    /// No such device.
    pub fn devices(self, numbers: &[usize]) -> Result<Planner, SpecError> {
        let machine = solvers::with_devices((*self.machine).clone());
        let known = machine.devices();
        let mut chosen = Vec::new();
        for number in numbers {
            let device = known.iter().find(|device| device.index == *number).ok_or_else(|| {
                let expected = match known.len() {
                    0 => format!("numbers of NVIDIA GPUs, of which there are none ({})", machine.cuda()),
                    count => format!("numbers from 0 to {}", count - 1),
                };
                SpecError::new("devices", expected, number)
            })?;
            chosen.push(device.clone());
        }
        let about = machine.cuda().to_string();
        Ok(Planner { machine: Arc::new(machine.with_devices(chosen, about)), ..self })
    }

    /// Whether the CPU computes what GPUs fail at: images that have no results when no device is left, all pairs of a
    /// run that fails at one, plans that no device takes because of its state, and all plans where there is no device.
    /// Each failure is told to [`Control::failed`](crate::Control::failed) and in `explain()`. Without it, it is an
    /// error. A platform that does not serve a spec is a refusal in both cases.
    pub fn fall_back(self, fall_back: bool) -> Planner {
        Planner { fall_back, ..self }
    }

    /// The planner with the first GPU that this machine has, where it may look for one and `ns` on the CPU are worth
    /// that.
    pub(crate) fn with_gpu(&self, ns: f64) -> Option<Planner> {
        let may = self.seeks && self.platform == Platform::Auto && self.machine.devices().is_empty();
        if !may || ns < WORTH_A_GPU && !solvers::devices_found() {
            return None;
        }
        let found = Planner { seeks: false, fall_back: true, ..self.clone() }.platform(Platform::Cuda);
        (!found.machine.devices().is_empty()).then(|| found.platform(Platform::Auto))
    }

    /// Why there is no GPU to plan for; `None` where none was looked for.
    pub(crate) fn why_no_gpu(&self) -> Option<String> {
        if self.seeks { solvers::about_devices() } else { Some(self.machine.cuda().to_string()) }
    }

    /// The planner of what is left when every GPU has failed: the CPU, at once.
    pub(crate) fn on_cpu(&self) -> Planner {
        Planner { platform: Platform::Cpu, effort: Effort::Estimate, kernel: None, ..self.clone() }
    }

    /// The planner of plans that one thread of a run computes with, whatever the run was asked to be made of.
    pub(crate) fn of_a_worker(&self) -> Planner {
        Planner { threads: 1, method: Method::Auto, memory_limit: None, ..self.on_cpu() }
    }

    /// Forces a method; `auto` lets the planner choose.
    pub fn method(self, method: Method) -> Planner {
        Planner { method, ..self }
    }

    /// Forces a kernel by its name, whatever others would cost: every plan takes it, or is an error. A name without a
    /// tile takes the tile that is estimated to be the fastest.
    pub fn kernel(self, kernel: Option<KernelKey>) -> Planner {
        Planner { kernel, ..self }
    }

    /// Uses and extends this wisdom, and what it knows of the machine's costs.
    pub fn wisdom(self, wisdom: Wisdom) -> Planner {
        let machine = match wisdom.costs(&self.machine.without_devices(), SOURCE) {
            Some(costs) => {
                let costs = costs.over(self.machine.profiled());
                Arc::new((*self.machine).clone().with_costs(costs))
            }
            None => self.machine,
        };
        Planner { machine, wisdom: Arc::new(Mutex::new(wisdom)), ..self }
    }

    /// What is known by now.
    pub fn learnt(&self) -> Wisdom {
        self.wisdom.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The machine that is planned for.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What accuracy fast would offer in the place of promised, one of each method and type.
    pub(crate) fn left_out(&self, spec: &Spec) -> Vec<Offer> {
        let fast = match spec.accuracy() {
            Accuracy::Promised => spec.clone().with_accuracy(Accuracy::Fast),
            // Who asks for exact results wants no others.
            Accuracy::Fast | Accuracy::Exact => return Vec::new(),
        };
        let Ok(fast) = fast else { return Vec::new() };
        let (here, mut left) = (self.offers(spec), Vec::<Offer>::new());
        let alike = |a: &Offer, b: &Offer| {
            a.method == b.method && a.kernel.dtype == b.kernel.dtype && a.recipe.platform() == b.recipe.platform()
        };
        for offer in self.offers(&fast) {
            if !here.iter().chain(&left).any(|other| alike(other, &offer)) {
                left.push(offer);
            }
        }
        left
    }

    /// The offer of a kernel by name, from the solvers that are asked; of a name without a tile the one that is
    /// estimated to take the least time.
    pub(crate) fn offer(&self, spec: &Spec, kernel: &KernelKey) -> Option<Offer> {
        let named = |offer: &Offer| {
            offer.kernel == *kernel
                || kernel.tile.is_empty() && KernelKey { tile: "".into(), ..offer.kernel.clone() } == *kernel
        };
        // Of one that says its tile there is one: the other solvers are not asked when it is found.
        let named_so =
            self.asked_for(kernel).filter_map(|solver| solver.offers_named(spec, &self.machine, kernel).ok());
        let offers = named_so.flat_map(|offers| {
            let kept = offers.into_iter().filter(named).map(|offer| self.on_threads(offer));
            kept.collect::<Vec<_>>()
        });
        if !kernel.tile.is_empty() {
            let mut offers = offers;
            return offers.next();
        }
        offers.min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns))
    }

    /// Why no solver has that offer, where one tells. A platform that is absent tells nothing, unless it was asked for.
    pub(crate) fn why_not(&self, spec: &Spec, kernel: &KernelKey) -> Option<Refusal> {
        let absent = |solver: &dyn Solver| {
            solver.platform() == Platform::Cuda && self.platform == Platform::Auto && self.machine.devices().is_empty()
        };
        let mut present = self.asked_for(kernel).filter(|solver| !absent(*solver));
        present.find_map(|solver| solver.offers_named(spec, &self.machine, kernel).err())
    }

    /// The solvers that a kernel's name asks.
    fn asked_for(&self, kernel: &KernelKey) -> impl Iterator<Item = &'static dyn Solver> {
        let method = Method::of(kernel);
        SOLVERS.iter().copied().filter(move |solver| self.asks(*solver) && solver.method() == method)
    }

    /// The kernels that this planner may take for a spec, those that only a name asks for among them.
    pub fn offered(&self, spec: &Spec) -> Vec<KernelKey> {
        self.offers(spec).into_iter().map(|offer| offer.kernel).collect()
    }

    /// What the solvers that are asked offer for a spec.
    fn offers(&self, spec: &Spec) -> Vec<Offer> {
        let asked = SOLVERS.iter().filter(|solver| self.asks(**solver));
        let offers = asked.filter_map(|solver| solver.offers(spec, &self.machine).ok()).flatten();
        offers.map(|offer| self.on_threads(offer)).collect()
    }

    /// Under which name wisdom keeps what this planner measures: the machine's, and which offers alone were timed, if
    /// not all were, for their best is not the best of all. None under a memory limit, which leaves out offers too.
    pub(crate) fn known_as(&self) -> Option<String> {
        if self.memory_limit.is_some() {
            return None;
        }
        let mut name = self.machine.fingerprint();
        if self.platform != Platform::Auto && !self.machine.devices().is_empty() {
            name.push_str(&format!("{ONLY}platform={}", self.platform));
        }
        if self.method != Method::Auto {
            name.push_str(&format!("{ONLY}method={}", self.method));
        }
        Some(name)
    }

    /// An offer with the time that it is estimated to take on this planner's threads.
    pub(crate) fn on_threads(&self, offer: Offer) -> Offer {
        Offer { estimate_ns: offer.work.ns_on(self.machine.costs(), self.threads), ..offer }
    }

    pub(crate) fn asks(&self, solver: &dyn Solver) -> bool {
        (self.platform == Platform::Auto || self.platform == solver.platform())
            && (self.method == Method::Auto || self.method == solver.method() || solver.method() == Method::Auto)
    }

    /// Threads that share pairs of images and templates, as many as the memory limit allows: each has a template bound.
    pub(crate) fn pair_workers(&self, spec: &Spec, execute: &dyn Execute) -> usize {
        let most = if spec.images() == 0 { self.threads } else { self.threads.min(spec.images()) };
        (1..=most.max(1))
            .rev()
            .find(|&workers| self.memory_limit.is_none_or(|limit| execute.held_bytes(workers, workers) <= limit))
            .unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wisdom_is_of_one_version_and_one_code() {
        let (version, code) = SOURCE.rsplit_once('-').unwrap();
        assert_eq!(version, concat!("flcc-", env!("CARGO_PKG_VERSION")));
        assert!(code.len() == 16 && u64::from_str_radix(code, 16).is_ok_and(|hash| hash != 0), "{code}");
    }
}
