//! PBM, PGM, PPM and PAM: a header in text, then samples in text or in bytes, the high byte first.
//!
//! Samples are scaled so that the largest value of the header is 255 or 65535; a sample above it is an error. Alpha is
//! dropped with a note. The formats are those of Netpbm's manual pages pbm(5), pgm(5), ppm(5) and pam(5).

use flcc_core::dtype::Pixels;

use super::error::{IoError, one_line};
use super::loaded::Loaded;
use super::raster::{check_size, ignored, keep};

/// How the samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// A digit each, 1 is black.
    TextBits,
    /// Eight to a byte, rows padded; 1 is black.
    Bits,
    /// Decimal numbers with white space between.
    Text,
    /// One byte, or two if the largest value is above 255.
    Bytes,
}

/// What comes before the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    coding: Coding,
    width: u32,
    height: u32,
    /// Samples of a pixel: 1 or 3, and one more for alpha.
    depth: usize,
    /// The value of white.
    max: u32,
}

/// What is wrong with a header: what was expected, and what came.
type Wrong = (&'static str, String);

/// The same of samples.
type WrongSamples = (String, String);

/// Reads the first image of a file.
pub(super) fn load(name: &str, bytes: &[u8]) -> Result<Loaded, IoError> {
    let damaged = |(expected, got): WrongSamples| IoError::Damaged { name: name.into(), expected, got };
    let (header, raster) = header(bytes).map_err(|(expected, got)| damaged((expected.into(), got)))?;
    let Header { width, height, depth, max, .. } = header;
    let (shape, full) = (vec![height as usize, width as usize], header.full());
    check_size(name, &shape, depth * if full > 255 { 2 } else { 1 }, 0, bytes.len())?;
    let raster = behind_line_end(&header, bytes, raster);
    let (pixels, rest) = samples(&header, raster).map_err(damaged)?;
    let channels = header.kept();
    let mut notes = Vec::new();
    if channels < depth {
        notes.push("alpha dropped".into());
    }
    if max != full {
        notes.push(format!("samples scaled from 0..{max} to 0..{full}"));
    }
    notes.extend(ignored(rest));
    Ok(Loaded { shape, channels, pixels, notes })
}

impl Header {
    /// The largest value of the type that the samples are read as.
    fn full(&self) -> u32 {
        if self.max < 256 { 255 } else { 65535 }
    }

    /// The samples of a pixel without alpha.
    fn kept(&self) -> usize {
        if self.depth < 3 { 1 } else { 3 }
    }

    /// Bytes of the raster, where samples are bytes.
    fn raster_bytes(&self) -> usize {
        let (width, height) = (self.width as usize, self.height as usize);
        match self.coding {
            Coding::Bits => width.div_ceil(8) * height,
            _ => width * height * self.depth * if self.max < 256 { 1 } else { 2 },
        }
    }

    fn scaled(&self, sample: u16) -> u16 {
        match self.max == self.full() {
            true => sample,
            false => (f32::from(sample) * (self.full() as f32 / self.max as f32)).round() as u16,
        }
    }

    /// Refuses samples above the largest value.
    fn check(&self, mut samples: impl Iterator<Item = u16>) -> Result<(), WrongSamples> {
        match samples.find(|&sample| u32::from(sample) > self.max) {
            Some(sample) => Err((format!("samples of at most {}, as its header says", self.max), sample.to_string())),
            None => Ok(()),
        }
    }
}

/// The header, and what is behind it.
fn header(bytes: &[u8]) -> Result<(Header, &[u8]), Wrong> {
    let (magic, rest) = bytes.split_first_chunk::<2>().ok_or(("a PNM header", "its end".into()))?;
    let (coding, depth) = match magic[1] {
        b'1' => (Coding::TextBits, 1),
        b'2' => (Coding::Text, 1),
        b'3' => (Coding::Text, 3),
        b'4' => (Coding::Bits, 1),
        b'5' => (Coding::Bytes, 1),
        b'6' => (Coding::Bytes, 3),
        _ => return arbitrary(rest),
    };
    let (width, rest) = number(rest)?;
    let (height, rest) = number(rest)?;
    let (max, rest) = if matches!(coding, Coding::TextBits | Coding::Bits) { (1, rest) } else { number(rest)? };
    Ok((Header { coding, width, height, depth, max: checked(max)? }, rest))
}

/// The raster behind one white space that ends the header, or behind CR LF, as programs of Windows end lines: where
/// every CR of the header is followed by LF, and the bytes are enough for one more.
fn behind_line_end<'a>(header: &Header, bytes: &'a [u8], raster: &'a [u8]) -> &'a [u8] {
    let (head, next) = bytes.split_at(bytes.len() - raster.len());
    let alone = |at: usize| head[at] == b'\r' && head.get(at + 1).or(next.first()) != Some(&b'\n');
    match raster.strip_prefix(b"\n") {
        Some(behind)
            if head.ends_with(b"\r") && behind.len() >= header.raster_bytes() && !(0..head.len()).any(alone) =>
        {
            behind
        }
        _ => raster,
    }
}

/// The next number of a header, and what is behind it and one white space. A comment reaches from `#` to the end of its
/// line, and is as if it were not there.
fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Wrong> {
    let mut comment = false;
    let mut found: Option<u32> = None;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if comment => comment = !matches!(byte, b'\r' | b'\n'),
            b'#' => comment = true,
            _ if space(byte) => {
                if let Some(value) = found {
                    return Ok((value, &bytes[at + 1..]));
                }
            }
            b'0'..=b'9' => {
                let value =
                    found.unwrap_or(0).checked_mul(10).and_then(|value| value.checked_add((byte - b'0').into()));
                found = Some(value.ok_or(("numbers of 32 bits in a PNM header", "a larger one".to_string()))?);
            }
            _ => return Err(("digits in a PNM header", format!("byte {byte:#04x}"))),
        }
    }
    found.map(|value| (value, &[][..])).ok_or(("a number in a PNM header", "its end".into()))
}

fn space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' ')
}

fn checked(max: u32) -> Result<u32, Wrong> {
    match max {
        1..=65535 => Ok(max),
        _ => Err(("a largest value of 1 to 65535 in a PNM header", max.to_string())),
    }
}

/// The header of a PAM, behind `P7`: a line for each value.
fn arbitrary(bytes: &[u8]) -> Result<(Header, &[u8]), Wrong> {
    let mut rest = bytes
        .strip_prefix(b"\r")
        .unwrap_or(bytes)
        .strip_prefix(b"\n")
        .ok_or(("a line that is P7 alone", "more".to_string()))?;
    let mut values = [None; 4];
    let mut kind: Option<String> = None;
    loop {
        let end =
            rest.iter().position(|&byte| byte == b'\n').ok_or(("ENDHDR in a PAM header", "its end".to_string()))?;
        let line =
            std::str::from_utf8(&rest[..end]).map_err(|_| ("a PAM header of text", "other bytes".to_string()))?;
        rest = &rest[end + 1..];
        let (key, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let value = value.trim();
        match key {
            "ENDHDR" => break,
            "TUPLTYPE" => kind = Some(kind.map_or(value.into(), |kind| format!("{kind} {value}"))),
            _ if key.is_empty() || key.starts_with('#') => {}
            _ => {
                let place = ["WIDTH", "HEIGHT", "DEPTH", "MAXVAL"].iter().position(|known| *known == key);
                let place = place.ok_or_else(|| ("lines of a PAM header", one_line(format!("{key:?}"))))?;
                let parsed: u32 =
                    value.parse().map_err(|_| ("a number in a PAM header", one_line(format!("{line:?}"))))?;
                if values[place].replace(parsed).is_some() {
                    return Err(("each value once in a PAM header", format!("{key} twice")));
                }
            }
        }
    }
    let [Some(width), Some(height), Some(depth), Some(max)] = values else {
        return Err(("WIDTH, HEIGHT, DEPTH and MAXVAL in a PAM header", "fewer".into()));
    };
    let fitting = match kind.as_deref() {
        None => (1..=4).contains(&depth),
        Some("BLACKANDWHITE") => depth == 1 && max == 1,
        Some("BLACKANDWHITE_ALPHA") => depth == 2 && max == 1,
        Some("GRAYSCALE") => depth == 1,
        Some("GRAYSCALE_ALPHA") => depth == 2,
        Some("RGB") => depth == 3,
        Some("RGB_ALPHA") => depth == 4,
        Some(_) => false,
    };
    if !fitting {
        let kind = one_line(kind.unwrap_or_default());
        return Err(("a PAM of grey or RGB, with alpha or without", format!("{kind} of depth {depth}, maximum {max}")));
    }
    Ok((Header { coding: Coding::Bytes, width, height, depth: depth as usize, max: checked(max)? }, rest))
}

/// The samples without alpha, scaled, and what is behind them.
fn samples<'a>(header: &Header, raster: &'a [u8]) -> Result<(Pixels, &'a [u8]), WrongSamples> {
    let &Header { coding, depth, max, .. } = header;
    let (width, height, kept) = (header.width as usize, header.height as usize, header.kept());
    let take = || {
        let bytes = header.raster_bytes();
        raster
            .split_at_checked(bytes)
            .ok_or_else(|| (format!("{bytes} bytes behind a PNM header (truncated?)"), raster.len().to_string()))
    };
    match coding {
        Coding::Bits => {
            let line = width.div_ceil(8);
            let (data, rest) = take()?;
            let grey = |row: &[u8], x: usize| if row[x / 8] >> (7 - x % 8) & 1 == 0 { 255 } else { 0 };
            let rows = data.chunks_exact(line.max(1));
            Ok((Pixels::U8(rows.flat_map(|row| (0..width).map(move |x| grey(row, x))).collect()), rest))
        }
        Coding::Bytes if max < 256 => {
            let (data, rest) = take()?;
            header.check(data.iter().map(|&sample| sample.into()))?;
            let plain = kept == depth && max == 255;
            let scaled = |sample: u8| header.scaled(sample.into()) as u8;
            Ok((Pixels::U8(if plain { data.to_vec() } else { keep(data, kept, depth, scaled) }), rest))
        }
        Coding::Bytes => {
            let (data, rest) = take()?;
            let data = data.as_chunks::<2>().0;
            header.check(data.iter().map(|&sample| u16::from_be_bytes(sample)))?;
            let scaled = |sample| header.scaled(u16::from_be_bytes(sample));
            Ok((Pixels::U16(keep(data, kept, depth, scaled)), rest))
        }
        Coding::Text | Coding::TextBits => {
            let (data, rest) = written(coding, width * height * depth, raster)?;
            header.check(data.iter().copied())?;
            Ok(match max < 256 {
                true => (Pixels::U8(keep(&data, kept, depth, |sample| header.scaled(sample) as u8)), rest),
                false => (Pixels::U16(keep(&data, kept, depth, |sample| header.scaled(sample))), rest),
            })
        }
    }
}

/// Samples in text.
fn written(coding: Coding, count: usize, raster: &[u8]) -> Result<(Vec<u16>, &[u8]), WrongSamples> {
    let mut samples = Vec::new();
    let mut rest = raster;
    while samples.len() < count {
        let start = rest.iter().position(|&byte| !space(byte)).unwrap_or(rest.len());
        rest = &rest[start..];
        let length = match coding {
            // Digits of bits need no space between.
            Coding::TextBits => rest.len().min(1),
            _ => rest.iter().position(|&byte| space(byte)).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        let value = std::str::from_utf8(word).ok().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        samples.push(match (coding, value.and_then(|word| word.parse::<u16>().ok())) {
            (Coding::TextBits, Some(bit @ 0..=1)) => 1 - bit,
            (Coding::Text, Some(sample)) => sample,
            _ if word.is_empty() => return Err((format!("{count} samples (truncated?)"), samples.len().to_string())),
            _ => return Err(("samples in digits".into(), one_line(format!("{:?}", String::from_utf8_lossy(word))))),
        });
    }
    // The space behind the last sample is its own.
    Ok((samples, rest))
}

#[cfg(test)]
mod tests {
    use super::super::raster::tests::{check, fails};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pnm_of_every_kind() {
        check(b"P5 2 1 255\n\x01\xff", &[1, 2], 1, Pixels::U8(vec![1, 255]), &[]);
        check(b"P5\n# a comment\n1 2\n65535\n\x01\x02\xff\xff", &[2, 1], 1, Pixels::U16(vec![258, 65535]), &[]);
        check(b"P6 1 1 255\n\x01\x02\x03", &[1, 1], 3, Pixels::U8(vec![1, 2, 3]), &[]);
        check(b"P2 3 1 255 0 7 255\n", &[1, 3], 1, Pixels::U8(vec![0, 7, 255]), &[]);
        check(b"P1 2 1 0 1\n", &[1, 2], 1, Pixels::U8(vec![255, 0]), &["samples scaled from 0..1 to 0..255"]);
        check(b"P2 2 1 5 0 5\n", &[1, 2], 1, Pixels::U8(vec![0, 255]), &["samples scaled from 0..5 to 0..255"]);
        check(b"P5 1 1 255\n\x01P5 1 1", &[1, 1], 1, Pixels::U8(vec![1]), &["6 bytes after the image ignored"]);
        check(b"P5 0 2 255\n", &[2, 0], 1, Pixels::U8(vec![]), &[]);
    }

    #[test]
    fn lines_of_a_header_may_end_in_cr_lf() {
        let grey = |bytes: &[u8], pixels: &[u8]| {
            check(bytes, &[1, pixels.len()], 1, Pixels::U8(pixels.into()), &[]);
        };
        grey(b"P5\r\n2 1\r\n255\r\n\x01\xff", &[1, 255]);
        grey(b"P5\r\n# a comment\r\n2 1\r\n255\r\n\n\xff", &[10, 255]);
        grey(b"P5 2 1 255\r\n\x01\xff", &[1, 255]);
        let bits = Pixels::U8(vec![255, 255, 255, 255, 0, 0, 0, 0]);
        check(b"P4\r\n8 1\r\n\x0f", &[1, 8], 1, bits, &["samples scaled from 0..1 to 0..255"]);
        grey(b"P2\r\n2 1\r\n255\r\n1 255\r\n", &[1, 255]);
        grey(b"P7\r\nWIDTH 2\r\nHEIGHT 1\r\nDEPTH 1\r\nMAXVAL 255\r\nENDHDR\r\n\x01\xff", &[1, 255]);
        check(b"P5\r\n1 1\r\n65535\r\n\x01\x02", &[1, 1], 1, Pixels::U16(vec![258]), &[]);
        check(b"P6\r\n1 1\r\n255\r\n\x01\x02\x03", &[1, 1], 3, Pixels::U8(vec![1, 2, 3]), &[]);
        // One white space ends the header where nothing is left for a second, and where another CR stands alone.
        grey(b"P5\r\n2 1\r\n255\r\n\xff", &[10, 255]);
        check(b"P5\r2 1\r255\r\n\xff7", &[1, 2], 1, Pixels::U8(vec![10, 255]), &["1 bytes after the image ignored"]);
        check(b"P5 2 1 255\n\n\xff7", &[1, 2], 1, Pixels::U8(vec![10, 255]), &["1 bytes after the image ignored"]);
        fails(b"P5\r\n2 2\r\n255\r\n\0\0", &["4 bytes behind a PNM header (truncated?), got 3"]);
    }

    #[test]
    fn samples_above_the_largest_of_the_header_are_errors() {
        for bytes in [&b"P2 2 1 5 0 6\n"[..], b"P5 2 1 5\n\x00\x06", b"P3 1 1 5 0 6 1", b"P6 1 1 5\n\x00\x06\x01"] {
            fails(bytes, &["samples of at most 5, as its header says, got 6"]);
        }
        fails(b"P5 1 1 1000\n\x03\xe9", &["samples of at most 1000, as its header says, got 1001"]);
        let pam = |max: &str, sample: &[u8]| {
            [format!("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL {max}\nTUPLTYPE GRAYSCALE\nENDHDR\n").as_bytes(), sample]
                .concat()
        };
        fails(&pam("5", &[6]), &["samples of at most 5, as its header says, got 6"]);
        check(&pam("5", &[5]), &[1, 1], 1, Pixels::U8(vec![255]), &["samples scaled from 0..5 to 0..255"]);
        // What follows the raster is none of it.
        check(
            b"P5 1 1 5\n\x05\x06",
            &[1, 1],
            1,
            Pixels::U8(vec![255]),
            &["samples scaled from 0..5 to 0..255", "1 bytes after the image ignored"],
        );
    }

    #[test]
    fn what_is_no_header_is_an_error() {
        fails(b"P5 ", &["a number in a PNM header, got its end"]);
        fails(b"P5 -1 2 255\n", &["digits in a PNM header, got byte 0x2d"]);
        fails(b"P5 99999999999 1 255\n", &["numbers of 32 bits"]);
        fails(b"P5 1 1 0\n\0", &["a largest value of 1 to 65535 in a PNM header, got 0"]);
        fails(b"P5 1 1 65536\n\0\0", &["got 65536"]);
        fails(b"P5 2 2 255\n\0\0\0", &["4 bytes behind a PNM header (truncated?), got 3"]);
        fails(b"P2 2 1 255 1 x", &["samples in digits, got \"x\""]);
        fails(b"P2 2 1 255 1", &["2 samples (truncated?), got 1"]);
        fails(b"P1 2 1 12", &["samples in digits, got \"2\""]);
        fails(b"P7 WIDTH 1", &["a line that is P7 alone"]);
        fails(b"P7\nWIDTH 1\n", &["ENDHDR in a PAM header"]);
        fails(b"P7\nWIDTH 1\nWIDTH 1\nENDHDR\n", &["each value once in a PAM header, got WIDTH twice"]);
        fails(b"P7\nWIDTH 1\nENDHDR\n", &["WIDTH, HEIGHT, DEPTH and MAXVAL in a PAM header"]);
        fails(b"P7\nCOLOUR 1\nENDHDR\n", &["lines of a PAM header, got \"COLOUR\""]);
        fails(
            b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n\0\0",
            &["grey or RGB, with alpha or without, got RGB of depth 2, maximum 255"],
        );
    }

    /// The text of a header, with a comment in it.
    fn written_header(kind: usize, [width, height]: [usize; 2], max: u32) -> String {
        let types = ["GRAYSCALE", "GRAYSCALE_ALPHA", "RGB", "RGB_ALPHA"];
        match kind {
            1 | 4 => format!("P{kind} # bits\n{width}\t{height}\n"),
            2 | 3 | 5 | 6 => format!("P{kind}\n#\n{width} {height}\r\n# most\n{max}\n"),
            _ => {
                let depth = kind - 6;
                let sides = format!("WIDTH {width}\n# a comment\nHEIGHT {height}");
                format!("P7\n{sides}\nDEPTH {depth}\nMAXVAL {max}\nTUPLTYPE {}\nENDHDR\n", types[depth - 1])
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Kinds 1 to 6, and 7 to 10 for a PAM of as many samples a pixel.
        #[test]
        fn pixels_are_those_of_the_image_crate(
            kind in 1..11usize,
            sides in [1..20usize, 1..6usize],
            max in prop::sample::select(vec![1, 5, 200, 255, 256, 1000, 65535u32]),
            seed in any::<u32>(),
        ) {
            let depth = [1, 1, 3, 1, 1, 3, 1, 2, 3, 4][kind - 1];
            let count = sides[0] * sides[1] * depth;
            let noise = |k: usize| (seed.wrapping_add(k as u32).wrapping_mul(2_654_435_761) >> 7) % (max + 1);
            let mut bytes = written_header(kind, sides, max).into_bytes();
            match kind {
                1 => (0..count).for_each(|k| bytes.extend([b'0' + (noise(k) & 1) as u8, b' '])),
                2 | 3 => (0..count).for_each(|k| bytes.extend(format!("{}\n", noise(k)).bytes())),
                4 => bytes.extend((0..sides[0].div_ceil(8) * sides[1]).map(|k| noise(k) as u8)),
                _ if max < 256 => bytes.extend((0..count).map(|k| noise(k) as u8)),
                _ => bytes.extend((0..count).flat_map(|k| (noise(k) as u16).to_be_bytes())),
            }
            let loaded = load("x", &bytes).unwrap();
            let peer = image::load_from_memory_with_format(&bytes, image::ImageFormat::Pnm).unwrap();
            prop_assert_eq!(&loaded.shape, &[sides[1], sides[0]]);
            prop_assert_eq!(loaded.channels, if depth < 3 { 1 } else { 3 });
            // Without alpha, and not weighted: grey stays as it is.
            prop_assert_eq!(loaded.pixels, match (loaded.channels, max < 256 || matches!(kind, 1 | 4)) {
                (1, true) => Pixels::U8(peer.to_luma8().into_raw()),
                (1, false) => Pixels::U16(peer.to_luma16().into_raw()),
                (_, true) => Pixels::U8(peer.to_rgb8().into_raw()),
                (_, false) => Pixels::U16(peer.to_rgb16().into_raw()),
            });
        }
    }
}
