//! The Fourier method by transforms of the planes of volumes (`fft/volume.rs`).

use crate::cpu::bands::{Bands, Grid};
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::fft::volume::{Layout, Scratch, Spectra, Transform, VolumeRun};
use crate::cpu::memory::Memory;
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;

impl Engine<f32> for Transform {
    type Template = Spectra;
    type Work = Scratch;

    fn pitches(&self, _outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.layout().pitches();
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, _most: Most, memory: &mut Memory) -> Scratch {
        self.scratch(memory)
    }

    fn template_bytes(&self) -> usize {
        self.spectra_bytes()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Spectra, FactorError> {
        Ok(self.prepare(values))
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Spectra>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        let Layout { length, template, .. } = *self.layout();
        let wave = prepared.map(|spectra| self.wave(spectra).powi(2)).sum::<f64>().sqrt();
        let rounding = Rounding::Volume { len: (length * length) as f64, layers: template[0] as f64 };
        (rounding, Figures { wave, ..Figures::of(channels.iter()) })
    }

    fn cross(&self, template: &Spectra, job: Cross<'_, f32>, work: &mut Scratch) {
        let Cross { samples, out, pitches, outputs, .. } = job;
        let run = VolumeRun { input: samples, in_pitch: pitches.samples, out, out_pitch: pitches.cross };
        self.run(run, template, work, outputs);
    }

    fn bands<'a>(&self, _channel: usize, outputs: [usize; 2], work: &'a Scratch) -> Bands<'a> {
        // A plane of the tile has the figure of the plane of the pair that it belongs to.
        let planes = self.layout().outputs[0];
        Bands::Grid(Grid { figures: &work.figures, planes, pitch: 1, place: outputs, beside: 0 })
    }

    fn expected(&self) -> Option<Expected> {
        None
    }
}
