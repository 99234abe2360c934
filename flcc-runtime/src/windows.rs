//! Statistics of every window of an image: sum, mean, variance, minimum and maximum, at a bounded cost per sample.

use flcc_core::Pixels;
use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::SpecError;
use flcc_core::extent::Mode;
use flcc_core::op::Op;
use flcc_core::score::ScoreMap;
use flcc_core::shape::Shape;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;
use std::fmt;
use std::str::FromStr;

use crate::cpu::isa::IsaSet;
use crate::cpu::real::{exponent, power_of_two};
use crate::cpu::sums;
use crate::pad::{self, Pitch, Target};
use crate::tiling::Tiling;

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

const STATS: [(&str, Stat); 5] = [("sum", Stat::Sum), ("mean", Stat::Mean), ("var", Stat::Var), ("min", Stat::Min), ("max", Stat::Max)];

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

/// A statistic of every window of an image, over the same extents and boundaries as a correlation with a template of that
/// shape. One channel.
///
/// Sums run in f64 and are exact for 8- and 16-bit pixels while `sum P^2 < 2^53`; for floats samples are shifted near zero
/// first for the variance. Results are rounded once to `out`, f32 or f64. A window that touches NaN or an infinity is NaN.
/// Cost: independent of the window's size.
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
) -> Result<ScoreMap, SpecError> {
    if image.channels() != 1 {
        return Err(SpecError::new("image", "1 channel", image.channels()));
    }
    // A correlation with ones is the same problem to the grid of tiles.
    let spec = Spec::new(Op::Correlate, image.dtype(), image.shape(), image.dtype(), window, mode)
        .map_err(|error| if error.argument == "template" { SpecError { argument: "window".into(), ..error } } else { error })?
        .with_boundary(boundary)?
        .with_out_type(out)?;
    let side = if image.shape().axes() == 1 { [1, 1, 65536] } else { [32, 256, 256] };
    let tiling = Tiling::new(&spec, side.map(|length: usize| length));
    let (largest, template) = (tiling.largest(), window.padded());
    let row = largest[2] + template[2] - 1;
    let rows = largest[1] + template[1] - 1;
    let pitch = Pitch { row, plane: row * rows, rows, planes: largest[0] + template[0] - 1 };
    let layout = sums::Layout { shape: [pitch.planes, pitch.rows, pitch.row], row_pitch: pitch.row, plane_pitch: pitch.plane };
    let mut buffers = Buffers {
        samples: vec![0.0; pitch.elements()],
        squares: Vec::new(),
        marks: vec![0.0; pitch.elements()],
        work: vec![0.0; sums::scratch_len(&layout, template)],
        pitch,
        isas: IsaSet::detect(),
    };
    if stat == Stat::Var {
        buffers.squares = vec![0.0; pitch.elements()];
    }
    let shape = spec.out_shape();
    let mut result = vec![0.0; shape.len()];
    let [_, height, width] = shape.padded();
    for index in 0..tiling.count() {
        let tile = tiling.get(index);
        let value = buffers.tile(image, boundary, tiling.samples(&tile), stat, template);
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        for z in z0..z1 {
            for y in y0..y1 {
                let to = ((tile.place[0] + z - z0) * height + tile.place[1] + y - y0) * width + tile.place[2];
                let from = z * pitch.plane + y * pitch.row;
                for x in x0..x1 {
                    result[to + x - x0] = value(&buffers, from + x);
                }
            }
        }
    }
    ScoreMap::new(spec.region(), Pixels::F64(result).cast(out))
}

struct Buffers {
    samples: Vec<f64>,
    squares: Vec<f64>,
    marks: Vec<f64>,
    work: Vec<f64>,
    pitch: Pitch,
    isas: IsaSet,
}

impl Buffers {
    /// Reduces the windows of one tile; returns how to read a result at an index.
    fn tile(
        &mut self,
        image: &AnyView<'_>,
        boundary: Boundary,
        samples: pad::Samples,
        stat: Stat,
        window: [usize; 3],
    ) -> impl Fn(&Buffers, usize) -> f64 + use<> {
        let Buffers { samples: data, squares, marks, work, pitch, isas } = self;
        let (pitch, isas) = (*pitch, &*isas);
        let varies = stat == Stat::Var;
        let offset = if varies { pad::offset(image, boundary, samples) } else { 0.0 };
        let done = pad::gather(image, boundary, samples, offset, if varies { None } else { Some(1.0) }, Target { out: data, marks, pitch });
        let tile = sums::Layout { shape: samples.len, row_pitch: pitch.row, plane_pitch: pitch.plane };
        if done.marked {
            sums::maximum(isas, marks, work, &tile, window);
        }
        if varies {
            squares.iter_mut().zip(data.iter()).for_each(|(square, value)| *square = value * value);
            sums::sum(isas, squares, work, &tile, window);
        }
        match stat {
            Stat::Min => sums::minimum(isas, data, work, &tile, window),
            Stat::Max => sums::maximum(isas, data, work, &tile, window),
            Stat::Sum | Stat::Mean | Stat::Var => sums::sum(isas, data, work, &tile, window),
        }
        let n = window.iter().product::<usize>() as f64;
        let back = power_of_two(-exponent(done.scale));
        move |buffers: &Buffers, at: usize| {
            if done.marked && buffers.marks[at] != 0.0 {
                return f64::NAN;
            }
            let value = buffers.samples[at];
            match stat {
                Stat::Sum | Stat::Min | Stat::Max => value,
                Stat::Mean => value / n,
                Stat::Var => ((buffers.squares[at] - value * value / n) / n).max(0.0) * back * back,
            }
        }
    }
}
