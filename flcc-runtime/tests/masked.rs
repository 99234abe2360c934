//! Matching under a mask of the image, held against the oracle panel by panel: each panel is a problem of its own
//! there, with the weights that both masks leave.

mod common;

use common::Seed;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{
    AnyView, Boundary, Control, DType, ExecError, Kind, Masked, MaskedOptions, Measure, Mode, Pixels, PlanError,
    Planner, ScoreMap, Shape, Spec, View, mask_kind, match_masked,
};

const MEASURES: [Measure; 6] = [Measure::Zncc, Measure::Ncc, Measure::Nssd, Measure::Cc, Measure::Ssd, Measure::Sad];

/// A problem with its arrays, interleaved by channel.
#[derive(Clone)]
struct Problem {
    spec: Spec,
    image: Pixels,
    known: Pixels,
    template: Pixels,
    mask: Option<Pixels>,
    outside_unknown: bool,
    min_overlap: f64,
}

impl Problem {
    fn new(spec: &str, image: &[f64], known: &[f64], template: &[f64]) -> Problem {
        let spec: Spec = spec.parse().unwrap();
        Problem {
            image: Pixels::F64(image.to_vec()).cast(spec.image_type()),
            known: Pixels::F64(known.to_vec()),
            template: Pixels::F64(template.to_vec()).cast(spec.template_type()),
            mask: None,
            outside_unknown: false,
            min_overlap: 0.0,
            spec,
        }
    }

    fn view<'a>(pixels: &'a Pixels, shape: Shape, channels: usize) -> AnyView<'a> {
        AnyView::dense(pixels, shape, channels).unwrap()
    }

    fn with<R>(&self, run: impl FnOnce(&Masked<'_>) -> R) -> R {
        let (spec, channels) = (&self.spec, self.spec.channels());
        let mask = self.mask.as_ref().map(|mask| Problem::view(mask, spec.template(), 1));
        let masked = Masked {
            image: Problem::view(&self.image, spec.image(), channels),
            image_mask: Some(Problem::view(&self.known, spec.image(), 1)),
            templates: &[Problem::view(&self.template, spec.template(), channels)],
            mask: mask.as_ref(),
            outside_unknown: self.outside_unknown,
            min_overlap: self.min_overlap,
        };
        run(&masked)
    }

    fn try_run(&self, threads: usize) -> Result<ScoreMap, ExecError> {
        let planner = Planner::new().unwrap().threads(threads);
        let run = |masked: &Masked<'_>| masked.execute(&self.spec, &planner, &Control::default());
        self.with(run).map(|(mut maps, _)| maps.remove(0))
    }

    fn run(&self) -> ScoreMap {
        self.try_run(2).unwrap()
    }

    /// The value of a position by the oracle, the norms of its panel and template under its weights, and whether it is
    /// what a degenerate panel has.
    fn expected(&self, image: &[f64], template: &[f64], index: usize) -> (f64, [f64; 2], bool) {
        let (spec, channels) = (&self.spec, self.spec.channels());
        let (first, window) = (spec.region().first_place(spec.template()), spec.template().padded());
        let (lengths, position) = (spec.image().padded(), spec.out_shape().position(index));
        let Pixels::F64(known) = &self.known else { unreachable!() };
        let own = |k: usize| match &self.mask {
            None => 1.0,
            Some(Pixels::F64(mask)) => mask[k],
            Some(_) => unreachable!(),
        };
        let (mut weights, mut panel) = (Vec::new(), Vec::new());
        for k in 0..spec.template().len() {
            let step = [k / window[2] / window[1], k / window[2] % window[1], k % window[2]];
            let place: Option<Vec<usize>> = (0..3)
                .map(|axis| {
                    let at = first[axis] as isize + (position[axis] + step[axis]) as isize;
                    spec.boundary().fold(at, lengths[axis])
                })
                .collect();
            match place {
                Some(at) => {
                    let at = (at[0] * lengths[1] + at[1]) * lengths[2] + at[2];
                    weights.push(own(k) * known[at]);
                    panel.extend_from_slice(&image[at * channels..][..channels]);
                }
                None => {
                    weights.push(if self.outside_unknown { 0.0 } else { own(k) });
                    panel.extend(std::iter::repeat_n(spec.boundary().value().unwrap(), channels));
                }
            }
        }
        let measure = spec.op().measure();
        let normalised = measure.row().normalised;
        let empty = if measure == Measure::Nssd { 1.0 } else { 0.0 };
        let used: Vec<usize> = (0..panel.len()).filter(|k| weights[k / channels] > 0.0).collect();
        let norm = |values: &[f64]| used.iter().map(|&k| weights[k / channels] * values[k].powi(2)).sum::<f64>().sqrt();
        let norms = [norm(&panel), norm(template)];
        if used.iter().any(|&k| !panel[k].is_finite()) {
            return (f64::NAN, norms, false);
        }
        let total: f64 = (0..spec.template().len()).map(own).sum();
        let enough = weights.iter().sum::<f64>() >= self.min_overlap * total * (1.0 - 1e-9);
        let degenerate = |values: &[f64]| match measure {
            Measure::Zncc => (0..channels).all(|channel| {
                let mut of_channel = used.iter().filter(|&&k| k % channels == channel).map(|&k| values[k]);
                let first = of_channel.next();
                of_channel.all(|value| Some(value) == first)
            }),
            _ => used.iter().all(|&k| values[k] == 0.0),
        };
        if used.is_empty() || normalised && (!enough || degenerate(&panel) || degenerate(template)) {
            return (empty, norms, true);
        }
        let text = format!("{}:f64:{}*{}:valid,maskw", spec.op(), spec.template(), spec.template());
        let own: Spec = text.parse().unwrap();
        let own = own.with_channels(channels).unwrap();
        let [panel, template, weights] = [panel, template.to_vec(), weights].map(Pixels::F64);
        let weights = Problem::view(&weights, spec.template(), 1);
        let [panel, template] = [&panel, &template].map(|values| Problem::view(values, spec.template(), channels));
        (Oracle::new(&own, &panel, &template, Some(&weights)).unwrap().at(0), norms, false)
    }

    /// Holds some positions of a result against the oracle: all of them where `every` is 1.
    fn check(&self, name: &str, every: usize) {
        let (map, spec) = (self.run(), &self.spec);
        let double = spec.out_type() == DType::F64;
        let indices = (0..spec.out_shape().len()).step_by(every);
        let [image, template] = [&self.image, &self.template].map(|pixels| match pixels.clone().cast(DType::F64) {
            Pixels::F64(samples) => samples,
            _ => unreachable!(),
        });
        let expected: Vec<(f64, [f64; 2], bool)> =
            indices.clone().map(|index| self.expected(&image, &template, index)).collect();
        let largest = |of: usize| expected.iter().map(|(_, norms, _)| norms[of]).fold(0.0, f64::max);
        let unit = if double { 2f64.powi(-53) } else { 2f64.powi(-24) };
        let n = (spec.template().len() * spec.channels()) as f64;
        let granted = 3.0 * (16.0 + n.sqrt()) * unit;
        let tolerance = match spec.op().measure() {
            measure if measure.row().normalised => {
                if double {
                    1e-11
                } else {
                    1e-5
                }
            }
            Measure::Cc => granted * largest(0) * largest(1),
            Measure::Sad => granted * n.sqrt() * (largest(0) + largest(1)),
            _ => granted * (largest(0) + largest(1)).powi(2),
        };
        for (index, (expected, _, degenerate)) in indices.zip(&expected) {
            let got = map.get(index);
            let same = got.is_nan() && expected.is_nan() || (got - expected).abs() <= tolerance;
            assert!(same, "{name}, {spec}, index {index}: expected {expected}, got {got}, tolerance {tolerance}");
            assert!(!degenerate || got == *expected, "{name}, {spec}, index {index}: expected {expected}, got {got}");
        }
    }
}

/// Zeros for `none` of 8 samples, else ones, or weights.
fn known(seed: &mut Seed, count: usize, none: usize, weights: bool) -> Vec<f64> {
    let one = |seed: &mut Seed| if weights { 0.05 + 3.0 * seed.unit() } else { 1.0 };
    (0..count).map(|_| if seed.below(8) < none { 0.0 } else { one(seed) }).collect()
}

#[test]
fn random_problems_agree_with_the_oracle() {
    let mut seed = Seed(71);
    for number in 0..400 {
        let axes = 1 + seed.below(3);
        let measure = MEASURES[number % 6];
        let most = [40, 14, 8][axes - 1];
        let lengths = |seed: &mut Seed, from: usize, to: usize| -> Vec<usize> {
            (0..axes).map(|_| from + seed.below(to - from)).collect()
        };
        let (image, template) = (lengths(&mut seed, most / 2, most), lengths(&mut seed, 1, most / 2));
        let text = |lengths: &[usize]| lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        let types = seed.pick(&["u8", "u16", "f32", "f64", "u8/f64", "f32>f64", "f64>f32"]);
        let mode = seed.pick(&["valid", "same", "full"]);
        let boundary = seed.pick(&["zero", "constant(2.5)", "replicate", "reflect", "mirror", "wrap"]);
        let mask = seed.pick(&["", ",mask01", ",maskw"]);
        let channels = seed.pick(&[1, 1, 3]);
        let (image, template) = (text(&image), text(&template));
        let spec = format!("{measure}:{types}:{image}*{template}:{mode},{boundary}{mask},channels={channels}");
        let spec: Spec = spec.parse().unwrap();
        let count = spec.image().len();
        let (none, weights) = (seed.below(8), seed.below(2) == 0);
        let mut template = seed.pixels(spec.template().len() * channels, spec.template_type(), 1.0);
        if spec.template().len() < 2 {
            template = Pixels::F64(vec![3.0; channels]).cast(spec.template_type());
        }
        let problem = Problem {
            image: seed.pixels(count * channels, spec.image_type(), 3.0),
            known: Pixels::F64(known(&mut seed, count, none, weights)),
            template,
            mask: spec.mask().ne(&flcc_runtime::MaskKind::None).then(|| {
                let mut weights = known(&mut seed, spec.template().len(), 3, mask == ",maskw");
                (weights[0], weights[spec.template().len() - 1]) = (1.0, 1.0);
                Pixels::F64(weights)
            }),
            outside_unknown: seed.below(4) == 0 && spec.boundary().value().is_some(),
            min_overlap: seed.pick(&[0.0, 0.0, 0.3, 0.75, 1.0]),
            spec,
        };
        match problem.try_run(1) {
            Ok(_) => problem.check(&format!("problem {number}"), 1),
            Err(ExecError::Spec(error)) => assert_eq!(error.kind, Kind::ConstantTemplate, "{}", problem.spec),
            Err(error) => panic!("{}: {error}", problem.spec),
        }
    }
}

/// An image of several blocks, some of which are known, unknown, and both.
#[test]
fn blocks_agree_with_the_oracle_and_threads_change_no_bit() {
    let mut seed = Seed(72);
    let samples: Vec<f64> = (0..600 * 500).map(|_| (100.0 + 20.0 * seed.normal()).round()).collect();
    let mut some = vec![1.0; 600 * 500];
    for (index, weight) in some.iter_mut().enumerate() {
        let (y, x) = (index / 500, index % 500);
        if y >= 300 && (x < 250 || seed.below(10) == 0) || (y as f64 - 90.0).hypot(x as f64 - 120.0) < 60.0 {
            *weight = 0.0;
        }
    }
    let template: Vec<f64> = (0..19 * 23).map(|_| (90.0 + 30.0 * seed.normal()).round()).collect();
    for measure in MEASURES {
        for (types, mask) in [("u8", false), ("f32", true), ("f64", false)] {
            let text = format!("{measure}:{types}:600x500*19x23:same,reflect{}", if mask { ",mask01" } else { "" });
            let mut problem = Problem::new(&text, &samples, &some, &template);
            problem.mask = mask.then(|| Pixels::F64((0..19 * 23).map(|k| f64::from(k % 5 > 0)).collect()));
            problem.check("blocks", 397);
            assert_eq!(problem.try_run(1).unwrap(), problem.try_run(3).unwrap(), "{text}");
        }
    }
}

#[test]
fn a_block_by_itself_has_the_bits_of_the_whole() {
    let mut seed = Seed(76);
    let (height, width) = (430, 390);
    let samples: Vec<f64> = (0..height * width).map(|_| seed.normal()).collect();
    let mut weights = known(&mut seed, height * width, 2, true);
    // The largest lies in one block alone, where it is twice those of the others: roots of sums round differently.
    weights[height * width - 1] = 5.0;
    let template: Vec<f64> = (0..9 * 12).map(|_| seed.normal()).collect();
    for measure in MEASURES {
        let whole = Problem::new(&format!("{measure}:f64:430x390*9x12:valid"), &samples, &weights, &template);
        let (map, lengths) = (whole.run(), whole.spec.out_shape().lengths().to_vec());
        let block = Masked::block(&whole.spec).unwrap().lengths().to_vec();
        assert!(block[0] < lengths[0] && block[1] < lengths[1]);
        for (y, x) in [(0, 0), (block[0], 0), (0, block[1]), (block[0], block[1])] {
            let kept = [block[0].min(lengths[0] - y), block[1].min(lengths[1] - x)];
            let rows: Vec<usize> = (0..block[0] + 8).map(|step| y + step.min(kept[0] + 7)).collect();
            let columns: Vec<usize> = (0..block[1] + 11).map(|step| x + step.min(kept[1] + 10)).collect();
            let cut = |all: &[f64]| -> Vec<f64> {
                rows.iter().flat_map(|row| columns.iter().map(move |column| all[row * width + column])).collect()
            };
            let text = format!("{measure}:f64:{}x{}*9x12:valid", rows.len(), columns.len());
            let part = Problem::new(&text, &cut(&samples), &cut(&weights), &template);
            let mut found = ScoreMap::of(&part.spec);
            part.with(|masked| {
                let planner = Planner::new().unwrap().threads(1);
                masked.execute_part(&part.spec, 5.0, &mut [found.view_mut()], &planner, &Control::default())
            })
            .unwrap();
            for (row, column) in (0..kept[0]).flat_map(|row| (0..kept[1]).map(move |column| (row, column))) {
                let due = map.get((y + row) * lengths[1] + x + column);
                assert_eq!(found.get(row * block[1] + column), due, "{measure} {y} {x} {row} {column}");
            }
        }
    }
}

#[test]
fn ones_are_no_mask() {
    let mut seed = Seed(73);
    let image: Vec<f64> = (0..50 * 60).map(|_| (100.0 + 20.0 * seed.normal()).round()).collect();
    let template: Vec<f64> = (0..7 * 9).map(|_| (100.0 + 20.0 * seed.normal()).round()).collect();
    for measure in MEASURES {
        for types in ["u8", "f32", "f64"] {
            for mode in ["valid", "same,constant(7)", "full", "full,mirror"] {
                let problem =
                    Problem::new(&format!("{measure}:{types}:50x60*7x9:{mode}"), &image, &[1.0; 3000], &template);
                let view = Problem::view;
                let plan = Planner::new().unwrap().plan(&problem.spec).unwrap();
                let image = view(&problem.image, problem.spec.image(), 1);
                let plain =
                    plan.execute(&[image], &[view(&problem.template, problem.spec.template(), 1)], None).unwrap();
                let masked = problem.run();
                let most = if measure.row().normalised {
                    1.0
                } else {
                    (0..masked.shape().len()).map(|at| plain[0].get(at).abs()).fold(0.0, f64::max)
                };
                let tolerance = if types == "f64" { 1e-11 } else { 1e-5 } * most;
                for at in 0..masked.shape().len() {
                    let (one, other) = (masked.get(at), plain[0].get(at));
                    assert!((one - other).abs() <= tolerance, "{}: {one} {other}", problem.spec);
                }
            }
        }
    }
}

#[test]
fn what_is_unknown_does_not_matter() {
    let mut seed = Seed(74);
    let image: Vec<f64> = (0..90 * 70).map(|_| 100.0 + 20.0 * seed.normal()).collect();
    let some = known(&mut seed, 90 * 70, 2, false);
    let template: Vec<f64> = (0..8 * 5).map(|_| 100.0 + 20.0 * seed.normal()).collect();
    for measure in MEASURES {
        let clean = Problem::new(&format!("{measure}:f32:90x70*8x5:full,replicate"), &image, &some, &template);
        for other in [f64::NAN, f64::INFINITY, 1e30, -1e30] {
            let spoilt: Vec<f64> =
                image.iter().zip(&some).map(|(&value, &weight)| if weight > 0.0 { value } else { other }).collect();
            let spoilt = Problem { image: Pixels::F64(spoilt).cast(DType::F32), ..clean.clone() };
            assert_eq!(clean.run(), spoilt.run(), "{measure} {other}");
        }
        clean.check("clean", 7);
    }
}

/// What image and template have in common costs squared differences nothing.
#[test]
fn squared_differences_follow_the_spread_under_a_large_mean() {
    let mut seed = Seed(77);
    let image: Vec<f64> = (0..90 * 80).map(|_| 1e9 + seed.normal()).collect();
    let some = known(&mut seed, 90 * 80, 2, false);
    let weights = known(&mut seed, 90 * 80, 1, true);
    let template: Vec<f64> = (0..11 * 9).map(|k| image[(31 + k / 9) * 80 + 38 + k % 9]).collect();
    for (known, mask, mode) in [(&some, false, "valid"), (&weights, true, "valid"), (&weights, false, "full,reflect")] {
        let text = format!("ssd:f64:90x80*11x9:{mode}{}", if mask { ",mask01" } else { "" });
        let mut problem = Problem::new(&text, &image, known, &template);
        problem.mask = mask.then(|| Pixels::F64((0..99).map(|k| f64::from(k % 3 > 0)).collect()));
        let map = problem.run();
        let place = if mode == "valid" { 31 * 72 + 38 } else { 41 * 88 + 46 };
        assert!(map.get(place) < 1e-9, "{text}: {}", map.get(place));
        assert!((0..map.shape().len()).all(|at| at == place || map.get(at) > 1e-3), "{text}");
    }
}

/// A panel that equals the template differs from it by nothing, though its squares are more than the result holds.
#[test]
fn squared_differences_are_seen_beside_squares_that_overflow() {
    let mut seed = Seed(76);
    let mut noise: Vec<f64> = (0..90 * 80).map(|_| seed.unit() - 0.4).collect();
    let some = known(&mut seed, 90 * 80, 2, false);
    let weights = known(&mut seed, 90 * 80, 1, true);
    for (types, scale, bright) in [
        ("f32", 3e19, 1.0),
        ("f32", 1e38, 1.0),
        ("f64", 1e160, 1.0),
        ("f64", 1e300, 1.0),
        // Sums of the others drown in those of these samples.
        ("f32", 1e20, 3e18),
        ("f64", 1e160, 1e100),
    ] {
        (0..9).for_each(|k| noise[(75 + k / 3) * 80 + 5 + k % 3] = bright);
        let image: Vec<f64> = noise.iter().map(|value| scale * value).collect();
        let template: Vec<f64> = (0..11 * 9).map(|k| image[(31 + k / 9) * 80 + 38 + k % 9]).collect();
        for known in [&some, &weights] {
            for mask in [false, true] {
                let text = format!("ssd:{types}:90x80*11x9:valid{}", if mask { ",mask01" } else { "" });
                let mut problem = Problem::new(&text, &image, known, &template);
                problem.mask = mask.then(|| Pixels::F64((0..99).map(|k| f64::from(k % 3 > 0)).collect()));
                let map = problem.run();
                assert_eq!(map.get(31 * 72 + 38), 0.0, "{text}, {scale:e}");
                assert!((0..map.shape().len()).all(|at| at == 31 * 72 + 38 || map.get(at) > 0.0), "{text}, {scale:e}");
            }
        }
    }
}

/// A tap that no panel has a weight for is no measure of the differences of the others.
#[test]
fn absolute_differences_are_seen_beside_samples_that_are_unknown() {
    let image: Vec<f64> = (0..40).map(|at| 1e-300 * (1.0 + f64::from(at % 7))).collect();
    let known: Vec<f64> = (0..40).map(|at| if at == 13 { 0.0 } else { 1.0 }).collect();
    for (huge, opposite) in [(1e300, 1e-300), (f64::MAX, -f64::MAX)] {
        let mut samples = image.clone();
        samples[30] = opposite;
        let map = Problem::new("sad:f64:40*3:valid", &samples, &known, &[0.0, huge, 0.0]).run();
        assert!((map.get(12) - (image[12] + image[14])).abs() < 1e-314, "{huge}: {}", map.get(12));
        assert!((map.get(20) / huge - 1.0).abs() < 1e-14, "{huge}: {}", map.get(20));
        // The largest difference there is, which is more than f64 holds.
        assert_eq!(map.get(29).is_infinite(), huge == f64::MAX, "{huge}: {}", map.get(29));
    }
    // Weights alone take the sums out of range: that is no reason to look at the samples again.
    for (huge, difference) in [(f64::MAX, 1.0), (1e301, 1e-150)] {
        let mut samples = vec![difference; 40];
        (samples[30], samples[31]) = (huge, -huge);
        let mut problem = Problem::new("sad:f64:40*3:valid,maskw", &samples, &[1e308; 40], &[0.0, 0.0, 0.0]);
        problem.mask = Some(Pixels::F64(vec![1e308; 3]));
        assert_eq!(problem.run().get(10), f64::INFINITY, "{huge}");
    }
}

/// Contents that are made to hurt, of images that a tile of ordinary rounding would spoil.
#[test]
fn hard_images_keep_the_promise() {
    let mut seed = Seed(75);
    let count = 90 * 80;
    let noise: Vec<f64> = (0..count).map(|_| seed.normal()).collect();
    let some = known(&mut seed, count, 2, false);
    let weights = known(&mut seed, count, 1, true);
    let bright = |mut image: Vec<f64>| {
        image[33 * 80 + 41] += 1e6;
        image
    };
    let each =
        |f: &dyn Fn(usize, f64) -> f64| noise.iter().enumerate().map(|(at, &value)| f(at, value)).collect::<Vec<f64>>();
    let images = [
        ("an offset", each(&|_, value| 60000.0 + value)),
        ("an offset of whole numbers", each(&|_, value| (60000.0 + value).round())),
        ("a bright sample", bright(each(&|_, value| 60000.0 + value))),
        ("halves", each(&|at, value| if at % 80 < 40 { 5.0 } else { value })),
        ("two levels", each(&|_, value| if value > 0.7 { 250.0 } else { 3.0 })),
        ("faint halves", each(&|at, value| if at % 80 < 40 { 1e-9 * value } else { 1e9 * value })),
        ("tiny", each(&|_, value| 1e-36 * value)),
        ("huge", each(&|_, value| 1e36 * value)),
        ("a ramp", each(&|at, value| 1e4 * at as f64 + value)),
        ("constant", each(&|_, _| 0.1)),
    ];
    for (name, image) in &images {
        for known in [&some, &weights] {
            for measure in [Measure::Zncc, Measure::Ncc, Measure::Nssd] {
                for types in ["f32", "f64"] {
                    let cut: Vec<f64> = (0..11 * 9).map(|k| image[(31 + k / 9) * 80 + 38 + k % 9]).collect();
                    let template = if *name == "constant" { noise[..99].to_vec() } else { cut };
                    for mask in [false, true] {
                        let text = format!("{measure}:{types}:90x80*11x9:valid{}", if mask { ",mask01" } else { "" });
                        let mut problem = Problem::new(&text, image, known, &template);
                        problem.mask = mask.then(|| Pixels::F64((0..99).map(|k| f64::from(k % 3 > 0)).collect()));
                        problem.check(name, 1);
                    }
                }
            }
        }
    }
    for (name, scale) in [("1e-160", 1e-160), ("1e150", 1e150), ("1e-310", 1e-310), ("1e307", 1e307)] {
        let image: Vec<f64> = noise.iter().map(|value| scale * value).collect();
        let template: Vec<f64> = image[1000..1099].to_vec();
        for measure in [Measure::Zncc, Measure::Ncc, Measure::Nssd] {
            Problem::new(&format!("{measure}:f64:90x80*11x9:same,mirror"), &image, &some, &template).check(name, 1);
        }
    }
    // Tiny where it is looked at, beside something huge.
    let image: Vec<f64> =
        noise.iter().enumerate().map(|(at, value)| value * if at % 80 < 40 { 1e-200 } else { 1e200 }).collect();
    Problem::new("zncc:f64:90x80*11x9:valid", &image, &some, &noise[..99]).check("tiny and huge", 1);
    // Weights of all magnitudes.
    let weights: Vec<f64> =
        some.iter().enumerate().map(|(at, weight)| weight * 10f64.powi(at as i32 % 80 - 40)).collect();
    Problem::new("zncc:f64:90x80*11x9:valid", &noise, &weights, &noise[..99]).check("weights", 1);
    let weights: Vec<f64> = some.iter().map(|weight| weight * 1e-300).collect();
    let mut faint = Problem::new("zncc:f64:90x80*11x9:valid,maskw", &noise, &weights, &noise[..99]);
    faint.mask = Some(Pixels::F64(vec![1e-7; 99]));
    faint.check("faint weights", 1);
    // Weights as far apart as they may be, of image and template: none is taken for 0, and no bound vanishes.
    let apart = |at: usize, half: usize, low: f64| if at % half < half / 2 { 1.0 } else { low };
    let weights: Vec<f64> =
        weights.iter().enumerate().map(|(at, weight)| (weight > &0.0) as u8 as f64 * apart(at, 80, 1e-90)).collect();
    for measure in [Measure::Zncc, Measure::Ncc, Measure::Nssd] {
        for low in [1.0, 1e-90] {
            let mut problem =
                Problem::new(&format!("{measure}:f64:90x80*11x9:valid,maskw"), &noise, &weights, &noise[..99]);
            problem.mask = Some(Pixels::F64((0..99).map(|k| apart(k, 9, low)).collect()));
            problem.check("weights far apart", 1);
        }
    }
    // The same with a template that is constant where its weights are not faint.
    let template: Vec<f64> = (0..99).map(|k| if k % 9 < 4 { 2.0 } else { noise[k] }).collect();
    let mut problem = Problem::new("zncc:f64:90x80*11x9:valid,maskw", &noise, &weights, &template);
    problem.mask = Some(Pixels::F64((0..99).map(|k| apart(k, 9, 1e-90)).collect()));
    problem.check("constant but for faint samples", 1);
}

#[test]
fn a_fraction_outside_is_not_rounded_away() {
    let (image, template) = ([10u8; 3], [1u8, 2, 2]);
    let line = Shape::new(&[3]).unwrap();
    let [image, template] = [&image, &template].map(|samples| View::new(samples, line).unwrap());
    let ones = View::new(&[1u8; 3], line).unwrap();
    let boundary = Boundary::Constant(2.5);
    let options = MaskedOptions { mode: Mode::Same, boundary, ..MaskedOptions::default() };
    let map = match_masked(&image, &ones, &template, Measure::Cc, &options).unwrap();
    assert_eq!([map.get(0), map.get(1), map.get(2)], [42.5, 50.0, 35.0]);
    let map = match_masked(&image, &ones, &template, Measure::Ssd, &options).unwrap();
    assert_eq!(map.get(0), 1.5 * 1.5 + 64.0 + 64.0);
}

#[test]
fn what_is_not_finite_reaches_exactly_what_touches_it() {
    let mut seed = Seed(76);
    let mut image: Vec<f64> = (0..40 * 50).map(|_| seed.normal()).collect();
    (image[20 * 50 + 30], image[7 * 50 + 9], image[30 * 50 + 5]) = (f64::NAN, f64::INFINITY, f64::NAN);
    let mut some = vec![1.0; 2000];
    some[30 * 50 + 5] = 0.0;
    let template: Vec<f64> = (0..35).map(|_| seed.normal()).collect();
    for measure in MEASURES {
        for (mask, touched) in [(false, 70), (true, 2 * 23)] {
            let text = format!("{measure}:f32:40x50*5x7:same{}", if mask { ",mask01" } else { "" });
            let mut problem = Problem::new(&text, &image, &some, &template);
            problem.mask = mask.then(|| Pixels::F64((0..35).map(|k| f64::from(k % 3 > 0)).collect()));
            let map = problem.run();
            let bad = (0..2000).filter(|&at| map.get(at).is_nan()).count();
            assert_eq!(bad, touched, "{text}");
            problem.check("not finite", 1);
        }
    }
}

#[test]
fn integers_have_exact_sums() {
    let mut seed = Seed(77);
    for (types, most) in [("u8>f64", 255.0), ("u16>f64", 65535.0)] {
        let samples =
            |seed: &mut Seed, count: usize| -> Vec<f64> { (0..count).map(|_| (most * seed.unit()).round()).collect() };
        let (image, template) = (samples(&mut seed, 70 * 90), samples(&mut seed, 16 * 16));
        let some = known(&mut seed, 70 * 90, 3, false);
        for measure in [Measure::Cc, Measure::Ssd, Measure::Sad] {
            let map = Problem::new(&format!("{measure}:{types}:70x90*16x16:valid"), &image, &some, &template).run();
            for at in 0..55 * 75 {
                let term = |k: usize| {
                    let from = (at / 75 + k / 16) * 90 + at % 75 + k % 16;
                    let (p, t, w) = (image[from] as i64, template[k] as i64, some[from] as i64);
                    w * match measure {
                        Measure::Cc => p * t,
                        Measure::Ssd => (p - t).pow(2),
                        _ => (p - t).abs(),
                    }
                };
                assert_eq!(map.get(at), (0..256).map(term).sum::<i64>() as f64, "{measure} {types} {at}");
            }
        }
    }
}

/// A mask that leaves little: nothing, one sample, equal samples, equal samples of the template.
#[test]
fn little_is_known() {
    let image: Vec<f64> = (0..400).map(|at| f64::from(at % 7 * (at % 11))).collect();
    let template = [5.0, 5.0, 5.0, 5.0, 1.0, 2.0, 3.0, 4.0, 0.0];
    for measure in MEASURES {
        let empty = if measure == Measure::Nssd { 1.0 } else { 0.0 };
        let nothing = Problem::new(&format!("{measure}:f32:20x20*3x3:valid"), &image, &[0.0; 400], &template);
        let map = nothing.run();
        assert!((0..18 * 18).all(|at| map.get(at) == empty), "{measure}");
        let mut one = nothing.clone();
        let mut some = vec![0.0; 400];
        some[10 * 20 + 10] = 1.0;
        one.known = Pixels::F64(some);
        one.check("one sample", 1);
        let map = one.run();
        assert!((0..18 * 18).filter(|&at| map.get(at) != empty).count() <= 9, "{measure}");
        let mut row = nothing.clone();
        row.known = Pixels::F64((0..400).map(|at| f64::from(u8::from(at / 20 % 3 == 0))).collect());
        row.check("rows", 1);
    }
    // A template whose known samples are equal agrees with nothing.
    let map = Problem::new("zncc:f32:20x20*3x3:valid", &image, &vec![1.0; 400], &template);
    let top = Problem { known: Pixels::F64((0..400).map(|at| f64::from(u8::from(at / 20 == 5))).collect()), ..map };
    assert!((0..18).all(|x| top.run().get(5 * 18 + x) == 0.0));
}

#[test]
fn an_overlap_is_a_share_of_the_weights() {
    let mut seed = Seed(78);
    let image: Vec<f64> = (0..60 * 60).map(|_| seed.normal()).collect();
    let template: Vec<f64> = (0..100).map(|_| seed.normal()).collect();
    let some: Vec<f64> = (0..3600).map(|at| f64::from(u8::from(at % 60 >= 30))).collect();
    for percent in [7, 29, 30, 70, 100] {
        for (text, empty) in [("zncc:f32:60x60*10x10:valid", 0.0), ("nssd:f64:60x60*10x10:valid", 1.0)] {
            let mut problem = Problem::new(text, &image, &some, &template);
            problem.min_overlap = f64::from(percent) / 100.0;
            let map = problem.run();
            for x in 0..51 {
                let known = 10 * (x + 10usize).saturating_sub(30).min(10);
                let few = known < percent as usize;
                // Of squares that differ much the score is 1 as well.
                let is_empty = map.get(25 * 51 + x) == empty;
                assert!(if empty == 0.0 { is_empty == few } else { is_empty || !few }, "{text} {percent} {x}");
            }
            problem.check("overlap", 1);
        }
    }
    // Of samples outside that are unknown, without a mask of the image.
    let shape = |lengths: &[usize]| Shape::new(lengths).unwrap();
    let spec: Spec = "zncc:f64:60x60*10x10:full".parse().unwrap();
    let (image, template) =
        (View::new(&image, shape(&[60, 60])).unwrap(), View::new(&template, shape(&[10, 10])).unwrap());
    let masked = Masked {
        image: image.into(),
        image_mask: None,
        templates: &[template.into()],
        mask: None,
        outside_unknown: true,
        min_overlap: 0.3,
    };
    let (maps, _) = masked.execute(&spec, &Planner::new().unwrap(), &Control::default()).unwrap();
    assert_eq!((maps[0].get(30 * 69 + 1), maps[0].get(0)), (0.0, 0.0));
    assert!(maps[0].get(30 * 69 + 2) != 0.0);
}

#[test]
fn wrong_calls_name_their_argument() {
    let (image, template) = (vec![1.0f32; 100], (0..9).map(|k| k as f32).collect::<Vec<_>>());
    let shape = |lengths: &[usize]| Shape::new(lengths).unwrap();
    let image = View::new(&image, shape(&[10, 10])).unwrap();
    let template = View::new(&template, shape(&[3, 3])).unwrap();
    let fails = |known: &[f64], lengths: &[usize], options: &MaskedOptions<'_>| {
        let known = View::new(known, shape(lengths)).unwrap();
        match match_masked(&image, &known, &template, Measure::Zncc, options) {
            Err(ExecError::Spec(error)) => (error.kind, error.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let options = MaskedOptions::default();
    let (kind, text) = fails(&[1.0; 90], &[9, 10], &options);
    assert_eq!(kind, Kind::MaskShape);
    assert_eq!(text, "image_mask: expected 10x10 with 1 channel, as the image, got 9x10 with 1 channel");
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let mut known = [1.0; 100];
        known[55] = bad;
        let (kind, text) = fails(&known, &[10, 10], &options);
        assert_eq!((kind, text), (Kind::MaskInvalid, format!("image_mask: expected finite weights >= 0, got {bad}")));
    }
    let mut known = [1.0; 100];
    known[55] = 1e-100;
    let (kind, text) = fails(&known, &[10, 10], &options);
    let expected = "expected positive weights of at least 2^-300 of the largest, 1e0, got 1e-100";
    assert_eq!((kind, text), (Kind::MaskInvalid, format!("image_mask: {expected}")));
    let own = [1.0, 1.0, 1.0, 1.0, 1e-100, 1.0, 1.0, 1.0, 1.0];
    let own = View::new(&own, shape(&[3, 3])).unwrap().into();
    let (kind, text) = fails(&[1.0; 100], &[10, 10], &MaskedOptions { mask: Some(own), ..options });
    assert_eq!((kind, text), (Kind::MaskInvalid, format!("mask: {expected}")));
    for bad in [-0.1, 1.5, f64::NAN] {
        let (_, text) = fails(&[1.0; 100], &[10, 10], &MaskedOptions { min_overlap: bad, ..options });
        assert_eq!(text, format!("min_overlap: expected a share from 0 to 1, got {bad}"));
    }
    let problem = Problem::new("zncc:u8:10x10*3x3:valid,acc=exact", &[1.0; 100], &[1.0; 100], &[1.0; 9]);
    assert!(problem.try_run(1).unwrap_err().to_string().starts_with("accuracy: expected"));
    let problem = Problem::new("conv:u8:10x10*3x3:valid", &[1.0; 100], &[1.0; 100], &[1.0; 9]);
    assert!(problem.try_run(1).unwrap_err().to_string().starts_with("image_mask: expected"));
    let problem = Problem::new("zncc:u8:10x10*3x3:valid", &[1.0; 100], &[1.0; 100], &[1.0; 9]);
    assert!(problem.try_run(1).unwrap_err().to_string().starts_with("template: expected"));
    // Memory for one thread at least.
    let spec: Spec = "zncc:f32:10x10*3x3:valid".parse().unwrap();
    let (planner, image) = (Planner::new().unwrap().threads(8), image.into());
    let template = [template.into()];
    let masked =
        Masked { image, image_mask: None, templates: &template, mask: None, outside_unknown: false, min_overlap: 0.0 };
    let needed = Masked::bytes(&spec, &planner).unwrap();
    let limited = |limit: usize| {
        let planner = planner.clone().memory_limit(Some(limit));
        masked.execute(&spec, &planner, &Control::default()).map(|(maps, _)| maps.len())
    };
    assert_eq!(limited(needed), Ok(1));
    let error = ExecError::Plan(PlanError::Memory { needed, limit: needed - 1 });
    assert_eq!(limited(needed - 1), Err(error));
    // What outside looks like is the boundary's, unless it is unknown.
    let options = MaskedOptions { mode: Mode::Full, boundary: Boundary::Constant(f64::NAN), ..options };
    let (_, text) = fails(&[1.0; 100], &[10, 10], &options);
    assert!(text.starts_with("cval: expected"), "{text}");
    assert_eq!(mask_kind(None), flcc_runtime::MaskKind::None);
}
