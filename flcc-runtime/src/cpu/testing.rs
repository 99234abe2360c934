//! For tests: instruction sets, images that are hard on rounding, and the largest error over what the model of
//! `problem/error_model.rs` grants it. `tests/gpu/adversaries.rs` takes this file as a module of its own, for a GPU.
//!
//! `FLCC_SEED=0 FLCC_PANELS=1e9 cargo test --release -p flcc-runtime --lib -- errors_stay --nocapture` goes on with new
//! noise until each of the tests has seen so many panels, and prints what it found; `agreeing` in its place searches so
//! many amplitudes for roundings that agree, from amplitudes that `FLCC_SEED` tells.

use std::ops::RangeFrom;

use flcc_core::measure::Measure;
use flcc_core::wide::Wide;

use crate::isa::{self, ISAS, IsaSet, Vectors};
use crate::problem::error_model::{Doubt, Figures, Model, Promise, Rounding, Unseen};

/// This processor's instruction sets, restricted to each of those that compute in floats.
pub fn float_sets() -> Vec<IsaSet> {
    let floats = ISAS.into_iter().filter(|&isa| isa.has_floats() && isa::detected(isa));
    floats.map(|isa| isa::detect().restrict(isa)).collect()
}

/// This processor's instruction sets, restricted to each of those that transforms of our own are compiled for.
pub fn sets() -> Vec<IsaSet> {
    float_sets().into_iter().filter(|isas| Vectors::isa(isas).is_some()).collect()
}

/// Numbers in `-0.5..0.5`.
pub fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    }
}

/// A sample from its row, its column and noise.
type Image = fn(usize, usize, f32) -> f32;

/// Images by name; the first is nothing but noise.
pub const IMAGES: [(&str, Image); 27] = [
    ("noise", |_, _, noise| noise),
    ("bytes", |_, _, noise| (noise * 255.0).floor()),
    ("a step", |_, x, noise| noise + if x > 70 { 50_000.0 } else { 0.0 }),
    ("a ramp", |y, x, noise| noise + 30.0 * (x + y) as f32),
    ("one bright pixel", |y, x, noise| if (y, x) == (20, 30) { 1e6 } else { 0.01 * noise }),
    ("one half constant", |y, _, noise| if y < 40 { 3.0 } else { noise }),
    ("a checkerboard of saturated squares", |y, x, noise| if (y / 16 + x / 16) % 2 == 0 { 255.0 } else { noise }),
    ("stripes", |y, _, _| (y * y * 7919 % 1009) as f32 - 504.0),
    ("faint beside strong", |_, x, noise| if x % 120 < 60 { 1e-6 * noise } else { 1e3 * noise }),
    ("a pixel of 1e3", |y, x, noise| if (y, x) == (37, 41) { 1e3 } else { noise }),
    ("a pixel of 3e4", |y, x, noise| if (y, x) == (39, 43) { 3e4 } else { noise }),
    ("a bright row", |y, _, noise| if y == 37 { 1e4 } else { noise }),
    ("a bright column", |_, x, noise| if x == 41 { 1e4 } else { noise }),
    ("a bright square", |y, x, noise| if (20..60).contains(&y) && (20..60).contains(&x) { 1e3 } else { noise }),
    ("specks", |y, x, noise| if (y * 7919 + x * 104_729) % 1009 == 0 { 1e4 } else { noise }),
    ("a wave of period 2", |y, x, noise| noise + 1e3 * wave(x + y, 2)),
    ("a wave of period 2 along rows", |_, x, noise| noise + 1e3 * wave(x, 2)),
    ("a wave of period 2 down columns", |y, _, noise| noise + 1e3 * wave(y, 2)),
    ("a wave of period 4 along rows", |_, x, noise| noise + 1e3 * wave(x, 4)),
    ("a wave of period 8", |y, x, noise| noise + 1e3 * wave(x + 2 * y, 8)),
    ("a wave of period 64", |_, x, noise| noise + 1e3 * wave(x, 64)),
    ("two levels", |y, x, _| (mixed(y, x) % 2) as f32),
    ("a checkerboard", |y, x, _| ((y + x) % 2) as f32),
    ("equal samples", |_, _, _| 1.0),
    ("stripes of period 64", |_, x, _| (x / 32 % 2) as f32),
    ("even patches", |y, x, _| [1.0, 3.0, 0.0, 7.0, 0.3][mixed(y / 20, x / 24) % 5]),
    ("a pixel on an even ground", |y, x, _| if (y, x) == (20, 30) { 4096.0 } else { 1.0 }),
];

/// A number in which a row's and a column's digits are mixed.
fn mixed(y: usize, x: usize) -> usize {
    let mixed = (y as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (x as u64 + 7).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed ^ mixed >> 29).wrapping_mul(0x1656_67b1_9e37_79f9) as usize >> 40
}

/// What an image of this seed is multiplied by: roundings of equal numbers are equal, so it takes many such factors to
/// find the worst.
pub fn amplitude(seed: u64) -> f32 {
    1.5 + noise(seed ^ 0x5bd1_e995)()
}

/// A cosine of so many samples a period.
fn wave(at: usize, period: usize) -> f32 {
    (std::f64::consts::TAU * (at % period) as f64 / period as f64).cos() as f32
}

/// A template of mean 0 and norm 1: a smooth hill, which adds up what noise averages out, or noise or, for other seeds,
/// two levels.
pub fn template(count: usize, smooth: bool, mut noise: impl FnMut() -> f32) -> Vec<f64> {
    let hill = |k: usize| 1.0 - (2.0 * (k as f64 + 0.5) / count as f64 - 1.0).abs();
    // Noise, two levels that take turns, of few frequencies therefore, or two levels as they come.
    let choice = if count > 3 { noise() } else { 0.0 };
    let period = 1 + (8.0 * (noise() + 0.5)) as usize;
    let mut rough = |k: usize| match choice {
        ..=-0.2 => f64::from(u8::from(k / period % 2 == 1 || k == 1)),
        0.2.. => f64::from(u8::from(k == 0 || k > 1 && noise() > 0.0)),
        _ => f64::from(noise()),
    };
    let mut values: Vec<f64> = (0..count).map(|k| if smooth { hill(k) } else { rough(k) }).collect();
    let mean = values.iter().sum::<f64>() / count as f64;
    values.iter_mut().for_each(|value| *value -= mean);
    let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values.iter_mut().for_each(|value| *value /= norm);
    values
}

/// An image and a template that are hard on rounding, of these shapes, by a seed.
pub type Hostile = fn([usize; 3], [usize; 3], u64) -> (Vec<f32>, Vec<f64>);

/// A few equal samples among zeros, for half of all seeds beside one that is up to 100 times as strong, and a template
/// of stripes of mean 0 and norm 1: it answers to a frequency that they have nothing of, but errors of a transform's
/// constants may have.
pub fn striped(lengths: [usize; 3], template: [usize; 3], seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut noise = noise(seed);
    let level = 1.5 + noise();
    let mut below = |most: usize| ((noise() + 0.5) * most as f32) as usize;
    let sides = [0, 1, 2].map(|axis| (1 + template[axis] * (4 + below(14)) / 10).min(lengths[axis]));
    let from = [0, 1, 2].map(|axis| below(lengths[axis] - sides[axis] + 1));
    let period = 1 + below((template[2] / 2).clamp(1, 8));
    let within = |at: usize, axis: usize| (from[axis]..from[axis] + sides[axis]).contains(&at);
    let [_, height, width] = lengths;
    let at = |index: usize| [index / (height * width), index / width % height, index % width];
    let is_one = |index: usize| (0..3).all(|axis| within(at(index)[axis], axis));
    let mut image: Vec<f32> =
        (0..lengths.iter().product()).map(|index| if is_one(index) { level } else { 0.0 }).collect();
    if below(2) == 1 {
        let at = below(image.len());
        image[at] = level * [3.0, 10.0, 30.0, 100.0][below(4)];
    }
    let count = template.iter().product::<usize>();
    let mut values: Vec<f64> = (0..count).map(|tap| (tap % template[2] / period % 2) as f64).collect();
    let mean = values.iter().sum::<f64>() / count as f64;
    values.iter_mut().for_each(|value| *value -= mean);
    let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values.iter_mut().for_each(|value| *value /= norm);
    (image, values)
}

/// Texture of a few levels under a copy of a template, or everywhere, beside a step of up to 3000 times its size, and
/// the template at mean 0 and norm 1, of the same levels or of others in their places. Sums of few values are rounded
/// alike, so the errors of a transform follow the texture where nothing keeps them from it.
pub fn copied(lengths: [usize; 3], template: [usize; 3], seed: u64) -> (Vec<f32>, Vec<f64>) {
    beside(false, lengths, template, seed)
}

/// The same beside blocks of the template's sides, as far from the copy as a transform's first sums reach.
pub fn among_blocks(lengths: [usize; 3], template: [usize; 3], seed: u64) -> (Vec<f32>, Vec<f64>) {
    beside(true, lengths, template, seed)
}

fn beside(blocks: bool, lengths: [usize; 3], template: [usize; 3], seed: u64) -> (Vec<f32>, Vec<f64>) {
    let mut noise = noise(seed ^ 0x00c0_b1ed);
    let mut below = |most: usize| ((noise() + 0.5) * most as f32) as usize;
    let count = [2, 2, 3, 4][below(4)];
    let [evenly, everywhere, lifted] = [0; 3].map(|_| below(2) == 0);
    let (same, middle) = (below(3) > 0, below(4) == 0);
    let from = [0, 1, 2].map(|axis| below(lengths[axis] - template[axis] + 1));
    let long: Vec<usize> = (0..3).filter(|&axis| lengths[axis] > 1).collect();
    let axis = long[below(long.len())];
    let begin = if middle { lengths[axis] / 2 } else { below(lengths[axis]) };
    // Samples or patches at random, or columns, rows, and what both come to; of few lines most often equal ones.
    let textures = match [template[1], template[2]].map(|side| side > 3) {
        [false, true] => [0, 0, 1, 1, 1, 1, 1, 3],
        [true, false] => [0, 0, 2, 2, 2, 2, 2, 3],
        _ => [0, 0, 0, 0, 1, 2, 3, 3],
    };
    let (texture, patch) = (textures[below(8)], [1, 1, 1, 3][below(4)]);
    let mut number = |from: f64, to: f64| from + (to - from) * (f64::from(noise()) + 0.5);
    let unit = number(0.5, 1.5);
    let mut random: Vec<f64> = (0..2 * count).map(|_| number(-1.0, 1.0)).collect();
    let asked = random.split_off(count);
    let shown = if evenly { (0..count).map(|level| unit * level as f64).collect() } else { random };
    let asked = if same { &shown } else { &asked };
    let height = 10f64.powf(number(0.5, 3.5));
    let sum = [2, 3, 4, 5, 8, 16][(number(0.0, 6.0) as usize).min(5)];
    let length = if number(0.0, 3.0) < 2.0 { lengths[axis].next_power_of_two() } else { lengths[axis] };
    let (apart, margin, which) = (length / sum, number(0.0, 4.0) as usize, number(1.0, 256.0) as usize);
    let in_block = |at: [usize; 3]| {
        let by = [0, 1, 2].map(|axis| at[axis] as isize + margin as isize - from[axis] as isize);
        let far = by[axis].div_euclid(apart.max(1) as isize);
        let held = |other: usize, by: isize| by >= 0 && (by as usize) < template[other] + 2 * margin;
        far != 0
            && which >> (far & 7) & 1 == 1
            && (0..3).all(|other| held(other, if other == axis { by[axis] - far * apart as isize } else { by[other] }))
    };
    let drawn = |y: usize, x: usize| mixed(y + 64 * seed as usize, x) % count;
    let level = |[z, y, x]: [usize; 3]| match texture {
        1 if template[2] > 3 => drawn(0, x),
        2 if template[1] > 3 => drawn(y, 0),
        3 if template[1] > 3 => (drawn(y, 0) + drawn(0, x)) % count,
        _ => drawn(8191 * z + y / patch, x / patch),
    };
    let place = |index: usize, [_, height, width]: [usize; 3]| {
        [index / (height * width), index / width % height, index % width]
    };
    let image = (0..lengths.iter().product()).map(|index| {
        let at = place(index, lengths);
        let within = (0..3).all(|axis| (from[axis]..from[axis] + template[axis]).contains(&at[axis]));
        let raised = if blocks { in_block(at) } else { at[axis] >= begin && (lifted || !within) };
        let step = if raised { height } else { 0.0 };
        (step + if within || everywhere { shown[level(at)] } else { 0.0 }) as f32
    });
    let taps = (0..template.iter().product()).map(|tap| {
        let at = place(tap, template);
        asked[level([0, 1, 2].map(|axis| from[axis] + at[axis]))]
    });
    let mut taps: Vec<f64> = taps.collect();
    let mean = taps.iter().sum::<f64>() / taps.len() as f64;
    taps.iter_mut().for_each(|tap| *tap -= mean);
    // All of one level by chance: what has no norm is no template.
    let norm = norm(&taps).max(f64::MIN_POSITIVE);
    taps.iter_mut().for_each(|tap| *tap /= norm);
    (image.collect(), taps)
}

/// Judges an image as it is, and where errors come to a fifth of what is granted, at other amplitudes: what roundings
/// of few levels come to depends on where the levels lie between powers of two.
pub fn at_amplitudes(ratios: &mut Ratios, image: &[f32], seed: u64, mut judge: impl FnMut(&[f32], &mut Ratios)) {
    ratios.latest = 0.0;
    judge(image, ratios);
    if ratios.latest > 0.2 {
        let mut random = noise(seed ^ 0x0a3b_11fd);
        for _ in 0..if panels().is_some() { 40 } else { 1 } {
            let amplitude = 1.5 + random();
            let image: Vec<f32> = image.iter().map(|value| amplitude * value).collect();
            judge(&image, ratios);
        }
    }
}

/// When the model doubts f32 results of a template, at 8 standard deviations, of samples that are not rounded.
pub fn doubt(template: &[f64], rounding: Rounding) -> Doubt {
    doubt_of(template.len(), &Figures::of([template].into_iter()), rounding)
}

/// When the model doubts f32 results of a template of so many taps with these figures, at 8 standard deviations, of
/// samples that are not rounded.
pub fn doubt_of(taps: usize, figures: &Figures, rounding: Rounding) -> Doubt {
    doubt_at(SINGLE, taps, figures, rounding)
}

/// A type's roundoff, and what scores in it are promised to be off by at most.
pub type Precision = (f64, f64);
/// The precision of f32.
pub const SINGLE: Precision = (f32::EPSILON as f64 / 2.0, 1e-5);
/// The precision of f64.
pub const DOUBLE: Precision = (f64::EPSILON / 2.0, 1e-11);

/// When the model doubts results of such a precision, as [`doubt_of`].
pub fn doubt_at((roundoff, error): Precision, taps: usize, figures: &Figures, rounding: Rounding) -> Doubt {
    let promise = Some(Promise { error, deviations: Some(8.0) });
    let (measure, taps) = (Measure::Zncc, taps as f64);
    let model = Model {
        measure,
        promise,
        roundoff,
        taps,
        samples: 0.0,
        rounds_samples: false,
        rounding,
        wide: Wide::Double,
        weights: None,
    };
    model.doubt(figures)
}

/// What f32 samples may come to though no result says so, of a template with these figures.
pub fn unseen(figures: &Figures, rounding: Rounding) -> Unseen {
    Unseen::of(figures, &rounding, SINGLE.0, 1)
}

/// A panel and a template whose roundings agree instead of averaging out.
pub struct Agreeing {
    /// What it is called.
    pub name: &'static str,
    /// The panel, to be multiplied by an amplitude.
    pub values: Vec<f64>,
    /// The panel at norm 1: two values less their mean.
    pub taps: Vec<f64>,
}

/// Panels of so many samples: two values at random, equal samples, and a lone bright one on an even ground.
pub fn agreeing(n: usize, round: u64, mut random: impl FnMut() -> f32) -> [Agreeing; 3] {
    let signs: Vec<f64> = (0..n).map(|_| if random() > 0.0 { 1.0 } else { -1.0 }).collect();
    let mean = signs.iter().sum::<f64>() / n as f64;
    let lone = (0..n).map(|k| if k == round as usize % n { 4096.0 } else { 1.0 }).collect();
    [("signs", signs, mean), ("equal", vec![1.0; n], 0.0), ("lone", lone, 0.0)].map(|(name, values, mean)| {
        let norm = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>().sqrt();
        let taps = values.iter().map(|value| (value - mean) / norm).collect();
        Agreeing { name, values, taps }
    })
}

/// Writes the samples of one panel to where rows and planes of a buffer have these pitches.
pub fn lay<T: Copy>(samples: &[T], [_, height, width]: [usize; 3], plane: usize, row: usize, to: &mut [T]) {
    for (number, line) in samples.chunks(width).enumerate() {
        let at = number / height * plane + number % height * row;
        to[at..at + width].copy_from_slice(line);
    }
}

/// A sum of f64 with what rounding took from it: twice as many digits.
#[derive(Clone, Copy, Default)]
pub struct Twofold {
    high: f64,
    low: f64,
}

impl Twofold {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        let (sum, lost) = two_sum(self.high, value);
        self.high = sum;
        self.low += lost;
    }

    /// Adds a product.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.low += a.mul_add(b, -product);
    }

    /// Adds the magnitude of a difference.
    pub fn add_difference(&mut self, a: f64, b: f64) {
        let (difference, lost) = two_sum(a.max(b), -a.min(b));
        self.add(difference);
        self.low += lost;
    }

    /// How far a number is from it.
    pub fn error(&self, of: f64) -> f64 {
        ((of - self.high) - self.low).abs()
    }
}

/// A sum, and what rounding took from it.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// A search over amplitudes for the largest share that an error has of what is granted to it.
pub struct Search {
    each: usize,
    panels: usize,
    worst: (f64, String),
}

impl Search {
    /// One that tries this many amplitudes of each of so many cases, or as many as `FLCC_PANELS` asks for.
    pub fn new(each: usize, cases: usize) -> Search {
        Search { each: panels().map_or(each, |all| all.div_ceil(cases)), panels: 0, worst: (0.0, String::new()) }
    }

    /// Tries a case: `share` is that of an amplitude, which has the digits of an f64.
    pub fn try_case(
        &mut self,
        name: impl Fn() -> String,
        mut random: impl FnMut() -> f32,
        mut share: impl FnMut(f64) -> f64,
    ) {
        for _ in 0..self.each {
            let amplitude = 1.5 + f64::from(random()) + f64::from(random()) / f64::from(1 << 24);
            let share = share(amplitude);
            assert!(share.is_finite(), "{}, {amplitude}: {share}", name());
            self.panels += 1;
            if share > self.worst.0 {
                self.worst = (share, format!("{}, {amplitude}", name()));
            }
        }
    }

    /// Prints the largest share: no more than all of it, and more than so much if the search is any good.
    pub fn judge(&self, name: &str, least: f64) {
        let Search { panels, worst: (share, case), .. } = self;
        println!("{name} of agreeing roundings: {share:.3} of the worst case, {case} ({panels} panels)");
        assert!((least..=1.0).contains(share), "{name}: {share}, {case}");
    }
}

/// Seeds of noise, without end: from 0, or from `FLCC_SEED`, so that several processes see different noise.
pub fn seeds() -> RangeFrom<u64> {
    number("FLCC_SEED").map_or(0, |seed| seed as u64)..
}

/// How many panels `FLCC_PANELS` asks for.
pub fn panels() -> Option<usize> {
    number("FLCC_PANELS").map(|panels| panels as usize)
}

fn number(variable: &str) -> Option<f64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The root of a sum of squares.
pub fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Errors over what is granted to them.
#[derive(Default)]
pub struct Ratios {
    /// The largest of each image.
    largest: [f64; IMAGES.len()],
    /// The largest error over the worst case.
    of_worst: f64,
    panels: u64,
    /// The largest since [`at_amplitudes`] began.
    latest: f64,
    /// Panels when the largest was told last.
    told: u64,
}

impl Ratios {
    /// Adds a panel whose sum of squares is `square`, of image number `kind`, at the thresholds of its tile.
    pub fn add(
        &mut self,
        kind: usize,
        error: f64,
        (limit, share): (f64, f64),
        square: f64,
        what: impl FnOnce() -> String,
    ) {
        // A panel of this energy is just not in doubt: its error over its norm is granted 0.8 of the promise.
        self.add_granted(kind, error, 0.8e-5 * (limit + share * square).sqrt(), what);
    }

    /// Adds a panel whose error is granted this.
    pub fn add_granted(&mut self, kind: usize, error: f64, granted: f64, what: impl FnOnce() -> String) {
        assert!(error.is_finite() && granted.is_finite(), "{}: error {error}, granted {granted}", what());
        if error > granted {
            panic!("{}: error {error:.2e}, granted {granted:.2e}", what());
        }
        let ratio = if granted > 0.0 { error / granted } else { 0.0 };
        self.largest[kind] = self.largest[kind].max(ratio);
        self.latest = self.latest.max(ratio);
        self.panels += 1;
    }

    /// Holds an error against the worst case of transforms of so many samples, `per_level` roundings for each level of
    /// them and `terms` more, where samples and template have these norms (docs/numerics.md, by stages).
    pub fn add_worst(&mut self, error: f64, (samples, per_level, terms): (f64, f64, f64), [x, t]: [f64; 2]) {
        let granted = f64::from(f32::EPSILON) / 2.0 * (per_level * samples.log2() + terms) * x * t;
        assert!(error <= granted, "error {error:.2e}, {granted:.2e} in the worst case");
        if granted > 0.0 {
            self.of_worst = self.of_worst.max(error / granted);
        }
    }

    /// Whether as many panels were seen as `FLCC_PANELS` asks for; tells the largest so far now and then.
    pub fn enough(&mut self) -> bool {
        let wanted = panels().unwrap_or(1) as u64;
        if self.panels - self.told >= 20_000_000 {
            self.told = self.panels;
            let thread = std::thread::current();
            println!(
                "so far {}: {:.3} over {:.2e} panels",
                thread.name().unwrap_or(""),
                self.all(),
                self.panels as f64
            );
        }
        self.panels >= wanted
    }

    /// How many were added.
    pub fn panels(&self) -> u64 {
        self.panels
    }

    /// The largest of all.
    pub fn all(&self) -> f64 {
        self.largest.iter().fold(0.0, |largest, &ratio| largest.max(ratio))
    }

    /// Prints them; the estimate is neither broken nor so large that panels are recomputed for nothing.
    pub fn judge(&self, name: &str) {
        println!("{name}: largest error over its estimate, of {} panels:", self.panels);
        for ((image, _), largest) in IMAGES.iter().zip(self.largest) {
            println!("    {image}: {largest:.3}");
        }
        if self.of_worst > 0.0 {
            println!("    {:.4} of the worst case", self.of_worst);
        }
        let of_noise = self.largest[0];
        assert!(of_noise > 0.05, "{name}: the estimate is {} times the error of plain noise", 1.0 / of_noise);
    }
}

/// `f(y, x)`: the sum of squares of the window of samples at `(y, x)`, from a summed-area table.
pub fn window_squares(input: &[f32], row: usize, window: [usize; 2]) -> impl Fn(usize, usize) -> f64 {
    let sums = window_sums(input.iter().map(|&value| f64::from(value).powi(2)), row, window);
    move |y, x| sums(y, x).max(0.0)
}

/// `f(y, x)`: the sum of squared deviations from their mean of the window of samples at `(y, x)`.
pub fn window_energies(input: &[f32], row: usize, window: [usize; 2]) -> impl Fn(usize, usize) -> f64 {
    let (squares, count) = (window_squares(input, row, window), (window[0] * window[1]) as f64);
    let sums = window_sums(input.iter().map(|&value| f64::from(value)), row, window);
    move |y, x| (squares(y, x) - sums(y, x).powi(2) / count).max(0.0)
}

/// `f(y, x)`: the sum of a window of values at `(y, x)`.
fn window_sums(
    values: impl Iterator<Item = f64>,
    row: usize,
    [height, width]: [usize; 2],
) -> impl Fn(usize, usize) -> f64 {
    let mut sums = vec![0.0; row + 1];
    let mut along = 0.0;
    for (index, value) in values.enumerate() {
        if index % row == 0 {
            along = 0.0;
            sums.push(0.0);
        }
        along += value;
        sums.push(sums[sums.len() - (row + 1)] + along);
    }
    let at = move |y: usize, x: usize| sums[y * (row + 1) + x];
    move |y, x| at(y + height, x + width) - at(y, x + width) - at(y + height, x) + at(y, x)
}
