//! Sums of products of lines by one kernel, from the image to the result or of gathered samples.

use flcc_core::dtype::DType;
use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Argument, Function, MOST_BLOCKS, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::rooms::Sides;
use crate::cuda::separable::Shape;
use crate::problem::error_model::Figures;
use crate::problem::factor;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Separable(pub &'static Entry);

/// A template's products of lines, channel by channel.
struct Products {
    entry: &'static Entry,
    shape: Shape,
    template: [usize; 3],
    function: Function,
    lines: Buffer,
    /// Products of each channel.
    terms: Vec<usize>,
}

impl Method for Separable {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        Some(Source { text: self.0.source(), options: own_options(around.options) })
    }

    fn rounding(&self, template: [usize; 3]) -> Rounding {
        Rounding { cross: Shape::of(self.0, template).rounding(1), ..Rounding::DIRECT }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn rank(&self, template: [usize; 3], values: &[f64], limit: usize) -> Option<usize> {
        let double = self.0.dtype == DType::F64.name();
        factor::in_type(values, template, double, Some(limit)).ok().map(|factors| factors.terms.len())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (shape, (_, function)) = (Shape::of(self.0, desk.template), desk.kernel()?);
        let of_channel = |values: &Vec<f64>| shape.products(values);
        let products = channels.iter().map(of_channel).collect::<Result<Vec<_>, _>>();
        let products = products.map_err(|error| Fault::new(self.0.name, error.to_string()))?;
        let terms = products.iter().map(|lines| lines.len() / shape.product()).collect();
        let lines = products.concat();
        let lines = match desk.types.real {
            DType::F64 => Buffer::of(desk.stream, &lines)?,
            _ => Buffer::of(desk.stream, &lines.iter().map(|&tap| tap as f32).collect::<Vec<_>>())?,
        };
        Ok(Box::new(Products {
            entry: self.0,
            shape,
            template: desk.template,
            function: function.clone().with_shared(shape.shared())?,
            lines,
            terms,
        }))
    }

    /// No less than as many products take as the template has rows, or columns where those are fewer.
    fn taps_bytes(&self, samples: usize) -> usize {
        (2 * samples + 6 * samples.isqrt() + 8) * size_of::<f64>()
    }

    /// Blocks look where their samples lie themselves.
    fn sides(&self, outputs: [usize; 3], template: [usize; 3]) -> Sides {
        Sides::padded([1, 1], outputs, template)
    }

    fn covers(&self, outputs: [usize; 3]) -> bool {
        let [rows, _] = Shape::of(self.0, [1; 3]).blocks(outputs);
        outputs[0] == 1 && rows <= MOST_BLOCKS
    }
}

impl Products {
    /// Puts the kernel into a stream's queue, with the products of a channel.
    fn launch(&self, stream: &Stream, job: &Job<'_>, channel: usize) -> Result<(), Fault> {
        if job.count > MOST_BLOCKS {
            let reason = format!("{} images are more than {MOST_BLOCKS}", job.count);
            return Err(Fault::new(self.entry.name, reason));
        }
        let bytes = |terms: usize| terms * self.shape.product() * self.shape.size();
        let lines = self.lines.address(stream).skip(bytes(self.terms[..channel].iter().sum()));
        let number = |value: usize| Argument::Int(value as i32);
        let arguments = [
            job.samples,
            Argument::Image(job.view),
            job.out,
            Argument::Result(job.result),
            number(job.outputs[1]),
            number(job.outputs[2]),
            Argument::Int(job.begin[1]),
            Argument::Int(job.begin[2]),
            number(self.template[1]),
            number(self.template[2]),
            Argument::Room(lines, bytes(self.terms[channel])),
            number(self.terms[channel]),
            Argument::Double(job.factor),
            job.extraordinary,
        ];
        let ([rows, columns], [height, width]) = (self.shape.blocks(job.outputs), self.entry.block);
        let grid = [columns, rows, job.count].map(|blocks| blocks as u32);
        stream.launch(&self.function, grid, [width as u32, height as u32], &arguments)
    }
}

impl Taps for Products {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        (0..self.terms.len()).try_for_each(|channel| at.gathered(channel, |job| self.launch(at.stream, job, channel)))
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        self.launch(stream, job, 0)
    }

    fn rounding(&self, of_method: Rounding) -> Rounding {
        Rounding { cross: self.shape.rounding(self.terms.iter().sum()), ..of_method }
    }
}
