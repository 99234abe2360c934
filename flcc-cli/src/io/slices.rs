//! `.npy` files of which parts are read where they lie: images that are larger than what is to be held of them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use flcc_core::dtype::{DType, Pixels};

use super::error::IoError;
use super::loaded::check_memory;
use super::npy::{self, Array};

/// Most bytes of a header: numpy writes a hundred.
const MOST_HEADER: u64 = 1 << 16;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A `.npy` file in C order.
pub struct NpySlices {
    name: String,
    file: File,
    array: Array,
    /// Where the samples begin in the file.
    first: u64,
    /// Bytes of the file.
    size: u64,
}

impl NpySlices {
    /// Opens a file, if it is one in C order, of an array that [`load`](super::load) reads.
    ///
    /// # Errors
    /// As [`load`](super::load), for a `.npy` file.
    pub fn open(path: &Path) -> Result<Option<NpySlices>, IoError> {
        let name = path.display().to_string();
        let failed = |source| IoError::Read { name: name.clone(), source };
        // A pipe is not opened: what is read of it here nobody else reads.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Ok(None);
        }
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut begin = Vec::new();
        (&file).take(MOST_HEADER).read_to_end(&mut begin).map_err(failed)?;
        if !begin.starts_with(npy::MAGIC) {
            return Ok(None);
        }
        let (array, data) = Array::of(&name, &begin)?;
        let first = (begin.len() - data.len()) as u64;
        array.size(&name, size.saturating_sub(first))?;
        Ok(array.is_c_order().then_some(NpySlices { name, file, array, first, size }))
    }

    /// The length of each axis, slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.array.shape
    }

    /// The type of the samples as they are read.
    pub fn dtype(&self) -> DType {
        self.array.none().dtype()
    }

    /// Bytes of all samples in memory.
    pub fn bytes(&self) -> f64 {
        self.shape().iter().map(|length| *length as f64).product::<f64>() * self.array.held() as f64
    }

    /// What is to be told of the file, a phrase each.
    pub fn notes(&self) -> Vec<String> {
        let data: u64 = self.shape().iter().map(|length| *length as u64).product::<u64>() * self.array.stored() as u64;
        self.array.notes((self.size - self.first).saturating_sub(data))
    }

    /// The samples of some slices along an axis, run behind run, in C order.
    ///
    /// # Errors
    /// [`IoError::Read`], also of a file that has become shorter; [`IoError::TooLarge`].
    pub fn read(&self, axis: usize, runs: &[Range<usize>]) -> Result<Pixels, IoError> {
        let (before, behind) = self.shape().split_at(axis.min(self.shape().len() - 1));
        let (length, below) = (behind[0], behind[1..].iter().product::<usize>());
        let planes: usize = before.iter().product();
        let count = runs.iter().map(Range::len).sum::<usize>() * below * planes;
        check_memory(&self.name, count, self.array.held())?;
        let mut all = self.array.none();
        reserve(&mut all, count);
        let mut bytes = Vec::new();
        for plane in 0..planes {
            for run in runs {
                let place = |at: usize| ((plane * length + at) * below * self.array.stored()) as u64;
                self.append(place(run.start)..place(run.end), &mut bytes, &mut all)?;
            }
        }
        Ok(all)
    }

    /// Reads a range of the samples' bytes behind others.
    fn append(&self, range: Range<u64>, bytes: &mut Vec<u8>, all: &mut Pixels) -> Result<(), IoError> {
        let failed = |source| IoError::Read { name: self.name.clone(), source };
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.first + range.start)).map_err(failed)?;
        let mut left = range.end - range.start;
        // A multiple of the size of every sample.
        while left > 0 {
            let piece = left.min(PIECE as u64);
            bytes.resize(piece as usize, 0);
            file.read_exact(bytes).map_err(failed)?;
            append(all, self.array.read(&self.name, bytes)?).map_err(failed)?;
            left -= piece;
        }
        Ok(())
    }

    /// What tells the file from others of its shape, as far as some pieces of it do: its size and a hash of these.
    ///
    /// # Errors
    /// [`IoError::Read`].
    pub fn fingerprint(&self) -> Result<String, IoError> {
        /// Pieces, of so many bytes.
        const PIECES: (u64, u64) = (64, 4096);
        let mut hash = Hash::default();
        let mut file = &self.file;
        for number in 0..PIECES.0 {
            let last = self.size.saturating_sub(PIECES.1);
            let place = (u128::from(last) * u128::from(number) / u128::from(PIECES.0 - 1)) as u64;
            let mut bytes = Vec::new();
            let read = file.seek(SeekFrom::Start(place)).and_then(|_| file.take(PIECES.1).read_to_end(&mut bytes));
            read.map_err(|source| IoError::Read { name: self.name.clone(), source })?;
            hash.add(&bytes);
        }
        Ok(format!("{}-{}", self.size, hash.text()))
    }
}

/// A hash of bytes, FNV-1a.
pub struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// More bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// As text.
    pub fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

fn reserve(pixels: &mut Pixels, count: usize) {
    match pixels {
        Pixels::U8(data) => data.reserve_exact(count),
        Pixels::U16(data) => data.reserve_exact(count),
        Pixels::F32(data) => data.reserve_exact(count),
        Pixels::F64(data) => data.reserve_exact(count),
    }
}

fn append(all: &mut Pixels, more: Pixels) -> io::Result<()> {
    match (all, more) {
        (Pixels::U8(all), Pixels::U8(more)) => all.extend(more),
        (Pixels::U16(all), Pixels::U16(more)) => all.extend(more),
        (Pixels::F32(all), Pixels::F32(more)) => all.extend(more),
        (Pixels::F64(all), Pixels::F64(more)) => all.extend(more),
        // One array is of one type.
        _ => return Err(io::Error::other("samples of two types")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{load, save_npy};
    use super::*;
    use proptest::prelude::*;

    /// A file of a test, removed behind it.
    struct Npy(std::path::PathBuf);

    impl Npy {
        fn new(test: &str) -> Npy {
            Npy(std::env::temp_dir().join(format!("flcc-slices-{}-{test}.npy", std::process::id())))
        }
    }

    impl Drop for Npy {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A file of a type's code and shape, with these bytes behind its header.
    fn write(path: &Path, descr: &str, fortran: &str, shape: &[usize], data: &[u8]) {
        let lengths: Vec<String> = shape.iter().map(|length| format!("{length},")).collect();
        let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({}), }}\n", lengths.concat());
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        std::fs::write(path, bytes).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn slices_are_those_of_the_array(
            shape in prop::collection::vec(1usize..7, 1..4),
            kind in 0usize..8,
            axis in 0usize..3,
            cut in prop::array::uniform4(0usize..7),
            behind in 0usize..3,
        ) {
            let (descr, size) =
                [("|u1", 1), ("<u2", 2), (">u2", 2), ("<f4", 4), (">f8", 8), ("<i2", 2), (">i4", 4), ("|b1", 1)][kind];
            let count: usize = shape.iter().product();
            let data: Vec<u8> = (0..count * size + behind).map(|index| (index * 37 % 61) as u8).collect();
            let file = Npy::new("parts");
            write(&file.0, descr, "False", &shape, &data);
            let whole = load(&file.0).unwrap();
            let slices = NpySlices::open(&file.0).unwrap().unwrap();
            prop_assert_eq!((slices.shape(), slices.dtype()), (&whole.shape[..], whole.pixels.dtype()));
            prop_assert_eq!(slices.notes(), whole.notes);
            let axis = axis.min(shape.len() - 1);
            let mut ends = cut.map(|end| end.min(shape[axis]));
            ends.sort_unstable();
            let runs = [ends[0]..ends[1], ends[2]..ends[3]];
            let (values, below) = (whole.pixels.to_f64(), shape[axis + 1..].iter().product::<usize>());
            let mut expected = Vec::new();
            for plane in 0..shape[..axis].iter().product() {
                for at in runs.iter().cloned().flatten() {
                    let place = (plane * shape[axis] + at) * below;
                    expected.extend_from_slice(&values[place..place + below]);
                }
            }
            let read = slices.read(axis, &runs).unwrap();
            prop_assert_eq!((read.to_f64(), read.dtype()), (expected, slices.dtype()));
        }
    }

    #[test]
    fn what_cannot_be_read_by_parts_is_told() {
        let file = Npy::new("other");
        let open = || NpySlices::open(&file.0).map(|slices| slices.is_some()).map_err(|error| error.to_string());
        assert!(open().unwrap_err().contains("expected a readable file"));
        std::fs::write(&file.0, b"P5 1 1 255 x").unwrap();
        assert_eq!(open(), Ok(false));
        write(&file.0, "<f4", "True", &[2, 3], &[0; 24]);
        assert_eq!(open(), Ok(false));
        write(&file.0, "<f4", "True", &[6], &[0; 24]);
        assert_eq!(open(), Ok(true));
        write(&file.0, "<f4", "False", &[2, 3], &[0; 23]);
        assert!(open().unwrap_err().ends_with("expected 24 bytes of data (2x3 of <f4), got 23 bytes (truncated?)"));
        write(&file.0, "<c8", "False", &[2, 3], &[0; 48]);
        assert!(open().unwrap_err().contains("expected an array of dtype"));
        assert_eq!(NpySlices::open(&std::env::temp_dir()).map(|slices| slices.is_some()).ok(), Some(false));
    }

    #[test]
    fn a_file_that_changes_is_another() {
        let file = Npy::new("changes");
        let print = |values: Vec<u8>| {
            save_npy(&file.0, &[values.len()], &Pixels::U8(values)).unwrap();
            NpySlices::open(&file.0).unwrap().unwrap().fingerprint().unwrap()
        };
        let mut values = vec![7; 100_000];
        let first = print(values.clone());
        assert_eq!(first, print(values.clone()));
        values[99_999] = 8;
        assert_ne!(first, print(values.clone()));
        values.pop();
        assert_ne!(first, print(values));
    }
}
