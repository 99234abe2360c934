//! The commands of README.md and of docs/, as they stand there.
//!
//! Every line of a block of `sh` that begins with `flcc`, or a variable for it, or pipes to it, is run, a page in a
//! folder of its own with the files of conformance/real in it. Comments right below it, `# 1 167,186 0.99999994`, are
//! what it prints first, numbers of a fraction to 1e-5. A comment right above a block, `<!-- not run: WHY -->`, leaves
//! that block out: what needs a GPU, or minutes. What stands below `#SBATCH --array=1-N`, or behind `mpirun -n N`, is
//! run once for each task, with the variables that Slurm and Open MPI set for it.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the comment above a block that is not run begins.
const NOT_RUN: &str = "<!-- not run: ";

/// A line that runs `flcc`, by that name, what it prints first, and variables of each of its tasks.
#[derive(Debug, PartialEq)]
struct Told {
    line: String,
    prints: Vec<String>,
    tasks: Vec<Variables>,
}

type Variables = Vec<(&'static str, String)>;

/// What Slurm sets for each task of a script of which these lines stand above a command: none where there is no array.
fn tasks_of_slurm(lines: &[String]) -> Vec<Variables> {
    let option = |name: &str| {
        lines.iter().find_map(|line| line.strip_prefix("#SBATCH ")?.strip_prefix(name)?.parse::<usize>().ok())
    };
    let task = |id: usize, count: usize| {
        let mut variables =
            vec![("SLURM_ARRAY_TASK_ID", id.to_string()), ("SLURM_ARRAY_TASK_COUNT", count.to_string())];
        variables.extend(option("--cpus-per-task=").map(|threads| ("SLURM_CPUS_PER_TASK", threads.to_string())));
        variables
    };
    let count = option("--array=1-").unwrap_or(0);
    (1..=count).map(|id| task(id, count)).collect()
}

/// What follows `mpirun -n N`, and what Open MPI sets for each of its ranks.
fn tasks_of_mpi(line: &str) -> Option<(&str, Vec<Variables>)> {
    let (count, line) = line.strip_prefix("mpirun -n ")?.split_once(' ')?;
    let size = || ("OMPI_COMM_WORLD_SIZE", count.to_string());
    let ranks = 0..count.parse::<usize>().ok()?;
    Some((line, ranks.map(|rank| vec![("OMPI_COMM_WORLD_RANK", rank.to_string()), size()]).collect()))
}

/// The commands of a page.
///
/// # Panics
/// Such a line in a block of another kind, where nothing would run it; a comment that does not say why.
fn commands(page: &str) -> Vec<Told> {
    let mut found: Vec<Told> = Vec::new();
    let mut below = false;
    let (mut block, mut left_out, mut above) = (None, false, "");
    let mut script = Vec::new();
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            left_out = above.starts_with(NOT_RUN);
            assert!(!left_out || above.len() > NOT_RUN.len() + " -->".len(), "no reason: {above}");
            block = if block.is_some() { None } else { Some(kind) };
            script.clear();
        }
        above = line;
        let (line, mut tasks) = tasks_of_mpi(line).unwrap_or((line, tasks_of_slurm(&script)));
        if tasks.is_empty() {
            tasks.push(Variables::new());
        }
        let line = line.replace("cargo run --release --bin flcc -- ", "flcc ");
        script.push(line.clone());
        // Of a pipe any part, and what a shell of its own runs.
        let is_command = line.split(" | ").any(|part| {
            let part = part.trim_start_matches([' ', '$']);
            let part = part.strip_prefix("sh -c '").unwrap_or(part);
            part.split(' ').find(|word| !word.contains('=')) == Some("flcc")
        });
        match block {
            Some("sh") if is_command && !left_out => {
                found.push(Told { line, prints: Vec::new(), tasks });
                below = true;
                continue;
            }
            Some("sh") => match (line.strip_prefix("# "), found.last_mut()) {
                (Some(printed), Some(told)) if below && !left_out => {
                    told.prints.push(printed.to_string());
                    continue;
                }
                _ => {}
            },
            None if !line.starts_with("    ") => {}
            _ => assert!(!is_command, "commands stand in blocks of sh: {line}"),
        }
        below = false;
    }
    found
}

/// Whether a line that was printed is the one that a page shows: the same, but for the last digits of fractions.
fn same(shown: &str, printed: &str) -> bool {
    let words = |line: &str| line.split([' ', ',']).map(String::from).collect::<Vec<_>>();
    let (shown, printed) = (words(shown), words(printed));
    let near = |(a, b): (&String, &String)| {
        let numbers = (a.parse::<f64>(), b.parse::<f64>());
        a == b || matches!(numbers, (Ok(x), Ok(y)) if a.contains('.') && (x - y).abs() <= 1e-5 * y.abs().max(1.0))
    };
    shown.len() == printed.len() && shown.iter().zip(&printed).all(near)
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

/// Runs a command of a page as one task: it ends well, writes the files that it names, and prints what the page shows,
/// or something if it writes no file.
fn run(folder: &Path, Told { line: command, prints, .. }: &Told, task: &Variables) {
    let program = Path::new(env!("CARGO_BIN_EXE_flcc")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", &path)
        .env_remove("FLCC_WISDOM")
        .envs(task.iter().map(|(name, value)| (name, value)))
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
    let printed = String::from_utf8_lossy(&output.stdout);
    for (shown, printed) in prints.iter().zip(printed.lines().map(Some).chain(std::iter::repeat(None))) {
        assert!(printed.is_some_and(|printed| same(shown, printed)), "{command}: {printed:?} for {shown}");
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
            command.tasks.iter().for_each(|task| run(&folder, command, task));
            println!("{:6.2} s  {}", began.elapsed().as_secs_f64(), command.line);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(counts[0] >= 6 && counts[1..].iter().sum::<usize>() > 5, "{counts:?}");
}

#[test]
fn what_the_readme_says_of_others_is_recorded() {
    let page = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap();
    let (readme, numerics) = (page("README.md").replace("\n  ", " "), page("docs/numerics.md"));
    let (_, told) = readme.split_once("at mean 60000 and deviation 1 in f32 ").unwrap();
    let score = told.split_once("scikit-image returns ").unwrap().1.split('.').next().unwrap();
    let (_, measured) = numerics.split_once("| scikit-image, `match_template` of f32 |").unwrap();
    assert!(measured.lines().next().unwrap().contains(&format!(" to {score}, elsewhere |")), "{score}: {measured}");
    assert!(readme.lines().count() <= 120);
}

#[test]
fn lines_of_blocks_of_sh_are_commands() {
    let page = "flcc is a word.\n```sh\n\
                # x\nflcc a \\\n  b  # c\n# 1 2,3 0.5\n# 2\nls\n# y\nA=1 flcc d\nls | flcc h\n```\n\n\
                ```sh\ncargo run --release --bin flcc -- e\n```\n\
                <!-- not run: needs a GPU -->\n```sh\nflcc f\n```\n```rust\nlet flcc = 1;\n```\n```sh\nflcc g\n```\n";
    let told = commands(page);
    assert_eq!(
        told.iter().map(|told| &told.line[..]).collect::<Vec<_>>(),
        ["flcc a    b  # c", "A=1 flcc d", "ls | flcc h", "flcc e", "flcc g"]
    );
    assert_eq!(told[0].prints, ["1 2,3 0.5", "2"]);
    assert!(told[1..].iter().all(|told| told.prints.is_empty()));
    assert!(told.iter().all(|told| told.tasks == [Variables::new()]));
    let told = commands(
        "```sh\n#SBATCH --array=1-2\n#SBATCH --cpus-per-task=8\nflcc a\n```\n\
         ```sh\nflcc b\nmpirun -n 3 sh -c 'flcc c'\nmpirun -n 3 flcc d\n```\n",
    );
    let words = |task: &Variables| task.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    assert_eq!(told.iter().map(|told| told.tasks.len()).collect::<Vec<_>>(), [2, 1, 3, 3]);
    assert_eq!(told[2].line, "sh -c 'flcc c'");
    assert_eq!(
        words(&told[0].tasks[1]),
        ["SLURM_ARRAY_TASK_ID=2", "SLURM_ARRAY_TASK_COUNT=2", "SLURM_CPUS_PER_TASK=8"]
    );
    assert_eq!(words(&told[3].tasks[2]), ["OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3"]);
    for (shown, printed, alike) in [
        ("1 2,3 0.5", "1 2,3 0.500001", true),
        ("1 2,3 0.5", "1 2,3 0.5001", false),
        ("1 2,3 0.5", "1 2,4 0.5", false),
        ("1 2,3 0.5", "1 2,3 0.5 x", false),
        ("30.002", "30.0021", true),
        ("3", "3.000001", false),
    ] {
        assert_eq!(same(shown, printed), alike, "{shown} {printed}");
    }
    for wrong in
        ["```\nflcc a\n```\n", "```sh-session\n$ flcc a\n```\n", "    flcc a\n", "<!-- not run:  -->\n```sh\n```\n"]
    {
        assert!(std::panic::catch_unwind(|| commands(wrong)).is_err(), "{wrong}");
    }
}
