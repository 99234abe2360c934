//! Images of which not all is known: which options go with that, and the results.

use serde_json::{Map, Value, json};

use flcc_runtime::{
    Boundary, Control, Effort, Masked, Method, PlanError, Platform, Refusal, ScoreMap, Spec, SpecError,
};

use super::templates::Templates;
use crate::args::{self, Extent, Planning};
use crate::data::{Image, open_mask};
use crate::error::Error;
use crate::memory::{check, results};
use crate::session::Session;

/// The word for what lies outside an image of which nothing is known there.
const UNKNOWN: &str = "unknown";

/// What of an image is known.
pub struct Known {
    mask: Option<Image>,
    outside_unknown: bool,
    min_overlap: f64,
}

/// The argument that says that not all of the image is known, with what it says.
pub fn asked(extent: &Extent, known: &args::Known) -> Option<(&'static str, String)> {
    let mask = known.image_mask.as_ref().map(|path| ("--image-mask", path.display().to_string()));
    mask.or_else(|| (extent.boundary == UNKNOWN).then(|| ("--boundary", UNKNOWN.into())))
}

/// What lies outside; zeros where that is unknown.
///
/// # Errors
/// What is no boundary, or not one of the command.
pub fn boundary(takes_masks: bool, extent: &Extent) -> Result<Boundary, SpecError> {
    if extent.boundary != UNKNOWN || !takes_masks {
        return extent.boundary();
    }
    match extent.cval {
        None => Ok(Boundary::Zero),
        Some(_) => Err(SpecError::new("--cval", "--boundary constant with it", "--boundary unknown")),
    }
}

/// Whether samples that are no numbers hide peaks: only those that are known do, so the scores tell.
pub fn hides(map: &ScoreMap) -> bool {
    (0..map.shape().len()).any(|index| map.get(index).is_nan())
}

impl Known {
    /// Reads the image's mask; none where all of it is known, and what lies outside. With `fall_back` the CPU may
    /// do what GPUs are asked for.
    ///
    /// # Errors
    /// A file that is not read, options that do not go together, forced methods and platforms.
    pub fn open(
        takes_masks: bool,
        (extent, known): (&Extent, &args::Known),
        planning: &Planning,
        fall_back: bool,
    ) -> Result<Option<Known>, Error> {
        let Some((argument, got)) = asked(extent, known) else {
            return match known.min_overlap {
                None => Ok(None),
                Some(share) => {
                    let expected = "--image-mask or --boundary unknown with it";
                    Err(SpecError::new("--min-overlap", expected, share).into())
                }
            };
        };
        if !takes_masks {
            return Err(SpecError::new(argument, "none for conv (corr takes one)", got).into());
        }
        let gpu = planning.platform == Platform::Cuda || !planning.devices.is_empty();
        let reason = match planning.method {
            _ if gpu && !fall_back => "no --platform cuda or --devices serves it, the CPU computes it",
            _ if planning.kernel.is_some() => "no --kernel serves it, it takes several of its own choice",
            Method::Auto => "",
            _ => "no --method but auto serves it, it takes several of its own choice",
        };
        if !reason.is_empty() {
            return Err(PlanError::Refused(Refusal::new(argument, reason)).into());
        }
        if let Some(effort) = planning.effort.filter(|effort| *effort != Effort::Estimate) {
            return Err(SpecError::new("--effort", format!("estimate with {argument}"), effort).into());
        }
        let open = |path: &std::path::PathBuf| {
            let mask = open_mask("--image-mask", path, &extent.reading)?;
            if mask.is_zero() {
                mask.tell("every weight is 0, so nothing of the image is known");
            }
            Ok::<_, Error>(mask)
        };
        Ok(Some(Known {
            mask: known.image_mask.as_ref().map(open).transpose()?,
            outside_unknown: extent.boundary == UNKNOWN,
            min_overlap: known.min_overlap.unwrap_or(0.0),
        }))
    }

    /// As fields of a line of JSON.
    pub fn described(&self) -> Map<String, Value> {
        let outside = if self.outside_unknown { UNKNOWN } else { "boundary" };
        let fields = [
            ("image_mask", json!(self.mask.as_ref().map(|mask| &mask.name))),
            ("outside", json!(outside)),
            ("min_overlap", json!(self.min_overlap)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The results of an image, which messages call `called`, with a group of templates.
    ///
    /// # Errors
    /// A mask that is not the image's, a template that is not matched.
    pub fn execute(
        &self,
        spec: &Spec,
        session: &Session,
        (image, mask): (&Image, Option<&Image>),
        (templates, group): (&Templates, &[usize]),
        (called, control): (&str, &Control<'_>),
    ) -> Result<Vec<ScoreMap>, Error> {
        let mask = mask.map(Image::view).transpose()?;
        let views = templates.views(group)?;
        let masked = Masked {
            image: image.view()?,
            image_mask: self.mask.as_ref().map(Image::view).transpose()?,
            templates: &views,
            mask: mask.as_ref(),
            outside_unknown: self.outside_unknown,
            min_overlap: self.min_overlap,
        };
        let named = |error: Error| error.named(called, &templates.called(group[0]));
        let bytes = Masked::bytes(spec, &session.planner).map_err(|error| named(error.into()))?;
        check(&spec.to_string(), results(spec) + bytes as f64)?;
        if session.asks_for_gpus() {
            session.note("the CPU goes on: no GPU serves images of which not all is known");
        }
        let done = masked.execute(spec, &session.planner, control).map_err(|error| named(error.into()))?;
        Ok(done.0)
    }
}
