//! One tile, from image samples to scores: gather, window sums, cross term, finish, repair.
//!
//! The same steps for every method; only the cross term differs. Nothing here allocates: a worker brings its
//! [`TileScratch`]. What a tile computes depends on the tile alone.

use std::any::Any;
use std::borrow::Cow;

use flcc_core::boundary::Boundary;
use flcc_core::measure::Measure;
use flcc_core::spec::{Accuracy, Spec};
use flcc_core::view::{AnyView, View};
use flcc_core::with_formula;
use realfft::num_complex::Complex;

use crate::cpu::aligned::Aligned;
use crate::cpu::engines::bytes::{self, Bytes, Taps};
use crate::cpu::engines::direct::{self, Direct, Slab};
use crate::cpu::engines::factor::{self, Factors};
use crate::cpu::engines::library_fft::{Fourier, FourierScratch};
use crate::cpu::engines::separable::{Lines, Separable};
use crate::cpu::fft::columns::{self, Hybrid, HybridScratch};
use crate::cpu::fft::pair::{Figure, Ground, Planar, PlanarScratch, Planes};
use crate::cpu::fft::single::{Halved, HalvedScratch};
use crate::cpu::fft::volume::{self, Layered, LayeredScratch, Spectra};
use crate::cpu::gather::{self, Target};
use crate::cpu::in_place::{self, PairStrip, Strip};
use crate::cpu::real::Real;
use crate::cpu::score::repair::Panels;
use crate::cpu::score::rows::{self, ChannelRow, Common, Constants, Rows};
use crate::cpu::score::split::{self, Coarse, CoarseScratch};
use crate::cpu::score::vector::{self, FusedScratch};
use crate::cpu::score::window_sums;
use crate::isa::prefetch::Coming;
use crate::isa::{self, IsaSet, Vectors};
use crate::problem::error_model::{self, Doubt, Figures, Library, Model, Rounding, Steps};
use crate::problem::lanes;
use crate::problem::powers::joined;
use crate::problem::scheme::{Scheme, Width};
use crate::problem::template::weighted;
use crate::problem::template::{Checked, Weights};
use crate::run::execute::Statistics;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::{self, Scores};
use crate::run::tiling::{TileBox, Tiling};

/// How the cross term is computed.
pub enum Engine<T: Real> {
    /// The template laid over every panel.
    Direct(Direct<T>),
    /// Transforms of tiles.
    Fourier(Fourier<T>),
    /// Transforms of pairs of tiles in f32.
    Planar(Planar),
    /// Transforms of the planes of pairs of tiles in f32.
    Layered(Layered),
    /// Transforms of one tile in f32, which is all of the result.
    Halved(Halved),
    /// Transforms of columns in f32, taps along rows.
    Hybrid(Hybrid),
    /// Lines along each axis.
    Separable(Separable<T>),
    /// The direct method for bytes; its sums are `f32`.
    Bytes(Bytes),
}

/// A template in the form of its engine.
pub enum Prepared<T: Real> {
    /// Its samples.
    Samples(direct::Template<T>),
    /// Its spectrum.
    Spectrum(Vec<Complex<T>>),
    /// Its spectrum for transforms of our own.
    Planes(Planes),
    /// The spectra of its planes for them.
    Layers(Spectra),
    /// Its lines.
    Lines(Lines<T>),
    /// Its taps as bytes.
    Taps(Taps),
}

/// A template bound to a plan.
pub struct BoundTemplate<T: Real> {
    /// Its checked values.
    pub checked: Checked,
    /// One for each channel, weights included.
    prepared: Vec<Prepared<T>>,
    judged: Judged,
    /// It in two parts, for tiles that leave much in doubt otherwise.
    parts: Option<Parts<T>>,
}

/// What a cross term with a template leaves in doubt.
#[derive(Clone, Copy, Default)]
struct Judged {
    /// When a panel's score is in doubt.
    doubt: Doubt,
    /// Largest magnitude of the template's values.
    largest: f64,
}

/// A template in two parts.
struct Parts<T: Real> {
    /// All of it, as a survey takes it.
    whole: Vec<f32>,
    /// The rectangles of the coarse one.
    heights: Vec<f64>,
    fine: Prepared<T>,
    /// Of the cross term with the fine one.
    judged: Judged,
}

/// Of panels sampled, the share in doubt from which on the two parts of a template take less time than what would be
/// repaired.
const MUCH_IN_DOUBT: f64 = 0.02;
/// Rows of a tile whose cross terms are made whole and scored before the next.
const ROWS_AT_A_TIME: usize = 8;
/// Panels whose energy is within this of what leaves them in doubt are near.
const NEAR: f64 = 16.0;
/// The largest result of a tile over the largest norm of the panels sampled, about: what resembles the template most is
/// not what is brightest.
const LIKENESS: f64 = 0.6;
/// The root mean square of a transform's results, those that wrap round included, over that of the panels sampled,
/// about.
const BETWEEN: f64 = 1.25;

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

impl<T: Real> BoundTemplates<T> {
    /// Has templates taken whole by every tile.
    pub fn keep_whole(&mut self) {
        self.templates.iter_mut().for_each(|template| template.parts = None);
    }
}

/// What takes the scores.
pub struct Store<'a> {
    /// Gets a template's number, the place of a row in the result, the row.
    pub write: &'a mut dyn FnMut(usize, [usize; 3], Scores<'_>),
    /// Where rows from such a place on will be written, if that is a plane of `f32` side by side.
    pub lines: &'a dyn Fn(usize, [usize; 3]) -> Option<Coming>,
}

/// How a tile is scored in f32 vectors where that is all it takes: one channel, no mask.
#[derive(Clone, Copy, Debug)]
enum Fused {
    /// The cross term is the score.
    Cross,
    /// `score/vector.rs`, in these vectors.
    Normalised(Vectors),
}

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
    /// Panels that are recomputed one by one of each part of a tile, before the part is left to a better way.
    pub patience: u64,
    /// Outputs an axis of such a part.
    pub parts: [usize; 3],
    in_pitch: Pitch,
    out_pitch: Pitch,
    /// Of the samples as bytes, where the engine takes them.
    byte_pitch: Option<Pitch>,
    fused: Option<Fused>,
    /// The coarse parts of templates that may be taken in two.
    coarse: Option<Coarse>,
    /// They are, whatever the tile.
    always_in_parts: bool,
}

/// What the last steps of a tile need of the first.
struct Finishing<'a, T: Real> {
    image: &'a AnyView<'a>,
    tile: &'a TileBox,
    samples: Samples,
    /// Whether some sample was NaN or infinite.
    marked: bool,
    bound: &'a BoundTemplates<T>,
    /// The template's number.
    number: usize,
    /// Of the cross term.
    judged: Judged,
    /// The rectangles of the coarse part, whose cross term is still to be added.
    heights: Option<&'a [f64]>,
}

impl<T: Real> Finishing<'_, T> {
    fn template(&self) -> &BoundTemplate<T> {
        &self.bound.templates[self.number]
    }

    /// Whether all of the tile is asked for.
    fn whole(&self) -> bool {
        (0..3).all(|axis| self.tile.keep[axis] == (0, self.tile.shape[axis]))
    }

    /// Where a row of the tile goes.
    fn place(&self, z: usize, y: usize) -> [usize; 3] {
        let TileBox { place, keep, .. } = self.tile;
        [place[0] + z - keep[0].0, place[1] + y - keep[1].0, place[2]]
    }

    /// The score of one panel, given by its place in the tile, recomputed alone.
    fn repair(&self, context: &TileContext<T>, position: [usize; 3], panel: &mut [f64]) -> f64 {
        let panels = Panels {
            image: self.image,
            boundary: context.spec.boundary(),
            template: context.spec.template().padded(),
            weights: &self.bound.weights,
            isas: context.isas,
        };
        let begin = [0, 1, 2].map(|axis| self.samples.begin[axis] + position[axis] as isize);
        panels.score(context.scheme.measure, begin, &self.template().checked, panel)
    }
}

/// Buffers of one worker.
pub struct TileScratch<T: Real> {
    inputs: Vec<Aligned<T>>,
    bytes: Aligned<i8>,
    /// What a kernel of bytes makes of those.
    byte_room: Aligned<i8>,
    marks: Vec<T>,
    crosses: Vec<Aligned<T>>,
    sums: Vec<[Vec<f64>; 2]>,
    squares: Vec<T>,
    window: Vec<f64>,
    window_marks: Vec<T>,
    low: Vec<f64>,
    high: Vec<f64>,
    flat: Vec<bool>,
    hit: Vec<bool>,
    /// Outputs of a correlation that overflowed.
    over: Vec<bool>,
    rows: Rows,
    panel: Vec<f64>,
    fourier: Option<FourierScratch<T>>,
    planar: Option<PlanarScratch>,
    layered: Option<LayeredScratch>,
    halved: Option<HalvedScratch>,
    hybrid: Option<HybridScratch>,
    fused: Option<FusedScratch>,
    coarse: Option<CoarseScratch>,
    temporary: [Vec<T>; 2],
    /// Parts of the tile run last that are left to a better way.
    again: Vec<TileBox>,
    /// What brings each channel to the common scale.
    factors: Vec<f64>,
    /// That scale: the image's samples were multiplied by it.
    scale: f64,
}

impl<T: Real> TileContext<T> {
    /// A context; the engine's buffers are sized for tiles of up to `capacity` outputs an axis.
    pub fn new(
        spec: Spec,
        tiling: Tiling,
        capacity: [usize; 3],
        engine: Engine<T>,
        scheme: Scheme,
        isas: IsaSet,
    ) -> TileContext<T> {
        let (in_pitch, out_pitch) = match &engine {
            Engine::Direct(direct) => direct.pitches(capacity),
            Engine::Fourier(fourier) => fourier.pitches(),
            Engine::Planar(planar) => planar.layout().pitches(),
            Engine::Layered(layered) => layered.layout().pitches(),
            Engine::Halved(halved) => halved.layout().pitches(),
            Engine::Hybrid(hybrid) => hybrid.layout().pitches(),
            Engine::Separable(separable) => separable.pitches(capacity),
            Engine::Bytes(bytes) => direct::pitches(&[bytes.kernel()], spec.template().padded(), capacity),
        };
        let byte_pitch = if let Engine::Bytes(bytes) = &engine { Some(bytes.pitch(capacity)) } else { None };
        let mut context = TileContext {
            spec,
            tiling,
            engine,
            scheme,
            isas,
            capacity,
            patience: u64::MAX,
            parts: capacity,
            in_pitch,
            out_pitch,
            byte_pitch,
            fused: None,
            coarse: None,
            always_in_parts: false,
        };
        context.fused = context.fusible();
        context
    }

    /// Whether tiles are scored in f32 vectors, by what is known before any pixel.
    fn fusible(&self) -> Option<Fused> {
        let single = T::singles(&[]).is_some() && self.spec.channels() == 1 && !self.scheme.masked;
        match self.scheme.measure {
            _ if !single => None,
            Measure::Cc => Some(Fused::Cross),
            Measure::Zncc | Measure::Ncc => {
                // Rows of a transform lie side by side: only where they are whole vectors may one be written to its
                // end.
                let roomy = match &self.engine {
                    Engine::Fourier(_) => self.out_pitch.row.is_multiple_of(16),
                    _ => true,
                };
                let probable = self.scheme.promise.is_some_and(|promise| promise.deviations.is_some());
                let n = self.spec.template().len() as f64;
                let largest = f64::from(self.spec.work_type().row().max.unwrap_or(0));
                let exact = self.scheme.integers.is_none() || (n * largest).powi(2) < 2f64.powi(52);
                // Exact integers fit in tiles of f32, but their scores not in results of f64.
                let single = self.spec.out_type() == flcc_core::dtype::DType::F32;
                if roomy && probable && exact && single {
                    Vectors::new(&self.isas).map(Fused::Normalised)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// Takes templates in two parts (`score/split.rs`), `always` or in tiles that leave much in doubt otherwise, where
    /// that helps: promised scores of floats in f32.
    pub fn in_parts(mut self, always: bool) -> TileContext<T> {
        self.always_in_parts = always;
        let engine = matches!(
            self.engine,
            Engine::Direct(_) | Engine::Fourier(_) | Engine::Planar(_) | Engine::Halved(_) | Engine::Hybrid(_)
        );
        let fused = matches!(self.fused, Some(Fused::Normalised(_))) && self.scheme.integers.is_none();
        if engine && fused && self.scheme.measure == Measure::Zncc && self.spec.accuracy() == Accuracy::Promised {
            self.coarse = Coarse::new(self.spec.template().padded());
        }
        self
    }

    /// Whether nothing but the cross term is taken of the samples, and that of bytes.
    fn only_bytes(&self) -> bool {
        self.byte_pitch.is_some() && matches!(self.fused, Some(Fused::Cross))
    }

    /// Whether the cross term is handed on as the bits of `i32`: integers that `f32` need not hold, for what takes them
    /// exactly.
    fn integer_bits(&self) -> bool {
        self.byte_pitch.is_some()
            && matches!(self.fused, Some(Fused::Normalised(_)))
            && self.scheme.measure == Measure::Zncc
    }

    /// Bytes that an engine for bytes needs beside the samples.
    fn byte_room(&self) -> usize {
        if let Engine::Bytes(bytes) = &self.engine { bytes.room(self.capacity) } else { 0 }
    }

    /// Elements of a channel's samples.
    fn input_len(&self) -> usize {
        if self.only_bytes() { 0 } else { self.in_pitch.elements() }
    }

    /// Outputs that may overflow.
    fn over_len(&self) -> usize {
        if self.needs_marks() && matches!(self.fused, Some(Fused::Cross)) { self.out_pitch.elements() } else { 0 }
    }

    /// Parts of a tile, at most.
    fn most_parts(&self) -> usize {
        (0..3).map(|axis| self.capacity[axis].div_ceil(self.parts[axis].max(1))).product()
    }

    fn needs(&self) -> flcc_core::sums::Needs {
        self.scheme.measure.row().needs
    }

    fn window_scratch(&self) -> usize {
        let (outputs, template) = (self.capacity, self.spec.template().padded());
        let shape = [0, 1, 2].map(|axis| outputs[axis] + template[axis] - 1);
        window_sums::scratch_len(
            &window_sums::Layout { shape, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane },
            template,
        )
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
        let (input, output) = (self.input_len(), self.out_pitch.elements());
        let needs = self.needs();
        let sum_len = |needed: bool| if needed && self.fused.is_none() { input } else { 0 };
        let flat = if self.degenerates() && self.scheme.integers.is_none() { input } else { 0 };
        let masked_sums = if self.scheme.masked && needs.square { input } else { 0 };
        let floats = self.needs_marks();
        let temporary = match &self.engine {
            Engine::Separable(separable) => separable.temporary_len(self.capacity),
            _ => 0,
        };
        TileScratch {
            inputs: (0..channels).map(|_| Aligned::new(zero, input)).collect(),
            bytes: Aligned::new(0, self.byte_pitch.map_or(0, |pitch| pitch.elements())),
            byte_room: Aligned::new(0, self.byte_room()),
            marks: vec![zero; if floats { input } else { 0 }],
            crosses: (0..channels).map(|_| Aligned::new(zero, output)).collect(),
            sums: (0..channels).map(|_| [vec![0.0; sum_len(needs.sum)], vec![0.0; sum_len(needs.square)]]).collect(),
            squares: vec![zero; masked_sums],
            window: vec![0.0; if needs.square { self.window_scratch() } else { 0 }],
            window_marks: vec![zero; if floats { self.window_scratch() } else { 0 }],
            low: vec![0.0; flat],
            high: vec![0.0; flat],
            flat: vec![false; if flat > 0 { output } else { 0 }],
            hit: vec![false; if floats { output } else { 0 }],
            over: vec![false; self.over_len()],
            rows: if self.fused.is_some() {
                Rows::default()
            } else {
                Rows::new(self.capacity[2], self.scheme.integers)
            },
            panel: vec![0.0; if self.degenerates() { channels * self.spec.template().len() } else { 0 }],
            fourier: match &self.engine {
                Engine::Fourier(fourier) => Some(fourier.scratch(channels)),
                _ => None,
            },
            planar: match &self.engine {
                Engine::Planar(planar) => Some(planar.scratch()),
                _ => None,
            },
            layered: match &self.engine {
                Engine::Layered(layered) => Some(layered.scratch()),
                _ => None,
            },
            halved: self.halved_scratch(),
            hybrid: match &self.engine {
                Engine::Hybrid(hybrid) => Some(hybrid.scratch()),
                _ => None,
            },
            fused: match self.fused {
                Some(Fused::Normalised(_)) => Some(FusedScratch::new(self.capacity, self.spec.template().padded())),
                _ => None,
            },
            coarse: self.coarse.map(|coarse| coarse.scratch(self.capacity[2])),
            temporary: [vec![zero; temporary], vec![zero; temporary]],
            again: Vec::with_capacity(self.most_parts()),
            factors: vec![1.0; channels],
            scale: 1.0,
        }
    }
}

impl<T: Real> TileScratch<T> {
    /// Parts of the tile run last that are to be run in a better way, over what was stored.
    pub fn again(&self) -> &[TileBox] {
        &self.again
    }
}

impl<T: Real> TileContext<T> {
    /// Bytes of one worker's buffers.
    pub fn scratch_bytes(&self) -> usize {
        let size = size_of::<T>();
        let channels = self.spec.channels();
        let (input, output) = (self.input_len(), self.out_pitch.elements());
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
            Engine::Bytes(_) => {
                Aligned::<i8>::bytes(self.byte_pitch.map_or(0, |pitch| pitch.elements()))
                    + Aligned::<i8>::bytes(self.byte_room())
            }
            Engine::Fourier(fourier) => fourier.scratch_bytes(channels),
            Engine::Planar(planar) => planar.scratch_bytes(),
            Engine::Layered(layered) => layered.scratch_bytes(),
            Engine::Halved(halved) => halved.scratch_bytes(),
            Engine::Hybrid(hybrid) => hybrid.scratch_bytes(),
            Engine::Separable(separable) => 2 * size * separable.temporary_len(self.capacity),
        };
        let window = self.window_scratch();
        let sums = if self.fused.is_none() { usize::from(needs.sum) + usize::from(needs.square) } else { 0 };
        let rows = match self.fused {
            None => row * self.capacity[2],
            Some(Fused::Cross) => 0,
            Some(Fused::Normalised(_)) => FusedScratch::bytes(self.capacity, self.spec.template().padded()),
        };
        size_of::<TileScratch<T>>()
            + size_of::<TileBox>() * self.most_parts()
            + channels * (Aligned::<T>::bytes(input) + Aligned::<T>::bytes(output))
            + channels * 8 * input * sums
            + if self.scheme.masked && needs.square { input * size } else { 0 }
            + if needs.square { window * 8 } else { 0 }
            + if floats { (input + window) * size + output } else { 0 }
            + self.over_len()
            + if flat { 16 * input + output } else { 0 }
            + if self.degenerates() { 8 * channels * self.spec.template().len() } else { 0 }
            + rows
            + engine
            + self.coarse.map_or(0, |coarse| coarse.scratch_bytes(self.capacity[2]))
    }

    /// Bytes of one bound template.
    pub fn template_bytes(&self) -> usize {
        let values = self.spec.channels() * self.spec.template().len();
        let prepared = match &self.engine {
            Engine::Fourier(fourier) => self.spec.channels() * fourier.spectrum_bytes(),
            Engine::Planar(planar) => self.spec.channels() * planar.spectrum_bytes(),
            Engine::Layered(layered) => layered.spectra_bytes(),
            Engine::Halved(halved) => halved.spectrum_bytes(),
            Engine::Hybrid(hybrid) => hybrid.spectrum_bytes(),
            Engine::Bytes(bytes) => bytes.taps_bytes(),
            _ => values * size_of::<T>(),
        };
        16 * values + prepared + self.coarse.map_or(0, |coarse| 8 * Coarse::COUNT + 4 * coarse.padded_len() + prepared)
    }

    /// Binds checked templates.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn bind(&self, checked: Vec<Checked>, weights: Weights) -> Result<BoundTemplates<T>, factor::FactorError> {
        let mask = match &weights.values {
            Some(values) if self.needs().square => Some(self.prepare(values, &weights)?),
            _ => None,
        };
        let taps = if self.needs().absolute_difference {
            weights
                .values
                .clone()
                .unwrap_or_else(|| vec![1.0; self.spec.template().len()])
                .into_iter()
                .map(T::of)
                .collect()
        } else {
            Vec::new()
        };
        let templates =
            checked.into_iter().map(|checked| self.bind_one(checked, &weights)).collect::<Result<_, _>>()?;
        Ok(BoundTemplates { weights, mask, taps, templates })
    }

    /// The largest separable rank among templates, if none is over `limit`.
    pub fn rank(&self, checked: &[Checked], weights: &Weights, limit: usize) -> Option<usize> {
        checked
            .iter()
            .flat_map(|template| &template.values)
            .map(|channel| {
                self.factors(&weighted(channel, weights), Some(limit)).ok().map(|factors| factors.terms.len())
            })
            .try_fold(0, |largest, rank| rank.map(|rank| largest.max(rank)))
    }

    fn bind_one(&self, checked: Checked, weights: &Weights) -> Result<BoundTemplate<T>, factor::FactorError> {
        let mut template = BoundTemplate { checked, prepared: Vec::new(), judged: Judged::default(), parts: None };
        self.make_ready(&mut template, weights, &mut None)?;
        if let Some(coarse) = &self.coarse {
            let split::Split { coarse: heights, fine } = coarse.split(&template.checked.values[0]);
            let prepared = self.prepare(&fine, weights)?;
            let judged = self.judged([Cow::Borrowed(&fine[..])].into_iter(), std::slice::from_ref(&prepared), weights);
            template.parts =
                Some(Parts { whole: coarse.padded(&template.checked.values[0]), heights, fine: prepared, judged });
        }
        Ok(template)
    }

    /// What another context has bound, for this one, which is direct or transforms and so decomposes nothing.
    pub fn bind_again<R: Real>(&self, bound: &BoundTemplates<R>) -> BoundTemplates<T> {
        let checked = bound.templates.iter().map(|template| template.checked.clone()).collect();
        self.bind(checked, bound.weights.clone()).expect("only separable contexts decompose templates")
    }

    /// Brings what is bound to the only template's new values, those in `checked`, in one part; direct kernels of one
    /// channel and halved transforms allocate nothing.
    ///
    /// # Errors
    /// A decomposition that does not converge.
    pub fn rebind(
        &self,
        bound: &mut BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
    ) -> Result<(), factor::FactorError> {
        let BoundTemplates { weights, templates, .. } = bound;
        templates.iter_mut().try_for_each(|template| self.make_ready(template, weights, &mut scratch.halved))
    }

    fn halved_scratch(&self) -> Option<HalvedScratch> {
        match &self.engine {
            Engine::Halved(halved) => Some(halved.scratch()),
            _ => None,
        }
    }

    /// What follows from a template's checked values.
    fn make_ready(
        &self,
        template: &mut BoundTemplate<T>,
        weights: &Weights,
        scratch: &mut Option<HalvedScratch>,
    ) -> Result<(), factor::FactorError> {
        let BoundTemplate { checked, prepared, judged, parts } = template;
        *parts = None;
        let source = if self.scheme.integers.is_some() { &checked.raw } else { &checked.values };
        let differences = self.needs().absolute_difference;
        let channels = source.iter().map(|channel| taken(channel, weights, differences));
        match (&self.engine, scratch, &mut prepared[..]) {
            (Engine::Direct(direct), _, [Prepared::Samples(samples)]) => {
                direct.prepare_into(&taken(&source[0], weights, differences), weights.values.as_deref(), samples);
            }
            (Engine::Halved(halved), Some(scratch), [Prepared::Planes(spectrum)]) => {
                halved.prepare(&taken(&source[0], weights, differences), scratch, spectrum)
            }
            (..) => {
                *prepared = channels.clone().map(|values| self.prepare(&values, weights)).collect::<Result<_, _>>()?
            }
        }
        *judged = self.judged(channels, prepared, weights);
        Ok(())
    }

    /// What cross terms with a template's channels leave in doubt, by what was prepared of them.
    fn judged<'a>(
        &self,
        channels: impl Iterator<Item = Cow<'a, [f64]>> + Clone,
        prepared: &[Prepared<T>],
        weights: &Weights,
    ) -> Judged {
        let lines = prepared.iter().map(|prepared| if let Prepared::Lines(lines) = prepared { lines.len() } else { 0 });
        let terms = lines.sum::<usize>() as f64;
        let model = Model {
            measure: self.scheme.measure,
            promise: self.scheme.promise,
            roundoff: T::ROUNDOFF,
            taps: (self.spec.template().len() * self.spec.channels()) as f64,
            rounding: match &self.engine {
                Engine::Direct(direct) => direct.rounding(),
                // Exact integers: no panel's energy is in doubt.
                Engine::Bytes(_) => Rounding::Direct { fused: true },
                Engine::Separable(separable) => {
                    let lines = self.spec.template().padded().iter().map(|&k| k as f64).sum();
                    Rounding::Separable { terms, lines, chain: separable.chain() as f64 }
                }
                Engine::Fourier(fourier) => Rounding::Fourier { len: fourier.samples() as f64, by: Library::RUSTFFT },
                Engine::Planar(planar) => {
                    Rounding::Planar { len: (planar.layout().length * planar.layout().length) as f64 }
                }
                Engine::Layered(layered) => {
                    let volume::Layout { length, template, .. } = layered.layout();
                    Rounding::Layered { len: (length * length) as f64, layers: template[0] as f64 }
                }
                Engine::Halved(halved) => {
                    Rounding::Halved { len: (halved.layout().length * halved.layout().length) as f64 }
                }
                Engine::Hybrid(hybrid) => {
                    hybrid.rounding(self.scheme.promise.and_then(|_| channels.clone().next()).as_deref())
                }
            },
            weights: weights.values.as_deref(),
        };
        let figures = match &self.engine {
            Engine::Direct(direct) => direct.figures(channels),
            Engine::Fourier(_) | Engine::Planar(_) | Engine::Layered(_) => {
                let wave = |prepared: &Prepared<T>| match (&self.engine, prepared) {
                    (Engine::Fourier(fourier), Prepared::Spectrum(spectrum)) => fourier.wave(spectrum),
                    (Engine::Planar(planar), Prepared::Planes(spectrum)) => planar.wave(spectrum),
                    (Engine::Layered(layered), Prepared::Layers(spectra)) => layered.wave(spectra),
                    _ => 0.0,
                };
                let wave = prepared.iter().map(|prepared| wave(prepared).powi(2)).sum::<f64>().sqrt();
                Figures { wave, ..Figures::of(channels) }
            }
            Engine::Halved(halved) => {
                let off = channels.clone().zip(prepared).map(|(values, prepared)| match prepared {
                    Prepared::Planes(spectrum) => {
                        halved.off(spectrum, isa::vectorized(&self.isas, || lanes::sum(&values, |value| value)))
                    }
                    _ => 0.0,
                });
                Figures { off: off.sum(), ..Figures::of(channels) }
            }
            _ => Figures::of(channels),
        };
        let floor = model.floor(&figures, T::SMALLEST, matches!(self.fused, Some(Fused::Normalised(_))));
        Judged {
            doubt: model.doubt(&figures).above(floor),
            largest: figures.of_sample(&model.rounding, model.roundoff),
        }
    }

    fn prepare(&self, values: &[f64], weights: &Weights) -> Result<Prepared<T>, factor::FactorError> {
        Ok(match &self.engine {
            Engine::Direct(direct) => Prepared::Samples(direct.prepare(values, weights.values.as_deref())),
            Engine::Fourier(fourier) => Prepared::Spectrum(fourier.prepare(values)),
            Engine::Planar(planar) => Prepared::Planes(planar.prepare(values)),
            Engine::Layered(layered) => Prepared::Layers(layered.prepare(values)),
            Engine::Halved(halved) => {
                let mut spectrum = halved.room();
                halved.prepare(values, &mut halved.scratch(), &mut spectrum);
                Prepared::Planes(spectrum)
            }
            Engine::Hybrid(hybrid) => Prepared::Planes(hybrid.prepare(values)),
            Engine::Separable(_) => Prepared::Lines(Lines::new(&self.factors(values, None)?)),
            Engine::Bytes(bytes) => Prepared::Taps(bytes.prepare(values)),
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

    /// Scores one tile of one image for every template; gives up on parts of it ([`TileScratch::again`]), or with
    /// `None` on all of it, when more panels than `self.patience` are to be recomputed one by one.
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
        scratch.again.clear();
        // Exact sums and sums of differences are of the samples as they are.
        let forced = (self.scheme.integers.is_some() || self.scheme.measure == Measure::Sad).then_some(1.0);
        let mut marked = self.gather(image, samples, tile, forced, &bound.weights, scratch);
        // Samples of a correlation are scaled down for nothing but outputs that overflow without: others would lose
        // bits of their samples, which they keep where a part of the tile is read in place (`in_place.rs`).
        let huge = matches!(self.fused, Some(Fused::Cross)) && scratch.scale < 1.0;
        if huge {
            marked = self.gather(image, samples, tile, Some(1.0), &bound.weights, scratch);
        }
        if self.fused.is_none() {
            self.window_sums(samples.len, bound, tile.shape, scratch);
        }
        self.load(tile, scratch);
        let mut statistics = Statistics { tiles: 1, ..Statistics::default() };
        for (number, template) in bound.templates.iter().enumerate() {
            let (judged, heights) = if let Some(parts) = self.taken_in_parts(template, tile, scratch) {
                self.cross(&parts.fine, &bound.taps, 0, tile.shape, scratch, Source::Loaded);
                (parts.judged, Some(&parts.heights[..]))
            } else {
                for channel in 0..self.spec.channels() {
                    self.cross(&template.prepared[channel], &bound.taps, channel, tile.shape, scratch, Source::Loaded);
                }
                (template.judged, None)
            };
            let last = Finishing { image, tile, samples, marked, bound, number, judged, heights };
            let repaired = match self.fused {
                Some(Fused::Cross) if huge && self.overflows(&last, scratch) => {
                    self.finish_cross(&last, false, scratch, store);
                    self.gather(image, samples, tile, None, &bound.weights, scratch);
                    self.load(tile, scratch);
                    self.cross(&template.prepared[0], &bound.taps, 0, tile.shape, scratch, Source::Loaded);
                    self.finish_cross(&last, true, scratch, store);
                    if number + 1 < bound.templates.len() {
                        self.gather(image, samples, tile, Some(1.0), &bound.weights, scratch);
                        self.load(tile, scratch);
                    }
                    Some(0)
                }
                Some(Fused::Cross) => self.finish_cross(&last, false, scratch, store),
                Some(Fused::Normalised(vectors)) => self.finish_fused(&last, &vectors, scratch, store),
                None => self.finish(&last, scratch, store),
            };
            statistics.repaired += repaired?;
            statistics.panels += tile.keep.iter().map(|(from, to)| (to - from) as u64).product::<u64>();
        }
        Some(statistics)
    }

    /// The two parts of a template, if its cross term with a tile is to be taken of them: if it would leave much in
    /// doubt otherwise.
    fn taken_in_parts<'a>(
        &self,
        template: &'a BoundTemplate<T>,
        tile: &TileBox,
        scratch: &TileScratch<T>,
    ) -> Option<&'a Parts<T>> {
        let (coarse, parts, Fused::Normalised(vectors)) =
            (self.coarse.as_ref()?, template.parts.as_ref()?, self.fused?)
        else {
            return None;
        };
        if self.always_in_parts {
            return Some(parts);
        }
        let (input, outputs) = (T::singles(&scratch.inputs[0])?, [tile.shape[1], tile.shape[2]]);
        let n = self.spec.template().len() as f64;
        // A pair's norm is that of both of its tiles, and its results are complex.
        let (samples, results) = match &self.engine {
            Engine::Planar(planar) => (2 * planar.layout().length.pow(2), 2.0),
            Engine::Halved(halved) => (halved.layout().length.pow(2), 1.0),
            Engine::Hybrid(hybrid) => (2 * hybrid.layout().length, 2.0),
            Engine::Fourier(fourier) => (fourier.samples(), 1.0),
            _ => (0, 1.0),
        };
        let in_row = self.in_pitch.row;
        let share_in_doubt = |most: usize, reserve: f64| {
            let survey = vectors.run(split::Take { coarse, template: &parts.whole, input, in_row, outputs, most });
            let (result, peak) = survey.result(n);
            // Of transforms of columns it is the strongest one that counts.
            let square =
                if matches!(self.engine, Engine::Hybrid(_)) { survey.largest_square(n) } else { survey.square(n) };
            let energy = square * samples as f64;
            let limits = template.judged.doubt.at_peak(
                energy,
                BETWEEN * (results * result).sqrt(),
                results.sqrt() * LIKENESS * peak,
            );
            survey.share_in_doubt(n, (reserve * limits.0, reserve * limits.1))
        };
        // A few panels first: where none of them is anywhere near, that is all.
        (share_in_doubt(split::GRID / 2, NEAR) > 0.0 && share_in_doubt(split::GRID, 1.0) > MUCH_IN_DOUBT)
            .then_some(parts)
    }

    /// Computes a tile from the image's rows to rows of the results, where nothing else has to be done; `rows` hands
    /// out those of a template's result from a place of it in so many planes, if they can be written as they are. With
    /// `None` the tile is to be run; rows may have been written.
    pub fn run_strip<'a>(
        &self,
        image: &AnyView<'_>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<Statistics> {
        let plain = |template: &BoundTemplate<T>| !template.checked.nonfinite && template.checked.scale == 1.0;
        if !matches!(self.fused, Some(Fused::Cross)) || !bound.templates.iter().all(plain) {
            return None;
        }
        let panels =
            tile.keep.iter().map(|(from, to)| (to - from) as u64).product::<u64>() * bound.templates.len() as u64;
        let statistics = Statistics { panels, repaired: 0, tiles: 1 };
        if let (Engine::Bytes(engine), AnyView::U8(view)) = (&self.engine, image) {
            return self
                .byte_strip(engine, view, tile, bound, [&mut scratch.bytes, &mut scratch.byte_room], rows)
                .map(|()| statistics);
        }
        let AnyView::F32(view) = image else { return None };
        match &self.engine {
            Engine::Planar(planar) if !planar.layout().line => {
                self.pair_strip(planar, view, tile, bound, scratch, rows)?
            }
            Engine::Hybrid(hybrid) => self.hybrid_strip(hybrid, view, tile, bound, scratch, rows)?,
            Engine::Direct(direct) => {
                let single: &Direct<f32> = (direct as &dyn Any).downcast_ref()?;
                self.direct_strip(single, view, tile, bound, scratch, rows)?
            }
            _ => return None,
        }
        Some(statistics)
    }

    /// That by a kernel of bytes, of which the samples are gathered first, and only those of what is asked for.
    fn byte_strip<'a>(
        &self,
        engine: &Bytes,
        view: &View<'_, u8>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        [samples, room]: [&mut [i8]; 2],
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<()> {
        let (pitch, whole, template) = (self.byte_pitch?, self.tiling.samples(tile), self.spec.template().padded());
        let outputs = tile.keep.map(|(from, to)| to - from);
        let part = Samples {
            begin: [0, 1, 2].map(|axis| whole.begin[axis] + tile.keep[axis].0 as isize),
            len: [0, 1, 2].map(|axis| outputs[axis] + template[axis] - 1),
        };
        let mut gathered = false;
        for (number, template) in bound.templates.iter().enumerate() {
            let Prepared::Taps(taps) = &template.prepared[0] else { return None };
            for z in 0..outputs[0] {
                let results::Rows { out, pitch: out_row, .. } =
                    rows(number, [tile.place[0] + z, tile.place[1], tile.place[2]], 1)?;
                if !gathered {
                    gather::bytes(view, self.spec.boundary(), part, samples, pitch, &self.isas);
                    gathered = true;
                }
                let samples = &samples[z * pitch.plane..];
                let outputs = [1, outputs[1], outputs[2]];
                engine.run(
                    taps,
                    bytes::Ground { samples, in_pitch: pitch, room, out, out_row, out_plane: 0, outputs, bits: false },
                );
            }
        }
        Some(())
    }

    /// That by a direct kernel, where all samples lie in the image, or, of one plane under a template of one, most.
    fn direct_strip<'a>(
        &self,
        direct: &Direct<f32>,
        view: &View<'_, f32>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<()> {
        let vectors = Vectors::new(&self.isas)?;
        let [block_height, block_width] = direct.block();
        let (samples, lengths) = (self.tiling.samples(tile), view.shape().padded());
        let [kd, kh, kw] = self.spec.template().padded();
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        // The outputs asked for whose samples lie in the image.
        let inner = |axis: usize, (from, to): (usize, usize), side: usize| {
            let begin = samples.begin[axis];
            let last = (lengths[axis] + 1).saturating_sub(side) as isize - begin;
            (from.max(usize::try_from(-begin).unwrap_or(0)), to.min(usize::try_from(last).unwrap_or(0)))
        };
        let ((top, bottom), (left, right)) = (inner(1, (y0, y1), kh), inner(2, (x0, x1), kw));
        let [height, width] = [bottom.saturating_sub(top), right.saturating_sub(left)];
        let whole = [height, width] == [y1 - y0, x1 - x0];
        if height < block_height
            || width < block_width
            || !whole && (kd > 1 || z1 > 1 || 2 * height * width < (y1 - y0) * (x1 - x0))
        {
            return None;
        }
        let inside = Samples {
            begin: [samples.begin[0], samples.begin[1] + top as isize, samples.begin[2] + left as isize],
            len: [samples.len[0], height + kh - 1, width + kw - 1],
        };
        let strip = Strip::new(view, inside)?;
        let mut seen = in_place::Seen::default();
        for (number, template) in bound.templates.iter().enumerate() {
            let Prepared::Samples(taps) = &template.prepared[0] else { return None };
            let sum = taps.single()?;
            let all_planes = if whole { rows(number, tile.place, z1 - z0) } else { None };
            if let Some(out) = all_planes {
                seen.add(strip.correlate(direct, sum, [z0, 0, 0], [z1 - z0, height, width], out).into(), sum.taps);
                continue;
            }
            for z in z0..z1 {
                let results::Rows { out, pitch, plane } =
                    rows(number, [tile.place[0] + z - z0, tile.place[1], tile.place[2]], 1)?;
                let from = |y: usize, x: usize| (y - y0) * pitch + x - x0;
                let within = results::Rows { out: &mut out[from(top, left)..], pitch, plane };
                seen.add(strip.correlate(direct, sum, [z, 0, 0], [1, height, width], within).into(), sum.taps);
                let edges = [
                    [[y0, x0], [top, x1]],
                    [[bottom, x0], [y1, x1]],
                    [[top, x0], [bottom, left]],
                    [[top, right], [bottom, x1]],
                ];
                for [begin, end] in edges.into_iter().filter(|[begin, end]| begin[0] < end[0] && begin[1] < end[1]) {
                    let (boundary, template, isas) = (self.spec.boundary(), [kh, kw], self.isas);
                    let edge = in_place::Edge { direct, image: view, boundary, samples, template, isas };
                    let TileScratch { inputs, marks, crosses, .. } = &mut *scratch;
                    let room =
                        [T::singles_mut(&mut inputs[0])?, T::singles_mut(marks)?, T::singles_mut(&mut crosses[0])?];
                    if !edge.correlate(sum, [begin, end], room, &mut out[from(begin[0], begin[1])..], pitch) {
                        return None;
                    }
                }
            }
        }
        (seen.ordinary() || strip.ordinary(&vectors)).then_some(())
    }

    /// That by transforms of pairs, of a whole tile.
    fn pair_strip<'a>(
        &self,
        planar: &Planar,
        view: &View<'_, f32>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<()> {
        let outputs = [tile.shape[1], tile.shape[2]];
        if tile.keep != tile.shape.map(|len| (0, len)) {
            return None;
        }
        let samples = self.reached(self.tiling.samples(tile), tile, view.shape().padded());
        let strip =
            PairStrip { planar, image: view, samples, boundary: self.spec.boundary(), outputs, isas: self.isas };
        let (work, buffer, marks) =
            (scratch.planar.as_mut()?, T::singles_mut(&mut scratch.inputs[0])?, T::singles_mut(&mut scratch.marks)?);
        for (number, template) in bound.templates.iter().enumerate() {
            let Prepared::Planes(spectrum) = &template.prepared[0] else { return None };
            let rows = rows(number, tile.place, 1)?;
            if !strip.correlate(spectrum, work, [&mut *buffer, &mut *marks], rows) {
                return None;
            }
        }
        Some(())
    }

    /// That by transforms of columns, of a whole tile whose samples lie in the image.
    fn hybrid_strip<'a>(
        &self,
        hybrid: &Hybrid,
        view: &View<'_, f32>,
        tile: &TileBox,
        bound: &BoundTemplates<T>,
        scratch: &mut TileScratch<T>,
        rows: &mut dyn FnMut(usize, [usize; 3], usize) -> Option<results::Rows<'a>>,
    ) -> Option<()> {
        let (outputs, samples) = ([tile.shape[1], tile.shape[2]], self.tiling.samples(tile));
        if tile.keep != tile.shape.map(|len| (0, len)) {
            return None;
        }
        let (strip, work) = (Strip::new(view, samples)?, scratch.hybrid.as_mut()?);
        for (number, template) in bound.templates.iter().enumerate() {
            let Prepared::Planes(spectrum) = &template.prepared[0] else { return None };
            let rows = rows(number, tile.place, 1)?;
            let ground = Ground { input: strip.samples(), in_row: strip.row(), out: rows.out, out_row: rows.pitch };
            hybrid.run(ground, spectrum, work, outputs, true);
            // As of a direct kernel's results: these are complex.
            let mut seen = in_place::Seen::default();
            seen.add((0.5 * work.result).sqrt(), &template.checked.values[0]);
            if !(seen.ordinary() || strip.ordinary(hybrid.vectors())) {
                return None;
            }
        }
        Some(())
    }

    /// The samples under a tile, and those after them that its transforms reach, on an axis where the image has them
    /// all: a tile whose transforms read the image itself reads these, and every other way to its cross term is to give
    /// the same bits.
    fn reached(&self, samples: Samples, tile: &TileBox, lengths: [usize; 3]) -> Samples {
        let planar = match (&self.engine, self.fused) {
            (Engine::Planar(planar), Some(Fused::Cross)) if !planar.layout().line => planar,
            _ => return samples,
        };
        let reach = planar.layout().reach([tile.shape[1], tile.shape[2]]);
        let mut reached = samples;
        for (axis, reach) in [(1, reach[0]), (2, reach[1])] {
            if samples.begin[axis] + reach as isize <= lengths[axis] as isize {
                reached.len[axis] = reach;
            }
        }
        reached
    }

    /// Gathers every channel; returns whether some sample was marked.
    fn gather(
        &self,
        image: &AnyView<'_>,
        samples: Samples,
        tile: &TileBox,
        forced: Option<f64>,
        weights: &Weights,
        scratch: &mut TileScratch<T>,
    ) -> bool {
        let boundary = self.spec.boundary();
        let reached = self.reached(samples, tile, image.shape().padded());
        if let (Some(pitch), AnyView::U8(view)) = (self.byte_pitch, image) {
            gather::bytes(view, boundary, samples, &mut scratch.bytes, pitch, &self.isas);
            if self.only_bytes() {
                return false;
            }
        }
        let mut any = false;
        for channel in 0..self.spec.channels() {
            let view = image.channel(channel);
            let free = self.needs().centred && self.scheme.integers.is_none();
            let offset = if free { gather::offset(&view, boundary, samples) } else { 0.0 };
            let target = Target {
                out: &mut scratch.inputs[channel],
                marks: &mut scratch.marks,
                pitch: self.in_pitch,
                isas: self.isas,
            };
            let done = gather::gather(&view, boundary, reached, offset, forced, target);
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
            // Under a mask only its own samples count: each marked sample hits the panels whose weight there is
            // positive.
            for (k, _) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                let [dz, dy, dx] = [k / (kh * kw), k / kw % kh, k % kw];
                for z in 0..outputs[0] {
                    for y in 0..outputs[1] {
                        let from = (z + dz) * self.in_pitch.plane + (y + dy) * self.in_pitch.row + dx;
                        let to = z * self.out_pitch.plane + y * self.out_pitch.row;
                        let marks = &scratch.marks[from..from + outputs[2]];
                        scratch.hit[to..to + outputs[2]]
                            .iter_mut()
                            .zip(marks)
                            .for_each(|(hit, mark)| *hit |= *mark != zero);
                    }
                }
            }
            return;
        }
        let tile =
            window_sums::Layout { shape: samples, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
        let (marks, work) = (&mut scratch.marks, &mut scratch.window_marks);
        window_sums::maximum(&self.isas, marks, work, &tile, [kd, kh, kw]);
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
    fn window_sums(
        &self,
        samples: [usize; 3],
        bound: &BoundTemplates<T>,
        outputs: [usize; 3],
        scratch: &mut TileScratch<T>,
    ) {
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
            let tile =
                window_sums::Layout { shape: samples, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
            let window = self.spec.template().padded();
            let (input, window_scratch, [i, ii]) =
                (&scratch.inputs[channel], &mut scratch.window, &mut scratch.sums[channel]);
            isa::vectorized(&self.isas, || {
                if needs.sum {
                    copy(input, i, |value| value.to_f64());
                }
                copy(input, ii, |value| value.to_f64() * value.to_f64());
            });
            if needs.sum {
                window_sums::sum(&self.isas, i, window_scratch, &tile, window);
            }
            window_sums::sum(&self.isas, ii, window_scratch, &tile, window);
        }
    }

    /// The cross term of one channel with a prepared template, into `crosses[channel]`.
    fn cross(
        &self,
        prepared: &Prepared<T>,
        taps: &[T],
        channel: usize,
        outputs: [usize; 3],
        scratch: &mut TileScratch<T>,
        source: Source,
    ) {
        let out = &mut scratch.crosses[channel];
        let input: &[T] = if source == Source::Squares { &scratch.squares } else { &scratch.inputs[channel] };
        match (&self.engine, prepared) {
            (Engine::Direct(direct), Prepared::Samples(template)) => {
                direct.run(
                    template.sum(),
                    taps,
                    Slab { input, in_pitch: self.in_pitch, out, out_pitch: self.out_pitch, outputs },
                );
            }
            (Engine::Bytes(engine), Prepared::Taps(taps)) => {
                let (Some(in_pitch), Some(out)) = (self.byte_pitch, T::singles_mut(out)) else {
                    unreachable!("sums of bytes are f32")
                };
                // Whole vectors, as those who go on with them take them.
                let outputs = [outputs[0], outputs[1], outputs[2].next_multiple_of(16)];
                let Pitch { row: out_row, plane: out_plane, .. } = self.out_pitch;
                let (samples, room, bits) = (&scratch.bytes, &mut scratch.byte_room, self.integer_bits());
                engine.run(taps, bytes::Ground { samples, in_pitch, room, out, out_row, out_plane, outputs, bits });
            }
            (Engine::Separable(separable), Prepared::Lines(lines)) => {
                let slab = Slab { input, in_pitch: self.in_pitch, out, out_pitch: self.out_pitch, outputs };
                separable.run(lines, &mut scratch.temporary, slab);
            }
            (Engine::Planar(planar), Prepared::Planes(template)) => {
                let work = scratch.planar.as_mut().expect("made with the engine");
                let (Some(input), Some(out)) = (T::singles(input), T::singles_mut(out)) else {
                    unreachable!("pairs of tiles are of f32")
                };
                let ground = Ground { input, in_row: self.in_pitch.row, out, out_row: self.out_pitch.row };
                planar.run(ground, template, work, [outputs[1], outputs[2]]);
            }
            (Engine::Layered(layered), Prepared::Layers(template)) => {
                let work = scratch.layered.as_mut().expect("made with the engine");
                let (Some(input), Some(out)) = (T::singles(input), T::singles_mut(out)) else {
                    unreachable!("pairs of tiles are of f32")
                };
                let ground = volume::Ground { input, in_pitch: self.in_pitch, out, out_pitch: self.out_pitch };
                layered.run(ground, template, work, outputs);
            }
            (Engine::Halved(halved), Prepared::Planes(template)) => {
                let work = scratch.halved.as_mut().expect("made with the engine");
                let (Some(input), Some(out)) = (T::singles(input), T::singles_mut(out)) else {
                    unreachable!("tiles of f32")
                };
                let ground = Ground { input, in_row: self.in_pitch.row, out, out_row: self.out_pitch.row };
                halved.run(ground, template, work, [outputs[1], outputs[2]]);
            }
            (Engine::Hybrid(hybrid), Prepared::Planes(template)) => {
                let work = scratch.hybrid.as_mut().expect("made with the engine");
                let (Some(input), Some(out)) = (T::singles(input), T::singles_mut(out)) else {
                    unreachable!("tiles of f32")
                };
                let ground = Ground { input, in_row: self.in_pitch.row, out, out_row: self.out_pitch.row };
                hybrid.run(ground, template, work, [outputs[1], outputs[2]], false);
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

    /// Transforms the samples that were gathered, where all templates share that.
    fn load(&self, tile: &TileBox, scratch: &mut TileScratch<T>) {
        if let (Engine::Fourier(fourier), Some(work)) = (&self.engine, &mut scratch.fourier) {
            for (channel, input) in scratch.inputs.iter().enumerate() {
                fourier.load(input, tile.shape, channel, work);
            }
        }
    }

    /// Notes which outputs that are asked for overflowed, in `scratch.over`; returns whether some did.
    fn overflows(&self, last: &Finishing<'_, T>, scratch: &mut TileScratch<T>) -> bool {
        let TileScratch { crosses, over, .. } = scratch;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        let mut some = false;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * self.out_pitch.plane + y * self.out_pitch.row;
            for (over, value) in over[at + x0..at + x1].iter_mut().zip(&crosses[0][at + x0..at + x1]) {
                *over = !value.to_f64().is_finite();
                some |= *over;
            }
        }
        some
    }

    /// Stores the rows of the cross term that are asked for as they are, in the units of the image; of these only
    /// outputs that are in `scratch.over`, if that is said.
    fn finish_cross(
        &self,
        last: &Finishing<'_, T>,
        only_over: bool,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<u64> {
        let TileScratch { crosses, hit, over, scale, .. } = scratch;
        let checked = &last.template().checked;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * self.out_pitch.plane + y * self.out_pitch.row;
            let row = &mut T::singles_mut(&mut crosses[0])?[at + x0..at + x1];
            if *scale != 1.0 || checked.scale != 1.0 {
                let [first, second] = joined([1.0 / *scale, 1.0 / checked.scale]);
                row.iter_mut().for_each(|value| *value = (f64::from(*value) * first * second) as f32);
            }
            if checked.nonfinite {
                row.fill(f32::NAN);
            }
            if last.marked {
                row.iter_mut()
                    .zip(&hit[at + x0..at + x1])
                    .filter(|(_, hit)| **hit)
                    .for_each(|(value, _)| *value = f32::NAN);
            }
            let [place_z, place_y, place_x] = last.place(z, y);
            if !only_over {
                (store.write)(last.number, [place_z, place_y, place_x], Scores::Single(row));
                continue;
            }
            let over = &over[at + x0..at + x1];
            for x in (0..row.len()).filter(|x| over[*x]) {
                (store.write)(last.number, [place_z, place_y, place_x + x], Scores::Single(&row[x..=x]));
            }
        }
        Some(0)
    }

    /// Scores the whole tile in vectors, settles what is in doubt, stores what is asked for; returns how many panels
    /// were repaired.
    fn finish_fused(
        &self,
        last: &Finishing<'_, T>,
        vectors: &Vectors,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<u64> {
        let degenerate = with_formula!(self.scheme.measure, F => <F as flcc_core::measure::Formula>::DEGENERATE) as f32;
        let Pitch { row, plane, .. } = self.out_pitch;
        let mut repaired = 0;
        if self.score_tile(last, vectors, scratch, store.lines)? {
            if self.scheme.integers.is_some() {
                // Their energy is exact: it is 0 where all samples are equal, and nowhere else.
                let [depth, height, width] = last.tile.shape;
                for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
                    let scores = &mut T::singles_mut(&mut scratch.crosses[0])?[z * plane + y * row..][..width];
                    scores.iter_mut().filter(|score| score.is_nan()).for_each(|score| *score = degenerate);
                }
            } else {
                repaired = self.settle_fused(last, degenerate, scratch)?;
            }
        }
        let TileScratch { crosses, hit, .. } = scratch;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * plane + y * row;
            let scores = &mut T::singles_mut(&mut crosses[0])?[at + x0..at + x1];
            if last.marked {
                scores
                    .iter_mut()
                    .zip(&hit[at + x0..at + x1])
                    .filter(|(_, hit)| **hit)
                    .for_each(|(score, _)| *score = f32::NAN);
            }
            (store.write)(last.number, last.place(z, y), Scores::Single(scores));
        }
        Some(repaired)
    }

    /// Makes scores of the cross term of the whole tile; returns whether some are NaN, which those in doubt are.
    fn score_tile(
        &self,
        last: &Finishing<'_, T>,
        vectors: &Vectors,
        scratch: &mut TileScratch<T>,
        lines: &dyn Fn(usize, [usize; 3]) -> Option<Coming>,
    ) -> Option<bool> {
        let (template, Judged { doubt, largest: largest_tap }) = (last.template(), last.judged);
        let (window, shape) = (self.spec.template().padded(), last.tile.shape);
        let outputs = [shape[1], shape[2]];
        let TileScratch { inputs, crosses, fused, fourier, planar, layered, halved, hybrid, coarse: boxes, .. } =
            scratch;
        let (input, cross, work) = (T::singles(&inputs[0])?, T::singles_mut(&mut crosses[0])?, fused.as_mut()?);
        let checked = &template.checked;
        let exact = self.scheme.integers.map(|_| vector::Exact {
            template_sum: checked.exact_sums.first().map_or(0.0, |&sum| sum as f64),
            gain: 1.0 / (checked.exact_energy as f64).sqrt(),
            bits: self.integer_bits(),
        });
        // The figures of pairs by their plane, row and column.
        let (figures, [pair_height, pair_width], pairs) = match (&self.engine, planar, &*layered) {
            (Engine::Planar(engine), Some(work), _) => {
                let layout = engine.layout();
                (&work.figures[..], [layout.outputs[0], 2 * layout.outputs[1]], layout.pairs[1])
            }
            (Engine::Layered(_), _, Some(work)) => (&work.figures[..], outputs, 1),
            (Engine::Halved(_), ..) => {
                (halved.as_ref().map_or(&[][..], |work| std::slice::from_ref(&work.figure)), outputs, 1)
            }
            (Engine::Hybrid(engine), ..) => {
                let chunks = columns::Layout::half(outputs[1]) / columns::CHUNK;
                let figures = hybrid.as_ref().map_or(&[][..], |work| &work.figures[..]);
                (figures, [engine.layout().band(), outputs[1]], chunks)
            }
            _ => (&[][..], outputs, 1),
        };
        let hybrid = matches!(self.engine, Engine::Hybrid(_));
        let (rows, columns) =
            (outputs[0].div_ceil(pair_height), if hybrid { pairs } else { outputs[1].div_ceil(pair_width) });
        let figure = |z: usize, row: usize, column: usize| {
            let plane = if let Engine::Layered(engine) = &self.engine { engine.layout().plane_of(z) } else { 0 };
            figures.get(plane + row * pairs + column).copied().unwrap_or_default()
        };
        let steps = Steps::new(shape, window);
        let running = self.scheme.promise.map_or(0.0, |promise| error_model::of_running_sums(&promise, &steps));
        let (centred, share) = (self.scheme.measure == Measure::Zncc, doubt.at(0.0, 0.0).1);
        let formula = vector::Formula { window, centred, exact, share, running };
        work.largest_row = 0.0;
        // What the limits of a tile that was not computed in pairs depend on.
        let whole = match self.engine {
            Engine::Fourier(_) => {
                let energy = vectors.run(vector::Energy(&input[..last.samples.len[0] * self.in_pitch.plane]));
                let (result, peak) = self.results(shape, cross);
                let result = fourier.as_ref().map_or(result, |work| result.max(work.results[0]));
                Figure { energy, result, peak, column: largest(input).powi(2) }
            }
            _ => Figure::default(),
        };
        let lanes = vectors.lanes();
        let mut doubtful = false;
        for z in 0..shape[0] {
            let ahead = if last.whole() { lines(last.number, last.place(z, 0)) } else { None };
            if window[0] > 1 {
                let samples = [last.samples.len[1], last.samples.len[2]];
                let pitches = [self.in_pitch.row, self.in_pitch.plane];
                vectors.run(vector::Stack { depth: window[0], plane: z, input, pitches, samples, scratch: &mut *work });
            }
            for row in 0..rows {
                // A vector that belongs to several pairs takes the highest limit.
                work.limits.fill(0.0);
                for column in 0..columns {
                    let figure = if figures.is_empty() { whole } else { figure(z, row, column) };
                    let (limit, _) = doubt.at_peak(figure.energy, figure.result.sqrt(), figure.peak(largest_tap));
                    let limit = limit + running * work.largest_row;
                    let places =
                        if hybrid { columns::Layout::places(outputs[1], column) } else { [column * pair_width; 2] };
                    let (places, width) =
                        if hybrid { (&places[..], columns::CHUNK) } else { (&places[..1], pair_width) };
                    for &begin in places {
                        let end = (begin + width).div_ceil(lanes).min(work.limits.len());
                        work.limits[begin / lanes..end].iter_mut().for_each(|most| *most = limit.max(*most));
                    }
                }
                let (input, cross) = (&input[z * self.in_pitch.plane..], &mut cross[z * self.out_pitch.plane..]);
                let (in_row, out_row) = (self.in_pitch.row, self.out_pitch.row);
                let rows = [row * pair_height, outputs[0].min((row + 1) * pair_height)];
                // Scored before the next rows are added to, while they are near.
                let step = if last.heights.is_some() { ROWS_AT_A_TIME } else { rows[1] - rows[0] };
                for begin in (rows[0]..rows[1]).step_by(step) {
                    let rows = [begin, rows[1].min(begin + step)];
                    if let (Some(heights), Some(coarse), Some(scratch)) = (last.heights, &self.coarse, &mut *boxes) {
                        let cross = &mut *cross;
                        vectors.run(split::Add {
                            coarse,
                            heights,
                            input,
                            in_row,
                            outputs,
                            rows,
                            cross,
                            out_row,
                            scratch,
                        });
                    }
                    let buffers = vector::Buffers { input, in_row, cross: &mut *cross, out_row, outputs };
                    doubtful |= vectors.run(vector::Rows { formula, buffers, rows, scratch: &mut *work, ahead });
                }
            }
        }
        Some(doubtful)
    }

    /// Decides the panels that scoring left as NaN; returns how many were recomputed. Parts of the tile with more of
    /// them than `self.patience` are left to who does that better, in `scratch.again`.
    fn settle_fused(&self, last: &Finishing<'_, T>, degenerate: f32, scratch: &mut TileScratch<T>) -> Option<u64> {
        let (mut repaired, mut flat_known) = (0, false);
        for part in last.tile.parts(self.parts) {
            let begin = [0, 1, 2].map(|axis| part.origin[axis] - last.tile.origin[axis]);
            // Whether to give up is the whole part's matter, whatever is asked for of it.
            let mut doubts = self.doubts(begin, part.shape, last.marked, flat_known, scratch)?;
            if doubts == Doubts::Flat {
                self.find_flat(last.image, last.samples, last.tile.shape, scratch);
                flat_known = true;
                doubts = self.doubts(begin, part.shape, last.marked, flat_known, scratch)?;
            }
            if doubts == Doubts::Many {
                if scratch.again.iter().all(|other| other.origin != part.origin) {
                    scratch.again.push(part);
                }
                continue;
            }
            let [z, y, x] = [0, 1, 2].map(|axis| (begin[axis] + part.keep[axis].0, begin[axis] + part.keep[axis].1));
            let TileScratch { crosses, flat, hit, panel, .. } = &mut *scratch;
            let scores = T::singles_mut(&mut crosses[0])?;
            for (z, y) in (z.0..z.1).flat_map(|z| (y.0..y.1).map(move |y| (z, y))) {
                let row = z * self.out_pitch.plane + y * self.out_pitch.row;
                // Most rows have none, and all of a row is soon looked at.
                if isa::vectorized(&self.isas, || !any_nan(&scores[row + x.0..row + x.1])) {
                    continue;
                }
                for x in x.0..x.1 {
                    let at = row + x;
                    if !scores[at].is_nan() {
                        continue;
                    }
                    if flat_known && flat[at] {
                        scores[at] = degenerate;
                    } else if !(last.marked && hit[at]) {
                        scores[at] = last.repair(self, [z, y, x], panel) as f32;
                        // A flat one is left as it was collected.
                        repaired += u64::from(panel.iter().any(|sample| *sample != panel[0]));
                    }
                }
            }
        }
        Some(repaired)
    }

    /// How many panels of a part of the tile are to be recomputed: those that scoring left as NaN, but for flat ones
    /// and those to be NaN. Where it is not known yet which are flat, more than `self.patience` are counted only if the
    /// gathered samples of none before are all equal.
    fn doubts(
        &self,
        [z0, y0, x0]: [usize; 3],
        shape: [usize; 3],
        marked: bool,
        flat_known: bool,
        scratch: &TileScratch<T>,
    ) -> Option<Doubts> {
        let (input, scores) = (T::singles(&scratch.inputs[0])?, T::singles(&scratch.crosses[0])?);
        let rows = || (z0..z0 + shape[0]).flat_map(move |z| (y0..y0 + shape[1]).map(move |y| (z, y)));
        let row = |(z, y): (usize, usize)| z * self.out_pitch.plane + y * self.out_pitch.row + x0;
        let nans = |at: usize| isa::vectorized(&self.isas, || nans(&scores[at..at + shape[2]]));
        let mut seen = 0;
        if rows().all(|place| {
            seen += nans(row(place)) as u64;
            seen <= self.patience
        }) {
            return Some(Doubts::Few);
        }
        let [kd, kh, kw] = self.spec.template().padded();
        let Pitch { row: in_row, plane: in_plane, .. } = self.in_pitch;
        let equal = |from: usize| {
            let first = input[from];
            let line = |from: usize| input[from..from + kw].iter().all(|sample| *sample == first);
            line(from) && (0..kd).all(|z| (0..kh).all(|y| line(from + z * in_plane + y * in_row)))
        };
        let mut doubts = 0;
        for (z, y) in rows() {
            let at = row((z, y));
            for x in (0..shape[2]).filter(|x| scores[at + x].is_nan() && !(marked && scratch.hit[at + x])) {
                match flat_known {
                    true if scratch.flat[at + x] => {}
                    false if equal(z * in_plane + y * in_row + x0 + x) => return Some(Doubts::Flat),
                    _ => doubts += 1,
                }
                if doubts > self.patience {
                    return Some(Doubts::Many);
                }
            }
        }
        Some(Doubts::Few)
    }

    /// Scores every row of the tile that is asked for; returns how many panels were repaired.
    fn finish(&self, last: &Finishing<'_, T>, scratch: &mut TileScratch<T>, store: &mut Store<'_>) -> Option<u64> {
        let (tile, bound, template) = (last.tile, last.bound, last.template());
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        if template.checked.nonfinite {
            scratch.rows.out.fill(f64::NAN);
        }
        let doubt =
            (self.scheme.integers.is_none() && self.degenerates()).then(|| self.doubt(tile, &template.judged, scratch));
        let (image_scale, template_scale) = (scratch.scale, template.checked.scale);
        let larger = image_scale.min(template_scale);
        let (common, unscale) = match self.scheme.measure {
            Measure::Cc => (Common::of(1.0, 1.0), [1.0 / image_scale, 1.0 / template_scale]),
            Measure::Ssd => (Common::of(image_scale, template_scale), [1.0 / larger, 1.0 / larger]),
            Measure::Nssd => (Common::of(image_scale, template_scale), [1.0, 1.0]),
            _ => (Common::of(1.0, 1.0), [1.0, 1.0]),
        };
        let constants = Constants {
            n: bound.weights.n,
            template: template.checked.energy,
            common,
            unscale: joined(unscale),
            doubt,
        };
        let sum_pitch = if bound.mask.is_some() { self.out_pitch } else { self.in_pitch };
        let mut flat_known = false;
        let parts: usize = (0..3).map(|axis| tile.shape[axis].div_ceil(self.parts[axis].max(1))).product();
        let patience = self.patience.saturating_mul(parts as u64);
        // Whether to give up is the whole tile's matter, whatever part of it is asked for.
        let whole = last.whole();
        if let Some(doubt) = doubt.filter(|_| self.patience < u64::MAX && !whole && !template.checked.nonfinite) {
            let mut doubts = 0;
            for (z, y) in (0..tile.shape[0]).flat_map(|z| (0..tile.shape[1]).map(move |y| (z, y))) {
                let cross_at = z * self.out_pitch.plane + y * self.out_pitch.row;
                let sum_at = z * sum_pitch.plane + y * sum_pitch.row;
                if self.finish_row(&constants, template, cross_at, sum_at, tile.shape[2], scratch) {
                    if !flat_known {
                        self.find_flat(last.image, last.samples, tile.shape, scratch);
                        flat_known = true;
                    }
                    let unsettled =
                        |x: &usize| in_doubt(scratch, doubt, cross_at, *x, last.marked) && !scratch.flat[cross_at + x];
                    doubts += (0..tile.shape[2]).filter(unsettled).count() as u64;
                    if doubts > patience {
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
                            self.find_flat(last.image, last.samples, tile.shape, scratch);
                            flat_known = true;
                        }
                        repaired += self.settle(last, [z, y], doubt?, scratch);
                        if whole && repaired > patience {
                            return None;
                        }
                    }
                }
                if last.marked {
                    let hits = &scratch.hit[cross_at..cross_at + width];
                    scratch.rows.out.iter_mut().zip(hits).filter(|(_, hit)| **hit).for_each(|(out, _)| *out = f64::NAN);
                }
                (store.write)(last.number, last.place(z, y), Scores::Double(&scratch.rows.out[..width]));
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
        let TileScratch { crosses, sums, factors, rows, .. } = scratch;
        let exact = &template.checked;
        let row = |channel: usize| -> ChannelRow<'_> {
            let part = |sum: &Vec<f64>| -> std::ops::Range<usize> {
                if sum.is_empty() { 0..0 } else { sum_at..sum_at + width }
            };
            let [i, ii] = &sums[channel];
            let template_sum = exact.exact_sums.get(channel).copied().unwrap_or(0);
            ChannelRow {
                number: channel,
                template_sum,
                width,
                i: &i[part(i)],
                ii: &ii[part(ii)],
                factor: factors[channel],
            }
        };
        for (channel, cross) in crosses.iter().enumerate() {
            let row = row(channel);
            let cross = &cross[cross_at..cross_at + width];
            isa::vectorized(&self.isas, || rows.take(cross));
            rows::add(&self.isas, self.scheme.measure, self.scheme.integers, &row, constants, rows);
        }
        rows::settle(&self.isas, self.scheme.measure, self.scheme.integers, width, constants, exact.exact_energy, rows)
    }

    /// Decides the doubtful panels of the row finished last, `[z, y]` of the tile; returns how many were recomputed.
    fn settle(
        &self,
        last: &Finishing<'_, T>,
        [z, y]: [usize; 2],
        doubt: (f64, f64),
        scratch: &mut TileScratch<T>,
    ) -> u64 {
        let degenerate = with_formula!(self.scheme.measure, F => <F as flcc_core::measure::Formula>::DEGENERATE);
        let (x0, x1) = last.tile.keep[2];
        let cross_at = z * self.out_pitch.plane + y * self.out_pitch.row + x0;
        let mut repaired = 0;
        for x in 0..x1 - x0 {
            if !in_doubt(scratch, doubt, cross_at, x, last.marked) {
                continue;
            }
            scratch.rows.out[x] = if scratch.flat[cross_at + x] {
                degenerate
            } else {
                repaired += 1;
                last.repair(self, [z, y, x0 + x], &mut scratch.panel)
            };
        }
        repaired
    }

    /// Marks the panels all of whose samples are equal (zncc) or zero (ncc, nssd), from the samples themselves.
    fn find_flat(&self, image: &AnyView<'_>, samples: Samples, outputs: [usize; 3], scratch: &mut TileScratch<T>) {
        let TileScratch { low, high, flat, window, .. } = scratch;
        flat.fill(true);
        let zero_only = self.scheme.measure != Measure::Zncc;
        let tile =
            window_sums::Layout { shape: samples.len, row_pitch: self.in_pitch.row, plane_pitch: self.in_pitch.plane };
        let template = self.spec.template().padded();
        for channel in 0..self.spec.channels() {
            // As they are, in f64, which holds every pixel type: no rounding can make two samples equal.
            gather::exact(&image.channel(channel), self.spec.boundary(), samples, low, self.in_pitch);
            high.copy_from_slice(low);
            window_sums::minimum(&self.isas, low, window, &tile, template);
            window_sums::maximum(&self.isas, high, window, &tile, template);
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
    fn doubt(
        &self,
        tile: &TileBox,
        Judged { doubt, largest: largest_tap }: &Judged,
        scratch: &TileScratch<T>,
    ) -> (f64, f64) {
        if doubt.is_constant() {
            return doubt.at(0.0, 0.0);
        }
        let inputs = scratch.inputs.iter().zip(&scratch.factors);
        let energy = inputs.clone().map(|(input, factor)| squares(input) * factor * factor).sum();
        let sample = inputs.map(|(input, factor)| largest(input) * factor).fold(0.0, f64::max);
        let (mut result, mut peak) = (0.0, 0.0);
        for (channel, (cross, factor)) in scratch.crosses.iter().zip(&scratch.factors).enumerate() {
            let (square, most) = self.results(tile.shape, cross);
            let all = scratch.fourier.as_ref().map_or(0.0, |work| work.results[channel]);
            result += square.max(all) * factor * factor;
            peak += most * factor;
        }
        doubt.at_peak(energy, result.sqrt(), peak.max(sample * largest_tap))
    }

    /// The mean square and the largest magnitude of a cross term over a tile of this shape.
    fn results<R: Real>(&self, [depth, height, width]: [usize; 3], cross: &[R]) -> (f64, f64) {
        let Pitch { row, plane, .. } = self.out_pitch;
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| z * plane + y * row));
        let (total, peak) = rows.fold((0.0, 0.0f64), |(total, peak), at| {
            let row = &cross[at..at + width];
            (total + squares(row), peak.max(largest(row)))
        });
        (total / (depth * height * width) as f64, peak)
    }
}

/// Whether panel `x` of the row finished last, whose cross term begins at `cross_at`, is in doubt; one that is to be
/// NaN is not.
fn in_doubt<T: Real>(scratch: &TileScratch<T>, doubt: (f64, f64), cross_at: usize, x: usize, marked: bool) -> bool {
    let (energy, square) = scratch.rows.panel(x);
    let certain = energy > doubt.0 + doubt.1 * square;
    let settled = certain || (marked && scratch.hit[cross_at + x]);
    !settled
}

/// Template values as a cross term takes them: as they are for sums of differences, else under their weights.
fn taken<'a>(values: &'a [f64], weights: &Weights, differences: bool) -> Cow<'a, [f64]> {
    if differences { Cow::Borrowed(values) } else { weighted(values, weights) }
}

/// What is known of the panels of a part of a tile that scoring left as NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubts {
    /// Few are to be recomputed, if any.
    Few,
    /// Many are.
    Many,
    /// Some may be flat: it must be known which.
    Flat,
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

#[inline(always)]
fn any_nan(scores: &[f32]) -> bool {
    scores.iter().fold(false, |any, score| any | score.is_nan())
}

#[inline(always)]
fn nans(scores: &[f32]) -> usize {
    scores.iter().map(|score| u32::from(score.is_nan())).sum::<u32>() as usize
}

/// The largest magnitude, in eight lanes.
fn largest<T: Real>(values: &[T]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder().iter().map(|value| value.to_f64().abs()).fold(0.0, f64::max);
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(value.to_f64().abs());
        }
    }
    lanes.into_iter().fold(rest, f64::max)
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
