//! One call for one result: each function plans, binds and executes. For more than one image, make a plan.
//!
//! Shapes: image and template have the same number of axes, 1 to 3, slowest first, and the same number of channels,
//! over which every sum goes. On an axis of `X` image and `T` template samples the result has `X + T - 1` values in
//! mode full, `X` in same and `X - T + 1` in valid. `P_b[k]` is sample `b + k` of the image, extended without end by
//! the boundary rule; the panel origin `b` of output `i` is `i - (T - 1)`, `i - floor(T / 2)` and `i` in these modes.
//!
//! Type of the result: f64 if image or template is f64, else f32. Image and template may differ in type; both count as
//! the smallest of u8, u16, f32 and f64 that holds them exactly. Every function computes on all cores, at accuracy
//! promised. For another type or accuracy, for fewer threads, for a region, for several images or templates: [`Spec`]
//! and [`Planner`].

use flcc_core::boundary::Boundary;
use flcc_core::error::ExecError;
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::score::ScoreMap;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AsImage};

use crate::plan::settings::Planner;
use crate::problem::template::mask_kind;

/// `y_b = sum_k P_b[k] t[T-1-k]`, the convolution of an image with a template. The template is flipped: scipy's
/// `signal.convolve(image, template, mode)`.
///
/// Unit: that of the image times that of the template. Error, `u` the unit roundoff of the result's type: of 8- and
/// 16-bit pixels every sum below `2^53` is the exact integer, rounded once to the result; of floats at most
/// `(16 + sqrt(n)) u max|P| |t|`, with `n` samples in the template and norms over a panel. NaN and infinities of the
/// image reach exactly the panels that touch them; one in the template reaches every output.
///
/// ```
/// use flcc_runtime::{Boundary, Mode, Shape, View, convolve};
///
/// let (image, template) = ([1.0f32, 2.0, 3.0], [0.0f32, 1.0, 0.5]);
/// let (image, template) = (View::new(&image, Shape::new(&[3])?)?, View::new(&template, Shape::new(&[3])?)?);
/// let map = convolve(&image, &template, Mode::Full, Boundary::Zero)?;
/// assert_eq!((0..5).map(|i| map.get(i)).collect::<Vec<_>>(), [0.0, 1.0, 2.5, 4.0, 1.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExecError::Spec`] with a [`Kind`](flcc_core::error::Kind) and the argument: an array without samples
/// (`EmptyInput`), other axes or channels (`DimsMismatch`), mode valid and a template that is longer than the image
/// (`TemplateLargerThanImage`), a boundary constant that is not finite (`Invalid`).
pub fn convolve(
    image: &impl AsImage,
    template: &impl AsImage,
    mode: Mode,
    boundary: Boundary,
) -> Result<ScoreMap, ExecError> {
    compute(Op::Convolve, image.as_image(), template.as_image(), None, mode, boundary)
}

/// `y_b = sum_k P_b[k] t[k]`, the cross-correlation of an image with a template. Nothing is flipped: scipy's
/// `signal.correlate(image, template, mode)`.
///
/// Unit and error are those of [`convolve`].
///
/// # Errors
/// As [`convolve`].
pub fn correlate(
    image: &impl AsImage,
    template: &impl AsImage,
    mode: Mode,
    boundary: Boundary,
) -> Result<ScoreMap, ExecError> {
    compute(Op::Correlate, image.as_image(), template.as_image(), None, mode, boundary)
}

/// The score of every place of the image where the whole template lies inside it (mode valid): output position `b` is
/// the template's first sample. OpenCV's `matchTemplate`, and skimage's `match_template(image, template)` for zncc.
///
/// With weights `w >= 0` from the mask (1 without one; of the template's shape, 0 and 1 or any weights), all sums over
/// the template:
///
/// | measure | score | range, unit | best | degenerate panel |
/// |---|---|---|---|---|
/// | cc | `sum w P t` | image times template | largest | |
/// | ncc | `sum w P t / sqrt(sum w P^2 sum w t^2)` | `[-1, 1]` | largest | zero: 0 |
/// | zncc | ncc of `P` and `t` less their weighted means | `[-1, 1]` | largest | constant: 0 |
/// | ssd | `sum w (P - t)^2` | square of a sample | smallest | |
/// | nssd | `min(1, ssd / sqrt(sum w P^2 sum w t^2))` | `[0, 1]` | smallest | zero: 1 |
/// | sad | `sum w abs(P - t)` | a sample | smallest | |
///
/// Error: cc and ssd of 8- and 16-bit pixels (masks of 0 and 1) are exact integers, rounded once; ncc, zncc and nssd
/// are within 1e-5 (f32 results) or 1e-11 (f64) of the exact value for every finite image; otherwise as for
/// [`convolve`], with `(max|P| + |t|)^2` for ssd and `sqrt(n) (max|P| + |t|)` for sad in place of `max|P| |t|`. A panel
/// that holds NaN or an infinity under a positive weight is NaN for normalised measures and not finite for the others.
///
/// Another mode or boundary, or a plan to keep: [`Planner::plan`] of a [`Spec`] (`with_mask`, `with_boundary`), then
/// [`Plan::execute`](crate::plan::planned::Plan::execute).
///
/// ```
/// use flcc_runtime::{Measure, Shape, View, match_template};
///
/// let image: Vec<u8> = (0..100).map(|i| (i * 37 % 101) as u8).collect();
/// let image = View::new(&image, Shape::new(&[10, 10])?)?;
/// let template = image.part([4, 3], Shape::new(&[3, 3])?)?;
/// let map = match_template(&image, &template, None, Measure::Zncc)?;
/// assert_eq!(map.shape().lengths(), [8, 8]);
/// assert_eq!(map.get(4 * 8 + 3), 1.0);
/// // Without the template's corners. A mask is whatever is an image, of any type of samples.
/// let mask = [0u8, 1, 0, 1, 1, 1, 0, 1, 0];
/// let mask = View::new(&mask, Shape::new(&[3, 3])?)?;
/// assert_eq!(match_template(&image, &template, Some(&mask), Measure::Zncc)?.get(4 * 8 + 3), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`convolve`]; a constant template for zncc (`ConstantTemplate`), a zero one for ncc and nssd (`ZeroTemplate`),
/// one that is not finite (`NonfiniteTemplate`); a mask of another shape (`MaskShape`), with weights that are negative
/// or not finite, or with none that is positive (`MaskInvalid`).
pub fn match_template(
    image: &impl AsImage,
    template: &impl AsImage,
    mask: Option<&dyn AsImage>,
    measure: Measure,
) -> Result<ScoreMap, ExecError> {
    compute(Op::Match(measure), image.as_image(), template.as_image(), mask, Mode::Valid, Boundary::Zero)
}

/// The local correlation coefficients of an image and a template: zncc over any extent and boundary.
///
/// `r_b = sum (P - mean P)(t - mean t) / sqrt(sum (P - mean P)^2 sum (t - mean t)^2)`, unitless, in `[-1, 1]`; exactly
/// 0 where a panel, extended samples included, is constant. It does not change with the scale or the offset of image or
/// template. Error and NaN are those of [`match_template`]. Source: Lewis, "Fast Normalized Cross-Correlation", 1995.
///
/// # Errors
/// As [`match_template`].
pub fn lcc(
    image: &impl AsImage,
    template: &impl AsImage,
    mode: Mode,
    boundary: Boundary,
) -> Result<ScoreMap, ExecError> {
    compute(Op::Match(Measure::Zncc), image.as_image(), template.as_image(), None, mode, boundary)
}

fn compute(
    op: Op,
    image: AnyView<'_>,
    template: AnyView<'_>,
    mask: Option<&dyn AsImage>,
    mode: Mode,
    boundary: Boundary,
) -> Result<ScoreMap, ExecError> {
    let spec = Spec::new(op, image.dtype(), image.shape(), template.dtype(), template.shape(), mode)?
        .with_channels(image.channels())?
        .with_mask(mask_kind(mask))?
        .with_boundary(boundary)?;
    let mut maps = Planner::new()?.plan(&spec)?.execute(&[image], &[template], mask)?;
    Ok(maps.remove(0))
}
