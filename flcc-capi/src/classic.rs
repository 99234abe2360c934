//! The interface of FLCC 1.3: plans of two operations, and memory.
//!
//! Source: Papamakarios, Rizos, "FLCC: a library for fast computation of convolution and local correlation
//! coefficients", Thessaloniki 2011, section 4.2.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;
use flcc_runtime::{Plan, Platform};

use crate::needed;
use crate::pointers::{self, Stack};
use crate::registry::Registry;
use crate::runner::Runner;
use crate::settings::Settings;
use crate::status::flcc_status::*;
use crate::status::{Failure, guard};
use crate::types::flccResult::{self, *};
use crate::types::{flccPlan, flccPlatform, flccSize, flccType};

/// A plan, with the template that it was last executed with.
struct Classic {
    convolution: bool,
    stream: bool,
    plan: Plan,
    last: Mutex<Option<(Vec<f32>, Arc<Runner>)>>,
}

static CLASSICS: Registry<Arc<Classic>> = Registry::new();

/// What stands in a plan beside its number, so that memory which only looks like one is none.
const SEAL: u64 = 0x464c_4343_2d31_2e33;

/// Why a call is not done, in the words of either interface.
struct Fault(flccResult, Failure);

impl From<Failure> for Fault {
    /// That of what goes on inside, where arguments were looked at already.
    fn from(failure: Failure) -> Fault {
        let result = match failure.status {
            FLCC_ERROR_NULL | FLCC_ERROR_INVALID => FLCC_INVALID_VALUE,
            FLCC_ERROR_CONSTANT_TEMPLATE | FLCC_ERROR_ZERO_TEMPLATE | FLCC_ERROR_NONFINITE_TEMPLATE => {
                FLCC_INVALID_VALUE
            }
            FLCC_ERROR_NO_MEMORY | FLCC_ERROR_MEMORY_LIMIT => FLCC_ALLOC_FAILED,
            _ => FLCC_EXEC_FAILED,
        };
        Fault(result, failure)
    }
}

fn wrong(result: flccResult, argument: &str, expected: &str, got: impl ToString) -> Fault {
    Fault(result, Failure::invalid(argument, expected, got))
}

/// What a call answers; a panic is a failure of the computation.
fn result(run: impl FnOnce() -> Result<(), Fault>) -> flccResult {
    let mut answer = FLCC_EXEC_FAILED;
    let told = guard(|| {
        run().map_err(|Fault(result, failure)| {
            answer = result;
            failure
        })
    });
    if told.is_ok() { FLCC_SUCCESS } else { answer }
}

/// The plan that a structure names.
///
/// # Safety
/// Null, or the address of a structure.
unsafe fn find(plan: *const flccPlan, convolution: bool) -> Result<(usize, Arc<Classic>), Fault> {
    let none = |got: &str| Fault(FLCC_INVALID_PLAN, Failure::invalid("plan", expected(convolution), got));
    // SAFETY: the caller's word.
    let held = unsafe { pointers::get("plan", plan) }.map_err(|failure| Fault(FLCC_INVALID_PLAN, failure))?;
    let number = held.words[0] as usize;
    if held != sealed(number) {
        return Err(none("one that was never made, or a destroyed one"));
    }
    match CLASSICS.find(number) {
        None => Err(none("a destroyed one")),
        Some(known) if known.convolution != convolution => Err(none("a plan of the other operation")),
        Some(known) => Ok((number, known)),
    }
}

fn expected(convolution: bool) -> &'static str {
    if convolution { "a plan that conv_plan made" } else { "a plan that lcorr_plan made" }
}

fn sealed(number: usize) -> flccPlan {
    let number = number as u64;
    flccPlan { words: [number, number ^ SEAL, !number, SEAL] }
}

/// The lengths of an image, where it has samples.
fn shape_of(argument: &str, size: flccSize, dim: c_int) -> Result<Shape, Fault> {
    let sides = [size.h, size.w, size.d];
    let sides = &sides[..if dim == 2 { 2 } else { 3 }];
    let told = || sides.iter().map(c_int::to_string).collect::<Vec<_>>().join("x");
    let lengths: Option<Vec<usize>> =
        sides.iter().map(|&side| usize::try_from(side).ok().filter(|&side| side > 0)).collect();
    let lengths = lengths.ok_or_else(|| wrong(FLCC_INVALID_SIZE, argument, "sides of at least 1", told()))?;
    Shape::new(&lengths).map_err(|error| Fault(FLCC_INVALID_SIZE, error.into()))
}

fn new_plan(
    convolution: bool,
    dim: c_int,
    [image, template]: [flccSize; 2],
    kind: i32,
    platform: i32,
) -> Result<Classic, Fault> {
    if dim != 2 && dim != 3 {
        return Err(wrong(FLCC_INVALID_DIMENSION, "dim", "2 or 3", dim));
    }
    let (image, template) = (shape_of("imSize", image, dim)?, shape_of("temSize", template, dim)?);
    let stream = match kind {
        single if single == flccType::FLCC_SINGLE as i32 => false,
        stream if stream == flccType::FLCC_STREAM as i32 => true,
        other => return Err(wrong(FLCC_INVALID_TYPE, "type", "FLCC_SINGLE or FLCC_STREAM", other)),
    };
    let (platform, fall_back) = match platform {
        host if host == flccPlatform::FLCC_HOST as i32 => (Platform::Cpu, false),
        device if device == flccPlatform::FLCC_DEVICE as i32 => (Platform::Cuda, false),
        any if any == flccPlatform::FLCC_ANY as i32 => (Platform::Auto, true),
        other => {
            return Err(wrong(FLCC_INVALID_PLATFORM, "platform", "FLCC_HOST, FLCC_DEVICE or FLCC_ANY", other));
        }
    };
    let op = if convolution { Op::Convolve } else { Op::Match(Measure::Zncc) };
    let size = |error| Fault(FLCC_INVALID_SIZE, Failure::from(error));
    let spec = Spec::new(op, DType::F32, image, DType::F32, template, Mode::Full).map_err(size)?;
    let spec =
        spec.with_boundary(Boundary::Zero).and_then(|spec| spec.with_images(usize::from(!stream))).map_err(size)?;
    needed::to_plan(&spec).map_err(|failure| match failure.status {
        FLCC_ERROR_INVALID => Fault(FLCC_INVALID_SIZE, failure),
        _ => failure.into(),
    })?;
    let settings = Settings { platform: Some(platform), fall_back, ..Settings::default() };
    let plan = settings.plan(&spec).map_err(|failure| match failure.status {
        FLCC_ERROR_REFUSED => Fault(FLCC_INVALID_PLATFORM, failure),
        _ => failure.into(),
    })?;
    Ok(Classic { convolution, stream, plan, last: Mutex::default() })
}

/// # Safety
/// `plan` is null or has room for a structure.
unsafe fn make(
    convolution: bool,
    plan: *mut flccPlan,
    dim: c_int,
    sizes: [flccSize; 2],
    kind: MaybeUninit<flccType>,
    platform: MaybeUninit<flccPlatform>,
) -> flccResult {
    result(|| {
        // Until there is one, the structure names none.
        let no_plan = |failure| Fault(FLCC_INVALID_PLAN, failure);
        // SAFETY: the caller's word; both enums came by value.
        let (kind, platform) = unsafe {
            pointers::put("plan", plan, flccPlan { words: [0; 4] }).map_err(no_plan)?;
            (pointers::number(kind), pointers::number(platform))
        };
        let made = new_plan(convolution, dim, sizes, kind, platform)?;
        // SAFETY: as above.
        unsafe { pointers::put("plan", plan, sealed(CLASSICS.keep(Arc::new(made)))) }.map_err(no_plan)
    })
}

impl Classic {
    /// The template bound, as it was by the last call where it is the same.
    fn bound(&self, template: &AnyView<'_>, samples: &[f32]) -> Result<Arc<Runner>, Failure> {
        let same = |known: &[f32]| known.iter().zip(samples).all(|(a, b)| a.to_bits() == b.to_bits());
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, runner)) = &*last()
            && same(known)
        {
            return Ok(Arc::clone(runner));
        }
        let runner = Arc::new(Runner::new(&self.plan, &[*template], None)?);
        let mut copy = needed::room(samples.len())?;
        copy.extend_from_slice(samples);
        *last() = Some((copy, Arc::clone(&runner)));
        Ok(runner)
    }
}

/// # Safety
/// `plan` is null or a structure, the arrays are null or as long as the plan says.
unsafe fn execute(
    convolution: bool,
    plan: *const flccPlan,
    image: *const f32,
    templat: *const f32,
    results: *mut f32,
    count: c_int,
) -> flccResult {
    result(|| {
        // SAFETY: the caller's word.
        let (_, known) = unsafe { find(plan, convolution) }?;
        let spec = known.plan.spec();
        let count = match usize::try_from(count) {
            _ if !known.stream => 1,
            Ok(count) if count > 0 => count,
            _ => return Err(wrong(FLCC_INVALID_VALUE, "imCount", "at least 1", count)),
        };
        let many = |shape: Shape| shape.len().checked_mul(count).and_then(|samples| samples.checked_mul(4));
        if [spec.image(), spec.out_shape()].into_iter().any(|shape| many(shape).is_none_or(|n| n > isize::MAX as usize))
        {
            return Err(wrong(FLCC_INVALID_SIZE, "imCount", "images and results that there are addresses for", count));
        }
        let images = Stack::new("image", image.cast(), DType::F32, (spec.image(), 1), None, count)?;
        let template = Stack::new("templat", templat.cast(), DType::F32, (spec.template(), 1), None, 1)?;
        let results = Stack::new("result", results.cast(), DType::F32, (spec.out_shape(), 1), None, count)?;
        let results = results.apart(&images, count)?.apart(&template, count)?;
        // SAFETY: the caller's word.
        let template = unsafe { template.views(0..1) }?.remove(0);
        let AnyView::F32(samples) = &template else { unreachable!("a stack of f32 has views of f32") };
        let runner = known.bound(&template, samples.as_dense().unwrap_or(&[]))?;
        // SAFETY: the caller's word; `apart` was asked above, and one group's views end before the next are made.
        runner
            .execute(count, |numbers| unsafe { Ok((images.views(numbers.clone())?, results.views_mut(numbers)?)) })?;
        Ok(())
    })
}

/// # Safety
/// `plan` is null or a structure.
unsafe fn destroy(convolution: bool, plan: *mut flccPlan) -> flccResult {
    result(|| {
        // SAFETY: the caller's word.
        let (number, _) = unsafe { find(plan, convolution) }?;
        // The structure is left as it is: other threads may read it, and the number in it names nothing any more.
        match CLASSICS.forget(number) {
            Some(_) => Ok(()),
            // Another thread was faster.
            None => Err(wrong(FLCC_INVALID_PLAN, "plan", expected(convolution), "a destroyed one")),
        }
    })
}

/// Plans convolutions: `y[b] = sum P_b[k] t[T-1-k]`, `P_b` the part of the image that begins at `b - (T - 1)`, zero
/// outside. The result has `h + th - 1` rows, `w + tw - 1` columns (and `d + td - 1` layers).
///
/// `plan` is declared by the caller and needs no value; `dim` is 2 or 3; `imSize` and `temSize` are the lengths of
/// image and template (`d` is ignored where `dim` is 2). `type` says whether a call has one image or a stream of them,
/// `platform` where it may be computed. The plan may be used by several threads at once, for any images and templates
/// of these sizes, until `conv_destroy`. One that is planned again without that stays in memory.
///
/// # Errors
/// `FLCC_INVALID_PLAN` for a null pointer, `_DIMENSION`, `_SIZE` (a side below 1, or more samples than 2^36 of an image
/// or than there are addresses for), `_TYPE`, `_PLATFORM` (none of the three, or `FLCC_DEVICE` without a GPU),
/// `FLCC_ALLOC_FAILED`, `FLCC_EXEC_FAILED`. After an error the structure names no plan.
///
/// # Safety
/// `plan` is null or the address of a `flccPlan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn conv_plan(
    plan: *mut flccPlan,
    dim: c_int,
    imSize: flccSize,
    temSize: flccSize,
    r#type: MaybeUninit<flccType>,
    platform: MaybeUninit<flccPlatform>,
) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { make(true, plan, dim, [imSize, temSize], r#type, platform) }
}

/// Plans local correlation coefficients: `r[b] = sum (P - mean P)(t - mean t) / sqrt(sum (P - mean P)^2 sum (t - mean
/// t)^2)`, in `[-1, 1]`, each within 1e-5 of the exact value, and exactly 0 where `P` is constant. All else is as for
/// `conv_plan`.
///
/// # Errors
/// As `conv_plan`.
///
/// # Safety
/// As `conv_plan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lcorr_plan(
    plan: *mut flccPlan,
    dim: c_int,
    imSize: flccSize,
    temSize: flccSize,
    r#type: MaybeUninit<flccType>,
    platform: MaybeUninit<flccPlatform>,
) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { make(false, plan, dim, [imSize, temSize], r#type, platform) }
}

/// Computes the convolutions of `imCount` images with a template.
///
/// `image` has the images one behind the other, row-major; `templat` the template; `result` gets a result for each
/// image, one behind the other. With `FLCC_SINGLE` there is one image, and `imCount` is ignored. Memory from
/// `flcc_malloc` is copied to a GPU while it computes; any other is taken too.
///
/// # Errors
/// `FLCC_INVALID_PLAN` for null, a plan that was destroyed or never made, or one of `lcorr_plan`;
/// `FLCC_INVALID_VALUE` for a null or unaligned array, a result that overlaps image or template, an `imCount` below 1;
/// `FLCC_INVALID_SIZE` for more images than there are addresses for; `FLCC_ALLOC_FAILED`, `FLCC_EXEC_FAILED`.
///
/// # Safety
/// `plan` is null or the address of a `flccPlan`, the arrays are null or as long as the plan says. Nothing writes image
/// and template meanwhile, and nobody else uses the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn conv_exec(
    plan: *mut flccPlan,
    image: *mut f32,
    templat: *mut f32,
    result: *mut f32,
    imCount: c_int,
) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { execute(true, plan, image, templat, result, imCount) }
}

/// Computes the local correlation coefficients of `imCount` images with a template. All else is as for `conv_exec`.
///
/// # Errors
/// As `conv_exec`, with plans of `lcorr_plan`; `FLCC_INVALID_VALUE` also for a template that is constant or holds NaN
/// or infinities.
///
/// # Safety
/// As `conv_exec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lcorr_exec(
    plan: *mut flccPlan,
    image: *mut f32,
    templat: *mut f32,
    result: *mut f32,
    imCount: c_int,
) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { execute(false, plan, image, templat, result, imCount) }
}

/// Destroys a plan of `conv_plan`. A call on another thread that uses it ends as it began.
///
/// # Errors
/// `FLCC_INVALID_PLAN`: null, never made, destroyed before, or made by `lcorr_plan`.
///
/// # Safety
/// `plan` is null or the address of a `flccPlan`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn conv_destroy(plan: *mut flccPlan) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { destroy(true, plan) }
}

/// Destroys a plan of `lcorr_plan`, as `conv_destroy` does.
///
/// # Errors
/// As `conv_destroy`, of a plan made by `conv_plan`.
///
/// # Safety
/// As `conv_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lcorr_destroy(plan: *mut flccPlan) -> flccResult {
    // SAFETY: the caller's word.
    unsafe { destroy(false, plan) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_computation_that_failed() {
        assert_eq!(result(|| panic!("inside")), FLCC_EXEC_FAILED);
        assert_eq!(result(|| Err(Failure::null("image", "one").into())), FLCC_INVALID_VALUE);
        assert_eq!(result(|| Ok(())), FLCC_SUCCESS);
    }
}
