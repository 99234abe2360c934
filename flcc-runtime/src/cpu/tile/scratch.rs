//! Buffers of one worker.

use crate::cpu::aligned::Aligned;
use crate::cpu::engine::{Most, Work};
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::{Buffers, window_sums};
use crate::cpu::tile::context::TileContext;
use crate::run::tiling::TileBox;

/// Buffers of one worker.
pub struct TileScratch<T: Real> {
    pub(super) bytes: Aligned<i8>,
    pub(super) marks: Aligned<T>,
    pub(super) squares: Aligned<T>,
    pub(super) window_marks: Aligned<T>,
    /// Outputs of a correlation that overflowed.
    pub(super) over: Vec<bool>,
    /// What the engine needs.
    pub(super) work: Work,
    /// What scores are made of, and in.
    pub(super) scored: Buffers<T>,
}

impl<T: Real> TileScratch<T> {
    /// Parts of the tile run last that are to be run in a better way, over what was stored.
    pub fn again(&self) -> &[TileBox] {
        &self.scored.again
    }
}

impl<T: Real> TileContext<T> {
    /// Buffers for one worker.
    pub fn scratch(&self, memory: &mut Memory) -> TileScratch<T> {
        let zero = T::of(0.0);
        let channels = self.spec.channels();
        let (input, output) = (self.input_len(), self.pitches.cross.elements());
        let needs = self.needs();
        let sum_len = |needed: bool| if needed && self.score.takes_sums() { input } else { 0 };
        let flat = if self.degenerates() && self.scheme.integers.is_none() { input } else { 0 };
        let masked_sums = if self.scheme.masked && needs.square { input } else { 0 };
        let floats = self.needs_marks();
        TileScratch {
            bytes: memory.aligned(0, self.pitches.bytes.map_or(0, |pitch| pitch.elements())),
            marks: memory.aligned(zero, if floats { input } else { 0 }),
            squares: memory.aligned(zero, masked_sums),
            window_marks: memory.aligned(zero, if floats { self.window_scratch() } else { 0 }),
            over: memory.values(false, if floats && self.score.in_place() { output } else { 0 }),
            work: self.engine.work(Most { outputs: self.capacity, channels }, memory),
            scored: Buffers {
                inputs: (0..channels).map(|_| memory.aligned(zero, input)).collect(),
                crosses: (0..channels).map(|_| memory.aligned(zero, output)).collect(),
                sums: (0..channels)
                    .map(|_| [needs.sum, needs.square].map(|needed| memory.aligned(0.0, sum_len(needed))))
                    .collect(),
                factors: vec![1.0; channels],
                scale: 1.0,
                hit: memory.values(false, if floats { output } else { 0 }),
                window: memory.aligned(0.0, if needs.square { self.window_scratch() } else { 0 }),
                low: memory.aligned(0.0, flat),
                high: memory.aligned(0.0, flat),
                flat: memory.values(false, if flat > 0 { output } else { 0 }),
                panel: memory
                    .values(0.0, if self.scheme.repairs() { channels * self.spec.template().len() } else { 0 }),
                again: memory.list(self.most_parts()),
                own: self.score.own(&self.tiles(), memory),
            },
        }
    }

    /// Elements of a channel's samples.
    fn input_len(&self) -> usize {
        if self.only_bytes() { 0 } else { self.pitches.samples.elements() }
    }

    /// Parts of a tile, at most.
    fn most_parts(&self) -> usize {
        (0..3).map(|axis| self.capacity[axis].div_ceil(self.parts[axis].max(1))).product()
    }

    fn window_scratch(&self) -> usize {
        let (outputs, template) = (self.capacity, self.spec.template().padded());
        let shape = [0, 1, 2].map(|axis| outputs[axis] + template[axis] - 1);
        window_sums::scratch_len(
            &window_sums::Lattice {
                shape,
                row_pitch: self.pitches.samples.row,
                plane_pitch: self.pitches.samples.plane,
            },
            template,
        )
    }
}
