//! Runs on a GPU that are put into the current stream of CuPy or torch, and that nothing waits for.

use std::sync::{Mutex, PoisonError};

use flcc_runtime::cuda::KeptContext;
use flcc_runtime::{DeviceQueue, ExecError, Extraordinary, Spec};
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
    /// There until it is dropped. Locked away from the interpreter, and never while Python is called.
    queue: Mutex<Option<DeviceQueue>>,
    spec: Spec,
    device: usize,
    channel_axis: Option<isize>,
    stacked: bool,
}

impl Queue {
    /// Room on a device for runs of a matcher, whose results have an axis of templates if it is stacked.
    pub fn new(
        py: Python<'_>,
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
        let made = py.detach(|| {
            let _kept = KeptContext::new();
            matcher.queue(device, extraordinary)
        });
        let queue = made.map_err(|error| MATCHING.exec(error))?;
        let spec = matcher.plan().spec().clone();
        Ok(Queue { queue: Mutex::new(Some(queue)), spec, device, channel_axis, stacked })
    }

    /// Does something with the queue, away from the interpreter: other threads may wait for the lock, and this one for
    /// the device.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut DeviceQueue) -> Result<R, ExecError> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| self.queue.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(work));
        done.expect("a queue is there until it is dropped").map_err(|error| MATCHING.exec(error))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        Python::attach(|py| {
            py.detach(|| {
                let _kept = KeptContext::new();
                drop(queue);
            });
        });
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
    ///     Where the results go, apart from the images, in an array of the package whose stream is the current one;
    ///     else a new array.
    #[pyo3(signature = (image, *, out = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        image: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let spec = &self.spec;
        let axes = spec.image().axes() + usize::from(self.channel_axis.is_some());
        let read = Resident::array("image", image)?;
        let several = read.getattr(intern!(py, "ndim"))?.extract::<usize>()? > axes;
        let count = if several { read.len()? } else { 1 };
        if count == 0 {
            return Err(value("image", "at least one image", "none"));
        }
        let at = |index: usize| if several { read.get_item(index) } else { Ok(read.clone()) };
        let of = |index: usize| Resident::of("image", &at(index)?, self.channel_axis);
        let (Some(first), Some(last)) = (of(0)?, of(count - 1)?) else {
            return Err(value("image", &format!("an array on CUDA device {}", self.device), "one elsewhere"));
        };
        let lead: Vec<usize> =
            several.then_some(count).into_iter().chain(self.stacked.then_some(spec.templates())).collect();
        let mut out = Target::of((&first, &last), spec, &lead, out)?;
        let (images, stream) = first.queued(&last, count, &out)?;
        {
            let mut results = out.view()?;
            self.with(py, |queue| queue.enqueue(stream, images, &mut results))?;
        }
        out.finish()
    }

    /// Whether a call has met samples that its kernel does not serve (NaN, infinite ones, magnitudes beyond what sums
    /// in single precision hold), of those that are done: its results are not to be used, and the matcher itself
    /// computes them. Always False where ``extraordinary="computed"``.
    #[getter]
    fn unserved(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |queue| Ok(queue.unserved()))
    }

    /// Forgets what calls have told, and says whether they had told of something. No call is to be under way.
    fn forget(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |queue| Ok(queue.forget()))
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
