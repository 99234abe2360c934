//! Regions of results, of images that are never held whole: which samples a region looks at, and what it makes of them.

use std::any::Any;
use std::ops::Range;

use flcc_core::boundary::Boundary;
use flcc_core::error::{ExecError, Kind, SpecError};
use flcc_core::shape::join;
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::plan::matcher::Matcher;
use crate::plan::planned::Plan;
use crate::problem::template;
use crate::run::execute::{AtHand, Control, Regional, Scratch, Statistics};

/// The results of a [`Matcher`] region by region. A region is a range of positions along each axis of the result, and
/// has the bits that it has in [`Matcher::execute`]. It takes only those samples of the image that it looks at: what
/// the boundary rule does, it does as at the ends of the whole image.
///
/// Results are computed by tiles, and a tile is computed whole. So any region will do, and those that begin and end at
/// seams between tiles, as [`Plan::grid`] has them, compute nothing twice.
///
/// ```
/// use flcc_runtime::{AnyView, AnyViewMut, Control, Planner, Shape, View, ViewMut};
///
/// let (image, template) = (vec![3.0f32; 900 * 40], vec![1.0f32; 25]);
/// let template: AnyView = View::new(&template, Shape::new(&[5, 5])?)?.into();
/// let plan = Planner::new()?.plan(&"corr:f32:900x40*5x5:same".parse()?)?;
/// let matcher = plan.bind(&[template], None)?;
/// let (regions, mut scratch) = (matcher.regions().expect("the CPU computes regions"), matcher.make_scratch());
/// for region in plan.grid(1 << 20)? {
///     let needs = regions.needs(&region)?;
///     let mut cutout = Vec::new();
///     for row in needs[0].iter().cloned().flatten() {
///         for run in &needs[1] {
///             cutout.extend_from_slice(&image[row * 40..][run.clone()]); // read from a file, say
///         }
///     }
///     let lengths: Vec<usize> = needs.iter().map(|runs| runs.iter().map(|run| run.len()).sum()).collect();
///     let cutout: AnyView = View::new(&cutout, Shape::new(&lengths)?)?.into();
///     let shape = Shape::new(&[region[0].len(), region[1].len()])?;
///     let mut result = vec![0.0f32; shape.len()];
///     let mut outs = [AnyViewMut::from(ViewMut::new(&mut result, shape)?)];
///     regions.execute_into(&region, &cutout, &mut outs, &mut scratch, &Control::default())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Regions<'a> {
    matcher: &'a Matcher,
    regional: &'a dyn Regional,
    bound: &'a (dyn Any + Send + Sync),
}

impl Matcher {
    /// The matcher's results region by region; `None` on GPUs, which compute whole results: there [`Matcher::on_cpu`]
    /// has some.
    pub fn regions(&self) -> Option<Regions<'_>> {
        let (regional, bound) = self.regional()?;
        Some(Regions { matcher: self, regional, bound })
    }
}

impl Plan {
    /// Where tiles begin along an axis of the result, and its length behind them; on GPUs the result is one tile.
    ///
    /// # Errors
    /// An axis that the result does not have.
    pub fn seams(&self, axis: usize) -> Result<Vec<usize>, SpecError> {
        let spec = self.spec();
        let lengths = spec.out_shape();
        let Some(length) = lengths.lengths().get(axis) else {
            return Err(SpecError::new("axis", format!("an axis of {lengths}, from 0"), axis));
        };
        let axis = axis + 3 - lengths.axes();
        Ok(match self.regional() {
            Some(regional) => (0..=regional.counts()[axis]).map(|number| regional.seam(axis, number)).collect(),
            None => vec![0, *length],
        })
    }

    /// Regions that cover the result, in row-major order, each as a range along every axis: whole tiles, and so few
    /// of them that a region takes no more than so many bytes, with what it looks at of the image, its results, scratch
    /// and bound templates. All lie in one grid.
    ///
    /// # Errors
    /// `memory_limit` too small for one tile.
    pub fn grid(&self, memory_limit: usize) -> Result<Vec<Vec<Range<usize>>>, SpecError> {
        let spec = self.spec();
        let taken = self.held_bytes();
        let axes = spec.image().axes();
        let seams: Vec<Vec<usize>> = (0..axes).map(|axis| self.seams(axis)).collect::<Result<_, _>>()?;
        // Tiles of a part along each axis.
        let mut tiles: Vec<usize> = seams.iter().map(|seams| seams.len() - 1).collect();
        loop {
            let bytes = self.part_bytes(&seams, &tiles).saturating_add(taken);
            if bytes <= memory_limit {
                break;
            }
            // The longest is halved: it gives up the least to what neighbours both look at.
            let length = |axis: usize| seams[axis][tiles[axis]];
            let Some(longest) = (0..axes).filter(|&axis| tiles[axis] > 1).max_by_key(|&axis| length(axis)) else {
                let expected = format!("{bytes} bytes, which one tile takes with scratch and templates, or more");
                return Err(SpecError::new("memory_limit", expected, memory_limit));
            };
            tiles[longest] = tiles[longest].div_ceil(2);
        }
        let ranges = |axis: usize| {
            let (seams, tiles) = (&seams[axis], tiles[axis]);
            let last = seams.len() - 1;
            (0..last).step_by(tiles).map(move |from| seams[from]..seams[(from + tiles).min(last)])
        };
        let mut regions = vec![Vec::new()];
        for axis in 0..axes {
            let longer = |region: &Vec<Range<usize>>| {
                let region = region.clone();
                ranges(axis).map(move |range| region.iter().cloned().chain([range]).collect()).collect::<Vec<_>>()
            };
            regions = regions.iter().flat_map(longer).collect();
        }
        Ok(regions)
    }

    /// The most bytes that parts of so many tiles an axis take of the image and of results.
    fn part_bytes(&self, seams: &[Vec<usize>], tiles: &[usize]) -> usize {
        let spec = self.spec();
        let (lengths, padded) = (spec.out_shape().padded(), spec.image().padded());
        let missing = 3 - seams.len();
        let (mut samples, mut results) = (spec.channels(), spec.templates());
        for axis in 0..3usize {
            let Some((seams, tiles)) = axis.checked_sub(missing).map(|at| (&seams[at], tiles[at])) else { continue };
            let last = seams.len() - 1;
            let parts = || (0..last).step_by(tiles).map(|from| seams[from]..seams[(from + tiles).min(last)]);
            results = results.saturating_mul(parts().map(|part| part.len()).max().unwrap_or(0));
            let along = |part: Range<usize>| match self.regional() {
                Some(regional) => {
                    let mut region = lengths.map(|length| 0..length);
                    region[axis] = part;
                    let places = regional.samples(&region)[axis].clone();
                    Needed::of(places, padded[axis], spec.boundary()).len()
                }
                None => padded[axis],
            };
            samples = samples.saturating_mul(parts().map(along).max().unwrap_or(0));
        }
        let (samples, results) =
            (samples.saturating_mul(spec.image_type().row().size), results.saturating_mul(spec.out_type().row().size));
        samples.saturating_add(results)
    }
}

impl Regions<'_> {
    /// How many tiles the result has along an axis of it.
    pub fn count(&self, axis: usize) -> usize {
        self.regional.counts()[self.padded_axis(axis)]
    }

    /// Where a tile begins along an axis of the result; of the number behind the last, the length of the axis. It does
    /// not depend on the number of threads.
    pub fn seam(&self, axis: usize, number: usize) -> usize {
        self.regional.seam(self.padded_axis(axis), number)
    }

    fn padded_axis(&self, axis: usize) -> usize {
        (axis + 3 - self.spec().image().axes()).min(2)
    }

    fn spec(&self) -> &Spec {
        self.matcher.plan().spec()
    }

    /// The runs of samples along each axis of the image that a region looks at: one, or two at the ends of an image
    /// that is wrapped around.
    ///
    /// # Errors
    /// A region that is empty or not one of the result.
    pub fn needs(&self, region: &[Range<usize>]) -> Result<Vec<Vec<Range<usize>>>, SpecError> {
        let needed = self.needed(&self.padded(region)?);
        Ok(needed.into_iter().skip(3 - region.len()).map(|needed| needed.runs).collect())
    }

    /// A region along three axes.
    fn padded(&self, region: &[Range<usize>]) -> Result<[Range<usize>; 3], SpecError> {
        let shape = self.spec().out_shape();
        let inside = |(range, length): (&Range<usize>, &usize)| !range.is_empty() && range.end <= *length;
        if region.len() != shape.axes() || !region.iter().zip(shape.lengths()).all(inside) {
            let ranges: Vec<String> = region.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
            let expected = format!("a range of one position or more along each axis of {shape}");
            return Err(SpecError::new("region", expected, join(&ranges, ",")));
        }
        let mut padded = [0..1, 0..1, 0..1];
        padded[3 - region.len()..].clone_from_slice(region);
        Ok(padded)
    }

    fn needed(&self, region: &[Range<usize>; 3]) -> [Needed; 3] {
        let (samples, lengths) = (self.regional.samples(region), self.spec().image().padded());
        [0, 1, 2].map(|axis| Needed::of(samples[axis].clone(), lengths[axis], self.spec().boundary()))
    }

    /// Computes a region, an image with every template: `outs[template]` has the region's shape. Of the image there is,
    /// along each axis, what [`Regions::needs`] tells, run behind run, or all.
    ///
    /// # Errors
    /// A region that is none, arrays that are not its own, scratch of another plan, or cancelled.
    pub fn execute_into(
        &self,
        region: &[Range<usize>],
        cutout: &AnyView<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let (spec, region) = (self.spec(), self.padded(region)?);
        let needed = self.needed(&region);
        let (given, lengths) = (cutout.shape().padded(), spec.image().padded());
        let all = [0, 1, 2].map(|axis| given[axis] == lengths[axis]);
        let there = [0, 1, 2].map(|axis| if all[axis] { lengths[axis] } else { needed[axis].len() });
        template::check_view("image", cutout, spec.image().with_padded(there)?, spec.image_type(), spec.channels())?;
        let shape = spec.out_shape().with_padded([0, 1, 2].map(|axis| region[axis].len()))?;
        if outs.len() != spec.templates()
            || outs.iter().any(|out| out.shape() != shape || out.dtype() != spec.out_type())
        {
            let got: Vec<String> = outs.iter().map(|out| format!("{} {}", out.dtype(), out.shape())).collect();
            let expected = format!("{} of {} {shape}", spec.templates(), spec.out_type());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, got.join(", ")).into());
        }
        let skipped = [0, 1, 2].map(|axis| if all[axis] { 0 } else { needed[axis].skipped });
        let image = AtHand { view: cutout, skipped };
        self.regional.execute_region(self.bound, image, &region, outs, scratch, control)
    }
}

/// What of an axis is looked at.
#[derive(Debug, PartialEq)]
struct Needed {
    runs: Vec<Range<usize>>,
    /// Samples before the last run that are in none.
    skipped: usize,
}

impl Needed {
    /// Samples in the runs.
    fn len(&self) -> usize {
        self.runs.iter().map(Range::len).sum()
    }

    /// What of an axis of so many samples a boundary brings to some places. Put behind each other, the runs have the
    /// ends of the axis where places lie outside, and enough between them, so that the boundary brings the same there.
    fn of(places: Range<isize>, length: usize, boundary: Boundary) -> Needed {
        let (last, count) = (length as isize, |place: isize| usize::try_from(place).unwrap_or(0));
        // Inside the image each place is its own sample.
        let folded = |outside: Range<isize>| outside.filter_map(|place| boundary.fold(place, length));
        let wraps = matches!(boundary, Boundary::Wrap);
        let one = |run: Range<usize>, skipped: usize| Needed { runs: vec![run], skipped };
        let two = |end: usize, from: usize, skipped: usize| match end < from {
            true => Needed { runs: vec![0..end, from..length], skipped },
            false => one(0..length, 0),
        };
        match (places.start < 0, places.end > last) {
            (false, false) => one(count(places.start)..count(places.end), count(places.start)),
            (true, true) => one(0..length, 0),
            (true, false) if wraps => two(count(places.end), count(last + places.start), 0),
            (true, false) => {
                let outside = folded(places.start..0).max().map_or(0, |last| last + 1);
                one(0..outside.max(count(places.end)), 0)
            }
            (false, true) if wraps => {
                let (end, from) = (count(places.end - last), count(places.start));
                two(end, from, from.saturating_sub(end))
            }
            (false, true) => {
                let outside = folded(last..places.end).min().unwrap_or(length - 1);
                let from = outside.min(count(places.start));
                one(from..length, from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_boundary_brings_the_same_samples(
            length in 1usize..30,
            (begin, count) in (-40isize..40, 1isize..50),
            rule in 0usize..6,
        ) {
            use Boundary::*;
            let rule = [Zero, Constant(7.0), Replicate, Reflect, Mirror, Wrap][rule];
            // Tiles touch the image.
            prop_assume!(begin < length as isize && begin + count > 0);
            let needed = Needed::of(begin..begin + count, length, rule);
            let there: Vec<usize> = needed.runs.iter().cloned().flatten().collect();
            prop_assert!(there.is_sorted() && there.iter().all(|place| *place < length));
            for place in begin..begin + count {
                let here = rule.fold(place - needed.skipped as isize, there.len()).map(|place| there[place]);
                prop_assert_eq!(here, rule.fold(place, length), "{} in {:?}", place, needed);
            }
        }
    }
}
