//! NEON of 64-bit Arm: vectors of floats, and sums of products of bytes.

use std::arch::aarch64 as arm;

use crate::isa::detect::detected;
use crate::isa::simd::{Job, Simd};
use crate::isa::slices::{head, head_mut, within};
use crate::isa::{Isa, IsaSet};

floats! {
    /// NEON, 4 `f32`.
    neon_f32: f32, 4 of float32x4_t, aarch64 "neon", zero = vdupq_n_f32(0.0), splat = vdupq_n_f32,
    load = vld1q_f32, store = vst1q_f32, mul_add = |a, b, c| vfmaq_f32(c, a, b), add = vaddq_f32, sub = vsubq_f32,
    abs = |value| vabsq_f32(value),
    larger = |a, b| vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
}
floats! {
    /// NEON, 2 `f64`.
    neon_f64: f64, 2 of float64x2_t, aarch64 "neon", zero = vdupq_n_f64(0.0), splat = vdupq_n_f64,
    load = vld1q_f64, store = vst1q_f64, mul_add = |a, b, c| vfmaq_f64(c, a, b), add = vaddq_f64, sub = vsubq_f64,
    abs = |value| vabsq_f64(value),
    larger = |a, b| vbslq_f64(vcgtq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b)), a, b)
}

/// NEON with the dot product: 16 bytes as 4 groups of four, and their sums in 4 integers of 32 bits.
///
/// The instruction multiplies unsigned bytes, and samples come less 128: a load turns their highest bit back, and
/// [`begin`](neondot_u8::begin) takes from the sums what that puts in.
pub(crate) mod neondot_u8 {
    use std::arch::aarch64::*;
    use std::arch::asm;

    /// The vector: bytes, or integers of 32 bits.
    pub type Vector = uint32x4_t;

    /// Where sums of a template's products with samples less 128 begin that are to begin with `bias`.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn begin(bias: i32, template: &[[u8; 4]]) -> i32 {
        let taps = template.as_flattened().iter().fold(0i32, |sum, &tap| sum.wrapping_add(i32::from(tap)));
        bias.wrapping_sub(taps.wrapping_mul(128))
    }

    /// `value` in every lane.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn splat(value: i32) -> Vector {
        vreinterpretq_u32_s32(vdupq_n_s32(value))
    }

    /// Four taps, the same in every lane.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn splat_group(taps: [u8; 4]) -> Vector {
        vdupq_n_u32(u32::from_ne_bytes(taps))
    }

    /// The 16 samples from byte `at` on, as they were before 128 was taken from them.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn load<const N: usize>(values: &[[i8; 4]; N], at: usize) -> Vector {
        assert!(at <= 4 * N && 4 * N - at >= 16);
        // SAFETY: the assertion above: the 16 bytes from `at` lie in the array. The load may be unaligned.
        let samples = unsafe { vld1q_u8(values.as_ptr().cast::<u8>().add(at)) };
        vreinterpretq_u32_u8(veorq_u8(samples, vdupq_n_u8(0x80)))
    }

    /// In each lane `sum + taps[0] samples[0] + ... + taps[3] samples[3]`, modulo 2^32.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn add_products(mut sum: Vector, taps: Vector, samples: Vector) -> Vector {
        // SAFETY: it reads and writes registers only. The intrinsic for it is not stable.
        unsafe {
            asm!("udot {:v}.4s, {:v}.16b, {:v}.16b", inout(vreg) sum, in(vreg) taps, in(vreg) samples,
                options(pure, nomem, nostack, preserves_flags));
        }
        sum
    }

    /// Four phases, whose lane `l` is of column `4 l + phase`, as 16 neighbouring columns, of which the row has room
    /// for the first or for all: rounded once, or (`bits`) as the bits of the integers.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub fn store(row: &mut [f32], mut phases: [Vector; 4], bits: bool) {
        if !bits {
            for sums in &mut phases {
                *sums = vreinterpretq_u32_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(*sums)));
            }
        }
        let [zero, one, two, three] = phases;
        let phases = float32x4x4_t(
            vreinterpretq_f32_u32(zero),
            vreinterpretq_f32_u32(one),
            vreinterpretq_f32_u32(two),
            vreinterpretq_f32_u32(three),
        );
        if let Some(row) = row.first_chunk_mut::<16>() {
            // SAFETY: the 16 values that it writes are the array's.
            unsafe { vst4q_f32(row.as_mut_ptr(), phases) };
        } else {
            let mut columns = [0.0; 16];
            // SAFETY: as above.
            unsafe { vst4q_f32(columns.as_mut_ptr(), phases) };
            row.copy_from_slice(&columns[..row.len()]);
        }
    }
}

proof! {
    /// NEON.
    Neon
}

impl Simd for Neon {
    shared! {
        Neon "neon", 32 registers, 4 of arm::float32x4_t, 2 of arm::float64x2_t,
        load = arm::vld1q_f32, store = arm::vst1q_f32
    }

    operations! {
        fn splat(value: f32) -> arm::float32x4_t = arm::vdupq_n_f32(value);
        fn load(row: &[f32; 4]) -> arm::float32x4_t = arm::vld1q_f32(row.as_ptr());
        fn store(row: &mut [f32; 4], value: arm::float32x4_t) = arm::vst1q_f32(row.as_mut_ptr(), value);
        fn load_at(values: &[f32], at: usize) -> arm::float32x4_t = arm::vld1q_f32(values[at..at + 4].as_ptr());
        fn store_at(values: &mut [f32], at: usize, value: arm::float32x4_t) =
            arm::vst1q_f32(values[at..at + 4].as_mut_ptr(), value);
        fn add(a: arm::float32x4_t, b: arm::float32x4_t) -> arm::float32x4_t = arm::vaddq_f32(a, b);
        fn sub(a: arm::float32x4_t, b: arm::float32x4_t) -> arm::float32x4_t = arm::vsubq_f32(a, b);
        fn mul(a: arm::float32x4_t, b: arm::float32x4_t) -> arm::float32x4_t = arm::vmulq_f32(a, b);
        fn mul_add(a: arm::float32x4_t, b: arm::float32x4_t, c: arm::float32x4_t) -> arm::float32x4_t =
            arm::vfmaq_f32(c, a, b);
        fn sub_mul(a: arm::float32x4_t, b: arm::float32x4_t, c: arm::float32x4_t) -> arm::float32x4_t =
            arm::vfmsq_f32(c, a, b);
        fn root(a: arm::float32x4_t) -> arm::float32x4_t = arm::vsqrtq_f32(a);
        fn reciprocal_root(a: arm::float32x4_t) -> arm::float32x4_t = {
            // The estimate has 8 bits, and each step doubles them.
            let y = arm::vrsqrteq_f32(a);
            let y = arm::vmulq_f32(y, arm::vrsqrtsq_f32(arm::vmulq_f32(a, y), y));
            arm::vmulq_f32(y, arm::vrsqrtsq_f32(arm::vmulq_f32(a, y), y))
        };
        // Either is NaN where one operand is.
        fn clamp(a: arm::float32x4_t) -> arm::float32x4_t =
            arm::vmaxq_f32(arm::vdupq_n_f32(-1.0), arm::vminq_f32(arm::vdupq_n_f32(1.0), a));
        fn larger_magnitude(a: arm::float32x4_t, largest: arm::float32x4_t) -> arm::float32x4_t =
            arm::vreinterpretq_f32_u32(arm::vmaxq_u32(
                arm::vreinterpretq_u32_f32(arm::vabsq_f32(a)),
                arm::vreinterpretq_u32_f32(largest),
            ));
        fn largest(a: arm::float32x4_t) -> u32 = arm::vmaxvq_u32(arm::vreinterpretq_u32_f32(a));
        fn total(a: arm::float32x4_t) -> f32 = arm::vaddvq_f32(a);
        fn any_nan(a: arm::float32x4_t, count: usize) -> bool = {
            let first = arm::vcltq_u32(arm::vld1q_u32([0, 1, 2, 3].as_ptr()), arm::vdupq_n_u32(count.min(4) as u32));
            arm::vmaxvq_u32(arm::vbicq_u32(first, arm::vceqq_f32(a, a))) != 0
        };
        fn transpose(from: &[[f32; 4]], to: &mut [[f32; 4]]) = {
            let (from, to) = (head::<_, 4>(from), head_mut::<_, 4>(to));
            // Rows 0 and 1, and 2 and 3, value by value; then pairs of those by pairs of these.
            let (one, two) = (arm::vld1q_f32(from[0].as_ptr()), arm::vld1q_f32(from[1].as_ptr()));
            let (three, four) = (arm::vld1q_f32(from[2].as_ptr()), arm::vld1q_f32(from[3].as_ptr()));
            let even = arm::vreinterpretq_f64_f32(arm::vtrn1q_f32(one, two));
            let odd = arm::vreinterpretq_f64_f32(arm::vtrn2q_f32(one, two));
            let next_even = arm::vreinterpretq_f64_f32(arm::vtrn1q_f32(three, four));
            let next_odd = arm::vreinterpretq_f64_f32(arm::vtrn2q_f32(three, four));
            arm::vst1q_f32(to[0].as_mut_ptr(), arm::vreinterpretq_f32_f64(arm::vtrn1q_f64(even, next_even)));
            arm::vst1q_f32(to[1].as_mut_ptr(), arm::vreinterpretq_f32_f64(arm::vtrn1q_f64(odd, next_odd)));
            arm::vst1q_f32(to[2].as_mut_ptr(), arm::vreinterpretq_f32_f64(arm::vtrn2q_f64(even, next_even)));
            arm::vst1q_f32(to[3].as_mut_ptr(), arm::vreinterpretq_f32_f64(arm::vtrn2q_f64(odd, next_odd)));
        };
        fn splat_double(value: f64) -> arm::float64x2_t = arm::vdupq_n_f64(value);
        fn load_double(row: &[f64; 2]) -> arm::float64x2_t = arm::vld1q_f64(row.as_ptr());
        fn store_double(row: &mut [f64; 2], value: arm::float64x2_t) = arm::vst1q_f64(row.as_mut_ptr(), value);
        fn widen(row: &[f32; 2]) -> arm::float64x2_t = arm::vcvt_f64_f32(arm::vld1_f32(row.as_ptr()));
        fn split(a: arm::float32x4_t) -> [arm::float64x2_t; 2] =
            [arm::vcvt_f64_f32(arm::vget_low_f32(a)), arm::vcvt_high_f64_f32(a)];
        fn split_integers(a: arm::float32x4_t) -> [arm::float64x2_t; 2] = {
            let integers = arm::vreinterpretq_s32_f32(a);
            [
                arm::vcvtq_f64_s64(arm::vmovl_s32(arm::vget_low_s32(integers))),
                arm::vcvtq_f64_s64(arm::vmovl_high_s32(integers)),
            ]
        };
        fn narrow(low: arm::float64x2_t, high: arm::float64x2_t) -> arm::float32x4_t =
            arm::vcvt_high_f32_f64(arm::vcvt_f32_f64(low), high);
        fn add_double(a: arm::float64x2_t, b: arm::float64x2_t) -> arm::float64x2_t = arm::vaddq_f64(a, b);
        fn sub_double(a: arm::float64x2_t, b: arm::float64x2_t) -> arm::float64x2_t = arm::vsubq_f64(a, b);
        fn mul_double(a: arm::float64x2_t, b: arm::float64x2_t) -> arm::float64x2_t = arm::vmulq_f64(a, b);
        fn mul_add_double(a: arm::float64x2_t, b: arm::float64x2_t, c: arm::float64x2_t) -> arm::float64x2_t =
            arm::vfmaq_f64(c, a, b);
        fn sub_mul_double(a: arm::float64x2_t, b: arm::float64x2_t, c: arm::float64x2_t) -> arm::float64x2_t =
            arm::vfmsq_f64(c, a, b);
        fn narrow_above(low: [arm::float64x2_t; 2], high: [arm::float64x2_t; 2]) -> arm::float32x4_t = {
            let nan = arm::vdupq_n_f64(f64::NAN);
            let low = arm::vbslq_f64(arm::vcgtq_f64(low[0], low[1]), low[0], nan);
            let high = arm::vbslq_f64(arm::vcgtq_f64(high[0], high[1]), high[0], nan);
            arm::vcvt_high_f32_f64(arm::vcvt_f32_f64(low), high)
        };
        fn totals(
            a: arm::float64x2_t, b: arm::float64x2_t, before: arm::float64x2_t
        ) -> ([arm::float64x2_t; 2], arm::float64x2_t) = {
            // Lane 0 is of `a`, lane 1 of `b`: the first of two values, and both together.
            let first = arm::vtrn1q_f64(a, b);
            let after = arm::vaddq_f64(before, arm::vaddq_f64(first, arm::vtrn2q_f64(a, b)));
            let first = arm::vaddq_f64(before, first);
            ([arm::vtrn1q_f64(first, after), arm::vtrn2q_f64(first, after)], after)
        };
    }
}
