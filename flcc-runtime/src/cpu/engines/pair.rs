//! The Fourier method by transforms of pairs of tiles (`fft/pair.rs`).
//!
//! In place, pairs whose reach leaves the image have their samples gathered, one pair at a time. While a pair is
//! transformed, the lines of its own results and of the next one's samples are asked for, if these lie in the image.

use crate::cpu::bands::{Bands, Grid};
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::fft::pair::{self, Ground, Planes, Results, Scratch, Transform};
use crate::cpu::in_place::{InImage, InPlace, Room, Source, ordinary_by_energy};
use crate::cpu::memory::Memory;
use crate::isa::prefetch::Coming;
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Rows;

impl Engine<f32> for Transform {
    type Template = Planes;
    type Work = Scratch;

    fn pitches(&self, _outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.layout().pitches();
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, _most: Most, memory: &mut Memory) -> Scratch {
        self.scratch(memory)
    }

    fn template_bytes(&self) -> usize {
        self.spectrum_bytes()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Planes, FactorError> {
        Ok(self.prepare(values))
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Planes>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        let len = (self.layout().length * self.layout().length) as f64;
        let wave = prepared.map(|spectrum| self.wave(spectrum).powi(2)).sum::<f64>().sqrt();
        (Rounding::Pair { len }, Figures { wave, ..Figures::of(channels.iter()) })
    }

    fn cross(&self, template: &Planes, job: Cross<'_, f32>, work: &mut Scratch) {
        let Cross { samples, out, pitches, outputs, .. } = job;
        let ground = Ground { input: samples, in_row: pitches.samples.row, out, out_row: pitches.cross.row };
        self.run(ground, template, work, [outputs[1], outputs[2]]);
    }

    fn bands<'a>(&self, _channel: usize, _outputs: [usize; 2], work: &'a Scratch) -> Bands<'a> {
        let pair::Layout { outputs: [height, width], pairs, .. } = *self.layout();
        Bands::Grid(Grid { figures: &work.figures, planes: 1, pitch: pairs[1], place: [height, 2 * width], beside: 0 })
    }

    fn expected(&self) -> Option<Expected> {
        // A pair's norm is that of both of its tiles, and its results are complex.
        Some(Expected { samples: 2 * self.layout().length.pow(2), results: 2.0, strongest: false })
    }

    fn reach(&self, outputs: [usize; 2]) -> Option<[usize; 2]> {
        (!self.layout().line).then(|| self.layout().reach(outputs))
    }

    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a Planes, &'a [f64]),
        work: &mut Scratch,
    ) -> Option<()> {
        if self.layout().line || !job.whole() {
            return None;
        }
        job.image.singles()?;
        let outputs = [job.tile.shape[1], job.tile.shape[2]];
        let tile = Tile { pairs: self, image: job.image, samples: job.reached, outputs };
        let Room { samples, marks, .. } = job.room;
        for number in 0..job.templates {
            let rows = (job.rows)(number, job.tile.place, 1)?;
            if !tile.correlate(templates(number).0, work, [&mut *samples, &mut *marks], rows) {
                return None;
            }
        }
        Some(())
    }
}

/// A tile under transforms of pairs, where it lies.
struct Tile<'a> {
    pairs: &'a Transform,
    image: Source<'a>,
    /// The samples under the tile, and what its transforms reach.
    samples: Samples,
    /// Height and width.
    outputs: [usize; 2],
}

impl Tile<'_> {
    /// Computes the tile's rows, with room for a pair's samples and marks; `false`, with some of them written, if some
    /// sample is not ordinary.
    fn correlate(
        &self,
        template: &Planes,
        scratch: &mut Scratch,
        [buffer, marks]: [&mut [f32]; 2],
        rows: Rows<'_>,
    ) -> bool {
        let layout = self.pairs.layout();
        let [height, pairs] = layout.needed(self.outputs);
        let place = |number: usize| [number / pairs, number % pairs];
        let mut here = self.reach(place(0));
        for number in 0..height * pairs {
            let next = if number + 1 < height * pairs { self.reach(place(number + 1)) } else { None };
            let ahead = next.as_ref().map(|next| {
                let [_, rows, width] = next.shape();
                Coming::new(next.samples(), next.pitch().row, rows, width)
            });
            let [y, x] = self.begin(place(number));
            let results =
                Results { room: self.outputs[1] - x, ..self.pairs.results(place(number), self.outputs, rows.pitch) };
            let out = (&mut rows.out[y * rows.pitch + x..], results);
            let beside = layout.outputs[1];
            if let Some(here) = here {
                let samples = pair::Samples { from: here.samples(), pitch: here.pitch().row, beside };
                let figure = self.pairs.pair(place(number), samples, template, scratch, out, ahead);
                if !(ordinary_by_energy(figure.energy, 2 * layout.length * layout.length)
                    || here.ordinary(self.pairs.vectors()))
                {
                    return false;
                }
            } else {
                let pitch = self.pair_pitch();
                if !self.image.gather(self.part(place(number)), buffer, marks, pitch) {
                    return false;
                }
                let samples = pair::Samples { from: buffer, pitch: pitch.row, beside };
                self.pairs.pair(place(number), samples, template, scratch, out, ahead);
            }
            here = next;
        }
        true
    }

    /// The first output of a pair in the tile.
    fn begin(&self, [row, pair]: [usize; 2]) -> [usize; 2] {
        let [height, width] = self.pairs.layout().outputs;
        [row * height, 2 * pair * width]
    }

    /// What transforms of a pair read: height and width.
    fn both(&self) -> [usize; 2] {
        let layout = self.pairs.layout();
        [layout.length, layout.length + layout.outputs[1]]
    }

    /// The buffer of a pair's samples.
    fn pair_pitch(&self) -> Pitch {
        let [rows, columns] = self.both();
        let row = pair::padded(columns);
        Pitch { row, plane: row * rows, rows, planes: 1 }
    }

    /// The tile's samples that a pair's transforms read.
    fn part(&self, place: [usize; 2]) -> Samples {
        let (Samples { begin, len }, [y, x], [rows, columns]) = (self.samples, self.begin(place), self.both());
        let begin = [begin[0], begin[1] + y as isize, begin[2] + x as isize];
        Samples { begin, len: [1, rows.min(len[1] - y), columns.min(len[2] - x)] }
    }

    /// The samples that a pair's transforms read, where they lie in the image, if all of them are the tile's.
    fn reach(&self, place: [usize; 2]) -> Option<InImage<'_>> {
        let part = self.part(place);
        let [rows, columns] = self.both();
        if part.len == [1, rows, columns] { self.image.here(part) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use flcc_core::boundary::Boundary;
    use flcc_core::shape::Shape;
    use flcc_core::view::View;

    use super::*;
    use crate::cpu::aligned::Aligned;
    use crate::cpu::fft::pair::Layout;
    use crate::cpu::testing::noise;
    use crate::isa;

    /// A tile at the right edge of an image, whose last pair is gathered: as from buffers, bit for bit, and nothing
    /// beside it.
    #[test]
    fn pairs_read_the_image_and_write_the_result_where_they_lie() {
        let isas = isa::detect();
        let layout = Layout { length: 64, line: false, outputs: [49, 48], pairs: [2, 3], template: [16, 16] };
        let Some(transform) = Transform::new(layout, &isas) else {
            println!("no instruction set for these transforms: nothing is shown");
            return;
        };
        let (shape, mut samples, mut taps) = (Shape::new(&[140, 300]).unwrap(), noise(3), noise(4));
        let mut data: Vec<f32> = (0..shape.len()).map(|_| samples()).collect();
        let template: Vec<f64> = (0..256).map(|_| f64::from(taps())).collect();
        let (spectrum, mut scratch, outputs) =
            (transform.prepare(&template), transform.scratch(&mut Memory::making()), [90, 285]);
        // Below, the image has all samples that the transforms reach; at its right it has only those of the tile.
        let reached = Samples { begin: [0, 20, 0], len: [1, transform.layout().reach(outputs)[0], 300] };
        let (in_pitch, out_pitch) = layout.pitches();
        let (mut input, mut expected) =
            (Aligned::new(0.0, in_pitch.elements()), Aligned::new(f32::NAN, out_pitch.elements()));
        for (row, from) in input.chunks_mut(in_pitch.row).zip(data.chunks(300).skip(20).take(reached.len[1])) {
            row[..300].copy_from_slice(from);
        }
        let ground = Ground { input: &input, in_row: in_pitch.row, out: &mut expected, out_row: out_pitch.row };
        transform.run(ground, &spectrum, &mut scratch, outputs);

        let (mut buffer, mut marks) = (vec![0.0; in_pitch.elements()], vec![0.0; in_pitch.elements()]);
        let (pitch, poison) = (288, 7e30f32);
        for special in [None, Some(f32::NAN), Some(f32::INFINITY), Some(1e30)] {
            // In what the first pair and the second row of pairs read.
            data[100 * 300 + 40] = special.unwrap_or(data[100 * 300 + 40]);
            let view = View::new(&data, shape).unwrap();
            let image = Source { image: &view.into(), boundary: Boundary::Zero, isas };
            let tile = Tile { pairs: &transform, image, samples: reached, outputs };
            let mut out = vec![poison; 90 * pitch];
            let rows = Rows { out: &mut out[..89 * pitch + 285], pitch, plane: 0 };
            assert_eq!(tile.correlate(&spectrum, &mut scratch, [&mut buffer, &mut marks], rows), special.is_none());
            for (y, row) in out.chunks(pitch).enumerate() {
                assert!(row[285..].iter().all(|value| *value == poison), "row {y}: written past its end");
                let same = row[..285]
                    .iter()
                    .zip(&expected[y * out_pitch.row..])
                    .all(|(got, want)| got.to_bits() == want.to_bits());
                assert!(special.is_some() || same, "row {y}");
            }
        }
    }
}
