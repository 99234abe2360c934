//! Arrays that go out: new ones, or those of the caller.

use flcc_runtime::{AnyViewMut, DType, Shape, Spec, SpecError};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;

use crate::arrays::{Written, addresses};
use crate::claims::{Call, Claim};
use crate::errors::{value, wrong_type};
use crate::foreign::{self, Kind};

/// What a call was given as `out`, claimed before it looks at anything else.
pub struct Asked<'py> {
    object: Bound<'py, PyAny>,
    /// None of what is not an array.
    array: Option<(Bound<'py, PyUntypedArray>, Claim)>,
}

impl<'py> Asked<'py> {
    /// Claims it, unless another call reads or writes elements of it.
    pub fn new(given: Option<&Bound<'py, PyAny>>, call: Call) -> PyResult<Option<Asked<'py>>> {
        let Some(object) = given else { return Ok(None) };
        let array = as_written(object)?.map(|array| {
            let claim = Claim::write(call, &array, addresses(&array))?.map_err(|_| {
                value("out", "an array that no other call reads or writes", "one that is being read or written")
            })?;
            Ok::<_, PyErr>((array, claim))
        });
        Ok(Some(Asked { object: object.clone(), array: array.transpose()? }))
    }
}

/// The array that is written where `out` is this, unless nothing is.
pub fn as_written<'py>(out: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    match out.cast::<PyUntypedArray>() {
        Ok(array) => Ok(Some(array.clone())),
        Err(_) => foreign::written(out),
    }
}

/// An array to write: `count` results of one shape, one after the other where there is an axis for them.
pub struct Out<'py> {
    written: Written<'py>,
    shape: Shape,
    /// What the results are copied to: an array of the caller's that cannot be written as it lies.
    target: Option<(Bound<'py, PyUntypedArray>, Claim)>,
    /// What the caller gave.
    given: Option<Bound<'py, PyAny>>,
}

impl<'py> Out<'py> {
    /// For the results of a spec: `stack` of them along a first axis, or one without it. What the call reads has been
    /// claimed.
    pub fn of(
        py: Python<'py>,
        spec: &Spec,
        stack: Option<usize>,
        asked: Option<Asked<'py>>,
        call: Call,
    ) -> PyResult<Out<'py>> {
        Out::shaped(py, spec.out_shape(), spec.out_type(), stack, asked, call)
    }

    /// For results of a shape and type.
    pub fn shaped(
        py: Python<'py>,
        shape: Shape,
        dtype: DType,
        stack: Option<usize>,
        asked: Option<Asked<'py>>,
        call: Call,
    ) -> PyResult<Out<'py>> {
        let mut lengths: Vec<usize> = stack.into_iter().collect();
        lengths.extend(shape.lengths());
        let Some(asked) = asked else {
            return Ok(Out { written: Written::fresh(py, dtype, &lengths)?, shape, target: None, given: None });
        };
        let given = Some(asked.object.clone());
        let (array, claim) = check(asked, dtype, &lengths)?;
        let in_order = stack.is_none() || array.is_c_contiguous();
        // An argument of this call that lies there is read to its end first.
        if Written::takes(&array, dtype) && in_order && !call.reads(&addresses(&array)) {
            return Ok(Out { written: Written::claimed(array, dtype, claim), shape, target: None, given });
        }
        Ok(Out { written: Written::fresh(py, dtype, &lengths)?, shape, target: Some((array, claim)), given })
    }

    /// Views of the results.
    pub fn views(&mut self) -> Result<Vec<AnyViewMut<'_>>, SpecError> {
        self.written.views(self.shape)
    }

    /// What the caller gave, or a new array as one of this kind, when everything is written.
    pub fn finish(self, kind: &Kind<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.written.into_array();
        if let Some((target, _claim)) = self.target {
            let py = target.py();
            py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "copyto"), (&target, array))?;
            return Ok(self.given.unwrap_or_else(|| target.into_any()));
        }
        self.given.map_or_else(|| kind.give(array.into_any()), Ok)
    }
}

/// The array, if it takes such results.
fn check<'py>(asked: Asked<'py>, dtype: DType, lengths: &[usize]) -> PyResult<(Bound<'py, PyUntypedArray>, Claim)> {
    let name = if dtype == DType::F64 { "float64" } else { "float32" };
    let expected = format!("an array of {name} and shape {lengths:?}");
    let Some((array, claim)) = asked.array else {
        return Err(wrong_type("out", &expected, &asked.object.get_type().name()?.to_string()));
    };
    let own = array.dtype();
    if own.kind() != b'f' || own.itemsize() != dtype.row().size || array.shape() != lengths {
        return Err(value("out", &expected, &format!("{own} and shape {:?}", array.shape())));
    }
    let flags = array.getattr(intern!(array.py(), "flags"))?;
    if !flags.getattr(intern!(array.py(), "writeable"))?.extract::<bool>()? {
        return Err(value("out", "an array that can be written", "a read-only one"));
    }
    Ok((array, claim))
}
