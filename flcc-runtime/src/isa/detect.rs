//! Which instruction sets the processor has that this runs on.

use flcc_core::isa::{ISAS, Isa, IsaSet, Kernels};

use crate::isa::tiles;

/// Whether the processor this runs on has an instruction set, and its operating system saves its registers.
///
/// Of a set with tiles that is also the request to save them, which holds for the whole process from then on.
pub fn detected(isa: Isa) -> bool {
    let with_tiles = matches!(isa.row().kernels, Kernels::Tiles { .. });
    flcc_macros::features_detected!(isa) && (!with_tiles || tiles::granted())
}

/// The instruction sets of the processor this runs on.
pub fn detect() -> IsaSet {
    IsaSet::of(&ISAS).filter(detected)
}
