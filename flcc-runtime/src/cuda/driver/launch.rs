//! The driver: devices, contexts, streams, modules and launches.
//!
//! cudarc loads the driver when it is first called and panics where the library or a symbol is missing, so [`probe`]
//! asks for the library and its version before anything else does. Everything else starts at a [`Gpu`], which only a
//! probe that succeeded gives out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg,
    result, sys,
};
use cudarc::nvrtc::Ptx;

use crate::cuda::capability::f32_per_f64;
use crate::cuda::driver::{compile, libraries};
use crate::cuda::fault::Fault;
use crate::plan::machine::Device;
use crate::problem::error_model::Doubt;
use crate::run::device_image::{DeviceImage, DeviceResults, DeviceStream};

/// The oldest CUDA version whose driver has every function that is called here; each is looked up when it is first
/// called.
const NEEDED: i32 = 12_000;

/// What a probe of the machine found.
pub struct Found {
    /// The devices.
    pub devices: Vec<Device>,
    /// The driver's version, or why there is no device.
    pub about: String,
}

/// The devices of this machine, asked for once.
pub fn probe() -> &'static Found {
    FOUND.get_or_init(|| detect().unwrap_or_else(|about| Found { devices: Vec::new(), about }))
}

/// Whether this process has looked for GPUs, and found some.
pub fn found() -> bool {
    FOUND.get().is_some_and(|found| !found.devices.is_empty())
}

/// What CUDA is here, where this process has looked.
pub fn about() -> Option<String> {
    FOUND.get().map(|found| found.about.clone())
}

static FOUND: OnceLock<Found> = OnceLock::new();

fn detect() -> Result<Found, String> {
    // SAFETY: it loads a library by its well-known names and closes it again.
    if !unsafe { sys::is_culib_present() } {
        return Err("no NVIDIA driver: the library libcuda was not found".into());
    }
    let mut version = 0;
    // SAFETY: the library is there, and this function is in every version of it; it writes one integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(|error| format!("the driver does not tell its version: {error}"))?;
    let name = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    if version < NEEDED {
        return Err(format!("the driver serves CUDA {}, expected at least {}", name(version), name(NEEDED)));
    }
    result::init().map_err(|error| format!("the driver does not start: {error}"))?;
    let count =
        result::device::get_count().map_err(|error| format!("the driver does not count its devices: {error}"))?;
    let devices = (0..count)
        .map(describe)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("a device does not answer: {error}"))?;
    if devices.is_empty() {
        return Err("the driver knows no device".into());
    }
    let nvrtc =
        compile::version().map_or_else(|fault| fault.to_string(), |(major, minor)| format!("NVRTC {major}.{minor}"));
    let cufft = libraries::present().map_or_else(|fault| fault.to_string(), |()| "cuFFT".into());
    Ok(Found { devices, about: format!("driver for CUDA {}, {nvrtc}, {cufft}", name(version)) })
}

fn describe(index: i32) -> Result<Device, result::DriverError> {
    use sys::CUdevice_attribute as Attribute;
    let device = result::device::get(index)?;
    // SAFETY: `device` was given out by the driver a line above.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let capability = (major as u32, minor as u32);
    Ok(Device {
        index: index as usize,
        name: result::device::get_name(device)?,
        capability,
        f32_per_f64: f32_per_f64(capability),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
        // SAFETY: as above.
        memory: unsafe { result::device::total_mem(device) }?,
    })
}

/// An open device.
pub struct Gpu {
    /// What it is.
    pub device: Device,
    context: Arc<CudaContext>,
    modules: Mutex<HashMap<u128, Weak<CudaModule>>>,
}

impl Gpu {
    /// Opens a device; every caller gets the same one.
    ///
    /// # Errors
    /// There is no such device, or its context cannot be made.
    pub fn open(index: usize) -> Result<Arc<Gpu>, Fault> {
        static OPEN: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());
        let found = probe();
        let device = found
            .devices
            .iter()
            .find(|device| device.index == index)
            .ok_or_else(|| Fault::new("device", &found.about))?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = open.iter().find(|gpu| gpu.device.index == index) {
            return Ok(Arc::clone(gpu));
        }
        let context = CudaContext::new(index)?;
        // SAFETY: every buffer is used on one stream at a time; where another takes over, the first was waited for.
        unsafe { context.disable_event_tracking() };
        let gpu = Arc::new(Gpu { device: device.clone(), context, modules: Mutex::default() });
        open.push(Arc::clone(&gpu));
        Ok(gpu)
    }

    /// A new queue of work.
    ///
    /// # Errors
    /// The driver's.
    pub fn stream(&self) -> Result<Stream, Fault> {
        Ok(Stream(self.context.new_stream()?))
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Free bytes of its memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn free_memory(&self) -> Result<usize, Fault> {
        Ok(self.context.mem_get_info()?.0)
    }

    /// Loads machine code. With a key, everyone who asks for that key gets one copy.
    ///
    /// # Errors
    /// The driver does not take it.
    pub fn module(&self, cubin: &[u8], key: Option<u128>) -> Result<Module, Fault> {
        let load = || self.context.load_module(Ptx::from_binary(cubin.to_vec()));
        let Some(key) = key else {
            return Ok(self.own(load()?));
        };
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&key).and_then(Weak::upgrade) {
            return Ok(self.own(module));
        }
        modules.retain(|_, module| module.strong_count() > 0);
        let module = load()?;
        modules.insert(key, Arc::downgrade(&module));
        Ok(self.own(module))
    }

    fn own(&self, module: Arc<CudaModule>) -> Module {
        Module { module, context: Arc::clone(&self.context) }
    }
}

/// The context that is current in the calling thread, and again when this is dropped: what else computes there on GPUs
/// chooses its device by it.
pub struct KeptContext(Option<sys::CUcontext>);

impl KeptContext {
    /// The context that is current now; nothing to keep where there is no GPU.
    pub fn new() -> KeptContext {
        let current = || result::ctx::get_current().ok().map(|context| context.unwrap_or(std::ptr::null_mut()));
        KeptContext((!probe().devices.is_empty()).then(current).flatten())
    }
}

impl Default for KeptContext {
    fn default() -> KeptContext {
        KeptContext::new()
    }
}

impl Drop for KeptContext {
    fn drop(&mut self) {
        if let Some(context) = self.0 {
            // SAFETY: it was current in this thread when this was made, and whose it is keeps it while it computes;
            // null leaves none current.
            let _ = unsafe { result::ctx::set_current(context) };
        }
    }
}

/// A queue of work on a device: what is put in is done in order.
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<CudaStream>);

impl Stream {
    /// Waits until all that was put in is done.
    ///
    /// # Errors
    /// What went wrong in the meantime.
    pub fn wait(&self) -> Result<(), Fault> {
        Ok(self.0.synchronize()?)
    }

    /// Waits until nothing is in the queue, whatever became of it. Unlike [`Stream::wait`] it is not kept from waiting
    /// by what went wrong elsewhere in the context.
    pub(crate) fn settle(&self) {
        // SAFETY: the context and the stream live as long as `self`; both calls take handles and touch no memory of
        // ours.
        unsafe {
            let _ = result::ctx::set_current(self.0.context().cu_ctx());
            let _ = result::stream::synchronize(self.0.cu_stream());
        }
    }

    /// Waits until the device has nothing to do, whatever became of it.
    pub(crate) fn settle_device(&self) {
        // SAFETY: the context lives as long as `self`; no memory of ours is touched.
        if unsafe { result::ctx::set_current(self.0.context().cu_ctx()) }.is_ok() {
            let _ = result::ctx::synchronize();
        }
    }

    /// A stream of the caller's, on this stream's device.
    pub(crate) fn borrowed(&self, stream: DeviceStream) -> Stream {
        // SAFETY: who made the value answers for its handle, and for the device; nothing is destroyed with it.
        Stream(unsafe { self.0.context().wrap_borrowed_stream(stream.handle() as sys::CUstream) })
    }

    /// Lets what is put in from now on wait for what the streams hold now that an image and its results are behind.
    ///
    /// # Errors
    /// The driver's, or a stream that records a graph: what is put into it does not run.
    pub(crate) fn follow(&self, image: &DeviceImage<'_>, out: Option<&DeviceResults<'_>>) -> Result<(), Fault> {
        let named = |error: result::DriverError| Fault::new("the stream of the image or the result", error);
        for handle in [image.stream(), out.and_then(DeviceResults::stream)].into_iter().flatten() {
            self.bind()?;
            let mut capturing = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            // SAFETY: who made the image or the results answers for the handle; one status is written.
            unsafe { sys::cuStreamIsCapturing(handle as sys::CUstream, &raw mut capturing) }.result().map_err(named)?;
            if capturing != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
                return Err(Fault::new(
                    "the stream of the image or the result",
                    "it records a graph, and a run waits until its results are there",
                ));
            }
            // SAFETY: as above; the stream is used here alone, to record what it holds.
            let other = unsafe { self.0.context().wrap_borrowed_stream(handle as sys::CUstream) };
            self.0.join(&other).map_err(named)?;
        }
        Ok(())
    }

    /// What `work` puts in, which does not run, as a graph that runs as often as it is launched into this stream. The
    /// memory that it names is to be there whenever it runs.
    ///
    /// # Errors
    /// What `work` says; the driver's; nothing was put in.
    pub(crate) fn record(&self, work: impl FnOnce() -> Result<(), Fault>) -> Result<Graph, Fault> {
        self.0.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let put = work();
        // Whatever became of it, the stream records no longer.
        let graph = self.0.end_capture(sys::CUgraphInstantiate_flags(0));
        put?;
        graph?.map(Graph).ok_or_else(|| Fault::new("a graph", "nothing was put into it"))
    }

    /// A mark behind all that was put in until now, which keeps the time when the device comes to it.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn mark(&self) -> Result<Mark, Fault> {
        Ok(Mark(self.0.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?))
    }

    pub(crate) fn raw(&self) -> sys::CUstream {
        self.0.cu_stream()
    }

    pub(crate) fn bind(&self) -> Result<(), Fault> {
        Ok(self.0.context().bind_to_thread()?)
    }
}

/// Work that was recorded.
pub(crate) struct Graph(CudaGraph);

impl Graph {
    /// Puts all of it into the stream that recorded it.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn launch(&self) -> Result<(), Fault> {
        Ok(self.0.launch()?)
    }
}

/// A mark in a stream.
pub(crate) struct Mark(CudaEvent);

impl Mark {
    /// Whether the device has come to it.
    ///
    /// # Errors
    /// What went wrong in the meantime.
    pub(crate) fn reached(&self) -> Result<bool, Fault> {
        Ok(self.0.try_is_complete()?)
    }

    /// Waits for a later mark; the device's time from this one to that.
    ///
    /// # Errors
    /// What went wrong in the meantime.
    pub(crate) fn until(&self, later: &Mark) -> Result<Duration, Fault> {
        let milliseconds = f64::from(self.0.elapsed_ms(&later.0)?);
        Ok(Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default())
    }
}

/// Loaded machine code.
#[derive(Clone)]
pub struct Module {
    module: Arc<CudaModule>,
    context: Arc<CudaContext>,
}

impl Module {
    /// One of its kernels.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn function(&self, name: &str) -> Result<Function, Fault> {
        let function = self.module.load_function(name).map_err(|error| Fault::new(name, error))?;
        Ok(Function { function, context: Arc::clone(&self.context), name: name.to_string(), shared: 0 })
    }

    /// Copies to a variable in constant memory, before anything that is put into the stream later.
    ///
    /// # Errors
    /// There is none of that name, or it is smaller.
    pub fn write_constant(&self, name: &str, bytes: &[u8], stream: &Stream) -> Result<(), Fault> {
        let mut variable = self.module.get_global(name, &stream.0).map_err(|error| Fault::new(name, error))?;
        if variable.len() < bytes.len() {
            return Err(Fault::new(
                name,
                format!("expected {} bytes of constant memory, got {}", bytes.len(), variable.len()),
            ));
        }
        stream.0.memcpy_htod(bytes, &mut variable)?;
        stream.wait()
    }
}

/// A kernel that is loaded on a device.
#[derive(Clone)]
pub struct Function {
    function: CudaFunction,
    context: Arc<CudaContext>,
    name: String,
    /// Bytes of dynamic shared memory of a block.
    shared: u32,
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Registers of a thread.
    pub registers: i32,
    /// Bytes of shared memory of a block.
    pub shared: i32,
    /// Blocks of so many threads that a multiprocessor holds.
    pub blocks: u32,
    /// Threads that a multiprocessor holds at most.
    pub most_threads: u32,
}

impl Function {
    /// The name of the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel with so many bytes of dynamic shared memory a block. It may have as many as the device has, since
    /// others may launch the same loaded code with more.
    ///
    /// # Errors
    /// The device has less.
    pub fn with_shared(self, bytes: usize) -> Result<Function, Fault> {
        let shared = u32::try_from(bytes).unwrap_or(u32::MAX);
        let there = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let there = self.context.attribute(there)? - self.function.shared_size_bytes()?;
        if i64::from(shared) > i64::from(there) {
            let words = format!("{bytes} bytes of shared memory a block, where there are {there}");
            return Err(Fault::new(&self.name, words));
        }
        let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let set = self.function.set_attribute(most, there);
        set.map_err(|error| Fault::new(&self.name, format!("{there} bytes of shared memory a block: {error}")))?;
        Ok(Function { shared, ..self })
    }

    /// What it takes with blocks of so many threads.
    ///
    /// # Errors
    /// The driver's.
    pub fn footprint(&self, threads: u32) -> Result<Footprint, Fault> {
        let most = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        Ok(Footprint {
            most_threads: self.context.attribute(most)? as u32,
            registers: self.function.num_regs()?,
            shared: self.function.shared_size_bytes()? + self.shared as i32,
            blocks: self.function.occupancy_max_active_blocks_per_multiprocessor(
                threads,
                self.shared as usize,
                None,
            )?,
        })
    }
}

/// An address on a device, with the bytes that lie there; null where a kernel takes none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Address {
    /// The first byte.
    pub(crate) at: u64,
    /// How many bytes.
    pub(crate) bytes: usize,
}

impl Address {
    /// Where, as a number, for others that compute on the device.
    pub fn number(self) -> u64 {
        self.at
    }

    /// What lies so many bytes further.
    pub fn skip(self, bytes: usize) -> Address {
        if self.at == 0 {
            self
        } else {
            Address { at: self.at + bytes as u64, bytes: self.bytes.saturating_sub(bytes) }
        }
    }
}

/// A kernel's argument.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// Memory, and how many bytes of it the kernel reads or writes.
    Room(Address, usize),
    /// No memory.
    Null,
    /// An integer.
    Int(i32),
    /// A long integer.
    Long(i64),
    /// A double.
    Double(f64),
    /// A structure.
    Image(&'a ImageView),
    /// A structure.
    Layout(&'a Layout),
    /// A structure.
    Cross(&'a CrossLayout),
    /// A structure.
    Result(&'a ResultView),
    /// A structure.
    Constants(&'a Constants),
    /// A structure.
    Thresholds(&'a Thresholds),
    /// A structure.
    Sought(&'a SoughtView),
    /// A structure.
    Whole(&'a WholeView),
    /// A structure.
    Shares(&'a SharesView),
    /// A structure.
    Parts(&'a PartsView),
    /// A structure.
    Windows(&'a WindowsView),
}

impl Stream {
    /// Puts a kernel into the queue, if its memory has the room that it needs.
    ///
    /// # Errors
    /// Too little room, or the driver does not take it.
    pub(crate) fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        threads: [u32; 2],
        arguments: &[Argument<'_>],
    ) -> Result<(), Fault> {
        if grid.contains(&0) {
            return Ok(());
        }
        let null = 0u64;
        let mut builder = self.0.launch_builder(&function.function);
        for argument in arguments {
            match argument {
                Argument::Room(address, needed) => {
                    if address.bytes < *needed {
                        return Err(Fault::new(
                            &function.name,
                            format!("{needed} bytes are needed where {} are", address.bytes),
                        ));
                    }
                    builder.arg(&address.at)
                }
                Argument::Null => builder.arg(&null),
                Argument::Int(value) => builder.arg(value),
                Argument::Long(value) => builder.arg(value),
                Argument::Double(value) => builder.arg(value),
                Argument::Image(value) => builder.arg(*value),
                Argument::Layout(value) => builder.arg(*value),
                Argument::Cross(value) => builder.arg(*value),
                Argument::Result(value) => builder.arg(*value),
                Argument::Constants(value) => builder.arg(*value),
                Argument::Thresholds(value) => builder.arg(*value),
                Argument::Sought(value) => builder.arg(*value),
                Argument::Whole(value) => builder.arg(*value),
                Argument::Shares(value) => builder.arg(*value),
                Argument::Parts(value) => builder.arg(*value),
                Argument::Windows(value) => builder.arg(*value),
            };
        }
        let config = LaunchConfig {
            grid_dim: grid.into(),
            block_dim: (threads[0], threads[1], 1),
            shared_mem_bytes: function.shared,
        };
        // SAFETY: the arguments are those of the kernel's signature in its order: each kernel is launched from one
        // function, which states beside each address how far the kernel goes there, and that was checked above; an
        // image that its maker laid on the device is read at the positions of its layout, which the maker answers for.
        // A buffer is used on one stream, so what is written is used by nothing else until the stream comes there.
        unsafe { builder.launch(config) }.map_err(|error| Fault::new(&function.name, error))?;
        Ok(())
    }
}

/// `FlccImage`: the device copy of images.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageView {
    /// Elements from one image to the next.
    pub image_stride: i64,
    /// Elements from one channel to the next.
    pub channel_stride: i64,
    /// Elements along each axis.
    pub stride: [i64; 3],
    /// Samples along each axis.
    pub lengths: [i32; 3],
    /// Channels.
    pub channels: i32,
    /// What lies outside under boundary zero and constant.
    pub fill: f64,
}

/// `FlccTile`: one tile of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tile {
    /// The tile's first sample in image coordinates.
    pub begin: [i32; 3],
    /// Samples along each axis.
    pub len: [i32; 3],
    /// Outputs along each axis.
    pub shape: [i32; 3],
    /// First output asked for.
    pub keep_from: [i32; 3],
    /// Past the last output asked for.
    pub keep_to: [i32; 3],
    /// Where `keep_from` lies in the result.
    pub place: [i32; 3],
    /// Which image of the device copy.
    pub image: i32,
    /// Fills the struct up to a whole number of eight bytes, as in the kernels.
    pub pad: i32,
}

/// `FlccLayout`: the capacity of every tile.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Elements from one row of samples, marks and row sums to the next.
    pub in_row: i64,
    /// Elements from one plane of samples, marks and row sums to the next.
    pub in_plane: i64,
    /// Elements from one channel of samples, marks and row sums to the next.
    pub in_channel: i64,
    /// Elements from one tile of samples, marks and row sums to the next.
    pub in_tile: i64,
    /// Elements from one row of window sums and hits to the next.
    pub out_row: i64,
    /// Elements from one plane of window sums and hits to the next.
    pub out_plane: i64,
    /// Elements from one channel of window sums and hits to the next.
    pub out_channel: i64,
    /// Elements from one tile of window sums and hits to the next.
    pub out_tile: i64,
    /// Elements from one row of the cross term to the next.
    pub cross_row: i64,
    /// Elements from one plane of the cross term to the next.
    pub cross_plane: i64,
    /// Elements from one channel of the cross term to the next.
    pub cross_channel: i64,
    /// Elements from one tile of the cross term to the next.
    pub cross_tile: i64,
    /// Samples of a tile, slack included.
    pub in_shape: [i32; 3],
    /// Outputs of the largest tile.
    pub out_shape: [i32; 3],
    /// The template.
    pub template: [i32; 3],
    /// Channels.
    pub channels: i32,
    /// Tiles of the batch.
    pub tiles: i32,
}

/// `FlccCross`: what a cross kernel needs to know.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossLayout {
    /// Elements from one row of samples to the next.
    pub in_row: i64,
    /// Elements from one plane of samples to the next.
    pub in_plane: i64,
    /// Elements from one tile of samples to the next.
    pub in_tile: i64,
    /// Elements from one row of the cross term to the next.
    pub out_row: i64,
    /// Elements from one plane of the cross term to the next.
    pub out_plane: i64,
    /// Elements from one tile of the cross term to the next.
    pub out_tile: i64,
    /// Outputs.
    pub out_shape: [i32; 3],
    /// Planes of outputs.
    pub out_depth: i32,
}

/// `FlccResult`: a result region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultView {
    /// Elements from one image's result to the next.
    pub image_stride: i64,
    /// Elements along each axis.
    pub stride: [i64; 3],
}

/// `Whole`: how an image and its results lie around transforms of all of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeView {
    /// Samples of a transform.
    pub side: [i32; 3],
    /// The image's coordinates of its first sample.
    pub begin: [i32; 3],
    /// Samples from there on that results meet.
    pub needed: [i32; 3],
    /// The image's coordinates of the sample that the first tap of the first result meets.
    pub origin: [i32; 3],
    /// Results.
    pub out: [i32; 3],
}

/// `Shares`: how the outputs of an image are shared among large tiles.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SharesView {
    /// Rows of outputs.
    pub height: i32,
    /// Columns of outputs.
    pub width: i32,
    /// The image's row of the sample that the first tap of the first output meets.
    pub y: i32,
    /// The column of that sample.
    pub x: i32,
    /// Rows of outputs of a tile.
    pub step_y: i32,
    /// Columns of outputs of a tile.
    pub step_x: i32,
    /// Tiles of a row.
    pub across: i32,
    /// Tiles of an image.
    pub tiles: i32,
}

/// `Parts`: how the outputs of a volume are cut into tiles.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PartsView {
    /// Outputs of an image.
    pub out: [i32; 3],
    /// The image's coordinates of the sample that the first tap of the first output meets.
    pub begin: [i32; 3],
    /// Outputs of a tile.
    pub step: [i32; 3],
    /// Tiles of an image.
    pub tiles: [i32; 3],
}

/// `WindowsOf`: how blocks share the windows of tiles, and the numbers of a template.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowsView {
    /// Planes, or rows, of outputs that a block, or a warp, has.
    pub part: i32,
    /// Blocks, or warps, of a row of outputs of the largest tile.
    pub across: i32,
    /// Transforms of the largest tile, a threshold each.
    pub tiles: i32,
    /// Rows of outputs that share an offset and sums of bands.
    pub region: i32,
    /// Those of the largest tile.
    pub regions: i32,
    /// Rows of samples of a band.
    pub band: i32,
    /// Bands of a region.
    pub bands: i32,
    /// 1 / the norm of the template.
    pub norm: f32,
    /// 1 / samples of a window.
    pub share: f64,
}

/// Most blocks of a grid's second and third axis.
pub(crate) const MOST_BLOCKS: usize = 65_535;

/// Channels that [`Constants`] has room for.
pub const MOST_CHANNELS: usize = 8;

/// `FlccConstants`: what is the same for every panel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Constants {
    /// `sum w`.
    pub n: f64,
    /// Energy of the template.
    pub energy: f64,
    /// Thresholds of doubt that are the same for every tile.
    pub doubt: [f64; 2],
    /// The power of two in the template's values.
    pub template_scale: f64,
    /// `sum w t` of each channel as 128 bits, low half first.
    pub exact_sum: [[i64; 2]; MOST_CHANNELS],
    /// The exact energy.
    pub exact_energy: [i64; 2],
    /// Whether every score is NaN.
    pub nonfinite: i32,
    /// Whether the sums came under a mask.
    pub masked: i32,
}

/// `FlccFigures`: what the thresholds of a tile depend on, of its samples or of its cross term.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TileFigures {
    /// Sum of squares.
    pub squares: f64,
    /// Largest magnitude; of a cross term of several channels the sum of theirs.
    pub largest: f64,
}

/// `FlccDoubt`: how the thresholds of a tile follow from its figures.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Thresholds {
    /// Share of the tile's norm.
    pub of_tile: f64,
    /// Share of the cross term's root mean square.
    pub of_result: f64,
    /// Share of the cross term's largest magnitude.
    pub of_peak: f64,
    /// Share of the tile's energy.
    pub of_energy: f64,
    /// What is in doubt whatever the tile.
    pub least: f64,
    /// Share of the panel's sum of squares.
    pub share: f64,
    /// Largest magnitude of the template's values, times the channels, whose results add up.
    pub largest_tap: f64,
}

impl Thresholds {
    /// All that the model knows of a template, with the largest magnitude of its values.
    pub fn new(doubt: Doubt, largest_tap: f64) -> Thresholds {
        let Doubt { of_tile, of_result, of_peak, of_energy, least, share } = doubt;
        Thresholds { of_tile, of_result, of_peak, of_energy, least, share, largest_tap }
    }
}

/// `FlccSought`: what peaks are looked for, and the cells of a result.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoughtView {
    /// Scores of a result.
    pub scores: u64,
    /// Cells of it.
    pub cells: u64,
    /// What a peak reaches or is better than, if there is such a bar.
    pub bar: f64,
    /// Scores along each axis.
    pub lengths: [i32; 3],
    /// Sides of a cell.
    pub side: [i32; 3],
    /// Cells along each axis.
    pub counts: [i32; 3],
    /// Positions at each end of every axis that are no peaks.
    pub border: i32,
    /// How far from a peak no other lies.
    pub distance: i32,
    /// Whether the smallest score is best.
    pub turned: i32,
    /// Threads that share a cell: 1, or those of a warp.
    pub lanes: i32,
    /// 0 without a bar; 1: a peak reaches it; 2: it is better.
    pub bar_kind: i32,
    /// How many peaks are asked for.
    pub top: i32,
}

/// `FlccBest`: the best score of a result.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BestView {
    /// A number that is larger for better scores; 0 where there is no number.
    pub key: u64,
    /// The first position that attains the best score.
    pub first: u64,
    /// How many positions attain the best score.
    pub count: u64,
    /// The score.
    pub score: f64,
}

/// `FlccPlace`: a place and its score.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaceView {
    /// The place's index, from the first result on.
    pub index: u64,
    /// The score there.
    pub score: f64,
}

// SAFETY: plain integers and floats in C's layout, as the kernels declare them.
unsafe impl DeviceRepr for ImageView {}
// SAFETY: as above.
unsafe impl DeviceRepr for Layout {}
// SAFETY: as above.
unsafe impl DeviceRepr for CrossLayout {}
// SAFETY: as above.
unsafe impl DeviceRepr for ResultView {}
// SAFETY: as above.
unsafe impl DeviceRepr for Constants {}
// SAFETY: as above.
unsafe impl DeviceRepr for Thresholds {}
// SAFETY: as above.
unsafe impl DeviceRepr for SoughtView {}
// SAFETY: as above.
unsafe impl DeviceRepr for WholeView {}
// SAFETY: as above.
unsafe impl DeviceRepr for SharesView {}
// SAFETY: as above.
unsafe impl DeviceRepr for PartsView {}
// SAFETY: as above.
unsafe impl DeviceRepr for WindowsView {}
