//! What rules are held against, and what is said where one is broken.

use std::fmt;

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
    /// The file, from the root.
    pub path: String,
    /// The line in it.
    pub line: usize,
    /// What is wrong there, in one line or in several of which all but the first are indented.
    pub what: String,
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
