//! How checks went: each a line, and all together one.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Pass,
    /// Not well, or not at all.
    Fail,
    /// What it needs is not on this machine.
    Absent,
}

/// The checks so far, which run side by side.
#[derive(Default)]
pub struct Log {
    outcomes: Mutex<Vec<Outcome>>,
}

impl Log {
    /// Takes down a check and prints its line.
    pub fn add(&self, name: &str, outcome: Outcome, note: &str, seconds: f64) {
        self.tell(name, outcome, note, seconds, "");
    }

    /// Takes down a check and prints its line with what belongs to it, at once, so that no other check comes between.
    fn tell(&self, name: &str, outcome: Outcome, note: &str, seconds: f64, details: &str) {
        let word = match outcome {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Absent => "ABSENT",
        };
        print!("{word:6} {name}  {note}  {seconds:.1} s\n{details}");
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
    }

    /// Runs a program; passes if it ends well and its output does, as `judge` says with a note. What the program calls
    /// absent is taken down too.
    pub fn run(&self, name: &str, command: &mut Command, judge: impl FnOnce(&str) -> Result<String, String>) {
        let began = Instant::now();
        let (output, ended) = ended(command);
        let judged = ended.and_then(|()| judge(&output));
        let seconds = began.elapsed().as_secs_f64();
        let mut details = String::new();
        for line in measured(&output) {
            let _ = writeln!(details, "       {line}");
        }
        match judged {
            Ok(note) => {
                self.tell(name, Outcome::Pass, &note, seconds, &details);
                absences(&output).iter().for_each(|what| self.add(name, Outcome::Absent, what, 0.0));
            }
            Err(reason) => {
                let lines: Vec<&str> = output.lines().collect();
                for line in &lines[lines.len().saturating_sub(40)..] {
                    let _ = writeln!(details, "    {line}");
                }
                self.tell(name, Outcome::Fail, &reason, seconds, &details);
            }
        }
    }

    /// The last line, and whether nothing failed.
    pub fn summary(&self, seconds: f64) -> Result<String, String> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |outcome| outcomes.iter().filter(|of| **of == outcome).count();
        let [pass, fail, absent] = [Outcome::Pass, Outcome::Fail, Outcome::Absent].map(count);
        let counts = format!("{} checks, {pass} pass, {fail} fail, {absent} absent in {seconds:.0} s", outcomes.len());
        if fail == 0 && pass > 0 {
            Ok(format!("gpu-check PASS  {counts}"))
        } else {
            Err(format!("gpu-check FAIL  {counts}"))
        }
    }
}

/// What a program printed, and how it ended where that was not well.
pub fn ended(command: &mut Command) -> (String, Result<(), String>) {
    match command.output() {
        Ok(Output { status, stdout, stderr }) => {
            let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            (text, if status.success() { Ok(()) } else { Err(status.to_string()) })
        }
        Err(error) => (String::new(), Err(error.to_string())),
    }
}

/// What tests said is absent, each once.
fn absences(output: &str) -> BTreeSet<String> {
    output.lines().filter_map(|line| Some(line.split_once("absent: ")?.1.to_string())).collect()
}

/// What tests measured.
fn measured(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| Some(line.split_once("measured: ")?.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_told_once() {
        let output =
            "test a ... absent: a second device\nok\nabsent: a second device\n3 tests passed, 0 absent in 4 s\n";
        assert_eq!(absences(output), BTreeSet::from(["a second device".to_string()]));
    }

    #[test]
    fn what_was_measured_is_shown() {
        let output = "test a ... measured: 0.5 of it\nok\nmeasured:   0.2  a\n3 tests passed";
        assert_eq!(measured(output).collect::<Vec<_>>(), ["0.5 of it", "  0.2  a"]);
    }

    #[test]
    fn one_failure_fails_all() {
        let log = |outcomes: &[Outcome]| Log { outcomes: Mutex::new(outcomes.to_vec()) }.summary(1.0);
        assert!(
            log(&[Outcome::Pass, Outcome::Absent])
                .is_ok_and(|line| line.starts_with("gpu-check PASS  2 checks, 1 pass"))
        );
        assert!(log(&[Outcome::Pass, Outcome::Fail]).is_err() && log(&[Outcome::Absent]).is_err());
    }
}
