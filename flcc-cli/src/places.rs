//! Where a template may lie in an image, as a user says it.

use std::fmt;
use std::str::FromStr;

use flcc_runtime::{Kind, Mode, Region, Shape, SpecError};

/// Where the template's first sample may lie in the image: `ORIGIN:SHAPE`. An origin may be negative in modes that look
/// outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The first place, padded to three axes with zeros in front.
    origin: [i64; 3],
    /// How many places there are on each axis.
    shape: Shape,
}

impl Places {
    /// The same places in the coordinates of a [`Spec`](flcc_runtime::Spec), those of the full result.
    ///
    /// # Errors
    /// Places that the mode does not compute, arrays of other axes.
    pub fn region(&self, mode: Mode, image: Shape, template: Shape) -> Result<Region, SpecError> {
        let whole = mode.region(image, template)?;
        if self.shape.axes() != image.axes() {
            let expected = format!("{}, as the image", flcc_runtime::core::shape::axes(image.axes()));
            return Err(SpecError::of(Kind::DimsMismatch, "roi", expected, self));
        }
        self.shape.nonempty("roi")?;
        let offset = template.padded().map(|length| length as i64 - 1);
        let origin = [0, 1, 2]
            .map(|axis| self.origin[axis].checked_add(offset[axis]).and_then(|origin| usize::try_from(origin).ok()));
        let region = match origin {
            [Some(d), Some(h), Some(w)] => Some(Region { origin: [d, h, w], shape: self.shape }),
            _ => None,
        };
        region.filter(|region| whole.contains(region)).ok_or_else(|| {
            let places = Places { origin: whole.first_place(template), shape: whole.shape };
            let expected = format!("a part of {places}, where the template's first sample may lie in mode {mode}");
            SpecError::new("roi", expected, self)
        })
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin: Vec<String> = self.shape.unpad(&self.origin).iter().map(i64::to_string).collect();
        write!(f, "{}:{}", origin.join(","), self.shape)
    }
}

impl FromStr for Places {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Places, SpecError> {
        let wrong = || SpecError::new("region", "ORIGIN:SHAPE, as 160,180:20x20 or -3,0:20x20", text);
        let (origin, shape) = text.split_once(':').ok_or_else(wrong)?;
        let shape: Shape = shape.parse().map_err(|_| wrong())?;
        let signed = |part: &str| {
            let digits = part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse::<i64>().map_err(|_| wrong()) } else { Err(wrong()) }
        };
        let numbers = origin.split(',').map(signed).collect::<Result<Vec<_>, _>>()?;
        if numbers.len() != shape.axes() {
            return Err(wrong());
        }
        let mut origin = [0; 3];
        origin[3 - numbers.len()..].copy_from_slice(&numbers);
        Ok(Places { origin, shape })
    }
}
