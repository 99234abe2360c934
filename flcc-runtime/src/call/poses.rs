//! Templates that may stand turned and scaled in an image.

mod coarse;
mod fine;
mod scan;

use flcc_core::error::{ExecError, SpecError};
use flcc_core::extent::Mode;
use flcc_core::measure::Measure;
use flcc_core::op::Op;
use flcc_core::peaks::PeakOptions;
use flcc_core::pose::Poses;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AsImage};

use crate::plan::settings::Planner;
use crate::run::execute::Control;

use coarse::Coarse;
use fine::halvings;
pub use scan::PosedPeak;
use scan::{Scan, go_on};

/// What [`find_posed`] may be told. A [`PosedMatcher`] has its own mask, and was made to look at a smaller image first
/// or not: it does not ask for these here.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosedOptions<'a> {
    /// Weights of the template's samples, of its shape: 0 and 1 or others, finite and `>= 0`. A disc makes all angles
    /// alike; without a mask all samples between the template's outer ones count.
    pub mask: Option<AnyView<'a>>,
    /// Which peaks: `top` of all poses together. `min_distance` is between the middles of any two, by default half the
    /// template's smallest side.
    pub peaks: PeakOptions,
    /// Poses are first looked for in an image that is so many times smaller, of means of blocks of so many samples a
    /// side, and of poses as many as it tells apart. The best there, of all poses 16 times as many places as are asked
    /// for and 64, up to eight poses of each, or those at most 0.3 worse than the threshold and half as good, are
    /// followed through images twice as large each time, to the poses that were asked for, or where
    /// [`finest`](PosedOptions::finest) says so to those between. Scores are those of the whole image, and no better
    /// one of the same pose lies within the distance. What may be missed is what a smaller image does not show; and a
    /// better score of another pose may lie near by.
    pub coarse: Option<usize>,
    /// Degrees: each peak's pose is then looked for between those that were asked for, in steps halved until they are
    /// no larger than this, scales alike.
    pub finest: Option<f64>,
}

/// The places where a template stands in an image in any of some poses, best first.
///
/// They are the peaks of the best score of all poses at each place of the template's middle. A place is one if no pose
/// has a better score within the distance, on every axis; of equal scores the middle that comes first in row-major
/// order is the peak, and of one middle the first pose.
///
/// The score of a place and a pose is that of [`match_template`](crate::match_template) with the template and the mask
/// that [`Pose::of`](flcc_core::pose::Pose::of) makes, and so is its error. Every pose is computed at every place where
/// all of it lies inside the image. Poses that are larger than the image are left out; [`PosedMatcher::left_out`]
/// counts them. The measure is a normalised one, since sums over more samples are larger.
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
    let spec = Spec::new(op, image.dtype(), image.shape(), template.dtype(), template.shape(), Mode::Full)?
        .with_channels(image.channels())?;
    let control = Control::default();
    let matcher = Planner::new()?.posed_with(&spec, &template, poses, options, &control)?;
    matcher.search(&image, options, &control)
}

/// A template in all poses of some, planned: made once, for any number of images.
pub struct PosedMatcher {
    scan: Scan,
    /// What looks for the template in a smaller image first, where that was asked for.
    coarse: Option<Coarse>,
}

impl Planner {
    /// A template in some poses, for images of a spec: of a normalised measure and one template, without a region.
    /// Whatever the spec's mode and boundary, a pose is looked for where all of it lies inside the image; mode full
    /// lets the template be larger than the image in poses that are smaller.
    ///
    /// # Errors
    /// A spec that is another, a template or a mask that is not the spec's, no pose that fits in the image; what
    /// [`Planner::plan`] and [`Plan::bind`](crate::Plan::bind) refuse.
    pub fn posed(
        &self,
        spec: &Spec,
        template: &AnyView<'_>,
        mask: Option<&AnyView<'_>>,
        poses: &Poses,
    ) -> Result<PosedMatcher, ExecError> {
        let options = PosedOptions { mask: mask.copied(), ..PosedOptions::default() };
        self.posed_with(spec, template, poses, &options, &Control::default())
    }

    /// As [`Planner::posed`], with the mask of some options and, where they say so, for a search that looks at a
    /// smaller image first ([`PosedOptions::coarse`]). Of thousands of poses it takes seconds, until it is cancelled;
    /// no progress is told.
    ///
    /// # Errors
    /// As [`Planner::posed`], a factor below 2 or by which fewer than 8 samples of a side are left, or cancelled.
    pub fn posed_with(
        &self,
        spec: &Spec,
        template: &AnyView<'_>,
        poses: &Poses,
        options: &PosedOptions<'_>,
        control: &Control<'_>,
    ) -> Result<PosedMatcher, ExecError> {
        let scan = Scan::new(self.clone(), spec, template, options.mask.as_ref(), poses)?;
        let quiet = Control { progress: None, ..*control };
        match options.coarse {
            None => Ok(PosedMatcher { scan: scan.with_members(&quiet)?, coarse: None }),
            Some(factor) => {
                let (coarse, scan) = Coarse::new(scan, factor, &quiet)?;
                Ok(PosedMatcher { scan, coarse: Some(coarse) })
            }
        }
    }
}

impl PosedMatcher {
    /// How many poses are looked for.
    pub fn poses(&self) -> usize {
        self.first().members.len()
    }

    /// How many were left out, since they are larger than the image.
    pub fn left_out(&self) -> usize {
        self.first().left_out
    }

    /// How many leave nothing of the template to tell by: no sample of it, equal ones or, for ncc and nssd, zeros.
    pub fn blank(&self) -> usize {
        self.first().blank
    }

    /// What looks at all of an image.
    fn first(&self) -> &Scan {
        self.coarse.as_ref().map_or(&self.scan, Coarse::first)
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
        let scan = &self.scan;
        if let Some(finest) = options.finest.filter(|finest| finest.is_nan() || *finest <= 0.0) {
            return Err(SpecError::new("finest", "degrees above 0", finest).into());
        }
        if let (Some(finest), [0.0, 0.0]) = (options.finest, scan.poses.step()) {
            let expected = "none of poses that have one angle and one scale: nothing lies between";
            return Err(SpecError::new("finest", expected, finest).into());
        }
        let distance = options.peaks.distance(Some(scan.spec.template()));
        let coarse = self.coarse.is_some();
        let mut all = match &self.coarse {
            None => scan.places(image, &options.peaks, distance, control)?,
            Some(coarse) => coarse.search(scan, image, (&options.peaks, options.finest), distance, control)?,
        };
        if let Some(finest) = options.finest.filter(|_| !coarse) {
            let steps = scan.poses.step();
            let count = all.len();
            for (number, peak) in all.iter_mut().enumerate() {
                go_on(control, number, count)?;
                scan.refine(image, peak, steps, halvings(steps[0], finest), &options.peaks)?;
            }
        }
        if coarse || options.finest.is_some() {
            // They may have come near each other.
            all = scan.apart(all, distance);
            all.retain(|peak| scan.is_inside(peak, &options.peaks));
            all.truncate(options.peaks.top.unwrap_or(usize::MAX));
        }
        match options.peaks.subpixel {
            Some(fit) if coarse || options.finest.is_some() => {
                let count = all.len();
                for (number, peak) in all.iter_mut().enumerate() {
                    go_on(control, number, count)?;
                    peak.peak.refined = scan.fit_at(image, peak, fit)?;
                }
            }
            Some(fit) => scan.fit(image, &mut all, fit, control)?,
            None => {}
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use flcc_core::dtype::Pixels;
    use flcc_core::error::Kind;
    use flcc_core::extent::Region;
    use flcc_core::image::Image;
    use flcc_core::peaks::Peak;
    use flcc_core::pose::Pose;
    use flcc_core::shape::Shape;
    use flcc_core::subpixel::Subpixel;

    use std::collections::BTreeMap;

    use super::*;
    use crate::call::oneshot::match_template;
    use crate::call::peaks::find_peaks;
    use crate::run::execute::CancelToken;

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
            // The best score and the pose at each middle, twice that.
            let mut best: BTreeMap<[usize; 2], (f64, usize)> = BTreeMap::new();
            let mut shapes = Vec::new();
            for (number, &pose) in poses.all().iter().enumerate() {
                let posed = pose.of(&template.view(), mask.as_ref()).unwrap();
                let mask = posed.mask.as_ref().map(|mask| mask as &dyn AsImage);
                let map = match_template(&image, &posed.template, mask, Measure::Zncc).unwrap();
                let [_, height, width] = posed.template.shape().padded();
                shapes.push(posed.template.shape());
                for index in 0..map.shape().len() {
                    let [_, y, x] = map.shape().position(index);
                    let own = best.entry([2 * y + height - 1, 2 * x + width - 1]).or_insert((-2.0, 0));
                    if map.get(index) > own.0 {
                        *own = (map.get(index), number);
                    }
                }
            }
            let is_peak = |(middle, (score, _)): &(&[usize; 2], &(f64, usize))| {
                best.iter().all(|(other, (better, _))| {
                    let near = (0..2).all(|axis| middle[axis].abs_diff(other[axis]) <= 8);
                    !near || better < score || (better == score && other >= middle)
                })
            };
            let mut expected: Vec<PosedPeak> = best
                .iter()
                .filter(is_peak)
                .map(|(middle, &(score, number))| {
                    let [_, height, width] = shapes[number].padded();
                    let position = vec![(middle[0] + 1 - height) / 2, (middle[1] + 1 - width) / 2];
                    let peak = Peak { position, score, refined: None };
                    PosedPeak { peak, shape: shapes[number], pose: poses.all()[number] }
                })
                .collect();
            expected.sort_by(|a, b| b.peak.score.total_cmp(&a.peak.score));
            let found = find_posed(&image, &template, &poses, Measure::Zncc, &options).unwrap();
            assert_eq!(found, expected[..6]);
            let all = PosedOptions { peaks: PeakOptions { top: None, ..options.peaks }, ..options };
            assert_eq!(find_posed(&image, &template, &poses, Measure::Zncc, &all).unwrap(), expected);
            // Those at a border are left out, but suppress others.
            let border = PosedOptions { peaks: PeakOptions { exclude_border: 9, ..options.peaks }, ..options };
            let inside = |peak: &&PosedPeak| {
                let [_, height, width] = peak.shape.padded();
                let ends = [50 - height + 1, 60 - width + 1];
                peak.peak.position.iter().zip(ends).all(|(&at, end)| at >= 9 && at + 9 < end)
            };
            let kept: Vec<PosedPeak> = expected.iter().filter(inside).take(6).cloned().collect();
            assert_eq!(find_posed(&image, &template, &poses, Measure::Zncc, &border).unwrap(), kept);
            // Each is refined as its own pose's peak is.
            let fit = Some(Subpixel::default());
            let fitted = PosedOptions { peaks: PeakOptions { subpixel: fit, ..options.peaks }, ..options };
            for (fitted, found) in
                find_posed(&image, &template, &poses, Measure::Zncc, &fitted).unwrap().iter().zip(&found)
            {
                let posed = found.pose.of(&template.view(), mask.as_ref()).unwrap();
                let mask = posed.mask.as_ref().map(|mask| mask as &dyn AsImage);
                let map = match_template(&image, &posed.template, mask, Measure::Zncc).unwrap();
                let all = PeakOptions { min_distance: Some(0), subpixel: fit, ..PeakOptions::default() };
                let own = find_peaks(&map, &all).into_iter().find(|peak| peak.position == found.peak.position);
                assert_eq!(fitted.peak, own.unwrap());
            }
            assert_eq!((found[0].pose.angle(), found[0].peak.position.as_slice()), (0.0, [10, 20].as_slice()));
        }
    }

    /// Followed from a smaller image, an object is told as it is without that: the same score for the same pose.
    #[test]
    fn a_smaller_image_leads_to_the_same_places() {
        let image = image(&[240, 260], |y, x| scene(y / 2.0, x / 2.0));
        let poses =
            Poses::grid(&flcc_core::pose::steps("angles", [0.0, 360.0, 2.0], Some(360.0)).unwrap(), &[0.9, 1.0, 1.1])
                .unwrap();
        let template = self::image(&[51, 41], |y, x| {
            let [_, v, u] = Pose::new(38.0, 1.0).unwrap().place([0.0, y - 25.0, x - 20.0]);
            scene((120.0 + v) / 2.0, (130.0 + u) / 2.0)
        });
        for (factor, finest, fit) in [(2, None, None), (4, None, Some(Subpixel::default())), (4, Some(0.25), None)] {
            let peaks = PeakOptions { subpixel: fit, ..options(2).peaks };
            let coarse = PosedOptions { coarse: Some(factor), finest, peaks, ..PosedOptions::default() };
            let found = find_posed(&image, &template, &poses, Measure::Zncc, &coarse).unwrap();
            let best = &found[0];
            assert!((best.pose.angle() - 38.0).abs() <= 1.0 && (best.pose.scale() - 1.0).abs() <= 0.05, "{best:?}");
            assert!(best.peak.score > 0.99, "{factor}: {best:?}");
            let at = best.middle();
            assert!(at.iter().zip([120.0, 130.0]).all(|(at, middle)| (at - middle).abs() <= 0.5), "{factor}: {best:?}");
            // The score is the whole image's, and so is the place below a sample.
            let posed = best.pose.of(&template.view(), None).unwrap();
            let mask = posed.mask.as_ref().map(|mask| mask as &dyn AsImage);
            let map = match_template(&image, &posed.template, mask, Measure::Zncc).unwrap();
            let all = PeakOptions { min_distance: Some(0), subpixel: fit, ..PeakOptions::default() };
            let own = find_peaks(&map, &all).into_iter().find(|peak| peak.position == best.peak.position).unwrap();
            assert!((own.score - best.peak.score).abs() < 1e-5, "{own:?} {best:?}");
            let off = own.refined.iter().flatten().zip(best.peak.refined.iter().flatten());
            assert!(off.into_iter().all(|(own, best)| (own - best).abs() < 1e-3), "{own:?} {best:?}");
            assert_eq!(own.refined.is_some(), best.peak.refined.is_some());
            let apart = |axis: usize| (found[1].middle()[axis] - at[axis]).abs() > 20.0;
            assert!(apart(0) || apart(1), "{found:?}");
        }
        // At the end of an image whose sides are no multiples of the factor, and by angles that are unevenly apart.
        let angles: Vec<f64> = (0..10).map(f64::from).chain([180.0]).collect();
        let uneven = Poses::grid(&angles, &[1.0]).unwrap();
        for (factor, origin) in [(4, [187, 205]), (3, [189, 219]), (5, [188, 218])] {
            let part = image.part([0, 0], Shape::new(&[origin[0] + 51, origin[1] + 41]).unwrap()).unwrap();
            let corner = part.part(origin, Shape::new(&[51, 41]).unwrap()).unwrap();
            let coarse = PosedOptions { coarse: Some(factor), ..options(1) };
            let found = find_posed(&part, &corner, &uneven, Measure::Zncc, &coarse).unwrap();
            assert_eq!((found[0].peak.position.as_slice(), found[0].pose.angle()), (&origin[..], 0.0), "{factor}");
        }
        for angle in [1.0, 4.0, 5.0, 8.0] {
            let turned = self::image(&[51, 41], |y, x| {
                let [_, v, u] = Pose::new(angle, 1.0).unwrap().place([0.0, y - 25.0, x - 20.0]);
                scene((120.0 + v) / 2.0, (130.0 + u) / 2.0)
            });
            let coarse = PosedOptions { coarse: Some(4), ..options(1) };
            let found = find_posed(&image, &turned, &uneven, Measure::Zncc, &coarse).unwrap();
            assert_eq!(found[0].pose.angle(), angle, "{found:?}");
        }
        // A peak at a border is left out, and its slope is no peak.
        let edge = image.part([3, 100], Shape::new(&[51, 41]).unwrap()).unwrap();
        let inside = PeakOptions { exclude_border: 5, top: Some(3), ..PeakOptions::default() };
        let coarse = PosedOptions { coarse: Some(2), peaks: inside, ..PosedOptions::default() };
        let single = Poses::grid(&[0.0], &[1.0]).unwrap();
        let [found, expected] = [coarse, PosedOptions { coarse: None, ..coarse }]
            .map(|options| find_posed(&image, &edge, &single, Measure::Zncc, &options).unwrap());
        let places = |found: &[PosedPeak]| found.iter().map(|found| found.peak.position.clone()).collect::<Vec<_>>();
        assert_eq!(places(&found), places(&expected));
        let few = PosedOptions { coarse: Some(2), ..options(1) };
        let threshold = PeakOptions { top: None, threshold: Some(0.99), ..PeakOptions::default() };
        let good = PosedOptions { peaks: threshold, ..few };
        assert_eq!(find_posed(&image, &template, &poses, Measure::Zncc, &good).unwrap().len(), 1);
        for (factor, expected) in [(1, "coarse: expected 2 to 4, by which 8 samples"), (5, "expected 2 to 4")] {
            let options = PosedOptions { coarse: Some(factor), ..few };
            let error = find_posed(&image, &template, &poses, Measure::Zncc, &options).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let small = image.part([0, 0], Shape::new(&[9, 9]).unwrap()).unwrap();
        let error = find_posed(&image, &small, &poses, Measure::Zncc, &few).unwrap_err().to_string();
        assert!(error.contains("none for a template of 9x9, which has too few samples"), "{error}");
        let spec: Spec = "zncc:f32:240x260*51x41:valid".parse().unwrap();
        let quarter = PosedOptions { coarse: Some(4), ..few };
        let planner = Planner::new().unwrap();
        let matcher = planner.posed_with(&spec, &template.view(), &poses, &quarter, &Control::default()).unwrap();
        assert!(matcher.poses() < poses.all().len() / 2, "{}", matcher.poses());
        assert!(matcher.search(&small.view(), &few, &Control::default()).is_err());
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
        let token = CancelToken::new();
        token.cancel();
        let cancelled = Control { cancel: Some(&token), ..Control::default() };
        let stopped = planner.posed_with(&spec, &template.view(), &turned, &options(1), &cancelled).map(|_| ());
        assert!(matches!(stopped, Err(ExecError::Cancelled { .. })), "{stopped:?}");
        let sums = find_posed(&image, &template, &turned, Measure::Ssd, &options(1)).unwrap_err();
        assert!(error(sums).contains("measure: expected a normalised measure"));
        let some = Region { origin: [0, 4, 29], shape: Shape::new(&[5, 4]).unwrap() };
        let part = spec.clone().with_roi(Some(some)).unwrap();
        assert!(planner.posed(&part, &template.view(), None, &turned).is_err());
        let finest = PosedOptions { finest: Some(0.0), ..options(1) };
        let wrong = matcher.search(&image.view(), &finest, &Control::default()).unwrap_err();
        assert!(error(wrong).contains("finest: expected degrees above 0"));
        let single = Poses::grid(&[0.0], &[1.0]).unwrap();
        let single = planner.posed(&spec, &template.view(), None, &single).unwrap();
        let between = PosedOptions { finest: Some(0.1), ..options(1) };
        let wrong = single.search(&image.view(), &between, &Control::default()).unwrap_err();
        assert!(error(wrong).contains("finest: expected none of poses that have one angle and one scale"));
        // A template that is larger than the image is looked for where it is made smaller; one of equal samples too.
        let large = self::image(&[50, 60], |y, x| scene(y / 4.0 + 3.0, x / 4.0 + 8.0));
        let smaller = Poses::grid(&[0.0], &[0.25, 1.0]).unwrap();
        let found = &find_posed(&image, &large, &smaller, Measure::Zncc, &options(1)).unwrap()[0];
        assert!(found.pose.scale() == 0.25 && found.peak.score > 0.99, "{found:?}");
        assert!(found.middle().iter().zip([9.125, 15.375]).all(|(at, middle)| (at - middle).abs() < 0.6), "{found:?}");
        // A pose that leaves no sample is nowhere; where all are such, that is told.
        let line = image.part([4, 5], Shape::new(&[1, 4]).unwrap()).unwrap();
        let some = Poses::grid(&[0.0, 45.0], &[1.0]).unwrap();
        assert_eq!(find_posed(&image, &line, &some, Measure::Zncc, &options(1)).unwrap()[0].pose.angle(), 0.0);
        let none = Poses::grid(&[45.0], &[1.0]).unwrap();
        let none = find_posed(&image, &line, &none, Measure::Zncc, &options(1)).unwrap_err();
        assert!(error(none).contains("pose: expected one that leaves a sample of the template"));
        // Far too large a pose is not made to be left out, and one of equal samples is nowhere.
        let huge = Poses::grid(&[0.0, 45.0], &[1.0, 64.0]).unwrap();
        assert_eq!(planner.posed(&spec, &template.view(), None, &huge).unwrap().left_out(), 3);
        let edge = self::image(&[3, 12], |y, x| if y == 0.0 && x == 0.0 { 9.0 } else { 1.0 });
        let flat = find_posed(&image, &edge, &Poses::grid(&[0.0, 30.0], &[1.0]).unwrap(), Measure::Zncc, &options(1));
        assert_eq!(flat.unwrap()[0].pose.angle(), 0.0);
        // In a box of one sample nothing is left to tell by: that is counted.
        let tiny = Poses::grid(&[0.0], &[0.1, 1.0]).unwrap();
        let part = image.part([3, 4], Shape::new(&[5, 7]).unwrap()).unwrap();
        let spec: Spec = "zncc:f32:20x40*5x7:valid".parse().unwrap();
        let matcher = planner.posed(&spec, &part.view(), None, &tiny).unwrap();
        assert_eq!((matcher.poses(), matcher.blank(), matcher.left_out()), (1, 1, 0));
        let signal: Spec = "zncc:f32:20*5:valid".parse().unwrap();
        let line = Image::new(vec![1f32, 4.0, 2.0, 8.0, 5.0], Shape::new(&[5]).unwrap()).unwrap();
        let refused = planner.posed(&signal, &line.view(), None, &Poses::grid(&[0.0, 90.0], &[1.0]).unwrap());
        assert!(error(refused.map(|_| ()).unwrap_err()).contains("angle: expected 0 for a signal, got 90"));
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
