//! Sums that are shown as they are, by transforms and by separable terms, against images that a search makes worse and
//! worse: stripes and checkers of two values, whose roundings agree instead of averaging.
//!
//! `FLCC_CLIMB=SECONDS cargo test --release -p flcc-runtime --test promises forced_sums -- --nocapture`
//! searches for so long and prints the largest share of what the conventions grant that each spec reached.

use std::time::{Duration, Instant};

use super::common::{Seed, in_threads, planner, platforms};
use flcc_runtime::rooms::plan::solver::Eligible;
use flcc_runtime::rooms::plan::solvers::SOLVERS;
use flcc_runtime::{AnyView, DType, Method, Plan, Platform, Spec, View};

/// A sum of two numbers, and what rounding took from it.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// Products with what rounding takes from them, so that a sum in f64 is held against more than f64.
fn exact_dot(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut high, mut low) = (0.0, 0.0);
    for (a, b) in pairs {
        let product = a * b;
        let (sum, lost) = two_sum(high, product);
        high = sum;
        low += lost + a.mul_add(b, -product);
    }
    (high, low)
}

/// An image and a template of few values.
#[derive(Clone, Debug)]
struct Pattern {
    /// A wave along the axes, in periods a sample.
    frequency: [f64; 3],
    phase: f64,
    /// The least and the largest value.
    values: [f64; 2],
    /// No values but these two.
    cut: bool,
    /// Blocks, from and to, where the wave has the other sign.
    flips: Vec<([usize; 3], [usize; 3])>,
    /// The seed of the template.
    taps: u64,
    /// Taps of one magnitude and either sign, rather than positive ones of many.
    even: bool,
}

impl Pattern {
    fn new(seed: &mut Seed, shape: [usize; 3]) -> Pattern {
        let frequency = shape.map(|length| match (length, seed.below(4)) {
            (1, _) | (_, 0) => 0.0,
            (_, 1) => 0.5,
            (_, 2) => 1.0 / seed.pick(&[3.0, 4.0, 6.0, 8.0, 16.0]),
            (length, _) => seed.below(length / 2 + 1) as f64 / length as f64,
        });
        let high = 1.0 + seed.unit();
        let low = seed.pick(&[-high, 0.0, -fraction(high), high * 0.5]);
        Pattern {
            frequency,
            phase: seed.unit(),
            values: [low, high],
            cut: seed.below(4) > 0,
            flips: Vec::new(),
            taps: seed.bits(),
            even: seed.below(2) == 0,
        }
    }

    /// Another one nearby.
    fn changed(&self, seed: &mut Seed, shape: [usize; 3]) -> Pattern {
        let mut other = self.clone();
        match seed.below(6) {
            0 => {
                let axis = seed.below(3);
                if shape[axis] > 1 {
                    let step = (seed.unit() - 0.5) / shape[axis] as f64 * 4.0;
                    other.frequency[axis] = (other.frequency[axis] + step).clamp(0.0, 0.5);
                }
            }
            1 => other.phase += (seed.unit() - 0.5) * 0.2,
            2 => other.values[seed.below(2)] *= 1.0 + (seed.unit() - 0.5) * 0.1,
            3 => {
                let from = shape.map(|length| seed.below(length));
                let to = [0, 1, 2].map(|axis| from[axis] + 1 + seed.below(shape[axis] - from[axis]));
                other.flips.push((from, to));
            }
            4 => other.taps = seed.bits(),
            _ => {
                if !other.flips.is_empty() {
                    other.flips.swap_remove(seed.below(self.flips.len()));
                }
            }
        }
        other
    }

    fn image(&self, shape: [usize; 3]) -> Vec<f64> {
        let [low, high] = self.values;
        let mut values = Vec::with_capacity(shape.iter().product());
        for z in 0..shape[0] {
            for y in 0..shape[1] {
                for x in 0..shape[2] {
                    let at = [z, y, x];
                    let turn: f64 = (0..3).map(|axis| self.frequency[axis] * at[axis] as f64).sum::<f64>() + self.phase;
                    let wave = (turn * std::f64::consts::TAU).cos();
                    let flipped =
                        self.flips.iter().filter(|(from, to)| (0..3).all(|a| (from[a]..to[a]).contains(&at[a])));
                    let side = if flipped.count() % 2 == 1 { -wave } else { wave };
                    values.push(match self.cut {
                        true if side >= 0.0 => high,
                        true => low,
                        false => low + (high - low) * (side + 1.0) / 2.0,
                    });
                }
            }
        }
        values
    }

    fn template(&self, count: usize) -> Vec<f64> {
        let mut seed = Seed(self.taps);
        let size = 1.0 + seed.unit();
        (0..count)
            .map(|_| match self.even {
                true => size * if seed.below(2) == 0 { 1.0 } else { -1.0 },
                false => size * (0.7 + 0.6 * seed.unit()),
            })
            .collect()
    }
}

/// A part of a value that shares no digits with it.
fn fraction(value: f64) -> f64 {
    value * std::f64::consts::FRAC_1_PI
}

struct Problem {
    spec: Spec,
    plans: Vec<Plan>,
}

impl Problem {
    fn new(text: &str, platform: Platform, method: Method) -> Problem {
        let spec: Spec = text.parse().unwrap();
        let planner = planner(1).platform(platform);
        let machine = planner.machine();
        let solvers = SOLVERS.iter().filter(|s| s.platform() == platform && s.method() == method);
        let offers = solvers.flat_map(|solver| solver.offers(&spec, machine).unwrap_or_default());
        // Those that a method never takes, forced or not, are asked for by name and grant less.
        let offers = offers.filter(|offer| offer.eligible != Eligible::ByName);
        let plans = offers.map(|offer| planner.plan_with_kernel(&spec, &offer.kernel).unwrap()).collect();
        Problem { spec, plans }
    }

    /// The largest error of a pattern's sums by one plan, as a share of what the conventions grant.
    fn share(&self, plan: &Plan, pattern: &Pattern) -> f64 {
        let (image_shape, template_shape) = (self.spec.image(), self.spec.template());
        let single = self.spec.image_type() == DType::F32;
        let rounded = |values: Vec<f64>| -> Vec<f64> {
            values.into_iter().map(|value| if single { f64::from(value as f32) } else { value }).collect()
        };
        let (image, template) =
            (rounded(pattern.image(image_shape.padded())), rounded(pattern.template(template_shape.len())));
        let got = if single {
            let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
            let (image, template) = (narrow(&image), narrow(&template));
            let view = AnyView::from(View::new(&image, image_shape).unwrap());
            let taps = AnyView::from(View::new(&template, template_shape).unwrap());
            plan.execute(&[view], &[taps], None).unwrap().remove(0)
        } else {
            let view = AnyView::from(View::new(&image, image_shape).unwrap());
            let taps = AnyView::from(View::new(&template, template_shape).unwrap());
            plan.execute(&[view], &[taps], None).unwrap().remove(0)
        };
        let [_, rows, columns] = image_shape.padded();
        let [depth, height, width] = template_shape.padded();
        let out = self.spec.out_shape().padded();
        let (mut largest, mut error) = (0.0f64, 0.0f64);
        for z in 0..out[0] {
            for y in 0..out[1] {
                for x in 0..out[2] {
                    let lines = (0..depth).flat_map(|i| (0..height).map(move |j| (i, j)));
                    let window = |(i, j)| &image[((z + i) * rows + y + j) * columns + x..][..width];
                    let pairs = lines.clone().flat_map(|(i, j)| {
                        window((i, j))
                            .iter()
                            .copied()
                            .zip(template[(i * height + j) * width..][..width].iter().copied())
                    });
                    let (high, low) = exact_dot(pairs);
                    let energy: f64 = lines.flat_map(|at| window(at).iter().map(|v| v * v)).sum();
                    largest = largest.max(energy);
                    error = error.max(((got.get((z * out[1] + y) * out[2] + x) - high) - low).abs());
                }
            }
        }
        let norm = template.iter().map(|t| t * t).sum::<f64>().sqrt();
        let u = if single { f64::from(f32::EPSILON) / 2.0 } else { f64::EPSILON / 2.0 };
        let granted = (16.0 + (template.len() as f64).sqrt()) * u * largest.sqrt() * norm;
        error / granted
    }

    /// Climbs from several patterns; the largest share found, and whose it is.
    fn climb(&self, seed: &mut Seed, budget: Duration) -> (f64, String) {
        let shape = self.spec.image().padded();
        let begin = Instant::now();
        let mut worst = (0.0, String::new());
        // Each plan once at least.
        for (number, plan) in self.plans.iter().cycle().enumerate() {
            if number >= self.plans.len() && begin.elapsed() >= budget {
                break;
            }
            let starts: Vec<Pattern> = (0..8).map(|_| Pattern::new(seed, shape)).collect();
            let shares: Vec<f64> = starts.iter().map(|pattern| self.share(plan, pattern)).collect();
            let first = (0..8).max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap();
            let (mut best, mut pattern) = (shares[first], starts[first].clone());
            for _ in 0..40 {
                let other = pattern.changed(seed, shape);
                let share = self.share(plan, &other);
                if share >= best {
                    (best, pattern) = (share, other);
                }
            }
            if best > worst.0 {
                worst = (best, format!("{} {pattern:?}", plan.kernel()));
            }
        }
        worst
    }
}

#[test]
fn forced_sums_keep_what_is_granted() {
    let seconds = std::env::var("FLCC_CLIMB").ok().map(|text| text.parse::<f64>().unwrap());
    let shapes = [
        "715*1",
        "30000*1",
        "40x50*1x1",
        "24x20x19*1x1x1",
        "300*2",
        "500*9",
        "700*64",
        "60x54*20x1",
        "68x161*1x9",
        "40x50*2x2",
        "60x80*3x3",
        "70x70*6x6",
        "90x80*8x8",
        "100x100*12x12",
        "24x23x30*4x1x1",
        "20x20x20*2x3x4",
        "20x24x22*4x4x4",
    ];
    let methods = [Method::Fourier, Method::Separable];
    let platforms = platforms();
    let ways = platforms.iter().flat_map(|&platform| methods.map(|method| (platform, method)));
    let cases: Vec<_> = ways
        .flat_map(|(platform, method)| {
            let of =
                move |(types, accuracy), shape| (platform, method, format!("corr:{types}:{shape}:valid{accuracy}"));
            let kinds = [("f64", ""), ("f64", ",acc=fast"), ("f32", ""), ("f32", ",acc=fast")];
            kinds.into_iter().flat_map(move |kind| shapes.map(|shape| of(kind, shape)))
        })
        .collect();
    in_threads(&cases, |(platform, method, text)| {
        let problem = Problem::new(text, *platform, *method);
        if problem.plans.is_empty() {
            return;
        }
        let (share, how) = problem.climb(&mut Seed(3), Duration::from_secs_f64(seconds.unwrap_or(0.05)));
        if seconds.is_some() {
            println!("{share:.3} {text} {method} of {} plans: {how}", problem.plans.len());
        }
        assert!(share <= 1.0, "{text} by {how}: {share} of what is granted");
    });
}
