//! Views of the memory of arrays that come in, borrowed while a call looks at them.

use flcc_runtime::{AnyView, Pixel, Shape, SpecError, View};
use numpy::{
    Element, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;

use crate::claims::Claim;
use crate::errors::value;
use crate::types::{as_array, native};

/// An array to read, borrowed while this lives.
pub struct Array<'py> {
    held: Held<'py>,
    layout: Layout,
    /// Keeps what lies between the elements from being written by another call.
    _claim: Claim,
}

enum Held<'py> {
    U8(PyReadonlyArrayDyn<'py, u8>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
}

/// Where the elements lie, in elements.
struct Layout {
    shape: Shape,
    strides: Vec<isize>,
    channels: usize,
    channel_stride: isize,
    /// Elements before the first one, of axes that run backwards.
    before: usize,
    /// Elements from the lowest to the highest, both included.
    span: usize,
}

impl<'py> Array<'py> {
    /// Borrows an array, or makes one of what `numpy.asarray` takes.
    pub fn read(argument: &str, object: &Bound<'py, PyAny>, channel_axis: Option<isize>) -> PyResult<Array<'py>> {
        let array = native(argument, as_array(argument, object)?)?;
        let layout = Layout::of(argument, &array, channel_axis)?;
        let (first, size) = (address(&array)?, array.dtype().itemsize());
        let start = first - layout.before * size;
        // First whether another call writes elements of it, which is refused.
        let held = match (array.dtype().kind(), size) {
            (b'u', 1) => Held::U8(borrow(argument, &array)?),
            (b'u', 2) => Held::U16(borrow(argument, &array)?),
            (b'f', 4) => Held::F32(borrow(argument, &array)?),
            _ => Held::F64(borrow(argument, &array)?),
        };
        let Some(claim) = Claim::read(start..start + layout.span * size) else {
            // Another call writes between the elements: a copy has nothing there.
            let copy = array.call_method1(intern!(array.py(), "copy"), ("C",))?;
            drop(held);
            return Array::read(argument, &copy, channel_axis);
        };
        Ok(Array { held, layout, _claim: claim })
    }

    /// The view of its memory.
    pub fn view(&self) -> Result<AnyView<'_>, SpecError> {
        match &self.held {
            Held::U8(array) => view(array, &self.layout),
            Held::U16(array) => view(array, &self.layout),
            Held::F32(array) => view(array, &self.layout),
            Held::F64(array) => view(array, &self.layout),
        }
    }
}

/// The elements of a borrowed array, and what lies between them.
fn view<'a, P: Pixel + Element>(
    array: &'a PyReadonlyArrayDyn<'_, P>,
    layout: &Layout,
) -> Result<AnyView<'a>, SpecError> {
    let Layout { shape, strides, channels, channel_stride, before, span } = layout;
    let data: &[P] = if *span == 0 {
        &[]
    } else {
        // SAFETY: numpy says where the elements are, all of one allocation, and `Layout::of` computed how far they
        // reach on either side of the first. `native` saw that the first is aligned and that strides are whole
        // elements. Any bytes are a number. They stay while `array` holds a reference, and while it and the claim live
        // no call of this process writes to any of them.
        unsafe { std::slice::from_raw_parts(array.data().sub(*before), *span) }
    };
    Ok(View::strided_channels(data, *before, *shape, strides, *channels, *channel_stride)?.into())
}

fn borrow<'py, P: Element>(argument: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<PyReadonlyArrayDyn<'py, P>> {
    let array = array.cast::<PyArrayDyn<P>>().map_err(PyErr::from)?;
    array.try_readonly().map_err(|_| value(argument, "an array that no other call writes", "one that is being written"))
}

/// The address of the first element.
fn address(array: &Bound<'_, PyUntypedArray>) -> PyResult<usize> {
    // The type matters to no address.
    let kind = (array.dtype().kind(), array.dtype().itemsize());
    Ok(match kind {
        (b'u', 1) => array.cast::<PyArrayDyn<u8>>()?.data() as usize,
        (b'u', 2) => array.cast::<PyArrayDyn<u16>>()?.data() as usize,
        (b'f', 4) => array.cast::<PyArrayDyn<f32>>()?.data() as usize,
        _ => array.cast::<PyArrayDyn<f64>>()?.data() as usize,
    })
}

impl Layout {
    fn of(argument: &str, array: &Bound<'_, PyUntypedArray>, channel_axis: Option<isize>) -> PyResult<Layout> {
        let size = array.dtype().itemsize() as isize;
        let mut lengths = array.shape().to_vec();
        // The stride of an axis of one element moves nothing.
        let moves = |(&n, &stride): (&usize, &isize)| if n > 1 { stride / size } else { 0 };
        let mut strides: Vec<isize> = array.shape().iter().zip(array.strides()).map(moves).collect();
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
