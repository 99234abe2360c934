//! What a way to compute a cross term is: [`Engine`]. Tiles ask it through [`AnyEngine`], which is the same for all
//! ways: a downcast and a virtual call for each tile and template, nothing in a loop.

use std::any::Any;
use std::borrow::Cow;

use crate::cpu::bands::Bands;
use crate::cpu::in_place::InPlace;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;
use crate::problem::template::{Weights, weighted};
use crate::run::geometry::Pitch;

/// The shapes of a tile's buffers.
#[derive(Clone, Copy, Debug)]
pub struct Pitches {
    /// The buffer of the tile's samples, with what the engine reads past them.
    pub samples: Pitch,
    /// The buffer of the tile's cross term, with what the engine writes past it.
    pub cross: Pitch,
    /// The buffer of the samples as bytes, where the engine takes those: then it takes no others.
    pub bytes: Option<Pitch>,
}

/// The most that a worker computes at a time.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Outputs an axis of a tile.
    pub outputs: [usize; 3],
    /// Channels whose samples are there together.
    pub channels: usize,
}

/// The values of a template, channel by channel, as a cross term takes them.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    values: &'a [Vec<f64>],
    weights: &'a Weights,
    weighted: bool,
}

impl<'a> Channels<'a> {
    /// Values as they are, beside the mask that sums of differences take.
    pub fn plain(values: &'a [Vec<f64>], weights: &'a Weights) -> Channels<'a> {
        Channels { values, weights, weighted: false }
    }

    /// Values times the weights of a mask.
    pub fn weighted(values: &'a [Vec<f64>], weights: &'a Weights) -> Channels<'a> {
        Channels { values, weights, weighted: true }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'a, [f64]>> + Clone + use<'a> {
        let Channels { values, weights, weighted: times } = *self;
        values.iter().map(move |values| if times { weighted(values, weights) } else { Cow::Borrowed(&values[..]) })
    }

    /// The mask, if there is one.
    pub fn mask(&self) -> Option<&'a [f64]> {
        self.weights.values.as_deref()
    }
}

/// The cross term of one channel of a tile, to be computed.
pub struct Cross<'a, T> {
    /// Which channel.
    pub channel: usize,
    /// The channel's samples as gathered, or their squares.
    pub samples: &'a [T],
    /// The channel's samples as bytes, for engines that take those.
    pub bytes: &'a [i8],
    /// [`Engine::load`] has had these samples.
    pub loaded: bool,
    /// Weights of differences, for kernels of those.
    pub weights: &'a [T],
    /// The cross term.
    pub out: &'a mut [T],
    /// The shapes of all these.
    pub pitches: &'a Pitches,
    /// Outputs.
    pub outputs: [usize; 3],
    /// Sums of bytes are written as the bits of `i32`.
    pub bits: bool,
}

/// What a tile's figure will be, in terms of its panels: known before its cross term is.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Samples whose squares add up to its energy.
    pub samples: usize,
    /// Real results whose squares add up to that of one of its results.
    pub results: f64,
    /// The strongest samples count, not the mean.
    pub strongest: bool,
}

/// A way to compute the cross term of tiles in one type, for templates of one shape.
///
/// It knows neither the spec nor the measure.
pub trait Engine<T: Real>: Send + Sync + 'static {
    /// One channel of a template, as it takes it.
    type Template: Send + Sync + 'static;
    /// What a worker needs beside samples and cross terms.
    type Work: Send + 'static;

    /// The buffers of tiles of up to so many outputs an axis.
    fn pitches(&self, outputs: [usize; 3]) -> Pitches;

    /// What one worker needs.
    fn work(&self, most: Most, memory: &mut Memory) -> Self::Work;

    /// Bytes of one channel of a template.
    fn template_bytes(&self) -> usize;

    /// One channel of a template; kernels of absolute differences look at its mask, too.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    fn prepare(&self, values: &[f64], mask: Option<&[f64]>) -> Result<Self::Template, FactorError>;

    /// Prepares one channel of a template in the place of another.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    fn prepare_into(
        &self,
        values: &[f64],
        mask: Option<&[f64]>,
        _work: &mut Self::Work,
        to: &mut Self::Template,
    ) -> Result<(), FactorError> {
        *to = self.prepare(values, mask)?;
        Ok(())
    }

    /// How many terms a channel of a template comes to, if at most `limit`; `None` of templates that are not taken by
    /// terms.
    fn rank(&self, _values: &[f64], _limit: usize) -> Option<usize> {
        None
    }

    /// How cross terms with a template are rounded, and what that depends on. What takes long to find out is asked for
    /// where scores are `promised` alone.
    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Self::Template>,
        promised: bool,
    ) -> (Rounding, Figures);

    /// Takes the samples of a channel, where all templates share what is made of them.
    fn load(&self, _channel: usize, _samples: &[T], _outputs: [usize; 3], _work: &mut Self::Work) {}

    /// The cross term of a channel.
    fn cross(&self, template: &Self::Template, job: Cross<'_, T>, work: &mut Self::Work);

    /// Which outputs of the tile computed last share which figure of the error model.
    fn bands<'a>(&self, channel: usize, outputs: [usize; 2], work: &'a Self::Work) -> Bands<'a>;

    /// What a tile's figure will be, if its templates may be taken in two parts.
    fn expected(&self) -> Option<Expected>;

    /// Samples that so many outputs reach in an image where it has them: height and width. `None` where these are no
    /// more than lie under the template.
    fn reach(&self, _outputs: [usize; 2]) -> Option<[usize; 2]> {
        None
    }

    /// Correlates a tile from the image's rows to the results' rows, with templates and their values by number; `None`
    /// where it cannot, though some rows may be written.
    fn in_place<'a>(
        &self,
        _job: InPlace<'_, '_>,
        _templates: &dyn Fn(usize) -> (&'a Self::Template, &'a [f64]),
        _work: &mut Self::Work,
    ) -> Option<()> {
        None
    }
}

/// One channel of a template in the form of some engine.
pub struct Prepared(Box<dyn Any + Send + Sync>);

impl Prepared {
    /// In the form of the engine that it was made by.
    fn of<P: 'static>(&self) -> &P {
        self.0.downcast_ref().expect("a template is used by the engine that prepared it")
    }
}

/// What some engine needs of a worker.
pub struct Work(Box<dyn Any + Send>);

impl Work {
    /// The work as the engine that made it reads it.
    fn of<W: 'static>(&self) -> &W {
        self.0.downcast_ref().expect("an engine works with what it made")
    }

    /// The work as the engine that made it writes it.
    fn of_mut<W: 'static>(&mut self) -> &mut W {
        self.0.downcast_mut().expect("an engine works with what it made")
    }
}

/// An [`Engine`] whatever its template and work are.
pub trait AnyEngine<T: Real>: Send + Sync {
    /// [`Engine::pitches`].
    fn pitches(&self, outputs: [usize; 3]) -> Pitches;
    /// [`Engine::work`].
    fn work(&self, most: Most, memory: &mut Memory) -> Work;
    /// [`Engine::template_bytes`].
    fn template_bytes(&self) -> usize;
    /// [`Engine::prepare`].
    ///
    /// # Errors
    /// A decomposition that does not converge.
    fn prepare(&self, values: &[f64], mask: Option<&[f64]>) -> Result<Prepared, FactorError>;
    /// [`Engine::prepare_into`].
    ///
    /// # Errors
    /// A decomposition that does not converge.
    fn prepare_into(
        &self,
        values: &[f64],
        mask: Option<&[f64]>,
        work: &mut Work,
        to: &mut Prepared,
    ) -> Result<(), FactorError>;
    /// [`Engine::rank`].
    fn rank(&self, values: &[f64], limit: usize) -> Option<usize>;
    /// [`Engine::rounding`].
    fn rounding(&self, channels: Channels<'_>, prepared: &[Prepared], promised: bool) -> (Rounding, Figures);
    /// [`Engine::load`].
    fn load(&self, channel: usize, samples: &[T], outputs: [usize; 3], work: &mut Work);
    /// [`Engine::cross`].
    fn cross(&self, template: &Prepared, job: Cross<'_, T>, work: &mut Work);
    /// [`Engine::bands`].
    fn bands<'a>(&self, channel: usize, outputs: [usize; 2], work: &'a Work) -> Bands<'a>;
    /// [`Engine::expected`].
    fn expected(&self) -> Option<Expected>;
    /// [`Engine::reach`].
    fn reach(&self, outputs: [usize; 2]) -> Option<[usize; 2]>;
    /// [`Engine::in_place`].
    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a Prepared, &'a [f64]),
        work: &mut Work,
    ) -> Option<()>;
}

impl<T: Real, E: Engine<T>> AnyEngine<T> for E {
    fn pitches(&self, outputs: [usize; 3]) -> Pitches {
        Engine::pitches(self, outputs)
    }

    fn work(&self, most: Most, memory: &mut Memory) -> Work {
        let work = Engine::work(self, most, memory);
        Work(memory.boxed(work))
    }

    fn template_bytes(&self) -> usize {
        Engine::template_bytes(self)
    }

    fn prepare(&self, values: &[f64], mask: Option<&[f64]>) -> Result<Prepared, FactorError> {
        Ok(Prepared(Box::new(Engine::prepare(self, values, mask)?)))
    }

    fn prepare_into(
        &self,
        values: &[f64],
        mask: Option<&[f64]>,
        work: &mut Work,
        to: &mut Prepared,
    ) -> Result<(), FactorError> {
        let to = to.0.downcast_mut().expect("a template is used by the engine that prepared it");
        Engine::prepare_into(self, values, mask, work.of_mut(), to)
    }

    fn rank(&self, values: &[f64], limit: usize) -> Option<usize> {
        Engine::rank(self, values, limit)
    }

    fn rounding(&self, channels: Channels<'_>, prepared: &[Prepared], promised: bool) -> (Rounding, Figures) {
        Engine::rounding(self, channels, &mut prepared.iter().map(Prepared::of), promised)
    }

    fn load(&self, channel: usize, samples: &[T], outputs: [usize; 3], work: &mut Work) {
        Engine::load(self, channel, samples, outputs, work.of_mut());
    }

    fn cross(&self, template: &Prepared, job: Cross<'_, T>, work: &mut Work) {
        Engine::cross(self, template.of(), job, work.of_mut());
    }

    fn bands<'a>(&self, channel: usize, outputs: [usize; 2], work: &'a Work) -> Bands<'a> {
        Engine::bands(self, channel, outputs, work.of())
    }

    fn expected(&self) -> Option<Expected> {
        Engine::expected(self)
    }

    fn reach(&self, outputs: [usize; 2]) -> Option<[usize; 2]> {
        Engine::reach(self, outputs)
    }

    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a Prepared, &'a [f64]),
        work: &mut Work,
    ) -> Option<()> {
        let templates = |number: usize| {
            let (prepared, values) = templates(number);
            (prepared.of(), values)
        };
        Engine::in_place(self, job, &templates, work.of_mut())
    }
}
