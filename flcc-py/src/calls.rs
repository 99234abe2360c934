//! One call for one result.

use flcc_runtime::{AnyView, DType, MaskKind, Masked, Measure, Mode, Op, Shape, Spec, mask_kind};
use numpy::PyUntypedArrayMethods;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::arguments;
use crate::arrays::Array;
use crate::claims::Call;
use crate::errors::{FILTERING, MATCHING, Names, value};
use crate::foreign::Kind;
use crate::masked::{self, Said};
use crate::planning::{self, Settings};
use crate::problem::{self, Words};
use crate::resident::{self, Resident, Target};
use crate::results::{Asked, Out, as_written};
use crate::watch::{self, Progress};

/// The arrays of one call.
struct Arrays<'a, 'py> {
    image: &'a Bound<'py, PyAny>,
    template: &'a Bound<'py, PyAny>,
    mask: Option<&'a Bound<'py, PyAny>>,
    channel_axis: Option<isize>,
    out: Option<&'a Bound<'py, PyAny>>,
    progress: Option<&'a Bound<'py, PyAny>>,
    said: Said<'a, 'py>,
    /// Of the settings, in words.
    asked: [&'a str; 2],
}

/// Plans, binds, executes, forgets.
fn compute<'py>(
    py: Python<'py>,
    names: Names,
    arrays: &Arrays<'_, 'py>,
    words: &Words<'_>,
    settings: &Settings,
) -> PyResult<Bound<'py, PyAny>> {
    let progress = Progress::new(arrays.progress)?;
    let call = Call::new();
    if let Some(image) = Resident::of(names.image, arrays.image, arrays.channel_axis)? {
        arrays.said.on_gpu()?;
        return on_gpu(py, names, (&image, arrays, call), words, settings, progress.as_ref());
    }
    let (asked, kind) = (Asked::new(arrays.out, call)?, Kind::of(arrays.image)?);
    let image = Array::read(names.image, arrays.image, arrays.channel_axis, call)?;
    let (template, mask) = small(names, arrays, call)?;
    let known = arrays.said.known(arrays.asked[0], arrays.asked[1], call)?;
    let wrong = |error| names.spec(error);
    let (image, template) = (image.view().map_err(wrong)?, template.view().map_err(wrong)?);
    let mask: Option<AnyView<'_>> = mask.as_ref().map(|mask| mask.view().map_err(wrong)).transpose()?;
    let spec =
        words.spec((&image).into(), &template, 1, mask_kind(mask.as_ref().map(|mask| mask as _))).map_err(wrong)?;
    let mut out = Out::of(py, &spec, None, asked, call)?;
    if let Some(known) = known {
        let (templates, planner) = ([template], planning::planner(py, settings).map_err(wrong)?);
        let masked = known.of(image, &templates, mask.as_ref())?;
        let mut outs = out.views().map_err(wrong)?;
        let estimate = masked::estimate(spec.out_shape().len());
        watch::run(py, names, estimate, progress.as_ref(), |control| {
            masked.execute_part(&spec, known.largest, &mut outs, &planner, control)
        })?;
        drop(outs);
        return out.finish(&kind);
    }
    let planned = planning::planned(py, &spec, settings).map_err(|error| names.plan(error))?;
    let mut outs = out.views().map_err(wrong)?;
    watch::run(py, names, planning::estimate(&planned.plan), progress.as_ref(), |control| {
        let matcher = planned.plan.bind(&[template], mask.as_ref().map(|mask| mask as _))?;
        planned.with_scratch(&matcher, |scratch| matcher.execute_into(&[image], &mut outs, scratch, control))
    })?;
    drop(outs);
    out.finish(&kind)
}

/// The template and the mask.
fn small<'py>(names: Names, arrays: &Arrays<'_, 'py>, call: Call) -> PyResult<(Array<'py>, Option<Array<'py>>)> {
    let template = Array::read_small(names.template, arrays.template, arrays.channel_axis, call)?;
    let mask = arrays.mask.map(|mask| Array::read_small("mask", mask, None, call)).transpose()?;
    Ok((template, mask))
}

/// The same of an image on a GPU, where its result is going to lie.
fn on_gpu<'py>(
    py: Python<'py>,
    names: Names,
    (image, arrays, call): (&Resident<'py>, &Arrays<'_, 'py>, Call),
    words: &Words<'_>,
    settings: &Settings,
    progress: Option<&Progress<'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    let wrong = |error| names.spec(error);
    let (template, mask) = small(names, arrays, call)?;
    let template = template.view().map_err(wrong)?;
    let mask: Option<AnyView<'_>> = mask.as_ref().map(|mask| mask.view().map_err(wrong)).transpose()?;
    let spec =
        words.spec(image.shown(), &template, 1, mask_kind(mask.as_ref().map(|mask| mask as _))).map_err(wrong)?;
    let settings = settings.on(image.device()).map_err(wrong)?;
    let mut out = Target::of((image, image), &spec, &[], arrays.out)?;
    let planned = planning::planned(py, &spec, &settings).map_err(|error| names.plan(error))?;
    let (image, mut results) = (image.view(names.image)?, out.view()?);
    watch::run(py, names, planning::estimate(&planned.plan), progress, |control| {
        let matcher = planned.plan.bind(&[template], mask.as_ref().map(|mask| mask as _))?;
        planned.with_scratch(&matcher, |scratch| matcher.execute_on_device(&image, &mut results, scratch, control))
    })?;
    out.finish()
}

/// The result's type: what is asked for, else that of `out`, else the library's choice.
pub fn result_type(dtype: Option<&Bound<'_, PyAny>>, out: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    if let (None, Some(out)) = (dtype, out) {
        if let Some(kind) = resident::written_type(out)? {
            return problem::result_type("out", Some(PyString::new(out.py(), &kind).as_any()));
        }
        if let Some(out) = as_written(out)? {
            let own = out.dtype();
            return problem::result_type("out", Some(own.as_any()));
        }
    }
    problem::result_type("dtype", dtype)
}

/// The score of the template at every place of the image.
///
/// Measures: ``zncc`` (or ``lcc``), zero-mean normalised cross-correlation, in [-1, 1]; ``ncc``, without the means;
/// ``cc``, the sum of products; ``ssd``, ``nssd`` and ``sad``, of squared, normalised squared and absolute differences,
/// where the smallest is best. Mode ``valid`` gives one score for every place where the template lies inside of the
/// image, ``same`` one for every sample, ``full`` one for every place where they touch. Outside of the image lies what
/// ``boundary`` says: ``zero``, ``constant`` (``cval``), ``replicate``, ``reflect``, ``mirror`` or ``wrap``, or the
/// name that numpy, SciPy or OpenCV has for it.
///
/// Parameters
/// ----------
/// image, template : array_like
///     Real numbers along 1 to 3 axes. uint8, uint16, float32 and float64 are looked at where they lie, with any
///     strides; other types become float32 or float64 where that holds each value, and are refused where not.
///     An image may lie on a GPU, as an array of CuPy or a tensor of torch: it is computed there, after the work of the
///     current stream, and its result stays there.
/// measure : str
/// mode : str
/// boundary : str
/// cval : float
///     What lies outside with boundary ``constant``; 0 with others.
/// mask : array_like, optional
///     Weights of the template's samples: its shape, finite, none negative.
/// image_mask : array_like, optional
///     Weights of the image's samples: its shape without channels, finite, none negative. What a sample holds does not
///     matter where its weight is 0. A panel's weights are both masks' product, and means and norms are taken under it,
///     of the template too, so scores are within the promise of those of the known samples alone. With boundary
///     ``unknown`` so are samples outside of the image. Computed on the CPU, by methods of its own choice.
/// min_overlap : float
///     From 0 to 1: where less than this share of the template's weights lies on known samples, ``zncc`` and ``ncc``
///     are 0 and ``nssd`` is 1.
/// channel_axis : int, optional
///     The axis of colours, over which all sums go.
/// method : {"auto", "direct", "fourier", "separable"}
/// device : {"auto", "cpu", "cuda", "cuda:NUMBER"}
/// accuracy : {"promised", "fast", "exact"}
///     Promised: normalised scores within 1e-5 of the exact value, 1e-11 in float64. Exact: of integers, every sum.
/// dtype : dtype, optional
///     float32 or float64; by default float64 if an array is that, else float32.
/// threads : int, optional
///     By default one a core.
/// out : ndarray, optional
///     Where the result goes. It may be an argument's memory, and no other call's. It lies where the image lies.
/// progress : callable or tqdm bar, optional
///     Called with (done, total) some times a second; of a bar ``total`` is set and ``update`` called.
///
/// Returns
/// -------
/// ndarray
///     Of mode valid, position ``p`` is the score of the template with its first sample at ``p``.
///     A tensor where the image is a tensor of torch, and an array of CuPy where it is one of those.
///
/// Examples
/// --------
/// >>> import flcc, numpy as np
/// >>> image = np.random.default_rng(1).integers(0, 256, (50, 60), dtype=np.uint8)
/// >>> scores = flcc.match_template(image, image[20:28, 30:37])
/// >>> scores.shape, scores.dtype.name
/// ((43, 54), 'float32')
/// >>> [int(at) for at in np.unravel_index(scores.argmax(), scores.shape)]
/// [20, 30]
#[pyfunction]
#[pyo3(signature = (image, template, *, measure = "zncc", mode = "valid", boundary = "zero", cval = 0.0, mask = None,
    image_mask = None, min_overlap = 0.0, channel_axis = None, method = "auto", device = "auto",
    accuracy = "promised", dtype = None, threads = None, out = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn match_template<'py>(
    py: Python<'py>,
    image: &Bound<'py, PyAny>,
    template: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::measure)] measure: &str,
    #[pyo3(from_py_with = arguments::mode)] mode: &str,
    #[pyo3(from_py_with = arguments::boundary)] boundary: &str,
    #[pyo3(from_py_with = arguments::cval)] cval: f64,
    mask: Option<&Bound<'py, PyAny>>,
    image_mask: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = arguments::min_overlap)] min_overlap: f64,
    #[pyo3(from_py_with = arguments::optional::channel_axis)] channel_axis: Option<isize>,
    #[pyo3(from_py_with = arguments::method)] method: &str,
    #[pyo3(from_py_with = arguments::device)] device: &str,
    #[pyo3(from_py_with = arguments::accuracy)] accuracy: &str,
    dtype: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = arguments::optional::threads)] threads: Option<i64>,
    out: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = result_type(dtype, out)?;
    let said = Said { image_mask, boundary, min_overlap, largest: 0.0 };
    let words = Words { op: matching(measure)?, mode, boundary: said.outside(), cval, accuracy, dtype };
    let settings = Settings::new(method, device, threads).map_err(|error| MATCHING.spec(error))?;
    let asked = [method, device];
    let arrays = Arrays { image, template, mask, channel_axis, out, progress, said, asked };
    compute(py, MATCHING, &arrays, &words, &settings)
}

/// The scores of a block of an image of which not all is known, mode valid: of `flcc.dask`, which takes what lies
/// outside of the image into the block, as [`Masked::execute_part`] has it.
#[pyfunction]
#[pyo3(name = "_match_block", signature = (image, template, image_mask, largest, *, measure, mask, min_overlap,
    channel_axis, accuracy, dtype))]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn match_block<'py>(
    py: Python<'py>,
    image: &Bound<'py, PyAny>,
    template: &Bound<'py, PyAny>,
    image_mask: &Bound<'py, PyAny>,
    largest: f64,
    measure: &str,
    mask: Option<&Bound<'py, PyAny>>,
    min_overlap: f64,
    channel_axis: Option<isize>,
    accuracy: &str,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = result_type(dtype, None)?;
    let said = Said { image_mask: Some(image_mask), boundary: "zero", min_overlap, largest };
    let words = Words { op: matching(measure)?, mode: "valid", boundary: "zero", cval: 0.0, accuracy, dtype };
    let asked = ["auto", "cpu"];
    let settings = Settings::new(asked[0], asked[1], Some(1)).map_err(|error| MATCHING.spec(error))?;
    let arrays = Arrays { image, template, mask, channel_axis, out: None, progress: None, said, asked };
    compute(py, MATCHING, &arrays, &words, &settings)
}

/// How many results such a block has along each axis, by the text of the whole's spec.
#[pyfunction]
#[pyo3(name = "_block_lengths")]
pub fn block_lengths<'py>(py: Python<'py>, spec: &str) -> PyResult<Bound<'py, PyTuple>> {
    let block = spec.parse::<Spec>().and_then(|spec| Masked::block(&spec)).map_err(|error| MATCHING.spec(error))?;
    PyTuple::new(py, block.lengths())
}

/// A measure by its name.
pub fn matching(measure: &str) -> PyResult<Op> {
    let measure = if measure == "lcc" { "zncc" } else { measure };
    Ok(Op::Match(measure.parse::<Measure>().map_err(|error| MATCHING.spec(error))?))
}

macro_rules! filter {
    ($(#[doc = $doc:literal])* $name:ident, $op:expr) => {
        $(#[doc = $doc])*
        #[pyfunction]
        #[pyo3(signature = (in1, in2, mode = "full", *, boundary = "zero", cval = 0.0, channel_axis = None,
            method = "auto", device = "auto", accuracy = "promised", dtype = None, threads = None, out = None,
            progress = None))]
        #[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
        pub fn $name<'py>(
            py: Python<'py>,
            in1: &Bound<'py, PyAny>,
            in2: &Bound<'py, PyAny>,
            #[pyo3(from_py_with = arguments::mode)] mode: &str,
            #[pyo3(from_py_with = arguments::boundary)] boundary: &str,
            #[pyo3(from_py_with = arguments::cval)] cval: f64,
            #[pyo3(from_py_with = arguments::optional::channel_axis)] channel_axis: Option<isize>,
            #[pyo3(from_py_with = arguments::method)] method: &str,
            #[pyo3(from_py_with = arguments::device)] device: &str,
            #[pyo3(from_py_with = arguments::accuracy)] accuracy: &str,
            dtype: Option<&Bound<'py, PyAny>>,
            #[pyo3(from_py_with = arguments::optional::threads)] threads: Option<i64>,
            out: Option<&Bound<'py, PyAny>>,
            progress: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            let words = Words { op: $op, mode, boundary, cval, accuracy, dtype: result_type(dtype, out)? };
            let settings = Settings::new(method, device, threads).map_err(|error| FILTERING.spec(error))?;
            let (said, asked) = (Said::nothing(), [method, device]);
            let arrays =
                Arrays { image: in1, template: in2, mask: None, channel_axis, out, progress, said, asked };
            compute(py, FILTERING, &arrays, &words, &settings)
        }
    };
}

filter! {
    /// The convolution of two arrays: in2 is flipped and laid over in1.
    ///
    /// Arrays, boundaries and the other keywords are those of :func:`match_template`. Modes are SciPy's, but that mode
    /// ``valid`` with an in2 that is longer than in1 is an error. Sums of 8- and 16-bit integers are exact below 2**53,
    /// and then rounded once to the result's type.
    ///
    /// Examples
    /// --------
    /// >>> import flcc
    /// >>> flcc.convolve([1, 2, 3], [0, 1, 0.5])
    /// array([0. , 1. , 2.5, 4. , 1.5])
    convolve, Op::Convolve
}

filter! {
    /// The cross-correlation of two arrays: in2 is laid over in1 as it is.
    ///
    /// Arrays, boundaries and the other keywords are those of :func:`match_template`, modes those of :func:`convolve`;
    /// :func:`correlation_lags` says where in2 lies for each value.
    ///
    /// Examples
    /// --------
    /// >>> import flcc
    /// >>> flcc.correlate([1, 2, 3], [0, 1, 0.5])
    /// array([0.5, 2. , 3.5, 3. , 0. ])
    correlate, Op::Correlate
}

/// Where the first sample of in2 lies in in1, for each value of a correlation of one axis.
///
/// Examples
/// --------
/// >>> import flcc
/// >>> flcc.correlation_lags(3, 2, mode="full")
/// array([-1,  0,  1,  2])
#[pyfunction]
#[pyo3(signature = (in1_len, in2_len, mode = "full"))]
pub fn correlation_lags<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = arguments::in1_len)] in1_len: usize,
    #[pyo3(from_py_with = arguments::in2_len)] in2_len: usize,
    #[pyo3(from_py_with = arguments::mode)] mode: &str,
) -> PyResult<Bound<'py, PyAny>> {
    for (argument, len) in [("in1_len", in1_len), ("in2_len", in2_len)] {
        if len == 0 {
            return Err(value(argument, "at least 1", "0"));
        }
    }
    let lags = || {
        let (image, template) = (Shape::new(&[in1_len])?, Shape::new(&[in2_len])?);
        let region = mode.parse::<Mode>()?.region(image, template)?;
        let first = region.first_place(template)[2];
        Ok((first, first + region.shape.len() as i64))
    };
    let (first, end) = lags().map_err(|error| FILTERING.spec(error))?;
    // numpy says where there is no memory for so many.
    py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "arange"), (first, end, 1, "i8"))
}

/// The kind of a mask by its name, where there is no mask to look at.
pub fn mask_named(name: Option<&str>) -> PyResult<MaskKind> {
    match name {
        None => Ok(MaskKind::None),
        Some("binary") => Ok(MaskKind::Binary),
        Some("weights") => Ok(MaskKind::Weights),
        Some(other) => Err(value("mask", "None, binary or weights", other)),
    }
}
