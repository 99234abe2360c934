//! Processes that are forked while other threads of their parent are in calls.
//!
//! A child has the thread that forked and none of the others. What they held stays locked in it, and what they were
//! making is never made. So a fork waits until nobody plans; what runs goes on, and a child makes anew what a run of
//! another thread may have left behind. State that only threads attached to the interpreter lock, and never while
//! Python is called, needs neither. The thread that forks holds the interpreter's lock. A build of Python without one
//! stops all other attached threads first, each where it calls Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{claims, gate, planning};

#[pyfunction]
fn close(py: Python<'_>) {
    py.detach(gate::close);
}

#[pyfunction]
fn open() {
    gate::open();
}

/// In the child no call runs.
#[pyfunction]
fn open_in_child(py: Python<'_>) {
    claims::forget();
    planning::forget_scratch(py);
    gate::open_in_child();
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
