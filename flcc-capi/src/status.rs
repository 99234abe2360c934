//! What a call answers: a code, and for people a message that the thread keeps.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use flcc_core::error::{ExecError, Kind, PlanError, SpecError};
use flcc_runtime::wisdom::WisdomError;

/// What a function with the prefix `flcc_` answers. The numbers stay as they are; later versions add some at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum flcc_status {
    /// Done.
    FLCC_OK = 0,
    /// A pointer is null that must not be.
    FLCC_ERROR_NULL = 1,
    /// A plan or a matcher that this library has not made, or that was destroyed.
    FLCC_ERROR_HANDLE = 2,
    /// A value out of range, a text that does not parse, strides that leave memory, arrays that overlap.
    FLCC_ERROR_INVALID = 3,
    /// An image or a template without samples.
    FLCC_ERROR_EMPTY_INPUT = 4,
    /// Image and template have different numbers of axes, or the number of images is not the spec's.
    FLCC_ERROR_DIMS_MISMATCH = 5,
    /// Mode valid, and the template is longer than the image on an axis.
    FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE = 6,
    /// zncc of a template whose samples (where the mask is positive) are all equal.
    FLCC_ERROR_CONSTANT_TEMPLATE = 7,
    /// ncc or nssd of a template that is zero wherever the mask is positive.
    FLCC_ERROR_ZERO_TEMPLATE = 8,
    /// A template to be matched holds NaN or an infinity.
    FLCC_ERROR_NONFINITE_TEMPLATE = 9,
    /// A mask whose shape is not the template's.
    FLCC_ERROR_MASK_SHAPE = 10,
    /// A mask with a weight that is negative or not finite, with none that is positive, or with others than 0 and 1
    /// where the spec says `mask01`.
    FLCC_ERROR_MASK_INVALID = 11,
    /// What accuracy `exact` cannot be given for.
    FLCC_ERROR_NOT_EXACT = 12,
    /// The method or the platform that was asked for does not serve the spec here, or there is no GPU.
    FLCC_ERROR_REFUSED = 13,
    /// No plan keeps the memory limit.
    FLCC_ERROR_MEMORY_LIMIT = 14,
    /// There is no memory for it.
    FLCC_ERROR_NO_MEMORY = 15,
    /// A GPU failed.
    FLCC_ERROR_DEVICE = 16,
    /// A file cannot be read or written.
    FLCC_ERROR_FILE = 17,
    /// An error of the library itself.
    FLCC_ERROR_INTERNAL = 18,
}

use flcc_status::*;

/// Every status, in the order of their numbers.
const ALL: [flcc_status; 19] = [
    FLCC_OK,
    FLCC_ERROR_NULL,
    FLCC_ERROR_HANDLE,
    FLCC_ERROR_INVALID,
    FLCC_ERROR_EMPTY_INPUT,
    FLCC_ERROR_DIMS_MISMATCH,
    FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE,
    FLCC_ERROR_CONSTANT_TEMPLATE,
    FLCC_ERROR_ZERO_TEMPLATE,
    FLCC_ERROR_NONFINITE_TEMPLATE,
    FLCC_ERROR_MASK_SHAPE,
    FLCC_ERROR_MASK_INVALID,
    FLCC_ERROR_NOT_EXACT,
    FLCC_ERROR_REFUSED,
    FLCC_ERROR_MEMORY_LIMIT,
    FLCC_ERROR_NO_MEMORY,
    FLCC_ERROR_DEVICE,
    FLCC_ERROR_FILE,
    FLCC_ERROR_INTERNAL,
];

impl flcc_status {
    fn name(self) -> &'static CStr {
        match self {
            FLCC_OK => c"ok",
            FLCC_ERROR_NULL => c"null pointer",
            FLCC_ERROR_HANDLE => c"not a plan or matcher, or a destroyed one",
            FLCC_ERROR_INVALID => c"invalid argument",
            FLCC_ERROR_EMPTY_INPUT => c"empty input",
            FLCC_ERROR_DIMS_MISMATCH => c"dimensions do not match",
            FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE => c"template larger than image",
            FLCC_ERROR_CONSTANT_TEMPLATE => c"constant template",
            FLCC_ERROR_ZERO_TEMPLATE => c"zero template",
            FLCC_ERROR_NONFINITE_TEMPLATE => c"template not finite",
            FLCC_ERROR_MASK_SHAPE => c"shape of the mask",
            FLCC_ERROR_MASK_INVALID => c"invalid mask",
            FLCC_ERROR_NOT_EXACT => c"no exact form",
            FLCC_ERROR_REFUSED => c"refused",
            FLCC_ERROR_MEMORY_LIMIT => c"memory limit",
            FLCC_ERROR_NO_MEMORY => c"no memory",
            FLCC_ERROR_DEVICE => c"device failed",
            FLCC_ERROR_FILE => c"file",
            FLCC_ERROR_INTERNAL => c"internal error",
        }
    }
}

/// Why a call was not done.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub status: flcc_status,
    pub message: String,
}

impl Failure {
    pub fn new(status: flcc_status, argument: &str, expected: impl Into<String>, got: impl ToString) -> Failure {
        Failure { status, message: SpecError::new(argument, expected, got).to_string() }
    }

    pub fn invalid(argument: &str, expected: impl Into<String>, got: impl ToString) -> Failure {
        Failure::new(FLCC_ERROR_INVALID, argument, expected, got)
    }

    pub fn null(argument: &str, expected: &str) -> Failure {
        Failure::new(FLCC_ERROR_NULL, argument, expected, "a null pointer")
    }

    pub fn handle(argument: &str) -> Failure {
        let expected = format!("a {argument} that was made and not destroyed");
        Failure::new(FLCC_ERROR_HANDLE, argument, expected, "something else")
    }
}

fn status_of(kind: Kind) -> flcc_status {
    match kind {
        Kind::Invalid => FLCC_ERROR_INVALID,
        Kind::EmptyInput => FLCC_ERROR_EMPTY_INPUT,
        Kind::DimsMismatch => FLCC_ERROR_DIMS_MISMATCH,
        Kind::TemplateLargerThanImage => FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE,
        Kind::ConstantTemplate => FLCC_ERROR_CONSTANT_TEMPLATE,
        Kind::ZeroTemplate => FLCC_ERROR_ZERO_TEMPLATE,
        Kind::NonfiniteTemplate => FLCC_ERROR_NONFINITE_TEMPLATE,
        Kind::MaskShape => FLCC_ERROR_MASK_SHAPE,
        Kind::MaskInvalid => FLCC_ERROR_MASK_INVALID,
        Kind::NotExact => FLCC_ERROR_NOT_EXACT,
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        Failure { status: status_of(error.kind), message: error.to_string() }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        let status = match &error {
            PlanError::Spec(error) => status_of(error.kind),
            PlanError::Refused(_) => FLCC_ERROR_REFUSED,
            PlanError::Memory { .. } => FLCC_ERROR_MEMORY_LIMIT,
        };
        Failure { status, message: error.to_string() }
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Failure {
        match error {
            ExecError::Spec(error) => error.into(),
            ExecError::Plan(error) => error.into(),
            ExecError::Device { .. } => Failure { status: FLCC_ERROR_DEVICE, message: error.to_string() },
            // Nothing here hands a token out.
            ExecError::Cancelled { .. } => Failure { status: FLCC_ERROR_INTERNAL, message: error.to_string() },
        }
    }
}

impl From<WisdomError> for Failure {
    fn from(error: WisdomError) -> Failure {
        let status = match &error {
            WisdomError::Line { .. } => FLCC_ERROR_INVALID,
            WisdomError::File { .. } => FLCC_ERROR_FILE,
        };
        Failure { status, message: error.to_string() }
    }
}

thread_local! {
    /// The message of the last call of this thread that failed.
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Keeps a message for [`flcc_last_error`].
fn tell(message: &str) {
    let message = CString::new(message.replace('\0', " ")).ok();
    // A thread that is ending keeps nothing any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = message);
}

/// Where the message lies that [`tell`] kept last on this thread, until it keeps another.
pub(crate) fn told() -> *const c_char {
    let kept = LAST.try_with(|last| last.borrow().as_ref().map(|message| message.as_ptr()));
    kept.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The words for a number, where it is one of a status.
pub(crate) fn text_of(number: i32) -> &'static CStr {
    let known = ALL.into_iter().find(|status| *status as i32 == number);
    known.map_or(c"no status of this library", flcc_status::name)
}

/// Runs what a call does. A failure is told; a panic is one, and stays inside.
pub(crate) fn guard<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, flcc_status> {
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = format!("an error of the library: {}", words(panic.as_ref()));
        Err(Failure { status: FLCC_ERROR_INTERNAL, message })
    });
    outcome.map_err(|failure| {
        tell(&failure.message);
        failure.status
    })
}

/// The status of what a call does.
pub(crate) fn status(run: impl FnOnce() -> Result<(), Failure>) -> flcc_status {
    match guard(run) {
        Ok(()) => FLCC_OK,
        Err(status) => status,
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(status(|| panic!("no {}", 7)), FLCC_ERROR_INTERNAL);
        let kept = LAST.with(|last| last.borrow().clone());
        assert_eq!(kept.unwrap().to_str(), Ok("an error of the library: no 7"));
        assert_eq!(status(|| std::panic::panic_any(7)), FLCC_ERROR_INTERNAL);
        assert_eq!(status(|| Ok(())), FLCC_OK);
    }

    #[test]
    fn every_number_has_its_words() {
        for (number, status) in (0..).zip(ALL) {
            assert_eq!((status as i32, text_of(number)), (number, status.name()));
        }
    }
}
