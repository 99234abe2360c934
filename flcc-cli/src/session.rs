//! What the commands share: the planner that the options describe, wisdom read and written, a progress bar.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use flcc_runtime::account::Outcome;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::rooms::files;
use flcc_runtime::{Accuracy, Effort, Plan, Planner, Platform, Spec, SpecError, Wisdom};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Planning;
use crate::error::Error;

/// The environment variable that names the wisdom file.
pub const WISDOM_VARIABLE: &str = "FLCC_WISDOM";

/// A planner, and where its wisdom is kept.
pub struct Session {
    /// The planner that the options describe.
    pub planner: Planner,
    /// The threads that were asked for; 0 for as many as there are cores.
    pub threads: usize,
    effort: Effort,
    file: Option<(&'static str, PathBuf)>,
    known: Wisdom,
    /// Whether GPUs were asked for.
    cuda: bool,
    /// What was told of failures.
    told: Mutex<BTreeSet<String>>,
}

/// The wisdom file that the options or the environment name, behind the name of that which does. No folder is made for
/// it: a name mistyped is told.
///
/// # Errors
/// A file in a folder that is not there.
pub fn wisdom_file(planning: &Planning) -> Result<Option<(&'static str, PathBuf)>, Error> {
    let variable = || std::env::var_os(WISDOM_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let file = match &planning.wisdom {
        Some(file) => Some(("--wisdom", file.clone())),
        None => variable().map(|file| (WISDOM_VARIABLE, file)),
    };
    if let Some((argument, file)) = &file
        && let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(Error::Failed(format!(
            "{argument} {file:?}: expected a file in a folder that is there, got no folder {folder:?}"
        )));
    }
    Ok(file)
}

/// Refuses wisdom that would be no file any more when it is written: what is there is replaced.
///
/// # Errors
/// A folder, a pipe, a device.
pub fn check_wisdom(argument: &str, file: &Path) -> Result<(), Error> {
    match std::fs::metadata(file) {
        Ok(meta) if !meta.is_file() => {
            Err(Error::Failed(format!("{argument} {file:?}: expected a file, or none yet, got {}", files::kind(&meta))))
        }
        _ => Ok(()),
    }
}

impl Session {
    /// Reads the wisdom, if there is any, and makes the planner. `fall_back` says whether the CPU computes what GPUs
    /// fail at, and everything where there is none.
    ///
    /// # Errors
    /// Wisdom that is damaged, no file or in no folder, `FLCC_ISA` that names no instruction set; devices that are not
    /// there.
    pub fn new(planning: &Planning, effort: Effort, fall_back: bool) -> Result<Session, Error> {
        let file = wisdom_file(planning)?;
        let known = match &file {
            Some((argument, file)) if file.exists() => {
                check_wisdom(argument, file)?;
                Wisdom::load(file).map_err(Error::wisdom(argument))?
            }
            _ => Wisdom::new(),
        };
        let effort = planning.effort.unwrap_or(effort);
        let mut planner = Planner::new()?.fall_back(fall_back);
        let mut absent = None;
        if !planning.devices.is_empty() {
            let machine = flcc_runtime::cuda::with_devices(planner.machine().clone());
            if fall_back && machine.devices().is_empty() {
                absent = Some(machine.cuda().to_string());
            } else {
                let named = |error| SpecError { argument: "--devices".into(), ..error };
                planner = planner.devices(&planning.devices).map_err(named)?;
            }
        }
        if planning.platform == Platform::Auto && effort != Effort::Estimate {
            // Who has time to measure has time to look for a GPU: the best plan may be there.
            planner = planner.platform(Platform::Cuda);
        }
        let planner = planner
            .effort(effort)
            .threads(planning.threads)
            .memory_limit(planning.memory_limit.map(|bytes| bytes.0))
            .platform(planning.platform)
            .method(planning.method)
            .kernel(planning.kernel.clone())
            .wisdom(known.clone());
        let cuda = planning.platform == Platform::Cuda;
        let threads = planning.threads;
        let session = Session { planner, threads, effort, file, known, cuda, told: Mutex::default() };
        if let Some(about) = absent {
            session.note(&format!("{about}; the CPU goes on"));
        }
        Ok(session)
    }

    /// A plan for a spec; where the CPU takes it over from the GPUs that were asked for, that is told.
    ///
    /// # Errors
    /// No plan.
    pub fn plan(&self, spec: &Spec) -> Result<Plan, Error> {
        let plan = self.planner.plan(spec)?;
        let machine = self.planner.machine();
        if self.cuda && plan.platform() == Platform::Cpu && machine.devices().is_empty() {
            self.note(&format!("{}; the CPU goes on", machine.cuda()));
        } else if self.cuda && plan.platform() == Platform::Cpu {
            for candidate in plan.candidates() {
                // A kernel that refuses, and not its solver, is one that the device did not take.
                if let (Outcome::Refused(reason), Ok(_)) = (&candidate.outcome, candidate.kernel.parse::<KernelKey>()) {
                    self.note(&format!("{reason}; the CPU goes on"));
                }
            }
        }
        Ok(plan)
    }

    /// Tells a failure that does not end the command on standard error, once.
    pub fn note(&self, words: &str) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(words.to_string()) {
            // Nobody may be listening; then there is nobody to tell that.
            let _ = writeln!(std::io::stderr(), "note: {words}");
        }
    }

    /// Whether GPUs were asked for by platform.
    pub fn asks_for_gpus(&self) -> bool {
        self.cuda
    }

    /// Whether plans are measured, on made-up data of their size.
    pub fn measures(&self) -> bool {
        self.effort != Effort::Estimate
    }

    /// Adds what was learnt by measuring to the file that is named for it, if one is, and to what others added to it
    /// meanwhile.
    ///
    /// # Errors
    /// A file that is not written.
    pub fn keep_wisdom(&self) -> Result<(), Error> {
        let Some((argument, file)) = &self.file else {
            return Ok(());
        };
        if self.effort == Effort::Estimate {
            return Ok(());
        }
        let learnt = self.planner.learnt();
        if learnt != self.known || !file.exists() {
            Wisdom::update(file, |there| there.follow(&self.known, learnt)).map_err(Error::wisdom(argument))?;
        }
        Ok(())
    }
}

/// A spec with the options that override it.
///
/// # Errors
/// Options that do not go with the spec.
pub fn override_spec(spec: &Spec, planning: &Planning) -> Result<Spec, Error> {
    let mut spec = spec.clone();
    if let Some(precision) = planning.precision {
        spec = spec.with_out_type(precision.0)?;
    }
    if let Some(accuracy) = planning.accuracy {
        spec = spec.with_accuracy(accuracy)?;
    }
    Ok(spec)
}

/// The accuracy that the options ask for.
pub fn accuracy(planning: &Planning) -> Accuracy {
    planning.accuracy.unwrap_or_default()
}

/// How long work goes on before it is worth a bar.
const SILENCE: Duration = Duration::from_secs(1);

/// A bar on standard error, if that is a terminal and the work lasts longer than a second.
pub struct Progress {
    began: Instant,
    shown: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Begins to count time.
    pub fn new() -> Progress {
        Progress { began: Instant::now(), shown: std::io::stderr().is_terminal(), bar: OnceLock::new() }
    }

    /// So many of all tiles are done.
    pub fn tell(&self, done: usize, total: usize) {
        if !self.shown || self.began.elapsed() < SILENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{wide_bar} {percent:>3}% {eta} left") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
