//! The CPU's solvers: which engine, which type, which tile. A recipe is cheap; building it makes transforms and
//! buffers.

mod cost;
pub mod direct;
pub mod fourier;
pub mod recipe;
pub mod separable;
mod tiles;
