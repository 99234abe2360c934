//! The real data of `conformance/real` as f32, with templates cut from their middle.

use std::fs;
use std::path::Path;

use flcc_runtime::{AnyView, DType, Pixels, Shape};

/// The images: photographs, an ECG and a brain.
pub const FILES: [&str; 6] =
    ["brick.png", "camera.png", "coins.png", "text.png", "ecg_mitdb208_360hz.npy", "mni152_t1_65x77x63.npy"];

/// An image of f32.
pub struct Image {
    /// Its shape.
    pub shape: Shape,
    /// Its samples, row-major.
    pub pixels: Pixels,
}

impl Image {
    /// Reads one of [`FILES`].
    ///
    /// # Panics
    /// A file that is not there or not as described.
    pub fn read(file: &str) -> Image {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/real").join(file);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let decoded = if file.ends_with(".npy") { npy(&bytes) } else { png(&bytes) };
        let (lengths, pixels) =
            decoded.unwrap_or_else(|| panic!("{}: expected a grey image or an array of u1 or u2", path.display()));
        let shape = Shape::new(&lengths).expect("1 to 3 axes");
        assert_eq!(pixels.len(), shape.len(), "samples of {file}");
        Image { shape, pixels: pixels.cast(DType::F32) }
    }

    /// The middle of it.
    ///
    /// # Panics
    /// A template that is larger than the image.
    pub fn cut(&self, template: Shape) -> Pixels {
        let (image, template_lengths) = (self.shape.padded(), template.padded());
        let origin: [usize; 3] = std::array::from_fn(|axis| (image[axis] - template_lengths[axis]) / 2);
        let whole = AnyView::dense(&self.pixels, self.shape, 1).expect("as many samples as the shape has");
        Pixels::F64(whole.part(origin, template).expect("it lies inside").to_f64()).cast(DType::F32)
    }
}

/// The lengths and the samples of a grey PNG.
fn png(bytes: &[u8]) -> Option<(Vec<usize>, Pixels)> {
    let image = image::load_from_memory_with_format(bytes, image::ImageFormat::Png).ok()?;
    let image::DynamicImage::ImageLuma8(grey) = image else { return None };
    Some((vec![grey.height() as usize, grey.width() as usize], Pixels::U8(grey.into_raw())))
}

/// Those of an array of `u1` or `u2` as numpy writes it, version 1, in C order.
fn npy(bytes: &[u8]) -> Option<(Vec<usize>, Pixels)> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00")?;
    let (&length, rest) = rest.split_first_chunk::<2>()?;
    let (header, data) = rest.split_at_checked(u16::from_le_bytes(length).into())?;
    let header = str::from_utf8(header).ok().filter(|header| header.contains("'fortran_order': False"))?;
    let (_, tuple) = header.split_once("'shape': (")?;
    let lengths = tuple.split_once(')')?.0.split(',').filter(|length| !length.trim().is_empty());
    let lengths = lengths.map(|length| length.trim().parse().ok()).collect::<Option<Vec<usize>>>()?;
    let pixels = match () {
        _ if header.contains("'descr': '|u1'") => Pixels::U8(data.to_vec()),
        _ if header.contains("'descr': '<u2'") => {
            Pixels::U16(data.as_chunks::<2>().0.iter().map(|&sample| u16::from_le_bytes(sample)).collect())
        }
        _ => return None,
    };
    Some((lengths, pixels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read() {
        let shapes = FILES.map(|file| Image::read(file).shape.to_string());
        assert_eq!(shapes, ["512x512", "512x512", "303x384", "172x448", "108000", "65x77x63"]);
    }

    #[test]
    fn a_template_is_the_middle() {
        let image =
            Image { shape: Shape::new(&[3, 4]).unwrap(), pixels: Pixels::F32((0..12u8).map(f32::from).collect()) };
        assert_eq!(image.cut(Shape::new(&[1, 2]).unwrap()), Pixels::F32(vec![5.0, 6.0]));
    }

    #[test]
    fn other_arrays_are_refused() {
        assert_eq!(npy(b"\x93NUMPY\x01\x00\x04\x00{'a'"), None);
        assert_eq!(npy(b"\x93NUMPY\x02\x00"), None);
    }
}
