//! The rule of lines: how many characters one may have.

use super::violation::{Source, Violation};

/// The files that the rule holds for, by how their paths end.
const KINDS: &[&str] = &[".rs", ".tera", ".h", ".py", ".toml", ".md", "CITATION.cff", ".ci/run"];

/// Files that the rule leaves alone, by how their paths begin and end.
const EXEMPT: &[(&str, &str)] = &[
    ("generated/", ""),                  // rendered: values make lines longer than their templates' are
    ("", ".snap"),                       // rendered: what macros expand to
    ("benches/record/", ".jsonl"),       // data: a row of a record is a line
    ("conformance/vectors/", ""),        // data: the cases and their arrays
    ("conformance/CONVENTIONS.md", ""),  // from outside
    ("conformance/real/SOURCES.md", ""), // from outside: what the sources say of themselves
];

/// The most characters of a line.
const WIDTH: usize = 120;

/// The same for one file, whose lines are narrower.
const NARROWER: (&str, usize) = ("README.md", 100);

/// Checks the lines of every file that the rule holds for.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    sources.iter().filter(|source| holds(&source.path)).flat_map(long_lines).collect()
}

fn holds(path: &str) -> bool {
    KINDS.iter().any(|kind| path.ends_with(kind))
        && !EXEMPT.iter().any(|(begin, end)| path.starts_with(begin) && path.ends_with(end))
}

fn long_lines(source: &Source) -> Vec<Violation> {
    let most = if source.path == NARROWER.0 { NARROWER.1 } else { WIDTH };
    let mut violations = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let length = line.chars().count();
        // A row of a table cannot go on in the next line.
        let row = source.path.ends_with(".md") && line.starts_with('|');
        if length > most && !row {
            let what = format!("a line of {length} characters, at most {most}");
            violations.push(Violation::new(source, at + 1, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations of one file, with its path.
    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[Source { path: path.into(), text: text.into() }]).iter().map(Violation::to_string).collect()
    }

    /// A short line, and one of so many characters, each of two bytes.
    fn line(length: usize) -> String {
        format!("short\n{}\n", "é".repeat(length))
    }

    #[test]
    fn a_line_has_an_end() {
        for path in
            ["a/src/b.rs", "a/b.tera", "a/b.h", "a/b.py", "a/Cargo.toml", "docs/a.md", "CITATION.cff", ".ci/run"]
        {
            assert_eq!(found(path, &line(121)), [format!("{path}:2: a line of 121 characters, at most 120")]);
            assert!(found(path, &line(120)).is_empty());
        }
        assert_eq!(found("README.md", &line(101)), ["README.md:2: a line of 101 characters, at most 100"]);
        assert!(found("README.md", &line(100)).is_empty() && found("a/README.md", &line(120)).is_empty());
    }

    #[test]
    fn what_nobody_wraps_is_exempt() {
        for path in [
            "generated/src/registry.rs",
            "flcc-macros/src/snapshots/a.snap",
            "benches/record/a.jsonl",
            "conformance/vectors/a.py",
            "conformance/CONVENTIONS.md",
            "conformance/real/SOURCES.md",
            "Cargo.lock",
        ] {
            assert!(found(path, &line(999)).is_empty(), "{path}");
        }
        let row = format!("| {} |\n", "a".repeat(200));
        assert!(found("README.md", &row).is_empty() && found("docs/a.md", &row).is_empty());
        assert_eq!(found("a/src/b.rs", &row).len(), 1);
    }
}
