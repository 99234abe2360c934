//! The direct method: the template laid over every panel, by the kernels of the table.
//!
//! Cost `N_out * N_T` multiply-adds. Sums are sequential in the type of the tile, in the order of the template's samples:
//! integers are exact while `max_i * max_t * N_T` stays below `2^24` in f32 or `2^53` in f64, which the solver checks.

use flcc_core::dtype::DType;

use super::isa::IsaSet;
use super::kernel::{Bound, Kernel, KernelOp, Tile};
use super::real::Real;
use super::table;
use crate::pad::Pitch;

/// A kernel bound to this processor, for templates of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Direct<T: Real> {
    kernel: Bound<T>,
    shape: [usize; 3],
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

    /// The shape of the buffers for outputs of up to `out`: input and output pitches, with the kernel's slack.
    pub fn pitches(&self, out: [usize; 3]) -> (Pitch, Pitch) {
        pitches(&[self.kernel.kernel()], self.shape, out)
    }

    /// The cross term of a tile: `out = sum P t`, or `sum w |P - t|` for a kernel of absolute differences.
    pub fn run(&self, template: &[T], weights: &[T], slab: Slab<'_, T>) {
        self.kernel.run(&mut slab.tile(template, weights, self.shape, false));
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

impl<'a, T> Slab<'a, T> {
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
