//! Matching under a mask of the image: some of its samples are unknown, and what they hold does not matter.
//!
//! Every sum goes over what the template's mask and the image's leave together, so the template's mean and norm differ
//! from panel to panel. The sums are correlations of masked images in f64, by plans of their own, block by block;
//! bounds of their errors say which scores they leave in doubt, and those are computed panel by panel
//! (`docs/numerics.md`).
//! Memory is that of a few blocks for each thread. Source: Padfield, "Masked Object Registration in the Fourier
//! Domain", 2012.

mod block;
mod judge;
mod panel;
mod prepared;
mod windows;

use std::sync::{Mutex, PoisonError};

use flcc_core::boundary::Boundary;
use flcc_core::error::{ExecError, Kind, PlanError, SpecError};
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::spec::{Accuracy, Spec};
use flcc_core::view::{AnyView, AnyViewMut, AsImage};

use crate::call::masked::block::Worker;
use crate::call::masked::prepared::Problem;
use crate::plan::settings::Planner;
use crate::problem::template::{self, mask_kind};
use crate::run::execute::{Control, Statistics};
use crate::run::workers;

/// What [`match_masked`] may be told.
#[derive(Clone, Copy, Debug)]
pub struct MaskedOptions<'a> {
    /// Weights of the template's samples, of its shape, finite and `>= 0`; all are 1 without it. Of a [`View`] or an
    /// image it is `Some(view.into())` or `Some(image.view())`.
    ///
    /// [`View`]: crate::View
    pub mask: Option<AnyView<'a>>,
    /// Which places; valid by default.
    pub mode: Mode,
    /// What lies outside the image. The rules that repeat samples repeat their weights; zeros and constants outside are
    /// known, with weight 1.
    pub boundary: Boundary,
    /// Whether samples outside are unknown instead, whatever the boundary. The same as an image that is longer at all
    /// sides, and a mask that is 0 there.
    pub outside_unknown: bool,
    /// The share, 0 to 1, of the template's weights that a panel needs: where the sum of its weights is less, the
    /// normalised measures have their degenerate value. Shares that differ by less than 1e-9 are equal.
    pub min_overlap: f64,
}

impl Default for MaskedOptions<'_> {
    fn default() -> Self {
        MaskedOptions {
            mask: None,
            mode: Mode::Valid,
            boundary: Boundary::Zero,
            outside_unknown: false,
            min_overlap: 0.0,
        }
    }
}

/// The scores of a template in an image of which some samples are unknown: those where `image_mask` is 0. What they
/// hold, NaN included, does not matter.
///
/// `m >= 0` is the image's mask, of its shape, with one channel: 0 and 1 or finite weights. A panel at `b` has the
/// weights `w_b[k] = w[k] m[b + k]`, with `w` the template's mask, and `mean` is taken under them, of the template too:
///
/// | measure | score | range, unit | nothing known, or degenerate |
/// |---|---|---|---|
/// | cc | `sum w_b P t` | image times template | 0 |
/// | ncc | `sum w_b P t / sqrt(sum w_b P^2 sum w_b t^2)` | `[-1, 1]` | image or template zero: 0 |
/// | zncc | ncc of `P` and `t` less their means under `w_b` | `[-1, 1]` | image or template constant: 0 |
/// | ssd | `sum w_b (P - t)^2` | square of a sample | 0 |
/// | nssd | `min(1, ssd / sqrt(sum w_b P^2 sum w_b t^2))` | `[0, 1]` | image or template zero: 1 |
/// | sad | `sum w_b abs(P - t)` | a sample | 0 |
///
/// Zero, constant and unknown are said of the samples whose `w_b` is positive, and decided exactly. Few known samples
/// agree with anything: `min_overlap` gives panels with too few the value in the last column (not sums). A mask of ones
/// is the same as none. NaN and infinities under a positive `w_b` make the score NaN, however few samples are known.
///
/// Shapes, type of the result and position of a score are those of [`match_template`](crate::match_template) and of the
/// mode, and so is the error of ncc, zncc and nssd: within 1e-5 (f32 results) or 1e-11 (f64) of the exact value for
/// every finite image. Sums are taken in f64: each of their terms, `sum w_b P t`, `sum w_b P^2` and `sum w_b t^2`, is
/// off by `2 (16 + sqrt(n)) 2^-53 |a| |b|` at most, with the norms of the two arrays whose products it adds up, of the
/// image's that of the largest panel near by, and the result is rounded once to its type. Of 8- and 16-bit samples,
/// masks of 0 and 1 and whole samples of the type outside, sums are integers, rounded to the exact ones where that is
/// less than 1/4.
///
/// ```
/// use flcc_runtime::{MaskedOptions, Measure, Shape, View, match_masked};
///
/// let mut image: Vec<f32> = (0..100).map(|i| (i * 37 % 101) as f32).collect();
/// let (image_shape, template_shape) = (Shape::new(&[10, 10])?, Shape::new(&[3, 3])?);
/// let template = View::new(&image, image_shape)?.part([4, 3], template_shape)?.to_vec();
/// let mut known = vec![1u8; 100];
/// for unknown in [43, 54, 70] {
///     (image[unknown], known[unknown]) = (f32::NAN, 0);
/// }
/// let (image, known) = (View::new(&image, image_shape)?, View::new(&known, image_shape)?);
/// let template = View::new(&template, template_shape)?;
/// let options = MaskedOptions { min_overlap: 0.5, ..MaskedOptions::default() };
/// let map = match_masked(&image, &known, &template, Measure::Zncc, &options)?;
/// assert_eq!(map.shape().lengths(), [8, 8]);
/// assert!((map.get(4 * 8 + 3) - 1.0).abs() < 1e-5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`match_template`](crate::match_template); `image_mask` of another shape than the image or with channels
/// (`MaskShape`), with weights that are negative or not finite (`MaskInvalid`); a positive weight of either mask below
/// 2^-300 of its largest (`MaskInvalid`; f32 has none such); `min_overlap` outside of 0 to 1.
pub fn match_masked(
    image: &impl AsImage,
    image_mask: &impl AsImage,
    template: &impl AsImage,
    measure: Measure,
    options: &MaskedOptions<'_>,
) -> Result<ScoreMap, ExecError> {
    let (image, template, mask) = (image.as_image(), template.as_image(), options.mask.as_ref());
    let kind = mask_kind(mask.map(|mask| mask as _));
    let op = Op::Match(measure);
    let spec = Spec::new(op, image.dtype(), image.shape(), template.dtype(), template.shape(), options.mode)?
        .with_channels(image.channels())?
        .with_mask(kind)?
        .with_boundary(options.boundary)?;
    let masked = Masked {
        image,
        image_mask: Some(image_mask.as_image()),
        templates: &[template],
        mask,
        outside_unknown: options.outside_unknown,
        min_overlap: options.min_overlap,
    };
    let (mut maps, _) = masked.execute(&spec, &Planner::new()?, &Control::default())?;
    Ok(maps.remove(0))
}

/// The arrays of a [`match_masked`] whose problem is a [`Spec`]: for several templates, a region, another type of
/// results, fewer threads.
#[derive(Clone, Copy, Debug)]
pub struct Masked<'a> {
    /// The image.
    pub image: AnyView<'a>,
    /// The weights of the image's samples; all are 1 without them.
    pub image_mask: Option<AnyView<'a>>,
    /// The templates.
    pub templates: &'a [AnyView<'a>],
    /// Their weights.
    pub mask: Option<&'a AnyView<'a>>,
    /// As [`MaskedOptions::outside_unknown`].
    pub outside_unknown: bool,
    /// As [`MaskedOptions::min_overlap`].
    pub min_overlap: f64,
}

impl Masked<'_> {
    /// The result of each template. Of the planner it takes the number of threads and the memory limit, which may allow
    /// fewer threads; it computes on the CPU, by methods of its own choice. A result does not depend on the number of
    /// threads.
    ///
    /// # Errors
    /// As [`match_masked`]; a spec of a convolution, of several images, or of accuracy `exact`; arrays that are not the
    /// spec's; a memory limit below what one thread takes; cancelled.
    pub fn execute(
        &self,
        spec: &Spec,
        planner: &Planner,
        control: &Control<'_>,
    ) -> Result<(Vec<ScoreMap>, Statistics), ExecError> {
        let mut maps: Vec<ScoreMap> = (0..spec.templates()).map(|_| ScoreMap::of(spec)).collect();
        let mut outs: Vec<AnyViewMut<'_>> = maps.iter_mut().map(ScoreMap::view_mut).collect();
        let statistics = self.execute_into(spec, &mut outs, planner, control)?;
        Ok((maps, statistics))
    }

    /// Executes into the caller's results, one for each template.
    ///
    /// # Errors
    /// As [`Masked::execute`], and results of another shape or type than the spec's.
    pub fn execute_into(
        &self,
        spec: &Spec,
        outs: &mut [AnyViewMut<'_>],
        planner: &Planner,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.execute_part(spec, 0.0, outs, planner, control)
    }

    /// Executes as [`Masked::execute_into`] into a part of the result of a larger image, whose weights are at most
    /// `largest`: weights are scaled by that. A block that [`Masked::block`] tells of, with samples outside of the
    /// image as the boundary rule has them, has the bits that it has in the whole.
    ///
    /// # Errors
    /// As [`Masked::execute_into`].
    #[doc(hidden)]
    pub fn execute_part(
        &self,
        spec: &Spec,
        largest: f64,
        outs: &mut [AnyViewMut<'_>],
        planner: &Planner,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        self.check(spec, outs)?;
        let (checked, _) = template::check(spec, self.templates, self.mask)?;
        if checked.iter().any(|template| template.nonfinite) {
            return Err(SpecError::of(Kind::NonfiniteTemplate, "template", "finite values", "others").into());
        }
        let masks = (self.min_overlap, self.outside_unknown);
        let problem = Problem::new(spec, (self.image, self.image_mask), self.mask, masks, largest)?;
        let of_workers = planner.of_a_worker();
        let blocks = problem.blocks().iter().product::<usize>();
        let threads = threads(spec, planner, blocks)?;
        let (count, mut statistics) = (checked.len(), Statistics::default());
        let of_all =
            |number: usize, done: usize| ExecError::Cancelled { done: number * blocks + done, total: count * blocks };
        for (number, (checked, out)) in checked.into_iter().zip(outs).enumerate() {
            let template = problem.template(checked, &of_workers)?;
            let mut workers: Vec<Worker<'_>> = (0..threads).map(|_| Worker::new(&problem, &template)).collect();
            let (failed, out) = (Mutex::new(None), Mutex::new(out));
            let tell = |done: usize, total: usize| {
                if let Some(progress) = control.progress {
                    progress(number * total + done, count * total);
                }
            };
            let control = Control { progress: Some(&tell), ..*control };
            let done = workers::run(&mut workers, blocks, &control, |block, worker| {
                let begun = failed.lock().unwrap_or_else(PoisonError::into_inner).is_none();
                match begun.then(|| worker.run(block, &out, control.cancel)) {
                    Some(Ok(statistics)) => return statistics,
                    Some(Err(error)) => _ = failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error),
                    None => {}
                }
                Statistics::default()
            });
            match (failed.into_inner().unwrap_or_else(PoisonError::into_inner), done) {
                (None, Ok(done)) => statistics.add(done),
                (None, Err(ExecError::Cancelled { done, .. })) => return Err(of_all(number, done)),
                (Some(ExecError::Cancelled { .. }), _) => return Err(of_all(number, 0)),
                (Some(error), _) | (None, Err(error)) => return Err(error),
            }
        }
        Ok(statistics)
    }

    /// How many results a block has along each axis, from the first result on, that is computed from its own samples:
    /// as many more of them as the template has, less one. What a last block has beyond the result repeats the last
    /// sample that is looked at.
    ///
    /// # Errors
    /// Shapes that are too large for any.
    #[doc(hidden)]
    pub fn block(spec: &Spec) -> Result<Shape, SpecError> {
        prepared::block(spec.out_shape(), spec.template())
    }

    /// About how many bytes an execution takes above image, masks and results: of as many threads as the planner has,
    /// or as its memory limit allows.
    ///
    /// # Errors
    /// Shapes that are too large for any.
    pub fn bytes(spec: &Spec, planner: &Planner) -> Result<usize, SpecError> {
        let of_worker = prepared::bytes(spec)?;
        let workers = threads(spec, planner, prepared::blocks(spec)?).unwrap_or(1);
        Ok(of_worker.saturating_mul(workers))
    }

    /// What is wrong with a call, but for templates and masks.
    fn check(&self, spec: &Spec, outs: &[AnyViewMut<'_>]) -> Result<(), SpecError> {
        if spec.op() == Op::Convolve {
            return Err(SpecError::new("image_mask", "none for conv (corr takes one)", "a mask"));
        }
        if spec.accuracy() == Accuracy::Exact {
            let expected = "promised or fast with a mask of the image";
            return Err(SpecError::of(Kind::NotExact, "accuracy", expected, spec.accuracy()));
        }
        if spec.images() > 1 || spec.pairs() {
            return Err(SpecError::new("image_mask", "one image, as the mask is of one", spec));
        }
        if !(0.0..=1.0).contains(&self.min_overlap) {
            return Err(SpecError::new("min_overlap", "a share from 0 to 1", self.min_overlap));
        }
        template::check_view("image", &self.image, spec.image(), spec.image_type(), spec.channels())?;
        let wrong = |out: &AnyViewMut<'_>| out.shape() != spec.out_shape() || out.dtype() != spec.out_type();
        if outs.len() != spec.templates() || outs.iter().any(wrong) {
            let expected = format!("{} of {} {}", spec.templates(), spec.out_type(), spec.out_shape());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, format!("{} others", outs.len())));
        }
        Ok(())
    }
}

/// How many threads share so many blocks: as many as the planner has and its memory limit allows.
fn threads(spec: &Spec, planner: &Planner, blocks: usize) -> Result<usize, PlanError> {
    let (threads, needed) = (planner.threads.clamp(1, blocks.max(1)), prepared::bytes(spec)?);
    match planner.memory_limit {
        Some(limit) if needed > limit => Err(PlanError::Memory { needed, limit }),
        Some(limit) => Ok(threads.min(limit / needed.max(1))),
        None => Ok(threads),
    }
}
