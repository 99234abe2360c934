//! What is the same for all blocks of a result: shapes, weights and a template, scaled by powers of two.

use flcc_core::boundary::Boundary;
use flcc_core::dtype::{DType, Pixel};
use flcc_core::error::{ExecError, Kind, SpecError, counted};
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, View};

use crate::plan::matcher::Matcher;
use crate::plan::settings::Planner;
use crate::problem::lanes;
use crate::problem::powers::{exponent, factors, shifted, times, to_one};
use crate::problem::scheme::integer_problem;
use crate::problem::template::{Checked, less};

/// Results of a block: so few that its arrays stay in a core's cache.
const BLOCK: usize = 1 << 16;
/// What of the largest weight a positive one has at least, 2^-300: so that no product of two weights and of a sample's
/// square vanishes beside the largest of a block. f32 has no weights that are further apart.
const FAINTEST: f64 = f64::from_bits((1023 - 300) << 52);

/// What a run has for all of its templates.
pub(super) struct Problem<'a> {
    pub measure: Measure,
    pub boundary: Boundary,
    pub image: AnyView<'a>,
    pub image_mask: Option<AnyView<'a>>,
    /// Weights of the image divided by two to this.
    pub mask_exponent: i32,
    /// The weight of samples outside, divided like the others.
    pub outside: f64,
    /// The template's shape.
    pub window: [usize; 3],
    /// Where the template's first sample lies in the image for the first result.
    pub first: [i64; 3],
    pub out: Shape,
    /// Results of a block, and samples that it looks at, along each axis.
    pub block: Shape,
    pub samples: Shape,
    /// The template's weights divided by two to `weights_exponent`; none where all are 1.
    pub weights: Option<Vec<f64>>,
    pub weights_exponent: i32,
    /// The least sum of weights that is enough, divided like the weights.
    pub least: f64,
    /// How far from the exact score one may be.
    pub limit: f64,
    /// The largest number of the result's type.
    pub most: f64,
    /// Whether sums are integers: of such samples, under weights of 0 and 1.
    pub integers: bool,
}

/// A template, and what correlates images with what is made of it.
pub(super) struct Template {
    /// Channel by channel; 0 where no weight looks.
    pub raw: Vec<Vec<f64>>,
    /// What differences are taken less of, from template and image: [`Checked::offsets`].
    pub offsets: Vec<f64>,
    /// The power of two that `raw` is divided by, less a common value where the measure takes means and less `offsets`
    /// where it does not; none where all are 0.
    pub exponent: Option<i32>,
    /// The sum of weights of all samples.
    pub total: f64,
    pub channels: Vec<Channel>,
    /// With the template's weights, where it has some.
    pub by_weights: Option<Tool>,
}

/// One channel of a template.
pub(super) struct Channel {
    /// With the samples times their weights.
    pub by_values: Tool,
    /// With the same, where the measure takes means, and with the squares times their weights.
    pub by_energies: Option<Tool>,
    /// The sums of these products, and of the magnitudes of the first.
    pub sum: f64,
    pub square: f64,
    pub magnitude: f64,
}

/// What correlates a block of samples with one or two arrays of the template's shape.
pub(super) struct Tool {
    pub matcher: Matcher,
    /// The norms of the arrays.
    pub norms: Vec<f64>,
}

impl<'a> Problem<'a> {
    /// Shapes and weights of a run: `mask` is the template's, `elsewhere` the largest weight of an image of which this
    /// is a part.
    pub(super) fn new(
        spec: &Spec,
        (image, image_mask): (AnyView<'a>, Option<AnyView<'a>>),
        mask: Option<&AnyView<'_>>,
        (min_overlap, outside_unknown): (f64, bool),
        elsewhere: f64,
    ) -> Result<Problem<'a>, SpecError> {
        let outside = if spec.mode() == Mode::Valid || outside_unknown { 0.0 } else { 1.0f64 };
        let (mut range, mut binary) = (Range::default(), true);
        match &image_mask {
            Some(mask) => weights(mask, spec.image(), &mut |weight| {
                range.see(weight);
                binary &= weight == 0.0 || weight == 1.0;
            })?,
            None => range.see(1.0),
        }
        range.see(outside);
        range.see(elsewhere);
        let largest = range.checked("image_mask")?;
        let mask_exponent = if largest > 0.0 { exponent(largest) } else { 0 };
        let mut weights = mask.map(AnyView::to_f64);
        let mut own = Range::default();
        weights.iter().flatten().for_each(|&weight| own.see(weight));
        own.checked("mask")?;
        let weights_exponent = weights.as_ref().map_or(0, |weights| exponent(lanes::largest(weights)));
        if let Some(weights) = &mut weights {
            binary &= weights.iter().all(|&weight| weight == 0.0 || weight == 1.0);
            times(weights, factors(-weights_exponent));
        }
        let total =
            weights.as_ref().map_or(spec.template().len() as f64, |weights| lanes::sum(weights, |weight| weight));
        let [a, b] = factors(-mask_exponent);
        let block = block(spec.out_shape(), spec.template())?;
        let ends = |axis: usize| block.padded()[axis] + spec.template().padded()[axis] - 1;
        Ok(Problem {
            measure: spec.op().measure(),
            boundary: if outside_unknown { Boundary::Zero } else { spec.boundary() },
            image,
            image_mask,
            mask_exponent,
            outside: outside * a * b,
            window: spec.template().padded(),
            first: spec.region().first_place(spec.template()),
            out: spec.out_shape(),
            block,
            samples: block.with_padded([0, 1, 2].map(ends))?,
            weights,
            weights_exponent,
            // Shares that differ by less are one: 0.07 of 100 samples are 7.
            least: min_overlap * (1.0 - 1e-9) * total * a * b,
            most: if spec.out_type() == DType::F64 { f64::MAX } else { f64::from(f32::MAX) },
            limit: if spec.out_type() == DType::F64 { 0.5e-11 } else { 0.5e-5 },
            integers: integer_problem(spec) && binary,
        })
    }

    /// The template's samples ready to be correlated with.
    pub(super) fn template(&self, checked: Checked, planner: &Planner) -> Result<Template, ExecError> {
        let Checked { raw, offsets, .. } = checked;
        let means = self.measure == Measure::Zncc;
        let count = raw.first().map_or(0, Vec::len);
        let ones = || vec![1.0; count];
        let weights = self.weights.clone().unwrap_or_else(ones);
        let mut values = raw.clone();
        let mut scale = to_one(&mut values);
        if means {
            for values in &mut values {
                let mean = lanes::dot(values, &weights) / lanes::sum(&weights, |weight| weight);
                values.iter_mut().for_each(|value| *value -= mean);
            }
        } else if let Some(exponent) = scale {
            for (values, &offset) in values.iter_mut().zip(&offsets).filter(|(_, offset)| **offset != 0.0) {
                less(values, Some(&weights), shifted(offset, -exponent));
            }
        }
        scale = scale.zip(to_one(&mut values)).map(|(a, b)| a + b);
        let tool = |arrays: &[Vec<f64>]| self.tool(arrays, planner);
        let by_weights = self.weights.as_ref().map(|weights| tool(std::slice::from_ref(weights))).transpose()?;
        let channel = |values: &Vec<f64>| -> Result<Channel, ExecError> {
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>();
            let weighted = product(values, &weights);
            let squares = product(values, &weighted);
            let (sum, square) = (lanes::sum(&weighted, |value| value), lanes::sum(&squares, |value| value));
            let magnitude = lanes::sum(&weighted, f64::abs);
            let by_values = tool(std::slice::from_ref(&weighted))?;
            let by_energies = match (self.measure, means) {
                (Measure::Cc | Measure::Sad, _) => None,
                (_, true) => Some(tool(&[weighted, squares])?),
                (_, false) => Some(tool(&[squares])?),
            };
            Ok(Channel { by_values, by_energies, sum, square, magnitude })
        };
        let channels = match self.measure {
            Measure::Sad => Vec::new(),
            _ => values.iter().map(channel).collect::<Result<_, _>>()?,
        };
        let total = lanes::sum(&weights, |weight| weight);
        Ok(Template { raw, offsets, exponent: scale, total, channels, by_weights })
    }

    fn tool(&self, arrays: &[Vec<f64>], planner: &Planner) -> Result<Tool, ExecError> {
        let shape = self.block.with_padded(self.window)?;
        let spec: Spec = format!("corr:f64:{}*{shape}:valid", self.samples).parse()?;
        let views: Vec<AnyView<'_>> =
            arrays.iter().map(|array| View::new(array, shape).map(AnyView::from)).collect::<Result<_, _>>()?;
        let matcher = planner.plan(&spec.with_templates(arrays.len())?)?.bind(&views, None)?;
        Ok(Tool { matcher, norms: arrays.iter().map(|array| lanes::dot(array, array).sqrt()).collect() })
    }

    /// How many blocks there are along each axis.
    pub(super) fn blocks(&self) -> [usize; 3] {
        let (out, block) = (self.out.padded(), self.block.padded());
        [0, 1, 2].map(|axis| out[axis].div_ceil(block[axis]))
    }
}

/// The largest and the least of the positive weights that were seen.
struct Range {
    largest: f64,
    least: f64,
}

impl Default for Range {
    fn default() -> Range {
        Range { largest: 0.0, least: f64::INFINITY }
    }
}

impl Range {
    fn see(&mut self, weight: f64) {
        if weight > 0.0 {
            (self.largest, self.least) = (self.largest.max(weight), self.least.min(weight));
        }
    }

    /// The largest, where the least is not too faint beside it.
    fn checked(&self, argument: &str) -> Result<f64, SpecError> {
        if self.least < self.largest * FAINTEST {
            let expected = format!("positive weights of at least 2^-300 of the largest, {:e}", self.largest);
            return Err(SpecError::of(Kind::MaskInvalid, argument, expected, format!("{:e}", self.least)));
        }
        Ok(self.largest)
    }
}

/// Looks at all weights of an image.
fn weights(mask: &AnyView<'_>, image: Shape, see: &mut dyn FnMut(f64)) -> Result<(), SpecError> {
    if mask.shape() != image || mask.channels() != 1 {
        let expected = format!("{image} with 1 channel, as the image");
        let got = format!("{} with {}", mask.shape(), counted(mask.channels(), "channel"));
        return Err(SpecError::of(Kind::MaskShape, "image_mask", expected, got));
    }
    let [depth, height, width] = image.padded();
    let mut row = vec![0.0; width];
    for number in 0..depth * height {
        read(mask, [number / height, number % height, 0], &mut row);
        if let Some(weight) = row.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
            return Err(SpecError::of(Kind::MaskInvalid, "image_mask", "finite weights >= 0", weight));
        }
        row.iter().for_each(|&weight| see(weight));
    }
    Ok(())
}

/// Reads samples of a row from a position on.
pub(super) fn read(view: &AnyView<'_>, [z, y, x]: [usize; 3], row: &mut [f64]) {
    let count = row.len();
    flcc_core::each_type!(AnyView, view, view => view.row(z, y, x, count).map_into(row, Pixel::to_f64));
}

/// How many blocks a spec's results are computed in.
pub(super) fn blocks(spec: &Spec) -> Result<usize, SpecError> {
    let (out, block) = (spec.out_shape().padded(), block(spec.out_shape(), spec.template())?.padded());
    Ok((0..3).map(|axis| out[axis].div_ceil(block[axis])).product())
}

/// About how many bytes a worker takes.
pub(super) fn bytes(spec: &Spec) -> Result<usize, SpecError> {
    let block = block(spec.out_shape(), spec.template())?.padded();
    let window = spec.template().padded();
    let [results, samples] = [0, 1]
        .map(|more| (0..3).fold(8usize, |bytes, axis| bytes.saturating_mul(block[axis] + more * (window[axis] - 1))));
    // Arrays of each channel and of all; a transform and its template take about as much as five more.
    let arrays = |each: usize, all: usize| spec.channels().saturating_mul(each).saturating_add(all);
    let of_samples = samples.saturating_mul(arrays(2 + 2 * 5, 4 + 4));
    Ok(of_samples.saturating_add(results.saturating_mul(arrays(5, 2))))
}

/// How many results a block has along each axis: the longest is halved until there are few, or no more than the
/// template has samples there, of which neighbours compute some twice.
pub(super) fn block(out: Shape, template: Shape) -> Result<Shape, SpecError> {
    let (mut lengths, window) = (out.padded(), template.padded());
    while lengths.iter().product::<usize>() > BLOCK {
        let Some(longest) = (0..3).filter(|&axis| lengths[axis] > window[axis]).max_by_key(|&axis| lengths[axis])
        else {
            break;
        };
        lengths[longest] = lengths[longest].div_ceil(2);
    }
    out.with_padded(lengths)
}
