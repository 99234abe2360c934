//! Normalised cross-correlation, without subtraction of the means.

use super::formula::{Formula, Integer};
use crate::sums::Needs;

/// `sum w P t / sqrt(sum w P^2 sum w t^2)`: unitless, in `[-1, 1]`; 0 for a panel of zeros. OpenCV's `TM_CCORR_NORMED`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ncc;

impl Formula for Ncc {
    const NEEDS: Needs = Needs { absolute_difference: false, sum: false, square: true, centred: false };
    const DEGENERATE: f64 = 0.0;

    #[inline(always)]
    fn energy(_i: f64, ii: f64, _n: f64) -> f64 {
        ii
    }

    #[inline(always)]
    fn finish(cross: f64, panel: f64, template: f64) -> f64 {
        (cross / (panel.sqrt() * template.sqrt())).clamp(-1.0, 1.0)
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
        Ncc::finish(cross.to_f64(), panel.to_f64(), template.to_f64())
    }
}
