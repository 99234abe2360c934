//! conv, corr, lcc and match: an image with one or several templates.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flcc_runtime::core::peaks::count_optimum_inside;
use flcc_runtime::{
    AnyView, Control, DType, Effort, Kind, Measure, Mode, Op, Peak, PeakOptions, ScoreMap, Shape, Spec, SpecError,
    find_peaks,
};
use serde_json::{Map, Value, json};

use crate::args::{Correlate, Match, Peaks, Planning};
use crate::data::{Image, Problem, open_mask};
use crate::error::Error;
use crate::memory::{check_data, check_plan};
use crate::outputs::{self, Format, Output};
use crate::picture::{self, Curve, Heat, Mark, Scene};
use crate::session::{Progress, Session, accuracy, wisdom_file};

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
struct Found {
    spec: Spec,
    kernel: String,
    method: String,
    ns: u128,
    map: ScoreMap,
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
    let op = name.op(args.measure)?;
    if matching.is_none() && args.output.is_none() && args.heatmap.is_none() {
        return Err(SpecError::new("-o", "-o OUT.npy (or --heatmap OUT.png)", "neither").into());
    }
    check_outputs(args, matching, planning)?;
    let problem = Problem {
        op,
        mode: args.extent.mode.unwrap_or(name.mode()),
        boundary: args.extent.boundary().map_err(|error| Error::from(error).named("IMAGE", "TEMPLATE"))?,
        precision: planning.precision.map(|precision| precision.0),
        accuracy: accuracy(planning),
        roi: args.roi,
    };
    let session = Session::new(planning, Effort::Estimate)?.fall_back(args.fall_back);
    let image = Image::open("IMAGE", &args.image, args.extent.gray)?;
    let templates = templates(args, &image)?;
    let mask = args.mask.as_deref().map(|path| open_mask(path, args.extent.gray)).transpose()?;
    let groups = groups(&templates);
    // What is wrong with any template is told before the first result is written.
    let mut specs = Vec::new();
    for group in &groups {
        let first = templates[group[0]].view()?;
        let mask = mask.as_ref().map(Image::view).transpose()?;
        let spec = problem.spec(&image.view()?, &first, group.len(), mask.as_ref());
        specs.push(spec.map_err(|error| Error::from(error).named("IMAGE", &templates[group[0]].argument))?);
    }

    let (mut marks, mut curves) = (Vec::new(), Vec::new());
    let mut lines: Vec<(usize, String)> = Vec::new();
    let several = templates.len() > 1;
    for (group, spec) in groups.iter().zip(&specs) {
        let pictures = 8.0 * f64::from(u8::from(args.heatmap.is_some())) * spec.out_shape().len() as f64;
        let more = pictures + matching.map_or(0.0, |matching| search_bytes(&matching.peaks, spec));
        for (&index, found) in
            group.iter().zip(compute(spec, &session, &image, group, &templates, mask.as_ref(), more)?)
        {
            let output = args.output.as_deref().map(|path| numbered(path, several.then_some(index + 1)));
            if let Some(path) = &output {
                crate::io::save_npy(path, found.map.shape().lengths(), found.map.data()).map_err(Error::io("-o"))?;
            }
            if let Some(path) = &args.heatmap {
                let none = vec![0; found.map.shape().axes()];
                let first: Vec<i64> = position(spec, &none).into_iter().map(|at| at as i64).collect();
                let heat = Heat { map: &found.map, first: &first, measure: op.name(), minimum: op.minimum_is_best() };
                picture::save_heatmap(&numbered(path, several.then_some(index + 1)), &heat)?;
            }
            if matching.is_some_and(|matching| matching.annotate.is_some()) && found.map.shape().axes() == 1 {
                curves.push((index, Curve::of_map(&found.map, origin(spec, &[0]).first().copied().unwrap_or(0))));
            }
            let peaks =
                matching.map(|matching| search(&matching.peaks, &found.map, op, spec.template())).unwrap_or_default();
            marks.extend(peaks.iter().zip(1..).map(|(peak, rank)| Mark {
                origin: origin(spec, &peak.position),
                shape: spec.template(),
                rank,
                group: index,
                score: peak.score,
            }));
            let count =
                matching.filter(|matching| matching.peaks.count).map(|matching| count(&matching.peaks, &found.map, op));
            let name = &templates[index].name;
            let text = match planning.json {
                true => json_line(name, &found, &peaks, count, output.as_deref(), matching.is_some())?,
                false => text_lines(several.then_some(name), &found, &peaks, count),
            };
            lines.push((index, text));
        }
    }
    // What cannot be kept is told after what was found.
    let kept = session.keep_wisdom();
    if let Some(path) = matching.and_then(|matching| matching.annotate.as_ref()) {
        let names: Vec<&str> = templates.iter().map(|template| template.name.as_str()).collect();
        let (measure, minimum) = (op.name(), op.minimum_is_best());
        let scene = Scene { image: &image, marks: &marks, names: &names, measure, minimum, curves: &curves };
        picture::save_annotated(path, &scene)?;
    }
    lines.sort_by_key(|(index, _)| *index);
    for (_, text) in lines {
        out.write_all(text.as_bytes())?;
    }
    kept
}

/// Refuses files to write that would not be what the call says, before anything is read or computed.
fn check_outputs(args: &Correlate, matching: Option<&Match>, planning: &Planning) -> Result<(), Error> {
    let parts = args
        .positional
        .iter()
        .map(|path| ("TEMPLATE", path))
        .chain(args.template.iter().map(|path| ("--template", path)));
    let inputs =
        std::iter::once(("IMAGE", &args.image)).chain(parts).chain(args.mask.iter().map(|path| ("--mask", path)));
    let inputs: Vec<(&str, &Path)> = inputs.map(|(argument, path)| (argument, path.as_path())).collect();
    let templates = args.positional.iter().count() + args.template.len() + args.template_at.len();
    let mut outputs = Vec::new();
    for index in 0..templates {
        let number = (templates > 1).then_some(index + 1);
        for (argument, path, format) in [("-o", &args.output, Format::Npy), ("--heatmap", &args.heatmap, Format::Png)] {
            outputs.extend(path.iter().map(|path| Output { argument, path: numbered(path, number), format }));
        }
    }
    let annotated = matching.and_then(|matching| matching.annotate.clone());
    outputs.extend(annotated.map(|path| Output { argument: "--annotate", path, format: Format::Png }));
    outputs.extend(wisdom_file(planning)?.map(|(argument, path)| Output { argument, path, format: Format::Wisdom }));
    outputs::check(&inputs, &outputs)
}

/// The templates in the order of the arguments: the positional one, those of `--template`, those of `--template-at`.
fn templates(args: &Correlate, image: &Image) -> Result<Vec<Image>, Error> {
    let named = args
        .positional
        .iter()
        .map(|path| ("TEMPLATE", path))
        .chain(args.template.iter().map(|path| ("--template", path)));
    let files = named.map(|(argument, path)| Image::open(argument, path, args.extent.gray));
    let parts = args.template_at.iter().map(|part| image.part("--template-at", *part));
    let templates = files.chain(parts).collect::<Result<Vec<_>, _>>()?;
    if templates.is_empty() {
        return Err(SpecError::of(
            Kind::EmptyInput,
            "TEMPLATE",
            "TEMPLATE, --template FILE or --template-at ORIGIN:SHAPE",
            "none",
        )
        .into());
    }
    Ok(templates)
}

/// Templates that one plan serves: of one shape and type.
fn groups(templates: &[Image]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let kind = |index: usize| (templates[index].shape(), templates[index].dtype(), templates[index].channels());
    for index in 0..templates.len() {
        match groups.iter_mut().find(|group| kind(group[0]) == kind(index)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn compute(
    spec: &Spec,
    session: &Session,
    image: &Image,
    group: &[usize],
    templates: &[Image],
    mask: Option<&Image>,
    more: f64,
) -> Result<Vec<Found>, Error> {
    if session.measures() {
        check_data(spec, spec.templates())?;
    }
    let plan = session.plan(spec)?;
    check_plan(&plan, more)?;
    let mask = mask.map(Image::view).transpose()?;
    let views = group.iter().map(|&index| templates[index].view()).collect::<Result<Vec<AnyView<'_>>, _>>()?;
    let progress = Progress::new();
    let tell = |done, total| progress.tell(done, total);
    let began = Instant::now();
    let matcher = plan.bind(&views, mask.as_ref()).map_err(|error| {
        // Of several templates the one that cannot be bound alone is meant.
        let wrong = |&&index: &&usize| match (spec.clone().with_templates(1), templates[index].view()) {
            (Ok(one), Ok(view)) => {
                session.planner.plan(&one).is_ok_and(|plan| plan.bind(&[view], mask.as_ref()).is_err())
            }
            _ => false,
        };
        let index = group.iter().find(wrong).unwrap_or(&group[0]);
        Error::from(error).named("IMAGE", &templates[*index].argument)
    })?;
    let failed = |words: &str| session.note(words);
    let control = Control { progress: Some(&tell), failed: Some(&failed), ..Control::default() };
    let (maps, _) = matcher.execute_with(&[image.view()?], &control)?;
    let ns = began.elapsed().as_nanos();
    let found = |map| Found {
        spec: spec.clone(),
        kernel: matcher.kernel().to_string(),
        method: matcher.method().to_string(),
        ns,
        map,
    };
    Ok(maps.into_iter().map(found).collect())
}

/// `OUT.npy`, or `OUT-2.npy` for the second of several.
fn numbered(path: &Path, number: Option<usize>) -> PathBuf {
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

/// Searches a map as the options say.
pub fn search(options: &Peaks, map: &ScoreMap, op: Op, template: Shape) -> Vec<Peak> {
    let smallest = template.lengths().iter().copied().min().unwrap_or(1);
    let options = PeakOptions {
        top: options.top.or(if options.threshold.is_some() { None } else { Some(1) }),
        threshold: options.threshold,
        min_distance: options.min_distance.unwrap_or((smallest / 2).max(1)),
        exclude_border: options.exclude_border,
        subpixel: options.subpixel,
        minimum: op.minimum_is_best(),
    };
    find_peaks(map, &options)
}

/// Bytes that [`search`] may take beside the map: where every position may be a peak, a list of all.
fn search_bytes(options: &Peaks, spec: &Spec) -> f64 {
    let each = match (options.min_distance, options.top, options.threshold) {
        (Some(0), None, Some(_)) => 256.0,
        (Some(0), _, _) => 8.0,
        _ => 4.0,
    };
    each * spec.out_shape().len() as f64
}

/// The best score and how many positions attain it, of those that the border leaves.
pub fn count(options: &Peaks, map: &ScoreMap, op: Op) -> Option<(f64, usize)> {
    count_optimum_inside(map, op.minimum_is_best(), options.exclude_border)
}

/// A position of a region's map in the whole result of the mode: the template's first sample for mode valid.
pub fn position(spec: &Spec, map: &[usize]) -> Vec<usize> {
    map.iter().zip(shift(spec)).map(|(at, shift)| at + shift).collect()
}

fn shift(spec: &Spec) -> Vec<usize> {
    let (part, whole) = (spec.region().origin, spec.mode_region().origin);
    spec.out_shape().unpad(&[0, 1, 2].map(|axis| part[axis].saturating_sub(whole[axis])))
}

/// Where the template's first sample lies in the image, which may be outside.
pub fn origin(spec: &Spec, map: &[usize]) -> Vec<i64> {
    let (part, template) = (spec.region().origin, spec.template().padded());
    let begin = spec.out_shape().unpad(&[0, 1, 2].map(|axis| part[axis] as i64 - (template[axis] as i64 - 1)));
    map.iter().zip(begin).map(|(&at, begin)| at as i64 + begin).collect()
}

/// A score with as many digits as its type has.
fn score_text(score: f64, dtype: DType) -> String {
    if dtype == DType::F64 { score.to_string() } else { (score as f32).to_string() }
}

/// A score as JSON; what is no number there is null.
pub fn score_json(score: f64, dtype: DType) -> Value {
    score_text(score, dtype).parse::<f64>().ok().map_or(Value::Null, Value::from)
}

fn text_lines(name: Option<&String>, found: &Found, peaks: &[Peak], count: Option<Option<(f64, usize)>>) -> String {
    let dtype = found.map.data().dtype();
    let tail = name.map_or(String::new(), |name| format!(" {name}"));
    let mut text = String::new();
    for (peak, rank) in peaks.iter().zip(1..) {
        let position = match &peak.refined {
            None => comma(&position(&found.spec, &peak.position)),
            Some(refined) => comma(
                &refined
                    .iter()
                    .zip(shift(&found.spec))
                    .map(|(at, shift)| format!("{:.3}", at + shift as f64))
                    .collect::<Vec<_>>(),
            ),
        };
        text.push_str(&format!("{rank} {position} {}{tail}\n", score_text(peak.score, dtype)));
    }
    match count {
        Some(Some((score, count))) => text.push_str(&format!("count {count} {}{tail}\n", score_text(score, dtype))),
        Some(None) => text.push_str(&format!("count 0 nan{tail}\n")),
        None => {}
    }
    text
}

fn comma<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// A peak as JSON.
pub fn peak_json(spec: &Spec, peak: &Peak, dtype: DType) -> Value {
    let mut object = Map::new();
    object.insert("position".into(), json!(position(spec, &peak.position)));
    if let Some(refined) = &peak.refined {
        let refined: Vec<f64> = refined.iter().zip(shift(spec)).map(|(at, shift)| at + shift as f64).collect();
        object.insert("refined".into(), json!(refined));
    }
    object.insert("origin".into(), json!(origin(spec, &peak.position)));
    object.insert("score".into(), score_json(peak.score, dtype));
    Value::Object(object)
}

/// The optimum and how many positions attain it, as JSON.
pub fn count_json(count: Option<(f64, usize)>, dtype: DType) -> Value {
    match count {
        Some((score, count)) => json!({"count": count, "score": score_json(score, dtype)}),
        None => json!({"count": 0, "score": null}),
    }
}

fn json_line(
    name: &str,
    found: &Found,
    peaks: &[Peak],
    count: Option<Option<(f64, usize)>>,
    output: Option<&Path>,
    matching: bool,
) -> Result<String, Error> {
    let dtype = found.map.data().dtype();
    let mut object = Map::new();
    object.insert("template".into(), json!(name));
    object.insert("spec".into(), json!(found.spec.to_string()));
    object.insert("method".into(), json!(found.method));
    object.insert("kernel".into(), json!(found.kernel));
    object.insert("shape".into(), json!(found.map.shape().lengths()));
    if let Some(output) = output {
        object.insert("output".into(), json!(output.display().to_string()));
    }
    object.insert("ns".into(), json!(u64::try_from(found.ns).unwrap_or(u64::MAX)));
    if matching {
        let peaks = peaks.iter().zip(1..).map(|(peak, rank)| {
            let mut value = peak_json(&found.spec, peak, dtype);
            value["rank"] = json!(rank);
            value
        });
        object.insert("peaks".into(), Value::Array(peaks.collect()));
    }
    if let Some(count) = count {
        object.insert("optimum".into(), count_json(count, dtype));
    }
    Ok(format!("{}\n", Value::Object(object)))
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
        assert_eq!(origin(&part, &[1, 1]), [5, 6]);
        let full: Spec = "zncc:u8:20x30*4x5:full".parse().unwrap();
        assert_eq!(origin(&full, &[0, 0]), [-3, -4]);
    }
}
