//! Which arrays are taken, and what becomes of them.
//!
//! An array of uint8, uint16, float32 or float64 in the machine's byte order is looked at where it lies, whatever its
//! strides. Other types of real numbers become float32 or float64 where that holds each of their values, as the command
//! reads them.

use numpy::{PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::{value, wrong_type};
use crate::foreign;

/// What is told of types that are not taken.
const TAKEN: &str = "uint8, uint16, float32 or float64 (or bool, int8, int16, float16, int32, uint32, int64 or uint64, \
                     which become float32 or float64)";

/// The object itself if it is an array, or one made of it.
pub fn as_array<'py>(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = object.py();
    if object.is_exact_instance_of::<PyUntypedArray>() {
        return Ok(object.cast::<PyUntypedArray>()?.clone());
    }
    let masked = py.import(intern!(py, "numpy.ma"))?.getattr(intern!(py, "MaskedArray"))?;
    if object.is_instance(&masked)? {
        return Err(wrong_type(
            argument,
            "an array without a mask (mask= takes weights of a template, image_mask= of an image)",
            "a MaskedArray",
        ));
    }
    let shared = if object.is_instance_of::<PyUntypedArray>() { None } else { foreign::shared(argument, object)? };
    if let Some(array) = shared {
        return Ok(array.cast_into::<PyUntypedArray>()?);
    }
    let numpy = py.import(intern!(py, "numpy"))?;
    let refused = || {
        let got = object.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
        wrong_type(argument, "an array of numbers, of 1 to 3 axes", &got)
    };
    let array = numpy.call_method1(intern!(py, "asarray"), (object,)).map_err(|error| {
        let raised = refused();
        raised.set_cause(py, Some(error));
        raised
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    // What numpy takes for one value of no number: None, a path, an object of some other library.
    if array.ndim() == 0 && matches!(array.dtype().kind(), b'O' | b'U' | b'S') {
        return Err(refused());
    }
    Ok(array)
}

/// The array itself where its memory can be looked at as it is, else a copy of a type that holds its values.
pub fn native<'py>(argument: &str, array: Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (py, dtype) = (array.py(), array.dtype());
    let (kind, size) = (dtype.kind(), dtype.itemsize());
    let (code, as_is) = match (kind, size) {
        (b'u', 1) => ("u1", true),
        (b'u', 2) => ("u2", true),
        (b'f', 4) => ("f4", true),
        (b'f', 8) => ("f8", true),
        (b'b', 1) | (b'i', 1 | 2) | (b'f', 2) => ("f4", false),
        (b'i' | b'u', 4) => ("f8", false),
        (b'i' | b'u', 8) => {
            check_exact(argument, &array)?;
            ("f8", false)
        }
        _ => return Err(wrong_type(argument, TAKEN, &format!("dtype {dtype}"))),
    };
    let whole = |(&n, &stride): (&usize, &isize)| n <= 1 || stride % size as isize == 0;
    if as_is
        && dtype.is_native_byteorder() != Some(false)
        && array.is_aligned()
        && array.shape().iter().zip(array.strides()).all(whole)
    {
        return Ok(array);
    }
    // A copy of one array, without its subclass.
    let numpy = py.import(intern!(py, "numpy"))?;
    let copy = numpy.call_method1(intern!(py, "array"), (array, code))?;
    Ok(copy.cast_into::<PyUntypedArray>()?)
}

/// Refuses 64-bit integers that float64 would round.
fn check_exact(argument: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let expected = "integers that float64 holds exactly, such as all up to 2^53";
    let refused = |inexact: Option<String>| inexact.map_or(Ok(()), |got| Err(value(argument, expected, &got)));
    if array.dtype().kind() == b'i' {
        let array = array.call_method1(intern!(array.py(), "astype"), ("i8",))?;
        let array = array.cast::<PyArrayDyn<i64>>()?.try_readonly()?;
        refused(array.as_array().iter().find(|&&n| n as f64 as i128 != i128::from(n)).map(i64::to_string))
    } else {
        let array = array.call_method1(intern!(array.py(), "astype"), ("u8",))?;
        let array = array.cast::<PyArrayDyn<u64>>()?.try_readonly()?;
        refused(array.as_array().iter().find(|&&n| n as f64 as u128 != u128::from(n)).map(u64::to_string))
    }
}

/// The arrays of a list or tuple, or the one array that there is.
pub fn several<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let listed = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    if !listed {
        return Ok(None);
    }
    let items: Vec<_> = object.try_iter()?.collect::<PyResult<_>>()?;
    // A list of numbers, or of lists of them, is an array.
    let mut arrays = items.is_empty();
    for item in &items {
        arrays = arrays || foreign::is_array(item)?;
    }
    Ok(arrays.then_some(items))
}
