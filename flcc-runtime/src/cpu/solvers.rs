//! The CPU's solvers: which engine, which type, which tile. A recipe is cheap; building it makes transforms and
//! buffers.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::extent::Mode;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cpu::engines::bytes::{self, Bytes};
use crate::cpu::engines::direct::{self, Direct};
use crate::cpu::engines::library_fft::Fourier;
use crate::cpu::engines::separable::{self, Separable};
use crate::cpu::execute::CpuExecute;
use crate::cpu::fft::columns::{self, Hybrid};
use crate::cpu::fft::library;
use crate::cpu::fft::pair::{self, Planar};
use crate::cpu::fft::single::{self, Halved};
use crate::cpu::fft::volume::{self, Layered};
use crate::cpu::kernels::amx::plot::Plot;
use crate::cpu::kernels::kernel::{Kernel, KernelOp};
use crate::cpu::real::Real;
use crate::cpu::tile::{Engine, TileContext};
use crate::isa::{Isa, IsaSet};
use crate::plan::machine::Machine;
use crate::plan::solver::{self, Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::integer_problem;
use crate::problem::scheme::{
    Scheme, exact_in_f64, integer_bounds, largest_pixel, not_rounded, refuse_inexact, rounding_bound, serves_in_single,
    wants_rounding,
};
use crate::run::execute::Execute;
use crate::run::tiling::{Tiling, covering, tile_name};

/// How to build what executes an offer.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The type that tiles are computed in.
    pub real: DType,
    /// Outputs of a whole tile an axis.
    pub tile: [usize; 3],
    /// Instruction sets that may be used.
    pub isas: IsaSet,
    /// Sums and cross term are exact integers.
    exact: bool,
    engine: EngineRecipe,
}

#[derive(Clone, Debug)]
enum EngineRecipe {
    Direct(&'static Kernel),
    Bytes(&'static Kernel),
    Fourier { shape: [usize; 3], rounds: bool },
    Planar(pair::Layout),
    Layered(volume::Layout),
    Halved(single::Layout),
    Hybrid(columns::Layout),
    Separable,
}

impl solver::Recipe for Recipe {
    fn platform(&self) -> Platform {
        Platform::Cpu
    }

    fn build(&self, spec: &Spec, memory_limit: Option<usize>) -> Result<Box<dyn Execute>, Refusal> {
        let built = self.with_memory(spec, false)?;
        let needed = built.scratch_bytes(1).saturating_add(built.template_bytes().saturating_mul(spec.templates()));
        if memory_limit.is_some_and(|limit| needed > limit) { self.with_memory(spec, true) } else { Ok(built) }
    }
}

impl Recipe {
    /// Builds it, with as little memory as possible where that is `short`.
    fn with_memory(&self, spec: &Spec, short: bool) -> Result<Box<dyn Execute>, Refusal> {
        match self.real {
            DType::F32 => self.typed::<f32>(spec, short),
            _ => self.typed::<f64>(spec, short),
        }
    }

    fn typed<T: Real>(&self, spec: &Spec, short: bool) -> Result<Box<dyn Execute>, Refusal> {
        let lacking = || {
            Refusal::new(
                "cpu",
                format!(
                    "this processor has {} of {}, which the plan may use",
                    self.isas.filter(Isa::detected),
                    self.isas
                ),
            )
        };
        let template = spec.template().padded();
        let (engine, rounds) = match self.engine {
            EngineRecipe::Direct(kernel) => {
                (Engine::Direct(Direct::<T>::new(kernel, template, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Bytes(kernel) => {
                (Engine::Bytes(Bytes::new(kernel, template, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Fourier { shape, rounds } => (Engine::Fourier(Fourier::new(shape, template)), rounds),
            EngineRecipe::Planar(layout) => {
                (Engine::Planar(Planar::new(layout, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Layered(layout) => {
                (Engine::Layered(Layered::new(layout, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Halved(layout) => {
                (Engine::Halved(Halved::new(layout, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Hybrid(layout) => {
                (Engine::Hybrid(Hybrid::new(layout, &self.isas).ok_or_else(lacking)?), false)
            }
            EngineRecipe::Separable => {
                (Engine::Separable(Separable::new(template, &self.isas).ok_or_else(lacking)?), false)
            }
        };
        let scheme = Scheme::new(spec, self.exact, rounds);
        let settled = T::DTYPE == DType::F64 && matches!(self.engine, EngineRecipe::Direct(_));
        let (closer, careful) = if scheme.promise.is_some() && scheme.integers.is_none() && !settled {
            let careful = self.careful(spec, scheme, short).ok_or_else(lacking)?;
            let near = T::DTYPE == DType::F32
                && spec.template().len() * spec.channels() <= NEAR
                && serves_in_single(spec)
                && !short;
            (if near { self.closer(spec, scheme, careful.capacity) } else { None }, Some(careful))
        } else {
            (None, None)
        };
        // A bright sample leaves in doubt what transforms make of the samples around it, whatever their type.
        let by_transforms = careful.is_some() && spec.template().len() > LARGE && !short;
        let last = if by_transforms {
            Some(self.directly(spec, Scheme { rounds: false, ..scheme }, parts(spec)).ok_or_else(lacking)?)
        } else {
            None
        };
        let tiling = Tiling::new(spec, self.tile);
        let capacity = tiling.largest();
        let context = TileContext::new(spec.clone(), tiling, capacity, engine, scheme, self.isas);
        let context = if short { context } else { context.in_parts(false) };
        Ok(Box::new(CpuExecute::new(context, closer, careful, last)))
    }

    /// A method in f64, by small tiles, for parts of other tiles: direct, or by transforms where a template is large
    /// and memory is not short.
    fn careful(&self, spec: &Spec, scheme: Scheme, short: bool) -> Option<TileContext<f64>> {
        let (template, whole) = (spec.template().padded(), spec.mode_region().shape.padded());
        let scheme = Scheme { rounds: false, ..scheme };
        if spec.template().len() > LARGE && !short {
            // About as many outputs an axis as the template has samples, but no more than tiles have.
            let axes = spec.image().axes();
            let shape: [usize; 3] = std::array::from_fn(|axis| {
                let outputs =
                    template[axis].max(if axes == 3 { 24 } else { 64 }).min(whole[axis]).min(self.tile[axis].max(1));
                if axis + axes < 3 { 1 } else { library::fast_length(outputs + template[axis] - 1) }
            });
            let capacity = [0, 1, 2].map(|axis| (shape[axis] + 1 - template[axis]).min(whole[axis]));
            let engine = Engine::Fourier(Fourier::new(shape, template));
            return Some(TileContext::new(
                spec.clone(),
                Tiling::new(spec, capacity),
                capacity,
                engine,
                scheme,
                self.isas,
            ));
        }
        let parts = parts(spec);
        // Where memory is short, parts take no more of it than tiles do.
        let capacity = if short { [0, 1, 2].map(|axis| parts[axis].min(self.tile[axis].max(1))) } else { parts };
        self.directly(spec, scheme, capacity)
    }

    /// The direct method in f32, by the tiles of the careful one: each is centred for itself and taken in two parts, so
    /// that fewer panels are in doubt.
    fn closer(&self, spec: &Spec, scheme: Scheme, capacity: [usize; 3]) -> Option<TileContext<f32>> {
        Some(self.directly(spec, Scheme { rounds: false, ..scheme }, capacity)?.in_parts(true))
    }

    /// The direct method by tiles of so many outputs.
    fn directly<T: Real>(&self, spec: &Spec, scheme: Scheme, capacity: [usize; 3]) -> Option<TileContext<T>> {
        let (template, whole) = (spec.template().padded(), spec.mode_region().shape.padded());
        let kernel = direct::choose(KernelOp::Correlate, T::DTYPE, template, whole, &self.isas);
        let engine = Engine::Direct(Direct::new(kernel, template, &self.isas)?);
        Some(TileContext::new(spec.clone(), Tiling::new(spec, capacity), capacity, engine, scheme, self.isas))
    }
}

/// Outputs an axis of the parts that direct methods compute again.
fn parts(spec: &Spec) -> [usize; 3] {
    let whole = spec.mode_region().shape.padded();
    let tile: [usize; 3] = match spec.image().axes() {
        1 => [1, 1, 512],
        2 => [1, 16, 128],
        _ => [4, 8, 32],
    };
    [0, 1, 2].map(|axis| tile[axis].min(whole[axis]))
}

/// What transforms of this length cost with what is to be done again, over what they cost: the larger a tile is, the
/// more of its panels are faint beside others, and in doubt if scores are promised.
fn in_doubt(spec: &Spec, length: usize) -> f64 {
    let promised = spec.accuracy() == Accuracy::Promised && spec.op().measure().row().normalised;
    if promised { 1.0 + 0.05 * (length as f64 / 128.0).log2().max(0.0) } else { 1.0 }
}

/// Samples of a template from which on transforms in f64 are faster than multiply-adds in f64.
const LARGE: usize = 600;

/// Samples of a template up to which parts in doubt are tried by multiply-adds in f32 first: of larger ones transforms
/// in f64 take less time.
const NEAR: usize = 1200;

/// Estimated nanoseconds, measured once on one machine with AVX-512; only their ratios matter for the choice.
mod cost {
    use super::{DType, Isa, IsaSet, Measure};

    /// Multiply-adds a nanosecond, by instruction set, in f32 (f64 has half).
    pub fn multiply_adds(isas: &IsaSet, dtype: DType) -> f64 {
        let rates = [(Isa::Avx512, 80.0), (Isa::Avx2, 45.0)];
        let single = rates.into_iter().find(|(isa, _)| isas.has(*isa)).map_or(3.5, |(_, rate)| rate);
        if dtype == DType::F64 { single / 2.0 } else { single }
    }

    /// Multiply-adds a nanosecond of bytes, those with the zeros that fill groups and blocks counted.
    pub const BYTE_MULTIPLY_ADDS: f64 = 220.0;

    /// A cycle of the unit that multiplies tiles, in nanoseconds.
    pub const TILE_CYCLE: f64 = 0.36;

    /// Writing one of its sums, and what begins with a tile.
    pub const TILE_STORE: f64 = 0.75;

    /// Gathering one sample as a byte.
    pub const BYTE_GATHER: f64 = 0.05;

    /// Interleaving and writing one sum of bytes.
    pub const BYTE_STORE: f64 = 0.6;

    /// Gathering one sample.
    pub const GATHER: f64 = 0.35;
    /// Looking at one sample where it lies, and writing a result where it belongs.
    pub const SURVEY: f64 = 0.3;

    /// Window sums and finish of one sample.
    pub fn finish(measure: Measure, exact: bool) -> f64 {
        let needs = measure.row().needs;
        let sums = f64::from(u8::from(needs.square)) * 1.2 + f64::from(u8::from(needs.sum)) * 1.2;
        let score = if !needs.square {
            0.4
        } else if exact {
            3.0
        } else {
            1.5
        };
        sums + score
    }

    /// What one tile by half its frequencies takes of a pair: 0.72 was measured at 64, 0.69 at 128.
    pub const HALVED: f64 = 0.7;

    /// Looking at one sample of a pair that is transformed where it lies, and what lines cost that were asked for too
    /// late.
    pub const REACH: f64 = 0.1;

    /// What columns of a tile's width take of a pair that is transformed along rows, too.
    pub const COLUMNS: f64 = 0.58;

    /// The share of a direct kernel's multiply-adds that taps along rows of frequencies reach, whose samples lie across
    /// lines.
    pub const TAPS: f64 = 0.55;

    /// What it costs such transforms that tiles lie in buffers, and that their results are judged.
    pub const BUFFERED: f64 = 1.15;

    /// A line's pair takes so many times that of a square one: the turns.
    pub const TURNS: f64 = 1.2;

    /// A pair of tiles there and back by our own transforms of `length` x `length` samples.
    pub fn pair(length: usize, isas: &IsaSet) -> f64 {
        let samples = (length * length) as f64;
        // The larger it is, the more of its passes go beyond the second-level cache.
        let far = match length {
            0..=128 => 1.0,
            129..=256 => 1.4,
            257..=512 => 1.7,
            _ => 2.2,
        };
        let each = if isas.has(Isa::Avx512) { 0.08 } else { 0.1 };
        2.0 * samples * samples.log2() * each * far
    }

    /// One transform there or back, a sample.
    pub fn transform(len: f64, dtype: DType) -> f64 {
        let single = 0.16 * len.max(2.0).log2();
        // Past the second-level cache every pass goes to memory.
        let far = if len > 150_000.0 { 1.5 } else { 1.0 };
        far * if dtype == DType::F64 { 1.9 * single } else { single }
    }
}

/// Samples of a tile with its margin over its outputs.
fn margin(tile: [usize; 3], template: [usize; 3]) -> f64 {
    (0..3).map(|axis| (tile[axis] + template[axis] - 1) as f64 / tile[axis] as f64).product()
}

/// Tile shapes for the methods that work on plain tiles, best first: whole where the result is small, and with `strips`
/// as wide as it.
fn plain_tiles(spec: &Spec, strips: bool) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let full = |axis: usize| spec.image().padded()[axis] + template[axis] - 1;
    let sizes: &[[usize; 3]] = match spec.image().axes() {
        1 => &[[1, 1, 16384], [1, 1, 4096], [1, 1, 1024], [1, 1, 256]],
        2 => &[[1, 64, 512], [1, 96, 256], [1, 192, 512], [1, 32, 256], [1, 24, 64], [1, 6, 16]],
        _ => &[[8, 32, 64], [16, 48, 128], [8, 12, 32], [2, 6, 16]],
    };
    let mut tiles: Vec<[usize; 3]> = Vec::new();
    // As wide as the result, a correlation is written where it belongs (`in_place.rs`); wider rows would fall out of
    // the cache.
    if strips {
        match spec.image().axes() {
            1 => {}
            2 => tiles.extend([48, 24].map(|rows| [1, full(1).min(rows), full(2)])),
            _ => {
                // Whole planes are one piece of the result, where their samples are the image's own and there are tiles
                // to share.
                let plane = full(1).saturating_mul(full(2));
                let apt = |planes: &usize| full(0) >= 4 * planes && planes.saturating_mul(plane) <= 1 << 21;
                if spec.mode() == Mode::Valid && spec.image_type() == DType::F32 {
                    tiles.extend([8, 4].into_iter().filter(apt).map(|planes| [planes, full(1), full(2)]));
                }
                tiles.extend([48, 24].map(|rows| [full(0).min(8), full(1).min(rows), full(2)]));
            }
        }
        tiles.dedup();
    }
    for size in sizes {
        // A large template needs a larger tile, or its margin is most of the work.
        let tile = [0, 1, 2].map(|axis| {
            let grown = if size[axis] >= 24 { size[axis].max(template[axis].next_multiple_of(16)) } else { size[axis] };
            grown.min(full(axis))
        });
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Whether tiles as wide as the result may be correlated without buffers, of images of this type.
fn strips(spec: &Spec, image: DType) -> bool {
    let width = spec.image().padded()[2] + spec.template().padded()[2] - 1;
    let plain = spec.op().measure() == Measure::Cc && spec.channels() == 1 && spec.out_type() == DType::F32;
    plain && spec.image_type() == image && spec.mask() == MaskKind::None && (spec.image().axes() == 1 || width <= 8192)
}

/// Whether a tile is as wide as the result may be.
fn wide(spec: &Spec, tile: [usize; 3]) -> bool {
    spec.image().axes() == 1 || tile[2] == spec.image().padded()[2] + spec.template().padded()[2] - 1
}

/// Samples that the tiles of a spec gather, and outputs that they compute.
fn volumes(spec: &Spec, tile: [usize; 3]) -> (f64, f64) {
    let tiling = Tiling::new(spec, tile);
    let largest = tiling.largest();
    let outputs = spec.out_shape().len() as f64;
    (outputs * margin(largest, spec.template().padded()), outputs)
}

/// The direct method.
pub struct DirectSolver;

impl Solver for DirectSolver {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn method(&self) -> Method {
        Method::Direct
    }

    fn platform(&self) -> Platform {
        Platform::Cpu
    }

    fn offers(&self, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
        refuse_inexact(self.name(), spec)?;
        let measure = spec.op().measure();
        let exact = exact_in_f64(spec);
        let real = direct_type(spec, exact);
        let op = if measure == Measure::Sad { KernelOp::AbsDiff } else { KernelOp::Correlate };
        let (template, isas) = (spec.template().padded(), machine.isas());
        let kernel = direct::choose(op, real, template, spec.mode_region().shape.padded(), &isas);
        let count = (spec.templates() * spec.channels()) as f64;
        let sums =
            if spec.mask() != MaskKind::None { f64::from(u8::from(measure.row().needs.square)) * 2.0 } else { 0.0 };
        let rate = cost::multiply_adds(&isas, real);
        let floats = plain_tiles(spec, strips(spec, DType::F32)).into_iter().map(|tile| {
            let (gathered, outputs) = volumes(spec, tile);
            let products = outputs * spec.template().len() as f64 * (count + sums * spec.channels() as f64);
            // Written where they belong, results are not gathered for and not finished.
            let around = if strips(spec, DType::F32) && wide(spec, tile) {
                gathered * cost::SURVEY
            } else {
                gathered * spec.channels() as f64 * cost::GATHER + outputs * count * cost::finish(measure, exact)
            };
            let estimate_ns = products / rate + around;
            Offer {
                kernel: direct_key(kernel, spec, tile),
                method: Method::Direct,
                estimate_ns,
                eligible: Eligible::ByCost,
                recipe: Arc::new(Recipe { real, tile, isas, exact, engine: EngineRecipe::Direct(kernel) }),
            }
        });
        Ok(byte_offers(spec, isas).into_iter().chain(floats).collect())
    }
}

/// Offers of the direct method for bytes, where it serves: exact sums that what follows takes as `f32`.
fn byte_offers(spec: &Spec, isas: IsaSet) -> Vec<Offer> {
    let measure = spec.op().measure();
    let (largest, _) = integer_bounds(spec);
    let bytes = spec.image_type() == DType::U8 && spec.template_type() == DType::U8 && exact_in_f64(spec);
    let plain = spec.mask() == MaskKind::None && spec.channels() == 1 && measure != Measure::Sad;
    // A sum that is the result, or its factor (ncc), is rounded to f32 once, here or later; that of zncc is taken as an
    // integer where scores are made in vectors. Any other has to be an integer that f32 holds.
    let single = spec.out_type() == DType::F32;
    let shown = measure == Measure::Cc && single;
    let fused = matches!(measure, Measure::Zncc | Measure::Ncc) && single && spec.accuracy() != Accuracy::Exact;
    let held = largest < 2f64.powi(24) || ((shown || fused) && spec.template().len() <= bytes::MOST_TAPS);
    if !(bytes && plain && held) {
        return Vec::new();
    }
    let (template, count) = (spec.template().padded(), spec.templates() as f64);
    let offer = |kernel: &'static Kernel, tile: [usize; 3]| {
        let (gathered, outputs) = volumes(spec, tile);
        let largest = Tiling::new(spec, tile).largest();
        let around = match measure {
            Measure::Cc if shown && wide(spec, tile) => 0.0,
            Measure::Cc => outputs * count * cost::finish(measure, true),
            _ => gathered * cost::GATHER + outputs * count * cost::finish(measure, !fused),
        };
        let engine = EngineRecipe::Bytes(kernel);
        Offer {
            kernel: direct_key(kernel, spec, tile),
            method: Method::Direct,
            estimate_ns: outputs * count * byte_sum(kernel, template, largest) + gathered * cost::BYTE_GATHER + around,
            eligible: Eligible::ByCost,
            recipe: Arc::new(Recipe { real: DType::F32, tile, isas, exact: true, engine }),
        }
    };
    let tiles = plain_tiles(spec, strips(spec, DType::U8));
    bytes::choices(template, spec.mode_region().shape.padded(), &isas)
        .flat_map(|kernel| tiles.iter().map(move |&tile| offer(kernel, tile)))
        .collect()
}

/// One sum of bytes, in nanoseconds, in tiles of so many outputs.
fn byte_sum(kernel: &Kernel, template: [usize; 3], tile: [usize; 3]) -> f64 {
    if kernel.isa == Isa::Amx {
        return Plot::new(template).cycles(tile) * cost::TILE_CYCLE + cost::TILE_STORE;
    }
    let waste = kernel.rounded(tile).iter().product::<usize>() as f64 / tile.iter().product::<usize>().max(1) as f64;
    let taps = (template[0] * template[1] * template[2].next_multiple_of(4)) as f64;
    waste * (taps / cost::BYTE_MULTIPLY_ADDS + cost::BYTE_STORE)
}

/// The body's name and the tile.
fn direct_key(kernel: &Kernel, spec: &Spec, tile: [usize; 3]) -> KernelKey {
    let body: KernelKey = kernel.name.parse().expect("the table's names are kernel names, by its tests");
    KernelKey { tile: tile_name(spec, tile), ..body }
}

/// The type that the direct method computes in.
fn direct_type(spec: &Spec, exact: bool) -> DType {
    let (cross, _) = integer_bounds(spec);
    if exact {
        let differences = largest_pixel(spec.work_type()) * spec.template().len() as f64;
        let largest = if spec.op().measure() == Measure::Sad { differences } else { cross };
        return if largest < 2f64.powi(24) && spec.mask() == MaskKind::None { DType::F32 } else { DType::F64 };
    }
    let wants_double =
        spec.out_type() == DType::F64 || spec.accuracy() == Accuracy::Exact || spec.mask() != MaskKind::None;
    // A sum of more terms in f32 would leave too much in doubt.
    let long = spec.accuracy() == Accuracy::Promised && spec.op().measure().row().normalised && !serves_in_single(spec);
    // Integers whose sums f64 does not hold are rounded, but not to f32.
    let huge = integer_problem(spec);
    // Differences are of samples as they are, which may lie beyond f32.
    let wide = spec.op().measure() == Measure::Sad && spec.work_type() == DType::F64;
    if wants_double || long || huge || wide { DType::F64 } else { DType::F32 }
}

/// The Fourier method.
pub struct FourierSolver;

impl Solver for FourierSolver {
    fn name(&self) -> &'static str {
        "fourier"
    }

    fn method(&self) -> Method {
        Method::Fourier
    }

    fn platform(&self) -> Platform {
        Platform::Cpu
    }

    fn offers(&self, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
        refuse_inexact(self.name(), spec)?;
        let measure = spec.op().measure();
        if measure == Measure::Sad {
            return Err(Refusal::new(self.name(), "sad is no sum of products, so it has no product of spectra"));
        }
        let exact_asked = spec.accuracy() == Accuracy::Exact;
        let wants_rounding = wants_rounding(spec);
        let mut offers = Vec::new();
        let mut bound = f64::INFINITY;
        for shape in shapes(spec) {
            let error = rounding_bound(spec, shape);
            bound = bound.min(error);
            let rounds = wants_rounding && error < 0.25;
            if exact_asked && spec.is_integer() && !rounds {
                continue;
            }
            offers.push(self.offer(spec, shape, rounds, wants_rounding, machine.isas()));
        }
        if !wants_rounding {
            offers.extend(self.pairs(spec, machine.isas()));
        }
        if offers.is_empty() {
            return Err(not_rounded(self.name(), bound));
        }
        offers.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
        Ok(offers)
    }
}

impl FourierSolver {
    /// Offers of our own transforms, two tiles at a time in f32, for the problems that they serve.
    fn pairs(&self, spec: &Spec, isas: IsaSet) -> Vec<Offer> {
        let measure = spec.op().measure();
        let plain = spec.channels() == 1 && spec.mask() == MaskKind::None;
        let served = matches!(measure, Measure::Cc | Measure::Zncc | Measure::Ncc);
        let single = spec.out_type() == DType::F32 && spec.accuracy() != Accuracy::Exact;
        let Some(isa) = Planar::isa(&isas).filter(|_| plain && served && single) else {
            return Vec::new();
        };
        let [_, height, width] = spec.template().padded();
        if spec.image().axes() == 1 {
            let lines = pair::LINES.into_iter().filter(|&length| length * length >= width + length * length / 8);
            return lines.map(|length| self.pair_offer(spec, line_layout(spec, length), isas, isa)).collect();
        }
        if spec.image().axes() == 3 {
            return volume_layouts(spec).into_iter().map(|layout| self.volume_offer(spec, layout, isas, isa)).collect();
        }
        let [_, rows, columns] = spec.mode_region().shape.padded();
        let whole = |length: usize| length + 1 >= (height + rows).max(width + columns);
        let layouts =
            pair::LENGTHS.into_iter().filter(|&length| whole(length) || length >= height.max(width) + length / 8);
        let offers = |length| match whole(length) {
            true => vec![self.whole_offer(
                spec,
                single::Layout { length, outputs: [rows, columns], template: [height, width] },
                isas,
                isa,
            )],
            false => {
                let layout = pair_layout(spec, length);
                let across = columns.div_ceil(2 * layout.outputs[1]);
                let band = pair::Layout { pairs: [1, across], ..layout };
                let bands = strips(spec, DType::F32) && band != layout;
                bands
                    .then_some(band)
                    .into_iter()
                    .chain([layout])
                    .map(|layout| self.pair_offer(spec, layout, isas, isa))
                    .collect()
            }
        };
        let hybrids = hybrid_layouts(spec).into_iter().map(|layout| self.hybrid_offer(spec, layout, isas, isa));
        layouts.flat_map(offers).chain(hybrids).collect()
    }

    /// An offer of transforms of columns with taps along rows.
    fn hybrid_offer(&self, spec: &Spec, layout: columns::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let tile = covering(spec, [1, layout.outputs[0], layout.outputs[1]]);
        let (tiling, template) = (Tiling::new(spec, tile), spec.template().padded());
        let (gathered, results) = volumes(spec, tile);
        let templates = spec.templates() as f64;
        let inside = strips(spec, DType::F32) && wide(spec, tile) && spec.mode() == Mode::Valid;
        let around = if inside {
            gathered * cost::REACH
        } else {
            gathered * cost::GATHER + results * templates * cost::finish(spec.op().measure(), false)
        };
        let bands = tiling.count() as f64 * layout.outputs[0].div_ceil(layout.band()) as f64;
        let columns = columns::Layout::half(tiling.largest()[2].max(columns::CHUNK)) as f64;
        let transforms = cost::COLUMNS * cost::pair(layout.length, &isas) * columns / layout.length as f64;
        let products = 4.0 * (layout.length * template[2]) as f64 * columns
            / (cost::TAPS * cost::multiply_adds(&isas, DType::F32));
        let each = (transforms + products) * if inside { 1.0 } else { cost::BUFFERED };
        let key = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size: format!("columns{}", layout.length),
            target: isa.name().into(),
            tile: tile_name(spec, tile),
        };
        let recipe = Recipe { real: DType::F32, tile, isas, exact: false, engine: EngineRecipe::Hybrid(layout) };
        let estimate_ns = bands * templates * each + around;
        Offer {
            kernel: key,
            method: Method::Fourier,
            estimate_ns,
            eligible: Eligible::ByCost,
            recipe: Arc::new(recipe),
        }
    }

    /// An offer of a transform that the whole result fits in.
    fn whole_offer(&self, spec: &Spec, layout: single::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let (image, template) = (spec.image().padded(), spec.template().padded());
        let tile = [0, 1, 2].map(|axis| image[axis] + template[axis] - 1);
        let (templates, samples) = (spec.templates() as f64, (layout.length * layout.length) as f64);
        let estimate_ns = templates * cost::pair(layout.length, &isas) * cost::HALVED * in_doubt(spec, layout.length)
            + samples * cost::GATHER
            + spec.out_shape().len() as f64 * templates * cost::finish(spec.op().measure(), false);
        let key = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size: format!("half{}", join(&[layout.length; 2], "x")),
            target: isa.name().into(),
            tile: tile_name(spec, tile),
        };
        let recipe = Recipe { real: DType::F32, tile, isas, exact: false, engine: EngineRecipe::Halved(layout) };
        Offer {
            kernel: key,
            method: Method::Fourier,
            estimate_ns,
            eligible: Eligible::ByCost,
            recipe: Arc::new(recipe),
        }
    }

    fn pair_offer(&self, spec: &Spec, layout: pair::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let tile = covering(spec, [1, layout.tile()[0], layout.tile()[1]]);
        let pairs = (layout.pairs[0] * layout.pairs[1]) as f64 * Tiling::new(spec, tile).count() as f64;
        let (gathered, results) = volumes(spec, tile);
        let templates = spec.templates() as f64;
        // As wide as the result, tiles are read and written where they lie.
        let around = if strips(spec, DType::F32) && wide(spec, tile) && !layout.line {
            gathered * cost::REACH
        } else {
            gathered * cost::GATHER + results * templates * cost::finish(spec.op().measure(), false)
        };
        let each = cost::pair(layout.length, &isas)
            * in_doubt(spec, layout.length)
            * if layout.line { cost::TURNS } else { 1.0 };
        let estimate_ns = pairs * templates * each + around;
        let size =
            if layout.line { (layout.length * layout.length).to_string() } else { join(&[layout.length; 2], "x") };
        let key = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size,
            target: isa.name().into(),
            tile: tile_name(spec, tile),
        };
        let engine = EngineRecipe::Planar(layout);
        let recipe = Recipe { real: DType::F32, tile, isas, exact: false, engine };
        Offer {
            kernel: key,
            method: Method::Fourier,
            estimate_ns,
            eligible: Eligible::ByCost,
            recipe: Arc::new(recipe),
        }
    }

    fn volume_offer(&self, spec: &Spec, layout: volume::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let tile = covering(spec, layout.tile());
        let tiles = Tiling::new(spec, tile).count() as f64;
        let (gathered, results) = volumes(spec, tile);
        let (templates, planes, layers) =
            (spec.templates() as f64, layout.outputs[0] as f64, layout.template[0] as f64);
        // Samples of all planes as complex numbers: past the second-level cache every pass goes further.
        let samples = (layout.length * layout.length) as f64;
        let far = if 8.0 * samples * (planes + layers) > 1_500_000.0 { 1.5 } else { 1.0 };
        let transforms = (planes + layers / 2.0) * cost::pair(layout.length, &isas);
        let products = 4.0 * samples * planes * layers / cost::multiply_adds(&isas, DType::F32);
        let estimate_ns = tiles * templates * far * (transforms + products)
            + gathered * cost::GATHER
            + results * templates * cost::finish(spec.op().measure(), false);
        let key = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size: format!("planes{}", join(&[layout.length; 2], "x")),
            target: isa.name().into(),
            tile: tile_name(spec, tile),
        };
        let recipe = Recipe { real: DType::F32, tile, isas, exact: false, engine: EngineRecipe::Layered(layout) };
        Offer {
            kernel: key,
            method: Method::Fourier,
            estimate_ns,
            eligible: Eligible::ByCost,
            recipe: Arc::new(recipe),
        }
    }

    fn offer(&self, spec: &Spec, shape: [usize; 3], rounds: bool, wants_rounding: bool, isas: IsaSet) -> Offer {
        let double = spec.out_type() == DType::F64
            || spec.accuracy() == Accuracy::Exact
            || spec.mask() != MaskKind::None
            || wants_rounding;
        let real = if double { DType::F64 } else { DType::F32 };
        let template = spec.template().padded();
        let tile = covering(spec, [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
        let measure = spec.op().measure();
        let (channels, templates) = (spec.channels() as f64, spec.templates() as f64);
        let samples = Tiling::new(spec, tile).count() as f64 * shape.iter().product::<usize>() as f64;
        let sums = if spec.mask() != MaskKind::None && measure.row().needs.square { 4.0 } else { 0.0 };
        let transforms = channels * (1.0 + templates + sums);
        let outputs = spec.out_shape().len() as f64;
        let each = cost::transform(shape.iter().product::<usize>() as f64, real);
        let estimate_ns = samples * (transforms * each + channels * templates * 0.5 + channels * cost::GATHER)
            + outputs * templates * channels * cost::finish(measure, rounds);
        let size = join(&spec.image().unpad(&shape), "x");
        let key = KernelKey {
            op: "fourier".into(),
            dtype: real.name().into(),
            size,
            target: "rustfft".into(),
            tile: tile_name(spec, tile),
        };
        Offer {
            kernel: key,
            method: Method::Fourier,
            estimate_ns,
            // Unrounded, integers of f32 results would be off by a unit: other methods give them exactly.
            eligible: if rounds || !wants_rounding { Eligible::ByCost } else { Eligible::Forced },
            recipe: Arc::new(Recipe {
                real,
                tile,
                isas,
                exact: rounds,
                engine: EngineRecipe::Fourier { shape, rounds },
            }),
        }
    }
}

/// How transforms of planes may share out a volume.
fn volume_layouts(spec: &Spec) -> Vec<volume::Layout> {
    let template = spec.template().padded();
    let [depth, rows, columns] = spec.mode_region().shape.padded();
    let mut layouts = Vec::new();
    if template[0] > volume::MOST_LAYERS {
        return layouts;
    }
    for length in volume::LENGTHS.into_iter().filter(|&length| length >= template[1].max(template[2]) + length / 8) {
        let outputs = [length + 1 - template[1], length + 1 - template[2]];
        let behind = columns <= outputs[1];
        let height = outputs[0].min(rows);
        let width = if behind { columns } else { outputs[1] };
        // More planes share more transforms, fewer stay in the cache.
        for planes in [8, 16, 32] {
            let halves = if behind { depth.div_ceil(2) } else { depth };
            let layout = volume::Layout { length, outputs: [planes.min(halves), height, width], behind, template };
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
    }
    layouts
}

/// How transforms of `length` samples share a tile: as many as keep its samples and results in the second-level cache,
/// but no more than the problem has outputs for.
fn pair_layout(spec: &Spec, length: usize) -> pair::Layout {
    let [_, height, width] = spec.template().padded();
    let [_, rows, columns] = spec.mode_region().shape.padded();
    let most = [length + 1 - height, length + 1 - width];
    // Whole vectors, where that leaves out little.
    let vectors = most[1] / 16 * 16;
    let across = if 10 * vectors >= 9 * most[1] { vectors } else { most[1] };
    let outputs = [most[0], across];
    let wanted = match length {
        64 => [2, 4],
        128 => [1, 2],
        _ => [1, 1],
    };
    let needed = [rows.div_ceil(outputs[0]), columns.div_ceil(2 * outputs[1])];
    let pairs = [0, 1].map(|axis| needed[axis].clamp(1, wanted[axis]));
    pair::Layout { length, line: false, outputs, pairs, template: [height, width] }
}

/// How transforms of columns may share out an image: bands as wide as the result where tiles are read and written where
/// they lie, and tiles whose samples and results stay in the second-level cache.
fn hybrid_layouts(spec: &Spec) -> Vec<columns::Layout> {
    let [_, height, width] = spec.template().padded();
    let [_, rows, columns] = spec.mode_region().shape.padded();
    let mut layouts = Vec::new();
    if width > columns::WIDEST || columns < columns::CHUNK {
        return layouts;
    }
    for length in columns::LENGTHS.into_iter().filter(|&length| length >= height + length / 4) {
        let band = length + 1 - height;
        let layout = |bands: usize, across: usize| columns::Layout {
            length,
            outputs: [(bands * band).min(rows), across.min(columns)],
            template: [height, width],
        };
        let bands = rows.div_ceil(band);
        // Some tiles for each thread.
        let strip = (strips(spec, DType::F32) && spec.mode() == Mode::Valid)
            .then(|| layout(bands.div_ceil(16).min(4), columns));
        // The last tile of a row is as wide as it takes, too.
        let whole = |across: usize| (columns - 1) % across + 1 >= columns::CHUNK;
        let across = (0..16)
            .map(|more| columns.div_ceil(columns.div_ceil(512)).next_multiple_of(16) + 16 * more)
            .find(|&across| whole(across));
        let tile = across.map(|across| layout(bands.min(if length == 64 { 2 } else { 1 }), across));
        for layout in strip.into_iter().chain(tile) {
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
    }
    layouts
}

/// The same for lines of `length * length` samples.
fn line_layout(spec: &Spec, length: usize) -> pair::Layout {
    let [_, _, width] = spec.template().padded();
    let [_, _, columns] = spec.mode_region().shape.padded();
    let outputs = (length * length + 1 - width) / length * length;
    let wanted = if length == 64 { 2 } else { 1 };
    let pairs = columns.div_ceil(2 * outputs).clamp(1, wanted);
    pair::Layout { length, line: true, outputs: [1, outputs], pairs: [1, pairs], template: [1, width] }
}

/// Transform shapes to choose from: about square, of fast lengths, whole axes where they are short.
fn shapes(spec: &Spec) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let whole = spec.mode_region().shape.padded();
    let single = [0, 1, 2].map(|axis| library::fast_length(whole[axis] + template[axis] - 1));
    let longest = template.into_iter().max().unwrap_or(1);
    let (least, most) = match spec.image().axes() {
        1 => (64, 1 << 17),
        2 => (32, 2048),
        _ => (16, 192),
    };
    let mut found: Vec<[usize; 3]> = Vec::new();
    for length in library::fast_lengths(least.min(longest + 1)..(most + 2 * longest + 1)) {
        let shape = [0, 1, 2].map(|axis| {
            if single[axis] <= length {
                single[axis]
            } else {
                library::fast_length(length.max(template[axis] + template[axis] / 4 + 1)).min(single[axis])
            }
        });
        if !found.contains(&shape) {
            found.push(shape);
        }
    }
    if found.is_empty() {
        found.push(single);
    }
    // Larger transforms are slower a sample and take memory that nobody expects; the smallest is there for any
    // template.
    let samples = |shape: &[usize; 3]| shape.iter().map(|&side| side as f64).product::<f64>();
    let most = found.iter().map(samples).fold(f64::INFINITY, f64::min).max((1u32 << 22).into());
    found.retain(|shape| samples(shape) <= most);
    found
}

/// The separable method.
pub struct SeparableSolver;

impl Solver for SeparableSolver {
    fn name(&self) -> &'static str {
        "separable"
    }

    fn method(&self) -> Method {
        Method::Separable
    }

    fn platform(&self) -> Platform {
        Platform::Cpu
    }

    fn offers(&self, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
        let refuse = |reason: &str| Err(Refusal::new(self.name(), reason));
        let measure = spec.op().measure();
        let template = spec.template().padded();
        if measure == Measure::Sad {
            return refuse("sad is no sum of products");
        }
        if spec.image().axes() == 1 {
            return refuse("a 1D template has one axis: there is nothing to separate");
        }
        if spec.mask() != MaskKind::None && measure.row().needs.square {
            return refuse(
                "window sums under a mask by its factors would carry the rounding of the largest sample nearby",
            );
        }
        if spec.accuracy() == Accuracy::Exact && spec.is_integer() {
            return refuse("the factors of an integer template are no integers, so sums are not exact");
        }
        let exact_integers = exact_in_f64(spec) && !measure.row().normalised && spec.accuracy() != Accuracy::Fast;
        let double = spec.out_type() == DType::F64
            || spec.accuracy() == Accuracy::Exact
            || spec.mask() != MaskKind::None
            || exact_integers;
        let real = if double { DType::F64 } else { DType::F32 };
        let isas = machine.isas();
        let kernels =
            if double { separable::choose::<f64>(template, &isas) } else { separable::choose::<f32>(template, &isas) };
        let rank = spec.rank().unwrap_or(1) as f64;
        let count = (spec.templates() * spec.channels()) as f64;
        let rate = cost::multiply_adds(&isas, real) * 0.7;
        let target = kernels[2].isa.name();
        Ok(plain_tiles(spec, strips(spec, DType::F32))
            .into_iter()
            .map(|tile| {
                let (gathered, outputs) = volumes(spec, tile);
                let stretch = (tile[1] + template[1] - 1) as f64 / tile[1] as f64 * (tile[0] + template[0] - 1) as f64
                    / tile[0] as f64;
                let lines = template[2] as f64 * stretch + template[1] as f64 + template[0] as f64;
                let estimate_ns = outputs * rank * lines * count / rate
                    + gathered * spec.channels() as f64 * cost::GATHER
                    + outputs * count * cost::finish(measure, false);
                let size = join(&spec.template().unpad(&template), "x");
                let key = KernelKey {
                    op: "separable".into(),
                    dtype: real.name().into(),
                    size,
                    target: target.into(),
                    tile: tile_name(spec, tile),
                };
                Offer {
                    kernel: key,
                    method: Method::Separable,
                    estimate_ns,
                    eligible: match spec.rank() {
                        _ if exact_integers => Eligible::Forced,
                        Some(_) => Eligible::ByCost,
                        None => Eligible::ByRank,
                    },
                    recipe: Arc::new(Recipe { real, tile, isas, exact: false, engine: EngineRecipe::Separable }),
                }
            })
            .collect())
    }
}
