//! From a score map to the places that matter: threshold, suppression, sub-pixel refinement, count.
//!
//! **Order and ties.** Peaks come best first; equal scores in row-major order of their positions. NaN is never a peak.
//! **Suppression.** A position is a peak if no position within `min_distance` of it, on every axis, is better, where
//! equal scores count the earlier position as better: a plateau narrower than that gives one peak, its first position.
//! **Sub-pixel.** On each axis the vertex of the parabola through the peak and its two neighbours, at most half a pixel
//! away; an axis without two finite neighbours is not refined.

use crate::score::ScoreMap;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakOptions {
    /// At most so many peaks; `None` for all.
    pub top: Option<usize>,
    /// Scores at least this good: not below it, or not above it when the minimum is best.
    pub threshold: Option<f64>,
    /// How far from a peak, on every axis, no other may lie. 0 makes every position a peak.
    pub min_distance: usize,
    /// How many positions at each end of every axis are left out; of an axis of 2 positions or more that is not longer than
    /// twice that, all. An axis of 1 position has no ends: a template as high as its image is searched for as on a line.
    pub exclude_border: usize,
    /// Whether positions are refined below a pixel.
    pub subpixel: bool,
    /// Whether smaller scores are better: ssd, nssd and sad.
    pub minimum: bool,
}

impl Default for PeakOptions {
    fn default() -> PeakOptions {
        PeakOptions { top: None, threshold: None, min_distance: 1, exclude_border: 0, subpixel: false, minimum: false }
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
    let search = Search::new(map, options);
    let mut found: Vec<usize> = (0..map.shape().len()).filter(|&index| search.is_peak(index)).collect();
    let better = |a: &usize, b: &usize| search.value(*b).total_cmp(&search.value(*a)).then(a.cmp(b));
    if let Some(top) = options.top {
        if top == 0 {
            return Vec::new();
        }
        if found.len() > top {
            found.select_nth_unstable_by(top - 1, better);
            found.truncate(top);
        }
    }
    found.sort_unstable_by(better);
    found.into_iter().map(|index| search.peak(index)).collect()
}

/// How many positions attain the best score exactly, and that score; `None` for a map with no number in it.
pub fn count_optimum(map: &ScoreMap, minimum: bool) -> Option<(f64, usize)> {
    count_optimum_inside(map, minimum, 0)
}

/// As [`count_optimum`], of the positions that [`PeakOptions::exclude_border`] leaves.
pub fn count_optimum_inside(map: &ScoreMap, minimum: bool, exclude_border: usize) -> Option<(f64, usize)> {
    let (shape, lengths) = (map.shape(), map.shape().padded());
    let inside = |index: &usize| exclude_border == 0 || !in_border(shape.position(*index), lengths, exclude_border);
    let mut best: Option<(f64, usize)> = None;
    for score in (0..shape.len()).filter(inside).map(|index| map.get(index)).filter(|score| !score.is_nan()) {
        best = match best {
            Some((top, count)) if score == top => Some((top, count + 1)),
            Some((top, count)) if (score < top) != minimum => Some((top, count)),
            _ => Some((score, 1)),
        };
    }
    best
}

/// Whether a position is among the first or last `border` of an axis that has ends.
fn in_border(position: [usize; 3], lengths: [usize; 3], border: usize) -> bool {
    (0..3).any(|axis| lengths[axis] > 1 && (position[axis] < border || lengths[axis] - 1 - position[axis] < border))
}

struct Search<'a> {
    map: &'a ScoreMap,
    options: &'a PeakOptions,
    lengths: [usize; 3],
}

impl<'a> Search<'a> {
    fn new(map: &'a ScoreMap, options: &'a PeakOptions) -> Search<'a> {
        Search { map, options, lengths: map.shape().padded() }
    }

    /// The score, turned so that larger is better.
    fn value(&self, index: usize) -> f64 {
        let score = self.map.get(index) + 0.0;
        if self.options.minimum { 0.0 - score } else { score }
    }

    fn is_peak(&self, index: usize) -> bool {
        let value = self.value(index);
        if value.is_nan() {
            return false;
        }
        if let Some(threshold) = self.options.threshold {
            let score = self.map.get(index);
            if (self.options.minimum && score > threshold) || (!self.options.minimum && score < threshold) {
                return false;
            }
        }
        let position = self.map.shape().position(index);
        if in_border(position, self.lengths, self.options.exclude_border) {
            return false;
        }
        // A wide window is looked at only where the nearest neighbours do not decide.
        let distance = self.options.min_distance;
        distance == 0
            || (self.stands_out(index, position, value, 1) && (distance == 1 || self.stands_out(index, position, value, distance)))
    }

    fn stands_out(&self, index: usize, position: [usize; 3], value: f64, distance: usize) -> bool {
        let range = |axis: usize| {
            position[axis].saturating_sub(distance)..position[axis].saturating_add(distance).saturating_add(1).min(self.lengths[axis])
        };
        let [_, h, w] = self.lengths;
        range(0).all(|z| {
            range(1).all(|y| {
                range(2).all(|x| {
                    let other = (z * h + y) * w + x;
                    let theirs = self.value(other);
                    !(theirs > value || (theirs == value && other < index))
                })
            })
        })
    }

    fn peak(&self, index: usize) -> Peak {
        let shape = self.map.shape();
        let position = shape.position(index);
        let refined = self.options.subpixel.then(|| {
            let [_, h, w] = self.lengths;
            let steps = [h * w, w, 1];
            let refined: [f64; 3] = std::array::from_fn(|axis| {
                let inside = position[axis] > 0 && position[axis] + 1 < self.lengths[axis];
                let shift =
                    if inside { vertex(self.value(index - steps[axis]), self.value(index), self.value(index + steps[axis])) } else { 0.0 };
                position[axis] as f64 + shift
            });
            shape.unpad(&refined)
        });
        Peak { position: shape.unpad(&position), score: self.map.get(index), refined }
    }
}

/// Where the parabola through `(-1, left), (0, centre), (1, right)` has its maximum, at most half away.
fn vertex(left: f64, centre: f64, right: f64) -> f64 {
    let bend = left - 2.0 * centre + right;
    let shift = (left - right) / (2.0 * bend);
    if bend < 0.0 && shift.is_finite() { shift.clamp(-0.5, 0.5) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Pixels;
    use crate::extent::Region;
    use crate::shape::Shape;

    fn map(lengths: &[usize], data: &[f64]) -> ScoreMap {
        let region = Region { origin: [0; 3], shape: Shape::new(lengths).unwrap() };
        ScoreMap::new(region, Pixels::F64(data.to_vec())).unwrap()
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
        assert_eq!(positions(&line, &PeakOptions { min_distance: 0, top: Some(2), ..PeakOptions::default() }), [vec![8], vec![3]]);
        assert_eq!(positions(&line, &PeakOptions { exclude_border: 2, ..PeakOptions::default() }), [vec![3], vec![5]]);
    }

    #[test]
    fn a_plateau_is_one_peak() {
        assert_eq!(positions(&map(&[3, 4], &[1.0; 12]), &PeakOptions::default()), [vec![0, 0]]);
        assert_eq!(positions(&map(&[2, 3, 3], &[-0.0; 18]), &PeakOptions { minimum: true, ..PeakOptions::default() }), [vec![0, 0, 0]]);
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
            let peaks = find_peaks(map, &PeakOptions { exclude_border: border, min_distance: 0, ..PeakOptions::default() });
            (peaks.len(), count_optimum_inside(map, false, border))
        };
        let plane = map(&[4, 5], &[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 3.0, 2.0, 3.0, 9.0, 9.0, 1.0, 3.0, 0.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
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

    #[test]
    fn a_parabola_is_refined_exactly() {
        // -(x - 2.25)^2 - (y - 1.75)^2 on a 4 x 5 grid.
        let data: Vec<f64> =
            (0..20).map(|i| ((i / 5) as f64, (i % 5) as f64)).map(|(y, x)| -(x - 2.25f64).powi(2) - (y - 1.75f64).powi(2)).collect();
        let peaks = find_peaks(&map(&[4, 5], &data), &PeakOptions { top: Some(1), subpixel: true, ..PeakOptions::default() });
        let refined = peaks[0].refined.as_ref().unwrap();
        assert!((refined[0] - 1.75).abs() < 1e-12 && (refined[1] - 2.25).abs() < 1e-12, "{refined:?}");
    }
}
