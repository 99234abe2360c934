//! Sums of absolute differences by a kernel for every size.

use flcc_generated::Entry;

use crate::cuda::direct::{self, Values, sides, weights};
use crate::cuda::driver::launch::Argument;
use crate::cuda::fault::Fault;
use crate::cuda::method::{Desk, Method, Run, Scoring, Taps};
use crate::cuda::rooms::Room;
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Differences(pub &'static Entry);

/// A template.
struct Template {
    entry: &'static Entry,
    values: Values,
}

impl Method for Differences {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn figures(&self, template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        direct::figures(self.0, template, channels)
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        Ok(Box::new(Template { entry: self.0, values: Values::new(desk, channels)? }))
    }

    fn taps_bytes(&self, samples: usize) -> usize {
        samples * size_of::<f64>()
    }

    fn weighs(&self) -> bool {
        true
    }
}

impl Taps for Template {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        let (cross, (grid, threads)) = (at.batch.cross_layout(), at.batch.blocks_of(self.entry));
        let [d, h, w] = sides(at.batch);
        for channel in 0..at.batch.layout.channels as usize {
            let (samples, out) = (at.batch.samples_of(channel), at.batch.out_of(Room::Cross, channel));
            let all = [samples, out, Argument::Cross(&cross), self.values.of(at, channel), weights(at), d, h, w];
            at.stream.launch(&self.values.function, grid, threads, &all)?;
        }
        Ok(())
    }
}
