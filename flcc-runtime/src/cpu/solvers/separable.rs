//! The separable method.

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::separable::{self, Separable};
use crate::cpu::score::vector::WHOLE_VECTORS;
use crate::cpu::solvers::recipe::{Make, Recipe, offer};
use crate::cpu::solvers::tiles::{around, in_place, plain_tiles};
use crate::isa::IsaSet;
use crate::plan::cost::Term;
use crate::plan::machine::Machine;
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::{exact_in_f64, weights_drown};
use crate::run::tiling::{Tiling, tile_name};

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
        let terms = terms(spec);
        let count = (spec.templates() * spec.channels()) as f64;
        let line = if double { Term::LineDouble } else { Term::LineSingle };
        let target = kernels[2].isa.name();
        Ok(plain_tiles(spec, in_place(spec, DType::F32))
            .into_iter()
            .map(|tile| {
                let tiling = Tiling::new(spec.frame(), tile);
                // Lines along rows are taken of all rows that the tile gathers, those across them of all its planes.
                let sizes = tiling.largest();
                let [planes, rows] = [0, 1].map(|axis| (sizes[axis] + template[axis] - 1) as f64 / sizes[axis] as f64);
                let lines = template[2] as f64 * rows * planes + template[1] as f64 * planes + template[0] as f64;
                let products = spec.out_shape().len() as f64 * terms * lines * count;
                let passes = tiling.gathered() * terms * count * spec.template().axes() as f64;
                let work =
                    around(spec, &tiling, real, false, WHOLE_VECTORS).and(line, products).and(Term::LinePass, passes);
                let size = join(&spec.template().unpad(&template), "x");
                let key = KernelKey {
                    op: "separable".into(),
                    dtype: real.name().into(),
                    size: size.into(),
                    target: target.into(),
                    tile: tile_name(spec.frame(), tile).into(),
                };
                let recipe = Recipe::new(real, tile, isas, Lines);
                let by_cost = offer(machine, Method::Separable, key, work, recipe);
                let eligible = match spec.rank() {
                    _ if exact_integers || weights_drown(spec, true) => Eligible::OnlyIfForced,
                    Some(_) => Eligible::ByCost,
                    None => Eligible::ByRank,
                };
                Offer { eligible, ..by_cost }
            })
            .collect())
    }
}

/// How many products of lines a template of the spec's rank comes to; one where that is not known, since then the
/// template decides. A template without its mean has a term more, and that of a volume is a sum of planes' sums.
fn terms(spec: &Spec) -> f64 {
    let Some(rank) = spec.rank() else { return 1.0 };
    let rank = (rank + usize::from(spec.op().measure() == Measure::Zncc)) as f64;
    if spec.template().axes() == 3 { rank * (rank + 1.0) / 2.0 } else { rank }
}

/// Kernels of lines.
#[derive(Debug)]
struct Lines;

impl Make for Lines {
    fn single(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(Separable::<f32>::new(template, isas)?))
    }

    fn double(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f64>>> {
        Some(Box::new(Separable::<f64>::new(template, isas)?))
    }
}
