//! The one table of solvers.

use crate::cpu::recipe::{DirectSolver, FourierSolver, SeparableSolver};
use crate::cuda::CudaSolver;
use crate::solver::Solver;

/// Every solver. The direct one accepts every valid spec that has an answer at the accuracy asked for.
pub const SOLVERS: [&dyn Solver; 4] = [&DirectSolver, &FourierSolver, &SeparableSolver, &CudaSolver];
