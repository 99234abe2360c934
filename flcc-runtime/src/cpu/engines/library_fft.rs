//! The Fourier method: overlap-save on tiles of a fast length, with real ("half") transforms.
//!
//! A tile of `F` samples gives `F - T + 1` outputs an axis: `x (*) t = IFFT(FFT(x) conj(FFT(t)))`, where the template
//! lies at the tile's origin, so the first outputs are free of wrap-around. The spectrum of a bound template is kept,
//! that of a tile serves every template. Error: absolute over the tile, see docs/numerics.md. Source: dissertation
//! 2.1.2.

use std::sync::OnceLock;

use realfft::num_complex::Complex;

use crate::cpu::bands::Bands;
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::fft::library::{TileTransform, multiply_conj};
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::isa::{self, Isa, IsaSet};
use crate::problem::error_model::{Figures, Library, Rounding};
use crate::problem::factor::FactorError;
use crate::problem::lanes;
use crate::problem::noise::{self, mirrored, numbers, real_spectrum, share};
use crate::run::geometry::Pitch;

/// The transform of one tile shape.
pub struct Fourier<T: Real> {
    transform: TileTransform<T>,
    /// The transform of templates, in f64.
    exact: TileTransform<f64>,
    /// The noise in its tiles, made when a template is prepared.
    dither: OnceLock<Dither<T>>,
    /// Shape of the transformed tile.
    shape: [usize; 3],
    /// Template samples an axis.
    template: [usize; 3],
}

/// The noise of tiles of one shape (`fft/dither.rs`): for a sample the product of a number of its plane, of its row and
/// of its column.
struct Dither<T> {
    /// Of each plane, row and column.
    numbers: [Vec<T>; 3],
    /// The spectrum of those that are transformed first.
    columns: Vec<T>,
    /// The product of the others' spectra, in the order of a plane of the tile's.
    others: Vec<T>,
    /// The largest noise over the largest sample.
    share: f64,
}

impl<T: Real> Dither<T> {
    fn new(shape: [usize; 3]) -> Dither<T> {
        let samples = shape.iter().product::<usize>();
        let mut noise = numbers(samples as u64);
        let mut lines = shape.map(|length| vec![1.0; length]);
        let mut spectra = [const { Vec::new() }; 3];
        let long: Vec<&mut Vec<f32>> = lines.iter_mut().filter(|line| line.len() > 1).collect();
        let count = long.len();
        for (number, line) in long.into_iter().enumerate() {
            // All but what is transformed last is above 0: frequency 0 has much of it, as equal samples have.
            *line = mirrored(line.len(), || {
                let value = noise::number(&mut noise);
                if number > 0 { value.abs() } else { value }
            });
            spectra[3 - count + number] = real_spectrum(line);
        }
        for spectrum in spectra.iter_mut().filter(|spectrum: &&mut Vec<f64>| spectrum.is_empty()) {
            spectrum.push(1.0);
        }
        let [depth, height, width] = spectra;
        let columns = width[..width.len() / 2 + 1].iter().map(|&value| T::of(value)).collect();
        let others = height.iter().flat_map(|height| depth.iter().map(move |depth| T::of(height * depth))).collect();
        let numbers = lines.map(|line| line.into_iter().map(|value| T::of(value.into())).collect());
        Dither { numbers, columns, others, share: share(samples) }
    }

    /// The first planes and rows of a tile with noise, the others of noise alone; returns its scale.
    fn add(&self, input: &[T], [_, height, width]: [usize; 3], [planes, rows]: [usize; 2], out: &mut [T]) -> T {
        let [of_planes, of_rows, of_columns] = &self.numbers;
        isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || {
            let used = |line: usize| line / height < planes && line % height < rows;
            let mut largest = [T::zero(); 16];
            for (_, values) in (0..).zip(input.chunks_exact(width)).filter(|(line, _)| used(*line)) {
                for values in values.chunks(largest.len()) {
                    let larger = largest.iter_mut().zip(values).filter(|(largest, value)| value.abs() > **largest);
                    larger.for_each(|(largest, value)| *largest = value.abs());
                }
            }
            let by = T::of(largest.iter().fold(0.0, |most, &value| f64::max(most, value.into())) * self.share);
            for ((out, input), line) in out.chunks_exact_mut(width).zip(input.chunks_exact(width)).zip(0..) {
                let noise = by * of_planes[line / height] * of_rows[line % height];
                if used(line) {
                    let values = out.iter_mut().zip(input).zip(of_columns);
                    values.for_each(|((out, &input), &column)| *out = input + noise * column);
                } else {
                    out.iter_mut().zip(of_columns).for_each(|(out, &column)| *out = noise * column);
                }
            }
            by
        })
    }

    /// Takes noise of a scale away from a spectrum.
    fn take<'a>(&self, by: T, planes: impl Iterator<Item = &'a mut [Complex<T>]>) {
        isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || {
            for (plane, &column) in planes.zip(&self.columns) {
                let by = by * column;
                plane.iter_mut().zip(&self.others).for_each(|(value, &other)| value.re = value.re - by * other);
            }
        });
    }
}

/// Buffers of one worker.
pub struct FourierScratch<T: Real> {
    real: Vec<T>,
    spectra: Vec<Vec<Complex<T>>>,
    product: Vec<Complex<T>>,
    work: Vec<Complex<T>>,
    /// For each slot, at most twice the mean square of all results of its last transform, those that wrap round
    /// included: a step beside noise leaves large ones there and small ones in the tile, and the transform rounds in
    /// proportion to all.
    pub results: Vec<f64>,
}

impl<T: Real> Fourier<T> {
    /// An engine for tiles of `shape` samples.
    pub fn new(shape: [usize; 3], template: [usize; 3]) -> Fourier<T> {
        let (transform, exact) = (TileTransform::new(shape), TileTransform::new(shape));
        Fourier { transform, exact, dither: OnceLock::new(), shape, template }
    }

    /// Shape of the transformed tile.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Samples of the transformed tile.
    pub fn samples(&self) -> usize {
        self.shape.iter().product()
    }

    /// The shape of the buffers: input as gathered, output as the inverse transform leaves it.
    pub fn pitches(&self) -> (Pitch, Pitch) {
        let [depth, height, width] = self.shape;
        let pitch = Pitch { row: width, plane: width * height, rows: height, planes: depth };
        (pitch, pitch)
    }

    /// Buffers for `slots` spectra at a time.
    pub fn scratch(&self, slots: usize, memory: &mut Memory) -> FourierScratch<T> {
        let zero = Complex::new(T::of(0.0), T::of(0.0));
        FourierScratch {
            real: memory.values(T::of(0.0), self.samples()),
            spectra: (0..slots).map(|_| memory.values(zero, self.transform.spectrum_len())).collect(),
            product: memory.values(zero, self.transform.spectrum_len()),
            work: memory.values(zero, self.transform.scratch_len()),
            results: memory.values(0.0, slots),
        }
    }

    /// Bytes of one template's spectrum.
    pub fn spectrum_bytes(&self) -> usize {
        self.transform.spectrum_len() * 2 * size_of::<T>()
    }

    /// The spectrum of a template, divided by the transform's length: computed in f64 and rounded once. Taps that were
    /// rounded first would be wrong by a constant where they are equal, which a constant image adds up.
    pub fn prepare(&self, template: &[f64]) -> Vec<Complex<T>> {
        let [kd, kh, kw] = self.template;
        let [_, height, width] = self.shape;
        let mut real = vec![0.0; self.samples()];
        for z in 0..kd {
            for y in 0..kh {
                let from = (z * kh + y) * kw;
                let to = (z * height + y) * width;
                real[to..to + kw].copy_from_slice(&template[from..from + kw]);
            }
        }
        let zero = Complex::new(0.0, 0.0);
        let (mut spectrum, mut work) = (vec![zero; self.exact.spectrum_len()], vec![zero; self.exact.scratch_len()]);
        self.exact.forward(&mut real, [kd, kh], &mut spectrum, &mut work);
        // While there is time for it.
        self.dither();
        let factor = 1.0 / self.samples() as f64;
        let mut rounded = vec![Complex::new(T::of(0.0), T::of(0.0)); self.transform.spectrum_len()];
        for (to, from) in self.transform.planes(&mut rounded).zip(self.exact.planes(&mut spectrum)) {
            to.iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to = Complex::new(T::of(from.re * factor), T::of(from.im * factor)));
        }
        rounded
    }

    /// The largest magnitude of a prepared template's spectrum: what a wave of amplitude 1 comes to at most.
    pub fn wave(&self, spectrum: &[Complex<T>]) -> f64 {
        let square = |value: &Complex<T>| value.re.to_f64().powi(2) + value.im.to_f64().powi(2);
        spectrum.iter().fold(0.0f64, |most, value| most.max(square(value))).sqrt() * self.samples() as f64
    }

    /// The noise in its tiles.
    fn dither(&self) -> &Dither<T> {
        self.dither.get_or_init(|| Dither::new(self.shape))
    }

    /// Transforms a gathered tile, zeros where it has no samples, into a slot; `outputs` are those of the tile.
    pub fn load(&self, input: &[T], outputs: [usize; 3], slot: usize, scratch: &mut FourierScratch<T>) {
        let [depth, height, _] = self.shape;
        let used = [0, 1].map(|axis| outputs[axis] + self.template[axis] - 1);
        let by = self.dither().add(&input[..self.samples()], self.shape, used, &mut scratch.real);
        self.transform.forward(&mut scratch.real, [depth, height], &mut scratch.spectra[slot], &mut scratch.work);
        self.dither().take(by, self.transform.planes(&mut scratch.spectra[slot]));
    }

    /// The cross term of the tile in a slot with a prepared template, for its first `outputs`.
    pub fn run(
        &self,
        slot: usize,
        template: &[Complex<T>],
        scratch: &mut FourierScratch<T>,
        outputs: [usize; 3],
        out: &mut [T],
    ) {
        multiply_conj(&scratch.spectra[slot], template, &mut scratch.product);
        // By Parseval; of frequencies and their mirror images half are there.
        scratch.results[slot] = 2.0 * energy(&scratch.product);
        self.transform.inverse(
            &mut scratch.product,
            &mut out[..self.samples()],
            [outputs[0], outputs[1]],
            &mut scratch.work,
        );
    }
}

impl<T: Real> Engine<T> for Fourier<T> {
    type Template = Vec<Complex<T>>;
    type Work = FourierScratch<T>;

    fn pitches(&self, _outputs: [usize; 3]) -> Pitches {
        let (samples, cross) = self.pitches();
        Pitches { samples, cross, bytes: None }
    }

    fn work(&self, most: Most, memory: &mut Memory) -> FourierScratch<T> {
        self.scratch(most.channels, memory)
    }

    fn template_bytes(&self) -> usize {
        self.spectrum_bytes()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<Vec<Complex<T>>, FactorError> {
        Ok(self.prepare(values))
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        prepared: &mut dyn Iterator<Item = &Vec<Complex<T>>>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        let wave = prepared.map(|spectrum| self.wave(spectrum)).sum();
        let rounding = Rounding::Fourier { len: self.samples() as f64, by: Library::RUSTFFT };
        (rounding, Figures { wave, ..Figures::of(channels.iter()) })
    }

    fn load(&self, channel: usize, samples: &[T], outputs: [usize; 3], work: &mut FourierScratch<T>) {
        self.load(samples, outputs, channel, work);
    }

    fn cross(&self, template: &Vec<Complex<T>>, job: Cross<'_, T>, work: &mut FourierScratch<T>) {
        let Cross { channel, samples, loaded, out, outputs, .. } = job;
        if !loaded {
            self.load(samples, outputs, channel, work);
        }
        self.run(channel, template, work, outputs, out);
    }

    fn bands<'a>(&self, channel: usize, _outputs: [usize; 2], work: &'a FourierScratch<T>) -> Bands<'a> {
        Bands::Tile { result: work.results[channel] }
    }

    fn expected(&self) -> Option<Expected> {
        Some(Expected { samples: self.samples(), results: 1.0, strongest: false })
    }
}

/// The sum of squares of complex numbers.
fn energy<T: Real>(values: &[Complex<T>]) -> f64 {
    isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || {
        lanes::sum(values, |value| {
            let (re, im) = (value.re.to_f64(), value.im.to_f64());
            re * re + im * im
        })
    })
}

#[cfg(test)]
mod tests {
    use flcc_core::dtype::DType;

    use super::*;
    use crate::cpu::engines::direct::{Direct, choose};
    use crate::cpu::kernels::kernel::KernelOp;
    use crate::cpu::slab::Slab;
    use crate::cpu::testing::{self, Ratios, noise, seeds};
    use crate::problem::error_model::{Strong, Unseen};

    /// The cross term of a whole tile of samples, in one type, the mean square of all results and the largest magnitude
    /// of the template's spectrum.
    fn correlate<T: Real>(shape: [usize; 3], template: [usize; 3], input: &[T], taps: &[f64]) -> (Vec<T>, f64, f64) {
        let fourier = Fourier::<T>::new(shape, template);
        let outputs = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
        let (spectrum, mut scratch, mut out) =
            (fourier.prepare(taps), fourier.scratch(1, &mut Memory::making()), vec![T::of(0.0); fourier.samples()]);
        fourier.load(input, outputs, 0, &mut scratch);
        fourier.run(0, &spectrum, &mut scratch, outputs, &mut out);
        (out, scratch.results[0], fourier.wave(&spectrum))
    }

    /// As `fft/pair.rs` has it, against the same transforms in f64.
    #[test]
    fn errors_stay_within_their_estimate() {
        let planes = [([1, 64, 64], [1, 9, 9]), ([1, 192, 320], [1, 32, 40]), ([1, 400, 400], [1, 200, 200])];
        let others = [
            ([1, 1, 5760], [1, 1, 500]),
            ([1, 1, 8192], [1, 1, 3000]),
            ([32, 32, 32], [5, 5, 5]),
            ([80, 80, 80], [40, 40, 40]),
        ];
        let shapes = planes.into_iter().chain(others).collect::<Vec<_>>();
        let mut ratios = Ratios::default();
        for seed in seeds() {
            if ratios.enough() {
                break;
            }
            for &(shape, template) in &shapes {
                errors_of(shape, template, 100 * seed, &mut ratios);
            }
        }
        ratios.judge("transforms of tiles");
    }

    #[test]
    fn a_few_equal_samples_under_stripes_err_by_less_than_they_are_granted() {
        let mut shapes = vec![
            ([1, 192, 320], [1, 7, 40]),
            ([1, 768, 640], [1, 3, 90]),
            ([1, 1, 1 << 16], [1, 1, 69]),
            ([64, 64, 64], [3, 5, 9]),
        ];
        // These take their time.
        if testing::panels().is_some() {
            shapes.extend([([1, 1920, 1920], [1, 3, 157]), ([1, 1, 1 << 20], [1, 1, 82])]);
        }
        judge_hostile("a few equal samples under stripes", testing::striped, &shapes);
    }

    #[test]
    fn copies_of_few_levels_err_by_less_than_they_are_granted() {
        let mut shapes = vec![
            ([1, 64, 64], [1, 16, 16]),
            ([1, 192, 320], [1, 60, 100]),
            ([1, 400, 400], [1, 200, 200]),
            ([1, 1, 5760], [1, 1, 500]),
            ([1, 1, 1 << 16], [1, 1, 24_746]),
            ([40, 40, 40], [20, 20, 20]),
            ([1, 192, 640], [1, 2, 500]),
            ([1, 640, 192], [1, 500, 2]),
            ([1, 160, 768], [1, 1, 400]),
        ];
        if testing::panels().is_some() {
            shapes.extend([([1, 1024, 1024], [1, 2, 890]), ([1, 1024, 1024], [1, 890, 2])]);
        }
        judge_hostile("copies of few levels beside a step", testing::copied, &shapes);
        judge_hostile("copies of few levels among blocks", testing::among_blocks, &shapes);
    }

    fn judge_hostile(name: &str, make: testing::Hostile, shapes: &[([usize; 3], [usize; 3])]) {
        let mut ratios = Ratios::default();
        for seed in seeds() {
            if ratios.enough() {
                break;
            }
            for &(shape, template) in shapes {
                let seed = 100 * seed + template[2] as u64;
                let (image, taps) = make(shape, template, seed);
                testing::at_amplitudes(&mut ratios, &image, seed, |input, ratios| {
                    Tile { shape, template, input, taps: &taps, kind: 0, name }.judge(ratios);
                });
            }
        }
        println!("{name}, {} panels: {:.3}", ratios.panels(), ratios.all());
    }

    fn errors_of(shape: [usize; 3], template: [usize; 3], seed: u64, ratios: &mut Ratios) {
        let len: usize = shape.iter().product();
        for (kind, (name, image)) in testing::IMAGES.iter().enumerate() {
            let mut tile = noise(seed + kind as u64 + 3);
            let amplitude = testing::amplitude(seed + kind as u64);
            // A line and a volume are what rows of 64 would be, one after the other.
            let row = if shape[0] == 1 && shape[1] > 1 { shape[2] } else { 64 };
            let input: Vec<f32> = (0..len).map(|at| amplitude * image(at / row, at % row, tile())).collect();
            for smooth in [false, true] {
                let taps = testing::template(template.iter().product(), smooth, noise(seed + kind as u64 + 50));
                Tile { shape, template, input: &input, taps: &taps, kind, name }.judge(ratios);
            }
        }
    }

    /// Transforms in f64 against sums of integers that are exact.
    #[test]
    fn errors_stay_within_their_estimate_in_f64() {
        let shapes = [
            ([1, 64, 64], [1, 9, 9]),
            ([1, 192, 320], [1, 32, 40]),
            ([1, 1, 5760], [1, 1, 500]),
            ([1, 1, 8192], [1, 1, 3000]),
            ([32, 32, 32], [5, 5, 5]),
        ];
        let (mut ratios, mut worst) = (Ratios::default(), 0.0f64);
        for seed in seeds() {
            if ratios.enough() {
                break;
            }
            for (shape, template) in shapes {
                worst = worst.max(errors_in_f64(shape, template, 100 * seed, &mut ratios));
            }
        }
        ratios.judge("transforms of tiles in f64");
        println!("    {worst:.3} of the worst case");
        assert!(worst < 1.0);
    }

    /// Adds every panel, and returns the largest error over the worst case.
    fn errors_in_f64(shape: [usize; 3], template: [usize; 3], seed: u64, ratios: &mut Ratios) -> f64 {
        let len: usize = shape.iter().product();
        let worst = 10.0 * f64::ROUNDOFF * (len as f64).log2();
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let mut largest = 0.0f64;
        for (kind, (name, image)) in testing::IMAGES.iter().enumerate() {
            let mut tile = noise(seed + kind as u64 + 3);
            // As many digits as the integers have.
            let amplitude = f64::from(testing::amplitude(seed + kind as u64)) + 1e-7 * f64::from(tile());
            let row = if shape[0] == 1 && shape[1] > 1 { shape[2] } else { 64 };
            let input = integers((0..len).map(|at| amplitude * f64::from(image(at / row, at % row, tile()))));
            for smooth in [false, true] {
                let count = template.iter().product();
                let taps = integers(testing::template(count, smooth, noise(seed + kind as u64 + 50)).into_iter());
                let exact = exact(shape, template, &input, &taps);
                let mut exact = exact.iter();
                // Far beyond 2^53 a number has no fraction, and below it none that counts.
                let error = |_, got: f64| (got as i128 - exact.next().unwrap()) as f64;
                let tile = Tile { shape, template, input: &input, taps: &taps, kind, name };
                let error = tile.judge_by(testing::DOUBLE, error, ratios);
                largest = largest.max(error / (worst * norm(&input) * norm(&taps)).max(1.0));
            }
        }
        largest
    }

    /// Values at a scale of their own, rounded to integers of up to `2^40`.
    fn integers(values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut values: Vec<f64> = values.collect();
        let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let factor = (39.0 - largest.log2().floor()).exp2();
        values.iter_mut().for_each(|value| *value = (*value * factor).round());
        values
    }

    /// Sums of products of such integers: each is a multiple of `2^20` and a rest, so four sums that f64 holds.
    fn exact(shape: [usize; 3], template: [usize; 3], input: &[f64], taps: &[f64]) -> Vec<i128> {
        assert!(taps.len() <= 1 << 13);
        let outputs = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
        let isas = isa::detect();
        let direct =
            Direct::<f64>::new(choose(KernelOp::Correlate, DType::F64, template, outputs, &isas), template, &isas)
                .unwrap();
        let (in_pitch, out_pitch) = direct.pitches(outputs);
        let digits = |values: &[f64]| -> [Vec<f64>; 2] {
            let unit = f64::from(1 << 20);
            let high: Vec<f64> = values.iter().map(|value| (value / unit).floor()).collect();
            let low = values.iter().zip(&high).map(|(value, high)| value - high * unit).collect();
            [low, high]
        };
        let mut sums = vec![0; outputs.iter().product()];
        let taps = digits(taps).map(|taps| direct.prepare(&taps, None));
        for (number, samples) in digits(input).iter().enumerate() {
            let mut laid = vec![0.0; in_pitch.elements()];
            testing::lay(samples, shape, in_pitch.plane, in_pitch.row, &mut laid);
            for (other, taps) in taps.iter().enumerate() {
                let mut out = vec![f64::NAN; out_pitch.elements()];
                direct.run(taps.sum(), &[], Slab { input: &laid, in_pitch, out: &mut out, out_pitch, outputs });
                for (at, sum) in sums.iter_mut().enumerate() {
                    let [z, y, x] = [at / (outputs[1] * outputs[2]), at / outputs[2] % outputs[1], at % outputs[2]];
                    let part = out[z * out_pitch.plane + y * out_pitch.row + x];
                    *sum += (part as i128) << (20 * (number + other));
                }
            }
        }
        sums
    }

    /// A tile of image number `kind`, and a template.
    struct Tile<'a, T> {
        shape: [usize; 3],
        template: [usize; 3],
        input: &'a [T],
        taps: &'a [f64],
        kind: usize,
        name: &'a str,
    }

    impl Tile<'_, f32> {
        /// Adds every panel, against the same transforms in f64.
        fn judge(&self, ratios: &mut Ratios) {
            let input: Vec<f64> = self.input.iter().map(|&value| value.into()).collect();
            let (expected, ..) = correlate::<f64>(self.shape, self.template, &input, self.taps);
            self.judge_by(testing::SINGLE, |at, got| f64::from(got) - expected[at], ratios);
        }
    }

    impl<T: Real> Tile<'_, T> {
        /// Adds every panel, whose error follows from its place and its result, in order; returns the largest error.
        fn judge_by(
            &self,
            precision: testing::Precision,
            mut error: impl FnMut(usize, T) -> f64,
            ratios: &mut Ratios,
        ) -> f64 {
            let &Tile { shape, template, input, taps, kind, name } = self;
            let [depth, height, width] = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
            let (out, all, wave) = correlate(shape, template, input, taps);
            let figures = Figures { wave, ..Figures::of([taps].into_iter()) };
            let len = shape.iter().product::<usize>() as f64;
            let rounding = Rounding::Fourier { len, by: Library::RUSTFFT };
            let doubt = testing::doubt_at(precision, taps.len(), &figures, rounding);
            let energy = input.iter().map(|value| value.to_f64().powi(2)).sum();
            let places = || {
                let lines = (0..depth).flat_map(|z| (0..height).map(move |y| (z * shape[1] + y) * shape[2]));
                lines.flat_map(|line| line..line + width)
            };
            let outputs = (depth * height * width) as f64;
            let result = (places().map(|at| out[at].to_f64().powi(2)).sum::<f64>() / outputs).max(all).sqrt();
            let largest = |values: &mut dyn Iterator<Item = f64>| {
                values.fold(0.0, |largest: f64, value| largest.max(value.abs()))
            };
            let sample = largest(&mut input.iter().map(|value| value.to_f64()));
            let strong = Strong::of([(input, 1.0)].into_iter(), |value: T| value.to_f64(), energy, sample);
            let unseen = Unseen::of(&figures, &rounding, precision.0, 1).most(sample, &strong);
            let peak = largest(&mut places().map(|at| out[at].to_f64())).max(unseen);
            let (limit, _) = doubt.at_peak(energy, result, peak);
            let mut worst = 0.0f64;
            for at in places() {
                // Without the panel's own share, which only grants more.
                let error = error(at, out[at]).abs();
                worst = worst.max(error);
                ratios.add_granted(kind, error, 0.8 * precision.1 * limit.sqrt(), || {
                    format!("{shape:?} {template:?} {name} at {at}")
                });
            }
            worst
        }
    }
}
