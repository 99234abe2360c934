//! The plain sum of products: what convolution and correlation are, once the template lies the right way round.

use super::formula::{Formula, Integer};
use crate::sums::Needs;

/// `sum w P t`. OpenCV's `TM_CCORR`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cc;

impl Formula for Cc {
    const NEEDS: Needs = Needs { absolute_difference: false, sum: false, square: false, centred: false };
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
    fn exact_energy<I: Integer>(_i: I, _ii: I, _n: I) -> I {
        I::from(0)
    }

    #[inline(always)]
    fn exact_cross<I: Integer>(it: I, _i: I, _t: I, _n: I) -> I {
        it
    }

    #[inline(always)]
    fn exact_finish<I: Integer>(cross: I, _panel: I, _template: I) -> f64 {
        cross.to_f64()
    }
}
