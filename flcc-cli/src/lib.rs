//! The flcc command as a library: its arguments, its commands, image files in and out, pictures of results.
//!
//! What runs is [`commands::run`]; `main.rs` only parses, prints an error and sets the exit status.

#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod conformance;
pub mod data;
pub mod error;
pub mod io;
pub mod memory;
pub mod outputs;
pub mod parts;
pub mod picture;
pub mod places;
pub mod reading;
pub mod session;
pub mod tile;
