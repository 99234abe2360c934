//! `gpu-check`: everything that needs a GPU, and one line that says how it went. Runs prebuilt programs only.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use crate::dist;

mod bench;
mod listed;
mod log;

use bench::{cold_bench, field, forget, kernel_of, short_bench};
use log::{Log, Outcome};

/// Cases that the independent judge runs, each in a process of its own.
const SAMPLE: usize = 30;

/// Seconds that random problems take.
const FUZZED: &str = "120";

/// What is planned from nothing and what the sanitizers see: one size of each template, method by method, or kernels by
/// name that no method takes, small enough for their pace.
const SPECS: [(&str, &str); 43] = [
    ("direct", "corr:f32:150x161*7x7:full"),
    ("direct", "zncc:f32:150x161*16x16:same,reflect"),
    ("direct", "zncc:f32:330x361*8x8:full"),
    ("direct", "zncc:f64:150x161*7x7:full,mirror"),
    ("direct", "ncc:f64:150x161*7x7:same,wrap"),
    ("direct", "zncc:u8:150x161*7x7:same,wrap,acc=exact"),
    ("direct", "zncc:u16:150x161*16x16:full,acc=exact"),
    ("direct", "ncc:u8:2000*31:full,replicate"),
    ("direct", "nssd:f32:2000*31:full,constant(2.5)"),
    ("direct", "zncc:f32:20x41x52*5x5x5:full"),
    ("direct", "zncc:f32:150x161*7x9:valid"),
    ("direct", "ssd:u8:150x161*7x9:full,acc=exact"),
    ("direct", "zncc:f32:150x161*7x9:full,mask01"),
    ("direct", "sad:u16:150x161*7x9:full"),
    ("fourier", "corr:f32:150x161*16x16:full"),
    ("fourier", "conv:f32:330x361*64x40:same,reflect"),
    ("fourier", "zncc:f32:150x161*20x21:full"),
    ("fourier", "zncc:f32:330x361*64x40:same,reflect"),
    ("fourier", "zncc:u8:150x161*20x21:full"),
    ("fourier", "zncc:u16:150x161*20x21:same,constant(7)"),
    ("fourier", "zncc:u8:330x361*64x40:full,constant(3)"),
    ("fourier", "zncc:u16:330x361*64x40:same,mirror"),
    ("fourier", "ncc:f32:150x161*20x21:full"),
    ("fourier", "zncc:u8:150x161*20x21:same,acc=exact"),
    ("fourier", "nssd:f32:150x161*20x21:valid,maskw"),
    ("separable", "corr:f32:150x161*20x13:full"),
    ("separable", "zncc:f64:150x161*9x17:same,reflect"),
    ("znccmma_u8_any_b32x8", "zncc:u8:150x161*20x21:full"),
    ("znccmma_u8_any_b32x8", "zncc:u8:330x361*64x40:same,constant(3)"),
    ("znccmma_u8_any_b32x8", "zncc:u8:150x161*2x31:full"),
    ("direct", "corr:f32:150x161*3x3:full"),
    ("direct", "corr:f32:20x30x133*3x3x3:full"),
    ("fourier", "corr:f32:200x300*100x100:full"),
    ("fourier", "zncc:f32:200x300*100x100:full"),
    ("fourier", "corr:f32:150x400*9x230:full"),
    ("fourier", "zncc:f32:150x400*9x230:full"),
    ("fourier", "zncc:f32:150x400*9x430:full"),
    ("fourier", "corr:f32:30x41x52*9x9x9:full"),
    ("fourier", "zncc:f32:30x41x52*9x9x9:full"),
    ("fourier", "corr:f32:5000*500:full"),
    ("fourier", "corr:f32:30000*5000:full"),
    ("fourier", "corr:f32:0@64x64*24x24:valid,pairs"),
    ("fourier", "corr:f32:40x60x70*33x33x33:full"),
];

/// The tests that the sanitizers see: an image that has everything that the kernels for extraordinary samples are for,
/// and searches that ask for everything.
const SEEN: [&str; 2] = ["a_hard_image_is_computed_as_the_oracle_does", "peaks::a_device_finds_the_peaks_of_the_map"];

/// NVIDIA's sanitizers that each template runs under.
const TOOLS: [&str; 2] = ["memcheck", "racecheck"];

/// Runs every check with the programs of a folder that `dist` made; without one they are built first.
pub fn check(root: &Path, folder: Option<PathBuf>) -> Result<String, String> {
    let began = Instant::now();
    let folder = match folder {
        Some(folder) => folder,
        None => {
            let folder = root.join("target").join("gpu-check");
            dist::gather(root, &folder)?;
            folder
        }
    };
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let log = Log::default();
    let mut command = Command::new(folder.join("flcc"));
    log.run("devices", command.args(["devices", "--json"]).current_dir(&folder), devices);
    let test = |name: &str| {
        let mut command = Command::new(folder.join(name));
        command.current_dir(&folder).arg("--nocapture");
        command.env("FLCC_REQUIRE", "cuda,nvrtc");
        log.run(&format!("tests {name}"), &mut command, tests);
    };
    let test = &test;
    thread::scope(|scope| {
        // The compiler's tests take the longest, and no device.
        scope.spawn(move || test("nvrtc"));
        beside(&log, &folder, test)?;
        // It looks at how much memory of the device is free.
        test("gpu");
        Ok::<(), String>(())
    })?;
    log.summary(began.elapsed().as_secs_f64())
}

/// The checks that take the device side by side.
fn beside(log: &Log, folder: &Path, test: &(impl Fn(&str) + Sync)) -> Result<(), String> {
    thread::scope(|scope| {
        let planned = scope.spawn(|| plans(log, folder).and_then(|()| listed::check(log, folder)));
        TOOLS.into_iter().for_each(|tool| {
            scope.spawn(move || sanitize(log, folder, tool));
        });
        scope.spawn(|| fuzz(log, folder));
        scope.spawn(|| test("promises"));
        for data in ["vectors", "real"] {
            for (method, one_in) in [("auto", None), ("direct", None), ("fourier", Some(2)), ("separable", Some(3))] {
                let path = format!("conformance/{data}");
                let mut command = Command::new(folder.join("flcc"));
                command.args(["conformance", &path, "--platform", "cuda", "--method", method]).current_dir(folder);
                log.run(&format!("conformance {data} {method}"), &mut command, |output| counts(output, one_in));
            }
        }
        let judged = judge(log, folder);
        planned.join().unwrap_or_else(|_| Err("the check of plans panicked".into())).and(judged)
    })
}

/// The first device's name.
fn devices(output: &str) -> Result<String, String> {
    let devices = output.split_once("\"devices\":[").ok_or("no list of devices")?.1;
    let name = devices.split_once("\"name\":\"").ok_or_else(|| format!("no device: {}", output.trim()))?.1;
    Ok(name.split('"').next().unwrap_or_default().to_string())
}

/// The line of a judge that has run cases: none failed and none was refused, or where some may be, more than one in so
/// many passed.
fn counts(output: &str, one_in: Option<usize>) -> Result<String, String> {
    let line = output.lines().rev().find(|line| line.starts_with("RESULT cases ")).ok_or("no line with the counts")?;
    let words: Vec<&str> = line.split([' ', ';']).collect();
    let number = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse::<usize>().ok()
    };
    let (Some(cases), Some(pass), Some(fail)) = (number("cases"), number("pass"), number("fail")) else {
        return Err(format!("not understood: {line}"));
    };
    let refused = output.lines().filter(|line| line.starts_with("SKIP ") && line.contains("refused")).count();
    let enough = one_in.map_or(refused == 0 && pass > 0, |many| many * pass > cases);
    if fail == 0 && enough { Ok(line.to_string()) } else { Err(format!("{refused} refused; {line}")) }
}

/// The line of a test program, if any test passed.
fn tests(output: &str) -> Result<String, String> {
    let line =
        output.lines().rev().find(|line| line.starts_with("test result: ok.")).ok_or("no line with the result")?;
    if line.contains(" 0 passed") { Err(line.into()) } else { Ok(line.trim_start_matches("test result: ").into()) }
}

/// Whether there is a Python for a judge; its absence is told.
fn has_numpy(log: &Log, name: &str) -> bool {
    let found =
        Command::new("python3").args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success());
    if !found {
        log.add(name, Outcome::Absent, "no python3 with numpy", 0.0);
    }
    found
}

/// Random problems made to hurt, from a fresh seed, against an oracle of their own.
fn fuzz(log: &Log, folder: &Path) {
    let name = "fuzz.py";
    if !has_numpy(log, name) {
        return;
    }
    let mut command = Command::new("python3");
    command.arg(folder.join("conformance/fuzz.py")).arg("--flcc").arg(folder.join("flcc"));
    command.args(["--platform", "cuda", "--seconds", FUZZED]);
    log.run(name, &mut command, violations);
}

/// The last line of the fuzzer, if it judged some cases and found none wrong.
fn violations(output: &str) -> Result<String, String> {
    let line = output.lines().rev().find(|line| line.contains("; violations ")).ok_or("no line with the violations")?;
    let cases = line.split(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    if cases > 0 && line.contains("; violations 0") { Ok(line.into()) } else { Err(line.into()) }
}

/// A sample of the vectors by the independent judge, which is Python.
fn judge(log: &Log, folder: &Path) -> Result<(), String> {
    let name = "run_vectors.py";
    if !has_numpy(log, name) {
        return Ok(());
    }
    let index = folder.join("conformance/vectors/index.json");
    let index = fs::read_to_string(&index).map_err(|error| format!("{}: {error}", index.display()))?;
    let candidate = format!(
        "'{}' {{op}} --platform cuda --mode {{mode}} --boundary {{boundary}} [[--cval {{cval}}]] \
         [[--measure {{measure}}]] [[--mask {{mask}}]] {{image}} {{template}} -o {{out}}",
        folder.join("flcc").display()
    );
    let mut command = Command::new("python3");
    command.arg(folder.join("conformance/run_vectors.py")).arg("--vectors").arg(folder.join("conformance/vectors"));
    command.args(["--refusal-status", "3", "--filter", &sample(&index), "--cmd", &candidate]);
    log.run(name, &mut command, |output| counts(output, None));
    Ok(())
}

/// A pattern for [`SAMPLE`] of the cases, spread over all of them.
fn sample(index: &str) -> String {
    let ids: Vec<&str> =
        index.lines().filter_map(|line| line.trim().strip_prefix("\"id\": \"")?.strip_suffix("\",")).collect();
    let chosen: Vec<&str> =
        (0..SAMPLE.min(ids.len())).map(|number| ids[number * ids.len() / SAMPLE.min(ids.len())]).collect();
    format!("^({})$", chosen.join("|"))
}

/// Largest error of a benched spec, as bench tells it.
const MOST_ERROR: f64 = 1e-5;

/// The times to plan each spec: cold, in a process of its own with no code kept, and warm, again in that process.
/// Results decide, times do not.
fn plans(log: &Log, folder: &Path) -> Result<(), String> {
    let mut times = Vec::new();
    for (method, spec) in SPECS {
        log.run(&format!("plan {method} {spec}"), &mut cold_bench(folder, method, spec), |output| {
            let error = field(output, "max_error")?;
            if error.is_nan() || error > MOST_ERROR {
                return Err(format!("error {error:e}, expected at most {MOST_ERROR:e}"));
            }
            let (cold, warm) = (field(output, "plan_ns")?, field(output, "warm_plan_ns")?);
            times.push((cold, warm));
            Ok(format!("cold {:.1} ms, warm {:.2} ms, error {error:e}", cold / 1e6, warm / 1e6))
        });
        forget()?;
    }
    let worst = |time: fn(&(f64, f64)) -> f64| times.iter().map(time).fold(0.0, f64::max) / 1e6;
    println!(
        "       the worst of {} plans: cold {:.1} ms, warm {:.2} ms",
        times.len(),
        worst(|time| time.0),
        worst(|time| time.1)
    );
    Ok(())
}

/// One size of each template under one of NVIDIA's sanitizers.
fn sanitize(log: &Log, folder: &Path, tool: &str) {
    let found = env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join("compute-sanitizer").is_file()));
    if !found {
        log.add(&format!("sanitizer {tool}"), Outcome::Absent, "no compute-sanitizer on the path", 0.0);
        return;
    }
    for (method, spec) in SPECS {
        let mut command = Command::new("compute-sanitizer");
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(folder.join("flcc"));
        command.args(short_bench(method, spec));
        log.run(&format!("sanitizer {tool} {method} {spec}"), &mut command, |output| {
            kernel_of(output).map(str::to_string)
        });
    }
    // Images with NaN, infinities, one huge pixel and constant parts, which only some kernels ever see.
    for test in SEEN {
        let mut command = Command::new("compute-sanitizer");
        command.args(["--tool", tool, "--error-exitcode", "9"]).arg(folder.join("gpu"));
        command.args(["--exact", test]).current_dir(folder).env("FLCC_REQUIRE", "cuda");
        log.run(&format!("sanitizer {tool} {test}"), &mut command, tests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_is_understood() {
        let line = "RESULT cases 250 pass 240 fail 0 skip 10; worst error 1e-6 = 0.1 x tolerance (a)";
        assert_eq!(counts(&format!("x\n{line}\n"), None), Ok(line.to_string()));
        assert!(counts(&line.replace("fail 0", "fail 1"), None).is_err());
        assert!(counts(&line.replace("pass 240", "pass 0"), Some(2)).is_err());
        assert!(counts(&format!("SKIP a  refused: no\n{line}"), None).is_err());
        assert!(counts(&format!("SKIP a  refused: no\n{line}"), Some(2)).is_ok());
        assert!(counts("RESULT cases many", None).is_err() && counts("", Some(2)).is_err());
    }

    #[test]
    fn tests_that_did_not_run_do_not_pass() {
        assert!(tests("test result: ok. 3 passed; 0 failed").is_ok());
        assert!(tests("test result: ok. 0 passed; 0 failed; 3 filtered out").is_err());
        assert!(tests("test result: FAILED. 2 passed; 1 failed").is_err());
    }

    #[test]
    fn random_problems_are_understood() {
        let line =
            "15348 cases in 398 s, 39 a second, 1661 of them refusals and errors that were due; seed 7; violations 0";
        assert_eq!(violations(&format!("x\n{line}\n")), Ok(line.to_string()));
        assert!(violations(&line.replace("violations 0", "violations 2, files in x")).is_err());
        assert!(violations(&line.replace("15348", "0")).is_err() && violations("").is_err());
    }

    #[test]
    fn a_device_has_a_name() {
        assert_eq!(devices(r#"{"devices":[{"index":0,"name":"A B"}]}"#), Ok("A B".to_string()));
        assert!(devices(r#"{"cuda":"no driver","devices":[],"fingerprint":"x"}"#).is_err());
    }

    #[test]
    fn a_sample_is_spread_over_all_cases() {
        let index: String =
            (0..90).map(|number| format!("   \"id\": \"c{number}\",\n   \"op\": \"conv\",\n")).collect();
        let pattern = sample(&index);
        assert!(pattern.starts_with("^(c0|c3|c6|") && pattern.ends_with("|c87)$"), "{pattern}");
        assert_eq!(sample("   \"id\": \"a\",\n"), "^(a)$");
    }
}
