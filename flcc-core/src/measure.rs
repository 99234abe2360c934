//! The table of measures. Each is a file of its own with its formula.
//!
//! Measures never see pixels and kernels never see measures: they meet in the sums of [`crate::sums`].

use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;
use crate::sums::Needs;

mod cc;
mod formula;
mod ncc;
mod nssd;
mod sad;
mod ssd;
mod zncc;

pub use cc::Cc;
pub use formula::{Formula, Integer};
pub use ncc::Ncc;
pub use nssd::Nssd;
pub use sad::Sad;
pub use ssd::Ssd;
pub use zncc::Zncc;

/// A matching measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The plain sum of products. As an operation it is [`Op::Correlate`](crate::op::Op::Correlate).
    Cc,
    /// Normalised cross-correlation.
    Ncc,
    /// Zero-mean normalised cross-correlation: the local correlation coefficient.
    Zncc,
    /// Sum of squared differences.
    Ssd,
    /// Normalised sum of squared differences.
    Nssd,
    /// Sum of absolute differences.
    Sad,
}

/// Which of two scores is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Best {
    /// The larger: of sums, ncc and zncc.
    #[default]
    Largest,
    /// The smaller: of ssd, nssd and sad.
    Smallest,
}

/// What powers of two may multiply the samples of image and template, and what becomes of scores by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// The template has norm 1: scores stay as they are.
    Unit,
    /// Each its own, which scores are multiplied by.
    Own,
    /// One for both, by the square of which scores are multiplied.
    Common,
    /// Each its own, but differences are taken in one scale: scores stay as they are.
    Relative,
    /// None: both are taken as they are.
    Fixed,
}

/// What the rest of the program asks about a measure.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The measure.
    pub measure: Measure,
    /// Its name.
    pub name: &'static str,
    /// OpenCV's name of it, which is taken too.
    pub opencv: Option<&'static str>,
    /// Which scores are better.
    pub best: Best,
    /// Whether scores are unitless and bounded by 1, so that an absolute promise makes sense.
    pub normalised: bool,
    /// How samples may be scaled.
    pub scaling: Scaling,
    /// What it asks of the kernels.
    pub needs: Needs,
}

const fn row<F: Formula>(
    measure: Measure,
    (name, opencv): (&'static str, Option<&'static str>),
    best: Best,
    normalised: bool,
    scaling: Scaling,
) -> Row {
    Row { measure, name, opencv, best, normalised, scaling, needs: F::NEEDS }
}

/// The table, in the order of [`Measure`].
pub const MEASURES: [Row; 6] = [
    row::<Cc>(Measure::Cc, ("cc", Some("TM_CCORR")), Best::Largest, false, Scaling::Own),
    row::<Ncc>(Measure::Ncc, ("ncc", Some("TM_CCORR_NORMED")), Best::Largest, true, Scaling::Unit),
    row::<Zncc>(Measure::Zncc, ("zncc", Some("TM_CCOEFF_NORMED")), Best::Largest, true, Scaling::Unit),
    row::<Ssd>(Measure::Ssd, ("ssd", Some("TM_SQDIFF")), Best::Smallest, false, Scaling::Common),
    row::<Nssd>(Measure::Nssd, ("nssd", Some("TM_SQDIFF_NORMED")), Best::Smallest, true, Scaling::Relative),
    row::<Sad>(Measure::Sad, ("sad", None), Best::Smallest, false, Scaling::Fixed),
];

/// Runs an expression with `$formula` naming the type of the measure's formula: one `match` outside the pixel loop.
#[macro_export]
macro_rules! with_formula {
    ($measure:expr, $formula:ident => $body:expr) => {
        match $measure {
            $crate::measure::Measure::Cc => {
                type $formula = $crate::measure::Cc;
                $body
            }
            $crate::measure::Measure::Ncc => {
                type $formula = $crate::measure::Ncc;
                $body
            }
            $crate::measure::Measure::Zncc => {
                type $formula = $crate::measure::Zncc;
                $body
            }
            $crate::measure::Measure::Ssd => {
                type $formula = $crate::measure::Ssd;
                $body
            }
            $crate::measure::Measure::Nssd => {
                type $formula = $crate::measure::Nssd;
                $body
            }
            $crate::measure::Measure::Sad => {
                type $formula = $crate::measure::Sad;
                $body
            }
        }
    };
}

impl Measure {
    /// Its row of [`MEASURES`].
    pub fn row(self) -> &'static Row {
        &MEASURES[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Measure {
    type Err = SpecError;

    /// Its name, or OpenCV's.
    fn from_str(text: &str) -> Result<Measure, SpecError> {
        MEASURES
            .iter()
            .find(|row| row.name == text || row.opencv == Some(text))
            .map(|row| row.measure)
            .ok_or_else(|| SpecError::new("measure", "cc, ncc, zncc, ssd, nssd or sad", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, row) in MEASURES.iter().enumerate() {
            assert_eq!(row.measure as usize, i);
            assert_eq!(row.name.parse::<Measure>().unwrap(), row.measure);
            assert!(row.opencv.is_none_or(|name| name.parse::<Measure>().unwrap() == row.measure));
        }
    }

    /// The formulas of both finishes on one small panel, written out.
    #[test]
    fn formulas_on_literal_samples() {
        let (p, t) = ([1.0, 2.0, 4.0, 9.0], [3.0, 1.0, 5.0, 7.0]);
        let n = 4.0;
        let (sp, st): (f64, f64) = (16.0, 16.0);
        let (spp, stt): (f64, f64) = (102.0, 84.0);
        let spt: f64 = p.iter().zip(t).map(|(p, t)| p * t).sum();
        assert_eq!(spt, 88.0);
        let r = (n * spt - sp * st) / ((n * spp - sp * sp).sqrt() * (n * stt - st * st).sqrt());
        let centred = spt - sp * st / n;
        assert!((Zncc::finish(centred, Zncc::energy(sp, spp, n), stt - st * st / n) - r).abs() < 1e-15);
        assert_eq!(
            Zncc::exact_finish(Zncc::exact_cross(88i64, 16, 16, 4), Zncc::exact_energy(16, 102, 4), 4 * 84 - 256),
            r
        );
        assert_eq!(
            Ncc::exact_finish(Ncc::exact_cross(88i128, 16, 16, 4), Ncc::exact_energy(16, 102, 4), 84),
            88.0 / (spp.sqrt() * stt.sqrt())
        );
        assert_eq!(Ssd::finish(spt, spp, stt), 10.0);
        assert_eq!(Ssd::exact_finish(88i64, 102, 84), 10.0);
        assert_eq!(Nssd::exact_finish(88i64, 102, 84), 10.0 / (spp.sqrt() * stt.sqrt()));
        assert_eq!(Sad::finish(6.0, 0.0, 0.0), 6.0);
    }
}
