//! Convolution, cross-correlation and local correlation coefficients of 1D, 2D and 3D images with templates.
//!
//! Plan once, execute often: a [`Spec`] says what is computed, a [`Planner`] chooses how (direct, Fourier or separable,
//! in tiles of which size), a [`Plan`] holds the choice, and a [`Matcher`] is a plan with its templates bound, to run
//! on any number of images. For a single result there are [`convolve()`], [`correlate()`], [`lcc()`] and
//! [`match_template()`].
//!
//! ```
//! use flcc_runtime::{AnyView, Pixels, Planner, Spec, find_peaks, PeakOptions};
//!
//! let spec: Spec = "zncc:u8:64x64*9x9:valid".parse()?;
//! let image = Pixels::U8((0..64 * 64u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect());
//! let image = AnyView::dense(&image, spec.image(), 1)?;
//! let template = image.part([20, 30], spec.template())?;
//!
//! let matcher = Planner::new()?.plan(&spec)?.bind(&[template], None)?;
//! let scores = matcher.execute(&[image])?;
//! let best = &find_peaks(&scores[0], &PeakOptions { top: Some(1), ..PeakOptions::default() })[0];
//! assert_eq!(best.position.as_slice(), [20, 30]);
//! assert!((best.score - 1.0).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every coefficient is within 1e-5 of the exact value (1e-11 for f64 results); integers can be exact. How that is kept
//! is told in docs/numerics.md.
//!
//! Arrays of other crates are taken where they lie: with feature `ndarray` `convert::view_of(&array)?` is a view of an
//! array, its axes in any order, or of a slice of one that leaves no gaps; with feature `image`
//! `convert::view_of_image(&buffer)?` is one of an image buffer of any channels. A type of your own implements
//! [`AsImage`].
//!
//! A debug build is 20 times slower unless your Cargo.toml says:
//!
//! ```toml
//! [profile.dev.package.flcc-runtime]
//! opt-level = 3
//! ```
//!
//! What users need stands here and in the modules [`account`], [`cuda`], [`machine`], [`peaks`] and [`wisdom`]; with
//! feature `ndarray` or `image` also in `convert`.

mod call;
#[cfg(any(feature = "image", feature = "ndarray"))]
pub mod convert;
mod cpu;
pub mod cuda;
mod files;
mod free;
mod isa;
mod plan;
mod problem;
mod run;
mod tune;

pub use call::masked::{Masked, MaskedOptions, match_masked};
pub use call::oneshot::{convolve, correlate, lcc, match_template};
pub use call::pairs::Pairs;
#[doc(inline)]
pub use call::peaks;
pub use call::peaks::{Peak, PeakOptions, find_peaks, find_peaks_in};
pub use call::poses::{PosedMatcher, PosedOptions, PosedPeak, find_posed};
pub use call::stream::Stream;
pub use cpu::window_stats::{Stat, WindowStats, window_stats};
#[doc(hidden)]
pub use flcc_core as core;
pub use flcc_core::boundary::Boundary;
pub use flcc_core::dtype::{DType, Pixel, Pixels};
pub use flcc_core::error::{ExecError, Kind, PlanError, Refusal, SpecError};
pub use flcc_core::extent::{Mode, Region};
pub use flcc_core::image::Image;
pub use flcc_core::measure::{Best, Measure};
pub use flcc_core::op::Op;
pub use flcc_core::pose;
pub use flcc_core::score::ScoreMap;
pub use flcc_core::shape::Shape;
pub use flcc_core::spec::{Accuracy, MaskKind, Spec};
pub use flcc_core::subpixel::Subpixel;
pub use flcc_core::view::{AnyView, AnyViewMut, AsImage, View, ViewMut};
#[cfg(feature = "cuda")]
pub use plan::device_queue::DeviceQueue;
pub use plan::machine::Machine;
pub use plan::matcher::Matcher;
pub use plan::planned::Plan;
pub use plan::regions::Regions;
pub use plan::settings::{Effort, Planner};
pub use plan::solver::{Method, Platform};
pub use plan::wisdom::Wisdom;
#[doc(inline)]
pub use plan::{account, machine, wisdom};
pub use problem::template::mask_kind;
#[cfg(feature = "cuda")]
pub use run::device_image::{DeviceImage, DeviceImages, DevicePairs, DeviceResults, DeviceStream, Extraordinary};
pub use run::execute::{CancelToken, Control, Copies, Scratch, Statistics};

/// The private rooms, for the command, the tests and the benches of this workspace alone: they change without notice.
#[doc(hidden)]
pub mod rooms {
    pub mod call {
        pub use crate::call::*;
    }
    pub mod cpu {
        pub use crate::cpu::*;
    }
    pub mod cuda {
        pub use crate::cuda::*;
    }
    pub mod files {
        pub use crate::files::*;
    }
    pub mod free {
        pub use crate::free::*;
    }
    pub mod isa {
        pub use crate::isa::*;
    }
    pub mod plan {
        pub use crate::plan::*;
    }
    pub mod problem {
        pub use crate::problem::*;
    }
    pub mod run {
        pub use crate::run::*;
    }
    pub mod tune {
        pub use crate::tune::*;
    }
}

/// The README, whose code is compiled with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
