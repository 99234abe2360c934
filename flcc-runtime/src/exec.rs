//! Execution: tiles handed to workers, rows written to the caller's results. The only file that names rayon.
//!
//! One worker runs in the caller's thread and allocates nothing. Several share the tiles through one counter; which
//! worker computes a tile changes nothing in it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flcc_core::error::{ExecError, SpecError};
use flcc_core::view::{AnyView, AnyViewMut, Layout};

use crate::cpu::bind::{Checked, Weights};
use crate::cpu::real::Real;
use crate::cpu::tile::{BoundTemplates, Statistics, TileContext, TileScratch};

/// Stops a run from another thread: at the next tile it returns [`ExecError::Cancelled`].
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not used yet.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops every run that watches this token.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a caller watches a run with.
#[derive(Clone, Copy, Default)]
pub struct Control<'a> {
    /// Called after every tile, from any worker, with the tiles done and all tiles.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Asked before every tile.
    pub cancel: Option<&'a CancelToken>,
}

/// What a plan executes with: a method on a platform, for one spec.
pub trait Execute: Send + Sync {
    /// Templates in the form of the method.
    ///
    /// # Errors
    /// A template that the method cannot take.
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, SpecError>;
    /// The rank that the separable method would need for each template, if none is over `limit`.
    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize>;
    /// Bytes of the scratch of so many workers.
    fn scratch_bytes(&self, workers: usize) -> usize;
    /// Bytes of one bound template.
    fn template_bytes(&self) -> usize;
    /// Tiles of one image.
    fn tiles(&self) -> usize;
    /// Scratch for so many workers and results.
    fn scratch(&self, workers: usize, results: usize) -> Scratch;
    /// Computes `outs[image * templates + template]`.
    ///
    /// # Errors
    /// Cancelled, or scratch of another plan.
    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError>;
}

/// The buffers of a run: made by a plan, for that plan, used by one run at a time.
pub struct Scratch {
    workers: Box<dyn Any + Send>,
    outputs: Vec<Output>,
    bytes: usize,
}

impl Scratch {
    /// Bytes that the buffers take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A CPU method in one type.
pub struct CpuExecute<T: Real> {
    /// What is the same for every tile.
    pub context: TileContext<T>,
}

impl<T: Real> Execute for CpuExecute<T> {
    fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<Arc<dyn Any + Send + Sync>, SpecError> {
        let bound = self.context.bind(checked, weights).map_err(|error| SpecError::new("template", "one that decomposes", error))?;
        Ok(Arc::new(bound))
    }

    fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        self.context.rank(checked, weights, limit)
    }

    fn scratch_bytes(&self, workers: usize) -> usize {
        workers * self.context.scratch_bytes()
    }

    fn template_bytes(&self) -> usize {
        self.context.template_bytes()
    }

    fn tiles(&self) -> usize {
        self.context.tiling.count()
    }

    fn scratch(&self, workers: usize, results: usize) -> Scratch {
        let all: Vec<TileScratch<T>> = (0..workers).map(|_| self.context.scratch()).collect();
        Scratch { workers: Box::new(all), outputs: Vec::with_capacity(results), bytes: self.scratch_bytes(workers) }
    }

    fn execute(
        &self,
        bound: &(dyn Any + Send + Sync),
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let foreign = || SpecError::new("scratch", "the scratch of this plan", "that of another");
        let bound: &BoundTemplates<T> = bound.downcast_ref().ok_or_else(foreign)?;
        let workers: &mut Vec<TileScratch<T>> = scratch.workers.downcast_mut().ok_or_else(foreign)?;
        scratch.outputs.clear();
        scratch.outputs.extend(outs.iter_mut().map(Output::new));
        let outputs = Outputs(&scratch.outputs);
        let (tiles, templates) = (self.context.tiling.count(), bound.templates.len());
        let total = tiles * images.len();
        run(workers, total, control, |index, worker| {
            let (image, tile) = (index / tiles, self.context.tiling.get(index % tiles));
            self.context.run(&images[image], &tile, bound, worker, &mut |template, place, scores| {
                // SAFETY: `outs` is borrowed mutably for the whole call, so nothing else touches its elements; each index
                // is handed to one worker once, and the parts of a result that different tiles keep do not overlap
                // (`Tiling`'s property test), so no element is written by two workers.
                unsafe { outputs.write(image * templates + template, place, scores) }
            })
        })
    }
}

/// Hands out `total` indices to the workers until all are done.
pub(crate) fn run<S: Send>(
    workers: &mut [S],
    total: usize,
    control: &Control<'_>,
    work: impl Fn(usize, &mut S) -> Statistics + Sync,
) -> Result<Statistics, ExecError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cancelled = || control.cancel.is_some_and(CancelToken::is_cancelled);
    let share = |worker: &mut S| {
        let mut statistics = Statistics::default();
        while !cancelled() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= total {
                break;
            }
            statistics.add(work(index, worker));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(progress) = control.progress {
                progress(done, total);
            }
        }
        statistics
    };
    let busy = workers.len().min(total);
    let statistics = match &mut workers[..busy] {
        [] => Statistics::default(),
        [only] => share(only),
        several => {
            let sum = Mutex::new(Statistics::default());
            pool(several.len()).scope(|scope| {
                for worker in several {
                    scope.spawn(|_| {
                        let mine = share(worker);
                        sum.lock().unwrap_or_else(PoisonError::into_inner).add(mine);
                    });
                }
            });
            sum.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    };
    let done = done.into_inner();
    if done < total { Err(ExecError::Cancelled { done, total }) } else { Ok(statistics) }
}

/// One persistent pool for each number of threads asked for.
fn pool(threads: usize) -> Arc<rayon::ThreadPool> {
    static POOLS: OnceLock<Mutex<HashMap<usize, Arc<rayon::ThreadPool>>>> = OnceLock::new();
    let mut pools = POOLS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let build = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("flcc-{index}")).build();
    // A system that is out of threads still has the one that asks.
    let made = pools.entry(threads).or_insert_with(|| {
        Arc::new(
            build(threads)
                .or_else(|_| rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build())
                .expect("a pool of the current thread"),
        )
    });
    Arc::clone(made)
}

/// A result to write, as a pointer: its borrow is held by the call that made it.
#[derive(Clone, Copy)]
enum Output {
    F32(*mut f32, Layout),
    F64(*mut f64, Layout),
}

// SAFETY: an `Output` is an address and a layout; it is dereferenced only in `Outputs::write`, whose caller answers for
// exclusive access. Between runs the addresses in a scratch are not used: `execute` replaces them first.
unsafe impl Send for Output {}

impl Output {
    fn new(view: &mut AnyViewMut<'_>) -> Output {
        match view {
            AnyViewMut::F32(view) => {
                let (data, layout) = view.parts();
                Output::F32(data.as_mut_ptr(), *layout)
            }
            AnyViewMut::F64(view) => {
                let (data, layout) = view.parts();
                Output::F64(data.as_mut_ptr(), *layout)
            }
        }
    }
}

/// The results of a run, shared by its workers.
#[derive(Clone, Copy)]
struct Outputs<'a>(&'a [Output]);

// SAFETY: as `Output`; workers write disjoint elements.
unsafe impl Sync for Outputs<'_> {}

impl Outputs<'_> {
    /// Writes a row of scores, rounded once, from a place of one result.
    ///
    /// # Safety
    /// The result's elements are borrowed exclusively by the running call, and no other thread writes this row.
    unsafe fn write(&self, result: usize, [z, y, x]: [usize; 3], scores: &[f64]) {
        let whole = |layout: &Layout| {
            let [depth, height, width] = layout.shape().padded();
            assert!(z < depth && y < height && x + scores.len() <= width, "a row of {} at {z},{y},{x} of {}", scores.len(), layout.shape());
        };
        match &self.0[result] {
            Output::F32(data, layout) => {
                whole(layout);
                for (k, &score) in scores.iter().enumerate() {
                    // SAFETY: the position lies in the layout's shape (asserted above), and a `ViewMut` is made only if
                    // every position lies in its slice; exclusive access is the caller's promise.
                    unsafe { data.add(layout.offset([z, y, x + k], 0)).write(score as f32) };
                }
            }
            Output::F64(data, layout) => {
                whole(layout);
                for (k, &score) in scores.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { data.add(layout.offset([z, y, x + k], 0)).write(score) };
                }
            }
        }
    }
}
