//! Problems that a random search found, on a GPU: each was once off by more than the conventions or the promise grant.
//! Every kernel that serves one is held against the oracle.

use flcc_runtime::account::Outcome;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{AnyView, DType, Method, Pixels, Platform, Spec};

use super::common::{Problem, Seed, in_threads, planner};
use super::{device, fast_device, gpu, part, seed};

/// Results of a problem that are compared, spread over all of it.
const COMPARED: usize = 2000;

/// The places of those.
fn places(spec: &Spec) -> Vec<usize> {
    let count = spec.out_shape().len();
    // An odd step, so that no period of the image is all that is seen.
    (0..count).step_by((count / COMPARED) | 1).collect()
}

/// Results of a problem by the oracle.
fn by_oracle(problem: &Problem) -> Vec<(usize, f64)> {
    let oracle = Oracle::new(&problem.spec, &problem.image(), &problem.template(), problem.mask().as_ref()).unwrap();
    places(&problem.spec).into_iter().map(|place| (place, oracle.at(place))).collect()
}

/// The largest error of a problem by each kernel that serves it, over what is granted, with the kernel's name.
fn errors(problem: &Problem, expected: &[(usize, f64)], granted: f64) -> Vec<(f64, String)> {
    let spec = &problem.spec;
    let mut kernels: Vec<(Method, KernelKey)> = Vec::new();
    for method in [Method::Direct, Method::Fourier] {
        let plan = problem.plan(&gpu(method)).unwrap_or_else(|error| panic!("{spec}: {error}"));
        let offered = plan.candidates().iter().filter(|candidate| !matches!(candidate.outcome, Outcome::Refused(_)));
        kernels.extend(offered.map(|candidate| (method, candidate.kernel.parse().unwrap())));
    }
    let of = |(method, kernel): &(Method, KernelKey)| {
        let map = problem.run(&gpu(*method).plan_with_kernel(spec, kernel).unwrap());
        let errors = expected.iter().map(|&(place, wanted)| (map.get(place) - wanted).abs() / granted);
        // What is no number is worse than any.
        (
            errors.fold(0.0, |most, error| {
                if error <= most {
                    most
                } else if error.is_nan() {
                    f64::INFINITY
                } else {
                    error
                }
            }),
            kernel.to_string(),
        )
    };
    kernels.iter().map(of).collect()
}

/// Panics where a kernel errs by more than is granted; says what the largest error was.
fn judge(name: &str, found: Vec<Vec<(f64, String)>>) {
    let (worst, kernel) = found.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    println!("measured: {name}: {worst:.3} of what is granted, by {kernel}");
    assert!(worst <= 1.0, "{name}: {worst} times what is granted, by {kernel}");
}

/// What section 7 of the conventions grants a correlation: `(16 + sqrt(taps)) u max |P| |t|`.
fn of_conventions(problem: &Problem) -> f64 {
    let spec = &problem.spec;
    let squared = |pixels: &Pixels| Pixels::F64(pixels.to_f64().iter().map(|value| value * value).collect());
    let norms = Problem {
        spec: format!("corr:f64:{}*{}:{},zero", spec.image(), spec.template(), spec.mode()).parse().unwrap(),
        image: squared(&problem.image),
        template: Pixels::F64(vec![1.0; spec.template().len()]),
        mask: None,
    };
    let oracle = Oracle::new(&norms.spec, &norms.image(), &norms.template(), None).unwrap();
    let panel = places(spec).into_iter().map(|place| oracle.at(place)).fold(0.0f64, f64::max).sqrt();
    let template = problem.template.to_f64().iter().map(|value| value * value).sum::<f64>().sqrt();
    let u = if spec.out_type() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) } / 2.0;
    (16.0 + (spec.template().len() as f64).sqrt()) * u * panel * template
}

/// Saturated samples, of one magnitude all of them, in blocks of alternating sign: all products of a sum are as large
/// as each other. Was 3.1 times what is granted (f32, lines) and 1.4 times (f64 to f32).
#[test]
fn sums_of_saturated_samples_are_within_the_conventions() {
    let Some(_device) = fast_device() else { return };
    let start = seed();
    let periods = [1, 7, 64, 256, 1000, 4096];
    for (text, periods) in [
        ("corr:f32:123971*4096:valid", &periods[..]),
        ("corr:f64>f32:20x10*17x32:full", &periods[..4]),
        ("corr:f64>f32:20x10*17x32:same", &periods[..4]),
    ] {
        let found = in_threads(periods, |&period| {
            let mut problem = Problem::new(text, start);
            let mut seed = Seed(start ^ period as u64);
            let amplitudes = [1.0 + seed.unit(), 1.0 + seed.unit()];
            let blocks =
                |at: usize, amplitude: f64| if (at / period).is_multiple_of(2) { amplitude } else { -amplitude };
            let saturated =
                |count: usize, amplitude: f64| Pixels::F64((0..count).map(|at| blocks(at, amplitude)).collect());
            let (samples, taps) = (problem.spec.image().len(), problem.spec.template().len());
            let mut all = Vec::new();
            // A template of as many signs, and one of one sign, of which no sum is 0.
            for equal in [false, true] {
                problem.image = saturated(samples, amplitudes[0]).cast(problem.spec.image_type());
                let template =
                    if equal { Pixels::F64(vec![amplitudes[1]; taps]) } else { saturated(taps, amplitudes[1]) };
                problem.template = template.cast(problem.spec.template_type());
                all.extend(errors(&problem, &by_oracle(&problem), of_conventions(&problem)));
            }
            all
        });
        judge(text, found);
    }
}

/// A sum with a template of few samples is small beside what transforms of a whole line round: was 1.04 times what is
/// granted for 2 samples.
#[test]
fn sums_of_few_samples_of_a_long_wave_are_within_the_conventions() {
    let Some(_device) = device() else { return };
    let start = seed();
    for text in ["corr:f32:18117*2:valid", "corr:f32:18117*9:valid", "corr:f32:18117*64:valid"] {
        let found = in_threads(&[0.3, 0.9, 1.7, 2.6], |&frequency: &f64| {
            let mut problem = Problem::new(text, start);
            let taps = problem.spec.template().len();
            let wave: Vec<f64> =
                (0..problem.spec.image().len()).map(|at| 5.3125 * (frequency * at as f64).cos()).collect();
            problem.template = Pixels::F64(wave[600..600 + taps].to_vec()).cast(problem.spec.template_type());
            problem.image = Pixels::F64(wave).cast(problem.spec.image_type());
            errors(&problem, &by_oracle(&problem), of_conventions(&problem))
        });
        judge(text, found);
    }
}

/// An image at one end of the range of f64 and a template towards the other: the powers of two that tiles and templates
/// are multiplied by cancel, and either alone brings a sum out of range. Was infinite, and 1.9e12 times what is
/// granted.
#[test]
fn sums_at_both_ends_of_the_range_are_within_the_conventions() {
    let Some(_device) = device() else { return };
    let start = seed();
    for text in ["corr:f64:40x31*12x21:full", "conv:f64:255*148:same"] {
        let found = in_threads(
            &[(5e-324, 1e308), (1e-321, 1e155), (1e308, 1e-163)],
            |&(of_image, of_template): &(f64, f64)| {
                let mut problem = Problem::new(text, start);
                let mut seed = Seed(start ^ of_image.to_bits());
                let mut noise = |count: usize, amplitude: f64| {
                    Pixels::F64((0..count).map(|_| amplitude * (2.0 * seed.unit() - 1.0)).collect())
                };
                problem.image = noise(problem.spec.image().len(), of_image);
                problem.template = noise(problem.spec.template().len(), of_template);
                // Norms of such numbers are no numbers: what is granted comes from images of ordinary ones.
                let ordinary = |pixels: &Pixels, amplitude: f64| {
                    Pixels::F64(pixels.to_f64().iter().map(|value| value / amplitude).collect())
                };
                let plain = Problem {
                    spec: problem.spec.clone(),
                    image: ordinary(&problem.image, of_image),
                    template: ordinary(&problem.template, of_template),
                    mask: None,
                };
                let granted = of_conventions(&plain) * (of_image * of_template);
                assert!(granted > 0.0 && granted.is_finite(), "{granted}");
                errors(&problem, &by_oracle(&problem), granted)
            },
        );
        judge(text, found);
    }
}

/// Samples that are no normal numbers of f32, or whose squares are none of f64, beside ordinary ones. Scores were off
/// by 5.5e-5 (f32).
#[test]
fn scores_of_faint_samples_keep_the_promise() {
    let Some(_device) = device() else { return };
    let start = seed();
    for (text, amplitudes) in [
        ("zncc:f32:30x11*19x10:same,constant(1000000.0)", [1e-39, 1e-41, 1e-43, 3e-45]),
        ("zncc:f64:38x17*2x29:same,constant(1.0)", [1e-155, 1e-158, 1e-160, 1e-162]),
        ("zncc:f64:38x17*2x29:full,reflect", [1e-155, 1e-158, 1e-160, 1e-162]),
    ] {
        let found = in_threads(&amplitudes, |&amplitude: &f64| {
            let mut problem = Problem::new(text, start);
            let mut seed = Seed(start ^ amplitude.to_bits());
            let mut samples: Vec<f64> = (0..problem.spec.image().len()).map(|_| amplitude * seed.normal()).collect();
            // One ordinary sample, of f64, also where none lies outside.
            if problem.spec.image_type() == DType::F64 {
                samples[40] = 1.0;
            }
            problem.image = Pixels::F64(samples).cast(problem.spec.image_type());
            errors(&problem, &by_oracle(&problem), problem.tolerance())
        });
        judge(text, found);
    }
}

/// What image and template have in common costs squared differences nothing: they were off by thousands, and many 0.
#[test]
fn squared_differences_follow_the_spread_under_a_large_mean() {
    let Some(_device) = device() else { return };
    let start = seed();
    for (text, mean) in [
        ("ssd:f32:60x70*8x9:valid", 6e4),
        ("ssd:f32:60x70*8x9:same,reflect,channels=3", -3e4),
        ("ssd:f32:60x70*8x9:full,replicate,maskw", 6e4),
        ("ssd:f64:60x70*8x9:valid", 1e9),
        ("ssd:f64>f32:60x70*20x21:valid", -1e9),
        ("ssd:f32:12x30x40*3x5x4:valid", 6e4),
        ("ssd:u16:60x70*8x9:valid,acc=fast", 6e4),
    ] {
        let mut problem = Problem::new(text, start);
        let (mut seed, channels) = (Seed(start ^ 7), problem.spec.channels());
        // Channels with means of their own.
        let mut samples =
            |count: usize| Pixels::F64((0..count).map(|k| mean * (1 + k % channels) as f64 + seed.normal()).collect());
        problem.image = samples(problem.spec.image().len() * channels).cast(problem.spec.image_type());
        problem.template = samples(problem.spec.template().len() * channels).cast(problem.spec.template_type());
        let typical = 2.0 * (problem.spec.template().len() * channels) as f64;
        judge(text, vec![errors(&problem, &by_oracle(&problem), 1e-4 * typical)]);
    }
    // Templates of one plan as bright as parts of the image that have little in common.
    let mut seed = Seed(start ^ 8);
    let bands = [6e4, 1e3, 6.03e4];
    let image: Vec<f32> = (0..60 * 50).map(|k| bands[k / (20 * 50)] + seed.normal() as f32).collect();
    let places = [[3, 5], [25, 31], [10, 40], [47, 2], [26, 12]];
    let templates = places.map(|[top, left]| -> Pixels {
        Pixels::F32((0..8 * 9).map(|k| image[(top + k / 9) * 50 + left + k % 9]).collect())
    });
    let image = Pixels::F32(image);
    let spec: Spec = "ssd:f32:60x50*8x9:valid".parse().unwrap();
    let spec = spec.with_templates(places.len()).unwrap();
    for method in [Method::Direct, Method::Fourier] {
        let plan = gpu(method).plan(&spec).unwrap();
        let view = |values, shape| AnyView::dense(values, shape, 1).unwrap();
        let views = templates.each_ref().map(|values| view(values, spec.template()));
        let maps = plan.execute(&[view(&image, spec.image())], &views, None).unwrap();
        for (map, [top, left]) in maps.iter().zip(places) {
            let found = (0..map.shape().len()).min_by(|&a, &b| map.get(a).total_cmp(&map.get(b))).unwrap();
            assert_eq!([found / 42, found % 42], [top, left], "{}", plan.kernel());
            assert!(map.get(found) < 3.0, "{}: {}", plan.kernel(), map.get(found));
        }
    }
}

/// Texture in one channel, nothing or as much in another, in scales of their own; and weights near either end of the
/// range. A CPU's scores, which tests/range.rs holds to the promise, may be off by as much as a GPU's.
#[test]
fn channels_and_weights_of_any_size_score_as_on_a_cpu() {
    let Some(_device) = device() else { return };
    let start = seed();
    let singles = [1e-18f64, 1e-30, 1e-40, 1e-43].map(|amplitude| ("f32", amplitude));
    let doubles = [1e-20f64, 1e-120, 1e-158, 1e-161, 1e-163, 1e-300, 1e-320].map(|amplitude| ("f64", amplitude));
    let measured = |op: &'static str| {
        in_threads(&part(&[&singles[..], &doubles[..]].concat(), 4, start), |&&(dtype, amplitude)| {
            let (mut seed, mut all) = (Seed(start ^ amplitude.to_bits()), Vec::new());
            let mut compare = |text: &str, image: Vec<f64>, template: Vec<f64>, mask: Option<Vec<f64>>| {
                let mut problem = Problem::new(text, start);
                problem.image = Pixels::F64(image).cast(problem.spec.image_type());
                problem.template = Pixels::F64(template).cast(problem.spec.template_type());
                problem.mask = mask.map(Pixels::F64);
                let map = problem.run(&problem.plan(&planner(1).platform(Platform::Cpu)).unwrap());
                let expected: Vec<(usize, f64)> = (0..map.shape().len()).map(|place| (place, map.get(place))).collect();
                let found = errors(&problem, &expected, 2.0 * problem.tolerance());
                all.extend(
                    found.into_iter().map(|(error, kernel)| (error, format!("{kernel}, {text}, {amplitude:e}"))),
                );
            };
            // 20 rows of 24 columns.
            let cut = |image: &[f64], channels: usize| -> Vec<f64> {
                (12..15).flat_map(|y| image[channels * (y * 24 + 14)..][..channels * 5].to_vec()).collect()
            };
            for kind in 0..3 {
                let samples = (0..20 * 24).flat_map(|at| {
                    let noise = seed.normal();
                    [[0.1, if at % 24 < 4 { 0.1 + noise } else { 0.1 }, noise][kind], amplitude * seed.normal()]
                });
                let image: Vec<f64> = samples.collect();
                let template = cut(&image, 2);
                compare(&format!("{op}:{dtype}:20x24*3x5:full,replicate,channels=2"), image, template, None);
            }
            let image: Vec<f64> =
                (0..20 * 24).map(|at| if at == 5 * 24 + 6 { 1.0 } else { amplitude * seed.normal() }).collect();
            let weights: Vec<f64> =
                (0..15).map(|k| if k != 3 && seed.below(3) == 0 { 0.0 } else { 0.1 + seed.unit() }).collect();
            for gain in [1.0, 1e-310, 1e-200, 1e8, 1e300] {
                let mask = weights.iter().map(|weight| gain * weight).collect();
                compare(&format!("{op}:{dtype}:20x24*3x5:full,maskw"), image.clone(), cut(&image, 1), Some(mask));
            }
            all
        })
    };
    for op in ["zncc", "ncc", "nssd"] {
        judge(&format!("{op} of channels and weights of any size"), measured(op));
    }
}
