//! FLCC's developer commands, run as `cargo xtask COMMAND`. Only this crate writes into the repository.
//!
//! It links neither the runtime nor the generated sources, so it works while those do not build.
#![forbid(unsafe_code)]

mod dist;
mod files;
mod generate;
mod gpu;
mod proof;
mod tidy;

use std::path::PathBuf;
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
        #[arg(long, conflicts_with = "prove")]
        check: bool,
        /// Compiles every source for every architecture too, and writes generated/PROVEN
        #[arg(long)]
        prove: bool,
    },
    /// Gathers programs and data in a folder, for gpu-check on a machine without cargo
    Dist {
        /// The folder
        folder: PathBuf,
    },
    /// Checks this machine's GPU: conformance, tests, sanitizers; prints a line for each and one for all
    GpuCheck {
        /// A folder that dist made; without it the programs are built
        #[arg(long, value_name = "DIR")]
        bin_dir: Option<PathBuf>,
    },
    /// Checks the rules of ARCHITECTURE.md that the compiler cannot: crate edges, unsafe code, names, what may not be committed
    Tidy,
}

fn main() -> ExitCode {
    let root = files::root();
    let outcome = match Arguments::parse().command {
        Command::Gen { check: true, .. } => generate::check(&root),
        Command::Gen { prove: true, .. } => generate::prove(&root),
        Command::Gen { .. } => generate::write(&root),
        Command::Dist { folder } => dist::gather(&root, &folder),
        Command::GpuCheck { bin_dir } => gpu::check(&root, bin_dir),
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
