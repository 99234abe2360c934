//! What slides over what: an image, a window, and which positions of the window are asked for.
//!
//! All that a grid of tiles needs to know of a problem. A [`Spec`](crate::spec::Spec) has a frame whose window is its
//! template; statistics of windows have no template and need nothing more than this.

use crate::error::{Kind, SpecError};
use crate::extent::{Mode, Region};
use crate::shape::{Shape, axes};

/// An image and a window on it, checked when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    image: Shape,
    window: Shape,
    mode: Mode,
    roi: Option<Region>,
    region: Region,
}

impl Frame {
    /// Every position that the mode asks for.
    ///
    /// # Errors
    /// `empty_input`, `dims_mismatch`, or `template_larger_than_image` for mode valid; the window is called template.
    pub fn new(image: Shape, window: Shape, mode: Mode) -> Result<Frame, SpecError> {
        let region = mode.region(image, window)?;
        // Positions of every mode are counted in coordinates of the full result.
        Mode::Full.region(image, window)?;
        Ok(Frame { image, window, mode, roi: None, region })
    }

    /// The same with a part of the mode's positions alone, in coordinates of the full result; all of them with `None`.
    ///
    /// # Errors
    /// An empty part, or one that does not lie in what the mode computes.
    pub fn with_roi(self, roi: Option<Region>) -> Result<Frame, SpecError> {
        let whole = self.mode.region(self.image, self.window)?;
        let region = match roi {
            None => whole,
            Some(part) => {
                if part.shape.axes() != self.image.axes() {
                    return Err(SpecError::of(
                        Kind::DimsMismatch,
                        "roi",
                        format!("{}, as the image", axes(self.image.axes())),
                        part,
                    ));
                }
                part.shape.nonempty("roi")?;
                if !whole.contains(&part) {
                    return Err(SpecError::new(
                        "roi",
                        format!(
                            "a part of {whole}, what mode {} computes, in coordinates of the full result",
                            self.mode
                        ),
                        part,
                    ));
                }
                part
            }
        };
        Ok(Frame { roi: roi.filter(|part| *part != whole), region, ..self })
    }

    /// The same on images of another shape.
    ///
    /// # Errors
    /// As [`Frame::new`], or a part that no longer fits.
    pub fn with_image(self, image: Shape) -> Result<Frame, SpecError> {
        Frame::new(image, self.window, self.mode)?.with_roi(self.roi)
    }

    /// The shape of the image.
    pub fn image(&self) -> Shape {
        self.image
    }

    /// The shape of the window.
    pub fn window(&self) -> Shape {
        self.window
    }

    /// The mode: which positions of the window are asked for, but for a part.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The part asked for, where it is less than the mode's whole.
    pub fn roi(&self) -> Option<Region> {
        self.roi
    }

    /// What is computed, in coordinates of the full result.
    pub fn region(&self) -> Region {
        self.region
    }

    /// What the mode alone would compute.
    pub fn mode_region(&self) -> Region {
        match self.roi {
            None => self.region,
            Some(_) => self.mode.region(self.image, self.window).expect("checked when the frame was built"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_it_moves_to_other_images() {
        let shape = |lengths: &[usize]| Shape::new(lengths).unwrap();
        let frame = Frame::new(shape(&[20, 30]), shape(&[5, 7]), Mode::Same).unwrap();
        assert_eq!((frame.region().origin, frame.region().shape), ([0, 2, 3], shape(&[20, 30])));
        let part = Region { origin: [0, 4, 9], shape: shape(&[3, 8]) };
        let narrow = frame.with_roi(Some(part)).unwrap();
        assert_eq!((narrow.region(), narrow.mode_region(), narrow.roi()), (part, frame.region(), Some(part)));
        assert_eq!(narrow.with_image(shape(&[40, 17])).unwrap().region(), part);
        assert!(narrow.with_image(shape(&[40, 13])).unwrap_err().to_string().starts_with("roi"));
        // All of it is no part.
        assert_eq!(narrow.with_roi(Some(frame.region())), Ok(frame));
        assert!(Frame::new(shape(&[4, 30]), shape(&[5, 7]), Mode::Valid).is_err());
    }
}
