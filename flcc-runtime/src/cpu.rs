//! The CPU: kernels and transforms, the engines made of them, and tiles from samples to scores.

pub mod aligned;
pub mod bands;
pub mod engine;
pub mod engines;
pub mod execute;
pub mod fft;
pub mod gather;
pub mod in_place;
pub mod kernels;
pub mod ladder;
pub mod memory;
pub mod real;
pub mod score;
pub mod slab;
pub mod solvers;
#[cfg(test)]
pub(crate) mod testing;
pub mod tile;
pub mod window_stats;
