//! A search whose scores another reduces where they lie, on a device: what it looks for, and what is made of the places
//! that come back.

use std::ops::Range;

use super::{Bar, Candidate, Candidates, Found, Part, Search, passes};
use crate::dtype::{DType, Pixel};
use crate::measure::Best;

/// What a search looks for, in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sought {
    /// Scores along each axis.
    pub lengths: [usize; 3],
    /// Whether the smallest score is best.
    pub smallest: bool,
    /// How many positions at each end of every axis of more than one are no peaks.
    pub border: usize,
    /// How far from a peak, on every axis, no other lies.
    pub distance: usize,
    /// How many are asked for at most.
    pub top: Option<usize>,
    /// The threshold, a score of the map's type, and whether only better ones reach it.
    pub bar: Option<(f64, bool)>,
    /// Whether the first position of the best score of all is what is asked for, whatever lies around it.
    pub best_alone: bool,
    /// Whether the best score is asked for, with the number of positions that attain it.
    pub optimum: bool,
}

impl Search {
    /// What it looks for in scores of a type.
    pub fn sought(&self, dtype: DType) -> Sought {
        let bar = match dtype {
            DType::F64 => in_doubles(self.threshold::<f64>()),
            _ => in_doubles(self.threshold::<f32>()),
        };
        Sought {
            lengths: self.lengths,
            smallest: self.best == Best::Smallest,
            border: self.options.exclude_border,
            distance: self.distance,
            top: self.options.top,
            bar,
            best_alone: self.best_is_a_peak(),
            optimum: self.optimum,
        }
    }

    /// Of places that are peaks, by their index and score, those that are asked for, best first.
    pub fn keep(&self, places: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
        let candidate = |(index, score)| Candidate { index, score, refined: None };
        let mut found: Vec<Candidate<f64>> = places.into_iter().map(candidate).collect();
        if let Some(top) = self.options.top {
            self.keep_best(&mut found, top);
        }
        found.sort_unstable_by(|a, b| self.order(a, b));
        found.iter().map(|candidate| (candidate.index, candidate.score)).collect()
    }

    /// Of a place that may be the best of all, whether it reaches the threshold.
    pub fn reaches(&self, score: f64, dtype: DType) -> bool {
        let bar = match self.sought(dtype).bar {
            None => Bar::None,
            Some((bar, false)) => Bar::From(bar),
            Some((bar, true)) => Bar::Over(bar),
        };
        match self.best {
            Best::Largest => passes::<f64, false>(score, bar),
            Best::Smallest => passes::<f64, true>(score, bar),
        }
    }

    /// The scores that refining a peak looks at, along each axis; `None` where peaks are not refined.
    pub fn window(&self, index: usize) -> Option<[Range<usize>; 3]> {
        let reach = self.options.subpixel?.reach();
        let at = self.position(index);
        Some([0, 1, 2].map(|axis| at[axis].saturating_sub(reach)..(at[axis] + reach + 1).min(self.lengths[axis])))
    }

    /// How far a window reaches to each side.
    pub fn window_reach(&self) -> Option<usize> {
        self.options.subpixel.map(|fit| fit.reach())
    }

    /// What the places make that [`Search::keep`] left, with the scores of the window of each, row-major, where they
    /// are refined.
    pub fn found_apart(&self, places: &[(usize, f64)], windows: &[Vec<f64>], optimum: Option<(f64, usize)>) -> Found {
        let candidate = |(number, &(index, score)): (usize, &(usize, f64))| {
            let window = self.window(index).zip(windows.get(number));
            Candidate { index, score, refined: window.map(|(window, scores)| self.refined_in(index, &window, scores)) }
        };
        let found = places.iter().enumerate().map(candidate).collect();
        self.found([Candidates { found, bar: Bar::None, optimum, cells: Vec::new() }])
    }

    fn refined_in(&self, index: usize, window: &[Range<usize>; 3], scores: &[f64]) -> [f64; 3] {
        let Some(fit) = self.options.subpixel else { return [0.0; 3] };
        let (at, lengths) = (self.position(index), [0, 1, 2].map(|axis| window[axis].len()));
        let origin = [0, 1, 2].map(|axis| self.origin[axis] + window[axis].start);
        let here = Search { lengths, origin, ..self.clone() };
        let [z, y, x] = [0, 1, 2].map(|axis| at[axis] - window[axis].start);
        let index = (z * lengths[1] + y) * lengths[2] + x;
        match self.best {
            Best::Largest => Part::<f64, false> { search: &here, scores, first: 0 }.refined(fit, index),
            Best::Smallest => Part::<f64, true> { search: &here, scores, first: 0 }.refined(fit, index),
        }
    }

    /// Where an index lies, along three axes.
    pub fn position(&self, index: usize) -> [usize; 3] {
        let [_, h, w] = self.lengths;
        [index / (h * w), index / w % h, index % w]
    }
}

/// A bar as a double, and whether only better scores reach it.
fn in_doubles<T: Pixel>(bar: Bar<T>) -> Option<(f64, bool)> {
    match bar {
        Bar::None => None,
        Bar::From(bar) => Some((bar.to_f64(), false)),
        Bar::Over(bar) => Some((bar.to_f64(), true)),
    }
}
