//! Scores of a template in each of some poses, over all of an image or around a place.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use flcc_core::error::{ExecError, Kind, SpecError};
use flcc_core::extent::Mode;
use flcc_core::image::Image;
use flcc_core::peaks::{Peak, PeakOptions, refined};
use flcc_core::pose::{Pose, Posed, Poses};
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::subpixel::Subpixel;
use flcc_core::view::{AnyView, AsImage};

use crate::call::overlay::{Overlay, Place, order};
use crate::plan::matcher::Matcher;
use crate::plan::planned::Plan;
use crate::plan::settings::Planner;
use crate::plan::solver::Platform;
use crate::problem::template::{check_mask, check_template, mask_kind};
use crate::run::execute::{CancelToken, Control, Statistics};
use crate::run::workers;

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
    /// Twice the middle of its box, padded to three axes: whole numbers.
    pub(super) fn twice_middle(&self) -> [i64; 3] {
        let (position, sides) = (self.shape.pad(&self.peak.position), self.shape.padded());
        [0, 1, 2].map(|axis| (2 * position[axis] + sides[axis]) as i64 - 1)
    }

    /// Where the template's middle lies, slowest axis first, below a sample where places were refined.
    pub fn middle(&self) -> Vec<f64> {
        let place = self.peak.refined.clone();
        let place = place.unwrap_or_else(|| self.peak.position.iter().map(|&at| at as f64).collect());
        place.iter().zip(self.shape.lengths()).map(|(at, &length)| at + (length - 1) as f64 / 2.0).collect()
    }
}

/// A template in some poses, in images of a spec.
pub(super) struct Scan {
    pub planner: Planner,
    /// The problem of the template as it is.
    pub spec: Spec,
    pub template: Image,
    pub mask: Option<Image>,
    pub poses: Poses,
    /// The poses that are planned for all of an image.
    pub members: Vec<Member>,
    pub left_out: usize,
    /// How many poses leave nothing of the template to tell by.
    pub blank: usize,
    /// How many poses are computed side by side, each by one thread.
    side_by_side: usize,
}

/// A pose of a template.
pub(super) struct Member {
    pub pose: Pose,
    pub plan: Plan,
}

/// Whether a pose can be looked for.
enum Fit {
    Inside(Spec),
    /// It is larger than the image.
    Larger,
    /// No sample of the template is left in it.
    Nothing(SpecError),
}

/// Bytes of scores of all poses that are computed side by side, at most: else all threads share one after the other.
const SIDE_BY_SIDE: usize = 1 << 30;

impl Scan {
    /// A template in some poses, none of which is planned yet.
    ///
    /// # Errors
    /// A spec that is another, a template or a mask that is not the spec's.
    pub fn new(
        planner: Planner,
        spec: &Spec,
        template: &AnyView<'_>,
        mask: Option<&AnyView<'_>>,
        poses: &Poses,
    ) -> Result<Scan, ExecError> {
        if spec.roi().is_some() || spec.templates() != 1 || spec.pairs() {
            return Err(SpecError::new("spec", "one template without a region", spec).into());
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
        let turned = poses.angles().iter().find(|angle| angle.rem_euclid(360.0) != 0.0);
        if let (1, Some(angle)) = (spec.template().axes(), turned) {
            return Err(SpecError::new("angle", "0 for a signal", angle).into());
        }
        let owned = |view: &AnyView<'_>| Image::of(view.to_pixels(), view.shape(), view.channels());
        let scan = Scan {
            planner,
            spec: spec.clone(),
            template: owned(template)?,
            mask: mask.map(owned).transpose()?,
            poses: poses.clone(),
            members: Vec::new(),
            left_out: 0,
            blank: 0,
            side_by_side: 1,
        };
        // What is wrong with the template or its mask is told as of any match.
        let mask_of_all = scan.mask.as_ref().map(|mask| mask as &dyn AsImage);
        let whole = spec.clone().with_mask(mask_kind(mask_of_all))?;
        check_template(&whole, template, &check_mask(&whole, mask)?)?;
        Ok(scan)
    }

    /// The same with a plan for each pose.
    ///
    /// # Errors
    /// No pose that fits in the image, what the planner refuses, or cancelled.
    pub fn with_members(mut self, control: &Control<'_>) -> Result<Scan, ExecError> {
        let (spec, poses) = (self.spec.clone(), self.poses.clone());
        let planner = self.planner.clone();
        let weights = self.mask.as_ref().map(|mask| mask.view().to_f64());
        let specs = each(planner.threads, poses.all().len(), control, |number| {
            let pose = poses.all()[number];
            if pose.is_larger(spec.template(), weights.as_deref(), spec.image()) {
                return Ok(Fit::Larger);
            }
            match self.posed(pose) {
                Ok(posed) => {
                    let Some(spec) = self.spec_of(&posed)? else { return Ok(Fit::Larger) };
                    let weights = check_mask(&spec, posed.mask.as_ref().map(Image::view).as_ref())?;
                    match check_template(&spec, &posed.template.view(), &weights) {
                        Err(error) if is_blank(&error) => Ok(Fit::Nothing(error)),
                        checked => checked.map(|_| Fit::Inside(spec)).map_err(ExecError::from),
                    }
                }
                Err(error) if is_blank(&error) => Ok(Fit::Nothing(error)),
                Err(error) => Err(error.into()),
            }
        })?;
        // With few poses all threads share one after the other, as those of a GPU do.
        let alone = planner.clone().threads(1).platform(Platform::Cpu);
        let maps = planner.threads.saturating_mul(spec.image().len() * spec.out_type().row().size);
        let many = planner.memory_limit.is_none() && specs.len() >= 2 * planner.threads && maps <= SIDE_BY_SIDE;
        let mut nothing = None;
        for (&pose, fit) in poses.all().iter().zip(specs) {
            go_on(control, self.members.len(), poses.all().len())?;
            let spec = match fit {
                Fit::Inside(spec) => spec,
                Fit::Larger => {
                    self.left_out += 1;
                    continue;
                }
                Fit::Nothing(error) => {
                    self.blank += 1;
                    nothing.get_or_insert(error);
                    continue;
                }
            };
            if self.members.is_empty() && many && planner.plan(&spec)?.platform() == Platform::Cpu {
                self.side_by_side = planner.threads;
            }
            // None of those side by side may wait for threads that others have.
            let plan = if self.side_by_side > 1 { alone.plan(&spec)? } else { planner.plan(&spec)? };
            self.members.push(Member { pose, plan });
        }
        if let (true, 0, Some(error)) = (self.members.is_empty(), self.left_out, nothing) {
            return Err(error.into());
        }
        if self.members.is_empty() {
            let mut got = format!("{} poses of {}, all larger", self.left_out, spec.template());
            if self.blank > 0 {
                got.push_str(&format!(", and {} that leave nothing of it", self.blank));
            }
            let expected = format!("a pose that fits in the image, {}", spec.image());
            return Err(SpecError::of(Kind::TemplateLargerThanImage, "poses", expected, got).into());
        }
        Ok(self)
    }

    /// The places where the best score of all poses has its peaks.
    pub fn places(
        &self,
        image: &AnyView<'_>,
        options: &PeakOptions,
        distance: usize,
        control: &Control<'_>,
    ) -> Result<Vec<PosedPeak>, ExecError> {
        let shapes: Vec<Shape> = self.members.iter().map(|member| member.plan.spec().template()).collect();
        let (out, best) = (self.spec.out_type(), self.spec.op().best());
        let overlay = Mutex::new(Overlay::new(self.spec.image(), &shapes, out, best));
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.each_map(image, &all, control, |number, map| {
            overlay.lock().unwrap_or_else(PoisonError::into_inner).lay(number, map);
        })?;
        let overlay = overlay.into_inner().unwrap_or_else(PoisonError::into_inner);
        let peak = |Place { owner, middle, score }: Place| {
            let (shape, pose) = (shapes[owner], self.members[owner].pose);
            let sides = shape.padded();
            let position = shape.unpad(&[0, 1, 2].map(|axis| (middle[axis] + 1 - sides[axis]) / 2));
            PosedPeak { peak: Peak { position, score, refined: None }, shape, pose }
        };
        // Any of the best may lie at a border.
        let top = options.top.filter(|_| options.exclude_border == 0);
        let places = overlay.places(&PeakOptions { top, ..*options }, distance, self.planner.threads);
        let inside = places.into_iter().map(peak).filter(|peak| self.is_inside(peak, options));
        Ok(inside.take(options.top.unwrap_or(usize::MAX)).collect())
    }

    /// Finds peaks below a sample, each by the scores of its own pose around it.
    pub fn fit(
        &self,
        image: &AnyView<'_>,
        peaks: &mut [PosedPeak],
        fit: Subpixel,
        control: &Control<'_>,
    ) -> Result<(), ExecError> {
        let bits = |pose: Pose| [pose.angle(), pose.scale()].map(f64::to_bits);
        let mut of_pose: HashMap<[u64; 2], Vec<usize>> = HashMap::new();
        for (index, peak) in peaks.iter().enumerate() {
            of_pose.entry(bits(peak.pose)).or_default().push(index);
        }
        // A pose that is there twice has its peaks once.
        let members = self.members.iter().enumerate();
        let own: HashMap<usize, Vec<usize>> = members
            .filter_map(|(number, member)| of_pose.remove(&bits(member.pose)).map(|indices| (number, indices)))
            .collect();
        let mut numbers: Vec<usize> = own.keys().copied().collect();
        numbers.sort_unstable();
        let quiet = Control { progress: None, ..*control };
        let fitted = self.each_map(image, &numbers, &quiet, |number, map| {
            let of = |&index: &usize| (index, refined(map, &peaks[index].peak.position, fit));
            own[&number].iter().map(of).collect::<Vec<_>>()
        })?;
        for (index, refined) in fitted.into_iter().flatten().flatten() {
            peaks[index].peak.refined = Some(refined);
        }
        Ok(())
    }

    /// What `of` makes of the scores of some poses; `None` for one that is nowhere.
    fn each_map<T: Send>(
        &self,
        image: &AnyView<'_>,
        poses: &[usize],
        control: &Control<'_>,
        of: impl Fn(usize, &ScoreMap) -> T + Sync,
    ) -> Result<Vec<Option<T>>, ExecError> {
        self.each_bound(poses, control, |number, bound, control| {
            let (maps, _) = bound.execute_with(&[*image], control)?;
            Ok(of(number, &maps[0]))
        })
    }

    /// What `of` makes of some poses, bound to their plans; `None` for one that is nowhere.
    pub fn each_bound<T: Send>(
        &self,
        poses: &[usize],
        control: &Control<'_>,
        of: impl Fn(usize, &Matcher, &Control<'_>) -> Result<T, ExecError> + Sync,
    ) -> Result<Vec<Option<T>>, ExecError> {
        let of_pose = |index: usize, control: &Control<'_>| -> Result<Option<T>, ExecError> {
            let Member { pose, plan } = &self.members[poses[index]];
            // Bound for the time being: with its spectra and scratch a pose may take tens of megabytes.
            match self.bound(plan, &self.posed(*pose)?)? {
                Some(bound) => of(poses[index], &bound, control).map(Some),
                None => Ok(None),
            }
        };
        let quiet = Control { progress: None, ..*control };
        if self.side_by_side > 1 {
            return each(self.side_by_side, poses.len(), control, |index| of_pose(index, &quiet));
        }
        let one_by_one = (0..poses.len()).map(|index| {
            // Parts of poses are told in thousandths.
            let tell = |done: usize, total: usize| {
                if let Some(tell) = control.progress {
                    tell(index * 1000 + done * 1000 / total.max(1), poses.len() * 1000);
                }
            };
            of_pose(index, &Control { progress: Some(&tell), ..quiet })
        });
        one_by_one.collect()
    }

    /// Best first, without those near a better one.
    pub fn apart(&self, mut peaks: Vec<PosedPeak>, distance: usize) -> Vec<PosedPeak> {
        let best = self.spec.op().best();
        peaks.sort_by(|a, b| order(best, a.peak.score, b.peak.score));
        let mut kept = Kept::new(distance);
        for peak in peaks {
            if kept.near(&peak).next().is_none() {
                kept.add(peak);
            }
        }
        kept.peaks
    }

    /// Whether a peak is none of those that options leave out at the border of its pose's positions.
    pub fn is_inside(&self, peak: &PosedPeak, options: &PeakOptions) -> bool {
        let (image, sides) = (self.spec.image().padded(), peak.shape.padded());
        let inside = options.inside([0, 1, 2].map(|axis| (image[axis] + 1).saturating_sub(sides[axis])));
        inside.iter().zip(peak.shape.pad(&peak.peak.position)).all(|(inside, at)| inside.contains(&at))
    }

    pub fn posed(&self, pose: Pose) -> Result<Posed, SpecError> {
        pose.of(&self.template.view(), self.mask.as_ref().map(Image::view).as_ref())
    }

    /// The problem of a pose; none where it is larger than the image.
    pub fn spec_of(&self, posed: &Posed) -> Result<Option<Spec>, SpecError> {
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
    pub fn bound(&self, plan: &Plan, posed: &Posed) -> Result<Option<Matcher>, ExecError> {
        match bind(plan, posed) {
            Err(ExecError::Spec(error)) if is_blank(&error) => Ok(None),
            bound => bound.map(Some),
        }
    }
}

/// Peaks that are kept, by where they lie: cells as wide as a distance, so that few are looked at.
pub(super) struct Kept {
    /// Twice the distance.
    apart: i64,
    pub peaks: Vec<PosedPeak>,
    cells: HashMap<[i64; 3], Vec<usize>>,
}

impl Kept {
    pub fn new(distance: usize) -> Kept {
        // Further apart than any two samples nothing is.
        let apart = i64::try_from(distance).unwrap_or(i64::MAX).min(1 << 40) * 2;
        Kept { apart, peaks: Vec::new(), cells: HashMap::new() }
    }

    fn cell(&self, peak: &PosedPeak) -> [i64; 3] {
        peak.twice_middle().map(|at| at.div_euclid(self.apart + 1))
    }

    /// Those that lie no further away than the distance, on every axis.
    pub fn near<'a>(&'a self, peak: &PosedPeak) -> impl Iterator<Item = &'a PosedPeak> + Clone + use<'a> {
        let ([z, y, x], middle, apart) = (self.cell(peak), peak.twice_middle(), self.apart);
        let around = |at: i64| at - 1..=at + 1;
        let cells = around(z).flat_map(move |z| around(y).flat_map(move |y| around(x).map(move |x| [z, y, x])));
        let all = cells.flat_map(move |cell| self.cells.get(&cell).into_iter().flatten()).map(|&at| &self.peaks[at]);
        all.filter(move |other| {
            other.twice_middle().iter().zip(middle).all(|(other, own)| (other - own).abs() <= apart)
        })
    }

    pub fn add(&mut self, peak: PosedPeak) {
        self.cells.entry(self.cell(&peak)).or_default().push(self.peaks.len());
        self.peaks.push(peak);
    }
}

/// Refuses to go on where a control was cancelled, after so many of all.
pub(super) fn go_on(control: &Control<'_>, done: usize, total: usize) -> Result<(), ExecError> {
    match control.cancel.is_some_and(CancelToken::is_cancelled) {
        true => Err(ExecError::Cancelled { done, total }),
        false => Ok(()),
    }
}

/// What `of` makes of each number up to a count, by so many threads.
pub(super) fn each<T: Send>(
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

/// Whether a pose leaves no sample of a template, or equal ones, or zeros.
fn is_blank(error: &SpecError) -> bool {
    [Kind::EmptyInput, Kind::ConstantTemplate, Kind::ZeroTemplate].contains(&error.kind)
}

fn bind(plan: &Plan, posed: &Posed) -> Result<Matcher, ExecError> {
    plan.bind(&[posed.template.view()], posed.mask.as_ref().map(|mask| mask as &dyn AsImage))
}
