//! What the process knows of kernels and their times: every plan asks it and adds to it.

use std::sync::{Mutex, PoisonError};

use flcc_runtime::Wisdom;

static KNOWN: Mutex<Option<Wisdom>> = Mutex::new(None);

/// Looks at what is known, or changes it.
pub(crate) fn with<T>(look: impl FnOnce(&mut Wisdom) -> T) -> T {
    look(KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Wisdom::new))
}
