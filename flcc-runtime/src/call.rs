//! What a user calls: single results, streams, pairs, peaks. No room here names a platform or a method.

pub mod oneshot;
pub mod pairs;
pub(crate) mod search;
pub mod stream;
