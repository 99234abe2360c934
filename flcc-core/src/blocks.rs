//! Blocks of a direct sum: how many products are added up before their sum goes to a total.
//!
//! A sum of `n` products taken one after the other is rounded `n` times, and where the roundings agree instead of averaging out (binary
//! images, constant patches, one bright pixel on an even ground) it is off by `n` roundoffs. Sums are taken in blocks instead, blocks add up
//! to subtotals and these to the sum, so that no product goes through more roundings than the conventions grant: `16 + √n` roundoffs of
//! `|P| |t|`, by Cauchy-Schwarz, whatever the samples. Kernels on CPUs and GPUs follow [`Blocks::of`], and the error model asks it too.

/// Longest block: a longer row of taps is cut.
const LONGEST: usize = 32;
/// Blocks that a row is cut into, the longer ones preferred: they divide what kernels of lines take together.
const CUTS: [usize; 2] = [LONGEST, LONGEST / 2];

/// Roundings that no product of a sum of so many may exceed: `16 + √n`, less one for rounding a sample and one for a tap to the type of the sum.
pub fn granted(taps: usize) -> usize {
    14 + taps.isqrt()
}

/// How the products of a template are taken together, in the order of its samples.
///
/// A block is some taps of a row, or some rows of a plane, or some planes; it ends with its row, its plane or the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    taps: usize,
    rows: usize,
    planes: usize,
    blocks: usize,
}

impl Blocks {
    /// Those of a template of this depth, height and width: as few blocks as keep [`Blocks::chain`] within [`granted`].
    pub fn of(template: [usize; 3]) -> Blocks {
        let [depth, height, width] = template.map(|side| side.max(1));
        let plane = best(&cuts(height, width), [1, height, width]);
        if depth == 1 {
            return plane;
        }
        // As in a plane alone, so that one body serves both; where that does not do, as it may be.
        let template = [depth, height, width];
        let stacked = |cut: Blocks| {
            let most = if cut.rows >= height && cut.taps >= width { (LONGEST / (height * width)).clamp(1, depth) } else { 1 };
            (1..=most).map(move |planes| Blocks { planes, ..cut })
        };
        let found = best(&stacked(plane).collect::<Vec<_>>(), template);
        if found.chain(template) <= granted(depth * height * width) {
            return found;
        }
        best(&cuts(height, width).into_iter().flat_map(stacked).collect::<Vec<_>>(), template)
    }

    /// Taps of a row that one block has at most: all of a row, or the row is cut.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Rows of a plane that one block has at most.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Planes that one block has at most.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Blocks of a subtotal.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Products of each block, in order.
    pub fn lengths(&self, [depth, height, width]: [usize; 3]) -> impl Iterator<Item = usize> + use<> {
        // From the outermost that is cut inwards: pieces of so many products, each cut alike.
        let (pieces, piece, step) = if self.taps < width {
            (depth * height, width, self.taps)
        } else if self.rows < height {
            (depth, height * width, self.rows * width)
        } else {
            (1, depth * height * width, self.planes * height * width)
        };
        (0..pieces).flat_map(move |_| (0..piece).step_by(step.max(1)).map(move |begin| step.min(piece - begin)))
    }

    /// How many blocks there are.
    pub fn count(&self, [depth, height, width]: [usize; 3]) -> usize {
        if self.taps < width {
            depth * height * width.div_ceil(self.taps)
        } else {
            height.div_ceil(self.rows) * depth.div_ceil(self.planes)
        }
    }

    /// The most roundings that a product goes through, that of the product included: those of its block, of its subtotal and of the sum.
    pub fn chain(&self, template: [usize; 3]) -> usize {
        let longest = self.lengths(template).max().unwrap_or(0);
        let count = self.count(template);
        longest + self.blocks.min(count) + count.div_ceil(self.blocks) - 2
    }

    /// The same with as many blocks to a subtotal as keep the chain within what is granted; where none does, with the shortest chain.
    fn in_subtotals(self, template: [usize; 3]) -> Blocks {
        let (count, granted) = (self.count(template), granted(template.iter().product()));
        let chain = |blocks: usize| Blocks { blocks, ..self }.chain(template);
        let few = || (1..=count.isqrt() + 1).map(|subtotals| count.div_ceil(subtotals));
        let found = few().find(|&blocks| chain(blocks) <= granted);
        Blocks { blocks: found.or_else(|| few().min_by_key(|&blocks| chain(blocks))).unwrap_or(1), ..self }
    }
}

/// How the rows of a plane may be taken together or cut.
fn cuts(height: usize, width: usize) -> Vec<Blocks> {
    let most = if width <= LONGEST { (LONGEST / width).min(height) } else { 0 };
    let whole = (1..=most).map(|rows| Blocks { taps: width, rows, planes: 1, blocks: 1 });
    whole.chain(CUTS.into_iter().filter(|&taps| taps < width).map(|taps| Blocks { taps, rows: 1, planes: 1, blocks: 1 })).collect()
}

/// The fewest blocks whose chain is granted, and of those the fewest subtotals; where none is, the shortest chain.
fn best(candidates: &[Blocks], template: [usize; 3]) -> Blocks {
    let granted = granted(template.iter().product());
    candidates
        .iter()
        .map(|blocks| blocks.in_subtotals(template))
        .min_by_key(|blocks| {
            let (chain, count) = (blocks.chain(template), blocks.count(template));
            (chain.saturating_sub(granted), count, count.div_ceil(blocks.blocks))
        })
        .expect("a row is cut, or it is not")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up a product in the block, the subtotal and the sum that it belongs to, and counts its roundings one by one.
    fn longest_chain(blocks: &Blocks, template: [usize; 3]) -> usize {
        let lengths: Vec<usize> = blocks.lengths(template).collect();
        assert_eq!(lengths.iter().sum::<usize>(), template.iter().product::<usize>(), "{blocks:?} of {template:?}");
        assert_eq!(lengths.len(), blocks.count(template), "{blocks:?} of {template:?}");
        let subtotals: Vec<&[usize]> = lengths.chunks(blocks.blocks).collect();
        let mut longest = 0;
        for (number, subtotal) in subtotals.iter().enumerate() {
            // The first of several is taken as it is, the others are added.
            let after = |place: usize, count: usize| if count == 1 { 0 } else { count - place.max(1) };
            for (place, &length) in subtotal.iter().enumerate() {
                longest = longest.max(length + after(place, subtotal.len()) + after(number, subtotals.len()));
            }
        }
        longest
    }

    #[test]
    fn no_product_goes_through_more_roundings_than_are_granted() {
        let large =
            [[1, 1, 5000], [1, 1, 123_456], [1, 100, 100], [1, 1024, 1024], [100, 100, 100], [2, 300, 7], [1, 2000, 3], [3000, 1, 1]];
        let small = (1..=12).flat_map(|d| (1..=40).flat_map(move |h| (1..=70).map(move |w| [d, h, w])));
        for template in small.chain(large) {
            let blocks = Blocks::of(template);
            let chain = longest_chain(&blocks, template);
            assert!(chain <= blocks.chain(template), "{blocks:?} of {template:?}: {chain}");
            let granted = granted(template.iter().product());
            assert!(blocks.chain(template) <= granted, "{blocks:?} of {template:?}: {} of {granted}", blocks.chain(template));
        }
    }

    #[test]
    fn small_templates_are_one_block_and_squares_few() {
        let count = |template: [usize; 3]| Blocks::of(template).count(template);
        assert_eq!([[1, 2, 2], [1, 3, 3], [1, 4, 4], [1, 1, 16], [2, 2, 2]].map(count), [1; 5]);
        assert_eq!([[1, 5, 5], [1, 8, 8], [1, 16, 16]].map(count), [2, 4, 16]);
    }

    /// A body with the rows of a square written out serves volumes too: these cut their planes in the same way.
    #[test]
    fn planes_of_volumes_are_cut_as_planes_are() {
        for (side, depth) in (2..=12).flat_map(|side| (2..=40).map(move |depth| (side, depth))) {
            let (plane, volume) = (Blocks::of([1, side, side]), Blocks::of([depth, side, side]));
            assert_eq!((volume.taps, volume.rows), (plane.taps, plane.rows), "{depth} planes of {side}x{side}");
        }
    }
}
