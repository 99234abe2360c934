//! stream: frames as they come, one JSON line each, in their order.
//!
//! One frame is held at a time. A frame that fails gives a line with `error`, and the stream goes on.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flcc_runtime::{DType, Effort, ExecError, Kind, Mode, Op, Shape, Spec, SpecError, Stream};
use serde_json::{Map, Value, json};

use super::correlate::{count, count_json, peak_json, search};
use crate::args::{self, Planning};
use crate::data::{Image, Problem, open_mask};
use crate::error::Error;
use crate::io::{RawFormat, RawReader};
use crate::memory::{check_data, check_plan};
use crate::session::{Session, accuracy};

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
        (None, true) => return Err(SpecError::new("--frame", "TYPE:SHAPE of the frames on standard input", "nothing").into()),
        (Some(_), false) => {
            return Err(
                SpecError::new("FRAMES", "- or nothing with --frame: raw frames come on standard input", args.frames[0].display()).into()
            );
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
    let session = Session::new(planning, Effort::Estimate)?;
    let gray = args.extent.gray;
    let template = Image::open("TEMPLATE", &args.template, gray)?;
    let mask = args.mask.as_deref().map(|path| open_mask(path, gray)).transpose()?;
    let mut frames = Frames { args, problem, session: &session, template, mask, streams: HashMap::new(), failed: false, fitted: false };
    match raw {
        Some(format) => {
            // All frames are alike: what does not fit the first never will, and need not be waited for.
            frames.spec(format.dtype(), Shape::new(format.shape())?, 1)?;
            for (frame, index) in RawReader::new("standard input", format, std::io::stdin().lock()).zip(0u64..) {
                let frame = frame.map_err(Error::io("FRAMES")).and_then(|loaded| Image::new("FRAMES", index.to_string(), loaded, gray));
                frames.tell(json!(index), frame, out)?;
            }
        }
        None => {
            for path in files {
                frames.tell(json!(path.display().to_string()), Image::open("FRAMES", &path, gray), out)?;
            }
        }
    }
    let failed = frames.failed;
    session.keep_wisdom()?;
    Ok(u8::from(failed))
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
        let failed = |error: std::io::Error| Error::Failed(format!("folder {argument:?}: expected a readable folder, got: {error}"));
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(argument).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let extension = path.extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase();
            if FRAMES.contains(&extension.as_str()) && path.is_file() {
                inside.push(path);
            }
        }
        if inside.is_empty() {
            return Err(Error::Failed(format!("folder {argument:?}: expected images (.png, .jpg, .tif, .pgm, .ppm, .npy), got none")));
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
}

impl Frames<'_> {
    /// Computes a frame and prints its line at once.
    fn tell(&mut self, name: Value, frame: Result<Image, Error>, out: &mut dyn Write) -> Result<(), Error> {
        let mut object = Map::new();
        object.insert("frame".into(), name);
        match frame.and_then(|image| self.compute(&image, &mut object)) {
            Ok(()) => {}
            // No frame would fare better.
            Err(error) if error.is_refusal() || is_about_the_template(&error) => return Err(error),
            // A template of other axes or channels than the first frame: a wrong call, told once.
            Err(error) if !self.fitted && error.spec().is_some_and(|error| error.kind == Kind::DimsMismatch) => return Err(error),
            Err(error) => {
                self.failed = true;
                object.insert("error".into(), json!(error.to_string()));
            }
        }
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

    fn compute(&mut self, image: &Image, object: &mut Map<String, Value>) -> Result<(), Error> {
        let began = Instant::now();
        let view = image.view()?;
        let key = (view.dtype(), view.channels(), view.shape().axes());
        if !self.streams.contains_key(&key) {
            let template = self.template.view()?;
            let mask = self.mask.as_ref().map(Image::view).transpose()?;
            let spec = self.spec(view.dtype(), view.shape(), view.channels())?;
            if self.session.measures() {
                check_data(&spec)?;
            }
            let plan = self.session.planner.plan(&spec)?;
            check_plan(&plan, 0.0)?;
            let named = |error: ExecError| Error::from(error).named("FRAMES", "TEMPLATE");
            let stream = plan.bind(&[template], mask.as_ref()).map_err(named)?.stream();
            self.streams.insert(key, stream);
        }
        let Some(stream) = self.streams.get_mut(&key) else {
            return Err(Error::Failed("stream: expected a plan for the frame, got none".into()));
        };
        let named = |error: ExecError| Error::from(error).named("FRAMES", "TEMPLATE");
        check_plan(stream.matcher(view.shape()).map_err(named)?.plan(), 0.0)?;
        self.fitted = true;
        let maps = stream.push(&view).map_err(named)?;
        let Some(map) = maps.first() else {
            return Err(Error::Failed("stream: expected one result for the frame, got none".into()));
        };
        let spec = stream.matcher(view.shape())?.plan().spec().clone();
        let dtype = map.data().dtype();
        let peaks = search(&self.args.peaks, map, self.problem.op, spec.template());
        object.insert("peaks".into(), Value::Array(peaks.iter().map(|peak| peak_json(&spec, peak, dtype)).collect()));
        if self.args.peaks.count {
            object.insert("optimum".into(), count_json(count(&self.args.peaks, map, self.problem.op), dtype));
        }
        object.insert("shape".into(), json!(view.shape().lengths()));
        object.insert("ns".into(), json!(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)));
        Ok(())
    }
}

/// Whether the template or the mask is wrong, whatever the frame.
fn is_about_the_template(error: &Error) -> bool {
    error.spec().is_some_and(|error| {
        matches!(
            error.kind,
            Kind::ConstantTemplate | Kind::ZeroTemplate | Kind::NonfiniteTemplate | Kind::MaskShape | Kind::MaskInvalid | Kind::NotExact
        )
    })
}
