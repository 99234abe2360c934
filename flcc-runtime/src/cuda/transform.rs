//! What kernels share that transform a part of an image, a tile or a stretch of a signal, from the image to the result:
//! their rounding, how a template's spectrum lies, and what a method asks of them.

use std::f64::consts::TAU;
use std::fmt::Debug;

use flcc_core::dtype::DType;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, MaskKind, Spec};
use flcc_generated::Entry;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex64;

use crate::cuda::driver::launch::{Address, Argument, Function, Stream};
use crate::cuda::fault::Fault;
use crate::cuda::method::Job;
use crate::cuda::noise::Lines;
use crate::cuda::windows::Windows;
use crate::problem::error_model::{GHOSTS, GHOSTS_OF_LARGE, Rounding, SPREAD};

/// Deviations of rounding that sums are granted.
pub(crate) const DEVIATIONS: f64 = 8.0;

/// What sums of so many products may err by, over `u |P| |t|` with the largest norm of a panel.
pub(crate) fn granted(taps: f64) -> f64 {
    16.0 + taps.sqrt()
}

/// Whether a spec asks for sums of images in f32, without channels and masks, over all of a mode: what these kernels
/// make.
pub(crate) fn makes_plain_sums(spec: &Spec) -> bool {
    let plain = spec.mask() == MaskKind::None && spec.channels() == 1 && spec.accuracy() != Accuracy::Exact;
    let single = spec.image_type() == DType::F32 && spec.out_type() == DType::F32;
    plain && single && spec.op().measure() == Measure::Cc && spec.region() == spec.mode_region()
}

/// Spectra of several templates, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Spectra<'a> {
    /// The spectra, each as [`laid_out`].
    pub all: Argument<'a>,
    /// Of each template what brings its sums to results; absent where [`Job::factor`] does.
    pub factors: Argument<'a>,
    /// Templates.
    pub count: usize,
    /// Elements from a template's results to the next one's.
    pub apart: usize,
}

/// A kernel of sums, by its numbers.
pub(crate) trait Transform: Copy + Debug + Send + Sync + 'static {
    /// The numbers of a kernel.
    fn of(entry: &Entry) -> Self;

    /// Samples of a transform.
    fn samples(self) -> usize;

    /// A template's spectrum, as [`laid_out`].
    fn spectrum(self, template: [usize; 3], values: &[f64]) -> Vec<f32>;

    /// Bytes of a template's spectrum.
    fn spectrum_bytes(self) -> usize;

    /// Whether one grid covers such a result.
    fn covers(outputs: [usize; 3]) -> bool;

    /// Puts the kernel into a stream's queue, with the spectrum of a template of these sides.
    ///
    /// # Errors
    /// The driver's.
    fn launch(
        self,
        stream: &Stream,
        function: &Function,
        template: [usize; 3],
        job: &Job<'_>,
        spectrum: Address,
    ) -> Result<(), Fault>;

    /// Whether one launch serves several templates: [`Transform::launch_all`].
    fn serves_several(self) -> bool {
        false
    }

    /// Bytes of shared memory of a block that has several templates, where so many bytes are the most that one may
    /// have; 0 where each has one.
    fn shared_by_several(self, _most: usize) -> usize {
        0
    }

    /// As [`Transform::launch`], of several templates. The second function, if there is one, has the shared memory for
    /// several templates a block.
    ///
    /// # Errors
    /// There is no such kernel, or the driver's.
    fn launch_all(
        self,
        _stream: &Stream,
        _functions: (&Function, Option<&Function>),
        _template: [usize; 3],
        _job: &Job<'_>,
        _spectra: &Spectra<'_>,
    ) -> Result<(), Fault> {
        Err(Fault::new("transform", "no kernel for several templates"))
    }

    /// How it rounds.
    fn rounding(self) -> Rounding {
        Rounding::Pair { len: self.samples() as f64 }
    }
}

/// A transform of tiles or of parts of volumes, whose results a second kernel makes scores of.
pub(crate) trait Scored: Transform {
    /// That kernel.
    type Windows: Windows;

    /// Samples of a transform along each axis.
    fn sides(self) -> [usize; 3];

    /// Threads of a block.
    fn threads(self) -> usize;

    /// Transforms that a tile of these outputs takes: two a block.
    fn transforms(self, template: [usize; 3], outputs: [usize; 3]) -> usize;

    /// The place of value `index` of thread `thread` in a transform, before the first stage and after the last.
    fn place(self, thread: usize, index: usize) -> usize;

    /// A template's spectrum, behind it numbers of planes, rows and columns, whose product is the noise of tiles, and
    /// from a multiple of four floats on what the template makes of that, four values of a thread together.
    fn spectrum_with_noise(self, template: [usize; 3], values: &[f64]) -> Vec<f32> {
        let (sides, noise) = (self.sides(), Lines::new(self.sides()));
        let mut all = self.spectrum(template, values);
        all.extend([0, 1, 2].iter().flat_map(|&axis| noise.of(axis)));
        all.resize(all.len().next_multiple_of(4), 0.0);
        let of_axis = [0, 1, 2].map(|axis| noise.spectrum(axis));
        let mut product = of_template(sides, template, values);
        for (at, value) in product.iter_mut().enumerate() {
            let [z, y, x] = [at / (sides[1] * sides[2]), at / sides[2] % sides[1], at % sides[2]];
            // The way back is the conjugate of the way there, of conjugates.
            *value = (*value * of_axis[0][z] * of_axis[1][y] * of_axis[2][x]).conj();
        }
        let (made, threads) = (transformed(sides, product), self.threads());
        all.extend((0..made.len()).map(|at| {
            let (four, thread) = (at / 4 / threads, at / 4 % threads);
            made[self.place(thread, 4 * four + at % 4)].re as f32
        }));
        all
    }

    /// Bytes of that.
    fn bytes_with_noise(self) -> usize {
        let floats = self.spectrum_bytes() / size_of::<f32>() + self.sides().iter().sum::<usize>();
        (floats.next_multiple_of(4) + self.samples()) * size_of::<f32>()
    }

    /// The largest magnitude of a template's spectrum in that form: what a wave of amplitude 1 comes to at most.
    fn wave(self, spectrum: &[f32]) -> f64 {
        let values = spectrum[..2 * self.samples()].chunks(2);
        let magnitudes = values.map(|part| f64::from(part[0]).hypot(f64::from(part[1])));
        magnitudes.fold(0.0, f64::max) * self.samples() as f64
    }
}

/// The transform of numbers of such sides, axis by axis.
pub(crate) fn transformed(sides: [usize; 3], mut all: Vec<Complex64>) -> Vec<Complex64> {
    let mut planner = FftPlanner::new();
    for (axis, &side) in sides.iter().enumerate() {
        let transform = planner.plan_fft_forward(side);
        let apart: usize = sides[axis + 1..].iter().product();
        let mut line = vec![Complex64::default(); side];
        for first in (0..all.len()).filter(|at| (at / apart).is_multiple_of(side)) {
            line.iter_mut().enumerate().for_each(|(k, value)| *value = all[first + k * apart]);
            transform.process(&mut line);
            line.iter().enumerate().for_each(|(k, value)| all[first + k * apart] = *value);
        }
    }
    all
}

/// The conjugate of the spectrum of a template's values over the number of samples, in a tile of such sides.
pub(crate) fn of_template(sides: [usize; 3], [_, height, width]: [usize; 3], values: &[f64]) -> Vec<Complex64> {
    let mut all = vec![Complex64::default(); sides.iter().product()];
    let samples = all.len() as f64;
    for (k, &value) in values.iter().enumerate() {
        let [z, y, x] = [k / (height * width), k / width % height, k % width];
        all[(z * sides[1] + y) * sides[2] + x].re = value / samples;
    }
    let mut all = transformed(sides, all);
    all.iter_mut().for_each(|value| *value = value.conj());
    all
}

/// How a template lies in a transform, where rounding depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coverage {
    /// Samples of the transform.
    pub samples: f64,
    /// Samples of the template.
    pub taps: f64,
    /// Panels that cover the samples of a pair.
    pub covers: f64,
    /// The part of the transform's results that are results of the part.
    pub shown: f64,
    /// Panels that a result meets which wraps round.
    pub wrapped: f64,
    /// Where half of what is rounded stays in its row: panels that cover a row of a pair.
    pub in_row: Option<f64>,
}

impl Coverage {
    /// What rounding makes of a sum at most, over `u |P| |t|` with the largest norm of a panel: 8 deviations and
    /// copies, as of the CPU's pairs of tiles, where panels cover the samples of a part.
    pub fn error(self) -> f64 {
        // Of two parts: what is shown is a panel's, what wraps round that of several. All results together have no more
        // than the norm of all panels there are, each of which has every sample as often as there are taps.
        let one_by_one = 2.0 * (self.shown + self.wrapped * (1.0 - self.shown));
        let results = one_by_one.min(self.taps / self.samples * self.covers);
        let spread = self.covers / self.samples + results;
        let (energy, ghosts) = match self.in_row {
            None => (spread, GHOSTS),
            Some(covers) => ((spread + covers / self.samples.sqrt() + one_by_one) / 2.0, GHOSTS_OF_LARGE),
        };
        let noise = DEVIATIONS * SPREAD * (self.samples.log2() / 2.0).sqrt() * energy.sqrt();
        let copies = ghosts * (self.taps * 2.0 / self.samples * self.covers).sqrt();
        noise.hypot(copies) + ghosts
    }

    /// Whether sums may err by so much.
    pub fn is_granted(self) -> bool {
        self.error() <= granted(self.taps)
    }
}

/// A spectrum in the order that a kernel of so many threads has its values in, two of a thread together; `value` tells
/// what value `index` of thread `thread` is. After them come the turns of a circle. All are rounded once.
pub(crate) fn laid_out(
    (values, threads): (usize, usize),
    value: impl Fn(usize, usize) -> Complex64,
    turns: usize,
) -> Vec<f32> {
    let ordered = (0..values).map(|at| value(at / 2 % threads, at / (2 * threads) * 2 + at % 2));
    let turns = (0..turns).map(|at| Complex64::from_polar(1.0, -TAU * at as f64 / turns as f64));
    ordered.chain(turns).flat_map(|value| [value.re as f32, value.im as f32]).collect()
}

/// Holds a spectrum, at some of its values, against the sum that defines it: `turn` tells, in turns of a circle, how
/// far the wave of a thread's value has gone at a value of the template.
#[cfg(test)]
pub(crate) fn assert_spectrum<T: Transform>(
    transform: T,
    threads: usize,
    template: [usize; 3],
    turn: impl Fn((usize, usize), usize) -> f64,
) {
    let values = [1.0, -2.0, 0.5, 4.0, 3.0, -1.5];
    let (spectrum, samples) = (transform.spectrum(template, &values), transform.samples() as f64);
    assert_eq!(spectrum.len() * size_of::<f32>(), transform.spectrum_bytes());
    for (thread, index) in [(0, 0), (1, 0), (0, 1), (17, 3), (200, 7), (255, 15), (100, 10)] {
        let of = |(k, value): (usize, &f64)| Complex64::from_polar(value / samples, TAU * turn((thread, index), k));
        let exact: Complex64 = values.iter().enumerate().map(of).sum();
        let at = ((index / 2 * threads + thread) * 2 + index % 2) * 2;
        let off = (Complex64::new(spectrum[at].into(), spectrum[at + 1].into()) - exact).norm();
        assert!(off < 1e-6 / samples, "{transform:?}, {thread}, {index}: {off}");
    }
}
