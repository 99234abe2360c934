//! What benches time: cases with data, each checked against the oracle before any timing; works timed in turns; and
//! what bounds them.
#![forbid(unsafe_code)]

mod case;
pub mod ceiling;
pub mod real;
mod run;
pub mod turns;

pub use case::{CASES, Case};
pub use run::Run;
