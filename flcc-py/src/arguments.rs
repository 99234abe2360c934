//! Arguments of calls that are no arrays: what is of another type or too large is an error that names them.

use std::path::PathBuf;

use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyOverflowError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{value, wrong_type};

fn type_name(given: &Bound<'_, PyAny>) -> String {
    given.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string())
}

fn text<'a>(argument: &str, given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    let text = given.cast::<PyString>().map_err(|_| wrong_type(argument, "a str", &type_name(given)))?;
    text.to_str().map_err(|_| value(argument, "text of Unicode", "a str with half a character"))
}

fn number(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<f64> {
    converted(argument, given, "a number", "a number that float64 holds")
}

fn whole(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<i64> {
    converted(argument, given, "a whole number", "a whole number of 64 bits")
}

fn axis(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<isize> {
    converted(argument, given, "a whole number", "a whole number of 64 bits")
}

fn size(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<usize> {
    converted(argument, given, "a whole number", "a whole number from 0 to 2^64 - 1")
}

fn path(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    converted(argument, given, "a str or an os.PathLike", "the name of a file")
}

/// A number, or those of an array of one axis.
fn numbers(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let (py, expected) = (given.py(), "a number, or numbers along one axis");
    let refused = || wrong_type(argument, expected, &type_name(given));
    let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "asarray"), (given,)).map_err(|error| {
        let raised = refused();
        raised.set_cause(py, Some(error));
        raised
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if !matches!(array.dtype().kind(), b'b' | b'i' | b'u' | b'f') {
        return Err(refused());
    }
    if array.ndim() > 1 {
        return Err(value(argument, expected, &format!("{} axes", array.ndim())));
    }
    let array = array.call_method1(intern!(py, "astype"), ("f8",))?.call_method0(intern!(py, "ravel"))?;
    Ok(array.cast::<PyArray1<f64>>()?.try_readonly()?.as_array().to_vec())
}

fn converted<'py, T: for<'a> FromPyObject<'a, 'py>>(
    argument: &str,
    given: &Bound<'py, PyAny>,
    expected: &str,
    held: &str,
) -> PyResult<T> {
    given.extract::<T>().map_err(Into::<PyErr>::into).map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            value(argument, held, &given.to_string())
        } else {
            wrong_type(argument, expected, &type_name(given))
        }
    })
}

macro_rules! named {
    (texts: $($text:ident)*; $($name:ident: $kind:ident -> $type:ty;)*) => {
        $(
            /// The argument of this name.
            pub fn $text<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
                text(stringify!($text), given)
            }
        )*
        $(
            /// The argument of this name.
            pub fn $name(given: &Bound<'_, PyAny>) -> PyResult<$type> {
                $kind(stringify!($name), given)
            }
        )*
    };
}

named! {
    texts: measure mode boundary method device accuracy effort;
    cval: number -> f64;
    min_overlap: number -> f64;
    angles: numbers -> Vec<f64>;
    scales: numbers -> Vec<f64>;
    exclude_border: whole -> i64;
    in1_len: size -> usize;
    in2_len: size -> usize;
    file: path -> PathBuf;
}

/// Arguments that may be None.
pub mod optional {
    use super::*;

    macro_rules! optional {
        (texts: $($text:ident)*; $($name:ident: $kind:ident -> $type:ty;)*) => {
            $(
                /// The argument of this name.
                pub fn $text<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a str>> {
                    if given.is_none() { Ok(None) } else { text(stringify!($text), given).map(Some) }
                }
            )*
            $(
                /// The argument of this name.
                pub fn $name(given: &Bound<'_, PyAny>) -> PyResult<Option<$type>> {
                    if given.is_none() { Ok(None) } else { $kind(stringify!($name), given).map(Some) }
                }
            )*
        };
    }

    optional! {
        texts: measure mode boundary mask accuracy;
        cval: number -> f64;
        threshold: number -> f64;
        coarse: size -> usize;
        finest: number -> f64;
        channel_axis: axis -> isize;
        threads: whole -> i64;
        k: whole -> i64;
        min_distance: whole -> i64;
        templates: size -> usize;
        memory_limit: size -> usize;
        file: path -> PathBuf;
    }
}
