//! The separable method: a template of low rank as a sum of products of lines, each laid along one axis.
//!
//! Cost `rank * (T_h + T_w)` instead of `T_h * T_w` multiply-adds an output. What the decomposition leaves out is below
//! rounding (`factor.rs`). Source: dissertation chapter 7, the third method.

use flcc_core::blocks::Blocks;
use flcc_core::dtype::DType;

use crate::cpu::engine::{Bands, Channels, Cross, Engine, Expected, FactorError, Most, Pitches};
use crate::cpu::engines::direct::{Slab, Sum};
use crate::cpu::engines::factor::{self, Factors};
use crate::cpu::kernels::kernel::{Bound, Kernel, KernelOp};
use crate::cpu::kernels::table;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::isa::{Isa, IsaSet};
use crate::problem::error_model::{Figures, Rounding};
use crate::run::geometry::Pitch;

/// Kernels for the lines along each axis.
#[derive(Clone, Copy, Debug)]
pub struct Separable<T: Real> {
    /// Along depth, height and width.
    kernels: [Bound<T>; 3],
    shape: [usize; 3],
    /// Of the lines.
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

    /// In f64, where nothing closer repairs a sum, a template that takes more than half as many terms as it has lines
    /// is taken line by line, which is exact.
    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Lines<T>, FactorError> {
        let factors = self.factors(values, None)?;
        let by_line = factor::by_line(values, self.shape);
        let many = T::DTYPE == DType::F64 && 2 * factors.terms.len() > by_line.terms.len();
        Ok(Lines::new(if many { &by_line } else { &factors }))
    }

    fn rank(&self, values: &[f64], limit: usize) -> Option<usize> {
        self.factors(values, Some(limit)).ok().map(|factors| factors.terms.len())
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

    /// The separable form of a template's values, to within the rounding of the tile's type: what rounding a product of
    /// lines to that type added is not found again as terms of its own.
    fn factors(&self, values: &[f64], max_terms: Option<usize>) -> Result<Factors, FactorError> {
        factor::factor(values, self.shape, T::ROUNDOFF.max(factor::LEAST_TOLERANCE), max_terms)
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
        let (between, _) = super::direct::pitches(&kernels, [1, 1, kw], [d + kd - 1, h + kh - 1, w]);
        let (input, output) = super::direct::pitches(&kernels, self.shape, out);
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
