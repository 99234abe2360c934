//! The commands, one file each. A command writes its result to `out`, notes to standard error.

use std::io::Write;

use crate::args::{Cli, Command};
use crate::error::Error;

pub mod bench;
pub mod by_parts;
pub mod conformance;
pub mod correlate;
pub mod devices;
pub mod grid;
pub mod local;
pub mod manual;
pub mod masked;
pub mod merge;
pub mod plan;
pub mod posed;
pub mod stream;
pub mod templates;
pub mod tune;
pub mod wisdom;

/// Runs a command; the exit status is that of a command that ran but has something bad to tell.
///
/// # Errors
/// Whatever kept the command from its result.
pub fn run(cli: &Cli, out: &mut dyn Write) -> Result<u8, Error> {
    let planning = &cli.planning;
    let status = match &cli.command {
        Command::Conv(args) => by_parts::run(correlate::Name::Conv, args, None, planning, out).map(|()| 0),
        Command::Corr(args) => by_parts::run(correlate::Name::Corr, args, None, planning, out).map(|()| 0),
        Command::Lcc(args) => by_parts::run(correlate::Name::Lcc, args, None, planning, out).map(|()| 0),
        Command::Match(args) if args.poses.asked() => posed::run(args, planning, out).map(|()| 0),
        Command::Match(args) => {
            by_parts::run(correlate::Name::Match, &args.correlate, Some(args), planning, out).map(|()| 0)
        }
        Command::Merge(args) => merge::run(args, planning, out).map(|()| 0),
        Command::Stream(args) => stream::run(args, planning, out),
        Command::Local(args) => local::run(args, planning, out).map(|()| 0),
        Command::Conformance(args) => conformance::run(args, planning, out),
        Command::Plan(args) => plan::run(args, planning, out).map(|()| 0),
        Command::Bench(args) if args.grid => grid::run(args, planning, out).map(|()| 0),
        Command::Bench(args) => bench::run(args, planning, out).map(|()| 0),
        Command::Tune(args) => tune::run(args, planning, out).map(|()| 0),
        Command::Devices => devices::run(planning, out).map(|()| 0),
        Command::Wisdom(args) => wisdom::run(args, planning, out).map(|()| 0),
        Command::Completions { shell } => manual::completions(*shell, out).map(|()| 0),
        Command::Man { command } => manual::man(command, out).map(|()| 0),
    }?;
    out.flush()?;
    Ok(status)
}
