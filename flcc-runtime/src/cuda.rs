//! NVIDIA GPUs: generated kernels, compiled by NVRTC for the device when a plan is made.
//!
//! Everything needs the feature `cuda`, and nothing links to CUDA: libraries are looked for when a GPU is asked for,
//! and what is missing is a refusal that says so.

// Hidden modules are public for the crate's `rooms`, as private rooms are.
#[cfg(feature = "cuda")]
pub(crate) mod bound;
#[cfg(feature = "cuda")]
pub(crate) mod capability;
#[cfg(feature = "cuda")]
pub(crate) mod decisions;
#[cfg(feature = "cuda")]
pub(crate) mod direct;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod driver;
#[cfg(feature = "cuda")]
pub(crate) mod execute;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod fault;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod kernels;
#[cfg(feature = "cuda")]
pub(crate) mod laid;
#[cfg(feature = "cuda")]
pub(crate) mod large;
#[cfg(feature = "cuda")]
pub(crate) mod line;
#[cfg(feature = "cuda")]
pub(crate) mod method;
#[cfg(feature = "cuda")]
pub(crate) mod methods;
#[cfg(feature = "cuda")]
pub(crate) mod noise;
#[cfg(feature = "cuda")]
pub(crate) mod paired;
#[cfg(feature = "cuda")]
pub(crate) mod pairs;
pub(crate) mod platform;
#[cfg(feature = "cuda")]
pub(crate) mod reduction;
#[cfg(feature = "cuda")]
pub(crate) mod rooms;
#[cfg(feature = "cuda")]
pub(crate) mod schedule;
#[cfg(feature = "cuda")]
pub(crate) mod searcher;
#[cfg(feature = "cuda")]
pub(crate) mod separable;
#[cfg(feature = "cuda")]
pub(crate) mod slot;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod solver;
#[cfg(feature = "cuda")]
pub(crate) mod tensor;
#[cfg(feature = "cuda")]
pub(crate) mod tile;
#[cfg(feature = "cuda")]
pub(crate) mod transform;
#[cfg(feature = "cuda")]
pub(crate) mod types;
#[cfg(feature = "cuda")]
pub(crate) mod unit;
#[cfg(feature = "cuda")]
pub(crate) mod volume;
#[cfg(feature = "cuda")]
pub(crate) mod windows;
#[cfg(feature = "cuda")]
pub(crate) mod windows_of_planes;
#[cfg(feature = "cuda")]
pub(crate) mod windows_of_volumes;

#[cfg(feature = "cuda")]
pub use driver::buffer::lies_on;
#[cfg(feature = "cuda")]
pub use driver::launch::KeptContext;
pub use platform::with_devices;
