//! conv, corr, lcc and match: an image with one or several templates.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flcc_runtime::core::error::counted;
use flcc_runtime::peaks::{Found as PeaksFound, Search, found_by};
use flcc_runtime::{
    Best, Control, DType, Effort, Kind, Measure, Mode, Op, Peak, PeakOptions, Region, ScoreMap, Shape, Spec, SpecError,
};
use serde_json::{Map, Value, json};

use super::masked::{self, Known};
use super::templates::{self, Templates, Wanted};
use crate::args::{Correlate, Match, Peaks, Planning};
use crate::data::{self, HIDDEN, Image, Problem, open_mask};
use crate::error::Error;
use crate::memory::{check_data, check_peaks, check_plan, results};
use crate::outputs::{self, Format, Holds, Inputs, Output, Written, score_text};
use crate::picture::{self, Curve, Heat, Mark, Scene};
use crate::places::Places;
use crate::session::{Progress, Session, accuracy, wisdom_file};

/// Bytes of maps that are held at a time, if one is not larger: 64 MiB.
const MAPS: f64 = (64u64 << 20) as f64;

/// The command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Convolution.
    Conv,
    /// Cross-correlation.
    Corr,
    /// Local correlation coefficients.
    Lcc,
    /// Any measure, and the peaks.
    Match,
}

impl Name {
    /// The operation, if the measure goes with the command.
    ///
    /// # Errors
    /// A measure that the command does not compute.
    pub fn op(self, measure: Option<Measure>) -> Result<Op, SpecError> {
        match (self, measure) {
            (Name::Conv, None) => Ok(Op::Convolve),
            (Name::Corr, None | Some(Measure::Cc)) => Ok(Op::Correlate),
            (Name::Lcc | Name::Match, None) | (Name::Lcc, Some(Measure::Zncc)) => Ok(Op::Match(Measure::Zncc)),
            (Name::Match, Some(measure)) => Ok(Op::Match(measure).canonical()),
            (Name::Conv, Some(measure)) => Err(SpecError::new("--measure", "none for conv", measure)),
            (Name::Corr, Some(measure)) => Err(SpecError::new("--measure", "cc for corr (match takes all)", measure)),
            (Name::Lcc, Some(measure)) => Err(SpecError::new("--measure", "zncc for lcc (match takes all)", measure)),
        }
    }

    /// The extent if none is named.
    pub fn mode(self) -> Mode {
        if matches!(self, Name::Conv | Name::Corr) { Mode::Full } else { Mode::Valid }
    }
}

/// The result of one template.
pub struct Found {
    /// What was computed.
    pub spec: Spec,
    /// The kernel's name.
    pub kernel: String,
    /// The method's.
    pub method: String,
    /// How long it took.
    pub time: Duration,
    /// Where it is to be written.
    pub map: Option<ScoreMap>,
    /// The file that it was written to.
    pub output: Option<PathBuf>,
    /// Where peaks are asked for.
    pub found: PeaksFound,
    /// What of the image is known, as fields of a line of JSON; none where all of it is.
    pub known: Map<String, Value>,
}

/// How results are told.
pub struct Telling<'a> {
    /// As lines of JSON.
    pub json: bool,
    /// With peaks, those that were looked for.
    pub search: Option<&'a Peaks>,
    /// The table of peaks.
    pub table: Option<&'a Path>,
}

impl Telling<'_> {
    /// With the number of positions that attain the best score.
    fn count(&self) -> bool {
        self.search.is_some_and(|search| search.count)
    }

    /// With places below a sample.
    fn refined(&self) -> bool {
        self.search.is_some_and(|search| search.subpixel.is_some())
    }
}

/// What was read of a call's files besides its image.
pub struct Opened {
    /// The templates.
    pub templates: Templates,
    /// The templates' mask.
    pub mask: Option<Image>,
}

/// Runs conv, corr, lcc or (with `matching`) match.
///
/// # Errors
/// A wrong call, a file, a refusal.
pub fn run(
    name: Name,
    args: &Correlate,
    matching: Option<&Match>,
    planning: &Planning,
    out: &mut dyn Write,
) -> Result<(), Error> {
    run_opened(name, args, matching, planning, None, out)
}

/// As [`run`], with the files that were read already.
///
/// # Errors
/// As there.
pub fn run_opened(
    name: Name,
    args: &Correlate,
    matching: Option<&Match>,
    planning: &Planning,
    opened: Option<Opened>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let op = name.op(args.measure)?;
    if matching.is_none() && args.output.is_none() && args.heatmap.is_none() {
        return Err(SpecError::new("-o", "-o OUT (or --heatmap OUT.png)", "neither").into());
    }
    let mut problem = problem(name, args, planning)?;
    let inputs = inputs(args)?;
    inputs.check(&[])?;
    let image = Image::read("IMAGE", &args.image, &args.extent.reading)?;
    let known = Known::open(name != Name::Conv, (&args.extent, &args.known), planning, args.fall_back)?;
    let image = if matching.is_some() && known.is_none() { image.searched() } else { image };
    image.tell_notes();
    if planning.memory_limit.is_some_and(|limit| image.bytes() > limit.0 as f64) {
        let bytes = image.bytes();
        image.tell(&format!("{bytes:.0} bytes held whole, beyond --memory-limit (flcc help match says what is not)"));
    }
    let (templates, mask) = match opened {
        Some(Opened { templates, mask }) => (templates, Some(mask)),
        None => (open_templates(args, image.shape().axes(), &|part| image.part("--template-at", part))?, None),
    };
    let all = templates.all();
    check_outputs(&inputs, args, matching, planning, all.len())?;
    let session = Session::new(planning, Effort::Estimate, args.fall_back)?;
    let read = || args.mask.as_deref().map(|path| open_mask("--mask", path, &args.extent.reading)).transpose();
    let mask = mask.map_or_else(read, Ok)?;
    let (groups, several) = (templates.groups(), all.len() > 1);
    let arrays = (image.dtype(), image.shape(), image.channels());
    let specs = specs(&mut problem, args, arrays, &templates, mask.as_ref())?;
    let format =
        args.output.as_ref().map(|path| outputs::result_format("-o", path, image.shape().axes())).transpose()?;

    let measure = if matching.is_some() { op.measure().to_string() } else { op.name().to_string() };
    // What is wrong with a picture is told after what was found.
    let mut pictures = Ok(());
    let mut curves = Vec::new();
    let mut told: Vec<(usize, Found)> = Vec::new();
    let given = Given { image: &image, templates: &templates, mask: mask.as_ref(), known: known.as_ref() };
    let writes = args.output.is_some() || args.heatmap.is_some();
    // A line is drawn with its scores.
    let plots = image.shape().axes() == 1 && matching.is_some_and(|matching| matching.annotate.is_some());
    let mut wanted = matching.map(|matching| Wanted::new(&matching.search, all.len()));
    let wish = Wish {
        peaks: wanted.map(|wanted| wanted.options()),
        optimum: matching.is_some_and(|matching| matching.search.count || matching.search.threshold.is_some()),
        map: writes || plots,
    };
    let pieces = groups.iter().zip(&specs).flat_map(|(group, spec)| {
        let count = if wish.map { maps_at_a_time(spec) } else { group.len() };
        group.chunks(count).map(move |piece| (piece, spec))
    });
    for (group, spec) in pieces {
        let spec = &spec.clone().with_templates(group.len())?;
        let found = compute(spec, &session, &given, group, &wish)?;
        for (&index, mut found) in group.iter().zip(found) {
            let map = found.map.take();
            let output = args.output.as_deref().map(|path| numbered(path, several.then_some(index + 1)));
            if let (Some(path), Some(map)) = (output, &map) {
                let heat = Heat { map, first: &begin(spec), measure: &measure };
                match outputs::write("-o", &path, Written { heat, column: "score" }, out) {
                    Err(error) if format == Some(Format::Png) => pictures = pictures.and(Err(error)),
                    done => {
                        done?;
                        found.output = Some(path);
                    }
                }
            }
            if let (Some(path), Some(map)) = (&args.heatmap, &map) {
                let heat = Heat { map, first: &begin(spec), measure: &measure };
                pictures = pictures.and(picture::save_heatmap(&numbered(path, several.then_some(index + 1)), &heat));
            }
            if let (true, Some(map)) = (plots, &map) {
                curves.push((index, Curve::of_map(map, begin(spec).first().copied().unwrap_or(0))));
            }
            told.push((index, found));
        }
    }
    told.sort_by_key(|(index, _)| *index);
    if let (Some(matching), Some(wanted)) = (matching, &mut wanted) {
        let took = loop {
            let all = told.iter_mut().map(|(_, found)| (&found.spec, &mut found.found.peaks));
            if let Some(took) = templates::leave(&matching.search, &wanted.options(), all) {
                break took;
            }
            wanted.lengthen();
            let wish = Wish { peaks: Some(wanted.options()), optimum: false, map: false };
            for (group, spec) in groups.iter().zip(&specs) {
                for (&index, more) in group.iter().zip(compute(spec, &session, &given, group, &wish)?) {
                    let (_, found) = &mut told[index];
                    found.found.peaks = more.found.peaks;
                    found.time += more.time;
                }
            }
        };
        told.iter_mut().for_each(|(_, found)| found.time += took);
    }
    // What cannot be kept is told after what was found.
    let kept = session.keep_wisdom();
    if let Some(path) = matching.and_then(|matching| matching.annotate.as_ref()) {
        let names: Vec<&str> = all.iter().map(|template| template.name.as_str()).collect();
        let marks: Vec<Mark> =
            told.iter().flat_map(|(index, found)| marks_of(&found.spec, *index, &found.found.peaks)).collect();
        let (measure, best) = (measure.as_str(), op.best());
        let scene = Scene { image: &image, marks: &marks, names: &names, measure, best, curves: &curves };
        pictures = pictures.and(picture::save_annotated(path, &scene));
    }
    let telling = Telling {
        json: planning.json,
        search: matching.map(|matching| &matching.search),
        table: matching.and_then(|matching| matching.table.as_deref()),
    };
    tell(told.iter().map(|(index, found)| (&all[*index].name, found)), &telling, out)?;
    pictures.and(kept)
}

/// How many templates of a spec to compute together where their maps are held: as many as fit in [`MAPS`].
fn maps_at_a_time(spec: &Spec) -> usize {
    let map = results(spec) / spec.templates().max(1) as f64;
    ((MAPS / map.max(1.0)) as usize).clamp(1, spec.templates().max(1))
}

/// Writes the table of peaks, and prints a line or more of each template's result.
///
/// # Errors
/// A table that is not written, standard output that takes no more.
pub fn tell<'a>(
    found: impl ExactSizeIterator<Item = (&'a String, &'a Found)> + Clone,
    telling: &Telling<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    if let (Some(path), Some((_, first))) = (telling.table, found.clone().next()) {
        let header = table_header(first.spec.image(), telling.refined());
        let rows = found.clone().map(|(name, found)| table_rows(name, found));
        crate::io::save_text(path, std::iter::once(header).chain(rows)).map_err(Error::io("--peaks"))?;
    }
    let several = found.len() > 1;
    for (name, found) in found.clone() {
        let text = match telling.json {
            true => json_line(name, found, telling.count(), telling.search.is_some()),
            false => text_lines(several.then_some(name), found, telling.count()),
        };
        out.write_all(text.as_bytes())?;
    }
    if let Some(search) = telling.search {
        tell_no_position(search.exclude_border, found.clone());
        search.threshold.iter().for_each(|&threshold| tell_none(threshold, found.clone()));
    }
    Ok(())
}

/// Tells of the first template of whose result a border leaves no position, and of how many others.
fn tell_no_position<'a>(border: usize, found: impl Iterator<Item = (&'a String, &'a Found)>) {
    let mut without = found.filter_map(|(name, found)| Some((name, no_position(border, found.spec.out_shape())?)));
    if let Some((name, note)) = without.next() {
        let others = match without.count() {
            0 => String::new(),
            more => format!("; the same of {}", counted(more, "other template")),
        };
        data::tell("TEMPLATE", name, &format!("{note}{others}"));
    }
}

/// What is told where a border leaves nothing of a result of this shape.
pub fn no_position(border: usize, results: Shape) -> Option<String> {
    // An axis of one position has no ends.
    let shortest = results.lengths().iter().copied().filter(|&length| length > 1).min()?;
    let most = (shortest - 1) / 2;
    (border > most)
        .then(|| format!("--exclude-border {border} leaves none of {results} positions, at most {most} leaves some"))
}

/// Tells where no score of any template is as good as a threshold, and which is the best.
fn tell_none<'a>(threshold: f64, found: impl Iterator<Item = (&'a String, &'a Found)> + Clone) {
    if found.clone().any(|(_, found)| !found.found.peaks.is_empty()) {
        return;
    }
    let scores = found.filter_map(|(name, found)| Some((name, &found.spec, found.found.optimum?.0)));
    let sign = |spec: &Spec| if spec.op().best() == Best::Largest { 1.0 } else { -1.0 };
    let best = scores.max_by(|(_, spec, a), (_, _, b)| (sign(spec) * a).total_cmp(&(sign(spec) * b)));
    // Some may be as good where others stand: at the border that is left out, or where a better template is.
    if let Some((name, spec, best)) = best.filter(|(_, spec, best)| sign(spec) * best < sign(spec) * threshold) {
        let best = score_text(best, spec.out_type());
        data::tell("TEMPLATE", name, &format!("no score is as good as --threshold {threshold}, the best is {best}"));
    }
}

/// What a call computes of its arrays, but for the region.
///
/// # Errors
/// A measure that the command does not compute, a boundary that is none.
pub fn problem(name: Name, args: &Correlate, planning: &Planning) -> Result<Problem, Error> {
    Ok(Problem {
        op: name.op(args.measure)?,
        mode: args.extent.mode.unwrap_or(name.mode()),
        boundary: masked::boundary(name != Name::Conv, &args.extent)
            .map_err(|error| Error::from(error).named("IMAGE", "TEMPLATE"))?,
        precision: planning.precision.map(|precision| precision.0),
        accuracy: accuracy(planning),
        roi: None,
    })
}

/// The specs of all groups of templates, for an image of a type, a shape and a number of channels.
///
/// # Errors
/// What is wrong with any template, before the first result is written.
pub fn specs(
    problem: &mut Problem,
    args: &Correlate,
    (dtype, shape, channels): (DType, Shape, usize),
    templates: &Templates,
    mask: Option<&Image>,
) -> Result<Vec<Spec>, Error> {
    let mut specs = Vec::new();
    for group in templates.groups() {
        let first = templates.all()[group[0]].view()?;
        let mask = mask.map(Image::view).transpose()?;
        let named = |error: SpecError| Error::from(error).named("IMAGE", &templates.called(group[0]));
        // The places are those of one of several templates.
        let of = |error: SpecError| match templates.all().len() > 1 {
            true => SpecError { expected: format!("{} ({})", error.expected, templates.called(group[0])), ..error },
            false => error,
        };
        let region = |places: Places| places.region(problem.mode, shape, first.shape()).map_err(of);
        problem.roi = args.roi.map(region).transpose().map_err(named)?;
        specs.push(problem.spec_of((dtype, shape, channels), &first, group.len(), mask.as_ref()).map_err(named)?);
    }
    Ok(specs)
}

/// What a call reads.
///
/// # Errors
/// A folder that is not read.
pub fn inputs(args: &Correlate) -> Result<Inputs, Error> {
    let mut inputs = Inputs::new();
    inputs.add("IMAGE", &args.image);
    templates::add_inputs(&mut inputs, args.positional.as_ref(), &args.template, &args.extent.reading)?;
    args.mask.iter().for_each(|path| inputs.add("--mask", path));
    args.known.image_mask.iter().for_each(|path| inputs.add("--image-mask", path));
    Ok(inputs)
}

/// Refuses files to write that would not be what the call says, before anything is computed: with so many templates.
///
/// # Errors
/// As [`Inputs::check`].
pub fn check_outputs(
    inputs: &Inputs,
    args: &Correlate,
    matching: Option<&Match>,
    planning: &Planning,
    templates: usize,
) -> Result<(), Error> {
    let mut outputs = Vec::new();
    for index in 0..templates {
        let number = (templates > 1).then_some(index + 1);
        for (argument, path, holds) in
            [("-o", &args.output, Holds::Result), ("--heatmap", &args.heatmap, Holds::Picture)]
        {
            outputs.extend(path.iter().map(|path| Output { argument, path: numbered(path, number), holds }));
        }
    }
    let one = |argument, path: Option<PathBuf>, holds| path.map(|path| Output { argument, path, holds });
    outputs.extend(one("--annotate", matching.and_then(|matching| matching.annotate.clone()), Holds::Picture));
    outputs.extend(one("--peaks", matching.and_then(|matching| matching.table.clone()), Holds::Peaks));
    outputs.extend(wisdom_file(planning)?.map(|(argument, path)| Output { argument, path, holds: Holds::Wisdom }));
    if let Some(path) = &args.output {
        let other = match (matching, planning.json) {
            (Some(_), _) => Some("the peaks"),
            (None, true) => Some("the fields of --json"),
            (None, false) => None,
        };
        outputs::check_standard_output("-o", path, templates, other)?;
    }
    inputs.check(&outputs)
}

/// The templates in the order of the arguments: the positional one, those of `--template`, those of `--template-at`, of
/// an image of so many axes that gives its parts.
///
/// # Errors
/// A file that is not read, a part that does not lie inside, no template.
pub fn open_templates(
    args: &Correlate,
    axes: usize,
    part: &dyn Fn(Region) -> Result<Image, Error>,
) -> Result<Templates, Error> {
    let files = templates::open(args.positional.as_ref(), &args.template, &args.extent.reading)?;
    let mut templates = templates::unstacked(files, axes, args.stack)?;
    for &place in &args.template_at {
        templates.push(part(place)?);
    }
    if templates.is_empty() {
        let expected = "TEMPLATE, --template FILE or --template-at ORIGIN:SHAPE";
        return Err(SpecError::of(Kind::EmptyInput, "TEMPLATE", expected, "none").into());
    }
    Ok(Templates::new(templates))
}

/// What is wanted of a group of templates.
pub struct Wish {
    /// Which peaks.
    pub peaks: Option<PeakOptions>,
    /// How many positions attain the best score.
    pub optimum: bool,
    /// The whole result.
    pub map: bool,
}

impl Wish {
    /// A map, if it is wanted, with what the session's threads find in it of what is looked for.
    pub fn searched(&self, session: &Session, map: ScoreMap) -> (Option<ScoreMap>, PeaksFound) {
        let search = |peaks: &PeakOptions| Search::in_map(&map, *peaks).with_optimum(self.optimum);
        let found = |peaks| found_by(&search(peaks), session.threads, &map.view());
        let found = self.peaks.as_ref().map(found).unwrap_or_default();
        (Some(map).filter(|_| self.map), found)
    }
}

/// What a call computes with.
struct Given<'a> {
    image: &'a Image,
    templates: &'a Templates,
    mask: Option<&'a Image>,
    /// What of the image is known, where not all of it is.
    known: Option<&'a Known>,
}

fn compute(
    spec: &Spec,
    session: &Session,
    given: &Given<'_>,
    group: &[usize],
    wish: &Wish,
) -> Result<Vec<Found>, Error> {
    let &Given { image, templates, mask, known } = given;
    if let Some(known) = known {
        return compute_known(spec, session, given, (group, known), wish);
    }
    if session.measures() {
        check_data(spec, spec.templates())?;
    }
    let plan = session.plan(spec)?;
    let held = match &wish.peaks {
        Some(peaks) if !wish.map => plan.peaks_bytes(peaks) as f64,
        _ => results(spec),
    };
    check_plan(&plan, held)?;
    wish.peaks.as_ref().map_or(Ok(()), |peaks| check_peaks(&plan, held, peaks))?;
    let mask = mask.map(Image::view).transpose()?;
    let progress = Progress::new();
    let tell = |done, total| progress.tell(done, total);
    let began = Instant::now();
    let matcher = templates.bind(group, &plan, session, "IMAGE", mask.as_ref())?;
    let failed = |words: &str| session.note(words);
    let control = Control { progress: Some(&tell), failed: Some(&failed), ..Control::default() };
    let images = [image.view()?];
    let all: Vec<(Option<ScoreMap>, PeaksFound)> = match &wish.peaks {
        Some(peaks) if !wish.map => {
            let (found, _) = matcher.search(&images, peaks, wish.optimum, &control)?;
            found.into_iter().map(|found| (None, found)).collect()
        }
        _ => {
            let (maps, _) = matcher.execute_with(&images, &control)?;
            maps.into_iter().map(|map| wish.searched(session, map)).collect()
        }
    };
    let time = began.elapsed();
    let found = |(map, found)| Found {
        spec: spec.clone(),
        kernel: matcher.kernel().to_string(),
        method: matcher.method().to_string(),
        time,
        map,
        output: None,
        found,
        known: Map::new(),
    };
    Ok(all.into_iter().map(found).collect())
}

/// The results of an image of which not all is known.
fn compute_known(
    spec: &Spec,
    session: &Session,
    given: &Given<'_>,
    (group, known): (&[usize], &Known),
    wish: &Wish,
) -> Result<Vec<Found>, Error> {
    let &Given { image, templates, mask, .. } = given;
    let began = Instant::now();
    let progress = Progress::new();
    let tell = |done, total| progress.tell(done, total);
    let control = Control { progress: Some(&tell), ..Control::default() };
    let maps = known.execute(spec, session, (image, mask), (templates, group), ("IMAGE", &control))?;
    if wish.peaks.is_some() && maps.iter().any(masked::hides) {
        image.tell(HIDDEN);
    }
    let all: Vec<(Option<ScoreMap>, PeaksFound)> = maps.into_iter().map(|map| wish.searched(session, map)).collect();
    let time = began.elapsed();
    let found = |(map, found)| Found {
        spec: spec.clone(),
        kernel: "masked_f64".into(),
        method: "masked".into(),
        time,
        map,
        output: None,
        found,
        known: known.described(),
    };
    Ok(all.into_iter().map(found).collect())
}

/// `OUT.npy`, or `OUT-2.npy` for the second of several.
pub fn numbered(path: &Path, number: Option<usize>) -> PathBuf {
    let Some(number) = number else {
        return path.to_path_buf();
    };
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The peaks of a template, to be drawn.
pub fn marks_of(spec: &Spec, template: usize, peaks: &[Peak]) -> impl Iterator<Item = Mark> {
    peaks.iter().zip(1..).map(move |(peak, rank)| Mark {
        origin: position(spec, &peak.position),
        shape: spec.template(),
        corners: None,
        rank,
        group: template,
        score: peak.score,
    })
}

/// Where the template's first sample lies in the image for an index of a result; outside it may be negative.
pub fn position(spec: &Spec, index: &[usize]) -> Vec<i64> {
    index.iter().zip(begin(spec)).map(|(&at, begin)| at as i64 + begin).collect()
}

/// The position of a result's first value.
fn begin(spec: &Spec) -> Vec<i64> {
    spec.out_shape().unpad(&spec.region().first_place(spec.template()))
}

/// A refined position in the image.
fn refined_position(spec: &Spec, peak: &Peak) -> Option<Vec<f64>> {
    let refined = peak.refined.as_ref()?;
    Some(refined.iter().zip(begin(spec)).map(|(at, begin)| at + begin as f64).collect())
}

/// A score as JSON; what is no number there is null.
pub fn score_json(score: f64, dtype: DType) -> Value {
    score_text(score, dtype).parse::<f64>().ok().map_or(Value::Null, Value::from)
}

fn text_lines(name: Option<&String>, found: &Found, count: bool) -> String {
    let dtype = found.spec.out_type();
    let tail = name.map_or(String::new(), |name| format!(" {}", in_line(name)));
    let mut text = String::new();
    for (peak, rank) in found.found.peaks.iter().zip(1..) {
        let position = match refined_position(&found.spec, peak) {
            None => comma(&position(&found.spec, &peak.position)),
            Some(refined) => comma(&refined.iter().map(|at| format!("{at:.3}")).collect::<Vec<_>>()),
        };
        text.push_str(&format!("{rank} {position} {}{tail}\n", score_text(peak.score, dtype)));
    }
    match found.found.optimum.filter(|_| count) {
        Some((score, count)) => text.push_str(&format!("count {count} {}{tail}\n", score_text(score, dtype))),
        None if count => text.push_str(&format!("count 0 nan{tail}\n")),
        None => {}
    }
    text
}

/// A name without what would end its line: control characters are told as in a string of Rust, a new line as `\n`.
pub fn in_line(name: &str) -> String {
    let told = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(told).collect()
}

/// The names of the axes in tables, the slowest first.
pub const AXES: [&str; 3] = ["z", "y", "x"];

/// The first line of a table of peaks: `template,rank,y,x,refined_y,refined_x,score`.
fn table_header(image: Shape, refined: bool) -> String {
    let axes = image.unpad(&AXES);
    let refined = axes.iter().filter(|_| refined).map(|axis| format!("refined_{axis}"));
    let places: Vec<String> = axes.iter().map(ToString::to_string).chain(refined).collect();
    format!("template,rank,{},score\n", places.join(","))
}

/// The lines of a template's peaks in a table.
fn table_rows(name: &str, found: &Found) -> String {
    let mut text = String::new();
    for (peak, rank) in found.found.peaks.iter().zip(1..) {
        let mut places: Vec<String> = position(&found.spec, &peak.position).iter().map(ToString::to_string).collect();
        places.extend(refined_position(&found.spec, peak).iter().flatten().map(ToString::to_string));
        let score = score_text(peak.score, found.spec.out_type());
        text.push_str(&format!("{},{rank},{},{score}\n", quoted(name), places.join(",")));
    }
    text
}

/// A text as a field of a table, as RFC 4180 says.
pub fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

fn comma<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// The measure and the template's shape as fields of a line of JSON; a convolution has no measure.
pub fn describe(object: &mut Map<String, Value>, spec: &Spec) {
    object.insert("template_shape".into(), json!(spec.template().lengths()));
    if spec.op() != Op::Convolve {
        object.insert("measure".into(), json!(spec.op().measure().to_string()));
    }
}

/// Peaks with their ranks as JSON.
pub fn peaks_json(spec: &Spec, peaks: &[Peak]) -> Value {
    let dtype = spec.out_type();
    let peak = |(peak, rank): (&Peak, usize)| {
        let mut object = Map::new();
        object.insert("position".into(), json!(position(spec, &peak.position)));
        if let Some(refined) = refined_position(spec, peak) {
            object.insert("refined".into(), json!(refined));
        }
        object.insert("origin".into(), json!(position(spec, &peak.position)));
        object.insert("index".into(), json!(peak.position));
        object.insert("score".into(), score_json(peak.score, dtype));
        object.insert("rank".into(), json!(rank));
        Value::Object(object)
    };
    Value::Array(peaks.iter().zip(1..).map(peak).collect())
}

/// The optimum and how many positions attain it, as JSON.
pub fn count_json(count: Option<(f64, usize)>, dtype: DType) -> Value {
    match count {
        Some((score, count)) => json!({"count": count, "score": score_json(score, dtype)}),
        None => json!({"count": 0, "score": null}),
    }
}

fn json_line(name: &str, found: &Found, count: bool, matching: bool) -> String {
    let dtype = found.spec.out_type();
    let mut object = Map::new();
    object.insert("template".into(), json!(name));
    describe(&mut object, &found.spec);
    object.insert("spec".into(), json!(found.spec.to_string()));
    object.extend(found.known.clone());
    object.insert("method".into(), json!(found.method));
    object.insert("kernel".into(), json!(found.kernel));
    object.insert("shape".into(), json!(found.spec.out_shape().lengths()));
    if let Some(output) = &found.output {
        object.insert("output".into(), json!(output.display().to_string()));
    }
    object.insert("ns".into(), json!(u64::try_from(found.time.as_nanos()).unwrap_or(u64::MAX)));
    if matching {
        object.insert("peaks".into(), peaks_json(&found.spec, &found.found.peaks));
    }
    if count {
        object.insert("optimum".into(), count_json(found.found.optimum, dtype));
    }
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_are_numbered() {
        assert_eq!(numbered(Path::new("a/b.npy"), None), Path::new("a/b.npy"));
        assert_eq!(numbered(Path::new("a/b.npy"), Some(2)), Path::new("a/b-2.npy"));
        assert_eq!(numbered(Path::new("b"), Some(1)), Path::new("b-1"));
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(in_line("a\nb\t\u{1b}é \\n.png"), "a\\nb\\t\\u{1b}é \\n.png");
    }

    #[test]
    fn a_measure_goes_with_its_command() {
        assert_eq!(Name::Lcc.op(Some(Measure::Zncc)).unwrap(), Op::Match(Measure::Zncc));
        assert_eq!(Name::Match.op(Some(Measure::Cc)).unwrap(), Op::Correlate);
        assert!(Name::Lcc.op(Some(Measure::Ssd)).is_err());
        assert!(Name::Conv.op(Some(Measure::Cc)).is_err());
    }

    #[test]
    fn positions_do_not_depend_on_the_region() {
        let whole: Spec = "zncc:u8:20x30*4x5:valid".parse().unwrap();
        let part: Spec = "zncc:u8:20x30*4x5:valid,roi=7,9:3x3".parse().unwrap();
        assert_eq!(position(&whole, &[5, 6]), [5, 6]);
        assert_eq!(position(&part, &[1, 1]), [5, 6]);
        let full: Spec = "zncc:u8:20x30*4x5:full".parse().unwrap();
        assert_eq!(position(&full, &[0, 0]), [-3, -4]);
        let same: Spec = "zncc:u8:20x30*4x5:same".parse().unwrap();
        assert_eq!(position(&same, &[0, 0]), [-2, -2]);
    }
}
