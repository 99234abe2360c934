//! The GPU's offers: which kernel or transform, in which type, by which tiles. Pure: no device is asked for anything.

use std::sync::Arc;

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::cuda::decisions::{Decisions, goes_straight, parts};
use crate::cuda::driver::launch::{MOST_BLOCKS, MOST_CHANNELS};
use crate::cuda::execute::CudaExecute;
use crate::cuda::kernels::{self, Part};
use crate::cuda::line::{self, Line};
use crate::cuda::method::{self, Around};
use crate::cuda::methods::any::Any;
use crate::cuda::methods::cufft::{Cufft, Whole};
use crate::cuda::methods::differences::Differences;
use crate::cuda::methods::listed::Listed;
use crate::cuda::methods::listed_scores::ListedScores;
use crate::cuda::methods::masked::Masked;
use crate::cuda::methods::mma_scores::MmaScores;
use crate::cuda::methods::pairs::OwnPairs;
use crate::cuda::methods::scores::{TileScores, VolumeScores};
use crate::cuda::methods::transforms::{Lines, Tiles, Volumes};
use crate::cuda::pairs::{self, Pairs};
use crate::cuda::rooms::{images_together, tiles_together};
use crate::cuda::tensor;
use crate::cuda::tile::{self, Shape};
use crate::cuda::transform::Transform;
use crate::cuda::types::{Cross, Types};
use crate::cuda::volume;
use crate::cuda::windows_of_planes::DownRows;
use crate::plan::cost::{Term, Work};
use crate::plan::machine::{Device, Machine};
use crate::plan::solver::{self, Eligible, Method, Offer, Platform};
use crate::problem::scheme::{
    Integers, Scheme, accurate_shape, differences_drown, exact_in_f64, not_rounded, refuse_differences, refuse_inexact,
    rounding_bound, rounds, sums_in_double, transforms_in_double, transforms_serve,
};
use crate::run::execute::Execute;
use crate::run::tiling::{Tiling, covering, tile_name};

/// How to build what executes an offer.
#[derive(Clone, Debug)]
pub struct Recipe {
    method: Arc<dyn method::Method>,
    tile: [usize; 3],
    types: Types,
    exact: bool,
    rounds: bool,
    devices: Vec<Device>,
}

impl solver::Recipe for Recipe {
    fn platform(&self) -> Platform {
        Platform::Cuda
    }

    /// Opens the device, compiles what is not compiled yet.
    fn build(&self, spec: &Spec, memory_limit: Option<usize>) -> Result<Box<dyn Execute>, Refusal> {
        let decide = |device: &Device| Decisions {
            method: Arc::clone(&self.method),
            tile: self.tile,
            types: self.types,
            scheme: Scheme::new(spec, self.exact, self.rounds),
            template: spec.template().padded(),
            device: device.clone(),
            memory: (memory_limit.unwrap_or(usize::MAX) / self.devices.len().max(1)).min(device.memory / 10 * 6),
        };
        Ok(Box::new(CudaExecute::new(spec, self.devices.iter().map(decide).collect())?))
    }
}

impl Recipe {
    /// What building it compiles, known without a device.
    pub fn sources(&self, spec: &Spec) -> Sources {
        let scheme = Scheme::new(spec, self.exact, self.rounds);
        let (template, options) = (spec.template().padded(), kernels::options(spec, &scheme, self.types));
        let own = self.method.source(template, &Around { options: &options, straight: false });
        Sources {
            kernel: self.method.entry(),
            parts: parts(&*self.method, &scheme),
            own: own.map_or_else(Vec::new, |source| source.options),
            options,
        }
    }
}

/// What is compiled for a recipe.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The cross term's kernel, if it is a generated one.
    pub kernel: Option<&'static Entry>,
    /// The parts of the pipeline.
    pub parts: Vec<Part>,
    /// The options of that kernel.
    pub own: Vec<String>,
    /// The options of the pipeline, but for its part.
    pub options: Vec<String>,
}

/// Samples along an axis that kernels count with 32 bits.
const LONGEST: usize = 1 << 30;

/// The offers of a method, for the machine's devices together.
///
/// # Errors
/// Why the method does not serve the spec on a GPU.
pub fn offers(name: &'static str, method: Method, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
    refuse_inexact(name, spec)?;
    let longest = spec.image().padded().into_iter().chain(spec.mode_region().shape.padded()).max().unwrap_or(0);
    if longest + spec.template().padded().into_iter().max().unwrap_or(0) >= LONGEST {
        return Err(Refusal::new(name, format!("an axis of {longest} samples is longer than {LONGEST}")));
    }
    if spec.channels() > MOST_CHANNELS {
        return Err(Refusal::new(name, format!("{} channels are more than {MOST_CHANNELS}", spec.channels())));
    }
    let ways = WAYS.iter().filter(|(of, _)| *of == method);
    let (mut offers, mut refused) = (Vec::new(), None);
    for (_, way) in ways {
        match way(&Asked { name, spec, machine }) {
            Ok(some) => offers.extend(some),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    if offers.is_empty() {
        let none = || Refusal::new(name, "there are no separable kernels for GPUs; direct and Fourier are there");
        return Err(refused.unwrap_or_else(none));
    }
    offers.sort_by(|a: &Offer, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    Ok(offers)
}

/// The offers of a method, where a kernel is asked for by its name.
///
/// # Errors
/// As [`offers`]; why that kernel is not among them, where the kernel is known and devices or spec are what it lacks.
pub fn offers_named(
    name: &'static str,
    method: Method,
    spec: &Spec,
    machine: &Machine,
    kernel: &KernelKey,
) -> Result<Vec<Offer>, Refusal> {
    let offers = offers(name, method, spec, machine)?;
    match tensor::kernel().filter(|entry| *entry.op == *kernel.op) {
        Some(entry) if offers.iter().all(|offer| offer.kernel.op != kernel.op) => {
            Err(Refusal::new(name, tensor::reason(entry, spec.template().padded(), machine.devices())))
        }
        _ => Ok(offers),
    }
}

/// What offers are asked for.
struct Asked<'a> {
    name: &'static str,
    spec: &'a Spec,
    machine: &'a Machine,
}

/// The offers of one way to compute: none where it has nothing to do with a spec, a refusal where it lacks something.
type Way = fn(&Asked<'_>) -> Result<Vec<Offer>, Refusal>;

/// The one table of what GPUs offer, and by which method it is asked for.
const WAYS: &[(Method, Way)] = &[
    (Method::Direct, listed_scores),
    (Method::Direct, mma_scores),
    (Method::Direct, listed),
    (Method::Direct, any),
    (Method::Direct, masked),
    (Method::Direct, differences),
    (Method::Fourier, cufft),
    (Method::Fourier, whole),
    (Method::Fourier, tiles),
    (Method::Fourier, tile_scores),
    (Method::Fourier, volumes),
    (Method::Fourier, volume_scores),
    (Method::Fourier, lines),
    (Method::Fourier, own_pairs),
];

/// Whether samples may lie beyond the range of f32, which a tile on a device does not notice of those that are too
/// small for it.
fn beyond_single(spec: &Spec) -> bool {
    spec.image_type() == DType::F64
}

/// The least template whose sums cuFFT's transforms in f32 are trusted with, in samples. Their errors are in proportion
/// to the norm of the tile and those that the conventions grant to that of a panel, `sqrt(N / n)` of it at least. Waves
/// in 11 shapes of up to 4e6 samples found 1.38 times what is granted for 2 samples and 0.66 for 128.
const LEAST_SINGLE: usize = 128;

fn types(spec: &Spec, real: DType, cross: Cross) -> Types {
    Types { pixel: spec.image_type(), real, cross, out: spec.out_type() }
}

/// How direct kernels serve a spec.
struct Direct<'a> {
    asked: &'a Asked<'a>,
    /// The type of samples and taps.
    real: DType,
    /// Sums are integers.
    exact: bool,
    masked: bool,
}

impl Direct<'_> {
    fn of<'a>(asked: &'a Asked<'a>) -> Direct<'a> {
        let spec = asked.spec;
        let measure = spec.op().measure();
        let masked = spec.mask() != MaskKind::None;
        let exact = exact_in_f64(spec);
        let bytes = exact
            && !masked
            && spec.image_type() == DType::U8
            && spec.template_type() == DType::U8
            && measure != Measure::Sad;
        let real = if bytes {
            DType::U8
        } else if sums_in_double(spec) || beyond_single(spec) || measure == Measure::Sad {
            DType::F64
        } else {
            DType::F32
        };
        Direct { asked, real, exact, masked }
    }

    /// Whether it takes sums of products, whose window sums are not under a mask.
    fn sums(&self) -> bool {
        let measure = self.asked.spec.op().measure();
        measure != Measure::Sad && !self.masked_sums()
    }

    /// Whether it takes window sums under a mask.
    fn masked_sums(&self) -> bool {
        self.masked && self.asked.spec.op().measure().row().needs.square
    }

    /// The kernel of an operation for the template's size.
    fn listed(&self, op: &str) -> Option<&'static Entry> {
        flcc_generated::listed(op, self.real.name(), self.asked.spec.template().padded())
    }

    /// The one for any size.
    fn generic(&self, op: &str) -> Result<&'static Entry, Refusal> {
        let Asked { name, spec, .. } = *self.asked;
        let flat = spec.template().padded()[1] == 1 && spec.mode_region().shape.padded()[1] == 1;
        flcc_generated::generic(op, self.real.name(), flat)
            .ok_or_else(|| Refusal::new(name, format!("there is no kernel {op} for {}", self.real)))
    }

    /// The types, with this one of cross terms of bytes.
    fn types(&self, of_bytes: Cross) -> Types {
        let cross = match self.real {
            DType::U8 => of_bytes,
            DType::F32 => Cross::F32,
            _ => Cross::F64,
        };
        types(self.asked.spec, self.real, cross)
    }

    /// Products that one of the multiprocessors makes for an image, of so many at once.
    fn products(&self, entry: &Entry, images: usize) -> f64 {
        let (spec, devices) = (self.asked.spec, self.asked.machine.devices());
        let taps = spec.template().len() * spec.channels();
        let outputs = spec.out_shape().len() as f64;
        let products = outputs * taps as f64 * spec.templates() as f64 * if self.masked { 3.0 } else { 1.0 };
        let over = match (spec.template().padded()[0], entry.op) {
            (1, _) => 1.0,
            (_, "zncc") if self.real == DType::F32 => VOLUME_SCORES,
            _ => VOLUMES,
        };
        over * occupied(entry, spec, images, devices) * products / multiprocessors(devices)
    }

    /// The work of those.
    fn taps(&self, entry: &Entry, images: usize) -> Work {
        let tap = match self.real {
            DType::U8 => Term::DeviceTapByte,
            DType::F32 => Term::DeviceTapSingle,
            _ => Term::DeviceTapDouble,
        };
        binding(self.asked.spec, 1.0).and(tap, self.products(entry, images))
    }

    /// The work of a kernel whose cross terms the pipeline makes results of, with tiles of a shape.
    fn piped(&self, taps: Work, tile: [usize; 3]) -> Work {
        let spec = self.asked.spec;
        let (outputs, work) = (spec.out_shape().len() as f64, pipeline(taps, spec, tile));
        match spec.op().measure().row().needs.square {
            true => work.and(Term::DeviceSum, outputs).and(Term::DeviceScore, outputs * spec.templates() as f64),
            false => work,
        }
    }

    /// The offers of a kernel by several tiles.
    fn offers(
        &self,
        method: impl method::Method + 'static,
        entry: &'static Entry,
        types: Types,
        tiles: Vec<[usize; 3]>,
        work: impl Fn([usize; 3]) -> Work,
    ) -> Result<Vec<Offer>, Refusal> {
        let Asked { name, spec, machine } = *self.asked;
        let body = named(name, entry)?;
        let method: Arc<dyn method::Method> = Arc::new(method);
        let offer = |tile| {
            let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..body.clone() };
            let (method, devices) = (Arc::clone(&method), machine.devices().to_vec());
            let recipe = Recipe { method, tile, types, exact: self.exact, rounds: false, devices };
            offer(machine, spec, Method::Direct, kernel, work(tile), recipe)
        };
        Ok(tiles.into_iter().map(offer).collect())
    }
}

/// The name of a generated kernel.
fn named(name: &'static str, entry: &Entry) -> Result<KernelKey, Refusal> {
    KernelKey::named(entry.name).map_err(|error| Refusal::new(name, error.to_string()))
}

/// By a kernel for the template's size that makes scores in one go.
fn listed_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let serves = direct.sums() && one_kernel(spec, direct.exact, direct.real);
    let Some(entry) = direct.listed("zncc").filter(|_| serves) else { return Ok(Vec::new()) };
    let each = spec.out_shape().len() as f64 * spec.templates() as f64;
    direct.offers(ListedScores(entry), entry, direct.types(Cross::Unsigned), vec![large_tile(spec)], |tile| {
        straight(direct.taps(entry, together(spec, tile)), spec, tile).and(Term::DeviceFused, each)
    })
}

/// What a product of bytes costs on tensor cores, of what one by `dp4a` does: an H100 takes 0.39 to 0.42 ps for each of
/// `Shape::products` and multiprocessor, from 32x32 to 90x90 taps (docs/gpu.md).
const TENSOR: f64 = 0.085;

/// By the kernel on tensor cores that makes scores of bytes in one go.
fn mma_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let template = spec.template().padded();
    let bytes = direct.real == DType::U8 && direct.sums() && one_kernel(spec, direct.exact, direct.real);
    if !(bytes && spec.image().axes() == 2 && tensor::holds(template)) {
        return Ok(Vec::new());
    }
    let each = spec.out_shape().len() as f64 * spec.templates() as f64;
    let able = |entry: &&'static Entry| tensor::lacking(entry, template, asked.machine.devices()).is_none();
    let Some(entry) = tensor::kernel().filter(able) else { return Ok(Vec::new()) };
    let in_all = tensor::Shape::of(entry, template).products() as f64 / spec.template().len() as f64;
    direct.offers(MmaScores(entry), entry, direct.types(Cross::Unsigned), vec![large_tile(spec)], |tile| {
        let products = TENSOR * in_all * direct.products(entry, together(spec, tile));
        let work = binding(spec, 1.0).and(Term::DeviceTapByte, products);
        straight(work, spec, tile).and(Term::DeviceFused, each)
    })
}

/// By a kernel for the template's size.
fn listed(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let Some(entry) = direct.listed("corr").filter(|_| direct.sums()) else { return Ok(Vec::new()) };
    let types = direct.types(Cross::Unsigned);
    let in_one = goes_straight(spec, &Listed(entry), &Scheme::new(spec, direct.exact, false), types);
    direct.offers(Listed(entry), entry, types, plain_tiles(spec), |tile| {
        let taps = direct.taps(entry, together(spec, tile));
        if in_one { straight(taps, spec, tile) } else { direct.piped(taps, tile) }
    })
}

/// By a kernel for any size: the choice where there is none for the template's, taken by its name beside that one.
fn any(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    if !direct.sums() {
        return Ok(Vec::new());
    }
    let entry = direct.generic("corr")?;
    let over = match direct.real {
        DType::U8 => ANY_BYTE,
        DType::F32 => 1.0,
        _ => ANY_DOUBLE,
    };
    let offers = direct.offers(Any(entry), entry, direct.types(Cross::Long), plain_tiles(spec), |tile| {
        let images = together(spec, tile);
        let taps = direct.taps(entry, images).and(Term::DeviceTapAny, over * direct.products(entry, images));
        direct.piped(taps, tile)
    })?;
    let eligible = if direct.listed("corr").is_some() { Eligible::ByName } else { Eligible::ByCost };
    Ok(offers.into_iter().map(|offer| Offer { eligible, ..offer }).collect())
}

/// By one that makes window sums under a mask too.
fn masked(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let direct = Direct::of(asked);
    if !direct.masked_sums() || asked.spec.op().measure() == Measure::Sad {
        return Ok(Vec::new());
    }
    let entry = direct.generic("masked")?;
    direct.offers(Masked(entry), entry, direct.types(Cross::Long), plain_tiles(asked.spec), |tile| {
        direct.piped(direct.taps(entry, together(asked.spec, tile)), tile)
    })
}

/// By one of absolute differences.
fn differences(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let direct = Direct::of(asked);
    if asked.spec.op().measure() != Measure::Sad {
        return Ok(Vec::new());
    }
    let entry = direct.generic("sad")?;
    direct.offers(Differences(entry), entry, direct.types(Cross::Long), plain_tiles(asked.spec), |tile| {
        direct.piped(direct.taps(entry, together(asked.spec, tile)), tile)
    })
}

/// An offer of a recipe, which auto may choose by its cost. Images of a stream are copied while others are computed, so
/// one takes as long as the slower of both.
fn offer(machine: &Machine, spec: &Spec, method: Method, kernel: KernelKey, work: Work, recipe: Recipe) -> Offer {
    let work = if spec.images() != 1 && !spec.pairs() { work.overlapped() } else { work };
    let estimate_ns = work.ns_on(&machine.costs(), 1);
    Offer { kernel, method, work, estimate_ns, eligible: Eligible::ByCost, recipe: Arc::new(recipe) }
}

/// Whether a kernel that makes scores in one go serves: zncc of one channel without a mask, with room for a score where
/// the cross term was, with sums whose products fit 64 bits, and with enough registers.
fn one_kernel(spec: &Spec, exact: bool, real: DType) -> bool {
    let integers = Scheme::new(spec, exact, false).integers;
    let plain = spec.op().measure() == Measure::Zncc && spec.mask() == MaskKind::None && spec.channels() == 1;
    let room = real == DType::F64 || spec.out_type() == DType::F32;
    let registers = real != DType::F64 || integers.is_none() || holds_integers(spec.template().padded());
    plain && room && registers && integers != Some(Integers::Wide)
}

/// Whether a thread of the kernel of scores in f64 has registers for sums that are integers. It keeps them, two for
/// each of its 16 outputs, beside the cross term and a row of samples; of 32 columns, 16 bytes were spilled on sm_90,
/// of 24 columns 32 bytes on sm_120 (NVRTC 13.0).
pub fn holds_integers([_, height, width]: [usize; 3]) -> bool {
    height == 1 || width < 24
}

/// Multiprocessors of the first device: an image is computed by one.
fn multiprocessors(devices: &[Device]) -> f64 {
    devices.first().map_or(1.0, |device| device.multiprocessors as f64)
}

/// Blocks of a direct kernel that a multiprocessor runs at once: fewer take as long.
const RESIDENT: usize = 3;

/// What a product in volumes costs, over what one in planes does: a block loads plane by plane, which no products hide,
/// and scores sum up every plane again. An H200 takes 37, 82 and 1085 us for 100^3 with 5^3 and 8^3 and 256^3 with 8^3,
/// and 90, 173 and 2727 for their scores.
const VOLUMES: f64 = 1.8;
const VOLUME_SCORES: f64 = 3.4;

/// What a product of bytes, and of f64, by a kernel for any size costs more, over what one of f32 does.
const ANY_BYTE: f64 = 0.4;
const ANY_DOUBLE: f64 = 1.8;

/// Images of a stream that the pipeline computes at once by tiles of a shape.
fn together(spec: &Spec, tile: [usize; 3]) -> usize {
    if spec.pairs() {
        return 1;
    }
    let tiles = Tiling::new(spec.frame(), tile).count();
    images_together(tiles_together(tile.iter().product()), tiles, spec.images())
}

/// How many times longer a direct kernel takes for so many images at once than if its blocks kept every multiprocessor
/// busy all the time, with outputs that are all asked for.
fn occupied(entry: &Entry, spec: &Spec, images: usize, devices: &[Device]) -> f64 {
    let [planes, rows, columns] = spec.out_shape().padded();
    let of_plane = rows.div_ceil(entry.tile[0]) * columns.div_ceil(entry.tile[1]);
    let blocks = images * planes * of_plane * spec.templates();
    let computed = (of_plane * entry.tile[0] * entry.tile[1]) as f64 / (rows * columns) as f64;
    let all = multiprocessors(devices);
    computed * (blocks as f64 / all).ceil().max(RESIDENT as f64) * all / blocks as f64
}

/// What binding a spectrum by the library takes, over what it takes to load a kernel with a template's values.
const BINDING_SPECTRUM: f64 = 6.0;

/// The work of binding, where each image has a template of its own.
fn binding(spec: &Spec, amount: f64) -> Work {
    Work::default().and(Term::DeviceBind, if spec.pairs() { amount } else { 0.0 })
}

/// With what an image takes whatever the method: copies to and from the device, launches, gathered samples.
fn pipeline(work: Work, spec: &Spec, tile: [usize; 3]) -> Work {
    let outputs = (spec.out_shape().len() * spec.templates()) as f64;
    // A tile may have room for positions that are not asked for.
    let sides = spec.out_shape().padded();
    let whole = [0, 1, 2].map(|axis| tile[axis].min(sides[axis])).iter().product::<usize>() as f64;
    let computed = Tiling::new(spec.frame(), tile).count() as f64 * whole * spec.templates() as f64;
    let calls = 1.0 / together(spec, tile) as f64;
    call(work, spec, Term::DeviceCall, calls).and(Term::DeviceOutput, outputs + computed)
}

/// With what an image takes of a kernel from the image to the result, which serves all images of a batch of tiles.
fn straight(work: Work, spec: &Spec, tile: [usize; 3]) -> Work {
    call(work, spec, Term::DeviceStraight, 1.0 / together(spec, tile) as f64)
}

/// With what an image takes of calls of a device: so many of them, its share, with what each launches, and copies of
/// the image and its results.
fn call(work: Work, spec: &Spec, launches: Term, calls: f64) -> Work {
    let bytes = spec.image().len() * spec.channels() * spec.image_type().row().size
        + spec.out_shape().len() * spec.templates() * spec.out_type().row().size;
    work.and(Term::DeviceCopy, bytes as f64).and(Term::DeviceTrip, calls).and(launches, calls)
}

/// The tile of a kernel that gathers nothing: all of a result of up to 2^26 positions. Its blocks begin up to three
/// columns before it, for which there is room in the last of them.
fn large_tile(spec: &Spec) -> [usize; 3] {
    let size = match spec.image().axes() {
        1 => [1, 1, (1 << 26) - 4],
        2 => [1, 8192, 8188],
        _ => [128, 512, 1020],
    };
    let (image, template) = (spec.image().padded(), spec.template().padded());
    [0, 1, 2].map(|axis| size[axis].min(image[axis] + template[axis] - 1))
}

/// Tile shapes for plain kernels, best first.
fn plain_tiles(spec: &Spec) -> Vec<[usize; 3]> {
    let (image, template) = (spec.image().padded(), spec.template().padded());
    let sizes: &[[usize; 3]] = match spec.image().axes() {
        1 => &[[1, 1, 1 << 18], [1, 1, 1 << 14]],
        2 => &[[1, 512, 1024], [1, 128, 256]],
        _ => &[[32, 64, 256], [8, 32, 128]],
    };
    let mut tiles = Vec::new();
    for size in sizes {
        let tile = [0, 1, 2].map(|axis| {
            let grown = if size[axis] > 1 { size[axis].max(template[axis].next_multiple_of(32)) } else { 1 };
            grown.min(image[axis] + template[axis] - 1)
        });
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// By cuFFT.
fn cufft(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let devices = machine.devices();
    let measure = spec.op().measure();
    refuse_differences(name, spec)?;
    let double = transforms_in_double(spec) || beyond_single(spec);
    let few = !measure.row().normalised && spec.template().len() < LEAST_SINGLE;
    let drowned = if double { 0.0 } else { drowned(spec) };
    // In f64 nothing drowns, and sums of few products keep what is granted.
    let precisions = if !double && (few || drowned > 0.0) { &[false, true][..] } else { &[double][..] };
    let ways = precisions.iter().flat_map(|&double| {
        // Rows of whole vectors.
        let accurate = accurate_shape(spec, true).filter(|_| double).map(|[z, y, x]| vec![[z, y, x.max(ROW_STEP)]]);
        accurate.unwrap_or_else(|| shapes(spec, least_memory(devices))).into_iter().map(move |shape| (double, shape))
    });
    let mut offers = Vec::new();
    let mut bound = f64::INFINITY;
    for (double, shape) in ways {
        let (real, cross) = if double { (DType::F64, Cross::F64) } else { (DType::F32, Cross::F32) };
        bound = bound.min(rounding_bound(spec, shape));
        let Some(rounds) = rounds(spec, shape) else { continue };
        let template = spec.template().padded();
        let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
        let samples = Tiling::new(spec.frame(), tile).count() as f64 * shape.iter().product::<usize>() as f64;
        let sums = if spec.mask() != MaskKind::None && measure.row().needs.square { 4.0 } else { 0.0 };
        let transforms = spec.channels() as f64 * (1.0 + spec.templates() as f64 + sums);
        // Two passes over memory each.
        let bytes = samples * transforms * 4.0 * cross.size() as f64;
        let again = if double { 0.0 } else { drowned * spec.template().len() as f64 * spec.channels() as f64 };
        let transformed = binding(spec, BINDING_SPECTRUM)
            .and(Term::DeviceTransform, bytes / multiprocessors(devices))
            .and(Term::DeviceLibrary, 1.0 / together(spec, tile) as f64)
            .and(Term::DeviceAgain, again * spec.templates() as f64 / multiprocessors(devices));
        let work = pipeline(transformed, spec, tile);
        let work = if measure.row().needs.square {
            let outputs = spec.out_shape().len() as f64;
            let each = outputs * spec.templates() as f64;
            // Norms of tiles and of products are taken besides the sums, for the error model.
            work.and(Term::DeviceSum, outputs + 2.0 * each).and(Term::DeviceScore, each)
        } else {
            work
        };
        let kernel = KernelKey {
            op: "fourier".into(),
            dtype: real.name().into(),
            size: join(&spec.image().unpad(&shape), "x").into(),
            target: "cufft".into(),
            tile: tile_name(spec.frame(), tile).into(),
        };
        let masked = spec.mask() != MaskKind::None;
        let sums = masked && measure.row().needs.square;
        let recipe = Recipe {
            method: Arc::new(Cufft { shape, double, masked, sums, whole: None }),
            tile,
            types: types(spec, real, cross),
            exact: rounds,
            rounds,
            devices: devices.to_vec(),
        };
        let by_cost = offer(machine, spec, Method::Fourier, kernel, work, recipe);
        let eligible = match () {
            () if few && !double => Eligible::ByName,
            () if transforms_serve(spec, rounds, false) => Eligible::ByCost,
            () => Eligible::OnlyIfForced,
        };
        offers.push(Offer { eligible, ..by_cost });
    }
    if offers.is_empty() {
        return Err(not_rounded(name, bound));
    }
    Ok(offers)
}

/// By cuFFT's transforms of the whole image, from the image to the result: sums of an image in f32 by one template.
fn whole(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let devices = machine.devices();
    let types = types(spec, DType::F32, Cross::F32);
    let single = spec.templates() == 1 && !spec.pairs() && spec.accuracy() != Accuracy::Exact;
    let Some(entry) = flcc_generated::generic("whole", DType::F32.name(), false).filter(|_| single) else {
        return Ok(Vec::new());
    };
    let wraps = matches!(spec.boundary(), Boundary::Zero | Boundary::Constant(_));
    let template = spec.template().padded();
    let shape = whole_shape(spec, wraps);
    let method = Cufft { shape, double: false, masked: false, sums: false, whole: Some(Whole { entry, wraps }) };
    let samples = shape.iter().map(|&side| side as f64).product::<f64>();
    let in_one = goes_straight(spec, &method, &Scheme::new(spec, false, false), types);
    if !in_one || samples * BYTES_OF_WHOLE > 0.3 * least_memory(devices) {
        return Ok(Vec::new());
    }
    // What is computed again of extraordinary samples goes by tiles, whose results do not wrap round.
    let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
    let axes: Vec<f64> = shape.iter().filter(|&&side| side > 1).map(|&side| pace(side)).collect();
    let bytes = samples * (TRANSFORMED * axes.iter().sum::<f64>() / axes.len().max(1) as f64 + AROUND);
    // Images of a batch go one by one.
    let work = call(Work::default(), spec, Term::DeviceStraight, 1.0)
        .and(Term::DeviceTransform, bytes / multiprocessors(devices))
        .and(Term::DeviceLibrary, 0.5);
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let recipe =
        Recipe { method: Arc::new(method), tile, types, exact: false, rounds: false, devices: devices.to_vec() };
    let few = spec.template().len() < LEAST_SINGLE;
    let eligible = if few { Eligible::ByName } else { Eligible::ByCost };
    Ok(vec![Offer { eligible, ..offer(machine, spec, Method::Fourier, kernel, work, recipe) }])
}

/// Bytes that a slot takes for a sample of a whole image: samples, sums and both spectra, image and result, marks.
const BYTES_OF_WHOLE: f64 = 28.0;

/// Bytes that two transforms move for each sample, where a length has the pace of 1, and what stands around them.
const TRANSFORMED: f64 = 32.0;
const AROUND: f64 = 20.0;

/// What cuFFT takes for a sample along an axis of such a length, over what it takes along one of 2048: of squares and
/// cubes, there and back, with 14 us less for launches (H200, cuFFT of CUDA 13.0; 2048x2048 takes 62.5 us).
const PACES: [(usize, f64); 38] = [
    (108, 1.3),
    (112, 1.5),
    (120, 1.3),
    (128, 1.0),
    (256, 1.0),
    (264, 1.5),
    (270, 1.25),
    (280, 1.5),
    (288, 1.3),
    (512, 1.0),
    (520, 1.7),
    (540, 1.25),
    (544, 1.7),
    (560, 1.2),
    (576, 1.4),
    (588, 1.3),
    (640, 1.25),
    (1024, 1.0),
    (1440, 2.15),
    (1458, 1.7),
    (1470, 1.7),
    (1500, 2.4),
    (1512, 2.05),
    (1536, 2.05),
    (1568, 1.75),
    (1600, 1.95),
    (1620, 1.95),
    (1792, 1.6),
    (2048, 1.0),
    (2160, 2.1),
    (2187, 1.4),
    (2240, 2.45),
    (2250, 1.85),
    (2268, 2.3),
    (2304, 1.95),
    (2401, 1.85),
    (2560, 1.7),
    (4096, 1.25),
];

/// The pace of a length, relative to the fastest: as measured, or as lengths around it take, in one kernel or in two.
fn pace(length: usize) -> f64 {
    let known = PACES.iter().find(|(known, _)| *known == length).map(|(_, pace)| *pace);
    known.unwrap_or(match length {
        _ if length.is_power_of_two() && length <= 4096 => 1.0,
        ..=1024 => 1.5,
        _ => 2.1,
    })
}

/// The lengths that a whole image is transformed in: no less than its results and the template need, by what they cost.
fn whole_shape(spec: &Spec, wraps: bool) -> [usize; 3] {
    let (region, image, template) = (spec.mode_region(), spec.image().padded(), spec.template().padded());
    [0, 1, 2].map(|axis| {
        let outputs = region.shape.padded()[axis];
        let origin = region.origin[axis] as i64 + 1 - template[axis] as i64;
        let reach = origin + (outputs + template[axis]) as i64 - 1;
        // Where what lies outside is one value, samples before the first may come after the last.
        let least = match wraps {
            true => (reach - origin.max(0)).max(reach.min(image[axis] as i64) - origin.min(0)),
            false => reach - origin,
        };
        // A template that is longer than the image may be longer than that, too.
        let least = (least as usize).max(template[axis]);
        if least == 1 {
            return 1;
        }
        // Samples of a row are gathered four at a time where a tile is.
        let known = |length: usize| PACES.iter().any(|(known, _)| *known == length);
        let fits = |length: usize| match axis {
            2 => length.is_multiple_of(4),
            _ => length.is_multiple_of(2) || known(length),
        };
        let fast = (least..=least + least / 4 + ROW_STEP).filter(|&length| smooth(length) && fits(length));
        let cost = |length: usize| length as f64 * (TRANSFORMED * pace(length) + AROUND);
        fast.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or_else(|| least.next_power_of_two().max(4))
    })
}

/// Transforms in f32 of samples of one sign leave windows of ncc in doubt up to this share of which lies in the image,
/// with zeros beside it. Measured of bytes at random: 0.06 to 0.12, in images of 146x233 to 300x400 with templates of
/// 33x33 and 65x65.
const DROWNS: f64 = 0.1;

/// How many scores of a template a transform in f32 leaves in doubt of images whose samples have one sign. Of squared
/// differences they are nearly all: what the library's transforms are granted comes to more than half of the promise
/// (H200, 20 specs: 4 to 47 times as long as without). Of ncc they are those of which little lies in the image.
fn drowned(spec: &Spec) -> f64 {
    if differences_drown(spec) {
        return spec.out_shape().len() as f64;
    }
    let beside = spec.boundary().value() == Some(0.0);
    if !(spec.accuracy() == Accuracy::Promised && spec.op().measure() == Measure::Ncc && beside) {
        return 0.0;
    }
    let (region, image, template) = (spec.mode_region(), spec.image().padded(), spec.template().padded());
    // How many windows have so many samples in the image, along an axis.
    let counts = [0, 1, 2].map(|axis| {
        let mut counts = vec![0.0f64; template[axis] + 1];
        let first = region.origin[axis];
        for last in first..first + region.shape.padded()[axis] {
            let outside = (last + 1).saturating_sub(image[axis]) + template[axis].saturating_sub(last + 1);
            counts[template[axis].saturating_sub(outside)] += 1.0;
        }
        counts
    });
    let up_to: Vec<f64> = counts[2]
        .iter()
        .scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
        .collect();
    let most = DROWNS * spec.template().len() as f64;
    let mut windows = 0.0;
    for (planes, of_planes) in counts[0].iter().enumerate() {
        for (rows, of_rows) in counts[1].iter().enumerate() {
            let columns = (most / (planes * rows).max(1) as f64) as usize;
            windows += of_planes * of_rows * up_to[columns.min(template[2])];
        }
    }
    windows
}

/// The most outputs that the pipeline computes as one tile for transforms of tiles.
const MOST_TOGETHER: usize = 1 << 26;

/// By transforms of tiles, from the image to the result in one kernel.
fn tiles(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let spec = asked.spec;
    let kernels = tile::kernels(spec, asked.machine.devices()).into_iter().filter(|entry| !tile::makes_scores(entry));
    // The pipeline's tile, where samples are extraordinary: with all of an image the transforms are the same.
    let outputs = spec.out_shape();
    let tile = || if outputs.len() <= MOST_TOGETHER { outputs.padded() } else { plain_tiles(spec)[0] };
    kernels.map(|entry| by_tiles(asked, entry, Arc::new(Tiles::new(entry)), tile())).collect()
}

/// By transforms of tiles and window sums that run down rows, in two kernels.
fn tile_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let devices = asked.machine.devices();
    let kernels = tile::kernels(asked.spec, devices).into_iter().filter(|entry| tile::makes_scores(entry));
    let (tile, template) = (large_tile(asked.spec), asked.spec.template().padded());
    // A region's tiles are parts of those of the whole, and their bits are.
    let whole = asked.spec.mode_region().shape.padded();
    let method = |entry| TileScores::new(entry, template, [0, 1, 2].map(|axis| tile[axis].min(whole[axis])));
    kernels.map(|entry| by_tiles(asked, entry, Arc::new(method(entry)), tile)).collect()
}

/// By transforms of stretches of signals, from the signal to the result in one kernel.
fn lines(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let devices = machine.devices();
    let offer = |entry: &'static Entry| {
        let line = Line::of(entry);
        // Several templates share the transforms of samples, which are half of what one takes.
        let pairs = line.pairs(spec.template().len(), spec.out_shape().len());
        let most = devices.iter().map(|device| most_shared(device.capability)).min().unwrap_or(0);
        let shared = if line.shared_by_several(most) > 0 { spec.templates() / 2 } else { 0 };
        let blocks = pairs * (spec.templates() - shared);
        by_parts(asked, entry, Arc::new(Lines::new(entry)), 1.0, &|images| {
            line.work(images * blocks, multiprocessors(devices) as usize)
        })
    };
    line::kernels(spec, devices).into_iter().map(offer).collect()
}

/// By transforms of parts of volumes, from the volume to the result in one kernel.
fn volumes(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let devices = machine.devices();
    let offer = |entry: &'static Entry| {
        let sides = [spec.template().padded(), spec.out_shape().padded()];
        by_parts(asked, entry, Arc::new(Volumes::new(entry)), 3.0, &|images| {
            volume::work(sides, images * spec.templates(), multiprocessors(devices) as usize)
        })
    };
    volume::kernel(spec, devices).into_iter().map(offer).collect()
}

/// Zncc by transforms of parts of volumes and window sums that run across planes, in two kernels.
fn volume_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let devices = machine.devices();
    let Some(entry) = volume::scores(spec, devices) else { return Ok(Vec::new()) };
    let template = spec.template().padded();
    // A region's tiles are those of the whole, so that its bits are.
    let tile = volume::tile(template, spec.mode_region().shape.padded(), MOST_TOGETHER);
    let images = together(spec, tile);
    let sides = spec.out_shape().padded();
    let reached = [0, 1, 2].map(|axis| tile[axis].min(sides[axis]));
    let tiles = Tiling::new(spec.frame(), tile).count() * images;
    let computed = volume::work([template, reached], tiles * spec.templates(), multiprocessors(devices) as usize);
    let each = spec.out_shape().len() as f64 * spec.templates() as f64;
    let work = binding(spec, 3.0).and(Term::DeviceTile, VOLUME_CROSS * computed / images as f64);
    // Two kernels.
    let work = call(work, spec, Term::DeviceStraight, 2.0 / images as f64).and(Term::DeviceScore, each);
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let types = types(spec, DType::F32, Cross::F32);
    let method = Arc::new(VolumeScores::new(entry, template, tile));
    let recipe = Recipe { method, tile, types, exact: false, rounds: false, devices: devices.to_vec() };
    Ok(vec![offer(machine, spec, Method::Fourier, kernel, work, recipe)])
}

/// What a cross term for scores takes, over what a sum does: offset, noise and thresholds (H200, 256^3 with 8^3: 315 us
/// for 216).
const VOLUME_CROSS: f64 = 1.45;

/// The same of planes, over what `Term::DeviceTile` says of a sum (H200, 2000^2 with 16^2, 32^2 and 64^2: 37, 50 and 91
/// us, 2.4 to 3.3 times that).
const PLANE_CROSS: f64 = 2.8;

/// What it takes to launch the kernel of window sums of planes and to end its first rows, in launches of a kernel from
/// the image to the result: an H200 takes 36 to 47 us for small images where one such kernel takes some 14.
const WINDOWS_LAUNCH: f64 = 2.5;

/// The offer of a kernel of sums that transforms parts of an image. Binding takes `bound` times what loading a kernel
/// does; `computed` tells the work of so many images at once.
fn by_parts(
    asked: &Asked<'_>,
    entry: &'static Entry,
    method: Arc<dyn method::Method>,
    bound: f64,
    computed: &dyn Fn(usize) -> f64,
) -> Result<Offer, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let outputs = spec.out_shape();
    // The pipeline's tile, where samples are extraordinary.
    let tile = if outputs.len() <= MOST_TOGETHER { outputs.padded() } else { plain_tiles(spec)[0] };
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let types = types(spec, DType::F32, Cross::F32);
    let recipe = Recipe { method, tile, types, exact: false, rounds: false, devices: machine.devices().to_vec() };
    let images = together(spec, tile);
    let work = binding(spec, bound).and(Term::DeviceTile, computed(images) / images as f64);
    Ok(offer(machine, spec, Method::Fourier, kernel, straight(work, spec, tile), recipe))
}

/// By transforms of rows of images and templates, which have one of their own each, in one kernel for all.
fn own_pairs(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let (devices, template, outputs) = (machine.devices(), spec.template().padded(), spec.out_shape().padded());
    let tile = if spec.out_shape().len() <= MOST_TOGETHER { outputs } else { plain_tiles(spec)[0] };
    let room = devices.iter().map(|device| most_shared(device.capability)).min().unwrap_or(0);
    let offer = |entry: &'static Entry| {
        let part = Pairs::of(entry).part(template, outputs, room)?;
        let work = Pairs::of(entry).work(template, outputs, &part) / multiprocessors(devices);
        // Templates are copied as images are; nothing is bound, and a call has many pairs.
        let bytes = spec.template().len() * spec.template_type().row().size;
        let calls = 1.0 / images_together(tiles_together(spec.out_shape().len()), 1, 0) as f64;
        let work = Work::default().and(Term::DeviceTile, work).and(Term::DeviceCopy, bytes as f64);
        let work = call(work, spec, Term::DeviceStraight, calls);
        Some((entry, work))
    };
    let made = |(entry, work): (&'static Entry, Work)| {
        let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
        let (method, types) = (Arc::new(OwnPairs(entry)), types(spec, DType::F32, Cross::F32));
        let recipe = Recipe { method, tile, types, exact: false, rounds: false, devices: devices.to_vec() };
        Ok(self::offer(machine, spec, Method::Fourier, kernel, work, recipe))
    };
    pairs::kernels(spec, devices).into_iter().filter_map(offer).map(made).collect()
}

/// The offer of a kernel that transforms tiles, and of one that makes scores of what it makes, if there is one.
fn by_tiles(
    asked: &Asked<'_>,
    entry: &'static Entry,
    method: Arc<dyn method::Method>,
    tile: [usize; 3],
) -> Result<Offer, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let (devices, shape, scores) = (machine.devices(), Shape::of(entry), tile::makes_scores(entry));
    let (pairs, ..) = shape.pairs(spec.template().padded(), spec.out_shape().padded());
    let (images, units) = (together(spec, tile), multiprocessors(devices) as usize);
    let large = if shape.length > 64 { 3.0 } else { 1.0 };
    let work = if scores {
        // Each template has launches of its own.
        let templates = spec.templates() as f64;
        let computed = PLANE_CROSS * shape.work(images * pairs, units) / images as f64;
        let launches = (templates * (1.0 + WINDOWS_LAUNCH) - 1.0) / images as f64;
        binding(spec, BINDING_SPECTRUM)
            .and(Term::DeviceTile, computed * templates)
            .and(Term::DeviceWindowRow, DownRows::rows(spec.template().padded(), spec.out_shape().padded()) * templates)
            .and(Term::DeviceStraight, launches)
    } else {
        let computed = shape.work(images * pairs * spec.templates(), units) / images as f64;
        binding(spec, large).and(Term::DeviceTile, computed)
    };
    let work = straight(work, spec, tile);
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let types = types(spec, DType::F32, Cross::F32);
    let recipe = Recipe { method, tile, types, exact: false, rounds: false, devices: devices.to_vec() };
    Ok(offer(machine, spec, Method::Fourier, kernel, work, recipe))
}

/// What rows of transforms are whole multiples of.
const ROW_STEP: usize = 16;

/// Bytes that the slots of a device take for a sample of a tile, about.
const BYTES_OF_TILE: f64 = 160.0;

/// Bytes that a template's spectrum takes for a sample of a tile, at most.
const BYTES_OF_SPECTRUM: f64 = 8.0;

/// Samples of a tile that every device has the memory for.
const ALWAYS_HELD: f64 = (1u32 << 25) as f64;

/// Bytes of the device that has the fewest.
fn least_memory(devices: &[Device]) -> f64 {
    devices.iter().map(|device| device.memory).min().unwrap_or(0) as f64
}

/// Transform shapes to choose from: of lengths that are fast, rows of whole vectors, whole axes where they are short,
/// in up to a third of so many bytes of memory.
fn shapes(spec: &Spec, memory: f64) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let whole = spec.mode_region().shape.padded();
    let fast = |least: usize, axis: usize| {
        let step = if axis == 2 { ROW_STEP } else { 1 };
        (least..).find(|&length| length % step == 0 && smooth(length)).unwrap_or(least)
    };
    let single = [0, 1, 2].map(|axis| {
        if whole[axis] + template[axis] - 1 == 1 && axis < 2 { 1 } else { fast(whole[axis] + template[axis] - 1, axis) }
    });
    let lengths: &[usize] = match spec.image().axes() {
        1 => &[4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22],
        2 => &[128, 256, 512, 1024, 2048, 4096],
        _ => &[32, 64, 128, 256, 512, 1024],
    };
    let mut found: Vec<[usize; 3]> = Vec::new();
    for &length in lengths {
        let shape = [0, 1, 2].map(|axis| {
            if single[axis] <= length {
                single[axis]
            } else {
                fast(length.max(template[axis] + template[axis] / 2 + 1), axis).min(single[axis])
            }
        });
        if !found.contains(&shape) {
            found.push(shape);
        }
    }
    let samples = |shape: &[usize; 3]| shape.iter().map(|&side| side as f64).product::<f64>();
    let bytes = spec.channels() as f64 * (BYTES_OF_TILE + BYTES_OF_SPECTRUM * spec.templates() as f64);
    let held = (0.3 * memory / bytes).max(ALWAYS_HELD);
    let most = found.iter().map(samples).fold(f64::INFINITY, f64::min).max(held);
    // Window sums take a block for 32 outputs of an axis, and for each row or plane of the other.
    let narrow = |shape: &[usize; 3]| {
        let [depth, height, _] = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
        (height.div_ceil(32) * shape[0]).max(depth.div_ceil(32) * height) <= MOST_BLOCKS
    };
    let smallest = found.first().copied();
    found.retain(|shape| samples(shape) <= most && narrow(shape));
    if found.is_empty() { smallest.into_iter().collect() } else { found }
}

/// Whether a length has no prime factor above 7.
fn smooth(mut length: usize) -> bool {
    for factor in [2, 3, 5, 7] {
        while length.is_multiple_of(factor) {
            length /= factor;
        }
    }
    length == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let device =
            Device { index: 0, name: "a device".into(), capability: (9, 0), multiprocessors: 132, memory: 80 << 30 };
        Machine::described(&[], 4).with_devices(vec![device], "described")
    }

    fn first(method: Method, spec: &str) -> Result<String, String> {
        let offers = offers("cuda", method, &spec.parse().unwrap(), &machine()).map_err(|refusal| refusal.reason)?;
        let first =
            offers.iter().find(|offer| offer.eligible != Eligible::ByName).expect("one that is no name's alone");
        Ok(first.kernel.to_string())
    }

    #[test]
    fn a_listed_size_has_its_kernel_and_others_the_one_for_any() {
        let name = |spec| first(Method::Direct, spec).unwrap();
        assert!(name("corr:f32:2000x2000*7x7:valid").starts_with("corr_f32_7x7_b"));
        assert!(name("zncc:u8:2000x2000*3x3:valid").starts_with("zncc_u8_3x3_b"));
        assert!(name("zncc:u8:2000x2000*16x16:valid").starts_with("znccmma_u8_any_b"));
        assert!(name("zncc:u8/f32:2000x2000*16x16:valid").starts_with("zncc_f32_16x16_b"));
        assert!(name("zncc:u16:2000x2000*16x16:valid").starts_with("zncc_f64_16x16_b"));
        assert!(name("zncc:f32:100x100x100*5x5x5:valid").starts_with("zncc_f32_5x5x5_b"));
        assert!(name("zncc:f32:100000*31:valid").starts_with("zncc_f32_31_b"));
        assert!(name("corr:f32:2000x2000*7x9:valid").starts_with("corr_f32_any_b"));
        assert!(name("ncc:f32:2000x2000*7x7:valid").starts_with("corr_f32_7x7_b"));
        // A score of 64 bits has no room where a cross term of 32 was.
        assert!(name("zncc:u8>f64:2000x2000*16x16:valid").starts_with("corr_u8_16x16_b"));
        assert!(name("zncc:f32:2000x2000*7x7:valid,mask01").starts_with("masked_f64_any_b"));
        assert!(name("sad:u8:2000x2000*7x7:valid").starts_with("sad_f64_any_b"));
        // Up to so many terms a sum in f32 is off by half of what it may at most; nssd has it twice.
        assert!(name("zncc:f32:2000x2000*32x32:valid").starts_with("zncc_f32_32x32_b"));
        assert!(name("ncc:f32:2000x2000*53x53:valid").starts_with("corr_f32_any_b"));
        assert!(name("ncc:f32:2000x2000*54x54:valid").starts_with("corr_f64_any_b"));
        assert!(name("nssd:f32:2000x2000*19x19:valid").starts_with("corr_f32_19x19_b"));
        assert!(name("nssd:f32:2000x2000*20x20:valid").starts_with("corr_f64_20x20_b"));
    }

    /// What a kernel's name finds for a spec on a device of this compute capability, or why it finds nothing.
    fn by_name(kernel: &str, spec: &str, capability: (u32, u32)) -> Result<Offer, String> {
        let devices = machine().devices().iter().map(|device| Device { capability, ..device.clone() }).collect();
        let machine = Machine::described(&[], 4).with_devices(devices, "described");
        let (kernel, spec): (KernelKey, Spec) = (kernel.parse().unwrap(), spec.parse().unwrap());
        let offers = offers_named("cuda direct", Method::Direct, &spec, &machine, &kernel);
        let mut offers = offers.map_err(|refusal| refusal.reason)?.into_iter();
        Ok(offers.find(|offer| offer.kernel.op == kernel.op).expect("one of that name"))
    }

    #[test]
    fn bytes_go_to_tensor_cores() {
        let kernel = "znccmma_u8_any_b32x8";
        for spec in [
            "zncc:u8:2000x2000*16x16:full",
            "zncc:u8:300x400*4x17:valid,acc=exact",
            "zncc:u8:0@480x640*3@64x64:same,reflect",
            "zncc:u8:300x400*9x256:same,constant(7.0)",
        ] {
            let offer = by_name(kernel, spec, (9, 0)).unwrap();
            assert!(offer.kernel.to_string().starts_with(kernel), "{spec}: {}", offer.kernel);
            assert_eq!((offer.eligible, offer.method), (Eligible::ByCost, Method::Direct), "{spec}");
            let recipe: &dyn std::any::Any = &*offer.recipe;
            let sources = recipe.downcast_ref::<Recipe>().unwrap().sources(&spec.parse().unwrap());
            assert_eq!(sources.kernel.map(|entry| entry.op), Some(tensor::OP));
        }
        for [height, width] in [[4, 4], [8, 8], [16, 16], [24, 25], [32, 32], [64, 64], [90, 91], [32, 256]] {
            let spec = format!("zncc:u8:2000x2000*{height}x{width}:full");
            let cheapest = [Method::Direct, Method::Fourier]
                .into_iter()
                .flat_map(|method| offers("cuda", method, &spec.parse().unwrap(), &machine()).unwrap())
                .min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
            let cheapest = cheapest.expect("some offer").kernel.to_string();
            assert!(cheapest.starts_with(kernel), "{spec}: {cheapest}");
        }
        let lacks = |spec, capability| by_name(kernel, spec, capability).unwrap_err();
        let reason = lacks("zncc:u8:2000x2000*16x16:full", (7, 5));
        assert_eq!(reason, "tensor cores for bytes need compute capability 8.0 or more, a device has 7.5");
        assert!(by_name(kernel, "zncc:u8:2000x2000*256x32:full", (9, 0)).is_ok());
        let reason = lacks("zncc:u8:2000x2000*256x32:full", (8, 6));
        assert!(reason.contains("a template of 256x32 needs ") && reason.contains("shared memory"), "{reason}");
        for spec in [
            "zncc:u8:200x200*3x16:valid",
            "zncc:u8:200x200*100x100:valid",
            "zncc:u8>f64:200x200*16x16:valid",
            "zncc:u8:200x200*16x16:valid,mask01",
            "zncc:u8:200x200*16x16:valid,channels=3",
            "zncc:u8/f32:200x200*16x16:valid",
            "zncc:u8:20x30x40*4x4x4:valid",
            "zncc:u8:2000*16:valid",
            "zncc:u8:200x200*16x16:full,constant(0.5)",
            "ncc:u8:200x200*16x16:valid",
        ] {
            let reason = lacks(spec, (9, 0));
            assert!(reason.contains("of images in u8 by templates in u8"), "{spec}: {reason}");
        }
        // Names of others find what they found.
        assert!(by_name("zncc_u8_16x16_b32x8", "zncc:u8:2000x2000*16x16:full", (7, 5)).is_ok());
    }

    /// With the specs of `xtask gpu-check`, which plans each of them.
    #[test]
    fn every_listed_kernel_is_what_a_spec_of_its_size_is_planned_with() {
        for entry in flcc_generated::kernels().iter().filter(|entry| entry.size().is_some()) {
            let image = ["2000", "150x161", "20x41x52"][entry.sides.len() - 1];
            let spec = format!("{}:{}:{image}*{}:valid", entry.op, entry.dtype, join(entry.sides, "x"));
            let kernel = first(Method::Direct, &spec).unwrap();
            let by_cost = kernel.starts_with(&format!("{}_", entry.name));
            // Of planes of bytes tensor cores may be faster, and of volumes a kernel of sums with window sums apart;
            // then it is there by its name.
            let others = match (entry.op, entry.dtype, entry.sides.len()) {
                ("zncc", "u8", 2) => tensor::OP,
                ("zncc", _, 3) => "corr_",
                _ => entry.name,
            };
            let by_its_name = kernel.starts_with(others) && by_name(entry.name, &spec, (9, 0)).is_ok();
            assert!(by_cost || by_its_name, "{spec}: {kernel}");
        }
    }

    #[test]
    fn sums_in_f32_are_transformed_by_tiles_that_pay() {
        let name = |spec: &str| first(Method::Fourier, spec).unwrap();
        for side in [16, 21] {
            assert!(name(&format!("corr:f32:2000x2000*{side}x{side}:full")).starts_with("tile64_f32_any_b"), "{side}");
        }
        for spec in ["corr:f32:2000x2000*32x32:full", "conv:f32:2000x2000*64x64:same", "corr:f32:4096x4096*76x76:valid"]
        {
            assert!(name(spec).starts_with("tile128_f32_any_b"), "{spec}: {}", name(spec));
        }
        for spec in ["ncc:f32:2000x2000*32x32:full", "corr:f64:900x900*32x32:full"] {
            assert!(name(spec).starts_with("fourier_"), "{spec}: {}", name(spec));
        }
        for spec in ["corr:f32:2000x2000*128x128:full", "corr:f32:512x512x512*32x32x32:full"] {
            assert!(name(spec).starts_with("whole_"), "{spec}: {}", name(spec));
        }
    }

    #[test]
    fn whole_images_are_transformed_in_lengths_that_are_fast() {
        let shape = |spec: &str, wraps| {
            let spec: Spec = spec.parse().unwrap();
            whole_shape(&spec, wraps)
        };
        // No longer than the results where samples may wrap round, than all samples that they meet elsewhere.
        assert_eq!(shape("corr:f32:2000x2000*128x128:full", true), [1, 2187, 2160]);
        assert_eq!(shape("corr:f32:2000x2000*128x128:full,reflect", false), [1, 2304, 2304]);
        assert_eq!(shape("corr:f32:2000x2000*128x128:valid", true), [1, 2048, 2048]);
        assert_eq!(shape("corr:f32:512x512x512*32x32x32:full", true), [560; 3]);
        assert_eq!(shape("corr:f32:100x100x100*8x8x8:full", true), [108; 3]);
        let [depth, height, width] = shape("corr:f32:30000*20000:full", true);
        assert!([depth, height] == [1, 1] && (49999..62000).contains(&width) && width % 4 == 0, "{width}");
        let taps = |side: usize| [1, side.div_ceil(2), 37, 3 * side].map(|taps| (side, taps));
        for (side, taps) in (1usize..400).flat_map(taps) {
            for mode in ["full", "same"] {
                let shape = shape(&format!("corr:f32:{side}x{side}*{taps}x{taps}:{mode}"), true);
                let least = if mode == "full" { side + taps - 1 } else { side.max(taps) };
                assert!(shape[1..].iter().all(|&length| length >= least), "{side} {taps} {mode}: {shape:?}");
                assert!(shape[2] % 4 == 0 || shape[2] == 1, "{side} {taps} {mode}: {shape:?}");
            }
        }
    }

    #[test]
    fn signals_in_f32_are_transformed_by_stretches() {
        let name = |spec: &str| first(Method::Fourier, spec).unwrap();
        for (spec, kernel) in [
            ("corr:f32:10000000*100:full", "line4096_"),
            ("corr:f32:10000000*500:full", "line4096_"),
            ("corr:f32:10000000*1500:valid", "line4096_"),
            ("conv:f32:10000000*5000:same", "line16384_"),
            ("corr:f32:1000000*100@500:full", "line4096_"),
            ("corr:f32:10000000*50000:full", "whole_"),
            ("ncc:f32:10000000*500:full", "fourier_"),
        ] {
            assert!(name(spec).starts_with(kernel), "{spec}: {}", name(spec));
        }
    }

    /// As they rank on an H200, bytes on an H100 (docs/gpu.md).
    #[test]
    fn the_fastest_method_is_the_cheapest() {
        let cheapest = |spec: &str| {
            let spec: Spec = spec.parse().unwrap();
            let all =
                [Method::Direct, Method::Fourier].map(|method| offers("cuda", method, &spec, &machine()).unwrap());
            let offers = all.iter().flatten().filter(|offer| offer.eligible == Eligible::ByCost);
            offers.min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns)).unwrap().kernel.to_string()
        };
        for (side, kernel) in [(3, "corr_"), (5, "corr_"), (8, "tile64_"), (11, "tile64_"), (16, "tile64_")]
            .into_iter()
            .chain([(21, "tile64_"), (32, "tile128_"), (64, "tile128_"), (128, "whole_")])
        {
            let spec = format!("corr:f32:2000x2000*{side}x{side}:full");
            assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
        }
        let floats =
            [(3, "zncc_"), (8, "zncc_"), (16, "zncc64_"), (32, "zncc128_"), (64, "zncc128_"), (200, "fourier_")];
        let bytes = [(3, "zncc_"), (8, "znccmma_"), (16, "znccmma_"), (32, "znccmma_"), (64, "znccmma_")];
        for (dtype, list) in [("f32", &floats[..]), ("u8", &bytes)] {
            for (side, kernel) in list {
                let spec = format!("zncc:{dtype}:2000x2000*{side}x{side}:full");
                assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
            }
        }
    }

    #[test]
    fn windows_that_hang_over_an_image_are_counted() {
        for text in
            ["ncc:u8:23x31*7x9:full", "ncc:u8:23x31*7x9:same", "ncc:f32:9x11x13*3x4x5:full", "ncc:u16:50*9:full"]
        {
            let spec: Spec = text.parse().unwrap();
            let (image, template, region) = (spec.image().padded(), spec.template().padded(), spec.mode_region());
            let most = DROWNS * spec.template().len() as f64;
            let shape = region.shape.padded();
            let inside = |axis: usize, at: usize| {
                let last = region.origin[axis] + at;
                (0..template[axis]).filter(|&k| last >= k && last - k < image[axis]).count()
            };
            let windows = (0..shape.iter().product()).filter(|&at: &usize| {
                let at = [at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]];
                [0, 1, 2].iter().map(|&axis| inside(axis, at[axis])).product::<usize>() as f64 <= most
            });
            assert_eq!(drowned(&spec), windows.count() as f64, "{text}");
        }
        for text in ["zncc:u8:23x31*7x9:full", "ncc:u8:23x31*7x9:valid", "ncc:u8:23x31*7x9:full,reflect"] {
            assert_eq!(drowned(&text.parse().unwrap()), 0.0, "{text}");
        }
        // Of squared differences over both norms all do, wherever they lie.
        for text in ["nssd:u8:23x31*7x9:valid", "nssd:f32:500*9:same,reflect"] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(drowned(&spec), spec.out_shape().len() as f64, "{text}");
        }
        assert_eq!(drowned(&"nssd:u8:23x31*7x9:valid,acc=fast".parse().unwrap()), 0.0);
        // Where many drown, transforms in f64 are offered, and the cheaper ones.
        let offers = |text: &str| offers("cuda", Method::Fourier, &text.parse().unwrap(), &machine()).unwrap();
        let first = |text: &str| offers(text)[0].kernel.dtype.to_string();
        assert_eq!(first("ncc:u8:593x1361*178x178:full"), "f64");
        assert_eq!(first("nssd:u16:3090669*5228:valid"), "f64");
        assert!(offers("ncc:u8:593x1361*178x178:full").iter().any(|offer| offer.kernel.dtype == "f32"));
        assert!(offers("ncc:u8:593x1361*178x178:valid").iter().all(|offer| offer.kernel.dtype == "f32"));
    }

    #[test]
    fn transforms_hold_the_template_and_rows_of_whole_vectors() {
        for spec in [
            "zncc:f32:2000x2000*64x64:valid",
            "corr:f32:300x40*280x33:full",
            "zncc:f32:100x90x80*9x9x9:same",
            "corr:f32:100000*700:full",
        ] {
            let spec: Spec = spec.parse().unwrap();
            for shape in shapes(&spec, 141e9) {
                let template = spec.template().padded();
                assert!((0..3).all(|axis| shape[axis] >= template[axis] && smooth(shape[axis])), "{spec}: {shape:?}");
                assert_eq!(shape[2] % 16, 0, "{spec}: {shape:?}");
            }
        }
    }

    #[test]
    fn volumes_are_transformed_whole_where_memory_holds_them() {
        let spec: Spec = "zncc:f32:512x512x512*32x32x32:full".parse().unwrap();
        let whole = |memory| shapes(&spec, memory).iter().any(|shape| shape.iter().all(|&side| side >= 543));
        assert!(whole(141e9) && !whole(16e9));
        // Spectra of many templates take memory too, and window sums of a flat volume would take too many blocks.
        let many: Spec = "zncc:f32:512x512x512*100@32x32x32:full".parse().unwrap();
        assert!(shapes(&many, 141e9).iter().all(|shape| shape.iter().all(|&side| side <= 512)));
        let flat: Spec = "zncc:f32:2000x1000x16*1400x3x3:same".parse().unwrap();
        assert!(shapes(&flat, 141e9).iter().all(|shape| 31 * shape[0] <= MOST_BLOCKS || shape[1] < 900));
        assert!(shapes(&spec, 16e9).iter().all(|shape| shape.iter().all(|&side| side <= 256)));
    }

    #[test]
    fn what_a_gpu_does_not_serve_is_refused_with_a_reason() {
        assert!(first(Method::Separable, "corr:f32:200x200*7x7:valid").unwrap_err().contains("no separable kernels"));
        assert!(first(Method::Fourier, "sad:f32:200x200*7x7:valid").unwrap_err().contains("sad"));
        let spec: Spec = "corr:f32:20x20*7x7:valid".parse().unwrap();
        let channels = spec.with_channels(9).unwrap();
        assert!(offers("cuda", Method::Direct, &channels, &machine()).unwrap_err().reason.contains("9 channels"));
    }
}
