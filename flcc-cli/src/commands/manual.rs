//! completions and man: what a shell and a reader of manuals want to know of the arguments.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use flcc_runtime::SpecError;

use crate::args::Cli;
use crate::error::Error;

/// The command's name.
const NAME: &str = "flcc";

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output that takes no more.
pub fn completions(shell: Shell, out: &mut dyn Write) -> Result<(), Error> {
    // Where the output is closed, a generator panics, and memory is never closed.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    out.write_all(&text)?;
    Ok(())
}

/// Prints the manual page of the program, or of a command, named as it is in a call: `wisdom merge`.
///
/// # Errors
/// No such command; standard output that takes no more.
pub fn man(command: &[String], out: &mut dyn Write) -> Result<(), Error> {
    // A page has the version of the whole, whichever command it is of.
    let mut page = Cli::command().disable_help_subcommand(true).propagate_version(true);
    // Options of every command come to each of them by this.
    page.build();
    for name in command {
        let found = page.get_subcommands().find(|known| known.get_name() == name).cloned();
        page = found.ok_or_else(|| {
            let names: Vec<&str> = page.get_subcommands().map(clap::Command::get_name).collect();
            let expected =
                if names.is_empty() { "no more words".into() } else { format!("one of {}", names.join(", ")) };
            SpecError::new("COMMAND", expected, name)
        })?;
    }
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    out.write_all(&text)?;
    Ok(())
}
