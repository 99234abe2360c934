//! stream: frames as they come, a JSON line for each and each template, in their order.
//!
//! Where one frame at a time keeps everything busy, on a CPU, one is computed while the next is read. Where several do,
//! on GPUs, those that have come are computed together, and as many more are read meanwhile. A frame that fails gives a
//! line with `error`, and the stream goes on.

mod ahead;
mod notes;
mod source;

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flcc_runtime::peaks::Found;
use flcc_runtime::rooms::free::available;
use flcc_runtime::{Control, DType, Effort, ExecError, Kind, Mode, Op, Shape, Spec, SpecError, Stream};
use serde_json::{Map, Value, json};

use ahead::{Ahead, Frame};
use notes::Notes;
use source::Source;

use super::correlate::{Wish, count_json, describe, marks_of, no_position, peaks_json};
use super::masked::{self, Known};
use super::templates::{self, Templates, Wanted};
use crate::args::{self, Planning};
use crate::data::{HIDDEN, Image, Problem, open_mask};
use crate::error::Error;
use crate::memory::{check_data, check_frame, check_peaks, check_plan, results};
use crate::outputs::{Holds, Inputs, Output};
use crate::picture::{self, Scene};
use crate::session::{Session, accuracy, wisdom_file};

/// Bytes that frames and results may take where several are held at a time: 1 GiB.
const MOST_BYTES: f64 = (1u64 << 30) as f64;

/// Runs the stream; status 1 if a frame failed.
///
/// # Errors
/// A wrong call, a template that is not read; standard output that takes no more.
pub fn run(args: &args::Stream, planning: &Planning, out: &mut dyn Write) -> Result<u8, Error> {
    let source = Source::of(args)?;
    let inputs = inputs(args, planning, &source)?;
    let problem = Problem {
        op: Op::Match(args.measure).canonical(),
        mode: args.extent.mode.unwrap_or(Mode::Valid),
        boundary: masked::boundary(true, &args.extent)
            .map_err(|error| Error::from(error).named("FRAMES", "TEMPLATE"))?,
        precision: planning.precision.map(|precision| precision.0),
        accuracy: accuracy(planning),
        roi: None,
    };
    let known = Known::open(true, (&args.extent, &args.known), planning, args.fall_back)?;
    let all_known = known.is_none();
    let session = Session::new(planning, Effort::Estimate, args.fall_back)?;
    let reading = args.extent.reading.clone();
    let files = templates::open(Some(&args.template), &args.more, &reading)?;
    let mask = args.mask.as_deref().map(|path| open_mask("--mask", path, &reading)).transpose()?;
    let mut frames = Frames {
        args,
        problem,
        session: &session,
        files,
        templates: HashMap::new(),
        mask,
        known: known.map(Rc::new),
        streams: HashMap::new(),
        failed: false,
        fitted: false,
        at_once: 1,
        inputs,
        number: 0,
        notes: Notes::default(),
        wanted: None,
    };
    if let Some(format) = source.format() {
        // All frames are alike: what does not fit the first never will, and need not be waited for.
        let channels = if reading.gray { 1 } else { format.channels() };
        let named = |error| SpecError { argument: source.argument().into(), ..error };
        let shape = Shape::new(format.shape()).map_err(named)?;
        check_frame(source.argument(), format)?;
        let templates = frames.templates(shape.axes())?;
        for group in templates.groups() {
            frames.spec(&templates, group, (format.dtype(), shape, channels))?;
        }
    }
    let followed = frames.follow(Ahead::new(move || source.frames(reading, all_known))?, out);
    frames.notes.tell(frames.number);
    followed?;
    session.keep_wisdom()?;
    Ok(u8::from(frames.failed))
}

/// The files that are read, none of which a picture may replace: refused now, where it is known.
fn inputs(args: &args::Stream, planning: &Planning, source: &Source) -> Result<Inputs, Error> {
    let mut inputs = Inputs::new();
    if source.is_standard_input() {
        inputs.add("FRAMES", Path::new("-"));
    }
    templates::add_inputs(&mut inputs, Some(&args.template), &args.more, &args.extent.reading)?;
    args.mask.iter().for_each(|path| inputs.add("--mask", path));
    args.known.image_mask.iter().for_each(|path| inputs.add("--image-mask", path));
    source.files().iter().for_each(|path| inputs.add("FRAMES", path));
    let wisdom = wisdom_file(planning)?.map(|(argument, path)| Output { argument, path, holds: Holds::Wisdom });
    let mut numbers: BTreeSet<usize> = (0..source.files().len().max(1)).collect();
    // How many frames come nobody knows: as many as give a picture the name of a file that is read.
    if let (true, Some(pattern)) = (source.is_standard_input(), &args.annotate) {
        numbers.extend(inputs.files().filter_map(|file| pattern.number(file)));
    }
    let pictures = numbers.into_iter().filter_map(|number| picture_of(args, number));
    inputs.check(&wisdom.iter().cloned().chain(pictures).collect::<Vec<_>>())?;
    // Pictures of frames that come later may not replace it either.
    wisdom.iter().for_each(|wisdom| inputs.add_output(wisdom));
    Ok(inputs)
}

/// The picture of a frame, where pictures are asked for.
fn picture_of(args: &args::Stream, number: usize) -> Option<Output<'static>> {
    let path = args.annotate.as_ref()?.with(number);
    Some(Output { argument: "--annotate", path, holds: Holds::Picture })
}

/// What frames are computed with: of each type and number of channels a stream for each group of templates; each keeps
/// a few sizes planned.
struct Frames<'a> {
    args: &'a args::Stream,
    problem: Problem,
    session: &'a Session,
    /// What the arguments hold.
    files: Vec<Image>,
    /// The templates that this is for frames of so many axes.
    templates: HashMap<usize, Rc<Templates>>,
    mask: Option<Image>,
    /// What of every frame is known, where not all of it is.
    known: Option<Rc<Known>>,
    streams: HashMap<(DType, usize, usize, usize), Stream>,
    failed: bool,
    /// Whether the templates went with any frame so far.
    fitted: bool,
    /// How many frames to take at a time.
    at_once: usize,
    /// What no picture may replace.
    inputs: Inputs,
    /// The number of the next frame.
    number: usize,
    notes: Notes,
    /// What is looked for, once that is more than at first.
    wanted: Option<Wanted>,
}

/// What was found in each of some frames, for each template of a group.
type Results = Vec<Result<Vec<Found>, ExecError>>;

/// What there is of a template in a frame.
struct Told {
    spec: Spec,
    found: Found,
}

impl Frames<'_> {
    /// The templates for frames of so many axes.
    fn templates(&mut self, axes: usize) -> Result<Rc<Templates>, Error> {
        if let Some(known) = self.templates.get(&axes) {
            return Ok(Rc::clone(known));
        }
        let templates = Rc::new(Templates::new(templates::unstacked(self.files.clone(), axes, self.args.stack)?));
        self.templates.insert(axes, Rc::clone(&templates));
        Ok(templates)
    }

    /// Takes frames until there are no more.
    fn follow(&mut self, mut ahead: Ahead, out: &mut dyn Write) -> Result<(), Error> {
        loop {
            let frames = ahead.take(self.at_once);
            if frames.is_empty() {
                return Ok(());
            }
            // The next are read while these are computed.
            ahead.ask(self.at_once);
            self.tell(frames, out)?;
        }
    }

    /// Computes frames, those that are alike and follow each other together, and prints their lines.
    fn tell(&mut self, frames: Vec<Frame>, out: &mut dyn Write) -> Result<(), Error> {
        let mut frames = frames.into_iter().peekable();
        while let Some((name, frame)) = frames.next() {
            let image = match frame {
                Ok(image) => image,
                Err(error) => {
                    self.failed = true;
                    self.number += 1;
                    print(out, [("frame", name), ("error", json!(error.to_string()))])?;
                    continue;
                }
            };
            let (mut names, mut images) = (vec![name], vec![image]);
            let alike = |(_, next): &Frame| next.as_ref().is_ok_and(|next| kind(next) == kind(&images[0]));
            let mut more = Vec::new();
            while let Some((name, Ok(image))) = frames.next_if(alike) {
                names.push(name);
                more.push(image);
            }
            images.extend(more);
            images.iter().for_each(|image| self.notes.take(image));
            let began = Instant::now();
            let templates = self.templates(images[0].shape().axes())?;
            let wanted = self.wanted(&templates);
            let all = self.compute(&templates, &images)?;
            let share = began.elapsed() / u32::try_from(images.len()).unwrap_or(u32::MAX);
            for ((name, image), told) in names.into_iter().zip(&images).zip(all) {
                let (told, took) = self.leave(&templates, image, (told, wanted), share)?;
                let border = self.args.peaks.exclude_border;
                let left_none = told.iter().flatten().find_map(|told| no_position(border, told.spec.out_shape()));
                left_none.iter().for_each(|note| self.notes.note(image, note));
                self.lines(&name, &templates, image, &told, took, out)?;
                self.picture(&templates, image, &told)?;
                self.number += 1;
            }
        }
        Ok(())
    }

    /// What is told of a frame, of what was found for all templates or of more, and how long it took, with the time so
    /// far.
    fn leave(
        &mut self,
        templates: &Templates,
        image: &Image,
        (mut told, mut wanted): (Vec<Result<Told, String>>, Wanted),
        mut took: Duration,
    ) -> Result<(Vec<Result<Told, String>>, Duration), Error> {
        loop {
            let found = told.iter_mut().flatten().map(|told| (&told.spec, &mut told.found.peaks));
            if let Some(more) = templates::leave(&self.args.peaks, &wanted.options(), found) {
                return Ok((told, took + more));
            }
            let began = Instant::now();
            wanted.lengthen();
            self.wanted = Some(wanted);
            told = self.compute(templates, std::slice::from_ref(image))?.pop().unwrap_or_default();
            took += began.elapsed();
        }
    }

    /// What is looked for: as many peaks as were needed so far.
    fn wanted(&self, templates: &Templates) -> Wanted {
        self.wanted.unwrap_or_else(|| Wanted::new(&self.args.peaks, templates.all().len()))
    }

    /// Prints the lines of a frame, one for each template.
    fn lines(
        &mut self,
        frame: &Value,
        templates: &Templates,
        image: &Image,
        told: &[Result<Told, String>],
        took: Duration,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for (template, told) in templates.all().iter().zip(told) {
            let mut object = Map::new();
            object.insert("frame".into(), frame.clone());
            object.insert("template".into(), json!(template.name));
            match told {
                Ok(Told { spec, found }) => {
                    object.insert("peaks".into(), peaks_json(spec, &found.peaks));
                    if self.args.peaks.count {
                        object.insert("optimum".into(), count_json(found.optimum, spec.out_type()));
                    }
                    object.insert("shape".into(), json!(image.shape().lengths()));
                    object.insert("ns".into(), json!(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
                    describe(&mut object, spec);
                    object.extend(self.known.iter().flat_map(|known| known.described()));
                }
                Err(error) => {
                    self.failed = true;
                    object.insert("error".into(), json!(error));
                }
            }
            print(out, object)?;
        }
        Ok(())
    }

    /// Draws a frame with its peaks, where that is asked for; a picture that fails is told, and the stream goes on.
    fn picture(&mut self, templates: &Templates, image: &Image, told: &[Result<Told, String>]) -> Result<(), Error> {
        let Some(output) = picture_of(self.args, self.number) else { return Ok(()) };
        let marks: Vec<_> = told
            .iter()
            .enumerate()
            .filter_map(|(template, told)| told.as_ref().ok().map(|told| (template, told)))
            .flat_map(|(template, told)| marks_of(&told.spec, template, &told.found.peaks))
            .collect();
        let names: Vec<&str> = templates.all().iter().map(|template| template.name.as_str()).collect();
        let measure = self.problem.op.measure().to_string();
        let scene =
            Scene { image, marks: &marks, names: &names, measure: &measure, best: self.problem.op.best(), curves: &[] };
        let drawn = self.inputs.check(std::slice::from_ref(&output));
        match drawn.and_then(|()| picture::save_annotated(&output.path, &scene)) {
            Err(error) if error.spec().is_some() => Err(error),
            Err(error) => {
                self.failed = true;
                self.session.note(&error.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The spec of a group of templates for frames of a type, a shape and a number of channels.
    fn spec(&self, templates: &Templates, group: &[usize], frame: (DType, Shape, usize)) -> Result<Spec, Error> {
        let first = templates.all()[group[0]].view()?;
        let mask = self.mask.as_ref().map(Image::view).transpose()?;
        let spec = self.problem.spec_of(frame, &first, group.len(), mask.as_ref());
        let named = |error| Error::from(error).named("FRAMES", &templates.called(group[0]));
        spec.and_then(|spec| spec.with_images(0)).map_err(named)
    }

    /// What there is of each template in each of some frames of one kind.
    ///
    /// # Errors
    /// What no other frame would fare better with.
    fn compute(&mut self, templates: &Templates, images: &[Image]) -> Result<Vec<Vec<Result<Told, String>>>, Error> {
        let empty = || templates.all().iter().map(|_| None).collect();
        let mut all: Vec<Vec<Option<Result<Told, String>>>> = images.iter().map(|_| empty()).collect();
        let mut fitted = true;
        for (number, group) in templates.groups().iter().enumerate() {
            let found = self.of_group(templates, number, images);
            for (told, found) in all.iter_mut().zip(found) {
                let failed = match found {
                    Ok((spec, found)) => {
                        for (&index, found) in group.iter().zip(found) {
                            told[index] = Some(Ok(Told { spec: spec.clone(), found }));
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                let mismatch = failed.spec().is_some_and(|error| error.kind == Kind::DimsMismatch);
                let mismatch = mismatch || is_another_frames(&failed);
                // A template of other axes or channels than the first frame, a mask of another shape: a wrong call,
                // told once.
                if failed.is_refusal() || is_about_the_template(&failed) || mismatch && !self.fitted {
                    return Err(failed);
                }
                fitted = false;
                let words = failed.to_string();
                group.iter().for_each(|&index| told[index] = Some(Err(words.clone())));
            }
        }
        self.fitted |= fitted;
        let nothing = || Err("stream: expected one result for each template, got none".to_string());
        let whole = |told: Vec<Option<_>>| told.into_iter().map(|told| told.unwrap_or_else(nothing)).collect();
        Ok(all.into_iter().map(whole).collect())
    }

    /// What there is of a group of templates in each of some frames of one kind: of all together, or one by one where
    /// that fails.
    fn of_group(
        &mut self,
        templates: &Templates,
        group: usize,
        images: &[Image],
    ) -> Vec<Result<(Spec, Vec<Found>), Error>> {
        match self.results(templates, group, images) {
            Ok((spec, results)) => {
                let first = templates.groups()[group][0];
                let named = |error: ExecError| Error::from(error).named("FRAMES", &templates.called(first));
                results.into_iter().map(|found| Ok((spec.clone(), found.map_err(named)?))).collect()
            }
            Err(error) if images.len() < 2 => vec![Err(error)],
            Err(_) => {
                images.iter().flat_map(|image| self.of_group(templates, group, std::slice::from_ref(image))).collect()
            }
        }
    }

    /// The results of frames of which not all is known.
    fn of_known(
        &mut self,
        (known, images): (&Known, &[Image]),
        (templates, group): (&Templates, &[usize]),
    ) -> Result<(Spec, Results), Error> {
        let first = &images[0];
        let spec = self.spec(templates, group, kind(first))?.with_images(1)?;
        let (mask, control) = (self.mask.as_ref(), Control::default());
        let wish = Wish { peaks: Some(self.wanted(templates).options()), optimum: self.args.peaks.count, map: false };
        let mut results = Results::new();
        for image in images {
            let maps = known.execute(&spec, self.session, (image, mask), (templates, group), ("FRAMES", &control))?;
            if maps.iter().any(masked::hides) {
                self.notes.note(image, HIDDEN);
            }
            results.push(Ok(maps.into_iter().map(|map| wish.searched(self.session, map).1).collect()));
        }
        Ok((spec, results))
    }

    /// The results of frames of one kind, planned now if the kind is new.
    fn results(&mut self, templates: &Templates, number: usize, images: &[Image]) -> Result<(Spec, Results), Error> {
        if let Some(known) = self.known.clone() {
            return self.of_known((&known, images), (templates, &templates.groups()[number]));
        }
        let views = images.iter().map(Image::view).collect::<Result<Vec<_>, _>>()?;
        let view = &views[0];
        let group = &templates.groups()[number];
        let key = (view.dtype(), view.channels(), view.shape().axes(), number);
        let spec = self.spec(templates, group, (view.dtype(), view.shape(), view.channels()))?;
        let wanted = self.wanted(templates).options();
        if !self.streams.contains_key(&key) {
            let mask = self.mask.as_ref().map(Image::view).transpose()?;
            if self.session.measures() {
                check_data(&spec, spec.templates())?;
            }
            let plan = self.session.plan(&spec)?;
            check_plan(&plan, plan.peaks_bytes(&wanted) as f64)?;
            let matcher = templates.bind(group, &plan, self.session, "FRAMES", mask.as_ref())?;
            self.streams.insert(key, matcher.stream());
        }
        let Some(stream) = self.streams.get_mut(&key) else {
            return Err(Error::Failed("stream: expected a plan for the frame, got none".into()));
        };
        let named = |error: ExecError| Error::from(error).named("FRAMES", &templates.called(group[0]));
        let plan = stream.matcher(view.shape()).map_err(named)?.plan().clone();
        let held = if stream.appetite() > 1 { images.len() as f64 * results(plan.spec()) } else { 0.0 };
        let held = held.max(plan.peaks_bytes(&wanted) as f64);
        check_plan(&plan, held)?;
        check_peaks(&plan, held, &wanted)?;
        let at_once = at_once(stream.appetite(), plan.spec(), available());
        self.at_once = if number == 0 { at_once } else { self.at_once.min(at_once) };
        let failed = |words: &str| self.session.note(words);
        let control = Control { failed: Some(&failed), ..Control::default() };
        Ok((spec, stream.search_all(&views, &wanted, self.args.peaks.count, &control)))
    }
}

/// Prints a line at once.
fn print(out: &mut dyn Write, fields: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Result<(), Error> {
    let object = Map::from_iter(fields.into_iter().map(|(name, value)| (name.into(), value)));
    writeln!(out, "{}", Value::Object(object))?;
    out.flush()?;
    Ok(())
}

/// What frames that are computed together have in common.
fn kind(image: &Image) -> (DType, Shape, usize) {
    (image.dtype(), image.shape(), image.channels())
}

/// How many frames of a spec to take at a time: as many as keep the devices busy, where those that are computed, those
/// that are read meanwhile and the results stay within [`MOST_BYTES`] and half of what is free.
fn at_once(appetite: usize, spec: &Spec, free: f64) -> usize {
    let frame = spec.image().len() as f64 * spec.channels() as f64 * spec.image_type().row().size as f64;
    let most = MOST_BYTES.min(free / 2.0) / (2.0 * frame + results(spec));
    (most as usize).clamp(1, appetite.max(1))
}

/// Whether the frames' mask has another shape than the frame.
fn is_another_frames(error: &Error) -> bool {
    error.spec().is_some_and(|error| error.kind == Kind::MaskShape && error.argument == "--image-mask")
}

/// Whether the template or a mask is wrong, whatever the frame.
fn is_about_the_template(error: &Error) -> bool {
    !is_another_frames(error)
        && error.spec().is_some_and(|error| {
            matches!(
                error.kind,
                Kind::ConstantTemplate
                    | Kind::ZeroTemplate
                    | Kind::NonfiniteTemplate
                    | Kind::MaskShape
                    | Kind::MaskInvalid
                    | Kind::NotExact
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::io::Loaded;
    use clap::Parser;
    use flcc_runtime::Pixels;

    fn image(name: &str, shape: [usize; 2], seed: usize) -> Image {
        let pixels = (0..shape[0] * shape[1]).map(|k| ((k + seed).wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        let loaded = Loaded { shape: shape.to_vec(), channels: 1, pixels: Pixels::U8(pixels), notes: Vec::new() };
        Image::new("FRAMES", name.into(), loaded, false).unwrap()
    }

    /// The lines of a stream that takes so many of its frames at a time, without their times.
    fn lines(at_a_time: usize) -> Vec<Map<String, Value>> {
        let Ok(Cli { command: Command::Stream(args), planning }) =
            Cli::try_parse_from(["flcc", "stream", "t", "f", "--count", "--top", "3"])
        else {
            unreachable!("the call is right");
        };
        let session = Session::new(&planning, Effort::Estimate, false).unwrap();
        let problem = Problem {
            op: Op::Match(args.measure).canonical(),
            mode: Mode::Valid,
            boundary: args.extent.boundary().unwrap(),
            precision: None,
            accuracy: accuracy(&planning),
            roi: None,
        };
        let mut frames = Frames {
            wanted: None,
            args: &args,
            problem,
            session: &session,
            files: vec![image("t", [5, 6], 3)],
            templates: HashMap::new(),
            mask: None,
            known: None,
            streams: HashMap::new(),
            failed: false,
            fitted: false,
            at_once: 1,
            inputs: Inputs::new(),
            number: 0,
            notes: Notes::default(),
        };
        let broken = || Err(Error::Failed("it is broken".into()));
        let mut given: Vec<Frame> =
            [[40, 50], [40, 50], [30, 30], [0, 0], [30, 30], [30, 30], [4, 4], [4, 4], [40, 50], [40, 50], [40, 50]]
                .into_iter()
                .enumerate()
                .map(|(index, shape)| {
                    (json!(index), if shape == [0, 0] { broken() } else { Ok(image("f", shape, 100 * index)) })
                })
                .collect();
        let mut out = Vec::new();
        while !given.is_empty() {
            let rest = given.split_off(at_a_time.min(given.len()));
            frames.tell(std::mem::replace(&mut given, rest), &mut out).unwrap();
        }
        assert!(frames.failed && frames.streams.len() == 1);
        let lines = String::from_utf8(out).unwrap();
        let line = |line: &str| {
            let Ok(Value::Object(mut object)) = serde_json::from_str(line) else { panic!("no object: {line}") };
            assert_eq!(object.remove("ns").is_some_and(|ns| ns.as_u64() > Some(0)), !object.contains_key("error"));
            object
        };
        lines.lines().map(line).collect()
    }

    #[test]
    fn frames_taken_together_tell_what_each_alone_does() {
        let alone = lines(1);
        let names: Vec<u64> = alone.iter().map(|line| line["frame"].as_u64().unwrap()).collect();
        assert_eq!(names, (0..11).collect::<Vec<_>>());
        let failed: Vec<usize> = (0..11).filter(|&index| alone[index].contains_key("error")).collect();
        assert_eq!(failed, [3, 6, 7]);
        assert_eq!(alone[3]["error"], "it is broken");
        assert_eq!(alone[5]["peaks"].as_array().map(Vec::len), Some(3));
        for at_a_time in [2, 3, 11] {
            assert_eq!(lines(at_a_time), alone, "{at_a_time} at a time");
        }
    }

    #[test]
    fn what_is_held_is_bounded() {
        let spec: Spec = "zncc:u8:0@1000x1000*9x9:valid".parse().unwrap();
        assert_eq!(at_once(1, &spec, 1e12), 1);
        assert_eq!(at_once(64, &spec, 1e12), 64);
        // Two frames of a megabyte and a result of four take six.
        assert_eq!(at_once(1000, &spec, 1e12), 180);
        assert_eq!(at_once(1000, &spec, 60e6), 5);
        assert_eq!(at_once(1000, &spec, 0.0), 1);
    }
}
