//! The methods, each in a file of its own.

pub(crate) mod any;
pub(crate) mod cufft;
pub(crate) mod differences;
pub(crate) mod large;
pub(crate) mod listed;
pub(crate) mod listed_scores;
pub(crate) mod masked;
pub(crate) mod mma_scores;
pub(crate) mod pairs;
pub(crate) mod scores;
pub(crate) mod separable;
pub(crate) mod transforms;
