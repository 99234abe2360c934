//! The tiles that the pipeline takes, and how many images it computes at once by them.

use flcc_core::spec::Spec;

use crate::cuda::rooms::{images_together, tiles_together};
use crate::run::tiling::Tiling;

/// The most outputs that the pipeline computes as one tile for transforms of tiles.
pub(super) const MOST_TOGETHER: usize = 1 << 26;

/// The tile of a kernel that gathers nothing: all of a result of up to 2^26 positions. Its blocks begin up to three
/// columns before it, for which there is room in the last of them.
pub(super) fn large_tile(spec: &Spec) -> [usize; 3] {
    let size = match spec.image().axes() {
        1 => [1, 1, (1 << 26) - 4],
        2 => [1, 8192, 8188],
        _ => [128, 512, 1020],
    };
    let (image, template) = (spec.image().padded(), spec.template().padded());
    [0, 1, 2].map(|axis| size[axis].min(image[axis] + template[axis] - 1))
}

/// Tile shapes for plain kernels, best first.
pub(super) fn plain_tiles(spec: &Spec) -> Vec<[usize; 3]> {
    let (image, template) = (spec.image().padded(), spec.template().padded());
    let sizes: &[[usize; 3]] = match spec.image().axes() {
        1 => &[[1, 1, 1 << 18], [1, 1, 1 << 14]],
        2 => &[[1, 512, 1024], [1, 128, 256]],
        _ => &[[32, 64, 256], [8, 32, 128]],
    };
    let mut tiles = Vec::new();
    for size in sizes {
        let tile = [0, 1, 2].map(|axis| {
            let grown = if size[axis] > 1 { size[axis].max(template[axis].next_multiple_of(32)) } else { 1 };
            grown.min(image[axis] + template[axis] - 1)
        });
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Images of a stream that the pipeline computes at once by tiles of a shape.
pub(super) fn together(spec: &Spec, tile: [usize; 3]) -> usize {
    if spec.pairs() {
        return 1;
    }
    let tiles = Tiling::new(spec.frame(), tile).count();
    images_together(tiles_together(tile.iter().product()), tiles, spec.images())
}
