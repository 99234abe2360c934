//! Samples and cross terms of a tile as kernels of floats take them, and the pitches of their buffers.

use flcc_core::blocks::Blocks;

use crate::cpu::kernels::kernel::{Kernel, Tile};
use crate::run::geometry::Pitch;

/// Taps of one channel as a kernel of floats takes them.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a, T> {
    /// Dense, as many as the template has samples.
    pub taps: &'a [T],
    /// Their blocks.
    pub blocks: Blocks,
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
    /// The slab as a kernel takes it, with a template of this shape.
    pub fn tile(
        self,
        template: Sum<'a, T>,
        weights: &'a [T],
        kernel_shape: [usize; 3],
        accumulate: bool,
    ) -> Tile<'a, T> {
        Tile {
            input: self.input,
            in_row: self.in_pitch.row,
            in_plane: self.in_pitch.plane,
            template: template.taps,
            weights,
            kernel_shape,
            blocks: template.blocks,
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
    let rounded = kernels
        .iter()
        .map(|kernel| kernel.rounded(out))
        .fold(out, |a, b| [a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2])]);
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
