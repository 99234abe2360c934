//! Normalised sum of squared differences.

use super::formula::{Formula, Integer};
use crate::sums::Needs;

/// `min(1, sum w (P - t)^2 / sqrt(sum w P^2 sum w t^2))`: unitless, in `[0, 1]`; 1 for a panel of zeros. OpenCV's
/// `TM_SQDIFF_NORMED`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nssd;

impl Formula for Nssd {
    const NEEDS: Needs = Needs { absolute_difference: false, sum: false, square: true, centred: false };
    const DEGENERATE: f64 = 1.0;

    #[inline(always)]
    fn energy(_i: f64, ii: f64, _n: f64) -> f64 {
        ii
    }

    #[inline(always)]
    fn finish(cross: f64, panel: f64, template: f64) -> f64 {
        ((panel - 2.0 * cross + template).max(0.0) / (panel.sqrt() * template.sqrt())).min(1.0)
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
        ((panel - I::from(2) * cross + template).to_f64() / (panel.to_f64().sqrt() * template.to_f64().sqrt())).min(1.0)
    }
}
