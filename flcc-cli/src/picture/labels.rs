//! Where labels of boxes stand: in the picture, and over no other label.

use super::canvas::Area;

/// A box and the size of its label; the best come first.
#[derive(Clone, Copy, Debug)]
pub struct Boxed {
    pub area: Area,
    pub label: [i64; 2],
}

/// So many of the best get a label; more are not told apart.
const MOST: usize = 1000;

/// The upper left corner of each label, from a few `places`: that which hides least of other boxes' lines, the first of
/// equal ones. `None` where every place lies over a label or leaves the picture.
pub fn place(picture: Area, boxes: &[Boxed], places: impl Fn(&Boxed) -> Vec<[i64; 2]>) -> Vec<Option<[i64; 2]>> {
    let mut placed: Vec<Area> = Vec::new();
    let labels = boxes.iter().take(MOST).map(|boxed| {
        let best = places(boxed)
            .into_iter()
            .map(|[x, y]| [x, y, boxed.label[0], boxed.label[1]])
            .filter(|label| within(*label, picture) && !placed.iter().any(|other| meet(*label, *other)))
            .min_by_key(|label| boxes.iter().take(MOST).filter(|other| crosses(*label, other.area)).count());
        placed.extend(best);
        best.map(|[x, y, ..]| [x, y])
    });
    let mut labels: Vec<Option<[i64; 2]>> = labels.collect();
    labels.resize(boxes.len(), None);
    labels
}

/// Places above and below a box, at its sides, then within.
pub fn around(boxed: &Boxed, gap: i64) -> Vec<[i64; 2]> {
    let ([x, y, w, h], [lw, lh]) = (boxed.area, boxed.label);
    let (left, right, above, below) = (x - gap - lw, x + w + gap, y - gap - lh, y + h + gap);
    let (first, last, middle, low) = (x - gap, x + w + gap - lw, x + (w - lw) / 2, y + h - lh);
    vec![
        [first, above],
        [last, above],
        [first, below],
        [last, below],
        [middle, above],
        [middle, below],
        [left, y],
        [right, y],
        [left, low],
        [right, low],
        [x, y],
        [x + w - lw, y],
        [x, low],
        [x + w - lw, low],
        [middle, y + (h - lh) / 2],
    ]
}

/// Places at the upper end of a band, row below row.
pub fn atop(boxed: &Boxed) -> Vec<[i64; 2]> {
    const ROWS: i64 = 6;
    let ([x, y, w, _], [lw, lh]) = (boxed.area, boxed.label);
    (0..ROWS).map(|row| [x + (w - lw) / 2, y + row * (lh + 1)]).collect()
}

fn within(a: Area, picture: Area) -> bool {
    a[0] >= picture[0]
        && a[1] >= picture[1]
        && a[0] + a[2] <= picture[0] + picture[2]
        && a[1] + a[3] <= picture[1] + picture[3]
}

fn meet(a: Area, b: Area) -> bool {
    a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3]
}

/// Whether an area lies over a box's line.
fn crosses(a: Area, boxed: Area) -> bool {
    meet(a, [boxed[0] - 1, boxed[1] - 1, boxed[2] + 2, boxed[3] + 2]) && !within(a, boxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_avoid_each_other_and_stay_inside() {
        let picture = [10, 10, 400, 300];
        let near = |boxed: &Boxed| around(boxed, 3);
        // A crowd: boxes that overlap, at the edges and beyond them.
        let boxes: Vec<Boxed> = (0..77)
            .map(|k| Boxed { area: [(k * 53) % 430 - 20, (k * 37) % 330 - 20, 40, 30], label: [16, 12] })
            .collect();
        let placed = place(picture, &boxes, near);
        let areas: Vec<Area> = placed.iter().flatten().map(|[x, y]| [*x, *y, 16, 12]).collect();
        assert!(areas.len() > 70, "{}", areas.len());
        for (k, a) in areas.iter().enumerate() {
            assert!(within(*a, picture));
            assert!(areas[..k].iter().all(|b| !meet(*a, *b)));
        }
        // A lone box has its label above its left corner, at the top edge below it.
        assert_eq!(place(picture, &[Boxed { area: [50, 60, 40, 30], label: [16, 12] }], near), [Some([47, 45])]);
        assert_eq!(place(picture, &[Boxed { area: [50, 12, 40, 30], label: [16, 12] }], near), [Some([47, 45])]);
        // Bands that meet have their labels in rows.
        let band = Boxed { area: [50, 20, 8, 100], label: [16, 12] };
        assert_eq!(place(picture, &[band, band], atop), [Some([46, 20]), Some([46, 33])]);
        // No room at all.
        assert_eq!(place([0, 0, 5, 5], &[Boxed { area: [0, 0, 5, 5], label: [16, 12] }], near), [None]);
    }

    #[test]
    fn thousands_are_no_burden() {
        let boxes = vec![Boxed { area: [50, 50, 10, 10], label: [16, 12] }; 100_000];
        let placed = place([0, 0, 100, 100], &boxes, |boxed| around(boxed, 2));
        assert_eq!(placed.len(), 100_000);
        assert!(placed[MOST..].iter().all(Option::is_none));
    }
}
