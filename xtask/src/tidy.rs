//! `tidy`: the rules of ARCHITECTURE.md that the compiler cannot check. Each violation is told as `file:line: what`.

mod additions;
mod circles;
mod edges;
mod graph;
mod lines;
#[cfg(test)]
mod made_up;
mod modules;
mod rooms;
mod scrub;
mod sources;
mod tokens;
mod violation;

use std::path::Path;

use violation::{Source, Violation};

use crate::{files, record};

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
            "{}: not what benches/record has; cargo xtask record renders tables and pictures",
            stale.join(", ")
        ));
    }
    let mut violations = edges::check(&texts);
    violations.extend(sources::check(&texts));
    violations.extend(lines::check(&texts));
    violations.extend(edges::generated_holds_data(&paths));
    violations.extend(rooms::check(&texts));
    violations.extend(additions::check(&texts));
    violations.sort();
    if violations.is_empty() {
        return Ok(format!("tidy: {} files keep the rules", paths.len()));
    }
    let mut lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    lines.push(format!("tidy: {} violations", violations.len()));
    Err(lines.join("\n"))
}
