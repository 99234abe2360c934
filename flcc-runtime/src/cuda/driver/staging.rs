//! How images and results cross between the memory of the host and that of a device.
//!
//! Memory that is pinned is copied while kernels run. The driver copies other memory too, but holds the calling thread
//! meanwhile, so that the slots of a device take no turns. So a slot that is used again gets pinned memory of its own,
//! as much as a group of images and its results take: threads copy to and from there, the device does the rest by
//! itself.

use std::sync::Arc;

use flcc_core::dtype::Pixel;
use flcc_core::view::{AnyView, AnyViewMut, View, ViewMut};

use crate::cuda::driver::buffer::{Buffer, Pinned, Plain, bytes_of, bytes_of_mut, is_pinned};
use crate::cuda::driver::launch::{Gpu, Stream};
use crate::cuda::fault::Fault;
use crate::run::execute::Copies;
use crate::run::workers::copy;

/// What has an array of the caller's, to which a result goes.
pub(crate) trait Target<'o> {
    /// The array.
    fn target(&mut self) -> &mut AnyViewMut<'o>;
}

impl<'o> Target<'o> for AnyViewMut<'o> {
    fn target(&mut self) -> &mut AnyViewMut<'o> {
        self
    }
}

/// The memory of a slot on the host.
#[derive(Default)]
pub struct Staging {
    /// How often the slot was used.
    uses: usize,
    /// Images on their way in, once they were asked for; `None` in it where the system does not pin them.
    images: Option<Option<Pinned<u8>>>,
    /// Results on their way out, likewise.
    results: Option<Option<Pinned<u8>>>,
    /// Whether images of the group at hand go by pinned memory.
    inward: bool,
    /// Whether results of the group at hand do.
    outward: bool,
    /// Whether all of these lie in memory that the device writes by itself.
    reached: bool,
    /// Whether they are on their way there behind the kernels.
    ahead: bool,
    /// Samples that do not lie densely in the caller's memory, where they do not go by pinned memory.
    plain: Vec<u8>,
}

impl Staging {
    /// Decides how the next group is copied: so many bytes in and out at most; without `outs` nothing comes out.
    pub(crate) fn begin<'o>(
        &mut self,
        gpu: &Arc<Gpu>,
        stream: &Stream,
        copies: Copies,
        bytes: [usize; 2],
        outs: &mut [impl Target<'o>],
    ) {
        let staged = copies == Copies::Staged;
        self.uses += usize::from(staged);
        // Pinning takes longer than it saves in one use. What the system does not pin is left to the driver, for good.
        let pays = staged && self.uses >= 2;
        let pin = |room: &mut Option<Option<Pinned<u8>>>, bytes: usize| {
            pays && room.get_or_insert_with(|| Pinned::new(gpu, bytes).ok()).is_some()
        };
        self.inward = pin(&mut self.images, bytes[0]);
        self.reached = outs.iter_mut().all(|out| reaches(stream, out.target()));
        self.outward = self.inward && !self.reached && pin(&mut self.results, bytes[1]);
        self.ahead = false;
    }

    /// Nothing is copied in, and results are left to the driver.
    pub fn pass(&mut self) {
        (self.inward, self.outward, self.reached, self.ahead) = (false, false, false, false);
    }

    /// Copies an image to the device, in the stream's order.
    ///
    /// # Errors
    /// The device's.
    pub fn upload(
        &mut self,
        stream: &Stream,
        buffer: &mut Buffer,
        at: usize,
        image: &AnyView<'_>,
    ) -> Result<(), Fault> {
        match image {
            AnyView::U8(view) => self.upload_view(stream, buffer, at, view),
            AnyView::U16(view) => self.upload_view(stream, buffer, at, view),
            AnyView::F32(view) => self.upload_view(stream, buffer, at, view),
            AnyView::F64(view) => self.upload_view(stream, buffer, at, view),
        }
    }

    fn upload_view<P: Pixel + Plain>(
        &mut self,
        stream: &Stream,
        buffer: &mut Buffer,
        at: usize,
        view: &View<'_, P>,
    ) -> Result<(), Fault> {
        let dense = view.as_dense().map(bytes_of);
        if let Some(dense) = dense
            && (!self.inward || is_pinned(stream, dense))
        {
            return buffer.upload(stream, at, dense);
        }
        let gathered = if dense.is_none() { view.to_vec() } else { Vec::new() };
        let samples = dense.unwrap_or(bytes_of(&gathered));
        if let Some(Some(images)) = self.images.as_mut().filter(|_| self.inward) {
            // What the slot had before was waited for when its results were taken.
            let staged = &mut images[at..at + samples.len()];
            copy(samples, staged);
            return buffer.upload(stream, at, staged);
        }
        // The last copy out of the memory must have ended.
        stream.wait()?;
        self.plain.clear();
        self.plain.extend_from_slice(samples);
        buffer.upload(stream, at, &self.plain)
    }

    /// Puts the copy of results behind the kernels in the queue, if they go to or by pinned memory: so the device does
    /// not wait for the host between the two. Whose memory it is has to stay until the stream was waited for.
    ///
    /// # Errors
    /// The device's.
    pub fn fetch<'o>(&mut self, stream: &Stream, result: &Buffer, outs: &mut [impl Target<'o>]) -> Result<(), Fault> {
        if self.reached {
            self.download(stream, result, outs)?;
            self.ahead = true;
            return Ok(());
        }
        let bytes = outs.iter_mut().map(|out| bytes_of_result(out.target())).sum();
        self.fetch_again(stream, result, bytes)
    }

    /// As [`Staging::fetch`], of so many bytes of results that were computed again: those that go to pinned memory of
    /// the caller's do so when they are taken.
    ///
    /// # Errors
    /// The device's.
    pub fn fetch_again(&mut self, stream: &Stream, result: &Buffer, bytes: usize) -> Result<(), Fault> {
        self.ahead = false;
        match &mut self.results {
            Some(Some(results)) if self.outward => result.download(stream, 0, &mut results[..bytes]),
            _ => Ok(()),
        }
    }

    /// Copies results to the caller's memory; there when the stream was waited for.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn download<'o>(
        &mut self,
        stream: &Stream,
        result: &Buffer,
        outs: &mut [impl Target<'o>],
    ) -> Result<(), Fault> {
        if std::mem::take(&mut self.ahead) {
            return Ok(());
        }
        if self.outward {
            stream.wait()?;
        }
        let mut at = 0;
        for out in outs.iter_mut().map(Target::target) {
            let bytes = bytes_of_result(out);
            match out {
                AnyViewMut::F32(view) => self.download_view(stream, result, at, view)?,
                AnyViewMut::F64(view) => self.download_view(stream, result, at, view)?,
            }
            at += bytes;
        }
        Ok(())
    }

    fn download_view<T: Plain>(
        &mut self,
        stream: &Stream,
        result: &Buffer,
        at: usize,
        view: &mut ViewMut<'_, T>,
    ) -> Result<(), Fault> {
        let bytes = view.shape().len() * size_of::<T>();
        let fetched = match &self.results {
            Some(Some(results)) if self.outward => Some(&results[at..at + bytes]),
            _ => None,
        };
        if let Some(dense) = view.as_dense_mut().map(bytes_of_mut) {
            return match fetched {
                Some(fetched) => {
                    copy(fetched, dense);
                    Ok(())
                }
                None => result.download(stream, at, dense),
            };
        }
        if let Some(fetched) = fetched {
            scatter(fetched, view);
            return Ok(());
        }
        self.plain.resize(bytes, 0);
        result.download(stream, at, &mut self.plain)?;
        stream.wait()?;
        scatter(&self.plain, view);
        Ok(())
    }
}

/// How many there are.
fn bytes_of_result(out: &AnyViewMut<'_>) -> usize {
    out.shape().len() * out.dtype().row().size
}

/// Whether the device writes a result by itself: it lies densely in pinned memory.
fn reaches(stream: &Stream, out: &mut AnyViewMut<'_>) -> bool {
    let dense = match out {
        AnyViewMut::F32(view) => view.as_dense_mut().map(bytes_of_mut),
        AnyViewMut::F64(view) => view.as_dense_mut().map(bytes_of_mut),
    };
    dense.is_some_and(|dense| is_pinned(stream, dense))
}

/// Puts the values of a result at their places.
fn scatter<T: Plain>(values: &[u8], view: &mut ViewMut<'_, T>) {
    let (shape, size) = (view.shape(), size_of::<T>());
    let (data, layout) = view.parts();
    for (index, value) in values.chunks_exact(size).enumerate() {
        let to = layout.offset(shape.position(index), 0);
        bytes_of_mut(&mut data[to..to + 1]).copy_from_slice(value);
    }
}
