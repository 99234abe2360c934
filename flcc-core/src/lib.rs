//! Words, mathematics and the oracle of FLCC. No I/O, no threads, no unsafe code.
//!
//! A [`Spec`](spec::Spec) says *what* is computed. The formulas of the results are in [`measure`], the slow and obvious
//! computation of each of them is [`reference`](mod@reference), which every fast method is tested against.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod boundary;
pub mod dtype;
pub mod error;
pub mod extent;
pub mod frame;
pub mod image;
pub mod isa;
pub mod key;
pub mod measure;
pub mod op;
pub mod peaks;
pub mod pose;
pub mod reference;
pub mod runs;
pub mod score;
pub mod shape;
pub mod sizes;
pub mod spec;
pub mod subpixel;
pub mod sums;
pub mod view;
pub mod wide;

#[doc(no_inline)]
pub use dtype::Pixels;
#[doc(no_inline)]
pub use view::AnyView;
