//! The Fourier method by the transform of one tile that is all of a result (`fft/single.rs`).

use crate::cpu::bands::{Bands, Grid};
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::fft::pair::{Ground, Planes};
use crate::cpu::fft::single::{Scratch, Transform};
use crate::cpu::memory::Memory;
use crate::isa::{self, Isa, IsaSet};
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;
use crate::problem::lanes;

impl Engine<f32> for Transform {
    type Template = Planes;
    type Work = Scratch;

    fn pitches(&self, _outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.layout().pitches();
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, _most: Most, memory: &mut Memory) -> Scratch {
        self.scratch(memory)
    }

    fn template_bytes(&self) -> usize {
        self.spectrum_bytes()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Planes, FactorError> {
        let mut spectrum = self.room();
        self.prepare(values, &mut self.scratch(&mut Memory::making()), &mut spectrum);
        Ok(spectrum)
    }

    fn prepare_into(
        &self,
        values: &[f64],
        _mask: Option<&[f64]>,
        work: &mut Scratch,
        to: &mut Planes,
    ) -> Result<(), FactorError> {
        self.prepare(values, work, to);
        Ok(())
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Planes>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        let len = (self.layout().length * self.layout().length) as f64;
        let sum = |values: &[f64]| isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || lanes::sum(values, |value| value));
        let off = channels.iter().zip(prepared).map(|(values, spectrum)| self.off(spectrum, sum(&values))).sum();
        (Rounding::Single { len }, Figures { off, ..Figures::of(channels.iter()) })
    }

    fn cross(&self, template: &Planes, job: Cross<'_, f32>, work: &mut Scratch) {
        let Cross { samples, out, pitches, outputs, .. } = job;
        let ground = Ground { input: samples, in_row: pitches.samples.row, out, out_row: pitches.cross.row };
        self.run(ground, template, work, [outputs[1], outputs[2]]);
    }

    fn bands<'a>(&self, _channel: usize, outputs: [usize; 2], work: &'a Scratch) -> Bands<'a> {
        Bands::Grid(Grid::of(&work.figure, outputs))
    }

    fn expected(&self) -> Option<Expected> {
        Some(Expected { samples: self.layout().length.pow(2), results: 1.0, strongest: false })
    }
}
