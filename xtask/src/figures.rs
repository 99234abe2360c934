//! `figures`: the experiments of chapter 5 of the dissertation on the machine at hand, drawn as it draws them, and its
//! tables and those of two other works beside what they print.
//!
//! Points are timed by the program `flcc`, round by round: the first round has few sizes of everything, later ones have
//! more, the last has all. It ends when time is up, and each picture says which sizes it has; another run into the same
//! folder goes on from there. Pictures and tables can be made again from the data of another machine.

mod draw;
mod experiments;
mod grid;
mod rows;
mod tables;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dist;
use draw::{Axes, Cell, Curve, Head, Map, Panel, Style};
use experiments::{CHOICES, Choice, Extent, Feed, Method, Op, Platform, SIZES, Sizes, THREADS, Threads};
use rows::Row;
use timing::Program;

/// The file that says what the data were measured on.
const MACHINE: &str = "machine.csv";
/// The file of the tables.
const TABLES: &str = "tables.md";
/// Where everything goes if nothing else is said; git ignores it.
const OUT: &str = "out/figures";
/// Minutes that measuring may take.
const MINUTES: f64 = 30.0;
const QUICK_MINUTES: f64 = 3.0;
/// Seconds that a point is repeated for.
const SECONDS: f64 = 0.1;
const QUICK_SECONDS: f64 = 0.01;

/// What the arguments ask for.
#[derive(Clone, Debug, PartialEq)]
struct Options {
    quick: bool,
    estimate: bool,
    minutes: Option<f64>,
    seconds: Option<f64>,
    programs: Option<PathBuf>,
    out: Option<PathBuf>,
    from: Option<PathBuf>,
    platform: Option<Platform>,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let (mut quick, mut estimate, mut minutes, mut seconds, mut platform) = (false, false, None, None, None);
        let (mut programs, mut out, mut from) = (None, None, None);
        let mut words = arguments.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().filter(|value| !value.starts_with('-')).ok_or(format!("{word}: no value"));
            match word {
                "--quick" => quick = true,
                "--estimate" => estimate = true,
                "--cpu" | "--cuda" if platform.is_some() => return Err("expected --cpu or --cuda, got both".into()),
                "--cpu" => platform = Some(Platform::Cpu),
                "--cuda" => platform = Some(Platform::Cuda),
                "--minutes" => minutes = Some(positive(word, value()?)?),
                "--seconds" => seconds = Some(positive(word, value()?)?),
                "--bin-dir" => programs = Some(PathBuf::from(value()?)),
                "--out" => out = Some(PathBuf::from(value()?)),
                "--from" => from = Some(PathBuf::from(value()?)),
                other => return Err(format!("figures: expected an option, got {other:?}")),
            }
        }
        if from.is_some() && (quick || estimate || minutes.is_some() || seconds.is_some() || programs.is_some()) {
            return Err("--from: draws what was measured, and takes --out, --cpu and --cuda alone beside it".into());
        }
        Ok(Options { quick, estimate, minutes, seconds, programs, out, from, platform })
    }
}

fn positive(option: &str, text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e5 => Ok(value),
        _ => Err(format!("{option}: expected a number above 0, at most 100000, got {text:?}")),
    }
}

/// Measures, or reads what was measured, and draws it.
///
/// # Errors
/// Wrong arguments, a program that does not answer as it should, data that are no data, files that are not written.
pub fn run(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let options = Options::parse(arguments)?;
    let out = options.out.clone().or(options.from.clone()).unwrap_or_else(|| PathBuf::from(OUT));
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let (mut found, machine, said) = match &options.from {
        Some(folder) => (load(folder)?, Machine::load(folder)?, String::new()),
        None => measure(root, &options, &out)?,
    };
    found.retain(|row| options.platform.is_none_or(|platform| platform == row.point.platform));
    let made = make(&found, &machine)?;
    for (name, text) in &made {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let pictures = made.keys().filter(|name| name.ends_with(".svg")).count();
    let bytes: usize = made.values().map(String::len).sum();
    Ok(format!(
        "{said}{pictures} pictures with their data and tables in {}, {:.1} MB",
        out.display(),
        bytes as f64 / 1e6
    ))
}

/// Times all points that there is time for, beyond those that the folder has.
fn measure(root: &Path, options: &Options, out: &Path) -> Result<(Vec<Row>, Machine, String), String> {
    let path = match &options.programs {
        Some(folder) => folder.join("flcc"),
        None => {
            let build = ["build", "--release", "--package", "flcc-cli", "--message-format", "json", "--bins"];
            let built = dist::cargo(root, &build)?.into_iter().find(|(name, _)| name == "flcc");
            PathBuf::from(built.ok_or("flcc: cargo names no program of it")?.1)
        }
    };
    let minutes = options.minutes.unwrap_or(if options.quick { QUICK_MINUTES } else { MINUTES });
    let seconds = options.seconds.unwrap_or(if options.quick { QUICK_SECONDS } else { SECONDS });
    let effort = if options.estimate { "estimate" } else { "measure" };
    let mut program = Program::new(&path, Duration::from_secs_f64(minutes * 60.0), seconds, effort);
    let mut machine = Machine(program.machine()?.into_iter().map(|(key, value)| (key.into(), value)).collect());
    machine.0.insert("seconds".into(), seconds.to_string());
    machine.0.insert("quick".into(), options.quick.to_string());
    machine.0.insert("choices".into(), effort.into());
    let mut found = Vec::new();
    if out.join(MACHINE).is_file() {
        let known = Machine::load(out)?;
        machine.goes_on(&known).map_err(|what| format!("{}: {what}", out.join(MACHINE).display()))?;
        found = load(out)?;
    }
    let platforms = match options.platform {
        Some(platform) => vec![platform],
        None if machine.0.contains_key("gpu") => vec![Platform::Cpu, Platform::Cuda],
        None => vec![Platform::Cpu],
    };
    let extent = Extent { platforms, quick: options.quick, estimated: options.estimate };
    let rounds = experiments::rounds(&extent, found.iter().map(|row| row.point.clone()).collect());
    let (new, all) = timing::measure(&rounds, &mut program)?;
    let refused = new.iter().filter(|row| row.answer.is_err()).count();
    let errors = new.iter().filter_map(|row| row.answer.as_ref().ok()?.max_error);
    let said = format!(
        "{} of {all} points asked for, {refused} of them refused; largest error {:.1e}; {} points were known\n",
        new.len(),
        errors.fold(0.0, f64::max),
        found.len()
    );
    found.extend(new);
    Ok((found, machine, said))
}

/// What the data were measured on, by key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Machine(BTreeMap<String, String>);

impl Machine {
    fn load(folder: &Path) -> Result<Machine, String> {
        let path = folder.join(MACHINE);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let pair = |line: &str| match line.split_once(',') {
            Some((key, value)) => Ok((key.to_string(), value.to_string())),
            None => Err(format!("{}: expected KEY,VALUE, got {line:?}", path.display())),
        };
        text.lines().map(pair).collect::<Result<_, _>>().map(Machine)
    }

    /// Refuses to add to data that were not measured here in the same way.
    fn goes_on(&self, known: &Machine) -> Result<(), String> {
        for key in ["cpu", "cores", "gpu", "quick", "choices"] {
            let [there, here] = [known.get(key), self.get(key)];
            if there != here {
                return Err(format!("expected data of this machine or none, so {key} {here:?}, got {there:?}"));
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (key, value)| {
            let _ = writeln!(text, "{key},{}", value.replace('\n', " "));
            text
        })
    }

    fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("unknown", String::as_str)
    }

    /// The names of processors, as pictures tell them.
    fn names(&self, platforms: &[Platform]) -> String {
        let name = |platform: &Platform| match platform {
            Platform::Cpu => format!("{}, {} threads", self.get("cpu"), self.get("cores")),
            Platform::Cuda => format!("{}, copies included", self.get("gpu")),
        };
        platforms.iter().map(name).collect::<Vec<_>>().join(" and ")
    }

    /// What pictures of a quick run say besides.
    fn quick(&self) -> &'static str {
        if self.get("quick") == "true" { "; a quick try with images of a quarter of the side" } else { "" }
    }
}

/// All rows of a folder; files that are not there have none.
fn load(folder: &Path) -> Result<Vec<Row>, String> {
    let mut found = Vec::new();
    for file in rows::files() {
        let path = folder.join(format!("{file}.csv"));
        if path.is_file() {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            found.extend(rows::read(file, &text).map_err(|what| format!("{}: {what}", path.display()))?);
        }
    }
    match found.is_empty() {
        true => Err(format!("{}: expected data, as figures writes them, got none", folder.display())),
        false => Ok(found),
    }
}

/// The files that come of rows, by name: pictures, their data and the tables.
fn make(found: &[Row], machine: &Machine) -> Result<BTreeMap<String, String>, String> {
    let mut made = BTreeMap::from([(MACHINE.to_string(), machine.text())]);
    for file in rows::files() {
        let of: Vec<Row> = found.iter().filter(|row| row.point.file == file).cloned().collect();
        if !of.is_empty() {
            made.insert(format!("{file}.csv"), rows::write(&of));
        }
    }
    let mut add = |file: &str, picture: Option<String>| {
        if let Some(picture) = picture {
            made.insert(format!("{file}.svg"), picture);
        }
    };
    for sizes in &SIZES {
        for (file, platform) in sizes.files.into_iter().zip([Platform::Cpu, Platform::Cuda]) {
            add(file, times(sizes, file, platform, found, machine)?);
        }
    }
    for threads in &THREADS {
        add(threads.file, threaded(threads, found, machine)?);
    }
    for choice in &CHOICES {
        add(choice.file, chosen(choice, found, machine)?);
    }
    for sizes in &SIZES {
        if let Some((picture, data)) = ratio(sizes, found, machine)? {
            made.insert(format!("{}.svg", sizes.ratio), picture);
            made.insert(format!("{}.csv", sizes.ratio), data);
        }
    }
    let text: Vec<String> =
        tables::tables(found).into_iter().map(|table| format!("{}\n\n{}", table.title, table.text)).collect();
    if !text.is_empty() {
        made.insert(TABLES.into(), text.join("\n"));
    }
    Ok(made)
}

/// The number of a figure, of its file's name.
fn number(file: &str) -> String {
    let number = file.trim_start_matches("fig-5-").trim_start_matches('0');
    format!("Figure 5.{number}")
}

/// The curves of an operation: methods and feeds, as `at` places rows.
fn panel(op: Op, rows: &[&Row], at: impl Fn(&Row) -> Option<(f64, f64)>) -> Panel {
    let ways = [
        (Method::Direct, Feed::Single, "direct, single image"),
        (Method::Direct, Feed::Stream, "direct, stream of 10"),
        (Method::Fourier, Feed::Single, "Fourier, single image"),
        (Method::Fourier, Feed::Stream, "Fourier, stream of 10"),
    ];
    let curve = |(method, feed, name)| {
        let of = |row: &&&Row| (row.point.op, row.point.method, row.point.feed) == (op, method, feed);
        let mut points: Vec<(f64, f64)> = rows.iter().filter(of).filter_map(|row| at(row)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve { name, style: Style { method, filled: feed == Feed::Single }, points }
    };
    let title = if op == Op::Conv { "convolution" } else { "local correlation coefficients (zncc)" };
    Panel { title: title.into(), curves: ways.map(curve).into() }
}

const OPS: [Op; 2] = [Op::Conv, Op::Lcc];

/// Different values, ascending.
fn different(values: impl Iterator<Item = usize>) -> Vec<usize> {
    values.collect::<BTreeSet<usize>>().into_iter().collect()
}

/// As many of the sizes as have room under an axis.
fn ticks(sides: &[usize]) -> Vec<f64> {
    grid::sample(sides, 7).into_iter().map(|side| side as f64).collect()
}

/// Which sizes stand for all.
fn share(found: usize, all: usize, what: &str) -> String {
    if found < all { format!("{found} of {all} {what}") } else { format!("all {all} {what}") }
}

/// What the varying side of a row is, and words for it.
fn varying(sizes: &Sizes) -> (fn(&Row) -> usize, &'static str) {
    match sizes.templates.vary() {
        true => (|row| row.point.template.side(), "template"),
        false => (|row| row.point.image.side(), "image"),
    }
}

/// What stays the same in figures over sizes.
fn constant(sizes: &Sizes, rows: &[&Row]) -> String {
    let Some(row) = rows.first() else { return String::new() };
    match sizes.templates.vary() {
        true => format!("image {}", row.point.image),
        false => format!("template {}", row.point.template),
    }
}

/// Words above a figure over sizes.
fn head(file: &str, what: &str, sizes: &Sizes, rows: &[&Row], sides: &[usize], about: &str) -> Head {
    let (_, word) = varying(sizes);
    let all = if word == "template" { sizes.templates.all() } else { sizes.images.all() };
    Head {
        title: format!("{}: {what}, {}", number(file), constant(sizes, rows)),
        about: format!("{about}; f32, full result; {}", share(sides.len(), all.len(), &format!("{word} sizes"))),
    }
}

/// Figures 5.1 to 5.8.
fn times(
    sizes: &Sizes,
    file: &str,
    platform: Platform,
    found: &[Row],
    machine: &Machine,
) -> Result<Option<String>, String> {
    let rows: Vec<&Row> = found.iter().filter(|row| row.point.file == file).collect();
    if rows.iter().all(|row| row.ns().is_none()) {
        return Ok(None);
    }
    let (side, word) = varying(sizes);
    let sides = different(rows.iter().map(|row| side(row)));
    let what = format!("execution time on the {}", platform.name());
    let about = machine.names(&[platform]) + machine.quick();
    let panels = OPS.map(|op| panel(op, &rows, |row| Some((side(row) as f64, row.ns()? / 1e6))));
    let axes = Axes {
        across: format!("{word} side (samples)"),
        ticks: ticks(&sides),
        upright: "ms per image".into(),
        line: None,
    };
    draw::curves(&head(file, &what, sizes, &rows, &sides, &about), &panels, &axes).map(Some)
}

/// Figures 5.9 to 5.12, and their data.
fn ratio(sizes: &Sizes, found: &[Row], machine: &Machine) -> Result<Option<(String, String)>, String> {
    let of = |file: &str| found.iter().filter(|row| row.point.file == file).collect::<Vec<_>>();
    let [cpu, gpu] = sizes.files.map(of);
    let ratio = |row: &Row| {
        let alike = |other: &&&Row| {
            let [a, b] = [&row.point, &other.point];
            (a.op, a.method, a.feed, &a.image, &a.template) == (b.op, b.method, b.feed, &b.image, &b.template)
        };
        Some(row.ns()? / gpu.iter().find(alike)?.ns()?)
    };
    let mut data = String::from("op,method,feed,image,template,cpu_over_gpu\n");
    let both: Vec<&Row> = cpu.into_iter().filter(|row| ratio(row).is_some()).collect();
    for row in &both {
        let point = &row.point;
        let value = ratio(row).unwrap_or(f64::NAN);
        let (op, method, feed) = (point.op, point.method, point.feed);
        let _ = writeln!(data, "{op},{method},{feed},{},{},{value:.3}", point.image, point.template);
    }
    if both.is_empty() {
        return Ok(None);
    }
    let (side, word) = varying(sizes);
    let sides = different(both.iter().map(|row| side(row)));
    let about = machine.names(&[Platform::Cpu, Platform::Cuda]) + machine.quick();
    let panels = OPS.map(|op| panel(op, &both, |row| Some((side(row) as f64, ratio(row)?))));
    let axes = Axes {
        across: format!("{word} side (samples)"),
        ticks: ticks(&sides),
        upright: "CPU time / GPU time".into(),
        line: Some(1.0),
    };
    let head = head(sizes.ratio, "how many times faster the GPU is", sizes, &both, &sides, &about);
    Ok(Some((draw::curves(&head, &panels, &axes)?, data)))
}

/// Figures 5.13 and 5.14.
fn threaded(threads: &Threads, found: &[Row], machine: &Machine) -> Result<Option<String>, String> {
    let rows: Vec<&Row> = found.iter().filter(|row| row.point.file == threads.file).collect();
    let Some(first) = rows.iter().find(|row| row.ns().is_some()) else { return Ok(None) };
    let counts = different(rows.iter().map(|row| row.point.threads));
    let point = &first.point;
    let head = Head {
        title: format!(
            "{}: execution time by threads, image {}, template {}",
            number(threads.file),
            point.image,
            point.template
        ),
        about: format!(
            "{}, {} cores{}; f32, full result; {}",
            machine.get("cpu"),
            machine.get("cores"),
            machine.quick(),
            share(counts.len(), experiments::thread_counts().len(), "numbers of threads")
        ),
    };
    let panels = OPS.map(|op| panel(op, &rows, |row| Some((row.point.threads as f64, row.ns()? / 1e6))));
    let axes = Axes {
        across: "threads".into(),
        ticks: counts.iter().map(|&count| count as f64).collect(),
        upright: "ms per image".into(),
        line: None,
    };
    draw::curves(&head, &panels, &axes).map(Some)
}

/// Figures 5.15 to 5.22.
fn chosen(choice: &Choice, found: &[Row], machine: &Machine) -> Result<Option<String>, String> {
    let rows: Vec<&Row> = found.iter().filter(|row| row.point.file == choice.file).collect();
    let templates = different(rows.iter().map(|row| row.point.template.side()));
    let images = different(rows.iter().map(|row| row.point.image.side()));
    if rows.is_empty() {
        return Ok(None);
    }
    let place = |sides: &[usize], side: usize| sides.binary_search(&side).unwrap_or(0);
    let maps = OPS.map(|op| Map {
        title: panel(op, &[], |_| None).title,
        cells: rows
            .iter()
            .filter(|row| row.point.op == op)
            .map(|row| Cell {
                column: place(&templates, row.point.template.side()),
                row: place(&images, row.point.image.side()),
                took: row.answer.as_ref().ok().map(|answer| answer.took),
            })
            .collect(),
    });
    let feed = if choice.feed == Feed::Single { "one image" } else { "a stream" };
    let head = Head {
        title: format!(
            "{}: what the planner takes on the {}, {}D, {feed}",
            number(choice.file),
            choice.platform.name(),
            choice.axes
        ),
        about: format!(
            "{}{}; f32, full result, effort {}; {}, {}",
            machine.names(&[choice.platform]),
            machine.quick(),
            machine.get("choices"),
            share(templates.len(), choice.templates.all().len(), "template sizes"),
            share(images.len(), choice.images().len(), "image sizes")
        ),
    };
    draw::maps(&head, &maps, &templates, &images).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that tags are closed in turn, and gives the texts between them.
    fn texts(svg: &str) -> Vec<String> {
        let (mut open, mut texts, mut rest) = (Vec::new(), Vec::new(), svg);
        while let Some(begin) = rest.find('<') {
            let text = rest[..begin].trim();
            assert!(!text.contains('>'), "{text}");
            if !text.is_empty() {
                texts.push(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
            }
            let end = begin + rest[begin..].find('>').expect("a tag ends");
            let tag = &rest[begin + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closed in turn");
            } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
                open.push(tag.split_whitespace().next().expect("a tag has a name"));
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
        texts
    }

    fn repository() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn made_of(folder: &Path) -> BTreeMap<String, String> {
        make(&load(folder).unwrap(), &Machine::load(folder).unwrap()).unwrap()
    }

    #[test]
    fn pictures_are_labelled() {
        let made = made_of(&repository().join("xtask/tests/figures/small"));
        let ways = [
            "direct, single image",
            "direct, stream of 10",
            "Fourier, single image",
            "Fourier, stream of 10",
            "convolution",
            "local correlation coefficients (zncc)",
        ];
        for (file, words) in [
            (
                "fig-5-01.svg",
                &[
                    "Figure 5.1: execution time on the CPU, image 2000x2000",
                    "A processor <made up>, 4 threads; f32, full result; 3 of 31 template sizes",
                    "template side (samples)",
                    "ms per image",
                    "32",
                ][..],
            ),
            ("fig-5-02.svg", &["A GPU, copies included; f32, full result; 3 of 31 template sizes"]),
            ("fig-5-09.svg", &["Figure 5.9: how many times faster the GPU is, image 2000x2000", "CPU time / GPU time"]),
            (
                "fig-5-13.svg",
                &[
                    "Figure 5.13: execution time by threads, image 2000x2000, template 16x16",
                    "A processor <made up>, 4 cores; f32, full result; 3 of 11 numbers of threads",
                    "threads",
                    "1024",
                ],
            ),
        ] {
            let texts = texts(&made[file]);
            for word in words.iter().chain(&ways) {
                assert!(texts.iter().any(|text| text == word), "{file}: {word}: {texts:?}");
            }
        }
        let map = texts(&made["fig-5-15.svg"]);
        for word in [
            "Figure 5.15: what the planner takes on the CPU, 2D, one image",
            "A processor <made up>, 4 threads; f32, full result, effort measure; 3 of 31 template sizes, 2 of 8 image \
             sizes",
            "direct",
            "Fourier",
            "refused",
            "image side (samples)",
            "4096",
        ] {
            assert!(map.iter().any(|text| text == word), "{word}: {map:?}");
        }
        assert!(!map.iter().any(|text| text == "separable"));
    }

    #[test]
    fn ratios_are_those_of_the_times() {
        let made = made_of(&repository().join("xtask/tests/figures/small"));
        assert!(made["fig-5-09.csv"].contains("\nzncc,fourier,stream,2000x2000,8x8,4.000\n"));
        assert_eq!(made.keys().filter(|name| name.ends_with(".svg")).count(), 5);
        assert!(made["tables.md"].starts_with("Table 5.3: "));
    }

    /// What is committed was drawn from the data beside it: texts and elements, since places of points are rounded.
    #[test]
    fn the_pictures_of_the_page_are_those_of_their_data() {
        let root = repository();
        let page = fs::read_to_string(root.join("docs/experiments.md")).unwrap();
        let mut bytes = 0;
        for folder in ["docs/pictures/experiments", "docs/pictures/experiments/estimated"] {
            for (name, text) in made_of(&root.join(folder)) {
                let there = fs::read_to_string(root.join(folder).join(&name)).unwrap_or_default();
                bytes += there.len();
                let again = format!("{folder}/{name}: cargo xtask figures --from {folder}");
                if name.ends_with(".svg") {
                    assert_eq!(texts(&there), texts(&text), "{again}");
                    assert_eq!(there.matches('<').count(), text.matches('<').count(), "{again}");
                    let link = folder.trim_start_matches("docs/");
                    assert!(page.contains(&format!("({link}/{name})")), "the page shows {name}");
                } else {
                    assert_eq!(there, text, "{again}");
                }
            }
            for table in tables::tables(&load(&root.join(folder)).unwrap()) {
                assert!(page.contains(&table.text), "the page has {}:\n{}", table.title, table.text);
            }
        }
        assert!(bytes < 1_500_000, "{bytes} bytes");
    }

    #[test]
    fn options_are_understood() {
        let parse = |text: &str| Options::parse(&text.split_whitespace().collect::<Vec<_>>());
        let options = parse("--quick --minutes 2.5 --bin-dir a --out b --cuda").unwrap();
        assert_eq!((options.quick, options.minutes, options.platform), (true, Some(2.5), Some(Platform::Cuda)));
        assert_eq!((options.programs, options.out), (Some("a".into()), Some("b".into())));
        for (wrong, told) in [
            ("--minutes 0", "--minutes: expected a number above 0, at most 100000, got \"0\""),
            ("--minutes --quick", "--minutes: no value"),
            ("--cpu --cuda", "expected --cpu or --cuda, got both"),
            ("--from a --quick", "--from: draws what was measured, and takes --out, --cpu and --cuda alone beside it"),
            ("--fast", "figures: expected an option, got \"--fast\""),
        ] {
            assert_eq!(parse(wrong).unwrap_err(), told);
        }
    }

    #[test]
    fn data_of_another_machine_are_not_mixed_in() {
        let machine = |cores: &str| Machine(BTreeMap::from([("cores".into(), cores.into())]));
        assert_eq!(machine("4").goes_on(&machine("4")), Ok(()));
        let told = machine("4").goes_on(&machine("8")).unwrap_err();
        assert_eq!(told, "expected data of this machine or none, so cores \"4\", got \"8\"");
    }
}
