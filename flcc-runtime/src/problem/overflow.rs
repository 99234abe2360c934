//! Squared differences that a result holds, of samples whose squares it does not hold.
//!
//! `sum w P^2 - 2 sum w P t + sum w t^2` rounds in proportion to its terms. Where they exceed the type of the result,
//! so may what rounding leaves of no difference at all. Such panels are taken again from the differences themselves.

use flcc_core::dtype::DType;

/// Scores below so much of the largest sums of squares may be nothing but rounding: far above what any method rounds.
const SMALL: f64 = 1.0 / 256.0;

/// Scaled samples are below this.
const NEAR_ONE: f64 = 2.0;

/// What of the largest sums of squares a panel's own may lose where transforms make them, under a mask: more than any
/// does in f64.
const LOST: f64 = 1.0 / (1u64 << 30) as f64;

/// The least limit, 2^-900, beside which squares keep their digits.
const LEAST: f64 = f64::from_bits((1023 - 900) << 52);

/// Which panels' squared differences are taken again, in the scale of a finish.
#[derive(Clone, Copy, Debug)]
pub struct Overflow {
    /// The largest sum of squares that the result's type holds, less what one may have lost; below 0 where none tells.
    most: f64,
    /// What a score has to exceed to be certain.
    small: f64,
}

/// Sums of squares in the scale of a finish.
#[derive(Clone, Copy, Debug)]
pub struct Squares {
    /// `sum w`, over all channels.
    pub weights: f64,
    /// What samples that need no scale are below.
    pub ordinary: f64,
    /// What samples were multiplied by.
    pub image_scale: f64,
    /// What brings them to the common scale.
    pub common: f64,
    /// The energy of the template, in the common scale.
    pub template: f64,
    /// The common scale.
    pub scale: f64,
    /// Whether sums of squares are under a mask, and so may be made by transforms.
    pub masked: bool,
}

impl Overflow {
    /// The rule for a tile; `None` where nothing of it can overflow. `flcc_finish` has its twin.
    pub fn of(squares: &Squares, out: DType) -> Option<Overflow> {
        let sample = squares.common * if squares.image_scale == 1.0 { squares.ordinary } else { NEAR_ONE };
        let largest = squares.weights * sample * sample + squares.template;
        let type_holds = if out == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        let most = (type_holds * squares.scale * squares.scale).min(f64::MAX);
        // A sum of weights that overflows is no bound.
        let beyond = largest.is_nan() || largest > most;
        let largest = largest.min(f64::MAX);
        let most = if most < LEAST { -1.0 } else { most - if squares.masked { LOST * largest } else { 0.0 } };
        beyond.then_some(Overflow { most, small: SMALL * largest })
    }

    /// Whether the score of a panel of this energy may be nothing but rounding, and too large for the result.
    #[inline(always)]
    pub fn doubts(&self, score: f64, panel: f64, template: f64) -> bool {
        let fits = panel + template <= self.most;
        let certain = score > self.small && score.is_finite();
        !fits && !certain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_scores_of_squares_that_overflow_are_in_doubt() {
        let (ordinary, down) = (2f64.powi(41), 2f64.powi(-123));
        let squares = Squares {
            weights: 20.0,
            ordinary,
            image_scale: down,
            common: 1.0,
            template: 15.0,
            scale: down,
            masked: false,
        };
        let rule = Overflow::of(&squares, DType::F32).unwrap();
        assert!(rule.doubts(1e-6, 15.0, 15.0) && rule.doubts(f64::NAN, f64::INFINITY, 15.0));
        assert!(!rule.doubts(20.0, 15.0, 15.0));
        assert!(!rule.doubts(0.0, 0.0, 0.0), "sums that fit");
        let masked = Overflow::of(&Squares { masked: true, ..squares }, DType::F32).unwrap();
        assert!(masked.doubts(0.0, 0.0, 0.0), "sums that may have drowned");
        let vanished = Squares { scale: 2f64.powi(-540), ..squares };
        assert!(Overflow::of(&vanished, DType::F32).unwrap().doubts(0.0, 0.0, 0.0), "sums that vanish");
        assert!(Overflow::of(&squares, DType::F64).is_none(), "f64 holds squares of f32");
        let plain = Squares { image_scale: 1.0, scale: 1.0, ..squares };
        assert!(Overflow::of(&plain, DType::F32).is_none());
    }
}
