//! What is the same for every tile: the engine, the decisions, the shapes.

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_core::sums::Needs;

use crate::cpu::engine::{AnyEngine, Pitches};
use crate::cpu::real::Real;
use crate::cpu::score::split::Splitter;
use crate::isa::{IsaSet, Vectors};
use crate::problem::scheme::{Scheme, largest_pixel};
use crate::run::tiling::Tiling;

/// How the cross term of a tile becomes scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scoring {
    /// It is the result: one channel, no mask.
    Plain,
    /// In these vectors, by `score/vector.rs`, where that is all it takes: one channel, no mask.
    Vectors(Vectors),
    /// Row by row in f64 or integers, by `score/rows.rs`.
    Rows,
}

/// Whether a cross term in this type is all of a product with the template: in f32, of one channel, without a mask.
fn plain(spec: &Spec, real: DType) -> bool {
    real == DType::F32 && spec.channels() == 1 && spec.mask() == MaskKind::None
}

/// Whether cross terms in this type, whose rows lie `row` apart, become scores in vectors (`score/vector.rs`), on
/// processors that have them.
pub fn in_vectors(spec: &Spec, scheme: &Scheme, real: DType, row: usize) -> bool {
    let measured = plain(spec, real) && matches!(scheme.measure, Measure::Zncc | Measure::Ncc);
    // Rows of a transform lie side by side: only where they are whole vectors may one be written to its end.
    let roomy = row.is_multiple_of(WHOLE_VECTORS);
    let probable = scheme.promise.is_some_and(|promise| promise.deviations.is_some());
    let largest = spec.template().len() as f64 * largest_pixel(spec.work_type());
    let exact = scheme.integers.is_none() || largest.powi(2) < 2f64.powi(52);
    // Exact integers fit in tiles of f32, but their scores not in results of f64.
    measured && roomy && probable && exact && spec.out_type() == DType::F32
}

/// Values of whole vectors, of whatever instruction set.
pub const WHOLE_VECTORS: usize = 16;

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
    pub(super) scoring: Scoring,
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
        let mut context = TileContext {
            spec,
            tiling,
            engine,
            scheme,
            isas,
            capacity,
            patience: u64::MAX,
            parts: capacity,
            pitches,
            scoring: Scoring::Rows,
            splitter: None,
            always_in_parts: false,
        };
        context.scoring = context.scored();
        context
    }

    /// How tiles are scored, by what is known before any pixel.
    fn scored(&self) -> Scoring {
        if self.scheme.measure == Measure::Cc && plain(&self.spec, T::DTYPE) {
            return Scoring::Plain;
        }
        let vectors = in_vectors(&self.spec, &self.scheme, T::DTYPE, self.pitches.cross.row);
        vectors.then(|| Vectors::new(&self.isas)).flatten().map_or(Scoring::Rows, Scoring::Vectors)
    }

    /// Takes templates in two parts (`score/split.rs`), `always` or in tiles that leave much in doubt otherwise, where
    /// that helps: promised scores of floats in f32.
    pub fn in_parts(mut self, always: bool) -> TileContext<T> {
        self.always_in_parts = always;
        let engine = self.engine.expected().is_some();
        let vectors = matches!(self.scoring, Scoring::Vectors(_)) && self.scheme.integers.is_none();
        if engine && vectors && self.scheme.measure == Measure::Zncc && self.spec.accuracy() == Accuracy::Promised {
            self.splitter = Splitter::new(self.spec.template().padded());
        }
        self
    }

    /// Whether nothing but the cross term is taken of the samples, and that of bytes.
    pub(super) fn only_bytes(&self) -> bool {
        self.pitches.bytes.is_some() && matches!(self.scoring, Scoring::Plain)
    }

    /// Whether the cross term is handed on as the bits of `i32`: integers that `f32` need not hold, for what takes them
    /// exactly.
    pub(super) fn integer_bits(&self) -> bool {
        self.pitches.bytes.is_some()
            && matches!(self.scoring, Scoring::Vectors(_))
            && self.scheme.measure == Measure::Zncc
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
