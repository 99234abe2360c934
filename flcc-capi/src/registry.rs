//! Numbers that stand for what callers hold: none is ever followed as an address.
//!
//! A number is known from when something is made until it is destroyed, and is given out once. So a handle of garbage,
//! a copy of one and one that was destroyed are found or not found; no memory of theirs is looked at. What is in use by
//! another thread when it is destroyed lives until that thread is done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// The things of one kind.
pub(crate) struct Registry<T>(RwLock<BTreeMap<usize, T>>);

impl<T: Clone> Registry<T> {
    pub const fn new() -> Registry<T> {
        Registry(RwLock::new(BTreeMap::new()))
    }

    /// Keeps something; its number.
    pub fn keep(&self, thing: T) -> usize {
        let number = fresh();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, thing);
        number
    }

    /// What a number stands for.
    pub fn find(&self, number: usize) -> Option<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Gives something up.
    pub fn forget(&self, number: usize) -> Option<T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

/// A number that nothing had yet, of any kind: odd, so no address of anything that is aligned, and far from those that
/// memory holds by chance. 32 bits have half as many before they begin again.
fn fresh() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    // The product of odd numbers, which no other odd number gives.
    NEXT.fetch_add(2, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_not_found() {
        static THINGS: Registry<&str> = Registry::new();
        let (a, b) = (THINGS.keep("a"), THINGS.keep("b"));
        assert!(a != b && a % 2 == 1 && b % 2 == 1);
        assert_eq!((THINGS.find(a), THINGS.find(b), THINGS.find(a ^ 2)), (Some("a"), Some("b"), None));
        assert_eq!((THINGS.forget(a), THINGS.forget(a), THINGS.find(a)), (Some("a"), None, None));
    }
}
