//! Images in the memory of a device.

use std::marker::PhantomData;

use flcc_core::dtype::DType;
use flcc_core::view::Layout;

/// An image that already lies in the memory of a device: it is computed from there, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct DeviceImage<'a> {
    address: u64,
    dtype: DType,
    layout: Layout,
    device: usize,
    memory: PhantomData<&'a [u8]>,
}

impl DeviceImage<'_> {
    /// The image of `dtype` samples whose element 0 lies at `address` on the device of that number, and whose positions
    /// lie as `layout` says (made by [`Layout::new`] with the number of elements that are there).
    ///
    /// # Safety
    /// As many elements as the layout was made for lie at the address, aligned for their type, and nothing writes them
    /// while the value lives.
    pub unsafe fn new(address: u64, dtype: DType, layout: Layout, device: usize) -> Self {
        DeviceImage { address, dtype, layout, device, memory: PhantomData }
    }

    /// Its type.
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
}
