//! Images of which not all is known: what calls say of it, and what does not go with it.

use flcc_runtime::{AnyView, Masked};
use pyo3::prelude::*;

use crate::arrays::Array;
use crate::claims::Call;
use crate::errors::{MATCHING, value};

/// The word for what lies outside an image of which nothing is known there.
const UNKNOWN: &str = "unknown";

/// What a call says of it.
#[derive(Clone, Copy)]
pub struct Said<'a, 'py> {
    /// Weights of the image.
    pub image_mask: Option<&'a Bound<'py, PyAny>>,
    /// What lies outside, in words.
    pub boundary: &'a str,
    /// The share of a template that must be known.
    pub min_overlap: f64,
    /// The largest weight of an image of which this is a part.
    pub largest: f64,
}

/// What of an image is known, where not all of it is.
pub struct Known<'py> {
    mask: Option<Array<'py>>,
    outside_unknown: bool,
    min_overlap: f64,
    /// The largest weight of an image of which this is a part.
    pub largest: f64,
}

impl<'a, 'py> Said<'a, 'py> {
    /// That all of the image is known, and what lies outside.
    pub fn nothing() -> Said<'a, 'py> {
        Said { image_mask: None, boundary: "zero", min_overlap: 0.0, largest: 0.0 }
    }

    /// What lies outside, for the spec.
    pub fn outside(&self) -> &'a str {
        if self.boundary == UNKNOWN { "zero" } else { self.boundary }
    }

    /// Claims the mask; none where all is known. What computes under a mask chooses its methods, on the CPU.
    pub fn known(&self, method: &str, device: &str, call: Call) -> PyResult<Option<Known<'py>>> {
        let (outside_unknown, with) = (self.boundary == UNKNOWN, "image_mask or boundary unknown");
        if self.image_mask.is_none() && !outside_unknown {
            return match self.min_overlap {
                0.0 => Ok(None),
                share => Err(value("min_overlap", &format!("0 without {with}"), &share.to_string())),
            };
        }
        if method != "auto" {
            return Err(value("method", &format!("auto with {with}"), method));
        }
        if device != "auto" && device != "cpu" {
            return Err(value("device", &format!("auto or cpu with {with}"), device));
        }
        let mask = self.image_mask.map(|mask| Array::read_small("image_mask", mask, None, call)).transpose()?;
        Ok(Some(Known { mask, outside_unknown, min_overlap: self.min_overlap, largest: self.largest }))
    }

    /// Refuses an image on a GPU.
    pub fn on_gpu(&self) -> PyResult<()> {
        match self.image_mask.is_some() || self.boundary == UNKNOWN {
            true => Err(value("image", "an array of the CPU with image_mask or boundary unknown", "one on a GPU")),
            false => Ok(()),
        }
    }
}

impl Known<'_> {
    /// The problem of an image and templates.
    pub fn of<'a>(
        &'a self,
        image: AnyView<'a>,
        templates: &'a [AnyView<'a>],
        mask: Option<&'a AnyView<'a>>,
    ) -> PyResult<Masked<'a>> {
        let image_mask = self.mask.as_ref().map(Array::view).transpose().map_err(|error| MATCHING.spec(error))?;
        let (outside_unknown, min_overlap) = (self.outside_unknown, self.min_overlap);
        Ok(Masked { image, image_mask, templates, mask, outside_unknown, min_overlap })
    }
}

/// About how many nanoseconds so many scores take.
pub fn estimate(scores: usize) -> f64 {
    scores as f64 * 100.0
}
