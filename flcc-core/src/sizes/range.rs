//! Rendered by `cargo xtask gen` from profiles/usual.toml: lists of template sizes, as ranges.

use std::ops::RangeInclusive;

/// The profile that these lists are of.
pub const PROFILE: &str = "usual";
/// Lengths of square templates with kernels of their own, on the CPU.
#[rustfmt::skip]
pub const SQUARE: &[RangeInclusive<usize>] = &[2..=32];
/// Lengths of cubic templates with kernels of their own, on the CPU.
#[rustfmt::skip]
pub const CUBE: &[RangeInclusive<usize>] = &[2..=10];
/// Lengths of 1D templates with kernels of their own, on the CPU.
#[rustfmt::skip]
pub const LINE: &[RangeInclusive<usize>] = &[2..=64];
/// Lengths of square templates with kernels of their own, on CUDA.
#[rustfmt::skip]
pub const CUDA_SQUARE: &[RangeInclusive<usize>] = &[2..=32];
/// Lengths of cubic templates with kernels of their own, on CUDA.
#[rustfmt::skip]
pub const CUDA_CUBE: &[RangeInclusive<usize>] = &[2..=8];
/// Lengths of 1D templates with kernels of their own, on CUDA.
#[rustfmt::skip]
pub const CUDA_LINE: &[RangeInclusive<usize>] = &[2..=64];
