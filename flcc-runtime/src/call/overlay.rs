//! The best of several templates' scores in one image, by where the middles of the templates lie.
//!
//! The middle of a box lies on a sample where its side is odd, and between two where it is even. Middles that are whole
//! samples apart share a sheet; there is one for each kind of middles that the templates have.

use std::cmp::Ordering;
use std::ops::Range;

use flcc_core::dtype::{DType, Pixel, Pixels};
use flcc_core::measure::Best;
use flcc_core::peaks::{PeakOptions, Search};
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::view::AnyView;

use crate::run::search::found_in_map;

/// Nobody's score.
const NOBODY: u32 = u32::MAX;

/// Scores of templates laid over one another; whose are best, and how good.
pub(crate) struct Overlay {
    best: Best,
    templates: Vec<Shape>,
    sheets: Vec<Sheet>,
}

/// Middles that are whole samples apart on every axis.
struct Sheet {
    /// Twice the first of them.
    first: [usize; 3],
    shape: Shape,
    scores: Pixels,
    /// Which template the score is of.
    owners: Vec<u32>,
}

/// A place where a template's score is the best of all around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// The template.
    pub owner: usize,
    /// Twice the middle of its box: a whole number.
    pub middle: [usize; 3],
    pub score: f64,
}

impl Overlay {
    /// For scores of a type, in mode valid, of templates of these shapes. They are laid there one by one.
    pub fn new(image: Shape, templates: &[Shape], dtype: DType, best: Best) -> Overlay {
        let mut firsts: Vec<[usize; 3]> = Vec::new();
        for template in templates {
            let first = template.padded().map(|side| side - 1);
            match firsts.iter_mut().find(|other| are_alike(first, **other)) {
                Some(other) => *other = [0, 1, 2].map(|axis| other[axis].min(first[axis])),
                None => firsts.push(first),
            }
        }
        let sheet = |first: [usize; 3]| {
            let lengths = image.padded();
            let shape = image.with_padded([0, 1, 2].map(|axis| lengths[axis] - first[axis]));
            let shape = shape.expect("no template is larger than the image, and the image has a shape");
            let scores = match dtype {
                DType::F64 => Pixels::F64(vec![0.0; shape.len()]),
                _ => Pixels::F32(vec![0.0; shape.len()]),
            };
            Sheet { first, shape, owners: vec![NOBODY; scores.len()], scores }
        };
        Overlay { best, templates: templates.to_vec(), sheets: firsts.into_iter().map(sheet).collect() }
    }

    /// Lays a template's scores over what is there. Whatever the order: at one middle the best stays, of equals that
    /// of the first template. NaN is no score.
    pub fn lay(&mut self, owner: usize, map: &ScoreMap) {
        let first = self.templates[owner].padded().map(|side| side - 1);
        let Some(sheet) = self.sheets.iter_mut().find(|sheet| are_alike(first, sheet.first)) else { return };
        let away = [0, 1, 2].map(|axis| (first[axis] - sheet.first[axis]) / 2);
        let (lengths, whole) = (map.shape().padded(), sheet.shape.padded());
        for (z, y) in (0..lengths[0]).flat_map(|z| (0..lengths[1]).map(move |y| (z, y))) {
            let row = |[_, height, width]: [usize; 3], [z, y, x]: [usize; 3]| {
                let begin = (z * height + y) * width + x;
                begin..begin + lengths[2]
            };
            let from = row(lengths, [z, y, 0]);
            let to = row(whole, [z + away[0], y + away[1], away[2]]);
            let owners = &mut sheet.owners[to.clone()];
            let owner = owner as u32;
            match (&mut sheet.scores, map.data()) {
                (Pixels::F32(own), Pixels::F32(scores)) => lay(self.best, &mut own[to], owners, &scores[from], owner),
                (Pixels::F64(own), Pixels::F64(scores)) => lay(self.best, &mut own[to], owners, &scores[from], owner),
                _ => unreachable!("maps are of the overlay's type"),
            }
        }
    }

    /// The places that no other within `distance` is better than, best first: of equal scores the one whose middle
    /// comes first in row-major order is better. `options` says how many, and how good they must be; what it leaves out
    /// at borders, which are of each template's own scores, is told all the same.
    pub fn places(mut self, options: &PeakOptions, distance: usize, threads: usize) -> Vec<Place> {
        for sheet in &mut self.sheets {
            let owners = &sheet.owners;
            match &mut sheet.scores {
                Pixels::F32(scores) => leave_out(scores, owners, f32::NAN),
                Pixels::F64(scores) => leave_out(scores, owners, f64::NAN),
                _ => {}
            }
        }
        // The best of one sheet may be none beside the others.
        let top = options.top.filter(|_| self.sheets.len() == 1);
        let plain = PeakOptions { top, min_distance: Some(distance), exclude_border: 0, subpixel: None, ..*options };
        let mut places: Vec<Place> = Vec::new();
        for (number, sheet) in self.sheets.iter().enumerate() {
            let peaks = found_in_map(&Search::new(sheet.shape, self.best, plain), threads, &sheet.view()).peaks;
            let place = |peak: flcc_core::peaks::Peak| {
                let position = sheet.shape.pad(&peak.position);
                let [_, height, width] = sheet.shape.padded();
                let index = (position[0] * height + position[1]) * width + position[2];
                let middle = [0, 1, 2].map(|axis| sheet.first[axis] + 2 * position[axis]);
                Place { owner: sheet.owners[index] as usize, middle, score: peak.score }
            };
            let others = self.sheets.iter().enumerate().filter(|(other, _)| *other != number);
            let stays = |place: &Place| others.clone().all(|(_, other)| !other.has_better(self.best, place, distance));
            places.extend(peaks.into_iter().map(place).filter(stays));
        }
        places.sort_by(|a, b| order(self.best, a.score, b.score).then(a.middle.cmp(&b.middle)));
        places.truncate(options.top.unwrap_or(usize::MAX));
        places
    }
}

impl Sheet {
    fn view(&self) -> AnyView<'_> {
        AnyView::dense(&self.scores, self.shape, 1).expect("a sheet has its shape")
    }

    /// Whether a score here, not further away on any axis, is better than that of a place of another sheet.
    fn has_better(&self, best: Best, place: &Place, distance: usize) -> bool {
        let lengths = self.shape.padded();
        let near: [Range<usize>; 3] = [0, 1, 2].map(|axis| {
            let [middle, first] = [place.middle[axis], self.first[axis]].map(|at| at as i128);
            let reach = 2 * distance as i128;
            let from = (middle - reach - first + 1).div_euclid(2).max(0);
            let to = ((middle + reach - first).div_euclid(2) + 1).clamp(from, lengths[axis].max(from as usize) as i128);
            from as usize..to as usize
        });
        let [planes, rows, columns] = near;
        planes.flat_map(|z| rows.clone().map(move |y| (z, y))).any(|(z, y)| {
            let row = (z * lengths[1] + y) * lengths[2];
            columns.clone().any(|x| {
                let middle = [z, y, x].map(|at| 2 * at);
                let middle = [0, 1, 2].map(|axis| self.first[axis] + middle[axis]);
                let score = match &self.scores {
                    Pixels::F32(scores) => f64::from(scores[row + x]),
                    Pixels::F64(scores) => scores[row + x],
                    _ => f64::NAN,
                };
                !score.is_nan() && order(best, score, place.score).then(middle.cmp(&place.middle)) == Ordering::Less
            })
        })
    }
}

/// Whether middles are whole samples apart on every axis.
fn are_alike(one: [usize; 3], other: [usize; 3]) -> bool {
    one.iter().zip(other).all(|(one, other)| one % 2 == other % 2)
}

/// The better first.
pub(crate) fn order(best: Best, one: f64, other: f64) -> Ordering {
    let order = one.partial_cmp(&other).unwrap_or(Ordering::Equal);
    if best == Best::Largest { order.reverse() } else { order }
}

fn lay<T: Pixel>(best: Best, own: &mut [T], owners: &mut [u32], scores: &[T], owner: u32) {
    match best {
        Best::Largest => lay_if(own, owners, scores, owner, |score, other| score > other),
        Best::Smallest => lay_if(own, owners, scores, owner, |score, other| score < other),
    }
}

fn lay_if<T: Pixel>(own: &mut [T], owners: &mut [u32], scores: &[T], owner: u32, better: impl Fn(T, T) -> bool) {
    for ((own, other), &score) in own.iter_mut().zip(owners).zip(scores) {
        let is_number = score.partial_cmp(&score).is_some();
        let takes = better(score, *own) | ((score == *own) & (owner < *other)) | ((*other == NOBODY) & is_number);
        (*own, *other) = if takes { (score, owner) } else { (*own, *other) };
    }
}

/// Gives nobody's scores the value that is none.
fn leave_out<T: Pixel>(scores: &mut [T], owners: &[u32], none: T) {
    for (score, &owner) in scores.iter_mut().zip(owners) {
        *score = if owner == NOBODY { none } else { *score };
    }
}
