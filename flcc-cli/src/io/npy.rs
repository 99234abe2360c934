//! `.npy`, versions 1 to 3, read from memory; any byte order, C and Fortran order.
//!
//! Its own reader, because npyz 0.9.1 (the kept crate for this format) allocates the header size that a file declares,
//! up to 4 GiB, before it looks whether the file has it, and multiplies the shape unchecked (a panic, or a wrong length
//! in a release build). Here nothing is allocated before the file was seen to hold it, and the header is scanned
//! without recursion. Source: numpy/lib/format.py, `numpy.lib.format`.

use flcc_core::dtype::Pixels;
use half::f16;

use super::error::{IoError, one_line, shape_text};
use super::loaded::{Loaded, check_memory};

/// The first bytes of every `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

const ACCEPTED: &str = "u1, u2, f4, f8, or bool, i1, i2, f2, i4, u4, i8, u8 (which become f4 or f8)";

/// How one type is read: its code without the byte order, bytes in the file, bytes in memory, how, and what to note.
type Row = (&'static str, usize, usize, fn(&[u8], bool) -> Pixels, Option<&'static str>);

const TYPES: [Row; 12] = [
    ("u1", 1, 1, |data, _| Pixels::U8(data.to_vec()), None),
    ("u2", 2, 2, |data, big| Pixels::U16(each(data, big, u16::from_le_bytes)), None),
    ("f4", 4, 4, |data, big| Pixels::F32(each(data, big, f32::from_le_bytes)), None),
    ("f8", 8, 8, |data, big| Pixels::F64(each(data, big, f64::from_le_bytes)), None),
    ("b1", 1, 4, |data, big| Pixels::F32(each(data, big, |[byte]| f32::from(byte != 0))), Some("bool read as f32")),
    (
        "i1",
        1,
        4,
        |data, big| Pixels::F32(each(data, big, |byte| i8::from_le_bytes(byte).into())),
        Some("i8 read as f32"),
    ),
    (
        "i2",
        2,
        4,
        |data, big| Pixels::F32(each(data, big, |bytes| i16::from_le_bytes(bytes).into())),
        Some("i16 read as f32"),
    ),
    (
        "f2",
        2,
        4,
        |data, big| Pixels::F32(each(data, big, |bytes| f16::from_le_bytes(bytes).to_f32())),
        Some("f16 read as f32"),
    ),
    (
        "i4",
        4,
        8,
        |data, big| Pixels::F64(each(data, big, |bytes| i32::from_le_bytes(bytes).into())),
        Some("i32 read as f64"),
    ),
    (
        "u4",
        4,
        8,
        |data, big| Pixels::F64(each(data, big, |bytes| u32::from_le_bytes(bytes).into())),
        Some("u32 read as f64"),
    ),
    (
        "i8",
        8,
        8,
        |data, big| Pixels::F64(each(data, big, |bytes| i64::from_le_bytes(bytes) as f64)),
        Some("i64 read as f64"),
    ),
    (
        "u8",
        8,
        8,
        |data, big| Pixels::F64(each(data, big, |bytes| u64::from_le_bytes(bytes) as f64)),
        Some("u64 read as f64"),
    ),
];

/// The first value of `data` that no f64 is, in words, where the type of a row has such values.
fn rounded(row: &Row, data: &[u8], big: bool) -> Option<String> {
    let held = |value: i128| value as f64 as i128 == value;
    let values: Vec<i128> = match row.0 {
        "i8" => each(data, big, |bytes| i64::from_le_bytes(bytes).into()),
        "u8" => each(data, big, |bytes| u64::from_le_bytes(bytes).into()),
        _ => return None,
    };
    values.into_iter().find(|&value| !held(value)).map(|value| value.to_string())
}

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
    let (array, data) = Array::of(name, bytes)?;
    let (count, total) = array.size(name, data.len() as u64)?;
    let held = array.held();
    check_memory(name, count, held)?;
    let mut pixels = array.read(name, &data[..total])?;
    let shape = array.shape.clone();
    if !array.is_c_order() && count > 0 {
        check_memory(name, count, held)?;
        pixels = match pixels {
            Pixels::U8(data) => Pixels::U8(c_order(&shape, &data)),
            Pixels::U16(data) => Pixels::U16(c_order(&shape, &data)),
            Pixels::F32(data) => Pixels::F32(c_order(&shape, &data)),
            Pixels::F64(data) => Pixels::F64(c_order(&shape, &data)),
        };
    }
    let notes = array.notes(data.len() as u64 - total as u64);
    Ok(Loaded { shape, channels: 1, pixels, notes })
}

/// An array as its header tells it.
pub(super) struct Array {
    /// The length of each axis, slowest first: 1 to 3 axes.
    pub(super) shape: Vec<usize>,
    /// The type's text.
    descr: String,
    row: &'static Row,
    big: bool,
    fortran_order: bool,
}

impl Array {
    /// The header at the begin of a file, and what of the file's data follows it in these bytes.
    pub(super) fn of<'a>(name: &str, bytes: &'a [u8]) -> Result<(Array, &'a [u8]), IoError> {
        let damaged = |(expected, got): Fault| IoError::Damaged { name: name.into(), expected, got };
        let (text, data) = split(bytes).map_err(damaged)?;
        let Header { descr, fortran_order, shape } = Header::parse(text).map_err(damaged)?;
        let (big, code) = match descr.as_bytes().first() {
            Some(b'<') => (false, &descr[1..]),
            Some(b'>') => (true, &descr[1..]),
            Some(b'|' | b'=') => (cfg!(target_endian = "big"), &descr[1..]),
            _ => (cfg!(target_endian = "big"), descr.as_str()),
        };
        let Some(row) = TYPES.iter().find(|row| row.0 == code) else {
            return Err(refused_type(name, &descr));
        };
        check_axes(name, &shape)?;
        Ok((Array { shape, descr, row, big, fortran_order }, data))
    }

    /// An array of another format, in C order, of a type's code in the order of bytes of this machine.
    #[cfg(feature = "zarr")]
    pub(super) fn native(name: &str, code: &str, shape: Vec<usize>) -> Result<Array, IoError> {
        let Some(row) = TYPES.iter().find(|row| row.0 == code) else {
            return Err(refused_type(name, code));
        };
        check_axes(name, &shape)?;
        let big = cfg!(target_endian = "big");
        Ok(Array { shape, descr: code.into(), row, big, fortran_order: false })
    }

    /// How many samples there are, and in how many bytes, of which the file has so many behind its header.
    pub(super) fn size(&self, name: &str, there: u64) -> Result<(usize, usize), IoError> {
        let Array { shape, descr, row, .. } = self;
        let count = match shape.contains(&0) {
            true => Some(0),
            false => shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length)),
        };
        let size = count.and_then(|count| Some((count, count.checked_mul(row.1)?)));
        size.filter(|&(_, total)| total as u64 <= there).ok_or_else(|| {
            let size: u128 = shape.iter().fold(row.1 as u128, |size, &length| size.saturating_mul(length as u128));
            IoError::Damaged {
                name: name.into(),
                expected: format!("{size} bytes of data ({} of {descr})", shape_text(shape)),
                got: format!("{there} bytes (truncated?)"),
            }
        })
    }

    /// Bytes of a sample in the file.
    pub(super) fn stored(&self) -> usize {
        self.row.1
    }

    /// Bytes of a sample in memory.
    pub(super) fn held(&self) -> usize {
        self.row.2
    }

    /// No sample, of the type that samples are read as.
    pub(super) fn none(&self) -> Pixels {
        (self.row.3)(&[], self.big)
    }

    /// Samples from the bytes of whole ones, in their order; integers of 64 bits only where f64 holds them.
    pub(super) fn read(&self, name: &str, data: &[u8]) -> Result<Pixels, IoError> {
        match rounded(self.row, data, self.big) {
            None => Ok((self.row.3)(data, self.big)),
            Some(got) => Err(IoError::Unsupported {
                name: name.into(),
                expected: format!("integers of {} that f64 holds, as all up to 2^53 are", self.descr),
                got,
            }),
        }
    }

    /// Whether the last axis is the fastest.
    pub(super) fn is_c_order(&self) -> bool {
        !self.fortran_order || self.shape.len() == 1
    }

    /// What is to be told of it, with so many bytes behind it.
    pub(super) fn notes(&self, behind: u64) -> Vec<String> {
        let mut notes: Vec<String> = self.row.4.map(String::from).into_iter().collect();
        if behind > 0 {
            notes.push(format!("{behind} bytes after the array ignored"));
        }
        notes
    }
}

/// The error of an array of a type that is not read.
pub(super) fn refused_type(name: &str, dtype: &str) -> IoError {
    IoError::Unsupported {
        name: name.into(),
        expected: format!("an array of dtype {ACCEPTED}"),
        got: format!("dtype {}", one_line(dtype)),
    }
}

/// Refuses arrays of no axis, or of more than an image has.
fn check_axes(name: &str, shape: &[usize]) -> Result<(), IoError> {
    if (1..=3).contains(&shape.len()) {
        return Ok(());
    }
    let got = if shape.is_empty() {
        "a single value (0 axes)".into()
    } else {
        format!("{} ({})", flcc_core::shape::axes(shape.len()), shape_text(shape))
    };
    Err(IoError::Unsupported { name: name.into(), expected: "an array of 1 to 3 axes".into(), got: one_line(got) })
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
        (1, 0) => rest
            .split_first_chunk::<2>()
            .map(|(length, rest)| (u16::from_le_bytes(*length) as usize, rest))
            .ok_or_else(short)?,
        (2 | 3, 0) => rest
            .split_first_chunk::<4>()
            .map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest))
            .ok_or_else(short)?,
        _ => return Err((".npy version 1.0, 2.0 or 3.0".into(), format!("version {major}.{minor}"))),
    };
    rest.split_at_checked(length)
        .ok_or_else(|| (format!("a .npy header of {length} bytes"), format!("{} bytes (truncated?)", rest.len())))
}

/// The three entries of the header.
struct Header {
    /// The type's text without quotes; of a structured type the whole list.
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses a Python dictionary of literals, as numpy writes it:
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
    fn parse(text: &[u8]) -> Result<Header, Fault> {
        let whole: Fault = (
            "a .npy header {'descr': .., 'fortran_order': .., 'shape': ..}".into(),
            format!("{:?}", one_line(String::from_utf8_lossy(text))),
        );
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

/// `text` cut at the commas outside quotes and brackets, without an empty last piece; `None` if a bracket or quote is
/// open.
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
    inner.and_then(entries).and_then(|pieces| pieces.into_iter().map(length).collect()).ok_or_else(|| {
        ("a tuple of lengths as the shape in the .npy header".into(), one_line(String::from_utf8_lossy(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::load_bytes;
    use super::*;

    /// A file of the version with this dictionary and data.
    fn file(major: u8, dict: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = [MAGIC, &[major, 0]].concat();
        match major {
            1 => bytes.extend((dict.len() as u16).to_le_bytes()),
            _ => bytes.extend((dict.len() as u32).to_le_bytes()),
        }
        [&bytes, dict.as_bytes(), data].concat()
    }

    fn dict(descr: &str, fortran: bool, shape: &str) -> String {
        let flag = if fortran { "True" } else { "False" };
        format!("{{'descr': '{descr}', 'fortran_order': {flag}, 'shape': {shape}, }}\n")
    }

    fn check(descr: &str, data: &[u8], expected: Pixels, note: &str) {
        let shape = format!("({},)", expected.len());
        for major in 1..=3 {
            let loaded = load_bytes("x.npy", &file(major, &dict(descr, false, &shape), data)).unwrap();
            assert_eq!(
                loaded,
                Loaded { shape: vec![expected.len()], channels: 1, pixels: expected.clone(), notes: notes(note) },
                "{descr}"
            );
        }
    }

    fn notes(note: &str) -> Vec<String> {
        if note.is_empty() { Vec::new() } else { vec![note.into()] }
    }

    fn fails(bytes: &[u8], expected: &str, got: &str) {
        let text = load_bytes("x.npy", bytes).unwrap_err().to_string();
        let (left, right) = text.split_once(", got ").unwrap();
        assert!(left.starts_with(r#""x.npy": expected "#) && left.contains(expected) && right.contains(got), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }

    #[test]
    fn the_four_types_in_both_byte_orders() {
        check("|u1", &[0, 255], Pixels::U8(vec![0, 255]), "");
        check("<u2", &[1, 2, 255, 255], Pixels::U16(vec![0x0201, 65535]), "");
        check(">u2", &[1, 2, 255, 255], Pixels::U16(vec![0x0102, 65535]), "");
        check("<f4", &1.5f32.to_le_bytes(), Pixels::F32(vec![1.5]), "");
        check(">f4", &1.5f32.to_be_bytes(), Pixels::F32(vec![1.5]), "");
        check("<f8", &0.1f64.to_le_bytes(), Pixels::F64(vec![0.1]), "");
        check(">f8", &0.1f64.to_be_bytes(), Pixels::F64(vec![0.1]), "");
        check("=f8", &0.1f64.to_ne_bytes(), Pixels::F64(vec![0.1]), "");
    }

    #[test]
    fn other_types_become_the_float_that_holds_them() {
        check("|b1", &[0, 1], Pixels::F32(vec![0.0, 1.0]), "bool read as f32");
        check("|i1", &[128, 127], Pixels::F32(vec![-128.0, 127.0]), "i8 read as f32");
        check("<i2", &(-32768i16).to_le_bytes(), Pixels::F32(vec![-32768.0]), "i16 read as f32");
        check(">i2", &300i16.to_be_bytes(), Pixels::F32(vec![300.0]), "i16 read as f32");
        check("<i4", &i32::MIN.to_le_bytes(), Pixels::F64(vec![-2147483648.0]), "i32 read as f64");
        check("<i8", &(-(1i64 << 53)).to_le_bytes(), Pixels::F64(vec![-9007199254740992.0]), "i64 read as f64");
        check(">u8", &(1u64 << 63).to_be_bytes(), Pixels::F64(vec![9223372036854775808.0]), "u64 read as f64");
        check(">u4", &u32::MAX.to_be_bytes(), Pixels::F64(vec![4294967295.0]), "u32 read as f64");
        // Half precision: 1, -2, the largest 65504, the smallest 2^-24, infinity.
        let half = [0x3c00u16, 0xc000, 0x7bff, 0x0001, 0x7c00];
        let values = Pixels::F32(vec![1.0, -2.0, 65504.0, 2f32.powi(-24), f32::INFINITY]);
        check("<f2", &half.map(u16::to_le_bytes).concat(), values.clone(), "f16 read as f32");
        check(">f2", &half.map(u16::to_be_bytes).concat(), values, "f16 read as f32");
    }

    #[test]
    fn fortran_order_is_transposed() {
        // np.asfortranarray([[0, 1, 2], [3, 4, 5]]) is stored column by column.
        let plane = load_bytes("x", &file(1, &dict("|u1", true, "(2, 3)"), &[0, 3, 1, 4, 2, 5])).unwrap();
        assert_eq!((plane.shape, plane.pixels), (vec![2, 3], Pixels::U8(vec![0, 1, 2, 3, 4, 5])));
        // np.asfortranarray(np.arange(12).reshape(2, 2, 3)).
        let volume =
            load_bytes("x", &file(1, &dict("|u1", true, "(2, 2, 3)"), &[0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11]))
                .unwrap();
        assert_eq!((volume.shape, volume.pixels), (vec![2, 2, 3], Pixels::U8((0..12).collect())));
        let line = load_bytes("x", &file(1, &dict("|u1", true, "(3,)"), &[1, 2, 3])).unwrap();
        assert_eq!(line.pixels, Pixels::U8(vec![1, 2, 3]));
    }

    #[test]
    fn empty_arrays_load() {
        let empty = load_bytes("x", &file(1, &dict("<f8", false, "(0, 5)"), &[])).unwrap();
        assert_eq!((empty.shape, empty.pixels), (vec![0, 5], Pixels::F64(vec![])));
        let vast = load_bytes("x", &file(1, &dict("<f8", true, "(9223372036854775807, 9223372036854775807, 0)"), &[]))
            .unwrap();
        assert!(vast.pixels.is_empty());
    }

    #[test]
    fn bytes_after_the_array_are_noted() {
        let loaded = load_bytes("x", &file(1, &dict("|u1", false, "(2,)"), &[1, 2, 3, 4, 5])).unwrap();
        assert_eq!(
            (loaded.pixels, loaded.notes),
            (Pixels::U8(vec![1, 2]), vec!["3 bytes after the array ignored".to_string()])
        );
    }

    #[test]
    fn headers_that_others_write() {
        for text in [
            "{'shape': (2L,), 'descr': \"u1\", 'fortran_order': False}",
            "  {\"descr\":'|u1','fortran_order':False,'shape':(2,)}   \n",
        ] {
            assert_eq!(load_bytes("x", &file(1, text, &[1, 2])).unwrap().pixels, Pixels::U8(vec![1, 2]));
        }
    }

    #[test]
    fn refused_types_and_axes_are_named() {
        // 2^53 + 1 and 2^64 - 1 lie between two numbers of f64.
        let expected = "integers of <i8 that f64 holds, as all up to 2^53 are";
        fails(&file(1, &dict("<i8", false, "(1,)"), &((1i64 << 53) + 1).to_le_bytes()), expected, "9007199254740993");
        fails(&file(1, &dict("<u8", false, "(1,)"), &[255; 8]), "integers of <u8", "18446744073709551615");
        for descr in ["<c8", "<U7", "|O", "<M8[ns]", "|S3", "<f16"] {
            fails(&file(1, &dict(descr, false, "(1,)"), &[0; 64]), "dtype u1, u2, f4, f8", &format!("dtype {descr}"));
        }
        let structured = "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }";
        fails(&file(1, structured, &[0; 8]), "dtype u1", "dtype [('a', '<f4'), ('b', '<f4')]");
        fails(&file(1, &dict("<f4", false, "()"), &[0; 4]), "1 to 3 axes", "0 axes");
        fails(&file(1, &dict("|u1", false, "(1, 1, 1, 1)"), &[0; 4]), "1 to 3 axes", "4 axes (1x1x1x1)");
    }

    #[test]
    fn damaged_headers_are_errors() {
        fails(MAGIC, "a .npy header", "a file of 6 bytes");
        fails(&[MAGIC, &[1, 0, 5]].concat(), "a .npy header", "a file of 9 bytes");
        fails(&[MAGIC, &[4, 0, 0, 0]].concat(), "version 1.0, 2.0 or 3.0", "version 4.0");
        fails(&[MAGIC, &[2, 0, 255, 255, 255, 255]].concat(), "a .npy header of 4294967295 bytes", "0 bytes");
        fails(&file(1, &dict("<f4", false, "(3, 4)"), &[0; 47]), "48 bytes of data (3x4 of <f4)", "47 bytes");
        fails(
            &file(1, &dict("<f4", false, "(4294967296, 4294967296)"), &[0; 4]),
            "73786976294838206464 bytes",
            "4 bytes",
        );
        fails(
            &file(1, &dict("<f4", false, "(99999999999999999999999, 1)"), &[0; 4]),
            "a tuple of lengths",
            "(99999999999999999999999, 1)",
        );
        fails(&file(1, &dict("<f4", false, "(-1,)"), &[0; 4]), "a tuple of lengths", "(-1,)");
        fails(&file(1, &dict("<f4", false, "3"), &[0; 12]), "a tuple of lengths", "3");
        fails(&file(1, "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", &[0; 4]), "True or False", "1");
        for text in [
            "",
            "{",
            "}",
            "{'descr'}",
            "{'descr: '<f4'}",
            "{'shape': (1,)}",
            "[1, 2]",
            "{(((((]",
            "{'descr': ')', : }",
            "\u{e9}\n",
        ] {
            fails(&file(1, text, &[0; 4]), "a .npy header {", "\"");
        }
        fails(&file(2, &format!("{{'descr': {}", "(".repeat(100_000)), &[]), "a .npy header {", "((((");
    }
}
