//! Execution, whatever computes: tiles, threads, results and who watches.

#[cfg(feature = "cuda")]
pub mod device_image;
pub mod execute;
pub mod geometry;
pub(crate) mod results;
pub(crate) mod search;
pub mod tiling;
pub(crate) mod words;
pub(crate) mod workers;
