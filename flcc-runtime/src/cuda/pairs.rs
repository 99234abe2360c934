//! Correlation of images that have a template of their own each, by transforms of rows and products down columns, from
//! images and templates to results in one kernel: which problems it serves, its rounding, and its launch. The kernels'
//! text, templates/cuda/pairs, has the derivation; docs/numerics.md has the error model.

use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::cuda::driver::launch::{Argument, Function, ImageView, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::method::{Job, OwnTemplates};
use crate::cuda::transform::{DEVIATIONS, granted};
use crate::plan::machine::Device;
use crate::problem::error_model::{GHOSTS, SPREAD};

/// The operations of its kernels.
pub(crate) const OPS: [&str; 2] = ["pairs64", "pairs128"];

/// Outputs of a row of a block, at least.
const LEAST_OUTPUTS: usize = 8;

/// Bytes of a number.
const NUMBER: usize = 2 * size_of::<f32>();

/// Bytes of shared memory that a multiprocessor has besides what one block may have, and that it keeps of each.
const KEPT: usize = 1 << 10;

/// The numbers of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs {
    /// Samples of a transform.
    pub length: usize,
    /// Threads of a block.
    threads: usize,
    /// Outputs of a column that a thread has at a time.
    together: usize,
}

/// How a block shares a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Passes of a half.
    passes: usize,
    /// Outputs of a block: rows and columns.
    pub step: [usize; 2],
    /// Bytes of shared memory of a block.
    shared: usize,
}

impl Pairs {
    pub fn of(entry: &Entry) -> Pairs {
        let [groups, length] = entry.block;
        Pairs { length, threads: groups * length, together: entry.tile[0] / groups }
    }

    /// Columns of outputs of a block.
    fn across(self, width: usize) -> usize {
        (self.length + 1).saturating_sub(width)
    }

    /// Bytes of shared memory of a block with so many passes.
    fn shared(self, passes: usize, height: usize) -> usize {
        let lines = 2 * passes * self.together + height - 1 + height.div_ceil(2);
        lines * (self.length + 8) * NUMBER
    }

    /// How blocks share outputs on a device where one may have so much shared memory: as many rows as there are, or as
    /// two blocks of a multiprocessor have room for, or else one. `None`: not even one has.
    pub fn part(self, [_, height, width]: [usize; 3], [_, rows, _]: [usize; 3], room: usize) -> Option<Part> {
        // Each line of a half has a row of the upper outputs and one of the lower.
        let all = rows.div_ceil(2).div_ceil(2 * self.together).max(1);
        let fits = |room: usize| (1..=all).rev().find(|&passes| self.shared(passes, height) <= room);
        let passes = fits((room + KEPT) / 2 - KEPT).or_else(|| fits(room))?;
        let step = [rows.min(4 * passes * self.together), self.across(width)];
        Some(Part { passes, step, shared: self.shared(passes, height) })
    }

    /// What rounding makes of a sum at most, over `u |P| |t|` with the largest norm of a panel. The lines of images and
    /// templates err as pairs of tiles do; so do those of results, which two rows share. Sums down a column go through
    /// so many roundings besides, part of which may be alike.
    pub fn error(self, [_, height, width]: [usize; 3]) -> f64 {
        let length = self.length as f64;
        let covers = 2.0 * self.length.div_ceil(width) as f64;
        let shown = self.across(width) as f64 / length;
        let results = 2.0 * (shown + 2.0 * (1.0 - shown));
        // Products that are added up before their sum goes to a total, and how many sums do.
        let (run, sums) = ((self.together / 2 + 1) as f64, (2 * height.div_ceil(self.together)) as f64);
        // Rows that are alike, of which part may round alike, add up evenly: a third of what one large row does first.
        let chain = run + sums / 2.0;
        let chain = chain.max(chain / 3.0 + (run * run + sums * sums) / 24.0);
        let transforms = length.log2() / 2.0 * (3.0 * covers / length + results);
        let noise = DEVIATIONS * SPREAD * (transforms + chain * results).sqrt();
        let both = 2f64.sqrt() * GHOSTS;
        noise.hypot(both * (width as f64 * 2.0 / length * covers).sqrt()) + both
    }

    /// Whether it serves templates of such sides: outputs enough, and errors that are granted.
    fn fits(self, template: [usize; 3]) -> bool {
        let taps = template.iter().product::<usize>() as f64;
        self.across(template[2]) >= LEAST_OUTPUTS && self.error(template) <= granted(taps)
    }

    /// What a multiprocessor does for each of so many pairs at once: samples of lines times their logarithm, and
    /// products of two numbers.
    pub fn work(
        self,
        [template, outputs]: [[usize; 3]; 2],
        part: &Part,
        pairs: usize,
        multiprocessors: usize,
    ) -> [f64; 2] {
        let (length, height) = (self.length as f64, template[1] as f64);
        let half = (part.step[0].div_ceil(2)) as f64;
        let lines = half + height - 1.0 + height / 2.0 + half;
        let products = (2 * part.passes * self.together) as f64 * height * length;
        let blocks = pairs * outputs[1].div_ceil(part.step[0]) * outputs[2].div_ceil(part.step[1]);
        let each = blocks.div_ceil(multiprocessors) as f64 / pairs as f64;
        [each * lines * length * length.log2(), each * products]
    }

    /// Puts the kernel into a stream's queue, with a template for each image or one for all.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(
        self,
        stream: &Stream,
        function: &Function,
        part: &Part,
        job: &Job<'_>,
        own: &OwnTemplates<'_>,
    ) -> Result<(), Fault> {
        if job.count > MOST_BLOCKS {
            return Err(Fault::new("pairs", format!("{} images are more than {MOST_BLOCKS}", job.count)));
        }
        let [_, rows, columns] = job.outputs;
        let [down, along] = part.step;
        let across = columns.div_ceil(along);
        // The last tap first: the kernel knows by the strides' sign.
        let sign = if own.flips { -1 } else { 1 };
        let of_taps = ImageView { stride: own.view.stride.map(|step| sign * step), ..*own.view };
        let number = |value: usize| Argument::Int(value as i32);
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            own.samples,
            Argument::Image(&of_taps),
            job.out,
            Argument::Result(job.result),
            number(rows),
            number(columns),
            Argument::Int(job.begin[1]),
            Argument::Int(job.begin[2]),
            number(down),
            number(along),
            number(across),
            number(part.passes),
            Argument::Double(job.factor),
            job.extraordinary,
            // Images with a template for all have one word for all.
            number(usize::from(own.view.image_stride != 0)),
        ];
        let function = function.clone().with_shared(part.shared)?;
        let blocks = rows.div_ceil(down) * across;
        stream.launch(&function, [blocks as u32, 1, job.count as u32], [self.threads as u32, 1], &arguments)
    }
}

/// The kernels that serve a spec on these devices: sums of images in f32 that have a template of their own each,
/// without a mask, over all of a mode.
pub(crate) fn kernels(spec: &Spec, devices: &[Device]) -> Vec<&'static Entry> {
    let plain = spec.pairs() && spec.mask() == MaskKind::None && spec.channels() == 1 && spec.image().axes() == 2;
    let types = [spec.image_type(), spec.template_type(), spec.out_type()];
    let sums = spec.op().measure() == Measure::Cc && spec.region() == spec.mode_region();
    if !(plain && types == [DType::F32; 3] && sums && spec.accuracy() != Accuracy::Exact) {
        return Vec::new();
    }
    let (template, outputs) = (spec.template().padded(), spec.out_shape().padded());
    let entries = OPS.into_iter().filter_map(|op| flcc_generated::generic(op, DType::F32.name(), false));
    entries
        .filter(|entry| {
            let pairs = Pairs::of(entry);
            let room = |device: &Device| pairs.part(template, outputs, most_shared(device.capability)).is_some();
            pairs.fits(template) && devices.iter().all(room)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Pairs; 2] {
        OPS.map(|op| Pairs::of(flcc_generated::generic(op, "f32", false).unwrap()))
    }

    #[test]
    fn templates_are_served_whose_errors_are_granted() {
        let [short, long] = both();
        for side in [16, 24, 32, 48] {
            assert!(short.fits([1, side, side]), "{side}: {}", short.error([1, side, side]));
        }
        for side in [16, 24, 32, 64, 100] {
            assert!(long.fits([1, side, side]), "{side}: {}", long.error([1, side, side]));
        }
        // Too few taps, or too few outputs.
        assert!(!short.fits([1, 8, 8]) && !long.fits([1, 12, 12]));
        assert!(!short.fits([1, 32, 60]) && !long.fits([1, 32, 122]));
    }

    #[test]
    fn blocks_have_the_rows_that_two_have_room_for() {
        let [_, long] = both();
        let part = |template, rows, room: usize| long.part([1, template, template], [1, rows, rows], room << 10);
        let of = |passes, rows: usize, template: usize| {
            let (step, shared) = ([rows, 129 - template], long.shared(passes, template));
            Some(Part { passes, step, shared })
        };
        assert_eq!(part(32, 97, 227), of(2, 97, 32));
        assert_eq!(part(32, 400, 227), of(2, 104, 32));
        assert_eq!(part(32, 97, 163), of(1, 52, 32));
        assert_eq!(part(64, 65, 227), of(2, 65, 64));
        assert_eq!(part(16, 9, 227), of(1, 9, 16));
        assert_eq!((part(64, 65, 64), part(120, 9, 163)), (None, None));
    }

    #[test]
    fn pairs_of_floats_are_served() {
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
        assert_eq!(all.map(|capability| count("corr:f32:0@128x128*32x32:valid,pairs", capability)), [1, 2, 2, 2, 2]);
        assert_eq!(all.map(|capability| count("conv:f32:9@128x128*64x63:full,pairs", capability)), [0, 1, 0, 1, 0]);
        for other in [
            "corr:f32:9@128x128*32x32:valid",
            "corr:f32:9@128x128*32x32:valid,pairs,channels=2",
            "corr:f32:9@128x128*32x32:valid,pairs,roi=40,40:5x5",
            "corr:f32:9@128x128*32x32:valid,pairs,mask01",
            "corr:f32:9@128x128*32x32:valid,pairs,acc=exact",
            "corr:f32/f64:9@128x128*32x32:valid,pairs",
            "corr:f64:9@128x128*32x32:valid,pairs",
            "zncc:f32:9@128x128*32x32:valid,pairs",
            "corr:f32:9@1000*100:valid,pairs",
            "corr:f32:9@128x128*3x3:valid,pairs",
        ] {
            assert_eq!(count(other, (9, 0)), 0, "{other}");
        }
    }
}
