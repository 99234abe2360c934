//! Zarr arrays: folders that hold what an array is and its chunks. What a folder is every build tells; what reads and
//! writes arrays is the feature `zarr`.

#[cfg(feature = "zarr")]
mod bounded;
pub mod folder;
#[cfg(feature = "zarr")]
pub mod read;
#[cfg(feature = "zarr")]
pub mod write;
