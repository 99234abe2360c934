//! Why an image was not read or written, and words for it.

use thiserror::Error;

/// The formats in messages.
const ACCEPTED: &str = "PNG, JPEG, TIFF, PGM, PPM or .npy";

/// Why an image was not read or written: one line with the file, what was expected and what came. Which argument named
/// the file is said by [`Error::Io`](crate::error::Error::Io).
#[derive(Debug, Error)]
pub enum IoError {
    /// The system did not give the bytes.
    #[error("{name:?}: expected a readable file, got: {source}")]
    Read {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system did not take the bytes.
    #[error("{name:?}: expected a writable file, got: {source}")]
    Write {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is none of the formats.
    #[error("{name:?}: expected {ACCEPTED}, got {got}")]
    Format {
        /// The file.
        name: String,
        /// What the content looks like.
        got: String,
    },
    /// The content breaks its own format: truncated, contradictory.
    #[error("{name:?}: expected {expected}, got {got}")]
    Damaged {
        /// The file.
        name: String,
        /// What the format asks for.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The content is sound, of a kind that is not taken; or such a kind was to be written.
    #[error("{name:?}: expected {expected}, got {got}")]
    Unsupported {
        /// The file.
        name: String,
        /// What is taken.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The image does not fit: a limit of this module, or the memory.
    #[error("{name:?}: expected at most {limit}, got {got}")]
    TooLarge {
        /// The file.
        name: String,
        /// The limit.
        limit: String,
        /// The size.
        got: String,
    },
    /// A text that is not a raw format.
    #[error("{got:?}: expected {expected}, got {found}")]
    RawFormat {
        /// The whole text.
        got: String,
        /// What this part of it should be.
        expected: String,
        /// The part that is not.
        found: String,
    },
}

/// `480x640`.
pub fn shape_text(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    lengths.join("x")
}

/// A foreign message on one line, of bounded length.
pub fn one_line(message: impl std::fmt::Display) -> String {
    let text = message.to_string();
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(200).collect()
}
