//! Correlation of signals by Fourier transforms of 4096 or 16384 samples, from the signal to the result in one kernel:
//! which problems it serves, the order of a spectrum, and its launch. The kernels' text, templates/cuda/line, has the
//! derivation; docs/numerics.md has the error model.

use flcc_core::dtype::DType;
use flcc_core::spec::Spec;
use flcc_generated::Entry;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::cuda::capability::most_shared;
use crate::cuda::driver::launch::{Address, Argument, Function, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::method::Job;
use crate::cuda::transform::{Coverage, Spectra, Transform, laid_out, makes_plain_sums};
use crate::plan::machine::Device;

/// The operations of its kernels.
pub(crate) const OPS: [&str; 2] = ["line4096", "line16384"];

/// Outputs of a stretch, at least: with fewer, whole signals are transformed faster.
const LEAST_OUTPUTS: usize = 512;

/// Blocks that keep every multiprocessor of a large device busy to the end.
const ENOUGH_BLOCKS: usize = 2000;

/// Templates of a block, at most: the transform of its samples is then a sixteenth of its work.
const MOST_OF_A_BLOCK: usize = 16;

/// Templates that a block has of so many, where blocks of one template would be so many.
fn templates_of_a_block(templates: usize, blocks: usize) -> usize {
    (templates * blocks / ENOUGH_BLOCKS).clamp(1, MOST_OF_A_BLOCK.min(templates))
}

/// The numbers of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Samples of a transform.
    pub length: usize,
    /// Threads of a block.
    threads: usize,
    /// Bytes of shared memory of a block.
    shared: usize,
}

impl Line {
    /// Outputs of a stretch.
    pub fn step(self, taps: usize) -> usize {
        (self.length + 1).saturating_sub(taps)
    }

    /// Pairs of stretches that outputs take.
    pub fn pairs(self, taps: usize, outputs: usize) -> usize {
        outputs.div_ceil(self.step(taps)).div_ceil(2)
    }

    /// Samples of transforms times their logarithm, of the blocks that one of so many multiprocessors computes.
    pub fn work(self, pairs: usize, multiprocessors: usize) -> f64 {
        let samples = self.length as f64;
        pairs.div_ceil(multiprocessors) as f64 * samples * samples.log2()
    }

    /// Whether its turns stay in no first-level cache, and a sample takes longer.
    pub fn is_long(self) -> bool {
        self.length > 4096
    }

    /// How a template of so many taps lies in it: a result that wraps round meets parts of two panels.
    fn coverage(self, taps: usize) -> Coverage {
        let samples = self.length as f64;
        let covers = 2.0 * self.length.div_ceil(taps) as f64;
        Coverage {
            samples,
            taps: taps as f64,
            covers,
            shown: self.step(taps) as f64 / samples,
            wrapped: 2.0,
            in_row: None,
        }
    }

    /// Whether it serves sums by so many taps: outputs enough, and errors that are granted.
    fn fits(self, taps: usize) -> bool {
        self.step(taps) >= LEAST_OUTPUTS && self.coverage(taps).is_granted()
    }
}

impl Transform for Line {
    fn of(entry: &Entry) -> Line {
        Line { length: entry.tile[1], threads: entry.block[1], shared: entry.shared }
    }

    fn samples(self) -> usize {
        self.length
    }

    /// Over the number of samples, turned so that a product with it correlates. Computed in f64.
    fn spectrum(self, _template: [usize; 3], values: &[f64]) -> Vec<f32> {
        let (length, threads) = (self.length, self.threads);
        let mut all = vec![Complex64::default(); length];
        for (to, &value) in all.iter_mut().zip(values) {
            to.re = value / length as f64;
        }
        FftPlanner::new().plan_fft_forward(length).process(&mut all);
        laid_out((length, threads), |thread, index| all[thread + threads * index].conj(), length)
    }

    fn spectrum_bytes(self) -> usize {
        4 * self.length * size_of::<f32>()
    }

    fn covers([depth, height, _]: [usize; 3]) -> bool {
        depth == 1 && height == 1
    }

    fn launch(
        self,
        stream: &Stream,
        function: &Function,
        [_, _, taps]: [usize; 3],
        job: &Job<'_>,
        spectrum: Address,
    ) -> Result<(), Fault> {
        let all = Argument::Room(spectrum, self.spectrum_bytes());
        let spectra = Spectra { all, factors: Argument::Null, count: 1, apart: 0 };
        self.launch_all(stream, (function, None), [1, 1, taps], job, &spectra)
    }

    fn serves_several(self) -> bool {
        true
    }

    /// Where a multiprocessor has room for two such blocks. The longer transform takes all of it for one.
    fn shared_by_several(self, most: usize) -> usize {
        let both = 2 * self.shared;
        if 2 * both <= most { both } else { 0 }
    }

    fn launch_all(
        self,
        stream: &Stream,
        (alone, sharing): (&Function, Option<&Function>),
        [_, _, taps]: [usize; 3],
        job: &Job<'_>,
        spectra: &Spectra<'_>,
    ) -> Result<(), Fault> {
        let pairs = self.pairs(taps, job.outputs[2]);
        let (each, function) = match (templates_of_a_block(spectra.count, pairs * job.count), sharing) {
            (each @ 2.., Some(sharing)) => (each, sharing),
            _ => (1, alone),
        };
        let number = |value: usize| Argument::Int(value as i32);
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            job.out,
            Argument::Result(job.result),
            number(job.outputs[2]),
            Argument::Int(job.begin[2]),
            number(self.step(taps)),
            spectra.all,
            spectra.factors,
            Argument::Double(job.factor),
            number(spectra.count),
            number(each),
            Argument::Long(spectra.apart as i64),
            job.extraordinary,
        ];
        let grid = [pairs as u32, spectra.count.div_ceil(each) as u32, job.count as u32];
        stream.launch(function, grid, [self.threads as u32, 1], &arguments)
    }
}

/// The kernels that serve a spec on these devices: sums of a signal in f32 without a mask, over all of a mode.
pub(crate) fn kernels(spec: &Spec, devices: &[Device]) -> Vec<&'static Entry> {
    if !(spec.image().axes() == 1 && makes_plain_sums(spec)) {
        return Vec::new();
    }
    let entries = OPS.into_iter().filter_map(|op| flcc_generated::generic(op, DType::F32.name(), true));
    entries
        .filter(|entry| {
            let line = Line::of(entry);
            let room = devices.iter().all(|device| line.shared <= most_shared(device.capability));
            line.fits(spec.template().len()) && room
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::transform::assert_spectrum;

    fn lines() -> [Line; 2] {
        OPS.map(|op| Line::of(flcc_generated::generic(op, "f32", true).unwrap()))
    }

    #[test]
    fn a_spectrum_is_that_of_the_template() {
        for line in lines() {
            let turn = |(thread, index): (usize, usize), k: usize| {
                ((thread + line.threads * index) * k) as f64 / line.length as f64
            };
            assert_spectrum(line, line.threads, [1, 1, 6], turn);
        }
    }

    #[test]
    fn templates_are_served_whose_errors_are_granted() {
        let [short, long] = lines();
        for taps in [40, 100, 500, 1500, 3500] {
            assert!(short.fits(taps), "{taps}: {}", short.coverage(taps).error());
        }
        for taps in [64, 500, 5000, 15000] {
            assert!(long.fits(taps), "{taps}: {}", long.coverage(taps).error());
        }
        // Too few taps, or too few outputs.
        assert!(!short.fits(9) && !long.fits(9) && !short.fits(3586) && !long.fits(16000));
    }

    #[test]
    fn blocks_share_a_transform_where_there_are_enough() {
        assert_eq!([1, 100, 4000].map(|templates| templates_of_a_block(templates, 140)), [1, 7, 16]);
        assert_eq!([1, 3].map(|templates| templates_of_a_block(templates, 100_000)), [1, 3]);
        // Where two such blocks have room beside each other.
        let shared = |line: Line| [(7, 5), (8, 0), (8, 6), (9, 0)].map(|of| line.shared_by_several(most_shared(of)));
        let [short, long] = lines();
        assert_eq!(shared(short), [0, 64 << 10, 0, 64 << 10]);
        assert_eq!(shared(long), [0; 4]);
    }

    #[test]
    fn signals_of_floats_are_served() {
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let count = |spec: &str, capability| kernels(&spec.parse().unwrap(), &[device(capability)]).len();
        let all = [(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)];
        assert_eq!(all.map(|capability| count("corr:f32:1000000*500:full", capability)), [1, 2, 1, 2, 1]);
        for other in [
            "corr:f32:1000000*500:full,channels=2",
            "corr:f32:1000000*500:full,roi=9:500",
            "corr:f32:1000000*500:full,mask01",
            "corr:f32:1000000*500:full,acc=exact",
            "corr:f64:1000000*500:full",
            "zncc:f32:1000000*500:full",
            "corr:f32:2000x2000*32x32:full",
        ] {
            assert_eq!(count(other, (9, 0)), 0, "{other}");
        }
    }
}
