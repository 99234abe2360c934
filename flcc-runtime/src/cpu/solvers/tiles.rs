//! Tiles for methods that work on plain ones, and what tiles of a shape take.

use flcc_core::dtype::DType;
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::spec::{MaskKind, Spec};

use crate::run::tiling::Tiling;

/// Tile shapes for the methods that work on plain tiles, best first: whole where the result is small, and with
/// `in_place` as wide as it.
pub(super) fn plain_tiles(spec: &Spec, in_place: bool) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let full = |axis: usize| spec.image().padded()[axis] + template[axis] - 1;
    let sizes: &[[usize; 3]] = match spec.image().axes() {
        1 => &[[1, 1, 16384], [1, 1, 4096], [1, 1, 1024], [1, 1, 256]],
        2 => &[[1, 64, 512], [1, 96, 256], [1, 192, 512], [1, 32, 256], [1, 24, 64], [1, 6, 16]],
        _ => &[[8, 32, 64], [16, 48, 128], [8, 12, 32], [2, 6, 16]],
    };
    let mut tiles: Vec<[usize; 3]> = Vec::new();
    // As wide as the result, a correlation is written where it belongs (`in_place.rs`); wider rows would fall out of
    // the cache.
    if in_place {
        match spec.image().axes() {
            1 => {}
            2 => tiles.extend([48, 24].map(|rows| [1, full(1).min(rows), full(2)])),
            _ => {
                // Whole planes are one piece of the result, where their samples are the image's own and there are tiles
                // to share.
                let plane = full(1).saturating_mul(full(2));
                let apt = |planes: &usize| full(0) >= 4 * planes && planes.saturating_mul(plane) <= 1 << 21;
                if spec.mode() == Mode::Valid && spec.image_type() == DType::F32 {
                    tiles.extend([8, 4].into_iter().filter(apt).map(|planes| [planes, full(1), full(2)]));
                }
                tiles.extend([48, 24].map(|rows| [full(0).min(8), full(1).min(rows), full(2)]));
            }
        }
        tiles.dedup();
    }
    for size in sizes {
        // A large template needs a larger tile, or its margin is most of the work.
        let tile = [0, 1, 2].map(|axis| {
            let grown = if size[axis] >= 24 { size[axis].max(template[axis].next_multiple_of(16)) } else { size[axis] };
            grown.min(full(axis))
        });
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Whether tiles as wide as the result may be correlated without buffers, of images of this type.
pub(super) fn in_place(spec: &Spec, image: DType) -> bool {
    let width = spec.image().padded()[2] + spec.template().padded()[2] - 1;
    let plain = spec.op().measure() == Measure::Cc && spec.channels() == 1 && spec.out_type() == DType::F32;
    plain && spec.image_type() == image && spec.mask() == MaskKind::None && (spec.image().axes() == 1 || width <= 8192)
}

/// Whether a tile is as wide as the result may be.
pub(super) fn wide(spec: &Spec, tile: [usize; 3]) -> bool {
    spec.image().axes() == 1 || tile[2] == spec.image().padded()[2] + spec.template().padded()[2] - 1
}

/// Samples that the tiles of a spec gather, and outputs that they compute.
pub(super) fn volumes(spec: &Spec, tile: [usize; 3]) -> (f64, f64) {
    let tiling = Tiling::new(spec, tile);
    let largest = tiling.largest();
    let outputs = spec.out_shape().len() as f64;
    (outputs * margin(largest, spec.template().padded()), outputs)
}

/// Samples of a tile with its margin over its outputs.
fn margin(tile: [usize; 3], template: [usize; 3]) -> f64 {
    (0..3).map(|axis| (tile[axis] + template[axis] - 1) as f64 / tile[axis] as f64).product()
}
