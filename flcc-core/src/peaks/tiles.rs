//! A search of a map whose tiles come one by one, in any order, to several threads, each in a buffer that the next tile
//! overwrites. Nothing of a tile is kept but its peaks, and of what lies near its seams the scores that may count.
//!
//! **Why that is enough.** Only a better score beats another. What does not reach the bar (the threshold, or the worst
//! of as many peaks as are asked for) is no peak that is told, and beats none: of two equal scores at the bar the
//! earlier is taken, and what it would beat comes later still.

use std::ops::Range;

use super::{Bar, Candidate, Candidates, Found, Part, Search, any_of, best_of, first_of, over, passes, rows_of};
use crate::dtype::Pixel;
use crate::measure::Best;

/// Scores near the seams of a tile that are always kept; few in tests, whose tiles are small.
const FEW: usize = if cfg!(test) { 4 } else { 1 << 10 };
/// Of more of them no more than one in so many positions.
const SPARSE: usize = 16;

/// Where more than one in so many positions of the first tile reaches a threshold, peaks are too many for tiles.
const DENSE: usize = 32;

/// A box of a map.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Its first position.
    pub place: [usize; 3],
    /// Its positions along each axis.
    pub lengths: [usize; 3],
}

/// A score that reaches the bar, near a seam.
#[derive(Clone, Copy, Debug)]
struct Near<T> {
    index: usize,
    score: T,
    /// Whether it is a peak, as far as its own tile shows.
    open: bool,
}

/// What one thread knows of its tiles.
#[derive(Debug)]
pub struct Gathered<T> {
    /// Peaks, with indices of the map.
    peaks: Candidates<T>,
    /// The worst of as many peaks as are asked for, of this thread or all: what others have to be better than.
    worst: Option<Worst<T>>,
    /// Peaks that other threads have not heard of.
    fresh: Vec<Candidate<T>>,
    near: Vec<Near<T>>,
    /// Tiles of whose seams too many scores reach the bar, until it is higher.
    waiting: Vec<(Tile, Vec<T>)>,
    /// What it may hold.
    room: Room,
    /// Positions that it looked at.
    seen: usize,
}

/// A peak that sets the bar: its score and its index.
type Worst<T> = (T, usize);

/// The best peaks of all threads, as many as are asked for.
#[derive(Debug)]
pub struct Shared<T>(Vec<Candidate<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared(Vec::new())
    }
}

/// What a thread may hold beside its peaks.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Scores near seams, once it looked at all of its positions. Before, it may hold an eighth of them, and of the
    /// others as many as it looked at positions: too many are to be noticed soon.
    pub near: usize,
    /// Positions that it looks at, if all threads are as fast.
    pub positions: usize,
    /// Tiles that wait.
    pub waiting: usize,
}

impl Room {
    /// How many scores near seams it may hold behind so many positions.
    fn near_after(&self, seen: usize) -> usize {
        let early = self.near / 8;
        let share = (seen as f64 / self.positions.max(1) as f64).min(1.0);
        (early + ((self.near - early) as f64 * share) as usize).max(FEW)
    }
}

impl Search {
    /// Whether tiles of such lengths can be searched one by one: where nothing is looked at across a seam but to see
    /// whether a peak is beaten, and most positions are far from seams. `split` says along which axes there are seams.
    pub fn takes_tiles(&self, lengths: [usize; 3], split: [bool; 3]) -> bool {
        let options = &self.options;
        if options.subpixel.is_some() {
            return false;
        }
        if self.reach() == 0 {
            return true;
        }
        let (mut kept, mut most) = (1.0, 1);
        for axis in 0..3 {
            let far = lengths[axis].saturating_sub(if split[axis] { 2 * self.distance.min(lengths[axis]) } else { 0 });
            kept *= far as f64 / lengths[axis].max(1) as f64;
            most *= far.div_ceil(2 * self.distance.min(far) + 1);
        }
        // A tile or two have to have as many peaks as are asked for, before it is known what the others have to reach.
        kept >= 0.25 && (options.threshold.is_some() || options.top.is_some_and(|top| top <= 2 * most))
    }

    /// What a thread knows before its first tile.
    pub fn gathered<T: Pixel>(&self, room: Room) -> Gathered<T> {
        let peaks = self.candidates();
        Gathered { peaks, worst: None, fresh: Vec::new(), near: Vec::new(), waiting: Vec::new(), room, seen: 0 }
    }

    /// Tells all what one thread found since, and that one what the worst is that counts.
    pub fn share<T: Pixel>(&self, one: &mut Gathered<T>, all: &mut Shared<T>) {
        let Some(top) = self.options.top else { return };
        if !one.fresh.is_empty() {
            all.0.append(&mut one.fresh);
            self.keep_best(&mut all.0, top);
        }
        one.worst = self.worst(&all.0).or(one.worst);
    }

    /// The worst of as many peaks as are asked for: the last that [`Search::keep_best`] left.
    fn worst<T: Pixel>(&self, peaks: &[Candidate<T>]) -> Option<Worst<T>> {
        let worst = peaks.get(self.options.top?.checked_sub(1)?)?;
        Some((worst.score, worst.index))
    }

    /// Looks at a tile, whose scores lie row-major and may be taken away; `false` says that there is no room for what
    /// would have to be kept of it.
    #[must_use]
    pub fn gather<T: Pixel>(&self, tile: Tile, scores: &mut Vec<T>, into: &mut Gathered<T>) -> bool {
        match self.best {
            Best::Largest => self.gather_as::<T, false>(tile, scores, into),
            Best::Smallest => self.gather_as::<T, true>(tile, scores, into),
        }
    }

    fn gather_as<T: Pixel, const MINIMUM: bool>(
        &self,
        tile: Tile,
        scores: &mut Vec<T>,
        into: &mut Gathered<T>,
    ) -> bool {
        let here = Here::<MINIMUM>::new(self, tile);
        let positions = &scores[..tile.lengths.iter().product()];
        into.seen += positions.len();
        if self.optimum {
            let part = here.part(positions);
            let allowed = rows_of(tile.lengths, here.allowed.clone(), 0..positions.len());
            allowed.for_each(|row| part.count(part.at(row), &mut into.peaks.optimum));
        }
        if self.options.top == Some(0) {
            return true;
        }
        // Most tiles have nothing that counts, and this is all that is done with them.
        let bar = self.bar_from(here.index(0), into.worst);
        let Some(best) = best_of::<T, MINIMUM>(positions).filter(|best| passes::<T, MINIMUM>(*best, bar)) else {
            return true;
        };
        if self.best_is_a_peak() {
            if let Some(place) = first_of(positions, best) {
                let (index, score) = (here.index(place), positions[place]);
                let first = into.peaks.found.first();
                // What is equal may come from a tile before.
                if first.is_none_or(|first| over::<T, MINIMUM>(score, first.score) || index < first.index) {
                    into.peaks.found = vec![Candidate { index, score, refined: None }];
                    into.fresh.clone_from(&into.peaks.found);
                    into.worst = Some((score, index));
                }
            }
            return true;
        }
        if self.options.top.is_none() && into.seen == positions.len() {
            let reached = positions.iter().filter(|score| passes::<T, MINIMUM>(**score, bar)).count();
            if reached > (positions.len() / DENSE).max(FEW) {
                return false;
            }
        }
        let cells = std::mem::take(&mut into.peaks.cells);
        let mut mine = Candidates { found: Vec::new(), bar, optimum: None, cells };
        let rows = rows_of(tile.lengths, here.far_and_allowed(), 0..positions.len());
        here.part(positions).choose_in_rows(rows, &mut mine);
        into.peaks.cells = mine.cells;
        let mut found = mine.found;
        found.iter_mut().for_each(|peak| peak.index = here.index(peak.index));
        into.peaks.found.extend_from_slice(&found);
        if let Some(top) = self.options.top {
            into.fresh.append(&mut found);
            self.keep_best(&mut into.peaks.found, top);
            // That of all threads may be better.
            let own = self.worst(&into.peaks.found).filter(|worst| self.bar_beats(*worst, into.worst));
            into.worst = own.or(into.worst);
        }
        if !into.waiting.is_empty() && into.worst.is_some() {
            self.settle::<T, MINIMUM>(into);
        }
        // Without a bar all that is near counts.
        let has_bar = into.worst.is_some() || !matches!(bar, Bar::None);
        let most = into.room.near_after(into.seen);
        // Without a number that is asked for the bar stays where it is.
        let waits = self.options.top.is_some() && into.waiting.len() < into.room.waiting;
        if has_bar || !waits {
            let full = !here.keep_near(positions, SPARSE, most, into);
            let is_kept = !full
                || into.worst.is_some() && {
                    self.forget::<T, MINIMUM>(into);
                    here.keep_near(positions, SPARSE, most, into)
                };
            if is_kept {
                return true;
            }
        }
        if waits {
            into.waiting.push((tile, std::mem::take(scores)));
        }
        waits
    }

    /// Leaves what no longer reaches the bar.
    fn forget<T: Pixel, const MINIMUM: bool>(&self, into: &mut Gathered<T>) {
        into.near.retain(|near| passes::<T, MINIMUM>(near.score, self.bar_from(near.index, into.worst)));
    }

    /// Looks again at tiles that wait.
    fn settle<T: Pixel, const MINIMUM: bool>(&self, into: &mut Gathered<T>) {
        self.forget::<T, MINIMUM>(into);
        let most = into.room.near_after(into.seen);
        for (tile, scores) in std::mem::take(&mut into.waiting) {
            if !Here::<MINIMUM>::new(self, tile).keep_near(&scores, SPARSE, most, into) {
                into.waiting.push((tile, scores));
            }
        }
    }

    /// What scores from an index on have to reach.
    fn bar_from<T: Pixel>(&self, index: usize, worst: Option<Worst<T>>) -> Bar<T> {
        match worst {
            None => self.threshold(),
            Some((score, last)) if index > last => Bar::Over(score),
            Some((score, _)) => Bar::From(score),
        }
    }

    /// Whether a peak sets a higher bar than another.
    fn bar_beats<T: Pixel>(&self, (score, index): Worst<T>, other: Option<Worst<T>>) -> bool {
        other.is_none_or(|other| self.is_over(score, other.0) || score == other.0 && index < other.1)
    }

    /// What threads found whose tiles make up the map.
    pub fn found_in_tiles<T: Pixel>(&self, parts: Vec<Gathered<T>>) -> Found {
        match self.best {
            Best::Largest => self.found_in_tiles_as::<T, false>(parts),
            Best::Smallest => self.found_in_tiles_as::<T, true>(parts),
        }
    }

    fn found_in_tiles_as<T: Pixel, const MINIMUM: bool>(&self, mut parts: Vec<Gathered<T>>) -> Found {
        let mut all: Vec<Candidate<T>> = parts.iter().flat_map(|part| part.peaks.found.iter().cloned()).collect();
        if let Some(top) = self.options.top {
            self.keep_best(&mut all, top);
        }
        let (worst, mut near) = (self.worst(&all), Vec::new());
        for part in &mut parts {
            part.worst = worst;
            for (tile, scores) in std::mem::take(&mut part.waiting) {
                Here::<MINIMUM>::new(self, tile).keep_near(&scores, 1, usize::MAX, part);
            }
            near.append(&mut part.near);
        }
        // What is below the bar beats nothing that is told.
        near.retain(|one| passes::<T, MINIMUM>(one.score, self.bar_from(one.index, worst)));
        // Those of each tile are in order.
        near.sort_by_key(|near| near.index);
        let mut peaks: Vec<Candidates<T>> = parts.into_iter().map(|part| part.peaks).collect();
        let stays = |one: &&Near<T>| one.open && !self.is_beaten::<T, MINIMUM>(one, &near);
        let open = near.iter().filter(stays).map(|one| Candidate { index: one.index, score: one.score, refined: None });
        peaks.push(Candidates { found: open.collect(), ..self.candidates() });
        self.found(peaks)
    }

    /// Whether a score within the distance of one, of all that are sorted by index, beats it.
    fn is_beaten<T: Pixel, const MINIMUM: bool>(&self, one: &Near<T>, near: &[Near<T>]) -> bool {
        let ([_, h, w], at) = (self.lengths, self.position(one.index));
        let range = |axis: usize| {
            at[axis].saturating_sub(self.distance)
                ..at[axis].saturating_add(self.distance).saturating_add(1).min(self.lengths[axis])
        };
        let beats = |other: &Near<T>| {
            over::<T, MINIMUM>(other.score, one.score) || other.score == one.score && other.index < one.index
        };
        let (lines, along) = (range(1), range(2));
        range(0).any(|z| {
            lines.clone().any(|y| {
                let row = (z * h + y) * w;
                let begin = near.partition_point(|other| other.index < row + along.start);
                near[begin..].iter().take_while(|other| other.index < row + along.end).any(beats)
            })
        })
    }
}

/// A tile in the search of its map.
struct Here<'a, const MINIMUM: bool> {
    search: &'a Search,
    tile: Tile,
    /// The same search in the tile alone.
    own: Search,
    /// Positions of the tile that may be peaks.
    allowed: [Range<usize>; 3],
    /// Positions of the tile with all that lies around them within the distance, as far as the map has it.
    far: [Range<usize>; 3],
}

impl<'a, const MINIMUM: bool> Here<'a, MINIMUM> {
    fn new(search: &'a Search, tile: Tile) -> Here<'a, MINIMUM> {
        let (Tile { place, lengths }, whole) = (tile, search.lengths);
        let allowed = search.options.inside(whole);
        let allowed = [0, 1, 2].map(|axis| {
            let [from, to] =
                [allowed[axis].start, allowed[axis].end].map(|at| at.saturating_sub(place[axis]).min(lengths[axis]));
            from..to.max(from)
        });
        let reach = search.reach();
        let far = [0, 1, 2].map(|axis| {
            let from = if place[axis] > 0 { reach.min(lengths[axis]) } else { 0 };
            let seam = place[axis] + lengths[axis] < whole[axis];
            let to = if seam { lengths[axis].saturating_sub(reach) } else { lengths[axis] };
            from..to.max(from)
        });
        let own = Search { lengths, ..search.clone() };
        Here { search, tile, own, allowed, far }
    }

    fn part<'p, T: Pixel>(&'p self, scores: &'p [T]) -> Part<'p, T, MINIMUM> {
        Part { search: &self.own, scores, first: 0 }
    }

    /// The index in the map of one in the tile.
    fn index(&self, own: usize) -> usize {
        let (at, [_, h, w]) = (self.own.position(own), self.search.lengths);
        let [z, y, x] = [0, 1, 2].map(|axis| self.tile.place[axis] + at[axis]);
        (z * h + y) * w + x
    }

    fn far_and_allowed(&self) -> [Range<usize>; 3] {
        [0, 1, 2].map(|axis| {
            let (far, allowed) = (&self.far[axis], &self.allowed[axis]);
            let from = far.start.max(allowed.start);
            from..far.end.min(allowed.end).max(from)
        })
    }

    /// Keeps the scores near seams that reach the bar, unless they are more than one in so many positions, or with
    /// those before more than `most`.
    fn keep_near<T: Pixel>(&self, scores: &[T], sparse: usize, most: usize, into: &mut Gathered<T>) -> bool {
        let [depth, h, w] = self.tile.lengths;
        let bar = self.search.bar_from(self.index(0), into.worst);
        let part = self.part(scores);
        let before = into.near.len();
        let most = (before + (depth * h * w / sparse).max(FEW)).min(most);
        for (z, y) in (0..depth).flat_map(|z| (0..h).map(move |y| (z, y))) {
            let row = (z * h + y) * w;
            let is_far = self.far[0].contains(&z) && self.far[1].contains(&y) && !self.far[2].is_empty();
            let sides = if is_far { [0..self.far[2].start, self.far[2].end..w] } else { [0..w, w..w] };
            let own_row = self.allowed[0].contains(&z) && self.allowed[1].contains(&y);
            for side in sides {
                let begin = row + side.start;
                let some = &scores[begin..row + side.end];
                if !any_of(some, |score| passes::<T, MINIMUM>(score, bar)) {
                    continue;
                }
                for (place, &score) in some.iter().enumerate() {
                    if !passes::<T, MINIMUM>(score, bar) {
                        continue;
                    }
                    if into.near.len() >= most {
                        into.near.truncate(before);
                        return false;
                    }
                    let own = own_row && self.allowed[2].contains(&(side.start + place));
                    // Most are beaten by one beside them.
                    let beside = [place.wrapping_sub(1), place + 1].map(|place| some.get(place));
                    let is_slope = beside.iter().flatten().any(|&&other| over::<T, MINIMUM>(other, score));
                    let open = own
                        && (self.search.distance == 0 || !is_slope)
                        && part.stands_out(begin + place, self.search.distance);
                    into.near.push(Near { index: self.index(begin + place), score, open });
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peaks::PeakOptions;
    use crate::shape::Shape;
    use proptest::prelude::*;

    /// A map of few levels and some scores that are no numbers.
    fn scores(count: usize, levels: u64, seed: u64) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match state >> 58 {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                2 => -0.0,
                _ => ((state >> 40) % levels) as f32 - 2.0,
            }
        };
        (0..count).map(|_| draw()).collect()
    }

    /// The tiles of a map, in the order of a seed.
    fn tiles(lengths: [usize; 3], tile: [usize; 3], mut seed: usize) -> Vec<Tile> {
        let begins = [0, 1, 2].map(|axis| (0..lengths[axis]).step_by(tile[axis]).collect::<Vec<_>>());
        let mut tiles = Vec::new();
        for &z in &begins[0] {
            for &y in &begins[1] {
                for &x in &begins[2] {
                    let place = [z, y, x];
                    let lengths = [0, 1, 2].map(|axis| tile[axis].min(lengths[axis] - place[axis]));
                    // By turns to the front, the middle and the end.
                    seed = seed.wrapping_mul(0x9e37_79b9).wrapping_add(7);
                    tiles.insert((seed >> 7) % (tiles.len() + 1), Tile { place, lengths });
                }
            }
        }
        tiles
    }

    const ENOUGH: Room = Room { near: usize::MAX, positions: 1, waiting: usize::MAX };

    /// What workers find, by turns, tile by tile; `None` where one has no room.
    fn found(search: &Search, map: &[f32], tiles: &[Tile], workers: usize, room: Room) -> Option<Found> {
        let [_, h, w] = search.lengths;
        let mut parts: Vec<Gathered<f32>> = (0..workers).map(|_| search.gathered(room)).collect();
        let mut shared = Shared::default();
        for (turn, &tile) in tiles.iter().enumerate() {
            let Tile { place: [z, y, x], lengths: [depth, height, width] } = tile;
            let row = |(plane, line): (usize, usize)| {
                let begin = ((z + plane) * h + y + line) * w + x;
                map[begin..begin + width].iter().copied()
            };
            let rows = (0..depth).flat_map(|plane| (0..height).map(move |line| (plane, line)));
            let part = &mut parts[turn * 7 % 5 % workers];
            if turn % 3 > 0 {
                search.share(part, &mut shared);
            }
            let mut scores: Vec<f32> = rows.flat_map(row).chain([9e9, -9e9]).collect();
            if !search.gather(tile, &mut scores, part) {
                return None;
            }
        }
        Some(search.found_in_tiles(parts))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn tiles_in_any_order_have_the_peaks_of_the_map(
            lengths in (1usize..7, 1usize..20, 1usize..40),
            tile in (1usize..6, 1usize..12, 1usize..24),
            (levels, seed, order) in (1u64..50, 0u64..1000, any::<usize>()),
            top in prop::option::of(0usize..9),
            threshold in prop::option::of(-3.0f64..50.0),
            distance in prop::option::of(prop::sample::select(&[0, 1, 2, 3, 4, 5, 8, usize::MAX][..])),
            exclude_border in 0usize..3,
            (minimum, optimum) in (any::<bool>(), any::<bool>()),
            (workers, near, waiting) in (1usize..4, 0usize..2000, 0usize..4),
        ) {
            let (lengths, tile) = ([lengths.0, lengths.1, lengths.2], [tile.0, tile.1, tile.2]);
            let shape = Shape::new(&lengths).unwrap();
            let map = scores(shape.len(), levels, seed);
            let best = if minimum { Best::Smallest } else { Best::Largest };
            let options = PeakOptions { top, threshold, min_distance: distance, exclude_border, subpixel: None };
            let search = Search::new(shape, best, options).with_optimum(optimum);
            let tiles = tiles(lengths, tile, order);
            let room = Room { near, positions: shape.len() / workers, waiting };
            let mut whole = search.candidates();
            search.look(&map, 0, 0..map.len(), &mut whole);
            let expected = search.found([whole]);
            if let Some(found) = found(&search, &map, &tiles, workers, room) {
                prop_assert_eq!(&found, &expected);
            }
            // With room for all that may count there is always an answer.
            let found = found(&search, &map, &tiles, workers, ENOUGH);
            if let Some(found) = &found {
                prop_assert_eq!(found, &expected);
            }
            prop_assert!(found.is_some() || top.is_none());
        }
    }

    #[test]
    fn tiles_are_taken_where_most_positions_are_far_from_seams_and_something_sets_a_bar() {
        let spec: crate::spec::Spec = "zncc:f32:2000x2000*16x16:valid".parse().unwrap();
        let takes = |options: PeakOptions| Search::of(&spec, options).takes_tiles([1, 113, 448], [false, true, true]);
        let all = PeakOptions::default();
        let [best, few, many] = [1, 16, 10_000].map(|top| PeakOptions { top: Some(top), ..all });
        let threshold = PeakOptions { threshold: Some(0.5), ..all };
        assert_eq!([all, best, few, many, threshold].map(takes), [false, true, true, false, true]);
        // The best of all looks at nothing around it, a fit does.
        let far = Some(100);
        assert!(takes(PeakOptions { min_distance: far, ..best }));
        assert!(!takes(PeakOptions { min_distance: far, ..few }));
        assert!(!takes(PeakOptions { subpixel: Some(crate::subpixel::Subpixel::default()), ..best }));
    }

    #[test]
    fn a_tile_waits_until_others_set_the_bar() {
        // The first tile rises to its seam: what lies there may all be peaks, until the next tile has one.
        let map: Vec<f32> = (0..60)
            .map(|at| {
                if at == 45 {
                    100.0
                } else if at < 30 {
                    at as f32
                } else {
                    0.0
                }
            })
            .collect();
        let options = PeakOptions { top: Some(1), min_distance: Some(10), exclude_border: 1, ..PeakOptions::default() };
        let search = Search::new(Shape::new(&[60]).unwrap(), Best::Largest, options);
        let tiles = [0, 30].map(|x| Tile { place: [0, 0, x], lengths: [1, 1, 30] });
        let given = |waiting| found(&search, &map, &tiles, 1, Room { waiting, ..ENOUGH }).map(|found| found.peaks);
        assert!(given(0).is_none());
        assert_eq!(given(1).unwrap()[0].position, [45]);
    }
}
