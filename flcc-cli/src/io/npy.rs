//! `.npy`, versions 1 to 3, read from memory; any byte order, C and Fortran order.
//!
//! Its own reader, because npyz 0.9.1 (the kept crate for this format) allocates the header size that a file declares, up
//! to 4 GiB, before it looks whether the file has it, and multiplies the shape unchecked (a panic, or a wrong length in a
//! release build). Here nothing is allocated before the file was seen to hold it, and the header is scanned without
//! recursion. Source: numpy/lib/format.py, `numpy.lib.format`.

use flcc_core::dtype::Pixels;
use half::f16;

use super::{IoError, Loaded, check_memory, one_line, shape_text};

/// The first bytes of every `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

const ACCEPTED: &str = "u1, u2, f4, f8, or bool, i1, i2, f2, i4, u4 (which become f4 or f8)";

/// How one type is read: its code without the byte order, bytes in the file, bytes in memory, how, and what to note.
type Row = (&'static str, usize, usize, fn(&[u8], bool) -> Pixels, Option<&'static str>);

const TYPES: [Row; 10] = [
    ("u1", 1, 1, |data, _| Pixels::U8(data.to_vec()), None),
    ("u2", 2, 2, |data, big| Pixels::U16(each(data, big, u16::from_le_bytes)), None),
    ("f4", 4, 4, |data, big| Pixels::F32(each(data, big, f32::from_le_bytes)), None),
    ("f8", 8, 8, |data, big| Pixels::F64(each(data, big, f64::from_le_bytes)), None),
    ("b1", 1, 4, |data, big| Pixels::F32(each(data, big, |[byte]| f32::from(byte != 0))), Some("bool read as f32")),
    ("i1", 1, 4, |data, big| Pixels::F32(each(data, big, |byte| i8::from_le_bytes(byte).into())), Some("i8 read as f32")),
    ("i2", 2, 4, |data, big| Pixels::F32(each(data, big, |bytes| i16::from_le_bytes(bytes).into())), Some("i16 read as f32")),
    ("f2", 2, 4, |data, big| Pixels::F32(each(data, big, |bytes| f16::from_le_bytes(bytes).to_f32())), Some("f16 read as f32")),
    ("i4", 4, 8, |data, big| Pixels::F64(each(data, big, |bytes| i32::from_le_bytes(bytes).into())), Some("i32 read as f64")),
    ("u4", 4, 8, |data, big| Pixels::F64(each(data, big, |bytes| u32::from_le_bytes(bytes).into())), Some("u32 read as f64")),
];

/// Every value of `data`, which holds whole values.
fn each<T, const N: usize>(data: &[u8], big: bool, value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let ordered = |mut bytes: [u8; N]| {
        if big {
            bytes.reverse();
        }
        value(bytes)
    };
    data.as_chunks::<N>().0.iter().map(|&bytes| ordered(bytes)).collect()
}

/// Reads an array. Bytes after it are left alone, with a note, as numpy does.
pub(super) fn load(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let damaged = |expected: String, got: String| IoError::Damaged { name: name.into(), expected, got };
    let (text, data) = split(bytes).map_err(|(expected, got)| damaged(expected, got))?;
    let header = Header::parse(text).map_err(|(expected, got)| damaged(expected, got))?;
    let (big, code) = match header.descr.as_bytes().first() {
        Some(b'<') => (false, &header.descr[1..]),
        Some(b'>') => (true, &header.descr[1..]),
        Some(b'|' | b'=') => (cfg!(target_endian = "big"), &header.descr[1..]),
        _ => (cfg!(target_endian = "big"), header.descr.as_str()),
    };
    let Some(&(_, stored, held, read, note)) = TYPES.iter().find(|row| row.0 == code) else {
        return Err(IoError::Unsupported {
            name: name.into(),
            expected: format!("an array of dtype {ACCEPTED}"),
            got: format!("dtype {}", one_line(&header.descr)),
        });
    };
    let shape = header.shape;
    if !(1..=3).contains(&shape.len()) {
        let got = if shape.is_empty() { "a single value (0 axes)".into() } else { format!("{} axes ({})", shape.len(), shape_text(&shape)) };
        return Err(IoError::Unsupported { name: name.into(), expected: "an array of 1 to 3 axes".into(), got: one_line(got) });
    }
    let count = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length)),
    };
    let total = count.and_then(|count| Some((count, count.checked_mul(stored)?))).filter(|&(_, total)| total <= data.len());
    let Some((count, total)) = total else {
        let size: u128 = shape.iter().fold(stored as u128, |size, &length| size.saturating_mul(length as u128));
        return Err(damaged(
            format!("{size} bytes of data ({} of {})", shape_text(&shape), header.descr),
            format!("{} bytes (truncated?)", data.len()),
        ));
    };
    check_memory(name, count, held)?;
    let mut pixels = read(&data[..total], big);
    if header.fortran_order && shape.len() > 1 {
        check_memory(name, count, held)?;
        pixels = match pixels {
            Pixels::U8(data) => Pixels::U8(c_order(&shape, &data)),
            Pixels::U16(data) => Pixels::U16(c_order(&shape, &data)),
            Pixels::F32(data) => Pixels::F32(c_order(&shape, &data)),
            Pixels::F64(data) => Pixels::F64(c_order(&shape, &data)),
        };
    }
    let mut notes: Vec<String> = note.map(String::from).into_iter().collect();
    if data.len() > total {
        notes.push(format!("{} bytes after the array ignored", data.len() - total));
    }
    Ok(Loaded { shape, channels: 1, pixels, notes })
}

/// Fortran order, first axis fastest, to C order, last axis fastest.
fn c_order<T: Copy>(shape: &[usize], data: &[T]) -> Vec<T> {
    let (d, h, w) = match *shape {
        [d, h, w] => (d, h, w),
        [h, w] => (1, h, w),
        _ => return data.to_vec(),
    };
    let mut out = Vec::with_capacity(data.len());
    for z in 0..d {
        for y in 0..h {
            out.extend((0..w).map(|x| data[z + d * (y + h * x)]));
        }
    }
    out
}

/// What was expected and what came.
type Fault = (String, String);

/// The text of the header and the data behind it.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let short = || ("a .npy header".to_string(), format!("a file of {} bytes", bytes.len()));
    let rest = &bytes[MAGIC.len()..];
    let ([major, minor], rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (length, rest) = match (major, minor) {
        (1, 0) => rest.split_first_chunk::<2>().map(|(length, rest)| (u16::from_le_bytes(*length) as usize, rest)).ok_or_else(short)?,
        (2 | 3, 0) => rest.split_first_chunk::<4>().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest)).ok_or_else(short)?,
        _ => return Err((".npy version 1.0, 2.0 or 3.0".into(), format!("version {major}.{minor}"))),
    };
    rest.split_at_checked(length).ok_or_else(|| (format!("a .npy header of {length} bytes"), format!("{} bytes (truncated?)", rest.len())))
}

/// The three entries of the header.
struct Header {
    /// The type's text without quotes; of a structured type the whole list.
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses a Python dictionary of literals, as numpy writes it: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &[u8]) -> Result<Header, Fault> {
        let whole: Fault = ("a .npy header {'descr': .., 'fortran_order': .., 'shape': ..}".into(), format!("{:?}", one_line(String::from_utf8_lossy(text))));
        let body = text.trim_ascii().strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}"));
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for entry in body.and_then(entries).ok_or_else(|| whole.clone())? {
            let Some(colon) = entry.iter().position(|&byte| byte == b':') else { return Err(whole) };
            let (key, value) = (entry[..colon].trim_ascii(), entry[colon + 1..].trim_ascii());
            match unquoted(key).ok_or_else(|| whole.clone())? {
                b"descr" => descr = Some(String::from_utf8_lossy(unquoted(value).unwrap_or(value)).into_owned()),
                b"fortran_order" => fortran_order = Some(flag(value)?),
                b"shape" => shape = Some(lengths(value)?),
                _ => return Err(whole),
            }
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header { descr, fortran_order, shape }),
            _ => Err(whole),
        }
    }
}

/// `text` cut at the commas outside quotes and brackets, without an empty last piece; `None` if a bracket or quote is open.
fn entries(text: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut pieces, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (i, &byte) in text.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.checked_sub(1)?,
            (None, b',') if depth == 0 => {
                pieces.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim_ascii().is_empty() {
        pieces.push(&text[start..]);
    }
    (depth == 0 && quote.is_none()).then_some(pieces)
}

fn unquoted(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => Some(inner),
        _ => None,
    }
}

fn flag(value: &[u8]) -> Result<bool, Fault> {
    match value {
        b"True" => Ok(true),
        b"False" => Ok(false),
        _ => Err(("fortran_order True or False in the .npy header".into(), one_line(String::from_utf8_lossy(value)))),
    }
}

/// `(3, 4)`, `(5,)`, `()`; Python 2 wrote a long integer as `5L`.
fn lengths(value: &[u8]) -> Result<Vec<usize>, Fault> {
    let length = |text: &[u8]| {
        let text = text.trim_ascii();
        let digits = text.strip_suffix(b"L").unwrap_or(text);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let inner = value.strip_prefix(b"(").and_then(|inner| inner.strip_suffix(b")"));
    inner
        .and_then(entries)
        .and_then(|pieces| pieces.into_iter().map(length).collect())
        .ok_or_else(|| ("a tuple of lengths as the shape in the .npy header".into(), one_line(String::from_utf8_lossy(value))))
}
