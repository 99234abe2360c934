//! The driver's side: devices, streams, memory, compiled code.

pub mod buffer;
pub mod compile;
pub mod launch;
pub(crate) mod libraries;
pub(crate) mod staging;
pub(crate) mod transforms;
