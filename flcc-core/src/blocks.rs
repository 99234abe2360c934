//! Blocks of a direct sum: how many products are added up before their sum goes to a total.
//!
//! A sum of `n` products taken one after the other is rounded `n` times, and where the roundings agree instead of
//! averaging out (binary images, constant patches, one bright pixel on an even ground) it is off by `n` roundoffs. Sums
//! are taken in blocks instead, blocks add up to subtotals and these to the sum. If product `j` goes through `m_j`
//! roundings, the sum `Σ P_j t_j` is off by at most `u Σ m_j |P_j t_j| <= u |P| √(Σ (m_j t_j)²)`, whatever the samples;
//! that is to be within what the conventions grant, `(16 + √n) u |P| |t|`.
//!
//! [`Blocks::strict`] keeps every `m_j` below that, so it serves every template. [`Blocks::even`] has fewer blocks and
//! serves templates whose taps are spread about evenly, which is asked of each of them ([`serves`]). Kernels on
//! CPUs follow both; those on GPUs have runs of their own (`runs.rs`), and the error model takes either.

use crate::runs::{self, Run};

/// Longest piece of a row: a longer row of taps is cut.
const LONGEST: usize = 32;
/// Longest block of several rows, or of several planes.
const MOST: usize = 64;
/// Blocks that a row is cut into, the longer ones preferred: they divide what kernels of lines take together.
const CUTS: [usize; 2] = [LONGEST, LONGEST / 2];

/// Roundings that are granted to each product of a sum of so many: `16 + √n`, less one for rounding a sample and one
/// for a tap to the type of the sum.
pub fn granted(taps: usize) -> usize {
    14 + taps.isqrt()
}

/// Whether a sum with these taps is off by what is granted at most: `rounded` is the square of their norm, each times
/// the roundings of its product.
pub fn serves(rounded: f64, taps: &[f64]) -> bool {
    rounded <= (granted(taps.len()) as f64).powi(2) * taps.iter().map(|tap| tap * tap).sum::<f64>()
}

/// The share of what is granted that even taps may take: others take more.
const EVEN: f64 = 0.9;

/// How the products of a template are taken together, in the order of its samples.
///
/// A block is some taps of a row, or some rows of a plane, or some planes; it ends with its row, its plane or the
/// template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    taps: usize,
    rows: usize,
    planes: usize,
    blocks: usize,
}

impl Blocks {
    /// The blocks that serve every template of this depth, height and width: as few as keep every product within
    /// [`granted`].
    pub fn strict(template: [usize; 3]) -> Blocks {
        Blocks::of(template, &|blocks, template| blocks.chain(template) as f64)
    }

    /// The blocks that serve templates of even taps: as few as keep the root mean square of roundings well within
    /// [`granted`].
    pub fn even(template: [usize; 3]) -> Blocks {
        Blocks::of(template, &|blocks, template| blocks.mean_square(template).sqrt() / EVEN)
    }

    /// The fewest whose `roundings` are granted.
    fn of(template: [usize; 3], roundings: &dyn Fn(&Blocks, [usize; 3]) -> f64) -> Blocks {
        let [depth, height, width] = template.map(|side| side.max(1));
        let plane = best(&cuts(height, width), [1, height, width], roundings);
        if depth == 1 {
            return plane;
        }
        // As in a plane alone, so that one body serves both; where that does not do, as it may be.
        let template = [depth, height, width];
        let stacked = |cut: Blocks| {
            let most =
                if cut.rows >= height && cut.taps >= width { (MOST / (height * width)).clamp(1, depth) } else { 1 };
            (1..=most).map(move |planes| Blocks { planes, ..cut })
        };
        let found = best(&stacked(plane).collect::<Vec<_>>(), template, roundings);
        if roundings(&found, template) <= granted(depth * height * width) as f64 {
            return found;
        }
        best(&cuts(height, width).into_iter().flat_map(stacked).collect::<Vec<_>>(), template, roundings)
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

    /// The most roundings that a product goes through, that of the product included: those of its block, of its
    /// subtotal and of the sum.
    pub fn chain(&self, template: [usize; 3]) -> usize {
        let [block, subtotal, sum] = self.levels(template);
        block + subtotal + sum - 2
    }

    /// The same as runs.
    pub fn runs(&self, template: [usize; 3]) -> impl Iterator<Item = Run> + use<> {
        let blocks = self.blocks;
        self.lengths(template)
            .enumerate()
            .map(move |(number, products)| Run { products, ends: (number + 1).is_multiple_of(blocks) })
    }

    /// How many roundings each product goes through, in order, that of the product included.
    pub fn roundings(&self, template: [usize; 3]) -> Vec<u32> {
        runs::roundings(&self.runs(template).collect::<Vec<_>>())
    }

    /// Products of the longest block, blocks of a subtotal, and subtotals.
    fn levels(&self, [depth, height, width]: [usize; 3]) -> [usize; 3] {
        let longest = self.taps.min(width) * self.rows.min(height) * self.planes.min(depth);
        let count = self.count([depth, height, width]);
        [longest, self.blocks.min(count), count.div_ceil(self.blocks)]
    }

    /// The mean square of the roundings that products go through, about: as if all blocks and subtotals were as long as
    /// the longest.
    fn mean_square(&self, template: [usize; 3]) -> f64 {
        let levels = self.levels(template).map(|length| length as f64);
        let mean = levels.iter().map(|length| (length - 1.0) / 2.0).sum::<f64>() + 1.0;
        mean * mean + levels.iter().map(|length| (length * length - 1.0) / 12.0).sum::<f64>()
    }

    /// The same with one subtotal where `roundings` are within what is granted, else with as many as have the fewest
    /// roundings.
    fn in_subtotals(self, template: [usize; 3], roundings: &dyn Fn(&Blocks, [usize; 3]) -> f64) -> Blocks {
        let count = self.count(template);
        let with = |blocks: usize| roundings(&Blocks { blocks, ..self }, template);
        if with(count) <= granted(template.iter().product()) as f64 {
            return Blocks { blocks: count, ..self };
        }
        let few = (2..=count.isqrt() + 1).map(|subtotals| count.div_ceil(subtotals));
        Blocks { blocks: few.min_by(|&a, &b| with(a).total_cmp(&with(b))).unwrap_or(count), ..self }
    }
}

/// How the rows of a plane may be taken together or cut.
fn cuts(height: usize, width: usize) -> Vec<Blocks> {
    let most = if width <= LONGEST { (MOST / width).min(height) } else { 0 };
    let whole = (1..=most).map(|rows| Blocks { taps: width, rows, planes: 1, blocks: 1 });
    whole
        .chain(CUTS.into_iter().filter(|&taps| taps < width).map(|taps| Blocks { taps, rows: 1, planes: 1, blocks: 1 }))
        .collect()
}

/// The fewest blocks whose roundings are granted, and of those the fewest subtotals; where none is, the fewest
/// roundings.
fn best(candidates: &[Blocks], template: [usize; 3], roundings: &dyn Fn(&Blocks, [usize; 3]) -> f64) -> Blocks {
    let granted = granted(template.iter().product()) as f64;
    let rank = |blocks: &Blocks| {
        let count = blocks.count(template);
        ((roundings(blocks, template) - granted).max(0.0), count, count.div_ceil(blocks.blocks))
    };
    let better =
        |a: &(f64, usize, usize), b: &(f64, usize, usize)| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)));
    candidates
        .iter()
        .map(|blocks| blocks.in_subtotals(template, roundings))
        .min_by(|a, b| better(&rank(a), &rank(b)))
        .expect("a row is cut, or it is not")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> impl Iterator<Item = [usize; 3]> {
        let large = [
            [1, 1, 5000],
            [1, 1, 123_456],
            [1, 100, 100],
            [1, 1024, 1024],
            [100, 100, 100],
            [2, 300, 7],
            [1, 2000, 3],
            [3000, 1, 1],
        ];
        let small = (1..=12).flat_map(|d| (1..=40).flat_map(move |h| (1..=70).map(move |w| [d, h, w])));
        small.chain(large)
    }

    /// Whether blocks serve these taps, in the order in which they are added up.
    fn serve(blocks: Blocks, template: [usize; 3], taps: &[f64]) -> bool {
        let rounded = taps.iter().zip(blocks.roundings(template)).map(|(tap, m)| (tap * f64::from(m)).powi(2)).sum();
        serves(rounded, taps)
    }

    #[test]
    fn no_product_goes_through_more_roundings_than_are_granted() {
        for template in shapes() {
            let (strict, n) = (Blocks::strict(template), template.iter().product::<usize>());
            let longest = strict.roundings(template).into_iter().max().unwrap() as usize;
            assert!(longest <= strict.chain(template), "{strict:?} of {template:?}: {longest}");
            assert!(strict.chain(template) <= granted(n), "{strict:?} of {template:?}: {}", strict.chain(template));
        }
    }

    #[test]
    fn blocks_hold_every_product_once() {
        for (template, blocks) in
            shapes().flat_map(|template| [Blocks::strict, Blocks::even].map(|of| (template, of(template))))
        {
            let n = template.iter().product::<usize>();
            assert_eq!(blocks.lengths(template).sum::<usize>(), n, "{blocks:?} of {template:?}");
            assert_eq!(blocks.lengths(template).count(), blocks.count(template), "{blocks:?} of {template:?}");
            assert_eq!(blocks.roundings(template).len(), n, "{blocks:?} of {template:?}");
        }
    }

    #[test]
    fn even_taps_are_served_by_fewer_blocks() {
        for template in shapes() {
            let (even, strict) = (Blocks::even(template), Blocks::strict(template));
            let ones = vec![1.0; template.iter().product()];
            assert!(serve(even, template, &ones), "{even:?} of {template:?}");
            assert!(even.count(template) <= strict.count(template), "{even:?} {strict:?} of {template:?}");
        }
        let count =
            |template: [usize; 3]| [Blocks::even(template).count(template), Blocks::strict(template).count(template)];
        assert_eq!(
            [[1, 4, 4], [1, 5, 5], [1, 8, 8], [3, 3, 3], [5, 5, 5], [1, 1, 64]].map(count),
            [[1, 1], [1, 2], [2, 4], [1, 2], [5, 10], [2, 4]]
        );
    }

    #[test]
    fn a_template_of_one_tap_needs_the_strict_ones() {
        let mut taps = vec![1e-6; 25];
        taps[0] = 1.0;
        let template = [1, 5, 5];
        assert!(!serve(Blocks::even(template), template, &taps) && serve(Blocks::strict(template), template, &taps));
        taps.reverse();
        assert!(serve(Blocks::even(template), template, &taps));
    }

    /// A body with the rows of a square written out serves volumes too: these cut their planes in the same way, and
    /// have no subtotals.
    #[test]
    fn planes_of_volumes_are_cut_as_planes_are() {
        for (side, depth) in (2..=8).flat_map(|side| (1..=side).map(move |depth| (side, depth))) {
            let (plane, template) = (Blocks::even([1, side, side]), [depth, side, side]);
            let volume = Blocks::even(template);
            assert_eq!((volume.taps, volume.rows), (plane.taps, plane.rows), "{template:?}");
            assert!(volume.blocks >= volume.count(template), "{template:?}: {volume:?}");
        }
    }
}
