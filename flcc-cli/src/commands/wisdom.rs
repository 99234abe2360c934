//! wisdom: show, merge, forget.

use std::io::Write;

use flcc_runtime::wisdom::Forget;
use flcc_runtime::{SpecError, Wisdom};
use serde_json::{Map, Value, json};

use crate::args::{self, Planning};
use crate::error::Error;
use crate::session::{WISDOM_VARIABLE, check_wisdom, wisdom_file};

/// A number of entries in a line.
fn entries(count: usize) -> String {
    if count == 1 { "1 entry".into() } else { format!("{count} entries") }
}

/// Shows or changes the wisdom file.
///
/// # Errors
/// No file is named, or it is not read or written.
pub fn run(args: &args::Wisdom, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let (argument, file) = wisdom_file(planning)?
        .ok_or_else(|| SpecError::new("--wisdom", format!("--wisdom FILE or {WISDOM_VARIABLE}"), "neither"))?;
    let wrong = Error::wisdom(argument);
    match args {
        args::Wisdom::Show => show(&Wisdom::load(&file).map_err(wrong)?, planning.json, out),
        args::Wisdom::Merge { files } => {
            check_wisdom(argument, &file)?;
            let others = files
                .iter()
                .map(|file| Wisdom::load(file))
                .collect::<Result<Vec<_>, _>>()
                .map_err(Error::wisdom("FILES"))?;
            let (wisdom, ()) = Wisdom::update(&file, |there| others.into_iter().for_each(|other| there.merge(other)))
                .map_err(wrong)?;
            tell(
                planning.json,
                out,
                "entries",
                wisdom.len(),
                &format!("{} in {}", entries(wisdom.len()), file.display()),
            )
        }
        args::Wisdom::Forget { machine, spec } => {
            check_wisdom(argument, &file)?;
            // Of a file that is not there nothing is forgotten, and none is made.
            if !file.exists() {
                Wisdom::load(&file).map_err(&wrong)?;
            }
            let filter = match (machine, spec) {
                (Some(machine), _) => Forget::Machine(machine),
                (None, Some(spec)) => Forget::Spec(spec),
                (None, None) => Forget::All,
            };
            let (wisdom, forgotten) = Wisdom::update(&file, |there| there.forget(filter)).map_err(wrong)?;
            tell(
                planning.json,
                out,
                "forgotten",
                forgotten,
                &format!("{} forgotten, {} left", entries(forgotten), wisdom.len()),
            )
        }
    }
}

fn tell(json: bool, out: &mut dyn Write, key: &str, value: usize, text: &str) -> Result<(), Error> {
    match json {
        true => writeln!(out, "{}", json!({ key: value }))?,
        false => writeln!(out, "{text}")?,
    }
    Ok(())
}

fn show(wisdom: &Wisdom, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    if !json {
        out.write_all(wisdom.to_text().as_bytes())?;
        return Ok(());
    }
    for (key, entry) in wisdom.iter() {
        let others: Map<String, Value> =
            entry.others().iter().map(|(kernel, ns)| (kernel.to_string(), json!(ns))).collect();
        let value = json!({
            "machine": key.machine,
            "source": key.source,
            "spec": key.spec,
            "threads": key.threads,
            "kernel": entry.kernel().to_string(),
            "least_ns": entry.least_ns(),
            "workers": entry.workers(),
            "others": others,
        });
        writeln!(out, "{value}")?;
    }
    Ok(())
}
