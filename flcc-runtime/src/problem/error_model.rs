//! Which panels a tile's rounding leaves in doubt. The model is derived in docs/numerics.md.

use flcc_core::measure::Measure;
use flcc_core::wide::Wide;

use crate::isa::{self, Isa, IsaSet};
use crate::problem::lanes;

/// Roundings that window sums of a tile may have gone through, at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// From plane to plane and down the columns, each of the size of a column's sum.
    pub down: f64,
    /// Along the row, from one side of a window to the other, each of the size of the row's sum.
    pub along: f64,
    /// How many times larger than a window's sum of samples that of a row may be, where their squares add up to the
    /// same.
    pub stretch: f64,
}

impl Steps {
    /// The steps of a tile of these outputs, of templates of this depth, height and width.
    pub fn new(outputs: [usize; 3], [depth, height, width]: [usize; 3]) -> Steps {
        Steps {
            down: (2 * (outputs[0] + outputs[1]) + depth + height) as f64,
            // Vectors have at least four lanes; five steps within one on either side, and the difference.
            along: (width / 4 + 12) as f64,
            stretch: ((outputs[2] + width - 1) as f64 / width as f64).sqrt(),
        }
    }
}

/// What a panel's score is promised to be off by at most, and under which model of rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The absolute error.
    pub error: f64,
    /// Standard deviations, or `None` for the worst case.
    pub deviations: Option<f64>,
}

/// What the rounding of a cross term depends on, of a template in the form that it is computed with (weights included).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Norm of the values over all channels.
    pub norm: f64,
    /// Largest magnitude of the values.
    pub largest: f64,
    /// For a direct sum: the norm of the values, each times the roundings that its product goes through.
    pub varying: f64,
    /// For a direct sum: the sum of the magnitudes of the values' partial sums, over the root of their number.
    pub constant: f64,
    /// For transforms by a library, of pairs and of planes: the largest magnitude of the values' spectrum, which is
    /// what a wave of amplitude 1 comes to at most. Of several channels by a library it is the sum of theirs.
    pub wave: f64,
    /// For transforms of one tile: what the transform of the values is off by at frequency 0
    /// (`single::Transform::off`).
    pub off: f64,
}

impl Figures {
    /// The figures of a template's values, channel by channel, but for what a direct sum depends on.
    pub fn of(channels: impl Iterator<Item = impl AsRef<[f64]>>) -> Figures {
        let (mut squares, mut most) = (0.0, 0.0f64);
        isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || {
            for values in channels {
                squares += lanes::sum(values.as_ref(), |value| value * value);
                most = most.max(lanes::largest(values.as_ref()));
            }
        });
        Figures { norm: squares.sqrt(), largest: most, ..Figures::default() }
    }
}

/// What samples of a tile may come to, or faint copies of them before they are faint, though no result of it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    /// What a sample of 1 comes to at most: the template's largest value, or what equal samples err by where the
    /// template's transform does, in terms of what is granted to copies.
    pub largest: f64,
    /// What a wave of amplitude 1 comes to at most, where a copy may be a wave though the samples are none; else 0.
    pub wave: f64,
}

impl Unseen {
    /// What samples may come to unseen under a template of so many channels with these figures, where all of them may
    /// be the largest.
    pub fn of(figures: &Figures, rounding: &Rounding, roundoff: f64, channels: usize) -> Unseen {
        let Figures { largest, wave, off, .. } = *figures;
        let largest = channels as f64 * largest;
        match rounding {
            Rounding::Single { .. } => {
                Unseen { largest: largest.max(2.0 * off / (2.0 * GHOSTS * roundoff)), wave: 0.0 }
            }
            Rounding::Fourier { .. } => Unseen { largest, wave },
            _ => Unseen { largest, wave: 0.0 },
        }
    }

    /// The strong samples that [`Unseen::most`] asks for, by [`Strong::of`]; none where no wave counts.
    pub fn strong<'a, V: Copy + 'a>(
        &self,
        channels: impl Iterator<Item = (&'a [V], f64)> + Clone,
        number: impl Fn(V) -> f64 + Copy,
        energy: f64,
        largest: f64,
    ) -> Strong {
        if self.wave > 0.0 { Strong::of(channels, number, energy, largest) } else { Strong::default() }
    }

    /// The most that samples come to of which this is the largest magnitude: where no result was computed, what it
    /// comes to; as a copy, a wave that is as strong as it wherever the template meets it, or one as strong as what is
    /// usual and the strong samples times the template's largest value.
    pub fn most(&self, largest: f64, strong: &Strong) -> f64 {
        let copied = (self.wave * largest).min(self.wave * strong.usual + self.largest * strong.sum);
        (self.largest * largest).max(copied)
    }
}

/// The samples of a tile that are stronger than usual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Strong {
    /// What magnitudes count above: [`Strong::ABOVE`] root mean squares.
    pub usual: f64,
    /// Sum of the magnitudes above it, over all channels.
    pub sum: f64,
}

impl Strong {
    /// Root mean squares of the samples that magnitudes count above: of noise hardly one does, and of a few samples
    /// among zeros all of them. What copies come to is bounded whatever this is.
    pub const ABOVE: f64 = 4.0;

    /// The strong samples of a tile of this energy, of which `largest` is the largest magnitude: of channels, each with
    /// its factor.
    pub fn of<'a, V: Copy + 'a>(
        channels: impl Iterator<Item = (&'a [V], f64)> + Clone,
        number: impl Fn(V) -> f64 + Copy,
        energy: f64,
        largest: f64,
    ) -> Strong {
        let count: usize = channels.clone().map(|(values, _)| values.len()).sum();
        let usual = Strong::ABOVE * (energy / count as f64).sqrt();
        let sum_of = |(values, factor): (&[V], f64)| {
            let counted = |magnitude: f64| if magnitude > usual { magnitude } else { 0.0 };
            isa::vectorized!(&IsaSet::of(&[Isa::Avx2]), || {
                lanes::sum(values, |value| counted(number(value).abs() * factor))
            })
        };
        Strong { usual, sum: if largest > usual { channels.map(sum_of).sum() } else { 0.0 } }
    }
}

/// What the rounding of a tile, or of some of its outputs, depends on; of transforms of pairs that of both tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// Sum of squares of the samples.
    pub energy: f64,
    /// Mean square of the results, those that wrap round included.
    pub result: f64,
    /// Largest magnitude among the results that were computed.
    pub peak: f64,
    /// Largest sum of squares of a column of the samples.
    pub column: f64,
    /// Strong samples, where [`Unseen::wave`] is above 0.
    pub strong: Strong,
}

impl Figure {
    /// A bound of the largest result: what was seen, or may come to though it was not.
    pub fn peak(&self, unseen: &Unseen) -> f64 {
        self.peak.max(unseen.most(self.column.sqrt(), &self.strong))
    }
}

/// How a cross term is rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// Directly, in runs of products (`flcc_core::runs`), of taps that were rounded so that their sum stayed what it
    /// was (`template::rounded`).
    Direct {
        /// Products are added as they are, not rounded before.
        fused: bool,
    },
    /// So many terms of lines of so many samples together, whose products go through so many roundings.
    Separable {
        /// Terms.
        terms: f64,
        /// Samples of one term's lines.
        lines: f64,
        /// Roundings of one term's lines, and of its factors.
        chain: f64,
    },
    /// Transforms of so many samples by a library.
    Fourier {
        /// Samples of a transform.
        len: f64,
        /// What its transforms are granted.
        by: Library,
    },
    /// Transforms of so many samples by `fft/pair.rs`, of pairs of tiles: the tile's norm and results are those of the
    /// pair, and the template's spectrum was computed in f64.
    Pair {
        /// Samples of one tile.
        len: f64,
    },
    /// Transforms of so many samples by kernels for rows and for columns on a GPU, of pairs of tiles: as those of
    /// pairs, but half of the tile's energy and of its mean square result is what it would be if all rows were as the
    /// strongest.
    Large {
        /// Samples of one tile.
        len: f64,
    },
    /// Transforms of planes of so many samples by `fft/volume.rs`, as those of `fft/pair.rs`.
    Volume {
        /// Samples of one plane of a tile.
        len: f64,
        /// Planes of the template.
        layers: f64,
    },
    /// Transforms of columns of so many samples by `fft/columns.rs`, two at a time: the tile's energy is that of its
    /// strongest column, its mean square result that of the strongest column of results.
    Columns {
        /// Samples of a column.
        len: f64,
        /// Columns of the template.
        columns: f64,
        /// How those add up where columns repeat (`columns::Transform::drift`).
        drift: [f64; 2],
    },
    /// Transforms of so many samples by `fft/single.rs`: of one tile, and of the template in f32 too.
    Single {
        /// Samples of the transform.
        len: f64,
    },
}

impl Rounding {
    /// How many numbers add up to one result on the way to it, at most, each of which may be too small for its type and
    /// so off by half of the smallest that the type has: for values of norm 1, in units of such a number.
    fn faint(&self, taps: f64) -> f64 {
        match *self {
            Rounding::Direct { .. } => taps,
            // What the first line of a term loses is spread by the others.
            Rounding::Separable { terms, lines, .. } => terms * lines * taps.sqrt(),
            // Four at each butterfly: there, in the product with a spectrum that is nowhere above the sum of the
            // values, and back.
            Rounding::Fourier { len, .. }
            | Rounding::Pair { len }
            | Rounding::Large { len }
            | Rounding::Single { len } => 32.0 * len * taps.sqrt(),
            Rounding::Volume { len, layers } => 32.0 * len * layers * taps.sqrt(),
            Rounding::Columns { len, columns, .. } => 32.0 * len * columns * taps.sqrt(),
        }
    }
}

/// A panel is doubtful unless its energy exceeds a part that depends on the tile plus a share of its sum of squares.
///
/// The error of the cross term, as many standard deviations of independently rounded operations as promised (or the
/// worst case), over the panel's own norm, is held against 0.8 of the promise; the error of the energy against the
/// rest. The variances of independent operations add up; what is no noise is added to their root.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Doubt {
    /// Factor of the norm of the tile's samples, before squaring.
    pub of_tile: f64,
    /// Factor of the root mean square of the tile's cross term, before squaring.
    pub of_result: f64,
    /// Factor of the largest magnitude of the tile's cross term, or of what its samples may come to unseen: added to
    /// the root of the sum of the squares of the terms by `of_tile` and `of_result`.
    pub of_peak: f64,
    /// Factor of the energy of the tile's samples.
    pub of_energy: f64,
    /// Energy that a panel has to exceed whatever the tile.
    pub least: f64,
    /// Share of the panel's own sum of squares.
    pub share: f64,
}

/// Rounded constants of a transform are the same for every sample, so a part of its error is no noise: faint copies of
/// the result at eighths of the tile and their kin. Units of roundoff that they have of the largest result; up to 2.5
/// was measured of bright samples, and 3.6 of a wave as long as the tile.
pub(crate) const GHOSTS: f64 = 5.0;

/// The same of transforms of up to 1024 samples a side: what the rounded constants of one axis make of a wave, by exact
/// arithmetic, is up to 3.1 roundoffs of it for 256 samples, 3.8 for 512 and 4.9 for 1024; of both axes twice that.
pub(crate) const GHOSTS_OF_LARGE: f64 = 10.0;

/// The standard deviation of rounding a number, in roundoffs of its size: uniform over a unit in the last place, for
/// numbers whose logarithms are spread evenly: `sqrt(3 / (8 ln 2) / 3)`. Were they all just above a power of two, it
/// would be `1 / sqrt(3)`.
pub(crate) const SPREAD: f64 = 0.424_661;

/// What noise of a quarter of the largest sample's size makes of the norm of a tile's samples at most.
const NOISY: f64 = 1.25;

/// Roundoffs that equal taps have of their sum on the way to its transform, where they are rounded alike: 1.4 was
/// measured of 24x24 taps of two levels.
const ALIKE: f64 = 3.0;

/// What the transforms of a library are granted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Library {
    /// How much more they round than once for each level.
    pub noise: f64,
    /// Roundoffs that faint copies have of the largest result, or of what samples may come to unseen.
    pub ghosts: f64,
}

impl Library {
    /// rustfft, which `cpu/engines/library_fft.rs` measures.
    pub const RUSTFFT: Library = Library { noise: 2.1, ghosts: 8.0 };
    /// cuFFT, which the test `cufft_errs_by_less_than_it_is_granted` measures on a GPU. Its noise is granted twice that
    /// of rustfft. Its own constants are worse: the longer a transform, the stronger are the copies of a few equal
    /// samples that a template of stripes answers to, up to 12 roundoffs of what they come to there (1048576 samples).
    pub const CUFFT: Library = Library { noise: 4.2, ghosts: 16.0 };
}

/// What the thresholds are made of.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// The formula.
    pub measure: Measure,
    /// The promise; without one only what is nothing but rounding is doubtful.
    pub promise: Option<Promise>,
    /// Half the distance from 1 to the next number of the type that tiles are computed in.
    pub roundoff: f64,
    /// Template samples over all channels.
    pub taps: f64,
    /// What the rounding of samples is multiplied by at most: the norm of all of the template, under its weights.
    pub samples: f64,
    /// Whether direct sums have rounded pixels less an offset. Transforms have, since noise rounds the samples of each
    /// (`problem/noise.rs`).
    pub rounds_samples: bool,
    /// How the cross term is rounded.
    pub rounding: Rounding,
    /// What window sums and energies are made in.
    pub wide: Wide,
    /// The mask.
    pub weights: Option<&'a [f64]>,
}

impl Model<'_> {
    /// The thresholds for a template.
    pub fn doubt(&self, template: &Figures) -> Doubt {
        let Some(promise) = self.promise else {
            return Doubt { share: 1e-12, ..Doubt::default() };
        };
        let u = self.roundoff;
        let (half, wide) = (f64::EPSILON / 2.0, self.wide.roundoff());
        // The cross term counts twice in nssd, whose template is not of norm 1.
        let budget = 0.8 * promise.error * if self.measure == Measure::Nssd { template.norm / 2.0 } else { 1.0 };
        let (rest, worst) = (0.2 * promise.error, promise.deviations.is_none());
        let sigma = promise.deviations.unwrap_or(1.0) * SPREAD;
        let sums_share = if worst { 64.0 * wide / rest } else { 16.0 * wide / rest };
        // A wave that a template takes away leaves a faint copy where the template's spectrum may be largest. Its
        // amplitude is at most the root of twice the tile's mean square.
        let copies = |ghosts: f64, len: f64| ghosts * u * template.wave * (2.0 / len).sqrt();
        // The worst case of rounding samples: of few values, errors have the signs that a template can have too.
        let samples = u * self.samples;
        // Error of the cross term: `of_square * sqrt(ii) + of_energy * sqrt(energy)`, and what depends on the tile.
        let (mut of_tile, mut of_result, mut of_peak, mut of_energy) = (0.0, 0.0, 0.0, 0.0);
        let of_square = match self.rounding {
            Rounding::Direct { fused } => {
                // The worst case, of whatever samples: a sample is rounded once, a tap by at most two roundoffs of its
                // neighbours.
                let products = if fused { 0.0 } else { template.norm };
                of_energy = u * (template.varying + 2.0 * template.norm + products);
                let centred = u * (template.constant + template.largest / self.taps.sqrt() + products);
                let samples = if self.rounds_samples { samples } else { 0.0 };
                if self.measure == Measure::Zncc { centred + samples } else { samples }
            }
            Rounding::Separable { terms, chain, .. } => {
                // The worst case: the norms of the terms add up to the root of their number times the template's at
                // most.
                (u * (chain + terms) * terms.sqrt() + u) * template.norm
            }
            Rounding::Fourier { len, .. } if worst => {
                // No variances: the sum of both is at most the root of twice the sum of their squares.
                of_tile = 2f64.sqrt() * NOISY * 10.0 * u * len.log2() * template.norm;
                2f64.sqrt() * samples
            }
            Rounding::Fourier { len, by } => {
                let epsilon = by.noise * sigma * u * len.log2().max(1.0).sqrt();
                // Copies that are no wave of all of the tile count with the largest result (`Unseen`).
                of_tile = (epsilon * 2.0 * template.norm / len.sqrt()).hypot(copies(by.ghosts, len));
                of_result = epsilon;
                of_peak = by.ghosts * u;
                samples
            }
            // No worst case was derived for these, so none of their panels may count on one.
            Rounding::Pair { .. }
            | Rounding::Large { .. }
            | Rounding::Single { .. }
            | Rounding::Volume { .. }
            | Rounding::Columns { .. }
                if worst =>
            {
                f64::INFINITY
            }
            Rounding::Pair { len } | Rounding::Large { len } => {
                let large = matches!(self.rounding, Rounding::Large { .. });
                let ghosts = if large { GHOSTS_OF_LARGE } else { GHOSTS };
                // A complex result's error is shared by its parts: half of the square falls on either tile.
                let epsilon = sigma * u * len.log2().max(1.0).sqrt() / 2f64.sqrt();
                of_tile = (epsilon * template.norm / len.sqrt()).hypot(copies(ghosts, len));
                of_result = epsilon;
                of_peak = ghosts * u;
                samples
            }
            Rounding::Volume { len, layers } => {
                // As above, and a rounding more for each plane. Where planes repeat, so do the errors of their
                // transforms, and some roundings.
                let epsilon = |steps: f64| sigma * u * steps.max(1.0).sqrt() / 2f64.sqrt();
                let noise = epsilon(len.log2()) * layers.sqrt() * template.norm / len.sqrt();
                of_tile = noise.hypot(copies(GHOSTS, len));
                of_result = epsilon(len.log2() + layers + layers * layers / 24.0);
                of_peak = GHOSTS * u;
                samples
            }
            Rounding::Columns { len, columns, drift: [whole, partial] } => {
                // As above, for columns. Where these repeat, so do the errors of their transforms; partial sums of a
                // row of frequencies may be larger than what they come to, and where the template's columns repeat as
                // well some round the same way.
                of_tile = sigma * u * ((len.log2() * whole + partial) / (2.0 * len)).sqrt();
                of_result = sigma * u * ((len.log2() + columns / 2.0 + columns * columns / 24.0 + 2.0) / 2.0).sqrt();
                // Along one axis alone.
                of_peak = 0.5 * GHOSTS * u;
                samples
            }
            Rounding::Single { len } => {
                // The tile's spectrum and the template's are as wrong as each other, and so are their faint copies. Of
                // equal samples and equal taps both errors are of one frequency, where they agree.
                let epsilon = sigma * u * len.log2().max(1.0).sqrt();
                of_tile = (2f64.sqrt() * epsilon * template.norm / len.sqrt())
                    .hypot(ALIKE * u * template.norm * (self.taps / len).sqrt());
                of_result = epsilon;
                of_peak = 2.0 * GHOSTS * u;
                // Taps are rounded, and the last of each sixteen by what the others were as well; their sum is what it
                // was.
                of_energy = 5.0 * u * template.norm;
                samples
            }
        };
        // Window sums by transform carry an absolute error of their own.
        let masked = match (self.rounding, self.weights) {
            (Rounding::Fourier { len, .. }, Some(weights)) => {
                let norm = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
                4.0 * promise.deviations.unwrap_or(10.0 * len.log2()) * half * norm
                    / rest
                    / if worst { 1.0 } else { len.sqrt() }
            }
            _ => 0.0,
        };
        if of_energy >= budget {
            return Doubt { least: f64::INFINITY, ..Doubt::default() };
        }
        let left = budget - of_energy;
        // What is added to the root of a sum of squares adds at most this much to its own square (`Doubt::at_peak`). So
        // the rounding of samples counts twice, which leaves room for most of the rest beside it: `sqrt(a^2 + 2 b^2)`
        // is at least `a / sqrt(2) + b`.
        let stretched = if of_peak > 0.0 { 2.0 } else { 1.0 };
        Doubt {
            of_tile: of_tile / left,
            of_result: of_result / left,
            of_peak: of_peak / left,
            of_energy: masked,
            least: 0.0,
            share: stretched * (of_square / left).powi(2) + sums_share,
        }
    }
}

/// Energies that are rounded to f32 on the way to a score keep all of its digits above this: `2^-120`.
const LEAST_SINGLE: f64 = f32::MIN_POSITIVE as f64 * 64.0;

impl Model<'_> {
    /// The energy up to which numbers that are too small for their types may have taken more than a hundredth of the
    /// promise: it is added to what is in doubt of every tile. `smallest` is the smallest number of the tile's type;
    /// `single` says that energies become f32.
    pub fn floor(&self, template: &Figures, smallest: f64, single: bool) -> f64 {
        let Some(promise) = self.promise else {
            return 0.0;
        };
        let share = 0.01 * promise.error;
        // What a cross term is in proportion to beside the panel's norm; values below 1 lose as much as those of norm
        // 1.
        let norm = if self.measure == Measure::Nssd { template.norm.min(1.0) } else { 1.0 };
        // Samples less an offset in another scale: three roundings each. A score changes by less than five times what a
        // panel's norm does.
        let of_samples = 8.0 * smallest * self.taps.sqrt();
        let of_cross = 2.0 * self.rounding.faint(self.taps) * smallest / norm;
        // Squares under weights up to 2, and what is made of their sums.
        let of_energy = (2.0 * self.taps + 16.0) * self.wide.smallest() / share;
        ((of_samples + of_cross) / share).powi(2) + of_energy.max(if single { LEAST_SINGLE } else { 0.0 })
    }
}

/// What window sums of running kind add to a panel's limit, as a share of the largest sum of squares of a row of
/// windows up to its own: each rounding is at most of the size of that, in the sum of squares once and in the squared
/// sum twice, times what a row's sum may exceed a window's by.
pub fn of_running_sums(promise: &Promise, steps: &Steps, wide: Wide) -> f64 {
    let roundings = |steps: f64| promise.deviations.map_or(steps, |deviations| deviations * SPREAD * steps.sqrt());
    (3.0 * roundings(steps.down) + (1.0 + 2.0 * steps.stretch) * roundings(steps.along)) * wide.roundoff()
        / (0.2 * promise.error)
}

impl Doubt {
    /// Doubt about every panel of less energy than `floor` as well.
    pub fn above(self, floor: f64) -> Doubt {
        Doubt { least: self.least + floor, ..self }
    }

    /// Whether the thresholds are the same for every tile.
    pub fn is_constant(&self) -> bool {
        self.of_tile == 0.0 && self.of_result == 0.0 && self.of_peak == 0.0 && self.of_energy == 0.0
    }

    /// The thresholds of a tile: a panel is doubtful unless `energy > .0 + .1 * sum of squares`.
    pub fn at(&self, tile_energy: f64, result: f64) -> (f64, f64) {
        self.at_peak(tile_energy, result, 0.0)
    }

    /// The thresholds of a tile whose cross term, and what copies of its samples come to, are nowhere larger than
    /// `peak`.
    pub fn at_peak(&self, tile_energy: f64, result: f64, peak: f64) -> (f64, f64) {
        let variance = self.of_tile.powi(2) * tile_energy + (self.of_result * result).powi(2);
        let added = self.of_peak * peak;
        // `(sqrt(variance + own) + added)^2` for the panel's own part, by `2 a b <= s a^2 + b^2 / s`, with an `s` of at
        // most 1.
        let s = if added * added < variance { added / variance.sqrt() } else { 1.0 };
        let squared = if s > 0.0 { (1.0 + s) * variance + (1.0 + 1.0 / s) * added * added } else { variance };
        (squared + self.of_energy * tile_energy + self.least, self.share)
    }
}
