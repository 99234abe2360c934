//! A template bound to a plan: its sums, spectrum or factors, made once and run on every image.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use flcc_core::dtype::Pixels;
use flcc_core::each_type;
use flcc_core::error::{ExecError, Kind, SpecError, counted};
use flcc_core::key::KernelKey;
use flcc_core::peaks::{Found, Peak, PeakOptions, Search};
use flcc_core::score::ScoreMap;
use flcc_core::view::{AnyView, AnyViewMut, AsImage};

use crate::plan::planned::Plan;
use crate::plan::solver::Method;
use crate::problem::template;
use crate::run::execute::{Control, Execute, Regional, Scratch, Statistics, Unfinished};
use crate::run::search::{Buffers, Searching, found_in_map};

/// Templates bound to a plan. Cheap to clone; executed from many threads at once.
#[derive(Clone)]
pub struct Matcher(Arc<Inner>);

struct Inner {
    plan: Plan,
    kernel: KernelKey,
    method: Method,
    workers: usize,
    execute: Arc<dyn Execute>,
    /// What the templates became.
    bound: Arc<dyn Any + Send + Sync>,
    note: String,
    /// Copies, to bind again for images of other sizes.
    templates: Vec<Pixels>,
    mask: Option<Pixels>,
    /// Scratch that [`Matcher::execute`] keeps from one image to the next.
    spare: Mutex<Option<Scratch>>,
    /// Buffers that [`Matcher::peaks`] keeps from one call to the next.
    rooms: Mutex<Buffers>,
    /// The same templates on the CPU, bound when they are first asked for.
    on_cpu: Mutex<Option<Matcher>>,
}

/// Views of images or templates.
fn views<I: AsImage>(images: &[I]) -> Vec<AnyView<'_>> {
    images.iter().map(AsImage::as_image).collect()
}

impl Plan {
    /// Binds templates (and a mask, if the spec has one): their sums and spectra are computed now, and used for every
    /// image.
    ///
    /// With method auto, templates whose separable rank is low enough to be faster by the plan's own estimates take the
    /// separable method.
    ///
    /// # Errors
    /// Arrays that are not the spec's; `constant_template`, `zero_template`, `nonfinite_template`, `mask_shape`,
    /// `mask_invalid`.
    pub fn bind(&self, templates: &[impl AsImage], mask: Option<&dyn AsImage>) -> Result<Matcher, ExecError> {
        Matcher::new(self, &views(templates), mask.map(AsImage::as_image).as_ref())
    }

    /// Binds, executes, forgets: the results of every image with every template, image by image.
    ///
    /// # Errors
    /// As [`Plan::bind`] and [`Matcher::execute`].
    pub fn execute(
        &self,
        images: &[impl AsImage],
        templates: &[impl AsImage],
        mask: Option<&dyn AsImage>,
    ) -> Result<Vec<ScoreMap>, ExecError> {
        self.bind(templates, mask)?.execute(images)
    }

    /// Bytes of results that [`Matcher::peaks`] holds at a time, above scratch and templates.
    pub fn peaks_bytes(&self, options: &PeakOptions) -> usize {
        let (spec, execute) = (self.spec(), self.primary().execute());
        let search = Search::of(spec, *options);
        if !execute.devices().is_empty() {
            // Results stay there; where they cannot, one after the other comes to the host.
            return spec.out_shape().len() * spec.out_type().row().size;
        }
        let searching = Searching::new(spec, &search, self.workers());
        searching.bytes(execute.regional(), execute.appetite())
    }
}

impl Matcher {
    pub(crate) fn new(
        plan: &Plan,
        templates: &[AnyView<'_>],
        mask: Option<&AnyView<'_>>,
    ) -> Result<Matcher, ExecError> {
        let spec = plan.spec();
        let (checked, weights) = template::check(spec, templates, mask)?;
        let (choice, note) = plan.choose(&checked, &weights);
        let execute = choice.execute();
        let bound = execute.bind(checked, weights)?;
        let copy =
            |view: &AnyView<'_>| each_type!(AnyView, view, view => flcc_core::dtype::Pixel::pixels(view.to_vec()));
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
            rooms: Mutex::default(),
            on_cpu: Mutex::new(None),
        })))
    }

    /// The plan that it is bound to.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// The templates that are bound, as copies: row-major, the channels of a sample side by side.
    pub fn templates(&self) -> &[Pixels] {
        &self.0.templates
    }

    /// The mask that is bound, as a copy.
    pub fn mask(&self) -> Option<&Pixels> {
        self.0.mask.as_ref()
    }

    /// The kernel that runs: the plan's, or that of its separable runner-up.
    pub fn kernel(&self) -> &KernelKey {
        &self.0.kernel
    }

    /// The method that runs.
    pub fn method(&self) -> Method {
        self.0.method
    }

    /// Whether a memory limit left no room for what takes more: then what rounding leaves in doubt is computed by other
    /// ways, and results may differ from those of the same kernel by roundings.
    pub fn short_of_memory(&self) -> bool {
        self.0.execute.short_of_memory()
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
    pub fn execute(&self, images: &[impl AsImage]) -> Result<Vec<ScoreMap>, ExecError> {
        self.execute_with(images, &Control::default()).map(|(maps, _)| maps)
    }

    /// As [`Matcher::execute`], with progress and a way to cancel, and counts of what was done.
    ///
    /// # Errors
    /// Images that are not the spec's, or cancelled.
    pub fn execute_with(
        &self,
        images: &[impl AsImage],
        control: &Control<'_>,
    ) -> Result<(Vec<ScoreMap>, Statistics), ExecError> {
        let (spec, images) = (self.0.plan.spec(), &views(images)[..]);
        self.check_images(images)?;
        let mut maps: Vec<ScoreMap> = (0..images.len() * spec.templates()).map(|_| ScoreMap::of(spec)).collect();
        let mut scratch = self.take_scratch();
        let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
        let statistics = self.execute_into(images, &mut outs, &mut scratch, control);
        self.keep_scratch(scratch);
        Ok((maps, statistics?))
    }

    /// As [`Matcher::execute_with`], with a result or an error for each image: a device that fails takes only what it
    /// had with it.
    pub(crate) fn execute_each(
        &self,
        images: &[AnyView<'_>],
        control: &Control<'_>,
    ) -> Result<Vec<Result<Vec<ScoreMap>, ExecError>>, ExecError> {
        let spec = self.0.plan.spec();
        self.check_images(images)?;
        let mut maps: Vec<ScoreMap> = (0..images.len() * spec.templates()).map(|_| ScoreMap::of(spec)).collect();
        let mut scratch = self.take_scratch();
        let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
        let run = self.0.execute.execute(self.0.bound.as_ref(), images, &mut outs, &mut scratch, control);
        self.keep_scratch(scratch);
        let mut maps = maps.into_iter();
        let maps = images.iter().map(|_| maps.by_ref().take(spec.templates()).collect()).collect();
        Ok(each_or_error(maps, run))
    }

    /// The peaks of every image with every template, image by image: those that
    /// [`find_peaks`](crate::find_peaks) finds in the maps of [`Matcher::execute`].
    ///
    /// No map is made. On a CPU each thread searches a tile of results right after it computed it, where there is a
    /// `top` or a threshold, few scores reach that, and places are not refined; else results are computed a few
    /// megabytes at a time and searched there. So memory does not grow with the image; it grows with the number of
    /// templates, by some rows of results for each. On GPUs results are searched where they lie.
    ///
    /// # Errors
    /// Images that are not the spec's.
    pub fn peaks(&self, images: &[impl AsImage], options: &PeakOptions) -> Result<Vec<Vec<Peak>>, ExecError> {
        let (found, _) = self.search(images, options, false, &Control::default())?;
        Ok(found.into_iter().map(|found| found.peaks).collect())
    }

    /// As [`Matcher::peaks`], with the number of positions that attain the best score where `optimum` says so, with
    /// progress and a way to cancel, and counts of what was done.
    ///
    /// # Errors
    /// Images that are not the spec's, or cancelled.
    pub fn search(
        &self,
        images: &[impl AsImage],
        options: &PeakOptions,
        optimum: bool,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        self.search_in(&views(images), options, optimum, control, None)
    }

    /// As [`Matcher::search`], with about so many bytes of results at a time where a test says so.
    pub(crate) fn search_in(
        &self,
        images: &[AnyView<'_>],
        options: &PeakOptions,
        optimum: bool,
        control: &Control<'_>,
        band: Option<usize>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        let spec = self.0.plan.spec();
        self.check_images(images)?;
        let search = Search::of(spec, *options).with_optimum(optimum);
        let searching = Searching::new(spec, &search, self.0.workers).with_band(band);
        let mut scratch = self.take_scratch();
        let mut rooms = std::mem::take(&mut *self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner));
        let (execute, bound) = (self.0.execute.as_ref(), self.0.bound.as_ref());
        let result = searching.of(execute, bound, images, &mut scratch, &mut rooms, control);
        self.keep_scratch(scratch);
        *self.0.rooms.lock().unwrap_or_else(PoisonError::into_inner) = rooms;
        result
    }

    /// As [`Matcher::search`], with what was found or an error for each image: a device that fails takes only what it
    /// had with it.
    pub(crate) fn search_each(
        &self,
        images: &[AnyView<'_>],
        options: &PeakOptions,
        optimum: bool,
        control: &Control<'_>,
    ) -> Result<Vec<Result<Vec<Found>, ExecError>>, ExecError> {
        if images.len() == 1 || self.0.execute.regional().is_some() {
            let one = |image| self.search(std::slice::from_ref(image), options, optimum, control);
            return Ok(images.iter().map(|image| Ok(one(image)?.0)).collect());
        }
        self.check_images(images)?;
        let spec = self.0.plan.spec();
        let templates = spec.templates();
        let search = Search::of(spec, *options).with_optimum(optimum);
        let mut found = vec![Found::default(); images.len() * templates];
        let mut scratch = self.take_scratch();
        let run = self.0.execute.search(self.0.bound.as_ref(), images, &search, &mut found, &mut scratch, control);
        self.keep_scratch(scratch);
        if let Some(run) = run {
            let mut found = found.into_iter();
            let found = (0..images.len()).map(|_| found.by_ref().take(templates).collect()).collect();
            return Ok(each_or_error(found, run));
        }
        let maps = self.execute_each(images, control)?;
        let found = |map: &ScoreMap| {
            found_in_map(&Search::in_map(map, *options).with_optimum(optimum), self.0.workers, &map.view())
        };
        Ok(maps.into_iter().map(|maps| Ok(maps?.iter().map(found).collect())).collect())
    }

    /// What computes regions of results, and the templates in its form; `None` where whole results are computed.
    pub(crate) fn regional(&self) -> Option<(&dyn Regional, &(dyn Any + Send + Sync))> {
        Some((self.0.execute.regional()?, self.0.bound.as_ref()))
    }

    fn take_scratch(&self) -> Scratch {
        let spare = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        spare.unwrap_or_else(|| self.make_scratch())
    }

    fn keep_scratch(&self, scratch: Scratch) {
        *self.0.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(scratch);
    }

    /// Computes into the caller's results, `outs[image * templates + template]`, with the caller's scratch.
    ///
    /// With one worker nothing is allocated; with several, nothing that grows with the data. So images are views here,
    /// which need no list of their own.
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
        self.check_images(images)?;
        self.check_outs(images.len(), outs)?;
        let run = self.0.execute.execute(self.0.bound.as_ref(), images, outs, scratch, control);
        run.map_err(|unfinished| unfinished.error)
    }

    /// The same templates on the CPU: itself where it computes there, else planned by estimate for any number of images
    /// when this is asked for first, and kept.
    ///
    /// # Errors
    /// No plan of the CPU.
    pub fn on_cpu(&self) -> Result<Matcher, ExecError> {
        if self.regional().is_some() {
            return Ok(self.clone());
        }
        let mut made = self.0.on_cpu.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matcher) = &*made {
            return Ok(matcher.clone());
        }
        let spec = self.0.plan.spec().clone().with_images(0)?;
        let matcher = self.bind_to(&self.0.plan.planner().on_cpu().plan(&spec)?)?;
        *made = Some(matcher.clone());
        Ok(matcher)
    }

    /// As [`Matcher::execute_into`], of images that already lie on a device of the plan: they are not copied.
    ///
    /// # Errors
    /// As there, a plan for the CPU, or an image on another device. The CPU takes nothing over: it does not see such
    /// images.
    #[cfg(feature = "cuda")]
    pub fn execute_resident(
        &self,
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        images.iter().try_for_each(|image| self.check_resident(image))?;
        self.check_outs(images.len(), outs)?;
        self.0.execute.execute_resident(self.0.bound.as_ref(), images, outs, scratch)
    }

    /// As [`Matcher::execute_resident`], of one image, with results that stay on its device.
    ///
    /// They are there when this returns: any stream of the device may look at them.
    ///
    /// # Errors
    /// As there, results on another device, a stream that records a graph, or cancelled.
    #[cfg(feature = "cuda")]
    pub fn execute_on_device(
        &self,
        image: &crate::run::device_image::DeviceImage<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.check_resident(image)?;
        self.check_results(image.device(), 1, out)?;
        self.0.execute.execute_on_device(self.0.bound.as_ref(), image, out, scratch, control)
    }

    /// How long the device takes for a run of [`Matcher::execute_on_device`], its part alone: what `runs` runs take on
    /// the stream that they stand in, by the device's own clock, divided by `runs`. Image and results take turns:
    /// `images[k]` with `outs[k]`, all on one device, so that caches hold as little as the caller likes.
    ///
    /// # Errors
    /// As there; no image or no run; not as many results as images; an image with samples that are not finite or out of
    /// f32's range, where a run is not the device's alone.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    pub fn time_on_device(
        &self,
        images: &[crate::run::device_image::DeviceImage<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<crate::run::execute::DeviceTime, ExecError> {
        if images.is_empty() || images.len() != outs.len() {
            let expected = format!("{} results, one for each image, at least one", images.len());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, outs.len()).into());
        }
        if runs == 0 {
            return Err(SpecError::new("runs", "at least one", runs).into());
        }
        for (image, out) in images.iter().zip(outs.iter()) {
            self.check_resident(image)?;
            self.check_results(image.device(), 1, out)?;
            if image.device() != images[0].device() {
                return Err(SpecError::new("images", "all on one device", image.device()).into());
            }
        }
        self.0.execute.time_on_device(self.0.bound.as_ref(), images, outs, scratch, runs)
    }

    /// As [`Matcher::search`], of one image that already lies on a device of the plan: neither it nor its results are
    /// copied.
    ///
    /// # Errors
    /// As [`Matcher::execute_resident`], or cancelled.
    #[cfg(feature = "cuda")]
    pub fn search_resident(
        &self,
        image: &crate::run::device_image::DeviceImage<'_>,
        options: &PeakOptions,
        optimum: bool,
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<(Vec<Found>, Statistics), ExecError> {
        self.check_resident(image)?;
        let spec = self.0.plan.spec();
        let search = Search::of(spec, *options).with_optimum(optimum);
        let mut found = vec![Found::default(); spec.templates()];
        let bound = self.0.bound.as_ref();
        let run = self.0.execute.search_resident(bound, image, &search, &mut found, scratch, control);
        run.map(|statistics| (found, statistics))
    }

    /// The numbers of the devices that it computes on; none where the CPU computes.
    pub fn devices(&self) -> Vec<usize> {
        self.0.execute.devices()
    }

    /// What computes, and the templates in its form.
    #[cfg(feature = "cuda")]
    pub(crate) fn executor(&self) -> (&dyn Execute, &(dyn Any + Send + Sync)) {
        (self.0.execute.as_ref(), self.0.bound.as_ref())
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn check_resident(&self, image: &crate::run::device_image::DeviceImage<'_>) -> Result<(), SpecError> {
        let (spec, layout) = (self.0.plan.spec(), image.layout());
        let describe = |dtype, shape, channels| format!("{dtype} {shape} with {}", counted(channels, "channel"));
        if (layout.shape(), image.dtype(), layout.channels()) == (spec.image(), spec.image_type(), spec.channels()) {
            return Ok(());
        }
        let expected = describe(spec.image_type(), spec.image(), spec.channels());
        let got = describe(image.dtype(), layout.shape(), layout.channels());
        Err(SpecError::of(Kind::DimsMismatch, "image", expected, got))
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn check_results(
        &self,
        device: usize,
        images: usize,
        out: &crate::run::device_image::DeviceResults<'_>,
    ) -> Result<(), SpecError> {
        let spec = self.0.plan.spec();
        let describe = |(dtype, shape, count, device)| format!("{count} results of {dtype} {shape} on device {device}");
        let expected = (spec.out_type(), spec.out_shape(), images.saturating_mul(spec.templates()), device);
        if out.about() == expected {
            return Ok(());
        }
        Err(SpecError::of(Kind::DimsMismatch, "out", describe(expected), describe(out.about())))
    }

    fn check_outs(&self, images: usize, outs: &[AnyViewMut<'_>]) -> Result<(), SpecError> {
        let spec = self.0.plan.spec();
        if outs.len() != images * spec.templates() {
            let expected = format!("{}, one for each image and template", counted(images * spec.templates(), "result"));
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, outs.len()));
        }
        for out in outs {
            if out.shape() != spec.out_shape() || out.dtype() != spec.out_type() {
                let expected = format!("{} {}", spec.out_type(), spec.out_shape());
                return Err(SpecError::of(
                    Kind::DimsMismatch,
                    "outs",
                    expected,
                    format!("{} {}", out.dtype(), out.shape()),
                ));
            }
        }
        Ok(())
    }

    fn check_images(&self, images: &[AnyView<'_>]) -> Result<(), SpecError> {
        let spec = self.0.plan.spec();
        if spec.images() != 0 && images.len() != spec.images() {
            return Err(SpecError::of(Kind::DimsMismatch, "images", counted(spec.images(), "image"), images.len()));
        }
        images.iter().try_for_each(|image| {
            template::check_view("image", image, spec.image(), spec.image_type(), spec.channels())
        })
    }

    /// The same templates for images of another shape.
    pub(crate) fn rebind(&self, image: flcc_core::shape::Shape) -> Result<Matcher, ExecError> {
        let spec = self.0.plan.spec().with_image_shape(image)?.with_images(0)?;
        self.bind_to(&self.0.plan.planner().plan(&spec)?)
    }

    /// The same templates bound to another plan, for templates of their shape and type.
    ///
    /// # Errors
    /// As [`Plan::bind`].
    pub fn bind_to(&self, plan: &Plan) -> Result<Matcher, ExecError> {
        let spec = plan.spec();
        let templates = self
            .0
            .templates
            .iter()
            .map(|pixels| AnyView::dense(pixels, spec.template(), spec.channels()))
            .collect::<Result<Vec<_>, _>>()?;
        let mask = self.0.mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1)).transpose()?;
        Matcher::new(plan, &templates, mask.as_ref())
    }
}

/// What came of each image, or the error of those that devices that failed left undone; any other error is all images'.
fn each_or_error<T>(all: Vec<T>, run: Result<Statistics, Box<Unfinished>>) -> Vec<Result<T, ExecError>> {
    let mut results: Vec<Result<T, ExecError>> = all.into_iter().map(Ok).collect();
    let Err(unfinished) = run else { return results };
    match unfinished.error {
        ExecError::Device { .. } => {
            unfinished.undone.iter().for_each(|&image| results[image] = Err(unfinished.error.clone()));
        }
        error => results.iter_mut().for_each(|result| *result = Err(error.clone())),
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::machine::Machine;
    use crate::plan::planned::Took;
    use crate::plan::settings::Planner;
    use crate::plan::solvers::SOLVERS;
    use crate::plan::testing::{At, Failing};
    use flcc_core::spec::Spec;

    fn pixels(count: usize, seed: u32) -> Pixels {
        Pixels::U8(
            (0..count as u32).map(|index| (index.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 23) as u8).collect(),
        )
    }

    #[test]
    fn regions_are_those_of_the_cpu() {
        let spec: Spec = "zncc:u8:0@200x300*5x6:valid".parse().unwrap();
        let template = pixels(30, 1);
        let templates = [AnyView::dense(&template, spec.template(), 1).unwrap()];
        let planner = Planner::with_machine(Machine::detect().unwrap());
        let offer = SOLVERS[0].offers(&spec, planner.machine()).unwrap().remove(0);
        let (execute, _) = Failing::build(&offer, &spec, At::Running);
        let plan = Plan::new(spec.clone(), planner.clone(), (offer, execute, 1), None, Vec::new(), Took::default());
        let matcher = plan.bind(&templates, None).unwrap();
        assert!(matcher.regions().is_none());
        // The same each time, so that regions go together.
        let here = matcher.on_cpu().unwrap();
        assert!(here.regions().is_some() && Arc::ptr_eq(&here.0, &matcher.on_cpu().unwrap().0));
        assert!(Arc::ptr_eq(&here.0, &here.on_cpu().unwrap().0));
        assert_eq!(here.kernel(), planner.plan(&spec).unwrap().kernel());
    }

    #[test]
    fn a_matcher_says_whether_memory_was_short() {
        let spec: Spec = "zncc:f32:200x300*40x40:valid".parse().unwrap();
        let template = pixels(40 * 40, 1).cast(flcc_core::dtype::DType::F32);
        let templates = [AnyView::dense(&template, spec.template(), 1).unwrap()];
        let planner = Planner::with_machine(Machine::detect().unwrap()).threads(1).method(Method::Fourier);
        let plan = planner.plan(&spec).unwrap();
        assert!(!plan.bind(&templates, None).unwrap().short_of_memory());
        let taken = plan.scratch_bytes() + plan.template_bytes();
        let plan = planner.memory_limit(Some(taken - 1)).plan(&spec).unwrap();
        assert!(plan.bind(&templates, None).unwrap().short_of_memory());
    }

    #[test]
    fn what_is_bound_can_be_bound_again() {
        let spec: Spec = "zncc:u8:20x30*2@5x6:valid,mask01,channels=3".parse().unwrap();
        let (templates, mask) = ([1, 2].map(|seed| pixels(90, seed)), Pixels::U8((0..30).map(|i| i % 2).collect()));
        let views = templates.each_ref().map(|template| AnyView::dense(template, spec.template(), 3).unwrap());
        let weights = AnyView::dense(&mask, spec.template(), 1).unwrap();
        let planner = Planner::with_machine(Machine::detect().unwrap());
        let matcher = planner.plan(&spec).unwrap().bind(&views, Some(&weights)).unwrap();
        assert_eq!((matcher.templates(), matcher.mask()), (&templates[..], Some(&mask)));
    }
}
