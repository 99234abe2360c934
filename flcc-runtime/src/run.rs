//! Execution, whatever computes: tiles, threads, results and who watches.

pub mod execute;
pub mod geometry;
pub(crate) mod results;
pub(crate) mod search;
pub mod tiling;
pub(crate) mod words;
pub(crate) mod workers;
