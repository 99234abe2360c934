//! Threads: indices shared by workers, and memory copied by several. The only file that names rayon.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

use flcc_core::error::ExecError;

use crate::run::execute::{CancelToken, Control, Statistics};

/// Hands out `total` indices to the workers until all are done: neighbours together, which share samples and lines of
/// results, and fewer at a time towards the end, so that all workers end together. Those that have none left do what
/// `control` has beside.
pub(crate) fn run<S: Send>(
    workers: &mut [S],
    total: usize,
    control: &Control<'_>,
    work: impl Fn(usize, &mut S) -> Statistics + Sync,
) -> Result<Statistics, ExecError> {
    run_in(pool, workers, total, control, work)
}

/// [`run`] with the threads of `pool`, which says what there is for a number of them beside the one that asks.
fn run_in<S: Send>(
    pool: impl FnOnce(usize) -> Option<Arc<ThreadPool>>,
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
        control.beside.finish();
        statistics
    };
    let statistics = match &mut workers[..busy] {
        [] => Statistics::default(),
        [only] => share(only),
        // The thread that asks is one of them: it begins at once, and does the shares of those that are late.
        [own, others @ ..] => match pool(others.len()) {
            Some(pool) => {
                let sum = Mutex::new(Statistics::default());
                let add = |mine| sum.lock().unwrap_or_else(PoisonError::into_inner).add(mine);
                pool.in_place_scope(|scope| {
                    for worker in others {
                        scope.spawn(|_| add(share(worker)));
                    }
                    add(share(own));
                });
                sum.into_inner().unwrap_or_else(PoisonError::into_inner)
            }
            None => share(own),
        },
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
    match pool(threads) {
        Some(pool) => {
            let parts = to.par_chunks_mut(COPIED_AT_ONCE).zip(from.par_chunks(COPIED_AT_ONCE));
            pool.install(|| parts.for_each(|(to, from)| to.copy_from_slice(from)));
        }
        None => to.copy_from_slice(from),
    }
}

/// Pools by their numbers of threads.
type Pools = BTreeMap<usize, Arc<ThreadPool>>;

/// The pools of one process.
struct Own {
    /// The process's number; 0 of nobody.
    process: AtomicU32,
    pools: Mutex<Pools>,
}

/// A process that was forked has none of its parent's threads, and a lock that one of them held stays locked in it:
/// each process has pools of its own behind a lock of its own. So many, one forked by the other, keep theirs.
static OWN: [Own; 64] = [const { Own { process: AtomicU32::new(0), pools: Mutex::new(BTreeMap::new()) } }; 64];

/// One persistent pool for each number of threads asked for; none where the system has no threads left.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    match pools_of(&OWN, std::process::id()) {
        Some(pools) => kept(pools, threads, build),
        None => build(threads),
    }
}

fn build(threads: usize) -> Option<Arc<ThreadPool>> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("flcc-{index}"));
    builder.build().ok().map(Arc::new)
}

/// The place of a process: its own, or the first that is nobody's.
fn pools_of(all: &[Own], process: u32) -> Option<&Mutex<Pools>> {
    let is_own = |own: &&Own| {
        let taken = own.process.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
        taken.map_or_else(|owner| owner == process, |_| true)
    };
    all.iter().find(is_own).map(|own| &own.pools)
}

/// The pool that is kept for a number of threads, or a new one; what was not built is tried again the next time.
fn kept(
    pools: &Mutex<Pools>,
    threads: usize,
    build: impl FnOnce(usize) -> Option<Arc<ThreadPool>>,
) -> Option<Arc<ThreadPool>> {
    let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Some(Arc::clone(pool));
    }
    let pool = build(threads)?;
    pools.insert(threads, Arc::clone(&pool));
    Some(pool)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Threads that the system does not have.
    fn without_threads(_: usize) -> Option<Arc<ThreadPool>> {
        None
    }

    #[test]
    fn a_system_without_threads_computes_with_those_that_ask() {
        let pools = Mutex::default();
        let control = Control::default();
        let work = |index: usize, worker: &mut Vec<usize>| {
            worker.push(index);
            Statistics { tiles: 1, ..Statistics::default() }
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut workers = vec![Vec::new(); 4];
                    let none = |threads| kept(&pools, threads, without_threads);
                    let statistics = run_in(none, &mut workers, 100, &control, work).unwrap();
                    assert_eq!(statistics.tiles, 100);
                    assert_eq!(workers[0], (0..100).collect::<Vec<_>>());
                });
            }
        });
        assert!(pools.lock().unwrap().is_empty());
        // As soon as there are threads, they are taken and kept.
        let pool = kept(&pools, 2, build).unwrap();
        assert!(Arc::ptr_eq(&kept(&pools, 2, without_threads).unwrap(), &pool));
    }

    #[test]
    fn each_process_has_pools_of_its_own() {
        let all: [Own; 2] = std::array::from_fn(|_| Own { process: AtomicU32::new(0), pools: Mutex::default() });
        let (parent, child) = (pools_of(&all, 7).unwrap(), pools_of(&all, 8).unwrap());
        assert!(!std::ptr::eq(parent, child));
        // A lock that the parent holds is none of the child's.
        let _held = parent.lock().unwrap();
        assert!(std::ptr::eq(pools_of(&all, 8).unwrap(), child) && child.try_lock().is_ok());
        assert!(pools_of(&all, 9).is_none());
    }

    #[cfg(feature = "cuda")]
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
