//! A template as a sum of rank-one terms, so that it runs as short passes along one axis at a time.
//!
//! `t[z,y,x] = Σ a_r[z] · u_rq[y] · v_rq[x]`, by singular value decompositions. A flat template (depth 1) is one
//! matrix. A volume is first unfolded to `depth x (height·width)`; each right singular vector is then a
//! `height x width` matrix of its own. Terms of one group share the depth vector, whose pass runs once over the sum of
//! the group's other passes: `Σ_r (d + Σ_q (h + w))` multiply-adds a sample.
//!
//! Nested decompositions and not a HOSVD: with ranks `(r1, r2, r3)` a HOSVD runs `r3·w + r2·r3·h + r1·r2·r3 + r1·d`,
//! for its core is dense even where the template is a sum of two or three products; nested ones cost the same at rank
//! one, less for the usual sums of a few products, and need two intermediate rows of planes instead of `r2·r3`.
//!
//! A matrix is deflated row by row first (Gram-Schmidt, largest remaining row as pivot): `A = C Qᵀ + rest`, until the
//! rest is negligible. `C` has as many columns as the rank. They are rotated pair by pair until they are orthogonal
//! (one-sided Jacobi), and those of `Q` with them: `A = (C V)(Q V)ᵀ + rest` for every orthonormal `V`, so what a
//! rotation misses is no error of the terms. The pivots leave columns that fall in norm, for which few sweeps are
//! enough.
//! A template of full rank has no short `C`; where `max_terms` is given, the singular values of a `C` of just over that
//! many columns, which are never above the template's own, refuse it early. Without it a full SVD is paid: half a
//! second for noise of 413x413.
//!
//! No pixel is touched here and nothing is cached. Sources: Eckart and Young, "The approximation of one matrix by
//! another of lower rank", 1936; Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958;
//! Drmač and Veselić, "New fast and accurate Jacobi SVD algorithm", 2008, on what pivots bring.

use std::cmp::Reverse;

use thiserror::Error;

/// The smallest tolerance that rounding lets a product of two or three `f64` vectors meet: below it the rounding errors
/// of a template that is a product are found as terms of their own, up to full rank.
pub const LEAST_TOLERANCE: f64 = 16.0 * f64::EPSILON;

/// Why a template has no form as a sum of products of lines.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FactorError {
    /// The template holds NaN or an infinity.
    #[error("template: expected finite samples, got {got}")]
    NonFinite {
        /// The first such sample.
        got: f64,
    },
    /// Within the tolerance, the template needs more terms than asked for.
    #[error("separable rank: expected at most {max_terms} terms, got more")]
    RankAbove {
        /// The limit.
        max_terms: usize,
    },
    /// The decomposition did not converge within its bound of sweeps, or converged to something else.
    #[error("decomposition: expected a relative residual of at most {expected:e}, got {got:e}")]
    NotConverged {
        /// The tolerance, plus what rounding may add.
        expected: f64,
        /// The residual found; NaN where the sweeps ran out.
        got: f64,
    },
}

/// One rank-one term: `vectors[0][z] · vectors[1][y] · vectors[2][x]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The vectors of depth, height and width, of about equal norms; exactly `[1.0]` on an axis of length 1 (unless all
    /// are).
    pub vectors: [Vec<f64>; 3],
    /// Consecutive terms of equal group have equal `vectors[0]`: add up their other passes, then run that one once.
    pub group: usize,
}

/// The terms of a template, and what they leave out.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// Ordered by group; none for a template of zeros.
    pub terms: Vec<Term>,
    /// `‖t − Σ terms‖ / ‖t‖` (Frobenius), measured on the finished terms; 0 for zeros.
    pub residual: f64,
    /// Depth, height, width.
    pub shape: [usize; 3],
}

/// The terms of a `template` of `shape` (depth, height, width; ones in front), leaving out at most `tolerance · ‖t‖`.
///
/// What is left out counts over both levels together, in the Frobenius norm. A tolerance under [`LEAST_TOLERANCE`] is
/// honoured as far as rounding goes, and finds noise. Amplitudes from 1e-300 to 1e300 keep full relative accuracy. A
/// template with one axis longer than 1 is its own term, bit for bit.
///
/// # Errors
/// [`FactorError`]: non-finite samples, more than `max_terms` terms, no convergence.
///
/// # Panics
/// The number of samples is not the product of the shape.
pub fn factor(
    template: &[f64],
    shape: [usize; 3],
    tolerance: f64,
    max_terms: Option<usize>,
) -> Result<Factors, FactorError> {
    let [depth, height, width] = shape;
    assert_eq!(template.len(), depth * height * width, "factor: expected {shape:?} samples, got {}", template.len());
    if let Some(&got) = template.iter().find(|value| !value.is_finite()) {
        return Err(FactorError::NonFinite { got });
    }
    let max = max_terms.unwrap_or(usize::MAX);
    let largest = template.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return Ok(Factors { terms: Vec::new(), residual: 0.0, shape });
    }
    if max == 0 {
        return Err(FactorError::RankAbove { max_terms: 0 });
    }
    if let Some(terms) = single_axis(template, shape) {
        return Ok(Factors { terms, residual: 0.0, shape });
    }
    let exponent = largest.log2().floor() as i32;
    let scaled: Vec<f64> = template.iter().map(|&value| times_two_to(value, -exponent)).collect();
    let energy = dot(&scaled, &scaled);
    let budget = tolerance * tolerance * energy;
    let refused = |why| match why {
        Stop::RankAbove => FactorError::RankAbove { max_terms: max },
        Stop::NotConverged => FactorError::NotConverged { expected: tolerance, got: f64::NAN },
    };

    // Level one: depth against the rest, with half of what may be left out.
    let outer = if depth == 1 {
        LowRank { pairs: vec![(vec![1.0], scaled.clone())], left_out: 0.0 }
    } else {
        low_rank(scaled.clone(), depth, budget / 2.0, max).map_err(refused)?
    };
    // Level two: each rest on its own, weakest first; what one does not use goes to the next.
    let mut remaining = (budget - outer.left_out).max(0.0);
    let mut free = max - outer.pairs.len();
    let mut groups = Vec::new();
    for (after, (a, rest)) in outer.pairs.into_iter().enumerate().rev() {
        let weight = dot(&a, &a);
        let share = remaining / (after + 1) as f64;
        let inner = low_rank(rest, height, share / weight, free.saturating_add(1)).map_err(refused)?;
        remaining = (remaining - inner.left_out * weight).max(0.0);
        free -= inner.pairs.len().saturating_sub(1);
        groups.push((a, inner.pairs));
    }

    let mut terms = Vec::new();
    for (group, (a, pairs)) in groups.into_iter().rev().enumerate() {
        for (u, v) in pairs {
            terms.push(Term { vectors: unit_where_short([a.clone(), u, v]), group });
        }
    }
    let mut rest = scaled;
    add_terms(&terms, shape, -1.0, &mut rest);
    let residual = (dot(&rest, &rest) / energy).sqrt();
    let expected = tolerance + ROUNDING;
    if residual.is_nan() || residual > expected {
        return Err(FactorError::NotConverged { expected, got: residual });
    }
    balance(&mut terms, exponent);
    Ok(Factors { terms, residual, shape })
}

/// The terms of a template for sums in f64 (`double`) or f32, to within the rounding of that type: what rounding a
/// product of lines to it added is not found again as terms of its own.
///
/// # Errors
/// As [`factor`].
///
/// # Panics
/// As [`factor`].
pub fn in_type(
    template: &[f64],
    shape: [usize; 3],
    double: bool,
    max_terms: Option<usize>,
) -> Result<Factors, FactorError> {
    let roundoff = if double { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
    factor(template, shape, roundoff.max(LEAST_TOLERANCE), max_terms)
}

/// The same as they are computed with. In f64, where nothing closer repairs a sum, a template that takes more than half
/// as many terms as it has lines is taken line by line, which is exact.
///
/// # Errors
/// As [`factor`].
///
/// # Panics
/// As [`factor`].
pub fn to_compute(template: &[f64], shape: [usize; 3], double: bool) -> Result<Factors, FactorError> {
    let factors = in_type(template, shape, double, None)?;
    let by_line = by_line(template, shape);
    let many = double && 2 * factors.terms.len() > by_line.terms.len();
    Ok(if many { by_line } else { factors })
}

/// A template line by line, exactly: its rows, or its columns where those are longer, each laid where it belongs by a
/// line that is 1 there and 0 elsewhere. Lines of zeros are left out.
///
/// # Panics
/// The number of samples is not the product of the shape.
pub fn by_line(template: &[f64], shape: [usize; 3]) -> Factors {
    let [depth, height, width] = shape;
    assert_eq!(template.len(), depth * height * width, "by_line: expected {shape:?} samples, got {}", template.len());
    let one_at = |length: usize, at: usize| (0..length).map(|i| if i == at { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
    let (along_rows, lines) = if width >= height { (true, height) } else { (false, width) };
    let mut terms = Vec::new();
    for (group, plane) in template.chunks(height * width).enumerate() {
        for at in 0..lines {
            let vectors = if along_rows {
                [one_at(depth, group), one_at(height, at), plane[at * width..][..width].to_vec()]
            } else {
                [one_at(depth, group), plane.iter().skip(at).step_by(width).copied().collect(), one_at(width, at)]
            };
            if vectors[1 + usize::from(along_rows)].iter().any(|&value| value != 0.0) {
                terms.push(Term { vectors, group });
            }
        }
    }
    Factors { terms, residual: 0.0, shape }
}

impl Factors {
    /// The number of terms.
    pub fn rank(&self) -> usize {
        self.terms.len()
    }
}

/// What rounding may add to a residual: the arithmetic of some hundred terms in f64, with room.
const ROUNDING: f64 = 1e-12;

/// Sweeps over all pairs of columns that may be made; four to ten are usual.
const SWEEPS: usize = 60;

/// The least energy of a column that is rotated: of less, products lose their digits among the smallest numbers, and
/// the largest sample is about 1.
const LEAST_ENERGY: f64 = 1e-280;

/// A template that is a vector, as its own term.
fn single_axis(template: &[f64], shape: [usize; 3]) -> Option<Vec<Term>> {
    let long = shape.iter().position(|&n| n == template.len())?;
    let mut vectors = [vec![1.0], vec![1.0], vec![1.0]];
    vectors[long] = template.to_vec();
    Some(vec![Term { vectors, group: 0 }])
}

/// Left and right vectors.
type Pairs = Vec<(Vec<f64>, Vec<f64>)>;

/// A matrix as `Σ left · rightᵀ`: the right vectors orthonormal, the pairs in falling order of the left ones' norms.
struct LowRank {
    pairs: Pairs,
    /// The energy of what is left out.
    left_out: f64,
}

enum Stop {
    RankAbove,
    NotConverged,
}

/// The fewest pairs that leave out at most the energy `budget` of a row-major matrix; at most `max`.
fn low_rank(mut matrix: Vec<f64>, rows: usize, budget: f64, max: usize) -> Result<LowRank, Stop> {
    let columns = matrix.len() / rows;
    let full = rows.min(columns);
    let mut norms: Vec<f64> = matrix.chunks_exact(columns).map(|row| dot(row, row)).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut weights: Vec<Vec<f64>> = Vec::new();
    let mut check_at = max.saturating_add(1);
    let mut left_out: f64 = norms.iter().sum();
    // Half the tolerance for the deflation, so that the SVD may still cut what it finds to be small.
    while basis.len() < full && left_out > budget / 4.0 {
        if basis.len() == check_at {
            let values = singular_values(&weights)?;
            if values[max..].iter().map(|value| value * value).sum::<f64>() > budget {
                return Err(Stop::RankAbove);
            }
            check_at *= 2;
        }
        let pivot = (0..rows).fold(0, |best, row| if norms[row] > norms[best] { row } else { best });
        let Some(direction) = next_direction(&matrix[pivot * columns..][..columns], &basis) else { break };
        let mut weight = Vec::with_capacity(rows);
        for (row, norm) in matrix.chunks_exact_mut(columns).zip(&mut norms) {
            let c = dot(row, &direction);
            for (value, d) in row.iter_mut().zip(&direction) {
                *value -= c * d;
            }
            *norm = dot(row, row);
            weight.push(c);
        }
        basis.push(direction);
        weights.push(weight);
        left_out = norms.iter().sum();
    }
    let pairs = diagonalised(weights, basis)?;
    let mut kept = pairs.len();
    while kept > 0 {
        let energy = dot(&pairs[kept - 1].0, &pairs[kept - 1].0);
        if left_out + energy > budget && energy > 0.0 {
            break;
        }
        left_out += energy;
        kept -= 1;
    }
    if kept > max {
        return Err(Stop::RankAbove);
    }
    let mut pairs = pairs;
    pairs.truncate(kept);
    Ok(LowRank { pairs, left_out })
}

/// A row made orthogonal to the basis, twice (once is not enough where most of it cancels), and normalised.
fn next_direction(row: &[f64], basis: &[Vec<f64>]) -> Option<Vec<f64>> {
    let mut direction = row.to_vec();
    for _ in 0..2 {
        let norm = dot(&direction, &direction).sqrt();
        if norm == 0.0 {
            return None;
        }
        direction.iter_mut().for_each(|value| *value /= norm);
        for other in basis {
            let c = dot(&direction, other);
            for (value, o) in direction.iter_mut().zip(other) {
                *value -= c * o;
            }
        }
    }
    let norm = dot(&direction, &direction).sqrt();
    if norm == 0.0 {
        return None;
    }
    direction.iter_mut().for_each(|value| *value /= norm);
    Some(direction)
}

/// The singular values of the matrix of these columns, from the largest on.
fn singular_values(columns: &[Vec<f64>]) -> Result<Vec<f64>, Stop> {
    let none = vec![Vec::new(); columns.len()];
    Ok(diagonalised(columns.to_vec(), none)?.iter().map(|(left, _)| dot(left, left).sqrt()).collect())
}

/// `C Qᵀ = (C V)(Q V)ᵀ` with the columns of `C V` orthogonal and in falling order.
fn diagonalised(mut left: Vec<Vec<f64>>, mut right: Vec<Vec<f64>>) -> Result<Pairs, Stop> {
    orthogonalise(&mut left, &mut right)?;
    let mut pairs: Pairs = left.into_iter().zip(right).collect();
    pairs.sort_by_cached_key(|(left, _)| Reverse(dot(left, left).to_bits()));
    Ok(pairs)
}

/// Rotates `left` pair by pair until its vectors are orthogonal, and `right` in the same way: `Σ left · rightᵀ` stays.
fn orthogonalise(left: &mut [Vec<f64>], right: &mut [Vec<f64>]) -> Result<(), Stop> {
    let length = left.first().map_or(0, Vec::len);
    // The cosine that rounding may leave between two orthogonal vectors of this length.
    let least = 4.0 * f64::EPSILON * length.max(4) as f64;
    for _ in 0..SWEEPS {
        let mut energies: Vec<f64> = left.iter().map(|vector| dot(vector, vector)).collect();
        let mut done = true;
        for j in 1..left.len() {
            for i in 0..j {
                let (a, b) = (energies[i], energies[j]);
                if a.min(b) < LEAST_ENERGY {
                    continue;
                }
                let product = dot(&left[i], &left[j]);
                if !product.is_finite() {
                    return Err(Stop::NotConverged);
                }
                if product.abs() <= least * a.sqrt() * b.sqrt() {
                    continue;
                }
                done = false;
                // The smaller of the two angles that make the product vanish.
                let cotangent = (b - a) / (2.0 * product);
                let tangent = 1f64.copysign(cotangent) / (cotangent.abs() + cotangent.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                rotate(left, [i, j], cosine, cosine * tangent);
                rotate(right, [i, j], cosine, cosine * tangent);
                // Nearly; the next sweep, which follows every rotation, begins from the vectors again.
                energies[i] = a - tangent * product;
                energies[j] = b + tangent * product;
            }
        }
        if done {
            return Ok(());
        }
    }
    Err(Stop::NotConverged)
}

/// `(p, q) <- (cosine p - sine q, sine p + cosine q)` for the vectors at `i < j`.
fn rotate(vectors: &mut [Vec<f64>], [i, j]: [usize; 2], cosine: f64, sine: f64) {
    let (before, from) = vectors.split_at_mut(j);
    for (p, q) in before[i].iter_mut().zip(&mut from[0]) {
        (*p, *q) = (cosine * *p - sine * *q, sine * *p + cosine * *q);
    }
}

/// The factor of each axis of length 1 goes to another axis, and leaves exactly 1 there. Some axis is longer.
fn unit_where_short(mut vectors: [Vec<f64>; 3]) -> [Vec<f64>; 3] {
    let long = (0..3).rev().find(|&axis| vectors[axis].len() > 1).unwrap_or(2);
    for axis in (0..3).filter(|&axis| axis != long) {
        if vectors[axis].len() == 1 {
            let factor = std::mem::replace(&mut vectors[axis][0], 1.0);
            vectors[long].iter_mut().for_each(|value| *value *= factor);
        }
    }
    vectors
}

/// Brings the norms of each term's vectors together, and `2^exponent` in, by powers of two: no value is rounded. All
/// terms of a group get the same depth vector.
fn balance(terms: &mut [Term], exponent: i32) {
    for group in terms.chunk_by_mut(|a, b| a.group == b.group) {
        let long = group[0].vectors.iter().filter(|vector| vector.len() > 1).count().max(1) as f64;
        let norm = log2_norm(&group[0].vectors[0]);
        let depth_shift =
            if group[0].vectors[0].len() > 1 { ((norm + f64::from(exponent)) / long - norm).round() as i32 } else { 0 };
        let rest = exponent - depth_shift;
        for term in group {
            let [a, u, v] = &mut term.vectors;
            let shift = match (u.len() > 1, v.len() > 1) {
                (true, true) => ((log2_norm(v) - log2_norm(u) + f64::from(rest)) / 2.0).round() as i32,
                (true, false) => rest,
                (false, _) => 0,
            };
            a.iter_mut().for_each(|value| *value = times_two_to(*value, depth_shift));
            u.iter_mut().for_each(|value| *value = times_two_to(*value, shift));
            v.iter_mut().for_each(|value| *value = times_two_to(*value, rest - shift));
        }
    }
}

fn log2_norm(vector: &[f64]) -> f64 {
    dot(vector, vector).log2() / 2.0
}

/// `value · 2^exponent` for any exponent between two finite values.
fn times_two_to(value: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    value * 2f64.powi(half) * 2f64.powi(exponent - half)
}

/// `sum += sign · Σ terms`.
fn add_terms(terms: &[Term], [_, height, width]: [usize; 3], sign: f64, sum: &mut [f64]) {
    let mut plane = vec![0.0; height * width];
    for group in terms.chunk_by(|a, b| a.group == b.group) {
        plane.fill(0.0);
        for Term { vectors: [_, u, v], .. } in group {
            for (row, u) in plane.chunks_exact_mut(width).zip(u) {
                for (value, v) in row.iter_mut().zip(v) {
                    *value += u * v;
                }
            }
        }
        for (slice, a) in sum.chunks_exact_mut(height * width).zip(&group[0].vectors[0]) {
            for (value, p) in slice.iter_mut().zip(&plane) {
                *value += sign * a * p;
            }
        }
    }
}

/// A dot product in eight lanes, so that it is not bound by the latency of one sum.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0f64; 8];
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_eights.remainder().iter().zip(b_eights.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_eights.zip(b_eights) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Uniform in -0.5..0.5.
    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            })
            .collect()
    }

    /// A sum of `rank` products of random vectors.
    fn products(seed: u64, [d, h, w]: [usize; 3], rank: usize) -> Vec<f64> {
        let mut sum = vec![0.0; d * h * w];
        for r in 0..rank as u64 {
            let (a, u, v) = (noise(seed + 10 * r, d), noise(seed + 10 * r + 1, h), noise(seed + 10 * r + 2, w));
            for (i, value) in sum.iter_mut().enumerate() {
                *value += a[i / (h * w)] * u[i / w % h] * v[i % w];
            }
        }
        sum
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The three properties that make a singular value decomposition, of columns that differ in size by any power.
        #[test]
        fn rotations_decompose(seed in any::<u64>(), rows in 1..40usize, count in 1..12usize, fall in 0..30i32) {
            let columns: Vec<Vec<f64>> = (0..count)
                .map(|k| noise(seed ^ k as u64, rows).iter().map(|x| x * 10f64.powi(-fall * k as i32 / 4)).collect())
                .collect();
            let axis = |k: usize| (0..count).map(|i| if i == k { 1.0 } else { 0.0 }).collect();
            let mut right: Vec<Vec<f64>> = (0..count).map(axis).collect();
            let mut left = columns.clone();
            prop_assert!(orthogonalise(&mut left, &mut right).is_ok());
            for i in 0..count {
                for j in 0..=i {
                    let (a, b, product) = (dot(&left[i], &left[i]), dot(&left[j], &left[j]), dot(&left[i], &left[j]));
                    // More columns than rows: what is left of some is nothing.
                    let orthogonal = product.abs() <= 1e-13 * a.sqrt() * b.sqrt() || a.min(b) < LEAST_ENERGY;
                    prop_assert!(i == j || orthogonal, "{i} {j}: {product:e} of {a:e} and {b:e}");
                    let unit = if i == j { 1.0 } else { 0.0 };
                    prop_assert!((dot(&right[i], &right[j]) - unit).abs() < 1e-14);
                }
                // Each column comes back by its own measure: rotations of small columns are not blurred by large ones.
                let error = (0..rows)
                    .map(|row| columns[i][row] - (0..count).map(|k| left[k][row] * right[k][i]).sum::<f64>())
                    .fold(0f64, |most, error| most.max(error.abs()));
                prop_assert!(error <= 1e-14 * dot(&columns[i], &columns[i]).sqrt(), "{i}: {error:e}");
            }
        }
    }

    #[test]
    fn singular_values_are_those_of_second_differences() {
        for n in [2, 3, 10, 60] {
            let entry = |i: usize, j: usize| [2.0, -1.0, 0.0][i.abs_diff(j).min(2)];
            let columns: Vec<Vec<f64>> = (0..n).map(|j| (0..n).map(|i| entry(i, j)).collect()).collect();
            let Ok(values) = singular_values(&columns) else { panic!("{n}: no convergence") };
            for (k, value) in values.iter().rev().enumerate() {
                let exact = 4.0 * (std::f64::consts::PI * (k + 1) as f64 / (2 * n + 2) as f64).sin().powi(2);
                assert!((value / exact - 1.0).abs() < 1e-13, "{n}, {k}: {value}, {exact}");
            }
        }
    }

    #[test]
    fn columns_that_are_equal_or_nothing_are_decomposed() {
        let ramp: Vec<f64> = (1..=9).map(f64::from).collect();
        let tiny: Vec<f64> = ramp.iter().map(|value| value * 1e-160).collect();
        let Ok(values) = singular_values(&[ramp.clone(), vec![0.0; 9], ramp, tiny]) else { panic!("no convergence") };
        assert!((values[0] - (2.0 * 285.0f64).sqrt()).abs() < 1e-13, "{values:?}");
        assert!(values[1..].iter().all(|value| *value < 1e-14), "{values:?}");
    }

    /// The terms group by group: each slice shares its depth vector.
    fn groups(factors: &Factors) -> impl Iterator<Item = &[Term]> {
        factors.terms.chunk_by(|a, b| a.group == b.group)
    }

    /// Multiply-adds for one output sample: each distinct pass once, none along an axis of length 1.
    fn operations_per_output(factors: &Factors) -> f64 {
        let [depth, height, width] = factors.shape.map(|n| if n > 1 { n as f64 } else { 0.0 });
        let single = if factors.shape == [1; 3] { 1.0 } else { 0.0 };
        groups(factors).map(|group| depth + group.len() as f64 * (height + width) + single).sum()
    }

    /// The sum of the terms, dense.
    fn reconstruct(factors: &Factors) -> Vec<f64> {
        let mut sum = vec![0.0; factors.shape.iter().product()];
        add_terms(&factors.terms, factors.shape, 1.0, &mut sum);
        sum
    }

    /// Factors the template, checks what is promised of every result, and returns it.
    fn check(template: &[f64], shape: [usize; 3], tolerance: f64) -> Factors {
        let factors = factor(template, shape, tolerance, None).unwrap();
        let scale = template.iter().fold(0f64, |scale, value| scale.max(value.abs())).max(f64::MIN_POSITIVE);
        let norm = template.iter().map(|t| (t / scale).powi(2)).sum::<f64>().sqrt();
        let error = template
            .iter()
            .zip(reconstruct(&factors))
            .map(|(t, s)| (t / scale - s / scale).powi(2))
            .sum::<f64>()
            .sqrt();
        // The roundings of up to 64 terms and of `hypot`, which libraries round differently.
        let granted = tolerance + 2e-14;
        assert!(error <= granted * norm, "{shape:?}: error {:e}, tolerance {tolerance:e}", error / norm);
        assert!(factors.residual <= granted, "{shape:?}: residual {:e}", factors.residual);
        for term in &factors.terms {
            for (vector, n) in term.vectors.iter().zip(shape) {
                assert_eq!(vector.len(), n);
                assert!(n > 1 || shape == [1; 3] || vector[0] == 1.0);
            }
        }
        for group in groups(&factors) {
            assert!(group.iter().all(|term| term.vectors[0] == group[0].vectors[0]));
        }
        factors
    }

    const SINGLE: f64 = 1.0 / (1u64 << 26) as f64;

    #[test]
    fn lines_are_exact_and_in_order() {
        for shape in [[1, 3, 5], [1, 5, 3], [2, 3, 4], [3, 4, 2], [1, 1, 6], [1, 6, 1], [4, 1, 1]] {
            let count = shape.iter().product();
            let mut template = noise(5, count);
            let factors = by_line(&template, shape);
            assert_eq!(reconstruct(&factors), template, "{shape:?}");
            assert_eq!(factors.rank(), shape[0] * shape[1].min(shape[2]));
            assert!(factors.terms.is_sorted_by_key(|term| term.group));
            template.fill(0.0);
            assert!(by_line(&template, shape).terms.is_empty());
        }
    }

    #[test]
    fn products_are_found_at_their_rank() {
        for tolerance in [LEAST_TOLERANCE, 1e-12, SINGLE, 1e-4] {
            for (rank, seed) in [(1, 1), (2, 2), (3, 3), (1, 4), (2, 5), (3, 6)] {
                for (h, w) in [(3, 3), (7, 5), (5, 31), (64, 17), (50, 50)] {
                    let factors = check(&products(seed, [1, h, w], rank), [1, h, w], tolerance);
                    assert_eq!(factors.rank(), rank, "{h}x{w} at {tolerance:e}");
                    assert_eq!(operations_per_output(&factors), (rank * (h + w)) as f64);
                }
            }
        }
    }

    #[test]
    fn products_of_three_are_found_at_their_rank() {
        for rank in 1..=3 {
            for shape in [[3, 3, 3], [5, 7, 4], [9, 16, 11]] {
                let factors = check(&products(rank as u64, shape, rank), shape, 1e-12);
                // Generic sums of r products unfold to r depth vectors, and each rest is a mixture of all r.
                assert_eq!(groups(&factors).count(), rank);
                assert_eq!(factors.rank(), rank * rank);
                let [d, h, w] = shape;
                assert_eq!(operations_per_output(&factors), (rank * d + rank * rank * (h + w)) as f64);
            }
        }
    }

    #[test]
    fn random_templates_are_reconstructed() {
        for (seed, shape) in
            [[1, 2, 2], [1, 3, 8], [1, 31, 17], [1, 64, 64], [2, 3, 4], [6, 5, 7], [1, 1, 1], [3, 1, 5], [4, 6, 1]]
                .into_iter()
                .enumerate()
        {
            let template = noise(seed as u64 + 77, shape.iter().product());
            for tolerance in [0.0, LEAST_TOLERANCE, 1e-10, SINGLE, 0.03, 0.3] {
                check(&template, shape, tolerance);
            }
        }
    }

    #[test]
    fn a_larger_tolerance_takes_the_fewest_terms() {
        // Singular values 1, 1/10, 1/100, ... by construction: two orthonormal cosine bases.
        let n = 12;
        let cosine = |k: usize, i: usize| {
            let scale = if k == 0 { (1.0 / n as f64).sqrt() } else { (2.0 / n as f64).sqrt() };
            scale * (std::f64::consts::PI * (i as f64 + 0.5) * k as f64 / n as f64).cos()
        };
        let template: Vec<f64> = (0..n * n)
            .map(|i| (0..n).map(|k| 10f64.powi(-(k as i32)) * cosine(k, i / n) * cosine(k, i % n)).sum())
            .collect();
        for kept in 1..9 {
            let left_out = 10f64.powi(-kept);
            assert_eq!(check(&template, [1, n, n], 1.02 * left_out).rank(), kept as usize);
            assert_eq!(check(&template, [1, n, n], 0.98 * left_out).rank(), kept as usize + 1);
        }
    }

    #[test]
    fn vectors_are_their_own_term() {
        for shape in [[1, 1, 9], [1, 9, 1], [9, 1, 1], [1, 1, 1]] {
            let template = noise(5, shape.iter().product());
            let factors = check(&template, shape, 0.0);
            assert_eq!(reconstruct(&factors), template);
            assert_eq!((factors.rank(), factors.residual), (1, 0.0));
            assert_eq!(operations_per_output(&factors), template.len() as f64);
        }
    }

    #[test]
    fn constants_and_zeros() {
        let factors = check(&[7.0; 60], [3, 4, 5], LEAST_TOLERANCE);
        assert_eq!((factors.rank(), operations_per_output(&factors)), (1, 12.0));
        let factors = check(&[0.0; 60], [3, 4, 5], LEAST_TOLERANCE);
        assert_eq!((factors.rank(), operations_per_output(&factors), factors.residual), (0, 0.0, 0.0));
        assert_eq!(check(&[], [1, 0, 5], 1e-9).rank(), 0);
        let mut impulse = [0.0; 60];
        impulse[17] = -2.0;
        assert_eq!(check(&impulse, [3, 4, 5], LEAST_TOLERANCE).rank(), 1);
    }

    #[test]
    fn amplitudes_do_not_matter() {
        for shape in [[1, 6, 9], [4, 5, 6], [5, 1, 6], [5, 6, 1]] {
            let template = products(3, shape, 2);
            let rank = check(&template, shape, 1e-12).rank();
            for amplitude in [1e300, 1e-290, 1e-5, 3.0, f64::MAX] {
                let scaled: Vec<f64> = template.iter().map(|t| t * amplitude).collect();
                let factors = check(&scaled, shape, 1e-12);
                assert_eq!(factors.rank(), rank, "{shape:?} at {amplitude:e}");
                for term in &factors.terms[..1] {
                    let norms: Vec<f64> = term.vectors.iter().filter(|v| v.len() > 1).map(|v| log2_norm(v)).collect();
                    assert!(norms.iter().all(|a| norms.iter().all(|b| (a - b).abs() < 4.0)), "{norms:?}");
                }
            }
        }
        let least = [f64::from_bits(1); 12];
        assert_eq!(factor(&least, [1, 3, 4], 1e-12, None).unwrap().rank(), 1);
    }

    #[test]
    fn refusals_carry_their_evidence() {
        let mut template = noise(9, 100);
        assert_eq!(factor(&template, [1, 10, 10], 1e-9, Some(4)), Err(FactorError::RankAbove { max_terms: 4 }));
        assert_eq!(factor(&template, [1, 10, 10], 1e-9, Some(10)).unwrap().rank(), 10);
        assert_eq!(factor(&template, [4, 5, 5], 1e-9, Some(3)), Err(FactorError::RankAbove { max_terms: 3 }));
        assert_eq!(factor(&template, [4, 5, 5], 1e-9, Some(19)), Err(FactorError::RankAbove { max_terms: 19 }));
        assert_eq!(factor(&template, [4, 5, 5], 1e-9, Some(20)).unwrap().rank(), 20);
        template[3] = f64::INFINITY;
        assert_eq!(factor(&template, [1, 10, 10], 1e-9, None), Err(FactorError::NonFinite { got: f64::INFINITY }));
        template[3] = f64::NAN;
        assert!(matches!(factor(&template, [1, 10, 10], 1e-9, None), Err(FactorError::NonFinite { .. })));
    }

    #[test]
    fn a_limit_refuses_only_what_is_above_it() {
        for seed in 0..20 {
            // A low rank under noise near the tolerance: undecided by the first look.
            let (h, w, rank) = (40, 30, 1 + seed as usize % 6);
            let mut template = products(seed, [1, h, w], rank);
            template.iter_mut().zip(noise(seed + 500, h * w)).for_each(|(t, n)| *t += n * 3e-8);
            let free = factor(&template, [1, h, w], SINGLE, None).unwrap().rank();
            for max in 1..=30 {
                match factor(&template, [1, h, w], SINGLE, Some(max)) {
                    Ok(factors) => assert!(factors.rank() <= max && factors.rank() == free),
                    Err(error) => {
                        assert!(error == FactorError::RankAbove { max_terms: max } && free > max, "{free} {max}")
                    }
                }
            }
        }
    }
}
