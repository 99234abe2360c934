//! Memory: of a device, and of the host where a device can reach it.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, DevicePtr, result, sys};

use flcc_core::dtype::DType;
use flcc_core::shape::Shape;
use flcc_core::view::Layout;

use crate::cuda::driver::launch::{Address, BestView, Gpu, PlaceView, Stream, Thresholds, Tile};
use crate::cuda::fault::Fault;
use crate::run::device_image::{DeviceImage, DeviceResults};

/// Plain data: any bits are a value, and no bits are padding.
///
/// # Safety
/// Both hold.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: numbers.
unsafe impl Plain for u16 {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}
// SAFETY: numbers.
unsafe impl Plain for u64 {}
// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for f64 {}
// SAFETY: twenty 32-bit integers in C's layout.
unsafe impl Plain for Tile {}
// SAFETY: seven 64-bit floats in C's layout.
unsafe impl Plain for Thresholds {}
// SAFETY: three 64-bit integers and a 64-bit float in C's layout.
unsafe impl Plain for BestView {}
// SAFETY: a 64-bit integer and a 64-bit float in C's layout.
unsafe impl Plain for PlaceView {}

/// The bytes of plain data.
pub fn bytes_of<T: Plain>(data: &[T]) -> &[u8] {
    // SAFETY: `Plain` has no padding, so each of these bytes is initialised; the lifetime is the slice's.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// The bytes of plain data, to be written.
pub fn bytes_of_mut<T: Plain>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and any bits are a value.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

/// Memory of a device, used on one stream.
pub struct Buffer {
    slice: CudaSlice<u8>,
}

impl Buffer {
    /// So many bytes, of any content; never none.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(stream: &Stream, bytes: usize) -> Result<Buffer, Fault> {
        // SAFETY: the content is unspecified; kernels and copies write it before others read it.
        let slice = unsafe { stream.0.alloc::<u8>(bytes.max(1)) }
            .map_err(|error| Fault::new(format!("{bytes} bytes of memory"), error))?;
        Ok(Buffer { slice })
    }

    /// A copy of data, there when this returns.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn of<T: Plain>(stream: &Stream, data: &[T]) -> Result<Buffer, Fault> {
        let mut buffer = Buffer::new(stream, size_of_val(data))?;
        buffer.upload(stream, 0, bytes_of(data))?;
        stream.wait()?;
        Ok(buffer)
    }

    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.slice.len()
    }

    /// The buffer's address.
    pub fn address(&self, stream: &Stream) -> Address {
        Address { at: self.slice.device_ptr(&stream.0).0, bytes: self.bytes() }
    }

    /// Copies to it, in the stream's order. Returns when `data` may be changed again, unless it is pinned.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn upload(&mut self, stream: &Stream, at: usize, data: &[u8]) -> Result<(), Fault> {
        let mut part = self
            .slice
            .try_slice_mut(at..at + data.len())
            .ok_or_else(|| Fault::new("copy", "past the end of a buffer"))?;
        Ok(stream.0.memcpy_htod(data, &mut part)?)
    }

    /// Copies from it, in the stream's order; `data` holds it when the stream was waited for.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn download(&self, stream: &Stream, at: usize, data: &mut [u8]) -> Result<(), Fault> {
        let part =
            self.slice.try_slice(at..at + data.len()).ok_or_else(|| Fault::new("copy", "past the end of a buffer"))?;
        Ok(stream.0.memcpy_dtoh(&part, data)?)
    }

    /// The buffer as an image: row-major without gaps, the channels of a pixel side by side.
    ///
    /// # Errors
    /// It is too short.
    pub fn image(
        &self,
        stream: &Stream,
        dtype: DType,
        shape: Shape,
        channels: usize,
    ) -> Result<DeviceImage<'_>, Fault> {
        let needed = shape.len().saturating_mul(channels).saturating_mul(dtype.row().size);
        if needed > self.bytes() {
            return Err(Fault::new("image", format!("{needed} bytes are needed where {} are", self.bytes())));
        }
        let device = stream.0.context().ordinal();
        // SAFETY: so many bytes lie there, aligned as device memory is, and `self` stays borrowed.
        Ok(unsafe { DeviceImage::new(self.address(stream).at, dtype, Layout::dense(shape, channels), device) })
    }

    /// Copies from there, when all that is in the stream is done, and waits for it.
    ///
    /// # Errors
    /// The driver's.
    pub fn read(&self, stream: &Stream, at: usize, data: &mut [u8]) -> Result<(), Fault> {
        self.download(stream, at, data)?;
        stream.wait()
    }

    /// The buffer's last bytes as room for so many results.
    ///
    /// # Errors
    /// It is too short.
    pub fn results(
        &mut self,
        stream: &Stream,
        dtype: DType,
        shape: Shape,
        count: usize,
    ) -> Result<DeviceResults<'_>, Fault> {
        let needed = shape.len().saturating_mul(count).saturating_mul(dtype.row().size);
        let before = self.bytes().checked_sub(needed);
        let before =
            before.ok_or_else(|| Fault::new("results", format!("{needed} bytes where {} are", self.bytes())))?;
        let (at, device) = (self.address(stream).skip(before).at, stream.0.context().ordinal());
        if at % dtype.row().size as u64 != 0 {
            return Err(Fault::new("results", "an address that is not aligned for their type"));
        }
        // SAFETY: so many bytes lie there, aligned (just checked), and `self` stays borrowed by who alone uses it.
        Ok(unsafe { DeviceResults::new(at, dtype, shape, count, device) })
    }

    /// Fills its first bytes with zeros, in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn clear(&mut self, stream: &Stream, bytes: usize) -> Result<(), Fault> {
        let mut part =
            self.slice.try_slice_mut(0..bytes).ok_or_else(|| Fault::new("fill", "past the end of a buffer"))?;
        Ok(stream.0.memset_zeros(&mut part)?)
    }
}

/// Whether a device copies from and to this memory of the host without a detour.
pub fn is_pinned(stream: &Stream, bytes: &[u8]) -> bool {
    let known = |byte: Option<&u8>| {
        let mut kind = 0u32;
        let mut attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let mut answer = (&raw mut kind).cast();
        let address = byte.map_or(0, |byte| std::ptr::from_ref(byte) as u64);
        // SAFETY: a context is current (bound below); the address is looked up in the driver's books and never
        // followed; one attribute is asked for, whose answer is an integer of 32 bits, 0 of memory that the driver does
        // not know.
        let asked = unsafe { sys::cuPointerGetAttributes(1, &raw mut attribute, &raw mut answer, address) };
        asked.result().is_ok() && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
    };
    stream.bind().is_ok() && known(bytes.first()) && known(bytes.last())
}

/// Whether so many bytes from an address on begin and end in memory of a device, by the driver's books.
///
/// # Errors
/// There is no such device.
pub fn lies_on(device: usize, address: u64, bytes: usize) -> Result<bool, Fault> {
    Gpu::open(device)?.context().bind_to_thread()?;
    let known = |address: u64| {
        let (mut kind, mut number) = (0u32, -1i32);
        let mut attributes = [
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        ];
        let mut answers = [(&raw mut kind).cast(), (&raw mut number).cast()];
        // SAFETY: a context is current (bound above); the address is looked up in the driver's books and never
        // followed; two attributes are asked for, whose answers are integers of 32 bits, of memory that the driver does
        // not know 0 and a number that no device has.
        let asked = unsafe { sys::cuPointerGetAttributes(2, attributes.as_mut_ptr(), answers.as_mut_ptr(), address) };
        let there = [sys::CUmemorytype::CU_MEMORYTYPE_DEVICE, sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED];
        asked.result().is_ok()
            && there.iter().any(|known| *known as u32 == kind)
            && usize::try_from(number) == Ok(device)
    };
    Ok(bytes > 0 && known(address) && known(address + (bytes - 1) as u64))
}

/// Copies what lies at an address of a device, when all that is in the stream is done, and waits for it.
///
/// # Errors
/// Fewer bytes there, or the driver's.
pub(crate) fn read_resident(stream: &Stream, from: Address, data: &mut [u8]) -> Result<(), Fault> {
    if from.bytes < data.len() {
        return Err(Fault::new("copy", format!("{} bytes are needed where {} are", data.len(), from.bytes)));
    }
    stream.bind()?;
    // SAFETY: so many bytes lie there (checked above; of memory of the caller's its maker answers for the positions of
    // its layout, which these are), and the copy is waited for before `data` is given back.
    unsafe { result::memcpy_dtoh_async(data, from.at, stream.raw()) }?;
    stream.wait()
}

/// Host memory that a device copies from and to without a detour: images and results in it are copied while kernels
/// run.
pub struct Pinned<T: Plain> {
    memory: NonNull<T>,
    len: usize,
    gpu: Arc<Gpu>,
}

// SAFETY: it owns its memory, and plain data may be sent and shared.
unsafe impl<T: Plain> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Pinned<T> {}

impl<T: Plain> Pinned<T> {
    /// So many zeros.
    ///
    /// # Errors
    /// The system does not lock that much memory.
    pub fn new(gpu: &Arc<Gpu>, len: usize) -> Result<Pinned<T>, Fault> {
        let bytes = len
            .max(1)
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Fault::new("pinned memory", "more bytes than there are addresses"))?;
        gpu.context().bind_to_thread()?;
        // SAFETY: the context is current; what comes is an address of so many bytes, of a page, so aligned for any
        // type.
        let memory = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }
            .map_err(|error| Fault::new(format!("{bytes} bytes of pinned memory"), error))?;
        let memory =
            NonNull::new(memory.cast::<T>()).ok_or_else(|| Fault::new("pinned memory", "the driver gave none"))?;
        // SAFETY: so many bytes lie there and nobody else knows them; all zeros are a value of plain data.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned { memory, len, gpu: Arc::clone(gpu) })
    }
}

impl<T: Plain> Pinned<T> {
    /// The memory's address for kernels: that of the host, since memory that is pinned lies at one address for both.
    pub(crate) fn address(&self) -> Address {
        Address { at: self.memory.as_ptr() as u64, bytes: self.len * size_of::<T>() }
    }

    /// What a kernel has written at an index, when its stream was waited for.
    pub(crate) fn read(&self, index: usize) -> T {
        assert!(index < self.len, "{index} of {} values", self.len);
        // SAFETY: it lies in the memory (asserted above), which is initialised; a kernel that writes there meanwhile
        // writes whole aligned numbers. The compiler does not see kernels, so it is not to take for known what was read
        // before.
        unsafe { self.memory.as_ptr().add(index).read_volatile() }
    }

    /// Writes at an index for kernels that are put into a stream from now on; earlier ones may run meanwhile.
    pub(crate) fn write(&mut self, index: usize, value: T) {
        assert!(index < self.len, "{index} of {} values", self.len);
        // SAFETY: it lies in the memory (asserted above), which is exclusively borrowed on the host; the compiler makes
        // nothing of what else the memory holds.
        unsafe { self.memory.as_ptr().add(index).write_volatile(value) }
    }
}

impl<T: Plain> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised values lie there as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Pinned<T> {
    fn drop(&mut self) {
        // SAFETY: the context lives as long as `gpu`, and the address came from `malloc_host`. Copies from and to it
        // were waited for by the run that borrowed it.
        unsafe {
            if result::ctx::set_current(self.gpu.context().cu_ctx()).is_ok() {
                let _ = result::free_host(self.memory.as_ptr().cast());
            }
        }
    }
}
