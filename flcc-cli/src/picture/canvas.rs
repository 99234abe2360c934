//! The pixels of a picture: rectangles, lines of boxes, text, and what a plotting library draws on.

use std::convert::Infallible;
use std::path::Path;
use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScale, ScaleFont, point};
use plotters::backend::DrawingBackend;
use plotters_backend::rasterizer;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontTransform};

use crate::error::Error;
use crate::io;
use crate::memory;

/// Red, green, blue.
pub type Color = [u8; 3];

pub const INK: Color = [32, 32, 32];
/// What is no number is hatched in these two, which no map of colours and no photograph does.
const HATCH: [Color; 2] = [[120, 120, 120], [225, 225, 225]];

/// x, y, width, height.
pub type Area = [i64; 4];

/// The one font of all pictures; a machine needs none of its own.
static FONT: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::try_from_slice(include_bytes!("../../fonts/DejaVuSans-subset.ttf")).ok());

/// What a picture takes of its own bytes until it is written: itself, its filtered rows, and those packed, which noise
/// leaves as long and which grow by being copied to twice the room.
const HELD: f64 = 5.0;

/// Pixels of three bytes, white at first.
pub struct Canvas {
    pub width: i64,
    pub height: i64,
    data: Vec<u8>,
    /// What is drawn on: the rest stays as it is.
    clip: Area,
}

impl Canvas {
    /// A white canvas.
    ///
    /// # Errors
    /// One that takes more memory than there is until it is written.
    pub fn new(width: i64, height: i64) -> Result<Canvas, Error> {
        let (width, height) = (width.max(1), height.max(1));
        let bytes = 3.0 * width as f64 * height as f64;
        memory::check(&format!("a picture of {height}x{width}"), HELD * bytes)?;
        let mut data = Vec::new();
        // What no machine holds is refused above; another may have taken it since.
        let failed = |_| Error::Failed(format!("memory: expected room for a picture of {height}x{width}, got none"));
        data.try_reserve_exact(bytes as usize).map_err(failed)?;
        data.resize(bytes as usize, 255);
        Ok(Canvas { width, height, data, clip: [0, 0, width, height] })
    }

    /// Draws on an area alone from now on; on all of the canvas if there is none.
    pub fn clip(&mut self, area: Option<Area>) {
        let whole = [0, 0, self.width, self.height];
        let [x, y, width, height] = area.unwrap_or(whole);
        let (right, bottom) = (x.saturating_add(width).min(self.width), y.saturating_add(height).min(self.height));
        let (x, y) = (x.max(0), y.max(0));
        self.clip = [x, y, (right - x).max(0), (bottom - y).max(0)];
    }

    pub fn save(&self, argument: &str, path: &Path) -> Result<(), Error> {
        io::save_png_rgb8(path, self.width as usize, self.height as usize, &self.data).map_err(Error::io(argument))
    }

    fn pixel(&mut self, x: i64, y: i64) -> Option<&mut [u8]> {
        let [left, top, width, height] = self.clip;
        let inside = x >= left && y >= top && x < left + width && y < top + height;
        let at = (y.wrapping_mul(self.width).wrapping_add(x)).wrapping_mul(3) as usize;
        if inside { self.data.get_mut(at..at + 3) } else { None }
    }

    pub fn set(&mut self, x: i64, y: i64, color: Color) {
        if let Some(pixel) = self.pixel(x, y) {
            pixel.copy_from_slice(&color);
        }
    }

    /// Mixes a part of a colour, from 0 to 1, into a pixel.
    pub fn blend(&mut self, x: i64, y: i64, color: Color, part: f64) {
        if let Some(pixel) = self.pixel(x, y) {
            for (pixel, color) in pixel.iter_mut().zip(color) {
                *pixel = (f64::from(*pixel) + (f64::from(color) - f64::from(*pixel)) * part).round() as u8;
            }
        }
    }

    /// The part of an area that is drawn on, row by row.
    fn inside(&self, [x, y, width, height]: Area) -> impl Iterator<Item = (i64, i64)> + use<> {
        let [left, top, wide, tall] = self.clip;
        let (right, bottom) = (x.saturating_add(width).min(left + wide), y.saturating_add(height).min(top + tall));
        let along = x.max(left)..right;
        (y.max(top)..bottom).flat_map(move |y| along.clone().map(move |x| (x, y)))
    }

    pub fn fill(&mut self, area: Area, color: Color) {
        for (x, y) in self.inside(area) {
            self.set(x, y, color);
        }
    }

    /// Colours what is light and leaves what is dark.
    pub fn shade(&mut self, area: Area, color: Color) {
        for (x, y) in self.inside(area) {
            if let Some(pixel) = self.pixel(x, y) {
                for (pixel, color) in pixel.iter_mut().zip(color) {
                    *pixel = (u32::from(*pixel) * (300 + u32::from(color)) / 555) as u8;
                }
            }
        }
    }

    /// What is no number.
    pub fn hatch(&mut self, area: Area) {
        for (x, y) in self.inside(area) {
            self.set(x, y, HATCH[((x + y) / 4 % 2) as usize]);
        }
    }

    /// The outline of a box, outside of it, but within what is drawn on where the box is: `dash` pixels drawn and as
    /// many left out, 0 for all drawn. A dark line on both sides keeps it legible on any ground.
    pub fn outline(&mut self, [x, y, width, height]: Area, thick: i64, color: Color, dash: i64) {
        let [left, top, wide, tall] = self.clip;
        // Where the lines of the first and of the last side begin.
        let sides = |from: i64, length: i64, low: i64, high: i64| {
            let (to, first) = (from + length, from - thick);
            let first = if from >= low && first < low { low } else { first };
            (first, if to <= high && to + thick > high { high - thick } else { to })
        };
        let ((x0, x1), (y0, y1)) = (sides(x, width, left, left + wide), sides(y, height, top, top + tall));
        let ring = |out: i64, within: i64| {
            let thick = thick + out + within;
            let (long, tall) = (x1 - x0 + thick - within + out, y1 - y0 + thick - within + out);
            let (far_x, far_y) = (x1 - within, y1 - within);
            [
                [x0 - out, y0 - out, long, thick],
                [x0 - out, far_y, long, thick],
                [x0 - out, y0 - out, thick, tall],
                [far_x, y0 - out, thick, tall],
            ]
        };
        // A tiny box keeps what is in it.
        let within = i64::from(width.min(height) >= 6);
        for side in ring(1, within) {
            self.fill(side, INK);
        }
        for side in ring(0, 0) {
            for (px, py) in self.inside(side) {
                let along = (px - x) + (py - y);
                if dash == 0 || along.div_euclid(dash) % 2 == 0 {
                    self.set(px, py, color);
                }
            }
        }
    }

    /// The lines from each corner of a polygon, as rows and columns, to the next, as [`Canvas::outline`] draws those of
    /// a box; the first is half as thick again, so that it is seen which way is up.
    pub fn polygon(&mut self, corners: [[f64; 2]; 4], thick: i64, color: Color, dash: i64) {
        let sides = |number: usize| (corners[number], corners[(number + 1) % corners.len()]);
        let half = |number: usize| thick as f64 / 2.0 * if number == 0 { 1.5 } else { 1.0 };
        for (number, (from, to)) in (0..corners.len()).map(sides).enumerate() {
            self.stroke(from, to, half(number) + 1.0, INK, 0);
        }
        for (number, (from, to)) in (0..corners.len()).map(sides).enumerate() {
            self.stroke(from, to, half(number), color, dash);
        }
    }

    /// A straight line with round ends, of all pixels within `half` of it: `dash` of them drawn and as many left out, 0
    /// for all drawn.
    fn stroke(&mut self, from: [f64; 2], to: [f64; 2], half: f64, color: Color, dash: i64) {
        let along = [to[0] - from[0], to[1] - from[1]];
        let length = along[0].hypot(along[1]);
        let low = [0, 1].map(|axis| (from[axis].min(to[axis]) - half).floor() as i64);
        let high = [0, 1].map(|axis| (from[axis].max(to[axis]) + half).ceil() as i64);
        for (x, y) in self.inside([low[1], low[0], high[1] - low[1] + 1, high[0] - low[0] + 1]) {
            let at = [y as f64 + 0.5 - from[0], x as f64 + 0.5 - from[1]];
            let passed = if length > 0.0 { (at[0] * along[0] + at[1] * along[1]) / length } else { 0.0 };
            let on = passed.clamp(0.0, length);
            let foot = [0, 1].map(|axis| if length > 0.0 { on * along[axis] / length } else { 0.0 });
            let drawn = dash == 0 || (on as i64).div_euclid(dash) % 2 == 0;
            if drawn && (at[0] - foot[0]).hypot(at[1] - foot[1]) <= half {
                self.set(x, y, color);
            }
        }
    }

    /// Text whose middle line stands at `y`; `place` is the part of its width that lies left of `x`.
    pub fn text(&mut self, x: i64, y: i64, place: f64, size: f64, text: &str, color: Color) {
        self.letters([x as f64 - place * text_width(text, size), y as f64 + middle(size)], size, text, color, |p| p);
    }

    /// Draws from the left end of the base line; `turn` takes each pixel, seen from there, to where it goes.
    fn letters(
        &mut self,
        base: [f64; 2],
        size: f64,
        text: &str,
        color: Color,
        turn: impl Fn((i64, i64)) -> (i64, i64),
    ) {
        let Some(font) = FONT.as_ref() else { return };
        let [x0, y0] = base.map(f64::round);
        for (id, x) in placed(font, text, size).0 {
            let Some(outline) = font.outline_glyph(id.with_scale_and_position(scale(size), point(x as f32, 0.0)))
            else {
                continue;
            };
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, part| {
                let (x, y) = turn((i64::from(x) + corner.x as i64, i64::from(y) + corner.y as i64));
                self.blend(x0 as i64 + x, y0 as i64 + y, color, f64::from(part.clamp(0.0, 1.0)));
            });
        }
    }
}

/// The size of letters, as plotters and the web count it, as that of the font's lines.
fn scale(size: f64) -> PxScale {
    PxScale::from((size * 1.164) as f32)
}

/// How far the base line lies under the middle of capital letters.
fn middle(size: f64) -> f64 {
    0.365 * size
}

/// Glyphs with their places, and the width of all.
fn placed(font: &FontRef<'static>, text: &str, size: f64) -> (Vec<(GlyphId, f64)>, f64) {
    let font = font.as_scaled(scale(size));
    let (mut x, mut last, mut placed) = (0.0, None, Vec::new());
    for character in text.chars() {
        let id = font.glyph_id(character);
        x += last.map_or(0.0, |last| f64::from(font.kern(last, id)));
        placed.push((id, x));
        x += f64::from(font.h_advance(id));
        last = Some(id);
    }
    (placed, x)
}

/// How wide a text is.
pub fn text_width(text: &str, size: f64) -> f64 {
    FONT.as_ref().map_or(0.0, |font| placed(font, text, size).1)
}

/// A name in at most so many letters, its middle left out.
pub fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if letters.len() <= most {
        return letters.into_iter().collect();
    }
    let (head, tail) = (most.saturating_sub(1) / 2, most.saturating_sub(1) - most.saturating_sub(1) / 2);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// What plotters draws through.
pub struct Pen<'a>(pub &'a mut Canvas);

impl DrawingBackend for Pen<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.0.width as u32, self.0.height as u32)
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.0.blend(x.into(), y.into(), [color.rgb.0, color.rgb.1, color.rgb.2], color.alpha.clamp(0.0, 1.0));
        Ok(())
    }

    /// From the one end to the other, both included: the library's own line ends a pixel early, so that a curve has
    /// holes where it bends.
    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        if style.stroke_width() != 1 {
            return rasterizer::draw_line(self, from, to, style);
        }
        let color = style.color();
        let ([x, y], [across, down]) = ([from.0, from.1].map(f64::from), [to.0 - from.0, to.1 - from.1].map(f64::from));
        let steps = across.abs().max(down.abs());
        for step in 0..=steps as i64 {
            let part = if steps > 0.0 { step as f64 / steps } else { 0.0 };
            let (x, y) = (x + across * part, y + down * part);
            // One of the two is whole; the ink is shared by the pixels on both sides of the other.
            let (left, above) = ((x + 1e-9).floor(), (y + 1e-9).floor());
            let share = (x - left).max(y - above).max(0.0);
            let next = if across.abs() >= down.abs() { (left, above + 1.0) } else { (left + 1.0, above) };
            for ((x, y), part) in [((left, above), 1.0 - share), (next, share)] {
                self.draw_pixel((x as i32, y as i32), BackendColor { alpha: color.alpha * part, ..color })?;
            }
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let (size, color) = (style.size(), style.color().rgb);
        let (width, height) = (text_width(text, size).round() as i64, size.round() as i64);
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        let base = top + height / 2 + middle(size).round() as i64;
        let turn = |(px, py): (i64, i64)| match style.transform() {
            FontTransform::None => (px + left, py + base),
            FontTransform::Rotate90 => (-(py + base), px + left),
            FontTransform::Rotate180 => (-(px + left), -(py + base)),
            FontTransform::Rotate270 => (py + base, -(px + left)),
        };
        self.0.letters([x.into(), y.into()], size, text, [color.0, color.1, color.2], turn);
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok((text_width(text, style.size()).ceil() as u32, style.size().ceil() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every column that a curve passes has ink, and what neighbours have touches.
    #[test]
    fn a_curve_has_no_holes() {
        let mut canvas = Canvas::new(200, 120).unwrap();
        let points: Vec<BackendCoord> =
            (0..40).map(|k| (5 * k, 60 + (50.0 * (f64::from(k) * 0.7).sin()).round() as i32)).collect();
        Pen(&mut canvas).draw_path(points, &BackendColor { alpha: 1.0, rgb: (0, 0, 0) }).unwrap();
        let inked = |x: i64| -> Vec<i64> {
            (0..120).filter(|y| canvas.data[((y * canvas.width + x) * 3) as usize] < 160).collect()
        };
        for x in 0..195 {
            let (here, next) = (inked(x), inked(x + 1));
            assert!(!here.is_empty() && here.is_sorted_by(|a, b| b - a == 1), "{x}: {here:?}");
            assert!(here.iter().any(|a| next.iter().any(|b| (a - b).abs() <= 1)), "{x}: {here:?} {next:?}");
        }
    }

    #[test]
    fn nothing_is_drawn_outside() {
        let mut canvas = Canvas::new(40, 30).unwrap();
        for x in [i64::MIN / 4, -1000, -5, 0, 35, 1000, i64::MAX / 4] {
            canvas.outline([x, x, 10, 10], 2, INK, 3);
            canvas.hatch([x, 0, 10, 10]);
            canvas.text(x, x, 0.5, 13.0, "score", INK);
        }
        canvas.outline([i64::MIN / 4, 0, i64::MAX / 4, 3], 3, INK, 0);
        assert_eq!(canvas.data.len(), 40 * 30 * 3);
    }

    /// Where the middles of a box's left, right, upper and lower sides are of a colour.
    fn drawn(canvas: &Canvas, [x, y, w, h]: Area, thick: i64, color: Color) -> [bool; 4] {
        let is = |x: i64, y: i64| {
            let at = ((y * canvas.width + x) * 3) as usize;
            x >= 0 && y >= 0 && x < canvas.width && y < canvas.height && canvas.data[at..at + 3] == color
        };
        let near =
            |x: i64, y: i64, across: [i64; 2]| (-thick..=thick).any(|k| is(x + k * across[0], y + k * across[1]));
        let (mx, my) = (x + w / 2, y + h / 2);
        [near(x, my, [1, 0]), near(x + w - 1, my, [1, 0]), near(mx, y, [0, 1]), near(mx, y + h - 1, [0, 1])]
    }

    #[test]
    fn a_side_on_the_edge_is_drawn_and_one_outside_is_not() {
        let color = [255, 196, 0];
        for (area, sides) in [
            ([0, 0, 20, 20], [true; 4]),
            ([0, 0, 60, 50], [true; 4]),
            ([40, 30, 20, 20], [true; 4]),
            ([1, 1, 58, 48], [true; 4]),
            ([20, 20, 20, 20], [true; 4]),
            ([-8, 10, 20, 20], [false, true, true, true]),
            ([45, 35, 20, 20], [true, false, true, false]),
        ] {
            for thick in [1, 3] {
                let mut canvas = Canvas::new(60, 50).unwrap();
                canvas.outline(area, thick, color, 0);
                assert_eq!(drawn(&canvas, area, thick, color), sides, "{area:?} {thick}");
            }
        }
    }

    #[test]
    fn nothing_is_drawn_outside_of_a_clip() {
        let mut canvas = Canvas::new(40, 30).unwrap();
        canvas.clip(Some([10, 10, 10, 10]));
        canvas.fill([0, 0, 40, 30], INK);
        canvas.text(15, 10, 0.5, 13.0, "wide text", INK);
        canvas.clip(None);
        let dark = |(x, y): &(i64, i64)| canvas.data[((y * 40 + x) * 3) as usize] != 255;
        assert_eq!(canvas.inside([0, 0, 40, 30]).filter(dark).count(), 100);
    }

    #[test]
    fn a_picture_that_no_memory_holds_is_refused() {
        let error = Canvas::new(1 << 30, 1 << 30).err().unwrap().to_string();
        assert!(
            error.starts_with("memory: expected at most ") && error.contains("a picture of 1073741824x"),
            "{error}"
        );
    }

    #[test]
    fn text_is_dark_where_it_should_be() {
        let mut canvas = Canvas::new(60, 20).unwrap();
        canvas.text(2, 10, 0.0, 13.0, "Il", INK);
        let dark: Vec<(i64, i64)> =
            canvas.inside([0, 0, 60, 20]).filter(|&(x, y)| canvas.data[((y * 60 + x) * 3) as usize] < 128).collect();
        let rows = dark.iter().map(|(_, y)| *y);
        assert!(dark.len() > 10 && rows.clone().min() >= Some(3) && rows.max() <= Some(17), "{dark:?}");
        assert!(text_width("WWW", 13.0) > text_width("iii", 13.0) && text_width("", 13.0) == 0.0);
        assert!(text_width("ЖλÉ→−", 13.0) > 30.0);
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("short.png", 20), "short.png");
        assert_eq!(shortened("a-very-long-name.png", 11), "a-ver…e.png");
        assert_eq!(shortened("tab\tnew\nline", 40), "tab new line");
        assert_eq!(shortened("abc", 0), "…");
    }
}
