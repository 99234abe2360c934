//! Direct sums by a kernel made for the template's size, which lies in its constant memory.

use flcc_generated::Entry;

use crate::cuda::direct;
use crate::cuda::driver::launch::{Argument, CrossLayout, Function, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::method::{Around, Desk, Job, Method, Run, Scoring, Source, Taps};
use crate::cuda::rooms::Room;
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed(pub &'static Entry);

/// A copy of the kernel for each channel, and the one from the image to the result.
struct Kernels {
    entry: &'static Entry,
    functions: Vec<Function>,
    straight: Option<Function>,
}

impl Method for Listed {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let text = self.0.source();
        if !around.straight {
            return Some(Source { text, options: Vec::new() });
        }
        let mut options = own_options(around.options);
        options.push(format!("-DFLCC_WARPS={}", self.0.warps));
        Some(Source { text: text + flcc_generated::STRAIGHT, options })
    }

    fn figures(&self, template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        direct::figures(self.0, template, channels)
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (mut functions, mut straight) = (Vec::new(), None);
        for values in channels {
            let (module, function) = direct::constant(desk, self.0, values)?;
            if desk.straight {
                straight = Some(module.function("flcc_straight")?);
            }
            functions.push(function);
        }
        Ok(Box::new(Kernels { entry: self.0, functions, straight }))
    }

    fn taps_bytes(&self, samples: usize) -> usize {
        samples * size_of::<f64>()
    }

    fn covers(&self, [depth, height, _]: [usize; 3]) -> bool {
        depth <= MOST_BLOCKS && height.div_ceil(self.0.tile[0].min(straight_rows(self.0).1)) <= MOST_BLOCKS
    }
}

/// Rows of a block of the kernel from the image to the result: of threads, and of outputs.
fn straight_rows(entry: &Entry) -> (usize, usize) {
    let threads = if entry.warps > 0 { entry.warps } else { entry.block[0] };
    (threads, entry.tile[0] / entry.block[0] * threads)
}

impl Taps for Kernels {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        let (cross, (grid, threads)) = (at.batch.cross_layout(), at.batch.blocks_of(self.entry));
        for (channel, function) in self.functions.iter().enumerate() {
            let out = at.batch.out_of(Room::Cross, channel);
            at.stream.launch(function, grid, threads, &[at.batch.samples_of(channel), out, Argument::Cross(&cross)])?;
        }
        Ok(())
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        let Some(function) = &self.straight else {
            return Err(Fault::new(self.entry.name, "a template that was bound for the pipeline"));
        };
        let [depth, height, width] = job.outputs;
        let cross = CrossLayout {
            out_row: job.result.stride[1],
            out_plane: job.result.stride[0],
            out_tile: job.result.image_stride,
            out_shape: job.outputs.map(|side| side as i32),
            out_depth: depth as i32,
            ..CrossLayout::default()
        };
        // Columns before the first output, with which blocks begin at multiples of four samples of the image.
        let before = job.begin[2].rem_euclid(4);
        let blocks = |outputs: usize, tile: usize| outputs.div_ceil(tile) as u32;
        let Entry { tile, block, .. } = self.entry;
        let (threads, rows) = straight_rows(self.entry);
        let grid = [blocks(width + before as usize, tile[1]), blocks(height, rows), (job.count * depth) as u32];
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            job.out,
            Argument::Cross(&cross),
            Argument::Int(job.begin[0]),
            Argument::Int(job.begin[1]),
            Argument::Int(job.begin[2] - before),
            Argument::Int(before),
            Argument::Double(job.factor),
            job.extraordinary,
        ];
        stream.launch(function, grid, [block[1] as u32, threads as u32], &arguments)
    }
}
