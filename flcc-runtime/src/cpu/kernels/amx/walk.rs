//! What brings the unit of tiles its windows and takes the sums from it: blocks, windows laid out, rows handed on.
//!
//! It multiplies nothing itself and knows no registers: the unit is a trait, of which the tests have another.

use super::plot::{LINE, Plot, SIDE, SPAN, WINDOWS};
use crate::cpu::kernels::operands::{ByteTile, GROUP};
use crate::isa::{self, avx512_sums as sums};

/// Products that share their taps: of as many tiles of sums, beside which the unit holds one of windows and one of
/// taps.
pub const BLOCK: usize = 6;

/// What is multiplied: byte `k` of window `m` of product `p` for tile `t` in plane `z` of the template is
/// `samples[t * next + z * plane + p * step + m * pitch + k]`.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// Where the first window begins.
    pub samples: &'a [i8],
    /// From the windows of one tile of sums to those of the next.
    pub next: usize,
    /// From a plane of samples to the next.
    pub plane: usize,
    /// From the windows of one product to those of the next.
    pub step: usize,
    /// From one window to the next.
    pub pitch: usize,
    /// Planes of the template.
    pub planes: usize,
}

impl Windows<'_> {
    /// How far so many tiles of so many windows reach, with so many products a plane.
    pub fn reach(&self, tiles: usize, windows: usize, steps: usize) -> usize {
        let to_last = |count: usize, pitch: usize| count.saturating_sub(1).saturating_mul(pitch);
        [
            to_last(tiles, self.next),
            to_last(self.planes, self.plane),
            to_last(steps, self.step),
            to_last(windows, self.pitch),
        ]
        .into_iter()
        .fold(LINE, usize::saturating_add)
    }
}

/// A tile of sums, 16 for each window.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Sums(pub [i32; SPAN]);

/// What multiplies tiles.
pub trait Unit {
    /// Prepares for tiles of so many windows, from 1 to 16.
    fn set(&mut self, windows: usize);

    /// Overwrites up to six tiles of sums with those of the products of their windows and the taps, [`Plot::groups`] of
    /// them; what lies in a tile of sums past its windows is left as it is.
    ///
    /// # Panics
    ///
    /// If the samples or taps are too few.
    fn multiply(&mut self, windows: Windows<'_>, taps: &[[u8; GROUP]], sums: &mut [Sums]);
}

/// Computes a tile.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn walk(unit: &mut impl Unit, tile: &mut ByteTile<'_>) {
    let plot = Plot::new(tile.kernel_shape);
    match plot.columns() {
        _ if plot.in_place() => walk_rows(unit, tile),
        16 => walk_windows::<16>(unit, &plot, tile),
        8 => walk_windows::<8>(unit, &plot, tile),
        _ => walk_windows::<4>(unit, &plot, tile),
    }
}

/// By windows of `COLUMNS` neighbours, 16 of them side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn walk_windows<const COLUMNS: usize>(unit: &mut impl Unit, plot: &Plot, tile: &mut ByteTile<'_>) {
    let [depth, height, width] = tile.out_shape;
    let (plane, next, block) = (plot.below(height) * WINDOWS, plot.lines() * WINDOWS, BLOCK * plot.rows);
    let mut sums = [Sums([0; SPAN]); BLOCK];
    for x in (0..width).step_by(SIDE * COLUMNS) {
        let columns = (width - x).min(SIDE * COLUMNS);
        match plot.piece() {
            16 => lay_windows::<16>(plot, tile, x, columns),
            32 => lay_windows::<32>(plot, tile, x, columns),
            _ => lay_windows::<LINE>(plot, tile, x, columns),
        }
        unit.set(columns.div_ceil(COLUMNS));
        for (z, y) in (0..depth).flat_map(|z| (0..height).step_by(block).map(move |y| (z, y))) {
            let rows = (height - y).min(block);
            let samples = &tile.room[z * plane + y / plot.rows * next..];
            let windows = Windows { samples, next, plane, step: WINDOWS, pitch: LINE, planes: plot.depth };
            unit.multiply(windows, tile.template, &mut sums[..rows.div_ceil(plot.rows)]);
            for row in 0..rows {
                let at = z * tile.out_plane + (y + row) * tile.out_row + x;
                let (sums, part) = (&sums[row / plot.rows], row % plot.rows);
                hand_on::<COLUMNS>(sums, part, tile.bias, tile.bits, &mut tile.out[at..at + columns]);
            }
        }
    }
}

/// Templates of one row: row by row, several times 256 columns at once.
#[inline]
#[target_feature(enable = "avx512f")]
fn walk_rows(unit: &mut impl Unit, tile: &mut ByteTile<'_>) {
    let [depth, height, width] = tile.out_shape;
    let whole = width / SPAN * SPAN;
    let mut sums = [Sums([0; SPAN]); BLOCK];
    // All whole products first: to be set costs time.
    for (from, to, block) in
        [(0, whole, BLOCK * SPAN), (whole, width, SPAN)].into_iter().filter(|(from, to, _)| from < to)
    {
        unit.set((to - from).min(SPAN).div_ceil(SIDE));
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            for x in (from..to).step_by(block) {
                let columns = (to - x).min(block);
                let samples = &tile.input.as_flattened()[GROUP * (z * tile.in_plane + y * tile.in_row) + x..];
                let windows = Windows { samples, next: SPAN, plane: 0, step: LINE, pitch: SIDE, planes: 1 };
                let sums = &mut sums[..columns.div_ceil(SPAN)];
                unit.multiply(windows, tile.template, sums);
                let at = z * tile.out_plane + y * tile.out_row + x;
                for (out, sums) in tile.out[at..at + columns].chunks_mut(SPAN).zip(sums) {
                    hand_on::<SIDE>(sums, 0, tile.bias, tile.bits, out);
                }
            }
        }
    }
}

/// Lays out the windows of so many columns of outputs from `x` on, by pieces: those of a product lie side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn lay_windows<const PIECE: usize>(plot: &Plot, tile: &mut ByteTile<'_>, x: usize, columns: usize) {
    let [depth, height, _] = tile.out_shape;
    let (plane, apart) = (plot.below(height) * WINDOWS, plot.columns());
    for (z, y) in (0..depth + plot.depth - 1).flat_map(|z| (0..height + plot.height - 1).map(move |y| (z, y))) {
        let row = &tile.input.as_flattened()[GROUP * (z * tile.in_plane + y * tile.in_row) + x..];
        for part in (0..plot.stretch()).step_by(PIECE) {
            let byte = y * plot.stretch() + part;
            let lines = &mut tile.room[z * plane + byte / LINE * WINDOWS..][..WINDOWS];
            let samples = row[part..].windows(PIECE).step_by(apart).take(columns.div_ceil(apart));
            for (line, samples) in lines.as_chunks_mut::<LINE>().0.iter_mut().zip(samples) {
                *isa::head_mut::<_, PIECE>(&mut line[byte % LINE..]) = *isa::head(samples);
            }
        }
    }
}

/// One of the rows that windows give `COLUMNS` outputs of.
#[inline]
#[target_feature(enable = "avx512f")]
fn hand_on<const COLUMNS: usize>(sums: &Sums, part: usize, bias: i32, bits: bool, row: &mut [f32]) {
    for (number, out) in row.chunks_mut(sums::LANES).enumerate() {
        let vector = sums::neighbours::<COLUMNS>(&sums.0, number, part);
        sums::store(out, vector, bias, bits);
    }
}
