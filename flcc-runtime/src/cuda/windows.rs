//! Scores from cross terms that stand where results are to be, by sums over windows: what kernels that make them share.
//! Their text is templates/cuda/pipeline/windows.

use crate::cuda::driver::launch::{Address, Argument, Constants, Function, MOST_BLOCKS, ResultView, Stream};
use crate::cuda::driver::launch::{Thresholds, WindowsView};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::Batch;
use crate::cuda::rooms::Room;
use crate::problem::error_model::Steps;

/// Bytes of what a transform tells of its tile: a threshold and an offset.
pub(crate) const LOW: usize = 2 * size_of::<f32>();

/// How blocks share the windows of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Planes, or rows, of outputs that a block, or a warp, has.
    pub part: usize,
    /// Blocks, or warps, of a row of outputs.
    pub across: usize,
    /// Blocks of a tile, along two axes of a grid.
    pub blocks: [usize; 2],
    /// Threads of a block.
    pub threads: usize,
    /// Samples of a plane have places of 32 bits.
    pub narrow: bool,
}

/// A kernel that makes scores.
pub(crate) trait Windows {
    /// The options that its source is compiled with, for templates of these sides.
    fn options(_template: [usize; 3]) -> Vec<String> {
        Vec::new()
    }

    /// Bytes of dynamic shared memory of a block.
    fn shared(_template: [usize; 3]) -> usize {
        0
    }

    /// Roundings of its sums.
    fn steps(template: [usize; 3]) -> Steps;

    /// How blocks share the windows of a tile of these outputs.
    fn share(template: [usize; 3], outputs: [usize; 3]) -> Share;
}

/// Puts the kernel into a stream's queue, which makes scores of the cross terms that stand where results are to be.
/// `lows` are the thresholds of so many transforms of each tile.
///
/// # Errors
/// The driver's.
pub(crate) fn launch(
    stream: &Stream,
    (function, share): (&Function, Share),
    batch: &Batch,
    (constants, thresholds, view): (&Constants, &Thresholds, &ResultView),
    (lows, transforms): (Address, usize),
) -> Result<(), Fault> {
    let Batch { layout, image, places, .. } = batch;
    let windows = WindowsView {
        part: share.part as i32,
        across: share.across as i32,
        tiles: transforms as i32,
        norm: (1.0 / constants.energy.sqrt()) as f32,
        share: 1.0 / constants.n,
    };
    let tiles = layout.tiles as usize;
    let reach = |axis: usize| (i128::from(image.stride[axis]) * i128::from(image.lengths[axis] - 1)).unsigned_abs();
    if share.narrow && reach(1) + reach(2) > i32::MAX as u128 {
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
    let grid = [share.blocks[0], share.blocks[1], tiles];
    if grid[1..].iter().any(|&blocks| blocks > MOST_BLOCKS) {
        return Err(Fault::new(function.name(), format!("{} blocks of {tiles} tiles are too many", grid[1])));
    }
    stream.launch(function, grid.map(|blocks| blocks as u32), [share.threads as u32, 1], &arguments)
}
