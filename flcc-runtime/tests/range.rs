//! Magnitudes near either end of a type's range, beside ordinary ones: squares and products that are too small for the
//! type that they are computed in, and samples that a tile's scale would make so.

mod common;

use std::cmp::Ordering;

use common::{Seed, in_threads};
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::core::shape::join;
use flcc_runtime::rooms::isa::{ISAS, detected};
use flcc_runtime::rooms::plan::solvers::SOLVERS;
use flcc_runtime::{Accuracy, AnyView, Control, DType, Machine, MaskKind, Measure, Pixels, Planner, Platform, Spec};

/// The scores of normalised measures, each panel scaled for itself: values by powers of two, channel by channel, before
/// anything is squared or added, and sums compensated.
struct Judge<'a> {
    spec: &'a Spec,
    image: Vec<f64>,
    template: Vec<f64>,
    weights: Vec<f64>,
}

/// `mantissa * 2^exponent`, of a size that squares of mantissas are numbers.
struct Scaled {
    mantissas: Vec<f64>,
    exponent: i32,
}

/// `value * 2^exponent`, rounded once where it is small.
fn times(value: f64, exponent: i32) -> f64 {
    let exponent = exponent.clamp(-2200, 2200);
    let steps = [exponent / 4, exponent / 4, exponent / 4, exponent - 3 * (exponent / 4)];
    // Up before down: on the way down only the last step may round.
    steps.iter().fold(value, |value, &step| value * 2f64.powi(step))
}

/// The sum, with what rounding took from it.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
        total = next;
    }
    total + lost
}

impl Scaled {
    fn new(values: impl Iterator<Item = f64>) -> Scaled {
        Scaled { mantissas: values.collect(), exponent: 0 }.near_one()
    }

    fn near_one(self) -> Scaled {
        let Scaled { mantissas, exponent } = self;
        let largest = mantissas.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        if largest == 0.0 {
            return Scaled { mantissas, exponent: -5000 };
        }
        let up = -(largest.log2().floor() as i32);
        Scaled { mantissas: mantissas.into_iter().map(|value| times(value, up)).collect(), exponent: exponent - up }
    }

    /// The vectors one after the other.
    fn joined(parts: Vec<Scaled>) -> Scaled {
        let exponent = parts.iter().map(|part| part.exponent).max().unwrap_or(0);
        let all = parts
            .into_iter()
            .flat_map(|part| part.mantissas.into_iter().map(move |value| times(value, part.exponent - exponent)));
        Scaled { mantissas: all.collect(), exponent }.near_one()
    }

    fn is_zero(&self) -> bool {
        self.mantissas.iter().all(|value| *value == 0.0)
    }

    fn norm(&self) -> f64 {
        sum(self.mantissas.iter().map(|value| value * value)).sqrt()
    }
}

impl Judge<'_> {
    fn new<'a>(spec: &'a Spec, image: &Pixels, template: &Pixels, mask: Option<&Pixels>) -> Judge<'a> {
        let weights = mask.map_or(vec![1.0; spec.template().len()], |mask| mask.to_f64());
        Judge { spec, image: image.to_f64(), template: template.to_f64(), weights }
    }

    /// Places of the result and the scores there: all of them, or of a large problem some that are spread over it.
    fn scores(&self) -> Vec<(usize, f64)> {
        let (count, taps) = (self.spec.out_shape().len(), self.template.len());
        let step = (count * taps / 200_000) | 1;
        (0..count).step_by(step).map(|index| (index, self.at(index))).collect()
    }

    fn at(&self, index: usize) -> f64 {
        let (position, origin, template) =
            (self.spec.out_shape().position(index), self.spec.region().origin, self.spec.template().padded());
        let channels = self.spec.channels();
        let lengths = self.spec.image().padded();
        let fold = |axis: usize, step: usize| {
            let at = (origin[axis] + position[axis] + step) as isize - (template[axis] as isize - 1);
            self.spec.boundary().fold(at, lengths[axis])
        };
        let mut panel = Vec::new();
        for k in 0..self.weights.len() {
            let [z, y, x] = [k / (template[1] * template[2]), k / template[2] % template[1], k % template[2]];
            match (fold(0, z), fold(1, y), fold(2, x)) {
                (Some(z), Some(y), Some(x)) => {
                    let at = ((z * lengths[1] + y) * lengths[2] + x) * channels;
                    panel.extend_from_slice(&self.image[at..at + channels]);
                }
                _ => panel.extend(vec![self.spec.boundary().value().unwrap_or(0.0); channels]),
            }
        }
        self.score(&panel)
    }

    fn score(&self, panel: &[f64]) -> f64 {
        if self.spec.op().measure() == Measure::Ssd {
            return self.squared_differences(panel);
        }
        let centred = self.spec.op().measure() == Measure::Zncc;
        let (p, t) = (self.vector(panel, centred), self.vector(&self.template, centred));
        if self.spec.op().measure() == Measure::Nssd {
            if p.is_zero() || (p.exponent - t.exponent).abs() > 100 {
                return 1.0;
            }
            let down = (p.exponent - t.exponent).min(0);
            let t = Scaled {
                mantissas: t.mantissas.iter().map(|value| times(*value, -(p.exponent - t.exponent).max(0))).collect(),
                exponent: 0,
            };
            let p = Scaled { mantissas: p.mantissas.iter().map(|value| times(*value, down)).collect(), exponent: 0 };
            let difference = sum(p.mantissas.iter().zip(&t.mantissas).map(|(p, t)| (p - t).powi(2)));
            return (difference / p.norm() / t.norm()).min(1.0);
        }
        if p.is_zero() {
            return 0.0;
        }
        let cross = sum(p.mantissas.iter().zip(&t.mantissas).map(|(p, t)| p * t));
        (cross / (p.norm() * t.norm())).clamp(-1.0, 1.0)
    }

    /// In the scale of the largest sample; weights are of ordinary size.
    fn squared_differences(&self, panel: &[f64]) -> f64 {
        let weight = |k: usize| self.weights[k / self.spec.channels()];
        let used = |(k, _): &(usize, (&f64, &f64))| weight(*k) > 0.0;
        let pairs = || panel.iter().zip(&self.template).enumerate().filter(used);
        let largest = pairs().fold(0.0f64, |most, (_, (p, t))| most.max(p.abs()).max(t.abs()));
        if largest == 0.0 {
            return 0.0;
        }
        let up = -(largest.log2().floor() as i32);
        let square = |(k, (p, t)): (usize, (&f64, &f64))| weight(k) * (times(*p, up) - times(*t, up)).powi(2);
        times(sum(pairs().map(square)), -2 * up)
    }

    /// The used samples, channel by channel, times the roots of their weights.
    fn vector(&self, samples: &[f64], centred: bool) -> Scaled {
        let channels = self.spec.channels();
        let used: Vec<f64> = self.weights.iter().copied().filter(|weight| *weight > 0.0).collect();
        let largest = used.iter().fold(0.0f64, |most, weight| most.max(*weight));
        let shares: Vec<f64> = used.iter().map(|&weight| times(weight, -(largest.log2().floor() as i32))).collect();
        let parts = (0..channels).map(|channel| {
            let values =
                samples.iter().skip(channel).step_by(channels).zip(&self.weights).filter(|(_, weight)| **weight > 0.0);
            let mut part = Scaled::new(values.map(|(value, _)| *value));
            if centred {
                if part.mantissas.iter().all(|value| *value == part.mantissas[0]) {
                    part.mantissas.fill(0.0);
                }
                let n = sum(shares.iter().copied());
                for _ in 0..2 {
                    let mean = sum(part.mantissas.iter().zip(&shares).map(|(value, weight)| value * weight)) / n;
                    part.mantissas.iter_mut().for_each(|value| *value -= mean);
                }
            }
            let part = part.near_one();
            Scaled {
                mantissas: part.mantissas.iter().zip(&shares).map(|(value, weight)| value * weight.sqrt()).collect(),
                ..part
            }
            .near_one()
        });
        Scaled::joined(parts.collect())
    }
}

/// The machine restricted to each of its instruction sets.
fn machines() -> Vec<Machine> {
    let all = ISAS.into_iter().filter(|&isa| isa.has_floats() && detected(isa));
    all.map(|isa| Machine::detect().unwrap().with_isa(isa)).collect()
}

/// One kernel of each engine that serves a spec on a machine, with the planner that knows it.
fn engines(spec: &Spec, machine: &Machine) -> Vec<(Planner, KernelKey)> {
    let mut found: Vec<(String, KernelKey)> = Vec::new();
    for solver in SOLVERS.iter().filter(|solver| solver.platform() == Platform::Cpu) {
        for offer in solver.offers(spec, machine).into_iter().flatten() {
            let text = offer.kernel.to_string();
            // The name but for its numbers: `fourier_f_columns_avx_t`.
            let engine: String = text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != 'x').collect();
            if found.iter().all(|(other, _)| *other != engine) {
                found.push((engine, offer.kernel));
            }
        }
    }
    let planner = Planner::with_machine(machine.clone()).threads(1).platform(Platform::Cpu);
    found.into_iter().map(|(_, kernel)| (planner.clone(), kernel)).collect()
}

/// Runs a problem by every engine on every instruction set; panics where a score is off by more than promised.
fn keeps_the_promise(name: &str, spec: &str, image: &[f64], template: &[f64], mask: Option<&[f64]>) {
    let spec: Spec = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
    let (image, template) = (
        Pixels::F64(image.to_vec()).cast(spec.image_type()),
        Pixels::F64(template.to_vec()).cast(spec.template_type()),
    );
    let mask = mask.map(|mask| Pixels::F64(mask.to_vec()));
    let expected = Judge::new(&spec, &image, &template, mask.as_ref()).scores();
    let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
    let tolerance = if spec.out_type() == DType::F64 { 1e-11 } else { 1e-5 }
        * if spec.accuracy() == Accuracy::Fast { 10.0 } else { 1.0 };
    for machine in machines() {
        for (planner, kernel) in engines(&spec, &machine) {
            let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
            let mask = mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
            let map = plan
                .execute(
                    &[view(&image, spec.image())],
                    &[view(&template, spec.template())],
                    mask.as_ref().map(|mask| mask as _),
                )
                .unwrap()
                .remove(0);
            let (mut worst, mut place, mut wanted) = (0.0, 0, 0.0);
            for &(index, want) in &expected {
                let error = (map.get(index) - want).abs();
                // What is no number is the worst.
                if !matches!(error.partial_cmp(&worst), Some(Ordering::Less | Ordering::Equal)) {
                    (worst, place, wanted) = (error, index, want);
                }
            }
            let (at, got) = (spec.out_shape().position(place), map.get(place));
            assert!(worst <= tolerance, "{name}: {spec} by {kernel} at {at:?}: {got} for {wanted}, error {worst:.1e}");
        }
    }
}

/// Noise of an amplitude, rows of a width, with one sample, a quarter down and along, of another.
fn beside(seed: u64, [height, width]: [usize; 2], amplitude: f64, bright: f64) -> Vec<f64> {
    let mut seed = Seed(seed);
    let mut values: Vec<f64> = (0..height * width).map(|_| amplitude * seed.normal()).collect();
    values[height / 4 * width + width / 4] = bright;
    values
}

/// A block of an image, from a place on.
fn cut(image: &[f64], width: usize, [top, left]: [usize; 2], [height, columns]: [usize; 2]) -> Vec<f64> {
    (top..top + height).flat_map(|y| image[y * width + left..][..columns].to_vec()).collect()
}

/// Texture of each amplitude beside each bright sample, under templates of texture alone and of the bright sample in
/// it.
fn texture_keeps_the_promise(types: [&str; 2], amplitudes: &[f64], bright: &[f64]) {
    let cases: Vec<(f64, f64)> =
        amplitudes.iter().flat_map(|&amplitude| bright.iter().map(move |&bright| (amplitude, bright))).collect();
    in_threads(&cases, |&(amplitude, bright)| {
        let image = beside(5, [20, 24], amplitude, bright);
        for (part, template) in
            [("texture", cut(&image, 24, [12, 14], [3, 5])), ("both", cut(&image, 24, [4, 3], [3, 5]))]
        {
            for op in ["zncc", "ncc", "nssd"] {
                for how in [
                    "valid",
                    "valid,acc=exact",
                    "valid,acc=fast",
                    "full,reflect",
                    "full,constant(1.0)",
                    "full,constant(1.0),acc=exact",
                ] {
                    for types in types {
                        let name = format!("{amplitude:e} beside {bright:e}, a template of {part}");
                        keeps_the_promise(&name, &format!("{op}:{types}:20x24*3x5:{how}"), &image, &template, None);
                    }
                }
            }
        }
    });
}

#[test]
fn texture_beside_one_ordinary_sample_keeps_the_promise_in_f64() {
    let amplitudes = [1e-140, 1e-150, 1e-155, 1e-158, 1e-160, 1e-162, 1e-165, 1e-170, 1e-310];
    texture_keeps_the_promise(["f64", "f64>f32"], &amplitudes, &[1.0, 1e200]);
}

#[test]
fn texture_beside_one_ordinary_sample_keeps_the_promise_in_f32() {
    let amplitudes = [1e-15, 1e-18, 1e-20, 1e-25, 1e-30, 1e-37, 1e-39, 1e-41, 1e-43, 3e-45];
    texture_keeps_the_promise(["f32", "f32>f64"], &amplitudes, &[1.0, 1e30]);
}

/// Images that have room for every engine: planes, lines and volumes, one sample far from most of the texture.
#[test]
fn texture_far_from_an_ordinary_sample_keeps_the_promise() {
    let singles = [1e-18, 1e-25, 1e-43].map(|amplitude| ("f32", amplitude));
    let doubles = [1e-158, 1e-161].map(|amplitude| ("f64", amplitude));
    in_threads(&[&singles[..], &doubles[..]].concat(), |&(dtype, amplitude)| {
        let image = beside(7, [130, 170], amplitude, 1.0);
        for (shapes, count) in [("130x170*9x8", 72), ("130x170*26x26", 676), ("22100*40", 40), ("13x34x50*4x6x5", 120)]
        {
            let template = &image[90 * 170 + 20..][..count];
            for op in ["zncc", "ncc", "nssd"] {
                for mode in ["valid", "same,constant(1.0)"] {
                    let spec = format!("{op}:{dtype}:{shapes}:{mode}");
                    keeps_the_promise(&format!("{amplitude:e} beside 1"), &spec, &image, template, None);
                }
            }
        }
    });
}

/// What lies outside may be all that is not black, and too small for a tile.
#[test]
fn a_faint_fill_keeps_the_promise() {
    let mut seed = Seed(10);
    let image: Vec<f64> = (0..20 * 24).map(|i| if i / 24 < 10 { 0.0 } else { seed.below(200) as f64 }).collect();
    let template: Vec<f64> = (0..15).map(|_| seed.below(200) as f64).collect();
    for fill in [1e-12, 1e-20, 1e-30, 1e-42, 1e-50, 1e-158, 1e-161, 1e-300, 5e-324] {
        for op in ["zncc", "ncc", "nssd"] {
            for types in ["u8", "u8>f64", "f32", "f64"] {
                keeps_the_promise(
                    "black",
                    &format!("{op}:{types}:20x24*3x5:full,constant({fill:e})"),
                    &image,
                    &template,
                    None,
                );
            }
        }
    }
}

/// The doubt about nssd is in proportion to the template's norm.
#[test]
fn faint_templates_keep_the_promise_beside_bright_samples() {
    let amplitudes = [1e-10, 1e-8, 1e-6, 1e-4, 1e3, 1e8];
    let cases: Vec<(&str, f64)> =
        ["f32", "f64"].into_iter().flat_map(|dtype| amplitudes.map(|amplitude| (dtype, amplitude))).collect();
    in_threads(&cases, |&(dtype, amplitude)| {
        let (width, mut seed) = (170, Seed(9));
        let image: Vec<f64> =
            (0..130 * width).map(|i| (if i % width < 60 { 1.0 } else { amplitude }) * (2.0 + seed.normal())).collect();
        let template = cut(&image, width, [90, 120], [9, 8]);
        for op in ["nssd", "ncc", "zncc"] {
            keeps_the_promise(
                &format!("{amplitude:e} beside 1"),
                &format!("{op}:{dtype}:130x170*9x8:valid"),
                &image,
                &template,
                None,
            );
        }
    });
}

/// Under masks, also of weights that are themselves near either end of the range.
#[test]
fn masked_texture_keeps_the_promise() {
    let cases: Vec<(&str, f64)> = [0.1, 1e-18, 1e-30, 1e-40, 1e-43]
        .map(|amplitude| ("f32", amplitude))
        .into_iter()
        .chain([0.1, 1e-150, 1e-158, 1e-161, 1e-163, 1e-300].map(|amplitude| ("f64", amplitude)))
        .collect();
    in_threads(&cases, |&(dtype, amplitude)| {
        let mut seed = Seed(11);
        let image = beside(8, [20, 24], amplitude, 1.0);
        let template = cut(&image, 24, [12, 14], [3, 5]);
        let ones: Vec<f64> = (0..15).map(|k| f64::from(u8::from(k == 3 || seed.below(3) > 0))).collect();
        let weights: Vec<f64> =
            (0..15).map(|k| if k != 3 && seed.below(3) == 0 { 0.0 } else { 0.1 + seed.unit() }).collect();
        let scaled = |gain: f64| weights.iter().map(|weight| gain * weight).collect::<Vec<f64>>();
        for (kind, mask) in [
            ("mask01", ones),
            ("maskw", weights.clone()),
            ("maskw", scaled(1e-310)),
            ("maskw", scaled(1e-200)),
            ("maskw", scaled(1e-9)),
            ("maskw", scaled(1e8)),
            ("maskw", scaled(1e300)),
        ] {
            for op in ["zncc", "ncc", "nssd"] {
                for accuracy in ["promised", "exact"] {
                    let spec = format!("{op}:{dtype}:20x24*3x5:full,{kind},acc={accuracy}");
                    keeps_the_promise(
                        &format!("{amplitude:e} under {:e}", mask[3]),
                        &spec,
                        &image,
                        &template,
                        Some(&mask),
                    );
                }
            }
        }
    });
}

/// A panel that equals the template differs from it by nothing, though the squares of its samples are more than the
/// result holds; where the differences are, too, an infinity says so.
#[test]
fn squared_differences_are_seen_beside_squares_that_overflow() {
    let cases: Vec<(&str, f64)> = [1e18, 3e19, 1e25, 1e37, 6e37]
        .map(|amplitude| ("f32", amplitude))
        .into_iter()
        .chain([1e152, 1e160, 1e300, 3e307].map(|amplitude| ("f64", amplitude)))
        .chain([1e25, 1e160].map(|amplitude| ("f64>f32", amplitude)))
        .collect();
    in_threads(&cases, |&(types, amplitude)| {
        let mut seed = Seed(14);
        for (shapes, mask) in [
            ("20x20*4x5:valid", None),
            ("20x20*4x5:full,reflect,channels=3", None),
            ("20x20*4x5:same,mask01", Some(false)),
            ("20x20*4x5:valid,maskw", Some(true)),
            ("130x150*9x8:valid", None),
            ("130x150*9x8:valid,acc=exact", None),
            ("130x150*26x26:valid,acc=fast", None),
            ("3000*40:full", None),
            ("13x34x50*4x6x5:valid", None),
        ] {
            let spec: Spec = format!("ssd:{}:{shapes}", types).parse().unwrap();
            let values: Vec<f64> =
                (0..spec.image().len() * spec.channels()).map(|_| amplitude * (seed.unit() - 0.4)).collect();
            let (template, from) = third_of(&spec, &values);
            let weights = weights_of(&spec, mask, &mut seed);
            squared_differences_are_right(&spec, &values, (&template, from), weights, |template| {
                let both = 2.0 * energy(template);
                if both > largest_result(&spec) { 0.0 } else { 1e-5 * both }
            });
        }
    });
}

/// What image and template have in common costs squared differences nothing: they are right to a part of what samples
/// vary by.
#[test]
fn squared_differences_follow_the_spread_under_a_large_mean() {
    let cases = [("f32", 6e4, 1.0), ("f32", -3e7, 900.0), ("f64", 1e9, 1.0), ("f64>f32", -1e9, 1.0)];
    in_threads(&cases, |&(types, mean, spread)| {
        let mut seed = Seed(15);
        for (shapes, mask) in [
            ("40x50*8x9:valid", None),
            ("40x50*8x9:full,reflect,channels=3", None),
            ("40x50*8x9:same,nearest,mask01", Some(false)),
            ("40x50*8x9:valid,maskw", Some(true)),
            ("130x150*26x26:valid,acc=exact", None),
            ("3000*40:valid", None),
            ("13x34x50*4x6x5:valid", None),
        ] {
            let spec: Spec = format!("ssd:{types}:{shapes}").parse().unwrap();
            // Channels with means of their own.
            let values: Vec<f64> = (0..spec.image().len() * spec.channels())
                .map(|k| mean * (1 + k % spec.channels()) as f64 + spread * seed.normal())
                .collect();
            let (template, from) = third_of(&spec, &values);
            let weights = weights_of(&spec, mask, &mut seed);
            let taps = spec.template().len() * spec.channels();
            let typical = 2.0 * spread * spread * taps as f64;
            squared_differences_are_right(&spec, &values, (&template, from), weights, |_| 1e-4 * typical);
        }
    });
}

/// Templates of one plan may be as bright as different parts of an image: each is taken less what it has in common with
/// its own, and scores as it does alone.
#[test]
fn templates_of_a_plan_have_their_own_offsets() {
    let mut seed = Seed(16);
    let bands = [6e4, 1e3, 6.03e4];
    let image: Vec<f32> = (0..60 * 50).map(|k| bands[k / (20 * 50)] + seed.normal() as f32).collect();
    let cut = |top: usize, left: usize| -> Vec<f32> {
        (0..8 * 9).map(|k| image[(top + k / 9) * 50 + left + k % 9]).collect()
    };
    let places = [[3, 5], [25, 31], [10, 40], [47, 2], [26, 12]];
    let templates = places.map(|[top, left]| Pixels::F32(cut(top, left)));
    let image = Pixels::F32(image);
    for text in ["ssd:f32:60x50*8x9:valid", "ssd:f32:60x50*8x9:valid,mask01"] {
        let spec: Spec = text.parse().unwrap();
        let mask = (spec.mask() != MaskKind::None)
            .then(|| Pixels::F64((0..72).map(|k| f64::from(u8::from(k % 5 > 0))).collect()));
        let spec = spec.with_templates(places.len()).unwrap();
        for machine in machines() {
            for (planner, kernel) in engines(&spec, &machine) {
                let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
                let view = |values, shape| AnyView::dense(values, shape, 1).unwrap();
                let views = templates.each_ref().map(|values| view(values, spec.template()));
                let mask = mask.as_ref().map(|mask| view(mask, spec.template()));
                let maps =
                    plan.execute(&[view(&image, spec.image())], &views, mask.as_ref().map(|mask| mask as _)).unwrap();
                for (map, [top, left]) in maps.iter().zip(places) {
                    let place = top * 42 + left;
                    assert!(map.get(place) < 3.0, "{kernel}, {top},{left}: {}", map.get(place));
                    let others = (0..map.shape().len()).filter(|&at| at != place);
                    let least = others.map(|at| map.get(at)).fold(f64::INFINITY, f64::min);
                    assert!(least > 30.0, "{kernel}, {top},{left}: {least}");
                }
            }
        }
    }
}

/// Sums of squares that a transform lost beside larger ones, or that vanish at the scale of a tile, do not pass for
/// sums that fit: panels that are too far apart for the result are no exact matches.
#[test]
fn sums_of_squares_that_drowned_do_not_fit() {
    let cases = [("f32", 1e20, 3e38, "valid"), ("f64>f32", 1e20, 1e200, "valid"), ("f32", 1e20, 1e200, "full")];
    in_threads(&cases, |&(types, amplitude, huge, mode)| {
        let mut seed = Seed(17);
        for mask in ["", ",mask01", ",maskw"] {
            let boundary = if mode == "full" { format!(",constant({huge:e})") } else { String::new() };
            let spec: Spec = format!("ssd:{types}:60x64*11x12:{mode}{boundary}{mask}").parse().unwrap();
            let mut values: Vec<f64> = (0..spec.image().len()).map(|_| amplitude * (0.1 + seed.unit())).collect();
            let (template, from) = third_of(&spec, &values);
            if mode == "valid" {
                (0..9).for_each(|k| values[(50 + k / 3) * 64 + 50 + k % 3] = huge);
            }
            let weights = weights_of(&spec, (!mask.is_empty()).then_some(mask == ",maskw"), &mut seed);
            squared_differences_are_right(&spec, &values, (&template, from), weights, |_| 0.0);
        }
    });
}

/// A sample that no panel has a weight for leaves nothing in the scores of transforms, at accuracy fast either.
#[test]
fn a_hidden_sample_leaves_no_trace_in_fast_scores() {
    let mut seed = Seed(18);
    let mut image: Vec<f64> = (0..201).map(|_| 2.0 * seed.unit()).collect();
    image[0] = 1e6;
    let template: Vec<f64> = (0..58).map(|_| seed.unit()).collect();
    let mask = Pixels::F64((0..58).map(|k| f64::from(u8::from(k > 0 && k % 3 != 1))).collect());
    for op in ["ncc", "zncc", "nssd"] {
        let spec: Spec = format!("{op}:f64:201*58:valid,mask01,acc=fast").parse().unwrap();
        let [image, template] = [&image, &template].map(|values| Pixels::F64(values.clone()));
        let judge = Judge::new(&spec, &image, &template, Some(&mask));
        for machine in machines() {
            for (planner, kernel) in engines(&spec, &machine) {
                let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
                let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
                let mask = view(&mask, spec.template());
                let maps =
                    plan.execute(&[view(&image, spec.image())], &[view(&template, spec.template())], Some(&mask));
                let map = maps.unwrap().remove(0);
                for (index, want) in judge.scores() {
                    let off = (map.get(index) - want).abs();
                    assert!(off <= 1e-12, "{spec} by {kernel} at {index}: {off:e}");
                }
            }
        }
    }
}

#[test]
fn a_small_difference_of_huge_samples_is_not_lost() {
    for (types, huge) in [("f32", 3e38), ("f64", 1.7e308), ("f64", 1e200)] {
        let spec: Spec = format!("ssd:{types}:6*5:valid").parse().unwrap();
        let pixels = |values: &[f64]| Pixels::F64(values.to_vec()).cast(spec.image_type());
        let image = pixels(&[huge, -huge, 1.0, huge, -huge, huge]);
        let template = pixels(&[huge, -huge, 67.0, huge, -huge]);
        for machine in machines() {
            for (planner, kernel) in engines(&spec, &machine) {
                let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
                let [image, template] = [(&image, spec.image()), (&template, spec.template())]
                    .map(|(pixels, shape)| AnyView::dense(pixels, shape, 1).unwrap());
                let map = plan.execute(&[image], &[template], None).unwrap().remove(0);
                assert_eq!([map.get(0), map.get(1)], [4356.0, f64::INFINITY], "{spec} by {kernel}");
            }
        }
    }
}

/// A template cut from an image at a third of the way, and where.
fn third_of(spec: &Spec, image: &[f64]) -> (Vec<f64>, [usize; 3]) {
    let (lengths, padded) = (spec.image().padded(), spec.template().padded());
    let from = [0, 1, 2].map(|axis| (lengths[axis] - padded[axis]) / 3);
    let sample = |k: usize| {
        let (k, channel) = (k / spec.channels(), k % spec.channels());
        let at = [k / (padded[1] * padded[2]), k / padded[2] % padded[1], k % padded[2]];
        let [z, y, x] = [0, 1, 2].map(|axis| from[axis] + at[axis]);
        image[((z * lengths[1] + y) * lengths[2] + x) * spec.channels() + channel]
    };
    ((0..spec.template().len() * spec.channels()).map(sample).collect(), from)
}

/// Weights, of 0 and 1 or of others, if a mask is wanted.
fn weights_of(spec: &Spec, mask: Option<bool>, seed: &mut Seed) -> Option<Vec<f64>> {
    mask.map(|weighted| {
        let weight = |seed: &mut Seed| if weighted { 0.1 + seed.unit() } else { 1.0 };
        (0..spec.template().len()).map(|_| if seed.below(4) == 0 { 0.0 } else { weight(seed) }).collect()
    })
}

fn energy(pixels: &Pixels) -> f64 {
    pixels.to_f64().iter().map(|value| value * value).sum()
}

fn largest_result(spec: &Spec) -> f64 {
    if spec.out_type() == DType::F64 { f64::MAX } else { f64::from(f32::MAX) }
}

/// `place`: where the template was cut from the image; `tolerance` of its values: what scores may be off by, above a
/// thousandth.
fn squared_differences_are_right(
    spec: &Spec,
    image: &[f64],
    (template, place): (&[f64], [usize; 3]),
    mask: Option<Vec<f64>>,
    tolerance: impl Fn(&Pixels) -> f64,
) {
    let image = Pixels::F64(image.to_vec()).cast(spec.image_type());
    let template = Pixels::F64(template.to_vec()).cast(spec.template_type());
    let mask = mask.map(Pixels::F64);
    let judge = Judge::new(spec, &image, &template, mask.as_ref());
    let (origin, padded) = (spec.region().origin, spec.template().padded());
    let cut_at = |index: &usize| {
        let position = spec.out_shape().position(*index);
        (0..3).all(|axis| origin[axis] + position[axis] == place[axis] + padded[axis] - 1)
    };
    let equal = (0..spec.out_shape().len()).find(cut_at).expect("the template lies in the image");
    assert_eq!(judge.at(equal), 0.0);
    let expected: Vec<(usize, f64)> = judge.scores().into_iter().chain([(equal, 0.0)]).collect();
    let most = largest_result(spec);
    let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
    let allowed = tolerance(&template);
    for machine in machines() {
        for (planner, kernel) in engines(spec, &machine) {
            let plan = planner.plan_with_kernel(spec, &kernel).unwrap();
            let mask = mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
            let map = plan
                .execute(
                    &[view(&image, spec.image())],
                    &[view(&template, spec.template())],
                    mask.as_ref().map(|mask| mask as _),
                )
                .unwrap()
                .remove(0);
            for &(index, want) in &expected {
                let got = map.get(index);
                let tolerance = 1e-3 * want + allowed;
                assert!(
                    if want > 0.999 * most { got >= 0.99 * most } else { (got - want).abs() <= tolerance },
                    "{spec} by {kernel} at {:?}: {got} for {want}",
                    spec.out_shape().position(index)
                );
            }
        }
    }
}

/// What one weight hides, another shows: the sample under the least weight may be the largest of its panel.
#[test]
fn weights_of_any_size_keep_the_promise() {
    let mut seed = Seed(12);
    for gain in [1e-100, 1e-200, 1e-300, 1e-320] {
        // Samples of a panel differ as much as the roots of the weights do.
        let image: Vec<f64> =
            (0..18 * 25).map(|i| seed.normal() * if i % 5 == 2 { 1.0 } else { f64::sqrt(gain) }).collect();
        let template: Vec<f64> =
            (0..15).map(|k| seed.normal() * if k % 5 == 2 { 1.0 } else { f64::sqrt(gain) }).collect();
        let mask: Vec<f64> = (0..15).map(|k| if k % 5 == 2 { gain } else { 0.5 + seed.unit() }).collect();
        for op in ["zncc", "ncc", "nssd"] {
            for accuracy in ["promised", "exact"] {
                let spec = format!("{op}:f64:18x25*3x5:valid,maskw,acc={accuracy}");
                keeps_the_promise(&format!("weights down to {gain:e}"), &spec, &image, &template, Some(&mask));
            }
        }
    }
}

/// Texture in one channel, nothing or as much in another, in scales of their own.
#[test]
fn channels_of_any_size_keep_the_promise() {
    let cases: Vec<(&str, f64)> = [1e-18, 1e-30, 1e-40, 1e-43]
        .map(|amplitude| ("f32", amplitude))
        .into_iter()
        .chain([1e-20, 1e-120, 1e-158, 1e-161, 1e-163, 1e-300, 1e-320].map(|amplitude| ("f64", amplitude)))
        .collect();
    in_threads(&cases, |&(dtype, amplitude)| {
        let mut seed = Seed(13);
        // The first channel is 0.1 but for a block of noise, or the same noise as the second in another scale.
        let images: [Vec<f64>; 3] = [0, 1, 2].map(|kind| {
            (0..20 * 24)
                .flat_map(|i| {
                    let first = match kind {
                        0 => 0.1,
                        1 if i % 24 < 4 => 0.1 + seed.normal(),
                        1 => 0.1,
                        _ => seed.normal(),
                    };
                    [first, amplitude * seed.normal()]
                })
                .collect()
        });
        for image in &images {
            let template: Vec<f64> = (12..15).flat_map(|y| image[2 * (y * 24 + 14)..][..2 * 5].to_vec()).collect();
            for op in ["zncc", "ncc", "nssd"] {
                for accuracy in ["promised", "exact"] {
                    let spec = format!("{op}:{dtype}:20x24*3x5:full,replicate,channels=2,acc={accuracy}");
                    keeps_the_promise(&format!("{amplitude:e} in one channel"), &spec, image, &template, None);
                }
            }
        }
    });
}

/// Sums whose samples are nothing to the type that tiles are computed in, and whose template makes up for it.
#[test]
fn sums_of_samples_too_small_for_a_tile_are_not_lost() {
    let mut seed = Seed(15);
    let noise: Vec<f64> = (0..12 * 40).map(|_| seed.normal()).collect();
    let template: Vec<f64> = (0..15).map(|_| seed.normal()).collect();
    let of = |values: &[f64], gain: f64| values.iter().map(|value| value * gain).collect::<Vec<f64>>();
    for (types, mode, image, taps) in [
        ("f64>f32", "valid", of(&noise, 1e-165), of(&template, 1e154)),
        ("f64>f32", "full,reflect", of(&noise, 1e-320), of(&template, 1e300)),
        (
            "f64>f32",
            "valid",
            of(&noise.iter().map(|value| value.signum()).collect::<Vec<f64>>(), 5e-324),
            of(&template, 1e300),
        ),
        ("f64>f64", "full,wrap", of(&noise, 1e-300), of(&template, 1e290)),
        ("f64>f32", "same,constant(1e-160)", of(&noise, 1e-161), of(&template, 1e150)),
        ("f64>f32", "full,constant(1e-160)", of(&noise, 0.0), of(&template, 1e150)),
        ("f32", "full,constant(1e-60)", of(&noise, 0.0), of(&template, 1e35)),
    ] {
        for op in ["corr", "conv"] {
            let spec: Spec = format!("{op}:{types}:12x40*3x5:{mode}").parse().unwrap();
            let (x, t) = (
                Pixels::F64(image.clone()).cast(spec.image_type()),
                Pixels::F64(taps.clone()).cast(spec.template_type()),
            );
            let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
            let expected = Oracle::new(&spec, &view(&x, spec.image()), &view(&t, spec.template()), None).unwrap().all();
            let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            assert!(largest > 0.0, "{spec}: nothing is expected");
            for machine in machines() {
                for (planner, kernel) in engines(&spec, &machine) {
                    let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
                    let map =
                        plan.execute(&[view(&x, spec.image())], &[view(&t, spec.template())], None).unwrap().remove(0);
                    for (index, want) in expected.iter().enumerate() {
                        assert!(
                            (map.get(index) - want).abs() <= 2e-6 * largest,
                            "{spec} by {kernel} at {index}: {} for {want}",
                            map.get(index)
                        );
                    }
                }
            }
        }
    }
}

/// Differences of samples that `f32` has no numbers for: 0 where the template lies, and else beyond the result's range.
#[test]
fn differences_beyond_the_range_of_results_are_infinite_and_none_is_lost() {
    let mut seed = Seed(16);
    let image: Vec<f64> = (0..12 * 40).map(|_| seed.normal() * 1e41).collect();
    let template: Vec<f64> = (0..15).map(|k| image[(4 + k / 5) * 40 + 9 + k % 5]).collect();
    let spec: Spec = "sad:f64>f32:12x40*3x5:valid".parse().unwrap();
    let (x, t) = (Pixels::F64(image), Pixels::F64(template));
    let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
    for machine in machines() {
        for (planner, kernel) in engines(&spec, &machine) {
            let plan = planner.plan_with_kernel(&spec, &kernel).unwrap();
            let map = plan.execute(&[view(&x, spec.image())], &[view(&t, spec.template())], None).unwrap().remove(0);
            for index in 0..spec.out_shape().len() {
                let want = if index == 4 * 36 + 9 { 0.0 } else { f64::INFINITY };
                assert_eq!(map.get(index), want, "{spec} by {kernel} at {index}");
            }
        }
    }
}

/// A floor that ordinary images reach would have them computed panel by panel.
#[test]
fn images_of_any_scale_are_computed_by_tiles() {
    let mut seed = Seed(14);
    let noise: Vec<f64> = (0..200 * 260).map(|_| 3.0 + seed.normal()).collect();
    for (dtype, scales) in [
        ("f32", &[1.0, 1e-12, 1e-13, 1e-30, 1e-36, 1e12, 1e30][..]),
        ("f64", &[1.0, 1e-30, 1e-60, 1e-61, 1e-160, 1e-290, 1e200]),
    ] {
        for op in ["zncc", "ncc", "nssd"] {
            let spec: Spec = format!("{op}:{dtype}:200x260*9x12:valid").parse().unwrap();
            for machine in machines() {
                for (planner, kernel) in engines(&spec, &machine) {
                    let repaired = |scale: f64| {
                        let pixels = |values: &[f64]| {
                            Pixels::F64(values.iter().map(|value| value * scale).collect()).cast(spec.image_type())
                        };
                        let (image, template) = (pixels(&noise), pixels(&cut(&noise, 260, [50, 60], [9, 12])));
                        let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
                        let matcher = planner
                            .plan_with_kernel(&spec, &kernel)
                            .unwrap()
                            .bind(&[view(&template, spec.template())], None)
                            .unwrap();
                        matcher.execute_with(&[view(&image, spec.image())], &Control::default()).unwrap().1.repaired
                    };
                    // The worst case of many separable terms leaves some in doubt at any scale.
                    if kernel.to_string().starts_with("separable") {
                        continue;
                    }
                    for &scale in scales {
                        assert_eq!(repaired(scale), 0, "{spec} by {kernel}, times {scale:e}");
                    }
                }
            }
        }
    }
}

/// Magnitudes of all kinds in one image: whatever is asked for of a result is the slice of the whole, bit for bit.
/// `FLCC_ROUNDS` has it try more problems than it does by itself.
#[test]
fn a_region_is_the_slice_of_the_whole_whatever_the_magnitudes() {
    let rounds = std::env::var("FLCC_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let seeds: Vec<u64> = (0..rounds).collect();
    in_threads(&seeds, |&number| {
        let mut seed = Seed(1000 + number);
        let dtype = if seed.below(4) == 0 { "f64" } else { "f32" };
        let op = seed.pick(&["corr", "corr", "corr", "conv", "zncc", "ncc", "ssd", "nssd"]);
        let mode = seed.pick(&[
            "valid",
            "full",
            "same,reflect",
            "full,constant(1e30)",
            "same,wrap",
            "full,mirror",
            "same,constant(1e-42)",
            "full,replicate",
        ]);
        let axes = 1 + seed.below(3);
        let (image, template): (Vec<usize>, Vec<usize>) = match axes {
            1 => (vec![30 + seed.below(3000)], vec![1 + seed.below(24)]),
            2 => (vec![4 + seed.below(150), 20 + seed.below(300)], vec![1 + seed.below(4), 1 + seed.below(20)]),
            _ => (
                vec![3 + seed.below(12), 6 + seed.below(30), 16 + seed.below(60)],
                vec![1 + seed.below(3), 1 + seed.below(5), 2 + seed.below(7)],
            ),
        };
        let text = format!("{op}:{dtype}:{}*{}:{mode}", join(&image, "x"), join(&template, "x"));
        let spec: Spec = text.parse().unwrap();
        let ends = if dtype == "f32" { [3.3e38, 1e-45, 1e-40] } else { [1.7e308, 5e-324, 1e-310] };
        let all = [ends[0], -ends[0], 1e30, -1e12, 1e13, 1.0, 0.0, 1e-12, 1e-13, 1e-30, ends[1], -ends[2]];
        // Mostly noise in one scale, or zeros, and of others some.
        let (common, rare) = (seed.pick(&[1.0, 0.0, 1e-13, 1e-30, 1e12, 1e30, ends[2]]), 1 + seed.below(400));
        let others = [seed.pick(&all), seed.pick(&all), seed.pick(&all)];
        let sample = |seed: &mut Seed| if seed.below(rare) == 0 { seed.pick(&others) } else { common * seed.normal() };
        let values: Vec<f64> = (0..spec.image().len()).map(|_| sample(&mut seed)).collect();
        let gain = seed.pick(&[1.0, 1.0, 1.0, 1e-20, 1e20]);
        let taps: Vec<f64> = (0..spec.template().len())
            .map(|_| if seed.below(5) == 0 { 0.0 } else { gain * seed.normal() })
            .chain([gain])
            .collect();
        let taps: Vec<f64> = taps[taps.len() - spec.template().len()..].to_vec();
        if spec.op().measure() == Measure::Zncc && spec.template().len() == 1 {
            return;
        }
        let (image, template) =
            (Pixels::F64(values).cast(spec.image_type()), Pixels::F64(taps).cast(spec.template_type()));
        let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
        let (image, template) = (view(&image, spec.image()), view(&template, spec.template()));
        let machine = seed.pick(&[0, 0, 1, 2]);
        let machines = machines();
        for (planner, kernel) in engines(&spec, &machines[machine.min(machines.len() - 1)]) {
            let whole = planner
                .plan_with_kernel(&spec, &kernel)
                .unwrap()
                .execute(&[image], &[template], None)
                .unwrap()
                .remove(0);
            let inside = spec.region();
            let (lengths, padded) = (inside.shape.lengths().to_vec(), inside.shape.padded());
            for _ in 0..4 {
                let size: Vec<usize> = lengths.iter().map(|&length| 1 + seed.below(length)).collect();
                let from: Vec<usize> =
                    lengths.iter().zip(&size).map(|(&length, &size)| seed.below(length - size + 1)).collect();
                let at: Vec<usize> =
                    from.iter().zip(&inside.origin[3 - axes..]).map(|(from, origin)| from + origin).collect();
                let part_spec = spec
                    .clone()
                    .with_roi(Some(format!("{}:{}", join(&at, ","), join(&size, "x")).parse().unwrap()))
                    .unwrap();
                let part = planner
                    .plan_with_kernel(&part_spec, &kernel)
                    .unwrap()
                    .execute(&[image], &[template], None)
                    .unwrap()
                    .remove(0);
                for index in 0..part.shape().len() {
                    let position = part_spec.out_shape().position(index);
                    let begin = |axis: usize| if axis + axes < 3 { 0 } else { from[axis + axes - 3] };
                    let [z, y, x] = [0, 1, 2].map(|axis| begin(axis) + position[axis]);
                    let (got, want) = (part.get(index), whole.get((z * padded[1] + y) * padded[2] + x));
                    let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                    assert!(same, "{number}: {part_spec} by {kernel} at {position:?}: {got:?} for {want:?}");
                }
            }
        }
    });
}
