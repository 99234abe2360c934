//! The cross term of a tile, by its engine, with whole templates or in two parts.

use crate::cpu::engine::{Cross, Expected, Prepared};
use crate::cpu::real::Real;
use crate::cpu::score::split;
use crate::cpu::tile::bound::{BoundTemplate, Parts};
use crate::cpu::tile::context::{Scoring, TileContext};
use crate::cpu::tile::scratch::TileScratch;
use crate::run::tiling::TileBox;

/// The share of sampled panels in doubt from which on the two parts of a template take less time than what would be
/// repaired.
const MUCH_IN_DOUBT: f64 = 0.02;

/// Panels whose energy is within this of what leaves them in doubt are near.
const NEAR: f64 = 16.0;

/// The largest result of a tile over the largest norm of the panels sampled, about: what resembles the template most is
/// not what is brightest.
const LIKENESS: f64 = 0.6;

/// The root mean square of a transform's results, those that wrap round included, over that of the panels sampled,
/// about.
const BETWEEN: f64 = 1.25;

/// What a cross term is taken of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The samples of the tile.
    Image,
    /// Their squares.
    Squares,
    /// The samples, whose transform is already there.
    Loaded,
}

impl<T: Real> TileContext<T> {
    /// The cross term of one channel with a prepared template, into `crosses[channel]`.
    pub(super) fn cross(
        &self,
        prepared: &Prepared,
        weights: &[T],
        channel: usize,
        outputs: [usize; 3],
        scratch: &mut TileScratch<T>,
        source: Source,
    ) {
        let TileScratch { inputs, squares, bytes, crosses, work, .. } = scratch;
        let job = Cross {
            channel,
            samples: if source == Source::Squares { squares } else { &inputs[channel] },
            bytes,
            loaded: source == Source::Loaded,
            weights,
            out: &mut crosses[channel],
            pitches: &self.pitches,
            outputs,
            bits: self.integer_bits(),
        };
        self.engine.cross(prepared, job, work);
        if self.scheme.rounds {
            crosses[channel].iter_mut().for_each(|value| *value = T::of(value.to_f64().round()));
        }
    }

    /// Hands the engine the samples that were gathered, where all templates share what it makes of them.
    pub(super) fn load(&self, tile: &TileBox, scratch: &mut TileScratch<T>) {
        let TileScratch { inputs, work, .. } = scratch;
        for (channel, input) in inputs.iter().enumerate() {
            self.engine.load(channel, input, tile.shape, work);
        }
    }

    /// The two parts of a template, if its cross term with a tile is to be taken of them: if it would leave much in
    /// doubt otherwise.
    pub(super) fn taken_in_parts<'a>(
        &self,
        template: &'a BoundTemplate,
        tile: &TileBox,
        scratch: &TileScratch<T>,
    ) -> Option<&'a Parts> {
        let (splitter, parts, Scoring::Vectors(vectors)) =
            (self.splitter.as_ref()?, template.parts.as_ref()?, self.scoring)
        else {
            return None;
        };
        if self.always_in_parts {
            return Some(parts);
        }
        let (input, outputs) = (T::singles(&scratch.inputs[0])?, [tile.shape[1], tile.shape[2]]);
        let n = self.spec.template().len() as f64;
        let Expected { samples, results, strongest } = self.engine.expected()?;
        let in_row = self.pitches.samples.row;
        let share_in_doubt = |most: usize, reserve: f64| {
            let survey = vectors.run(split::Take { splitter, template: &parts.whole, input, in_row, outputs, most });
            let (result, peak) = survey.result(n);
            let square = if strongest { survey.largest_square(n) } else { survey.square(n) };
            let energy = square * samples as f64;
            let limits = template.judged.doubt.at_peak(
                energy,
                BETWEEN * (results * result).sqrt(),
                results.sqrt() * LIKENESS * peak,
            );
            survey.share_in_doubt(n, (reserve * limits.0, reserve * limits.1))
        };
        // A few panels first: where none of them is anywhere near, that is all.
        (share_in_doubt(split::GRID / 2, NEAR) > 0.0 && share_in_doubt(split::GRID, 1.0) > MUCH_IN_DOUBT)
            .then_some(parts)
    }
}
