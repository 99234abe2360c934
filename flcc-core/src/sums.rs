//! The sums in which kernels and measures meet.
//!
//! Over a panel `P`, the template `t` and the mask `w` (1 where absent), channel by channel: `it = sum w P t`,
//! `i = sum w P`, `ii = sum w P^2`. A measure turns the sums of each channel into an *energy* of the panel and a
//! *cross* term, adds these over the channels, and finishes once.

/// What a measure asks of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The cross term is `sum w |P - t|` instead of `sum w P t`.
    pub absolute_difference: bool,
    /// `sum w P` is needed.
    pub sum: bool,
    /// `sum w P^2` is needed.
    pub square: bool,
    /// The template is brought to mean 0 before the cross term (and the offset of the image is free).
    pub centred: bool,
}
