//! devices: what this machine computes with.

use std::io::Write;

use flcc_runtime::Machine;
use serde_json::json;

use crate::args::Planning;
use crate::error::Error;

/// Prints the machine.
///
/// # Errors
/// `FLCC_ISA` that names no instruction set.
pub fn run(planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let machine = flcc_runtime::cuda::with_devices(Machine::detect()?);
    if !planning.json {
        writeln!(out, "{machine}")?;
        return Ok(());
    }
    let caches = machine.caches();
    let devices = machine.devices().iter().map(|device| {
        json!({
            "index": device.index,
            "name": device.name,
            "target": device.target(),
            "multiprocessors": device.multiprocessors,
            "memory": device.memory,
        })
    });
    let value = json!({
        "model": machine.model(),
        "cores": machine.cores(),
        "instruction_sets": machine.isas().iter().map(|isa| isa.name()).collect::<Vec<_>>(),
        "caches": {"l1d": caches.l1d, "l2": caches.l2, "l3": caches.l3},
        "cuda": machine.cuda(),
        "devices": devices.collect::<Vec<_>>(),
        "fingerprint": machine.fingerprint(),
    });
    writeln!(out, "{value}")?;
    Ok(())
}
