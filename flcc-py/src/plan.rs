//! Plans, matchers and streams.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flcc_runtime::core::error::counted;
use flcc_runtime::{
    AnyView, AnyViewMut, Control, DType, Effort, ExecError, Op, Peak, PeakOptions, Pixels, Platform, Scratch, Shape,
    Spec, SpecError, Stream as Images,
};
use numpy::{PyArray1, PyArrayDescr, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyString, PyTuple};

use crate::arguments;
use crate::arrays::Array;
use crate::calls::mask_named;
use crate::claims::Call;
use crate::errors::{MATCHING, value, wrong_type};
use crate::foreign::Kind;
use crate::found::{options, records};
use crate::gate;
use crate::planning::{self, Device, Settings};
use crate::problem::{self, Words};
use crate::queue::Queue;
use crate::regions::{self, Runs};
use crate::resident::{Resident, Target};
use crate::results::{Asked, Out};
use crate::types::several;
use crate::watch::{self, Progress};

/// How a problem is computed: chosen once, for any number of images and templates of these shapes and types.
///
/// Made by :func:`plan`. Several threads may use one at once.
#[pyclass(frozen, module = "flcc")]
#[derive(Clone)]
pub struct Plan {
    plan: flcc_runtime::Plan,
    settings: Settings,
    channel_axis: Option<isize>,
}

/// A plan with templates bound to it: their sums, spectra or factors are made once and run on every image.
///
/// Made by :meth:`Plan.bind`. Several threads may use one at once.
#[pyclass(frozen, module = "flcc")]
pub struct Matcher {
    plan: Plan,
    matcher: flcc_runtime::Matcher,
    /// Whether there is an axis of templates, since a list of them was bound.
    stacked: bool,
    /// What runs. Locked by threads that are attached to the interpreter alone, and never while Python is called.
    engine: Mutex<Arc<Engine>>,
    /// What runs on GPUs by their numbers, where images lie that `engine` does not take. Locked as that.
    on_gpus: Mutex<Vec<(usize, Arc<Engine>)>>,
}

/// What runs of a matcher share.
struct Engine {
    matcher: flcc_runtime::Matcher,
    /// Buffers of the last run.
    spare: Mutex<Option<Scratch>>,
    /// How many forks lay before this process when it was last asked for.
    forks: AtomicU64,
    /// Runs that have not ended.
    running: AtomicUsize,
}

/// An engine while it runs.
struct Running(Arc<Engine>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    fn new(matcher: flcc_runtime::Matcher) -> Engine {
        let (forks, running) = (AtomicU64::new(gate::forks()), AtomicUsize::new(0));
        Engine { matcher, spare: Mutex::new(None), forks, running }
    }

    fn with_scratch<R>(&self, run: impl FnOnce(&mut Scratch) -> R) -> R {
        with_spare(&self.matcher, &self.spare, run)
    }
}

/// Runs with the scratch that the last run of a matcher left, or new one.
fn with_spare<R>(
    matcher: &flcc_runtime::Matcher,
    spare: &Mutex<Option<Scratch>>,
    run: impl FnOnce(&mut Scratch) -> R,
) -> R {
    let kept = spare.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut scratch = kept.unwrap_or_else(|| matcher.make_scratch());
    let result = run(&mut scratch);
    *spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
    result
}

/// Results of images as they come; an iterator.
#[pyclass(frozen, module = "flcc")]
pub struct Stream {
    of: Py<Matcher>,
    images: Py<PyIterator>,
    /// Beside the number of forks before it was made. Locked where no fork interrupts alone.
    stream: Mutex<(u64, Images)>,
}

/// Chooses how to compute a problem.
///
/// Parameters
/// ----------
/// spec : str or tuple of int
///     The text of a spec, such as ``"zncc:f32:2000x2000*16x16:valid"``, or the shape of the images.
/// template_shape : tuple of int
///     Beside the shape of the images.
/// image_dtype, template_dtype : dtype
///     uint8, uint16, float32 (the default) or float64; that of the template is by default that of the images. Beside
///     ``dtype``, which is the type of the results, that of the images is to be said.
/// measure : str
///     One of the measures, ``conv`` or ``corr``; by default ``zncc``.
/// mode, boundary, cval, accuracy, dtype, channel_axis
///     As for :func:`match_template`.
/// mask : {None, "binary", "weights"}
///     What kind of mask is going to be bound.
/// templates : int
///     How many templates of the one shape are going to be bound, as a list.
/// method, device, threads
///     As for :func:`match_template`.
/// effort : {"estimate", "measure", "patient"}
///     Whether to time the promising methods on made-up data. What is learnt is used by later calls:
///     :func:`export_wisdom`.
/// memory_limit : int, optional
///     Bytes above images, templates and results.
///
/// Examples
/// --------
/// >>> import flcc, numpy as np
/// >>> image = np.random.default_rng(1).random((60, 70), dtype=np.float32)
/// >>> plan = flcc.plan("zncc:f32:60x70*5x6:valid")
/// >>> matcher = plan.bind(image[10:15, 20:26])
/// >>> print(matcher(image).shape, matcher.peaks(image)["position"])
/// (56, 65) [[10 20]]
/// >>> same = flcc.plan((60, 70), (5, 6))
/// >>> same.spec
/// 'zncc:f32:60x70*5x6:valid'
#[pyfunction]
#[pyo3(signature = (spec, template_shape = None, image_dtype = None, *, template_dtype = None, measure = None,
    mode = None, boundary = None, cval = None, mask = None, templates = None, channel_axis = None, accuracy = None,
    dtype = None, method = "auto", device = "auto", threads = None, effort = "estimate", memory_limit = None))]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn plan(
    py: Python<'_>,
    spec: &Bound<'_, PyAny>,
    template_shape: Option<&Bound<'_, PyAny>>,
    image_dtype: Option<&Bound<'_, PyAny>>,
    template_dtype: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::optional::measure)] measure: Option<&str>,
    #[pyo3(from_py_with = arguments::optional::mode)] mode: Option<&str>,
    #[pyo3(from_py_with = arguments::optional::boundary)] boundary: Option<&str>,
    #[pyo3(from_py_with = arguments::optional::cval)] cval: Option<f64>,
    #[pyo3(from_py_with = arguments::optional::mask)] mask: Option<&str>,
    #[pyo3(from_py_with = arguments::optional::templates)] templates: Option<usize>,
    #[pyo3(from_py_with = arguments::optional::channel_axis)] channel_axis: Option<isize>,
    #[pyo3(from_py_with = arguments::optional::accuracy)] accuracy: Option<&str>,
    dtype: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = arguments::method)] method: &str,
    #[pyo3(from_py_with = arguments::device)] device: &str,
    #[pyo3(from_py_with = arguments::optional::threads)] threads: Option<i64>,
    #[pyo3(from_py_with = arguments::effort)] effort: &str,
    #[pyo3(from_py_with = arguments::optional::memory_limit)] memory_limit: Option<usize>,
) -> PyResult<Plan> {
    let wrong = |error| MATCHING.spec(error);
    let settings = Settings::new(method, device, threads).map_err(wrong)?;
    let settings = Settings { effort: effort.parse().map_err(wrong)?, memory_limit, ..settings };
    let (spec, channel_axis) = if let Ok(text) = spec.cast::<PyString>() {
        let said = [
            ("template_shape", template_shape.is_some()),
            ("image_dtype", image_dtype.is_some()),
            ("template_dtype", template_dtype.is_some()),
            ("measure", measure.is_some()),
            ("mode", mode.is_some()),
            ("boundary", boundary.is_some()),
            ("cval", cval.is_some()),
            ("mask", mask.is_some()),
            ("templates", templates.is_some()),
            ("accuracy", accuracy.is_some()),
            ("dtype", dtype.is_some()),
        ];
        if let Some((name, _)) = said.iter().find(|(_, said)| *said) {
            return Err(value(name, "nothing beside the text of a spec, which says it", "a value"));
        }
        let spec: Spec = text.to_str()?.parse().map_err(wrong)?;
        let axis = channel_axis.or((spec.channels() > 1).then_some(-1));
        (spec, axis)
    } else {
        let Some(template_shape) = template_shape else {
            return Err(wrong_type("template_shape", "the shape of the templates beside that of the images", "none"));
        };
        let (image, channels) = shape("image_shape", spec, channel_axis)?;
        let (template, of_template) = shape("template_shape", template_shape, channel_axis)?;
        if channels != of_template {
            let expected = format!("{channels} along channel_axis");
            return Err(value("template_shape", &expected, &of_template.to_string()));
        }
        if dtype.is_some() && image_dtype.is_none() {
            let expected = "the type of the images beside dtype, which is that of the results";
            return Err(wrong_type("image_dtype", expected, "none"));
        }
        let image_type = problem::dtype("image_dtype", image_dtype)?.unwrap_or(DType::F32);
        let template_type = problem::dtype("template_dtype", template_dtype)?.unwrap_or(image_type);
        let words = Words {
            op: measure.unwrap_or("zncc").parse::<Op>().map_err(|error| wrong(measured(error)))?,
            mode: mode.unwrap_or("valid"),
            boundary: boundary.unwrap_or("zero"),
            cval: cval.unwrap_or(0.0),
            accuracy: accuracy.unwrap_or("promised"),
            dtype: problem::result_type("dtype", dtype)?,
        };
        let (kind, count) = (mask_named(mask)?, templates.unwrap_or(1));
        let extent = words.mode.parse().map_err(wrong)?;
        let spec = Spec::new(words.op, image_type, image, template_type, template, extent)
            .and_then(|spec| words.finish(spec, channels, count, kind))
            .map_err(wrong)?;
        (spec, channel_axis)
    };
    if spec.images() > 1 {
        let expected = "one image at a time (no N@ in front of its shape, or 0@)";
        return Err(value("spec", expected, &counted(spec.images(), "image")));
    }
    let plan = planning::plan(py, &spec, &settings).map_err(|error| MATCHING.plan(error))?;
    Ok(Plan { plan, settings, channel_axis })
}

fn measured(error: SpecError) -> SpecError {
    SpecError { argument: "measure".into(), ..error }
}

/// A shape without its channels, and how many there are.
pub fn shape(argument: &str, given: &Bound<'_, PyAny>, channel_axis: Option<isize>) -> PyResult<(Shape, usize)> {
    let Ok(mut lengths) = given.extract::<Vec<usize>>() else {
        return Err(wrong_type(argument, "a tuple of lengths", &given.repr()?.to_string()));
    };
    let mut channels = 1;
    if let Some(axis) = channel_axis {
        let count = lengths.len() as isize;
        if axis < -count || axis >= count {
            let expected = format!("an axis of {argument}, from {} to {}", -count, count - 1);
            return Err(value("channel_axis", &expected, &axis.to_string()));
        }
        channels = lengths.remove(axis.rem_euclid(count) as usize);
    }
    let shape = Shape::new(&lengths).map_err(|error| value(argument, &error.expected, &error.got))?;
    Ok((shape, channels))
}

#[pymethods]
impl Plan {
    /// The result of an image and a template (a list of templates: results along a first axis).
    #[pyo3(signature = (image, template, *, mask = None, out = None, progress = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        template: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.bind(py, template, mask)?.run(py, image, None, out, progress)
    }

    /// Binds a template, or a list of as many as the plan is for, and a mask if it has one.
    ///
    /// Parameters
    /// ----------
    /// template : array_like, or list or tuple of arrays
    ///     Of the plan's shape and type. Results of a list lie along a first axis.
    /// mask : array_like, optional
    ///     Weights of the template's samples, where the plan was made with ``mask``, of its kind.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> image = np.array([1, 5, 2, 1, 6, 2, 1], np.float32)
    /// >>> plan = flcc.plan((7,), (3,), measure="ssd", templates=2)
    /// >>> matcher = plan.bind([image[:3], image[3:6]])
    /// >>> matcher(image)
    /// array([[ 0., 26., 33.,  1., 35.],
    ///        [ 1., 33., 42.,  0., 42.]], dtype=float32)
    #[pyo3(signature = (template, mask = None))]
    fn bind<'py>(
        &self,
        py: Python<'py>,
        template: &Bound<'py, PyAny>,
        mask: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Matcher> {
        let listed = several(template)?;
        let stacked = listed.is_some();
        self.matcher(py, &listed.unwrap_or_else(|| vec![template.clone()]), mask, stacked, self.channel_axis)
    }

    /// What was considered, and why this was chosen.
    fn explain(&self) -> String {
        self.plan.explain()
    }

    /// The problem, as text.
    #[getter]
    fn spec(&self) -> String {
        self.plan.spec().to_string()
    }

    /// The name of what computes.
    #[getter]
    fn kernel(&self) -> String {
        self.plan.kernel().to_string()
    }

    /// ``direct``, ``fourier`` or ``separable``.
    #[getter]
    fn method(&self) -> String {
        self.plan.method().to_string()
    }

    /// ``cpu`` or ``cuda``.
    #[getter]
    fn device(&self) -> String {
        self.plan.platform().to_string()
    }

    /// How many threads compute.
    #[getter]
    fn threads(&self) -> usize {
        self.plan.workers()
    }

    /// The shape of each result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.spec().out_shape().lengths())
    }

    /// The type of the results.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyArrayDescr> {
        match self.plan.spec().out_type() {
            DType::F64 => PyArrayDescr::of::<f64>(py),
            _ => PyArrayDescr::of::<f32>(py),
        }
    }

    /// Bytes that one execution takes above image, template and result.
    #[getter]
    fn scratch_bytes(&self) -> usize {
        self.plan.scratch_bytes()
    }

    /// Where the tiles that results are computed by begin, along each axis, and its length behind them.
    #[getter]
    fn seams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (plan, axes) = (self.of_regions(py)?, self.plan.spec().out_shape().axes());
        let seams = (0..axes).map(|axis| plan.seams(axis).map_err(|error| MATCHING.spec(error)));
        PyTuple::new(py, seams.collect::<PyResult<Vec<_>>>()?)
    }

    /// Regions of the result that cover it, for :meth:`Matcher.region`, as tuples of slices.
    ///
    /// None takes more than ``memory_limit`` bytes with what it looks at of the image, its result, scratch and bound
    /// templates. They begin and end where tiles do, so nothing is computed twice.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> image = np.random.default_rng(1).random((900, 800), dtype=np.float32)
    /// >>> plan = flcc.plan("zncc:f32:900x800*9x8:same,reflect", threads=1)
    /// >>> matcher = plan.bind(image[100:109, 200:208])
    /// >>> scores = np.empty(plan.shape, plan.dtype)
    /// >>> for region in plan.tiles(8_000_000):  # of a memory map, a zarr array or what else is sliced, too
    /// ...     scores[region] = matcher.region(matcher.cut(image, region), region)
    /// >>> np.array_equal(scores, matcher(image))
    /// True
    fn tiles<'py>(&self, py: Python<'py>, memory_limit: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let plan = self.of_regions(py)?;
        let grid = py.detach(|| plan.grid(memory_limit)).map_err(|error| MATCHING.spec(error))?;
        grid.iter().map(|region| regions::slices(py, region)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<flcc.Plan {} by {}>", self.spec(), self.kernel())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let Settings { method, device, threads, effort, memory_limit } = &self.settings;
        let settings = (method.to_string(), device.to_string(), threads, effort.to_string(), memory_limit);
        let arguments = (self.spec(), self.kernel(), settings, self.channel_axis).into_pyobject(py)?;
        Ok((py.import("flcc._flcc")?.getattr("_plan")?, arguments))
    }
}

impl Plan {
    /// The plan that regions are computed by: itself, or that of the CPU where the planner chose a GPU.
    fn of_regions(&self, py: Python<'_>) -> PyResult<flcc_runtime::Plan> {
        if self.plan.platform() == Platform::Cpu || self.settings.device != Device::Auto {
            return Ok(self.plan.clone());
        }
        let settings = Settings { device: Device::Cpu, effort: Effort::Estimate, ..self.settings.clone() };
        planning::plan(py, self.plan.spec(), &settings).map_err(|error| MATCHING.plan(error))
    }

    fn matcher<'py>(
        &self,
        py: Python<'py>,
        templates: &[Bound<'py, PyAny>],
        mask: Option<&Bound<'py, PyAny>>,
        stacked: bool,
        channel_axis: Option<isize>,
    ) -> PyResult<Matcher> {
        let wrong = |error| MATCHING.spec(error);
        let count = self.plan.spec().templates();
        if templates.len() != count {
            let expected = if count == 1 { "one template".into() } else { format!("a list of {count} templates") };
            return Err(value("template", &expected, &templates.len().to_string()));
        }
        let call = Call::new();
        let arrays = templates
            .iter()
            .map(|template| Array::read_small("template", template, channel_axis, call))
            .collect::<PyResult<Vec<_>>>()?;
        let views = arrays.iter().map(Array::view).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let mask = mask.map(|mask| Array::read_small("mask", mask, None, call)).transpose()?;
        let mask: Option<AnyView<'_>> = mask.as_ref().map(|mask| mask.view().map_err(wrong)).transpose()?;
        let bound = py.detach(|| self.plan.bind(&views, mask.as_ref().map(|mask| mask as _)));
        let matcher = bound.map_err(|error| MATCHING.exec(error))?;
        let engine = Mutex::new(Arc::new(Engine::new(matcher.clone())));
        Ok(Matcher { plan: self.clone(), matcher, stacked, engine, on_gpus: Mutex::default() })
    }
}

/// A plan that was pickled: with the same kernel where this machine has it, else with the one that it would choose.
#[pyfunction]
#[pyo3(name = "_plan")]
pub fn unpickled_plan(
    py: Python<'_>,
    spec: &str,
    kernel: &str,
    settings: (String, String, i64, String, Option<usize>),
    channel_axis: Option<isize>,
) -> PyResult<Plan> {
    let wrong = |error| MATCHING.spec(error);
    let spec: Spec = spec.parse().map_err(wrong)?;
    let (method, device, threads, effort, memory_limit) = settings;
    let settings = Settings::new(&method, &device, Some(threads)).map_err(wrong)?;
    let settings = Settings { memory_limit, ..settings };
    let chosen = planning::plan(py, &spec, &settings).map_err(|error| MATCHING.plan(error))?;
    let plan = if chosen.kernel().to_string() == kernel {
        chosen
    } else {
        planning::plan_by_kernel(py, &spec, &settings, kernel).map_err(|error| MATCHING.plan(error))?.unwrap_or(chosen)
    };
    let effort: Effort = effort.parse().map_err(wrong)?;
    Ok(Plan { plan, settings: Settings { effort, ..settings }, channel_axis })
}

/// A matcher that was pickled: with the same kernel where this machine has it, else with the one that templates take
/// that are bound to the plan.
#[pyfunction]
#[pyo3(name = "_matcher")]
pub fn unpickled_matcher<'py>(
    py: Python<'py>,
    plan: &Bound<'py, Plan>,
    templates: Vec<Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    stacked: bool,
    kernel: &str,
) -> PyResult<Matcher> {
    let plan = plan.get();
    let (spec, settings) = (plan.plan.spec(), &plan.settings);
    let channel_axis = (spec.channels() > 1).then_some(-1);
    let matcher = plan.matcher(py, &templates, mask, stacked, channel_axis)?;
    if matcher.kernel() == kernel {
        return Ok(matcher);
    }
    let named = planning::plan_by_kernel(py, spec, settings, kernel).map_err(|error| MATCHING.plan(error))?;
    let of = |named| Plan { plan: named, ..plan.clone() }.matcher(py, &templates, mask, stacked, channel_axis);
    named.map_or(Ok(matcher), of)
}

#[pymethods]
impl Matcher {
    /// The result of an image; of several templates that were bound as a list, results along a first axis.
    #[pyo3(signature = (image, *, out = None, progress = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, image, None, out, progress)
    }

    /// The best places in an image, without a map: keywords and result are those of :func:`find`.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> image = np.array([1, 5, 2, 1, 6, 2, 1], np.float32)
    /// >>> matcher = flcc.plan((7,), (3,), measure="ssd").bind(image[:3])
    /// >>> found = matcher.peaks(image, k=2)
    /// >>> found["position"][:, 0], found["score"]
    /// (array([0, 3]), array([0., 1.]))
    #[pyo3(signature = (image, *, k = None, threshold = None, min_distance = None, exclude_border = 0, subpixel = None,
        progress = None))]
    #[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python method as one of Rust")]
    fn peaks<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::optional::k)] k: Option<i64>,
        #[pyo3(from_py_with = arguments::optional::threshold)] threshold: Option<f64>,
        #[pyo3(from_py_with = arguments::optional::min_distance)] min_distance: Option<i64>,
        #[pyo3(from_py_with = arguments::exclude_border)] exclude_border: i64,
        subpixel: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options: PeakOptions = options(k, threshold, min_distance, exclude_border, subpixel)?;
        let progress = Progress::new(progress)?;
        let spec = self.plan.plan.spec();
        let tell = |found: Vec<Vec<Peak>>| {
            let places = vec![spec.region().first_place(spec.template()); found.len()];
            records(py, spec.image().axes(), &found, &places, &options, true)
        };
        if let Some(image) = Resident::of("image", image, self.plan.channel_axis)? {
            let running = self.running(py)?;
            let engine = self.on_gpu(py, &running.0, image.device())?;
            let (view, estimate) = (image.view("image")?, planning::estimate(engine.matcher.plan()));
            let (found, _) = watch::run(py, MATCHING, estimate, progress.as_ref(), |control| {
                let search =
                    |scratch: &mut Scratch| engine.matcher.search_resident(&view, &options, false, scratch, control);
                engine.with_scratch(search)
            })?;
            return tell(found.into_iter().map(|found| found.peaks).collect());
        }
        let image = Array::read("image", image, self.plan.channel_axis, Call::new())?;
        let image = image.view().map_err(|error| MATCHING.spec(error))?;
        let estimate = planning::estimate(&self.plan.plan);
        let running = self.running(py)?;
        let (found, _) = watch::run(py, MATCHING, estimate, progress.as_ref(), |control| {
            running.0.matcher.search(&[image], &options, false, control)
        })?;
        tell(found.into_iter().map(|found| found.peaks).collect())
    }

    /// A part of the result: ``region``, a slice for each axis of it, from what it looks at of the image.
    ///
    /// It equals that part of the whole result bit for bit. ``cutout`` is what :meth:`cut` cuts out, or what lies,
    /// along each axis, in the slices that :meth:`needs` lists; it may be whole along any axis. Regions that begin and
    /// end at ``plan.seams`` compute nothing twice.
    ///
    /// Only CPUs compute regions. Where ``device="auto"`` chose a GPU, regions are parts of what the CPU would compute;
    /// a plan of ``device="cuda"`` refuses.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> image = np.arange(8.0) ** 2
    /// >>> matcher = flcc.plan((8,), (3,), "f8", measure="corr", mode="valid").bind(np.array([1.0, 0.0, -1.0]))
    /// >>> matcher(image)
    /// array([ -4.,  -8., -12., -16., -20., -24.])
    /// >>> region = slice(2, 5)
    /// >>> matcher.region(matcher.cut(image, region), region)
    /// array([-12., -16., -20.])
    #[pyo3(signature = (cutout, region, *, out = None, progress = None))]
    fn region<'py>(
        &self,
        py: Python<'py>,
        cutout: &Bound<'py, PyAny>,
        region: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let region = regions::ranges(region, self.plan.plan.spec().out_shape())?;
        self.run(py, cutout, Some(&region), out, progress)
    }

    /// What a part of the result looks at of the image: for each axis of it the slices, mostly one, two at the ends of
    /// an image that is wrapped around.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> matcher = flcc.plan("corr:f64:1000000*5:same,wrap").bind(np.arange(5.0))
    /// >>> (runs,) = matcher.needs(slice(0, 100))
    /// >>> runs[0].start, runs[1]
    /// (0, slice(999998, 1000000, None))
    fn needs<'py>(&self, py: Python<'py>, region: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let needs = self.runs(region)?.into_iter().map(|runs| regions::slices(py, &runs));
        PyTuple::new(py, needs.collect::<PyResult<Vec<_>>>()?)
    }

    /// Cuts what a part of the result looks at out of the image: of anything of its shape that takes slices, such as an
    /// array of zarr or h5py or a memory map, of which nothing else is read.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> image = np.arange(1e6)
    /// >>> matcher = flcc.plan("corr:f64:1000000*5:same,wrap").bind(np.arange(5.0))
    /// >>> cutout = matcher.cut(image, slice(0, 100))
    /// >>> len(cutout) < 200_000, cutout[:2], cutout[-2:]
    /// (True, array([0., 1.]), array([999998., 999999.]))
    fn cut<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        region: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let spec = self.plan.plan.spec();
        let mut lengths = spec.image().lengths().to_vec();
        let mut runs = self.runs(region)?;
        if let Some(axis) = self.plan.channel_axis {
            let axis = axis.rem_euclid(lengths.len() as isize + 1) as usize;
            lengths.insert(axis, spec.channels());
            runs.insert(axis, std::iter::once(0..spec.channels()).collect());
        }
        let got: Vec<usize> = image.getattr(intern!(py, "shape"))?.extract()?;
        if got != lengths {
            return Err(value("image", &format!("the whole image, of shape {lengths:?}"), &format!("{got:?}")));
        }
        regions::cut(image, &runs)
    }

    /// The results of images as they come, computed as they are asked for. Images of other sizes are planned once each.
    ///
    /// Examples
    /// --------
    /// >>> import flcc, numpy as np
    /// >>> frames = np.random.default_rng(1).random((3, 40, 50), dtype=np.float32)
    /// >>> matcher = flcc.plan((40, 50), (4, 5)).bind(frames[1, 20:24, 30:35])
    /// >>> [round(float(scores.max()), 6) for scores in matcher.stream(frames)][1]
    /// 1.0
    fn stream(slf: &Bound<'_, Self>, images: &Bound<'_, PyAny>) -> PyResult<Stream> {
        let stream = Mutex::new((gate::forks(), slf.get().matcher.stream()));
        let images = images.try_iter().map_err(|error| {
            let got = images.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
            let raised = wrong_type("images", "an iterable of images", &got);
            raised.set_cause(images.py(), Some(error));
            raised
        })?;
        Ok(Stream { of: slf.clone().unbind(), images: images.unbind(), stream })
    }

    /// Room on a GPU for calls that return before they are computed, in the current stream of CuPy or torch: see
    /// :class:`Queue`.
    ///
    /// Parameters
    /// ----------
    /// device : int
    ///     The number of the GPU.
    /// extraordinary : {"told", "computed"}
    ///     What is done about samples that are not finite or out of what sums in single precision hold. The fastest
    ///     kernels do not serve them, and no one waits who might decide: they are told of (:attr:`Queue.unserved`), or
    ///     computed as all others by several kernels, which takes a few times as long where one would serve.
    ///
    /// Examples
    /// --------
    /// A run that is recorded once, and launched on what lies in ``image`` then::
    ///
    ///     matcher = flcc.plan((480, 640), (32, 32), device="cuda").bind(template)
    ///     queue = matcher.queue()
    ///     with cupy.cuda.Stream(non_blocking=True) as stream:
    ///         image, scores = cupy.zeros((480, 640), "f4"), cupy.empty((449, 609), "f4")
    ///         stream.begin_capture()
    ///         queue(image, out=scores)
    ///         graph = stream.end_capture()
    ///         graph.launch()
    #[pyo3(signature = (device = 0, *, extraordinary = "told"))]
    fn queue(&self, py: Python<'_>, device: usize, extraordinary: &str) -> PyResult<Queue> {
        let running = self.running(py)?;
        let engine = self.on_gpu(py, &running.0, device)?;
        Queue::new(py, &engine.matcher, device, extraordinary, (self.plan.channel_axis, self.stacked))
    }

    /// The plan's account, and what the templates changed in it.
    fn explain(&self) -> String {
        self.matcher.explain()
    }

    /// The plan.
    #[getter]
    fn plan(&self) -> Plan {
        self.plan.clone()
    }

    /// The name of what computes: the plan's, or that of its separable runner-up.
    #[getter]
    fn kernel(&self) -> String {
        self.matcher.kernel().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<flcc.Matcher {} by {}>", self.plan.spec(), self.kernel())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let spec = self.plan.plan.spec();
        let lengths = |channels: usize| {
            let mut lengths = spec.template().lengths().to_vec();
            lengths.extend((channels > 1).then_some(channels));
            lengths
        };
        let templates = PyList::empty(py);
        for template in self.matcher.templates() {
            templates.append(array(py, template, lengths(spec.channels()))?)?;
        }
        let mask = self.matcher.mask().map(|mask| array(py, mask, lengths(1))).transpose()?;
        let arguments = (self.plan.clone(), templates, mask, self.stacked, self.kernel()).into_pyobject(py)?;
        Ok((py.import("flcc._flcc")?.getattr("_matcher")?, arguments))
    }
}

/// Samples as an array.
fn array<'py>(py: Python<'py>, pixels: &Pixels, lengths: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match pixels {
        Pixels::U8(data) => PyArray1::from_slice(py, data).reshape(lengths)?.into_any(),
        Pixels::U16(data) => PyArray1::from_slice(py, data).reshape(lengths)?.into_any(),
        Pixels::F32(data) => PyArray1::from_slice(py, data).reshape(lengths)?.into_any(),
        Pixels::F64(data) => PyArray1::from_slice(py, data).reshape(lengths)?.into_any(),
    })
}

impl Matcher {
    fn run<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        region: Option<&[Range<usize>]>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let progress = Progress::new(progress)?;
        let call = Call::new();
        let argument = if region.is_some() { "cutout" } else { "image" };
        if let Some(image) = Resident::of(argument, image, self.plan.channel_axis)? {
            if region.is_some() {
                return Err(wrong_type(argument, "an array in memory that the CPU reads", "one on a GPU"));
            }
            let running = self.running(py)?;
            let engine = self.on_gpu(py, &running.0, image.device())?;
            return self.execute_on_gpu(py, &engine, &image, out, progress.as_ref());
        }
        let (asked, kind) = (Asked::new(out, call)?, Kind::of(image)?);
        let image = Array::read("image", image, self.plan.channel_axis, call)?;
        let running = self.running(py)?;
        let Engine { matcher, spare, .. } = &*running.0;
        if region.is_some() && matcher.regions().is_none() {
            let (matcher, spare) = (self.of_regions(py, matcher)?, Mutex::new(None));
            return self.execute(py, (&matcher, &spare), &image, region, (asked, kind, call), progress.as_ref());
        }
        self.execute(py, (matcher, spare), &image, region, (asked, kind, call), progress.as_ref())
    }

    /// What computes regions: itself, or the same templates on the CPU where the planner chose a GPU.
    fn of_regions(&self, py: Python<'_>, matcher: &flcc_runtime::Matcher) -> PyResult<flcc_runtime::Matcher> {
        if matcher.regions().is_some() || self.plan.settings.device != Device::Auto {
            return Ok(matcher.clone());
        }
        py.detach(|| gate::planning(|| matcher.on_cpu())).map_err(|error| MATCHING.exec(error))
    }

    /// The runs of samples along each axis of the image that a region looks at.
    fn runs(&self, region: &Bound<'_, PyAny>) -> PyResult<Runs> {
        let matcher = self.of_regions(region.py(), &self.matcher)?;
        let region = regions::ranges(region, self.plan.plan.spec().out_shape())?;
        regions::of(&matcher)?.needs(&region).map_err(|error| MATCHING.spec(error))
    }

    /// What runs. Threads that a forked process does not have may have left what they ran locked or half made: then it
    /// is bound again.
    fn running(&self, py: Python<'_>) -> PyResult<Running> {
        let engine = self.lock();
        let lost = engine.forks.load(Ordering::Relaxed) != gate::forks() && engine.running.load(Ordering::Relaxed) > 0;
        if !lost {
            engine.forks.store(gate::forks(), Ordering::Relaxed);
            engine.running.fetch_add(1, Ordering::Relaxed);
            return Ok(Running(Arc::clone(&engine)));
        }
        drop(engine);
        let again = py.detach(|| self.again()).map_err(|error| MATCHING.exec(error))?;
        again.running.fetch_add(1, Ordering::Relaxed);
        *self.lock() = Arc::clone(&again);
        Ok(Running(again))
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same templates, bound again.
    fn again(&self) -> Result<Arc<Engine>, ExecError> {
        let (plan, spec) = (self.matcher.plan(), self.matcher.plan().spec());
        let dense = |pixels, channels| AnyView::dense(pixels, spec.template(), channels);
        let templates = self.matcher.templates().iter().map(|pixels| dense(pixels, spec.channels()));
        let templates = templates.collect::<Result<Vec<_>, _>>()?;
        let mask = self.matcher.mask().map(|pixels| dense(pixels, 1)).transpose()?;
        Ok(Arc::new(Engine::new(plan.bind(&templates, mask.as_ref().map(|mask| mask as _))?)))
    }

    /// What runs on a GPU: an engine itself where it does, else the same templates there, bound when a first image of
    /// the plan's shape lies there.
    fn on_gpu(&self, py: Python<'_>, engine: &Arc<Engine>, device: usize) -> PyResult<Arc<Engine>> {
        if engine.matcher.devices().contains(&device) {
            return Ok(Arc::clone(engine));
        }
        let settings = self.plan.settings.on(device).map_err(|error| MATCHING.spec(error))?;
        let spec = engine.matcher.plan().spec();
        let known = || self.on_gpus.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(number, known): &&(usize, Arc<Engine>)| *number == device && known.matcher.plan().spec() == spec;
        if let Some((_, known)) = known().iter().find(same) {
            return Ok(Arc::clone(known));
        }
        let plan = planning::plan(py, spec, &settings).map_err(|error| MATCHING.plan(error))?;
        let bound = py.detach(|| engine.matcher.bind_to(&plan)).map_err(|error| MATCHING.exec(error))?;
        let bound = Arc::new(Engine::new(bound));
        if spec.image() == self.plan.plan.spec().image() {
            known().push((device, Arc::clone(&bound)));
        }
        Ok(bound)
    }

    /// The result of an image on a GPU, there.
    fn execute_on_gpu<'py>(
        &self,
        py: Python<'py>,
        engine: &Engine,
        image: &Resident<'py>,
        out: Option<&Bound<'py, PyAny>>,
        progress: Option<&Progress<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let matcher = &engine.matcher;
        let (plan, spec) = (matcher.plan(), matcher.plan().spec());
        let stack: Vec<usize> = self.stacked.then_some(spec.templates()).into_iter().collect();
        let mut out = Target::of((image, image), spec, &stack, out)?;
        let (image, mut results) = (image.view("image")?, out.view()?);
        watch::run(py, MATCHING, planning::estimate(plan), progress, |control| {
            engine.with_scratch(|scratch| matcher.execute_on_device(&image, &mut results, scratch, control))
        })?;
        out.finish()
    }

    fn execute<'py>(
        &self,
        py: Python<'py>,
        (matcher, spare): (&flcc_runtime::Matcher, &Mutex<Option<Scratch>>),
        image: &Array<'py>,
        region: Option<&[Range<usize>]>,
        (asked, kind, call): (Option<Asked<'py>>, Kind<'py>, Call),
        progress: Option<&Progress<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wrong = |error| MATCHING.spec(error);
        let image = image.view().map_err(wrong)?;
        let (plan, spec) = (matcher.plan(), matcher.plan().spec());
        let shape = match region {
            Some(region) => Shape::new(&region.iter().map(Range::len).collect::<Vec<_>>()).map_err(wrong)?,
            None => spec.out_shape(),
        };
        let regions = region.map(|region| Ok::<_, PyErr>((regions::of(matcher)?, region))).transpose()?;
        let compute = |outs: &mut [AnyViewMut<'_>], scratch: &mut Scratch, control: &Control<'_>| match regions {
            Some((regions, region)) => regions.execute_into(region, &image, outs, scratch, control),
            None => matcher.execute_into(&[image], outs, scratch, control),
        };
        let stack = self.stacked.then_some(spec.templates());
        let mut out = Out::shaped(py, shape, spec.out_type(), stack, asked, call)?;
        let mut outs = out.views().map_err(wrong)?;
        let part = shape.len() as f64 / spec.out_shape().len().max(1) as f64;
        watch::run(py, MATCHING, part * planning::estimate(plan), progress, |control| {
            with_spare(matcher, spare, |scratch| compute(&mut outs, scratch, control))
        })?;
        drop(outs);
        out.finish(&kind)
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(image) = self.images.bind(py).clone().next() else { return Ok(None) };
        let of = self.of.get();
        let call = Call::new();
        let image = image?;
        if let Some(image) = Resident::of("image", &image, of.plan.channel_axis)? {
            let shape = image.shown().shape;
            let running = of.running(py)?;
            let own = shape == of.plan.plan.spec().image();
            let engine = if own { Arc::clone(&running.0) } else { Arc::new(Engine::new(self.of_shape(py, shape)?)) };
            let engine = of.on_gpu(py, &engine, image.device())?;
            return of.execute_on_gpu(py, &engine, &image, None, None).map(Some);
        }
        let kind = Kind::of(&image)?;
        let image = Array::read("image", &image, of.plan.channel_axis, call)?;
        let shape = image.view().map_err(|error| MATCHING.spec(error))?.shape();
        if shape == of.plan.plan.spec().image() {
            let running = of.running(py)?;
            return of
                .execute(py, (&running.0.matcher, &running.0.spare), &image, None, (None, kind, call), None)
                .map(Some);
        }
        let matcher = self.of_shape(py, shape)?;
        of.execute(py, (&matcher, &Mutex::new(None)), &image, None, (None, kind, call), None).map(Some)
    }
}

impl Stream {
    /// The same templates for images of another shape, planned once.
    fn of_shape(&self, py: Python<'_>, shape: Shape) -> PyResult<flcc_runtime::Matcher> {
        let of = self.of.get();
        let planned = || {
            let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            if stream.0 != gate::forks() {
                *stream = (gate::forks(), of.matcher.stream());
            }
            stream.1.matcher(shape)
        };
        py.detach(|| gate::planning(planned)).map_err(|error| MATCHING.exec(error))
    }
}
