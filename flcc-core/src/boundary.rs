//! What lies outside the image: the six boundary rules and their index maps.
//!
//! Every result on an extended image equals extending it by `T - 1` samples on each side and taking mode valid.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::SpecError;
use crate::extent::Mode;

/// The extension of an image beyond its edges. Padded samples are ordinary samples of a panel.
#[derive(Clone, Copy, Debug, Default)]
pub enum Boundary {
    /// Zeros outside.
    #[default]
    Zero,
    /// One finite value outside.
    Constant(f64),
    /// `a a a | a b c d | d d d`: numpy `edge`, scipy `nearest`, OpenCV `BORDER_REPLICATE`.
    Replicate,
    /// `c b a | a b c d | d c b`: numpy `symmetric`, scipy `reflect`, OpenCV `BORDER_REFLECT`.
    Reflect,
    /// `d c b | a b c d | c b a`: numpy `reflect`, scipy `mirror`, OpenCV `BORDER_REFLECT_101`.
    Mirror,
    /// `b c d | a b c d | a b c`: numpy, scipy and OpenCV `wrap`.
    Wrap,
}

/// Every accepted name. `reflect` is scipy's and OpenCV's; numpy calls that one `symmetric`, and its own `reflect`, our
/// `mirror`, is reached as `numpy:reflect`.
const NAMES: [(&str, Boundary); 26] = [
    ("zero", Boundary::Zero),
    ("constant", Boundary::Constant(0.0)),
    ("replicate", Boundary::Replicate),
    ("reflect", Boundary::Reflect),
    ("mirror", Boundary::Mirror),
    ("wrap", Boundary::Wrap),
    ("zeros", Boundary::Zero),
    ("edge", Boundary::Replicate),
    ("nearest", Boundary::Replicate),
    ("symmetric", Boundary::Reflect),
    ("grid-mirror", Boundary::Reflect),
    ("grid-constant", Boundary::Constant(0.0)),
    ("grid-wrap", Boundary::Wrap),
    ("numpy:reflect", Boundary::Mirror),
    ("numpy:symmetric", Boundary::Reflect),
    ("numpy:edge", Boundary::Replicate),
    ("numpy:wrap", Boundary::Wrap),
    ("scipy:reflect", Boundary::Reflect),
    ("scipy:mirror", Boundary::Mirror),
    ("reflect_101", Boundary::Mirror),
    ("border_constant", Boundary::Constant(0.0)),
    ("border_replicate", Boundary::Replicate),
    ("border_reflect", Boundary::Reflect),
    ("border_reflect_101", Boundary::Mirror),
    ("border_default", Boundary::Mirror),
    ("border_wrap", Boundary::Wrap),
];

impl Boundary {
    /// The source index of index `i` on an axis of `n >= 1` samples, any distance outside; `None` where a value stands
    /// instead of a sample.
    #[inline]
    pub fn fold(self, i: isize, n: usize) -> Option<usize> {
        if i >= 0 && (i as usize) < n {
            return Some(i as usize);
        }
        let last = n as isize - 1;
        match self {
            Boundary::Zero | Boundary::Constant(_) => None,
            Boundary::Replicate => Some(i.clamp(0, last) as usize),
            Boundary::Reflect => {
                let j = i.rem_euclid(2 * n as isize);
                Some(j.min(2 * last + 1 - j) as usize)
            }
            Boundary::Mirror if n == 1 => Some(0),
            Boundary::Mirror => {
                let j = i.rem_euclid(2 * last);
                Some(j.min(2 * last - j) as usize)
            }
            Boundary::Wrap => Some(i.rem_euclid(n as isize) as usize),
        }
    }

    /// The value that stands outside; `None` for the rules that map to samples.
    pub fn value(self) -> Option<f64> {
        match self {
            Boundary::Zero => Some(0.0),
            Boundary::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        self.row().1
    }

    /// The number that a GPU's kernels know it by (`FLCC_MIRROR`).
    pub fn number(self) -> usize {
        self.row().0
    }

    fn row(self) -> (usize, &'static str) {
        match self {
            Boundary::Zero => (0, "zero"),
            Boundary::Constant(_) => (1, "constant"),
            Boundary::Replicate => (2, "replicate"),
            Boundary::Reflect => (3, "reflect"),
            Boundary::Mirror => (4, "mirror"),
            Boundary::Wrap => (5, "wrap"),
        }
    }

    /// One form for each meaning: `constant(0)` is `zero`, `-0.0` is `0.0`.
    pub fn canonical(self) -> Boundary {
        match self {
            Boundary::Constant(0.0) => Boundary::Zero,
            other => other,
        }
    }

    /// What lies outside an image of which so much is asked for: a mode that never looks there has `zero`.
    ///
    /// # Errors
    /// A constant that is not finite.
    pub fn outside(self, mode: Mode) -> Result<Boundary, SpecError> {
        match self.value() {
            Some(value) if !value.is_finite() => Err(SpecError::new("cval", "a finite number", value)),
            _ if mode == Mode::Valid => Ok(Boundary::Zero),
            _ => Ok(self.canonical()),
        }
    }

    /// A rule by name, with the value that `constant` takes.
    ///
    /// # Errors
    /// An unknown name, or a value that is not finite.
    pub fn named(name: &str, value: f64) -> Result<Boundary, SpecError> {
        let wanted = name.trim().to_ascii_lowercase();
        match NAMES.iter().find(|(known, _)| *known == wanted) {
            Some((_, Boundary::Constant(_))) if !value.is_finite() => {
                Err(SpecError::new("cval", "a finite number", value))
            }
            Some((_, Boundary::Constant(_))) => Ok(Boundary::Constant(value)),
            Some((_, rule)) => Ok(*rule),
            None => Err(SpecError::new(
                "boundary",
                "zero, constant, replicate, reflect, mirror or wrap (or numpy's, scipy's or OpenCV's name)",
                name,
            )),
        }
    }
}

impl PartialEq for Boundary {
    fn eq(&self, other: &Boundary) -> bool {
        self.name() == other.name() && self.value().map(f64::to_bits) == other.value().map(f64::to_bits)
    }
}

impl Eq for Boundary {}

impl Hash for Boundary {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
        self.value().map(f64::to_bits).hash(state);
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Boundary::Constant(value) => write!(f, "constant({value:?})"),
            other => f.write_str(other.name()),
        }
    }
}

impl FromStr for Boundary {
    type Err = SpecError;

    /// A name, or `constant(c)`.
    fn from_str(text: &str) -> Result<Boundary, SpecError> {
        match text.strip_prefix("constant(").and_then(|rest| rest.strip_suffix(')')) {
            Some(value) => {
                let value = value.parse().map_err(|_| SpecError::new("boundary", "constant(NUMBER)", text))?;
                Boundary::named("constant", value)
            }
            None => Boundary::named(text, 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extension of `a b c d` as letters, three samples outside on each side.
    fn extend(rule: Boundary) -> String {
        (-3..7).map(|i| rule.fold(i, 4).map_or('.', |j| b"abcd"[j] as char)).collect()
    }

    #[test]
    fn the_table_of_the_conventions() {
        assert_eq!(extend(Boundary::Zero), "...abcd...");
        assert_eq!(extend(Boundary::Replicate), "aaaabcdddd");
        assert_eq!(extend(Boundary::Reflect), "cbaabcddcb");
        assert_eq!(extend(Boundary::Mirror), "dcbabcdcba");
        assert_eq!(extend(Boundary::Wrap), "bcdabcdabc");
    }

    #[test]
    fn far_outside_and_one_sample() {
        for i in -40..40 {
            for rule in [Boundary::Replicate, Boundary::Reflect, Boundary::Mirror, Boundary::Wrap] {
                assert_eq!(rule.fold(i, 1), Some(0), "{rule} {i}");
            }
            assert_eq!(Boundary::Wrap.fold(i, 3), Some(i.rem_euclid(3) as usize));
        }
        assert_eq!(Boundary::Mirror.fold(-7, 3), Some(1));
        assert_eq!(Boundary::Reflect.fold(11, 3), Some(0));
    }

    #[test]
    fn aliases_and_text() {
        assert_eq!("symmetric".parse::<Boundary>().unwrap(), Boundary::Reflect);
        assert_eq!("numpy:reflect".parse::<Boundary>().unwrap(), Boundary::Mirror);
        assert_eq!("BORDER_REFLECT_101".parse::<Boundary>().unwrap(), Boundary::Mirror);
        assert_eq!("constant(-2.5)".parse::<Boundary>().unwrap(), Boundary::Constant(-2.5));
        assert!("constant(nan)".parse::<Boundary>().is_err());
        assert!("bounce".parse::<Boundary>().is_err());
        for (_, rule) in NAMES {
            assert_eq!(rule.to_string().parse::<Boundary>().unwrap(), rule);
        }
    }
}
