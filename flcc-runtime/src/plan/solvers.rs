//! The one table of solvers.

use crate::cpu::solvers::direct::DirectSolver;
use crate::cpu::solvers::fourier::FourierSolver;
use crate::cpu::solvers::separable::SeparableSolver;
use crate::cuda::platform::CudaSolver;
use crate::plan::machine::Machine;
use crate::plan::solver::{Method, Solver};

/// Every solver. The direct one accepts every valid spec that has an answer at the accuracy asked for.
pub const SOLVERS: [&dyn Solver; 6] = [
    &DirectSolver,
    &FourierSolver,
    &SeparableSolver,
    &CudaSolver { method: Method::Direct },
    &CudaSolver { method: Method::Fourier },
    &CudaSolver { method: Method::Separable },
];

/// Whether this process has looked for GPUs, and found some.
pub(crate) fn devices_found() -> bool {
    crate::cuda::platform::found()
}

/// What this process found where it looked for GPUs; `None` where it did not look.
pub(crate) fn about_devices() -> Option<String> {
    crate::cuda::platform::about()
}

/// The machine with the GPUs that it has, or with the reason why there are none.
pub(crate) fn with_devices(machine: Machine) -> Machine {
    crate::cuda::with_devices(machine)
}
