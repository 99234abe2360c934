//! What a way to compute on GPUs is: the trait that each implements, and what it is passed.

use std::any::Any;
use std::fmt::{self, Debug};

use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::compile::Code;
use crate::cuda::driver::launch::{
    Address, Argument, Constants, Function, Gpu, ImageView, ResultView, Stream, Thresholds,
};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{Batch, Part, Steps};
use crate::cuda::rooms::{Makes, Own, Places, Room, Sides};
use crate::cuda::types::Types;
use crate::problem::error_model::{self, Figures};

/// A way to compute cross terms or scores on a GPU. It knows no spec but by what its solver made it of.
pub(crate) trait Method: Debug + Send + Sync {
    /// The method's generated kernel; none where a library computes.
    fn entry(&self) -> Option<&'static Entry>;

    /// What it makes of images.
    fn makes(&self) -> Makes {
        Makes::Cross
    }

    /// What its kernel is compiled of, for templates of these sides: by default as kernels for any size are that take
    /// products one after the other. None where a library computes.
    fn source(&self, template: [usize; 3], _around: &Around<'_>) -> Option<Source> {
        self.entry().map(|entry| Source::any_size(entry, template))
    }

    /// What it sums windows up in itself, on devices that are slow in f64 or not.
    fn wide(&self, _slow: bool) -> Wide {
        Wide::Double
    }

    /// How its results are rounded, for templates of these sides: by default as sums of products one after the other.
    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        Rounding::DIRECT
    }

    /// What that rounding depends on, of a template of these sides, but for [`Taps::wave`].
    fn figures(&self, template: [usize; 3], channels: &[Vec<f64>]) -> Figures;

    /// How many products of lines a channel of a template takes, if it is taken so and by no more than `limit`.
    fn rank(&self, _template: [usize; 3], _values: &[f64], _limit: usize) -> Option<usize> {
        None
    }

    /// A template on the device, its weights included unless the kernel weighs.
    ///
    /// # Errors
    /// The device's.
    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault>;

    /// Templates that are computed with together, each as [`Method::bind`] has it.
    ///
    /// # Errors
    /// The device's.
    fn bind_all(&self, desk: &Desk<'_>, all: &[Unbound]) -> Result<Vec<Box<dyn Taps>>, Fault> {
        let one = |of: &Unbound| self.bind(&Desk { straight: of.straight.is_some(), ..*desk }, &of.channels);
        all.iter().map(one).collect()
    }

    /// Bytes that a channel of a bound template takes there, of so many samples.
    fn taps_bytes(&self, samples: usize) -> usize;

    /// The parts of the pipeline that it needs besides those that every method has.
    fn parts(&self) -> &'static [Part] {
        &[]
    }

    /// Whether one grid of a kernel from the image to the result covers such a result; `false` where there is none.
    fn covers(&self, _outputs: [usize; 3]) -> bool {
        false
    }

    /// Whether its kernel takes the mask's weights, ones where there is no mask, and templates without them.
    fn weighs(&self) -> bool {
        false
    }

    /// How the largest tile lies, of these outputs.
    fn sides(&self, outputs: [usize; 3], template: [usize; 3]) -> Sides {
        Sides::padded(self.entry().map_or([1, 1], |entry| entry.tile), outputs, template)
    }

    /// What it alone keeps in a slot.
    fn own(&self) -> Own {
        Own::default()
    }

    /// What it needs on a stream, for so many tiles and channels: [`Run::open`].
    ///
    /// # Errors
    /// The device's.
    fn open(&self, _stream: &Stream, _lanes: usize) -> Result<Box<dyn Any + Send>, Fault> {
        Ok(Box::new(()))
    }

    /// Has what [`Method::open`] made compute in another stream from now on.
    ///
    /// # Errors
    /// The library's.
    fn follow(&self, _stream: &Stream, _open: &(dyn Any + Send)) -> Result<(), Fault> {
        Ok(())
    }

    /// What it makes of the mask's weights for its own sums: [`Run::mask`].
    ///
    /// # Errors
    /// The device's.
    fn mask(&self, _desk: &Desk<'_>, _weights: &[f64]) -> Result<Option<Buffer>, Fault> {
        Ok(None)
    }

    /// Whether it takes images that have a template of their own each, as they lie on a device.
    fn takes_pairs(&self) -> bool {
        false
    }

    /// Puts the kernel from such images to results into a stream's queue. It tells of each whether it serves it.
    ///
    /// # Errors
    /// There is no such kernel, or the device's.
    fn pairs(&self, _desk: &Desk<'_>, _job: &Job<'_>, _own: &OwnTemplates<'_>) -> Result<(), Fault> {
        Err(Fault::new("cross term", "no kernel for pairs"))
    }

    /// Puts into a stream's queue what a batch's samples go through once for all templates.
    ///
    /// # Errors
    /// The device's.
    fn load(&self, _at: &Run<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

/// A template in the form of its method.
pub(crate) trait Taps: Send + Sync {
    /// Puts into a stream's queue what the method makes of a batch.
    ///
    /// # Errors
    /// The device's.
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault>;

    /// Puts the kernel from images to results into a stream's queue. Asked only of a template that was bound with
    /// [`Desk::straight`].
    ///
    /// # Errors
    /// There is no such kernel, or the device's.
    fn straight(&self, _stream: &Stream, _job: &Job<'_>) -> Result<(), Fault> {
        Err(Fault::new("cross term", "no kernel from the image to the result"))
    }

    /// Puts one kernel for all templates that were bound together into a stream's queue, where there is one: results of
    /// a template lie `apart` elements behind those of the one before. Asked of the first of them.
    ///
    /// # Errors
    /// The driver's.
    fn straight_all(&self, _stream: &Stream, _job: &Job<'_>, _apart: usize) -> Option<Result<(), Fault>> {
        None
    }

    /// How its results are rounded, of a method's by [`Method::rounding`], where that depends on the template.
    fn rounding(&self, of_method: Rounding) -> Rounding {
        of_method
    }

    /// The largest magnitude of the template's spectrum where rounding depends on it ([`Figures::wave`]).
    fn wave(&self) -> f64 {
        0.0
    }
}

/// The kernels around a method's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// The options that the pipeline is compiled with.
    pub options: &'a [String],
    /// What the method is to sum windows up in: [`Method::wide`].
    pub wide: Wide,
    /// Whether a kernel from the image to the result is wanted.
    pub straight: bool,
}

/// A kernel's source.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The source's text.
    pub text: String,
    /// The options that it is compiled with.
    pub options: Vec<String>,
}

impl Source {
    /// Of a kernel for any size, with the sides of a template as constants where that pays: in one chunk the loops over
    /// taps are unrolled (2000x2000*7x9 in f32: 22 us instead of 41), in several nothing is gained (40x33: 587 and 588)
    /// or lost (4000000*300: 119 and 85).
    pub fn any_size(entry: &Entry, [depth, height, width]: [usize; 3]) -> Source {
        let options = match entry.chunk {
            Some([rows, columns]) if height <= rows && width <= columns && (depth == 1 || rows > 1) => {
                [("TD", depth), ("TH", height), ("TW", width)]
                    .map(|(name, side)| format!("-DFLCC_{name}={side}"))
                    .into()
            }
            _ => Vec::new(),
        };
        Source { text: entry.source(), options }
    }
}

/// How a method rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounding {
    /// The cross term.
    pub cross: error_model::Rounding,
    /// Numbers below the normal ones are kept, as NVRTC does; else they may be taken for 0.
    pub subnormal: bool,
    /// Panels in doubt follow from figures of each tile, which the pipeline takes.
    pub by_tile: bool,
    /// The roundings of window sums that the method makes by running along them.
    pub running: Option<error_model::Steps>,
}

impl Rounding {
    /// The rounding of direct sums.
    pub const DIRECT: Rounding = Rounding {
        cross: error_model::Rounding::Direct { fused: true },
        subnormal: true,
        by_tile: false,
        running: None,
    };
}

/// A template that is to be bound.
pub(crate) struct Unbound {
    /// Its channels, weights included unless the kernel weighs.
    pub channels: Vec<Vec<f64>>,
    /// What a kernel from the image to the result multiplies its sums with, where one is wanted and serves.
    pub straight: Option<f64>,
}

/// What a template is bound with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// Copies go into its queue.
    pub stream: &'a Stream,
    /// The method's kernel.
    pub kernel: Option<&'a (Code, Function)>,
    /// Sides of the template.
    pub template: [usize; 3],
    /// Channels of the template.
    pub channels: usize,
    /// The types of samples and cross term.
    pub types: Types,
    /// A kernel from the image to the result is wanted.
    pub straight: bool,
}

impl Desk<'_> {
    /// The method's kernel.
    ///
    /// # Errors
    /// It was not compiled.
    pub fn kernel(&self) -> Result<&(Code, Function), Fault> {
        self.kernel.ok_or_else(|| Fault::new("cross term", "its kernel was not compiled"))
    }
}

/// A batch of tiles in a stream's queue.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The queue.
    pub stream: &'a Stream,
    /// The kernels of the pipeline.
    pub steps: &'a Steps,
    /// The tiles.
    pub batch: &'a Batch,
    /// What [`Method::open`] made for the stream.
    pub open: &'a (dyn Any + Send),
    /// The mask's weights, or ones where the kernel weighs.
    pub weights: Option<Address>,
    /// What [`Method::mask`] made.
    pub mask: Option<Address>,
    /// The figures of each tile are known.
    pub by_tile: bool,
}

impl Run<'_> {
    /// The run's gathered samples of a channel as a kernel from images of floats to results sees them; the results are
    /// the cross term.
    pub fn gathered<R>(&self, channel: usize, work: impl FnOnce(&Job<'_>) -> R) -> R {
        let layout = &self.batch.layout;
        let view = ImageView {
            image_stride: layout.in_tile,
            channel_stride: 1,
            stride: [layout.in_plane, layout.in_row, 1],
            lengths: layout.in_shape,
            ..self.batch.image
        };
        let result = ResultView { image_stride: layout.cross_tile, stride: [layout.cross_plane, layout.cross_row, 1] };
        work(&Job {
            samples: self.batch.samples_of(channel),
            view: &view,
            begin: [0; 3],
            out: self.batch.out_of(Room::Cross, channel),
            result: &result,
            outputs: layout.out_shape.map(|side| side as usize),
            count: layout.tiles as usize,
            factor: 1.0,
            extraordinary: Argument::Null,
            tools: Some(Tools { places: &self.batch.places, open: self.open }),
        })
    }
}

/// What a kernel of scores is told of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scoring<'a> {
    /// What is the same for every panel.
    pub constants: &'a Constants,
    /// What thresholds follow from where they are not the same for every tile.
    pub thresholds: Option<&'a Thresholds>,
    /// How results lie.
    pub view: &'a ResultView,
    /// Panels in doubt are listed.
    pub lists: bool,
}

/// Templates on a device, one for each image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTemplates<'a> {
    /// Their samples.
    pub samples: Argument<'a>,
    /// How they lie.
    pub view: &'a ImageView,
    /// The last tap comes first.
    pub flips: bool,
}

/// What a kernel from images to results computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    /// The image's samples.
    pub samples: Argument<'a>,
    /// How they lie.
    pub view: &'a ImageView,
    /// The first that the first output needs.
    pub begin: [i32; 3],
    /// Results.
    pub out: Argument<'a>,
    /// How they lie.
    pub result: &'a ResultView,
    /// Outputs of an image.
    pub outputs: [usize; 3],
    /// Images.
    pub count: usize,
    /// What brings sums to results.
    pub factor: f64,
    /// Told of samples that the kernel does not serve.
    pub extraordinary: Argument<'a>,
    /// What a slot has for it.
    pub tools: Option<Tools<'a>>,
}

/// What a slot has for kernels that go from images to results in several steps.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    /// The slot's buffers.
    pub places: &'a Places,
    /// What [`Method::open`] made for its stream.
    pub open: &'a (dyn Any + Send),
}

impl Debug for Tools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("places", self.places).finish_non_exhaustive()
    }
}
