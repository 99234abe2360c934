//! The C interface of FLCC: `include/flcc.h` in Rust's words, and what stands behind it.
//!
//! Two interfaces share one header. `plans` has plans by the text of a spec, for all that a spec can say;
//! `classic` has the eight functions of FLCC 1.3. What a caller holds are numbers that a `registry` knows, never
//! addresses of ours, so that garbage and what was destroyed are an answer and no crash. Memory of the caller is looked
//! at in `pointers` alone. No panic leaves the crate: `status::guard` stands around every call.
// The names are those of the header.
#![allow(non_camel_case_types, non_snake_case)]

pub mod classic;
mod learnt;
pub mod memory;
mod needed;
pub mod plans;
mod pointers;
pub mod queues;
mod registry;
mod runner;
mod settings;
pub mod status;
pub mod types;
