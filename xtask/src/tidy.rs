//! `tidy`: the rules of ARCHITECTURE.md that the compiler cannot check. Each violation is one line, `file:line: what`.

mod edges;
mod lines;
mod scrub;
mod sources;

use std::fmt;
use std::path::Path;

use crate::{files, record};

/// One text file of the repository.
pub struct Source {
    /// Its path from the root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// A rule broken at a place. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    /// A rule broken in `source`.
    pub fn new(source: &Source, line: usize, what: impl Into<String>) -> Violation {
        Violation { path: source.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Checks every file that git tracks or would add.
pub fn run(root: &Path) -> Result<String, String> {
    let mut texts = Vec::new();
    let paths = files::tracked(root)?;
    for path in &paths {
        if let Some(text) = files::read_text(&root.join(path))? {
            texts.push(Source { path: path.clone(), text });
        }
    }
    let stale = record::stale(root)?;
    if !stale.is_empty() {
        return Err(format!(
            "{}: tables are not those of benches/record; cargo xtask record renders them",
            stale.join(", ")
        ));
    }
    let mut violations = edges::check(&texts);
    violations.extend(sources::check(&texts));
    violations.extend(lines::check(&texts));
    violations.extend(edges::generated_holds_data(&paths));
    violations.sort();
    if violations.is_empty() {
        return Ok(format!("tidy: {} files keep the rules", paths.len()));
    }
    let count = violations.len();
    let mut lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    lines.push(format!("tidy: {count} violations"));
    Err(lines.join("\n"))
}
