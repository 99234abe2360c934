//! FLCC's developer commands, run as `cargo xtask COMMAND`. Only this crate writes into the repository.
//!
//! It links neither the runtime nor the generated sources, so it works while those do not build.
#![forbid(unsafe_code)]

mod files;
mod generate;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of FLCC")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Renders the CUDA sources and their registry into generated/
    Gen {
        /// Writes nothing; lists the files that are missing, extra or changed, and fails if there are any
        #[arg(long)]
        check: bool,
    },
    /// Checks the rules of ARCHITECTURE.md that the compiler cannot: crate edges, unsafe code, names, what may not be committed
    Tidy,
}

fn main() -> ExitCode {
    let root = files::root();
    let outcome = match Arguments::parse().command {
        Command::Gen { check: false } => generate::write(&root),
        Command::Gen { check: true } => generate::check(&root),
        Command::Tidy => tidy::run(&root),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
