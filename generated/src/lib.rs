//! Generated CUDA sources of FLCC, as data: a name gives a source text and what launches it. No code runs here.
//!
//! The crate flcc-codegen renders all of it but this file; `cargo xtask gen` writes it.
#![forbid(unsafe_code)]

mod registry;

/// One kernel: its source and the numbers a launch needs. Sizes are slowest axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its one name.
    pub name: &'static str,
    /// The name of its function.
    pub function: &'static str,
    /// Its CUDA C++ source: these texts one after another. They include nothing.
    pub sources: &'static [&'static str],
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
    /// Its source, whole.
    pub fn source(&self) -> String {
        self.sources.concat()
    }

    /// Depth, height and width of its template, ones in front; `None`: any.
    pub fn size(&self) -> Option<[usize; 3]> {
        let mut size = [1; 3];
        size[3 - self.sides.len()..].copy_from_slice(self.sides);
        (!self.sides.is_empty()).then_some(size)
    }
}

/// The source of the kernels around a cross term: samples, window sums, scores. It includes nothing; options of its compilation
/// choose types, boundary and measure.
pub const PIPELINE: &str = include_str!("../cuda/pipeline.cu");

/// Every kernel, sorted by name.
pub fn kernels() -> &'static [Entry] {
    registry::KERNELS
}

/// The kernel of a name.
pub fn kernel(name: &str) -> Option<&'static Entry> {
    kernels().binary_search_by(|entry| entry.name.cmp(name)).ok().map(|at| &kernels()[at])
}

/// The kernel made for one template size (depth, height, width, ones in front), if it is listed.
pub fn listed(op: &str, dtype: &str, size: [usize; 3]) -> Option<&'static Entry> {
    kernels().iter().find(|entry| entry.op == op && entry.dtype == dtype && entry.size() == Some(size))
}

/// The kernel for templates of any size; `flat`: the one with tiles of one row, for images of one row.
pub fn generic(op: &str, dtype: &str, flat: bool) -> Option<&'static Entry> {
    kernels()
        .iter()
        .find(|entry| entry.op == op && entry.dtype == dtype && entry.sides.is_empty() && (entry.tile[0] == 1) == flat)
}

/// The source text of a kernel.
pub fn source(name: &str) -> Option<String> {
    kernel(name).map(Entry::source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found_by_its_name() {
        assert!(kernels().windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each name once");
        for entry in kernels() {
            assert_eq!(kernel(entry.name), Some(entry));
            assert_eq!(source(entry.name), Some(entry.source()));
            assert!(entry.source().contains(&format!(" {}(", entry.function)));
        }
        assert_eq!(source("corr_f32_7x7"), None);
    }

    #[test]
    fn a_name_says_what_its_row_says() {
        for entry in kernels() {
            let sides: Vec<String> = entry.sides.iter().map(usize::to_string).collect();
            let size = if sides.is_empty() { "any".into() } else { sides.join("x") };
            let [y, x] = entry.block;
            assert_eq!(entry.name, format!("{}_{}_{size}_b{x}x{y}", entry.op, entry.dtype));
        }
    }

    #[test]
    fn a_size_finds_its_kernel() {
        for entry in kernels() {
            let found = entry
                .size()
                .map_or(generic(entry.op, entry.dtype, entry.tile[0] == 1), |size| listed(entry.op, entry.dtype, size));
            assert_eq!(found, Some(entry));
        }
        assert_eq!(listed("corr", "f32", [1, 7, 9]), None);
        assert_eq!(generic("corr", "u16", false), None);
    }
}
