//! The unroll range: the one list of template sizes that get kernels of their own, on CPUs and GPUs.
//!
//! It names sizes, never code: flcc-macros reads it while it expands the CPU bodies, flcc-codegen while it renders the
//! CUDA sources, the planner to know what exists. The lists come from a profile of the folder `profiles`: people with
//! new hardware change that, and `cargo xtask gen` renders [`range`] from it.

use std::ops::RangeInclusive;

pub mod range;

/// Sides `k` of the square templates, `k x k`, that have a CUDA kernel of their own.
pub fn squares() -> impl Iterator<Item = usize> {
    listed(&[range::CUDA_SQUARE])
}

/// Sides `k` of the cubic templates, `k x k x k`, that have a CUDA kernel of their own.
pub fn cubes() -> impl Iterator<Item = usize> {
    listed(&[range::CUDA_CUBE])
}

/// Lengths of the 1D templates that have a CUDA kernel of their own.
pub fn lines() -> impl Iterator<Item = usize> {
    listed(&[range::CUDA_LINE])
}

/// Innermost template widths of the CPU bodies that serve 2D and 3D: squares, cubes and every rectangle or box whose
/// row is in the list.
pub fn row_widths() -> impl Iterator<Item = usize> {
    listed(&[range::SQUARE, range::CUBE])
}

/// Lengths of the CPU bodies that serve 1D.
pub fn line_widths() -> impl Iterator<Item = usize> {
    listed(&[range::LINE])
}

/// The sizes of some lists, each once, in order.
fn listed(lists: &[&[RangeInclusive<usize>]]) -> impl Iterator<Item = usize> {
    let mut sizes: Vec<usize> = lists.iter().flat_map(|list| list.iter().cloned()).flatten().collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_several_lists_come_once_and_in_order() {
        assert_eq!(listed(&[&[4..=6, 9..=9], &[2..=4]]).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 9]);
        assert_eq!(listed(&[]).count(), 0);
    }

    #[test]
    fn lists_hold_sizes_that_kernels_can_be_made_for() {
        for sizes in [row_widths().collect(), line_widths().collect(), squares().collect::<Vec<_>>()] {
            assert!(sizes.iter().all(|size| (2..=256).contains(size)), "{sizes:?}");
        }
    }
}
