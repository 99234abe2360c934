//! `gpu-bench`: FLCC on this machine's GPU beside what others take for the same, and a record of it.
//!
//! Image and results lie on the device, kernels are timed by its own clock, and answers are checked before. The peers
//! are asked by benches/gpu/peers.py; those that are not installed are named as missing.

mod bars;
mod peers;
mod problems;
pub mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::dist::{self, PEERS};
use peers::{Peers, rounded};
use problems::Problem;

/// For how long each problem is timed, once by the host's clock and once by the device's.
const SECONDS: &str = "0.3";
/// Largest error that is taken for right.
const MOST_ERROR: f64 = 1e-5;

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The folder that holds the program.
    folder: Option<PathBuf>,
    /// Whether to write the record.
    record: bool,
    /// What a spec must contain, any of these.
    only: Vec<String>,
}

impl Options {
    /// Options of the words behind the command.
    ///
    /// # Errors
    /// A word that is none, or that lacks its value.
    pub fn read(words: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let given = words.next().filter(|value| !value.starts_with('-'));
                given.map(ToString::to_string).ok_or_else(|| format!("gpu-bench {word}: expected a value"))
            };
            match *word {
                "--bin-dir" => options.folder = Some(value()?.into()),
                "--only" => options.only.push(value()?),
                "--record" => options.record = true,
                other => return Err(format!("gpu-bench: expected --bin-dir, --only or --record, got {other:?}")),
            }
        }
        Ok(options)
    }

    fn wants(&self, problem: &Problem) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| problem.spec.contains(part.as_str()))
    }
}

/// Times the problems, one after the other, each by FLCC and by its peers in turn; the tables.
///
/// # Errors
/// A machine without a GPU, no problem of that name, a problem that FLCC fails at, a record that cannot be written.
pub fn run(root: &Path, options: &Options) -> Result<String, String> {
    let wanted: Vec<Problem> = problems::all().into_iter().filter(|problem| options.wants(problem)).collect();
    if wanted.is_empty() {
        return Err(format!("gpu-bench --only: no spec has {} in it", options.only.join(" or ")));
    }
    let program = match &options.folder {
        Some(folder) => folder.join("flcc"),
        None => built(root)?,
    };
    let (card, driver) = card(&said(Command::new(&program).args(["devices", "--json"]))?)?;
    let version = said(Command::new(&program).arg("--version"))?.trim().to_string();
    let home = home(root, options.folder.as_deref())?;
    let path = home.join("benches/record").join(file_of(&card));
    let old: Option<Value> = fs::read_to_string(&path).ok().and_then(|old| serde_json::from_str(&old).ok());
    let mut record = json!({"card": card, "driver": driver, "flcc": version});
    let mut peers = Peers::start(&home.join(PEERS));
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for problem in &wanted {
        let (times, absent) = peers.time(&problem.spec);
        let mut row = ours(&program, problem).unwrap_or_else(|reason| {
            failed.push(format!("{}: {reason}", problem.spec));
            json!({"failed": reason})
        });
        row["spec"] = json!(problem.spec);
        row["peers"] = json!(times);
        row["absent"] = json!(absent);
        println!("{row}");
        rows.push(row);
        record["about"] = json!(peers.about);
        record["missing"] = json!(peers.missing);
        record["rows"] = json!(rows);
        // Each time, so that a run that is ended early leaves what it found.
        if options.record {
            keep(&path, &joined(old.as_ref(), record.clone()))?;
        }
    }
    let mut text = format!("\n{}\n\n{}", report::about(&record), report::whole(&record));
    if options.record {
        text += &format!("written: {}\n", path.display());
    }
    if failed.is_empty() { Ok(text) } else { Err(format!("{text}gpu-bench: FLCC failed at\n{}", failed.join("\n"))) }
}

/// The program, built.
fn built(root: &Path) -> Result<PathBuf, String> {
    let build = ["build", "--release", "--package", "flcc-cli", "--bin", "flcc", "--message-format", "json"];
    let programs = dist::cargo(root, &build)?;
    let built = programs.into_iter().find(|(name, _)| name == "flcc").ok_or("flcc: cargo names no program of it")?;
    Ok(built.1.into())
}

/// What holds the peers' program and the records: the folder of the programs, where it was gathered so, the folder that
/// this was called in, or the repository.
fn home(root: &Path, folder: Option<&Path>) -> Result<PathBuf, String> {
    let here = [folder, Some(Path::new(".")), Some(root)];
    let home = here.into_iter().flatten().find(|home| home.join(PEERS).is_file());
    home.map(Path::to_path_buf).ok_or_else(|| format!("{PEERS}: not in the folder of the programs, nor here"))
}

/// What a command says.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let wrong = |why: String| format!("{name}: {why}");
    let output = command.output().map_err(|error| wrong(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let line = told.lines().find(|line| line.starts_with("error: ")).or(told.lines().last()).unwrap_or_default();
    Err(if line.is_empty() { wrong(output.status.to_string()) } else { line.to_string() })
}

/// The first device's name, and the driver, of what `flcc devices --json` says.
fn card(devices: &str) -> Result<(String, String), String> {
    let told: Value = serde_json::from_str(devices).map_err(|error| format!("flcc devices --json: {error}"))?;
    let driver = told["cuda"].as_str().unwrap_or("no word on the driver");
    let name =
        told["devices"][0]["name"].as_str().ok_or_else(|| format!("gpu-bench: there is no GPU here: {driver}"))?;
    Ok((name.to_string(), driver.to_string()))
}

/// The name of a card's record.
fn file_of(card: &str) -> String {
    let words: Vec<String> = card
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    format!("{}.json", words.join("-"))
}

/// FLCC's row of a problem.
fn ours(program: &Path, problem: &Problem) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.args(["bench", &problem.spec, "--platform", "cuda", "--effort", "estimate", "--json"]);
    command.args(["--seconds", SECONDS, "--resident"]).env_remove("FLCC_WISDOM");
    row_of(&said(&mut command)?)
}

/// The row of what `flcc bench --json` says: of kernels where they were timed, else of calls.
fn row_of(line: &str) -> Result<Value, String> {
    let told: Value = serde_json::from_str(line).map_err(|error| format!("flcc bench: {error}"))?;
    let number = |name: &str| told[name].as_f64().ok_or_else(|| format!("flcc bench: no {name}"));
    let us = |name: &str| number(name).map(|ns| rounded(ns / 1e3));
    let error = number("max_error")?;
    if error.is_nan() || error > MOST_ERROR {
        return Err(format!("the answer is off by {error:.1e}"));
    }
    let mut row = json!({
        "method": told["method"], "kernel": told["kernel"], "error": error, "call_us": us("median_ns")?,
    });
    if told.get("kernel_median_ns").is_some() {
        row["us"] = json!(us("kernel_median_ns")?);
        row["min_us"] = json!(us("kernel_min_ns")?);
        row["max_us"] = json!(us("kernel_max_ns")?);
        row["queued"] = told["queued"].clone();
    } else {
        row["us"] = row["call_us"].clone();
    }
    Ok(row)
}

/// A record with the rows of an older one of the same card that it has not measured anew.
fn joined(old: Option<&Value>, mut new: Value) -> Value {
    let Some(old) = old.filter(|old| old["card"] == new["card"]) else { return new };
    let of = |record: &Value, spec: &str| {
        record["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["spec"] == spec)).cloned()
    };
    let rows: Vec<Value> = problems::all()
        .iter()
        .filter_map(|problem| of(&new, &problem.spec).or_else(|| of(old, &problem.spec)))
        .collect();
    new["rows"] = json!(rows);
    new
}

/// Writes a record.
fn keep(path: &Path, record: &Value) -> Result<(), String> {
    let place = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(place)?;
    fs::write(path, lines_of(record)).map_err(place)
}

/// A record as text, a line for each row.
fn lines_of(record: &Value) -> String {
    let mut head = record.clone();
    let rows: Vec<String> = match head["rows"].take() {
        Value::Array(rows) => rows.iter().map(|row| format!("  {row}")).collect(),
        _ => Vec::new(),
    };
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in head.as_object().into_iter().flatten().filter(|(name, _)| *name != "rows") {
        lines.push(format!(" {}: {value}", json!(name)));
    }
    lines.push(format!(" \"rows\": [\n{}\n ]", rows.join(",\n")));
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `flcc bench --resident` says.
    const LINE: &str = concat!(
        r#"{"spec":"x","method":"direct","kernel":"k","median_ns":50000,"max_error":2e-7,"kernel_median_ns":12345,"#,
        r#""kernel_min_ns":12000,"kernel_max_ns":13000,"queued":true}"#
    );

    #[test]
    fn the_command_line_is_understood() {
        let read = |words: &[&str]| Options::read(words);
        assert_eq!(read(&[]), Ok(Options::default()));
        let all = Options { folder: Some("d".into()), record: true, only: vec!["u8".into(), "100x".into()] };
        assert_eq!(read(&["--only", "u8", "--record", "--bin-dir", "d", "--only", "100x"]), Ok(all.clone()));
        let wanted = problems::all().iter().filter(|problem| all.wants(problem)).count();
        assert_eq!(wanted, 4 + 6);
        for wrong in [&["--only"][..], &["--bin-dir", "--record"], &["u8"]] {
            assert!(read(wrong).unwrap_err().starts_with("gpu-bench"), "{wrong:?}");
        }
    }

    #[test]
    fn a_line_of_bench_becomes_a_row() {
        let row = row_of(LINE).unwrap();
        assert_eq!((&row["us"], &row["min_us"], &row["max_us"]), (&json!(12.35), &json!(12.0), &json!(13.0)));
        assert_eq!((&row["call_us"], &row["queued"]), (&json!(50.0), &json!(true)));
        let call = row_of(r#"{"median_ns":50000,"max_error":0}"#).unwrap();
        assert_eq!((&call["us"], call.get("queued")), (&json!(50.0), None));
        assert!(row_of(&LINE.replace("2e-7", "2e-2")).unwrap_err().contains("off by 2.0e-2"));
        assert!(row_of(&LINE.replace("max_error", "error")).is_err() && row_of("").is_err());
    }

    #[test]
    fn a_machine_without_a_gpu_says_so() {
        let told = card(r#"{"cuda":"no libcuda.so","devices":[]}"#).unwrap_err();
        assert_eq!(told, "gpu-bench: there is no GPU here: no libcuda.so");
        let found = card(r#"{"cuda":"driver 13.0","devices":[{"name":"NVIDIA H100 80GB HBM3"},{"name":"x"}]}"#);
        assert_eq!(found, Ok(("NVIDIA H100 80GB HBM3".to_string(), "driver 13.0".to_string())));
        assert_eq!(file_of("NVIDIA H100 80GB HBM3"), "nvidia-h100-80gb-hbm3.json");
    }

    #[test]
    fn what_was_not_measured_anew_stays() {
        let row = |spec: &str, us: f64| json!({"spec": spec, "us": us});
        let [first, second] = ["corr:f32:2000x2000*3x3:full", "corr:f32:2000x2000*5x5:full"];
        let old = json!({"card": "a", "rows": [row(first, 1.0), row(second, 2.0), row("gone", 3.0)]});
        let new = json!({"card": "a", "flcc": "2", "rows": [row(second, 4.0)]});
        let both = joined(Some(&old), new.clone());
        assert_eq!(both["rows"], json!([row(first, 1.0), row(second, 4.0)]));
        assert_eq!(joined(Some(&json!({"card": "b", "rows": old["rows"]})), new.clone()), new);
        assert_eq!(joined(None, new.clone()), new);
        // And as text, a line for each.
        let text = lines_of(&both);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), both);
        assert_eq!(text.lines().filter(|line| line.contains("spec")).count(), 2, "{text}");
    }

    /// Programs that say what a GPU's would, and a folder that is removed with them.
    #[cfg(unix)]
    struct Made(PathBuf);

    #[cfg(unix)]
    impl Made {
        fn new(name: &str, devices: &str, peers: &str) -> Made {
            use std::os::unix::fs::PermissionsExt;
            let folder = std::env::temp_dir().join(format!("flcc-gpu-bench-{}-{name}", std::process::id()));
            fs::create_dir_all(folder.join("benches/gpu")).unwrap();
            let program = format!(
                "#!/bin/sh\ncase $1 in devices) echo '{devices}';; --version) echo flcc 9;; *) case $2 in\n\
                 *u8*) echo 'error: refused' >&2; exit 3;; *) echo '{LINE}';; esac;; esac\n"
            );
            let path = folder.join("flcc");
            fs::write(&path, program).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(folder.join(PEERS), peers).unwrap();
            Made(folder)
        }

        fn run(&self, only: &str) -> Result<String, String> {
            let only = vec![only.to_string()];
            run(Path::new("nowhere"), &Options { folder: Some(self.0.clone()), record: true, only })
        }
    }

    #[cfg(unix)]
    impl Drop for Made {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[cfg(unix)]
    const DEVICES: &str = r#"{"cuda":"driver 13.0","devices":[{"name":"A card"}]}"#;

    #[cfg(unix)]
    #[test]
    fn a_run_is_told_and_kept() {
        let peers = r#"
import json, sys
print(json.dumps({"missing": "cupy", "reason": "no module"}))
print(json.dumps({"about": {"torch": "2"}}))
for spec in map(str.strip, sys.stdin):
    print(json.dumps({"spec": spec, "peer": "torch conv2d", "ns": 37035.0, "min_ns": 36000.0, "error": 1e-7}))
    print(json.dumps({"spec": spec, "peer": "oaconvolve", "skipped": "one template alone"}))
    print(json.dumps({"done": spec}), flush=True)
"#;
        let made = Made::new("kept", DEVICES, peers);
        let text = made.run("2000x2000*3x3").unwrap();
        let python = Command::new("python3").arg("--version").output().is_ok();
        let ratio =
            if python { "torch conv2d | 37.0 | 3.00 | 1.4, met | 1.6, met |" } else { "| - | - | - | 1.4 | 1.6 |" };
        assert!(text.contains("| 2000^2 k3 | 12.3 (12.0 to 13.0) | `k` | - |") && text.contains(ratio), "{text}");
        assert!(text.contains("A card, flcc 9, driver 13.0"), "{text}");
        made.run("2000x2000*5x5").unwrap();
        let kept = fs::read_to_string(made.0.join("benches/record/a-card.json")).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept["rows"].as_array().map(Vec::len), Some(2));
        if python {
            assert_eq!(kept["missing"]["cupy"], "no module");
            assert_eq!(kept["rows"][0]["absent"], json!(["oaconvolve: one template alone"]));
        }
        // What FLCC fails at is told, and fails the run.
        let told = made.run("u8:2000x2000*8x8").unwrap_err();
        assert!(
            told.contains("failed: error: refused") && told.contains("gpu-bench: FLCC failed at\nzncc:u8"),
            "{told}"
        );
        assert!(made.run("nothing").unwrap_err().contains("no spec has nothing in it"));
    }

    #[cfg(unix)]
    #[test]
    fn a_run_goes_on_without_peers() {
        let made = Made::new("alone", DEVICES, "raise SystemExit(1)");
        let text = made.run("2000x2000*3x3").unwrap();
        assert!(text.contains("missing: python3 (") && text.contains("1 not judged"), "{text}");
        let none = Made::new("none", r#"{"cuda":"no libcuda.so","devices":[]}"#, "");
        assert_eq!(none.run("3x3"), Err("gpu-bench: there is no GPU here: no libcuda.so".into()));
    }
}
