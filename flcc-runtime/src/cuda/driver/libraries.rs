//! Which of the libraries beside the driver are here.

use cudarc::cufft::sys;

use crate::cuda::fault::Fault;

/// Whether cuFFT is there.
///
/// # Errors
/// It is not.
pub fn present() -> Result<(), Fault> {
    // SAFETY: it loads a library by its well-known names and closes it again.
    if unsafe { sys::is_culib_present() } {
        Ok(())
    } else {
        Err(Fault::new("cuFFT", "the library libcufft was not found"))
    }
}
