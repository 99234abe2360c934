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
    let (program, target) = built(root, "flcc", &["--release", "--locked"])?;
    let bytes = dist::size(&program)?;
    if bytes > MOST_BYTES {
        return Err(format!("{}: {bytes} bytes, expected at most {MOST_BYTES}", program.display()));
    }
    let metadata = metadata(root, &["--locked", "--filter-platform", &target])?;
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

/// Builds a program; where it lies, and the target that it is for: the one that cargo was told, by `CARGO_BUILD_TARGET`
/// or `build.target`, or the compiler's own.
fn built(root: &Path, name: &str, options: &[&str]) -> Result<(PathBuf, String), String> {
    let programs =
        dist::cargo(root, &[&["build", "--bin", name, "--message-format", "json"], options].concat())?.into_iter();
    let programs: Vec<PathBuf> = programs.filter(|(of, _)| of == name).map(|(_, program)| program.into()).collect();
    let [program] = programs.as_slice() else {
        return Err(format!("{name}: expected one program from cargo, for one target, got {}", programs.len()));
    };
    let folder = PathBuf::from(text(&metadata(root, &["--no-deps"])?, "target_directory"));
    let target = match named_target(program, &folder)? {
        Some(target) => target,
        None => host()?,
    };
    Ok((program.clone(), target))
}

/// The target that the place of a program names: cargo makes a folder for each target that it is told, in which those
/// of the profiles lie; what is for the compiler's own target has none.
fn named_target(program: &Path, folder: &Path) -> Result<Option<String>, String> {
    let inside: Option<Vec<_>> = program.strip_prefix(folder).ok().map(|inside| inside.iter().collect());
    match inside.as_deref() {
        Some([_profile, _program]) => Ok(None),
        Some([target, _profile, _program]) => Ok(Some(target.to_string_lossy().into_owned())),
        _ => Err(format!("{}: expected a program in a profile's folder in {}", program.display(), folder.display())),
    }
}

/// The target that the compiler builds for if it is told none.
fn host() -> Result<String, String> {
    let version = said(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version);
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc -vV: expected a line of its host".into())
}

fn metadata(root: &Path, options: &[&str]) -> Result<Value, String> {
    let text = said(Command::new("cargo").args(["metadata", "--format-version", "1"]).args(options).current_dir(root))?;
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
    fn a_program_is_found_with_its_target() {
        let named = |program: &str| named_target(Path::new(program), Path::new("/w/target"));
        assert_eq!(named("/w/target/release/flcc"), Ok(None));
        let target = "aarch64-unknown-linux-gnu";
        assert_eq!(named(&format!("/w/target/{target}/release/flcc")), Ok(Some(target.into())));
        for elsewhere in ["/x/release/flcc", "/w/target/flcc", "/w/target/a/b/release/flcc"] {
            let line = named(elsewhere).unwrap_err();
            assert_eq!(line, format!("{elsewhere}: expected a program in a profile's folder in /w/target"));
        }
        // As cargo lays it out, told a target or none.
        let root = std::env::temp_dir().join(format!("xtask-release-{}", std::process::id()));
        fs::create_dir_all(root.join("src")).unwrap();
        let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n";
        write(&root.join("Cargo.toml"), manifest.as_bytes()).unwrap();
        write(&root.join("src/main.rs"), b"fn main() {}").unwrap();
        let host = host().unwrap();
        let told = format!("build.target = {host:?}");
        let twice = format!("build.target = [{host:?}, {host:?}]");
        for options in [&["--offline"][..], &["--offline", "--config", &told], &["--offline", "--config", &twice]] {
            let (program, target) = built(&root, "tiny", options).unwrap();
            assert_eq!((program.is_file(), &target), (true, &host));
        }
        assert!(built(&root, "other", &["--offline"]).is_err());
        fs::remove_dir_all(&root).unwrap();
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
