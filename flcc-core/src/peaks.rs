//! From scores to the places that matter: threshold, suppression, sub-pixel refinement, count.
//!
//! **Order and ties.** Peaks come best first; equal scores in row-major order of their positions. NaN is never a peak.
//! **Suppression.** A position is a peak if no position within `min_distance` of it, on every axis, is better, where
//! equal scores count the earlier position as better: a plateau narrower than that gives one peak, its first position.
//! **Sub-pixel.** Where a curve through the scores around the peak is best, at most one position away on each axis; an
//! axis without two finite neighbours is not refined. [`Subpixel`] names the curves.
//!
//! A [`Search`] looks at a map whole or part by part, so that none has to be held whole; flcc-runtime has `find_peaks`,
//! which does so by all cores. [`exclusive`] leaves no place to two templates; a [`Shortlist`] says how many peaks of
//! each that takes.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::dtype::Pixel;
use crate::each_type;
use crate::measure::Best;
use crate::score::ScoreMap;
use crate::shape::Shape;
use crate::spec::Spec;
use crate::subpixel::{self, Subpixel};
use crate::view::AnyView;

#[doc(hidden)]
pub mod apart;
#[doc(hidden)]
pub mod tiles;

/// What is looked for; by default all peaks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakOptions {
    /// At most so many peaks; `None` for all.
    pub top: Option<usize>,
    /// Scores at least this good: not below it, or not above it when the smallest is best.
    pub threshold: Option<f64>,
    /// How far from a peak, on every axis, no other may lie; [`PeakOptions::distance`] says what `None` stands for. 0
    /// makes every position a peak.
    pub min_distance: Option<usize>,
    /// How many positions at each end of every axis are left out; of an axis of 2 positions or more that is not longer
    /// than twice that, all. An axis of 1 position has no ends: a template as high as its image is searched for as on a
    /// line.
    pub exclude_border: usize,
    /// How positions are refined below a sample, if they are; `Some(Subpixel::default())` is the best fit.
    pub subpixel: Option<Subpixel>,
}

impl PeakOptions {
    /// How far from a peak no other may lie: `min_distance`, or half the template's smallest side, rounded down, at
    /// least 1. It is 1 where no template is known, as of scores in an array of the caller's.
    pub fn distance(&self, template: Option<Shape>) -> usize {
        let smallest = || template.and_then(|template| template.lengths().iter().copied().min());
        self.min_distance.unwrap_or_else(|| (smallest().unwrap_or(1) / 2).max(1))
    }

    /// The positions of each axis of a map that `exclude_border` leaves.
    pub fn inside(&self, lengths: [usize; 3]) -> [Range<usize>; 3] {
        let border = self.exclude_border;
        // An axis of one position has no ends.
        lengths.map(|length| {
            if length > 1 {
                border.min(length)..length.saturating_sub(border).max(border.min(length))
            } else {
                0..length
            }
        })
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

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The peaks, best first.
    pub peaks: Vec<Peak>,
    /// The best score, and how many positions attain it exactly, of those that [`PeakOptions::exclude_border`] leaves;
    /// `None` where there is no number, or where it was not asked for.
    pub optimum: Option<(f64, usize)>,
}

/// The peaks of a map, as tests ask for them.
#[cfg(test)]
pub(crate) fn find_peaks(map: &ScoreMap, options: &PeakOptions) -> Vec<Peak> {
    Search::in_map(map, *options).in_view(&map.view()).peaks
}

/// How many positions attain the best score exactly, and that score; `None` for a map with no number in it.
pub fn count_optimum(map: &ScoreMap) -> Option<(f64, usize)> {
    count_optimum_inside(map, 0)
}

/// As [`count_optimum`], of the positions that [`PeakOptions::exclude_border`] leaves.
pub fn count_optimum_inside(map: &ScoreMap, exclude_border: usize) -> Option<(f64, usize)> {
    let options = PeakOptions { top: Some(0), exclude_border, ..PeakOptions::default() };
    Search::in_map(map, options).with_optimum(true).in_view(&map.view()).optimum
}

/// A position of a map below a sample, by a curve through the scores around it: as [`Peak::refined`] of a peak there.
pub fn refined(map: &ScoreMap, position: &[usize], fit: Subpixel) -> Vec<f64> {
    let (shape, at) = (map.shape(), map.shape().pad(position));
    let away = subpixel::offset(fit, |index| towards(map.best(), map.get(index)), shape.padded(), at);
    shape.unpad(&[0, 1, 2].map(|axis| at[axis] as f64 + away[axis]))
}

/// A score turned so that larger is better.
fn towards(best: Best, score: f64) -> f64 {
    match best {
        Best::Largest => score + 0.0,
        Best::Smallest => 0.0 - score,
    }
}

/// The peaks of one template in an image, for [`exclusive`].
#[derive(Debug)]
pub struct Claims<'a> {
    peaks: &'a mut Vec<Peak>,
    best: Best,
    /// Where the template's first sample lies in the image for the first position of the map.
    first: [i64; 3],
    template: [usize; 3],
    distance: usize,
    /// Whether there may be more peaks than these.
    is_cut: bool,
}

impl<'a> Claims<'a> {
    /// The peaks that a search with these options found in a map of the spec, in their order.
    pub fn new(spec: &Spec, options: &PeakOptions, peaks: &'a mut Vec<Peak>) -> Claims<'a> {
        let template = spec.template();
        Claims {
            is_cut: options.top.is_some_and(|top| peaks.len() >= top),
            peaks,
            best: spec.op().best(),
            first: spec.region().first_place(template),
            template: template.padded(),
            distance: options.distance(Some(template)),
        }
    }

    /// Twice the middle of the template's box at a peak: a whole number.
    fn middle(&self, peak: &Peak) -> [i128; 3] {
        let missing = 3 - peak.position.len();
        [0, 1, 2].map(|axis| {
            let position = if axis < missing { 0 } else { peak.position[axis - missing] };
            2 * (i128::from(self.first[axis]) + position as i128) + self.template[axis] as i128 - 1
        })
    }
}

/// Leaves every place to one of several templates, that of the best score there.
///
/// All peaks are taken in turn, the best first; of equal scores those of the earlier template first, and of one
/// template in the order that they have, which is row-major. A peak stays unless one of another template that stayed is
/// near, or `top` peaks of its own template stayed. Two are near where the middles of their boxes are no further apart,
/// on every axis, than the larger of the two templates' [`PeakOptions::distance`]. The middle of a box lies
/// `(T - 1) / 2` behind its first sample, so that templates of several sizes are compared by where they lie. Peaks of
/// one template are further apart than that already.
///
/// All templates are of one measure and in one image. What is found behind the best of a template counts where another
/// template takes the best's place, so a search for more than `top` peaks comes before: [`Shortlist`] says how many.
/// `false` says that they were not enough, and that nothing has changed: the search found as many as it was asked for,
/// and fewer than `top` of them stay.
///
/// ```
/// use flcc_core::peaks::{Claims, PeakOptions, exclusive, Peak};
///
/// let spec = "zncc:u8:20x30*4x4:valid".parse().unwrap();
/// let peak = |x: usize, score: f64| Peak { position: vec![7, x], score, refined: None };
/// let (mut bolt, mut nut) = (vec![peak(5, 0.9), peak(20, 0.4)], vec![peak(6, 0.8), peak(12, 0.7)]);
/// let options = PeakOptions::default(); // of a template of 4x4 a distance of 2
/// assert!(exclusive(&mut [Claims::new(&spec, &options, &mut bolt), Claims::new(&spec, &options, &mut nut)], Some(1)));
/// assert_eq!((bolt, nut), (vec![peak(5, 0.9)], vec![peak(12, 0.7)]));
/// ```
#[must_use]
pub fn exclusive(claims: &mut [Claims<'_>], top: Option<usize>) -> bool {
    let Some(best) = claims.first().map(|claims| claims.best) else { return true };
    let of_one = |(template, claims): (usize, &Claims<'_>)| (0..claims.peaks.len()).map(move |peak| (template, peak));
    let mut turns: Vec<(usize, usize)> = claims.iter().enumerate().flat_map(of_one).collect();
    // It is stable: equals stay in the order of templates.
    turns.sort_by(|a, b| {
        let [a, b] = [a, b].map(|&(template, peak)| claims[template].peaks[peak].score);
        let (first, second) = if best == Best::Largest { (b, a) } else { (a, b) };
        first.partial_cmp(&second).unwrap_or(Ordering::Equal)
    });
    let mut stays: Vec<Vec<bool>> = claims.iter().map(|claims| vec![false; claims.peaks.len()]).collect();
    let mut left = vec![top.unwrap_or(usize::MAX); claims.len()];
    let mut taken: BTreeMap<usize, Taken> = BTreeMap::new();
    for (template, peak) in turns {
        let (distance, middle) = (claims[template].distance, claims[template].middle(&claims[template].peaks[peak]));
        if left[template] == 0 || taken.iter().any(|(other, taken)| taken.near(distance.max(*other), template, middle))
        {
            continue;
        }
        left[template] -= 1;
        stays[template][peak] = true;
        taken.entry(distance).or_insert_with(|| Taken::new(distance)).add(template, middle);
    }
    // Behind the last peak that stays of a template no other peak of its own counts.
    if claims.iter().zip(&left).any(|(claims, left)| claims.is_cut && *left > 0) {
        return false;
    }
    for (claims, stays) in claims.iter_mut().zip(stays) {
        let mut stays = stays.into_iter();
        claims.peaks.retain(|_| stays.next().unwrap_or(false));
    }
    true
}

/// How many peaks of each of several templates are looked for, so that [`exclusive`] has enough of them: few at first,
/// of all templates together at most 262,144 or eight times what is asked for, and more where those were not enough.
///
/// ```
/// use flcc_core::peaks::{PeakOptions, Shortlist};
///
/// let best = PeakOptions { top: Some(3), ..PeakOptions::default() };
/// let list = Shortlist::new(best, 50_000);
/// assert_eq!(list.options(), PeakOptions { top: Some(24), ..best });
/// assert_eq!(list.longer().options(), PeakOptions { top: Some(192), ..best });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shortlist(PeakOptions);

impl Shortlist {
    /// Peaks of all templates together.
    const FIRST: usize = 1 << 18;
    /// How many times as many are looked for as are asked for, or as were not enough.
    const LONGER: usize = 8;

    /// The first list of each of so many templates, of whose peaks `options.top` are to stay.
    pub fn new(options: PeakOptions, templates: usize) -> Shortlist {
        let of_one = Self::FIRST / templates.max(1);
        let top = options.top.map(|top| if top == 0 { 0 } else { top.saturating_mul(Self::LONGER).max(of_one) });
        Shortlist(PeakOptions { top, ..options })
    }

    /// What each template is searched for with.
    pub fn options(&self) -> PeakOptions {
        self.0
    }

    /// The list for another search, where this one was not enough.
    #[must_use]
    pub fn longer(self) -> Shortlist {
        let top = self.0.top.map(|top| top.saturating_mul(Self::LONGER));
        Shortlist(PeakOptions { top, ..self.0 })
    }
}

/// The places of templates of one distance, in cells as wide as that, so that few lie in each.
struct Taken {
    width: i128,
    cells: HashMap<[i128; 3], Vec<(usize, [i128; 3])>>,
    /// The first and the last cell of each axis that has some.
    ends: [[i128; 2]; 3],
    count: usize,
}

impl Taken {
    fn new(distance: usize) -> Taken {
        Taken { width: 2 * (distance as i128 + 1), cells: HashMap::new(), ends: [[i128::MAX, i128::MIN]; 3], count: 0 }
    }

    fn add(&mut self, template: usize, middle: [i128; 3]) {
        let cell = middle.map(|at| at.div_euclid(self.width));
        for (ends, at) in self.ends.iter_mut().zip(cell) {
            *ends = [ends[0].min(at), ends[1].max(at)];
        }
        self.cells.entry(cell).or_default().push((template, middle));
        self.count += 1;
    }

    /// Whether a place of another template lies within a distance.
    fn near(&self, distance: usize, template: usize, middle: [i128; 3]) -> bool {
        let reach = 2 * distance as i128;
        let is_near = |(other, place): &(usize, [i128; 3])| {
            *other != template && place.iter().zip(middle).all(|(place, middle)| (place - middle).abs() <= reach)
        };
        let range = |axis: usize| {
            let [first, last] = [middle[axis] - reach, middle[axis] + reach].map(|at| at.div_euclid(self.width));
            first.max(self.ends[axis][0])..=last.min(self.ends[axis][1])
        };
        let along = |axis: usize| (range(axis).end() - range(axis).start() + 1).max(0);
        if (0..3).fold(1, |cells: i128, axis| cells.saturating_mul(along(axis))) > self.count as i128 {
            return self.cells.values().flatten().any(is_near);
        }
        let in_cell = |cell: [i128; 3]| self.cells.get(&cell).is_some_and(|places| places.iter().any(is_near));
        range(0).any(|z| range(1).any(|y| range(2).any(|x| in_cell([z, y, x]))))
    }
}

/// A search for the peaks of a map that is looked at part by part.
///
/// A part is a run of positions in row-major order. What is looked at must come with its neighbours: with
/// [`Search::reach`] positions more along the slowest axis on each side, where the map has as many.
#[derive(Clone, Debug)]
pub struct Search {
    shape: Shape,
    lengths: [usize; 3],
    best: Best,
    options: PeakOptions,
    /// How far from a peak no other may lie.
    distance: usize,
    optimum: bool,
    /// Where position 0 lies in what peaks are told of.
    origin: [usize; 3],
}

/// What a [`Search`] knows so far.
#[derive(Clone, Debug)]
pub struct Candidates<T> {
    found: Vec<Candidate<T>>,
    /// What the next have to reach.
    bar: Bar<T>,
    /// The best score, and how many positions attain it.
    optimum: Option<(T, usize)>,
    /// Cells of the part at hand: empty between two parts, kept for their memory.
    cells: Vec<Cell<T>>,
}

#[derive(Clone, Debug)]
struct Candidate<T> {
    index: usize,
    score: T,
    refined: Option<[f64; 3]>,
}

/// What a score has to reach.
#[derive(Clone, Copy, Debug)]
enum Bar<T> {
    /// Any number does.
    None,
    /// At least as good.
    From(T),
    /// Better.
    Over(T),
}

impl Search {
    /// A search in maps of a shape, of a template that is not known.
    pub fn new(shape: Shape, best: Best, options: PeakOptions) -> Search {
        Search::with(shape, best, None, options)
    }

    /// A search in the maps of a spec.
    pub fn of(spec: &Spec, options: PeakOptions) -> Search {
        Search::with(spec.out_shape(), spec.op().best(), Some(spec.template()), options)
    }

    /// A search in maps like this one.
    pub fn in_map(map: &ScoreMap, options: PeakOptions) -> Search {
        Search::with(map.shape(), map.best(), map.template(), options)
    }

    fn with(shape: Shape, best: Best, template: Option<Shape>, options: PeakOptions) -> Search {
        let distance = options.distance(template);
        Search { shape, lengths: shape.padded(), best, options, distance, optimum: false, origin: [0; 3] }
    }

    /// The same in a part of larger scores, which lies from `origin` on, padded to three axes with zeros in front:
    /// peaks are told by their positions in the whole. What is no peak there may be one in the part, near its ends.
    pub fn with_origin(self, origin: [usize; 3]) -> Search {
        Search { origin, ..self }
    }

    /// Whether positions that attain the best score are counted.
    pub fn with_optimum(self, optimum: bool) -> Search {
        Search { optimum, ..self }
    }

    /// How many positions along the slowest axis must be there on each side of those that are looked at.
    pub fn reach(&self) -> usize {
        let PeakOptions { top, subpixel, .. } = self.options;
        let suppression = if top == Some(0) || self.best_is_a_peak() { 0 } else { self.distance };
        suppression.max(subpixel.map_or(0, Subpixel::reach))
    }

    /// Whether the best of all is what is asked for: nothing suppresses it, nor the first of its equals.
    fn best_is_a_peak(&self) -> bool {
        self.options.top == Some(1) && self.options.exclude_border == 0
    }

    /// What is known before anything was looked at.
    pub fn candidates<T: Pixel>(&self) -> Candidates<T> {
        Candidates { found: Vec::new(), bar: self.threshold(), optimum: None, cells: Vec::new() }
    }

    /// Looks at positions of a map, of which scores from index `first` on are at hand: of all parts that were looked at
    /// into these candidates the last.
    ///
    /// # Panics
    /// If scores that it needs are not at hand.
    pub fn look<T: Pixel>(&self, scores: &[T], first: usize, positions: Range<usize>, into: &mut Candidates<T>) {
        match self.best {
            Best::Largest => Part::<T, false> { search: self, scores, first }.look(positions, into),
            Best::Smallest => Part::<T, true> { search: self, scores, first }.look(positions, into),
        }
    }

    /// What candidates of parts that cover the map make together.
    pub fn found<T: Pixel>(&self, parts: impl IntoIterator<Item = Candidates<T>>) -> Found {
        let mut all: Candidates<T> = self.candidates();
        for part in parts {
            all.found.extend(part.found);
            all.optimum = match (all.optimum, part.optimum) {
                (Some(a), Some(b)) if a.0 == b.0 => Some((a.0, a.1 + b.1)),
                (Some(a), Some(b)) if self.is_over(a.0, b.0) => Some(a),
                (a, b) => b.or(a),
            };
        }
        if let Some(top) = self.options.top {
            self.keep_best(&mut all.found, top);
        }
        all.found.sort_unstable_by(|a, b| self.order(a, b));
        let place = |index: usize| {
            let position = self.shape.position(index);
            [0, 1, 2].map(|axis| self.origin[axis] + position[axis])
        };
        let peak = |candidate: &Candidate<T>| Peak {
            position: self.shape.unpad(&place(candidate.index)),
            score: candidate.score.to_f64(),
            refined: candidate.refined.map(|refined| self.shape.unpad(&refined)),
        };
        // A zero is 0, whatever its sign.
        let optimum = all.optimum.map(|(score, count)| (score.to_f64() + 0.0, count));
        Found { peaks: all.found.iter().map(peak).collect(), optimum }
    }

    /// Searches a whole map.
    pub fn in_view(&self, scores: &AnyView<'_>) -> Found {
        fn whole<T: Pixel>(search: &Search, scores: &[T]) -> Found {
            let mut candidates = search.candidates();
            search.look(scores, 0, 0..search.shape.len(), &mut candidates);
            search.found([candidates])
        }
        each_type!(AnyView, scores, view => match view.as_dense().filter(|_| view.channels() == 1) {
            Some(scores) => whole(self, scores),
            None => whole(self, &view.channel(0).to_vec()),
        })
    }

    /// The threshold in the type of the scores.
    fn threshold<T: Pixel>(&self) -> Bar<T> {
        let Some(threshold) = self.options.threshold.filter(|threshold| !threshold.is_nan()) else { return Bar::None };
        let nearest = T::from_f64(threshold);
        let worse = match self.best {
            Best::Largest => nearest.to_f64() < threshold,
            Best::Smallest => nearest.to_f64() > threshold,
        };
        if worse { Bar::Over(nearest) } else { Bar::From(nearest) }
    }

    fn is_over<T: Pixel>(&self, score: T, other: T) -> bool {
        match self.best {
            Best::Largest => over::<T, false>(score, other),
            Best::Smallest => over::<T, true>(score, other),
        }
    }

    /// The better first, of equals the earlier. No candidate is NaN.
    fn order<T: Pixel>(&self, a: &Candidate<T>, b: &Candidate<T>) -> Ordering {
        let order = match self.best {
            Best::Largest => b.score.partial_cmp(&a.score),
            Best::Smallest => a.score.partial_cmp(&b.score),
        };
        order.unwrap_or(Ordering::Equal).then(a.index.cmp(&b.index))
    }

    /// Leaves the best so many; where there are as many, the last is the worst of them.
    fn keep_best<T: Pixel>(&self, found: &mut Vec<Candidate<T>>, top: usize) {
        if found.len() >= top && top > 0 {
            found.select_nth_unstable_by(top - 1, |a, b| self.order(a, b));
        }
        found.truncate(top);
    }
}

/// Whether a score is better than another; NaN is neither better nor worse.
#[inline(always)]
fn over<T: Pixel, const MINIMUM: bool>(score: T, other: T) -> bool {
    if MINIMUM { score < other } else { score > other }
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

/// Scores that are looked at together, in vectors.
const TOGETHER: usize = 32;

/// From this distance on, peaks are looked for cell by cell.
const LEAST_OF_CELLS: usize = 4;
/// Most columns of a strip of cells that are looked at together.
const STRIP: usize = 512;

/// A box of positions of one plane, no two of them further apart than the distance of a search, so that one of them at
/// most is a peak: the first that attains the best score.
#[derive(Clone, Debug)]
struct Cell<T> {
    best: T,
    /// Indices of its first row.
    columns: Range<usize>,
    rows: usize,
}

/// Whether any score is so, in vectors.
fn any_of<T: Copy>(scores: &[T], so: impl Fn(T) -> bool) -> bool {
    scores.chunks(TOGETHER).any(|chunk| chunk.iter().fold(false, |some, &score| some | so(score)))
}

/// The numbers of a range, from one of them outwards.
fn from_the_middle(range: Range<usize>, middle: usize) -> impl Iterator<Item = usize> {
    let (below, above) = (middle - range.start, range.end - middle);
    (0..above.max(below + 1)).flat_map(move |away| {
        let after = (away < above).then_some(middle + away);
        let before = (away > 0 && away <= below).then(|| middle - away);
        after.into_iter().chain(before)
    })
}

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

/// Of some positions those that lie in a box, as ranges of indices, row by row.
fn rows_of(
    [_, height, width]: [usize; 3],
    [planes, lines, along]: [Range<usize>; 3],
    positions: Range<usize>,
) -> impl Iterator<Item = Range<usize>> {
    // Of a map without positions there are no rows.
    let (first, last) = (positions.start / width.max(1), positions.end.div_ceil(width.max(1)));
    (first..last).filter_map(move |row| {
        let (z, y) = (row / height.max(1), row % height.max(1));
        let begin = (row * width + along.start).max(positions.start);
        let end = (row * width + along.end).min(positions.end);
        (planes.contains(&z) && lines.contains(&y) && begin < end).then_some(begin..end)
    })
}

/// Scores that are at hand, from an index on.
struct Part<'a, T, const MINIMUM: bool> {
    search: &'a Search,
    scores: &'a [T],
    first: usize,
}

impl<T: Pixel, const MINIMUM: bool> Part<'_, T, MINIMUM> {
    /// Scores by their indices in the map.
    fn at(&self, indices: Range<usize>) -> &[T] {
        &self.scores[indices.start - self.first..indices.end - self.first]
    }

    fn look(&self, positions: Range<usize>, into: &mut Candidates<T>) {
        self.choose(positions, into);
        let Some(fit) = self.search.options.subpixel else { return };
        // Only what may still be told is refined: a fit takes longer than finding a peak.
        if let Some(top) = self.search.options.top {
            self.search.keep_best(&mut into.found, top);
        }
        for candidate in into.found.iter_mut().filter(|candidate| candidate.refined.is_none()) {
            candidate.refined = Some(self.refined(fit, candidate.index));
        }
    }

    fn choose(&self, positions: Range<usize>, into: &mut Candidates<T>) {
        let (search, PeakOptions { top, .. }) = (self.search, self.search.options);
        let rows = || rows_of(search.lengths, search.options.inside(search.lengths), positions.clone());
        if search.optimum {
            rows().for_each(|row| self.count(self.at(row), &mut into.optimum));
        }
        if search.best_is_a_peak() {
            let scores = self.at(positions.clone());
            let best = best_of::<T, MINIMUM>(scores).filter(|best| passes::<T, MINIMUM>(*best, into.bar));
            if let Some(place) = best.and_then(|best| first_of(scores, best)) {
                into.bar = Bar::Over(scores[place]);
                into.found.clear();
                into.found.push(self.candidate(positions.start + place));
            }
            return;
        }
        if top != Some(0) {
            self.choose_in_rows(rows(), into);
        }
    }

    /// Takes the peaks among some rows.
    fn choose_in_rows(&self, rows: impl Iterator<Item = Range<usize>>, into: &mut Candidates<T>) {
        if self.search.distance >= LEAST_OF_CELLS {
            return self.choose_by_cells(rows, into);
        }
        for row in rows {
            // The ends of a row have fewer neighbours.
            let (first, last) = (self.row_of(row.start).start + 1, self.row_of(row.start).end - 1);
            let begin = row.start.max(first).min(row.end);
            let inner = begin..row.end.min(last).max(begin);
            self.choose_among(row.start..inner.start, false, into);
            for begin in inner.clone().step_by(TOGETHER) {
                self.choose_among(begin..inner.end.min(begin + TOGETHER), true, into);
            }
            self.choose_among(inner.end..row.end, false, into);
        }
    }

    /// Takes the peaks among some rows: of each cell the best at most. Where only some are asked for, the best cells
    /// come first, and those that cannot be among them are not looked at.
    fn choose_by_cells(&self, rows: impl Iterator<Item = Range<usize>>, into: &mut Candidates<T>) {
        let (top, distance) = (self.search.options.top, self.search.distance);
        let [_, h, w] = self.search.lengths;
        let mut cells = std::mem::take(&mut into.cells);
        let mut rows = rows.peekable();
        while let Some(first) = rows.next() {
            let mut count = 1;
            let next = |count: usize| first.start + count * w..first.end + count * w;
            let in_plane = |row: &Range<usize>| row.start / (h * w) == first.start / (h * w);
            while count <= distance && rows.next_if(|row| *row == next(count) && in_plane(row)).is_some() {
                count += 1;
            }
            self.cells(first, count, into.bar, &mut cells);
        }
        if top.is_some() {
            cells.sort_unstable_by(|a, b| match (self.search.is_over(a.best, b.best), a.best == b.best) {
                (true, _) => Ordering::Less,
                (_, true) => Ordering::Equal,
                _ => Ordering::Greater,
            });
        }
        for cell in cells.drain(..) {
            if !passes::<T, MINIMUM>(cell.best, into.bar) {
                break;
            }
            let row = |row: usize| cell.columns.start + row * w..cell.columns.end + row * w;
            let place = |row: Range<usize>| Some(row.start + first_of(self.at(row.clone()), cell.best)?);
            let index = (0..cell.rows).find_map(|number| place(row(number)));
            let Some(index) = index.filter(|index| self.stands_out(*index, distance)) else { continue };
            into.found.push(self.candidate(index));
            if let Some(top) = top.filter(|top| into.found.len() >= *top) {
                self.search.keep_best(&mut into.found, top);
                // Of cells with equal scores the later may hold the earlier position.
                into.bar = Bar::From(into.found[top - 1].score);
            }
        }
        into.cells = cells;
        if let (Some(top), Bar::From(bar)) = (top, into.bar)
            && into.found.len() >= top
        {
            // Positions of other parts are later, so they have to be better.
            into.bar = Bar::Over(bar);
        }
    }

    /// The cells of a strip of so many rows, the first of which is given, whose best passes a bar.
    fn cells(&self, first: Range<usize>, rows: usize, bar: Bar<T>, into: &mut Vec<Cell<T>>) {
        let side = self.search.distance.saturating_add(1).min(STRIP);
        let worst = T::from_f64(if MINIMUM { f64::INFINITY } else { f64::NEG_INFINITY });
        let mut room = [worst; STRIP];
        for begin in first.clone().step_by(STRIP / side * side) {
            let end = first.end.min(begin + STRIP / side * side);
            let lanes = match rows {
                1 => self.at(begin..end),
                _ => {
                    let lanes = &mut room[..end - begin];
                    self.best_of_columns(begin, rows, lanes);
                    &*lanes
                }
            };
            if !any_of(lanes, |best| passes::<T, MINIMUM>(best, bar)) {
                continue;
            }
            for (number, lanes) in lanes.chunks(side).enumerate() {
                let better = |best: T, &score: &T| if over::<T, MINIMUM>(score, best) { score } else { best };
                let best = lanes.iter().fold(worst, better);
                if passes::<T, MINIMUM>(best, bar) {
                    let start = begin + number * side;
                    into.push(Cell { best, columns: start..start + lanes.len(), rows });
                }
            }
        }
    }

    /// The best scores of columns that begin at an index and have so many rows; the worst there is where no number is.
    fn best_of_columns(&self, begin: usize, rows: usize, best: &mut [T]) {
        let w = self.search.lengths[2];
        let worst = T::from_f64(if MINIMUM { f64::INFINITY } else { f64::NEG_INFINITY });
        let meet = |lanes: &mut [T], scores: &[T]| {
            for (lane, &score) in lanes.iter_mut().zip(scores) {
                *lane = if over::<T, MINIMUM>(score, *lane) { score } else { *lane };
            }
        };
        let (chunks, rest) = best.as_chunks_mut::<TOGETHER>();
        let behind = begin + chunks.len() * TOGETHER;
        for (number, chunk) in chunks.iter_mut().enumerate() {
            // Of a fixed number, so that they stay in registers.
            let (mut lanes, begin) = ([worst; TOGETHER], begin + number * TOGETHER);
            for row in 0..rows {
                let from = begin + row * w;
                let (scores, _) = self.at(from..from + TOGETHER).as_chunks::<TOGETHER>();
                scores.iter().for_each(|scores| meet(&mut lanes, scores));
            }
            *chunk = lanes;
        }
        rest.fill(worst);
        for row in 0..rows {
            let from = behind + row * w;
            meet(rest, self.at(from..from + rest.len()));
        }
    }

    /// Takes the peaks among some positions of a row, at most [`TOGETHER`] where they are `inner`: neither the first
    /// nor the last.
    fn choose_among(&self, positions: Range<usize>, inner: bool, into: &mut Candidates<T>) {
        let scores = self.at(positions.clone());
        if !scores.iter().fold(false, |some, &score| some | passes::<T, MINIMUM>(score, into.bar)) {
            return;
        }
        let summits = (inner && self.search.distance > 0 && !T::DTYPE.is_integer())
            .then(|| self.summits(positions.start, scores));
        let (top, distance) = (self.search.options.top, self.search.distance);
        for (place, &score) in scores.iter().enumerate() {
            let (summit, index) = (summits.as_ref().is_none_or(|summits| summits[place]), positions.start + place);
            if !summit || !passes::<T, MINIMUM>(score, into.bar) || distance > 0 && !self.stands_out(index, 1) {
                continue;
            }
            if distance > 1 && !self.stands_out(index, distance) {
                continue;
            }
            into.found.push(self.candidate(index));
            if let Some(top) = top.filter(|top| into.found.len() >= top.saturating_mul(2)) {
                // Those to come are later, so they have to be better.
                self.search.keep_best(&mut into.found, top);
                into.bar = Bar::Over(into.found[top - 1].score);
            }
        }
    }

    /// The row that a position lies in.
    fn row_of(&self, index: usize) -> Range<usize> {
        let width = self.search.lengths[2];
        index / width * width..(index / width + 1) * width
    }

    /// Which of some positions of a row, none of them the first or the last, may be better than all neighbours: in
    /// vectors, and surely not the others. Of floats.
    fn summits(&self, begin: usize, scores: &[T]) -> [bool; TOGETHER] {
        let [depth, h, w] = self.search.lengths;
        let (z, y) = (begin / (h * w), begin / w % h);
        let worst = T::from_f64(if MINIMUM { f64::INFINITY } else { f64::NEG_INFINITY });
        let (mut own, mut before, mut after) = ([worst; TOGETHER], [worst; TOGETHER], [worst; TOGETHER]);
        own[..scores.len()].copy_from_slice(scores);
        let meet = |best: &mut [T; TOGETHER], from: usize| {
            for (best, &other) in best.iter_mut().zip(self.at(from..from + scores.len())) {
                *best = if over::<T, MINIMUM>(other, *best) { other } else { *best };
            }
        };
        for plane in z.saturating_sub(1)..(z + 2).min(depth) {
            for line in y.saturating_sub(1)..(y + 2).min(h) {
                let from = begin + (plane * h + line) * w - (z * h + y) * w;
                match (plane, line).cmp(&(z, y)) {
                    Ordering::Less => [from - 1, from, from + 1].iter().for_each(|&from| meet(&mut before, from)),
                    Ordering::Greater => [from - 1, from, from + 1].iter().for_each(|&from| meet(&mut after, from)),
                    Ordering::Equal => {
                        meet(&mut before, from - 1);
                        meet(&mut after, from + 1);
                    }
                }
            }
        }
        // Of equal scores the earlier is better; the worst score of all may have no neighbour at all.
        std::array::from_fn(|k| {
            let beaten = over::<T, MINIMUM>(after[k], own[k]) | over::<T, MINIMUM>(before[k], own[k]);
            !beaten & ((before[k] != own[k]) | (own[k] == worst))
        })
    }

    /// Counts how many scores attain the best of these and those before.
    fn count(&self, scores: &[T], optimum: &mut Option<(T, usize)>) {
        let Some(best) = best_of::<T, MINIMUM>(scores) else { return };
        let attained = || scores.iter().filter(|score| **score == best).count();
        match optimum {
            Some((before, _)) if over::<T, MINIMUM>(*before, best) => {}
            Some((before, count)) if *before == best => *count += attained(),
            _ => *optimum = Some((best, attained())),
        }
    }

    fn stands_out(&self, index: usize, distance: usize) -> bool {
        let lengths = self.search.lengths;
        let [_, h, w] = lengths;
        let (position, score) = ([index / (h * w), index / w % h, index % w], self.scores[index - self.first]);
        let range = |axis: usize| {
            position[axis].saturating_sub(distance)
                ..position[axis].saturating_add(distance).saturating_add(1).min(lengths[axis])
        };
        let along = range(2);
        let stands_out = |z: usize, y: usize| {
            let row = (z * h + y) * w;
            let (begin, end) = (row + along.start, row + along.end);
            // Of equal scores the earlier is better.
            let middle = index.clamp(begin, end);
            !any_of(self.at(begin..middle), |other| over::<T, MINIMUM>(other, score) | (other == score))
                && !any_of(self.at(middle..end), |other| over::<T, MINIMUM>(other, score))
        };
        // What is better is mostly near.
        from_the_middle(range(0), position[0]).all(|z| from_the_middle(range(1), position[1]).all(|y| stands_out(z, y)))
    }

    fn candidate(&self, index: usize) -> Candidate<T> {
        Candidate { index, score: self.scores[index - self.first], refined: None }
    }

    /// The position of a peak below a sample.
    fn refined(&self, fit: Subpixel, index: usize) -> [f64; 3] {
        let lengths = self.search.lengths;
        let [_, h, w] = lengths;
        let position = [index / (h * w), index / w % h, index % w];
        let value = |index: usize| towards(self.search.best, self.scores[index - self.first].to_f64());
        let away = subpixel::offset(fit, value, lengths, position);
        [0, 1, 2].map(|axis| (self.search.origin[axis] + position[axis]) as f64 + away[axis])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Pixels};
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
        let minimum = map.best() == Best::Smallest;
        let value = |index: usize| if minimum { 0.0 - map.get(index) } else { map.get(index) + 0.0 };
        let apart = |a: [usize; 3], b: [usize; 3]| (0..3).map(|axis| a[axis].abs_diff(b[axis])).max().unwrap_or(0);
        let in_border = |position: [usize; 3]| {
            let border = options.exclude_border;
            (0..3).any(|axis| {
                lengths[axis] > 1 && (position[axis] < border || lengths[axis] - 1 - position[axis] < border)
            })
        };
        let is_peak = |&index: &usize| {
            let (position, own) = (shape.position(index), value(index));
            let reached =
                options.threshold.is_none_or(|bar| if minimum { map.get(index) <= bar } else { map.get(index) >= bar });
            let beaten = |other: usize| value(other) > own || (value(other) == own && other < index);
            let near = |other: &usize| {
                *other != index && apart(position, shape.position(*other)) <= options.distance(map.template())
            };
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
            (tall, wide) in (prop::sample::select(&[0, 0, 12][..]), 0usize..80),
            levels in 1i32..9,
            seed in 0u64..1000,
            top in prop::option::of(0usize..6),
            threshold in prop::option::of(-5.0f64..5.0),
            min_distance in prop::option::of(prop::sample::select(&[0, 1, 2, 3, 4, 5, 8, usize::MAX][..])),
            template in prop::option::of(1usize..19),
            exclude_border in 0usize..3,
            (minimum, single) in (any::<bool>(), any::<bool>()),
            subpixel in prop::option::of(prop::sample::select(&Subpixel::ALL[..])),
            (slices, workers) in (1usize..5, 1usize..4),
        ) {
            let lengths = [lengths[0], lengths[1] + tall, lengths[2] + wide];
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
            let best = if minimum { Best::Smallest } else { Best::Largest };
            let map = ScoreMap::new(region, pixels).unwrap().with_best(best);
            let side = template.map(|side| Shape::new(&[side, 19, 19]).unwrap());
            let map = side.map_or(map.clone(), |side| map.with_template(side));
            let options = PeakOptions { top, threshold, min_distance, exclude_border, subpixel };
            let index = |at: &[usize]| (at[0] * lengths[1] + at[1]) * lengths[2] + at[2];
            let peaks = find_peaks(&map, &options);
            let found: Vec<usize> = peaks.iter().map(|peak| index(&peak.position)).collect();
            prop_assert_eq!(found, by_definition(&map, &options));
            let all = PeakOptions { top: None, threshold: None, min_distance: Some(0), ..options };
            let scores = by_definition(&map, &all);
            let best = scores.first().map(|&index| {
                let best = map.get(index) + 0.0;
                (best, scores.iter().filter(|index| map.get(**index) + 0.0 == best).count())
            });
            prop_assert_eq!(count_optimum_inside(&map, exclude_border), best);

            // In parts that have no more at hand than they need, by turns into the candidates of several workers.
            let search = Search::in_map(&map, options).with_optimum(true);
            let slice = lengths[1] * lengths[2];
            let all: Vec<f64> = (0..map.shape().len()).map(|index| map.get(index)).collect();
            let mut parts = vec![search.candidates(); workers];
            for (turn, begin) in (0..lengths[0]).step_by(slices).enumerate() {
                let end = (begin + slices).min(lengths[0]);
                let reach = search.reach();
                let (from, to) = (begin.saturating_sub(reach), end.saturating_add(reach).min(lengths[0]));
                let part = &mut parts[turn % workers];
                search.look(&all[from * slice..to * slice], from * slice, begin * slice..end * slice, part);
            }
            let by_parts = search.found(parts);
            prop_assert_eq!(format!("{:?}", by_parts.peaks), format!("{:?}", peaks));
            prop_assert_eq!(by_parts.optimum, best);
        }
    }

    /// The definition of [`exclusive`], pair by pair, with middles as halves.
    fn exclusive_by_definition(
        templates: &[(Spec, Vec<Peak>)],
        options: &PeakOptions,
        top: Option<usize>,
    ) -> Vec<Vec<Peak>> {
        let distance = |index: usize| options.distance(Some(templates[index].0.template())) as f64;
        let middle = |index: usize, peak: &Peak| -> Vec<f64> {
            let (spec, lengths) = (&templates[index].0, templates[index].0.template().lengths().to_vec());
            let first = spec.template().unpad(&spec.region().first_place(spec.template()));
            (0..lengths.len())
                .map(|k| first[k] as f64 + peak.position[k] as f64 + (lengths[k] as f64 - 1.0) / 2.0)
                .collect()
        };
        let minimum = templates[0].0.op().best() == Best::Smallest;
        let mut turns: Vec<(f64, usize, &Peak)> = Vec::new();
        for (index, (_, peaks)) in templates.iter().enumerate() {
            turns.extend(peaks.iter().map(|peak| (if minimum { peak.score } else { -peak.score }, index, peak)));
        }
        turns.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap().then(a.1.cmp(&b.1)).then(a.2.position.cmp(&b.2.position)));
        let mut stayed: Vec<(usize, &Peak)> = Vec::new();
        for (_, index, peak) in turns {
            let near = |&(other, before): &(usize, &Peak)| {
                let apart = middle(other, before).into_iter().zip(middle(index, peak)).map(|(a, b)| (a - b).abs());
                other != index && apart.fold(0.0, f64::max) <= distance(other).max(distance(index))
            };
            let own = stayed.iter().filter(|(other, _)| *other == index).count();
            if top.is_none_or(|top| own < top) && !stayed.iter().any(near) {
                stayed.push((index, peak));
            }
        }
        let of = |index: usize| {
            stayed.iter().filter(|(other, _)| *other == index).map(|(_, peak)| (*peak).clone()).collect()
        };
        (0..templates.len()).map(of).collect()
    }

    proptest! {
        #[test]
        fn no_place_is_left_to_two_templates(
            sides in prop::collection::vec((1usize..7, 1usize..12), 1..5),
            mode in prop::sample::select(&["full", "same", "valid"][..]),
            measure in prop::sample::select(&["zncc", "ssd"][..]),
            (levels, seed) in (2u64..40, 0u64..1000),
            min_distance in prop::option::of(prop::sample::select(&[0, 1, 2, 5, 100, usize::MAX][..])),
            top in prop::option::of(0usize..6),
        ) {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut draw = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 40) % levels) as f64
            };
            let options = PeakOptions { min_distance, ..PeakOptions::default() };
            let mut templates: Vec<(Spec, Vec<Peak>)> = sides.iter().map(|(h, w)| {
                let spec: Spec = format!("{measure}:f64:14x17*{h}x{w}:{mode}").parse().unwrap();
                let data = Pixels::F64((0..spec.out_shape().len()).map(|_| draw()).collect());
                let map = ScoreMap::new(spec.region(), data).unwrap().with_best(spec.op().best());
                let peaks = find_peaks(&map.with_template(spec.template()), &options);
                (spec, peaks)
            }).collect();
            let expected = exclusive_by_definition(&templates, &options, top);
            let all = templates.clone();
            let mut claims: Vec<Claims<'_>> =
                templates.iter_mut().map(|(spec, peaks)| Claims::new(spec, &options, peaks)).collect();
            prop_assert!(exclusive(&mut claims, top));
            // What stays stays again.
            let once: Vec<Vec<Peak>> = claims.iter().map(|claims| claims.peaks.clone()).collect();
            prop_assert!(exclusive(&mut claims, top));
            let twice: Vec<Vec<Peak>> = templates.into_iter().map(|(_, peaks)| peaks).collect();
            prop_assert_eq!(&once, &expected);
            prop_assert_eq!(&twice, &expected);
            // Lists of any length give the same, or say that they are too short and stay as they are.
            for length in (0..).map(|step| 1usize << step) {
                let options = PeakOptions { top: Some(length), ..options };
                let mut short = all.clone();
                short.iter_mut().for_each(|(_, peaks)| peaks.truncate(length));
                let given: Vec<Vec<Peak>> = short.iter().map(|(_, peaks)| peaks.clone()).collect();
                let mut claims: Vec<Claims<'_>> =
                    short.iter_mut().map(|(spec, peaks)| Claims::new(spec, &options, peaks)).collect();
                let enough = exclusive(&mut claims, top);
                let left: Vec<Vec<Peak>> = short.into_iter().map(|(_, peaks)| peaks).collect();
                prop_assert_eq!(&left, if enough { &expected } else { &given }, "lists of {}", length);
                if length > 14 * 17 * 6 {
                    prop_assert!(enough);
                    break;
                }
            }
        }
    }

    #[test]
    fn places_of_templates_of_two_sizes_are_those_of_their_middles() {
        let peak = |at: usize, score: f64| Peak { position: vec![at], score, refined: None };
        let [long, short]: [Spec; 2] =
            ["zncc:u8:100*21:valid", "zncc:u8:100*5:valid"].map(|text| text.parse().unwrap());
        let left = |score: f64, at: usize| {
            let (mut a, mut b) = (vec![peak(40, 0.5)], vec![peak(at, score)]);
            let options = PeakOptions::default();
            let mut claims = [Claims::new(&long, &options, &mut a), Claims::new(&short, &options, &mut b)];
            assert!(exclusive(&mut claims, None));
            (a.len(), b.len())
        };
        // The long one's middle is 50 and its distance 10; the short one's middle lies 2 behind its first sample.
        for (at, stays) in [(37, 1), (38, 0), (48, 0), (58, 0), (59, 1)] {
            assert_eq!(left(0.4, at), (1, stays), "{at}");
            assert_eq!(left(0.6, at), (stays, 1), "{at}");
            // Of equals the earlier template is the better.
            assert_eq!(left(0.5, at), (1, stays), "{at}");
        }
        assert!(exclusive(&mut [], None));
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
        assert_eq!(
            positions(&line, &PeakOptions { min_distance: Some(2), ..PeakOptions::default() }),
            [vec![8], vec![3]]
        );
        assert_eq!(
            positions(&line, &PeakOptions { min_distance: Some(0), top: Some(2), ..PeakOptions::default() }),
            [vec![8], vec![3]]
        );
        assert_eq!(positions(&line, &PeakOptions { exclude_border: 2, ..PeakOptions::default() }), [vec![3], vec![5]]);
    }

    #[test]
    fn the_distance_is_half_the_template_where_none_is_named() {
        let distance = |template: &[usize]| PeakOptions::default().distance(Some(Shape::new(template).unwrap()));
        assert_eq!([&[52, 40][..], &[9], &[3, 50, 50], &[1, 500]].map(distance), [20, 4, 1, 1]);
        assert_eq!(PeakOptions::default().distance(None), 1);
        assert_eq!(PeakOptions { min_distance: Some(0), ..PeakOptions::default() }.distance(None), 0);
        let line = map(&[7], &[0.0, 5.0, 0.0, 7.0, 0.0, 6.0, 0.0]);
        assert_eq!(positions(&line, &PeakOptions::default()), [vec![3], vec![5], vec![1]]);
        let line = line.with_template(Shape::new(&[4]).unwrap());
        assert_eq!(positions(&line, &PeakOptions::default()), [vec![3]]);
    }

    #[test]
    fn a_plateau_is_one_peak() {
        assert_eq!(positions(&map(&[3, 4], &[1.0; 12]), &PeakOptions::default()), [vec![0, 0]]);
        assert_eq!(
            positions(&map(&[2, 3, 3], &[-0.0; 18]).with_best(Best::Smallest), &PeakOptions::default()),
            [vec![0, 0, 0]]
        );
    }

    #[test]
    fn minima_are_found_as_maxima_are() {
        let line = map(&[5], &[3.0, 1.0, 4.0, 0.5, 2.0]).with_best(Best::Smallest);
        let options = PeakOptions { threshold: Some(0.9), ..PeakOptions::default() };
        assert_eq!(positions(&line, &options), [vec![3]]);
        assert_eq!(count_optimum(&line), Some((0.5, 1)));
        assert_eq!(count_optimum(&line.with_best(Best::Largest)), Some((4.0, 1)));
        assert_eq!(count_optimum(&map(&[4], &[2.0, 7.0, 7.0, f64::NAN])), Some((7.0, 2)));
        assert_eq!(count_optimum(&map(&[1], &[f64::NAN])), None);
    }

    #[test]
    fn a_border_is_left_out_of_peaks_and_counts() {
        let inner = |map: &ScoreMap, border: usize| {
            let peaks = find_peaks(
                map,
                &PeakOptions { exclude_border: border, min_distance: Some(0), ..PeakOptions::default() },
            );
            (peaks.len(), count_optimum_inside(map, border))
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
        assert_eq!(count_optimum_inside(&plane.with_best(Best::Smallest), 1), Some((0.0, 1)));
    }
}
