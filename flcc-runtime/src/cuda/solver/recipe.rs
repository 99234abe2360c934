//! What an offer of platform cuda is made of, and what builds it.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;
use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::decisions::{Decisions, parts};
use crate::cuda::execute::CudaExecute;
use crate::cuda::kernels::{self, Part};
use crate::cuda::method::{self, Around};
use crate::cuda::types::{Cross, Types};
use crate::plan::cost::Work;
use crate::plan::machine::{Device, Machine};
use crate::plan::solver::{self, Eligible, Method, Offer, Platform};
use crate::problem::scheme::Scheme;
use crate::run::execute::Execute;

/// How to build what executes an offer.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub(super) method: Arc<dyn method::Method>,
    pub(super) tile: [usize; 3],
    pub(super) types: Types,
    pub(super) exact: bool,
    pub(super) rounds: bool,
    pub(super) devices: Vec<Device>,
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
            wide: self.wide(),
            template: spec.template().padded(),
            device: device.clone(),
            memory: (memory_limit.unwrap_or(usize::MAX) / self.devices.len().max(1)).min(device.memory / 10 * 6),
        };
        Ok(Box::new(CudaExecute::new(spec, self.devices.iter().map(decide).collect())?))
    }
}

impl Recipe {
    /// What windows are summed up in: the same on all of its devices, so that results do not depend on which of them
    /// has computed them.
    fn wide(&self) -> Wide {
        self.method.wide(self.devices.iter().any(Device::is_slow_in_f64))
    }

    /// What building it compiles, known without a device.
    pub fn sources(&self, spec: &Spec) -> Sources {
        let scheme = Scheme::new(spec, self.exact, self.rounds);
        let (template, options) = (spec.template().padded(), kernels::options(spec, &scheme, self.types));
        let own = self.method.source(template, &Around { options: &options, wide: self.wide(), straight: false });
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

/// What offers are asked for.
pub(super) struct Asked<'a> {
    pub name: &'static str,
    pub spec: &'a Spec,
    pub machine: &'a Machine,
}

/// Whether samples may lie beyond the range of f32, which a tile on a device does not notice of those that are too
/// small for it.
pub(super) fn beyond_single(spec: &Spec) -> bool {
    spec.image_type() == DType::F64
}

pub(super) fn types(spec: &Spec, real: DType, cross: Cross) -> Types {
    Types { pixel: spec.image_type(), real, cross, out: spec.out_type() }
}

/// The name of a generated kernel.
pub(super) fn named(name: &'static str, entry: &Entry) -> Result<KernelKey, Refusal> {
    KernelKey::named(entry.name).map_err(|error| Refusal::new(name, error.to_string()))
}

/// An offer of a recipe, which auto may choose by its cost. Images of a stream are copied while others are computed, so
/// one takes as long as the slower of both.
pub(super) fn offer(
    machine: &Machine,
    spec: &Spec,
    method: Method,
    kernel: KernelKey,
    work: Work,
    recipe: Recipe,
) -> Offer {
    let work = if spec.images() != 1 && !spec.pairs() { work.overlapped() } else { work };
    let estimate_ns = work.ns_on(machine.costs(), 1);
    Offer { kernel, method, work, estimate_ns, eligible: Eligible::ByCost, recipe: Arc::new(recipe) }
}
