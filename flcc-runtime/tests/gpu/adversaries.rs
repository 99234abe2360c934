//! Images that are made to break the error model, on a GPU: what cuFFT errs by over what it is granted, and how far
//! each engine stays below its promise. The lines that begin with `measured:` are what `cargo xtask gpu-check` shows of
//! them.

use flcc_runtime::account::Outcome;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::core::wide::Wide;
use flcc_runtime::rooms::cpu::engines::library_fft::Fourier;
use flcc_runtime::rooms::cpu::memory::Memory;
use flcc_runtime::rooms::problem::error_model::{Doubt, Figures, Library, Model, Promise, Rounding, Strong};
use flcc_runtime::rooms::run::tiling::Tiling;
use flcc_runtime::{AnyView, DType, Effort, Measure, Method, Pixels, Plan, Planner, Platform, Spec};

use super::common::{Problem, Seed, in_threads, planner};
use super::{device, fast_device, gpu, seed};

#[path = "../../src/cpu/testing.rs"]
#[allow(dead_code, reason = "the unit tests of the engines use the rest")]
mod testing;

/// Standard deviations that the model grants.
const DEVIATIONS: f64 = 8.0;

/// The largest of some numbers with what it belongs to.
#[derive(Clone, Default)]
struct Worst {
    value: f64,
    of: String,
}

impl Worst {
    fn see(&mut self, value: f64, of: impl FnOnce() -> String) {
        // What is no number is worse than any.
        if value.is_nan() || value > self.value {
            *self = Worst { value: if value.is_nan() { f64::INFINITY } else { value }, of: of() };
        }
    }

    fn join(&mut self, other: &Worst) {
        self.see(other.value, || other.of.clone());
    }
}

/// What an image is made of.
#[derive(Clone, Copy)]
enum Kind {
    /// One of the list.
    Listed(usize),
    /// Nothing but one copy of a template of two levels.
    Planted,
    /// Noise with a bright pixel in one of the last tiles, beside a border of whatever tiles begin at a power of two.
    Late,
    /// A few equal samples, and a template of stripes: what it answers to is no frequency of theirs.
    Striped,
    /// Texture of a few levels beside a step, and a copy of it.
    Copied,
    /// The same among blocks of the template's sides.
    Among,
}

impl Kind {
    fn all() -> Vec<Kind> {
        (0..testing::IMAGES.len())
            .map(Kind::Listed)
            .chain([Kind::Planted, Kind::Late, Kind::Striped, Kind::Copied, Kind::Among])
            .collect()
    }

    /// Those that the error model of a transform holds for where no noise is in the samples, as where sums are shown.
    fn without_noise() -> Vec<Kind> {
        Kind::all().into_iter().filter(|kind| !matches!(kind, Kind::Copied | Kind::Among)).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Listed(number) => testing::IMAGES[number].0,
            Kind::Planted => "a template of two levels on nothing",
            Kind::Late => "a pixel of 1e4 in a late tile",
            Kind::Striped => "a few equal samples under stripes",
            Kind::Copied => "copies of few levels beside a step",
            Kind::Among => "copies of few levels among blocks",
        }
    }

    /// The samples of an image, and a part of it as a template; where all of that is equal, one of another kind.
    fn cut(self, spec: &Spec, seed: u64) -> (Vec<f32>, Vec<f64>) {
        let (image, template) = self.make(spec, seed);
        let (lengths, [kd, kh, kw]) = (spec.image().padded(), spec.template().padded());
        let [z0, y0, x0] = [0, 1, 2].map(|axis| (lengths[axis] - [kd, kh, kw][axis]) * [1, 2, 1][axis] / 3);
        let lines = (0..kd * kh).map(|line| ((z0 + line / kh) * lengths[1] + y0 + line % kh) * lengths[2] + x0);
        let part: Vec<f64> =
            lines.flat_map(|from| image[from..from + kw].iter().map(|&value| f64::from(value))).collect();
        let equal = part.iter().all(|value| *value == part[0]);
        (image, if equal { template } else { part })
    }

    /// The samples of an image, and those of a template of mean 0 and norm 1 that goes with it.
    fn make(self, spec: &Spec, seed: u64) -> (Vec<f32>, Vec<f64>) {
        let (shape, taps) = (spec.image(), spec.template().len());
        let [_, height, width] = shape.padded();
        let mut noise = testing::noise(seed);
        match self {
            Kind::Listed(number) => {
                // A line is what rows of 1024 would be, one after the other, and the planes of a volume lie below each
                // other.
                let row = if shape.axes() == 1 { 1024 } else { width };
                let image =
                    (0..shape.len()).map(|at| (testing::IMAGES[number].1)(at / row, at % row, noise())).collect();
                (image, testing::template(taps, seed % 2 == 1, testing::noise(seed + 1)))
            }
            Kind::Late => {
                let mut image: Vec<f32> = (0..shape.len()).map(|_| noise()).collect();
                let place = shape.padded().map(|length| {
                    let late = 9 * length / 10;
                    late - late % (1 << late.checked_ilog2().unwrap_or(0).saturating_sub(1))
                });
                image[(place[0] * height + place[1]) * width + place[2]] = 1e4;
                (image, testing::template(taps, seed % 2 == 1, testing::noise(seed + 1)))
            }
            Kind::Striped => testing::striped(shape.padded(), spec.template().padded(), seed),
            Kind::Copied => testing::copied(shape.padded(), spec.template().padded(), seed),
            Kind::Among => testing::among_blocks(shape.padded(), spec.template().padded(), seed),
            Kind::Planted => {
                let mut levels: Vec<f64> = (0..taps).map(|tap| if 2 * tap < taps { 1.0 } else { -1.0 }).collect();
                let mut seed = Seed(seed);
                (1..taps).rev().for_each(|last| levels.swap(last, seed.below(last + 1)));
                let mut image = vec![0.0; shape.len()];
                let ([kd, kh, kw], lengths) = (spec.template().padded(), shape.padded());
                let [z0, y0, x0] = [0, 1, 2].map(|axis| (lengths[axis] - [kd, kh, kw][axis]) / 3);
                for (tap, level) in levels.iter().enumerate() {
                    let [z, y, x] = [z0 + tap / (kh * kw), y0 + tap / kw % kh, x0 + tap % kw];
                    image[(z * height + y) * width + x] = 1e4 * *level as f32;
                }
                let norm = (taps as f64).sqrt();
                (image, levels.iter().map(|level| level / norm).collect())
            }
        }
    }
}

/// The result of a spec by a kernel, or by the best of a method.
fn run(
    spec: &Spec,
    planner: &Planner,
    kernel: Option<&KernelKey>,
    image: &Pixels,
    template: &Pixels,
) -> (Vec<f64>, KernelKey) {
    let plan = kernel.map_or_else(|| planner.plan(spec), |kernel| planner.plan_with_kernel(spec, kernel));
    let plan = plan.unwrap_or_else(|error| panic!("{spec}: {error}"));
    let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
    let map = plan.execute(&[view(image, spec.image())], &[view(template, spec.template())], None);
    let map = map.unwrap_or_else(|error| panic!("{spec} by {}: {error}", plan.kernel())).remove(0);
    (map.data().to_f64(), plan.kernel().clone())
}

/// The numbers of a shape in a kernel's name.
fn sides(text: &str) -> [usize; 3] {
    let sides: Vec<usize> = text.trim_start_matches('t').split('x').map(|side| side.parse().unwrap()).collect();
    let mut padded = [1; 3];
    padded[3 - sides.len()..].copy_from_slice(&sides);
    padded
}

/// Correlations whose transforms have the lengths that the recipe chooses.
const CORRELATIONS: [&str; 12] = [
    "100000*64",
    "2000000*128",
    "600x600*8x8",
    "900x700*8x8",
    "2000x2000*16x16",
    "1300x2711*32x32",
    "4096x4096*128x128",
    "100x100x100*8x8x8",
    "64x200x180*5x9x8",
    "100000*3000",
    "500x500*200x200",
    "90x90x90*40x40x40",
];

/// What transforms err by on images of one kind.
#[derive(Clone, Default)]
struct Errors {
    /// How many were compared.
    panels: u64,
    /// The largest error over what is granted to it.
    granted: Worst,
    /// The same in roundoffs of the tile's largest result.
    of_peak: Worst,
    /// The ghosts that would have been enough for it.
    ghosts: Worst,
}

impl Errors {
    fn join(&mut self, other: &Errors) {
        self.panels += other.panels;
        self.granted.join(&other.granted);
        self.of_peak.join(&other.of_peak);
        self.ghosts.join(&other.ghosts);
    }
}

/// The transforms of a kernel.
struct Transforms {
    /// Samples of one.
    shape: [usize; 3],
    /// Outputs of a tile.
    tile: [usize; 3],
    /// Tiles that share a transform, and so their errors.
    together: usize,
    /// How results are rounded.
    rounding: Rounding,
    /// Half of what is rounded stays in its row.
    in_rows: bool,
}

impl Transforms {
    /// Those of cuFFT, whose lengths and tiles stand in the kernel's name.
    fn library(kernel: &KernelKey) -> Transforms {
        let shape = sides(&kernel.size);
        let len = shape.iter().product::<usize>() as f64;
        let rounding = Rounding::Fourier { len, by: Library::CUFFT };
        Transforms { shape, tile: sides(&kernel.tile), together: 1, rounding, in_rows: false }
    }

    /// Those of a kernel that transforms pairs of tiles of so many samples a side.
    fn pairs(length: usize, template: [usize; 3]) -> Transforms {
        let tile = [1, length + 1 - template[1], length + 1 - template[2]];
        let rounding = Rounding::Pair { len: (length * length) as f64 };
        Transforms { shape: [1, length, length], tile, together: 2, rounding, in_rows: false }
    }

    /// Those of kernels for rows and for columns, of as many samples.
    fn large(length: usize, template: [usize; 3]) -> Transforms {
        let rounding = Rounding::Large { len: (length * length) as f64 };
        Transforms { rounding, in_rows: true, ..Transforms::pairs(length, template) }
    }

    /// Those of the kernel that transforms pairs of parts of a volume, of so many rows and columns.
    fn parts(length: usize, template: [usize; 3]) -> Transforms {
        let shape = [length / 2, length, length];
        let tile = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
        let rounding = Rounding::Pair { len: shape.iter().product::<usize>() as f64 };
        Transforms { shape, tile, together: 2, rounding, in_rows: false }
    }

    /// Those of a kernel that transforms pairs of stretches of so many samples.
    fn stretches(length: usize, template: [usize; 3]) -> Transforms {
        let rounding = Rounding::Pair { len: length as f64 };
        Transforms {
            shape: [1, 1, length],
            tile: [1, 1, length + 1 - template[2]],
            together: 2,
            rounding,
            in_rows: false,
        }
    }
}

/// Takes down the errors of a correlation against the same transforms in f64.
fn judge(spec: &Spec, by: &Transforms, image: &[f32], template: &[f32], got: &[f64], of: &str) -> Errors {
    let roundoff = f64::from(f32::EPSILON) / 2.0;
    let (shape, promise) = (by.shape, Promise { error: 1e-5, deviations: Some(DEVIATIONS) });
    let taps: Vec<f64> = template.iter().map(|&tap| f64::from(tap)).collect();
    let len = shape.iter().product::<usize>();
    let model = Model {
        measure: Measure::Zncc,
        promise: Some(promise),
        roundoff,
        taps: taps.len() as f64,
        samples: 0.0,
        rounds_samples: false,
        rounding: by.rounding,
        wide: Wide::Double,
        weights: None,
    };
    let ([_, height, width], [_, rows, columns]) = (spec.image().padded(), spec.out_shape().padded());
    let transforms = Fourier::<f64>::new(shape, spec.template().padded());
    let (spectrum, mut scratch) = (transforms.prepare(&taps), transforms.scratch(1, &mut Memory::making()));
    let figures = Figures { wave: transforms.wave(&spectrum), ..Figures::of([&taps].into_iter()) };
    let doubt: Doubt = model.doubt(&figures);
    let mut input = vec![0.0; len];
    let tiling = Tiling::new(spec.frame(), by.tile);
    let mut errors = Errors::default();
    let indices: Vec<usize> = (0..tiling.count()).collect();
    let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    let largest = |values: &[f64]| values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for indices in indices.chunks(by.together) {
        let (mut energy, mut results, mut peak, mut unseen) = (0.0, 0.0, 0.0f64, 0.0f64);
        // Of each row of all tiles together: of samples and of results.
        let mut rows_of = [vec![0.0; len / shape[2]], vec![0.0; len / shape[2]]];
        let tiles: Vec<_> = indices
            .iter()
            .map(|&index| {
                let tile = tiling.get(index);
                let samples = tiling.samples(&tile);
                input.fill(0.0);
                for (z, y) in (0..samples.len[0]).flat_map(|z| (0..samples.len[1]).map(move |y| (z, y))) {
                    let [z0, y0, x0] = samples.begin.map(|begin| begin as usize);
                    let line = &image[((z0 + z) * height + y0 + y) * width + x0..][..samples.len[2]];
                    let to = &mut input[(z * shape[1] + y) * shape[2]..];
                    to.iter_mut().zip(line).for_each(|(to, from)| *to = f64::from(*from));
                }
                transforms.load(&input, tile.shape, 0, &mut scratch);
                // All of them, what wraps round included.
                let mut expected = vec![0.0; len];
                transforms.run(0, &spectrum, &mut scratch, shape, &mut expected);
                let (own, sample) = (squares(&input), largest(&input));
                for (rows, values) in rows_of.iter_mut().zip([&input, &expected]) {
                    rows.iter_mut().zip(values.chunks(shape[2])).for_each(|(to, row)| *to += squares(row));
                }
                energy += own;
                results += squares(&expected) / len as f64;
                let strong = Strong::of([(&input[..], 1.0)].into_iter(), |value| value, own, sample);
                unseen = unseen.max(testing::unseen(&figures, by.rounding).most(sample, &strong));
                peak = peak.max(largest(&expected));
                (tile, expected)
            })
            .collect();
        if by.in_rows {
            let [of_samples, of_results] = rows_of.map(|rows| largest(&rows) * (len / shape[2]) as f64);
            (energy, results) = ((energy + of_samples) / 2.0, (results + of_results / len as f64) / 2.0);
        }
        // A panel of this energy is just not in doubt: its error over its norm is granted 0.8 of the promise. Its own
        // share is for samples that are rounded, which here are not.
        let granted = |limits: (f64, f64)| 0.8 * promise.error * limits.0.sqrt();
        peak = peak.max(unseen);
        let result = results.sqrt();
        let (granted, noise) = (granted(doubt.at_peak(energy, result, peak)), granted(doubt.at(energy, result)));
        // What transforms in f64 may be off by.
        let known = 1e-7 * noise;
        for (tile, expected) in &tiles {
            for (z, y) in (0..tile.shape[0]).flat_map(|z| (0..tile.shape[1]).map(move |y| (z, y))) {
                let at = [tile.place[0] + z, tile.place[1] + y, tile.place[2]];
                let (from, line) = ((at[0] * rows + at[1]) * columns + at[2], (z * shape[1] + y) * shape[2]);
                for (x, (got, expected)) in got[from..][..tile.shape[2]].iter().zip(&expected[line..]).enumerate() {
                    let error = (got - expected).abs();
                    let place = || format!("{of} by {shape:?} at {:?}", [at[0], at[1], at[2] + x]);
                    errors.panels += 1;
                    if error > known {
                        errors.granted.see(error / granted, place);
                        errors.of_peak.see(error / (roundoff * peak), place);
                        errors.ghosts.see(((error - noise) / (roundoff * peak)).max(0.0), place);
                    }
                }
            }
        }
    }
    errors
}

#[test]
fn cufft_errs_by_less_than_it_is_granted() {
    let Some(_device) = fast_device() else { return };
    let seed = seed();
    let mut all: Vec<Vec<Errors>> = Vec::new();
    for sizes in CORRELATIONS {
        let spec: Spec = format!("corr:f32:{sizes}:valid").parse().unwrap();
        let planner = gpu(Method::Fourier);
        // By measurement, since an estimate names the best few alone.
        let plan = planner.clone().effort(Effort::Measure).plan(&spec).unwrap();
        let offered = plan.candidates().iter().filter(|candidate| !matches!(candidate.outcome, Outcome::Refused(_)));
        let named = offered.map(|candidate| candidate.kernel.parse().unwrap());
        // Transforms of tiles have an error model of their own.
        let mut kernels: Vec<KernelKey> = named.filter(|kernel: &KernelKey| kernel.op == "fourier").collect();
        // Scores take f32 for templates of few samples, where sums do so by name alone.
        kernels.iter_mut().for_each(|kernel| kernel.dtype = "f32".into());
        assert!(!kernels.is_empty(), "{spec}");
        all.push(in_threads(&Kind::without_noise(), |kind| {
            let mut errors = Errors::default();
            // Of large ones either a smooth template or one of noise.
            let both = spec.image().len() < 1 << 20;
            for smooth in (0..2).filter(|smooth| both || seed % 2 == *smooth) {
                let (image, template) = kind.make(&spec, 2 * (seed % (1 << 30)) + smooth);
                let template: Vec<f32> = template.iter().map(|&tap| tap as f32).collect();
                let (pixels, taps) = (Pixels::F32(image.clone()), Pixels::F32(template.clone()));
                for kernel in &kernels {
                    let (got, _) = run(&spec, &planner, Some(kernel), &pixels, &taps);
                    let (by, of) = (Transforms::library(kernel), format!("{sizes}, {}", kind.name()));
                    errors.join(&judge(&spec, &by, &image, &template, &got, &of));
                }
            }
            errors
        }));
    }
    let worst = |of: &dyn Fn(&Errors) -> &Worst, kind: Option<usize>| {
        let mut worst = Worst::default();
        all.iter()
            .flat_map(|kinds| kinds.iter().enumerate())
            .filter(|(number, _)| kind.is_none_or(|kind| kind == *number))
            .for_each(|(_, errors)| {
                worst.join(of(errors));
            });
        worst
    };
    println!(
        "measured: cuFFT in f32, largest error over what it is granted; in roundoffs of the largest result; \
         ghosts that would do:"
    );
    for (number, kind) in Kind::without_noise().into_iter().enumerate() {
        let granted = worst(&|errors| &errors.granted, Some(number));
        let [of_peak, ghosts] =
            [worst(&|errors| &errors.of_peak, Some(number)), worst(&|errors| &errors.ghosts, Some(number))]
                .map(|worst| worst.value);
        println!("measured:   {:.3}  {of_peak:8.2}  {ghosts:6.2}  {} ({})", granted.value, kind.name(), granted.of);
    }
    for (sizes, kinds) in CORRELATIONS.iter().zip(&all) {
        let mut ghosts = Worst::default();
        kinds.iter().for_each(|errors| ghosts.join(&errors.ghosts));
        println!("measured:   ghosts {:.2} of {sizes} ({})", ghosts.value, ghosts.of);
    }
    let (granted, ghosts) = (worst(&|errors| &errors.granted, None), worst(&|errors| &errors.ghosts, None));
    let panels: u64 = all.iter().flatten().map(|errors| errors.panels).sum();
    println!(
        "measured: of all {panels} panels {:.3} of what is granted ({}), ghosts {:.2} ({})",
        granted.value, granted.of, ghosts.value, ghosts.of
    );
    assert!(granted.value < 1.0, "{}: {} of what cuFFT is granted", granted.of, granted.value);
}

/// Correlations that transforms of tiles serve: those of 64x64 samples, of 128x128, or both.
const OF_TILES: &[&str] = &[
    "1500x1700*5x5",
    "1500x1700*8x8",
    "1500x1700*9x14",
    "1500x1700*16x16",
    "1500x1700*24x17",
    "1500x1700*32x32",
    "1500x1700*57x57",
    "1500x1700*33x65",
    "1500x1700*64x64",
    "1500x1700*76x76",
    "1500x1700*121x121",
];

/// Correlations that transforms of stretches of signals serve: those of 4096 samples, of 16384, or both.
const OF_LINES: &[&str] =
    &["400000*30", "400000*40", "400000*100", "400000*500", "400000*1500", "300000*3500", "1000000*7000"];

/// Of each kernel that transforms pairs of tiles; `FLCC_PANELS` asks for so many panels of each.
#[test]
fn transforms_of_tiles_err_by_less_than_they_are_granted() {
    let Some(_device) = fast_device() else { return };
    err_by_less(OF_TILES, &[("tile64", 64), ("tile128", 128)], Transforms::pairs);
}

/// Correlations that transforms of tiles of 256, 512 or 1024 samples a side serve.
const OF_LARGE: &[&str] =
    &["600x700*17x16", "1100x900*64x64", "700x900*121x30", "1000x1100*200x190", "1500x1700*100x300", "900x1300*450x9"];

/// Of the kernels for rows and for columns; `FLCC_PANELS` asks for so many panels of each.
#[test]
fn transforms_of_large_tiles_err_by_less_than_they_are_granted() {
    let Some(_device) = fast_device() else { return };
    err_by_less(OF_LARGE, &[("tile256", 256), ("tile512", 512), ("tile1024", 1024)], Transforms::large);
}

/// Correlations that transforms of parts of volumes serve.
const OF_VOLUMES: &[&str] = &["60x90x100*5x5x5", "60x90x100*8x8x8", "50x100x70*3x15x20", "40x90x90*12x10x11"];

/// Of the kernel that transforms pairs of parts of a volume; `FLCC_PANELS` asks for so many panels.
#[test]
fn transforms_of_volumes_err_by_less_than_they_are_granted() {
    let Some(_device) = fast_device() else { return };
    err_by_less(OF_VOLUMES, &[("volume32", 32)], Transforms::parts);
}

/// Of each kernel that transforms stretches of a signal; `FLCC_PANELS` asks for so many panels of each.
#[test]
fn transforms_of_lines_err_by_less_than_they_are_granted() {
    let Some(_device) = fast_device() else { return };
    err_by_less(OF_LINES, &[("line4096", 4096), ("line16384", 16384)], Transforms::stretches);
}

/// Of these correlations, by the kernels of these operations and lengths.
fn err_by_less(sizes: &[&str], ops: &[(&str, usize)], by: fn(usize, [usize; 3]) -> Transforms) {
    let wanted = testing::panels().unwrap_or(1) as u64;
    let planner = gpu(Method::Fourier);
    let start = seed() % (1 << 30);
    let planned = |sizes: &&str| {
        let spec: Spec = format!("corr:f32:{sizes}:valid").parse().unwrap();
        // By measurement, since an estimate names the best few alone.
        let plan = planner.clone().effort(Effort::Measure).plan(&spec).unwrap();
        (sizes.to_string(), spec, plan)
    };
    let plans: Vec<_> = sizes.iter().map(planned).collect();
    for &(op, length) in ops {
        let mut errors = Errors::default();
        for round in start.. {
            for (sizes, spec, plan) in &plans {
                let mut named = plan.candidates().iter().map(|candidate| candidate.kernel.as_str());
                // Not every template is served by both.
                let Some(kernel) = named.find(|name| name.starts_with(op)) else { continue };
                let kernel: KernelKey = kernel.parse().unwrap();
                let by = by(length, spec.template().padded());
                let found = in_threads(&Kind::without_noise(), |kind| {
                    let seed = round * 1009 + spec.template().len() as u64;
                    let (mut image, template) = kind.make(spec, seed);
                    let factor = testing::amplitude(seed);
                    image.iter_mut().for_each(|sample| *sample *= factor);
                    let template: Vec<f32> = template.iter().map(|&tap| tap as f32).collect();
                    let (pixels, taps) = (Pixels::F32(image.clone()), Pixels::F32(template.clone()));
                    let (got, _) = run(spec, &planner, Some(&kernel), &pixels, &taps);
                    judge(spec, &by, &image, &template, &got, &format!("{sizes}, {}", kind.name()))
                });
                found.iter().for_each(|found| errors.join(found));
            }
            assert!(errors.panels > 0, "no template was served by {op}");
            if errors.panels >= wanted {
                break;
            }
        }
        let Errors { panels, granted, .. } = errors;
        println!("measured: {op}: {:.3} of what is granted over {panels} panels ({})", granted.value, granted.of);
        assert!(granted.value < 1.0, "{}: {} of what {op} is granted", granted.of, granted.value);
    }
}

/// Images with a template of their own each, which one kernel correlates.
const OF_PAIRS: &[&str] = &["64x64*16x16", "64x64*24x20", "128x128*32x32", "150x170*31x20"];

/// Images and volumes that cuFFT transforms as a whole.
const OF_WHOLE: &[&str] = &["700x900*32x32", "1300x2711*30x40", "1111x999*128x128", "100x100x100*8x8x8"];

/// Images that are transformed by tiles, and signals by stretches.
const OF_TILED: &[&str] = &["500x600*5x6", "500x600*8x8", "500x600*16x16", "500x600*40x33", "500x600*64x64"];
const OF_LINED: &[&str] = &["100000*24", "100000*40", "100000*100", "100000*500", "100000*1500"];

/// Sums of such, over what the conventions grant them: `(16 + sqrt(N)) u max|P| |t|`; `FLCC_PANELS` asks for so many
/// panels of each kernel.
#[test]
fn sums_by_transforms_stay_within_the_conventions() {
    let Some(_device) = fast_device() else { return };
    for (op, sizes, options, results) in [
        ("pairs64", OF_PAIRS, ",pairs", in_pairs as fn(&Planned, &[Samples]) -> Vec<Vec<f64>>),
        ("pairs128", OF_PAIRS, ",pairs", in_pairs),
        ("whole", OF_WHOLE, "", one_by_one),
        ("tile64", OF_TILED, "", one_by_one),
        ("tile128", OF_TILED, "", one_by_one),
        ("tile256", OF_TILED, "", one_by_one),
        ("tile512", OF_TILED, "", one_by_one),
        ("tile1024", OF_TILED, "", one_by_one),
        ("volume32", OF_VOLUMES, "", one_by_one),
        ("line4096", OF_LINED, "", one_by_one),
        ("line16384", OF_LINED, "", one_by_one),
    ] {
        let images = if options.is_empty() { "" } else { "0@" };
        let plans: Vec<Planned> = sizes
            .iter()
            .filter_map(|sizes| {
                let spec: Spec = format!("corr:f32:{images}{sizes}:valid{options}").parse().unwrap();
                let plan = gpu(Method::Fourier).effort(Effort::Measure).plan(&spec).unwrap();
                let mut named = plan.candidates().iter().map(|candidate| candidate.kernel.as_str());
                let kernel: KernelKey = named.find(|name| name.starts_with(op))?.parse().unwrap();
                let plan = gpu(Method::Fourier).plan_with_kernel(&spec, &kernel).unwrap();
                Some((spec, plan))
            })
            .collect();
        assert!(!plans.is_empty(), "nothing is served by {op}");
        let (mut worst, mut panels) = (Worst::default(), 0);
        for round in seed() % (1 << 30).. {
            for planned in &plans {
                let spec = &planned.0;
                let seed = round * 1009 + spec.template().len() as u64;
                let problems: Vec<Samples> = in_threads(&Kind::all(), |kind| {
                    let (mut image, template) = kind.make(spec, seed);
                    let factor = testing::amplitude(seed);
                    image.iter_mut().for_each(|sample| *sample *= factor);
                    (image, template.iter().map(|&tap| tap as f32).collect())
                });
                let results = results(planned, &problems);
                let all: Vec<_> = Kind::all().into_iter().zip(problems.iter().zip(&results)).collect();
                let found = in_threads(&all, |(kind, ((image, template), got))| {
                    let (granted, expected) = granted_and_expected(spec, image, template);
                    let mut worst = Worst::default();
                    for (index, (got, wanted)) in got.iter().zip(&expected).enumerate() {
                        let position = || format!("{spec}, {} at {:?}", kind.name(), spec.out_shape().position(index));
                        worst.see((got - wanted).abs() / granted, position);
                    }
                    worst
                });
                found.iter().for_each(|of| worst.join(of));
                panels += all.len() as u64 * spec.out_shape().len() as u64;
            }
            if panels >= testing::panels().unwrap_or(1) as u64 {
                break;
            }
        }
        println!("measured: {op}: {:.3} of the conventions over {panels} panels ({})", worst.value, worst.of);
        assert!(worst.value < 1.0, "{}: {} of what the conventions grant {op}", worst.of, worst.value);
    }
}

/// A spec and a plan of it.
type Planned = (Spec, Plan);
/// An image's samples and a template's.
type Samples = (Vec<f32>, Vec<f32>);

/// Sums of images with a template of their own each, all in one call.
fn in_pairs((spec, plan): &Planned, problems: &[Samples]) -> Vec<Vec<f64>> {
    let [mut images, mut templates] = [Vec::new(), Vec::new()];
    for (image, template) in problems {
        images.push(Pixels::F32(image.clone()));
        templates.push(Pixels::F32(template.clone()));
    }
    let images: Vec<_> = images.iter().map(|image| AnyView::dense(image, spec.image(), 1).unwrap()).collect();
    let templates: Vec<_> = templates.iter().map(|taps| AnyView::dense(taps, spec.template(), 1).unwrap()).collect();
    let results = plan.pairs(None).unwrap().execute(&images, &templates).unwrap();
    results.to_f64().chunks(spec.out_shape().len()).map(<[f64]>::to_vec).collect()
}

/// Sums of images and templates, a call for each.
fn one_by_one((spec, plan): &Planned, problems: &[Samples]) -> Vec<Vec<f64>> {
    let result = |(image, template): &Samples| {
        let (image, template) = (Pixels::F32(image.clone()), Pixels::F32(template.clone()));
        run(spec, &gpu(Method::Fourier), Some(plan.kernel()), &image, &template).0
    };
    problems.iter().map(result).collect()
}

/// What the conventions grant to a sum of an image and a template, and the sums, by the CPU in f64.
fn granted_and_expected(spec: &Spec, image: &[f32], template: &[f32]) -> (f64, Vec<f64>) {
    let cpu = planner(1).platform(Platform::Cpu);
    let double: Spec = format!("corr:f64:{}*{}:valid", spec.image(), spec.template()).parse().unwrap();
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
    let sums = |image, template| run(&double, &cpu, None, &Pixels::F64(image), &Pixels::F64(template)).0;
    let energies = sums(wide(image).iter().map(|value| value * value).collect(), vec![1.0; template.len()]);
    let panel = energies.into_iter().fold(0.0, f64::max).sqrt();
    let norm = wide(template).iter().map(|tap| tap * tap).sum::<f64>().sqrt();
    let grant = (16.0 + (template.len() as f64).sqrt()) * f64::from(f32::EPSILON) / 2.0 * panel * norm;
    (grant, sums(wide(image), wide(template)))
}

/// Scores of hard images: sizes where each engine is the one that is taken, and others.
const SCORES: [&str; 17] = [
    "zncc:f32:900x700*8x8:valid",
    "zncc:f32:2000x2000*16x16:valid",
    "zncc:f32:900x800*32x32:valid",
    "zncc:f32:50x90x100*8x8x8:valid",
    "zncc:f64:40x80x90*8x8x8:valid",
    "zncc:f32:1200x1300*48x48:valid",
    "zncc:f32:1500x2049*64x64:valid",
    "zncc:f32:1111x999*128x128:valid",
    "ncc:f32:4096x4096*16x16:valid",
    "zncc:f32:400000*100:valid",
    "zncc:f32:60x100x100*5x5x5:valid",
    "ncc:f32:700x900*12x13:valid",
    "nssd:f32:500x600*9x9:valid",
    "zncc:f64:600x500*8x8:valid",
    "zncc:f64:500x700*24x20:valid",
    "zncc:f64:100000*60:valid",
    "ncc:f64:300x400*7x9:valid",
];

/// Panels of a result in f64 that the oracle scores.
const SAMPLED: usize = 3000;

/// The largest error of a result, against the CPU in f64 or, of results in f64, a sample of panels by the oracle.
fn error(spec: &Spec, got: &[f64], expected: &[(usize, f64)], of: impl Fn(usize) -> String) -> Worst {
    let promise = if spec.out_type() == DType::F64 { 1e-11 } else { 1e-5 };
    let mut worst = Worst::default();
    for &(index, wanted) in expected {
        worst.see((got[index] - wanted).abs() / promise, || of(index));
    }
    worst
}

#[test]
fn every_engine_keeps_the_promise_on_hard_images() {
    let Some(_device) = fast_device() else { return };
    let start = seed() % (1 << 30);
    let methods = [Method::Direct, Method::Fourier, Method::Auto];
    let mut all = vec![vec![Worst::default(); methods.len()]; SCORES.len()];
    for (text, worst) in SCORES.iter().zip(&mut all) {
        let spec: Spec = text.parse().unwrap();
        let found = in_threads(&Kind::all(), |kind| {
            let (image, template) = kind.cut(&spec, start);
            let (pixels, taps) =
                (Pixels::F32(image).cast(spec.image_type()), Pixels::F64(template).cast(spec.template_type()));
            let expected: Vec<(usize, f64)> = if spec.out_type() == DType::F64 {
                let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
                let oracle =
                    Oracle::new(&spec, &view(&pixels, spec.image()), &view(&taps, spec.template()), None).unwrap();
                let mut seed = Seed(start);
                // Half of them where most kinds have what they are made of.
                let count = spec.out_shape().len();
                let near = count.min(60 * spec.out_shape().lengths()[spec.out_shape().axes() - 1]);
                (0..SAMPLED)
                    .map(|turn| seed.below(if turn % 2 == 0 { near } else { count }))
                    .map(|at| (at, oracle.at(at)))
                    .collect()
            } else {
                let double: Spec = text.replace(":f32:", ":f64:").parse().unwrap();
                let cpu = planner(1).platform(Platform::Cpu);
                let (expected, _) = run(&double, &cpu, None, &pixels.cast(DType::F64), &taps.cast(DType::F64));
                expected.into_iter().enumerate().collect()
            };
            methods.map(|method| {
                let (got, kernel) = run(&spec, &gpu(method), None, &pixels, &taps);
                let position = |index| spec.out_shape().position(index);
                error(&spec, &got, &expected, |index| format!("{} by {kernel} at {:?}", kind.name(), position(index)))
            })
        });
        found.iter().for_each(|kinds| worst.iter_mut().zip(kinds).for_each(|(worst, of)| worst.join(of)));
    }
    println!("measured: largest error over the promise, of {} kinds of images:", Kind::all().len());
    let mut most = Worst::default();
    for (spec, worst) in SCORES.iter().zip(&all) {
        for (method, worst) in methods.iter().zip(worst) {
            println!("measured:   {:.3}  {method} {spec} ({})", worst.value, worst.of);
            most.join(&Worst { value: worst.value, of: format!("{spec}: {}", worst.of) });
        }
    }
    assert!(most.value < 1.0, "{} times the promise: {}", most.value, most.of);
}

/// Texture of few levels whose copy is looked for by transforms, and the kernels that do so.
const COPIES: [(&str, &str); 24] = [
    ("zncc64", "zncc:f32:64x64*32x32:valid"),
    ("zncc64", "zncc:f32:64x64*24x17:valid"),
    ("zncc64", "zncc:f32:100x90*40x33:valid"),
    ("zncc128", "zncc:f32:128x128*64x64:valid"),
    ("zncc128", "zncc:f32:128x120*30x57:valid"),
    ("zncc32", "zncc:f32:16x32x32*5x9x10:valid"),
    ("zncc32", "zncc:f32:20x40x45*8x8x8:valid"),
    ("zncc32", "zncc:f32:16x32x60*3x20x24:valid"),
    ("zncc32", "zncc:f32:30x32x32*14x8x12:valid"),
    ("fourier", "zncc:f32:256x256*64x50:valid"),
    ("fourier", "ncc:f32:100x190*31x30:valid"),
    ("fourier", "zncc:f32:4096*1000:valid"),
    ("fourier", "zncc:f32:32x30x32*16x9x10:valid"),
    ("zncc64", "zncc:f32:64x64*2x50:valid"),
    ("zncc64", "zncc:f32:64x64*50x9:valid"),
    ("zncc128", "zncc:f32:128x128*3x100:valid"),
    ("zncc128", "zncc:f32:128x128*100x12:valid"),
    ("zncc256", "zncc:f32:256x256*64x50:valid"),
    ("zncc256", "zncc:f32:300x256*9x130:valid"),
    ("zncc512", "zncc:f32:512x512*130x100:valid"),
    ("zncc512", "zncc:f32:512x600*200x15:valid"),
    ("zncc1024", "zncc:f32:1024x1024*100x130:valid"),
    ("fourier", "zncc:f32:128x640*2x500:valid"),
    ("fourier", "zncc:f32:640x128*500x1:valid"),
];

/// Their scores, over the promise; `FLCC_PANELS` asks for so many panels of each.
#[test]
fn copies_of_few_levels_keep_the_promise() {
    let Some(_device) = device() else { return };
    let start = seed() % (1 << 30);
    let wanted = testing::panels().unwrap_or(1) as u64;
    let found = in_threads(&COPIES, |&(op, text)| {
        let [spec, double]: [Spec; 2] = [text, &text.replace(":f32:", ":f64:")].map(|text| text.parse().unwrap());
        // By measurement, since an estimate names the best few alone.
        let offered = gpu(Method::Fourier).effort(Effort::Measure).plan(&spec).unwrap();
        let able = offered.candidates().iter().filter(|of| !matches!(of.outcome, Outcome::Refused(_)));
        let name = able.map(|of| of.kernel.as_str()).find(|name| name.starts_with(op));
        let kernel: KernelKey = name.unwrap_or_else(|| panic!("{text}: no {op}")).parse().unwrap();
        let plan = gpu(Method::Fourier).plan_with_kernel(&spec, &kernel).unwrap();
        let exact = planner(1).platform(Platform::Cpu).plan(&double).unwrap();
        let (x, t) = (spec.image(), spec.template());
        let mut ratios = testing::Ratios::default();
        for seed in start.. {
            let make = if seed % 2 == 0 { testing::among_blocks } else { testing::copied };
            let (image, template) = make(x.padded(), t.padded(), seed);
            if template.iter().all(|&tap| tap == 0.0) {
                continue;
            }
            let template = Pixels::F64(template).cast(DType::F32);
            testing::at_amplitudes(&mut ratios, &image, seed, |image, ratios| {
                let scores = |plan: &Plan, image: &Pixels, template: &Pixels| {
                    let [image, template] = [(image, x), (template, t)].map(|(of, shape)| AnyView::dense(of, shape, 1));
                    plan.execute(&[image.unwrap()], &[template.unwrap()], None).unwrap().remove(0).data().to_f64()
                };
                let image = Pixels::F32(image.to_vec());
                let got = scores(&plan, &image, &template);
                let wanted = scores(&exact, &image.cast(DType::F64), &template.cast(DType::F64));
                for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                    let what = || format!("{text} by {kernel}, seed {seed}, at {:?}", spec.out_shape().position(index));
                    ratios.add_granted(0, (got - wanted).abs(), 1e-5, what);
                }
            });
            if ratios.panels() >= wanted {
                break;
            }
        }
        ratios
    });
    for ((op, text), ratios) in COPIES.iter().zip(found) {
        println!("measured: {op}: {:.3} of the promise over {} panels of {text}", ratios.all(), ratios.panels());
    }
}

/// Texture whose squares or products are too small for their type, beside ordinary samples: of the image, and from
/// outside it.
#[test]
fn faint_texture_beside_ordinary_samples_keeps_the_promise() {
    let Some(_device) = device() else { return };
    let start = seed();
    let specs = [
        ("zncc:f32:30x11*19x10:same,constant(1000000.0)", [36, 41, 44]),
        ("zncc:f32:60x50*7x7:same,constant(1000000.0)", [16, 20, 41]),
        ("ncc:f32:60x50*5x6:same,constant(1.0)", [20, 36, 41]),
        ("nssd:f32:60x50*5x6:valid", [20, 36, 41]),
        ("zncc:f64:38x17*2x29:same,constant(1.0)", [150, 157, 161]),
        ("zncc:f64:60x50*8x8:full,constant(1.0)", [150, 157, 161]),
        ("ncc:f64:60x50*5x6:valid", [150, 157, 161]),
        ("zncc:f64:60x50*5x6:same,constant(1.0),maskw", [150, 157, 161]),
    ];
    let found = in_threads(&specs, |(text, exponents)| {
        let mut worst = Worst::default();
        for exponent in exponents {
            let mut problem = Problem::new(text, start);
            let [_, _, width] = problem.spec.image().padded();
            let mut seed = Seed(start ^ *exponent as u64);
            // The last columns are ordinary.
            let sample = |at: usize| seed.normal() * if at % width + 6 < width { 10f64.powi(-exponent) } else { 1.0 };
            problem.image =
                Pixels::F64((0..problem.spec.image().len()).map(sample).collect()).cast(problem.spec.image_type());
            let expected: Vec<(usize, f64)> = problem.expected().into_iter().enumerate().collect();
            for method in [Method::Direct, Method::Fourier, Method::Auto] {
                let map = problem.run(&problem.plan(&gpu(method)).unwrap());
                let got = map.data().to_f64();
                let position = |index| problem.spec.out_shape().position(index);
                worst.join(&error(&problem.spec, &got, &expected, |index| {
                    format!("{text} at {:?}, 1e-{exponent} by {method}", position(index))
                }));
            }
        }
        worst
    });
    let mut worst = Worst::default();
    found.iter().for_each(|of| worst.join(of));
    println!("measured: faint texture, largest error over the promise: {:.3} ({})", worst.value, worst.of);
    assert!(worst.value < 1.0, "{} times the promise: {}", worst.value, worst.of);
}
