//! How samples lie in registers and shared memory, and how much of that a kernel takes.

use flcc_core::dtype::DType;

use crate::matrix::{Kernel, Op};

/// How samples of a type lie in registers and shared memory.
pub(crate) struct Words {
    /// The C type of a cell: one sample, or a word of four bytes.
    pub(crate) c_cell: &'static str,
    /// Samples of a cell.
    pub(crate) cell: usize,
    /// Samples, cells and bytes of a piece, which a thread reads at once.
    pub(crate) piece: usize,
    pub(crate) piece_cells: usize,
    pub(crate) piece_bytes: usize,
}

impl Words {
    pub(crate) fn of(dtype: DType) -> Option<Words> {
        match dtype {
            DType::F32 => Some(Words { c_cell: "float", cell: 1, piece: 4, piece_cells: 4, piece_bytes: 16 }),
            DType::F64 => Some(Words { c_cell: "double", cell: 1, piece: 2, piece_cells: 2, piece_bytes: 16 }),
            DType::U8 => Some(Words { c_cell: "unsigned", cell: 4, piece: 4, piece_cells: 1, piece_bytes: 4 }),
            _ => None,
        }
    }

    /// Pieces that are copied at once: bytes by 16 where the pieces of a row lie in order.
    pub(crate) fn copy(&self, patch_w: usize) -> usize {
        if self.piece_bytes == 4 && patch_w == self.piece { 4 } else { 1 }
    }

    /// Pieces that `width` taps reach beyond a patch. Words of bytes are shifted in pairs, so one more word is read.
    pub(crate) fn extra(&self, width: usize) -> usize {
        if self.cell == 4 { width.div_ceil(4) } else { (width - 1).div_ceil(self.piece) }
    }
}

impl Kernel {
    /// Bytes of dynamic shared memory that it is launched with, as the text of a kernel of scores counts them, or of
    /// a transform; 0 for the others.
    pub fn shared(&self) -> usize {
        if self.op.transforms() {
            let [length, width] = self.tile();
            return match self.op {
                // Lines of a template of one row and of the samples that it meets; more rows have more.
                Op::Pairs64 | Op::Pairs128 => (length + 1) * (width + 8) * 8,
                // A complex number for each sample, of 16 planes here.
                Op::Volume | Op::Zncc32 => 16 * length * width * 8,
                // Of the numbers of a block's rows.
                op if op.is_large() => self.block[0] * width * 8,
                _ => length * width * 8,
            };
        }
        let (Op::Zncc, Some([_, height, width]), Some(words)) = (self.op, self.size(), Words::of(self.dtype)) else {
            return 0;
        };
        let ([_, block_w], [_, patch_w], [tile_h, _]) = (self.block, self.patch, self.tile());
        let groups = patch_w / words.piece;
        let step = groups * words.copy(patch_w);
        let pieces = block_w * groups + words.extra(width);
        let tile = (tile_h + height - 1) * pieces.next_multiple_of(step) * words.piece_bytes;
        let result = if self.dtype == DType::F64 { 8 } else { 4 };
        let out_groups = patch_w * result / 16;
        let stage = tile_h * out_groups * (block_w + if out_groups > 1 { 8 / out_groups } else { 0 }) * 16;
        tile.max(stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_covers_the_taps_of_the_whole_patch() {
        for (dtype, patch_w) in [(DType::F32, 8), (DType::F64, 4), (DType::U8, 4), (DType::U8, 8)] {
            let words = Words::of(dtype).unwrap();
            assert!((1..=64).all(|width| patch_w + words.piece * words.extra(width) >= width + patch_w - 1), "{dtype}");
        }
    }
}
