//! NVIDIA GPUs: generated kernels, compiled by NVRTC for the device when a plan is made.
//!
//! Everything needs the feature `cuda`, and nothing links to CUDA: libraries are looked for when a GPU is asked for,
//! and what is missing is a [`Refusal`] that says so.

use flcc_core::error::Refusal;
use flcc_core::spec::Spec;

use crate::plan::machine::Machine;
use crate::plan::solver::{Method, Offer, Platform, Solver};

#[cfg(feature = "cuda")]
pub(crate) mod cufft;
#[cfg(feature = "cuda")]
pub mod driver;
#[cfg(feature = "cuda")]
pub(crate) mod execute;
#[cfg(feature = "cuda")]
pub mod kernels;
#[cfg(feature = "cuda")]
pub(crate) mod schedule;
#[cfg(feature = "cuda")]
pub mod solver;
#[cfg(feature = "cuda")]
pub(crate) mod unit;

/// What a device, the driver or a library said.
#[cfg(feature = "cuda")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct Fault {
    /// What was asked for.
    pub what: String,
    /// What was said.
    pub reason: String,
}

#[cfg(feature = "cuda")]
impl Fault {
    /// A fault with its reason.
    pub fn new(what: impl Into<String>, reason: impl ToString) -> Fault {
        Fault { what: what.into(), reason: reason.to_string() }
    }

    /// The same, with the number of the device that it happened on.
    pub fn on(self, device: usize) -> Fault {
        Fault { what: format!("device {device}: {}", self.what), ..self }
    }
}

#[cfg(feature = "cuda")]
impl From<Fault> for flcc_core::error::ExecError {
    fn from(Fault { what, reason }: Fault) -> Self {
        flcc_core::error::ExecError::Device { what, reason }
    }
}

#[cfg(feature = "cuda")]
impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::new("cuda", fault.to_string())
    }
}

#[cfg(feature = "cuda")]
impl From<cudarc::driver::DriverError> for Fault {
    fn from(error: cudarc::driver::DriverError) -> Self {
        Fault::new("the CUDA driver", error)
    }
}

#[cfg(feature = "cuda")]
impl From<cudarc::cufft::result::CufftError> for Fault {
    fn from(error: cudarc::cufft::result::CufftError) -> Self {
        Fault::new("cuFFT", error)
    }
}

/// The machine with the GPUs that it has, or with the reason why there are none. [`Machine::with_devices`] then chooses
/// among them; a stream of images is spread over all that a machine has.
pub fn with_devices(machine: Machine) -> Machine {
    #[cfg(feature = "cuda")]
    {
        let found = driver::launch::probe();
        machine.with_devices(found.devices.clone(), &*found.about)
    }
    #[cfg(not(feature = "cuda"))]
    machine
}

/// A method on a GPU.
pub struct CudaSolver {
    /// Which.
    pub method: Method,
}

impl Solver for CudaSolver {
    fn name(&self) -> &'static str {
        match self.method {
            Method::Direct => "cuda direct",
            Method::Fourier => "cuda fourier",
            _ => "cuda separable",
        }
    }

    fn method(&self) -> Method {
        self.method
    }

    fn platform(&self) -> Platform {
        Platform::Cuda
    }

    fn offers(&self, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
        if machine.devices().is_empty() {
            return Err(Refusal::new(self.name(), machine.cuda()));
        }
        #[cfg(feature = "cuda")]
        return solver::offers(self.name(), self.method, spec, machine);
        #[cfg(not(feature = "cuda"))]
        Err(Refusal::new(self.name(), format!("this build of flcc has no CUDA backend for {spec}")))
    }
}
