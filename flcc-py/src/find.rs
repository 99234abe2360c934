//! Peaks of templates in an image, without maps.

use flcc_runtime::peaks::{Claims, Shortlist};
use flcc_runtime::{AnyView, Masked, Peak, PeakOptions, Plan, Spec, SpecError, find_peaks, mask_kind};
use pyo3::prelude::*;

use crate::arguments;
use crate::arrays::Array;
use crate::calls::matching;
use crate::claims::Call;
use crate::errors::{MATCHING, value};
use crate::found::{options, records};
use crate::masked::{self, Said};
use crate::planning::{self, Settings};
use crate::problem::{self, Shown, Words};
use crate::resident::Resident;
use crate::types::several;
use crate::watch::{self, Progress};

/// The best places of one or several templates in an image. No map of scores is kept.
///
/// Of an image on a GPU the scores are computed there, and copied to the CPU, which searches them.
///
/// Parameters
/// ----------
/// image : array_like
/// templates : array_like, or list or tuple of arrays
///     Of any sizes.
/// k : int, optional
///     At most so many places of each template; by default 1, or all that ``threshold`` leaves.
/// threshold : float, optional
///     Only scores at least as good: for ssd, nssd and sad not above it.
/// min_distance : int, optional
///     How far from a place, on every axis, there is no other of the same template; by default half the template's
///     smallest side, at least 1.
/// exclusive : bool
///     Whether no place is left to two templates: the better stays.
/// exclude_border, subpixel
///     As for :func:`peaks`.
/// measure, mode, boundary, cval, mask, channel_axis, method, device, accuracy, dtype, threads, progress
///     As for :func:`match_template`.
/// image_mask, min_overlap
///     As for :func:`match_template`. There are maps of scores then, of templates of one shape and type at a time.
///
/// Returns
/// -------
/// ndarray
///     Structured, by template and best first: ``template`` (its number), ``position`` of its first sample in the
///     image, ``score`` and, where asked for, ``refined``.
///
/// Examples
/// --------
/// >>> import flcc, numpy as np
/// >>> image = np.random.default_rng(1).random((100, 120))
/// >>> for found in flcc.find(image, [image[20:28, 30:37], image[50:60, 7:20]]):
/// ...     print(found["template"], found["position"], round(found["score"], 6))
/// 0 [20 30] 1.0
/// 1 [50  7] 1.0
#[pyfunction]
#[pyo3(signature = (image, templates, *, k = None, threshold = None, min_distance = None, exclude_border = 0,
    subpixel = None, exclusive = false, measure = "zncc", mode = "valid", boundary = "zero", cval = 0.0, mask = None,
    image_mask = None, min_overlap = 0.0, channel_axis = None, method = "auto", device = "auto",
    accuracy = "promised", dtype = None, threads = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn find<'py>(
    py: Python<'py>,
    image: &Bound<'py, PyAny>,
    templates: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::optional::k)] k: Option<i64>,
    #[pyo3(from_py_with = arguments::optional::threshold)] threshold: Option<f64>,
    #[pyo3(from_py_with = arguments::optional::min_distance)] min_distance: Option<i64>,
    #[pyo3(from_py_with = arguments::exclude_border)] exclude_border: i64,
    subpixel: Option<&Bound<'py, PyAny>>,
    exclusive: bool,
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
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let told = options(k, threshold, min_distance, exclude_border, subpixel)?;
    let dtype = problem::result_type("dtype", dtype)?;
    let said = Said { image_mask, boundary, min_overlap, largest: 0.0 };
    let words = Words { op: matching(measure)?, mode, boundary: said.outside(), cval, accuracy, dtype };
    let settings = Settings::new(method, device, threads).map_err(|error| MATCHING.spec(error))?;
    let progress = Progress::new(progress)?;
    let wrong = |error| MATCHING.spec(error);

    let call = Call::new();
    let resident = Resident::of("image", image, channel_axis)?;
    if resident.is_some() {
        said.on_gpu()?;
    }
    let known = said.known(method, device, call)?;
    let read;
    let (image, view, settings) = match &resident {
        Some(resident) => (resident.shown(), None, settings.on(resident.device()).map_err(wrong)?),
        None => {
            read = Array::read("image", image, channel_axis, call)?;
            let view = read.view().map_err(wrong)?;
            (Shown::from(&view), Some(view), settings)
        }
    };
    let given = several(templates)?.unwrap_or_else(|| vec![templates.clone()]);
    let name = |number: usize| if given.len() == 1 { "template".into() } else { format!("template {number}") };
    if given.is_empty() {
        return Err(value("templates", "at least one template", "none"));
    }
    let mut arrays = Vec::with_capacity(given.len());
    for (number, template) in given.iter().enumerate() {
        arrays.push(Array::read_small(&name(number), template, channel_axis, call)?);
    }
    let views = arrays.iter().map(Array::view).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mask = mask.map(|mask| Array::read_small("mask", mask, None, call)).transpose()?;
    let mask: Option<AnyView<'_>> = mask.as_ref().map(|mask| mask.view().map_err(wrong)).transpose()?;
    let kind = mask_kind(mask.as_ref().map(|mask| mask as _));

    // Templates of one shape and type that follow each other take one plan.
    let groups: Vec<&[AnyView<'_>]> = views
        .chunk_by(|a, b| a.shape() == b.shape() && a.dtype() == b.dtype() && a.channels() == b.channels())
        .collect();
    let mut specs: Vec<Spec> = Vec::with_capacity(groups.len());
    let mut number = 0;
    for group in &groups {
        specs.push(words.spec(image, &group[0], group.len(), kind).map_err(|error| match &*error.argument {
            "template" => wrong(SpecError { argument: name(number), ..error }),
            _ => wrong(error),
        })?);
        number += group.len();
    }
    let search = |searched: &PeakOptions| -> PyResult<Vec<Vec<Peak>>> {
        match (&known, view) {
            (Some(known), Some(image)) => {
                let planner = planning::planner(py, &settings).map_err(wrong)?;
                let masked = known.of(image, &[], mask.as_ref())?;
                let estimate =
                    specs.iter().map(|spec| masked::estimate(spec.out_shape().len() * spec.templates())).sum();
                watch::run(py, MATCHING, estimate, progress.as_ref(), |control| {
                    let mut found = Vec::new();
                    for (spec, templates) in specs.iter().zip(&groups) {
                        let (maps, _) = Masked { templates, ..masked }.execute(spec, &planner, control)?;
                        found.extend(maps.iter().map(|map| find_peaks(map, searched)));
                    }
                    Ok(found)
                })
            }
            _ => {
                let plans: Vec<Plan> = specs
                    .iter()
                    .map(|spec| planning::plan(py, spec, &settings))
                    .collect::<Result<_, _>>()
                    .map_err(|error| MATCHING.plan(error))?;
                let on_gpu = resident.as_ref().map(|resident| resident.view("image")).transpose()?;
                let estimate = plans.iter().map(planning::estimate).sum();
                watch::run(py, MATCHING, estimate, progress.as_ref(), |control| {
                    let mut found = Vec::new();
                    for (plan, group) in plans.iter().zip(&groups) {
                        let matcher = plan.bind(group, mask.as_ref().map(|mask| mask as _))?;
                        let (of_group, _) = match (&on_gpu, view) {
                            (Some(image), _) => {
                                matcher.search_resident(image, searched, false, &mut matcher.make_scratch(), control)?
                            }
                            (None, Some(image)) => matcher.search(&[image], searched, false, control)?,
                            (None, None) => Default::default(),
                        };
                        found.extend(of_group.into_iter().map(|found| found.peaks));
                    }
                    Ok(found)
                })
            }
        }
    };
    let of_each: Vec<&Spec> = specs.iter().flat_map(|spec| (0..spec.templates()).map(move |_| spec)).collect();
    let mut list = Shortlist::new(told, views.len());
    let found = loop {
        let searched = if exclusive { list.options() } else { told };
        let mut found: Vec<Vec<Peak>> = search(&searched)?;
        let enough = !exclusive || {
            let claims = found.iter_mut().zip(&of_each).map(|(peaks, spec)| Claims::new(spec, &searched, peaks));
            flcc_runtime::peaks::exclusive(&mut claims.collect::<Vec<_>>(), told.top)
        };
        if enough {
            break found;
        }
        list = list.longer();
    };
    let places: Vec<[i64; 3]> = of_each.iter().map(|spec| spec.region().first_place(spec.template())).collect();
    records(py, image.shape.axes(), &found, &places, &told, true)
}
