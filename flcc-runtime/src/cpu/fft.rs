//! Transforms: our own of two tiles, of one, of volumes and of columns, and those of a library.

pub mod columns;
pub(crate) mod dither;
#[cfg(test)]
mod expected;
pub mod library;
pub mod pair;
pub mod single;
pub mod stages;
pub mod volume;
