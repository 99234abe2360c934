//! Which part of the full result is wanted, and where its panels begin.
//!
//! Output index `i` of the full result belongs to the panel that begins at image index `i - (T - 1)`. Every other
//! extent is a region of that: same begins at `floor((T - 1) / 2)`, valid at `T - 1`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Kind, SpecError};
use crate::shape::{Shape, axes, join, numbers};

/// The three usual extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every panel that touches the image: `X + T - 1` outputs an axis.
    Full,
    /// As many outputs as the image has samples, also for a template longer than the image.
    Same,
    /// Panels inside the image alone: `X - T + 1`. Nothing outside the image is ever looked at.
    Valid,
}

/// A region: origin and shape, in coordinates of the full result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The first position, padded to three axes with zeros in front.
    pub origin: [usize; 3],
    /// How many positions there are on each axis.
    pub shape: Shape,
}

impl Mode {
    /// The region of the full result that the mode asks for.
    ///
    /// # Errors
    /// `dims_mismatch`, `empty_input`, and `template_larger_than_image` for [`Mode::Valid`].
    pub fn region(self, image: Shape, template: Shape) -> Result<Region, SpecError> {
        if image.axes() != template.axes() {
            return Err(SpecError::of(
                Kind::DimsMismatch,
                "template",
                format!("{}, as the image", axes(image.axes())),
                axes(template.axes()),
            ));
        }
        let image = image.nonempty("image")?;
        let template = template.nonempty("template")?;
        let (x, t) = (image.padded(), template.padded());
        let mut origin = [0; 3];
        let mut lengths = [1; 3];
        for axis in 0..3 {
            (origin[axis], lengths[axis]) = match self {
                Mode::Full => (0, x[axis] + t[axis] - 1),
                Mode::Same => ((t[axis] - 1) / 2, x[axis]),
                Mode::Valid if t[axis] > x[axis] => {
                    return Err(SpecError::of(
                        Kind::TemplateLargerThanImage,
                        "template",
                        format!("at most {image} for mode valid"),
                        template,
                    ));
                }
                Mode::Valid => (t[axis] - 1, x[axis] - t[axis] + 1),
            };
        }
        Ok(Region { origin, shape: image.with_padded(lengths)? })
    }
}

impl Region {
    /// Where the template's first sample lies in the image for the first position, padded to three axes; it may be
    /// outside.
    pub fn first_place(&self, template: Shape) -> [i64; 3] {
        let template = template.padded();
        [0, 1, 2].map(|axis| self.origin[axis] as i64 - (template[axis] as i64 - 1))
    }

    /// Whether all of `inner` lies in this region.
    pub fn contains(&self, inner: &Region) -> bool {
        let (outer_shape, inner_shape) = (self.shape.padded(), inner.shape.padded());
        (0..3).all(|axis| {
            inner.origin[axis] >= self.origin[axis]
                && inner.origin[axis].saturating_add(inner_shape[axis])
                    <= self.origin[axis].saturating_add(outer_shape[axis])
        })
    }
}

impl fmt::Display for Region {
    /// `ORIGIN:SHAPE`, as `167,186:52x52`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", join(&self.shape.unpad(&self.origin), ","), self.shape)
    }
}

impl FromStr for Region {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Region, SpecError> {
        let wrong = || SpecError::new("region", "ORIGIN:SHAPE, as 167,186:52x52", text);
        let (origin, shape) = text.split_once(':').ok_or_else(wrong)?;
        let shape: Shape = shape.parse().map_err(|_| wrong())?;
        let numbers = numbers(origin, ',', "region").map_err(|_| wrong())?;
        if numbers.len() != shape.axes() {
            return Err(wrong());
        }
        let mut origin = [0; 3];
        origin[3 - numbers.len()..].copy_from_slice(&numbers);
        Ok(Region { origin, shape })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Full => "full",
            Mode::Same => "same",
            Mode::Valid => "valid",
        })
    }
}

impl FromStr for Mode {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Mode, SpecError> {
        match text {
            "full" => Ok(Mode::Full),
            "same" => Ok(Mode::Same),
            "valid" => Ok(Mode::Valid),
            _ => Err(SpecError::new("mode", "full, same or valid", text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(mode: Mode, image: &str, template: &str) -> Result<String, SpecError> {
        mode.region(image.parse().unwrap(), template.parse().unwrap()).map(|region| region.to_string())
    }

    #[test]
    fn regions_of_the_modes() {
        assert_eq!(region(Mode::Full, "10x20", "3x4").unwrap(), "0,0:12x23");
        assert_eq!(region(Mode::Same, "10x20", "3x4").unwrap(), "1,1:10x20");
        assert_eq!(region(Mode::Valid, "10x20", "3x4").unwrap(), "2,3:8x17");
        assert_eq!(region(Mode::Same, "2", "7").unwrap(), "3:2");
    }

    #[test]
    fn errors_have_their_kind() {
        assert_eq!(region(Mode::Valid, "3x9", "4x4").unwrap_err().kind, Kind::TemplateLargerThanImage);
        assert_eq!(region(Mode::Full, "3x9", "4").unwrap_err().kind, Kind::DimsMismatch);
        assert_eq!(region(Mode::Full, "0x9", "4x4").unwrap_err().kind, Kind::EmptyInput);
    }

    #[test]
    fn text_and_back() {
        let region: Region = "167,186:52x52".parse().unwrap();
        assert_eq!(region.origin, [0, 167, 186]);
        assert_eq!(region.to_string(), "167,186:52x52");
        for wrong in ["167:52x52", "1,2", "a,b:2x2", "1,2:3x", ""] {
            assert!(wrong.parse::<Region>().is_err(), "{wrong}");
        }
    }
}
