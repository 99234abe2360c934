//! Stages of Fourier transforms whose lanes are transforms of their own: split real and imaginary rows, no reordering.
//!
//! A forward transform decimates in frequency and leaves its frequencies in the order of their reversed digits; an
//! inverse decimates in time and takes them so. A product of spectra in that order needs no other, so nothing is ever
//! reordered. The inverse of `x` is the forward transform with real and imaginary parts exchanged, before and after.
//! Source: Gentleman and Sande, "Fast Fourier Transforms: for fun and profit", 1966.

use std::f64::consts::TAU;

use crate::cpu::fft::dither::Noise;
use crate::isa::simd::Simd;

/// The last radix of every transform.
pub const LAST: usize = 8;

/// The lengths of transforms, and the radices of their stages before the last, the first stage first.
const RADICES: [(usize, &[usize]); 5] =
    [(64, &[8]), (128, &[4, 4]), (256, &[4, 8]), (512, &[8, 8]), (1024, &[4, 4, 8])];

/// The lengths that have stages here.
pub const LENGTHS: [usize; RADICES.len()] = {
    let mut lengths = [0; RADICES.len()];
    let mut at = 0;
    while at < lengths.len() {
        lengths[at] = RADICES[at].0;
        at += 1;
    }
    lengths
};

/// The radices of a transform before the last, the first stage first; none for a length that has no stages here.
pub const fn radices(length: usize) -> &'static [usize] {
    let mut at = 0;
    while at < RADICES.len() {
        if RADICES[at].0 == length {
            return RADICES[at].1;
        }
        at += 1;
    }
    &[]
}

/// The radix of stage `number` of a transform, and how far apart the rows of its butterflies lie; `None` where the
/// transform has only the last stage left.
pub const fn stage(length: usize, number: usize) -> Option<(usize, usize)> {
    let radices = radices(length);
    if number >= radices.len() {
        return None;
    }
    let (mut rest, mut at) = (length, 0);
    while at <= number {
        rest /= radices[at];
        at += 1;
    }
    Some((radices[number], rest))
}

/// The frequency that a forward transform leaves at `place`.
pub fn frequency(length: usize, place: usize) -> usize {
    let (mut place, mut rest, mut step, mut frequency) = (place, length, 1, 0);
    for &radix in radices(length) {
        rest /= radix;
        frequency += step * (place / rest);
        place %= rest;
        step *= radix;
    }
    frequency + step * place
}

/// Cosine and sine of `-2 pi k q / (radix * m)` for each `k < m` and `1 <= q < radix`.
pub fn twiddles(radix: usize, m: usize) -> Vec<[f32; 2]> {
    let length = radix * m;
    let angle = |k: usize, q: usize| -TAU * ((k * q) % length) as f64 / length as f64;
    (0..m).flat_map(|k| (1..radix).map(move |q| [angle(k, q).cos() as f32, angle(k, q).sin() as f32])).collect()
}

/// The twiddles of each stage of a transform before the last.
pub fn stages(length: usize) -> Vec<Vec<[f32; 2]>> {
    let stages = (0..).map_while(|number| stage(length, number));
    stages.map(|(radix, apart)| twiddles(radix, apart)).collect()
}

/// A vector of complex numbers.
#[derive(Clone, Copy)]
pub struct Complex<S: Simd> {
    /// Real parts.
    pub re: S::Single,
    /// Imaginary parts.
    pub im: S::Single,
}

impl<S: Simd> Complex<S> {
    /// 0 in every lane.
    #[inline(always)]
    pub fn zero(s: S) -> Complex<S> {
        Complex { re: s.splat(0.0), im: s.splat(0.0) }
    }

    #[inline(always)]
    fn add(self, s: S, other: Complex<S>) -> Complex<S> {
        Complex { re: s.add(self.re, other.re), im: s.add(self.im, other.im) }
    }

    #[inline(always)]
    fn sub(self, s: S, other: Complex<S>) -> Complex<S> {
        Complex { re: s.sub(self.re, other.re), im: s.sub(self.im, other.im) }
    }

    /// `self - i other`
    #[inline(always)]
    fn sub_turned(self, s: S, other: Complex<S>) -> Complex<S> {
        Complex { re: s.add(self.re, other.im), im: s.sub(self.im, other.re) }
    }

    /// `self + i other`
    #[inline(always)]
    fn add_turned(self, s: S, other: Complex<S>) -> Complex<S> {
        Complex { re: s.sub(self.re, other.im), im: s.add(self.im, other.re) }
    }

    /// `self * (re + i im)`
    #[inline(always)]
    pub fn times(self, s: S, re: S::Single, im: S::Single) -> Complex<S> {
        Complex { re: s.sub_mul(self.im, im, s.mul(self.re, re)), im: s.mul_add(self.re, im, s.mul(self.im, re)) }
    }

    /// `self * (re + i im) + sum`
    #[inline(always)]
    pub fn times_add(self, s: S, re: S::Single, im: S::Single, sum: Complex<S>) -> Complex<S> {
        let sum = Complex::<S> { re: s.mul_add(self.re, re, sum.re), im: s.mul_add(self.im, re, sum.im) };
        Complex { re: s.sub_mul(self.im, im, sum.re), im: s.mul_add(self.re, im, sum.im) }
    }

    /// A sample at `k` of its line, with its noise.
    #[inline(always)]
    pub(crate) fn with(self, s: S, noise: &Noise<'_, S>, k: usize) -> Complex<S> {
        let [re, im] = noise.add(s, k, [self.re, self.im]);
        Complex { re, im }
    }

    /// A frequency, left at `place`, without its line's noise.
    #[inline(always)]
    pub(crate) fn without(self, s: S, noise: &Noise<'_, S>, place: usize) -> Complex<S> {
        let [re, im] = noise.take(s, place, [self.re, self.im]);
        Complex { re, im }
    }

    /// `sum + |self|^2`
    #[inline(always)]
    pub fn square(self, s: S, sum: S::Single) -> S::Single {
        s.mul_add(self.im, self.im, s.mul_add(self.re, self.re, sum))
    }
}

#[inline(always)]
fn dft4<S: Simd>(s: S, [a, b, c, d]: [Complex<S>; 4]) -> [Complex<S>; 4] {
    let (even, odd) = (a.add(s, c), b.add(s, d));
    let (a, b) = (a.sub(s, c), b.sub(s, d));
    [even.add(s, odd), a.sub_turned(s, b), even.sub(s, odd), a.add_turned(s, b)]
}

#[inline(always)]
fn dft8<S: Simd>(s: S, x: [Complex<S>; 8]) -> [Complex<S>; 8] {
    let [x0, x1, x2, x3, x4, x5, x6, x7] = x;
    let [y0, y2, y4, y6] = dft4(s, [x0.add(s, x4), x1.add(s, x5), x2.add(s, x6), x3.add(s, x7)]);
    let [a, b, c, d] = [x0.sub(s, x4), x1.sub(s, x5), x2.sub(s, x6), x3.sub(s, x7)];
    // Times the eighth roots of 1; the root of a half is taken out and put back by the last multiply-adds.
    let (even, odd) = (a.sub_turned(s, c), a.add_turned(s, c));
    let b = Complex::<S> { re: s.add(b.re, b.im), im: s.sub(b.im, b.re) };
    let d = Complex::<S> { re: s.sub(d.im, d.re), im: s.add(d.re, d.im) };
    let sum = Complex::<S> { re: s.add(b.re, d.re), im: s.sub(b.im, d.im) };
    let difference = Complex::<S> { re: s.sub(b.re, d.re), im: s.add(b.im, d.im) };
    let h = s.splat(std::f32::consts::FRAC_1_SQRT_2);
    let y1 = Complex { re: s.mul_add(h, sum.re, even.re), im: s.mul_add(h, sum.im, even.im) };
    let y5 = Complex { re: s.sub_mul(h, sum.re, even.re), im: s.sub_mul(h, sum.im, even.im) };
    let y3 = Complex { re: s.mul_add(h, difference.im, odd.re), im: s.sub_mul(h, difference.re, odd.im) };
    let y7 = Complex { re: s.sub_mul(h, difference.im, odd.re), im: s.mul_add(h, difference.re, odd.im) };
    [y0, y1, y2, y3, y4, y5, y6, y7]
}

/// The transform of 4 or 8 numbers.
#[inline(always)]
pub fn dft<S: Simd, const R: usize>(s: S, x: &mut [Complex<S>; R]) {
    if let Some(all) = x.first_chunk_mut::<8>() {
        *all = dft8(s, *all);
    } else if let Some(all) = x.first_chunk_mut::<4>() {
        *all = dft4(s, *all);
    }
}

/// Multiplies all but the first by their twiddles, those of butterfly `k`.
#[inline(always)]
pub fn twist<S: Simd, const R: usize>(s: S, x: &mut [Complex<S>; R], twiddles: &[[f32; 2]], k: usize) {
    let twiddles = &twiddles[k * (R - 1)..(k + 1) * (R - 1)];
    for (x, [re, im]) in x[1..].iter_mut().zip(twiddles) {
        *x = x.times(s, s.splat(*re), s.splat(*im));
    }
}

/// A stage of a forward transform, in place: butterflies of `R` rows that lie `m` apart, of which the first has noise
/// to add.
#[inline(always)]
fn forward<S: Simd, const R: usize>(
    s: S,
    m: usize,
    re: &mut [S::Row],
    im: &mut [S::Row],
    twiddles: &[[f32; 2]],
    noise: Option<Noise<'_, S>>,
) {
    assert_eq!(twiddles.len(), m * (R - 1));
    for (re, im) in re.chunks_exact_mut(R * m).zip(im.chunks_exact_mut(R * m)) {
        for k in 0..m {
            let mut x = [Complex::zero(s); R];
            for (q, x) in x.iter_mut().enumerate() {
                *x = Complex { re: s.load(&re[k + q * m]), im: s.load(&im[k + q * m]) };
                if let Some(noise) = &noise {
                    *x = x.with(s, noise, k + q * m);
                }
            }
            dft(s, &mut x);
            twist(s, &mut x, twiddles, k);
            for (q, x) in x.iter().enumerate() {
                s.store(&mut re[k + q * m], x.re);
                s.store(&mut im[k + q * m], x.im);
            }
        }
    }
}

/// Stage `NUMBER` of a forward transform of length `N`, in place, if it has one before the last; the first adds noise.
#[inline(always)]
pub(crate) fn forward_stage<S: Simd, const N: usize, const NUMBER: usize>(
    s: S,
    re: &mut [S::Row],
    im: &mut [S::Row],
    twiddles: &[Vec<[f32; 2]>],
    noise: Option<Noise<'_, S>>,
) {
    match const { stage(N, NUMBER) } {
        None => {}
        Some((8, m)) => forward::<S, 8>(s, m, re, im, &twiddles[NUMBER], noise),
        Some((_, m)) => forward::<S, 4>(s, m, re, im, &twiddles[NUMBER], noise),
    }
}

/// The last stage of a forward transform, in place, which takes noise away.
#[inline(always)]
pub(crate) fn last<S: Simd>(s: S, re: &mut [S::Row], im: &mut [S::Row], noise: Option<Noise<'_, S>>) {
    for (number, (re, im)) in re.chunks_exact_mut(LAST).zip(im.chunks_exact_mut(LAST)).enumerate() {
        let mut x = [Complex::zero(s); LAST];
        for (q, x) in x.iter_mut().enumerate() {
            *x = Complex { re: s.load(&re[q]), im: s.load(&im[q]) };
        }
        dft(s, &mut x);
        for (q, x) in x.iter_mut().enumerate() {
            if let Some(noise) = &noise {
                *x = x.without(s, noise, number * LAST + q);
            }
            s.store(&mut re[q], x.re);
            s.store(&mut im[q], x.im);
        }
    }
}

/// A stage of an inverse transform, in place: butterflies of `R` rows that lie `m` apart.
#[inline(always)]
fn inverse<S: Simd, const R: usize>(s: S, m: usize, re: &mut [S::Row], im: &mut [S::Row], twiddles: &[[f32; 2]]) {
    assert_eq!(twiddles.len(), m * (R - 1));
    for (re, im) in re.chunks_exact_mut(R * m).zip(im.chunks_exact_mut(R * m)) {
        for k in 0..m {
            let mut x = [Complex::zero(s); R];
            for (q, x) in x.iter_mut().enumerate() {
                *x = Complex { re: s.load(&im[k + q * m]), im: s.load(&re[k + q * m]) };
            }
            twist(s, &mut x, twiddles, k);
            dft(s, &mut x);
            for (q, x) in x.iter().enumerate() {
                s.store(&mut im[k + q * m], x.re);
                s.store(&mut re[k + q * m], x.im);
            }
        }
    }
}

/// What the forward stage with these numbers undoes, times the radix of the stage.
#[inline(always)]
pub fn inverse_stage<S: Simd, const N: usize, const NUMBER: usize>(
    s: S,
    re: &mut [S::Row],
    im: &mut [S::Row],
    twiddles: &[Vec<[f32; 2]>],
) {
    match const { stage(N, NUMBER) } {
        None => {}
        Some((8, m)) => inverse::<S, 8>(s, m, re, im, &twiddles[NUMBER]),
        Some((_, m)) => inverse::<S, 4>(s, m, re, im, &twiddles[NUMBER]),
    }
}
