//! bench: a spec on made-up data, checked against the f64 oracle, then timed.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use flcc_runtime::core::key::KernelKey;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::rooms::plan::trial::uneven;
use flcc_runtime::{
    AnyView, AnyViewMut, Control, Copies, DType, Effort, ExecError, MaskKind, Matcher, Method, Pairs, Pixels, Plan,
    ScoreMap, Scratch, Shape, Spec, SpecError, Statistics,
};
use serde_json::json;

use crate::args::{Bench, Planning};
use crate::error::Error;
use crate::memory::{check_data, check_plan, results};
use crate::session::{Progress, Session, override_spec};
use times::{Kernels, nanoseconds, repeated};

#[cfg(feature = "cuda")]
mod resident;
mod times;

/// Multiply-adds up to which every position is checked.
const CHECK_ALL: f64 = 1e9;
/// Positions checked otherwise, besides corners and seams.
const CHECK_SOME: usize = 4096;
/// Seams of tiles checked on an axis, at most.
const SEAMS: usize = 64;

/// Checks and times every spec.
///
/// # Errors
/// A refusal; a memory limit that is not met; data that this machine does not hold.
pub fn run(args: &Bench, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    if !args.seconds.is_finite() || args.seconds < 0.0 || args.seconds > 3600.0 {
        return Err(SpecError::new("--seconds", "0 to 3600", args.seconds).into());
    }
    let session = Session::new(planning, Effort::Measure, false)?;
    let specs = args.specs.iter().map(|spec| override_spec(spec, planning)).collect::<Result<Vec<_>, _>>()?;
    let width = specs.iter().map(|spec| spec.to_string().len()).max().unwrap_or(0);
    if !planning.json {
        writeln!(out, "{}", header(width, args.resident))?;
        out.flush()?;
    }
    for spec in specs {
        let bench = bench(&spec, &session, args)?;
        let line = if planning.json { bench.json() } else { bench.row(width) };
        // What cannot be kept is told after what was found.
        let kept = session.keep_wisdom();
        writeln!(out, "{line}")?;
        out.flush()?;
        kept?;
    }
    Ok(())
}

/// The columns of the table.
const COLUMNS: [&str; 7] = ["spec", "kernel", "threads", "median ms", "min ms", "GFLOP/s", "max error"];

/// A line of the table; the column of specs is `width` wide. A kernel's name that is longer than most moves the rest.
fn row(width: usize, [spec, kernel, threads, median, min, gflops, error]: [String; 7]) -> String {
    format!("{spec:width$}  {kernel:40}  {threads:>7}  {median:>10}  {min:>10}  {gflops:>8}  {error:>9}")
}

/// The first line of the table.
fn header(width: usize, resident: bool) -> String {
    let first = row(width, COLUMNS.map(str::to_string));
    if resident {
        format!("{first}{}", kernel_cells(["kernels ms", "min ms", "max ms"].map(str::to_string)))
    } else {
        first
    }
}

/// The cells behind a line of the table where images lie on a device.
fn kernel_cells([median, min, max]: [String; 3]) -> String {
    format!("  {median:>10}  {min:>10}  {max:>10}")
}

/// What was found of a spec.
struct Found {
    spec: String,
    method: Method,
    kernel: String,
    threads: usize,
    plan_ns: u64,
    warm_plan_ns: u64,
    /// In order.
    times: Vec<u64>,
    operations: f64,
    check: Check,
    /// Where images and results lay on a device.
    kernels: Option<Kernels>,
}

impl Found {
    fn median_ns(&self) -> u64 {
        self.times[self.times.len() / 2]
    }

    /// Billions of operations a second, by the median.
    fn gflops(&self) -> f64 {
        self.operations / self.median_ns().max(1) as f64
    }

    /// A line of the table.
    fn row(&self, width: usize) -> String {
        let first = row(width, self.columns());
        match &self.kernels {
            Some(kernels) => first + &kernel_cells(kernels.spread_ns().map(milliseconds)),
            None => first,
        }
    }

    /// The cells of the table, as [`COLUMNS`].
    fn columns(&self) -> [String; 7] {
        [
            self.spec.clone(),
            self.kernel.clone(),
            self.threads.to_string(),
            milliseconds(self.median_ns()),
            milliseconds(self.times[0]),
            format!("{:.1}", self.gflops()),
            format!("{:.1e}", self.check.max_error),
        ]
    }

    /// The line of `--json`.
    fn json(&self) -> String {
        // In this order, which a JSON map does not keep.
        let mut fields = vec![
            ("spec", json!(self.spec)),
            ("method", json!(self.method.to_string())),
            ("kernel", json!(self.kernel)),
            ("threads", json!(self.threads)),
            ("plan_ns", json!(self.plan_ns)),
            ("warm_plan_ns", json!(self.warm_plan_ns)),
            ("median_ns", json!(self.median_ns())),
            ("min_ns", json!(self.times[0])),
            ("runs", json!(self.times.len())),
            ("gflops", json!((self.gflops() * 1e3).round() / 1e3)),
            ("max_error", json!(self.check.max_error)),
            ("checked", json!(self.check.checked)),
        ];
        if let Some(kernels) = &self.kernels {
            let [median, min, max] = kernels.spread_ns();
            let gflops = self.operations / median.max(1) as f64;
            fields.extend([
                ("kernel_median_ns", json!(median)),
                ("kernel_min_ns", json!(min)),
                ("kernel_max_ns", json!(max)),
                ("kernel_batches", json!(kernels.times.len())),
                ("kernel_runs", json!(kernels.runs)),
                ("kernel_gflops", json!((gflops * 1e3).round() / 1e3)),
                ("buffers", json!(kernels.sets)),
                ("queued", json!(kernels.queued)),
            ]);
        }
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Milliseconds of the table.
fn milliseconds(ns: u64) -> String {
    match ns as f64 / 1e6 {
        ms if ms < 1.0 => format!("{ms:.5}"),
        ms => format!("{ms:.3}"),
    }
}

/// Made-up arrays of a spec.
struct Data {
    images: Vec<Pixels>,
    templates: Vec<Pixels>,
    mask: Option<Pixels>,
}

fn bench(spec: &Spec, session: &Session, args: &Bench) -> Result<Found, Error> {
    let spec = &spec.clone().with_pairs(args.pairs || spec.pairs())?;
    check_data(spec, if spec.pairs() { spec.images().max(1) } else { spec.templates() })?;
    let began = Instant::now();
    let plan = session.planner.plan(spec)?;
    let plan_ns = nanoseconds(began.elapsed());
    let began = Instant::now();
    session.planner.plan(spec)?;
    let warm_plan_ns = nanoseconds(began.elapsed());
    check_plan(&plan, results(spec))?;

    let data = Data::new(spec);
    let arrays = data.arrays(spec)?;
    let matcher = Runs::new(&plan, &arrays, args)?;
    let count = matcher.results(&arrays).len();
    let budget = Duration::from_secs_f64(args.seconds);
    // The first run warmed up; its answer is checked before any is timed.
    let checked = |maps: &[ScoreMap]| check(&matcher, &arrays, maps, args.positions, session.planner.machine().cores());
    let (check, times, kernels) = if args.resident {
        on_device(&matcher, &data, checked, budget)?
    } else {
        let copies = if args.direct_copies { Copies::Direct } else { Copies::Staged };
        let control = Control { copies, ..Control::default() };
        let (check, times) = on_host(&matcher, &arrays, spec, checked, &control, budget)?;
        (check, times, None)
    };
    Ok(Found {
        spec: spec.to_string(),
        method: matcher.method(),
        kernel: matcher.kernel().to_string(),
        threads: plan.workers(),
        plan_ns,
        warm_plan_ns,
        times,
        operations: 2.0 * spec.direct_operations() * count as f64,
        check,
        kernels,
    })
}

/// Checks a run on arrays of the host, and times others.
fn on_host(
    matcher: &Runs,
    arrays: &Arrays<'_>,
    spec: &Spec,
    checked: impl Fn(&[ScoreMap]) -> Result<Check, Error>,
    control: &Control<'_>,
    budget: Duration,
) -> Result<(Check, Vec<u64>), Error> {
    let mut maps: Vec<ScoreMap> = matcher.results(arrays).iter().map(|_| ScoreMap::of(spec)).collect();
    let mut scratch = matcher.make_scratch();
    let mut outs: Vec<_> = maps.iter_mut().map(ScoreMap::view_mut).collect();
    matcher.execute_into(arrays, &mut outs, &mut scratch, control)?;
    let check = checked(&maps)?;
    let mut outs: Vec<_> = maps.iter_mut().map(ScoreMap::view_mut).collect();
    let mut execute = || matcher.execute_into(arrays, &mut outs, &mut scratch, control).map(|_| ());
    execute()?;
    let times = repeated(budget, |_| {
        let start = Instant::now();
        execute().map(|()| nanoseconds(start.elapsed()))
    })?;
    Ok((check, times))
}

/// The same of an image and results that lie on a device, and of their kernels alone.
#[cfg(feature = "cuda")]
fn on_device(
    matcher: &Runs,
    data: &Data,
    checked: impl Fn(&[ScoreMap]) -> Result<Check, Error>,
    budget: Duration,
) -> Result<(Check, Vec<u64>, Option<Kernels>), Error> {
    let by = match matcher {
        Runs::Each(matcher) => resident::By::Matcher(matcher),
        Runs::Pairs(pairs) => resident::By::Pairs(pairs),
        Runs::Bound(_) => {
            let wrong = "templates that are bound each time";
            return Err(SpecError::new("--resident", "templates that are bound before, or pairs", wrong).into());
        }
    };
    let mut resident = resident::Resident::new(by, &data.images, &data.templates)?;
    let check = checked(&resident.results()?)?;
    let (times, kernels) = resident.time(budget)?;
    Ok((check, times, Some(kernels)))
}

/// A program without platform cuda.
#[cfg(not(feature = "cuda"))]
fn on_device(
    _: &Runs,
    _: &Data,
    _: impl Fn(&[ScoreMap]) -> Result<Check, Error>,
    _: Duration,
) -> Result<(Check, Vec<u64>, Option<Kernels>), Error> {
    Err(SpecError::new("--resident", "a program with platform cuda", "one that was built without it").into())
}

/// What is timed.
enum Runs {
    /// Every image with every template, which are bound before.
    Each(Matcher),
    /// The same, and they are bound each time, as they were here.
    Bound(Matcher),
    /// Every image with a template of its own, which is bound each time.
    Pairs(Pairs),
}

impl Runs {
    fn new(plan: &Plan, arrays: &Arrays<'_>, args: &Bench) -> Result<Runs, ExecError> {
        if plan.spec().pairs() {
            return Ok(Runs::Pairs(plan.pairs(arrays.mask.as_ref().map(|mask| mask as _))?));
        }
        let matcher = plan.bind(&arrays.templates, arrays.mask.as_ref().map(|mask| mask as _))?;
        Ok(if args.bind { Runs::Bound(matcher) } else { Runs::Each(matcher) })
    }

    fn plan(&self) -> &Plan {
        match self {
            Runs::Each(matcher) | Runs::Bound(matcher) => matcher.plan(),
            Runs::Pairs(pairs) => pairs.plan(),
        }
    }

    fn kernel(&self) -> &KernelKey {
        match self {
            Runs::Each(matcher) | Runs::Bound(matcher) => matcher.kernel(),
            Runs::Pairs(pairs) => pairs.plan().kernel(),
        }
    }

    fn method(&self) -> Method {
        match self {
            Runs::Each(matcher) | Runs::Bound(matcher) => matcher.method(),
            Runs::Pairs(pairs) => pairs.plan().method(),
        }
    }

    fn make_scratch(&self) -> Scratch {
        match self {
            Runs::Each(matcher) | Runs::Bound(matcher) => matcher.make_scratch(),
            Runs::Pairs(pairs) => pairs.make_scratch(),
        }
    }

    fn execute_into(
        &self,
        arrays: &Arrays<'_>,
        outs: &mut [AnyViewMut<'_>],
        scratch: &mut Scratch,
        control: &Control<'_>,
    ) -> Result<Statistics, ExecError> {
        match self {
            Runs::Each(matcher) => matcher.execute_into(&arrays.images, outs, scratch, control),
            Runs::Bound(matcher) => {
                let matcher = matcher.plan().bind(&arrays.templates, arrays.mask.as_ref().map(|mask| mask as _))?;
                matcher.execute_into(&arrays.images, outs, scratch, control)
            }
            Runs::Pairs(pairs) => pairs.execute_into(&arrays.images, &arrays.templates, outs, scratch, control),
        }
    }

    /// The image and the template of each result.
    fn results<'a>(&self, Arrays { images, templates, .. }: &Arrays<'a>) -> Vec<(AnyView<'a>, AnyView<'a>)> {
        match self {
            Runs::Each(_) | Runs::Bound(_) => {
                images.iter().flat_map(|image| templates.iter().map(|template| (*image, *template))).collect()
            }
            Runs::Pairs(_) => images.iter().copied().zip(templates.iter().copied()).collect(),
        }
    }
}

/// A generator of a fixed seed: xorshift64*.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.unit() * limit as f64) as usize).min(limit.saturating_sub(1))
    }

    /// A sample: of an integer type any value, of a float uniform with mean 0 and standard deviation 1.
    fn sample(&mut self, dtype: DType) -> f64 {
        match dtype.row().max {
            Some(max) => (self.unit() * f64::from(max + 1)).floor().min(f64::from(max)),
            None => (self.unit() * 2.0 - 1.0) * 3f64.sqrt(),
        }
    }

    fn pixels(&mut self, count: usize, dtype: DType) -> Pixels {
        match dtype {
            DType::U8 => Pixels::U8((0..count).map(|_| self.sample(dtype) as u8).collect()),
            DType::U16 => Pixels::U16((0..count).map(|_| self.sample(dtype) as u16).collect()),
            DType::F32 => Pixels::F32((0..count).map(|_| self.sample(dtype) as f32).collect()),
            DType::F64 => Pixels::F64((0..count).map(|_| self.sample(dtype)).collect()),
        }
    }

    /// A template of a separable rank: so many products of a line an axis, in integers of the type where it holds
    /// integers.
    fn of_rank(&mut self, spec: &Spec, rank: usize) -> Pixels {
        let [d, h, w] = spec.template().padded();
        let axes = spec.template().axes() as f64;
        let limit = spec.template_type().row().max.map(|max| (f64::from(max) / rank as f64).powf(1.0 / axes).floor());
        let mut values = vec![0.0; d * h * w * spec.channels()];
        for _ in 0..rank {
            let mut line = |count: usize, used: bool| -> Vec<f64> {
                let sample = |noise: &mut Noise| match limit {
                    _ if !used => 1.0,
                    Some(limit) => (noise.unit() * (limit + 1.0)).floor().min(limit),
                    None => noise.sample(DType::F64),
                };
                let line = (0..count).map(|_| sample(self)).collect();
                if used && count > 1 { uneven(line) } else { line }
            };
            let lines = [line(d, axes > 2.0), line(h, axes > 1.0), line(w, true)];
            for (at, value) in values.iter_mut().enumerate() {
                let pixel = at / spec.channels();
                *value += lines[0][pixel / (h * w)] * lines[1][pixel / w % h] * lines[2][pixel % w];
            }
        }
        Pixels::F64(values).cast(spec.template_type())
    }
}

impl Data {
    fn new(spec: &Spec) -> Data {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let count = |shape: Shape| shape.len() * spec.channels();
        let images = (0..spec.images().max(1)).map(|_| noise.pixels(count(spec.image()), spec.image_type())).collect();
        let template = |_| match spec.rank() {
            // A rank above the shortest side of a plane is no restriction.
            Some(rank) if rank < spec.template().lengths().iter().copied().min().unwrap_or(1) => {
                noise.of_rank(spec, rank)
            }
            _ => noise.pixels(count(spec.template()), spec.template_type()),
        };
        let templates = if spec.pairs() { spec.images().max(1) } else { spec.templates() };
        let templates = (0..templates).map(template).collect();
        let mut weights = |weight: fn(f64) -> f64| -> Pixels {
            let mut weights: Vec<f64> = (0..spec.template().len()).map(|_| weight(noise.unit())).collect();
            weights[0] = 1.0;
            Pixels::F64(weights)
        };
        let mask = match spec.mask() {
            MaskKind::None => None,
            MaskKind::Binary => Some(weights(|unit| f64::from(u8::from(unit < 0.75)))),
            MaskKind::Weights => Some(weights(|unit| 0.125 + unit)),
        };
        Data { images, templates, mask }
    }

    /// Views of them.
    fn arrays(&self, spec: &Spec) -> Result<Arrays<'_>, SpecError> {
        let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels());
        Ok(Arrays {
            images: self.images.iter().map(|image| view(image, spec.image())).collect::<Result<_, _>>()?,
            templates: self
                .templates
                .iter()
                .map(|template| view(template, spec.template()))
                .collect::<Result<_, _>>()?,
            mask: self.mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1)).transpose()?,
        })
    }
}

/// What a run reads.
struct Arrays<'a> {
    images: Vec<AnyView<'a>>,
    templates: Vec<AnyView<'a>>,
    mask: Option<AnyView<'a>>,
}

/// What the check found.
struct Check {
    max_error: f64,
    checked: usize,
}

/// `some` different positions of so many results of so many values; all of them where there are no more.
fn draw(noise: &mut Noise, some: usize, results: usize, count: usize) -> Vec<BTreeSet<usize>> {
    if results.saturating_mul(count) <= some {
        return vec![(0..count).collect(); results];
    }
    let mut random = vec![BTreeSet::new(); results];
    let mut drawn = 0;
    while drawn < some {
        let result = noise.below(results);
        drawn += usize::from(random[result].insert(noise.below(count)));
    }
    random
}

/// Compares the results of a run with the oracle, at so many positions if a number is given.
fn check(
    matcher: &Runs,
    arrays: &Arrays<'_>,
    maps: &[ScoreMap],
    positions: Option<usize>,
    threads: usize,
) -> Result<Check, Error> {
    let spec = matcher.plan().spec();
    let made_of = matcher.results(arrays);
    let results = made_of.len();
    let all = positions.is_none() && spec.direct_operations() * results as f64 <= CHECK_ALL;
    let mut noise = Noise(0x5851_f42d_4c95_7f2d);
    let count = spec.out_shape().len();
    let random = if all {
        vec![BTreeSet::new(); results]
    } else {
        draw(&mut noise, positions.unwrap_or(CHECK_SOME), results, count)
    };
    let fixed = if all { BTreeSet::new() } else { corners_and_seams(spec, &matcher.kernel().tile, &mut noise) };
    let progress = Progress::new();
    let (mut largest, mut error, mut checked) = (0.0f64, 0.0f64, 0usize);
    for (result, (map, (image, template))) in maps.iter().zip(&made_of).enumerate() {
        let oracle = Oracle::new(spec, image, template, arrays.mask.as_ref())?;
        let places: Vec<usize> = match all {
            true => (0..count).collect(),
            // Seams and corners of the first results; tiles are the same for all.
            false if result < 2 => random[result].union(&fixed).copied().collect(),
            false => random[result].iter().copied().collect(),
        };
        let (magnitude, difference) = compare(&oracle, map, &places, threads);
        largest = largest.max(magnitude);
        error = if difference.is_nan() { f64::NAN } else { error.max(difference) };
        checked += places.len();
        progress.tell(result + 1, results);
    }
    let normalised = spec.op().measure().row().normalised;
    let max_error = if normalised || largest == 0.0 { error } else { error / largest };
    if max_error.is_nan() {
        return Err(Error::Failed(format!(
            "bench {spec}: expected finite results as the oracle's, got NaN from {}",
            matcher.kernel()
        )));
    }
    Ok(Check { max_error, checked })
}

/// The largest magnitude of the oracle's values and the largest difference, over the positions; NaN where one side
/// alone is not finite.
fn compare(oracle: &Oracle, map: &ScoreMap, positions: &[usize], threads: usize) -> (f64, f64) {
    let part = |positions: &[usize]| {
        positions.iter().fold((0.0f64, 0.0f64), |(largest, error), &index| {
            let (exact, got) = (oracle.at(index), map.get(index));
            let difference = if exact.to_bits() == got.to_bits() || (exact.is_nan() && got.is_nan()) {
                0.0
            } else {
                (exact - got).abs()
            };
            let largest = if exact.is_finite() { largest.max(exact.abs()) } else { largest };
            (largest, if difference.is_nan() || error.is_nan() { f64::NAN } else { error.max(difference) })
        })
    };
    let share = positions.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let handles: Vec<_> = positions.chunks(share).map(|chunk| scope.spawn(move || part(chunk))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or((0.0, f64::NAN))).collect()
    });
    parts.into_iter().fold((0.0, 0.0), |(largest, error), (l, e)| {
        (largest.max(l), if e.is_nan() || error.is_nan() { f64::NAN } else { error.max(e) })
    })
}

/// The corners of the result, and positions on both sides of the seams between tiles, which lie at multiples of the
/// tile in the full result. `name` is the tile in a kernel's name: `t64x512`.
fn corners_and_seams(spec: &Spec, name: &str, noise: &mut Noise) -> BTreeSet<usize> {
    let [d, h, w] = spec.out_shape().padded();
    let lengths = [d, h, w];
    let index = |at: [usize; 3]| (at[0] * h + at[1]) * w + at[2];
    let mut places: BTreeSet<usize> =
        (0..8).map(|k| index([0, 1, 2].map(|axis| if k >> axis & 1 == 1 { lengths[axis] - 1 } else { 0 }))).collect();
    let part = name.rsplit('_').find_map(|part| part.strip_prefix('t')).and_then(|shape| shape.parse::<Shape>().ok());
    let Some(tile) = part.filter(|tile| !tile.is_empty()) else {
        return places;
    };
    for axis in 0..3 {
        let (origin, side) = (spec.region().origin[axis], tile.padded()[axis]);
        let first = (origin / side + 1) * side;
        let seams: Vec<usize> = (first..origin + lengths[axis]).step_by(side).map(|seam| seam - origin).collect();
        for seam in seams.iter().step_by(seams.len().div_ceil(SEAMS).max(1)) {
            for beside in [*seam, seam - 1] {
                let mut at = [0, 1, 2].map(|other| noise.below(lengths[other]));
                at[axis] = beside;
                places.insert(index(at));
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seams_lie_on_the_grid_of_the_full_result() {
        let spec: Spec = "zncc:f32:100*5:valid".parse().unwrap();
        // The result begins at 4 of the full one: seams of tiles of 32 lie at 28, 60 and 92 of it.
        let places = corners_and_seams(&spec, "t32", &mut Noise(1));
        assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, 27, 28, 59, 60, 91, 92, 95]);
    }

    #[test]
    fn as_many_positions_are_drawn_as_promised() {
        for (results, count) in [(1, 5000), (1, 4097), (3, 1400), (7, 1_000_000), (1, 4096), (2, 100)] {
            let random = draw(&mut Noise(5), CHECK_SOME, results, count);
            assert!(random.len() == results && random.iter().flatten().all(|&index| index < count));
            assert_eq!(
                random.iter().map(BTreeSet::len).sum::<usize>(),
                CHECK_SOME.min(results * count),
                "{results} of {count}"
            );
        }
    }

    #[test]
    fn noise_is_what_it_says() {
        let mut noise = Noise(7);
        let values: Vec<f64> = (0..20_000).map(|_| noise.sample(DType::F32)).collect();
        let mean = values.iter().sum::<f64>() / 2e4;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2e4;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let bytes = noise.pixels(20_000, DType::U8).to_f64();
        assert!(bytes.contains(&0.0) && bytes.contains(&255.0));
    }

    #[test]
    fn a_template_has_its_rank() {
        let spec: Spec = "zncc:u8:100x100*6x7:valid,rank=1".parse().unwrap();
        let template = Noise(3).of_rank(&spec, 1).to_f64();
        let minor = |y: usize, x: usize| template[0] * template[y * 7 + x] - template[x] * template[y * 7];
        assert!((1..6).all(|y| (1..7).all(|x| minor(y, x) == 0.0)));
        // Short lines of small numbers are often all equal.
        let spec: Spec = "zncc:u8:9x9x9*2x2x2:valid,rank=1".parse().unwrap();
        let mut noise = Noise(5);
        for _ in 0..300 {
            let template = noise.of_rank(&spec, 1).to_f64();
            assert!(template.iter().any(|value| *value != template[0]), "{template:?}");
        }
    }
}
