//! Runs on a GPU that are put into the current stream of CuPy or torch, and that nothing waits for.

use std::sync::{Mutex, PoisonError};

use flcc_runtime::cuda::KeptContext;
use flcc_runtime::{DeviceQueue, Extraordinary};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{MATCHING, value};
use crate::resident::{Resident, Target};

/// Room on a GPU for calls that return before they are computed: made once, for any number of them.
///
/// Made by :meth:`Matcher.queue`. A call puts its work into the stream of CuPy or torch that is current, as their own
/// functions do, allocates nothing but a result that is not given, and waits for nothing, so it can be recorded in a
/// CUDA graph. Calls of one queue share its buffers: make them in one stream, or one after the other.
#[pyclass(frozen, module = "flcc")]
pub struct Queue {
    /// Always there until it is dropped.
    queue: Mutex<Option<DeviceQueue>>,
    device: usize,
    channel_axis: Option<isize>,
    stacked: bool,
}

impl Queue {
    /// Room on a device for runs of a matcher, whose results have an axis of templates if it is stacked.
    pub fn new(
        matcher: &flcc_runtime::Matcher,
        device: usize,
        extraordinary: &str,
        (channel_axis, stacked): (Option<isize>, bool),
    ) -> PyResult<Queue> {
        let extraordinary = match extraordinary {
            "told" => Extraordinary::Told,
            "computed" => Extraordinary::Computed,
            other => return Err(value("extraordinary", "'told' or 'computed'", &format!("{other:?}"))),
        };
        let _kept = KeptContext::new();
        let queue = matcher.queue(device, extraordinary).map_err(|error| MATCHING.exec(error))?;
        Ok(Queue { queue: Mutex::new(Some(queue)), device, channel_axis, stacked })
    }

    fn with<R>(&self, work: impl FnOnce(&mut DeviceQueue) -> PyResult<R>) -> PyResult<R> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.as_mut().map_or_else(|| Err(value("queue", "one that is open", "one that was closed")), work)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _kept = KeptContext::new();
        *self.queue.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[pymethods]
impl Queue {
    /// The results of an image on the queue's GPU, or of a stack of images along a first axis, which are one launch
    /// where one kernel serves them. They are there when the current stream has come to them.
    ///
    /// Parameters
    /// ----------
    /// image : array of CuPy or torch
    ///     An image of the plan, or several: ``(n, ...)``, with equal steps between them.
    /// out : array of CuPy or torch, optional
    ///     Where the results go; else a new array.
    #[pyo3(signature = (image, *, out = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.with(|queue| {
            let spec = queue.matcher().plan().spec().clone();
            let axes = spec.image().axes() + usize::from(self.channel_axis.is_some());
            let read = Resident::array("image", image)?;
            let several = read.getattr(intern!(py, "ndim"))?.extract::<usize>()? > axes;
            let count = if several { read.len()? } else { 1 };
            let none = || value("image", "at least one image", "none");
            let at = |index: usize| if several { read.get_item(index) } else { Ok(read.clone()) };
            if count == 0 {
                return Err(none());
            }
            let (first, last) = (at(0)?, at(count - 1)?);
            let [first, last] = [first, last].map(|image| Resident::of("image", &image, self.channel_axis));
            let (Some(first), Some(last)) = (first?, last?) else {
                return Err(value("image", &format!("an array on CUDA device {}", self.device), "one elsewhere"));
            };
            let lead: Vec<usize> =
                several.then_some(count).into_iter().chain(self.stacked.then_some(spec.templates())).collect();
            let mut out = Target::of(&first, &spec, &lead, out)?;
            let (images, stream) = first.queued(&last, count)?;
            queue.enqueue(stream, images, &mut out.view()?).map_err(|error| MATCHING.exec(error))?;
            out.finish()
        })
    }

    /// Whether a call has met samples that its kernel does not serve (NaN, infinite ones, magnitudes beyond what sums
    /// in single precision hold), of those that are done: its results are not to be used, and the matcher itself
    /// computes them. Always False where ``extraordinary="computed"``.
    #[getter]
    fn unserved(&self) -> PyResult<bool> {
        self.with(|queue| Ok(queue.unserved()))
    }

    /// Forgets what calls have told, and says whether they had told of something. No call is to be under way.
    fn forget(&self) -> PyResult<bool> {
        self.with(|queue| Ok(queue.forget()))
    }

    /// The number of its GPU.
    #[getter]
    fn device(&self) -> usize {
        self.device
    }

    fn __repr__(&self) -> String {
        format!("<flcc.Queue on CUDA device {}>", self.device)
    }
}
