//! Many images, each with a template of its own: small windows of two frames, as in particle image velocimetry and
//! digital image correlation.
//!
//! A template is bound when its image comes and used once, by direct kernels and transforms of whole results in buffers
//! that a worker keeps; workers share the pairs, never one of them. The plan's kernel serves all pairs: no template is
//! looked at for low rank.

use flcc_core::dtype::{DType, Pixels};
use flcc_core::error::{ExecError, Kind, SpecError, counted};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut, AsImage, ViewMut};

use crate::plan::planned::Plan;
use crate::problem::template::{self, Weights};
use crate::run::execute::{self, Control, Execute, Scratch, Statistics};

use std::sync::Arc;

/// A plan for pairs: image `k` with template `k`. Made by [`Plan::pairs`].
///
/// ```
/// use flcc_runtime::{Best, PeakOptions, Pixels, Planner, Shape, Spec, View, find_peaks_in};
///
/// // Two frames, the second moved by 2 down and 3 to the right.
/// let sample = |y: usize, x: usize| ((y * 131 + x * 57) * (y + 3 * x) % 251) as f32;
/// let frame = |dy: usize, dx: usize| -> Vec<f32> {
///     (0..100 * 100).map(|i| sample(10 + i / 100 - dy, 10 + i % 100 - dx)).collect()
/// };
/// let (before, after) = (frame(0, 0), frame(2, 3));
/// let shape = Shape::new(&[100, 100])?;
/// let (before, after) = (View::new(&before, shape)?, View::new(&after, shape)?);
///
/// // Windows of 32x32 of the second, each with the 12x12 in the middle of the same window of the first; `0@` is any
/// // number of them.
/// let spec: Spec = "zncc:f32:0@32x32*12x12:valid".parse()?;
/// let corners = [[0, 0, 0], [0, 16, 40], [0, 60, 60]];
/// let images = corners.iter().map(|&at| after.part(at, spec.image())).collect::<Result<Vec<_>, _>>()?;
/// let middle = |[z, y, x]: [usize; 3]| [z, y + 10, x + 10];
/// let templates = corners
///     .iter()
///     .map(|&at| before.part(middle(at), spec.template()))
///     .collect::<Result<Vec<_>, _>>()?;
///
/// let pairs = Planner::new()?.plan(&spec)?.pairs(None)?;
/// let Pixels::F32(scores) = pairs.execute(&images, &templates)? else {
///     unreachable!("results of f32 arrays are f32")
/// };
/// let top = PeakOptions { top: Some(1), ..PeakOptions::default() };
/// for scores in scores.chunks_exact(spec.out_shape().len()) {
///     let best = &find_peaks_in(&View::new(scores, spec.out_shape())?, Best::Largest, &top)[0];
///     assert_eq!(best.position, [12, 13]);
///     assert!((best.score - 1.0).abs() < 1e-5);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pairs {
    plan: Plan,
    execute: Arc<dyn Execute>,
    workers: usize,
    weights: Weights,
}

impl Plan {
    /// The plan for images that each have a template of their own, under this mask if the spec has one.
    ///
    /// # Errors
    /// A spec of several templates; `mask_shape`, `mask_invalid`.
    pub fn pairs(&self, mask: Option<&dyn AsImage>) -> Result<Pairs, ExecError> {
        Ok(Pairs::new(self, mask.map(AsImage::as_image).as_ref())?)
    }
}

impl Pairs {
    pub(crate) fn new(plan: &Plan, mask: Option<&AnyView<'_>>) -> Result<Pairs, SpecError> {
        let spec = plan.spec();
        if spec.templates() != 1 {
            return Err(SpecError::of(
                Kind::DimsMismatch,
                "spec",
                "one template, since each image has its own",
                spec.templates(),
            ));
        }
        let execute = plan.primary().execute();
        let workers = plan.planner().pair_workers(spec, execute.as_ref());
        Ok(Pairs { plan: plan.clone(), execute, workers, weights: template::check_mask(spec, mask)? })
    }

    /// The plan that the pairs are computed by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many threads share the pairs.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Scratch for [`Pairs::execute_into`], for as many workers.
    pub fn make_scratch(&self) -> Scratch {
        self.execute.scratch(self.workers, self.plan.spec().images().max(1))
    }

    /// The results of all pairs, one after the other: `[n, out...]` in row-major order, of the spec's result type, bit
    /// for bit those that binding template `k` to the plan and executing image `k` gives, where that takes the plan's
    /// kernel.
    ///
    /// Images and templates are views with any strides, so windows are cut from frames without a copy. NaN, infinities,
    /// tolerances and degenerate panels are as everywhere; formulas and units are those of
    /// [`match_template`](crate::match_template).
    ///
    /// # Errors
    /// As many templates as images, and as many as the spec says unless that is 0; arrays that are not the spec's;
    /// `constant_template`, `zero_template`, `nonfinite_template`. The argument says which: `template 17`. Counts start
    /// at 0, and the first that is wrong is named.
    pub fn execute(&self, images: &[impl AsImage], templates: &[impl AsImage]) -> Result<Pixels, ExecError> {
        self.execute_with(images, templates, &Control::default()).map(|(results, _)| results)
    }

    /// As [`Pairs::execute`], with progress and counts of what was done. Progress is in pairs, and a run is cancelled
    /// between two of them. Where the CPU takes over from a device ([`Planner::fall_back`](crate::Planner::fall_back)),
    /// it computes all pairs, from the first on.
    ///
    /// # Errors
    /// As there, or cancelled.
    pub fn execute_with(
        &self,
        images: &[impl AsImage],
        templates: &[impl AsImage],
        control: &Control<'_>,
    ) -> Result<(Pixels, Statistics), ExecError> {
        let images: &[AnyView<'_>] = &images.iter().map(AsImage::as_image).collect::<Vec<_>>();
        let templates: &[AnyView<'_>] = &templates.iter().map(AsImage::as_image).collect::<Vec<_>>();
        self.check(images, templates)?;
        let spec = self.plan.spec();
        let count = images.len() * spec.out_shape().len();
        let mut scratch = self.make_scratch();
        if spec.out_type() == DType::F64 {
            let mut results = vec![0.0f64; count];
            let mut outs = split(spec, &mut results)?;
            let statistics = self.execute_into(images, templates, &mut outs, &mut scratch, control)?;
            return Ok((Pixels::F64(results), statistics));
        }
        let mut results = vec![0.0f32; count];
        let mut outs = split(spec, &mut results)?;
        let statistics = self.execute_into(images, templates, &mut outs, &mut scratch, control)?;
        Ok((Pixels::F32(results), statistics))
    }

    /// As [`Pairs::execute_with`], into results of the caller's and with scratch of the caller's. Each worker binds its
    /// templates in buffers that the scratch keeps: a second run with the same scratch allocates nothing.
    ///
    /// # Errors
    /// As there, results of another shape or type, or scratch of another plan.
    pub fn execute_into(
        &self,
        images: &[AnyView<'_>],
        templates: &[AnyView<'_>],
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.check(images, templates)?;
        let spec = self.plan.spec();
        if outs.len() != images.len() {
            return Err(SpecError::of(
                Kind::DimsMismatch,
                "outs",
                format!("{} results, one for each pair", images.len()),
                outs.len(),
            )
            .into());
        }
        for (number, out) in outs.iter().enumerate() {
            if out.shape() != spec.out_shape() || out.dtype() != spec.out_type() {
                let expected = format!("{} {}", spec.out_type(), spec.out_shape());
                let got = format!("{} {}", out.dtype(), out.shape());
                return Err(SpecError::of(Kind::DimsMismatch, format!("out {number}"), expected, got).into());
            }
        }
        self.execute.execute_pairs(
            &execute::Pairs { spec, images, templates, weights: &self.weights },
            outs,
            scratch,
            control,
        )
    }

    /// As [`Pairs::execute`], of images and templates that already lie on a device of the plan, with results that stay
    /// there, in order. They are there when this returns. Nothing is copied but what the kernel does not serve: a
    /// template whose magnitudes are extraordinary, or whose image's are.
    ///
    /// # Errors
    /// As [`Pairs::execute`]; a plan without a kernel that takes pairs where they lie: that of corr and conv of images
    /// in f32 has one, for templates that it serves ([`Plan::kernel`] begins with `pairs`). Another device, templates
    /// with gaps, or results that are not the spec's.
    #[cfg(feature = "cuda")]
    pub fn execute_on_device(
        &self,
        pairs: &crate::run::device_image::DevicePairs<'_>,
        out: &mut crate::run::device_image::DeviceResults<'_>,
        scratch: &mut Scratch,
    ) -> Result<Statistics, ExecError> {
        self.check_resident(pairs, out)?;
        self.execute.execute_pairs_on_device(pairs, out, &self.weights, scratch)
    }

    /// The numbers of the devices that the plan computes on.
    pub fn devices(&self) -> Vec<usize> {
        self.execute.devices()
    }

    /// How long the device takes for a run of [`Pairs::execute_on_device`], its part alone: what `runs` runs take that
    /// stand in its queue, by its own clock, divided by `runs`. Pairs and results take turns.
    ///
    /// # Errors
    /// As there; no pairs or no run; not as many results; samples that the kernel does not serve.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    pub fn time_on_device(
        &self,
        pairs: &[crate::run::device_image::DevicePairs<'_>],
        outs: &mut [crate::run::device_image::DeviceResults<'_>],
        scratch: &mut Scratch,
        runs: usize,
    ) -> Result<crate::run::execute::DeviceTime, ExecError> {
        if pairs.is_empty() || pairs.len() != outs.len() || runs == 0 {
            let expected = format!("{} results, at least one, and a run", pairs.len());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, outs.len()).into());
        }
        for (of_set, out) in pairs.iter().zip(outs.iter()) {
            self.check_resident(of_set, out)?;
            if of_set.images.device() != pairs[0].images.device() {
                return Err(SpecError::new("images", "all on one device", of_set.images.device()).into());
            }
        }
        self.execute.time_pairs_on_device(pairs, outs, scratch, runs)
    }

    /// Shapes, types and places of what lies on a device.
    #[cfg(feature = "cuda")]
    fn check_resident(
        &self,
        pairs: &crate::run::device_image::DevicePairs<'_>,
        out: &crate::run::device_image::DeviceResults<'_>,
    ) -> Result<(), SpecError> {
        let (spec, count) = (self.plan.spec(), pairs.count());
        if spec.images() != 0 && count != spec.images() {
            return Err(SpecError::of(Kind::DimsMismatch, "images", counted(spec.images(), "image"), count));
        }
        for (name, stack, shape, dtype) in [
            ("images", &pairs.images, spec.image(), spec.image_type()),
            ("templates", &pairs.templates, spec.template(), spec.template_type()),
        ] {
            let [_, height, width] = shape.padded();
            let layout = stack.layout();
            let fits = shape.axes() == 2 && layout.shape().axes() == 3 && layout.channels() == 1;
            if !(fits && layout.shape().padded() == [count, height, width] && stack.dtype() == dtype) {
                let expected = format!("{dtype} {count}x{height}x{width}, of a spec of two axes");
                let got = format!("{} {}", stack.dtype(), layout.shape());
                return Err(SpecError::of(Kind::DimsMismatch, name, expected, got));
            }
            if stack.device() != pairs.images.device() {
                return Err(SpecError::new(name, "on the device of the images", stack.device()));
            }
        }
        if pairs.templates.layout().dense_at().is_none() {
            return Err(SpecError::new("templates", "no gaps between samples", "strides"));
        }
        let describe = |(dtype, shape, count, device)| format!("{count} results of {dtype} {shape} on device {device}");
        let expected = (spec.out_type(), spec.out_shape(), count, pairs.images.device());
        if out.about() != expected {
            return Err(SpecError::of(Kind::DimsMismatch, "out", describe(expected), describe(out.about())));
        }
        Ok(())
    }

    /// Counts, shapes and types; values are looked at when their turn comes.
    fn check(&self, images: &[AnyView<'_>], templates: &[AnyView<'_>]) -> Result<(), SpecError> {
        let spec = self.plan.spec();
        if spec.images() != 0 && images.len() != spec.images() {
            return Err(SpecError::of(Kind::DimsMismatch, "images", counted(spec.images(), "image"), images.len()));
        }
        if templates.len() != images.len() {
            let expected = format!("{}, one for each image", counted(images.len(), "template"));
            return Err(SpecError::of(Kind::DimsMismatch, "templates", expected, templates.len()));
        }
        for (number, (image, template)) in images.iter().zip(templates).enumerate() {
            let fits = |name: &str, view, shape, dtype| {
                template::check_view(name, view, shape, dtype, spec.channels())
                    .map_err(|error| SpecError { argument: format!("{name} {number}"), ..error })
            };
            fits("image", image, spec.image(), spec.image_type())?;
            fits("template", template, spec.template(), spec.template_type())?;
        }
        Ok(())
    }
}

/// Views of results that lie one after the other.
fn split<'a, T>(spec: &Spec, results: &'a mut [T]) -> Result<Vec<AnyViewMut<'a>>, SpecError>
where
    AnyViewMut<'a>: From<ViewMut<'a, T>>,
{
    let shape = spec.out_shape();
    results.chunks_exact_mut(shape.len()).map(|result| Ok(ViewMut::new(result, shape)?.into())).collect()
}
