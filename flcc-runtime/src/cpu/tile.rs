//! One tile, from image samples to scores: gather, window sums, cross term, finish, repair.
//!
//! The same steps for every method; only the cross term differs. Nothing here allocates: a worker brings its
//! [`TileScratch`]. What a tile computes depends on the tile alone.

pub mod bound;
pub mod context;
mod cross;
mod samples;
pub mod scratch;

use flcc_core::view::AnyView;

use crate::cpu::engine::Work;
use crate::cpu::in_place::{self, InPlace};
use crate::cpu::real::Real;
use crate::cpu::score::{Buffers, Finishing, Store};
use crate::cpu::tile::bound::{BoundTemplate, BoundTemplates};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::cross::Source;
use crate::cpu::tile::scratch::TileScratch;
use crate::run::execute::Statistics;
use crate::run::results;
use crate::run::tiling::TileBox;

impl<T: Real> TileContext<T> {
    /// Scores one tile of one image for every template; gives up on parts of it ([`TileScratch::again`]), or with
    /// `None` on all of it, when more panels than `self.patience` are to be recomputed one by one.
    ///
    /// `store` gets the template's number, the place of a row in the result and the row's scores.
    pub fn run(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<Statistics> {
        let samples = self.tiling.samples(tile);
        scratch.scored.again.clear();
        let mut marked = self.gather(image, samples, tile, self.scheme.forced, (bound, 0), scratch);
        // Samples of a correlation are scaled down for nothing but outputs that overflow without: others would lose
        // bits of their samples, which they keep where a part of the tile is read in place (`in_place.rs`).
        let huge = self.score.in_place() && scratch.scored.scale < 1.0;
        if huge {
            marked = self.gather(image, samples, tile, Some(1.0), (bound, 0), scratch);
        }
        self.window_sums(samples.len, bound, tile.shape, scratch);
        self.load(tile, scratch);
        let mut statistics = Statistics { tiles: 1, ..Statistics::default() };
        for (number, template) in bound.templates.iter().enumerate() {
            if number > 0 && template.checked.offsets != bound.templates[number - 1].checked.offsets {
                marked = self.gather(image, samples, tile, self.scheme.forced, (bound, number), scratch);
                self.window_sums(samples.len, bound, tile.shape, scratch);
                self.load(tile, scratch);
            }
            let (judged, heights) = if let Some(parts) = self.taken_in_parts(template, tile, scratch) {
                self.cross(&parts.fine, &bound.taps, 0, tile.shape, scratch, Source::Loaded);
                (parts.judged, Some(&parts.heights[..]))
            } else {
                for channel in 0..self.spec.channels() {
                    self.cross(&template.prepared[channel], &bound.taps, channel, tile.shape, scratch, Source::Loaded);
                }
                (template.judged, None)
            };
            let overflowed = huge && self.overflows(tile, scratch);
            let finish = |work: &Work, scored: &mut Buffers<T>, store: &mut Store<'_>| {
                let outputs = [tile.shape[1], tile.shape[2]];
                let last = Finishing {
                    tiles: self.tiles(),
                    image,
                    tile,
                    samples,
                    marked,
                    weights: &bound.weights,
                    number,
                    template: &template.checked,
                    judged,
                    heights,
                    bands: &|channel| self.engine.bands(channel, outputs, work),
                };
                self.score.finish(&last, scored, store)
            };
            statistics.repaired += finish(&scratch.work, &mut scratch.scored, store)?;
            if overflowed {
                self.gather(image, samples, tile, None, (bound, number), scratch);
                self.load(tile, scratch);
                self.cross(&template.prepared[0], &bound.taps, 0, tile.shape, scratch, Source::Loaded);
                let TileScratch { over, work, scored, .. } = &mut *scratch;
                finish(work, scored, &mut Store { write: &mut self.only(over, tile, store), lines: &|_, _| None })?;
                if number + 1 < bound.templates.len() {
                    self.gather(image, samples, tile, Some(1.0), (bound, number), scratch);
                    self.load(tile, scratch);
                }
            }
            statistics.panels += tile.keep.iter().map(|(from, to)| (to - from) as u64).product::<u64>();
        }
        Some(statistics)
    }

    /// Computes a tile from the image's rows to rows of the results, where nothing else has to be done; `rows` hands
    /// out those of a template's result from a place of it in so many planes, if they can be written as they are. With
    /// `None` the tile is to be run; rows may have been written.
    pub fn run_in_place<'a>(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<Statistics> {
        let plain = |template: &BoundTemplate| !template.checked.nonfinite && template.checked.scale == 1.0;
        if !self.score.in_place() || !bound.templates.iter().all(plain) {
            return None;
        }
        let samples = self.tiling.samples(tile);
        let TileScratch { bytes, marks, work, scored: Buffers { inputs, crosses, .. }, .. } = scratch;
        let job = InPlace {
            image: in_place::Source { image, boundary: self.spec.boundary(), isas: self.isas },
            tile,
            samples,
            reached: self.reached(samples, tile, image.shape().padded()),
            template: self.spec.template().padded(),
            templates: bound.templates.len(),
            room: in_place::Room {
                samples: T::singles_mut(&mut inputs[0])?,
                marks: T::singles_mut(marks)?,
                outputs: T::singles_mut(&mut crosses[0])?,
                bytes,
                byte_pitch: self.pitches.bytes,
            },
            rows,
        };
        let template = |number: usize| {
            let BoundTemplate { prepared, checked, .. } = &bound.templates[number];
            (&prepared[0], &checked.values[0][..])
        };
        self.engine.in_place(job, &template, work)?;
        let panels: u64 = tile.keep.iter().map(|(from, to)| (to - from) as u64).product();
        Some(Statistics { panels: panels * bound.templates.len() as u64, repaired: 0, tiles: 1 })
    }
}
