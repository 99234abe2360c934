//! The files that a call is to write: the one table of the formats that names stand for.
//!
//! Names are judged before anything is computed: an extension says the format that is written, no output may take the
//! place of an input or of another output, and each must be writable.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flcc_runtime::core::shape;
use flcc_runtime::rooms::files;
use flcc_runtime::{DType, SpecError};

use crate::error::Error;
use crate::io;
use crate::picture::{self, Heat};

/// What an output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A result.
    Result,
    /// A picture.
    Picture,
    /// A list of peaks.
    Peaks,
    /// What a part of a result is, and its peaks.
    Part,
    /// Wisdom, which may have any name, and which is read before it is written.
    Wisdom,
}

/// What an output is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An array, any number of axes.
    Npy,
    /// Float samples, a page for each plane; a line is one row.
    Tiff,
    /// A picture: of a result its heat map.
    Png,
    /// A table: of a result of one axis a row for each position.
    Csv,
    /// What a part of a result is.
    Json,
    /// An array, any number of axes, in a folder.
    Zarr,
}

/// The formats with their extensions.
const EXTENSIONS: [(Format, &[&str]); 6] = [
    (Format::Npy, &[".npy"]),
    (Format::Tiff, &[".tif", ".tiff"]),
    (Format::Png, &[".png"]),
    (Format::Csv, &[".csv"]),
    (Format::Json, &[".json"]),
    (Format::Zarr, &[".zarr"]),
];

/// Whether this build writes zarr arrays.
const ZARR: bool = cfg!(feature = "zarr");

/// The name of standard output, which takes a result as `.npy`.
const STANDARD_OUTPUT: &str = "-";
/// The names that the system has for it, the usual one first.
const STANDARD_OUTPUTS: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Whether a result goes to standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

impl Holds {
    /// The formats that hold it. A pipe or a device whose name says nothing gets the first.
    fn formats(self) -> &'static [Format] {
        match self {
            Holds::Result if ZARR => &[Format::Npy, Format::Tiff, Format::Png, Format::Csv, Format::Zarr],
            Holds::Result => &[Format::Npy, Format::Tiff, Format::Png, Format::Csv],
            Holds::Picture => &[Format::Png],
            Holds::Peaks => &[Format::Csv],
            Holds::Part => &[Format::Json],
            Holds::Wisdom => &[],
        }
    }

    /// The format that a name stands for.
    ///
    /// # Errors
    /// A name that ends in no extension of these formats, unless it is that of a pipe or a device.
    fn format(self, argument: &str, path: &Path) -> Result<Format, SpecError> {
        let formats = self.formats();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let named = |row: &&(Format, &[&str])| row.1.iter().any(|extension| name.ends_with(extension));
        let found = EXTENSIONS.iter().filter(|row| formats.contains(&row.0)).find(named).map(|row| row.0);
        // Where /dev/stdout leads to a file, the file's own name is not what was asked for either.
        let device =
            || path.starts_with("/dev") || fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let first = || match self {
            Holds::Result if is_standard_output(path) => formats.first().copied(),
            _ if device() => formats.first().copied(),
            _ => None,
        };
        if self == Holds::Result && io::names_array(path) && !ZARR {
            return Err(SpecError::new(argument, format!("for a zarr array {}", io::FEATURE), path.display()));
        }
        found.or_else(first).ok_or_else(|| {
            let standard = if self == Holds::Result { " (or - for standard output)" } else { "" };
            SpecError::new(argument, format!("a name that ends in {}{standard}", endings(formats)), path.display())
        })
    }
}

/// `.npy, .tif, .tiff or .png`.
fn endings(formats: &[Format]) -> String {
    let rows = EXTENSIONS.iter().filter(|row| formats.contains(&row.0));
    let all: Vec<&str> = rows.flat_map(|row| row.1.iter().copied()).collect();
    match all.as_slice() {
        [one] => (*one).to_string(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
        [] => String::new(),
    }
}

/// Whether a name stands for a format that a result is written to as it is computed, part behind part; where this build
/// does not write it, [`Inputs::check`] says so.
pub fn holds_values(path: &Path) -> bool {
    path.extension().is_some_and(|text| text.eq_ignore_ascii_case("npy")) || io::names_array(path)
}

/// The extensions of what [`holds_values`] takes.
pub fn values_endings() -> String {
    endings(if ZARR { &[Format::Npy, Format::Zarr] } else { &[Format::Npy] })
}

/// The format of a result of so many axes.
///
/// # Errors
/// A name that stands for no format, or for one that does not hold so many axes.
pub fn result_format(argument: &str, path: &Path, axes: usize) -> Result<Format, SpecError> {
    let format = Holds::Result.format(argument, path)?;
    if format == Format::Csv && axes != 1 {
        let others: Vec<Format> = Holds::Result.formats().iter().copied().filter(|other| *other != format).collect();
        let expected = format!(
            "a name that ends in {} for a result of {} (.csv holds 1 axis)",
            endings(&others),
            shape::axes(axes)
        );
        return Err(SpecError::new(argument, expected, path.display()));
    }
    Ok(format)
}

/// Refuses a result on standard output where something else goes there: `other` says what, and is none of nothing.
///
/// # Errors
/// `-`, several results or something else.
pub fn check_standard_output(
    argument: &str,
    path: &Path,
    results: usize,
    other: Option<&str>,
) -> Result<(), SpecError> {
    let name = path.display();
    let got = match other {
        _ if !is_standard_output(path) && !STANDARD_OUTPUTS.iter().any(|name| path == Path::new(name)) => return Ok(()),
        Some(other) => format!("{name}, where {other} go"),
        None if results > 1 => format!("{name} for {results} results"),
        None => return Ok(()),
    };
    Err(SpecError::new(argument, "a file (standard output, -, takes one result and nothing else)", got))
}

/// A result to be written.
pub struct Written<'a> {
    /// Its values, where the first of them lies, and what they are.
    pub heat: Heat<'a>,
    /// What a table calls the values.
    pub column: &'a str,
}

/// Writes a result as what its name says; to `out` if that is standard output.
///
/// # Errors
/// A name that stands for no format of it; a file that is not written.
pub fn write(argument: &str, path: &Path, result: Written<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let Written { heat, column } = result;
    let (map, first) = (heat.map, heat.first.first().copied().unwrap_or(0));
    let shape = map.shape();
    let wrong = Error::io(argument);
    match result_format(argument, path, shape.axes())? {
        Format::Npy if is_standard_output(path) => io::write_npy(out, shape.lengths(), map.data())?,
        Format::Npy => io::save_npy(path, shape.lengths(), map.data()).map_err(wrong)?,
        Format::Zarr => io::save_zarr(path, shape.lengths(), map.data()).map_err(wrong)?,
        Format::Tiff => io::save_tiff(path, shape.lengths(), map.data()).map_err(wrong)?,
        Format::Png => picture::save_heatmap(path, &heat).map_err(|error| error.of_argument(argument))?,
        Format::Csv => {
            let rows = (0..shape.len())
                .map(|index| format!("{},{}\n", first + index as i64, score_text(map.get(index), map.data().dtype())));
            let lines = std::iter::once(format!("position,{column}\n")).chain(rows);
            io::save_text(path, lines).map_err(wrong)?;
        }
        // No result has this name: `formats` has none of it.
        Format::Json => {}
    }
    Ok(())
}

/// A value with as many digits as its type has.
pub fn score_text(score: f64, dtype: DType) -> String {
    if dtype == DType::F64 { score.to_string() } else { (score as f32).to_string() }
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// The argument that named it.
    pub argument: &'a str,
    /// The file.
    pub path: PathBuf,
    /// What it holds.
    pub holds: Holds,
}

impl Output<'_> {
    fn is_standard_output(&self) -> bool {
        self.holds == Holds::Result && is_standard_output(&self.path)
    }

    /// Where it lies, standard output where that leads to.
    fn place(&self) -> Place {
        Place::of(if self.is_standard_output() { Path::new(STANDARD_OUTPUTS[0]) } else { &self.path })
    }
}

/// A file, or a folder that is an array, by all of its names: links are followed, and two names of one are one.
struct Place {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    is_file: bool,
}

impl Place {
    fn of(path: &Path) -> Place {
        let meta = fs::metadata(path).ok();
        Place {
            path: files::target(path).unwrap_or_else(|_| path.to_path_buf()),
            identity: meta.as_ref().and_then(files::identity),
            is_file: meta.is_some_and(|meta| meta.is_file()) || io::is_array(path),
        }
    }
}

/// What a call reads, which nothing that it writes may replace.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The arguments that named files, by the files' places.
    paths: HashMap<PathBuf, String>,
    /// The same by what the system knows files by.
    identities: HashMap<(u64, u64), String>,
    /// The arguments that named standard input.
    standard: Vec<String>,
}

impl Inputs {
    /// Nothing is read.
    pub fn new() -> Inputs {
        Inputs::default()
    }

    /// Something is read that an argument names. A pipe or a device is not destroyed by being written to.
    pub fn add(&mut self, argument: &str, path: &Path) {
        if path == Path::new("-") {
            self.standard.push(argument.into());
            return;
        }
        let place = Place::of(path);
        if place.is_file {
            self.keep(argument, place);
        }
    }

    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.paths.keys().map(PathBuf::as_path)
    }

    /// Something will be written that nothing else may replace.
    pub fn add_output(&mut self, output: &Output<'_>) {
        self.keep(output.argument, Place::of(&output.path));
    }

    fn keep(&mut self, argument: &str, place: Place) {
        self.paths.entry(place.path).or_insert_with(|| argument.into());
        if let Some(identity) = place.identity {
            self.identities.entry(identity).or_insert_with(|| argument.into());
        }
    }

    /// The argument that names a file already.
    fn named(&self, place: &Place) -> Option<&String> {
        let same = || place.identity.and_then(|identity| self.identities.get(&identity));
        self.paths.get(&place.path).or_else(same)
    }

    /// Refuses outputs that would be no more what they were called, or would destroy something that the call names.
    ///
    /// # Errors
    /// The first that is wrong, by its argument: standard input read twice, an extension of another format, a file that
    /// is read, a file that is written twice; a file that cannot be written.
    pub fn check(&self, outputs: &[Output<'_>]) -> Result<(), Error> {
        if let [first, second, ..] = &self.standard[..] {
            let expected = format!("a file, since {first} is standard input, which is read once");
            return Err(SpecError::new(second, expected, "-").into());
        }
        for Output { argument, path, holds } in outputs {
            if *holds != Holds::Wisdom {
                holds.format(argument, path)?;
            }
        }
        let mut before = Inputs::new();
        for output @ Output { argument, path, .. } in outputs {
            let place = output.place();
            if let Some(other) = self.named(&place).or_else(|| before.named(&place)) {
                let expected = format!("another file than {other} names");
                return Err(SpecError::new(*argument, expected, path.display()).into());
            }
            before.keep(argument, place);
        }
        for output @ Output { argument, path, holds } in outputs {
            let checked = match holds {
                Holds::Wisdom => Ok(()),
                Holds::Result if output.is_standard_output() => Ok(()),
                Holds::Result if io::names_array(path) => io::check_array(path),
                _ => io::check_writable(path),
            };
            checked.map_err(Error::io(argument))?;
        }
        Ok(())
    }
}

/// A name with a place for a number: `found-%d.png`, or with zeros before the number `found-%05d.png`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    digits: usize,
    after: String,
}

impl Pattern {
    /// The name with a number.
    pub fn with(&self, number: usize) -> PathBuf {
        let Pattern { before, digits, after } = self;
        PathBuf::from(format!("{before}{number:0digits$}{after}"))
    }

    /// The number that a file would have in its name, if it is one of these in any folder.
    pub fn number(&self, file: &Path) -> Option<usize> {
        let before = Path::new(&self.before).file_name().filter(|_| !self.before.ends_with('/'));
        let name = file.file_name()?.to_str()?;
        name.strip_prefix(before.unwrap_or_default().to_str()?)?.strip_suffix(&self.after)?.parse().ok()
    }
}

impl FromStr for Pattern {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Pattern, SpecError> {
        let wrong = || SpecError::new("name", "a name with one %d, or as %05d, for the number of the frame", text);
        let (before, rest) = text.split_once('%').ok_or_else(wrong)?;
        let (digits, after) = rest.split_once('d').ok_or_else(wrong)?;
        let digits = match digits.strip_prefix('0') {
            None if digits.is_empty() => 0,
            Some(width) if width.len() == 1 => width.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        };
        if after.contains('%') {
            return Err(wrong());
        }
        Ok(Pattern { before: before.into(), digits, after: after.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inputs: &[(&str, &Path)], outputs: &[Output<'_>]) -> Result<(), Error> {
        let mut all = Inputs::new();
        inputs.iter().for_each(|(argument, path)| all.add(argument, path));
        all.check(outputs)
    }

    #[test]
    fn a_pattern_has_one_place_for_a_number() {
        let name = |text: &str, number| text.parse::<Pattern>().unwrap().with(number);
        assert_eq!(name("a/found-%d.png", 12), Path::new("a/found-12.png"));
        assert_eq!(name("%05d.png", 12), Path::new("00012.png"));
        assert_eq!(name("%02dd.png", 123), Path::new("123d.png"));
        for text in ["", "a.png", "%", "%s.png", "%5d.png", "%0d.png", "%d-%d.png", "%099d.png", "%-1d.png", "%0+d"] {
            let line = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(line.starts_with("name: expected a name with one %d, or as %05d, "), "{text}: {line}");
        }
    }

    fn output<'a>(argument: &'a str, path: &Path, holds: Holds) -> Output<'a> {
        Output { argument, path: path.into(), holds }
    }

    #[test]
    fn an_extension_says_the_format() {
        let folder = std::env::temp_dir();
        let told = |name: &str, holds| {
            check(&[], &[output("-o", &folder.join(name), holds)]).map_err(|error| error.to_string())
        };
        for (name, holds, format) in [
            ("x.npy", Holds::Result, Format::Npy),
            ("x.NPY", Holds::Result, Format::Npy),
            (".npy", Holds::Result, Format::Npy),
            ("x.tif", Holds::Result, Format::Tiff),
            ("x.y.Tiff", Holds::Result, Format::Tiff),
            ("x.png", Holds::Result, Format::Png),
            ("x.csv", Holds::Result, Format::Csv),
            ("x.y.png", Holds::Picture, Format::Png),
            ("x.csv", Holds::Peaks, Format::Csv),
        ] {
            assert_eq!(told(name, holds), Ok(()), "{name}");
            assert_eq!(holds.format("-o", Path::new(name)).unwrap(), format, "{name}");
        }
        assert_eq!(told("w.x", Holds::Wisdom), Ok(()));
        for name in ["x", "x.txt", "x.npy.gz", "x.", "x.npz", "x.jpg", "npy"] {
            let line = told(name, Holds::Result).unwrap_err();
            let all = if ZARR { ".npy, .tif, .tiff, .png, .csv or .zarr" } else { ".npy, .tif, .tiff, .png or .csv" };
            let expected = format!("-o: expected a name that ends in {all} (or - for standard output), got ");
            assert!(line.starts_with(&expected) && line.ends_with(name), "{line}");
        }
        for name in ["x", "x.jpg", "x.npy"] {
            let line = told(name, Holds::Picture).unwrap_err();
            assert!(line.starts_with("-o: expected a name that ends in .png, got ") && line.ends_with(name), "{line}");
        }
        assert!(told("x.png", Holds::Peaks).unwrap_err().starts_with("-o: expected a name that ends in .csv, got "));
        let axes = |axes| result_format("-o", Path::new("x.csv"), axes).map_err(|error| error.to_string());
        assert_eq!(axes(1), Ok(Format::Csv));
        let others = if ZARR { ".npy, .tif, .tiff, .png or .zarr" } else { ".npy, .tif, .tiff or .png" };
        assert_eq!(
            axes(3).unwrap_err(),
            format!("-o: expected a name that ends in {others} for a result of 3 axes (.csv holds 1 axis), got x.csv")
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_known_by_all_of_its_names() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("flcc-outputs-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("a.png"), b"").unwrap();
        fs::hard_link(at("a.png"), at("hard.png")).unwrap();
        symlink("a.png", at("soft.png")).unwrap();
        symlink("new.png", at("dangling.png")).unwrap();
        symlink(".", at("here")).unwrap();
        let both = |a: &str, b: &str| {
            let as_input = check(&[("IMAGE", &at(a))], &[output("--annotate", &at(b), Holds::Picture)]);
            let as_output = check(
                &[],
                &[output("--heatmap", &at(a), Holds::Picture), output("--annotate", &at(b), Holds::Picture)],
            );
            [as_input, as_output].map(|told| told.map_err(|error| error.to_string()))
        };
        for name in ["a.png", "./a.png", "sub/../a.png", "hard.png", "soft.png", "here/a.png"] {
            let [as_input, as_output] = both("a.png", name);
            assert!(
                as_input.unwrap_err().starts_with("--annotate: expected another file than IMAGE names, got "),
                "{name}"
            );
            assert!(
                as_output.unwrap_err().starts_with("--annotate: expected another file than --heatmap names, got "),
                "{name}"
            );
        }
        // What is not there yet is no input, but may be written twice.
        for name in ["new.png", "dangling.png", "here/new.png"] {
            let [as_input, as_output] = both("new.png", name);
            assert_eq!(as_input, Ok(()), "{name}");
            assert!(as_output.is_err(), "{name}");
        }
        assert_eq!(both("a.png", "b.png"), [Ok(()), Ok(())]);
        // A device is read and written at once, but not written by two.
        let null = Path::new("/dev/null");
        assert!(check(&[("IMAGE", null)], &[output("-o", null, Holds::Result)]).is_ok());
        assert!(check(&[], &[output("-o", null, Holds::Result), output("--heatmap", null, Holds::Picture)]).is_err());
        // Standard output is no file of that name, and takes results alone.
        let dash = Path::new("-");
        assert!(check(&[("IMAGE", dash)], &[output("-o", dash, Holds::Result)]).is_ok());
        assert!(check(&[], &[output("--heatmap", dash, Holds::Picture)]).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
