//! Poses between those of a grid, and places below a sample: scores of one pose around one place.

use flcc_core::error::ExecError;
use flcc_core::extent::Region;
use flcc_core::peaks::{Peak, PeakOptions, Search, refined};
use flcc_core::pose::Pose;
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::subpixel::Subpixel;
use flcc_core::view::AnyView;

use super::scan::{PosedPeak, Scan};
use crate::call::overlay::order;
use crate::call::peaks::find_peaks;

/// How many samples a pose between two may stand beside either of them.
pub(super) const NEAR: usize = 2;

/// How often a step of so many degrees is halved until it is no larger than `finest`. Of scales alone, whose step is 0
/// degrees, as often as one of a degree.
pub(super) fn halvings(step: f64, finest: f64) -> u32 {
    let step = if step > 0.0 { step } else { 1.0 };
    (step / finest).log2().ceil().clamp(0.0, 64.0) as u32
}

/// Scores of a pose around a place.
struct Around {
    map: ScoreMap,
    /// Where the first of them lies among the positions of the pose's box.
    from: [usize; 3],
    /// The shape of that box.
    shape: Shape,
}

impl Scan {
    /// Moves a peak to the best pose near by, in steps of an angle and of a scale that are halved so often. Places that
    /// options leave out at the border are none.
    pub(super) fn refine(
        &self,
        image: &AnyView<'_>,
        peak: &mut PosedPeak,
        steps: [f64; 2],
        halvings: u32,
        options: &PeakOptions,
    ) -> Result<(), ExecError> {
        let [mut angle, mut scale] = steps;
        for _ in 0..halvings {
            (angle, scale) = (angle / 2.0, scale / 2.0);
            let from = peak.pose;
            let around = [-angle, 0.0, angle].map(|turned| [-scale, 0.0, scale].map(|scaled| [turned, scaled]));
            for [turned, scaled] in around.into_iter().flatten() {
                let Ok(pose) = Pose::new(from.angle() + turned, from.scale() + scaled) else { continue };
                let pose = self.poses.in_circle(pose);
                if pose != from
                    && self.poses.has_between(&pose)
                    && let Some(other) = self.near(image, pose, peak.twice_middle(), NEAR)?
                    && self.is_inside(&other, options)
                    && order(self.spec.op().best(), other.peak.score, peak.peak.score).is_lt()
                {
                    *peak = other;
                }
            }
        }
        Ok(())
    }

    /// The best place of a pose whose middle, twice that, is so, or up to so many samples away on any axis; none where
    /// the pose is nowhere there.
    pub(super) fn near(
        &self,
        image: &AnyView<'_>,
        pose: Pose,
        middle: [i64; 3],
        reach: usize,
    ) -> Result<Option<PosedPeak>, ExecError> {
        let Some(around) = self.around(image, pose, middle, reach)? else { return Ok(None) };
        let best = PeakOptions { top: Some(1), min_distance: Some(reach.saturating_mul(2)), ..PeakOptions::default() };
        let Some(found) = find_peaks(&around.map, &best).into_iter().next() else { return Ok(None) };
        let shape = around.shape;
        let at = shape.pad(&found.position);
        let position = shape.unpad(&[0, 1, 2].map(|axis| at[axis] + around.from[axis]));
        Ok(Some(PosedPeak { peak: Peak { position, score: found.score, refined: None }, shape, pose }))
    }

    /// A peak's place below a sample, by the scores of its pose around it.
    pub(super) fn fit_at(
        &self,
        image: &AnyView<'_>,
        peak: &PosedPeak,
        fit: Subpixel,
    ) -> Result<Option<Vec<f64>>, ExecError> {
        let alone = PeakOptions { top: Some(0), subpixel: Some(fit), ..PeakOptions::default() };
        let reach = Search::new(peak.shape, self.spec.op().best(), alone).reach();
        let around = self.around(image, peak.pose, peak.twice_middle(), reach)?;
        Ok(around.map(|Around { map, from, shape }| {
            let at = shape.pad(&peak.peak.position);
            let inside = shape.unpad(&[0, 1, 2].map(|axis| at[axis] - from[axis]));
            let from = shape.unpad(&from);
            refined(&map, &inside, fit).into_iter().zip(from).map(|(at, from)| at + from as f64).collect()
        }))
    }

    /// The scores of a pose at places up to so many samples from one.
    fn around(
        &self,
        image: &AnyView<'_>,
        pose: Pose,
        middle: [i64; 3],
        reach: usize,
    ) -> Result<Option<Around>, ExecError> {
        // One that leaves no sample of a small template is nowhere.
        let Ok(posed) = self.posed(pose) else { return Ok(None) };
        let Some(spec) = self.spec_of(&posed)? else { return Ok(None) };
        let (all, shape) = (spec.region(), posed.template.shape());
        let (places, is) = (all.shape.padded(), shape.padded());
        let (mut from, mut sides) = ([0; 3], [1; 3]);
        for axis in 3 - shape.axes()..3 {
            // Of the box whose middle lies there, rounded to the sample before.
            let first = (middle[axis] + 1 - is[axis] as i64).div_euclid(2);
            let reach = reach.min(places[axis]) as i64;
            let (begin, end) = ((first - reach).max(0), (first + reach + 1).min(places[axis] as i64));
            if begin >= end {
                return Ok(None);
            }
            (from[axis], sides[axis]) = (begin as usize, (end - begin) as usize);
        }
        let origin = [0, 1, 2].map(|axis| all.origin[axis] + from[axis]);
        let region = Region { origin, shape: shape.with_padded(sides)? };
        let plan = self.planner.plan(&spec.with_roi(Some(region))?)?;
        let Some(bound) = self.bound(&plan, &posed)? else { return Ok(None) };
        let map = bound.execute(&[*image])?.swap_remove(0);
        Ok(Some(Around { map, from, shape }))
    }
}
