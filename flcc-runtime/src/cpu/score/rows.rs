//! From sums to scores, a row at a time: the place where measures meet the sums of the kernels.
//!
//! Row functions have no `match` and no branch in their loops; which formula and which numbers was decided before. They
//! are called through `isa::vectorized` so that the compiler vectorises them for the machine.

use flcc_core::measure::{Formula, Integer, Measure};
use flcc_core::with_formula;

use crate::cpu::aligned::Aligned;
use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::isa::{self, IsaSet};
use crate::problem::overflow::Overflow;
use crate::problem::scheme::Integers;

/// The sums of one channel along a row of outputs, but for the cross term, which [`RowBuffers::take`] brought.
pub struct ChannelRow<'a> {
    /// Which channel: the first one's sums begin a row, the others' are added.
    pub number: usize,
    /// The exact `sum w t` of the channel's template, where it is one of integers.
    pub template_sum: i128,
    /// Outputs of the row.
    pub width: usize,
    /// `sum w P`; empty where the measure does not ask.
    pub i: &'a [f64],
    /// `sum w P^2`; empty where the measure does not ask.
    pub ii: &'a [f64],
    /// What the channel's samples are to be multiplied by to be in one scale with the other channels.
    pub factor: f64,
}

/// Row buffers of one worker.
#[derive(Default)]
pub struct RowBuffers {
    /// Scores.
    pub out: Aligned<f64>,
    taken: Aligned<f64>,
    cross: Aligned<f64>,
    energy: Aligned<f64>,
    square: Aligned<f64>,
    narrow: [Vec<i64>; 2],
    wide: [Vec<i128>; 2],
}

impl RowBuffers {
    /// Buffers for rows of up to `width` outputs.
    pub fn new(width: usize, integers: Option<Integers>, memory: &mut Memory) -> RowBuffers {
        let narrow = if integers == Some(Integers::Narrow) { width } else { 0 };
        let wide = if integers == Some(Integers::Wide) { width } else { 0 };
        let floats = if integers.is_none() { width } else { 0 };
        RowBuffers {
            out: memory.aligned(0.0, width),
            taken: memory.aligned(0.0, width),
            cross: memory.aligned(0.0, floats),
            energy: memory.aligned(0.0, floats),
            square: memory.aligned(0.0, floats),
            narrow: [memory.values(0, narrow), memory.values(0, narrow)],
            wide: [memory.values(0, wide), memory.values(0, wide)],
        }
    }

    /// The energy and the sum of squares of a panel of the row that was finished last.
    pub fn panel(&self, x: usize) -> (f64, f64) {
        (self.energy[x], self.square[x])
    }

    /// Whether the squared difference of panel `x` of the row that was finished last is to be taken again.
    pub fn overflows(&self, measure: Measure, x: usize, rule: &Overflow, constants: &Constants) -> bool {
        let Common { image, template } = constants.common;
        let (panel, of_template) = (self.energy[x] * (image * image), constants.template * template * template);
        let cross = self.cross[x] * (image * template);
        let score = with_formula!(measure, F => F::finish(cross, panel, of_template));
        rule.doubts(score, panel, of_template)
    }
}

/// What is the same for every panel of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// `sum w`.
    pub n: f64,
    /// Energy of the template.
    pub template: f64,
    /// What brings the sums of the tile and of the template to one scale.
    pub common: Common,
    /// What a score is multiplied by, one after the other, to be in the units of the image.
    pub unscale: [f64; 2],
    /// A panel is doubtful unless its energy exceeds `.0 + .1 * sum of squares`; `None` where none can be.
    pub doubt: Option<(f64, f64)>,
}

/// Powers of two, none above 1, that bring a tile's samples and the template's values to the scale of the larger of
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// For samples.
    pub image: f64,
    /// For template values.
    pub template: f64,
}

impl Common {
    /// From the scales that both were multiplied by.
    pub fn of(image: f64, template: f64) -> Common {
        let common = image.min(template);
        Common { image: common / image, template: common / template }
    }
}

impl RowBuffers {
    /// Takes a channel's cross term, `sum w P t`.
    #[inline(always)]
    pub fn take<T: Real>(&mut self, cross: &[T]) {
        self.taken.iter_mut().zip(cross).for_each(|(to, from)| *to = from.to_f64());
    }
}

/// Scores of a row of one channel that are its cross term and nothing else, freed of their scale.
pub fn show<T: Real>(isas: &IsaSet, cross: &[T], constants: &Constants, out: &mut [f64]) {
    let [first, second] = constants.unscale;
    let row = out.iter_mut().zip(cross);
    // No sum is a negative zero.
    isa::vectorized!(isas, || match (first, second) {
        (1.0, 1.0) => row.for_each(|(out, cross)| *out = cross.to_f64() + 0.0),
        _ => row.for_each(|(out, cross)| *out = (cross.to_f64() + 0.0) * first * second),
    });
}

/// Adds the sums of one channel to the row: in floats, or in the integers that the problem was found to need.
pub fn add(
    isas: &IsaSet,
    measure: Measure,
    integers: Option<Integers>,
    channel: &ChannelRow<'_>,
    constants: &Constants,
    rows: &mut RowBuffers,
) {
    let (width, t) = (channel.width, channel.template_sum);
    let taken = &rows.taken[..width];
    with_formula!(measure, F => isa::vectorized!(isas, || match integers {
        None => {
            let sums = [&mut rows.cross[..width], &mut rows.energy[..width], &mut rows.square[..width]];
            add_floats::<F>(channel, constants, taken, sums)
        }
        Some(Integers::Narrow) => {
            add_integers::<F, i64>(channel, taken, constants.n as i64, t as i64, &mut rows.narrow)
        }
        Some(Integers::Wide) => add_integers::<F, i128>(channel, taken, constants.n as i128, t, &mut rows.wide),
    }));
}

/// Scores of the row whose channels were added. Returns whether some panel is doubtful, which in integers none is.
pub fn settle(
    isas: &IsaSet,
    measure: Measure,
    integers: Option<Integers>,
    width: usize,
    constants: &Constants,
    template: i128,
    rows: &mut RowBuffers,
) -> bool {
    with_formula!(measure, F => isa::vectorized!(isas, || match integers {
        None => settle_floats::<F>(
            constants,
            &rows.cross[..width],
            &rows.energy[..width],
            &rows.square[..width],
            &mut rows.out[..width],
        ),
        Some(Integers::Narrow) => settle_integers::<F, i64>(template as i64, &rows.narrow, &mut rows.out[..width]),
        Some(Integers::Wide) => settle_integers::<F, i128>(template, &rows.wide, &mut rows.out[..width]),
    }))
}

#[inline(always)]
fn add_floats<F: Formula>(
    channel: &ChannelRow<'_>,
    constants: &Constants,
    taken: &[f64],
    [cross, energy, square]: [&mut [f64]; 3],
) {
    if channel.number == 0 {
        cross.fill(0.0);
        energy.fill(0.0);
        square.fill(0.0);
    }
    let (factor, factor2) = (channel.factor, channel.factor * channel.factor);
    cross.iter_mut().zip(taken).for_each(|(to, from)| *to += from * factor);
    if F::NEEDS.square {
        let ii = channel.ii;
        let i = if F::NEEDS.sum { channel.i } else { ii };
        for (((energy, square), &ii), &i) in energy.iter_mut().zip(square).zip(ii).zip(i) {
            *energy += F::energy(i, ii, constants.n) * factor2;
            *square += ii * factor2;
        }
    }
}

#[inline(always)]
fn settle_floats<F: Formula>(
    constants: &Constants,
    cross: &[f64],
    energy: &[f64],
    square: &[f64],
    out: &mut [f64],
) -> bool {
    let Common { image, template } = constants.common;
    let (of_cross, of_energy, of_template) =
        (image * template, image * image, constants.template * template * template);
    let [first, second] = constants.unscale;
    for ((out, &cross), &energy) in out.iter_mut().zip(cross).zip(energy) {
        *out = F::finish(cross * of_cross, energy * of_energy, of_template) * first * second;
    }
    let Some((low, share)) = constants.doubt else {
        return false;
    };
    let mut doubtful = 0u32;
    for (&energy, &square) in energy.iter().zip(square) {
        let certain = energy > low + share * square;
        // An energy that is no number is not certain either.
        doubtful |= u32::from(!certain);
    }
    doubtful != 0
}

#[inline(always)]
fn add_integers<F: Formula, I: Integer>(
    channel: &ChannelRow<'_>,
    taken: &[f64],
    n: I,
    t: I,
    [cross, energy]: &mut [Vec<I>; 2],
) {
    let (cross, energy) = (&mut cross[..channel.width], &mut energy[..channel.width]);
    if channel.number == 0 {
        cross.fill(I::from(0));
        energy.fill(I::from(0));
    }
    for x in 0..channel.width {
        let i = if F::NEEDS.sum { I::of(channel.i[x]) } else { I::from(0) };
        cross[x] = cross[x] + F::exact_cross(I::of(taken[x]), i, t, n);
        if F::NEEDS.square {
            energy[x] = energy[x] + F::exact_energy(i, I::of(channel.ii[x]), n);
        }
    }
}

#[inline(always)]
fn settle_integers<F: Formula, I: Integer>(template: I, [cross, energy]: &[Vec<I>; 2], out: &mut [f64]) -> bool {
    for ((out, &cross), &energy) in out.iter_mut().zip(cross).zip(energy) {
        let score = F::exact_finish(cross, energy, template);
        *out = if F::NEEDS.square && !F::DEGENERATE.is_nan() && energy.is_zero() { F::DEGENERATE } else { score };
    }
    false
}
