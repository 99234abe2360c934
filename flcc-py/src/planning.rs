//! The planner that all calls share, with what it has learnt and the plans made lately.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_runtime::account::Outcome;
use flcc_runtime::{Effort, Matcher, Method, Plan, PlanError, Planner, Platform, Scratch, Spec, SpecError, Wisdom};
use pyo3::Python;

use crate::gate;

/// How many plans of single calls are kept.
const KEPT: usize = 32;

/// How and where to compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The method, or the planner's choice.
    pub method: Method,
    /// Where.
    pub device: Device,
    /// Threads; 0 for one a core.
    pub threads: usize,
    /// How hard to think.
    pub effort: Effort,
    /// Bytes above images, templates and results.
    pub memory_limit: Option<usize>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The planner chooses.
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU by its number, or the first.
    Cuda(Option<usize>),
}

impl FromStr for Device {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Device, SpecError> {
        let number = text.strip_prefix("cuda:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(Device::Auto),
            ("cpu", _) => Ok(Device::Cpu),
            ("cuda", _) => Ok(Device::Cuda(None)),
            (_, Some(Ok(number))) => Ok(Device::Cuda(Some(number))),
            _ => Err(SpecError::new("device", "auto, cpu, cuda or cuda:NUMBER", text)),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(None) => f.write_str("cuda"),
            Device::Cuda(Some(number)) => write!(f, "cuda:{number}"),
        }
    }
}

impl Settings {
    /// Settings by their words.
    pub fn new(method: &str, device: &str, threads: Option<i64>) -> Result<Settings, SpecError> {
        let count = |threads: i64| {
            usize::try_from(threads).map_err(|_| SpecError::new("threads", "0 (one a core) or more", threads))
        };
        Ok(Settings {
            method: method.parse()?,
            device: device.parse()?,
            threads: threads.map_or(Ok(0), count)?,
            effort: Effort::Estimate,
            memory_limit: None,
        })
    }

    /// The same for arrays that lie on a GPU: there, unless another place is named.
    pub fn on(&self, number: usize) -> Result<Settings, SpecError> {
        match self.device {
            Device::Auto | Device::Cuda(None) => Ok(Settings { device: Device::Cuda(Some(number)), ..self.clone() }),
            Device::Cuda(Some(named)) if named == number => Ok(self.clone()),
            named => {
                let expected = format!("auto, cuda or cuda:{number} for an image on that device");
                Err(SpecError::new("device", expected, named))
            }
        }
    }

    fn planner(&self, shared: Planner) -> Result<Planner, SpecError> {
        let planner =
            shared.method(self.method).threads(self.threads).effort(self.effort).memory_limit(self.memory_limit);
        Ok(match self.device {
            // Who has time to measure has time to look for a GPU.
            Device::Auto if self.effort != Effort::Estimate => {
                planner.platform(Platform::Cuda).platform(Platform::Auto)
            }
            Device::Auto => planner,
            Device::Cpu => planner.platform(Platform::Cpu),
            Device::Cuda(None) => planner.platform(Platform::Cuda),
            Device::Cuda(Some(number)) => planner.devices(&[number])?.platform(Platform::Cuda),
        })
    }
}

/// The most bytes of scratch that is kept from one single call to the next of its plan.
const KEPT_BYTES: usize = 4 << 20;

/// What calls share.
struct Shared {
    planner: Planner,
    plans: Vec<(Settings, Planned)>,
    /// How often something was learnt or forgotten.
    lessons: u64,
}

/// A plan of single calls, with the scratch that the last of them left.
#[derive(Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    spare: Arc<Mutex<Option<Scratch>>>,
}

impl Planned {
    /// Runs a matcher of the plan with scratch that is kept, if it is small, where the plan's own kernel runs.
    pub fn with_scratch<R>(&self, matcher: &Matcher, run: impl FnOnce(&mut Scratch) -> R) -> R {
        let own = matcher.kernel() == self.plan.kernel();
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = if own { spare().take() } else { None };
        let mut scratch = kept.unwrap_or_else(|| matcher.make_scratch());
        let result = run(&mut scratch);
        if own && scratch.bytes() <= KEPT_BYTES {
            *spare() = Some(scratch);
        }
        result
    }
}

/// Locked by threads that are attached to the interpreter alone, and never while Python is called: no other thread has
/// it when a process is forked.
static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

fn with_shared<R>(_py: Python<'_>, what: impl FnOnce(&mut Shared) -> R) -> Result<R, SpecError> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = match &mut *shared {
        Some(shared) => shared,
        none => none.insert(Shared { planner: Planner::new()?, plans: Vec::new(), lessons: 0 }),
    };
    Ok(what(shared))
}

/// The planner of what makes plans of its own.
pub fn planner(py: Python<'_>, settings: &Settings) -> Result<Planner, SpecError> {
    with_shared(py, |shared| settings.planner(shared.planner.clone()))?
}

/// A plan: one made before, or a new one.
pub fn plan(py: Python<'_>, spec: &Spec, settings: &Settings) -> Result<Plan, PlanError> {
    planned(py, spec, settings).map(|planned| planned.plan)
}

/// The same with scratch.
pub fn planned(py: Python<'_>, spec: &Spec, settings: &Settings) -> Result<Planned, PlanError> {
    let known = |shared: &mut Shared| {
        let of = |(own, known): &(Settings, Planned)| own == settings && known.plan.spec() == spec;
        let at = shared.plans.iter().rposition(of)?;
        // The last used stands at the end.
        let entry = shared.plans.remove(at);
        let known = entry.1.clone();
        shared.plans.push(entry);
        Some(known)
    };
    let about = |shared: &mut Shared| (known(shared), shared.planner.clone(), shared.lessons);
    let (known, planner, lessons) = with_shared(py, about)?;
    if let Some(known) = known {
        return Ok(known);
    }
    let plan = py.detach(|| gate::planning(|| settings.planner(planner)?.plan(spec)))?;
    let made = Planned { plan, spare: Arc::default() };
    with_shared(py, |shared| {
        // What was learnt or forgotten meanwhile might have made another plan.
        let current = shared.lessons == lessons;
        if settings.effort != Effort::Estimate {
            shared.lessons += 1;
            shared.plans.retain(|(_, other)| other.plan.spec() != spec);
        }
        if current {
            if shared.plans.len() == KEPT {
                shared.plans.remove(0);
            }
            shared.plans.push((settings.clone(), made.clone()));
        }
    })?;
    Ok(made)
}

/// The plan of a kernel by its name, where the machine offers that.
pub fn plan_by_kernel(
    py: Python<'_>,
    spec: &Spec,
    settings: &Settings,
    kernel: &str,
) -> Result<Option<Plan>, PlanError> {
    let planner = with_shared(py, |shared| shared.planner.clone())?;
    py.detach(|| {
        gate::planning(|| {
            let planner = settings.planner(planner)?;
            Ok(kernel.parse().ok().and_then(|key| planner.plan_with_kernel(spec, &key).ok()))
        })
    })
}

/// What has been learnt.
pub fn learnt(py: Python<'_>) -> Result<Wisdom, SpecError> {
    with_shared(py, |shared| shared.planner.learnt())
}

/// Replaces what has been learnt; plans made before are made again.
pub fn learn(py: Python<'_>, change: impl FnOnce(&mut Wisdom)) -> Result<(), SpecError> {
    with_shared(py, |shared| {
        let mut wisdom = shared.planner.learnt();
        change(&mut wisdom);
        shared.planner = shared.planner.clone().wisdom(wisdom);
        shared.plans.clear();
        shared.lessons += 1;
    })
}

/// Gives kept plans new places for scratch: threads that this process does not have may have locked the old ones.
pub fn forget_scratch(_py: Python<'_>) {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, planned) in shared.iter_mut().flat_map(|shared| &mut shared.plans) {
        planned.spare = Arc::default();
    }
}

/// About how long an execution of a plan takes with one thread, in nanoseconds.
pub fn estimate(plan: &Plan) -> f64 {
    let name = plan.kernel().to_string();
    let chosen = plan.candidates().iter().find(|candidate| candidate.kernel == name);
    chosen
        .and_then(|candidate| match candidate.outcome {
            Outcome::Known(ns) | Outcome::Measured(ns) => Some(ns as f64),
            _ => candidate.estimate_ns,
        })
        .unwrap_or_else(|| plan.spec().direct_operations())
}
