//! Images and results in the memory of a device.

use std::marker::PhantomData;

use flcc_core::dtype::DType;
use flcc_core::shape::Shape;
use flcc_core::view::Layout;

/// An image that already lies in the memory of a device: it is computed from there, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct DeviceImage<'a> {
    address: u64,
    dtype: DType,
    layout: Layout,
    device: usize,
    stream: Option<u64>,
    memory: PhantomData<&'a [u8]>,
}

impl DeviceImage<'_> {
    /// The image of `dtype` samples whose element 0 lies at `address` on the device of that number, and whose positions
    /// lie as `layout` says (made by [`Layout::new`] with the number of elements that are there).
    ///
    /// # Safety
    /// As many elements as the layout was made for lie at the address, aligned for their type, and nothing writes them
    /// while the value lives, but for work that [`DeviceImage::behind`] has a run wait for.
    pub unsafe fn new(address: u64, dtype: DType, layout: Layout, device: usize) -> Self {
        DeviceImage { address, dtype, layout, device, stream: None, memory: PhantomData }
    }

    /// The image whose samples are there when the work that a stream holds is done: a run looks at them after all that
    /// was put into the stream before the run. The stream is named by its handle, `CUstream` or `cudaStream_t` as a
    /// number; 0 and 1 are the default stream.
    ///
    /// # Safety
    /// The handle is one of those two or of a stream of the image's device, which is not destroyed while the value
    /// lives.
    pub unsafe fn behind(self, stream: u64) -> Self {
        DeviceImage { stream: Some(stream), ..self }
    }

    /// The type of its samples.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where its samples lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of its device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// The address of its first position.
    pub(crate) fn begin(&self) -> u64 {
        self.address + (self.layout.offset([0; 3], 0) * self.dtype.row().size) as u64
    }

    /// The stream that it is behind.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.stream
    }
}

/// Images of one shape and type that lie in the memory of a device at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct DeviceImages<'a> {
    first: DeviceImage<'a>,
    apart: usize,
    count: usize,
}

impl<'a> DeviceImages<'a> {
    /// `count` images that lie as `first` does, each `apart` elements behind the one before.
    ///
    /// # Safety
    /// Every one of them lies there as [`DeviceImage::new`] asks of the first.
    pub unsafe fn new(first: DeviceImage<'a>, apart: usize, count: usize) -> Self {
        DeviceImages { first, apart, count }
    }

    /// The first of them.
    pub fn first(&self) -> &DeviceImage<'a> {
        &self.first
    }

    /// Elements from one to the next.
    pub fn apart(&self) -> usize {
        self.apart
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<'a> From<DeviceImage<'a>> for DeviceImages<'a> {
    fn from(first: DeviceImage<'a>) -> Self {
        DeviceImages { first, apart: 0, count: 1 }
    }
}

/// A stream of the caller's, into which runs are put that nothing waits for.
#[derive(Clone, Copy, Debug)]
pub struct DeviceStream(u64);

impl DeviceStream {
    /// The stream of a handle, `CUstream` or `cudaStream_t` as a number; 0 and 1 are the default stream.
    ///
    /// # Safety
    /// The handle is one of those two or of a stream of the device that runs are put into it for, which is not
    /// destroyed while the value lives. Images and results of runs that are put into it stay where they are until the
    /// stream has done with them, and nothing else writes them or reads the results until then. The [queue]s of the
    /// runs live as long: a graph that recorded them is not launched when they are gone, and none of them goes while a
    /// stream of the device records. Runs of a queue come one after the other on the device. What images and results
    /// are [`behind`](DeviceImage::behind) is not waited for: they are behind what this stream holds.
    ///
    /// [queue]: crate::DeviceQueue
    pub unsafe fn new(handle: u64) -> DeviceStream {
        DeviceStream(handle)
    }

    /// The handle.
    pub(crate) fn handle(self) -> u64 {
        self.0
    }
}

/// What a run in a caller's stream does about samples that its kernel does not serve: NaN, infinite ones, and
/// magnitudes that call for a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extraordinary {
    /// It tells of them: results of such a run are not to be used. For images whose samples are known to be ordinary.
    #[default]
    Told,
    /// It computes them as all others, by several kernels where one would serve ordinary samples: a few times as slow.
    Computed,
}

/// A run that is put into a stream of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Enqueued<'r> {
    /// The stream.
    pub stream: DeviceStream,
    /// The images.
    pub images: &'r DeviceImages<'r>,
    /// Where results go.
    pub out: &'r DeviceResults<'r>,
    /// What is done about samples that a kernel does not serve.
    pub extraordinary: Extraordinary,
}

/// Images that lie on a device, one behind the other along the first axis, and as many templates, image `k` with
/// template `k`.
#[derive(Clone, Copy, Debug)]
pub struct DevicePairs<'a> {
    /// The images: `[n, height, width]`.
    pub images: DeviceImage<'a>,
    /// The templates, without gaps: `[n, height, width]`.
    pub templates: DeviceImage<'a>,
}

impl DevicePairs<'_> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.images.layout().shape().padded()[0]
    }
}

/// Where results go in the memory of a device: those of one image with every template, one after the other, row-major
/// without gaps.
#[derive(Debug)]
pub struct DeviceResults<'a> {
    address: u64,
    dtype: DType,
    shape: Shape,
    count: usize,
    device: usize,
    stream: Option<u64>,
    memory: PhantomData<&'a mut [u8]>,
}

impl DeviceResults<'_> {
    /// Room for `count` results of a shape and type from `address` on, on the device of that number.
    ///
    /// # Safety
    /// As many elements lie at the address, aligned for their type, and nothing else reads or writes them while the
    /// value lives, but for work that [`DeviceResults::behind`] has a run wait for.
    pub unsafe fn new(address: u64, dtype: DType, shape: Shape, count: usize, device: usize) -> Self {
        DeviceResults { address, dtype, shape, count, device, stream: None, memory: PhantomData }
    }

    /// The room in memory that other work looks at until what a stream holds is done: as [`DeviceImage::behind`].
    ///
    /// # Safety
    /// As of [`DeviceImage::behind`].
    pub unsafe fn behind(self, stream: u64) -> Self {
        DeviceResults { stream: Some(stream), ..self }
    }

    /// The type, the shape of each, how many there are, and the number of their device.
    pub fn about(&self) -> (DType, Shape, usize, usize) {
        (self.dtype, self.shape, self.count, self.device)
    }

    /// The address of the first element, and how many bytes there are.
    pub(crate) fn room(&self) -> (u64, usize) {
        (self.address, self.count * self.shape.len() * self.dtype.row().size)
    }

    /// The stream that they are behind.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.stream
    }
}
