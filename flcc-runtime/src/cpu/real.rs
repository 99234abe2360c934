//! The types that tiles are computed in: f32 and f64, with what the pipeline needs of them.

use flcc_core::dtype::Pixel;

use crate::cpu::fft::library::Sample;
use crate::cpu::kernels::kernel::Float;
use crate::problem::scheme::SINGLE_REACH;

/// A float that tiles are computed in.
pub trait Real: Float + Sample + Into<f64> {
    /// The bits of a magnitude: an integer that orders as magnitudes do, NaN above all.
    type Bits: Copy + Ord + Default + Send + Sync;
    /// The bits of infinity: anything finite is below.
    const INFINITY: Self::Bits;
    /// Half the distance from 1 to the next number.
    const ROUNDOFF: f64;
    /// Magnitudes within `2^-REACH ..= 2^REACH` are computed with as they are; others are scaled first.
    const REACH: i32;
    /// The smallest number above 0.
    const SMALLEST: f64;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The bits of its magnitude.
    fn magnitude(self) -> Self::Bits;
    /// `pixel - offset`, rounded once.
    fn centre<P: Pixel>(pixel: P, offset: f64) -> Self;
    /// The values, if they are `f32`.
    fn singles(values: &[Self]) -> Option<&[f32]>;
    /// The values, if they are `f32`, to be written.
    fn singles_mut(values: &mut [Self]) -> Option<&mut [f32]>;
}

impl Real for f32 {
    type Bits = u32;
    const INFINITY: u32 = 0x7f80_0000;
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
    const REACH: i32 = SINGLE_REACH;
    const SMALLEST: f64 = f32::from_bits(1) as f64;

    #[inline(always)]
    fn of(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn magnitude(self) -> u32 {
        self.to_bits() & 0x7fff_ffff
    }

    #[inline(always)]
    fn centre<P: Pixel>(pixel: P, offset: f64) -> f32 {
        // In every type but f64 the offset is an f32.
        if size_of::<P>() == 8 { (pixel.to_f64() - offset) as f32 } else { pixel.to_f32() - offset as f32 }
    }

    fn singles(values: &[f32]) -> Option<&[f32]> {
        Some(values)
    }

    fn singles_mut(values: &mut [f32]) -> Option<&mut [f32]> {
        Some(values)
    }
}

impl Real for f64 {
    type Bits = u64;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const ROUNDOFF: f64 = f64::EPSILON / 2.0;
    const REACH: i32 = 200;
    const SMALLEST: f64 = f64::from_bits(1);

    #[inline(always)]
    fn of(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn magnitude(self) -> u64 {
        self.to_bits() & 0x7fff_ffff_ffff_ffff
    }

    #[inline(always)]
    fn centre<P: Pixel>(pixel: P, offset: f64) -> f64 {
        pixel.to_f64() - offset
    }

    fn singles(_: &[f64]) -> Option<&[f32]> {
        None
    }

    fn singles_mut(_: &mut [f64]) -> Option<&mut [f32]> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_order() {
        assert!((-3.0f32).magnitude() > 2.0f32.magnitude());
        assert!(f32::MAX.magnitude() < <f32 as Real>::INFINITY);
        assert!(f64::NAN.magnitude() > <f64 as Real>::INFINITY);
    }
}
