//! What a spec decides before any method: whether its sums are exact integers and how wide, what is promised, and which
//! sums single precision may take. CPU and GPU ask the same functions.

use flcc_core::blocks;
use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::measure::{Measure, Scaling};
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::problem::error_model::Promise;

/// Samples in f32 within `2^-40` and `2^40` are computed with as they are.
pub const SINGLE_REACH: i32 = 40;

/// Which integers hold every sum of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// 64 bits.
    Narrow,
    /// 128 bits.
    Wide,
}

/// What was decided for a spec, before any pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheme {
    /// The formula.
    pub measure: Measure,
    /// Sums and cross term are exact integers, finished in integers of this width.
    pub integers: Option<Integers>,
    /// The transform's results are rounded to the integers that they stand for.
    pub rounds: bool,
    /// The promise for normalised measures.
    pub promise: Option<Promise>,
    /// Whether there is a mask.
    pub masked: bool,
    /// Whether a pixel less an offset may be rounded: whole numbers are not.
    pub rounds_samples: bool,
    /// The power of two that every sample is multiplied by; `None` where each tile may choose its own.
    pub forced: Option<f64>,
}

impl Scheme {
    /// The scheme of a spec whose cross term is exact (`exact_cross`) or rounded.
    pub fn new(spec: &Spec, exact_cross: bool, rounds: bool) -> Scheme {
        let measure = spec.op().measure();
        let n = spec.template().len() as f64;
        let largest = largest_pixel(spec.work_type()).powi(2) * n * n * spec.channels() as f64;
        let width = if largest < 2f64.powi(61) { Integers::Narrow } else { Integers::Wide };
        let single = spec.out_type() == DType::F32;
        let error = if single { 1e-5 } else { 1e-11 };
        let promise = match spec.accuracy() {
            _ if !measure.row().normalised => None,
            // Not promised, but far from what only noise would be.
            Accuracy::Fast => Some(Promise { error: 10.0 * error, deviations: Some(3.0) }),
            Accuracy::Promised => Some(Promise { error, deviations: Some(8.0) }),
            Accuracy::Exact => Some(Promise { error, deviations: None }),
        };
        let masked = spec.mask() != MaskKind::None;
        let integers = exact_cross.then_some(width);
        // Exact sums are of the samples as they are, and differences need image and template in one scale.
        let fixed = measure.row().scaling == Scaling::Fixed || integers.is_some();
        let forced = fixed.then_some(1.0);
        let whole = |value: f64| value.fract() == 0.0 && value.abs() <= f64::from(u16::MAX);
        let rounds_samples = !(spec.image_type().is_integer() && spec.boundary().value().is_none_or(whole));
        Scheme { measure, integers, rounds, promise, masked, rounds_samples, forced }
    }
}

impl Scheme {
    /// Whether differences are squared and shown as they are, from sums of squares that may overflow.
    pub fn squares_differences(&self) -> bool {
        self.measure.row().scaling == Scaling::Common
    }

    /// The reach of samples that are computed with as they are: `usual` is their type's. What bounds the sums of
    /// squares of a tile, and what transforms may lose of them under a mask, is far below the largest number of a
    /// result in f32 if its samples are.
    pub fn reach(&self, out: DType, usual: i32) -> i32 {
        if self.squares_differences() && out == DType::F32 { usual.min(SINGLE_REACH) } else { usual }
    }

    /// Whether single panels may be taken again from the image: scores of normalised measures that are in doubt, and
    /// squared differences beside squares that overflow.
    pub fn repairs(&self) -> bool {
        self.integers.is_none() && (self.measure.row().normalised || self.squares_differences())
    }
}

/// Whether sums under a mask may drown in what a transform, or a product of lines, rounds: in proportion to the largest
/// sample, where a panel's norm knows it by its weight alone. Scores have their doubt; sums have nothing closer.
/// Weights of 0 and 1 are safe where a tile `hides` samples that no panel of it has a weight for.
pub fn weights_drown(spec: &Spec, hides: bool) -> bool {
    let sums = !spec.op().measure().row().normalised;
    // Bytes and 16 bits are far from drowning f32.
    let wide = !spec.image_type().is_integer() || spec.out_type() == DType::F64;
    let weighed = match spec.mask() {
        MaskKind::None => false,
        MaskKind::Binary => !hides && !integer_problem(spec),
        MaskKind::Weights => true,
    };
    sums && wide && weighed
}

/// Whether nearly all scores drown in what transforms in f32 leave: promised squared differences over both norms, whose
/// cross term counts twice and is as large as the norms.
pub fn differences_drown(spec: &Spec) -> bool {
    spec.accuracy() == Accuracy::Promised && spec.op().measure() == Measure::Nssd
}

/// Whether every sample of a problem, padding included, is an integer of the work type, under weights 0 and 1.
pub fn integer_problem(spec: &Spec) -> bool {
    let boundary = match spec.boundary() {
        Boundary::Constant(value) => {
            value.fract() == 0.0
                && value >= 0.0
                && spec.work_type().row().max.is_some_and(|max| value <= f64::from(max))
        }
        _ => true,
    };
    spec.is_integer() && spec.mask() != MaskKind::Weights && boundary
}

/// Whether direct sums in f32, on CPUs and GPUs, keep promised scores of templates of this size: in the worst case they
/// take half of what a cross term may.
pub fn serves_in_single(spec: &Spec) -> bool {
    let counted = if spec.op().measure() == Measure::Nssd { 2.0 } else { 1.0 };
    counted * f64::from(f32::EPSILON) / 2.0 * blocks::granted(spec.template().len()) as f64 <= 0.4e-5
}

/// Whether direct sums of products that are not exact are taken in f64, on CPUs and GPUs: where f64 or exact results
/// are asked for, under a mask, of integers whose sums f64 does not hold, which are not to be rounded to f32, and where
/// sums in f32 would leave too many promised scores in doubt.
pub fn sums_in_double(spec: &Spec) -> bool {
    let asked = spec.out_type() == DType::F64 || spec.accuracy() == Accuracy::Exact;
    let long = spec.accuracy() == Accuracy::Promised && spec.op().measure().row().normalised && !serves_in_single(spec);
    asked || spec.mask() != MaskKind::None || integer_problem(spec) || long
}

/// The largest magnitude of a pixel of an integer type.
pub fn largest_pixel(dtype: DType) -> f64 {
    dtype.row().max.map_or(f64::INFINITY, f64::from)
}

/// Bounds of the integer sums of a problem: of the products with the template, and of the squares of a window.
pub fn integer_bounds(spec: &Spec) -> (f64, f64) {
    let n = spec.template().len() as f64;
    let image = match spec.boundary().value() {
        Some(value) => largest_pixel(spec.image_type()).max(value),
        None => largest_pixel(spec.image_type()),
    };
    (image * largest_pixel(spec.template_type()) * n, image * image * n)
}

/// Whether every sum of the problem is an integer that f64 holds.
pub fn exact_in_f64(spec: &Spec) -> bool {
    let (cross, square) = integer_bounds(spec);
    integer_problem(spec) && cross < 2f64.powi(53) && square < 2f64.powi(53)
}

/// Why accuracy exact cannot be given for an integer problem, if so.
pub fn refuse_inexact(solver: &str, spec: &Spec) -> Result<(), Refusal> {
    if spec.accuracy() == Accuracy::Exact && spec.is_integer() && !exact_in_f64(spec) {
        let n = spec.template().len();
        return Err(Refusal::new(
            solver,
            format!("sums over {n} samples of {} can exceed 2^53, so they are not exact", spec.work_type()),
        ));
    }
    Ok(())
}

/// A worst-case bound of a transform's error in f64 for integer images and templates; docs/numerics.md derives it.
pub fn rounding_bound(spec: &Spec, shape: [usize; 3]) -> f64 {
    let len = shape.iter().product::<usize>() as f64;
    let image = spec.boundary().value().unwrap_or(0.0).max(largest_pixel(spec.image_type()));
    let window =
        if spec.op().measure().row().needs.square && spec.mask() != MaskKind::None { image * image } else { 0.0 };
    let taps = (spec.template().len() as f64).sqrt();
    let norms = (image * largest_pixel(spec.template_type())).max(window) * len.sqrt() * taps;
    10.0 * len.log2().max(1.0) * (f64::EPSILON / 2.0) * norms
}

/// Whether transforms of a spec's integers are rounded back to them: sums that a user sees as such are, and scores
/// where they are to be exact.
pub fn wants_rounding(spec: &Spec) -> bool {
    let (exact, normalised) = (spec.accuracy() == Accuracy::Exact, spec.op().measure().row().normalised);
    exact_in_f64(spec) && (exact || (!normalised && spec.accuracy() != Accuracy::Fast))
}

/// Whether results of transforms of a shape are rounded to the integers that they stand for; `None` where they have to
/// be, and might come to others.
pub fn rounds(spec: &Spec, shape: [usize; 3]) -> Option<bool> {
    let rounds = wants_rounding(spec) && rounding_bound(spec, shape) < 0.25;
    (rounds || spec.accuracy() != Accuracy::Exact || !spec.is_integer()).then_some(rounds)
}

/// Whether a library's transforms may be chosen by their cost. Integers that they do not round (`rounds`) would be off
/// by a unit in f32 results where other methods give them exactly, and weights may drown unless tiles hide samples
/// ([`weights_drown`]).
pub fn transforms_serve(spec: &Spec, rounds: bool, hides: bool) -> bool {
    (rounds || !wants_rounding(spec)) && !weights_drown(spec, hides)
}

/// Whether a library's transforms are in f64, whatever the samples are.
pub fn transforms_in_double(spec: &Spec) -> bool {
    let asked = spec.out_type() == DType::F64 || spec.accuracy() == Accuracy::Exact;
    asked || spec.mask() != MaskKind::None || wants_rounding(spec)
}

/// Why no product of spectra gives a measure, if so.
pub fn refuse_differences(solver: &str, spec: &Spec) -> Result<(), Refusal> {
    if spec.op().measure().row().needs.absolute_difference {
        return Err(Refusal::new(solver, "sad is no sum of products, so it has no product of spectra"));
    }
    Ok(())
}

/// Why no sum of products of lines gives what a spec asks for, if so.
pub fn refuse_factors(solver: &str, spec: &Spec) -> Result<(), Refusal> {
    let measure = spec.op().measure();
    let reason = if measure == Measure::Sad {
        "sad is no sum of products"
    } else if spec.image().axes() == 1 {
        "a 1D template has one axis: there is nothing to separate"
    } else if spec.mask() != MaskKind::None && measure.row().needs.square {
        "window sums under a mask by its factors would carry the rounding of the largest sample nearby"
    } else if spec.accuracy() == Accuracy::Exact && spec.is_integer() {
        "the factors of an integer template are no integers, so sums are not exact"
    } else {
        return Ok(());
    };
    Err(Refusal::new(solver, reason))
}

/// Whether other methods give sums as integers that products of lines only come near to.
fn factors_approximate(spec: &Spec) -> bool {
    exact_in_f64(spec) && !spec.op().measure().row().normalised && spec.accuracy() != Accuracy::Fast
}

/// Whether products of lines are taken in f64, whatever the samples are.
pub fn factors_in_double(spec: &Spec) -> bool {
    let asked = spec.out_type() == DType::F64 || spec.accuracy() == Accuracy::Exact;
    asked || spec.mask() != MaskKind::None || factors_approximate(spec)
}

/// Whether products of lines may be chosen by their cost: what others give exactly they do not, and weights may drown
/// unless tiles hide samples ([`weights_drown`]).
pub fn factors_serve(spec: &Spec, hides: bool) -> bool {
    !factors_approximate(spec) && !weights_drown(spec, hides)
}

/// How many products of lines a template of the spec's rank comes to; one where that is not known, since then the
/// template decides. A template without its mean has a term more, and that of a volume is a sum of planes' sums.
pub fn factored_terms(spec: &Spec) -> f64 {
    let Some(rank) = spec.rank() else { return 1.0 };
    let rank = (rank + usize::from(spec.op().measure() == Measure::Zncc)) as f64;
    if spec.template().axes() == 3 { rank * (rank + 1.0) / 2.0 } else { rank }
}

/// The only shape of a library's transforms, in f64 or f32, for sums that are shown as they are and have so few
/// products that what a transform adds counts beside them: short, and of powers of two, whose factors round least
/// (docs/numerics.md has what other lengths were found to add). For one product rustfft had 1.76 times what the
/// conventions grant in f64 and 1.27 in f32, cuFFT 2.01 in f64, our own lines of 65536 samples 1.16.
pub fn accurate_shape(spec: &Spec, double: bool) -> Option<[usize; 3]> {
    let few = match (spec.out_type(), double) {
        (DType::F64, _) => 64,
        (_, false) => 8,
        // What is rounded to f32 loses nothing before.
        (_, true) => 0,
    };
    let products = spec.template().len();
    if spec.op().measure().row().normalised || wants_rounding(spec) || products >= few {
        return None;
    }
    let (template, whole) = (spec.template().padded(), spec.mode_region().shape.padded());
    // The fewer products, the less is granted.
    let least = match (spec.image().axes(), products < 4) {
        (1, false) => 128,
        (1, true) | (2, false) => 32,
        (2, true) => 8,
        (_, false) => 16,
        (_, true) => 4,
    };
    Some([0, 1, 2].map(|axis| {
        let needed = (whole[axis] + template[axis] - 1).next_power_of_two();
        needed.min((2 * template[axis]).next_power_of_two().max(least))
    }))
}

/// Why transforms whose error has this bound cannot give exact integers.
pub fn not_rounded(solver: &str, bound: f64) -> Refusal {
    let reason =
        format!("its error bound {bound:.2} is not below 0.25, so its sums cannot be rounded to the exact integers");
    Refusal::new(solver, reason)
}
