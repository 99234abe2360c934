//! Correlation by Fourier transforms of tiles of 64x64 or 128x128 samples, from the image to the result in one kernel,
//! and zncc in two: which problems they serve, the order of a spectrum, and its launch. The kernels' texts,
//! templates/cuda/tile, templates/cuda/scores and templates/cuda/pipeline/transform, have the derivation;
//! docs/numerics.md has the error model.

use crate::cuda::capability::most_shared;
use crate::cuda::driver::launch::{Address, Argument, Function, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::method::Job;
use crate::cuda::transform::{Coverage, Scored, Transform, laid_out, makes_plain_sums, of_template};
use crate::cuda::windows_of_planes::DownRows;
use crate::plan::machine::Device;
use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_generated::Entry;

/// The operations of kernels that make sums.
pub(crate) const OPS: [&str; 2] = ["tile64", "tile128"];

/// The operations of kernels that make scores.
pub(crate) const SCORES: [&str; 2] = ["zncc64", "zncc128"];

/// Whether a kernel of tiles makes scores.
pub(crate) fn makes_scores(entry: &Entry) -> bool {
    SCORES.contains(&entry.op)
}

/// Outputs of a tile along either axis, at least: with fewer, whole images are transformed faster.
const LEAST_OUTPUTS: usize = 8;

/// What part of a tile's samples along either axis are outputs, at least, where tiles are large.
const LEAST_SHARE: usize = 16;

/// The numbers of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Samples of a transform along either axis.
    pub length: usize,
    /// Threads of a block: rows and columns.
    threads: [usize; 2],
    /// Bytes of shared memory of a block.
    shared: usize,
}

impl Shape {
    /// Outputs of a tile: rows and columns.
    pub fn step(self, [_, height, width]: [usize; 3]) -> [usize; 2] {
        [height, width].map(|side| (self.length + 1).saturating_sub(side))
    }

    /// Pairs of tiles that outputs take, and how many tiles there are in all and in a row.
    pub fn pairs(self, template: [usize; 3], [_, rows, columns]: [usize; 3]) -> (usize, usize, usize) {
        let [down, across] = self.step(template);
        let in_row = columns.div_ceil(across);
        let tiles = rows.div_ceil(down) * in_row;
        (tiles.div_ceil(2), tiles, in_row)
    }

    /// Samples of transforms times their logarithm, of the blocks that one of so many multiprocessors computes.
    pub fn work(self, pairs: usize, multiprocessors: usize) -> f64 {
        let samples = (self.length * self.length) as f64;
        pairs.div_ceil(multiprocessors) as f64 * samples * samples.log2()
    }

    /// How a template lies in it: a result that wraps round meets parts of four panels.
    fn coverage(self, template: [usize; 3]) -> Coverage {
        let [height, width] = [template[1], template[2]];
        let samples = (self.length * self.length) as f64;
        let covers = 2.0 * (self.length.div_ceil(height) * self.length.div_ceil(width)) as f64;
        let shown = self.step(template).iter().product::<usize>() as f64 / samples;
        let in_row = self.is_large().then(|| 2.0 * self.length.div_ceil(width) as f64);
        Coverage { samples, taps: (height * width) as f64, covers, shown, wrapped: 4.0, in_row }
    }

    /// Whether no block has room for it, so that rows and columns are transformed by kernels of their own.
    fn is_large(self) -> bool {
        self.length > 128
    }

    /// Whether a tile has outputs enough.
    fn holds(self, template: [usize; 3]) -> bool {
        self.step(template).iter().all(|&outputs| outputs >= LEAST_OUTPUTS.max(self.length / LEAST_SHARE))
    }

    /// Whether it serves sums by templates of such sides: outputs enough, and errors that are granted.
    fn fits(self, template: [usize; 3]) -> bool {
        self.holds(template) && self.coverage(template).is_granted()
    }

    /// Whether blocks of these devices have the shared memory.
    fn has_room(self, devices: &[Device]) -> bool {
        devices.iter().all(|device| self.shared <= most_shared(device.capability))
    }

    /// The frequency that value `index` of thread `thread` is after the last stage: down and across.
    fn frequency(self, thread: usize, index: usize) -> [usize; 2] {
        let [rows, lanes] = self.threads;
        let [outer_y, outer_x] = [self.length / rows, self.length / lanes];
        let middle_y = rows / outer_y;
        let down = thread / (lanes * middle_y) + outer_y * (thread / lanes % middle_y);
        [down + rows * (index / outer_x), thread % lanes + lanes * (index % outer_x)]
    }
}

/// The kernels that serve a spec on these devices: sums of an image in f32 without a mask, over all of a mode, and
/// scores of images whose samples f32 holds.
pub(crate) fn kernels(spec: &Spec, devices: &[Device]) -> Vec<&'static Entry> {
    kernels_among(spec, devices, &OPS, &SCORES)
}

/// Those of some that make sums, and some that make scores.
pub(crate) fn kernels_among(
    spec: &Spec,
    devices: &[Device],
    sums: &[&'static str],
    scores: &[&'static str],
) -> Vec<&'static Entry> {
    let plain = spec.mask() == MaskKind::None && spec.channels() == 1 && spec.image().axes() == 2;
    let single = spec.image_type() != DType::F64 && spec.out_type() == DType::F32;
    if !(plain && single && spec.accuracy() != Accuracy::Exact) {
        return Vec::new();
    }
    let ops = match spec.op().measure() {
        Measure::Cc if makes_plain_sums(spec) => sums,
        Measure::Zncc => scores,
        _ => return Vec::new(),
    };
    let template = spec.template().padded();
    let entries = ops.iter().filter_map(|op| flcc_generated::generic(op, DType::F32.name(), false));
    entries
        .filter(|entry| {
            let shape = Shape::of(entry);
            let scored = spec.op().measure() == Measure::Zncc;
            let serves = if scored { shape.holds(template) } else { shape.fits(template) };
            serves && shape.has_room(devices)
        })
        .collect()
}

impl Transform for Shape {
    fn of(entry: &Entry) -> Shape {
        Shape { length: entry.tile[0], threads: entry.block, shared: entry.shared }
    }

    fn samples(self) -> usize {
        self.length * self.length
    }

    fn spectrum(self, template: [usize; 3], values: &[f64]) -> Vec<f32> {
        let length = self.length;
        let all = of_template(self.sides(), template, values);
        let value = |thread, index| all[self.place(thread, index)];
        laid_out((length * length, self.threads[0] * self.threads[1]), value, length)
    }

    fn spectrum_bytes(self) -> usize {
        (self.length * self.length + self.length) * 2 * size_of::<f32>()
    }

    fn covers([depth, _, _]: [usize; 3]) -> bool {
        depth == 1
    }

    fn launch(
        self,
        stream: &Stream,
        function: &Function,
        template: [usize; 3],
        job: &Job<'_>,
        spectrum: Address,
    ) -> Result<(), Fault> {
        if job.count > MOST_BLOCKS {
            return Err(Fault::new("tile transform", format!("{} images are more than {MOST_BLOCKS}", job.count)));
        }
        let (pairs, tiles, in_row) = self.pairs(template, job.outputs);
        let [down, across] = self.step(template);
        let number = |value: usize| Argument::Int(value as i32);
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            job.out,
            Argument::Result(job.result),
            number(job.outputs[1]),
            number(job.outputs[2]),
            Argument::Int(job.begin[1]),
            Argument::Int(job.begin[2]),
            number(down),
            number(across),
            number(in_row),
            number(tiles),
            Argument::Room(spectrum, self.spectrum_bytes()),
            Argument::Double(job.factor),
            job.extraordinary,
        ];
        let threads = (self.threads[0] * self.threads[1]) as u32;
        stream.launch(function, [pairs as u32, 1, job.count as u32], [threads, 1], &arguments)
    }
}

impl Scored for Shape {
    type Windows = DownRows;

    fn sides(self) -> [usize; 3] {
        [1, self.length, self.length]
    }

    fn threads(self) -> usize {
        self.threads[0] * self.threads[1]
    }

    fn transforms(self, template: [usize; 3], outputs: [usize; 3]) -> usize {
        2 * self.pairs(template, outputs).0
    }

    fn place(self, thread: usize, index: usize) -> usize {
        let [down, across] = self.frequency(thread, index);
        down * self.length + across
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::transform::assert_spectrum;

    fn shapes() -> [Shape; 2] {
        OPS.map(|op| Shape::of(flcc_generated::generic(op, "f32", false).unwrap()))
    }

    #[test]
    fn every_frequency_has_one_place() {
        for shape in shapes() {
            let threads = shape.threads[0] * shape.threads[1];
            let mut seen = vec![false; shape.length * shape.length];
            for at in 0..seen.len() {
                let [down, across] = shape.frequency(at % threads, at / threads);
                assert!(!std::mem::replace(&mut seen[down * shape.length + across], true));
            }
            assert!(seen.into_iter().all(|seen| seen));
        }
    }

    #[test]
    fn a_spectrum_is_that_of_the_template() {
        for shape in shapes() {
            let turn = |(thread, index): (usize, usize), k: usize| {
                let [down, across] = shape.frequency(thread, index);
                (down * (k / 2) + across * (k % 2)) as f64 / shape.length as f64
            };
            assert_spectrum(shape, shape.threads[0] * shape.threads[1], [1, 3, 2], turn);
        }
    }

    #[test]
    fn what_a_template_makes_of_noise_stands_behind_its_spectrum() {
        for shape in shapes() {
            let (length, values) = (shape.length, [1.0, -2.0, 0.5, 4.0, 3.0, -1.5]);
            let all = shape.spectrum_with_noise([1, 3, 2], &values);
            assert_eq!(all.len() * size_of::<f32>(), shape.bytes_with_noise());
            let (lines, made) = all[2 * length * (length + 1)..].split_at(4 + 2 * length);
            let ([rows, columns], threads) = ([&lines[1..=length], &lines[1 + length..]], shape.threads());
            for (thread, index) in [(0, 0), (7, 2), (200, 15), (threads - 1, 6)] {
                let [y, x] = shape.frequency(thread, index);
                let of = |(k, value): (usize, &f64)| {
                    let [row, column] = [(y + k / 2) % length, (x + k % 2) % length];
                    value * f64::from(rows[row]) * f64::from(columns[column])
                };
                let exact: f64 = values.iter().enumerate().map(of).sum();
                let got = f64::from(made[(index / 4 * threads + thread) * 4 + index % 4]);
                assert!((got - exact).abs() < 1e-7 / length as f64, "{length}, ({y}, {x}): {got}, expected {exact}");
            }
        }
    }

    #[test]
    fn templates_are_served_whose_errors_are_granted() {
        let [small, large] = shapes();
        for side in [8, 9, 16, 21, 32, 57] {
            assert!(small.fits([1, side, side]), "{side}: {}", small.coverage([1, side, side]).error());
        }
        for side in [12, 16, 64, 76, 121] {
            assert!(large.fits([1, side, side]), "{side}: {}", large.coverage([1, side, side]).error());
        }
        // Too few taps, or too few outputs.
        assert!(!small.fits([1, 3, 3]) && !large.fits([1, 3, 3]) && !small.fits([1, 1, 9]));
        assert!(!small.fits([1, 58, 20]) && !large.fits([1, 122, 122]) && !large.fits([1, 200, 9]));
    }

    #[test]
    fn devices_without_the_shared_memory_get_the_smaller_transform() {
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let spec: Spec = "corr:f32:2000x2000*32x32:full".parse().unwrap();
        let count = |capability| kernels(&spec, &[device(capability)]).len();
        let all = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
        assert_eq!(all.map(count), [1, 2, 1, 1, 2, 2, 1]);
        let spec: Spec = "zncc:u8:2000x2000*32x32:full,roi=9,9:500x500".parse().unwrap();
        assert_eq!(all.map(|capability| kernels(&spec, &[device(capability)]).len()), [1, 2, 1, 1, 2, 2, 1]);
        for other in [
            "corr:f32:2000x2000*32x32:full,channels=2",
            "corr:f32:2000x2000*32x32:full,roi=9,9:500x500",
            "corr:f32:2000x2000*32x32:full,mask01",
            "corr:f32:2000x2000*32x32:full,acc=exact",
            "corr:f64:2000x2000*32x32:full",
            "ncc:f32:2000x2000*32x32:full",
            "zncc:f64:2000x2000*32x32:full",
            "zncc:u8>f64:2000x2000*32x32:full",
            "zncc:u8:2000x2000*32x32:full,acc=exact",
            "zncc:f32:100x100x100*8x8x8:full",
            "corr:f32:100x100x100*8x8x8:full",
        ] {
            assert!(kernels(&other.parse().unwrap(), &[device((9, 0))]).is_empty(), "{other}");
        }
    }
}
