//! AVX2 and FMA: vectors of floats.

use std::arch::x86_64 as x86;

use crate::isa::detect::detected;
use crate::isa::simd::{Job, Simd};
use crate::isa::slices::{head, head_mut, within};
use crate::isa::{Isa, IsaSet};

floats! {
    /// AVX2 and FMA, 8 `f32`.
    avx2_f32: f32, 8 of __m256, x86_64 "avx2,fma", settled in ymm_reg,
    zero = _mm256_setzero_ps(), splat = _mm256_set1_ps, load = _mm256_loadu_ps, store = _mm256_storeu_ps,
    mul_add = |a, b, c| _mm256_fmadd_ps(a, b, c), add = _mm256_add_ps, sub = _mm256_sub_ps,
    abs = |value| _mm256_andnot_ps(_mm256_set1_ps(-0.0), value),
    larger = |a, b| _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
}
floats! {
    /// AVX2 and FMA, 4 `f64`.
    avx2_f64: f64, 4 of __m256d, x86_64 "avx2,fma", settled in ymm_reg,
    zero = _mm256_setzero_pd(), splat = _mm256_set1_pd, load = _mm256_loadu_pd, store = _mm256_storeu_pd,
    mul_add = |a, b, c| _mm256_fmadd_pd(a, b, c), add = _mm256_add_pd, sub = _mm256_sub_pd,
    abs = |value| _mm256_andnot_pd(_mm256_set1_pd(-0.0), value),
    larger = |a, b| {
        let greater = _mm256_cmpgt_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b));
        _mm256_blendv_pd(b, a, _mm256_castsi256_pd(greater))
    }
}

proof! {
    /// AVX2 and FMA.
    Avx2
}

impl Simd for Avx2 {
    shared! {
        Avx2 "avx2,fma", 16 registers, 8 of x86::__m256, 4 of x86::__m256d,
        load = x86::_mm256_loadu_ps, store = x86::_mm256_storeu_ps
    }

    operations! {
        fn splat(value: f32) -> x86::__m256 = x86::_mm256_set1_ps(value);
        fn load(row: &[f32; 8]) -> x86::__m256 = x86::_mm256_loadu_ps(row.as_ptr());
        fn store(row: &mut [f32; 8], value: x86::__m256) = x86::_mm256_storeu_ps(row.as_mut_ptr(), value);
        fn load_at(values: &[f32], at: usize) -> x86::__m256 = x86::_mm256_loadu_ps(values[at..at + 8].as_ptr());
        fn store_at(values: &mut [f32], at: usize, value: x86::__m256) =
            x86::_mm256_storeu_ps(values[at..at + 8].as_mut_ptr(), value);
        fn add(a: x86::__m256, b: x86::__m256) -> x86::__m256 = x86::_mm256_add_ps(a, b);
        fn sub(a: x86::__m256, b: x86::__m256) -> x86::__m256 = x86::_mm256_sub_ps(a, b);
        fn mul(a: x86::__m256, b: x86::__m256) -> x86::__m256 = x86::_mm256_mul_ps(a, b);
        fn mul_add(a: x86::__m256, b: x86::__m256, c: x86::__m256) -> x86::__m256 = x86::_mm256_fmadd_ps(a, b, c);
        fn sub_mul(a: x86::__m256, b: x86::__m256, c: x86::__m256) -> x86::__m256 = x86::_mm256_fnmadd_ps(a, b, c);
        fn root(a: x86::__m256) -> x86::__m256 = x86::_mm256_sqrt_ps(a);
        fn reciprocal_root(a: x86::__m256) -> x86::__m256 = {
            let y = x86::_mm256_rsqrt_ps(a);
            let half = x86::_mm256_mul_ps(x86::_mm256_mul_ps(a, x86::_mm256_set1_ps(0.5)), y);
            x86::_mm256_mul_ps(y, x86::_mm256_fnmadd_ps(half, y, x86::_mm256_set1_ps(1.5)))
        };
        // The second operand is the result where one is NaN.
        fn clamp(a: x86::__m256) -> x86::__m256 =
            x86::_mm256_max_ps(x86::_mm256_set1_ps(-1.0), x86::_mm256_min_ps(x86::_mm256_set1_ps(1.0), a));
        fn larger_magnitude(a: x86::__m256, largest: x86::__m256) -> x86::__m256 = {
            let magnitude = x86::_mm256_andnot_ps(x86::_mm256_set1_ps(-0.0), a);
            x86::_mm256_castsi256_ps(x86::_mm256_max_epu32(
                x86::_mm256_castps_si256(magnitude),
                x86::_mm256_castps_si256(largest),
            ))
        };
        fn largest(a: x86::__m256) -> u32 = {
            let mut lanes = [0f32; 8];
            x86::_mm256_storeu_ps(lanes.as_mut_ptr(), a);
            lanes.into_iter().map(f32::to_bits).max().unwrap_or(0)
        };
        fn total(a: x86::__m256) -> f32 = {
            let mut lanes = [0f32; 8];
            x86::_mm256_storeu_ps(lanes.as_mut_ptr(), a);
            lanes.iter().sum()
        };
        fn any_nan(a: x86::__m256, count: usize) -> bool =
            x86::_mm256_movemask_ps(x86::_mm256_cmp_ps::<{ x86::_CMP_UNORD_Q }>(a, a)) & ((1 << count.min(8)) - 1) != 0;
        fn transpose(from: &[[f32; 8]], to: &mut [[f32; 8]]) = {
            let (from, to) = (head::<_, 8>(from), head_mut::<_, 8>(to));
            // Blocks of 4 x 4: columns 4 c to 4 c + 3 of rows i and i + 4 in one register.
            for c in 0..2 {
                let mut rows = [x86::_mm256_setzero_ps(); 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    let first = x86::_mm256_castps128_ps256(x86::_mm_loadu_ps(from[i].as_ptr().add(4 * c)));
                    *row = x86::_mm256_insertf128_ps::<1>(first, x86::_mm_loadu_ps(from[i + 4].as_ptr().add(4 * c)));
                }
                let low = x86::_mm256_castps_pd(x86::_mm256_unpacklo_ps(rows[0], rows[1]));
                let high = x86::_mm256_castps_pd(x86::_mm256_unpackhi_ps(rows[0], rows[1]));
                let next_low = x86::_mm256_castps_pd(x86::_mm256_unpacklo_ps(rows[2], rows[3]));
                let next_high = x86::_mm256_castps_pd(x86::_mm256_unpackhi_ps(rows[2], rows[3]));
                x86::_mm256_storeu_pd(to[4 * c].as_mut_ptr().cast(), x86::_mm256_unpacklo_pd(low, next_low));
                x86::_mm256_storeu_pd(to[4 * c + 1].as_mut_ptr().cast(), x86::_mm256_unpackhi_pd(low, next_low));
                x86::_mm256_storeu_pd(to[4 * c + 2].as_mut_ptr().cast(), x86::_mm256_unpacklo_pd(high, next_high));
                x86::_mm256_storeu_pd(to[4 * c + 3].as_mut_ptr().cast(), x86::_mm256_unpackhi_pd(high, next_high));
            }
        };
        fn splat_double(value: f64) -> x86::__m256d = x86::_mm256_set1_pd(value);
        fn load_double(row: &[f64; 4]) -> x86::__m256d = x86::_mm256_loadu_pd(row.as_ptr());
        fn store_double(row: &mut [f64; 4], value: x86::__m256d) = x86::_mm256_storeu_pd(row.as_mut_ptr(), value);
        fn widen(row: &[f32; 4]) -> x86::__m256d = x86::_mm256_cvtps_pd(x86::_mm_loadu_ps(row.as_ptr()));
        fn split(a: x86::__m256) -> [x86::__m256d; 2] = [
            x86::_mm256_cvtps_pd(x86::_mm256_castps256_ps128(a)),
            x86::_mm256_cvtps_pd(x86::_mm256_extractf128_ps::<1>(a)),
        ];
        fn split_integers(a: x86::__m256) -> [x86::__m256d; 2] = {
            let bits = x86::_mm256_castps_si256(a);
            [
                x86::_mm256_cvtepi32_pd(x86::_mm256_castsi256_si128(bits)),
                x86::_mm256_cvtepi32_pd(x86::_mm256_extracti128_si256::<1>(bits)),
            ]
        };
        fn narrow(low: x86::__m256d, high: x86::__m256d) -> x86::__m256 =
            x86::_mm256_insertf128_ps::<1>(
                x86::_mm256_castps128_ps256(x86::_mm256_cvtpd_ps(low)),
                x86::_mm256_cvtpd_ps(high),
            );
        fn add_double(a: x86::__m256d, b: x86::__m256d) -> x86::__m256d = x86::_mm256_add_pd(a, b);
        fn sub_double(a: x86::__m256d, b: x86::__m256d) -> x86::__m256d = x86::_mm256_sub_pd(a, b);
        fn mul_double(a: x86::__m256d, b: x86::__m256d) -> x86::__m256d = x86::_mm256_mul_pd(a, b);
        fn mul_add_double(a: x86::__m256d, b: x86::__m256d, c: x86::__m256d) -> x86::__m256d =
            x86::_mm256_fmadd_pd(a, b, c);
        fn sub_mul_double(a: x86::__m256d, b: x86::__m256d, c: x86::__m256d) -> x86::__m256d =
            x86::_mm256_fnmadd_pd(a, b, c);
        fn narrow_above(low: [x86::__m256d; 2], high: [x86::__m256d; 2]) -> x86::__m256 = {
            let nan = x86::_mm256_set1_pd(f64::NAN);
            let low = x86::_mm256_blendv_pd(nan, low[0], x86::_mm256_cmp_pd::<{ x86::_CMP_GT_OQ }>(low[0], low[1]));
            let high = x86::_mm256_blendv_pd(nan, high[0], x86::_mm256_cmp_pd::<{ x86::_CMP_GT_OQ }>(high[0], high[1]));
            x86::_mm256_insertf128_ps::<1>(
                x86::_mm256_castps128_ps256(x86::_mm256_cvtpd_ps(low)),
                x86::_mm256_cvtpd_ps(high),
            )
        };
        fn totals(a: x86::__m256d, b: x86::__m256d, before: x86::__m256d) -> ([x86::__m256d; 2], x86::__m256d) = {
            // Lane 2 k is of `a`, lane 2 k + 1 of `b`: the first of two values, and both together.
            let first = x86::_mm256_unpacklo_pd(a, b);
            let both = x86::_mm256_add_pd(first, x86::_mm256_unpackhi_pd(a, b));
            let two = x86::_mm256_add_pd(both, x86::_mm256_permute2f128_pd::<0x08>(both, both));
            let after = x86::_mm256_add_pd(before, two);
            let first = x86::_mm256_add_pd(first, x86::_mm256_permute2f128_pd::<0x20>(before, after));
            (
                [x86::_mm256_unpacklo_pd(first, after), x86::_mm256_unpackhi_pd(first, after)],
                x86::_mm256_permute2f128_pd::<0x11>(after, after),
            )
        };
    }
}
