//! Scores of panels from sums that are known within bounds, where the bounds leave no doubt about them.
//!
//! `docs/numerics.md` derives what stands here.

/// A sum, and how far from it the exact one lies at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub value: f64,
    pub error: f64,
}

/// The sums of one channel of a panel under its weights: of samples `p` of the image and `t` of the template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub p: Sum,
    pub pp: Sum,
    pub pt: Sum,
    pub t: Sum,
    pub tt: Sum,
}

/// What rounds a sample, a product and a difference here, in all: in parts of the terms.
const ROUNDED: f64 = 8.0 * f64::EPSILON;

/// The energies of image and template and their products, with bounds.
struct Energies {
    p: Sum,
    t: Sum,
    pt: Sum,
}

impl Energies {
    /// `pt / sqrt(p t)` and its bound; `None` where an energy is not known to be positive.
    #[inline(always)]
    fn score(&self) -> Option<Sum> {
        let [p, t] = [&self.p, &self.t].map(|sum| sum.value - sum.error);
        if !(p > 0.0 && t > 0.0) {
            return None;
        }
        let relative = 0.5 * (self.p.error / p + self.t.error / t);
        let error = self.pt.error / (p.sqrt() * t.sqrt()) + relative + ROUNDED;
        let value = self.pt.value / (self.p.value.sqrt() * self.t.value.sqrt());
        Some(Sum { value, error })
    }
}

/// The zero-mean normalised score of a panel whose weights sum to `n`; `None` where it may be off by more than `limit`.
#[inline(always)]
pub(super) fn zncc(n: Sum, channels: impl Iterator<Item = Sums>, limit: f64) -> Option<f64> {
    if n.error.is_nan() || n.error > n.value / 16.0 {
        return None;
    }
    // A quotient by the sum of the weights is off by a sixteenth more than its numerator.
    const QUOTIENT: f64 = 1.1;
    let nothing = Sum { value: 0.0, error: 0.0 };
    let mut energies = Energies { p: nothing, t: nothing, pt: nothing };
    for Sums { p, pp, pt, t, tt } in channels {
        let [mean_p, mean_t] = [p, t].map(|sum| sum.value / n.value);
        let centred = |ab: Sum, a: Sum, b: Sum, mean_a: f64, mean_b: f64, terms: f64| {
            let means = mean_a.abs() * b.error + mean_b.abs() * a.error + (mean_a * mean_b).abs() * n.error;
            let both = a.error * b.error / n.value;
            let rounding = ROUNDED * (terms + (a.value * mean_b).abs());
            Sum { value: ab.value - a.value * mean_b, error: ab.error + QUOTIENT * (means + both) + rounding }
        };
        let [terms_p, terms_t] = [pp, tt].map(|sum| sum.value.abs());
        for (total, part) in [
            (&mut energies.p, centred(pp, p, p, mean_p, mean_p, terms_p)),
            (&mut energies.t, centred(tt, t, t, mean_t, mean_t, terms_t)),
            (&mut energies.pt, centred(pt, p, t, mean_p, mean_t, (terms_p * terms_t).sqrt())),
        ] {
            *total = Sum { value: total.value + part.value, error: total.error + part.error };
        }
    }
    let score = energies.score()?;
    (score.error <= limit).then(|| score.value.clamp(-1.0, 1.0))
}

/// The normalised score without means, and the ratio of the norms of image and template in their units here, each
/// within `limit`; `None` where one may be off by more.
#[inline(always)]
pub(super) fn ncc(channels: impl Iterator<Item = Sums>, limit: f64) -> Option<(f64, f64)> {
    let nothing = Sum { value: 0.0, error: 0.0 };
    let mut energies = Energies { p: nothing, t: nothing, pt: nothing };
    for Sums { pp, pt, tt, .. } in channels {
        let (terms_p, terms_t) = (pp.value.abs(), tt.value.abs());
        for (total, part, terms) in [
            (&mut energies.p, pp, terms_p),
            (&mut energies.t, tt, terms_t),
            (&mut energies.pt, pt, (terms_p * terms_t).sqrt()),
        ] {
            *total = Sum { value: total.value + part.value, error: total.error + part.error + ROUNDED * terms };
        }
    }
    let score = energies.score()?;
    let ratio = (energies.p.value / energies.t.value).sqrt();
    (score.error <= limit).then(|| (score.value.clamp(-1.0, 1.0), ratio))
}

/// The normalised sum of squared differences of a panel whose norm is `ratio` times the template's and whose score
/// without means is `ncc`.
#[inline(always)]
pub(super) fn nssd(ncc: f64, ratio: f64) -> f64 {
    (ratio + 1.0 / ratio - 2.0 * ncc).clamp(0.0, 1.0)
}
