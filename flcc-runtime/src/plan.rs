//! Planning: what may serve a spec, which of it is chosen, and what remembers it.

pub mod account;
pub mod cost;
#[cfg(feature = "cuda")]
pub mod device_queue;
mod fallback;
pub mod machine;
pub mod matcher;
pub mod needed;
pub mod planned;
pub mod planner;
mod profiles;
pub mod regions;
pub mod settings;
pub mod solver;
pub mod solvers;
#[cfg(test)]
pub(crate) mod testing;
pub mod trial;
pub mod wisdom;
