//! Rounding errors that agree instead of averaging out: two-level images, constant images and flat patches, whose
//! products are all equal, at amplitudes whose squares no type holds. Every method, on each instruction set that the
//! machine has, keeps what CONVENTIONS grants.

use super::common::{Problem, Seed, check, in_threads, platforms};
use flcc_runtime::{DType, Machine, Measure, Method, Pixels, PlanError, Planner, Platform};

/// Amplitudes of all digits: the first is one that was found to be bad.
fn amplitudes() -> impl Iterator<Item = f64> {
    let mut seed = Seed(17);
    std::iter::once(1.973_693_847_656_25).chain(std::iter::repeat_with(move || 1.0 + seed.unit())).take(6)
}

/// A problem with these samples.
fn problem(text: &str, image: Vec<f64>, template: Vec<f64>) -> Problem {
    let empty = Problem::new(text, 1);
    let [image, template] = [(image, empty.spec.image_type()), (template, empty.spec.template_type())]
        .map(|(values, dtype)| Pixels::F64(values).cast(dtype));
    Problem { image, template, ..empty }
}

/// Holds the results of every method by every instruction set against what is exact.
fn hold(name: &str, problem: &Problem, expected: &[f64]) {
    let methods = [Method::Auto, Method::Direct, Method::Fourier, Method::Separable];
    hold_within(name, problem, expected, problem.tolerance(), &methods);
}

/// Holds the results of some methods by every instruction set against what is exact, within a tolerance.
fn hold_within(name: &str, problem: &Problem, expected: &[f64], tolerance: f64, methods: &[Method]) {
    let here = Machine::detect().unwrap();
    let machines: Vec<Machine> = match platforms().contains(&Platform::Cuda) {
        true => vec![here.clone()],
        false => here.isas().iter().filter(|isa| isa.has_floats()).map(|isa| here.clone().with_isa(isa)).collect(),
    };
    let spec = &problem.spec;
    let differences = spec.op().measure() == Measure::Sad;
    for (machine, platform) in machines.iter().flat_map(|machine| platforms().into_iter().map(move |p| (machine, p))) {
        for &method in methods {
            let planner = Planner::with_machine(machine.clone()).threads(1).platform(platform).method(method);
            match problem.plan(&planner) {
                Ok(plan) => {
                    let name = format!("{name}: {spec} by {}", plan.kernel());
                    check(&name, &problem.run(&plan), expected, tolerance);
                }
                Err(PlanError::Refused(refusal)) => {
                    // The only refusals that there are good reasons for: else nothing would have been held.
                    let refuses = match method {
                        Method::Fourier => differences,
                        Method::Separable => {
                            let [planes, rows, _] = spec.template().padded();
                            differences || rows == 1 || (planes > 1 && platform == Platform::Cuda)
                        }
                        _ => false,
                    };
                    assert!(refuses, "{spec} by {method} on {platform}: {refusal}");
                }
                Err(error) => panic!("{spec}: {error}"),
            }
        }
    }
}

/// A template of as many ones as minus ones, and an image that is nothing but it, somewhere, and zeros.
#[test]
fn two_levels_amid_zeros() {
    let cases = [
        ("70x70*32x32", [1, 32, 32]),
        ("66x84*30x40", [1, 30, 40]),
        ("40x160*16x75", [1, 16, 75]),
        ("4000*1200", [1, 1, 1200]),
        ("24x24x28*10x10x12", [10, 10, 12]),
    ];
    let all: Vec<_> = cases.into_iter().flat_map(|case| amplitudes().take(3).map(move |of| (case, of))).collect();
    in_threads(&all, |&((shapes, [d, h, w]), amplitude)| {
        let empty = Problem::new(&format!("zncc:f32:{shapes}:valid"), 1);
        let mut seed = Seed(41);
        let mut signs: Vec<f64> = (0..d * h * w).map(|k| if k % 2 == 0 { 1.0 } else { -1.0 }).collect();
        for k in (1..signs.len()).rev() {
            signs.swap(k, seed.below(k + 1));
        }
        let [depth, height, width] = empty.spec.image().padded();
        let from = [(depth - d) / 2, (height - h) / 2, (width - w) / 2];
        let mut image = vec![0.0; depth * height * width];
        for (k, sign) in signs.iter().enumerate() {
            let [z, y, x] = [from[0] + k / (h * w), from[1] + k / w % h, from[2] + k % w];
            image[(z * height + y) * width + x] = f64::from(amplitude as f32) * sign;
        }
        let problem = problem(&empty.spec.to_string(), image, signs);
        hold(&format!("{amplitude}"), &problem, &problem.expected());
    });
}

/// Every score of a constant image is 1, every sum one number.
#[test]
fn constant_images() {
    let scores = problem("ncc:f64:1024x1024*32x32:valid", vec![1.1; 1024 * 1024], vec![0.3; 1024]);
    hold("constant", &scores, &vec![1.0; 993 * 993]);
    let all: Vec<_> = ["f32", "f64"]
        .into_iter()
        .flat_map(|dtype| {
            [16, 32, 64, 100].into_iter().flat_map(move |side| amplitudes().map(move |of| (dtype, side, of)))
        })
        .collect();
    in_threads(&all, |&(dtype, side, amplitude)| {
        let image = side + 30;
        let text = format!("corr:{dtype}:{image}x{image}*{side}x{side}:valid");
        let problem = problem(&text, vec![amplitude; image * image], vec![amplitude - 0.7; side * side]);
        let [sample, tap] = [&problem.image, &problem.template].map(|pixels| pixels.to_f64()[0]);
        // Of f64 the product is rounded once: half a unit of the last place, where 16 and more are granted.
        let sum = (side * side) as f64 * (sample * tap);
        hold(&format!("{amplitude}"), &problem, &vec![sum; 31 * 31]);
    });
}

/// Sums over parts of a constant image, at its edges and beyond, and absolute differences.
#[test]
fn constant_images_with_edges() {
    let all: Vec<_> = [
        "conv:f32:30x36*13x20:full",
        "conv:f64:30x36*13x20:full",
        "conv:f32:272*186:full",
        "conv:f64:272*186:full",
        "corr:f64>f32:20x10*17x32:full",
        "sad:f32:40x44*16x16:full",
        "sad:f64:40x44*16x16:full",
        "sad:f64:200*64:same",
        "ssd:f32:40x44*16x16:full",
    ]
    .into_iter()
    .flat_map(|text| amplitudes().map(move |amplitude| (text, amplitude)))
    .collect();
    in_threads(&all, |&(text, amplitude)| {
        let empty = Problem::new(text, 1);
        let (image, template) = (empty.spec.image().len(), empty.spec.template().len());
        let problem = problem(text, vec![amplitude; image], vec![-0.7 * amplitude; template]);
        hold(&format!("{amplitude}"), &problem, &problem.expected());
    });
}

/// Volumes of patches of one value each.
#[test]
fn flat_patches() {
    for text in ["conv:f32:14x14x14*6x6x6:full", "conv:f64:14x14x14*6x6x6:full", "zncc:f32:14x14x14*6x6x6:valid"] {
        for amplitude in amplitudes().take(2) {
            let patch = |k: usize| amplitude * (1.0 + ((k / 5 % 3 + k / 70 % 2) as f64));
            let problem =
                problem(text, (0..14 * 14 * 14).map(patch).collect(), (0..216).map(|k| patch(k / 2)).collect());
            assert_eq!(problem.image.dtype(), problem.spec.image_type());
            hold(&format!("{amplitude}"), &problem, &problem.expected());
        }
    }
}

/// A line whose samples are nothing or as large as can be, long under a long template: sums of equal products.
#[test]
fn saturated_lines() {
    for amplitude in amplitudes().take(2) {
        let mut seed = Seed(29);
        let lit: Vec<bool> = (0..123_971).map(|_| seed.below(16) > 0).collect();
        let image = lit.iter().map(|&lit| if lit { amplitude } else { 0.0 }).collect();
        let problem = problem("corr:f32:123971*4096:valid", image, vec![amplitude - 0.7; 4096]);
        let tap = problem.template.to_f64()[0];
        let product = f64::from(amplitude as f32) * tap;
        let mut count = lit[..4096].iter().filter(|&&lit| lit).count();
        let mut expected = vec![count as f64 * product];
        for (leaves, enters) in lit.iter().zip(&lit[4096..]) {
            count = count + usize::from(*enters) - usize::from(*leaves);
            expected.push(count as f64 * product);
        }
        hold(&format!("{amplitude}"), &problem, &expected);
    }
}

/// What the conventions grant sums of a problem without a boundary: `K u max|P| |t|` of products, `K u (max|P| +
/// |t|)^2` of squared differences, norms under the weights.
fn granted(problem: &Problem) -> f64 {
    let spec = &problem.spec;
    let ([depth, height, width], [td, th, tw]) = (spec.image().padded(), spec.template().padded());
    let (image, template) = (problem.image.to_f64(), problem.template.to_f64());
    let weights = problem.mask.as_ref().map_or(vec![1.0; template.len()], Pixels::to_f64);
    let energy = |[z, y, x]: [usize; 3]| -> f64 {
        let tap = |k: usize| {
            let (k, j, i) = (k / (th * tw), k / tw % th, k % tw);
            image[((z + k) * height + y + j) * width + x + i]
        };
        (0..template.len()).map(|k| weights[k] * tap(k).powi(2)).sum()
    };
    let places = (0..=depth - td).flat_map(|z| (0..=height - th).map(move |y| (z, y)));
    let places = places.flat_map(|(z, y)| (0..=width - tw).map(move |x| [z, y, x]));
    let panel = places.map(energy).fold(0.0, f64::max).sqrt();
    let template = template.iter().zip(&weights).map(|(tap, weight)| weight * tap * tap).sum::<f64>().sqrt();
    let unit = if spec.out_type() == DType::F64 { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
    let size = if spec.op().measure() == Measure::Ssd { (panel + template).powi(2) } else { panel * template };
    (16.0 + (weights.len() as f64).sqrt()) * unit * size
}

/// Sums of squares over long lines and columns, all samples equal but for a bright one: each goes through few
/// roundings.
#[test]
fn squares_under_long_windows() {
    let all: Vec<_> = [
        "ssd:f64:4100*4096:valid",
        "ssd:f64:1000x1*900x1:valid",
        "ssd:f64:3x600*1x580:valid",
        "ssd:f64:520x2*500x2:valid",
        "ssd:f32>f64:2010*2000:valid",
    ]
    .into_iter()
    .flat_map(|text| amplitudes().chain([1.620_320_555_654_937_2]).map(move |amplitude| (text, amplitude)))
    .collect();
    in_threads(&all, |&(text, amplitude)| {
        let empty = Problem::new(text, 1);
        let (mut image, mut template) =
            (vec![amplitude; empty.spec.image().len()], vec![0.0; empty.spec.template().len()]);
        // Under every window.
        let middle = image.len() / 2;
        image[middle] = 4096.0;
        template[0] = 1.0;
        let problem = problem(text, image, template);
        let methods = [Method::Auto, Method::Direct, Method::Fourier];
        hold_within(&format!("{amplitude}"), &problem, &problem.expected(), granted(&problem), &methods);
    });
}

/// A huge sample in a corner that a mask never looks at, or hardly, leaves no trace in sums of the others.
#[test]
fn samples_beside_a_mask() {
    let all: Vec<_> = ["ssd", "corr"]
        .into_iter()
        .flat_map(|op| ["f32", "f64"].map(|dtype| (op, dtype)))
        .flat_map(|of| ["mask01", "maskw"].map(|mask| (of, mask)))
        .flat_map(|of| [1e9, 1e17].map(|huge| (of, huge)))
        .collect();
    in_threads(&all, |&(((op, dtype), mask), huge)| {
        let text = format!("{op}:{dtype}:100x90*16x16:valid,{mask}");
        let empty = Problem::new(&text, 3);
        let mut seed = Seed(5);
        let mut image: Vec<f64> = (0..empty.spec.image().len()).map(|_| seed.unit()).collect();
        let template: Vec<f64> = (0..256).map(|_| seed.unit()).collect();
        (image[0], image[100 * 90 - 1]) = (huge, -huge);
        let radius = |k: usize| ((k / 16) as f64 - 7.5).hypot((k % 16) as f64 - 7.5);
        let binary = mask == "mask01";
        let beside = if binary { 0.0 } else { 1e-20 / huge };
        let weights = (0..256).map(|k| if radius(k) <= 8.0 { 1.0 } else { beside }).collect();
        let problem = Problem { mask: Some(Pixels::F64(weights)), ..problem(&text, image, template) };
        let methods: &[Method] =
            if binary { &[Method::Auto, Method::Direct, Method::Fourier] } else { &[Method::Auto, Method::Direct] };
        hold_within(&format!("{huge}"), &problem, &problem.expected(), granted(&problem), methods);
    });
}
