//! Tiles for methods that work on plain ones, and what tiles of a shape take.

use flcc_core::dtype::DType;
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::spec::{MaskKind, Spec};

use crate::cpu::score::ways::vectors::in_vectors;
use crate::plan::cost::{Term, Work};
use crate::problem::scheme::Scheme;
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

/// Products in a tile of the direct method, at most: some tens of milliseconds, after which a run may be stopped and
/// says how far it is. Beside so many products a large template's margin is little to gather.
const MOST_PRODUCTS: usize = 1 << 29;

/// Planes, rows and columns that such tiles have at least, or what they had.
const LEAST: [usize; 3] = [1, 4, 16];

/// Tile shapes for the direct method: plain ones, less where a template has so many taps that they would take long.
pub(super) fn direct_tiles(spec: &Spec, in_place: bool) -> Vec<[usize; 3]> {
    let taps = spec.template().len();
    let mut tiles: Vec<[usize; 3]> = Vec::new();
    for mut tile in plain_tiles(spec, in_place) {
        let products = |tile: [usize; 3]| tile.iter().fold(taps, |all, &side| all.saturating_mul(side));
        while products(tile) > MOST_PRODUCTS
            && let Some(axis) = (0..3).filter(|&axis| tile[axis] > LEAST[axis]).max_by_key(|&axis| tile[axis])
        {
            tile[axis] = (tile[axis] / 2).next_multiple_of(LEAST[axis]);
        }
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Whether tiles as wide as the result may be correlated without buffers, of an image of this type.
pub(super) fn in_place(spec: &Spec, image: DType) -> bool {
    let width = spec.image().padded()[2] + spec.template().padded()[2] - 1;
    let plain = spec.op().measure() == Measure::Cc && spec.channels() == 1 && spec.out_type() == DType::F32;
    plain && spec.image_type() == image && spec.mask() == MaskKind::None && (spec.image().axes() == 1 || width <= 8192)
}

/// Whether tiles of a shape are correlated without buffers, of an image of this type whose samples lie side by side and
/// are ordinary. That is all a plan can know: whether an image is such a one the run finds out, tile by tile
/// ([`Engine::in_place`](crate::cpu::engine::Engine::in_place)).
pub(super) fn tile_in_place(spec: &Spec, image: DType, tile: [usize; 3]) -> bool {
    let wide = spec.image().axes() == 1 || tile[2] == spec.image().padded()[2] + spec.template().padded()[2] - 1;
    in_place(spec, image) && wide
}

/// The work around the cross terms of a spec's tiles: calls, gathered samples, window sums, scores. `exact` sums are
/// scored in integers; rows of cross terms lie `row` apart.
pub(super) fn around(spec: &Spec, tiling: &Tiling, real: DType, exact: bool, row: usize) -> Work {
    let (measure, count) = (spec.op().measure(), spec.templates() as f64);
    let needs = measure.row().needs;
    let gathered = tiling.gathered() * spec.channels() as f64;
    let outputs = spec.out_shape().len() as f64;
    let score = if !needs.square {
        Term::Write
    } else if in_vectors(spec, &Scheme::new(spec, exact, false), real, row) {
        Term::ScoreVector
    } else if exact {
        Term::ScoreInteger
    } else {
        Term::ScoreDouble
    };
    let sums = f64::from(u8::from(needs.square)) + f64::from(u8::from(needs.sum));
    let boxes = if score == Term::ScoreVector || spec.mask() != MaskKind::None { 0.0 } else { sums };
    begun(spec, tiling)
        .and(if spec.image_type() == real { Term::Copy } else { Term::Convert }, gathered)
        .and(Term::WindowSum, gathered * boxes)
        .and(score, outputs * count)
}

/// The work of a call and of its tiles, whatever is done in them. Threads share the tiles of all images.
pub(super) fn begun(spec: &Spec, tiling: &Tiling) -> Work {
    let samples = spec.image().len() as f64 * spec.channels() as f64;
    let results = spec.out_shape().len() as f64 * spec.templates() as f64;
    let bytes = samples * spec.image_type().row().size as f64 + results * spec.out_type().row().size as f64;
    let far = if bytes > NEAR { bytes } else { 0.0 };
    // Of a stream of pairs there are many in a call; other streams come one by one.
    let images = if spec.pairs() && spec.images() == 0 { MANY_PAIRS } else { spec.images().max(1) };
    // A pair is one thread's.
    let (tiles, largest) = if spec.pairs() { (1, 1.0) } else { (tiling.count(), tiling.largest_share()) };
    // Templates that are bound each time are looked at, centred, summed and rounded.
    let bound = if spec.pairs() { BINDING * spec.template().len() as f64 * spec.channels() as f64 } else { 0.0 };
    Work::default()
        .of_images(images)
        .in_pieces(tiles.saturating_mul(images), largest / images as f64)
        .and(Term::Convert, bound)
        .and(Term::Call, 1.0)
        .and(Term::Tile, tiling.count() as f64 * spec.templates() as f64)
        .and(Term::Memory, far)
}

/// Pairs that a stream of them is taken to have.
const MANY_PAIRS: usize = 1024;

/// How often binding passes over a template, whatever the method does with it then.
const BINDING: f64 = 6.0;

/// Bytes that stay in the second-level cache from one call to the next.
const NEAR: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_many_taps_are_small_and_others_as_they_are() {
        for text in [
            "corr:f64:1500x1500*900x900:full",
            "zncc:u8:4000x4000*1000x1000:valid",
            "corr:f32:1500x1500*900x900:same",
            "zncc:f32:10000000*1000000:valid",
            "zncc:f32:200x200x200*90x90x90:full",
        ] {
            let spec: Spec = text.parse().unwrap();
            for tile in direct_tiles(&spec, in_place(&spec, DType::F32)) {
                let outputs: usize = tile.iter().product();
                assert!(outputs * spec.template().len() <= MOST_PRODUCTS, "{text}: {tile:?}");
                assert!(outputs >= 64, "{text}: {tile:?}");
            }
        }
        for text in
            ["zncc:f32:2000x2000*16x16:valid", "corr:f32:2000x2000*64x64:full", "zncc:u8:100x100x100*8x8x8:same"]
        {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(
                direct_tiles(&spec, in_place(&spec, DType::F32)),
                plain_tiles(&spec, in_place(&spec, DType::F32))
            );
        }
    }
}
