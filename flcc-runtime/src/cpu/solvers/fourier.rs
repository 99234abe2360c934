//! The Fourier method: by a library, and in f32 by transforms of our own.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::extent::Mode;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::library_fft::Fourier;
use crate::cpu::fft::{columns, library, pair, single, volume};
use crate::cpu::solvers::cost;
use crate::cpu::solvers::recipe::{Make, Recipe};
use crate::cpu::solvers::tiles::{in_place, volumes, wide};
use crate::isa::{Isa, IsaSet};
use crate::plan::machine::Machine;
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::{not_rounded, refuse_inexact, rounding_bound, wants_rounding};
use crate::run::tiling::{Tiling, covering, tile_name};

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
        let shapes = if rounds_most(spec) { vec![accurate_shape(spec)] } else { shapes(spec) };
        for shape in shapes {
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
        let Some(isa) = pair::Transform::isa(&isas).filter(|_| plain && served && single) else {
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
            true => vec![self.single_offer(
                spec,
                single::Layout { length, outputs: [rows, columns], template: [height, width] },
                isas,
                isa,
            )],
            false => {
                let layout = pair_layout(spec, length);
                let across = columns.div_ceil(2 * layout.outputs[1]);
                let band = pair::Layout { pairs: [1, across], ..layout };
                let bands = in_place(spec, DType::F32) && band != layout;
                bands
                    .then_some(band)
                    .into_iter()
                    .chain([layout])
                    .map(|layout| self.pair_offer(spec, layout, isas, isa))
                    .collect()
            }
        };
        let bands_of_columns =
            columns_layouts(spec).into_iter().map(|layout| self.columns_offer(spec, layout, isas, isa));
        layouts.flat_map(offers).chain(bands_of_columns).collect()
    }

    /// An offer of transforms of our own, in f32, by the name of their size.
    fn own(
        &self,
        spec: &Spec,
        tile: [usize; 3],
        size: String,
        engine: impl Make + 'static,
        estimate_ns: f64,
        (isas, isa): (IsaSet, Isa),
    ) -> Offer {
        let kernel = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size,
            target: isa.name().into(),
            tile: tile_name(spec, tile),
        };
        let recipe = Arc::new(Recipe::new(DType::F32, tile, isas, engine));
        Offer { kernel, method: Method::Fourier, estimate_ns, eligible: Eligible::ByCost, recipe }
    }

    /// An offer of transforms of columns with taps along rows.
    fn columns_offer(&self, spec: &Spec, layout: columns::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let tile = covering(spec, [1, layout.outputs[0], layout.outputs[1]]);
        let (tiling, template) = (Tiling::new(spec, tile), spec.template().padded());
        let (gathered, results) = volumes(spec, tile);
        let templates = spec.templates() as f64;
        let inside = in_place(spec, DType::F32) && wide(spec, tile) && spec.mode() == Mode::Valid;
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
        let estimate_ns = bands * templates * each + around;
        self.own(spec, tile, format!("columns{}", layout.length), layout, estimate_ns, (isas, isa))
    }

    /// An offer of a transform that the whole result fits in.
    fn single_offer(&self, spec: &Spec, layout: single::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let (image, template) = (spec.image().padded(), spec.template().padded());
        let tile = [0, 1, 2].map(|axis| image[axis] + template[axis] - 1);
        let (templates, samples) = (spec.templates() as f64, (layout.length * layout.length) as f64);
        let estimate_ns = templates * cost::pair(layout.length, &isas) * cost::SINGLE * in_doubt(spec, layout.length)
            + samples * cost::GATHER
            + spec.out_shape().len() as f64 * templates * cost::finish(spec.op().measure(), false);
        self.own(spec, tile, format!("half{}", join(&[layout.length; 2], "x")), layout, estimate_ns, (isas, isa))
    }

    fn pair_offer(&self, spec: &Spec, layout: pair::Layout, isas: IsaSet, isa: Isa) -> Offer {
        let tile = covering(spec, [1, layout.tile()[0], layout.tile()[1]]);
        let pairs = (layout.pairs[0] * layout.pairs[1]) as f64 * Tiling::new(spec, tile).count() as f64;
        let (gathered, results) = volumes(spec, tile);
        let templates = spec.templates() as f64;
        // As wide as the result, tiles are read and written where they lie.
        let around = if in_place(spec, DType::F32) && wide(spec, tile) && !layout.line {
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
        self.own(spec, tile, size, layout, estimate_ns, (isas, isa))
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
        self.own(spec, tile, format!("planes{}", join(&[layout.length; 2], "x")), layout, estimate_ns, (isas, isa))
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
            recipe: Arc::new(Recipe { exact: rounds, rounds, ..Recipe::new(real, tile, isas, Library(shape)) }),
        }
    }
}

/// Transforms of tiles of a shape by a library.
#[derive(Debug)]
struct Library([usize; 3]);

impl Make for Library {
    fn single(&self, template: [usize; 3], _isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(Fourier::<f32>::new(self.0, template)))
    }

    fn double(&self, template: [usize; 3], _isas: &IsaSet) -> Option<Box<dyn AnyEngine<f64>>> {
        Some(Box::new(Fourier::<f64>::new(self.0, template)))
    }
}

impl Make for pair::Layout {
    fn single(&self, _template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(pair::Transform::new(*self, isas)?))
    }
}

impl Make for volume::Layout {
    fn single(&self, _template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(volume::Transform::new(*self, isas)?))
    }
}

impl Make for single::Layout {
    fn single(&self, _template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(single::Transform::new(*self, isas)?))
    }
}

impl Make for columns::Layout {
    fn single(&self, _template: [usize; 3], isas: &IsaSet) -> Option<Box<dyn AnyEngine<f32>>> {
        Some(Box::new(columns::Transform::new(*self, isas)?))
    }
}

/// What transforms of this length cost with what is to be done again, over what they cost: the larger a tile is, the
/// more of its panels are faint beside others, and in doubt if scores are promised.
fn in_doubt(spec: &Spec, length: usize) -> f64 {
    let promised = spec.accuracy() == Accuracy::Promised && spec.op().measure().row().normalised;
    if promised { 1.0 + 0.05 * (length as f64 / 128.0).log2().max(0.0) } else { 1.0 }
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
fn columns_layouts(spec: &Spec) -> Vec<columns::Layout> {
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
        let in_place_layout = (in_place(spec, DType::F32) && spec.mode() == Mode::Valid)
            .then(|| layout(bands.div_ceil(16).min(4), columns));
        // The last tile of a row is as wide as it takes, too.
        let whole = |across: usize| (columns - 1) % across + 1 >= columns::CHUNK;
        let across = (0..16)
            .map(|more| columns.div_ceil(columns.div_ceil(512)).next_multiple_of(16) + 16 * more)
            .find(|&across| whole(across));
        let tile = across.map(|across| layout(bands.min(if length == 64 { 2 } else { 1 }), across));
        for layout in in_place_layout.into_iter().chain(tile) {
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

/// Whether sums in f64 are shown as they are and have so few products that what a transform adds counts beside them.
fn rounds_most(spec: &Spec) -> bool {
    let shown = spec.out_type() == DType::F64 && !spec.op().measure().row().normalised;
    shown && spec.accuracy() != Accuracy::Fast && !wants_rounding(spec) && spec.template().len() < 64
}

/// The transform shape whose f64 results are the closest: short, and of powers of two, whose factors the library rounds
/// least (docs/numerics.md has what other lengths were found to add).
fn accurate_shape(spec: &Spec) -> [usize; 3] {
    let (template, whole) = (spec.template().padded(), spec.mode_region().shape.padded());
    let least = match spec.image().axes() {
        1 => 128,
        2 => 32,
        _ => 16,
    };
    [0, 1, 2].map(|axis| {
        let needed = (whole[axis] + template[axis] - 1).next_power_of_two();
        needed.min((2 * template[axis]).next_power_of_two().max(least))
    })
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
