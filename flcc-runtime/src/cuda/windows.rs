//! Scores of volumes from their cross terms, by window sums that run across planes: how blocks share the windows of a
//! tile, what they round, and the kernel's launch. The kernel's text is templates/cuda/pipeline/windows.

use crate::cuda::driver::launch::{Address, Argument, Constants, Function, MOST_BLOCKS, ResultView, Stream};
use crate::cuda::driver::launch::{Thresholds, WindowsView};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::Batch;
use crate::cuda::rooms::Room;
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

/// Bytes of what a transform tells of its tile: a threshold and an offset.
pub(crate) const LOW: usize = 2 * size_of::<f32>();

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

/// The options that its source is compiled with, for templates of these sides.
pub(crate) fn options(template: [usize; 3]) -> [String; 3] {
    let [depth, height, width] = template;
    [("TD", depth), ("TH", height), ("TW", width)].map(|(name, side)| format!("-DFLCC_{name}={side}"))
}

/// Bytes of shared memory of a block.
pub(crate) fn shared(template: [usize; 3]) -> usize {
    let [rows, columns] = samples(template);
    (rows * columns + SIDE * (columns | 1)) * SUMS + SIDE * (SIDE + 1) * 2 * size_of::<f32>()
}

/// Whether a plane's columns have a thread each where they are summed up, but for the last warp's.
pub(crate) fn holds(template: [usize; 3]) -> bool {
    samples(template)[1] * (SIDE / SEGMENT) <= THREADS - 32
}

/// Roundings of window sums: a sample goes in and out at each plane, and so do sums along eight outputs.
pub(crate) fn steps([depth, height, width]: [usize; 3]) -> Steps {
    let down = 2 * (PLANES[1] + SEGMENT) + depth + height;
    let stretch = ((width + SEGMENT) as f64 / width as f64).sqrt();
    Steps { down: down as f64, along: (2 * SEGMENT + width) as f64, stretch }
}

/// Puts the kernel into a stream's queue, which makes scores of the cross terms that stand where results are to be.
/// `lows` are the thresholds of so many transforms of each tile.
///
/// # Errors
/// The driver's.
pub(crate) fn launch(
    stream: &Stream,
    function: &Function,
    batch: &Batch,
    (constants, thresholds, view): (&Constants, &Thresholds, &ResultView),
    (lows, transforms): (Address, usize),
) -> Result<(), Fault> {
    let Batch { layout, image, places, .. } = batch;
    let outputs = layout.out_shape.map(|side| side as usize);
    let across = outputs[2].div_ceil(SIDE);
    let windows = WindowsView {
        planes: planes(outputs) as i32,
        across: across as i32,
        tiles: transforms as i32,
        norm: (1.0 / constants.energy.sqrt()) as f32,
        share: 1.0 / constants.n,
    };
    let tiles = layout.tiles as usize;
    let reach = |axis: usize| (i128::from(image.stride[axis]) * i128::from(image.lengths[axis] - 1)).unsigned_abs();
    if reach(1) + reach(2) > i32::MAX as u128 {
        let strides =
            format!("a plane of strides {} and {} reaches beyond 2^31 samples", image.stride[1], image.stride[2]);
        return Err(Fault::new(function.name(), strides));
    }
    let arguments = [
        batch.image_room(),
        Argument::Image(image),
        Argument::Layout(layout),
        batch.tile_room(),
        Argument::Thresholds(thresholds),
        Argument::Windows(&windows),
        Argument::Room(lows, tiles * transforms * LOW),
        Argument::Room(places[Room::Result], batch.result_reach),
        Argument::Result(view),
        batch.output_room(places[Room::Doubtful], size_of::<u32>()),
        Argument::Room(places[Room::Counts], size_of::<u32>()),
    ];
    let grid = [across * outputs[1].div_ceil(SIDE), chunks(outputs), tiles];
    if grid[1..].iter().any(|&blocks| blocks > MOST_BLOCKS) {
        return Err(Fault::new(function.name(), format!("{} chunks of {tiles} tiles are too many", grid[1])));
    }
    stream.launch(function, grid.map(|blocks| blocks as u32), [THREADS as u32, 1], &arguments)
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
        assert_eq!(shared([8, 8, 8]), (39 * 39 + 32 * 39) * 16 + 32 * 33 * 8);
        assert!(holds([9, 33, 25]) && !holds([9, 9, 26]));
    }
}
