//! `tune`: measures a machine, writes its profile, and builds FLCC for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::generate;
use crate::profile::{self, KINDS, Profile, Sizes};

/// How many specs costs are fitted to, and with `--quick`.
const SPECS: [&str; 2] = ["200", "60"];

/// How far beyond its last size a list is tried: squares, cubes, lines.
const BEYOND: [usize; 3] = [8, 2, 16];

/// What programs of before and after are compared by.
const COMPARED: [&str; 8] = [
    "corr:f32:1000x1000*5x5:valid",
    "corr:f32:1000x1000*16x16:valid",
    "corr:f64:600x600*9x9:valid",
    "zncc:f32:1000x1000*8x8:valid",
    "zncc:f32:1000x1000*32x32:valid",
    "zncc:u8:1000x1000*24x24:valid",
    "corr:f32:64x64x64*5x5x5:valid",
    "zncc:f32:1000000*100:valid",
];

/// What is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Less, in a few minutes.
    pub quick: bool,
    /// Costs and lists of sizes of the GPU in the place of the CPU's.
    pub cuda: bool,
    /// The folder of what was measured on another machine: [`COSTS`] and, if there, [`GAINS`].
    pub from: Option<PathBuf>,
}

/// What `flcc tune --json` prints, in a folder of a machine without a checkout.
const COSTS: &str = "costs.json";

/// What `flcc tune --unroll --json` prints there.
const GAINS: &str = "sizes.jsonl";

impl Options {
    /// Reads `--quick`, `--cuda`, `--cpu` and `--from FOLDER`.
    ///
    /// # Errors
    /// Another word.
    pub fn read(words: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => options.quick = true,
                "--cuda" => options.cuda = true,
                "--cpu" => options.cuda = false,
                "--from" => {
                    let folder = words.next().ok_or("tune: expected a folder behind --from, got nothing")?;
                    options.from = Some(PathBuf::from(folder));
                }
                other => return Err(format!("tune: expected --quick, --cpu, --cuda or --from, got {other:?}")),
            }
        }
        Ok(options)
    }
}

/// A size's own kernel beside the one for any.
#[derive(Clone, Debug, PartialEq)]
struct Gain {
    /// Which list: squares, cubes or lines.
    kind: usize,
    size: usize,
    pays: bool,
    ratio: f64,
}

/// Measures, writes the profile, renders and builds by it, and tells what changed.
///
/// # Errors
/// A name that no file can have, a program that does not build or fails, results that are not those of the vectors.
pub fn run(root: &Path, name: &str, options: &Options) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name == profile::USUAL || !name.chars().all(plain) {
        let usual = profile::USUAL;
        return Err(format!("tune: expected a name of a-z, 0-9 and -, other than {usual}, got {name:?}"));
    }
    let began = profile::chosen(root);
    if let Some(folder) = &options.from {
        let listed = profile::one(root, &began)?;
        let read = |file: &str| fs::read_to_string(folder.join(file));
        let costs = read(COSTS).map_err(|error| format!("{}: {error}", folder.join(COSTS).display()))?;
        let fitted = serde_json::from_str(costs.trim()).map_err(|error| format!("{COSTS}: {error}"))?;
        let gains = match read(GAINS) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            gains => gains.map_err(|error| format!("{}: {error}", folder.join(GAINS).display()))?,
        };
        let gains = gains.lines().map(read_gain).collect::<Result<Vec<_>, _>>()?;
        let lists = if options.cuda { &listed.cuda } else { &listed.cpu };
        let tuned = describe(name, &listed, &fitted, &gains, keep(lists, &gains), options)?;
        let file = root.join(profile::FOLDER).join(format!("{name}.toml"));
        fs::write(&file, tuned.text()).map_err(|error| format!("{}: {error}", file.display()))?;
        let told = generate::write_profile(root, &began)?;
        return Ok(format!("{}: {}\n{told}; sizes are those of {began}", file.display(), tuned.measured.join("; ")));
    }
    let begun = Instant::now();
    let (program, before) = built(root)?;
    let old = root.join("target/tune-before");
    fs::copy(&program, &old).map_err(|error| format!("{}: {error}", old.display()))?;
    println!("built in {:.0} s, {:.1} MB", before.seconds, before.megabytes);

    let fitted = fit(&old, options)?;
    let listed = profile::one(root, &began)?;
    let platform = usize::from(options.cuda);
    let lists = if options.cuda { &listed.cuda } else { &listed.cpu };
    let mut gains = gains(&old, options)?;
    if !options.quick {
        gains.extend(beyond(root, &listed, options)?);
    }
    let kept = keep(lists, &gains);
    let tuned = describe(name, &listed, &fitted, &gains, kept, options)?;
    let file = root.join(profile::FOLDER).join(format!("{name}.toml"));
    fs::write(&file, tuned.text()).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{}: {}", file.display(), tuned.measured.join("; "));
    for (kind, (old, new)) in KINDS.iter().zip(lists.iter().zip([&tuned.cpu, &tuned.cuda][platform])) {
        println!("{kind}: {} sizes, {} before", count(new), count(old));
    }

    println!("{}", generate::write_profile(root, name)?);
    let (program, after) = built(root)?;
    let told = said(Command::new(&program).args(["conformance", "conformance/vectors"]).current_dir(root))?;
    println!("conformance: {}", told.lines().last().unwrap_or_default());
    let table = compare(&old, &program, options)?;
    Ok(format!(
        "{table}\nbuild {:.0} s and {:.1} MB before, {:.0} s and {:.1} MB after; {:.0} s in all. \
         `cargo xtask gen --profile {began}` takes it back",
        before.seconds,
        before.megabytes,
        after.seconds,
        after.megabytes,
        begun.elapsed().as_secs_f64()
    ))
}

/// What a build took.
struct Build {
    seconds: f64,
    megabytes: f64,
}

/// Builds the program.
fn built(root: &Path) -> Result<(PathBuf, Build), String> {
    let begun = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--bin", "flcc", "--message-format", "json-render-diagnostics"]);
    let told = said(command.current_dir(root))?;
    let program = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut program = program.filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)));
    let program = program.next_back().ok_or("cargo build: expected a program named flcc, got none")?;
    let bytes = fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    Ok((program, Build { seconds: begun.elapsed().as_secs_f64(), megabytes: bytes as f64 / 1e6 }))
}

/// What a command printed; what it says of its progress is shown.
fn said(command: &mut Command) -> Result<String, String> {
    let words = format!("{command:?}");
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{words}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{words}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{words}: {error}"))
}

/// A number of a line of JSON.
fn number(value: &Value, key: &str) -> Result<f64, String> {
    value.get(key).and_then(Value::as_f64).ok_or_else(|| format!("expected a number {key}, got {value}"))
}

/// What `flcc tune` fits.
fn fit(program: &Path, options: &Options) -> Result<Value, String> {
    let count = SPECS[usize::from(options.quick)];
    let mut command = Command::new(program);
    command.args(["tune", "--json", "--count", count]);
    if options.cuda {
        command.args(["--platform", "cuda"]);
    }
    let told = said(&mut command)?;
    serde_json::from_str(told.trim()).map_err(|error| format!("flcc tune: {error}"))
}

/// What kernels of their own bring to the listed sizes.
fn gains(program: &Path, options: &Options) -> Result<Vec<Gain>, String> {
    let mut command = Command::new(program);
    command.args(["tune", "--unroll", "--json"]);
    if options.cuda {
        command.args(["--platform", "cuda"]);
    }
    said(&mut command)?.lines().map(read_gain).collect()
}

/// Reads a line of `flcc tune --unroll --json`.
fn read_gain(line: &str) -> Result<Gain, String> {
    let wrong = || format!("expected a line of flcc tune --unroll --json, got {line:?}");
    let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
    let spec = value.get("spec").and_then(Value::as_str).ok_or_else(wrong)?;
    let template = spec.split('*').nth(1).and_then(|rest| rest.split(':').next()).ok_or_else(wrong)?;
    let sides: Vec<usize> = template.split('x').filter_map(|side| side.parse().ok()).collect();
    let kind = match sides.len() {
        1 => 2,
        2 => 0,
        3 => 1,
        _ => return Err(wrong()),
    };
    let pays = value.get("pays").and_then(Value::as_bool).ok_or_else(wrong)?;
    Ok(Gain { kind, size: sides[0], pays, ratio: number(&value, "any_ns")? / number(&value, "own_ns")? })
}

/// What kernels of their own would bring to sizes behind the last of each list: a build that has them is timed.
fn beyond(root: &Path, listed: &Profile, options: &Options) -> Result<Vec<Gain>, String> {
    let mut wider = Profile { name: "trial".into(), ..listed.clone() };
    let lists = if options.cuda { &mut wider.cuda } else { &mut wider.cpu };
    let before = lists.clone();
    for (list, more) in lists.iter_mut().zip(BEYOND) {
        let last = list.last().map_or(1, |range| *range.end());
        *list = profile::listed(list.iter().cloned().flatten().chain(last + 1..=(last + more).min(256)).collect());
    }
    let file = root.join(profile::FOLDER).join("trial.toml");
    fs::write(&file, wider.text()).map_err(|error| format!("{}: {error}", file.display()))?;
    let tried = generate::write_profile(root, "trial").and_then(|_| {
        let (program, _) = built(root)?;
        gains(&program, options)
    });
    fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    generate::write_profile(root, &listed.name)?;
    let new = |gain: &Gain| !before[gain.kind].iter().any(|range| range.contains(&gain.size));
    Ok(tried?.into_iter().filter(new).collect())
}

/// The sizes that stay: those whose kernel pays for one type at least, and those that nothing was measured for.
fn keep(lists: &[Sizes; 3], gains: &[Gain]) -> [Sizes; 3] {
    [0, 1, 2].map(|kind| {
        let of = |size: usize| gains.iter().filter(move |gain| gain.kind == kind && gain.size == size);
        let measured = gains.iter().filter(|gain| gain.kind == kind).map(|gain| gain.size);
        let all = lists[kind].iter().cloned().flatten().chain(measured);
        profile::listed(all.filter(|&size| of(size).next().is_none() || of(size).any(|gain| gain.pays)).collect())
    })
}

fn count(list: &Sizes) -> usize {
    list.iter().cloned().flatten().count()
}

/// The profile of what was measured.
fn describe(
    name: &str,
    listed: &Profile,
    fitted: &Value,
    gains: &[Gain],
    kept: [Sizes; 3],
    options: &Options,
) -> Result<Profile, String> {
    let word = |key: &str| -> Result<String, String> {
        let text = fitted.get(key).and_then(Value::as_str).map(str::to_string);
        text.ok_or_else(|| format!("flcc tune: expected {key}, got none"))
    };
    let (processor, instructions) = (word("processor")?, word("instructions")?);
    if instructions.starts_with("sm_") != options.cuda {
        let expected = if options.cuda { "a GPU's, as `flcc tune --platform cuda --json` prints" } else { "a CPU's" };
        return Err(format!("tune: expected costs that are {expected}, got those of {processor} ({instructions})"));
    }
    let costs = fitted.get("costs").and_then(Value::as_object).ok_or("flcc tune: expected costs, got none")?;
    let costs = costs.iter().filter_map(|(term, ns)| Some((term.clone(), ns.as_f64()?))).collect();
    let errors = |key: &str| -> Result<String, String> {
        let both = fitted.get(key).and_then(Value::as_array).map(Vec::as_slice);
        match both.map(|both| both.iter().filter_map(Value::as_f64).collect::<Vec<_>>()).as_deref() {
            Some([median, worst]) => Ok(format!("median {median:.2}, worst {worst:.1}")),
            _ => Err(format!("flcc tune: expected two numbers {key}, got {fitted}")),
        }
    };
    let mut ratios: Vec<f64> = gains.iter().map(|gain| gain.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
    let measured = vec![
        match options.cuda {
            true => format!("{processor}, {instructions}"),
            false => format!("{processor}, {} cores", number(fitted, "cores")?),
        },
        format!(
            "costs by {} ways to compute {} specs{}",
            number(fitted, "samples")?,
            number(fitted, "specs")?,
            fitted.get("timed").and_then(Value::as_str).map_or_else(String::new, |timed| format!(", timed {timed}"))
        ),
        format!(
            "held out, estimate over time or the inverse: {} before, {} after",
            errors("before")?,
            errors("after")?
        ),
        match gains.len() {
            0 => format!("sizes were not timed: they are those of {}", listed.name),
            timed => format!(
                "{timed} sizes' own kernels timed beside those for any: {} pay, median {middle:.2} times as fast",
                gains.iter().filter(|gain| gain.pays).count()
            ),
        },
    ];
    let (cpu, cuda) = if options.cuda { (listed.cpu.clone(), kept) } else { (kept, listed.cuda.clone()) };
    Ok(Profile { name: name.into(), cpu, cuda, processor: Some([processor, instructions]), costs, measured })
}

/// Both programs in turns, the least median of three each.
fn compare(old: &Path, new: &Path, options: &Options) -> Result<String, String> {
    let mut lines = vec![format!("{:34}  {:>10}  {:>10}  ratio", "spec", "before ms", "after ms")];
    for spec in COMPARED {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..3 {
            for (program, least) in [old, new].into_iter().zip(&mut least) {
                let mut command = Command::new(program);
                command.args(["bench", spec, "--json", "--effort", "estimate", "--seconds", "0.2"]);
                if options.cuda {
                    command.args(["--platform", "cuda"]);
                }
                let told = said(&mut command)?;
                let value: Value = serde_json::from_str(told.trim()).map_err(|error| format!("flcc bench: {error}"))?;
                *least = least.min(number(&value, "median_ns")? / 1e6);
            }
        }
        lines.push(format!("{spec:34}  {:10.4}  {:10.4}  {:5.2}", least[0], least[1], least[0] / least[1]));
    }
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(spec: &str, pays: bool) -> Gain {
        let line = format!("{{\"spec\":\"{spec}\",\"own_ns\":10.0,\"any_ns\":15.0,\"pays\":{pays}}}");
        read_gain(&line).unwrap()
    }

    #[test]
    fn sizes_stay_that_pay_for_a_type() {
        let lists = ["2-4", "2", "9"].map(|list| profile::sizes(list).unwrap());
        let gains = [
            gain("corr:f32:300x300*2x2:valid", false),
            gain("corr:f64:300x300*2x2:valid", true),
            gain("corr:f32:300x300*3x3:valid", false),
            gain("corr:f32:300x300*7x7:valid", true),
            gain("corr:f32:9x9x9*2x2x2:valid", false),
            gain("corr:f32:100*11:valid", false),
        ];
        assert_eq!((gains[4].kind, gains[4].size, gains[5].kind, gains[5].ratio), (1, 2, 2, 1.5));
        // 4 was not measured, and stays; 7 is new.
        assert_eq!(keep(&lists, &gains), ["2, 4, 7", "", "9"].map(|list| profile::sizes(list).unwrap()));
        assert!(read_gain("spec").unwrap_err().contains("flcc tune --unroll"));
    }

    #[test]
    fn a_profile_says_what_was_measured() {
        let listed = Profile::read("usual", "[unroll]\nsquare = \"2-3\"\ncube = \"2\"\nline = \"2\"\n").unwrap();
        let fitted: Value = serde_json::from_str(
            "{\"processor\":\"P\",\"instructions\":\"avx2\",\"cores\":2,\"specs\":60,\"samples\":300,\
             \"timed\":\"as whole calls\",\"before\":[1.2,3.0],\"after\":[1.1,2.0],\
             \"costs\":{\"call\":700.5,\"tile\":300.0}}",
        )
        .unwrap();
        let gains = [gain("corr:f32:300x300*2x2:valid", true)];
        let kept = keep(&listed.cpu, &gains);
        let tuned = describe("here", &listed, &fitted, &gains, kept, &Options::default()).unwrap();
        assert_eq!(tuned.processor, Some(["P".into(), "avx2".into()]));
        assert_eq!(tuned.costs, [("call".to_string(), 700.5), ("tile".to_string(), 300.0)]);
        assert_eq!(tuned.measured[1], "costs by 300 ways to compute 60 specs, timed as whole calls");
        assert_eq!(
            tuned.measured[3],
            "1 sizes' own kernels timed beside those for any: 1 pay, median 1.50 times as fast"
        );
        assert_eq!(Profile::read("here", &tuned.text()), Ok(tuned));
        let untimed = describe("here", &listed, &fitted, &[], listed.cpu.clone(), &Options::default()).unwrap();
        assert_eq!(untimed.measured[3], "sizes were not timed: they are those of usual");
        assert_eq!(untimed.cpu, listed.cpu);
        let cuda = Options { cuda: true, ..Options::default() };
        let wrong = describe("here", &listed, &fitted, &gains, listed.cuda.clone(), &cuda).unwrap_err();
        assert!(wrong.contains("a GPU's") && wrong.contains("got those of P (avx2)"), "{wrong}");
        assert!(describe("x", &listed, &Value::Null, &gains, listed.cpu.clone(), &Options::default()).is_err());
    }

    #[test]
    fn names_and_options_that_are_none_are_told() {
        assert!(run(Path::new("."), "usual", &Options::default()).unwrap_err().contains("other than usual"));
        assert!(run(Path::new("."), "../x", &Options::default()).unwrap_err().contains("expected a name"));
        assert!(Options::read(&["--fast"]).unwrap_err().contains("--quick"));
        assert_eq!(Options::read(&["--quick", "--cuda"]), Ok(Options { quick: true, cuda: true, from: None }));
        let from = Options::read(&["--cuda", "--from", "measured"]).unwrap();
        assert_eq!(from.from, Some(PathBuf::from("measured")));
        assert!(Options::read(&["--from"]).unwrap_err().contains("a folder behind --from"));
    }
}
