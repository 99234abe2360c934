//! Instruction sets: which of them this machine has, and the vector operations kernels are made of.
//!
//! For each instruction set and type there is one module of the same functions over its `Vector`: `zero`, `splat`,
//! `load`, `store`, `mul_add`, `add`, `abs_diff`, `larger`, and `settled` where taps are written out. Kernel bodies
//! call these and hold no `unsafe`. A load names the array it reads and a place in it; the check that the place lies
//! inside folds away when both are constants. Bytes have modules of their own, `avx512vnni_u8` and `neondot_u8`: their
//! products are sums of four. Those of AMX are of whole tiles, in `amx.rs`.

#[macro_use]
mod emit;
pub mod detect;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
pub mod prefetch;
pub mod simd;
mod slices;
pub mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86_avx2;
#[cfg(target_arch = "x86_64")]
mod x86_avx512;

pub use detect::{detect, detected};
pub use flcc_core::isa::{ISAS, Isa, IsaSet, UnknownIsa};
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{neon_f32, neon_f64, neondot_u8};
pub(crate) use portable::{portable_f32, portable_f64};
pub(crate) use prefetch::{ask, ask_line};
pub(crate) use slices::{head, head_mut};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_avx2::{avx2_f32, avx2_f64};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_avx512::{avx512_f32, avx512_f64, avx512_sums, avx512vnni_u8};

use crate::isa::simd::{Job, Simd};

/// Plain loops, to be compiled for an instruction set: a closure, or a value of its own type where they are long.
pub(crate) trait Loops {
    /// What they give.
    type Output;
    /// Does them; `#[inline(always)]`, or they are compiled for the build's own target.
    fn run(self) -> Self::Output;
}

impl<R, W: FnOnce() -> R> Loops for W {
    type Output = R;

    #[inline(always)]
    fn run(self) -> R {
        self()
    }
}

/// Does [`Loops`] compiled for AVX2 where a set of instructions and this processor have it.
///
/// What is called out of line in them keeps the instructions of the build's target. So would a closure of two callers,
/// or one that is compiled in another unit than its caller. This is a macro for that reason: both branches have a
/// closure and a function of their own, here. A closure of more than some 3000 instructions is not inlined even so, and
/// has to be a type. There is no twin for AVX-512: these loops wait for memory, divisions and roots, which wider
/// vectors do not hasten. NEON needs none: every 64-bit Arm has it, so the build's target does.
#[cfg(target_arch = "x86_64")]
macro_rules! vectorized {
    ($isas:expr, $loops:expr) => {{
        #[target_feature(enable = "avx2,fma")]
        fn compiled<L: $crate::isa::Loops>(loops: L) -> L::Output {
            loops.run()
        }
        if $crate::isa::has_avx2($isas) {
            let loops = $loops;
            // SAFETY: the processor was just asked for every feature that the function is compiled with.
            unsafe { compiled(loops) }
        } else {
            $crate::isa::Loops::run($loops)
        }
    }};
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! vectorized {
    ($isas:expr, $loops:expr) => {{
        let _ = $isas;
        $crate::isa::Loops::run($loops)
    }};
}
pub(crate) use vectorized;

/// Whether AVX2 may be used, and this processor has it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2(isas: &IsaSet) -> bool {
    isas.has(Isa::Avx2) && detected(Isa::Avx2)
}

/// Which vectors the loops are compiled for.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_avx512::Avx512),
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_avx2::Avx2),
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Vectors {
    /// The best of these that this processor has, if the loops can be compiled for any.
    pub fn new(isas: &IsaSet) -> Option<Vectors> {
        let of = |isa: Isa| match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86_avx512::Avx512::new(isas).map(Vectors::Avx512),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86_avx2::Avx2::new(isas).map(Vectors::Avx2),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::Neon::new(isas).map(Vectors::Neon),
            _ => None,
        };
        isas.iter().find_map(of)
    }

    /// The instruction set of the vectors on a machine that has these, if the loops can be compiled for any: a
    /// described one as well as this.
    pub fn isa(isas: &IsaSet) -> Option<Isa> {
        isas.iter().find(|isa| isa.has_floats() && *isa != Isa::Portable)
    }

    /// Runs a job in them.
    pub fn run<J: Job>(&self, job: J) -> J::Output {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(simd) => simd.run(job),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(simd) => simd.run(job),
            #[cfg(target_arch = "aarch64")]
            Vectors::Neon(simd) => simd.run(job),
        }
    }

    /// Values of a vector of `f32`.
    pub fn lanes(&self) -> usize {
        match *self {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512(_) => x86_avx512::Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2(_) => x86_avx2::Avx2::LANES,
            #[cfg(target_arch = "aarch64")]
            Vectors::Neon(_) => neon::Neon::LANES,
        }
    }
}
