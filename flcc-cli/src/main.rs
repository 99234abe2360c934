//! The flcc command: parse, run, print an error in one line, exit.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use flcc_cli::args::{Cli, with_fits, with_help};
use flcc_cli::error::one_line_of;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(with_help(with_fits(std::env::args_os(), |name| Path::new(name).exists()))) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // Help and version are what was asked for. A pipe that is closed takes no more of them.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return report(&one_line_of(&error), 2),
    };
    match flcc_cli::commands::run(&cli, &mut std::io::stdout().lock()) {
        Ok(status) => ExitCode::from(status),
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => report(&error.to_string(), error.status()),
    }
}

/// Prints the one line of an error; where standard error is closed only the status is left.
fn report(message: &str, status: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {message}");
    ExitCode::from(status)
}
