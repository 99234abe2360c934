//! The one table of solvers.

use crate::cpu::solvers::{DirectSolver, FourierSolver, SeparableSolver};
use crate::cuda::CudaSolver;
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
