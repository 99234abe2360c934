//! The direct method: the template laid over every panel, by the kernels of the table.
//!
//! Cost `N_out * N_T` multiply-adds. Sums are taken in blocks (`flcc_core::blocks`) in the type of the tile, in the
//! order of the template's samples or, along lines, in that of [`Direct::ordered`]:
//! integers are exact while `max_i * max_t * N_T` stays below `2^24` in f32 or `2^53` in f64, which the solver checks.

mod in_place;

use std::any::Any;
use std::borrow::Cow;

use flcc_core::blocks::{self, Blocks};
use flcc_core::dtype::DType;
use flcc_core::runs;

use crate::cpu::bands::Bands;
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::in_place::InPlace;
use crate::cpu::kernels::kernel::{Bound, Kernel, KernelOp, Tile, Widths};
use crate::cpu::kernels::table;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::slab::{self, Slab, Sum};
use crate::isa::{Isa, IsaSet};
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;
use crate::problem::template::rounded;
use crate::run::geometry::Pitch;

/// A kernel bound to this processor, for templates of one shape.
#[derive(Clone, Debug)]
pub struct Direct<T: Real> {
    kernel: Bound<T>,
    shape: [usize; 3],
    /// For even templates, and for any.
    orders: [Order; 2],
}

/// How products are added up, and how many roundings each goes through.
#[derive(Clone, Debug)]
struct Order {
    blocks: Blocks,
    roundings: Vec<f32>,
}

impl Order {
    fn new(shape: [usize; 3], blocks: Blocks) -> Order {
        Order { blocks, roundings: blocks.roundings(shape).into_iter().map(|roundings| roundings as f32).collect() }
    }

    /// The square of the norm of taps, each times the roundings of its product.
    fn rounded(&self, taps: &[f64]) -> f64 {
        let pairs = taps.iter().zip(&self.roundings);
        pairs.map(|(tap, roundings)| (tap * f64::from(*roundings)).powi(2)).sum()
    }
}

/// Taps of one channel as a kernel takes them, and the blocks that their products are added up in.
#[derive(Clone, Debug)]
pub struct Template<T> {
    taps: Vec<T>,
    blocks: Blocks,
}

impl<T: Real> Template<T> {
    /// The taps and their blocks as kernels take them.
    pub fn sum(&self) -> Sum<'_, T> {
        Sum { taps: &self.taps, blocks: self.blocks }
    }

    /// The taps and their blocks as kernels take them, if the taps are `f32`.
    pub fn single(&self) -> Option<Sum<'_, f32>> {
        Some(Sum { taps: T::singles(&self.taps)?, blocks: self.blocks })
    }
}

/// The kernel that serves a template shape and outputs of one row or more, on these instruction sets.
pub fn choose(op: KernelOp, dtype: DType, template: [usize; 3], out: [usize; 3], isas: &IsaSet) -> &'static Kernel {
    table::best(op, dtype, template, out[1] == 1 && template[1] == 1, isas)
}

/// The kernel that [`choose`] names, and behind it the one for templates of any size, where that is another.
pub fn choices(
    op: KernelOp,
    dtype: DType,
    template: [usize; 3],
    out: [usize; 3],
    isas: &IsaSet,
) -> Vec<&'static Kernel> {
    let line = out[1] == 1 && template[1] == 1;
    let mut kernels = vec![table::best(op, dtype, template, line, isas), table::general(op, dtype, line, isas)];
    kernels.dedup_by_key(|kernel| kernel.name);
    kernels
}

impl<T: Real> Direct<T> {
    /// The engine for a kernel, if this processor has its instruction set.
    pub fn new(kernel: &'static Kernel, shape: [usize; 3], isas: &IsaSet) -> Option<Direct<T>> {
        let orders = [Blocks::even(shape), Blocks::strict(shape)].map(|blocks| Order::new(shape, blocks));
        Some(Direct { kernel: Bound::new(kernel, isas)?, shape, orders })
    }

    /// Rows and columns of a block: outputs are computed by whole ones.
    pub fn block(&self) -> [usize; 2] {
        let kernel = self.kernel.kernel();
        [kernel.block_rows, kernel.lanes]
    }

    /// How its sums are rounded, of templates that [`Direct::prepare`] gave.
    pub fn rounding(&self) -> Rounding {
        Rounding::Direct { fused: self.kernel.kernel().isa != Isa::Portable }
    }

    /// A template of these values; a kernel of absolute differences takes them with weights.
    pub fn prepare(&self, values: &[f64], weights: Option<&[f64]>) -> Template<T> {
        let mut template = Template { taps: vec![T::of(0.0); values.len()], blocks: self.orders[1].blocks };
        self.prepare_into(values, weights, &mut template);
        template
    }

    /// Prepares a template of these values in the place of another; allocates nothing but along lines.
    pub fn prepare_into(&self, values: &[f64], weights: Option<&[f64]>, template: &mut Template<T>) {
        template.taps.iter_mut().zip(rounded(values, T::of)).for_each(|(tap, value)| *tap = value);
        template.blocks = match (self.kernel.kernel().op, weights) {
            (KernelOp::Correlate, _) => self.order(&self.ordered(Cow::Borrowed(values))).blocks,
            (KernelOp::AbsDiff, None) => self.orders[0].blocks,
            // A difference counts as the root of its weight.
            (KernelOp::AbsDiff, Some(weights)) => {
                self.order(&weights.iter().map(|weight| weight.sqrt()).collect::<Vec<_>>()).blocks
            }
        };
    }

    /// How the products of taps, in the order in which they are added up, are taken together: by the blocks for even
    /// taps where these serve.
    fn order(&self, ordered: &[f64]) -> &Order {
        let [even, strict] = &self.orders;
        if blocks::serves(even.rounded(ordered), ordered) { even } else { strict }
    }

    /// What the rounding of a cross term with these channels of a template depends on.
    pub fn figures<'a>(&self, channels: impl Iterator<Item = Cow<'a, [f64]>> + Clone) -> Figures {
        let mut figures = Figures::of(channels.clone());
        let (mut varying, mut constant) = (0.0, 0.0);
        for taps in channels.map(|values| self.ordered(values)) {
            let order = self.order(&taps);
            varying += order.rounded(&taps);
            constant += runs::partial_sums(order.blocks.runs(self.shape), &taps).powi(2) / taps.len() as f64;
        }
        (figures.varying, figures.constant) = (varying.sqrt(), constant.sqrt());
        figures
    }

    /// Template values in the order in which the kernel adds their products: kernels of one row of outputs take four
    /// taps a vector apart together, as long as there are four vectors of them.
    pub fn ordered<'a>(&self, values: Cow<'a, [f64]>) -> Cow<'a, [f64]> {
        let kernel = self.kernel.kernel();
        let line = matches!(kernel.width, Widths::Line(_) | Widths::AnyLine);
        if !line || kernel.op != KernelOp::Correlate || kernel.isa == Isa::Portable {
            return values;
        }
        let mut ordered = Vec::with_capacity(values.len());
        for row in values.chunks_exact(self.shape[2]) {
            let together = row.chunks_exact(4 * kernel.lanes);
            let rest = together.remainder();
            for taps in together {
                (0..kernel.lanes).for_each(|j| ordered.extend(taps[j..].iter().step_by(kernel.lanes)));
            }
            ordered.extend(rest);
        }
        Cow::Owned(ordered)
    }

    /// The shape of the buffers for outputs of up to `out`: input and output pitches, with the kernel's slack.
    pub fn pitches(&self, out: [usize; 3]) -> (Pitch, Pitch) {
        slab::pitches(&[self.kernel.kernel()], self.shape, out)
    }

    /// The cross term of a tile: `out = sum P t`, or `sum w |P - t|` for a kernel of absolute differences.
    pub fn run(&self, template: Sum<'_, T>, weights: &[T], slab: Slab<'_, T>) {
        self.kernel.run(&mut slab.tile(template, weights, self.shape, false));
    }

    /// Sums differences again where one of them was beyond the type's range: a weighted sum need not be.
    fn differ_in_halves(&self, template: &Template<T>, weights: &[T], slab: Slab<'_, T>) {
        let Slab { input, in_pitch, out, out_pitch, outputs } = slab;
        let [_, height, width] = self.shape;
        for (z, y) in (0..outputs[0]).flat_map(|z| (0..outputs[1]).map(move |y| (z, y))) {
            let begin = z * out_pitch.plane + y * out_pitch.row;
            let row = &mut out[begin..begin + outputs[2]];
            if row.iter().all(|sum| sum.to_f64().is_finite()) {
                continue;
            }
            for (x, sum) in row.iter_mut().enumerate().filter(|(_, sum)| !sum.to_f64().is_finite()) {
                let taps = template.taps.chunks_exact(width).zip(weights.chunks_exact(width));
                let of_row = |(number, (taps, weights)): (usize, (&[T], &[T]))| {
                    let from = (z + number / height) * in_pitch.plane + (y + number % height) * in_pitch.row + x;
                    let samples = input[from..from + width].iter().zip(taps.iter().zip(weights));
                    let terms = samples.map(|(sample, (tap, weight))| {
                        weighted_difference(sample.to_f64(), tap.to_f64(), weight.to_f64())
                    });
                    let terms: Vec<f64> = terms.collect();
                    terms.chunks(64).map(|some| some.iter().sum::<f64>()).sum::<f64>()
                };
                *sum = T::of(taps.enumerate().map(of_row).sum());
            }
        }
    }

    /// The correlation of a tile of a block at least, with nothing written or read beside it. Returns the largest
    /// magnitude of its outputs.
    pub fn run_within(&self, template: Sum<'_, T>, slab: Slab<'_, T>) -> T {
        let mut tile = Tile { within: true, ..slab.tile(template, &[], self.shape, false) };
        self.kernel.run(&mut tile);
        tile.largest
    }
}

impl<T: Real> Engine<T> for Direct<T> {
    type Template = Template<T>;
    type Work = ();

    fn pitches(&self, outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.pitches(outputs);
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, _most: Most, _memory: &mut Memory) {}

    fn template_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<T>()
    }

    fn prepare(&self, values: &[f64], mask: Option<&[f64]>) -> Result<Template<T>, FactorError> {
        Ok(self.prepare(values, mask))
    }

    fn prepare_into(
        &self,
        values: &[f64],
        mask: Option<&[f64]>,
        _work: &mut (),
        to: &mut Template<T>,
    ) -> Result<(), FactorError> {
        self.prepare_into(values, mask, to);
        Ok(())
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        _prepared: &mut dyn Iterator<Item = &Template<T>>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        (self.rounding(), self.figures(channels.iter()))
    }

    fn cross(&self, template: &Template<T>, job: Cross<'_, T>, _work: &mut ()) {
        let Cross { samples, weights, out, pitches, outputs, .. } = job;
        let (in_pitch, out_pitch) = (pitches.samples, pitches.cross);
        self.run(template.sum(), weights, Slab { input: samples, in_pitch, out: &mut *out, out_pitch, outputs });
        if self.kernel.kernel().op == KernelOp::AbsDiff {
            self.differ_in_halves(template, weights, Slab { input: samples, in_pitch, out, out_pitch, outputs });
        }
    }

    fn bands<'a>(&self, _channel: usize, _outputs: [usize; 2], _work: &'a ()) -> Bands<'a> {
        Bands::Own
    }

    fn expected(&self) -> Option<Expected> {
        // Its limits are the same whatever a tile holds.
        Some(Expected { samples: 0, results: 1.0, strongest: false })
    }

    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a Template<T>, &'a [f64]),
        _work: &mut (),
    ) -> Option<()> {
        let single: &Direct<f32> = (self as &dyn Any).downcast_ref()?;
        single.correlate_in_place(job, &|number| templates(number).0.single())
    }
}

/// `w |P - t|`, of halves where the difference is beyond the range.
fn weighted_difference(sample: f64, tap: f64, weight: f64) -> f64 {
    let difference = (sample - tap).abs();
    if difference.is_finite() { weight * difference } else { 2.0 * (weight * (0.5 * sample - 0.5 * tap).abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, Agreeing, Ratios, Search, Twofold, noise, seeds};
    use crate::isa::Vectors;

    #[test]
    fn a_sum_along_a_line_is_that_in_the_order_told() {
        for isas in testing::float_sets() {
            for taps in [1usize, 15, 31, 32, 63, 64, 65, 127, 128, 200, 333] {
                let (mut samples, mut values) = (noise(taps as u64), noise(7));
                let outputs = [1, 1, 300];
                let kernel = choose(KernelOp::Correlate, DType::F32, [1, 1, taps], outputs, &isas);
                let direct = Direct::<f32>::new(kernel, [1, 1, taps], &isas).unwrap();
                let (in_pitch, out_pitch) = direct.pitches(outputs);
                let input: Vec<f32> = (0..in_pitch.elements()).map(|_| samples()).collect();
                let template: Vec<f32> = (0..taps).map(|_| values()).collect();
                let places: Vec<f64> = (0..taps).map(|place| place as f64).collect();
                for blocks in direct.orders.iter().map(|order| order.blocks) {
                    let mut out = vec![f32::NAN; out_pitch.elements()];
                    let sum = Sum { taps: &template, blocks };
                    direct.run(sum, &[], Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs });
                    for (x, &got) in out[..outputs[2]].iter().enumerate() {
                        let add =
                            |sum: f32, &place: &f64| input[x + place as usize].mul_add(template[place as usize], sum);
                        let want = in_blocks(&direct.ordered(Cow::Borrowed(&places)), blocks, add);
                        // Portable kernels round products too.
                        let exact = kernel.isa != Isa::Portable;
                        assert!(
                            if exact { got == want } else { (got - want).abs() < 1e-5 },
                            "{} of {taps} at {x}, {blocks:?}: {got} for {want}",
                            kernel.name
                        );
                    }
                }
            }
        }
    }

    /// A sum along a line, block by block and subtotal by subtotal.
    fn in_blocks(places: &[f64], blocks: Blocks, add: impl Fn(f32, &f64) -> f32 + Copy) -> f32 {
        let mut rest = places;
        let sums: Vec<f32> = blocks
            .lengths([1, 1, places.len()])
            .map(|length| {
                let (block, after) = rest.split_at(length);
                rest = after;
                block.iter().fold(0.0, add)
            })
            .collect();
        let added = |sums: &[f32]| sums.iter().copied().reduce(|sum, more| sum + more).unwrap_or(0.0);
        added(&sums.chunks(blocks.blocks()).map(added).collect::<Vec<_>>())
    }

    /// Kernels of rows, of lines and of any size, against those of f64.
    #[test]
    fn errors_stay_within_their_estimate() {
        let shapes = [
            ([1, 90, 160], [1, 3, 3]),
            ([1, 90, 160], [1, 8, 8]),
            ([1, 90, 160], [1, 16, 16]),
            ([1, 90, 160], [1, 30, 45]),
        ];
        let lines = [([1, 1, 4096], [1, 1, 9]), ([1, 1, 4096], [1, 1, 64]), ([1, 1, 4096], [1, 1, 500])];
        for isas in testing::float_sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for (samples, template) in shapes.into_iter().chain(lines) {
                    errors_of(samples, template, &isas, 100 * seed, &mut ratios);
                }
            }
            ratios.judge(&format!("direct sums, {isas}"));
        }
    }

    fn errors_of(samples: [usize; 3], template: [usize; 3], isas: &IsaSet, seed: u64, ratios: &mut Ratios) {
        let outputs = [0, 1, 2].map(|axis| samples[axis] + 1 - template[axis]);
        let n = template.iter().product::<usize>() as f64;
        for (kind, (name, image)) in testing::IMAGES.iter().enumerate() {
            let mut tile = noise(seed + kind as u64 + 3);
            for smooth in [false, true] {
                let amplitude = testing::amplitude(seed + 2 * kind as u64 + u64::from(smooth));
                let taps = testing::template(n as usize, smooth, noise(seed + kind as u64 + 50));
                // A line is what rows of 64 would be, one after the other.
                let row = if samples[1] == 1 { 64 } else { samples[2] };
                let computed: Vec<f32> =
                    (0..samples[1] * samples[2]).map(|at| amplitude * image(at / row, at % row, tile())).collect();
                let values = computed.iter().copied();
                let (single, single_pitch) = correlate::<f32>(template, outputs, &taps, isas, |input, pitch| {
                    place(input, pitch, samples[2], values)
                });
                let values = computed.iter().map(|&sample| f64::from(sample));
                let (double, double_pitch) = correlate::<f64>(template, outputs, &taps, isas, |input, pitch| {
                    place(input, pitch, samples[2], values)
                });
                let ones = vec![1.0; taps.len()];
                let windows = |of: fn(f64) -> f64| {
                    let values = computed.iter().map(|&sample| of(sample.into()));
                    correlate::<f64>(template, outputs, &ones, isas, |input, pitch| {
                        place(input, pitch, samples[2], values)
                    })
                    .0
                };
                let (sums, squares) = (windows(|value| value), windows(|value| value * value));
                let direct = Direct::<f32>::new(
                    choose(KernelOp::Correlate, DType::F32, template, outputs, isas),
                    template,
                    isas,
                )
                .unwrap();
                let figures = direct.figures([Cow::Borrowed(&taps[..])].into_iter());
                let (_, share) = testing::doubt_of(taps.len(), &figures, direct.rounding()).at(0.0, 0.0);
                // What `energy > share * square` stands for: the panel's varying part and its sum of squares, each with
                // its own share.
                let products = if Vectors::isa(isas).is_some() { 2.0 } else { 3.0 };
                let own = f64::from(f32::EPSILON) / 2.0 * (figures.varying + products * figures.norm) / 0.8e-5;
                for (y, x) in (0..outputs[1]).flat_map(|y| (0..outputs[2]).map(move |x| (y, x))) {
                    let error = (f64::from(single[y * single_pitch.row + x]) - double[y * double_pitch.row + x]).abs();
                    let (sum, square) = (sums[y * double_pitch.row + x], squares[y * double_pitch.row + x]);
                    let energy = (square - sum.powi(2) / n).max(0.0);
                    let granted = 0.8e-5 * (own * energy.sqrt() + (1.0 - own) * (share * square).sqrt());
                    ratios.add_granted(kind, error, granted, || format!("{isas} {template:?} {name} at {y},{x}"));
                }
            }
        }
    }

    /// Roundings that agree: images that are 0 but for a multiple of a template of two values or of one, lone bright
    /// samples on an even ground and equal samples, at amplitudes that are searched for the worst; products and
    /// differences of either type. A convolution is the same sum with its template turned round.
    #[test]
    fn agreeing_errors_stay_within_the_worst_case() {
        for isas in testing::float_sets() {
            for op in [KernelOp::Correlate, KernelOp::AbsDiff] {
                agreeing_errors::<f32>(op, &isas);
                agreeing_errors::<f64>(op, &isas);
            }
        }
    }

    fn agreeing_errors<T: Real>(op: KernelOp, isas: &IsaSet) {
        let shapes = [
            [1, 8, 8],
            [1, 16, 16],
            [1, 32, 32],
            [1, 30, 40],
            [1, 16, 75],
            [1, 1, 64],
            [1, 1, 1200],
            [10, 10, 12],
            [1, 11, 11],
        ];
        let rounds = || testing::seeds().take(40);
        let mut search = Search::new(4, shapes.len() * rounds().count() * 3);
        for (shape, round) in shapes.into_iter().flat_map(|shape| rounds().map(move |round| (shape, round))) {
            let (n, mut random) = (shape.iter().product::<usize>(), noise(7 + 31 * round));
            let direct = Direct::<T>::new(choose(op, T::DTYPE, shape, [1; 3], isas), shape, isas).unwrap();
            for Agreeing { name, values, taps } in testing::agreeing(n, round, &mut random) {
                // Differences agree where the template has the other sign.
                let taps = match op {
                    KernelOp::Correlate => taps,
                    KernelOp::AbsDiff => values.iter().map(|value| -0.7 * value.signum()).collect(),
                };
                let (template, granted) = (direct.prepare(&taps, None), granted(&direct, &taps));
                search.try_case(
                    || format!("{name} {shape:?}"),
                    &mut random,
                    |amplitude| {
                        let samples: Vec<T> = values.iter().map(|value| T::of(value * amplitude)).collect();
                        let got = of_one_panel(&direct, &template, &samples);
                        let mut exact = Twofold::default();
                        for (sample, tap) in samples.iter().zip(template.sum().taps) {
                            match op {
                                KernelOp::Correlate => exact.add_product(sample.to_f64(), tap.to_f64()),
                                KernelOp::AbsDiff => exact.add_difference(sample.to_f64(), tap.to_f64()),
                            }
                        }
                        exact.error(got.to_f64()) / granted(&samples)
                    },
                );
            }
        }
        let name = if op == KernelOp::Correlate { "direct sums" } else { "sums of differences" };
        search.judge(&format!("{name}, {}, {isas}", T::DTYPE), 0.2);
    }

    /// What the sum of one panel's samples is granted: by the worst case and by the conventions.
    fn granted<'a, T: Real>(direct: &'a Direct<T>, taps: &'a [f64]) -> impl Fn(&[T]) -> f64 + 'a {
        let n = taps.len() as f64;
        let figures = direct.figures([Cow::Borrowed(taps)].into_iter());
        let products = if direct.kernel.kernel().isa == Isa::Portable { 1.0 } else { 0.0 };
        move |samples| {
            let samples = samples.iter().map(|sample| sample.to_f64());
            let (mut sum, mut square, mut differences) = (0.0, 0.0, 0.0);
            for ((sample, tap), roundings) in samples.zip(taps).zip(&direct.orders[0].roundings) {
                sum += sample;
                square += sample * sample;
                // The difference is rounded too; a product with a weight of 1 is not.
                differences += f64::from(roundings + 1.0) * (sample - tap).abs();
            }
            let norm = taps.iter().map(|tap| tap * tap).sum::<f64>().sqrt();
            let (worst, size) = match direct.kernel.kernel().op {
                KernelOp::Correlate => {
                    let constant = sum * sum / n;
                    let varying = (figures.varying + products) * (square - constant).max(0.0).sqrt();
                    (varying + (figures.constant + products) * constant.sqrt(), square.sqrt() * norm)
                }
                KernelOp::AbsDiff => (differences, n.sqrt() * (square.sqrt() + norm)),
            };
            T::ROUNDOFF * worst.min((16.0 + n.sqrt()) * size)
        }
    }

    /// The sum of the only panel.
    fn of_one_panel<T: Real>(direct: &Direct<T>, template: &Template<T>, samples: &[T]) -> T {
        let (in_pitch, out_pitch) = direct.pitches([1; 3]);
        let (mut input, mut out) = (vec![T::of(0.0); in_pitch.elements()], vec![T::of(f64::NAN); out_pitch.elements()]);
        testing::lay(samples, direct.shape, in_pitch.plane, in_pitch.row, &mut input);
        let weights = match direct.kernel.kernel().op {
            KernelOp::Correlate => Vec::new(),
            KernelOp::AbsDiff => vec![T::of(1.0); samples.len()],
        };
        let slab = Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs: [1; 3] };
        direct.run(template.sum(), &weights, slab);
        out[0]
    }

    /// Writes values to rows of so many.
    fn place<T: Copy>(input: &mut [T], pitch: Pitch, width: usize, mut values: impl Iterator<Item = T>) {
        input
            .chunks_mut(pitch.row)
            .for_each(|row| row.iter_mut().zip(values.by_ref().take(width)).for_each(|(to, value)| *to = value));
    }

    /// Outputs of samples that `fill` brings.
    fn correlate<T: Real>(
        template: [usize; 3],
        outputs: [usize; 3],
        taps: &[f64],
        isas: &IsaSet,
        fill: impl FnOnce(&mut [T], Pitch),
    ) -> (Vec<T>, Pitch) {
        let direct =
            Direct::<T>::new(choose(KernelOp::Correlate, T::DTYPE, template, outputs, isas), template, isas).unwrap();
        let (in_pitch, out_pitch) = direct.pitches(outputs);
        let (mut input, mut out) = (vec![T::of(0.0); in_pitch.elements()], vec![T::of(f64::NAN); out_pitch.elements()]);
        fill(&mut input, in_pitch);
        let template = direct.prepare(taps, None);
        direct.run(template.sum(), &[], Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs });
        (out, out_pitch)
    }
}
