//! The templates of a call: which they are, which of them are computed together, and what of them is told.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flcc_runtime::core::shape;
use flcc_runtime::peaks::{Claims, Shortlist, exclusive};
use flcc_runtime::{AnyView, Kind, Matcher, Peak, PeakOptions, Plan, Spec, SpecError};

use crate::args::Peaks;
use crate::data::{Image, images_in};
use crate::error::Error;
use crate::io;
use crate::outputs::Inputs;
use crate::reading::Reading;
use crate::session::Session;

/// The arguments that name templates, and what they name.
fn named<'a>(
    positional: Option<&'a PathBuf>,
    more: &'a [PathBuf],
) -> impl Iterator<Item = (&'static str, &'a PathBuf)> {
    positional.into_iter().map(|path| ("TEMPLATE", path)).chain(more.iter().map(|path| ("--template", path)))
}

/// The files that such an argument stands for: of a folder the images in it, by name.
///
/// # Errors
/// A folder that is not read, or that has none.
fn files(argument: &str, path: &Path, reading: &Reading) -> Result<Vec<PathBuf>, Error> {
    let folder = path.is_dir() && io::zarr_kind(path).is_none();
    if folder { images_in(argument, path, false, reading) } else { Ok(vec![path.to_path_buf()]) }
}

/// Tells what is read that these arguments name.
///
/// # Errors
/// A folder that is not read, or that has no images.
pub fn add_inputs(
    inputs: &mut Inputs,
    positional: Option<&PathBuf>,
    more: &[PathBuf],
    reading: &Reading,
) -> Result<(), Error> {
    for (argument, path) in named(positional, more) {
        files(argument, path, reading)?.iter().for_each(|file| inputs.add(argument, file));
    }
    Ok(())
}

/// Reads the templates of a call: the positional one, then those of `--template`; of a folder the images in it.
///
/// # Errors
/// A file that is not read, a folder without images.
pub fn open(positional: Option<&PathBuf>, more: &[PathBuf], reading: &Reading) -> Result<Vec<Image>, Error> {
    let mut all = Vec::new();
    for (argument, path) in named(positional, more) {
        for file in files(argument, path, reading)? {
            all.push(Image::open(argument, &file, reading)?);
        }
    }
    Ok(all)
}

/// The templates that files hold for images of so many axes. A template has as many axes as its image; where `stack`
/// says so, a file with one more is a stack of templates along its slowest axis, as the rows of an array for signals or
/// the pages of a TIFF for images.
///
/// # Errors
/// A stack of none, a file of other axes.
pub fn unstacked(files: Vec<Image>, axes: usize, stack: bool) -> Result<Vec<Image>, SpecError> {
    // Files of one template may stand beside stacks.
    if let (true, Some(file)) = (stack, files.first())
        && files.iter().all(|file| file.shape().axes() == axes)
    {
        let (one, stack) = (shape::axes(axes), shape::axes(axes + 1));
        file.tell(&format!("--stack: one template, with {one} as the image; a stack of templates has {stack}"));
    }
    let mut all = Vec::new();
    for file in files {
        match stack && file.shape().axes() == axes + 1 {
            true => {
                let planes = file.planes()?;
                if let (count, Some(first)) = (planes.len(), planes.first()) {
                    file.tell(&format!("read as a stack of {count} templates of {}", first.shape()));
                }
                all.extend(planes);
            }
            false => all.push(file),
        }
    }
    check_axes(&all, axes)?;
    Ok(all)
}

/// Checks that templates have as many axes as their image.
///
/// # Errors
/// The first that has not.
fn check_axes(templates: &[Image], axes: usize) -> Result<(), SpecError> {
    let Some(wrong) = templates.iter().find(|template| template.shape().axes() != axes) else { return Ok(()) };
    let got = wrong.shape().axes();
    let hint = if got == axes + 1 { ", or --stack for a stack of templates" } else { "" };
    let expected = format!("{}, as the image{hint}", shape::axes(axes));
    let got = format!("{} in {:?}", shape::axes(got), wrong.name);
    Err(SpecError::of(Kind::DimsMismatch, wrong.argument.clone(), expected, got))
}

/// What is told of each template, as the options say.
pub fn told(options: &Peaks) -> PeakOptions {
    PeakOptions {
        top: options.top.or(if options.threshold.is_some() { None } else { Some(1) }),
        threshold: options.threshold,
        min_distance: options.min_distance,
        exclude_border: options.exclude_border,
        subpixel: options.subpixel,
    }
}

/// What is looked for in the map of each template: what is told of it, or where some of that may be another template's
/// as many peaks as it may take.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// What is told.
    Told(PeakOptions),
    /// More, of which some stays.
    List(Shortlist),
}

impl Wanted {
    /// What is looked for at first, with so many templates.
    pub fn new(options: &Peaks, templates: usize) -> Wanted {
        let told = told(options);
        let shared = options.exclusive && templates > 1;
        if shared { Wanted::List(Shortlist::new(told, templates)) } else { Wanted::Told(told) }
    }

    /// What is looked for where there is one search alone, of a part of the result, with so many templates.
    pub fn at_once(options: &Peaks, templates: usize) -> PeakOptions {
        let told = told(options);
        if options.exclusive && templates > 1 { PeakOptions { top: None, ..told } } else { told }
    }

    /// What to search with.
    pub fn options(&self) -> PeakOptions {
        match self {
            Wanted::Told(options) => *options,
            Wanted::List(list) => list.options(),
        }
    }

    /// Looks for more from now on.
    pub fn lengthen(&mut self) {
        if let Wanted::List(list) = self {
            *list = list.longer();
        }
    }
}

/// Leaves of what was found in one image by `searched` what is told, and says how long that took, which is time of
/// every template; `None` where too little was looked for.
#[must_use]
pub fn leave<'a>(
    options: &Peaks,
    searched: &PeakOptions,
    found: impl Iterator<Item = (&'a Spec, &'a mut Vec<Peak>)>,
) -> Option<Duration> {
    let began = Instant::now();
    if options.exclusive {
        let mut claims: Vec<Claims<'_>> = found.map(|(spec, peaks)| Claims::new(spec, searched, peaks)).collect();
        if claims.len() > 1 && !exclusive(&mut claims, told(options).top) {
            return None;
        }
    }
    Some(began.elapsed())
}

/// Templates in the order of the call.
#[derive(Debug)]
pub struct Templates {
    all: Vec<Image>,
    groups: Vec<Vec<usize>>,
}

impl Templates {
    /// Puts those together that one plan serves: of one shape and type.
    pub fn new(all: Vec<Image>) -> Templates {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let kind = |index: usize| (all[index].shape(), all[index].dtype(), all[index].channels());
        for index in 0..all.len() {
            match groups.iter_mut().find(|group| kind(group[0]) == kind(index)) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        Templates { all, groups }
    }

    /// Every template, in the order in which they were given.
    pub fn all(&self) -> &[Image] {
        &self.all
    }

    /// The templates by plan: those that one plan serves.
    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// What a message calls one of them: its argument, and where there are several its name.
    pub fn called(&self, index: usize) -> String {
        let Image { argument, name, .. } = &self.all[index];
        if self.all.len() > 1 { format!("{argument} {name:?}") } else { argument.clone() }
    }

    /// The samples of a group.
    ///
    /// # Errors
    /// As [`Image::view`].
    pub fn views(&self, group: &[usize]) -> Result<Vec<AnyView<'_>>, SpecError> {
        group.iter().map(|&index| self.all[index].view()).collect()
    }

    /// Binds a group to a plan for images that the argument `image` names.
    ///
    /// # Errors
    /// The template that cannot be bound, or the mask.
    pub fn bind(
        &self,
        group: &[usize],
        plan: &Plan,
        session: &Session,
        image: &str,
        mask: Option<&AnyView<'_>>,
    ) -> Result<Matcher, Error> {
        let mask = mask.map(|mask| mask as _);
        plan.bind(&self.views(group)?, mask).map_err(|error| {
            // Of several templates the one that cannot be bound alone is meant.
            let wrong = |&&index: &&usize| match (plan.spec().clone().with_templates(1), self.all[index].view()) {
                (Ok(one), Ok(view)) => session.planner.plan(&one).is_ok_and(|plan| plan.bind(&[view], mask).is_err()),
                _ => false,
            };
            let index = group.iter().find(wrong).unwrap_or(&group[0]);
            Error::from(error).named(image, &self.called(*index))
        })
    }
}
