//! Products of lines: templates of every rank by every measure, and what a plan takes of a rank that it is told of or
//! not.

use flcc_runtime::account::{Candidate, Outcome};
use flcc_runtime::{AnyView, DType, Method, Pixels, PlanError, Platform, Spec};

use super::common::{Problem, Seed, check, in_threads};
use super::{device, gpu, part, seed};

/// Every measure that has one, every rule outside, both types, and blocks that reach beyond each side.
const SPECS: [&str; 16] = [
    "corr:f32:150x203*16x16:full",
    "corr:f32:140x133*9x33:same,reflect",
    "corr:f32:90x100*7x5:valid,channels=3",
    "corr:f32:70x90*21x1:full,mask01",
    "conv:f32:120x133*17x12:full,wrap",
    "conv:f64:70x140*20x21:same,mirror",
    "corr:f64>f32:66x70*5x6:full,constant(2.5)",
    "ncc:f32:100x120*9x9:same,replicate",
    "ncc:u8:100x90*11x6:full",
    "zncc:f32:130x140*12x12:full,reflect",
    "zncc:f32:3@64x70*2@8x9:valid",
    "zncc:f64:80x90*7x7:valid",
    "zncc:u16:90x64*16x10:same,constant(1.5)",
    "ssd:f32:80x70*10x12:full",
    "nssd:f32:90x80*8x8:same,wrap",
    "zncc:f32:60x130*6x7:same,acc=exact",
];

/// A template that is a sum of so many products of lines.
fn of_rank(spec: &Spec, rank: usize, seed: &mut Seed) -> Pixels {
    let ([_, height, width], channels) = (spec.template().padded(), spec.channels());
    let mut values = vec![0.0; height * width * channels];
    for (channel, _) in (0..channels).flat_map(|channel| (0..rank).map(move |term| (channel, term))) {
        let mut line = |side: usize| -> Vec<f64> { (0..side).map(|_| seed.below(8) as f64).collect() };
        let (column, row) = (line(height), line(width));
        for (at, value) in values.iter_mut().skip(channel).step_by(channels).enumerate() {
            *value += column[at / width] * row[at % width];
        }
    }
    // Neither constant nor zero, and of low rank still.
    values[..channels].iter_mut().for_each(|value| *value += 1.0);
    let most = values.iter().fold(1.0f64, |most, value| most.max(*value));
    match spec.template_type() {
        DType::U8 | DType::U16 => Pixels::F64(values.iter().map(|value| (value * 255.0 / most).floor()).collect()),
        _ => Pixels::F64(values),
    }
    .cast(spec.template_type())
}

#[test]
fn products_of_lines_are_what_the_oracle_says() {
    let Some(_device) = device() else { return };
    let start = seed();
    let cases: Vec<(&str, usize)> = SPECS.iter().flat_map(|&text| [0, 1, 3].map(|rank| (text, rank))).collect();
    in_threads(&part(&cases, 2, start), |(text, rank)| {
        let mut problem = Problem::new(text, start);
        let spec = problem.spec.clone();
        if spec.images() > 1 || spec.templates() > 1 {
            super::against_the_oracle(&spec, &gpu(Method::Separable), &mut Seed(start)).unwrap();
            return;
        }
        // Of rank 0 it is noise, which takes as many products as there are lines.
        if *rank > 0 {
            problem.template = of_rank(&spec, *rank, &mut Seed(start ^ 7));
        }
        let plan = problem.plan(&gpu(Method::Separable)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(plan.method(), Method::Separable, "{text}");
        check(&format!("{text}, rank {rank}"), &problem.run(&plan), &problem.expected(), problem.tolerance());
    });
}

#[test]
fn a_known_rank_is_a_reason_and_changes_no_result() {
    let Some(_device) = device() else { return };
    let start = seed();
    for text in ["corr:f64:200x190*32x32:full,rank=1", "zncc:f64:130x120*24x30:same,rank=2"] {
        let spec: Spec = text.parse().unwrap();
        let plan = gpu(Method::Auto).plan(&spec).unwrap();
        assert_eq!(plan.method(), Method::Separable, "{}", plan.explain());
        // A template of a higher rank than that is computed all the same.
        for rank in [1, 3] {
            let template = of_rank(&spec, rank, &mut Seed(start));
            let problem = Problem { template, ..Problem::new(text, start) };
            check(&format!("{text} with {rank}"), &problem.run(&plan), &problem.expected(), problem.tolerance());
        }
    }
}

/// Without a rank another method is chosen, and none that no template would make a plan take is compiled.
#[test]
fn what_no_rank_makes_faster_is_not_built() {
    let Some(_device) = device() else { return };
    let plan = gpu(Method::Auto).plan(&"corr:f32:100x100*9x9:full".parse().unwrap()).unwrap();
    assert_ne!(plan.method(), Method::Separable);
    let of_gpu =
        |candidate: &&Candidate| candidate.method == Method::Separable && candidate.platform == Some(Platform::Cuda);
    let outcomes: Vec<&Outcome> = plan.candidates().iter().filter(of_gpu).map(|candidate| &candidate.outcome).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|outcome| **outcome == Outcome::Slower), "{outcomes:?}");
}

#[test]
fn what_products_of_lines_do_not_serve_is_refused_with_a_reason() {
    let Some(_device) = device() else { return };
    for (text, reason) in [
        ("sad:f32:40x40*5x5:valid", "sad is no sum of products"),
        ("corr:f32:400*5:valid", "nothing to separate"),
        ("corr:f32:20x30x40*3x3x3:valid", "images of two axes"),
        ("zncc:u8:40x40*5x5:valid,acc=exact", "no integers"),
        ("zncc:f32:40x40*5x5:valid,mask01", "window sums under a mask"),
        ("corr:f32:900x900*400x400:valid", "bytes of shared memory a block"),
    ] {
        match gpu(Method::Separable).plan(&text.parse().unwrap()) {
            Err(PlanError::Refused(refusal)) => assert!(refusal.reason.contains(reason), "{text}: {refusal}"),
            other => panic!("{text}: {:?}", other.map(|plan| plan.kernel().to_string())),
        }
    }
}

/// As on a CPU: sums have an answer, coefficients have none.
#[test]
fn templates_of_zeros_and_of_one_value_are_answered() {
    let Some(_device) = device() else { return };
    let mut problem = Problem::new("corr:f32:40x50*6x7:full", 5);
    for value in [0.0, 2.0] {
        problem.template = Pixels::F32(vec![value; 42]);
        let plan = problem.plan(&gpu(Method::Separable)).unwrap();
        check(&format!("{value}"), &problem.run(&plan), &problem.expected(), problem.tolerance().max(1e-30));
    }
    let problem = Problem { template: Pixels::F32(vec![2.0; 42]), ..Problem::new("zncc:f32:40x50*6x7:full", 5) };
    let plan = problem.plan(&gpu(Method::Separable)).unwrap();
    let template = AnyView::dense(&problem.template, problem.spec.template(), 1).unwrap();
    assert!(plan.bind(&[template], None).is_err());
}

/// All templates of a type have one loaded kernel, which each launches with the shared memory that it takes.
#[test]
fn a_small_template_leaves_a_large_one_its_shared_memory() {
    let Some(_device) = device() else { return };
    let [large, small] = ["corr:f32:90x100*60x50:full", "corr:f32:90x100*5x6:full"].map(|text| Problem::new(text, 9));
    let plans = [&large, &small].map(|problem| problem.plan(&gpu(Method::Separable)).unwrap());
    let of_rank_one = |problem: &Problem| of_rank(&problem.spec, 1, &mut Seed(3));
    let templates = [&large, &small].map(of_rank_one);
    let [first, _second] =
        [(&plans[0], &large, &templates[0]), (&plans[1], &small, &templates[1])].map(|(plan, problem, template)| {
            plan.bind(&[AnyView::dense(template, problem.spec.template(), 1).unwrap()], None).unwrap()
        });
    let map = first.execute(&[large.image()]).unwrap().remove(0);
    let large = Problem { template: templates[0].clone(), ..large };
    check("60x50", &map, &large.expected(), large.tolerance());
}
