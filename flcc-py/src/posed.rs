//! Places of a template that may stand turned and scaled in an image.

use flcc_runtime::pose::{self, Poses};
use flcc_runtime::{AnyView, PosedOptions, mask_kind};
use pyo3::prelude::*;

use crate::arguments;
use crate::arrays::Array;
use crate::calls::matching;
use crate::claims::Call;
use crate::errors::MATCHING;
use crate::found::{options, posed_records};
use crate::gate;
use crate::masked;
use crate::plan::shape;
use crate::planning::{self, Settings};
use crate::problem::{self, Words};
use crate::watch::{self, Progress};

/// The best places of a template that may stand turned and scaled in an image, and how it stands there.
///
/// Every angle is looked for with every scale. A template that is turned by ``a`` and scaled by ``s`` shows at ``(y,
/// x)`` from its middle what it has at ``((y cos a + x sin a) / s, (x cos a - y sin a) / s)`` from there, ``y``
/// downwards: by cubic convolution of its samples (Keys, 1981), or under ``mask`` by linear interpolation of those that
/// count; either is widened by ``1 / s`` where ``s`` is below 1. What lies beyond its outer samples does not count. By
/// multiples of 90 degrees at scale 1 its samples are the template's own. Scores are those of :func:`match_template`
/// with that template and the mask of what counts, at every place where all of it lies inside the image.
///
/// Parameters
/// ----------
/// image, template : array_like
///     As for :func:`match_template`, of the CPU. Volumes turn plane by plane, about their slowest axis; signals are
///     scaled alone.
/// angles : float or array_like
///     Degrees, counterclockwise as an image is looked at. :func:`fine_angle` has the largest step that misses nothing.
/// scales : float or array_like
///     Factors, 2 for twice as large along every axis, from 1/64 to 64.
/// k : int, optional
///     At most so many places, of all angles and scales together; by default 1, or all that ``threshold`` leaves.
/// threshold : float, optional
///     Only scores at least as good: for nssd not above it.
/// min_distance : int, optional
///     How far from a template's middle, on every axis, there is no other's; by default half the template's smallest
///     side, at least 1.
/// exclude_border : int
///     So many positions at each end of every axis of a turned template's scores are left out.
/// subpixel : bool or {"quadratic", "gauss", "cubic", "septic"}, optional
///     Whether and how ``middle`` is told below a sample; True is the most exact.
/// coarse : int, optional
///     Poses are looked for in an image so many times smaller first, and the best are followed to the whole image: much
///     faster for many angles and scales. What may be missed is what the smaller image does not show; scores are those
///     of the whole image all the same. 8 samples of the template's smallest side must be left.
/// finest : float, optional
///     Degrees: how each place's template stands is then looked for between the angles and scales as well, in steps
///     halved until those of angles are no larger. Of places that come near each other the best stays.
/// measure : {"zncc", "lcc", "ncc", "nssd"}
///     One that does not grow with the template.
/// mask : array_like, optional
///     Weights of the template's samples, which turn with it: its shape, finite, none negative. With a disc all angles
///     are alike.
/// channel_axis, method, device, accuracy, dtype, threads, progress
///     As for :func:`match_template`.
///
/// Returns
/// -------
/// ndarray
///     Structured, best first: ``middle``, where the template's middle lies in the image, float64 for each axis;
///     ``score``; ``angle`` in degrees; ``scale``; ``position`` of the first sample of the box around the turned
///     template, and ``shape`` of that box, int64 for each axis.
///
/// Raises
/// ------
/// ValueError
///     A wrong value; no angle and scale by which the template fits in the image. Those by which it does not are left
///     out where others do.
/// TypeError
///     A wrong type.
///
/// Examples
/// --------
/// >>> import flcc, numpy as np
/// >>> image = np.random.default_rng(1).random((100, 120))
/// >>> template = np.rot90(image[20:28, 30:37])    # stands turned by 270 degrees in the image
/// >>> for found in flcc.find_posed(image, template, angles=range(0, 360, 90)):
/// ...     print(found["middle"], round(found["score"], 6), found["angle"], found["position"], found["shape"])
/// [23.5 33. ] 1.0 270.0 [20 30] [8 7]
#[pyfunction]
#[pyo3(signature = (image, template, *, angles = vec![0.0], scales = vec![1.0], k = None, threshold = None,
    min_distance = None, exclude_border = 0, subpixel = None, coarse = None, finest = None, measure = "zncc",
    mask = None, channel_axis = None, method = "auto", device = "auto", accuracy = "promised", dtype = None,
    threads = None, progress = None),
    text_signature = "(image, template, *, angles=0.0, scales=1.0, k=None, threshold=None, min_distance=None, \
    exclude_border=0, subpixel=None, coarse=None, finest=None, measure=\"zncc\", mask=None, channel_axis=None, \
    method=\"auto\", device=\"auto\", accuracy=\"promised\", dtype=None, threads=None, progress=None)")]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn find_posed<'py>(
    py: Python<'py>,
    image: &Bound<'py, PyAny>,
    template: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::angles)] angles: Vec<f64>,
    #[pyo3(from_py_with = arguments::scales)] scales: Vec<f64>,
    #[pyo3(from_py_with = arguments::optional::k)] k: Option<i64>,
    #[pyo3(from_py_with = arguments::optional::threshold)] threshold: Option<f64>,
    #[pyo3(from_py_with = arguments::optional::min_distance)] min_distance: Option<i64>,
    #[pyo3(from_py_with = arguments::exclude_border)] exclude_border: i64,
    subpixel: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = arguments::optional::coarse)] coarse: Option<usize>,
    #[pyo3(from_py_with = arguments::optional::finest)] finest: Option<f64>,
    #[pyo3(from_py_with = arguments::measure)] measure: &str,
    mask: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = arguments::optional::channel_axis)] channel_axis: Option<isize>,
    #[pyo3(from_py_with = arguments::method)] method: &str,
    #[pyo3(from_py_with = arguments::device)] device: &str,
    #[pyo3(from_py_with = arguments::accuracy)] accuracy: &str,
    dtype: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = arguments::optional::threads)] threads: Option<i64>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |error| MATCHING.spec(error);
    let poses = Poses::grid(&angles, &scales).map_err(wrong)?;
    let peaks = options(k, threshold, min_distance, exclude_border, subpixel)?;
    let dtype = problem::result_type("dtype", dtype)?;
    let words = Words { op: matching(measure)?, mode: "full", boundary: "zero", cval: 0.0, accuracy, dtype };
    let settings = Settings::new(method, device, threads).map_err(wrong)?;
    let progress = Progress::new(progress)?;

    let call = Call::new();
    let image = Array::read("image", image, channel_axis, call)?;
    let template = Array::read_small("template", template, channel_axis, call)?;
    let mask = mask.map(|mask| Array::read_small("mask", mask, None, call)).transpose()?;
    let (image, template) = (image.view().map_err(wrong)?, template.view().map_err(wrong)?);
    let mask: Option<AnyView<'_>> = mask.as_ref().map(|mask| mask.view().map_err(wrong)).transpose()?;
    let kind = mask_kind(mask.as_ref().map(|mask| mask as _));
    let spec = words.spec((&image).into(), &template, 1, kind).map_err(wrong)?;
    let planner = planning::planner(py, &settings).map_err(wrong)?;
    let told = PosedOptions { mask, peaks, coarse, finest };
    let estimate = masked::estimate(image.shape().len() * poses.all().len());
    let found = watch::run(py, MATCHING, estimate, progress.as_ref(), |control| {
        let matcher = gate::planning(|| planner.posed_with(&spec, &template, &poses, &told, control))?;
        let search = || matcher.search(&image, &told, control);
        // What lies between poses is planned while it is looked for.
        if finest.is_some() || coarse.is_some() { gate::planning(search) } else { search() }
    })?;
    posed_records(py, image.shape().axes(), &found)
}

/// The largest step, in degrees, by which a template may be turned so that its outermost sample moves by one.
///
/// It is ``1 / r`` in radians, ``r`` the distance from the middle of an image, or of each plane of a volume, to its
/// corner, at least 1. Templates found in steps of two or three times that lose little of their score.
///
/// Parameters
/// ----------
/// template_shape : tuple of int
///     Without the channels.
///
/// Returns
/// -------
/// float
///
/// Examples
/// --------
/// >>> import flcc
/// >>> round(flcc.fine_angle((52, 52)), 3)
/// 1.589
#[pyfunction]
pub fn fine_angle(template_shape: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (template, _) = shape("template_shape", template_shape, None)?;
    let template = template.nonempty("template_shape").map_err(|error| MATCHING.spec(error))?;
    Ok(pose::fine_angle(template))
}
