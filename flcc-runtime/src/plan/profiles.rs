//! Rendered by `cargo xtask gen` from the profiles in profiles/: what work costs on machines that were measured.

/// Processors by name, the best instruction set measured with, and costs as
/// [`Costs::read`](crate::plan::cost::Costs::read) takes them.
#[rustfmt::skip]
pub const PROFILES: &[[&str; 3]] = &[
];
