//! One call for one result: each function plans, binds and executes. For more than one image, make a plan.

use flcc_core::boundary::Boundary;
use flcc_core::error::ExecError;
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::score::ScoreMap;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;

use crate::cpu::bind::mask_kind;
use crate::planner::Planner;

/// `y_b = sum_k P_b[k] t[T-1-k]`, the convolution of an image with a template. The template is flipped: scipy's
/// `signal.convolve(image, template, mode)`.
///
/// # Errors
/// Shapes that do not go together; see [`Spec::new`].
pub fn convolve(image: &AnyView<'_>, template: &AnyView<'_>, mode: Mode, boundary: Boundary) -> Result<ScoreMap, ExecError> {
    compute(Op::Convolve, image, template, None, mode, boundary)
}

/// `y_b = sum_k P_b[k] t[k]`, the cross-correlation of an image with a template. Nothing is flipped: scipy's
/// `signal.correlate(image, template, mode)`.
///
/// # Errors
/// As [`convolve`].
pub fn correlate(image: &AnyView<'_>, template: &AnyView<'_>, mode: Mode, boundary: Boundary) -> Result<ScoreMap, ExecError> {
    compute(Op::Correlate, image, template, None, mode, boundary)
}

/// The score of every place of the image where the whole template lies inside it (mode valid): output position `b` is the
/// template's first sample. With a mask, only samples of positive weight count.
///
/// ```
/// use flcc_runtime::{Measure, Shape, View, match_template};
///
/// let image: Vec<u8> = (0..100).map(|i| (i * 37 % 101) as u8).collect();
/// let image = View::new(&image, Shape::new(&[10, 10])?)?;
/// let template = image.part([0, 4, 3], Shape::new(&[3, 3])?)?;
/// let map = match_template(&image.into(), &template.into(), None, Measure::Zncc)?;
/// assert_eq!(map.shape().lengths(), [8, 8]);
/// assert_eq!(map.get(4 * 8 + 3), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`convolve`]; a constant template for zncc, a zero one for ncc and nssd, one that is not finite; a bad mask.
pub fn match_template(
    image: &AnyView<'_>,
    template: &AnyView<'_>,
    mask: Option<&AnyView<'_>>,
    measure: Measure,
) -> Result<ScoreMap, ExecError> {
    compute(Op::Match(measure), image, template, mask, Mode::Valid, Boundary::Zero)
}

/// The local correlation coefficients of an image and a template: zncc over any extent and boundary.
///
/// # Errors
/// As [`match_template`].
pub fn lcc(image: &AnyView<'_>, template: &AnyView<'_>, mode: Mode, boundary: Boundary) -> Result<ScoreMap, ExecError> {
    compute(Op::Match(Measure::Zncc), image, template, None, mode, boundary)
}

fn compute(
    op: Op,
    image: &AnyView<'_>,
    template: &AnyView<'_>,
    mask: Option<&AnyView<'_>>,
    mode: Mode,
    boundary: Boundary,
) -> Result<ScoreMap, ExecError> {
    let spec = Spec::new(op, image.dtype(), image.shape(), template.dtype(), template.shape(), mode)?
        .with_channels(image.channels())?
        .with_mask(mask_kind(mask))?
        .with_boundary(boundary)?;
    let mut maps = Planner::new()?.plan(&spec)?.execute(&[*image], &[*template], mask)?;
    Ok(maps.remove(0))
}
