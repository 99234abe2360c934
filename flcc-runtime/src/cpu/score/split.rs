//! A template in two parts: a coarse one, of a few rectangles, and the fine one that is left.
//!
//! `t = coarse + fine`, where `coarse = sum_ij a_ij box_i(y) box_j(x)` is what comes nearest to `t`. Engines in f32 err
//! in proportion to what they add up and give: to the panels' means, under a direct kernel, and to the largest results
//! of a tile, under transforms. Both are the work of what is coarse in image and template. Of `fine` the results are
//! small, and so are their errors; those of `coarse` cost little in f64: `sum_ij a_ij B(y + y_i, x + x_j)`, where `B`
//! are the sums of the rectangle at each place.
//!
//! A tile is computed so where a sample of its panels ([`Take`]) says that many would be in doubt otherwise. Cost: down
//! a box of `L` samples `L / 8 + 3` additions in f64 a column of a chunk of outputs and of a template beside it, along
//! it `L / 4 + 6`, and 16 multiply-adds an output.

use crate::cpu::aligned::Aligned;
use crate::cpu::memory::Memory;
use crate::isa::simd::{Job, Simd};

/// Shortest side of a template that is worth it: boxes of two samples.
const SHORTEST: usize = 2 * BOXES;
/// Boxes along an axis.
const BOXES: usize = 4;
/// Sampled panels along an axis, at most: an even number of some.
pub const GRID: usize = 8;
/// The share of its sum of squares below which a sampled panel's energy may be nothing but the rounding of these sums:
/// it is flat.
const FLAT: f64 = 1e-6;

/// Boxes along an axis of a template: all of one length, evenly from end to end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Side {
    template: usize,
    length: usize,
    begins: [usize; BOXES],
}

impl Side {
    fn new(template: usize) -> Side {
        let length = template.div_ceil(BOXES);
        let last = template - length;
        // Rounded to the nearest.
        let begins = std::array::from_fn(|number| (2 * number * last + BOXES - 1) / (2 * (BOXES - 1)));
        Side { template, length, begins }
    }

    /// Whether a sample lies in a box.
    fn holds(&self, number: usize, sample: usize) -> bool {
        (self.begins[number]..self.begins[number] + self.length).contains(&sample)
    }

    /// The heights of boxes whose sum comes nearest to some samples: least squares, by the equations for the boxes'
    /// overlaps.
    fn nearest(&self, samples: &[f64]) -> [f64; BOXES] {
        let (mut overlaps, mut sums) = ([[0.0; BOXES]; BOXES], [0.0; BOXES]);
        for i in 0..BOXES {
            for (at, &sample) in samples.iter().enumerate().filter(|(at, _)| self.holds(i, *at)) {
                sums[i] += sample;
                (0..BOXES).filter(|&j| self.holds(j, at)).for_each(|j| overlaps[i][j] += 1.0);
            }
        }
        // Symmetric and positive, for no box is a sum of others: no pivots are needed.
        for i in 0..BOXES {
            for j in i + 1..BOXES {
                let share = overlaps[j][i] / overlaps[i][i];
                (i..BOXES).for_each(|k| overlaps[j][k] -= share * overlaps[i][k]);
                sums[j] -= share * sums[i];
            }
        }
        for i in (0..BOXES).rev() {
            let known: f64 = (i + 1..BOXES).map(|j| overlaps[i][j] * sums[j]).sum();
            sums[i] = (sums[i] - known) / overlaps[i][i];
        }
        sums
    }
}

/// The coarse parts of templates of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Splitter {
    rows: Side,
    columns: Side,
}

/// A template in two parts.
#[derive(Clone, Debug)]
pub struct Split {
    /// A height for each rectangle.
    pub coarse: Vec<f64>,
    /// What is left of the template.
    pub fine: Vec<f64>,
}

impl Splitter {
    /// For templates of this shape, if they are of one plane and large enough.
    pub fn new([depth, height, width]: [usize; 3]) -> Option<Splitter> {
        let apt = depth == 1 && height >= SHORTEST && width >= SHORTEST;
        apt.then(|| Splitter { rows: Side::new(height), columns: Side::new(width) })
    }

    /// Splits a template.
    pub fn split(&self, values: &[f64]) -> Split {
        let Splitter { rows, columns } = self;
        let width = columns.template;
        // Along rows first, then along the columns of what that gave.
        let along: Vec<[f64; BOXES]> = values.chunks(width).map(|row| columns.nearest(row)).collect();
        let mut coarse = vec![0.0; BOXES * BOXES];
        for j in 0..BOXES {
            let column: Vec<f64> = along.iter().map(|row| row[j]).collect();
            let heights = rows.nearest(&column);
            (0..BOXES).for_each(|i| coarse[i * BOXES + j] = heights[i]);
        }
        let mut fine = values.to_vec();
        for (number, height) in coarse.iter().enumerate() {
            let (i, j) = (number / BOXES, number % BOXES);
            for row in fine.chunks_mut(width).skip(rows.begins[i]).take(rows.length) {
                row[columns.begins[j]..][..columns.length].iter_mut().for_each(|value| *value -= height);
            }
        }
        Split { coarse, fine }
    }

    /// How many rectangles a template is split by.
    pub const COUNT: usize = BOXES * BOXES;

    /// Buffers for tiles with so many outputs a row.
    pub fn scratch(&self, width: usize, memory: &mut Memory) -> Scratch {
        let [open, row] = self.buffers(width);
        let mut new = |rows: usize| memory.aligned(0.0, rows * row);
        let [boxes, columns, fours] = [new(1), new(TOGETHER), new(1)];
        Scratch { open: memory.aligned(0.0, open), boxes, columns, fours, row }
    }

    /// Values of open rows, and of a chunk's row of sums with what vectors reach past it.
    fn buffers(&self, width: usize) -> [usize; 2] {
        let kept = self.rows.begins[BOXES - 1] + 1;
        [width.div_ceil(CHUNK) * CHUNK * kept, (CHUNK + self.columns.template).next_multiple_of(16) + 32]
    }

    /// Template values as [`Take`] takes them: rows of whole vectors, zeros past the values.
    pub fn padded(&self, values: &[f64]) -> Vec<f32> {
        let row = self.padded_row();
        let mut padded = vec![0.0; self.rows.template * row];
        for (to, from) in padded.chunks_mut(row).zip(values.chunks(self.columns.template)) {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = from as f32);
        }
        padded
    }

    /// How many these are.
    pub fn padded_len(&self) -> usize {
        self.rows.template * self.padded_row()
    }

    fn padded_row(&self) -> usize {
        self.columns.template.next_multiple_of(WHOLE)
    }
}

/// Values that are whole vectors on every machine.
const WHOLE: usize = 16;

/// The sum of a panel's samples, of their squares, and of their products with a template.
type PanelSums = [f64; 3];

/// Takes a sample of a tile's panels, to a few digits: panels on a grid.
pub struct Take<'a> {
    /// What splits templates of that shape.
    pub splitter: &'a Splitter,
    /// The template, [`Splitter::padded`].
    pub template: &'a [f32],
    /// Samples: whole vectors a row.
    pub input: &'a [f32],
    /// From one row of samples to the next.
    pub in_row: usize,
    /// Outputs: height and width.
    pub outputs: [usize; 2],
    /// Panels along an axis, at most.
    pub most: usize,
}

impl Job for Take<'_> {
    type Output = Survey;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Survey {
        let [height, width] = [self.splitter.rows.template, self.splitter.columns.template];
        // Of large panels fewer: each of their samples costs a fortieth of what an output does, so all of them a few
        // percent.
        let most = (4 * self.outputs[0] * self.outputs[1] / (height * width)).isqrt().clamp(2, self.most);
        let [down, along] = [self.outputs[0].min(most), self.outputs[1].min(most)];
        let mut survey = Survey::default();
        for number in 0..down * along {
            let y = (2 * (number / along) + 1) * self.outputs[0] / (2 * down);
            let x = (2 * (number % along) + 1) * self.outputs[1] / (2 * along);
            // From where on whole vectors of samples are in the row.
            survey.panels[number] = self.panel(s, y, x / WHOLE * WHOLE);
        }
        survey.count = down * along;
        survey
    }
}

impl Take<'_> {
    #[inline(always)]
    fn panel<S: Simd>(&self, s: S, y: usize, x: usize) -> PanelSums {
        let (width, row) = (self.splitter.columns.template, self.splitter.padded_row());
        let counted: [f32; WHOLE] = std::array::from_fn(|lane| if row - WHOLE + lane < width { 1.0 } else { 0.0 });
        // Of even rows and of odd ones, so that neither waits for the other.
        let (mut even, mut odd) = ([s.splat(0.0); 3], [s.splat(0.0); 3]);
        let mut rows = self.template.chunks_exact(row);
        let mut line = y * self.in_row + x;
        while let Some(taps) = rows.next() {
            even = sums_of_row(s, &self.input[line..], taps, &counted, even);
            if let Some(taps) = rows.next() {
                odd = sums_of_row(s, &self.input[line + self.in_row..], taps, &counted, odd);
            }
            line += 2 * self.in_row;
        }
        let lanes = [s.add(even[0], odd[0]), s.add(even[1], odd[1]), s.add(even[2], odd[2])];
        let mut sums = [0.0; 3];
        for (sum, lanes) in sums.iter_mut().zip(lanes) {
            *sum = f64::from(s.total(lanes));
        }
        sums
    }
}

/// Adds a row of samples, their squares and their products with a row of taps; the last samples are those that are
/// `counted`.
#[inline(always)]
fn sums_of_row<S: Simd>(
    s: S,
    samples: &[f32],
    taps: &[f32],
    counted: &[f32; WHOLE],
    [sum, square, cross]: [S::Single; 3],
) -> [S::Single; 3] {
    let (mut sum, mut square, mut cross) = (sum, square, cross);
    let whole = (taps.len() - WHOLE) / S::LANES;
    let (taps, counted) = (S::rows(taps), S::rows(counted));
    let samples = &S::rows(samples)[..taps.len()];
    for v in 0..taps.len() {
        let value = s.load(&samples[v]);
        let used = if v < whole { value } else { s.mul(value, s.load(&counted[v - whole])) };
        sum = s.add(used, sum);
        square = s.mul_add(used, value, square);
        cross = s.mul_add(value, s.load(&taps[v]), cross);
    }
    [sum, square, cross]
}

/// Sums of some panels of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    panels: [PanelSums; GRID * GRID],
    count: usize,
}

impl Default for Survey {
    fn default() -> Survey {
        Survey { panels: [[0.0; 3]; GRID * GRID], count: 0 }
    }
}

impl Survey {
    fn panels(&self) -> &[PanelSums] {
        &self.panels[..self.count]
    }

    /// The mean square of a sample, of panels of `n`.
    pub fn square(&self, n: f64) -> f64 {
        self.panels().iter().map(|[_, square, _]| square / n).sum::<f64>() / self.count.max(1) as f64
    }

    /// The mean square of a sample of the strongest of these panels.
    pub fn largest_square(&self, n: f64) -> f64 {
        self.panels().iter().map(|[_, square, _]| square / n).fold(0.0, f64::max)
    }

    /// The mean square of the cross term, and the largest that it may have been: the largest norm of a panel of `n`
    /// samples.
    pub fn result(&self, n: f64) -> (f64, f64) {
        let squares: f64 = self.panels().iter().map(|[.., cross]| cross * cross).sum();
        let energies = self.panels().iter().map(|[sum, square, _]| square - sum * sum / n);
        (squares / self.count.max(1) as f64, energies.fold(0.0, f64::max).sqrt())
    }

    /// The share of panels of `n` samples that are in doubt, but for flat ones, for which nothing is in doubt.
    pub fn share_in_doubt(&self, n: f64, (limit, share): (f64, f64)) -> f64 {
        let doubtful = |[sum, square, _]: &&PanelSums| {
            let energy = square - sum * sum / n;
            energy <= limit + share * square && energy > FLAT * square
        };
        self.panels().iter().filter(doubtful).count() as f64 / self.count.max(1) as f64
    }
}

/// Rows of boxes whose sums are taken together, at most.
const TOGETHER: usize = 8;
/// Columns that are added up before boxes are.
const FOUR: usize = 4;
/// Columns of outputs that are brought to an end before the next: what is kept for them stays near.
const CHUNK: usize = 128;

/// What is kept from one row of box sums to the next.
pub struct Scratch {
    /// Cross terms of the rows that box sums were added to, but not all yet: chunk by chunk, row `y` at `y` modulo the
    /// rows kept.
    open: Aligned<f64>,
    /// Box sums of a row of places.
    boxes: Aligned<f64>,
    /// Sums of a box's rows, column by column, for as many rows of boxes as are taken together.
    columns: Aligned<f64>,
    /// Sums of four neighbours of `columns` each.
    fours: Aligned<f64>,
    /// Values of such a row.
    row: usize,
}

/// Adds the coarse part's cross term to that of the fine part, of a plane.
pub struct Add<'a> {
    /// The boxes.
    pub splitter: &'a Splitter,
    /// Their heights.
    pub heights: &'a [f64],
    /// Samples: whole vectors a row, zeros past the samples.
    pub input: &'a [f32],
    /// From one row of samples to the next.
    pub in_row: usize,
    /// Outputs: height and width.
    pub outputs: [usize; 2],
    /// First row of outputs and the one after the last; those before were added just before by the same buffers, unless
    /// it is 0.
    pub rows: [usize; 2],
    /// The cross term.
    pub cross: &'a mut [f32],
    /// From one row of it to the next: whole vectors.
    pub out_row: usize,
    /// Buffers.
    pub scratch: &'a mut Scratch,
}

impl Job for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let last = self.splitter.rows.begins[BOXES - 1];
        // Row `r` of box sums ends output row `r - last`.
        let from = if self.rows[0] == 0 { 0 } else { self.rows[0] + last };
        let length = self.splitter.rows.length;
        for begin in (0..self.outputs[1]).step_by(CHUNK) {
            let mut row = from;
            while row < self.rows[1] + last {
                let count = match (self.rows[1] + last - row).min(length) {
                    TOGETHER.. => self.down::<S, TOGETHER>(s, row, begin),
                    4.. => self.down::<S, 4>(s, row, begin),
                    2.. => self.down::<S, 2>(s, row, begin),
                    _ => self.down::<S, 1>(s, row, begin),
                };
                for number in 0..count {
                    self.along(s, number, begin);
                    self.spread(s, row + number, begin);
                }
                row += count;
            }
        }
    }
}

impl Add<'_> {
    /// Outputs of the chunk that begins at a column, up to a whole vector.
    #[inline(always)]
    fn chunk<S: Simd>(&self, begin: usize) -> usize {
        CHUNK.min((self.outputs[1] - begin).next_multiple_of(S::LANES))
    }

    /// Columns of samples under a chunk, in vectors of f64: no more than there are, up to a vector.
    #[inline(always)]
    fn samples<S: Simd>(&self, begin: usize) -> usize {
        let reach = self.splitter.columns.template - 1;
        (self.chunk::<S>(begin) + reach)
            .div_ceil(S::HALF)
            .min((self.outputs[1] + reach).div_ceil(S::HALF) - begin / S::HALF)
    }

    /// Sums of a box's samples down each column of a chunk, for `R` rows of boxes from `row` on; returns `R`. What the
    /// boxes have in common is added up once; from it on, what lies above and below. Nothing is taken away again, so a
    /// bright sample is in no sum but its boxes'.
    #[inline(always)]
    fn down<S: Simd, const R: usize>(&mut self, s: S, row: usize, begin: usize) -> usize {
        let (length, samples) = (self.splitter.rows.length, self.samples::<S>(begin));
        assert!(length >= R, "boxes of {length} samples have none in common with those {R} rows on");
        let (in_row, pitch) = (self.in_row, self.scratch.row / S::HALF);
        let input = &self.input[row * in_row + begin..];
        let to = &mut S::double_rows_mut(&mut self.scratch.columns)[..R * pitch];
        for v in 0..samples {
            let line = |number: usize| s.widen(&S::half_rows(&input[number * in_row + v * S::HALF..])[0]);
            let mut sum = line(R - 1);
            for number in R..length {
                sum = s.add_double(sum, line(number));
            }
            let mut sums = [sum; R];
            for number in (0..R - 1).rev() {
                sums[number] = s.add_double(sums[number + 1], line(number));
            }
            let mut below = s.splat_double(0.0);
            for (number, sum) in sums.iter_mut().enumerate().skip(1) {
                below = s.add_double(below, line(length - 1 + number));
                *sum = s.add_double(*sum, below);
            }
            for (number, sum) in sums.iter().enumerate() {
                s.store_double(&mut to[number * pitch + v], *sum);
            }
        }
        R
    }

    /// Box sums of a row of places, those that a chunk asks for, of sums down the columns: the `number`-th of them.
    #[inline(always)]
    fn along<S: Simd>(&mut self, s: S, number: usize, begin: usize) {
        let columns = self.splitter.columns;
        let (chunk, samples) = (self.chunk::<S>(begin), self.samples::<S>(begin));
        let places = (chunk + columns.template - columns.length).div_ceil(S::HALF);
        let Scratch { boxes, columns: down, fours, row, .. } = &mut *self.scratch;
        let down = &down[number * *row..][..*row];
        let sums = &mut S::double_rows_mut(boxes)[..places];
        // Of long boxes sums of four first.
        let (many, few) = if columns.length < 2 * FOUR {
            (0, columns.length)
        } else {
            (columns.length / FOUR, columns.length % FOUR)
        };
        if many > 0 {
            let from: [&[S::DoubleRow]; FOUR] = [0, 1, 2, 3].map(|at| &S::double_rows(&down[at..])[..samples]);
            for (v, to) in S::double_rows_mut(fours)[..samples].iter_mut().enumerate() {
                let first = s.add_double(s.load_double(&from[0][v]), s.load_double(&from[1][v]));
                s.store_double(
                    to,
                    s.add_double(first, s.add_double(s.load_double(&from[2][v]), s.load_double(&from[3][v]))),
                );
            }
        }
        for (v, to) in sums.iter_mut().enumerate() {
            let at = v * S::HALF;
            let mut sum = s.splat_double(0.0);
            for four in 0..many {
                sum = s.add_double(sum, s.load_double(&S::double_rows(&fours[at + FOUR * four..])[0]));
            }
            for one in 0..few {
                sum = s.add_double(sum, s.load_double(&S::double_rows(&down[at + FOUR * many + one..])[0]));
            }
            s.store_double(to, sum);
        }
    }

    /// Adds a row of box sums to the rows of outputs that boxes of it lie over; the first box begins one, the last ends
    /// another.
    #[inline(always)]
    fn spread<S: Simd>(&mut self, s: S, row: usize, begin: usize) {
        let Splitter { rows, columns } = *self.splitter;
        let vectors = self.chunk::<S>(begin) / S::LANES;
        let kept = rows.begins[BOXES - 1] + 1;
        let Scratch { open, boxes, .. } = &mut *self.scratch;
        let open = &mut open.as_chunks_mut::<CHUNK>().0[begin / CHUNK * kept..][..kept];
        let mut from: [&[[S::DoubleRow; 2]]; BOXES] = [&[]; BOXES];
        for (from, at) in from.iter_mut().zip(columns.begins) {
            *from = &S::double_rows(&boxes[at..]).as_chunks().0[..vectors];
        }
        let mut heights = [[s.splat_double(0.0); BOXES]; BOXES];
        for (heights, values) in heights.iter_mut().zip(self.heights.chunks_exact(BOXES)) {
            for (height, &value) in heights.iter_mut().zip(values) {
                *height = s.splat_double(value);
            }
        }
        let slots: [usize; BOXES] = std::array::from_fn(|i| (row + kept - rows.begins[i]) % kept);
        // Rows before the tile's first and after its last are brought along, and never written.
        let ends = row >= rows.begins[BOXES - 1];
        let cross = if ends { (row - rows.begins[BOXES - 1]) * self.out_row + begin } else { 0 };
        let cross = &mut S::rows_mut(&mut self.cross[cross..])[..vectors];
        let lines = open.get_disjoint_mut(slots).expect("boxes begin in different rows, fewer apart than are kept");
        let mut rest = lines.into_iter();
        let lines: [&mut [[S::DoubleRow; 2]]; BOXES] = std::array::from_fn(|_| {
            let line = rest.next().expect("as many");
            &mut S::double_rows_mut(line).as_chunks_mut().0[..vectors]
        });
        for v in 0..vectors {
            let mut values = [[s.splat_double(0.0); 2]; BOXES];
            for j in 0..BOXES {
                values[j] = [s.load_double(&from[j][v][0]), s.load_double(&from[j][v][1])];
            }
            for i in 0..BOXES {
                let mut sums = [s.splat_double(0.0); 2];
                if i > 0 {
                    sums = [s.load_double(&lines[i][v][0]), s.load_double(&lines[i][v][1])];
                }
                for j in 0..BOXES {
                    sums[0] = s.mul_add_double(values[j][0], heights[i][j], sums[0]);
                    sums[1] = s.mul_add_double(values[j][1], heights[i][j], sums[1]);
                }
                if i + 1 < BOXES {
                    s.store_double(&mut lines[i][v][0], sums[0]);
                    s.store_double(&mut lines[i][v][1], sums[1]);
                } else if ends {
                    let [low, high] = s.split(s.load(&cross[v]));
                    s.store(&mut cross[v], s.narrow(s.add_double(low, sums[0]), s.add_double(high, sums[1])));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, noise};
    use crate::isa::Vectors;

    #[test]
    fn boxes_go_from_end_to_end() {
        for template in SHORTEST..200 {
            let side = Side::new(template);
            let begins = side.begins;
            assert!(begins[0] == 0 && begins[BOXES - 1] + side.length == template, "{side:?}");
            assert!(begins.windows(2).all(|two| two[0] < two[1] && two[1] <= two[0] + side.length), "{side:?}");
        }
        assert!(
            Splitter::new([1, 8, 7]).is_none()
                && Splitter::new([2, 8, 8]).is_none()
                && Splitter::new([1, 8, 8]).is_some()
        );
    }

    #[test]
    fn a_coarse_template_has_no_fine_part_and_no_other_boxes_come_nearer() {
        for shape in [[1, 8, 8], [1, 11, 24], [1, 30, 9], [1, 37, 52]] {
            let coarse = Splitter::new(shape).unwrap();
            let mut random = noise(5);
            let heights: Vec<f64> = (0..Splitter::COUNT).map(|_| random().into()).collect();
            let of_heights = |heights: &[f64]| {
                let mut values = vec![0.0; shape[1] * shape[2]];
                for (number, height) in heights.iter().enumerate() {
                    let (i, j) = (number / BOXES, number % BOXES);
                    for (at, value) in values.iter_mut().enumerate() {
                        if coarse.rows.holds(i, at / shape[2]) && coarse.columns.holds(j, at % shape[2]) {
                            *value += height;
                        }
                    }
                }
                values
            };
            let split = coarse.split(&of_heights(&heights));
            assert!(split.fine.iter().all(|value| value.abs() < 1e-12), "{shape:?}");
            assert!(split.coarse.iter().zip(&heights).all(|(a, b)| (a - b).abs() < 1e-12), "{shape:?}");
            // What is left of any template is orthogonal to every box.
            let template: Vec<f64> = (0..shape[1] * shape[2]).map(|_| random().into()).collect();
            let Split { coarse: nearest, fine } = coarse.split(&template);
            let sum = of_heights(&nearest)
                .iter()
                .zip(&fine)
                .map(|(a, b)| a + b)
                .zip(&template)
                .all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(sum, "{shape:?}: the parts do not add up");
            for number in 0..Splitter::COUNT {
                let mut one = vec![0.0; Splitter::COUNT];
                one[number] = 1.0;
                let product: f64 = of_heights(&one).iter().zip(&fine).map(|(a, b)| a * b).sum();
                assert!(product.abs() < 1e-12, "{shape:?}, box {number}: {product}");
            }
        }
    }

    /// On every instruction set, tiles of all widths around whole vectors, with nothing beside them changed.
    #[test]
    fn the_parts_cross_terms_add_up() {
        for isas in testing::sets() {
            let vectors = Vectors::new(&isas).expect("a set that was detected");
            for (shape, outputs) in [
                ([1, 8, 8], [1, 1]),
                ([1, 9, 13], [5, 47]),
                ([1, 16, 16], [20, 64]),
                ([1, 25, 40], [33, 65]),
                ([1, 9, 30], [17, 300]),
                ([1, 31, 8], [40, 129]),
            ] {
                let coarse = Splitter::new(shape).unwrap();
                let [height, width] = [shape[1], shape[2]];
                let (mut samples, mut taps) = (noise(1), noise(2));
                let template: Vec<f64> = (0..height * width).map(|_| taps().into()).collect();
                let Split { coarse: heights, fine } = coarse.split(&template);
                let (rows, columns) = (outputs[0] + height - 1, outputs[1] + width - 1);
                let (in_row, out_row) = ((columns + 1).next_multiple_of(16), outputs[1].next_multiple_of(16));
                let input: Vec<f32> = (0..rows * in_row + 16)
                    .map(|at| if at % in_row < columns { 1000.0 + samples() } else { 0.0 })
                    .collect();
                let correlate = |taps: &[f64], y: usize, x: usize| -> f64 {
                    let product =
                        |(k, tap): (usize, &f64)| f64::from(input[(y + k / width) * in_row + x + k % width]) * tap;
                    taps.iter().enumerate().map(product).sum()
                };
                let mut cross = vec![7.0f32; outputs[0] * out_row];
                for (y, x) in (0..outputs[0]).flat_map(|y| (0..outputs[1]).map(move |x| (y, x))) {
                    cross[y * out_row + x] = correlate(&fine, y, x) as f32;
                }
                let mut scratch = coarse.scratch(outputs[1], &mut Memory::making());
                for first in (0..outputs[0]).step_by(7) {
                    let (splitter, heights, scratch) = (&coarse, &heights[..], &mut scratch);
                    let rows = [first, outputs[0].min(first + 7)];
                    vectors.run(Add {
                        splitter,
                        heights,
                        input: &input,
                        in_row,
                        outputs,
                        rows,
                        cross: &mut cross,
                        out_row,
                        scratch,
                    });
                }
                for (y, x) in (0..outputs[0]).flat_map(|y| (0..outputs[1]).map(move |x| (y, x))) {
                    let (got, want) = (f64::from(cross[y * out_row + x]), correlate(&template, y, x));
                    assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{shape:?} at {y},{x}: {got} for {want}");
                }
            }
        }
    }

    #[test]
    fn a_survey_tells_of_panels_as_they_are() {
        let shape = [1, 9, 11];
        let coarse = Splitter::new(shape).unwrap();
        let (mut samples, outputs, in_row) = (noise(3), [40, 90], 112);
        let input: Vec<f32> = (0..48 * in_row).map(|at| if at % in_row < 50 { 3.0 } else { samples() }).collect();
        let template: Vec<f64> = (0..99).map(|k| f64::from(k as u8 % 7) - 3.0).collect();
        let padded = coarse.padded(&template);
        assert_eq!(padded.len(), coarse.padded_len());
        for isas in testing::sets() {
            let vectors = Vectors::new(&isas).expect("a set that was detected");
            let survey =
                vectors.run(Take { splitter: &coarse, template: &padded, input: &input, in_row, outputs, most: GRID });
            assert!(survey.count >= 4 && survey.count <= GRID * GRID);
            // Each is that of some panel.
            for got in survey.panels() {
                let panel = |y: usize, x: usize| {
                    let values = (0..99).map(|k| (f64::from(input[(y + k / 11) * in_row + x + k % 11]), template[k]));
                    values.fold([0.0; 3], |[sum, square, cross], (value, tap)| {
                        [sum + value, square + value * value, cross + value * tap]
                    })
                };
                let near = |want: PanelSums| {
                    got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-4 * (1.0 + want.abs()))
                };
                assert!((0..40).any(|y| (0..90).step_by(WHOLE).any(|x| near(panel(y, x)))), "{isas}: {got:?}");
            }
            // Flat panels are none in doubt, and of the others all are below a limit above everything.
            let flat = survey
                .panels()
                .iter()
                .filter(|[sum, square, _]| (sum - 297.0).abs() < 1e-3 && (square - 891.0).abs() < 1e-3)
                .count();
            assert!(flat > 0 && flat < survey.count);
            assert_eq!(survey.share_in_doubt(99.0, (f64::INFINITY, 0.0)), 1.0 - flat as f64 / survey.count as f64);
            assert_eq!(survey.share_in_doubt(99.0, (0.0, 0.1 * FLAT)), 0.0);
            let energy = |[sum, square, _]: &PanelSums| square - sum * sum / 99.0;
            assert_eq!(survey.result(99.0).1, survey.panels().iter().map(energy).fold(0.0, f64::max).sqrt());
        }
    }
}
