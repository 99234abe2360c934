//! Regions of results, from the samples of the image that they look at: bit for bit those of the whole result.

mod common;

use std::ops::Range;

use common::{Problem, Seed};
use flcc_runtime::rooms::plan::solvers::SOLVERS;
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

/// The samples of an image in some runs along each axis, run behind run.
fn cut(problem: &Problem, needs: &[Vec<Range<usize>>]) -> (Pixels, Shape) {
    let (spec, data) = (&problem.spec, problem.image.to_f64());
    let (image, missing) = (spec.image().padded(), 3 - needs.len());
    let at = |axis: usize| match axis.checked_sub(missing) {
        Some(axis) => needs[axis].iter().cloned().flatten().collect(),
        None => vec![0],
    };
    let [planes, rows, columns] = [0, 1, 2].map(at);
    let mut taken = Vec::new();
    for plane in &planes {
        for row in &rows {
            for column in &columns {
                let sample = (plane * image[1] + row) * image[2] + column;
                taken.extend_from_slice(&data[sample * spec.channels()..(sample + 1) * spec.channels()]);
            }
        }
    }
    let shape = spec.image().with_padded([planes.len(), rows.len(), columns.len()]).unwrap();
    (Pixels::F64(taken).cast(spec.image_type()), shape)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_region_is_a_part_of_the_whole_bit_for_bit(
        shape in prop::sample::select(&SHAPES[..]),
        mode in prop::sample::select(&["full", "same", "valid"][..]),
        boundary in prop::sample::select(&BOUNDARIES[..]),
        options in prop::sample::select(&OPTIONS[..]),
        (seed, threads, limit) in (0u64..10_000, 1usize..3, prop::bool::ANY),
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
        let bind = |spec: &Spec, limit| {
            let plan = planner(limit).plan_with_kernel(spec, kernel).unwrap();
            let matcher = plan.bind(&[problem.template()], problem.mask().as_ref().map(|mask| mask as _)).unwrap();
            (plan, matcher)
        };
        // A limit may be short for the whole alone, which then takes a way of less memory and of other bits.
        let [all, part] = [&problem.spec, &spec].map(|spec| bind(spec, limit).1.short_of_memory());
        let limit = limit.filter(|_| all == part);
        let whole = bits(problem.run(&bind(&problem.spec, limit).0).data());
        let (_, matcher) = bind(&spec, limit);
        let regions = matcher.regions().unwrap();
        let mut scratch = matcher.make_scratch();
        // Along each axis from a seam to a seam, or from anywhere to anywhere; often to the last position.
        let lengths = spec.out_shape().lengths().to_vec();
        let mut region = Vec::new();
        for (axis, length) in lengths.iter().enumerate() {
            let (aligned, last) = (seed.below(2) == 0, seed.below(3) == 0);
            let seam = |number| if aligned { regions.seam(axis, number) } else { number };
            let count = if aligned { regions.count(axis) } else { *length };
            let begin = if last { count - 1 } else { seed.below(count) };
            region.push(seam(begin)..seam(begin + 1 + seed.below(count - begin)));
        }
        let mut needs = regions.needs(&region).unwrap();
        for (runs, length) in needs.iter_mut().zip(spec.image().lengths()) {
            // All of an axis serves as well.
            if seed.below(4) == 0 {
                *runs = std::iter::once(0..*length).collect();
            }
        }
        let (image, there) = cut(&problem, &needs);
        let result = Shape::new(&region.iter().map(Range::len).collect::<Vec<_>>()).unwrap();
        let mut single = vec![0.0f32; result.len()];
        let mut double = vec![0.0f64; result.len()];
        let view: AnyViewMut<'_> = match spec.out_type() {
            DType::F64 => ViewMut::new(&mut double, result).unwrap().into(),
            _ => ViewMut::new(&mut single, result).unwrap().into(),
        };
        let image = AnyView::dense(&image, there, spec.channels()).unwrap();
        regions.execute_into(&region, &image, &mut [view], &mut scratch, &Control::default()).unwrap();
        let got = bits(&if spec.out_type() == DType::F64 { Pixels::F64(double) } else { Pixels::F32(single) });
        // Where the region lies in the whole result.
        let mut first = [0, 1, 2].map(|k| spec.region().origin[k] - problem.spec.region().origin[k]);
        for (axis, range) in region.iter().enumerate() {
            first[axis + 3 - region.len()] += range.start;
        }
        let whole_lengths = problem.spec.out_shape().padded();
        for (index, bits) in got.into_iter().enumerate() {
            let at = result.position(index);
            let at = [0, 1, 2].map(|k| at[k] + first[k]);
            let there = (at[0] * whole_lengths[1] + at[1]) * whole_lengths[2] + at[2];
            prop_assert_eq!(bits, whole[there], "{} by {} at {:?}, region {:?}", spec, kernel, at, region);
        }
    }
}

#[test]
fn what_is_no_region_is_refused() {
    let problem = Problem::new("corr:f32:300x40*5x6:valid", 1);
    let matcher = Planner::new().unwrap().plan(&problem.spec).unwrap().bind(&[problem.template()], None).unwrap();
    let regions = matcher.regions().unwrap();
    let one = 0..1;
    let row = std::slice::from_ref(&one);
    for region in [&[0..0, 0..35][..], &[0..297, 0..35], row, &[0..1, 0..1, 0..1]] {
        let line = regions.needs(region).unwrap_err().to_string();
        assert!(
            line.starts_with("region: expected a range of one position or more along each axis of 296x35"),
            "{line}"
        );
    }
    let mut scratch = matcher.make_scratch();
    let region = [0..10, 3..9];
    let needs = regions.needs(&region).unwrap();
    let part = |rows: usize| problem.image().part([0, 0, 0], Shape::new(&[rows, needs[1][0].len()]).unwrap()).unwrap();
    let rows = needs[0][0].len();
    let short = part(rows - 1);
    let line = regions.execute_into(&region, &short, &mut [], &mut scratch, &Control::default()).unwrap_err();
    assert!(line.to_string().starts_with("image: expected f32 "), "{line}");
    let line = regions.execute_into(&region, &part(rows), &mut [], &mut scratch, &Control::default()).unwrap_err();
    assert!(line.to_string().starts_with("outs: expected 1 of f32 10x6"), "{line}");
}

/// What of a result some regions cover, and how often.
fn covered(shape: Shape, regions: &[Vec<Range<usize>>]) -> Vec<usize> {
    let mut count = vec![0; shape.len()];
    for (index, count) in count.iter_mut().enumerate() {
        let at = shape.unpad(&shape.position(index));
        *count = regions.iter().filter(|region| region.iter().zip(&at).all(|(range, at)| range.contains(at))).count();
    }
    count
}

#[test]
fn a_grid_covers_the_result_once_within_the_memory() {
    for text in ["zncc:u8:300x400*9x8:same,reflect", "corr:f32:40000*70:full,wrap", "ssd:f64:40x50x60*3x4x5:valid"] {
        let spec: Spec = text.parse().unwrap();
        let plan = Planner::new().unwrap().plan(&spec).unwrap();
        let least = |limit| plan.grid(limit).map(|regions| regions.len());
        let whole = plan.scratch_bytes() + plan.template_bytes() + 3 * 8 * spec.out_shape().len();
        assert_eq!(least(whole).unwrap(), 1, "{text}");
        let line = least(1).unwrap_err().to_string();
        let needed = line.strip_prefix("memory_limit: expected ").and_then(|rest| rest.split(' ').next()).unwrap();
        let regions = plan.grid(needed.parse().unwrap()).unwrap();
        let tiles: usize = (0..spec.image().axes()).map(|axis| plan.seams(axis).unwrap().len() - 1).product();
        assert_eq!(regions.len(), tiles, "{text}");
        assert!(covered(spec.out_shape(), &regions).into_iter().all(|count| count == 1), "{text}");
        assert_eq!(plan.seams(3).unwrap_err().argument, "axis");
    }
}

#[test]
fn the_edge_of_a_long_signal_is_found_without_a_walk_over_it() {
    // Walks over 2^40 samples would not end.
    let spec: Spec = "corr:f32:1099511627776*9:full,mirror".parse().unwrap();
    let planner = Planner::new().unwrap().method("direct".parse().unwrap());
    let template = vec![1.0f32; 9];
    let template: AnyView<'_> = flcc_runtime::View::new(&template, Shape::new(&[9]).unwrap()).unwrap().into();
    let matcher = planner.plan(&spec).unwrap().bind(&[template], None).unwrap();
    let regions = matcher.regions().unwrap();
    let count = regions.count(0);
    for number in [0, 1, count / 2, count - 1] {
        let from = regions.seam(0, number);
        let needs = regions.needs(std::slice::from_ref(&(from..regions.seam(0, count)))).unwrap();
        assert_eq!(needs[0].len(), 1);
        // The last samples are looked at from the other side as well.
        assert_eq!(needs[0][0], from.saturating_sub(8).min((1 << 40) - 9)..1 << 40);
    }
}
