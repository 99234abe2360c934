//! match with --rotate or --scale: templates that may stand turned and scaled in the image.

use std::io::Write;
use std::time::{Duration, Instant};

use flcc_runtime::pose::{Poses, fine_angle, fine_scale, steps};
use flcc_runtime::rooms::plan::needed;
use flcc_runtime::{Boundary, Control, Effort, Mode, PosedMatcher, PosedOptions, PosedPeak, Shape, Spec, SpecError};
use serde_json::{Map, Value, json};

use super::correlate::{self, Name, score_json};
use super::templates;
use crate::args::{Correlate, Match, Planning, Poses as Args, Sweep};
use crate::data::{self, Image, Problem, open_mask};
use crate::error::Error;
use crate::memory::check;
use crate::outputs::score_text;
use crate::picture::{self, Mark, Scene};
use crate::session::{Progress, Session};

/// What was found of a template.
struct Found {
    spec: Spec,
    poses: usize,
    left_out: usize,
    time: Duration,
    peaks: Vec<PosedPeak>,
}

/// Finds templates in all poses that the call names.
///
/// # Errors
/// A wrong call, an option that poses do not go with, a file, a refusal.
pub fn run(args: &Match, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let correlate = &args.correlate;
    refuse(args)?;
    let op = Name::Match.op(correlate.measure)?;
    let problem = correlate::problem(Name::Match, correlate, planning)?;
    let inputs = correlate::inputs(correlate)?;
    inputs.check(&[])?;
    let reading = &correlate.extent.reading;
    let image = Image::read("IMAGE", &correlate.image, reading)?.searched();
    image.tell_notes();
    let part = |part| image.part("--template-at", part);
    let all = correlate::open_templates(correlate, image.shape().axes(), &part)?;
    correlate::check_outputs(&inputs, correlate, Some(args), planning, all.all().len())?;
    let mask = correlate.mask.as_deref().map(|path| open_mask("--mask", path, reading)).transpose()?;
    let session = Session::new(planning, Effort::Estimate, correlate.fall_back)?;
    let options = templates::told(&args.search);
    let mask = mask.as_ref().map(Image::view).transpose()?;
    let mut told = Vec::new();
    for template in all.all() {
        let named = |error: SpecError| Error::from(error).named("IMAGE", &template.argument);
        let view = template.view()?;
        let of = (image.dtype(), image.shape(), image.channels());
        let larger =
            view.shape().padded().iter().zip(image.shape().padded()).any(|(template, image)| *template > image);
        // Poses that are smaller may lie inside.
        let problem = Problem { mode: if larger { Mode::Full } else { problem.mode }, ..problem };
        let spec = problem.spec_of(of, &view, 1, None).map_err(named)?;
        let poses = poses(&args.poses, spec.template())?;
        let threads = session.planner.machine().cores().max(session.threads);
        check(&format!("poses of {}", spec.template()), needed::posing(&spec, poses.all().len(), threads))?;
        let began = Instant::now();
        let Args { coarse, finest, .. } = args.poses;
        let options = PosedOptions { mask, peaks: options, coarse, finest };
        let control = Control::default();
        let matcher = session.planner.posed_with(&spec, &view, &poses, &options, &control);
        let matcher = matcher.map_err(|error| Error::from(error).named("IMAGE", &template.argument))?;
        let peaks = search(&matcher, &image, &session, &options).map_err(|error| error.named("IMAGE", "TEMPLATE"))?;
        if matcher.blank() > 0 {
            template.tell(&format!("{} poses leave too little of it to be looked for", matcher.blank()));
        }
        let time = began.elapsed();
        if matcher.left_out() > 0 {
            let (left_out, all) = (matcher.left_out(), matcher.left_out() + matcher.poses());
            template.tell(&format!("{left_out} of {all} poses are larger than the image and were left out"));
        }
        told.push((template, Found { spec, poses: matcher.poses(), left_out: matcher.left_out(), time, peaks }));
    }
    let mut pictures = Ok(());
    if let Some(path) = &args.annotate {
        let names: Vec<&str> = told.iter().map(|(template, _)| template.name.as_str()).collect();
        let marks: Vec<Mark> = told.iter().enumerate().flat_map(|(group, (_, found))| marks(group, found)).collect();
        let (measure, best) = (op.measure().to_string(), op.best());
        let scene = Scene { image: &image, marks: &marks, names: &names, measure: &measure, best, curves: &[] };
        pictures = picture::save_annotated(path, &scene);
    }
    if let (Some(path), Some((_, first))) = (&args.table, told.first()) {
        let header = header(first.spec.image());
        let rows = told.iter().map(|(template, found)| rows(&template.name, found));
        crate::io::save_text(path, std::iter::once(header).chain(rows)).map_err(Error::io("--peaks"))?;
    }
    for (template, found) in &told {
        let text = match planning.json {
            true => json_line(&template.name, found),
            false => lines((told.len() > 1).then_some(template.name.as_str()), found),
        };
        out.write_all(text.as_bytes())?;
        if let Some(threshold) = options.threshold.filter(|_| found.peaks.is_empty()) {
            data::tell("TEMPLATE", &template.name, &format!("no score of any pose is as good as {threshold}"));
        }
    }
    pictures.and(session.keep_wisdom())
}

/// Refuses what poses do not go with.
fn refuse(args: &Match) -> Result<(), SpecError> {
    let Correlate { extent, known, .. } = &args.correlate;
    let zero = extent.boundary().is_ok_and(|boundary| boundary == Boundary::Zero);
    let others = [
        ("--output", args.correlate.output.is_some()),
        ("--heatmap", args.correlate.heatmap.is_some()),
        ("--tile", args.correlate.tile.is_some()),
        ("--roi", args.correlate.roi.is_some()),
        ("--image-mask", known.image_mask.is_some()),
        ("--min-overlap", known.min_overlap.is_some()),
        ("--exclusive", args.search.exclusive),
        ("--count", args.search.count),
        ("--mode", extent.mode.is_some_and(|mode| mode != Mode::Valid)),
        ("--boundary", !zero),
    ];
    match others.iter().find(|(_, given)| *given) {
        Some((argument, _)) => {
            let got = format!("{argument} beside --rotate or --scale");
            Err(SpecError::new(*argument, "none where poses are looked for: peaks of whole templates are told", got))
        }
        None => Ok(()),
    }
}

/// The poses that the options name, of a template of this shape.
fn poses(args: &Args, template: Shape) -> Result<Poses, SpecError> {
    let angles = match args.rotate {
        None => vec![0.0],
        Some(Sweep { from, to, step }) => {
            steps("--rotate", [from, to, step.unwrap_or(even(from, to, fine_angle(template)))], Some(360.0))?
        }
    };
    let scales = match args.scale {
        None => vec![1.0],
        Some(Sweep { from, to, step }) => {
            steps("--scale", [from, to, step.unwrap_or(even(from, to, fine_scale(template)))], None)?
        }
    };
    Poses::grid(&angles, &scales)
}

/// The largest step up to `most` that leads from one value to another.
fn even(from: f64, to: f64, most: f64) -> f64 {
    let count = ((to - from) / most - 1e-9).ceil();
    if count >= 1.0 && count.is_finite() { (to - from) / count } else { most }
}

fn search(
    matcher: &PosedMatcher,
    image: &Image,
    session: &Session,
    options: &PosedOptions<'_>,
) -> Result<Vec<PosedPeak>, Error> {
    let progress = Progress::new();
    let tell = |done, total| progress.tell(done, total);
    let failed = |words: &str| session.note(words);
    let control = Control { progress: Some(&tell), failed: Some(&failed), ..Control::default() };
    Ok(matcher.search(&image.view()?, options, &control)?)
}

/// The peaks of a template, to be drawn.
fn marks(group: usize, found: &Found) -> impl Iterator<Item = Mark> {
    let half = found.spec.template().padded().map(|length| length as f64 / 2.0);
    found.peaks.iter().zip(1..).map(move |(peak, rank)| {
        let middle = peak.middle();
        let corner = |[down, along]: [f64; 2]| {
            let [_, y, x] = peak.pose.place([0.0, down * half[1], along * half[2]]);
            let [.., row, column] = middle[..] else { return [0.0; 2] };
            [row + 0.5 + y, column + 0.5 + x]
        };
        Mark {
            origin: peak.peak.position.iter().map(|&at| at as i64).collect(),
            shape: peak.shape,
            corners: (peak.shape.axes() > 1).then(|| [[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]].map(corner)),
            rank,
            group,
            score: peak.peak.score,
        }
    })
}

/// A number of degrees, or a factor, without what rounding leaves of it.
fn tidy(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn lines(name: Option<&str>, found: &Found) -> String {
    let tail = name.map_or(String::new(), |name| format!(" {}", correlate::in_line(name)));
    let mut text = String::new();
    for (peak, rank) in found.peaks.iter().zip(1..) {
        let middle: Vec<String> = peak.middle().iter().map(|at| format!("{at:.3}")).collect();
        text.push_str(&format!(
            "{rank} {} {} angle {} scale {}{tail}\n",
            middle.join(","),
            score_text(peak.peak.score, found.spec.out_type()),
            tidy(peak.pose.angle()),
            tidy(peak.pose.scale()),
        ));
    }
    text
}

/// The first line of a table: `template,rank,y,x,angle,scale,score`.
fn header(image: Shape) -> String {
    format!("template,rank,{},angle,scale,score\n", image.unpad(&correlate::AXES).join(","))
}

fn rows(name: &str, found: &Found) -> String {
    let mut text = String::new();
    for (peak, rank) in found.peaks.iter().zip(1..) {
        let middle: Vec<String> = peak.middle().iter().map(|at| format!("{at:.3}")).collect();
        text.push_str(&format!(
            "{},{rank},{},{},{},{}\n",
            correlate::quoted(name),
            middle.join(","),
            tidy(peak.pose.angle()),
            tidy(peak.pose.scale()),
            score_text(peak.peak.score, found.spec.out_type()),
        ));
    }
    text
}

fn json_line(name: &str, found: &Found) -> String {
    let peak = |(peak, rank): (&PosedPeak, usize)| {
        json!({
            "middle": peak.middle(),
            "angle": tidy(peak.pose.angle()),
            "scale": tidy(peak.pose.scale()),
            "position": peak.peak.position,
            "shape": peak.shape.lengths(),
            "score": score_json(peak.peak.score, found.spec.out_type()),
            "rank": rank,
        })
    };
    let mut object = Map::new();
    object.insert("template".into(), json!(name));
    correlate::describe(&mut object, &found.spec);
    object.insert("spec".into(), json!(found.spec.to_string()));
    object.insert("poses".into(), json!(found.poses));
    object.insert("left_out".into(), json!(found.left_out));
    object.insert("ns".into(), json!(u64::try_from(found.time.as_nanos()).unwrap_or(u64::MAX)));
    object.insert("peaks".into(), found.peaks.iter().zip(1..).map(peak).collect::<Vec<_>>().into());
    format!("{}\n", Value::Object(object))
}
