//! Correlation and zncc of images by Fourier transforms of tiles that no block has room for: 256, 512 or 1024 samples a
//! side, by kernels for rows and for columns, between which numbers lie in memory. Here is which problems they serve,
//! what a template is on a device, and what kernels are told. The kernels' texts, templates/cuda/large and
//! large_scores, have the derivation; docs/numerics.md has the error model.

use flcc_core::spec::Spec;
use flcc_generated::Entry;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::cuda::driver::launch::SharesView;
use crate::cuda::method::Job;
use crate::cuda::noise::Lines;
use crate::cuda::tile::{Shape, kernels_among};
use crate::cuda::transform::Transform as _;
use crate::cuda::windows_of_planes::DownRows;
use crate::plan::machine::Device;

/// The operations of kernels that make sums.
const SUMS: [&str; 3] = ["tile256", "tile512", "tile1024"];

/// The operations of kernels that make scores.
const SCORES: [&str; 3] = ["zncc256", "zncc512", "zncc1024"];

/// Bytes of numbers between the kernels, at most, unless one pair of tiles takes more.
const MOST_NUMBERS: usize = 128 << 20;

/// Rows and columns of samples whose extent a block finds.
const EXTENT: [usize; 2] = [32, 256];

/// Bytes of an extent.
pub(crate) const EXTENT_BYTES: usize = 2 * size_of::<f32>();

/// Rows and columns of blocks that find the extents of the samples of a whole tile of so many outputs.
pub(crate) fn extents([_, height, width]: [usize; 3], [_, rows, columns]: [usize; 3]) -> [usize; 2] {
    [(rows + height - 1).div_ceil(EXTENT[0]), (columns + width - 1).div_ceil(EXTENT[1])]
}

/// Bytes of a complex number.
const NUMBER: usize = 2 * size_of::<f32>();

/// The kernels of sums that serve a spec on these devices.
pub(crate) fn sums(spec: &Spec, devices: &[Device]) -> Vec<&'static Entry> {
    kernels_among(spec, devices, &SUMS, &[])
}

/// The kernels of scores that do.
pub(crate) fn scores(spec: &Spec, devices: &[Device]) -> Vec<&'static Entry> {
    let serves = DownRows::serves(spec.template().padded());
    if serves { kernels_among(spec, devices, &[], &SCORES) } else { Vec::new() }
}

/// The numbers of a source of kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    /// A tile.
    pub shape: Shape,
    /// Rows, or columns, of a block.
    lines: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared: usize,
}

/// Bytes of the parts of a room that pairs of tiles have between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Complex numbers.
    pub numbers: usize,
    /// What is known of pairs.
    pub abouts: usize,
    /// What warps saw of the samples of pairs.
    pub samples: usize,
    /// What warps saw of their cross terms.
    pub results: usize,
    /// Whether outputs of pairs are asked for.
    pub wanted: usize,
}

impl Parts {
    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.numbers + self.abouts + self.samples + self.results + self.wanted
    }
}

impl Large {
    /// Of a kernel.
    pub fn of(entry: &Entry) -> Large {
        let [lines, lanes] = entry.block;
        Large { shape: Shape::of(entry), lines, threads: (lines * lanes) as u32, shared: entry.shared }
    }

    /// Samples of a tile.
    pub fn samples(self) -> usize {
        self.shape.length * self.shape.length
    }

    /// Blocks that share the rows, or the columns, of a pair of tiles.
    pub fn blocks(self) -> u32 {
        (self.shape.length / self.lines) as u32
    }

    /// Warps that share the rows of a pair.
    fn warps(self) -> usize {
        (self.blocks() * self.threads) as usize / 32
    }

    /// The parts of a room that so many pairs have.
    pub fn parts(self, pairs: usize) -> Parts {
        let [pair, word] = [self.samples() * NUMBER, size_of::<f32>()];
        Parts {
            numbers: pairs * pair,
            abouts: pairs * 4 * word,
            samples: pairs * self.warps() * 3 * word,
            results: pairs * self.warps() * 3 * word,
            wanted: pairs * word,
        }
    }

    /// Bytes of a room for so many pairs, or for as many at a time as there is room for.
    pub fn room(self, pairs: usize) -> [usize; 2] {
        let one = self.parts(1).bytes();
        [pairs * one, MOST_NUMBERS.max(one)]
    }

    /// Pairs for which a room of so many bytes suffices.
    pub fn pairs_in(self, bytes: usize) -> usize {
        (bytes / self.parts(1).bytes()).max(1)
    }

    /// Numbers that the kernels pass on for so many pairs of tiles, times the logarithm of a tile's samples. Of two
    /// blocks that each multiprocessor has room for one is idle at the end, as a mean, and counts as well.
    pub fn work(self, pairs: usize, multiprocessors: usize) -> f64 {
        let (each, samples) = (f64::from(self.blocks()), self.samples() as f64);
        (pairs as f64 + multiprocessors as f64 / each) * samples * samples.log2()
    }

    /// Numbers that binding a template transforms, times the logarithm of a line's: its rows, and half of the columns,
    /// which tell of the others.
    pub fn bound(self, template: [usize; 3]) -> f64 {
        let length = self.shape.length as f64;
        (template[1] as f64 + length / 2.0) * length * length.log2()
    }

    /// How the outputs of an image are shared among tiles.
    pub fn shares(self, template: [usize; 3], job: &Job<'_>) -> SharesView {
        let ([down, across], (_, tiles, in_row)) = (self.shape.step(template), self.shape.pairs(template, job.outputs));
        SharesView {
            height: job.outputs[1] as i32,
            width: job.outputs[2] as i32,
            y: job.begin[1],
            x: job.begin[2],
            step_y: down as i32,
            step_x: across as i32,
            across: in_row as i32,
            tiles: tiles as i32,
        }
    }

    /// Floats of a bound template before what it makes of noise.
    pub fn before_noise(self) -> usize {
        let length = self.shape.length;
        2 * (length * length + length) + (1 + 2 * length).next_multiple_of(4)
    }

    /// Bytes of a bound template.
    pub fn bound_bytes(self, noise: bool) -> usize {
        let length = self.shape.length;
        let floats = if noise { self.before_noise() + length * length } else { 2 * (length * length + length) };
        floats * size_of::<f32>()
    }

    /// A template as the kernels take it: row by row the conjugate of its spectrum over the number of samples, then the
    /// turns of a circle. Where `noise` is asked for, behind them 1 and numbers of rows and columns, whose product the
    /// noise of tiles is, and from a multiple of four floats on what the template makes of that. Computed in f64.
    pub fn bound_template(self, [_, height, width]: [usize; 3], values: &[f64], noise: bool) -> Vec<f32> {
        let length = self.shape.length;
        let samples = (length * length) as f64;
        let mut planner = FftPlanner::new();
        let (there, back) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
        let mut rows = vec![Complex64::default(); height * length];
        for (row, taps) in rows.chunks_mut(length).zip(values.chunks(width)) {
            row.iter_mut().zip(taps).for_each(|(to, &tap)| to.re = tap / samples);
            there.process(row);
        }
        let lines = Lines::new([1, length, length]);
        let [_, of_rows, of_columns] = [0, 1, 2].map(|axis| if noise { lines.spectrum(axis) } else { Vec::new() });
        let mut all = vec![0.0f32; self.bound_bytes(noise) / size_of::<f32>()];
        // Of the columns that tell of the others, what the template makes of noise.
        let mut made = vec![Complex64::default(); if noise { (length / 2 + 1) * length } else { 0 }];
        let mut column = vec![Complex64::default(); length];
        for x in 0..=length / 2 {
            column.fill(Complex64::default());
            column.iter_mut().zip(rows.chunks(length)).for_each(|(to, row)| *to = row[x]);
            there.process(&mut column);
            let mut put = |y: usize, x: usize, value: Complex64| {
                let at = 2 * (y * length + x);
                (all[at], all[at + 1]) = (value.re as f32, value.im as f32);
            };
            for (y, value) in column.iter().enumerate() {
                put(y, x, value.conj());
                // Frequencies the other way round are the conjugates.
                put((length - y) % length, (length - x) % length, *value);
            }
            if let Some(made) = made.chunks_mut(length).nth(x) {
                let product = |(value, of_row): (&Complex64, &Complex64)| value.conj() * of_row * of_columns[x];
                made.iter_mut().zip(column.iter().zip(&of_rows)).for_each(|(to, both)| *to = product(both));
                back.process(made);
            }
        }
        let turns = (0..length).map(|at| Complex64::cis(-std::f64::consts::TAU * at as f64 / length as f64));
        let turns = turns.flat_map(|turn| [turn.re as f32, turn.im as f32]);
        all[2 * length * length..].iter_mut().zip(turns).for_each(|(to, turn)| *to = turn);
        if !noise {
            return all;
        }
        let numbers = [0, 1, 2].into_iter().flat_map(|axis| lines.of(axis));
        all[2 * (length * length + length)..].iter_mut().zip(numbers).for_each(|(to, &number)| *to = number);
        // Two rows are the real and the imaginary part of one.
        for (pair, to) in all[self.before_noise()..].chunks_mut(2 * length).enumerate() {
            let of = |x: usize, y: usize| made[x * length + y];
            let i = Complex64::i();
            for (x, value) in column.iter_mut().enumerate() {
                let (first, second) = match x <= length / 2 {
                    true => (of(x, 2 * pair), of(x, 2 * pair + 1)),
                    false => (of(length - x, 2 * pair).conj(), of(length - x, 2 * pair + 1).conj()),
                };
                *value = first + i * second;
            }
            back.process(&mut column);
            let (first, second) = to.split_at_mut(length);
            for (x, value) in column.iter().enumerate() {
                (first[x], second[x]) = (value.re as f32, value.im as f32);
            }
        }
        all
    }

    /// The largest magnitude of the spectrum of a template so bound: what a wave of amplitude 1 comes to at most.
    pub fn wave(self, bound: &[f32]) -> f64 {
        let values = bound[..2 * self.samples()].chunks(2);
        let magnitudes = values.map(|part| f64::from(part[0]).hypot(f64::from(part[1])));
        magnitudes.fold(0.0, f64::max) * self.samples() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::transform::{of_template, transformed};

    fn all() -> [Large; 3] {
        SUMS.map(|op| Large::of(flcc_generated::generic(op, "f32", false).unwrap()))
    }

    #[test]
    fn a_bound_template_is_its_spectrum_and_what_it_makes_of_noise() {
        let values: Vec<f64> = (0..35).map(|k| f64::from(k * k % 11) - 4.5).collect();
        let template = [1, 5, 7];
        for large in all().into_iter().take(2) {
            let length = large.shape.length;
            let bound = large.bound_template(template, &values, true);
            assert_eq!(bound[..2 * length * (length + 1)], large.bound_template(template, &values, false));
            assert_eq!(size_of_val(&bound[..]), large.bound_bytes(true));
            let expected = of_template([1, length, length], template, &values);
            let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
            let off = expected.iter().zip(bound.chunks(2)).map(|(expected, got)| {
                (Complex64::new(got[0].into(), got[1].into()) - expected).norm() * large.samples() as f64
            });
            assert!(off.fold(0.0, f64::max) < 1e-5 * norm, "{length}");
            let wave = expected.iter().map(|value| value.norm()).fold(0.0, f64::max) * large.samples() as f64;
            assert!((large.wave(&bound) - wave).abs() < 1e-5 * wave);
            let lines = &bound[2 * length * (length + 1)..];
            let (one, rows, columns) = (lines[0], &lines[1..=length], &lines[1 + length..]);
            assert!(one == 1.0);
            for [y, x] in [[0, 0], [3, 250], [length - 1, length - 2], [100, 101]] {
                let of = |(k, value): (usize, &f64)| {
                    let [row, column] = [(y + k / 7) % length, (x + k % 7) % length];
                    value * f64::from(rows[row]) * f64::from(columns[column])
                };
                let exact: f64 = values.iter().enumerate().map(of).sum();
                let got = f64::from(bound[large.before_noise() + y * length + x]);
                assert!((got - exact).abs() < 1e-6 * norm / length as f64, "{length}: {got}, expected {exact}");
            }
        }
        let turns = transformed([1, 1, 256], (0..256).map(|k| Complex64::from(f64::from(k == 1))).collect());
        let bound = all()[0].bound_template(template, &values, false);
        let got = bound[2 * 256 * 256..].chunks(2).map(|part| Complex64::new(part[0].into(), part[1].into()));
        assert!(got.zip(turns).all(|(got, expected)| (got - expected).norm() < 1e-7));
    }

    #[test]
    fn rooms_hold_some_pairs_at_a_time() {
        for large in all() {
            let one = large.parts(1).bytes();
            assert_eq!(large.room(3), [3 * one, MOST_NUMBERS]);
            assert_eq!([one - 1, one, 5 * one + 7].map(|bytes| large.pairs_in(bytes)), [1, 1, 5]);
            assert_eq!(large.threads, 256);
        }
        assert_eq!(all().map(Large::blocks), [16, 32, 128]);
    }

    #[test]
    fn templates_are_served_by_size() {
        let devices = |capability| {
            let (name, memory) = ("a device".into(), 8 << 30);
            vec![Device { index: 0, name, capability, multiprocessors: 50, f32_per_f64: 2, memory }]
        };
        let of = |spec: &str, capability| {
            let spec = spec.parse().unwrap();
            let ops = |entries: Vec<&'static Entry>| entries.into_iter().map(|entry| entry.op).collect::<Vec<_>>();
            [sums, scores].map(|kernels| ops(kernels(&spec, &devices(capability))))
        };
        let none: Vec<&str> = Vec::new();
        assert_eq!(of("corr:f32:2000x2000*64x64:full", (7, 5)), [SUMS.to_vec(), none.clone()]);
        assert_eq!(of("corr:f32:2000x2000*400x30:full", (9, 0)), [SUMS[1..].to_vec(), none.clone()]);
        assert_eq!(of("zncc:u8:2000x2000*200x200:full,roi=9,9:50x50", (9, 0)), [none.clone(), SCORES.to_vec()]);
        assert_eq!(of("zncc:f32:2000x2000*413x413:full", (9, 0)), [none.clone(), SCORES[1..].to_vec()]);
        // Windows are made of 1024 columns of samples at most.
        assert_eq!(of("zncc:f32:2000x2000*30x900:full", (9, 0)), [none.clone(), none.clone()]);
        assert_eq!(of("zncc:f64:2000x2000*64x64:full", (9, 0)), [none.clone(), none]);
    }
}
