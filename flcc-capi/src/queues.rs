//! Runs on a GPU that nothing waits for: what the header has of queues.

use std::ffi::{c_int, c_void};
use std::ptr;
#[cfg(feature = "cuda")]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "cuda")]
use flcc_runtime::cuda::KeptContext;
#[cfg(feature = "cuda")]
use flcc_runtime::{DeviceImages, DeviceQueue, DeviceStream, Extraordinary};

#[cfg(feature = "cuda")]
use crate::plans::images_at;
use crate::plans::matcher_of;
use crate::pointers;
#[cfg(feature = "cuda")]
use crate::pointers::Stack;
#[cfg(feature = "cuda")]
use crate::registry::Registry;
#[cfg(not(feature = "cuda"))]
use crate::status::flcc_status::FLCC_ERROR_REFUSED;
use crate::status::{Failure, flcc_status, status};
use crate::types::{flcc_layout, flcc_matcher, flcc_queue};

/// A queue, for one caller at a time.
#[cfg(feature = "cuda")]
type Shared = Arc<Mutex<Kept>>;

/// A queue that leaves the caller's context current when it goes.
#[cfg(feature = "cuda")]
struct Kept(Option<DeviceQueue>);

#[cfg(feature = "cuda")]
impl Drop for Kept {
    fn drop(&mut self) {
        let _kept = KeptContext::new();
        self.0 = None;
    }
}

#[cfg(feature = "cuda")]
static QUEUES: Registry<Shared> = Registry::new();

/// Does something with a queue.
#[cfg(feature = "cuda")]
fn with<R>(queue: *const flcc_queue, work: impl FnOnce(&mut DeviceQueue) -> Result<R, Failure>) -> Result<R, Failure> {
    if queue.is_null() {
        return Err(Failure::null("queue", "a queue"));
    }
    let found = QUEUES.find(queue as usize).ok_or_else(|| Failure::handle("queue"))?;
    let mut kept = found.lock().unwrap_or_else(PoisonError::into_inner);
    kept.0.as_mut().map_or_else(|| Err(Failure::handle("queue")), work)
}

#[cfg(not(feature = "cuda"))]
fn without<R>() -> Result<R, Failure> {
    Err(Failure::new(FLCC_ERROR_REFUSED, "queue", "a library with CUDA in it", "one without"))
}

/// Room on a GPU of the matcher's plan for runs that go into streams of the caller's: `flcc_enqueue`. It keeps the
/// matcher, and is destroyed by `flcc_queue_destroy`.
///
/// `device` is the number of the GPU. Where `computes` is 0, runs take the fastest kernels, which do not serve samples
/// that are not finite or of magnitudes beyond what their sums hold; of those `flcc_queue_unserved` tells. Where it is
/// 1, they are computed as all others, by several kernels where one would serve: a few times as slow.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for a device that is not the plan's, a plan that computes on the CPU, or
/// another number for `computes`; `_DEVICE` for one that is out of memory.
///
/// # Safety
/// `queue` is null or room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_queue_create(
    matcher: *const flcc_matcher,
    device: usize,
    computes: c_int,
    queue: *mut *mut flcc_queue,
) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word.
        unsafe { pointers::put("queue", queue, ptr::null_mut()) }?;
        let runner = matcher_of(matcher)?;
        #[cfg(feature = "cuda")]
        {
            let extraordinary = match computes {
                0 => Extraordinary::Told,
                1 => Extraordinary::Computed,
                other => return Err(Failure::invalid("computes", "0 or 1", other)),
            };
            let _kept = KeptContext::new();
            let made = runner.matcher().queue(device, extraordinary)?;
            let number = QUEUES.keep(Arc::new(Mutex::new(Kept(Some(made)))));
            // SAFETY: as above.
            unsafe { pointers::put("queue", queue, number as *mut flcc_queue) }
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = (runner, device, computes);
            without()
        }
    })
}

/// Puts the computation of `count` images on the queue's GPU with every template into a stream (a `CUstream` or
/// `cudaStream_t`, null for the default one): the results are at `results`, image by image without gaps, when the
/// stream has done what was put into it until now.
///
/// Nothing is allocated, nothing is waited for, and all memory is the GPU's or pinned, so the stream may record a
/// graph, which may be launched any number of times. Where one kernel goes from the image to the result it takes all
/// images in one launch. Images lie at equal distances, `image_layout->next` samples, 0 or more; null stands for images
/// without gaps, one behind the other.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for addresses that the driver does not know in the memory of the queue's
/// GPU, or that are not aligned, memory that images and results both lie in, and images one before the other;
/// `_DIMS_MISMATCH` for no image; `_DEVICE`.
///
/// # Safety
/// All samples of the images, and room for the results, are there, and stay until the stream has done with them; so
/// does the queue, also for a graph. The stream is one of the queue's GPU. Runs of a queue come one after the other:
/// in one stream, or in streams that wait for each other. Meanwhile nothing else writes images or uses results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_enqueue(
    queue: *mut flcc_queue,
    images: *const c_void,
    image_layout: *const flcc_layout,
    count: usize,
    results: *mut c_void,
    stream: *mut c_void,
) -> flcc_status {
    #[cfg(feature = "cuda")]
    return status(|| {
        with(queue, |queue| {
            let (spec, device) = (queue.matcher().plan().spec().clone(), queue.device());
            // SAFETY: the caller's word on the layout.
            let images = unsafe { images_at(&spec, images, image_layout, count.max(1)) }?;
            let many = || Failure::invalid("count", "as many images as there are addresses for", count);
            let all = count.checked_mul(spec.templates()).ok_or_else(many)?;
            let results = Stack::new("results", results, spec.out_type(), (spec.out_shape(), 1), None, all.max(1))?;
            let results = results.apart(&images, all)?;
            let _kept = KeptContext::new();
            // SAFETY: the caller's word; `apart` was asked above.
            unsafe {
                let first = images.on_device(device, stream)?;
                let several = DeviceImages::new(first, images.next()?, count);
                let mut results = results.results_on_device(device, stream, all)?;
                Ok(queue.enqueue(DeviceStream::new(stream as u64), several, &mut results)?)
            }
        })
    });
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (queue, images, image_layout, count, results, stream);
        status(without)
    }
}

/// Writes to `unserved` whether a run of the queue has met samples that its kernel does not serve, of the runs that are
/// done: 1, or 0. What such a run left in its results is not to be used; `flcc_execute_on_device` computes it. Where
/// `forget` is not 0, what was told is forgotten after that; no run is to be under way then.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `_HANDLE`.
///
/// # Safety
/// `unserved` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_queue_unserved(
    queue: *mut flcc_queue,
    forget: c_int,
    unserved: *mut c_int,
) -> flcc_status {
    #[cfg(feature = "cuda")]
    return status(|| {
        let told = with(queue, |queue| Ok(if forget != 0 { queue.forget() } else { queue.unserved() }))?;
        // SAFETY: the caller's word.
        unsafe { pointers::put("unserved", unserved, c_int::from(told)) }
    });
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (queue, forget, unserved);
        status(without)
    }
}

/// Destroys a queue, when its GPU has done all that it was given; one that another thread is putting a run into goes
/// after that. No stream of the GPU records a graph meanwhile. Null is nothing to destroy.
///
/// # Errors
/// `FLCC_ERROR_HANDLE`: it is no queue, or was destroyed before.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_queue_destroy(queue: *mut flcc_queue) -> flcc_status {
    #[cfg(feature = "cuda")]
    return status(|| match QUEUES.forget(queue as usize) {
        None if !queue.is_null() => Err(Failure::handle("queue")),
        _ => Ok(()),
    });
    #[cfg(not(feature = "cuda"))]
    return status(|| if queue.is_null() { Ok(()) } else { without() });
}
