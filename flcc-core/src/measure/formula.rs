//! What every measure's file has: a formula in floats, and its exact twin in integers.

use std::ops::{Add, Mul, Sub};

use crate::sums::Needs;

/// Integers wide enough for a problem: `i64` where the caller proved that nothing overflows, `i128` elsewhere.
pub trait Integer:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + From<i32> + Send + Sync + 'static
{
    /// The integer that a float holds exactly.
    fn of(value: f64) -> Self;
    /// The nearest float.
    fn to_f64(self) -> f64;
    /// Whether it is zero.
    fn is_zero(self) -> bool;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
        }
    };
}

integer!(i64);
integer!(i128);

/// A formula: from the sums of a panel to its score.
///
/// `energy` is called for each channel, the results are added over the channels, and `finish` is called once. The exact
/// twins take integers and round once, as the conventions' exact finish says.
pub trait Formula: Copy + Default + Send + Sync + 'static {
    /// What it asks of the kernels.
    const NEEDS: Needs;

    /// The panel's energy in one channel from `i = sum w P`, `ii = sum w P^2` and `n = sum w`.
    fn energy(i: f64, ii: f64, n: f64) -> f64;
    /// The score from the cross term and both energies. Degenerate panels are the caller's: it knows them exactly.
    fn finish(cross: f64, panel: f64, template: f64) -> f64;
    /// The score of a degenerate panel: constant for zncc, zero for ncc and nssd.
    const DEGENERATE: f64;

    /// `energy` in integers (of zncc times `n`).
    fn exact_energy<I: Integer>(i: I, ii: I, n: I) -> I;
    /// The exact cross term of one channel from `it = sum w P t`, `i`, `t = sum w t` and `n` (of zncc times `n`).
    fn exact_cross<I: Integer>(it: I, i: I, t: I, n: I) -> I;
    /// `finish` from exact integers: each rounded once to f64, then single correctly rounded operations.
    fn exact_finish<I: Integer>(cross: I, panel: I, template: I) -> f64;
}
