//! Decoders that others wrote, which may panic on what they did not expect.

use super::error::IoError;

/// Runs a decoder. A panic in it is a damaged file, whose line says so; the panic's own line still goes to standard
/// error, so that it can be reported to those who wrote it.
pub fn guarded<T>(name: &str, format: &str, decode: impl FnOnce() -> Result<T, IoError>) -> Result<T, IoError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(IoError::Damaged {
            name: name.into(),
            expected: format!("sound {format} data"),
            got: "data that its decoder panics on".into(),
        })
    })
}
