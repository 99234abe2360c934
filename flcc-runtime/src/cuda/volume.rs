//! Correlation of volumes by Fourier transforms of 16x32x32 samples, from the image to the result in one kernel: which
//! problems it serves, the order of a spectrum, and its launch. The kernel's text, templates/cuda/volume, has the
//! derivation; docs/numerics.md has the error model.

use crate::cuda::capability::most_shared;
use crate::cuda::driver::launch::{Address, Argument, Function, MOST_BLOCKS, PartsView, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::method::Job;
use crate::cuda::transform::{Coverage, Scored, Transform, laid_out, makes_plain_sums, of_template};
use crate::cuda::windows::Windows;
use crate::cuda::windows_of_volumes::{self, AcrossPlanes};
use crate::plan::machine::Device;
use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_generated::Entry;

/// Samples of a transform along each axis, as the kernel's text has them.
const SIDES: [usize; 3] = [16, 32, 32];

/// Threads of a block along each axis, which is what lies between the numbers of one.
const LANES: usize = 8;

/// Samples of a transform.
const SAMPLES: usize = SIDES[0] * SIDES[1] * SIDES[2];

/// Outputs of a tile along each axis, at least: with fewer, whole volumes are transformed faster.
const LEAST_OUTPUTS: [usize; 3] = [3, 8, 8];

/// The kernel, by its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Threads of a block.
    threads: usize,
    /// Bytes of shared memory of a block.
    shared: usize,
}

/// Outputs of a tile.
fn step(template: [usize; 3]) -> [usize; 3] {
    [0, 1, 2].map(|axis| (SIDES[axis] + 1).saturating_sub(template[axis]))
}

/// Tiles along each axis.
fn tiles(template: [usize; 3], outputs: [usize; 3]) -> [usize; 3] {
    let step = step(template);
    [0, 1, 2].map(|axis| outputs[axis].div_ceil(step[axis]))
}

/// Pairs of tiles that outputs take.
fn pairs(template: [usize; 3], outputs: [usize; 3]) -> usize {
    tiles(template, outputs).iter().product::<usize>().div_ceil(2)
}

/// Samples of transforms times their logarithm, of the blocks that one of so many multiprocessors computes for so many
/// templates.
pub(crate) fn work([template, outputs]: [[usize; 3]; 2], templates: usize, multiprocessors: usize) -> f64 {
    let blocks = (pairs(template, outputs) * templates).div_ceil(multiprocessors);
    blocks as f64 * SAMPLES as f64 * (SAMPLES as f64).log2()
}

/// How a template lies in a transform: a result that wraps round meets parts of eight panels.
fn coverage(template: [usize; 3]) -> Coverage {
    let covers = 2.0 * [0, 1, 2].map(|axis| SIDES[axis].div_ceil(template[axis]) as f64).iter().product::<f64>();
    let shown = step(template).iter().product::<usize>() as f64 / SAMPLES as f64;
    let taps = template.iter().product::<usize>() as f64;
    Coverage { samples: SAMPLES as f64, taps, covers, shown, wrapped: 8.0, in_row: None }
}

/// Whether a tile has outputs enough.
fn has_outputs(template: [usize; 3]) -> bool {
    step(template).iter().zip(LEAST_OUTPUTS).all(|(&outputs, least)| outputs >= least)
}

/// Whether sums by a template of such sides are served: outputs enough, and errors that are granted.
fn fits(template: [usize; 3]) -> bool {
    has_outputs(template) && coverage(template).is_granted()
}

/// The tile of scores, of up to so many outputs: all of them, or as many planes as whole transforms have.
pub(crate) fn tile(template: [usize; 3], outputs: [usize; 3], most: usize) -> [usize; 3] {
    let [depth, height, width] = outputs;
    let planes = (most / (height * width).max(1)).max(1);
    let whole = planes / step(template)[0].max(1) * step(template)[0].max(1);
    [depth.min(if whole > 0 { whole } else { planes }), height, width]
}

/// The frequency that value `index` of thread `thread` is after the last stage.
fn frequency(thread: usize, index: usize) -> [usize; 3] {
    let [z, y, x] = [thread / (LANES * LANES), thread / LANES % LANES, thread % LANES];
    let (down, across) = (SIDES[1] / LANES, SIDES[2] / LANES);
    [z + LANES * (index / (down * across)), y + LANES * (index / across % down), x + LANES * (index % across)]
}

fn place([z, y, x]: [usize; 3]) -> usize {
    (z * SIDES[1] + y) * SIDES[2] + x
}

impl Transform for Block {
    fn of(entry: &Entry) -> Block {
        Block { threads: entry.block[0] * entry.block[1], shared: entry.shared }
    }

    fn samples(self) -> usize {
        SAMPLES
    }

    /// Over the number of samples, turned so that a product with it correlates. Computed in f64.
    fn spectrum(self, template: [usize; 3], values: &[f64]) -> Vec<f32> {
        let all = of_template(SIDES, template, values);
        let value = |thread, index| all[place(frequency(thread, index))];
        laid_out((SAMPLES, self.threads), value, SIDES[2])
    }

    fn spectrum_bytes(self) -> usize {
        (SAMPLES + SIDES[2]) * 2 * size_of::<f32>()
    }

    fn covers(_outputs: [usize; 3]) -> bool {
        true
    }

    fn launch(
        self,
        stream: &Stream,
        function: &Function,
        template: [usize; 3],
        job: &Job<'_>,
        spectrum: Address,
    ) -> Result<(), Fault> {
        let narrow = |sides: [usize; 3]| sides.map(|side| side as i32);
        let parts = PartsView {
            out: narrow(job.outputs),
            begin: job.begin,
            step: narrow(step(template)),
            tiles: narrow(tiles(template, job.outputs)),
        };
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            job.out,
            Argument::Result(job.result),
            Argument::Parts(&parts),
            Argument::Room(spectrum, self.spectrum_bytes()),
            Argument::Double(job.factor),
            job.extraordinary,
        ];
        let grid = [pairs(template, job.outputs) as u32, job.count as u32, 1];
        stream.launch(function, grid, [self.threads as u32, 1], &arguments)
    }
}

impl Scored for Block {
    type Windows = AcrossPlanes;

    fn sides(self) -> [usize; 3] {
        SIDES
    }

    fn threads(self) -> usize {
        self.threads
    }

    fn transforms(self, template: [usize; 3], outputs: [usize; 3]) -> usize {
        2 * pairs(template, outputs)
    }

    fn place(self, thread: usize, index: usize) -> usize {
        place(frequency(thread, index))
    }
}

/// The source of scores, if it serves a spec on these devices: zncc of a volume whose samples f32 holds, without a
/// mask.
pub(crate) fn scores(spec: &Spec, devices: &[Device]) -> Option<&'static Entry> {
    let entry = flcc_generated::generic("zncc32", DType::F32.name(), false)?;
    let template = spec.template().padded();
    let plain = spec.mask() == MaskKind::None && spec.channels() == 1 && spec.accuracy() != Accuracy::Exact;
    let single = spec.image_type() != DType::F64 && spec.out_type() == DType::F32;
    let serves = spec.image().axes() == 3 && spec.op().measure() == Measure::Zncc && plain && single;
    let room = Block::of(entry).shared.max(AcrossPlanes::shared(template));
    let (outputs, most) = (spec.mode_region().shape.padded(), MOST_BLOCKS);
    let places = spec.image().padded()[1..].iter().fold(1usize, |places, &side| places.saturating_mul(side));
    let held = windows_of_volumes::holds(template) && windows_of_volumes::chunks(outputs) <= most;
    let fits = has_outputs(template) && held && i32::try_from(places).is_ok();
    (serves && fits && devices.iter().all(|device| room <= most_shared(device.capability))).then_some(entry)
}

/// The kernel, if it serves a spec on these devices: sums of a volume in f32 without a mask, over all of a mode.
pub(crate) fn kernel(spec: &Spec, devices: &[Device]) -> Option<&'static Entry> {
    let entry = flcc_generated::generic("volume32", DType::F32.name(), false)?;
    let room = devices.iter().all(|device| Block::of(entry).shared <= most_shared(device.capability));
    let serves = spec.image().axes() == 3 && makes_plain_sums(spec) && fits(spec.template().padded());
    (serves && room).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::transform::assert_spectrum;

    fn block() -> Block {
        Block::of(flcc_generated::generic("volume32", "f32", false).unwrap())
    }

    #[test]
    fn every_frequency_has_one_place() {
        let threads = block().threads;
        let mut seen = vec![false; SAMPLES];
        for at in 0..SAMPLES {
            assert!(!std::mem::replace(&mut seen[place(frequency(at % threads, at / threads))], true));
        }
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn a_spectrum_is_that_of_the_template() {
        let turn = |(thread, index): (usize, usize), k: usize| {
            let at = [k / 3, k % 3 / 3, k % 3];
            let part = |axis: usize| (frequency(thread, index)[axis] * at[axis]) as f64 / SIDES[axis] as f64;
            part(0) + part(1) + part(2)
        };
        assert_spectrum(block(), block().threads, [2, 1, 3], turn);
    }

    #[test]
    fn what_a_template_makes_of_noise_stands_behind_its_spectrum() {
        let (template, values) = ([2, 1, 3], [1.0, -2.0, 0.5, 4.0, 3.0, -1.5]);
        let all = block().spectrum_with_noise(template, &values);
        assert_eq!(all.len() * size_of::<f32>(), block().bytes_with_noise());
        let (lines, made) = all[2 * (SAMPLES + SIDES[2])..].split_at(SIDES.iter().sum());
        let threads = block().threads;
        for (thread, index) in [(0, 0), (7, 2), (500, 31), (300, 30), (threads - 1, 17)] {
            let at = frequency(thread, index);
            let of = |(k, value): (usize, &f64)| {
                let [z, y, x] = [(at[0] + k / 3) % SIDES[0], at[1], (at[2] + k % 3) % SIDES[2]];
                value
                    * [z, SIDES[0] + y, SIDES[0] + SIDES[1] + x]
                        .map(|line| f64::from(lines[line]))
                        .iter()
                        .product::<f64>()
            };
            let exact: f64 = values.iter().enumerate().map(of).sum();
            let got = f64::from(made[(index / 4 * threads + thread) * 4 + index % 4]);
            assert!((got * SAMPLES as f64 - exact * SAMPLES as f64).abs() < 1e-4, "{at:?}: {got}, expected {exact}");
        }
    }

    #[test]
    fn scores_of_volumes_that_f32_holds_are_served() {
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let served = |spec: &str, capability| scores(&spec.parse().unwrap(), &[device(capability)]).is_some();
        let all = [(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)];
        let spec = "zncc:f32:100x100x100*8x8x8:full,roi=9,9,9:50x50x50";
        assert_eq!(all.map(|capability| served(spec, capability)), [false, true, false, true, false]);
        assert!(served("zncc:u16:30x60x90*3x3x3:same,reflect", (9, 0)));
        for other in [
            "zncc:f32:100x100x100*8x8x26:full",
            "zncc:f32:100x100x100*15x8x8:full",
            "zncc:f32:100x100x100*8x8x8:full,channels=2",
            "zncc:f32:100x100x100*8x8x8:full,mask01",
            "zncc:f32:100x100x100*8x8x8:full,acc=exact",
            "zncc:f64:100x100x100*8x8x8:full",
            "ncc:f32:100x100x100*8x8x8:full",
            "zncc:f32:2000x2000*8x8:full",
        ] {
            assert!(!served(other, (9, 0)), "{other}");
        }
    }

    #[test]
    fn tiles_of_scores_have_whole_transforms() {
        assert_eq!(tile([8, 8, 8], [107, 107, 107], 1 << 26), [107, 107, 107]);
        // 249 planes of 519x519 are 2^26 outputs; a transform has nine planes.
        assert_eq!(tile([8, 8, 8], [519, 519, 519], 1 << 26), [243, 519, 519]);
        assert_eq!(tile([8, 8, 8], [519, 5190, 5190], 1 << 26), [2, 5190, 5190]);
    }

    #[test]
    fn templates_are_served_whose_errors_are_granted() {
        for side in 4..=12 {
            assert!(fits([side; 3]), "{side}: {}", coverage([side; 3]).error());
        }
        assert!(fits([3, 15, 20]) && fits([14, 4, 4]));
        // Too few taps, or too few outputs.
        assert!(!fits([2; 3]) && !fits([15, 8, 8]) && !fits([4, 26, 8]) && !fits([40, 8, 8]));
    }

    #[test]
    fn volumes_of_floats_are_served() {
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let served = |spec: &str, capability| kernel(&spec.parse().unwrap(), &[device(capability)]).is_some();
        let all = [(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)];
        let spec = "corr:f32:100x100x100*8x8x8:full";
        assert_eq!(all.map(|capability| served(spec, capability)), [false, true, false, true, false]);
        assert!(served("conv:f32:30x60x90*9x8x7:valid", (9, 0)));
        for other in [
            "corr:f32:100x100x100*8x8x8:full,channels=2",
            "corr:f32:100x100x100*8x8x8:full,roi=9,9,9:50x50x50",
            "corr:f32:100x100x100*8x8x8:full,mask01",
            "corr:f32:100x100x100*8x8x8:full,acc=exact",
            "corr:f64:100x100x100*8x8x8:full",
            "zncc:f32:100x100x100*8x8x8:full",
            "corr:f32:2000x2000*32x32:full",
        ] {
            assert!(!served(other, (9, 0)), "{other}");
        }
    }

    #[test]
    fn tiles_cover_the_outputs() {
        assert_eq!(tiles([8, 8, 8], [107, 107, 107]), [12, 5, 5]);
        assert_eq!(pairs([8, 8, 8], [107, 107, 107]), 150);
        assert_eq!(tiles([5, 7, 9], [12, 26, 25]), [1, 1, 2]);
    }
}
