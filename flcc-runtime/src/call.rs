//! What a user calls: single results, streams, pairs. No room here names a platform or a method.

pub mod oneshot;
pub mod pairs;
pub mod stream;
