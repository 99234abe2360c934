//! The CPU's solvers: which engine, which type, which tile. A recipe is cheap; building it makes transforms and
//! buffers.

pub mod direct;
pub mod fourier;
pub mod recipe;
pub mod separable;
mod tiles;
