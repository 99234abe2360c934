//! What kernels of bytes work on. The checks of it stand with the forms of templates, in form.rs.

/// Taps of which each group of products takes as many.
pub(crate) const GROUP: usize = 4;

/// One padded tile of a valid correlation of bytes. All pitches are in elements, axes go depth, height, width.
///
/// A kernel reads past what belongs to `out_shape`: heights are rounded up to `Kernel::block_rows`, widths to
/// `Kernel::lanes`; [`ByteTile::in_len`] says how long the input is. What lies there does not matter. It writes
/// `out_shape` and nothing else.
#[derive(Debug)]
pub struct ByteTile<'a> {
    /// The input, each sample less 128; `in[z, y, x]` is byte `x % 4` of `input[z * in_plane + y * in_row + x / 4]`.
    pub input: &'a [[i8; GROUP]],
    /// From one input row to the next.
    pub in_row: usize,
    /// From one input plane to the next.
    pub in_plane: usize,
    /// The template as the kernel takes it.
    pub template: &'a [[u8; GROUP]],
    /// Room for what a kernel makes of the input first, `Form::room` long.
    pub room: &'a mut [i8],
    /// What every output begins with.
    pub bias: i32,
    /// Depth, height and width of the template, in taps; ones in front for fewer axes.
    pub kernel_shape: [usize; 3],
    /// The output; `out[z, y, x]` is `out[z * out_plane + y * out_row + x]`.
    pub out: &'a mut [f32],
    /// Whether the output takes the bits of the sums, which are `i32`, and not their values, rounded once.
    pub bits: bool,
    /// From one output row to the next.
    pub out_row: usize,
    /// From one output plane to the next.
    pub out_plane: usize,
    /// Depth, height and width of the output; ones in front for fewer axes.
    pub out_shape: [usize; 3],
}

impl ByteTile<'_> {
    /// Groups of a template row, where a kernel takes the rows of it.
    #[inline(always)]
    pub fn groups(&self) -> usize {
        self.kernel_shape[2].div_ceil(GROUP)
    }
}
