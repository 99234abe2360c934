//! What is the same for every tile: the engine, the decisions, the shapes.

use flcc_core::boundary::Boundary;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, Spec};
use flcc_core::sums::Needs;

use crate::cpu::engine::{AnyEngine, Pitches};
use crate::cpu::real::Real;
use crate::cpu::score::split::Splitter;
use crate::cpu::score::{Score, Tiles, ways};
use crate::isa::IsaSet;
use crate::problem::scheme::Scheme;
use crate::run::tiling::Tiling;

/// Everything that is the same for every tile.
pub struct TileContext<T: Real> {
    /// The spec.
    pub spec: Spec,
    /// The grid.
    pub tiling: Tiling,
    /// The cross term.
    pub engine: Box<dyn AnyEngine<T>>,
    /// The decisions.
    pub scheme: Scheme,
    /// The instruction sets that row loops are compiled for.
    pub isas: IsaSet,
    /// Outputs an axis of the largest tile that is run.
    pub capacity: [usize; 3],
    /// Panels that are recomputed one by one of each part of a tile, before the part is left to a better way.
    pub patience: u64,
    /// Outputs an axis of such a part.
    pub parts: [usize; 3],
    pub(super) pitches: Pitches,
    /// What makes scores of it.
    pub(super) score: Box<dyn Score<T>>,
    /// Takes templates in two parts, where that helps.
    pub(super) splitter: Option<Splitter>,
    /// Templates are taken in two parts whatever the tile.
    pub(super) always_in_parts: bool,
}

impl<T: Real> TileContext<T> {
    /// A context; the engine's buffers are sized for tiles of up to `capacity` outputs an axis.
    pub fn new(
        spec: Spec,
        tiling: Tiling,
        capacity: [usize; 3],
        engine: Box<dyn AnyEngine<T>>,
        scheme: Scheme,
        isas: IsaSet,
    ) -> TileContext<T> {
        let pitches = engine.pitches(capacity);
        let score = ways::of(&spec, &scheme, &isas, pitches.cross.row, pitches.bytes.is_some());
        TileContext {
            spec,
            tiling,
            engine,
            scheme,
            isas,
            capacity,
            patience: u64::MAX,
            parts: capacity,
            pitches,
            score,
            splitter: None,
            always_in_parts: false,
        }
    }

    /// What scores are told of it.
    pub(super) fn tiles(&self) -> Tiles<'_> {
        Tiles {
            spec: &self.spec,
            scheme: &self.scheme,
            isas: self.isas,
            capacity: self.capacity,
            patience: self.patience,
            parts: self.parts,
            sample_pitch: self.pitches.samples,
            cross_pitch: self.pitches.cross,
            splitter: self.splitter.as_ref(),
        }
    }

    /// Takes templates in two parts (`score/split.rs`), `always` or in tiles that leave much in doubt otherwise, where
    /// that helps: promised scores of floats in f32.
    pub fn in_parts(mut self, always: bool) -> TileContext<T> {
        self.always_in_parts = always;
        let engine = self.engine.expected().is_some();
        let adds = self.score.adds_parts().is_some() && self.scheme.integers.is_none();
        if engine && adds && self.scheme.measure == Measure::Zncc && self.spec.accuracy() == Accuracy::Promised {
            self.splitter = Splitter::new(self.spec.template().padded());
        }
        self
    }

    /// Whether nothing but the cross term is taken of the samples, and that of bytes.
    pub(super) fn only_bytes(&self) -> bool {
        self.pitches.bytes.is_some() && !self.score.takes_samples()
    }

    pub(super) fn needs(&self) -> Needs {
        self.scheme.measure.row().needs
    }

    /// Whether samples may be NaN, infinite or of extraordinary magnitude.
    pub(super) fn needs_marks(&self) -> bool {
        !self.spec.is_integer() || matches!(self.spec.boundary(), Boundary::Constant(_))
    }

    /// Whether constant or zero panels have a score of their own that must be decided exactly.
    pub(super) fn degenerates(&self) -> bool {
        self.scheme.measure.row().normalised
    }
}
