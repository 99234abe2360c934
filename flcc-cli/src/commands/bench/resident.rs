//! Images and results that lie on a GPU: how long a call takes by the host's clock, and its kernels by the device's.

use std::time::{Duration, Instant};

use flcc_runtime::cuda::driver::buffer::{Buffer, bytes_of_mut};
use flcc_runtime::cuda::driver::launch::{Gpu, Stream};
use flcc_runtime::cuda::fault::Fault;
use flcc_runtime::{
    Control, DType, DeviceImage, DeviceResults, ExecError, Matcher, Pixels, ScoreMap, Scratch, Spec, SpecError,
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

/// Sets of an image and its results, all of the same image.
pub struct Resident<'a> {
    matcher: &'a Matcher,
    stream: Stream,
    sets: Vec<(Buffer, Buffer)>,
    scratch: Scratch,
}

impl<'a> Resident<'a> {
    /// Copies of an image on the first device of a matcher, with room for results.
    ///
    /// # Errors
    /// A plan for the CPU, a spec of several images, a device without so much memory.
    pub fn new(matcher: &'a Matcher, image: &Pixels) -> Result<Resident<'a>, Error> {
        let spec = matcher.plan().spec();
        let device = matcher.devices().first().copied().ok_or_else(|| {
            SpecError::new("--resident", "a plan for a GPU, as --platform cuda asks for", "a plan for the CPU")
        })?;
        if spec.images() > 1 {
            return Err(SpecError::new("--resident", "a spec of one image", spec.images()).into());
        }
        let stream = Gpu::open(device).and_then(|gpu| gpu.stream()).map_err(ExecError::from)?;
        let results = spec.templates() * spec.out_shape().len() * spec.out_type().row().size;
        let bytes = spec.image().len() * spec.channels() * spec.image_type().row().size + results;
        let set = || -> Result<_, Fault> {
            let image = match image {
                Pixels::U8(samples) => Buffer::of(&stream, samples),
                Pixels::U16(samples) => Buffer::of(&stream, samples),
                Pixels::F32(samples) => Buffer::of(&stream, samples),
                Pixels::F64(samples) => Buffer::of(&stream, samples),
            }?;
            Ok((image, Buffer::new(&stream, results)?))
        };
        let sets = (0..ROTATED.div_ceil(bytes.max(1)).clamp(1, SETS)).map(|_| set()).collect::<Result<Vec<_>, _>>();
        let sets = sets.map_err(ExecError::from)?;
        // The runs have streams of their own.
        stream.wait().map_err(ExecError::from)?;
        Ok(Resident { matcher, stream, sets, scratch: matcher.make_scratch() })
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
        let region = self.matcher.plan().spec().region();
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
        let spec = self.matcher.plan().spec();
        let (image, results) = &mut self.sets[set];
        let image = image_of(image, &self.stream, spec)?;
        let mut out = results_of(results, &self.stream, spec)?;
        self.matcher.execute_on_device(&image, &mut out, &mut self.scratch, &Control::default()).map(|_| ())
    }

    /// So many runs one behind the other: the device's time for each, and whether it never waited for the host.
    fn batch(&mut self, runs: usize) -> Result<(Duration, bool), ExecError> {
        let spec = self.matcher.plan().spec();
        let (mut images, mut outs) = (Vec::new(), Vec::new());
        for (image, results) in &mut self.sets {
            images.push(image_of(image, &self.stream, spec)?);
            outs.push(results_of(results, &self.stream, spec)?);
        }
        let time = self.matcher.time_on_device(&images, &mut outs, &mut self.scratch, runs)?;
        Ok((time.each, time.queued))
    }

    /// The results of a set.
    fn read(&self, set: usize) -> Result<Vec<Pixels>, Error> {
        let spec = self.matcher.plan().spec();
        let (len, size) = (spec.out_shape().len(), spec.out_type().row().size);
        let one = |template: usize| {
            let at = template * len * size;
            let buffer = &self.sets[set].1;
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
        Ok((0..spec.templates()).map(one).collect::<Result<_, _>>().map_err(ExecError::from)?)
    }
}

fn image_of<'b>(buffer: &'b Buffer, stream: &Stream, spec: &Spec) -> Result<DeviceImage<'b>, ExecError> {
    Ok(buffer.image(stream, spec.image_type(), spec.image(), spec.channels())?)
}

fn results_of<'b>(buffer: &'b mut Buffer, stream: &Stream, spec: &Spec) -> Result<DeviceResults<'b>, ExecError> {
    Ok(buffer.results(stream, spec.out_type(), spec.out_shape(), spec.templates())?)
}
