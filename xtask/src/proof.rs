//! `gen --prove`: what every source takes of a thread on every architecture, and the comparison with what is there.
//!
//! generated/PROVEN has a line for each source and architecture: name, hash of the text that was compiled (banners
//! apart), architecture, registers, bytes spilled. The test `nvrtc` of flcc-runtime compiles; nothing of it is linked
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flcc_codegen::Kernel;

/// Where the proof stands.
const PROVEN: &str = "generated/PROVEN";

/// What each source is proven for.
const ARCHITECTURES: [&str; 7] = ["sm_100", "sm_120", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"];

/// The parts of the pipeline, which are compiled apart.
const PARTS: [&str; 5] = ["finish", "fourier", "gather", "repair", "sums"];

/// What a reader of the file sees first.
const BANNER: &str = "# source, hash, architecture, registers, bytes spilled: by `cargo xtask gen --prove`\n";

/// How to get NVRTC, which takes no GPU.
const GET_NVRTC: &str = "\
    python3 -m pip install --no-deps --target target/nvrtc 'nvidia-cuda-nvrtc-cu12>=12.8,<13'\n    \
    export LD_LIBRARY_PATH=$PWD/target/nvrtc/nvidia/cuda_nvrtc/lib";

/// Refuses at once what would fail after minutes of building: a proof without NVRTC.
pub fn check_nvrtc() -> Result<(), String> {
    // Elsewhere the library has other names and places; the test that compiles tells of it.
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let folders: Vec<PathBuf> =
        env::var_os("LD_LIBRARY_PATH").map(|paths| env::split_paths(&paths).collect()).unwrap_or_default();
    let cache = ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|program| Command::new(program).arg("-p").output().ok())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // Without the linker's cache nothing is known of its folders.
    match cache.is_none_or(|cache| is_there(&folders, &cache)) {
        true => Ok(()),
        false => Err(format!(
            "gen --prove: expected the library NVRTC, 12.8 or newer, got no libnvrtc.so; \
             it is on PyPI:\n    {GET_NVRTC}"
        )),
    }
}

/// Whether one of the folders, or the linker's cache as `ldconfig -p` prints it, has NVRTC.
fn is_there(folders: &[PathBuf], cache: &str) -> bool {
    const NAME: &str = "libnvrtc.so";
    let holds = |folder: &PathBuf| {
        fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(NAME)))
    };
    cache.contains(NAME) || folders.iter().any(holds)
}

/// Compiles every source for every architecture, with a word `only` those whose names begin with it, and writes what is
/// proven. The lines of the others stay, also of those that failed.
pub fn write(
    root: &Path,
    programs: Option<&Path>,
    only: Option<&str>,
    sources: &BTreeMap<String, u64>,
) -> Result<String, String> {
    let file = root.join("target").join("proven");
    fs::create_dir_all(root.join("target")).map_err(|error| format!("target: {error}"))?;
    if file.exists() {
        fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut command = match programs {
        Some(folder) => Command::new(folder.join("nvrtc")),
        None => {
            let mut cargo = Command::new("cargo");
            cargo.args(["test", "--quiet", "--package", "flcc-runtime", "--features", "cuda", "--test", "nvrtc", "--"]);
            cargo
        }
    };
    match only {
        Some(word) => command.env("FLCC_PROVE_ONLY", word),
        None => command.env_remove("FLCC_PROVE_ONLY"),
    };
    let status = command
        .args(["--nocapture", "every_source_compiles_and_spills_nothing"])
        .env("FLCC_PROVE", &file)
        .env("FLCC_REQUIRE", "nvrtc")
        .current_dir(root)
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let Ok(new) = fs::read_to_string(&file) else { return Err("nothing is proven: see above".into()) };
    let old = fs::read_to_string(root.join(PROVEN)).unwrap_or_default();
    let (lines, count) = merged(&new, &old, sources);
    fs::write(root.join(PROVEN), format!("{BANNER}{}\n", lines.join("\n")))
        .map_err(|error| format!("{PROVEN}: {error}"))?;
    match (status.success(), check(root, sources)) {
        (true, Ok(())) => Ok(format!("{} lines in {PROVEN}, {count} of them new", lines.len())),
        (_, Err(stale)) => Err(format!("{stale}\n{count} lines are new")),
        (false, Ok(())) => Err(format!("some source is not proven: see above; {count} lines are new")),
    }
}

/// The lines of a proof with those of an older one for what it does not have, of the sources that there are; and how
/// many are of the new one.
fn merged<'a>(new: &'a str, old: &'a str, sources: &BTreeMap<String, u64>) -> (Vec<&'a str>, usize) {
    let of = |line: &'a str| {
        let mut words = line.split(' ');
        Some((words.next()?, words.nth(1)?))
    };
    let mut lines: Vec<&str> = new.lines().collect();
    let known: BTreeSet<_> = lines.iter().filter_map(|line| of(line)).collect();
    let count = lines.len();
    lines.extend(old.lines().filter(|line| !line.starts_with('#')).filter(|line| {
        of(line).is_some_and(|(name, target)| sources.contains_key(name) && !known.contains(&(name, target)))
    }));
    lines.sort_unstable();
    (lines, count)
}

/// Compares the proof that is there with the sources.
pub fn check(root: &Path, sources: &BTreeMap<String, u64>) -> Result<(), String> {
    let again = "run `cargo xtask gen --prove` (it takes NVRTC 12.8 or newer) and commit";
    let text = fs::read_to_string(root.join(PROVEN)).map_err(|error| format!("{PROVEN}: {error}: {again}"))?;
    let mut lines = compare(sources, &text);
    if lines.is_empty() {
        return Ok(());
    }
    let count = lines.len();
    lines.truncate(10);
    lines.push(format!("{PROVEN} is stale in {count} places: {again}"));
    Err(lines.join("\n"))
}

/// Names of sources with the hash of their text: every kernel, those that a kernel from the image to the result follows
/// with it, the pipeline under each of its parts, and those that find peaks.
pub fn hashes(kernels: &[Kernel], files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, u64> {
    let text = |file: &String| files.get(&format!("cuda/{file}")).map_or(&[][..], Vec::as_slice);
    let mut hashes: BTreeMap<String, u64> = kernels
        .iter()
        .map(|kernel| (kernel.name(), hash(&kernel.files().iter().map(text).collect::<Vec<_>>().concat())))
        .collect();
    let straight = kernels.iter().filter(|kernel| kernel.goes_straight()).map(|kernel| {
        let files = kernel.files().into_iter().chain(["straight.cu".to_string()]);
        (format!("straight/{}", kernel.name()), hash(&files.map(|file| text(&file)).collect::<Vec<_>>().concat()))
    });
    hashes.extend(straight);
    let pipeline = hash(text(&"pipeline.cu".to_string()));
    hashes.insert("peaks".into(), hash(text(&"peaks.cu".to_string())));
    hashes.extend(PARTS.map(|part| (format!("pipeline/{part}"), pipeline)));
    hashes
}

/// 64-bit FNV-1a of a text but for its banners, which change with templates that it has nothing of. It tells texts
/// apart and protects from nobody.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"// Generated by "))
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What does not agree, a line each.
fn compare(sources: &BTreeMap<String, u64>, proven: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for line in proven.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, text, architecture, registers, spilled] = words[..] else {
            wrong.push(format!("{PROVEN}: not a line of the proof: {line}"));
            continue;
        };
        if registers.parse::<u32>().is_err() || spilled.parse::<u32>().is_err() {
            wrong.push(format!("{PROVEN}: not numbers: {line}"));
        }
        match sources.get(name) {
            None => wrong.push(format!("{PROVEN}: {name} is no source")),
            Some(hash) if format!("{hash:016x}") != text => {
                wrong.push(format!("{name} is another text than was proven for {architecture}"))
            }
            Some(_) if !seen.insert((name, architecture)) => {
                wrong.push(format!("{PROVEN}: {name} stands twice for {architecture}"))
            }
            Some(_) => {}
        }
        seen.insert((name, architecture));
    }
    // A source that changed is told once, as another text.
    for (name, architecture) in
        sources.keys().flat_map(|name| ARCHITECTURES.map(|architecture| (name.as_str(), architecture)))
    {
        if !seen.contains(&(name, architecture)) {
            wrong.push(format!("{name} is not proven for {architecture}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use flcc_codegen::Matrix;

    use super::*;

    #[test]
    fn nvrtc_is_looked_for_where_the_linker_does() {
        let folder = env::temp_dir().join(format!("flcc-xtask-nvrtc-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let folders = [folder.join("none"), folder.clone()];
        assert!(!is_there(&folders, "\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6\n"));
        assert!(is_there(&[], "\tlibnvrtc.so.12 (libc6,x86-64) => /usr/lib/libnvrtc.so.12\n"));
        fs::write(folder.join("libnvrtc.so.12"), b"").unwrap();
        assert!(is_there(&folders, "") && !is_there(&folders[..1], ""));
        fs::remove_dir_all(&folder).unwrap();
    }

    fn proof(sources: &BTreeMap<String, u64>) -> String {
        let line =
            |(name, hash): (&String, &u64)| ARCHITECTURES.map(|sm| format!("{name} {hash:016x} {sm} 32 0\n")).concat();
        format!("{BANNER}{}", sources.iter().map(line).collect::<String>())
    }

    #[test]
    fn a_kernel_of_two_files_changes_with_both() {
        let kernels: Vec<Kernel> =
            Matrix::committed().kernels.into_iter().filter(|kernel| kernel.sides == [7, 7]).collect();
        let files = |changed: &str| -> BTreeMap<String, Vec<u8>> {
            let paths = kernels.iter().flat_map(Kernel::files).map(|file| format!("cuda/{file}"));
            paths.map(|path| (path.clone(), if path == changed { b"b".to_vec() } else { b"a".to_vec() })).collect()
        };
        let (before, after) = (hashes(&kernels, &files("")), hashes(&kernels, &files("cuda/zncc.cu")));
        let straight = kernels.iter().filter(|kernel| kernel.goes_straight()).count();
        // And the kernels that find peaks.
        assert_eq!(before.len(), kernels.len() + straight + PARTS.len() + 1);
        for (name, hash) in &before {
            assert_eq!(after[name] != *hash, name.starts_with("zncc_"), "{name}");
        }
    }

    #[test]
    fn a_source_that_changed_is_found() {
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c, "the published value of FNV-1a");
        assert_eq!(hash(b"// Generated by x, 12. Do not edit.\nb\n// Generated by y\na\n"), hash(b"b\na\n"));
        let sources = BTreeMap::from([("a", 1), ("pipeline/sums", 2)].map(|(name, hash)| (name.to_string(), hash)));
        let text = proof(&sources);
        assert!(compare(&sources, &text).is_empty());

        let mut changed = sources.clone();
        changed.insert("a".into(), 3);
        assert_eq!(compare(&changed, &text).len(), ARCHITECTURES.len());
        assert_eq!(compare(&changed, &text)[0], "a is another text than was proven for sm_100");
        let more = sources.iter().map(|(name, hash)| (name.clone(), *hash)).chain([("b".into(), 2)]).collect();
        assert_eq!(compare(&more, &text)[0], "b is not proven for sm_100");
        let fewer = sources.iter().skip(1).map(|(name, hash)| (name.clone(), *hash)).collect();
        assert_eq!(compare(&fewer, &text)[0], "generated/PROVEN: a is no source");
        assert_eq!(compare(&sources, &text.replacen("sm_75 32", "sm_75 many", 1)).len(), 1);
        let new = "a 0000000000000003 sm_75 30 0\n";
        let (lines, count) = merged(new, &text, &changed);
        assert_eq!((lines.len(), count), (2 * ARCHITECTURES.len(), 1));
        assert_eq!(compare(&changed, &lines.join("\n")).len(), ARCHITECTURES.len() - 1);
        assert_eq!(merged(new, &text, &fewer).0.len(), ARCHITECTURES.len() + 1);
        let twice = format!("{text}{}", text.lines().nth(1).expect("a line"));
        assert_eq!(compare(&sources, &twice), ["generated/PROVEN: a stands twice for sm_100"]);
    }
}
