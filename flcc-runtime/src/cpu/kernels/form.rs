//! How kernels of bytes take templates, and whether a tile is what a kernel may run on.

use crate::cpu::kernels::amx::plot::Plot;
use crate::cpu::kernels::kernel::{Kernel, Misfit, extent};
use crate::cpu::kernels::operands::{ByteTile, GROUP};
use crate::isa::Isa;

impl ByteTile<'_> {
    /// The least length of the input.
    pub fn in_len(&self, kernel: &Kernel) -> usize {
        if self.out_shape.contains(&0) {
            return 0;
        }
        let [depth, height, width] = kernel.rounded(self.out_shape);
        let rows = |outputs: usize, axis: usize| outputs.saturating_add(self.kernel_shape[axis]).saturating_sub(1);
        let reach = Form::of(kernel, self.kernel_shape).reach(width);
        extent([rows(depth, 0), rows(height, 1), reach / GROUP], self.in_row, self.in_plane)
    }

    /// Whether `kernel` may run on this tile.
    ///
    /// # Errors
    ///
    /// Names the first thing that does not fit, with what was expected and what is there.
    pub fn check(&self, kernel: &Kernel) -> Result<(), Misfit> {
        let misfit = |what, expected: usize, got: usize| Err(Misfit { kernel: kernel.name, what, expected, got });
        let at_least =
            |what, expected: usize, got: usize| if got < expected { misfit(what, expected, got) } else { Ok(()) };
        for side in self.kernel_shape {
            at_least("a side of the template of at least", 1, side)?;
        }
        let form = Form::of(kernel, self.kernel_shape);
        let groups = form.groups();
        if self.template.len() != groups {
            misfit("as many groups of taps as its shape has,", groups, self.template.len())?;
        }
        at_least("room of at least", form.room(self.out_shape), self.room.len())?;
        let [out_depth, out_height, out_width] = self.out_shape;
        if out_height > 1 {
            at_least("an output row pitch of at least the width,", out_width, self.out_row)?;
        }
        if out_depth > 1 {
            let rows = extent([1, out_height, out_width], self.out_row, 0);
            at_least("an output plane pitch of at least its rows,", rows, self.out_plane)?;
        }
        at_least("an output slice of at least", extent(self.out_shape, self.out_row, self.out_plane), self.out.len())?;
        at_least("an input slice of at least", self.in_len(kernel), self.input.len())
    }
}

/// How a kernel takes templates of one shape.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Row by row in groups, with zeros after the last tap of a row.
    Rows([usize; 3]),
    /// For products of tiles.
    Tiles(Plot),
}

impl Form {
    /// The form that a kernel wants its bytes in.
    pub fn of(kernel: &Kernel, shape: [usize; 3]) -> Form {
        if kernel.isa == Isa::Amx { Form::Tiles(Plot::new(shape)) } else { Form::Rows(shape) }
    }

    /// Groups of a template.
    pub fn groups(&self) -> usize {
        match self {
            Form::Rows([depth, height, width]) => depth.saturating_mul(*height).saturating_mul(width.div_ceil(GROUP)),
            Form::Tiles(plot) => plot.groups(),
        }
    }

    /// Bytes that are read of a row of samples for so many outputs, whole blocks.
    pub(crate) fn reach(&self, width: usize) -> usize {
        match self {
            // The loads of the last group reach three bytes further than their quads.
            Form::Rows([_, _, taps]) => (width / GROUP).saturating_add(taps.div_ceil(GROUP)).saturating_mul(GROUP),
            Form::Tiles(plot) => plot.reach(width),
        }
    }

    /// Bytes that a kernel needs beside the samples, for a tile of such outputs.
    pub fn room(&self, out: [usize; 3]) -> usize {
        match self {
            Form::Rows(_) => 0,
            Form::Tiles(plot) => plot.room(out),
        }
    }
}
