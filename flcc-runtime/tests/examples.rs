//! Every example runs to its end. `cargo test` builds them beside the tests; this starts the programs.

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_runs() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let this = std::env::current_exe().unwrap();
    let programs = this.parent().and_then(Path::parent).unwrap().join("examples");
    let mut count = 0;
    for source in std::fs::read_dir(sources).unwrap() {
        let name = source.unwrap().path().file_stem().unwrap().to_owned();
        count += 1;
        // Built with what it shows alone.
        if name == "05_ndarray" && !cfg!(feature = "ndarray") {
            continue;
        }
        let program = programs.join(&name).with_extension(std::env::consts::EXE_EXTENSION);
        assert!(
            program.exists(),
            "{} is built by `cargo test` without a filter of targets, or by `cargo build --examples`",
            program.display()
        );
        let output = Command::new(&program).output().unwrap();
        assert!(output.status.success(), "{name:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{name:?} says nothing");
    }
    assert_eq!(count, 5);
}
