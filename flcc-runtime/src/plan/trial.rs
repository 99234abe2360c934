//! Made-up problems that offers are timed on.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flcc_core::dtype::{DType, Pixels};
use flcc_core::error::ExecError;
use flcc_core::score::ScoreMap;
use flcc_core::spec::{MaskKind, Spec};
use flcc_core::view::AnyView;

use crate::plan::solver::Platform;
use crate::problem::template::{self, Weights};
use crate::run::execute::{CancelToken, Clock, Control, Execute, Pairs, Scratch};

/// Pairs of a run at most.
const MOST_PAIRS: usize = 32;

/// Bytes of results at most of images that are run together since that keeps a device busy.
const MOST_BYTES: usize = 1 << 28;

/// Runs that a device's clock times one behind the other at most.
const MOST_RUNS: usize = 64;

/// How many calls it takes until the next ones take what all others will: buffers are made when they are first used,
/// and a GPU's slot pins its memory on the host in the second call.
pub fn runs_to_warm_up(platform: Platform) -> usize {
    if platform == Platform::Cuda { 2 } else { 1 }
}

/// Made-up data of a spec's types and shapes, and results, to time offers with: one image, or some where they are
/// computed together, as pairs are by threads and images of a stream by GPUs.
pub struct Trial {
    spec: Spec,
    image: Pixels,
    templates: Vec<Pixels>,
    mask: Option<Pixels>,
    maps: Vec<ScoreMap>,
}

/// What executes an offer, with templates bound and scratch at hand.
pub struct Ready<'a> {
    execute: &'a dyn Execute,
    bound: Given,
    scratch: Scratch,
    /// Images of a run.
    images: usize,
    /// What times kernels of images that lie on a device, where that is how it is timed.
    clock: Option<Box<dyn Clock + 'a>>,
    /// What that told last of an image.
    told: Duration,
    /// Whether calls are warmed up.
    warm: bool,
}

impl Ready<'_> {
    /// How many images a run has.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Whether its runs are timed by a device, without copies.
    pub fn on_device(&self) -> bool {
        self.clock.is_some()
    }

    /// Has its runs timed as whole calls, whoever computes.
    pub fn by_calls(&mut self) {
        self.clock = None;
    }

    /// Runs what lies on the device so many times.
    fn kernels(&mut self, runs: usize, limit: Option<Duration>) -> Result<Ran, String> {
        let Some(clock) = &mut self.clock else { return Err("expected a device with a clock, got none".into()) };
        self.told = clock.time(runs, limit).map_err(|error| error.to_string())?;
        Ok(if limit.is_some_and(|limit| self.told > limit) { Ran::Stopped(self.told) } else { Ran::Done(self.told) })
    }
}

/// What is bound before a run.
enum Given {
    /// The templates.
    Templates(Arc<dyn Any + Send + Sync>),
    /// The weights alone: pairs bind their templates in the run.
    Pairs(Weights),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It was done after so long.
    Done(Duration),
    /// It was stopped, since it had taken so long.
    Stopped(Duration),
}

impl Ran {
    /// How long it took, stopped or not.
    pub fn time(self) -> Duration {
        match self {
            Ran::Done(time) | Ran::Stopped(time) => time,
        }
    }
}

impl Trial {
    /// A problem of a spec.
    pub fn new(spec: &Spec) -> Trial {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut noise = |count: usize, dtype| {
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 40) as f64 / 65536.0
                })
                .collect();
            Pixels::F64(values).cast(dtype)
        };
        let image = noise(spec.image().len() * spec.channels(), spec.image_type());
        let template = |_| match spec.rank() {
            Some(rank) => of_rank(spec, rank, &mut noise),
            None => noise(spec.template().len() * spec.channels(), spec.template_type()),
        };
        let templates: Vec<Pixels> = (0..spec.templates()).map(template).collect();
        // Two samples at least: one alone has no coefficient.
        let taps = spec.template().len();
        let mask = (spec.mask() != MaskKind::None)
            .then(|| Pixels::F64((0..taps).map(|k| f64::from(u8::from(k % 3 != 1 || taps == 2))).collect()));
        Trial { spec: spec.clone(), image, templates, mask, maps: Vec::new() }
    }

    /// How many images of the spec a run has: as many as come at a time.
    fn images(&self, execute: &dyn Execute) -> usize {
        let spec = &self.spec;
        let all = if spec.images() == 0 { usize::MAX } else { spec.images() };
        let bytes = spec.out_shape().len() * spec.out_type().row().size * spec.templates();
        let together =
            if spec.pairs() { MOST_PAIRS } else { execute.appetite().min((MOST_BYTES / bytes.max(1)).max(1)) };
        all.min(together)
    }

    /// Binds the templates. Where the device that executes has a clock of its own, images are laid before it, and it
    /// times all runs but those of [`Trial::call`].
    ///
    /// # Errors
    /// What binding fails with, in words.
    pub fn ready<'a>(&self, execute: &'a dyn Execute, workers: usize) -> Result<Ready<'a>, String> {
        let failed = |error: &dyn fmt::Display| error.to_string();
        let view = |pixels, shape, channels| AnyView::dense(pixels, shape, channels).map_err(|error| failed(&error));
        let mask = self.mask.as_ref().map(|mask| view(mask, self.spec.template(), 1)).transpose()?;
        let templates = self
            .templates
            .iter()
            .map(|t| view(t, self.spec.template(), self.spec.channels()))
            .collect::<Result<Vec<_>, _>>()?;
        let images = self.images(execute);
        let scratch = execute.scratch(workers, images * self.templates.len());
        let image = view(&self.image, self.spec.image(), self.spec.channels())?;
        let all = vec![image; images];
        let (bound, clock) = if self.spec.pairs() {
            let weights = template::check_mask(&self.spec, mask.as_ref()).map_err(|error| failed(&error))?;
            let templates = vec![templates[0]; images];
            let pairs = Pairs { spec: &self.spec, images: &all, templates: &templates, weights: &weights };
            let clock = execute.clock_of_pairs(&pairs);
            (Given::Pairs(weights), clock)
        } else {
            let (checked, weights) =
                template::check(&self.spec, &templates, mask.as_ref()).map_err(|error| failed(&error))?;
            let bound = execute.bind(checked, weights).map_err(|error| failed(&error))?;
            let clock = execute.clock(&bound, &all);
            (Given::Templates(bound), clock)
        };
        // A device without room for a clock is timed by calls; what it fails at besides they tell.
        let clock = clock.unwrap_or_default();
        Ok(Ready { execute, bound, scratch, images, clock, told: Duration::ZERO, warm: false })
    }

    /// Runs it once, and tells the time of an image; it is stopped when it has taken longer than `limit`.
    ///
    /// # Errors
    /// What it fails with, in words.
    pub fn run(&mut self, ready: &mut Ready<'_>, limit: Option<Duration>) -> Result<Ran, String> {
        if ready.on_device() { ready.kernels(1, limit) } else { self.call(ready, limit) }
    }

    /// Calls it once, from the host's memory to the host's memory, and tells the time of an image; it is stopped at the
    /// end of a tile or a pair when it has taken longer than `limit`.
    ///
    /// # Errors
    /// What it fails with, in words.
    pub fn call(&mut self, ready: &mut Ready<'_>, limit: Option<Duration>) -> Result<Ran, String> {
        let image =
            AnyView::dense(&self.image, self.spec.image(), self.spec.channels()).map_err(|error| error.to_string())?;
        let results = ready.images * self.templates.len();
        while self.maps.len() < results {
            self.maps.push(ScoreMap::of(&self.spec));
        }
        let mut outs: Vec<_> = self.maps[..results].iter_mut().map(ScoreMap::view_mut).collect();
        let cancel = CancelToken::default();
        let start = Instant::now();
        let watch = |_, _| {
            if limit.is_some_and(|limit| start.elapsed() > limit * ready.images as u32) {
                cancel.cancel();
            }
        };
        let control = match limit {
            Some(_) => Control { progress: Some(&watch), cancel: Some(&cancel), ..Control::default() },
            None => Control::default(),
        };
        let images = vec![image; ready.images];
        let done = match &ready.bound {
            Given::Templates(bound) => {
                let done = ready.execute.execute(bound.as_ref(), &images, &mut outs, &mut ready.scratch, &control);
                done.map_err(|unfinished| unfinished.error)
            }
            Given::Pairs(weights) => {
                let template = AnyView::dense(&self.templates[0], self.spec.template(), self.spec.channels())
                    .map_err(|error| error.to_string())?;
                let templates = vec![template; ready.images];
                let pairs = Pairs { spec: &self.spec, images: &images, templates: &templates, weights };
                ready.execute.execute_pairs(&pairs, &mut outs, &mut ready.scratch, &control)
            }
        };
        let taken = start.elapsed() / ready.images as u32;
        match done {
            Ok(_) => Ok(Ran::Done(taken)),
            Err(ExecError::Cancelled { .. }) => Ok(Ran::Stopped(taken)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Has the next run take what all others will. What a device's clock times is as far: it was laid there.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn warm_up(&mut self, ready: &mut Ready<'_>, platform: Platform) -> Result<(), String> {
        if ready.on_device() { Ok(()) } else { self.warm_calls(ready, platform) }
    }

    /// Calls it until the next call takes what all others will, unless that was done.
    ///
    /// # Errors
    /// As [`Trial::call`].
    pub fn warm_calls(&mut self, ready: &mut Ready<'_>, platform: Platform) -> Result<(), String> {
        if !ready.warm {
            (0..runs_to_warm_up(platform)).try_for_each(|_| self.call(ready, None).map(|_| ()))?;
        }
        ready.warm = true;
        Ok(())
    }

    /// The mean time of an image in as many runs as fill `least`, at least one; a device's clock times 64 at most.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn mean(&mut self, ready: &mut Ready<'_>, least: Duration) -> Result<Duration, String> {
        if !ready.on_device() {
            return self.mean_of_calls(ready, least);
        }
        let run = ready.images as u32 * ready.told;
        let runs = if run.is_zero() { 1 } else { least.div_duration_f64(run).ceil() as usize };
        ready.kernels(runs.clamp(1, MOST_RUNS), None).map(|_| ready.told)
    }

    /// The mean time of an image in as many calls as fill `least`, at least one.
    ///
    /// # Errors
    /// As [`Trial::call`].
    pub fn mean_of_calls(&mut self, ready: &mut Ready<'_>, least: Duration) -> Result<Duration, String> {
        let (start, mut count) = (Instant::now(), 0);
        loop {
            self.call(ready, None)?;
            count += 1;
            if start.elapsed() >= least {
                return Ok(start.elapsed() / (count * ready.images as u32));
            }
        }
    }
}

/// A template that is the sum of so many products of lines, in integers where its type has no others.
fn of_rank(spec: &Spec, rank: usize, noise: &mut impl FnMut(usize, DType) -> Pixels) -> Pixels {
    let lengths = spec.template().padded();
    let mut values = vec![0.0; spec.template().len() * spec.channels()];
    for _ in 0..rank {
        // 0 to 3: a sum of 27 of them fits a byte for every rank that serves.
        let lines = lengths.map(|length| match noise(length, DType::F64).to_f64() {
            line if length > 1 => uneven(line.iter().map(|value| (value / 64.0).floor().rem_euclid(4.0)).collect()),
            _ => vec![1.0],
        });
        for (at, value) in values.iter_mut().enumerate() {
            let at = at / spec.channels();
            let [z, y, x] = [at / (lengths[1] * lengths[2]), at / lengths[2] % lengths[1], at % lengths[2]];
            *value += lines[0][z] * lines[1][y] * lines[2][x];
        }
    }
    Pixels::F64(values).cast(spec.template_type())
}

/// A line of samples that are not all equal, with another first one where they are: short lines of few values often
/// are, and such a template has no score. No value is above the larger of 1 and the line's.
pub fn uneven(mut line: Vec<f64>) -> Vec<f64> {
    if let Some(&first) = line.first().filter(|first| line.iter().all(|value| value == *first)) {
        line[0] = if first == 0.0 { 1.0 } else { first - 1.0 };
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::Clockwork;

    #[test]
    fn a_small_template_of_rank_one_has_values_that_differ() {
        let spec: Spec = "zncc:u8:7@12x11x7*3x2x3:same,rank=1,channels=3".parse().unwrap();
        let mut number = 0;
        // Lines of each constant, and of zeros, as noise may have them.
        for _ in 0..200 {
            let mut noise = |count: usize, _| {
                number += 1;
                Pixels::F64((0..count).map(|k| (64 * (number * (1 + k * (number % 3)) % 4)) as f64).collect())
            };
            let values = of_rank(&spec, 1, &mut noise).to_f64();
            assert!(values.iter().any(|value| *value != values[0]), "{values:?}");
        }
        assert_eq!([vec![0.0, 0.0], vec![1.0, 1.0], vec![0.0, 3.0]].map(uneven), [[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]);
    }

    #[test]
    fn a_device_with_a_clock_is_called_only_where_calls_are_asked_for() {
        let spec: Spec = "corr:f32:30x40*5x6:valid".parse().unwrap();
        let mut trial = Trial::new(&spec);
        let device = Clockwork::new(Duration::from_micros(10), Duration::ZERO);
        let execute = device.execute(&spec);
        let mut ready = trial.ready(&execute, 1).unwrap();
        assert!(ready.on_device());
        trial.warm_up(&mut ready, Platform::Cuda).unwrap();
        let limit = |micros| Some(Duration::from_micros(micros));
        assert_eq!(trial.run(&mut ready, limit(9)), Ok(Ran::Stopped(Duration::from_micros(10))));
        assert_eq!(trial.run(&mut ready, limit(10)), Ok(Ran::Done(Duration::from_micros(10))));
        for least in [0, 200, 10_000_000] {
            assert_eq!(trial.mean(&mut ready, Duration::from_micros(least)), Ok(Duration::from_micros(10)));
        }
        assert_eq!(device.seen(), (0, vec![1, 1, 1, 20, MOST_RUNS]));
        trial.warm_calls(&mut ready, Platform::Cuda).unwrap();
        trial.warm_calls(&mut ready, Platform::Cuda).unwrap();
        assert_eq!(device.seen().0, runs_to_warm_up(Platform::Cuda));
        trial.call(&mut ready, None).unwrap();
        ready.by_calls();
        assert!(matches!(trial.run(&mut ready, None), Ok(Ran::Done(_))) && !ready.on_device());
        assert_eq!((device.seen().0, device.seen().1.len()), (runs_to_warm_up(Platform::Cuda) + 2, 5));
        // Images with a template of their own each have a clock too.
        let pairs: Spec = "corr:f32:0@30x40*5x6:valid,pairs".parse().unwrap();
        let (mut trial, execute) = (Trial::new(&pairs), device.execute(&pairs));
        let mut ready = trial.ready(&execute, 1).unwrap();
        assert_eq!(trial.run(&mut ready, None), Ok(Ran::Done(Duration::from_micros(10))));
        assert_eq!(ready.images(), MOST_PAIRS);
    }
}
