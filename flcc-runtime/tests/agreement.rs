//! Every operation, type, extent, boundary, mask and method against the oracle, on shapes drawn from a fixed seed.

mod common;

use std::collections::BTreeSet;

use common::{Problem, Seed, check, planner};
use flcc_runtime::rooms::cpu::solvers::direct::DirectSolver;
use flcc_runtime::rooms::cpu::solvers::fourier::FourierSolver;
use flcc_runtime::rooms::isa::{Isa, Vectors};
use flcc_runtime::rooms::plan::solver::Solver;
use flcc_runtime::{DType, Measure, Method, Pixels, PlanError};

/// A random small spec of so many axes.
fn random_spec(seed: &mut Seed, axes: usize) -> String {
    let op = seed.pick(&["conv", "corr", "ncc", "zncc", "ssd", "nssd", "sad"]);
    let (image_type, template_type) =
        (seed.pick(&["u8", "u16", "f32", "f64"]), seed.pick(&["u8", "u16", "f32", "f64"]));
    let out = seed.pick(&["", ">f32", ">f64"]);
    let mode = seed.pick(&["full", "same", "valid"]);
    let (longest, most) = [(60, 20), (24, 9), (9, 5)][axes - 1];
    let image: Vec<usize> = (0..axes).map(|_| 1 + seed.below(longest)).collect();
    let template: Vec<usize> = image
        .iter()
        .map(|&n| if mode == "valid" { 1 + seed.below(n.min(most)) } else { 1 + seed.below(most) })
        .map(|n| n.max(if axes == 1 { 2.min(longest) } else { 1 }))
        .collect();
    let image: Vec<usize> = image.iter().zip(&template).map(|(&x, &t)| x.max(t)).collect();
    let join = |sides: &[usize]| sides.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let boundary = seed.pick(&["zero", "constant(3.0)", "constant(2.5)", "replicate", "reflect", "mirror", "wrap"]);
    let mask = if op == "conv" { "" } else { seed.pick(&["", "", ",mask01", ",maskw"]) };
    let channels = seed.pick(&["", "", "", ",channels=3"]);
    let accuracy = seed.pick(&["", "", ",acc=fast", ",acc=exact"]);
    format!(
        "{op}:{image_type}/{template_type}{out}:{}*{}:{mode},{boundary}{mask}{channels}{accuracy}",
        join(&image),
        join(&template)
    )
}

fn sweep(axes: usize, cases: usize, method: Method) {
    let (mut refused, mut done) = (0, 0);
    for case in 0..cases {
        let mut seed = Seed(1000 * axes as u64 + case as u64);
        let text = random_spec(&mut seed, axes);
        if text.parse::<flcc_runtime::Spec>().is_err() {
            continue;
        }
        let problem = Problem::new(&text, case as u64);
        if problem.template.to_f64().windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let plan = match problem.plan(&planner(1 + case % 2).method(method)) {
            Ok(plan) => plan,
            Err(PlanError::Refused(_)) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{text}: {error}"),
        };
        let name = format!("case {case} {text} by {}", plan.kernel());
        match plan.execute(&[problem.image()], &[problem.template()], problem.mask().as_ref().map(|mask| mask as _)) {
            Ok(mut maps) => {
                check(&name, &maps.remove(0), &problem.expected(), problem.tolerance());
                done += 1;
            }
            Err(error) => assert!(
                error.to_string().contains("all equal") || error.to_string().contains("not 0"),
                "{name}: {error}"
            ),
        }
    }
    assert!(done > cases / 4, "{done} done, {refused} refused of {cases}");
}

/// Images of bytes large enough for whole blocks, by every boundary, extent and measure of the kernels of bytes: sums
/// to the last bit.
#[test]
fn bytes_by_their_own_kernels() {
    for (case, (spec, own)) in [
        ("corr:u8:101x207*8x8:valid", true),
        ("corr:u8:101x207*9x7:full", true),
        ("conv:u8:101x207*9x6:same,replicate", true),
        ("corr:u8:101x207*16x17:full,reflect", true),
        ("corr:u8:101x207*3x5:same,wrap", true),
        ("corr:u8:101x207*5x3:full,constant(255.0)", true),
        ("corr:u8:101x207*20x21:full,mirror,roi=13,29:71x150", true),
        ("corr:u8:101x207*6x5:valid,roi=7,5:50x1", true),
        ("corr:u8>f64:101x207*6x5:valid", true),
        ("corr:u8:101x207*6x5:valid,acc=exact", true),
        ("corr:u8:30x40x90*3x4x5:same", true),
        ("corr:u8:5000*37:full", true),
        ("corr:u8:40x150*33x50:valid", true),
        ("corr:u8:31x140*52x52:same,wrap", true),
        ("corr:u8:80x150*64x67:valid", true),
        // Not an integer of a byte, other types, sums that f64 results need: by other kernels.
        ("corr:u8:101x207*5x3:full,constant(256.0)", false),
        ("corr:u8/u16:101x207*5x3:full", false),
        ("corr:u8>f64:101x207*20x21:valid", false),
        ("zncc:u8:101x207*9x8:full,wrap", true),
        ("zncc:u8:101x207*20x21:valid", true),
        ("ncc:u8:101x207*20x21:valid", true),
        ("ssd:u8:101x207*8x8:valid", true),
        ("zncc:u8:101x207*8x8:valid,acc=exact", true),
    ]
    .into_iter()
    .enumerate()
    {
        let problem = Problem::new(spec, case as u64);
        let shown = problem.spec.op().measure() == Measure::Cc;
        let tolerance = if shown { 0.0 } else { problem.tolerance() };
        let expected: Vec<f64> = match problem.spec.out_type() {
            DType::F32 if shown => problem.expected().into_iter().map(|sum| f64::from(sum as f32)).collect(),
            _ => problem.expected(),
        };
        for threads in [1, 2] {
            let planner = planner(threads).method(Method::Direct);
            let offers = DirectSolver.offers(&problem.spec, planner.machine()).unwrap();
            let bytes: Vec<_> = offers.into_iter().map(|offer| offer.kernel).filter(|key| key.dtype == "u8").collect();
            let isas = planner.machine().isas();
            let offered: BTreeSet<&str> = bytes.iter().map(|key| &*key.target).collect();
            let served = isas.iter().filter(|isa| own && !isa.has_floats()).map(Isa::name);
            assert_eq!(offered, BTreeSet::from_iter(served), "{spec}");
            for key in bytes {
                let plan = planner.plan_with_kernel(&problem.spec, &key).unwrap();
                check(&format!("{spec} by {key}"), &problem.run(&plan), &expected, tolerance);
            }
        }
    }
}

/// Outputs at the edges of images and volumes, by direct kernels on tiles of which most or one plane lies inside.
#[test]
fn edges_by_direct_kernels() {
    for (case, spec) in [
        "corr:f32:90x200*5x5:same",
        "corr:f32:90x200*5x5:same,reflect",
        "conv:f32:70x333*3x8:full,wrap",
        "corr:f32:60x120*9x3:same,constant(7)",
        "corr:f32:90x200*8x8:full,roi=3,2:80x190",
        "corr:f32:200*7:same,mirror",
        "corr:f32:9x64x128*2x5x5:same",
        "corr:f32:9x64x128*2x5x5:same,wrap",
        "conv:f32:17x40x60*2x3x3:same",
        "corr:f32:20x64x128*3x5x5:full,roi=8,0,0:1x68x132",
        "corr:f32:9x64x128*1x5x5:same",
        "corr:f32:1x64x128*1x5x5:same,reflect",
    ]
    .into_iter()
    .enumerate()
    {
        let mut problem = Problem::new(spec, case as u64);
        for bad in [false, true] {
            if let (true, Pixels::F32(samples)) = (bad, &mut problem.image) {
                samples[0] = f32::NAN;
            }
            let expected = problem.expected();
            let planner = planner(2).method(Method::Direct);
            for offer in DirectSolver.offers(&problem.spec, planner.machine()).unwrap() {
                let plan = planner.plan_with_kernel(&problem.spec, &offer.kernel).unwrap();
                check(
                    &format!("{spec} by {}, bad {bad}", offer.kernel),
                    &problem.run(&plan),
                    &expected,
                    problem.tolerance(),
                );
            }
        }
    }
}

/// Tiles that are read and written where they lie give the bits that gathered ones do, whatever their samples: those of
/// a region that cuts them.
#[test]
fn a_region_by_columns_is_the_slice_of_the_whole() {
    for (case, spec) in ["corr:f32:230x400*17x19:valid", "zncc:f32:180x300*9x9:valid"].into_iter().enumerate() {
        for special in [None, Some(f32::NAN), Some(f32::INFINITY), Some(0.0), Some(1e-30)] {
            let mut problem = Problem::new(spec, case as u64);
            if let (Some(special), Pixels::F32(samples)) = (special, &mut problem.image) {
                match special.is_normal() {
                    true => samples.iter_mut().for_each(|sample| *sample *= special),
                    false => samples[7000] = special,
                }
            }
            let planner = planner(2).method(Method::Fourier);
            let offers = FourierSolver.offers(&problem.spec, planner.machine()).unwrap();
            for offer in offers.iter().filter(|offer| offer.kernel.size.starts_with("columns")) {
                let all = problem.run(&planner.plan_with_kernel(&problem.spec, &offer.kernel).unwrap());
                let (inside, width) = (problem.spec.region().origin, problem.spec.region().shape.lengths()[1]);
                for ([top, left], [height, columns]) in [([0, 0], [1, 1]), ([3, 70], [90, 33]), ([40, 1], [100, 200])] {
                    let roi = format!("{},{}:{height}x{columns}", inside[1] + top, inside[2] + left);
                    let part = problem.spec.clone().with_roi(Some(roi.parse().unwrap())).unwrap();
                    let plan = planner.plan_with_kernel(&part, &offer.kernel).unwrap();
                    let got = plan.execute(&[problem.image()], &[problem.template()], None).unwrap().remove(0);
                    for (y, x) in (0..height).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                        let (got, whole) = (got.get(y * columns + x), all.get((top + y) * width + left + x));
                        assert_eq!(
                            got.to_bits(),
                            whole.to_bits(),
                            "{part} by {} with {special:?} at {y},{x}",
                            offer.kernel
                        );
                    }
                }
            }
        }
    }
}

/// Every offer of transforms in f32, by every tile: pairs side by side and one behind the other, cut tiles and planes,
/// regions, one sample that is no number.
#[test]
fn transforms_by_every_layout() {
    let mut kinds = BTreeSet::new();
    for (case, spec) in [
        "corr:f32:150x333*20x20:valid",
        "corr:f32:150x140*17x9:full,mirror",
        "conv:f32:130x259*12x13:same,roi=9,40:90x200",
        "corr:f32:20000*40:valid",
        "zncc:f32:100x90*20x20:valid",
        "zncc:f32:230x700*9x12:same,reflect,roi=100,300:60x350",
        "corr:f32:21x70x75*4x5x6:valid",
        "zncc:f32:19x40x50*3x8x7:full,reflect",
        "zncc:f32:30x66x130*5x9x8:same,wrap,roi=3,5,7:20x30x60",
        "ncc:f32:9x64x64*1x4x4:valid",
        "conv:f32:1x80x90*1x9x9:full",
        "zncc:f32:35x50x60*3x5x5:valid",
    ]
    .into_iter()
    .enumerate()
    {
        let mut problem = Problem::new(spec, case as u64);
        for bad in [false, true] {
            if let (true, Pixels::F32(samples)) = (bad, &mut problem.image) {
                let middle = samples.len() / 2;
                samples[middle] = f32::NAN;
            }
            let expected = problem.expected();
            let planner = planner(2).method(Method::Fourier);
            for offer in FourierSolver.offers(&problem.spec, planner.machine()).unwrap() {
                if offer.kernel.target == "rustfft" {
                    continue;
                }
                kinds.insert(
                    offer
                        .kernel
                        .size
                        .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == 'x')
                        .to_string(),
                );
                let plan = planner.plan_with_kernel(&problem.spec, &offer.kernel).unwrap();
                check(
                    &format!("{spec} by {}, bad {bad}", offer.kernel),
                    &problem.run(&plan),
                    &expected,
                    problem.tolerance(),
                );
            }
        }
    }
    let isas = planner(1).machine().isas();
    let all = if Vectors::isa(&isas).is_some() { vec!["", "columns", "half", "planes"] } else { Vec::new() };
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all);
}

/// Scores of sums of bytes that f32 does not hold: an image of 254 and 255, so that what matters is in the last bits.
#[test]
fn scores_of_bytes_take_all_bits_of_their_sums() {
    let mut problem = Problem::new("zncc:u8:201x207*181x180:valid", 7);
    let mut seed = Seed(8);
    problem.image = Pixels::U8((0..201 * 207).map(|_| 254 + (seed.below(2) as u8)).collect());
    let expected = problem.expected();
    let planner = planner(2).method(Method::Direct);
    for offer in DirectSolver.offers(&problem.spec, planner.machine()).unwrap() {
        let plan = planner.plan_with_kernel(&problem.spec, &offer.kernel).unwrap();
        check(&format!("{} by {}", problem.spec, offer.kernel), &problem.run(&plan), &expected, 1e-6);
    }
}

macro_rules! sweeps {
    ($($name:ident: $axes:literal, $method:ident;)+) => {
        $(#[test]
        fn $name() {
            sweep($axes, 400, Method::$method);
        })+
    };
}

sweeps! {
    auto_1d: 1, Auto;
    auto_2d: 2, Auto;
    auto_3d: 3, Auto;
    direct_1d: 1, Direct;
    direct_2d: 2, Direct;
    direct_3d: 3, Direct;
    fourier_1d: 1, Fourier;
    fourier_2d: 2, Fourier;
    fourier_3d: 3, Fourier;
    separable_2d: 2, Separable;
    separable_3d: 3, Separable;
}
