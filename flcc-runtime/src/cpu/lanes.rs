//! Sums and maxima in eight lanes, always in the same order, so that a compiler may use vectors for them: those of the function that they are
//! called in, so they are always inlined.

/// The sum of a term of each value.
#[inline(always)]
pub fn sum<V: Copy>(values: &[V], term: impl Fn(V) -> f64) -> f64 {
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += term(value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|&value| term(value)).sum::<f64>()
}

/// The largest magnitude, NaN left out; 0 of no values.
#[inline(always)]
pub fn largest(values: &[f64]) -> f64 {
    let larger = |largest: f64, value: f64| if value.abs() > largest { value.abs() } else { largest };
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(0.0, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_counts_once() {
        for count in [0u32, 1, 7, 8, 9, 24, 100] {
            let values: Vec<f64> = (1..=count).map(|value| -f64::from(value)).collect();
            let n = f64::from(count);
            assert_eq!(sum(&values, |value| value * value), n * (n + 1.0) * (2.0 * n + 1.0) / 6.0);
            assert_eq!(largest(&values), n);
        }
        assert_eq!(largest(&[1.0, f64::NAN, -2.0]), 2.0);
    }
}
