//! Templates bound to a way through tiles: in the form of its engine, with what their cross terms leave in doubt.

use std::borrow::Cow;

use flcc_core::wide::Wide;

use crate::cpu::engine::{Channels, Prepared};
use crate::cpu::real::Real;
use crate::cpu::score::Judged;
use crate::cpu::score::split::{self, Splitter};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::scratch::TileScratch;
use crate::problem::error_model::{Model, Unseen};
use crate::problem::factor::FactorError;
use crate::problem::template::{Checked, Weights};

/// A template bound to a plan.
pub struct BoundTemplate {
    /// The template's checked values.
    pub checked: Checked,
    /// One for each channel, weights included.
    pub(super) prepared: Vec<Prepared>,
    pub(super) judged: Judged,
    /// The template in two parts, for tiles that leave much in doubt otherwise.
    pub(super) parts: Option<Parts>,
}

/// A template in two parts.
pub(super) struct Parts {
    /// All of it, as a survey takes it.
    pub(super) whole: Vec<f32>,
    /// The rectangles of the coarse one.
    pub(super) heights: Vec<f64>,
    pub(super) fine: Prepared,
    /// What the cross term with the fine part leaves in doubt.
    pub(super) judged: Judged,
}

/// Templates and mask bound to a plan.
pub struct BoundTemplates<T: Real> {
    /// The mask.
    pub weights: Weights,
    /// The mask's weights in the form of the engine, for window sums.
    pub(super) mask: Option<Prepared>,
    /// The mask's weights as the kernels of absolute differences take them.
    pub(super) taps: Vec<T>,
    /// The templates.
    pub templates: Vec<BoundTemplate>,
}

impl<T: Real> BoundTemplates<T> {
    /// Has templates taken whole by every tile.
    pub fn keep_whole(&mut self) {
        self.templates.iter_mut().for_each(|template| template.parts = None);
    }
}

impl<T: Real> TileContext<T> {
    /// Bytes of one bound template.
    pub fn template_bytes(&self) -> usize {
        let values = self.spec.channels() * self.spec.template().len();
        let prepared = self.spec.channels() * self.engine.template_bytes();
        16 * values
            + prepared
            + self.splitter.map_or(0, |splitter| 8 * Splitter::COUNT + 4 * splitter.padded_len() + prepared)
    }

    /// Binds checked templates.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<BoundTemplates<T>, FactorError> {
        let mask = match &weights.values {
            Some(values) if self.needs().square => Some(self.engine.prepare(values, weights.values.as_deref())?),
            _ => None,
        };
        let taps = if self.needs().absolute_difference {
            weights
                .values
                .clone()
                .unwrap_or_else(|| vec![1.0; self.spec.template().len()])
                .into_iter()
                .map(T::of)
                .collect()
        } else {
            Vec::new()
        };
        let templates =
            checked.into_iter().map(|checked| self.bind_one(checked, &weights)).collect::<Result<_, _>>()?;
        Ok(BoundTemplates { weights, mask, taps, templates })
    }

    /// The largest separable rank among templates, if none is over `limit`.
    pub fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        let mut largest = 0;
        for template in checked {
            for values in Channels::weighted(&template.values, weights).iter() {
                largest = self.engine.rank(&values, limit)?.max(largest);
            }
        }
        Some(largest)
    }

    fn bind_one(&self, checked: Checked, weights: &Weights) -> Result<BoundTemplate, FactorError> {
        let channels = self.channels(&checked, weights);
        let prepare = |values: Cow<'_, [f64]>| self.engine.prepare(&values, weights.values.as_deref());
        let prepared = channels.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let judged = self.judged(channels, &prepared, checked.energy);
        let mut template = BoundTemplate { checked, prepared, judged, parts: None };
        if let Some(splitter) = &self.splitter {
            let values = &template.checked.values[0];
            let split::Split { coarse: heights, fine } = splitter.split(values);
            let prepared = prepare(Cow::Borrowed(&fine))?;
            let fine = Channels::plain(std::slice::from_ref(&fine), weights);
            let judged = self.judged(fine, std::slice::from_ref(&prepared), template.checked.energy);
            template.parts = Some(Parts { whole: splitter.padded(values), heights, fine: prepared, judged });
        }
        Ok(template)
    }

    /// A template's values as cross terms take them.
    fn channels<'a>(&self, checked: &'a Checked, weights: &'a Weights) -> Channels<'a> {
        let values = if self.scheme.integers.is_some() { &checked.raw } else { &checked.values };
        if self.needs().absolute_difference {
            Channels::plain(values, weights)
        } else {
            Channels::weighted(values, weights)
        }
    }

    /// What another context has bound, for this one, which is direct or transforms and so decomposes nothing.
    pub fn bind_again(&self, templates: &[BoundTemplate], weights: &Weights) -> BoundTemplates<T> {
        let checked = templates.iter().map(|template| template.checked.clone()).collect();
        self.bind(checked, weights.clone()).expect("only separable contexts decompose templates")
    }

    /// Binds the new values of templates, those in their `checked`, in the place of the old ones and in one part.
    /// Direct kernels of one channel and transforms of one tile allocate nothing.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn rebind(&self, bound: &mut BoundTemplates<T>, scratch: &mut TileScratch<T>) -> Result<(), FactorError> {
        let BoundTemplates { weights, templates, .. } = bound;
        for BoundTemplate { checked, prepared, judged, parts } in templates {
            let channels = self.channels(checked, weights);
            for (values, prepared) in channels.iter().zip(&mut *prepared) {
                self.engine.prepare_into(&values, weights.values.as_deref(), &mut scratch.work, prepared)?;
            }
            (*judged, *parts) = (self.judged(channels, prepared, checked.energy), None);
        }
        Ok(())
    }

    /// What cross terms with a template's channels leave in doubt, by what was prepared of them; `energy` is that of
    /// all of the template.
    fn judged(&self, channels: Channels<'_>, prepared: &[Prepared], energy: f64) -> Judged {
        let (rounding, figures) = self.engine.rounding(channels, prepared, self.scheme.promise.is_some());
        let model = Model {
            measure: self.scheme.measure,
            promise: self.scheme.promise,
            roundoff: T::ROUNDOFF,
            taps: (self.spec.template().len() * self.spec.channels()) as f64,
            samples: energy.sqrt(),
            rounds_samples: self.scheme.rounds_samples,
            rounding,
            wide: Wide::Double,
            weights: channels.mask(),
        };
        let floor = model.floor(&figures, T::SMALLEST, self.score.in_singles());
        Judged {
            doubt: model.doubt(&figures).above(floor),
            unseen: Unseen::of(&figures, &model.rounding, model.roundoff, self.spec.channels()),
        }
    }
}
