//! Arrays of which parts are read where they lie, of any format that lets them be.

use std::ops::Range;
use std::path::Path;

use flcc_core::dtype::{DType, Pixels};

use super::error::IoError;
use super::slices::NpySlices;
use super::zarr::folder;
#[cfg(feature = "zarr")]
use super::zarr::read::ZarrSlices;

/// An array of which parts are read.
pub enum Source {
    /// A `.npy` file in C order.
    Npy(NpySlices),
    /// A zarr array.
    #[cfg(feature = "zarr")]
    Zarr(Box<ZarrSlices>),
}

/// The same call of each format.
macro_rules! each {
    ($source:expr, $slices:ident => $call:expr) => {
        match $source {
            Source::Npy($slices) => $call,
            #[cfg(feature = "zarr")]
            Source::Zarr($slices) => $call,
        }
    };
}

impl Source {
    /// Opens a `.npy` file in C order or a zarr array, if it is one.
    ///
    /// # Errors
    /// As [`load`](super::load), for these.
    pub fn open(path: &Path) -> Result<Option<Source>, IoError> {
        match folder::kind(path) {
            #[cfg(feature = "zarr")]
            Some(_) => ZarrSlices::open(path).map(|slices| Some(Source::Zarr(Box::new(slices)))),
            #[cfg(not(feature = "zarr"))]
            Some(_) => Err(folder::unsupported(path)),
            None => Ok(NpySlices::open(path)?.map(Source::Npy)),
        }
    }

    /// The length of each axis, slowest first.
    pub fn shape(&self) -> &[usize] {
        each!(self, slices => slices.shape())
    }

    /// The type of the samples as they are read.
    pub fn dtype(&self) -> DType {
        each!(self, slices => slices.dtype())
    }

    /// Bytes of all samples in memory.
    pub fn bytes(&self) -> f64 {
        each!(self, slices => slices.bytes())
    }

    /// What is to be told of the array, a phrase each.
    pub fn notes(&self) -> Vec<String> {
        each!(self, slices => slices.notes())
    }

    /// The samples of some slices along an axis, run behind run, in C order.
    ///
    /// # Errors
    /// [`IoError::Read`], [`IoError::Damaged`], [`IoError::TooLarge`].
    pub fn read(&self, axis: usize, runs: &[Range<usize>]) -> Result<Pixels, IoError> {
        each!(self, slices => slices.read(axis, runs))
    }

    /// What tells the array from others of its shape, as far as some pieces of it do.
    ///
    /// # Errors
    /// [`IoError::Read`].
    pub fn fingerprint(&self) -> Result<String, IoError> {
        each!(self, slices => slices.fingerprint())
    }
}
