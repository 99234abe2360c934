//! AVX-512: vectors of floats, sums of products of bytes, and what becomes of products of tiles.

use std::arch::{asm, x86_64 as x86};

use crate::isa::detect::detected;
use crate::isa::simd::{Job, Simd};
use crate::isa::slices::{head, head_mut, within};
use crate::isa::{Isa, IsaSet};

floats! {
    /// AVX-512, 16 `f32`.
    avx512_f32: f32, 16 of __m512, x86_64 "avx512f", settled in zmm_reg,
    zero = _mm512_setzero_ps(), splat = _mm512_set1_ps, load = _mm512_loadu_ps, store = _mm512_storeu_ps,
    mul_add = |a, b, c| _mm512_fmadd_ps(a, b, c), add = _mm512_add_ps, sub = _mm512_sub_ps,
    abs = |value| _mm512_abs_ps(value),
    larger = |a, b| _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
}
floats! {
    /// AVX-512, 8 `f64`.
    avx512_f64: f64, 8 of __m512d, x86_64 "avx512f", settled in zmm_reg,
    zero = _mm512_setzero_pd(), splat = _mm512_set1_pd, load = _mm512_loadu_pd, store = _mm512_storeu_pd,
    mul_add = |a, b, c| _mm512_fmadd_pd(a, b, c), add = _mm512_add_pd, sub = _mm512_sub_pd,
    abs = |value| _mm512_abs_pd(value),
    larger = |a, b| _mm512_castsi512_pd(_mm512_max_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)))
}

/// AVX-512 VNNI: 64 bytes as 16 groups of four, and their sums in 16 `i32`.
pub(crate) mod avx512vnni_u8 {
    use std::arch::x86_64::*;

    /// The vector.
    pub type Vector = __m512i;

    /// Where sums of a template's products with samples less 128 begin that are to begin with `bias`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn begin(bias: i32, _template: &[[u8; 4]]) -> i32 {
        bias
    }

    /// `value` in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn splat(value: i32) -> Vector {
        _mm512_set1_epi32(value)
    }

    /// Four taps, the same in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn splat_group(taps: [u8; 4]) -> Vector {
        _mm512_set1_epi32(i32::from_ne_bytes(taps))
    }

    /// The 64 bytes from byte `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn load<const N: usize>(values: &[[i8; 4]; N], at: usize) -> Vector {
        assert!(at <= 4 * N && 4 * N - at >= 64);
        // SAFETY: the assertion above: the 64 bytes from `at` lie in the array. The load may be unaligned.
        unsafe { _mm512_loadu_si512(values.as_ptr().cast::<i8>().add(at).cast()) }
    }

    /// In each lane `sum + taps[0] samples[0] + ... + taps[3] samples[3]`, modulo 2^32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn add_products(sum: Vector, taps: Vector, samples: Vector) -> Vector {
        _mm512_dpbusd_epi32(sum, taps, samples)
    }

    /// Four phases, whose lane `l` is of column `4 l + phase`, as 64 neighbouring columns, of which the row has room
    /// for the first or for all: rounded once, or (`bits`) as the bits of the integers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn store(row: &mut [f32], [zero, one, two, three]: [Vector; 4], bits: bool) {
        let pairs = [
            _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
            _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
        ];
        let fours = [_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15)];
        let rounded = if bits { 0 } else { __mmask16::MAX };
        for (half, pair) in pairs.into_iter().enumerate() {
            let low = _mm512_permutex2var_epi32(zero, pair, one);
            let high = _mm512_permutex2var_epi32(two, pair, three);
            for (quarter, four) in fours.into_iter().enumerate() {
                let sums = _mm512_permutex2var_epi64(low, four, high);
                let values = _mm512_mask_cvtepi32_ps(_mm512_castsi512_ps(sums), rounded, sums);
                let from = 32 * half + 16 * quarter;
                let room = row.len().saturating_sub(from).min(16);
                let mask = ((1u32 << room) - 1) as __mmask16;
                // SAFETY: lanes from `room` on are not stored, and the row has `room` values from `from` on, if any:
                // else nothing is stored, whatever the address.
                unsafe { _mm512_mask_storeu_ps(row.as_mut_ptr().wrapping_add(from), mask, values) };
            }
        }
    }
}

/// AVX-512: sums of products of tiles, 16 of each of 16 windows, as vectors of neighbouring outputs.
pub(crate) mod avx512_sums {
    use std::arch::x86_64::*;

    /// The vector.
    pub type Vector = __m512i;
    /// Sums of a vector.
    pub const LANES: usize = 16;

    /// Vector `number` of row `part`, where each window has `COLUMNS` neighbours of as many rows as fill it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn neighbours<const COLUMNS: usize>(sums: &[i32; 256], number: usize, part: usize) -> Vector {
        const { assert!(COLUMNS == 16 || COLUMNS == 8 || COLUMNS == 4) };
        let windows = LANES / COLUMNS;
        assert!(part < windows && number < LANES / windows);
        let from = &raw const sums[LANES * windows * number + COLUMNS * part];
        // SAFETY: by the assertions the windows from `windows * number` on are of the 16 that there are, each of 16
        // sums, and columns `COLUMNS * part` on are of those. Loads may be unaligned.
        unsafe {
            match COLUMNS {
                16 => _mm512_loadu_si512(from.cast()),
                8 => {
                    let low = _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()));
                    _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(from.add(LANES).cast()))
                }
                _ => {
                    let one = _mm512_castsi128_si512(_mm_loadu_si128(from.cast()));
                    let two = _mm512_inserti32x4::<1>(one, _mm_loadu_si128(from.add(LANES).cast()));
                    let three = _mm512_inserti32x4::<2>(two, _mm_loadu_si128(from.add(2 * LANES).cast()));
                    _mm512_inserti32x4::<3>(three, _mm_loadu_si128(from.add(3 * LANES).cast()))
                }
            }
        }
    }

    /// The sums and a constant, as many as the row has room for: rounded once, or (`bits`) as the bits of the integers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn store(row: &mut [f32], sums: Vector, constant: i32, bits: bool) {
        let sums = _mm512_add_epi32(sums, _mm512_set1_epi32(constant));
        let rounded = if bits { 0 } else { __mmask16::MAX };
        let values = _mm512_mask_cvtepi32_ps(_mm512_castsi512_ps(sums), rounded, sums);
        let mask = ((1u32 << row.len().min(LANES)) - 1) as __mmask16;
        // SAFETY: lanes past the row's values are not stored.
        unsafe { _mm512_mask_storeu_ps(row.as_mut_ptr(), mask, values) };
    }
}

proof! {
    /// AVX-512F.
    Avx512
}

/// `vector`, whose lanes move up by `BY`; the last lanes of `below` come in. In one instruction, which leaves both
/// where they are: the compiler would take one that overwrites an index, or two for zeros, and a copy is not free in
/// these vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn shifted_in<const BY: u8>(below: x86::__m512d, vector: x86::__m512d) -> x86::__m512d {
    let moved;
    // SAFETY: it reads and writes registers only.
    unsafe {
        asm!("valignq {}, {}, {}, {}", lateout(zmm_reg) moved, in(zmm_reg) vector, in(zmm_reg) below, const 8 - BY,
            options(pure, nomem, nostack, preserves_flags));
    }
    moved
}

impl Simd for Avx512 {
    shared! {
        Avx512 "avx512f,avx2,fma", 32 registers, 16 of x86::__m512, 8 of x86::__m512d,
        load = x86::_mm512_loadu_ps, store = x86::_mm512_storeu_ps
    }

    operations! {
        fn splat(value: f32) -> x86::__m512 = x86::_mm512_set1_ps(value);
        fn load(row: &[f32; 16]) -> x86::__m512 = x86::_mm512_loadu_ps(row.as_ptr());
        fn store(row: &mut [f32; 16], value: x86::__m512) = x86::_mm512_storeu_ps(row.as_mut_ptr(), value);
        fn load_at(values: &[f32], at: usize) -> x86::__m512 = x86::_mm512_loadu_ps(values[at..at + 16].as_ptr());
        fn store_at(values: &mut [f32], at: usize, value: x86::__m512) =
            x86::_mm512_storeu_ps(values[at..at + 16].as_mut_ptr(), value);
        fn add(a: x86::__m512, b: x86::__m512) -> x86::__m512 = x86::_mm512_add_ps(a, b);
        fn sub(a: x86::__m512, b: x86::__m512) -> x86::__m512 = x86::_mm512_sub_ps(a, b);
        fn mul(a: x86::__m512, b: x86::__m512) -> x86::__m512 = x86::_mm512_mul_ps(a, b);
        fn mul_add(a: x86::__m512, b: x86::__m512, c: x86::__m512) -> x86::__m512 = x86::_mm512_fmadd_ps(a, b, c);
        fn sub_mul(a: x86::__m512, b: x86::__m512, c: x86::__m512) -> x86::__m512 = x86::_mm512_fnmadd_ps(a, b, c);
        fn root(a: x86::__m512) -> x86::__m512 = x86::_mm512_sqrt_ps(a);
        fn reciprocal_root(a: x86::__m512) -> x86::__m512 = {
            let y = x86::_mm512_rsqrt14_ps(a);
            let half = x86::_mm512_mul_ps(x86::_mm512_mul_ps(a, x86::_mm512_set1_ps(0.5)), y);
            x86::_mm512_mul_ps(y, x86::_mm512_fnmadd_ps(half, y, x86::_mm512_set1_ps(1.5)))
        };
        // The second operand is the result where one is NaN.
        fn clamp(a: x86::__m512) -> x86::__m512 =
            x86::_mm512_max_ps(x86::_mm512_set1_ps(-1.0), x86::_mm512_min_ps(x86::_mm512_set1_ps(1.0), a));
        fn larger_magnitude(a: x86::__m512, largest: x86::__m512) -> x86::__m512 =
            x86::_mm512_castsi512_ps(x86::_mm512_max_epu32(
                x86::_mm512_castps_si512(x86::_mm512_abs_ps(a)),
                x86::_mm512_castps_si512(largest),
            ));
        fn largest(a: x86::__m512) -> u32 = x86::_mm512_reduce_max_epu32(x86::_mm512_castps_si512(a));
        fn total(a: x86::__m512) -> f32 = x86::_mm512_reduce_add_ps(a);
        fn any_nan(a: x86::__m512, count: usize) -> bool =
            u32::from(x86::_mm512_cmp_ps_mask::<{ x86::_CMP_UNORD_Q }>(a, a)) & ((1 << count.min(16)) - 1) != 0;
        fn transpose(from: &[[f32; 16]], to: &mut [[f32; 16]]) = {
            let (from, to) = (head::<_, 16>(from), head_mut::<_, 16>(to));
            // Blocks of 4 x 4: columns 4 c to 4 c + 3 of rows i, i + 4, i + 8 and i + 12 in one register. No closures
            // here: they would not be compiled for the instruction set.
            for c in 0..4 {
                let mut rows = [x86::_mm512_setzero_ps(); 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    let first = x86::_mm512_castps128_ps512(x86::_mm_loadu_ps(from[i].as_ptr().add(4 * c)));
                    let two = x86::_mm512_insertf32x4::<1>(first, x86::_mm_loadu_ps(from[i + 4].as_ptr().add(4 * c)));
                    let three = x86::_mm512_insertf32x4::<2>(two, x86::_mm_loadu_ps(from[i + 8].as_ptr().add(4 * c)));
                    *row = x86::_mm512_insertf32x4::<3>(three, x86::_mm_loadu_ps(from[i + 12].as_ptr().add(4 * c)));
                }
                let low = x86::_mm512_castps_pd(x86::_mm512_unpacklo_ps(rows[0], rows[1]));
                let high = x86::_mm512_castps_pd(x86::_mm512_unpackhi_ps(rows[0], rows[1]));
                let next_low = x86::_mm512_castps_pd(x86::_mm512_unpacklo_ps(rows[2], rows[3]));
                let next_high = x86::_mm512_castps_pd(x86::_mm512_unpackhi_ps(rows[2], rows[3]));
                x86::_mm512_storeu_pd(to[4 * c].as_mut_ptr().cast(), x86::_mm512_unpacklo_pd(low, next_low));
                x86::_mm512_storeu_pd(to[4 * c + 1].as_mut_ptr().cast(), x86::_mm512_unpackhi_pd(low, next_low));
                x86::_mm512_storeu_pd(to[4 * c + 2].as_mut_ptr().cast(), x86::_mm512_unpacklo_pd(high, next_high));
                x86::_mm512_storeu_pd(to[4 * c + 3].as_mut_ptr().cast(), x86::_mm512_unpackhi_pd(high, next_high));
            }
        };
        fn splat_double(value: f64) -> x86::__m512d = x86::_mm512_set1_pd(value);
        fn load_double(row: &[f64; 8]) -> x86::__m512d = x86::_mm512_loadu_pd(row.as_ptr());
        fn store_double(row: &mut [f64; 8], value: x86::__m512d) = x86::_mm512_storeu_pd(row.as_mut_ptr(), value);
        fn widen(row: &[f32; 8]) -> x86::__m512d = x86::_mm512_cvtps_pd(x86::_mm256_loadu_ps(row.as_ptr()));
        fn split(a: x86::__m512) -> [x86::__m512d; 2] = [
            x86::_mm512_cvtps_pd(x86::_mm512_castps512_ps256(a)),
            x86::_mm512_cvtps_pd(x86::_mm256_castpd_ps(x86::_mm512_extractf64x4_pd::<1>(x86::_mm512_castps_pd(a)))),
        ];
        fn split_integers(a: x86::__m512) -> [x86::__m512d; 2] = {
            let bits = x86::_mm512_castps_si512(a);
            [
                x86::_mm512_cvtepi32_pd(x86::_mm512_castsi512_si256(bits)),
                x86::_mm512_cvtepi32_pd(x86::_mm512_extracti64x4_epi64::<1>(bits)),
            ]
        };
        fn narrow(low: x86::__m512d, high: x86::__m512d) -> x86::__m512 = {
            let low = x86::_mm512_castps_pd(x86::_mm512_castps256_ps512(x86::_mm512_cvtpd_ps(low)));
            x86::_mm512_castpd_ps(x86::_mm512_insertf64x4::<1>(low, x86::_mm256_castps_pd(x86::_mm512_cvtpd_ps(high))))
        };
        fn add_double(a: x86::__m512d, b: x86::__m512d) -> x86::__m512d = x86::_mm512_add_pd(a, b);
        fn sub_double(a: x86::__m512d, b: x86::__m512d) -> x86::__m512d = x86::_mm512_sub_pd(a, b);
        fn mul_double(a: x86::__m512d, b: x86::__m512d) -> x86::__m512d = x86::_mm512_mul_pd(a, b);
        fn mul_add_double(a: x86::__m512d, b: x86::__m512d, c: x86::__m512d) -> x86::__m512d =
            x86::_mm512_fmadd_pd(a, b, c);
        fn sub_mul_double(a: x86::__m512d, b: x86::__m512d, c: x86::__m512d) -> x86::__m512d =
            x86::_mm512_fnmadd_pd(a, b, c);
        fn narrow_above(low: [x86::__m512d; 2], high: [x86::__m512d; 2]) -> x86::__m512 = {
            let nan = x86::_mm256_set1_ps(f32::NAN);
            let above = x86::_mm512_cmp_pd_mask::<{ x86::_CMP_GT_OQ }>(low[0], low[1]);
            let low = x86::_mm512_mask_cvtpd_ps(nan, above, low[0]);
            let above = x86::_mm512_cmp_pd_mask::<{ x86::_CMP_GT_OQ }>(high[0], high[1]);
            let high = x86::_mm512_mask_cvtpd_ps(nan, above, high[0]);
            let low = x86::_mm512_castps_pd(x86::_mm512_castps256_ps512(low));
            x86::_mm512_castpd_ps(x86::_mm512_insertf64x4::<1>(low, x86::_mm256_castps_pd(high)))
        };
        fn totals(a: x86::__m512d, b: x86::__m512d, before: x86::__m512d) -> ([x86::__m512d; 2], x86::__m512d) = {
            // Lane 2 k is of `a`, lane 2 k + 1 of `b`: the first of two values, and both together.
            let first = x86::_mm512_unpacklo_pd(a, b);
            let both = x86::_mm512_add_pd(first, x86::_mm512_unpackhi_pd(a, b));
            let zero = x86::_mm512_setzero_pd();
            let two = x86::_mm512_add_pd(both, shifted_in::<2>(zero, both));
            let four = x86::_mm512_add_pd(two, shifted_in::<4>(zero, two));
            let after = x86::_mm512_add_pd(before, four);
            let first = x86::_mm512_add_pd(first, shifted_in::<2>(before, after));
            (
                [x86::_mm512_unpacklo_pd(first, after), x86::_mm512_unpackhi_pd(first, after)],
                x86::_mm512_shuffle_f64x2::<0xff>(after, after),
            )
        };
    }
}
