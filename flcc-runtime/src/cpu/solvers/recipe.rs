//! How to build what executes an offer: its engine, and closer ways for what that leaves in doubt.

use std::fmt::Debug;
use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::direct::{self, Direct};
use crate::cpu::engines::library_fft::Fourier;
use crate::cpu::execute::CpuExecute;
use crate::cpu::fft::library;
use crate::cpu::kernels::kernel::KernelOp;
use crate::cpu::ladder::Ladder;
use crate::cpu::real::Real;
use crate::cpu::tile::context::TileContext;
use crate::isa::{self, IsaSet};
use crate::plan::cost::Work;
use crate::plan::machine::Machine;
use crate::plan::solver::{self, Eligible, Method, Offer, Platform};
use crate::problem::scheme::{Scheme, serves_in_single};
use crate::run::execute::Execute;
use crate::run::tiling::Tiling;

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
    pub(super) exact: bool,
    /// Cross terms are rounded to the integers that they stand for.
    pub(super) rounds: bool,
    /// Cross terms are sums of products, one by one.
    pub(super) direct: bool,
    /// The engine.
    pub(super) engine: Arc<dyn Make>,
}

/// An offer of a recipe, which auto may choose by its cost.
pub(super) fn offer(machine: &Machine, method: Method, kernel: KernelKey, work: Work, recipe: Recipe) -> Offer {
    let estimate_ns = work.ns(machine.costs());
    Offer { kernel, method, work, estimate_ns, eligible: Eligible::ByCost, recipe: Arc::new(recipe) }
}

/// What an engine is made by.
pub(super) trait Make: Debug + Send + Sync {
    /// The engine in f32 for templates of a shape, if it computes in that and the processor has what it needs.
    fn single(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>>;

    /// The engine in f64 likewise; few compute in that.
    fn double(&self, _template: [usize; 3], _isas: &IsaSet) -> Option<Box<dyn AnyEngine<f64>>> {
        None
    }
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
    /// Tiles of real sums by an engine that rounds nothing to integers and is not direct.
    pub(super) fn new(real: DType, tile: [usize; 3], isas: IsaSet, engine: impl Make + 'static) -> Recipe {
        Recipe { real, tile, isas, exact: false, rounds: false, direct: false, engine: Arc::new(engine) }
    }

    /// Builds it, with as little memory as possible where that is `short`.
    fn with_memory(&self, spec: &Spec, short: bool) -> Result<Box<dyn Execute>, Refusal> {
        let template = spec.template().padded();
        match self.real {
            DType::F32 => self.executed(spec, self.engine.single(template, &self.isas), short),
            _ => self.executed(spec, self.engine.double(template, &self.isas), short),
        }
    }

    /// Why there is no engine.
    fn lacking(&self) -> Refusal {
        let detected = self.isas.filter(isa::detected);
        let reason = format!("this processor has {detected} of {}, which the plan may use", self.isas);
        Refusal::new("cpu", reason)
    }

    /// Tiles by an engine, and ways for what they leave in doubt.
    fn executed<T: Real>(
        &self,
        spec: &Spec,
        engine: Option<Box<dyn AnyEngine<T>>>,
        short: bool,
    ) -> Result<Box<dyn Execute>, Refusal> {
        let lacking = || self.lacking();
        let engine = engine.ok_or_else(lacking)?;
        let scheme = Scheme::new(spec, self.exact, self.rounds);
        // No way is closer than the direct method in f64.
        let settled = T::DTYPE == DType::F64 && self.direct;
        let ladder = if scheme.promise.is_some() && scheme.integers.is_none() && !settled {
            self.ladder(spec, scheme, T::DTYPE == DType::F32, short).ok_or_else(lacking)?
        } else {
            Ladder::default()
        };
        let tiling = Tiling::new(spec.frame(), self.tile);
        let capacity = tiling.largest();
        let context = TileContext::new(spec.clone(), tiling, capacity, engine, scheme, self.isas);
        let context = if short { context } else { context.in_parts(false) };
        Ok(Box::new(CpuExecute::new(context, ladder, short)))
    }

    /// The closer ways for parts of tiles that are computed in f32 (`single`) or f64.
    fn ladder(&self, spec: &Spec, scheme: Scheme, single: bool, short: bool) -> Option<Ladder> {
        let careful = self.careful(spec, scheme, short)?;
        let near = single && spec.template().len() * spec.channels() <= NEAR && serves_in_single(spec) && !short;
        let near = if near { self.closer(spec, scheme, careful.capacity) } else { None };
        // A bright sample leaves in doubt what transforms make of the samples around it, whatever their type.
        let by_transforms = spec.template().len() > LARGE && !short;
        let last = if by_transforms {
            Some(self.directly(spec, Scheme { rounds: false, ..scheme }, parts(spec))?)
        } else {
            None
        };
        Some(Ladder::new(near, careful, last))
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
            let engine = Box::new(Fourier::new(shape, template));
            return Some(TileContext::new(
                spec.clone(),
                Tiling::new(spec.frame(), capacity),
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
        let engine = Box::new(Direct::new(kernel, template, &self.isas)?);
        Some(TileContext::new(spec.clone(), Tiling::new(spec.frame(), capacity), capacity, engine, scheme, self.isas))
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

/// Samples of a template from which on transforms in f64 are faster than multiply-adds in f64.
const LARGE: usize = 600;

/// Samples of a template up to which parts in doubt are tried by multiply-adds in f32 first: of larger ones transforms
/// in f64 take less time.
const NEAR: usize = 1200;
