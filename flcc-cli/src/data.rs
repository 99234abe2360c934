//! Images, templates and masks as commands use them: loaded, folded to grey if asked for, viewed with their shape.

use std::io::Write;
use std::path::Path;

use flcc_runtime::{AnyView, Boundary, DType, Mode, Op, Pixels, Region, Shape, Spec, SpecError, mask_kind};

use crate::error::Error;
use crate::io::{self, Loaded};

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

impl Image {
    /// Reads a file; what was left out of it is told on standard error.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn open(argument: &str, path: &Path, gray: bool) -> Result<Image, Error> {
        Image::new(argument, path.display().to_string(), io::load(path).map_err(Error::io(argument))?, gray)
    }

    /// Takes over what was read, and tells its notes.
    ///
    /// # Errors
    /// A shape that no computation takes.
    pub fn new(argument: &str, name: String, loaded: Loaded, gray: bool) -> Result<Image, Error> {
        let loaded = if gray { io::to_gray(loaded) } else { loaded };
        for note in &loaded.notes {
            // Nobody may be listening; then there is nobody to tell that.
            let _ = writeln!(std::io::stderr(), "note: {argument} {name:?}: {note}");
        }
        let shape = Shape::new(&loaded.shape).map_err(|error| SpecError { argument: argument.into(), ..error })?;
        Ok(Image { argument: argument.into(), name, shape, channels: loaded.channels, pixels: loaded.pixels })
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

/// Reads a mask. Of an image of 8 bits that holds only 0 and 255, 255 counts as 1; an array (`.npy`) is taken
/// literally.
///
/// # Errors
/// A file that is not read.
pub fn open_mask(path: &Path, gray: bool) -> Result<Image, Error> {
    let (loaded, array) = io::load_telling(path).map_err(Error::io("--mask"))?;
    let mut mask = Image::new("--mask", path.display().to_string(), loaded, gray)?;
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
    /// The part that is wanted.
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
            return Err(SpecError::of(flcc_runtime::Kind::DimsMismatch, "template", expected, template.channels()));
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
