//! The peers: a program in Python that is given one spec after the other and tells what it found as lines of JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Map, Value, json};

/// The program while it runs, and what it said of itself.
#[derive(Default)]
pub struct Peers {
    running: Option<Running>,
    /// Versions, and what a copy on the device reaches.
    pub about: Map<String, Value>,
    /// Those that do not take part, and why.
    pub missing: BTreeMap<String, String>,
}

struct Running {
    child: Child,
    specs: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peers {
    /// Starts the program; where there is no Python, all peers are missing.
    pub fn start(program: &Path) -> Peers {
        let mut peers = Peers::default();
        let started = Command::new("python3").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(
            |mut child| {
                let pipes = (child.stdin.take(), child.stdout.take());
                (child, pipes)
            },
        );
        match started {
            Ok((child, (Some(specs), Some(out)))) => {
                peers.running = Some(Running { child, specs, lines: BufReader::new(out).lines() });
            }
            Ok(_) => peers.lost("it has no pipes"),
            Err(error) => peers.lost(&error.to_string()),
        }
        peers
    }

    /// What each peer took for a spec, and which took no part.
    pub fn time(&mut self, spec: &str) -> (Vec<Value>, Vec<String>) {
        let (mut times, mut absent) = (Vec::new(), Vec::new());
        if let Err(reason) = self.ask(spec, &mut times, &mut absent) {
            self.lost(&reason);
        }
        (times, absent)
    }

    fn ask(&mut self, spec: &str, times: &mut Vec<Value>, absent: &mut Vec<String>) -> Result<(), String> {
        let Some(Running { specs, lines, .. }) = &mut self.running else { return Ok(()) };
        writeln!(specs, "{spec}").map_err(|_| "it ended early")?;
        for line in lines {
            let line = line.map_err(|error| error.to_string())?;
            let told: Value = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
            let text = |key: &str| told[key].as_str().map(str::to_string);
            if told.get("done").is_some() {
                return Ok(());
            } else if let Some(about) = told["about"].as_object() {
                self.about.clone_from(about);
            } else if let Some(name) = text("missing") {
                self.missing.insert(name, text("reason").unwrap_or_default());
            } else if let (Some(peer), Some(ns)) = (text("peer"), told["ns"].as_f64()) {
                let least = told["min_ns"].as_f64().unwrap_or(ns);
                times.push(json!({"peer": peer, "us": rounded(ns / 1e3), "min_us": rounded(least / 1e3),
                    "error": told["error"], "graph": told["graph"]}));
            } else if let (Some(peer), Some(why)) = (text("peer"), text("skipped").or_else(|| text("failed"))) {
                absent.push(format!("{peer}: {why}"));
            }
        }
        Err("it ended early".into())
    }

    fn lost(&mut self, reason: &str) {
        self.missing.insert("python3".into(), reason.into());
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Some(Running { mut child, specs, lines }) = self.running.take() {
            // It ends where its input does.
            drop((specs, lines));
            let _ = child.wait();
        }
    }
}

/// Microseconds to hundredths.
pub fn rounded(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}
