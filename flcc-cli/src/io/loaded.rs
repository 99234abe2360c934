//! An image in memory, and how large one may be.

use flcc_core::dtype::Pixels;
use flcc_runtime::rooms::free;

use super::error::IoError;

/// The largest decoded size of a compressed image, over all its pages: 4 GiB. A `.npy` array is as large as its file.
pub const MAX_DECODED_BYTES: u64 = 4 << 30;

/// What decoding may multiply a file's size by: deflate reaches 1032, on pixels of one bit that become four bytes.
pub const MAX_EXPANSION: u64 = 1 << 16;

/// An image as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The length of each axis, slowest first, without the channels: 1 to 3 axes.
    pub shape: Vec<usize>,
    /// Samples of one pixel: 1, or 3 (red, green, blue) of a colour raster, the channel fastest.
    pub channels: usize,
    /// The samples, in C order.
    pub pixels: Pixels,
    /// What was left out or changed on the way, a phrase each: `alpha dropped`.
    pub notes: Vec<String>,
}

/// Refuses what would not fit before anything of that size is allocated: `count` samples of `size` bytes.
pub fn check_memory(name: &str, count: usize, size: usize) -> Result<(), IoError> {
    let available =
        |bytes: usize| bytes as f64 <= free::available() && Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    let fits = count.checked_mul(size).is_some_and(available);
    match fits {
        true => Ok(()),
        false => Err(IoError::TooLarge {
            name: name.into(),
            limit: "the memory".into(),
            got: format!("{count} samples, bytes of each: {size}"),
        }),
    }
}
