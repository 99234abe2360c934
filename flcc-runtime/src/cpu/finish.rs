//! From sums to scores, a row at a time: the place where measures meet the sums of the kernels.
//!
//! Row functions have no `match` and no branch in their loops; which formula and which numbers was decided before. They
//! are called through [`Isa`](super::isa::Isa)'s dispatch so that the compiler vectorises them for the machine.

use flcc_core::measure::{Formula, Integer};

use super::real::Real;

/// The sums of one channel along a row of outputs.
pub struct ChannelRow<'a, T> {
    /// `sum w P t`.
    pub cross: &'a [T],
    /// `sum w P`; empty where the measure does not ask.
    pub i: &'a [f64],
    /// `sum w P^2`; empty where the measure does not ask.
    pub ii: &'a [f64],
    /// What the channel's samples are to be multiplied by to be in one scale with the other channels.
    pub factor: f64,
}

/// Row buffers of one worker.
#[derive(Default)]
pub struct Rows {
    /// Scores.
    pub out: Vec<f64>,
    cross: Vec<f64>,
    energy: Vec<f64>,
    square: Vec<f64>,
    narrow: [Vec<i64>; 2],
    wide: [Vec<i128>; 2],
}

impl Rows {
    /// Buffers for rows of up to `width` outputs.
    pub fn new(width: usize, integers: Option<Width>) -> Rows {
        let narrow = if integers == Some(Width::Narrow) { width } else { 0 };
        let wide = if integers == Some(Width::Wide) { width } else { 0 };
        let floats = if integers.is_none() { width } else { 0 };
        Rows {
            out: vec![0.0; width],
            cross: vec![0.0; floats],
            energy: vec![0.0; floats],
            square: vec![0.0; floats],
            narrow: [vec![0; narrow], vec![0; narrow]],
            wide: [vec![0; wide], vec![0; wide]],
        }
    }

    /// The energy and the sum of squares of a panel of the row that was finished last.
    pub fn panel(&self, x: usize) -> (f64, f64) {
        (self.energy[x], self.square[x])
    }
}

/// Which integers hold every sum of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 64 bits.
    Narrow,
    /// 128 bits.
    Wide,
}

/// What is the same for every panel of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// `sum w`.
    pub n: f64,
    /// Energy of the template.
    pub template: f64,
    /// What a score is multiplied by to be in the units of the image.
    pub unscale: f64,
    /// A panel is doubtful unless its energy exceeds `doubt.0 + doubt.1 * sum of squares`.
    pub doubt: (f64, f64),
}

/// Adds the sums of one channel to the row in floats. Returns false, so that channels fold into what [`floats`] returns.
#[inline(always)]
pub fn channel<F: Formula, T: Real>(number: usize, channel: &ChannelRow<'_, T>, constants: &Constants, rows: &mut Rows) -> bool {
    let width = channel.cross.len();
    let (cross, energy, square) = (&mut rows.cross[..width], &mut rows.energy[..width], &mut rows.square[..width]);
    if number == 0 {
        cross.fill(0.0);
        energy.fill(0.0);
        square.fill(0.0);
    }
    let (factor, factor2) = (channel.factor, channel.factor * channel.factor);
    cross.iter_mut().zip(channel.cross).for_each(|(to, from)| *to += from.to_f64() * factor);
    if F::NEEDS.square {
        let ii = &channel.ii[..width];
        let i = if F::NEEDS.sum { &channel.i[..width] } else { ii };
        for x in 0..width {
            energy[x] += F::energy(i[x], ii[x], constants.n) * factor2;
            square[x] += ii[x] * factor2;
        }
    }
    false
}

/// Scores of the row whose channels were added. Returns whether some panel is doubtful.
#[inline(always)]
pub fn floats<F: Formula>(width: usize, constants: &Constants, rows: &mut Rows) -> bool {
    let (cross, energy, square, out) = (&rows.cross[..width], &rows.energy[..width], &rows.square[..width], &mut rows.out[..width]);
    let (low, share) = constants.doubt;
    let mut doubtful = 0u32;
    for x in 0..width {
        out[x] = F::finish(cross[x], energy[x], constants.template) * constants.unscale;
        doubtful |= u32::from(!(energy[x] > low + share * square[x]));
    }
    F::NEEDS.square && doubtful != 0
}

/// Adds the sums of one channel to the row in integers.
#[inline(always)]
fn add<F: Formula, T: Real, I: Integer>(number: usize, channel: &ChannelRow<'_, T>, n: I, t: I, [cross, energy]: &mut [Vec<I>; 2]) {
    let width = channel.cross.len();
    let (cross, energy) = (&mut cross[..width], &mut energy[..width]);
    if number == 0 {
        cross.fill(I::from(0));
        energy.fill(I::from(0));
    }
    for x in 0..width {
        let it = I::of(channel.cross[x].to_f64());
        let i = if F::NEEDS.sum { I::of(channel.i[x]) } else { I::from(0) };
        cross[x] = cross[x] + F::exact_cross(it, i, t, n);
        if F::NEEDS.square {
            energy[x] = energy[x] + F::exact_energy(i, I::of(channel.ii[x]), n);
        }
    }
}

/// Scores of the row whose channels were added as integers; nothing is doubtful.
#[inline(always)]
fn settle<F: Formula, I: Integer>(template: I, [cross, energy]: &[Vec<I>; 2], out: &mut [f64]) {
    for (x, out) in out.iter_mut().enumerate() {
        let score = F::exact_finish(cross[x], energy[x], template);
        *out = if F::NEEDS.square && !F::DEGENERATE.is_nan() && energy[x].is_zero() { F::DEGENERATE } else { score };
    }
}

impl Rows {
    /// Adds the sums of one channel in the integers that the problem was found to need.
    #[inline(always)]
    pub fn add<F: Formula, T: Real>(&mut self, wide: Width, number: usize, channel: &ChannelRow<'_, T>, n: i128, t: i128) {
        match wide {
            Width::Narrow => add::<F, T, i64>(number, channel, n as i64, t as i64, &mut self.narrow),
            Width::Wide => add::<F, T, i128>(number, channel, n, t, &mut self.wide),
        }
    }

    /// Scores of the row whose channels were added in integers.
    #[inline(always)]
    pub fn settle<F: Formula>(&mut self, wide: Width, width: usize, template: i128) {
        match wide {
            Width::Narrow => settle::<F, i64>(template as i64, &self.narrow, &mut self.out[..width]),
            Width::Wide => settle::<F, i128>(template, &self.wide, &mut self.out[..width]),
        }
    }
}
