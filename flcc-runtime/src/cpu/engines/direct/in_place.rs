//! Correlation of tiles by a direct kernel from the image's rows to the result's.
//!
//! The largest of its outputs tells what the samples are; only where that is too small to tell are they looked at. What
//! is left at the right and below is computed by blocks that end there: an output does not depend on where in a block
//! it lies, so what is computed twice is the same twice, and the same as the usual way's.

use crate::cpu::engines::direct::Direct;
use crate::cpu::in_place::{InImage, InPlace, Room, Seen, Source};
use crate::cpu::slab::{Slab, Sum};
use crate::isa::Vectors;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Rows;

impl Direct<f32> {
    /// Correlates a tile where all samples lie in the image, or, of one plane under a template of one, most.
    pub(super) fn correlate_in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> Option<Sum<'a, f32>>,
    ) -> Option<()> {
        let InPlace { image, tile, samples, template: [kd, kh, kw], room, rows, .. } = job;
        let (vectors, lengths) = (Vectors::new(&image.isas)?, image.singles()?);
        let [block_height, block_width] = self.block();
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        // The outputs asked for whose samples lie in the image.
        let inner = |axis: usize, (from, to): (usize, usize), side: usize| {
            let begin = samples.begin[axis];
            let last = (lengths[axis] + 1).saturating_sub(side) as isize - begin;
            (from.max(usize::try_from(-begin).unwrap_or(0)), to.min(usize::try_from(last).unwrap_or(0)))
        };
        let ((top, bottom), (left, right)) = (inner(1, (y0, y1), kh), inner(2, (x0, x1), kw));
        let [height, width] = [bottom.saturating_sub(top), right.saturating_sub(left)];
        let whole = [height, width] == [y1 - y0, x1 - x0];
        if height < block_height
            || width < block_width
            || !whole && (kd > 1 || z1 > 1 || 2 * height * width < (y1 - y0) * (x1 - x0))
        {
            return None;
        }
        let inside = Samples {
            begin: [samples.begin[0], samples.begin[1] + top as isize, samples.begin[2] + left as isize],
            len: [samples.len[0], height + kh - 1, width + kw - 1],
        };
        let here = image.here(inside)?;
        let edge = Edge { direct: self, image, samples, template: [kh, kw] };
        let Room { samples: buffer, marks, outputs, .. } = room;
        let mut seen = Seen::default();
        for number in 0..job.templates {
            let sum = templates(number)?;
            let all_planes = if whole { rows(number, tile.place, z1 - z0) } else { None };
            if let Some(out) = all_planes {
                seen.add(self.over_image(&here, sum, [z0, 0, 0], [z1 - z0, height, width], out).into(), sum.taps);
                continue;
            }
            for z in z0..z1 {
                let Rows { out, pitch, plane } =
                    rows(number, [tile.place[0] + z - z0, tile.place[1], tile.place[2]], 1)?;
                let from = |y: usize, x: usize| (y - y0) * pitch + x - x0;
                let within = Rows { out: &mut out[from(top, left)..], pitch, plane };
                seen.add(self.over_image(&here, sum, [z, 0, 0], [1, height, width], within).into(), sum.taps);
                let edges = [
                    [[y0, x0], [top, x1]],
                    [[bottom, x0], [y1, x1]],
                    [[top, x0], [bottom, left]],
                    [[top, right], [bottom, x1]],
                ];
                for [begin, end] in edges.into_iter().filter(|[begin, end]| begin[0] < end[0] && begin[1] < end[1]) {
                    let room = [&mut *buffer, &mut *marks, &mut *outputs];
                    if !edge.correlate(sum, [begin, end], room, &mut out[from(begin[0], begin[1])..], pitch) {
                        return None;
                    }
                }
            }
        }
        (seen.ordinary() || here.ordinary(&vectors)).then_some(())
    }

    /// Computes `outputs`, a block of each plane at least, from those of the first samples on. Returns the largest
    /// magnitude of the outputs.
    fn over_image(
        &self,
        here: &InImage<'_>,
        template: Sum<'_, f32>,
        begin: [usize; 3],
        outputs: [usize; 3],
        rows: Rows<'_>,
    ) -> f32 {
        let slab = Slab {
            input: here.from(begin),
            in_pitch: here.pitch(),
            out: rows.out,
            out_pitch: Pitch { row: rows.pitch, plane: rows.plane, rows: outputs[1], planes: outputs[0] },
            outputs,
        };
        self.run_within(template, slab)
    }
}

/// Outputs of a plane at the edge of an image, whose samples are gathered.
struct Edge<'a> {
    direct: &'a Direct<f32>,
    image: Source<'a>,
    /// The samples of a tile.
    samples: Samples,
    /// Height and width of the template.
    template: [usize; 2],
}

impl Edge<'_> {
    /// Computes those of the tile's outputs that lie in rows and columns `from` up to `to`, with room for samples,
    /// marks and outputs, into rows of the result that begin with the first of them; `false`, and nothing, if some
    /// sample is not ordinary.
    fn correlate(
        &self,
        template: Sum<'_, f32>,
        [from, to]: [[usize; 2]; 2],
        room: [&mut [f32]; 3],
        out: &mut [f32],
        pitch: usize,
    ) -> bool {
        let [height, width] = [to[0] - from[0], to[1] - from[1]];
        let Samples { begin, .. } = self.samples;
        let part = Samples {
            begin: [begin[0], begin[1] + from[0] as isize, begin[2] + from[1] as isize],
            len: [1, height + self.template[0] - 1, width + self.template[1] - 1],
        };
        let [samples, marks, outputs] = room;
        let (in_pitch, out_pitch) = self.direct.pitches([1, height, width]);
        let (samples, outputs) = (&mut samples[..in_pitch.elements()], &mut outputs[..out_pitch.elements()]);
        if !self.image.gather(part, samples, marks, in_pitch) {
            return false;
        }
        let slab = Slab { input: samples, in_pitch, out: &mut *outputs, out_pitch, outputs: [1, height, width] };
        self.direct.run(template, &[], slab);
        for (row, computed) in out.chunks_mut(pitch).zip(outputs.chunks(out_pitch.row)).take(height) {
            row[..width].copy_from_slice(&computed[..width]);
        }
        true
    }
}
