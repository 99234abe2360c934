//! What `cargo xtask install-c` lays out: programs of C and C++ are built against it by pkg-config and CMake, and run.
//!
//! FLCC_PREFIX names a prefix that is there already; otherwise one is laid out of the libraries that cargo built beside
//! this program. Where there are none, as after `cargo test --package xtask`, or where a tool is absent, the tests say
//! so and pass, unless FLCC_REQUIRE names `cxx`, `pkgconfig` or `cmake`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn required(name: &str) -> bool {
    std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == name))
}

/// Whether a program is here. Absence is printed; FLCC_REQUIRE makes it a failure.
fn present(program: &str, name: &str) -> bool {
    let present = cfg!(target_os = "linux") && Command::new(program).arg("--version").output().is_ok();
    assert!(present || !required(name), "FLCC_REQUIRE names {name}, and {program} on Linux is absent");
    if !present {
        println!("not run: there is no {program} here");
    }
    present
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flcc-capi/examples")
}

/// Runs a command that has to end well, and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.trim().to_string()
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("flcc-install-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A prefix: the one that FLCC_PREFIX names, or one laid out here and moved, which it has to bear.
    fn prefix(&self) -> Option<PathBuf> {
        if let Some(prefix) = std::env::var_os("FLCC_PREFIX") {
            return Some(prefix.into());
        }
        let libraries = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        if !["libflcc.so", "libflcc.a"].iter().all(|name| libraries.join(name).exists()) {
            println!("not run: {} has no libflcc; cargo test builds it", libraries.display());
            return None;
        }
        let (first, moved) = (self.0.join("first"), self.0.join("moved"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        run(command.arg("install-c").arg(&first).arg("--lib-dir").arg(libraries));
        fs::rename(first, &moved).unwrap();
        Some(moved)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pkg_config_finds_the_library() {
    if !present("c++", "cxx") || !present("pkg-config", "pkgconfig") {
        return;
    }
    let folder = Folder::new("pkg-config");
    let Some(prefix) = folder.prefix() else { return };
    let ask = |arguments: &[&str]| -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments).arg("flcc");
        run(&mut command).split_whitespace().map(String::from).collect()
    };
    assert_eq!(ask(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    for (source, compiler, standard) in
        [("find.c", "cc", "-std=c99"), ("flcc13.c", "cc", "-std=c99"), ("threads.cpp", "c++", "-std=c++17")]
    {
        let program = folder.0.join("shared");
        let mut command = Command::new(compiler);
        command.arg(standard).arg(examples().join(source)).args(ask(&["--cflags", "--libs"]));
        run(command.args(["-lm", "-pthread", "-o"]).arg(&program));
        run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));

        let program = folder.0.join("static");
        let mut command = Command::new(compiler);
        command.arg(standard).arg(examples().join(source)).args(ask(&["--cflags"]));
        // The archive by its name: beside a shared library, `-lflcc` is that.
        let flags = ask(&["--static", "--libs"]).into_iter();
        command.args(flags.map(|flag| if flag == "-lflcc" { "-l:libflcc.a".into() } else { flag }));
        run(command.arg("-o").arg(&program));
        run(&mut Command::new(&program));
    }
}

#[test]
fn programs_ask_for_the_library_by_its_number() {
    // Only what was built to be installed has it.
    let Some(prefix) = std::env::var_os("FLCC_PREFIX").map(PathBuf::from) else {
        println!("not run: FLCC_PREFIX names no prefix");
        return;
    };
    if !present("readelf", "cxx") {
        return;
    }
    let told = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libflcc.so")));
    let name = told.lines().find_map(|line| line.split_once("soname: [")?.1.strip_suffix(']'));
    let name = name.expect("a soname");
    assert!(name.starts_with("libflcc.so.") && prefix.join("lib").join(name).exists(), "{name}");
}

#[test]
fn cmake_finds_the_library() {
    if !present("c++", "cxx") || !present("cmake", "cmake") {
        return;
    }
    let folder = Folder::new("cmake");
    let Some(prefix) = folder.prefix() else { return };
    let examples = examples();
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(search C CXX)\nset(CMAKE_CXX_STANDARD 17)\n\
         find_package(flcc {version} REQUIRED)\nfind_package(Threads REQUIRED)\n\
         add_executable(find {examples}/find.c)\ntarget_link_libraries(find flcc::flcc)\n\
         add_executable(flcc13 {examples}/flcc13.c)\ntarget_link_libraries(flcc13 flcc::flcc_static m)\n\
         add_executable(threads {examples}/threads.cpp)\ntarget_link_libraries(threads flcc::flcc Threads::Threads)\n",
        version = env!("CARGO_PKG_VERSION"),
        examples = examples.canonicalize().unwrap().display(),
    );
    fs::write(folder.0.join("CMakeLists.txt"), &text).unwrap();
    let build = folder.0.join("build");
    let configure = |source: &Path, build: &Path| {
        let mut command = Command::new("cmake");
        command.arg("-S").arg(source).arg("-B").arg(build);
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        command
    };
    run(&mut configure(&folder.0, &build));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["find", "flcc13", "threads"] {
        run(&mut Command::new(build.join(program)));
    }
    // Another version is not taken for this one.
    let other = folder.0.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("CMakeLists.txt"), text.replace(&format!("flcc {}", env!("CARGO_PKG_VERSION")), "flcc 7.0"))
        .unwrap();
    assert!(!configure(&other, &other.join("build")).output().unwrap().status.success());
}
