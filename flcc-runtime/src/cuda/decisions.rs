//! What is decided before a device is opened, and what follows from it: parts, rooms, doubt.

use std::sync::Arc;

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::Spec;
use flcc_core::wide::Wide;

use crate::cuda::kernels::Part;
use crate::cuda::method::{Method, Rounding};
use crate::cuda::rooms::{Capacity, Makes};
use crate::cuda::types::Types;
use crate::plan::machine::Device;
use crate::problem::error_model::{Doubt, Figures, Model, of_running_sums};
use crate::problem::scheme::Scheme;
use crate::run::tiling::Tiling;

/// What was decided before a device was opened.
#[derive(Clone, Debug)]
pub(crate) struct Decisions {
    /// How cross terms or scores are computed.
    pub method: Arc<dyn Method>,
    /// Outputs of a whole tile an axis.
    pub tile: [usize; 3],
    /// The type of samples and cross term.
    pub types: Types,
    /// The formula and its numbers.
    pub scheme: Scheme,
    /// What the method sums windows up in; the pipeline does so in f64.
    pub wide: Wide,
    /// Sides of the template.
    pub template: [usize; 3],
    /// The device.
    pub device: Device,
    /// Bytes that the buffers may take.
    pub memory: usize,
}

impl Decisions {
    /// What a cross term with a template of so many taps and this energy leaves in doubt, by how it is rounded and by
    /// what is too small for its type.
    pub fn doubt_by(
        &self,
        how: Rounding,
        figures: &Figures,
        taps: usize,
        energy: f64,
        weights: Option<&[f64]>,
    ) -> Doubt {
        let single = self.types.real == DType::F32;
        let (roundoff, normal, least) = match single {
            true => (f64::from(f32::EPSILON) / 2.0, f64::from(f32::MIN_POSITIVE), f64::from(f32::from_bits(1))),
            false => (f64::EPSILON / 2.0, f64::MIN_POSITIVE, f64::from_bits(1)),
        };
        let smallest = if how.subnormal { least } else { normal };
        let Scheme { measure, promise, rounds_samples, .. } = self.scheme;
        let (taps, samples, rounding, wide) = (taps as f64, energy.sqrt(), how.cross, self.wide);
        let model = Model { measure, promise, roundoff, taps, samples, rounds_samples, rounding, wide, weights };
        // A kernel that makes scores takes roots in the type of its samples.
        let scores = self.method.makes() == Makes::Scores;
        let floor = model.floor(figures, smallest, single && scores);
        let doubt = model.doubt(figures).above(floor);
        match (how.running, promise) {
            (Some(steps), Some(promise)) => {
                Doubt { of_energy: doubt.of_energy + of_running_sums(&promise, &steps, wide), ..doubt }
            }
            _ => doubt,
        }
    }

    /// What a slot has room for, before batches are formed.
    pub fn capacity(&self, spec: &Spec, tiling: &Tiling) -> Capacity {
        let Decisions { method, types, scheme, template, .. } = self;
        let outputs = tiling.largest();
        let Passes { careful, doubts, by_tile, .. } = Passes::of(spec, &**method, scheme);
        Capacity {
            layout: method.sides(outputs, *template).layout(outputs, *template, spec.channels()),
            types: *types,
            makes: method.makes(),
            own: method.own(),
            needs: scheme.measure.row().needs,
            careful,
            doubts,
            by_tile,
            image: spec.image().len() * spec.channels() * spec.image_type().row().size,
            own_template: match spec.pairs() && method.takes_pairs() {
                true => spec.template().len() * spec.template_type().row().size,
                false => 0,
            },
            result: spec.templates() * spec.out_shape().len() * spec.out_type().row().size,
            templates: spec.templates(),
            tiles: tiling.count(),
            batch: 1,
            group: 1,
            slots: 1,
        }
    }
}

/// What the pipeline does around a method for a formula, and what it leaves out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    /// It gathers samples and finishes results: a method that makes scores does both itself.
    pub gathers: bool,
    /// Samples may be NaN, infinite, or of a magnitude that needs a scale.
    pub careful: bool,
    /// It sums windows up: of squares, and of samples too where `both`.
    pub sums: bool,
    /// Whether window sums of samples are needed.
    pub both: bool,
    /// Panels may be in doubt, and are computed again.
    pub doubts: bool,
    /// Doubt depends on figures of tiles.
    pub by_tile: bool,
}

impl Passes {
    /// Those of a spec.
    pub fn of(spec: &Spec, method: &dyn Method, scheme: &Scheme) -> Passes {
        let (row, makes) = (scheme.measure.row(), method.makes());
        let constant = matches!(spec.boundary(), Boundary::Constant(_));
        let extraordinary = scheme.integers.is_none() && (!spec.image_type().is_integer() || constant);
        let (doubts, template) = (scheme.repairs(), spec.template().padded());
        Passes {
            gathers: makes != Makes::Scores,
            careful: makes != Makes::Scores && extraordinary,
            sums: makes.leaves_sums(row.needs.square),
            both: row.needs.sum,
            doubts,
            by_tile: doubts && row.normalised && method.rounding(template).by_tile,
        }
    }

    /// Kernels that it launches for a batch of tiles: before the templates, and for each of them. It is held to what is
    /// launched by the test `as_many_kernels_are_launched_as_are_counted`, tests/gpu/launches.rs.
    pub fn launches(&self, spec: &Spec, scheme: &Scheme) -> [f64; 2] {
        let when = |so: bool, launches: usize| if so { launches as f64 } else { 0.0 };
        let axes = if spec.template().padded()[0] > 1 || spec.out_shape().padded()[0] > 1 { 2 } else { 1 };
        let centred = scheme.integers.is_none() && scheme.measure.row().needs.centred;
        let first = when(self.gathers, 1 + usize::from(centred))
            // Survey, reload, what clears the list of hits, and hits along each axis.
            + when(self.careful, 3 + if scheme.masked { 1 } else { 3 })
            + when(self.sums, 1 + axes * if self.both { 2 } else { 1 })
            + when(self.by_tile, 3);
        [first, when(self.gathers, 1) + when(self.by_tile, 3) + when(self.doubts, 1)]
    }
}

/// The parts of the pipeline that a method and a formula need.
pub(crate) fn parts(method: &dyn Method, scheme: &Scheme) -> Vec<Part> {
    let row = scheme.measure.row();
    let mut parts = Vec::new();
    if method.makes() != Makes::Scores {
        parts.extend([Part::Gather, Part::Finish]);
    }
    if method.makes().leaves_sums(row.needs.square) {
        parts.push(Part::Sums);
    }
    parts.extend(method.parts());
    if scheme.repairs() {
        parts.push(Part::Repair);
    }
    parts
}

/// Whether the source of a cross term brings a kernel from the image to the result for a spec: sums of floats
/// that are shown as they are, over all of a mode. Regions of it are left to the pipeline, whose tiles scale samples of
/// extraordinary magnitude, so that a region is the slice of the whole bit for bit.
pub(crate) fn goes_straight(spec: &Spec, method: &dyn Method, scheme: &Scheme, types: Types) -> bool {
    let floats = types.pixel == types.real && types.real == types.out && types.real.row().max.is_none();
    let plain = scheme.measure == Measure::Cc && !scheme.masked && spec.channels() == 1;
    floats && plain && method.covers(spec.out_shape().padded()) && spec.region() == spec.mode_region()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::cpu::engines::direct::{self, Direct};
    use crate::cpu::kernels::kernel::KernelOp;
    use crate::cpu::testing;
    use crate::cuda::methods::any::Any;
    use crate::cuda::methods::cufft::Cufft;
    use crate::cuda::methods::listed::Listed;
    use crate::cuda::methods::listed_scores::ListedScores;
    use crate::cuda::methods::scores::TileScores;
    use crate::cuda::rooms::{MOST_SLOTS, Room};
    use crate::cuda::types::Cross;
    use crate::isa;

    impl Decisions {
        fn doubt(&self, figures: &Figures, taps: usize, energy: f64, weights: Option<&[f64]>) -> Doubt {
            self.doubt_by(self.method.rounding(self.template), figures, taps, energy, weights)
        }
    }

    fn decisions(spec: &Spec, method: Arc<dyn Method>, real: DType) -> Decisions {
        let device = Device {
            index: 0,
            name: "a device".into(),
            capability: (9, 0),
            multiprocessors: 132,
            f32_per_f64: 2,
            memory: 80 << 30,
        };
        let cross = if real == DType::F32 { Cross::F32 } else { Cross::F64 };
        let types = Types { pixel: real, real, cross, out: real };
        Decisions {
            method,
            tile: [1, 512, 1024],
            types,
            scheme: Scheme::new(spec, false, false),
            wide: Wide::Double,
            template: spec.template().padded(),
            device,
            memory: 1 << 30,
        }
    }

    #[test]
    fn batches_shrink_to_the_memory_that_there_is() {
        let spec: Spec = "zncc:f32:64@300x320*7x9:valid".parse().unwrap();
        let any = Any(flcc_generated::generic("corr", "f32", false).unwrap());
        let decisions = decisions(&spec, Arc::new(any), DType::F32);
        let capacity = decisions.capacity(&spec, &Tiling::new(spec.frame(), decisions.tile));
        let fit = |memory| capacity.fit(spec.images(), memory);
        let [all, some, none] = [usize::MAX, 1 << 26, 0].map(fit);
        assert!(all.batch > 2 * some.batch && some.batch > 1 && all.bytes() * MOST_SLOTS > 1 << 26);
        assert!(some.bytes() * some.slots <= 1 << 26, "{some:?}");
        assert_eq!((some.group, none.group, none.batch), (some.batch, 1, 1));
        // A third slot goes before batches get smaller, a second one when they are as small as can be.
        let open = |memory| capacity.fit(0, memory);
        let three = open(usize::MAX);
        let [two, one] = [three.bytes() * 3 - 1, open(0).bytes()].map(open);
        assert_eq!([three.slots, two.slots, one.slots, none.slots], [3, 2, 1, 1]);
        assert_eq!((two.batch, one.batch), (three.batch, 1));
        // What one group computes takes one slot.
        assert_eq!([1, all.group, all.group + 1, 0].map(|images| all.slots_for(images)), [1, 1, 2, 3]);
        assert_eq!(some.bytes(), Room::ALL.iter().map(|room| room.bytes(&some)).sum::<usize>());
    }

    /// Scores in the type of a kernel from a sum of products one after the other: where they are off by more than is
    /// promised, the energy is not above what is in doubt.
    #[test]
    fn texture_that_is_too_small_for_its_type_is_in_doubt() {
        for (text, real, exponents) in
            [("zncc:f32:30x11*19x10:same", DType::F32, 30..45), ("zncc:f64:38x31*2x29:same", DType::F64, 140..163)]
        {
            let spec: Spec = text.parse().unwrap();
            let taps = spec.template().len();
            let single = real == DType::F32;
            let mut noise = testing::noise(7);
            let values: Vec<f64> = testing::template(taps, false, &mut noise);
            let method = Arc::new(Any(flcc_generated::generic("corr", real.name(), false).unwrap()));
            let figures = method.figures(spec.template().padded(), std::slice::from_ref(&values));
            let (low, share) = decisions(&spec, method, real).doubt(&figures, taps, 1.0, None).at(0.0, 0.0);
            let (mut broken, mut certain, mut missed) = (0, 0, 0);
            for exponent in exponents.clone().flat_map(|exponent| [exponent; 20]) {
                let size = 10f64.powi(-exponent);
                let samples: Vec<f64> = (0..taps).map(|_| f64::from(noise())).collect();
                let held: Vec<f64> = samples
                    .iter()
                    .map(|sample| if single { f64::from((sample * size) as f32) } else { sample * size })
                    .collect();
                let cross = match single {
                    true => {
                        held.iter().zip(&values).fold(0.0f32, |sum, (p, t)| (*p as f32).mul_add(*t as f32, sum)).into()
                    }
                    false => held.iter().zip(&values).fold(0.0f64, |sum, (p, t)| p.mul_add(*t, sum)),
                };
                let (i, ii): (f64, f64) = (held.iter().sum(), held.iter().map(|p| p * p).sum());
                let energy = ii - i * i / taps as f64;
                // The same brought to the scale of 1 first, by a power of two, so that nothing but what was lost before
                // differs.
                let up: Vec<f64> =
                    held.iter().map(|p| p * 2f64.powi(500) * if single { 1.0 } else { 2f64.powi(30) }).collect();
                let (sum, squares): (f64, f64) = (up.iter().sum(), up.iter().map(|p| p * p).sum());
                let exact = up.iter().zip(&values).map(|(p, t)| p * t).sum::<f64>()
                    / (squares - sum * sum / taps as f64).sqrt();
                let off = (cross / energy.sqrt() - exact).abs();
                let promise = if single { 1e-5 } else { 1e-11 };
                if off.is_nan() || off > promise {
                    broken += 1;
                    missed += usize::from(energy > share * ii);
                    assert!(
                        energy <= low + share * ii,
                        "{text}: 1e-{exponent} is off by {off:.1e}, and {energy:e} is above {low:e}"
                    );
                }
                certain += usize::from(energy > low);
            }
            // Without a floor some would be taken for certain.
            assert!(
                broken > 20 && certain > 100 && missed > 5,
                "{text}: {broken} are off, {missed} unseen, {certain} in no doubt"
            );
        }
    }

    /// One kernel goes from the image to the result where a grid covers the image, and nothing but floats is asked for.
    #[test]
    fn one_kernel_serves_plain_sums_that_a_grid_covers() {
        let serves = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            let method: Arc<dyn Method> =
                match flcc_generated::listed("corr", spec.image_type().name(), spec.template().padded()) {
                    Some(entry) => Arc::new(Listed(entry)),
                    None => Arc::new(Any(flcc_generated::generic("corr", "f32", false).unwrap())),
                };
            let Decisions { method, types, scheme, .. } = decisions(&spec, method, spec.image_type());
            goes_straight(&spec, &*method, &scheme, types)
        };
        for text in ["corr:f32:65000x64*1x10:valid", "conv:f64:100x100*7x7:full", "corr:f32:60000x20x20*1x3x3:valid"] {
            assert!(serves(text), "{text}");
        }
        for text in [
            "corr:f32:70000x64*1x10:valid",
            "corr:f32:70000x32x32*1x3x3:valid",
            "corr:f32:2200000x16*8x8:valid",
            "corr:f32:100x100*8x9:valid",
            "corr:f32:100x100*8x8:valid,channels=2",
            "corr:f32:100x100*8x8:valid,mask01",
            "corr:f32:100x100*8x8:valid,roi=9,9:5x5",
            "zncc:f32:100x100*8x8:valid",
        ] {
            assert!(!serves(text), "{text}");
        }
    }

    /// They lack the registers for subtotals, so that 512 roundings may follow each other: all of them count.
    #[test]
    fn scores_in_f64_are_in_doubt_for_the_longest_sums() {
        for (size, [scores, alone]) in
            [([8, 8, 8], [512.0, 22.0]), ([1, 32, 32], [63.0, 42.0]), ([1, 15, 15], [29.0, 29.0])]
        {
            let spec: Spec = format!("zncc:f64:40x50x60*{}x{}x{}:valid", size[0], size[1], size[2]).parse().unwrap();
            let taps = size.iter().product();
            // All of the template is the first tap, whose product goes through the most roundings.
            let mut values = vec![0.0; taps];
            values[0] = 1.0;
            let [of_scores, of_sums] = [("zncc", true), ("corr", false)].map(|(op, fused)| {
                let entry = flcc_generated::listed(op, "f64", size).unwrap();
                let method: Arc<dyn Method> =
                    if fused { Arc::new(ListedScores(entry)) } else { Arc::new(Listed(entry)) };
                let figures = method.figures(size, std::slice::from_ref(&values));
                (figures.varying, decisions(&spec, method, DType::F64).doubt(&figures, taps, 1.0, None).at(0.0, 0.0).1)
            });
            assert_eq!([of_scores.0, of_sums.0], [scores, alone], "{size:?}");
            assert!(of_scores.1 < 1e-3, "{size:?}: {of_scores:?}");
            assert_eq!(of_scores.1 > of_sums.1, scores > alone, "{size:?}: {of_scores:?} {of_sums:?}");
        }
    }

    /// What a template leaves in doubt of ordinary images is about what the CPU's sums do.
    #[test]
    fn as_little_is_in_doubt_as_on_a_cpu() {
        for size in [[1, 7, 7], [1, 16, 16], [1, 32, 32], [5, 5, 5], [1, 1, 64], [1, 9, 30]] {
            let taps = size.iter().product();
            let flat = size[1] == 1;
            let method: Arc<dyn Method> = match flcc_generated::listed("zncc", "f32", size) {
                Some(entry) => Arc::new(ListedScores(entry)),
                None => Arc::new(Any(flcc_generated::generic("corr", "f32", flat).unwrap())),
            };
            let spec: Spec = format!("zncc:f32:80x90x100*{}x{}x{}:valid", size[0], size[1], size[2]).parse().unwrap();
            for (smooth, seed) in [(true, 5), (false, 6), (false, 9)] {
                let values = testing::template(taps, smooth, testing::noise(seed));
                let figures = method.figures(size, std::slice::from_ref(&values));
                // Of samples that are not rounded, as beside it.
                let share =
                    decisions(&spec, Arc::clone(&method), DType::F32).doubt(&figures, taps, 0.0, None).at(0.0, 0.0).1;
                let isas = isa::detect();
                let kernel = direct::choose(KernelOp::Correlate, DType::F32, size, [8; 3], &isas);
                let cpu = Direct::<f32>::new(kernel, size, &isas).unwrap();
                let of_cpu =
                    testing::doubt_of(taps, &cpu.figures([Cow::Borrowed(&values[..])].into_iter()), cpu.rounding())
                        .at(0.0, 0.0)
                        .1;
                assert!(
                    share < 2.0 * of_cpu && share < 0.1,
                    "{size:?}, smooth {smooth}: {share:.2e}, on a CPU {of_cpu:.2e}"
                );
            }
        }
    }

    /// What two floats round has its part in each threshold, and leaves hardly more of ordinary images in doubt.
    #[test]
    fn windows_in_two_floats_are_doubted_for_what_they_round() {
        let spec: Spec = "zncc:f32:300x400*16x16:valid".parse().unwrap();
        let (values, size) = ([testing::template(256, false, testing::noise(3))], [1, 16, 16]);
        let listed = flcc_generated::listed("zncc", "f32", size).unwrap();
        let transforms = flcc_generated::kernels().iter().find(|entry| entry.op == "zncc64").unwrap();
        let methods: [Arc<dyn Method>; 2] =
            [Arc::new(ListedScores(listed)), Arc::new(TileScores::new(transforms, size, [1, 300, 400]))];
        for method in methods {
            let figures = method.figures(size, &values);
            let [double, singles] = [Wide::Double, Wide::TwoSingles].map(|wide| {
                let decisions = Decisions { wide, ..decisions(&spec, Arc::clone(&method), DType::F32) };
                decisions.doubt(&figures, 256, 1.0, None)
            });
            let more = Wide::TwoSingles.roundoff() - Wide::Double.roundoff();
            assert!(
                ((singles.share - double.share) / (16.0 * more / 2e-6) - 1.0).abs() < 1e-6,
                "{double:?} {singles:?}"
            );
            assert!(singles.share > double.share && singles.share < 1.01 * double.share, "{double:?} {singles:?}");
            // Half of the smallest square there is may be lost of each sample.
            assert!(singles.least > 256.0 * f64::from(f32::from_bits(1)) / 1e-7, "{double:?} {singles:?}");
            if method.rounding(size).running.is_some() {
                let ratio = Wide::TwoSingles.roundoff() / Wide::Double.roundoff();
                assert!((singles.of_energy / double.of_energy / ratio - 1.0).abs() < 1e-6, "{double:?} {singles:?}");
                assert!(singles.of_energy < 3e-6, "{singles:?}");
            }
        }
    }

    #[test]
    fn energies_that_become_single_are_normal_numbers() {
        let spec: Spec = "zncc:f32:200x200*7x7:valid".parse().unwrap();
        let values = [testing::template(49, false, testing::noise(3))];
        let listed = |op| flcc_generated::listed(op, "f32", [1, 7, 7]).unwrap();
        let low = |method: Arc<dyn Method>| {
            let figures = method.figures([1, 7, 7], &values);
            decisions(&spec, method, DType::F32).doubt(&figures, 49, 1.0, None).at(0.0, 0.0).0
        };
        assert!(low(Arc::new(ListedScores(listed("zncc")))) > f64::from(f32::MIN_POSITIVE));
        let plain = low(Arc::new(Listed(listed("corr"))));
        assert!(plain > 0.0 && plain < 1e-60, "{plain:e}");
        // Of the samples of a tile one at least is near 1, and nothing is lost beside it.
        assert!(
            low(Arc::new(Cufft { shape: [1, 256, 256], double: false, masked: false, sums: false, whole: None }))
                < 1e-30
        );
    }
}
