//! The Python package flcc: arrays in and out, nothing computed here.
//!
//! Results, conventions and errors are those of flcc-runtime. What stands here reads arrays, plans, lets the
//! interpreter go while the library computes, and makes arrays of what comes.

mod arguments;
mod arrays;
mod calls;
mod claims;
mod errors;
mod find;
mod foreign;
mod fork;
mod found;
mod gate;
mod masked;
mod plan;
mod planning;
mod posed;
mod problem;
mod queue;
mod regions;
mod resident;
mod results;
mod types;
mod watch;
mod wisdom;

/// What the package imports. Nothing in it relies on the interpreter's lock, so builds of Python without one keep it
/// off.
#[pyo3::pymodule(gil_used = false)]
mod _flcc {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::calls::{block_lengths, convolve, correlate, correlation_lags, match_block, match_template};
    #[pymodule_export]
    use crate::find::find;
    #[pymodule_export]
    use crate::found::{exclusive_among, peaks, peaks_from};
    #[pymodule_export]
    use crate::plan::{Matcher, Plan, Stream, plan, unpickled_matcher, unpickled_plan};
    #[pymodule_export]
    use crate::posed::{find_posed, fine_angle};
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::wisdom::{export_wisdom, forget_wisdom, import_wisdom};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // What stands for the code: other code may round otherwise under the same kernel's name.
        module.add("_source", flcc_runtime::rooms::plan::settings::SOURCE)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::fork::watch(module.py())
    }
}
