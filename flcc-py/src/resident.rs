//! Arrays on GPUs: images and results that stay where they lie.
//!
//! `flcc._gpu` asks CuPy or torch where an array lies and makes new ones; what it tells is checked here, and nothing is
//! ever copied to the memory of the CPU.

use std::ops::Range;

use flcc_runtime::core::view::Layout as Places;
use flcc_runtime::cuda::{KeptContext, lies_on};
use flcc_runtime::{DType, DeviceImage, DeviceImages, DeviceResults, DeviceStream, Shape, Spec};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::Layout;
use crate::errors::{value, wrong_type};
use crate::foreign::{gpu_module, is_on_gpu};
use crate::problem::Shown;

/// An array on a GPU, as `flcc._gpu` describes it.
struct Described<'py> {
    array: Bound<'py, PyAny>,
    address: u64,
    readonly: bool,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    kind: String,
    device: usize,
    /// What it holds has to be done before the array is looked at.
    stream: Option<u64>,
}

type Parts<'py> = (Bound<'py, PyAny>, u64, bool, Vec<usize>, Vec<isize>, String, usize, Option<u64>);

impl<'py> Described<'py> {
    fn new(told: &Bound<'py, PyAny>) -> PyResult<Described<'py>> {
        let (array, address, readonly, shape, strides, kind, device, stream): Parts<'py> = told.extract()?;
        Ok(Described { array, address, readonly, shape, strides, kind, device, stream })
    }

    /// The type that kernels read it as.
    fn dtype(&self, argument: &str) -> PyResult<DType> {
        match &*self.kind {
            "uint8" => Ok(DType::U8),
            "uint16" => Ok(DType::U16),
            "float32" => Ok(DType::F32),
            "float64" => Ok(DType::F64),
            other => Err(wrong_type(argument, "uint8, uint16, float32 or float64", other)),
        }
    }

    /// Where its elements lie: aligned, at whole elements, and on the device by the driver's books.
    fn layout(&self, argument: &str, dtype: DType, channel_axis: Option<isize>) -> PyResult<Layout> {
        let size = dtype.row().size;
        let layout = Layout::of(argument, &self.shape, &self.strides, size, channel_axis)?;
        let whole = |(&n, &stride): (&usize, &isize)| n <= 1 || stride % size as isize == 0;
        let aligned = self.address.is_multiple_of(size as u64);
        if !aligned || !self.shape.iter().zip(&self.strides).all(whole) {
            let expected = format!("samples of {} at multiples of {size} bytes", self.kind);
            return Err(value(
                argument,
                &expected,
                &format!("address {:#x}, strides {:?}", self.address, self.strides),
            ));
        }
        Ok(layout)
    }

    /// From its lowest byte to behind its highest.
    fn bytes(&self, dtype: DType, layout: &Layout) -> Range<u64> {
        let size = dtype.row().size as u64;
        let first = self.address.wrapping_sub(layout.before as u64 * size);
        first..first.wrapping_add(layout.span as u64 * size)
    }

    /// Asks the driver whether these bytes lie on the device.
    fn check(&self, argument: &str, bytes: &Range<u64>) -> PyResult<()> {
        let there = lies_on(self.device, bytes.start, bytes.end.wrapping_sub(bytes.start) as usize);
        let got = match there {
            Ok(true) => return Ok(()),
            Ok(false) => "memory that the driver does not know there".to_string(),
            Err(fault) => fault.to_string(),
        };
        Err(value(argument, &format!("an array in memory of CUDA device {}", self.device), &got))
    }
}

/// An image on a GPU.
pub struct Resident<'py> {
    told: Described<'py>,
    dtype: DType,
    layout: Layout,
    // The last to go: the context is current again when all else is done.
    _kept: KeptContext,
}

impl<'py> Resident<'py> {
    /// The image, if it lies on a GPU.
    pub fn of(
        argument: &str,
        object: &Bound<'py, PyAny>,
        channel_axis: Option<isize>,
    ) -> PyResult<Option<Resident<'py>>> {
        if !is_on_gpu(object)? {
            return Ok(None);
        }
        let _kept = KeptContext::new();
        let py = object.py();
        let told = gpu_module(py)?.call_method1(intern!(py, "image"), (argument, object))?;
        let told = Described::new(&told)?;
        let dtype = told.dtype(argument)?;
        let layout = told.layout(argument, dtype, channel_axis)?;
        Ok(Some(Resident { told, dtype, layout, _kept }))
    }

    /// An array on a GPU, of a type that kernels read: another one where they do not read the given one's.
    pub fn array(argument: &str, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if !is_on_gpu(object)? {
            let got = format!("a {}", object.get_type().name()?);
            return Err(wrong_type(argument, "an array on a CUDA device", &got));
        }
        let py = object.py();
        let told = gpu_module(py)?.call_method1(intern!(py, "image"), (argument, object))?;
        Ok(Described::new(&told)?.array)
    }

    /// So many images on a GPU, of which this is the first and `last` the last, and the stream that is current there,
    /// for runs that nothing waits for, whose results go to `out`.
    pub fn queued<'s>(
        &'s self,
        last: &Resident<'_>,
        count: usize,
        out: &Target<'_>,
    ) -> PyResult<(DeviceImages<'s>, DeviceStream)> {
        if out.told.stream != self.told.stream {
            let expected = "an array of a package whose current stream is that of the image's";
            return Err(value("out", expected, "one of a package with another stream"));
        }
        let (first, apart) = (self.view("image")?, self.apart(last, count)?);
        last.view("image")?;
        // SAFETY: the package says that the images lie in one array, so with equal steps between them, and the first
        // and the last lie on the device by the driver's books (`view`). The stream is the one that both packages say
        // is current there, or the default one where that of the thread was waited for. Memory that was allocated in it
        // and is given back goes to what is put into that stream later; the page on GPU arrays says that other memory
        // has to stay until the stream is done, and that runs of a queue come one after the other.
        unsafe { Ok((DeviceImages::new(first, apart, count), DeviceStream::new(self.told.stream.unwrap_or(0)))) }
    }

    /// Elements from one image to the next, where this is the first and `last` the last of so many.
    fn apart(&self, last: &Resident<'_>, count: usize) -> PyResult<usize> {
        let (size, steps) = (self.dtype.row().size as u64, count.max(2) as u64 - 1);
        let bytes = last.told.address.checked_sub(self.told.address);
        let apart = bytes.filter(|bytes| bytes.is_multiple_of(size * steps)).map(|bytes| bytes / size / steps);
        apart.map(|apart| apart as usize).ok_or_else(|| {
            let got = format!("a first one at {:#x} and a last one at {:#x}", self.told.address, last.told.address);
            value("image", "images one after the other, whole samples apart", &got)
        })
    }

    /// What a spec says of it.
    pub fn shown(&self) -> Shown {
        Shown { dtype: self.dtype, shape: self.layout.shape, channels: self.layout.channels }
    }

    /// The number of its device.
    pub fn device(&self) -> usize {
        self.told.device
    }

    /// From its lowest byte to behind its highest.
    fn bytes(&self) -> Range<u64> {
        self.told.bytes(self.dtype, &self.layout)
    }

    /// The array as the library takes it.
    pub fn view(&self, argument: &str) -> PyResult<DeviceImage<'_>> {
        let Layout { shape, strides, channels, channel_stride, before, span } = &self.layout;
        let places = Places::new(*shape, *before, strides, *channels, *channel_stride, *span);
        let places = places.map_err(|error| value(argument, &error.expected, &error.got))?;
        let bytes = self.told.bytes(self.dtype, &self.layout);
        self.told.check(argument, &bytes)?;
        // SAFETY: CuPy or torch says that the array's elements lie here, of this type, and `span` is how far they reach
        // on either side of the first; both ends lie on the device by the driver's books (checked above), and all are
        // aligned (`Described::layout`). They stay while `self` holds a reference. What the caller's stream is still
        // going to do to them, the run waits for; a caller who lets other work write them meanwhile gets other numbers
        // and nothing else, for the CPU never looks at them.
        let image = unsafe { DeviceImage::new(bytes.start, self.dtype, places, self.told.device) };
        Ok(match self.told.stream {
            // SAFETY: the handle is that of the stream that the package says is current on the device.
            Some(stream) => unsafe { image.behind(stream) },
            None => image,
        })
    }
}

/// Where results go on a GPU: a new array, or the caller's.
pub struct Target<'py> {
    told: Described<'py>,
    dtype: DType,
    shape: Shape,
    count: usize,
    /// The caller's array, and whether the results are copied there from the one that is written.
    given: Option<(Bound<'py, PyAny>, bool)>,
}

impl<'py> Target<'py> {
    /// For the results of a spec of an image, or of images up to the last one, as many as `stack` says along axes
    /// before those of a result.
    pub fn of(
        (image, last): (&Resident<'py>, &Resident<'py>),
        spec: &Spec,
        stack: &[usize],
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Target<'py>> {
        let py = image.told.array.py();
        let (dtype, shape) = (spec.out_type(), spec.out_shape());
        let lengths = [stack, shape.lengths()].concat();
        let count = stack.iter().product();
        let fresh = |like: &Bound<'py, PyAny>| {
            let kind = if dtype == DType::F64 { "float64" } else { "float32" };
            let made = gpu_module(py)?.call_method1(intern!(py, "fresh"), (like, PyTuple::new(py, &lengths)?, kind))?;
            Described::new(&made)
        };
        let Some(out) = out else {
            return Ok(Target { told: fresh(&image.told.array)?, dtype, shape, count, given: None });
        };
        let device = image.device();
        let expected = format!("an array on CUDA device {device}, where the image lies");
        if !is_on_gpu(out)? {
            return Err(wrong_type("out", &expected, &format!("a {}", out.get_type().name()?)));
        }
        let told = Described::new(&gpu_module(py)?.call_method1(intern!(py, "written"), (out,))?)?;
        if told.device != device {
            return Err(value("out", &expected, &format!("one on CUDA device {}", told.device)));
        }
        let own = told.dtype("out")?;
        if own != dtype || told.shape != lengths {
            let name = if dtype == DType::F64 { "float64" } else { "float32" };
            let expected = format!("an array of {name} and shape {lengths:?}");
            return Err(value("out", &expected, &format!("{} and shape {:?}", told.kind, told.shape)));
        }
        if told.readonly {
            return Err(value("out", "an array that can be written", "a read-only one"));
        }
        let layout = told.layout("out", dtype, None);
        let mut steps = told.shape.iter().zip(&told.strides);
        if steps.any(|(&n, &stride)| n > 1 && stride == 0) {
            return Err(value("out", "an array whose elements lie apart", "one that shows an element several times"));
        }
        let mut pitch = dtype.row().size as isize;
        let dense = told.shape.iter().zip(&told.strides).rev().all(|(&n, &stride)| {
            let follows = n == 1 || stride == pitch;
            pitch *= n as isize;
            follows
        });
        // The results lie side by side from the first on, and the image is read to its end.
        let meets = |a: Range<u64>, b: Range<u64>| a.start < b.end && b.start < a.end;
        let first = told.address..told.address.wrapping_add(pitch as u64);
        let given = Some((out.clone(), true));
        let (from, to) = (image.bytes(), last.bytes());
        if !dense || layout.is_err() || meets(first, from.start.min(to.start)..from.end.max(to.end)) {
            return Ok(Target { told: fresh(&told.array)?, dtype, shape, count, given });
        }
        Ok(Target { told, dtype, shape, count, given: Some((out.clone(), false)) })
    }

    /// Room for the results.
    pub fn view(&mut self) -> PyResult<DeviceResults<'_>> {
        let Target { told, dtype, shape, count, .. } = self;
        let bytes = (*count * shape.len() * dtype.row().size) as u64;
        told.check("out", &(told.address..told.address.wrapping_add(bytes)))?;
        // SAFETY: the array was made for so many results, or the caller's has their shape and type without a gap
        // (`of`), at an aligned address; both ends lie on the device by the driver's books (checked above). It stays
        // while `self` holds a reference. The image does not reach into it, and what the caller's stream is still going
        // to do with it, the run waits for; other work that looks at it meanwhile gets other numbers and nothing else.
        let results = unsafe { DeviceResults::new(told.address, *dtype, *shape, *count, told.device) };
        Ok(match told.stream {
            // SAFETY: the handle is that of the stream that the package says is current on the device.
            Some(stream) => unsafe { results.behind(stream) },
            None => results,
        })
    }

    /// What the caller gave, or the new array, when everything is written.
    pub fn finish(self) -> PyResult<Bound<'py, PyAny>> {
        let Some((given, copied)) = self.given else { return Ok(self.told.array) };
        if copied {
            let py = given.py();
            gpu_module(py)?.call_method1(intern!(py, "copy"), (&given, &self.told.array))?;
        }
        Ok(given)
    }
}

/// The type of the elements of an array to write, if it lies on a GPU.
pub fn written_type(out: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if !is_on_gpu(out)? {
        return Ok(None);
    }
    let py = out.py();
    gpu_module(py)?.call_method1(intern!(py, "kind"), (out,))?.extract().map(Some)
}
