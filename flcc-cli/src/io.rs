//! Image files in and out: PNG, JPEG, TIFF, PGM, PPM, `.npy`, raw frames and those of YUV4MPEG2; zarr arrays, which are
//! folders.
//!
//! A file is told by its first bytes; its extension only adds a note where it disagrees. Samples come out as they are
//! stored, or as the smallest float type that holds them exactly; every other change is written in [`Loaded::notes`].
//! Nothing is guessed, resized or normalised, and no file, however damaged, makes this module panic: a decoder that
//! panics is reported as a damaged file. Decoded rasters are limited to [`MAX_DECODED_BYTES`]. Nothing is read that no
//! format begins with, and no more than the memory holds, so that an input without end ends in an error.

use std::fs::{self, File};
use std::io::{BufReader, Cursor, Read};
use std::iter;
use std::path::Path;

use flcc_core::dtype::Pixels;
use flcc_runtime::rooms::free;

mod error;
mod guard;
mod loaded;
mod npy;
mod pnm;
mod raster;
mod raw;
mod save;
mod slices;
mod source;
mod values;
mod y4m;
mod zarr;

pub use error::IoError;
use guard::guarded;
pub use loaded::{Loaded, MAX_DECODED_BYTES};
pub use raw::RawFormat;
use raw::RawReader;
pub use save::{check_writable, save_npy, save_png_gray8, save_png_rgb8, save_text, save_tiff, write_npy};
pub use slices::Hash;
pub use source::Source;
pub use values::{HELD, Values, check_array, save_zarr, write_together};
pub use y4m::{Y4mFormat, Y4mReader};
pub use zarr::folder::{FEATURE, is_array, kind as zarr_kind, named as names_array};

/// As many bytes as tell the format.
const START: usize = 16;

/// Reads an image file; a pipe is read to its end, as far as half of the free memory holds it.
///
/// # Errors
///
/// Every [`IoError`] but [`Write`](IoError::Write) and [`RawFormat`](IoError::RawFormat).
pub fn load(path: &Path) -> Result<Loaded, IoError> {
    load_as(path, &[]).map(|(loaded, _)| loaded)
}

/// As [`load`], also from standard input, whose name is `-`, and whether it is an array, whose values are meant as they
/// are, and no raster. Where there are formats `raw`, what is on standard input and what has no extension of a format
/// has no header: it is the one of them that has its size.
///
/// # Errors
///
/// As [`load`].
pub fn load_as(path: &Path, raw: &[RawFormat]) -> Result<(Loaded, bool), IoError> {
    let name = path.display().to_string();
    if let Some(array) = load_array(path)? {
        return Ok((array, true));
    }
    let (reader, size) = opened(path, &name)?;
    if headless(path, raw) { load_raw(&name, reader, size, raw) } else { load_at(path, &name, reader, size) }
}

/// Frames, one behind another.
pub type Frames = Box<dyn Iterator<Item = Result<Loaded, IoError>>>;

/// What a file of a stream holds.
pub enum Content {
    /// One image.
    Image(Loaded),
    /// Frames of YUV4MPEG2.
    Frames(Frames),
}

/// As [`load_as`], where what begins as YUV4MPEG2 has frames.
///
/// # Errors
///
/// As [`load`].
pub fn load_frames(path: &Path, raw: &[RawFormat]) -> Result<Content, IoError> {
    let name = path.display().to_string();
    if let Some(array) = load_array(path)? {
        return Ok(Content::Image(array));
    }
    let (reader, size) = opened(path, &name)?;
    if headless(path, raw) {
        return load_raw(&name, reader, size, raw).map(|(loaded, _)| Content::Image(loaded));
    }
    let (start, reader) = begun(&name, reader)?;
    if !start.starts_with(y4m::MAGIC) {
        return load_at(path, &name, reader, size).map(|(loaded, _)| Content::Image(loaded));
    }
    let mut reader = BufReader::new(reader);
    let Some(format) = Y4mFormat::read(&name, &mut reader)? else {
        return Err(IoError::Format { got: describe(&name, &start, size), name });
    };
    let mut note = names_format(path).then(|| misnamed(&name, "YUV4MPEG2"));
    let frames = Y4mReader::new(name, format, reader);
    Ok(Content::Frames(Box::new(frames.map(move |frame| {
        frame.map(|mut frame| {
            frame.notes.extend(note.take());
            frame
        })
    }))))
}

/// The raw frames of a reader. What begins as YUV4MPEG2 is refused: its lines would be taken for samples.
pub fn raw_frames(name: &str, format: RawFormat, reader: impl Read + 'static) -> Frames {
    match begun(name, reader) {
        Ok((start, _)) if start.starts_with(y4m::MAGIC) => Box::new(iter::once(Err(IoError::Damaged {
            name: name.into(),
            expected: format!("raw frames ({format})"),
            got: "YUV4MPEG2, which tells its sizes itself".into(),
        }))),
        Ok((_, reader)) => Box::new(RawReader::new(name, format, reader)),
        Err(error) => Box::new(iter::once(Err(error))),
    }
}

/// The bytes of a file, or of standard input, and how many there are if that is known.
fn opened(path: &Path, name: &str) -> Result<(Box<dyn Read>, Option<u64>), IoError> {
    if path == Path::new(STANDARD_INPUT) {
        return Ok((Box::new(std::io::stdin().lock()), None));
    }
    let failed = |source| IoError::Read { name: name.into(), source };
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Err(IoError::Format { name: name.into(), got: "a directory".into() });
    }
    let file = File::open(path).map_err(failed)?;
    Ok((Box::new(file), meta.is_file().then_some(meta.len())))
}

/// The first bytes of a reader, as many as tell a format, and all from them on.
fn begun<R: Read>(name: &str, mut reader: R) -> Result<(Vec<u8>, impl Read + use<R>), IoError> {
    let mut start = Vec::new();
    let read = reader.by_ref().take(START as u64).read_to_end(&mut start);
    read.map_err(|source| IoError::Read { name: name.into(), source })?;
    Ok((start.clone(), Cursor::new(start).chain(reader)))
}

/// Whether a name ends in an extension of a format of images that is read.
pub fn names_format(path: &Path) -> bool {
    let extension = extension(&path.display().to_string());
    FORMATS.iter().any(|row| row.2.contains(&extension.as_str()))
}

/// Whether a name ends in the extension of YUV4MPEG2.
pub fn names_frames(path: &Path) -> bool {
    extension(&path.display().to_string()) == y4m::EXTENSION
}

/// Whether a file has no header, where there are formats of such.
fn headless(path: &Path, raw: &[RawFormat]) -> bool {
    !raw.is_empty() && !names_format(path) && !names_frames(path)
}

/// What is noted where a name says another format than the content.
fn misnamed(name: &str, found: &str) -> String {
    format!("named .{}, read as {found}", extension(name))
}

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

/// Most bytes that are read of a file of a known size, or of a pipe or device, and what limits them.
fn most_bytes(size: Option<u64>) -> (f64, &'static str) {
    let free = free::available();
    match size {
        Some(_) => (free, "the free memory"),
        // What grows is copied, and what comes of it has to be held as well.
        None if free / 2.0 < MAX_DECODED_BYTES as f64 => (free / 2.0, "half of the free memory, from a pipe or device"),
        None => (MAX_DECODED_BYTES as f64, "4 GiB, from a pipe or device"),
    }
}

/// Reads a zarr array whole, if a path leads to a folder of one.
fn load_array(path: &Path) -> Result<Option<Loaded>, IoError> {
    match zarr_kind(path) {
        Some(_) => Source::open(path)?.map(|source| load_source(&source)).transpose(),
        None => Ok(None),
    }
}

/// All samples of an array of which parts could be read.
fn load_source(source: &Source) -> Result<Loaded, IoError> {
    let shape = source.shape().to_vec();
    let pixels = source.read(0, std::slice::from_ref(&(0..shape[0])))?;
    Ok(Loaded { shape, channels: 1, pixels, notes: source.notes() })
}

/// As [`load_from`], of a file at a path. A `.npy` file in C order goes from the disk to its samples piece by piece, so
/// that it is not held twice.
fn load_at(path: &Path, name: &str, reader: impl Read, size: Option<u64>) -> Result<(Loaded, bool), IoError> {
    // What is wrong with a file the other way tells.
    let source = size.and_then(|_| Source::open(path).ok().flatten());
    let Some(source) = source else { return load_from(name, reader, size) };
    let mut loaded = load_source(&source)?;
    note_name(name, Format::Npy, &mut loaded);
    Ok((loaded, true))
}

/// Reads an image of a format that its first bytes tell, of so many bytes if that is known.
fn load_from(name: &str, reader: impl Read, size: Option<u64>) -> Result<(Loaded, bool), IoError> {
    let failed = |source| IoError::Read { name: name.into(), source };
    let (start, reader) = begun(name, reader)?;
    if Format::of(&start).is_none() {
        // A short one has ended.
        let size = if start.len() < START { Some(start.len() as u64) } else { size };
        return Err(IoError::Format { name: name.into(), got: describe(name, &start, size) });
    }
    let mut bytes = Vec::new();
    let (most, limit) = most_bytes(size);
    let too_large =
        |got: String| IoError::TooLarge { name: name.into(), limit: format!("{most:.0} bytes ({limit})"), got };
    if let Some(size) = size {
        if size as f64 > most {
            return Err(too_large(format!("{size}")));
        }
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(length).map_err(|error| failed(error.into()))?;
    }
    reader.take((most as u64).saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as f64 > most {
        return Err(too_large("more".into()));
    }
    Ok((load_bytes(name, &bytes)?, Format::of(&bytes) == Some(Format::Npy)))
}

/// Reads samples without a header: of the one of some formats that has their size, which a file tells beforehand.
fn load_raw(
    name: &str,
    mut reader: impl Read,
    size: Option<u64>,
    formats: &[RawFormat],
) -> Result<(Loaded, bool), IoError> {
    let bytes_of = |format: &RawFormat| format.frame_bytes() as u64;
    let choose = |size: u64, got: String| {
        let told: Vec<String> = formats.iter().map(|format| format!("{} bytes ({format})", bytes_of(format))).collect();
        let wrong = || IoError::Damaged { name: name.into(), expected: told.join(" or "), got };
        formats.iter().find(|format| bytes_of(format) == size).cloned().ok_or_else(wrong)
    };
    let frame = |format: RawFormat, reader: &mut dyn Read| {
        let mut frames = RawReader::new(name, format, reader);
        // A file may have become shorter.
        let ended = frames.cut_short(0);
        frames.next().unwrap_or(Err(ended)).map(|loaded| (loaded, false))
    };
    if let Some(size) = size {
        return frame(choose(size, size.to_string())?, &mut reader);
    }
    let (limit, _) = most_bytes(size);
    let largest = formats.iter().map(bytes_of).max().unwrap_or(0).min(limit as u64);
    let mut bytes = Vec::new();
    let read = reader.take(largest.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|source| IoError::Read { name: name.into(), source })?;
    let size = bytes.len() as u64;
    let got = if size > largest { format!("more than {largest}") } else { size.to_string() };
    frame(choose(size, got)?, &mut bytes.as_slice())
}

/// The extension of a name, in small letters.
fn extension(name: &str) -> String {
    Path::new(name).extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase()
}

/// Reads an image from the bytes of its file. `name` is for messages, and its extension for a note.
///
/// # Errors
///
/// As [`load`].
pub fn load_bytes(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let Some(format) = Format::of(bytes) else {
        return Err(IoError::Format { name: name.into(), got: describe(name, bytes, Some(bytes.len() as u64)) });
    };
    let mut loaded = match format {
        Format::Npy => npy::load(name, bytes),
        Format::Png => guarded(name, "PNG", || raster::png(name, bytes)),
        Format::Jpeg => guarded(name, "JPEG", || raster::jpeg(name, bytes)),
        Format::Pnm => guarded(name, "PNM", || pnm::load(name, bytes)),
        Format::Tiff => guarded(name, "TIFF", || raster::tiff(name, bytes)),
    }?;
    note_name(name, format, &mut loaded);
    Ok(loaded)
}

/// Notes where a name says another format than the one that was found.
fn note_name(name: &str, format: Format, loaded: &mut Loaded) {
    let extension = extension(name);
    let (found, own) = FORMATS.iter().find(|row| row.0 == format).map_or(("", &[][..]), |row| (row.1, row.2));
    let named = names_format(Path::new(name)) || names_frames(Path::new(name));
    if named && !own.contains(&extension.as_str()) {
        loaded.notes.push(misnamed(name, found));
    }
}

/// Whether all pixels of three channels are grey, `R = G = B`.
pub fn is_grey(pixels: &Pixels) -> bool {
    fn equal<T: PartialEq>(data: &[T]) -> bool {
        data.as_chunks::<3>().0.iter().all(|[red, green, blue]| red == green && green == blue)
    }
    match pixels {
        Pixels::U8(data) => equal(data),
        Pixels::U16(data) => equal(data),
        Pixels::F32(data) => equal(data),
        Pixels::F64(data) => equal(data),
    }
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

/// What bytes of no accepted format are, as far as their start tells, and of how many there are if that is known.
fn describe(name: &str, bytes: &[u8], size: Option<u64>) -> String {
    const OTHERS: [(&[u8], &str); 11] = [
        (y4m::MAGIC, "YUV4MPEG2 (flcc stream takes it)"),
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
            let size = size.map_or(String::new(), |size| format!("{size} bytes, "));
            let raw =
                if names_format(Path::new(name)) { "" } else { "; samples without a header need --raw TYPE:SHAPE" };
            format!("an unknown format ({size}the first are {}){raw}", start.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_core::dtype::DType;
    use proptest::prelude::*;

    pub(super) fn message(bytes: &[u8], name: &str) -> String {
        let text = load_bytes(name, bytes).unwrap_err().to_string();
        assert!(!text.contains('\n') && text.contains(name), "{text:?}");
        text
    }

    fn colour(pixels: Pixels) -> Loaded {
        Loaded { shape: vec![1, pixels.len() / 3], channels: 3, pixels, notes: Vec::new() }
    }

    #[test]
    fn luma_is_rounded_once_and_keeps_the_type() {
        let gray = |pixels| to_gray(colour(pixels)).pixels;
        // 0.299 * 255 = 76.245, 0.587 * 255 = 149.685, 0.114 * 255 = 29.07.
        assert_eq!(
            gray(Pixels::U8(vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255])),
            Pixels::U8(vec![76, 150, 29, 255])
        );
        // 0.299 * 65535 = 19594.965.
        assert_eq!(gray(Pixels::U16(vec![65535, 0, 0, 65535, 65535, 65535])), Pixels::U16(vec![19595, 65535]));
        assert_eq!(gray(Pixels::F32(vec![0.1, 0.1, 0.1, 1.0, 0.0, 0.0])), Pixels::F32(vec![0.1, 0.299]));
        assert_eq!(gray(Pixels::F64(vec![0.0, 1.0, 0.0])), Pixels::F64(vec![0.587]));
        let loaded = to_gray(colour(Pixels::U8(vec![1, 2, 3])));
        assert_eq!((loaded.shape, loaded.channels, loaded.notes.len()), (vec![1, 1], 1, 1));
    }

    #[test]
    fn luma_leaves_one_channel_alone() {
        let gray = Loaded { shape: vec![3], channels: 1, pixels: Pixels::U8(vec![1, 2, 3]), notes: Vec::new() };
        assert_eq!(to_gray(gray.clone()), gray);
    }

    #[test]
    fn unknown_content_is_named() {
        assert_eq!(message(b"", "x.png"), r#""x.png": expected PNG, JPEG, TIFF, PGM, PPM or .npy, got an empty file"#);
        assert_eq!(
            message(b"hello", "x.png"),
            "\"x.png\": expected PNG, JPEG, TIFF, PGM, PPM or .npy, \
             got an unknown format (5 bytes, the first are 68 65 6c 6c 6f)"
        );
        assert!(message(b"PK\x03\x04rest", "x.npz").contains("zip archive"));
        // What an option reads is told where it would be read.
        let hint = "first are 68 65 6c 6c 6f); samples without a header need --raw TYPE:SHAPE";
        assert!(message(b"hello", "x.bin").ends_with(hint) && message(b"hello", "-").ends_with(hint));
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let folder = std::env::temp_dir();
        assert!(load(&folder).unwrap_err().to_string().ends_with("got a directory"));
        let missing = load(&folder.join("flcc-io-no-such-file.png")).unwrap_err().to_string();
        assert!(missing.contains("expected a readable file, got: "), "{missing}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_begins_as_no_format_is_not_read() {
        let zeros = load(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(zeros.contains("got an unknown format (the first are 00 00 00 00 00 00 00 00)"), "{zeros}");
        assert!(load(Path::new("/dev/null")).unwrap_err().to_string().ends_with("got an empty file"));
        // A file of a format that is larger than any memory, and of no format.
        let path = std::env::temp_dir().join(format!("flcc-io-sparse-{}", std::process::id()));
        for (start, words) in [
            (&b"\x93NUMPY"[..], "bytes (the free memory), got 1000000000000"),
            (b"rubbish", "(1000000000000 bytes, the first"),
        ] {
            fs::write(&path, start).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(1_000_000_000_000).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_misleading_extension_is_noted() {
        let loaded = load_bytes("x.tif", b"P5 2 1 255\n\x01\x02").unwrap();
        assert_eq!(loaded.pixels, Pixels::U8(vec![1, 2]));
        assert_eq!(loaded.notes, ["named .tif, read as PNM"]);
    }

    #[test]
    fn a_panicking_decoder_is_a_damaged_file() {
        let error = guarded::<Loaded>("x.png", "PNG", || panic!("on purpose")).unwrap_err();
        assert!(matches!(error, IoError::Damaged { .. }), "{error}");
    }

    /// A valid file of each format, small.
    fn samples() -> Vec<Vec<u8>> {
        let array = |shape: &[usize], pixels: &Pixels| super::save::tests::npy_bytes(shape, pixels);
        let ramp = |n: u8| (0..n).collect::<Vec<u8>>();
        vec![
            array(&[3, 4], &Pixels::F32(vec![1.5; 12])),
            array(&[2, 2, 3], &Pixels::U16(vec![7; 12])),
            super::raster::tests::png_bytes(8, 8, &ramp(64), image::ExtendedColorType::L8),
            super::raster::tests::png_bytes(4, 4, &ramp(64), image::ExtendedColorType::Rgba8),
            super::raster::tests::tiff_bytes::<tiff::encoder::colortype::Gray8>(8, 8, &[&ramp(64), &ramp(64)]),
            super::raster::tests::tiff_bytes::<tiff::encoder::colortype::RGB16>(2, 2, &[&[9; 12]]),
            [b"P5 8 8 255\n".as_slice(), &ramp(64)].concat(),
            b"P2\n# grey\n2 2 9\n1 2\n3 9\n".to_vec(),
            [b"P6 2 2 65535\n".as_slice(), &ramp(24)].concat(),
        ]
    }

    fn consistent(loaded: &Loaded) {
        assert!((1..=3).contains(&loaded.shape.len()));
        assert_eq!(loaded.pixels.len(), loaded.shape.iter().product::<usize>() * loaded.channels);
    }

    #[test]
    fn every_sample_loads() {
        for bytes in samples() {
            consistent(&load_bytes("sample", &bytes).unwrap());
        }
        assert_eq!(load_bytes("x", &samples()[0]).unwrap().pixels.dtype(), DType::F32);
    }

    #[test]
    fn every_sample_cut_anywhere_is_an_error_or_whole() {
        for bytes in samples() {
            for end in 0..bytes.len() {
                if let Ok(loaded) = load_bytes("cut", &bytes[..end]) {
                    // The text form of PGM may lose its last digit or newline unseen.
                    assert!(
                        bytes.starts_with(b"P2") && end >= bytes.len() - 2,
                        "{end} of {}: {:?}",
                        bytes.len(),
                        &bytes[..8]
                    );
                    consistent(&loaded);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_bytes_never_panic(start in 0..9usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let starts: [&[u8]; 9] = [
                b"",
                b"\x93NUMPY\x01\0",
                b"\x93NUMPY\x02\0",
                b"\x89PNG\r\n\x1a\n",
                b"\xff\xd8\xff",
                b"II*\0",
                b"MM\0+",
                b"P5 ",
                b"P7\n",
            ];
            if let Ok(loaded) = load_bytes("noise", &[starts[start], &bytes].concat()) {
                consistent(&loaded);
            }
        }

        #[test]
        fn damaged_files_never_panic(
            which in any::<prop::sample::Index>(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let samples = samples();
            let mut bytes = samples[which.index(samples.len())].clone();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(loaded) = load_bytes("damaged", &bytes) {
                consistent(&loaded);
            }
        }
    }
}
