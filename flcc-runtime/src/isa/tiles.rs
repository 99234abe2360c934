//! The unit that multiplies tiles of bytes: whether it is there and granted.

use std::sync::OnceLock;

/// Whether this processor multiplies tiles of bytes and its operating system lets this process do so; asked once.
///
/// Linux keeps the registers of tiles only for processes that asked for it, and may refuse. What it grants holds until
/// the process ends, so this is called only where the unit may be used.
pub fn granted() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(ask_for_tiles)
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask_for_tiles() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask_for_tiles() -> bool {
    use std::arch::{asm, x86_64};

    /// AMX-TILE and AMX-INT8 in `edx` of leaf 7.
    const TILES_OF_BYTES: u32 = 1 << 24 | 1 << 25;
    /// The states that the system keeps for tiles: their shape and their data.
    const TILE_STATES: u64 = 1 << 17 | 1 << 18;

    #[target_feature(enable = "xsave")]
    fn kept_states() -> u64 {
        // SAFETY: the caller asked the processor for `xsave` and whether the system uses it.
        unsafe { x86_64::_xgetbv(0) }
    }

    let has_tiles =
        x86_64::__cpuid_count(0, 0).eax >= 7 && x86_64::__cpuid_count(7, 0).edx & TILES_OF_BYTES == TILES_OF_BYTES;
    // With AVX the standard library made sure that the system uses `xsave`.
    if !has_tiles || !std::arch::is_x86_feature_detected!("avx") || !std::arch::is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: `xsave` was just asked for, and AVX is detected only where the system has enabled it.
    if unsafe { kept_states() } & TILE_STATES != TILE_STATES {
        return false;
    }
    /// The call `arch_prctl`, its request for a state that is not kept by default, and the number of that.
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let mut answer = ARCH_PRCTL;
    // SAFETY: a system call that takes two numbers and touches no memory of the process; the registers that it changes
    // are named.
    unsafe {
        asm!("syscall", inlateout("rax") answer, in("rdi") REQUEST, in("rsi") TILE_DATA, out("rcx") _, out("r11") _,
            options(nostack));
    }
    answer == 0
}
