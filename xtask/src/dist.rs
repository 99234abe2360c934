//! `dist`: the programs and data with which a machine without cargo checks a GPU.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Bytes that a folder may take.
const MOST_BYTES: u64 = 60_000_000;

/// The program that asks the peers of GPUs.
pub const PEERS: &str = "benches/gpu/peers.py";

/// The test programs of flcc-runtime that come along.
pub const TESTS: [&str; 3] = ["gpu", "promises", "nvrtc"];

/// Builds the programs and gathers them with the conformance data in a folder.
pub fn gather(root: &Path, to: &Path) -> Result<String, String> {
    let place = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(place)?;
    // One call, so that programs and tests share one build of the library.
    let mut build =
        vec!["build", "--release", "--package", "flcc-cli", "--package", "xtask", "--package", "flcc-runtime"];
    build.extend(["--features", "flcc-runtime/cuda", "--message-format", "json", "--bins"]);
    TESTS.iter().for_each(|test| build.extend(["--test", test]));
    let programs = cargo(root, &build)?;
    for name in ["flcc", "xtask"].into_iter().chain(TESTS) {
        let built = programs
            .iter()
            .find(|(of, _)| of == name)
            .ok_or_else(|| format!("{name}: cargo names no program of it"))?;
        copy(Path::new(&built.1), &to.join(name))?;
    }
    copy(&root.join("conformance"), &to.join("conformance"))?;
    fs::create_dir_all(to.join(PEERS).parent().unwrap_or(to)).map_err(place)?;
    copy(&root.join(PEERS), &to.join(PEERS))?;
    let bytes = size(to)?;
    if bytes > MOST_BYTES {
        return Err(format!("{}: {bytes} bytes, expected at most {MOST_BYTES}", to.display()));
    }
    Ok(format!("{}: {:.1} MB", to.display(), bytes as f64 / 1e6))
}

/// Runs cargo; the programs that it says it made, by name.
pub fn cargo(root: &Path, arguments: &[&str]) -> Result<Vec<(String, String)>, String> {
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", arguments.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect())
}

/// The target and the program of one of cargo's messages, where it has a program.
fn program(message: &str) -> Option<(String, String)> {
    let text = |behind: &str| {
        let rest = &message[message.find(behind)? + behind.len()..];
        Some(rest[..rest.find('"')?].replace("\\\\", "\\"))
    };
    let program = text("\"executable\":\"")?;
    let target = &message[message.find("\"target\":")?..];
    let name = &target[target.find("\"name\":\"")? + 8..];
    Some((name[..name.find('"')?].to_string(), program))
}

/// Copies a file, or a folder with all that is in it but what Python caches.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", from.display());
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ()).map_err(wrong);
    }
    fs::create_dir_all(to).map_err(wrong)?;
    for entry in fs::read_dir(from).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        if name != "__pycache__" {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// The bytes of a file, or of all that is in a folder.
pub fn size(path: &Path) -> Result<u64, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        return fs::metadata(path).map(|metadata| metadata.len()).map_err(wrong);
    }
    fs::read_dir(path).map_err(wrong)?.map(|entry| size(&entry.map_err(wrong)?.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_cargo_names_a_program() {
        let message = concat!(
            r#"{"reason":"compiler-artifact","package_id":"x","#,
            r#""target":{"kind":["test"],"crate_types":["bin"],"name":"gpu","#
        );
        let made = format!(
            r#"{message}"src_path":"gpu.rs"}},"filenames":["/t/gpu-1"],"executable":"/t/gpu-1","fresh":true}}"#
        );
        assert_eq!(program(&made), Some(("gpu".to_string(), "/t/gpu-1".to_string())));
        assert_eq!(program(&made.replace(r#""/t/gpu-1","fresh""#, r#"null,"fresh""#)), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
