//! Sums and maxima in many lanes, always in the same order, so that a compiler may use vectors for them: those of the
//! function that they are called in, so they are always inlined. Several vectors of lanes, or each addition would wait
//! for the one before.

/// Lanes: eight vectors of four, or four of eight.
const LANES: usize = 32;

/// Chunks that are added up before their lanes go to totals, so that many equal terms do not add up many equal
/// roundings.
const TOGETHER: usize = 64;

/// The sum of a term of each value. A term goes through at most 70 roundings and one for each 2048 values.
#[inline(always)]
pub fn sum<V: Copy>(values: &[V], term: impl Fn(V) -> f64) -> f64 {
    let mut totals = [0.0f64; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for block in chunks.chunks(TOGETHER) {
        let mut lanes = [0.0f64; LANES];
        for chunk in block {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane += term(value);
            }
        }
        for (total, lane) in totals.iter_mut().zip(lanes) {
            *total += lane;
        }
    }
    folded(totals, |a, b| a + b) + rest.iter().map(|&value| term(value)).sum::<f64>()
}

/// The sum of products of two arrays, of as many values as both have: as [`sum`].
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut totals = [0.0f64; LANES];
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.chunks(TOGETHER).zip(b.chunks(TOGETHER)) {
        let mut lanes = [0.0f64; LANES];
        for (a, b) in a.iter().zip(b) {
            for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                *lane += a * b;
            }
        }
        for (total, lane) in totals.iter_mut().zip(lanes) {
            *total += lane;
        }
    }
    folded(totals, |a, b| a + b) + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

/// The sum of a term of each number below a count, by halves: a term goes through 64 roundings and one for each
/// halving.
pub fn sum_of(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    fn halves(begin: usize, end: usize, term: &impl Fn(usize) -> f64) -> f64 {
        if end - begin <= TOGETHER {
            return (begin..end).map(term).sum();
        }
        let middle = begin + (end - begin) / 2;
        halves(begin, middle, term) + halves(middle, end, term)
    }
    halves(0, count, &term)
}

/// The largest magnitude, NaN left out; 0 of no values.
#[inline(always)]
pub fn largest(values: &[f64]) -> f64 {
    let larger = |largest: f64, value: f64| if value.abs() > largest { value.abs() } else { largest };
    let mut lanes = [0.0f64; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    rest.iter().fold(folded(lanes, larger), |largest, &value| larger(largest, value))
}

/// All lanes as one, of a power of two of them: the upper half to the lower, again and again.
#[inline(always)]
pub fn folded<const N: usize>(mut lanes: [f64; N], join: impl Fn(f64, f64) -> f64) -> f64 {
    let mut half = N / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = join(*low, *high));
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_once() {
        for count in [0u32, 1, 7, 31, 32, 33, 64, 100, 5000] {
            let values: Vec<f64> = (1..=count).map(|value| -f64::from(value)).collect();
            let n = f64::from(count);
            assert_eq!(sum(&values, |value| value * value), n * (n + 1.0) * (2.0 * n + 1.0) / 6.0);
            assert_eq!(sum_of(values.len(), |k| values[k] * values[k]), n * (n + 1.0) * (2.0 * n + 1.0) / 6.0);
            assert_eq!(largest(&values), n);
        }
        assert_eq!(largest(&[1.0, f64::NAN, -2.0]), 2.0);
    }

    /// A million equal terms, whose roundings are all alike: one after the other in each lane they were off by 2e-12.
    #[test]
    fn equal_terms_do_not_add_up_equal_roundings() {
        let (value, count) = (0.1f64 + 1e-17, 1 << 20);
        let exact = value * count as f64;
        for sum in [sum(&vec![value; count], |value| value), sum_of(count, |_| value)] {
            let off = (sum / exact - 1.0).abs();
            assert!(off < 1e-13, "off by {off:e}");
        }
    }
}
