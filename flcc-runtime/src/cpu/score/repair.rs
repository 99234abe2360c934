//! Doubtful panels, one at a time: collected from the image itself and scored in f64, centred, directly.
//!
//! The last resort of every method: what a tile computed for a panel may have drowned in the tile's own rounding; here
//! the panel alone sets the scale. Cost `N_T` a panel.

use flcc_core::boundary::Boundary;
use flcc_core::each_type;
use flcc_core::measure::Measure;
use flcc_core::view::{AnyView, Row};

use crate::isa::{self, IsaSet};
use crate::problem::lanes;
use crate::problem::powers::near_one;
use crate::problem::template::{self, Checked, Weights};

/// What collecting a panel needs.
pub struct Panels<'a> {
    /// The image, with its channels.
    pub image: &'a AnyView<'a>,
    /// What lies outside.
    pub boundary: Boundary,
    /// Template samples an axis.
    pub template: [usize; 3],
    /// The mask.
    pub weights: &'a Weights,
    /// The instruction sets that loops are compiled for.
    pub isas: IsaSet,
}

impl Panels<'_> {
    /// The score of the panel that begins at an image position, for a normalised measure or squared differences;
    /// `panel` is room for its samples.
    pub fn score(&self, measure: Measure, begin: [isize; 3], template: &Checked, panel: &mut [f64]) -> f64 {
        if measure == Measure::Zncc && self.is_flat(begin) {
            return 0.0;
        }
        self.collect(begin, panel);
        let ordinary = self.boundary.value().is_none_or(|value| value == 0.0 || (1e-100..1e100).contains(&value.abs()));
        let single = panel.len() == self.template.iter().product::<usize>()
            && !matches!(self.image, AnyView::F64(_))
            && ordinary;
        if let (Measure::Zncc, true, None, [values]) = (measure, single, &self.weights.values, &template.values[..]) {
            return isa::vectorized!(&self.isas, || centred_cosine(panel, values));
        }
        let samples = panel.len() / template.values.len();
        let mask = self.weights.values.as_deref();
        // What no weight looks at has no value.
        if let Some(weights) = mask {
            for channel in panel.chunks_mut(samples) {
                channel
                    .iter_mut()
                    .zip(weights)
                    .filter(|(_, weight)| **weight == 0.0)
                    .for_each(|(value, _)| *value = 0.0);
            }
        }
        match measure {
            Measure::Zncc => {
                if panel.chunks(samples).all(|channel| template::constant(channel, mask)) {
                    return 0.0;
                }
                panel.chunks_mut(samples).for_each(|channel| template::clear_if_constant(channel, mask));
                // Differences in one scale before their mean: those of a faint channel may be all that there is.
                rescale(panel, mask);
                panel.chunks_mut(samples).for_each(|channel| template::less_heaviest(channel, mask));
                rescale(panel, mask);
                let mean = |channel: &[f64]| match mask {
                    None => sum(channel, |_, value| value) / self.weights.n,
                    Some(weights) => sum(channel, |k, value| weights[k] * value) / self.weights.n,
                };
                panel.chunks_mut(samples).for_each(|channel| template::centre(channel, mask, mean));
                rescale(panel, mask);
                cosine(panel, template, mask)
            }
            Measure::Ncc => {
                if !rescale(panel, mask) {
                    return 0.0;
                }
                cosine(panel, template, mask)
            }
            Measure::Nssd => {
                // |P - t|^2 / (|P| |t|): the difference in one scale, each norm in its own.
                let of_panel =
                    panel.chunks(samples).fold(0.0f64, |most, channel| most.max(template::largest(channel, mask)));
                let of_template =
                    template.raw.iter().fold(0.0f64, |most, channel| most.max(template::largest(channel, mask)));
                if of_panel == 0.0 {
                    return 1.0;
                }
                let [common, panel_scale, template_scale] =
                    [of_panel.max(of_template), of_panel, of_template].map(near_one);
                let (mut ssd, mut squares) = (0.0, [0.0; 2]);
                for (p, t) in panel.chunks(samples).zip(&template.raw) {
                    // Weight by weight: a square alone may overflow where its weight is small.
                    let square = |k: usize, value: f64| mask.map_or(1.0, |weights| weights[k]) * value * value;
                    ssd += sum(p, |k, p| square(k, p * common - t[k] * common));
                    squares[0] += sum(p, |k, p| square(k, p * panel_scale));
                    squares[1] += sum(t, |k, t| square(k, t * template_scale));
                }
                let norms = [squares[0].sqrt() * (common / panel_scale), squares[1].sqrt() * (common / template_scale)];
                let ratio = ssd / norms[0] / norms[1];
                if ratio.is_nan() { 1.0 } else { ratio.min(1.0) }
            }
            Measure::Ssd => {
                // Halves, whose difference is a number; then in its own scale, however far below the samples it is.
                for (p, t) in panel.chunks_mut(samples).zip(&template.raw) {
                    p.iter_mut().zip(t).for_each(|(p, t)| *p = 0.5 * *p - 0.5 * t);
                }
                let largest = lanes::largest(panel);
                if largest == 0.0 {
                    return 0.0;
                }
                let [scale, light] = [largest, mask.map_or(1.0, lanes::largest)].map(near_one);
                let weight = |k: usize| mask.map_or(1.0, |weights| weights[k]) * light;
                let square = |k: usize, half: f64| weight(k) * (half * scale) * (half * scale);
                let ssd: f64 = panel.chunks(samples).map(|channel| sum(channel, square)).sum();
                // One after the other, so that none is lost on the way that the result keeps.
                4.0 * ssd / scale / light / scale
            }
            Measure::Cc | Measure::Sad => f64::NAN,
        }
    }

    /// Whether a panel is known to be constant under a mask that hides some of it: beside flat parts of an image there
    /// are many such. What is not known is `false`.
    fn is_flat(&self, begin: [isize; 3]) -> bool {
        let Some(support) = &self.weights.support else { return false };
        let lengths = self.image.shape().padded();
        let mut first = [0; 3];
        for axis in 0..3 {
            match usize::try_from(begin[axis]) {
                Ok(at) if at + self.template[axis] <= lengths[axis] => first[axis] = at,
                _ => return false,
            }
        }
        self.image.channels() == 1
            && each_type!(AnyView, self.image, view => {
                let [z, y, x] = first;
                let mut value = None;
                support.runs().iter().all(|&([dz, dy, dx], count)| match view.row(z + dz, y + dy, x + dx, count) {
                    Row::Slice(samples) => {
                        let value = *value.get_or_insert(samples[0]);
                        samples.iter().all(|sample| *sample == value)
                    }
                    Row::Strided { .. } => false,
                })
            })
    }

    fn collect(&self, begin: [isize; 3], panel: &mut [f64]) {
        if self.collect_inside(begin, panel).is_some() {
            return;
        }
        let lengths = self.image.shape().padded();
        let fold = |axis: usize, k: usize| self.boundary.fold(begin[axis] + k as isize, lengths[axis]);
        let fill = self.boundary.value().unwrap_or(0.0);
        let [kd, kh, kw] = self.template;
        let mut samples = panel.iter_mut();
        for channel in 0..self.image.channels() {
            let image = self.image.channel(channel);
            for z in 0..kd {
                for y in 0..kh {
                    let row = (fold(0, z), fold(1, y));
                    for (x, sample) in samples.by_ref().take(kw).enumerate() {
                        *sample = match (row, fold(2, x)) {
                            ((Some(z), Some(y)), Some(x)) => image.at([z, y, x]),
                            _ => fill,
                        };
                    }
                }
            }
        }
    }

    /// Collects a panel row by row where it lies in an image of one channel of f32, whose samples lie side by side
    /// along rows; else does nothing.
    fn collect_inside(&self, begin: [isize; 3], panel: &mut [f64]) -> Option<()> {
        let AnyView::F32(view) = self.image else { return None };
        let (lengths, [_, height, width]) = (self.image.shape().padded(), self.template);
        let mut first = [0; 3];
        for axis in 0..3 {
            first[axis] =
                usize::try_from(begin[axis]).ok().filter(|first| first + self.template[axis] <= lengths[axis])?;
        }
        if self.image.channels() != 1 || view.layout().row_step() != 1 {
            return None;
        }
        for (number, row) in panel.chunks_exact_mut(width).enumerate() {
            let samples = view.from_position([first[0] + number / height, first[1] + number % height, first[2]]);
            row.iter_mut().zip(samples).for_each(|(value, &sample)| *value = f64::from(sample));
        }
        Some(())
    }
}

/// The score of samples of at most single precision against a template of mean 0 and norm 1: in f64 their squares
/// neither overflow nor vanish, and two of them differ by what they differ by.
#[inline(always)]
fn centred_cosine(panel: &[f64], template: &[f64]) -> f64 {
    let first = panel.first().copied().unwrap_or(0.0);
    let template = &template[..panel.len()];
    let (mut sum, mut differ) = (0.0, [false; LANES]);
    for values in panel.chunks(TOGETHER) {
        let mut sums = [0.0; LANES];
        let (whole, rest) = values.as_chunks::<LANES>();
        for eight in whole {
            for lane in 0..LANES {
                sums[lane] += eight[lane] - first;
                differ[lane] |= eight[lane] != first;
            }
        }
        for (lane, &value) in rest.iter().enumerate() {
            sums[lane] += value - first;
            differ[lane] |= value != first;
        }
        sum += sums.iter().sum::<f64>();
    }
    if !differ.contains(&true) {
        return 0.0;
    }
    let mean = sum / panel.len() as f64;
    let (mut cross, mut energy) = (0.0, 0.0);
    for (values, taps) in panel.chunks(TOGETHER).zip(template.chunks(TOGETHER)) {
        let (mut crosses, mut energies) = ([0.0; LANES], [0.0; LANES]);
        let ((whole, rest), (whole_taps, last_taps)) = (values.as_chunks::<LANES>(), taps.as_chunks::<LANES>());
        for (eight, taps) in whole.iter().zip(whole_taps) {
            for lane in 0..LANES {
                let value = (eight[lane] - first) - mean;
                crosses[lane] += value * taps[lane];
                energies[lane] += value * value;
            }
        }
        for (lane, (&value, &tap)) in rest.iter().zip(last_taps).enumerate() {
            let value = (value - first) - mean;
            crosses[lane] += value * tap;
            energies[lane] += value * value;
        }
        cross += crosses.iter().sum::<f64>();
        energy += energies.iter().sum::<f64>();
    }
    if energy == 0.0 { 0.0 } else { (cross / energy.sqrt()).clamp(-1.0, 1.0) }
}

/// Sums that are added up side by side: one after the other, each would wait for the one before.
const LANES: usize = 8;

/// Values that are added up in lanes before these go to a total: equal terms would else add up equal roundings, as many
/// as there are values.
const TOGETHER: usize = 64 * LANES;

/// The sum of what `of` makes of each value and its number.
fn sum(values: &[f64], of: impl Fn(usize, f64) -> f64) -> f64 {
    let mut total = 0.0;
    for (block, values) in values.chunks(TOGETHER).enumerate() {
        let first = block * TOGETHER;
        let mut sums = [0.0; LANES];
        let (whole, rest) = values.as_chunks::<LANES>();
        for (number, eight) in whole.iter().enumerate() {
            for lane in 0..LANES {
                sums[lane] += of(first + number * LANES + lane, eight[lane]);
            }
        }
        let begin = first + whole.len() * LANES;
        total +=
            sums.iter().sum::<f64>() + rest.iter().enumerate().map(|(k, value)| of(begin + k, *value)).sum::<f64>();
    }
    total
}

/// Brings the largest magnitude near 1 by a power of two, and under weights the largest times the root of its weight
/// after that; `false` for nothing but zeros.
fn rescale(panel: &mut [f64], mask: Option<&[f64]>) -> bool {
    if mask.is_some() && !rescale(panel, None) {
        return false;
    }
    let samples = mask.map_or(panel.len(), <[f64]>::len);
    let largest = panel.chunks(samples).fold(0.0f64, |most, channel| most.max(template::largest(channel, mask)));
    if largest > 0.0 {
        let scale = near_one(largest);
        panel.iter_mut().for_each(|value| *value *= scale);
    }
    largest > 0.0
}

/// `sum w p t / sqrt(sum w p^2)` for a template of norm 1.
fn cosine(panel: &[f64], template: &Checked, weights: Option<&[f64]>) -> f64 {
    let samples = panel.len() / template.values.len();
    let (mut cross, mut energy) = (0.0, 0.0);
    for (p, t) in panel.chunks(samples).zip(&template.values) {
        let t = &t[..p.len()];
        match weights {
            None => {
                cross += sum(p, |k, p| p * t[k]);
                energy += sum(p, |_, p| p * p);
            }
            Some(weights) => {
                cross += sum(p, |k, p| weights[k] * p * t[k]);
                energy += sum(p, |k, p| weights[k] * p * p);
            }
        }
    }
    if energy == 0.0 { 0.0 } else { (cross / energy.sqrt()).clamp(-1.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use flcc_core::dtype::Pixels;
    use flcc_core::shape::Shape;
    use flcc_core::spec::Spec;

    use super::*;

    #[test]
    fn what_is_flat_under_a_mask_is_known_without_its_samples() {
        let spec: Spec = "zncc:u8:6x7*2x3:valid,mask01".parse().unwrap();
        // The first sample of the second row and the last of the first do not count.
        let mask = Pixels::U8(vec![1, 1, 0, 0, 1, 1]);
        let mask = AnyView::dense(&mask, spec.template(), 1).unwrap();
        let weights = template::check_mask(&spec, Some(&mask)).unwrap();
        let mut samples = vec![9u8; 42];
        (samples[2 * 7 + 4], samples[3 * 7 + 2]) = (200, 1);
        for of in [Pixels::U8(samples.clone()), Pixels::U8(samples).cast(flcc_core::dtype::DType::F32)] {
            let image = AnyView::dense(&of, Shape::new(&[6, 7]).unwrap(), 1).unwrap();
            let isas = IsaSet::of(&[]);
            let panels =
                Panels { image: &image, boundary: Boundary::Zero, template: [1, 2, 3], weights: &weights, isas };
            let flat = |y: isize, x: isize| panels.is_flat([0, y, x]);
            // Where both hide behind the mask, and where one counts.
            assert!(flat(2, 2) && !flat(2, 3) && !flat(2, 1) && !flat(3, 2) && !flat(1, 3));
            // All places against the samples themselves.
            for (y, x) in (0..5).flat_map(|y| (0..5).map(move |x| (y, x))) {
                let seen = [[y, x], [y, x + 1], [y + 1, x + 1], [y + 1, x + 2]].map(|[y, x]| image.at([0, y, x]));
                assert_eq!(flat(y as isize, x as isize), seen.iter().all(|value| *value == seen[0]), "{y},{x}");
            }
            // Beyond the image nothing is known.
            assert!(!flat(-1, 0) && !flat(5, 0) && !flat(0, 5));
        }
    }
}
