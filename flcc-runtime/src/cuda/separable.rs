//! Correlation by products of lines in one kernel, from the image to the result: how a template lies, what a block
//! takes of shared memory, how sums are rounded, and what they cost. The kernel's text, templates/cuda/separable, has
//! how it goes.

use flcc_core::dtype::DType;
use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::plan::machine::Device;
use crate::problem::error_model::Rounding;
use crate::problem::factor::{FactorError, to_compute};

/// The operation of its kernels.
pub(crate) const OP: &str = "separable";

/// Taps that a kernel reads at once: lines are filled up with zeros to whole fours.
const FOUR: usize = 4;

/// The kernel that computes in a type.
pub(crate) fn kernel(real: DType) -> Option<&'static Entry> {
    flcc_generated::generic(OP, real.name(), false)
}

/// What a kernel takes of templates of some sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    height: usize,
    width: usize,
    /// Rows and columns of outputs of a block.
    tile: [usize; 2],
    /// Products that are added up before their sum goes on.
    run: usize,
    double: bool,
}

impl Shape {
    pub fn of(entry: &Entry, [_, height, width]: [usize; 3]) -> Shape {
        Shape { height, width, tile: entry.tile, run: entry.run, double: entry.dtype == DType::F64.name() }
    }

    /// Taps of the lines along columns and along rows, with what fills them up.
    fn filled(self) -> [usize; 2] {
        [self.height, self.width].map(|side| side.next_multiple_of(FOUR))
    }

    /// Elements of the lines of a product.
    pub fn product(self) -> usize {
        self.filled().iter().sum()
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        if self.double { size_of::<f64>() } else { size_of::<f32>() }
    }

    /// Rows and columns of samples that a block takes.
    fn samples(self) -> [usize; 2] {
        let [filled, tile] = [self.filled(), self.tile];
        [0, 1].map(|axis| tile[axis] - 1 + filled[axis])
    }

    /// Bytes of shared memory of a block: the lines of two products, samples, and sums along their rows.
    pub fn shared(self) -> usize {
        let [rows, columns] = self.samples();
        (2 * self.product() + rows * (columns + self.tile[1] + 1)) * self.size()
    }

    /// What one of these devices lacks for blocks to take such templates, if it lacks something.
    pub fn lacking(self, devices: &[Device]) -> Option<String> {
        let needed = self.shared();
        devices.iter().find_map(|Device { name, capability, .. }| {
            let (there, Shape { height, width, .. }) = (most_shared(*capability), self);
            (needed > there).then(|| {
                format!(
                    "products of lines of a template of {height}x{width} need {needed} bytes of shared memory a \
                     block, {name} has {there}"
                )
            })
        })
    }

    /// The products of one channel of a template, each as its line along rows and then that along columns; at least
    /// one, of zeros.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn products(self, values: &[f64]) -> Result<Vec<f64>, FactorError> {
        let factors = to_compute(values, [1, self.height, self.width], self.double)?;
        let mut all = vec![0.0; factors.terms.len().max(1) * self.product()];
        let [_, along] = self.filled();
        for (term, to) in factors.terms.iter().zip(all.chunks_mut(self.product())) {
            // There is no depth to sum along, so the one number there goes to the rows.
            let [gain, column, row] = &term.vectors;
            to.iter_mut().zip(row).for_each(|(to, tap)| *to = tap * gain[0]);
            to[along..][..self.height].copy_from_slice(column);
        }
        Ok(all)
    }

    /// The most roundings that a product of a line goes through: those of its run, and of the sums of runs after it.
    fn roundings(self, taps: usize) -> usize {
        taps.min(self.run) + taps.div_ceil(self.run) - 1
    }

    /// How sums of so many products of lines are rounded, samples and taps included.
    pub fn rounding(self, terms: usize) -> Rounding {
        let chain = self.roundings(self.height) + self.roundings(self.width) + 4;
        Rounding::Separable { terms: terms as f64, lines: (self.height + self.width) as f64, chain: chain as f64 }
    }

    /// Blocks that outputs of an image take: rows and columns of them.
    pub fn blocks(self, [_, rows, columns]: [usize; 3]) -> [usize; 2] {
        [rows.div_ceil(self.tile[0]), columns.div_ceil(self.tile[1])]
    }

    /// What the blocks of so many images come to that one of the multiprocessors computes: samples, and multiply-adds
    /// of one product of lines.
    pub fn work(self, outputs: [usize; 3], images: usize, multiprocessors: usize) -> [f64; 2] {
        let blocks = (images * self.blocks(outputs).iter().product::<usize>()).div_ceil(multiprocessors) as f64;
        let ([rows, columns], [down, along]) = (self.samples(), self.filled());
        let products = self.tile[1] * (rows * along + self.tile[0] * down);
        [blocks * (rows * columns) as f64, blocks * products as f64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, Search, Twofold};
    use crate::problem::error_model::Figures;

    fn shape(real: DType, sides: [usize; 2]) -> Shape {
        Shape::of(kernel(real).unwrap(), [1, sides[0], sides[1]])
    }

    #[test]
    fn lines_make_up_the_template() {
        let random = |k: usize| (k * k * 31 % 17) as f64 - 7.0;
        for (sides, terms) in [([3, 5], 1), ([17, 12], 2), ([1, 9], 1), ([6, 1], 1), ([8, 8], 3)] {
            let [height, width] = sides;
            let factor = |k: usize, term: usize| random(k + 5 * term + 1) / 8.0;
            let values: Vec<f64> = (0..height * width)
                .map(|at| (0..terms).map(|r| factor(at / width, r) * factor(at % width + 40, r)).sum())
                .collect();
            for real in [DType::F32, DType::F64] {
                let shape = shape(real, sides);
                let products = shape.products(&values).unwrap();
                let count = products.len() / shape.product();
                assert!(products.len().is_multiple_of(shape.product()) && count <= terms.max(height.min(width)));
                let along = width.next_multiple_of(4);
                for (at, value) in values.iter().enumerate() {
                    let of = |lines: &[f64]| lines[at % width] * lines[along + at / width];
                    let sum: f64 = products.chunks(shape.product()).map(of).sum();
                    assert!((sum - value).abs() < 1e-6, "{sides:?} in {real} at {at}: {sum}, expected {value}");
                }
                let filled = |lines: &[f64]| lines[width..along].iter().chain(&lines[along + height..]).sum::<f64>();
                assert!(products.chunks(shape.product()).all(|lines| filled(lines) == 0.0));
            }
        }
        assert_eq!(shape(DType::F32, [3, 5]).products(&[0.0; 15]).unwrap(), [0.0; 12]);
    }

    #[test]
    fn blocks_take_what_the_kernel_counts() {
        // 2 (8 + 8) taps, 71 rows of 71 samples and of 65 sums.
        assert_eq!(shape(DType::F32, [8, 8]).shared(), (32 + 71 * (71 + 65)) * 4);
        assert_eq!(shape(DType::F64, [5, 8]).shared(), (32 + 39 * (71 + 65)) * 8);
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let serves = |side: usize| {
            [(7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)]
                .map(|capability| shape(DType::F32, [side; 2]).lacking(&[device(capability)]).is_none())
        };
        assert_eq!(serves(32), [true; 6]);
        assert_eq!(serves(64), [false, true, true, true, true, true]);
        assert_eq!(serves(128), [false, false, false, true, true, false]);
        let lacking = shape(DType::F32, [64; 2]).lacking(&[device((7, 5))]).unwrap();
        assert!(lacking.contains("64x64") && lacking.ends_with("a device has 65536"), "{lacking}");
    }

    /// A line's sum in runs, as the kernel's emulation adds it up bit by bit.
    fn in_runs(run: usize, taps: &[f64], of: impl Fn(usize) -> f32) -> f32 {
        let of_run = |(number, taps): (usize, &[f64])| {
            let products = taps.iter().enumerate().map(|(j, &tap)| (tap as f32, of(number * run + j)));
            products.fold(0.0f32, |sum, (tap, sample)| tap.mul_add(sample, sum))
        };
        taps.chunks(run).enumerate().map(of_run).fold(0.0, |sum, run| sum + run)
    }

    /// Images that are 0 but for a multiple of the template, which is a sum of products of lines of two values, and
    /// equal samples, at amplitudes that are searched for the worst.
    #[test]
    fn agreeing_errors_stay_within_the_worst_case() {
        let shapes = [[8, 8], [16, 16], [32, 32], [30, 40], [16, 75], [1, 64]];
        let cases = || shapes.into_iter().flat_map(|sides| [1, 2, 5].map(|terms| (sides, terms)));
        let rounds = || testing::seeds().take(10);
        let mut search = Search::new(4, cases().count() * rounds().count() * 2);
        for (([height, width], terms), round) in cases().flat_map(|case| rounds().map(move |round| (case, round))) {
            let (mut random, n, shape) =
                (testing::noise(13 + 41 * round), height * width, shape(DType::F32, [height, width]));
            let mut values = vec![0.0; n];
            for _ in 0..terms {
                let mut line = |side: usize| -> Vec<f64> { (0..side).map(|_| f64::from(random().signum())).collect() };
                let (column, row) = (line(height), line(width));
                values.iter_mut().enumerate().for_each(|(k, value)| *value += column[k / width] * row[k % width]);
            }
            for (name, values) in [("lines", values), ("equal", vec![1.0; n])] {
                let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
                if norm == 0.0 {
                    continue;
                }
                let taps: Vec<f64> = values.iter().map(|value| value / norm).collect();
                let products = shape.products(&taps).unwrap();
                let rounding = shape.rounding(products.len() / shape.product());
                let figures = Figures::of([&taps].into_iter());
                let (_, share) = testing::doubt_at(testing::SINGLE, n, &figures, rounding).at(0.0, 0.0);
                search.try_case(
                    || format!("{name} {height}x{width}, {terms} terms"),
                    &mut random,
                    |amplitude| {
                        let samples: Vec<f32> = values.iter().map(|value| (value * amplitude) as f32).collect();
                        let mut got = 0.0f32;
                        for lines in products.chunks(shape.product()) {
                            let (row, column) = (&lines[..width], &lines[width.next_multiple_of(FOUR)..][..height]);
                            let along = |y: usize| in_runs(shape.run, row, |x| samples[y * width + x]);
                            let sums: Vec<f32> = (0..height).map(along).collect();
                            got += in_runs(shape.run, column, |y| sums[y]);
                        }
                        let (mut exact, mut square) = (Twofold::default(), 0.0);
                        for (sample, &tap) in samples.iter().map(|&sample| f64::from(sample)).zip(&taps) {
                            exact.add_product(sample, tap);
                            square += sample * sample;
                        }
                        exact.error(got.into()) / (0.8 * testing::SINGLE.1 * (share * square).sqrt())
                    },
                );
            }
        }
        search.judge("products of lines on a GPU", 0.05);
    }

    #[test]
    fn products_go_through_few_roundings() {
        let chain = |sides| match shape(DType::F32, sides).rounding(3) {
            Rounding::Separable { terms, chain, .. } => (terms, chain),
            other => panic!("{other:?}"),
        };
        assert_eq!(chain([8, 8]), (3.0, 8.0 + 8.0 + 4.0));
        assert_eq!(chain([17, 64]), (3.0, 17.0 + 19.0 + 4.0));
    }
}
