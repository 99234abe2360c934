//! Images that come one after another: each is executed as it comes, results come in the order of the images.
//!
//! A stream holds no image and no result: what it is given it computes and returns, so its memory is that of one
//! execution. Images of other sizes than the plan's are planned once each; the last few sizes are kept.

use std::collections::VecDeque;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::peaks::{Found, Peak, PeakOptions};
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::view::{AnyView, AsImage};

use crate::plan::matcher::Matcher;
use crate::run::execute::{Beside, Control, Copies};

/// How many image sizes besides the plan's are kept planned.
const KEPT: usize = 4;

/// What a run is watched with where nobody watches it.
const NOTHING_WATCHED: Control<'static> =
    Control { progress: None, cancel: None, failed: None, copies: Copies::Staged, beside: Beside::NOTHING };

/// A matcher on a stream of images.
pub struct Stream {
    /// The matcher of each size seen lately, the last used at the end; the plan's own is `first`.
    others: Vec<(Shape, Matcher)>,
    first: Matcher,
}

impl Matcher {
    /// A stream of images that come one after another: of the plan's size, or of other sizes, which are planned once
    /// each.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }
}

impl Stream {
    pub(crate) fn new(first: Matcher) -> Stream {
        Stream { others: Vec::new(), first }
    }

    /// The results of the next image, one for each template.
    ///
    /// # Errors
    /// An image of another type or number of channels, or of a size that the problem has no answer for. The stream goes
    /// on with the next image.
    pub fn push(&mut self, image: &impl AsImage) -> Result<Vec<ScoreMap>, ExecError> {
        self.push_with(&image.as_image(), &NOTHING_WATCHED)
    }

    /// As [`Stream::push`], with progress and a way to cancel.
    ///
    /// # Errors
    /// As [`Stream::push`], or cancelled.
    pub fn push_with(&mut self, image: &AnyView<'_>, control: &Control<'_>) -> Result<Vec<ScoreMap>, ExecError> {
        let matcher = self.matcher(image.shape())?;
        matcher.execute_with(std::slice::from_ref(image), control).map(|(maps, _)| maps)
    }

    /// The peaks of the next image, for each template, without its maps: see [`Matcher::peaks`].
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn peaks(&mut self, image: &impl AsImage, options: &PeakOptions) -> Result<Vec<Vec<Peak>>, ExecError> {
        let image = image.as_image();
        self.matcher(image.shape())?.peaks(&[image], options)
    }

    /// The matcher for images of a shape, planned now if it is new.
    ///
    /// # Errors
    /// A shape that the problem has no answer for.
    pub fn matcher(&mut self, shape: Shape) -> Result<Matcher, ExecError> {
        if self.first.plan().spec().image() == shape && self.first.plan().spec().images() <= 1 {
            return Ok(self.first.clone());
        }
        if let Some(at) = self.others.iter().position(|(known, _)| *known == shape) {
            let entry = self.others.remove(at);
            let matcher = entry.1.clone();
            self.others.push(entry);
            return Ok(matcher);
        }
        let matcher = self.first.rebind(shape)?;
        if self.others.len() == KEPT {
            self.others.remove(0);
        }
        self.others.push((shape, matcher.clone()));
        Ok(matcher)
    }

    /// The results of every image of an iterator, in its order, computed as they are asked for.
    ///
    /// Where the plan's spec leaves the number of images open (`0@`), as many images are taken at a time as keep the
    /// plan's device busy ([`Matcher::appetite`]): one on a CPU, several on GPUs, which then copy and compute at once.
    pub fn run<'s, I>(&'s mut self, images: I) -> impl Iterator<Item = Result<Vec<ScoreMap>, ExecError>> + use<'s, I>
    where
        I: IntoIterator,
        I::Item: AsImage,
    {
        self.run_with(images, &NOTHING_WATCHED)
    }

    /// As [`Stream::run`], with a way to cancel, and to hear of devices that fail.
    pub fn run_with<'s, 'c: 's, I>(
        &'s mut self,
        images: I,
        control: &'c Control<'c>,
    ) -> impl Iterator<Item = Result<Vec<ScoreMap>, ExecError>> + use<'s, 'c, I>
    where
        I: IntoIterator,
        I::Item: AsImage,
    {
        let mut images = images.into_iter();
        let mut ready = VecDeque::new();
        std::iter::from_fn(move || {
            if ready.is_empty() {
                let taken: Vec<I::Item> = images.by_ref().take(self.appetite()).collect();
                let views: Vec<AnyView<'_>> = taken.iter().map(AsImage::as_image).collect();
                ready.extend(self.push_all(&views, control));
            }
            ready.pop_front()
        })
    }

    /// How many images in one call of [`Stream::push_all`] keep everything busy: 1 on a CPU, and where the plan's spec
    /// gives the number of images.
    pub fn appetite(&self) -> usize {
        if self.first.plan().spec().images() == 0 { self.first.appetite() } else { 1 }
    }

    /// The results of the next images, in their order: those of one shape that follow each other are computed together.
    /// One that fails takes no other with it.
    pub fn push_all(&mut self, images: &[AnyView<'_>], control: &Control<'_>) -> Vec<Result<Vec<ScoreMap>, ExecError>> {
        images.chunk_by(|a, b| a.shape() == b.shape()).flat_map(|alike| self.together(alike, control)).collect()
    }

    /// What is found in the next images, in their order, without their maps; else as [`Stream::push_all`]. `optimum`
    /// says whether positions that attain the best score are counted.
    pub fn search_all(
        &mut self,
        images: &[AnyView<'_>],
        options: &PeakOptions,
        optimum: bool,
        control: &Control<'_>,
    ) -> Vec<Result<Vec<Found>, ExecError>> {
        let mut results = Vec::new();
        for alike in images.chunk_by(|a, b| a.shape() == b.shape()) {
            results.extend(
                self.of_one_shape(alike, |matcher, images| matcher.search_each(images, options, optimum, control)),
            );
        }
        results
    }

    /// The results of images of one shape.
    fn together(&mut self, images: &[AnyView<'_>], control: &Control<'_>) -> Vec<Result<Vec<ScoreMap>, ExecError>> {
        self.of_one_shape(images, |matcher, images| matcher.execute_each(images, control))
    }

    /// What there is of each of some images of one shape: of all together, or one by one, so that an image that does
    /// not belong to the plan takes no other with it.
    fn of_one_shape<R>(
        &mut self,
        images: &[AnyView<'_>],
        each: impl Fn(&Matcher, &[AnyView<'_>]) -> Result<Vec<Result<R, ExecError>>, ExecError>,
    ) -> Vec<Result<R, ExecError>> {
        if images.len() > 1
            && let Ok(matcher) = self.matcher(images[0].shape())
            && let Ok(results) = each(&matcher, images)
        {
            return results;
        }
        let alone = |image: &AnyView<'_>| {
            let matcher = self.matcher(image.shape())?;
            each(&matcher, std::slice::from_ref(image))?.pop().unwrap_or_else(|| Err(nothing(image)))
        };
        images.iter().map(alone).collect()
    }
}

/// An image that an executor has nothing of, which none does.
fn nothing(image: &AnyView<'_>) -> ExecError {
    SpecError::new("image", "one result", format!("none for an image of {}", image.shape())).into()
}
