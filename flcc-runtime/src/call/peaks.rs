//! From scores to the places that matter: threshold, suppression, sub-pixel refinement, count; maps of many positions
//! by all cores.
//!
//! ```
//! use flcc_runtime::{Best, PeakOptions, Shape, View, find_peaks_in};
//!
//! let scores = [0.1f32, 0.9, 0.2, 0.3, 0.8];
//! let best = PeakOptions { top: Some(2), ..PeakOptions::default() };
//! let peaks = find_peaks_in(&View::new(&scores, Shape::new(&[5])?)?, Best::Largest, &best);
//! assert_eq!((peaks[0].position[0], peaks[1].position[0]), (1, 4));
//! # Ok::<(), flcc_runtime::SpecError>(())
//! ```

use flcc_core::measure::Best;
pub use flcc_core::peaks::*;
use flcc_core::score::ScoreMap;
use flcc_core::view::{AnyView, AsImage};

use crate::run::search::found_in_map;

/// The peaks of a map, best first: the largest scores or the smallest, as [`ScoreMap::best`] says.
pub fn find_peaks(map: &ScoreMap, options: &PeakOptions) -> Vec<Peak> {
    found_in_map(&Search::in_map(map, *options), 0, &map.view()).peaks
}

/// The peaks of scores in an array of the caller's, which says neither what is best nor of which template they are.
pub fn find_peaks_in(scores: &impl AsImage, best: Best, options: &PeakOptions) -> Vec<Peak> {
    let scores = scores.as_image();
    found_in_map(&Search::new(scores.shape(), best, *options), 0, &scores).peaks
}

/// The same of a part of larger scores, which lies from `origin` on, padded to three axes with zeros in front:
/// positions are those of the whole. What is no peak there may be one here, near the ends of the part.
pub fn find_peaks_from(scores: &AnyView<'_>, origin: [usize; 3], best: Best, options: &PeakOptions) -> Vec<Peak> {
    found_in_map(&Search::new(scores.shape(), best, *options).with_origin(origin), 0, scores).peaks
}

/// What a search finds in scores by so many threads, 0 for as many as there are cores.
#[doc(hidden)]
pub fn found_by(search: &Search, threads: usize, scores: &AnyView<'_>) -> Found {
    found_in_map(search, threads, scores)
}
