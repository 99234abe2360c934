//! Errors of the command: one line each, and the exit status that belongs to it.
//!
//! 2 is a wrong call, 3 a forced method or platform that refuses (with its reason), 1 a failure: a file, the memory, a
//! result that is not right.

use flcc_runtime::wisdom::WisdomError;
use flcc_runtime::{ExecError, PlanError, SpecError};
use thiserror::Error;

use crate::io::IoError;

/// Why a command ended without its result.
#[derive(Debug, Error)]
pub enum Error {
    /// A wrong call.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No plan.
    #[error("{}", plan_text(.0))]
    Plan(#[from] PlanError),
    /// No execution.
    #[error("{}", exec_text(.0))]
    Exec(#[from] ExecError),
    /// An image that was not read or written, and the argument that names it.
    #[error("{argument} {error}")]
    Io {
        /// The argument, as it is spelt in a call: `TEMPLATE`, `--mask`.
        argument: String,
        /// What is wrong with the file.
        error: IoError,
    },
    /// Wisdom that was not read or written, and the argument that names it.
    #[error("{argument} {error}")]
    Wisdom {
        /// The argument, as it is spelt in a call: `--wisdom`, or the variable of the environment.
        argument: String,
        /// What is wrong with the file or its text.
        error: Box<WisdomError>,
    },
    /// Standard output that takes no more.
    #[error("standard output: expected that it can be written, got: {0}")]
    Output(#[from] std::io::Error),
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// The exit status: 2 for a wrong call, 3 for a refusal, 1 for a failure.
    pub fn status(&self) -> u8 {
        match self {
            Error::Spec(_)
            | Error::Plan(PlanError::Spec(_))
            | Error::Exec(ExecError::Spec(_) | ExecError::Plan(PlanError::Spec(_)))
            | Error::Io { error: IoError::RawFormat { .. }, .. } => 2,
            Error::Plan(PlanError::Refused(_)) | Error::Exec(ExecError::Plan(PlanError::Refused(_))) => 3,
            _ => 1,
        }
    }

    /// What is wrong with the file that an argument names.
    pub fn io(argument: &str) -> impl Fn(IoError) -> Error {
        let argument = argument.to_string();
        move |error| Error::Io { argument: argument.clone(), error }
    }

    /// The same error of a file, named by another argument.
    pub fn of_argument(self, argument: &str) -> Error {
        match self {
            Error::Io { error, .. } => Error::Io { argument: argument.to_string(), error },
            other => other,
        }
    }

    /// What is wrong with the wisdom that an argument names.
    pub fn wisdom(argument: &str) -> impl Fn(WisdomError) -> Error {
        let argument = argument.to_string();
        move |error| Error::Wisdom { argument: argument.clone(), error: Box::new(error) }
    }

    /// The mistake, if this is a wrong call.
    pub fn spec(&self) -> Option<&SpecError> {
        match self {
            Error::Spec(error)
            | Error::Plan(PlanError::Spec(error))
            | Error::Exec(ExecError::Spec(error) | ExecError::Plan(PlanError::Spec(error))) => Some(error),
            _ => None,
        }
    }

    /// The same error with the library's names of arguments as a call spells them; `image` and `template` are the
    /// arguments that these came from.
    pub fn named(self, image: &str, template: &str) -> Error {
        let Some(error) = self.spec() else {
            return self;
        };
        let spelling = match error.argument.as_str() {
            "image" => image,
            "template" => template,
            "mask" => "--mask",
            "image_mask" => "--image-mask",
            "min_overlap" => "--min-overlap",
            "roi" => "--roi",
            "window" => "--window",
            "boundary" => "--boundary",
            "cval" => "--cval",
            "accuracy" => "--accuracy",
            "angle" => "--rotate",
            "scale" => "--scale",
            "coarse" => "--coarse",
            "finest" => "--finest",
            _ => return self,
        };
        Error::Spec(SpecError { argument: spelling.to_string(), ..error.clone() })
    }

    /// Whether the reader of standard output went away, as `head` does: no error to tell.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Error::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Whether a forced method or platform refused.
    pub fn is_refusal(&self) -> bool {
        self.status() == 3
    }
}

/// The library's line; of a memory limit with the flag that set it.
fn plan_text(error: &PlanError) -> String {
    match error {
        PlanError::Memory { needed, limit } => {
            format!("--memory-limit: expected at least {needed} bytes for this, got {limit}")
        }
        other => other.to_string(),
    }
}

fn exec_text(error: &ExecError) -> String {
    match error {
        ExecError::Plan(error) => plan_text(error),
        other => other.to_string(),
    }
}

/// A wrong call as the parser of arguments tells it, on one line: what is wrong, then what was expected.
pub fn one_line_of(error: &clap::Error) -> String {
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // The names stand two columns in; what is further in goes on about the one before.
        let names: Vec<&str> =
            listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next()).collect();
        return format!("command: expected one of {} (--help tells more), got none", names.join(", "));
    }
    let mut parts: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        let part = words.join(" ");
        if part.is_empty() || part.starts_with("For more information") {
            continue;
        }
        parts.push(match part.strip_prefix("Usage: ") {
            Some(usage) => format!("expected {usage}"),
            None => part.strip_prefix("error: ").unwrap_or(&part).to_string(),
        });
    }
    // A file that is given without its option.
    let unknown = error.kind() == clap::error::ErrorKind::UnknownArgument;
    if unknown && parts.iter().any(|part| part.starts_with("expected flcc wisdom ")) {
        parts.push("the wisdom file is given as --wisdom FILE".into());
    }
    let line: String = parts.join("; ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() { "arguments: expected what flcc --help shows, got something else".into() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use flcc_runtime::Refusal;

    #[test]
    fn statuses_of_the_contract() {
        assert_eq!(Error::from(SpecError::new("mode", "a", "b")).status(), 2);
        assert_eq!(Error::from(PlanError::Refused(Refusal::new("cuda", "absent"))).status(), 3);
        assert_eq!(Error::from(PlanError::Memory { needed: 2, limit: 1 }).status(), 1);
        assert_eq!(Error::Failed(String::new()).status(), 1);
    }

    #[test]
    fn arguments_are_named_as_in_the_call() {
        let line = |error: Error| error.named("IMAGE", "--template-at").to_string();
        assert_eq!(line(SpecError::new("template", "a", "b").into()), "--template-at: expected a, got b");
        assert_eq!(line(ExecError::from(SpecError::new("mask", "a", "b")).into()), "--mask: expected a, got b");
        assert_eq!(line(PlanError::from(SpecError::new("image", "a", "b")).into()), "IMAGE: expected a, got b");
        assert_eq!(line(SpecError::new("--frame", "a", "b").into()), "--frame: expected a, got b");
        let missing = IoError::Read { name: "x".into(), source: std::io::ErrorKind::NotFound.into() };
        assert!(Error::io("--mask")(missing).to_string().starts_with("--mask \"x\": expected a readable file, got: "));
    }

    #[test]
    fn wrong_arguments_are_one_line() {
        let line = |args: &[&str]| one_line_of(&Cli::try_parse_from(args).unwrap_err());
        for args in [
            &["flcc"][..],
            &["flcc", "wisdom"],
            &["flcc", "frobnicate"],
            &["flcc", "match", "--mode", "vaild", "a", "b"],
            &["flcc", "match"],
            &["flcc", "devices", "--threads", "many"],
            &["flcc", "devices", "--thread", "2"],
        ] {
            let text = line(args);
            assert!(!text.contains('\n') && !text.contains("error:"), "{text}");
        }
        assert!(line(&["flcc"]).starts_with("command: expected one of conv, corr, lcc, match,"));
        assert_eq!(
            line(&["flcc", "wisdom"]),
            "command: expected one of show, merge, forget (--help tells more), got none"
        );
        assert!(
            line(&["flcc", "match", "--mode", "vaild", "a", "b"]).contains("expected full, same or valid, got vaild")
        );
    }
}
