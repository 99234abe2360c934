//! A problem in numbers, before any buffer: its template, what is exact, and what rounding may do to it.

pub mod error_model;
pub mod factor;
pub mod lanes;
pub mod noise;
pub mod overflow;
pub mod powers;
pub mod scheme;
pub mod template;
