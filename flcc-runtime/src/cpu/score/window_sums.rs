//! Sums (or minima, or maxima) over every window of a tile, in place, at a bounded cost per sample whatever the window.
//!
//! No value is ever subtracted: each result is a reduction of exactly the samples of its own window, so a huge sample
//! leaves no trace outside the windows that hold it, and a sum of non-negative terms has the relative error of
//! [`roundings`]. Reads no boundary, allocates nothing. `op` must be associative and commutative (up to rounding); the
//! order is fixed by the layout and the window, never by threads.
//!
//! One axis at a time. Along rows a short window doubles: `S_2m[i] = S_m[i] op S_m[i + m]`, and `S_2m+1` takes one
//! sample more. Across rows (and along them, turned by 90 degrees, when the window is long) rows are cut into blocks of
//! the window's length: a window is a suffix of one block and a prefix of the next, three operations a sample for any
//! length. Source: van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and octagonal
//! kernels", 1992; Gil and Werman, "Computing 2-D min, median, and max filters", 1993. Theirs run through a block one
//! by one; here a prefix is a finished part plus a running one, which brings the roundings of a sum from `K` to
//! `2 sqrt(K)` at no measurable cost. Where that is more than a sum of so many products is granted, in long lines and
//! columns, there are three levels, `3 cbrt(K)` (`Levels`).
//!
//! ns per sample of a 256x256 tile for the windows 1xK, Kx1 and KxK; Xeon at 2.5 GHz (Cascade Lake), the least of 900
//! runs on two cores that others kept busy, so good to some 20 %. A window of 200 has few outputs across the rows:
//!
//! | K | f64, SSE2 | f64, AVX2 | i64, AVX2 | u32, AVX2 |
//! |---|---|---|---|---|
//! | 4 | 0.9, 1.2, 2.0 | 0.5, 0.5, 1.1 | 0.5, 0.5, 0.9 | 0.5, 0.5, 1.0 |
//! | 16 | 1.6, 1.3, 2.8 | 1.2, 0.6, 2.0 | 0.9, 0.7, 1.7 | 1.0, 0.4, 1.1 |
//! | 31 | 2.5, 0.9, 4.1 | 1.8, 0.8, 2.8 | 1.4, 0.6, 2.0 | 1.0, 0.4, 1.2 |
//! | 64 | 2.7, 1.2, 3.6 | 1.7, 0.7, 2.4 | 1.4, 0.6, 2.1 | 1.2, 0.4, 1.9 |
//! | 65 | 2.3, 1.1, 3.6 | 2.8, 0.7, 3.0 | 2.3, 0.5, 2.9 | 1.1, 0.3, 1.5 |
//! | 200 | 2.2, 0.6, 2.5 | 2.4, 0.4, 2.5 | 2.1, 0.3, 2.4 | 1.0, 0.2, 1.2 |
//!
//! Everything is `#[inline(always)]`: called inside a function with `#[target_feature(enable = "avx2")]`, `window` is
//! compiled for it.

use crate::isa::{self, IsaSet, Loops};

/// Where the samples of a tile stand: `[z, y, x]` at `z * plane_pitch + y * row_pitch + x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lattice {
    /// Depth, height, width; at least 1 each.
    pub shape: [usize; 3],
    /// Elements from one row to the next, at least the width.
    pub row_pitch: usize,
    /// Elements from one plane to the next, at least `(height - 1) * row_pitch + width`.
    pub plane_pitch: usize,
}

impl Lattice {
    /// A tile without gaps.
    pub fn dense(shape: [usize; 3]) -> Lattice {
        Lattice { shape, row_pitch: shape[2], plane_pitch: shape[1] * shape[2] }
    }

    /// Elements from the first sample to the last, the gaps between them included.
    pub fn span(&self) -> usize {
        let [depth, height, width] = self.shape;
        (depth - 1) * self.plane_pitch + (height - 1) * self.row_pitch + width
    }

    /// Rows that are reduced together, so that every pass over them finds them in the first cache.
    fn rows_at_once(&self) -> usize {
        (CHUNK / self.row_pitch).max(1)
    }
}

/// The longest window that doubles along rows. Doubling takes a pass for each bit of the window (0.2 to 0.4 ns of f64),
/// turning takes 2.2 to 2.8 ns for any window: they meet at some 64 with AVX2, where a window of 64 takes 1.7 and 200
/// would take 2.7, and at some 31 with SSE2, where it hardly matters; doubling has the fewer roundings.
pub const LONGEST_DOUBLED: usize = 64;

/// Elements that pass after pass goes over: 1024 of 8 bytes, with the copy, are half of a 32 KiB cache.
const CHUNK: usize = 1024;

/// Columns that go through a block together: 16 accumulators of 8 bytes are two cache lines, and fit in the registers.
const LANES: usize = 16;

/// Elements that a turned row is read and written in: a line of 64 bytes.
const LINE: usize = 8;

/// Elements of scratch that [`window`] needs.
pub fn scratch_len(layout: &Lattice, window: [usize; 3]) -> usize {
    let [_, height, width] = layout.shape;
    match window[2] {
        1 => 0,
        2..=LONGEST_DOUBLED => (layout.rows_at_once() * layout.row_pitch).min((height - 1) * layout.row_pitch + width),
        // Fewer rows go one by one, in place.
        _ if height < LANES => 0,
        _ => LANES * width,
    }
}

/// How many roundings a sum of non-negative terms over this window may have gone through: its relative error is at most
/// `roundings * u` up to terms in `u^2`, `u` the unit roundoff of the type.
///
/// An axis of length `K` adds `floor(log2 K) + popcount(K) - 1` where it doubles, else at most `2 ceil(sqrt K)`, or
/// `3 ceil(cbrt K)` where that is more than is granted. Minima, maxima and integers have none.
pub fn roundings(window: [usize; 3]) -> usize {
    roundings_of(window, Levels::of(window))
}

fn roundings_of(window: [usize; 3], levels: Levels) -> usize {
    let blocks = |k: usize| {
        let [part, middle] = levels.sides(k);
        // Of a part, of the parts of a middle and of the middles.
        let run = |n: usize| {
            let parts = n.div_ceil(part);
            n.clamp(1, part) - 1 + parts.clamp(1, middle) - 1 + parts.div_ceil(middle).max(1) - 1
        };
        if k > 1 { run(k).max(run(k - 1) + 1) } else { 0 }
    };
    let doubled = |k: usize| (k.ilog2() + k.count_ones()) as usize - 1;
    blocks(window[0])
        + blocks(window[1])
        + if window[2] <= LONGEST_DOUBLED { doubled(window[2]) } else { blocks(window[2]) }
}

/// How many levels a running reduction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Levels {
    Two,
    Three,
}

impl Levels {
    /// Two where a sum over the window has then no more roundings than are granted, but for some of its finish.
    fn of(window: [usize; 3]) -> Levels {
        let granted = flcc_core::blocks::granted(window.iter().product());
        if roundings_of(window, Levels::Two) + 4 <= granted { Levels::Two } else { Levels::Three }
    }

    /// Rows of a part, and parts of a middle, that balance the roundings in a window of so many rows.
    #[inline(always)]
    fn sides(self, window: usize) -> [usize; 2] {
        match self {
            Levels::Two => [(window - 1).isqrt() + 1, usize::MAX],
            Levels::Three => {
                let side = ((window as f64).cbrt().ceil() as usize).max(1);
                [side, side]
            }
        }
    }
}

/// A reduction over every window, in place; see [`window`].
struct Windows<'a, S, O> {
    data: &'a mut [S],
    scratch: &'a mut [S],
    op: O,
    layout: &'a Lattice,
    shape: [usize; 3],
}

impl<S: Copy, O: Fn(S, S) -> S + Copy> Loops for Windows<'_, S, O> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Windows { data, scratch, op, layout, shape } = self;
        window(data, scratch, op, layout, shape);
    }
}

/// Sums over every window, in place; see [`window`].
#[inline(never)]
pub fn sum(isas: &IsaSet, data: &mut [f64], scratch: &mut [f64], layout: &Lattice, shape: [usize; 3]) {
    isa::vectorized!(isas, Windows { data, scratch, op: |a, b| a + b, layout, shape });
}

/// Minima over every window, in place, of numbers; see [`window`].
#[inline(never)]
pub fn minimum(isas: &IsaSet, data: &mut [f64], scratch: &mut [f64], layout: &Lattice, shape: [usize; 3]) {
    isa::vectorized!(isas, Windows { data, scratch, op: |a, b| if a < b { a } else { b }, layout, shape });
}

/// Maxima over every window, in place, of numbers; see [`window`].
#[inline(never)]
pub fn maximum<S: Copy + PartialOrd>(
    isas: &IsaSet,
    data: &mut [S],
    scratch: &mut [S],
    layout: &Lattice,
    shape: [usize; 3],
) {
    isa::vectorized!(isas, Windows { data, scratch, op: |a, b| if a > b { a } else { b }, layout, shape });
}

/// `data[p] = op over k in window of data[p + k]`, in place, for every `p` whose window lies inside the tile.
///
/// Everything else between the first sample and the last is left unspecified: each such element is a reduction of at
/// most as many elements, gaps included, as a window has samples. Scratch may hold anything.
///
/// # Panics
/// `data` shorter than [`Lattice::span`], `scratch` shorter than [`scratch_len`], a window or a shape with a zero.
#[inline(always)]
pub fn window<S: Copy, O: Fn(S, S) -> S + Copy>(
    data: &mut [S],
    scratch: &mut [S],
    op: O,
    layout: &Lattice,
    window: [usize; 3],
) {
    let &Lattice { shape: [depth, height, width], row_pitch, plane_pitch } = layout;
    assert!(!window.contains(&0) && !layout.shape.contains(&0), "a window and a tile have samples on every axis");
    let data = &mut data[..layout.span()];
    let levels = Levels::of(window);
    if window[2] > 1 {
        for z in 0..depth {
            let plane = &mut data[z * plane_pitch..][..(height - 1) * row_pitch + width];
            if window[2] <= LONGEST_DOUBLED {
                for rows in plane.chunks_mut(layout.rows_at_once() * row_pitch) {
                    along(rows, scratch, op, window[2]);
                }
            } else {
                turned(plane, scratch, op, row_pitch, width, (window[2], levels));
            }
        }
    }
    let planes = (depth, plane_pitch, height, row_pitch, width, window[1]);
    let volume = (1, 0, depth, plane_pitch, (height - 1) * row_pitch + width, window[0]);
    for (count, step, rows, pitch, width, window) in [planes, volume] {
        for i in 0..if window > 1 { count } else { 0 } {
            across(&mut data[i * step..], op, rows, pitch, width, (window, levels));
        }
    }
}

/// Doubles along the buffer from the window's first bit to its last: `m` becomes `2m`, or `2m + 1` where the bit is
/// set. Windows that run over the end of a row are reductions of two rows; nobody reads them.
#[inline(always)]
fn along<S: Copy, O: Fn(S, S) -> S + Copy>(data: &mut [S], scratch: &mut [S], op: O, window: usize) {
    let samples = &mut scratch[..data.len()];
    if !window.is_power_of_two() {
        samples.copy_from_slice(data);
    }
    let mut m = 1;
    for bit in (0..window.ilog2()).rev() {
        if window >> bit & 1 == 0 {
            let n = data.len().saturating_sub(m);
            // What is read ahead was not yet written: ascending, and each block is read before it is written.
            for i in (0..n / LANES * LANES).step_by(LANES) {
                let (a, b) = (*lanes(data, i), *lanes(data, i + m));
                *lanes_mut(data, i) = both::<LANES, S, O>(a, b, op);
            }
            for i in n / LANES * LANES..n {
                data[i] = op(data[i], data[i + m]);
            }
            m *= 2;
        } else {
            let n = data.len().saturating_sub(2 * m);
            for i in (0..n / LANES * LANES).step_by(LANES) {
                let (a, b, c) = (*lanes(data, i), *lanes(data, i + m), *lanes(samples, i + 2 * m));
                *lanes_mut(data, i) = both::<LANES, S, O>(a, both(b, c, op), op);
            }
            for i in n / LANES * LANES..n {
                data[i] = op(data[i], op(data[i + m], samples[i + 2 * m]));
            }
            m = 2 * m + 1;
        }
    }
}

/// Along rows by blocks: [`LANES`] rows at a time become columns in `scratch`, the rows left over go one by one.
#[inline(always)]
fn turned<S: Copy, O: Fn(S, S) -> S + Copy>(
    plane: &mut [S],
    scratch: &mut [S],
    op: O,
    pitch: usize,
    width: usize,
    window: (usize, Levels),
) {
    let scratch = scratch.get_mut(..LANES * width).unwrap_or_default();
    for rows in plane.chunks_mut(LANES * pitch) {
        if rows.len() < (LANES - 1) * pitch + width {
            for row in rows.chunks_mut(pitch) {
                columns::<1, S, O>(&mut row[..width], op, width, 1, window);
            }
            continue;
        }
        let (blocks, last) = scratch.as_chunks_mut::<LANES>().0.as_chunks_mut::<LINE>();
        for r in 0..LANES {
            let (lines, rest) = rows[r * pitch..][..width].as_chunks::<LINE>();
            for (block, line) in blocks.iter_mut().zip(lines) {
                (0..LINE).for_each(|k| block[k][r] = line[k]);
            }
            last.iter_mut().zip(rest).for_each(|(lanes, &value)| lanes[r] = value);
        }
        columns::<LANES, S, O>(scratch, op, width, LANES, window);
        let (blocks, last) = scratch.as_chunks::<LANES>().0.as_chunks::<LINE>();
        for r in 0..LANES {
            let (lines, rest) = rows[r * pitch..][..width].as_chunks_mut::<LINE>();
            for (block, line) in blocks.iter().zip(lines) {
                (0..LINE).for_each(|k| line[k] = block[k][r]);
            }
            last.iter().zip(rest).for_each(|(lanes, value)| *value = lanes[r]);
        }
    }
}

/// Across rows, by groups of columns.
#[inline(always)]
fn across<S: Copy, O: Fn(S, S) -> S + Copy>(
    data: &mut [S],
    op: O,
    rows: usize,
    pitch: usize,
    width: usize,
    window: (usize, Levels),
) {
    let mut column = 0;
    while column < width {
        let data = &mut data[column..];
        column += match width - column {
            LANES.. => columns::<LANES, S, O>(data, op, rows, pitch, window),
            4.. => columns::<4, S, O>(data, op, rows, pitch, window),
            _ => columns::<1, S, O>(data, op, rows, pitch, window),
        };
    }
}

/// `L` columns side by side. A window that begins in a block is a suffix of it and a prefix of the next: suffixes are
/// put in their places, then each is joined with the prefix that completes it. Returns `L`.
#[inline(always)]
fn columns<const L: usize, S: Copy, O: Fn(S, S) -> S + Copy>(
    data: &mut [S],
    op: O,
    rows: usize,
    pitch: usize,
    (window, levels): (usize, Levels),
) -> usize {
    let sides = levels.sides(window);
    let mut block = 0;
    while block + window <= rows {
        let next = block + window;
        running::<L, S, O>(data, op, pitch, sides, (block..next).rev(), |data, r, suffix| {
            *lanes_mut(data, r * pitch) = suffix
        });
        running::<L, S, O>(data, op, pitch, sides, next..rows.min(next + window - 1), |data, r, prefix| {
            let out = lanes_mut(data, (r + 1 - window) * pitch);
            *out = both(*out, prefix, op);
        });
        block = next;
    }
    L
}

/// Hands `emit` the reduction of `rows` so far at each of them: what is finished, parts of the middle at hand, and the
/// part at hand, joined.
#[inline(always)]
fn running<const L: usize, S: Copy, O: Fn(S, S) -> S + Copy>(
    data: &mut [S],
    op: O,
    pitch: usize,
    [side, middle]: [usize; 2],
    mut rows: impl Iterator<Item = usize>,
    emit: impl Fn(&mut [S], usize, [S; L]),
) {
    let Some(first) = rows.next() else { return };
    let mut finished = *lanes::<L, S>(data, first * pitch);
    emit(data, first, finished);
    for r in rows.by_ref().take(side - 1) {
        finished = both(finished, *lanes(data, r * pitch), op);
        emit(data, r, finished);
    }
    // Parts of the first middle go on behind each other.
    let mut parts = 1;
    while parts < middle {
        let Some(joined) = part::<L, S, O>(data, op, pitch, side, &mut rows, &emit, |part| both(finished, part, op))
        else {
            return;
        };
        (finished, parts) = (both(finished, joined, op), parts + 1);
    }
    loop {
        let first = part::<L, S, O>(data, op, pitch, side, &mut rows, &emit, |part| both(finished, part, op));
        let Some(mut together) = first else { return };
        for _ in 1..middle {
            let next = part::<L, S, O>(data, op, pitch, side, &mut rows, &emit, |part| {
                both(finished, both(together, part, op), op)
            });
            let Some(next) = next else { return };
            together = both(together, next, op);
        }
        finished = both(finished, together, op);
    }
}

/// The reduction of the next `side` rows; `emit` gets what `join` makes of it at each of them. `None` if there is no
/// row left.
#[inline(always)]
fn part<const L: usize, S: Copy, O: Fn(S, S) -> S + Copy>(
    data: &mut [S],
    op: O,
    pitch: usize,
    side: usize,
    rows: &mut impl Iterator<Item = usize>,
    emit: &impl Fn(&mut [S], usize, [S; L]),
    join: impl Fn([S; L]) -> [S; L],
) -> Option<[S; L]> {
    let first = rows.next()?;
    let mut part = *lanes::<L, S>(data, first * pitch);
    emit(data, first, join(part));
    for r in rows.by_ref().take(side - 1) {
        part = both(part, *lanes(data, r * pitch), op);
        emit(data, r, join(part));
    }
    Some(part)
}

#[inline(always)]
fn both<const L: usize, S: Copy, O: Fn(S, S) -> S>(a: [S; L], b: [S; L], op: O) -> [S; L] {
    std::array::from_fn(|i| op(a[i], b[i]))
}

#[inline(always)]
fn lanes<const L: usize, S>(data: &[S], from: usize) -> &[S; L] {
    data[from..].first_chunk().expect("a layout that fits its buffer")
}

#[inline(always)]
fn lanes_mut<const L: usize, S>(data: &mut [S], from: usize) -> &mut [S; L] {
    data[from..].first_chunk_mut().expect("a layout that fits its buffer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plain loops: every window, one operation after the other.
    fn expected<S: Copy>(
        data: &[S],
        op: impl Fn(S, S) -> S,
        layout: &Lattice,
        window: [usize; 3],
    ) -> Vec<([usize; 3], S)> {
        let at = |z: usize, y: usize, x: usize| data[z * layout.plane_pitch + y * layout.row_pitch + x];
        let mut all = vec![];
        for p in positions(std::array::from_fn(|a| (layout.shape[a] + 1).saturating_sub(window[a]))) {
            let values = positions(window).into_iter().map(|k| at(p[0] + k[0], p[1] + k[1], p[2] + k[2]));
            all.push((p, values.reduce(&op).unwrap()));
        }
        all
    }

    fn positions([depth, height, width]: [usize; 3]) -> Vec<[usize; 3]> {
        let rows = (0..depth).flat_map(|z| (0..height).map(move |y| (z, y)));
        rows.flat_map(|(z, y)| (0..width).map(move |x| [z, y, x])).collect()
    }

    /// Runs `window` with dirty scratch of exactly the stated length and hands out each result beside the expected one.
    fn check<S: Copy>(
        data: &[S],
        op: impl Fn(S, S) -> S + Copy,
        layout: &Lattice,
        window: [usize; 3],
        equal: impl Fn(S, S) -> bool,
    ) {
        let mut out = data.to_vec();
        let mut scratch = vec![data[0]; scratch_len(layout, window)];
        super::window(&mut out, &mut scratch, op, layout, window);
        for ([z, y, x], value) in expected(data, op, layout, window) {
            assert!(
                equal(out[z * layout.plane_pitch + y * layout.row_pitch + x], value),
                "at {z} {y} {x}, {layout:?}, {window:?}"
            );
        }
    }

    fn numbers(n: usize, seed: u64) -> impl Iterator<Item = u32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        })
    }

    fn check_all(layout: &Lattice, window: [usize; 3], seed: u64) {
        let raw: Vec<u32> = numbers(layout.span(), seed).collect();
        let integers: Vec<i64> = raw.iter().map(|&v| i64::from(v) - (1 << 30)).collect();
        check(&integers, |a, b| a + b, layout, window, |a, b| a == b);
        check(&integers, i64::min, layout, window, |a, b| a == b);
        let small: Vec<u32> = raw.iter().map(|v| v % 65536).collect();
        check(&small, |a, b| a + b, layout, window, |a, b| a == b);
        check(&small, u32::max, layout, window, |a, b| a == b);
        let single: Vec<f32> = raw.iter().map(|&v| (v % 4001) as f32 - 2000.0).collect();
        check(&single, |a, b| if a < b { a } else { b }, layout, window, |a, b| a == b);
        // One sample of 1e300 among 1e-300: a window without it must not know of it.
        let mut floats: Vec<f64> = raw.iter().map(|&v| f64::from(v) * 1e-300).collect();
        let huge = raw[0] as usize % floats.len();
        floats[huge] = 1e300;
        let loops = window.iter().product::<usize>() as f64;
        let bound = (roundings(window) as f64 + loops) * f64::EPSILON;
        check(&floats, |a, b| a + b, layout, window, |a, b| (a - b).abs() <= bound * b);
    }

    #[test]
    fn literal() {
        let mut data = [1, 2, 3, 4, 5, 6];
        window(&mut data, &mut [0; 6], |a, b| a + b, &Lattice::dense([1, 2, 3]), [1, 2, 2]);
        assert_eq!(data[..2], [1 + 2 + 4 + 5, 2 + 3 + 5 + 6]);
    }

    #[test]
    fn long_windows() {
        for (shape, window) in [
            ([1, 1, 300], [1, 1, 300]),
            ([1, 1, 3000], [1, 1, 1234]),
            ([1, 1000, 3], [1, 731, 2]),
            ([1, 20, 900], [1, 1, 512]),
            ([1, 1, 300], [1, 1, 65]),
            ([1, 37, 211], [1, 1, 200]),
            ([1, 37, 211], [1, 30, 66]),
            ([2, 33, 71], [1, 3, 70]),
            ([1, 150, 19], [1, 141, 19]),
            ([90, 3, 5], [77, 2, 3]),
        ] {
            check_all(&Lattice::dense(shape), window, 7);
            let [depth, height, width] = shape;
            let row_pitch = width + 3;
            check_all(&Lattice { shape, row_pitch, plane_pitch: depth + (height * row_pitch) }, window, 8);
        }
    }

    /// Every rounding of a chain counted: `op` on depths is `max + 1`, so that the result is the depth of its tree.
    #[test]
    fn roundings_are_those_of_the_tree() {
        for k in (1..=230).chain([300, 513, 1000, 4096]) {
            for (shape, window) in
                [([1, 1, k + 40], [1, 1, k]), ([1, 17, k + 40], [1, 1, k]), ([1, 2 * k + 3, 5], [1, k, 1])]
            {
                let layout = Lattice::dense(shape);
                let mut depths = vec![0usize; layout.span()];
                super::window(
                    &mut depths,
                    &mut vec![0; scratch_len(&layout, window)],
                    |a, b| a.max(b) + 1,
                    &layout,
                    window,
                );
                let outputs = positions(std::array::from_fn(|a| shape[a] + 1 - window[a]));
                let deepest = outputs.iter().map(|p| depths[p[1] * shape[2] + p[2]]).max().unwrap();
                assert!(deepest <= roundings(window), "{window:?}: {deepest}");
                assert!(deepest + 1 >= roundings(window), "{window:?}: {deepest}");
                assert!(deepest <= 2 * ((k - 1).isqrt() + 1), "{window:?}: {deepest}");
            }
        }
    }

    /// Sums of squares are shown in f64, as a part of ssd.
    #[test]
    fn no_sum_has_more_roundings_than_are_granted() {
        let lines = (1..=3000).chain([4096, 65_536, 1_000_003]).flat_map(|k| [[1, 1, k], [1, k, 1], [k, 1, 1]]);
        let planes = (1..=120).flat_map(|h| (1..=120).map(move |w| [1, h, w]));
        let volumes = [[2, 300, 7], [100, 100, 100], [4096, 2, 2], [1, 4096, 2], [9, 1, 3000]];
        for window in lines.chain(planes).chain(volumes) {
            let granted = flcc_core::blocks::granted(window.iter().product());
            assert!(roundings(window) + 4 <= granted, "{window:?}: {} of {granted}", roundings(window));
        }
    }

    #[test]
    fn a_window_larger_than_the_tile_has_no_output_and_no_panic() {
        let layout = Lattice::dense([2, 3, 4]);
        for window in [[3, 1, 1], [1, 4, 1], [1, 1, 5], [1, 1, 100], [9, 9, 9]] {
            let mut data = vec![1i64; layout.span()];
            super::window(&mut data, &mut vec![0; scratch_len(&layout, window)], |a, b| a + b, &layout, window);
        }
    }

    proptest! {
        #[test]
        fn equals_the_plain_loops(
            shape in (1usize..6, 1usize..24, 1usize..40), part in (0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64),
            gaps in (0usize..5, 0usize..9), axes in 1usize..4, seed in any::<u64>(),
        ) {
            let mut shape = [shape.0, shape.1, shape.2];
            shape[..3 - axes].fill(1);
            let parts = [part.0, part.1, part.2];
            let window = std::array::from_fn(|a| 1 + (parts[a] * shape[a] as f64) as usize);
            let row_pitch = shape[2] + gaps.0;
            let plane_pitch = (shape[1] - 1) * row_pitch + shape[2] + gaps.1;
            check_all(&Lattice { shape, row_pitch, plane_pitch }, window, seed);
        }
    }
}
