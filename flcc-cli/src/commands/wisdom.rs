//! wisdom: show, merge, forget.

use std::io::Write;

use flcc_runtime::wisdom::Forget;
use flcc_runtime::{SpecError, Wisdom};
use serde_json::{Map, Value, json};

use crate::args::{self, Planning};
use crate::error::Error;
use crate::session::{WISDOM_VARIABLE, wisdom_file};

/// Shows or changes the wisdom file.
///
/// # Errors
/// No file is named, or it is not read or written.
pub fn run(args: &args::Wisdom, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let file =
        wisdom_file(planning)?.ok_or_else(|| SpecError::new("--wisdom", format!("--wisdom FILE or {WISDOM_VARIABLE}"), "neither"))?;
    match args {
        args::Wisdom::Show => show(&Wisdom::load(&file)?, planning.json, out),
        args::Wisdom::Merge { files } => {
            let mut wisdom = if file.exists() { Wisdom::load(&file)? } else { Wisdom::new() };
            for other in files {
                wisdom.merge(Wisdom::load(other)?);
            }
            wisdom.save(&file)?;
            tell(planning.json, out, "entries", wisdom.len(), &format!("{} entries in {}", wisdom.len(), file.display()))
        }
        args::Wisdom::Forget { machine, spec } => {
            let mut wisdom = Wisdom::load(&file)?;
            let filter = match (machine, spec) {
                (Some(machine), _) => Forget::Machine(machine),
                (None, Some(spec)) => Forget::Spec(spec),
                (None, None) => Forget::All,
            };
            let forgotten = wisdom.forget(filter);
            wisdom.save(&file)?;
            tell(planning.json, out, "forgotten", forgotten, &format!("{forgotten} entries forgotten, {} left", wisdom.len()))
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
        let others: Map<String, Value> = entry.others().iter().map(|(kernel, ns)| (kernel.to_string(), json!(ns))).collect();
        let value = json!({
            "machine": key.machine,
            "source": key.source,
            "spec": key.spec,
            "threads": key.threads,
            "kernel": entry.kernel().to_string(),
            "median_ns": entry.median_ns(),
            "others": others,
        });
        writeln!(out, "{value}")?;
    }
    Ok(())
}
