//! Memory asked for before it is used.

/// Values of a cache line.
pub(crate) const LINE: usize = 16;

/// Rows of memory that will be used.
#[derive(Clone, Copy)]
pub struct Coming {
    /// The first row's address; only asked for, never read.
    pub(crate) from: *const f32,
    pub(crate) pitch: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl Coming {
    /// The cache lines of these values.
    pub fn new(values: &[f32], pitch: usize, rows: usize, width: usize) -> Coming {
        Coming { from: values.as_ptr(), pitch, rows, width }
    }

    /// Lines of all rows.
    pub(crate) fn count(&self) -> usize {
        self.rows * self.width.div_ceil(LINE)
    }
}

/// Asks for the lines of `BYTES` from a place on to be brought near, to be read or (`WRITE`) written soon; the place
/// may be any.
#[inline(always)]
pub(crate) fn ask<T, const BYTES: usize, const WRITE: bool>(values: &[T], at: usize) {
    for line in (0..BYTES).step_by(64) {
        let address = values.as_ptr().wrapping_add(at).cast::<i8>().wrapping_add(line);
        hint(if WRITE { Use::Write } else { Use::Read }, address);
    }
}

/// Asks for the line of an address, which may be any, to be brought near: to be written soon (`WRITE`), or into the
/// second-level cache, to be read later.
#[inline(always)]
pub(crate) fn ask_line<const WRITE: bool>(address: *const f32) {
    hint(if WRITE { Use::Write } else { Use::Later }, address.cast());
}

/// What a line is wanted for.
#[derive(Clone, Copy)]
enum Use {
    /// To be read soon.
    Read,
    /// To be read later.
    Later,
    /// To be written soon.
    Write,
}

#[inline(always)]
fn hint(wanted: Use, address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: nothing that a program can see is read or written, and no address faults.
    unsafe {
        use std::arch::x86_64::*;
        match wanted {
            Use::Read => _mm_prefetch::<_MM_HINT_T0>(address),
            Use::Later => _mm_prefetch::<_MM_HINT_T1>(address),
            Use::Write => _mm_prefetch::<_MM_HINT_ET0>(address),
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above. The intrinsic for it is not stable.
    unsafe {
        use std::arch::asm;
        match wanted {
            Use::Read => asm!("prfm pldl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags)),
            Use::Later => asm!("prfm pldl2keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags)),
            Use::Write => asm!("prfm pstl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags)),
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (wanted, address);
}
