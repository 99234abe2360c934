//! Processes that are forked while other threads of their parent are in calls.
//!
//! A child has the thread that forked and none of the others. What they held stays locked in it, and what they were
//! making is never made. So a fork waits until nobody plans, which shares locks with all plans of a process; what runs
//! goes on, and a child makes anew what a run of another thread may have left behind. State that is locked by who holds
//! the interpreter alone needs neither: who forks holds it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::claims;
use crate::planning;

/// Who plans, and who waits until nobody does.
struct Gate {
    planning: usize,
    forking: usize,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { planning: 0, forking: 0 });
static CHANGED: Condvar = Condvar::new();
/// How many forks lie between this process and the first.
static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The gate, closed while this thread forks.
    static CLOSED: RefCell<Option<MutexGuard<'static, Gate>>> = const { RefCell::new(None) };
}

fn gate() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between this process and the first.
pub fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// What no fork interrupts: plans are made in it. To be called without the interpreter.
pub fn planning<R>(work: impl FnOnce() -> R) -> R {
    struct Inside;

    impl Drop for Inside {
        fn drop(&mut self) {
            gate().planning -= 1;
            CHANGED.notify_all();
        }
    }

    let open = CHANGED.wait_while(gate(), |gate| gate.forking > 0);
    open.unwrap_or_else(PoisonError::into_inner).planning += 1;
    let _inside = Inside;
    work()
}

/// Closes the gate until `opened`, when nobody is in it.
#[pyfunction]
fn close(py: Python<'_>) {
    py.detach(|| {
        let mut gate = gate();
        gate.forking += 1;
        let mut gate = CHANGED.wait_while(gate, |gate| gate.planning > 0).unwrap_or_else(PoisonError::into_inner);
        gate.forking -= 1;
        CLOSED.set(Some(gate));
    });
}

/// Opens it in the parent.
#[pyfunction]
fn open() {
    CLOSED.set(None);
    CHANGED.notify_all();
}

/// Opens it in the child, where no other thread waits and no call runs.
#[pyfunction]
fn open_in_child(py: Python<'_>) {
    FORKS.fetch_add(1, Ordering::Relaxed);
    claims::forget();
    planning::forget_scratch(py);
    if let Some(mut gate) = CLOSED.take() {
        *gate = Gate { planning: 0, forking: 0 };
    }
}

/// Asks Python to call these around its forks, where it has any.
pub fn watch(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let hooks = PyDict::new(py);
    hooks.set_item("before", wrap_pyfunction!(close, py)?)?;
    hooks.set_item("after_in_parent", wrap_pyfunction!(open, py)?)?;
    hooks.set_item("after_in_child", wrap_pyfunction!(open_in_child, py)?)?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
