//! Operations: convolution, correlation and matching by a measure.

use std::fmt;
use std::str::FromStr;

use crate::error::SpecError;
use crate::measure::{Best, MEASURES, Measure};

/// What is computed over every panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `y_b = sum_k P_b[k] t[T-1-k]`: the template is flipped on every axis.
    Convolve,
    /// `y_b = sum_k P_b[k] t[k]`: not flipped. With a mask `sum_k w[k] P_b[k] t[k]`, the measure cc.
    Correlate,
    /// A matching measure; `Match(Cc)` is written [`Op::Correlate`].
    Match(Measure),
}

impl Op {
    /// Whether the template is flipped before it is laid over the image.
    pub fn flips(self) -> bool {
        self == Op::Convolve
    }

    /// Its measure, of the template as it lies over the image.
    pub fn measure(self) -> Measure {
        match self {
            Op::Match(measure) => measure,
            Op::Convolve | Op::Correlate => Measure::Cc,
        }
    }

    /// One form for each meaning.
    pub fn canonical(self) -> Op {
        if self == Op::Match(Measure::Cc) { Op::Correlate } else { self }
    }

    /// Whether it is a matching measure: these refuse templates that hold NaN.
    pub fn matches(self) -> bool {
        matches!(self.canonical(), Op::Match(_))
    }

    /// Its name in specs.
    pub fn name(self) -> &'static str {
        match self.canonical() {
            Op::Convolve => "conv",
            Op::Correlate => "corr",
            Op::Match(measure) => measure.name(),
        }
    }

    /// Every operation.
    pub fn all() -> impl Iterator<Item = Op> {
        [Op::Convolve, Op::Correlate]
            .into_iter()
            .chain(MEASURES.iter().map(|row| Op::Match(row.measure)).filter(|op| op.matches()))
    }

    /// Which results are better matches.
    pub fn best(self) -> Best {
        self.measure().row().best
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Op {
    type Err = SpecError;

    /// A name; `cc` is read as `corr` and `lcc` as `zncc`.
    fn from_str(text: &str) -> Result<Op, SpecError> {
        match text {
            "cc" => Ok(Op::Correlate),
            "lcc" => Ok(Op::Match(Measure::Zncc)),
            _ => Op::all().find(|op| op.name() == text).ok_or_else(|| {
                let names: Vec<&str> = Op::all().map(Op::name).collect();
                SpecError::new("op", format!("{}, cc or lcc", names.join(", ")), text)
            }),
        }
    }
}
