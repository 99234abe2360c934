//! Scores of bytes from the image by a kernel on tensor cores, which is compiled for the template's sides.

use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Argument, Function};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{integer_norm, score_options};
use crate::cuda::method::{Around, Desk, Method, Run, Scoring, Source, Taps};
use crate::cuda::rooms::{Makes, Room};
use crate::cuda::tensor::{Shape, most_table_bytes};
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MmaScores(pub &'static Entry);

/// A template's table.
struct Table {
    entry: &'static Entry,
    function: Function,
    table: Buffer,
    bytes: usize,
}

impl Method for MmaScores {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn makes(&self) -> Makes {
        Makes::Scores
    }

    fn source(&self, [_, height, width]: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let mut options = score_options(around.options);
        options.extend([("TH", height), ("TW", width)].map(|(name, side)| format!("-DFLCC_{name}={side}")));
        Some(Source { text: self.0.source(), options })
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let values = channels.first().ok_or_else(|| Fault::new(self.0.name, "a template without a channel"))?;
        let (shape, (_, function)) = (Shape::of(self.0, desk.template), desk.kernel()?);
        Ok(Box::new(Table {
            entry: self.0,
            function: function.clone().with_shared(shape.shared())?,
            table: Buffer::of(desk.stream, &shape.table(values))?,
            bytes: shape.table_bytes(),
        }))
    }

    fn taps_bytes(&self, samples: usize) -> usize {
        most_table_bytes(samples)
    }
}

impl Taps for Table {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        let batch = at.batch;
        let arguments = [
            batch.image_room(),
            Argument::Image(&batch.image),
            Argument::Constants(of.constants),
            batch.tile_room(),
            Argument::Double(integer_norm(of.constants)),
            Argument::Room(self.table.address(at.stream), self.bytes),
            Argument::Room(batch.places[Room::Result], batch.result_reach),
            Argument::Result(of.view),
        ];
        let (grid, threads) = batch.aligned_blocks_of(self.entry);
        at.stream.launch(&self.function, grid, threads, &arguments)
    }
}
