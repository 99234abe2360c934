//! Instruction sets: their names, which of them this machine has, and the vector operations kernels are made of.
//!
//! For each instruction set and type there is one module of the same functions over its `Vector`: `zero`, `splat`,
//! `load`, `store`, `mul_add`, `add`, `abs_diff`, and on x86 `settled`. Kernel bodies call these and hold no `unsafe`.
//! A load names the array it reads and a place in it; the check that the place lies inside folds away when both are
//! constants. Bytes have a module of their own, `avx512vnni_u8`: their products are sums of four. Those of AMX are of
//! whole tiles, in `amx.rs`.

#[cfg(target_arch = "x86_64")]
use std::arch::{asm, x86_64 as x86};
pub mod prefetch;
pub mod simd;
pub mod tiles;

use std::fmt;
use std::str::FromStr;

#[cfg(target_arch = "x86_64")]
#[cfg(target_arch = "x86_64")]
use crate::isa::simd::{Job, Simd};

/// An instruction set that kernels exist for, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512F with AMX-INT8: products of tiles of bytes, where the operating system grants them. Kernels of bytes
    /// only.
    Amx,
    /// AVX-512F with AVX-512 VNNI: sums of four products of bytes at once. Kernels of bytes only.
    Avx512Vnni,
    /// AVX-512F: vectors of 64 bytes, 32 registers.
    Avx512,
    /// AVX2 and FMA: vectors of 32 bytes, 16 registers.
    Avx2,
    /// Plain Rust that the compiler vectorises for whatever the target has. Every machine has it.
    Portable,
}

/// Every instruction set, in the order in which kernels are preferred.
pub const ISAS: [Isa; 5] = [Isa::Amx, Isa::Avx512Vnni, Isa::Avx512, Isa::Avx2, Isa::Portable];

impl Isa {
    /// Its name in kernels, in `FLCC_ISA` and in `FLCC_REQUIRE`: `amx`, `avx512vnni`, `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Amx => "amx",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }

    /// Whether the processor this runs on has it, and its operating system saves its registers.
    ///
    /// For [`Isa::Amx`] that is also the request to save them, which holds for the whole process from then on.
    pub fn detected(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => Isa::Avx512.detected() && tiles::granted(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => Isa::Avx512.detected() && std::arch::is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Amx | Isa::Avx512Vnni | Isa::Avx512 | Isa::Avx2 => false,
            Isa::Portable => true,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no instruction set's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an instruction set (amx, avx512vnni, avx512, avx2 or portable), got {got:?}")]
pub struct UnknownIsa {
    /// What was given.
    pub got: String,
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Isa, UnknownIsa> {
        ISAS.into_iter().find(|isa| isa.name() == text).ok_or_else(|| UnknownIsa { got: text.to_string() })
    }
}

/// The instruction sets that may be used. Always holds [`Isa::Portable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IsaSet([bool; ISAS.len()]);

impl IsaSet {
    /// Those of the processor this runs on.
    pub fn detect() -> IsaSet {
        IsaSet::of(&ISAS).filter(Isa::detected)
    }

    /// Those of a described machine. Planning for it needs no such processor; running a kernel does, and
    /// [`Bound::new`](crate::cpu::kernels::kernel::Bound::new) asks the processor itself.
    pub fn of(isas: &[Isa]) -> IsaSet {
        IsaSet(ISAS.map(|isa| isa == Isa::Portable || isas.contains(&isa)))
    }

    /// These without the ones that are preferred to `isa`: `restrict(avx512)` leaves out `amx` and `avx512vnni`.
    pub fn restrict(self, isa: Isa) -> IsaSet {
        let mut set = self;
        for better in ISAS.into_iter().take_while(|&other| other != isa) {
            set.0[better as usize] = false;
        }
        set
    }

    /// Those of these that `keep` holds for; it is asked about no others, and not about [`Isa::Portable`].
    pub fn filter(self, keep: impl Fn(Isa) -> bool) -> IsaSet {
        IsaSet(ISAS.map(|isa| isa == Isa::Portable || self.has(isa) && keep(isa)))
    }

    /// Whether `isa` may be used.
    pub fn has(&self, isa: Isa) -> bool {
        self.0[isa as usize]
    }

    /// Those that may be used, the best first.
    pub fn iter(&self) -> impl Iterator<Item = Isa> + '_ {
        ISAS.into_iter().filter(|&isa| self.has(isa))
    }
}

/// The names, best first, with commas.
impl fmt::Display for IsaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, isa) in self.iter().enumerate() {
            write!(f, "{}{isa}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Runs `work` compiled for AVX2, if `isas` and this processor have it, so that plain loops in it are vectorised for
/// that.
///
/// The loops must be inlined into `work`: what is called out of line keeps the instructions of the build's target.
/// There is no twin for AVX-512: these loops wait for memory, divisions and roots, which wider vectors do not hasten.
#[inline]
pub fn vectorized<R>(isas: &IsaSet, work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if isas.has(Isa::Avx2) && Isa::Avx2.detected() {
            // SAFETY: `detected` just asked the processor for every feature that the function is compiled with.
            return unsafe { avx2(work) };
        }
    }
    let _ = isas;
    work()
}

/// Asks for the lines of `BYTES` from a place on to be brought near, to be read or (`WRITE`) written soon; the place
/// may be any.
#[inline(always)]
pub(crate) fn ask<T, const BYTES: usize, const WRITE: bool>(values: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..BYTES).step_by(64) {
        let address = values.as_ptr().wrapping_add(at).cast::<i8>().wrapping_add(line);
        // SAFETY: a hint: nothing that a program can see is read or written, and no address faults.
        unsafe {
            if WRITE {
                x86::_mm_prefetch::<{ x86::_MM_HINT_ET0 }>(address)
            } else {
                x86::_mm_prefetch::<{ x86::_MM_HINT_T0 }>(address)
            }
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, at);
}

/// Asks for the line of an address, which may be any, to be brought near: to be written soon (`WRITE`), or into the
/// second-level cache, to be read later.
#[inline(always)]
pub(crate) fn ask_line<const WRITE: bool>(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, as above.
    unsafe {
        let address = address.cast::<i8>();
        if WRITE {
            x86::_mm_prefetch::<{ x86::_MM_HINT_ET0 }>(address)
        } else {
            x86::_mm_prefetch::<{ x86::_MM_HINT_T1 }>(address)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The first `N` values. `Tile::check` made sure of them for a whole run.
#[inline(always)]
pub(crate) fn head<T, const N: usize>(values: &[T]) -> &[T; N] {
    match values.first_chunk() {
        Some(head) => head,
        None => short(values.len(), N),
    }
}

/// The first `N` values, to be written.
#[inline(always)]
pub(crate) fn head_mut<T, const N: usize>(values: &mut [T]) -> &mut [T; N] {
    let len = values.len();
    match values.first_chunk_mut() {
        Some(head) => head,
        None => short(len, N),
    }
}

#[cold]
#[inline(never)]
fn short(len: usize, need: usize) -> ! {
    panic!("a kernel needs {need} values where {len} are left")
}

/// The operations of one x86 vector type.
#[cfg(target_arch = "x86_64")]
macro_rules! x86 {
    ($(#[$doc:meta])* $module:ident, $features:literal, $float:ty, $vector:ident, $register:ident, $lanes:literal,
     $zero:ident, $splat:ident, $load:ident, $store:ident, $mul_add:ident, $add:ident, $sub:ident,
     |$value:ident| $abs:expr, |$a:ident, $b:ident| $larger:expr) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        pub(crate) mod $module {
            use std::arch::asm;
            use std::arch::x86_64::*;

            /// The vector.
            pub type Vector = $vector;
            /// Its values.
            pub const LANES: usize = $lanes;

            /// `0` in every lane.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn zero() -> Vector {
                $zero()
            }

            /// `value` in every lane.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn splat(value: $float) -> Vector {
                $splat(value)
            }

            /// `values[at..at + LANES]`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn load<const N: usize>(values: &[$float; N], at: usize) -> Vector {
                assert!(at <= N && N - at >= LANES);
                // SAFETY: the assertion above: the LANES values from `at` lie in the array. The load may be unaligned.
                unsafe { $load(values.as_ptr().add(at)) }
            }

            /// `values[at..at + LANES] = vector`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn store<const N: usize>(values: &mut [$float; N], at: usize, vector: Vector) {
                assert!(at <= N && N - at >= LANES);
                // SAFETY: the assertion above: the LANES values from `at` lie in the array. The store may be unaligned.
                unsafe { $store(values.as_mut_ptr().add(at), vector) }
            }

            /// `a * b + c`, rounded once.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn mul_add(a: Vector, b: Vector, c: Vector) -> Vector {
                $mul_add(a, b, c)
            }

            /// `a + b`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn add(a: Vector, b: Vector) -> Vector {
                $add(a, b)
            }

            /// The vector, computed by now: the compiler does not put off past a branch what it takes.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn settled(mut vector: Vector) -> Vector {
                // SAFETY: there is no instruction in it; the vector stays what it is, in some register.
                unsafe { asm!("/* {} */", inout($register) vector, options(nomem, nostack, preserves_flags)) };
                vector
            }

            /// `|a - b|`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                let $value = $sub(a, b);
                $abs
            }

            /// In each lane the larger of `largest`, which is not negative, and the magnitude of `value`; NaN is larger
            /// than all.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn larger($value: Vector, $b: Vector) -> Vector {
                let $a = $abs;
                $larger
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX-512, 16 `f32`.
    avx512_f32, "avx512f", f32, __m512, zmm_reg, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps,
    _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_sub_ps, |value| _mm512_abs_ps(value),
    |a, b| _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX-512, 8 `f64`.
    avx512_f64, "avx512f", f64, __m512d, zmm_reg, 8, _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd,
    _mm512_storeu_pd, _mm512_fmadd_pd, _mm512_add_pd, _mm512_sub_pd, |value| _mm512_abs_pd(value),
    |a, b| _mm512_castsi512_pd(_mm512_max_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)))
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX2 and FMA, 8 `f32`.
    avx2_f32, "avx2,fma", f32, __m256, ymm_reg, 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
    _mm256_fmadd_ps, _mm256_add_ps, _mm256_sub_ps, |value| _mm256_andnot_ps(_mm256_set1_ps(-0.0), value),
    |a, b| _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)))
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX2 and FMA, 4 `f64`.
    avx2_f64, "avx2,fma", f64, __m256d, ymm_reg, 4, _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd,
    _mm256_storeu_pd, _mm256_fmadd_pd, _mm256_add_pd, _mm256_sub_pd,
    |value| _mm256_andnot_pd(_mm256_set1_pd(-0.0), value),
    |a, b| {
        let greater = _mm256_cmpgt_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b));
        _mm256_blendv_pd(b, a, _mm256_castsi256_pd(greater))
    }
}

/// AVX-512 VNNI: 64 bytes as 16 groups of four, and their sums in 16 `i32`.
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512vnni_u8 {
    use std::arch::x86_64::*;

    /// The vector.
    pub type Vector = __m512i;

    /// `value` in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn splat(value: i32) -> Vector {
        _mm512_set1_epi32(value)
    }

    /// The same four taps in every lane.
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
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_sums {
    use std::arch::x86_64::*;

    /// The vector.
    pub type Vector = __m512i;
    /// Its sums.
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

/// The operations of an array of 32 bytes, which the compiler puts into the vectors of the target.
macro_rules! portable {
    ($(#[$doc:meta])* $module:ident, $float:ty, $lanes:literal) => {
        $(#[$doc])*
        pub(crate) mod $module {
            /// The vector.
            pub type Vector = [$float; LANES];
            /// Its values.
            pub const LANES: usize = $lanes;
            /// Whether the target multiplies and adds in one instruction; elsewhere `mul_add` would be a library call.
            const FUSED: bool =
                cfg!(any(target_feature = "fma", all(target_arch = "aarch64", target_feature = "neon")));

            /// `0` in every lane.
            #[inline(always)]
            pub fn zero() -> Vector {
                [0.0; LANES]
            }

            /// `value` in every lane.
            #[inline(always)]
            pub fn splat(value: $float) -> Vector {
                [value; LANES]
            }

            /// `values[at..at + LANES]`.
            #[inline(always)]
            pub fn load<const N: usize>(values: &[$float; N], at: usize) -> Vector {
                *super::head(&values[at..])
            }

            /// `values[at..at + LANES] = vector`.
            #[inline(always)]
            pub fn store<const N: usize>(values: &mut [$float; N], at: usize, vector: Vector) {
                *super::head_mut(&mut values[at..]) = vector;
            }

            /// `a * b + c`, rounded once where the target does that in one instruction, else twice.
            #[inline(always)]
            pub fn mul_add(a: Vector, b: Vector, c: Vector) -> Vector {
                std::array::from_fn(|l| if FUSED { a[l].mul_add(b[l], c[l]) } else { a[l] * b[l] + c[l] })
            }

            /// `a + b`.
            #[inline(always)]
            pub fn add(a: Vector, b: Vector) -> Vector {
                std::array::from_fn(|l| a[l] + b[l])
            }

            /// `|a - b|`.
            #[inline(always)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                std::array::from_fn(|l| (a[l] - b[l]).abs())
            }

            /// In each lane the larger of `largest`, which is not negative, and the magnitude of `value`; NaN is larger
            /// than all.
            #[inline(always)]
            pub fn larger(value: Vector, largest: Vector) -> Vector {
                std::array::from_fn(|l| <$float>::from_bits(value[l].abs().to_bits().max(largest[l].to_bits())))
            }
        }
    };
}

portable! {
    /// Any target, 8 `f32`.
    portable_f32, f32, 8
}
portable! {
    /// Any target, 4 `f64`.
    portable_f64, f64, 4
}

/// Methods of [`Simd`] by intrinsics, one line each.
#[cfg(target_arch = "x86_64")]
macro_rules! operations {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $kind),*) $(-> $result)? {
                // SAFETY: `self` is made only where the processor was asked for the instruction set (`new`). What is
                // read or written is an array as long as the vector, or a slice that the expression cut to that length.
                unsafe { $body }
            }
        )*
    };
}

/// Methods of [`Simd`] for vectors some way apart, by the intrinsics for one.
#[cfg(target_arch = "x86_64")]
macro_rules! apart {
    ($vector:ty, $lanes:literal, $load:ident, $store:ident) => {
        #[inline(always)]
        fn load_apart<const R: usize>(self, values: &[f32], at: usize, step: usize) -> [$vector; R] {
            assert!(
                within(values.len(), at, step, R, $lanes),
                "{R} rows from {at}, {step} apart, of {} values",
                values.len()
            );
            let mut rows = [self.splat(0.0); R];
            for (q, row) in rows.iter_mut().enumerate() {
                // SAFETY: all of them end within the slice, as was just checked; for the instructions, as below.
                *row = unsafe { x86::$load(values.as_ptr().add(at + q * step)) };
            }
            rows
        }

        #[inline(always)]
        fn store_apart<const R: usize>(
            self,
            values: &mut [f32],
            at: usize,
            step: usize,
            vectors: [$vector; R],
            count: usize,
        ) {
            let count = count.min(R);
            assert!(
                within(values.len(), at, step, count, $lanes),
                "{count} rows from {at}, {step} apart, of {} values",
                values.len()
            );
            for (q, vector) in vectors.iter().enumerate() {
                if q < count {
                    // SAFETY: as above.
                    unsafe { x86::$store(values.as_mut_ptr().add(at + q * step), *vector) };
                }
            }
        }
    };
}

/// Whether `count` vectors, from `at` and each `step` values after the one before, end within `len` values.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn within(len: usize, at: usize, step: usize, count: usize, lanes: usize) -> bool {
    let Some(reach) = step.checked_mul(count.saturating_sub(1)) else { return false };
    let Some(last) = reach.checked_add(at) else { return false };
    count == 0 || (len >= lanes && last <= len - lanes)
}

/// What every implementation of [`Simd`] shares: the proof, and rows of a fixed length.
#[cfg(target_arch = "x86_64")]
macro_rules! proof {
    ($(#[$doc:meta])* $name:ident, $isa:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(());

        impl $name {
            /// The proof, if the instruction set may be used and this processor has it.
            pub fn new(isas: &IsaSet) -> Option<$name> {
                (isas.has(Isa::$isa) && Isa::$isa.detected()).then_some($name(()))
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
proof! {
    /// AVX-512F.
    Avx512, Avx512
}
#[cfg(target_arch = "x86_64")]
proof! {
    /// AVX2 and FMA.
    Avx2, Avx2
}

/// The bits of the first `count` lanes of up to 16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first(count: usize) -> u32 {
    (1u32 << count.min(16)) - 1
}

/// `vector`, whose lanes move up by `BY`; the last lanes of `below` come in. In one instruction, which leaves both
/// where they are: the compiler would take one that overwrites an index, or two for zeros, and a copy is not free in
/// these vectors.
#[cfg(target_arch = "x86_64")]
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

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    const LANES: usize = 16;
    const HALF: usize = 8;
    type Row = [f32; 16];
    type HalfRow = [f32; 8];
    type DoubleRow = [f64; 8];
    type Single = x86::__m512;
    type Double = x86::__m512d;

    #[inline(always)]
    fn run<J: Job>(self, job: J) -> J::Output {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx2,fma")]
        fn compiled<J: Job>(job: J, simd: Avx512) -> J::Output {
            job.run(simd)
        }
        // SAFETY: `self` is made only where the processor was asked for the features (`new`).
        unsafe { compiled(job, self) }
    }

    #[inline(always)]
    fn rows(values: &[f32]) -> &[[f32; 16]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn rows_mut(values: &mut [f32]) -> &mut [[f32; 16]] {
        values.as_chunks_mut().0
    }

    #[inline(always)]
    fn half_rows(values: &[f32]) -> &[[f32; 8]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn double_rows(values: &[f64]) -> &[[f64; 8]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn double_rows_mut(values: &mut [f64]) -> &mut [[f64; 8]] {
        values.as_chunks_mut().0
    }

    apart! { x86::__m512, 16, _mm512_loadu_ps, _mm512_storeu_ps }

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
            u32::from(x86::_mm512_cmp_ps_mask::<{ x86::_CMP_UNORD_Q }>(a, a)) & first(count) != 0;
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

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    const LANES: usize = 8;
    const HALF: usize = 4;
    type Row = [f32; 8];
    type HalfRow = [f32; 4];
    type DoubleRow = [f64; 4];
    type Single = x86::__m256;
    type Double = x86::__m256d;

    #[inline(always)]
    fn run<J: Job>(self, job: J) -> J::Output {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn compiled<J: Job>(job: J, simd: Avx2) -> J::Output {
            job.run(simd)
        }
        // SAFETY: `self` is made only where the processor was asked for the features (`new`).
        unsafe { compiled(job, self) }
    }

    #[inline(always)]
    fn rows(values: &[f32]) -> &[[f32; 8]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn rows_mut(values: &mut [f32]) -> &mut [[f32; 8]] {
        values.as_chunks_mut().0
    }

    #[inline(always)]
    fn half_rows(values: &[f32]) -> &[[f32; 4]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn double_rows(values: &[f64]) -> &[[f64; 4]] {
        values.as_chunks().0
    }

    #[inline(always)]
    fn double_rows_mut(values: &mut [f64]) -> &mut [[f64; 4]] {
        values.as_chunks_mut().0
    }

    apart! { x86::__m256, 8, _mm256_loadu_ps, _mm256_storeu_ps }

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
            x86::_mm256_movemask_ps(x86::_mm256_cmp_ps::<{ x86::_CMP_UNORD_Q }>(a, a)) as u32 & first(count) != 0;
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

/// Which vectors the loops are compiled for.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Vectors {
    /// The best of these that this processor has, if the loops can be compiled for any.
    pub fn new(isas: &IsaSet) -> Option<Vectors> {
        #[cfg(target_arch = "x86_64")]
        {
            Avx512::new(isas).map(Vectors::Avx512).or_else(|| Avx2::new(isas).map(Vectors::Avx2))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = isas;
            None
        }
    }

    /// Runs a job in them.
    pub fn run<J: Job>(&self, job: J) -> J::Output {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(simd) => simd.run(job),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(simd) => simd.run(job),
        }
    }

    /// Values of a vector of `f32`.
    pub fn lanes(&self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(_) => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(_) => Avx2::LANES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in ISAS {
            assert_eq!(isa.to_string().parse(), Ok(isa));
            assert_eq!(ISAS[isa as usize], isa);
        }
        assert_eq!(
            "sse9".parse::<Isa>().unwrap_err().to_string(),
            "expected an instruction set (amx, avx512vnni, avx512, avx2 or portable), got \"sse9\""
        );
    }

    #[test]
    fn a_restriction_leaves_out_what_is_better() {
        let all = IsaSet::of(&ISAS);
        assert_eq!(all.to_string(), "amx,avx512vnni,avx512,avx2,portable");
        assert_eq!(all.restrict(Isa::Amx), all);
        assert_eq!(all.restrict(Isa::Avx512Vnni).to_string(), "avx512vnni,avx512,avx2,portable");
        assert_eq!(all.restrict(Isa::Avx512).to_string(), "avx512,avx2,portable");
        assert_eq!(all.restrict(Isa::Avx2).to_string(), "avx2,portable");
        assert_eq!(all.restrict(Isa::Portable), IsaSet::of(&[]));
        assert_eq!(IsaSet::of(&[]).restrict(Isa::Avx2).to_string(), "portable");
    }
}
