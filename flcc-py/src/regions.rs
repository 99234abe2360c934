//! Parts of results as slices of Python.

use std::ops::Range;

use flcc_runtime::{Matcher, Regions, Shape};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use crate::errors::{value, wrong_type};

/// The runs of samples along each axis.
pub type Runs = Vec<Vec<Range<usize>>>;

/// The regions of a matcher, which one of the CPU has.
pub fn of(matcher: &Matcher) -> PyResult<Regions<'_>> {
    let expected =
        "region: expected a plan of the CPU (device=\"cpu\"), got one of a GPU, which computes whole results";
    matcher.regions().ok_or_else(|| PyRuntimeError::new_err(expected))
}

/// What a slice, or a tuple of them, selects of a result.
pub fn ranges(region: &Bound<'_, PyAny>, shape: Shape) -> PyResult<Vec<Range<usize>>> {
    let expected = format!("a tuple of {} slices without steps, none of them empty", shape.axes());
    let given = match region.cast::<PyTuple>() {
        Ok(tuple) => tuple.clone(),
        Err(_) => PyTuple::new(region.py(), [region])?,
    };
    if given.len() != shape.axes() {
        return Err(value("region", &expected, &region.repr()?.to_string()));
    }
    let range = |(slice, length): (Bound<'_, PyAny>, &usize)| {
        let Ok(slice) = slice.cast::<PySlice>() else {
            return Err(wrong_type("region", &expected, &region.repr()?.to_string()));
        };
        let told = slice.indices(isize::try_from(*length)?)?;
        if told.step != 1 || told.start >= told.stop {
            return Err(value("region", &expected, &format!("{} of {shape}", region.repr()?)));
        }
        Ok(told.start as usize..told.stop as usize)
    };
    given.iter().zip(shape.lengths()).map(range).collect()
}

/// Ranges as a tuple of slices.
pub fn slices<'py>(py: Python<'py>, ranges: &[Range<usize>]) -> PyResult<Bound<'py, PyTuple>> {
    let slice = py.get_type::<PySlice>();
    let made = ranges.iter().map(|range| slice.call1((range.start, range.end)));
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// What lies in some runs along each axis, run behind run.
pub fn cut<'py>(image: &Bound<'py, PyAny>, runs: &Runs) -> PyResult<Bound<'py, PyAny>> {
    let py = image.py();
    let Some(axis) = runs.iter().position(|runs| runs.len() > 1) else {
        let all: Vec<Range<usize>> = runs.iter().flatten().cloned().collect();
        return image.get_item(slices(py, &all)?);
    };
    let parts = PyList::empty(py);
    for run in &runs[axis] {
        let mut part = runs.clone();
        part[axis] = std::iter::once(run.clone()).collect();
        parts.append(cut(image, &part)?)?;
    }
    py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "concatenate"), (parts, axis))
}
