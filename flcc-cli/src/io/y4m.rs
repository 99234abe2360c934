//! Frames of YUV4MPEG2 (`.y4m`), as ffmpeg and mjpegtools write them: their luma, as grey of 8 bits.
//!
//! A line tells the sizes, `YUV4MPEG2 W640 H480 F25:1 C420jpeg`; then each frame is a line `FRAME` and its planes, luma
//! first. Chroma is read past, and lines only as far as lines of this format go. Source: y4m(5) of mjpegtools.

use std::io::{self, BufRead, Read};

use flcc_core::dtype::DType;

use super::error::{IoError, one_line};
use super::loaded::Loaded;
use super::raw::{RawFormat, RawReader};

/// How every stream begins.
pub(super) const MAGIC: &[u8] = b"YUV4MPEG2";

/// How the names of its files end.
pub(super) const EXTENSION: &str = "y4m";

/// Bytes that a line may have; mjpegtools writes up to 256.
const LINE: u64 = 4096;

/// The sampling of chroma where none is named.
const USUAL: &str = "420";

/// Samplings of 8 bits: how they are named, and by how much columns and rows of chroma are fewer; of grey alone there
/// is none.
const SAMPLINGS: [(&str, Option<[usize; 2]>); 7] = [
    (USUAL, Some([2, 2])),
    ("420jpeg", Some([2, 2])),
    ("420mpeg2", Some([2, 2])),
    ("420paldv", Some([2, 2])),
    ("422", Some([2, 1])),
    ("444", Some([1, 1])),
    ("mono", None),
];

/// What the first line says of the frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Y4mFormat {
    luma: RawFormat,
    /// Bytes of a frame behind its luma.
    chroma: u64,
}

impl Y4mFormat {
    /// Reads the first line of a stream; `name` is for messages. None if it is that of another format.
    ///
    /// # Errors
    /// A line that breaks the format, frames that are not taken; what the system said.
    pub fn read(name: &str, reader: &mut impl BufRead) -> Result<Option<Y4mFormat>, IoError> {
        let line = line(reader).map_err(|source| IoError::Read { name: name.into(), source })?;
        let Some(rest) = line.strip_prefix(MAGIC) else { return Ok(None) };
        let told = |what: &[u8]| format!("{:?}", one_line(String::from_utf8_lossy(what)));
        let damaged = |expected: &str, got: &[u8]| IoError::Damaged {
            name: name.into(),
            expected: expected.into(),
            got: told(got),
        };
        let Some(fields) = rest.strip_prefix(b" ").and_then(|fields| fields.strip_suffix(b"\n")) else {
            return Err(damaged("a first line YUV4MPEG2 W.. H.., with its end", &line));
        };
        let (mut width, mut height, mut sampling) = (None, None, USUAL.as_bytes());
        for field in fields.split(|&byte| byte == b' ').filter(|field| !field.is_empty()) {
            let length = |text: &[u8]| {
                let length = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                let length = length.and_then(|text| text.parse().ok()).filter(|&length: &usize| length > 0);
                length.ok_or_else(|| damaged("W and H as numbers of 1 or more in the first line", field))
            };
            match (field[0], &field[1..]) {
                (b'W', text) => width = Some(length(text)?),
                (b'H', text) => height = Some(length(text)?),
                (b'C', text) => sampling = text,
                // Rates, fields, aspects and comments change no sample.
                _ => {}
            }
        }
        let (Some(width), Some(height)) = (width, height) else {
            return Err(damaged("W and H in the first line", &line));
        };
        let Some((_, fewer)) = SAMPLINGS.iter().find(|row| row.0.as_bytes() == sampling) else {
            let names: Vec<&str> = SAMPLINGS.iter().map(|row| row.0).collect();
            return Err(IoError::Unsupported {
                name: name.into(),
                expected: format!("YUV4MPEG2 of 8 bits ({})", names.join(", ")),
                got: told(&[b"C", sampling].concat()),
            });
        };
        let luma = RawFormat::new(DType::U8, vec![height, width], 1)
            .ok_or_else(|| damaged("a frame that an address can span", &line))?;
        let plane = |[along, down]: [usize; 2]| width.div_ceil(along) as u64 * height.div_ceil(down) as u64;
        let chroma = fewer.map_or(0, |fewer| plane(fewer).saturating_mul(2));
        Ok(Some(Y4mFormat { luma, chroma }))
    }

    /// The layout of the luma of a frame.
    pub fn luma(&self) -> &RawFormat {
        &self.luma
    }
}

/// A line with its end, or as much of it as there is, or as a line may have.
fn line(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(LINE).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Frames of a stream whose first line was read: one [`Loaded`] each until the stream ends between two frames.
///
/// After an error there is no more. Memory grows with the bytes that come, as of raw frames.
#[derive(Debug)]
pub struct Y4mReader<R> {
    raw: RawReader<R>,
    chroma: u64,
    ended: bool,
}

impl<R: BufRead> Y4mReader<R> {
    /// Reads frames of `format` from `reader`; `name` is for messages.
    pub fn new(name: impl Into<String>, format: Y4mFormat, reader: R) -> Y4mReader<R> {
        Y4mReader { raw: RawReader::new(name, format.luma, reader), chroma: format.chroma, ended: false }
    }

    /// The next frame; none at a clean end.
    fn read(&mut self) -> Result<Option<Loaded>, IoError> {
        let head = line(self.raw.source()).map_err(|source| self.raw.unread(source))?;
        if head.is_empty() {
            return Ok(None);
        }
        let number = self.raw.given();
        let fields = head.strip_prefix(b"FRAME").and_then(|fields| fields.strip_suffix(b"\n"));
        if !fields.is_some_and(|fields| fields.is_empty() || fields.starts_with(b" ")) {
            let got = format!("{:?}", one_line(String::from_utf8_lossy(&head)));
            return Err(self.raw.damaged(number, "a line FRAME", got));
        }
        let ended = self.raw.cut_short(0);
        let loaded = self.raw.next().unwrap_or(Err(ended))?;
        let skipped = io::copy(&mut self.raw.source().take(self.chroma), &mut io::sink());
        let skipped = skipped.map_err(|source| self.raw.unread(source))?;
        if skipped < self.chroma {
            let expected = format!("{} bytes of chroma", self.chroma);
            return Err(self.raw.damaged(number, &expected, format!("{skipped} bytes before the end")));
        }
        Ok(Some(loaded))
    }
}

impl<R: BufRead> Iterator for Y4mReader<R> {
    type Item = Result<Loaded, IoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_core::dtype::Pixels;
    use proptest::prelude::*;

    /// The shape and the samples of a frame, or its error.
    type Read = Result<(Vec<usize>, Vec<u8>), String>;

    /// The frames of a stream.
    fn frames(bytes: &[u8]) -> Vec<Read> {
        let mut reader = bytes;
        let format = match Y4mFormat::read("x", &mut reader) {
            Ok(Some(format)) => format,
            Ok(None) => return Vec::new(),
            Err(error) => return vec![Err(error.to_string())],
        };
        let frame = |frame: Loaded| match frame.pixels {
            Pixels::U8(data) if frame.channels == 1 => (frame.shape, data),
            _ => panic!("grey of 8 bits"),
        };
        let read = Y4mReader::new("x", format, reader);
        read.map(|loaded| loaded.map(frame).map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn luma_of_every_sampling() {
        // 3 columns and 3 rows: chroma of 2x2, of 3x2, of 3x3, none.
        for (sampling, chroma) in [
            ("", 8),
            (" C420", 8),
            (" C420jpeg", 8),
            (" C420mpeg2 XYSCSS=420MPEG2", 8),
            (" C420paldv", 8),
            (" C422", 12),
            (" C444", 18),
            (" Cmono", 0),
        ] {
            let mut bytes = format!("YUV4MPEG2 W3 H3 F25:1 Ip A0:0{sampling}\n").into_bytes();
            for first in [1, 101] {
                bytes.extend(if first == 1 { &b"FRAME\n"[..] } else { b"FRAME Ip X=1\n" });
                bytes.extend(first..first + 9);
                bytes.extend(vec![7; chroma]);
            }
            let luma = |first: u8| Ok((vec![3, 3], (first..first + 9).collect()));
            assert_eq!(frames(&bytes), [luma(1), luma(101)], "{sampling}");
            // Cut anywhere it is an error, but between two frames, or nothing of this format.
            let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
            let size = 6 + 9 + chroma;
            for end in 0..bytes.len() {
                let told = frames(&bytes[..end]);
                let whole = end < MAGIC.len() || end == header || end == header + size;
                assert_eq!(told.iter().all(Result::is_ok), whole, "{sampling} {end}: {told:?}");
            }
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        let fails = |text: &str, words: &str| {
            let told = frames(text.as_bytes());
            let line = told.last().unwrap().as_ref().unwrap_err();
            assert!(line.starts_with("\"x\": expected ") && line.contains(words) && !line.contains('\n'), "{line}");
        };
        for sampling in ["420p10", "444alpha", "411", "mono16", ""] {
            let words =
                format!("YUV4MPEG2 of 8 bits (420, 420jpeg, 420mpeg2, 420paldv, 422, 444, mono), got \"C{sampling}\"");
            fails(&format!("YUV4MPEG2 W2 H2 C{sampling}\n"), &words);
        }
        fails("YUV4MPEG2 W2\n", "W and H in the first line, got \"YUV4MPEG2 W2\"");
        for field in ["W0", "W", "W-2", "W+2", "W2.5", "H99999999999999999999"] {
            let words = format!("W and H as numbers of 1 or more in the first line, got \"{field}\"");
            fails(&format!("YUV4MPEG2 W2 H2 {field}\n"), &words);
        }
        fails("YUV4MPEG2 W4294967296 H4294967296\n", "a frame that an address can span");
        fails("YUV4MPEG2 W2 H2", "with its end, got \"YUV4MPEG2 W2 H2\"");
        fails(&format!("YUV4MPEG2 W2 H2 X{}\n", "x".repeat(9000)), "with its end");
        fails("YUV4MPEG2W2 H2\n", "a first line YUV4MPEG2 W.. H..");
        fails("YUV4MPEG2 W2 H2 Cmono\nFRAME\nabcdFRAMES\n", "a line FRAME in frame 1, got \"FRAMES\"");
        fails("YUV4MPEG2 W2 H2 Cmono\nabcd", "a line FRAME in frame 0, got \"abcd\"");
        fails("YUV4MPEG2 W2 H2 Cmono\nFRAME\n", "4 bytes in frame 0 (u8:2x2), got 0 bytes before the end");
        fails("YUV4MPEG2 W2 H2 Cmono\nFRAME\nabc", "4 bytes in frame 0 (u8:2x2), got 3 bytes before the end");
        fails("YUV4MPEG2 W2 H2\nFRAME\nabcdU", "2 bytes of chroma in frame 0, got 1 bytes before the end");
        assert!(frames(b"P5 2 2 255\nabcd").is_empty() && frames(b"").is_empty());
    }

    #[test]
    fn a_vast_header_allocates_only_what_comes() {
        for sides in ["W999999999 H999999999 C444", "W3037000499 H3037000499 Cmono"] {
            let told = frames(format!("YUV4MPEG2 {sides}\nFRAME\nabc").as_bytes());
            assert!(told[0].as_ref().unwrap_err().contains("got 3 bytes before the end"), "{told:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_bytes_never_panic(
            head in "( [WHCFX][0-9a-z]{0,4}){0,5}",
            line in "(FRAME)?[ -~]{0,3}\n?",
            bytes in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let text = format!("YUV4MPEG2{head}\n{line}");
            let all = frames(&[text.as_bytes(), &bytes].concat());
            prop_assert!(all.iter().rev().skip(1).all(Result::is_ok), "an error is the last");
        }
    }
}
