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

/// Prints the manual page of the program, or of one of its commands.
///
/// # Errors
/// No such command; standard output that takes no more.
pub fn man(command: Option<&str>, out: &mut dyn Write) -> Result<(), Error> {
    let mut whole = Cli::command().disable_help_subcommand(true);
    // Options of every command come to each of them by this.
    whole.build();
    let page = match command {
        None => whole,
        Some(name) => {
            let found = whole.get_subcommands().find(|known| known.get_name() == name).cloned();
            found.ok_or_else(|| {
                let names: Vec<&str> = whole.get_subcommands().map(clap::Command::get_name).collect();
                SpecError::new("COMMAND", format!("one of {}", names.join(", ")), name)
            })?
        }
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    out.write_all(&text)?;
    Ok(())
}
