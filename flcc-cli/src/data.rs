//! Images, templates and masks as commands use them: loaded, folded to grey if asked for, viewed with their shape.

use std::io::Write;
use std::path::{Path, PathBuf};

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
}

/// Tells something about what an argument names on standard error.
pub fn tell(argument: &str, name: &str, note: &str) {
    // Nobody may be listening; then there is nobody to tell that.
    let _ = writeln!(std::io::stderr(), "note: {argument} {name:?}: {note}");
}

impl Image {
    /// Reads a file; what was left out of it is told on standard error.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn open(argument: &str, path: &Path, reading: &Reading) -> Result<Image, Error> {
        let (loaded, _) = io::load_as(path, reading.raw()?).map_err(Error::io(argument))?;
        Image::new(argument, path.display().to_string(), loaded, reading.gray)
    }

    /// Takes over what was read, and tells its notes.
    ///
    /// # Errors
    /// A shape that no computation takes.
    pub fn new(argument: &str, name: String, loaded: Loaded, gray: bool) -> Result<Image, Error> {
        let loaded = if gray { io::to_gray(loaded) } else { loaded };
        let shape = Shape::new(&loaded.shape).map_err(|error| SpecError { argument: argument.into(), ..error });
        let notes = loaded.notes;
        let image = |shape| Image {
            argument: argument.into(),
            name: name.clone(),
            shape,
            channels: loaded.channels,
            pixels: loaded.pixels,
        };
        for note in &notes {
            tell(argument, &name, note);
        }
        shape.map(image).map_err(Error::from)
    }

    /// Tells on standard error what was made of it.
    pub fn tell(&self, note: &str) {
        tell(&self.argument, &self.name, note);
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

/// Whether a name ends in one of these extensions, in letters of either case.
pub fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase();
    extensions.contains(&extension.as_str())
}

/// The images of a folder in the order of their names, and what has one of these extensions besides.
///
/// # Errors
/// A folder that is not read, or in which there is none.
pub fn images_in(folder: &Path, besides: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let failed =
        |error: std::io::Error| Error::Failed(format!("folder {folder:?}: expected a readable folder, got: {error}"));
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if (io::extensions().any(|one| has_extension(&path, &[one])) || has_extension(&path, besides)) && path.is_file()
        {
            inside.push(path);
        }
    }
    if inside.is_empty() {
        return Err(Error::Failed(format!(
            "folder {folder:?}: expected images (.png, .jpg, .tif, .pgm, .ppm, .npy), got none"
        )));
    }
    inside.sort();
    Ok(inside)
}

/// Reads a mask. Of an image of 8 bits that holds only 0 and 255, 255 counts as 1; an array (`.npy`) is taken
/// literally.
///
/// # Errors
/// A file that is not read.
pub fn open_mask(path: &Path, reading: &Reading) -> Result<Image, Error> {
    let (loaded, array) = io::load_as(path, reading.raw()?).map_err(Error::io("--mask"))?;
    let mut mask = Image::new("--mask", path.display().to_string(), loaded, reading.gray)?;
    if !array
        && let Pixels::U8(weights) = &mut mask.pixels
        && weights.iter().all(|&weight| weight == 0 || weight == 255)
    {
        weights.iter_mut().for_each(|weight| *weight /= 255);
    }
    Ok(mask)
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
            let expected = format!("{channels} channels, as the image (--gray folds both to 1)");
            return Err(SpecError::of(Kind::DimsMismatch, "template", expected, template.channels()));
        }
        let mut spec = spec
            .with_channels(channels)?
            .with_templates(templates)?
            .with_mask(mask_kind(mask))?
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
