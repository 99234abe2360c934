//! Bands of results, from the slices of the image that they look at: bit for bit those of the whole result.

mod common;

use common::{Problem, Seed};
use flcc_runtime::plan::solvers::SOLVERS;
use flcc_runtime::{AnyView, AnyViewMut, Control, DType, Machine, Pixels, Planner, Platform, Shape, Spec, ViewMut};
use proptest::prelude::*;

/// What of a problem varies beside its mode and boundary: an operation, types and shapes.
const SHAPES: [&str; 14] = [
    "corr:f32:300x40*5x6",
    "corr:f32:500x30*33x7",
    "conv:u8:200x50*3x4",
    "corr:f64:120x40*9x30",
    "zncc:f32:300x60*8x9",
    "zncc:u16:260x45*16x16",
    "zncc:u8:150x80*40x31",
    "ncc:f64>f32:90x30*4x5",
    "ssd:f32:40x20x20*3x4x5",
    "zncc:u16:50x24x26*9x8x7",
    "corr:f32:60x20x22*5x4x3",
    "sad:u8:40x18x16*3x3x3",
    "zncc:f32:40000*70",
    "corr:u16:30000*900",
];

const OPTIONS: [&str; 5] = ["", "", ",acc=fast", ",channels=3", ",maskw"];
const BOUNDARIES: [&str; 6] = ["zero", "constant(7.5)", "replicate", "reflect", "mirror", "wrap"];

/// The bits of samples; what is no number has many, of which none is promised.
fn bits(pixels: &Pixels) -> Vec<u64> {
    pixels.to_f64().into_iter().map(|value| if value.is_nan() { u64::MAX } else { value.to_bits() }).collect()
}

/// Slices of samples along the axis of an image, run behind run.
fn cut(problem: &Problem, axis: usize, runs: &[std::ops::Range<usize>]) -> (Pixels, Shape) {
    let (spec, data) = (&problem.spec, problem.image.to_f64());
    let lengths = spec.image().lengths().to_vec();
    let below = lengths[axis + 1..].iter().product::<usize>() * spec.channels();
    let mut taken = Vec::new();
    for before in 0..lengths[..axis].iter().product() {
        for run in runs {
            let base = before * lengths[axis];
            taken.extend_from_slice(&data[(base + run.start) * below..(base + run.end) * below]);
        }
    }
    let mut shape = lengths;
    shape[axis] = runs.iter().map(std::ops::Range::len).sum();
    (Pixels::F64(taken).cast(spec.image_type()), Shape::new(&shape).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn a_band_is_a_slice_of_the_whole_bit_for_bit(
        shape in prop::sample::select(&SHAPES[..]),
        mode in prop::sample::select(&["full", "same", "valid"][..]),
        boundary in prop::sample::select(&BOUNDARIES[..]),
        options in prop::sample::select(&OPTIONS[..]),
        (seed, threads, part, limit) in (0u64..10_000, 1usize..3, 0usize..3, prop::bool::ANY),
        (broken, roi) in (prop::bool::ANY, prop::bool::ANY),
    ) {
        let text = format!("{shape}:{mode},{boundary}{options}");
        prop_assume!(text.parse::<Spec>().is_ok());
        let mut problem = Problem::new(&text, seed);
        let mut seed = Seed(seed + 1);
        if broken && problem.spec.image_type().row().max.is_none() {
            // What is no number, what is huge, and what is the same everywhere, each somewhere.
            let mut values = problem.image.to_f64();
            let count = values.len();
            let at = seed.below(count);
            values[at] = f64::NAN;
            let at = seed.below(count);
            values[at] = 1e30;
            let at = seed.below(count);
            values[at..(at + count / 8).min(count)].fill(5.0);
            problem.image = Pixels::F64(values).cast(problem.spec.image_type());
        }
        let machine = Machine::detect().unwrap();
        let solvers = SOLVERS.iter().filter(|solver| solver.platform() == Platform::Cpu);
        let offers: Vec<_> =
            solvers.flat_map(|solver| solver.offers(&problem.spec, &machine).into_iter().flatten()).collect();
        let kernel = &offers[seed.below(offers.len())].kernel;
        let limit = limit.then_some(1 << 20);
        let planner = |limit| Planner::with_machine(machine.clone()).threads(threads).memory_limit(limit);
        // Where memory is too short there is nothing to compare.
        let limit = limit.filter(|_| planner(limit).plan_with_kernel(&problem.spec, kernel).is_ok());
        let plan = planner(limit).plan_with_kernel(&problem.spec, kernel).unwrap();
        let whole = bits(problem.run(&plan).data());
        let lengths = problem.spec.out_shape().padded();
        let spec = if roi {
            let region = problem.spec.region();
            let mut within = lengths;
            let mut origin = region.origin;
            for axis in 0..3 {
                let begin = seed.below(lengths[axis]);
                (origin[axis], within[axis]) = (origin[axis] + begin, seed.below(lengths[axis] - begin) + 1);
            }
            let shape = problem.spec.out_shape().with_padded(within).unwrap();
            problem.spec.clone().with_roi(Some(flcc_runtime::Region { origin, shape })).unwrap()
        } else {
            problem.spec.clone()
        };
        let plan = planner(limit).plan_with_kernel(&spec, kernel).unwrap();
        let matcher = plan.bind(&[problem.template()], problem.mask().as_ref()).unwrap();
        let bands = matcher.bands().unwrap();
        let (seams, axis) = (bands.seams(), bands.axis());
        let mut scratch = matcher.make_scratch();
        // Some bands, the last among them.
        let begin = if part == 0 { seams.len() - 2 } else { seed.below(seams.len() - 1) };
        let band = begin..begin + 1 + seed.below(seams.len() - 1 - begin);
        let (image, there) = cut(&problem, axis, &bands.slices(band.clone()).unwrap());
        let mut lengths = spec.out_shape().lengths().to_vec();
        lengths[axis] = seams[band.end] - seams[band.start];
        let result = Shape::new(&lengths).unwrap();
        let mut single = vec![0.0f32; result.len()];
        let mut double = vec![0.0f64; result.len()];
        let view: AnyViewMut<'_> = match spec.out_type() {
            DType::F64 => ViewMut::new(&mut double, result).unwrap().into(),
            _ => ViewMut::new(&mut single, result).unwrap().into(),
        };
        let image = AnyView::dense(&image, there, spec.channels()).unwrap();
        bands.execute_into(band.clone(), &image, &mut [view], &mut scratch, &Control::default()).unwrap();
        let got = bits(&if spec.out_type() == DType::F64 { Pixels::F64(double) } else { Pixels::F32(single) });
        // Where the band lies in the whole result.
        let mut first = [0, 1, 2].map(|k| spec.region().origin[k] - problem.spec.region().origin[k]);
        first[axis + 3 - spec.image().axes()] += seams[band.start];
        let whole_lengths = problem.spec.out_shape().padded();
        for (index, bits) in got.into_iter().enumerate() {
            let at = result.position(index);
            let at = [0, 1, 2].map(|k| at[k] + first[k]);
            let there = (at[0] * whole_lengths[1] + at[1]) * whole_lengths[2] + at[2];
            prop_assert_eq!(bits, whole[there], "{} by {} at {:?}, band {:?} of {:?}", spec, kernel, at, band, seams);
        }
    }
}

#[test]
fn what_is_no_band_is_refused() {
    let problem = Problem::new("corr:f32:300x40*5x6:valid", 1);
    let matcher = Planner::new().unwrap().plan(&problem.spec).unwrap().bind(&[problem.template()], None).unwrap();
    let bands = matcher.bands().unwrap();
    let last = bands.seams().len() - 1;
    for band in [0..0, 0..last + 1, last..last + 1] {
        let line = bands.slices(band).unwrap_err().to_string();
        assert!(line.starts_with("band: expected a band from a seam to a later one of "), "{line}");
    }
    let mut scratch = matcher.make_scratch();
    let slices = bands.slices(0..1).unwrap().remove(0);
    let short = problem.image().part([0, 0, 0], Shape::new(&[slices.len() - 1, 40]).unwrap()).unwrap();
    let line = bands.execute_into(0..1, &short, &mut [], &mut scratch, &Control::default()).unwrap_err().to_string();
    assert!(line.starts_with("image: expected f32 "), "{line}");
    let there = problem.image().part([0, 0, 0], Shape::new(&[slices.len(), 40]).unwrap()).unwrap();
    let line = bands.execute_into(0..1, &there, &mut [], &mut scratch, &Control::default()).unwrap_err().to_string();
    assert!(line.starts_with("outs: expected 1 of f32 "), "{line}");
}
