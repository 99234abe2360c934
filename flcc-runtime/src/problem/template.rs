//! Templates made ready: checked, turned the right way round, centred and normalised, and in the form of their engine.

use std::borrow::Cow;
use std::ops::Range;

use flcc_core::dtype::{DType, Pixel};
use flcc_core::each_type;
use flcc_core::error::{Kind, SpecError, counted};
use flcc_core::measure::{Measure, Scaling};
use flcc_core::shape::Shape;
use flcc_core::spec::{MaskKind, Spec};
use flcc_core::view::{AnyView, AsImage};

use crate::isa::{self, Isa, IsaSet};
use crate::problem::lanes;
use crate::problem::powers::{exponent, near_one, power_of_two};

/// A template's values, checked and turned, before any engine saw them.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Channel by channel, as laid over the image: flipped for convolution. Less `offsets`, times `scale`; for zncc
    /// mean-free and, as for ncc, of norm 1.
    pub values: Vec<Vec<f64>>,
    /// What is to be subtracted from each channel of the image, as it was from that of the template: differences stay
    /// what they are, and their squares lose nothing to a large mean. Templates of a problem share them where they can.
    pub offsets: Vec<f64>,
    /// The power of two that unnormalised measures are computed with.
    pub scale: f64,
    /// The measure's energy of `values` under the mask: 1 for zncc and ncc.
    pub energy: f64,
    /// The values as integers, where they are.
    pub raw: Vec<Vec<f64>>,
    /// `sum w t` of each channel, exact for integers.
    pub exact_sums: Vec<i128>,
    /// The exact energy: `n sum w t^2 - (sum w t)^2` for zncc, `sum w t^2` otherwise.
    pub exact_energy: i128,
    /// It holds NaN or an infinity, which convolution and correlation pass on to every result.
    pub nonfinite: bool,
}

/// A mask, checked.
#[derive(Clone, Debug)]
pub struct Weights {
    /// A weight for each template sample; `None` where all are 1.
    pub values: Option<Vec<f64>>,
    /// Their sum.
    pub n: f64,
    /// Where they are positive, if some are not.
    pub support: Option<Support>,
}

/// Where a template has positive weights: how many of them any box has.
#[derive(Clone, Debug)]
pub struct Support {
    template: [usize; 3],
    /// Positive weights in each box from the first sample on: one row, column and plane more than the template has.
    counts: Vec<u32>,
    /// Runs of positive weights along rows: where each begins, and how many they are.
    runs: Vec<([usize; 3], usize)>,
}

impl Support {
    fn new(weights: &[f64], template: [usize; 3]) -> Support {
        let [depth, height, width] = template.map(|length| length + 1);
        let mut counts = vec![0u32; depth * height * width];
        let at = |z: usize, y: usize, x: usize| (z * height + y) * width + x;
        for (z, y) in (1..depth).flat_map(|z| (1..height).map(move |y| (z, y))) {
            let mut row = 0;
            for x in 1..width {
                row += u32::from(weights[((z - 1) * template[1] + y - 1) * template[2] + x - 1] > 0.0);
                counts[at(z, y, x)] =
                    row + counts[at(z - 1, y, x)] + counts[at(z, y - 1, x)] - counts[at(z - 1, y - 1, x)];
            }
        }
        let mut runs: Vec<([usize; 3], usize)> = Vec::new();
        for (index, _) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            let at = [index / template[2] / template[1], index / template[2] % template[1], index % template[2]];
            match runs.last_mut() {
                Some(([z, y, x], count)) if [*z, *y, *x + *count] == at => *count += 1,
                _ => runs.push((at, 1)),
            }
        }
        Support { template, counts, runs }
    }

    /// Runs of positive weights along rows: where each begins in the template, and how many they are.
    pub fn runs(&self) -> &[([usize; 3], usize)] {
        &self.runs
    }

    /// The samples of an axis that every tap passes over, where there are so many outputs along it.
    pub fn middle(&self, axis: usize, outputs: usize) -> Range<usize> {
        self.template[axis] - 1..outputs
    }

    /// Whether a sample of a tile of so many outputs has a positive weight in some panel of it.
    pub fn sees(&self, sample: [usize; 3], outputs: [usize; 3]) -> bool {
        // The taps under which it lies.
        let from = [0, 1, 2].map(|axis| (sample[axis] + 1).saturating_sub(outputs[axis]));
        let to = [0, 1, 2].map(|axis| (sample[axis] + 1).min(self.template[axis]));
        if (0..3).any(|axis| from[axis] >= to[axis]) {
            return false;
        }
        let [_, height, width] = self.template.map(|length| length + 1);
        let count = |z: usize, y: usize, x: usize| i64::from(self.counts[(z * height + y) * width + x]);
        let plane = |z: usize| {
            count(z, to[1], to[2]) - count(z, from[1], to[2]) - count(z, to[1], from[2]) + count(z, from[1], from[2])
        };
        plane(to[0]) - plane(from[0]) > 0
    }
}

/// Checks a mask against the spec.
///
/// # Errors
/// `mask_shape`, `mask_invalid`, a mask that the spec does not have or lacks, weights where it says 0 and 1.
pub fn check_mask(spec: &Spec, mask: Option<&AnyView<'_>>) -> Result<Weights, SpecError> {
    let count = spec.template().len();
    let mask = match (spec.mask(), mask) {
        (MaskKind::None, None) => return Ok(Weights { values: None, n: count as f64, support: None }),
        (MaskKind::None, Some(_)) => return Err(SpecError::new("mask", "no mask, as the spec says", "a mask")),
        (_, None) => return Err(SpecError::new("mask", "a mask, as the spec says", "none")),
        (_, Some(mask)) => mask,
    };
    if mask.shape() != spec.template() || mask.channels() != 1 {
        let got = format!("{} with {}", mask.shape(), counted(mask.channels(), "channel"));
        return Err(SpecError::of(
            Kind::MaskShape,
            "mask",
            format!("{} with 1 channel, as the template", spec.template()),
            got,
        ));
    }
    let values = mask.to_f64();
    if let Some(weight) = values.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return Err(SpecError::of(Kind::MaskInvalid, "mask", "finite weights >= 0", weight));
    }
    if !values.iter().any(|&weight| weight > 0.0) {
        return Err(SpecError::of(Kind::MaskInvalid, "mask", "at least one weight > 0", "none"));
    }
    if spec.mask() == MaskKind::Binary
        && let Some(weight) = values.iter().find(|&&weight| weight != 0.0 && weight != 1.0)
    {
        return Err(SpecError::of(Kind::MaskInvalid, "mask", "weights 0 and 1, as the spec's mask01 says", weight));
    }
    let mut values = values;
    if spec.op().measure().row().normalised {
        to_ones(&mut values);
    }
    let n = values.iter().sum();
    let holes = values.contains(&0.0);
    let support = holes.then(|| Support::new(&values, spec.template().padded()));
    Ok(Weights { values: Some(values), n, support })
}

/// Weights times the power of two that brings the largest to 1, or just above: nothing normalised depends on it, and
/// what they weigh neither overflows nor vanishes.
fn to_ones(weights: &mut [f64]) {
    // Twice: what brings the least numbers to 1 is none itself.
    for _ in 0..2 {
        let scale = power_of_two(-exponent(weights.iter().fold(0.0, |largest, weight| weight.max(largest))));
        weights.iter_mut().for_each(|weight| *weight *= scale);
    }
}

/// The kind of a mask's weights, for the spec of a problem that has it.
pub fn mask_kind(mask: Option<&dyn AsImage>) -> MaskKind {
    match mask {
        None => MaskKind::None,
        Some(mask) if mask.as_image().to_f64().iter().all(|&weight| weight == 0.0 || weight == 1.0) => MaskKind::Binary,
        Some(_) => MaskKind::Weights,
    }
}

/// Checks one template against the spec and makes its values ready.
///
/// # Errors
/// A wrong shape or type, `nonfinite_template`, `constant_template`, `zero_template`.
pub fn check_template(spec: &Spec, template: &AnyView<'_>, weights: &Weights) -> Result<Checked, SpecError> {
    let mut checked = Checked::default();
    check_template_into(spec, template, weights, &mut checked)?;
    Ok(checked)
}

/// Checks one template against the spec and makes its values ready in the place of another template's, in its buffers.
///
/// # Errors
/// As [`check_template`]; what is in `checked` is of no use then.
pub fn check_template_into(
    spec: &Spec,
    template: &AnyView<'_>,
    weights: &Weights,
    checked: &mut Checked,
) -> Result<(), SpecError> {
    check_view("template", template, spec.template(), spec.template_type(), spec.channels())?;
    // Sums are in the same order in any case: wider vectors change no bit.
    isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || check_values_into(spec, template, weights, checked))
}

/// Makes the values of a template of the right shape and type ready.
#[inline(always)]
fn check_values_into(
    spec: &Spec,
    template: &AnyView<'_>,
    weights: &Weights,
    checked: &mut Checked,
) -> Result<(), SpecError> {
    let measure = spec.op().measure();
    let mask = weights.values.as_deref();
    let used = |k: usize| mask.is_none_or(|weights| weights[k] > 0.0);
    let Checked { values, raw, exact_sums, .. } = &mut *checked;
    values.resize_with(spec.channels(), Vec::new);
    raw.resize_with(spec.channels(), Vec::new);
    for (number, channel) in values.iter_mut().enumerate() {
        read(&template.channel(number), channel);
        if spec.op().flips() {
            channel.reverse();
        }
    }
    // Without a mask by a sum: it is finite only if all of them are, and where it overflows they are looked at one by
    // one.
    let plain = mask.is_none() && values.iter().all(|channel| lanes::sum(channel, |value| value).is_finite());
    let bad = |(k, value): (usize, &f64)| used(k) && !value.is_finite();
    let nonfinite = !plain && values.iter().any(|channel| channel.iter().enumerate().any(bad));
    if nonfinite && spec.op().matches() {
        let bad = values.iter().flatten().find(|value| !value.is_finite()).copied().unwrap_or(f64::NAN);
        return Err(SpecError::of(Kind::NonfiniteTemplate, "template", "finite values", bad));
    }
    // A sample that no weight looks at has no value.
    if !plain {
        for channel in values.iter_mut() {
            channel
                .iter_mut()
                .enumerate()
                .filter(|(k, value)| !used(*k) || !value.is_finite())
                .for_each(|(_, value)| *value = 0.0);
        }
    }
    if measure == Measure::Zncc && values.iter().all(|channel| constant(channel, mask)) {
        let got = format!(
            "all samples {}",
            values[0].iter().enumerate().find(|(k, _)| used(*k)).map_or(0.0, |(_, value)| *value)
        );
        return Err(SpecError::of(Kind::ConstantTemplate, "template", "samples that are not all equal", got));
    }
    if measure.row().normalised && values.iter().flatten().all(|&value| value == 0.0) {
        return Err(SpecError::of(Kind::ZeroTemplate, "template", "a sample that is not 0", "all samples 0"));
    }
    raw.clone_from(values);
    exact_sums.clear();
    (checked.scale, checked.energy, checked.exact_energy, checked.nonfinite) = (1.0, 0.0, 0, nonfinite);
    if spec.is_integer() && spec.mask() != MaskKind::Weights {
        exact_statistics(checked, measure, weights.n as i128, &used);
    }
    if measure == Measure::Zncc && spec.channels() > 1 {
        checked.values.iter_mut().for_each(|channel| clear_if_constant(channel, mask));
        let scale = natural_scale(&checked.values, 0);
        multiply(&mut checked.values, scale);
        checked.values.iter_mut().for_each(|channel| less_heaviest(channel, mask));
    }
    offer(spec, checked, mask);
    ready(measure, weights, checked);
    Ok(())
}

/// Subtracts offsets, and brings values to their scale, those of scores to their mean and norm.
#[inline(always)]
fn ready(measure: Measure, weights: &Weights, checked: &mut Checked) {
    let mask = weights.values.as_deref();
    for (values, &offset) in checked.values.iter_mut().zip(&checked.offsets).filter(|(_, offset)| **offset != 0.0) {
        less(values, mask, offset);
    }
    let scaling = measure.row().scaling;
    let scale = match scaling {
        Scaling::Unit => natural_scale(&checked.values, 0),
        // Products of a template and a tile of ordinary magnitudes stay far inside the range of f32.
        Scaling::Own | Scaling::Common | Scaling::Relative => natural_scale(&checked.values, 40),
        Scaling::Fixed => 1.0,
    };
    multiply(&mut checked.values, scale);
    match scaling {
        Scaling::Unit => {
            if measure.row().needs.centred {
                let mean = |channel: &[f64]| match mask {
                    None => lanes::sum(channel, |value| value) / weights.n,
                    Some(mask) => lanes::sum_of(channel.len(), |k| mask[k] * channel[k]) / weights.n,
                };
                checked.values.iter_mut().for_each(|channel| centre(channel, mask, mean));
            }
            normalise(&mut checked.values, mask);
            checked.energy = 1.0;
        }
        Scaling::Own | Scaling::Common | Scaling::Relative => {
            checked.scale = scale;
            checked.energy = energy(&checked.values, mask);
        }
        Scaling::Fixed => {}
    }
}

/// Deviations from an offset, as a part of it, up to which there is one: `|P - c| + |t - c|` is then at most 1.016 of
/// `|P| + |t|`, which errors are granted in proportion to, whatever the image.
const NARROW: f64 = 1.0 / 128.0;

/// What a template is to be taken less of, where squared differences are taken of sums: channel by channel the middle
/// of its samples, if all lie close to that beside its magnitude.
#[inline(always)]
fn offer(spec: &Spec, checked: &mut Checked, mask: Option<&[f64]>) {
    let Checked { raw, offsets, .. } = checked;
    offsets.clear();
    offsets.extend(raw.iter().map(|channel| {
        if spec.op().measure().row().scaling != Scaling::Common {
            return 0.0;
        }
        let (least, most) = range(channel, mask);
        let middle = 0.5 * least + 0.5 * most;
        // What kernels in f32 subtract too, and what keeps integers integers.
        let middle = match spec.image_type() {
            DType::F64 => middle,
            _ if spec.is_integer() => middle.round(),
            _ => f64::from(middle as f32),
        };
        if middle.is_finite() && (most - middle).max(middle - least) <= NARROW * middle.abs() { middle } else { 0.0 }
    }));
}

/// Whether the offsets of another template do for this one: its samples lie as far from them as they do from each
/// other.
fn shares(offsets: &[f64], checked: &Checked, mask: Option<&[f64]>) -> bool {
    let of_channels = checked.raw.iter().zip(&checked.offsets).zip(offsets);
    of_channels.into_iter().all(|((channel, &own), &other)| {
        let (least, most) = range(channel, mask);
        own == other || (own != 0.0 && other != 0.0 && (own - other).abs() <= 0.5 * (most - least))
    })
}

/// The least and the largest of the samples that a weight looks at.
#[inline(always)]
fn range(channel: &[f64], mask: Option<&[f64]>) -> (f64, f64) {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let see = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    match mask {
        None => channel.iter().fold(none, |range, &value| see(range, value)),
        Some(mask) => {
            let used = channel.iter().zip(mask).filter(|(_, weight)| **weight > 0.0);
            used.fold(none, |range, (&value, _)| see(range, value))
        }
    }
}

/// The samples of one channel, row-major.
#[inline(always)]
fn read(channel: &AnyView<'_>, values: &mut Vec<f64>) {
    let [depth, height, width] = channel.shape().padded();
    values.resize(depth * height * width, 0.0);
    each_type!(AnyView, channel, view => {
        for (number, row) in values.chunks_exact_mut(width).enumerate() {
            view.row(number / height, number % height, 0, width).map_into(row, Pixel::to_f64);
        }
    });
}

/// Checks templates and mask against a spec.
///
/// # Errors
/// Another number of templates, and as [`check_mask`] and [`check_template`].
pub fn check(
    spec: &Spec,
    templates: &[AnyView<'_>],
    mask: Option<&AnyView<'_>>,
) -> Result<(Vec<Checked>, Weights), SpecError> {
    if templates.len() != spec.templates() {
        return Err(SpecError::of(
            Kind::DimsMismatch,
            "templates",
            counted(spec.templates(), "template"),
            templates.len(),
        ));
    }
    let weights = check_mask(spec, mask)?;
    let mask = weights.values.as_deref();
    let mut checked: Vec<Checked> = Vec::with_capacity(templates.len());
    for template in templates {
        let mut new = check_template(spec, template, &weights)?;
        if new.offsets.iter().any(|&offset| offset != 0.0) {
            // The image is gathered once for templates that follow each other and share offsets.
            let others = checked.iter().map(|other| &other.offsets);
            if let Some(offsets) = others.rev().find(|offsets| shares(offsets, &new, mask)) {
                new.offsets.clone_from(offsets);
                new.values.clone_from(&new.raw);
                ready(spec.op().measure(), &weights, &mut new);
            }
        }
        checked.push(new);
    }
    Ok((checked, weights))
}

/// Checks that an array is what the plan was made for.
///
/// # Errors
/// `dims_mismatch` or a type that is not the spec's, naming the argument.
pub fn check_view(
    argument: &str,
    view: &AnyView<'_>,
    shape: Shape,
    dtype: flcc_core::dtype::DType,
    channels: usize,
) -> Result<(), SpecError> {
    if view.shape() != shape || view.channels() != channels || view.dtype() != dtype {
        let describe = |shape: Shape, dtype, channels: usize| {
            if channels == 1 {
                format!("{dtype} {shape}")
            } else {
                format!("{dtype} {shape} with {}", counted(channels, "channel"))
            }
        };
        return Err(SpecError::of(
            Kind::DimsMismatch,
            argument,
            describe(shape, dtype, channels),
            describe(view.shape(), view.dtype(), view.channels()),
        ));
    }
    Ok(())
}

fn exact_statistics(checked: &mut Checked, measure: Measure, n: i128, used: &impl Fn(usize) -> bool) {
    for channel in &checked.raw {
        let integers = || channel.iter().enumerate().filter(|(k, _)| used(*k)).map(|(_, value)| *value as i128);
        let sum: i128 = integers().sum();
        let square: i128 = integers().map(|value| value * value).sum();
        checked.exact_sums.push(sum);
        checked.exact_energy += if measure == Measure::Zncc { n * square - sum * sum } else { square };
    }
}

/// The power of two that brings the largest magnitude near 1, if its exponent is over `reach`.
#[inline(always)]
fn natural_scale(values: &[Vec<f64>], reach: i32) -> f64 {
    scale_beyond(values.iter().fold(0.0f64, |most, channel| most.max(lanes::largest(channel))), reach)
}

/// The power of two that brings a magnitude near 1, if its exponent is over `reach`.
fn scale_beyond(largest: f64, reach: i32) -> f64 {
    if largest == 0.0 || exponent(largest).abs() <= reach { 1.0 } else { near_one(largest) }
}

/// Whether all samples of a channel that a weight looks at are equal.
#[inline(always)]
pub fn constant(channel: &[f64], mask: Option<&[f64]>) -> bool {
    match mask {
        None => channel.iter().all(|value| *value == channel[0]),
        Some(mask) => {
            let mut seen = channel.iter().zip(mask).filter(|(_, weight)| **weight > 0.0).map(|(value, _)| *value);
            let first = seen.next();
            seen.all(|value| Some(value) == first)
        }
    }
}

/// Makes a channel 0 if it is constant: there is nothing in it that a faint one could drown in.
#[inline(always)]
pub fn clear_if_constant(channel: &mut [f64], mask: Option<&[f64]>) {
    if constant(channel, mask) {
        channel.fill(0.0);
    }
}

/// Subtracts the sample of the largest weight, the first of equals, from all that a weight looks at: what is left may
/// be brought to another scale before a mean is taken. A mean is at most `√N` weighted deviations of the samples from
/// that sample, so the differences round by `u √(N + 1)` deviations at most; from a sample of small weight `w` they
/// would by `1 / √w` times as many.
#[inline(always)]
pub fn less_heaviest(channel: &mut [f64], mask: Option<&[f64]>) {
    match mask {
        None => less(channel, None, channel[0]),
        Some(weights) => {
            let heavier = |most: (f64, f64), (&value, &weight)| if weight > most.1 { (value, weight) } else { most };
            let (heaviest, _) = channel.iter().zip(weights).fold((0.0, 0.0), heavier);
            less(channel, mask, heaviest);
        }
    }
}

/// The largest magnitude of a channel's values times the roots of their weights.
#[inline(always)]
pub fn largest(channel: &[f64], mask: Option<&[f64]>) -> f64 {
    match mask {
        None => lanes::largest(channel),
        Some(mask) => {
            channel.iter().zip(mask).fold(0.0f64, |most, (value, weight)| most.max(value.abs() * weight.sqrt()))
        }
    }
}

#[inline(always)]
fn multiply(values: &mut [Vec<f64>], factor: f64) {
    if factor != 1.0 {
        values.iter_mut().for_each(|channel| channel.iter_mut().for_each(|value| *value *= factor));
    }
}

/// Subtracts the mean of a channel from all that a weight looks at, twice: the second pass removes what rounding left
/// of the first. Each caller adds up in an order of its own.
#[inline(always)]
pub fn centre(channel: &mut [f64], mask: Option<&[f64]>, mean: impl Fn(&[f64]) -> f64) {
    for _ in 0..2 {
        let mean = mean(channel);
        less(channel, mask, mean);
    }
}

/// Subtracts a value from all samples that a weight looks at.
#[inline(always)]
pub fn less(channel: &mut [f64], mask: Option<&[f64]>, value: f64) {
    match mask {
        None => channel.iter_mut().for_each(|sample| *sample -= value),
        Some(mask) => {
            channel.iter_mut().zip(mask).filter(|(_, weight)| **weight > 0.0).for_each(|(sample, _)| *sample -= value);
        }
    }
}

#[inline(always)]
fn energy(values: &[Vec<f64>], mask: Option<&[f64]>) -> f64 {
    let of_channel = |channel: &Vec<f64>| match mask {
        None => lanes::sum(channel, |value| value * value),
        Some(mask) => lanes::sum_of(channel.len(), |k| mask[k] * channel[k] * channel[k]),
    };
    values.iter().map(of_channel).sum()
}

/// Brings the weighted norm to 1, in two steps so that faint differences do not underflow when squared.
#[inline(always)]
fn normalise(values: &mut [Vec<f64>], mask: Option<&[f64]>) {
    let most = values.iter().fold(0.0f64, |most, channel| most.max(largest(channel, mask)));
    multiply(values, scale_beyond(most, 0));
    let norm = energy(values, mask).sqrt();
    multiply(values, 1.0 / norm);
}

/// Template values under their weights.
pub fn weighted<'a>(values: &'a [f64], weights: &Weights) -> Cow<'a, [f64]> {
    match &weights.values {
        Some(weights) => values.iter().zip(weights).map(|(value, weight)| value * weight).collect(),
        None => Cow::Borrowed(values),
    }
}

/// Template values in a kernel's type, rounded by `of`: what one is rounded by is added to the next, so that
/// their sum stays what it is, and with it the cross term with what is constant.
pub fn rounded<T: Copy + Into<f64>>(values: &[f64], of: impl Fn(f64) -> T) -> impl Iterator<Item = T> {
    let mut left = 0.0;
    values.iter().map(move |&value| {
        let rounded = of(value + left);
        left += value - rounded.into();
        // What is not finite has no rest.
        left = if left.is_finite() { left } else { 0.0 };
        rounded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_core::dtype::Pixels;

    fn checked(spec: &str, template: &[f64], mask: Option<&[f64]>) -> Result<Checked, SpecError> {
        let spec: Spec = spec.parse().unwrap();
        let template = Pixels::F64(template.to_vec()).cast(spec.template_type());
        let template = AnyView::dense(&template, spec.template(), spec.channels()).unwrap();
        let mask = mask.map(|mask| Pixels::F64(mask.to_vec()));
        let mask = mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
        check_template(&spec, &template, &check_mask(&spec, mask.as_ref())?)
    }

    #[test]
    fn a_template_is_centred_and_of_norm_one() {
        for amplitude in [1.0, 1e300, 1e-310] {
            let t = checked(
                "zncc:f64:9*4:valid",
                &[1.0 * amplitude, 2.0 * amplitude, 3.0 * amplitude, 6.0 * amplitude],
                None,
            )
            .unwrap();
            let norm: f64 = t.values[0].iter().map(|v| v * v).sum();
            assert!((norm - 1.0).abs() < 1e-14 && t.values[0].iter().sum::<f64>().abs() < 1e-15, "{amplitude}");
            assert!((t.values[0][3] - 3.0 / 14f64.sqrt()).abs() < 1e-9, "{amplitude}");
        }
    }

    #[test]
    fn degenerate_templates_are_errors() {
        let kind = |spec: &str, t: &[f64], mask: Option<&[f64]>| checked(spec, t, mask).unwrap_err().kind;
        assert_eq!(kind("zncc:f32:9*2:valid", &[3.0, 3.0], None), Kind::ConstantTemplate);
        assert_eq!(kind("zncc:f32:9*3:valid,mask01", &[3.0, 3.0, 4.0], Some(&[1.0, 1.0, 0.0])), Kind::ConstantTemplate);
        assert_eq!(kind("nssd:f32:9*2:valid", &[0.0, -0.0], None), Kind::ZeroTemplate);
        assert_eq!(kind("ssd:f32:9*2:valid", &[0.0, f64::NAN], None), Kind::NonfiniteTemplate);
        assert_eq!(kind("ssd:f32:9*2:valid,maskw", &[0.0, 1.0], Some(&[0.0, -1.0])), Kind::MaskInvalid);
        assert_eq!(kind("ssd:f32:9*2:valid,maskw", &[0.0, 1.0], Some(&[0.0, 0.0])), Kind::MaskInvalid);
        assert_eq!(kind("ssd:f32:9*2:valid,mask01", &[0.0, 1.0], Some(&[0.5, 1.0])), Kind::MaskInvalid);
        assert!(checked("corr:f32:9*2:valid", &[0.0, f64::NAN], None).unwrap().nonfinite);
        assert!(checked("ssd:f32:9*2:valid,mask01", &[0.0, f64::NAN], Some(&[1.0, 0.0])).is_ok());
    }

    #[test]
    fn convolution_turns_the_template() {
        assert_eq!(
            checked("conv:f64:9x9*2x2:full", &[1.0, 2.0, 3.0, 4.0], None).unwrap().values[0],
            [4.0, 3.0, 2.0, 1.0]
        );
    }
}
