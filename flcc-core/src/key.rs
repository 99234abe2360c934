//! The one name of a kernel, and its parts.
//!
//! `corr_f32_7x7_avx512_t62x250` is what the log, the bench, wisdom and `explain()` say: operation, pixel type,
//! template size, target and tile. A kernel body serves many sizes, so its own name says which rows it unrolls
//! (`corr_f32_w7_avx512`).

use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;

/// A kernel's name, in parts. Each is made of lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelKey {
    /// What the kernel computes: `corr`, `sad`, `fourier`, `separable`, `zncc`.
    pub op: String,
    /// The type it computes in.
    pub dtype: String,
    /// The template size, or the part of it that is unrolled: `7x7`, `w7`, `any`.
    pub size: String,
    /// Instruction set, library or thread block: `avx512`, `rustfft`, `b32x8`.
    pub target: String,
    /// The tile, `t62x250`, or the architecture that a CUDA kernel needs, `sm80`; empty for a body.
    pub tile: String,
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
        let wrong = || {
            SpecError::new("kernel name", "OP_TYPE_SIZE_TARGET[_ARCH][_TILE] of lower-case letters and digits", text)
        };
        let parts: Vec<&str> = text.split('_').collect();
        let well_formed = parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        if !well_formed || !(4..=6).contains(&parts.len()) {
            return Err(wrong());
        }
        let part = |i: usize| parts.get(i).map_or(String::new(), |part| (*part).to_string());
        Ok(KernelKey {
            op: part(0),
            dtype: part(1),
            size: part(2),
            target: part(3),
            tile: parts[4.min(parts.len())..].join("_"),
        })
    }
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
