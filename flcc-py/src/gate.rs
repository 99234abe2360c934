//! What no fork interrupts.
//!
//! Plans of a process share locks, and a child has none of the threads that held one when it was forked: a fork waits
//! until nobody plans.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Who plans, and who waits until nobody does.
struct Gate {
    planning: usize,
    forking: usize,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { planning: 0, forking: 0 });
static CHANGED: Condvar = Condvar::new();
/// How many forks lie between this process and the first.
static FORKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The gate, closed while this thread forks.
    static CLOSED: RefCell<Option<MutexGuard<'static, Gate>>> = const { RefCell::new(None) };
}

fn gate() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between this process and the first.
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// What no fork interrupts: plans are made in it. To be called without the interpreter.
pub fn planning<R>(work: impl FnOnce() -> R) -> R {
    struct Inside;

    impl Drop for Inside {
        fn drop(&mut self) {
            gate().planning -= 1;
            CHANGED.notify_all();
        }
    }

    let open = CHANGED.wait_while(gate(), |gate| gate.forking > 0);
    open.unwrap_or_else(PoisonError::into_inner).planning += 1;
    let _inside = Inside;
    work()
}

/// Closes the gate until it is opened, when nobody is in it. To be called without the interpreter.
pub fn close() {
    let mut open = gate();
    open.forking += 1;
    let mut closed = CHANGED.wait_while(open, |gate| gate.planning > 0).unwrap_or_else(PoisonError::into_inner);
    closed.forking -= 1;
    CLOSED.set(Some(closed));
}

/// Opens it in the parent.
pub fn open() {
    CLOSED.set(None);
    CHANGED.notify_all();
}

/// Opens it in the child, where no other thread waits.
pub fn open_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    if let Some(mut gate) = CLOSED.take() {
        *gate = Gate { planning: 0, forking: 0 };
    }
}
