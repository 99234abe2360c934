//! The CPU: kernels for its instruction sets and what feeds them.

pub mod aligned;
pub mod amx;
pub mod bind;
pub mod butterfly;
pub mod bytes;
pub mod coarse;
pub mod direct;
pub mod doubt;
pub mod factor;
pub mod finish;
pub mod fourier;
pub mod fused;
pub mod halved;
#[cfg(test)]
pub(crate) mod hard;
pub mod hybrid;
pub mod isa;
pub mod kernel;
pub mod lanes;
pub mod layered;
pub mod planar;
pub mod real;
pub mod recipe;
pub mod repair;
pub mod separable;
pub mod simd;
pub mod strip;
pub mod sums;
pub mod table;
pub mod tile;
pub mod transform;
