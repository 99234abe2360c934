//! Generated CUDA sources of FLCC, as data: a name gives a source text and what launches it. No code runs here.
//!
//! The crate flcc-codegen renders all of it but this file; `cargo xtask gen` writes it.
#![forbid(unsafe_code)]

mod registry;

/// One kernel: its source and the numbers a launch needs. Sizes are slowest axis first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its one name, which is its function's name too.
    pub name: &'static str,
    /// Its CUDA C++ source, whole: it includes nothing.
    pub source: &'static str,
    /// The operation's word.
    pub op: &'static str,
    /// The pixel type of image and template by its name.
    pub dtype: &'static str,
    /// Height and width of its template; `None`: an argument of the kernel.
    pub size: Option<[usize; 2]>,
    /// Outputs of one block: rows, columns.
    pub tile: [usize; 2],
    /// Threads of one block: rows (y), columns (x).
    pub block: [usize; 2],
    /// Elements between the rows of the template in the module's `flcc_taps`, filled up with zeros; `None` where the template
    /// is an argument of the kernel.
    pub taps_stride: Option<usize>,
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

/// The source text of a kernel.
pub fn source(name: &str) -> Option<&'static str> {
    kernel(name).map(|entry| entry.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found_by_its_name() {
        assert!(kernels().windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each name once");
        for entry in kernels() {
            assert_eq!(kernel(entry.name), Some(entry));
            assert_eq!(source(entry.name), Some(entry.source));
            assert!(entry.source.contains(&format!(" {}(", entry.name)));
        }
        assert_eq!(source("corr_f32_7x7"), None);
    }

    #[test]
    fn a_name_says_what_its_row_says() {
        for entry in kernels() {
            let size = entry.size.map_or("any".into(), |[height, width]| format!("{height}x{width}"));
            let [y, x] = entry.block;
            assert_eq!(entry.name, format!("{}_{}_{size}_b{x}x{y}", entry.op, entry.dtype));
        }
    }
}
