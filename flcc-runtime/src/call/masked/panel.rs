//! One panel from its samples, in two passes and with scales of its own: what no bound decides is decided here.

use flcc_core::measure::Measure;

use crate::call::masked::judge;
use crate::problem::lanes;
use crate::problem::powers::{shifted, to_one};
use crate::problem::template::{centre, clear_if_constant, constant, less_heaviest};

/// The samples of a panel that a weight looks at, channel by channel. Filled again for every panel.
#[derive(Default)]
pub(super) struct Panel {
    pub weights: Vec<f64>,
    pub image: Vec<Vec<f64>>,
    pub template: Vec<Vec<f64>>,
}

impl Panel {
    /// The score of a normalised measure; `empty` where it is not defined.
    pub(super) fn score(&mut self, measure: Measure, empty: f64) -> f64 {
        if self.weights.is_empty() {
            return empty;
        }
        let means = measure == Measure::Zncc;
        let nothing = |channels: &[Vec<f64>]| match means {
            true => channels.iter().all(|values| constant(values, None)),
            false => channels.iter().flatten().all(|&value| value == 0.0),
        };
        if nothing(&self.image) || nothing(&self.template) {
            return empty;
        }
        let weights = &self.weights;
        let [scale_image, scale_template] =
            [&mut self.image, &mut self.template].map(|channels| ready(channels, weights, means));
        let dot = |a: &[Vec<f64>], b: &[Vec<f64>]| -> f64 {
            let of = |(a, b): (&Vec<f64>, &Vec<f64>)| lanes::dot(a, b);
            a.iter().zip(b).map(of).sum()
        };
        let [p, t] = [&self.image, &self.template].map(|values| dot(values, values).sqrt());
        if !(p > 0.0 && t > 0.0) {
            return empty;
        }
        let score = (dot(&self.image, &self.template) / (p * t)).clamp(-1.0, 1.0);
        match measure {
            Measure::Nssd => judge::nssd(score, shifted(p / t, scale_image - scale_template)),
            _ => score,
        }
    }
}

impl Panel {
    /// The sum of squared differences, of weights that are divided by two to an exponent.
    pub(super) fn squared_differences(&mut self, of_weights: i32) -> f64 {
        // Halves, whose difference is a number; then in its own scale, however far below the samples it is.
        for (image, template) in self.image.iter_mut().zip(&self.template) {
            image.iter_mut().zip(template).for_each(|(p, t)| *p = 0.5 * *p - 0.5 * t);
        }
        let Some(scale) = to_one(&mut self.image) else { return 0.0 };
        let of_channel = |halves: &Vec<f64>| lanes::sum_of(halves.len(), |k| self.weights[k] * halves[k] * halves[k]);
        shifted(self.image.iter().map(of_channel).sum(), 2 * (scale + 1) + of_weights)
    }
}

/// Values times the roots of their weights, less the weighted mean of their channel where means are taken, and times
/// the power of two, the same for all channels, that brings the largest near 1; the exponent of what they are divided
/// by.
fn ready(channels: &mut [Vec<f64>], weights: &[f64], means: bool) -> i32 {
    let n = lanes::sum(weights, |weight| weight);
    if means {
        channels.iter_mut().for_each(|values| clear_if_constant(values, None));
    }
    let scale = to_one(channels).unwrap_or(0);
    for values in channels.iter_mut() {
        if means {
            // First what all have in common, so that means are of differences.
            less_heaviest(values, Some(weights));
            centre(values, None, |values| lanes::dot(values, weights) / n);
        }
        values.iter_mut().zip(weights).for_each(|(value, weight)| *value *= weight.sqrt());
    }
    scale + to_one(channels).unwrap_or(0)
}
