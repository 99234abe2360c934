//! `gen`: writes what flcc-codegen renders, or compares it with what is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use flcc_codegen::{Matrix, render};

use crate::{profile, proof};

/// Files by their path below generated/, with `/`.
type Files = BTreeMap<String, Vec<u8>>;

/// Takes the lists of sizes and the costs of profiles into the crates that need them; `name` is the profile whose lists
/// are taken, else those are of the one that was. Whether the lists are others now: what this program was built with is
/// no longer what it should render.
pub fn take_profile(root: &Path, name: Option<&str>) -> Result<bool, String> {
    let chosen = name.map_or_else(|| profile::chosen(root), str::to_string);
    let mut changed = false;
    for (path, text) in profiled(root, &chosen)? {
        let target = root.join(path);
        if fs::read_to_string(&target).is_ok_and(|there| there == text) {
            continue;
        }
        changed |= path == profile::RANGE;
        fs::write(&target, text).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(changed)
}

/// The files that are rendered from profiles, with the lists of the one of that name.
fn profiled(root: &Path, name: &str) -> Result<[(&'static str, String); 2], String> {
    let (one, all) = (profile::one(root, name)?, profile::all(root)?);
    Ok([(profile::RANGE, profile::range(&one)), (profile::COSTS, profile::costs(&all))])
}

/// Writes the files that changed and removes kernels that are no longer rendered.
pub fn write(root: &Path) -> Result<String, String> {
    if take_profile(root, None)? {
        return again(root);
    }
    let folder = root.join("generated");
    let (wanted, there) = (rendered()?, present(&folder)?);
    for path in there.keys().filter(|path| !wanted.contains_key(*path)) {
        fs::remove_file(folder.join(path)).map_err(|error| format!("generated/{path}: {error}"))?;
    }
    for (path, bytes) in wanted.iter().filter(|(path, bytes)| there.get(*path) != Some(*bytes)) {
        let target = folder.join(path);
        fs::create_dir_all(target.parent().expect("a file stands in a folder"))
            .map_err(|error| format!("generated/{path}: {error}"))?;
        fs::write(target, bytes).map_err(|error| format!("generated/{path}: {error}"))?;
    }
    let changes = differences(&wanted, &there).len();
    Ok(format!("{}, {changes} files changed", summary(&wanted)))
}

/// Writes what `gen` of another profile writes.
pub fn write_profile(root: &Path, name: &str) -> Result<String, String> {
    if take_profile(root, Some(name))? { again(root) } else { write(root) }
}

/// Renders by a build of this program that has the lists that were just written.
fn again(root: &Path) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let command =
        Command::new(cargo).args(["run", "--quiet", "--package", "xtask", "--", "gen"]).current_dir(root).output();
    let output = command.map_err(|error| format!("cargo run --package xtask -- gen: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
    }
}

/// Writes the files, then compiles each for every architecture and writes what that took, with programs built here or
/// already; with `only`, those of which the names begin so.
pub fn prove(root: &Path, programs: Option<&Path>, only: Option<&str>) -> Result<String, String> {
    proof::check_nvrtc()?;
    let written = write(root)?;
    let proven = proof::write(root, programs, only, &proof::hashes(&Matrix::committed().kernels, &rendered()?))?;
    Ok(format!("{written}; {proven}"))
}

/// Compares the whole set of files and all their bytes, and the proof with them.
pub fn check(root: &Path) -> Result<String, String> {
    let (wanted, there) = (rendered()?, present(&root.join("generated"))?);
    let mut lines = differences(&wanted, &there);
    for (path, text) in profiled(root, &profile::chosen(root))? {
        if !fs::read_to_string(root.join(path)).is_ok_and(|there| there == text) {
            lines.push(format!("{path}: changed"));
        }
    }
    if lines.is_empty() {
        proof::check(root, &proof::hashes(&Matrix::committed().kernels, &wanted))?;
        return Ok(format!("{}, as committed and proven", summary(&wanted)));
    }
    lines.push(format!("{} rendered files are stale: run `cargo xtask gen` and commit", lines.len()));
    Err(lines.join("\n"))
}

fn rendered() -> Result<Files, String> {
    let files = render(&Matrix::committed()).map_err(|error| error.to_string())?;
    Ok(files.into_iter().map(|file| (file.path, file.text.into_bytes())).collect())
}

/// What stands where rendered files stand: all of cuda/, and the registry.
fn present(folder: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let registry = folder.join("src/registry.rs");
    if registry.is_file() {
        files.insert(
            "src/registry.rs".into(),
            fs::read(registry).map_err(|error| format!("generated/src/registry.rs: {error}"))?,
        );
    }
    collect(folder, "cuda", &mut files)?;
    Ok(files)
}

fn collect(folder: &Path, below: &str, files: &mut Files) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder.join(below)) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|error| format!("generated/{below}: {error}"))?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(folder, &path, files)?;
        } else {
            let bytes = fs::read(entry.path()).map_err(|error| format!("generated/{path}: {error}"))?;
            files.insert(path, bytes);
        }
    }
    Ok(())
}

fn differences(wanted: &Files, there: &Files) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (path, bytes) in wanted {
        match there.get(path) {
            None => lines.push(format!("generated/{path}: missing")),
            Some(other) if other != bytes => lines.push(format!("generated/{path}: changed")),
            Some(_) => {}
        }
    }
    lines
        .extend(there.keys().filter(|path| !wanted.contains_key(*path)).map(|path| format!("generated/{path}: extra")));
    lines
}

fn summary(files: &Files) -> String {
    let kernels = Matrix::committed().kernels.len();
    let bytes: usize = files.values().map(Vec::len).sum();
    format!("{kernels} kernels, {bytes} bytes in {} files", files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| (path.to_string(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn missing_extra_and_changed_are_told_apart() {
        let wanted = files(&[("cuda/a.cu", "a"), ("cuda/b.cu", "b"), ("cuda/c.cu", "c")]);
        let there = files(&[("cuda/b.cu", "b"), ("cuda/c.cu", "c "), ("cuda/d.cu", "d")]);
        let expected = ["generated/cuda/a.cu: missing", "generated/cuda/c.cu: changed", "generated/cuda/d.cu: extra"];
        assert_eq!(differences(&wanted, &there), expected);
        assert!(differences(&wanted, &wanted).is_empty());
    }

    #[test]
    fn the_committed_total_stays_reviewable() {
        let bytes: usize = rendered().unwrap().values().map(Vec::len).sum();
        assert!(bytes < 3_800_000, "{bytes}");
    }
}
