//! Scores whose windows are summed up in f64, and in two floats as where f64 is slow: both by the device at hand, which
//! is described as fast in f64 and as slow. Either keeps the promise, and so does what it leaves in doubt.

use flcc_runtime::account::Outcome;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::machine::Device;
use flcc_runtime::rooms::cuda::driver::launch::probe;
use flcc_runtime::{Control, Machine, Method, Pixels, Planner, Platform};

use super::common::{Problem, Seed, check, in_threads};
use super::{device, part, seed};

/// A planner for the first device, described as one that does so many operations in f32 in the time of one in f64.
fn described(f32_per_f64: u32) -> Planner {
    let device = Device { f32_per_f64, ..probe().devices[0].clone() };
    let machine = Machine::detect().unwrap().with_devices(vec![device], "described");
    Planner::with_machine(machine).threads(2).platform(Platform::Cuda)
}

/// Sizes that kernels of scores serve: listed ones and by transforms, planes and volumes, of all pixels that are taken
/// in f32, with every rule outside.
const SPECS: [(Method, &str); 14] = [
    (Method::Direct, "zncc:f32:60x190*8x8:full"),
    (Method::Direct, "zncc:f32:70x60*32x32:same,reflect"),
    (Method::Direct, "zncc:f32:900*33:full,constant(2.5)"),
    (Method::Direct, "zncc:f32:9x30x35*3x3x3:same,wrap"),
    (Method::Direct, "zncc:f32:14x20x41*8x8x8:valid"),
    (Method::Direct, "zncc:u16/f32:50x60*7x7:full,mirror"),
    (Method::Direct, "zncc:u8:60x70*16x16:full,constant(2.5)"),
    (Method::Fourier, "zncc:f32:90x120*17x20:full"),
    (Method::Fourier, "zncc:f32:130x75*40x21:same,replicate"),
    (Method::Fourier, "zncc:u8:100x90*24x17:full,constant(7.0)"),
    (Method::Fourier, "zncc:u16:100x90*24x17:valid"),
    (Method::Fourier, "zncc:f32:24x40x36*5x6x7:full"),
    (Method::Fourier, "zncc:u8:20x33x40*3x9x8:same,mirror"),
    (Method::Fourier, "zncc:u16:20x33x40*4x5x8:valid"),
];

/// Kinds of images of floats: noise, noise far from zero, a bright part beside faint texture, whole numbers with
/// constant panels, samples that are no numbers, huge ones, faint ones, and one level with a few others.
const KINDS: [&str; 8] = ["noise", "far", "bright", "whole", "no numbers", "huge", "faint", "levels"];

fn samples(kind: &str, at: usize, count: usize, seed: &mut Seed) -> f64 {
    let (noise, rare, later) = (seed.normal(), seed.below(97) == 0, 2 * at > count);
    match kind {
        "far" => 3e4 + noise,
        "bright" => noise * if 3 * at > count && 3 * at < 3 * count / 2 { 7e4 } else { 1.0 },
        "whole" => (500.0 * noise).floor() * if later { 0.0 } else { 1.0 },
        "no numbers" if rare => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][seed.below(3)],
        "huge" if rare => noise.signum() * [1.1e9, 1.3e12, 1.7e17, 1.1e20, 3.3e38][seed.below(5)],
        "faint" => noise * if later { 1e-12 } else { [1e-20, 1e-25, 1e-38, 1e-43][at * 8 / count % 4] },
        "levels" => 1000.0 + if rare { 0.01 * noise } else { 0.0 },
        _ => noise,
    }
}

#[test]
fn windows_in_two_floats_keep_the_promise() {
    let Some(_device) = device() else { return };
    let start = seed();
    let problems: Vec<(Method, &str, &str)> = SPECS
        .into_iter()
        .flat_map(|(method, text)| KINDS.into_iter().map(move |kind| (method, text, kind)))
        .filter(|(_, text, kind)| text.starts_with("zncc:f32") || ["noise", "whole"].contains(kind))
        .collect();
    let planners = [2, 64].map(described);
    let found = in_threads(&part(&problems, 7, start), |&&(method, text, kind)| {
        let mut problem = Problem::new(text, start);
        let (count, mut seed) = (problem.spec.image().len(), Seed(start ^ 5));
        if problem.spec.image_type().row().max.is_none() {
            let image = (0..count).map(|at| samples(kind, at, count, &mut seed)).collect();
            problem.image = Pixels::F64(image).cast(problem.spec.image_type());
        } else if kind == "whole" {
            // The second half is constant.
            let half = problem.image.to_f64().into_iter().enumerate();
            let image = half.map(|(at, value)| if 2 * at > count { 200.0 } else { value }).collect();
            problem.image = Pixels::F64(image).cast(problem.spec.image_type());
        }
        let expected = problem.expected();
        let mut worst = [0.0f64; 2];
        for (planner, worst) in planners.iter().zip(&mut worst) {
            let planner = planner.clone().method(method);
            let plan = problem.plan(&planner).unwrap_or_else(|error| panic!("{text}: {error}"));
            let able = plan.candidates().iter().filter(|of| !matches!(of.outcome, Outcome::Refused(_)));
            let scores = able.filter(|of| of.kernel.starts_with("zncc") && !of.kernel.starts_with("znccmma"));
            let kernels: Vec<KernelKey> = scores.map(|of| of.kernel.parse().unwrap()).collect();
            assert!(!kernels.is_empty(), "{text}: no kernel of scores among {:?}", plan.candidates());
            for kernel in kernels {
                let plan = planner.plan_with_kernel(&problem.spec, &kernel).unwrap();
                let name = format!("{text} by {kernel}, {kind}, FLCC_SEED={start}");
                let matcher = plan.bind(&[problem.template()], None).unwrap();
                let (maps, told) = matcher.execute_with(&[problem.image()], &Control::default()).unwrap();
                *worst = worst.max(check(&name, &maps[0], &expected, problem.tolerance()));
                // Ordinary images have no more in doubt by one than by the other.
                let in_doubt = told.repaired as f64 / told.panels as f64;
                assert!(kind != "noise" || in_doubt < 0.02, "{name}: {in_doubt} of the panels are in doubt");
            }
        }
        worst
    });
    let most = |which: usize| found.iter().fold(0.0f64, |most, worst| most.max(worst[which]));
    println!("measured: {} problems, off by {:.2e} with f64 and {:.2e} with two floats", found.len(), most(0), most(1));
}
