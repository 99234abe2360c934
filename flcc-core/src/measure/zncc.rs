//! Zero-mean normalised cross-correlation, the local correlation coefficient.

use super::formula::{Formula, Integer};
use crate::sums::Needs;

/// `sum w (P - mu_P)(t - mu_t) / sqrt(sum w (P - mu_P)^2 sum w (t - mu_t)^2)`: unitless, in `[-1, 1]`; 0 for a constant
/// panel.
///
/// The cross term comes with the template already centred. `energy = ii - i^2 / n` cancels when the panel's mean is far
/// from the offset that was subtracted before: the caller subtracts one near the samples, estimates the loss, and
/// recomputes panels that lose too much. Source: Lewis, "Fast Normalized Cross-Correlation", 1995; dissertation (2.13).
#[derive(Clone, Copy, Debug, Default)]
pub struct Zncc;

impl Formula for Zncc {
    const NEEDS: Needs = Needs { absolute_difference: false, sum: true, square: true, centred: true };
    const DEGENERATE: f64 = 0.0;

    #[inline(always)]
    fn energy(i: f64, ii: f64, n: f64) -> f64 {
        ii - i * i / n
    }

    #[inline(always)]
    fn finish(cross: f64, panel: f64, template: f64) -> f64 {
        (cross / (panel.sqrt() * template.sqrt())).clamp(-1.0, 1.0)
    }

    #[inline(always)]
    fn exact_energy<I: Integer>(i: I, ii: I, n: I) -> I {
        n * ii - i * i
    }

    #[inline(always)]
    fn exact_cross<I: Integer>(it: I, i: I, t: I, n: I) -> I {
        n * it - i * t
    }

    #[inline(always)]
    fn exact_finish<I: Integer>(cross: I, panel: I, template: I) -> f64 {
        (cross.to_f64() / (panel.to_f64().sqrt() * template.to_f64().sqrt())).clamp(-1.0, 1.0)
    }
}
