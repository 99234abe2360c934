//! Window sums of planes that run down rows: how warps share them, and what they round. The kernel's text is
//! templates/cuda/pipeline/windows_of_planes.

use crate::cuda::windows::{Share, Windows};
use crate::problem::error_model::Steps;

/// Columns of samples of a strip, which a warp has.
const STRIP: usize = 256;

/// Warps of a block.
const WARPS: usize = 4;

/// Rows of outputs of a strip, at least and at most: each begins with sums down a template's rows.
const ROWS: [usize; 2] = [8, 64];

/// Warps that fill all multiprocessors of a large device once.
const ENOUGH: usize = 1584;

/// The kernel.
pub(crate) struct DownRows;

impl DownRows {
    /// Whether a strip has outputs enough of templates of these sides.
    pub(crate) fn serves([_, _, width]: [usize; 3]) -> bool {
        width + STRIP / 8 <= STRIP
    }

    /// Rows of samples that all warps take in or out for outputs of a plane: a template's at first, then two an output.
    pub(crate) fn rows(template: [usize; 3], outputs: [usize; 3]) -> f64 {
        let Share { part, across, .. } = DownRows::share(template, outputs);
        (across * outputs[1].div_ceil(part) * DownRows::steps_of_a_warp(template, outputs)) as f64
    }

    /// Those of one warp, which takes them one after the other.
    pub(crate) fn steps_of_a_warp(template: [usize; 3], outputs: [usize; 3]) -> usize {
        template[1] + 2 * DownRows::share(template, outputs).part
    }
}

impl Windows for DownRows {
    /// A sample goes in and out at each row. A window is the difference of two sums up to a column: each joins eight
    /// columns, is doubled five times and leaves out some of the eight.
    fn steps([_, height, width]: [usize; 3]) -> Steps {
        let stretch = (STRIP as f64 / width as f64).sqrt();
        Steps { down: (2 * ROWS[1] + height) as f64, along: 30.0, stretch }
    }

    fn share([_, _, width]: [usize; 3], [_, height, columns]: [usize; 3]) -> Share {
        // Strips begin at multiples of four columns of the image, up to three before the first output's.
        let across = (columns + 3).div_ceil((STRIP + 1 - width) / 4 * 4);
        let part = height.div_ceil((ENOUGH / across).max(1)).clamp(ROWS[0], ROWS[1]);
        let blocks = [(across * height.div_ceil(part)).div_ceil(WARPS), 1];
        Share { part, across, blocks, threads: 32 * WARPS, narrow: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_cover_the_outputs() {
        for (width, outputs, expected) in [
            // 10 strips of 224 outputs, 158 bands.
            (32, [1, 2031, 2031], (10, 13)),
            (76, [1, 4171, 4171], (24, 64)),
            (8, [1, 107, 107], (1, 8)),
            (120, [1, 5000, 90], (1, 8)),
        ] {
            let Share { part, across, blocks, threads, .. } = DownRows::share([1, 9, width], outputs);
            assert_eq!((across, part), expected, "{outputs:?}");
            let warps = blocks[0] * threads / 32;
            assert!(warps >= across * outputs[1].div_ceil(part) && warps * part * 224 >= outputs[1] * outputs[2] / 2);
        }
    }
}
