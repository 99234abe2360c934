//! Ways to compute a cross term: of samples and template values, without a spec or a measure.

pub mod bytes;
pub mod columns;
pub mod direct;
pub mod library_fft;
pub mod pair;
pub mod separable;
pub mod single;
pub mod volume;
