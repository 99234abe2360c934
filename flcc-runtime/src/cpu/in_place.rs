//! The shortest way: correlation of f32 from the image's own rows to the result's own rows.
//!
//! For tiles as wide as the result. With NaN, infinities or magnitudes that need a scale among the samples the tile is
//! computed again in the usual way, over what was written. Which samples are looked at may depend on what is asked for
//! of a tile, so whatever is accepted here has the bits of the usual way: that scales up tiles whose samples are all
//! faint, which are never accepted, and down nothing but outputs that overflow.
//!
//! By a direct kernel, where all samples lie in the image: the largest of its outputs tells what the samples are; only
//! where that is too small to tell are they looked at. What is left at the right and below is computed by blocks that
//! end there: an output does not depend on where in a block it lies, so what is computed twice is the same twice, and
//! the same as the usual way's.
//!
//! By transforms of pairs, which know the energy of their samples: pairs whose reach leaves the image have theirs
//! gathered, one pair at a time. While a pair is transformed, the lines of its own results and of the next one's
//! samples are asked for, if these lie in the image.

use flcc_core::boundary::Boundary;
use flcc_core::view::View;

use crate::cpu::engines::direct::{Direct, Slab, Sum};
use crate::cpu::fft::pair::{self, Planar, PlanarScratch, Planes, Results};
use crate::cpu::gather::{self, Target};
use crate::cpu::real::Real;
use crate::isa::prefetch::Coming;
use crate::isa::simd::{Job, Simd};
use crate::isa::{IsaSet, Vectors};
use crate::problem::powers::power_of_two;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Rows;

/// The samples of a tile, as they lie in an image.
pub struct Strip<'a> {
    view: &'a View<'a, f32>,
    samples: Samples,
    pitch: Pitch,
}

impl<'a> Strip<'a> {
    /// The samples, if all of them lie in the image, side by side along rows.
    pub fn new(view: &'a View<'a, f32>, samples: Samples) -> Option<Strip<'a>> {
        let lengths = view.shape().padded();
        let inside = (0..3)
            .all(|axis| samples.begin[axis] >= 0 && samples.begin[axis] as usize + samples.len[axis] <= lengths[axis]);
        let ([plane, row, column], _) = view.layout().strides();
        // What leads to rows that there are none of may be anything.
        let row = if lengths[1] == 1 { samples.len[2] } else { usize::try_from(row).ok()? };
        let plane = if lengths[0] == 1 { 0 } else { usize::try_from(plane).ok()? };
        if !inside || column != 1 || row < samples.len[2] {
            return None;
        }
        Some(Strip { view, samples, pitch: Pitch { row, plane, rows: samples.len[1], planes: samples.len[0] } })
    }

    /// The elements from the first of the samples on.
    pub fn samples(&self) -> &'a [f32] {
        self.from([0; 3])
    }

    /// From one row of samples to the next.
    pub fn row(&self) -> usize {
        self.pitch.row
    }

    /// The elements from one of the samples on.
    fn from(&self, position: [usize; 3]) -> &'a [f32] {
        self.view.from_position([0, 1, 2].map(|axis| self.samples.begin[axis] as usize + position[axis]))
    }

    /// Whether all samples are finite and can be computed with as they are.
    pub fn ordinary(&self, vectors: &Vectors) -> bool {
        let [depth, height, width] = self.samples.len;
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| (z, y)));
        let largest = rows.map(|(z, y)| vectors.run(Largest(&self.from([z, y, 0])[..width]))).max().unwrap_or(0);
        let [low, high] =
            [-<f32 as Real>::REACH, <f32 as Real>::REACH].map(|exponent| (power_of_two(exponent) as f32).to_bits());
        largest == 0 || (low..=high).contains(&largest)
    }

    /// Computes `outputs`, a block of each plane at least, from those of the first samples on. Returns the largest
    /// magnitude of the outputs.
    pub fn correlate(
        &self,
        direct: &Direct<f32>,
        template: Sum<'_, f32>,
        begin: [usize; 3],
        outputs: [usize; 3],
        rows: Rows<'_>,
    ) -> f32 {
        let slab = Slab {
            input: self.from(begin),
            in_pitch: self.pitch,
            out: rows.out,
            out_pitch: Pitch { row: rows.pitch, plane: rows.plane, rows: outputs[1], planes: outputs[0] },
            outputs,
        };
        direct.run_within(template, slab)
    }
}

/// Outputs of a plane at the edge of an image, whose samples are gathered.
pub struct Edge<'a> {
    /// The kernel.
    pub direct: &'a Direct<f32>,
    /// The image.
    pub image: &'a View<'a, f32>,
    /// What continues it.
    pub boundary: Boundary,
    /// The samples of a tile.
    pub samples: Samples,
    /// Height and width of the template.
    pub template: [usize; 2],
    /// The instruction sets that loops are compiled for.
    pub isas: IsaSet,
}

impl Edge<'_> {
    /// Computes those of the tile's outputs that lie in rows and columns `from` up to `to`, with room for samples,
    /// marks and outputs, into rows of the result that begin with the first of them; `false`, and nothing, if some
    /// sample is not ordinary.
    pub fn correlate(
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
        let target = Target { out: &mut *samples, marks, pitch: in_pitch, isas: self.isas };
        let done = gather::gather(&(*self.image).into(), self.boundary, part, 0.0, None, target);
        if done.marked || done.scale != 1.0 {
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

/// What outputs tell of the samples that they were computed from.
#[derive(Debug, Default)]
pub struct Seen {
    /// Some output was not finite.
    nonfinite: bool,
    /// Some output was larger than samples below the reach can make it.
    within_reach: bool,
}

impl Seen {
    /// Of some outputs, of which this is the largest magnitude, of a template.
    pub fn add<T: Real>(&mut self, largest: f64, template: &[T]) {
        let weight: f64 = template.iter().map(|tap| tap.to_f64().abs()).sum();
        self.nonfinite |= !largest.is_finite();
        self.within_reach |= largest > 2.0 * power_of_two(-<f32 as Real>::REACH) * weight;
    }

    /// Whether the samples are known to be finite, some of them within the reach, and none so large that a product or a
    /// sum was not finite: what is not finite makes no output finite that it feeds.
    pub fn ordinary(&self) -> bool {
        self.within_reach && !self.nonfinite
    }
}

/// A tile under transforms of pairs.
pub struct PairStrip<'a> {
    /// The transforms.
    pub planar: &'a Planar,
    /// The image.
    pub image: &'a View<'a, f32>,
    /// What continues it.
    pub boundary: Boundary,
    /// The samples under the tile, and what its transforms reach.
    pub samples: Samples,
    /// Outputs of the tile: height and width.
    pub outputs: [usize; 2],
    /// The instruction sets that loops are compiled for.
    pub isas: IsaSet,
}

impl PairStrip<'_> {
    /// Computes the tile's rows, with room for a pair's samples and marks; `false`, with some of them written, if some
    /// sample is not ordinary.
    pub fn correlate(
        &self,
        template: &Planes,
        scratch: &mut PlanarScratch,
        [buffer, marks]: [&mut [f32]; 2],
        rows: Rows<'_>,
    ) -> bool {
        let layout = self.planar.layout();
        let [height, pairs] = layout.needed(self.outputs);
        let place = |number: usize| [number / pairs, number % pairs];
        let mut here = self.reach(place(0));
        for number in 0..height * pairs {
            let next = if number + 1 < height * pairs { self.reach(place(number + 1)) } else { None };
            let ahead = next.as_ref().map(|next| {
                let Samples { len: [_, rows, width], .. } = next.samples;
                Coming::new(next.samples(), next.pitch.row, rows, width)
            });
            let [y, x] = self.begin(place(number));
            let results =
                Results { room: self.outputs[1] - x, ..self.planar.results(place(number), self.outputs, rows.pitch) };
            let out = (&mut rows.out[y * rows.pitch + x..], results);
            let beside = layout.outputs[1];
            if let Some(strip) = here {
                let samples = pair::Samples { from: strip.samples(), pitch: strip.pitch.row, beside };
                let figure = self.planar.pair(place(number), samples, template, scratch, out, ahead);
                if !(ordinary_by_energy(figure.energy, 2 * layout.length * layout.length)
                    || strip.ordinary(self.planar.vectors()))
                {
                    return false;
                }
            } else {
                let pitch = self.pair_pitch();
                let target = Target { out: &mut *buffer, marks: &mut *marks, pitch, isas: self.isas };
                let done =
                    gather::gather(&(*self.image).into(), self.boundary, self.part(place(number)), 0.0, None, target);
                if done.marked || done.scale != 1.0 {
                    return false;
                }
                let samples = pair::Samples { from: buffer, pitch: pitch.row, beside };
                self.planar.pair(place(number), samples, template, scratch, out, ahead);
            }
            here = next;
        }
        true
    }

    /// The first output of a pair in the tile.
    fn begin(&self, [row, pair]: [usize; 2]) -> [usize; 2] {
        let [height, width] = self.planar.layout().outputs;
        [row * height, 2 * pair * width]
    }

    /// What transforms of a pair read: height and width.
    fn both(&self) -> [usize; 2] {
        let layout = self.planar.layout();
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

    /// Those, if all that the transforms read are the tile's and lie in the image.
    fn reach(&self, place: [usize; 2]) -> Option<Strip<'_>> {
        let part = self.part(place);
        let [rows, columns] = self.both();
        if part.len == [1, rows, columns] { Strip::new(self.image, part) } else { None }
    }
}

/// Whether samples of this energy are known to be finite and to be computed with as they are.
fn ordinary_by_energy(energy: f64, count: usize) -> bool {
    let [low, high] = [-<f32 as Real>::REACH, <f32 as Real>::REACH].map(|exponent| power_of_two(exponent).powi(2));
    // The largest square is at least their mean, and at most their sum.
    energy >= 2.0 * low * count as f64 && energy <= high / 2.0
}

/// The bits of the largest magnitude.
struct Largest<'a>(&'a [f32]);

impl Job for Largest<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let rows = S::rows(self.0);
        let mut largest = [s.splat(0.0); 4];
        for four in rows.chunks_exact(4) {
            for (largest, row) in largest.iter_mut().zip(four) {
                *largest = s.larger_magnitude(s.load(row), *largest);
            }
        }
        for row in rows.chunks_exact(4).remainder() {
            largest[0] = s.larger_magnitude(s.load(row), largest[0]);
        }
        let rest = self.0[rows.len() * S::LANES..].iter().map(|value| value.magnitude()).max().unwrap_or(0);
        largest.iter().fold(rest, |most, lanes| most.max(s.largest(*lanes)))
    }
}

#[cfg(test)]
mod tests {
    use flcc_core::shape::Shape;

    use super::*;
    use crate::cpu::aligned::Aligned;
    use crate::cpu::fft::pair::{Ground, Layout};
    use crate::cpu::testing::noise;

    #[test]
    fn outputs_tell_whether_samples_are_ordinary() {
        let told = |outputs: &[f32]| {
            let mut seen = Seen::default();
            outputs.iter().for_each(|largest| seen.add(f64::from(*largest), &[0.5, -1.5]));
            seen.ordinary()
        };
        let least = power_of_two(-<f32 as Real>::REACH) as f32;
        assert!(told(&[1.0]) && told(&[4.1 * least]) && told(&[0.0, 1.0]) && told(&[f32::MAX]));
        assert!(!told(&[]) && !told(&[0.0]) && !told(&[3.9 * least]));
        assert!(!told(&[f32::NAN]) && !told(&[1.0, f32::INFINITY]) && !told(&[f32::NAN, 1.0]));
    }

    /// A tile at the right edge of an image, whose last pair is gathered: as from buffers, bit for bit, and nothing
    /// beside it.
    #[test]
    fn pairs_read_the_image_and_write_the_result_where_they_lie() {
        let isas = IsaSet::detect();
        let layout = Layout { length: 64, line: false, outputs: [49, 48], pairs: [2, 3], template: [16, 16] };
        let Some(planar) = Planar::new(layout, &isas) else {
            println!("no instruction set for these transforms: nothing is shown");
            return;
        };
        let (shape, mut samples, mut taps) = (Shape::new(&[140, 300]).unwrap(), noise(3), noise(4));
        let mut data: Vec<f32> = (0..shape.len()).map(|_| samples()).collect();
        let template: Vec<f64> = (0..256).map(|_| f64::from(taps())).collect();
        let (spectrum, mut scratch, outputs) = (planar.prepare(&template), planar.scratch(), [90, 285]);
        // Below, the image has all samples that the transforms reach; at its right it has only those of the tile.
        let reached = Samples { begin: [0, 20, 0], len: [1, planar.layout().reach(outputs)[0], 300] };
        let (in_pitch, out_pitch) = layout.pitches();
        let (mut input, mut expected) =
            (Aligned::new(0.0, in_pitch.elements()), Aligned::new(f32::NAN, out_pitch.elements()));
        for (row, from) in input.chunks_mut(in_pitch.row).zip(data.chunks(300).skip(20).take(reached.len[1])) {
            row[..300].copy_from_slice(from);
        }
        let ground = Ground { input: &input, in_row: in_pitch.row, out: &mut expected, out_row: out_pitch.row };
        planar.run(ground, &spectrum, &mut scratch, outputs);

        let (mut buffer, mut marks) = (vec![0.0; in_pitch.elements()], vec![0.0; in_pitch.elements()]);
        let (pitch, poison) = (288, 7e30f32);
        for special in [None, Some(f32::NAN), Some(f32::INFINITY), Some(1e30)] {
            // In what the first pair and the second row of pairs read.
            data[100 * 300 + 40] = special.unwrap_or(data[100 * 300 + 40]);
            let view = View::new(&data, shape).unwrap();
            let strip =
                PairStrip { planar: &planar, image: &view, boundary: Boundary::Zero, samples: reached, outputs, isas };
            let mut out = vec![poison; 90 * pitch];
            let rows = Rows { out: &mut out[..89 * pitch + 285], pitch, plane: 0 };
            assert_eq!(strip.correlate(&spectrum, &mut scratch, [&mut buffer, &mut marks], rows), special.is_none());
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
