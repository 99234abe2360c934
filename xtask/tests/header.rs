//! The header of flcc-capi is what cbindgen makes of its sources. FLCC_HEADER=write, which `cargo xtask header` sets,
//! writes it.

use std::fs;
use std::path::Path;

/// The files with what the header declares, in its order.
const SOURCES: [&str; 6] = ["types.rs", "status.rs", "plans.rs", "queues.rs", "memory.rs", "classic.rs"];

#[test]
fn the_header_is_that_of_the_sources() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flcc-capi");
    let config = cbindgen::Config::from_file(home.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, source| builder.with_src(home.join("src").join(source)));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = home.join("include/flcc.h");
    if std::env::var("FLCC_HEADER").is_ok_and(|wish| wish == "write") {
        fs::write(&path, &made).unwrap();
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    let different = held.lines().zip(made.lines()).position(|(held, made)| held != made);
    let line = different.unwrap_or(held.lines().count().min(made.lines().count())) + 1;
    assert!(held == made, "flcc-capi/include/flcc.h is stale from line {line} on: cargo xtask header writes it");
}

#[test]
fn every_function_that_c_sees_is_in_the_header() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../flcc-capi/src");
    let exported = |name: &str| fs::read_to_string(sources.join(name)).unwrap().contains("no_mangle");
    let names = fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let missing: Vec<String> = names.filter(|name| exported(name) && !SOURCES.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "flcc-capi/src/{missing:?} export functions and are not in the header's list");
}
