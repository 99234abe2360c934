//! Where things are added: the table of ARCHITECTURE.md is held against the files that name what was added before.
//!
//! A row stands for a kind of thing, of which one that is there already is looked for: in code, not in comments, tests
//! or what is rendered. The files of the row are those that name it. Files behind a semicolon may name it or not.

use std::collections::BTreeSet;

use super::scrub::{has_word, without_comments};
use super::violation::{Source, Violation};

/// The page with the table, and its heading.
const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Where things are added";

/// What is looked for. What the programs and packages around the library name has rows of its own in the page, if any:
/// their lists are held against the library's by their tests.
const KINDS: &[Kind] = &[
    Kind { row: "boundary", stem: "mirror", words: &["Mirror", "\"mirror\"", "FLCC_MIRROR"] },
    Kind { row: "measure", stem: "ssd", words: &["Ssd", "\"ssd\"", "\"measure/ssd.tera\"", "FLCC_SSD"] },
    Kind { row: "pixel type", stem: "u16", words: &["U16", "\"u16\"", "FLCC_U16", "for u16"] },
    Kind { row: "instruction set", stem: "neon", words: &["Neon"] },
    Kind { row: "CPU engine", stem: "columns", words: &["mod columns", "fft::columns", "columns::Layout"] },
    Kind { row: "CPU way to score", stem: "vectors", words: &["mod vectors", "ways::vectors"] },
    Kind {
        row: "CUDA method",
        stem: "listed_scores",
        words: &["mod listed_scores", "ListedScores", "Direct, listed_scores"],
    },
    Kind { row: "kernel of a CUDA method", stem: "", words: &["Op::Masked", "op == \"masked\""] },
];

/// Where the library is.
const ROOMS: &[&str] = &["flcc-core/src/", "flcc-macros/src/", "flcc-codegen/src/", "flcc-runtime/src/", "templates/"];

/// Parts of it that are for measuring and tests.
const APART: &[&str] =
    &["flcc-runtime/src/tune/", "flcc-runtime/src/cpu/testing.rs", "flcc-runtime/src/plan/testing.rs"];

/// A kind of thing that can be added.
struct Kind {
    /// Its row of the table.
    row: &'static str,
    /// How files of its own are called, where it has some; the table says `x`.
    stem: &'static str,
    /// How other files name it.
    words: &'static [&'static str],
}

/// The files of a row: those that have to name a thing, and those that may.
struct Row {
    line: usize,
    must: Vec<String>,
    may: Vec<String>,
}

/// Checks the rows of all kinds.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    held(sources, KINDS)
}

fn held(sources: &[Source], kinds: &[Kind]) -> Vec<Violation> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else { return Vec::new() };
    let library: Vec<&Source> = sources
        .iter()
        .filter(|source| ROOMS.iter().any(|room| source.path.starts_with(room)))
        .filter(|source| !APART.iter().any(|room| source.path.starts_with(room)))
        .collect();
    kinds.iter().flat_map(|kind| differences(page, &library, kind)).collect()
}

fn differences(page: &Source, library: &[&Source], kind: &Kind) -> Vec<Violation> {
    let Some(row) = row(&page.text, kind.row) else {
        return vec![Violation::new(page, 1, format!("{HEADING:?} has no row {:?}", kind.row))];
    };
    let mut violations = Vec::new();
    let mut told = |what: String| violations.push(Violation::new(page, row.line, format!("{}: {what}", kind.row)));
    let mut paths = |names: &[String]| -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        for name in names {
            match found(library, &named_after(name, kind.stem))[..] {
                [path] => _ = all.insert(path),
                [] => told(format!("there is no {name}")),
                ref paths => told(format!("{name} may be any of {}", paths.join(", "))),
            }
        }
        all
    };
    let (must, may) = (paths(&row.must), paths(&row.may));
    for source in library {
        let path = source.path.as_str();
        let own = stem(path) == kind.stem;
        let line = code(source).lines().position(|line| kind.words.iter().any(|word| has_word(line, word)));
        let names = own || line.is_some();
        if names && !must.contains(path) && !may.contains(path) {
            told(format!("{path}:{} is such a place and not in the row", line.map_or(1, |at| at + 1)));
        }
        if !names && must.contains(path) {
            told(format!("{path} is no such place"));
        }
    }
    violations
}

/// A row of the table by its first cell.
fn row(page: &str, name: &str) -> Option<Row> {
    let begin = page.lines().position(|line| line == HEADING)?;
    let mut lines = page.lines().enumerate().skip(begin + 1).take_while(|(_, line)| !line.starts_with("## "));
    let (at, line) = lines.find(|(_, line)| line.split('|').nth(1).is_some_and(|cell| cell.trim() == name))?;
    let files = line.split('|').nth(2)?;
    let (must, may) = files.split_once(';').unwrap_or((files, ""));
    Some(Row { line: at + 1, must: names(must), may: names(may) })
}

/// The files that a text names: words with a `/` in them or an end that files have, `a/{b,c}` for `a/b` and `a/c`.
fn names(text: &str) -> Vec<String> {
    let mut depth = 0;
    let words = text.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c.is_whitespace() || "()`;:".contains(c) || (c == ',' && depth == 0)
    });
    let files = words.filter(|word| word.contains('/') || word.ends_with(".rs"));
    files
        .flat_map(|word| match word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
            Some((before, (middle, after))) => middle.split(',').map(|one| format!("{before}{one}{after}")).collect(),
            None => vec![word.to_string()],
        })
        .collect()
}

/// The name of a thing's own file, for that of any.
fn named_after(name: &str, stem: &str) -> String {
    let parts: Vec<String> = name
        .split('/')
        .map(|part| match part.split_once('.').map_or((part, ""), |(stem, _)| (stem, &part[stem.len()..])) {
            ("x", end) => format!("{stem}{end}"),
            _ => part.to_string(),
        })
        .collect();
    parts.join("/")
}

/// The files that a name of the table may mean: their paths end with it, but for the `.tera` of templates.
fn found<'a>(library: &[&'a Source], name: &str) -> Vec<&'a str> {
    let whole = |path: &str| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    library
        .iter()
        .map(|source| source.path.as_str())
        .filter(|path| whole(path) || path.strip_suffix(".tera").is_some_and(whole))
        .collect()
}

fn stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

/// A file's text up to its tests, with comments blanked.
fn code(source: &Source) -> String {
    let ends = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\npub(crate) mod tests {"];
    let end = ends.iter().filter_map(|end| source.text.find(end)).min();
    without_comments(&source.text[..end.unwrap_or(source.text.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { row: "shape", stem: "disc", words: &["Disc", "\"disc\""] };

    /// What is said of a table's row and of files that stand in the core.
    fn said(row: &str, files: &[(&str, &str)]) -> Vec<String> {
        let page = format!("# Page\n\n{HEADING}\n\n| add | files |\n|---|---|\n{row}\n\n## Else\n\n| shape | z.rs |\n");
        let source = |path: String, text: &str| Source { path, text: text.into() };
        let mut sources = vec![source(PAGE.into(), &page)];
        sources.extend(files.iter().map(|(path, text)| source(format!("flcc-core/src/{path}"), text)));
        held(&sources, &[KIND]).iter().map(ToString::to_string).collect()
    }

    const FILES: [(&str, &str); 4] = [
        ("shapes.rs", "pub enum Shape { Disc }\n"),
        ("shapes/disc.rs", "pub fn area() {}\n"),
        ("words.rs", "//! Not of any Disc.\nconst NAMES: [&str; 1] = [\"disc\"];\n"),
        ("other.rs", "struct Discs; // a Disc\n#[cfg(test)]\nmod tests { use super::Disc; }\n"),
    ];

    #[test]
    fn a_row_names_what_names_a_thing() {
        assert!(said("| shape | shapes.rs, shapes/x.rs, words.rs |", &FILES).is_empty());
        assert!(
            said("| shape | its file (shapes/x.rs), {shapes,words}.rs; other.rs if it is round |", &FILES).is_empty()
        );
    }

    #[test]
    fn what_a_row_leaves_out_or_has_too_much_is_told() {
        let row = |what: &str| vec![format!("{PAGE}:7: shape: {what}")];
        assert_eq!(
            said("| shape | shapes.rs, shapes/x.rs |", &FILES),
            row("flcc-core/src/words.rs:2 is such a place and not in the row")
        );
        assert_eq!(
            said("| shape | shapes.rs, words.rs |", &FILES),
            row("flcc-core/src/shapes/disc.rs:1 is such a place and not in the row")
        );
        assert_eq!(
            said("| shape | shapes.rs, shapes/x.rs, words.rs, other.rs |", &FILES),
            row("flcc-core/src/other.rs is no such place")
        );
        assert_eq!(said("| shape | shapes.rs, shapes/x.rs, words.rs, no.rs |", &FILES), row("there is no no.rs"));
        let twice = [&FILES[..], &[("deep/words.rs", "")]].concat();
        assert_eq!(
            said("| shape | shapes.rs, shapes/x.rs; words.rs |", &twice),
            [
                row("words.rs may be any of flcc-core/src/words.rs, flcc-core/src/deep/words.rs"),
                row("flcc-core/src/words.rs:2 is such a place and not in the row")
            ]
            .concat()
        );
        assert_eq!(said("| other | shapes.rs |", &FILES), [format!("{PAGE}:1: {HEADING:?} has no row \"shape\"")]);
    }
}
