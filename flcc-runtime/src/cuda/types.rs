//! The types that the kernels of a plan compute in.

use flcc_core::dtype::DType;

/// The types that a pipeline is specialised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// The image's samples.
    pub pixel: DType,
    /// Gathered samples.
    pub real: DType,
    /// The cross term: its number in the source's words.
    pub cross: Cross,
    /// Results.
    pub out: DType,
}

/// The type of a cross term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cross {
    /// 32-bit integers.
    Unsigned,
    /// 64-bit integers.
    Long,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Cross {
    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Cross::Unsigned | Cross::F32 => 4,
            Cross::Long | Cross::F64 => 8,
        }
    }
}
