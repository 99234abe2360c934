//! Which memory the calls of this process read and write now.
//!
//! A call claims the elements of each array that it was given. What one call writes no other reads or writes. A view of
//! an array with gaps spans elements that are not its own: no call writes to these either while another looks.
//!
//! The register is locked by threads that are attached to the interpreter alone, and never while Python is called: no
//! other thread has it when a process is forked.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;

/// All claims there are.
static CLAIMS: Mutex<Register> = Mutex::new(Register { last: 0, entries: Vec::new() });

struct Register {
    /// The last number that was given to a call or a claim.
    last: u64,
    entries: Vec<Entry>,
}

struct Entry {
    number: u64,
    call: u64,
    array: Py<PyUntypedArray>,
    addresses: Range<usize>,
    writes: bool,
    /// Whether its view spans memory between its elements.
    gaps: bool,
}

fn register() -> MutexGuard<'static, Register> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Register {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Forgets all claims: those of calls that ran where this process was forked.
pub fn forget() {
    let forgotten = std::mem::take(&mut register().entries);
    drop(forgotten);
}

fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

/// One call, whose own claims do not stand in each other's way.
#[derive(Clone, Copy)]
pub struct Call(u64);

impl Call {
    /// A call that begins now.
    pub fn new() -> Call {
        Call(register().next())
    }

    /// Whether this call reads where it lies an array that reaches into this memory.
    pub fn reads(self, addresses: &Range<usize>) -> bool {
        register().entries.iter().any(|own| own.call == self.0 && !own.writes && meet(&own.addresses, addresses))
    }
}

/// What stands in a claim's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Elements of it.
    Elements,
    /// Memory between its elements, or it lies between those of another array.
    Between,
}

/// The elements of an array, claimed until this is dropped.
pub struct Claim(u64);

impl Claim {
    /// Claims the elements of an array, and with `gaps` what lies between them, for reading.
    pub fn read(
        call: Call,
        array: &Bound<'_, PyUntypedArray>,
        addresses: Range<usize>,
        gaps: bool,
    ) -> PyResult<Result<Claim, Taken>> {
        Claim::new(
            Entry { number: 0, call: call.0, array: array.clone().unbind(), addresses, writes: false, gaps },
            array,
        )
    }

    /// Claims the elements of an array for writing.
    pub fn write(
        call: Call,
        array: &Bound<'_, PyUntypedArray>,
        addresses: Range<usize>,
    ) -> PyResult<Result<Claim, Taken>> {
        let (number, gaps) = (0, false);
        Claim::new(Entry { number, call: call.0, array: array.clone().unbind(), addresses, writes: true, gaps }, array)
    }

    fn new(mut entry: Entry, array: &Bound<'_, PyUntypedArray>) -> PyResult<Result<Claim, Taken>> {
        let py = array.py();
        let mut seen = 0;
        loop {
            let mut register = register();
            let in_the_way = |other: &&Entry| {
                other.number > seen && (entry.writes || other.writes) && meet(&entry.addresses, &other.addresses)
            };
            let others: Vec<(u64, Py<PyUntypedArray>, bool)> = register
                .entries
                .iter()
                .filter(in_the_way)
                .map(|other| (other.call, other.array.clone_ref(py), other.gaps))
                .collect();
            if others.is_empty() {
                entry.number = register.next();
                let claim = Claim(entry.number);
                register.entries.push(entry);
                return Ok(Ok(claim));
            }
            // Others that come while Python is asked have larger numbers.
            seen = register.last;
            drop(register);
            let mut between = false;
            for (call, other, gaps) in others {
                if call != entry.call && share(array, other.bind(py))? {
                    return Ok(Err(Taken::Elements));
                }
                // Of its own arguments a call reads nothing any more when it writes what it has computed elsewhere.
                between |= entry.gaps || gaps && call != entry.call;
            }
            if between {
                return Ok(Err(Taken::Between));
            }
        }
    }
}

/// Whether two arrays have a byte in common; where that is too hard to say, they have.
fn share(a: &Bound<'_, PyUntypedArray>, b: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    /// Some milliseconds at most; a few hundred steps are enough for arrays of three axes.
    const MOST_WORK: usize = 100_000;
    let py = a.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    Ok(numpy
        .call_method1(intern!(py, "shares_memory"), (a, b, MOST_WORK))
        .and_then(|shared| shared.extract::<bool>())
        .unwrap_or(true))
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut register = register();
        let at = register.entries.iter().position(|entry| entry.number == self.0);
        let entry = at.map(|at| register.entries.swap_remove(at));
        // Who drops an array may call Python.
        drop(register);
        drop(entry);
    }
}
