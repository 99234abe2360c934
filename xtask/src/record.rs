//! Tables of documents that are rendered from what was measured, which is kept in `benches/record`.
//!
//! A table stands between `<!-- record FILE -->`, or `<!-- record FILE threads N -->` for some of its rows, and
//! `<!-- end of record -->`. A record is what `benches/peers/peers.py --json` writes. One whose name ends with `.json`
//! is a GPU's, by `cargo xtask gpu-bench --record`; `<!-- record FILE brief -->` gives its times and ratios alone.
//! Pictures of a GPU's record are drawn anew with the tables.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::gpu_bench::report;

/// Documents that hold such tables, or may.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/gpu.md", "docs/performance/cpu.md"];
/// Pictures, and the records that they are of.
const PICTURES: [(&str, &str); 1] = [("docs/pictures/gpu-h200.svg", "nvidia-h200.json")];
const BEGIN: &str = "<!-- record ";
const END: &str = "<!-- end of record -->";
/// Columns of a line of text.
const WIDTH: usize = 100;

/// Renders every table and picture anew.
pub fn write(root: &Path) -> Result<String, String> {
    let mut changed = 0;
    for (document, old, new) in rendered(root)? {
        if old != new {
            fs::write(root.join(document), new).map_err(|error| format!("{document}: {error}"))?;
            changed += 1;
        }
    }
    Ok(format!("{} documents and {} pictures, {changed} changed", DOCUMENTS.len(), PICTURES.len()))
}

/// The documents whose tables, and the pictures that, are not those of the records.
pub fn stale(root: &Path) -> Result<Vec<&'static str>, String> {
    Ok(rendered(root)?.into_iter().filter(|(_, old, new)| old != new).map(|(document, ..)| document).collect())
}

/// Each document and each picture as it is and as it should be.
fn rendered(root: &Path) -> Result<Vec<(&'static str, String, String)>, String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let render = |document: &'static str| {
        let old = read(document)?;
        let new = render(&old, |file| read(&format!("benches/record/{file}")))
            .map_err(|what| format!("{document}: {what}"))?;
        Ok((document, old, new))
    };
    let draw = |(picture, file): (&'static str, &str)| {
        let record = read(&format!("benches/record/{file}"))?;
        let record = serde_json::from_str(&record).map_err(|error| format!("benches/record/{file}: {error}"))?;
        // One that is not there yet is drawn.
        Ok((picture, read(picture).unwrap_or_default(), report::picture(&record)))
    };
    DOCUMENTS.into_iter().map(render).chain(PICTURES.into_iter().map(draw)).collect()
}

/// A text with each of its tables rendered from the record that it names.
fn render(text: &str, record: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let (head, tail) = rest.split_at(begin);
        let (marker, tail) = tail.split_once("-->").ok_or("a record's marker without its end")?;
        let (_, tail) = tail.split_once(END).ok_or_else(|| format!("{marker}--> without {END}"))?;
        let words: Vec<&str> = marker[BEGIN.len()..].split_whitespace().collect();
        let [file, ref part @ ..] = words[..] else { return Err("a record's marker without the record's name".into()) };
        let table = table(file, &record(file)?, part).map_err(|what| format!("benches/record/{file}: {what}"))?;
        let _ = write!(done, "{head}{marker}-->\n{table}{END}");
        rest = tail;
    }
    Ok(done + rest)
}

/// The table of a record, or of the part of it that words behind its name ask for.
fn table(file: &str, record: &str, part: &[&str]) -> Result<String, String> {
    let shown: fn(&Value) -> String = match (file.ends_with(".json"), part) {
        (false, []) => return of_processor(record, None),
        (false, ["threads", threads]) => {
            let count = threads.parse().map_err(|_| format!("expected a number of threads, got {threads:?}"))?;
            return of_processor(record, Some(count));
        }
        (true, []) => report::whole,
        (true, ["brief"]) => report::brief,
        _ => return Err(format!("expected FILE, or FILE threads N or FILE.json brief, got {:?}", part.join(" "))),
    };
    let record = serde_json::from_str(record).map_err(|error| error.to_string())?;
    let text = format!("{}\n\n{}", report::about(&record), shown(&record));
    Ok(text.lines().map(|line| if line.starts_with('|') { line.to_string() } else { wrapped(line) } + "\n").collect())
}

/// The table of a processor's record: FLCC beside the best of its peers.
fn of_processor(record: &str, threads: Option<u64>) -> Result<String, String> {
    let mut table = String::new();
    for (number, line) in record.lines().enumerate() {
        let row: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        if let Some(machine) = row.get("machine") {
            let text = |key: &str| {
                machine
                    .get(key)
                    .map_or("?".to_string(), |value| value.as_str().map_or(value.to_string(), str::to_string))
            };
            let machine = format!("{}, {} cores, {}.", text("cpu"), text("cores"), text("flags"));
            let _ = writeln!(table, "{}\n", wrapped(&machine));
            table += "| spec | threads | flcc ms | best peer | peer ms | peer / flcc | error |\n\
                      |---|---|---|---|---|---|---|\n";
        }
        let (Some(own), Some(spec), Some(count)) =
            (row["flcc_ms"].as_f64(), row["spec"].as_str(), row["threads"].as_u64())
        else {
            continue;
        };
        if threads.is_some_and(|threads| threads != count) {
            continue;
        }
        let peer = row["best"].as_str().unwrap_or("-");
        let (theirs, ratio) = match row["best_ms"].as_f64() {
            Some(theirs) => (digits(theirs), format!("{:.2}", theirs / own)),
            None => ("-".into(), "-".into()),
        };
        let error = row["error"].as_f64().unwrap_or(f64::NAN);
        let _ = writeln!(table, "| {spec} | {count} | {} | {peer} | {theirs} | {ratio} | {error:.0e} |", digits(own));
    }
    Ok(table)
}

/// A text in lines of at most `WIDTH` columns.
fn wrapped(text: &str) -> String {
    let (mut done, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= WIDTH;
            done.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        done += word;
        column += length;
    }
    done
}

/// Milliseconds to three digits.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"machine": {"cpu": "A processor", "cores": 2, "flags": "avx2"}}
{"spec": "corr:f32:9*3", "threads": 1, "peer": "other", "ms": 3.0}
{"spec": "corr:f32:9*3", "threads": 1, "flcc_ms": 1.25, "error": 2e-7, "best": "other", "best_ms": 3.0}
{"spec": "corr:f32:9*3", "threads": 2, "flcc_ms": 120.4, "error": 0.0}
"#;

    #[test]
    fn a_table_is_what_its_record_says() {
        let text = "before\n<!-- record a.jsonl -->\nold\n<!-- end of record -->\nafter\n";
        let new = render(text, |file| if file == "a.jsonl" { Ok(RECORD.into()) } else { Err(file.into()) }).unwrap();
        assert!(new.starts_with("before\n<!-- record a.jsonl -->\nA processor, 2 cores, avx2.\n\n| spec |"), "{new}");
        assert!(
            new.contains(
                "| corr:f32:9*3 | 1 | 1.25 | other | 3.00 | 2.40 | 2e-7 |\n\
                 | corr:f32:9*3 | 2 | 120 | - | - | - | 0e0 |\n<!-- end"
            ),
            "{new}"
        );
        assert!(new.ends_with("<!-- end of record -->\nafter\n") && !new.contains("old"), "{new}");
        assert_eq!(render(&new, |_| Ok(RECORD.into())), Ok(new.clone()));
        let some = render(&text.replace(" -->\nold", " threads 2 -->\nold"), |_| Ok(RECORD.into())).unwrap();
        assert!(!some.contains("| 1 |") && some.contains("| 2 |"), "{some}");
    }

    #[test]
    fn a_record_of_a_gpu_is_told_whole_or_briefly() {
        let record = r#"{"card": "A card", "rows": [{"spec": "corr:f32:2000x2000*3x3:full", "us": 10.0, "peers":
            [{"peer": "torch conv2d", "us": 35.0}], "queued": false}]}"#;
        let render = |part: &str| {
            render(&format!("<!-- record a.json{part} --><!-- end of record -->"), |_| Ok(record.to_string()))
        };
        let whole = render("").unwrap();
        assert!(whole.starts_with("<!-- record a.json -->\nA card.\n\n| f32 correlation | FLCC us"), "{whole}");
        assert!(whole.lines().all(|line| line.starts_with('|') || line.len() <= WIDTH), "{whole}");
        let brief = render(" brief").unwrap();
        assert!(brief.contains("A card.\n\n| f32 correlation | 2000^2 k3 |\n"), "{brief}");
        assert!(brief.ends_with("| peer / FLCC | 3.5 |\n<!-- end of record -->"), "{brief}");
        assert!(render(" threads 2").unwrap_err().contains("expected FILE"));
    }

    #[test]
    fn what_is_said_of_a_machine_is_wrapped() {
        let flags = "avx512 ".repeat(30);
        let text = wrapped(&format!("A processor, 2 cores, {flags}fma."));
        assert!(
            text.lines().count() == 3
                && text.lines().all(|line| (90..=WIDTH).contains(&line.len()) || line.ends_with('.')),
            "{text}"
        );
        assert_eq!(text.replace('\n', " "), format!("A processor, 2 cores, {flags}fma."));
        assert_eq!(wrapped("avx2."), "avx2.");
    }

    #[test]
    fn what_is_no_record_is_told() {
        let render = |text: &str| render(text, |_| Ok("{".into())).unwrap_err();
        assert!(render("<!-- record a -->\n").contains("without <!-- end of record -->"));
        assert!(render("<!-- record a threads x --><!-- end of record -->").contains("a number of threads, got \"x\""));
        assert!(render("<!-- record a --><!-- end of record -->").starts_with("benches/record/a: line 1: "));
    }
}
