//! `execute_into` with one worker allocates nothing; with several, nothing that grows with the data. Scratch is what the
//! plan says it is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flcc_runtime::{AnyView, AnyViewMut, Control, Method, Pixels, Planner, ScoreMap, Spec};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches only atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's layout, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts are of the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn problem(text: &str) -> (Spec, Pixels, Pixels) {
    let spec: Spec = text.parse().unwrap();
    let noise = |count: usize, dtype| Pixels::F64((0..count).map(|i| (i * i * 31 % 251) as f64).collect()).cast(dtype);
    let (image, template) = (noise(spec.image().len(), spec.image_type()), noise(spec.template().len(), spec.template_type()));
    (spec, image, template)
}

fn allocations(text: &str, method: Method, threads: usize) -> Option<(usize, usize)> {
    let (spec, image, template) = problem(text);
    let plan = Planner::new().unwrap().threads(threads).method(method).plan(&spec).ok()?;
    let matcher = plan.bind(&[AnyView::dense(&template, spec.template(), 1).unwrap()], None).unwrap();
    let images = [AnyView::dense(&image, spec.image(), 1).unwrap()];
    let mut map = ScoreMap::zeros(spec.region(), spec.out_type());
    let mut scratch = matcher.make_scratch();
    let mut outs: Vec<AnyViewMut<'_>> = vec![map.view_mut()];
    // The first run starts the pool's threads.
    matcher.execute_into(&images, &mut outs, &mut scratch, &Control::default()).unwrap();
    let (calls, bytes) = (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    matcher.execute_into(&images, &mut outs, &mut scratch, &Control::default()).unwrap();
    Some((CALLS.load(Ordering::Relaxed) - calls, BYTES.load(Ordering::Relaxed) - bytes))
}

const METHODS: [Method; 3] = [Method::Direct, Method::Fourier, Method::Separable];

#[test]
fn one_worker_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for text in [
        "zncc:f32:300x200*9x9:valid",
        "zncc:u8:300x200*9x9:full,reflect",
        "corr:f64:40x41x42*5x5x5:same",
        "sad:u8:200x300*7x7:valid",
        "zncc:f32:20000*70:valid",
    ] {
        for method in METHODS {
            if let Some((calls, _)) = allocations(text, method, 1) {
                assert_eq!(calls, 0, "{text} by {method}");
            }
        }
    }
}

#[test]
fn several_workers_allocate_nothing_that_grows() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for method in METHODS {
        for text in ["zncc:f32:300x200*9x9:valid", "zncc:f32:1500x1200*9x9:valid"] {
            if let Some((calls, bytes)) = allocations(text, method, 2) {
                assert!(calls < 40 && bytes < 16384, "{text} by {method}: {calls} allocations of {bytes} bytes");
            }
        }
    }
}

#[test]
fn scratch_is_what_the_plan_says() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for text in ["zncc:f32:600x500*19x19:valid", "zncc:u8:600x500*9x9:full", "corr:f32:60x61x62*5x5x5:same", "nssd:f64:600x500*12x9:valid"]
    {
        for method in METHODS {
            let (spec, _, template) = problem(text);
            let Ok(plan) = Planner::new().unwrap().threads(2).method(method).plan(&spec) else { continue };
            let matcher = plan.bind(&[AnyView::dense(&template, spec.template(), 1).unwrap()], None).unwrap();
            let before = LIVE.load(Ordering::Relaxed);
            let scratch = matcher.make_scratch();
            let taken = LIVE.load(Ordering::Relaxed) - before;
            let said = plan.scratch_bytes();
            assert_eq!(scratch.bytes(), said);
            assert!(
                taken <= said + 4096 && said <= taken + taken / 8 + 4096,
                "{text} by {}: {taken} bytes taken, {said} said",
                plan.kernel()
            );
        }
    }
}
