//! CUDA: not in this build yet, and it says so.

use flcc_core::error::Refusal;
use flcc_core::spec::Spec;

use crate::machine::Machine;
use crate::solver::{Method, Offer, Platform, Solver};

/// Why no GPU is used.
pub const ABSENT: &str = "this build of flcc has no CUDA backend";

/// The solver of platform cuda.
pub struct CudaSolver;

impl Solver for CudaSolver {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn method(&self) -> Method {
        Method::Auto
    }

    fn platform(&self) -> Platform {
        Platform::Cuda
    }

    fn offers(&self, _spec: &Spec, _machine: &Machine) -> Result<Vec<Offer>, Refusal> {
        Err(Refusal::new(self.name(), ABSENT))
    }
}
