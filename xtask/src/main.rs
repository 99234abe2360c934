//! FLCC's developer commands, run as `cargo xtask COMMAND`. Only this crate writes into the repository.
//!
//! It links neither the runtime nor the generated sources, so it works while those do not build.
#![forbid(unsafe_code)]

mod dist;
mod emulated;
mod figures;
mod files;
mod generate;
mod gpu;
mod gpu_bench;
mod install;
mod profile;
mod proof;
mod record;
mod release;
mod tidy;
mod tune;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
Developer commands of FLCC: cargo xtask COMMAND

gen                  renders the CUDA sources and their registry into generated/
gen --profile NAME   takes the template sizes of profiles/NAME.toml, then the same
gen --check          writes nothing; lists the files that are missing, extra or changed, and fails if there are any
gen --prove [--bin-dir DIR | --only NAME]
                     compiles every source for every architecture too, and writes generated/PROVEN; \
with the programs of a
                     folder that dist made, or else building them; with --only the sources whose names begin so,
                     and the lines of the others stay
dist DIR             gathers programs and data in a folder, for gpu-check and gpu-bench on a machine without cargo
gpu-check [--bin-dir DIR]
                     checks this machine's GPU: conformance, tests, plans, sanitizers; \
prints a line for each and one for all;
                     DIR is a folder that dist made, without it the programs are built
gpu-bench [--bin-dir DIR] [--only TEXT ...] [--record]
                     times FLCC on this machine's GPU beside torch, CuPy and cuFFT, as far as python3 has them, for
                     the problems that speed is judged by, or those whose spec has TEXT in it; prints tables with what
                     must be, what is aimed at, errors and floors; with --record writes benches/record/CARD.json, which
                     keeps what it had of other problems; DIR is a folder with the program flcc (the one that dist
                     made, or any, in the repository's folder), without it that is built
emulated DIR         builds CUDA's libraries with a device that is emulated on the host into a folder, and prints the
                     line that runs the tests of GPUs on it
header               makes flcc-capi/include/flcc.h of that crate's sources anew
install-c PREFIX [--lib-dir DIR]
                     builds the C library and lays it out: header, shared and static library, for pkg-config and CMake;
                     DIR is a folder where libflcc.so and libflcc.a are built already
release DIR          builds the program for this machine's target and packs it in a folder: manual pages, completions,
                     licences of what it is made of, and a checksum; fails above 15 MB
figures [--quick | --estimate] [--minutes N] [--seconds S] [--bin-dir DIR] [--out DIR] [--cpu | --cuda]
                     times the experiments of the dissertation on this machine (CPU, and GPU if there is one) and draws
                     them, with data and tables beside the pictures (docs/experiments.md); goes on from what the folder
                     has of this machine; with --estimate asks for the planner's estimated choices alone; the programs
                     are those of a folder that dist made, or else built
figures --from DIR [--out DIR] [--cpu | --cuda]
                     draws them from the data of a folder
record               renders the tables of README.md and docs, and the pictures of a GPU's record, anew from what was
                     measured (benches/record)
tune NAME [--quick] [--cuda] [--from DIR]
                     measures this machine, CPU or GPU: costs of work, and which template sizes are worth kernels of
                     their own; writes profiles/NAME.toml, renders it, builds, holds results against the conformance
                     vectors, and tells what changed; --quick measures less and tries no sizes that are not listed;
                     with --from it measures nothing and makes the profile of a machine without a checkout, of what
                     `flcc tune --json` and `flcc tune --unroll --json` printed there (DIR/costs.json, DIR/sizes.jsonl)
tidy                 checks the rules of ARCHITECTURE.md that the compiler cannot: crate edges, circles of imports,
                     rooms, unsafe code, names, how long lines are, what may not be committed; and that tables and
                     pictures are those of their records";

/// Does what the arguments ask for; what there is to say about it.
fn run(arguments: &[&str]) -> Result<String, String> {
    let root = files::root();
    match arguments {
        ["gen"] => generate::write(&root),
        ["gen", "--profile", name] if !name.starts_with('-') => generate::write_profile(&root, name),
        ["gen", "--check"] => generate::check(&root),
        ["gen", "--prove"] => generate::prove(&root, None, None),
        ["gen", "--prove", "--only", name] if !name.is_empty() => generate::prove(&root, None, Some(name)),
        ["gen", "--prove", "--bin-dir", folder] => generate::prove(&root, Some(&PathBuf::from(folder)), None),
        ["dist", folder] if !folder.starts_with('-') => dist::gather(&root, &PathBuf::from(folder)),
        ["emulated", folder] if !folder.starts_with('-') => emulated::build(&root, &PathBuf::from(folder)),
        ["gpu-check"] => gpu::check(&root, None),
        ["gpu-check", "--bin-dir", folder] => gpu::check(&root, Some(PathBuf::from(folder))),
        ["gpu-bench", options @ ..] => gpu_bench::run(&root, &gpu_bench::Options::read(options)?),
        ["header"] => install::header(&root),
        ["install-c", prefix] if !prefix.starts_with('-') => install::lay_out(&root, &PathBuf::from(prefix), None),
        ["install-c", prefix, "--lib-dir", libraries] if !prefix.starts_with('-') => {
            install::lay_out(&root, &PathBuf::from(prefix), Some(&PathBuf::from(libraries)))
        }
        ["release", folder] if !folder.starts_with('-') => release::pack(&root, &PathBuf::from(folder)),
        ["figures", options @ ..] => figures::run(&root, options),
        ["record"] => record::write(&root),
        ["tune", name, options @ ..] if !name.starts_with('-') => {
            tune::run(&root, name, &tune::Options::read(options)?)
        }
        ["tidy"] => tidy::run(&root),
        ["help" | "--help" | "-h"] => Ok(USAGE.into()),
        other => Err(format!("expected a command, got {:?}\n\n{USAGE}", other.join(" "))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_call_tells_the_right_ones() {
        for wrong in [
            &[][..],
            &["gen", "--chekc"],
            &["gen", "--profile"],
            &["gen", "--check", "--prove"],
            &["dist"],
            &["dist", "--help"],
            &["emulated"],
            &["release"],
            &["install-c"],
            &["install-c", "--lib-dir", "x"],
            &["tidy", "x"],
            &["tune"],
            &["tune", "--quick"],
        ] {
            let reason = run(wrong).unwrap_err();
            assert!(reason.starts_with("expected a command, got ") && reason.ends_with(USAGE), "{reason}");
        }
        assert_eq!(run(&["--help"]), Ok(USAGE.to_string()));
    }
}
