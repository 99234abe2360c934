//! Images with a template of their own each, all in one kernel.

use flcc_runtime::core::key::KernelKey;
use flcc_runtime::rooms::cuda::driver::buffer::{Buffer, bytes_of, bytes_of_mut};
use flcc_runtime::rooms::cuda::driver::launch::Gpu;
use flcc_runtime::{AnyView, DType, DevicePairs, Method, Pairs, Pixels, Plan, ScoreMap, Shape, Spec};

use super::common::{Problem, check};
use super::{device, gpu, seed};

const SPECS: [&str; 6] = [
    "corr:f32:0@128x128*32x32:valid,pairs",
    "conv:f32:0@64x64*24x20:full,pairs,reflect",
    "corr:f32:0@40x50*17x20:same,pairs,wrap",
    "corr:f32:0@150x170*31x20:full,pairs,constant(2.5)",
    "corr:f32:0@31x60*30x40:full,pairs,mirror",
    "conv:f32:0@33x64*33x17:valid,pairs,replicate",
];

/// Plans by each kernel of pairs that serves a spec.
fn plans(spec: &Spec) -> Vec<Plan> {
    let names = ["pairs64_f32_any_b64x2", "pairs128_f32_any_b128x2"].map(|name| name.parse::<KernelKey>().unwrap());
    let plans: Vec<Plan> =
        names.iter().filter_map(|name| gpu(Method::Fourier).plan_with_kernel(spec, name).ok()).collect();
    assert!(!plans.is_empty(), "{spec}");
    plans
}

/// Problems of one spec, each with data of its own.
fn problems(text: &str, count: u64) -> Vec<Problem> {
    let seed = seed();
    (0..count).map(|number| Problem::new(text, seed ^ (number << 32))).collect()
}

/// The results of pairs, one after the other.
fn run(pairs: &Pairs, problems: &[Problem]) -> Vec<f32> {
    let images: Vec<AnyView<'_>> = problems.iter().map(Problem::image).collect();
    let templates: Vec<AnyView<'_>> = problems.iter().map(Problem::template).collect();
    let Pixels::F32(results) = pairs.execute(&images, &templates).unwrap() else { panic!("results in f32") };
    results
}

/// Their bits; those of NaN are one.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }).collect()
}

#[test]
fn pairs_in_one_kernel_are_right_wherever_they_lie() {
    let Some(_device) = device() else { return };
    for text in SPECS {
        let mut problems = problems(text, 5);
        for plan in plans(&problems[0].spec) {
            let pairs = plan.pairs(None).unwrap();
            let all = run(&pairs, &problems);
            let len = all.len() / problems.len();
            for (problem, got) in problems.iter().zip(all.chunks(len)) {
                let map = ScoreMap::new(problem.spec.region(), Pixels::F32(got.to_vec())).unwrap();
                check(&format!("{text} by {}", plan.kernel()), &map, &problem.expected(), problem.tolerance());
                // As one template that is bound.
                let bound = plan.bind(&[problem.template()], None).unwrap();
                let Pixels::F32(alone) = bound.execute(&[problem.image()]).unwrap().remove(0).into_data() else {
                    panic!("results in f32")
                };
                assert_eq!(bits(&alone), bits(got), "{text} by {}", plan.kernel());
            }
            problems.reverse();
            let reversed = run(&pairs, &problems);
            problems.reverse();
            for (number, got) in reversed.chunks(len).rev().enumerate() {
                assert_eq!(bits(got), bits(&all[number * len..][..len]), "{text}: pair {number}");
            }
        }
    }
}

/// What the kernel does not serve is computed otherwise, and changes nothing of the others.
#[test]
fn extraordinary_pairs_change_no_others() {
    let Some(_device) = device() else { return };
    for text in SPECS {
        let mut problems = problems(text, 5);
        let spec = problems[0].spec.clone();
        for plan in plans(&spec) {
            let pairs = plan.pairs(None).unwrap();
            let before = run(&pairs, &problems);
            let len = before.len() / problems.len();
            let changed = |pixels: &Pixels, change: fn(&mut f64)| {
                let mut values = pixels.to_f64();
                let middle = values.len() / 2;
                change(&mut values[middle]);
                Pixels::F64(values).cast(DType::F32)
            };
            let faint = |pixels: &Pixels| {
                Pixels::F64(pixels.to_f64().into_iter().map(|value| value * 1e-25).collect()).cast(DType::F32)
            };
            let kept = [1, 3].map(|number| (problems[number].image.clone(), problems[number].template.clone()));
            problems[1].image = changed(&problems[1].image, |value| *value = f64::INFINITY);
            problems[3].template = faint(&problems[3].template);
            let after = run(&pairs, &problems);
            for (number, (before, after)) in before.chunks(len).zip(after.chunks(len)).enumerate() {
                match number {
                    1 | 3 => {
                        let problem = &problems[number];
                        let map = ScoreMap::new(spec.region(), Pixels::F32(after.to_vec())).unwrap();
                        check(text, &map, &problem.expected(), problem.tolerance());
                        assert_ne!(bits(before), bits(after));
                    }
                    _ => assert_eq!(bits(before), bits(after), "{text}: pair {number}"),
                }
            }
            for (number, (image, template)) in [1, 3].into_iter().zip(kept) {
                (problems[number].image, problems[number].template) = (image, template);
            }
        }
    }
}

#[test]
fn pairs_that_lie_on_a_device_stay_there() {
    let Some(_device) = device() else { return };
    for text in SPECS {
        let mut problems = problems(text, 4);
        // One that the kernel does not serve.
        let mut values = problems[2].template.to_f64();
        values.iter_mut().for_each(|value| *value *= 1e20);
        problems[2].template = Pixels::F64(values).cast(DType::F32);
        let spec = problems[0].spec.clone();
        for plan in plans(&spec) {
            let pairs = plan.pairs(None).unwrap();
            let wanted = run(&pairs, &problems);
            let stream = Gpu::open(pairs.devices()[0]).unwrap().stream().unwrap();
            let stack = |of: fn(&Problem) -> &Pixels, shape: Shape| {
                let all: Vec<f32> =
                    problems.iter().flat_map(|problem| of(problem).to_f64()).map(|v| v as f32).collect();
                let [_, height, width] = shape.padded();
                (Buffer::of(&stream, &all).unwrap(), Shape::new(&[problems.len(), height, width]).unwrap())
            };
            let (images, of_images) = stack(|problem| &problem.image, spec.image());
            let (templates, of_templates) = stack(|problem| &problem.template, spec.template());
            let mut results = Buffer::new(&stream, bytes_of(&wanted).len()).unwrap();
            stream.wait().unwrap();
            let there = DevicePairs {
                images: images.image(&stream, DType::F32, of_images, 1).unwrap(),
                templates: templates.image(&stream, DType::F32, of_templates, 1).unwrap(),
            };
            let mut out = results.results(&stream, DType::F32, spec.out_shape(), problems.len()).unwrap();
            pairs.execute_on_device(&there, &mut out, &mut pairs.make_scratch()).unwrap();
            let mut got = vec![0.0f32; wanted.len()];
            results.read(&stream, 0, bytes_of_mut(&mut got)).unwrap();
            assert_eq!(bits(&got), bits(&wanted), "{text} by {}", plan.kernel());
            // Fewer templates than images.
            let few =
                Shape::new(&[problems.len() - 1, spec.template().padded()[1], spec.template().padded()[2]]).unwrap();
            let few = DevicePairs { templates: templates.image(&stream, DType::F32, few, 1).unwrap(), ..there };
            let mut out = results.results(&stream, DType::F32, spec.out_shape(), problems.len()).unwrap();
            assert!(pairs.execute_on_device(&few, &mut out, &mut pairs.make_scratch()).is_err());
        }
    }
}
