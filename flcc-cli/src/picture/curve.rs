//! A line of values in as few as a plot can show.

use flcc_runtime::ScoreMap;

/// Pixels across a plot.
pub const WIDTH: i64 = 960;
/// Parts that a curve is told by at most: the smallest and the largest value of each.
const PARTS: usize = 2 * WIDTH as usize;

/// A line of values in few: of each part of the samples the smallest and the largest, as they follow.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Runs of places and values without what is no number between them.
    pub(super) runs: Vec<Vec<(f64, f64)>>,
    /// First and last place of what is no number.
    pub(super) gaps: Vec<(i64, i64)>,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) first: i64,
    count: usize,
}

impl Curve {
    /// The scores of a line, the first of which stands at `first`.
    pub fn of_map(map: &ScoreMap, first: i64) -> Curve {
        Curve::of(map.shape().len(), first, |index| map.get(index))
    }

    /// Any values of a line, by their places from 0 on.
    pub(super) fn of(count: usize, first: i64, value: impl Fn(usize) -> f64) -> Curve {
        let mut curve = Curve { first, count, low: f64::INFINITY, high: f64::NEG_INFINITY, ..Curve::default() };
        let part = count.div_ceil(PARTS).max(1);
        let mut run = Vec::new();
        for begin in (0..count).step_by(part) {
            let end = (begin + part).min(count);
            let finite = (begin..end).map(|index| (index, value(index))).filter(|(_, value)| value.is_finite());
            let mut least: Option<(usize, f64)> = None;
            let mut most = least;
            for (index, value) in finite {
                least = if least.is_none_or(|(_, least)| value < least) { Some((index, value)) } else { least };
                most = if most.is_none_or(|(_, most)| value > most) { Some((index, value)) } else { most };
            }
            let (Some(least), Some(most)) = (least, most) else {
                curve.runs.extend((!run.is_empty()).then(|| std::mem::take(&mut run)));
                let (from, to) = (first + begin as i64, first + end as i64 - 1);
                match curve.gaps.last_mut().filter(|gap| gap.1 + 1 == from) {
                    Some(gap) => gap.1 = to,
                    None => curve.gaps.push((from, to)),
                }
                continue;
            };
            (curve.low, curve.high) = (curve.low.min(least.1), curve.high.max(most.1));
            let place = |(index, value): (usize, f64)| (first as f64 + index as f64, value);
            run.push(place(if least.0 <= most.0 { least } else { most }));
            if least.0 != most.0 {
                run.push(place(if least.0 <= most.0 { most } else { least }));
            }
        }
        curve.runs.extend((!run.is_empty()).then_some(run));
        curve
    }

    /// The place of the last value.
    pub(super) fn last(&self) -> i64 {
        self.first + self.count as i64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_every_extreme() {
        let data = |k: usize| if k == 123_456 { 9.0 } else { (k as f64 * 0.01).sin() };
        let curve = Curve::of(1_000_000, -3, data);
        assert!(curve.high == 9.0 && curve.runs.len() == 1 && curve.runs[0].len() <= 2 * PARTS);
        assert!(curve.runs[0].contains(&(123_453.0, 9.0)));
        assert!(curve.runs[0].is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(Curve::of(3, 0, |k| k as f64).runs, [[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]]);
    }

    #[test]
    fn what_is_no_number_parts_a_curve() {
        let curve = Curve::of(7, 10, |k| if k == 2 || k == 3 || k == 6 { f64::NAN } else { 1.0 });
        assert_eq!(curve.gaps, [(12, 13), (16, 16)]);
        assert_eq!(curve.runs.len(), 2);
        let none = Curve::of(4, 0, |_| f64::NAN);
        assert!(none.runs.is_empty() && none.gaps == [(0, 3)]);
    }
}
