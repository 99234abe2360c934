//! From cross terms and window sums to scores, in vectors or in rows of f64, and the repair of panels in doubt.
//!
//! What a way to make scores is, is [`Score`]: a virtual call for each tile and template, nothing in a loop.

pub mod finishing;
pub mod repair;
pub mod rows;
pub mod split;
pub mod vector;
pub mod ways;
pub mod window_sums;

use flcc_core::dtype::DType;
use flcc_core::spec::{MaskKind, Spec};
use flcc_core::view::AnyView;

use crate::cpu::aligned::Aligned;
use crate::cpu::bands::Bands;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::rows::RowBuffers;
use crate::cpu::score::split::Splitter;
use crate::isa::prefetch::Coming;
use crate::isa::{IsaSet, Vectors};
use crate::problem::error_model::{Doubt, Unseen};
use crate::problem::scheme::Scheme;
use crate::problem::template::{Checked, Weights};
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Scores;
use crate::run::tiling::TileBox;

/// A way to make scores of the cross terms of tiles in one type.
///
/// It knows no engine. No question has an answer by default: each stands for a promise that a tile keeps by it.
pub trait Score<T: Real>: Send + Sync {
    /// Whether results are cross terms as they are. Then engines may write them in place, and tiles are to give the
    /// same bits: they gather what transforms reach, and scale samples down for nothing but outputs that overflow.
    fn in_place(&self) -> bool;

    /// Whether it looks at samples, not at cross terms alone.
    fn takes_samples(&self) -> bool;

    /// Whether it takes window sums ([`Buffers::sums`]).
    fn takes_sums(&self) -> bool;

    /// Whether it takes cross terms of bytes as the bits of `i32`: `f32` need not hold them.
    fn takes_bits(&self) -> bool;

    /// Whether energies are rounded to `f32` on the way to a score.
    fn in_singles(&self) -> bool;

    /// The vectors in which it adds the coarse part of a template in two parts ([`Finishing::heights`]); `None` where
    /// it takes cross terms with whole templates alone.
    fn adds_parts(&self) -> Option<&Vectors>;

    /// The buffers that it needs and no other way does.
    fn own(&self, tiles: &Tiles<'_>, memory: &mut Memory) -> Own;

    /// Makes the scores of a tile that are asked for and stores them; returns how many panels were recomputed one by
    /// one. A part with more of them than `patience` is left to a better way ([`Buffers::again`]); with `None` all of
    /// the tile is.
    fn finish(&self, last: &Finishing<'_>, buffers: &mut Buffers<T>, store: &mut Store<'_>) -> Option<u64>;
}

/// Whether a cross term in this type is all of a product with the template: in f32, of one channel, without a mask.
pub fn plain(spec: &Spec, real: DType) -> bool {
    real == DType::F32 && spec.channels() == 1 && spec.mask() == MaskKind::None
}

/// What is the same for every tile.
#[derive(Clone, Copy)]
pub struct Tiles<'a> {
    /// The spec.
    pub spec: &'a Spec,
    /// The decisions.
    pub scheme: &'a Scheme,
    /// The instruction sets that loops are compiled for.
    pub isas: IsaSet,
    /// Outputs an axis of the largest tile that is run.
    pub capacity: [usize; 3],
    /// Panels that are recomputed one by one of each part of a tile, before the part is left to a better way.
    pub patience: u64,
    /// Outputs an axis of such a part.
    pub parts: [usize; 3],
    /// The shape of the buffer of the tile's samples.
    pub sample_pitch: Pitch,
    /// The shape of the buffer of the tile's cross term.
    pub cross_pitch: Pitch,
    /// Takes templates in two parts, where that helps.
    pub splitter: Option<&'a Splitter>,
}

/// What the last steps of a tile need of the first.
pub struct Finishing<'a> {
    /// What is the same for every tile.
    pub tiles: Tiles<'a>,
    /// The image.
    pub image: &'a AnyView<'a>,
    /// The tile.
    pub tile: &'a TileBox,
    /// The samples under it.
    pub samples: Samples,
    /// Whether some sample was NaN or infinite.
    pub marked: bool,
    /// The mask.
    pub weights: &'a Weights,
    /// The template's number.
    pub number: usize,
    /// The template.
    pub template: &'a Checked,
    /// How far the cross term may be off.
    pub judged: Judged,
    /// The rectangles of the coarse part, whose cross term is still to be added.
    pub heights: Option<&'a [f64]>,
    /// Which outputs share which figure of the error model, by channel.
    pub bands: &'a dyn Fn(usize) -> Bands<'a>,
}

/// What a cross term with a template leaves in doubt.
#[derive(Clone, Copy, Default)]
pub struct Judged {
    /// When a panel's score is in doubt.
    pub doubt: Doubt,
    /// What samples may come to though no result says so.
    pub unseen: Unseen,
}

/// What takes the scores.
pub struct Store<'a> {
    /// Gets a template's number, the place of a row in the result, the row.
    pub write: &'a mut dyn FnMut(usize, [usize; 3], Scores<'_>),
    /// Where rows from such a place on will be written, if that is a plane of `f32` side by side.
    pub lines: &'a dyn Fn(usize, [usize; 3]) -> Option<Coming>,
}

/// A worker's buffers that scores are made of, and in.
pub struct Buffers<T: Real> {
    /// Samples, channel by channel.
    pub inputs: Vec<Aligned<T>>,
    /// Cross terms, channel by channel.
    pub crosses: Vec<Aligned<T>>,
    /// Sums of samples and of squares over every window, channel by channel, where they are taken.
    pub sums: Vec<[Aligned<f64>; 2]>,
    /// What brings each channel to the common scale.
    pub factors: Vec<f64>,
    /// The common scale of all channels, by which the image's samples were multiplied.
    pub scale: f64,
    /// Panels that touch a marked sample.
    pub hit: Vec<bool>,
    /// For sums and extremes of windows.
    pub window: Aligned<f64>,
    /// The least samples of windows.
    pub low: Aligned<f64>,
    /// The largest.
    pub high: Aligned<f64>,
    /// Panels that have a score of their own because all their samples are equal, or zero.
    pub flat: Vec<bool>,
    /// Samples of one panel.
    pub panel: Vec<f64>,
    /// Parts of the tile run last that are left to a better way.
    pub again: Vec<TileBox>,
    /// What the way to make scores asked for.
    pub own: Own,
}

/// Buffers that one way needs and no other does.
#[derive(Default)]
pub struct Own {
    /// Rows of sums and scores.
    pub rows: RowBuffers,
    /// Window sums in vectors.
    pub vectors: Option<vector::Scratch>,
    /// Sums of boxes.
    pub split: Option<split::Scratch>,
}
