//! Which instruction sets the processor has that this runs on.

use flcc_core::isa::{ISAS, Isa, IsaSet};

#[cfg(target_arch = "x86_64")]
use crate::isa::tiles;

/// Whether the processor this runs on has an instruction set, and its operating system saves its registers.
///
/// For [`Isa::Amx`] that is also the request to save them, which holds for the whole process from then on.
pub fn detected(isa: Isa) -> bool {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx => detected(Isa::Avx512) && tiles::granted(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni => detected(Isa::Avx512) && std::arch::is_x86_feature_detected!("avx512vnni"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma"),
        #[cfg(target_arch = "aarch64")]
        Isa::NeonDot => detected(Isa::Neon) && std::arch::is_aarch64_feature_detected!("dotprod"),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        Isa::Portable => true,
        _ => false,
    }
}

/// The instruction sets of the processor this runs on.
pub fn detect() -> IsaSet {
    IsaSet::of(&ISAS).filter(detected)
}
