//! The direct method.

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::bytes::{self, Bytes};
use crate::cpu::engines::direct::{self, Direct};
use crate::cpu::kernels::amx::plot::{Plot, SIDE};
use crate::cpu::kernels::kernel::{Kernel, KernelOp};
use crate::cpu::score::vector::WHOLE_VECTORS;
use crate::cpu::solvers::recipe::{Make, Recipe, offer};
use crate::cpu::solvers::tiles::{around, begun, direct_tiles, in_place, tile_in_place};
use crate::isa::{Isa, IsaSet};
use crate::plan::cost::{Term, Work};
use crate::plan::machine::Machine;
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::{exact_in_f64, integer_bounds, largest_pixel, refuse_inexact, sums_in_double};
use crate::run::tiling::{Tiling, tile_name};

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
        let kernels = direct::choices(op, real, template, spec.mode_region().shape.padded(), &isas);
        let count = (spec.templates() * spec.channels()) as f64;
        let sums =
            if spec.mask() != MaskKind::None { f64::from(u8::from(measure.row().needs.square)) * 2.0 } else { 0.0 };
        let single = real == DType::F32;
        let tap = match (measure == Measure::Sad, single) {
            (true, true) => Term::DifferenceSingle,
            (true, false) => Term::DifferenceDouble,
            (false, true) => Term::TapSingle,
            (false, false) => Term::TapDouble,
        };
        let row = if single { Term::TapRowSingle } else { Term::TapRow };
        let times = count + sums * spec.channels() as f64;
        let tiles = direct_tiles(spec, in_place(spec, DType::F32));
        let of_kernel = |(number, kernel): (usize, &'static Kernel), tile: [usize; 3]| {
            let tiling = Tiling::new(spec.frame(), tile);
            let computed = tiling.rounded([1, kernel.block_rows, kernel.lanes]) * times;
            let blocks = computed / (kernel.block_rows * kernel.lanes) as f64;
            // Written where they belong, results are not gathered for and not finished.
            let around = if tile_in_place(spec, DType::F32, tile) {
                begun(spec, &tiling).and(Term::InPlace, tiling.gathered())
            } else {
                around(spec, &tiling, real, exact, WHOLE_VECTORS)
            };
            let taps = computed * spec.template().len() as f64;
            let deep = real == DType::F32 && template[0] > 8;
            let work = around
                .and(tap, taps)
                .and(Term::TapDeep, if deep { taps } else { 0.0 })
                .and(row, blocks * (template[0] * template[1]) as f64);
            let by_cost = offer(
                machine,
                Method::Direct,
                direct_key(kernel, spec, tile),
                work,
                Recipe { exact, direct: true, ..Recipe::new(real, tile, isas, Floats(kernel)) },
            );
            Offer { eligible: if number == 0 { Eligible::ByCost } else { Eligible::ByName }, ..by_cost }
        };
        let floats = kernels.into_iter().enumerate();
        let floats = floats.flat_map(|kernel| tiles.iter().map(move |&tile| of_kernel(kernel, tile)));
        Ok(byte_offers(spec, machine).into_iter().chain(floats).collect())
    }
}

/// A kernel of floats.
#[derive(Debug)]
struct Floats(&'static Kernel);

impl Make for Floats {
    fn single(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(Direct::<f32>::new(self.0, template, isas)?))
    }

    fn double(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f64>>> {
        Some(Box::new(Direct::<f64>::new(self.0, template, isas)?))
    }
}

/// A kernel of bytes.
#[derive(Debug)]
struct OfBytes(&'static Kernel);

impl Make for OfBytes {
    fn single(&self, template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(Bytes::new(self.0, template, isas)?))
    }
}

/// Offers of the direct method for bytes, where it serves: exact sums that what follows takes as `f32`.
fn byte_offers(spec: &Spec, machine: &Machine) -> Vec<Offer> {
    let isas = machine.isas();
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
    let of_kernel = |kernel: &'static Kernel, tile: [usize; 3]| {
        let tiling = Tiling::new(spec.frame(), tile);
        let around = match measure {
            Measure::Cc if tile_in_place(spec, DType::U8, tile) => begun(spec, &tiling),
            Measure::Cc => begun(spec, &tiling).and(Term::Write, spec.out_shape().len() as f64 * count),
            _ => around(spec, &tiling, DType::F32, true, WHOLE_VECTORS),
        };
        // Of a template that is bound each time the unit's taps are laid out anew, for each output of a product.
        let laid = if spec.pairs() && kernel.isa == Isa::Amx { SIDE * spec.template().len() } else { 0 };
        let work = byte_sums(around, kernel, template, &tiling, count)
            .and(Term::CopyByte, tiling.gathered())
            .and(Term::Convert, laid as f64);
        offer(
            machine,
            Method::Direct,
            direct_key(kernel, spec, tile),
            work,
            Recipe { exact: true, direct: true, ..Recipe::new(DType::F32, tile, isas, OfBytes(kernel)) },
        )
    };
    let tiles = direct_tiles(spec, in_place(spec, DType::U8));
    bytes::choices(template, spec.mode_region().shape.padded(), &isas)
        .flat_map(|kernel| tiles.iter().map(move |&tile| of_kernel(kernel, tile)))
        .collect()
}

/// With the sums of bytes of a kernel in all tiles, for so many templates.
fn byte_sums(work: Work, kernel: &Kernel, template: [usize; 3], tiling: &Tiling, count: f64) -> Work {
    if kernel.isa == Isa::Amx {
        let outputs = tiling.rounded([1; 3]) * count;
        let cycles = outputs * Plot::new(template).cycles(tiling.largest());
        return work.and(Term::UnitCycle, cycles).and(Term::UnitStore, outputs);
    }
    let computed = tiling.rounded([1, kernel.block_rows, kernel.lanes]) * count;
    let taps = (template[0] * template[1] * template[2].next_multiple_of(4)) as f64;
    work.and(Term::TapByte, computed * taps).and(Term::StoreByte, computed)
}

/// The body's name and the tile.
fn direct_key(kernel: &Kernel, spec: &Spec, tile: [usize; 3]) -> KernelKey {
    let body = KernelKey::named(kernel.name).expect("the table's names are kernel names, by its tests");
    KernelKey { tile: tile_name(spec.frame(), tile).into(), ..body }
}

/// The type that the direct method computes in.
fn direct_type(spec: &Spec, exact: bool) -> DType {
    let (cross, _) = integer_bounds(spec);
    if exact {
        let differences = largest_pixel(spec.work_type()) * spec.template().len() as f64;
        let largest = if spec.op().measure() == Measure::Sad { differences } else { cross };
        return if largest < 2f64.powi(24) && spec.mask() == MaskKind::None { DType::F32 } else { DType::F64 };
    }
    // Differences are of samples as they are, which may lie beyond f32.
    let wide = spec.op().measure() == Measure::Sad && spec.work_type() == DType::F64;
    if sums_in_double(spec) || wide { DType::F64 } else { DType::F32 }
}
