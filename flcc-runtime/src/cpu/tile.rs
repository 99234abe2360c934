//! One tile, from image samples to scores: gather, window sums, cross term, finish, repair.
//!
//! The same steps for every method; only the cross term differs. Nothing here allocates: a worker brings its
//! [`TileScratch`]. What a tile computes depends on the tile alone.

use flcc_core::boundary::Boundary;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, Spec};
use flcc_core::view::AnyView;
use flcc_core::with_formula;
use realfft::num_complex::Complex;

use super::bind::{Checked, Weights};
use super::direct::Direct;
use super::doubt::{Doubt, Figures, Model, Promise, Rounding};
use super::factor::{self, Factors};
use super::finish::{self, ChannelRow, Common, Constants, Rows, Width};
use super::fourier::{Fourier, FourierScratch};
use super::isa::{self, IsaSet};
use super::real::Real;
use super::repair::Panels;
use super::separable::{Lines, Separable};
use super::sums;
use crate::pad::{self, Pitch, Target};
use crate::tiling::{TileBox, Tiling};

/// How the cross term is computed.
pub enum Engine<T: Real> {
    /// The template laid over every panel.
    Direct(Direct<T>),
    /// Transforms of tiles.
    Fourier(Fourier<T>),
    /// Lines along each axis.
    Separable(Separable<T>),
}

/// A template in the form of its engine.
pub enum Prepared<T: Real> {
    /// Its samples.
    Samples(Vec<T>),
    /// Its spectrum.
    Spectrum(Vec<Complex<T>>),
    /// Its lines.
    Lines(Lines<T>),
}

/// A template bound to a plan.
pub struct BoundTemplate<T: Real> {
    /// Its checked values.
    pub checked: Checked,
    /// One for each channel, weights included.
    prepared: Vec<Prepared<T>>,
    /// When a panel's score is in doubt.
    doubt: Doubt,
}

/// Templates and mask bound to a plan.
pub struct BoundTemplates<T: Real> {
    /// The mask.
    pub weights: Weights,
    /// Its weights in the form of the engine, for window sums.
    mask: Option<Prepared<T>>,
    /// Its weights as the kernels of absolute differences take them.
    taps: Vec<T>,
    /// The templates.
    pub templates: Vec<BoundTemplate<T>>,
}

/// What was decided for a spec, before any pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheme {
    /// The formula.
    pub measure: Measure,
    /// Sums and cross term are exact integers, finished in integers of this width.
    pub integers: Option<Width>,
    /// The transform's results are rounded to the integers that they stand for.
    pub rounds: bool,
    /// The promise for normalised measures.
    pub promise: Option<Promise>,
    /// Whether there is a mask.
    pub masked: bool,
}

impl Scheme {
    /// The scheme of a spec whose cross term is exact (`exact_cross`) or rounded.
    pub fn new(spec: &Spec, exact_cross: bool, rounds: bool) -> Scheme {
        let measure = spec.op().measure();
        let n = spec.template().len() as f64;
        let max = |dtype: flcc_core::dtype::DType| f64::from(dtype.row().max.unwrap_or(0));
        let largest = max(spec.work_type()).powi(2) * n * n * spec.channels() as f64;
        let width = if largest < 2f64.powi(61) { Width::Narrow } else { Width::Wide };
        let single = spec.out_type() == flcc_core::dtype::DType::F32;
        let error = if single { 1e-5 } else { 1e-11 };
        let promise = match spec.accuracy() {
            _ if !measure.row().normalised => None,
            // Not promised, but far from what only noise would be.
            Accuracy::Fast => Some(Promise { error: 10.0 * error, deviations: Some(3.0) }),
            Accuracy::Promised => Some(Promise { error, deviations: Some(8.0) }),
            Accuracy::Exact => Some(Promise { error, deviations: None }),
        };
        let masked = spec.mask() != flcc_core::spec::MaskKind::None;
        Scheme { measure, integers: exact_cross.then_some(width), rounds, promise, masked }
    }
}

/// What takes the scores: a template's number, the place of a row in the result, the row.
pub type Store<'a> = dyn FnMut(usize, [usize; 3], &[f64]) + 'a;

/// Everything that is the same for every tile.
pub struct TileContext<T: Real> {
    /// The spec.
    pub spec: Spec,
    /// The grid.
    pub tiling: Tiling,
    /// The cross term.
    pub engine: Engine<T>,
    /// The decisions.
    pub scheme: Scheme,
    /// The instruction sets that row loops are compiled for.
    pub isas: IsaSet,
    /// Outputs an axis of the largest tile that is run.
    pub capacity: [usize; 3],
    /// Panels of a tile and template that are recomputed one by one before [`TileContext::run`] gives up.
    pub patience: u64,
    in_pitch: Pitch,
    out_pitch: Pitch,
}

/// Buffers of one worker.
pub struct TileScratch<T: Real> {
    inputs: Vec<Vec<T>>,
    marks: Vec<T>,
    crosses: Vec<Vec<T>>,
    sums: Vec<[Vec<f64>; 2]>,
    squares: Vec<T>,
    window: Vec<f64>,
    window_marks: Vec<T>,
    low: Vec<f64>,
    high: Vec<f64>,
    flat: Vec<bool>,
    hit: Vec<bool>,
    rows: Rows,
    panel: Vec<f64>,
    fourier: Option<FourierScratch<T>>,
    temporary: [Vec<T>; 2],
    /// What brings each channel to the common scale.
    factors: Vec<f64>,
    /// That scale: the image's samples were multiplied by it.
    scale: f64,
}

/// Counts of what a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Panels scored.
    pub panels: u64,
    /// Panels recomputed one by one, because the tile's rounding left them in doubt.
    pub repaired: u64,
    /// Tiles computed.
    pub tiles: u64,
}

impl Statistics {
    /// The sum of two counts.
    pub fn add(&mut self, other: Statistics) {
        self.panels += other.panels;
        self.repaired += other.repaired;
        self.tiles += other.tiles;
    }
}

impl<T: Real> TileContext<T> {
    /// A context; the engine's buffers are sized for tiles of up to `capacity` outputs an axis.
    pub fn new(spec: Spec, tiling: Tiling, capacity: [usize; 3], engine: Engine<T>, scheme: Scheme, isas: IsaSet) -> TileContext<T> {
        let (in_pitch, out_pitch) = match &engine {
            Engine::Direct(direct) => direct.pitches(capacity),
            Engine::Fourier(fourier) => fourier.pitches(),
            Engine::Separable(separable) => separable.pitches(capacity),
        };
        TileContext { spec, tiling, engine, scheme, isas, capacity, patience: u64::MAX, in_pitch, out_pitch }
    }

    fn needs(&self) -> flcc_core::sums::Needs {
        self.scheme.measure.row().needs
    }

    fn window_scratch(&self) -> usize {
        let (outputs, template) = (self.capacity, self.spec.template().padded());
        let shape = [0, 1, 2].map(|axis| outputs[axis] + template[axis] - 1);
        sums::scratch_len(&sums::Layout { shape, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane }, template)
    }

    /// Whether samples may be NaN, infinite or of extraordinary magnitude.
    fn needs_marks(&self) -> bool {
        !self.spec.is_integer() || matches!(self.spec.boundary(), Boundary::Constant(_))
    }

    /// Whether constant or zero panels have a score of their own that must be decided exactly.
    fn degenerates(&self) -> bool {
        self.scheme.measure.row().normalised
    }

    /// Buffers for one worker.
    pub fn scratch(&self) -> TileScratch<T> {
        let zero = T::of(0.0);
        let channels = self.spec.channels();
        let (input, output) = (self.in_pitch.elements(), self.out_pitch.elements());
        let needs = self.needs();
        let sum_len = |needed: bool| if needed { input } else { 0 };
        let flat = if self.degenerates() && self.scheme.integers.is_none() { input } else { 0 };
        let masked_sums = if self.scheme.masked && needs.square { input } else { 0 };
        let floats = self.needs_marks();
        let temporary = match &self.engine {
            Engine::Separable(separable) => separable.temporary_len(self.capacity),
            _ => 0,
        };
        TileScratch {
            inputs: vec![vec![zero; input]; channels],
            marks: vec![zero; if floats { input } else { 0 }],
            crosses: vec![vec![zero; output]; channels],
            sums: (0..channels).map(|_| [vec![0.0; sum_len(needs.sum)], vec![0.0; sum_len(needs.square)]]).collect(),
            squares: vec![zero; masked_sums],
            window: vec![0.0; if needs.square { self.window_scratch() } else { 0 }],
            window_marks: vec![zero; if floats { self.window_scratch() } else { 0 }],
            low: vec![0.0; flat],
            high: vec![0.0; flat],
            flat: vec![false; if flat > 0 { output } else { 0 }],
            hit: vec![false; if floats { output } else { 0 }],
            rows: Rows::new(self.capacity[2], self.scheme.integers),
            panel: vec![0.0; if self.degenerates() { channels * self.spec.template().len() } else { 0 }],
            fourier: match &self.engine {
                Engine::Fourier(fourier) => Some(fourier.scratch(channels)),
                _ => None,
            },
            temporary: [vec![zero; temporary], vec![zero; temporary]],
            factors: vec![1.0; channels],
            scale: 1.0,
        }
    }
}

impl<T: Real> TileContext<T> {
    /// Bytes of one worker's buffers.
    pub fn scratch_bytes(&self) -> usize {
        let size = size_of::<T>();
        let channels = self.spec.channels();
        let (input, output) = (self.in_pitch.elements(), self.out_pitch.elements());
        let needs = self.needs();
        let flat = self.degenerates() && self.scheme.integers.is_none();
        let floats = self.needs_marks();
        let row = match self.scheme.integers {
            None => 40,
            Some(Width::Narrow) => 32,
            Some(Width::Wide) => 48,
        };
        let engine = match &self.engine {
            Engine::Direct(_) => 0,
            Engine::Fourier(fourier) => fourier.scratch_bytes(channels),
            Engine::Separable(separable) => 2 * size * separable.temporary_len(self.capacity),
        };
        let window = self.window_scratch();
        channels * (input + output) * size
            + channels * 8 * input * (usize::from(needs.sum) + usize::from(needs.square))
            + if self.scheme.masked && needs.square { input * size } else { 0 }
            + if needs.square { window * 8 } else { 0 }
            + if floats { (input + window) * size + output } else { 0 }
            + if flat { 16 * input + output } else { 0 }
            + if self.degenerates() { 8 * channels * self.spec.template().len() } else { 0 }
            + row * self.capacity[2]
            + engine
    }

    /// Bytes of one bound template.
    pub fn template_bytes(&self) -> usize {
        let values = self.spec.channels() * self.spec.template().len();
        let prepared = match &self.engine {
            Engine::Fourier(fourier) => self.spec.channels() * fourier.spectrum_bytes(),
            _ => values * size_of::<T>(),
        };
        16 * values + prepared
    }

    /// Binds checked templates.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<BoundTemplates<T>, factor::FactorError> {
        let mask = match &weights.values {
            Some(values) if self.needs().square => Some(self.prepare(values)?),
            _ => None,
        };
        let taps = if self.needs().absolute_difference {
            weights.values.clone().unwrap_or_else(|| vec![1.0; self.spec.template().len()]).into_iter().map(T::of).collect()
        } else {
            Vec::new()
        };
        let templates = checked.into_iter().map(|checked| self.bind_one(checked, &weights)).collect::<Result<_, _>>()?;
        Ok(BoundTemplates { weights, mask, taps, templates })
    }

    /// The largest separable rank among templates, if none is over `limit`.
    pub fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        checked
            .iter()
            .flat_map(|template| &template.values)
            .map(|channel| self.factors(&weighted(channel, weights), Some(limit)).ok().map(|factors| factors.terms.len()))
            .try_fold(0, |largest, rank| rank.map(|rank| largest.max(rank)))
    }

    fn bind_one(&self, checked: Checked, weights: &Weights) -> Result<BoundTemplate<T>, factor::FactorError> {
        let source = if self.scheme.integers.is_some() { &checked.raw } else { &checked.values };
        let weigh = |channel: &Vec<f64>| if self.needs().absolute_difference { channel.clone() } else { weighted(channel, weights) };
        let channels: Vec<Vec<f64>> = source.iter().map(weigh).collect();
        let prepared = channels.iter().map(|values| self.prepare(values)).collect::<Result<Vec<_>, _>>()?;
        let terms: usize = prepared.iter().map(|prepared| if let Prepared::Lines(lines) = prepared { lines.len() } else { 0 }).sum();
        let model = Model {
            measure: self.scheme.measure,
            promise: self.scheme.promise,
            roundoff: T::ROUNDOFF,
            taps: (self.spec.template().len() * self.spec.channels()) as f64,
            rounding: match &self.engine {
                Engine::Direct(_) => Rounding::Direct,
                Engine::Separable(_) => {
                    let lines = self.spec.template().padded().iter().map(|&k| k as f64).sum();
                    Rounding::Separable { terms: terms as f64, lines }
                }
                Engine::Fourier(fourier) => Rounding::Fourier { len: fourier.samples() as f64 },
            },
            weights: weights.values.as_deref(),
        };
        let doubt = model.doubt(&Figures::of(channels.iter().map(Vec::as_slice)));
        Ok(BoundTemplate { checked, prepared, doubt })
    }

    fn prepare(&self, values: &[f64]) -> Result<Prepared<T>, factor::FactorError> {
        let rounded = || values.iter().map(|&value| T::of(value)).collect::<Vec<T>>();
        Ok(match &self.engine {
            Engine::Direct(_) => Prepared::Samples(rounded()),
            Engine::Fourier(fourier) => Prepared::Spectrum(fourier.prepare(&rounded())),
            Engine::Separable(_) => Prepared::Lines(Lines::new(&self.factors(values, None)?)),
        })
    }

    /// The separable form of a template's values, to within the rounding of the tile's type: what rounding a product of
    /// lines to that type added is not found again as terms of its own.
    ///
    /// # Errors
    /// No convergence, or more than `max_terms` terms.
    pub fn factors(&self, values: &[f64], max_terms: Option<usize>) -> Result<Factors, factor::FactorError> {
        factor::factor(values, self.spec.template().padded(), T::ROUNDOFF.max(factor::LEAST_TOLERANCE), max_terms)
    }

    /// Scores one tile of one image for every template; gives up, with `None`, when more panels than `self.patience` are to be
    /// recomputed one by one.
    ///
    /// `store` gets the template's number, the place of a row in the result and the row's scores.
    pub fn run(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<Statistics> {
        let samples = self.tiling.samples(tile);
        // Exact sums and sums of differences are of the samples as they are.
        let forced = (self.scheme.integers.is_some() || self.scheme.measure == Measure::Sad).then_some(1.0);
        let marked = self.gather(image, samples, tile, forced, &bound.weights, scratch);
        self.window_sums(samples.len, bound, tile.shape, scratch);
        if let (Engine::Fourier(fourier), Some(work)) = (&self.engine, &mut scratch.fourier) {
            for (channel, input) in scratch.inputs.iter().enumerate() {
                fourier.load(input, tile.shape, channel, work);
            }
        }
        let mut statistics = Statistics { tiles: 1, ..Statistics::default() };
        for (number, template) in bound.templates.iter().enumerate() {
            for channel in 0..self.spec.channels() {
                self.cross(&template.prepared[channel], &bound.taps, channel, tile.shape, scratch, Source::Loaded);
            }
            let repaired = self.finish(image, tile, samples, number, bound, marked, scratch, store);
            statistics.repaired += repaired?;
            statistics.panels += tile.keep.iter().map(|(from, to)| (to - from) as u64).product::<u64>();
        }
        Some(statistics)
    }

    /// Gathers every channel; returns whether some sample was marked.
    fn gather(
        &self,
        image: &AnyView<'_>,
        samples: pad::Samples,
        tile: &TileBox,
        forced: Option<f64>,
        weights: &Weights,
        scratch: &mut TileScratch<T>,
    ) -> bool {
        let boundary = self.spec.boundary();
        let mut any = false;
        for channel in 0..self.spec.channels() {
            let view = image.channel(channel);
            let free = self.needs().centred && self.scheme.integers.is_none();
            let offset = if free { pad::offset(&view, boundary, samples) } else { 0.0 };
            let target = Target { out: &mut scratch.inputs[channel], marks: &mut scratch.marks, pitch: self.in_pitch };
            let done = pad::gather(&view, boundary, samples, offset, forced, target);
            scratch.factors[channel] = done.scale;
            if done.marked {
                if !any {
                    scratch.hit.fill(false);
                }
                any = true;
                self.merge_hits(samples.len, tile.shape, weights, scratch);
            }
        }
        // Channels in one scale: that of the largest.
        let smallest = scratch.factors.iter().copied().fold(f64::INFINITY, f64::min);
        scratch.factors.iter_mut().for_each(|scale| *scale = smallest / *scale);
        scratch.scale = smallest;
        any
    }

    /// Adds to `hit` the panels that touch a marked sample of the channel gathered last.
    fn merge_hits(&self, samples: [usize; 3], outputs: [usize; 3], weights: &Weights, scratch: &mut TileScratch<T>) {
        let [kd, kh, kw] = self.spec.template().padded();
        let zero = T::of(0.0);
        if let Some(weights) = &weights.values {
            // Under a mask only its own samples count: each marked sample hits the panels whose weight there is positive.
            for (k, _) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                let [dz, dy, dx] = [k / (kh * kw), k / kw % kh, k % kw];
                for z in 0..outputs[0] {
                    for y in 0..outputs[1] {
                        let from = (z + dz) * self.in_pitch.plane + (y + dy) * self.in_pitch.row + dx;
                        let to = z * self.out_pitch.plane + y * self.out_pitch.row;
                        let marks = &scratch.marks[from..from + outputs[2]];
                        scratch.hit[to..to + outputs[2]].iter_mut().zip(marks).for_each(|(hit, mark)| *hit |= *mark != zero);
                    }
                }
            }
            return;
        }
        let tile = sums::Layout { shape: samples, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
        let (marks, work) = (&mut scratch.marks, &mut scratch.window_marks);
        sums::maximum(&self.isas, marks, work, &tile, [kd, kh, kw]);
        for z in 0..outputs[0] {
            for y in 0..outputs[1] {
                let from = z * self.in_pitch.plane + y * self.in_pitch.row;
                let to = z * self.out_pitch.plane + y * self.out_pitch.row;
                let marks = &scratch.marks[from..from + outputs[2]];
                scratch.hit[to..to + outputs[2]].iter_mut().zip(marks).for_each(|(hit, mark)| *hit |= *mark != zero);
            }
        }
    }

    /// Sums of samples and squares over every window, channel by channel.
    fn window_sums(&self, samples: [usize; 3], bound: &BoundTemplates<T>, outputs: [usize; 3], scratch: &mut TileScratch<T>) {
        let needs = self.needs();
        if !needs.square {
            return;
        }
        for channel in 0..self.spec.channels() {
            if let Some(mask) = &bound.mask {
                if needs.sum {
                    self.cross(mask, &[], channel, outputs, scratch, Source::Image);
                    copy(&scratch.crosses[channel], &mut scratch.sums[channel][0], |value| value.to_f64());
                }
                copy(&scratch.inputs[channel], &mut scratch.squares, |value| value * value);
                self.cross(mask, &[], channel, outputs, scratch, Source::Squares);
                copy(&scratch.crosses[channel], &mut scratch.sums[channel][1], |value| value.to_f64());
                continue;
            }
            let tile = sums::Layout { shape: samples, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
            let window = self.spec.template().padded();
            let (input, window_scratch, [i, ii]) = (&scratch.inputs[channel], &mut scratch.window, &mut scratch.sums[channel]);
            isa::vectorized(&self.isas, || {
                if needs.sum {
                    copy(input, i, |value| value.to_f64());
                }
                copy(input, ii, |value| value.to_f64() * value.to_f64());
            });
            if needs.sum {
                sums::sum(&self.isas, i, window_scratch, &tile, window);
            }
            sums::sum(&self.isas, ii, window_scratch, &tile, window);
        }
    }

    /// The cross term of one channel with a prepared template, into `crosses[channel]`.
    fn cross(&self, prepared: &Prepared<T>, taps: &[T], channel: usize, outputs: [usize; 3], scratch: &mut TileScratch<T>, source: Source) {
        let out = &mut scratch.crosses[channel];
        let input = if source == Source::Squares { &scratch.squares } else { &scratch.inputs[channel] };
        match (&self.engine, prepared) {
            (Engine::Direct(direct), Prepared::Samples(template)) => {
                direct.run(input, self.in_pitch, template, taps, out, self.out_pitch, outputs);
            }
            (Engine::Separable(separable), Prepared::Lines(lines)) => {
                separable.run(input, self.in_pitch, lines, &mut scratch.temporary, out, self.out_pitch, outputs);
            }
            (Engine::Fourier(fourier), Prepared::Spectrum(spectrum)) => {
                let work = scratch.fourier.as_mut().expect("made with the engine");
                if source != Source::Loaded {
                    fourier.load(input, outputs, channel, work);
                }
                fourier.run(channel, spectrum, work, outputs, out);
                if self.scheme.rounds {
                    out.iter_mut().for_each(|value| *value = T::of(value.to_f64().round()));
                }
            }
            _ => unreachable!("a template is prepared by the engine that uses it"),
        }
    }

    /// Scores every row of the tile that is asked for; returns how many panels were repaired.
    #[allow(clippy::too_many_arguments, reason = "the last step needs what all the others made")]
    fn finish(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        samples: pad::Samples,
        number: usize,
        bound: &BoundTemplates<T>,
        marked: bool,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<u64> {
        let template = &bound.templates[number];
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        if template.checked.nonfinite {
            scratch.rows.out.fill(f64::NAN);
        }
        let doubt = (self.scheme.integers.is_none() && self.degenerates()).then(|| self.doubt(tile, &template.doubt, scratch));
        let (image_scale, template_scale) = (scratch.scale, template.checked.scale);
        let larger = image_scale.min(template_scale);
        let (common, unscale) = match self.scheme.measure {
            Measure::Cc => (Common::of(1.0, 1.0), [1.0 / image_scale, 1.0 / template_scale]),
            Measure::Ssd => (Common::of(image_scale, template_scale), [1.0 / larger, 1.0 / larger]),
            Measure::Nssd => (Common::of(image_scale, template_scale), [1.0, 1.0]),
            _ => (Common::of(1.0, 1.0), [1.0, 1.0]),
        };
        let constants = Constants { n: bound.weights.n, template: template.checked.energy, common, unscale, doubt };
        let sum_pitch = if bound.mask.is_some() { self.out_pitch } else { self.in_pitch };
        let mut flat_known = false;
        // Whether to give up is the whole tile's matter, whatever part of it is asked for.
        let whole = (0..3).all(|axis| tile.keep[axis] == (0, tile.shape[axis]));
        if let Some(doubt) = doubt.filter(|_| self.patience < u64::MAX && !whole && !template.checked.nonfinite) {
            let mut doubts = 0;
            for (z, y) in (0..tile.shape[0]).flat_map(|z| (0..tile.shape[1]).map(move |y| (z, y))) {
                let cross_at = z * self.out_pitch.plane + y * self.out_pitch.row;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row;
                if self.finish_row(&constants, template, cross_at, sum_at, tile.shape[2], scratch) {
                    if !flat_known {
                        self.find_flat(image, samples, tile.shape, scratch);
                        flat_known = true;
                    }
                    let unsettled = |x: &usize| in_doubt(scratch, doubt, cross_at, *x, marked) && !scratch.flat[cross_at + x];
                    doubts += (0..tile.shape[2]).filter(unsettled).count() as u64;
                    if doubts > self.patience {
                        return None;
                    }
                }
            }
        }
        let mut repaired = 0;
        for z in z0..z1 {
            for y in y0..y1 {
                let cross_at = z * self.out_pitch.plane + y * self.out_pitch.row + x0;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row + x0;
                let width = x1 - x0;
                if !template.checked.nonfinite {
                    let doubtful = self.finish_row(&constants, template, cross_at, sum_at, width, scratch);
                    if doubtful {
                        if !flat_known {
                            self.find_flat(image, samples, tile.shape, scratch);
                            flat_known = true;
                        }
                        let panels = Panels {
                            image,
                            boundary: self.spec.boundary(),
                            template: self.spec.template().padded(),
                            weights: &bound.weights,
                        };
                        let begin = [z, y, x0].map(|at| at as isize);
                        let begin = [0, 1, 2].map(|axis| samples.begin[axis] + begin[axis]);
                        repaired += self.settle(&panels, begin, template, doubt?, cross_at, width, marked, scratch);
                        if whole && repaired > self.patience {
                            return None;
                        }
                    }
                }
                if marked {
                    let hits = &scratch.hit[cross_at..cross_at + width];
                    scratch.rows.out.iter_mut().zip(hits).filter(|(_, hit)| **hit).for_each(|(out, _)| *out = f64::NAN);
                }
                let place = [tile.place[0] + z - z0, tile.place[1] + y - y0, tile.place[2]];
                store(number, place, &scratch.rows.out[..width]);
            }
        }
        Some(repaired)
    }

    fn finish_row(
        &self,
        constants: &Constants,
        template: &BoundTemplate<T>,
        cross_at: usize,
        sum_at: usize,
        width: usize,
        scratch: &mut TileScratch<T>,
    ) -> bool {
        let TileScratch { crosses, sums, factors, rows, scale, .. } = scratch;
        let scaled = *scale != 1.0;
        let row = |channel: usize| -> ChannelRow<'_> {
            let part = |sum: &Vec<f64>| -> std::ops::Range<usize> { if sum.is_empty() { 0..0 } else { sum_at..sum_at + width } };
            let [i, ii] = &sums[channel];
            let faint = if scaled { T::FAINT } else { 0.0 };
            ChannelRow { width, i: &i[part(i)], ii: &ii[part(ii)], factor: factors[channel], faint }
        };
        let exact = &template.checked;
        for (channel, cross) in crosses.iter().enumerate() {
            let row = row(channel);
            let cross = &cross[cross_at..cross_at + width];
            isa::vectorized(&self.isas, || rows.take(cross));
            let t = exact.exact_sums.get(channel).copied().unwrap_or(0);
            finish::add(&self.isas, self.scheme.measure, self.scheme.integers, channel, &row, constants, t, rows);
        }
        finish::settle(&self.isas, self.scheme.measure, self.scheme.integers, width, constants, exact.exact_energy, rows)
    }

    /// Decides the doubtful panels of the row finished last; returns how many were recomputed.
    #[allow(clippy::too_many_arguments, reason = "a row is a place and a width")]
    fn settle(
        &self,
        panels: &Panels<'_>,
        begin: [isize; 3],
        template: &BoundTemplate<T>,
        doubt: (f64, f64),
        cross_at: usize,
        width: usize,
        marked: bool,
        scratch: &mut TileScratch<T>,
    ) -> u64 {
        let degenerate = with_formula!(self.scheme.measure, F => <F as flcc_core::measure::Formula>::DEGENERATE);
        let mut repaired = 0;
        for x in 0..width {
            if !in_doubt(scratch, doubt, cross_at, x, marked) {
                continue;
            }
            scratch.rows.out[x] = if scratch.flat[cross_at + x] {
                degenerate
            } else {
                repaired += 1;
                panels.score(self.scheme.measure, [begin[0], begin[1], begin[2] + x as isize], &template.checked, &mut scratch.panel)
            };
        }
        repaired
    }

    /// Marks the panels all of whose samples are equal (zncc) or zero (ncc, nssd), from the samples themselves.
    fn find_flat(&self, image: &AnyView<'_>, samples: pad::Samples, outputs: [usize; 3], scratch: &mut TileScratch<T>) {
        let TileScratch { low, high, flat, window, .. } = scratch;
        flat.fill(true);
        let zero_only = self.scheme.measure != Measure::Zncc;
        let tile = sums::Layout { shape: samples.len, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
        let template = self.spec.template().padded();
        for channel in 0..self.spec.channels() {
            // As they are, in f64, which holds every pixel type: no rounding can make two samples equal.
            pad::exact(&image.channel(channel), self.spec.boundary(), samples, low, self.in_pitch);
            high.copy_from_slice(low);
            sums::minimum(&self.isas, low, window, &tile, template);
            sums::maximum(&self.isas, high, window, &tile, template);
            for z in 0..outputs[0] {
                for y in 0..outputs[1] {
                    let from = z * self.in_pitch.plane + y * self.in_pitch.row;
                    let to = z * self.out_pitch.plane + y * self.out_pitch.row;
                    for x in 0..outputs[2] {
                        let (low, high) = (low[from + x], high[from + x]);
                        flat[to + x] &= low == high && !(zero_only && low != 0.0);
                    }
                }
            }
        }
    }

    /// Below which energy a panel of this tile is doubtful: `energy <= .0 + .1 * sum of squares`.
    fn doubt(&self, tile: &TileBox, doubt: &Doubt, scratch: &TileScratch<T>) -> (f64, f64) {
        if doubt.is_constant() {
            return doubt.at(0.0, 0.0);
        }
        let energy = scratch.inputs.iter().zip(&scratch.factors).map(|(input, factor)| squares(input) * factor * factor).sum();
        let outputs = tile.shape.iter().product::<usize>() as f64;
        doubt.at(energy, self.result_norm(tile, scratch) / outputs.sqrt())
    }

    /// Norm of the cross term over the tile.
    fn result_norm(&self, tile: &TileBox, scratch: &TileScratch<T>) -> f64 {
        let mut total = 0.0;
        for (cross, factor) in scratch.crosses.iter().zip(&scratch.factors) {
            for z in 0..tile.shape[0] {
                for y in 0..tile.shape[1] {
                    let at = z * self.out_pitch.plane + y * self.out_pitch.row;
                    total += squares(&cross[at..at + tile.shape[2]]) * factor * factor;
                }
            }
        }
        total.sqrt()
    }
}

/// Whether panel `x` of the row finished last, whose cross term begins at `cross_at`, is in doubt; one that is to be NaN is not.
fn in_doubt<T: Real>(scratch: &TileScratch<T>, doubt: (f64, f64), cross_at: usize, x: usize, marked: bool) -> bool {
    let (energy, square) = scratch.rows.panel(x);
    let certain = energy > doubt.0 + doubt.1 * square;
    let settled = certain || (marked && scratch.hit[cross_at + x]);
    !settled
}

/// Template values under their weights.
pub(crate) fn weighted(values: &[f64], weights: &Weights) -> Vec<f64> {
    match &weights.values {
        Some(weights) => values.iter().zip(weights).map(|(value, weight)| value * weight).collect(),
        None => values.to_vec(),
    }
}

/// What a cross term is taken of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The samples of the tile.
    Image,
    /// Their squares.
    Squares,
    /// The samples, whose transform is already there.
    Loaded,
}

#[inline(always)]
fn copy<A: Copy, B>(from: &[A], to: &mut [B], map: impl Fn(A) -> B) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = map(from));
}

/// The sum of squares, in eight lanes so that it is vectorised, always in the same order.
fn squares<T: Real>(values: &[T]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|value| value.to_f64() * value.to_f64()).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value.to_f64() * value.to_f64();
        }
    }
    lanes.iter().sum::<f64>() + rest
}
