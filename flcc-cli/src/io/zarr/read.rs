//! Zarr arrays of which parts are read: the chunks that a part touches, a few at a time.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flcc_core::dtype::{DType, Pixels};
use zarrs::array::{Array, ArrayBytes, ArrayShardedExt, ArraySubset};
use zarrs::filesystem::FilesystemStore;
use zarrs::plugin::ExtensionName;

use super::super::error::{IoError, one_line};
use super::super::guard::guarded;
use super::super::loaded::check_memory;
use super::super::npy;
use super::super::slices::Hash;
use super::{bounded, folder};

/// Bytes that are read at a time, if a chunk is not larger.
const PIECE: usize = 4 << 20;

/// How zarr calls a type, and how `.npy` does without the order of bytes.
const TYPES: [(&str, &str); 12] = [
    ("uint8", "u1"),
    ("uint16", "u2"),
    ("float32", "f4"),
    ("float64", "f8"),
    ("bool", "b1"),
    ("int8", "i1"),
    ("int16", "i2"),
    ("float16", "f2"),
    ("int32", "i4"),
    ("uint32", "u4"),
    ("int64", "i8"),
    ("uint64", "u8"),
];

/// A part of an array of up to 3 axes: a range of each, whole ones of 1 before the array's own.
type Part = [Range<usize>; 3];

/// A zarr array in a folder.
pub struct ZarrSlices {
    name: String,
    folder: PathBuf,
    array: Array<FilesystemStore>,
    /// Its shape, and how its samples become pixels.
    samples: npy::Array,
    /// The text that says what it is.
    text: Vec<u8>,
    /// The sides of what can be read by itself: a chunk, or one of those in a shard.
    chunk: [usize; 3],
}

impl ZarrSlices {
    /// Opens an array of a folder that [`folder::kind`] tells.
    ///
    /// # Errors
    /// A folder that is no array, or one of a type, of axes or with codecs that are not read; chunks that the memory
    /// does not hold.
    pub fn open(path: &Path) -> Result<ZarrSlices, IoError> {
        let name = path.display().to_string();
        let text = folder::text(path)?;
        guarded(&name, "zarr", || ZarrSlices::opened(path, name.clone(), text))
    }

    fn opened(path: &Path, name: String, text: Vec<u8>) -> Result<ZarrSlices, IoError> {
        bounded::register();
        let store = FilesystemStore::new(path).map_err(|error| damaged(&name, error))?;
        let array = Array::open(Arc::new(store), "/").map_err(|error| damaged(&name, error))?;
        let dtype = array.data_type().name_v3().map_or_else(|| array.data_type().to_string(), |name| name.into_owned());
        let Some((_, code)) = TYPES.iter().find(|row| row.0 == dtype) else {
            return Err(npy::refused_type(&name, &dtype));
        };
        let too_large = |length: &u64| IoError::TooLarge {
            name: name.clone(),
            limit: format!("{} samples along an axis", usize::MAX),
            got: length.to_string(),
        };
        let lengths = array.shape().iter().map(|length| usize::try_from(*length).map_err(|_| too_large(length)));
        let samples = npy::Array::native(&name, code, lengths.collect::<Result<_, _>>()?)?;
        // As large as memory may be.
        samples.size(&name, isize::MAX as u64)?;
        let mut chunk = [1; 3];
        if !samples.shape.contains(&0) {
            let first = vec![0; samples.shape.len()];
            let whole = array.chunk_shape(&first).map_err(|error| damaged(&name, error))?;
            let sides = array.effective_subchunk_shape().unwrap_or(whole);
            let sides: Vec<usize> =
                sides.iter().map(|side| usize::try_from(side.get()).unwrap_or(usize::MAX)).collect();
            let count = sides.iter().fold(1usize, |count, side| count.saturating_mul(*side));
            // A decoder takes memory for all of a chunk, also where the array ends within it.
            check_memory(&name, count, samples.stored())?;
            chunk[3 - sides.len()..].copy_from_slice(&sides);
        }
        Ok(ZarrSlices { name, folder: path.to_path_buf(), array, samples, text, chunk })
    }

    /// The length of each axis, slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.samples.shape
    }

    /// The type of the samples as they are read.
    pub fn dtype(&self) -> DType {
        self.samples.none().dtype()
    }

    /// Bytes of all samples in memory.
    pub fn bytes(&self) -> f64 {
        self.shape().iter().map(|length| *length as f64).product::<f64>() * self.samples.held() as f64
    }

    /// What is to be told of the array, a phrase each.
    pub fn notes(&self) -> Vec<String> {
        self.samples.notes(0)
    }

    /// The samples of some slices along an axis, run behind run, in C order.
    ///
    /// # Errors
    /// Chunks that are not read or not sound; [`IoError::TooLarge`].
    pub fn read(&self, axis: usize, runs: &[Range<usize>]) -> Result<Pixels, IoError> {
        let axes = self.shape().len();
        let axis = 3 - axes + axis.min(axes - 1);
        let mut whole: Part = [0..1, 0..1, 0..1];
        whole.iter_mut().skip(3 - axes).zip(self.shape()).for_each(|(range, length)| *range = 0..*length);
        let mut sides = whole.clone().map(|range| range.len());
        sides[axis] = runs.iter().map(Range::len).sum();
        let count = sides.iter().product();
        check_memory(&self.name, count, self.samples.held())?;
        let mut all = zeros(self.dtype(), count);
        let mut before = 0;
        for run in runs {
            let mut part = whole.clone();
            part[axis] = run.clone();
            for piece in self.pieces(&part) {
                let pixels = self.piece(&piece)?;
                let mut at = [0, 1, 2].map(|axis| piece[axis].start - part[axis].start);
                at[axis] += before;
                put(&mut all, sides, at, &pixels, piece.map(|range| range.len()))
                    .ok_or_else(|| damaged(&self.name, "samples of two types"))?;
            }
            before += run.len();
        }
        Ok(all)
    }

    /// A part in pieces that end where chunks do, each of a chunk or of as many as take [`PIECE`].
    fn pieces(&self, part: &Part) -> Vec<Part> {
        let mut steps = [0, 1, 2].map(|axis| self.chunk[axis].min(part[axis].end.max(1)));
        let mut bytes = steps.iter().fold(self.samples.stored(), |bytes, side| bytes.saturating_mul(*side));
        for axis in (0..3).rev() {
            while bytes <= PIECE / 2 && steps[axis] < part[axis].end {
                (steps[axis], bytes) = (steps[axis].saturating_mul(2), bytes.saturating_mul(2));
            }
        }
        let cut = |axis: usize| {
            let (range, step) = (part[axis].clone(), steps[axis]);
            let first = range.start / step;
            let last = if range.is_empty() { first } else { range.end.div_ceil(step) };
            (first..last).map(move |number| {
                let begin = number.saturating_mul(step);
                begin.max(range.start)..begin.saturating_add(step).min(range.end)
            })
        };
        let mut all = Vec::new();
        for slow in cut(0) {
            for middle in cut(1) {
                all.extend(cut(2).map(|fast| [slow.clone(), middle.clone(), fast]));
            }
        }
        all
    }

    /// The samples of a part, as they are read.
    fn piece(&self, part: &Part) -> Result<Pixels, IoError> {
        let own = &part[3 - self.shape().len()..];
        let ranges: Vec<Range<u64>> = own.iter().map(|range| range.start as u64..range.end as u64).collect();
        let subset = ArraySubset::new_with_ranges(&ranges);
        let bytes = guarded(&self.name, "zarr", || {
            let bytes: ArrayBytes<'static> =
                self.array.retrieve_array_subset(&subset).map_err(|error| damaged(&self.name, error))?;
            bytes.into_fixed().map_err(|error| damaged(&self.name, error))
        })?;
        let due = own.iter().map(Range::len).product::<usize>() * self.samples.stored();
        if bytes.len() != due {
            return Err(damaged(&self.name, format!("{} bytes where {due} belong", bytes.len())));
        }
        self.samples.read(&self.name, &bytes)
    }

    /// What tells the array from others of its shape, as far as some pieces of it do: a hash of what says what it is
    /// and of the begins of chunks that lie all over it.
    ///
    /// # Errors
    /// [`IoError::Read`].
    pub fn fingerprint(&self) -> Result<String, IoError> {
        /// Chunks, and bytes of each.
        const PIECES: (u64, usize) = (64, 4096);
        let mut hash = Hash::default();
        hash.add(&self.text);
        let grid = self.array.chunk_grid_shape();
        let count = grid.iter().fold(1u64, |count, length| count.saturating_mul(*length));
        let mut size = 0u64;
        for piece in 0..PIECES.0.min(count) {
            let number =
                (u128::from(count - 1) * u128::from(piece) / u128::from(PIECES.0.min(count) - 1).max(1)) as u64;
            let mut left = number;
            let mut indices: Vec<u64> = grid
                .iter()
                .rev()
                .map(|length| {
                    let index = left % length;
                    left /= length;
                    index
                })
                .collect();
            indices.reverse();
            let chunk = self.folder.join(self.array.chunk_key(&indices).as_str());
            // A chunk that is not there is one, too.
            match begin_of(&chunk, PIECES.1) {
                Ok((length, bytes)) => {
                    size = size.saturating_add(length);
                    hash.add(&length.to_le_bytes());
                    hash.add(&bytes);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => hash.add(b"none"),
                Err(source) => return Err(IoError::Read { name: chunk.display().to_string(), source }),
            }
        }
        Ok(format!("{size}-{}", hash.text()))
    }
}

/// How many bytes a file has, and as many of them as are asked for: those at its begin and, of a longer one, at its
/// end.
fn begin_of(path: &Path, most: usize) -> std::io::Result<(u64, Vec<u8>)> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.by_ref().take(most as u64 / 2).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(length.saturating_sub(most as u64 / 2)))?;
    file.take(most as u64 / 2).read_to_end(&mut bytes)?;
    Ok((length, bytes))
}

/// What is wrong with an array, in the words of the crate that reads it.
fn damaged(name: &str, error: impl std::fmt::Display) -> IoError {
    IoError::Damaged { name: name.into(), expected: "a zarr array that can be read".into(), got: one_line(error) }
}

fn zeros(dtype: DType, count: usize) -> Pixels {
    match dtype {
        DType::U8 => Pixels::U8(vec![0; count]),
        DType::U16 => Pixels::U16(vec![0; count]),
        DType::F32 => Pixels::F32(vec![0.0; count]),
        DType::F64 => Pixels::F64(vec![0.0; count]),
    }
}

/// Puts a block of some sides at a place of a larger one; none where they are of two types.
fn put(all: &mut Pixels, sides: [usize; 3], at: [usize; 3], block: &Pixels, own: [usize; 3]) -> Option<()> {
    fn rows<T: Copy>(all: &mut [T], sides: [usize; 3], at: [usize; 3], block: &[T], own: [usize; 3]) {
        for (number, row) in block.chunks_exact(own[2].max(1)).enumerate() {
            let (z, y) = (number / own[1], number % own[1]);
            let begin = ((at[0] + z) * sides[1] + at[1] + y) * sides[2] + at[2];
            all[begin..begin + row.len()].copy_from_slice(row);
        }
    }
    match (all, block) {
        (Pixels::U8(all), Pixels::U8(block)) => rows(all, sides, at, block, own),
        (Pixels::U16(all), Pixels::U16(block)) => rows(all, sides, at, block, own),
        (Pixels::F32(all), Pixels::F32(block)) => rows(all, sides, at, block, own),
        (Pixels::F64(all), Pixels::F64(block)) => rows(all, sides, at, block, own),
        _ => return None,
    }
    Some(())
}
