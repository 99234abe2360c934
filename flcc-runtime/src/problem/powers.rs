//! Powers of two: what brings numbers to a scale that their squares have room in, without a rounding.

use crate::problem::lanes;

/// Two powers of two that a number is multiplied by, one after the other: as one where that is a normal number, so that
/// nothing is lost on the way that the product keeps.
pub fn joined([a, b]: [f64; 2]) -> [f64; 2] {
    if (a * b).is_normal() { [a * b, 1.0] } else { [a, b] }
}

/// A power of two as exact factors, each of which is a number: `value * a * b` for `2^exponent`.
pub fn power_of_two(exponent: i32) -> f64 {
    2f64.powi(exponent.clamp(-1022, 1023))
}

/// Factors that bring a number to `2^exponent` times itself, one after the other.
pub fn factors(exponent: i32) -> [f64; 2] {
    joined([power_of_two(exponent / 2), power_of_two(exponent - exponent / 2)])
}

/// `value * 2^exponent`.
pub fn shifted(value: f64, exponent: i32) -> f64 {
    let [a, b] = factors(exponent);
    value * a * b
}

/// Multiplies by two factors, one after the other.
#[inline(always)]
pub fn times(values: &mut [f64], [a, b]: [f64; 2]) {
    values.iter_mut().for_each(|value| *value = *value * a * b);
}

/// Brings the largest magnitude of all channels to 1, or just above; the exponent of what they are divided by, none
/// where all are 0.
#[inline(always)]
pub fn to_one(channels: &mut [Vec<f64>]) -> Option<i32> {
    let largest = channels.iter().fold(0.0f64, |most, values| most.max(lanes::largest(values)));
    if largest == 0.0 {
        return None;
    }
    let scale = exponent(largest);
    channels.iter_mut().for_each(|values| times(values, factors(-scale)));
    Some(scale)
}

/// The power of two that brings a magnitude above 0 below 1, to 1/2 at least.
pub fn near_one(largest: f64) -> f64 {
    power_of_two(-exponent(largest) - 1)
}

/// The exponent of a positive finite number: it lies in `[2^e, 2^(e+1))`.
pub fn exponent(value: f64) -> i32 {
    if value < f64::MIN_POSITIVE {
        let scaled = value * 2f64.powi(200);
        return (scaled.to_bits() >> 52) as i32 - 1023 - 200;
    }
    (value.to_bits() >> 52) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents() {
        for (value, expected) in
            [(1.0, 0), (1.9, 0), (2.0, 1), (0.75, -1), (f64::MAX, 1023), (5e-324, -1074), (1e-310, -1030)]
        {
            assert_eq!(exponent(value), expected, "{value}");
        }
    }

    #[test]
    fn near_one_is_below_it() {
        for value in [1.0, 1.9, 2.0, 0.75, 1e300, 3e-300] {
            let near = value * near_one(value);
            assert!((0.5..1.0).contains(&near), "{value}: {near}");
        }
    }
}
