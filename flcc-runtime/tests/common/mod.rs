//! What the tests of the library share: fixed-seed data, problems from spec texts, and the one comparison with the
//! oracle.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{AnyView, DType, Machine, Mode, Pixels, Plan, PlanError, Planner, Platform, ScoreMap, Spec};

/// A small generator: the same numbers on every machine.
pub struct Seed(pub u64);

impl Seed {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Roughly normal, mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Samples of a type: integers over their whole range, floats normal around an offset.
    pub fn pixels(&mut self, count: usize, dtype: DType, offset: f64) -> Pixels {
        let values = (0..count)
            .map(|_| match dtype.row().max {
                Some(max) => (self.unit() * f64::from(max + 1)).floor(),
                None => offset + self.normal(),
            })
            .collect();
        Pixels::F64(values).cast(dtype)
    }
}

/// A spec with data for it.
pub struct Problem {
    pub spec: Spec,
    pub image: Pixels,
    pub template: Pixels,
    pub mask: Option<Pixels>,
}

impl Problem {
    /// Fixed-seed data for a spec text.
    pub fn new(spec: &str, seed: u64) -> Problem {
        let spec: Spec = spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"));
        let mut seed = Seed(seed);
        let image = seed.pixels(spec.image().len() * spec.channels(), spec.image_type(), 3.0);
        let template = seed.pixels(spec.template().len() * spec.channels(), spec.template_type(), 1.0);
        let mask = match spec.mask() {
            flcc_runtime::MaskKind::None => None,
            kind => {
                let weight = |seed: &mut Seed| if seed.below(4) == 0 { 0.0 } else { seed.unit() + 0.1 };
                let mut weights: Vec<f64> = (0..spec.template().len()).map(|_| weight(&mut seed)).collect();
                weights[0] = 1.0;
                if kind == flcc_runtime::MaskKind::Binary {
                    weights.iter_mut().for_each(|weight| *weight = weight.ceil().min(1.0));
                }
                Some(Pixels::F64(weights))
            }
        };
        Problem { spec, image, template, mask }
    }

    pub fn image(&self) -> AnyView<'_> {
        AnyView::dense(&self.image, self.spec.image(), self.spec.channels()).unwrap()
    }

    pub fn template(&self) -> AnyView<'_> {
        AnyView::dense(&self.template, self.spec.template(), self.spec.channels()).unwrap()
    }

    pub fn mask(&self) -> Option<AnyView<'_>> {
        self.mask.as_ref().map(|mask| AnyView::dense(mask, self.spec.template(), 1).unwrap())
    }

    pub fn expected(&self) -> Vec<f64> {
        Oracle::new(&self.spec, &self.image(), &self.template(), self.mask().as_ref()).unwrap().all()
    }

    pub fn run(&self, plan: &Plan) -> ScoreMap {
        plan.execute(&[self.image()], &[self.template()], self.mask().as_ref().map(|mask| mask as _))
            .unwrap_or_else(|error| panic!("{}: {error}", self.spec))
            .remove(0)
    }

    /// Plans with a planner, or says why not.
    pub fn plan(&self, planner: &Planner) -> Result<Plan, PlanError> {
        planner.plan(&self.spec)
    }

    /// The tolerance of this problem for well-conditioned panels: absolute for normalised measures, of the size of the
    /// norms for the others, as the conventions have it.
    pub fn tolerance(&self) -> f64 {
        let n = self.spec.template().len() as f64 * self.spec.channels() as f64;
        let double = self.spec.out_type() == DType::F64;
        let u = if double { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
        let k = 16.0 + n.sqrt();
        let most =
            |pixels: &Pixels| pixels.to_f64().iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
        let boundary =
            if self.spec.mode() == Mode::Valid { 0.0 } else { self.spec.boundary().value().unwrap_or(0.0).abs() };
        let weight = self.mask.as_ref().map_or(1.0, |mask| most(mask).max(1.0));
        let (panel, template) = (most(&self.image).max(boundary) * n.sqrt(), most(&self.template) * n.sqrt());
        match self.spec.op().measure() {
            flcc_runtime::Measure::Cc => k * u * panel * template * weight,
            flcc_runtime::Measure::Ssd => k * u * (panel + template).powi(2) * weight,
            flcc_runtime::Measure::Sad => k * u * n.sqrt() * (panel + template) * weight,
            _ if double => 1e-11,
            _ => 1e-5,
        }
    }
}

/// Compares a result with the expected values; NaN must be where NaN is expected. Returns the largest error.
pub fn check(name: &str, got: &ScoreMap, expected: &[f64], tolerance: f64) -> f64 {
    assert_eq!(got.shape().len(), expected.len(), "{name}: length");
    let mut worst = 0.0f64;
    for (index, &want) in expected.iter().enumerate() {
        let value = got.get(index);
        let at = got.shape().position(index);
        assert_eq!(value.is_nan(), want.is_nan(), "{name} at {at:?}: got {value}, expected {want}");
        if !want.is_nan() {
            let error = (value - want).abs();
            assert!(
                error <= tolerance,
                "{name} at {at:?}: got {value:?}, expected {want:?}, error {error:.3e} over {tolerance:.3e}"
            );
            worst = worst.max(error);
        }
    }
    worst
}

/// A planner for this machine with a number of threads.
pub fn planner(threads: usize) -> Planner {
    Planner::with_machine(Machine::detect().unwrap()).threads(threads)
}

/// Whether `FLCC_REQUIRE` names something (`FLCC_REQUIRE=nvrtc,cuda`), so that its absence is a failure.
pub fn required(name: &str) -> bool {
    std::env::var("FLCC_REQUIRE").is_ok_and(|names| names.split(',').any(|required| required.trim() == name))
}

/// Reports that a test did not run; fails if what it needs is required.
pub fn absent(name: &str, reason: &str) {
    assert!(!required(name), "FLCC_REQUIRE names {name}, which is absent: {reason}");
    println!("absent: {reason}; nothing was tested");
}

/// The CPU and, where there is one, the GPU.
pub fn platforms() -> Vec<Platform> {
    let found = planner(1).platform(Platform::Cuda);
    if found.machine().devices().is_empty() { vec![Platform::Cpu] } else { vec![Platform::Cpu, Platform::Cuda] }
}

/// Does something with each of a list, as many at a time as there are cores; results in order.
pub fn in_threads<T: Sync, R: Send>(list: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = list.get(at) else { return mine };
            mine.push((at, work(item)));
        }
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no work panics")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}
