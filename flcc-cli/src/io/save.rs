//! Writing: `.npy` arrays, TIFF of float samples, 8-bit PNG and text.
//!
//! A file appears whole or not at all: it is written beside its name and renamed. A name that stands for something else
//! than a file (`/dev/stdout`, a pipe) is written to directly; a link is followed, not replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Cursor, Seek, Write};
use std::path::Path;

use flcc_core::dtype::{DType, Pixel, Pixels, Slice};
use flcc_runtime::rooms::files;
use tiff::encoder::colortype::{ColorType, Gray8, Gray16, Gray32Float, Gray64Float};
use tiff::encoder::{Rational, TiffEncoder, TiffKind, TiffValue};
use tiff::tags::{CompressionMethod, ResolutionUnit, Tag};
use tiff::{TiffError, TiffResult};

use super::error::{IoError, one_line, shape_text};
use super::npy;

/// Writes an array as `.npy`: version 1.0, little-endian, C order, the data at a multiple of 64 bytes.
///
/// # Errors
///
/// [`IoError::Unsupported`] if `shape` and the number of samples disagree; [`IoError::Write`].
pub fn save_npy(path: &Path, shape: &[usize], pixels: &Pixels) -> Result<(), IoError> {
    check_count(path, shape, pixels)?;
    atomically(path, |out| write_npy(out, shape, pixels))
}

/// Writes the bytes of a `.npy` file, as [`save_npy`], of as many samples as `shape` has.
///
/// # Errors
///
/// What the system said.
pub fn write_npy(out: &mut dyn Write, shape: &[usize], pixels: &Pixels) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    out.write_all(&npy_begin(pixels.dtype(), shape))?;
    match pixels {
        Pixels::U8(data) => write_samples(&mut out, data),
        Pixels::U16(data) => write_samples(&mut out, data),
        Pixels::F32(data) => write_samples(&mut out, data),
        Pixels::F64(data) => write_samples(&mut out, data),
    }?;
    out.flush()
}

/// Writes the bytes of samples as a `.npy` file of ours has them.
///
/// # Errors
///
/// What the system said.
pub fn write_samples<T: Pixel>(out: &mut impl Write, samples: &[T]) -> io::Result<()> {
    match T::slice(samples) {
        Slice::U8(data) => out.write_all(data),
        Slice::U16(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
        Slice::F32(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
        Slice::F64(data) => data.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())),
    }
}

/// The bytes before the data of a `.npy` file that [`save_npy`] writes of samples of a type.
pub fn npy_begin(dtype: DType, shape: &[usize]) -> Vec<u8> {
    npy_header(descr_of(dtype), shape)
}

/// How `.npy` calls a type.
fn descr_of(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

fn check_count(path: &Path, shape: &[usize], pixels: &Pixels) -> Result<(), IoError> {
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
    match count == Some(pixels.len()) {
        true => Ok(()),
        false => Err(unsupported(
            path,
            format!("the samples of shape {}", shape_text(shape)),
            format!("{} samples", pixels.len()),
        )),
    }
}

/// Writes an array as TIFF of its own samples, uncompressed: a page for each plane, a line as one row; as BigTIFF from
/// 4 GB on.
///
/// # Errors
///
/// [`IoError::Unsupported`] if a side of a page is 0 or above `u32::MAX`, or `shape` and the number of samples
/// disagree; [`IoError::Write`].
pub fn save_tiff(path: &Path, shape: &[usize], pixels: &Pixels) -> Result<(), IoError> {
    check_count(path, shape, pixels)?;
    let (h, w) = match shape {
        [w] => (1, *w),
        [.., h, w] => (*h, *w),
        [] => (0, 0),
    };
    let (Some(width), Some(height)) = (side(w), side(h)) else {
        return Err(unsupported(path, "TIFF pages of 1 to 4294967295 pixels a side".into(), shape_text(shape)));
    };
    // An encoder goes back to what it has written, as a pipe does not.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let mut bytes = Cursor::new(Vec::new());
        write_tiff(&mut bytes, width, height, pixels)
            .map_err(|source| IoError::Write { name: path.display().to_string(), source })?;
        return atomically(path, |out| out.write_all(bytes.get_ref()));
    }
    atomically(path, |out| write_tiff(out, width, height, pixels))
}

/// Bytes from which on the offsets of a TIFF may not have room in 32 bits.
const BIG: usize = 4_000_000_000;

fn write_tiff(out: impl Write + Seek, width: u32, height: u32, pixels: &Pixels) -> io::Result<()> {
    fn pages<C: ColorType, K: TiffKind>(
        tiff: TiffResult<TiffEncoder<impl Write + Seek, K>>,
        sides: (u32, u32),
        data: &[C::Inner],
    ) -> TiffResult<()>
    where
        [C::Inner]: TiffValue,
    {
        let mut tiff = tiff?;
        data.chunks(sides.0 as usize * sides.1 as usize).try_for_each(|data| page::<C, K>(&mut tiff, sides, data))
    }
    fn write<C: ColorType>(out: impl Write + Seek, sides: (u32, u32), data: &[C::Inner]) -> TiffResult<()>
    where
        [C::Inner]: TiffValue,
    {
        match size_of_val(data) < BIG {
            true => pages::<C, _>(TiffEncoder::new(out), sides, data),
            false => pages::<C, _>(TiffEncoder::new_big(out), sides, data),
        }
    }
    let sides = (width, height);
    let written = match pixels {
        Pixels::U8(data) => write::<Gray8>(out, sides, data),
        Pixels::U16(data) => write::<Gray16>(out, sides, data),
        Pixels::F32(data) => write::<Gray32Float>(out, sides, data),
        Pixels::F64(data) => write::<Gray64Float>(out, sides, data),
    };
    written.map_err(|error| match error {
        TiffError::IoError(error) => error,
        other => io::Error::other(one_line(other)),
    })
}

/// Writes a page in strips of about a megabyte. The encoder's own pages have tag 317, the predictor, which libtiff
/// knows of compressed pages alone and warns of.
fn page<C: ColorType, K: TiffKind>(
    tiff: &mut TiffEncoder<impl Write + Seek, K>,
    (width, height): (u32, u32),
    data: &[C::Inner],
) -> TiffResult<()>
where
    [C::Inner]: TiffValue,
{
    const STRIP: usize = 1_000_000;
    let row = width as usize;
    let rows = STRIP.div_ceil(row.saturating_mul(size_of::<C::Inner>()).max(1)).min(height as usize);
    let mut page = tiff.image_directory()?;
    let (mut offsets, mut sizes) = (Vec::new(), Vec::new());
    for strip in data.chunks(rows * row) {
        offsets.push(K::convert_offset(page.write_data(strip)?)?);
        sizes.push(K::convert_offset(size_of_val(strip) as u64)?);
    }
    page.write_tag(Tag::ImageWidth, width)?;
    page.write_tag(Tag::ImageLength, height)?;
    page.write_tag(Tag::BitsPerSample, C::BITS_PER_SAMPLE)?;
    page.write_tag(Tag::Compression, CompressionMethod::None.to_u16())?;
    page.write_tag(Tag::PhotometricInterpretation, C::TIFF_VALUE.to_u16())?;
    page.write_tag(Tag::StripOffsets, K::convert_slice(&offsets))?;
    page.write_tag(Tag::SamplesPerPixel, 1u16)?;
    page.write_tag(Tag::RowsPerStrip, rows as u32)?;
    page.write_tag(Tag::StripByteCounts, K::convert_slice(&sizes))?;
    page.write_tag(Tag::XResolution, Rational { n: 1, d: 1 })?;
    page.write_tag(Tag::YResolution, Rational { n: 1, d: 1 })?;
    page.write_tag(Tag::ResolutionUnit, ResolutionUnit::None.to_u16())?;
    page.write_tag(Tag::SampleFormat, C::SAMPLE_FORMAT[0].to_u16())?;
    page.finish()
}

/// Writes lines of text, as they come.
///
/// # Errors
///
/// [`IoError::Write`].
pub fn save_text(path: &Path, mut lines: impl Iterator<Item = String>) -> Result<(), IoError> {
    atomically(path, |out| lines.try_for_each(|line| out.write_all(line.as_bytes())))
}

/// The side of a picture, if it has one.
fn side(length: usize) -> Option<u32> {
    u32::try_from(length).ok().filter(|&length| length > 0)
}

/// Writes grey bytes, row by row, as an 8-bit PNG.
///
/// # Errors
///
/// [`IoError::Unsupported`] if a side is 0 or above `u32::MAX`, or the size and the number of bytes disagree;
/// [`IoError::Write`].
pub fn save_png_gray8(path: &Path, width: usize, height: usize, data: &[u8]) -> Result<(), IoError> {
    save_png(path, width, height, data, png::ColorType::Grayscale)
}

/// Writes bytes red, green, blue, row by row, as an 8-bit colour PNG.
///
/// # Errors
///
/// As [`save_png_gray8`].
pub fn save_png_rgb8(path: &Path, width: usize, height: usize, data: &[u8]) -> Result<(), IoError> {
    save_png(path, width, height, data, png::ColorType::Rgb)
}

fn save_png(path: &Path, width: usize, height: usize, data: &[u8], color: png::ColorType) -> Result<(), IoError> {
    let channels = color.samples();
    let count = width.checked_mul(height).and_then(|count| count.checked_mul(channels));
    if count != Some(data.len()) {
        return Err(unsupported(
            path,
            format!("the bytes of {height} rows of {width} pixels, {channels} each"),
            format!("{} bytes", data.len()),
        ));
    }
    let (Some(w), Some(h)) = (side(width), side(height)) else {
        return Err(unsupported(
            path,
            "PNG sides of 1 to 4294967295 pixels".into(),
            format!("{height} rows of {width}"),
        ));
    };
    atomically(path, |out| {
        let mut encoder = png::Encoder::new(out, w, h);
        encoder.set_color(color);
        encoder.set_compression(png::Compression::Fast);
        encoder.set_filter(png::Filter::Adaptive);
        encoder.write_header()?.write_image_data(data)?;
        Ok(())
    })
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
    let mut header = npy::MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

/// Puts a new file in the place of the one at `path`, or of the one that the link there leads to; writes to anything
/// else.
pub(super) fn atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), IoError> {
    let into = |file: &mut File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    let run = || match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(meta) if !meta.is_file() => into(&mut OpenOptions::new().write(true).open(path)?),
        _ => files::replace(&files::target(path)?, into),
    };
    run().map_err(|source| IoError::Write { name: path.display().to_string(), source })
}

/// Tells what would keep [`save_npy`] and the others from a file, before there is anything to write.
///
/// # Errors
/// [`IoError::Write`]: a folder, a name in a folder that is not there, a file that is read-only.
pub fn check_writable(path: &Path) -> Result<(), IoError> {
    let run = || match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(meta) if !meta.is_file() => Ok(()),
        _ => files::check_writable(&files::target(path)?),
    };
    run().map_err(|source| IoError::Write { name: path.display().to_string(), source })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{load, load_bytes};
    use super::*;
    use std::path::PathBuf;

    /// A folder of one test, removed with everything in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("flcc-save-{}-{test}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The bytes that [`save_npy`] writes, without a file, for `u16` and `f32`.
    pub(in super::super) fn npy_bytes(shape: &[usize], pixels: &Pixels) -> Vec<u8> {
        let (descr, data) = match pixels {
            Pixels::U16(data) => ("<u2", data.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()),
            Pixels::F32(data) => ("<f4", data.iter().flat_map(|value| value.to_le_bytes()).collect()),
            _ => unreachable!(),
        };
        [npy_header(descr, shape), data].concat()
    }

    #[test]
    fn arrays_come_back() {
        let folder = Folder::new("npy");
        let all = [
            (vec![3], Pixels::U8(vec![1, 2, 255])),
            (vec![2, 2], Pixels::U16(vec![1, 2, 3, 65535])),
            (vec![1, 2, 2], Pixels::F32(vec![1.5, -0.0, f32::INFINITY, 1e-40])),
            (vec![2, 1], Pixels::F64(vec![0.1, -1e300])),
            (vec![0, 4], Pixels::F32(vec![])),
        ];
        for (shape, pixels) in all {
            let path = folder.0.join("x.npy");
            save_npy(&path, &shape, &pixels).unwrap();
            let loaded = load(&path).unwrap();
            assert_eq!((loaded.shape, loaded.pixels, loaded.notes), (shape, pixels, vec![]));
        }
        assert_eq!(folder.names(), ["x.npy"]);
    }

    #[test]
    fn the_header_is_numpys() {
        let header = npy_header("<f4", &[3, 4]);
        assert_eq!(header.len(), 128);
        assert!(
            header.starts_with(b"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  ")
        );
        assert_eq!(header.last(), Some(&b'\n'));
        assert!(String::from_utf8_lossy(&npy_header("|u1", &[5])).contains("'shape': (5,), }"));
        assert!(load_bytes("x", &npy_header("|u1", &[0])).is_ok());
    }

    #[test]
    fn pictures_come_back() {
        let folder = Folder::new("png");
        let path = folder.0.join("x.png");
        save_png_gray8(&path, 3, 2, &[0, 1, 2, 3, 4, 255]).unwrap();
        let gray = load(&path).unwrap();
        assert_eq!((gray.shape, gray.channels), (vec![2, 3], 1));
        save_png_rgb8(&path, 1, 2, &[0, 1, 2, 3, 4, 255]).unwrap();
        let color = load(&path).unwrap();
        assert_eq!((color.shape, color.channels, &color.pixels), (vec![2, 1], 3, &gray.pixels));
        assert_eq!(color.pixels, Pixels::U8(vec![0, 1, 2, 3, 4, 255]));
        assert_eq!(folder.names(), ["x.png"]);
    }

    #[test]
    fn samples_of_a_tiff_come_back() {
        let folder = Folder::new("tiff");
        let path = folder.0.join("x.tif");
        let many: Vec<f32> = (0..3 * 700 * 500).map(|k| (k as f32).sin()).collect();
        for (shape, back, pixels) in [
            (vec![3], vec![1, 3], Pixels::F32(vec![1.5, -0.0, 1e-40])),
            (vec![2, 2], vec![2, 2], Pixels::F64(vec![0.1, -1e300, f64::INFINITY, 3.0])),
            (vec![2, 1, 2], vec![2, 1, 2], Pixels::F32(vec![1.0, 2.0, 3.0, 4.0])),
            (vec![1, 2, 2], vec![2, 2], Pixels::U16(vec![1, 2, 3, 65535])),
            (vec![3, 700, 500], vec![3, 700, 500], Pixels::F32(many)),
        ] {
            save_tiff(&path, &shape, &pixels).unwrap();
            let loaded = load(&path).unwrap();
            assert_eq!((loaded.shape, loaded.channels), (back, 1));
            assert!(loaded.pixels == pixels, "{shape:?}");
            // Of uncompressed pages libtiff warns of it.
            let mut file = tiff::decoder::Decoder::new(fs::File::open(&path).unwrap()).unwrap();
            assert_eq!(file.find_tag(Tag::Predictor).unwrap(), None);
            assert_eq!(file.find_tag_unsigned::<u32>(Tag::Compression).unwrap(), Some(1));
        }
        assert_eq!(folder.names(), ["x.tif"]);
        let text = save_tiff(&path, &[2, 3], &Pixels::U8(vec![0; 5])).unwrap_err().to_string();
        assert!(text.ends_with("expected the samples of shape 2x3, got 5 samples"), "{text}");
        assert!(save_tiff(&path, &[0, 3], &Pixels::U8(vec![])).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let path = Path::new("x.npy");
        let text = save_npy(path, &[2, 3], &Pixels::U8(vec![0; 5])).unwrap_err().to_string();
        assert_eq!(text, r#""x.npy": expected the samples of shape 2x3, got 5 samples"#);
        assert!(save_png_gray8(path, 2, 3, &[0; 5]).is_err());
        assert!(save_png_rgb8(path, 0, 3, &[]).is_err());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = Folder::new("old");
        let path = folder.0.join("x.bin");
        fs::write(&path, b"old").unwrap();
        let error = atomically(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("{:?}: expected a writable file, got: full", path.display().to_string())
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(folder.names(), ["x.bin"]);
        let nowhere = save_npy(&folder.0.join("none/x.npy"), &[1], &Pixels::U8(vec![1])).unwrap_err();
        assert!(matches!(nowhere, IoError::Write { .. }), "{nowhere}");
        assert!(matches!(save_npy(&folder.0, &[1], &Pixels::U8(vec![1])), Err(IoError::Write { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_writer_left_is_removed_by_the_next() {
        let folder = Folder::new("killed");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        fs::write(folder.0.join(format!(".x.npy.{}-0.tmp", child.id())), b"half").unwrap();
        save_npy(&folder.0.join("x.npy"), &[1], &Pixels::U8(vec![1])).unwrap();
        assert_eq!(folder.names(), ["x.npy"]);
    }

    #[test]
    fn what_would_fail_is_told_before() {
        let folder = Folder::new("before");
        let told = |name: &str| check_writable(&folder.0.join(name)).map_err(|error| error.to_string());
        assert_eq!(
            (told("x.npy"), told("")),
            (Ok(()), Err(format!("{:?}: expected a writable file, got: is a directory", folder.0.join(""))))
        );
        assert!(told("none/x.npy").unwrap_err().contains("x.npy\": expected a writable file, got: "));
        fs::write(folder.0.join("fixed.npy"), b"old").unwrap();
        let mut permissions = fs::metadata(folder.0.join("fixed.npy")).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(folder.0.join("fixed.npy"), permissions).unwrap();
        assert!(told("fixed.npy").unwrap_err().ends_with("expected a writable file, got: the file is read-only"));
        assert!(save_npy(&folder.0.join("fixed.npy"), &[1], &Pixels::U8(vec![1])).is_err());
        assert_eq!(fs::read(folder.0.join("fixed.npy")).unwrap(), b"old");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_stay() {
        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("x.npy"), folder.0.join("link.npy"));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_npy(&link, &[1], &Pixels::U8(vec![9])).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(load(&file).unwrap().pixels, Pixels::U8(vec![9]));
        // As is one whose file is not there yet.
        let (new, dangling) = (folder.0.join("new.npy"), folder.0.join("dangling.npy"));
        std::os::unix::fs::symlink("new.npy", &dangling).unwrap();
        save_npy(&dangling, &[1], &Pixels::U8(vec![7])).unwrap();
        assert!(fs::symlink_metadata(&dangling).unwrap().is_symlink());
        assert_eq!(load(&new).unwrap().pixels, Pixels::U8(vec![7]));
        let null = Path::new("/dev/null");
        save_npy(null, &[1], &Pixels::U8(vec![9])).unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
    }
}
