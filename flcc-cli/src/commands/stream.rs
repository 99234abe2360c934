//! stream: frames as they come, one JSON line each, in their order.
//!
//! Where one frame at a time keeps everything busy, on a CPU, one is computed while the next is read. Where several do,
//! on GPUs, those that have come are computed together, and as many more are read meanwhile. A frame that fails gives a
//! line with `error`, and the stream goes on.

mod ahead;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flcc_runtime::{Control, DType, Effort, ExecError, Found, Kind, Mode, Op, Shape, Spec, SpecError, Stream};
use serde_json::{Map, Value, json};

use ahead::{Ahead, Frame};

use super::correlate::{count_json, describe, peak_json, wanted};
use crate::args::{self, Planning};
use crate::data::{Image, Problem, open_mask};
use crate::error::Error;
use crate::free::available;
use crate::io::{RawFormat, RawReader};
use crate::memory::{check_data, check_peaks, check_plan, results};
use crate::session::{Session, accuracy};

/// Bytes that frames and results may take where several are held at a time: 1 GiB.
const MOST_BYTES: f64 = (1u64 << 30) as f64;

/// The extensions of the files of a folder that are frames.
const FRAMES: [&str; 10] = ["png", "jpg", "jpeg", "tif", "tiff", "pgm", "ppm", "pnm", "pbm", "npy"];

/// Runs the stream; status 1 if a frame failed.
///
/// # Errors
/// A wrong call, a template that is not read; standard output that takes no more.
pub fn run(args: &args::Stream, planning: &Planning, out: &mut dyn Write) -> Result<u8, Error> {
    let standard_input = args.frames.is_empty() || args.frames == [PathBuf::from("-")];
    let raw: Option<RawFormat> = args.frame.as_deref().map(str::parse).transpose().map_err(Error::io("--frame"))?;
    let files = match (&raw, standard_input) {
        (Some(_), true) => Vec::new(),
        (None, false) => files(&args.frames)?,
        (None, true) => {
            return Err(SpecError::new("--frame", "TYPE:SHAPE of the frames on standard input", "nothing").into());
        }
        (Some(_), false) => {
            return Err(SpecError::new(
                "FRAMES",
                "- or nothing with --frame: raw frames come on standard input",
                args.frames[0].display(),
            )
            .into());
        }
    };
    let problem = Problem {
        op: Op::Match(args.measure).canonical(),
        mode: args.extent.mode.unwrap_or(Mode::Valid),
        boundary: args.extent.boundary().map_err(|error| Error::from(error).named("FRAMES", "TEMPLATE"))?,
        precision: planning.precision.map(|precision| precision.0),
        accuracy: accuracy(planning),
        roi: None,
    };
    let session = Session::new(planning, Effort::Estimate, args.fall_back)?;
    let gray = args.extent.gray;
    let template = Image::open("TEMPLATE", &args.template, gray)?;
    let mask = args.mask.as_deref().map(|path| open_mask(path, gray)).transpose()?;
    let mut frames = Frames {
        args,
        problem,
        session: &session,
        template,
        mask,
        streams: HashMap::new(),
        failed: false,
        fitted: false,
        at_once: 1,
    };
    let ahead = match raw {
        Some(format) => {
            // All frames are alike: what does not fit the first never will, and need not be waited for.
            frames.spec(format.dtype(), Shape::new(format.shape())?, 1)?;
            Ahead::new(move || {
                let raw = RawReader::new("standard input", format, std::io::stdin().lock());
                raw.zip(0u64..).map(move |(frame, index)| {
                    let frame = frame.map_err(Error::io("FRAMES"));
                    (json!(index), frame.and_then(|loaded| Image::new("FRAMES", index.to_string(), loaded, gray)))
                })
            })
        }
        None => Ahead::new(move || {
            files.into_iter().map(move |path| (json!(path.display().to_string()), Image::open("FRAMES", &path, gray)))
        }),
    };
    frames.follow(ahead?, out)?;
    session.keep_wisdom()?;
    Ok(u8::from(frames.failed))
}

/// The files that the arguments name; of a folder the images in it, by name.
fn files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument == Path::new("-") {
            return Err(SpecError::new("FRAMES", "- alone", "- among files").into());
        }
        if !argument.is_dir() {
            files.push(argument.clone());
            continue;
        }
        let failed = |error: std::io::Error| {
            Error::Failed(format!("folder {argument:?}: expected a readable folder, got: {error}"))
        };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(argument).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let extension = path.extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase();
            if FRAMES.contains(&extension.as_str()) && path.is_file() {
                inside.push(path);
            }
        }
        if inside.is_empty() {
            return Err(Error::Failed(format!(
                "folder {argument:?}: expected images (.png, .jpg, .tif, .pgm, .ppm, .npy), got none"
            )));
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// What frames are computed with: a stream for each type and number of channels; each keeps a few sizes planned.
struct Frames<'a> {
    args: &'a args::Stream,
    problem: Problem,
    session: &'a Session,
    template: Image,
    mask: Option<Image>,
    streams: HashMap<(DType, usize, usize), Stream>,
    failed: bool,
    /// Whether the template went with any frame so far.
    fitted: bool,
    /// How many frames to take at a time.
    at_once: usize,
}

impl Frames<'_> {
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
                    self.line(name, Err(error), out)?;
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
            for (name, object) in names.into_iter().zip(self.compute(&images)) {
                self.line(name, object, out)?;
            }
        }
        Ok(())
    }

    /// Prints a frame's line at once.
    fn line(
        &mut self,
        name: Value,
        object: Result<Map<String, Value>, Error>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut object = match object {
            Ok(object) => object,
            // No frame would fare better.
            Err(error) if error.is_refusal() || is_about_the_template(&error) => return Err(error),
            // A template of other axes or channels than the first frame: a wrong call, told once.
            Err(error) if !self.fitted && error.spec().is_some_and(|error| error.kind == Kind::DimsMismatch) => {
                return Err(error);
            }
            Err(error) => {
                self.failed = true;
                Map::from_iter([("error".to_string(), json!(error.to_string()))])
            }
        };
        object.insert("frame".into(), name);
        writeln!(out, "{}", Value::Object(object))?;
        out.flush()?;
        Ok(())
    }

    /// The spec for frames of a type and shape.
    fn spec(&self, dtype: DType, shape: Shape, channels: usize) -> Result<Spec, Error> {
        let template = self.template.view()?;
        let mask = self.mask.as_ref().map(Image::view).transpose()?;
        let spec = self.problem.spec_of((dtype, shape, channels), &template, 1, mask.as_ref());
        spec.and_then(|spec| spec.with_images(0)).map_err(|error| Error::from(error).named("FRAMES", "TEMPLATE"))
    }

    /// What there is to tell of frames of one kind.
    fn compute(&mut self, images: &[Image]) -> Vec<Result<Map<String, Value>, Error>> {
        let began = Instant::now();
        let Some((first, others)) = images.split_first() else {
            return Vec::new();
        };
        let results = match self.results(images) {
            Ok(results) => results,
            // What is wrong with one of them is told of each.
            Err(error) => return std::iter::once(Err(error)).chain(self.compute(others)).collect(),
        };
        let share = began.elapsed() / u32::try_from(images.len()).unwrap_or(u32::MAX);
        let object = |found: Result<Vec<Found>, ExecError>| {
            let found = found.map_err(|error| Error::from(error).named("FRAMES", "TEMPLATE"))?;
            let found = found
                .first()
                .ok_or_else(|| Error::Failed("stream: expected one result for the frame, got none".into()))?;
            let mut object = self.peaks(first, found)?;
            object.insert("ns".into(), json!(u64::try_from(share.as_nanos()).unwrap_or(u64::MAX)));
            Ok(object)
        };
        results.into_iter().map(object).collect()
    }

    /// The results of frames of one kind, planned now if the kind is new.
    fn results(&mut self, images: &[Image]) -> Result<Vec<Result<Vec<Found>, ExecError>>, Error> {
        let views = images.iter().map(Image::view).collect::<Result<Vec<_>, _>>()?;
        let view = &views[0];
        let key = (view.dtype(), view.channels(), view.shape().axes());
        let named = |error: ExecError| Error::from(error).named("FRAMES", "TEMPLATE");
        let wanted = wanted(&self.args.peaks, self.template.view()?.shape());
        if !self.streams.contains_key(&key) {
            let template = self.template.view()?;
            let mask = self.mask.as_ref().map(Image::view).transpose()?;
            let spec = self.spec(view.dtype(), view.shape(), view.channels())?;
            if self.session.measures() {
                check_data(&spec, spec.templates())?;
            }
            let plan = self.session.plan(&spec)?;
            check_plan(&plan, plan.peaks_bytes(&wanted) as f64)?;
            let stream = plan.bind(&[template], mask.as_ref()).map_err(named)?.stream();
            self.streams.insert(key, stream);
        }
        let Some(stream) = self.streams.get_mut(&key) else {
            return Err(Error::Failed("stream: expected a plan for the frame, got none".into()));
        };
        let plan = stream.matcher(view.shape()).map_err(named)?.plan().clone();
        let held = if stream.appetite() > 1 { images.len() as f64 * results(plan.spec()) } else { 0.0 };
        let held = held.max(plan.peaks_bytes(&wanted) as f64);
        check_plan(&plan, held)?;
        check_peaks(&plan, held, &wanted)?;
        self.fitted = true;
        self.at_once = at_once(stream.appetite(), plan.spec(), available());
        let failed = |words: &str| self.session.note(words);
        let control = Control { failed: Some(&failed), ..Control::default() };
        Ok(stream.search_all(&views, &wanted, self.args.peaks.count, &control))
    }

    /// The line of a frame with this result, but for its time and name.
    fn peaks(&self, image: &Image, found: &Found) -> Result<Map<String, Value>, Error> {
        let spec = self.spec(image.dtype(), image.shape(), image.channels())?;
        let dtype = spec.out_type();
        let mut object = Map::new();
        object.insert(
            "peaks".into(),
            Value::Array(found.peaks.iter().map(|peak| peak_json(&spec, peak, dtype)).collect()),
        );
        if self.args.peaks.count {
            object.insert("optimum".into(), count_json(found.optimum, dtype));
        }
        object.insert("shape".into(), json!(image.shape().lengths()));
        describe(&mut object, &spec);
        Ok(object)
    }
}

/// What frames that are computed together have in common.
fn kind(image: &Image) -> (DType, usize, Shape) {
    (image.dtype(), image.channels(), image.shape())
}

/// How many frames of a spec to take at a time: as many as keep the devices busy, where those that are computed, those
/// that are read meanwhile and the results stay within [`MOST_BYTES`] and half of what is free.
fn at_once(appetite: usize, spec: &Spec, free: f64) -> usize {
    let frame = spec.image().len() as f64 * spec.channels() as f64 * spec.image_type().row().size as f64;
    let most = MOST_BYTES.min(free / 2.0) / (2.0 * frame + results(spec));
    (most as usize).clamp(1, appetite.max(1))
}

/// Whether the template or the mask is wrong, whatever the frame.
fn is_about_the_template(error: &Error) -> bool {
    error.spec().is_some_and(|error| {
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
            args: &args,
            problem,
            session: &session,
            template: image("t", [5, 6], 3),
            mask: None,
            streams: HashMap::new(),
            failed: false,
            fitted: false,
            at_once: 1,
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
