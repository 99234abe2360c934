//! Profiles of machines: which template sizes have kernels of their own, and what work costs there. `gen` renders them
//! into the crates that need them.

use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::{Table, Value};

/// Where profiles stand.
pub const FOLDER: &str = "profiles";

/// The profile that FLCC comes with.
pub const USUAL: &str = "usual";

/// The file that lists of sizes are rendered into.
pub const RANGE: &str = "flcc-core/src/sizes/range.rs";

/// The file that costs are rendered into.
pub const COSTS: &str = "flcc-runtime/src/plan/profiles.rs";

/// Sizes that a template may have a kernel of its own for.
const SIZES: RangeInclusive<usize> = 2..=256;

/// Sizes, as ranges in order that do not touch.
pub type Sizes = Vec<RangeInclusive<usize>>;

/// A profile of a machine: its lists of sizes, its costs and what was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Its name, and that of its file.
    pub name: String,
    /// Lists of the CPU: squares, cubes, lines.
    pub cpu: [Sizes; 3],
    /// Lists of CUDA likewise.
    pub cuda: [Sizes; 3],
    /// The processor whose costs these are, and the best instruction set that they were measured with.
    pub processor: Option<[String; 2]>,
    /// Nanoseconds of terms, by name.
    pub costs: Vec<(String, f64)>,
    /// What was measured, in words.
    pub measured: Vec<String>,
}

/// The names of a list's kinds.
pub const KINDS: [&str; 3] = ["square", "cube", "line"];

/// Reads `2-32, 40`.
///
/// # Errors
/// Something else, sizes out of order, or beyond what kernels are made for.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let wrong = || {
        let (least, most) = (SIZES.start(), SIZES.end());
        format!("expected sizes from {least} to {most} in order, as \"2-32, 40\", got {text:?}")
    };
    let mut list = Sizes::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |word: &str| word.trim().parse::<usize>().ok().filter(|size| SIZES.contains(size));
        let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
        if first > last || list.last().is_some_and(|before: &RangeInclusive<usize>| *before.end() >= first) {
            return Err(wrong());
        }
        list.push(first..=last);
    }
    Ok(list)
}

/// Sizes in any order as a list.
pub fn listed(mut sizes: Vec<usize>) -> Sizes {
    sizes.sort_unstable();
    sizes.dedup();
    let mut list = Sizes::new();
    for size in sizes {
        match list.last_mut() {
            Some(last) if *last.end() + 1 == size => *last = *last.start()..=size,
            _ => list.push(size..=size),
        }
    }
    list
}

/// A list as [`sizes`] reads it.
fn words(list: &Sizes) -> String {
    let part = |range: &RangeInclusive<usize>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    list.iter().map(part).collect::<Vec<_>>().join(", ")
}

impl Profile {
    /// Reads the text of a profile.
    ///
    /// # Errors
    /// What is missing or wrong, by its key.
    pub fn read(name: &str, text: &str) -> Result<Profile, String> {
        let file = |reason: String| format!("{FOLDER}/{name}.toml: {reason}");
        let table: Table = text.parse().map_err(|error: toml::de::Error| file(error.message().to_string()))?;
        let section = |key: &str| table.get(key).and_then(Value::as_table);
        let unroll = section("unroll").ok_or_else(|| file("expected a section [unroll], got none".into()))?;
        let lists = |table: &Table, path: &str| -> Result<[Sizes; 3], String> {
            let mut lists: [Sizes; 3] = Default::default();
            for (list, kind) in lists.iter_mut().zip(KINDS) {
                let text = table.get(kind).and_then(Value::as_str);
                let text = text.ok_or_else(|| file(format!("expected {path}.{kind}, a text, got none")))?;
                *list = sizes(text).map_err(|reason| file(format!("{path}.{kind}: {reason}")))?;
            }
            Ok(lists)
        };
        let cpu = lists(unroll, "unroll")?;
        let cuda = match unroll.get("cuda").and_then(Value::as_table) {
            Some(table) => lists(table, "unroll.cuda")?,
            None => cpu.clone(),
        };
        let words = |table: &Table, key: &str| table.get(key).and_then(Value::as_str).map(str::to_string);
        let processor = match section("machine") {
            Some(machine) => {
                let word = |key| words(machine, key).ok_or_else(|| file(format!("expected machine.{key}, got none")));
                Some([word("processor")?, word("instructions")?])
            }
            None => None,
        };
        let mut costs = Vec::new();
        for (term, value) in section("costs").into_iter().flatten() {
            let ns = value.as_float().or(value.as_integer().map(|ns| ns as f64));
            let ns = ns.filter(|ns| (0.0..1e12).contains(ns));
            costs.push((
                term.clone(),
                ns.ok_or_else(|| file(format!("costs.{term}: expected nanoseconds, got {value:?}")))?,
            ));
        }
        if processor.is_none() && !costs.is_empty() {
            return Err(file("expected a section [machine], whose costs these are, got none".into()));
        }
        let measured = table.get("measured").and_then(Value::as_array).into_iter().flatten();
        let measured = measured.filter_map(Value::as_str).map(str::to_string).collect();
        Ok(Profile { name: name.into(), cpu, cuda, processor, costs, measured })
    }

    /// As [`Profile::read`] takes it.
    pub fn text(&self) -> String {
        let mut text = String::from("# Made by `cargo xtask tune`; docs/tuning.md says what for.\n\n");
        for (section, lists) in [("unroll", &self.cpu), ("unroll.cuda", &self.cuda)] {
            let _ = writeln!(text, "[{section}]");
            for (kind, list) in KINDS.iter().zip(lists) {
                let _ = writeln!(text, "{kind} = {:?}", words(list));
            }
            text.push('\n');
        }
        // Before any section: a key of the document, not of the last section.
        if !self.measured.is_empty() {
            let lines: Vec<String> = self.measured.iter().map(|line| format!("    {line:?},\n")).collect();
            text = text.replacen("\n[unroll]", &format!("\nmeasured = [\n{}]\n\n[unroll]", lines.concat()), 1);
        }
        if let Some([processor, instructions]) = &self.processor {
            let _ = writeln!(text, "[machine]\nprocessor = {processor:?}\ninstructions = {instructions:?}\n");
            text.push_str("[costs]\n");
            for (term, ns) in &self.costs {
                let _ = writeln!(text, "{term} = {ns:?}");
            }
        }
        text
    }
}

/// Every profile, by name.
///
/// # Errors
/// One that is wrong.
pub fn all(root: &Path) -> Result<Vec<Profile>, String> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".toml").map(str::to_string))
        .collect();
    names.sort();
    names.iter().map(|name| one(root, name)).collect()
}

/// One profile.
///
/// # Errors
/// There is none of that name, or it is wrong.
pub fn one(root: &Path, name: &str) -> Result<Profile, String> {
    let path = root.join(FOLDER).join(format!("{name}.toml"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{FOLDER}/{name}.toml: {error}"))?;
    Profile::read(name, &text)
}

/// The name of the profile that a rendered [`RANGE`] was made from.
pub fn chosen(root: &Path) -> String {
    let text = fs::read_to_string(root.join(RANGE)).unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("pub const PROFILE: &str = \"")?.strip_suffix("\";"));
    name.unwrap_or(USUAL).to_string()
}

/// The text of [`RANGE`].
pub fn range(profile: &Profile) -> String {
    let mut text = format!(
        "//! Rendered by `cargo xtask gen` from {FOLDER}/{}.toml: lists of template sizes, as ranges.\n\n\
         use std::ops::RangeInclusive;\n\n\
         /// The profile that these lists are of.\n\
         pub const PROFILE: &str = \"{0}\";\n",
        profile.name
    );
    let what = ["square templates", "cubic templates", "1D templates"];
    for (prefix, platform, lists) in [("", "the CPU", &profile.cpu), ("CUDA_", "CUDA", &profile.cuda)] {
        for ((kind, what), list) in KINDS.iter().zip(what).zip(lists) {
            let ranges: Vec<String> = list.iter().map(|range| format!("{}..={}", range.start(), range.end())).collect();
            let _ = writeln!(text, "/// Lengths of {what} with kernels of their own, on {platform}.");
            let ranges = ranges.join(", ");
            let name = format!("{prefix}{}", kind.to_uppercase());
            let _ = writeln!(text, "#[rustfmt::skip]\npub const {name}: &[RangeInclusive<usize>] = &[{ranges}];");
        }
    }
    text
}

/// The text of [`COSTS`].
pub fn costs(profiles: &[Profile]) -> String {
    let mut text = format!(
        "//! Rendered by `cargo xtask gen` from the profiles in {FOLDER}/: what work costs on machines that were \
         measured.\n\n\
         /// Processors by name, the best instruction set measured with, and costs as\n\
         /// [`Costs::read`](crate::plan::cost::Costs::read) takes them.\n\
         #[rustfmt::skip]\n\
         pub const PROFILES: &[[&str; 3]] = &[\n"
    );
    for profile in profiles {
        let Some([processor, instructions]) = &profile.processor else { continue };
        let _ = writeln!(text, "    [{processor:?}, {instructions:?}, \"\\");
        for (term, ns) in &profile.costs {
            let _ = writeln!(text, "        {term} = {ns:?}\\n\\");
        }
        text.push_str("    \"],\n");
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let list = sizes("2-32, 40, 64-65").unwrap();
        assert_eq!(list, [2..=32, 40..=40, 64..=65]);
        assert_eq!(words(&list), "2-32, 40, 64-65");
        assert_eq!(listed(vec![9, 3, 2, 4, 4]), [2..=4, 9..=9]);
        for wrong in ["1-3", "5-4", "2-8, 8", "9, 4", "2-257", "two", "2-"] {
            assert!(sizes(wrong).unwrap_err().contains("as \"2-32, 40\""), "{wrong}");
        }
    }

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        let profile = Profile {
            name: "here".into(),
            cpu: [sizes("2-20").unwrap(), sizes("2-5").unwrap(), sizes("2-64, 100").unwrap()],
            cuda: [sizes("2-32").unwrap(), sizes("2-8").unwrap(), sizes("2-64").unwrap()],
            processor: Some(["A \"fast\" processor".into(), "avx512".into()]),
            costs: vec![("call".into(), 800.0), ("tap_f32".into(), 0.0113)],
            measured: vec!["2 cores, quiet".into()],
        };
        assert_eq!(Profile::read("here", &profile.text()), Ok(profile.clone()), "{}", profile.text());
        // What names no sizes for CUDA has those of the CPU.
        let text = "[unroll]\nsquare = \"2-9\"\ncube = \"\"\nline = \"3\"\n";
        let plain = Profile::read("x", text).unwrap();
        assert_eq!((&plain.cuda, plain.cpu[1].len(), plain.processor), (&plain.cpu, 0, None));
        for (text, reason) in [
            ("", "a section [unroll]"),
            ("[unroll]\nsquare = \"2-9\"", "unroll.cube"),
            ("[unroll]\nsquare = \"9-2\"\ncube = \"\"\nline = \"\"", "unroll.square"),
            ("[unroll]\nsquare = \"2\"\ncube = \"\"\nline = \"\"\n[costs]\ncall = 1.0", "a section [machine]"),
            ("[unroll", "profiles/x.toml"),
        ] {
            let told = Profile::read("x", text).unwrap_err();
            assert!(told.contains(reason), "{text}: {told}");
        }
    }

    #[test]
    fn what_is_rendered_names_its_profile() {
        let text = "[unroll]\nsquare = \"2-9, 12\"\ncube = \"2\"\nline = \"\"\n";
        let rendered = range(&Profile::read("mine", text).unwrap());
        assert!(rendered.contains("pub const PROFILE: &str = \"mine\";"));
        assert!(rendered.contains("pub const SQUARE: &[RangeInclusive<usize>] = &[2..=9, 12..=12];"));
        assert!(rendered.contains("pub const CUDA_LINE: &[RangeInclusive<usize>] = &[];"));
    }
}
