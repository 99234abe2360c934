//! An image with its peaks marked.

use super::canvas::{Area, Canvas, INK, text_width};
use super::labels::{self, Boxed};
use super::line;
use super::panel::{self, Entry, Look, Panel, Swatch};
use super::scene::{Mark, Scene, style};
use super::tones::Tones;
use crate::error::Error;

/// The picture of an image: of a volume the slice through the middle of the best peak with the marks that it cuts, and
/// beside it the brightest of all slices, if there are several, with every mark.
///
/// # Errors
/// A picture that takes more memory than there is.
pub fn picture(scene: &Scene<'_>) -> Result<Canvas, Error> {
    let image = scene.image;
    if image.shape().axes() == 1 {
        return line::annotated(scene);
    }
    let [d, h, w] = image.shape().padded();
    let volume = image.shape().axes() == 3;
    let depth = |mark: &Mark| {
        if volume { (mark.origin.first().copied().unwrap_or(0), mark.shape.padded()[0] as i64) } else { (0, 1) }
    };
    let best = scene.marks.iter().min_by_key(|mark| mark.rank);
    let slice = best.map_or(d as i64 / 2, |mark| depth(mark).0 + depth(mark).1 / 2).clamp(0, d as i64 - 1) as usize;
    let of = if best.is_some() { ", middle of the best peak" } else { "" };
    let tones = Tones::new(image);
    let look = |pixel: usize| tones.look(pixel);
    let mut panels = vec![Panel {
        caption: if volume { format!("slice {slice} (of 0 to {}){of}", d - 1) } else { String::new() },
        first: [0, 0],
        look: Box::new(|rows, columns| mean(panel::each(rows, columns).map(|(y, x)| look((slice * h + y) * w + x)))),
    }];
    if d > 1 {
        panels.push(Panel {
            caption: "maximum over all slices".into(),
            first: [0, 0],
            look: Box::new(|rows, columns| {
                mean(panel::each(rows, columns).map(|(y, x)| tones.brightest((0..d).map(|z| (z * h + y) * w + x))))
            }),
        });
    }
    let mut legend = scene.legend();
    if tones.missing {
        legend.push(Entry { swatch: Swatch::Missing, name: "no number".into() });
    }
    let mut laid = panel::lay([h, w], &panels, 1.0, &legend, panel::roomy(median_side(scene.marks)))?;
    let size = laid.size;
    for (panel, area) in laid.areas.clone().into_iter().enumerate() {
        let cut = |mark: &&Mark| panel == 1 || (depth(mark).0..depth(mark).0 + depth(mark).1).contains(&(slice as i64));
        let mut marks: Vec<&Mark> = scene.marks.iter().filter(cut).collect();
        marks.sort_by_key(|mark| (mark.rank, mark.group));
        let thick = ((size / 6.5) as i64).max(1);
        let tall = (1.15 * size) as i64;
        let boxes: Vec<Boxed> = marks
            .iter()
            .map(|mark| {
                let [.., y, x] = mark.origin[..] else { return Boxed { area: [0; 4], label: [0; 2] } };
                let ([_, mh, mw], [down, along]) = (mark.shape.padded().map(|length| length as i64), laid.scales);
                let ((top, bottom), (left, right)) = (down.span(y, mh), along.span(x, mw));
                let wide = (text_width(&scene.label(mark), size) + 0.6 * size) as i64;
                Boxed { area: [area[0] + left, area[1] + top, right - left, bottom - top], label: [wide, tall] }
            })
            .collect();
        let places = labels::place(area, &boxes, |boxed| labels::around(boxed, thick + 1));
        // The best are drawn last, so that nothing covers them; labels lie over all boxes.
        let canvas = &mut laid.canvas;
        canvas.clip(Some(area));
        for (mark, boxed) in marks.iter().zip(&boxes).rev() {
            let (color, dash) = style(mark.group);
            let thick = if mark.rank == 1 { thick + (thick + 1) / 2 } else { thick };
            let thick = line_width(thick, boxed.area);
            match mark.corners {
                Some(corners) => {
                    let [down, along] = laid.scales;
                    let place = |[y, x]: [f64; 2]| [area[1] as f64 + down.place(y), area[0] as f64 + along.place(x)];
                    canvas.polygon(corners.map(place), thick, color, dash * thick);
                }
                None => canvas.outline(boxed.area, thick, color, dash * thick),
            }
        }
        for ((mark, boxed), place) in marks.iter().zip(&boxes).zip(&places).rev() {
            let (Some([x, y]), [wide, tall]) = (place, boxed.label) else { continue };
            canvas.fill([*x, *y, wide, tall], INK);
            canvas.fill([x + 1, y + 1, wide - 2, tall - 2], style(mark.group).0);
            canvas.text(x + wide / 2, y + tall / 2, 0.5, size, &scene.label(mark), INK);
        }
        canvas.clip(None);
    }
    Ok(laid.canvas)
}

/// The line of a box that leaves most of it to be seen.
fn line_width(thick: i64, [_, _, width, height]: Area) -> i64 {
    thick.min(width.min(height) / 4).max(1)
}

/// The shorter side of a box of middling size; of none, one that asks for no room.
fn median_side(marks: &[Mark]) -> usize {
    let mut sides: Vec<usize> = marks
        .iter()
        .map(|mark| {
            let [_, height, width] = mark.shape.padded();
            height.min(width)
        })
        .collect();
    sides.sort_unstable();
    sides.get(sides.len() / 2).copied().unwrap_or(usize::MAX)
}

/// The mean colour of what is shown.
fn mean(looks: impl Iterator<Item = Look>) -> Look {
    let (mut sum, mut count) = ([0u64; 3], 0u64);
    for look in looks {
        if let Look::Shown(color) = look {
            sum.iter_mut().zip(color).for_each(|(sum, part)| *sum += u64::from(part));
            count += 1;
        }
    }
    if count == 0 { Look::Missing } else { Look::Shown(sum.map(|sum| ((sum + count / 2) / count) as u8)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_leave_boxes_to_be_seen() {
        assert_eq!([4, 12, 40, 400].map(|side| line_width(6, [0, 0, 500, side])), [1, 3, 6, 6]);
        assert_eq!(line_width(6, [0, 0, 1, 900]), 1);
    }

    #[test]
    fn a_cell_is_its_mean_without_what_is_no_number() {
        let looks = [Look::Shown([10, 0, 255]), Look::Missing, Look::Shown([20, 1, 255])];
        assert_eq!(mean(looks.into_iter()), Look::Shown([15, 1, 255]));
        assert_eq!(mean([Look::Missing].into_iter()), Look::Missing);
    }
}
