//! The type that kernels sum windows up in, which is wider than the samples', and what it rounds.

/// The type that windows are summed up in, and that energies are made of such sums in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wide {
    /// Double precision.
    #[default]
    Double,
    /// The sum of two numbers in f32, for devices with few units for f64 (`templates/cuda/pipeline/wide`).
    TwoSingles,
}

impl Wide {
    /// What a sum of two numbers that are not negative is off by at most, over that sum. A difference of two singles is
    /// off by as much of both magnitudes together, and a square and a product by up to twice that of the result; the
    /// root mean square of all of these is below a fifth of it (docs/numerics.md).
    pub fn roundoff(self) -> f64 {
        match self {
            Wide::Double => f64::EPSILON / 2.0,
            Wide::TwoSingles => 3.0 * (f64::from(f32::EPSILON) / 2.0).powi(2),
        }
    }

    /// The smallest number that there is: a square is off by half of it where it has digits below.
    pub fn smallest(self) -> f64 {
        match self {
            Wide::Double => f64::from_bits(1),
            Wide::TwoSingles => f64::from(f32::from_bits(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_singles_are_a_little_less_than_a_double() {
        assert_eq!(Wide::default().roundoff(), 2f64.powi(-53));
        assert_eq!(Wide::TwoSingles.roundoff(), 3.0 * 2f64.powi(-48));
        assert_eq!([Wide::Double, Wide::TwoSingles].map(|wide| wide.smallest().log2()), [-1074.0, -149.0]);
    }
}
