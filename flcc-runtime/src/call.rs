//! What a user calls: single results, images with masks, streams, pairs. No room here names a platform or a method.

pub mod masked;
pub mod oneshot;
mod overlay;
pub mod pairs;
pub mod peaks;
pub mod poses;
pub mod stream;
