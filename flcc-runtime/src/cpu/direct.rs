//! The direct method: the template laid over every panel, by the kernels of the table.
//!
//! Cost `N_out * N_T` multiply-adds. Sums are sequential in the type of the tile, in the order of the template's samples or, along lines,
//! in that of [`Direct::ordered`]:
//! integers are exact while `max_i * max_t * N_T` stays below `2^24` in f32 or `2^53` in f64, which the solver checks.

use std::borrow::Cow;

use flcc_core::dtype::DType;

use super::doubt::Rounding;
use super::isa::{Isa, IsaSet};
use super::kernel::{Bound, Kernel, KernelOp, Tile, Width};
use super::real::Real;
use super::table;
use crate::pad::Pitch;

/// A kernel bound to this processor, for templates of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Direct<T: Real> {
    kernel: Bound<T>,
    shape: [usize; 3],
}

/// Template values as a kernel takes them, in its type: what one is rounded by is added to the next, so that their sum stays what it is,
/// and with it the cross term with what is constant.
pub fn rounded<T: Real>(values: &[f64]) -> impl Iterator<Item = T> {
    let mut left = 0.0;
    values.iter().map(move |&value| {
        let rounded = T::of(value + left);
        left += value - rounded.to_f64();
        // What is not finite has no rest.
        left = if left.is_finite() { left } else { 0.0 };
        rounded
    })
}

/// The kernel that serves a template shape and outputs of one row or more, on these instruction sets.
pub fn choose(op: KernelOp, dtype: DType, template: [usize; 3], out: [usize; 3], isas: &IsaSet) -> &'static Kernel {
    table::best(op, dtype, template, out[1] == 1 && template[1] == 1, isas)
}

impl<T: Real> Direct<T> {
    /// The engine for a kernel, if this processor has its instruction set.
    pub fn new(kernel: &'static Kernel, shape: [usize; 3], isas: &IsaSet) -> Option<Direct<T>> {
        Some(Direct { kernel: Bound::new(kernel, isas)?, shape })
    }

    /// Rows and columns of a block: outputs are computed by whole ones.
    pub fn block(&self) -> [usize; 2] {
        let kernel = self.kernel.kernel();
        [kernel.block_rows, kernel.lanes]
    }

    /// How its sums are rounded, of templates that [`rounded`] gave.
    pub fn rounding(&self) -> Rounding {
        Rounding::Direct { balanced: true, fused: self.kernel.kernel().isa != Isa::Portable }
    }

    /// Template values in the order in which the kernel adds their products: kernels of one row of outputs take four taps a vector
    /// apart together, as long as there are four vectors of them.
    pub fn ordered<'a>(&self, values: Cow<'a, [f64]>) -> Cow<'a, [f64]> {
        let kernel = self.kernel.kernel();
        let line = matches!(kernel.width, Width::Line(_) | Width::AnyLine);
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
        pitches(&[self.kernel.kernel()], self.shape, out)
    }

    /// The cross term of a tile: `out = sum P t`, or `sum w |P - t|` for a kernel of absolute differences.
    pub fn run(&self, template: &[T], weights: &[T], slab: Slab<'_, T>) {
        self.kernel.run(&mut slab.tile(template, weights, self.shape, false));
    }

    /// The correlation of a tile of a block at least, with nothing written or read beside it. Returns the largest magnitude of its outputs.
    pub fn run_within(&self, template: &[T], slab: Slab<'_, T>) -> T {
        let mut tile = Tile { within: true, ..slab.tile(template, &[], self.shape, false) };
        self.kernel.run(&mut tile);
        tile.largest
    }
}

/// The samples of a tile and where its cross term goes.
pub struct Slab<'a, T> {
    /// Samples, as gathered.
    pub input: &'a [T],
    /// Their pitches.
    pub in_pitch: Pitch,
    /// Cross terms.
    pub out: &'a mut [T],
    /// Their pitches.
    pub out_pitch: Pitch,
    /// Outputs.
    pub outputs: [usize; 3],
}

impl<'a, T: Default> Slab<'a, T> {
    /// As a kernel takes it.
    pub fn tile(self, template: &'a [T], weights: &'a [T], kernel_shape: [usize; 3], accumulate: bool) -> Tile<'a, T> {
        Tile {
            input: self.input,
            in_row: self.in_pitch.row,
            in_plane: self.in_pitch.plane,
            template,
            weights,
            kernel_shape,
            out: self.out,
            out_row: self.out_pitch.row,
            out_plane: self.out_pitch.plane,
            out_shape: self.outputs,
            accumulate,
            within: false,
            largest: T::default(),
        }
    }
}

/// Pitches that serve several kernels on one tile of up to `out` outputs.
pub fn pitches(kernels: &[&Kernel], template: [usize; 3], out: [usize; 3]) -> (Pitch, Pitch) {
    let rounded = kernels.iter().map(|kernel| kernel.rounded(out)).fold(out, |a, b| [a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2])]);
    let in_row = pitch(rounded[2] + template[2] - 1);
    let in_rows = rounded[1] + template[1] - 1;
    let input = Pitch { row: in_row, plane: in_row * in_rows, rows: in_rows, planes: rounded[0] + template[0] - 1 };
    let out_row = pitch(rounded[2]);
    let output = Pitch { row: out_row, plane: out_row * rounded[1], rows: rounded[1], planes: rounded[0] };
    (input, output)
}

/// A row pitch of whole cache lines that is no multiple of a page: rows a page apart evict each other.
fn pitch(width: usize) -> usize {
    let row = width.next_multiple_of(16);
    if row.is_multiple_of(512) { row + 16 } else { row }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::doubt::SPREAD;
    use crate::cpu::hard::{self, Ratios, noise};

    #[test]
    fn a_sum_along_a_line_is_that_in_the_order_told() {
        for isas in
            [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.detected()).map(|isa| IsaSet::detect().restrict(isa))
        {
            for taps in [1usize, 15, 31, 32, 63, 64, 65, 127, 128, 200, 333] {
                let (mut samples, mut values) = (noise(taps as u64), noise(7));
                let outputs = [1, 1, 300];
                let kernel = choose(KernelOp::Correlate, DType::F32, [1, 1, taps], outputs, &isas);
                let direct = Direct::<f32>::new(kernel, [1, 1, taps], &isas).unwrap();
                let (in_pitch, out_pitch) = direct.pitches(outputs);
                let input: Vec<f32> = (0..in_pitch.elements()).map(|_| samples()).collect();
                let template: Vec<f32> = (0..taps).map(|_| values()).collect();
                let mut out = vec![f32::NAN; out_pitch.elements()];
                direct.run(&template, &[], Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs });
                let places: Vec<f64> = (0..taps).map(|place| place as f64).collect();
                for (x, &got) in out[..outputs[2]].iter().enumerate() {
                    let add = |sum: f32, &place: &f64| input[x + place as usize].mul_add(template[place as usize], sum);
                    let want = direct.ordered(Cow::Borrowed(&places)).iter().fold(0.0, add);
                    // Portable kernels round products too.
                    let exact = kernel.isa != Isa::Portable;
                    assert!(
                        if exact { got == want } else { (got - want).abs() < 1e-5 },
                        "{} of {taps} at {x}: {got} for {want}",
                        kernel.name
                    );
                }
            }
        }
    }

    /// Kernels of rows, of lines and of any size, against those of f64.
    #[test]
    fn errors_stay_within_their_estimate() {
        let shapes = [([1, 90, 160], [1, 3, 3]), ([1, 90, 160], [1, 8, 8]), ([1, 90, 160], [1, 16, 16]), ([1, 90, 160], [1, 30, 45])];
        let lines = [([1, 1, 4096], [1, 1, 9]), ([1, 1, 4096], [1, 1, 64]), ([1, 1, 4096], [1, 1, 500])];
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.detected()) {
            let mut ratios = Ratios::default();
            for seed in 0.. {
                if seed > 0 && ratios.enough() {
                    break;
                }
                for (samples, template) in shapes.into_iter().chain(lines) {
                    errors_of(samples, template, &IsaSet::detect().restrict(isa), 100 * seed, &mut ratios);
                }
            }
            ratios.judge(&format!("direct sums, {isa}"));
        }
    }

    fn errors_of(samples: [usize; 3], template: [usize; 3], isas: &IsaSet, seed: u64, ratios: &mut Ratios) {
        let outputs = [0, 1, 2].map(|axis| samples[axis] + 1 - template[axis]);
        let n = template.iter().product::<usize>() as f64;
        for (kind, (name, image)) in hard::IMAGES.iter().enumerate() {
            let mut tile = noise(seed + kind as u64 + 3);
            for smooth in [false, true] {
                let taps = hard::template(n as usize, smooth, noise(seed + kind as u64 + 50));
                // A line is what rows of 64 would be, one after the other.
                let row = if samples[1] == 1 { 64 } else { samples[2] };
                let computed: Vec<f32> = (0..samples[1] * samples[2]).map(|at| image(at / row, at % row, tile())).collect();
                let values = computed.iter().copied();
                let (single, single_pitch) =
                    correlate::<f32>(template, outputs, &taps, isas, |input, pitch| place(input, pitch, samples[2], values));
                let values = computed.iter().map(|&sample| f64::from(sample));
                let (double, double_pitch) =
                    correlate::<f64>(template, outputs, &taps, isas, |input, pitch| place(input, pitch, samples[2], values));
                let ones = vec![1.0; taps.len()];
                let windows = |of: fn(f64) -> f64| {
                    let values = computed.iter().map(|&sample| of(sample.into()));
                    correlate::<f64>(template, outputs, &ones, isas, |input, pitch| place(input, pitch, samples[2], values)).0
                };
                let (sums, squares) = (windows(|value| value), windows(|value| value * value));
                let direct = Direct::<f32>::new(choose(KernelOp::Correlate, DType::F32, template, outputs, isas), template, isas).unwrap();
                let (_, share) = hard::doubt(&direct.ordered(Cow::Borrowed(&taps)), direct.rounding()).at(0.0, 0.0);
                // What `energy > share * square` stands for: the panel's varying part and its sum of squares, each with its own share.
                let own = 8.0 * SPREAD * f64::from(f32::EPSILON) / 2.0 * (n / 3.0 + 3.0).sqrt() / 0.8e-5;
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

    /// Writes values to rows of so many.
    fn place<T: Copy>(input: &mut [T], pitch: Pitch, width: usize, mut values: impl Iterator<Item = T>) {
        input.chunks_mut(pitch.row).for_each(|row| row.iter_mut().zip(values.by_ref().take(width)).for_each(|(to, value)| *to = value));
    }

    /// Outputs of samples that `fill` brings.
    fn correlate<T: Real>(
        template: [usize; 3],
        outputs: [usize; 3],
        taps: &[f64],
        isas: &IsaSet,
        fill: impl FnOnce(&mut [T], Pitch),
    ) -> (Vec<T>, Pitch) {
        let direct = Direct::<T>::new(choose(KernelOp::Correlate, T::DTYPE, template, outputs, isas), template, isas).unwrap();
        let (in_pitch, out_pitch) = direct.pitches(outputs);
        let (mut input, mut out) = (vec![T::of(0.0); in_pitch.elements()], vec![T::of(f64::NAN); out_pitch.elements()]);
        fill(&mut input, in_pitch);
        let taps: Vec<T> = rounded(taps).collect();
        direct.run(&taps, &[], Slab { input: &input, in_pitch, out: &mut out, out_pitch, outputs });
        (out, out_pitch)
    }
}
