//! Execution, whatever computes: tiles, threads, results and who watches.

pub mod execute;
pub mod geometry;
pub(crate) mod results;
pub mod tiling;
pub(crate) mod workers;
