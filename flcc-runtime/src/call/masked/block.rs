//! One block of a result: gathered, correlated, judged, and where that leaves a doubt, decided panel by panel.

use std::sync::{Mutex, PoisonError};

use flcc_core::error::ExecError;
use flcc_core::measure::Measure;
use flcc_core::view::{AnyView, AnyViewMut, View, ViewMut};

use crate::call::masked::judge::{self, Sum, Sums};
use crate::call::masked::panel::Panel;
use crate::call::masked::prepared::{Problem, Template, Tool, read};
use crate::call::masked::windows::{roundings, windows};
use crate::isa::{self, Isa, IsaSet};
use crate::problem::lanes;
use crate::problem::powers::{exponent, factors, shifted, times, to_one};
use crate::run::execute::{CancelToken, Control, Scratch, Statistics};

/// Panels in doubt from which on minima and maxima of all windows are worth their time.
const MANY: usize = 512;
/// Panels in doubt that are decided between two questions whether the caller still wants the result.
const ASKED: usize = 256;
/// Squared differences that are so many times their bound are right to three digits at least.
const DROWNED: f64 = 2048.0;
/// What is added to a bound for products that are too small for all of their digits.
const FLOOR: f64 = 1e-290;

/// A worker and its buffers.
pub(super) struct Worker<'a> {
    problem: &'a Problem<'a>,
    template: &'a Template,
    by_weights: Option<Scratch>,
    by_values: Vec<Option<Scratch>>,
    by_energies: Vec<Option<Scratch>>,
    /// Samples channel by channel, as they are; 0 where they are unknown or not finite.
    raw: Vec<Vec<f64>>,
    /// Weights of samples, and samples that are not finite under one.
    mask: Vec<f64>,
    bad: Vec<f64>,
    samples: Vec<Vec<f64>>,
    product: Vec<f64>,
    spare: Vec<f64>,
    n: Vec<f64>,
    sums: Vec<Planes>,
    scores: Vec<f64>,
    doubtful: Vec<usize>,
    panel: Panel,
    /// Results along each axis that the block has of the whole.
    kept: [usize; 3],
    /// Samples are divided by two to this; none where all are 0.
    exponent: Option<i32>,
    n_error: f64,
}

/// Sums of one channel for all panels of a block, and their bounds; without values where all are equal.
#[derive(Default)]
struct Planes {
    p: Vec<f64>,
    pp: Vec<f64>,
    pt: Vec<f64>,
    t: Vec<f64>,
    tt: Vec<f64>,
    errors: Errors,
}

#[derive(Default)]
struct Errors {
    p: f64,
    pp: f64,
    pt: f64,
    t: f64,
    tt: f64,
}

/// What a block looks like.
struct Seen {
    /// Some weight is positive.
    known: bool,
    /// Some sample is not finite under a positive weight.
    bad: bool,
    /// The weight of all samples.
    weight: Option<f64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(problem: &'a Problem<'a>, template: &'a Template) -> Worker<'a> {
        let channels = problem.image.channels();
        Worker {
            problem,
            template,
            by_weights: None,
            by_values: (0..channels).map(|_| None).collect(),
            by_energies: (0..channels).map(|_| None).collect(),
            raw: vec![Vec::new(); channels],
            mask: Vec::new(),
            bad: Vec::new(),
            samples: vec![Vec::new(); channels],
            product: Vec::new(),
            spare: Vec::new(),
            n: Vec::new(),
            sums: (0..channels).map(|_| Planes::default()).collect(),
            scores: Vec::new(),
            doubtful: Vec::new(),
            panel: Panel {
                weights: Vec::new(),
                image: vec![Vec::new(); channels],
                template: vec![Vec::new(); channels],
            },
            kept: [0; 3],
            exponent: None,
            n_error: 0.0,
        }
    }

    /// Computes a block by its number and writes it.
    ///
    /// # Errors
    /// What a correlation fails of; cancelled, with nothing written.
    pub(super) fn run(
        &mut self,
        number: usize,
        out: &Mutex<&mut AnyViewMut<'_>>,
        cancel: Option<&CancelToken>,
    ) -> Result<Statistics, ExecError> {
        let [_, rows, columns] = self.problem.blocks();
        let block = self.problem.block.padded();
        let place = [number / columns / rows, number / columns % rows, number % columns];
        let origin = [0, 1, 2].map(|axis| place[axis] * block[axis]);
        let whole = self.problem.out.padded();
        self.kept = [0, 1, 2].map(|axis| block[axis].min(whole[axis] - origin[axis]));
        // Plain loops are compiled for wider vectors; none depends on that.
        let avx2 = IsaSet::of(&[Isa::Avx2]);
        let seen = isa::vectorized!(&avx2, || self.gather(origin));
        let empty = if self.problem.measure == Measure::Nssd { 1.0 } else { 0.0 };
        self.scores.clear();
        self.scores.resize(self.problem.block.len(), empty);
        self.doubtful.clear();
        let mut repaired = 0;
        if seen.known {
            match self.problem.measure {
                Measure::Sad => isa::vectorized!(&avx2, || self.differences()),
                _ => {
                    self.correlations(&seen)?;
                    isa::vectorized!(&avx2, || self.judge(&seen));
                }
            }
            repaired = isa::vectorized!(&avx2, || self.settle(empty, cancel))?;
        }
        if seen.bad {
            self.spoil();
        }
        self.write(origin, out);
        Ok(Statistics { panels: self.kept.iter().product::<usize>() as u64, repaired, tiles: 1 })
    }

    /// Gathers samples and weights by the boundary rule. What a last block has beyond the result repeats what is there.
    #[inline(always)]
    fn gather(&mut self, origin: [usize; 3]) -> Seen {
        let problem = self.problem;
        let Worker { raw, mask, bad, .. } = self;
        let (out, block, image) = (problem.out.padded(), problem.block.padded(), problem.image.shape().padded());
        let [depth, height, width] = problem.samples.padded();
        let count = problem.samples.len();
        let places = [0, 1, 2].map(|axis| {
            let last = block[axis].min(out[axis] - origin[axis]) + problem.window[axis] - 2;
            let first = problem.first[axis] as isize + origin[axis] as isize;
            let place = move |step: usize| problem.boundary.fold(first + step.min(last) as isize, image[axis]);
            (0..block[axis] + problem.window[axis] - 1).map(place).collect::<Vec<_>>()
        });
        // The samples of a row that lie in the image side by side.
        let along = &places[2];
        let begin =
            (0..width).find(|&x| along[x].is_some() && x + 1 < width && along[x + 1] == along[x].map(|at| at + 1));
        let begin = begin.unwrap_or(width);
        let end = (begin..width).find(|&x| along[x] != along[begin].map(|at| at + x - begin)).unwrap_or(width);
        let fill = |view: &AnyView<'_>, outside: f64, to: &mut Vec<f64>| {
            to.resize(count, 0.0);
            for (number, row) in to.chunks_exact_mut(width).enumerate() {
                let (Some(z), Some(y)) = (places[0][number / height], places[1][number % height]) else {
                    row.fill(outside);
                    continue;
                };
                if let Some(x) = along.get(begin).copied().flatten() {
                    read(view, [z, y, x], &mut row[begin..end]);
                }
                for x in (0..begin).chain(end..width) {
                    row[x] = along[x].map_or(outside, |x| view.at([z, y, x]));
                }
            }
        };
        assert_eq!(count, depth * height * width);
        match &problem.image_mask {
            Some(view) => {
                fill(view, 0.0, mask);
                times(mask, factors(-problem.mask_exponent));
            }
            None => {
                mask.clear();
                mask.resize(count, 1.0);
            }
        }
        if places.iter().any(|places| places.contains(&None)) {
            for (number, row) in mask.chunks_exact_mut(width).enumerate() {
                let inside = places[0][number / height].is_some() && places[1][number % height].is_some();
                let outside = |(_, place): &(&mut f64, &Option<usize>)| !inside || place.is_none();
                row.iter_mut().zip(along).filter(outside).for_each(|(weight, _)| *weight = problem.outside);
            }
        }
        bad.clear();
        for (number, values) in raw.iter_mut().enumerate() {
            fill(&problem.image.channel(number), problem.boundary.value().unwrap_or(0.0), values);
            for (at, (value, weight)) in values.iter_mut().zip(&*mask).enumerate() {
                if *weight == 0.0 {
                    *value = 0.0;
                } else if !value.is_finite() {
                    *value = 0.0;
                    bad.resize(count, 0.0);
                    bad[at] = 1.0;
                }
            }
        }
        let is_bad = !bad.is_empty();
        if is_bad {
            mask.iter_mut().zip(&*bad).filter(|(_, bad)| **bad > 0.0).for_each(|(weight, _)| *weight = 0.0);
        }
        let first = mask[0];
        let weight = mask.iter().all(|&weight| weight == first).then_some(first);
        Seen { known: weight != Some(0.0), bad: is_bad, weight }
    }

    /// Brings samples to their scale, and correlates them.
    fn correlations(&mut self, seen: &Seen) -> Result<(), ExecError> {
        let Worker { problem, template, mask, raw, samples, product, spare, n, sums, .. } = self;
        let avx2 = IsaSet::of(&[Isa::Avx2]);
        let measure = problem.measure;
        let energies = !matches!(measure, Measure::Cc);
        let offsets = (measure != Measure::Zncc).then_some(&template.offsets[..]);
        self.exponent = isa::vectorized!(&avx2, || scaled(raw, mask, offsets, samples));
        let (shape, window) = (problem.samples.padded(), problem.window);
        // What every sum may be off by: of correlations, and of windows in parts of the sum.
        let taps = window.iter().product::<usize>() as f64;
        let granted = (16.0 + taps.sqrt()) * f64::EPSILON;
        let bound = |plane: &[f64], norm: f64| {
            let norms = lanes::dot(plane, plane).sqrt().min(taps.sqrt() * lanes::largest(plane));
            granted * norms * norm + FLOOR
        };
        let mut of_windows =
            |plane: &[f64], out: &mut Vec<f64>, scratch: &mut Option<Scratch>| match &template.by_weights {
                Some(tool) => {
                    correlate(tool, scratch, plane, problem, &mut [out])?;
                    Ok(bound(plane, tool.norms[0]))
                }
                None => {
                    out.clear();
                    out.extend_from_slice(plane);
                    isa::vectorized!(&avx2, || windows(out, shape, window, spare, |a, b| a + b));
                    Ok::<f64, ExecError>(FLOOR)
                }
            };
        self.n_error = match seen.weight {
            Some(_) => 0.0,
            None => of_windows(mask, n, &mut self.by_weights)?,
        };
        for (number, (channel, planes)) in template.channels.iter().zip(sums).enumerate() {
            let Planes { p, pp, pt, t, tt, errors } = planes;
            let x = &samples[number];
            isa::vectorized!(&avx2, || multiplied(mask, x, product));
            correlate(&channel.by_values, &mut self.by_values[number], product, problem, &mut [pt])?;
            errors.pt = bound(product, channel.by_values.norms[0]);
            if measure == Measure::Zncc {
                errors.p = of_windows(product, p, &mut self.by_weights)?;
            }
            if energies {
                isa::vectorized!(&avx2, || product.iter_mut().zip(x).for_each(|(product, x)| *product *= x));
                errors.pp = of_windows(product, pp, &mut self.by_weights)?;
            }
            if let (Some(tool), None) = (&channel.by_energies, seen.weight) {
                let scratch = &mut self.by_energies[number];
                match &tool.norms[..] {
                    [of_values, of_squares] => {
                        correlate(tool, scratch, mask, problem, &mut [t, tt])?;
                        (errors.t, errors.tt) = (bound(mask, *of_values), bound(mask, *of_squares));
                    }
                    norms => {
                        correlate(tool, scratch, mask, problem, &mut [tt])?;
                        errors.tt = bound(mask, norms[0]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Scores from sums, and which panels they leave in doubt.
    #[inline(always)]
    fn judge(&mut self, seen: &Seen) {
        let Worker { problem, template, n, sums, scores, doubtful, .. } = self;
        let relative = match template.by_weights {
            Some(_) => 0.0,
            None => (roundings(problem.window) + 4.0) * f64::EPSILON,
        };
        // Sums of a template's own samples in many lanes.
        const OWN: f64 = 128.0 * f64::EPSILON;
        let n_error = self.n_error;
        let of_weights = |at: usize| match seen.weight {
            Some(weight) => Sum { value: weight * template.total, error: OWN * weight * template.total },
            None => Sum { value: n[at], error: n_error + relative * n[at] },
        };
        let channels = |at: usize, n: f64| {
            sums.iter().zip(&template.channels).map(move |(planes, channel)| {
                let Planes { p, pp, pt, t, tt, errors } = planes;
                let of = |plane: &[f64], error: f64, part: f64| Sum {
                    value: plane.get(at).copied().unwrap_or(0.0),
                    error: error + part,
                };
                let squares = pp.get(at).map_or(0.0, |pp| pp.abs());
                let own = |weight: f64, sum: f64, terms: f64| Sum { value: weight * sum, error: OWN * weight * terms };
                Sums {
                    p: of(p, errors.p, relative * (n * squares).sqrt()),
                    pp: of(pp, errors.pp, relative * squares),
                    pt: of(pt, errors.pt, 0.0),
                    t: seen.weight.map_or(of(t, errors.t, 0.0), |weight| own(weight, channel.sum, channel.magnitude)),
                    tt: seen
                        .weight
                        .map_or(of(tt, errors.tt, 0.0), |weight| own(weight, channel.square, channel.square)),
                }
            })
        };
        let (image, of_template) = (self.exponent, template.exponent);
        let weights = problem.mask_exponent + problem.weights_exponent;
        match problem.measure {
            Measure::Zncc | Measure::Ncc | Measure::Nssd => {
                let [a, b] = factors(image.unwrap_or(0) - of_template.unwrap_or(0));
                for (at, score) in scores.iter_mut().enumerate() {
                    let n = of_weights(at);
                    if n.value + n.error < problem.least {
                        continue;
                    }
                    let sure = n.value - n.error > 0.0 && n.value - n.error >= problem.least;
                    let found = match problem.measure {
                        _ if !sure => None,
                        Measure::Zncc => judge::zncc(n, channels(at, n.value), problem.limit),
                        Measure::Ncc => judge::ncc(channels(at, n.value), problem.limit).map(|(score, _)| score),
                        _ => {
                            // A ratio of norms over 4 is a difference over 1.
                            let limit = problem.limit / 8.0;
                            judge::ncc(channels(at, n.value), limit)
                                .map(|(score, ratio)| judge::nssd(score, ratio * a * b))
                        }
                    };
                    match found {
                        Some(found) => *score = found,
                        None => doubtful.push(at),
                    }
                }
            }
            _ => {
                // In units of the larger of image and template, so that differences of large numbers are no infinities.
                let squares = problem.measure == Measure::Ssd;
                let both = image.max(of_template).unwrap_or(0);
                let part = |exponent: Option<i32>| exponent.map_or(0.0, |exponent| shifted(1.0, exponent - both));
                let (x, y) = (part(image), part(of_template));
                let unit = match squares {
                    true => 2 * both + weights,
                    false => image.unwrap_or(0) + of_template.unwrap_or(0) + weights,
                };
                let [a, b] = factors(unit);
                for (at, score) in scores.iter_mut().enumerate() {
                    let n = of_weights(at);
                    let (mut total, mut error, mut energy) = (0.0, 0.0, 0.0);
                    for Sums { pp, pt, tt, .. } in channels(at, n.value) {
                        if squares {
                            total += x * x * pp.value - 2.0 * (x * y * pt.value) + y * y * tt.value;
                            error += x * x * pp.error + 2.0 * (x * y * pt.error) + y * y * tt.error;
                            energy += x * x * pp.value + y * y * tt.value;
                        } else {
                            total += pt.value;
                            error += pt.error;
                        }
                    }
                    let total = if squares { total.max(0.0) } else { total };
                    // What rounding leaves of a difference of 0 may be an infinity beside squares that are one.
                    let drowns = total <= DROWNED * error && (energy + error) * a * b > problem.most;
                    let (total, error) = (total * a * b, error * a * b);
                    *score = if problem.integers && error < 0.25 { total.round() } else { total };
                    if n.value <= n.error || drowns {
                        doubtful.push(at);
                    }
                }
            }
        }
    }

    /// Sums of absolute differences, one product after the other. Large samples are scaled down for nothing but sums
    /// that are no numbers without: what another panel holds may be far below what this one would keep.
    #[inline(always)]
    fn differences(&mut self) {
        let largest = |channels: &[Vec<f64>]| channels.iter().map(|values| lanes::largest(values)).fold(0.0, f64::max);
        let largest = largest(&self.raw).max(largest(&self.template.raw));
        let unit = if largest > 0.0 { exponent(largest) } else { 0 };
        let of_weights = self.problem.mask_exponent + self.problem.weights_exponent;
        let scale = |unit: i32| factors(unit + of_weights);
        self.differences_in(unit.min(0));
        if unit > 0 && !self.scores.iter().all(|sum| sum.is_finite()) {
            let mut sums = std::mem::take(&mut self.scores);
            self.scores.resize(sums.len(), 0.0);
            self.differences_in(unit);
            times(&mut self.scores, scale(unit));
            let [a, b] = scale(0);
            let numbers = self.scores.iter_mut().zip(&mut sums).filter(|(_, sum)| sum.is_finite());
            numbers.for_each(|(score, sum)| *score = *sum * a * b);
        } else {
            times(&mut self.scores, scale(unit.min(0)));
        }
    }

    /// Adds sums of absolute differences of samples that are divided by two to an exponent, under weights as they are
    /// held here.
    #[inline(always)]
    fn differences_in(&mut self, unit: i32) {
        let Worker { problem, template, mask, raw, samples, spare, scores, .. } = self;
        let all = samples.iter_mut().zip(raw.iter());
        all.for_each(|(samples, raw)| samples.clone_from(raw));
        samples.iter_mut().for_each(|values| times(values, factors(-unit)));
        let [_, _, columns] = problem.block.padded();
        let [_, height, width] = problem.samples.padded();
        let [_, rows, _] = problem.block.padded();
        let [depth_t, height_t, width_t] = problem.window;
        for (number, out) in scores.chunks_exact_mut(columns).enumerate() {
            let (z, y) = (number / rows, number % rows);
            for (values, taps) in samples.iter().zip(&template.raw) {
                for line in 0..depth_t * height_t {
                    let from = ((z + line / height_t) * height + y + line % height_t) * width;
                    let (values, weights) = (&values[from..from + width], &mask[from..from + width]);
                    spare.clear();
                    spare.resize(columns, 0.0);
                    for x in 0..width_t {
                        let tap = line * width_t + x;
                        let own = problem.weights.as_ref().map_or(1.0, |weights| weights[tap]);
                        if own == 0.0 {
                            continue;
                        }
                        let value = shifted(taps[tap], -unit);
                        let there = values[x..x + columns].iter().zip(&weights[x..x + columns]);
                        for (sum, (sample, weight)) in spare.iter_mut().zip(there) {
                            *sum += own * weight * (sample - value).abs();
                        }
                    }
                    out.iter_mut().zip(&*spare).for_each(|(out, sum)| *out += sum);
                }
            }
        }
    }

    /// Decides what is in doubt: how many panels.
    #[inline(always)]
    fn settle(&mut self, empty: f64, cancel: Option<&CancelToken>) -> Result<u64, ExecError> {
        let [_, rows, columns] = self.problem.block.padded();
        let kept = self.kept;
        let place = move |at: usize| [at / columns / rows, at / columns % rows, at % columns];
        self.doubtful.retain(|&at| place(at).iter().zip(kept).all(|(&at, kept)| at < kept));
        if self.doubtful.len() > MANY {
            self.settle_constants(empty);
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        for (done, &at) in doubtful.iter().enumerate() {
            if done % ASKED == 0 && cancel.is_some_and(CancelToken::is_cancelled) {
                return Err(ExecError::Cancelled { done: 0, total: 1 });
            }
            let n = self.fill(place(at));
            let problem = self.problem;
            self.scores[at] = match problem.measure {
                _ if self.panel.weights.is_empty() => empty,
                Measure::Zncc | Measure::Ncc | Measure::Nssd if n >= problem.least => {
                    self.panel.score(problem.measure, empty)
                }
                Measure::Zncc | Measure::Ncc | Measure::Nssd => empty,
                Measure::Ssd => self.panel.squared_differences(problem.mask_exponent + problem.weights_exponent),
                Measure::Cc | Measure::Sad => self.scores[at],
            };
        }
        let settled = doubtful.len() as u64;
        self.doubtful = doubtful;
        Ok(settled)
    }

    /// Leaves out panels without a known sample, and those whose known samples are all equal, or 0.
    #[inline(always)]
    fn settle_constants(&mut self, empty: f64) {
        let Worker { problem, mask, raw, spare, sums, scores, doubtful, .. } = self;
        let (shape, window) = (problem.samples.padded(), problem.window);
        for (values, Planes { p: least, pp: most, .. }) in raw.iter().zip(sums.iter_mut()) {
            let known =
                |unknown: f64| move |(&value, &weight): (&f64, &f64)| if weight > 0.0 { value } else { unknown };
            least.clear();
            least.extend(values.iter().zip(&*mask).map(known(f64::INFINITY)));
            most.clear();
            most.extend(values.iter().zip(&*mask).map(known(f64::NEG_INFINITY)));
            windows(least, shape, window, spare, |a, b| if b < a { b } else { a });
            windows(most, shape, window, spare, |a, b| if b > a { b } else { a });
        }
        let measure = problem.measure;
        doubtful.retain(|&at| {
            let settled = sums.iter().all(|Planes { p: least, pp: most, .. }| match measure {
                Measure::Zncc => least[at] >= most[at],
                Measure::Ncc | Measure::Nssd => least[at] > most[at] || least[at] == 0.0 && most[at] == 0.0,
                _ => least[at] > most[at],
            });
            if settled {
                scores[at] = empty;
            }
            !settled
        });
    }

    /// Fills the panel at a place with all that a weight looks at; the sum of the weights.
    #[inline(always)]
    fn fill(&mut self, [z, y, x]: [usize; 3]) -> f64 {
        let Worker { problem, template, mask, raw, panel, .. } = self;
        let [_, height, width] = problem.samples.padded();
        let [depth_t, height_t, width_t] = problem.window;
        let Panel { weights, image, template: taps } = panel;
        weights.clear();
        image.iter_mut().chain(&mut *taps).for_each(Vec::clear);
        for line in 0..depth_t * height_t {
            let from = ((z + line / height_t) * height + y + line % height_t) * width + x;
            for step in 0..width_t {
                let tap = line * width_t + step;
                let own = problem.weights.as_ref().map_or(1.0, |weights| weights[tap]);
                let weight = mask[from + step];
                if own > 0.0 && weight > 0.0 {
                    weights.push(own * weight);
                    for (to, from) in image.iter_mut().zip(&*raw).map(|(to, raw)| (to, raw[from + step])) {
                        to.push(from);
                    }
                    for (to, from) in taps.iter_mut().zip(&template.raw).map(|(to, raw)| (to, raw[tap])) {
                        to.push(from);
                    }
                }
            }
        }
        lanes::sum(weights, |weight| weight)
    }

    /// What touches a sample that is not finite is no number.
    fn spoil(&mut self) {
        let Worker { problem, bad, product, spare, scores, .. } = self;
        let [_, height, width] = problem.samples.padded();
        let [_, rows, columns] = problem.block.padded();
        let [depth_t, height_t, width_t] = problem.window;
        product.clone_from(bad);
        windows(product, problem.samples.padded(), problem.window, spare, f64::max);
        for (at, score) in scores.iter_mut().enumerate().filter(|(at, _)| product[*at] > 0.0) {
            let (z, y, x) = (at / columns / rows, at / columns % rows, at % columns);
            let looked_at = |weights: &Vec<f64>| {
                (0..depth_t * height_t * width_t).any(|tap| {
                    let [dz, dy, dx] = [tap / width_t / height_t, tap / width_t % height_t, tap % width_t];
                    weights[tap] > 0.0 && bad[((z + dz) * height + y + dy) * width + x + dx] > 0.0
                })
            };
            if problem.weights.as_ref().is_none_or(looked_at) {
                *score = f64::NAN;
            }
        }
    }

    /// Writes what the result has of the block.
    fn write(&self, origin: [usize; 3], out: &Mutex<&mut AnyViewMut<'_>>) {
        fn rows<T>(
            view: &mut ViewMut<'_, T>,
            origin: [usize; 3],
            kept: [usize; 3],
            row: impl Fn(usize, usize, usize) -> T,
        ) {
            let (data, layout) = view.parts();
            for z in 0..kept[0] {
                for y in 0..kept[1] {
                    let first = layout.offset([origin[0] + z, origin[1] + y, origin[2]], 0) as isize;
                    for x in 0..kept[2] {
                        data[(first + x as isize * layout.row_step()) as usize] = row(z, y, x);
                    }
                }
            }
        }
        let [_, height, width] = self.problem.block.padded();
        let score = |z: usize, y: usize, x: usize| self.scores[(z * height + y) * width + x];
        match &mut **out.lock().unwrap_or_else(PoisonError::into_inner) {
            AnyViewMut::F32(view) => rows(view, origin, self.kept, |z, y, x| score(z, y, x) as f32),
            AnyViewMut::F64(view) => rows(view, origin, self.kept, score),
        }
    }
}

/// Samples less the offsets of their channels, or without those less what the known ones of their channel have in
/// common, at one scale for all channels: the exponent of what they are divided by; none where all are 0.
#[inline(always)]
fn scaled(raw: &[Vec<f64>], mask: &[f64], offsets: Option<&[f64]>, samples: &mut [Vec<f64>]) -> Option<i32> {
    samples.iter_mut().zip(raw).for_each(|(samples, raw)| samples.clone_from(raw));
    let offset = lanes::largest(offsets.unwrap_or_default());
    let scale = if offset > 0.0 { over(samples, offset) } else { to_one(samples)? };
    if offsets.is_some() && offset == 0.0 {
        return Some(scale);
    }
    let known = lanes::sum(mask, |weight| if weight > 0.0 { 1.0 } else { 0.0 });
    for (number, values) in samples.iter_mut().enumerate() {
        let common = match offsets {
            Some(offsets) => shifted(offsets[number], -scale),
            None => lanes::sum(values, |value| value) / known,
        };
        let less = |(value, &weight): (&mut f64, &f64)| *value = if weight > 0.0 { *value - common } else { 0.0 };
        values.iter_mut().zip(mask).for_each(less);
    }
    to_one(samples).map(|own| scale + own)
}

/// Brings the larger of an offset and the largest sample to 1, or just above; the exponent of what samples are divided
/// by.
#[inline(always)]
fn over(samples: &mut [Vec<f64>], offset: f64) -> i32 {
    let largest = samples.iter().fold(offset, |most, values| most.max(lanes::largest(values)));
    let scale = exponent(largest);
    samples.iter_mut().for_each(|values| times(values, factors(-scale)));
    scale
}

#[inline(always)]
fn multiplied(a: &[f64], b: &[f64], to: &mut Vec<f64>) {
    to.clear();
    to.extend(a.iter().zip(b).map(|(a, b)| a * b));
}

/// Correlates a block with the arrays of a tool.
fn correlate(
    tool: &Tool,
    scratch: &mut Option<Scratch>,
    plane: &[f64],
    problem: &Problem<'_>,
    outs: &mut [&mut Vec<f64>],
) -> Result<(), ExecError> {
    let mut views = Vec::with_capacity(outs.len());
    for out in outs {
        out.resize(problem.block.len(), 0.0);
        views.push(AnyViewMut::from(ViewMut::new(out, problem.block)?));
    }
    let scratch = scratch.get_or_insert_with(|| tool.matcher.make_scratch());
    let image = View::new(plane, problem.samples)?.into();
    tool.matcher.execute_into(&[image], &mut views, scratch, &Control::default()).map(drop)
}
