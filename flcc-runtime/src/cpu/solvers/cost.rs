//! Estimated nanoseconds, measured once on one machine with AVX-512; only their ratios matter for the choice.

use flcc_core::dtype::DType;
use flcc_core::measure::Measure;

use crate::isa::{Isa, IsaSet};

/// Multiply-adds a nanosecond, by instruction set, in f32 (f64 has half).
pub fn multiply_adds(isas: &IsaSet, dtype: DType) -> f64 {
    let rates = [(Isa::Avx512, 80.0), (Isa::Avx2, 45.0)];
    let single = rates.into_iter().find(|(isa, _)| isas.has(*isa)).map_or(3.5, |(_, rate)| rate);
    if dtype == DType::F64 { single / 2.0 } else { single }
}

/// Multiply-adds a nanosecond of bytes, those with the zeros that fill groups and blocks counted.
pub const BYTE_MULTIPLY_ADDS: f64 = 220.0;

/// A cycle of the unit that multiplies tiles, in nanoseconds.
pub const TILE_CYCLE: f64 = 0.36;

/// Writing one of its sums, and what begins with a tile.
pub const TILE_STORE: f64 = 0.75;

/// Gathering one sample as a byte.
pub const BYTE_GATHER: f64 = 0.05;

/// Interleaving and writing one sum of bytes.
pub const BYTE_STORE: f64 = 0.6;

/// Gathering one sample.
pub const GATHER: f64 = 0.35;
/// Looking at one sample where it lies, and writing a result where it belongs.
pub const SURVEY: f64 = 0.3;

/// Window sums and finish of one sample.
pub fn finish(measure: Measure, exact: bool) -> f64 {
    let needs = measure.row().needs;
    let sums = f64::from(u8::from(needs.square)) * 1.2 + f64::from(u8::from(needs.sum)) * 1.2;
    let score = if !needs.square {
        0.4
    } else if exact {
        3.0
    } else {
        1.5
    };
    sums + score
}

/// What one tile by half its frequencies takes of a pair: 0.72 was measured at 64, 0.69 at 128.
pub const SINGLE: f64 = 0.7;

/// Looking at one sample of a pair that is transformed where it lies, and what lines cost that were asked for too
/// late.
pub const REACH: f64 = 0.1;

/// What columns of a tile's width take of a pair that is transformed along rows, too.
pub const COLUMNS: f64 = 0.58;

/// The share of a direct kernel's multiply-adds that taps along rows of frequencies reach, whose samples lie across
/// lines.
pub const TAPS: f64 = 0.55;

/// What it costs such transforms that tiles lie in buffers, and that their results are judged.
pub const BUFFERED: f64 = 1.15;

/// A line's pair takes so many times that of a square one: the turns.
pub const TURNS: f64 = 1.2;

/// A pair of tiles there and back by our own transforms of `length` x `length` samples.
pub fn pair(length: usize, isas: &IsaSet) -> f64 {
    let samples = (length * length) as f64;
    // The larger it is, the more of its passes go beyond the second-level cache.
    let far = match length {
        0..=128 => 1.0,
        129..=256 => 1.4,
        257..=512 => 1.7,
        _ => 2.2,
    };
    let each = if isas.has(Isa::Avx512) { 0.08 } else { 0.1 };
    2.0 * samples * samples.log2() * each * far
}

/// One transform there or back, a sample.
pub fn transform(len: f64, dtype: DType) -> f64 {
    let single = 0.16 * len.max(2.0).log2();
    // Past the second-level cache every pass goes to memory.
    let far = if len > 150_000.0 { 1.5 } else { 1.0 };
    far * if dtype == DType::F64 { 1.9 * single } else { single }
}
