//! Lock files: a crate that both workspaces take has the versions in the Python package's that it has in the others',
//! so that both share one build of it where they share a target folder, and users get the same code.

use std::collections::BTreeMap;

use super::violation::{Source, Violation};

/// The lock file of the workspace, and that of the Python package.
const LOCKS: [&str; 2] = ["Cargo.lock", "flcc-py/Cargo.lock"];

/// Checks every crate that both files name.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let [Some(ours), Some(theirs)] = LOCKS.map(|path| sources.iter().find(|source| source.path == path)) else {
        return Vec::new();
    };
    let known = versions(&ours.text);
    let mut violations = Vec::new();
    for (name, found) in versions(&theirs.text) {
        let Some(expected) = known.get(name) else { continue };
        for (line, version) in found {
            if !expected.iter().any(|(_, known)| *known == version) {
                let expected: Vec<&str> = expected.iter().map(|(_, version)| *version).collect();
                let expected = expected.join(" or ");
                violations.push(Violation::new(
                    theirs,
                    line,
                    format!("{name} {version}, expected {expected} as in {}", ours.path),
                ));
            }
        }
    }
    violations
}

/// The versions of each crate, with the lines that say so.
fn versions(lock: &str) -> BTreeMap<&str, Vec<(usize, &str)>> {
    let mut all: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    let mut last = "";
    for (at, line) in lock.lines().enumerate() {
        match line.trim_end_matches('"').split_once(" = \"") {
            Some(("name", name)) => last = name,
            Some(("version", version)) => all.entry(last).or_default().push((at + 1, version)),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ours: &str, theirs: &str) -> Vec<String> {
        let lock = |path: &str, crates: &str| Source {
            path: path.into(),
            text: crates
                .split_whitespace()
                .map(|one| one.split_once('@').expect("a crate is name@version"))
                .map(|(name, version)| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"))
                .collect(),
        };
        check(&[lock(LOCKS[0], ours), lock(LOCKS[1], theirs)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crates_of_both_have_the_same_versions() {
        assert!(said("a@1.0 syn@2.0 syn@3.0", "a@1.0 syn@3.0 numpy@0.30").is_empty());
        assert_eq!(
            said("a@1.0 syn@2.0 syn@3.0", "a@1.0 syn@3.1"),
            ["flcc-py/Cargo.lock:6: syn 3.1, expected 2.0 or 3.0 as in Cargo.lock"]
        );
    }
}
