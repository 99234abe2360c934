//! One GPU with all that a spec needs there: the tile pipeline of the CPU, a batch of tiles at a time.
//!
//! Images come in groups, and are computed in batches of tiles. A group goes into the queue of a slot, which has a
//! stream and buffers of its own, and its results are taken out of the slot later. What a tile computes depends on the
//! tile alone, so neither batches nor groups change a bit, but by cuFFT, whose last bits depend on the number of
//! transforms that it makes together.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use flcc_core::dtype::DType;
use flcc_core::error::{ExecError, SpecError, counted};
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::sums::Needs;
use flcc_core::view::{AnyView, AnyViewMut, View};

use crate::cuda::bound::DeviceTemplates;
use crate::cuda::decisions::{Decisions, goes_straight, parts};
use crate::cuda::driver::buffer::{self, Buffer, bytes_of, bytes_of_mut};
use crate::cuda::driver::compile::{self, Code};
use crate::cuda::driver::launch::{
    Address, Argument, Function, Gpu, ImageView, Layout, MOST_BLOCKS, ResultView, Stream, Tile,
};
use crate::cuda::driver::libraries;
use crate::cuda::driver::staging::Target;
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{self, Batch, Finishing, Gathering, Offset, Part, Repair, Steps, options};
use crate::cuda::method::{Around, Desk, Job, OwnTemplates, Run, Scoring, Tools};
use crate::cuda::paired::{Paired, taps};
use crate::cuda::reduction;
use crate::cuda::rooms::{Capacity, Makes, Room};
use crate::cuda::slot::{Images, Slot};
use crate::problem::template::{self, Checked, Weights};
use crate::run::device_image::{DeviceImage, DeviceImages, DevicePairs, DeviceResults, Enqueued, Extraordinary};
use crate::run::execute::{Copies, DeviceTime, Statistics};
use crate::run::tiling::Tiling;
use crate::run::words;

/// Bytes that a stream clears before runs that are timed, or while these are put into its queue: more than any device's
/// caches hold.
const FILLER_BYTES: usize = 256 << 20;
/// Bytes that it clears while runs of laid images are: their caches are as warm as those of a call, which copies the
/// images just before.
pub(crate) const LAID_FILLER_BYTES: usize = 32 << 20;
/// How long it does so at most.
const MOST_FILLED: Duration = Duration::from_millis(20);
/// How often it does so at most: a queue holds about so much, and has the host wait for more.
const MOST_FILLS: usize = 1024;
/// What a run of laid images takes that is timed as it comes: launches of the host delay it by next to nothing.
const LONG: Duration = Duration::from_millis(5);

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
    /// What finds peaks in results, once it was asked for.
    peaks: OnceLock<Result<reduction::Kernels, Fault>>,
}

impl Unit {
    /// Opens the device and makes everything that depends on the spec alone.
    ///
    /// # Errors
    /// The device's, NVRTC's, or too little memory; the second with the bytes that are needed.
    pub fn new(spec: &Spec, decisions: Decisions) -> Result<Unit, Fault> {
        let target = decisions.device.target();
        let (method, template) = (Arc::clone(&decisions.method), decisions.template);
        let entry = method.entry();
        if entry.is_none() {
            libraries::present()?;
        }
        let parts = parts(&*method, &decisions.scheme);
        let pipeline = options(spec, &decisions.scheme, decisions.types);
        let straight = goes_straight(spec, &*method, &decisions.scheme, decisions.types);
        let source = method.source(template, &Around { options: &pipeline, wide: decisions.wide, straight });
        // NVRTC compiles in several threads at once, while this one opens the device.
        let (gpu, codes, cross) = std::thread::scope(|scope| {
            let (pipeline, target) = (&pipeline, &target);
            let cross = entry.zip(source).map(|(entry, source)| {
                scope.spawn(move || compile::compile(entry.name, &source.text, &source.options, target))
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
        let capacity = decisions.capacity(spec, &tiling);
        let mut unit = Unit {
            spec: spec.clone(),
            decisions,
            gpu,
            steps,
            codes,
            cross,
            straight,
            capacity,
            tiles,
            peaks: OnceLock::new(),
        };
        let templates = unit.template_bytes().saturating_mul(spec.templates());
        unit.capacity = capacity.fit(spec.images(), unit.decisions.memory.saturating_sub(templates));
        Ok(unit)
    }

    /// Whether panels may be in doubt.
    fn doubts(&self) -> bool {
        self.capacity.doubts
    }

    /// Whether one kernel makes scores of the image.
    fn scores(&self) -> bool {
        self.capacity.makes == Makes::Scores
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.capacity.bytes()
    }

    /// Slots that take turns in a run, at most.
    pub fn slots(&self) -> usize {
        self.capacity.slots_for(self.spec.images())
    }

    /// A slot.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn slot(&self) -> Result<Slot, Fault> {
        Slot::new(&self.gpu, &*self.decisions.method, &self.capacity, &self.tiles)
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
        bound: &DeviceTemplates,
        (images, outs): (&[AnyView<'_>], &mut [AnyViewMut<'_>]),
        copies: Copies,
        go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        if !self.enter(slot, bound, (images, &mut *outs), copies, go_on)? {
            return Ok(false);
        }
        let Slot { stream, staging, rooms, .. } = slot;
        staging.fetch(stream, &rooms[Room::Result], outs)?;
        Ok(true)
    }

    /// As [`Unit::submit`], with results that stay in the slot; without `outs` they are not to cross.
    ///
    /// # Errors
    /// The device's.
    pub fn enter(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        (images, outs): (&[AnyView<'_>], &mut [AnyViewMut<'_>]),
        copies: Copies,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        slot.target = None;
        self.bring(slot, images, copies, outs)?;
        let source = self.brought(slot, images.len());
        self.compute(slot, bound, source, &mut go_on)
    }

    /// Copies images into a slot, whose results will go to `outs`.
    fn bring<'o>(
        &self,
        slot: &mut Slot,
        images: &[AnyView<'_>],
        copies: Copies,
        outs: &mut [impl Target<'o>],
    ) -> Result<(), Fault> {
        let Slot { stream, staging, rooms, .. } = slot;
        let bytes = [Room::Image, Room::Result].map(|room| rooms[room].bytes());
        staging.begin(&self.gpu, stream, copies, bytes, outs);
        for (index, image) in images.iter().enumerate() {
            staging.upload(stream, &mut rooms[Room::Image], index * self.capacity.image, image)?;
        }
        Ok(())
    }

    /// So many images that were copied into a slot.
    fn brought(&self, slot: &Slot, count: usize) -> Images {
        let at = slot.rooms[Room::Image].address(&slot.stream);
        Images { at, view: self.image_view(), bytes: count * self.capacity.image, count }
    }

    /// Puts the kernels for a group of images into a slot's queue: one from image to result where that serves, whose
    /// word on extraordinary samples [`Unit::collect`] asks for, else the pipeline.
    fn compute(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        source: Images,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        self.clear_counts(slot)?;
        slot.straight = None;
        if bound.goes_straight() {
            if !go_on(0) {
                return Ok(false);
            }
            slot.unserved(true);
            self.go_straight(slot, bound, &source)?;
            slot.straight = Some(source);
            return Ok(true);
        }
        self.pipeline(slot, bound, source, go_on)
    }

    /// No panel is in doubt yet.
    fn clear_counts(&self, slot: &mut Slot) -> Result<(), Fault> {
        let Slot { stream, rooms, .. } = slot;
        let counts = &mut rooms[Room::Counts];
        if self.doubts() { counts.clear(stream, counts.bytes()) } else { Ok(()) }
    }

    /// Puts a run into a stream of the caller's, by a slot whose runs come one after the other: nothing is allocated or
    /// waited for, and nothing is decided on the host, so that the stream may record a graph.
    ///
    /// # Errors
    /// The device's.
    pub fn enqueue(&self, slot: &mut Slot, bound: &DeviceTemplates, run: Enqueued<'_>) -> Result<(), Fault> {
        let theirs = slot.stream.borrowed(run.stream);
        slot.lent = true;
        let own = std::mem::replace(&mut slot.stream, theirs);
        let put = self.put(slot, bound, run.images, run.out, run.extraordinary);
        slot.stream = own;
        put
    }

    /// Puts a run into the stream that a slot has now.
    fn put(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        images: &DeviceImages<'_>,
        out: &DeviceResults<'_>,
        extraordinary: Extraordinary,
    ) -> Result<(), Fault> {
        self.decisions.method.follow(&slot.stream, &*slot.open)?;
        let (at, bytes) = out.room();
        let results = Address { at, bytes };
        let view = ImageView { image_stride: images.apart() as i64, ..self.view_of(images.first()) };
        let at = Address { at: images.first().begin(), bytes: usize::MAX };
        let source = Images { at, view, bytes: 0, count: images.count() };
        if bound.goes_straight() && extraordinary == Extraordinary::Told {
            slot.target = Some(results);
            return self.go_straight(slot, bound, &source);
        }
        for first in (0..source.count).step_by(self.capacity.group) {
            slot.target = Some(results.skip(first * self.capacity.result));
            self.clear_counts(slot)?;
            let count = self.capacity.group.min(source.count - first);
            let group = Images { count, ..source.image(first, self.spec.image_type()) };
            self.pipeline(slot, bound, group, &mut |_| true)?;
        }
        Ok(())
    }

    /// Puts the pipeline for a group of images into a slot's queue.
    fn pipeline(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        source: Images,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        let total = source.count * self.tiles.len();
        let each = self.capacity.batch;
        for (number, first) in (0..total).step_by(each).enumerate() {
            if !go_on(first) {
                return Ok(false);
            }
            self.batch(slot, bound, &source, number, first, each.min(total - first))?;
        }
        Ok(true)
    }

    /// Puts the kernels from image to result into a slot's queue.
    fn go_straight(&self, slot: &mut Slot, bound: &DeviceTemplates, source: &Images) -> Result<(), Fault> {
        let places = slot.places();
        let tools = Some(Tools { places: &places, open: &*slot.open });
        let extraordinary = Argument::Room(slot.told.address(), size_of::<u32>());
        let count = bound.templates.len();
        // One kernel for all templates, or else one each.
        if let Some(first) = bound.templates.first().filter(|_| count > 1) {
            let (mut served, apart) = (true, self.spec.out_shape().len());
            self.in_grids(slot.target(), source, 0..count, |_, job| {
                let all = first.taps.straight_all(&slot.stream, &Job { extraordinary, tools, ..job }, apart);
                served &= all.is_some();
                all.unwrap_or(Ok(()))
            })?;
            if served {
                return Ok(());
            }
        }
        for (index, bound) in bound.templates.iter().enumerate() {
            let Some(factor) = bound.straight else { continue };
            self.in_grids(slot.target(), source, index..index + 1, |_, job| {
                bound.taps.straight(&slot.stream, &Job { factor, extraordinary, tools, ..job })
            })?;
        }
        Ok(())
    }

    /// Does `work` for as many images at a time as a grid has planes for, from the first of them on, with results of
    /// these templates at their places.
    fn in_grids(
        &self,
        result: Address,
        source: &Images,
        templates: Range<usize>,
        mut work: impl FnMut(usize, Job<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (size, outputs) = (self.spec.out_type().row().size, self.spec.out_shape().padded());
        let (region, sides) = (self.spec.region(), self.spec.template().padded());
        let view = self.result_view();
        let begin = [0, 1, 2].map(|axis| region.origin[axis] as i32 + 1 - sides[axis] as i32);
        let most = (MOST_BLOCKS / outputs[0]).max(1);
        for first in (0..source.count).step_by(most) {
            let count = most.min(source.count - first);
            let at = source.image(first, self.spec.image_type());
            let bytes = self.spec.out_shape().len() * size;
            let out = result.skip(first * self.capacity.result + templates.start * bytes);
            let reach = (count - 1) * self.capacity.result + templates.len() * bytes;
            work(
                first,
                Job {
                    samples: Argument::Room(at.at, at.bytes),
                    view: &source.view,
                    begin,
                    out: Argument::Room(out, reach),
                    result: &view,
                    outputs,
                    count,
                    factor: 1.0,
                    extraordinary: Argument::Null,
                    tools: None,
                },
            )?;
        }
        Ok(())
    }

    /// Whether one kernel computes images that have a template of their own each.
    pub fn takes_pairs(&self) -> bool {
        self.capacity.own_template > 0
    }

    /// How a template of its own lies beside those of other images, in the device copy.
    fn own_view(&self) -> ImageView {
        let [depth, height, width] = self.spec.template().padded();
        ImageView {
            image_stride: (depth * height * width) as i64,
            channel_stride: 1,
            stride: [(height * width) as i64, width as i64, 1],
            lengths: [depth as i32, height as i32, width as i32],
            channels: 1,
            fill: 0.0,
        }
    }

    /// Puts the kernel for images that have a template of their own each into a slot's queue.
    fn go_paired(&self, slot: &mut Slot, source: &Images, own: &Images) -> Result<(), Fault> {
        let answers = slot.clear_answers(&self.gpu, source.count)?;
        let desk = self.desk(&slot.stream);
        self.in_grids(slot.target(), source, 0..1, |first, job| {
            let answers = answers.skip(first * size_of::<u32>());
            let extraordinary = Argument::Room(answers, job.count * size_of::<u32>());
            let at = own.image(first, self.spec.template_type());
            let samples = Argument::Room(at.at, at.bytes);
            let templates = OwnTemplates { samples, view: &own.view, flips: self.spec.op().flips() };
            self.decisions.method.pairs(&desk, &Job { extraordinary, ..job }, &templates)
        })
    }

    /// As [`Unit::submit`], of images that have a template of their own each.
    ///
    /// # Errors
    /// The device's.
    pub fn submit_paired(
        &self,
        slot: &mut Slot,
        (images, pairs): (&[AnyView<'_>], &mut [Paired<'_, '_>]),
        copies: Copies,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        if !go_on(0) {
            return Ok(false);
        }
        let templates: Vec<f32> = pairs.iter().flat_map(|pair| taps(pair.template)).collect();
        let [source, own] = self.bring_paired(slot, images, &templates, copies, pairs)?;
        self.go_paired(slot, &source, &own)?;
        let Slot { stream, staging, rooms, .. } = slot;
        staging.fetch(stream, &rooms[Room::Result], pairs)?;
        Ok(true)
    }

    /// Copies images into a slot whose results will go to `outs`, and the samples of their templates: both as they lie
    /// there.
    fn bring_paired<'o>(
        &self,
        slot: &mut Slot,
        images: &[AnyView<'_>],
        templates: &[f32],
        copies: Copies,
        outs: &mut [impl Target<'o>],
    ) -> Result<[Images; 2], Fault> {
        let stream = slot.stream.clone();
        slot.target = None;
        self.bring(slot, images, copies, outs)?;
        slot.rooms[Room::Own].upload(&stream, 0, bytes_of(templates))?;
        let count = images.len();
        let own = Images {
            at: slot.rooms[Room::Own].address(&stream),
            view: self.own_view(),
            bytes: count * self.capacity.own_template,
            count,
        };
        Ok([self.brought(slot, count), own])
    }

    /// Copies images into a slot and computes them once. They as they lie there, for [`Unit::time_laid`]; `None` where
    /// the host decides something between kernels.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn lay(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        images: &[AnyView<'_>],
    ) -> Result<Option<Images>, Fault> {
        self.enter(slot, bound, (images, &mut []), Copies::Direct, |_| true)?;
        slot.stream.wait()?;
        let again = self.look_again(slot, bound)?;
        slot.stream.wait()?;
        Ok((!again).then(|| self.brought(slot, images.len())))
    }

    /// As [`Unit::lay`], of images that have a template of their own each, with these; for [`Unit::time_laid_pairs`].
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn lay_pairs(
        &self,
        slot: &mut Slot,
        images: &[AnyView<'_>],
        templates: &[AnyView<'_>],
    ) -> Result<Option<[Images; 2]>, Fault> {
        let templates: Vec<f32> = templates.iter().flat_map(taps).collect();
        let none: &mut [Paired<'_, '_>] = &mut [];
        let [source, own] = self.bring_paired(slot, images, &templates, Copies::Direct, none)?;
        self.go_paired(slot, &source, &own)?;
        slot.stream.wait()?;
        Ok((!self.any_again(slot, images.len())).then_some([source, own]))
    }

    /// Takes the results of such images out of a slot, and notes which are to be computed again.
    ///
    /// # Errors
    /// The device's, also of what was put in before.
    pub fn collect_paired(&self, slot: &mut Slot, pairs: &mut [Paired<'_, '_>]) -> Result<Statistics, Fault> {
        let stream = slot.stream.clone();
        let Slot { rooms, staging, .. } = &mut *slot;
        staging.download(&stream, &rooms[Room::Result], pairs)?;
        stream.wait()?;
        pairs.iter_mut().enumerate().for_each(|(index, pair)| pair.again = slot.answer(index));
        Ok(self.counted(pairs.len()))
    }

    /// What is counted of so many results that no panel is in doubt of.
    pub fn counted(&self, results: usize) -> Statistics {
        let panels = (results * self.spec.out_shape().len()) as u64;
        Statistics { repaired: 0, panels, tiles: (results * self.tiles.len()) as u64 }
    }

    /// Puts images that lie on this device, with a template of their own each, into a slot's queue.
    ///
    /// # Errors
    /// The device's.
    pub fn submit_paired_resident(
        &self,
        slot: &mut Slot,
        pairs: &DevicePairs<'_>,
        out: &DeviceResults<'_>,
    ) -> Result<(), Fault> {
        slot.staging.pass();
        slot.stream.follow(&pairs.images, Some(out))?;
        slot.stream.follow(&pairs.templates, None)?;
        let (at, bytes) = out.room();
        slot.target = Some(Address { at, bytes });
        slot.straight = None;
        let [source, own] = self.stacks(pairs);
        self.go_paired(slot, &source, &own)
    }

    /// Images and templates as they lie there, one behind the other.
    fn stacks(&self, pairs: &DevicePairs<'_>) -> [Images; 2] {
        let stack = |image: &DeviceImage<'_>, view: ImageView| {
            let ([next, down, along], _) = image.layout().strides();
            let view = ImageView { image_stride: next as i64, stride: [0, down as i64, along as i64], ..view };
            // Its maker answers for the positions of its layout, which are all that is read.
            let at = Address { at: image.begin(), bytes: usize::MAX };
            Images { at, view, bytes: 0, count: pairs.count() }
        };
        [stack(&pairs.images, self.image_view()), stack(&pairs.templates, self.own_view())]
    }

    /// Waits for the results of such images, and computes those again that the kernel does not serve.
    ///
    /// # Errors
    /// The device's, also of what was put in before; a template that cannot be matched.
    pub fn collect_paired_resident(
        &self,
        slot: &mut Slot,
        pairs: &DevicePairs<'_>,
        weights: &Weights,
    ) -> Result<Statistics, ExecError> {
        slot.stream.wait()?;
        let [source, own] = self.stacks(pairs);
        let results = slot.target();
        for number in (0..source.count).filter(|&number| slot.answer(number)).collect::<Vec<_>>() {
            let mut values = vec![0.0f32; self.spec.template().len()];
            let stream = slot.stream.clone();
            let from = own.image(number, self.spec.template_type()).at;
            let [_, height, width] = self.spec.template().padded();
            assert_eq!(own.view.stride, [0, width as i64, 1], "templates without gaps: {height}x{width}");
            buffer::read_resident(&stream, from, bytes_of_mut(&mut values))?;
            let numbered = |error: SpecError| SpecError { argument: format!("template {number}"), ..error };
            let view = View::new(&values, self.spec.template())?.into();
            let checked = template::check_template(&self.spec, &view, weights).map_err(numbered)?;
            let bound = self.bind(&[checked], weights)?;
            let image = Images { count: 1, ..source.image(number, self.spec.image_type()) };
            slot.target = Some(results.skip(number * self.capacity.result));
            self.compute(slot, &bound, image, &mut |_| true)?;
            self.look_again(slot, &bound)?;
            slot.stream.wait()?;
        }
        Ok(self.counted(source.count))
    }

    /// Whether the last run of such images met some that are to be computed again.
    pub fn any_again(&self, slot: &Slot, count: usize) -> bool {
        (0..count).any(|number| slot.answer(number))
    }

    /// Puts an image that lies on this device into a slot's queue; its results stay in the slot, or go to `out`.
    /// `go_on` is that of [`Unit::submit`], and so is what comes back.
    ///
    /// # Errors
    /// The device's.
    pub fn submit_resident(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
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
        let view = self.view_of(image);
        // Its maker answers for the positions of its layout, which are all that is read.
        let at = Address { at: image.begin(), bytes: usize::MAX };
        self.compute(slot, bound, Images { at, view, bytes: 0, count: 1 }, go_on)
    }

    /// How an image lies that is on this device.
    fn view_of(&self, image: &DeviceImage<'_>) -> ImageView {
        let (stride, channel) = image.layout().strides();
        ImageView {
            image_stride: 0,
            channel_stride: channel as i64,
            stride: stride.map(|step| step as i64),
            ..self.image_view()
        }
    }

    /// The device's time for `runs` runs of images that lie on it, one after the other, in turn with their results.
    ///
    /// They are launched as one graph, as a queue's runs can be ([`Unit::enqueue`]), so the host's part of a launch is
    /// in no time, behind a stream that cleared memory: none of what earlier runs left is in the device's caches.
    ///
    /// # Errors
    /// The device's; an image whose samples the kernel from image to result does not serve, which takes the host's word
    /// between two runs.
    pub fn time_resident(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        images: &[DeviceImage<'_>],
        outs: &[DeviceResults<'_>],
        runs: usize,
    ) -> Result<DeviceTime, Fault> {
        let stream = slot.stream.clone();
        let mut filler = Buffer::new(&stream, FILLER_BYTES)?;
        for (image, out) in images.iter().zip(outs) {
            stream.follow(image, Some(out))?;
        }
        slot.unserved(true);
        let all: Vec<DeviceImages<'_>> = images.iter().map(|image| DeviceImages::from(*image)).collect();
        let mut put = |runs: usize| {
            let mut pairs = all.iter().zip(outs).cycle().take(runs);
            let extraordinary = Extraordinary::Told;
            pairs.try_for_each(|(images, out)| self.put(slot, bound, images, out, extraordinary))
        };
        put(1)?;
        let graph = stream.record(|| put(runs))?;
        graph.launch()?;
        (0..2).try_for_each(|_| filler.clear(&stream, filler.bytes()))?;
        let from = stream.mark()?;
        graph.launch()?;
        let to = stream.mark()?;
        let queued = !from.reached()?;
        let each = from.until(&to)?.div_f64(runs as f64);
        slot.target = None;
        match slot.unserved(false) {
            true => Err(decided_between()),
            false => Ok(DeviceTime { each, queued }),
        }
    }

    /// The device's time for `runs` runs of images that lie on it with a template of their own each.
    ///
    /// # Errors
    /// As [`Unit::time_resident`].
    pub fn time_paired_resident(
        &self,
        slot: &mut Slot,
        pairs: &[DevicePairs<'_>],
        outs: &[DeviceResults<'_>],
        runs: usize,
    ) -> Result<DeviceTime, Fault> {
        let mut filler = Buffer::new(&slot.stream, FILLER_BYTES)?;
        let time = self.time(slot, &mut filler, runs, never, |slot| {
            let all = pairs.iter().zip(outs).cycle();
            all.take(runs).try_for_each(|(pairs, out)| self.submit_paired_resident(slot, pairs, out))
        })?;
        match pairs.first().is_some_and(|pairs| self.any_again(slot, pairs.count())) {
            true => Err(decided_between()),
            false => Ok(time),
        }
    }

    /// The device's time for `runs` runs of images that were laid in a slot. Runs of 5 ms and more, and of more than
    /// `limit`, are no more than these: others run twice before, so that the device never waits for the host.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn time_laid(
        &self,
        (slot, filler): (&mut Slot, &mut Buffer),
        bound: &DeviceTemplates,
        images: &Images,
        runs: usize,
        limit: Option<Duration>,
    ) -> Result<DeviceTime, Fault> {
        self.time(slot, filler, runs, told_by_first(limit), |slot| {
            (0..runs).try_for_each(|_| self.compute(slot, bound, *images, &mut |_| true).map(|_| ()))
        })
    }

    /// As [`Unit::time_laid`], of images that have a template of their own each.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn time_laid_pairs(
        &self,
        (slot, filler): (&mut Slot, &mut Buffer),
        [images, templates]: &[Images; 2],
        runs: usize,
        limit: Option<Duration>,
    ) -> Result<DeviceTime, Fault> {
        self.time(slot, filler, runs, told_by_first(limit), |slot| {
            (0..runs).try_for_each(|_| self.go_paired(slot, images, templates))
        })
    }

    /// The device's time for what `pass` puts into a slot's queue, which are so many runs: of the first pass, where
    /// `enough` says so of a run's time in it. `filler` is what is cleared until the last pass stands in the queue.
    fn time(
        &self,
        slot: &mut Slot,
        filler: &mut Buffer,
        runs: usize,
        enough: impl Fn(Duration) -> bool,
        mut pass: impl FnMut(&mut Slot) -> Result<(), Fault>,
    ) -> Result<DeviceTime, Fault> {
        let stream = slot.stream.clone();
        let share = |time: Duration| time.div_f64(runs.max(1) as f64);
        let from = stream.mark()?;
        pass(slot)?;
        let each = share(from.until(&stream.mark()?)?);
        if enough(each) {
            return Ok(DeviceTime { each, queued: false });
        }
        let mut fill = |times: usize| (0..times).try_for_each(|_| filler.clear(&stream, filler.bytes()));
        fill(1)?;
        let before = stream.mark()?;
        fill(1)?;
        let one = before.until(&stream.mark()?)?.max(Duration::from_micros(1));
        // The second pass finds everything as the third does; how long it takes to put in is how long to fill.
        let began = Instant::now();
        pass(slot)?;
        let filled = (2 * began.elapsed()).min(MOST_FILLED).div_duration_f64(one).ceil().max(1.0);
        stream.wait()?;
        fill((filled as usize).min(MOST_FILLS))?;
        let from = stream.mark()?;
        pass(slot)?;
        let to = stream.mark()?;
        let queued = !from.reached()?;
        Ok(DeviceTime { each: share(from.until(&to)?), queued })
    }

    /// Puts one batch of tiles into a slot's queue.
    fn batch(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        source: &Images,
        number: usize,
        first: usize,
        tiles: usize,
    ) -> Result<(), Fault> {
        let stream = slot.stream.clone();
        let Capacity { careful, needs, .. } = self.capacity;
        let mut places = slot.places();
        places[Room::Tiles] = places[Room::Tiles].skip(first * size_of::<Tile>());
        places[Room::Image] = source.at;
        let layout = Layout { tiles: tiles as i32, ..self.capacity.layout };
        let images = (first + tiles).div_ceil(self.tiles.len());
        let of_template = self.spec.out_shape().len() * self.spec.out_type().row().size;
        let result_reach = (images - 1) * self.capacity.result + of_template;
        let (image, image_reach) = (source.view, source.bytes);
        let batch = Batch { layout, image, places, types: self.decisions.types, image_reach, result_reach };
        let forced = self.decisions.scheme.forced.unwrap_or(0.0);
        let all_weights = bound.weights.as_ref().map(|weights| weights.address(&stream));
        let weights = all_weights.filter(|_| self.decisions.scheme.masked);
        let mask = bound.mask.as_ref().map(|mask| mask.address(&stream));
        let (steps, open) = (&self.steps, &*slot.open);
        let by_tile = self.capacity.by_tile;
        let run = Run { stream: &stream, steps, batch: &batch, open, weights: all_weights, mask, by_tile };
        for (index, template) in bound.templates.iter().enumerate() {
            if template.gathers {
                if careful {
                    let found = &mut slot.rooms[Room::Found];
                    found.clear(&stream, found.bytes())?;
                }
                let offset = match (self.decisions.scheme.integers, &template.offsets) {
                    (None, _) if needs.centred => Offset::Median,
                    (None, Some(offsets)) => Offset::Given(offsets.address(&stream)),
                    _ => Offset::None,
                };
                if !self.scores() {
                    self.steps.gather(&stream, &batch, Gathering { offset, careful, forced })?;
                }
                if careful {
                    self.steps.hits(&stream, &batch, weights)?;
                }
                if self.capacity.box_sums() {
                    self.steps.sums(&stream, &batch, needs.sum)?;
                }
                if self.capacity.by_tile {
                    self.steps.figures(&stream, &batch, careful)?;
                }
                self.decisions.method.load(&run)?;
            }
            let size = self.spec.out_type().row().size;
            let mut batch = batch;
            batch.places[Room::Result] = places[Room::Result].skip(index * self.spec.out_shape().len() * size);
            batch.places[Room::Counts] = places[Room::Counts].skip((number * self.spec.templates() + index) * 4);
            let (view, lists) = (self.result_view(), self.doubts());
            let (constants, thresholds) = (&template.constants, template.thresholds.as_ref());
            template.taps.run(&Run { batch: &batch, ..run }, &Scoring { constants, thresholds, view: &view, lists })?;
            if !self.scores() {
                let by_tile = thresholds.filter(|_| self.capacity.by_tile);
                if let Some(thresholds) = by_tile {
                    self.steps.cross_figures(&stream, &batch, careful)?;
                    self.steps.doubt(&stream, &batch, thresholds, template.taps.wave())?;
                }
                let Needs { sum, square, .. } = needs;
                let how = Finishing { sum, square, careful, thresholds: by_tile.is_some(), lists };
                self.steps.finish(&stream, &batch, constants, &view, how)?;
            }
            if self.doubts() {
                let repair = Repair {
                    values: template.values.address(&stream),
                    raw: template.raw.as_ref().map(|raw| raw.address(&stream)),
                    weights,
                };
                let multiprocessors = self.gpu.device.multiprocessors;
                self.steps.repair(&stream, &batch, constants, &view, repair, multiprocessors)?;
            }
        }
        Ok(())
    }

    fn image_view(&self) -> ImageView {
        let [depth, height, width] = self.spec.image().padded();
        let channels = self.spec.channels();
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
    pub fn collect(
        &self,
        slot: &mut Slot,
        bound: &DeviceTemplates,
        outs: &mut [AnyViewMut<'_>],
    ) -> Result<Statistics, Fault> {
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
    pub fn collect_resident(&self, slot: &mut Slot, bound: &DeviceTemplates) -> Result<Statistics, Fault> {
        self.look_again(slot, bound)?;
        self.statistics(slot, self.spec.templates())
    }

    /// Has the pipeline compute again what a kernel from image to result does not serve; whether it did.
    ///
    /// # Errors
    /// The device's, also of what was put in before.
    pub fn look_again(&self, slot: &mut Slot, bound: &DeviceTemplates) -> Result<bool, Fault> {
        let stream = slot.stream.clone();
        if let Some(source) = slot.straight.take() {
            stream.wait()?;
            if slot.told.read(0) != 0 {
                self.pipeline(slot, bound, source, &mut |_| true)?;
                slot.staging.fetch_again(&stream, &slot.rooms[Room::Result], source.count * self.capacity.result)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits for so many results, and counts what was done for them.
    ///
    /// # Errors
    /// The device's, also of what was put in before.
    pub fn statistics(&self, slot: &mut Slot, results: usize) -> Result<Statistics, Fault> {
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
    pub fn bind(&self, checked: &[Checked], weights: &Weights) -> Result<DeviceTemplates, Fault> {
        let stream = self.gpu.stream()?;
        DeviceTemplates::new(&self.desk(&stream), &self.decisions, self.doubts(), checked, weights)
    }

    /// The most products of lines that one of the templates takes, if its method takes them so and none takes more than
    /// `limit`.
    pub fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        let Decisions { method, template, .. } = &self.decisions;
        let channels = checked.iter().flat_map(|checked| &checked.values);
        channels
            .map(|values| method.rank(*template, &template::weighted(values, weights), limit))
            .try_fold(0, |most, rank| Some(most.max(rank?)))
    }

    /// What the method is told of the device, by a stream.
    fn desk<'a>(&'a self, stream: &'a Stream) -> Desk<'a> {
        Desk {
            gpu: &self.gpu,
            stream,
            kernel: self.cross.as_ref(),
            template: self.decisions.template,
            channels: self.spec.channels(),
            types: self.decisions.types,
            straight: self.straight,
        }
    }

    /// Bytes of one bound template.
    pub fn template_bytes(&self) -> usize {
        let (samples, channels) = (self.spec.template().len(), self.spec.channels());
        // Its values stay there, and those before centring and scaling may.
        channels * (2 * samples * size_of::<f64>() + self.decisions.method.taps_bytes(samples))
    }

    /// Bytes of the device that its plan leaves, of those that it may take.
    pub fn spare_bytes(&self) -> usize {
        let templates = self.template_bytes().saturating_mul(self.spec.templates());
        self.decisions.memory.saturating_sub(templates).saturating_sub(self.slots() * self.slot_bytes())
    }

    /// The kernels that find peaks in its results, compiled when they are asked for first.
    ///
    /// # Errors
    /// NVRTC's or the driver's.
    pub fn peaks(&self) -> Result<&reduction::Kernels, &Fault> {
        self.peaks.get_or_init(|| reduction::Kernels::new(&self.gpu, self.out_type())).as_ref()
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The type of its results.
    pub fn out_type(&self) -> DType {
        self.spec.out_type()
    }

    /// The shape of a result.
    pub fn out_shape(&self) -> Shape {
        self.spec.out_shape()
    }

    /// Templates of an image.
    pub fn templates(&self) -> usize {
        self.spec.templates()
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
                words::time(code.time.as_nanos() as f64)
            )
        };
        let gpu = &self.gpu.device;
        let mut lines = vec![format!("device   {}: {}, {}", gpu.index, gpu.name, gpu.target())];
        let tile = self.decisions.tile;
        lines.push(format!(
            "batches  of {} of up to {}x{}x{} outputs, groups of {}",
            counted(self.capacity.batch, "tile"),
            tile[0],
            tile[1],
            tile[2],
            counted(self.capacity.group, "image")
        ));
        if self.scores() {
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
        if let (Some((code, function)), Some(entry)) = (&self.cross, self.decisions.method.entry()) {
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

/// No first pass tells what runs take.
fn never(_: Duration) -> bool {
    false
}

/// Whether a first pass tells what runs of laid images take: it is long, or longer than they may take.
fn told_by_first(limit: Option<Duration>) -> impl Fn(Duration) -> bool {
    move |each| each >= LONG || limit.is_some_and(|limit| each > limit)
}

/// The fault of runs that cannot be timed, since they are not the device's alone.
fn decided_between() -> Fault {
    let reason =
        "the image has samples that the kernel from image to result does not serve, so the host decides in between";
    Fault::new("the time of kernels", reason)
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
