//! A template bound to a plan: its sums, spectrum or factors, made once and run on every image.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::dtype::Pixels;
use flcc_core::each_type;
use flcc_core::error::{ExecError, Kind, SpecError};
use flcc_core::key::KernelKey;
use flcc_core::score::ScoreMap;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::cpu::bind::{self, Checked, Weights};
use crate::cpu::tile::Statistics;
use crate::exec::{Control, Execute, Scratch};
use crate::plan::Plan;
use crate::solver::Method;
use crate::stream::Stream;

/// Templates bound to a plan. Cheap to clone; executed from many threads at once.
#[derive(Clone)]
pub struct Matcher(Arc<Inner>);

struct Inner {
    plan: Plan,
    kernel: KernelKey,
    method: Method,
    workers: usize,
    execute: Arc<dyn Execute>,
    bound: Arc<dyn Any + Send + Sync>,
    note: String,
    /// Copies, to bind again for images of other sizes.
    templates: Vec<Pixels>,
    mask: Option<Pixels>,
    /// Scratch that [`Matcher::execute`] keeps from one image to the next.
    spare: Mutex<Option<Scratch>>,
}

/// Checks templates and mask against a spec.
pub(crate) fn check(spec: &Spec, templates: &[AnyView<'_>], mask: Option<&AnyView<'_>>) -> Result<(Vec<Checked>, Weights), SpecError> {
    if templates.len() != spec.templates() {
        return Err(SpecError::of(Kind::DimsMismatch, "templates", format!("{} templates", spec.templates()), templates.len()));
    }
    let weights = bind::check_mask(spec, mask)?;
    let checked = templates.iter().map(|template| bind::check_template(spec, template, &weights)).collect::<Result<_, _>>()?;
    Ok((checked, weights))
}

impl Matcher {
    pub(crate) fn new(plan: &Plan, templates: &[AnyView<'_>], mask: Option<&AnyView<'_>>) -> Result<Matcher, ExecError> {
        let spec = plan.spec();
        let (checked, weights) = check(spec, templates, mask)?;
        let mut choice = plan.primary();
        let mut note = String::new();
        if let Some((runner_up, limit)) = plan.runner_up()
            && checked.iter().all(|template| !template.nonfinite)
        {
            match runner_up.execute().rank(&checked, &weights, limit) {
                Some(rank) => {
                    note = format!(
                        "the templates' separable rank is {rank}, at most the {limit} up to which {} is faster by estimate\n",
                        runner_up.kernel()
                    );
                    choice = runner_up;
                }
                None => {
                    note = format!("the templates' separable rank is above {limit}, up to which the separable method would be faster\n")
                }
            }
        }
        let execute = choice.execute();
        let bound = execute.bind(checked, weights)?;
        let copy = |view: &AnyView<'_>| each_type!(AnyView, view, view => flcc_core::dtype::Pixel::pixels(view.to_vec()));
        Ok(Matcher(Arc::new(Inner {
            plan: plan.clone(),
            kernel: choice.kernel(),
            method: choice.method(),
            workers: choice.workers(),
            execute,
            bound,
            note,
            templates: templates.iter().map(copy).collect(),
            mask: mask.map(copy),
            spare: Mutex::new(None),
        })))
    }

    /// The plan that it is bound to.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// The kernel that runs: the plan's, or that of its separable runner-up.
    pub fn kernel(&self) -> &KernelKey {
        &self.0.kernel
    }

    /// The method that runs.
    pub fn method(&self) -> Method {
        self.0.method
    }

    /// The plan's account, and what the templates changed in it.
    pub fn explain(&self) -> String {
        let mut text = self.0.plan.explain();
        if !self.0.note.is_empty() {
            text.push_str(&format!("bound    {}: {}", self.0.kernel, self.0.note));
        }
        text
    }

    /// How many images in one call keep everything busy: 1 on a CPU.
    pub fn appetite(&self) -> usize {
        self.0.execute.appetite()
    }

    /// Scratch for [`Matcher::execute_into`], with as many workers as the plan has.
    pub fn make_scratch(&self) -> Scratch {
        let spec = self.0.plan.spec();
        self.0.execute.scratch(self.0.workers, spec.images().max(1) * spec.templates())
    }

    /// The results of every image with every template, image by image.
    ///
    /// # Errors
    /// Images that are not the spec's.
    pub fn execute(&self, images: &[AnyView<'_>]) -> Result<Vec<ScoreMap>, ExecError> {
        self.execute_with(images, &Control::default()).map(|(maps, _)| maps)
    }

    /// As [`Matcher::execute`], with progress and a way to cancel, and counts of what was done.
    ///
    /// # Errors
    /// Images that are not the spec's, or cancelled.
    pub fn execute_with(&self, images: &[AnyView<'_>], control: &Control<'_>) -> Result<(Vec<ScoreMap>, Statistics), ExecError> {
        let spec = self.0.plan.spec();
        self.check_images(images)?;
        let mut maps: Vec<ScoreMap> =
            (0..images.len() * spec.templates()).map(|_| ScoreMap::zeros(spec.region(), spec.out_type())).collect();
        let spare = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut scratch = spare.unwrap_or_else(|| self.make_scratch());
        let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
        let statistics = self.execute_into(images, &mut outs, &mut scratch, control);
        *self.0.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
        Ok((maps, statistics?))
    }

    /// Computes into the caller's results, `outs[image * templates + template]`, with the caller's scratch.
    ///
    /// With one worker nothing is allocated; with several, nothing that grows with the data.
    ///
    /// # Errors
    /// Arrays that are not the spec's, scratch of another plan, or cancelled; then what was written is unspecified.
    pub fn execute_into(
        &self,
        images: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let spec = self.0.plan.spec();
        self.check_images(images)?;
        if outs.len() != images.len() * spec.templates() {
            let expected = format!("{} results, one for each image and template", images.len() * spec.templates());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, outs.len()).into());
        }
        for out in outs.iter() {
            if out.shape() != spec.out_shape() || out.dtype() != spec.out_type() {
                let expected = format!("{} {}", spec.out_type(), spec.out_shape());
                return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, format!("{} {}", out.dtype(), out.shape())).into());
            }
        }
        self.0.execute.execute(self.0.bound.as_ref(), images, outs, scratch, control)
    }

    /// A stream of images that come one after another: of the plan's size, or of other sizes, which are planned once each.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    fn check_images(&self, images: &[AnyView<'_>]) -> Result<(), SpecError> {
        let spec = self.0.plan.spec();
        if spec.images() != 0 && images.len() != spec.images() {
            return Err(SpecError::of(Kind::DimsMismatch, "images", format!("{} images", spec.images()), images.len()));
        }
        images.iter().try_for_each(|image| bind::check_view("image", image, spec.image(), spec.image_type(), spec.channels()))
    }

    /// The same templates for images of another shape.
    pub(crate) fn rebind(&self, image: flcc_core::shape::Shape) -> Result<Matcher, ExecError> {
        let spec = self.0.plan.spec().with_image_shape(image)?.with_images(0)?;
        let plan = self.0.plan.planner().plan(&spec)?;
        let templates = self
            .0
            .templates
            .iter()
            .map(|pixels| AnyView::dense(pixels, spec.template(), spec.channels()))
            .collect::<Result<Vec<_>, _>>()?;
        let mask = self.0.mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1)).transpose()?;
        plan.bind(&templates, mask.as_ref())
    }
}
