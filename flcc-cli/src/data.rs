//! Images, templates and masks as commands use them: loaded, folded to grey if asked for, viewed with their shape.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use flcc_runtime::core::error::counted;
use flcc_runtime::{AnyView, Boundary, DType, Kind, Mode, Op, Pixels, Region, Shape, Spec, SpecError, mask_kind};

use crate::error::Error;
use crate::io::{self, Loaded};
use crate::reading::Reading;

/// An image or a template with its names for messages.
#[derive(Clone, Debug)]
pub struct Image {
    /// The argument that it came from, as it is spelt in a call: `IMAGE`, `--template-at`.
    pub argument: String,
    /// The file, or what stands for it.
    pub name: String,
    shape: Shape,
    channels: usize,
    pixels: Pixels,
    notes: Vec<String>,
}

/// Tells something about what an argument names on standard error.
pub fn tell(argument: &str, name: &str, note: &str) {
    // Nobody may be listening; then there is nobody to tell that.
    let _ = writeln!(std::io::stderr(), "note: {argument} {name:?}: {note}");
}

/// What is told of samples that are no numbers.
pub const HIDDEN: &str = "NaN or infinite samples: no peak where the template covers one";

/// What is to be told of samples among which peaks are looked for, where some are no numbers and hide peaks.
pub fn hidden_note(pixels: &Pixels) -> Option<&'static str> {
    fn any<T: Copy>(data: &[T], finite: impl Fn(T) -> bool) -> bool {
        data.chunks(4096).any(|part| part.iter().fold(false, |any, &sample| any | !finite(sample)))
    }
    let nonfinite = match pixels {
        Pixels::F32(data) => any(data, f32::is_finite),
        Pixels::F64(data) => any(data, f64::is_finite),
        Pixels::U8(_) | Pixels::U16(_) => false,
    };
    nonfinite.then_some(HIDDEN)
}

impl Image {
    /// Reads a file; what was left out of it is told on standard error.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn open(argument: &str, path: &Path, reading: &Reading) -> Result<Image, Error> {
        Image::read(argument, path, reading).inspect(Image::tell_notes)
    }

    /// Reads a file, with its notes, which are not told yet.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn read(argument: &str, path: &Path, reading: &Reading) -> Result<Image, Error> {
        let (loaded, _) = io::load_as(path, reading.raw()?).map_err(Error::io(argument))?;
        Image::new(argument, path.display().to_string(), loaded, reading.gray)
    }

    /// Takes over what was read, with its notes, which are not told yet.
    ///
    /// # Errors
    /// A shape that no computation takes.
    pub fn new(argument: &str, name: String, loaded: Loaded, gray: bool) -> Result<Image, Error> {
        let loaded = if gray { io::to_gray(loaded) } else { loaded };
        let shape = Shape::new(&loaded.shape).map_err(|error| SpecError { argument: argument.into(), ..error });
        let image = |shape| Image {
            argument: argument.into(),
            name,
            shape,
            channels: loaded.channels,
            pixels: loaded.pixels,
            notes: loaded.notes,
        };
        shape.map(image).map_err(Error::from)
    }

    /// The same image; where peaks are looked for in it, its notes say whether samples that are no numbers hide some.
    pub fn searched(mut self) -> Image {
        self.notes.extend(hidden_note(&self.pixels).map(String::from));
        self
    }

    /// What was left out or changed when it was read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether all of its samples are zero.
    pub fn is_zero(&self) -> bool {
        match &self.pixels {
            Pixels::U8(data) => data.iter().all(|&sample| sample == 0),
            Pixels::U16(data) => data.iter().all(|&sample| sample == 0),
            Pixels::F32(data) => data.iter().all(|&sample| sample == 0.0),
            Pixels::F64(data) => data.iter().all(|&sample| sample == 0.0),
        }
    }

    /// Tells its notes on standard error.
    pub fn tell_notes(&self) {
        self.notes.iter().for_each(|note| self.tell(note));
    }

    /// Tells on standard error what was made of it.
    pub fn tell(&self, note: &str) {
        tell(&self.argument, &self.name, note);
    }

    /// Bytes of its samples.
    pub fn bytes(&self) -> f64 {
        self.shape.len() as f64 * self.channels as f64 * self.dtype().row().size as f64
    }

    /// A part of it as an image of its own. `argument` is what a message calls the part.
    ///
    /// # Errors
    /// A part that does not lie inside.
    pub fn part(&self, argument: &str, part: Region) -> Result<Image, Error> {
        let wrong = || SpecError::new(argument, format!("a part of the image, {}", self.shape), part);
        part.shape.nonempty(argument)?;
        let view = self.view()?.part(part.origin, part.shape).map_err(|_| wrong())?;
        let bytes = part.shape.len() as f64 * self.channels as f64 * self.dtype().row().size as f64;
        crate::memory::check(argument, bytes)?;
        let pixels = flcc_runtime::core::each_type!(AnyView, &view, view => flcc_runtime::Pixel::pixels(view.to_vec()));
        Ok(Image {
            argument: argument.into(),
            name: part.to_string(),
            shape: part.shape,
            channels: self.channels,
            pixels,
            notes: Vec::new(),
        })
    }

    /// The images that are stacked along its slowest axis, `file[0]` and on.
    ///
    /// # Errors
    /// A stack of none.
    pub fn planes(&self) -> Result<Vec<Image>, SpecError> {
        fn part<T: Copy>(data: &[T], size: usize, number: usize) -> Vec<T> {
            data[number * size..(number + 1) * size].to_vec()
        }
        let (count, lengths) = (self.shape.lengths()[0], &self.shape.lengths()[1..]);
        if count == 0 {
            let got = format!("none in {:?}, {}", self.name, self.shape);
            return Err(SpecError::of(Kind::EmptyInput, &self.argument, "a stack of at least one template", got));
        }
        let shape = Shape::new(lengths).map_err(|error| SpecError { argument: self.argument.clone(), ..error })?;
        let size = shape.len() * self.channels;
        let plane = |number: usize| Image {
            argument: self.argument.clone(),
            name: format!("{}[{number}]", self.name),
            shape,
            channels: self.channels,
            pixels: match &self.pixels {
                Pixels::U8(data) => Pixels::U8(part(data, size, number)),
                Pixels::U16(data) => Pixels::U16(part(data, size, number)),
                Pixels::F32(data) => Pixels::F32(part(data, size, number)),
                Pixels::F64(data) => Pixels::F64(part(data, size, number)),
            },
            notes: Vec::new(),
        };
        Ok((0..count).map(plane).collect())
    }

    /// The samples with their shape.
    ///
    /// # Errors
    /// None of what was loaded.
    pub fn view(&self) -> Result<AnyView<'_>, SpecError> {
        AnyView::dense(&self.pixels, self.shape, self.channels)
    }

    /// The lengths of the axes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Samples of one pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        self.pixels.dtype()
    }

    /// The samples, channels fastest.
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }
}

/// The images of a folder that `argument` names, in the order of their names, and streams of YUV4MPEG2 if `frames`
/// are taken. Where `reading` says what files without a header are, those too: what has the size of one of its formats,
/// and what is named alike, with the same extension, so that a frame that was cut short is told and not left out. What
/// is hidden, with a name that begins with a dot, is left out.
///
/// # Errors
/// A folder that is not read, or in which there is none.
pub fn images_in(argument: &str, folder: &Path, frames: bool, reading: &Reading) -> Result<Vec<PathBuf>, Error> {
    let wrong = |words: String| Error::Failed(format!("{argument} {folder:?}: expected {words}"));
    let failed = |error: std::io::Error| wrong(format!("a readable folder, got: {error}"));
    let formats = reading.raw()?;
    let (mut inside, mut headless) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        // A link to nothing is told when it is read.
        let file = path.is_file() || !path.exists() || io::names_array(&path) && io::is_array(&path);
        match (io::names_format(&path), io::names_frames(&path)) {
            _ if hidden || !file => {}
            _ if path.is_dir() => inside.push(path),
            (false, false) => headless.push(path),
            (image, stream) if image || stream && frames => inside.push(path),
            _ => {}
        }
    }
    let fits = |size: u64| formats.iter().any(|format| format.frame_bytes() as u64 == size);
    let sized = headless.iter().filter(|path| std::fs::metadata(path).is_ok_and(|meta| fits(meta.len())));
    let names: BTreeSet<_> = sized.map(|path| path.extension().map(OsString::from)).collect();
    inside.extend(headless.into_iter().filter(|path| names.contains(&path.extension().map(OsString::from))));
    if inside.is_empty() {
        let raw = formats.iter().map(|format| format!(", or files of {} bytes ({format})", format.frame_bytes()));
        let raw: String = raw.collect();
        return Err(wrong(format!("a folder of images (.png, .jpg, .tif, .pgm, .ppm, .npy){raw}, got none")));
    }
    inside.sort();
    Ok(inside)
}

/// Reads a mask that an argument names. Of an image of 8 or 16 bits that holds only 0 and the largest value, that
/// counts as 1, and what other weights it has is noted; grey that is stored as colour is grey. An array (`.npy`,
/// zarr) is taken literally.
///
/// # Errors
/// A file that is not read.
pub fn open_mask(argument: &str, path: &Path, reading: &Reading) -> Result<Image, Error> {
    let (loaded, array) = io::load_as(path, reading.raw()?).map_err(Error::io(argument))?;
    let grey = !array && loaded.channels == 3 && io::is_grey(&loaded.pixels);
    let mut mask = Image::new(argument, path.display().to_string(), loaded, reading.gray || grey)?;
    let noted = match &mut mask.pixels {
        Pixels::U8(weights) if !array => scaled(weights, u8::MAX),
        Pixels::U16(weights) if !array => scaled(weights, u16::MAX),
        _ => None,
    };
    mask.notes.extend(noted);
    mask.tell_notes();
    Ok(mask)
}

/// Makes 1 of the largest value of a type where there is only 0 besides; what is noted of other weights.
fn scaled<T: Copy + Ord + From<u8> + Display>(weights: &mut [T], full: T) -> Option<String> {
    let [none, one] = [0, 1].map(T::from);
    if weights.iter().all(|&weight| weight == none || weight == full) {
        weights.iter_mut().filter(|weight| **weight == full).for_each(|weight| *weight = one);
    }
    let most = weights.iter().max().filter(|most| **most > one)?;
    Some(format!("weights up to {most} taken as they are: of 0 and {full} alone {full} would count as 1"))
}

/// What is computed, apart from the arrays.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The operation.
    pub op: Op,
    /// The extent.
    pub mode: Mode,
    /// What lies outside.
    pub boundary: Boundary,
    /// The type of the results, if not the one that follows from the arrays.
    pub precision: Option<DType>,
    /// What is promised.
    pub accuracy: flcc_runtime::Accuracy,
    /// The part that is wanted, in coordinates of the full result.
    pub roi: Option<Region>,
}

impl Problem {
    /// The spec of this problem for an image, so many templates of one shape and type, and a mask.
    ///
    /// # Errors
    /// Arrays that do not go together, naming the one that does not.
    pub fn spec(
        &self,
        image: &AnyView<'_>,
        template: &AnyView<'_>,
        templates: usize,
        mask: Option<&AnyView<'_>>,
    ) -> Result<Spec, SpecError> {
        self.spec_of((image.dtype(), image.shape(), image.channels()), template, templates, mask)
    }

    /// As [`Problem::spec`], for images of a type, a shape and a number of channels.
    ///
    /// # Errors
    /// As [`Problem::spec`].
    pub fn spec_of(
        &self,
        (dtype, shape, channels): (DType, Shape, usize),
        template: &AnyView<'_>,
        templates: usize,
        mask: Option<&AnyView<'_>>,
    ) -> Result<Spec, SpecError> {
        let spec = Spec::new(self.op, dtype, shape, template.dtype(), template.shape(), self.mode)?;
        if channels != template.channels() {
            let expected = format!("{}, as the image (--gray folds both to 1)", counted(channels, "channel"));
            return Err(SpecError::of(Kind::DimsMismatch, "template", expected, template.channels()));
        }
        let mut spec = spec
            .with_channels(channels)?
            .with_templates(templates)?
            .with_mask(mask_kind(mask.map(|mask| mask as _)))?
            .with_boundary(self.boundary)?;
        if let Some(precision) = self.precision {
            spec = spec.with_out_type(precision)?;
        }
        spec.with_accuracy(self.accuracy)?.with_roi(self.roi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;

    #[test]
    fn places_are_those_of_the_first_sample() {
        let region = |places: &str, mode| {
            let [image, template] = ["20x30", "4x5"].map(|shape| shape.parse().unwrap());
            let places: Places = places.parse().unwrap();
            places.region(mode, image, template).map(|region| region.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(region("0,0:17x26", Mode::Valid), Ok("3,4:17x26".into()));
        assert_eq!(region("16,7:1x2", Mode::Valid), Ok("19,11:1x2".into()));
        assert_eq!(region("-3,-4:23x34", Mode::Full), Ok("0,0:23x34".into()));
        assert_eq!(region("-2,-2:20x30", Mode::Same), Ok("1,2:20x30".into()));
        let wrong = |places: &str, mode, whole: &str| {
            let line = region(places, mode).unwrap_err();
            let due = format!(
                "roi: expected a part of {whole}, where the template's first sample may lie in mode {mode}, \
                 got {places}"
            );
            assert_eq!(line, due);
        };
        wrong("-1,0:1x1", Mode::Valid, "0,0:17x26");
        wrong("16,0:2x1", Mode::Valid, "0,0:17x26");
        wrong("-4,0:1x1", Mode::Full, "-3,-4:23x34");
        wrong("9223372036854775807,0:1x1", Mode::Full, "-3,-4:23x34");
        assert_eq!(region("3:4", Mode::Full).unwrap_err(), "roi: expected 2 axes, as the image, got 3:4");
        for text in ["", "3", "3:", ":3", "3,4:5", "--3:4", "+3:4", "-:4", "9223372036854775808:1", "1.5:3"] {
            assert!(text.parse::<Places>().is_err(), "{text}");
        }
    }
}
