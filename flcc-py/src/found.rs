//! Peaks as structured arrays.

use flcc_runtime::peaks::{Claims, exclusive, find_peaks_from};
use flcc_runtime::{Best, Peak, PeakOptions, PosedPeak, Spec, SpecError, Subpixel, find_peaks_in};
use numpy::{Element, PyArray1, PyArrayDescr, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList};

use crate::arguments;
use crate::arrays::Array;
use crate::claims::Call;
use crate::errors::{MATCHING, Names, value, wrong_type};

/// What scores are called.
const SCORES: Names = Names { image: "scores", template: "template" };

/// What a call asks of peaks.
pub fn options(
    k: Option<i64>,
    threshold: Option<f64>,
    min_distance: Option<i64>,
    exclude_border: i64,
    subpixel: Option<&Bound<'_, PyAny>>,
) -> PyResult<PeakOptions> {
    let count = |argument: &str, n: i64| {
        usize::try_from(n).map_err(|_| value(argument, "a number of positions", &n.to_string()))
    };
    let top = match k {
        Some(k) if k < 1 => return Err(value("k", "1 or more", &k.to_string())),
        Some(k) => Some(count("k", k)?),
        // The best one, or all that a threshold leaves: as the command.
        None => threshold.is_none().then_some(1),
    };
    if threshold.is_some_and(f64::is_nan) {
        return Err(value("threshold", "a number", "nan"));
    }
    Ok(PeakOptions {
        top,
        threshold,
        min_distance: min_distance.map(|n| count("min_distance", n)).transpose()?,
        exclude_border: count("exclude_border", exclude_border)?,
        subpixel: fit(subpixel)?,
    })
}

fn fit(subpixel: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Subpixel>> {
    let Some(subpixel) = subpixel else { return Ok(None) };
    if let Ok(asked) = subpixel.cast::<PyBool>() {
        return Ok(asked.is_true().then(Subpixel::default));
    }
    let expected = "True, False, quadratic, gauss, cubic or septic";
    let Ok(name) = subpixel.extract::<String>() else {
        return Err(wrong_type("subpixel", expected, &subpixel.get_type().name()?.to_string()));
    };
    name.parse().map(Some).map_err(|_| value("subpixel", expected, &name))
}

/// A structured array of the peaks of each template. `places` says where position 0 of each template's map lies.
pub fn records<'py>(
    py: Python<'py>,
    axes: usize,
    found: &[Vec<Peak>],
    places: &[[i64; 3]],
    options: &PeakOptions,
    numbered: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let count = found.iter().map(Vec::len).sum();
    let (mut templates, mut scores) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut positions, mut refined) = (Vec::with_capacity(count * axes), Vec::new());
    for (template, peaks) in found.iter().enumerate() {
        let first = &places[template][3 - axes..];
        for peak in peaks {
            templates.push(template as i64);
            scores.push(peak.score);
            positions.extend(peak.position.iter().zip(first).map(|(&at, first)| at as i64 + first));
            if let Some(at) = &peak.refined {
                refined.extend(at.iter().zip(first).map(|(at, &first)| at + first as f64));
            }
        }
    }
    let mut fields = Vec::new();
    if numbered {
        fields.push(Field::of_number("template", Values::Whole(templates)));
    }
    fields.push(Field::of_place("position", axes, Values::Whole(positions)));
    fields.push(Field::of_number("score", Values::Real(scores)));
    if options.subpixel.is_some() {
        fields.push(Field::of_place("refined", axes, Values::Real(refined)));
    }
    structured(py, count, fields)
}

/// A structured array of the places of a turned and scaled template.
pub fn posed_records<'py>(py: Python<'py>, axes: usize, found: &[PosedPeak]) -> PyResult<Bound<'py, PyAny>> {
    let each = |of: fn(&PosedPeak) -> f64| Values::Real(found.iter().map(of).collect());
    let whole = |of: fn(&PosedPeak) -> &[usize]| {
        Values::Whole(found.iter().flat_map(of).map(|&length| length as i64).collect())
    };
    let fields = vec![
        Field::of_place("middle", axes, Values::Real(found.iter().flat_map(PosedPeak::middle).collect())),
        Field::of_number("score", each(|found| found.peak.score)),
        Field::of_number("angle", each(|found| found.pose.angle())),
        Field::of_number("scale", each(|found| found.pose.scale())),
        Field::of_place("position", axes, whole(|found| &found.peak.position)),
        Field::of_place("shape", axes, whole(|found| found.shape.lengths())),
    ];
    structured(py, found.len(), fields)
}

/// A field of a structured array: a number of each record, or one for each axis.
struct Field {
    name: &'static str,
    axes: Option<usize>,
    values: Values,
}

/// The values of a field, record by record.
enum Values {
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

impl Field {
    fn of_number(name: &'static str, values: Values) -> Field {
        Field { name, axes: None, values }
    }

    fn of_place(name: &'static str, axes: usize, values: Values) -> Field {
        Field { name, axes: Some(axes), values }
    }
}

/// A structured array of so many records.
fn structured(py: Python<'_>, count: usize, fields: Vec<Field>) -> PyResult<Bound<'_, PyAny>> {
    let dtype = PyList::empty(py);
    for Field { name, axes, values } in &fields {
        let kind = if matches!(values, Values::Whole(_)) { "i8" } else { "f8" };
        match axes {
            None => dtype.append((*name, kind))?,
            Some(axes) => dtype.append((*name, kind, (*axes,)))?,
        }
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    let records = numpy.call_method1(intern!(py, "empty"), (count, PyArrayDescr::new(py, dtype)?))?;
    for Field { name, axes, values } in fields {
        match values {
            Values::Whole(values) => records.set_item(name, column(py, count, axes, values)?)?,
            Values::Real(values) => records.set_item(name, column(py, count, axes, values)?)?,
        }
    }
    Ok(records)
}

fn column<T: Element>(py: Python<'_>, count: usize, axes: Option<usize>, values: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    let values = PyArray1::from_vec(py, values);
    Ok(match axes {
        None => values.into_any(),
        Some(axes) => values.reshape([count, axes])?.into_any(),
    })
}

/// The peaks of an array of scores, best first.
///
/// A peak is a position without a better one within ``min_distance`` of it on every axis; of equal ones the first is
/// the better. NaN is none.
///
/// Parameters
/// ----------
/// scores : array_like
///     Real numbers along 1 to 3 axes.
/// k : int, optional
///     At most so many; by default 1, or all that ``threshold`` leaves.
/// threshold : float, optional
///     Only scores at least as good.
/// min_distance : int, optional
///     By default 1. 0 makes every position a peak.
/// exclude_border : int
///     So many positions at each end of every axis are left out.
/// subpixel : bool or {"quadratic", "gauss", "cubic", "septic"}, optional
///     Whether and how positions are refined; True is the most exact.
/// smallest : bool
///     Whether the smallest scores are the best, as those of ssd, nssd and sad.
///
/// Returns
/// -------
/// ndarray
///     Structured: ``position`` (int64, one for each axis), ``score`` and, where asked for, ``refined``.
///
/// Examples
/// --------
/// >>> import flcc
/// >>> found = flcc.peaks([0, 1, 5, 1, 0, 7, 0], k=2)
/// >>> found["position"][:, 0], found["score"]
/// (array([5, 2]), array([7., 5.]))
#[pyfunction]
#[pyo3(signature = (scores, *, k = None, threshold = None, min_distance = None, exclude_border = 0, subpixel = None,
    smallest = false))]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn peaks<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arguments::optional::k)] k: Option<i64>,
    #[pyo3(from_py_with = arguments::optional::threshold)] threshold: Option<f64>,
    #[pyo3(from_py_with = arguments::optional::min_distance)] min_distance: Option<i64>,
    #[pyo3(from_py_with = arguments::exclude_border)] exclude_border: i64,
    subpixel: Option<&Bound<'py, PyAny>>,
    smallest: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options(k, threshold, min_distance, exclude_border, subpixel)?;
    let scores = Array::read("scores", scores, None, Call::new())?;
    let view = scores.view().map_err(|error| SCORES.spec(error))?;
    let shape = view.shape().nonempty("scores").map_err(|error| SCORES.spec(error))?;
    let best = if smallest { Best::Smallest } else { Best::Largest };
    let found = py.detach(|| find_peaks_in(&view, best, &options));
    records(py, shape.axes(), &[found], &[[0; 3]], &options, false)
}

/// The best peaks of a part of scores, which lies from ``origin`` on in the whole. What is none in the whole may be one
/// here, near the ends of the part: `flcc.dask`, which calls this, leaves those out.
#[pyfunction]
#[pyo3(name = "_peaks_from")]
#[expect(clippy::too_many_arguments, reason = "PyO3 takes each argument of a Python function as one of Rust")]
pub fn peaks_from<'py>(
    py: Python<'py>,
    scores: &Bound<'py, PyAny>,
    origin: Vec<usize>,
    k: Option<i64>,
    threshold: f64,
    min_distance: i64,
    subpixel: Option<&Bound<'py, PyAny>>,
    smallest: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = options(k, Some(threshold), Some(min_distance), 0, subpixel)?;
    let scores = Array::read("scores", scores, None, Call::new())?;
    let view = scores.view().map_err(|error| SCORES.spec(error))?;
    let shape = view.shape().nonempty("scores").map_err(|error| SCORES.spec(error))?;
    if origin.len() != shape.axes() {
        return Err(value("origin", &format!("a position of {} axes", shape.axes()), &format!("{origin:?}")));
    }
    let mut first = [0; 3];
    first[3 - origin.len()..].copy_from_slice(&origin);
    let best = if smallest { Best::Smallest } else { Best::Largest };
    let found = py.detach(|| find_peaks_from(&view, first, best, &options));
    records(py, shape.axes(), &[found], &[[0; 3]], &options, false)
}

/// Positions and scores of a template's peaks.
type Told = (Vec<Vec<usize>>, Vec<f64>);

/// Which peaks of each template stay where no place is left to two: positions and scores of each, best first, beside
/// the text of its spec and the distance that it keeps.
#[pyfunction]
#[pyo3(name = "_exclusive")]
pub fn exclusive_among(
    py: Python<'_>,
    specs: Vec<(String, usize)>,
    found: Vec<Told>,
    k: Option<usize>,
) -> PyResult<Vec<Vec<usize>>> {
    let parsed = |(spec, distance): (String, usize)| Ok((spec.parse()?, distance));
    let specs = specs.into_iter().map(parsed).collect::<Result<Vec<(Spec, usize)>, SpecError>>();
    let specs = specs.map_err(|error| MATCHING.spec(error))?;
    let peaks = |(positions, scores): &Told| -> Vec<Peak> {
        let peak = |(position, &score): (&Vec<usize>, &f64)| Peak { position: position.clone(), score, refined: None };
        positions.iter().zip(scores).map(peak).collect()
    };
    py.detach(|| {
        let mut stay: Vec<Vec<Peak>> = found.iter().map(peaks).collect();
        let claims = stay.iter_mut().zip(&specs).map(|(peaks, (spec, distance))| {
            let options = PeakOptions { min_distance: Some(*distance), ..PeakOptions::default() };
            Claims::new(spec, &options, peaks)
        });
        // Options without `top` ask for every peak, so that no longer list could hold another.
        let whole = exclusive(&mut claims.collect::<Vec<_>>(), k);
        debug_assert!(whole);
        // They stay in their order, and no two are at one position.
        let places = |(stay, (positions, _)): (&Vec<Peak>, &Told)| {
            let mut stay = stay.iter().peekable();
            let stays = |at: &usize| stay.next_if(|peak| peak.position == positions[*at]).is_some();
            (0..positions.len()).filter(stays).collect()
        };
        Ok(stay.iter().zip(&found).map(places).collect())
    })
}
