//! What methods share that add up products, or differences, one after the other: the order of that and what its
//! rounding depends on, templates in constant memory and in buffers.

use flcc_core::dtype::DType;
use flcc_core::runs::{self, Run as Products, Steps as Chunks, Together};
use flcc_generated::Entry;

use crate::cuda::driver::buffer::{Buffer, bytes_of};
use crate::cuda::driver::launch::{Argument, Function, Module};
use crate::cuda::fault::Fault;
use crate::cuda::kernels::Batch;
use crate::cuda::method::{Desk, Run};
use crate::problem::error_model::Figures;
use crate::problem::template::rounded;

/// The runs in which a kernel adds up products, and the places of taps in that order.
pub(crate) fn order(entry: &Entry, template: [usize; 3]) -> (Vec<Products>, Vec<usize>) {
    let Entry { run, rows, planes, chunk, tile, block, .. } = *entry;
    match chunk {
        Some(chunk) => {
            let chunks = Chunks { chunk, step: tile[1] / block[1], run };
            (chunks.runs(template), chunks.order(template).collect())
        }
        None => (Together { run, rows, planes }.runs(template), (0..template.iter().product()).collect()),
    }
}

/// What the rounding of a kernel's sums with these channels of a template depends on.
pub(crate) fn figures(entry: &Entry, template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
    let mut figures = Figures::of(channels.iter());
    let (runs, order) = order(entry, template);
    let roundings = runs::roundings(&runs);
    let (mut varying, mut constant) = (0.0, 0.0);
    for values in channels {
        let taps: Vec<f64> = order.iter().filter_map(|&at| values.get(at).copied()).collect();
        varying +=
            taps.iter().zip(&roundings).map(|(tap, &roundings)| (tap * f64::from(roundings)).powi(2)).sum::<f64>();
        constant += runs::partial_sums(runs.iter().copied(), &taps).powi(2) / taps.len() as f64;
    }
    (figures.varying, figures.constant) = (varying.sqrt(), constant.sqrt());
    figures
}

/// A copy of a kernel for a listed size with the template in its constant memory.
///
/// # Errors
/// The device's.
pub(crate) fn constant(desk: &Desk<'_>, entry: &Entry, values: &[f64]) -> Result<(Module, Function), Fault> {
    let (code, _) = desk.kernel()?;
    let module = desk.gpu.module(&code.cubin, None)?;
    let width = desk.template[2];
    let pitch = entry.taps_stride.unwrap_or(width);
    let real = desk.types.real;
    let size = real.row().size;
    let mut rows = vec![0; values.len() / width * pitch * size];
    for (from, to) in as_real(real, values).chunks(width * size).zip(rows.chunks_mut(pitch * size)) {
        to[..width * size].copy_from_slice(from);
    }
    module.write_constant("flcc_taps", &rows, desk.stream)?;
    let function = module.function(entry.function)?;
    let function = if entry.shared > 0 { function.with_shared(entry.shared)? } else { function };
    Ok((module, function))
}

/// A template as a kernel for any size takes it: its samples, channel by channel.
pub(crate) struct Values {
    /// The kernel.
    pub function: Function,
    values: Buffer,
}

impl Values {
    /// A template's, with the method's kernel.
    ///
    /// # Errors
    /// The device's.
    pub fn new(desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Values, Fault> {
        let (_, function) = desk.kernel()?;
        let taps: Vec<u8> = channels.iter().flat_map(|values| as_real(desk.types.real, values)).collect();
        Ok(Values { function: function.clone(), values: Buffer::of(desk.stream, &taps)? })
    }

    /// The values of a channel, as a kernel's argument.
    pub fn of(&self, at: &Run<'_>, channel: usize) -> Argument<'static> {
        let bytes = samples(at.batch) * at.batch.types.real.row().size;
        Argument::Room(self.values.address(at.stream).skip(channel * bytes), bytes)
    }
}

/// Samples of a template's channel.
fn samples(batch: &Batch) -> usize {
    batch.layout.template.iter().map(|&side| side as usize).product()
}

/// The weights of a batch's templates.
pub(crate) fn weights(at: &Run<'_>) -> Argument<'static> {
    at.weights.map_or(Argument::Null, |weights| Argument::Room(weights, samples(at.batch) * size_of::<f64>()))
}

/// The sides of a batch's templates.
pub(crate) fn sides(batch: &Batch) -> [Argument<'static>; 3] {
    batch.layout.template.map(Argument::Int)
}

/// One channel's values in the bytes of a type that kernels compute in.
fn as_real(dtype: DType, values: &[f64]) -> Vec<u8> {
    match dtype {
        DType::U8 => values.iter().map(|&value| value as u8).collect(),
        DType::F32 => bytes_of(&rounded(values, |value| value as f32).collect::<Vec<f32>>()).to_vec(),
        _ => bytes_of(values).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::testing::{self, Agreeing, Search, Twofold};

    /// The products of two vectors in the runs of a kernel, as its emulation adds them up bit by bit.
    fn in_runs(runs: &[Products], products: impl Iterator<Item = (f32, f32)>) -> f32 {
        let mut products = products;
        let mut of_run =
            |run: &Products| products.by_ref().take(run.products).fold(0.0f32, |sum, (p, t)| p.mul_add(t, sum));
        runs.split_inclusive(|run| run.ends)
            .map(|subtotal| subtotal.iter().fold(0.0, |sum, run| sum + of_run(run)))
            .fold(0.0, |a, b| a + b)
    }

    /// Images of two values, equal samples and one bright sample on an even ground, of which the roundings agree, at
    /// amplitudes that are searched for the worst.
    #[test]
    fn agreeing_errors_stay_within_the_worst_case() {
        let listed = |op, size| flcc_generated::listed(op, "f32", size).unwrap();
        let any = |flat| flcc_generated::generic("corr", "f32", flat).unwrap();
        let cases = [
            (listed("corr", [1, 8, 8]), [1, 8, 8]),
            (listed("zncc", [1, 16, 16]), [1, 16, 16]),
            (listed("zncc", [1, 32, 32]), [1, 32, 32]),
            (listed("zncc", [1, 1, 64]), [1, 1, 64]),
            (listed("zncc", [8, 8, 8]), [8, 8, 8]),
            (any(false), [1, 37, 41]),
            (any(true), [1, 1, 1200]),
        ];
        let rounds = || testing::seeds().take(40);
        let mut search = Search::new(8, cases.len() * rounds().count() * 3);
        for ((entry, shape), round) in cases.into_iter().flat_map(|case| rounds().map(move |round| (case, round))) {
            let (n, mut random) = (shape.iter().product::<usize>(), testing::noise(7 + 31 * round));
            for Agreeing { name, values, taps } in testing::agreeing(n, round, &mut random) {
                let single: Vec<f32> = rounded(&taps, |value| value as f32).collect();
                let (runs, places) = order(entry, shape);
                let of_taps = figures(entry, shape, std::slice::from_ref(&taps));
                search.try_case(
                    || format!("{name} {shape:?}"),
                    &mut random,
                    |amplitude| {
                        let samples: Vec<f32> = values.iter().map(|value| (value * amplitude) as f32).collect();
                        let got = in_runs(&runs, places.iter().map(|&at| (samples[at], single[at])));
                        let (mut exact, mut sum, mut square) = (Twofold::default(), 0.0, 0.0);
                        for (sample, &tap) in samples.iter().map(|&sample| f64::from(sample)).zip(&single) {
                            exact.add_product(sample, tap.into());
                            sum += sample;
                            square += sample * sample;
                        }
                        let constant = sum * sum / n as f64;
                        let granted =
                            of_taps.varying * (square - constant).max(0.0).sqrt() + of_taps.constant * constant.sqrt();
                        exact.error(got.into()) / (f64::from(f32::EPSILON) / 2.0 * granted)
                    },
                );
            }
        }
        search.judge("direct sums on a GPU", 0.2);
    }
}
