//! From cross terms and window sums to scores, in vectors or in rows of f64, and the repair of panels in doubt.

pub mod repair;
pub mod rows;
pub mod split;
pub mod vector;
pub mod window_sums;
