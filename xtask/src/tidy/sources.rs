//! The rules of single files: unsafe code, who may name what, how a file opens, what may not be committed.

use std::collections::BTreeMap;

use super::scrub::{code, has_word};
use super::violation::{Source, Violation};

/// The files that may hold unsafe code.
const UNSAFE: &[&str] = &[
    "flcc-runtime/src/isa.rs",
    "flcc-runtime/src/isa/emit.rs",
    "flcc-runtime/src/isa/neon.rs",
    "flcc-runtime/src/isa/prefetch.rs",
    "flcc-runtime/src/isa/tiles.rs",
    "flcc-runtime/src/isa/x86_avx2.rs",
    "flcc-runtime/src/isa/x86_avx512.rs",
    "flcc-runtime/src/cpu/kernels/kernel.rs",
    "flcc-runtime/src/cpu/kernels/amx.rs",
    "flcc-runtime/src/cpu/execute.rs",
    "flcc-runtime/src/run/device_image.rs",
    "flcc-runtime/src/run/results.rs",
    "flcc-runtime/src/cuda/driver/launch.rs",
    "flcc-runtime/src/cuda/driver/libraries.rs",
    "flcc-runtime/src/cuda/driver/buffer.rs",
    "flcc-runtime/src/cuda/driver/compile.rs",
    "flcc-runtime/src/cuda/driver/transforms.rs",
    "flcc-capi/src/pointers.rs",
    "flcc-capi/src/plans.rs",   // functions that C calls, by its word on what it passes
    "flcc-capi/src/queues.rs",  // as above
    "flcc-capi/src/classic.rs", // as above
    "flcc-capi/src/memory.rs",
    "flcc-capi/tests/calls/c.rs", // C's side of a call
    "flcc-py/src/arrays.rs",
    "flcc-py/src/resident.rs",
    "flcc-runtime/tests/alloc.rs",        // an allocator that counts
    "flcc-runtime/tests/gpu/launches.rs", // the work of a graph
    "flcc-runtime/tests/gpu/memory.rs",   // an image at an address of a device
    "flcc-runtime/tests/gpu/queued.rs",   // images, results and a stream by their addresses
];

/// Crates whose roots forbid unsafe code.
const SAFE_CRATES: &[&str] = &["flcc-core", "flcc-codegen", "generated", "xtask", "flcc-cli"];

/// The one file that names the thread pool.
const THREADS: &str = "flcc-runtime/src/run/workers.rs";

/// Where the architecture that is compiled for may be named: the room of instruction sets, a kernel's own unit, the
/// table's row of it, the macros that emit what is compiled for some, and options of g++ in tests.
const ARCHITECTURES: &[&str] = &[
    "flcc-runtime/src/isa.rs",
    "flcc-runtime/src/isa/",
    "flcc-runtime/src/cpu/kernels/amx.rs",
    "flcc-runtime/src/cpu/kernels/table.rs",
    "flcc-macros/src/detect.rs",
    "flcc-macros/src/table.rs",
    "flcc-codegen/tests/gxx/mod.rs",
];

/// What flcc-codegen's sources must not name: it is pure.
const IMPURE: &[&str] = &["std::fs", "std::process", "std::env", "std::net", "std::thread", "cudarc", "flcc_runtime"];

/// Code that says that something is not done or not run.
const UNFINISHED: &[&str] = &["#[ignore", "todo!", "unimplemented!"];

/// The same, in any text. Written in two halves, so that this file keeps its own rule.
const MARKER: &str = concat!("FIX", "ME");

/// How an absolute path of somebody's machine begins.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Checks all rules of this page.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        text_rules(source, &mut violations);
        if source.path.ends_with(".rs") {
            rust_rules(source, &mut violations);
        }
    }
    if let Some(registry) = sources.iter().find(|source| source.path == "generated/src/registry.rs") {
        unique_names(registry, &mut violations);
    }
    violations
}

/// Rules of every text file.
fn text_rules(source: &Source, violations: &mut Vec<Violation>) {
    for (line, text) in numbered(&source.text) {
        if text.contains(MARKER) {
            violations.push(Violation::new(source, line, format!("{MARKER} is not committed")));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_machine_path(text, path)) {
            violations.push(Violation::new(source, line, format!("names a path of one machine: {path}")));
        }
    }
}

/// A path counts where it begins: not inside a URL or behind another folder.
fn names_machine_path(line: &str, path: &str) -> bool {
    let begins = |before: Option<char>| {
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '}' | '~'))
    };
    line.match_indices(path).any(|(at, _)| begins(line[..at].chars().next_back()))
}

fn rust_rules(source: &Source, violations: &mut Vec<Violation>) {
    let scrubbed = code(&source.text);
    if !source.text.starts_with("//! ") {
        violations.push(Violation::new(source, 1, "a file opens with `//! ` and what it does"));
    }
    let is_root = |package: &str| {
        source.path.strip_prefix(package).is_some_and(|below| matches!(below, "/src/lib.rs" | "/src/main.rs"))
    };
    if SAFE_CRATES.iter().any(|package| is_root(package)) && !scrubbed.contains("#![forbid(unsafe_code)]") {
        violations.push(Violation::new(source, 1, "its root says #![forbid(unsafe_code)]"));
    }

    let pure = source.path.starts_with("flcc-codegen/src/");
    let (raw_lines, lines): (Vec<&str>, Vec<&str>) = (source.text.lines().collect(), scrubbed.lines().collect());
    for (line, text) in numbered(&scrubbed) {
        for word in UNFINISHED.iter().filter(|word| text.contains(**word)) {
            violations.push(Violation::new(source, line, format!("{word} is not committed")));
        }
        if source.path != THREADS && has_word(text, "rayon") {
            violations.push(Violation::new(source, line, format!("only {THREADS} names rayon")));
        }
        if has_word(text, "target_arch") && !ARCHITECTURES.iter().any(|place| source.path.starts_with(place)) {
            violations.push(Violation::new(source, line, "only instruction sets name target_arch"));
        }
        if let Some(name) = IMPURE.iter().find(|name| pure && text.contains(**name)) {
            violations.push(Violation::new(source, line, format!("flcc-codegen is pure, it never uses {name}")));
        }
        if has_word(text, "unsafe") {
            if !UNSAFE.contains(&source.path.as_str()) {
                violations.push(Violation::new(source, line, "unsafe code is not allowed in this file"));
            } else if opens_unsafe(text) && !has_safety_comment(&raw_lines, &lines, line - 1) {
                violations.push(Violation::new(source, line, "no SAFETY comment before unsafe"));
            }
        }
    }
}

/// Whether the line begins an unsafe block or implementation; unsafe functions and traits say theirs in `# Safety`.
fn opens_unsafe(line: &str) -> bool {
    line.match_indices("unsafe").any(|(at, word)| {
        let rest = line[at + word.len()..].trim_start();
        rest.is_empty() || rest.starts_with('{') || rest.starts_with("impl")
    })
}

/// Whether a comment with `SAFETY:` stands on line `at`, or above it within the same statement or right before it.
fn has_safety_comment(raw: &[&str], code: &[&str], at: usize) -> bool {
    if raw[at].contains("SAFETY:") {
        return true;
    }
    for above in (0..at).rev() {
        let (text, code) = (raw[above].trim(), code[above].trim_end());
        if text.contains("SAFETY:") {
            return true;
        }
        if text.is_empty() || code.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

fn unique_names(registry: &Source, violations: &mut Vec<Violation>) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, text) in numbered(&registry.text) {
        let Some(name) = text.trim().strip_prefix("name: \"").and_then(|rest| rest.strip_suffix("\",")) else {
            continue;
        };
        if let Some(earlier) = first.insert(name, line) {
            violations.push(Violation::new(registry, line, format!("kernel {name} stands on line {earlier} too")));
        }
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of one file, without its path.
    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.into(), text: text.into() };
        check(&[source]).iter().map(|violation| violation.to_string()[path.len() + 1..].to_string()).collect()
    }

    #[test]
    fn unsafe_code_stands_in_its_files_only() {
        let text = "//! Text.\n// SAFETY: checked.\nfn f() { unsafe { g() } }\n";
        assert_eq!(found("flcc-runtime/src/plan/planned.rs", text), ["3: unsafe code is not allowed in this file"]);
        assert!(found("flcc-runtime/src/cpu/execute.rs", text).is_empty());
        assert!(found("flcc-runtime/src/plan/planned.rs", "//! unsafe.\n// unsafe\nlet x = \"unsafe\";\n").is_empty());
    }

    #[test]
    fn unsafe_blocks_say_why() {
        let path = "flcc-runtime/src/cpu/execute.rs";
        let missing = "no SAFETY comment before unsafe";
        assert_eq!(found(path, "//! T.\nlet a = b;\nlet x = unsafe { f() };\n"), [format!("3: {missing}")]);
        assert_eq!(
            found(path, "//! T.\n// SAFETY: old.\nlet a = b;\nunsafe impl Send for X {}\n"),
            [format!("4: {missing}")]
        );
        assert_eq!(found(path, "//! T.\n// SAFETY: far.\n\nunsafe { f() }\n"), [format!("4: {missing}")]);
        assert!(
            found(path, "//! T.\n// SAFETY: `n` was checked in\n// `new`.\nlet x =\n    unsafe { f() };\n").is_empty()
        );
        assert!(found(path, "//! T.\n/// # Safety\n/// Caller.\nunsafe fn f() {}\n").is_empty());
    }

    #[test]
    fn safe_crates_forbid_unsafe_code() {
        assert_eq!(found("flcc-core/src/lib.rs", "//! T.\n"), ["1: its root says #![forbid(unsafe_code)]"]);
        assert!(found("flcc-core/src/lib.rs", "//! T.\n#![forbid(unsafe_code)]\n").is_empty());
        assert!(found("flcc-core/src/view.rs", "//! T.\n").is_empty());
    }

    #[test]
    fn a_file_says_what_it_does() {
        assert_eq!(found("a/src/b.rs", "use x;\n"), ["1: a file opens with `//! ` and what it does"]);
    }

    #[test]
    fn one_file_names_the_thread_pool() {
        let text = "//! Not rayon.\nuse rayon::join;\n";
        assert_eq!(found("flcc-runtime/src/plan/planned.rs", text), [format!("2: only {THREADS} names rayon")]);
        assert!(found(THREADS, text).is_empty());
    }

    #[test]
    fn instruction_sets_name_the_architecture() {
        let text = "//! Not target_arch.\n#[cfg(target_arch = \"x86_64\")]\nuse x;\n";
        let path = "flcc-runtime/src/cpu/gather.rs";
        assert_eq!(found(path, text), ["2: only instruction sets name target_arch"]);
        assert!(found("flcc-runtime/src/isa/tiles.rs", text).is_empty());
    }

    #[test]
    fn codegen_is_pure() {
        let text = "//! T.\nuse std::fs;\n";
        assert_eq!(found("flcc-codegen/src/matrix.rs", text), ["2: flcc-codegen is pure, it never uses std::fs"]);
        assert!(found("flcc-codegen/tests/shim.rs", text).is_empty());
    }

    #[test]
    fn nothing_unfinished_is_committed() {
        let text = "//! T.\n#[ignore = \"slow\"]\nfn f() { todo!() }\nfn g() { unimplemented!() }\n";
        let expected =
            ["2: #[ignore is not committed", "3: todo! is not committed", "4: unimplemented! is not committed"];
        assert_eq!(found("a/src/b.rs", text), expected);
        assert_eq!(found("README.md", &format!("a\n{MARKER}: b\n")), [format!("2: {MARKER} is not committed")]);
    }

    #[test]
    fn no_path_of_one_machine() {
        for path in MACHINE_PATHS {
            assert_eq!(found("a.md", &format!("see `{path}x`\n")), [format!("1: names a path of one machine: {path}")]);
            assert!(found("a.md", &format!("https://example.org{path}x and ./a{path}\n")).is_empty());
        }
    }

    #[test]
    fn kernel_names_are_unique() {
        let text = "//! T.\nname: \"a\",\nname: \"b\",\n  name: \"a\",\n";
        assert_eq!(found("generated/src/registry.rs", text), ["4: kernel a stands on line 2 too"]);
    }
}
