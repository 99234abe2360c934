//! Threads: indices shared by workers, and memory copied by several. The only file that names rayon.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flcc_core::error::ExecError;

use crate::run::execute::{CancelToken, Control, Statistics};

/// Hands out `total` indices to the workers until all are done: neighbours together, which share samples and lines of
/// results, and fewer at a time towards the end, so that all workers end together.
pub(crate) fn run<S: Send>(
    workers: &mut [S],
    total: usize,
    control: &Control<'_>,
    work: impl Fn(usize, &mut S) -> Statistics + Sync,
) -> Result<Statistics, ExecError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cancelled = || control.cancel.is_some_and(CancelToken::is_cancelled);
    let busy = workers.len().min(total);
    let after = |next: usize| next + ((total - next) / (2 * busy)).max(1);
    let share = |worker: &mut S| {
        let mut statistics = Statistics::default();
        while let Ok(begin) =
            next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| (next < total).then(|| after(next)))
        {
            for index in begin..after(begin) {
                if cancelled() {
                    return statistics;
                }
                statistics.add(work(index, worker));
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(progress) = control.progress {
                    progress(done, total);
                }
            }
        }
        statistics
    };
    let statistics = match &mut workers[..busy] {
        [] => Statistics::default(),
        [only] => share(only),
        several => {
            let sum = Mutex::new(Statistics::default());
            pool(several.len()).scope(|scope| {
                for worker in several {
                    scope.spawn(|_| {
                        let mine = share(worker);
                        sum.lock().unwrap_or_else(PoisonError::into_inner).add(mine);
                    });
                }
            });
            sum.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    };
    let done = done.into_inner();
    if done < total { Err(ExecError::Cancelled { done, total }) } else { Ok(statistics) }
}

/// Bytes that a thread copies at a time; fewer are not worth a second thread.
#[cfg(feature = "cuda")]
const COPIED_AT_ONCE: usize = 1 << 20;
/// Threads that copy at most: more than that many do not make memory faster.
#[cfg(feature = "cuda")]
const COPIERS: usize = 8;

/// Copies bytes to as many, by several threads where there are many.
#[cfg(feature = "cuda")]
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    use rayon::prelude::*;

    if from.len() <= COPIED_AT_ONCE {
        return to.copy_from_slice(from);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COPIERS);
    let parts = to.par_chunks_mut(COPIED_AT_ONCE).zip(from.par_chunks(COPIED_AT_ONCE));
    pool(threads).install(|| parts.for_each(|(to, from)| to.copy_from_slice(from)));
}

/// One persistent pool for each number of threads asked for. A process that was forked has none of its parent's
/// threads, so that it gets pools of its own.
fn pool(threads: usize) -> Arc<rayon::ThreadPool> {
    /// Pools by process and number of threads.
    type Pools = HashMap<(u32, usize), Arc<rayon::ThreadPool>>;
    static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
    let mut pools = POOLS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let build = |threads: usize| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("flcc-{index}")).build()
    };
    // A system that is out of threads still has the one that asks.
    let made = pools.entry((std::process::id(), threads)).or_insert_with(|| {
        Arc::new(
            build(threads)
                .or_else(|_| rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build())
                .expect("a pool of the current thread"),
        )
    });
    Arc::clone(made)
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn many_threads_copy_every_byte() {
        for len in [0, 1, COPIED_AT_ONCE, COPIED_AT_ONCE + 1, 5 * COPIED_AT_ONCE - 3] {
            let from: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut to = vec![255; len];
            copy(&from, &mut to);
            assert!(from == to, "{len}");
        }
    }
}
