//! Instruction sets: their names, which of them this machine has, and the vector operations kernels are made of.
//!
//! For each instruction set and type there is one module of the same seven functions over its `Vector`: `zero`, `splat`,
//! `load`, `store`, `mul_add`, `abs_diff`. Kernel bodies call these and hold no `unsafe`. A load names the array it reads
//! and a place in it; the check that the place lies inside folds away when both are constants.

use std::fmt;
use std::str::FromStr;

/// An instruction set that kernels exist for, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512F: vectors of 64 bytes, 32 registers.
    Avx512,
    /// AVX2 and FMA: vectors of 32 bytes, 16 registers.
    Avx2,
    /// Plain Rust that the compiler vectorises for whatever the target has. Every machine has it.
    Portable,
}

/// Every instruction set, in the order in which kernels are preferred.
pub const ISAS: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Portable];

impl Isa {
    /// Its name in kernels, in `FLCC_ISA` and in `FLCC_REQUIRE`: `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }

    /// Whether the processor this runs on has it, and its operating system saves its registers.
    pub fn detected(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 | Isa::Avx2 => false,
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
#[error("expected an instruction set (avx512, avx2 or portable), got {got:?}")]
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
        IsaSet(ISAS.map(Isa::detected))
    }

    /// Those of a described machine. Planning for it needs no such processor; running a kernel does, and
    /// [`Bound::new`](crate::cpu::kernel::Bound::new) asks the processor itself.
    pub fn of(isas: &[Isa]) -> IsaSet {
        IsaSet(ISAS.map(|isa| isa == Isa::Portable || isas.contains(&isa)))
    }

    /// These without the ones that are preferred to `isa`: `restrict(avx2)` leaves out `avx512`.
    pub fn restrict(self, isa: Isa) -> IsaSet {
        let mut set = self;
        for better in ISAS.into_iter().take_while(|&other| other != isa) {
            set.0[better as usize] = false;
        }
        set
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

/// Runs `work` compiled for AVX2, if `isas` and this processor have it, so that plain loops in it are vectorised for that.
///
/// The loops must be inlined into `work`: what is called out of line keeps the instructions of the build's target. There is
/// no twin for AVX-512: these loops wait for memory, divisions and roots, which wider vectors do not hasten.
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
    ($(#[$doc:meta])* $module:ident, $features:literal, $float:ty, $vector:ident, $lanes:literal,
     $zero:ident, $splat:ident, $load:ident, $store:ident, $mul_add:ident, $sub:ident, |$value:ident| $abs:expr) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        pub(crate) mod $module {
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

            /// `|a - b|`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                let $value = $sub(a, b);
                $abs
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX-512, 16 `f32`.
    avx512_f32, "avx512f", f32, __m512, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps,
    _mm512_fmadd_ps, _mm512_sub_ps, |value| _mm512_abs_ps(value)
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX-512, 8 `f64`.
    avx512_f64, "avx512f", f64, __m512d, 8, _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd,
    _mm512_fmadd_pd, _mm512_sub_pd, |value| _mm512_abs_pd(value)
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX2 and FMA, 8 `f32`.
    avx2_f32, "avx2,fma", f32, __m256, 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
    _mm256_fmadd_ps, _mm256_sub_ps, |value| _mm256_andnot_ps(_mm256_set1_ps(-0.0), value)
}
#[cfg(target_arch = "x86_64")]
x86! {
    /// AVX2 and FMA, 4 `f64`.
    avx2_f64, "avx2,fma", f64, __m256d, 4, _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd,
    _mm256_fmadd_pd, _mm256_sub_pd, |value| _mm256_andnot_pd(_mm256_set1_pd(-0.0), value)
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
            const FUSED: bool = cfg!(any(target_feature = "fma", all(target_arch = "aarch64", target_feature = "neon")));

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

            /// `|a - b|`.
            #[inline(always)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                std::array::from_fn(|l| (a[l] - b[l]).abs())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in ISAS {
            assert_eq!(isa.to_string().parse(), Ok(isa));
            assert_eq!(ISAS[isa as usize], isa);
        }
        assert_eq!("sse9".parse::<Isa>().unwrap_err().to_string(), "expected an instruction set (avx512, avx2 or portable), got \"sse9\"");
    }

    #[test]
    fn a_restriction_leaves_out_what_is_better() {
        let all = IsaSet::of(&ISAS);
        assert_eq!(all.to_string(), "avx512,avx2,portable");
        assert_eq!(all.restrict(Isa::Avx2).to_string(), "avx2,portable");
        assert_eq!(all.restrict(Isa::Portable), IsaSet::of(&[]));
        assert_eq!(IsaSet::of(&[]).restrict(Isa::Avx2).to_string(), "portable");
    }
}
