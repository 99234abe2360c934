//! Plans by the text of a spec: what the header has under `flcc_`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::peaks::Peak;
use flcc_core::pose::Poses;
use flcc_core::shape::Shape;
use flcc_core::spec::{MaskKind, Spec};
use flcc_core::view::AnyView;
use flcc_runtime::wisdom::Forget;
use flcc_runtime::{Plan, Platform, PosedOptions, PosedPeak, Wisdom};

use crate::learnt;
use crate::pointers::{self, Stack};
use crate::registry::Registry;
use crate::runner::{self, Runner};
use crate::settings::{self, Settings};
#[cfg(not(feature = "cuda"))]
use crate::status::flcc_status::FLCC_ERROR_REFUSED;
use crate::status::flcc_status::{self, FLCC_ERROR_DIMS_MISMATCH};
use crate::status::{self, Failure, status};
use crate::types::{
    flcc_info, flcc_layout, flcc_matcher, flcc_peak, flcc_plan, flcc_posed_peak, flcc_shape, flcc_type, flccPlatform,
};

static PLANS: Registry<Plan> = Registry::new();
static MATCHERS: Registry<Arc<Runner>> = Registry::new();

fn plan_of(plan: *const flcc_plan) -> Result<Plan, Failure> {
    if plan.is_null() {
        return Err(Failure::null("plan", "a plan"));
    }
    PLANS.find(plan as usize).ok_or_else(|| Failure::handle("plan"))
}

pub(crate) fn matcher_of(matcher: *const flcc_matcher) -> Result<Arc<Runner>, Failure> {
    if matcher.is_null() {
        return Err(Failure::null("matcher", "a matcher"));
    }
    MATCHERS.find(matcher as usize).ok_or_else(|| Failure::handle("matcher"))
}

fn dtype_of(number: i32) -> Result<DType, Failure> {
    let types = [DType::U8, DType::U16, DType::F32, DType::F64];
    let known = usize::try_from(number).ok().and_then(|at| types.get(at).copied());
    known.ok_or_else(|| Failure::invalid("mask_type", "FLCC_U8, FLCC_U16, FLCC_F32 or FLCC_F64", number))
}

fn type_of(dtype: DType) -> flcc_type {
    match dtype {
        DType::U8 => flcc_type::FLCC_U8,
        DType::U16 => flcc_type::FLCC_U16,
        DType::F32 => flcc_type::FLCC_F32,
        DType::F64 => flcc_type::FLCC_F64,
    }
}

fn shape_of(shape: Shape) -> flcc_shape {
    let mut lengths = [1; 3];
    lengths[..shape.axes()].copy_from_slice(shape.lengths());
    flcc_shape { axes: shape.axes(), lengths }
}

/// A value for each axis, the slowest first, and zeros behind them.
fn in_front<T: Copy + Default>(values: &[T]) -> [T; 3] {
    let mut front = [T::default(); 3];
    front[..values.len()].copy_from_slice(values);
    front
}

fn peak_of(peak: &Peak) -> flcc_peak {
    let whole = || peak.position.iter().map(|&at| at as f64).collect();
    let refined: Vec<f64> = peak.refined.clone().unwrap_or_else(whole);
    flcc_peak { score: peak.score, position: in_front(&peak.position), refined: in_front(&refined) }
}

fn posed_peak_of(found: &PosedPeak) -> flcc_posed_peak {
    flcc_posed_peak {
        score: found.peak.score,
        angle: found.pose.angle(),
        scale: found.pose.scale(),
        middle: in_front(&found.middle()),
        position: in_front(&found.peak.position),
        shape: shape_of(found.shape),
    }
}

fn info_of(plan: &Plan) -> flcc_info {
    let spec = plan.spec();
    let first = spec.region().first_place(spec.template()).map(|at| at as isize);
    flcc_info {
        size: size_of::<flcc_info>(),
        image: shape_of(spec.image()),
        templat: shape_of(spec.template()),
        result: shape_of(spec.out_shape()),
        origin: in_front(&spec.image().unpad(&first)),
        images: spec.images(),
        templates: spec.templates(),
        channels: spec.channels(),
        threads: plan.workers(),
        scratch_bytes: plan.scratch_bytes(),
        template_bytes: plan.template_bytes(),
        image_type: type_of(spec.image_type()),
        template_type: type_of(spec.template_type()),
        result_type: type_of(spec.out_type()),
        platform: match plan.platform() {
            Platform::Cuda => flccPlatform::FLCC_DEVICE,
            _ => flccPlatform::FLCC_HOST,
        },
    }
}

/// The layout at an address, if there is one.
///
/// # Safety
/// Null, or the address of a layout.
unsafe fn layout_at(argument: &str, layout: *const flcc_layout) -> Result<Option<flcc_layout>, Failure> {
    if layout.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's word.
    unsafe { pointers::get(argument, layout) }.map(Some)
}

/// Where the images of a call lie.
///
/// # Safety
/// As [`layout_at`].
pub(crate) unsafe fn images_at(
    spec: &Spec,
    images: *const c_void,
    layout: *const flcc_layout,
    count: usize,
) -> Result<Stack<'static>, Failure> {
    // SAFETY: the caller's word.
    let layout = unsafe { layout_at("image_layout", layout) }?;
    Stack::new("images", images, spec.image_type(), (spec.image(), spec.channels()), layout, count)
}

/// The mask of a call, if there is one.
///
/// # Safety
/// The type came by value; null, or the address of as many samples as a template of the spec has, which nothing writes
/// while the view is in use.
unsafe fn mask_at<'v>(
    spec: &Spec,
    mask: *const c_void,
    mask_type: MaybeUninit<flcc_type>,
) -> Result<Option<AnyView<'v>>, Failure> {
    if mask.is_null() {
        return Ok(None);
    }
    // What type it is of and how long, only a spec with a mask says.
    if spec.mask() == MaskKind::None {
        return Err(Failure::invalid("mask", "null, as the spec has no mask", "a mask"));
    }
    // SAFETY: the caller's word.
    unsafe {
        let dtype = dtype_of(pointers::number(mask_type))?;
        Ok(Some(Stack::new("mask", mask, dtype, (spec.template(), 1), None, 1)?.views(0..1)?.remove(0)))
    }
}

/// The version, `MAJOR.MINOR.PATCH`. The text is there as long as the library is.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast() }
}

/// A few words for a status. The text is there as long as the library is.
///
/// # Safety
/// None is asked for: any number is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_status_text(status: MaybeUninit<flcc_status>) -> *const c_char {
    // SAFETY: it came by value.
    status::text_of(unsafe { pointers::number(status) }).as_ptr()
}

/// What was wrong with the last call of this thread that failed: which argument, what was expected, what came.
///
/// The text is there until the next call of this thread that fails, and is empty where none did. Functions of both
/// interfaces tell it, `flcc_malloc` too.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_last_error() -> *const c_char {
    status::told()
}

/// Makes a plan: decides how a problem is computed on this machine.
///
/// `spec` is `OP:TYPE[/TEMPLATETYPE][>OUTTYPE]:[N@]IMAGE*[N@]TEMPLATE:MODE[,OPTION...]`, as in
/// `zncc:u8:0@480x640*32x32:valid`:
///
/// - OP is `conv`, `corr` (or `cc`), `ncc`, `zncc` (or `lcc`), `ssd`, `nssd` or `sad`;
/// - TYPE is `u8`, `u16`, `f32` or `f64`; OUTTYPE is `f32` or `f64`, without it `f64` if image or template is;
/// - IMAGE and TEMPLATE are 1 to 3 lengths, the slowest axis first; `N@` says how many there are, `0@` any number of
///   images; an image has at most 2^36 samples;
/// - MODE is `full` (`X + T - 1` results an axis), `same` (`X`) or `valid` (`X - T + 1`);
/// - OPTION is what lies outside of the image (`zero`, which is usual, `constant(C)`, `replicate`, `reflect`, `mirror`
///   or `wrap`), `mask01` or `maskw`, `roi=ORIGIN:SHAPE` in coordinates of the full result, `acc=fast` or `acc=exact`,
///   `rank=R`, `pairs` (each image has a template of its own), `channels=C`.
///
/// `settings` is `NAME=VALUE[,NAME=VALUE...]`, or null for what is usual:
///
/// - `effort`: `estimate` (usual), `measure` or `patient`, which time what there is on made-up images;
/// - `platform`: `cpu` (usual), `cuda`, or `auto`, which looks for a GPU and takes what is faster by estimate;
/// - `devices`: numbers of GPUs with `:` between them, over which images are spread;
/// - `threads`: a number, 0 (usual) for one a core;
/// - `memory`: bytes that scratch and bound templates may take;
/// - `method`: `auto` (usual), `direct`, `fourier` or `separable`;
/// - `kernel`: the name of a kernel that `flcc_plan_explain` told, to be taken whatever it costs;
/// - `fallback`: `yes` where the CPU is to go on when every GPU has failed.
///
/// The plan goes to `plan`, or null where there is none. It may be used by several threads at once, and is destroyed by
/// `flcc_plan_destroy`.
///
/// # Errors
/// `FLCC_ERROR_NULL`; `FLCC_ERROR_INVALID`, `_EMPTY_INPUT`, `_DIMS_MISMATCH`, `_TEMPLATE_LARGER_THAN_IMAGE` and
/// `_NOT_EXACT` for a text that is no spec or no settings; `FLCC_ERROR_REFUSED` where the method or the platform that
/// was asked for does not serve the spec here; `FLCC_ERROR_MEMORY_LIMIT`; `FLCC_ERROR_NO_MEMORY` for a template that no
/// memory holds.
///
/// # Safety
/// `spec` and `settings` are null or texts that end with a zero, `plan` is null or has room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_plan_create(
    spec: *const c_char,
    settings: *const c_char,
    plan: *mut *mut flcc_plan,
) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word on each of the three.
        let (spec, settings) = unsafe {
            pointers::put("plan", plan, ptr::null_mut())?;
            (pointers::text("spec", spec)?, pointers::text_or_none("settings", settings)?)
        };
        let spec: Spec = spec.parse()?;
        let made = settings.parse::<Settings>()?.plan(&spec)?;
        // SAFETY: as above.
        unsafe { pointers::put("plan", plan, PLANS.keep(made) as *mut flcc_plan) }
    })
}

/// Destroys a plan. Matchers that were made of it live on. Null is nothing to destroy, and no error.
///
/// # Errors
/// `FLCC_ERROR_HANDLE`: it is no plan, or was destroyed before.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_plan_destroy(plan: *mut flcc_plan) -> flcc_status {
    status(|| match PLANS.forget(plan as usize) {
        None if !plan.is_null() => Err(Failure::handle("plan")),
        _ => Ok(()),
    })
}

/// Tells what a plan computes and takes: set `info->size` to `sizeof(flcc_info)` first.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`; `FLCC_ERROR_INVALID` for a size that is less than that of the size itself.
///
/// # Safety
/// `info` is null or the address of `info->size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_plan_info(plan: *const flcc_plan, info: *mut flcc_info) -> flcc_status {
    status(|| {
        let plan = plan_of(plan)?;
        // SAFETY: the caller's word; the size is the first field.
        let size = unsafe { pointers::get("info", info.cast::<usize>().cast_const()) }?;
        if size < size_of::<usize>() {
            return Err(Failure::invalid("info->size", format!("{}, sizeof(flcc_info)", size_of::<flcc_info>()), size));
        }
        // SAFETY: so many bytes are there by the caller's word; the fields leave no bytes between them (checked below).
        unsafe { pointers::put_front("info", info, size, flcc_info { size, ..info_of(&plan) }) }
    })
}

/// All fields of [`flcc_info`] side by side, so that its bytes are all written.
const _: () = {
    let words = 1 + 3 * 4 + 3 + 6;
    assert!(size_of::<flcc_info>() == words * size_of::<usize>() + 4 * size_of::<c_int>());
};

/// Tells the spec of a plan in its one form. The text goes to `buffer` with a zero behind it, cut short to `room`
/// bytes; its whole length, without the zero, goes to `length`. Both may be null.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
///
/// # Safety
/// `buffer` is null or has `room` bytes, `length` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_plan_spec(
    plan: *const flcc_plan,
    buffer: *mut c_char,
    room: usize,
    length: *mut usize,
) -> flcc_status {
    // SAFETY: the caller's word.
    status(|| unsafe { pointers::put_text(buffer, room, length, &plan_of(plan)?.spec().to_string()) })
}

/// Tells what was considered for a plan and why its kernel was chosen, a line each. The text is returned as by
/// `flcc_plan_spec`.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
///
/// # Safety
/// As `flcc_plan_spec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_plan_explain(
    plan: *const flcc_plan,
    buffer: *mut c_char,
    room: usize,
    length: *mut usize,
) -> flcc_status {
    // SAFETY: the caller's word.
    status(|| unsafe { pointers::put_text(buffer, room, length, &plan_of(plan)?.explain()) })
}

/// Binds templates to a plan: their sums and spectra are computed now, and used for every image. The templates are
/// copied.
///
/// `templates` are as many as the spec says, of its template type, at `layout` (null: without gaps, one behind the
/// other). `mask` has a weight for each sample of a template, row-major without gaps, of type `mask_type`; null where
/// the spec has no mask. The matcher goes to `matcher`, or null where there is none. It may be used by several threads
/// at once, and is destroyed by `flcc_matcher_destroy`.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for an address that is not aligned, a layout that leaves memory, a mask
/// that the spec does not have or lacks; `_CONSTANT_TEMPLATE` (zncc), `_ZERO_TEMPLATE` (ncc, nssd),
/// `_NONFINITE_TEMPLATE` (but for conv and corr), `_MASK_INVALID`; `_NO_MEMORY`, `_DEVICE`.
///
/// # Safety
/// All samples are there, and nothing writes meanwhile what lies between the first and the last of them; `layout` is
/// null or a layout, `matcher` null or room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_matcher_create(
    plan: *const flcc_plan,
    templates: *const c_void,
    layout: *const flcc_layout,
    mask: *const c_void,
    mask_type: MaybeUninit<flcc_type>,
    matcher: *mut *mut flcc_matcher,
) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word.
        unsafe { pointers::put("matcher", matcher, ptr::null_mut()) }?;
        let plan = plan_of(plan)?;
        let spec = plan.spec();
        let samples = (spec.template(), spec.channels());
        // SAFETY: as above.
        let layout = unsafe { layout_at("layout", layout) }?;
        let stack = Stack::new("templates", templates, spec.template_type(), samples, layout, spec.templates())?;
        // SAFETY: as above.
        let templates = unsafe { stack.views(0..spec.templates()) }?;
        // SAFETY: as above.
        let mask = unsafe { mask_at(spec, mask, mask_type) }?;
        let runner = Runner::new(&plan, &templates, mask.as_ref())?;
        // SAFETY: as above.
        unsafe { pointers::put("matcher", matcher, MATCHERS.keep(Arc::new(runner)) as *mut flcc_matcher) }
    })
}

/// Destroys a matcher; one that computes on another thread goes when that is done. Null is nothing to destroy.
///
/// # Errors
/// `FLCC_ERROR_HANDLE`: it is no matcher, or was destroyed before.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_matcher_destroy(matcher: *mut flcc_matcher) -> flcc_status {
    status(|| match MATCHERS.forget(matcher as usize) {
        None if !matcher.is_null() => Err(Failure::handle("matcher")),
        _ => Ok(()),
    })
}

/// Tells what `flcc_plan_explain` tells, and what the templates changed in it.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `FLCC_ERROR_HANDLE`.
///
/// # Safety
/// As `flcc_plan_spec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_matcher_explain(
    matcher: *const flcc_matcher,
    buffer: *mut c_char,
    room: usize,
    length: *mut usize,
) -> flcc_status {
    // SAFETY: the caller's word.
    status(|| unsafe { pointers::put_text(buffer, room, length, &matcher_of(matcher)?.matcher().explain()) })
}

/// Computes the results of `count` images with every template, image by image: `count * templates` results.
///
/// `P` is the part of the image below the template, extended by the boundary rule, `t` the template, `w` the mask's
/// weights (1 without one). All sums go over the template and its channels:
///
/// - conv: `sum P[k] t[T-1-k]`, the template flipped; corr (cc): `sum w P t`, not flipped;
/// - ncc: `sum w P t / sqrt(sum w P^2 sum w t^2)`, in `[-1, 1]`, 0 where P is zero;
/// - zncc: the same of P and t less their means, in `[-1, 1]`, exactly 0 where P is constant;
/// - ssd: `sum w (P - t)^2`; sad: `sum w |P - t|`;
/// - nssd: `min(1, ssd / sqrt(sum w P^2 sum w t^2))`, 1 where P is zero.
///
/// At the usual accuracy every ncc, zncc and nssd is within 1e-5 of the exact value (1e-11 for results of f64). NaN and
/// infinities of an image reach exactly the results that touch them.
///
/// Images are of the spec's type and at `image_layout`, results of its result type and at `result_layout`; null stands
/// for arrays without gaps, one behind the other. `count` is the spec's number of images, or any with `0@`.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `_HANDLE`; `_INVALID` for an address that is not aligned, a layout that leaves memory, results
/// that share samples or lie among each other, and memory that images and results both lie in; `_DIMS_MISMATCH` for a
/// count that is not the spec's; `_NO_MEMORY`, `_DEVICE`. After an error it is open what the results hold.
///
/// # Safety
/// All samples of images and results are there. While it computes, nothing writes between the first and the last sample
/// of an image, and nobody else uses what lies between the first and the last sample of a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_execute(
    matcher: *const flcc_matcher,
    images: *const c_void,
    image_layout: *const flcc_layout,
    count: usize,
    results: *mut c_void,
    result_layout: *const flcc_layout,
) -> flcc_status {
    status(|| {
        let runner = matcher_of(matcher)?;
        let spec = runner.matcher().plan().spec();
        let all = count.checked_mul(spec.templates());
        let all = all.ok_or_else(|| Failure::invalid("count", "results that there are addresses for", count))?;
        // SAFETY: the caller's word on both layouts.
        let (images, layout) =
            unsafe { (images_at(spec, images, image_layout, count)?, layout_at("result_layout", result_layout)?) };
        let results = Stack::new("results", results, spec.out_type(), (spec.out_shape(), 1), layout, all)?;
        let results = results.apart(&images, all)?;
        let templates = spec.templates();
        runner.execute(count, |numbers| {
            let of = numbers.start * templates..numbers.end * templates;
            // SAFETY: the caller's word; `apart` was asked above, and one group's views end before the next are made.
            unsafe { Ok((images.views(numbers)?, results.views_mut(of)?)) }
        })
    })
}

/// Computes the results of `count` images, each with a template of its own: image `k` with template `k`, as windows of
/// two frames. The plan is one of a single template, and its kernel serves all pairs; `pairs` in the text of its spec
/// has the planner count the binding of each.
///
/// Images and results are those of `flcc_execute`, formulas and errors too; `templates` are of the spec's template type
/// at `template_layout`, and may lie in the same frames as other windows. `mask`, of `mask_type`, is the one of all, as
/// that of `flcc_matcher_create`.
///
/// # Errors
/// As `flcc_execute` and `flcc_matcher_create`; the message counts pairs from 0: `template 17`.
///
/// # Safety
/// As both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_execute_pairs(
    plan: *const flcc_plan,
    images: *const c_void,
    image_layout: *const flcc_layout,
    templates: *const c_void,
    template_layout: *const flcc_layout,
    mask: *const c_void,
    mask_type: MaybeUninit<flcc_type>,
    count: usize,
    results: *mut c_void,
    result_layout: *const flcc_layout,
) -> flcc_status {
    status(|| {
        let plan = plan_of(plan)?;
        let spec = plan.spec();
        // SAFETY: the caller's word on the layouts and the mask.
        let (images, of_templates, of_results, mask) = unsafe {
            (
                images_at(spec, images, image_layout, count)?,
                layout_at("template_layout", template_layout)?,
                layout_at("result_layout", result_layout)?,
                mask_at(spec, mask, mask_type)?,
            )
        };
        let samples = (spec.template(), spec.channels());
        let templates = Stack::new("templates", templates, spec.template_type(), samples, of_templates, count)?;
        let results = Stack::new("results", results, spec.out_type(), (spec.out_shape(), 1), of_results, count)?;
        let results = results.apart(&images, count)?.apart(&templates, count)?;
        runner::pairs(&plan, mask.as_ref(), count, |numbers| {
            // SAFETY: the caller's word; `apart` was asked above, and one group's views end before the next are made.
            unsafe {
                let (of, at) = (images.views(numbers.clone())?, templates.views(numbers.clone())?);
                Ok((of, at, results.views_mut(numbers)?))
            }
        })
    })
}

/// Computes the results of one image with every template, where image and results lie in the memory of a GPU: one that
/// the matcher's plan computes on (`platform=cuda` among its settings; one of `devices`).
///
/// `image` and `results` are addresses on the device, as `cudaMalloc` and `cuMemAlloc` give them; `image_layout` is
/// that of `flcc_execute`, results lie one behind the other without gaps. `stream` is a `cudaStream_t` or `CUstream` of
/// that device, null for the default stream: the run comes after all that it holds, and waits for nothing else. When
/// the call returns the results are there, for any stream. The device and its current context stay as they are in the
/// calling thread.
///
/// # Errors
/// As `flcc_execute`; `FLCC_ERROR_INVALID` for addresses that the driver does not know in the memory of such a device;
/// `_REFUSED` for a plan that computes on the CPU; `_DIMS_MISMATCH` for one of several images; `_DEVICE` for a stream
/// that records a graph, too.
///
/// # Safety
/// All samples of the image, and room for the results, are there. The stream is one of the device and is not destroyed
/// meanwhile. While it computes, other work than that which the stream held before neither writes the image nor uses
/// the results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_execute_on_device(
    matcher: *const flcc_matcher,
    image: *const c_void,
    image_layout: *const flcc_layout,
    results: *mut c_void,
    stream: *mut c_void,
) -> flcc_status {
    status(|| {
        let runner = matcher_of(matcher)?;
        let spec = runner.matcher().plan().spec();
        if spec.images() > 1 {
            let expected = "a plan of one image, or of any number (0@)";
            return Err(Failure::new(FLCC_ERROR_DIMS_MISMATCH, "matcher", expected, spec));
        }
        // SAFETY: the caller's word on the layout.
        let image = unsafe { images_at(spec, image, image_layout, 1) }?;
        let results = Stack::new("results", results, spec.out_type(), (spec.out_shape(), 1), None, spec.templates())?;
        let results = results.apart(&image, spec.templates())?;
        #[cfg(feature = "cuda")]
        return runner.on_device(|device, execute| {
            // SAFETY: the caller's word; `apart` was asked above.
            let (image, mut results) = unsafe {
                (image.on_device(device, stream)?, results.results_on_device(device, stream, spec.templates())?)
            };
            execute(&image, &mut results)
        });
        #[cfg(not(feature = "cuda"))]
        {
            let _ = (results, stream);
            Err(Failure::new(FLCC_ERROR_REFUSED, "matcher", "a library with CUDA in it", "one without"))
        }
    })
}

/// Finds where `count` images hold the templates, without a result of every position: the best places of each template
/// in each image, best first.
///
/// `peaks` has room for `room` peaks of each template in each image, `count * templates * room` in all, those of image
/// `i` with template `k` from index `(i * templates + k) * room` on; `counts`, `count * templates` numbers, says how
/// many there are of each. With room for none, `peaks` may be null. `options` is `NAME=VALUE[,NAME=VALUE...]`, or null
/// for none:
///
/// - `threshold`: scores at least this good; not above it where the smallest is best (ssd, nssd, sad);
/// - `distance`: how far from a peak, on every axis, no other may lie; usual is half the template's smallest side;
/// - `border`: how many positions at each end of every axis are left out; usual is 0;
/// - `subpixel`: `quadratic`, `gauss`, `cubic` or `septic`, to refine positions below a sample.
///
/// Of equal scores the earlier position is the better. NaN is never a peak.
///
/// # Errors
/// As `flcc_execute`, and `FLCC_ERROR_INVALID` for options that are none.
///
/// # Safety
/// As `flcc_execute`; `peaks` and `counts` have room as said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_peaks(
    matcher: *const flcc_matcher,
    images: *const c_void,
    image_layout: *const flcc_layout,
    count: usize,
    options: *const c_char,
    peaks: *mut flcc_peak,
    room: usize,
    counts: *mut usize,
) -> flcc_status {
    status(|| {
        let runner = matcher_of(matcher)?;
        let spec = runner.matcher().plan().spec();
        // SAFETY: the caller's word on both.
        let (images, options) =
            unsafe { (images_at(spec, images, image_layout, count)?, pointers::text_or_none("options", options)?) };
        let options = settings::peak_options(options, room)?;
        let lists = count.checked_mul(spec.templates());
        let bytes = lists.and_then(|lists| lists.checked_mul(room)?.checked_mul(size_of::<flcc_peak>()));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Failure::invalid("room", "peaks that there are addresses for", room));
        }
        let templates = spec.templates();
        runner.peaks(
            count,
            &options,
            // SAFETY: the caller's word.
            |numbers| unsafe { images.views(numbers) },
            |first, found| {
                let lists = first * templates..;
                for (list, found) in lists.zip(found) {
                    // SAFETY: so many lie there by the caller's word, and no more than `room` were asked for.
                    unsafe {
                        pointers::put_all("counts", counts, list, std::iter::once(found.len()))?;
                        if room > 0 {
                            pointers::put_all("peaks", peaks, list * room, found.iter().map(peak_of))?;
                        }
                    }
                }
                Ok(())
            },
        )
    })
}

/// Finds where an image holds a template that may stand turned and scaled: the best places of all angles and scales
/// together, best first, and how the template stands there.
///
/// `spec` and `settings` are the texts of `flcc_plan_create`: of one image (or `0@`), one template, no `roi`, any
/// mode (full where the template is larger than the image and may stand there smaller) and a measure that does not grow
/// with the template (zncc, ncc, nssd); without `kernel`, since every angle and scale is planned on its own, in each
/// call. `image`, `templat` and `mask` are of the spec's types, at their layouts, as those of `flcc_peaks` and
/// `flcc_matcher_create`.
///
/// `angles` are `angle_count` degrees, counterclockwise as an image is looked at, its rows from top to bottom; `scales`
/// are `scale_count` factors from 1/64 to 64, 2 for twice as large along every axis. Null with a count of 0 stands for
/// 0 degrees alone, and for 1 alone. Every angle is looked for with every scale, up to 2^20 of both together; those by
/// which the template is larger than the image are left out. Volumes turn plane by plane about their slowest axis,
/// signals are scaled alone.
///
/// A template that is turned by `a` and scaled by `s` has at `(y, x)` from its middle, `y` downwards, what it has at
/// `((y cos a + x sin a) / s, (x cos a - y sin a) / s)` as it is: by cubic convolution of its samples (Keys, 1981), or
/// under a mask by linear interpolation of those that count; either is widened by `1 / s` where `s` is below 1. What
/// lies beyond its outer samples does not count. By multiples of 90 degrees at scale 1 its samples are the template's
/// own. Scores are those of `flcc_execute` with that template and the mask of what counts, at every place where all of
/// it lies inside the image.
///
/// `peaks` has room for `room` of them, and `found` says how many there are, 0 after an error. With room for none,
/// `peaks` may be null. `options` is that of `flcc_peaks`, or null; `distance` lies between the middles of templates.
/// It may have two more:
///
/// - `coarse`: poses are looked for in an image so many times smaller first, and the best are followed to the whole
///   image: much faster for many. What may be missed is what the smaller image does not show. 8 samples of the
///   template's smallest side must be left.
/// - `finest`: degrees; how the template stands at each place is then looked for between the angles and scales as well,
///   in steps halved until those of angles are no larger.
///
/// # Errors
/// As `flcc_plan_create`, `flcc_matcher_create` and `flcc_peaks`; `FLCC_ERROR_INVALID` for an angle that is not finite,
/// a scale out of range, more than 2^20 of both together, a measure or a setting that is not as said above, an angle
/// but 0 of a signal, a `finest` that is not above 0 or has nothing between, a `coarse` below 2 or too large;
/// `_EMPTY_INPUT` for an address of no angles or scales; `_TEMPLATE_LARGER_THAN_IMAGE` where all are left out;
/// `_DIMS_MISMATCH` for a spec of several images.
///
/// # Safety
/// As `flcc_plan_create`, `flcc_matcher_create` and `flcc_peaks`; `angles`, `scales` and `peaks` are null or have as
/// many as said, `found` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_find_posed(
    spec: *const c_char,
    settings: *const c_char,
    image: *const c_void,
    image_layout: *const flcc_layout,
    templat: *const c_void,
    template_layout: *const flcc_layout,
    mask: *const c_void,
    mask_type: MaybeUninit<flcc_type>,
    angles: *const f64,
    angle_count: usize,
    scales: *const f64,
    scale_count: usize,
    options: *const c_char,
    peaks: *mut flcc_posed_peak,
    room: usize,
    found: *mut usize,
) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word on all of them. Whether there is room is asked before anything is computed.
        let (spec, settings, options, angles, scales) = unsafe {
            pointers::put("found", found, 0)?;
            if room > 0 {
                pointers::put_all("peaks", peaks, 0, std::iter::empty())?;
            }
            (
                pointers::text("spec", spec)?.parse::<Spec>()?,
                pointers::text_or_none("settings", settings)?.parse::<Settings>()?,
                settings::posed_options(pointers::text_or_none("options", options)?, room)?,
                pointers::numbers("angles", angles, angle_count)?,
                pointers::numbers("scales", scales, scale_count)?,
            )
        };
        if room.checked_mul(size_of::<flcc_posed_peak>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(Failure::invalid("room", "peaks that there are addresses for", room));
        }
        let poses = Poses::grid(angles.unwrap_or(&[0.0]), scales.unwrap_or(&[1.0]))?;
        let samples = (spec.template(), spec.channels());
        // SAFETY: as above.
        let (image, template, mask) = unsafe {
            let layout = layout_at("template_layout", template_layout)?;
            let template = Stack::new("templat", templat, spec.template_type(), samples, layout, 1)?;
            let image = images_at(&spec, image, image_layout, 1)?;
            (image.views(0..1)?.remove(0), template.views(0..1)?.remove(0), mask_at(&spec, mask, mask_type)?)
        };
        let told = settings.find_posed(&spec, [&image, &template], &poses, &PosedOptions { mask, ..options })?;
        // SAFETY: so many lie there by the caller's word, and no more than `room` were asked for.
        unsafe {
            if room > 0 {
                pointers::put_all("peaks", peaks, 0, told.iter().map(posed_peak_of))?;
            }
            pointers::put("found", found, told.len())
        }
    })
}

/// Takes over what another process learnt, from the text that `flcc_wisdom_export` gave. Plans made afterwards use it.
///
/// # Errors
/// `FLCC_ERROR_NULL`; `FLCC_ERROR_INVALID` for a text that is no wisdom, with its first line that is not. Then nothing
/// is taken over.
///
/// # Safety
/// `text` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_wisdom_import(text: *const c_char) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word.
        let wisdom = Wisdom::parse(unsafe { pointers::text("text", text) }?)?;
        learnt::with(|known| known.merge(wisdom));
        Ok(())
    })
}

/// Tells what this process knows of kernels and their times: what plans of effort measure and patient learnt, and what
/// was imported. The text is returned as by `flcc_plan_spec`.
///
/// # Errors
/// `FLCC_ERROR_INVALID`: `length` is not aligned.
///
/// # Safety
/// As `flcc_plan_spec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_wisdom_export(buffer: *mut c_char, room: usize, length: *mut usize) -> flcc_status {
    // SAFETY: the caller's word.
    status(|| unsafe { pointers::put_text(buffer, room, length, &learnt::with(|known| known.to_text())) })
}

/// Takes over what a file holds.
///
/// # Errors
/// As `flcc_wisdom_import`, and `FLCC_ERROR_FILE` for a file that cannot be read.
///
/// # Safety
/// As `flcc_wisdom_import`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_wisdom_load(path: *const c_char) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word.
        let wisdom = Wisdom::load(Path::new(unsafe { pointers::text("path", path) }?))?;
        learnt::with(|known| known.merge(wisdom));
        Ok(())
    })
}

/// Adds what this process knows to a file, whole or not at all, one process after another. A file that is not there is
/// made.
///
/// # Errors
/// `FLCC_ERROR_NULL`, `FLCC_ERROR_FILE`; `FLCC_ERROR_INVALID` for a file that holds something else.
///
/// # Safety
/// As `flcc_wisdom_import`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flcc_wisdom_save(path: *const c_char) -> flcc_status {
    status(|| {
        // SAFETY: the caller's word.
        let path = unsafe { pointers::text("path", path) }?;
        let known = learnt::with(|known| known.clone());
        Wisdom::update(Path::new(path), |held| held.merge(known))?;
        Ok(())
    })
}

/// Forgets what this process knows.
#[unsafe(no_mangle)]
pub extern "C" fn flcc_wisdom_forget() {
    let _ = status(|| {
        learnt::with(|known| known.forget(Forget::All));
        Ok(())
    });
}
