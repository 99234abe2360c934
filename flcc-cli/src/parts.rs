//! Parts of results as files: what a part is of, where it lies in the whole, what was found in it; and how parts are
//! put together.
//!
//! A part is a file of JSON, in which numbers that are no whole ones are texts: so they come back as they were. The
//! samples lie in `.npy` files beside it.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flcc_runtime::core::shape::join;
use flcc_runtime::peaks::Found;
use flcc_runtime::rooms::files;
use flcc_runtime::{Best, Peak, Spec, SpecError};
use serde_json::{Map, Value, json};

use crate::args::Peaks;
use crate::error::Error;
use crate::io::{IoError, save_text};
use crate::tile::Tile;

/// The field that says that a file is a part, and what its value is.
const MARK: (&str, u64) = ("flcc_part", 2);

/// Most bytes of the file of a part: some two million peaks.
const MOST_BYTES: usize = 256 << 20;

/// A part of the results of a call.
#[derive(Debug)]
pub struct Part {
    /// Its number among the parts.
    pub tile: Tile,
    /// The command.
    pub command: String,
    /// What tells the image from others, and its file.
    pub image: (String, String),
    /// What tells the mask from others.
    pub mask: Option<String>,
    /// What was looked for, by match.
    pub search: Option<Peaks>,
    /// What stands for the code that computed it.
    pub source: String,
    /// The part of each template's result.
    pub results: Vec<OfTemplate>,
}

/// A part of the result of one template.
#[derive(Clone, Debug)]
pub struct OfTemplate {
    /// What tells the template from others, and its name.
    pub template: (String, String),
    /// The spec of the whole result.
    pub spec: Spec,
    /// How it was computed.
    pub method: String,
    /// By which kernel.
    pub kernel: String,
    /// Whether it was short of memory, by [`flcc_runtime::Matcher::short_of_memory`].
    pub short: bool,
    /// Which positions of the whole result along its slowest axis of more than one.
    pub range: Range<usize>,
    /// The file of the values, beside that of the part.
    pub values: Option<String>,
    /// How long it took.
    pub ns: u64,
    /// What was found, at positions of the whole result.
    pub found: Found,
}

/// The slowest axis of a result that has more than one position, among its axes.
pub fn axis(spec: &Spec) -> usize {
    let shape = spec.out_shape();
    shape.lengths().iter().position(|length| *length > 1).unwrap_or(shape.axes() - 1)
}

/// A float as a text that is read as it was.
fn text(value: f64) -> Value {
    Value::String(value.to_string())
}

impl Part {
    /// The text of its file.
    pub fn to_text(&self) -> String {
        let search = self.search.as_ref().map(|search| {
            json!({
                "top": search.top,
                "threshold": search.threshold.map(text),
                "min_distance": search.min_distance,
                "exclusive": search.exclusive,
                "exclude_border": search.exclude_border,
                "count": search.count,
                "subpixel": search.subpixel.map(|fit| fit.to_string()),
            })
        });
        let result = |result: &OfTemplate| {
            let peak = |peak: &Peak| {
                let refined =
                    peak.refined.as_ref().map(|refined| refined.iter().copied().map(text).collect::<Vec<_>>());
                json!({"position": peak.position, "score": text(peak.score), "refined": refined})
            };
            json!({
                "template": result.template.1,
                "samples": result.template.0,
                "spec": result.spec.to_string(),
                "method": result.method,
                "kernel": result.kernel,
                "short": result.short,
                "whole": result.spec.out_shape().lengths(),
                "axis": axis(&result.spec),
                "begin": result.range.start,
                "end": result.range.end,
                "values": result.values,
                "ns": result.ns,
                "peaks": result.found.peaks.iter().map(peak).collect::<Vec<_>>(),
                "optimum": result.found.optimum.map(|(score, count)| json!({"score": text(score), "count": count})),
            })
        };
        let whole = json!({
            MARK.0: MARK.1,
            "tile": self.tile.to_string(),
            "command": self.command,
            "image": self.image.1,
            "image_samples": self.image.0,
            "mask_samples": self.mask,
            "search": search,
            "source": self.source,
            "results": self.results.iter().map(result).collect::<Vec<_>>(),
        });
        format!("{whole}\n")
    }

    /// Reads it; `None` where the text is no part.
    pub fn of_text(text: &str) -> Option<Part> {
        let whole: Value = serde_json::from_str(text).ok()?;
        let whole = whole.as_object().filter(|whole| whole.get(MARK.0).and_then(Value::as_u64) == Some(MARK.1))?;
        let search = match whole.get("search")? {
            Value::Null => None,
            Value::Object(search) => Some(Peaks {
                top: maybe(search, "top", size)?,
                threshold: maybe(search, "threshold", float)?,
                min_distance: maybe(search, "min_distance", size)?,
                exclusive: search.get("exclusive")?.as_bool()?,
                exclude_border: size(search.get("exclude_border")?)?,
                count: search.get("count")?.as_bool()?,
                subpixel: maybe(search, "subpixel", |fit| fit.as_str()?.parse().ok())?,
            }),
            _ => return None,
        };
        let results = whole.get("results")?.as_array()?.iter().map(|result| result_of(result.as_object()?));
        Some(Part {
            tile: string(whole, "tile")?.parse().ok()?,
            command: string(whole, "command")?,
            image: (string(whole, "image_samples")?, string(whole, "image")?),
            mask: maybe(whole, "mask_samples", owned)?,
            search,
            source: string(whole, "source")?,
            results: results.collect::<Option<_>>()?,
        })
    }

    /// Reads its file, of which no more is read than the largest part has.
    ///
    /// # Errors
    /// A file that is not read, or that is no part.
    pub fn open(path: &Path) -> Result<Part, IoError> {
        let damaged = |got| {
            let expected = "the .json file that a call with --tile wrote".into();
            IoError::Damaged { name: path.display().to_string(), expected, got }
        };
        let bytes = files::read_bounded(path, MOST_BYTES).map_err(|source| match source.kind() {
            ErrorKind::FileTooLarge => damaged(format!("a file of more than {} MiB", MOST_BYTES >> 20)),
            _ => IoError::Read { name: path.display().to_string(), source },
        })?;
        let part = std::str::from_utf8(&bytes).ok().and_then(Part::of_text);
        part.ok_or_else(|| damaged(format!("{} other bytes", bytes.len())))
    }

    /// Writes its file.
    ///
    /// # Errors
    /// A file that is not written; more peaks than fit in what is read again.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let text = self.to_text();
        if text.len() > MOST_BYTES {
            let count: usize = self.results.iter().map(|result| result.found.peaks.len()).sum();
            let expected =
                format!("peaks of at most {} MiB with --tile (a smaller --top shortens it)", MOST_BYTES >> 20);
            return Err(SpecError::new("-o", expected, format!("{count} peaks of {} MiB", text.len() >> 20)).into());
        }
        save_text(path, std::iter::once(text)).map_err(Error::io("-o"))
    }

    /// Whether there is the file of an older part, in whose place another may be put.
    ///
    /// # Errors
    /// A file that is no part, or that is not read.
    pub fn is_there(path: &Path) -> Result<bool, Error> {
        match Part::open(path) {
            Ok(_) => Ok(true),
            Err(IoError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
            Err(IoError::Damaged { name, expected, got }) => {
                let expected = format!("none or {expected}, since what the part is of is written there");
                Err(Error::io("-o")(IoError::Damaged { name, expected, got }))
            }
            Err(error) => Err(Error::io("-o")(error)),
        }
    }

    /// What it is a part of, a line each, with the words for what differs from another's.
    fn whole(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("another number of parts", self.tile.count.to_string()),
            ("another build of flcc", self.source.clone()),
            ("another command", self.command.clone()),
            ("another image", self.image.0.clone()),
            ("another mask", format!("{:?}", self.mask)),
            ("another search for peaks", format!("{:?}", self.search)),
            ("another number of templates", self.results.len().to_string()),
        ];
        for OfTemplate { template, spec, kernel, short, values, .. } in &self.results {
            all.push(("another template", template.0.clone()));
            all.push(("another problem", spec.to_string()));
            all.push(("another kernel", kernel.clone()));
            all.push(("another memory limit, which left less room", short.to_string()));
            all.push(("values, or none", values.is_some().to_string()));
        }
        all
    }
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

fn string(object: &Map<String, Value>, name: &str) -> Option<String> {
    owned(object.get(name)?)
}

fn size(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn float(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok().filter(|value: &f64| !value.is_nan())
}

/// What may be null; `None` where it is neither that nor what it should be.
fn maybe<T>(object: &Map<String, Value>, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match object.get(name)? {
        Value::Null => Some(None),
        value => read(value).map(Some),
    }
}

fn result_of(result: &Map<String, Value>) -> Option<OfTemplate> {
    let spec: Spec = string(result, "spec")?.parse().ok()?;
    let (lengths, axis) = (spec.out_shape().lengths().to_vec(), axis(&spec));
    let range = size(result.get("begin")?)?..size(result.get("end")?)?;
    let peak = |peak: &Value| {
        let peak = peak.as_object()?;
        let position = peak.get("position")?.as_array()?.iter().map(size).collect::<Option<Vec<usize>>>()?;
        let inside = position.len() == lengths.len() && position.iter().zip(&lengths).all(|(at, length)| at < length);
        let refined = |refined: &Value| refined.as_array()?.iter().map(float).collect::<Option<Vec<f64>>>();
        let refined = maybe(peak, "refined", refined)?.filter(|refined| refined.len() == lengths.len());
        let score = float(peak.get("score")?)?;
        (inside && range.contains(&position[axis])).then_some(Peak { position, score, refined })
    };
    let optimum = |optimum: &Value| Some((float(optimum.get("score")?)?, size(optimum.get("count")?)?));
    let found = Found {
        peaks: result.get("peaks")?.as_array()?.iter().map(peak).collect::<Option<_>>()?,
        optimum: maybe(result, "optimum", optimum)?,
    };
    (!range.is_empty() && range.end <= lengths[axis]).then_some(())?;
    Some(OfTemplate {
        template: (string(result, "samples")?, string(result, "template")?),
        method: string(result, "method")?,
        kernel: string(result, "kernel")?,
        short: result.get("short")?.as_bool()?,
        values: maybe(result, "values", owned)?,
        ns: result.get("ns")?.as_u64()?,
        range,
        found,
        spec,
    })
}

/// Parts, by the names of their files, in the order of their numbers: all of one result, and each once.
///
/// # Errors
/// The first part that is of another result than the first one, or that is there before; all that are missing.
pub fn complete(mut parts: Vec<(PathBuf, Part)>) -> Result<Vec<(PathBuf, Part)>, Error> {
    let wrong = |path: &PathBuf, expected: String, got: String| {
        let argument = format!("PART {:?}", path.display().to_string());
        Err(SpecError::new(argument, expected, got).into())
    };
    let Some((name, first)) = parts.first() else {
        return Err(SpecError::new("PART", "parts", "none").into());
    };
    let (name, count, whole) = (name.display().to_string(), first.tile.count, first.whole());
    for (path, part) in &parts[1..] {
        let own = part.whole();
        if let Some(((differs, _), _)) = own.iter().zip(&whole).find(|(own, other)| own != other) {
            return wrong(path, format!("a part of the same result as {name:?}"), format!("one of {differs}"));
        }
    }
    parts.sort_by_key(|(_, part)| part.tile);
    for pair in parts.windows(2) {
        let [(before, one), (path, other)] = pair else { continue };
        if one.tile == other.tile {
            let got = format!("{} again, which is {:?}", other.tile, before.display().to_string());
            return wrong(path, "each part once".into(), got);
        }
    }
    let missing: Vec<String> = (1..=count)
        .filter(|number| parts.binary_search_by_key(number, |(_, part)| part.tile.number).is_err())
        .take(8)
        .map(|number| Tile { number, count }.to_string())
        .collect();
    if !missing.is_empty() {
        let more = if count - parts.len() > missing.len() { " and others" } else { "" };
        let got = format!("none of {}{more}", join(&missing, ", "));
        return Err(SpecError::new("PART", format!("all {count} parts"), got).into());
    }
    for number in 0..parts[0].1.results.len() {
        let mut end = 0;
        for (path, part) in &parts {
            let OfTemplate { range, .. } = &part.results[number];
            if range.start != end {
                return wrong(path, format!("a part from position {end} on"), format!("one from {}", range.start));
            }
            end = range.end;
        }
        let (path, last) = &parts[count - 1];
        let spec = &last.results[number].spec;
        let length = spec.out_shape().lengths()[axis(spec)];
        if end != length {
            return wrong(path, format!("a part up to position {length}"), format!("one up to {end}"));
        }
    }
    Ok(parts)
}

/// What was found in a whole result, of what was in its parts, in their order.
pub fn found<'a>(best: Best, top: Option<usize>, parts: impl Iterator<Item = &'a Found>) -> Found {
    let better = |a: f64, b: f64| if best == Best::Largest { a > b } else { a < b };
    let mut all = Found::default();
    for part in parts {
        all.peaks.extend_from_slice(&part.peaks);
        all.optimum = match (all.optimum, part.optimum) {
            (Some(a), Some(b)) if a.0 == b.0 => Some((a.0, a.1.saturating_add(b.1))),
            (Some(a), Some(b)) if better(a.0, b.0) => Some(a),
            (a, b) => b.or(a),
        };
    }
    // It is stable: parts follow each other along the slowest axis, so equals stay in the order of their positions.
    all.peaks.sort_by(|a, b| {
        let (first, second) = if best == Best::Largest { (b, a) } else { (a, b) };
        first.score.partial_cmp(&second.score).unwrap_or(std::cmp::Ordering::Equal)
    });
    all.peaks.truncate(top.unwrap_or(usize::MAX));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tile: &str, range: Range<usize>, scores: &[f64]) -> Part {
        let peaks = scores.iter().zip(range.clone());
        let peak = |(score, at): (&f64, usize)| Peak {
            position: vec![at, 3],
            score: *score,
            refined: Some(vec![at as f64 + 0.1, 1.0 / 3.0]),
        };
        let found = Found { peaks: peaks.map(peak).collect(), optimum: scores.first().map(|score| (*score, 2)) };
        let spec = "zncc:u8:20x30*4x4:valid".parse().unwrap();
        let result = OfTemplate {
            template: ("aa".into(), "t.npy".into()),
            spec,
            method: "direct".into(),
            kernel: "k".into(),
            short: false,
            range,
            values: None,
            ns: 5,
            found,
        };
        let search = Peaks {
            top: Some(3),
            threshold: Some(0.1 + 0.2),
            min_distance: None,
            exclusive: false,
            exclude_border: 1,
            count: true,
            subpixel: Some(flcc_runtime::Subpixel::default()),
        };
        let image = ("9-bb".into(), "i.npy".into());
        let tile = tile.parse().unwrap();
        let (command, source) = ("match".into(), "flcc-1".into());
        Part { tile, command, image, mask: None, search: Some(search), source, results: vec![result] }
    }

    #[test]
    fn a_part_is_read_as_it_was() {
        let there = part("1/2", 0..9, &[0.7, -1e-300, f64::INFINITY]);
        let back = Part::of_text(&there.to_text()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{there:?}"));
        let text = there.to_text();
        for end in 0..text.len() - 1 {
            assert!(Part::of_text(&text[..end]).is_none(), "{end}");
        }
        for (from, to) in [
            ("\"flcc_part\":2", "\"flcc_part\":1"),
            ("\"short\":false", "\"short\":0"),
            ("\"end\":9", "\"end\":18"),
            ("\"end\":9", "\"end\":0"),
            ("\"position\":[0,3]", "\"position\":[9,3]"),
            ("\"position\":[0,3]", "\"position\":[0]"),
            ("\"score\":\"0.7\"", "\"score\":0.7"),
            ("20x30", "20*30"),
        ] {
            assert!(text.contains(from), "{from} in {text}");
            assert!(Part::of_text(&text.replacen(from, to, 1)).is_none(), "{to}");
        }
    }

    #[test]
    fn parts_are_all_there_once_and_of_one_result() {
        let named = |parts: Vec<(&str, Part)>| {
            let parts = parts.into_iter().map(|(name, part)| (PathBuf::from(name), part)).collect();
            complete(parts).map(|parts| parts.len()).map_err(|error| error.to_string())
        };
        let [a, b] = [part("1/2", 0..9, &[]), part("2/2", 9..17, &[])];
        assert_eq!(named(vec![("b", b), ("a", a)]), Ok(2));
        let [a, b] = [part("1/3", 0..9, &[]), part("3/3", 9..17, &[])];
        assert_eq!(named(vec![("a", a), ("b", b)]).unwrap_err(), "PART: expected all 3 parts, got none of 2/3");
        let [a, b] = [part("1/2", 0..9, &[]), part("1/2", 0..9, &[])];
        assert_eq!(
            named(vec![("a", a), ("b", b)]).unwrap_err(),
            "PART \"b\": expected each part once, got 1/2 again, which is \"a\""
        );
        let [a, mut b] = [part("1/2", 0..9, &[]), part("2/2", 9..17, &[])];
        b.image.0 = "8-bb".into();
        assert_eq!(
            named(vec![("a", a), ("b", b)]).unwrap_err(),
            "PART \"b\": expected a part of the same result as \"a\", got one of another image"
        );
        let [a, mut b] = [part("1/2", 0..9, &[]), part("2/2", 9..17, &[])];
        b.results[0].kernel = "l".into();
        assert!(named(vec![("a", a), ("b", b)]).unwrap_err().ends_with("got one of another kernel"));
        let [a, mut b] = [part("1/2", 0..9, &[]), part("2/2", 9..17, &[])];
        b.results[0].short = true;
        assert!(
            named(vec![("a", a), ("b", b)]).unwrap_err().ends_with("of another memory limit, which left less room")
        );
        let [a, mut b] = [part("1/2", 0..9, &[]), part("2/2", 9..17, &[])];
        b.source = "flcc-2".into();
        assert!(named(vec![("a", a), ("b", b)]).unwrap_err().ends_with("got one of another build of flcc"));
        let [a, b] = [part("1/2", 0..9, &[]), part("2/2", 10..17, &[])];
        assert!(named(vec![("a", a), ("b", b)]).unwrap_err().ends_with("a part from position 9 on, got one from 10"));
        let [a, b] = [part("1/2", 0..9, &[]), part("2/2", 9..16, &[])];
        assert!(named(vec![("a", a), ("b", b)]).unwrap_err().ends_with("a part up to position 17, got one up to 16"));
    }

    #[test]
    fn what_was_found_is_put_together() {
        let [a, b] = [part("1/2", 0..9, &[0.9, 0.5, 0.1]), part("2/2", 9..17, &[0.9, 0.7])];
        let both = |best, top| {
            let all = found(best, top, [&a, &b].into_iter().map(|part| &part.results[0].found));
            (all.peaks.iter().map(|peak| (peak.position[0], peak.score)).collect::<Vec<_>>(), all.optimum)
        };
        assert_eq!(both(Best::Largest, Some(3)), (vec![(0, 0.9), (9, 0.9), (10, 0.7)], Some((0.9, 4))));
        assert_eq!(both(Best::Smallest, Some(1)).0, [(2, 0.1)]);
        assert_eq!(both(Best::Largest, None).0.len(), 5);
    }
}
