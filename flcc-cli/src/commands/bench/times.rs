//! Times of runs: taken for as long as a budget says, in order.

use std::time::{Duration, Instant};

/// Runs timed at most.
const RUNS: usize = 100_000;

/// What a device took for the kernels of a call.
pub struct Kernels {
    /// Nanoseconds of a run, batch by batch, in order.
    pub times: Vec<u64>,
    /// Runs of a batch.
    pub runs: usize,
    /// Copies of the image, with results of their own, that took turns.
    pub sets: usize,
    /// Whether the device never waited for the host within a batch.
    pub queued: bool,
}

impl Kernels {
    /// The median, the least and the most.
    pub fn spread_ns(&self) -> [u64; 3] {
        [self.times[self.times.len() / 2], self.times[0], self.times[self.times.len() - 1]]
    }
}

/// What `one` says of runs, which are numbered from 0 on, in order: at least one.
///
/// # Errors
/// What a run fails with.
pub fn repeated<E>(budget: Duration, mut one: impl FnMut(usize) -> Result<u64, E>) -> Result<Vec<u64>, E> {
    let (mut times, began) = (Vec::new(), Instant::now());
    while times.is_empty() || (began.elapsed() < budget && times.len() < RUNS) {
        times.push(one(times.len())?);
    }
    times.sort_unstable();
    Ok(times)
}

/// A time as a number.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
