//! `release`: the program for this machine's target with what belongs to it, in an archive with a checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::dist;

/// Bytes that the program may take.
const MOST_BYTES: u64 = 15_000_000;

/// The package whose program is released.
const PACKAGE: &str = "flcc-cli";

/// Files of the repository that come along as they are.
const TEXTS: [&str; 5] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "CITATION.cff"];

/// Shells, and the names that they look for completions under.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "flcc.bash"),
    ("zsh", "_flcc"),
    ("fish", "flcc.fish"),
    ("powershell", "_flcc.ps1"),
    ("elvish", "flcc.elv"),
];

/// How the names of files begin that hold terms, in lower case.
const TERMS: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Builds the program and packs it below a folder, with a checksum beside the archive.
pub fn pack(root: &Path, to: &Path) -> Result<String, String> {
    let program = dist::cargo(root, &["build", "--release", "--locked", "--bin", "flcc", "--message-format", "json"])?
        .into_iter()
        .find_map(|(name, program)| (name == "flcc").then(|| PathBuf::from(program)))
        .ok_or("flcc: cargo names no program of it")?;
    let bytes = dist::size(&program)?;
    if bytes > MOST_BYTES {
        return Err(format!("{}: {bytes} bytes, expected at most {MOST_BYTES}", program.display()));
    }
    let target = target()?;
    let metadata = metadata(root, &target)?;
    let name = format!("flcc-{}-{target}", version(&metadata)?);
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let folder = to.join(&name);
    // What an earlier call left is no part of this one.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    dist::copy(&program, &folder.join(program.file_name().unwrap_or("flcc".as_ref())))?;
    TEXTS.iter().try_for_each(|text| dist::copy(&root.join(text), &folder.join(text)))?;
    manual(&program, &folder)?;
    let crates = licences(&linked(&metadata)?, root, &folder.join("licenses"))?;
    let archive = format!("{name}.tar.gz");
    said(Command::new("tar").args(["-czf", &archive, &name]).current_dir(to))?;
    let sum = checksum(to, &archive)?;
    write(&to.join(format!("{archive}.sha256")), sum.as_bytes())?;
    let packed = dist::size(&to.join(&archive))?;
    Ok(format!(
        "{}: {:.1} MB, the program {:.1} MB, licences of {crates} crates",
        to.join(&archive).display(),
        packed as f64 / 1e6,
        bytes as f64 / 1e6
    ))
}

/// What a program printed, if it ended well.
fn said(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// The target that programs are built for on this machine: its compiler's own, or the one that cargo is told.
fn target() -> Result<String, String> {
    let version = said(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc -vV: expected a line of its host".into())
}

fn metadata(root: &Path, target: &str) -> Result<Value, String> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let text = said(Command::new("cargo").args(arguments).current_dir(root))?;
    serde_json::from_slice(&text).map_err(|error| format!("cargo metadata: {error}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn version(metadata: &Value) -> Result<&str, String> {
    let package = list(metadata, "packages").iter().find(|package| text(package, "name") == PACKAGE);
    package.map(|package| text(package, "version")).ok_or_else(|| format!("cargo metadata: names no {PACKAGE}"))
}

/// The packages whose code is in the program: what it depends on, but for what runs while it is built.
fn linked(metadata: &Value) -> Result<Vec<&Value>, String> {
    let packages: BTreeMap<&str, &Value> =
        list(metadata, "packages").iter().map(|package| (text(package, "id"), package)).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let start = packages.iter().find(|(_, package)| text(package, "name") == PACKAGE);
    let mut open: Vec<&str> = start.map(|(id, _)| *id).into_iter().collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        let package = *packages.get(id).ok_or_else(|| format!("cargo metadata: names no {id}"))?;
        let kinds = list(package, "targets").iter().flat_map(|target| list(target, "kind"));
        if !seen.insert(id) || kinds.into_iter().any(|kind| kind == "proc-macro") {
            continue;
        }
        found.push(package);
        let dependencies = nodes.get(id).map_or(&[][..], |node| list(node, "deps"));
        let used = dependencies.iter().filter(|of| list(of, "dep_kinds").iter().any(|kind| kind["kind"].is_null()));
        open.extend(used.map(|of| text(of, "pkg")));
    }
    found.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    Ok(found)
}

/// Writes the terms of the crates of others, and a list of them; how many there are.
fn licences(packages: &[&Value], root: &Path, to: &Path) -> Result<usize, String> {
    let place = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(place)?;
    // What a registry gave has a source; what is of this repository has its licences beside the program.
    let others: Vec<&Value> = packages.iter().copied().filter(|package| !package["source"].is_null()).collect();
    let mut index = String::from(
        "What the program is made of besides its own code, and under which terms. Rust's standard library: MIT OR \
         Apache-2.0, https://github.com/rust-lang/rust. Font: DejaVuSans.\n\n",
    );
    for package in &others {
        let (name, version) = (text(package, "name"), text(package, "version"));
        index.push_str(&format!("{name} {version}  {}  {}\n", text(package, "license"), text(package, "repository")));
        let home = Path::new(text(package, "manifest_path")).parent().unwrap_or(root);
        let own = to.join(format!("{name}-{version}"));
        for entry in fs::read_dir(home).map_err(|error| format!("{}: {error}", home.display()))? {
            let path = entry.map_err(place)?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_file() && TERMS.iter().any(|term| file.to_lowercase().starts_with(term)) {
                fs::create_dir_all(&own).map_err(place)?;
                dist::copy(&path, &own.join(file))?;
            }
        }
    }
    dist::copy(&root.join("flcc-cli/fonts/LICENSE"), &to.join("DejaVuSans"))?;
    write(&to.join("INDEX"), index.as_bytes())?;
    Ok(others.len())
}

/// Writes the manual pages and the completions that the program prints.
fn manual(program: &Path, folder: &Path) -> Result<(), String> {
    let ask = |arguments: &[&str]| said(Command::new(program).args(arguments));
    for part in ["man", "completions"] {
        fs::create_dir(folder.join(part)).map_err(|error| format!("{part}: {error}"))?;
    }
    write(&folder.join("man/flcc.1"), &ask(&["man"])?)?;
    for command in commands(&String::from_utf8_lossy(&ask(&["help"])?)) {
        write(&folder.join(format!("man/flcc-{command}.1")), &ask(&["man", &command])?)?;
    }
    SHELLS
        .iter()
        .try_for_each(|(shell, file)| write(&folder.join("completions").join(file), &ask(&["completions", shell])?))
}

/// The commands that a help lists, but for help itself, which has no page.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What a command's text goes on with stands further in.
    let first = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    first.filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help").map(String::from).collect()
}

/// The line of an archive that `sha256sum --check` takes.
fn checksum(folder: &Path, archive: &str) -> Result<String, String> {
    let by = |program: &str, arguments: &[&str]| {
        said(Command::new(program).args(arguments).arg(archive).current_dir(folder))
    };
    // Macs have the second.
    let line = by("sha256sum", &[]).or_else(|_| by("shasum", &["-a", "256"]))?;
    String::from_utf8(line).map_err(|error| format!("sha256sum: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_are_those_of_the_help() {
        let help = "About.\n\nCommands:\n  conv   Convolve\n  lcc    Local\n         more of it\n  help   \
                    Print\n\nOptions:\n  -h\n";
        assert_eq!(commands(help), ["conv", "lcc"]);
        assert!(commands("").is_empty());
    }

    #[test]
    fn what_only_builds_is_not_linked() {
        let package = |name: &str, kind: &str| {
            let targets = json!([{"kind": [kind]}]);
            json!({"id": name, "name": name, "version": "1.0.0", "targets": targets})
        };
        let on = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package(PACKAGE, "lib"), package("a", "lib"), package("b", "lib"), package("derive", "proc-macro"),
                package("syn", "lib"), package("cc", "lib"), package("proptest", "lib"),
            ],
            "resolve": {"nodes": [
                {"id": PACKAGE, "deps": [on("a", Value::Null), on("proptest", json!("dev"))]},
                {"id": "a", "deps": [on("b", Value::Null), on("derive", Value::Null), on("cc", json!("build"))]},
                {"id": "b", "deps": [on("a", Value::Null)]},
                {"id": "derive", "deps": [on("syn", Value::Null)]},
            ]},
        });
        let names: Vec<&str> = linked(&metadata).unwrap().iter().map(|package| text(package, "name")).collect();
        assert_eq!(names, ["a", "b", PACKAGE]);
        assert_eq!(version(&metadata), Ok("1.0.0"));
        assert!(version(&json!({})).is_err());
    }
}
