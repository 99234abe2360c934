//! `install-c`: the C library under a prefix, with what finds it there: pkg-config and CMake.
//!
//! All files name each other by where they lie themselves, so a prefix can be packed and moved.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::dist;

/// The version of every crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What cargo calls them.
const LIBRARIES: [&str; 2] = ["libflcc.so", "libflcc.a"];

/// What a static library of Rust's asks of the system.
const SYSTEM: [&str; 5] = ["gcc_s", "util", "pthread", "m", "dl"];

/// Makes the header anew. What makes it is a test's dependency, so a test does.
pub fn header(root: &Path) -> Result<String, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--package", "xtask", "--test", "header"]).current_dir(root);
    let output = command.env("FLCC_HEADER", "write").output().map_err(|error| format!("cargo: {error}"))?;
    match output.status.success() {
        true => Ok("flcc-capi/include/flcc.h: that of the sources".into()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// What of a version has to be the same for a program to run with the library: up to the first number that is not 0.
fn abi(version: &str) -> String {
    let mut numbers = version.split('.');
    let major = numbers.next().unwrap_or("0");
    match (major, numbers.next()) {
        ("0", Some(minor)) => format!("0.{minor}"),
        _ => major.to_string(),
    }
}

/// Builds the library and lays it out; `libraries`, if given, is a folder where it is built already.
pub fn lay_out(root: &Path, prefix: &Path, libraries: Option<&Path>) -> Result<String, String> {
    if !cfg!(target_os = "linux") {
        return Err("install-c: expected Linux, whose names of libraries it knows".into());
    }
    let abi = abi(VERSION);
    let built = match libraries {
        Some(folder) => LIBRARIES.map(|name| folder.join(name)),
        None => build(root, &abi)?,
    };
    let [include, lib, terms] = ["include", "lib", "share/licenses/flcc"].map(|folder| prefix.join(folder));
    let [pkgconfig, cmake] = ["pkgconfig", "cmake/flcc"].map(|folder| lib.join(folder));
    for folder in [&include, &pkgconfig, &cmake, &terms] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    dist::copy(&root.join("flcc-capi/include/flcc.h"), &include.join("flcc.h"))?;
    let whole = format!("libflcc.so.{VERSION}");
    replace(&built[0], &lib.join(&whole))?;
    replace(&built[1], &lib.join("libflcc.a"))?;
    link(&whole, &lib.join(format!("libflcc.so.{abi}")))?;
    link(&format!("libflcc.so.{abi}"), &lib.join("libflcc.so"))?;
    for text in ["LICENSE-MIT", "LICENSE-APACHE"] {
        dist::copy(&root.join(text), &terms.join(text))?;
    }
    for (path, text) in [
        (pkgconfig.join("flcc.pc"), PKG_CONFIG),
        (cmake.join("flccConfig.cmake"), CMAKE),
        (cmake.join("flccConfigVersion.cmake"), CMAKE_VERSION),
    ] {
        fs::write(&path, filled(text)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(format!("{}: flcc.h, libflcc {VERSION} shared and static, flcc.pc, flccConfig.cmake", prefix.display()))
}

/// Builds both libraries; where they are.
fn build(root: &Path, abi: &str) -> Result<[PathBuf; 2], String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--package", "flcc-capi"]);
    command.args(["--message-format", "json-render-diagnostics"]).current_dir(root);
    // Only what is installed has the name that programs ask for when they start: without the links beside it they would
    // not find it.
    command.env("FLCC_SONAME", format!("libflcc.so.{abi}"));
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let messages = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files: Vec<PathBuf> = messages
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .collect();
    let [shared, fixed] = LIBRARIES.map(|name| files.iter().find(|file| file.ends_with(name)).cloned());
    shared.zip(fixed).map(<[PathBuf; 2]>::from).ok_or_else(|| "cargo names no libflcc".into())
}

/// Copies a file in the place of another, which programs that run keep.
fn replace(from: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_file(to);
    dist::copy(from, to)
}

#[cfg(unix)]
fn link(to: &str, at: &Path) -> Result<(), String> {
    let _ = fs::remove_file(at);
    std::os::unix::fs::symlink(to, at).map_err(|error| format!("{}: {error}", at.display()))
}

#[cfg(not(unix))]
fn link(to: &str, at: &Path) -> Result<(), String> {
    Err(format!("{}: expected a system with links, for one to {to}", at.display()))
}

fn filled(text: &str) -> String {
    let flags = SYSTEM.map(|library| format!("-l{library}")).join(" ");
    let text = text.replace("@VERSION@", VERSION).replace("@ABI@", &abi(VERSION));
    text.replace("@FLAGS@", &flags).replace("@LIBRARIES@", &SYSTEM.join(";"))
}

const PKG_CONFIG: &str = "\
prefix=${pcfiledir}/../..
includedir=${prefix}/include
libdir=${prefix}/lib

Name: flcc
Description: Convolution, cross-correlation and local correlation coefficients of images
Version: @VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -lflcc
Libs.private: @FLAGS@
";

const CMAKE: &str = "\
# find_package(flcc) gives flcc::flcc, the shared library, and flcc::flcc_static.
get_filename_component(_flcc_prefix \"${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)
if(NOT TARGET flcc::flcc)
    add_library(flcc::flcc SHARED IMPORTED)
    set_target_properties(flcc::flcc PROPERTIES
        IMPORTED_LOCATION \"${_flcc_prefix}/lib/libflcc.so.@VERSION@\"
        IMPORTED_SONAME \"libflcc.so.@ABI@\"
        INTERFACE_INCLUDE_DIRECTORIES \"${_flcc_prefix}/include\")
    add_library(flcc::flcc_static STATIC IMPORTED)
    set_target_properties(flcc::flcc_static PROPERTIES
        IMPORTED_LOCATION \"${_flcc_prefix}/lib/libflcc.a\"
        IMPORTED_LINK_INTERFACE_LANGUAGES \"C\"
        INTERFACE_INCLUDE_DIRECTORIES \"${_flcc_prefix}/include\"
        INTERFACE_LINK_LIBRARIES \"@LIBRARIES@\")
endif()
unset(_flcc_prefix)
";

const CMAKE_VERSION: &str = "\
set(PACKAGE_VERSION \"@VERSION@\")
# A program that was written for a version runs with later ones that share the numbers up to the first that is not 0.
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION AND \"${PACKAGE_FIND_VERSION}.\" MATCHES \"^@ABI@[.]\")
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(NOT PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
else()
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_ask_for_what_may_not_change() {
        assert_eq!(["0.1.0", "0.12.3", "1.4.2", "10.0.0"].map(abi), ["0.1", "0.12", "1", "10"]);
    }

    #[test]
    fn every_mark_is_filled_in() {
        for text in [PKG_CONFIG, CMAKE, CMAKE_VERSION] {
            let filled = filled(text);
            assert!(!filled.contains('@') && filled.contains(&abi(VERSION)), "{filled}");
        }
    }
}
