//! Generated CUDA sources of FLCC, as data: a name gives a source text and what launches it. No code runs here.
//!
//! The crate flcc-codegen renders all of it but this file and entry.rs; `cargo xtask gen` writes it.
#![forbid(unsafe_code)]

mod entry;
mod registry;

pub use entry::Entry;

/// The source of the kernels around a cross term: samples, window sums, scores. It includes nothing; options of its compilation
/// choose types, boundary and measure.
pub const PIPELINE: &str = include_str!("../cuda/pipeline.cu");

/// What follows the source of a listed correlation in floats, and brings it a kernel from the image to the result.
pub const STRAIGHT: &str = include_str!("../cuda/straight.cu");

/// The source of the kernels that find peaks in results where they lie; an option chooses the type of scores.
pub const PEAKS: &str = include_str!("../cuda/peaks.cu");

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
