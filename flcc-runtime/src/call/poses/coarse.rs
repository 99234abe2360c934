//! From a smaller image to the one at hand: poses are looked for where few samples tell, and what they find there is
//! followed to the poses and places of the whole image.

use flcc_core::error::{ExecError, SpecError};
use flcc_core::extent::Mode;
use flcc_core::image::Image;
use flcc_core::measure::Best;
use flcc_core::peaks::PeakOptions;
use flcc_core::pose::{Pose, Poses};
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;

use super::fine::{NEAR, halvings};
use super::scan::{Member, PosedPeak, Scan, each};
use crate::call::overlay::order;
use crate::plan::settings::Planner;
use crate::plan::solver::Platform;
use crate::problem::template::check_view;
use crate::run::execute::Control;

/// The least that is left of a template's smallest side.
const LEAST: f64 = 8.0;
/// How many more poses and places are followed than are asked for: so many times as many, and some; of those half
/// through each level, but no fewer than twice as many as are asked for, and some.
const MORE: (usize, usize) = (16, 64);
const LAST: (usize, usize) = (8, 8);
/// How many poses are followed of a place.
const OF_PLACE: usize = 8;
/// How much worse than a threshold a score of the smaller image may be to be followed.
const WORSE: f64 = 0.3;

/// What looks for poses in a smaller image, and follows them through larger ones.
pub(super) struct Coarse {
    first: Level,
    /// The next ones, each about twice as large as the one before, up to the whole image.
    next: Vec<Level>,
    /// How far apart the first one's poses are, in degrees and in scales of the whole image.
    steps: [f64; 2],
    /// How often that is halved to come to steps of those that were asked for.
    halvings: u32,
    threads: usize,
}

/// An image so many times smaller than the whole.
struct Level {
    factor: usize,
    scan: Scan,
}

impl Coarse {
    /// What looks for the poses of a scan in an image so many times smaller, and the scan made to follow them.
    ///
    /// # Errors
    /// A factor that leaves too little of the template; as [`Scan::with_members`].
    pub fn new(mut scan: Scan, factor: usize, control: &Control<'_>) -> Result<(Coarse, Scan), ExecError> {
        let Scan { spec, poses, .. } = &scan;
        let side = spec.template().lengths().iter().copied().filter(|&side| side > 1).min().unwrap_or(1);
        let smallest = poses.all().iter().map(Pose::scale).fold(f64::INFINITY, f64::min);
        let most = (side as f64 * smallest / LEAST).floor();
        if factor < 2 || factor as f64 > most {
            let expected = match most < 2.0 {
                true => {
                    format!("none for a template of {}, which has too few samples to be made smaller", spec.template())
                }
                false => format!("2 to {most}, by which {LEAST} samples of the template's smallest side are left"),
            };
            return Err(SpecError::new("coarse", expected, factor).into());
        }
        let fewer = poses.shrunk(spec.template(), factor)?;
        let [angle, scale] = fewer.step();
        let steps = [angle, scale * factor as f64];
        let ratio = |coarse: f64, fine: f64| if fine > 0.0 { halvings(coarse, fine) } else { 0 };
        let [fine_angle, fine_scale] = poses.step();
        let halvings = ratio(steps[0], fine_angle).max(ratio(steps[1], fine_scale));
        let (template, mask) = (scan.template.view(), scan.mask.as_ref().map(Image::view));
        let small = |planner: &Planner, factor: usize, poses: &Poses| {
            let image = small_shape(spec.image(), factor)?;
            let spec = Spec::new(spec.op(), spec.image_type(), image, template.dtype(), spec.template(), Mode::Full)?
                .with_channels(spec.channels())?
                .with_out_type(spec.out_type())?;
            Scan::new(planner.clone(), &spec, &template, mask.as_ref(), poses)
        };
        let first = Level { factor, scan: small(&scan.planner, factor, &fewer)?.with_members(control)? };
        // Regions are small, and followed side by side.
        let alone = scan.planner.clone().threads(1).platform(Platform::Cpu);
        let mut next = Vec::new();
        for factor in
            std::iter::successors(Some(factor.div_ceil(2)), |at| Some(at.div_ceil(2))).take_while(|at| *at > 1)
        {
            let scales: Vec<f64> = poses.scales().iter().map(|scale| scale / factor as f64).collect();
            next.push(Level { factor, scan: small(&alone, factor, &Poses::grid(poses.angles(), &scales)?)? });
        }
        let coarse = Coarse { first, next, steps, halvings, threads: scan.planner.threads };
        scan.planner = alone;
        Ok((coarse, scan))
    }

    /// What looks for poses first.
    pub fn first(&self) -> &Scan {
        &self.first.scan
    }

    /// The places of a template in an image, those near better ones too.
    pub fn search(
        &self,
        whole: &Scan,
        image: &AnyView<'_>,
        (options, finest): (&PeakOptions, Option<f64>),
        distance: usize,
        control: &Control<'_>,
    ) -> Result<Vec<PosedPeak>, ExecError> {
        let spec = &whole.spec;
        check_view("image", image, spec.image(), spec.image_type(), spec.channels())?;
        let largest = spec.op().best() == Best::Largest;
        let several = |(times, more): (usize, usize)| match options.top {
            Some(0) => 0,
            top => top.map_or(usize::MAX, |top| top.saturating_mul(times).saturating_add(more)),
        };
        let (mut followed, last) = (several(MORE), several(LAST));
        let near = |factor: usize| (distance / factor).max(1);
        let Level { factor, scan } = &self.first;
        let every = PeakOptions {
            top: options.top.map(|_| followed),
            threshold: options.threshold.map(|from| if largest { from - WORSE } else { from + WORSE }),
            min_distance: Some(near(*factor)),
            ..PeakOptions::default()
        };
        // A pose may be the best of a place in the end and not be so in a small image.
        let small = Image::shrunk(image, *factor)?;
        let all: Vec<usize> = (0..scan.members.len()).collect();
        let of_poses = scan.each_bound(&all, control, |number, bound, control| {
            let (mut found, _) = bound.search(&[small.view()], &every, false, control)?;
            let Member { pose, plan } = &scan.members[number];
            let (pose, shape) = (*pose, plan.spec().template());
            Ok(found.swap_remove(0).peaks.into_iter().map(move |peak| PosedPeak { peak, shape, pose }))
        })?;
        let of_first = [self.steps[0], self.steps[1] / *factor as f64];
        let mut peaks =
            scan.distinct(of_poses.into_iter().flatten().flatten().collect(), followed, near(*factor), of_first);
        let quiet = Control { progress: None, ..*control };
        let (mut factor, mut steps, mut left) = (*factor, self.steps, self.halvings);
        let levels = self.next.iter().map(|level| (level.factor, &level.scan)).chain([(1, whole)]);
        for (to, scan) in levels {
            let small = if to > 1 { Some(Image::shrunk(image, to)?) } else { None };
            let view = small.as_ref().map_or(*image, Image::view);
            let inside = if to > 1 { &PeakOptions::default() } else { options };
            // Poses are told apart by about half of what they were; in the end they are as fine as was asked for.
            let halved = match (to, finest) {
                (1, Some(finest)) => left.max(halvings(steps[0], finest)),
                (1, None) => left,
                _ => left.min(1),
            };
            let of_level = [steps[0], steps[1] / to as f64];
            let found = each(self.threads, peaks.len(), &quiet, |number| {
                let peak = &peaks[number];
                let pose = Pose::new(peak.pose.angle(), peak.pose.scale() * factor as f64 / to as f64)?;
                let middle = through(peak.twice_middle(), spec.image(), factor, to);
                let found = scan.near(&view, pose, middle, NEAR, inside)?;
                let Some(mut peak) = found else { return Ok(None) };
                scan.refine(&view, &mut peak, of_level, halved, inside)?;
                Ok(Some(peak))
            })?;
            (factor, left) = (to, left - halved.min(left));
            steps = steps.map(|step| step / 2f64.powi(halved as i32));
            followed = (followed / 2).max(last);
            let of_level = [steps[0], steps[1] / to as f64];
            peaks = scan.distinct(found.into_iter().flatten().collect(), followed, near(to), of_level);
        }
        let reaches = |peak: &PosedPeak| match options.threshold {
            Some(threshold) if largest => peak.peak.score >= threshold,
            Some(threshold) => peak.peak.score <= threshold,
            None => true,
        };
        Ok(peaks.into_iter().filter(reaches).collect())
    }
}

impl Scan {
    /// The best so many peaks, without those that have a better one near in place and in pose, by steps of degrees and
    /// of scale, or many near in place.
    fn distinct(&self, mut peaks: Vec<PosedPeak>, most: usize, distance: usize, steps: [f64; 2]) -> Vec<PosedPeak> {
        let best = self.spec.op().best();
        peaks.sort_by(|a, b| order(best, a.peak.score, b.peak.score));
        let apart = i64::try_from(distance).unwrap_or(i64::MAX).saturating_mul(2);
        let mut kept: Vec<PosedPeak> = Vec::new();
        for peak in peaks {
            if kept.len() >= most {
                break;
            }
            let middle = peak.twice_middle();
            let beside = |other: &&PosedPeak| {
                other.twice_middle().iter().zip(middle).all(|(other, own)| (other - own).abs() <= apart)
            };
            let alike = |other: &PosedPeak| {
                let turned = (other.pose.angle() - peak.pose.angle()).rem_euclid(360.0);
                let away = [turned.min(360.0 - turned), (other.pose.scale() - peak.pose.scale()).abs()];
                away.iter().zip(steps).all(|(away, step)| *away <= 1.01 * step)
            };
            let mut others = kept.iter().filter(beside);
            // No place takes the room of all others.
            if !others.clone().any(alike) && others.nth(OF_PLACE - 1).is_none() {
                kept.push(peak);
            }
        }
        kept
    }
}

/// Twice the middle of a box in an image `to` times smaller than the whole, of that in one `from` times smaller: the
/// middle of a sample is that of its block.
fn through(middle: [i64; 3], image: Shape, from: usize, to: usize) -> [i64; 3] {
    let (lengths, from, to) = (image.padded(), from as i64, to as i64);
    [0, 1, 2].map(|axis| match lengths[axis] {
        1 => middle[axis],
        // Of the whole from * (middle + 1) - 1, rounded to the nearest.
        _ => (2 * from * (middle[axis] + 1) + to).div_euclid(2 * to) - 1,
    })
}

/// The shape of an image made so many times smaller.
fn small_shape(image: Shape, factor: usize) -> Result<Shape, SpecError> {
    image.with_padded(image.padded().map(|length| if length > 1 { length / factor } else { length }))
}
