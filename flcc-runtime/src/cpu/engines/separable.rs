//! The separable method: a template of low rank as a sum of products of lines, each laid along one axis.
//!
//! Cost `rank * (T_h + T_w)` instead of `T_h * T_w` multiply-adds an output. What the decomposition leaves out is below
//! rounding (`problem/factor.rs`). Source: dissertation chapter 7, the third method.

use flcc_core::blocks::Blocks;
use flcc_core::dtype::DType;

use crate::cpu::bands::Bands;
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::kernels::kernel::{Bound, Kernel, KernelOp};
use crate::cpu::kernels::table;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::slab::{self, Slab, Sum};
use crate::isa::{Isa, IsaSet};
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::{self, FactorError, Factors};
use crate::run::geometry::Pitch;

/// Kernels for the lines along each axis.
#[derive(Clone, Copy, Debug)]
pub struct Separable<T: Real> {
    /// Along depth, height and width.
    kernels: [Bound<T>; 3],
    shape: [usize; 3],
    /// How many products of a line are added up before they go to a total.
    blocks: [Blocks; 3],
}

/// The shapes of the lines along each axis of a template.
fn line_shapes([kd, kh, kw]: [usize; 3]) -> [[usize; 3]; 3] {
    [[kd, 1, 1], [1, kh, 1], [1, 1, kw]]
}

/// The kernels of lines along each axis of a template.
pub fn choose<T: Real>(template: [usize; 3], isas: &IsaSet) -> [&'static Kernel; 3] {
    line_shapes(template).map(|line| table::best(KernelOp::Correlate, T::DTYPE, line, false, isas))
}

/// A template as lines in the type of the tile.
pub struct Lines<T> {
    terms: Vec<Line<T>>,
}

/// One product of lines along depth, height and width.
struct Line<T> {
    vectors: [Vec<T>; 3],
    /// The next product has the same line along depth: that pass runs once over their sum.
    continues: bool,
}

impl<T: Real> Lines<T> {
    /// Rounded factors.
    pub fn new(factors: &Factors) -> Lines<T> {
        let flat = factors.shape[0] == 1;
        let terms = factors.terms.iter().enumerate().map(|(index, term)| {
            // A flat template has no pass along depth, so the one number there goes to the width.
            let gain = if flat { term.vectors[0][0] } else { 1.0 };
            let [depth, height, width] = &term.vectors;
            let round = |line: &[f64], gain: f64| line.iter().map(|&value| T::of(value * gain)).collect();
            let continues = !flat && factors.terms.get(index + 1).is_some_and(|next| next.group == term.group);
            Line { vectors: [round(depth, 1.0), round(height, 1.0), round(width, gain)], continues }
        });
        Lines { terms: terms.collect() }
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether there are none: a template of zeros.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl<T: Real> Engine<T> for Separable<T> {
    type Template = Lines<T>;
    /// What lies between the passes.
    type Work = [Vec<T>; 2];

    fn pitches(&self, outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.pitches(outputs);
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, most: Most, memory: &mut Memory) -> [Vec<T>; 2] {
        let len = self.pitches(most.outputs).0.elements();
        [memory.values(T::of(0.0), len), memory.values(T::of(0.0), len)]
    }

    fn template_bytes(&self) -> usize {
        // A template of so many samples that its lines are fewer.
        self.shape.iter().product::<usize>() * size_of::<T>()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Lines<T>, FactorError> {
        Ok(Lines::new(&factor::to_compute(values, self.shape, T::DTYPE == DType::F64)?))
    }

    /// The factors are not kept for [`Engine::prepare`]. A template that is taken by them has few, so they are found
    /// again in a few passes over it; the long decompositions are those that end here, above the limit. What would
    /// carry them is checked templates, which know no engine, or the engine, which all templates share.
    fn rank(&self, values: &[f64], limit: usize) -> Option<usize> {
        let factors = factor::in_type(values, self.shape, T::DTYPE == DType::F64, Some(limit));
        factors.ok().map(|factors| factors.terms.len())
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Lines<T>>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        let terms = prepared.map(Lines::len).sum::<usize>() as f64;
        let lines = self.shape.iter().map(|&side| side as f64).sum();
        (Rounding::Separable { terms, lines, chain: self.chain() as f64 }, Figures::of(channels.iter()))
    }

    fn cross(&self, template: &Lines<T>, job: Cross<'_, T>, work: &mut [Vec<T>; 2]) {
        let Cross { samples, out, pitches, outputs, .. } = job;
        let slab = Slab { input: samples, in_pitch: pitches.samples, out, out_pitch: pitches.cross, outputs };
        self.run(template, work, slab);
    }

    fn bands<'a>(&self, _channel: usize, _outputs: [usize; 2], _work: &'a [Vec<T>; 2]) -> Bands<'a> {
        Bands::Own
    }

    fn expected(&self) -> Option<Expected> {
        None
    }
}

impl<T: Real> Separable<T> {
    /// The engine, if this processor has the kernels' instruction sets.
    pub fn new(shape: [usize; 3], isas: &IsaSet) -> Option<Separable<T>> {
        let [d, h, w] = choose::<T>(shape, isas);
        let kernels = [Bound::new(d, isas)?, Bound::new(h, isas)?, Bound::new(w, isas)?];
        Some(Separable { kernels, shape, blocks: line_shapes(shape).map(Blocks::strict) })
    }

    /// The most roundings that a product goes through along all axes, with those of samples and factors.
    pub fn chain(&self) -> usize {
        let shapes = line_shapes(self.shape);
        // Kernels without fused multiply-adds round products too.
        let products = self.kernels.iter().filter(|kernel| kernel.kernel().isa == Isa::Portable).count();
        let along = |axis: usize| self.blocks[axis].chain(shapes[axis]);
        (0..3).filter(|&axis| self.shape[axis] > 1).map(along).sum::<usize>() + 4 + products
    }

    /// The shape of the buffers for outputs of up to `out`.
    pub fn pitches(&self, out: [usize; 3]) -> (Pitch, Pitch) {
        let kernels = self.kernels.map(|kernel| kernel.kernel());
        // The intermediate results are as high and deep as the input, and rounded up like every output.
        let [d, h, w] = out;
        let [kd, kh, kw] = self.shape;
        let (between, _) = slab::pitches(&kernels, [1, 1, kw], [d + kd - 1, h + kh - 1, w]);
        let (input, output) = slab::pitches(&kernels, self.shape, out);
        let (rows, planes) = (input.rows.max(between.rows), input.planes.max(between.planes));
        (Pitch { row: input.row, plane: input.row * rows, rows, planes }, output)
    }

    /// A line along an axis.
    fn sum<'a>(&self, axis: usize, taps: &'a [T]) -> Sum<'a, T> {
        Sum { taps, blocks: self.blocks[axis] }
    }

    /// The cross term of a tile; what lies between the passes goes to `temporary`.
    pub fn run(&self, lines: &Lines<T>, temporary: &mut [Vec<T>; 2], slab: Slab<'_, T>) {
        let Slab { input, in_pitch: pitch, out, out_pitch, outputs: [d, h, w] } = slab;
        let [kd, kh, _] = self.shape;
        let [along_depth, along_height, along_width] = self.kernels;
        let shapes = line_shapes(self.shape);
        let [first, second] = temporary;
        let flat = kd == 1;
        let (mut summed, mut written) = (false, false);
        for Line { vectors: [depth, height, width], continues } in &lines.terms {
            let between = Slab {
                input,
                in_pitch: pitch,
                out: &mut *first,
                out_pitch: pitch,
                outputs: [d + kd - 1, h + kh - 1, w],
            };
            along_width.run(&mut between.tile(self.sum(2, width), &[], shapes[2], false));
            if flat {
                let last = Slab { input: &*first, in_pitch: pitch, out: &mut *out, out_pitch, outputs: [d, h, w] };
                along_height.run(&mut last.tile(self.sum(1, height), &[], shapes[1], written));
                written = true;
                continue;
            }
            let between = Slab {
                input: &*first,
                in_pitch: pitch,
                out: &mut *second,
                out_pitch: pitch,
                outputs: [d + kd - 1, h, w],
            };
            along_height.run(&mut between.tile(self.sum(1, height), &[], shapes[1], summed));
            summed = *continues;
            if !continues {
                let last = Slab { input: &*second, in_pitch: pitch, out: &mut *out, out_pitch, outputs: [d, h, w] };
                along_depth.run(&mut last.tile(self.sum(0, depth), &[], shapes[0], written));
                written = true;
            }
        }
        if lines.terms.is_empty() {
            out.fill(T::of(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, Search, Twofold};
    use crate::problem::template::Weights;

    /// Roundings that agree: images that are 0 but for a multiple of the template, which is a product of lines of two
    /// values, or a sum of some, and equal samples, at amplitudes that are searched for the worst.
    #[test]
    fn agreeing_errors_stay_within_the_worst_case() {
        for isas in testing::float_sets() {
            agreeing_errors::<f32>(testing::SINGLE, &isas);
            agreeing_errors::<f64>(testing::DOUBLE, &isas);
        }
    }

    fn agreeing_errors<T: Real>(precision: testing::Precision, isas: &IsaSet) {
        let cases = || {
            let shapes = [[1, 8, 8], [1, 32, 32], [1, 30, 40], [1, 16, 75], [10, 10, 12], [4, 1, 64]];
            shapes.into_iter().flat_map(|shape| [1, 2, 5].into_iter().map(move |terms| (shape, terms)))
        };
        let rounds = || testing::seeds().take(10);
        let mut search = Search::new(4, cases().count() * rounds().count() * 2);
        for ((shape, terms), round) in cases().flat_map(|case| rounds().map(move |round| (case, round))) {
            let mut random = testing::noise(11 + 37 * round);
            let n = shape.iter().product::<usize>();
            let mut values = vec![0.0; n];
            for _ in 0..terms {
                let lines =
                    shape.map(|side| (0..side).map(|_| if random() > 0.0 { 1.0 } else { -1.0 }).collect::<Vec<f64>>());
                for (k, value) in values.iter_mut().enumerate() {
                    let [z, y, x] = [k / (shape[1] * shape[2]), k / shape[2] % shape[1], k % shape[2]];
                    *value += lines[0][z] * lines[1][y] * lines[2][x];
                }
            }
            for (name, values) in [("lines", values), ("equal", vec![1.0; n])] {
                let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
                if norm == 0.0 {
                    continue;
                }
                let taps: Vec<f64> = values.iter().map(|value| value / norm).collect();
                let separable = Separable::<T>::new(shape, isas).unwrap();
                let lines = separable.prepare(&taps, None).unwrap();
                let weights = Weights { values: None, n: n as f64, support: None };
                let channels = [taps.clone()];
                let (rounding, figures) =
                    separable.rounding(Channels::plain(&channels, &weights), &mut [&lines].into_iter(), true);
                let (_, share) = testing::doubt_at(precision, n, &figures, rounding).at(0.0, 0.0);
                search.try_case(
                    || format!("{name} {shape:?}, {terms} terms"),
                    &mut random,
                    |amplitude| {
                        let samples: Vec<T> = values.iter().map(|value| T::of(value * amplitude)).collect();
                        let got = of_one_panel(&separable, &lines, &samples);
                        let (mut exact, mut square) = (Twofold::default(), 0.0);
                        for (sample, &tap) in samples.iter().map(|sample| sample.to_f64()).zip(&taps) {
                            exact.add_product(sample, tap);
                            square += sample * sample;
                        }
                        exact.error(got.to_f64()) / (0.8 * precision.1 * (share * square).sqrt())
                    },
                );
            }
        }
        search.judge(&format!("separable sums, {}, {isas}", T::DTYPE), 0.002);
    }

    /// The only panel's cross term.
    fn of_one_panel<T: Real>(separable: &Separable<T>, lines: &Lines<T>, samples: &[T]) -> T {
        let (in_pitch, out_pitch) = separable.pitches([1; 3]);
        let (mut input, mut out) = (vec![T::of(0.0); in_pitch.elements()], vec![T::of(f64::NAN); out_pitch.elements()]);
        testing::lay(samples, separable.shape, in_pitch.plane, in_pitch.row, &mut input);
        let mut between = [(); 2].map(|()| vec![T::of(0.0); in_pitch.elements()]);
        separable.run(lines, &mut between, Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs: [1; 3] });
        out[0]
    }
}
