//! The cross term of gathered samples by cuFFT's transforms, and under a mask the window sums too.

use std::any::Any;

use flcc_generated::Entry;

use crate::cuda::driver::buffer::{Buffer, bytes_of_mut};
use crate::cuda::driver::launch::{Address, Argument, Function, MOST_BLOCKS, Stream, WholeView};
use crate::cuda::driver::transforms::{self, Transforms};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{Part, own_options};
use crate::cuda::method::{Around, Desk, Job, Method, Rounding, Run, Scoring, Source, Taps};
use crate::cuda::noise::Lines;
use crate::cuda::rooms::{Makes, Own, Room, Sides};
use crate::cuda::types::Cross;
use crate::problem::error_model::{self, Figures, Library};

/// Threads of a block around transforms.
const THREADS: u32 = 256;

/// The method, by its transforms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cufft {
    /// Their shape.
    pub shape: [usize; 3],
    /// They are in double precision.
    pub double: bool,
    /// Templates are under a mask.
    pub masked: bool,
    /// Window sums under it are needed.
    pub sums: bool,
    /// Whole images go from their samples to the result.
    pub whole: Option<Whole>,
}

/// How whole images do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    /// What stands around their transforms.
    pub entry: &'static Entry,
    /// What lies outside of an image is one value, so a correlation may wrap round over it.
    pub wraps: bool,
}

/// The transforms of a slot.
struct Opened {
    /// Transforms of a batch's tiles.
    batch: Transforms,
    /// Transforms of one image, where a batch has more tiles.
    one: Option<Transforms>,
    /// The noise of tiles (`cuda/noise.rs`), where transforms are in single precision.
    noise: Option<Buffer>,
}

impl Opened {
    /// The table of the noise that a run's tiles have, where panels may be in doubt: errors of transforms in `f64` are
    /// far below all that counts.
    fn noise(&self, at: &Run<'_>) -> Option<Address> {
        self.noise.as_ref().filter(|_| at.by_tile && at.mask.is_none()).map(|table| table.address(at.stream))
    }
}

/// A template's spectra, channel by channel.
struct Spectrum {
    method: Cufft,
    spectrum: Buffer,
    /// Their largest magnitude, or no less than it.
    wave: f64,
    template: [usize; 3],
    /// What stands around transforms of whole images: before, between and after them.
    around: Option<[Function; 3]>,
}

impl Cufft {
    /// The type of its cross term.
    fn cross(&self) -> Cross {
        if self.double { Cross::F64 } else { Cross::F32 }
    }

    /// Whether it has a table of noise: that of f64 would be for errors far below what is promised, and whole images
    /// are sums.
    fn noisy(&self) -> bool {
        !self.double && self.whole.is_none()
    }

    /// The spectrum of values laid at the origin and turned, so that a product with it correlates: computed in f64, and
    /// rounded once where transforms are in f32. Equal values that were rounded before or on the way would be wrong
    /// alike, which equal samples add up. With it comes what a wave of amplitude 1 comes to at most.
    fn spectrum(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<(Buffer, f64), Fault> {
        let [depth, height, width] = self.shape;
        let [kd, kh, kw] = desk.template;
        let stream = desk.stream;
        if kd > depth || kh > height || kw > width {
            let sides = format!("{kd}x{kh}x{kw} taps in a transform of {depth}x{height}x{width}");
            return Err(Fault::new("template", sides));
        }
        let len = depth * height * width;
        let mut padded = vec![0.0f64; len * channels.len()];
        for (channel, values) in channels.iter().enumerate() {
            for (k, &value) in values.iter().enumerate() {
                let [z, y, x] = [k / (kh * kw), k / kw % kh, k % kw];
                let at = [(depth - z) % depth, (height - y) % height, (width - x) % width];
                padded[channel * len + (at[0] * height + at[1]) * width + at[2]] = value / len as f64;
            }
        }
        let transforms = Transforms::new(stream, self.shape, channels.len(), true)?;
        let samples = Buffer::of(stream, &padded)?;
        let mut values = vec![0.0f64; transforms::spectrum(self.shape) * channels.len() * 2];
        let spectrum = Buffer::new(stream, size_of_val(&values[..]))?;
        transforms.there(samples.address(stream), spectrum.address(stream))?;
        stream.wait()?;
        if self.double {
            // Nowhere is a spectrum larger than the sum of all magnitudes, which in f64 puts hardly a panel in doubt.
            return Ok((spectrum, channels.iter().flatten().map(|value| value.abs()).sum()));
        }
        spectrum.download(stream, 0, bytes_of_mut(&mut values))?;
        stream.wait()?;
        let largest = |spectrum: &[f64]| {
            let squares = spectrum.chunks_exact(2).map(|part| part[0] * part[0] + part[1] * part[1]);
            squares.fold(0.0, f64::max).sqrt() * len as f64
        };
        let wave = values.chunks(2 * transforms::spectrum(self.shape)).map(largest).sum();
        let rounded: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Ok((Buffer::of(stream, &rounded)?, wave))
    }
}

/// The transforms of a slot.
fn opened(open: &(dyn Any + Send)) -> Result<&Opened, Fault> {
    open.downcast_ref().ok_or_else(|| Fault::new("transform", "a slot that was opened for another method"))
}

/// The grid of a kernel whose blocks have so many rows and columns.
fn grid(entry: &Entry, sides: [usize; 3]) -> [u32; 3] {
    [sides[2].div_ceil(entry.tile[1]), sides[1].div_ceil(entry.tile[0]), sides[0]].map(|count| count as u32)
}

/// What lies so many bytes further in a room.
fn further(room: Argument<'_>, bytes: usize) -> Argument<'_> {
    match room {
        Argument::Room(at, reach) => Argument::Room(at.skip(bytes), reach.saturating_sub(bytes)),
        other => other,
    }
}

impl Method for Cufft {
    fn entry(&self) -> Option<&'static Entry> {
        self.whole.map(|whole| whole.entry)
    }

    fn makes(&self) -> Makes {
        if self.sums { Makes::CrossAndSums } else { Makes::Cross }
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        self.whole.map(|whole| Source { text: whole.entry.source(), options: own_options(around.options) })
    }

    fn rounding(&self, _template: [usize; 3]) -> Rounding {
        let len = self.shape.iter().product::<usize>() as f64;
        Rounding {
            cross: error_model::Rounding::Fourier { len, by: Library::CUFFT },
            subnormal: false,
            by_tile: true,
            running: None,
        }
    }

    fn figures(&self, _template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        Figures::of(channels.iter())
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let (spectrum, wave) = self.spectrum(desk, channels)?;
        let around = match self.whole {
            None => None,
            Some(_) => {
                let (code, last) = desk.kernel()?;
                let module = desk.gpu.module(&code.cubin, Some(code.key))?;
                Some([module.function("flcc_pad")?, module.function("flcc_times")?, last.clone()])
            }
        };
        Ok(Box::new(Spectrum { method: *self, spectrum, wave, template: desk.template, around }))
    }

    fn taps_bytes(&self, _samples: usize) -> usize {
        transforms::spectrum(self.shape) * 2 * self.cross().size()
    }

    fn covers(&self, outputs: [usize; 3]) -> bool {
        self.whole.is_some_and(|whole| {
            [self.shape, outputs]
                .iter()
                .all(|&sides| grid(whole.entry, sides)[1..].iter().all(|&n| n as usize <= MOST_BLOCKS))
        })
    }

    fn parts(&self) -> &'static [Part] {
        &[Part::Fourier]
    }

    /// Transforms write their results over the whole tile; sums that come by transform lie as they do.
    fn sides(&self, outputs: [usize; 3], _template: [usize; 3]) -> Sides {
        let sums = if self.masked { self.shape } else { Sides::dense(outputs) };
        Sides { samples: self.shape, cross: self.shape, sums }
    }

    fn own(&self) -> Own {
        Own {
            squares: if self.sums { self.shape.iter().product::<usize>() * size_of::<f64>() } else { 0 },
            spectrum: transforms::spectrum(self.shape) * 2 * self.cross().size(),
            lows: 0,
            numbers: [0; 2],
            work: transforms::work_bytes(self.shape, 1, self.double)
                + if self.noisy() { Lines::table_bytes(self.shape) } else { 0 },
        }
    }

    fn open(&self, stream: &Stream, lanes: usize) -> Result<Box<dyn Any + Send>, Fault> {
        let of = |count| Transforms::new(stream, self.shape, count, self.double);
        let one = if self.whole.is_some() && lanes > 1 { Some(of(1)?) } else { None };
        let noise = if self.noisy() { Some(Buffer::of(stream, &Lines::new(self.shape).table())?) } else { None };
        Ok(Box::new(Opened { batch: of(lanes)?, one, noise }))
    }

    fn follow(&self, stream: &Stream, open: &(dyn Any + Send)) -> Result<(), Fault> {
        let opened = opened(open)?;
        opened.one.iter().chain([&opened.batch]).try_for_each(|transforms| transforms.follow(stream))
    }

    fn mask(&self, desk: &Desk<'_>, weights: &[f64]) -> Result<Option<Buffer>, Fault> {
        if !self.sums {
            return Ok(None);
        }
        let (spectrum, _) = self.spectrum(desk, &vec![weights.to_vec(); desk.channels])?;
        Ok(Some(spectrum))
    }

    fn load(&self, at: &Run<'_>) -> Result<(), Fault> {
        let opened = opened(at.open)?;
        let (transforms, places) = (&opened.batch, &at.batch.places);
        let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
        let Some(mask) = at.mask else {
            let Some(table) = opened.noise(at) else { return transforms.there(places[Room::Samples], spectra) };
            at.steps.noise(at.stream, at.batch, table)?;
            return transforms.there(places[Room::Cross], spectra);
        };
        at.steps.square(at.stream, at.batch)?;
        for (from, to) in [(Room::Squares, Room::Square), (Room::Samples, Room::Sum)] {
            transforms.there(places[from], spectra)?;
            let count = transforms::spectrum(self.shape);
            at.steps.multiply(at.stream, at.batch, count, [spectra, mask, product], None)?;
            transforms.back(product, places[to])?;
        }
        Ok(())
    }
}

impl Taps for Spectrum {
    fn run(&self, at: &Run<'_>, _of: &Scoring<'_>) -> Result<(), Fault> {
        let places = &at.batch.places;
        let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
        let (count, template) = (transforms::spectrum(self.method.shape), self.spectrum.address(at.stream));
        let opened = opened(at.open)?;
        at.steps.multiply(at.stream, at.batch, count, [spectra, template, product], opened.noise(at))?;
        opened.batch.back(product, places[Room::Cross])
    }

    fn straight(&self, stream: &Stream, job: &Job<'_>) -> Result<(), Fault> {
        let missing = || Fault::new("transform", "no kernels from the image to the result");
        let (Some(whole), Some([pad, times, last]), Some(tools)) = (self.method.whole, &self.around, job.tools) else {
            return Err(missing());
        };
        let (shape, narrow) = (self.method.shape, |sides: [usize; 3]| sides.map(|side| side as i32));
        let opened = opened(tools.open)?;
        let transforms = opened.one.as_ref().unwrap_or(&opened.batch);
        let begin = if whole.wraps { job.begin.map(|at| at.max(0)) } else { job.begin };
        let reach = [0, 1, 2].map(|axis| job.outputs[axis] as i32 + self.template[axis] as i32 - 1);
        let needed = if whole.wraps { narrow(shape) } else { reach };
        let view = WholeView { side: narrow(shape), begin, needed, origin: job.begin, out: narrow(job.outputs) };
        let (samples, count) = (shape.iter().product::<usize>(), transforms::spectrum(shape));
        let room = |room, bytes| Argument::Room(tools.places[room], bytes);
        let number = 2 * size_of::<f32>();
        for image in 0..job.count {
            let from = further(job.samples, image * job.view.image_stride as usize * size_of::<f32>());
            let to = further(job.out, image * job.result.image_stride as usize * size_of::<f32>());
            let padded = room(Room::Samples, samples * size_of::<f32>());
            let arguments = [from, Argument::Image(job.view), padded, Argument::Whole(&view), job.extraordinary];
            stream.launch(pad, grid(whole.entry, shape), [THREADS, 1], &arguments)?;
            transforms.there(tools.places[Room::Samples], tools.places[Room::Spectra])?;
            let arguments = [
                room(Room::Spectra, count * number),
                Argument::Room(self.spectrum.address(stream), count * number),
                room(Room::Product, count * number),
                Argument::Long(count as i64),
            ];
            stream.launch(times, [count.div_ceil(THREADS as usize) as u32, 1, 1], [THREADS, 1], &arguments)?;
            transforms.back(tools.places[Room::Product], tools.places[Room::Cross])?;
            let arguments = [
                room(Room::Cross, samples * size_of::<f32>()),
                Argument::Whole(&view),
                to,
                Argument::Result(job.result),
                Argument::Double(job.factor),
                job.extraordinary,
            ];
            stream.launch(last, grid(whole.entry, job.outputs), [THREADS, 1], &arguments)?;
        }
        Ok(())
    }

    fn wave(&self) -> f64 {
        self.wave
    }
}
