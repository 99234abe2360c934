//! The calls as C makes them, with arrays of known length in the place of addresses.
//!
//! The tests hand over arrays that are as long as spec and layout say, or what is no array and has to be refused before
//! it is followed.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use flcc::classic::{conv_destroy, conv_exec, conv_plan, lcorr_destroy, lcorr_exec, lcorr_plan};
use flcc::memory::{flcc_free, flcc_malloc};
use flcc::plans::*;
use flcc::queues::*;
use flcc::status::flcc_status::{self, FLCC_OK};
use flcc::types::*;

/// The message of the last call that failed.
pub fn message() -> String {
    // SAFETY: it ends with a zero and is there until the next call that fails.
    unsafe { CStr::from_ptr(flcc_last_error()) }.to_string_lossy().into_owned()
}

/// The words of a status, or of any number.
pub fn words(number: c_int) -> String {
    let mut status = MaybeUninit::<flcc_status>::uninit();
    // SAFETY: both have the size of an int; the text is there as long as the library.
    unsafe {
        status.as_mut_ptr().cast::<c_int>().write(number);
        CStr::from_ptr(flcc_status_text(status)).to_string_lossy().into_owned()
    }
}

/// The version.
pub fn version() -> String {
    // SAFETY: it ends with a zero.
    unsafe { CStr::from_ptr(flcc_version()) }.to_string_lossy().into_owned()
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn done<T>(status: flcc_status, value: T) -> Result<T, flcc_status> {
    if status == FLCC_OK { Ok(value) } else { Err(status) }
}

pub fn plan(spec: &str, settings: &str) -> Result<*mut flcc_plan, flcc_status> {
    let mut plan = ptr::dangling_mut();
    // SAFETY: texts with their zeros and room for an address.
    let status = unsafe { flcc_plan_create(text(spec).as_ptr(), text(settings).as_ptr(), &raw mut plan) };
    assert_eq!(plan.is_null(), status != FLCC_OK);
    done(status, plan)
}

/// A plan of bytes that end with a zero somewhere, whatever they are.
pub fn plan_of_bytes(spec: &[u8], settings: &[u8]) -> Result<*mut flcc_plan, flcc_status> {
    let until_zero = |bytes: &[u8]| CString::new(bytes.split(|&byte| byte == 0).next().unwrap_or(b"")).unwrap();
    let mut plan = ptr::null_mut();
    // SAFETY: as above.
    let status = unsafe { flcc_plan_create(until_zero(spec).as_ptr(), until_zero(settings).as_ptr(), &raw mut plan) };
    done(status, plan)
}

/// Every way in which an argument of `flcc_plan_create` can be null.
pub fn plan_of_nulls() -> [flcc_status; 2] {
    let mut plan = ptr::null_mut();
    // SAFETY: null or what is asked for.
    unsafe {
        [
            flcc_plan_create(ptr::null(), ptr::null(), &raw mut plan),
            flcc_plan_create(c"zncc:f32:4x4*2x2:valid".as_ptr(), ptr::null(), ptr::null_mut()),
        ]
    }
}

pub fn info(plan: *const flcc_plan, size: usize) -> Result<flcc_info, flcc_status> {
    let nothing = flcc_shape { axes: 0, lengths: [0; 3] };
    let mut info = flcc_info {
        size,
        image: nothing,
        templat: nothing,
        result: nothing,
        origin: [0; 3],
        images: 0,
        templates: 0,
        channels: 0,
        threads: 0,
        scratch_bytes: 0,
        template_bytes: 0,
        image_type: flcc_type::FLCC_U8,
        template_type: flcc_type::FLCC_U8,
        result_type: flcc_type::FLCC_U8,
        platform: flccPlatform::FLCC_ANY,
    };
    assert!(size <= size_of::<flcc_info>());
    // SAFETY: it has as many bytes as it says.
    let status = unsafe { flcc_plan_info(plan, &raw mut info) };
    done(status, info)
}

/// Which text is asked for.
#[derive(Clone, Copy)]
pub enum Text {
    Spec(*const flcc_plan),
    Plan(*const flcc_plan),
    Matcher(*const flcc_matcher),
    Wisdom,
}

/// A text in `room` bytes, as far as it fits, and its whole length.
pub fn told(which: Text, room: usize) -> Result<(String, usize), flcc_status> {
    let mut buffer = vec![1u8; room + 1];
    let (address, mut length) = (buffer.as_mut_ptr().cast(), 0);
    // SAFETY: `room` bytes and room for a number.
    let status = unsafe {
        match which {
            Text::Spec(plan) => flcc_plan_spec(plan, address, room, &raw mut length),
            Text::Plan(plan) => flcc_plan_explain(plan, address, room, &raw mut length),
            Text::Matcher(matcher) => flcc_matcher_explain(matcher, address, room, &raw mut length),
            Text::Wisdom => flcc_wisdom_export(address, room, &raw mut length),
        }
    };
    assert_eq!(buffer[room], 1, "nothing is written behind the room");
    let text = buffer.split(|&byte| byte == 0).next().unwrap();
    done(status, (String::from_utf8_lossy(&text[..text.len().min(room)]).into_owned(), length))
}

/// Asks for a text with nowhere to put it.
pub fn told_nowhere(plan: *const flcc_plan) -> flcc_status {
    // SAFETY: both are null.
    unsafe { flcc_plan_explain(plan, ptr::null_mut(), 100, ptr::null_mut()) }
}

pub fn wisdom(call: unsafe extern "C" fn(*const std::ffi::c_char) -> flcc_status, argument: &str) -> flcc_status {
    // SAFETY: a text with its zero.
    unsafe { call(text(argument).as_ptr()) }
}

pub fn matcher<T>(
    plan: *const flcc_plan,
    templates: &[T],
    layout: Option<flcc_layout>,
    mask: Option<(&[f32], flcc_type)>,
) -> Result<*mut flcc_matcher, flcc_status> {
    let mut matcher = ptr::dangling_mut();
    let layout = layout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (mask, of) = mask.map_or((ptr::null(), flcc_type::FLCC_U8), |(mask, of)| (mask.as_ptr().cast(), of));
    // SAFETY: the tests' word on the arrays.
    let status = unsafe {
        flcc_matcher_create(plan, templates.as_ptr().cast(), layout, mask, MaybeUninit::new(of), &raw mut matcher)
    };
    assert_eq!(matcher.is_null(), status != FLCC_OK);
    done(status, matcher)
}

/// Addresses that are refused before they are followed.
pub fn matcher_at(plan: *const flcc_plan, address: usize) -> flcc_status {
    let mut matcher = ptr::null_mut();
    let kind = MaybeUninit::new(flcc_type::FLCC_U8);
    // SAFETY: null or not aligned.
    unsafe { flcc_matcher_create(plan, address as *const c_void, ptr::null(), ptr::null(), kind, &raw mut matcher) }
}

pub fn execute<T, R>(
    matcher: *const flcc_matcher,
    images: &[T],
    image_layout: Option<flcc_layout>,
    count: usize,
    results: &mut [R],
    result_layout: Option<flcc_layout>,
) -> flcc_status {
    execute_from(matcher, (images, 0, image_layout), count, (results, 0, result_layout))
}

/// The same from samples within the arrays on, for strides that run backwards.
pub fn execute_from<T, R>(
    matcher: *const flcc_matcher,
    (images, first_image, image_layout): (&[T], usize, Option<flcc_layout>),
    count: usize,
    (results, first_result, result_layout): (&mut [R], usize, Option<flcc_layout>),
) -> flcc_status {
    let (images, results) = (&raw const images[first_image], &raw mut results[first_result]);
    let address = |layout: &Option<flcc_layout>| layout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (from, to) = (address(&image_layout), address(&result_layout));
    // SAFETY: the tests' word on the arrays.
    unsafe { flcc_execute(matcher, images.cast(), from, count, results.cast(), to) }
}

/// Addresses that are refused before they are followed.
pub fn execute_at(matcher: *const flcc_matcher, image: usize, count: usize, result: usize) -> flcc_status {
    // SAFETY: null, not aligned, or in each other's way.
    unsafe { flcc_execute(matcher, image as *const c_void, ptr::null(), count, result as *mut c_void, ptr::null()) }
}

/// Images and templates, each with a layout, for as many results without gaps.
pub fn execute_pairs<T>(
    plan: *const flcc_plan,
    (images, image_layout): (&[T], Option<flcc_layout>),
    (templates, template_layout): (&[T], Option<flcc_layout>),
    mask: Option<&[f32]>,
    count: usize,
    results: &mut [f32],
) -> flcc_status {
    let address = |layout: &Option<flcc_layout>| layout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (of_images, of_templates) = (address(&image_layout), address(&template_layout));
    let mask = mask.map_or(ptr::null(), |mask| mask.as_ptr().cast());
    let (images, templates, kind) = (images.as_ptr().cast(), templates.as_ptr().cast(), flcc_type::FLCC_F32);
    let (kind, results) = (MaybeUninit::new(kind), results.as_mut_ptr().cast());
    // SAFETY: the tests' word on the arrays.
    unsafe {
        flcc_execute_pairs(plan, images, of_images, templates, of_templates, mask, kind, count, results, ptr::null())
    }
}

/// The addresses are those of memory on a device that the tests hold, or what has to be refused before a kernel runs.
pub fn execute_on_device(matcher: *const flcc_matcher, image: u64, result: u64) -> flcc_status {
    let [image, result] = [image, result].map(|at| ptr::without_provenance_mut::<c_void>(at as usize));
    // SAFETY: what lies on a device is as long as the spec says, which the callers below see to; all else is refused.
    unsafe { flcc_execute_on_device(matcher, image, ptr::null(), result, ptr::null_mut()) }
}

pub fn queue(matcher: *const flcc_matcher, device: usize, computes: c_int) -> Result<*mut flcc_queue, flcc_status> {
    let mut queue = ptr::null_mut();
    // SAFETY: room for an address.
    match unsafe { flcc_queue_create(matcher, device, computes, &raw mut queue) } {
        flcc_status::FLCC_OK => Ok(queue),
        status => Err(status),
    }
}

/// As [`execute_on_device`], of images one behind the other, in the default stream.
pub fn enqueue(queue: *mut flcc_queue, images: u64, count: usize, results: u64) -> flcc_status {
    let [images, results] = [images, results].map(|at| ptr::without_provenance_mut::<c_void>(at as usize));
    // SAFETY: as there.
    unsafe { flcc_enqueue(queue, images, ptr::null(), count, results, ptr::null_mut()) }
}

pub fn unserved(queue: *mut flcc_queue, forget: bool) -> Result<bool, flcc_status> {
    let mut told = -1;
    // SAFETY: room for a number.
    match unsafe { flcc_queue_unserved(queue, c_int::from(forget), &raw mut told) } {
        flcc_status::FLCC_OK => Ok(told == 1),
        status => Err(status),
    }
}

pub fn peaks<T>(
    matcher: *const flcc_matcher,
    images: &[T],
    count: usize,
    templates: usize,
    options: &str,
    room: usize,
) -> Result<Vec<Vec<flcc_peak>>, flcc_status> {
    let none = flcc_peak { score: -7.0, position: [0; 3], refined: [0.0; 3] };
    let mut peaks = vec![none; count * templates * room + 1];
    let mut counts = vec![usize::MAX; count * templates];
    let (to, told) = (peaks.as_mut_ptr(), counts.as_mut_ptr());
    // SAFETY: the tests' word on the images; both arrays have the room.
    let status = unsafe {
        flcc_peaks(matcher, images.as_ptr().cast(), ptr::null(), count, text(options).as_ptr(), to, room, told)
    };
    assert_eq!(peaks.pop(), Some(none), "nothing is written behind the room");
    let lists = counts.iter().enumerate().map(|(list, &found)| peaks[list * room..][..found.min(room)].to_vec());
    done(status, lists.collect())
}

/// What `flcc_find_posed` is called with; `None` is null, and a mask is of f32.
#[derive(Clone, Copy)]
pub struct Posed<'a, T> {
    pub spec: &'a str,
    pub settings: &'a str,
    pub image: (&'a [T], Option<flcc_layout>),
    pub template: (&'a [T], Option<flcc_layout>),
    pub mask: Option<&'a [f32]>,
    pub angles: Option<&'a [f64]>,
    pub scales: Option<&'a [f64]>,
    pub options: &'a str,
}

pub fn find_posed<T>(call: &Posed<'_, T>, room: usize) -> Result<Vec<flcc_posed_peak>, flcc_status> {
    let shape = flcc_shape { axes: 7, lengths: [7; 3] };
    let (middle, position) = ([-7.0; 3], [7; 3]);
    let none = flcc_posed_peak { score: -7.0, angle: -7.0, scale: -7.0, middle, position, shape };
    let (mut peaks, mut found) = (vec![none; room + 1], usize::MAX);
    let address = |layout: &Option<flcc_layout>| layout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let numbers = |list: Option<&[f64]>| list.map_or((ptr::null(), 0), |list| (list.as_ptr(), list.len()));
    let (spec, settings, options) = (text(call.spec), text(call.settings), text(call.options));
    let ((angles, angle_count), (scales, scale_count)) = (numbers(call.angles), numbers(call.scales));
    // SAFETY: the tests' word on the arrays; there is the room.
    let status = unsafe {
        flcc_find_posed(
            spec.as_ptr(),
            settings.as_ptr(),
            call.image.0.as_ptr().cast(),
            address(&call.image.1),
            call.template.0.as_ptr().cast(),
            address(&call.template.1),
            call.mask.map_or(ptr::null(), |mask| mask.as_ptr().cast()),
            MaybeUninit::new(flcc_type::FLCC_F32),
            angles,
            angle_count,
            scales,
            scale_count,
            options.as_ptr(),
            peaks.as_mut_ptr(),
            room,
            &raw mut found,
        )
    };
    assert!(found == 0 || status == FLCC_OK, "{found} after an error");
    let written = found.min(room);
    assert!(peaks[written..].iter().all(|peak| *peak == none), "nothing is written behind what was found");
    peaks.truncate(written);
    done(status, peaks)
}

/// Which argument of `flcc_find_posed` is wrong, of a call of zncc:f32:9x9*3x3:valid that is right else.
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    NoSpec,
    Image(usize),
    Template(usize),
    Angles(usize, usize),
    Scales(usize, usize),
    NoPeaks,
    NoFound,
    Room(usize),
}

/// Addresses and counts that have to be refused before they are followed.
pub fn find_posed_with(wrong: Wrong) -> flcc_status {
    let (image, template) = ([1.0f32; 81], [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0]);
    let (mut spec, options) = (c"zncc:f32:9x9*3x3:valid".as_ptr(), ptr::null());
    let (mut image, mut template): (*const c_void, *const c_void) = (image.as_ptr().cast(), template.as_ptr().cast());
    let ((mut angles, mut angle_count), (mut scales, mut scale_count)) = ((ptr::null(), 0), (ptr::null(), 0));
    let (mut count, mut room) = (7, 0);
    let mut found = &raw mut count;
    match wrong {
        Wrong::NoSpec => spec = ptr::null(),
        Wrong::Image(address) => image = address as *const c_void,
        Wrong::Template(address) => template = address as *const c_void,
        Wrong::Angles(address, count) => (angles, angle_count) = (address as *const f64, count),
        Wrong::Scales(address, count) => (scales, scale_count) = (address as *const f64, count),
        Wrong::NoPeaks => room = 1,
        Wrong::NoFound => found = ptr::null_mut(),
        Wrong::Room(most) => room = most,
    }
    let (nothing, kind) = (ptr::null(), MaybeUninit::new(flcc_type::FLCC_U8));
    let peaks = if matches!(wrong, Wrong::Room(_)) { ptr::dangling_mut() } else { ptr::null_mut() };
    // SAFETY: what is wrong is null, not aligned, or more than there are addresses for; all else is as it is asked for.
    unsafe {
        flcc_find_posed(
            spec,
            ptr::null(),
            image,
            nothing,
            template,
            nothing,
            ptr::null(),
            kind,
            angles,
            angle_count,
            scales,
            scale_count,
            options,
            peaks,
            room,
            found,
        )
    }
}

/// `flcc_peaks` with room that is not there, and has to be refused.
pub fn peaks_in_room(matcher: *const flcc_matcher, images: &[f32], room: usize) -> flcc_status {
    // SAFETY: null where it would write.
    unsafe {
        flcc_peaks(matcher, images.as_ptr().cast(), ptr::null(), 1, ptr::null(), ptr::null_mut(), room, ptr::null_mut())
    }
}

/// An operation of FLCC 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Conv,
    Lcorr,
}

/// A structure as a caller declares it.
pub fn declared() -> flccPlan {
    flccPlan { words: [0xaaaa_aaaa_aaaa_aaaa; 4] }
}

fn of_int<E>(number: c_int) -> MaybeUninit<E> {
    let mut value = MaybeUninit::<E>::uninit();
    assert_eq!(size_of::<E>(), size_of::<c_int>());
    // SAFETY: it has the size of an int.
    unsafe { value.as_mut_ptr().cast::<c_int>().write(number) };
    value
}

impl Operation {
    /// With any numbers in the place of enums.
    pub fn plan(
        self,
        plan: Option<&mut flccPlan>,
        dim: c_int,
        [image, template]: [[c_int; 3]; 2],
        kind: c_int,
        platform: c_int,
    ) -> flccResult {
        let size = |[h, w, d]: [c_int; 3]| flccSize { h, w, d };
        let plan = plan.map_or(ptr::null_mut(), ptr::from_mut);
        let call = if self == Operation::Conv { conv_plan } else { lcorr_plan };
        // SAFETY: null or a structure.
        unsafe { call(plan, dim, size(image), size(template), of_int(kind), of_int(platform)) }
    }

    /// Arrays that are not there are null.
    pub fn exec(
        self,
        plan: Option<&mut flccPlan>,
        image: Option<&[f32]>,
        template: Option<&[f32]>,
        result: Option<&mut [f32]>,
        count: c_int,
    ) -> flccResult {
        let plan = plan.map_or(ptr::null_mut(), ptr::from_mut);
        let read = |array: Option<&[f32]>| array.map_or(ptr::null_mut(), |array| array.as_ptr().cast_mut());
        let result = result.map_or(ptr::null_mut(), <[f32]>::as_mut_ptr);
        let call = if self == Operation::Conv { conv_exec } else { lcorr_exec };
        // SAFETY: the tests' word on the arrays.
        unsafe { call(plan, read(image), read(template), result, count) }
    }

    /// Addresses that are refused before they are followed.
    pub fn exec_at(self, plan: &mut flccPlan, [image, template, result]: [usize; 3], count: c_int) -> flccResult {
        let call = if self == Operation::Conv { conv_exec } else { lcorr_exec };
        let at = |address: usize| address as *mut f32;
        // SAFETY: null, not aligned, in each other's way, or beyond the addresses there are.
        unsafe { call(plan, at(image), at(template), at(result), count) }
    }

    pub fn destroy(self, plan: Option<&mut flccPlan>) -> flccResult {
        let plan = plan.map_or(ptr::null_mut(), ptr::from_mut);
        let call = if self == Operation::Conv { conv_destroy } else { lcorr_destroy };
        // SAFETY: null or a structure.
        unsafe { call(plan) }
    }
}

/// Floats in memory of `flcc_malloc`, given back when it goes.
pub struct Memory {
    address: *mut f32,
    len: usize,
}

impl Memory {
    pub fn of(floats: &[f32]) -> Memory {
        let memory = Memory { address: flcc_malloc(size_of_val(floats)).cast(), len: floats.len() };
        assert!(!memory.address.is_null() && (memory.address as usize).is_multiple_of(64));
        let mut memory = memory;
        assert!(memory.samples().iter().all(|&before| before == 0.0));
        memory.samples_mut().copy_from_slice(floats);
        memory
    }

    pub fn address(&self) -> *mut c_void {
        self.address.cast()
    }

    pub fn samples(&self) -> &[f32] {
        // SAFETY: so many were asked for, and all bytes are zero or floats.
        unsafe { std::slice::from_raw_parts(self.address, self.len) }
    }

    pub fn samples_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }

    /// Whether a GPU copies from it without a detour.
    #[cfg(feature = "cuda")]
    pub fn is_pinned(&self) -> bool {
        use flcc_runtime::rooms::cuda::driver::{buffer, launch};
        let stream = launch::Gpu::open(0).ok().and_then(|gpu| gpu.stream().ok());
        stream.is_some_and(|stream| buffer::is_pinned(&stream, buffer::bytes_of(self.samples())))
    }

    #[cfg(not(feature = "cuda"))]
    pub fn is_pinned(&self) -> bool {
        false
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        flcc_free(self.address.cast());
    }
}
