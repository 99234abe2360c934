//! Where frames come from: files and folders, raw samples or YUV4MPEG2 on standard input.

use std::io::IsTerminal;
use std::iter;
use std::path::{Path, PathBuf};

use flcc_runtime::SpecError;
use serde_json::json;

use super::ahead::Frame;
use crate::args;
use crate::data::{Image, images_in};
use crate::error::Error;
use crate::io::{self, Content, IoError, Loaded, RawFormat, Y4mFormat, Y4mReader};
use crate::reading::Reading;

/// What a message calls standard input.
const STANDARD_INPUT: &str = "standard input";

/// Where frames come from.
pub enum Source {
    /// Raw frames on standard input.
    Raw(RawFormat),
    /// The frames of a YUV4MPEG2 stream on standard input, whose first line was read.
    Y4m(Y4mFormat),
    /// Files, in this order.
    Files(Vec<PathBuf>),
}

impl Source {
    /// What the arguments name; of standard input without --frame the first line is read.
    ///
    /// # Errors
    /// Arguments that contradict each other; a folder without images; standard input that tells no sizes.
    pub fn of(args: &args::Stream) -> Result<Source, Error> {
        let standard_input = args.frames.is_empty() || args.frames == [PathBuf::from("-")];
        let raw: Option<RawFormat> = args.frame.as_deref().map(str::parse).transpose().map_err(Error::io("--frame"))?;
        match (raw, standard_input) {
            (Some(format), true) => Ok(Source::Raw(format)),
            (None, false) => files(&args.frames, &args.extent.reading).map(Source::Files),
            (None, true) => {
                let mut input = std::io::stdin().lock();
                // Nobody types a stream.
                let format = if input.is_terminal() { Ok(None) } else { Y4mFormat::read(STANDARD_INPUT, &mut input) };
                format.map_err(Error::io("FRAMES"))?.map(Source::Y4m).ok_or_else(|| {
                    let expected = "TYPE:SHAPE of the frames on standard input (YUV4MPEG2 tells it itself)";
                    SpecError::new("--frame", expected, "nothing").into()
                })
            }
            (Some(_), false) => Err(SpecError::new(
                "FRAMES",
                "- or nothing with --frame: raw frames come on standard input",
                args.frames[0].display(),
            )
            .into()),
        }
    }

    /// The argument that tells the layout of the frames.
    pub fn argument(&self) -> &'static str {
        if matches!(self, Source::Raw(_)) { "--frame" } else { "FRAMES" }
    }

    /// The layout of all frames, where they are alike.
    pub fn format(&self) -> Option<&RawFormat> {
        match self {
            Source::Raw(format) => Some(format),
            Source::Y4m(format) => Some(format.luma()),
            Source::Files(_) => None,
        }
    }

    /// Whether frames come from standard input.
    pub fn is_standard_input(&self) -> bool {
        !matches!(self, Source::Files(_))
    }

    /// The files that are read.
    pub fn files(&self) -> &[PathBuf] {
        if let Source::Files(files) = self { files } else { &[] }
    }

    /// The frames, in the thread that reads them.
    pub fn frames(self, reading: Reading, known: bool) -> Box<dyn Iterator<Item = Frame>> {
        let (input, read) = (|| std::io::stdin().lock(), Read { gray: reading.gray, known });
        match self {
            Source::Raw(format) => numbered(None, io::raw_frames(STANDARD_INPUT, format, input()), read),
            Source::Y4m(format) => numbered(None, Y4mReader::new(STANDARD_INPUT, format, input()), read),
            Source::Files(files) => Box::new(files.into_iter().flat_map(move |path| {
                let name = path.display().to_string();
                let load = |raw| io::load_frames(&path, raw).map_err(Error::io("FRAMES"));
                let one = match reading.raw().map_err(Error::from).and_then(load) {
                    Ok(Content::Frames(frames)) => return numbered(Some(name), frames, read),
                    Ok(Content::Image(loaded)) => of_frame(name.clone(), loaded, read),
                    Err(error) => Err(error),
                };
                Box::new(iter::once((json!(name), one))) as Box<_>
            })),
        }
    }
}

/// How frames are read.
#[derive(Clone, Copy)]
struct Read {
    /// Colour folded to grey.
    gray: bool,
    /// All of them is known, so samples that are no numbers hide peaks.
    known: bool,
}

/// Frames that are known by their numbers, and in a file by its name too. Where there is none, that is an error: what
/// should have written them may have failed.
fn numbered(
    file: Option<String>,
    mut frames: impl Iterator<Item = Result<Loaded, IoError>> + 'static,
    read: Read,
) -> Box<dyn Iterator<Item = Frame>> {
    let source = file.clone().unwrap_or(STANDARD_INPUT.into());
    let mut none = Some(IoError::Damaged { name: source, expected: "at least one frame".into(), got: "none".into() });
    let frames = iter::from_fn(move || {
        let (frame, none) = (frames.next(), none.take());
        frame.or(none.map(Err))
    });
    Box::new(frames.zip(0u64..).map(move |(frame, index)| {
        let name = file.as_ref().map_or(json!(index), |file| json!(format!("{file}[{index}]")));
        let text = name.as_str().map_or(index.to_string(), str::to_string);
        let frame = frame.map_err(Error::io("FRAMES"));
        (name, frame.and_then(|loaded| of_frame(text, loaded, read)))
    }))
}

/// A frame that was read.
fn of_frame(name: String, loaded: Loaded, read: Read) -> Result<Image, Error> {
    let image = Image::new("FRAMES", name, loaded, read.gray)?;
    Ok(if read.known { image.searched() } else { image })
}

/// The files that the arguments name; of a folder the images and streams in it, by name.
fn files(arguments: &[PathBuf], reading: &Reading) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument == Path::new("-") {
            return Err(SpecError::new("FRAMES", "- alone", "- among files").into());
        }
        match argument.is_dir() && io::zarr_kind(argument).is_none() {
            true => files.extend(images_in("FRAMES", argument, true, reading)?),
            false => files.push(argument.clone()),
        }
    }
    Ok(files)
}
