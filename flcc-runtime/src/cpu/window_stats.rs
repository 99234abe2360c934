//! Statistics of every window of an image: sum, mean, variance, minimum and maximum, at a bounded cost per sample.
//!
//! Tiles grow with the window, so that a margin never costs more than the tile; they are shared by the threads asked
//! for.

use flcc_core::Pixels;
use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::{ExecError, PlanError, SpecError};
use flcc_core::extent::Mode;
use flcc_core::frame::Frame;
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::view::AnyView;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::cpu::aligned::Aligned;
use crate::cpu::gather::{self, Target};
use crate::cpu::real::Real;
use crate::cpu::score::window_sums;
use crate::isa::IsaSet;
use crate::plan::machine::Machine;
use crate::problem::powers::{exponent, power_of_two};
use crate::run::execute::{Control, Statistics};
use crate::run::geometry::{Pitch, Samples};
use crate::run::tiling::Tiling;
use crate::run::workers;

/// A statistic of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stat {
    /// `sum P`.
    Sum,
    /// `sum P / n`.
    Mean,
    /// `sum (P - mean)^2 / n`, never negative.
    Var,
    /// The smallest sample.
    Min,
    /// The largest sample.
    Max,
}

const STATS: [(&str, Stat); 5] =
    [("sum", Stat::Sum), ("mean", Stat::Mean), ("var", Stat::Var), ("min", Stat::Min), ("max", Stat::Max)];

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STATS.iter().find(|(_, stat)| stat == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for Stat {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Stat, SpecError> {
        STATS
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, stat)| *stat)
            .ok_or_else(|| SpecError::new("statistic", "sum, mean, var, min or max", text))
    }
}

/// The least sides of a tile of outputs: a signal's, and those of planes and volumes.
const SIDES: [[usize; 3]; 2] = [[1, 1, 65536], [32, 256, 256]];

/// The most samples under a tile that grows only to waste less on its margin: 128 MiB of f64.
const LARGEST_GROWN: usize = 16 << 20;

/// A statistic of every window of an image, over the same extents and boundaries as a correlation with a template of
/// that shape. One channel; on all cores. [`WindowStats`] has threads, a memory limit, progress and a way to cancel.
///
/// Output position `b` is the window that begins at sample `b` of the image (mode valid), see [`Mode`]; its value has
/// the unit of a sample, that of its square for the variance. Sums run in f64 and are exact for 8- and 16-bit pixels
/// while `sum P^2 < 2^53`; for floats samples are shifted near zero first for the variance. Results are rounded once to
/// `out`, f32 or f64. A window that touches NaN or an infinity is NaN. Cost: a bounded number of operations a sample,
/// whatever the window.
///
/// ```
/// use flcc_runtime::{Boundary, DType, Mode, Shape, Stat, View, window_stats};
///
/// let image = View::new(&[1u8, 2, 3, 4], Shape::new(&[4])?)?;
/// let map = window_stats(&image.into(), Shape::new(&[3])?, Stat::Mean, Mode::Valid, Boundary::Zero, DType::F32)?;
/// assert_eq!((map.get(0), map.get(1)), ((1.0 + 2.0 + 3.0) / 3.0, (2.0 + 3.0 + 4.0) / 3.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Shapes that do not go together, several channels, an integer output type.
pub fn window_stats(
    image: &AnyView<'_>,
    window: Shape,
    stat: Stat,
    mode: Mode,
    boundary: Boundary,
    out: DType,
) -> Result<ScoreMap, ExecError> {
    WindowStats::new(image, window, stat, mode, boundary, out)?.run(&Control::default())
}

/// A statistic of every window of an image, about to be computed: with so many threads, within so much memory.
///
/// The result does not depend on the threads. A memory limit may choose smaller tiles; then sums of floats may differ
/// in their last bits, which is where they are rounded.
#[derive(Clone, Debug)]
pub struct WindowStats<'a> {
    image: AnyView<'a>,
    frame: Frame,
    boundary: Boundary,
    out: DType,
    stat: Stat,
    threads: usize,
    memory_limit: Option<usize>,
    isas: IsaSet,
}

impl<'a> WindowStats<'a> {
    /// The problem of [`window_stats`], on all cores.
    ///
    /// # Errors
    /// As [`window_stats`]; `FLCC_ISA` names no instruction set.
    pub fn new(
        image: &AnyView<'a>,
        window: Shape,
        stat: Stat,
        mode: Mode,
        boundary: Boundary,
        out: DType,
    ) -> Result<WindowStats<'a>, SpecError> {
        if image.channels() != 1 {
            return Err(SpecError::new("image", "1 channel", image.channels()));
        }
        let frame = Frame::new(image.shape(), window, mode).map_err(|error| {
            if error.argument == "template" { SpecError { argument: "window".into(), ..error } } else { error }
        })?;
        let (boundary, out) = (boundary.outside(mode)?, out.of_results()?);
        let machine = Machine::detect()?;
        Ok(WindowStats {
            image: *image,
            frame,
            boundary,
            out,
            stat,
            threads: machine.cores(),
            memory_limit: None,
            isas: machine.isas(),
        })
    }

    /// Threads to compute with; 0 for one a core.
    ///
    /// # Errors
    /// `FLCC_ISA` names no instruction set.
    pub fn threads(self, threads: usize) -> Result<WindowStats<'a>, SpecError> {
        let threads = if threads == 0 { Machine::detect()?.cores() } else { threads };
        Ok(WindowStats { threads, ..self })
    }

    /// Bytes that the buffers of all threads may take, above image and result.
    pub fn memory_limit(self, bytes: Option<usize>) -> WindowStats<'a> {
        WindowStats { memory_limit: bytes, ..self }
    }

    /// The shape of the result.
    pub fn out_shape(&self) -> Shape {
        self.frame.region().shape
    }

    /// Bytes that a run takes above image and result.
    ///
    /// # Errors
    /// A memory limit that no tile meets, with what the smallest takes.
    pub fn scratch_bytes(&self) -> Result<usize, PlanError> {
        let (tiling, workers) = self.plan()?;
        Ok(workers.saturating_mul(self.tile_bytes(&tiling)))
    }

    /// Computes it; progress is told after every tile, a cancel token is asked before.
    ///
    /// # Errors
    /// The memory limit; cancelled.
    pub fn run(&self, control: &Control<'_>) -> Result<ScoreMap, ExecError> {
        let (tiling, workers) = self.plan()?;
        let mut workers: Vec<Buffers> = (0..workers).map(|_| self.buffers(&tiling)).collect();
        let region = self.frame.region();
        let [_, height, width] = region.shape.padded();
        let map = match self.out {
            DType::F64 => Pixels::F64(vec![0.0; region.shape.len()]),
            _ => Pixels::F32(vec![0.0; region.shape.len()]),
        };
        // Rows are handed over under a lock: that is a copy, small beside what a tile costs.
        let map = Mutex::new(map);
        workers::run(&mut workers, tiling.count(), control, |index, buffers| {
            let tile = tiling.get(index);
            buffers.tile(
                &self.image,
                self.boundary,
                tiling.samples(&tile),
                self.stat,
                self.frame.window().padded(),
                tile.keep,
            );
            let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            for z in z0..z1 {
                for y in y0..y1 {
                    let to = ((tile.place[0] + z - z0) * height + tile.place[1] + y - y0) * width + tile.place[2];
                    let from = z * buffers.pitch.plane + y * buffers.pitch.row;
                    let row = &buffers.samples[from + x0..from + x1];
                    match &mut *map {
                        Pixels::F64(out) => out[to..to + row.len()].copy_from_slice(row),
                        Pixels::F32(out) => out[to..].iter_mut().zip(row).for_each(|(out, value)| *out = *value as f32),
                        _ => unreachable!("results are floats"),
                    }
                }
            }
            Statistics::default()
        })?;
        Ok(ScoreMap::new(region, map.into_inner().unwrap_or_else(PoisonError::into_inner))?)
    }

    /// The grid of tiles, and how many threads have one: the tile follows from the problem and the memory limit alone.
    fn plan(&self) -> Result<(Tiling, usize), PlanError> {
        let mut side = tile_sides(self.frame);
        // Below a quarter of the window a tile would compute its margin again and again.
        let least = self.frame.window().padded().map(|length| (length / 4).max(1));
        loop {
            let tiling = Tiling::new(self.frame, side);
            let (bytes, limit) = (self.tile_bytes(&tiling), self.memory_limit.unwrap_or(usize::MAX));
            if bytes <= limit {
                let workers = self.threads.min(tiling.count()).min(limit / bytes.max(1)).max(1);
                return Ok((tiling, workers));
            }
            let largest = tiling.largest();
            let Some(axis) = (0..3).filter(|&axis| largest[axis] > least[axis]).max_by_key(|&axis| largest[axis])
            else {
                return Err(PlanError::Memory { needed: bytes, limit });
            };
            side[axis] = (largest[axis] / 2).max(least[axis]);
        }
    }

    fn layout(&self, tiling: &Tiling) -> (Pitch, window_sums::Lattice) {
        let (largest, window) = (tiling.largest(), self.frame.window().padded());
        let [planes, rows, row] = [0, 1, 2].map(|axis| largest[axis] + window[axis] - 1);
        let pitch = Pitch { row, plane: row * rows, rows, planes };
        (pitch, window_sums::Lattice { shape: [planes, rows, row], row_pitch: row, plane_pitch: row * rows })
    }

    /// Bytes of the buffers of one thread, `usize::MAX` where that many cannot be counted.
    fn tile_bytes(&self, tiling: &Tiling) -> usize {
        let (largest, window) = (tiling.largest(), self.frame.window().padded());
        let samples =
            [0, 1, 2].iter().try_fold(1usize, |count, &axis| count.checked_mul(largest[axis] + window[axis] - 1));
        let Some(samples) = samples.filter(|&samples| samples <= isize::MAX as usize / 64) else {
            return usize::MAX;
        };
        let buffers = if self.stat == Stat::Var { 3 } else { 2 };
        let work = window_sums::scratch_len(&self.layout(tiling).1, window);
        buffers * Aligned::<f64>::bytes(samples) + Aligned::<f64>::bytes(work)
    }

    fn buffers(&self, tiling: &Tiling) -> Buffers {
        let (pitch, layout) = self.layout(tiling);
        Buffers {
            samples: Aligned::new(0.0, pitch.elements()),
            squares: Aligned::new(0.0, if self.stat == Stat::Var { pitch.elements() } else { 0 }),
            marks: Aligned::new(0.0, pitch.elements()),
            work: Aligned::new(0.0, window_sums::scratch_len(&layout, self.frame.window().padded())),
            pitch,
            isas: self.isas,
        }
    }
}

/// Outputs of a tile an axis: never fewer than the window has samples, so that the margin, which is computed again in
/// the next tile, costs a bounded factor; more while that factor is above 2.5 and the buffers stay small.
fn tile_sides(frame: Frame) -> [usize; 3] {
    let (window, whole) = (frame.window().padded(), frame.mode_region().shape.padded());
    let base = SIDES[usize::from(frame.image().axes() > 1)];
    let mut side = [0, 1, 2].map(|axis| base[axis].max(window[axis]));
    let outputs = |side: &[usize; 3], axis: usize| side[axis].min(whole[axis]) as f64;
    let waste = |side: &[usize; 3], axis: usize| 1.0 + (window[axis] - 1) as f64 / outputs(side, axis);
    let samples =
        |side: &[usize; 3]| (0..3).map(|axis| outputs(side, axis) + (window[axis] - 1) as f64).product::<f64>();
    while (0..3).map(|axis| waste(&side, axis)).product::<f64>() > 2.5 {
        let growing = (0..3).filter(|&axis| side[axis] < whole[axis]);
        let Some(axis) = growing.max_by(|&a, &b| waste(&side, a).total_cmp(&waste(&side, b))) else { break };
        let mut larger = side;
        larger[axis] *= 2;
        if samples(&larger) > LARGEST_GROWN as f64 {
            break;
        }
        side = larger;
    }
    side
}

struct Buffers {
    samples: Aligned<f64>,
    squares: Aligned<f64>,
    marks: Aligned<f64>,
    work: Aligned<f64>,
    pitch: Pitch,
    isas: IsaSet,
}

impl Buffers {
    /// Reduces the windows of one tile; the results of `keep` stand in `samples`.
    fn tile(
        &mut self,
        image: &AnyView<'_>,
        boundary: Boundary,
        samples: Samples,
        stat: Stat,
        window: [usize; 3],
        keep: [(usize, usize); 3],
    ) {
        let Buffers { samples: data, squares, marks, work, pitch, isas } = self;
        let (pitch, isas) = (*pitch, &*isas);
        let varies = stat == Stat::Var;
        let offset = if varies { gather::offset(image, boundary, samples) } else { 0.0 };
        let target = Target { out: data, marks, pitch, hides: None, reach: f64::REACH, isas: *isas };
        let done = gather::gather(image, boundary, samples, offset, if varies { None } else { Some(1.0) }, target);
        let tile = window_sums::Lattice { shape: samples.len, row_pitch: pitch.row, plane_pitch: pitch.plane };
        if done.marked {
            window_sums::maximum(isas, marks, work, &tile, window);
        }
        if varies {
            squares.iter_mut().zip(data.iter()).for_each(|(square, value)| *square = value * value);
            window_sums::sum(isas, squares, work, &tile, window);
        }
        match stat {
            Stat::Min => window_sums::minimum(isas, data, work, &tile, window),
            Stat::Max => window_sums::maximum(isas, data, work, &tile, window),
            Stat::Sum | Stat::Mean | Stat::Var => window_sums::sum(isas, data, work, &tile, window),
        }
        let n = window.iter().product::<usize>() as f64;
        let back = power_of_two(-exponent(done.scale));
        let [(z0, z1), (y0, y1), (x0, x1)] = keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let from = z * pitch.plane + y * pitch.row;
            let row = from + x0..from + x1;
            match stat {
                Stat::Sum | Stat::Min | Stat::Max => {}
                Stat::Mean => data[row.clone()].iter_mut().for_each(|value| *value /= n),
                Stat::Var => {
                    for (value, square) in data[row.clone()].iter_mut().zip(&squares[row.clone()]) {
                        *value = ((square - *value * *value / n) / n).max(0.0) * back * back;
                    }
                }
            }
            if done.marked {
                data[row.clone()]
                    .iter_mut()
                    .zip(&marks[row])
                    .filter(|(_, mark)| **mark != 0.0)
                    .for_each(|(value, _)| *value = f64::NAN);
            }
        }
    }
}
