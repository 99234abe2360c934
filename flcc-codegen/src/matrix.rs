//! Which kernels are generated, and with what blocks and patches. The one hand-edited list of the CUDA side.

use crate::key::{KernelKey, KernelSize, Target};
use flcc_core::dtype::DType;
use flcc_core::sizes;

/// Most multiply-adds (or dot products of four) of one thread that a kernel's text unrolls. An instruction takes 16 bytes, so
/// this is 16 KB of loop: beyond it the instruction cache decides, and a 16x16 kernel with 64 KB of loop is a quarter slower.
pub const MAX_UNROLLED: usize = 1024;

/// Rows and columns of taps that the run-time-size kernels hold in shared memory.
pub const CHUNK: usize = 16;

/// One kernel to render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name, which holds op, pixel type, size and block.
    pub key: KernelKey,
    /// Outputs of one thread, rows and columns. Columns are a multiple of 4.
    pub patch: [usize; 2],
}

/// The kernels of one rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// In any order; a name comes once.
    pub kernels: Vec<Kernel>,
}

impl Matrix {
    /// What the repository holds: direct correlation of f32 and u8, for the square sizes of [`squares`] and for any size.
    pub fn committed() -> Matrix {
        let mut kernels = Vec::new();
        for dtype in [DType::F32, DType::U8] {
            kernels.extend(squares().map(|side| direct(dtype, KernelSize::Exact(vec![side, side]))));
            kernels.push(direct(dtype, KernelSize::Any));
        }
        Matrix { kernels }
    }
}

/// The sides of [`sizes::SQUARE`] that have a source of their own: all up to 16, then 20, 24 and 32.
///
/// Between those the run-time-size kernel and, beyond about 9, Fourier methods are as good: rows are rolled there (see
/// [`MAX_UNROLLED`]), so a size of its own saves little, and the committed total has to stay reviewable (under 3 MB).
pub fn squares() -> impl Iterator<Item = usize> {
    sizes::SQUARE.filter(|side| *side <= 16 || [20, 24, 32].contains(side))
}

/// The direct correlation of a type and size, with the block and the patch that measurements favour.
fn direct(dtype: DType, size: KernelSize) -> Kernel {
    // 4x4 outputs a thread are enough for small templates. From 12 on an f32 thread takes 4x8: a row read from shared memory then
    // serves twice as many multiply-adds, which shared memory would else hold back. 16 threads a row keep the tile under 48 KB.
    let wide = dtype == DType::F32 && matches!(&size, KernelSize::Exact(sides) if sides[1] >= 12);
    let (patch, x) = if wide { ([4, 8], 16) } else { ([4, 4], 32) };
    let key = KernelKey::new("corr", dtype, size, Target::Block { x, y: 8, arch: None }).expect("a direct kernel's name is valid");
    Kernel { key, patch }
}

impl Kernel {
    /// The template it is rendered from.
    pub fn template(&self) -> &'static str {
        match self.key.size() {
            KernelSize::Any => "generic.cu.tera",
            _ => "kernel.cu.tera",
        }
    }

    /// Height and width of its templates; `None`: any.
    pub fn sides(&self) -> Option<[usize; 2]> {
        match self.key.size() {
            KernelSize::Exact(sides) => Some(sides[..].try_into().expect("a 2D size")),
            _ => None,
        }
    }

    /// Threads of a block: rows, columns.
    pub fn block(&self) -> [usize; 2] {
        match self.key.target() {
            Target::Block { x, y, .. } => [*y, *x],
            Target::Isa(name) => panic!("a CUDA kernel on {name}"),
        }
    }

    /// Outputs of a block: rows, columns.
    pub fn tile(&self) -> [usize; 2] {
        let (block, patch) = (self.block(), self.patch);
        [block[0] * patch[0], block[1] * patch[1]]
    }

    /// Instructions that one template row costs a thread.
    fn row_cost(&self, width: usize) -> usize {
        let taps = if self.key.dtype() == DType::U8 { width.div_ceil(4) } else { width };
        self.patch[0] * self.patch[1] * taps
    }

    /// How many template rows the text unrolls: all where [`MAX_UNROLLED`] allows, else two, else one.
    pub fn unrolled_rows(&self) -> Option<usize> {
        let [height, width] = self.sides()?;
        let cost = self.row_cost(width);
        Some([height, 2.min(height)].into_iter().find(|rows| rows * cost <= MAX_UNROLLED).unwrap_or(1))
    }

    /// Elements between the rows of the template that is copied to the kernel's constant memory; bytes fill whole words.
    pub fn taps_stride(&self) -> Option<usize> {
        let [_, width] = self.sides()?;
        Some(if self.key.dtype() == DType::U8 { width.next_multiple_of(4) } else { width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str) -> Kernel {
        Matrix::committed().kernels.into_iter().find(|kernel| kernel.key.to_string() == name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn small_templates_are_unrolled_whole_and_large_ones_by_rows() {
        assert_eq!(kernel("corr_f32_7x7_b32x8").unrolled_rows(), Some(7));
        assert_eq!(kernel("corr_f32_11x11_b32x8").unrolled_rows(), Some(2));
        assert_eq!(kernel("corr_f32_16x16_b16x8").unrolled_rows(), Some(2));
        assert_eq!(kernel("corr_f32_32x32_b16x8").unrolled_rows(), Some(1));
        assert_eq!(kernel("corr_u8_16x16_b32x8").unrolled_rows(), Some(16));
        assert_eq!(kernel("corr_f32_any_b32x8").unrolled_rows(), None);
    }

    #[test]
    fn every_tile_is_the_same_size() {
        assert!(Matrix::committed().kernels.iter().all(|kernel| kernel.tile() == [32, 128]));
    }

    #[test]
    fn the_list_lies_in_the_unroll_range() {
        let listed: Vec<usize> = squares().collect();
        assert_eq!(listed.len(), 18);
        assert!(listed.iter().all(|side| sizes::SQUARE.contains(side)));
    }
}
