//! Which part of a result a call computes, as a user says it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use flcc_runtime::SpecError;

/// One of several parts that a result is split into: `I/N`, from `1/N` to `N/N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tile {
    /// Its number, from 1.
    pub number: usize,
    /// How many parts there are.
    pub count: usize,
}

impl Tile {
    /// The seams from and to which the part goes, of a result whose tiles begin at all but the last of so many seams.
    ///
    /// # Errors
    /// More parts than there are rows of tiles.
    pub fn band(self, seams: usize) -> Result<Range<usize>, SpecError> {
        let rows = seams.saturating_sub(1);
        if self.count > rows {
            let parts = if rows == 1 { "1 part" } else { &format!("{rows} parts") };
            let expected = format!("at most {parts}, as many as rows of tiles");
            return Err(SpecError::new("--tile", expected, self));
        }
        let at = |number: usize| (number as u128 * rows as u128 / self.count as u128) as usize;
        Ok(at(self.number - 1)..at(self.number))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Tile {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Tile, SpecError> {
        let wrong = || SpecError::new("part", "I/N, from 1/N to N/N, as 2/16", text);
        let number = |digits: &str| {
            let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if all { digits.parse::<usize>().ok() } else { None }
        };
        let (first, second) = text.split_once('/').ok_or_else(wrong)?;
        match (number(first), number(second)) {
            (Some(number), Some(count)) if (1..=count).contains(&number) => Ok(Tile { number, count }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_follow_each_other_and_none_is_empty(seams in 2usize..400, count in 1usize..400) {
            let tile = |number| Tile { number, count };
            prop_assert_eq!(tile(1).band(seams).is_ok(), count < seams);
            prop_assume!(count < seams);
            let mut end = 0;
            for number in 1..=count {
                let band = tile(number).band(seams).unwrap();
                prop_assert!(band.start == end && band.end > end);
                end = band.end;
            }
            prop_assert_eq!(end, seams - 1);
        }
    }

    #[test]
    fn text_and_back() {
        assert_eq!("2/16".parse(), Ok(Tile { number: 2, count: 16 }));
        assert_eq!(Tile { number: 2, count: 16 }.to_string(), "2/16");
        for wrong in ["", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "a/4", "1/+4", "99999999999999999999/4"] {
            let line = wrong.parse::<Tile>().unwrap_err().to_string();
            assert!(line.starts_with("part: expected I/N, from 1/N to N/N, as 2/16, got "), "{line}");
        }
    }
}
