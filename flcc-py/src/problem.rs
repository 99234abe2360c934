//! From the arguments of a call to a spec.

use flcc_runtime::{Accuracy, AnyView, Boundary, DType, MaskKind, Op, Shape, Spec, SpecError};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;

use crate::errors::{value, wrong_type};

/// What a call says beside its arrays, in words.
pub struct Words<'a> {
    /// What is computed.
    pub op: Op,
    /// Which part of the full result.
    pub mode: &'a str,
    /// What lies outside the image.
    pub boundary: &'a str,
    /// The value of boundary constant.
    pub cval: f64,
    /// What is promised.
    pub accuracy: &'a str,
    /// The type of the result, if it is asked for.
    pub dtype: Option<DType>,
}

/// What a spec says of an image.
#[derive(Clone, Copy)]
pub struct Shown {
    /// The type of its samples.
    pub dtype: DType,
    /// Without the channels.
    pub shape: Shape,
    /// How many there are.
    pub channels: usize,
}

impl From<&AnyView<'_>> for Shown {
    fn from(view: &AnyView<'_>) -> Shown {
        Shown { dtype: view.dtype(), shape: view.shape(), channels: view.channels() }
    }
}

impl Words<'_> {
    /// The problem of an image and templates of one shape and type.
    pub fn spec(
        &self,
        image: Shown,
        template: &AnyView<'_>,
        templates: usize,
        mask: MaskKind,
    ) -> Result<Spec, SpecError> {
        if template.channels() != image.channels {
            let channels = |channels: usize| format!("{channels} along channel_axis");
            return Err(SpecError::new("template", channels(image.channels), channels(template.channels())));
        }
        let spec =
            Spec::new(self.op, image.dtype, image.shape, template.dtype(), template.shape(), self.mode.parse()?)?;
        self.finish(spec, image.channels, templates, mask)
    }

    /// A problem with the rest of the words.
    pub fn finish(&self, spec: Spec, channels: usize, templates: usize, mask: MaskKind) -> Result<Spec, SpecError> {
        let spec = match self.dtype {
            Some(dtype) => spec.with_out_type(dtype)?,
            None => spec,
        };
        spec.with_channels(channels)?
            .with_templates(templates)?
            .with_mask(mask)?
            .with_boundary(self.boundary()?)?
            .with_accuracy(accuracy(self.accuracy)?)
    }

    /// The rule of what lies outside. A value that no rule takes is a mistake.
    fn boundary(&self) -> Result<Boundary, SpecError> {
        match Boundary::named(self.boundary, self.cval)? {
            Boundary::Constant(value) => Ok(Boundary::Constant(value)),
            _ if self.cval != 0.0 => Err(SpecError::new("cval", "0 unless boundary is constant", self.cval)),
            rule => Ok(rule),
        }
    }
}

fn accuracy(text: &str) -> Result<Accuracy, SpecError> {
    match text {
        "promised" => Ok(Accuracy::Promised),
        "fast" => Ok(Accuracy::Fast),
        "exact" => Ok(Accuracy::Exact),
        _ => Err(SpecError::new("accuracy", "promised, fast or exact", text)),
    }
}

/// The type of an argument that `numpy.dtype` takes.
pub fn dtype(argument: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    let Some(given) = given else { return Ok(None) };
    let expected = "uint8, uint16, float32 or float64";
    let dtype = described(argument, given, expected)?;
    match (dtype.kind(), dtype.itemsize()) {
        (b'u', 1) => Ok(Some(DType::U8)),
        (b'u', 2) => Ok(Some(DType::U16)),
        (b'f', 4) => Ok(Some(DType::F32)),
        (b'f', 8) => Ok(Some(DType::F64)),
        _ => Err(value(argument, expected, &dtype.to_string())),
    }
}

fn described<'py>(argument: &str, given: &Bound<'py, PyAny>, expected: &str) -> PyResult<Bound<'py, PyArrayDescr>> {
    PyArrayDescr::new(given.py(), given).map_err(|error| {
        let got = given.repr().map_or_else(|_| "something else".into(), |text| text.to_string());
        let raised = wrong_type(argument, expected, &got);
        raised.set_cause(given.py(), Some(error));
        raised
    })
}

/// The type of a result.
pub fn result_type(argument: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    let Some(given) = given else { return Ok(None) };
    let expected = "float32 or float64";
    let dtype = described(argument, given, expected)?;
    match (dtype.kind(), dtype.itemsize()) {
        (b'f', 4) => Ok(Some(DType::F32)),
        (b'f', 8) => Ok(Some(DType::F64)),
        _ => Err(value(argument, expected, &dtype.to_string())),
    }
}
