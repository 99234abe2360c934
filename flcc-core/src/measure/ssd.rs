//! Sum of squared differences.

use super::formula::{Formula, Integer};
use crate::sums::Needs;

/// `sum w (P - t)^2`, computed as `sum w P^2 - 2 sum w P t + sum w t^2`; never negative. OpenCV's `TM_SQDIFF`.
///
/// The error is absolute, of the size of rounding `(max |P| + |t|)^2`, where all samples of a template lie within 1/128
/// of their middle `c` of `(max |P - c| + |t - c|)^2`: an exact match of float images gives a small number, not always
/// 0. Integers are exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ssd;

impl Formula for Ssd {
    const NEEDS: Needs = Needs { absolute_difference: false, sum: false, square: true, centred: false };
    const DEGENERATE: f64 = f64::NAN;

    #[inline(always)]
    fn energy(_i: f64, ii: f64, _n: f64) -> f64 {
        ii
    }

    #[inline(always)]
    fn finish(cross: f64, panel: f64, template: f64) -> f64 {
        (panel - 2.0 * cross + template).max(0.0)
    }

    #[inline(always)]
    fn exact_energy<I: Integer>(_i: I, ii: I, _n: I) -> I {
        ii
    }

    #[inline(always)]
    fn exact_cross<I: Integer>(it: I, _i: I, _t: I, _n: I) -> I {
        it
    }

    #[inline(always)]
    fn exact_finish<I: Integer>(cross: I, panel: I, template: I) -> f64 {
        (panel - I::from(2) * cross + template).to_f64()
    }
}
