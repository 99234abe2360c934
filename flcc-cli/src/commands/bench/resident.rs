//! Images and results that lie on a GPU: how long a call takes by the host's clock, and its kernels by the device's.

use std::time::{Duration, Instant};

use flcc_runtime::rooms::cuda::driver::buffer::{Buffer, bytes_of_mut};
use flcc_runtime::rooms::cuda::driver::launch::{Gpu, Stream};
use flcc_runtime::rooms::cuda::fault::Fault;
use flcc_runtime::{
    Control, DType, DeviceImage, DevicePairs, DeviceResults, ExecError, Matcher, Pairs, Pixels, Plan, ScoreMap,
    Scratch, Shape, Spec, SpecError,
};

use super::times::{Kernels, nanoseconds, repeated};
use crate::error::Error;

/// Bytes of all buffers together, at least: more than the caches of a device hold, so that each run finds its image in
/// memory.
const ROTATED: usize = 256 << 20;
/// Sets of buffers, at most: small images stay in the caches.
const SETS: usize = 64;
/// What a batch of runs takes, about.
const BATCH: Duration = Duration::from_millis(2);
/// Runs of a batch, at most, besides those that use every set once.
const BATCH_RUNS: usize = 256;

/// What runs on images that lie on a device.
#[derive(Clone, Copy)]
pub enum By<'a> {
    /// One image with every template, which are bound.
    Matcher(&'a Matcher),
    /// Images with a template of their own each.
    Pairs(&'a Pairs),
}

impl By<'_> {
    fn plan(&self) -> &Plan {
        match self {
            By::Matcher(matcher) => matcher.plan(),
            By::Pairs(pairs) => pairs.plan(),
        }
    }

    fn devices(&self) -> Vec<usize> {
        match self {
            By::Matcher(matcher) => matcher.devices(),
            By::Pairs(pairs) => pairs.devices(),
        }
    }

    fn make_scratch(&self) -> Scratch {
        match self {
            By::Matcher(matcher) => matcher.make_scratch(),
            By::Pairs(pairs) => pairs.make_scratch(),
        }
    }
}

/// An image and its results, or images one behind the other with their templates.
struct Set {
    images: Buffer,
    templates: Option<Buffer>,
    results: Buffer,
}

/// Sets of images and their results, all of the same images.
pub struct Resident<'a> {
    by: By<'a>,
    /// Images and results of a set.
    counts: [usize; 2],
    stream: Stream,
    sets: Vec<Set>,
    scratch: Scratch,
}

impl<'a> Resident<'a> {
    /// Copies of images on the first device of a plan, with room for results; templates where each has its own.
    ///
    /// # Errors
    /// A plan for the CPU, several images with the same templates, a device without so much memory.
    pub fn new(by: By<'a>, images: &[Pixels], templates: &[Pixels]) -> Result<Resident<'a>, Error> {
        let spec = by.plan().spec();
        let device = by.devices().first().copied().ok_or_else(|| {
            SpecError::new("--resident", "a plan for a GPU, as --platform cuda asks for", "a plan for the CPU")
        })?;
        let own = matches!(by, By::Pairs(_));
        if images.len() > 1 && !own {
            return Err(SpecError::new("--resident", "a spec of one image", images.len()).into());
        }
        let stream = Gpu::open(device).and_then(|gpu| gpu.stream()).map_err(ExecError::from)?;
        let counts = [images.len(), images.len() * spec.templates()];
        let results = counts[1] * spec.out_shape().len() * spec.out_type().row().size;
        let image = spec.image().len() * spec.channels() * spec.image_type().row().size;
        let sets = ROTATED.div_ceil((counts[0] * image + results).max(1)).clamp(1, SETS);
        let set = || -> Result<_, Fault> {
            let templates = if own { Some(stacked(&stream, templates)?) } else { None };
            Ok(Set { images: stacked(&stream, images)?, templates, results: Buffer::new(&stream, results)? })
        };
        let sets = (0..sets).map(|_| set()).collect::<Result<Vec<_>, _>>().map_err(ExecError::from)?;
        // The runs have streams of their own.
        stream.wait().map_err(ExecError::from)?;
        Ok(Resident { by, counts, stream, sets, scratch: by.make_scratch() })
    }

    /// A run with every set; the results of the first, which those of the others equal.
    ///
    /// # Errors
    /// The device's; a set whose results are others.
    pub fn results(&mut self) -> Result<Vec<ScoreMap>, Error> {
        (0..self.sets.len()).try_for_each(|set| self.call(set))?;
        let first = self.read(0)?;
        for set in 1..self.sets.len() {
            if self.read(set)? != first {
                let told = "expected equal results of equal images, got others of copy";
                return Err(Error::Failed(format!("--resident: {told} {}", set + 1)));
            }
        }
        let region = self.by.plan().spec().region();
        Ok(first.into_iter().map(|data| ScoreMap::new(region, data)).collect::<Result<_, _>>()?)
    }

    /// Nanoseconds of calls, in order, and of their kernels, each for as long as the budget says.
    ///
    /// # Errors
    /// The device's.
    pub fn time(&mut self, budget: Duration) -> Result<(Vec<u64>, Kernels), Error> {
        let sets = self.sets.len();
        let calls = repeated(budget, |number| {
            let start = Instant::now();
            self.call(number % sets).map(|()| nanoseconds(start.elapsed()))
        })?;
        let (first, _) = self.batch(sets)?;
        let enough = BATCH.div_duration_f64(first.max(Duration::from_nanos(1))).ceil() as usize;
        let runs = enough.clamp(1, BATCH_RUNS).next_multiple_of(sets);
        let mut queued = true;
        let times = repeated(budget, |_| {
            let (each, all) = self.batch(runs)?;
            queued &= all;
            Ok::<_, ExecError>(nanoseconds(each))
        })?;
        Ok((calls, Kernels { times, runs, sets, queued }))
    }

    /// One call, as a user makes it.
    fn call(&mut self, set: usize) -> Result<(), ExecError> {
        let spec = self.by.plan().spec();
        let set = &mut self.sets[set];
        match self.by {
            By::Matcher(matcher) => {
                let (image, mut out) = set.of_image(&self.stream, spec)?;
                matcher.execute_on_device(&image, &mut out, &mut self.scratch, &Control::default()).map(|_| ())
            }
            By::Pairs(by) => {
                let (pairs, mut out) = set.of_pairs(&self.stream, spec, self.counts)?;
                by.execute_on_device(&pairs, &mut out, &mut self.scratch).map(|_| ())
            }
        }
    }

    /// So many runs one behind the other: the device's time for each, and whether it never waited for the host.
    fn batch(&mut self, runs: usize) -> Result<(Duration, bool), ExecError> {
        let spec = self.by.plan().spec();
        let mut outs = Vec::new();
        let time = match self.by {
            By::Matcher(matcher) => {
                let mut images = Vec::new();
                for set in &mut self.sets {
                    let (image, out) = set.of_image(&self.stream, spec)?;
                    images.push(image);
                    outs.push(out);
                }
                matcher.time_on_device(&images, &mut outs, &mut self.scratch, runs)?
            }
            By::Pairs(by) => {
                let mut all = Vec::new();
                for set in &mut self.sets {
                    let (pairs, out) = set.of_pairs(&self.stream, spec, self.counts)?;
                    all.push(pairs);
                    outs.push(out);
                }
                by.time_on_device(&all, &mut outs, &mut self.scratch, runs)?
            }
        };
        Ok((time.each, time.queued))
    }

    /// The results of a set.
    fn read(&self, set: usize) -> Result<Vec<Pixels>, Error> {
        let spec = self.by.plan().spec();
        let (len, size) = (spec.out_shape().len(), spec.out_type().row().size);
        let one = |template: usize| {
            let at = template * len * size;
            let buffer = &self.sets[set].results;
            macro_rules! read {
                ($kind:ident, $zero:expr) => {{
                    let mut values = vec![$zero; len];
                    buffer.read(&self.stream, at, bytes_of_mut(&mut values)).map(|()| Pixels::$kind(values))
                }};
            }
            match spec.out_type() {
                DType::U8 => read!(U8, 0u8),
                DType::U16 => read!(U16, 0u16),
                DType::F32 => read!(F32, 0f32),
                DType::F64 => read!(F64, 0f64),
            }
        };
        Ok((0..self.counts[1]).map(one).collect::<Result<_, _>>().map_err(ExecError::from)?)
    }
}

impl Set {
    fn of_image(&mut self, stream: &Stream, spec: &Spec) -> Result<(DeviceImage<'_>, DeviceResults<'_>), ExecError> {
        let image = self.images.image(stream, spec.image_type(), spec.image(), spec.channels())?;
        Ok((image, self.results.results(stream, spec.out_type(), spec.out_shape(), spec.templates())?))
    }

    fn of_pairs(
        &mut self,
        stream: &Stream,
        spec: &Spec,
        [count, results]: [usize; 2],
    ) -> Result<(DevicePairs<'_>, DeviceResults<'_>), ExecError> {
        let shape = |shape: Shape| {
            let [_, height, width] = shape.padded();
            Shape::new(&[count, height, width])
        };
        let templates = self.templates.as_ref().unwrap_or(&self.images);
        let images = self.images.image(stream, spec.image_type(), shape(spec.image())?, 1)?;
        let templates = templates.image(stream, spec.template_type(), shape(spec.template())?, 1)?;
        let out = self.results.results(stream, spec.out_type(), spec.out_shape(), results)?;
        Ok((DevicePairs { images, templates }, out))
    }
}

/// Arrays of one type, one behind the other.
fn stacked(stream: &Stream, arrays: &[Pixels]) -> Result<Buffer, Fault> {
    macro_rules! stack {
        ($kind:ident) => {{
            let of_kind = |pixels: &Pixels| match pixels {
                Pixels::$kind(samples) => samples.clone(),
                _ => Vec::new(),
            };
            match arrays {
                [Pixels::$kind(samples)] => Buffer::of(stream, samples),
                _ => Buffer::of(stream, &arrays.iter().flat_map(of_kind).collect::<Vec<_>>()),
            }
        }};
    }
    match arrays.first() {
        Some(Pixels::U8(_)) => stack!(U8),
        Some(Pixels::U16(_)) => stack!(U16),
        Some(Pixels::F64(_)) => stack!(F64),
        Some(Pixels::F32(_)) | None => stack!(F32),
    }
}
