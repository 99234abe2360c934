//! The unroll range: the one list of template sizes that get kernels of their own, on CPUs and GPUs.
//!
//! It names sizes, never code: flcc-macros reads it while it expands the CPU bodies, flcc-codegen while it renders the
//! CUDA sources, the planner to know what exists. People with new hardware change these ranges.

use std::ops::RangeInclusive;

/// Sides `k` of the specialised square templates, `k x k`.
pub const SQUARE: RangeInclusive<usize> = 2..=32;
/// Sides `k` of the specialised cubic templates, `k x k x k`.
pub const CUBE: RangeInclusive<usize> = 2..=10;
/// Lengths of the specialised 1D templates.
pub const LINE: RangeInclusive<usize> = 2..=64;

/// Innermost template widths of the CPU bodies that serve 2D and 3D: squares, cubes and every rectangle or box whose
/// row is in the list.
pub fn row_widths() -> impl Iterator<Item = usize> {
    let low = *SQUARE.start().min(CUBE.start());
    let high = *SQUARE.end().max(CUBE.end());
    low..=high
}

/// Lengths of the CPU bodies that serve 1D.
pub fn line_widths() -> impl Iterator<Item = usize> {
    LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_size_has_a_body() {
        let rows: Vec<usize> = row_widths().collect();
        assert!(SQUARE.chain(CUBE).all(|k| rows.contains(&k)));
        assert!(LINE.eq(line_widths()));
    }
}
