//! The header and the examples, compiled as C99 and C++17 and linked with the library that cargo has just built, shared
//! and static; run, and run under valgrind. Without a compiler or without valgrind the tests say so and pass, unless
//! FLCC_REQUIRE names `cxx` or `valgrind`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What every warning is for: that the header gives none, in either language.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// What a static library of Rust's asks of the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lutil", "-lpthread", "-lm", "-ldl"];

/// The examples with the compiler of their language, and what it is told.
const EXAMPLES: [(&str, &str, &str); 3] =
    [("find.c", "cc", "-std=c99"), ("flcc13.c", "cc", "-std=c99"), ("threads.cpp", "c++", "-std=c++17")];

/// Whether a program is here. Absence is printed; FLCC_REQUIRE makes it a failure.
fn present(program: &str, name: &str) -> bool {
    let present = cfg!(target_os = "linux") && Command::new(program).arg("--version").output().is_ok();
    let required = std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == name));
    assert!(present || !required, "FLCC_REQUIRE names {name}, and {program} on Linux is absent");
    if !present {
        println!("not run: there is no {program} here");
    }
    present
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo leaves libflcc.so and libflcc.a: beside the program of the tests.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// Runs a command that has to end well, and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("flcc-capi-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Folder, (source, compiler, standard): (&str, &str, &str), shared: bool) -> PathBuf {
    let program = folder.0.join(format!("{source}-{shared}"));
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg("-I").arg(home().join("include"));
    command.arg(home().join("examples").join(source)).arg("-o").arg(&program);
    match shared {
        true => command.arg("-L").arg(libraries()).args(["-lflcc", "-lm", "-pthread"]),
        false => command.arg(libraries().join("libflcc.a")).args(SYSTEM),
    };
    run(&mut command);
    program
}

#[test]
fn the_header_is_c99_and_cpp17() {
    if !present("c++", "cxx") {
        return;
    }
    let folder = Folder::new("header");
    for (compiler, standard, name) in [
        ("cc", "-std=c99", "x.c"),
        ("cc", "-std=c11", "y.c"),
        ("c++", "-std=c++17", "x.cpp"),
        ("c++", "-std=c++20", "y.cpp"),
    ] {
        let source = folder.0.join(name);
        std::fs::write(&source, "#include <flcc.h>\n#include <flcc.h>\nint main(void) { return FLCC_SUCCESS; }\n")
            .unwrap();
        let mut command = Command::new(compiler);
        command.arg(standard).args(STRICT).args(["-Wconversion", "-Wshadow", "-fsyntax-only", "-I"]);
        run(command.arg(home().join("include")).arg(source));
    }
}

#[test]
fn examples_run_with_the_shared_and_the_static_library() {
    if !present("c++", "cxx") {
        return;
    }
    let folder = Folder::new("examples");
    for example in EXAMPLES {
        for shared in [true, false] {
            let program = compile(&folder, example, shared);
            run(Command::new(program).env("LD_LIBRARY_PATH", libraries()));
        }
    }
}

/// The commands of valgrind, with an instruction set that it knows.
fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite,indirect"]);
    // Threads take turns: else two that compute without end keep the one that ends them from running.
    command.arg("--fair-sched=try");
    command.arg("--errors-for-leak-kinds=definite,indirect").env("FLCC_ISA", "avx2");
    command.env("LD_LIBRARY_PATH", libraries());
    command
}

#[test]
fn examples_are_clean_under_valgrind() {
    if !present("c++", "cxx") || !present("valgrind", "valgrind") {
        return;
    }
    let folder = Folder::new("valgrind");
    for example in EXAMPLES {
        run(valgrind().arg(compile(&folder, example, true)));
    }
}

#[test]
fn wrong_calls_are_clean_under_valgrind() {
    if !present("valgrind", "valgrind") {
        return;
    }
    // The other tests of this program, with few cases. What they make to be destroyed by nobody, the library still
    // knows, so it is not lost.
    let mut command = valgrind();
    command.arg(std::env::current_exe().unwrap()).args(["--test-threads=1", "--skip", "programs::"]);
    run(command.env("PROPTEST_CASES", "8"));
}

#[test]
fn the_shared_library_exports_what_the_header_declares() {
    if !present("nm", "cxx") {
        return;
    }
    let header = std::fs::read_to_string(home().join("include/flcc.h")).unwrap();
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libflcc.so")));
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/', '}']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .collect();
    assert!(declared.len() > 20);
    for name in &declared {
        assert!(exported.contains(name), "{name} is declared and not exported");
    }
    for name in &exported {
        assert!(declared.contains(name), "{name} is exported and not declared");
    }
}

/// The blocks of C of a page, as they stand there.
fn blocks(page: &str) -> Vec<String> {
    page.split("```c\n").skip(1).filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block.into()).collect()
}

#[test]
fn the_programs_of_the_page_run() {
    if !present("cc", "cxx") {
        return;
    }
    let folder = Folder::new("page");
    let page = std::fs::read_to_string(home().join("../docs/c.md")).unwrap();
    let programs = blocks(&page);
    assert_eq!(programs.len(), 2);
    for text in programs {
        let (source, program) = (folder.0.join("page.c"), folder.0.join("page"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("cc");
        command.arg("-std=c99").args(STRICT).arg("-I").arg(home().join("include")).arg(source);
        run(command.arg("-L").arg(libraries()).args(["-lflcc", "-o"]).arg(&program));
        run(Command::new(program).env("LD_LIBRARY_PATH", libraries()));
    }
}
