//! Shapes of 1 to 3 axes, slowest first, with checked size arithmetic.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::error::{Kind, SpecError};

/// The lengths of 1 to 3 axes, slowest axis first: `(n)`, `(height, width)` or `(depth, height, width)`.
///
/// A shape may hold zeros while it is only looked at; what computes asks [`Shape::len`] first. The product of the
/// lengths always fits in `isize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Lengths with ones in front of the axes that the shape does not have.
    padded: [usize; 3],
    axes: usize,
}

impl Shape {
    /// A shape of 1 to 3 axes whose product fits in memory.
    ///
    /// # Errors
    /// No axis, more than three, or a product over `isize::MAX / 16`.
    pub fn new(lengths: &[usize]) -> Result<Shape, SpecError> {
        if lengths.is_empty() || lengths.len() > 3 {
            return Err(SpecError::new("shape", "1 to 3 axes", axes(lengths.len())));
        }
        let mut padded = [1; 3];
        padded[3 - lengths.len()..].copy_from_slice(lengths);
        let limit = isize::MAX as usize / 16;
        let product = lengths
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n.max(1)))
            .filter(|&product| product <= limit);
        if product.is_none() {
            return Err(SpecError::new("shape", format!("at most {limit} samples"), join(lengths, "x")));
        }
        Ok(Shape { padded, axes: lengths.len() })
    }

    /// The same number of axes with other lengths, given padded to three.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn with_padded(self, padded: [usize; 3]) -> Result<Shape, SpecError> {
        Shape::new(&padded[3 - self.axes..])
    }

    /// The lengths, slowest axis first.
    pub fn lengths(&self) -> &[usize] {
        &self.padded[3 - self.axes..]
    }

    /// The lengths as depth, height, width, with ones for the axes that are missing.
    pub fn padded(&self) -> [usize; 3] {
        self.padded
    }

    /// The number of axes, 1 to 3.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.padded.iter().product()
    }

    /// Whether an axis has length 0.
    pub fn is_empty(&self) -> bool {
        self.padded.contains(&0)
    }

    /// Itself, if it has samples.
    ///
    /// # Errors
    /// `empty_input`, naming `argument`.
    pub fn nonempty(self, argument: &str) -> Result<Shape, SpecError> {
        if self.is_empty() {
            Err(SpecError::of(Kind::EmptyInput, argument, "at least one sample on every axis", self))
        } else {
            Ok(self)
        }
    }

    /// Row-major position of a flat index, padded to three axes.
    pub fn position(&self, index: usize) -> [usize; 3] {
        let [_, h, w] = self.padded;
        [index / (h * w), index / w % h, index % w]
    }

    /// A position without the axes that the shape does not have.
    pub fn unpad<T: Copy>(&self, position: &[T; 3]) -> Vec<T> {
        position[3 - self.axes..].to_vec()
    }

    /// A position of the shape's axes, with zeros in front for those that it does not have.
    pub fn pad(&self, position: &[usize]) -> [usize; 3] {
        let missing = 3 - self.axes;
        [0, 1, 2].map(|axis| if axis < missing { 0 } else { position.get(axis - missing).copied().unwrap_or(0) })
    }
}

/// Numbers with a separator between them.
pub fn join<T: fmt::Display>(numbers: &[T], separator: &str) -> String {
    let mut text = String::new();
    for (index, number) in numbers.iter().enumerate() {
        let separator = if index == 0 { "" } else { separator };
        // Text takes whatever is written.
        let _ = write!(text, "{separator}{number}");
    }
    text
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(self.lengths(), "x"))
    }
}

impl FromStr for Shape {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Shape, SpecError> {
        Shape::new(&numbers(text, 'x', "shape")?)
    }
}

/// A number of axes in messages: `1 axis`, `2 axes`.
pub fn axes(count: usize) -> String {
    if count == 1 { "1 axis".into() } else { format!("{count} axes") }
}

/// Unsigned numbers between separators: `16x16`, `167,186`.
///
/// # Errors
/// Anything that is not digits and separators.
pub fn numbers(text: &str, separator: char, argument: &str) -> Result<Vec<usize>, SpecError> {
    let wrong = || SpecError::new(argument, format!("numbers with '{separator}' between them"), text);
    text.split(separator)
        .map(
            |part| {
                if part.bytes().all(|b| b.is_ascii_digit()) { part.parse().map_err(|_| wrong()) } else { Err(wrong()) }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let shape: Shape = "100x5x7".parse().unwrap();
        assert_eq!(shape.lengths(), [100, 5, 7]);
        assert_eq!(shape.to_string(), "100x5x7");
        assert_eq!("9".parse::<Shape>().unwrap().padded(), [1, 1, 9]);
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[0, usize::MAX, usize::MAX]).is_err());
        assert!("99999999999999999999999".parse::<Shape>().is_err());
        assert!("".parse::<Shape>().is_err());
        assert!("+4".parse::<Shape>().is_err());
        assert!(Shape::new(&[1, 1, 1, 1]).is_err());
    }

    #[test]
    fn positions_run_row_major() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!(shape.position(0), [0, 0, 0]);
        assert_eq!(shape.position(23), [1, 2, 3]);
        assert_eq!(shape.position(5), [0, 1, 1]);
    }
}
