//! What is drawn: an image with its peaks, or a map; and what its parts are called.

use flcc_runtime::{Best, ScoreMap, Shape};

use super::canvas::{Color, shortened};
use super::curve::Curve;
use super::panel::{Entry, Swatch};
use crate::data::Image;

/// A peak to draw.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where the template's first sample lies in the image; may be outside.
    pub origin: Vec<i64>,
    /// The template's shape.
    pub shape: Shape,
    /// The corners of the template where it is turned, in order, as rows and columns from the image's corner.
    pub corners: Option<[[f64; 2]; 4]>,
    /// Its rank, from 1.
    pub rank: usize,
    /// Which template it belongs to: chooses the colour, the line and the letter.
    pub group: usize,
    /// Its score.
    pub score: f64,
}

/// An image and what was found in it.
pub struct Scene<'a> {
    /// The image.
    pub image: &'a Image,
    /// The peaks.
    pub marks: &'a [Mark],
    /// The templates' names.
    pub names: &'a [&'a str],
    /// The measure's name.
    pub measure: &'a str,
    /// Which scores are better.
    pub best: Best,
    /// Of lines, the scores of each template, where they are at hand.
    pub curves: &'a [(usize, Curve)],
}

/// A map and what it is of.
pub struct Heat<'a> {
    /// The scores.
    pub map: &'a ScoreMap,
    /// The position of the first of them, as positions are told.
    pub first: &'a [i64],
    /// The measure's name, or that of a statistic.
    pub measure: &'a str,
}

/// The measure's name, and which scores are good where that is not plain.
fn titled(measure: &str, best: Best) -> String {
    match best {
        Best::Smallest => format!("{measure} (smaller is better)"),
        Best::Largest => measure.into(),
    }
}

impl Heat<'_> {
    /// What the values are.
    pub(super) fn title(&self) -> String {
        titled(self.measure, self.map.best())
    }
}

impl Scene<'_> {
    /// What the scores are.
    pub(super) fn title(&self) -> String {
        titled(self.measure, self.best)
    }

    /// What stands at a mark: its rank, after its template's letter where there are several.
    pub(super) fn label(&self, mark: &Mark) -> String {
        if self.names.len() > 1 { format!("{}{}", letter(mark.group), mark.rank) } else { mark.rank.to_string() }
    }

    /// The templates with their letters, where there are several.
    pub(super) fn legend(&self) -> Vec<Entry> {
        if self.names.len() < 2 { Vec::new() } else { legend(self.names) }
    }
}

/// Templates with their letters: each of a page of them, and in one entry which others there are.
fn legend(names: &[&str]) -> Vec<Entry> {
    // More than a page of names helps nobody.
    const MOST: usize = 40;
    // An entry for others stands for two at least.
    let shown = if names.len() > MOST + 1 { MOST } else { names.len() };
    let (first, others) = names.split_at(shown);
    let entry = |(group, name): (usize, &&str)| {
        let (color, dash) = style(group);
        Entry { swatch: Swatch::Box(color, 2 * dash, letter(group)), name: shortened(name, 48) }
    };
    let mut legend: Vec<Entry> = first.iter().enumerate().map(entry).collect();
    if !others.is_empty() {
        let (from, to) = (letter(shown), letter(names.len() - 1));
        legend.push(Entry { swatch: Swatch::None, name: format!("{from} to {to}: {} more", others.len()) });
    }
    legend
}

/// The colour and the dash of a template's boxes. Neighbours differ in colour and in line, so that either tells them
/// apart. The colours are for every kind of colour vision and bright on photographs; after Okabe and Ito, "Color
/// Universal Design".
pub(super) fn style(group: usize) -> (Color, i64) {
    const COLORS: [Color; 7] =
        [[255, 196, 0], [86, 200, 255], [240, 140, 200], [0, 190, 140], [255, 110, 50], [240, 240, 90], [90, 150, 255]];
    const DASHES: [i64; 4] = [0, 4, 2, 8];
    (COLORS[group % COLORS.len()], DASHES[group % DASHES.len()])
}

/// A, B to Z, AA, AB.
fn letter(group: usize) -> String {
    let last = char::from(b'A' + (group % 26) as u8);
    if group < 26 { last.into() } else { format!("{}{last}", letter(group / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_letters_and_lines_of_their_own() {
        assert_eq!([0, 25, 26, 51, 52, 701, 702].map(letter), ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]);
        let styles: std::collections::HashSet<_> = (0..28).map(style).collect();
        assert_eq!(styles.len(), 28);
        let told = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("stack.npy[{number}]")).collect();
            let legend = legend(&names.iter().map(String::as_str).collect::<Vec<_>>());
            (legend.len(), legend.last().unwrap().name.clone())
        };
        assert_eq!(told(40), (40, "stack.npy[39]".into()));
        assert_eq!(told(41), (41, "stack.npy[40]".into()));
        assert_eq!(told(42), (41, "AO to AP: 2 more".into()));
        assert_eq!(told(50), (41, "AO to AX: 10 more".into()));
        assert!((0..28).all(|group| style(group).0 != style(group + 1).0 && style(group).1 != style(group + 1).1));
    }
}
