//! From a score map to the places that matter: threshold, suppression, sub-pixel refinement, count.
//!
//! **Order and ties.** Peaks come best first; equal scores in row-major order of their positions. NaN is never a peak.
//! **Suppression.** A position is a peak if no position within `min_distance` of it, on every axis, is better, where
//! equal scores count the earlier position as better: a plateau narrower than that gives one peak, its first position.
//! **Sub-pixel.** Where a curve through the scores around the peak is best, at most one position away on each axis; an
//! axis without two finite neighbours is not refined. [`Subpixel`] names the curves.

use std::cmp::Ordering;
use std::ops::Range;

use crate::dtype::{Pixel, Pixels};
use crate::score::ScoreMap;
use crate::subpixel::{self, Subpixel};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakOptions {
    /// At most so many peaks; `None` for all.
    pub top: Option<usize>,
    /// Scores at least this good: not below it, or not above it when the minimum is best.
    pub threshold: Option<f64>,
    /// How far from a peak, on every axis, no other may lie. 0 makes every position a peak.
    pub min_distance: usize,
    /// How many positions at each end of every axis are left out; of an axis of 2 positions or more that is not longer
    /// than twice that, all. An axis of 1 position has no ends: a template as high as its image is searched for as on a
    /// line.
    pub exclude_border: usize,
    /// How positions are refined below a sample, if they are; `Some(Subpixel::default())` is the best fit.
    pub subpixel: Option<Subpixel>,
    /// Whether smaller scores are better: ssd, nssd and sad.
    pub minimum: bool,
}

impl Default for PeakOptions {
    fn default() -> PeakOptions {
        PeakOptions { top: None, threshold: None, min_distance: 1, exclude_border: 0, subpixel: None, minimum: false }
    }
}

/// A place and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// Position in the map, slowest axis first.
    pub position: Vec<usize>,
    /// The score there.
    pub score: f64,
    /// The refined position, where it was asked for.
    pub refined: Option<Vec<f64>>,
}

/// The peaks of a map, best first.
pub fn find_peaks(map: &ScoreMap, options: &PeakOptions) -> Vec<Peak> {
    let mut found = match (map.data(), options.minimum) {
        (Pixels::F32(scores), false) => Search::<f32, false>::new(map, scores, options).found(),
        (Pixels::F32(scores), true) => Search::<f32, true>::new(map, scores, options).found(),
        (Pixels::F64(scores), false) => Search::<f64, false>::new(map, scores, options).found(),
        (Pixels::F64(scores), true) => Search::<f64, true>::new(map, scores, options).found(),
        (Pixels::U8(_) | Pixels::U16(_), _) => unreachable!("a map holds floats, checked when it was made"),
    };
    found.sort_unstable_by(|a, b| {
        turned(map, *b, options.minimum).total_cmp(&turned(map, *a, options.minimum)).then(a.cmp(b))
    });
    found.into_iter().map(|index| peak(map, options, index)).collect()
}

/// How many positions attain the best score exactly, and that score; `None` for a map with no number in it.
pub fn count_optimum(map: &ScoreMap, minimum: bool) -> Option<(f64, usize)> {
    count_optimum_inside(map, minimum, 0)
}

/// As [`count_optimum`], of the positions that [`PeakOptions::exclude_border`] leaves.
pub fn count_optimum_inside(map: &ScoreMap, minimum: bool, exclude_border: usize) -> Option<(f64, usize)> {
    let lengths = map.shape().padded();
    match (map.data(), minimum) {
        (Pixels::F32(scores), false) => count_best::<f32, false>(scores, lengths, exclude_border),
        (Pixels::F32(scores), true) => count_best::<f32, true>(scores, lengths, exclude_border),
        (Pixels::F64(scores), false) => count_best::<f64, false>(scores, lengths, exclude_border),
        (Pixels::F64(scores), true) => count_best::<f64, true>(scores, lengths, exclude_border),
        (Pixels::U8(_) | Pixels::U16(_), _) => unreachable!("a map holds floats, checked when it was made"),
    }
}

fn count_best<T: Pixel, const MINIMUM: bool>(scores: &[T], lengths: [usize; 3], border: usize) -> Option<(f64, usize)> {
    let mut best: Option<T> = None;
    for row in rows(lengths, border) {
        let of_row = best_of::<T, MINIMUM>(&scores[row]);
        best = match (best, of_row) {
            (Some(best), Some(of_row)) if !over::<T, MINIMUM>(of_row, best) => Some(best),
            (best, of_row) => of_row.or(best),
        };
    }
    let best = best?;
    // A zero is 0, whatever its sign.
    let count = |row: Range<usize>| scores[row].iter().filter(|score| **score == best).count();
    Some((best.to_f64() + 0.0, rows(lengths, border).map(count).sum()))
}

/// Whether a score is better than another; NaN is neither better nor worse.
#[inline(always)]
fn over<T: Pixel, const MINIMUM: bool>(score: T, other: T) -> bool {
    if MINIMUM { score < other } else { score > other }
}

/// Scores that are looked at together, in vectors.
const TOGETHER: usize = 32;

/// The best of some scores; `None` if there is no number among them.
fn best_of<T: Pixel, const MINIMUM: bool>(scores: &[T]) -> Option<T> {
    let first = *scores.iter().find(|score| score.partial_cmp(score).is_some())?;
    let mut lanes = [first; TOGETHER];
    let (chunks, rest) = scores.as_chunks::<TOGETHER>();
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = if over::<T, MINIMUM>(score, *lane) { score } else { *lane };
        }
    }
    let better = |best: T, &score: &T| if over::<T, MINIMUM>(score, best) { score } else { best };
    Some(rest.iter().fold(lanes.iter().fold(first, better), better))
}

/// Where a score is first.
fn first_of<T: Pixel>(scores: &[T], wanted: T) -> Option<usize> {
    let holds = |chunk: &[T]| chunk.iter().fold(false, |some, &score| some | (score == wanted));
    let chunk = scores.chunks(TOGETHER).position(holds)?;
    let begin = chunk * TOGETHER;
    Some(begin + scores[begin..].iter().position(|score| *score == wanted)?)
}

/// The positions that a border leaves, as ranges of indices, row by row.
fn rows([depth, height, width]: [usize; 3], border: usize) -> impl Iterator<Item = Range<usize>> {
    // An axis of one position has no ends.
    let inside = move |length: usize| {
        if length > 1 { border.min(length)..length.saturating_sub(border).max(border.min(length)) } else { 0..length }
    };
    let along = inside(width);
    inside(depth).flat_map(move |z| {
        let along = along.clone();
        inside(height).map(move |y| {
            let row = (z * height + y) * width;
            row + along.start..row + along.end
        })
    })
}

/// What a score has to reach.
#[derive(Clone, Copy)]
enum Bar<T> {
    /// Any number does.
    None,
    /// At least as good.
    From(T),
    /// Better.
    Over(T),
}

struct Search<'a, T, const MINIMUM: bool> {
    scores: &'a [T],
    options: &'a PeakOptions,
    lengths: [usize; 3],
}

impl<'a, T: Pixel, const MINIMUM: bool> Search<'a, T, MINIMUM> {
    fn new(map: &ScoreMap, scores: &'a [T], options: &'a PeakOptions) -> Self {
        Search { scores, options, lengths: map.shape().padded() }
    }

    /// The indices of the peaks that are asked for, in any order.
    fn found(&self) -> Vec<usize> {
        let PeakOptions { top, min_distance, exclude_border, .. } = *self.options;
        if top == Some(0) {
            return Vec::new();
        }
        let mut bar = self.threshold();
        // The best of all is a peak, and the first of its equals: nothing suppresses it.
        if top == Some(1) && exclude_border == 0 {
            let best = best_of::<T, MINIMUM>(self.scores).filter(|best| passes::<T, MINIMUM>(*best, bar));
            return best.and_then(|best| first_of(self.scores, best)).into_iter().collect();
        }
        let mut found: Vec<usize> = Vec::new();
        for row in rows(self.lengths, exclude_border) {
            let end = row.end;
            for begin in row.step_by(TOGETHER) {
                let chunk = &self.scores[begin..end.min(begin + TOGETHER)];
                if !chunk.iter().fold(false, |some, &score| some | passes::<T, MINIMUM>(score, bar)) {
                    continue;
                }
                for (place, &score) in chunk.iter().enumerate() {
                    if !passes::<T, MINIMUM>(score, bar) || !self.is_peak(begin + place, min_distance) {
                        continue;
                    }
                    found.push(begin + place);
                    if let Some(top) = top.filter(|top| found.len() >= top.saturating_mul(2)) {
                        // Those to come are later, so they have to be better.
                        self.keep_best(&mut found, top);
                        bar = Bar::Over(self.scores[found[top - 1]]);
                    }
                }
            }
        }
        if let Some(top) = top {
            self.keep_best(&mut found, top);
        }
        found
    }

    /// Leaves the best so many, the last of which is the worst of them.
    fn keep_best(&self, found: &mut Vec<usize>, top: usize) {
        if found.len() <= top {
            return;
        }
        let order = |a: &usize, b: &usize| {
            let (of_a, of_b) = (self.scores[*a], self.scores[*b]);
            // No peak is NaN.
            let order = if MINIMUM { of_a.partial_cmp(&of_b) } else { of_b.partial_cmp(&of_a) };
            order.unwrap_or(Ordering::Equal).then(a.cmp(b))
        };
        found.select_nth_unstable_by(top - 1, order);
        found.truncate(top);
    }

    /// The threshold in the type of the scores.
    fn threshold(&self) -> Bar<T> {
        let Some(threshold) = self.options.threshold.filter(|threshold| !threshold.is_nan()) else { return Bar::None };
        let nearest = T::from_f64(threshold);
        let worse = if MINIMUM { nearest.to_f64() > threshold } else { nearest.to_f64() < threshold };
        if worse { Bar::Over(nearest) } else { Bar::From(nearest) }
    }

    fn is_peak(&self, index: usize, distance: usize) -> bool {
        // A wide window is looked at only where the nearest neighbours do not decide.
        distance == 0 || (self.stands_out(index, 1) && (distance == 1 || self.stands_out(index, distance)))
    }

    fn stands_out(&self, index: usize, distance: usize) -> bool {
        let [_, h, w] = self.lengths;
        let (position, score) = ([index / (h * w), index / w % h, index % w], self.scores[index]);
        let range = |axis: usize| {
            position[axis].saturating_sub(distance)
                ..position[axis].saturating_add(distance).saturating_add(1).min(self.lengths[axis])
        };
        let along = range(2);
        range(0).all(|z| {
            range(1).all(|y| {
                let row = (z * h + y) * w;
                let (begin, end) = (row + along.start, row + along.end);
                // Of equal scores the earlier is better.
                let middle = index.clamp(begin, end);
                let (earlier, later) = (&self.scores[begin..middle], &self.scores[middle..end]);
                !earlier.iter().any(|&other| over::<T, MINIMUM>(other, score) || other == score)
                    && !later.iter().any(|&other| over::<T, MINIMUM>(other, score))
            })
        })
    }
}

/// Whether a score reaches a bar; NaN reaches none.
#[inline(always)]
fn passes<T: Pixel, const MINIMUM: bool>(score: T, bar: Bar<T>) -> bool {
    match bar {
        Bar::None => score.partial_cmp(&score).is_some(),
        Bar::From(bar) => over::<T, MINIMUM>(score, bar) || score == bar,
        Bar::Over(bar) => over::<T, MINIMUM>(score, bar),
    }
}

/// The score, turned so that larger is better.
fn turned(map: &ScoreMap, index: usize, minimum: bool) -> f64 {
    let score = map.get(index) + 0.0;
    if minimum { 0.0 - score } else { score }
}

fn peak(map: &ScoreMap, options: &PeakOptions, index: usize) -> Peak {
    let (shape, lengths) = (map.shape(), map.shape().padded());
    let position = shape.position(index);
    let value = |index: usize| turned(map, index, options.minimum);
    let refined = options.subpixel.map(|fit| {
        let away = subpixel::offset(fit, value, lengths, position);
        shape.unpad(&[0, 1, 2].map(|axis| position[axis] as f64 + away[axis]))
    });
    Peak { position: shape.unpad(&position), score: map.get(index), refined }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::extent::Region;
    use crate::shape::Shape;
    use proptest::prelude::*;

    fn map(lengths: &[usize], data: &[f64]) -> ScoreMap {
        let region = Region { origin: [0; 3], shape: Shape::new(lengths).unwrap() };
        ScoreMap::new(region, Pixels::F64(data.to_vec())).unwrap()
    }

    /// The definition of this file, position by position.
    fn by_definition(map: &ScoreMap, options: &PeakOptions) -> Vec<usize> {
        let (shape, lengths) = (map.shape(), map.shape().padded());
        let value = |index: usize| turned(map, index, options.minimum);
        let apart = |a: [usize; 3], b: [usize; 3]| (0..3).map(|axis| a[axis].abs_diff(b[axis])).max().unwrap_or(0);
        let in_border = |position: [usize; 3]| {
            let border = options.exclude_border;
            (0..3).any(|axis| {
                lengths[axis] > 1 && (position[axis] < border || lengths[axis] - 1 - position[axis] < border)
            })
        };
        let is_peak = |&index: &usize| {
            let (position, own) = (shape.position(index), value(index));
            let reached = options
                .threshold
                .is_none_or(|bar| if options.minimum { map.get(index) <= bar } else { map.get(index) >= bar });
            let beaten = |other: usize| value(other) > own || (value(other) == own && other < index);
            let near =
                |other: &usize| *other != index && apart(position, shape.position(*other)) <= options.min_distance;
            !own.is_nan() && reached && !in_border(position) && !(0..shape.len()).filter(near).any(beaten)
        };
        let mut found: Vec<usize> = (0..shape.len()).filter(is_peak).collect();
        found.sort_by(|a, b| value(*b).total_cmp(&value(*a)).then(a.cmp(b)));
        found.truncate(options.top.unwrap_or(usize::MAX));
        found
    }

    proptest! {
        #[test]
        fn peaks_are_those_of_the_definition(
            lengths in prop::array::uniform3(1usize..7),
            wide in 0usize..80,
            levels in 1i32..9,
            seed in 0u64..1000,
            top in prop::option::of(0usize..6),
            threshold in prop::option::of(-5.0f64..5.0),
            min_distance in 0usize..4,
            exclude_border in 0usize..3,
            (minimum, single) in (any::<bool>(), any::<bool>()),
        ) {
            let lengths = [lengths[0], lengths[1], lengths[2] + wide];
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                match state >> 58 {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => f64::NEG_INFINITY,
                    3 => -0.0,
                    number => f64::from((number as i32) % levels - levels / 2) * 0.7,
                }
            };
            let data: Vec<f64> = (0..lengths.iter().product()).map(|_| draw()).collect();
            let region = Region { origin: [0; 3], shape: Shape::new(&lengths).unwrap() };
            let pixels = Pixels::F64(data).cast(if single { DType::F32 } else { DType::F64 });
            let map = ScoreMap::new(region, pixels).unwrap();
            let options = PeakOptions { top, threshold, min_distance, exclude_border, subpixel: None, minimum };
            let index = |at: &[usize]| (at[0] * lengths[1] + at[1]) * lengths[2] + at[2];
            let found: Vec<usize> = find_peaks(&map, &options).iter().map(|peak| index(&peak.position)).collect();
            prop_assert_eq!(found, by_definition(&map, &options));
            let all = PeakOptions { top: None, threshold: None, min_distance: 0, ..options };
            let scores = by_definition(&map, &all);
            let best = scores.first().map(|&index| {
                let best = map.get(index) + 0.0;
                (best, scores.iter().filter(|index| map.get(**index) + 0.0 == best).count())
            });
            prop_assert_eq!(count_optimum_inside(&map, minimum, exclude_border), best);
        }
    }

    fn positions(map: &ScoreMap, options: &PeakOptions) -> Vec<Vec<usize>> {
        find_peaks(map, options).into_iter().map(|peak| peak.position).collect()
    }

    #[test]
    fn best_first_and_ties_in_order() {
        let line = map(&[9], &[0.0, 5.0, 0.0, 7.0, 0.0, 7.0, 0.0, f64::NAN, 9.0]);
        let options = PeakOptions { top: Some(3), ..PeakOptions::default() };
        assert_eq!(positions(&line, &options), [vec![8], vec![3], vec![5]]);
        assert_eq!(positions(&line, &PeakOptions { threshold: Some(7.0), ..PeakOptions::default() }).len(), 3);
        assert_eq!(positions(&line, &PeakOptions { min_distance: 2, ..PeakOptions::default() }), [vec![8], vec![3]]);
        assert_eq!(
            positions(&line, &PeakOptions { min_distance: 0, top: Some(2), ..PeakOptions::default() }),
            [vec![8], vec![3]]
        );
        assert_eq!(positions(&line, &PeakOptions { exclude_border: 2, ..PeakOptions::default() }), [vec![3], vec![5]]);
    }

    #[test]
    fn a_plateau_is_one_peak() {
        assert_eq!(positions(&map(&[3, 4], &[1.0; 12]), &PeakOptions::default()), [vec![0, 0]]);
        assert_eq!(
            positions(&map(&[2, 3, 3], &[-0.0; 18]), &PeakOptions { minimum: true, ..PeakOptions::default() }),
            [vec![0, 0, 0]]
        );
    }

    #[test]
    fn minima_are_found_as_maxima_are() {
        let line = map(&[5], &[3.0, 1.0, 4.0, 0.5, 2.0]);
        let options = PeakOptions { minimum: true, threshold: Some(0.9), ..PeakOptions::default() };
        assert_eq!(positions(&line, &options), [vec![3]]);
        assert_eq!(count_optimum(&line, true), Some((0.5, 1)));
        assert_eq!(count_optimum(&line, false), Some((4.0, 1)));
        assert_eq!(count_optimum(&map(&[4], &[2.0, 7.0, 7.0, f64::NAN]), false), Some((7.0, 2)));
        assert_eq!(count_optimum(&map(&[1], &[f64::NAN]), false), None);
    }

    #[test]
    fn a_border_is_left_out_of_peaks_and_counts() {
        let inner = |map: &ScoreMap, border: usize| {
            let peaks =
                find_peaks(map, &PeakOptions { exclude_border: border, min_distance: 0, ..PeakOptions::default() });
            (peaks.len(), count_optimum_inside(map, false, border))
        };
        let plane = map(
            &[4, 5],
            &[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 3.0, 2.0, 3.0, 9.0, 9.0, 1.0, 3.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0],
        );
        assert_eq!(inner(&plane, 0), (20, Some((9.0, 14))));
        assert_eq!(inner(&plane, 1), (6, Some((3.0, 3))));
        // An axis of 4 is not longer than twice 2: nothing remains, however long the other one is.
        assert_eq!(inner(&plane, 2), (0, None));
        assert_eq!(inner(&plane, usize::MAX), (0, None));
        // One position has no ends.
        assert_eq!(inner(&map(&[1, 5], &[9.0, 1.0, 2.0, 2.0, 9.0]), 1), (3, Some((2.0, 2))));
        assert_eq!(inner(&map(&[1], &[9.0]), 7), (1, Some((9.0, 1))));
        assert_eq!(count_optimum_inside(&plane, true, 1), Some((0.0, 1)));
    }
}
