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
use crate::run::execute::{CancelToken, Control, Execute, Pairs, Scratch};

/// Pairs of a run at most.
const MOST_PAIRS: usize = 32;

/// Bytes of results at most of images that are run together since that keeps a device busy.
const MOST_BYTES: usize = 1 << 28;

/// How many runs it takes until the next ones take what all others will: buffers are made when they are first used, and
/// a GPU's slot pins its memory on the host in the second run.
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
}

impl Ready<'_> {
    /// How many images a run has.
    pub fn images(&self) -> usize {
        self.images
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

    /// Binds the templates.
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
        if self.spec.pairs() {
            let weights = template::check_mask(&self.spec, mask.as_ref()).map_err(|error| failed(&error))?;
            return Ok(Ready { execute, bound: Given::Pairs(weights), scratch, images });
        }
        let (checked, weights) =
            template::check(&self.spec, &templates, mask.as_ref()).map_err(|error| failed(&error))?;
        let bound = execute.bind(checked, weights).map_err(|error| failed(&error))?;
        Ok(Ready { execute, bound: Given::Templates(bound), scratch, images })
    }

    /// Runs it once, and tells the time of an image; it is stopped at the end of a tile or a pair when it has taken
    /// longer than `limit`.
    ///
    /// # Errors
    /// What it fails with, in words.
    pub fn run(&mut self, ready: &mut Ready<'_>, limit: Option<Duration>) -> Result<Ran, String> {
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

    /// Runs it until the next run takes what all others will.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn warm_up(&mut self, ready: &mut Ready<'_>, platform: Platform) -> Result<(), String> {
        (0..runs_to_warm_up(platform)).try_for_each(|_| self.run(ready, None).map(|_| ()))
    }

    /// The mean time of an image in as many runs as fill `least`, at least one.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn mean(&mut self, ready: &mut Ready<'_>, least: Duration) -> Result<Duration, String> {
        let (start, mut count) = (Instant::now(), 0);
        loop {
            self.run(ready, None)?;
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
            line if length > 1 => line.iter().map(|value| (value / 64.0).floor().rem_euclid(4.0)).collect(),
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
