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

    /// The shape of the buffers for outputs of up to `out`: input and output pitches, with the kernel's slack.
    pub fn pitches(&self, out: [usize; 3]) -> (Pitch, Pitch) {
        pitches(&[self.kernel.kernel()], self.shape, out)
    }

    /// The cross term of a tile: `out = sum P t`, or `sum w |P - t|` for a kernel of absolute differences.
    #[allow(clippy::too_many_arguments, reason = "a tile is two buffers with their pitches")]
    pub fn run(&self, input: &[T], in_pitch: Pitch, template: &[T], weights: &[T], out: &mut [T], out_pitch: Pitch, out_shape: [usize; 3]) {
        let mut tile = Tile {
            input,
            in_row: in_pitch.row,
            in_plane: in_pitch.plane,
            template,
            weights,
            kernel_shape: self.shape,
            out,
            out_row: out_pitch.row,
            out_plane: out_pitch.plane,
            out_shape,
            accumulate: false,
        };
        self.kernel.run(&mut tile);
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
