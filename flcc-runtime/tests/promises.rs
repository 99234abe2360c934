//! The first promise, *never wrong*: where OpenCV and scikit-image fail, on every method, with one and two threads, and
//! on a GPU where there is one.

#[path = "promises/agreeing.rs"]
mod agreeing;
#[path = "promises/centring.rs"]
mod centring;
mod common;
#[path = "promises/sums.rs"]
mod sums;

use common::{Seed, check, planner, platforms};
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{
    AnyView, Control, DType, Effort, Machine, Method, PeakOptions, Pixel, Pixels, PlanError, Planner, Platform,
    ScoreMap, Shape, Spec, View, ViewMut, find_peaks,
};

const METHODS: [Method; 4] = [Method::Auto, Method::Direct, Method::Fourier, Method::Separable];

fn shape(lengths: &[usize]) -> Shape {
    Shape::new(lengths).unwrap()
}

/// Runs a spec on an image with a template cut out of it, by every method with 1 and 2 threads.
fn every_way(spec: &str, image: &Pixels, template: &Pixels, see: impl FnMut(&str, &ScoreMap)) {
    every_way_under(spec, image, template, None, see);
}

/// The same with a mask.
fn every_way_under(
    spec: &str,
    image: &Pixels,
    template: &Pixels,
    mask: Option<&Pixels>,
    mut see: impl FnMut(&str, &ScoreMap),
) {
    let spec: Spec = spec.parse().unwrap();
    let image = AnyView::dense(image, spec.image(), spec.channels()).unwrap();
    let template = AnyView::dense(template, spec.template(), spec.channels()).unwrap();
    let mask = mask.map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
    for platform in platforms() {
        for (method, threads) in METHODS.into_iter().flat_map(|method| [(method, 1), (method, 2)]) {
            if platform == Platform::Cuda && threads > 1 {
                continue;
            }
            match planner(threads).platform(platform).method(method).plan(&spec) {
                Ok(plan) => {
                    let map =
                        plan.execute(&[image], &[template], mask.as_ref().map(|mask| mask as _)).unwrap().remove(0);
                    see(&format!("{spec} by {} on {threads} threads", plan.kernel()), &map);
                }
                Err(PlanError::Refused(refusal)) => {
                    let separable = method == Method::Separable;
                    let differences = method == Method::Fourier && refusal.reason.contains("sad is no sum of products");
                    assert!(separable || differences, "{spec} by {method}: {refusal}");
                }
                Err(error) => panic!("{spec}: {error}"),
            }
        }
    }
}

fn expected(spec: &str, image: &Pixels, template: &Pixels) -> Vec<f64> {
    expected_under(spec, image, template, None)
}

fn expected_under(spec: &str, image: &Pixels, template: &Pixels, mask: Option<&Pixels>) -> Vec<f64> {
    let spec: Spec = spec.parse().unwrap();
    let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
    let mask = mask.map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
    Oracle::new(&spec, &view(image, spec.image()), &view(template, spec.template()), mask.as_ref()).unwrap().all()
}

/// An image of whole numbers with a mean and a standard deviation.
fn whole_numbers(seed: &mut Seed, count: usize, mean: f64, sd: f64) -> Pixels {
    Pixels::F32((0..count).map(|_| (mean + sd * seed.normal()).round() as f32).collect())
}

fn cut(image: &Pixels, from: Shape, origin: [usize; 3], part: Shape) -> Pixels {
    let view = AnyView::dense(image, from, 1).unwrap().part(origin, part).unwrap();
    Pixels::F64(view.to_f64()).cast(image.dtype())
}

#[test]
fn large_means_find_the_right_place() {
    for (mean, sd) in [(128.0, 20.0), (1000.0, 1.0), (32768.0, 100.0), (32768.0, 10.0), (60000.0, 1.0)] {
        let image = whole_numbers(&mut Seed(7), 300 * 300, mean, sd);
        let template = cut(&image, shape(&[300, 300]), [0, 117, 203], shape(&[24, 24]));
        let spec = "zncc:f32:300x300*24x24:valid";
        let expected = expected(spec, &image, &template);
        every_way(spec, &image, &template, |name, map| {
            check(&format!("{name}, mean {mean} sd {sd}"), map, &expected, 1e-5);
            let best = &find_peaks(map, &PeakOptions { top: Some(1), ..PeakOptions::default() })[0];
            assert_eq!(best.position, [117, 203], "{name}, mean {mean} sd {sd}");
        });
    }
}

#[test]
fn a_nan_pixel_changes_exactly_the_panels_that_touch_it() {
    let image = whole_numbers(&mut Seed(8), 90 * 80, 100.0, 20.0);
    let template = cut(&image, shape(&[90, 80]), [0, 10, 20], shape(&[9, 7]));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for op in ["zncc", "ncc", "ssd", "nssd", "corr"] {
            let spec = format!("{op}:f32:90x80*9x7:same,reflect");
            let clean = expected(&spec, &image, &template);
            let mut spoilt = image.clone();
            let Pixels::F32(samples) = &mut spoilt else { unreachable!() };
            samples[45 * 80 + 33] = bad;
            let dirty = expected(&spec, &spoilt, &template);
            let touched = dirty.iter().filter(|value| value.is_nan()).count();
            assert_eq!(touched, 9 * 7);
            let tolerance = if op == "corr" || op == "ssd" { 30.0 } else { 1e-5 };
            every_way(&spec, &spoilt, &template, |name, map| {
                check(name, map, &dirty, tolerance);
                for (index, value) in clean.iter().enumerate().filter(|(index, _)| !dirty[*index].is_nan()) {
                    assert!((map.get(index) - value).abs() <= tolerance, "{name}");
                }
            });
        }
    }
}

/// Long enough that some tiles are computed from the image's samples to the result's, and some, at the ends and at a
/// NaN, are not.
#[test]
fn long_lines_agree_with_the_oracle() {
    for (op, mean, tolerance) in [("corr", 0.0, 0.05), ("conv", 0.0, 0.05), ("zncc", 1000.0, 1e-5)] {
        for mode in ["valid", "same,reflect"] {
            let spec = format!("{op}:f32:40000*65:{mode}");
            let mut image = whole_numbers(&mut Seed(21), 40_000, mean, 20.0);
            let template = cut(&image, shape(&[40_000]), [0, 0, 777], shape(&[65]));
            for bad in [None, Some(f32::NAN)] {
                let Pixels::F32(samples) = &mut image else { unreachable!() };
                samples[12_345] = bad.unwrap_or(samples[12_345]);
                let expected = expected(&spec, &image, &template);
                assert_eq!(expected.iter().filter(|value| value.is_nan()).count(), if bad.is_some() { 65 } else { 0 });
                every_way(&spec, &image, &template, |name, map| {
                    check(name, map, &expected, tolerance);
                });
            }
        }
    }
}

#[test]
fn constant_panels_are_zero() {
    for (level, dtype) in
        [(0.1, DType::F32), (65535.0, DType::F32), (1e-30, DType::F32), (255.0, DType::U8), (1e6, DType::F64)]
    {
        let mut seed = Seed(9);
        let mut values = vec![level; 64 * 64];
        for y in 0..64 {
            for x in 32..64 {
                values[y * 64 + x] =
                    if dtype == DType::U8 { seed.below(256) as f64 } else { level * (1.0 + seed.unit()) };
            }
        }
        let image = Pixels::F64(values).cast(dtype);
        let template = cut(&image, shape(&[64, 64]), [0, 30, 40], shape(&[8, 8]));
        let spec = format!("zncc:{dtype}>f32:64x64*8x8:valid");
        let expected = expected(&spec, &image, &template);
        every_way(&spec, &image, &template, |name, map| {
            check(name, map, &expected, 1e-5);
            for index in (0..map.shape().len()).filter(|index| index % 57 <= 24) {
                assert_eq!(map.get(index).to_bits(), 0f64.to_bits(), "{name} at {index}");
            }
        });
    }
}

#[test]
fn saturated_bytes_have_exact_sums() {
    for side in [181usize, 182, 257, 258] {
        let length = side + 6;
        let image = Pixels::U8(vec![255; length * length]);
        let template = Pixels::U8(vec![255; side * side]);
        let exact = (side * side) as f64 * 255.0 * 255.0;
        for out in ["f64", "f32"] {
            let spec: Spec = format!("corr:u8>{out}:{length}x{length}*{side}x{side}:valid").parse().unwrap();
            let methods = [Method::Auto, Method::Direct, Method::Fourier];
            for (platform, method) in
                platforms().into_iter().flat_map(|platform| methods.map(|method| (platform, method)))
            {
                let plan = planner(2).platform(platform).method(method).plan(&spec).unwrap();
                let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
                let map = plan
                    .execute(&[view(&image, spec.image())], &[view(&template, spec.template())], None)
                    .unwrap()
                    .remove(0);
                let wanted = if out == "f32" { f64::from(exact as f32) } else { exact };
                assert!(
                    (0..map.shape().len()).all(|index| map.get(index) == wanted),
                    "{spec} by {}: {}",
                    plan.kernel(),
                    map.get(0)
                );
            }
        }
    }
}

#[test]
fn exact_integers_are_the_same_bits_by_every_method() {
    for spec in [
        "zncc:u8:70x61*9x11:full,acc=exact",
        "zncc:u16:70x61*9x11:same,reflect,acc=exact",
        "ncc:u8:70x61*9x11:valid,acc=exact",
        "nssd:u16:50x61*9x11:valid,mask01,acc=exact",
        "ssd:u8:70x61*9x11:full,constant(7.0),acc=exact",
        "corr:u16>f64:40x41*9x11:full,wrap,acc=exact",
        "zncc:u8:20x19x18*3x4x5:valid,acc=exact",
        "zncc:u8:500*32:valid,mask01,acc=exact",
    ] {
        let problem = common::Problem::new(spec, 11);
        let methods = [Method::Auto, Method::Direct, Method::Fourier];
        let run = |(platform, method)| {
            let plan = planner(2).platform(platform).method(method).plan(&problem.spec);
            problem.run(&plan.unwrap_or_else(|error| panic!("{spec}: {error}")))
        };
        let maps: Vec<ScoreMap> =
            platforms().into_iter().flat_map(|platform| methods.map(|method| run((platform, method)))).collect();
        assert!(maps.iter().all(|map| map.data() == maps[0].data()), "{spec}");
        check(spec, &maps[0], &problem.expected(), problem.tolerance());
    }
}

/// The adversarial images: a huge step, a ramp, one huge pixel, half of the image constant, extreme amplitudes.
#[test]
fn adversarial_images_keep_the_promise() {
    let side = 96usize;
    let mut seed = Seed(12);
    let mut noise = |sd: f64| -> Vec<f64> { (0..side * side).map(|_| sd * seed.normal()).collect() };
    let at = |index: usize| (index / side, index % side);
    let mut images: Vec<(&str, Vec<f64>)> = Vec::new();
    images.push((
        "step of 50000 beside sd 1",
        noise(1.0).iter().enumerate().map(|(i, v)| v + if at(i).1 >= side / 2 { 50000.0 } else { 0.0 }).collect(),
    ));
    images.push((
        "ramp to 60000 with sd 1",
        noise(1.0).iter().enumerate().map(|(i, v)| v + 60000.0 * at(i).1 as f64 / side as f64).collect(),
    ));
    for huge in [1e6, 1e30] {
        let mut image = noise(0.01);
        image[40 * side + 50] = huge;
        images.push(("one huge pixel among sd 0.01", image));
    }
    images.push((
        "half constant",
        noise(1.0).iter().enumerate().map(|(i, v)| if at(i).0 < side / 2 { 5.0 } else { 5.0 + v }).collect(),
    ));
    images.push(("amplitude 1e20", noise(1e20)));
    images.push(("amplitude 1e-20", noise(1e-20)));
    images.push(("denormals", noise(1e-41)));
    images.push(("mean 60000 sd 1", noise(1.0).iter().map(|v| (v + 60000.0).round()).collect()));
    images.push((
        "saturated beside constant",
        noise(1.0)
            .iter()
            .enumerate()
            .map(
                |(i, v)| {
                    if at(i).0 < 40 { 0.0 } else { 65535.0 + v.abs().floor() * if at(i).1 > 60 { 1.0 } else { 0.0 } }
                },
            )
            .collect(),
    ));
    let specs = [
        "zncc:f32:96x96*11x13:valid",
        "zncc:f32:96x96*11x13:full",
        "ncc:f32:96x96*11x13:same,mirror",
        "nssd:f32:96x96*11x13:valid",
    ];
    for (name, values) in &images {
        within_the_promise(name, values, [0, 60, 70], &specs);
    }
}

/// Holds scores of an image in f32 by every method against the oracle, for a template that is cut out of it.
fn within_the_promise(name: &str, values: &[f64], origin: [usize; 3], specs: &[&str]) {
    let image = Pixels::F64(values.to_vec()).cast(DType::F32);
    for text in specs {
        let spec: Spec = text.parse().unwrap();
        let template = cut(&image, spec.image(), origin, spec.template());
        let expected = expected(text, &image, &template);
        every_way(text, &image, &template, |way, map| {
            check(&format!("{name}: {way}"), map, &expected, 1e-5);
        });
    }
}

/// Images of few values, whose roundings agree instead of averaging out: two levels, waves, stripes as wide as tiles of
/// transforms, a checkerboard, flat patches with next to nothing on them.
#[test]
fn images_of_few_values_keep_the_promise() {
    // A number of 17 digits: its square has more than f32 holds.
    const LEVEL: f64 = 1.973_693_847_656_25;
    let (side, part) = (96usize, 32usize);
    let mut seed = Seed(41);
    let mut signs: Vec<f64> = (0..part * part).map(|k| if k % 2 == 0 { LEVEL } else { -LEVEL }).collect();
    for k in (1..signs.len()).rev() {
        signs.swap(k, seed.below(k + 1));
    }
    let placed = |of: &mut dyn FnMut(usize, usize) -> f64| -> Vec<f64> {
        (0..side * side).map(|index| of(index / side, index % side)).collect()
    };
    let inside = |y: usize, x: usize| (part..2 * part).contains(&y) && (part..2 * part).contains(&x);
    let sign = |positive: bool| if positive { LEVEL } else { -LEVEL };
    let mut images: Vec<(String, Vec<f64>)> = vec![
        (
            "two levels beside zeros".into(),
            placed(&mut |y, x| if inside(y, x) { signs[(y - part) * part + x - part] } else { 0.0 }),
        ),
        ("two levels".into(), placed(&mut |_, _| sign(seed.below(2) == 0))),
        ("stripes of 64".into(), placed(&mut |_, x| sign((x + 16) % 64 < 32))),
        ("a checkerboard".into(), placed(&mut |y, x| sign((x + y) % 2 == 0))),
    ];
    for period in [2.0, 8.0, 64.0] {
        let wave = |along: f64| LEVEL * (std::f64::consts::TAU * along / period + 0.3).cos();
        images.push((format!("a wave of {period} along rows"), placed(&mut |_, x| wave(x as f64))));
        images.push((format!("a wave of {period} across"), placed(&mut |y, x| wave(x as f64 + 3.0 * y as f64))));
    }
    images
        .push(("flat patches".into(), placed(&mut |y, x| LEVEL * ((x / 7 + y / 5) % 3) as f64 + 1e-3 * seed.normal())));
    let specs = [
        "zncc:f32:96x96*32x32:valid",
        "zncc:f32:96x96*32x32:full",
        "ncc:f32:96x96*32x32:same,mirror",
        "nssd:f32:96x96*32x32:full",
    ];
    for (name, values) in &images {
        within_the_promise(name, values, [0, part, part], &specs);
    }
}

/// What lies outside may be far beyond what single precision holds, and panels with one sample of the image in a corner
/// are in doubt.
#[test]
fn a_fill_beyond_single_precision_keeps_the_promise() {
    let mut seed = Seed(31);
    let image = Pixels::F64((0..40 * 44).map(|_| seed.normal()).collect()).cast(DType::F32);
    let template = cut(&image, shape(&[40, 44]), [0, 12, 14], shape(&[9, 12]));
    for fill in ["1e200", "-1e300", "1e-200", "1e30"] {
        let spec = format!("zncc:f32:40x44*9x12:full,constant({fill})");
        let expected = expected(&spec, &image, &template);
        every_way(&spec, &image, &template, |way, map| {
            check(way, map, &expected, 1e-5);
        });
    }
}

/// One huge sample, spikes, faint texture: under masks, at every accuracy.
#[test]
fn adversarial_masks_keep_the_promise() {
    let mut seed = Seed(21);
    let texture: Vec<f64> = (0..64 * 60).map(|_| 2.0 + seed.normal()).collect();
    let huge = texture.iter().enumerate().map(|(i, v)| if i == 31 * 60 + 30 { 1e15 } else { *v }).collect::<Vec<_>>();
    let spikes = (0..64 * 60)
        .map(|i| if seed.below(20) == 0 { 1.0 + seed.unit() } else { f64::from(u8::from(i > 3000)) })
        .collect();
    let patch = texture.iter().enumerate().map(|(i, v)| if i % 60 < 20 { 1e4 } else { 1e-3 * v }).collect();
    let mask = |seed: &mut Seed, weights: bool| -> Pixels {
        let weight =
            |seed: &mut Seed| if seed.below(3) == 0 { 0.0 } else { if weights { seed.unit() + 0.1 } else { 1.0 } };
        Pixels::F64((0..9 * 11).map(|_| weight(seed)).collect())
    };
    for (name, values) in [("a huge pixel", huge), ("spikes", spikes), ("a bright patch", patch)] {
        for dtype in [DType::F32, DType::F64] {
            let image = Pixels::F64(values.clone()).cast(dtype);
            let template = cut(&image, shape(&[64, 60]), [0, 45, 40], shape(&[9, 11]));
            for (weights, kind) in [(false, "mask01"), (true, "maskw")] {
                let mask = mask(&mut seed, weights);
                for op in ["zncc", "ncc", "nssd"] {
                    for accuracy in ["", ",acc=exact", ",acc=fast"] {
                        let spec = format!("{op}:{dtype}:64x60*9x11:full,{kind}{accuracy}");
                        let expected = expected_under(&spec, &image, &template, Some(&mask));
                        let promise = if dtype == DType::F64 { 1e-11 } else { 1e-5 };
                        let tolerance = if accuracy == ",acc=fast" { 10.0 * promise } else { promise };
                        every_way_under(&spec, &image, &template, Some(&mask), |way, map| {
                            check(&format!("{name}: {way}"), map, &expected, tolerance);
                        });
                    }
                }
            }
        }
    }
}

/// Samples and weights of many magnitudes: a panel's mean lies near its heaviest sample, which may be the faintest.
#[test]
fn masks_of_many_magnitudes_keep_the_promise() {
    let mut seed = Seed(22);
    let spec = "zncc:f64:2x40*2x8:full,maskw";
    for _ in 0..300 {
        let sample = |seed: &mut Seed| seed.pick(&[-1.0, 1.0]) * 10f64.powf(600.0 * seed.unit() - 310.0);
        let image = Pixels::F64((0..80).map(|_| sample(&mut seed)).collect());
        let template = Pixels::F64((0..16).map(|_| seed.unit()).collect());
        let mask = Pixels::F64((0..16).map(|_| 10f64.powf(-24.0 * seed.unit())).collect());
        let expected = expected_under(spec, &image, &template, Some(&mask));
        every_way_under(spec, &image, &template, Some(&mask), |way, map| {
            check(way, map, &expected, 1e-11);
        });
    }
}

/// A huge sample in one of two channels takes the digits of its neighbours in that channel, not of their panels'
/// scores.
#[test]
fn a_huge_sample_in_one_channel_does_not_hide_the_channel() {
    let mut seed = Seed(25);
    let mut values: Vec<f64> = (0..2 * 50 * 50).map(|_| seed.normal()).collect();
    values[2 * (25 * 50 + 25)] = 1e90;
    let image = Pixels::F64(values);
    let template = Pixels::F64((0..2 * 7 * 7).map(|_| seed.normal()).collect());
    for op in ["zncc", "ncc", "nssd"] {
        let spec: Spec = format!("{op}:f64>f32:50x50*7x7:valid").parse().unwrap();
        let spec = spec.with_channels(2).unwrap();
        let view = |pixels, shape| AnyView::dense(pixels, shape, 2).unwrap();
        let (x, t) = (view(&image, spec.image()), view(&template, spec.template()));
        let expected = Oracle::new(&spec, &x, &t, None).unwrap().all();
        for method in METHODS {
            let plan = planner(1).method(method).plan(&spec).unwrap();
            let map = plan.execute(&[x], &[t], None).unwrap().remove(0);
            check(&format!("{spec} by {}", plan.kernel()), &map, &expected, 1e-5);
        }
    }
}

/// Constant panels are 0 exactly at the lowest accuracy too.
#[test]
fn fast_is_not_noise() {
    let mut seed = Seed(22);
    let values: Vec<f64> = (0..80 * 80).map(|i| if i % 80 < 40 { 70000.0 } else { 70000.0 + seed.normal() }).collect();
    let image = Pixels::F64(values).cast(DType::F32);
    let template = cut(&image, shape(&[80, 80]), [0, 50, 60], shape(&[10, 10]));
    for boundary in ["valid", "full,zero", "full,replicate"] {
        let spec = format!("zncc:f32:80x80*10x10:{boundary},acc=fast");
        let expected = expected(&spec, &image, &template);
        every_way(&spec, &image, &template, |way, map| {
            check(way, map, &expected, 1e-4);
            for (index, _) in expected.iter().enumerate().filter(|(_, value)| **value == 0.0) {
                assert_eq!(map.get(index), 0.0, "{way} at {index}");
            }
        });
    }
}

/// Samples near the end of the range, and a template far from the image in magnitude: sums that f32 does not hold are
/// infinite, never small.
#[test]
fn differences_of_extreme_magnitudes_are_not_lost() {
    let mut seed = Seed(23);
    let noise: Vec<f64> = (0..60 * 60).map(|_| seed.normal()).collect();
    let nodata = noise.iter().enumerate().map(|(i, v)| if i < 600 { -3.402_823_5e38 } else { *v }).collect::<Vec<_>>();
    let pixel = noise.iter().enumerate().map(|(i, v)| if i == 1830 { 2e38 } else { *v }).collect::<Vec<_>>();
    let (bytes, tiny): (Vec<f64>, Vec<f64>) =
        ((0..3600).map(|_| seed.below(256) as f64).collect(), (0..25).map(|_| 1e-38 * seed.normal()).collect());
    let ordinary: Vec<f64> = (0..25).map(|_| seed.normal()).collect();
    for (name, types, image, template) in [
        ("nodata", "f32", &nodata, &ordinary),
        ("one huge pixel", "f32", &pixel, &ordinary),
        ("a faint template", "f32", &noise, &tiny),
        ("a faint template on bytes", "u8/f32", &bytes, &tiny),
    ] {
        for op in ["ssd", "sad", "nssd", "corr"] {
            for out in ["f32", "f64"] {
                let spec = format!("{op}:{types}>{out}:60x60*5x5:valid");
                let parsed: Spec = spec.parse().unwrap();
                let image = Pixels::F64(image.clone()).cast(parsed.image_type());
                let template = Pixels::F64(template.clone()).cast(DType::F32);
                let expected = expected(&spec, &image, &template);
                let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
                let most = if out == "f32" { f64::from(f32::MAX) } else { f64::MAX };
                every_way(&spec, &image, &template, |way, map| {
                    for (index, &wanted) in expected.iter().enumerate() {
                        let got = map.get(index);
                        let fits = if wanted.abs() > most {
                            got == f64::INFINITY.copysign(wanted)
                        } else {
                            // Absolute over the image, as the conventions have it for sums.
                            (got - wanted).abs() <= 1e-5 * if op == "nssd" { 1.0 } else { largest }
                                || (got.is_infinite() && wanted.abs() > 0.99 * most)
                        };
                        assert!(fits, "{name}: {way} at {index}: {got}, expected {wanted}");
                    }
                });
            }
        }
    }
}

/// Differences twice as large as the largest number of f64, under weights that make their sums small.
#[test]
fn weighted_differences_beyond_double_precision_are_not_lost() {
    let mut seed = Seed(29);
    let mut signs = |count: usize| {
        (0..count).map(|_| if seed.below(2) == 0 { f64::MAX } else { -f64::MAX / 2.0 }).collect::<Vec<f64>>()
    };
    let (image, template) = (Pixels::F64(signs(40 * 50)), Pixels::F64(signs(35)));
    let weights: Vec<f64> = (0..35).map(|k| 1e-3 * f64::from(k % 5)).collect();
    let ones: Vec<f64> = weights.iter().map(|weight| f64::from(u8::from(*weight == 2e-3))).collect();
    for boundary in ["zero", "constant(1e308)", "reflect"] {
        for (kind, mask) in [("maskw", weights.clone()), ("mask01", ones.clone())] {
            let spec = format!("sad:f64:40x50*5x7:same,{boundary},{kind}");
            let mask = Pixels::F64(mask);
            let expected = expected_under(&spec, &image, &template, Some(&mask));
            every_way_under(&spec, &image, &template, Some(&mask), |way, map| {
                for (index, &wanted) in expected.iter().enumerate() {
                    let got = map.get(index);
                    assert!(
                        (got - wanted).abs() <= 1e-13 * wanted || (got.is_infinite() && wanted > 0.99 * f64::MAX),
                        "{way} at {index}: {got}, expected {wanted}"
                    );
                }
            });
        }
    }
    // Nor are the last bits of the smallest numbers, beside a difference of which only the half has a number.
    let mut values: Vec<f64> = (0..40 * 50).map(|k| f64::from_bits(k % 7)).collect();
    values[20 * 50 + 25] = f64::MAX;
    let image = Pixels::F64(values);
    let template = Pixels::F64((0..35).map(|k| if k == 17 { -f64::MAX } else { f64::from_bits(k % 4) }).collect());
    let small = Pixels::F64((0..35).map(|k| f64::from_bits(k % 4)).collect());
    for (template, weights) in [(&small, [1e4, 3.0]), (&template, [1e4, 1e-3]), (&template, [1e4, 0.0])] {
        let mask = Pixels::F64((0..35).map(|k| weights[usize::from(k == 17)]).collect());
        let spec = "sad:f64:40x50*5x7:same,reflect,maskw";
        let expected = expected_under(spec, &image, template, Some(&mask));
        every_way_under(spec, &image, template, Some(&mask), |way, map| {
            for (index, &wanted) in expected.iter().enumerate() {
                let got = map.get(index);
                let near = got == wanted || (got - wanted).abs() <= 1e-13 * wanted;
                assert!(near, "{way} at {index}: {got}, expected {wanted}");
            }
        });
    }
}

/// A few huge pixels leave every tile of the transform in doubt: the tiles are computed again, not panel by panel.
#[test]
fn tiles_in_doubt_are_computed_again() {
    let mut seed = Seed(24);
    let values: Vec<f64> = (0..200 * 220)
        .map(|i| if i / 220 % 50 == 25 && i % 220 % 50 == 25 { 1e4 } else { 1e-4 * seed.normal() })
        .collect();
    let image = Pixels::F64(values).cast(DType::F32);
    let template = cut(&image, shape(&[200, 220]), [0, 60, 90], shape(&[20, 24]));
    let spec = "zncc:f32:200x220*20x24:full,reflect";
    let expected = expected(spec, &image, &template);
    every_way(spec, &image, &template, |way, map| {
        check(way, map, &expected, 1e-5);
    });
    let parsed: Spec = spec.parse().unwrap();
    let plan = planner(1).method(Method::Fourier).plan(&parsed).unwrap();
    let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
    let matcher = plan.bind(&[view(&template, parsed.template())], None).unwrap();
    let (_, statistics) =
        matcher.execute_with(&[view(&image, parsed.image())], &flcc_runtime::Control::default()).unwrap();
    assert!(statistics.repaired * 4 < statistics.panels, "{statistics:?}");
}

/// A huge pixel leaves what transforms make of a large template under a mask in doubt, in f64 too: that is computed
/// directly, not panel by panel.
#[test]
fn large_masked_templates_beside_a_huge_pixel_are_computed_directly() {
    let mut seed = Seed(27);
    let values: Vec<f64> = (0..150 * 160).map(|i| if i == 40 * 160 + 50 { 1e14 } else { seed.normal() }).collect();
    let image = Pixels::F64(values).cast(DType::F32);
    let template = cut(&image, shape(&[150, 160]), [0, 100, 90], shape(&[30, 24]));
    let mask = Pixels::F64((0..30 * 24).map(|_| f64::from(u8::from(seed.below(3) > 0))).collect());
    let spec = "zncc:f32:150x160*30x24:valid,mask01";
    let expected = expected_under(spec, &image, &template, Some(&mask));
    every_way_under(spec, &image, &template, Some(&mask), |way, map| {
        check(way, map, &expected, 1e-5);
    });
    let parsed: Spec = spec.parse().unwrap();
    let plan = planner(1).method(Method::Fourier).plan(&parsed).unwrap();
    let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
    let matcher = plan.bind(&[view(&template, parsed.template())], Some(&view(&mask, parsed.template()))).unwrap();
    let (_, statistics) =
        matcher.execute_with(&[view(&image, parsed.image())], &flcc_runtime::Control::default()).unwrap();
    assert!(statistics.repaired * 10 < statistics.panels, "{statistics:?}");
}

/// Squared differences under a mask are taken again where squares overflow the result: of ordinary samples none are.
#[test]
fn squared_differences_of_ordinary_samples_under_a_mask_are_computed_once() {
    let mut seed = Seed(31);
    let image = Pixels::F64((0..60 * 70).map(|_| 1000.0 * seed.normal()).collect());
    let mask = Pixels::F64((0..9 * 8).map(|_| f64::from(u8::from(seed.below(3) > 0))).collect());
    let template = cut(&image, shape(&[60, 70]), [0, 20, 30], shape(&[9, 8]));
    for (spec, dtype) in [
        ("ssd:f32:60x70*9x8:valid,mask01", DType::F32),
        ("ssd:f64>f32:60x70*9x8:valid,mask01", DType::F64),
        ("ssd:f32:60x70*9x8:full,reflect,maskw", DType::F32),
    ] {
        let (image, template) = (image.cast(dtype), template.cast(dtype));
        let parsed: Spec = spec.parse().unwrap();
        let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
        for method in [Method::Direct, Method::Fourier] {
            let plan = planner(1).method(method).plan(&parsed).unwrap();
            let weights = view(&mask, parsed.template());
            let matcher = plan.bind(&[view(&template, parsed.template())], Some(&weights)).unwrap();
            let (_, statistics) =
                matcher.execute_with(&[view(&image, parsed.image())], &flcc_runtime::Control::default()).unwrap();
            assert_eq!(statistics.repaired, 0, "{spec} by {}", plan.kernel());
        }
    }
}

#[test]
fn gain_and_offset_change_nothing_and_scores_stay_in_range() {
    let image = Pixels::F64((0..70 * 60).scan(Seed(13), |seed, _| Some(seed.normal())).collect());
    let template = cut(&image, shape(&[70, 60]), [0, 5, 6], shape(&[12, 10]));
    let changed = |gain: f64, offset: f64, pixels: &Pixels| {
        Pixels::F64(pixels.to_f64().iter().map(|v| gain * v + offset).collect())
    };
    let spec = "zncc:f64>f32:70x60*12x10:valid";
    let base = expected(spec, &image, &template);
    for (gain, offset) in [(1.0, 0.0), (3.5, -20.0), (1e-9, 1e-3), (1e12, 0.0), (-1.0, 4.0)] {
        let image = changed(gain, offset, &image);
        let wanted: Vec<f64> = base.iter().map(|r| r * gain.signum()).collect();
        every_way(spec, &image, &template, |name, map| {
            check(&format!("{name} gain {gain} offset {offset}"), map, &wanted, 1e-5);
            assert!((0..map.shape().len()).all(|index| map.get(index).abs() <= 1.0));
        });
    }
}

#[test]
fn correlation_is_linear_and_moves_with_the_image() {
    let mut seed = Seed(14);
    let (a, b) = (seed.pixels(40 * 30, DType::F64, 0.0), seed.pixels(40 * 30, DType::F64, 0.0));
    let template = seed.pixels(5 * 7, DType::F64, 0.0);
    let sum = Pixels::F64(a.to_f64().iter().zip(b.to_f64()).map(|(a, b)| 2.0 * a - 3.0 * b).collect());
    let spec = "corr:f64:40x30*5x7:full";
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    every_way(spec, &a, &template, |_, map| of_a.push(map.data().to_f64()));
    every_way(spec, &b, &template, |_, map| of_b.push(map.data().to_f64()));
    let mut way = 0;
    every_way(spec, &sum, &template, |name, map| {
        let wanted: Vec<f64> = of_a[way].iter().zip(&of_b[way]).map(|(a, b)| 2.0 * a - 3.0 * b).collect();
        check(name, map, &wanted, 1e-11);
        way += 1;
    });
    // The same samples one row lower, in the wrap-around extension, give the same result one row lower.
    let rolled = Pixels::F64([&a.to_f64()[39 * 30..], &a.to_f64()[..39 * 30]].concat());
    let spec = "corr:f64:40x30*5x7:same,wrap";
    let mut plain = Vec::new();
    every_way(spec, &a, &template, |_, map| plain.push(map.data().to_f64()));
    let mut way = 0;
    every_way(spec, &rolled, &template, |name, map| {
        let wanted = [&plain[way][39 * 30..], &plain[way][..39 * 30]].concat();
        check(name, map, &wanted, 1e-11);
        way += 1;
    });
}

#[test]
fn a_region_is_the_slice_of_the_whole_bit_for_bit() {
    for (spec, whole) in [
        ("zncc:f32:400x500*9x9", [408usize, 508]),
        ("corr:u8:300x420*21x20", [320, 439]),
        ("ssd:f32:300x620*33x40", [332, 659]),
        ("corr:f32:330x470*17x19", [346, 488]),
    ] {
        for (mode, boundary) in [("full", "reflect"), ("valid", "zero")] {
            let problem = common::Problem::new(&format!("{spec}:{mode},{boundary}"), 15);
            let inside = problem.spec.region();
            let gpu = platforms()
                .into_iter()
                .skip(1)
                .flat_map(|platform| [(platform, Method::Direct), (platform, Method::Fourier)]);
            for (platform, method) in METHODS.map(|method| (Platform::Cpu, method)).into_iter().chain(gpu) {
                let planner = |threads| planner(threads).platform(platform).method(method);
                let mut plan = planner(2).plan(&problem.spec).unwrap();
                if plan.kernel().op.starts_with("tile") {
                    // Sums by transforms of tiles are of whole results alone; an estimate names the best few.
                    let plans = planner(2).effort(Effort::Measure);
                    plan = plans.plan(&problem.spec).unwrap();
                    let others = plan.candidates().iter().map(|other| other.kernel.as_str());
                    let other = others.into_iter().find(|name| name.starts_with("fourier_")).unwrap();
                    plan = planner(2).plan_with_kernel(&problem.spec, &other.parse().unwrap()).unwrap();
                }
                let all = problem.run(&plan);
                let mut seed = Seed(16);
                for _ in 0..6 {
                    let size = [1 + seed.below(60), 1 + seed.below(90)];
                    let lengths = inside.shape.lengths();
                    let offset = [seed.below(lengths[0] - size[0]), seed.below(lengths[1] - size[1])];
                    let roi = format!(
                        "{},{}:{}x{}",
                        inside.origin[1] + offset[0],
                        inside.origin[2] + offset[1],
                        size[0],
                        size[1]
                    );
                    assert!(inside.origin[1] + offset[0] + size[0] <= whole[0]);
                    let part_spec = problem.spec.clone().with_roi(Some(roi.parse().unwrap())).unwrap();
                    // The same kernel, tile included, whatever the planner would take for the smaller problem.
                    let part = planner(1).plan_with_kernel(&part_spec, plan.kernel()).unwrap();
                    let got = part.execute(&[problem.image()], &[problem.template()], None).unwrap().remove(0);
                    for y in 0..size[0] {
                        for x in 0..size[1] {
                            let whole = all.get((offset[0] + y) * lengths[1] + offset[1] + x);
                            assert_eq!(
                                got.get(y * size[1] + x).to_bits(),
                                whole.to_bits(),
                                "{part_spec} by {} at {y},{x}",
                                plan.kernel()
                            );
                        }
                    }
                }
            }
        }
    }
}

/// So it is where panels are in doubt, which are computed again alone or by parts of their tile, also in the last tile,
/// which is cut.
#[test]
fn a_region_in_doubt_is_the_slice_of_the_whole_bit_for_bit() {
    for (spec, method) in
        [("zncc:f32:62x572*3x3:valid", Method::Direct), ("zncc:f32:162x572*30x30:valid", Method::Fourier)]
    {
        let mut problem = common::Problem::new(spec, 15);
        let Pixels::F32(samples) = &mut problem.image else { panic!("{spec} is of f32") };
        for (y, row) in samples.chunks_mut(572).enumerate() {
            if (1..8).contains(&y) || y > 100 {
                row[514..557].iter_mut().for_each(|sample| *sample = 100.0 + 0.5 * *sample);
                row[300..370].iter_mut().for_each(|sample| *sample *= 1e-4);
            }
        }
        let plan = planner(2).platform(Platform::Cpu).method(method).plan(&problem.spec).unwrap();
        let all = problem.run(&plan);
        let inside = problem.spec.region();
        let width = inside.shape.lengths()[1];
        for ([top, left], [height, columns]) in [([2, 512], [30, 28]), ([0, 280], [33, 200])] {
            let roi = format!("{},{}:{height}x{columns}", inside.origin[1] + top, inside.origin[2] + left);
            let part_spec = problem.spec.clone().with_roi(Some(roi.parse().unwrap())).unwrap();
            let part = planner(1).platform(Platform::Cpu).plan_with_kernel(&part_spec, plan.kernel()).unwrap();
            let got = part.execute(&[problem.image()], &[problem.template()], None).unwrap().remove(0);
            for (y, x) in (0..height).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let whole = all.get((top + y) * width + left + x);
                assert_eq!(
                    got.get(y * columns + x).to_bits(),
                    whole.to_bits(),
                    "{part_spec} by {} at {y},{x}",
                    plan.kernel()
                );
            }
        }
    }
}

/// Rows side by side are read and written where they lie, others through buffers: that is no reason for another result.
#[test]
fn strides_change_no_bit() {
    let mut seed = Seed(31);
    for (spec, special) in [
        ("corr:f32:190x333*3x3:valid", None),
        ("corr:f32:190x333*8x5:valid", Some(f32::NAN)),
        ("conv:f32:190x333*7x7:same,reflect", Some(1e30)),
        ("corr:f32:20x40x50*3x3x3:valid", None),
        ("corr:f32:20x40x50*3x4x5:full", Some(f32::NAN)),
        ("zncc:f32:190x333*12x12:valid", Some(f32::NAN)),
        ("corr:f32:190x333*20x20:full", None),
        ("corr:f32:190x333*20x20:valid", Some(f32::INFINITY)),
        ("corr:f32:290x433*17x12:valid", None),
        ("zncc:f32:20x80x90*4x6x5:valid", None),
    ] {
        let spec: Spec = spec.parse().unwrap();
        let mut dense: Vec<f32> = (0..spec.image().len()).map(|_| seed.normal() as f32).collect();
        if let Some(special) = special {
            dense[9000] = special;
        }
        check_strides(&spec, &dense, f32::INFINITY, &mut seed);
    }
    for spec in [
        "corr:u8:190x333*3x3:valid",
        "corr:u8:190x333*16x16:valid",
        "conv:u8:190x333*31x29:same,reflect",
        "corr:u8:190x333*5x60:full",
        "corr:u8:20x40x50*3x3x3:valid",
        "corr:u8:20x40x50*4x5x6:same",
        "zncc:u8:190x333*12x12:valid",
    ] {
        let spec: Spec = spec.parse().unwrap();
        let dense: Vec<u8> = (0..spec.image().len()).map(|_| seed.bits() as u8).collect();
        check_strides(&spec, &dense, 255, &mut seed);
    }
}

/// An image side by side, and spread among samples that are not its own; results side by side, with room, and column by
/// column.
fn check_strides<P: Pixel>(spec: &Spec, dense: &[P], other: P, seed: &mut Seed) {
    let template = Pixels::F64((0..spec.template().len()).map(|_| seed.normal() * 60.0 + 100.0).collect())
        .cast(spec.template_type());
    let template = AnyView::dense(&template, spec.template(), 1).unwrap();
    // Every second element of rows with room at their end, and of planes with room at theirs.
    let [depth, height, width] = spec.image().padded();
    let (row, axes) = (2 * width + 6, spec.image().axes());
    let plane = height * row + 10;
    let mut spread = vec![other; depth * plane];
    for (index, value) in dense.iter().enumerate() {
        spread[index / (width * height) * plane + index / width % height * row + index % width * 2] = *value;
    }
    let strides = [plane as isize, row as isize, 2];
    let images: [AnyView<'_>; 2] = [
        View::new(dense, spec.image()).unwrap().into(),
        View::strided(&spread, 0, spec.image(), &strides[3 - axes..]).unwrap().into(),
    ];
    let out = spec.out_shape();
    let [out_depth, out_height, out_width] = out.padded();
    for method in [Method::Auto, Method::Direct, Method::Fourier] {
        let matcher =
            planner(2).platform(Platform::Cpu).method(method).plan(spec).unwrap().bind(&[template], None).unwrap();
        let whole = matcher.execute(&[images[0]]).unwrap().remove(0);
        let bits = |values: Vec<f64>| -> Vec<u64> { values.into_iter().map(f64::to_bits).collect() };
        let expected = bits(whole.view().to_f64());
        for image in images {
            let layouts = [
                [out_height * out_width, out_width, 1],
                [out_height * (out_width + 3), out_width + 3, 1],
                [out_height * out_width + 9, out_width, 1],
                [out_height * out_width, 1, out_height],
            ];
            for strides in layouts {
                let mut results = vec![f32::NEG_INFINITY; out_depth * strides[0]];
                let strides = strides.map(|stride| stride as isize);
                let view = ViewMut::strided(&mut results, 0, out, &strides[3 - axes..]).unwrap();
                matcher
                    .execute_into(&[image], &mut [view.into()], &mut matcher.make_scratch(), &Control::default())
                    .unwrap();
                let read = View::strided(&results, 0, out, &strides[3 - axes..]).unwrap();
                assert!(bits(AnyView::from(read).to_f64()) == expected, "{spec} by {}, {strides:?}", matcher.kernel());
                // What lies between rows and planes is not the result's.
                let gaps = results.iter().filter(|value| **value == f32::NEG_INFINITY).count();
                assert!(gaps >= results.len() - out.len(), "{spec} by {}: wrote between rows", matcher.kernel());
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for spec in [
        "zncc:f32:300x500*9x9:full",
        "zncc:u8:300x500*40x40:valid",
        "corr:f32:60x70x80*5x5x5:same,wrap",
        "zncc:f32:30000*100:valid",
    ] {
        let problem = common::Problem::new(spec, 17);
        for method in METHODS {
            let one = planner(1).method(method).plan(&problem.spec);
            let Ok(one) = one else { continue };
            // More threads may be worth other tiles; the same kernel on more threads has the same bits.
            let several = planner(3).plan_with_kernel(&problem.spec, one.kernel()).unwrap();
            assert!(several.workers() > 1, "{spec} by {}", one.kernel());
            assert_eq!(problem.run(&one).data(), problem.run(&several).data(), "{spec} by {}", one.kernel());
        }
    }
}

#[test]
fn lesser_instruction_sets_agree() {
    let here = Machine::detect().unwrap();
    for isa in here.isas().iter().filter(|isa| isa.has_floats()) {
        let machine = here.clone().with_isa(isa);
        for spec in [
            "zncc:f32:100x120*7x9:valid",
            "sad:u8:100x120*7x9:full",
            "corr:f64:20x21x22*3x4x5:full,mirror",
            "zncc:u16:800*31:same",
        ] {
            let problem = common::Problem::new(spec, 18);
            let plan = Planner::with_machine(machine.clone()).method(Method::Direct).plan(&problem.spec).unwrap();
            assert!(plan.kernel().to_string().contains(isa.name()), "{}", plan.kernel());
            check(
                &format!("{spec} by {}", plan.kernel()),
                &problem.run(&plan),
                &problem.expected(),
                problem.tolerance(),
            );
        }
    }
}
