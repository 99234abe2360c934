//! `emulated`: CUDA's libraries with a device that g++ and the host's processor make up, for the host's side of
//! platform cuda where there is no GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::dist;

/// How CUDA sources are compiled for the host, and the headers in front of them once ahead of them.
const SOURCES: &str = "-std=c++17 -O1 -fPIC -fvisibility=hidden -fno-gnu-unique -fno-strict-aliasing \
                       -ffp-contract=off -U_FORTIFY_SOURCE -w";

/// How the libraries are compiled.
const LIBRARIES: &str = "-std=c++17 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -s";

/// What every source is compiled behind.
const HEADERS: [&str; 3] = ["xtask/emulated/entry.h", "xtask/emulated/module.h", "flcc-codegen/tests/shim.h"];

/// Builds the libraries into a folder; the line that uses them.
pub fn build(root: &Path, to: &Path) -> Result<String, String> {
    if !cfg!(target_os = "linux") {
        return Err("emulated: expected Linux, whose shared objects stand for machine code".into());
    }
    let wrong = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(wrong)?;
    let to = to.canonicalize().map_err(wrong)?;
    for path in HEADERS.map(Path::new) {
        dist::copy(&root.join(path), &to.join(path.file_name().unwrap_or_default()))?;
    }
    let source = |name: &str| root.join("xtask/emulated").join(name);
    let mut ahead = compiler(SOURCES);
    ahead.args(["-x", "c++-header", "entry.h", "-o", "entry.h.gch"]).current_dir(&to);
    let mut driver = library(&source("cuda.cpp"), &to.join("libcuda.so"));
    driver.arg("-ldl");
    let mut nvrtc = library(&source("nvrtc.cpp"), &to.join("libnvrtc.so"));
    nvrtc.arg(format!("-DFLCC_FLAGS=\"{SOURCES}\"")).arg("-ldl");
    let started = [start(ahead)?, start(driver)?, start(nvrtc)?];
    started.into_iter().map(finish).collect::<Result<Vec<()>, String>>()?;
    // It puts its work into streams of the driver beside it.
    let mut transforms = library(&source("cufft.cpp"), &to.join("libcufft.so"));
    transforms.arg("-L").arg(&to).args(["-lcuda", "-Wl,-rpath,$ORIGIN"]);
    finish(start(transforms)?)?;
    let folder = to.display();
    let test = "cargo test --test gpu";
    Ok(format!("LD_LIBRARY_PATH={folder} FLCC_CACHE={folder}/cache FLCC_REQUIRE=cuda {test}"))
}

fn compiler(flags: &str) -> Command {
    let mut command = Command::new("g++");
    command.args(flags.split(' '));
    command
}

fn library(source: &Path, to: &PathBuf) -> Command {
    let mut command = compiler(LIBRARIES);
    command.arg(source).arg("-o").arg(to);
    command
}

fn start(mut command: Command) -> Result<(String, Child), String> {
    let line = format!("{command:?}");
    let child = command.spawn().map_err(|error| format!("{line}: {error}"))?;
    Ok((line, child))
}

fn finish((line, mut child): (String, Child)) -> Result<(), String> {
    let status = child.wait().map_err(|error| format!("{line}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}
