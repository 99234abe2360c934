//! Arrays of other packages: what they share with numpy comes in without a copy, and torch gets tensors back. Arrays on
//! GPUs are told apart here, and looked at by `resident.rs`.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::wrong_type;

/// Where numpy reads what DLPack shares: a CPU's memory, that of a CPU pinned for CUDA or ROCm, and that of both.
const READABLE: [i64; 4] = [1, 3, 11, 13];
/// DLPack's kind of the memory of a CUDA device.
const ON_CUDA: i64 = 2;

/// What numpy makes of an object that shares its memory by DLPack, if it is one.
pub fn shared<'py>(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let expected = "an array in memory that the CPU reads";
    let refuse = |on: &str, cause: Option<PyErr>| {
        let name = object.get_type().name().map_or_else(|_| "something".into(), |name| name.to_string());
        let raised = wrong_type(argument, expected, &format!("a {name} {on}"));
        raised.set_cause(py, cause);
        raised
    };
    let Some(ask) = attribute(object, "__dlpack_device__")? else {
        if attribute(object, "__cuda_array_interface__")?.is_some() {
            return Err(refuse("on a CUDA device", None));
        }
        return Ok(None);
    };
    let place = ask.call0().and_then(|place| place.extract::<(i64, i64)>());
    match place.map_err(|error| refuse("that does not say where it is", Some(error)))? {
        (ON_CUDA, number) => return Err(refuse(&format!("on CUDA device {number}"), None)),
        (10, number) => return Err(refuse(&format!("on ROCm device {number}"), None)),
        (kind, _) if READABLE.contains(&kind) => {}
        (kind, number) => return Err(refuse(&format!("on device {number} of DLPack's kind {kind}"), None)),
    }
    if attribute(object, "__dlpack__")?.is_none() {
        return Ok(None);
    }
    match py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "from_dlpack"), (object,)) {
        Ok(array) => Ok(Some(array)),
        // What is not shared may have another way to become an array.
        Err(_) if is_array_by_itself(object)? => Ok(None),
        Err(error) => {
            let got = format!("a {}, which shares none", object.get_type().name()?);
            let raised = wrong_type(argument, "an array whose memory numpy.from_dlpack takes", &got);
            raised.set_cause(py, Some(error));
            Err(raised)
        }
    }
}

/// Whether an object says that it lies on a CUDA device.
pub fn is_on_gpu(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.cast::<PyUntypedArray>().is_ok() {
        return Ok(false);
    }
    let Some(ask) = attribute(object, "__dlpack_device__")? else {
        return Ok(attribute(object, "__cuda_array_interface__")?.is_some());
    };
    // What does not say where it is, is refused by who looks at it on the CPU.
    Ok(ask.call0().and_then(|place| place.extract::<(i64, i64)>()).is_ok_and(|(kind, _)| kind == ON_CUDA))
}

/// What is asked of CuPy and torch.
pub fn gpu_module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "flcc._gpu"))
}

/// The object itself, or a copy in the memory of the CPU of one that lies on a GPU.
pub fn on_host<'py>(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !is_on_gpu(object)? {
        return Ok(object.clone());
    }
    gpu_module(object.py())?.call_method1(intern!(object.py(), "host"), (argument, object))
}

fn is_array_by_itself(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(attribute(object, "__array_interface__")?.is_some() || attribute(object, "__array__")?.is_some())
}

/// Whether an object is one array, rather than a number or a list.
pub fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if object.cast::<PyUntypedArray>().is_ok() {
        return Ok(true);
    }
    // numpy's numbers have what its arrays have.
    let number = py.import(intern!(py, "numpy"))?.getattr(intern!(py, "generic"))?;
    let shares = attribute(object, "__dlpack__")?.or(attribute(object, "__cuda_array_interface__")?).is_some();
    Ok((shares || is_array_by_itself(object)?) && !object.is_instance(&number)?)
}

fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object.getattr(name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The memory of a tensor of torch as an array that can be written, if it is one.
pub fn written<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    if tensors(object)?.is_none() {
        return Ok(None);
    }
    shared("out", object)?;
    let array = object.call_method0(intern!(object.py(), "detach"))?.call_method0(intern!(object.py(), "numpy"))?;
    Ok(array.cast_into().ok())
}

/// What the results of a call are: numpy's arrays, or tensors where the image is one of torch.
pub struct Kind<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Kind<'py> {
    /// The kind of results that a call on this image gives.
    pub fn of(image: &Bound<'py, PyAny>) -> PyResult<Kind<'py>> {
        if image.is_exact_instance_of::<PyUntypedArray>() {
            return Ok(Kind(None));
        }
        tensors(image).map(Kind)
    }

    /// A result in the same memory.
    pub fn give(&self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            Some(torch) => torch.call_method1(intern!(torch.py(), "from_numpy"), (array,)),
            None => Ok(array),
        }
    }
}

/// The module torch, if the object is a tensor of it.
fn tensors<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>();
    let Some(torch) = modules.map_err(PyErr::from)?.get_item(intern!(py, "torch"))? else { return Ok(None) };
    let Some(tensor) = attribute(&torch, "Tensor")? else { return Ok(None) };
    Ok(object.is_instance(&tensor)?.then_some(torch))
}
