//! What a CPU kernel is: a name, what it computes, and a function that only a checked processor may enter.
//!
//! A [`Kernel`] is a row of the table. A [`Bound`] is a kernel that this processor can run: its construction asked. It
//! is the one place where a kernel is called.

use std::fmt;

use flcc_core::blocks::Blocks;
use flcc_core::dtype::DType;

use crate::cpu::kernels::operands::ByteTile;
use crate::isa::{Isa, IsaSet, detected};

/// One padded tile of a valid correlation. All pitches are in elements, axes go depth, height, width.
///
/// A kernel computes whole blocks, so it reads and writes past `out_shape`: heights are rounded up to
/// [`Kernel::block_rows`], widths to [`Kernel::lanes`]. What lies there is read as input and overwritten in `out`;
/// [`Tile::check`] says how long the slices have to be. Within a shape of a block at least
/// ([`Tile::within`]) the last blocks end with it instead: some outputs are computed twice, the same bits.
#[derive(Debug)]
pub struct Tile<'a, T> {
    /// The input; `in[z, y, x]` is `input[z * in_plane + y * in_row + x]`.
    pub input: &'a [T],
    /// From one input row to the next.
    pub in_row: usize,
    /// From one input plane to the next.
    pub in_plane: usize,
    /// The template, dense, `kernel_shape` long.
    pub template: &'a [T],
    /// A weight for each tap of the template for [`KernelOp::AbsDiff`]; not looked at otherwise.
    pub weights: &'a [T],
    /// Depth, height and width of the template; ones in front for fewer axes.
    pub kernel_shape: [usize; 3],
    /// How products are added up: the blocks that its taps are added up in.
    pub blocks: Blocks,
    /// The output; `out[z, y, x]` is `out[z * out_plane + y * out_row + x]`.
    pub out: &'a mut [T],
    /// From one output row to the next.
    pub out_row: usize,
    /// From one output plane to the next.
    pub out_plane: usize,
    /// Depth, height and width of the output; ones in front for fewer axes.
    pub out_shape: [usize; 3],
    /// Whether to add the sums to what is in `out`; else that is overwritten without being read.
    pub accumulate: bool,
    /// Whether nothing past `out_shape` may be written, nor read past what it needs.
    pub within: bool,
    /// To be zero; then the largest magnitude of all outputs that a kernel of correlation computed, where NaN is larger
    /// than infinity.
    pub largest: T,
}

impl<T> Tile<'_, T> {
    /// Whether `kernel` may run on this tile.
    ///
    /// # Errors
    ///
    /// Names the first thing that does not fit, with what was expected and what is there.
    pub fn check(&self, kernel: &Kernel) -> Result<(), Misfit> {
        let name = kernel.name;
        let misfit = |what, expected: usize, got: usize| Err(Misfit { kernel: name, what, expected, got });
        let at_least =
            |what, expected: usize, got: usize| if got < expected { misfit(what, expected, got) } else { Ok(()) };
        let computed = if self.within { self.out_shape } else { kernel.rounded(self.out_shape) };
        let [_, out_height, out_width] = computed;
        let [depth, height, width] = self.kernel_shape;
        for side in self.kernel_shape {
            at_least("a side of the template of at least", 1, side)?;
        }
        match kernel.width {
            Widths::Row(expected) | Widths::Line(expected) if expected != width => {
                misfit("a template width of", expected, width)?;
            }
            _ => {}
        }
        let taps = depth.saturating_mul(height).saturating_mul(width);
        if self.template.len() != taps {
            misfit("as many template values as its shape has,", taps, self.template.len())?;
        }
        if kernel.op == KernelOp::AbsDiff && self.weights.len() != taps {
            misfit("as many weights as template values,", taps, self.weights.len())?;
        }
        if out_height > 1 {
            at_least("an output row pitch of at least the rounded width,", out_width, self.out_row)?;
        }
        if self.out_shape[0] > 1 {
            let rows = extent([1, out_height, out_width], self.out_row, 0);
            at_least("an output plane pitch of at least its rounded rows,", rows, self.out_plane)?;
        }
        if self.within && !self.out_shape.contains(&0) {
            at_least("rows of outputs, if it is to stay within them, of at least", kernel.block_rows, out_height)?;
            at_least("columns of outputs, if it is to stay within them, of at least", kernel.lanes, out_width)?;
            at_least(
                "sums that start with zero, if it is to stay within its outputs:",
                1,
                usize::from(!self.accumulate),
            )?;
        }
        at_least("an output slice of at least", extent(computed, self.out_row, self.out_plane), self.out.len())?;
        let input = reached(computed, self.kernel_shape, self.in_row, self.in_plane);
        at_least("an input slice of at least", input, self.input.len())
    }
}

/// A tile that a kernel cannot run on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel} needs {what} {expected}, got {got}")]
pub struct Misfit {
    /// The kernel's name.
    pub kernel: &'static str,
    /// What does not fit.
    pub what: &'static str,
    /// What the kernel needs there.
    pub expected: usize,
    /// What the tile has there.
    pub got: usize,
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelOp {
    /// `out[z, y, x] = sum_{dz, i, j} in[z + dz, y + i, x + j] · t[dz, i, j]`: nothing is flipped.
    Correlate,
    /// `out[z, y, x] = sum_{dz, i, j} w[dz, i, j] · |in[z + dz, y + i, x + j] - t[dz, i, j]|`
    AbsDiff,
}

/// The template widths a kernel serves, and the shape of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Widths {
    /// Every width, by blocks of several rows.
    Any,
    /// Every width, one output row at a time.
    AnyLine,
    /// This width, by blocks of several rows.
    Row(usize),
    /// This width, one output row at a time.
    Line(usize),
}

/// A kernel's function. To call it, the processor must have the instruction set that it was compiled for.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    F32(unsafe fn(&mut Tile<'_, f32>)),
    F64(unsafe fn(&mut Tile<'_, f64>)),
    U8(unsafe fn(&mut ByteTile<'_>)),
}

/// A row of the table of kernels. Only `table.rs` makes them, and `isa` there is what its function was compiled for.
pub struct Kernel {
    /// The kernel's one name: `corr_f32_w7_avx512`.
    pub name: &'static str,
    /// What it computes.
    pub op: KernelOp,
    /// The type of its input, template and output, and of its accumulators; bytes are added up in `i32` and come out as
    /// `f32`.
    pub dtype: DType,
    /// The template widths it serves.
    pub width: Widths,
    /// The instruction set it was compiled for.
    pub isa: Isa,
    /// Rows of its block: heights are rounded up to them.
    pub block_rows: usize,
    /// Columns of its narrowest block: widths are rounded up to them.
    pub lanes: usize,
    pub(crate) function: Function,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Kernel {
    /// The outputs that it computes for `out_shape`: rows and columns rounded up.
    pub fn rounded(&self, out_shape: [usize; 3]) -> [usize; 3] {
        let [depth, height, width] = out_shape;
        let up = |n: usize, to: usize| n.checked_next_multiple_of(to).unwrap_or(usize::MAX);
        [depth, up(height, self.block_rows), up(width, self.lanes)]
    }
}

/// From the first to the last sample under a box of outputs.
pub(crate) fn reached(out: [usize; 3], kernel_shape: [usize; 3], in_row: usize, in_plane: usize) -> usize {
    if out.contains(&0) {
        return 0;
    }
    extent([0, 1, 2].map(|axis| out[axis].saturating_add(kernel_shape[axis]).saturating_sub(1)), in_row, in_plane)
}

/// From the first to the last element of a box, both counted.
pub(crate) fn extent(shape: [usize; 3], row: usize, plane: usize) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    let [depth, height, width] = shape;
    (depth - 1).saturating_mul(plane).saturating_add((height - 1).saturating_mul(row)).saturating_add(width)
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A type that kernels compute in: `f32` or `f64`.
pub trait Float: flcc_core::dtype::Pixel + sealed::Sealed {
    #[doc(hidden)]
    fn function(kernel: &Kernel) -> Option<unsafe fn(&mut Tile<'_, Self>)>;
}

macro_rules! float {
    ($float:ty, $variant:ident) => {
        impl Float for $float {
            fn function(kernel: &Kernel) -> Option<unsafe fn(&mut Tile<'_, $float>)> {
                match kernel.function {
                    Function::$variant(function) => Some(function),
                    _ => None,
                }
            }
        }
    };
}

float!(f32, F32);
float!(f64, F64);

/// A kernel this processor can run: holding one is the proof.
#[derive(Clone, Copy, Debug)]
pub struct Bound<T: Float> {
    kernel: &'static Kernel,
    function: unsafe fn(&mut Tile<'_, T>),
}

impl<T: Float> Bound<T> {
    /// Binds `kernel`, if `isas` allow its instruction set, the processor has it, and it computes in `T`.
    pub fn new(kernel: &'static Kernel, isas: &IsaSet) -> Option<Bound<T>> {
        if !isas.has(kernel.isa) || !detected(kernel.isa) {
            return None;
        }
        Some(Bound { kernel, function: T::function(kernel)? })
    }

    /// The kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    /// Computes the tile.
    ///
    /// # Panics
    ///
    /// If the tile does not fit the kernel, with the message of [`Tile::check`].
    pub fn run(&self, tile: &mut Tile<'_, T>) {
        if let Err(misfit) = tile.check(self.kernel) {
            panic!("{misfit}");
        }
        if tile.out_shape.contains(&0) {
            return;
        }
        // SAFETY: the function is safe but for the instruction set it was compiled for, which the table says is
        // `kernel.isa` (the macro emits both from one word), and `Bound::new` asked the processor for that.
        unsafe { (self.function)(tile) }
    }
}

/// A kernel of bytes that this processor can run: holding one is the proof.
#[derive(Clone, Copy, Debug)]
pub struct BoundBytes {
    kernel: &'static Kernel,
    function: unsafe fn(&mut ByteTile<'_>),
}

impl BoundBytes {
    /// Binds `kernel`, if `isas` allow its instruction set, the processor has it, and it computes bytes.
    pub fn new(kernel: &'static Kernel, isas: &IsaSet) -> Option<BoundBytes> {
        match kernel.function {
            Function::U8(function) if isas.has(kernel.isa) && detected(kernel.isa) => {
                Some(BoundBytes { kernel, function })
            }
            _ => None,
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    /// Computes the tile.
    ///
    /// # Panics
    ///
    /// If the tile does not fit the kernel, with the message of [`ByteTile::check`].
    pub fn run(&self, tile: &mut ByteTile<'_>) {
        if let Err(misfit) = tile.check(self.kernel) {
            panic!("{misfit}");
        }
        if tile.out_shape.contains(&0) {
            return;
        }
        // SAFETY: as for kernels of floats: safe but for the instruction set, for which `BoundBytes::new` asked the
        // processor.
        unsafe { (self.function)(tile) }
    }
}
