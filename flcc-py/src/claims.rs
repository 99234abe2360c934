//! Which memory the calls of this process read and write now.
//!
//! The borrows of rust-numpy know elements. A view of an array with gaps spans elements that are not its own, so that
//! spans are claimed too: what is written never overlaps what another call looks at.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// All claims there are.
static CLAIMS: Mutex<Claims> = Mutex::new(Claims { last: 0, spans: Vec::new() });

struct Claims {
    /// The number of the last claim.
    last: u64,
    spans: Vec<Span>,
}

struct Span {
    number: u64,
    addresses: Range<usize>,
    writes: bool,
}

/// A span of memory, claimed until this is dropped.
pub struct Claim(u64);

impl Claim {
    /// A span to read: there is none while another call writes a part of it.
    pub fn read(span: Range<usize>) -> Option<Claim> {
        Claim::new(span, false)
    }

    /// A span to write: there is none while another call reads or writes a part of it.
    pub fn write(span: Range<usize>) -> Option<Claim> {
        Claim::new(span, true)
    }

    fn new(addresses: Range<usize>, writes: bool) -> Option<Claim> {
        let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
        let meets = |other: &Range<usize>| addresses.start < other.end && other.start < addresses.end;
        if claims.spans.iter().any(|other| (writes || other.writes) && meets(&other.addresses)) {
            return None;
        }
        claims.last += 1;
        let number = claims.last;
        claims.spans.push(Span { number, addresses, writes });
        Some(Claim(number))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
        claims.spans.retain(|span| span.number != self.0);
    }
}
