//! The Fourier method by transforms of columns, with taps along rows (`fft/columns.rs`).

use crate::cpu::bands::{Bands, Grid};
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::fft::columns::{CHUNK, Layout, Scratch, Transform};
use crate::cpu::fft::pair::{Ground, Planes};
use crate::cpu::in_place::{InPlace, Seen};
use crate::cpu::memory::Memory;
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;

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
        Ok(self.prepare(values))
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        _prepared: &mut dyn Iterator<Item = &Planes>,
        promised: bool,
    ) -> (Rounding, Figures) {
        let template = if promised { channels.iter().next() } else { None };
        (self.rounding(template.as_deref()), Figures::of(channels.iter()))
    }

    fn cross(&self, template: &Planes, job: Cross<'_, f32>, work: &mut Scratch) {
        let Cross { samples, out, pitches, outputs, .. } = job;
        let ground = Ground { input: samples, in_row: pitches.samples.row, out, out_row: pitches.cross.row };
        self.run(ground, template, work, [outputs[1], outputs[2]], false);
    }

    fn bands<'a>(&self, _channel: usize, outputs: [usize; 2], work: &'a Scratch) -> Bands<'a> {
        // A chunk of either half of a band.
        let half = Layout::half(outputs[1]);
        Bands::Grid(Grid {
            figures: &work.figures,
            planes: 1,
            pitch: half / CHUNK,
            place: [self.layout().band(), CHUNK],
            beside: outputs[1] - half,
        })
    }

    fn expected(&self) -> Option<Expected> {
        // Of transforms of columns it is the strongest one that counts.
        Some(Expected { samples: 2 * self.layout().length, results: 2.0, strongest: true })
    }

    /// Correlates a tile that is whole and whose samples lie in the image.
    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a Planes, &'a [f64]),
        work: &mut Scratch,
    ) -> Option<()> {
        if !job.whole() {
            return None;
        }
        let here = job.image.here(job.samples)?;
        let outputs = [job.tile.shape[1], job.tile.shape[2]];
        for number in 0..job.templates {
            let (spectrum, values) = templates(number);
            let rows = (job.rows)(number, job.tile.place, 1)?;
            let ground = Ground { input: here.samples(), in_row: here.pitch().row, out: rows.out, out_row: rows.pitch };
            self.run(ground, spectrum, work, outputs, true);
            // As of a direct kernel's results: these are complex.
            let mut seen = Seen::default();
            seen.add((0.5 * work.result).sqrt(), values);
            if !(seen.ordinary() || here.ordinary(self.vectors())) {
                return None;
            }
        }
        Some(())
    }
}
