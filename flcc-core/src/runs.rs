//! Runs of a sum: the order in which its products are added up, and what its worst case depends on.
//!
//! Products are added up one after the other to the sum of a run, runs to a subtotal, and subtotals to the sum. The
//! first of several is taken as it is, the others are added to it. Product `j` so goes through `m_j` roundings
//! ([`roundings`]), and a sum `Σ P_j t_j` is off by at most `u Σ m_j |P_j t_j|`; where all `P_j` are equal, by
//! `u |P_0|` times the sum of the magnitudes of all partial sums of taps ([`partial_sums`]). Blocks on CPUs
//! ([`Blocks`](crate::blocks::Blocks)) and generated kernels ([`Together`], [`Steps`]) say what their runs are.

/// Products that are added up one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub products: usize,
    /// Its subtotal ends with it. So does that of the last run, whatever this says.
    pub ends: bool,
}

/// How many roundings each product goes through, in order, that of the product included.
pub fn roundings(runs: &[Run]) -> Vec<u32> {
    let after = |place: usize, count: usize| if count == 1 { 0 } else { count - place.max(1) };
    let subtotals = || runs.split_inclusive(|run| run.ends);
    let count = subtotals().count();
    let mut all = Vec::with_capacity(runs.iter().map(|run| run.products).sum());
    for (number, subtotal) in subtotals().enumerate() {
        for (place, run) in subtotal.iter().enumerate() {
            let later = after(place, subtotal.len()) + after(number, count);
            all.extend((1..=run.products).rev().map(|inside| (inside + later) as u32));
        }
    }
    all
}

/// The sum of the magnitudes of all partial sums of taps that are rounded: of runs, of subtotals and of the sum.
pub fn partial_sums(runs: impl IntoIterator<Item = Run>, mut taps: &[f64]) -> f64 {
    let (mut all, mut subtotal, mut total) = (0.0, None, None);
    // The magnitude of what is rounded: the first is taken as it is.
    let add = |to: &mut Option<f64>, value: f64| {
        let sum = to.map_or(value, |sum| sum + value);
        if to.replace(sum).is_some() { sum.abs() } else { 0.0 }
    };
    for run in runs {
        let (products, rest) = taps.split_at(run.products.min(taps.len()));
        taps = rest;
        let mut sum = 0.0f64;
        for tap in products {
            sum += tap;
            all += sum.abs();
        }
        all += add(&mut subtotal, sum);
        if run.ends || taps.is_empty() {
            all += add(&mut total, subtotal.take().unwrap_or(0.0));
        }
    }
    all
}

/// How a generated kernel of one template size takes products together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Products of a row that are added up before their sum goes on; 0: all are added one after the other.
    pub run: usize,
    /// Rows of a plane whose sums make a subtotal; 0: all of a plane.
    pub rows: usize,
    /// A plane's sums make a subtotal.
    pub planes: bool,
}

impl Together {
    /// Whether there are subtotals.
    pub fn subtotals(self) -> bool {
        self.rows > 0 || self.planes
    }

    /// The runs of a template of this depth, height and width.
    pub fn runs(self, [depth, height, width]: [usize; 3]) -> Vec<Run> {
        if self.run == 0 {
            return vec![Run { products: depth * height * width, ends: true }];
        }
        let mut runs = Vec::new();
        for row in 0..depth * height {
            let below = row % height + 1;
            let ends = self.subtotals() && (below == height || (self.rows > 0 && below.is_multiple_of(self.rows)));
            for begin in (0..width).step_by(self.run) {
                let products = self.run.min(width - begin);
                runs.push(Run { products, ends: ends && begin + products == width });
            }
        }
        runs
    }
}

/// How a generated kernel for any template size takes products together: chunk after chunk, row after row, some taps of
/// a row at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Rows and columns of a chunk of the template.
    pub chunk: [usize; 2],
    /// Taps of a row that are taken at once.
    pub step: usize,
    /// Products that a run has at most.
    pub run: usize,
}

impl Steps {
    /// The runs of a template of this depth, height and width. A subtotal has as many as there are subtotals, about.
    pub fn runs(self, [depth, height, width]: [usize; 3]) -> Vec<Run> {
        let [chunk_rows, chunk_columns] = self.chunk;
        let side = (1..).find(|side| side * side * (self.run / 2).max(1) >= depth * height * width).unwrap_or(1);
        let mut runs: Vec<Run> = Vec::new();
        let mut taken = 0;
        let chunks = (0..height)
            .step_by(chunk_rows)
            .flat_map(|top| (0..width).step_by(chunk_columns).map(move |left| (top, left)));
        for (top, left) in (0..depth).flat_map(|_| chunks.clone()) {
            let (rows, columns) = (chunk_rows.min(height - top), chunk_columns.min(width - left));
            for begin in (0..rows).flat_map(|_| (0..columns).step_by(self.step)) {
                let count = self.step.min(columns - begin);
                if taken + count > self.run {
                    runs.push(Run { products: taken, ends: (runs.len() + 1).is_multiple_of(side) });
                    taken = 0;
                }
                taken += count;
            }
        }
        runs.push(Run { products: taken, ends: true });
        runs
    }

    /// Places of taps, row-major, in the order in which their products are added up.
    pub fn order(self, [depth, height, width]: [usize; 3]) -> impl Iterator<Item = usize> + use<> {
        let [chunk_rows, chunk_columns] = self.chunk;
        (0..depth).flat_map(move |plane| {
            (0..height).step_by(chunk_rows).flat_map(move |top| {
                (0..width).step_by(chunk_columns).flat_map(move |left| {
                    (top..height.min(top + chunk_rows)).flat_map(move |row| {
                        let from = (plane * height + row) * width;
                        from + left..from + width.min(left + chunk_columns)
                    })
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(products: usize, ends: bool) -> Run {
        Run { products, ends }
    }

    /// Each product goes through its own additions, those of its run's sum and those of its subtotal.
    #[test]
    fn roundings_are_counted_one_by_one() {
        assert_eq!(roundings(&[run(3, true)]), [3, 2, 1]);
        assert_eq!(roundings(&[run(2, false), run(2, false), run(1, false)]), [4, 3, 4, 3, 2]);
        // Two subtotals of two runs: one addition more for each, and for the second sum alike.
        assert_eq!(roundings(&[run(1, false), run(1, true), run(1, false), run(2, true)]), [3, 3, 3, 4, 3]);
        assert_eq!(roundings(&[run(1, true), run(1, true), run(1, true)]), [3, 3, 2]);
    }

    /// Against sums that are taken step by step, of taps that are all 1 so that partial sums are whole numbers.
    #[test]
    fn partial_sums_are_those_that_are_rounded() {
        let ones = [1.0; 5];
        assert_eq!(partial_sums([run(5, true)], &ones), 15.0);
        // 1, 2 | 1, 2; 4 | 1; 5.
        assert_eq!(partial_sums([run(2, false), run(2, false), run(1, false)], &ones), 3.0 + 3.0 + 4.0 + 1.0 + 5.0);
        // 1, 2 | 1, 2; 4 is the first subtotal | 1: the second; 5.
        assert_eq!(partial_sums([run(2, false), run(2, true), run(1, true)], &ones), 3.0 + 3.0 + 4.0 + 1.0 + 5.0);
        assert_eq!(partial_sums([run(2, true), run(3, true)], &[1.0, -1.0, 2.0, -2.0, 0.5]), 1.0 + 2.0 + 0.5 + 0.5);
    }

    /// Whatever taps are, a constant panel's error is within the worst case of any: `Σ |partial sums| <= Σ m_j |t_j|`.
    #[test]
    fn runs_hold_every_product_once() {
        for template in [[1, 1, 64], [1, 7, 7], [1, 17, 17], [1, 32, 32], [5, 5, 5], [2, 33, 19], [1, 1, 777]] {
            let count = template.iter().product::<usize>();
            let rows = Together { run: template[2].min(16), rows: 8, planes: false };
            let planes = Together { run: template[2], rows: 0, planes: true };
            let steps = Steps { chunk: [16, 16], step: 4, run: 16 };
            for runs in
                [rows.runs(template), planes.runs(template), Together::default().runs(template), steps.runs(template)]
            {
                assert_eq!(runs.iter().map(|run| run.products).sum::<usize>(), count, "{template:?}");
                let taps: Vec<f64> = (0..count).map(|k| ((k * 37 % 11) as f64) - 5.0).collect();
                let most: f64 =
                    taps.iter().zip(roundings(&runs)).map(|(tap, roundings)| tap.abs() * f64::from(roundings)).sum();
                assert!(partial_sums(runs.iter().copied(), &taps) <= most, "{template:?}");
            }
            let mut order: Vec<usize> = steps.order(template).collect();
            assert_eq!(order.len(), count);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(place, tap)| place == *tap), "{template:?}");
        }
    }

    #[test]
    fn chunks_are_taken_row_by_row() {
        let steps = Steps { chunk: [2, 2], step: 2, run: 3 };
        assert_eq!(steps.order([1, 3, 3]).collect::<Vec<_>>(), [0, 1, 3, 4, 2, 5, 6, 7, 8]);
        // Two taps, two, one and one, two, one: a run has three at most.
        assert_eq!(steps.runs([1, 3, 3]).iter().map(|run| run.products).collect::<Vec<_>>(), [2, 3, 3, 1]);
    }
}
