//! The commands of the README, as they stand there.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The lines of the README's blocks of commands that run `flcc`, by that name.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole = blocks.flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_string).collect::<Vec<_>>());
    let named = whole.map(|line| line.replace("cargo run --release --bin flcc -- ", "flcc "));
    named.filter(|line| line.starts_with("flcc ")).collect()
}

#[cfg(unix)]
#[test]
fn every_command_of_the_readme_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::temp_dir().join(format!("flcc-readme-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // The first command is one for the repository's folder, the others are for that of the data.
    fs::create_dir_all(folder.join("conformance/real")).unwrap();
    for entry in fs::read_dir(root.join("conformance/real")).unwrap() {
        let entry = entry.unwrap();
        for place in [&folder, &folder.join("conformance/real")] {
            fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
        }
    }
    let commands = commands(&fs::read_to_string(root.join("README.md")).unwrap());
    assert!(commands.len() > 10, "{commands:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_flcc")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for command in &commands {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(&folder)
            .env("PATH", &path)
            .env_remove("FLCC_WISDOM")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        let written = command.split([' ', '\'']).filter(|word| {
            let before = command.split(word).next().unwrap_or("");
            ["--annotate ", "--heatmap ", "--peaks ", "-o "].iter().any(|option| before.ends_with(option))
        });
        for file in written.filter(|word| word.contains('.')) {
            assert!(folder.join(file).metadata().is_ok_and(|meta| meta.len() > 0), "{command}: {file}");
        }
        if !command.contains(" -o ") {
            assert!(!output.stdout.is_empty(), "{command} says nothing");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
