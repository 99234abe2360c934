//! Writing: `.npy` arrays and 8-bit PNG.
//!
//! A file appears whole or not at all: it is written beside its name and renamed. A name that stands for something else
//! than a file (`/dev/stdout`, a pipe) is written to directly; a link is followed, not replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flcc_core::dtype::Pixels;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

use super::{IoError, one_line, shape_text};

/// Writes an array as `.npy`: version 1.0, little-endian, C order, the data at a multiple of 64 bytes.
///
/// # Errors
///
/// [`IoError::Unsupported`] if `shape` and the number of samples disagree; [`IoError::Write`].
pub fn save_npy(path: &Path, shape: &[usize], pixels: &Pixels) -> Result<(), IoError> {
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
    if count != Some(pixels.len()) {
        return Err(unsupported(path, format!("the samples of shape {}", shape_text(shape)), format!("{} samples", pixels.len())));
    }
    let descr = match pixels {
        Pixels::U8(_) => "|u1",
        Pixels::U16(_) => "<u2",
        Pixels::F32(_) => "<f4",
        Pixels::F64(_) => "<f8",
    };
    let header = npy_header(descr, shape);
    atomically(path, |out| {
        out.write_all(&header)?;
        match pixels {
            Pixels::U8(data) => out.write_all(data),
            Pixels::U16(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
            Pixels::F32(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
            Pixels::F64(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
        }
    })
}

/// Writes grey bytes, row by row, as an 8-bit PNG.
///
/// # Errors
///
/// [`IoError::Unsupported`] if a side is 0 or above `u32::MAX`, or the size and the number of bytes disagree;
/// [`IoError::Write`].
pub fn save_png_gray8(path: &Path, width: usize, height: usize, data: &[u8]) -> Result<(), IoError> {
    save_png(path, width, height, data, ExtendedColorType::L8, 1)
}

/// Writes bytes red, green, blue, row by row, as an 8-bit colour PNG.
///
/// # Errors
///
/// As [`save_png_gray8`].
pub fn save_png_rgb8(path: &Path, width: usize, height: usize, data: &[u8]) -> Result<(), IoError> {
    save_png(path, width, height, data, ExtendedColorType::Rgb8, 3)
}

fn save_png(path: &Path, width: usize, height: usize, data: &[u8], color: ExtendedColorType, channels: usize) -> Result<(), IoError> {
    let count = width.checked_mul(height).and_then(|count| count.checked_mul(channels));
    if count != Some(data.len()) {
        return Err(unsupported(path, format!("the bytes of {height} rows of {width} pixels, {channels} each"), format!("{} bytes", data.len())));
    }
    let side = |length: usize| u32::try_from(length).ok().filter(|&length| length > 0);
    let (Some(w), Some(h)) = (side(width), side(height)) else {
        return Err(unsupported(path, "PNG sides of 1 to 4294967295 pixels".into(), format!("{height} rows of {width}")));
    };
    atomically(path, |out| PngEncoder::new(out).write_image(data, w, h, color).map_err(|error| io::Error::other(one_line(error))))
}

fn unsupported(path: &Path, expected: String, got: String) -> IoError {
    IoError::Unsupported { name: path.display().to_string(), expected, got }
}

/// Magic, version, length and dictionary, padded with spaces to a multiple of 64.
fn npy_header(descr: &str, shape: &[usize]) -> Vec<u8> {
    const PRELUDE: usize = 10;
    let lengths: String = match shape {
        [length] => format!("{length},"),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}");
    let total = (PRELUDE + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - PRELUDE - text.len() - 1));
    text.push('\n');
    let mut header = super::npy::MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

/// Writes a file beside `path` and renames it to `path`; removes it again if that fails.
fn atomically(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), IoError> {
    let run = || {
        let into = |file: File| {
            let mut out = BufWriter::new(file);
            write(&mut out)?;
            out.flush()
        };
        let target = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Ok(meta) if !meta.is_file() => return into(OpenOptions::new().write(true).open(path)?),
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_path_buf(),
        };
        let beside = beside(&target)?;
        let file = File::create_new(&beside)?;
        into(file).and_then(|()| fs::rename(&beside, &target)).inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    };
    run().map_err(|source| IoError::Write { name: path.display().to_string(), source })
}

/// A name in the same folder that no other writer uses.
fn beside(target: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let file = target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path without a file name"))?;
    let name = format!(".{}.{}-{}.tmp", file.to_string_lossy(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Ok(target.with_file_name(name))
}
