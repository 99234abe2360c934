//! The ways to make scores, each a file of its own, and which of them a tile takes.

pub mod cross;
pub mod rows;
pub mod vectors;

use flcc_core::spec::Spec;

use crate::cpu::real::Real;
use crate::cpu::score::Score;
use crate::isa::IsaSet;
use crate::problem::scheme::Scheme;

/// How tiles are scored, by what is known before any pixel: in the first way that takes them, the last of which takes
/// all. Rows of cross terms lie `row` apart; `bytes` says that these are sums of bytes.
pub fn of<T: Real>(spec: &Spec, scheme: &Scheme, isas: &IsaSet, row: usize, bytes: bool) -> Box<dyn Score<T>> {
    cross::of(spec, scheme)
        .or_else(|| vectors::of(spec, scheme, isas, row, bytes))
        .unwrap_or_else(|| Box::new(rows::Rows))
}
