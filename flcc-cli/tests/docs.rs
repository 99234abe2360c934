//! The commands of README.md and of docs/, as they stand there.
//!
//! Every line of a block of `sh` that begins with `flcc`, or with a variable for it, is run, a page in a folder of its
//! own with the files of conformance/real in it. A comment right above a block, `<!-- not run: WHY -->`, leaves that
//! block out: what needs a GPU, or minutes.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the comment above a block that is not run begins.
const NOT_RUN: &str = "<!-- not run: ";

/// The lines of a page that run `flcc`, by that name.
///
/// # Panics
/// Such a line in a block of another kind, where nothing would run it; a comment that does not say why.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut block, mut left_out, mut above) = (None, false, "");
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            left_out = above.starts_with(NOT_RUN);
            assert!(!left_out || above.len() > NOT_RUN.len() + " -->".len(), "no reason: {above}");
            block = if block.is_some() { None } else { Some(kind) };
        }
        above = line;
        let line = line.replace("cargo run --release --bin flcc -- ", "flcc ");
        let is_command =
            line.trim_start_matches([' ', '$']).split(' ').find(|word| !word.contains('=')) == Some("flcc");
        match block {
            Some("sh") if is_command && !left_out => found.push(line),
            Some("sh") => {}
            None if !line.starts_with("    ") => {}
            _ => assert!(!is_command, "commands stand in blocks of sh: {line}"),
        }
    }
    found
}

/// README.md and the pages below docs/.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|of| of == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages
}

/// Runs a command of a page: it ends well, writes the files that it names, and prints something if it writes none.
fn run(folder: &Path, command: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_flcc")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
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
    // Which file a variable names the shell knows.
    for file in written.filter(|word| word.contains('.') && !word.contains('$')) {
        assert!(folder.join(file).metadata().is_ok_and(|meta| meta.len() > 0), "{command}: {file}");
    }
    if !command.contains(" -o ") {
        assert!(!output.stdout.is_empty(), "{command} says nothing");
    }
}

#[test]
fn every_command_of_a_page_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut counts = Vec::new();
    for (number, page) in pages(&root).iter().enumerate() {
        let commands = commands(&fs::read_to_string(page).unwrap());
        counts.push(commands.len());
        if commands.is_empty() {
            continue;
        }
        let folder = std::env::temp_dir().join(format!("flcc-docs-{}-{number}", std::process::id()));
        // The README's first command is one for the repository's folder, all others are for that of the data.
        fs::create_dir_all(folder.join("conformance/real")).unwrap();
        for entry in fs::read_dir(root.join("conformance/real")).unwrap() {
            let entry = entry.unwrap();
            for place in [&folder, &folder.join("conformance/real")] {
                fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
            }
        }
        for command in &commands {
            let began = std::time::Instant::now();
            run(&folder, command);
            println!("{:6.2} s  {command}", began.elapsed().as_secs_f64());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(counts[0] > 10 && counts[1..].iter().sum::<usize>() > 5, "{counts:?}");
}

#[test]
fn lines_of_blocks_of_sh_are_commands() {
    let page = "flcc is a word.\n```sh\nflcc a \\\n  b  # c\nls\nA=1 flcc d\n```\n\n\
                ```sh\ncargo run --release --bin flcc -- e\n```\n\
                <!-- not run: needs a GPU -->\n```sh\nflcc f\n```\n```rust\nlet flcc = 1;\n```\n```sh\nflcc g\n```\n";
    assert_eq!(commands(page), ["flcc a    b  # c", "A=1 flcc d", "flcc e", "flcc g"]);
    for wrong in
        ["```\nflcc a\n```\n", "```sh-session\n$ flcc a\n```\n", "    flcc a\n", "<!-- not run:  -->\n```sh\n```\n"]
    {
        assert!(std::panic::catch_unwind(|| commands(wrong)).is_err(), "{wrong}");
    }
}
