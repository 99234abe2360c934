//! Scores where the rounding of `pixel - offset` agrees with the template: images of few levels whose panel of interest
//! lies far from the tile's offset, and templates that are what the rounding errors have in common.
//!
//! `FLCC_PATTERNS=1000 cargo test --release -p flcc-runtime --test promises rounded_offsets -- --nocapture` searches so
//! many patterns of each spec and prints the largest share of the promise that each kind of kernel reached.

use std::collections::BTreeMap;

use super::common::{Seed, planner, platforms};
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::rooms::plan::solvers::SOLVERS;
use flcc_runtime::{AnyView, DType, Pixels, Plan, Spec};

/// An image that is even but for one panel, and the template that is most in favour of its rounding errors.
struct Pattern {
    image: Pixels,
    template: Pixels,
    /// The panel's number among the outputs.
    at: usize,
}

impl Pattern {
    fn new(spec: &Spec, seed: &mut Seed) -> Pattern {
        let narrow = |value: f64| if spec.image_type() == DType::F32 { f64::from(value as f32) } else { value };
        let count = spec.template().len();
        // The ground, and so the offset: just above a power of two, where differences of its size are rounded most. The
        // panel lies on the other side of 0, or near it.
        let ground = narrow(f64::from((1.0 + 0.4 * seed.unit()) as f32));
        let middle = -0.02 - 0.3 * seed.unit();
        // From what is surely in doubt to what is surely in none.
        let roundoff = f64::from(f32::EPSILON) / 2.0;
        let spread = 10f64.powf(0.6 + 1.8 * seed.unit()) * roundoff / (0.8e-5 * (count as f64).sqrt());
        let error = |level: f64| f64::from((level - ground) as f32) - (level - ground);
        let levels = 3 + seed.pick(&[0, 0, 0, 2, 30]);
        let levels: Vec<f64> = (0..levels)
            .map(|number| {
                let level = middle + spread * (2.0 * number as f64 / (levels - 1) as f64 - 1.0);
                // Of some numbers near it the one whose error is most of the wanted sign.
                let sign = if number % 2 == 0 { 1.0 } else { -1.0 };
                let near = |seed: &mut Seed| narrow(level + 0.1 * spread * seed.normal() / levels as f64);
                (0..100)
                    .map(|_| near(seed))
                    .max_by(|a, b| (sign * error(*a)).total_cmp(&(sign * error(*b))))
                    .expect("there are some")
            })
            .collect();
        let panel: Vec<f64> = (0..count).map(|_| seed.pick(&levels)).collect();
        // The errors less what they have in common with the panel.
        let centred = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / count as f64;
            values.into_iter().map(|value| value - mean).collect::<Vec<_>>()
        };
        let (varying, errors) = (centred(panel.clone()), centred(panel.iter().map(|&level| error(level)).collect()));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let share = dot(&varying, &errors) / dot(&varying, &varying);
        let taps: Vec<f64> =
            errors.iter().zip(&varying).map(|(error, varying)| (error - share * varying) / roundoff).collect();

        let (image_shape, [depth, height, width]) = (spec.image().padded(), spec.template().padded());
        let out = spec.out_shape().padded();
        let place = out.map(|length| seed.pick(&[0, length / 2, length - 1]));
        let mut image = vec![ground; spec.image().len()];
        for (k, &level) in panel.iter().enumerate() {
            let [z, y, x] = [k / (height * width), k / width % height, k % width];
            let row = (place[0] + z) * image_shape[1] + place[1] + y;
            image[row * image_shape[2] + place[2] + x] = level;
        }
        assert_eq!(depth * height * width, count);
        Pattern {
            image: Pixels::F64(image).cast(spec.image_type()),
            template: Pixels::F64(taps).cast(spec.template_type()),
            at: (place[0] * out[1] + place[1]) * out[2] + place[2],
        }
    }
}

/// All that is offered for a spec.
fn plans(spec: &Spec) -> Vec<Plan> {
    let of = |platform| {
        let planner = planner(1).platform(platform);
        let solvers = SOLVERS.iter().filter(|solver| solver.platform() == platform);
        let offers: Vec<_> =
            solvers.flat_map(|solver| solver.offers(spec, planner.machine()).unwrap_or_default()).collect();
        let plan = |kernel| planner.plan_with_kernel(spec, kernel).unwrap();
        offers.iter().map(|offer| plan(&offer.kernel)).collect::<Vec<_>>()
    };
    platforms().into_iter().flat_map(of).collect()
}

/// The words of a kernel's name, without sizes and instruction sets.
fn kind(plan: &Plan) -> String {
    let name = plan.kernel().to_string();
    let set = |word: &str| ["avx", "neon", "portable"].iter().any(|set| word.starts_with(set));
    let words = name.split('_').filter(|word| !set(word));
    let words = words.map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x'));
    words.filter(|word| !["", "t", "w", "n", "f"].contains(word)).collect::<Vec<_>>().join(" ")
}

#[test]
fn rounded_offsets_that_agree_with_a_template_keep_the_promise() {
    let patterns = std::env::var("FLCC_PATTERNS").ok().map(|text| text.parse::<usize>().unwrap());
    let mut seed = Seed(51);
    let mut largest: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    for text in [
        "zncc:f32:107x107*64x64:valid",
        "zncc:f32:148x148*80x80:valid",
        "zncc:f32:148x148*40x40:valid",
        "zncc:f32:60x61*24x20:valid",
        "zncc:f32:2000*300:valid",
        "zncc:f32:11045*2000:valid",
        "zncc:f32:28x28x28*12x12x12:valid",
        "zncc:f64/f32>f32:148x148*80x80:valid",
        "zncc:f64/f32>f32:7973*2000:valid",
        "nssd:f32:148x148*40x40:valid",
    ] {
        let spec: Spec = text.parse().unwrap();
        let plans = plans(&spec);
        for _ in 0..patterns.unwrap_or(10) {
            let Pattern { image, template, at } = Pattern::new(&spec, &mut seed);
            let image = AnyView::dense(&image, spec.image(), 1).unwrap();
            let template = AnyView::dense(&template, spec.template(), 1).unwrap();
            let expected = Oracle::new(&spec, &image, &template, None).unwrap().at(at);
            for plan in &plans {
                let got = plan.execute(&[image], &[template], None).unwrap().remove(0).get(at);
                let share = (got - expected).abs() / 1e-5;
                let (most, count) = largest.entry(kind(plan)).or_default();
                (*most, *count) = (most.max(share), *count + 1);
                let fine = patterns.is_some() || share <= 1.0;
                assert!(fine, "{spec} by {}: {got}, expected {expected}", plan.kernel());
            }
        }
    }
    for (kind, (most, count)) in &largest {
        println!("{most:.3} of the promise, of {count} panels, by {kind}");
    }
    assert!(largest.values().all(|(most, _)| *most <= 1.0));
}
