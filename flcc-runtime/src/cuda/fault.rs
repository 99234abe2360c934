//! What a device, the driver or a library answers instead of a result.

use flcc_core::error::Refusal;

/// What a device, the driver or a library said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct Fault {
    /// What was asked for.
    pub what: String,
    /// What was said.
    pub reason: String,
}

impl Fault {
    /// A fault with its reason.
    pub fn new(what: impl Into<String>, reason: impl ToString) -> Fault {
        Fault { what: what.into(), reason: reason.to_string() }
    }

    /// The fault with the number of the device that it happened on.
    pub fn on(self, device: usize) -> Fault {
        Fault { what: format!("device {device}: {}", self.what), ..self }
    }
}

impl From<Fault> for flcc_core::error::ExecError {
    fn from(Fault { what, reason }: Fault) -> Self {
        flcc_core::error::ExecError::Device { what, reason }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::new("cuda", fault.to_string())
    }
}

impl From<cudarc::driver::DriverError> for Fault {
    fn from(error: cudarc::driver::DriverError) -> Self {
        Fault::new("the CUDA driver", error)
    }
}

impl From<cudarc::cufft::result::CufftError> for Fault {
    fn from(error: cudarc::cufft::result::CufftError) -> Self {
        Fault::new("cuFFT", error)
    }
}
