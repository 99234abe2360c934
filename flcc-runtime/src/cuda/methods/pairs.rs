//! Sums of images that have a template of their own each, by a kernel that takes both as they lie on a device; of one
//! template bound, from the image to the result or of gathered samples, with the same bits.

use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Argument, Function, ImageView, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::own_options;
use crate::cuda::method::{Around, Desk, Job, Method, OwnTemplates, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::pairs::{Pairs, Part};
use crate::problem::error_model::{self, Figures};

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPairs(pub &'static Entry);

/// A template's samples.
struct Bound {
    pairs: Pairs,
    template: [usize; 3],
    room: usize,
    function: Function,
    samples: Buffer,
}

/// How blocks share outputs, with this room of shared memory.
fn part(pairs: Pairs, template: [usize; 3], job: &Job<'_>, room: usize) -> Result<Part, Fault> {
    let part = pairs.part(template, job.outputs, room);
    part.ok_or_else(|| Fault::new("pairs", "a template that leaves no room in shared memory"))
}

impl Method for OwnPairs {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        Some(Source { text: self.0.source(), options: own_options(around.options) })
    }

    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        // Of sums that are shown no panel is in doubt.
        let cross = error_model::Rounding::Pair { len: Pairs::of(self.0).length as f64 };
        Rounding { cross, subnormal: true, by_tile: false, running: None }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let values: Vec<f32> = channels.iter().flatten().map(|&value| value as f32).collect();
        let (_, function) = desk.kernel()?;
        Ok(Box::new(Bound {
            pairs: Pairs::of(self.0),
            template: desk.template,
            room: most_shared(desk.gpu.device.capability),
            function: function.clone(),
            samples: Buffer::of(desk.stream, &values)?,
        }))
    }

    fn taps_bytes(&self, samples: usize) -> usize {
        samples * size_of::<f32>()
    }

    fn covers(&self, [depth, _, _]: [usize; 3]) -> bool {
        depth == 1
    }

    fn takes_pairs(&self) -> bool {
        true
    }

    fn pairs(&self, desk: &Desk<'_>, job: &Job<'_>, own: &OwnTemplates<'_>) -> Result<(), Fault> {
        let pairs = Pairs::of(self.0);
        let part = part(pairs, desk.template, job, most_shared(desk.gpu.device.capability))?;
        let (_, function) = desk.kernel()?;
        pairs.launch(desk.stream, function, &part, job, own)
    }
}

impl Taps for Bound {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        at.gathered(0, |job| self.straight(at.stream, job))
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        let [_, height, width] = self.template;
        let view = ImageView {
            stride: [(height * width) as i64, width as i64, 1],
            lengths: self.template.map(|side| side as i32),
            channels: 1,
            ..ImageView::default()
        };
        let address = self.samples.address(stream);
        let own = OwnTemplates { samples: Argument::Room(address, address.bytes), view: &view, flips: false };
        self.pairs.launch(stream, &self.function, &part(self.pairs, self.template, job, self.room)?, job, &own)
    }
}
