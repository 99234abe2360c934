//! Sum of absolute differences.

use super::{Formula, Measure};
use crate::sums::Needs;

/// `sum w |P - t|`; never negative. It has no product form, so only the direct method computes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sad;

impl Formula for Sad {
    const MEASURE: Measure = Measure::Sad;
    const NEEDS: Needs = Needs { absolute_difference: true, sum: false, square: false, centred: false };
    const DEGENERATE: f64 = f64::NAN;

    #[inline(always)]
    fn energy(_i: f64, _ii: f64, _n: f64) -> f64 {
        0.0
    }

    #[inline(always)]
    fn finish(cross: f64, _panel: f64, _template: f64) -> f64 {
        cross
    }

    #[inline(always)]
    fn exact_energy(_i: i128, _ii: i128, _n: i128) -> i128 {
        0
    }

    #[inline(always)]
    fn exact_cross(it: i128, _i: i128, _t: i128, _n: i128) -> i128 {
        it
    }

    #[inline(always)]
    fn exact_finish(cross: i128, _panel: i128, _template: i128) -> f64 {
        cross as f64
    }
}
