//! `execute_into` with one worker allocates nothing; with several, nothing that grows with the data. Scratch is what
//! the plan says it is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flcc_runtime::{AnyView, AnyViewMut, Control, MaskKind, Method, Pixels, PlanError, Planner, ScoreMap, Spec};

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

/// The least of up to ten counts, taken until one is 0: the harness starts its other tests' threads meanwhile, and what
/// they allocate comes once, where an allocation of the work comes every time.
fn least<C: Ord + Default>(mut count: impl FnMut() -> C) -> C {
    let mut least = count();
    for _ in 1..10 {
        if least == C::default() {
            break;
        }
        least = least.min(count());
    }
    least
}

fn problem(text: &str) -> (Spec, Pixels, Pixels) {
    let spec: Spec = text.parse().unwrap();
    let noise = |count: usize, dtype| Pixels::F64((0..count).map(|i| (i * i * 31 % 251) as f64).collect()).cast(dtype);
    let (image, template) =
        (noise(spec.image().len(), spec.image_type()), noise(spec.template().len(), spec.template_type()));
    (spec, image, template)
}

/// Allocations of a second run, and their bytes; `None` where the method refuses the spec.
fn allocations(text: &str, method: Method, threads: usize) -> Option<(usize, usize)> {
    let (spec, mut image, template) = problem(text);
    if let Pixels::F32(samples) = &mut image {
        // Something to repair, and something to mark.
        samples[..2000].fill(7.0);
        samples[3000] = 1e20;
        samples[4000] = f32::NAN;
    }
    let plan = match Planner::new().unwrap().threads(threads).method(method).plan(&spec) {
        Ok(plan) => plan,
        Err(PlanError::Refused(_)) => return None,
        Err(error) => panic!("{text}: {error}"),
    };
    let mask = (spec.mask() != MaskKind::None)
        .then(|| Pixels::U8((0..spec.template().len()).map(|i| u8::from(i % 3 > 0)).collect()));
    let mask = mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
    let templates = vec![AnyView::dense(&template, spec.template(), 1).unwrap(); spec.templates()];
    let matcher = plan.bind(&templates, mask.as_ref().map(|mask| mask as _)).unwrap();
    let images = [AnyView::dense(&image, spec.image(), 1).unwrap()];
    let mut maps = vec![ScoreMap::zeros(spec.region(), spec.out_type()); spec.templates()];
    let mut scratch = matcher.make_scratch();
    let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
    // The first run starts the pool's threads.
    matcher.execute_into(&images, &mut outs, &mut scratch, &Control::default()).unwrap();
    Some(least(|| {
        let (calls, bytes) = (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
        matcher.execute_into(&images, &mut outs, &mut scratch, &Control::default()).unwrap();
        (CALLS.load(Ordering::Relaxed) - calls, BYTES.load(Ordering::Relaxed) - bytes)
    }))
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
        "zncc:f32:300x200*3@9x9:valid",
        "zncc:f32:300x200*9x9:valid,mask01",
        "ncc:f32:300x200*9x9:same,acc=fast",
        "nssd:f32:300x200*9x9:full,wrap",
        "ssd:f32:300x200*9x9:full,constant(2.5)",
        "zncc:u16:300x200*9x9:full,acc=exact",
    ] {
        for method in METHODS {
            if let Some((calls, _)) = allocations(text, method, 1) {
                assert_eq!(calls, 0, "{text} by {method}");
            }
        }
    }
}

/// Allocations of a run of so many pairs by a scratch that was used before.
fn allocations_of_pairs(text: &str, method: Method, count: usize) -> usize {
    let (spec, image, template) = problem(text);
    let plan = Planner::new().unwrap().threads(1).method(method).plan(&spec.clone().with_images(0).unwrap()).unwrap();
    let pairs = plan.pairs(None).unwrap();
    let images = vec![AnyView::dense(&image, spec.image(), 1).unwrap(); count];
    let templates = vec![AnyView::dense(&template, spec.template(), 1).unwrap(); count];
    let mut maps = vec![ScoreMap::zeros(spec.region(), spec.out_type()); count];
    let mut scratch = pairs.make_scratch();
    let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
    pairs.execute_into(&images, &templates, &mut outs, &mut scratch, &Control::default()).unwrap();
    least(|| {
        let before = CALLS.load(Ordering::Relaxed);
        pairs.execute_into(&images, &templates, &mut outs, &mut scratch, &Control::default()).unwrap();
        CALLS.load(Ordering::Relaxed) - before
    })
}

#[test]
fn pairs_allocate_in_the_first_run_only() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for (text, method) in [
        ("zncc:f32:64x64*24x24:valid", Method::Fourier),
        ("zncc:f32:64x64*24x24:valid", Method::Direct),
        ("zncc:f32:40x33*9x9:same,mirror", Method::Direct),
        ("corr:f32:40x33*9x9:valid", Method::Direct),
    ] {
        assert_eq!([2, 40].map(|count| allocations_of_pairs(text, method, count)), [0, 0], "{text} by {method}");
    }
}

#[test]
fn scratch_of_another_plan_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let matcher = |text: &str| {
        let (spec, _, template) = problem(text);
        let plan = Planner::new().unwrap().threads(1).plan(&spec).unwrap();
        plan.bind(&[AnyView::dense(&template, spec.template(), 1).unwrap()], None).unwrap()
    };
    let (small, large) = (matcher("zncc:f32:40x50*9x9:valid"), matcher("zncc:f32:300x400*9x9:valid"));
    let (spec, image, _) = problem("zncc:f32:300x400*9x9:valid");
    let mut map = ScoreMap::zeros(spec.region(), spec.out_type());
    let mut scratch = small.make_scratch();
    let images = [AnyView::dense(&image, spec.image(), 1).unwrap()];
    let error = large.execute_into(&images, &mut [map.view_mut()], &mut scratch, &Control::default()).unwrap_err();
    assert_eq!(error.to_string(), "scratch: expected the scratch of this plan, got that of another");
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
    for text in [
        "zncc:f32:600x500*19x19:valid",
        "zncc:u8:600x500*9x9:full",
        "corr:f32:60x61x62*5x5x5:same",
        "nssd:f64:600x500*12x9:valid",
    ] {
        for method in METHODS {
            let (spec, _, template) = problem(text);
            let Ok(plan) = Planner::new().unwrap().threads(2).method(method).plan(&spec) else { continue };
            let matcher = plan.bind(&[AnyView::dense(&template, spec.template(), 1).unwrap()], None).unwrap();
            let taken = least(|| {
                let before = LIVE.load(Ordering::Relaxed);
                let _scratch = matcher.make_scratch();
                LIVE.load(Ordering::Relaxed).saturating_sub(before)
            });
            let said = plan.scratch_bytes();
            assert_eq!(matcher.make_scratch().bytes(), said);
            assert!(
                taken <= said + 4096 && said <= taken + taken / 8 + 4096,
                "{text} by {}: {taken} bytes taken, {said} said",
                plan.kernel()
            );
        }
    }
}
