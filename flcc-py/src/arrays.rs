//! Views of the memory of arrays that come in and go out, claimed while a call looks at them.

use std::ops::Range;

use flcc_runtime::{AnyView, AnyViewMut, DType, Pixel, Shape, SpecError, View, ViewMut};
use numpy::{Element, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::claims::{Call, Claim, Taken};
use crate::errors::value;
use crate::foreign;
use crate::types::{as_array, native};

/// An array to read, claimed while this lives.
pub struct Array<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: DType,
    layout: Layout,
    /// None of a copy that is this call's alone.
    _claim: Option<Claim>,
}

/// Where the elements lie, in elements.
pub struct Layout {
    /// Without the channels.
    pub shape: Shape,
    /// Of its axes.
    pub strides: Vec<isize>,
    /// How many there are.
    pub channels: usize,
    /// From one to the next.
    pub channel_stride: isize,
    /// Elements before the first one, of axes that run backwards.
    pub before: usize,
    /// Elements from the lowest to the highest, both included.
    pub span: usize,
}

impl<'py> Array<'py> {
    /// Claims an array, or makes one of what `numpy.asarray` takes.
    pub fn read(
        argument: &str,
        object: &Bound<'py, PyAny>,
        channel_axis: Option<isize>,
        call: Call,
    ) -> PyResult<Array<'py>> {
        let given = as_array(argument, object)?;
        let refuse = |_| value(argument, "an array that no other call writes", "one that is being written");
        let claim = match Claim::read(call, &given, addresses(&given), !given.is_contiguous())? {
            // A call writes between the elements: a copy has nothing there.
            Err(Taken::Between) => {
                let _claim = Claim::read(call, &given, addresses(&given), false)?.map_err(refuse)?;
                let copy = given.call_method1(intern!(given.py(), "copy"), ("C",))?;
                return Array::of(argument, native(argument, copy.cast_into()?)?, channel_axis, None);
            }
            claim => claim.map_err(refuse)?,
        };
        let array = native(argument, given.clone())?;
        let claim = array.is(&given).then_some(claim);
        Array::of(argument, array, channel_axis, claim)
    }

    /// As [`Array::read`], of a template or a mask: one that lies on a GPU is copied from there.
    pub fn read_small(
        argument: &str,
        object: &Bound<'py, PyAny>,
        channel_axis: Option<isize>,
        call: Call,
    ) -> PyResult<Array<'py>> {
        Array::read(argument, &foreign::on_host(argument, object)?, channel_axis, call)
    }

    fn of(
        argument: &str,
        array: Bound<'py, PyUntypedArray>,
        channel_axis: Option<isize>,
        claim: Option<Claim>,
    ) -> PyResult<Array<'py>> {
        let layout = Layout::of(argument, array.shape(), array.strides(), array.dtype().itemsize(), channel_axis)?;
        let dtype = match (array.dtype().kind(), array.dtype().itemsize()) {
            (b'u', 1) => DType::U8,
            (b'u', 2) => DType::U16,
            (b'f', 4) => DType::F32,
            _ => DType::F64,
        };
        Ok(Array { array, dtype, layout, _claim: claim })
    }

    /// The view of its memory.
    pub fn view(&self) -> Result<AnyView<'_>, SpecError> {
        match self.dtype {
            DType::U8 => self.samples::<u8>(),
            DType::U16 => self.samples::<u16>(),
            DType::F32 => self.samples::<f32>(),
            DType::F64 => self.samples::<f64>(),
        }
    }

    /// The elements, and what lies between them.
    fn samples<P: Pixel>(&self) -> Result<AnyView<'_>, SpecError> {
        let Layout { shape, strides, channels, channel_stride, before, span } = &self.layout;
        let data: &[P] = if *span == 0 {
            &[]
        } else {
            // SAFETY: numpy says where the elements are, all of one allocation, and `Layout::of` computed how far they
            // reach on either side of the first. `native` saw that the first is aligned and that strides are whole
            // elements, and `of` chose the type by theirs. Any bytes are a number. They stay while `self` holds a
            // reference, and while the claim lives no other call of this process writes to any of them: it has the
            // gaps where there are some. This call writes to them only what it has computed when it looks no more.
            unsafe { std::slice::from_raw_parts(data(&self.array).cast::<P>().sub(*before), *span) }
        };
        Ok(View::strided_channels(data, *before, *shape, strides, *channels, *channel_stride)?.into())
    }
}

/// Where the first element lies.
fn data(array: &Bound<'_, PyUntypedArray>) -> *mut u8 {
    // SAFETY: the object is an array, whose fields are there as long as it is.
    unsafe { (*array.as_array_ptr()).fields.data.cast() }
}

/// From the lowest byte of an array to behind its highest; empty of an array without elements.
pub fn addresses(array: &Bound<'_, PyUntypedArray>) -> Range<usize> {
    let first = data(array) as usize;
    if array.shape().contains(&0) {
        return first..first;
    }
    let (mut before, mut after) = (0, 0);
    for (&n, &stride) in array.shape().iter().zip(array.strides()) {
        let reach = (n - 1) * stride.unsigned_abs();
        *(if stride < 0 { &mut before } else { &mut after }) += reach;
    }
    first - before..first + after + array.dtype().itemsize()
}

/// An array to write at which nobody else looks: a new one, or one of the caller's that is claimed.
pub struct Written<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: DType,
    claim: Option<Claim>,
}

impl<'py> Written<'py> {
    /// An array of zeros.
    pub fn fresh(py: Python<'py>, dtype: DType, lengths: &[usize]) -> PyResult<Written<'py>> {
        // numpy itself, which says where there is no memory for so much.
        static ZEROS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let zeros = ZEROS.get_or_try_init(py, || py.import("numpy")?.getattr("zeros").map(Bound::unbind))?;
        let descr = match dtype {
            DType::F64 => PyArrayDescr::of::<f64>(py),
            _ => PyArrayDescr::of::<f32>(py),
        };
        let array = zeros.bind(py).call1((PyTuple::new(py, lengths)?, descr))?.cast_into()?;
        Ok(Written { array, dtype, claim: None })
    }

    /// An array of such elements that can be written as it lies: the claim is one to write it.
    pub fn claimed(array: Bound<'py, PyUntypedArray>, dtype: DType, claim: Claim) -> Written<'py> {
        Written { array, dtype, claim: Some(claim) }
    }

    /// Whether an array of such elements can be written as it lies.
    pub fn takes(array: &Bound<'py, PyUntypedArray>, dtype: DType) -> bool {
        let own = array.dtype();
        array.is_aligned()
            && array.is_contiguous()
            && own.is_native_byteorder() != Some(false)
            && (own.kind(), own.itemsize()) == (b'f', dtype.row().size)
    }

    /// The views of `count` results of a shape: one may lie in Fortran's order, several lie one after the other.
    pub fn views(&mut self, shape: Shape) -> Result<Vec<AnyViewMut<'_>>, SpecError> {
        match self.dtype {
            DType::F64 => self.results::<f64>(shape),
            _ => self.results::<f32>(shape),
        }
    }

    fn results<'a, T: Element + 'static>(&'a mut self, shape: Shape) -> Result<Vec<AnyViewMut<'a>>, SpecError>
    where
        AnyViewMut<'a>: From<ViewMut<'a, T>>,
    {
        let size = size_of::<T>() as isize;
        let strides: Vec<isize> = self.array.strides().iter().map(|stride| stride / size).collect();
        let one = self.array.shape().len() == shape.axes();
        let (first, len) = (data(&self.array).cast::<T>(), self.array.len());
        let data: &mut [T] = if len == 0 {
            &mut []
        } else {
            // SAFETY: the array is aligned, in the machine's byte order, without gaps and of this type: numpy made it
            // so in `fresh`, and who called `claimed` asked `takes`. It stays while `self` holds a reference. Nobody
            // else has a new one, and of a claimed one no call reads or writes an element; an argument of this call
            // that reaches into it is a reason to take a new one.
            unsafe { std::slice::from_raw_parts_mut(first, len) }
        };
        if one {
            return ViewMut::strided(data, 0, shape, &strides).map(|view| vec![view.into()]);
        }
        data.chunks_exact_mut(shape.len()).map(|result| Ok(ViewMut::new(result, shape)?.into())).collect()
    }

    /// The array, when everything is written.
    pub fn into_array(self) -> Bound<'py, PyUntypedArray> {
        drop(self.claim);
        self.array
    }
}

impl Layout {
    /// The layout of an array whose strides are in bytes, of elements of so many.
    pub fn of(
        argument: &str,
        lengths: &[usize],
        strides: &[isize],
        size: usize,
        channel_axis: Option<isize>,
    ) -> PyResult<Layout> {
        // The stride of an axis of one element moves nothing.
        let moves = |(&n, &stride): (&usize, &isize)| if n > 1 { stride / size as isize } else { 0 };
        let mut strides: Vec<isize> = lengths.iter().zip(strides).map(moves).collect();
        let mut lengths = lengths.to_vec();
        let reach = |sign: isize| -> usize {
            let steps = lengths.iter().zip(&strides).filter(|(_, stride)| stride.signum() == sign);
            steps.map(|(n, stride)| n.saturating_sub(1) * stride.unsigned_abs()).sum()
        };
        let (before, after) = (reach(-1), reach(1));
        let (before, span) = if lengths.contains(&0) { (0, 0) } else { (before, before + after + 1) };
        let (mut channels, mut channel_stride) = (1, 0);
        if let Some(axis) = channel_axis {
            let count = lengths.len() as isize;
            if axis < -count || axis >= count {
                let expected = format!("an axis of the {argument}, from {} to {}", -count, count - 1);
                return Err(value("channel_axis", &expected, &axis.to_string()));
            }
            let axis = axis.rem_euclid(count) as usize;
            (channels, channel_stride) = (lengths.remove(axis), strides.remove(axis));
        }
        let shape = Shape::new(&lengths).map_err(|error| value(argument, &error.expected, &error.got))?;
        Ok(Layout { shape, strides, channels, channel_stride, before, span })
    }
}
