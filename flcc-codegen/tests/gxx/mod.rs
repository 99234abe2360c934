//! Programs of rendered kernels and shim.h, by the system's C++ compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use flcc_codegen::{File, Matrix, render};

/// Whether there is a compiler. Absence is printed; FLCC_REQUIRE=cxx makes it a failure.
pub fn compiler_present() -> bool {
    let present = cfg!(target_os = "linux")
        && Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    let required = std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == "cxx"));
    assert!(present || !required, "FLCC_REQUIRE names cxx, and g++ on Linux is absent");
    if !present {
        println!("absent: g++ on Linux, so no kernel ran");
    }
    present
}

/// The text of a rendered file, whose name is that below `cuda/`.
pub fn text_of(name: &str) -> &'static str {
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    let files = FILES.get_or_init(|| render(&Matrix::committed()).expect("the matrix renders"));
    let file = files.iter().find(|file| file.path.strip_prefix("cuda/") == Some(name));
    &file.unwrap_or_else(|| panic!("no file {name}")).text
}

/// A source that is changed in one place, whose program ends with the first failure.
pub fn broken(source: &str, from: &str, to: &str) -> String {
    assert!(source.contains(from), "the source does not hold {from}");
    format!("#define MOST_WRONG 1\n{}", source.replacen(from, to, 1))
}

/// Where the headers of the checks lie.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// The compiler with what all programs have in common. Nothing is contracted, so fma is an instruction where the
/// processor has it, and elsewhere a call that rounds the same.
fn compiler() -> Command {
    let mut command = Command::new("g++");
    command.args([
        "-std=c++17",
        "-O1", // most programs take longer to compile than to run
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        "-Wall",
        "-Wno-unknown-pragmas",
        "-Wno-unused-function",
    ]);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("fma") {
        command.arg("-mfma");
    }
    command
}

fn compile(mut command: Command, from: &Path, to: &Path) {
    let compiled = command.arg("-o").arg(to).arg(from).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// The folder of shim.h compiled once for all programs, which takes longer than most of them do.
fn precompiled() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("header-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut command = compiler();
        command.args(["-x", "c++-header"]);
        compile(command, &Path::new(TESTS).join("shim.h"), &folder.join("shim.h.gch"));
        folder
    })
}

/// Compiles a program whose first line includes shim.h, in a folder of its own for `case`, and runs it.
pub fn compile_and_run(case: &str, program: &str) -> Output {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(case);
    fs::create_dir_all(&folder).unwrap();
    let (text, binary) = (folder.join("run.cpp"), folder.join("run"));
    fs::write(&text, program).unwrap();
    let mut command = compiler();
    command.arg("-Winvalid-pch").arg("-I").arg(precompiled()).args(["-I", TESTS]);
    compile(command, &text, &binary);
    Command::new(&binary).output().unwrap()
}
