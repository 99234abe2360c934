//! Planning: what may serve a spec, which of it is chosen, and what remembers it.

pub mod bands;
pub mod machine;
pub mod matcher;
pub mod planned;
pub mod planner;
pub mod settings;
pub mod solver;
pub mod solvers;
pub(crate) mod trial;
pub mod wisdom;
