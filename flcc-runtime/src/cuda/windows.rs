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
    /// What blocks of a tile share.
    pub bands: Bands,
}

/// Sums of bands of rows of samples, which those have in common that make windows of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bands {
    /// Rows of outputs of a region, whose bands are its own.
    pub region: usize,
    /// Regions of a tile.
    pub regions: usize,
    /// Rows of a band.
    pub rows: usize,
    /// Bands of a region; 0 where none are made.
    pub count: usize,
    /// Bytes of the bands of a tile.
    pub bytes: usize,
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
/// `lows` are the thresholds of so many transforms of each tile. Sums of bands are made before, by a kernel and in a
/// place, where blocks share some.
///
/// # Errors
/// The driver's.
pub(crate) fn launch(
    stream: &Stream,
    (function, share): (&Function, Share),
    batch: &Batch,
    (constants, thresholds, view_of_result): (&Constants, &Thresholds, &ResultView),
    (lows, transforms): (Address, usize),
    bands: Option<(&Function, Address)>,
) -> Result<(), Fault> {
    let Batch { layout, image, places, .. } = batch;
    let windows = WindowsView {
        part: share.part as i32,
        across: share.across as i32,
        tiles: transforms as i32,
        region: share.bands.region as i32,
        regions: share.bands.regions as i32,
        band: share.bands.rows as i32,
        bands: share.bands.count as i32,
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
    let grid = [share.blocks[0], share.blocks[1], tiles];
    if grid[1..].iter().any(|&blocks| blocks > MOST_BLOCKS) {
        return Err(Fault::new(function.name(), format!("{} blocks of {tiles} tiles are too many", grid[1])));
    }
    let threads = [share.threads as u32, 1];
    let [image, view, layout, wholes] =
        [batch.image_room(), Argument::Image(image), Argument::Layout(layout), batch.tile_room()];
    let mut sums = Argument::Null;
    if let Some((kernel, place)) = bands {
        let Bands { regions, count, bytes, .. } = share.bands;
        sums = Argument::Room(place, tiles * bytes);
        let blocks = [(regions * count * share.across) as u32, 1, tiles as u32];
        stream.launch(kernel, blocks, threads, &[image, view, layout, wholes, Argument::Windows(&windows), sums])?;
    }
    let arguments = [
        image,
        view,
        layout,
        wholes,
        Argument::Thresholds(thresholds),
        Argument::Windows(&windows),
        Argument::Room(lows, tiles * transforms * LOW),
        Argument::Room(places[Room::Result], batch.result_reach),
        Argument::Result(view_of_result),
        batch.output_room(places[Room::Doubtful], size_of::<u32>()),
        Argument::Room(places[Room::Counts], size_of::<u32>()),
        sums,
    ];
    // Windows of volumes have no bands.
    let count = arguments.len() - usize::from(share.bands == Bands::default());
    stream.launch(function, grid.map(|blocks| blocks as u32), threads, &arguments[..count])
}
