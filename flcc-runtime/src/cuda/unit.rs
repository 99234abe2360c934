//! One GPU with all that a spec needs there: the tile pipeline of the CPU, a batch of tiles at a time.
//!
//! Images come in groups, and are computed in batches of tiles. A group goes into the queue of a slot, which has a
//! stream and buffers of its own, and its results are taken out of the slot later. What a tile computes depends on the
//! tile alone, so neither batches nor groups change a bit.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::runs::{self, Run, Steps as Chunks, Together};
use flcc_core::spec::Spec;
use flcc_core::view::{AnyView, AnyViewMut};
use flcc_generated::Entry;

use crate::cuda::cufft::{self, Transforms};
use crate::cuda::driver::buffer::{Buffer, Pinned, bytes_of, bytes_of_mut};
use crate::cuda::driver::compile::{self, Code};
use crate::cuda::driver::launch::{
    Address, Argument, Constants, CrossLayout, Function, Gpu, ImageView, Layout, MOST_BLOCKS, MOST_CHANNELS, Module,
    ResultView, Stream, Thresholds, Tile,
};
use crate::cuda::driver::libraries;
use crate::cuda::driver::staging::Staging;
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{self, Batch, Finishing, Gathering, Part, Repair, Steps, options};
use crate::cuda::rooms::{Capacity, Makes, Own, Places, Room, Rooms};
use crate::cuda::tile::{Job, Shape};
use crate::cuda::types::{Cross, Types};
use crate::problem::error_model::{Doubt, Figures, Library, Model, Rounding, of_running_sums};
use crate::problem::scheme::Scheme;
use crate::problem::template::rounded;
use crate::problem::template::weighted;
use crate::problem::template::{Checked, Weights};
use crate::run::device_image::{DeviceImage, DeviceResults};
use crate::run::execute::{Copies, Statistics};
use crate::run::tiling::Tiling;

/// How the cross term is computed.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    /// By a kernel made for the template's size, which lies in its constant memory.
    Listed(&'static Entry),
    /// By one for the template's size that makes scores too.
    Fused(&'static Entry),
    /// By a kernel for every size.
    Any(&'static Entry),
    /// By one that makes the sums under a mask too.
    Masked(&'static Entry),
    /// By one of absolute differences.
    Differences(&'static Entry),
    /// By transforms of this shape.
    Fourier([usize; 3]),
    /// By a kernel that transforms tiles.
    Tile(&'static Entry),
    /// By one that transforms tiles and makes scores too.
    Scores(&'static Entry),
}

impl Engine {
    /// Its generated kernel, if it has one.
    pub(crate) fn entry(self) -> Option<&'static Entry> {
        match self {
            Engine::Listed(entry)
            | Engine::Fused(entry)
            | Engine::Any(entry)
            | Engine::Masked(entry)
            | Engine::Differences(entry)
            | Engine::Tile(entry)
            | Engine::Scores(entry) => Some(entry),
            Engine::Fourier(_) => None,
        }
    }

    /// The runs in which its kernel adds up products, and the places of taps in that order.
    fn runs(self, template: [usize; 3]) -> (Vec<Run>, Vec<usize>) {
        let Some(entry) = self.entry() else { return (Vec::new(), Vec::new()) };
        let Entry { run, rows, planes, chunk, tile, block, .. } = *entry;
        match chunk {
            Some(chunk) => {
                let chunks = Chunks { chunk, step: tile[1] / block[1], run };
                (chunks.runs(template), chunks.order(template).collect())
            }
            None => (Together { run, rows, planes }.runs(template), (0..template.iter().product()).collect()),
        }
    }

    /// What the rounding of a cross term with these channels of a template depends on.
    fn figures(self, template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        let mut figures = Figures::of(channels.iter());
        if matches!(self, Engine::Fourier(_) | Engine::Tile(_) | Engine::Scores(_)) {
            return figures;
        }
        let (runs, order) = self.runs(template);
        let roundings = runs::roundings(&runs);
        let (mut varying, mut constant) = (0.0, 0.0);
        for values in channels {
            let taps: Vec<f64> = order.iter().filter_map(|&at| values.get(at).copied()).collect();
            varying +=
                taps.iter().zip(&roundings).map(|(tap, &roundings)| (tap * f64::from(roundings)).powi(2)).sum::<f64>();
            constant += runs::partial_sums(runs.iter().copied(), &taps).powi(2) / taps.len() as f64;
        }
        (figures.varying, figures.constant) = (varying.sqrt(), constant.sqrt());
        figures
    }

    /// The options that its kernel is compiled with. `pipeline` are those of the kernels around it.
    pub(crate) fn options(self, template: [usize; 3], pipeline: &[String]) -> Vec<String> {
        match (self, self.entry()) {
            (Engine::Fused(_), Some(_)) => {
                // What the source does not depend on is left out, so that one compilation serves more plans.
                let foreign = |option: &String| {
                    ["CROSS", "MEASURE", "ROUNDS"].iter().any(|name| option.starts_with(&format!("-DFLCC_{name}=")))
                };
                let own = std::iter::once("-DFLCC_FUSED".to_string());
                own.chain(pipeline.iter().filter(|option| !foreign(option)).cloned()).collect()
            }
            (Engine::Tile(_) | Engine::Scores(_), _) => straight_options(pipeline),
            (_, Some(entry)) => constant_sides(entry, template),
            _ => Vec::new(),
        }
    }
}

/// Whether the source of a cross term brings a kernel from the image to the result for a spec: sums of floats
/// that are shown as they are, over all of a mode. Regions of it are left to the pipeline, whose tiles scale samples of
/// extraordinary magnitude, so that a region is the slice of the whole bit for bit.
pub(crate) fn goes_straight(spec: &Spec, engine: Engine, scheme: &Scheme, types: Types) -> bool {
    let floats = types.pixel == types.real && types.real == types.out && types.real.row().max.is_none();
    let plain = scheme.measure == Measure::Cc && !scheme.masked && spec.channels() == 1;
    // One grid covers an image.
    let [depth, height, _] = spec.out_shape().padded();
    let covered = match engine {
        Engine::Listed(entry) => depth <= MOST_BLOCKS && height.div_ceil(entry.tile[0]) <= MOST_BLOCKS,
        Engine::Tile(_) => depth == 1,
        _ => return false,
    };
    floats && plain && covered && spec.region() == spec.mode_region()
}

/// The options of that kernel, of those of the pipeline.
fn straight_options(pipeline: &[String]) -> Vec<String> {
    let own = |option: &&String| {
        ["PIXEL", "REAL", "OUT", "BOUNDARY"].iter().any(|name| option.starts_with(&format!("-DFLCC_{name}=")))
    };
    pipeline.iter().filter(own).cloned().collect()
}

/// The options that make the sides of a template constants in a kernel for any size, where that pays: in one chunk the
/// loops over taps are unrolled (2000x2000*7x9 in f32: 22 us instead of 41), in several nothing is gained (40x33: 587
/// and 588) or lost (4000000*300: 119 and 85).
fn constant_sides(entry: &Entry, [depth, height, width]: [usize; 3]) -> Vec<String> {
    match entry.chunk {
        Some([rows, columns]) if height <= rows && width <= columns && (depth == 1 || rows > 1) => {
            [("TD", depth), ("TH", height), ("TW", width)].map(|(name, side)| format!("-DFLCC_{name}={side}")).into()
        }
        _ => Vec::new(),
    }
}

/// What was decided before a device was opened.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The cross term.
    pub engine: Engine,
    /// Outputs of a whole tile an axis.
    pub tile: [usize; 3],
    /// The type of samples and cross term.
    pub types: Types,
    /// The formula and its numbers.
    pub scheme: Scheme,
    /// Sides of the template.
    pub template: [usize; 3],
    /// The device.
    pub device: crate::plan::machine::Device,
    /// Bytes that the buffers may take.
    pub memory: usize,
}

impl Decisions {
    /// What a cross term with a template of so many taps and this energy leaves in doubt, by its rounding and by what
    /// is too small for its type.
    fn doubt(&self, figures: &Figures, taps: usize, energy: f64, weights: Option<&[f64]>) -> Doubt {
        let single = self.types.real == DType::F32;
        let (roundoff, normal, least) = match single {
            true => (f64::from(f32::EPSILON) / 2.0, f64::from(f32::MIN_POSITIVE), f64::from(f32::from_bits(1))),
            false => (f64::EPSILON / 2.0, f64::MIN_POSITIVE, f64::from_bits(1)),
        };
        // NVRTC keeps what is below the normal numbers; cuFFT may take it for 0.
        let (rounding, smallest) = match self.engine {
            Engine::Fourier(shape) => {
                (Rounding::Fourier { len: shape.iter().product::<usize>() as f64, by: Library::CUFFT }, normal)
            }
            Engine::Tile(entry) | Engine::Scores(entry) => {
                (Rounding::Pair { len: entry.tile.iter().product::<usize>() as f64 }, least)
            }
            _ => (Rounding::Direct { fused: true }, least),
        };
        let Scheme { measure, promise, .. } = self.scheme;
        let samples = self.scheme.samples(energy);
        let model = Model { measure, promise, roundoff, taps: taps as f64, samples, rounding, weights };
        // A kernel that makes scores takes roots in the type of its samples.
        let scores = matches!(self.engine, Engine::Fused(_) | Engine::Scores(_));
        let floor = model.floor(figures, smallest, single && scores);
        let doubt = model.doubt(figures).above(floor);
        match (self.engine, promise) {
            (Engine::Scores(entry), Some(promise)) => {
                let steps = Shape::of(entry).steps(self.template);
                Doubt { of_energy: doubt.of_energy + of_running_sums(&promise, &steps), ..doubt }
            }
            _ => doubt,
        }
    }
}

/// A method on one GPU, for one spec.
pub struct Unit {
    spec: Spec,
    decisions: Decisions,
    gpu: Arc<Gpu>,
    steps: Steps,
    codes: Vec<(Part, Code)>,
    cross: Option<(Code, Function)>,
    /// Whether the cross term's source brings a kernel from the image to the result.
    straight: bool,
    capacity: Capacity,
    /// Tiles of one image.
    tiles: Vec<Tile>,
}

/// The largest factor that a kernel from image to result multiplies sums with: far from what `f32` lacks.
const MOST_FACTOR: f64 = 1e30;
/// The parts of the pipeline that a method and a formula need.
pub(crate) fn parts(engine: Engine, scheme: &Scheme) -> Vec<Part> {
    let row = scheme.measure.row();
    let fourier = matches!(engine, Engine::Fourier(_));
    let fused = matches!(engine, Engine::Fused(_) | Engine::Scores(_));
    let mut parts = Vec::new();
    let chosen = [
        (!fused, Part::Gather),
        (!fused, Part::Finish),
        (row.needs.square && !scheme.masked && !fused, Part::Sums),
        (fourier, Part::Fourier),
        (row.normalised && scheme.integers.is_none(), Part::Repair),
    ];
    parts.extend(chosen.into_iter().filter_map(|(wanted, part)| wanted.then_some(part)));
    parts
}

impl Unit {
    /// Opens the device and makes everything that depends on the spec alone.
    ///
    /// # Errors
    /// The device's, NVRTC's, or too little memory; the second with the bytes that are needed.
    pub fn new(spec: &Spec, decisions: Decisions) -> Result<Unit, Fault> {
        let target = decisions.device.target();
        let entry = decisions.engine.entry();
        if entry.is_none() {
            libraries::present()?;
        }
        let parts = parts(decisions.engine, &decisions.scheme);
        let pipeline = options(spec, &decisions.scheme, decisions.types);
        let straight = goes_straight(spec, decisions.engine, &decisions.scheme, decisions.types);
        // NVRTC compiles in several threads at once, while this one opens the device.
        let (gpu, codes, cross) = std::thread::scope(|scope| {
            let (pipeline, target) = (&pipeline, &target);
            let cross = entry.map(|entry| {
                scope.spawn(move || {
                    if straight && matches!(decisions.engine, Engine::Listed(_)) {
                        let source = entry.source() + flcc_generated::STRAIGHT;
                        return compile::compile(entry.name, &source, &straight_options(pipeline), target);
                    }
                    let own = decisions.engine.options(spec.template().padded(), pipeline);
                    compile::compile(entry.name, &entry.source(), &own, target)
                })
            });
            let codes: Vec<_> =
                parts.iter().map(|&part| scope.spawn(move || kernels::compile(part, pipeline, target))).collect();
            let gpu = Gpu::open(decisions.device.index);
            let ended = |_| Err(Fault::new("NVRTC", "its thread ended"));
            let codes =
                codes.into_iter().zip(&parts).map(|(thread, &part)| Ok((part, thread.join().unwrap_or_else(ended)?)));
            let codes: Result<Vec<(Part, Code)>, Fault> = codes.collect();
            let cross = cross.map(|thread| thread.join().unwrap_or_else(ended)).transpose();
            (gpu, codes, cross)
        });
        let (gpu, codes) = (gpu?, codes?);
        let steps = Steps::new(&gpu, &codes, decisions.types.real)?;
        let cross = match (cross?, entry) {
            (Some(code), Some(entry)) => {
                let function = gpu.module(&code.cubin, Some(code.key))?.function(entry.function)?;
                Some((code, if entry.shared > 0 { function.with_shared(entry.shared)? } else { function }))
            }
            _ => None,
        };
        let tiling = Tiling::new(spec.frame(), decisions.tile);
        let tiles: Vec<Tile> = (0..tiling.count()).map(|index| describe(&tiling, index)).collect();
        let capacity = capacity(spec, &decisions, &tiling);
        let mut unit = Unit { spec: spec.clone(), decisions, gpu, steps, codes, cross, straight, capacity, tiles };
        let templates = unit.template_bytes().saturating_mul(spec.templates());
        unit.capacity = capacity.fit(spec.images(), unit.decisions.memory.saturating_sub(templates));
        Ok(unit)
    }

    fn channels(&self) -> usize {
        self.spec.channels()
    }

    fn measure(&self) -> Measure {
        self.decisions.scheme.measure
    }

    /// Whether panels may be in doubt.
    fn doubts(&self) -> bool {
        self.capacity.doubts
    }

    /// Whether a transform makes the window sums.
    fn transformed_sums(&self) -> bool {
        matches!(self.decisions.engine, Engine::Fourier(_)) && self.capacity.makes == Makes::CrossAndSums
    }

    /// Whether one kernel makes scores of the image.
    fn fused(&self) -> bool {
        self.capacity.makes == Makes::Scores
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.capacity.bytes()
    }

    /// A slot.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn slot(&self) -> Result<Slot, Fault> {
        let stream = self.gpu.stream()?;
        let transforms = match self.decisions.engine {
            Engine::Fourier(shape) => {
                let double = self.decisions.types.cross == Cross::F64;
                Some(Transforms::new(&stream, shape, self.capacity.lanes(), double)?)
            }
            _ => None,
        };
        let mut rooms = Rooms::new(&stream, &self.capacity)?;
        let repeated: Vec<Tile> = (0..self.capacity.group)
            .flat_map(|image| self.tiles.iter().map(move |tile| Tile { image: image as i32, ..*tile }))
            .collect();
        rooms[Room::Tiles].upload(&stream, 0, bytes_of(&repeated))?;
        stream.wait()?;
        let counts = if self.doubts() { Room::Counts.bytes(&self.capacity) / size_of::<u32>() } else { 0 };
        Ok(Slot {
            rooms,
            told: Pinned::new(&self.gpu, 1 + counts)?,
            target: None,
            straight: None,
            transforms,
            staging: Staging::default(),
            stream,
        })
    }

    /// The spectrum of values laid at the origin and turned, so that a product with it correlates: computed in f64, and
    /// rounded once where transforms are in f32. Equal values that were rounded before or on the way would be wrong
    /// alike, which equal samples add up.
    fn template_spectrum(&self, stream: &Stream, shape: [usize; 3], channels: &[Vec<f64>]) -> Result<Buffer, Fault> {
        let [depth, height, width] = shape;
        let [kd, kh, kw] = self.spec.template().padded();
        let len = depth * height * width;
        let mut padded = vec![0.0f64; len * channels.len()];
        for (channel, values) in channels.iter().enumerate() {
            for (k, &value) in values.iter().enumerate() {
                let [z, y, x] = [k / (kh * kw), k / kw % kh, k % kw];
                debug_assert!(z < kd);
                let at = [(depth - z) % depth, (height - y) % height, (width - x) % width];
                padded[channel * len + (at[0] * height + at[1]) * width + at[2]] = value / len as f64;
            }
        }
        let transforms = Transforms::new(stream, shape, channels.len(), true)?;
        let samples = Buffer::of(stream, &padded)?;
        let mut values = vec![0.0f64; cufft::spectrum(shape) * channels.len() * 2];
        let spectrum = Buffer::new(stream, size_of_val(&values[..]))?;
        transforms.there(samples.address(stream), spectrum.address(stream))?;
        stream.wait()?;
        if self.decisions.types.cross == Cross::F64 {
            return Ok(spectrum);
        }
        spectrum.download(stream, 0, bytes_of_mut(&mut values))?;
        stream.wait()?;
        Buffer::of(stream, &values.iter().map(|&value| value as f32).collect::<Vec<f32>>())
    }

    fn bind_one(&self, stream: &Stream, checked: &Checked, weights: &Weights) -> Result<BoundTemplate, Fault> {
        let scheme = &self.decisions.scheme;
        let source = if scheme.integers.is_some() { &checked.raw } else { &checked.values };
        let differences = matches!(self.decisions.engine, Engine::Differences(_));
        let channels: Vec<Vec<f64>> = source
            .iter()
            .map(|channel| if differences { channel.clone() } else { weighted(channel, weights).into_owned() })
            .collect();
        let (mut straight, mut wave) = (None, 0.0);
        let taps = match self.decisions.engine {
            Engine::Listed(entry) | Engine::Fused(entry) => {
                let mut functions = Vec::new();
                for values in &channels {
                    let (module, function) = self.listed(stream, entry, values)?;
                    // What a kernel multiplies sums with is a power of two that both types hold.
                    let factor = 1.0 / checked.scale;
                    if self.serves_straight(checked, factor) {
                        straight = Some((module.function("flcc_straight")?, factor));
                    }
                    functions.push(function);
                }
                Taps::Constant(functions)
            }
            Engine::Tile(entry) => {
                let template = self.spec.template().padded();
                let spectra: Vec<_> =
                    channels.iter().flat_map(|values| Shape::of(entry).spectrum(template, values)).collect();
                let factor = 1.0 / checked.scale;
                if let (true, Some((_, function))) = (self.serves_straight(checked, factor), &self.cross) {
                    straight = Some((function.clone(), factor));
                }
                Taps::Spectrum(Buffer::of(stream, &spectra)?)
            }
            Engine::Scores(entry) => {
                let template = self.spec.template().padded();
                let spectra: Vec<_> =
                    channels.iter().flat_map(|values| Shape::of(entry).spectrum(template, values)).collect();
                wave = Shape::of(entry).wave(&spectra);
                Taps::Spectrum(Buffer::of(stream, &spectra)?)
            }
            Engine::Any(_) | Engine::Masked(_) | Engine::Differences(_) => {
                let taps: Vec<u8> =
                    channels.iter().flat_map(|values| as_real(self.decisions.types.real, values)).collect();
                Taps::Global(Buffer::of(stream, &taps)?)
            }
            Engine::Fourier(shape) => Taps::Spectrum(self.template_spectrum(stream, shape, &channels)?),
        };
        let figures = Figures { wave, ..self.decisions.engine.figures(self.spec.template().padded(), &channels) };
        let count = self.spec.template().len() * self.channels();
        let doubt = self.decisions.doubt(&figures, count, checked.energy, weights.values.as_deref());
        let constant = doubt.at(0.0, 0.0);
        let wide = |value: i128| [value as i64, (value >> 64) as i64];
        let mut exact_sum = [[0; 2]; MOST_CHANNELS];
        checked.exact_sums.iter().zip(&mut exact_sum).for_each(|(&sum, to)| *to = wide(sum));
        let constants = Constants {
            n: weights.n,
            energy: checked.energy,
            doubt: [constant.0, constant.1],
            template_scale: checked.scale,
            exact_sum,
            exact_energy: wide(checked.exact_energy),
            nonfinite: i32::from(checked.nonfinite),
            masked: i32::from(scheme.masked),
        };
        let raw = if self.doubts() && self.measure() == Measure::Nssd {
            Some(Buffer::of(stream, &checked.raw.concat())?)
        } else {
            None
        };
        let thresholds = (!doubt.is_constant()).then(|| Thresholds::new(doubt, figures.largest));
        let values = Buffer::of(stream, &checked.values.concat())?;
        Ok(BoundTemplate { taps, constants, thresholds, values, raw, straight })
    }

    /// Whether a kernel from the image to the result serves a template, whose sums this factor brings to results.
    fn serves_straight(&self, checked: &Checked, factor: f64) -> bool {
        self.straight && !checked.nonfinite && (MOST_FACTOR.recip()..=MOST_FACTOR).contains(&factor)
    }

    /// A copy of a listed kernel with the template in its constant memory.
    fn listed(&self, stream: &Stream, entry: &Entry, values: &[f64]) -> Result<(Module, Function), Fault> {
        let Some((code, _)) = &self.cross else { return Err(Fault::new(entry.name, "it was not compiled")) };
        let module = self.gpu.module(&code.cubin, None)?;
        let width = self.spec.template().padded()[2];
        let pitch = entry.taps_stride.unwrap_or(width);
        let real = self.decisions.types.real;
        let size = real.row().size;
        let mut rows = vec![0; values.len() / width * pitch * size];
        for (from, to) in as_real(real, values).chunks(width * size).zip(rows.chunks_mut(pitch * size)) {
            to[..width * size].copy_from_slice(from);
        }
        module.write_constant("flcc_taps", &rows, stream)?;
        let function = module.function(entry.function)?;
        let function = if entry.shared > 0 { function.with_shared(entry.shared)? } else { function };
        Ok((module, function))
    }

    /// Puts a group of images into a slot's queue; `outs` are where its results will go. `go_on` is asked before every
    /// batch, with the tiles of the batches before; once where one kernel serves the group.
    ///
    /// Returns whether all was put in.
    ///
    /// # Errors
    /// The device's.
    pub fn submit(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        (images, outs): (&[AnyView<'_>], &mut [AnyViewMut<'_>]),
        copies: Copies,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        let stream = slot.stream.clone();
        let Slot { staging, rooms, target, .. } = &mut *slot;
        *target = None;
        let bytes = [Room::Image, Room::Result].map(|room| rooms[room].bytes());
        staging.begin(&self.gpu, &stream, copies, bytes, outs);
        for (index, image) in images.iter().enumerate() {
            staging.upload(&stream, &mut rooms[Room::Image], index * self.capacity.image, image)?;
        }
        let count = images.len();
        let source = Source {
            at: slot.rooms[Room::Image].address(&stream),
            view: self.image_view(),
            bytes: count * self.capacity.image,
            count,
        };
        if !self.compute(slot, bound, source, &mut go_on)? {
            return Ok(false);
        }
        slot.staging.fetch(&stream, &slot.rooms[Room::Result], count * self.capacity.result)?;
        Ok(true)
    }

    /// Puts the kernels for a group of images into a slot's queue: one from image to result where that serves, whose
    /// word on extraordinary samples [`Unit::collect`] asks for, else the pipeline.
    fn compute(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        source: Source,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        let stream = slot.stream.clone();
        if self.doubts() {
            let counts = &mut slot.rooms[Room::Counts];
            counts.clear(&stream, counts.bytes())?;
        }
        slot.straight = None;
        if bound.templates.iter().all(|template| template.straight.is_some()) {
            if !go_on(0) {
                return Ok(false);
            }
            self.go_straight(slot, bound, &source)?;
            slot.straight = Some(source);
            return Ok(true);
        }
        self.pipeline(slot, bound, source, go_on)
    }

    /// Puts the pipeline for a group of images into a slot's queue.
    fn pipeline(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        source: Source,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        let total = source.count * self.tiles.len();
        let each = self.capacity.batch;
        for (number, first) in (0..total).step_by(each).enumerate() {
            if !go_on(first) {
                return Ok(false);
            }
            let place = (source.at, source.view, source.bytes);
            self.batch(slot, bound, place, number, first, each.min(total - first))?;
        }
        Ok(true)
    }

    /// Puts the kernels from image to result into a slot's queue.
    fn go_straight(&self, slot: &mut Slot, bound: &Bound, source: &Source) -> Result<(), Fault> {
        let stream = slot.stream.clone();
        slot.told[0] = 0;
        let size = self.spec.out_type().row().size;
        let shape = self.spec.out_shape().padded();
        let [depth, height, width] = shape;
        let (region, template) = (self.spec.region(), self.spec.template().padded());
        let view = self.result_view();
        let cross = CrossLayout {
            out_row: view.stride[1],
            out_plane: view.stride[0],
            out_tile: view.image_stride,
            out_shape: shape.map(|side| side as i32),
            out_depth: depth as i32,
            ..CrossLayout::default()
        };
        let entry = self.decisions.engine.entry().ok_or_else(|| Fault::new("cross term", "no kernel of its own"))?;
        let threads = [entry.block[1] as u32, entry.block[0] as u32];
        // Columns before the first output, with which blocks begin at multiples of four samples of the image.
        let begin = [0, 1, 2].map(|axis| region.origin[axis] as i32 + 1 - template[axis] as i32);
        let before = begin[2].rem_euclid(4);
        // A grid has so many planes at most.
        let most = (MOST_BLOCKS / depth).max(1);
        let result = slot.target();
        for (index, bound) in bound.templates.iter().enumerate() {
            let Some((function, factor)) = &bound.straight else { continue };
            for first in (0..source.count).step_by(most) {
                let count = most.min(source.count - first);
                let passed = first * source.view.image_stride as usize * self.spec.image_type().row().size;
                let out = result.skip(first * self.capacity.result + index * self.spec.out_shape().len() * size);
                let reach = (count - 1) * self.capacity.result + self.spec.out_shape().len() * size;
                let blocks = |outputs: usize, tile: usize| outputs.div_ceil(tile) as u32;
                let columns = blocks(width + before as usize, entry.tile[1]);
                let grid = [columns, blocks(height, entry.tile[0]), (count * depth) as u32];
                let samples = Argument::Room(source.at.skip(passed), source.bytes.saturating_sub(passed));
                let told = Argument::Room(slot.told.address(), size_of::<u32>());
                if let (Engine::Tile(entry), Taps::Spectrum(spectrum)) = (self.decisions.engine, &bound.taps) {
                    let tiles = Shape::of(entry);
                    let job = Job {
                        samples,
                        view: &source.view,
                        begin: [begin[1], begin[2]],
                        out: Argument::Room(out, reach),
                        result: &view,
                        outputs: shape,
                        count,
                        spectrum: Argument::Room(spectrum.address(&stream), tiles.spectrum_bytes()),
                        factor: *factor,
                        extraordinary: told,
                    };
                    tiles.launch(&stream, function, template, &job)?;
                    continue;
                }
                let arguments = [
                    samples,
                    Argument::Image(&source.view),
                    Argument::Room(out, reach),
                    Argument::Cross(&cross),
                    Argument::Int(begin[0]),
                    Argument::Int(begin[1]),
                    Argument::Int(begin[2] - before),
                    Argument::Int(before),
                    Argument::Double(*factor),
                    told,
                ];
                stream.launch(function, grid, threads, &arguments)?;
            }
        }
        Ok(())
    }

    /// Puts an image that lies on this device into a slot's queue; its results stay in the slot, or go to `out`.
    /// `go_on` is that of [`Unit::submit`], and so is what comes back.
    ///
    /// # Errors
    /// The device's.
    pub fn submit_resident(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        image: &DeviceImage<'_>,
        out: Option<&DeviceResults<'_>>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        slot.staging.pass();
        slot.stream.follow(image, out)?;
        slot.target = out.map(|out| {
            let (at, bytes) = out.room();
            Address { at, bytes }
        });
        let (stride, channel) = image.layout().strides();
        let view = ImageView {
            image_stride: 0,
            channel_stride: channel as i64,
            stride: stride.map(|step| step as i64),
            ..self.image_view()
        };
        // Its maker answers for the positions of its layout, which are all that is read.
        let at = Address { at: image.begin(), bytes: usize::MAX };
        self.compute(slot, bound, Source { at, view, bytes: 0, count: 1 }, go_on)
    }

    /// Puts one batch of tiles into a slot's queue.
    fn batch(
        &self,
        slot: &mut Slot,
        bound: &Bound,
        source: (Address, ImageView, usize),
        number: usize,
        first: usize,
        tiles: usize,
    ) -> Result<(), Fault> {
        let stream = slot.stream.clone();
        let Capacity { careful, needs, .. } = self.capacity;
        if careful {
            let found = &mut slot.rooms[Room::Found];
            found.clear(&stream, found.bytes())?;
        }
        let mut places = slot.places();
        places[Room::Tiles] = places[Room::Tiles].skip(first * size_of::<Tile>());
        let (pixels, image, image_reach) = source;
        places[Room::Image] = pixels;
        let layout = Layout { tiles: tiles as i32, ..self.capacity.layout };
        let images = (first + tiles).div_ceil(self.tiles.len());
        let of_template = self.spec.out_shape().len() * self.spec.out_type().row().size;
        let result_reach = (images - 1) * self.capacity.result + of_template;
        let mut batch = Batch { layout, image, places, types: self.decisions.types, image_reach, result_reach };
        let centred = needs.centred && self.decisions.scheme.integers.is_none();
        let forced = self.decisions.scheme.forced.unwrap_or(0.0);
        if !self.fused() {
            self.steps.gather(&stream, &batch, Gathering { centred, careful, forced })?;
        }
        let weights =
            bound.weights.as_ref().filter(|_| self.decisions.scheme.masked).map(|weights| weights.address(&stream));
        if careful {
            self.steps.hits(&stream, &batch, weights)?;
        }
        if self.capacity.box_sums() {
            self.steps.sums(&stream, &batch, needs.sum)?;
        }
        if let (Engine::Fourier(shape), Some(transforms)) = (self.decisions.engine, &slot.transforms) {
            let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
            if let Some(mask) = bound.mask_spectrum.as_ref().filter(|_| self.transformed_sums()) {
                let mask = mask.address(&stream);
                self.steps.square(&stream, &batch)?;
                for (from, to) in [(Room::Squares, Room::Square), (Room::Samples, Room::Sum)] {
                    transforms.there(places[from], spectra)?;
                    self.steps.multiply(&stream, &batch, cufft::spectrum(shape), spectra, mask, product)?;
                    transforms.back(product, places[to])?;
                }
            } else {
                transforms.there(places[Room::Samples], spectra)?;
            }
            if self.doubts() {
                self.steps.figures(&stream, &batch, careful)?;
            }
        }
        for (index, template) in bound.templates.iter().enumerate() {
            if !self.fused() {
                self.cross_term(slot, &stream, &batch, template, bound)?;
            }
            let by_tile = template.thresholds.filter(|_| self.doubts() && !self.fused());
            if let Some(thresholds) = &by_tile {
                self.steps.cross_figures(&stream, &batch, careful)?;
                self.steps.doubt(&stream, &batch, thresholds)?;
            }
            let size = self.spec.out_type().row().size;
            batch.places[Room::Result] = places[Room::Result].skip(index * self.spec.out_shape().len() * size);
            batch.places[Room::Counts] = places[Room::Counts].skip((number * self.spec.templates() + index) * 4);
            let how = Finishing {
                sum: needs.sum,
                square: needs.square,
                careful,
                thresholds: by_tile.is_some(),
                lists: self.doubts(),
            };
            let view = self.result_view();
            match (self.decisions.engine, &template.taps) {
                (Engine::Fused(entry), Taps::Constant(functions)) => {
                    let function =
                        functions.first().ok_or_else(|| Fault::new(entry.name, "a template without a channel"))?;
                    Steps::score(&stream, &batch, (entry, function), &template.constants, &view, self.doubts())?;
                }
                (Engine::Scores(entry), Taps::Spectrum(spectrum)) => {
                    let (Some((_, function)), Some(thresholds)) = (&self.cross, &template.thresholds) else {
                        return Err(Fault::new(entry.name, "a template that was bound for another method"));
                    };
                    let spectrum = spectrum.address(&stream);
                    let of_template = (spectrum, &template.constants, thresholds);
                    Shape::of(entry).score(&stream, function, &batch, of_template, &view)?;
                }
                _ => self.steps.finish(&stream, &batch, &template.constants, &view, how)?,
            }
            if self.doubts() {
                let repair = Repair {
                    values: template.values.address(&stream),
                    raw: template.raw.as_ref().map(|raw| raw.address(&stream)),
                    weights,
                };
                self.steps.repair(
                    &stream,
                    &batch,
                    &template.constants,
                    &view,
                    repair,
                    self.gpu.device.multiprocessors,
                )?;
            }
        }
        Ok(())
    }

    fn cross_term(
        &self,
        slot: &Slot,
        stream: &Stream,
        batch: &Batch,
        template: &BoundTemplate,
        bound: &Bound,
    ) -> Result<(), Fault> {
        let layout = &batch.layout;
        let places = &batch.places;
        if let (Engine::Fourier(shape), Some(transforms), Taps::Spectrum(spectrum)) =
            (self.decisions.engine, &slot.transforms, &template.taps)
        {
            let (spectra, product) = (places[Room::Spectra], places[Room::Product]);
            self.steps.multiply(stream, batch, cufft::spectrum(shape), spectra, spectrum.address(stream), product)?;
            return transforms.back(product, places[Room::Cross]);
        }
        let Some(entry) = self.decisions.engine.entry() else {
            return Err(Fault::new("cross term", "a template that was bound for another method"));
        };
        let cross = batch.cross_layout();
        let (grid, threads) = batch.blocks_of(entry);
        let (real, size) = (self.decisions.types.real.row().size, self.decisions.types.cross.size());
        let taps = self.spec.template().len();
        let tiles = layout.tiles as usize;
        let sides = self.spec.template().padded().map(|side| Argument::Int(side as i32));
        if let (Engine::Tile(entry), Taps::Spectrum(spectrum)) = (self.decisions.engine, &template.taps) {
            return self.tile_term(stream, batch, entry, spectrum);
        }
        for channel in 0..self.channels() {
            let last = (tiles - 1) * layout.in_tile as usize + layout.in_channel as usize;
            let samples =
                Argument::Room(places[Room::Samples].skip(channel * layout.in_channel as usize * real), last * real);
            let last = (tiles - 1) * layout.cross_tile as usize + layout.cross_channel as usize;
            let out = |place: Address| {
                Argument::Room(place.skip(channel * layout.cross_channel as usize * size), last * size)
            };
            let g = Argument::Cross(&cross);
            match (&template.taps, self.decisions.engine) {
                (Taps::Constant(functions), _) => {
                    stream.launch(&functions[channel], grid, threads, &[samples, out(places[Room::Cross]), g])?;
                }
                (Taps::Global(values), engine) => {
                    let Some((_, function)) = &self.cross else {
                        return Err(Fault::new(entry.name, "it was not compiled"));
                    };
                    let values = Argument::Room(values.address(stream).skip(channel * taps * real), taps * real);
                    let weights = bound
                        .weights
                        .as_ref()
                        .map_or(Argument::Null, |weights| Argument::Room(weights.address(stream), taps * 8));
                    let [d, h, w] = sides;
                    match engine {
                        Engine::Masked(_) => {
                            let (sum, square) = (out(places[Room::Sum]), out(places[Room::Square]));
                            let all = [samples, out(places[Room::Cross]), sum, square, g, values, weights, d, h, w];
                            stream.launch(function, grid, threads, &all)?;
                        }
                        Engine::Differences(_) => {
                            stream.launch(
                                function,
                                grid,
                                threads,
                                &[samples, out(places[Room::Cross]), g, values, weights, d, h, w],
                            )?;
                        }
                        _ => stream.launch(
                            function,
                            grid,
                            threads,
                            &[samples, out(places[Room::Cross]), g, values, d, h, w],
                        )?,
                    }
                }
                (Taps::Spectrum(_), _) => {
                    return Err(Fault::new(entry.name, "a template that was bound for another method"));
                }
            }
        }
        Ok(())
    }

    /// The cross term of gathered samples by transforms of tiles.
    fn tile_term(&self, stream: &Stream, batch: &Batch, entry: &Entry, spectrum: &Buffer) -> Result<(), Fault> {
        let (Batch { layout, places, .. }, shape) = (batch, Shape::of(entry));
        let Some((_, function)) = &self.cross else { return Err(Fault::new(entry.name, "it was not compiled")) };
        let view = ImageView {
            image_stride: layout.in_tile,
            channel_stride: 1,
            stride: [layout.in_plane, layout.in_row, 1],
            lengths: layout.in_shape,
            ..self.image_view()
        };
        let result = ResultView { image_stride: layout.cross_tile, stride: [layout.cross_plane, layout.cross_row, 1] };
        let tiles = layout.tiles as usize;
        let job = Job {
            samples: Argument::Room(places[Room::Samples], tiles * layout.in_tile as usize * size_of::<f32>()),
            view: &view,
            begin: [0; 2],
            out: Argument::Room(places[Room::Cross], tiles * layout.cross_tile as usize * size_of::<f32>()),
            result: &result,
            outputs: layout.out_shape.map(|side| side as usize),
            count: tiles,
            spectrum: Argument::Room(spectrum.address(stream), shape.spectrum_bytes()),
            factor: 1.0,
            extraordinary: Argument::Null,
        };
        shape.launch(stream, function, self.spec.template().padded(), &job)
    }

    fn image_view(&self) -> ImageView {
        let [depth, height, width] = self.spec.image().padded();
        let channels = self.channels();
        ImageView {
            image_stride: (depth * height * width * channels) as i64,
            channel_stride: 1,
            stride: [(height * width * channels) as i64, (width * channels) as i64, channels as i64],
            lengths: [depth as i32, height as i32, width as i32],
            channels: channels as i32,
            fill: self.spec.boundary().value().unwrap_or(0.0),
        }
    }

    fn result_view(&self) -> ResultView {
        let [_, height, width] = self.spec.out_shape().padded();
        let len = self.spec.out_shape().len();
        ResultView {
            image_stride: (self.spec.templates() * len) as i64,
            stride: [(height * width) as i64, width as i64, 1],
        }
    }

    /// Takes a group's results out of a slot.
    ///
    /// # Errors
    /// The device's, also of what was put in before.
    pub fn collect(&self, slot: &mut Slot, bound: &Bound, outs: &mut [AnyViewMut<'_>]) -> Result<Statistics, Fault> {
        self.look_again(slot, bound)?;
        let stream = slot.stream.clone();
        let Slot { rooms, staging, .. } = &mut *slot;
        staging.download(&stream, &rooms[Room::Result], outs)?;
        self.statistics(slot, outs.len())
    }

    /// Waits until the results of an image that lies on this device lie there too.
    ///
    /// # Errors
    /// As [`Unit::collect`].
    pub fn collect_resident(&self, slot: &mut Slot, bound: &Bound) -> Result<Statistics, Fault> {
        self.look_again(slot, bound)?;
        self.statistics(slot, self.spec.templates())
    }

    /// Has the pipeline compute again what a kernel from image to result does not serve.
    fn look_again(&self, slot: &mut Slot, bound: &Bound) -> Result<(), Fault> {
        let stream = slot.stream.clone();
        if let Some(source) = slot.straight.take() {
            stream.wait()?;
            if slot.told.read(0) != 0 {
                self.pipeline(slot, bound, source, &mut |_| true)?;
                slot.staging.fetch(&stream, &slot.rooms[Room::Result], source.count * self.capacity.result)?;
            }
        }
        Ok(())
    }

    /// Waits for so many results, and counts what was done for them.
    fn statistics(&self, slot: &mut Slot, results: usize) -> Result<Statistics, Fault> {
        let Slot { stream, rooms, told, .. } = slot;
        if self.doubts() {
            rooms[Room::Counts].download(stream, 0, bytes_of_mut(&mut told[1..]))?;
        }
        stream.wait()?;
        Ok(Statistics {
            repaired: told[1..].iter().map(|&count| u64::from(count)).sum(),
            panels: (results * self.spec.out_shape().len()) as u64,
            tiles: (results / self.spec.templates() * self.tiles.len()) as u64,
        })
    }

    /// Templates and mask, on the device.
    ///
    /// # Errors
    /// The device's.
    pub fn bind(&self, checked: &[Checked], weights: &Weights) -> Result<Bound, Fault> {
        let stream = self.gpu.stream()?;
        let templates =
            checked.iter().map(|checked| self.bind_one(&stream, checked, weights)).collect::<Result<Vec<_>, _>>()?;
        let count = self.spec.template().len();
        let needed = self.decisions.scheme.masked || matches!(self.decisions.engine, Engine::Differences(_));
        let values = weights.values.clone().unwrap_or_else(|| vec![1.0; count]);
        let mask_spectrum = match self.decisions.engine {
            Engine::Fourier(shape) if self.transformed_sums() => {
                Some(self.template_spectrum(&stream, shape, &vec![values.clone(); self.channels()])?)
            }
            _ => None,
        };
        let weights = if needed { Some(Buffer::of(&stream, &values)?) } else { None };
        stream.wait()?;
        Ok(Bound { templates, weights, mask_spectrum, _stream: stream })
    }

    /// Bytes of one bound template.
    pub fn template_bytes(&self) -> usize {
        let values = self.spec.template().len() * self.channels() * 8;
        match self.decisions.engine {
            Engine::Tile(entry) | Engine::Scores(entry) => {
                2 * values + Shape::of(entry).spectrum_bytes() * self.channels()
            }
            Engine::Fourier(shape) => {
                2 * values + cufft::spectrum(shape) * self.channels() * 2 * self.decisions.types.cross.size()
            }
            _ => 3 * values,
        }
    }

    /// Tiles of one image.
    pub fn tiles(&self) -> usize {
        self.tiles.len()
    }

    /// Images of a group.
    pub fn group(&self) -> usize {
        self.capacity.group
    }

    /// Takes at most so many images in a group.
    pub fn limit_group(&mut self, images: usize) {
        self.capacity.limit_group(images);
    }

    /// The number of its device.
    pub fn device(&self) -> usize {
        self.gpu.device.index
    }

    /// Lines for `explain()`.
    pub fn describe(&self) -> Vec<String> {
        let come = |code: &Code| {
            format!(
                "{} in {}",
                if code.cached { "from the cache" } else { "compiled" },
                crate::run::words::time(code.time.as_nanos() as f64)
            )
        };
        let gpu = &self.gpu.device;
        let mut lines = vec![format!("device   {}: {}, {}", gpu.index, gpu.name, gpu.target())];
        let tile = self.decisions.tile;
        lines.push(format!(
            "batches  of {} tiles of up to {}x{}x{} outputs, groups of {} images",
            self.capacity.batch, tile[0], tile[1], tile[2], self.capacity.group
        ));
        if self.fused() {
            lines.push("code     from the image to the result in one kernel, panels in doubt by another".into());
        }
        if self.straight {
            lines.push(
                "code     from the image to the result in one kernel, the pipeline where samples are \
                        extraordinary"
                    .into(),
            );
        }
        if let Some(slowest) = self.codes.iter().map(|(_, code)| code).max_by_key(|code| code.time) {
            lines.push(format!("code     pipeline in {} parts, the longest {}", self.codes.len(), come(slowest)));
        }
        if let (Some((code, function)), Some(entry)) = (&self.cross, self.decisions.engine.entry()) {
            let threads = (entry.block[0] * entry.block[1]) as u32;
            let footprint = function.footprint(threads).map_or_else(
                |fault| fault.to_string(),
                |f| {
                    let occupancy = 100.0 * f64::from(f.blocks * threads) / f64::from(f.most_threads.max(1));
                    format!(
                        "{} registers, {} bytes of shared memory, {occupancy:.0} % occupancy",
                        f.registers, f.shared
                    )
                },
            );
            lines.push(format!("code     {}: {}; {footprint}", entry.name, come(code)));
        }
        lines
    }
}

/// One channel's values in the bytes of a type that kernels compute in.
fn as_real(dtype: DType, values: &[f64]) -> Vec<u8> {
    match dtype {
        DType::U8 => values.iter().map(|&value| value as u8).collect(),
        DType::F32 => bytes_of(&rounded(values, |value| value as f32).collect::<Vec<f32>>()).to_vec(),
        _ => bytes_of(values).to_vec(),
    }
}

fn describe(tiling: &Tiling, index: usize) -> Tile {
    let tile = tiling.get(index);
    let samples = tiling.samples(&tile);
    Tile {
        begin: samples.begin.map(|at| at as i32),
        len: samples.len.map(|len| len as i32),
        shape: tile.shape.map(|side| side as i32),
        keep_from: tile.keep.map(|(from, _)| from as i32),
        keep_to: tile.keep.map(|(_, to)| to as i32),
        place: tile.place.map(|at| at as i32),
        image: 0,
        pad: 0,
    }
}

/// What a slot has room for, before batches are formed.
fn capacity(spec: &Spec, decisions: &Decisions, tiling: &Tiling) -> Capacity {
    let Decisions { engine, types, scheme, .. } = decisions;
    let row = scheme.measure.row();
    let fourier = matches!(engine, Engine::Fourier(_));
    let makes = match engine {
        Engine::Fused(_) | Engine::Scores(_) => Makes::Scores,
        Engine::Masked(_) => Makes::CrossAndSums,
        Engine::Fourier(_) if scheme.masked && row.needs.square => Makes::CrossAndSums,
        _ => Makes::Cross,
    };
    let own = match *engine {
        Engine::Fourier(shape) => Own {
            squares: if makes == Makes::CrossAndSums { shape.iter().product::<usize>() * 8 } else { 0 },
            spectrum: cufft::spectrum(shape) * 2 * types.cross.size(),
            work: cufft::work_bytes(shape, 1, types.cross == Cross::F64),
        },
        _ => Own::default(),
    };
    let constant = matches!(spec.boundary(), flcc_core::boundary::Boundary::Constant(_));
    let extraordinary = scheme.integers.is_none() && (!spec.image_type().is_integer() || constant);
    let doubts = scheme.integers.is_none() && row.normalised;
    Capacity {
        layout: layout(spec, decisions, tiling.largest()),
        types: *types,
        makes,
        own,
        needs: row.needs,
        careful: makes != Makes::Scores && extraordinary,
        doubts,
        by_tile: doubts && fourier,
        image: spec.image().len() * spec.channels() * spec.image_type().row().size,
        result: spec.templates() * spec.out_shape().len() * spec.out_type().row().size,
        templates: spec.templates(),
        tiles: tiling.count(),
        batch: 1,
        group: 1,
    }
}

/// How the largest tile lies, with the room that the kernels need around it.
fn layout(spec: &Spec, decisions: &Decisions, outputs: [usize; 3]) -> Layout {
    let template = spec.template().padded();
    let channels = spec.channels();
    let narrow = |sides: [usize; 3]| sides.map(|side| side as i32);
    let block = decisions.engine.entry().map_or([1, 1], |entry| entry.tile);
    let (in_shape, in_row) = match decisions.engine {
        Engine::Fourier(shape) => (shape, shape[2]),
        _ => {
            let rows = outputs[1].next_multiple_of(block[0]) + template[1] - 1;
            let row = (outputs[2].next_multiple_of(block[1]) + template[2] - 1 + 8).next_multiple_of(16);
            ([outputs[0] + template[0] - 1, rows, row], row)
        }
    };
    let in_plane = in_row * in_shape[1];
    let in_channel = in_plane * in_shape[0];
    let fourier = matches!(decisions.engine, Engine::Fourier(_));
    let dense_out = [outputs[2].next_multiple_of(4), outputs[1], outputs[0]];
    // Transforms write their results over the whole tile; sums that come by transform lie as they do.
    let cross = if fourier { [in_row, in_shape[1], in_shape[0]] } else { dense_out };
    let out = if fourier && decisions.scheme.masked { cross } else { dense_out };
    let pitches = |[row, rows, planes]: [usize; 3]| [row, row * rows, row * rows * planes].map(|pitch| pitch as i64);
    let ([out_row, out_plane, out_channel], [cross_row, cross_plane, cross_channel]) = (pitches(out), pitches(cross));
    Layout {
        in_row: in_row as i64,
        in_plane: in_plane as i64,
        in_channel: in_channel as i64,
        in_tile: (in_channel * channels) as i64,
        out_row,
        out_plane,
        out_channel,
        out_tile: out_channel * channels as i64,
        cross_row,
        cross_plane,
        cross_channel,
        cross_tile: cross_channel * channels as i64,
        in_shape: narrow(in_shape),
        out_shape: narrow(outputs),
        template: narrow(template),
        channels: channels as i32,
        tiles: 1,
    }
}

/// Templates and mask on a device.
pub struct Bound {
    templates: Vec<BoundTemplate>,
    /// The mask's weights, or ones where a kernel wants some.
    weights: Option<Buffer>,
    mask_spectrum: Option<Buffer>,
    /// What the buffers were made on.
    _stream: Stream,
}

struct BoundTemplate {
    taps: Taps,
    constants: Constants,
    /// Of tiles, where they are not the same for all.
    thresholds: Option<Thresholds>,
    values: Buffer,
    raw: Option<Buffer>,
    /// The kernel from the image to the result, and what it multiplies its sums with.
    straight: Option<(Function, f64)>,
}

/// A template in the form of its engine.
enum Taps {
    /// In the constant memory of a kernel of its own, one for each channel.
    Constant(Vec<Function>),
    /// Its samples, channel by channel.
    Global(Buffer),
    /// Its spectra, channel by channel.
    Spectrum(Buffer),
}

/// Images on the device: where they begin, how they lie, bytes that are theirs (0: their maker answers), and how many.
#[derive(Clone, Copy)]
struct Source {
    at: Address,
    view: ImageView,
    bytes: usize,
    count: usize,
}

/// A stream with the buffers of a group of images.
pub struct Slot {
    stream: Stream,
    rooms: Rooms,
    /// What is told to the host: first whether a kernel from image to result met samples that it does not serve, which
    /// it writes there, then the counts.
    told: Pinned<u32>,
    /// Where results go instead, which is the caller's.
    target: Option<Address>,
    /// The images that such a kernel was given last.
    straight: Option<Source>,
    transforms: Option<Transforms>,
    staging: Staging,
}

impl Slot {
    /// Waits until nothing is in its queue, whatever became of it.
    pub fn settle(&self) {
        self.stream.settle();
    }

    /// Where results go.
    fn target(&self) -> Address {
        self.target.unwrap_or_else(|| self.rooms[Room::Result].address(&self.stream))
    }

    fn places(&self) -> Places {
        let mut places = self.rooms.places(&self.stream);
        places[Room::Result] = self.target();
        places
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::cpu::engines::direct::{self, Direct};
    use crate::cpu::kernels::kernel::KernelOp;
    use crate::cpu::testing;
    use crate::isa;
    use crate::plan::machine::Device;

    fn decisions(spec: &Spec, engine: Engine, real: DType) -> Decisions {
        let device =
            Device { index: 0, name: "a device".into(), capability: (9, 0), multiprocessors: 132, memory: 80 << 30 };
        let cross = if real == DType::F32 { Cross::F32 } else { Cross::F64 };
        let types = Types { pixel: real, real, cross, out: real };
        Decisions {
            engine,
            tile: [1, 512, 1024],
            types,
            scheme: Scheme::new(spec, false, false),
            template: spec.template().padded(),
            device,
            memory: 1 << 30,
        }
    }

    /// Scores in the type of a kernel from a sum of products one after the other: where they are off by more than is
    /// promised, the energy is not above what is in doubt.
    #[test]
    fn texture_that_is_too_small_for_its_type_is_in_doubt() {
        let any = |dtype| Engine::Any(flcc_generated::generic("corr", dtype, false).unwrap());
        for (text, real, exponents) in
            [("zncc:f32:30x11*19x10:same", DType::F32, 30..45), ("zncc:f64:38x31*2x29:same", DType::F64, 140..163)]
        {
            let spec: Spec = text.parse().unwrap();
            let taps = spec.template().len();
            let single = real == DType::F32;
            let mut noise = testing::noise(7);
            let values: Vec<f64> = testing::template(taps, false, &mut noise);
            let engine = any(real.name());
            let figures = engine.figures(spec.template().padded(), std::slice::from_ref(&values));
            let (low, share) = decisions(&spec, engine, real).doubt(&figures, taps, 1.0, None).at(0.0, 0.0);
            let (mut broken, mut certain, mut missed) = (0, 0, 0);
            for exponent in exponents.clone().flat_map(|exponent| [exponent; 20]) {
                let size = 10f64.powi(-exponent);
                let samples: Vec<f64> = (0..taps).map(|_| f64::from(noise())).collect();
                let held: Vec<f64> = samples
                    .iter()
                    .map(|sample| if single { f64::from((sample * size) as f32) } else { sample * size })
                    .collect();
                let cross = match single {
                    true => {
                        held.iter().zip(&values).fold(0.0f32, |sum, (p, t)| (*p as f32).mul_add(*t as f32, sum)).into()
                    }
                    false => held.iter().zip(&values).fold(0.0f64, |sum, (p, t)| p.mul_add(*t, sum)),
                };
                let (i, ii): (f64, f64) = (held.iter().sum(), held.iter().map(|p| p * p).sum());
                let energy = ii - i * i / taps as f64;
                // The same brought to the scale of 1 first, by a power of two, so that nothing but what was lost before
                // differs.
                let up: Vec<f64> =
                    held.iter().map(|p| p * 2f64.powi(500) * if single { 1.0 } else { 2f64.powi(30) }).collect();
                let (sum, squares): (f64, f64) = (up.iter().sum(), up.iter().map(|p| p * p).sum());
                let exact = up.iter().zip(&values).map(|(p, t)| p * t).sum::<f64>()
                    / (squares - sum * sum / taps as f64).sqrt();
                let off = (cross / energy.sqrt() - exact).abs();
                let promise = if single { 1e-5 } else { 1e-11 };
                if off.is_nan() || off > promise {
                    broken += 1;
                    missed += usize::from(energy > share * ii);
                    assert!(
                        energy <= low + share * ii,
                        "{text}: 1e-{exponent} is off by {off:.1e}, and {energy:e} is above {low:e}"
                    );
                }
                certain += usize::from(energy > low);
            }
            // Without a floor some would be taken for certain.
            assert!(
                broken > 20 && certain > 100 && missed > 5,
                "{text}: {broken} are off, {missed} unseen, {certain} in no doubt"
            );
        }
    }

    /// The products of two vectors in the runs of a kernel, as its emulation adds them up bit by bit.
    fn in_runs(runs: &[Run], products: impl Iterator<Item = (f32, f32)>) -> f32 {
        let mut products = products;
        let mut of_run = |run: &Run| products.by_ref().take(run.products).fold(0.0f32, |sum, (p, t)| p.mul_add(t, sum));
        runs.split_inclusive(|run| run.ends)
            .map(|subtotal| subtotal.iter().fold(0.0, |sum, run| sum + of_run(run)))
            .fold(0.0, |a, b| a + b)
    }

    /// Images of two values, equal samples and one bright sample on an even ground, of which the roundings agree, at
    /// amplitudes that are searched for the worst.
    #[test]
    fn agreeing_errors_stay_within_the_worst_case() {
        let listed = |op, size| flcc_generated::listed(op, "f32", size).unwrap();
        let any = |flat| Engine::Any(flcc_generated::generic("corr", "f32", flat).unwrap());
        let cases = [
            (Engine::Listed(listed("corr", [1, 8, 8])), [1, 8, 8]),
            (Engine::Fused(listed("zncc", [1, 16, 16])), [1, 16, 16]),
            (Engine::Fused(listed("zncc", [1, 32, 32])), [1, 32, 32]),
            (Engine::Fused(listed("zncc", [1, 1, 64])), [1, 1, 64]),
            (Engine::Fused(listed("zncc", [8, 8, 8])), [8, 8, 8]),
            (any(false), [1, 37, 41]),
            (any(true), [1, 1, 1200]),
        ];
        let mut worst = (0.0, String::new());
        for ((engine, shape), round) in cases.into_iter().flat_map(|case| (0..40u64).map(move |round| (case, round))) {
            let (n, mut random) = (shape.iter().product::<usize>(), testing::noise(7 + 31 * round));
            let signs: Vec<f64> = (0..n).map(|_| if random() > 0.0 { 1.0 } else { -1.0 }).collect();
            let lone: Vec<f64> = (0..n).map(|k| if k == round as usize % n { 4096.0 } else { 1.0 }).collect();
            for (name, values) in [("signs", signs), ("equal", vec![1.0; n]), ("lone", lone)] {
                let mean = if name == "signs" { values.iter().sum::<f64>() / n as f64 } else { 0.0 };
                let norm = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>().sqrt();
                let taps: Vec<f64> = values.iter().map(|value| (value - mean) / norm).collect();
                let single: Vec<f32> = rounded(&taps, |value| value as f32).collect();
                let (runs, places) = engine.runs(shape);
                let figures = engine.figures(shape, std::slice::from_ref(&taps));
                for _ in 0..8 {
                    let amplitude = 1.5 + random();
                    let samples: Vec<f32> = values.iter().map(|value| *value as f32 * amplitude).collect();
                    let got = in_runs(&runs, places.iter().map(|&at| (samples[at], single[at])));
                    let exact: f64 = samples.iter().zip(&single).map(|(p, t)| f64::from(*p) * f64::from(*t)).sum();
                    let (sum, square) = samples
                        .iter()
                        .fold((0.0, 0.0), |(sum, square), &p| (sum + f64::from(p), square + f64::from(p).powi(2)));
                    let constant = sum * sum / n as f64;
                    let granted =
                        figures.varying * (square - constant).max(0.0).sqrt() + figures.constant * constant.sqrt();
                    let ratio = (f64::from(got) - exact).abs() / (f64::from(f32::EPSILON) / 2.0 * granted);
                    if ratio > worst.0 {
                        worst = (ratio, format!("{name} {shape:?}, {amplitude}"));
                    }
                }
            }
        }
        println!("direct sums of agreeing roundings on a GPU: {:.3} of the worst case, {}", worst.0, worst.1);
        assert!(worst.0 <= 1.0 && worst.0 > 0.2, "{worst:?}");
    }

    /// One kernel goes from the image to the result where a grid covers the image, and nothing but floats is asked for.
    #[test]
    fn one_kernel_serves_plain_sums_that_a_grid_covers() {
        let serves = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            let engine = match flcc_generated::listed("corr", spec.image_type().name(), spec.template().padded()) {
                Some(entry) => Engine::Listed(entry),
                None => Engine::Any(flcc_generated::generic("corr", "f32", false).unwrap()),
            };
            let Decisions { types, scheme, .. } = decisions(&spec, engine, spec.image_type());
            goes_straight(&spec, engine, &scheme, types)
        };
        for text in ["corr:f32:65000x64*1x10:valid", "conv:f64:100x100*7x7:full", "corr:f32:60000x20x20*1x3x3:valid"] {
            assert!(serves(text), "{text}");
        }
        for text in [
            "corr:f32:70000x64*1x10:valid",
            "corr:f32:70000x32x32*1x3x3:valid",
            "corr:f32:2200000x16*8x8:valid",
            "corr:f32:100x100*8x9:valid",
            "corr:f32:100x100*8x8:valid,channels=2",
            "corr:f32:100x100*8x8:valid,mask01",
            "corr:f32:100x100*8x8:valid,roi=9,9:5x5",
            "zncc:f32:100x100*8x8:valid",
        ] {
            assert!(!serves(text), "{text}");
        }
    }

    /// They lack the registers for subtotals, so that 512 roundings may follow each other: all of them count.
    #[test]
    fn scores_in_f64_are_in_doubt_for_the_longest_sums() {
        for (size, [scores, alone]) in
            [([8, 8, 8], [512.0, 22.0]), ([1, 32, 32], [63.0, 42.0]), ([1, 15, 15], [29.0, 29.0])]
        {
            let spec: Spec = format!("zncc:f64:40x50x60*{}x{}x{}:valid", size[0], size[1], size[2]).parse().unwrap();
            let taps = size.iter().product();
            // All of the template is the first tap, whose product goes through the most roundings.
            let mut values = vec![0.0; taps];
            values[0] = 1.0;
            let [of_scores, of_sums] = [("zncc", true), ("corr", false)].map(|(op, fused)| {
                let entry = flcc_generated::listed(op, "f64", size).unwrap();
                let engine = if fused { Engine::Fused(entry) } else { Engine::Listed(entry) };
                let figures = engine.figures(size, std::slice::from_ref(&values));
                (figures.varying, decisions(&spec, engine, DType::F64).doubt(&figures, taps, 1.0, None).at(0.0, 0.0).1)
            });
            assert_eq!([of_scores.0, of_sums.0], [scores, alone], "{size:?}");
            assert!(of_scores.1 < 1e-3, "{size:?}: {of_scores:?}");
            assert_eq!(of_scores.1 > of_sums.1, scores > alone, "{size:?}: {of_scores:?} {of_sums:?}");
        }
    }

    /// What a template leaves in doubt of ordinary images is about what the CPU's sums do.
    #[test]
    fn as_little_is_in_doubt_as_on_a_cpu() {
        for size in [[1, 7, 7], [1, 16, 16], [1, 32, 32], [5, 5, 5], [1, 1, 64], [1, 9, 30]] {
            let taps = size.iter().product();
            let flat = size[1] == 1;
            let engine = flcc_generated::listed("zncc", "f32", size)
                .map_or_else(|| Engine::Any(flcc_generated::generic("corr", "f32", flat).unwrap()), Engine::Fused);
            let spec: Spec = format!("zncc:f32:80x90x100*{}x{}x{}:valid", size[0], size[1], size[2]).parse().unwrap();
            for (smooth, seed) in [(true, 5), (false, 6), (false, 9)] {
                let values = testing::template(taps, smooth, testing::noise(seed));
                let figures = engine.figures(size, std::slice::from_ref(&values));
                // Of samples that are not rounded, as beside it.
                let share = decisions(&spec, engine, DType::F32).doubt(&figures, taps, 0.0, None).at(0.0, 0.0).1;
                let isas = isa::detect();
                let kernel = direct::choose(KernelOp::Correlate, DType::F32, size, [8; 3], &isas);
                let cpu = Direct::<f32>::new(kernel, size, &isas).unwrap();
                let of_cpu =
                    testing::doubt_of(taps, &cpu.figures([Cow::Borrowed(&values[..])].into_iter()), cpu.rounding())
                        .at(0.0, 0.0)
                        .1;
                assert!(
                    share < 2.0 * of_cpu && share < 0.1,
                    "{size:?}, smooth {smooth}: {share:.2e}, on a CPU {of_cpu:.2e}"
                );
            }
        }
    }

    #[test]
    fn energies_that_become_single_are_normal_numbers() {
        let spec: Spec = "zncc:f32:200x200*7x7:valid".parse().unwrap();
        let values = [testing::template(49, false, testing::noise(3))];
        let listed = |op| flcc_generated::listed(op, "f32", [1, 7, 7]).unwrap();
        let low = |engine: Engine| {
            let figures = engine.figures([1, 7, 7], &values);
            decisions(&spec, engine, DType::F32).doubt(&figures, 49, 1.0, None).at(0.0, 0.0).0
        };
        assert!(low(Engine::Fused(listed("zncc"))) > f64::from(f32::MIN_POSITIVE));
        let plain = low(Engine::Listed(listed("corr")));
        assert!(plain > 0.0 && plain < 1e-60, "{plain:e}");
        // Of the samples of a tile one at least is near 1, and nothing is lost beside it.
        assert!(low(Engine::Fourier([1, 256, 256])) < 1e-30);
    }
}
