//! Templates turned and scaled, as the objects that they show may stand in an image.
//!
//! **Turned.** By an angle in degrees, counterclockwise as an image is looked at, its rows from top to bottom, about
//! the middle of the template's samples. A volume turns plane by plane, about its slowest axis.
//! **Scaled.** By a factor, 2 for twice as large along every axis, about the same middle.
//! **Which samples.** A sample at `p` from the middle of the turned template stands for the place `R^-1 p / scale` of
//! the template. It counts where that lies between the template's samples, borders included; the others are masked.
//! **What they are.** Without a mask the cubic convolution of the samples around that place (Keys, "Cubic Convolution
//! Interpolation for Digital Image Processing", 1981, `a = -1/2`), with a mask the linear one of those under it; either
//! is widened by `1 / scale` for templates made smaller, so that what is too fine for them is averaged, and weights
//! add up to 1 where the template ends. Integers are rounded to the nearest. By multiples of 90 degrees at scale 1
//! every sample is one of the template's own; in any other pose an axis has an even number of samples where the
//! template's has, so that its middle lies on a sample, or between two, as the template's does.

use crate::dtype::{DType, Pixels};
use crate::error::{Kind, SpecError};
use crate::image::Image;
use crate::shape::Shape;
use crate::view::AnyView;

/// How an object stands beside its template.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    angle: f64,
    scale: f64,
}

/// A template in a pose.
#[derive(Clone, Debug, PartialEq)]
pub struct Posed {
    /// Its samples, of the template's type and channels: the smallest box about its middle that has all that count, or
    /// by multiples of 90 degrees at scale 1 all of the template.
    pub template: Image,
    /// Which of them count, or how much; `None` where all do alike.
    pub mask: Option<Image>,
}

/// Poses in which a template is looked for: every angle of some with every scale of some.
#[derive(Clone, Debug, PartialEq)]
pub struct Poses {
    angles: Vec<f64>,
    scales: Vec<f64>,
    all: Vec<Pose>,
    step: [f64; 2],
    range: [[f64; 2]; 2],
}

/// How many poses there are at most: with more, what was meant is no grid.
const MOST: usize = 1 << 20;
/// Degrees at most, either way: of more than that a turn is lost to rounding.
const ANGLES: f64 = 1e6;
/// The least scale and the largest.
const SCALES: [f64; 2] = [1.0 / 64.0, 64.0];
/// What rounding may take from a place that lies at the border of a template.
const CLOSE: f64 = 1e-9;

impl Pose {
    /// Turned by `angle` degrees and `scale` times as large.
    ///
    /// # Errors
    /// An angle that is no finite number, a scale outside of 1/64 to 64.
    pub fn new(angle: f64, scale: f64) -> Result<Pose, SpecError> {
        if !(-ANGLES..=ANGLES).contains(&angle) {
            return Err(SpecError::new("angle", format!("a finite number of degrees, at most {ANGLES}"), angle));
        }
        if !(SCALES[0]..=SCALES[1]).contains(&scale) {
            return Err(SpecError::new("scale", format!("{} to {}", SCALES[0], SCALES[1]), scale));
        }
        Ok(Pose { angle, scale })
    }

    /// Degrees, counterclockwise.
    pub fn angle(&self) -> f64 {
        self.angle
    }

    /// How many times as large.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// How far apart two poses are: in degrees, the shorter way round, and in scales.
    pub fn away(&self, other: &Pose) -> [f64; 2] {
        let turned = (self.angle - other.angle).rem_euclid(360.0);
        [turned.min(360.0 - turned), (self.scale - other.scale).abs()]
    }

    /// Where a place of the template comes to lie, both from its middle: `[z, y, x]`, `y` downwards.
    pub fn place(&self, [z, y, x]: [f64; 3]) -> [f64; 3] {
        let [cos, sin] = turn(self.angle);
        [z, cos * y - sin * x, sin * y + cos * x].map(|at| at * self.scale)
    }

    /// Of places the one of the template that comes to lie there.
    fn origin(&self) -> impl Fn([f64; 3]) -> [f64; 3] {
        let ([cos, sin], scale) = (turn(self.angle), self.scale);
        move |[z, y, x]| [z, cos * y + sin * x, cos * x - sin * y].map(|at| at / scale)
    }

    /// A template in this pose, with its mask: of the template's shape and one channel, 0 and 1 or weights.
    ///
    /// ```
    /// use flcc_core::{image::Image, pose::Pose, shape::Shape};
    ///
    /// let template = Image::new(vec![1u8, 2, 3, 4, 5, 6], Shape::new(&[2, 3])?)?;
    /// let turned = Pose::new(90.0, 1.0)?.of(&template.view(), None)?;
    /// assert_eq!(turned.template.shape(), Shape::new(&[3, 2])?);
    /// assert_eq!(turned.template.view().to_f64(), [3.0, 6.0, 2.0, 5.0, 1.0, 4.0]);
    /// assert_eq!(turned.mask, None);
    /// # Ok::<(), flcc_core::error::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// A template without samples, a signal that is turned, a mask of another shape, a pose that leaves no sample.
    pub fn of(&self, template: &AnyView<'_>, mask: Option<&AnyView<'_>>) -> Result<Posed, SpecError> {
        let shape = template.shape().nonempty("template")?;
        if shape.axes() == 1 && turn(self.angle) != [1.0, 0.0] {
            return Err(SpecError::new("angle", "0 for a signal", self.angle));
        }
        if let Some(mask) = mask
            && (mask.shape() != shape || mask.channels() != 1)
        {
            let got = format!("{} in {} channels", mask.shape(), mask.channels());
            return Err(SpecError::of(Kind::MaskShape, "mask", format!("{shape}, as the template"), got));
        }
        let lengths = shape.padded();
        let middle = lengths.map(|length| (length - 1) as f64 / 2.0);
        let weights = mask.map(AnyView::to_f64);
        // Beside the largest of them products are of a magnitude that a sample has.
        let heaviest = weights.iter().flatten().copied().fold(0.0, f64::max);
        let shares: Option<Vec<f64>> =
            weights.as_ref().map(|weights| weights.iter().map(|weight| weight / heaviest).collect());
        let sides = self.sides(lengths, weights.as_deref());
        let origin = self.origin();
        // Where a sample of the box is in the template.
        let place = |at: [usize; 3]| {
            let from_middle = [0, 1, 2].map(|axis| at[axis] as f64 - (sides[axis] - 1) as f64 / 2.0);
            let origin = origin(from_middle);
            let place = [0, 1, 2].map(|axis| origin[axis] + middle[axis]);
            let inside = (0..3).all(|axis| place[axis] >= -CLOSE && place[axis] <= (lengths[axis] - 1) as f64 + CLOSE);
            inside.then(|| [0, 1, 2].map(|axis| place[axis].clamp(0.0, (lengths[axis] - 1) as f64)))
        };
        let weight = |place: [f64; 3]| weights.as_ref().map_or(1.0, |weights| weights[nearest(place, lengths)]);
        let counts: Vec<f64> = positions(sides).map(|at| place(at).map_or(0.0, weight)).collect();
        let (from, kept) = bounds(&counts, sides).ok_or_else(|| {
            SpecError::of(
                Kind::EmptyInput,
                "pose",
                "one that leaves a sample of the template",
                format!("{} degrees at scale {}", self.angle, self.scale),
            )
        })?;
        // As it is a template keeps its box, whatever its mask.
        let (from, kept) = if self.is_exact() { ([0; 3], sides) } else { (from, kept) };
        let inside = |at: [usize; 3]| [0, 1, 2].map(|axis| at[axis] + from[axis]);
        let count = |at: [usize; 3]| counts[(at[0] * sides[1] + at[1]) * sides[2] + at[2]];

        let channels = template.channels();
        let mut samples: Vec<Vec<f64>> = (0..channels).map(|channel| template.channel(channel).to_f64()).collect();
        if let Some(weights) = &shares {
            let weigh =
                |(sample, &weight): (&mut f64, &f64)| *sample = if weight == 0.0 { 0.0 } else { *sample * weight };
            samples.iter_mut().for_each(|samples| samples.iter_mut().zip(weights).for_each(weigh));
        }
        let width = (1.0 / self.scale).max(1.0);
        let kernel: (fn(f64) -> f64, f64) = if weights.is_some() { (linear, 1.0) } else { (cubic, 2.0) };
        let mut values = Vec::with_capacity(kept.iter().product::<usize>() * channels);
        let mut left = Vec::with_capacity(values.capacity() / channels);
        let mut taps = Taps::default();
        for at in positions(kept).map(inside) {
            let count = count(at);
            left.push(count);
            if count == 0.0 {
                values.extend(std::iter::repeat_n(0.0, channels));
                continue;
            }
            let place = place(at).expect("what counts has a place");
            taps.gather(place, lengths, width, kernel);
            let all = shares.as_ref().map_or_else(|| taps.all(), |shares| taps.sum(shares, lengths));
            values.extend(samples.iter().map(|samples| taps.sum(samples, lengths) / all));
        }
        let shape = shape.with_padded(kept)?;
        let template = Image::of(rounded(values, template.dtype()), shape, channels)?;
        let mask = if left.iter().all(|&count| count == left[0]) {
            None
        } else if left.iter().all(|&count| count == 0.0 || count == 1.0) {
            Some(Image::of(Pixels::F64(left).cast(DType::U8), shape, 1)?)
        } else {
            Some(Image::of(Pixels::F64(left), shape, 1)?)
        };
        Ok(Posed { template, mask })
    }

    /// Whether a template that is `weights` heavy, 1 everywhere without them, is larger than an image in this pose,
    /// whatever of the box around it is left out: known before it is made.
    pub fn is_larger(&self, template: Shape, weights: Option<&[f64]>, image: Shape) -> bool {
        let sides = self.sides(template.padded(), weights);
        // At either end a row of the box may have no sample that counts, or so many as one of the template is long.
        let slack = if self.is_exact() { 0.0 } else { 2.0 * self.scale + 4.0 };
        sides.into_iter().zip(image.padded()).any(|(side, image)| side as f64 - slack > image as f64)
    }

    /// The sides of a box about the middle that has all samples that may count.
    fn sides(&self, lengths: [usize; 3], weights: Option<&[f64]>) -> [usize; 3] {
        let middle = lengths.map(|length| (length - 1) as f64 / 2.0);
        let mut corner = middle;
        if let Some(weights) = weights.filter(|_| !self.is_exact()) {
            // A place counts as the sample nearest to it does.
            let mut farthest = [0.0f64; 3];
            for (at, _) in positions(lengths).zip(weights).filter(|(_, weight)| **weight > 0.0) {
                for axis in 0..3 {
                    farthest[axis] = farthest[axis].max((at[axis] as f64 - middle[axis]).abs() + 0.5);
                }
            }
            corner = [0, 1, 2].map(|axis| middle[axis].min(farthest[axis]));
        }
        let reach = self.reach(corner);
        [0, 1, 2].map(|axis| {
            let most = (2.0 * reach[axis] + CLOSE) as usize + 1;
            if self.is_exact() || most % 2 == lengths[axis] % 2 { most } else { (most - 1).max(1) }
        })
    }

    /// Whether samples are the template's own: turned by a multiple of 90 degrees, of the same size.
    fn is_exact(&self) -> bool {
        self.scale == 1.0 && turn(self.angle).iter().all(|part| part.fract() == 0.0)
    }

    /// How far the places of a template reach from its middle in this pose, whose corners are so far from it.
    pub fn reach(&self, corner: [f64; 3]) -> [f64; 3] {
        let [cos, sin] = turn(self.angle).map(f64::abs);
        let [z, y, x] = corner;
        [z, cos * y + sin * x, sin * y + cos * x].map(|at| at * self.scale)
    }
}

impl Poses {
    /// Every angle with every scale.
    ///
    /// # Errors
    /// None, a pose that is none, more than a million.
    pub fn grid(angles: &[f64], scales: &[f64]) -> Result<Poses, SpecError> {
        for (argument, list) in [("angles", angles), ("scales", scales)] {
            if list.is_empty() {
                return Err(SpecError::of(Kind::EmptyInput, argument, "at least one", "none"));
            }
        }
        if angles.len().saturating_mul(scales.len()) > MOST {
            let got = format!("{} angles, {} scales", angles.len(), scales.len());
            return Err(SpecError::new("poses", format!("at most {MOST}"), got));
        }
        let of_scale = |&scale: &f64| angles.iter().map(move |&angle| Pose::new(angle, scale));
        let all = scales.iter().flat_map(of_scale).collect::<Result<_, _>>()?;
        let smallest = steps_of(angles).into_iter().fold(f64::INFINITY, f64::min);
        let step = [angles, scales].map(|values| steps_of(values).into_iter().fold(0.0, f64::max));
        let ends = |values: &[f64]| {
            let ends = |[low, high]: [f64; 2], &value: &f64| [low.min(value), high.max(value)];
            values.iter().fold([f64::INFINITY, f64::NEG_INFINITY], ends)
        };
        let [low, high] = ends(angles);
        let around = smallest.is_finite() && high - low + smallest > 360.0 - CLOSE;
        let range = [if around { [f64::NEG_INFINITY, f64::INFINITY] } else { [low, high] }, ends(scales)];
        Ok(Poses { angles: angles.to_vec(), scales: scales.to_vec(), all, step, range })
    }

    /// The same template in an image that is `factor` times smaller: scales so many times smaller, and of angles and
    /// scales as few as lie no further apart than a template so small tells them by, one sample at its ends.
    ///
    /// # Errors
    /// A scale below 1/64.
    pub fn shrunk(&self, template: Shape, factor: usize) -> Result<Poses, SpecError> {
        let [most, most_scale] = self.apart_in(template, factor);
        let (angles, scales) = (thinned(&self.angles, most), thinned(&self.scales, most_scale));
        let factor = factor as f64;
        Poses::grid(&angles, &scales.into_iter().map(|scale| scale / factor).collect::<Vec<_>>())
    }

    /// The poses: of the first scale all angles, then those of the next.
    pub fn all(&self) -> &[Pose] {
        &self.all
    }

    /// The angles, in degrees.
    pub fn angles(&self) -> &[f64] {
        &self.angles
    }

    /// The scales.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }

    /// Whether a pose lies between these, or is one of them: all angles do where they go around.
    pub fn has_between(&self, pose: &Pose) -> bool {
        let [angles, scales] = self.range;
        let within = |value: f64, [low, high]: [f64; 2]| value >= low - CLOSE && value <= high + CLOSE;
        within(pose.angle, angles) && within(pose.scale, scales)
    }

    /// The same pose by an angle of these poses' circle, where their angles go around: 358 for -2 of 0 to 360.
    pub fn in_circle(&self, pose: Pose) -> Pose {
        let first = self.angles.iter().copied().fold(f64::INFINITY, f64::min);
        match self.range[0] {
            [f64::NEG_INFINITY, _] => {
                // What rounding leaves of a whole turn is none.
                let turned = (pose.angle - first).rem_euclid(360.0);
                Pose { angle: first + if turned > 360.0 - CLOSE { 0.0 } else { turned }, ..pose }
            }
            _ => pose,
        }
    }

    /// The angles and the scales of these poses nearest to a pose's, up to three of each, with one another.
    pub fn nearest(&self, pose: Pose) -> Vec<Pose> {
        let away = |angle: f64| Pose { angle, ..pose }.away(&pose)[0];
        let nearest = |values: &[f64], away: &dyn Fn(f64) -> f64| {
            let mut values = values.to_vec();
            values.sort_by(|a, b| away(*a).total_cmp(&away(*b)));
            values.dedup();
            values.truncate(3);
            values
        };
        let angles = nearest(&self.angles, &away);
        let scales = nearest(&self.scales, &|scale| (scale - pose.scale).abs());
        scales.iter().flat_map(|&scale| angles.iter().map(move |&angle| Pose { angle, scale })).collect()
    }

    /// The smallest step from an angle to the next, and from a scale to the next; 0 where there is one.
    pub fn least_step(&self) -> [f64; 2] {
        [&self.angles, &self.scales].map(|values| {
            let least = steps_of(values).into_iter().fold(f64::INFINITY, f64::min);
            if least.is_finite() { least } else { 0.0 }
        })
    }

    /// The largest step from an angle to the next, and from a scale to the next, of those up to `most`; 0 where all are
    /// larger.
    pub fn step_within(&self, most: [f64; 2]) -> [f64; 2] {
        [(&self.angles, most[0]), (&self.scales, most[1])]
            .map(|(values, most)| steps_of(values).into_iter().filter(|step| *step <= most + CLOSE).fold(0.0, f64::max))
    }

    /// By how much angles and scales may differ that a template of this shape does not tell apart in an image `factor`
    /// times smaller: its outermost sample moves by one of that image.
    pub fn apart_in(&self, template: Shape, factor: usize) -> [f64; 2] {
        let (factor, [_, largest]) = (factor as f64, self.range[1]);
        [fine_angle(template) * factor / largest.max(1.0), fine_scale(template) * factor]
    }

    /// The largest step from an angle to the next, in degrees, and from a scale to the next; 0 where there is one.
    pub fn step(&self) -> [f64; 2] {
        self.step
    }
}

/// Values from one on up to another, that one included, in steps: `0, 5, .., 355` of 0 to 360 in steps of 5 where
/// `around` says that the last is the first again.
///
/// # Errors
/// Values that are no finite numbers, a step that is not positive, an end before the beginning, more than a million.
pub fn steps(argument: &str, [from, to, step]: [f64; 3], around: Option<f64>) -> Result<Vec<f64>, SpecError> {
    let got = || format!("{from}:{to}:{step}");
    if ![from, to, step].iter().all(|value| value.is_finite()) || step <= 0.0 || to < from {
        return Err(SpecError::new(argument, "FROM:TO:STEP, numbers, TO not below FROM, STEP above 0", got()));
    }
    let count = (to - from) / step + CLOSE;
    if count >= MOST as f64 {
        return Err(SpecError::new(argument, format!("at most {MOST} values"), got()));
    }
    let values = (0..=count as usize).map(|number| from + number as f64 * step);
    let again = |value: f64| around.is_some_and(|around| value > from && value - from >= around - CLOSE * around);
    Ok(values.filter(|&value| !again(value)).collect())
}

/// Degrees by which a template may be turned from one pose to the next: by that the sample farthest from its middle
/// moves by one sample.
pub fn fine_angle(template: Shape) -> f64 {
    let [_, height, width] = template.padded().map(|length| (length - 1) as f64 / 2.0);
    (1.0 / height.hypot(width).max(1.0)).to_degrees()
}

/// How much larger a template may be from one pose to the next: by that its outermost samples move by one.
pub fn fine_scale(template: Shape) -> f64 {
    2.0 / template.lengths().iter().copied().max().unwrap_or(1).max(1) as f64
}

/// The cosine and the sine of an angle in degrees, exact for multiples of 90.
fn turn(angle: f64) -> [f64; 2] {
    let angle = angle.rem_euclid(360.0);
    match angle {
        0.0 => [1.0, 0.0],
        90.0 => [0.0, 1.0],
        180.0 => [-1.0, 0.0],
        270.0 => [0.0, -1.0],
        _ => [angle.to_radians().cos(), angle.to_radians().sin()],
    }
}

/// Of some values the first and the last, and of those between as few as lie no further apart than `most`, where these
/// lie no further apart themselves.
fn thinned(values: &[f64], most: f64) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut kept: Vec<f64> = Vec::new();
    for (number, &value) in sorted.iter().enumerate() {
        let next = sorted.get(number + 1);
        if kept.last().is_none_or(|last| next.is_none_or(|next| next - last > most + CLOSE)) {
            kept.push(value);
        }
    }
    kept
}

/// The steps from each of some values to the next larger one.
fn steps_of(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0.0).collect()
}

/// The positions of a box, row by row.
fn positions([depth, height, width]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| [z, y, x])))
}

/// The index of the sample nearest to a place inside.
fn nearest(place: [f64; 3], lengths: [usize; 3]) -> usize {
    let [z, y, x] = place.map(|at| at.round() as usize);
    (z * lengths[1] + y) * lengths[2] + x
}

/// The smallest box about the same middle that has all that counts: where it begins, and its sides.
fn bounds(counts: &[f64], sides: [usize; 3]) -> Option<([usize; 3], [usize; 3])> {
    // How many positions of an axis are left out at either end.
    let mut out = sides.map(|side| side.div_ceil(2));
    for (at, _) in positions(sides).zip(counts).filter(|(_, count)| **count != 0.0) {
        for axis in 0..3 {
            out[axis] = out[axis].min(at[axis]).min(sides[axis] - 1 - at[axis]);
        }
    }
    let kept = [0, 1, 2].map(|axis| sides[axis].saturating_sub(2 * out[axis]));
    (kept.iter().all(|&side| side > 0)).then_some((out, kept))
}

/// The samples around a place, and what each of them counts: the product of what its plane, its row and its column do.
#[derive(Default)]
struct Taps {
    first: [usize; 3],
    of: [Vec<f64>; 3],
}

impl Taps {
    /// Those around a place inside, by a kernel of some reach, so many samples wide.
    fn gather(&mut self, place: [f64; 3], lengths: [usize; 3], width: f64, (kernel, reach): (fn(f64) -> f64, f64)) {
        for axis in 0..3 {
            let (at, reach, of) = (place[axis], reach * width, &mut self.of[axis]);
            let from = (at - reach).ceil().max(0.0) as usize;
            let to = (at + reach).floor().min((lengths[axis] - 1) as f64) as usize;
            of.clear();
            of.extend((from..=to).map(|sample| kernel((sample as f64 - at) / width)));
            // What does not count at the ends is not looked at.
            let zeros = of.iter().take_while(|count| **count == 0.0).count();
            of.drain(..zeros);
            while of.last() == Some(&0.0) {
                of.pop();
            }
            self.first[axis] = from + zeros;
        }
    }

    /// What all of them count together.
    fn all(&self) -> f64 {
        self.of.iter().map(|of| of.iter().sum::<f64>()).product()
    }

    /// The sum of samples, as much of each as it counts.
    fn sum(&self, samples: &[f64], [_, height, width]: [usize; 3]) -> f64 {
        let ([z, y, x], [planes, rows, columns]) = (self.first, &self.of);
        let of_row = |row: usize| {
            let row = &samples[row * width + x..][..columns.len()];
            row.iter().zip(columns).map(|(sample, count)| sample * count).sum::<f64>()
        };
        let of_plane = |plane: usize| {
            rows.iter().zip((z + plane) * height + y..).map(|(count, row)| count * of_row(row)).sum::<f64>()
        };
        planes.iter().enumerate().map(|(plane, count)| count * of_plane(plane)).sum()
    }
}

/// Keys' kernel, two samples wide to either side.
fn cubic(t: f64) -> f64 {
    let t = t.abs();
    if t < 1.0 {
        (1.5 * t - 2.5) * t * t + 1.0
    } else if t < 2.0 {
        ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0
    } else {
        0.0
    }
}

/// The kernel of linear interpolation.
fn linear(t: f64) -> f64 {
    (1.0 - t.abs()).max(0.0)
}

/// Values as samples of a type: integers rounded to the nearest of the type's.
fn rounded(values: Vec<f64>, dtype: DType) -> Pixels {
    let max = dtype.row().max.map(f64::from);
    let values = match max {
        Some(max) => values.into_iter().map(|value| value.round().clamp(0.0, max)).collect(),
        None => values,
    };
    Pixels::F64(values).cast(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(lengths: &[usize], of: impl Fn(f64, f64) -> f64) -> Image {
        let shape = Shape::new(lengths).unwrap();
        let [_, height, width] = shape.padded();
        let middle = [height, width].map(|length| (length - 1) as f64 / 2.0);
        let values = positions([1, height, width]).map(|[_, y, x]| of(y as f64 - middle[0], x as f64 - middle[1]));
        Image::of(Pixels::F64(values.collect()), shape, 1).unwrap()
    }

    fn posed(angle: f64, scale: f64, template: &Image) -> Posed {
        Pose::new(angle, scale).unwrap().of(&template.view(), None).unwrap()
    }

    #[test]
    fn a_smaller_image_needs_fewer_poses() {
        let template = Shape::new(&[61, 81]).unwrap();
        let all = steps("angles", [0.0, 360.0, 1.0], Some(360.0)).unwrap();
        let poses = Poses::grid(&all, &[0.9, 1.0, 1.02, 1.04]).unwrap();
        let fewer = poses.shrunk(template, 4).unwrap();
        // 50 samples from the middle to the corner: 1.146 degrees a sample, of a sample four times as large at scale
        // 1.04 4.4.
        let angles: Vec<f64> = fewer.all().iter().take(90).map(Pose::angle).collect();
        assert_eq!((fewer.step()[0], angles[89], fewer.all().len()), (4.0, 356.0, 3 * 91));
        assert!((fewer.step()[1] * 4.0 - 0.1).abs() < 1e-9, "{fewer:?}");
        assert!(angles.windows(2).all(|pair| pair[1] - pair[0] == 4.0), "{angles:?}");
        assert_eq!(fewer.all().iter().map(|pose| pose.scale() * 4.0).fold(0.0, f64::max), 1.04);
        assert_eq!(poses.shrunk(template, 1).unwrap().all().len(), poses.all().len());
        assert!(poses.shrunk(template, 64).is_err());
        let uneven = Poses::grid(&[0.0, 1.0, 2.0, 7.0, 180.0], &[1.0]).unwrap();
        assert_eq!(
            (uneven.least_step(), uneven.step_within([6.0, 1.0]), uneven.step()[0]),
            ([1.0, 0.0], [5.0, 0.0], 173.0)
        );
        assert_eq!(Pose::new(-10.0, 1.5).unwrap().away(&Pose::new(355.0, 1.0).unwrap()), [5.0, 0.5]);
        let near = uneven.nearest(Pose::new(-2.5, 1.1).unwrap());
        assert_eq!(near.iter().map(Pose::angle).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    }

    #[test]
    fn quarter_turns_move_samples_and_change_none() {
        let template = Image::new((1..=6u16).collect(), Shape::new(&[2, 3]).unwrap()).unwrap();
        let of = |angle| posed(angle, 1.0, &template);
        for (angle, lengths, values) in [
            (0.0, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (90.0, [3, 2], [3.0, 6.0, 2.0, 5.0, 1.0, 4.0]),
            (180.0, [2, 3], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
            (-90.0, [3, 2], [4.0, 1.0, 5.0, 2.0, 6.0, 3.0]),
            (450.0, [3, 2], [3.0, 6.0, 2.0, 5.0, 1.0, 4.0]),
        ] {
            let turned = of(angle);
            assert_eq!(turned.template.shape().lengths(), lengths, "{angle}");
            assert_eq!((turned.template.view().to_f64(), turned.mask), (values.to_vec(), None), "{angle}");
        }
    }

    #[test]
    fn what_is_linear_in_the_template_is_so_in_any_pose() {
        // Keys' kernel reproduces planes where all of its samples lie inside, and at the border their mean.
        let template = image(&[31, 41], |y, x| 3.0 * y - 2.0 * x + 7.0);
        for (angle, scale) in [(30.0, 1.0), (-71.5, 1.3), (200.0, 2.0)] {
            let pose = Pose::new(angle, scale).unwrap();
            let turned = pose.of(&template.view(), None).unwrap();
            let ([_, height, width], mask) = (turned.template.shape().padded(), turned.mask.unwrap().view().to_f64());
            let middle = [height, width].map(|length| (length - 1) as f64 / 2.0);
            let values = turned.template.view().to_f64();
            let mut met = 0;
            for ([_, y, x], (value, counts)) in positions([1, height, width]).zip(values.iter().zip(&mask)) {
                let [_, v, u] = pose.origin()([0.0, y as f64 - middle[0], x as f64 - middle[1]]);
                assert_eq!(*counts == 1.0, v.abs() <= 15.0 + CLOSE && u.abs() <= 20.0 + CLOSE);
                if v.abs() <= 13.0 && u.abs() <= 18.0 {
                    met += 1;
                    assert!((value - (3.0 * v - 2.0 * u + 7.0)).abs() < 1e-9, "{angle} {scale}: {y},{x}");
                }
            }
            assert!(met > 700);
        }
    }

    #[test]
    fn a_box_is_the_smallest_about_what_counts() {
        let template = image(&[20, 30], |y, x| y * x);
        for angle in [0.0, 10.0, 45.0, 63.0, 90.0, 135.0] {
            let turned = posed(angle, 1.0, &template);
            let [_, height, width] = turned.template.shape().padded();
            let counts = turned.mask.map_or(vec![1.0; height * width], |mask| mask.view().to_f64());
            let row = |y: usize| (0..width).any(|x| counts[y * width + x] > 0.0);
            let column = |x: usize| (0..height).any(|y| counts[y * width + x] > 0.0);
            assert!(row(0) && row(height - 1) && column(0) && column(width - 1), "{angle}");
            // As many samples count as lie between the template's outer ones.
            let area = counts.iter().sum::<f64>();
            assert!((area - 19.0 * 29.0).abs() < 60.0, "{angle}: {area}");
        }
    }

    #[test]
    fn what_is_larger_than_an_image_is_known_before_it_is_made() {
        let template = image(&[20, 30], |y, x| y * x);
        let disc = image(&[20, 30], |y, x| f64::from(u8::from(y.hypot(x) < 6.0)));
        for mask in [None, Some(disc.view())] {
            let weights = mask.as_ref().map(AnyView::to_f64);
            let weights = weights.as_deref();
            for (angle, scale) in [(0.0, 1.0), (45.0, 1.0), (10.0, 2.5), (90.0, 1.0), (77.0, 0.4)] {
                let pose = Pose::new(angle, scale).unwrap();
                let sides = pose.of(&template.view(), mask.as_ref()).unwrap().template.shape();
                let [_, height, width] = sides.padded();
                // None that fits is said to be larger, and what is far larger is.
                assert!(!pose.is_larger(template.shape(), weights, sides), "{angle} {scale}");
                let less = (2.0 * scale + 8.0) as usize;
                let lesser = Shape::new(&[height, width].map(|side| side.saturating_sub(less).max(1))).unwrap();
                if height.max(width) > less + 1 {
                    assert!(pose.is_larger(template.shape(), weights, lesser), "{angle} {scale}");
                }
            }
        }
        // Known at once, where to make it would take hours.
        let huge = Shape::new(&[100_000, 100_000]).unwrap();
        assert!(Pose::new(1.0, 64.0).unwrap().is_larger(huge, None, template.shape()));
    }

    #[test]
    fn smaller_templates_are_averages() {
        // Stripes of one sample are grey at a third of the size, and no moire.
        let template = image(&[60, 60], |_, x| if (x + 0.5).rem_euclid(2.0) < 1.0 { 100.0 } else { 0.0 });
        let small = posed(0.0, 1.0 / 3.0, &template);
        assert_eq!(small.template.shape().lengths(), [20, 20]);
        let inner = |values: Vec<f64>| values[20 * 5 + 5..20 * 5 + 15].to_vec();
        assert!(inner(small.template.view().to_f64()).iter().all(|value| (value - 50.0).abs() < 2.0));
    }

    #[test]
    fn masks_turn_with_their_templates_and_keep_out_what_they_hide() {
        let template = image(&[15, 15], |y, x| if y.hypot(x) <= 5.5 { y } else { 1e9 });
        let disc = image(&[15, 15], |y, x| f64::from(u8::from(y.hypot(x) <= 5.5)));
        let turned = Pose::new(33.0, 1.0).unwrap().of(&template.view(), Some(&disc.view())).unwrap();
        assert!(turned.template.shape().lengths().iter().all(|&side| side <= 13));
        let (values, mask) = (turned.template.view().to_f64(), turned.mask.unwrap());
        assert_eq!(mask.dtype(), DType::U8);
        assert!(values.iter().all(|value| value.abs() < 6.0));
        let weights = image(&[15, 15], |y, x| 1.0 + y.abs() + x.abs());
        let turned = Pose::new(180.0, 1.0).unwrap().of(&template.view(), Some(&weights.view())).unwrap();
        assert_eq!(turned.mask.unwrap().view().to_f64(), weights.view().to_f64());
    }

    #[test]
    fn signals_scale_and_volumes_turn_about_their_slowest_axis() {
        let signal = image(&[9], |_, x| x);
        assert_eq!(posed(0.0, 2.0, &signal).template.shape().lengths(), [17]);
        assert!(Pose::new(1.0, 1.0).unwrap().of(&signal.view(), None).is_err());
        let volume = Image::new((0..24u8).collect(), Shape::new(&[2, 3, 4]).unwrap()).unwrap();
        let turned = posed(90.0, 1.0, &volume);
        assert_eq!(turned.template.shape().lengths(), [2, 4, 3]);
        assert_eq!(turned.template.view().to_f64()[..6], [3.0, 7.0, 11.0, 2.0, 6.0, 10.0]);
        let colour = Image::of(Pixels::U8((0..12).collect()), Shape::new(&[2, 2]).unwrap(), 3).unwrap();
        let turned = posed(180.0, 1.0, &colour);
        assert_eq!(turned.template.pixels(), &Pixels::U8(vec![9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2]));
    }

    #[test]
    fn grids_have_all_angles_of_all_scales() {
        assert_eq!(steps("a", [0.0, 360.0, 90.0], Some(360.0)).unwrap(), [0.0, 90.0, 180.0, 270.0]);
        assert_eq!(steps("a", [-10.0, 10.0, 10.0], Some(360.0)).unwrap(), [-10.0, 0.0, 10.0]);
        assert_eq!(steps("s", [0.9, 1.1, 0.1], None).unwrap().len(), 3);
        for wrong in [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, f64::NAN, 1.0], [0.0, 1.0, 1e-9]] {
            assert!(steps("a", wrong, None).is_err(), "{wrong:?}");
        }
        let poses = Poses::grid(&[0.0, 5.0, 12.0], &[1.0, 1.5]).unwrap();
        assert_eq!((poses.all().len(), poses.step()), (6, [7.0, 0.5]));
        assert_eq!(poses.all()[4], Pose::new(5.0, 1.5).unwrap());
        let pose = |angle, scale| Pose::new(angle, scale).unwrap();
        assert!(poses.has_between(&pose(7.0, 1.2)) && poses.has_between(&pose(12.0, 1.5)));
        assert!(!poses.has_between(&pose(-1.0, 1.2)) && !poses.has_between(&pose(7.0, 1.6)));
        let around = Poses::grid(&[0.0, 120.0, 240.0], &[1.0]).unwrap();
        assert!(around.has_between(&pose(-50.0, 1.0)));
        assert_eq!(around.in_circle(pose(360.0 - 1e-12, 1.0)).angle(), 0.0);
        assert_eq!(
            (around.in_circle(pose(-50.0, 1.0)), poses.in_circle(pose(-50.0, 1.0)).angle()),
            (pose(310.0, 1.0), -50.0)
        );
        assert_eq!(Poses::grid(&[3.0], &[1.0, 1.0]).unwrap().step(), [0.0, 0.0]);
        assert!(Poses::grid(&[], &[1.0]).is_err() && Poses::grid(&[0.0], &[0.0]).is_err());
        assert!(Pose::new(f64::INFINITY, 1.0).is_err() && Pose::new(0.0, 100.0).is_err());
        let angle = fine_angle(Shape::new(&[101, 101]).unwrap());
        assert!((angle - 0.81).abs() < 0.01, "{angle}");
    }
}
