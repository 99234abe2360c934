//! How images are read: the options that every command with an image has.

use clap::Args;
use flcc_runtime::SpecError;

use crate::io::RawFormat;

/// How images are read.
#[derive(Clone, Debug, Default, Args)]
pub struct Reading {
    /// Fold colour to grey (Rec. 601 luma)
    #[arg(long)]
    pub gray: bool,
    /// Files without a header, and an image on standard input (-), are these samples, little-endian: u16:512x512. The
    /// type is u8, u16, f32, f64 or rgb24, in colour; the shape stands slowest axis first. It holds for names that end
    /// in no extension of a format that is read, in a folder for those of its size and those with the same extension.
    /// Given several times, a file is the one that has its size
    #[arg(long, value_name = "TYPE:SHAPE")]
    pub raw: Vec<RawFormat>,
}

impl Reading {
    /// The formats of files without a header.
    ///
    /// # Errors
    /// Two of one size, which no file tells apart.
    pub fn raw(&self) -> Result<&[RawFormat], SpecError> {
        let size = RawFormat::frame_bytes;
        for (index, format) in self.raw.iter().enumerate() {
            let same = |other: &&RawFormat| size(other) == size(format) && *other != format;
            if let Some(other) = self.raw[..index].iter().find(same) {
                let expected = format!("formats of several sizes, not the {} bytes of {other} again", size(other));
                return Err(SpecError::new("--raw", expected, format));
            }
        }
        Ok(&self.raw)
    }
}
