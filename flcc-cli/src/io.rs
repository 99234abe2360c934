//! Image files in and out: PNG, JPEG, TIFF, PGM, PPM, `.npy` and raw frames.
//!
//! A file is told by its first bytes; its extension only adds a note where it disagrees. Samples come out as they are
//! stored, or as the smallest float type that holds them exactly; every other change is written in [`Loaded::notes`].
//! Nothing is guessed, resized or normalised, and no file, however damaged, makes this module panic: a decoder that
//! panics is reported as a damaged file. Decoded rasters are limited to [`MAX_DECODED_BYTES`].

use std::fs;
use std::io::Read;
use std::path::Path;

use flcc_core::dtype::Pixels;
use thiserror::Error;

mod npy;
mod raster;
mod raw;
mod save;

pub use raw::{RawFormat, RawReader};
pub use save::{save_npy, save_png_gray8, save_png_rgb8};

/// The largest decoded size of a compressed image, over all its pages: 4 GiB. A `.npy` array is as large as its file.
pub const MAX_DECODED_BYTES: u64 = 4 << 30;

/// What decoding may multiply a file's size by: deflate reaches 1032, on pixels of one bit that become four bytes.
const MAX_EXPANSION: u64 = 1 << 16;

/// The formats in messages.
const ACCEPTED: &str = "PNG, JPEG, TIFF, PGM, PPM or .npy";

/// An image as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The length of each axis, slowest first, without the channels: 1 to 3 axes.
    pub shape: Vec<usize>,
    /// Samples of one pixel: 1, or 3 (red, green, blue) of a colour raster, the channel fastest.
    pub channels: usize,
    /// The samples, in C order.
    pub pixels: Pixels,
    /// What was left out or changed on the way, a phrase each: `alpha dropped`.
    pub notes: Vec<String>,
}

/// Why an image was not read or written: one line with the file, what was expected and what came.
#[derive(Debug, Error)]
pub enum IoError {
    /// The system did not give the bytes.
    #[error("image {name:?}: expected a readable file, got: {source}")]
    Read {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system did not take the bytes.
    #[error("image {name:?}: expected a writable file, got: {source}")]
    Write {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is none of the formats.
    #[error("image {name:?}: expected {ACCEPTED}, got {got}")]
    Format {
        /// The file.
        name: String,
        /// What the content looks like.
        got: String,
    },
    /// The content breaks its own format: truncated, contradictory.
    #[error("image {name:?}: expected {expected}, got {got}")]
    Damaged {
        /// The file.
        name: String,
        /// What the format asks for.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The content is sound, of a kind that is not taken; or such a kind was to be written.
    #[error("image {name:?}: expected {expected}, got {got}")]
    Unsupported {
        /// The file.
        name: String,
        /// What is taken.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The image does not fit: a limit of this module, or the memory.
    #[error("image {name:?}: expected at most {limit}, got {got}")]
    TooLarge {
        /// The file.
        name: String,
        /// The limit.
        limit: String,
        /// The size.
        got: String,
    },
    /// A text that is not a raw format.
    #[error("raw format {got:?}: expected {expected}, got {found}")]
    RawFormat {
        /// The whole text.
        got: String,
        /// What this part of it should be.
        expected: String,
        /// The part that is not.
        found: String,
    },
}

/// Reads an image file; a pipe is read to its end.
///
/// # Errors
///
/// Every [`IoError`] but [`Write`](IoError::Write) and [`RawFormat`](IoError::RawFormat).
pub fn load(path: &Path) -> Result<Loaded, IoError> {
    let name = path.display().to_string();
    let failed = |source| IoError::Read { name: name.clone(), source };
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Err(IoError::Format { name, got: "a directory".into() });
    }
    let bytes = if meta.is_file() {
        fs::read(path).map_err(failed)?
    } else {
        let mut bytes = Vec::new();
        fs::File::open(path).and_then(|file| file.take(MAX_DECODED_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
        if bytes.len() as u64 > MAX_DECODED_BYTES {
            return Err(IoError::TooLarge { name, limit: format!("{MAX_DECODED_BYTES} bytes (4 GiB) from a pipe or device"), got: "more".into() });
        }
        bytes
    };
    load_bytes(&name, &bytes)
}

/// Reads an image from the bytes of its file. `name` is for messages, and its extension for a note.
///
/// # Errors
///
/// As [`load`].
pub fn load_bytes(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let Some(format) = Format::of(bytes) else {
        return Err(IoError::Format { name: name.into(), got: describe(bytes) });
    };
    let mut loaded = match format {
        Format::Npy => npy::load(name, bytes),
        Format::Png => guarded(name, "PNG", || raster::png(name, bytes)),
        Format::Jpeg => guarded(name, "JPEG", || raster::jpeg(name, bytes)),
        Format::Pnm => guarded(name, "PNM", || raster::pnm(name, bytes)),
        Format::Tiff => guarded(name, "TIFF", || raster::tiff(name, bytes)),
    }?;
    let extension = Path::new(name).extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase();
    if FORMATS.iter().any(|row| row.0 != format && row.2.contains(&extension.as_str())) {
        let found = FORMATS.iter().find(|row| row.0 == format).map_or("", |row| row.1);
        loaded.notes.push(format!("named .{extension}, read as {found}"));
    }
    Ok(loaded)
}

/// Folds colour to one channel by Rec. 601 luma, `0.299 R + 0.587 G + 0.114 B`; one channel passes unchanged.
///
/// Integers keep their type, rounded to the nearest (a half goes up); floats keep theirs, rounded once from `f64`. Grey
/// pixels, `R = G = B`, keep their value exactly unless it is an `f64` beyond 44 bits.
pub fn to_gray(loaded: Loaded) -> Loaded {
    if loaded.channels != 3 {
        return loaded;
    }
    /// The weights in thousandths are integers, so an integer sum is exact.
    fn fold<T: Copy, S>(data: &[T], luma: impl Fn([T; 3]) -> S) -> Vec<S> {
        data.as_chunks::<3>().0.iter().map(|&rgb| luma(rgb)).collect()
    }
    fn integer(rgb: [u32; 3]) -> u32 {
        (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000
    }
    fn float(rgb: [f64; 3]) -> f64 {
        (299.0 * rgb[0] + 587.0 * rgb[1] + 114.0 * rgb[2]) / 1000.0
    }
    let pixels = match &loaded.pixels {
        Pixels::U8(data) => Pixels::U8(fold(data, |rgb| integer(rgb.map(u32::from)) as u8)),
        Pixels::U16(data) => Pixels::U16(fold(data, |rgb| integer(rgb.map(u32::from)) as u16)),
        Pixels::F32(data) => Pixels::F32(fold(data, |rgb| float(rgb.map(f64::from)) as f32)),
        Pixels::F64(data) => Pixels::F64(fold(data, float)),
    };
    let mut notes = loaded.notes;
    notes.push("colour folded to grey by Rec. 601 luma".into());
    Loaded { shape: loaded.shape, channels: 1, pixels, notes }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
    Tiff,
    Pnm,
    Npy,
}

/// Format, its name, its extensions.
const FORMATS: [(Format, &str, &[&str]); 5] = [
    (Format::Png, "PNG", &["png", "apng"]),
    (Format::Jpeg, "JPEG", &["jpg", "jpeg", "jpe", "jfif"]),
    (Format::Tiff, "TIFF", &["tif", "tiff", "btf", "tf8"]),
    (Format::Pnm, "PNM", &["pgm", "ppm", "pbm", "pnm", "pam"]),
    (Format::Npy, ".npy", &["npy"]),
];

impl Format {
    fn of(bytes: &[u8]) -> Option<Format> {
        let tiff: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
        match bytes {
            _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Format::Png),
            _ if bytes.starts_with(b"\xff\xd8\xff") => Some(Format::Jpeg),
            _ if tiff.iter().any(|magic| bytes.starts_with(magic)) => Some(Format::Tiff),
            _ if bytes.starts_with(npy::MAGIC) => Some(Format::Npy),
            [b'P', b'1'..=b'7', b' ' | b'\t' | b'\n' | b'\r' | b'#', ..] => Some(Format::Pnm),
            _ => None,
        }
    }
}

/// What bytes of no accepted format are, as far as their start tells.
fn describe(bytes: &[u8]) -> String {
    const OTHERS: [(&[u8], &str); 10] = [
        (b"PK\x03\x04", "a zip archive (.npz is one: save its arrays one by one)"),
        (b"\x1f\x8b", "gzip data (unpack it first)"),
        (b"BM", "BMP"),
        (b"GIF8", "GIF"),
        (b"RIFF", "a RIFF file (WebP is one)"),
        (b"\x89HDF", "HDF5"),
        (b"SIMPLE", "FITS"),
        (b"%PDF", "PDF"),
        (b"<", "a text of markup (SVG and HTML are such)"),
        (b"\x76\x2f\x31\x01", "OpenEXR"),
    ];
    if bytes.is_empty() {
        return "an empty file".into();
    }
    match OTHERS.iter().find(|row| bytes.starts_with(row.0)) {
        Some(row) => row.1.into(),
        None => {
            let start: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("an unknown format ({} bytes, the first are {})", bytes.len(), start.join(" "))
        }
    }
}

/// Runs a decoder that others wrote. A panic in it is a damaged file, whose line says so; the panic's own line still goes
/// to standard error, so that it can be reported to those who wrote it.
fn guarded(name: &str, format: &str, decode: impl FnOnce() -> Result<Loaded, IoError>) -> Result<Loaded, IoError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(IoError::Damaged { name: name.into(), expected: format!("sound {format} data"), got: "data that its decoder panics on".into() })
    })
}

/// Refuses what would not fit before anything of that size is allocated: `count` samples of `size` bytes.
fn check_memory(name: &str, count: usize, size: usize) -> Result<(), IoError> {
    let fits = count.checked_mul(size).is_some_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    match fits {
        true => Ok(()),
        false => Err(IoError::TooLarge { name: name.into(), limit: "the memory".into(), got: format!("{count} samples of {size} bytes") }),
    }
}

/// `480x640`.
fn shape_text(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    lengths.join("x")
}

/// A foreign message on one line, of bounded length.
fn one_line(message: impl std::fmt::Display) -> String {
    let text = message.to_string();
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(200).collect()
}

