//! Templates that may stand turned and scaled in an image.

use flcc_core::error::{ExecError, Kind, SpecError};
use flcc_core::extent::{Mode, Region};
use flcc_core::image::Image;
use flcc_core::measure::{Best, Measure};
use flcc_core::op::Op;
use flcc_core::peaks::{Claims, Peak, PeakOptions, Shortlist, exclusive};
use flcc_core::pose::{Pose, Posed, Poses};
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AsImage};

use crate::plan::matcher::Matcher;
use crate::plan::planned::Plan;
use crate::plan::settings::Planner;
use crate::plan::solver::Platform;
use crate::problem::template::mask_kind;
use crate::run::execute::{CancelToken, Control, Statistics};
use crate::run::workers;

/// What [`find_posed`] may be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosedOptions<'a> {
    /// Weights of the template's samples, of its shape: 0 and 1 or others, finite and `>= 0`. A disc makes all angles
    /// alike; without a mask all samples between the template's outer ones count.
    pub mask: Option<AnyView<'a>>,
    /// Which peaks: `top` of all poses together. `min_distance` is between the middles of any two, by default half the
    /// template's smallest side.
    pub peaks: PeakOptions,
    /// Degrees: each peak's pose is then looked for between those that were asked for, in steps halved until they are
    /// no larger than this, scales alike.
    pub finest: Option<f64>,
}

/// A place where a template was found, and how it stands there.
#[derive(Clone, Debug, PartialEq)]
pub struct PosedPeak {
    /// The first sample of the box around the turned template, its refined place, and the score there.
    pub peak: Peak,
    /// The shape of that box.
    pub shape: Shape,
    /// How the template stands there.
    pub pose: Pose,
}

impl PosedPeak {
    /// Where the template's middle lies, slowest axis first, below a sample where places were refined.
    pub fn middle(&self) -> Vec<f64> {
        let place = self.peak.refined.clone();
        let place = place.unwrap_or_else(|| self.peak.position.iter().map(|&at| at as f64).collect());
        place.iter().zip(self.shape.lengths()).map(|(at, &length)| at + (length - 1) as f64 / 2.0).collect()
    }
}

/// The places where a template stands in an image in any of some poses, best first.
///
/// They are the peaks of each pose's scores, of which those near a better one of another pose that stays are left out,
/// as [`exclusive`] does it. So a place beside a better one of its own pose is none, even where that is left out.
///
/// The score of a place and a pose is that of [`match_template`](crate::match_template) with the template and the mask
/// that [`Pose::of`] makes, and so is its error. Every pose is computed at every place where all of it lies inside the
/// image. Poses that are larger than the image are left out; [`PosedMatcher::left_out`] counts them. The measure is a
/// normalised one, since sums over more samples are larger.
///
/// ```
/// use flcc_runtime::pose::Poses;
/// use flcc_runtime::{Measure, PeakOptions, PosedOptions, Shape, View, find_posed};
///
/// let image: Vec<u8> = (0..900u32).map(|i| (i * i).wrapping_mul(2_654_435_761).rotate_left(8) as u8).collect();
/// let image = View::new(&image, Shape::new(&[30, 30])?)?;
/// // As it stands in the image, turned back by a quarter.
/// let part = image.part([7, 11], Shape::new(&[8, 8])?)?;
/// let template: Vec<u8> = (0..64).map(|i| part.at([0, i % 8, 7 - i / 8])).collect();
/// let template = View::new(&template, Shape::new(&[8, 8])?)?;
///
/// let peaks = PeakOptions { top: Some(1), ..PeakOptions::default() };
/// let best = PosedOptions { peaks, ..PosedOptions::default() };
/// let poses = Poses::grid(&[0.0, 90.0, 180.0, 270.0], &[1.0])?;
/// let found = &find_posed(&image, &template, &poses, Measure::Zncc, &best)?[0];
/// assert_eq!((found.peak.position.as_slice(), found.pose.angle()), ([7, 11].as_slice(), 270.0));
/// assert!((found.peak.score - 1.0).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`match_template`](crate::match_template); a measure that is not normalised, no pose that fits in the image, a
/// step that is not positive.
pub fn find_posed(
    image: &impl AsImage,
    template: &impl AsImage,
    poses: &Poses,
    measure: Measure,
    options: &PosedOptions<'_>,
) -> Result<Vec<PosedPeak>, ExecError> {
    let (image, template) = (image.as_image(), template.as_image());
    let op = Op::Match(measure);
    let spec = Spec::new(op, image.dtype(), image.shape(), template.dtype(), template.shape(), Mode::Valid)?
        .with_channels(image.channels())?;
    let matcher = Planner::new()?.posed(&spec, &template, options.mask.as_ref(), poses)?;
    matcher.search(&image, options, &Control::default())
}

/// A template in all poses of some, planned: made once, for any number of images.
pub struct PosedMatcher {
    planner: Planner,
    /// The problem of the template as it is.
    spec: Spec,
    template: Image,
    mask: Option<Image>,
    poses: Poses,
    members: Vec<Member>,
    left_out: usize,
    /// How many poses are computed side by side, each by one thread.
    side_by_side: usize,
}

/// A pose of a template.
struct Member {
    pose: Pose,
    plan: Plan,
}

impl Planner {
    /// A template in some poses, for images of a spec: of mode valid, a normalised measure and one template, without a
    /// region. Its mask is that of the spec's template.
    ///
    /// # Errors
    /// A spec that is another, a template or a mask that is not the spec's, no pose that fits in the image; what
    /// [`Planner::plan`] and [`Plan::bind`] refuse.
    pub fn posed(
        &self,
        spec: &Spec,
        template: &AnyView<'_>,
        mask: Option<&AnyView<'_>>,
        poses: &Poses,
    ) -> Result<PosedMatcher, ExecError> {
        self.posed_with(spec, template, mask, poses, &Control::default())
    }

    /// As [`Planner::posed`], which of thousands of poses takes seconds, until it is cancelled. No progress is told.
    ///
    /// # Errors
    /// As [`Planner::posed`], or cancelled.
    pub fn posed_with(
        &self,
        spec: &Spec,
        template: &AnyView<'_>,
        mask: Option<&AnyView<'_>>,
        poses: &Poses,
        control: &Control<'_>,
    ) -> Result<PosedMatcher, ExecError> {
        let one = spec.mode() == Mode::Valid && spec.roi().is_none() && spec.templates() == 1 && !spec.pairs();
        if !one {
            return Err(SpecError::new("spec", "one template in mode valid without a region", spec).into());
        }
        if !spec.op().measure().row().normalised {
            let expected = "a normalised measure for poses: zncc, ncc or nssd";
            return Err(SpecError::new("measure", expected, spec.op().measure()).into());
        }
        if template.shape() != spec.template() || template.channels() != spec.channels() {
            let expected = format!("{} in {} channels", spec.template(), spec.channels());
            let got = format!("{} in {} channels", template.shape(), template.channels());
            return Err(SpecError::of(Kind::DimsMismatch, "template", expected, got).into());
        }
        let owned = |view: &AnyView<'_>| Image::of(view.to_pixels(), view.shape(), view.channels());
        let mut matcher = PosedMatcher {
            planner: self.clone(),
            spec: spec.clone(),
            template: owned(template)?,
            mask: mask.map(owned).transpose()?,
            poses: poses.clone(),
            members: Vec::new(),
            left_out: 0,
            side_by_side: 1,
        };
        // What is wrong with the template or its mask is told as of any match.
        let mask_of_all = matcher.mask.as_ref().map(|mask| mask as &dyn AsImage);
        let whole = self.plan(&spec.clone().with_mask(mask_kind(mask_of_all))?)?;
        whole.bind(&[matcher.template.view()], mask_of_all)?;
        let weights = mask.map(AnyView::to_f64);
        let quiet = Control { progress: None, ..*control };
        let specs = each(self.threads, poses.all().len(), &quiet, |number| {
            let pose = poses.all()[number];
            match pose.is_larger(spec.template(), weights.as_deref(), spec.image()) {
                true => Ok(None),
                false => Ok(matcher.spec_of(&matcher.posed(pose)?)?),
            }
        })?;
        // With few poses all threads share one after the other, as those of a GPU do.
        let alone = self.clone().threads(1).platform(Platform::Cpu);
        let many = self.memory_limit.is_none() && specs.len() >= 2 * self.threads;
        for (&pose, spec) in poses.all().iter().zip(specs) {
            go_on(control, matcher.members.len(), poses.all().len())?;
            let Some(spec) = spec else {
                matcher.left_out += 1;
                continue;
            };
            if matcher.members.is_empty() && many && self.plan(&spec)?.platform() == Platform::Cpu {
                matcher.side_by_side = self.threads;
            }
            // None of those side by side may wait for threads that others have.
            let plan = if matcher.side_by_side > 1 { alone.plan(&spec)? } else { self.plan(&spec)? };
            matcher.members.push(Member { pose, plan });
        }
        if matcher.members.is_empty() {
            let got = format!("{} poses of {}, all larger", matcher.left_out, spec.template());
            let expected = format!("a pose that fits in the image, {}", spec.image());
            return Err(SpecError::of(Kind::TemplateLargerThanImage, "poses", expected, got).into());
        }
        Ok(matcher)
    }
}

impl PosedMatcher {
    /// How many poses are looked for.
    pub fn poses(&self) -> usize {
        self.members.len()
    }

    /// How many were left out, since they are larger than the image.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The places where the template is found in an image, best first, as [`find_posed`] tells them. The mask is the
    /// matcher's.
    ///
    /// # Errors
    /// An image that is not the spec's, a step that is not positive, or cancelled.
    pub fn search(
        &self,
        image: &AnyView<'_>,
        options: &PosedOptions<'_>,
        control: &Control<'_>,
    ) -> Result<Vec<PosedPeak>, ExecError> {
        if let Some(finest) = options.finest.filter(|finest| finest.is_nan() || *finest <= 0.0) {
            return Err(SpecError::new("finest", "degrees above 0", finest).into());
        }
        if let (Some(finest), [0.0, 0.0]) = (options.finest, self.poses.step()) {
            let expected = "none of poses that have one angle and one scale: nothing lies between";
            return Err(SpecError::new("finest", expected, finest).into());
        }
        let top = options.peaks.top;
        let distance = options.peaks.distance(Some(self.spec.template()));
        let mut list =
            Shortlist::new(PeakOptions { min_distance: Some(distance), ..options.peaks }, self.members.len());
        let mut found = loop {
            let mut peaks = self.peaks(image, &list.options(), control)?;
            let claims = self.members.iter().zip(&mut peaks);
            let mut claims: Vec<Claims<'_>> =
                claims.map(|(member, peaks)| Claims::new(member.plan.spec(), &list.options(), peaks)).collect();
            if exclusive(&mut claims, top) {
                break peaks;
            }
            list = list.longer();
        };
        let of_member = |(member, peaks): (&Member, &mut Vec<Peak>)| {
            let (pose, shape) = (member.pose, member.plan.spec().template());
            std::mem::take(peaks).into_iter().map(move |peak| PosedPeak { peak, shape, pose }).collect::<Vec<_>>()
        };
        let mut all: Vec<PosedPeak> = self.members.iter().zip(&mut found).flat_map(of_member).collect();
        self.sort(&mut all);
        all.truncate(top.unwrap_or(usize::MAX));
        if let Some(finest) = options.finest {
            let count = all.len();
            for (number, peak) in all.iter_mut().enumerate() {
                go_on(control, number, count)?;
                self.refine(image, peak, finest, &options.peaks)?;
            }
            self.sort(&mut all);
            // They may have come near each other.
            let apart = distance as f64;
            let near =
                |a: &PosedPeak, b: &PosedPeak| a.middle().iter().zip(b.middle()).all(|(a, b)| (a - b).abs() <= apart);
            let mut kept: Vec<PosedPeak> = Vec::with_capacity(all.len());
            for peak in all {
                if !kept.iter().any(|other| near(other, &peak)) {
                    kept.push(peak);
                }
            }
            all = kept;
        }
        Ok(all)
    }

    /// The peaks of each pose.
    fn peaks(
        &self,
        image: &AnyView<'_>,
        options: &PeakOptions,
        control: &Control<'_>,
    ) -> Result<Vec<Vec<Peak>>, ExecError> {
        let poses = self.members.len();
        let of_pose = |number: usize, control: &Control<'_>| -> Result<Vec<Peak>, ExecError> {
            let Member { pose, plan } = &self.members[number];
            // Bound for the time being: with its spectra and scratch a pose may take tens of megabytes.
            let Some(bound) = self.bound(plan, &self.posed(*pose)?)? else { return Ok(Vec::new()) };
            let (mut found, _) = bound.search(&[*image], options, false, control)?;
            Ok(found.swap_remove(0).peaks)
        };
        let quiet = Control { progress: None, ..*control };
        if self.side_by_side > 1 {
            return each(self.side_by_side, poses, control, |number| of_pose(number, &quiet));
        }
        let one_by_one = (0..poses).map(|number| {
            // Parts of poses are told in thousandths.
            let tell = |done: usize, of: usize| {
                if let Some(tell) = control.progress {
                    tell(number * 1000 + done * 1000 / of.max(1), poses * 1000);
                }
            };
            of_pose(number, &Control { progress: Some(&tell), ..quiet })
        });
        one_by_one.collect()
    }

    /// Best first; equals in the order of poses, and of positions.
    fn sort(&self, peaks: &mut [PosedPeak]) {
        let largest = self.spec.op().best() == Best::Largest;
        peaks.sort_by(|a, b| {
            let [a, b] = [a, b].map(|peak| peak.peak.score);
            if largest { b.total_cmp(&a) } else { a.total_cmp(&b) }
        });
    }

    fn posed(&self, pose: Pose) -> Result<Posed, SpecError> {
        pose.of(&self.template.view(), self.mask.as_ref().map(Image::view).as_ref())
    }

    /// The problem of a pose; none where it is larger than the image.
    fn spec_of(&self, posed: &Posed) -> Result<Option<Spec>, SpecError> {
        let (spec, template) = (&self.spec, &posed.template);
        let larger = |(template, image): (usize, usize)| template > image;
        if template.shape().padded().into_iter().zip(spec.image().padded()).any(larger) {
            return Ok(None);
        }
        let mask = posed.mask.as_ref().map(|mask| mask as &dyn AsImage);
        Spec::new(spec.op(), spec.image_type(), spec.image(), template.dtype(), template.shape(), Mode::Valid)?
            .with_channels(spec.channels())?
            .with_out_type(spec.out_type())?
            .with_mask(mask_kind(mask))?
            .with_accuracy(spec.accuracy())
            .map(Some)
    }

    /// A pose of the template bound to its plan; none where the few samples that are left of it are all equal, or zero:
    /// then it is nowhere.
    fn bound(&self, plan: &Plan, posed: &Posed) -> Result<Option<Matcher>, ExecError> {
        match bind(plan, posed) {
            Err(ExecError::Spec(error)) if [Kind::ConstantTemplate, Kind::ZeroTemplate].contains(&error.kind) => {
                Ok(None)
            }
            bound => bound.map(Some),
        }
    }

    /// Moves a peak to the best pose near by, in steps halved until the angle's are no larger than `finest`.
    fn refine(
        &self,
        image: &AnyView<'_>,
        peak: &mut PosedPeak,
        finest: f64,
        options: &PeakOptions,
    ) -> Result<(), ExecError> {
        let [mut angle, mut scale] = self.poses.step();
        // Of scales alone steps are halved as often as those of a degree would be.
        let mut of_angle = if angle > 0.0 { angle } else { 1.0 };
        while of_angle > finest && (angle > 0.0 || scale > 0.0) {
            (of_angle, angle, scale) = (of_angle / 2.0, angle / 2.0, scale / 2.0);
            let from = peak.pose;
            for [turned, scaled] in [[angle, 0.0], [-angle, 0.0], [0.0, scale], [0.0, -scale]] {
                let Ok(pose) = Pose::new(from.angle() + turned, from.scale() + scaled) else { continue };
                if pose != from
                    && self.poses.has_between(&pose)
                    && let Some(other) = self.near(image, peak, pose, options)?
                    && self.better(&other, peak)
                {
                    *peak = other;
                }
            }
        }
        Ok(())
    }

    fn better(&self, one: &PosedPeak, other: &PosedPeak) -> bool {
        let (one, other) = (one.peak.score, other.peak.score);
        if self.spec.op().best() == Best::Largest { one > other } else { one < other }
    }

    /// The best place of a pose whose middle is that of a peak, or up to two samples away on any axis; none where it
    /// lies outside.
    fn near(
        &self,
        image: &AnyView<'_>,
        peak: &PosedPeak,
        pose: Pose,
        options: &PeakOptions,
    ) -> Result<Option<PosedPeak>, ExecError> {
        // One that leaves no sample of a small template is nowhere.
        let Ok(posed) = self.posed(pose) else { return Ok(None) };
        let Some(spec) = self.spec_of(&posed)? else { return Ok(None) };
        let (all, shape) = (spec.region(), posed.template.shape());
        let (places, is, was) = (all.shape.padded(), shape.padded(), peak.shape.padded());
        let missing = 3 - peak.peak.position.len();
        let (mut origin, mut sides) = (all.origin, [1; 3]);
        for axis in missing..3 {
            // Of the box whose middle lies there, rounded to the sample before.
            let middle = 2 * peak.peak.position[axis - missing] + was[axis];
            let first = (middle as i64 - is[axis] as i64).div_euclid(2);
            // An axis of one place has no border.
            let border = if places[axis] > 1 { i64::try_from(options.exclude_border).unwrap_or(i64::MAX) } else { 0 };
            let from = (first - NEAR).max(border) as usize;
            let to = (first + NEAR + 1).clamp(0, (places[axis] as i64 - border).max(0)) as usize;
            if from >= to {
                return Ok(None);
            }
            (origin[axis], sides[axis]) = (all.origin[axis] + from, to - from);
        }
        let region = Region { origin, shape: shape.with_padded(sides)? };
        let plan = self.planner.plan(&spec.with_roi(Some(region))?)?;
        let Some(bound) = self.bound(&plan, &posed)? else { return Ok(None) };
        let map = bound.execute(&[*image])?.swap_remove(0);
        let best = PeakOptions {
            top: Some(1),
            threshold: None,
            exclude_border: 0,
            min_distance: Some(2 * NEAR as usize),
            subpixel: options.subpixel,
        };
        let Some(mut found) = crate::call::peaks::find_peaks(&map, &best).into_iter().next() else { return Ok(None) };
        for (axis, at) in found.position.iter_mut().enumerate() {
            let from = origin[axis + missing] - all.origin[axis + missing];
            *at += from;
            if let Some(refined) = &mut found.refined {
                refined[axis] += from as f64;
            }
        }
        Ok(Some(PosedPeak { peak: found, shape, pose }))
    }
}

/// How many samples a pose between two may stand beside either of them.
const NEAR: i64 = 2;

/// Refuses to go on where a control was cancelled, after so many of all.
fn go_on(control: &Control<'_>, done: usize, total: usize) -> Result<(), ExecError> {
    match control.cancel.is_some_and(CancelToken::is_cancelled) {
        true => Err(ExecError::Cancelled { done, total }),
        false => Ok(()),
    }
}

/// What `of` makes of each number up to a count, by so many threads.
fn each<T: Send>(
    threads: usize,
    count: usize,
    control: &Control<'_>,
    of: impl Fn(usize) -> Result<T, ExecError> + Sync,
) -> Result<Vec<T>, ExecError> {
    let mut workers: Vec<Vec<(usize, Result<T, ExecError>)>> =
        (0..threads.clamp(1, count.max(1))).map(|_| Vec::new()).collect();
    workers::run(&mut workers, count, control, |number, made| {
        made.push((number, of(number)));
        Statistics::default()
    })?;
    let mut all: Vec<_> = workers.into_iter().flatten().collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, made)| made).collect()
}

fn bind(plan: &Plan, posed: &Posed) -> Result<Matcher, ExecError> {
    plan.bind(&[posed.template.view()], posed.mask.as_ref().map(|mask| mask as &dyn AsImage))
}

#[cfg(test)]
mod tests {
    use flcc_core::dtype::Pixels;

    use super::*;
    use crate::call::oneshot::match_template;
    use crate::call::peaks::find_peaks;

    /// Waves of several directions, none of which is the same turned.
    fn scene(y: f64, x: f64) -> f64 {
        100.0
            + 30.0 * (0.31 * x + 0.11 * y).sin()
            + 25.0 * (0.23 * y - 0.37 * x + 1.0).cos()
            + 20.0 * (0.05 * x * y * 0.1 + 0.17 * y).sin()
    }

    fn image(lengths: &[usize], of: impl Fn(f64, f64) -> f64) -> Image {
        let shape = Shape::new(lengths).unwrap();
        let [_, height, width] = shape.padded();
        let values = (0..height).flat_map(|y| (0..width).map(move |x| [y as f64, x as f64])).map(|[y, x]| of(y, x));
        Image::of(Pixels::F64(values.collect()).cast(flcc_core::dtype::DType::F32), shape, 1).unwrap()
    }

    /// What stands turned about a place of the scene, as a template of its own.
    fn template(sides: [usize; 2], middle: [f64; 2], pose: Pose) -> Image {
        let half = sides.map(|side| (side - 1) as f64 / 2.0);
        image(&sides, |y, x| {
            let [_, v, u] = pose.place([0.0, y - half[0], x - half[1]]);
            scene(middle[0] + v, middle[1] + u)
        })
    }

    fn options(top: usize) -> PosedOptions<'static> {
        PosedOptions { peaks: PeakOptions { top: Some(top), ..PeakOptions::default() }, ..PosedOptions::default() }
    }

    #[test]
    fn a_turned_and_scaled_object_is_found_with_its_pose() {
        let image = image(&[120, 130], scene);
        let poses =
            Poses::grid(&flcc_core::pose::steps("angles", [0.0, 360.0, 6.0], Some(360.0)).unwrap(), &[0.8, 1.0, 1.25])
                .unwrap();
        for (angle, scale, middle) in
            [(37.0, 1.0, [60.0, 64.0]), (201.0, 1.25, [50.0, 70.0]), (300.0, 0.8, [75.5, 40.5])]
        {
            let pose = Pose::new(angle, scale).unwrap();
            let template = template([25, 31], middle, pose);
            let found = find_posed(&image, &template, &poses, Measure::Zncc, &options(1)).unwrap();
            let [found] = &found[..] else { panic!("{found:?}") };
            assert!((found.pose.angle() - angle).abs() <= 3.0 && found.pose.scale() == scale, "{found:?}");
            let fine = PosedOptions {
                finest: Some(0.2),
                peaks: PeakOptions {
                    top: Some(1),
                    subpixel: Some(flcc_core::subpixel::Subpixel::Quadratic),
                    ..PeakOptions::default()
                },
                ..PosedOptions::default()
            };
            let found = &find_posed(&image, &template, &poses, Measure::Zncc, &fine).unwrap()[0];
            assert!(poses.has_between(&found.pose));
            let off = (found.pose.angle() - angle).abs();
            assert!(off <= 0.2 && (found.pose.scale() / scale - 1.0).abs() < 0.02, "{angle} {scale}: {found:?}");
            // Less than 1: places are half a sample off on an axis.
            assert!(found.peak.score > 0.98, "{found:?}");
            let at = found.middle();
            assert!(at.iter().zip(middle).all(|(at, middle)| (at - middle).abs() < 0.25), "{middle:?}: {at:?}");
        }
    }

    #[test]
    fn peaks_are_the_best_of_all_poses_maps() {
        let image = image(&[50, 60], scene);
        let template = image.part([10, 20], Shape::new(&[9, 12]).unwrap()).unwrap();
        let disc = |y: f64, x: f64| f64::from(u8::from((y - 4.0).hypot(x - 5.5) < 5.0));
        let disc = self::image(&[9, 12], disc);
        let poses = Poses::grid(&[0.0, 25.0, 90.0, 140.0], &[0.75, 1.0]).unwrap();
        for mask in [None, Some(disc.view())] {
            let options = PosedOptions { mask, ..options(6) };
            let found = find_posed(&image, &template, &poses, Measure::Zncc, &options).unwrap();
            // All places of all poses, best first, of which each takes those near it away.
            let mut all = Vec::new();
            for &pose in poses.all() {
                let posed = pose.of(&template.view(), mask.as_ref()).unwrap();
                let mask = posed.mask.as_ref().map(|mask| mask as &dyn AsImage);
                let map = match_template(&image, &posed.template, mask, Measure::Zncc).unwrap();
                let every = PeakOptions { min_distance: Some(4), ..PeakOptions::default() };
                let shape = posed.template.shape();
                all.extend(find_peaks(&map, &every).into_iter().map(|peak| PosedPeak { peak, shape, pose }));
            }
            all.sort_by(|a, b| b.peak.score.total_cmp(&a.peak.score));
            let mut expected: Vec<PosedPeak> = Vec::new();
            for peak in all {
                let near = |other: &PosedPeak| {
                    let [a, b] = [peak.middle(), other.middle()];
                    other.pose != peak.pose && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 4.0)
                };
                if !expected.iter().any(near) {
                    expected.push(peak);
                }
            }
            expected.truncate(6);
            assert_eq!(found, expected);
            assert_eq!((found[0].pose.angle(), found[0].peak.position.as_slice()), (0.0, [10, 20].as_slice()));
        }
    }

    #[test]
    fn poses_beyond_the_image_are_left_out_and_mistakes_are_told() {
        let image = image(&[20, 40], scene);
        let template = image.part([0, 5], Shape::new(&[5, 30]).unwrap()).unwrap();
        let spec: Spec = "zncc:f32:20x40*5x30:valid".parse().unwrap();
        let planner = Planner::new().unwrap();
        let turned = Poses::grid(&[0.0, 90.0, 10.0], &[1.0]).unwrap();
        let matcher = planner.posed(&spec, &template.view(), None, &turned).unwrap();
        assert_eq!((matcher.poses(), matcher.left_out()), (2, 1));
        let found = matcher.search(&image.view(), &options(1), &Control::default()).unwrap();
        assert_eq!(found[0].peak.position, [0, 5]);
        let error = |error: ExecError| error.to_string();
        let up = Poses::grid(&[90.0], &[1.0]).unwrap();
        let none = planner.posed(&spec, &template.view(), None, &up).map(|_| ()).unwrap_err();
        assert!(error(none).contains("poses: expected a pose that fits in the image, 20x40"));
        let sums = find_posed(&image, &template, &turned, Measure::Ssd, &options(1)).unwrap_err();
        assert!(error(sums).contains("measure: expected a normalised measure"));
        let token = CancelToken::new();
        token.cancel();
        let cancelled = Control { cancel: Some(&token), ..Control::default() };
        let stopped = planner.posed_with(&spec, &template.view(), None, &turned, &cancelled).map(|_| ());
        assert!(matches!(stopped, Err(ExecError::Cancelled { .. })), "{stopped:?}");
        let full: Spec = "zncc:f32:20x40*5x30:full".parse().unwrap();
        assert!(planner.posed(&full, &template.view(), None, &turned).is_err());
        let finest = PosedOptions { finest: Some(0.0), ..options(1) };
        let wrong = matcher.search(&image.view(), &finest, &Control::default()).unwrap_err();
        assert!(error(wrong).contains("finest: expected degrees above 0"));
        let single = Poses::grid(&[0.0], &[1.0]).unwrap();
        let single = planner.posed(&spec, &template.view(), None, &single).unwrap();
        let between = PosedOptions { finest: Some(0.1), ..options(1) };
        let wrong = single.search(&image.view(), &between, &Control::default()).unwrap_err();
        assert!(error(wrong).contains("finest: expected none of poses that have one angle and one scale"));
        // Far too large a pose is not made to be left out, and one of equal samples is nowhere.
        let huge = Poses::grid(&[0.0, 45.0], &[1.0, 64.0]).unwrap();
        assert_eq!(planner.posed(&spec, &template.view(), None, &huge).unwrap().left_out(), 3);
        let edge = self::image(&[3, 12], |y, x| if y == 0.0 && x == 0.0 { 9.0 } else { 1.0 });
        let flat = find_posed(&image, &edge, &Poses::grid(&[0.0, 30.0], &[1.0]).unwrap(), Measure::Zncc, &options(1));
        assert_eq!(flat.unwrap()[0].pose.angle(), 0.0);
        let constant = self::image(&[3, 12], |_, _| 1.0);
        let none = find_posed(&image, &constant, &turned, Measure::Zncc, &options(1)).unwrap_err();
        assert!(matches!(none, ExecError::Spec(error) if error.kind == Kind::ConstantTemplate));
        // Between poses of a thin template there are some that leave nothing of it.
        let thin = image.part([4, 5], Shape::new(&[1, 12]).unwrap()).unwrap();
        let fine = PosedOptions { finest: Some(1.0), ..options(1) };
        let poses = Poses::grid(&[0.0, 90.0], &[1.0]).unwrap();
        assert_eq!(find_posed(&image, &thin, &poses, Measure::Zncc, &fine).unwrap()[0].peak.position, [4, 5]);
        let other = image.part([0, 0], Shape::new(&[5, 5]).unwrap()).unwrap();
        assert!(planner.posed(&spec, &other.view(), None, &turned).is_err());
    }
}
