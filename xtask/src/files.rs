//! Where the repository is and which files belong to it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's folder: the parent of this crate, as cargo names it now, or else when it was built.
pub fn root() -> PathBuf {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().expect("xtask stands in the repository").to_path_buf()
}

/// Paths that git tracks or would add, with `/`, sorted; those that are deleted in the working tree left out.
pub fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8(output.stdout).map_err(|error| format!("git ls-files: {error}"))?;
    let mut paths: Vec<String> =
        text.split_terminator('\0').map(String::from).filter(|path| root.join(path).is_file()).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// A file's text; `None` if it is not text.
pub fn read_text(path: &Path) -> Result<Option<String>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
}
