//! The Fourier method: by a library, and in f32 by transforms of our own.

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::extent::Mode;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cpu::engine::AnyEngine;
use crate::cpu::engines::library_fft::Fourier;
use crate::cpu::fft::{columns, library, pair, single, stages, volume};
use crate::cpu::score::vector::WHOLE_VECTORS;
use crate::cpu::solvers::recipe::{Make, Recipe, offer};
use crate::cpu::solvers::tiles::{around, begun, in_place, tile_in_place};
use crate::isa::{Isa, IsaSet, Vectors};
use crate::plan::cost::{Term, Work};
use crate::plan::machine::Machine;
use crate::plan::solver::{Eligible, Method, Offer, Platform, Solver};
use crate::problem::scheme::{
    accurate_shape, differences_drown, not_rounded, refuse_differences, refuse_inexact, rounding_bound, rounds,
    transforms_in_double, transforms_serve, wants_rounding,
};
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
        self.made(spec, machine, None)
    }

    fn offers_named(&self, spec: &Spec, machine: &Machine, kernel: &KernelKey) -> Result<Vec<Offer>, Refusal> {
        self.made(spec, machine, Some(kernel))
    }
}

impl FourierSolver {
    /// The solver's offers; those that are likely to be of one kernel, if one is named.
    fn made(&self, spec: &Spec, machine: &Machine, kernel: Option<&KernelKey>) -> Result<Vec<Offer>, Refusal> {
        refuse_inexact(self.name(), spec)?;
        refuse_differences(self.name(), spec)?;
        let wants_rounding = wants_rounding(spec);
        let mut offers = Vec::new();
        let mut bound = f64::INFINITY;
        let accurate = accurate_shape(spec, by_double(spec));
        let shapes = match (accurate, kernel) {
            (Some(shape), _) => vec![shape],
            (None, None) if !wants_rounding => best_shapes(spec),
            _ => shapes(spec),
        };
        let size: Option<Vec<usize>> =
            kernel.map(|kernel| kernel.size.split('x').filter_map(|length| length.parse().ok()).collect());
        for shape in shapes {
            if size.as_ref().is_some_and(|size| *size != spec.image().unpad(&shape)) {
                continue;
            }
            bound = bound.min(rounding_bound(spec, shape));
            if let Some(rounds) = rounds(spec, shape) {
                offers.push(self.by_library(spec, shape, rounds, machine));
            }
        }
        let ours = !wants_rounding && accurate.is_none();
        if ours && kernel.is_none_or(|kernel| kernel.target != LIBRARY) {
            offers.extend(self.pairs(spec, machine));
        }
        if offers.is_empty() {
            return Err(not_rounded(self.name(), bound));
        }
        offers.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
        Ok(offers)
    }

    /// Offers of our own transforms, two tiles at a time in f32, for the problems that they serve.
    fn pairs(&self, spec: &Spec, machine: &Machine) -> Vec<Offer> {
        let isas = machine.isas();
        let measure = spec.op().measure();
        let plain = spec.channels() == 1 && spec.mask() == MaskKind::None;
        let served = matches!(measure, Measure::Cc | Measure::Zncc | Measure::Ncc);
        let single = spec.out_type() == DType::F32 && spec.accuracy() != Accuracy::Exact;
        let Some(isa) = Vectors::isa(&isas).filter(|_| plain && served && single) else {
            return Vec::new();
        };
        let [_, height, width] = spec.template().padded();
        if spec.image().axes() == 1 {
            let lines = pair::LINES.into_iter().filter(|&length| length * length >= width + length * length / 8);
            return lines.map(|length| self.pair_offer(spec, line_layout(spec, length), machine, isa)).collect();
        }
        if spec.image().axes() == 3 {
            return volume_layouts(spec)
                .into_iter()
                .map(|layout| self.volume_offer(spec, layout, machine, isa))
                .collect();
        }
        let [_, rows, columns] = spec.mode_region().shape.padded();
        let whole = |length: usize| length + 1 >= (height + rows).max(width + columns);
        let layouts =
            stages::LENGTHS.into_iter().filter(|&length| whole(length) || length >= height.max(width) + length / 8);
        let offers = |length| match whole(length) {
            true => vec![self.single_offer(
                spec,
                single::Layout { length, outputs: [rows, columns], template: [height, width] },
                machine,
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
                    .map(|layout| self.pair_offer(spec, layout, machine, isa))
                    .collect()
            }
        };
        let bands_of_columns =
            columns_layouts(spec).into_iter().map(|layout| self.columns_offer(spec, layout, machine, isa));
        layouts.flat_map(offers).chain(bands_of_columns).collect()
    }

    /// An offer of transforms of our own, in f32, by the name of their size.
    fn own(
        &self,
        spec: &Spec,
        tile: [usize; 3],
        size: String,
        engine: impl Make + 'static,
        work: Work,
        (machine, isa): (&Machine, Isa),
    ) -> Offer {
        let kernel = KernelKey {
            op: "fourier".into(),
            dtype: DType::F32.name().into(),
            size: size.into(),
            target: isa.name().into(),
            tile: tile_name(spec.frame(), tile).into(),
        };
        offer(machine, Method::Fourier, kernel, work, Recipe::new(DType::F32, tile, machine.isas(), engine))
    }

    /// An offer of transforms of columns with taps along rows.
    fn columns_offer(&self, spec: &Spec, layout: columns::Layout, machine: &Machine, isa: Isa) -> Offer {
        let tile = covering(spec.frame(), [1, layout.outputs[0], layout.outputs[1]]);
        let (tiling, template) = (Tiling::new(spec.frame(), tile), spec.template().padded());
        let inside = tile_in_place(spec, DType::F32, tile) && spec.mode() == Mode::Valid;
        let bands = (tiling.count() * layout.outputs[0].div_ceil(layout.band()) * spec.templates()) as f64;
        let columns = columns::Layout::half(tiling.largest()[2].max(columns::CHUNK)) as f64;
        let samples = bands * layout.length as f64 * columns;
        // Binding sums each frequency of a column over its rows in f64. For promised scores it also follows how columns
        // add up to waves along the rows. A step of either takes as long as so many samples are transformed.
        let steps = template[1] + if promised_scores(spec) { template[2] } else { 0 };
        let columns_bound = (layout.length * template[2]) as f64 * (1.0 + COLUMN_STEP * steps as f64);
        let near = if layout.length == columns::LENGTHS[0] { NEAR_COLUMNS } else { 1.0 };
        let work = self
            .around(spec, &tiling, inside)
            .and(
                Term::Columns,
                (near * samples + binds(spec, columns_bound)) * ((layout.length * layout.length) as f64).log2(),
            )
            .and(Term::TapColumn, 4.0 * near * samples * template[2] as f64);
        self.own(spec, tile, format!("columns{}", layout.length), layout, work, (machine, isa))
    }

    /// An offer of a transform that the whole result fits in.
    fn single_offer(&self, spec: &Spec, layout: single::Layout, machine: &Machine, isa: Isa) -> Offer {
        let (image, template) = (spec.image().padded(), spec.template().padded());
        let tile = [0, 1, 2].map(|axis| image[axis] + template[axis] - 1);
        let tiling = Tiling::new(spec.frame(), tile);
        let samples = (layout.length * layout.length) as f64;
        let work =
            transforms(self.around(spec, &tiling, false), spec, Term::Single, layout.length, 1.0 + binds(spec, 1.0))
                .and(Term::Copy, (samples - tiling.gathered()).max(0.0));
        self.own(spec, tile, format!("half{}", join(&[layout.length; 2], "x")), layout, work, (machine, isa))
    }

    fn pair_offer(&self, spec: &Spec, layout: pair::Layout, machine: &Machine, isa: Isa) -> Offer {
        let tile = covering(spec.frame(), [1, layout.tile()[0], layout.tile()[1]]);
        let tiling = Tiling::new(spec.frame(), tile);
        let pairs = (layout.pairs[0] * layout.pairs[1] * tiling.count()) as f64;
        // As wide as the result, tiles are read and written where they lie.
        let inside = tile_in_place(spec, DType::F32, tile) && !layout.line;
        let term = if layout.line { Term::Lines } else { Term::Pair };
        // Binding transforms one tile, and looks at its spectrum for what the error model asks of it.
        let bound = binds(spec, if layout.line { 20.0 } else { 5.5 });
        let work = transforms(self.around(spec, &tiling, inside), spec, term, layout.length, pairs + bound);
        let size =
            if layout.line { (layout.length * layout.length).to_string() } else { join(&[layout.length; 2], "x") };
        self.own(spec, tile, size, layout, work, (machine, isa))
    }

    fn volume_offer(&self, spec: &Spec, layout: volume::Layout, machine: &Machine, isa: Isa) -> Offer {
        let tile = covering(spec.frame(), layout.tile());
        let tiling = Tiling::new(spec.frame(), tile);
        let tiles = (tiling.count() * spec.templates()) as f64;
        let (planes, layers) = (layout.outputs[0] as f64, layout.template[0] as f64);
        let samples = (layout.length * layout.length) as f64;
        // Samples of all planes as complex numbers: past the second-level cache every pass goes further.
        let far = if 8.0 * samples * (planes + layers) > 1_500_000.0 { 1.5 } else { 1.0 };
        let work = self
            .around(spec, &tiling, false)
            .and(
                Term::Planes,
                far * (tiles * (planes + layers / 2.0) + binds(spec, layers / 2.0)) * samples * samples.log2(),
            )
            .and(Term::TapPlane, far * tiles * 4.0 * samples * planes * layers);
        self.own(spec, tile, format!("planes{}", join(&[layout.length; 2], "x")), layout, work, (machine, isa))
    }

    /// The work around transforms of our own, of tiles that lie in buffers or `inside` image and result.
    fn around(&self, spec: &Spec, tiling: &Tiling, inside: bool) -> Work {
        if inside {
            begun(spec, tiling).and(Term::Look, tiling.gathered())
        } else {
            around(spec, tiling, DType::F32, false, WHOLE_VECTORS)
        }
    }

    fn by_library(&self, spec: &Spec, shape: [usize; 3], rounds: bool, machine: &Machine) -> Offer {
        let double = by_double(spec);
        let real = if double { DType::F64 } else { DType::F32 };
        let template = spec.template().padded();
        let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
        let tiling = Tiling::new(spec.frame(), tile);
        let (channels, templates) = (spec.channels() as f64, spec.templates() as f64);
        let each = shape.iter().map(|&length| length as f64).product::<f64>();
        let samples = tiling.count() as f64 * each;
        let masked = spec.mask() != MaskKind::None && spec.op().measure().row().needs.square;
        let transforms = channels * (1.0 + templates + if masked { 4.0 } else { 0.0 } + binds(spec, 1.0));
        // Lines along each axis that has more than one sample.
        let lines: f64 =
            shape.iter().filter(|&&length| length > 1).map(|&length| samples * transforms / length as f64).sum();
        let outputs = spec.out_shape().len() as f64 * templates;
        let again = if differences_drown(spec) && !double {
            outputs
        } else if masked && spec.out_type() == DType::F64 && hangs_over(spec) {
            outputs * spec.template().len() as f64 * EDGES
        } else {
            0.0
        };
        // Past the second-level cache, the further the larger a transform is.
        let bytes = each * if double { 8.0 } else { 4.0 };
        let far = (bytes / NEAR).log2().max(0.0);
        let work = around(spec, &tiling, real, rounds, shape[2])
            .and(
                if double { Term::LibraryDouble } else { Term::LibrarySingle },
                samples * transforms * each.max(2.0).log2(),
            )
            .and(Term::LibraryCall, tiling.count() as f64 * transforms)
            .and(Term::LibraryFar, samples * transforms * far)
            .and(Term::Again, again)
            .and(Term::LibraryLine, lines)
            .and(Term::Product, samples * channels * templates);
        let kernel = KernelKey {
            op: "fourier".into(),
            dtype: real.name().into(),
            size: join(&spec.image().unpad(&shape), "x").into(),
            target: LIBRARY.into(),
            tile: tile_name(spec.frame(), tile).into(),
        };
        let recipe = Recipe { exact: rounds, rounds, ..Recipe::new(real, tile, machine.isas(), Library(shape)) };
        let by_cost = offer(machine, Method::Fourier, kernel, work, recipe);
        let serves = transforms_serve(spec, rounds, true);
        Offer { eligible: if serves { Eligible::ByCost } else { Eligible::OnlyIfForced }, ..by_cost }
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

/// What transforms by the library are told by in names.
const LIBRARY: &str = "rustfft";

/// Bytes of a library's transform that stay near a core.
const NEAR: f64 = 1.5e6;

/// What masked scores in f64 cost more where windows hang over the image: the share that is computed again, times what
/// a tap of them costs over what a score does that drowns. Measured: 0.3 to 2 % of them at some 8 ns a tap.
const EDGES: f64 = 0.016;

/// Whether windows hang over the image and meet one value beside it: of those at corners little is left.
fn hangs_over(spec: &Spec) -> bool {
    spec.mode() == Mode::Full && matches!(spec.boundary(), Boundary::Zero | Boundary::Constant(_))
}

/// Whether a transform in f32 leaves so much of so many scores open that it is computed again in f64 anyway: squared
/// differences over the energies of windows that have few samples of the image.
fn drowns(spec: &Spec) -> bool {
    differences_drown(spec) && hangs_over(spec)
}

/// What the shortest columns take over longer ones, which fall out of the first-level cache: measured, 0.77 to 0.95 for
/// 7x7 to 21x21 where those of 128 samples took 0.92 to 1.06 of the estimate (images of 300 and 1000 a side).
const NEAR_COLUMNS: f64 = 0.87;

/// What a step of binding columns takes over a sample of their transforms: measured, 2.1 ns over some 0.43.
const COLUMN_STEP: f64 = 5.0;

/// Whether scores are normalised and have to keep the promise.
fn promised_scores(spec: &Spec) -> bool {
    spec.accuracy() == Accuracy::Promised && spec.op().measure().row().normalised
}

/// What binding adds, where each image has a template of its own.
fn binds(spec: &Spec, amount: f64) -> f64 {
    if spec.pairs() { amount } else { 0.0 }
}

/// With so many transforms of our own of `length * length` samples, for each template.
fn transforms(work: Work, spec: &Spec, term: Term, length: usize, count: f64) -> Work {
    let samples = (length * length) as f64;
    let passes = count * spec.templates() as f64 * samples * samples.log2();
    let far = if length > 128 { length as f64 / 256.0 } else { 0.0 };
    let doubt = if promised_scores(spec) { passes * far } else { 0.0 };
    work.and(term, passes).and(Term::OwnFar, passes * far).and(Term::OwnDoubt, doubt)
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

/// How lines of `length * length` samples share a tile: as many as keep it in the second-level cache, but no more than
/// the problem has outputs for.
fn line_layout(spec: &Spec, length: usize) -> pair::Layout {
    let [_, _, width] = spec.template().padded();
    let [_, _, columns] = spec.mode_region().shape.padded();
    let outputs = (length * length + 1 - width) / length * length;
    let wanted = if length == 64 { 2 } else { 1 };
    let pairs = columns.div_ceil(2 * outputs).clamp(1, wanted);
    pair::Layout { length, line: true, outputs: [1, outputs], pairs: [1, pairs], template: [1, width] }
}

/// Whether the library transforms in f64.
fn by_double(spec: &Spec) -> bool {
    transforms_in_double(spec) || drowns(spec)
}

/// The largest odd factor of lengths of tiles: 8 lengths an octave are near enough to any other, by estimate 5 % at
/// most for 300 made-up specs, and there are few of them to choose from.
const MOST_ODD: usize = 45;

/// The transform shapes that are worth an estimate: the best few of each octave by samples to transform times their
/// logarithm, and the smallest, for little memory.
fn best_shapes(spec: &Spec) -> Vec<[usize; 3]> {
    let (template, whole) = (spec.template().padded(), spec.mode_region().shape.padded());
    let samples = |shape: &[usize; 3]| shape.iter().product::<usize>();
    let rough = |shape: &[usize; 3]| {
        let tiles = [0, 1, 2].map(|axis| whole[axis].div_ceil(shape[axis] + 1 - template[axis]) as f64);
        tiles.iter().product::<f64>() * samples(shape) as f64 * (samples(shape) as f64).log2()
    };
    let mut found: Vec<_> = shapes(spec).into_iter().map(|shape| (shape, rough(&shape))).collect();
    let least = found.iter().map(|(shape, _)| samples(shape)).min();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    let octave = |shape: &[usize; 3]| shape.iter().max().map_or(0, |length| length.ilog2());
    let mut taken = [0usize; usize::BITS as usize];
    found.retain(|(shape, _)| {
        let taken = &mut taken[octave(shape) as usize];
        *taken += 1;
        *taken <= OF_AN_OCTAVE || Some(samples(shape)) == least
    });
    found.into_iter().map(|(shape, _)| shape).collect()
}

/// Transform shapes of an octave of lengths that are worth an estimate.
const OF_AN_OCTAVE: usize = 3;

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
    // With fewer outputs than a quarter of the template along an axis, a tile is mostly margin.
    let enough = template.map(|length| library::fast_length(length + length / 4 + 1));
    let mut found: Vec<[usize; 3]> = Vec::new();
    let lengths = library::fast_lengths(least.min(longest + 1)..(most + 2 * longest + 1));
    for length in lengths.filter(|length| length >> length.trailing_zeros() <= MOST_ODD) {
        let shape = [0, 1, 2].map(|axis| length.max(enough[axis]).min(single[axis]));
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
