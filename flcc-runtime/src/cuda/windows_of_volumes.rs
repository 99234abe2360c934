//! Window sums of volumes that run across planes: how blocks share them, and what they round. The kernel's text is
//! templates/cuda/pipeline/windows_of_volumes.

use crate::cuda::windows::{Bands, Share, Windows};
use crate::problem::error_model::Steps;

/// Outputs of a block along rows and columns.
const SIDE: usize = 32;

/// Outputs that a thread runs along.
const SEGMENT: usize = 8;

/// Threads of a block.
const THREADS: usize = 256;

/// Planes of outputs that a block has, at least and at most: each block begins with sums across a template's planes.
const PLANES: [usize; 2] = [8, 64];

/// Blocks that are enough for all multiprocessors of a large device.
const ENOUGH: usize = 1056;

/// Bytes of two sums.
const SUMS: usize = 16;

/// Planes of a block, of a tile of these outputs.
fn planes([depth, height, width]: [usize; 3]) -> usize {
    let of_plane = height.div_ceil(SIDE) * width.div_ceil(SIDE);
    depth.div_ceil((ENOUGH / of_plane).max(1)).clamp(PLANES[0], PLANES[1])
}

/// Blocks across the planes of a tile of these outputs.
pub(crate) fn chunks(outputs: [usize; 3]) -> usize {
    outputs[0].div_ceil(planes(outputs))
}

/// Samples of a plane of a block, rows and columns.
fn samples([_, height, width]: [usize; 3]) -> [usize; 2] {
    [height, width].map(|side| SIDE + side - 1)
}

/// Whether a plane's columns have a thread each where they are summed up, but for the last warp's.
pub(crate) fn holds(template: [usize; 3]) -> bool {
    samples(template)[1] * (SIDE / SEGMENT) <= THREADS - 32
}

/// The kernel.
pub(crate) struct AcrossPlanes;

impl Windows for AcrossPlanes {
    fn options([depth, height, width]: [usize; 3]) -> Vec<String> {
        [("TD", depth), ("TH", height), ("TW", width)].map(|(name, side)| format!("-DFLCC_{name}={side}")).into()
    }

    fn shared(template: [usize; 3]) -> usize {
        let [rows, columns] = samples(template);
        (rows * columns + SIDE * (columns | 1)) * SUMS + SIDE * (SIDE + 1) * 2 * size_of::<f32>()
    }

    /// A sample goes in and out at each plane, and so do sums along eight outputs.
    fn steps([depth, height, width]: [usize; 3]) -> Steps {
        let down = 2 * (PLANES[1] + SEGMENT) + depth + height;
        let stretch = ((width + SEGMENT) as f64 / width as f64).sqrt();
        Steps { down: down as f64, along: (2 * SEGMENT + width) as f64, stretch }
    }

    fn share(_template: [usize; 3], outputs: [usize; 3]) -> Share {
        let across = outputs[2].div_ceil(SIDE);
        let blocks = [across * outputs[1].div_ceil(SIDE), chunks(outputs)];
        Share { part: planes(outputs), across, blocks, threads: THREADS, narrow: true, bands: Bands::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_planes_enough_for_their_beginning_and_are_many() {
        for (outputs, expected) in [
            ([107, 107, 107], 8),
            ([263, 263, 263], 21),
            ([129, 519, 519], 43),
            ([3, 1000, 1000], 8),
            ([1000, 20, 20], 8),
        ] {
            assert_eq!(planes(outputs), expected, "{outputs:?}");
        }
    }

    #[test]
    fn shared_memory_is_that_of_three_arrays() {
        // 39x39 sums, 32 rows of 39, and 32 rows of 33 pairs of floats.
        assert_eq!(AcrossPlanes::shared([8, 8, 8]), (39 * 39 + 32 * 39) * 16 + 32 * 33 * 8);
        assert!(holds([9, 33, 25]) && !holds([9, 9, 26]));
    }
}
