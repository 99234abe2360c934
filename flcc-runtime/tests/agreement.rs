//! Every operation, type, extent, boundary, mask and method against the oracle, on shapes drawn from a fixed seed.

mod common;

use common::{Problem, Seed, check, planner};
use flcc_runtime::{Method, PlanError};

/// A random small spec of so many axes.
fn random_spec(seed: &mut Seed, axes: usize) -> String {
    let op = seed.pick(&["conv", "corr", "ncc", "zncc", "ssd", "nssd", "sad"]);
    let (image_type, template_type) = (seed.pick(&["u8", "u16", "f32", "f64"]), seed.pick(&["u8", "u16", "f32", "f64"]));
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
    format!("{op}:{image_type}/{template_type}{out}:{}*{}:{mode},{boundary}{mask}{channels}{accuracy}", join(&image), join(&template))
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
        match plan.execute(&[problem.image()], &[problem.template()], problem.mask().as_ref()) {
            Ok(mut maps) => {
                check(&name, &maps.remove(0), &problem.expected(), problem.tolerance());
                done += 1;
            }
            Err(error) => assert!(error.to_string().contains("all equal") || error.to_string().contains("not 0"), "{name}: {error}"),
        }
    }
    assert!(done > cases / 4, "{done} done, {refused} refused of {cases}");
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
