//! Costs that fit measured times.

use crate::plan::cost::{Costs, TERMS, Term};
use crate::tune::grid::{Sample, median};

/// How estimates compare with times: the median and the worst of the larger over the smaller.
pub fn errors(samples: &[Sample], costs: &Costs) -> (f64, f64) {
    let mut ratios: Vec<f64> = samples
        .iter()
        .map(|sample| {
            let ratio = sample.work.ns_on(costs, 1) / sample.ns;
            ratio.max(1.0 / ratio)
        })
        .collect();
    if ratios.is_empty() {
        return (1.0, 1.0);
    }
    (median(&mut ratios), ratios.last().copied().unwrap_or(1.0))
}

/// The costs that bring estimates nearest to the times of samples, by the logarithms of their ratios: what is twice too
/// short is as far off as what is twice too long. Begins with `start`; terms that no sample has keep their cost.
///
/// Each round takes the logarithms as straight lines about the costs so far, and solves for changes by coordinate
/// descent: each cost in turn takes the value that is best beside the others. What is far off weighs less by as much as
/// it is, so that a few samples that no cost explains do not bend the rest. No cost changes to more than twice or less
/// than half of itself in a round.
pub fn fit(samples: &[Sample], start: Costs) -> Costs {
    let mut costs = start;
    for _ in 0..ROUNDS {
        let rows: Vec<(f64, Vec<f64>)> = samples
            .iter()
            .map(|sample| {
                let estimate = sample.work.ns_on(&costs, 1);
                let weight = 1.0 / (1.0 + (sample.ns / estimate).ln().abs() / TOLERATED);
                // What doubling a cost adds to the logarithm.
                let share = |term: Term| sample.work.counted(term, &costs) * costs.of(term) / estimate;
                (weight, TERMS.iter().map(|&term| share(term)).collect())
            })
            .collect();
        let mut left: Vec<f64> = samples.iter().map(|sample| (sample.ns / sample.work.ns_on(&costs, 1)).ln()).collect();
        // What each cost is to be multiplied by, less one.
        let mut changes = [0.0; TERMS.len()];
        for _ in 0..SWEEPS {
            for (index, &term) in TERMS.iter().enumerate() {
                let (mut along, mut square) = (0.0, 0.0);
                for ((weight, row), left) in rows.iter().zip(&left) {
                    along += weight * row[index] * left;
                    square += weight * row[index] * row[index];
                }
                if square <= 0.0 {
                    continue;
                }
                // A little towards the start, where samples hardly say anything.
                let pull = PULL * rows.len() as f64;
                let away = start.of(term) / costs.of(term) - 1.0 - changes[index];
                let step = (along + pull * away) / (square + pull);
                let changed = (changes[index] + step).clamp(-0.5, 1.0);
                let step = changed - changes[index];
                changes[index] = changed;
                rows.iter().zip(&mut left).for_each(|((_, row), left)| *left -= step * row[index]);
            }
        }
        // Half of the way: lines are not the logarithms.
        for (&term, change) in TERMS.iter().zip(changes) {
            costs = costs.with(term, costs.of(term) * (1.0 + 0.5 * change));
        }
    }
    costs
}

/// How often samples are weighed, and logarithms taken as lines, anew.
const ROUNDS: usize = 60;

/// Turns of all terms between.
const SWEEPS: usize = 20;

/// The error, as a logarithm, at which a sample counts half.
const TOLERATED: f64 = 0.3;

/// How much a sample's share of the costs at the start weighs beside the samples.
const PULL: f64 = 1e-5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::IsaSet;
    use crate::plan::cost::Work;

    #[test]
    fn costs_that_made_times_are_found_again() {
        let truth =
            Costs::usual(&IsaSet::of(&[])).with(Term::TapSingle, 0.02).with(Term::Copy, 0.9).with(Term::Call, 4e3);
        let samples: Vec<Sample> = (0..60)
            .map(|k| {
                let work = Work::default()
                    .and(Term::Call, 1.0)
                    .and(Term::TapSingle, f64::from(k % 7) * 3e5)
                    .and(Term::Copy, f64::from(k % 11) * 2e4);
                let off = if k == 17 { 5.0 } else { 1.0 + 0.02 * f64::from(k % 3 - 1) };
                Sample {
                    kernel: "corr_f32_any_portable".parse().unwrap(),
                    work,
                    estimate_ns: 0.0,
                    ns: off * work.ns(&truth),
                }
            })
            .collect();
        let start = Costs::usual(&IsaSet::of(&[]));
        let found = fit(&samples, start);
        for term in [Term::TapSingle, Term::Copy, Term::Call] {
            let ratio = found.of(term) / truth.of(term);
            assert!((0.9..1.1).contains(&ratio), "{}: {ratio}", term.name());
        }
        // What no sample speaks of stays.
        assert_eq!(found.of(Term::Pair), start.of(Term::Pair));
        assert!(errors(&samples, &found).0 < errors(&samples, &start).0);
    }
}
