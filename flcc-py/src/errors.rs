//! Errors of the library as exceptions: which argument, what was expected, what came.

use flcc_runtime::{ExecError, PlanError, Refusal, SpecError};
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};

/// What the two arrays of a call are called in it.
#[derive(Clone, Copy)]
pub struct Names {
    /// The library's `image`.
    pub image: &'static str,
    /// The library's `template`.
    pub template: &'static str,
}

/// The keyword arguments of matching.
pub const MATCHING: Names = Names { image: "image", template: "template" };
/// The keyword arguments of convolution and correlation.
pub const FILTERING: Names = Names { image: "in1", template: "in2" };

impl Names {
    /// A wrong call: `ValueError`, by the argument's name in this call.
    pub fn spec(self, error: SpecError) -> PyErr {
        let own = match error.argument.as_str() {
            "image" | "samples" => self.image,
            "template" => self.template,
            "platform" | "devices" => "device",
            "output type" => "dtype",
            "angle" => "angles",
            "scale" => "scales",
            "pose" | "poses" => "angles and scales",
            other => return value(other, &error.expected, &error.got),
        };
        value(own, &error.expected, &error.got)
    }

    /// Why there is no plan.
    pub fn plan(self, error: PlanError) -> PyErr {
        match error {
            PlanError::Spec(error) => self.spec(error),
            PlanError::Refused(Refusal { solver, reason }) => {
                let argument = if solver.starts_with("cuda") { "device" } else { "method" };
                value(argument, "one that serves this problem", &format!("{solver}, which refuses: {reason}"))
            }
            PlanError::Memory { needed, limit } => {
                PyMemoryError::new_err(format!("memory_limit: expected at least {needed} bytes, got {limit}"))
            }
        }
    }

    /// Why an execution did not finish.
    pub fn exec(self, error: ExecError) -> PyErr {
        match error {
            ExecError::Spec(error) => self.spec(error),
            ExecError::Plan(error) => self.plan(error),
            other => PyRuntimeError::new_err(other.to_string()),
        }
    }
}

/// A wrong value.
pub fn value(argument: &str, expected: &str, got: &str) -> PyErr {
    PyValueError::new_err(format!("{argument}: expected {expected}, got {got}"))
}

/// A wrong type.
pub fn wrong_type(argument: &str, expected: &str, got: &str) -> PyErr {
    PyTypeError::new_err(format!("{argument}: expected {expected}, got {got}"))
}
