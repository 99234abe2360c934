//! Positions of peaks below a sample: where a curve through the scores around a peak is best.
//!
//! Every fit looks at all axes together: the scores of a template that has one main direction rise along a ridge, and
//! axes taken one by one lose its crest. `docs/subpixel.md` has the formulas, and what was measured on photographs.
//!
//! **What is not refined.** An axis along which the peak is the first or the last position, or has a neighbour that is
//! no finite number, keeps the whole position. The others are refined.
//! **How far.** No fit moves a peak by more than one position on any axis.

use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;

/// How a position is refined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Subpixel {
    /// The vertex of the paraboloid through the peak and its neighbours, with mixed terms by the diagonal ones. Where
    /// that has no maximum within one position, of the parabola of each axis, at most half a position away. Source:
    /// Lowe, "Distinctive Image Features from Scale-Invariant Keypoints", 2004.
    Quadratic,
    /// The same of the scores' logarithms, which a Gaussian peak is exact by; of the scores themselves where one of
    /// them is not positive, as all those of ssd, nssd and sad, whose sign is turned.
    Gauss,
    /// The maximum of the cubic B-spline through up to four scores on either side. Source: Unser, "Splines: A Perfect
    /// Fit for Signal and Image Processing", 1999.
    Cubic,
    /// The same of degree 7, through up to six scores on either side: near the one curve that has no frequency above
    /// the map's own, and the best of these on photographs. With fewer than four scores on a side the cubic one.
    #[default]
    Septic,
}

impl Subpixel {
    /// Every fit of a peak below a sample.
    pub const ALL: [Subpixel; 4] = [Subpixel::Quadratic, Subpixel::Gauss, Subpixel::Cubic, Subpixel::Septic];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Subpixel::Quadratic => "quadratic",
            Subpixel::Gauss => "gauss",
            Subpixel::Cubic => "cubic",
            Subpixel::Septic => "septic",
        }
    }

    /// How many scores on either side it looks at, at most; near an end or what is no number fewer.
    pub(crate) fn reach(self) -> usize {
        match self {
            Subpixel::Quadratic | Subpixel::Gauss => 1,
            Subpixel::Cubic => 4,
            Subpixel::Septic => LONGEST,
        }
    }
}

impl fmt::Display for Subpixel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Subpixel {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Subpixel, SpecError> {
        let named = Subpixel::ALL.into_iter().find(|fit| fit.name() == text);
        named.ok_or_else(|| SpecError::new("sub-pixel fit", "quadratic, gauss, cubic or septic", text))
    }
}

/// The farthest that a fit looks.
const LONGEST: usize = 6;
/// With fewer scores on a side an interpolation is no better than the paraboloid.
const SHORTEST: usize = 2;

/// How far the maximum lies from a peak on each axis. `value` gives the score at an index of a map of these lengths,
/// turned so that larger is better; the peak is at `position`.
pub(crate) fn offset(
    fit: Subpixel,
    value: impl Fn(usize) -> f64,
    lengths: [usize; 3],
    position: [usize; 3],
) -> [f64; 3] {
    let steps = [lengths[1] * lengths[2], lengths[2], 1];
    let index = position[0] * steps[0] + position[1] * steps[1] + position[2];
    let room = [0, 1, 2].map(|axis| {
        let room = position[axis].min(lengths[axis] - 1 - position[axis]);
        let (before, after) = (index.wrapping_sub(steps[axis]), index + steps[axis]);
        if room > 0 && value(before).is_finite() && value(after).is_finite() { room } else { 0 }
    });
    let near = Window::of(&value, index, steps, room.map(|room| room.min(1)));
    let logs = (fit == Subpixel::Gauss).then(|| near.logarithms()).flatten();
    let start = logs.unwrap_or(near).paraboloid();
    // The widest window of numbers alone.
    let mut reach = room.iter().copied().filter(|&room| room > 0).min().map_or(0, |room| room.min(fit.reach()));
    while reach >= SHORTEST {
        let window = Window::of(&value, index, steps, room.map(|room| room.min(reach)));
        if window.scores.iter().all(|score| score.is_finite()) {
            return window.summit(Spline::of(fit, reach), start);
        }
        reach -= 1;
    }
    start
}

/// Scores around a peak, as differences from its own. An axis of radius 0 is not refined.
struct Window {
    peak: f64,
    radii: [usize; 3],
    scores: Vec<f64>,
}

/// Weights of the scores of one axis for the value, its slope and its curvature.
type Weights = [[f64; 3]; 2 * LONGEST + 1];

/// A value, its slopes and its curvatures.
struct Local {
    value: f64,
    slope: [f64; 3],
    bend: [[f64; 3]; 3],
}

impl Window {
    fn of(value: impl Fn(usize) -> f64, index: usize, steps: [usize; 3], radii: [usize; 3]) -> Window {
        let peak = value(index);
        let [depth, height, width] = radii.map(|radius| 2 * radius + 1);
        let first = index - (0..3).map(|axis| radii[axis] * steps[axis]).sum::<usize>();
        let at = |k: usize| first + k / (height * width) * steps[0] + k / width % height * steps[1] + k % width;
        let scores = (0..depth * height * width).map(|k| value(at(k)) - peak).collect();
        Window { peak, radii, scores }
    }

    /// The score this many positions from the peak.
    fn at(&self, away: [i64; 3]) -> f64 {
        let [_, height, width] = self.radii.map(|radius| 2 * radius + 1);
        let [z, y, x] = [0, 1, 2].map(|axis| self.radii[axis].saturating_add_signed(away[axis] as isize));
        self.scores[(z * height + y) * width + x]
    }

    /// The same of logarithms; `None` if a score is not positive.
    fn logarithms(&self) -> Option<Window> {
        let logarithm = |&score: &f64| (score + self.peak > 0.0).then(|| ((score + self.peak) / self.peak).ln());
        let scores = self.scores.iter().map(logarithm).collect::<Option<Vec<f64>>>()?;
        Some(Window { peak: self.peak, radii: self.radii, scores })
    }

    /// Where the paraboloid through a window of radius 1 is highest.
    fn paraboloid(&self) -> [f64; 3] {
        let unit = |axis: usize, length: i64| [0, 1, 2].map(|other| if other == axis { length } else { 0 });
        let mut local = Local { value: 0.0, slope: [0.0; 3], bend: [[0.0; 3]; 3] };
        for a in (0..3).filter(|&a| self.radii[a] > 0) {
            let (before, after) = (self.at(unit(a, -1)), self.at(unit(a, 1)));
            local.slope[a] = (after - before) / 2.0;
            local.bend[a][a] = before + after;
            for b in (0..a).filter(|&b| self.radii[b] > 0) {
                let diagonal = |of_a: i64, of_b: i64| {
                    let mut away = unit(a, of_a);
                    away[b] = of_b;
                    self.at(away)
                };
                let mixed = (diagonal(1, 1) - diagonal(1, -1) - diagonal(-1, 1) + diagonal(-1, -1)) / 4.0;
                (local.bend[a][b], local.bend[b][a]) = (mixed, mixed);
            }
        }
        let single = |a: usize| {
            let away = -local.slope[a] / local.bend[a][a];
            if local.bend[a][a] < 0.0 && away.is_finite() { away.clamp(-0.5, 0.5) } else { 0.0 }
        };
        match local.newton(self.radii) {
            Some(away) if away.iter().all(|away| away.abs() <= 1.0) => away,
            _ => [0, 1, 2].map(|a| if self.radii[a] > 0 { single(a) } else { 0.0 }),
        }
    }

    /// Where the spline is highest within one position on every axis: uphill from `start`.
    fn summit(mut self, spline: Spline, start: [f64; 3]) -> [f64; 3] {
        // More steps than any peak of a smooth map takes.
        const STEPS: usize = 40;
        let largest = self.scores.iter().fold(0.0, |largest: f64, score| largest.max(score.abs()));
        if largest == 0.0 {
            return [0.0; 3];
        }
        self.scores.iter_mut().for_each(|score| *score /= largest);
        self.interpolate(spline);
        let mut at = start;
        let mut here = self.local(spline, at);
        // A start that is below the peak itself was none.
        if here.value < 0.0 || !here.value.is_finite() {
            at = [0.0; 3];
            here = self.local(spline, at);
        }
        for _ in 0..STEPS {
            let steepest = here.slope.iter().fold(0.0, |most: f64, slope| most.max(slope.abs()));
            if steepest < 1e-12 {
                break;
            }
            let mut step = here.newton(self.radii).unwrap_or(here.slope.map(|slope| 0.25 * slope / steepest));
            let longest = step.iter().fold(0.0, |most: f64, step| most.max(step.abs()));
            step = step.map(|step| step * (0.5 / longest).min(1.0));
            let mut moved = false;
            while step.iter().any(|step| step.abs() > 1e-7) {
                let next = [0, 1, 2].map(|axis| (at[axis] + step[axis]).clamp(-1.0, 1.0));
                let there = self.local(spline, next);
                if there.value > here.value {
                    (at, here, moved) = (next, there, true);
                    break;
                }
                step = step.map(|step| step / 2.0);
            }
            if !moved {
                break;
            }
        }
        at
    }

    /// Scores to coefficients of the spline through them.
    fn interpolate(&mut self, spline: Spline) {
        let sides = self.radii.map(|radius| 2 * radius + 1);
        let steps = [sides[1] * sides[2], sides[2], 1];
        for axis in (0..3).filter(|&axis| self.radii[axis] > 0) {
            let (side, step) = (sides[axis], steps[axis]);
            for first in (0..self.scores.len()).filter(|k| k / step % side == 0) {
                let mut line = [0.0; 2 * LONGEST + 1];
                let line = &mut line[..side];
                line.iter_mut().enumerate().for_each(|(i, score)| *score = self.scores[first + i * step]);
                spline.filter(line);
                line.iter().enumerate().for_each(|(i, coefficient)| self.scores[first + i * step] = *coefficient);
            }
        }
    }

    /// The spline near a place.
    fn local(&self, spline: Spline, at: [f64; 3]) -> Local {
        let weights = [0, 1, 2].map(|axis| spline.weights(self.radii[axis], at[axis]));
        let [depth, height, width] = self.radii.map(|radius| 2 * radius + 1);
        // Most weights are 0.
        let used = |weight: &[f64; 3]| *weight != [0.0; 3];
        let first = weights[2].iter().position(used).unwrap_or(0);
        let end = weights[2].iter().take(width).rposition(used).map_or(first, |last| last + 1);
        // Index by the order of the derivative along z, y and x.
        let mut total = [[[0.0; 3]; 3]; 3];
        for (z, wz) in weights[0].iter().enumerate().take(depth).filter(|(_, weight)| used(weight)) {
            let mut plane = [[0.0; 3]; 3];
            for (y, wy) in weights[1].iter().enumerate().take(height).filter(|(_, weight)| used(weight)) {
                let begin = (z * height + y) * width;
                let mut row = [0.0; 3];
                for (score, wx) in self.scores[begin + first..begin + end].iter().zip(&weights[2][first..end]) {
                    row.iter_mut().zip(wx).for_each(|(sum, weight)| *sum += score * weight);
                }
                for (of_y, &weight) in plane.iter_mut().zip(wy) {
                    of_y.iter_mut().zip(row).for_each(|(sum, row)| *sum += weight * row);
                }
            }
            for (of_z, &weight) in total.iter_mut().zip(wz) {
                for (of_y, plane) in of_z.iter_mut().zip(plane) {
                    of_y.iter_mut().zip(plane).for_each(|(sum, plane)| *sum += weight * plane);
                }
            }
        }
        let [xx, yy, zz] = [total[0][0][2], total[0][2][0], total[2][0][0]];
        let [yx, zx, zy] = [total[0][1][1], total[1][0][1], total[1][1][0]];
        Local {
            value: total[0][0][0],
            slope: [total[1][0][0], total[0][1][0], total[0][0][1]],
            bend: [[zz, zy, zx], [zy, yy, yx], [zx, yx, xx]],
        }
    }
}

impl Local {
    /// The step to where the slopes vanish, if that is a maximum.
    fn newton(&self, radii: [usize; 3]) -> Option<[f64; 3]> {
        // Cholesky's factor of the curvatures with their sign turned; axes that are not refined stay out.
        let used = |axis: usize| radii[axis] > 0;
        let scale = (0..3).fold(0.0, |scale: f64, a| scale.max(self.bend[a][a].abs()));
        let mut factor = [[0.0; 3]; 3];
        let mut step = [0.0; 3];
        for a in (0..3).filter(|&a| used(a)) {
            for b in (0..=a).filter(|&b| used(b)) {
                let rest = -self.bend[a][b] - (0..b).map(|k| factor[a][k] * factor[b][k]).sum::<f64>();
                // What is left by rounding alone is no curvature; neither is NaN.
                let holds = a != b || rest > 1e-12 * scale;
                if !holds {
                    return None;
                }
                factor[a][b] = if a == b { rest.sqrt() } else { rest / factor[b][b] };
            }
            let known = (0..a).map(|k| factor[a][k] * step[k]).sum::<f64>();
            step[a] = (self.slope[a] - known) / factor[a][a];
        }
        for a in (0..3).rev().filter(|&a| used(a)) {
            let known = (a + 1..3).map(|k| factor[k][a] * step[k]).sum::<f64>();
            step[a] = (step[a] - known) / factor[a][a];
        }
        step.iter().all(|step| step.is_finite()).then_some(step)
    }
}

/// A B-spline of odd degree.
#[derive(Clone, Copy, Debug)]
enum Spline {
    Cubic,
    Septic,
}

impl Spline {
    /// That of a fit which has so many scores on a side.
    fn of(fit: Subpixel, reach: usize) -> Spline {
        if fit == Subpixel::Septic && reach >= 4 { Spline::Septic } else { Spline::Cubic }
    }

    fn degree(self) -> usize {
        match self {
            Spline::Cubic => 3,
            Spline::Septic => 7,
        }
    }

    /// The roots within 1 of the polynomial whose coefficients are the spline's values at whole numbers.
    fn poles(self) -> &'static [f64] {
        match self {
            Spline::Cubic => &[-0.267_949_192_431_122_7],
            Spline::Septic => &[-0.535_280_430_796_439, -0.122_554_615_192_326_69, -0.009_148_694_809_608_277],
        }
    }

    /// Values to the coefficients of the spline through them, which goes on past either end turned by half a circle
    /// about it, so that it has no bend there: for each root a pass there and one back. Source: Unser, Aldroubi, Eden,
    /// "B-Spline Signal Processing", 1993.
    fn filter(self, line: &mut [f64]) {
        let last = line.len() - 1;
        // A straight line is its own coefficients. What is left is 0 at both ends.
        let (first, rise) = (line[0], (line[last] - line[0]) / last as f64);
        let straight = |k: usize| first + rise * k as f64;
        line.iter_mut().enumerate().for_each(|(k, value)| *value -= straight(k));
        for &pole in self.poles() {
            // The pass begins as if it came through all turned values, which repeat after twice the line.
            let mut powers = [1.0; 2 * LONGEST + 1];
            for k in 1..=last {
                powers[k] = powers[k - 1] * pole;
            }
            let far = powers[last];
            let inner: f64 = (1..last).map(|k| (far * powers[last - k] - powers[k]) * line[k]).sum();
            line[0] = inner / (1.0 - far * far);
            for k in 1..=last {
                line[k] += pole * line[k - 1];
            }
            line[last] = 0.0;
            for k in (0..last).rev() {
                line[k] = pole * (line[k + 1] - line[k]);
            }
            let gain = (1.0 - pole) * (1.0 - 1.0 / pole);
            line.iter_mut().for_each(|value| *value *= gain);
        }
        line.iter_mut().enumerate().for_each(|(k, value)| *value += straight(k));
    }

    /// The weights of the coefficients from `-radius` to `radius` at a place between -1 and 1.
    fn weights(self, radius: usize, at: f64) -> Weights {
        let mut weights = [[0.0; 3]; 2 * LONGEST + 1];
        if radius == 0 {
            weights[0] = [1.0, 0.0, 0.0];
            return weights;
        }
        let (half, last) = (self.degree().div_ceil(2) as i64, 2 * radius as i64);
        let nearest = at.floor() as i64;
        for k in nearest - half + 1..=nearest + half {
            let part = self.at(at - k as f64);
            let mut add = |place: i64, times: f64| {
                let weight = &mut weights[place.clamp(0, last) as usize];
                weight.iter_mut().zip(part).for_each(|(weight, part)| *weight += times * part);
            };
            let place = k + radius as i64;
            // A coefficient past an end is that as far within, turned about the end.
            match place.clamp(0, last) {
                end if end != place => {
                    add(end, 2.0);
                    add(2 * end - place, -1.0);
                }
                _ => add(place, 1.0),
            }
        }
        weights
    }

    /// The B-spline around 0, its slope and its curvature.
    fn at(self, t: f64) -> [f64; 3] {
        let n = self.degree();
        [
            b_spline(n, t),
            b_spline(n - 1, t + 0.5) - b_spline(n - 1, t - 0.5),
            b_spline(n - 2, t + 1.0) - 2.0 * b_spline(n - 2, t) + b_spline(n - 2, t - 1.0),
        ]
    }
}

/// The B-spline of a degree around 0: `Σ (-1)^k C(n+1, k) max(u - k, 0)^n / n!`, where `u` is the distance to its end.
fn b_spline(degree: usize, t: f64) -> f64 {
    let end = (degree + 1) as f64 / 2.0 - t.abs();
    let (mut sum, mut binomial, mut k) = (0.0, 1.0, 0.0);
    while k < end {
        sum += binomial * (end - k).powi(degree as i32);
        binomial *= (k - (degree + 1) as f64) / (k + 1.0);
        k += 1.0;
    }
    sum / (1..=degree).product::<usize>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Pixels;
    use crate::extent::Region;
    use crate::measure::Best;
    use crate::peaks::{PeakOptions, find_peaks};
    use crate::score::ScoreMap;
    use crate::shape::Shape;

    fn map(lengths: &[usize], data: Vec<f64>) -> ScoreMap {
        ScoreMap::new(Region { origin: [0; 3], shape: Shape::new(lengths).unwrap() }, Pixels::F64(data)).unwrap()
    }

    fn refined(map: &ScoreMap, fit: Subpixel, minimum: bool) -> Vec<f64> {
        let options = PeakOptions { top: Some(1), subpixel: Some(fit), ..PeakOptions::default() };
        let best = if minimum { Best::Smallest } else { Best::Largest };
        find_peaks(&map.clone().with_best(best), &options)[0].refined.clone().unwrap()
    }

    /// A map of these lengths from a function of positions.
    fn sampled(lengths: [usize; 3], axes: usize, value: impl Fn([f64; 3]) -> f64) -> ScoreMap {
        let [_, h, w] = lengths;
        let place = |k: usize| [k / (h * w), k / w % h, k % w].map(|at| at as f64);
        map(&lengths[3 - axes..], (0..lengths.iter().product()).map(|k| value(place(k))).collect())
    }

    /// Numbers from 0 to 1 without a pattern.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    #[test]
    fn each_fit_is_exact_where_its_curve_is_the_peak() {
        // -(x - 2.25)^2 - (y - 1.75)^2 - (x - 2.25)(y - 1.75) / 2: the mixed term turns the axes.
        let turned = |[_, y, x]: [f64; 3]| {
            let (y, x) = (y - 1.75, x - 2.25);
            -(x * x + y * y + x * y / 2.0)
        };
        let gauss = |at: [f64; 3]| turned(at).exp();
        for (fit, map) in [
            (Subpixel::Quadratic, sampled([1, 4, 5], 2, turned)),
            (Subpixel::Gauss, sampled([1, 4, 5], 2, gauss)),
            (Subpixel::Gauss, sampled([1, 4, 5], 2, turned)),
        ] {
            let at = refined(&map, fit, false);
            assert!((at[0] - 1.75).abs() < 1e-12 && (at[1] - 2.25).abs() < 1e-12, "{fit} {at:?}");
        }
        // Every fit meets the middle of what is even, and what is no wider than two positions on a side.
        let even = |[_, y, x]: [f64; 3]| -(y - 4.0).abs() - (x - 4.0) * (x - 4.0);
        for fit in Subpixel::ALL {
            assert_eq!(refined(&sampled([1, 9, 9], 2, even), fit, false), [4.0, 4.0], "{fit}");
            let best = refined(&sampled([1, 9, 9], 2, |at| -even(at)), fit, true);
            assert_eq!(best, [4.0, 4.0], "{fit}, as a minimum");
        }
    }

    #[test]
    fn splines_follow_smooth_peaks() {
        // A Gaussian of width 1.8 with turned axes, at every eighth of a position.
        for axes in 1..=3 {
            let lengths = [0, 1, 2].map(|axis| if axis < 3 - axes { 1 } else { 15 });
            for k in -4..=4 {
                let shift = f64::from(k) / 8.0;
                let peak = [shift, 0.3 - shift / 2.0, -0.1 + shift / 3.0];
                let value = |at: [f64; 3]| {
                    let [z, y, x] =
                        [0, 1, 2].map(|axis| if lengths[axis] > 1 { at[axis] - 7.0 - peak[axis] } else { 0.0 });
                    (-(z * z + y * y + x * x + 0.6 * (z * y - y * x + z * x)) / (2.0 * 1.8 * 1.8)).exp()
                };
                let map = sampled(lengths, axes, value);
                for (fit, bound) in [(Subpixel::Gauss, 1e-12), (Subpixel::Cubic, 2e-2), (Subpixel::Septic, 2e-3)] {
                    for (found, peak) in refined(&map, fit, false).iter().zip(&peak[3 - axes..]) {
                        assert!((found - 7.0 - peak).abs() < bound, "{fit} {axes} {shift} {found} {peak}");
                    }
                }
            }
        }
    }

    /// Blobs at random places, seen by samples: the same blobs shifted are known exactly.
    struct Blobs {
        places: Vec<([f64; 3], f64)>,
        axes: usize,
    }

    impl Blobs {
        const LENGTH: i64 = 60;

        fn new(noise: &mut Noise, axes: usize) -> Blobs {
            let count = [40, 400, 900][axes - 1];
            let mut place = || {
                [0, 1, 2].map(|axis| {
                    if axis < 3 - axes { 0.0 } else { (noise.next() - 0.5) * [60.0, 60.0, 30.0][axes - 1] + 30.0 }
                })
            };
            let places: Vec<[f64; 3]> = (0..count).map(|_| place()).collect();
            Blobs { places: places.into_iter().map(|place| (place, noise.next() - 0.4)).collect(), axes }
        }

        /// The value at a sample of the image shifted by `shift`.
        fn at(&self, sample: [i64; 3], shift: [f64; 3]) -> f64 {
            const WIDTH: f64 = 1.2;
            let blob = |(place, height): &([f64; 3], f64)| {
                let far = |axis: usize| sample[axis] as f64 - shift[axis] - place[axis];
                let square: f64 = (3 - self.axes..3).map(|axis| far(axis) * far(axis)).sum();
                height * (-square / (2.0 * WIDTH * WIDTH)).exp()
            };
            self.places.iter().map(blob).sum()
        }

        /// The zncc of a template from the middle with the shifted image, at 13 positions an axis.
        fn scores(&self, shift: [f64; 3]) -> ScoreMap {
            let side = [41, 15, 9][self.axes - 1];
            let (side, positions) = (self.lengths(side), self.lengths(13));
            let image = self.lengths(13 + side[2] - 1);
            let begin = image.map(|length| if length > 1 { (Blobs::LENGTH - length) / 2 } else { 0 });
            let grid = |lengths: [i64; 3]| {
                let [d, h, w] = lengths;
                (0..d * h * w).map(move |k| [k / (h * w), k / w % h, k % w])
            };
            let add = |a: [i64; 3], b: [i64; 3]| [0, 1, 2].map(|axis| a[axis] + b[axis]);
            let shifted: Vec<f64> = grid(image).map(|at| self.at(add(begin, at), shift)).collect();
            let middle = positions.map(|positions| positions / 2);
            let template: Vec<f64> = grid(side).map(|at| self.at(add(begin, add(middle, at)), [0.0; 3])).collect();
            let zncc = |position: [i64; 3]| {
                let window: Vec<f64> = grid(side)
                    .map(|at| add(position, at))
                    .map(|[z, y, x]| shifted[((z * image[1] + y) * image[2] + x) as usize])
                    .collect();
                let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
                let (mw, mt) = (mean(&window), mean(&template));
                let products = window.iter().zip(&template).map(|(w, t)| ((w - mw) * (t - mt), w - mw, t - mt));
                let (wt, ww, tt) =
                    products.fold((0.0, 0.0, 0.0), |(wt, ww, tt), (both, w, t)| (wt + both, ww + w * w, tt + t * t));
                wt / (ww * tt).sqrt()
            };
            let lengths = positions.map(|length| length as usize);
            map(&lengths[3 - self.axes..], grid(positions).map(zncc).collect())
        }

        fn lengths(&self, length: i64) -> [i64; 3] {
            [0, 1, 2].map(|axis| if axis < 3 - self.axes { 1 } else { length })
        }
    }

    #[test]
    fn planted_shifts_are_found() {
        let mut noise = Noise(7);
        for (axes, trials) in [(1, 200), (2, 60), (3, 10)] {
            let mut squares = [0.0; 4];
            for _ in 0..trials {
                let shift = [0, 1, 2].map(|axis| if axis < 3 - axes { 0.0 } else { noise.next() - 0.5 });
                let scores = Blobs::new(&mut noise, axes).scores(shift);
                for (square, fit) in squares.iter_mut().zip(Subpixel::ALL) {
                    let found = refined(&scores, fit, false);
                    for (found, shift) in found.iter().zip(&shift[3 - axes..]) {
                        *square += (found - 6.0 - shift).powi(2);
                    }
                }
            }
            let [quadratic, gauss, cubic, septic] = squares.map(|sum: f64| (sum / (trials * axes) as f64).sqrt());
            println!("{axes}D rms: quadratic {quadratic:.4}, gauss {gauss:.4}, cubic {cubic:.4}, septic {septic:.4}");
            assert!(quadratic < 0.05 && gauss < 0.05 && cubic < 0.02 && septic < 0.01);
            assert!(Subpixel::default() == Subpixel::Septic && septic <= quadratic.min(gauss).min(cubic));
        }
    }

    #[test]
    fn ends_and_what_is_no_number_are_not_refined() {
        let peak = |[z, y, x]: [f64; 3]| -(z - 3.3).powi(2) - (y - 3.3).powi(2) - (x - 3.3).powi(2);
        for fit in Subpixel::ALL {
            // One sample; a row; a column; a plane with its peak at an end.
            assert_eq!(refined(&map(&[1], vec![1.0]), fit, false), [0.0]);
            assert_eq!(refined(&map(&[2], vec![1.0, 2.0]), fit, false), [1.0]);
            let row = refined(&sampled([1, 1, 8], 2, peak), fit, false);
            assert!(row[0] == 0.0 && (row[1] - 3.3).abs() < 0.1, "{fit} {row:?}");
            let end = refined(&sampled([1, 4, 8], 2, peak), fit, false);
            assert!(end[0] == 3.0 && (end[1] - 3.3).abs() < 0.1, "{fit} {end:?}");
            // NaN beside the peak leaves its axis alone, NaN farther away is gone round.
            for (hole, axis) in [([3.0, 3.0, 2.0], Some(2)), ([3.0, 4.0, 3.0], Some(1)), ([4.0, 4.0, 4.0], None)] {
                for what in [f64::NAN, f64::NEG_INFINITY] {
                    let map = sampled([8, 8, 8], 3, |at| if at == hole { what } else { peak(at) });
                    let at = refined(&map, fit, false);
                    for (a, at) in at.iter().enumerate() {
                        let whole = axis == Some(a);
                        assert!(if whole { *at == 3.0 } else { (at - 3.3).abs() < 0.1 }, "{fit} {hole:?} {at}");
                    }
                }
            }
            // Plateaus, numbers that overflow and a lone number among none.
            for data in [vec![2.0; 49], vec![f64::MAX; 49], (0..49).map(|k| f64::from(k % 3) * 1e308 - 9e307).collect()]
            {
                let at = refined(&map(&[7, 7], data), fit, false);
                assert!(at.iter().all(|at| (0.0..=6.0).contains(at)), "{fit} {at:?}");
            }
            let lone = (0..49).map(|k| if k == 24 { 1.0 } else { f64::NAN }).collect();
            assert_eq!(refined(&map(&[7, 7], lone), fit, false), [3.0, 3.0], "{fit}");
        }
    }

    #[test]
    fn no_peak_moves_farther_than_one_position() {
        let mut noise = Noise(3);
        for lengths in [[1, 1, 9], [1, 6, 7], [5, 5, 5], [1, 13, 13]] {
            for _ in 0..300 {
                let data: Vec<f64> = (0..lengths.iter().product::<usize>()).map(|_| noise.next() - 0.3).collect();
                let map = map(&lengths, data);
                for fit in Subpixel::ALL {
                    let options = PeakOptions { min_distance: Some(0), subpixel: Some(fit), ..PeakOptions::default() };
                    for peak in find_peaks(&map, &options) {
                        for (at, refined) in peak.position.iter().zip(peak.refined.unwrap()) {
                            assert!((refined - *at as f64).abs() <= 1.0, "{fit} {lengths:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn splines_go_through_the_values() {
        // Values at whole numbers: 1, 4, 1 sixths; 1, 120, 1191, 2416, 1191, 120, 1 parts of 5040.
        assert!((b_spline(3, 0.0) - 4.0 / 6.0).abs() < 1e-15 && (b_spline(3, -1.0) - 1.0 / 6.0).abs() < 1e-15);
        let septic = [2416.0, 1191.0, 120.0, 1.0, 0.0].map(|part| part / 5040.0);
        assert!(septic.iter().zip(0..).all(|(value, t)| (b_spline(7, f64::from(t)) - value).abs() < 1e-15));
        let mut noise = Noise(5);
        for spline in [Spline::Cubic, Spline::Septic] {
            for radius in 2..=LONGEST {
                let values: Vec<f64> = (0..=2 * radius).map(|_| noise.next()).collect();
                let mut coefficients = values.clone();
                spline.filter(&mut coefficients);
                let at = |place: f64| {
                    let weights = spline.weights(radius, place);
                    [0, 1, 2].map(|k| coefficients.iter().zip(weights).map(|(c, weight)| c * weight[k]).sum::<f64>())
                };
                for place in [-1, 0, 1] {
                    let value = values[radius.saturating_add_signed(place)];
                    assert!((at(place as f64)[0] - value).abs() < 1e-12, "{spline:?} {radius} {place}");
                }
                for k in -8..8 {
                    let (place, near) = (f64::from(k) / 8.0 + 0.06, 1e-4);
                    let ([before, ..], [middle, slope, bend], [after, ..]) =
                        (at(place - near), at(place), at(place + near));
                    assert!((slope - (after - before) / (2.0 * near)).abs() < 1e-5, "{spline:?} {place}");
                    assert!(
                        (bend - (after - 2.0 * middle + before) / (near * near)).abs() < 1e-4,
                        "{spline:?} {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for fit in Subpixel::ALL {
            assert_eq!(fit.to_string().parse(), Ok(fit));
        }
        assert!("cubical".parse::<Subpixel>().unwrap_err().to_string().contains("septic"));
    }
}
