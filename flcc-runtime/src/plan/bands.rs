//! Results band by band, of images that are never held whole: which samples a band looks at, and what it makes of them.

use std::any::Any;
use std::ops::Range;

use flcc_core::boundary::Boundary;
use flcc_core::error::{ExecError, Kind, SpecError};
use flcc_core::shape::Shape;
use flcc_core::view::{AnyView, AnyViewMut};

use crate::plan::matcher::Matcher;
use crate::problem::template;
use crate::run::execute::{AtHand, Banded, Control, Scratch, Statistics};

/// The results of a [`Matcher`] band by band. A band is a run of positions along one axis of the result, whole along
/// the others. It has the bits that it has in [`Matcher::execute`], and takes only those slices of the image that it
/// looks at: what the boundary rule does, it does as at the ends of the whole image.
///
/// ```
/// use flcc_runtime::{AnyView, AnyViewMut, Control, Planner, ScoreMap, Shape, View, ViewMut};
///
/// let (image, template) = (vec![3.0f32; 900 * 40], vec![1.0f32; 25]);
/// let spec = "corr:f32:900x40*5x5:same".parse()?;
/// let template: AnyView = View::new(&template, Shape::new(&[5, 5])?)?.into();
/// let matcher = Planner::new()?.plan(&spec)?.bind(&[template], None)?;
/// let bands = matcher.bands().expect("the CPU computes bands");
/// let (seams, mut scratch) = (bands.seams(), matcher.make_scratch());
/// for band in 0..seams.len() - 1 {
///     let mut rows = Vec::new();
///     for range in bands.slices(band..band + 1)? {
///         rows.extend_from_slice(&image[range.start * 40..range.end * 40]); // read from a file, say
///     }
///     let rows: AnyView = View::new(&rows, Shape::new(&[rows.len() / 40, 40])?)?.into();
///     let shape = Shape::new(&[seams[band + 1] - seams[band], 40])?;
///     let mut result = vec![0.0f32; shape.len()];
///     let mut outs = [AnyViewMut::from(ViewMut::new(&mut result, shape)?)];
///     bands.execute_into(band..band + 1, &rows, &mut outs, &mut scratch, &Control::default())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Bands<'a> {
    matcher: &'a Matcher,
    banded: &'a dyn Banded,
    bound: &'a (dyn Any + Send + Sync),
}

impl Matcher {
    /// The same results band by band; `None` on GPUs, which compute whole results.
    pub fn bands(&self) -> Option<Bands<'_>> {
        let (banded, bound) = self.banded()?;
        Some(Bands { matcher: self, banded, bound })
    }
}

impl Bands<'_> {
    /// The axis along which bands lie: of the image's axes the slowest, 0, but where the result has one position there.
    pub fn axis(&self) -> usize {
        (self.banded.axis() + self.matcher.plan().spec().image().axes()).saturating_sub(3)
    }

    /// Where bands may begin and end along that axis of the result: 0, then where tiles begin, then its length. It does
    /// not depend on the number of threads.
    pub fn seams(&self) -> Vec<usize> {
        self.banded.seams()
    }

    /// The slices of the image along that axis that the band from seam `band.start` to seam `band.end` looks at: one
    /// run of them, or two at the ends of an image that is wrapped around.
    ///
    /// # Errors
    /// A band that is empty or ends behind the last seam.
    pub fn slices(&self, band: Range<usize>) -> Result<Vec<Range<usize>>, SpecError> {
        self.needed(band).map(|needed| needed.runs)
    }

    fn needed(&self, band: Range<usize>) -> Result<Needed, SpecError> {
        let seams = self.seams().len();
        if band.is_empty() || band.end >= seams {
            let expected = format!("a band from a seam to a later one of {seams}");
            return Err(SpecError::new("band", expected, format!("{}..{}", band.start, band.end)));
        }
        let spec = self.matcher.plan().spec();
        Ok(Needed::of(self.banded.samples(band), spec.image().padded()[self.banded.axis()], spec.boundary()))
    }

    /// Computes a band, an image with every template: `outs[template]` has the band's shape. Of the image there is what
    /// [`Bands::slices`] tells, run behind run.
    ///
    /// # Errors
    /// A band that is none, arrays that are not its own, scratch of another plan, or cancelled.
    pub fn execute_into(
        &self,
        band: Range<usize>,
        slices: &AnyView<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        let (spec, axis) = (self.matcher.plan().spec(), self.banded.axis());
        let needed = self.needed(band.clone())?;
        let with = |shape: Shape, length: usize| {
            let mut lengths = shape.padded();
            lengths[axis] = length;
            shape.with_padded(lengths)
        };
        let there = with(spec.image(), needed.runs.iter().map(Range::len).sum())?;
        template::check_view("image", slices, there, spec.image_type(), spec.channels())?;
        let seams = self.seams();
        let shape = with(spec.out_shape(), seams[band.end] - seams[band.start])?;
        if outs.len() != spec.templates()
            || outs.iter().any(|out| out.shape() != shape || out.dtype() != spec.out_type())
        {
            let got: Vec<String> = outs.iter().map(|out| format!("{} {}", out.dtype(), out.shape())).collect();
            let expected = format!("{} of {} {shape}", spec.templates(), spec.out_type());
            return Err(SpecError::of(Kind::DimsMismatch, "outs", expected, got.join(", ")).into());
        }
        let image = AtHand { view: slices, skipped: needed.skipped };
        self.banded.execute_band(self.bound, image, band, outs, scratch, control)
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
    /// What of an axis of so many samples a boundary brings to some places. Put behind each other, the runs have the
    /// ends of the axis where places lie outside, and enough between them, so that the boundary brings the same there.
    fn of(places: Range<isize>, length: usize, boundary: Boundary) -> Needed {
        let (last, count) = (length as isize, |place: isize| usize::try_from(place).unwrap_or(0));
        let folded = || places.clone().filter_map(|place| boundary.fold(place, length));
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
            (true, false) => one(0..folded().max().unwrap_or(0) + 1, 0),
            (false, true) if wraps => {
                let (end, from) = (count(places.end - last), count(places.start));
                two(end, from, from.saturating_sub(end))
            }
            (false, true) => {
                let from = folded().min().unwrap_or(length - 1);
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
