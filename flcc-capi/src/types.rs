//! What C calls pass: structures, enums and what handles point at in name only.

use std::ffi::{c_double, c_int};

/// The version of the library that this header is of: its first number.
pub const FLCC_VERSION_MAJOR: c_int = 0;
/// The second number. Before 1.0 programs are built anew when it changes.
pub const FLCC_VERSION_MINOR: c_int = 1;
/// The third number.
pub const FLCC_VERSION_PATCH: c_int = 0;

/// How a spec is computed. Made by `flcc_plan_create`; it is a number that the library knows, never an address.
pub struct flcc_plan(());

/// A plan with templates bound to it. Made by `flcc_matcher_create`; it is a number, as a plan is.
pub struct flcc_matcher(());

/// Room on a GPU for runs of a matcher that nothing waits for. Made by `flcc_queue_create`; it is a number, as a plan
/// is.
pub struct flcc_queue(());

/// The type of samples.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum flcc_type {
    /// `uint8_t`.
    FLCC_U8 = 0,
    /// `uint16_t`.
    FLCC_U16 = 1,
    /// `float`.
    FLCC_F32 = 2,
    /// `double`.
    FLCC_F64 = 3,
}

/// Where samples lie, counted in samples from the address that is passed with it. Strides may be negative.
///
/// Where a function takes a layout, null stands for row-major samples without gaps, the channels of a pixel side by
/// side, one array behind the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct flcc_layout {
    /// From one position to the next along each axis, the slowest axis first. An image of two axes has two strides:
    /// from row to row, from column to column; the third counts for nothing.
    pub strides: [isize; 3],
    /// From one channel of a position to the next. Results have one channel.
    pub channel: isize,
    /// From the first sample of an array to that of the next, where there are several.
    pub next: isize,
}

/// The lengths of 1 to 3 axes, the slowest axis first: height and width of an image.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct flcc_shape {
    /// How many axes there are.
    pub axes: usize,
    /// Their lengths; behind the last, 1.
    pub lengths: [usize; 3],
}

/// What a plan computes, and what it takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct flcc_info {
    /// Set by the caller: `sizeof(flcc_info)`. Later versions have more fields, and fill as many as there is room for.
    pub size: usize,
    /// The shape of each image, without channels.
    pub image: flcc_shape,
    /// The shape of each template, without channels.
    pub templat: flcc_shape,
    /// The shape of each result.
    pub result: flcc_shape,
    /// How far the template's first sample lies behind the image's first sample, on each axis, at the first position of
    /// the result: 0 in mode valid, `1 - T` in mode full, `-(T / 2)` in same; more with `roi`.
    pub origin: [isize; 3],
    /// How many images a call has; 0 for any number.
    pub images: usize,
    /// How many templates.
    pub templates: usize,
    /// How many channels an image and a template have.
    pub channels: usize,
    /// Threads of one call.
    pub threads: usize,
    /// Bytes of scratch of one call, above images, templates and results.
    pub scratch_bytes: usize,
    /// Bytes of each bound template.
    pub template_bytes: usize,
    /// The type of the images.
    pub image_type: flcc_type,
    /// The type of the templates.
    pub template_type: flcc_type,
    /// The type of the results: `FLCC_F32` or `FLCC_F64`.
    pub result_type: flcc_type,
    /// Where it computes: `FLCC_HOST` or `FLCC_DEVICE`.
    pub platform: flccPlatform,
}

/// A place and its score.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct flcc_peak {
    /// The score.
    pub score: c_double,
    /// The position in the result, the slowest axis first; behind the last axis, 0.
    pub position: [usize; 3],
    /// The position below a sample, where `subpixel` asked for it; else the same as `position`.
    pub refined: [c_double; 3],
}

/// A place where a template stands turned and scaled, its score, and how it stands there.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct flcc_posed_peak {
    /// The score.
    pub score: c_double,
    /// Degrees, counterclockwise as an image is looked at, its rows from top to bottom.
    pub angle: c_double,
    /// How many times as large as the template it is.
    pub scale: c_double,
    /// Where the template's middle lies in the image, the slowest axis first, below a sample where `subpixel` asked for
    /// it; behind the last axis, 0.
    pub middle: [c_double; 3],
    /// The first sample of the box around the turned template; behind the last axis, 0.
    pub position: [usize; 3],
    /// The lengths of that box.
    pub shape: flcc_shape,
}

/// A plan of FLCC 1.3, declared by the caller and filled by `conv_plan` or `lcorr_plan`. What it holds is the
/// library's; it names the plan, so a copy of it names the same one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct flccPlan {
    /// Not for callers.
    pub words: [u64; 4],
}

/// The lengths of an image or a template; `d` varies fastest in memory, then `w`, then `h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct flccSize {
    /// The slowest axis.
    pub h: c_int,
    /// The next.
    pub w: c_int,
    /// The fastest axis of three; ignored where there are two.
    pub d: c_int,
}

/// Whether a plan is for one image a call, or for a stream of images.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum flccType {
    /// One image a call.
    FLCC_SINGLE,
    /// `imCount` images a call, one behind the other.
    FLCC_STREAM,
}

/// Where a plan may compute.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum flccPlatform {
    /// On CPUs.
    FLCC_HOST,
    /// On a GPU.
    FLCC_DEVICE,
    /// On what is faster by estimate; where the GPU fails, the CPU takes over.
    FLCC_ANY,
}

/// What a function of FLCC 1.3 answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum flccResult {
    /// Done.
    FLCC_SUCCESS,
    /// A null plan, one that was never made or was destroyed, or one of the other operation.
    FLCC_INVALID_PLAN,
    /// Other than 2 or 3 dimensions.
    FLCC_INVALID_DIMENSION,
    /// A side below 1, or more samples than an image may have or there are addresses for.
    FLCC_INVALID_SIZE,
    /// A type that is none.
    FLCC_INVALID_TYPE,
    /// A platform that is none, or one that is not here.
    FLCC_INVALID_PLATFORM,
    /// A null or unaligned array, arrays that overlap, fewer than 1 image, or a template that no coefficient is defined
    /// for: constant, or with NaN or infinities.
    FLCC_INVALID_VALUE,
    /// There is no memory for it.
    FLCC_ALLOC_FAILED,
    /// The computation failed.
    FLCC_EXEC_FAILED,
}
