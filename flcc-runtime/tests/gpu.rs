//! Conformance on a GPU: every registered kernel against plain loops, the pipeline around them against the oracle,
//! exact integers against the CPU, streams in order, and plans that leave no memory behind.
//!
//! Data are fresh in each run: the seed is printed, and `FLCC_SEED` repeats a run. Without a device the tests say so
//! and pass, unless FLCC_REQUIRE names `cuda`. The hard images stand in promises.rs, which asks a GPU too where there
//! is one.
#![cfg(feature = "cuda")]

#[path = "gpu/adversaries.rs"]
mod adversaries;
mod common;
#[path = "gpu/failing.rs"]
mod failing;
#[path = "gpu/found.rs"]
mod found;
#[path = "gpu/launches.rs"]
mod launches;
#[path = "gpu/memory.rs"]
mod memory;
#[path = "gpu/pairs.rs"]
mod pairs;
#[path = "gpu/peaks.rs"]
mod peaks;
#[path = "gpu/queued.rs"]
mod queued;
#[path = "gpu/separable.rs"]
mod separable;
#[path = "gpu/straight.rs"]
mod straight;
#[path = "gpu/tensor.rs"]
mod tensor;
#[path = "gpu/timed.rs"]
mod timed;
#[path = "gpu/wide.rs"]
mod wide;

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use common::{Problem, Seed, absent, check, in_threads, planner};
use flcc_generated::{Entry, kernels};
use flcc_runtime::rooms::cuda::driver::launch::{Gpu, probe};
// What the tests of the engines share names these as it does in the library.
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::rooms::{isa, problem};
use flcc_runtime::{
    AnyView, AnyViewMut, Control, DType, Method, Pixels, PlanError, Planner, Platform, ScoreMap, Shape, Spec, ViewMut,
};

/// The seed of this run.
fn seed() -> u64 {
    let given = env::var("FLCC_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()));
    println!("FLCC_SEED={seed}");
    seed
}

/// The device, for one test at a time, so that free memory tells what a test took; `None` where there is no device.
fn device() -> Option<MutexGuard<'static, ()>> {
    static DEVICE: Mutex<()> = Mutex::new(());
    let found = probe();
    if found.devices.is_empty() {
        absent("cuda", &found.about);
        return None;
    }
    Some(DEVICE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether the devices are those of `cargo xtask emulated`, which take minutes for what a GPU does in seconds.
fn emulated() -> bool {
    probe().devices.first().is_some_and(|device| device.name == "emulated device")
}

/// The device, if it is a GPU: for tests of large images.
fn fast_device() -> Option<MutexGuard<'static, ()>> {
    if emulated() {
        println!("absent: a GPU that is fast enough; nothing was tested");
        return None;
    }
    device()
}

/// All of a list; on an emulated device one of so many, others in each run.
fn part<T>(all: &[T], step: usize, seed: u64) -> Vec<&T> {
    if emulated() { all.iter().skip(seed as usize % step).step_by(step).collect() } else { all.iter().collect() }
}

fn gpu(method: Method) -> Planner {
    planner(2).platform(Platform::Cuda).method(method)
}

/// Every position of mode valid by loops over its panel: the sum of products, of absolute differences, or zncc under a
/// mask.
fn plain(problem: &Problem, op: &str) -> Vec<f64> {
    let [depth, height, width] = problem.spec.out_shape().padded();
    let [_, rows, columns] = problem.spec.image().padded();
    let [kd, kh, kw] = problem.spec.template().padded();
    let (image, template) = (problem.image.to_f64(), problem.template.to_f64());
    let weights = problem.mask.as_ref().map_or_else(|| vec![1.0; template.len()], Pixels::to_f64);
    let n: f64 = weights.iter().sum();
    let mean = |values: &[f64]| values.iter().zip(&weights).map(|(value, w)| value * w).sum::<f64>() / n;
    let mut scores = Vec::with_capacity(depth * height * width);
    let mut panel = vec![0.0; template.len()];
    for (z, y, x) in (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x)))) {
        for (row, to) in panel.chunks_mut(kw).enumerate() {
            let from = ((z + row / kh) * rows + y + row % kh) * columns + x;
            to.copy_from_slice(&image[from..from + kw]);
        }
        debug_assert_eq!(panel.len(), kd * kh * kw);
        let pairs = || panel.iter().zip(&template);
        scores.push(match op {
            "corr" => pairs().map(|(p, t)| p * t).sum(),
            "sad" => pairs().map(|(p, t)| (p - t).abs()).sum(),
            _ => {
                let (of_panel, of_template) = (mean(&panel), mean(&template));
                let sum = |term: fn(f64, f64) -> f64| {
                    pairs().zip(&weights).map(|((p, t), w)| w * term(p - of_panel, t - of_template)).sum::<f64>()
                };
                let energy = sum(|p, _| p * p);
                if panel.iter().all(|value| *value == panel[0]) {
                    0.0
                } else {
                    sum(|p, t| p * t) / (energy * sum(|_, t| t * t)).sqrt()
                }
            }
        });
    }
    scores
}

/// Whether a kernel is one of transforms, whose length its operation's name ends with, or stands around such.
fn transforms(entry: &Entry) -> bool {
    entry.op.ends_with(|last: char| last.is_ascii_digit()) || entry.op == "whole"
}

/// Templates for a kernel: its own size, or some that no kernel is made for.
fn templates(entry: &Entry) -> Vec<Vec<usize>> {
    match (entry.sides, entry.tile[0]) {
        // The least, one and two stretches of 16 samples at a time, most rows, most columns.
        _ if tensor::is_one(entry) => [[4, 4], [16, 16], [7, 17], [33, 50], [100, 9], [5, 256]].map(Vec::from).into(),
        _ if entry.op.starts_with("line") => vec![vec![40], vec![300], vec![1500]],
        _ if entry.op.starts_with("pairs") => vec![vec![17, 20], vec![31, 20], vec![50, 52]],
        _ if ["volume32", "zncc32"].contains(&entry.op) => vec![vec![4, 6, 5], vec![14, 9, 20], vec![3, 25, 8]],
        _ if transforms(entry) => vec![vec![8, 13], vec![31, 20], vec![50, 52]],
        _ if entry.op == "separable" => vec![vec![5, 9], vec![17, 1], vec![40, 33]],
        ([], 1) => vec![vec![65], vec![300], vec![1]],
        ([], _) => vec![vec![5, 9], vec![17, 1], vec![40, 33], vec![3, 4, 5]],
        (sides, _) => vec![sides.to_vec()],
    }
}

/// Shapes of results: one position, less than a block, several blocks and tiles, none a multiple of anything.
fn results(axes: usize) -> Vec<Vec<usize>> {
    match axes {
        1 => vec![vec![1], vec![1021], vec![17_003]],
        2 => vec![vec![1, 1], vec![3, 131], vec![37, 261], vec![133, 67]],
        _ => vec![vec![1, 1, 1], vec![2, 33, 131], vec![9, 35, 20]],
    }
}

fn join(sides: &[usize]) -> String {
    sides.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

/// Runs a matcher into results full of NaN, with scratch that another image went through; twice, to the same bits.
fn poisoned(problem: &Problem, other: &Problem, planner: &Planner, kernel: &KernelKey) -> ScoreMap {
    let spec = &problem.spec;
    let plan = planner.plan_with_kernel(spec, kernel).unwrap_or_else(|error| panic!("{spec} by {kernel}: {error}"));
    let matcher = plan.bind(&[problem.template()], problem.mask().as_ref().map(|mask| mask as _)).unwrap();
    let mut scratch = matcher.make_scratch();
    let mut run = |image: AnyView<'_>| {
        let len = spec.out_shape().len();
        let (mut single, mut double) = (vec![f32::NAN; len], vec![f64::NAN; len]);
        let out: AnyViewMut<'_> = match spec.out_type() {
            DType::F32 => ViewMut::new(&mut single, spec.out_shape()).unwrap().into(),
            _ => ViewMut::new(&mut double, spec.out_shape()).unwrap().into(),
        };
        matcher.execute_into(&[image], &mut [out], &mut scratch, &Control::default()).unwrap();
        if spec.out_type() == DType::F32 { Pixels::F32(single) } else { Pixels::F64(double) }
    };
    run(other.image());
    let (first, again) = (run(problem.image()), run(problem.image()));
    assert!(first == again, "{spec} by {kernel}: two runs differ");
    ScoreMap::new(spec.region(), first).unwrap()
}

#[test]
fn every_kernel_does_what_a_plain_loop_does() {
    let Some(_device) = device() else { return };
    let seed = seed();
    let done = in_threads(&part(kernels(), 16, seed), |entry| {
        let mut count = 0;
        if tensor::is_one(entry) && !tensor::are_there() {
            return count;
        }
        for template in templates(entry) {
            for result in results(template.len()) {
                let image: Vec<usize> =
                    result.iter().zip(&template).map(|(outputs, taps)| outputs + taps - 1).collect();
                let (op, mask) = match entry.op {
                    "masked" => ("zncc", ",mask01"),
                    _ if tensor::is_one(entry) => ("zncc", ""),
                    scores if transforms(entry) && scores.starts_with("zncc") => ("zncc", ""),
                    pairs if pairs.starts_with("pairs") => ("corr", ",pairs"),
                    _ if transforms(entry) || entry.op == "separable" => ("corr", ""),
                    op => (op, ""),
                };
                let spec = format!("{op}:{}>f64:{}*{}:valid{mask}", entry.dtype, join(&image), join(&template));
                // Scores of bytes come as f32.
                let single = entry.dtype == "f32" || (op == "zncc" && entry.dtype == "u8");
                let spec = if single { spec.replace(">f64", "") } else { spec };
                let (problem, other) = (Problem::new(&spec, seed), Problem::new(&spec, seed ^ 1));
                if op == "zncc" && problem.mask.as_ref().is_some_and(|mask| mask.to_f64().iter().sum::<f64>() < 2.0) {
                    continue;
                }
                // A constant template has no coefficients; bytes make one now and then.
                let taps = problem.template.to_f64();
                if op == "zncc" && taps.iter().all(|value| *value == taps[0]) {
                    count += 1;
                    continue;
                }
                let planner = gpu(match entry.op {
                    "separable" => Method::Separable,
                    _ if transforms(entry) => Method::Fourier,
                    _ => Method::Direct,
                });
                let plan = problem.plan(&planner).unwrap_or_else(|error| panic!("{spec}: {error}"));
                let expected = plain(&problem, op);
                // Sums of bytes are exact in f64.
                let exact = entry.dtype == "u8" && op != "zncc";
                let tolerance = if exact { 0.0 } else { problem.tolerance() };
                let named = |kernel: &str| kernel.starts_with(&format!("{}_", entry.name));
                let told = plan.candidates().iter().filter(|candidate| named(&candidate.kernel));
                let mut kernels: Vec<KernelKey> = told.map(|candidate| candidate.kernel.parse().unwrap()).collect();
                if kernels.is_empty() {
                    // Only the cheapest are told; dear ones are there all the same.
                    let dear = planner.plan_with_kernel(&problem.spec, &entry.name.parse().unwrap());
                    kernels.extend(dear.ok().map(|plan| plan.kernel().clone()));
                }
                for kernel in kernels {
                    check(
                        &format!("{spec} by {kernel}"),
                        &poisoned(&problem, &other, &planner, &kernel),
                        &expected,
                        tolerance,
                    );
                    count += 1;
                }
            }
        }
        assert!(count > 0, "{}: no spec is planned with it", entry.name);
        count
    });
    println!("{} kernels, {} problems", done.len(), done.iter().sum::<usize>());
}

/// Images, templates and mask for a spec with several of each.
fn data(spec: &Spec, seed: &mut Seed) -> (Vec<Pixels>, Vec<Pixels>, Option<Pixels>) {
    let channels = spec.channels();
    let images =
        (0..spec.images().max(1)).map(|_| seed.pixels(spec.image().len() * channels, spec.image_type(), 3.0)).collect();
    let templates = (0..spec.templates())
        .map(|_| seed.pixels(spec.template().len() * channels, spec.template_type(), 1.0))
        .collect();
    let mask = Problem::new(&spec.to_string(), seed.bits()).mask;
    (images, templates, mask)
}

/// Every result of a plan against the oracle; `None` where the data has no answer (a template that is constant under
/// its mask).
fn against_the_oracle(spec: &Spec, planner: &Planner, seed: &mut Seed) -> Result<Option<String>, PlanError> {
    let plan = planner.plan(spec)?;
    let (images, templates, mask) = data(spec, seed);
    let view = |pixels, shape, channels| AnyView::dense(pixels, shape, channels).unwrap();
    let images: Vec<AnyView<'_>> = images.iter().map(|pixels| view(pixels, spec.image(), spec.channels())).collect();
    let templates: Vec<AnyView<'_>> =
        templates.iter().map(|pixels| view(pixels, spec.template(), spec.channels())).collect();
    let mask = mask.as_ref().map(|pixels| view(pixels, spec.template(), 1));
    let name = format!("{spec} by {}", plan.kernel());
    let maps = match plan.execute(&images, &templates, mask.as_ref().map(|mask| mask as _)) {
        Ok(maps) => maps,
        Err(error) => {
            assert!(error.to_string().contains("all equal") || error.to_string().contains("not 0"), "{name}: {error}");
            return Ok(None);
        }
    };
    assert_eq!(maps.len(), images.len() * templates.len(), "{name}");
    let tolerance = Problem::new(&spec.to_string(), 1)
        .tolerance()
        .max(if spec.accuracy() == flcc_runtime::Accuracy::Fast { 1e-4 } else { 0.0 });
    for (index, map) in maps.iter().enumerate() {
        let (image, template) = (&images[index / templates.len()], &templates[index % templates.len()]);
        check(&name, map, &Oracle::new(spec, image, template, mask.as_ref()).unwrap().all(), tolerance);
    }
    Ok(Some(plan.kernel().to_string()))
}

/// What the kernels for extraordinary samples see: gpu-check runs it under sanitizers too.
#[test]
fn a_hard_image_is_computed_as_the_oracle_does() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for text in [
        "zncc:f32:60x70*7x7:full,reflect",
        "zncc:f64:60x70*7x9:same,wrap",
        "zncc:f32:12x20x30*3x3x3:valid",
        "ncc:f32:60x70*6x8:valid,mask01",
        "zncc:f32:40x50*6x7:same,reflect,channels=3",
        "zncc:f64:40x50*7x9:valid,maskw,channels=2",
        "nssd:f32:60x70*5x5:full,constant(2.5)",
        "ssd:f32>f64:60x70*7x7:valid",
    ] {
        let spec: Spec = text.parse().unwrap();
        let mut problem = Problem::new(text, seed.bits());
        let mut samples = problem.image.to_f64();
        let count = samples.len();
        samples[..count / 3].fill(5.0);
        samples[count / 2] = f64::NAN;
        samples[count / 2 + 40] = f64::INFINITY;
        samples[count / 4 * 3] = 1e30;
        problem.image = Pixels::F64(samples).cast(spec.image_type());
        let expected =
            Oracle::new(&spec, &problem.image(), &problem.template(), problem.mask().as_ref()).unwrap().all();
        for method in [Method::Direct, Method::Fourier, Method::Separable] {
            let plan = match problem.plan(&gpu(method)) {
                // Of volumes, and of window sums under a mask.
                Err(PlanError::Refused(_)) if method == Method::Separable => continue,
                plan => plan.unwrap(),
            };
            let map = problem.run(&plan);
            for (index, (got, wanted)) in map.data().to_f64().into_iter().zip(&expected).enumerate() {
                // One pixel of 1e30 sets the scale of what is not normalised.
                let tolerance = if text.starts_with("ssd") { 1e-5 * wanted.abs().max(1e54) } else { 1e-5 };
                let right = if wanted.is_nan() { got.is_nan() } else { (got - wanted).abs() <= tolerance };
                assert!(right, "{text} by {} at {index}: expected {wanted}, got {got}", plan.kernel());
            }
        }
    }
}

/// Every operation with every boundary and mode; the rest is drawn.
fn specs(seed: &mut Seed) -> Vec<String> {
    let mut specs = Vec::new();
    for op in ["conv", "corr", "ncc", "zncc", "ssd", "nssd", "sad"] {
        for boundary in ["zero", "constant(2.5)", "constant(-3.0)", "replicate", "reflect", "mirror", "wrap"] {
            for mode in ["full", "same", "valid"] {
                let axes = seed.pick(&[1, 2, 2, 3]);
                let (longest, most) = [(90, 30), (30, 12), (12, 6)][axes - 1];
                let template: Vec<usize> =
                    (0..axes).map(|axis| 1 + usize::from(axis == 0) + seed.below(most)).collect();
                let image: Vec<usize> = template.iter().map(|taps| taps + seed.below(longest)).collect();
                let (image_type, template_type) =
                    (seed.pick(&["u8", "u16", "f32", "f64"]), seed.pick(&["u8", "u16", "f32", "f64"]));
                let out = seed.pick(&["", ">f32", ">f64"]);
                let mask = if op == "conv" { "" } else { seed.pick(&["", "", ",mask01", ",maskw"]) };
                let channels = seed.pick(&["", "", "", ",channels=3"]);
                let accuracy = seed.pick(&["", "", ",acc=fast", ",acc=exact"]);
                let (images, templates) = (seed.pick(&["", "", "3@"]), seed.pick(&["", "", "2@"]));
                specs.push(format!(
                    "{op}:{image_type}/{template_type}{out}:{images}{}*{templates}{}:{mode},\
                     {boundary}{mask}{channels}{accuracy}",
                    join(&image),
                    join(&template)
                ));
            }
        }
    }
    specs
}

#[test]
fn the_pipeline_agrees_with_the_oracle() {
    let Some(_device) = device() else { return };
    let start = seed();
    let specs = specs(&mut Seed(start));
    let specs = part(&specs, 7, start);
    for method in [Method::Auto, Method::Direct, Method::Fourier, Method::Separable] {
        let outcomes = in_threads(&specs, |text: &&String| {
            let Ok(spec) = text.parse::<Spec>() else { return [0, 0, 1] };
            match against_the_oracle(&spec, &gpu(method), &mut Seed(start)) {
                Ok(Some(_)) => [1, 0, 0],
                Ok(None) => [0, 0, 1],
                Err(PlanError::Refused(_)) => [0, 1, 0],
                Err(error) => panic!("{spec}: {error}"),
            }
        });
        let [done, refused, none] = [0, 1, 2].map(|kind| outcomes.iter().map(|outcome| outcome[kind]).sum::<usize>());
        println!("{method}: {done} done, {refused} refused, {none} without an answer");
        // Half are of one or three axes, masked or exact, which products of lines do not serve.
        let least = if method == Method::Separable { specs.len() / 20 } else { specs.len() / 2 };
        assert!(done > least, "{method}: {done} of {} done", specs.len());
    }
}

#[test]
fn exact_integers_are_the_bits_of_the_cpu() {
    let Some(_device) = device() else { return };
    let start = seed();
    let mut specs = Vec::new();
    for op in ["corr", "ncc", "zncc", "ssd", "nssd", "sad"] {
        for dtype in ["u8", "u16"] {
            for (sizes, extent) in [
                ("300*31", "full,reflect"),
                ("140x300*9x11", "same,constant(7.0)"),
                ("90x80*16x16", "valid,mask01"),
                ("20x31x22*3x4x5", "full,wrap"),
                ("90x80*7x7", "full,mirror"),
                ("90x140*24x24", "valid"),
                ("20x31x22*5x5x5", "same"),
            ] {
                for out in ["f32", "f64"] {
                    specs.push(format!("{op}:{dtype}>{out}:{sizes}:{extent},acc=exact"));
                }
            }
        }
    }
    let compared = in_threads(&part(&specs, 7, start), |spec| {
        let problem = Problem::new(spec, start);
        let cpu = problem.run(&planner(1).platform(Platform::Cpu).plan(&problem.spec).unwrap());
        let mut count = 0;
        for method in [Method::Direct, Method::Fourier] {
            let Ok(plan) = gpu(method).plan(&problem.spec) else { continue };
            assert!(problem.run(&plan).data() == cpu.data(), "{spec} by {}: other bits than the CPU's", plan.kernel());
            count += 1;
        }
        count
    });
    assert!(compared.iter().all(|&count| count > 0), "{compared:?}");
}

#[test]
fn a_stream_keeps_its_order() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let spec: Spec = "zncc:u8:0@64x80*9x9:valid".parse().unwrap();
    let template = seed.pixels(81, DType::U8, 0.0);
    let template = AnyView::dense(&template, spec.template(), 1).unwrap();
    let matcher = gpu(Method::Auto).plan(&spec).unwrap().bind(&[template], None).unwrap();
    let oracle = |pixels: &Pixels, shape: Shape| {
        let spec = spec.clone().with_images(1).unwrap().with_image_shape(shape).unwrap();
        Oracle::new(&spec, &AnyView::dense(pixels, shape, 1).unwrap(), &template, None).unwrap().all()
    };
    // One after another, of several sizes.
    let shapes: Vec<Shape> = (0..30).map(|index| Shape::new(&[40 + index % 3 * 12, 80]).unwrap()).collect();
    let images: Vec<Pixels> = shapes.iter().map(|shape| seed.pixels(shape.len(), DType::U8, 0.0)).collect();
    let mut stream = matcher.stream();
    for (number, (pixels, &shape)) in images.iter().zip(&shapes).enumerate() {
        let maps = stream.push(&AnyView::dense(pixels, shape, 1).unwrap()).unwrap();
        check(&format!("image {number}"), &maps[0], &oracle(pixels, shape), 1e-5);
    }
    // More at once than both slots hold.
    let images: Vec<Pixels> = (0..200).map(|_| seed.pixels(64 * 80, DType::U8, 0.0)).collect();
    let views: Vec<AnyView<'_>> =
        images.iter().map(|pixels| AnyView::dense(pixels, spec.image(), 1).unwrap()).collect();
    let maps = matcher.execute(&views).unwrap();
    assert_eq!(maps.len(), images.len());
    for (number, (map, pixels)) in maps.iter().zip(&images).enumerate() {
        check(&format!("image {number} of many"), map, &oracle(pixels, spec.image()), 1e-5);
    }
}

/// Images spread over two devices give what one gives, in the same order.
#[test]
fn two_devices_are_as_one() {
    let Some(_device) = device() else { return };
    let found = &probe().devices;
    if found.len() < 2 {
        println!("absent: a second device; nothing was tested");
        return;
    }
    let mut seed = Seed(seed());
    for spec in
        ["zncc:u8:0@64x80*9x9:valid", "corr:f32:0@64x80*20x21:full,reflect", "nssd:f32:0@64x80*2@9x9:same,mask01"]
    {
        let spec: Spec = spec.parse().unwrap();
        let (_, templates, mask) = data(&spec, &mut seed);
        let templates: Vec<AnyView<'_>> =
            templates.iter().map(|pixels| AnyView::dense(pixels, spec.template(), 1).unwrap()).collect();
        let mask = mask.as_ref().map(|pixels| AnyView::dense(pixels, spec.template(), 1).unwrap());
        let images: Vec<Pixels> = (0..300).map(|_| seed.pixels(64 * 80, spec.image_type(), 3.0)).collect();
        let images: Vec<AnyView<'_>> =
            images.iter().map(|pixels| AnyView::dense(pixels, spec.image(), 1).unwrap()).collect();
        let run = |numbers: &[usize]| {
            let plan = gpu(Method::Auto).devices(numbers).unwrap().plan(&spec).unwrap();
            (plan.kernel().to_string(), plan.execute(&images, &templates, mask.as_ref().map(|mask| mask as _)).unwrap())
        };
        let ((one, alone), (both, spread)) = (run(&[found[0].index]), run(&[found[0].index, found[1].index]));
        assert_eq!(one, both);
        assert_eq!((alone.len(), spread.len()), (300 * templates.len(), 300 * templates.len()));
        for (number, (a, b)) in alone.iter().zip(&spread).enumerate() {
            assert!(a.data() == b.data(), "{spec} by {one}: result {number}");
        }
    }
}

#[test]
fn plans_made_and_dropped_leave_no_memory_behind() {
    let Some(_device) = device() else { return };
    let problems =
        ["zncc:f32:200x210*7x7:full", "zncc:u8:200x210*20x21:valid,acc=exact", "nssd:f32:200x210*9x9:same,mask01"]
            .map(|spec| Problem::new(spec, 5));
    let (rounds, methods) = (if emulated() { 200usize } else { 10_000 }, [Method::Direct, Method::Fourier]);
    let turn = |number: &usize| {
        let problem = &problems[number % problems.len()];
        let plan = gpu(methods[number / problems.len() % 2]).plan(&problem.spec).unwrap();
        if number.is_multiple_of(10) {
            problem.run(&plan);
        }
    };
    let numbers: Vec<usize> = (0..rounds).collect();
    in_threads(&numbers[..rounds / 20], turn);
    let free = || Gpu::open(probe().devices[0].index).unwrap().free_memory().unwrap();
    let before = free();
    in_threads(&numbers, turn);
    let lost = before.saturating_sub(free());
    assert!(lost <= 32 << 20, "{lost} bytes of device memory are gone after {rounds} plans");
}

/// A GPU is looked for where a kernel of one is named, however little the work.
#[test]
fn a_named_kernel_finds_its_gpu() {
    let Some(_device) = device() else { return };
    let problem = Problem::new("zncc:f32:60x70*9x9:valid", 3);
    let kernel = gpu(Method::Direct).plan(&problem.spec).unwrap().kernel().clone();
    let planner = Planner::new().unwrap();
    assert!(planner.machine().devices().is_empty());
    let plan = planner.plan_with_kernel(&problem.spec, &kernel).unwrap();
    assert_eq!(*plan.kernel(), kernel);
    check("a named kernel", &problem.run(&plan), &problem.expected(), problem.tolerance());
}

/// A device that is full is an error of the run that met it, and nothing for the next.
#[test]
fn a_plan_that_does_not_fit_is_refused() {
    let Some(_device) = device() else { return };
    let spec: Spec = "zncc:f32:4000x4000*64x64:valid".parse().unwrap();
    for method in [Method::Direct, Method::Fourier] {
        match gpu(method).memory_limit(Some(1 << 20)).plan(&spec) {
            Err(PlanError::Memory { needed, limit }) => {
                assert!(needed > limit && limit == 1 << 20, "{needed} of {limit}")
            }
            other => panic!("{method}: {:?}", other.map(|plan| plan.kernel().to_string())),
        }
    }
    let problem = Problem::new("zncc:f32:60x70*9x9:valid", 3);
    let map = problem.run(&gpu(Method::Auto).plan(&problem.spec).unwrap());
    check("afterwards", &map, &problem.expected(), problem.tolerance());
}
