//! Raw frames: little-endian samples without a header, frame behind frame, as a camera or a pipe gives them.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use flcc_core::dtype::{DType, Pixels};
use flcc_runtime::rooms::free;

use super::error::{IoError, shape_text};
use super::loaded::{Loaded, check_memory};

/// The layout of one frame. Its text is `TYPE:SHAPE`: `u8:480x640`, `f32:100x100x50`, the slowest axis first. The type
/// `rgb24` is colour: three bytes a pixel, red, green and blue.
///
/// Holding one is the proof that it has 1 to 3 axes, none of length 0, and that its size in bytes can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFormat {
    dtype: DType,
    shape: Vec<usize>,
    channels: usize,
}

/// The type of frames in colour, as ffmpeg calls it.
const COLOUR: &str = "rgb24";

impl RawFormat {
    /// Frames of a type, a shape and so many samples a pixel; none if an address cannot span them.
    pub fn new(dtype: DType, shape: Vec<usize>, channels: usize) -> Option<RawFormat> {
        let bytes = shape.iter().try_fold(dtype.row().size * channels, |bytes, &length| bytes.checked_mul(length));
        bytes.filter(|&bytes| bytes <= isize::MAX as usize).map(|_| RawFormat { dtype, shape, channels })
    }

    /// The type of the samples.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Samples of one pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Bytes of one frame.
    pub fn frame_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.channels * self.dtype.row().size
    }
}

impl FromStr for RawFormat {
    type Err = IoError;

    fn from_str(text: &str) -> Result<RawFormat, IoError> {
        let fault = |expected: &str, found: &str| IoError::RawFormat {
            got: text.into(),
            expected: expected.into(),
            found: format!("{found:?}"),
        };
        let (dtype, shape) = text.split_once(':').ok_or_else(|| fault("TYPE:SHAPE such as u8:480x640", text))?;
        let (dtype, channels) = match dtype {
            COLOUR => (DType::U8, 3),
            _ => (dtype.parse().map_err(|_| fault("a type u8, u16, f32, f64 or rgb24", dtype))?, 1),
        };
        let shape: Option<Vec<usize>> =
            shape.split('x').map(|length| length.parse().ok().filter(|&length| length > 0)).collect();
        let shape = shape.filter(|shape| shape.len() <= 3).ok_or_else(|| {
            fault("1 to 3 lengths of 1 or more, such as 480x640", text.split_once(':').map_or("", |(_, shape)| shape))
        })?;
        let text = shape_text(&shape);
        RawFormat::new(dtype, shape, channels).ok_or_else(|| fault("a frame that an address can span", &text))
    }
}

impl fmt::Display for RawFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.channels == 3 { COLOUR } else { self.dtype.name() };
        write!(f, "{name}:{}", shape_text(&self.shape))
    }
}

/// Bytes of a frame for which nobody asks whether the memory holds them.
const SMALL: usize = 64 << 20;

/// Frames of one format from a stream: one [`Loaded`] each until the stream ends between two frames.
///
/// A frame that is cut short is an error that says how many bytes were expected and came; after an error there is no
/// more. Memory grows with the bytes that come, not with those that the format promises, and to half of what is free.
#[derive(Debug)]
pub struct RawReader<R> {
    name: String,
    format: RawFormat,
    reader: R,
    bytes: Vec<u8>,
    frame: u64,
    ended: bool,
}

impl<R: Read> RawReader<R> {
    /// Reads frames of `format` from `reader`; `name` is for messages.
    pub fn new(name: impl Into<String>, format: RawFormat, reader: R) -> RawReader<R> {
        RawReader { name: name.into(), format, reader, bytes: Vec::new(), frame: 0, ended: false }
    }

    /// Where the frames come from.
    pub(super) fn source(&mut self) -> &mut R {
        &mut self.reader
    }

    /// How many frames were given.
    pub(super) fn given(&self) -> u64 {
        self.frame
    }

    /// What is wrong with a frame.
    pub(super) fn damaged(&self, frame: u64, expected: &str, got: String) -> IoError {
        let expected = format!("{expected} in frame {frame}");
        IoError::Damaged { name: self.name.clone(), expected, got }
    }

    /// What is wrong with a frame that ends after so many bytes.
    pub(super) fn cut_short(&self, got: usize) -> IoError {
        let expected = format!("{} bytes in frame {} ({})", self.format.frame_bytes(), self.frame, self.format);
        IoError::Damaged { name: self.name.clone(), expected, got: format!("{got} bytes before the end") }
    }

    /// The system did not give the bytes.
    pub(super) fn unread(&self, source: std::io::Error) -> IoError {
        IoError::Read { name: self.name.clone(), source }
    }

    /// Reads so many bytes to the end of `bytes`, or as many as there are.
    fn read(&mut self, most: usize) -> Result<usize, IoError> {
        let got = self.reader.by_ref().take(most as u64).read_to_end(&mut self.bytes);
        got.map_err(|source| self.unread(source))
    }

    /// Fills `bytes` with one frame; `false` at a clean end.
    fn fill(&mut self) -> Result<bool, IoError> {
        let expected = self.format.frame_bytes();
        self.bytes.clear();
        let most = if expected <= SMALL { expected } else { expected.min(free::available() as usize / 2) };
        let mut got = self.read(most.min(SMALL))?;
        // What does not come is told as that; what comes and has no place is not read on.
        if got == most.min(SMALL) && most < expected {
            return Err(IoError::TooLarge {
                name: self.name.clone(),
                limit: format!("{most} bytes (half of the free memory) in frame {}", self.frame),
                got: format!("{expected} ({})", self.format),
            });
        }
        if got == SMALL {
            got += self.read(most - SMALL)?;
        }
        match got {
            0 => Ok(false),
            // Wider samples are copied out of the bytes.
            _ if got == expected && self.format.dtype == DType::U8 => Ok(true),
            _ if got == expected => check_memory(&self.name, got, 1).map(|()| true),
            _ => Err(self.cut_short(got)),
        }
    }

    /// The samples of the frame in `bytes`.
    fn pixels(&mut self) -> Pixels {
        fn each<T, const N: usize>(bytes: &[u8], value: fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|&bytes| value(bytes)).collect()
        }
        match self.format.dtype {
            DType::U8 => Pixels::U8(std::mem::take(&mut self.bytes)),
            DType::U16 => Pixels::U16(each(&self.bytes, u16::from_le_bytes)),
            DType::F32 => Pixels::F32(each(&self.bytes, f32::from_le_bytes)),
            DType::F64 => Pixels::F64(each(&self.bytes, f64::from_le_bytes)),
        }
    }
}

impl<R: Read> Iterator for RawReader<R> {
    type Item = Result<Loaded, IoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.fill() {
            Ok(true) => {
                self.frame += 1;
                Some(Ok(Loaded {
                    shape: self.format.shape.clone(),
                    channels: self.format.channels,
                    pixels: self.pixels(),
                    notes: Vec::new(),
                }))
            }
            Ok(false) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(format: &str, bytes: &[u8]) -> Vec<Result<Loaded, String>> {
        let reader = RawReader::new("stdin", format.parse().unwrap(), bytes);
        reader.map(|frame| frame.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn the_text_form_round_trips() {
        for text in ["u8:480x640", "f32:100x100x50", "u16:7", "f64:1x1", "rgb24:480x640"] {
            assert_eq!(text.parse::<RawFormat>().unwrap().to_string(), text);
        }
        let format: RawFormat = "u16:480x640".parse().unwrap();
        assert_eq!(
            (format.dtype(), format.shape(), format.frame_bytes()),
            (DType::U16, [480, 640].as_slice(), 480 * 640 * 2)
        );
    }

    #[test]
    fn other_texts_are_refused_with_their_part() {
        let fails = |text: &str, expected: &str| {
            let message = text.parse::<RawFormat>().unwrap_err().to_string();
            assert_eq!(message, format!("{text:?}: expected {expected}"));
        };
        fails("u8", r#"TYPE:SHAPE such as u8:480x640, got "u8""#);
        fails("i8:3x3", r#"a type u8, u16, f32, f64 or rgb24, got "i8""#);
        for shape in ["", "0x3", "3x", "-1", "1x1x1x1", "3,3", "99999999999999999999"] {
            fails(&format!("u8:{shape}"), &format!("1 to 3 lengths of 1 or more, such as 480x640, got {shape:?}"));
        }
        fails("f64:4294967296x4294967296", r#"a frame that an address can span, got "4294967296x4294967296""#);
    }

    #[test]
    fn a_stream_gives_its_frames_and_ends() {
        let frame = |pixels| Loaded { shape: vec![1, 2], channels: 1, pixels, notes: Vec::new() };
        assert_eq!(
            frames("u8:1x2", &[1, 2, 3, 4]),
            [Ok(frame(Pixels::U8(vec![1, 2]))), Ok(frame(Pixels::U8(vec![3, 4])))]
        );
        assert_eq!(frames("u16:1x2", &[1, 2, 3, 4]), [Ok(frame(Pixels::U16(vec![0x0201, 0x0403])))]);
        let floats = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(frames("f32:1x2", &floats), [Ok(frame(Pixels::F32(vec![1.5, -2.0])))]);
        let doubles = [0.1f64, -2.0].map(f64::to_le_bytes).concat();
        assert_eq!(frames("f64:1x2", &doubles), [Ok(frame(Pixels::F64(vec![0.1, -2.0])))]);
        assert!(frames("u8:1x2", &[]).is_empty());
        let colour = Loaded { shape: vec![1, 2], channels: 3, pixels: Pixels::U8((1..7).collect()), notes: Vec::new() };
        assert_eq!(frames("rgb24:1x2", &[1, 2, 3, 4, 5, 6]), [Ok(colour)]);
    }

    #[test]
    fn a_frame_cut_short_says_how_much_came() {
        let all = frames("u8:2x3", &[0; 8]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], Err(r#""stdin": expected 6 bytes in frame 1 (u8:2x3), got 2 bytes before the end"#.into()));
    }

    #[test]
    fn a_vast_format_allocates_only_what_comes() {
        let all = frames("f64:1000000x1000000x1000", &[0; 8]);
        assert!(all[0].as_ref().unwrap_err().contains("got 8 bytes"));
    }
}
