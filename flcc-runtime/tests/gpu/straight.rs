//! Correlation and zncc by one kernel from the image to the result: correlation by the pipeline where samples are
//! extraordinary, zncc panel by panel.

use flcc_generated::kernels;
use flcc_runtime::{Method, Pixels, Plan, Region, Shape};

use super::common::{Problem, Seed, check};
use super::{device, gpu, seed};

const SPECS: [&str; 12] = [
    "corr:f32:301x403*3x3:full",
    "corr:f32:300x404*8x8:same,reflect",
    "corr:f32:300x400*11x11:valid",
    "conv:f32:200x333*16x16:full,wrap",
    "corr:f32:64x2000*32x32:same,mirror",
    "corr:f32:90x100*5x5:full,constant(2.5)",
    "corr:f32:100000*64:full,replicate",
    "corr:f32:30x50x70*5x5x5:full",
    "corr:f32:40x41x42*8x8x8:valid",
    "corr:f64:200x300*7x7:full,reflect",
    "conv:f64:20x30x40*3x3x3:same",
    "corr:f64:5000*33:valid",
];

/// By transforms of tiles.
const TILES: [&str; 8] = [
    "corr:f32:301x403*16x16:full",
    "corr:f32:700x804*32x32:same,reflect",
    "corr:f32:300x400*21x11:valid",
    "conv:f32:600x733*64x40:full,wrap",
    "corr:f32:264x2000*32x32:same,mirror",
    "corr:f32:290x300*10x25:full,constant(2.5)",
    "conv:f32:1500x90*76x76:full,replicate",
    "corr:f32:500x20*24x19:full",
];

/// By transforms of stretches of signals.
const LINES: [&str; 6] = [
    "corr:f32:100000*100:full",
    "conv:f32:50000*1500:same,reflect",
    "corr:f32:70001*5000:valid",
    "corr:f32:3000*90:full,constant(2.5)",
    "conv:f32:20000*700:full,wrap",
    "corr:f32:500*300:full,mirror",
];

/// By a library's transforms of the whole image.
const WHOLE: [&str; 10] = [
    "corr:f32:200x303*128x130:full",
    "conv:f32:300x404*140x20:same,reflect",
    "corr:f32:300x200*130x127:valid",
    "conv:f32:190x200*21x150:full,constant(2.5)",
    "corr:f32:140x150*130x129:same",
    "corr:f32:20x31x40*8x8x9:full",
    "conv:f32:30x20x25*7x6x5:same,mirror",
    "corr:f32:30000*20000:full",
    "conv:f32:32x20*300x140:same",
    "corr:f32:16x40*147x60:same,constant(2.5)",
];

/// By products of lines.
const LINES_OF_TAPS: [&str; 6] = [
    "corr:f32:301x403*12x12:full",
    "corr:f32:300x404*21x9:same,reflect",
    "corr:f32:300x400*5x11:valid",
    "conv:f64:200x233*10x25:full,wrap",
    "corr:f32:90x100*17x8:full,constant(2.5)",
    "conv:f32:150x90*36x7:full,replicate",
];

/// Scores.
const SCORES: [&str; 12] = [
    "zncc:f32:301x403*3x3:full",
    "zncc:f32:300x404*8x8:same,reflect",
    "zncc:f32:200x333*16x16:full,wrap",
    "zncc:f32:90x100*5x5:full,constant(2.5)",
    "zncc:f32:100000*64:full,replicate",
    "zncc:f32:30x50x70*5x5x5:full",
    "zncc:u8:301x404*8x8:full,mirror",
    "zncc:u8/f32:120x140*7x7:same,constant(1.5)",
    "zncc:u8:20x30x40*3x3x3:same,wrap",
    "zncc:u16:120x140*9x9:full,reflect",
    "zncc:f64:200x300*7x7:full,reflect",
    "zncc:f64:5000*33:valid",
];

/// Scores by transforms of tiles.
const TILE_SCORES: [&str; 13] = [
    "zncc:f32:301x403*16x16:full",
    "zncc:f32:700x804*32x32:same,reflect",
    "zncc:f32:300x400*21x11:valid",
    "zncc:f32:600x733*64x40:full,wrap",
    "zncc:f32:290x300*10x25:full,constant(2.5)",
    "zncc:f32:500x90*76x76:full,replicate",
    "zncc:u8:264x500*32x32:same,mirror",
    "zncc:u8:301x403*17x19:full",
    "zncc:u8/f32:290x300*12x14:full,constant(2.5)",
    "zncc:u16:300x400*24x19:full",
    "zncc:f32:33x60x70*5x8x6:full",
    "zncc:f32:40x50x37*8x5x9:valid",
    "zncc:u16:20x50x44*3x7x9:same,reflect",
];

/// Scores, each with its method.
fn scores() -> impl Iterator<Item = (&'static str, Method)> {
    let tiles = TILE_SCORES.map(|text| (text, Method::Fourier));
    SCORES.map(|text| (text, Method::Direct)).into_iter().chain(tiles)
}

/// Sums, each with its method.
fn sums() -> impl Iterator<Item = (&'static str, Method)> {
    let transformed = TILES.into_iter().chain(LINES).chain(WHOLE).map(|text| (text, Method::Fourier));
    let lines = LINES_OF_TAPS.into_iter().map(|text| (text, Method::Separable));
    SPECS.map(|text| (text, Method::Direct)).into_iter().chain(transformed).chain(lines)
}

/// A plan that goes from the image to the result in one kernel: the choice if it is one, whatever others would cost.
fn straight(problem: &Problem, method: Method) -> Plan {
    let (planner, spec) = (gpu(method), &problem.spec);
    let serves = |plan: &Plan| plan.explain().contains("from the image to the result");
    let chosen = problem.plan(&planner).unwrap();
    if serves(&chosen) {
        return chosen;
    }
    let names = kernels().iter().map(|entry| entry.name.parse().unwrap());
    let mut others = names.filter_map(|name| planner.plan_with_kernel(spec, &name).ok()).filter(serves);
    others.next().unwrap_or_else(|| panic!("{spec}: {}", chosen.explain()))
}

/// Blocks decide about their scores by themselves, so a region is the slice of the whole bit for bit.
#[test]
fn a_region_of_scores_is_a_part_of_the_whole() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for (text, method) in scores() {
        let whole = Problem::new(text, seed.bits());
        let plan = straight(&whole, method);
        let all = whole.run(&plan).data().to_f64();
        let region = whole.spec.mode_region();
        let shape = region.shape.padded();
        let from = shape.map(|side| seed.below(side));
        let sides = [0, 1, 2].map(|axis| 1 + seed.below(shape[axis] - from[axis]));
        let part = Region {
            origin: [0, 1, 2].map(|axis| region.origin[axis] + from[axis]),
            shape: Shape::new(&sides[3 - region.shape.axes()..]).unwrap(),
        };
        let part = Problem { spec: whole.spec.clone().with_roi(Some(part)).unwrap(), ..whole };
        let text = part.spec.to_string();
        let plan = gpu(method).plan_with_kernel(&part.spec, plan.kernel());
        let plan = plan.unwrap_or_else(|error| panic!("{text}: {error}"));
        let got = part.run(&plan).data().to_f64();
        for (index, got) in got.iter().enumerate() {
            let at = [index / sides[2] / sides[1], index / sides[2] % sides[1], index % sides[2]];
            let [z, y, x] = [0, 1, 2].map(|axis| from[axis] + at[axis]);
            let wanted = all[(z * shape[1] + y) * shape[2] + x];
            assert!(got.to_bits() == wanted.to_bits(), "{text} at {index}: {got}, not {wanted}");
        }
    }
}

/// Samples that are no numbers, or larger or fainter than sums in f32 hold.
#[test]
fn extraordinary_samples_change_the_scores_that_they_are_in() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for (text, method) in scores().filter(|(text, _)| text.contains(":f")) {
        let mut problem = Problem::new(text, seed.bits());
        let mut values = problem.image.to_f64();
        let count = values.len();
        for (at, special) in [(count / 2, f64::NAN), (count / 3, f64::INFINITY), (count / 4, 1e30)] {
            values[at] = special;
        }
        values[count / 5 * 4..].iter_mut().for_each(|value| *value *= 1e-25);
        problem.image = Pixels::F64(values).cast(problem.spec.image_type());
        let plan = straight(&problem, method);
        check(text, &problem.run(&plan), &problem.expected(), problem.tolerance());
    }
}

#[test]
fn from_the_image_to_the_result() {
    let Some(_device) = device() else { return };
    let start = seed();
    for (text, method) in sums().chain(scores()) {
        let problem = Problem::new(text, start);
        check(text, &problem.run(&straight(&problem, method)), &problem.expected(), problem.tolerance());
    }
}

/// What the pipeline computes for images with an extraordinary sample are the same bits wherever it does not reach.
#[test]
fn a_sample_that_is_no_number_changes_no_other_bit() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for (text, method) in sums() {
        let mut problem = Problem::new(text, seed.bits());
        let plan = straight(&problem, method);
        let before = problem.run(&plan).data().to_f64();
        let mut values = problem.image.to_f64();
        let at = seed.below(values.len());
        let count = values.len();
        for special in [f64::NAN, f64::INFINITY, 1e15, 1e30] {
            values[at] = special;
            problem.image = Pixels::F64(values.clone()).cast(problem.spec.image_type());
            let after = problem.run(&plan).data().to_f64();
            // Of a finite one the results that it is in tell it: they are far from what they were.
            let same = before.iter().zip(&after).filter(|(before, after)| before.to_bits() == after.to_bits()).count();
            let taps = problem.spec.template().len();
            // A fold of the boundary brings a sample to several places, and transforms meet it in all of two tiles.
            let most = if method == Method::Fourier { 8 * 128 * 128 } else { 8 * taps };
            // Of a transform of the whole image, which tiles are computed instead of, in all of it.
            let most = if WHOLE.contains(&text) { after.len() } else { most };
            assert!(same + most >= after.len() && same < after.len(), "{text}, {special} at {at} of {count}: {same}");
            // By transforms alone a whole tile would be none.
            let lost = after.iter().filter(|value| !value.is_finite()).count();
            let none = special.is_finite() || lost > 0;
            assert!(none && lost <= 8 * taps, "{text}, {special} at {at} of {count}: {lost} are no numbers");
        }
    }
}
