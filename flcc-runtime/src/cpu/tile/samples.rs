//! The samples of a tile: gathered, with marks of what is no number, and the sums of every window.

use flcc_core::spec::Accuracy;
use flcc_core::view::AnyView;

use crate::cpu::gather::{self, Hides, Target};
use crate::cpu::real::Real;
use crate::cpu::score::window_sums;
use crate::cpu::tile::bound::BoundTemplates;
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::cross::Source;
use crate::cpu::tile::scratch::TileScratch;
use crate::isa;
use crate::problem::template::Weights;
use crate::run::geometry::Samples;
use crate::run::tiling::TileBox;

impl<T: Real> TileContext<T> {
    /// The samples under a tile, and those after them that its transforms reach, on an axis where the image has them
    /// all: a tile whose transforms read the image itself reads these, and every other way to its cross term is to give
    /// the same bits.
    pub fn reached(&self, samples: Samples, tile: &TileBox, lengths: [usize; 3]) -> Samples {
        let reach = self.reach(tile);
        let mut reached = samples;
        for axis in 0..3 {
            if reach[axis] > 0 && samples.begin[axis] + reach[axis] as isize <= lengths[axis] as isize {
                reached.len[axis] = reach[axis];
            }
        }
        reached
    }

    /// How many samples an axis transforms of a tile reach over from its first on, where the image has them; 0 of an
    /// axis where they reach over no more than the tile's own.
    pub fn reach(&self, tile: &TileBox) -> [usize; 3] {
        let reach = self.score.in_place().then(|| self.engine.reach([tile.shape[1], tile.shape[2]])).flatten();
        reach.map_or([0; 3], |[rows, columns]| [0, rows, columns])
    }

    /// Gathers every channel for a template, by its number; returns whether some sample was marked.
    pub(super) fn gather(
        &self,
        image: &AnyView<'_>,
        samples: Samples,
        tile: &TileBox,
        forced: Option<f64>,
        (bound, number): (&BoundTemplates<T>, usize),
        scratch: &mut TileScratch<T>,
    ) -> bool {
        let (weights, offsets) = (&bound.weights, &bound.templates[number].checked.offsets);
        let boundary = self.spec.boundary();
        let reached = self.reached(samples, tile, image.shape().padded());
        if let (Some(pitch), AnyView::U8(view)) = (self.pitches.bytes, image) {
            gather::bytes(view, boundary, samples, &mut scratch.bytes, pitch, &self.isas);
            if self.only_bytes() {
                return false;
            }
        }
        // Promised scores have their doubt; what sums show has nothing closer, and that of fast scores is coarse.
        let coarse = self.scheme.promise.is_none() || self.spec.accuracy() == Accuracy::Fast;
        let support = weights.support.as_ref().filter(|_| coarse && self.scheme.integers.is_none());
        let hides = support.map(|support| Hides { support, outputs: tile.shape });
        let mut any = false;
        for (channel, &shared) in offsets.iter().enumerate() {
            let view = image.channel(channel);
            let offset = match self.scheme.integers {
                Some(_) => 0.0,
                None if self.needs().centred => gather::offset(&view, boundary, samples),
                None => shared,
            };
            let target = Target {
                out: &mut scratch.scored.inputs[channel],
                marks: &mut scratch.marks,
                pitch: self.pitches.samples,
                hides,
                reach: self.scheme.reach(self.spec.out_type(), T::REACH),
                isas: self.isas,
            };
            let done = gather::gather(&view, boundary, reached, offset, forced, target);
            scratch.scored.factors[channel] = done.scale;
            if done.marked {
                if !any {
                    scratch.scored.hit.fill(false);
                }
                any = true;
                self.merge_hits(samples.len, tile.shape, weights, scratch);
            }
        }
        // Channels in one scale: that of the largest.
        let smallest = scratch.scored.factors.iter().copied().fold(f64::INFINITY, f64::min);
        scratch.scored.factors.iter_mut().for_each(|scale| *scale = smallest / *scale);
        scratch.scored.scale = smallest;
        any
    }

    /// Adds to `hit` the panels that touch a marked sample of the channel gathered last.
    fn merge_hits(&self, samples: [usize; 3], outputs: [usize; 3], weights: &Weights, scratch: &mut TileScratch<T>) {
        let [kd, kh, kw] = self.spec.template().padded();
        let zero = T::of(0.0);
        if let Some(weights) = &weights.values {
            // Under a mask only its own samples count: each marked sample hits the panels whose weight there is
            // positive.
            for (k, _) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                let [dz, dy, dx] = [k / (kh * kw), k / kw % kh, k % kw];
                for z in 0..outputs[0] {
                    for y in 0..outputs[1] {
                        let from = (z + dz) * self.pitches.samples.plane + (y + dy) * self.pitches.samples.row + dx;
                        let to = z * self.pitches.cross.plane + y * self.pitches.cross.row;
                        let marks = &scratch.marks[from..from + outputs[2]];
                        scratch.scored.hit[to..to + outputs[2]]
                            .iter_mut()
                            .zip(marks)
                            .for_each(|(hit, mark)| *hit |= *mark != zero);
                    }
                }
            }
            return;
        }
        let tile = window_sums::Lattice {
            shape: samples,
            row_pitch: self.pitches.samples.row,
            plane_pitch: self.pitches.samples.plane,
        };
        let (marks, work) = (&mut scratch.marks, &mut scratch.window_marks);
        window_sums::maximum(&self.isas, marks, work, &tile, [kd, kh, kw]);
        for z in 0..outputs[0] {
            for y in 0..outputs[1] {
                let from = z * self.pitches.samples.plane + y * self.pitches.samples.row;
                let to = z * self.pitches.cross.plane + y * self.pitches.cross.row;
                let marks = &scratch.marks[from..from + outputs[2]];
                scratch.scored.hit[to..to + outputs[2]]
                    .iter_mut()
                    .zip(marks)
                    .for_each(|(hit, mark)| *hit |= *mark != zero);
            }
        }
    }

    /// Sums of samples and squares over every window, channel by channel, where scores take them.
    pub(super) fn window_sums(
        &self,
        samples: [usize; 3],
        bound: &BoundTemplates<T>,
        outputs: [usize; 3],
        scratch: &mut TileScratch<T>,
    ) {
        let needs = self.needs();
        if !(self.score.takes_sums() && needs.square) {
            return;
        }
        for channel in 0..self.spec.channels() {
            if let Some(mask) = &bound.mask {
                if needs.sum {
                    self.cross(mask, &[], channel, outputs, scratch, Source::Image);
                    copy(&scratch.scored.crosses[channel], &mut scratch.scored.sums[channel][0], |value| {
                        value.to_f64()
                    });
                }
                copy(&scratch.scored.inputs[channel], &mut scratch.squares, |value| value * value);
                self.cross(mask, &[], channel, outputs, scratch, Source::Squares);
                copy(&scratch.scored.crosses[channel], &mut scratch.scored.sums[channel][1], |value| value.to_f64());
                continue;
            }
            let tile = window_sums::Lattice {
                shape: samples,
                row_pitch: self.pitches.samples.row,
                plane_pitch: self.pitches.samples.plane,
            };
            let window = self.spec.template().padded();
            let (input, window_scratch, [i, ii]) =
                (&scratch.scored.inputs[channel], &mut scratch.scored.window, &mut scratch.scored.sums[channel]);
            isa::vectorized!(&self.isas, || {
                if needs.sum {
                    copy(input, i, |value| value.to_f64());
                }
                copy(input, ii, |value| value.to_f64() * value.to_f64());
            });
            if needs.sum {
                window_sums::sum(&self.isas, i, window_scratch, &tile, window);
            }
            window_sums::sum(&self.isas, ii, window_scratch, &tile, window);
        }
    }
}

#[inline(always)]
fn copy<A: Copy, B>(from: &[A], to: &mut [B], map: impl Fn(A) -> B) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = map(from));
}
