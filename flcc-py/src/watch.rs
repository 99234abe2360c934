//! Runs that leave the interpreter free: other threads of Python go on, Ctrl-C stops the run, progress is told.
//!
//! Python is only ever called by the thread that called. A short run is computed by that thread; while a long one is
//! computed by another, it looks for signals and tells the progress twenty times a second.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flcc_runtime::{CancelToken, Control, ExecError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{Names, wrong_type};

/// What takes longer than this by estimate is watched.
const LONG_NS: f64 = 2e7;
/// How often signals are looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// What is told how far a run is: a function of `(done, total)`, or a bar as tqdm's.
pub enum Progress<'py> {
    /// Called with both numbers.
    Function(Bound<'py, PyAny>),
    /// Its `total` is set, and its `update` called with what was added.
    Bar(Bound<'py, PyAny>),
}

impl<'py> Progress<'py> {
    /// What was given as `progress`.
    pub fn new(given: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Progress<'py>>> {
        let Some(given) = given else { return Ok(None) };
        if given.hasattr(intern!(given.py(), "update"))? && given.hasattr(intern!(given.py(), "total"))? {
            return Ok(Some(Progress::Bar(given.clone())));
        }
        if given.is_callable() {
            return Ok(Some(Progress::Function(given.clone())));
        }
        let got = given.get_type().name()?.to_string();
        Err(wrong_type("progress", "a function of (done, total), or a bar with total and update()", &got))
    }

    fn tell(&self, before: usize, (done, total): (usize, usize)) -> PyResult<()> {
        match self {
            Progress::Function(function) => {
                function.call1((done, total))?;
            }
            Progress::Bar(bar) => {
                bar.setattr(intern!(bar.py(), "total"), total)?;
                bar.call_method1(intern!(bar.py(), "update"), (done.saturating_sub(before),))?;
            }
        }
        Ok(())
    }
}

/// Runs `work` without the interpreter. `estimate` is about how many nanoseconds it takes.
pub fn run<R: Send>(
    py: Python<'_>,
    names: Names,
    estimate: f64,
    progress: Option<&Progress<'_>>,
    work: impl FnOnce(&Control<'_>) -> Result<R, ExecError> + Send,
) -> PyResult<R> {
    if progress.is_none() && estimate < LONG_NS {
        return py.detach(|| caught(|| work(&Control::default())))?.map_err(|error| names.exec(error));
    }
    let token = CancelToken::new();
    let far: Mutex<Option<(usize, usize)>> = Mutex::new(None);
    let tell = |done: usize, total: usize| {
        let mut far = far.lock().unwrap_or_else(PoisonError::into_inner);
        // Workers come here in any order.
        let before = far.filter(|before| before.1 == total).map_or(0, |before| before.0);
        *far = Some((done.max(before), total));
    };
    let control = Control { progress: Some(&tell), cancel: Some(&token), ..Control::default() };
    let mut told = (0, 0);
    let mut look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let now = *far.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(progress), Some(now)) = (progress, now.filter(|now| *now != told)) {
            progress.tell(told.0, now)?;
            told = now;
        }
        Ok(())
    };
    let (ended, end) = (Mutex::new(false), Condvar::new());
    let (work, result) = (Mutex::new(Some(work)), Mutex::new(None));
    let mut stopped = None;
    let run = || {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let done = work.map(|work| caught(|| work(&control)));
        *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        end.notify_all();
    };
    let pause = || {
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        *end.wait_timeout_while(ended, PAUSE, |ended| !*ended).unwrap_or_else(PoisonError::into_inner).0
    };
    thread::scope(|scope| {
        if thread::Builder::new().name("flcc".into()).spawn_scoped(scope, run).is_err() {
            // The system has no thread left: this one computes, and looks when that has ended.
            return py.detach(run);
        }
        while !py.detach(pause) {
            if stopped.is_none()
                && let Err(error) = look(py)
            {
                token.cancel();
                stopped = Some(error);
            }
        }
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    let result = result.ok_or_else(|| PyRuntimeError::new_err("a run ended without a result"))?;
    let result = result?.map_err(|error| names.exec(error))?;
    look(py)?;
    Ok(result)
}

/// What a panic says, as an error: none leaves this crate.
fn caught<R>(work: impl FnOnce() -> R) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        PyRuntimeError::new_err(format!(
            "flcc failed in a way that is a mistake of its own: {}",
            text.unwrap_or_else(|| "no words".into())
        ))
    })
}
