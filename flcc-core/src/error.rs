//! Errors that carry their evidence: which argument, what was expected, what came.

use thiserror::Error;

/// What kind of mistake it is, for programs; the names are those of the conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value out of range or a text that does not parse.
    Invalid,
    /// An image or a template without samples.
    EmptyInput,
    /// Image and template have different numbers of axes, or an array is not of the planned shape.
    DimsMismatch,
    /// Mode valid and an axis on which the template is longer than the image.
    TemplateLargerThanImage,
    /// zncc of a template whose samples (where the mask is positive) are all equal.
    ConstantTemplate,
    /// ncc or nssd of a template that is zero wherever the mask is positive.
    ZeroTemplate,
    /// A matching template that holds NaN or an infinity.
    NonfiniteTemplate,
    /// A mask whose shape is not the template's.
    MaskShape,
    /// A mask with a negative or non-finite weight, or with no positive one.
    MaskInvalid,
    /// What accuracy `exact` cannot be given for.
    NotExact,
}

/// A wrong call: `argument: expected ..., got ...`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{argument}: expected {expected}, got {got}")]
pub struct SpecError {
    /// The kind, for programs.
    pub kind: Kind,
    /// The argument that is wrong.
    pub argument: String,
    /// What would have been right.
    pub expected: String,
    /// What came.
    pub got: String,
}

impl SpecError {
    /// An invalid value or text.
    pub fn new(argument: impl Into<String>, expected: impl Into<String>, got: impl ToString) -> SpecError {
        SpecError::of(Kind::Invalid, argument, expected, got)
    }

    /// An error of a given kind.
    pub fn of(kind: Kind, argument: impl Into<String>, expected: impl Into<String>, got: impl ToString) -> SpecError {
        SpecError { kind, argument: argument.into(), expected: expected.into(), got: one_line(&got.to_string()) }
    }
}

/// A message stays on one line and of a readable length, whatever a user typed.
fn one_line(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(160).collect();
    if text.chars().count() > 160 {
        line.push_str("...");
    }
    if line.is_empty() { "nothing".into() } else { line }
}

/// A number of things in words: `1 image`, `3 images`. `one`: the word for one of them, whose plural ends in s.
pub fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Why a solver does not serve a spec here: a reason, not a failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{solver} refuses: {reason}")]
pub struct Refusal {
    /// The solver.
    pub solver: String,
    /// Its reason.
    pub reason: String,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(solver: impl Into<String>, reason: impl Into<String>) -> Refusal {
        Refusal { solver: solver.into(), reason: reason.into() }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The call was wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The forced method or platform does not serve the spec.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No plan fits the memory limit.
    #[error("memory limit: expected at least {needed} bytes for this spec, got {limit}")]
    Memory {
        /// The smallest limit that some plan of this spec would meet.
        needed: usize,
        /// The limit given.
        limit: usize,
    },
}

/// Why an execution did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExecError {
    /// An array that the plan was not made for, or a template that cannot be matched.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Planning for an image of another size failed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A device failed: it is out of memory, lost, or does not take a kernel.
    #[error("device: {what}: {reason}")]
    Device {
        /// What was asked of it.
        what: String,
        /// What it said.
        reason: String,
    },
    /// The cancel token was used; what was written so far is unspecified.
    #[error("cancelled: {done} of {total} tiles were done")]
    Cancelled {
        /// Tiles finished before the stop.
        done: usize,
        /// All tiles.
        total: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let error = SpecError::new("mode", "full, same or valid", "fu\nll");
        assert_eq!(error.to_string(), "mode: expected full, same or valid, got fu ll");
        assert!(SpecError::new("spec", "x", "y".repeat(10_000)).to_string().len() < 200);
    }
}
