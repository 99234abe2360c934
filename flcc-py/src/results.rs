//! Arrays that go out: new ones, or those of the caller.

use std::ops::Range;

use flcc_runtime::{AnyViewMut, DType, Shape, Spec, SpecError, ViewMut};
use numpy::{
    Element, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadwriteArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::claims::Claim;
use crate::errors::{value, wrong_type};

/// An array to write: `count` results of one shape, one after the other where there is an axis for them.
pub struct Out<'py> {
    array: Written<'py>,
    shape: Shape,
    /// What the results are copied to: an array of the caller's that cannot be written as it lies.
    target: Option<Bound<'py, PyUntypedArray>>,
    claim: Option<Claim>,
}

enum Written<'py> {
    F32(PyReadwriteArrayDyn<'py, f32>),
    F64(PyReadwriteArrayDyn<'py, f64>),
}

impl<'py> Out<'py> {
    /// For the results of a spec: `stack` of them along a first axis, or one without it.
    pub fn of(
        py: Python<'py>,
        spec: &Spec,
        stack: Option<usize>,
        given: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Out<'py>> {
        let shape = spec.out_shape();
        let mut lengths: Vec<usize> = stack.into_iter().collect();
        lengths.extend(shape.lengths());
        let Some(given) = given else { return Out::fresh(py, spec.out_type(), &lengths, shape) };
        let target = check(given, spec.out_type(), &lengths)?;
        let as_is = target.is_aligned()
            && target.dtype().is_native_byteorder() != Some(false)
            && (target.is_c_contiguous() || stack.is_none() && target.is_fortran_contiguous());
        if as_is {
            // Not while an argument of this call or another call looks at it.
            let (array, span) = match spec.out_type() {
                DType::F64 => borrow(&target)?.map_or((None, 0..0), |(array, span)| (Some(Written::F64(array)), span)),
                _ => borrow(&target)?.map_or((None, 0..0), |(array, span)| (Some(Written::F32(array)), span)),
            };
            if let (Some(array), Some(claim)) = (array, Claim::write(span)) {
                return Ok(Out { array, shape, target: None, claim: Some(claim) });
            }
        }
        Ok(Out { target: Some(target), ..Out::fresh(py, spec.out_type(), &lengths, shape)? })
    }

    fn fresh(py: Python<'py>, dtype: DType, lengths: &[usize], shape: Shape) -> PyResult<Out<'py>> {
        // numpy itself, which says where there is no memory for so much.
        static ZEROS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let zeros = ZEROS.get_or_try_init(py, || py.import("numpy")?.getattr("zeros").map(Bound::unbind))?;
        let make = |dtype: Bound<'py, PyArrayDescr>| zeros.bind(py).call1((PyTuple::new(py, lengths)?, dtype));
        let array = match dtype {
            DType::F64 => Written::F64(make(PyArrayDescr::of::<f64>(py))?.cast::<PyArrayDyn<f64>>()?.try_readwrite()?),
            _ => Written::F32(make(PyArrayDescr::of::<f32>(py))?.cast::<PyArrayDyn<f32>>()?.try_readwrite()?),
        };
        Ok(Out { array, shape, target: None, claim: None })
    }

    /// Views of the results.
    pub fn views(&mut self) -> PyResult<Result<Vec<AnyViewMut<'_>>, SpecError>> {
        Ok(match &mut self.array {
            Written::F32(array) => views(self.shape, array)?,
            Written::F64(array) => views(self.shape, array)?,
        })
    }

    /// The array, when everything is written.
    pub fn finish(self) -> PyResult<Bound<'py, PyAny>> {
        let array = match self.array {
            Written::F32(array) => array.as_any().clone(),
            Written::F64(array) => array.as_any().clone(),
        };
        drop(self.claim);
        let Some(target) = self.target else { return Ok(array) };
        let py = target.py();
        py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "copyto"), (&target, array))?;
        Ok(target.into_any())
    }
}

fn views<'a, T: Element>(
    shape: Shape,
    array: &'a mut PyReadwriteArrayDyn<'_, T>,
) -> PyResult<Result<Vec<AnyViewMut<'a>>, SpecError>>
where
    AnyViewMut<'a>: From<ViewMut<'a, T>>,
{
    // One result may lie in Fortran's order; several lie one after the other.
    let size = size_of::<T>() as isize;
    let strides: Vec<isize> = array.strides().iter().map(|stride| stride / size).collect();
    let one = array.shape().len() == shape.axes();
    let data = array.as_slice_mut().map_err(PyErr::from)?;
    if one {
        return Ok(ViewMut::strided(data, 0, shape, &strides).map(|view| vec![view.into()]));
    }
    Ok(data.chunks_exact_mut(shape.len()).map(|result| Ok(ViewMut::new(result, shape)?.into())).collect())
}

/// The array, if it takes such results.
fn check<'py>(given: &Bound<'py, PyAny>, dtype: DType, lengths: &[usize]) -> PyResult<Bound<'py, PyUntypedArray>> {
    let name = if dtype == DType::F64 { "float64" } else { "float32" };
    let expected = format!("an array of {name} and shape {lengths:?}");
    let Ok(array) = given.cast::<PyUntypedArray>() else {
        return Err(wrong_type("out", &expected, &given.get_type().name()?.to_string()));
    };
    let own = array.dtype();
    if own.kind() != b'f' || own.itemsize() != dtype.row().size || array.shape() != lengths {
        return Err(value("out", &expected, &format!("{own} and shape {:?}", array.shape())));
    }
    let flags = array.getattr(intern!(array.py(), "flags"))?;
    if !flags.getattr(intern!(array.py(), "writeable"))?.extract::<bool>()? {
        return Err(value("out", "an array that can be written", "a read-only one"));
    }
    Ok(array.clone())
}

/// The array for writing with its addresses, unless elements of it are borrowed.
type Borrowed<'py, T> = Option<(PyReadwriteArrayDyn<'py, T>, Range<usize>)>;

fn borrow<'py, T: Element>(target: &Bound<'py, PyUntypedArray>) -> PyResult<Borrowed<'py, T>> {
    let array = target.cast::<PyArrayDyn<T>>()?;
    let first = array.data() as usize;
    Ok(array.try_readwrite().ok().map(|borrowed| (borrowed, first..first + array.len() * size_of::<T>())))
}
