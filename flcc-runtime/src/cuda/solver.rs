//! The GPU's offers: which kernel or transform, in which type, by which tiles. Pure: no device is asked for anything.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cuda::driver::launch::MOST_CHANNELS;
use crate::cuda::execute::CudaExecute;
use crate::cuda::kernels::{self, Part};
use crate::cuda::tile::{self, Shape};
use crate::cuda::types::{Cross, Types};
use crate::cuda::unit::{self, Decisions, Engine, goes_straight};
use crate::plan::cost::{Term, Work};
use crate::plan::machine::{Device, Machine};
use crate::plan::solver::{self, Eligible, Method, Offer, Platform};
use crate::problem::scheme::integer_problem;
use crate::problem::scheme::{
    Scheme, Width, exact_in_f64, not_rounded, refuse_inexact, rounding_bound, serves_in_single, wants_rounding,
};
use crate::run::execute::Execute;
use crate::run::tiling::{Tiling, covering, tile_name};

/// How to build what executes an offer.
#[derive(Clone, Debug)]
pub struct Recipe {
    engine: Engine,
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
            engine: self.engine,
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
        let (parts, options) = (unit::parts(self.engine, &scheme), kernels::options(spec, &scheme, self.types));
        Sources {
            kernel: self.engine.entry(),
            parts,
            own: self.engine.options(spec.template().padded(), &options),
            options,
        }
    }
}

/// What is compiled for a recipe.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The cross term's kernel, if it is a generated one.
    pub kernel: Option<&'static flcc_generated::Entry>,
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
    match method {
        Method::Direct => direct(name, spec, machine),
        Method::Fourier => fourier(name, spec, machine),
        _ => Err(Refusal::new(name, "there are no separable kernels for GPUs; direct and Fourier are there")),
    }
}

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

fn direct(name: &'static str, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
    let devices = machine.devices();
    let measure = spec.op().measure();
    let needs = measure.row().needs;
    let template = spec.template().padded();
    let masked = spec.mask() != MaskKind::None;
    let exact = exact_in_f64(spec);
    let bytes = exact
        && !masked
        && spec.image_type() == DType::U8
        && spec.template_type() == DType::U8
        && measure != Measure::Sad;
    let taps = spec.template().len() * spec.channels();
    let wide = masked
        || spec.out_type() == DType::F64
        || spec.accuracy() == Accuracy::Exact
        || integer_problem(spec)
        || beyond_single(spec);
    let long = spec.accuracy() == Accuracy::Promised && measure.row().normalised && !serves_in_single(spec);
    let real = if bytes {
        DType::U8
    } else if wide || long || measure == Measure::Sad {
        DType::F64
    } else {
        DType::F32
    };
    let missing = |op: &str| Refusal::new(name, format!("there is no kernel {op} for {real}"));
    let flat = template[1] == 1 && spec.mode_region().shape.padded()[1] == 1;
    let any = |op: &str| flcc_generated::generic(op, real.name(), flat).ok_or_else(|| missing(op));
    let mut engines = Vec::new();
    if measure == Measure::Sad {
        engines.push(Engine::Differences(any("sad")?));
    } else if masked && needs.square {
        engines.push(Engine::Masked(any("masked")?));
    } else {
        if one_kernel(spec, exact, real) {
            engines.extend(flcc_generated::listed("zncc", real.name(), template).map(Engine::Fused));
        }
        match flcc_generated::listed("corr", real.name(), template) {
            Some(entry) => engines.push(Engine::Listed(entry)),
            None => engines.push(Engine::Any(any("corr")?)),
        }
    }
    let cross = |engine| match (real, engine) {
        (DType::U8, Engine::Listed(_) | Engine::Fused(_)) => Cross::Unsigned,
        (DType::U8, _) => Cross::Long,
        (DType::F32, _) => Cross::F32,
        _ => Cross::F64,
    };
    let tap = match real {
        DType::U8 => Term::DeviceTapByte,
        DType::F32 => Term::DeviceTapSingle,
        _ => Term::DeviceTapDouble,
    };
    let outputs = spec.out_shape().len() as f64;
    let products = outputs * taps as f64 * spec.templates() as f64 * if masked { 3.0 } else { 1.0 };
    let mut offers = Vec::new();
    for engine in engines {
        let Some(entry) = engine.entry() else { continue };
        let body = KernelKey::named(entry.name).map_err(|error| Refusal::new(name, error.to_string()))?;
        let of_template = outputs * spec.templates() as f64;
        let types = types(spec, real, cross(engine));
        let straight = goes_straight(spec, engine, &Scheme::new(spec, exact, false), types);
        let products = occupied(entry, spec, devices) * products / multiprocessors(devices);
        let taps = binding(spec, 1.0).and(tap, products);
        let taps = match (engine, real) {
            (Engine::Any(_), DType::U8) => taps.and(Term::DeviceTapAny, ANY_BYTE * products),
            (Engine::Any(_), DType::F32) => taps.and(Term::DeviceTapAny, products),
            (Engine::Any(_), _) => taps.and(Term::DeviceTapAny, ANY_DOUBLE * products),
            _ => taps,
        };
        let work = |tile| match engine {
            _ if straight => copies(taps, spec).and(Term::DeviceStraight, 1.0),
            Engine::Fused(_) => copies(taps, spec).and(Term::DeviceStraight, 1.0).and(Term::DeviceFused, of_template),
            _ if needs.square => {
                pipeline(taps, spec, tile).and(Term::DeviceSum, outputs).and(Term::DeviceScore, of_template)
            }
            _ => pipeline(taps, spec, tile),
        };
        let tiles = if matches!(engine, Engine::Fused(_)) { vec![large_tile(spec)] } else { plain_tiles(spec) };
        offers.extend(tiles.into_iter().map(|tile| {
            let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..body.clone() };
            let recipe = Recipe { engine, tile, types, exact, rounds: false, devices: devices.to_vec() };
            offer(machine, spec, Method::Direct, kernel, work(tile), recipe)
        }));
    }
    offers.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    Ok(offers)
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
    plain && room && registers && integers != Some(Width::Wide)
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

/// What a product of bytes, and of f64, by a kernel for any size costs more, over what one of f32 does.
const ANY_BYTE: f64 = 0.4;
const ANY_DOUBLE: f64 = 1.8;

/// How many times longer a direct kernel takes than if its blocks kept every multiprocessor busy all the time.
fn occupied(entry: &flcc_generated::Entry, spec: &Spec, devices: &[Device]) -> f64 {
    let [planes, rows, columns] = spec.out_shape().padded();
    let blocks = planes * rows.div_ceil(entry.tile[0]) * columns.div_ceil(entry.tile[1]) * spec.templates();
    let all = multiprocessors(devices);
    (blocks as f64 / all).ceil().max(RESIDENT as f64) * all / blocks as f64
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
    let whole = tile.iter().product::<usize>() as f64;
    let computed = Tiling::new(spec.frame(), tile).count() as f64 * whole * spec.templates() as f64;
    copies(work, spec).and(Term::DeviceCall, 1.0).and(Term::DeviceOutput, outputs + computed)
}

/// With copies of an image and its results to and from the device.
fn copies(work: Work, spec: &Spec) -> Work {
    let bytes = spec.image().len() * spec.channels() * spec.image_type().row().size
        + spec.out_shape().len() * spec.templates() * spec.out_type().row().size;
    work.and(Term::DeviceCopy, bytes as f64)
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

fn fourier(name: &'static str, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
    let devices = machine.devices();
    let measure = spec.op().measure();
    if measure == Measure::Sad {
        return Err(Refusal::new(name, "sad is no sum of products, so it has no product of spectra"));
    }
    let exact_asked = spec.accuracy() == Accuracy::Exact;
    let wants_rounding = wants_rounding(spec);
    let double = spec.out_type() == DType::F64
        || exact_asked
        || spec.mask() != MaskKind::None
        || wants_rounding
        || beyond_single(spec)
        || (!measure.row().normalised && spec.accuracy() != Accuracy::Fast && spec.template().len() < LEAST_SINGLE);
    let (real, cross) = if double { (DType::F64, Cross::F64) } else { (DType::F32, Cross::F32) };
    let mut offers = Vec::new();
    let mut bound = f64::INFINITY;
    for shape in shapes(spec) {
        let error = rounding_bound(spec, shape);
        bound = bound.min(error);
        let rounds = wants_rounding && error < 0.25;
        if exact_asked && spec.is_integer() && !rounds {
            continue;
        }
        let template = spec.template().padded();
        let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
        let samples = Tiling::new(spec.frame(), tile).count() as f64 * shape.iter().product::<usize>() as f64;
        let sums = if spec.mask() != MaskKind::None && measure.row().needs.square { 4.0 } else { 0.0 };
        let transforms = spec.channels() as f64 * (1.0 + spec.templates() as f64 + sums);
        // Two passes over memory each.
        let bytes = samples * transforms * 4.0 * cross.size() as f64;
        let transformed = binding(spec, BINDING_SPECTRUM).and(Term::DeviceTransform, bytes / multiprocessors(devices));
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
        let recipe = Recipe {
            engine: Engine::Fourier(shape),
            tile,
            types: types(spec, real, cross),
            exact: rounds,
            rounds,
            devices: devices.to_vec(),
        };
        let by_cost = offer(machine, spec, Method::Fourier, kernel, work, recipe);
        let eligible = if rounds || !wants_rounding { Eligible::ByCost } else { Eligible::Forced };
        offers.push(Offer { eligible, ..by_cost });
    }
    offers.extend(tile_offers(name, spec, machine)?);
    if offers.is_empty() {
        return Err(not_rounded(name, bound));
    }
    offers.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    Ok(offers)
}

/// The most outputs that the pipeline computes as one tile for transforms of tiles.
const MOST_TOGETHER: usize = 1 << 26;

/// Offers of transforms of tiles, from the image to the result or to the scores in one kernel.
fn tile_offers(name: &'static str, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
    let devices = machine.devices();
    let template = spec.template().padded();
    let mut offers = Vec::new();
    for entry in tile::kernels(spec, devices) {
        let body = KernelKey::named(entry.name).map_err(|error| Refusal::new(name, error.to_string()))?;
        let shape = Shape::of(entry);
        let (pairs, ..) = shape.pairs(template, spec.out_shape().padded());
        let computed = shape.work(pairs * spec.templates(), multiprocessors(devices) as usize);
        let bound = binding(spec, if shape.length > 64 { 3.0 } else { 1.0 });
        let mut work = copies(bound.and(Term::DeviceTile, computed), spec).and(Term::DeviceStraight, 1.0);
        let (engine, tile) = if tile::makes_scores(entry) {
            work = work
                .and(Term::DeviceTileScore, shape.samples(pairs * spec.templates(), multiprocessors(devices) as usize));
            (Engine::Scores(entry), large_tile(spec))
        } else {
            // The pipeline's tile, where samples are extraordinary: with all of an image the transforms are the same.
            let outputs = spec.out_shape();
            let whole = outputs.len() <= MOST_TOGETHER;
            (Engine::Tile(entry), if whole { outputs.padded() } else { plain_tiles(spec)[0] })
        };
        let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..body };
        let types = types(spec, DType::F32, Cross::F32);
        let recipe = Recipe { engine, tile, types, exact: false, rounds: false, devices: devices.to_vec() };
        offers.push(offer(machine, spec, Method::Fourier, kernel, work, recipe));
    }
    Ok(offers)
}

/// Transform shapes to choose from: of lengths that are fast, rows of whole vectors, whole axes where they are short.
fn shapes(spec: &Spec) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let whole = spec.mode_region().shape.padded();
    let fast = |least: usize, axis: usize| {
        let step = if axis == 2 { 16 } else { 1 };
        (least..).find(|&length| length % step == 0 && smooth(length)).unwrap_or(least)
    };
    let single = [0, 1, 2].map(|axis| {
        if whole[axis] + template[axis] - 1 == 1 && axis < 2 { 1 } else { fast(whole[axis] + template[axis] - 1, axis) }
    });
    let lengths: &[usize] = match spec.image().axes() {
        1 => &[4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22],
        2 => &[128, 256, 512, 1024, 2048, 4096],
        _ => &[32, 64, 128, 256],
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
    let most = found.iter().map(samples).fold(f64::INFINITY, f64::min).max((1u32 << 25).into());
    found.retain(|shape| samples(shape) <= most);
    found
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
        Ok(offers[0].kernel.to_string())
    }

    #[test]
    fn a_listed_size_has_its_kernel_and_others_the_one_for_any() {
        let name = |spec| first(Method::Direct, spec).unwrap();
        assert!(name("corr:f32:2000x2000*7x7:valid").starts_with("corr_f32_7x7_b"));
        assert!(name("zncc:u8:2000x2000*16x16:valid").starts_with("zncc_u8_16x16_b"));
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

    /// With the specs of `xtask gpu-check`, which plans each of them.
    #[test]
    fn every_listed_kernel_is_what_a_spec_of_its_size_is_planned_with() {
        for entry in flcc_generated::kernels().iter().filter(|entry| entry.size().is_some()) {
            let image = ["2000", "150x161", "20x41x52"][entry.sides.len() - 1];
            let spec = format!("{}:{}:{image}*{}:valid", entry.op, entry.dtype, join(entry.sides, "x"));
            let kernel = first(Method::Direct, &spec).unwrap();
            assert!(kernel.starts_with(&format!("{}_", entry.name)), "{spec}: {kernel}");
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
        for spec in ["corr:f32:2000x2000*128x128:full", "ncc:f32:2000x2000*32x32:full", "corr:f64:900x900*32x32:full"] {
            assert!(name(spec).starts_with("fourier_"), "{spec}: {}", name(spec));
        }
    }

    /// As they rank on an H200 (docs/gpu.md).
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
            .chain([(21, "tile64_"), (32, "tile128_"), (64, "tile128_"), (128, "fourier_")])
        {
            let spec = format!("corr:f32:2000x2000*{side}x{side}:full");
            assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
        }
        let floats =
            [(3, "zncc_"), (8, "zncc_"), (16, "zncc64_"), (32, "zncc128_"), (64, "zncc128_"), (200, "fourier_")];
        let bytes = [(3, "zncc_"), (8, "zncc_"), (16, "zncc_"), (32, "zncc128_"), (64, "zncc128_")];
        for (dtype, list) in [("f32", &floats[..]), ("u8", &bytes)] {
            for (side, kernel) in list {
                let spec = format!("zncc:{dtype}:2000x2000*{side}x{side}:full");
                assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
            }
        }
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
            for shape in shapes(&spec) {
                let template = spec.template().padded();
                assert!((0..3).all(|axis| shape[axis] >= template[axis] && smooth(shape[axis])), "{spec}: {shape:?}");
                assert_eq!(shape[2] % 16, 0, "{spec}: {shape:?}");
            }
        }
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
