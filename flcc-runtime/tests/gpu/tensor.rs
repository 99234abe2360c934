//! zncc of bytes on tensor cores: the bits of the CPU's exact scores, of every image, template and region.

use flcc_generated::{Entry, kernels};
use flcc_runtime::rooms::cuda::driver::launch::probe;
use flcc_runtime::{AnyView, Method, Pixels, Plan, Platform, Region, ScoreMap, Shape, Spec};

use super::common::{Seed, in_threads, planner};
use super::{data, device, gpu, part, seed};

/// The compute capability from which on devices multiply matrices of bytes.
const LEAST: (u32, u32) = (8, 0);

/// Whether a kernel makes scores of bytes on tensor cores.
pub fn is_one(entry: &Entry) -> bool {
    entry.op.starts_with("znccmma")
}

/// Whether all devices have such tensor cores.
pub fn are_there() -> bool {
    let there = probe().devices.iter().all(|device| device.capability >= LEAST);
    if !there {
        println!("absent: a device of compute capability 8.0; nothing was tested on tensor cores");
    }
    there
}

/// Blocks that reach beyond each side, every rule outside, one to five and 17 stretches of 16 samples, fewer rows than
/// a warp has outputs, the least template, one of more rows than a block has outputs, an image below a template,
/// several images and templates.
const SPECS: [&str; 13] = [
    "zncc:u8:37x290*1x2:full,reflect",
    "zncc:u8:35x61*2x32:same",
    "zncc:u8:2@34x270*3x8:full,constant(9.0)",
    "zncc:u8:60x33*21x1:valid",
    "zncc:u8:90x290*16x16:full,reflect",
    "zncc:u8:41x303*7x17:same,constant(7.0)",
    "zncc:u8:37x59*4x4:valid",
    "zncc:u8:3@45x70*2@33x50:full,mirror",
    "zncc:u8:40x41*64x64:full,replicate",
    "zncc:u8:30x330*5x256:same,wrap",
    "zncc:u8:120x60*100x9:valid",
    "zncc:u8:66x530*9x33:full",
    "zncc:u8:20x20*20x20:valid",
];

/// Kinds of samples: at random, of two values, of few large ones, the same but for a few, and of both halves.
fn samples(kind: usize, count: usize, seed: &mut Seed) -> Pixels {
    let value = |at: usize, seed: &mut Seed| match kind {
        0 => seed.below(256),
        1 => seed.below(2) * 255,
        2 => 250 + seed.below(6),
        3 => 200 + usize::from(seed.below(97) == 0),
        _ if at < count / 2 => 255,
        _ => seed.below(256),
    };
    Pixels::U8((0..count).map(|at| value(at, seed) as u8).collect())
}

/// The results of a plan for some images and templates.
fn run(plan: &Plan, images: &[Pixels], templates: &[Pixels]) -> Vec<ScoreMap> {
    let spec = plan.spec();
    let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
    let images: Vec<AnyView<'_>> = images.iter().map(|pixels| view(pixels, spec.image())).collect();
    let templates: Vec<AnyView<'_>> = templates.iter().map(|pixels| view(pixels, spec.template())).collect();
    plan.execute(&images, &templates, None).unwrap_or_else(|error| panic!("{spec} by {}: {error}", plan.kernel()))
}

/// A region of a spec's results, drawn.
fn region(spec: &Spec, seed: &mut Seed) -> Spec {
    let region = spec.mode_region();
    let shape = region.shape.padded();
    let from = shape.map(|side| seed.below(side));
    let sides = [0, 1, 2].map(|axis| 1 + seed.below(shape[axis] - from[axis]));
    let origin = [0, 1, 2].map(|axis| region.origin[axis] + from[axis]);
    spec.clone().with_roi(Some(Region { origin, shape: Shape::new(&sides[1..]).unwrap() })).unwrap()
}

#[test]
fn tensor_cores_give_the_bits_of_the_cpu() {
    let Some(_device) = device() else { return };
    if !are_there() {
        return;
    }
    let start = seed();
    let counts = in_threads(&SPECS, |text| {
        let (whole, mut seed, mut count) = (text.parse::<Spec>().unwrap(), Seed(start), 0);
        let piece = region(&whole, &mut seed);
        for &kind in part(&[0, 1, 2, 3, 4], 2, start) {
            // Of the templates, which are at random, none is constant.
            let (_, templates, _) = data(&whole, &mut seed);
            let images: Vec<Pixels> =
                (0..whole.images().max(1)).map(|_| samples(kind, whole.image().len(), &mut seed)).collect();
            for spec in [&whole, &piece] {
                let exact = spec.clone().with_accuracy(flcc_runtime::Accuracy::Exact).unwrap();
                let expected = run(&planner(1).platform(Platform::Cpu).plan(&exact).unwrap(), &images, &templates);
                for (entry, spec) in kernels()
                    .iter()
                    .filter(|entry| is_one(entry))
                    .flat_map(|entry| [spec, &exact].map(|spec| (entry, spec)))
                {
                    let plan = gpu(Method::Direct).plan_with_kernel(spec, &entry.name.parse().unwrap());
                    let plan = match plan {
                        // Blocks of some devices have not the shared memory for large templates.
                        Err(error) if error.to_string().contains("shared memory a block") => continue,
                        plan => plan.unwrap_or_else(|error| panic!("{spec}: {error}")),
                    };
                    for (number, (got, wanted)) in run(&plan, &images, &templates).iter().zip(&expected).enumerate() {
                        let differ =
                            (0..got.shape().len()).find(|&at| got.get(at).to_bits() != wanted.get(at).to_bits());
                        let at = differ.map(|at| (got.shape().position(at), got.get(at), wanted.get(at)));
                        assert!(at.is_none(), "{spec} by {}, samples {kind}, result {number}: {at:?}", plan.kernel());
                    }
                    count += 1;
                }
            }
        }
        count
    });
    println!("{} runs", counts.iter().sum::<usize>());
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}
