//! Where a boundary meets memory: the samples under a tile, gathered from an image into a dense padded buffer.
//!
//! Everything behind this file sees valid problems only. A gathered sample is `(sample - offset) * scale`: the offset
//! is one sample of the tile (the median of a few), or of squared differences the middle of a template's, so that large
//! means do not cost accuracy; the scale is 1 unless the tile's magnitudes are extraordinary. Samples that are NaN or
//! infinite are replaced by 0 and marked.

use flcc_core::boundary::Boundary;
use flcc_core::dtype::Pixel;
use flcc_core::each_type;
use flcc_core::view::{AnyView, View};

use crate::cpu::real::Real;
use crate::isa::simd::{Job, Simd};
use crate::isa::{self, IsaSet, Vectors};
use crate::problem::powers::{exponent, power_of_two};
use crate::problem::template::Support;
use crate::run::geometry::{Pitch, Samples};

/// Where samples are gathered to.
#[derive(Debug)]
pub struct Target<'a, T> {
    /// The samples; filled whole, with zeros where none belongs.
    pub out: &'a mut [T],
    /// 1 where a sample was NaN or infinite; written only if there is one, so it may be empty where none can be.
    pub marks: &'a mut [T],
    /// The shape of both.
    pub pitch: Pitch,
    /// What of the samples to hide, as if it were the offset; `None` for nothing.
    pub hides: Option<Hides<'a>>,
    /// Samples whose largest magnitude is within `2^-reach` and `2^reach` are kept as they are, others scaled.
    pub reach: i32,
    /// Instruction sets that the loops may be compiled for.
    pub isas: IsaSet,
}

/// Samples that no panel of a tile has a weight for: a huge one would leave its traces in every other.
#[derive(Clone, Copy, Debug)]
pub struct Hides<'a> {
    /// Where the weights are positive.
    pub support: &'a Support,
    /// How many outputs the tile has.
    pub outputs: [usize; 3],
}

impl Hides<'_> {
    fn hides(&self, sample: [usize; 3]) -> bool {
        !self.support.sees(sample, self.outputs)
    }

    /// Makes hidden samples, of so many gathered ones, those of the offset.
    fn clear<T: Real>(&self, out: &mut [T], pitch: Pitch, [depth, height, width]: [usize; 3]) {
        // All taps pass over the samples in the middle of each axis.
        let [planes, rows, columns] = [0, 1, 2].map(|axis| self.support.middle(axis, self.outputs[axis]));
        let between = columns.start.min(width)..columns.end.clamp(columns.start.min(width), width);
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            let row = &mut out[z * pitch.plane + y * pitch.row..][..width];
            // Those in the middle of a row lie under the same taps.
            let all = planes.contains(&z) && rows.contains(&y);
            if !all && !between.is_empty() && self.hides([z, y, between.start]) {
                row[between.clone()].fill(T::of(0.0));
            }
            for x in (0..between.start).chain(between.end..width) {
                if self.hides([z, y, x]) {
                    row[x] = T::of(0.0);
                }
            }
        }
    }
}

/// What was done to the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathered {
    /// The power of two that they were multiplied by.
    pub scale: f64,
    /// Whether some were NaN or infinite.
    pub marked: bool,
}

/// The offset of a tile: the median of up to 27 of its samples, 0 where none is finite.
///
/// A sample, so that it and differences from it are exact in the image's own type; a median, so that one huge sample
/// does not move it. It depends on the tile alone, never on threads or on the region asked for.
pub fn offset(image: &AnyView<'_>, boundary: Boundary, samples: Samples) -> f64 {
    let lengths = image.shape().padded();
    let mut values = [0.0; 27];
    let mut count = 0;
    let probe = |axis: usize, k: usize| samples.begin[axis] + (samples.len[axis] * (2 * k + 1) / 6) as isize;
    // On an axis of one sample three probes would be the same, and leave the median where it is.
    let probes = samples.len.map(|len| if len == 1 { 1 } else { 3 });
    for k in 0..probes.iter().product() {
        let [z, y, x] =
            [probe(0, k / (probes[1] * probes[2])), probe(1, k / probes[2] % probes[1]), probe(2, k % probes[2])];
        let at = (boundary.fold(z, lengths[0]), boundary.fold(y, lengths[1]), boundary.fold(x, lengths[2]));
        if let (Some(z), Some(y), Some(x)) = at {
            let value = image.at([z, y, x]);
            if value.is_finite() {
                values[count] = value;
                count += 1;
            }
        }
    }
    if count == 0 {
        return 0.0;
    }
    let values = &mut values[..count];
    values.sort_unstable_by(f64::total_cmp);
    values[count / 2]
}

/// Gathers the samples of a tile from one channel of an image.
///
/// `scale` forces the power of two; else it is 1 for ordinary magnitudes.
pub fn gather<T: Real>(
    image: &AnyView<'_>,
    boundary: Boundary,
    samples: Samples,
    offset: f64,
    scale: Option<f64>,
    target: Target<'_, T>,
) -> Gathered {
    if let (AnyView::F32(view), None | Some(1.0)) = (image, scale)
        && let Some(largest) =
            inside(Source { view, boundary, samples }, offset, &mut *target.out, target.pitch, &target.isas)
        && (ordinary::<f32>(largest, target.reach) || (scale.is_some() && largest < f32::INFINITY.to_bits()))
    {
        if let Some(hides) = target.hides {
            hides.clear(target.out, target.pitch, samples.len);
        }
        return Gathered { scale: 1.0, marked: false };
    }
    each_type!(AnyView, image, view => typed(Source { view, boundary, samples }, offset, scale, target))
}

/// Gathers samples that lie inside an image of `f32`, side by side, for tiles of `f32`, in vectors and in one pass;
/// returns the bits of the largest magnitude. With `None` nothing was done.
fn inside<T: Real>(source: Source<'_, f32>, offset: f64, out: &mut [T], pitch: Pitch, isas: &IsaSet) -> Option<u32> {
    let out = T::singles_mut(out)?;
    if !source.is_inside() || source.view.layout().row_step() != 1 {
        return None;
    }
    Some(Vectors::new(isas)?.run(Centre { source, offset: offset as f32, out, pitch }))
}

/// Whether samples of this largest magnitude are computed with as they are.
fn ordinary<T: Real>(largest: T::Bits, reach: i32) -> bool {
    let (low, high) = (T::of(power_of_two(-reach)).magnitude(), T::of(power_of_two(reach)).magnitude());
    largest == T::Bits::default() || (largest >= low && largest <= high)
}

/// Rows that are asked for before they are copied.
const AHEAD: usize = 6;

/// Samples less an offset, to a buffer with zeros past them.
struct Centre<'a> {
    source: Source<'a, f32>,
    offset: f32,
    out: &'a mut [f32],
    pitch: Pitch,
}

impl Job for Centre<'_> {
    /// The bits of the largest magnitude.
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let Centre {
            source: Source { view, samples: Samples { begin, len: [depth, height, width] }, .. },
            offset,
            out,
            pitch,
        } = self;
        let at = begin.map(|begin| begin as usize);
        let offsets = s.splat(offset);
        let (mut largest, mut most) = (s.splat(0.0), 0);
        for (z, plane) in out.chunks_mut(pitch.plane).take(pitch.planes).enumerate() {
            for (y, row) in plane.chunks_mut(pitch.row).take(pitch.rows).enumerate() {
                if z >= depth || y >= height {
                    row.fill(0.0);
                    continue;
                }
                let (row, slack) = row.split_at_mut(width);
                if !slack.is_empty() {
                    slack.fill(0.0);
                }
                let from = &view.from_position([at[0] + z, at[1] + y, at[2]])[..width];
                // A row of a tile is too short for memory to foresee the next: a later one is asked for, vector by
                // vector.
                let later = (y + AHEAD).min(height - 1);
                let later = view.from_position([at[0] + z, at[1] + later, at[2]]).as_ptr();
                for (number, (to, from)) in S::rows_mut(row).iter_mut().zip(S::rows(from)).enumerate() {
                    isa::ask_line::<false>(later.wrapping_add(number * S::LANES));
                    let value = s.sub(s.load(from), offsets);
                    largest = s.larger_magnitude(value, largest);
                    s.store(to, value);
                }
                let whole = width / S::LANES * S::LANES;
                for (to, &from) in row[whole..].iter_mut().zip(&from[whole..]) {
                    *to = from - offset;
                    most = most.max(to.magnitude());
                }
            }
        }
        most.max(s.largest(largest))
    }
}

/// Gathers the samples of a tile as they are, each exactly; NaN and infinities become 0.
pub fn exact(image: &AnyView<'_>, boundary: Boundary, samples: Samples, out: &mut [f64], pitch: Pitch) {
    let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
    let fill = boundary.value().unwrap_or(0.0);
    each_type!(AnyView, image, view => {
        Source { view, boundary, samples }.rows(Buffer { out, pitch, fill }, |pixel| finite(pixel.to_f64()), |_| {});
    });
}

/// Gathers the samples of a tile as signed bytes: each less 128, which is its highest bit turned. What lies past them
/// is 0.
///
/// A constant outside the image has to be an integer from 0 to 255.
pub fn bytes(view: &View<'_, u8>, boundary: Boundary, samples: Samples, out: &mut [i8], pitch: Pitch, isas: &IsaSet) {
    let signed = |pixel: u8| (pixel ^ 0x80) as i8;
    let fill = signed(boundary.value().unwrap_or(0.0) as u8);
    isa::vectorized!(isas, || Source { view, boundary, samples }.rows(Buffer { out, pitch, fill }, signed, |_| {}));
}

/// Where samples come from.
#[derive(Clone, Copy)]
struct Source<'a, P> {
    view: &'a View<'a, P>,
    boundary: Boundary,
    samples: Samples,
}

/// Where they go: `fill` is what a sample of a constant outside becomes.
struct Buffer<'a, T> {
    out: &'a mut [T],
    pitch: Pitch,
    fill: T,
}

fn typed<P: Pixel, T: Real>(source: Source<'_, P>, offset: f64, scale: Option<f64>, target: Target<'_, T>) -> Gathered {
    let boundary = source.boundary;
    if scale.is_none_or(|scale| scale == 1.0) {
        let fill = T::of(boundary.value().unwrap_or(0.0) - offset);
        let mut largest =
            if source.is_inside() || boundary.value().is_none() { T::Bits::default() } else { fill.magnitude() };
        isa::vectorized!(&target.isas, || {
            let buffer = Buffer { out: &mut *target.out, pitch: target.pitch, fill };
            source.rows(
                buffer,
                |pixel| T::centre(pixel, offset),
                |row| {
                    for value in row {
                        largest = largest.max(value.magnitude());
                    }
                },
            );
        });
        // What is nothing but zeros may be of numbers that the tile's type has none for.
        let told = largest != T::Bits::default()
            || (size_of::<P>() <= size_of::<T>() && boundary.value().unwrap_or(0.0) == 0.0);
        if ordinary::<T>(largest, target.reach) && told || (scale.is_some() && largest < T::INFINITY) {
            if let Some(hides) = target.hides {
                hides.clear(target.out, target.pitch, source.samples.len);
            }
            return Gathered { scale: 1.0, marked: false };
        }
    }
    careful(source, offset, scale, target)
}

/// The rare way: samples that are not finite, or whose magnitudes need a scale.
fn careful<P: Pixel, T: Real>(
    source: Source<'_, P>,
    offset: f64,
    scale: Option<f64>,
    target: Target<'_, T>,
) -> Gathered {
    let fill = source.boundary.value().unwrap_or(0.0);
    let Target { out, marks, pitch, hides, reach, .. } = target;
    let mark = |pixel: P| if pixel.to_f64().is_finite() { T::of(0.0) } else { T::of(1.0) };
    let mut marked = false;
    source.rows(Buffer { out: marks, pitch, fill: T::of(0.0) }, mark, |row| {
        marked |= row.iter().any(|value| value.to_f64() != 0.0);
    });
    // The largest difference from the offset, as far as that is a number.
    let mut largest = 0.0f64;
    let mut see = |value: f64| {
        if value.is_finite() {
            largest = largest.max((value - offset).abs().min(f64::MAX));
        }
    };
    source.survey(&hides, &mut see);
    if !source.is_inside() && source.boundary.value().is_some() {
        see(fill);
    }
    let scale = scale.unwrap_or_else(|| {
        let e = exponent(largest);
        if largest == 0.0 || e.abs() <= reach { 1.0 } else { power_of_two(-e) }
    });
    let change = |value: f64| if value.is_finite() { T::of(value * scale - offset * scale) } else { T::of(0.0) };
    source.rows(Buffer { out: &mut *out, pitch, fill: change(fill) }, |pixel: P| change(pixel.to_f64()), |_| {});
    if let Some(hides) = hides {
        hides.clear(out, pitch, source.samples.len);
    }
    Gathered { scale, marked }
}

impl<P: Pixel> Source<'_, P> {
    /// Whether all samples lie in the image.
    fn is_inside(&self) -> bool {
        let (Samples { begin, len }, lengths) = (self.samples, self.view.shape().padded());
        (0..3).all(|axis| begin[axis] >= 0 && begin[axis] as usize + len[axis] <= lengths[axis])
    }

    /// Calls `see` with every sample that comes from the image and is not hidden.
    fn survey(&self, hides: &Option<Hides<'_>>, mut see: impl FnMut(f64)) {
        let Source { view, boundary, samples } = *self;
        let lengths = view.shape().padded();
        let fold = |axis: usize, i: usize| Some((i, boundary.fold(samples.begin[axis] + i as isize, lengths[axis])?));
        for (k, z) in (0..samples.len[0]).filter_map(|i| fold(0, i)) {
            for (j, y) in (0..samples.len[1]).filter_map(|i| fold(1, i)) {
                for (i, x) in (0..samples.len[2]).filter_map(|i| fold(2, i)) {
                    if hides.is_none_or(|hides| !hides.hides([k, j, i])) {
                        see(view.at([z, y, x]).to_f64());
                    }
                }
            }
        }
    }

    /// Fills a buffer row by row; `check` sees each row of samples after it is written.
    #[inline(always)]
    fn rows<T: Copy + Default>(
        &self,
        buffer: Buffer<'_, T>,
        change: impl Fn(P) -> T + Copy,
        mut check: impl FnMut(&[T]),
    ) {
        let Source { view, boundary, samples } = *self;
        let Buffer { out, pitch, fill } = buffer;
        let zero = T::default();
        let lengths = view.shape().padded();
        let [depth, height, width] = samples.len;
        let fold = |axis: usize, i: usize| boundary.fold(samples.begin[axis] + i as isize, lengths[axis]);
        // Columns left of the image, in it, right of it.
        let left = samples.begin[2].saturating_neg().clamp(0, width as isize) as usize;
        let right = (lengths[2] as isize - samples.begin[2]).clamp(left as isize, width as isize) as usize;
        for (z, plane) in out.chunks_mut(pitch.plane).take(pitch.planes).enumerate() {
            for (y, row) in plane.chunks_mut(pitch.row).take(pitch.rows).enumerate() {
                if z >= depth || y >= height {
                    row.fill(zero);
                    continue;
                }
                let (row, slack) = row.split_at_mut(width);
                slack.fill(zero);
                match (fold(0, z), fold(1, y)) {
                    (Some(source_z), Some(source_y)) => {
                        let first = (samples.begin[2] + left as isize).max(0) as usize;
                        let inside = view.row(source_z, source_y, first, right - left);
                        inside.map_into(&mut row[left..right], change);
                        for x in (0..left).chain(right..width) {
                            row[x] =
                                fold(2, x).map_or(fill, |source_x| change(view.at([source_z, source_y, source_x])));
                        }
                    }
                    _ => row.fill(fill),
                }
                check(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::template::check_mask;
    use flcc_core::shape::Shape;
    use proptest::prelude::*;

    const RULES: [Boundary; 6] = [
        Boundary::Zero,
        Boundary::Constant(7.0),
        Boundary::Replicate,
        Boundary::Reflect,
        Boundary::Mirror,
        Boundary::Wrap,
    ];

    proptest! {
        /// By definition: a sample is hidden where the taps that pass over it have no weight.
        #[test]
        fn what_no_panel_has_a_weight_for_is_hidden(
            template in prop::array::uniform3(1usize..5),
            outputs in prop::array::uniform3(1usize..6),
            missing in prop::array::uniform3(0usize..3),
            seed in any::<u64>(),
        ) {
            let frame = Shape::new(&template).unwrap();
            let weights: Vec<f64> = (0..frame.len()).map(|k| ((seed >> (k % 64)) & 1) as f64).collect();
            prop_assume!(weights.iter().any(|&weight| weight > 0.0));
            let text = format!("corr:f32:9x9x9*{}x{}x{}:valid,mask01", template[0], template[1], template[2]);
            let mask = View::new(&weights, frame).unwrap().into();
            let support = check_mask(&text.parse().unwrap(), Some(&mask)).unwrap().support;
            prop_assume!(support.is_some());
            // A region that ends early has fewer samples than its outputs reach.
            let len = [0, 1, 2].map(|axis| (outputs[axis] + template[axis] - 1).saturating_sub(missing[axis]).max(1));
            let pitch = Pitch { row: len[2] + 1, plane: (len[2] + 1) * len[1], rows: len[1], planes: len[0] };
            let mut out = vec![1.0f32; pitch.elements()];
            Hides { support: support.as_ref().unwrap(), outputs }.clear(&mut out, pitch, len);
            for at in 0..len.iter().product() {
                let [z, y, x] = [at / (len[1] * len[2]), at / len[2] % len[1], at % len[2]];
                let sees = (0..weights.len()).filter(|&k| weights[k] > 0.0).any(|k| {
                    let tap = [k / (template[1] * template[2]), k / template[2] % template[1], k % template[2]];
                    (0..3).all(|axis| {
                        let sample = [z, y, x][axis];
                        sample >= tap[axis] && sample - tap[axis] < outputs[axis]
                    })
                });
                let kept = out[z * pitch.plane + y * pitch.row + x];
                prop_assert_eq!(kept, if sees { 1.0 } else { 0.0 }, "{:?}", [z, y, x]);
            }
        }

        #[test]
        fn a_gathered_sample_is_the_folded_one(
            lengths in prop::array::uniform3(1usize..6),
            begin in prop::array::uniform3(-9isize..9),
            len in prop::array::uniform3(1usize..9),
            rule in 0usize..6,
            offset in -3i32..3,
        ) {
            let shape = Shape::new(&lengths).unwrap();
            let data: Vec<u16> = (0..shape.len()).map(|i| (i * 37 % 101) as u16).collect();
            let view = View::new(&data, shape).unwrap();
            let pitch = Pitch { row: len[2] + 2, plane: (len[2] + 2) * (len[1] + 1), rows: len[1] + 1, planes: len[0] };
            let mut out = vec![f32::NAN; pitch.elements()];
            let samples = Samples { begin, len };
            let offset = f64::from(offset);
            let (reach, isas) = (f32::REACH, isa::detect());
            let target = Target { out: &mut out, marks: &mut [], pitch, hides: None, reach, isas };
            let done = gather(&view.into(), RULES[rule], samples, offset, None, target);
            prop_assert_eq!(done, Gathered { scale: 1.0, marked: false });
            for (index, &got) in out.iter().enumerate() {
                let [z, y, x] = [index / pitch.plane, index % pitch.plane / pitch.row, index % pitch.row];
                let at = |axis: usize, i: usize| RULES[rule].fold(begin[axis] + i as isize, lengths[axis]);
                let expected = if z >= len[0] || y >= len[1] || x >= len[2] {
                    0.0
                } else {
                    match (at(0, z), at(1, y), at(2, x)) {
                        (Some(z), Some(y), Some(x)) => f64::from(view.at([z, y, x])) - offset,
                        _ => RULES[rule].value().unwrap() - offset,
                    }
                };
                prop_assert_eq!(f64::from(got), expected);
            }
        }
    }

    #[test]
    fn samples_inside_an_image_of_f32_are_gathered_at_any_width() {
        let frame = Shape::new(&[9, 90]).unwrap();
        let mut data: Vec<f32> = (0..frame.len()).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        for (width, bad) in
            (1..=70).flat_map(|width| [(width, None), (width, Some(f32::NAN)), (width, Some(f32::INFINITY))])
        {
            let samples = Samples { begin: [0, 2, 11], len: [1, 5, width] };
            let pitch = Pitch { row: width + 3, plane: (width + 3) * 6, rows: 6, planes: 1 };
            let (mut out, mut marks) = (vec![f32::NAN; pitch.elements()], vec![9.0f32; pitch.elements()]);
            // The last sample of the last row, and one that is just outside.
            let places = [6 * 90 + 11 + width - 1, 6 * 90 + 11 + width];
            let kept = places.map(|place| data[place]);
            data[places[0]] = bad.unwrap_or(kept[0]);
            data[places[1]] = f32::NAN;
            let target =
                Target { out: &mut out, marks: &mut marks, pitch, hides: None, reach: f32::REACH, isas: isa::detect() };
            let done = gather(&View::new(&data, frame).unwrap().into(), Boundary::Zero, samples, 7.0, None, target);
            assert_eq!(done, Gathered { scale: 1.0, marked: bad.is_some() }, "{width} {bad:?}");
            for (index, &got) in out.iter().enumerate() {
                let (y, x) = (index / pitch.row, index % pitch.row);
                let want = if y < 5 && x < width { data[(y + 2) * 90 + x + 11] - 7.0 } else { 0.0 };
                assert_eq!(got, if want.is_finite() { want } else { 0.0 }, "{width} {bad:?} at {y},{x}");
            }
            (data[places[0]], data[places[1]]) = (kept[0], kept[1]);
        }
    }

    #[test]
    fn bytes_are_gathered_less_128() {
        let data: Vec<u8> = (0..60).map(|i| (i * 53 % 256) as u8).collect();
        let view = View::new(&data, Shape::new(&[6, 10]).unwrap()).unwrap();
        let samples = Samples { begin: [0, -2, -3], len: [1, 9, 17] };
        let pitch = Pitch { row: 20, plane: 200, rows: 10, planes: 1 };
        for rule in RULES {
            let mut out = vec![99i8; pitch.elements()];
            bytes(&view, rule, samples, &mut out, pitch, &isa::detect());
            for (index, &got) in out.iter().enumerate() {
                let (y, x) = (index / pitch.row, index % pitch.row);
                let at = |axis: usize, i: usize, length: usize| rule.fold(samples.begin[axis] + i as isize, length);
                let expected = match (at(1, y, 6), at(2, x, 10)) {
                    _ if y >= 9 || x >= 17 => 0.0,
                    (Some(y), Some(x)) => f64::from(view.at([0, y, x])) - 128.0,
                    _ => rule.value().unwrap() - 128.0,
                };
                assert_eq!(f64::from(got), expected, "{rule:?} at {y},{x}");
            }
        }
    }

    #[test]
    fn extraordinary_samples_are_scaled_and_marked() {
        let data = [1e300, f64::NAN, -1e300, 5e299];
        let view = View::new(&data, Shape::new(&[4]).unwrap()).unwrap();
        let samples = Samples { begin: [0, 0, 0], len: [1, 1, 4] };
        let pitch = Pitch { row: 4, plane: 4, rows: 1, planes: 1 };
        let (mut out, mut marks) = ([0f32; 4], [0f32; 4]);
        let done = gather(
            &view.into(),
            Boundary::Zero,
            samples,
            0.0,
            None,
            Target { out: &mut out, marks: &mut marks, pitch, hides: None, reach: f32::REACH, isas: isa::detect() },
        );
        assert!(done.marked && done.scale < 1e-250);
        assert_eq!(marks, [0.0, 1.0, 0.0, 0.0]);
        assert_eq!((out[1], out[2], out[3]), (0.0, -out[0], out[0] / 2.0));
    }

    #[test]
    fn one_huge_sample_does_not_move_the_offset() {
        let mut data = vec![1000.0f32; 100];
        data[50] = 1e30;
        let view: AnyView<'_> = View::new(&data, Shape::new(&[10, 10]).unwrap()).unwrap().into();
        let samples = Samples { begin: [0, 0, 0], len: [1, 10, 10] };
        assert_eq!(offset(&view, Boundary::Zero, samples), 1000.0);
    }
}
