//! The platform: its devices and its solvers, also where this build has no backend for it.

use flcc_core::error::Refusal;
#[cfg(feature = "cuda")]
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::plan::machine::Machine;
use crate::plan::solver::{Method, Offer, Platform, Solver};

/// The machine with the GPUs that it has, or with the reason why there are none. [`Machine::with_devices`] then chooses
/// among them; a stream of images is spread over all that a machine has.
pub fn with_devices(machine: Machine) -> Machine {
    #[cfg(feature = "cuda")]
    {
        let found = crate::cuda::driver::launch::probe();
        machine.with_devices(found.devices.clone(), &*found.about)
    }
    #[cfg(not(feature = "cuda"))]
    machine
}

/// Whether this process has looked for GPUs, and found some: to use them costs no time to open them any more.
pub fn found() -> bool {
    #[cfg(feature = "cuda")]
    return crate::cuda::driver::launch::found();
    #[cfg(not(feature = "cuda"))]
    false
}

/// What CUDA is here, or why there is none, where this process has looked; `None` where it has not.
pub fn about() -> Option<String> {
    #[cfg(feature = "cuda")]
    return crate::cuda::driver::launch::about();
    #[cfg(not(feature = "cuda"))]
    Some("CUDA is not in this build (feature cuda)".into())
}

/// A method on a GPU.
pub struct CudaSolver {
    /// The method.
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
        return crate::cuda::solver::offers(self.name(), self.method, spec, machine);
        #[cfg(not(feature = "cuda"))]
        Err(Refusal::new(self.name(), format!("this build of flcc has no CUDA backend for {spec}")))
    }

    #[cfg(feature = "cuda")]
    fn offers_named(&self, spec: &Spec, machine: &Machine, kernel: &KernelKey) -> Result<Vec<Offer>, Refusal> {
        if machine.devices().is_empty() {
            return self.offers(spec, machine);
        }
        crate::cuda::solver::offers_named(self.name(), self.method, spec, machine, kernel)
    }
}
