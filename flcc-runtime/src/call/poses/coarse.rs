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
use super::scan::{Kept, Member, PosedPeak, Scan, each, go_on};
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
/// How much worse than a threshold a score of the smaller image may be to be followed, if it is half as good.
const WORSE: f64 = 0.3;

/// What looks for poses in a smaller image, and follows them through larger ones.
pub(super) struct Coarse {
    first: Level,
    /// The next ones, each about twice as large as the one before, up to the whole image.
    next: Vec<Level>,
    /// How far apart poses are that count as one in the first image, in degrees and in scales of the whole image: 0
    /// where those that were asked for are further apart.
    steps: [f64; 2],
    /// How often that is halved to come to the least step of those that were asked for.
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
        // No scale of a level may be smaller than poses have.
        let most = (side as f64 * smallest / LEAST).min(smallest * 64.0).floor();
        if factor < 2 || factor as f64 > most {
            let expected = match most < 2.0 {
                true => {
                    format!("none for a template of {}, which has too few samples to be made smaller", spec.template())
                }
                false => {
                    let range = if most > 2.0 { format!("2 to {most}") } else { "2".into() };
                    format!("{range}, by which {LEAST} samples of the template's smallest side are left")
                }
            };
            return Err(SpecError::new("coarse", expected, factor).into());
        }
        let fewer = poses.shrunk(spec.template(), factor)?;
        let apart = poses.apart_in(spec.template(), factor);
        let [angle, scale] = fewer.step_within([apart[0], apart[1] / factor as f64]);
        let steps = [angle, scale * factor as f64];
        let least = poses.least_step();
        let ratio = |axis: usize| if steps[axis] > 0.0 { halvings(steps[axis], least[axis]) } else { 0 };
        let halvings = ratio(0).max(ratio(1));
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
            threshold: options.threshold.map(|from| match largest {
                true if from > 0.0 => (from - WORSE).max(from / 2.0),
                true => from - WORSE,
                false => from + WORSE,
            }),
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
        let found = of_poses.into_iter().flatten().flatten().collect();
        let mut peaks = scan.distinct(found, followed, near(*factor), of_first, control)?;
        let quiet = Control { progress: None, ..*control };
        let (mut factor, mut steps, mut left) = (*factor, self.steps, self.halvings);
        let levels = self.next.iter().map(|level| (level.factor, &level.scan)).chain([(1, whole)]);
        for (to, scan) in levels {
            let small = if to > 1 { Some(Image::shrunk(image, to)?) } else { None };
            let view = small.as_ref().map_or(*image, Image::view);
            // Poses are told apart by about half of what they were; in the end by what was asked for. Those a whole
            // step away were left out beside better ones.
            let halved = if to > 1 { left.min(1) } else { left };
            let of_level = [2.0 * steps[0], 2.0 * steps[1] / to as f64];
            let found = each(self.threads, peaks.len(), &quiet, |number| {
                let peak = &peaks[number];
                let pose = Pose::new(peak.pose.angle(), peak.pose.scale() * factor as f64 / to as f64)?;
                let middle = through(peak.twice_middle(), spec.image(), factor, to);
                let found = scan.near(&view, pose, middle, NEAR)?;
                let Some(mut peak) = found else { return Ok(None) };
                scan.refine(&view, &mut peak, of_level, halved + 1, &PeakOptions::default())?;
                Ok(Some(peak))
            })?;
            (factor, left) = (to, left - halved);
            steps = steps.map(|step| step / 2f64.powi(halved as i32));
            followed = (followed / 2).max(last);
            let of_level = [steps[0], steps[1] / to as f64];
            peaks = scan.distinct(found.into_iter().flatten().collect(), followed, near(to), of_level, control)?;
        }
        // The poses that were asked for, or what lies between; and no better place of that pose near by.
        let better = |a: &PosedPeak, b: &PosedPeak| order(spec.op().best(), a.peak.score, b.peak.score);
        let settled = each(self.threads, peaks.len(), &quiet, |number| {
            let mut peak = peaks[number].clone();
            match finest {
                Some(finest) => {
                    let least = whole.poses.least_step();
                    whole.refine(image, &mut peak, least, halvings(least[0], finest), &PeakOptions::default())?;
                }
                None => {
                    let mut own = Vec::new();
                    for pose in whole.poses.nearest(peak.pose) {
                        own.extend(whole.near(image, pose, peak.twice_middle(), NEAR)?);
                    }
                    let Some(best) = own.into_iter().min_by(better) else { return Ok(None) };
                    peak = best;
                }
            }
            // Each is better than the last, so there is an end.
            while let Some(other) = whole.near(image, peak.pose, peak.twice_middle(), distance)?
                && better(&other, &peak).is_lt()
            {
                peak = other;
            }
            Ok(Some(peak))
        })?;
        let peaks: Vec<PosedPeak> = settled.into_iter().flatten().collect();
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
    fn distinct(
        &self,
        mut peaks: Vec<PosedPeak>,
        most: usize,
        distance: usize,
        steps: [f64; 2],
        control: &Control<'_>,
    ) -> Result<Vec<PosedPeak>, ExecError> {
        let best = self.spec.op().best();
        peaks.sort_by(|a, b| order(best, a.peak.score, b.peak.score));
        let (mut kept, total) = (Kept::new(distance), peaks.len());
        for (number, peak) in peaks.into_iter().enumerate() {
            if kept.peaks.len() >= most {
                break;
            }
            go_on(control, number, total)?;
            let alike = |other: &PosedPeak| {
                let away = other.pose.away(&peak.pose);
                away.iter().zip(steps).all(|(away, step)| *away <= 1.01 * step)
            };
            // No place takes the room of all others.
            let is_one = {
                let mut others = kept.near(&peak);
                !others.clone().any(alike) && others.nth(OF_PLACE - 1).is_none()
            };
            if is_one {
                kept.add(peak);
            }
        }
        Ok(kept.peaks)
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
    image.with_padded(image.padded().map(|length| if length > 1 { length.div_ceil(factor) } else { length }))
}
