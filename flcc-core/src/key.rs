//! The one name of a kernel, and its parts.
//!
//! `corr_f32_7x7_avx512_t62x250` is what the log, the bench, wisdom and `explain()` say: operation, pixel type,
//! template size, target and tile. A kernel body serves many sizes, so its own name says which rows it unrolls
//! (`corr_f32_w7_avx512`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;

/// A kernel's name, in parts. Each is made of lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelKey {
    /// What the kernel computes: `corr`, `sad`, `fourier`, `separable`, `zncc`.
    pub op: Cow<'static, str>,
    /// The type it computes in.
    pub dtype: Cow<'static, str>,
    /// The template size, or the part of it that is unrolled: `7x7`, `w7`, `any`.
    pub size: Cow<'static, str>,
    /// Instruction set, library or thread block: `avx512`, `rustfft`, `b32x8`.
    pub target: Cow<'static, str>,
    /// The tile, `t62x250`, or the architecture that a CUDA kernel needs, `sm80`; empty for a body.
    pub tile: Cow<'static, str>,
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}_{}", self.op, self.dtype, self.size, self.target)?;
        if !self.tile.is_empty() {
            write!(f, "_{}", self.tile)?;
        }
        Ok(())
    }
}

impl FromStr for KernelKey {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<KernelKey, SpecError> {
        read(text, |part| Cow::Owned(part.to_string()))
    }
}

impl KernelKey {
    /// The parts of a name that stands in a table; nothing is allocated.
    ///
    /// # Errors
    /// As for any other text.
    pub fn named(name: &'static str) -> Result<KernelKey, SpecError> {
        read(name, Cow::Borrowed)
    }
}

/// A name in parts.
fn read<'a>(text: &'a str, part: impl Fn(&'a str) -> Cow<'static, str>) -> Result<KernelKey, SpecError> {
    let wrong =
        || SpecError::new("kernel name", "OP_TYPE_SIZE_TARGET[_ARCH][_TILE] of lower-case letters and digits", text);
    let mut parts = [""; 6];
    let mut count = 0;
    for word in text.split('_') {
        let well_formed = !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        *parts.get_mut(count).filter(|_| well_formed).ok_or_else(wrong)? = word;
        count += 1;
    }
    let [op, dtype, size, target, first, second] = parts;
    let tile = match count {
        4 => "".into(),
        5 => part(first),
        6 => [first, second].join("_").into(),
        _ => return Err(wrong()),
    };
    Ok(KernelKey { op: part(op), dtype: part(dtype), size: part(size), target: part(target), tile })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for name in [
            "corr_f32_7x7_avx512_t62x250",
            "corr_f32_w7_avx512",
            "zncc_u8_16x16_b32x8",
            "zncc_u8_any_b32x8_sm80_t64x64",
        ] {
            assert_eq!(name.parse::<KernelKey>().unwrap().to_string(), name);
        }
        for wrong in ["corr_f32", "Corr_f32_a_b", "corr__f32_7", "a_b_c_d_e_f_g", ""] {
            assert!(wrong.parse::<KernelKey>().is_err(), "{wrong}");
        }
    }
}
