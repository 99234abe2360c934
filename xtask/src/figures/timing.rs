//! Points timed by the program `flcc`, as long as there is time.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::experiments::{Batch, Feed, Method, Point, STREAM};
use super::rows::{Answer, Row};

/// Positions of each result that are checked before it is timed: enough to notice what is wrong, few enough to be
/// checked in no time.
const POSITIONS: &str = "256";

/// What times points.
pub trait Timer {
    /// Times points of one batch, one after another, and tells what was found of each; ends early when time is up.
    ///
    /// # Errors
    /// A program that does not answer as it should.
    fn time(&mut self, points: &[Point], told: &mut dyn FnMut(Row)) -> Result<(), String>;

    /// Whether time is up.
    fn is_over(&self) -> bool;
}

/// Goes through the rounds until time is up; what was found, and how many points there were.
pub fn measure(rounds: &[Vec<Batch>], timer: &mut dyn Timer) -> Result<(Vec<Row>, usize), String> {
    let mut rows = Vec::new();
    let all = rounds.iter().flatten().map(|batch| batch.points.len()).sum();
    for batch in rounds.iter().flatten() {
        if timer.is_over() {
            break;
        }
        timer.time(&batch.points, &mut |row| rows.push(row))?;
    }
    Ok((rows, all))
}

/// The program `flcc`.
pub struct Program {
    /// Where it is.
    path: PathBuf,
    /// Until when it may run.
    end: Instant,
    /// For how long a point is repeated, in seconds.
    seconds: f64,
    /// The effort of choices.
    effort: &'static str,
}

impl Program {
    /// The program of this path, which may run so long, repeats each point for so many seconds and chooses by this
    /// effort.
    pub fn new(path: &Path, for_how_long: Duration, seconds: f64, effort: &'static str) -> Program {
        Program { path: path.to_path_buf(), end: Instant::now() + for_how_long, seconds, effort }
    }

    /// The fields of `flcc devices`, and of `flcc --version`, that a reader of figures asks for.
    ///
    /// # Errors
    /// A program that does not run.
    pub fn machine(&self) -> Result<HashMap<&'static str, String>, String> {
        let run = |arguments: &[&str]| {
            let output = Command::new(&self.path).args(arguments).output();
            let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
                false => Err(format!("flcc {}: {}", arguments.join(" "), output.status)),
            }
        };
        let devices = run(&["devices", "--json"])?;
        let value: Value = serde_json::from_str(&devices).map_err(|error| format!("flcc devices --json: {error}"))?;
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let mut machine = HashMap::from([
            ("cpu", text(&value["model"])),
            ("cores", text(&value["cores"])),
            ("flcc", run(&["--version"])?),
        ]);
        if let Some(device) = value["devices"].as_array().and_then(|devices| devices.first()) {
            machine.insert("gpu", text(&device["name"]));
        }
        Ok(machine)
    }

    /// The call for points of one batch.
    fn command(&self, points: &[Point]) -> Option<Command> {
        let first = points.first()?;
        let mut command = Command::new(&self.path);
        if first.is_choice() {
            command.args(["plan", "--effort", self.effort]);
        } else {
            command.args(["bench", "--seconds", &self.seconds.to_string(), "--method", &first.method.to_string()]);
            command.args(["--positions", POSITIONS]);
            if first.feed == Feed::Single {
                command.arg("--bind");
            }
        }
        let threads = first.threads.to_string();
        command.args(["--json", "--platform", &first.platform.to_string(), "--threads", &threads, "--"]);
        command.args(points.iter().map(Point::spec));
        // What others taught the planner is not asked.
        command.env_remove("FLCC_WISDOM").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(command)
    }

    /// Times points up to the first that fails; how many were answered, and why the next one was not.
    fn call(&self, points: &[Point], told: &mut dyn FnMut(Row)) -> Result<(usize, Option<String>), String> {
        let Some(mut command) = self.command(points) else { return Ok((0, None)) };
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.path.display()))?;
        let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("flcc: no pipe".into());
        };
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            let _ = err.read_to_end(&mut said);
            String::from_utf8_lossy(&said).trim().to_string()
        });
        let (send, lines) = channel();
        thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut answered = 0;
        loop {
            let line = match lines.recv_timeout(self.end.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok((answered, None));
                }
            };
            let point = points.get(answered).ok_or_else(|| format!("flcc: a line more than specs: {line}"))?;
            told(Row { point: point.clone(), answer: Ok(answer(point, &line)?) });
            answered += 1;
        }
        let status = child.wait().map_err(|error| format!("flcc: {error}"))?;
        let said = said.join().unwrap_or_default();
        match status.success() {
            true if answered == points.len() => Ok((answered, None)),
            true => Err(format!("flcc: expected {} lines, got {answered}", points.len())),
            false => Ok((answered, Some(said.lines().last().unwrap_or("it failed and said nothing").to_string()))),
        }
    }
}

impl Timer for Program {
    fn time(&mut self, points: &[Point], told: &mut dyn FnMut(Row)) -> Result<(), String> {
        let mut left = points;
        while !left.is_empty() && !self.is_over() {
            let (answered, failure) = self.call(left, told)?;
            let Some(reason) = failure else { return Ok(()) };
            // A point that is refused ends the program: the others are asked for again without it.
            let Some((refused, rest)) = left[answered..].split_first() else { return Err(reason) };
            told(Row { point: refused.clone(), answer: Err(reason) });
            left = rest;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }
}

/// What a line of `flcc bench --json` or `flcc plan --json` says of a point.
fn answer(point: &Point, line: &str) -> Result<Answer, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("flcc: {error}: {line}"))?;
    let text = |key: &str| value[key].as_str().ok_or_else(|| format!("flcc: no {key}: {line}"));
    if text("spec")? != point.spec() {
        return Err(format!("flcc: expected {}, got {}", point.spec(), text("spec")?));
    }
    let (took, kernel) = (text("method")?.parse::<Method>()?, text("kernel")?.to_string());
    if point.is_choice() {
        let candidates = value["candidates"].as_array().into_iter().flatten();
        let ns = candidates.filter(|one| one["kernel"] == *kernel).find_map(|one| one["least_ns"].as_f64());
        return Ok(Answer { ns, least_ns: None, runs: None, max_error: None, took, kernel });
    }
    let images = if point.feed == Feed::Stream { STREAM as f64 } else { 1.0 };
    let number = |key: &str| value[key].as_f64().ok_or_else(|| format!("flcc: no {key}: {line}"));
    Ok(Answer {
        ns: Some(number("median_ns")? / images),
        least_ns: Some(number("min_ns")? / images),
        runs: Some(number("runs")? as u64),
        max_error: Some(number("max_error")?),
        took,
        kernel,
    })
}

#[cfg(test)]
mod tests {
    use super::super::experiments::{Extent, Op, Platform, Shape, rounds};
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    /// A timer to which each point takes one unit of time.
    struct Fake {
        left: usize,
    }

    impl Timer for Fake {
        fn time(&mut self, points: &[Point], told: &mut dyn FnMut(Row)) -> Result<(), String> {
            for point in points.iter().take(self.left) {
                told(Row { point: point.clone(), answer: Err("made up".into()) });
            }
            self.left -= points.len().min(self.left);
            Ok(())
        }

        fn is_over(&self) -> bool {
            self.left == 0
        }
    }

    #[test]
    fn as_much_is_measured_as_there_is_time_for() {
        let platforms = vec![Platform::Cpu, Platform::Cuda];
        let rounds = rounds(&Extent { platforms, quick: false, estimated: false }, HashSet::new());
        let count = |round: &[Batch]| round.iter().map(|batch| batch.points.len()).sum::<usize>();
        let first = count(&rounds[0]);
        let per_file = |units: usize| {
            let (rows, all) = measure(&rounds, &mut Fake { left: units }).unwrap();
            assert_eq!(all, rounds.iter().map(|round| count(round)).sum::<usize>());
            assert_eq!(rows.len(), units.min(all));
            let mut files = BTreeMap::new();
            rows.iter().for_each(|row| *files.entry(row.point.file).or_insert(0) += 1);
            files
        };
        // Time for the first round is enough for something of all; more time refines it.
        assert_eq!(per_file(first).len(), super::super::rows::files().len());
        assert!(per_file(first + count(&rounds[1])).iter().all(|(file, count)| *count >= per_file(first)[file]));
        assert_eq!(per_file(usize::MAX / 2)["fig-5-01"], 31 * 8);
        assert!(per_file(0).is_empty());
    }

    fn point(side: usize) -> Point {
        Point {
            file: "fig-5-01",
            platform: Platform::Cpu,
            op: Op::Conv,
            method: Method::Direct,
            feed: Feed::Stream,
            threads: 0,
            image: Shape::of(50, 2),
            template: Shape::of(side, 2),
        }
    }

    #[test]
    fn a_line_is_an_answer_of_its_point() {
        let line = r#"{"spec":"conv:f32:10@50x50*3x3:full","method":"direct","kernel":"k","threads":2,
            "median_ns":1000,"min_ns":900,"runs":3,"max_error":1e-7}"#;
        let found = answer(&point(3), line).unwrap();
        assert_eq!((found.ns, found.least_ns, found.took), (Some(100.0), Some(90.0), Method::Direct));
        assert!(answer(&point(4), line).unwrap_err().contains("expected conv:f32:10@50x50*4x4:full"));
        assert!(answer(&point(3), "{").unwrap_err().starts_with("flcc: "));
        let choice = Point { file: "fig-5-16", method: Method::Auto, ..point(3) };
        let line = r#"{"spec":"conv:f32:0@50x50*3x3:full","method":"fourier","kernel":"k","candidates":[
            {"kernel":"j","least_ns":7},{"kernel":"k","least_ns":5}]}"#;
        let found = answer(&choice, line).unwrap();
        assert_eq!((found.ns, found.took), (Some(5.0), Method::Fourier));
    }

    #[test]
    #[cfg(unix)]
    fn a_point_that_is_refused_does_not_keep_others() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/figures/flcc");
        let mut program = Program::new(&path, Duration::from_secs(600), 0.1, "measure");
        let mut rows = Vec::new();
        let points = [point(3), point(4), point(5), point(4)];
        let done = program.time(&points, &mut |row| rows.push(row));
        assert_eq!(done, Ok(()));
        assert_eq!(rows.iter().map(|row| &row.point).collect::<Vec<_>>(), points.iter().collect::<Vec<_>>());
        let kinds: Vec<bool> = rows.iter().map(|row| row.answer.is_ok()).collect();
        assert_eq!(kinds, [true, false, true, false]);
        assert_eq!(rows[1].answer, Err("no kernel, none".into()));
    }
}
