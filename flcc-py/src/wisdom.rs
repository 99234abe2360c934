//! What timing has taught, to and from files.

use std::path::PathBuf;

use flcc_runtime::Wisdom;
use flcc_runtime::wisdom::WisdomError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::arguments;
use crate::errors::MATCHING;
use crate::planning;

fn failed(error: WisdomError) -> PyErr {
    match error {
        WisdomError::Line { .. } => PyValueError::new_err(error.to_string()),
        WisdomError::File { .. } => PyOSError::new_err(error.to_string()),
    }
}

/// Takes over what a file of wisdom says, for all later plans and calls.
///
/// Files are those of ``export_wisdom`` and of the command ``flcc plan``. Of two timings of one problem the smaller
/// stays.
#[pyfunction]
pub fn import_wisdom(py: Python<'_>, #[pyo3(from_py_with = arguments::file)] file: PathBuf) -> PyResult<()> {
    let known = py.detach(|| Wisdom::load(&file)).map_err(failed)?;
    planning::learn(py, |wisdom| wisdom.merge(known)).map_err(|error| MATCHING.spec(error))
}

/// What plans of effort measure and patient have learnt, as text; with a file it is also written there, beside what the
/// file holds.
///
/// Examples
/// --------
/// >>> import flcc
/// >>> print(flcc.export_wisdom().splitlines()[0])
/// flcc-wisdom 2
#[pyfunction]
#[pyo3(signature = (file = None))]
pub fn export_wisdom(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::optional::file)] file: Option<PathBuf>,
) -> PyResult<String> {
    let known = planning::learnt(py).map_err(|error| MATCHING.spec(error))?;
    if let Some(file) = file {
        py.detach(|| Wisdom::update(&file, |wisdom| wisdom.merge(known.clone()))).map_err(failed)?;
    }
    Ok(known.to_text())
}

/// Forgets what has been learnt or imported.
#[pyfunction]
pub fn forget_wisdom(py: Python<'_>) -> PyResult<()> {
    planning::learn(py, |wisdom| *wisdom = Wisdom::new()).map_err(|error| MATCHING.spec(error))
}
