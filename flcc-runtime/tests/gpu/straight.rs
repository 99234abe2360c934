//! Correlation by one kernel from the image to the result, and by the pipeline where samples are extraordinary.

use flcc_runtime::{Method, Pixels};

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

#[test]
fn from_the_image_to_the_result() {
    let Some(_device) = device() else { return };
    let start = seed();
    for text in SPECS {
        let problem = Problem::new(text, start);
        let plan = problem.plan(&gpu(Method::Direct)).unwrap();
        assert!(plan.explain().contains("from the image to the result"), "{text}: {}", plan.explain());
        check(text, &problem.run(&plan), &problem.expected(), problem.tolerance());
    }
}

/// What the pipeline computes for images with an extraordinary sample are the same bits wherever it does not reach.
#[test]
fn a_sample_that_is_no_number_changes_no_other_bit() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for text in SPECS {
        let mut problem = Problem::new(text, seed.bits());
        let plan = problem.plan(&gpu(Method::Direct)).unwrap();
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
            // A fold of the boundary brings a sample to several places.
            let most = 8 * taps;
            assert!(same + most >= after.len() && same < after.len(), "{text}, {special} at {at} of {count}: {same}");
        }
    }
}
