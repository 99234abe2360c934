//! The grid of tiles: anchored at the first output of the mode, so that a tile is the same whatever region is asked
//! for.

use std::ops::Range;

use flcc_core::frame::Frame;
use flcc_core::shape::join;

use crate::run::geometry::Samples;

/// Tiles that cover a spec's region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Outputs of a whole tile an axis.
    tile: [usize; 3],
    /// First tile an axis.
    first: [usize; 3],
    /// Tiles an axis.
    counts: [usize; 3],
    /// Begin and end of what the mode computes, in the full result.
    whole: [(usize, usize); 3],
    /// Begin and end of what is asked for.
    wanted: [(usize, usize); 3],
    template: [usize; 3],
}

/// One tile, in coordinates of the full result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileBox {
    /// The tile's first output.
    pub origin: [usize; 3],
    /// The tile's outputs: all that the mode computes of it, also those not asked for.
    pub shape: [usize; 3],
    /// Begin and end of what is asked for, relative to `origin`.
    pub keep: [(usize, usize); 3],
    /// Where `keep` begins in the result, relative to the region.
    pub place: [usize; 3],
}

impl TileBox {
    /// The tile, of which only some positions of what is asked for are kept.
    pub fn within(mut self, region: &[Range<usize>; 3]) -> TileBox {
        for (axis, positions) in region.iter().enumerate() {
            let (keep, place) = (self.keep[axis], self.place[axis]);
            let (begin, end) = (place.max(positions.start), (place + keep.1 - keep.0).min(positions.end));
            self.keep[axis] = (keep.0 + begin - place, keep.0 + end - place);
            self.place[axis] = begin;
        }
        self
    }

    /// The tile in parts of up to `capacity` outputs an axis; those that nothing is asked of are left out.
    pub fn parts(&self, capacity: [usize; 3]) -> impl Iterator<Item = TileBox> + '_ {
        let counts = [0, 1, 2].map(|axis| self.shape[axis].div_ceil(capacity[axis].max(1)));
        (0..counts.iter().product()).filter_map(move |index: usize| {
            let at = [index / (counts[1] * counts[2]), index / counts[2] % counts[1], index % counts[2]];
            let mut part = *self;
            for axis in 0..3 {
                let begin = at[axis] * capacity[axis];
                let end = (begin + capacity[axis]).min(self.shape[axis]);
                let (from, to) = (self.keep[axis].0.clamp(begin, end), self.keep[axis].1.clamp(begin, end));
                if from == to {
                    return None;
                }
                part.origin[axis] = self.origin[axis] + begin;
                part.shape[axis] = end - begin;
                part.keep[axis] = (from - begin, to - begin);
                part.place[axis] = self.place[axis] + from - self.keep[axis].0;
            }
            Some(part)
        })
    }
}

impl Tiling {
    /// Tiles of up to `tile` outputs.
    pub fn new(frame: Frame, tile: [usize; 3]) -> Tiling {
        let bounds = |region: flcc_core::extent::Region| {
            let shape = region.shape.padded();
            [0, 1, 2].map(|axis| (region.origin[axis], region.origin[axis] + shape[axis]))
        };
        let (whole, wanted) = (bounds(frame.mode_region()), bounds(frame.region()));
        let tile = tile.map(|length| length.max(1));
        let first = [0, 1, 2].map(|axis| (wanted[axis].0 - whole[axis].0) / tile[axis]);
        let counts = [0, 1, 2].map(|axis| (wanted[axis].1 - whole[axis].0).div_ceil(tile[axis]) - first[axis]);
        Tiling { tile, first, counts, whole, wanted, template: frame.window().padded() }
    }

    /// How many tiles there are.
    pub fn count(&self) -> usize {
        self.counts.iter().product()
    }

    /// The largest tile an axis, as cut to what the mode computes.
    pub fn largest(&self) -> [usize; 3] {
        // Only the last may be cut.
        [0, 1, 2].map(|axis| {
            let (begin, end) = self.span(axis, 0);
            end - begin
        })
    }

    /// What the largest tile has of all outputs that tiles compute.
    pub fn largest_share(&self) -> f64 {
        self.largest().iter().map(|&length| length as f64).product::<f64>() / self.rounded([1; 3]).max(1.0)
    }

    /// How many tiles there are along each axis.
    pub fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Where a tile begins along an axis, relative to what is asked for; of the number behind the last, its length.
    pub fn seam(&self, axis: usize, number: usize) -> usize {
        if number >= self.counts[axis] {
            return self.length(axis);
        }
        self.span(axis, number).0.max(self.wanted[axis].0) - self.wanted[axis].0
    }

    /// The numbers, along each axis, of the tiles that some positions of what is asked for lie in.
    pub fn under(&self, region: &[Range<usize>; 3]) -> [Range<usize>; 3] {
        [0, 1, 2].map(|axis| {
            let begin = self.whole[axis].0 + self.first[axis] * self.tile[axis];
            let number = |place: usize| (self.wanted[axis].0 + place - begin) / self.tile[axis];
            let Range { start, end } = region[axis];
            number(start)..if start < end { number(end - 1) + 1 } else { number(start) }
        })
    }

    /// Positions of an axis that are asked for.
    fn length(&self, axis: usize) -> usize {
        self.wanted[axis].1 - self.wanted[axis].0
    }

    /// The outputs of all tiles, where the lengths of each are rounded up to multiples of `step`.
    pub fn rounded(&self, step: [usize; 3]) -> f64 {
        self.summed(|axis, length| length.next_multiple_of(step[axis].max(1)))
    }

    /// The samples of all tiles, margins included.
    pub fn gathered(&self) -> f64 {
        self.summed(|axis, length| length + self.template[axis] - 1)
    }

    /// The sum over all tiles of the product of what `of` makes of their lengths.
    fn summed(&self, of: impl Fn(usize, usize) -> usize) -> f64 {
        let along = |axis: usize| {
            let length = |number: usize| {
                let (begin, end) = self.span(axis, number);
                of(axis, end - begin) as f64
            };
            // Only the last may be cut.
            let count = self.counts[axis];
            if count == 0 { 0.0 } else { (count - 1) as f64 * length(0) + length(count - 1) }
        };
        (0..3).map(along).product()
    }

    fn span(&self, axis: usize, k: usize) -> (usize, usize) {
        let begin = self.whole[axis].0 + (self.first[axis] + k) * self.tile[axis];
        (begin, (begin + self.tile[axis]).min(self.whole[axis].1))
    }

    /// A tile by its number, row-major.
    pub fn get(&self, index: usize) -> TileBox {
        let [_, rows, columns] = self.counts;
        self.at([index / (rows * columns), index / columns % rows, index % columns])
    }

    /// A tile by its number along each axis.
    pub fn at(&self, at: [usize; 3]) -> TileBox {
        let mut tile = TileBox { origin: [0; 3], shape: [0; 3], keep: [(0, 0); 3], place: [0; 3] };
        for (axis, &number) in at.iter().enumerate() {
            let (begin, end) = self.span(axis, number);
            let (from, to) = (begin.max(self.wanted[axis].0), end.min(self.wanted[axis].1));
            tile.origin[axis] = begin;
            tile.shape[axis] = end - begin;
            tile.keep[axis] = (from - begin, to - begin);
            tile.place[axis] = from - self.wanted[axis].0;
        }
        tile
    }

    /// The image samples under a tile's panels.
    pub fn samples(&self, tile: &TileBox) -> Samples {
        Samples {
            begin: [0, 1, 2].map(|axis| tile.origin[axis] as isize - (self.template[axis] as isize - 1)),
            len: [0, 1, 2].map(|axis| tile.shape[axis] + self.template[axis] - 1),
        }
    }
}

/// A tile as it stands in a kernel's name: `t64x512`.
pub fn tile_name(frame: Frame, tile: [usize; 3]) -> String {
    let mut name = join(&frame.image().unpad(&tile), "x");
    name.insert(0, 't');
    name
}

/// A tile of these outputs: all of an axis whose outputs, all of them, fit in it.
pub fn covering(frame: Frame, outputs: [usize; 3]) -> [usize; 3] {
    let (full, window, whole) = (frame.image().padded(), frame.window().padded(), frame.mode_region().shape.padded());
    [0, 1, 2].map(|axis| if whole[axis] <= outputs[axis] { full[axis] + window[axis] - 1 } else { outputs[axis] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_core::spec::Spec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_what_a_tile_keeps(
            shape in prop::array::uniform3(1usize..9),
            capacity in prop::array::uniform3(1usize..6),
            cut in prop::array::uniform6(0usize..9),
        ) {
            let keep = [0, 1, 2].map(|axis| {
                let from = cut[axis].min(shape[axis] - 1);
                (from, (from + 1 + cut[axis + 3]).min(shape[axis]))
            });
            let tile = TileBox { origin: [3, 5, 7], shape, keep, place: [2, 0, 1] };
            let mut seen = std::collections::HashMap::new();
            for part in tile.parts(capacity) {
                let fits = |axis: usize| part.shape[axis] <= capacity[axis] && part.keep[axis].1 <= part.shape[axis];
                prop_assert!((0..3).all(fits));
                for z in part.keep[0].0..part.keep[0].1 {
                    for y in part.keep[1].0..part.keep[1].1 {
                        for x in part.keep[2].0..part.keep[2].1 {
                            let at = [z, y, x];
                            let global = [0, 1, 2].map(|axis| part.origin[axis] + at[axis]);
                            let place = [0, 1, 2].map(|axis| part.place[axis] + at[axis] - part.keep[axis].0);
                            prop_assert!(seen.insert(global, place).is_none());
                        }
                    }
                }
            }
            prop_assert_eq!(seen.len(), (0..3).map(|axis| keep[axis].1 - keep[axis].0).product::<usize>());
            for (global, place) in seen {
                let from_tile = |axis: usize| global[axis] - tile.origin[axis] - keep[axis].0;
                prop_assert!((0..3).all(|axis| from_tile(axis) == place[axis] - tile.place[axis]));
            }
        }

        #[test]
        fn tiles_cover_the_region_once_and_do_not_move_with_it(
            image in prop::array::uniform2(4usize..30),
            template in prop::array::uniform2(1usize..5),
            tile in prop::array::uniform2(1usize..12),
            mode in 0usize..3,
            cut in prop::array::uniform4(0usize..6),
        ) {
            let mode = ["full", "same", "valid"][mode];
            let text = format!("corr:f32:{}x{}*{}x{}:{mode}", image[0], image[1], template[0], template[1]);
            let whole: Spec = text.parse().unwrap();
            let shape = whole.out_shape().padded();
            let origin = [0, 1].map(|axis| whole.region().origin[axis + 1] + cut[axis].min(shape[axis + 1] - 1));
            let lengths = [0, 1].map(|axis| {
                (shape[axis + 1] + whole.region().origin[axis + 1] - origin[axis]).min(cut[axis + 2] + 1)
            });
            let roi = format!("{},{}:{}x{}", origin[0], origin[1], lengths[0], lengths[1]).parse().unwrap();
            let part = whole.clone().with_roi(Some(roi)).unwrap();
            let tile = [1, tile[0], tile[1]];
            let grid = Tiling::new(whole.frame(), tile);
            let all: Vec<TileBox> = (0..grid.count()).map(|index| grid.get(index)).collect();
            let tiling = Tiling::new(part.frame(), tile);
            let mut seen = vec![0; part.out_shape().len()];
            for index in 0..tiling.count() {
                let tile = tiling.get(index);
                prop_assert!(all.iter().any(|other| other.origin == tile.origin && other.shape == tile.shape));
                for y in tile.keep[1].0..tile.keep[1].1 {
                    for x in tile.keep[2].0..tile.keep[2].1 {
                        let at = [tile.place[1] + y - tile.keep[1].0, tile.place[2] + x - tile.keep[2].0];
                        seen[at[0] * part.out_shape().padded()[2] + at[1]] += 1;
                        prop_assert_eq!(part.region().origin[1] + at[0], tile.origin[1] + y);
                    }
                }
            }
            prop_assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
