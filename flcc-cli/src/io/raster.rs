//! PNG by the `png` crate, JPEG by `zune-jpeg`, TIFF by `tiff`.
//!
//! Grey of 1, 2 and 4 bits and palettes become 8 bits; alpha is dropped with a note; pages of a TIFF become axis 0.
//! Sizes are checked before a decoder allocates. Colour profiles, gamma and orientation are never applied.

use std::io::Cursor;

use flcc_core::dtype::Pixels;
use flcc_core::error::counted;
use tiff::decoder::{Decoder, DecodingResult};
use tiff::tags::Tag;
use tiff::{ColorType as TiffColor, TiffError};
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::error::{IoError, one_line, shape_text};
use super::loaded::{Loaded, MAX_DECODED_BYTES, MAX_EXPANSION, check_memory};

/// Reads a PNG; of an animation the default image. A file without its end chunk is truncated, even if all rows are
/// there.
pub(super) fn png(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let Some((_, _, rest)) = png_chunks(bytes).find(|(kind, ..)| *kind == b"IEND") else {
        return Err(truncated(name, "a PNG that ends with its IEND chunk", bytes));
    };
    check_palette(name, bytes)?;
    let mut decoder = png_decoder(bytes);
    // Palettes become colours, and grey of few bits becomes bytes.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|error| png_error(name, error))?;
    let animated = reader.info().animation_control.is_some();
    let (color, depth) = reader.output_color_type();
    let (kept, stored, size) = match (color, depth) {
        (png::ColorType::Grayscale, png::BitDepth::Eight) => (1, 1, 1),
        (png::ColorType::Grayscale, png::BitDepth::Sixteen) => (1, 1, 2),
        (png::ColorType::GrayscaleAlpha, png::BitDepth::Eight) => (1, 2, 1),
        (png::ColorType::GrayscaleAlpha, png::BitDepth::Sixteen) => (1, 2, 2),
        (png::ColorType::Rgb, png::BitDepth::Eight) => (3, 3, 1),
        (png::ColorType::Rgb, png::BitDepth::Sixteen) => (3, 3, 2),
        (png::ColorType::Rgba, png::BitDepth::Eight) => (3, 4, 1),
        (png::ColorType::Rgba, png::BitDepth::Sixteen) => (3, 4, 2),
        other => return Err(unsupported(name, "PNG of 8 or 16 bits".into(), format!("{other:?}"))),
    };
    let shape = vec![reader.info().height as usize, reader.info().width as usize];
    let mut data = vec![0; check_size(name, &shape, stored * size, 0, bytes.len())?];
    reader.next_frame(&mut data).map_err(|error| png_error(name, error))?;
    let pixels = match size {
        1 => Pixels::U8(if kept == stored { data } else { keep(&data, kept, stored, |value| value) }),
        _ => Pixels::U16(keep(data.as_chunks::<2>().0, kept, stored, u16::from_be_bytes)),
    };
    let mut notes = Vec::new();
    if kept < stored {
        notes.push("alpha dropped".into());
    }
    if animated {
        notes.push("of an animation the default image read".into());
    }
    // It may stand behind the samples, where the decoder above has not been.
    let exif = png_chunks(bytes).find(|(kind, ..)| *kind == b"eXIf");
    notes.extend(turned(exif.and_then(|(_, exif, _)| orientation(exif))));
    notes.extend(ignored(rest));
    Ok(Loaded { shape, channels: kept, pixels, notes })
}

fn png_decoder(bytes: &[u8]) -> png::Decoder<Cursor<&[u8]>> {
    let limits = png::Limits { bytes: usize::try_from(MAX_DECODED_BYTES).unwrap_or(usize::MAX) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // What is no sample is not unpacked: it may be large.
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_ignore_text_chunk(true);
    decoder
}

/// Refuses a palette that is not whole, and pixels that it has no colour for. The decoder above fails at the one
/// without an error and takes the others for black, so the indices are decoded before, unless every index has a colour.
fn check_palette(name: &str, bytes: &[u8]) -> Result<(), IoError> {
    let failed = |error| png_error(name, error);
    let palettes = || png_chunks(bytes).filter(|(kind, ..)| *kind == b"PLTE");
    if let Some((_, palette, _)) = palettes().find(|(_, palette, _)| !palette.len().is_multiple_of(3)) {
        return Err(damaged(
            name,
            "three bytes for each colour of the palette".into(),
            format!("{} bytes", palette.len()),
        ));
    }
    let mut reader = png_decoder(bytes).read_info().map_err(failed)?;
    let info = reader.info();
    let (width, bits) = (info.width as usize, info.bit_depth as usize);
    let entries = info.palette.as_ref().map_or(0, |palette| palette.len() / 3);
    if info.color_type != png::ColorType::Indexed || entries >= 1 << bits {
        return Ok(());
    }
    let size = reader.output_buffer_size().unwrap_or(usize::MAX);
    check_memory(name, size, 1)?;
    let mut data = vec![0; size];
    let line = reader.next_frame(&mut data).map_err(failed)?.line_size;
    let index = |row: &[u8], x: usize| usize::from(row[x * bits / 8] >> (8 - bits - x * bits % 8)) & ((1 << bits) - 1);
    let largest = data.chunks_exact(line.max(1)).flat_map(|row| (0..width).map(move |x| index(row, x))).max();
    match largest.filter(|&largest| largest >= entries) {
        Some(largest) => Err(damaged(
            name,
            format!("palette indices below {entries}, the colours of its palette"),
            largest.to_string(),
        )),
        None => Ok(()),
    }
}

/// Reads a JPEG. A file without its end marker is truncated: its decoder would fill the rest with grey. Damaged data,
/// and data that end before the last block, are noted: its decoder fills in what is missing.
pub(super) fn jpeg(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let Some(end) = jpeg_end(bytes) else {
        return Err(truncated(name, "a JPEG that ends with its end marker", bytes));
    };
    let failed = |error| jpeg_error(name, error);
    let options = DecoderOptions::default().set_strict_mode(false).set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut header = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    header.decode_headers().map_err(failed)?;
    let mut notes = Vec::new();
    let (channels, color) = match header.input_colorspace() {
        Some(ColorSpace::Luma) => (1, ColorSpace::Luma),
        Some(ColorSpace::YCbCr | ColorSpace::RGB) => (3, ColorSpace::RGB),
        // Its inks are told the other way round where Adobe's marker stands, which the decoder takes for granted.
        Some(ColorSpace::CMYK | ColorSpace::YCCK) if has_adobe_marker(bytes) => {
            notes.push("inks read as red, green and blue".into());
            (3, ColorSpace::RGB)
        }
        other => {
            let got = other.map_or("none".into(), |space| format!("{space:?}"));
            return Err(unsupported(name, "JPEG of grey, colour, or inks with Adobe's marker".into(), got));
        }
    };
    let (w, h) = header.dimensions().ok_or_else(|| damaged(name, "a JPEG with sides".into(), "none".into()))?;
    let shape = vec![h, w];
    let mut data = vec![0; check_size(name, &shape, channels, 0, bytes.len())?];
    let options = options.jpeg_set_out_colorspace(color);
    let decode = |bytes: &[u8], strict: bool, data: &mut [u8]| {
        JpegDecoder::new_with_options(ZCursor::new(bytes), options.set_strict_mode(strict)).decode_into(data)
    };
    // Behind the end its decoder takes zeros for codes. Ones in their place are no code.
    let guarded = [&bytes[..end], &[0xff, 0x00].repeat(GUARD), &END].concat();
    if let Err(error) = decode(&guarded, true, &mut data) {
        data.fill(0);
        decode(bytes, false, &mut data).map_err(failed)?;
        notes.push(format!("damaged or cut short, and filled in where something is missing: {}", one_line(error)));
    }
    notes.extend(turned(header.exif().and_then(|exif| orientation(exif))));
    notes.extend(ignored(&bytes[end + END.len()..]));
    Ok(Loaded { shape, channels, pixels: Pixels::U8(data), notes })
}

/// The end marker of a JPEG.
const END: [u8; 2] = [0xff, 0xd9];

/// Bytes of ones that no decoding gets past: a value of up to 16 bits, a code of as many, and 8 bytes of reading ahead.
const GUARD: usize = 16;

/// Whether Adobe's marker stands among the segments.
fn has_adobe_marker(bytes: &[u8]) -> bool {
    bytes.windows(9).any(|window| window.starts_with(&[0xff, 0xee]) && window.ends_with(b"Adobe"))
}

/// What is noted of bytes behind an image, as another image: of white space and zeros, which fill up, nothing.
pub(super) fn ignored(rest: &[u8]) -> Option<String> {
    let fills = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let first = rest.iter().position(|byte| !fills(byte))?;
    let last = rest.iter().rposition(|byte| !fills(byte))?;
    Some(format!("{} bytes after the image ignored", last + 1 - first))
}

/// What is noted of an orientation, as EXIF and TIFF number it: samples stay as they are stored, and 1 is upright.
fn turned(orientation: Option<u16>) -> Option<String> {
    let turned = orientation.is_some_and(|orientation| (2..=8).contains(&orientation));
    turned.then(|| "EXIF orientation not applied".into())
}

/// The orientation in EXIF, a TIFF of no image: tag 0x112, one short value.
fn orientation(exif: &[u8]) -> Option<u16> {
    let big = exif.starts_with(b"MM\0*");
    if !big && !exif.starts_with(b"II*\0") {
        return None;
    }
    let short = |at: usize| {
        let value = *exif.get(at..)?.first_chunk::<2>()?;
        Some(if big { u16::from_be_bytes(value) } else { u16::from_le_bytes(value) })
    };
    let long = |at: usize| {
        let value = *exif.get(at..)?.first_chunk::<4>()?;
        Some(if big { u32::from_be_bytes(value) } else { u32::from_le_bytes(value) })
    };
    let start = long(4)? as usize;
    let mut entries = (0..usize::from(short(start)?)).map(|entry| start + 2 + 12 * entry);
    entries
        .find(|&at| (short(at), short(at + 2), long(at + 4)) == (Some(0x112), Some(3), Some(1)))
        .and_then(|at| short(at + 8))
}

/// The first `kept` of each `stored` samples.
pub(super) fn keep<T: Copy, S>(data: &[T], kept: usize, stored: usize, value: impl Fn(T) -> S) -> Vec<S> {
    data.chunks_exact(stored).flat_map(|pixel| &pixel[..kept]).map(|&sample| value(sample)).collect()
}

/// Bytes of a raster of `size` bytes a pixel, beside `used` bytes already decoded, if the limits and the memory allow
/// them.
pub(super) fn check_size(name: &str, shape: &[usize], size: usize, used: usize, file: usize) -> Result<usize, IoError> {
    let total = shape.iter().fold(size as u128, |total, &length| total.saturating_mul(length as u128));
    let sum = total.saturating_add(used as u128);
    let too_large = |limit: String| IoError::TooLarge {
        name: name.into(),
        limit,
        got: format!("{sum} bytes ({})", shape_text(shape)),
    };
    if sum > u128::from(MAX_DECODED_BYTES) {
        return Err(too_large(format!("{MAX_DECODED_BYTES} decoded bytes (4 GiB)")));
    }
    if sum > u128::from(MAX_EXPANSION) * file as u128 {
        return Err(too_large(format!("{MAX_EXPANSION} decoded bytes for each byte of the file ({file})")));
    }
    let total = usize::try_from(total).map_err(|_| too_large("the memory".into()))?;
    check_memory(name, total, 1)?;
    Ok(total)
}

/// Reads a TIFF or BigTIFF: none, PackBits, LZW or deflate compression; strips or tiles; samples together or in planes.
pub(super) fn tiff(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let mut limits = tiff::decoder::Limits::default();
    limits.decoding_buffer_size = usize::try_from(MAX_DECODED_BYTES).unwrap_or(usize::MAX);
    limits.intermediate_buffer_size = bytes.len();
    limits.ifd_value_size = bytes.len();
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(|error| tiff_error(name, 0, error))?.with_limits(limits);
    let mut volume = page(name, 0, bytes.len(), 0, &mut decoder)?;
    let mut pages = 1;
    while decoder.more_images() {
        decoder.next_image().map_err(|error| tiff_error(name, pages, error))?;
        let next = page(name, pages, bytes.len(), held(&volume.pixels), &mut decoder)?;
        let kind = |page: &Loaded| {
            let channels = counted(page.channels, "channel");
            format!("{} {} with {channels}", shape_text(&page.shape), page.pixels.dtype())
        };
        if kind(&next) != kind(&volume) || !append(&mut volume.pixels, &next.pixels) {
            let (expected, got) = (kind(&volume), kind(&next));
            return Err(unsupported(name, format!("pages like page 0 ({expected})"), format!("page {pages} ({got})")));
        }
        for note in next.notes {
            if !volume.notes.contains(&note) {
                volume.notes.push(note);
            }
        }
        pages += 1;
    }
    if pages > 1 {
        volume.shape.insert(0, pages);
    }
    Ok(volume)
}

fn held(pixels: &Pixels) -> usize {
    pixels.len() * pixels.dtype().row().size
}

/// Appends samples of the same type; `false` if they are of another.
fn append(all: &mut Pixels, next: &Pixels) -> bool {
    match (all, next) {
        (Pixels::U8(all), Pixels::U8(next)) => all.extend(next),
        (Pixels::U16(all), Pixels::U16(next)) => all.extend(next),
        (Pixels::F32(all), Pixels::F32(next)) => all.extend(next),
        (Pixels::F64(all), Pixels::F64(next)) => all.extend(next),
        _ => return false,
    }
    true
}

/// The page at which `decoder` stands. `used` bytes are decoded already.
fn page(
    name: &str,
    number: usize,
    file: usize,
    used: usize,
    decoder: &mut Decoder<Cursor<&[u8]>>,
) -> Result<Loaded, IoError> {
    let failed = |error| tiff_error(name, number, error);
    let (w, h) = decoder.dimensions().map_err(failed)?;
    let color = decoder.colortype().map_err(failed)?;
    let samples: u16 = decoder.find_tag_unsigned(Tag::SamplesPerPixel).map_err(failed)?.unwrap_or(1);
    let extra: Vec<u16> = decoder.find_tag_unsigned_vec(Tag::ExtraSamples).map_err(failed)?.unwrap_or_default();
    let (kept, stored, bits) = match color {
        TiffColor::Gray(bits) => (1, 1, bits),
        TiffColor::GrayA(bits) => (1, 2, bits),
        TiffColor::Multiband { bit_depth, num_samples: 2 } if matches!(extra[..], [1 | 2]) => (1, 2, bit_depth),
        TiffColor::RGB(bits) => (3, 3, bits),
        TiffColor::RGBA(bits) => (3, 4, bits),
        _ => (0, 0, 0),
    };
    let kind = || format!("{color:?} of {samples} samples in page {number}");
    if stored != usize::from(samples) {
        return Err(unsupported(name, "TIFF pages of grey or RGB, with alpha or without".into(), kind()));
    }
    if !(matches!(bits, 8 | 16 | 32 | 64) || matches!((bits, stored), (1 | 2 | 4, 1))) {
        return Err(unsupported(name, "TIFF samples of 8, 16, 32 or 64 bits, or grey of 1, 2 or 4".into(), kind()));
    }
    let shape = vec![h as usize, w as usize];
    let total = check_size(name, &shape, stored * usize::from(bits).div_ceil(8), used, file)?;
    let order: u16 = decoder.find_tag_unsigned(Tag::FillOrder).map_err(failed)?.unwrap_or(1);
    if order != 1 {
        let got = format!("fill order {order} in page {number}");
        return Err(unsupported(name, "TIFF bytes with the first pixel in the high bits".into(), got));
    }
    let expected = if bits < 8 { (w as usize * usize::from(bits)).div_ceil(8) * h as usize } else { total };
    let compression: u16 = decoder.find_tag_unsigned(Tag::Compression).map_err(failed)?.unwrap_or(1);
    if compression == 1 {
        // Its decoder takes what is missing from whatever follows.
        let mut counted = 0u64;
        for tag in [Tag::StripByteCounts, Tag::TileByteCounts] {
            let counts: Option<Vec<u64>> = decoder.find_tag_unsigned_vec(tag).map_err(failed)?;
            counted = counts.into_iter().flatten().fold(counted, u64::saturating_add);
        }
        if counted > 0 && counted < expected as u64 {
            return Err(damaged(name, format!("{expected} bytes of samples in page {number}"), counted.to_string()));
        }
    }
    let mut result = DecodingResult::U8(Vec::new());
    let layout = decoder.read_image_to_buffer(&mut result).map_err(failed)?;
    let got = result.as_buffer(0).byte_len();
    if got != expected || (layout.planes > 1 && layout.planes != stored) {
        return Err(damaged(name, format!("{expected} decoded bytes in page {number}"), got.to_string()));
    }
    let picker = Picker { kept, stored, planes: layout.planes };
    let (pixels, read_as) = match result {
        DecodingResult::U8(data) if bits < 8 => (Pixels::U8(unpacked(&data, w as usize, bits)), None),
        DecodingResult::U8(data) => (Pixels::U8(picker.pick(&data, |value| value)), None),
        DecodingResult::U16(data) => (Pixels::U16(picker.pick(&data, |value| value)), None),
        DecodingResult::F32(data) => (Pixels::F32(picker.pick(&data, |value| value)), None),
        DecodingResult::F64(data) => (Pixels::F64(picker.pick(&data, |value| value)), None),
        DecodingResult::I8(data) => (Pixels::F32(picker.pick(&data, f32::from)), Some("i8 read as f32")),
        DecodingResult::I16(data) => (Pixels::F32(picker.pick(&data, f32::from)), Some("i16 read as f32")),
        DecodingResult::F16(data) => (Pixels::F32(picker.pick(&data, f32::from)), Some("f16 read as f32")),
        DecodingResult::I32(data) => (Pixels::F64(picker.pick(&data, f64::from)), Some("i32 read as f64")),
        DecodingResult::U32(data) => (Pixels::F64(picker.pick(&data, f64::from)), Some("u32 read as f64")),
        DecodingResult::U64(_) | DecodingResult::I64(_) => {
            return Err(unsupported(
                name,
                "TIFF integers of at most 32 bits".into(),
                format!("64 bits in page {number}"),
            ));
        }
    };
    let mut notes: Vec<String> = read_as.map(String::from).into_iter().collect();
    if kept < stored {
        notes.push("alpha dropped".into());
    }
    // A tag that is damaged changes no sample.
    notes.extend(turned(decoder.find_tag_unsigned(Tag::Orientation).ok().flatten()));
    Ok(Loaded { shape, channels: kept, pixels, notes })
}

/// Which samples of a page are wanted, and whether they lie together or in planes.
struct Picker {
    kept: usize,
    stored: usize,
    planes: usize,
}

impl Picker {
    fn pick<T: Copy, S>(&self, data: &[T], value: impl Fn(T) -> S) -> Vec<S> {
        if self.planes <= 1 {
            return keep(data, self.kept, self.stored, value);
        }
        let count = data.len() / self.stored;
        (0..count).flat_map(|i| (0..self.kept).map(move |channel| data[channel * count + i])).map(value).collect()
    }
}

/// Samples of 1, 2 or 4 bits, the high bits first, each row padded to bytes; scaled so that the largest is 255.
fn unpacked(data: &[u8], w: usize, bits: u8) -> Vec<u8> {
    let bits = usize::from(bits);
    let max = (1u8 << bits) - 1;
    let row_bytes = (w * bits).div_ceil(8);
    let sample = |row: &[u8], x: usize| (row[x * bits / 8] >> (8 - bits - x * bits % 8) & max) * (255 / max);
    data.chunks_exact(row_bytes).flat_map(|row| (0..w).map(move |x| sample(row, x))).collect()
}

/// The chunks of a PNG that lie within the file, up to its end chunk: the kind and the data of each, and what follows.
fn png_chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8], &[u8])> {
    const SIGNATURE: usize = 8;
    let mut rest = bytes.get(SIGNATURE..);
    std::iter::from_fn(move || {
        // A length, a type of 4 bytes, the data, a check sum of 4 bytes.
        let (length, behind) = rest?.split_first_chunk::<4>()?;
        let (kind, behind) = behind.split_first_chunk::<4>()?;
        let (data, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let (_, next) = behind.split_first_chunk::<4>()?;
        rest = (kind != b"IEND").then_some(next);
        Some((kind, data, next))
    })
}

/// Where the end marker stands that the segments lead to, if they do within the file.
fn jpeg_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        // The next marker: FF and a byte that is neither a stuffed zero nor a restart nor another FF.
        let mut pairs = bytes.get(at..)?.windows(2);
        at += pairs.position(|pair| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0x01 | 0xd0..=0xd7 | 0xff))?;
        if bytes[at..].starts_with(&END) {
            return Some(at);
        }
        let &length = bytes.get(at + 2..)?.first_chunk::<2>()?;
        at += 2 + usize::from(u16::from_be_bytes(length)).max(2);
    }
}

fn unsupported(name: &str, expected: String, got: String) -> IoError {
    IoError::Unsupported { name: name.into(), expected, got }
}

fn damaged(name: &str, expected: String, got: String) -> IoError {
    IoError::Damaged { name: name.into(), expected, got }
}

fn truncated(name: &str, expected: &str, bytes: &[u8]) -> IoError {
    IoError::Damaged {
        name: name.into(),
        expected: expected.into(),
        got: format!("{} bytes without it (truncated?)", bytes.len()),
    }
}

fn png_error(name: &str, error: png::DecodingError) -> IoError {
    match error {
        png::DecodingError::LimitsExceeded => too_large(name, one_line(error)),
        _ => damaged(name, "sound PNG data".into(), one_line(error)),
    }
}

fn jpeg_error(name: &str, error: DecodeErrors) -> IoError {
    let got = one_line(&error);
    match error {
        DecodeErrors::LargeDimensions(_) => too_large(name, got),
        DecodeErrors::Unsupported(_) => unsupported(name, "JPEG of a kind that is read".into(), got),
        _ => damaged(name, "sound JPEG data".into(), got),
    }
}

fn too_large(name: &str, got: String) -> IoError {
    IoError::TooLarge { name: name.into(), limit: format!("{MAX_DECODED_BYTES} decoded bytes (4 GiB)"), got }
}

fn tiff_error(name: &str, page: usize, error: TiffError) -> IoError {
    let name = name.into();
    let got = format!("{} (page {page})", one_line(&error));
    match error {
        TiffError::LimitsExceeded => IoError::TooLarge {
            name,
            limit: format!("{MAX_DECODED_BYTES} decoded bytes (4 GiB) and values within the file"),
            got,
        },
        TiffError::UnsupportedError(_) => IoError::Unsupported {
            name,
            expected: "grey or RGB TIFF, uncompressed, PackBits, LZW or deflate".into(),
            got,
        },
        _ => IoError::Damaged { name, expected: "sound TIFF data".into(), got },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::load_bytes;
    use super::*;
    use image::codecs::{jpeg::JpegEncoder, png::PngEncoder};
    use image::{ExtendedColorType, ImageEncoder};
    use tiff::encoder::{TiffEncoder, TiffValue, colortype};

    pub(in super::super) fn png_bytes(w: u32, h: u32, data: &[u8], color: ExtendedColorType) -> Vec<u8> {
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(data, w, h, color).unwrap();
        bytes
    }

    /// A TIFF of these pages.
    pub(in super::super) fn tiff_bytes<C: colortype::ColorType>(w: u32, h: u32, pages: &[&[C::Inner]]) -> Vec<u8>
    where
        [C::Inner]: TiffValue,
    {
        let mut out = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut out).unwrap();
        for page in pages {
            encoder.write_image::<C>(w, h, page).unwrap();
        }
        out.into_inner()
    }

    pub(in super::super) fn check(bytes: &[u8], shape: &[usize], channels: usize, pixels: Pixels, notes: &[&str]) {
        let expected =
            Loaded { shape: shape.into(), channels, pixels, notes: notes.iter().map(|&note| note.into()).collect() };
        assert_eq!(load_bytes("x", bytes).unwrap(), expected);
    }

    pub(in super::super) fn fails(bytes: &[u8], parts: &[&str]) {
        let text = load_bytes("x", bytes).unwrap_err().to_string();
        assert!(text.starts_with(r#""x": expected "#) && text.contains(", got ") && !text.contains('\n'), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }

    #[test]
    fn png_of_every_kind() {
        check(&png_bytes(3, 1, &[0, 7, 255], ExtendedColorType::L8), &[1, 3], 1, Pixels::U8(vec![0, 7, 255]), &[]);
        check(
            &png_bytes(1, 2, &[1, 2, 3, 4, 5, 6], ExtendedColorType::Rgb8),
            &[2, 1],
            3,
            Pixels::U8(vec![1, 2, 3, 4, 5, 6]),
            &[],
        );
        check(
            &png_bytes(2, 1, &[1, 99, 2, 98], ExtendedColorType::La8),
            &[1, 2],
            1,
            Pixels::U8(vec![1, 2]),
            &["alpha dropped"],
        );
        check(
            &png_bytes(1, 1, &[1, 2, 3, 4], ExtendedColorType::Rgba8),
            &[1, 1],
            3,
            Pixels::U8(vec![1, 2, 3]),
            &["alpha dropped"],
        );
        let deep: Vec<u8> = [258u16, 65535].map(u16::to_ne_bytes).concat();
        check(&png_bytes(2, 1, &deep, ExtendedColorType::L16), &[1, 2], 1, Pixels::U16(vec![258, 65535]), &[]);
        check(&png_bytes(1, 1, &deep, ExtendedColorType::La16), &[1, 1], 1, Pixels::U16(vec![258]), &["alpha dropped"]);
    }

    /// A chunk of a PNG.
    fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let crc = |data: &[u8]| {
            !data.iter().fold(u32::MAX, |crc, &byte| {
                (0..8)
                    .fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
            })
        };
        let body = [kind.as_slice(), data].concat();
        [&(data.len() as u32).to_be_bytes()[..], &body, &crc(&body).to_be_bytes()].concat()
    }

    /// A PNG of one row from its parts: an uncompressed deflate block behind a filter byte 0.
    fn literal_png(w: u32, bits: u8, color: u8, palette: &[u8], row: &[u8]) -> Vec<u8> {
        let raw = [&[0], row].concat();
        let (a, b) = raw
            .iter()
            .fold((1u32, 0u32), |(a, b), &byte| ((a + u32::from(byte)) % 65521, (a + u32::from(byte) + b) % 65521));
        let length = raw.len() as u16;
        let data = [
            &[0x78, 0x01, 0x01][..],
            &length.to_le_bytes(),
            &(!length).to_le_bytes(),
            &raw,
            &(b << 16 | a).to_be_bytes(),
        ]
        .concat();
        let header = [&w.to_be_bytes()[..], &1u32.to_be_bytes(), &[bits, color, 0, 0, 0]].concat();
        let palette = if palette.is_empty() { Vec::new() } else { chunk(b"PLTE", palette) };
        [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), palette, chunk(b"IDAT", &data), chunk(b"IEND", &[])]
            .concat()
    }

    #[test]
    fn small_depths_and_palettes_become_bytes() {
        check(&literal_png(4, 1, 0, &[], &[0b0110_0000]), &[1, 4], 1, Pixels::U8(vec![0, 255, 255, 0]), &[]);
        check(&literal_png(4, 2, 0, &[], &[0b00_01_10_11]), &[1, 4], 1, Pixels::U8(vec![0, 85, 170, 255]), &[]);
        check(&literal_png(3, 4, 0, &[], &[0x0f, 0x10]), &[1, 3], 1, Pixels::U8(vec![0, 255, 17]), &[]);
        check(&literal_png(2, 8, 3, &[1, 2, 3, 4, 5, 6], &[1, 0]), &[1, 2], 3, Pixels::U8(vec![4, 5, 6, 1, 2, 3]), &[]);
        check(
            &literal_png(3, 1, 3, &[1, 2, 3, 4, 5, 6], &[0b0101_1111]),
            &[1, 3],
            3,
            Pixels::U8(vec![1, 2, 3, 4, 5, 6, 1, 2, 3]),
            &[],
        );
    }

    #[test]
    fn indices_beyond_the_palette_are_errors() {
        let colours = |count: u8| (0..3 * count).collect::<Vec<u8>>();
        for (bits, entries, row, largest) in [
            (8, 2, vec![1, 2], 2),
            (8, 2, vec![255, 0], 255),
            (4, 3, vec![0x13], 3),
            (2, 3, vec![0b0011_0000], 3),
            (1, 1, vec![0b0100_0000], 1),
        ] {
            let words = format!("palette indices below {entries}, the colours of its palette, got {largest}");
            fails(&literal_png(2, bits, 3, &colours(entries), &row), &[&words]);
        }
        // What is left of a byte behind the last pixel is no index.
        let pixels = Pixels::U8(vec![0, 1, 2, 0, 1, 2]);
        check(&literal_png(2, 2, 3, &colours(3), &[0b0000_1111]), &[1, 2], 3, pixels, &[]);
        fails(&literal_png(2, 8, 3, &[], &[0, 0]), &[]);
        for count in [1, 2, 4, 5, 8, 767] {
            let words = format!("three bytes for each colour of the palette, got {count} bytes");
            fails(&literal_png(2, 8, 3, &vec![0; count], &[0, 0]), &[&words]);
        }
    }

    #[test]
    fn what_follows_an_image_is_told() {
        let mut jpeg = Vec::new();
        JpegEncoder::new(&mut jpeg).write_image(&[120; 6], 3, 2, ExtendedColorType::L8).unwrap();
        for one in [jpeg, png_bytes(3, 1, &[0, 7, 255], ExtendedColorType::L8), b"P5 1 1 255\n7".to_vec()] {
            let notes = |rest: &[u8]| load_bytes("x", &[&one, rest].concat()).unwrap().notes;
            assert_eq!(notes(&one), [format!("{} bytes after the image ignored", one.len())]);
            assert_eq!(notes(b"\n\0a\0b\0\n"), ["3 bytes after the image ignored"]);
            assert!(notes(b"\0\0\r\n ").is_empty() && notes(b"").is_empty());
        }
    }

    #[test]
    fn jpeg_of_grey_and_colour() {
        for (color, channels) in [(ExtendedColorType::L8, 1), (ExtendedColorType::Rgb8, 3)] {
            let mut bytes = Vec::new();
            JpegEncoder::new_with_quality(&mut bytes, 100)
                .write_image(&vec![120; 9 * 5 * channels], 9, 5, color)
                .unwrap();
            let loaded = load_bytes("x.jpg", &bytes).unwrap();
            assert_eq!((loaded.shape, loaded.channels, loaded.notes), (vec![5, 9], channels, vec![]));
            let Pixels::U8(data) = loaded.pixels else { panic!("8 bits") };
            assert!(data.iter().all(|&value| value.abs_diff(120) <= 2), "{data:?}");
            for end in 3..bytes.len() {
                fails(&bytes[..end], &["end marker", "truncated?"]);
            }
        }
    }

    #[test]
    fn pixels_are_those_of_the_image_crate() {
        let noise = |count: usize| (0..count).map(|k| (k * k * 37 + k * 11) as u8).collect::<Vec<u8>>();
        let same = |format: image::ImageFormat, bytes: &[u8], channels: usize| {
            let peer = image::load_from_memory_with_format(bytes, format).unwrap();
            let loaded = load_bytes("x", bytes).unwrap();
            assert_eq!(
                (loaded.shape, loaded.channels),
                (vec![peer.height() as usize, peer.width() as usize], channels)
            );
            let pixels = match (channels, peer.color().bytes_per_pixel() / peer.color().channel_count()) {
                (1, 1) => Pixels::U8(peer.to_luma8().into_raw()),
                (1, _) => Pixels::U16(peer.to_luma16().into_raw()),
                (_, 1) => Pixels::U8(peer.to_rgb8().into_raw()),
                _ => Pixels::U16(peer.to_rgb16().into_raw()),
            };
            assert!(loaded.pixels == pixels, "{format:?} {:?}", peer.color());
        };
        use ExtendedColorType::{L8, L16, La8, La16, Rgb8, Rgb16, Rgba8, Rgba16};
        for (color, channels) in
            [(L8, 1), (L16, 1), (La8, 1), (La16, 1), (Rgb8, 3), (Rgb16, 3), (Rgba8, 3), (Rgba16, 3)]
        {
            let data = noise(9 * 7 * usize::from(color.bits_per_pixel()) / 8);
            same(image::ImageFormat::Png, &png_bytes(9, 7, &data, color), channels);
        }
        for (color, channels) in [(L8, 1), (Rgb8, 3)] {
            for quality in [10, 75, 100] {
                let mut bytes = Vec::new();
                JpegEncoder::new_with_quality(&mut bytes, quality)
                    .write_image(&noise(33 * 21 * channels), 33, 21, color)
                    .unwrap();
                same(image::ImageFormat::Jpeg, &bytes, channels);
            }
        }
    }

    #[test]
    fn a_jpeg_of_bad_codes_is_told() {
        let noise: Vec<u8> = (0..64 * 48).map(|k| (k * k * 37 + k * 11) as u8).collect();
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, 90).write_image(&noise, 64, 48, ExtendedColorType::L8).unwrap();
        assert!(load_bytes("x", &bytes).unwrap().notes.is_empty());
        let middle = bytes.len() / 2;
        bytes[middle..middle + 20].fill(0);
        let notes = load_bytes("x", &bytes).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].starts_with("damaged or cut short, and filled in"), "{notes:?}");
    }

    #[test]
    fn a_jpeg_that_was_cut_short_and_closed_is_told() {
        let noise = |count: usize| (0..count).map(|k| (k * k * 37 + k * 11) as u8).collect::<Vec<u8>>();
        for (color, channels) in [(ExtendedColorType::L8, 1), (ExtendedColorType::Rgb8, 3)] {
            for (quality, even) in [(10, false), (75, false), (100, false), (75, true)] {
                let data = if even { vec![90; 40 * 24 * channels] } else { noise(40 * 24 * channels) };
                let mut bytes = Vec::new();
                JpegEncoder::new_with_quality(&mut bytes, quality).write_image(&data, 40, 24, color).unwrap();
                assert!(load_bytes("x", &bytes).unwrap().notes.is_empty());
                let scan = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap()
                    + if channels == 1 { 10 } else { 14 };
                // What is cut off may be the padding of the last byte.
                for end in scan..bytes.len() - 4 {
                    let cut = [&bytes[..end], &END].concat();
                    let notes = load_bytes("x", &cut).unwrap().notes;
                    assert!(
                        notes.len() == 1 && notes[0].starts_with("damaged or cut short, and filled in"),
                        "{end}: {notes:?}"
                    );
                }
            }
        }
    }

    /// A TIFF of one strip, each entry a tag, its type (3: short, 4: long) and a value; the strip begins at byte 8.
    fn tiff_of(entries: &[(u16, u16, u32)], strip: &[u8]) -> Vec<u8> {
        let entry = |(tag, kind, value): &(u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &1u32.to_le_bytes(), &value.to_le_bytes()].concat()
        };
        let at = (8 + strip.len()).next_multiple_of(2);
        let mut bytes = [b"II*\0".as_slice(), &(at as u32).to_le_bytes(), strip].concat();
        bytes.resize(at, 0);
        bytes.extend((entries.len() as u16).to_le_bytes());
        bytes.extend(entries.iter().flat_map(entry));
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn tiff_strips_hold_their_rows_with_the_first_pixel_in_the_high_bits() {
        let tiff = |order: u32, count: u32| {
            let sides = [(256, 3, 4), (257, 3, 2), (258, 3, 8), (259, 3, 1), (262, 3, 1), (266, 3, order)];
            let strip = [(273, 4, 8), (277, 3, 1), (278, 3, 2), (279, 4, count)];
            tiff_of(&[sides.as_slice(), strip.as_slice()].concat(), &[1, 2, 3, 4, 5, 6, 7, 8])
        };
        check(&tiff(1, 8), &[2, 4], 1, Pixels::U8((1..9).collect()), &[]);
        fails(&tiff(1, 5), &["8 bytes of samples in page", "got 5"]);
        fails(&tiff(2, 8), &["fill order 2"]);
    }

    #[test]
    fn a_turned_image_of_any_format_is_told() {
        let mut jpeg = Vec::new();
        JpegEncoder::new(&mut jpeg).write_image(&[120; 6], 3, 2, ExtendedColorType::L8).unwrap();
        let in_jpeg = |exif: &[u8]| {
            let length = (exif.len() as u16 + 8).to_be_bytes();
            [&jpeg[..2], &[0xff, 0xe1], &length, b"Exif\0\0", exif, &jpeg[2..]].concat()
        };
        let png = literal_png(3, 8, 0, &[], &[1, 2, 3]);
        // Behind IHDR, and before IEND.
        let in_png = |at: usize, exif: &[u8]| [&png[..at], &chunk(b"eXIf", exif), &png[at..]].concat();
        let tiff = |value: u8| literal_tiff(2, 1, &[(258, 8), (262, 1), (274, value.into()), (277, 1)], &[1, 2]);
        // One entry: tag, a short, one of it, the value.
        let little =
            |value: u8| [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".as_slice(), &[value, 0, 0, 0]].concat();
        let big = |value: u8| [b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".as_slice(), &[0, value, 0, 0]].concat();
        for value in 0..=9 {
            let notes: &[&str] = if (2..=8).contains(&value) { &["EXIF orientation not applied"] } else { &[] };
            assert_eq!(load_bytes("x", &tiff(value)).unwrap().notes, notes, "{value}");
            for exif in [little(value), big(value)] {
                for bytes in [in_jpeg(&exif), in_png(33, &exif), in_png(png.len() - 12, &exif)] {
                    assert_eq!(load_bytes("x", &bytes).unwrap().notes, notes, "{value}");
                }
                assert!((0..exif.len()).all(|end| orientation(&exif[..end]).is_none() || end >= exif.len() - 3));
            }
        }
        let none = [&b"II*\0\xff\xff\xff\xff"[..], b"XX*\0", b""];
        assert!(none.iter().all(|exif| orientation(exif).is_none()));
    }

    #[test]
    fn tiff_of_every_type() {
        check(&tiff_bytes::<colortype::Gray8>(2, 1, &[&[1, 255]]), &[1, 2], 1, Pixels::U8(vec![1, 255]), &[]);
        check(&tiff_bytes::<colortype::Gray16>(1, 2, &[&[1, 65535]]), &[2, 1], 1, Pixels::U16(vec![1, 65535]), &[]);
        check(
            &tiff_bytes::<colortype::Gray32Float>(2, 1, &[&[1.5, -0.1]]),
            &[1, 2],
            1,
            Pixels::F32(vec![1.5, -0.1]),
            &[],
        );
        check(
            &tiff_bytes::<colortype::Gray64Float>(2, 1, &[&[1e300, -0.1]]),
            &[1, 2],
            1,
            Pixels::F64(vec![1e300, -0.1]),
            &[],
        );
        check(
            &tiff_bytes::<colortype::GrayI8>(1, 1, &[&[-128]]),
            &[1, 1],
            1,
            Pixels::F32(vec![-128.0]),
            &["i8 read as f32"],
        );
        check(
            &tiff_bytes::<colortype::GrayI16>(1, 1, &[&[-300]]),
            &[1, 1],
            1,
            Pixels::F32(vec![-300.0]),
            &["i16 read as f32"],
        );
        check(
            &tiff_bytes::<colortype::Gray32>(1, 1, &[&[u32::MAX]]),
            &[1, 1],
            1,
            Pixels::F64(vec![4294967295.0]),
            &["u32 read as f64"],
        );
        check(
            &tiff_bytes::<colortype::GrayI32>(1, 1, &[&[i32::MIN]]),
            &[1, 1],
            1,
            Pixels::F64(vec![-2147483648.0]),
            &["i32 read as f64"],
        );
        check(&tiff_bytes::<colortype::RGB8>(1, 1, &[&[1, 2, 3]]), &[1, 1], 3, Pixels::U8(vec![1, 2, 3]), &[]);
        check(
            &tiff_bytes::<colortype::RGBA16>(1, 1, &[&[1, 2, 3, 4]]),
            &[1, 1],
            3,
            Pixels::U16(vec![1, 2, 3]),
            &["alpha dropped"],
        );
        fails(&tiff_bytes::<colortype::Gray64>(1, 1, &[&[1]]), &["at most 32 bits", "64 bits in page 0"]);
        fails(&tiff_bytes::<colortype::CMYK8>(1, 1, &[&[1, 2, 3, 4]]), &["grey or RGB", "CMYK"]);
    }

    /// A little-endian TIFF of these tags, all of one short value, and one strip behind them.
    fn literal_tiff(w: u16, h: u16, tags: &[(u16, u16)], strip: &[u8]) -> Vec<u8> {
        let mut entries = vec![(256, w), (257, h), (259, 1), (278, h), (279, strip.len() as u16)];
        entries.extend(tags);
        let offset = 8 + 2 + 12 * (entries.len() as u16 + 1) + 4;
        entries.push((273, offset));
        entries.sort();
        let mut bytes = [b"II*\0".as_slice(), &8u32.to_le_bytes(), &(entries.len() as u16).to_le_bytes()].concat();
        for (tag, value) in entries {
            bytes.extend([tag, 3, 1, 0, value, 0].map(u16::to_le_bytes).concat());
        }
        [&bytes, &[0; 4][..], strip].concat()
    }

    #[test]
    fn tiff_of_small_depths_alpha_and_white_is_zero() {
        let gray = |bits: u16, white: u16| [(258, bits), (262, 1 - white)];
        check(
            &literal_tiff(3, 2, &gray(1, 0), &[0b0100_0000, 0b1010_0000]),
            &[2, 3],
            1,
            Pixels::U8(vec![0, 255, 0, 255, 0, 255]),
            &[],
        );
        check(&literal_tiff(3, 1, &gray(4, 0), &[0x0f, 0x10]), &[1, 3], 1, Pixels::U8(vec![0, 255, 17]), &[]);
        check(&literal_tiff(2, 1, &gray(8, 1), &[0, 254]), &[1, 2], 1, Pixels::U8(vec![255, 1]), &[]);
        let alpha = [(258, 8), (262, 1), (277, 2), (338, 2)];
        check(&literal_tiff(2, 1, &alpha, &[1, 99, 2, 98]), &[1, 2], 1, Pixels::U8(vec![1, 2]), &["alpha dropped"]);
        fails(
            &literal_tiff(2, 1, &[(258, 8), (262, 1), (277, 2)], &[1, 99, 2, 98]),
            &["grey or RGB", "2 samples in page 0"],
        );
        fails(&literal_tiff(2, 1, &[(258, 8), (262, 3)], &[1, 2]), &["grey or RGB", "RGBPalette"]);
    }

    #[test]
    fn tiff_pages_become_axis_0() {
        check(
            &tiff_bytes::<colortype::Gray8>(2, 1, &[&[1, 2], &[3, 4], &[5, 6]]),
            &[3, 1, 2],
            1,
            Pixels::U8((1..7).collect()),
            &[],
        );
        check(
            &tiff_bytes::<colortype::GrayI8>(1, 1, &[&[1], &[2]]),
            &[2, 1, 1],
            1,
            Pixels::F32(vec![1.0, 2.0]),
            &["i8 read as f32"],
        );
    }

    #[test]
    fn tiff_pages_that_differ_are_an_error() {
        let mut out = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut out).unwrap();
        encoder.write_image::<colortype::Gray8>(2, 1, &[1, 2]).unwrap();
        encoder.write_image::<colortype::Gray8>(1, 2, &[1, 2]).unwrap();
        fails(&out.into_inner(), &["pages like page 0 (1x2 u8 with 1 channel)", "page 1 (2x1 u8 with 1 channel)"]);
    }

    #[test]
    fn tiff_in_planes_is_interleaved() {
        let planes = Picker { kept: 3, stored: 4, planes: 4 };
        assert_eq!(planes.pick(&[1, 2, 11, 12, 21, 22, 99, 98], |value| value), [1, 11, 21, 2, 12, 22]);
    }

    #[test]
    fn absurd_sizes_name_the_limit() {
        fails(
            b"P5 60000 60000 255\n",
            &["at most 65536 decoded bytes for each byte of the file (19)", "3600000000 bytes (60000x60000)"],
        );
        fails(b"P6 60000 60000 65535\n", &["at most 4294967296 decoded bytes (4 GiB)", "21600000000 bytes"]);
        fails(&literal_png(2_000_000_000, 8, 6, &[], &[0]), &["4294967296 decoded bytes (4 GiB)"]);
        fails(
            &literal_tiff(65535, 65535, &[(258, 64), (262, 1), (339, 3)], &[0; 8]),
            &["4294967296 decoded bytes (4 GiB)"],
        );
    }
}
