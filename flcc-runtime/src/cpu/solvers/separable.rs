//! The separable method.

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::shape::join;
use flcc_core::spec::Spec;

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::separable::{self, Separable};
use crate::cpu::score::vector::WHOLE_VECTORS;
use crate::cpu::solvers::recipe::{Make, Recipe, offer};
use crate::cpu::solvers::tiles::{around, in_place, plain_tiles};
use crate::isa::IsaSet;
use crate::plan::cost::Term;
use crate::plan::machine::Machine;
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::{factored_terms, factors_in_double, refuse_factors};
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
        refuse_factors(self.name(), spec)?;
        let (template, double) = (spec.template().padded(), factors_in_double(spec));
        let real = if double { DType::F64 } else { DType::F32 };
        let isas = machine.isas();
        let kernels =
            if double { separable::choose::<f64>(template, &isas) } else { separable::choose::<f32>(template, &isas) };
        let terms = factored_terms(spec);
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
                Offer { eligible: Eligible::of_factors(spec, true), ..by_cost }
            })
            .collect())
    }
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
