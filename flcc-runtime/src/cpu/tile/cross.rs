//! The cross term of a tile, by its engine, with whole templates or in two parts.

use crate::cpu::engine::{Cross, Expected, Prepared};
use crate::cpu::real::Real;
use crate::cpu::score::{Buffers, Store, split};
use crate::cpu::tile::bound::{BoundTemplate, Parts};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::scratch::TileScratch;
use crate::run::geometry::Pitch;
use crate::run::results::Scores;
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
        let TileScratch { squares, bytes, work, scored: Buffers { inputs, crosses, .. }, .. } = scratch;
        let job = Cross {
            channel,
            samples: if source == Source::Squares { squares } else { &inputs[channel] },
            bytes,
            loaded: source == Source::Loaded,
            weights,
            out: &mut crosses[channel],
            pitches: &self.pitches,
            outputs,
            bits: self.score.takes_bits(),
        };
        self.engine.cross(prepared, job, work);
        if self.scheme.rounds {
            crosses[channel].iter_mut().for_each(|value| *value = T::of(value.to_f64().round()));
        }
    }

    /// Hands the engine the samples that were gathered, where all templates share what it makes of them.
    pub(super) fn load(&self, tile: &TileBox, scratch: &mut TileScratch<T>) {
        let TileScratch { work, scored, .. } = scratch;
        for (channel, input) in scored.inputs.iter().enumerate() {
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
        let (splitter, parts, vectors) = (self.splitter.as_ref()?, template.parts.as_ref()?, self.score.adds_parts()?);
        if self.always_in_parts {
            return Some(parts);
        }
        let (input, outputs) = (T::singles(&scratch.scored.inputs[0])?, [tile.shape[1], tile.shape[2]]);
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

    /// Notes which outputs of a correlation that are asked for overflowed, in `scratch.over`; returns whether some did.
    pub(super) fn overflows(&self, tile: &TileBox, scratch: &mut TileScratch<T>) -> bool {
        let TileScratch { over, scored, .. } = scratch;
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        let mut some = false;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * self.pitches.cross.plane + y * self.pitches.cross.row;
            for (over, value) in over[at + x0..at + x1].iter_mut().zip(&scored.crosses[0][at + x0..at + x1]) {
                *over = !value.to_f64().is_finite();
                some |= *over;
            }
        }
        some
    }

    /// Stores rows of a tile's outputs, of which only those that are noted as `over`.
    pub(super) fn only(
        &self,
        over: &[bool],
        tile: &TileBox,
        store: &mut Store<'_>,
    ) -> impl FnMut(usize, [usize; 3], Scores<'_>) {
        let Pitch { row, plane, .. } = self.pitches.cross;
        move |number, [z, y, x], scores| {
            let [dz, dy, dx] = [0, 1, 2].map(|axis| [z, y, x][axis] - tile.place[axis] + tile.keep[axis].0);
            let at = dz * plane + dy * row + dx;
            for column in (0..tile.keep[2].1 - tile.keep[2].0).filter(|column| over[at + column]) {
                let score = match scores {
                    Scores::Single(row) => Scores::Single(&row[column..=column]),
                    Scores::Double(row) => Scores::Double(&row[column..=column]),
                };
                (store.write)(number, [z, y, x + column], score);
            }
        }
    }
}
