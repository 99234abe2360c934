//! The parts of the flcc command.

pub mod io;
