//! What a row of the table of kernels says.

/// One kernel: its source and the numbers a launch needs. Sizes are slowest axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its one name.
    pub name: &'static str,
    /// The name of its function.
    pub function: &'static str,
    /// Its CUDA C++ source: these texts one after another, each in paragraphs, most of which are also another kernel's.
    /// They include nothing.
    pub sources: &'static [&'static [&'static str]],
    /// The operation's word.
    pub op: &'static str,
    /// The type of samples and template by its name.
    pub dtype: &'static str,
    /// The C type of its results.
    pub out: &'static str,
    /// Its template's sides, one to three; empty: arguments of the kernel.
    pub sides: &'static [usize],
    /// Outputs of one block: rows, columns.
    pub tile: [usize; 2],
    /// Threads of one block: rows (y), columns (x).
    pub block: [usize; 2],
    /// Warps of a block of the kernel from the image to the result, where each takes samples on its own; 0: its blocks
    /// are `block`.
    pub warps: usize,
    /// Elements between the rows of the template in the module's `flcc_taps`, filled up with zeros; planes follow each other without
    /// a gap. `None` where the template is an argument of the kernel.
    pub taps_stride: Option<usize>,
    /// Bytes of dynamic shared memory of a block.
    pub shared: usize,
    /// Products that are added up before their sum goes on, those of a row in a kernel for a listed size; 0: all are, one after the other.
    pub run: usize,
    /// Rows of a plane whose sums make a subtotal; 0: all of a plane.
    pub rows: usize,
    /// A plane's sums make a subtotal.
    pub planes: bool,
    /// Rows and columns of taps that a kernel for any size holds at once. Where they hold the template's, it can be compiled with its
    /// sides as constants `FLCC_TD`, `FLCC_TH` and `FLCC_TW`.
    pub chunk: Option<[usize; 2]>,
}

impl Entry {
    /// What a row does not tell.
    pub(crate) const PLAIN: Entry = Entry {
        name: "",
        function: "",
        sources: &[],
        op: "",
        dtype: "",
        out: "",
        sides: &[],
        tile: [1, 1],
        block: [1, 1],
        warps: 0,
        taps_stride: None,
        shared: 0,
        run: 0,
        rows: 0,
        planes: false,
        chunk: None,
    };

    /// Its source, whole.
    pub fn source(&self) -> String {
        self.sources.concat().concat()
    }

    /// Depth, height and width of its template, ones in front; `None`: any.
    pub fn size(&self) -> Option<[usize; 3]> {
        let mut size = [1; 3];
        size[3 - self.sides.len()..].copy_from_slice(self.sides);
        (!self.sides.is_empty()).then_some(size)
    }
}
