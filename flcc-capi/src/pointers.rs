//! From pointers to values and views: the one file that looks at memory of the caller.
//!
//! What can be asked of a pointer is asked before it is followed: that it is not null, that it is aligned, that nothing
//! reached from it lies outside of the addresses there are, that results share no sample with each other or with the
//! images. What cannot be asked is the caller's word, which the header wants of him: that memory is there.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{self, MaybeUninit};
use std::ops::Range;

use flcc_core::dtype::{DType, Pixel};
#[cfg(feature = "cuda")]
use flcc_core::error::ExecError;
use flcc_core::shape::Shape;
#[cfg(feature = "cuda")]
use flcc_core::view::Layout;
use flcc_core::view::{AnyView, AnyViewMut, View, ViewMut};
#[cfg(feature = "cuda")]
use flcc_runtime::cuda::lies_on;
#[cfg(feature = "cuda")]
use flcc_runtime::{DeviceImage, DeviceResults};

use crate::needed::room;
use crate::status::Failure;
use crate::types::flcc_layout;

/// The number that a C enum came as, which may be none of its values.
///
/// # Safety
/// The enum was passed by value, so that it is initialised.
pub(crate) unsafe fn number<E>(value: MaybeUninit<E>) -> i32 {
    const { assert!(size_of::<E>() == size_of::<i32>(), "C enums are ints here") };
    // SAFETY: as many bytes, checked above, and initialised by the caller's word; every pattern of bits is an integer.
    unsafe { mem::transmute_copy(&value) }
}

/// A text that ends with a zero.
///
/// # Safety
/// Null, or the address of bytes up to and with a zero, which nothing writes while the text is in use.
pub(crate) unsafe fn text<'a>(argument: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::null(argument, "a text"));
    }
    // SAFETY: it is not null; the rest is the caller's word.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(argument, "UTF-8 text", text.to_string_lossy()))
}

/// A text that may be null for none.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn text_or_none<'a>(argument: &str, address: *const c_char) -> Result<&'a str, Failure> {
    if address.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's word.
    unsafe { text(argument, address) }
}

/// Whether a pointer may be followed as far as that can be told: not null, aligned.
fn check<T>(argument: &str, address: *const T) -> Result<(), Failure> {
    if address.is_null() {
        return Err(Failure::null(argument, "an address"));
    }
    aligned(argument, address as usize, align_of::<T>())
}

fn aligned(argument: &str, address: usize, align: usize) -> Result<(), Failure> {
    if address.is_multiple_of(align) {
        return Ok(());
    }
    Err(Failure::invalid(argument, format!("an address that is a multiple of {align}"), format!("{address:#x}")))
}

/// The value at an address.
///
/// # Safety
/// Null, or the address of as many bytes as the value has, all of which are one of its values.
pub(crate) unsafe fn get<T: Copy>(argument: &str, address: *const T) -> Result<T, Failure> {
    check(argument, address)?;
    // SAFETY: not null and aligned, checked above; the rest is the caller's word.
    Ok(unsafe { address.read() })
}

/// Numbers that lie one behind the other; none where there is no address, and none of them.
///
/// # Safety
/// Null, or the address of as many numbers, which nothing writes while they are in use.
pub(crate) unsafe fn numbers<'a>(
    argument: &str,
    address: *const f64,
    count: usize,
) -> Result<Option<&'a [f64]>, Failure> {
    if address.is_null() && count == 0 {
        return Ok(None);
    }
    check(argument, address)?;
    let bytes = count.checked_mul(size_of::<f64>()).filter(|&bytes| bytes <= isize::MAX as usize);
    if bytes.and_then(|bytes| (address as usize).checked_add(bytes)).is_none() {
        return Err(Failure::invalid(argument, "numbers that lie within the addresses there are", count));
    }
    // SAFETY: not null, aligned and within the addresses there are, checked above; the rest is the caller's word.
    Ok(Some(unsafe { std::slice::from_raw_parts(address, count) }))
}

/// Puts a value at an address.
///
/// # Safety
/// Null, or the address of as many bytes as the value has, which nobody else uses.
pub(crate) unsafe fn put<T: Copy>(argument: &str, address: *mut T, value: T) -> Result<(), Failure> {
    check(argument, address)?;
    // SAFETY: not null and aligned, checked above; the rest is the caller's word.
    unsafe { address.write(value) };
    Ok(())
}

/// Puts values at an address and behind it, the first of them at index `from`.
///
/// # Safety
/// Null, or the address of `from` and as many values more, which nobody else uses.
pub(crate) unsafe fn put_all<T: Copy>(
    argument: &str,
    address: *mut T,
    from: usize,
    values: impl ExactSizeIterator<Item = T>,
) -> Result<(), Failure> {
    check(argument, address)?;
    for (index, value) in (from..).zip(values) {
        // SAFETY: not null and aligned, checked above; so many values lie there by the caller's word.
        unsafe { address.add(index).write(value) };
    }
    Ok(())
}

/// Puts the first bytes of a plain value at an address, as many as fit in `room`.
///
/// # Safety
/// Null, or the address of `room` bytes, which nobody else uses; the value has no bytes between its fields.
pub(crate) unsafe fn put_front<T: Copy>(argument: &str, address: *mut T, room: usize, value: T) -> Result<(), Failure> {
    check(argument, address)?;
    let bytes = room.min(size_of::<T>());
    // SAFETY: both have so many bytes, by the line above and by the caller's word; the value is one of our own.
    unsafe { (&raw const value).cast::<u8>().copy_to_nonoverlapping(address.cast::<u8>(), bytes) };
    Ok(())
}

/// Puts a text and a zero into `room` bytes, cut short where it does not fit, and its whole length at `length`.
///
/// # Safety
/// `buffer` is null or the address of `room` bytes, `length` null or that of a number; nobody else uses them.
pub(crate) unsafe fn put_text(buffer: *mut c_char, room: usize, length: *mut usize, text: &str) -> Result<(), Failure> {
    if !buffer.is_null() && room > 0 {
        // A character is told whole or not at all.
        let kept = (0..=text.len().min(room - 1)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        // SAFETY: at most `room - 1` bytes and a zero go to `room` bytes that are there by the caller's word.
        unsafe {
            text.as_ptr().copy_to_nonoverlapping(buffer.cast::<u8>(), kept);
            buffer.add(kept).write(0);
        }
    }
    if !length.is_null() {
        // SAFETY: the caller's word.
        unsafe { put("length", length, text.len()) }?;
    }
    Ok(())
}

/// Where arrays of one shape lie behind each other; nothing is followed yet.
#[derive(Clone, Debug)]
pub(crate) struct Stack<'a> {
    argument: &'a str,
    data: *mut c_void,
    dtype: DType,
    shape: Shape,
    strides: [isize; 3],
    channels: usize,
    channel: isize,
    next: isize,
    /// Elements before the first sample of an array, and of the span that its samples lie in.
    before: usize,
    span: usize,
    /// The addresses of all.
    bytes: Range<usize>,
}

impl<'a> Stack<'a> {
    /// Arrays of a shape from an address on: row-major without gaps, one behind the other, or as the layout says.
    pub fn new(
        argument: &'a str,
        data: *const c_void,
        dtype: DType,
        (shape, channels): (Shape, usize),
        layout: Option<flcc_layout>,
        count: usize,
    ) -> Result<Stack<'a>, Failure> {
        if data.is_null() {
            return Err(Failure::null(argument, &format!("the address of {dtype} samples")));
        }
        let size = dtype.row().size;
        aligned(argument, data as usize, size)?;
        let far =
            || Failure::invalid(argument, "arrays that lie within the addresses there are", "strides or sizes beyond");
        let dense = dense(shape, channels).ok_or_else(far)?;
        let layout = layout.unwrap_or(dense);
        // Of an axis that there is none of, whatever stands there counts for nothing.
        let mut strides = [0; 3];
        strides[..shape.axes()].copy_from_slice(&layout.strides[..shape.axes()]);
        let own =
            reach(shape.lengths().iter().copied().zip(strides).chain([(channels, layout.channel)])).ok_or_else(far)?;
        let all = reach([(count, layout.next)].into_iter()).ok_or_else(far)?;
        let span = own.1 - own.0 + 1;
        let first = data as usize as i128;
        let [low, high] = [own.0 + all.0, own.1 + all.1 + 1].map(|at| first + at * size as i128);
        if low < 1 || high > usize::MAX as i128 || high - low > isize::MAX as i128 {
            return Err(far());
        }
        Ok(Stack {
            argument,
            data: data.cast_mut(),
            dtype,
            shape,
            strides,
            channels,
            channel: layout.channel,
            next: layout.next,
            before: -own.0 as usize,
            span: span as usize,
            bytes: low as usize..high as usize,
        })
    }

    /// The same arrays, of which each lies in a span of its own, and none of `others` in the span of any.
    pub fn apart(self, others: &Stack<'_>, count: usize) -> Result<Stack<'a>, Failure> {
        if count > 1 && self.next.unsigned_abs() < self.span {
            let expected = format!("arrays behind each other, each {} elements or more from the last", self.span);
            return Err(Failure::invalid(self.argument, expected, format!("{} elements", self.next)));
        }
        if self.bytes.start < others.bytes.end && others.bytes.start < self.bytes.end {
            let expected = format!("memory apart from that of the {}", others.argument);
            return Err(Failure::invalid(self.argument, expected, "memory that both lie in"));
        }
        Ok(self)
    }

    /// The address of the first element that array `number` may use, as many elements from the first sample on.
    fn begin<T>(&self, number: usize) -> *mut T {
        let moved = (number as isize).wrapping_mul(self.next).wrapping_sub(self.before as isize);
        self.data.cast::<T>().wrapping_offset(moved)
    }

    /// Some of the arrays, to be read.
    ///
    /// # Safety
    /// All samples are there, and nothing writes between the first and the last while the views are in use.
    pub unsafe fn views<'v>(&self, numbers: Range<usize>) -> Result<Vec<AnyView<'v>>, Failure> {
        let mut views = room(numbers.len())?;
        for number in numbers {
            // SAFETY: the caller's word.
            views.push(unsafe {
                match self.dtype {
                    DType::U8 => self.view::<u8>(number)?.into(),
                    DType::U16 => self.view::<u16>(number)?.into(),
                    DType::F32 => self.view::<f32>(number)?.into(),
                    DType::F64 => self.view::<f64>(number)?.into(),
                }
            });
        }
        Ok(views)
    }

    /// # Safety
    /// As [`Stack::views`].
    unsafe fn view<'v, T: Pixel>(&self, number: usize) -> Result<View<'v, T>, Failure> {
        // SAFETY: the span lies within the addresses there are, is not null, and is aligned, all checked when the stack
        // was made; that samples are there, whose every pattern of bits is a value, is the caller's word.
        let data = unsafe { std::slice::from_raw_parts(self.begin::<T>(number), self.span) };
        let strides = &self.strides[..self.shape.axes()];
        Ok(View::strided_channels(data, self.before, self.shape, strides, self.channels, self.channel)?)
    }

    /// The first of the arrays, to be read on a device behind a stream.
    ///
    /// # Safety
    /// All samples are there, the stream is one of the device or null, and nothing but what it holds writes between the
    /// first and the last sample while the image is in use.
    #[cfg(feature = "cuda")]
    pub unsafe fn on_device<'v>(&self, device: usize, stream: *mut c_void) -> Result<DeviceImage<'v>, Failure> {
        self.lies_on(device)?;
        let strides = &self.strides[..self.shape.axes()];
        let layout = Layout::new(self.shape, self.before, strides, self.channels, self.channel, self.span)?;
        let begin = (self.data as usize).wrapping_sub(self.before * self.dtype.row().size);
        // SAFETY: aligned, checked when the stack was made; both ends lie on the device by the driver's books, checked
        // above; the rest is the caller's word.
        Ok(unsafe { DeviceImage::new(begin as u64, self.dtype, layout, device).behind(stream as u64) })
    }

    /// Samples from one array to the next.
    ///
    /// # Errors
    /// Each lies before the last.
    #[cfg(feature = "cuda")]
    pub fn next(&self) -> Result<usize, Failure> {
        let expected = "images one behind the other";
        usize::try_from(self.next).map_err(|_| Failure::invalid(self.argument, expected, self.next))
    }

    /// The arrays, `count` of them without gaps, to be written on a device behind a stream.
    ///
    /// # Safety
    /// As [`Stack::on_device`]; nobody else uses them while the results are in use.
    #[cfg(feature = "cuda")]
    pub unsafe fn results_on_device<'v>(
        &self,
        device: usize,
        stream: *mut c_void,
        count: usize,
    ) -> Result<DeviceResults<'v>, Failure> {
        self.lies_on(device)?;
        // SAFETY: as above; the addresses are those of `count` arrays without a gap.
        Ok(unsafe {
            DeviceResults::new(self.bytes.start as u64, self.dtype, self.shape, count, device).behind(stream as u64)
        })
    }

    #[cfg(feature = "cuda")]
    fn lies_on(&self, device: usize) -> Result<(), Failure> {
        if lies_on(device, self.bytes.start as u64, self.bytes.len()).map_err(ExecError::from)? {
            return Ok(());
        }
        let expected = format!("an address in the memory of device {device}");
        Err(Failure::invalid(
            self.argument,
            expected,
            format!("{:#x}, which the driver does not know there", self.data as usize),
        ))
    }

    /// Some of the arrays, to be written: f32 or f64, of one channel, in spans apart ([`Stack::apart`]).
    ///
    /// # Safety
    /// All samples are there, and nobody else uses what lies between the first and the last of an array while the views
    /// are in use; no other views of these arrays are.
    pub unsafe fn views_mut<'v>(&self, numbers: Range<usize>) -> Result<Vec<AnyViewMut<'v>>, Failure> {
        let mut views = room(numbers.len())?;
        for number in numbers {
            // SAFETY: the caller's word.
            views.push(unsafe {
                match self.dtype {
                    DType::F64 => self.view_mut::<f64>(number)?.into(),
                    _ => self.view_mut::<f32>(number)?.into(),
                }
            });
        }
        Ok(views)
    }

    /// # Safety
    /// As [`Stack::views_mut`].
    unsafe fn view_mut<'v, T>(&self, number: usize) -> Result<ViewMut<'v, T>, Failure> {
        // SAFETY: as in `view`; nobody else uses the span by the caller's word, and the views of other numbers lie in
        // spans of their own, checked by `apart`.
        let data = unsafe { std::slice::from_raw_parts_mut(self.begin::<T>(number), self.span) };
        Ok(ViewMut::strided(data, self.before, self.shape, &self.strides[..self.shape.axes()])?)
    }
}

/// Row-major without gaps, the channels of a pixel side by side, one array behind the other.
fn dense(shape: Shape, channels: usize) -> Option<flcc_layout> {
    let mut strides = [0; 3];
    let mut step = isize::try_from(channels).ok()?;
    for (stride, length) in strides[..shape.axes()].iter_mut().zip(shape.lengths()).rev() {
        *stride = step;
        step = step.checked_mul(isize::try_from(*length).ok()?)?;
    }
    Some(flcc_layout { strides, channel: 1, next: step })
}

/// The lowest and the highest of all sums of one multiple of each stride.
fn reach(steps: impl Iterator<Item = (usize, isize)>) -> Option<(i128, i128)> {
    let (mut low, mut high) = (0i128, 0i128);
    for (n, stride) in steps {
        let span = (n as i128 - 1).max(0).checked_mul(stride as i128)?;
        (low, high) = (low.checked_add(span.min(0))?, high.checked_add(span.max(0))?);
    }
    // What has more elements has no addresses.
    let most = i128::from(u64::MAX);
    (low >= -most && high <= most).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stride() -> impl Strategy<Value = isize> {
        prop_oneof![3 => -50..50isize, 1 => any::<isize>(), 1 => Just(isize::MAX), 1 => Just(isize::MIN)]
    }

    fn count() -> impl Strategy<Value = usize> {
        prop_oneof![4 => 0..5usize, 1 => any::<usize>()]
    }

    proptest! {
        /// No address is followed here: what a stack says of itself is compared with its samples, one by one.
        #[test]
        fn a_stack_holds_all_its_samples_or_is_refused(
            address in prop_oneof![1 => any::<usize>(), 4 => (512..1024usize).prop_map(|line| 8 * line)],
            dtype in prop_oneof![Just(DType::U8), Just(DType::U16), Just(DType::F32), Just(DType::F64)],
            lengths in prop::collection::vec(1..4usize, 1..4),
            strides in [stride(), stride(), stride()],
            (channels, channel, next, count) in (1..4usize, stride(), stride(), count()),
        ) {
            let shape = Shape::new(&lengths).unwrap();
            let layout = flcc_layout { strides, channel, next };
            let samples = (shape, channels);
            let data = std::ptr::without_provenance(address);
            let Ok(stack) = Stack::new("images", data, dtype, samples, Some(layout), count) else { return Ok(()) };
            prop_assert!(address != 0 && address % dtype.row().size == 0);
            prop_assert!(stack.bytes.end - stack.bytes.start <= isize::MAX as usize);
            // The first and the last of the arrays reach as far as any.
            let numbers = [0, count.saturating_sub(1)];
            let size = dtype.row().size as i128;
            for number in numbers {
                let begin = stack.begin::<u8>(0) as usize; // of bytes: what is left is the distance in elements
                prop_assert_eq!(begin, address.wrapping_sub(stack.before));
                for index in 0..shape.len() * channels {
                    let (place, of) = (shape.position(index / channels), index % channels);
                    let place = shape.unpad(&place);
                    let mut moved = number as i128 * next as i128 + of as i128 * channel as i128;
                    moved += place.iter().zip(strides).map(|(&at, stride)| at as i128 * stride as i128).sum::<i128>();
                    let byte = address as i128 + moved * size;
                    prop_assert!(byte >= stack.bytes.start as i128 && byte + size <= stack.bytes.end as i128);
                    let inside = moved - number as i128 * next as i128 + stack.before as i128;
                    prop_assert!((0..stack.span as i128).contains(&inside));
                }
            }
        }
    }
}
