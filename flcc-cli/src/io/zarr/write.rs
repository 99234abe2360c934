//! Zarr arrays that are written as their samples come: version 3, regular chunks, zstd, as zarr-python writes them.
//!
//! Samples come in C order. They are held until a layer is full, chunks beside each other along the slowest axis; then
//! its chunks are written. A layer is as deep as fits in what may be held of it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use flcc_core::dtype::{DType, Pixel, Slice};
use zarrs::array::codec::ZstdCodec;
use zarrs::array::{
    Array, ArrayBuilder, ArrayBytes, ArrayMetadataOptions, ArraySubset, DataType, FillValue, data_type,
};
use zarrs::filesystem::FilesystemStore;

use super::super::error::one_line;

/// Samples of a chunk: a megabyte of f32.
const SAMPLES: usize = 1 << 18;

/// Most samples of a chunk along each of its axes, of as many as it has of more than 1.
const SIDES: [usize; 3] = [SAMPLES, 512, 64];

/// How hard zstd tries: 0 stands for its default, as zarr-python has it.
const LEVEL: i32 = 0;

/// An array that is being written into a folder.
pub struct ZarrWriter {
    array: Array<FilesystemStore>,
    /// Bytes of a sample.
    size: usize,
    /// Samples of a chunk along the axis of the layers, and positions along it.
    depth: usize,
    length: usize,
    /// The number of the axis of the layers.
    axis: usize,
    /// The sides of a slice behind it, and those of whole chunks.
    slice: [usize; 2],
    room: [usize; 2],
    /// Bytes of a layer, up to the ends of its last chunks.
    layer: Vec<u8>,
    /// Samples that have come.
    came: usize,
}

impl ZarrWriter {
    /// Begins an array in an empty folder, of layers that take at most so many bytes, if a slice takes no more.
    ///
    /// # Errors
    /// What the system said, or the crate that writes.
    pub fn new(folder: &Path, dtype: DType, shape: &[usize], most: usize) -> io::Result<ZarrWriter> {
        let axis = shape.iter().position(|length| *length > 1).unwrap_or(shape.len().saturating_sub(1));
        let (size, chunk) = (dtype.row().size, chunk_sides(shape, axis, dtype.row().size, most));
        let long = |lengths: &[usize]| lengths.iter().map(|length| *length as u64).collect::<Vec<u64>>();
        let (kind, fill): (DataType, FillValue) = match dtype {
            DType::U8 => (data_type::uint8(), 0u8.into()),
            DType::U16 => (data_type::uint16(), 0u16.into()),
            DType::F32 => (data_type::float32(), 0f32.into()),
            DType::F64 => (data_type::float64(), 0f64.into()),
        };
        let array = ArrayBuilder::new(long(shape), long(&chunk), kind, fill)
            .bytes_to_bytes_codecs(vec![Arc::new(ZstdCodec::new(LEVEL, false))])
            .build(Arc::new(FilesystemStore::new(folder).map_err(failed)?), "/")
            .map_err(failed)?
            .with_metadata_options(ArrayMetadataOptions::default().with_include_zarrs_metadata(false));
        array.store_metadata().map_err(failed)?;
        let (mut slice, mut room) = ([1; 2], [1; 2]);
        for (place, at) in (axis + 1..shape.len()).rev().zip([1, 0]) {
            (slice[at], room[at]) = (shape[place], shape[place].next_multiple_of(chunk[place]));
        }
        let (depth, length) = (chunk[axis], shape[axis]);
        let layer = vec![0; depth * room[0] * room[1] * size];
        Ok(ZarrWriter { array, size, depth, length, axis, slice, room, layer, came: 0 })
    }

    /// Takes the samples that follow.
    ///
    /// # Errors
    /// More samples than the array has; chunks that are not written.
    pub fn write<T: Pixel>(&mut self, mut samples: &[T]) -> io::Result<()> {
        let slice = self.slice[0] * self.slice[1];
        if samples.len() > self.length * slice - self.came {
            return Err(io::Error::other("more samples than the array has"));
        }
        while !samples.is_empty() {
            let (z, at) = (self.came / slice % self.depth, self.came % slice);
            let (y, x) = (at / self.slice[1], at % self.slice[1]);
            // As many as lie behind each other in the layer, too: a row, or all where chunks end where rows do.
            let run = match self.slice == self.room {
                true => (self.depth - z) * slice - at,
                false => self.slice[1] - x,
            };
            let (now, rest) = samples.split_at(run.min(samples.len()));
            let begin = ((z * self.room[0] + y) * self.room[1] + x) * self.size;
            put(&mut self.layer[begin..begin + now.len() * self.size], now);
            self.came += now.len();
            samples = rest;
            if self.came.is_multiple_of(self.depth * slice) {
                self.store(self.came / (self.depth * slice) - 1)?;
            }
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Fewer samples than the array has; chunks that are not written.
    pub fn end(&mut self) -> io::Result<()> {
        let slice = self.slice[0] * self.slice[1];
        if self.came != self.length * slice {
            return Err(io::Error::other("fewer samples than the array has"));
        }
        if self.came.is_multiple_of(self.depth * slice) {
            return Ok(());
        }
        // Behind the array's end there is what the layer before left.
        let filled = self.length % self.depth;
        self.layer[filled * self.room[0] * self.room[1] * self.size..].fill(0);
        self.store(self.came / (self.depth * slice))
    }

    /// Writes the chunks of a layer.
    fn store(&mut self, number: usize) -> io::Result<()> {
        let grid = self.array.chunk_grid_shape();
        let mut chunks: Vec<std::ops::Range<u64>> = grid.iter().map(|count| 0..*count).collect();
        chunks[self.axis] = number as u64..number as u64 + 1;
        let bytes = ArrayBytes::new_flen(self.layer.as_slice());
        self.array.store_chunks(&ArraySubset::new_with_ranges(&chunks), bytes).map_err(failed)
    }
}

/// The sides of chunks: of [`SAMPLES`], as alike as what may be held of a layer lets them be.
fn chunk_sides(shape: &[usize], axis: usize, size: usize, most: usize) -> Vec<usize> {
    let behind = &shape[axis + 1..];
    let slice = behind.iter().product::<usize>().saturating_mul(size);
    let depth = SIDES[behind.len().min(2)].min(power((most / slice.max(1)).max(1))).min(shape[axis].max(1));
    let side = match behind.len() {
        2 => power((SAMPLES / depth).isqrt()),
        _ => SAMPLES / depth,
    };
    let side_of = |(place, length): (usize, &usize)| match place {
        _ if place < axis => 1,
        _ if place == axis => depth,
        _ => side.min(*length).max(1),
    };
    shape.iter().enumerate().map(side_of).collect()
}

/// The largest power of two that a number from 1 on has room for.
fn power(number: usize) -> usize {
    1 << number.max(1).ilog2()
}

/// The bytes of samples in the order of this machine, as the crate takes them.
fn put<T: Pixel>(bytes: &mut [u8], samples: &[T]) {
    fn each<S: Copy, const N: usize>(bytes: &mut [u8], samples: &[S], of: impl Fn(S) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(samples).for_each(|(bytes, sample)| *bytes = of(*sample));
    }
    match T::slice(samples) {
        Slice::U8(data) => bytes.copy_from_slice(data),
        Slice::U16(data) => each(bytes, data, u16::to_ne_bytes),
        Slice::F32(data) => each(bytes, data, f32::to_ne_bytes),
        Slice::F64(data) => each(bytes, data, f64::to_ne_bytes),
    }
}

/// What the crate says, as what the system says.
fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(one_line(error))
}

#[cfg(test)]
mod tests {
    use super::super::read::ZarrSlices;
    use super::*;
    use flcc_core::dtype::Pixels;
    use proptest::prelude::*;

    #[test]
    fn chunks_are_of_a_megabyte_and_layers_within_their_bound() {
        let sides = |shape: &[usize], size, most: usize| chunk_sides(shape, 0, size, most);
        assert_eq!(sides(&[900, 900, 900], 4, usize::MAX), [64, 64, 64]);
        assert_eq!(sides(&[900, 900, 900], 4, 32 << 20), [8, 128, 128]);
        assert_eq!(sides(&[900, 900, 900], 4, 0), [1, 512, 512]);
        assert_eq!(sides(&[40_000, 40_000], 4, 32 << 20), [128, 2048]);
        assert_eq!(sides(&[5, 7], 8, usize::MAX), [5, 7]);
        assert_eq!(sides(&[10_000_000], 4, 32 << 20), [1 << 18]);
        assert_eq!(sides(&[0, 3], 4, 100), [1, 3]);
        assert_eq!(chunk_sides(&[1, 30, 20], 1, 4, usize::MAX), [1, 30, 20]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn arrays_come_back_however_their_samples_came(
            shape in prop::collection::vec(1usize..40, 1..4),
            most in 0usize..20_000,
            cuts in prop::collection::vec(1usize..900, 1..6),
            wide in any::<bool>(),
        ) {
            let folder = std::env::temp_dir().join(format!("flcc-zarr-write-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|index| (index * 37 % 61) as f32 - 7.5).collect();
            let doubles: Vec<f64> = values.iter().map(|value| f64::from(*value) / 3.0).collect();
            let dtype = if wide { DType::F64 } else { DType::F32 };
            let mut writer = ZarrWriter::new(&folder, dtype, &shape, most).unwrap();
            let (mut from, mut turn) = (0, 0);
            while from < count {
                let to = (from + cuts[turn % cuts.len()]).min(count);
                match wide {
                    true => writer.write(&doubles[from..to]).unwrap(),
                    false => writer.write(&values[from..to]).unwrap(),
                }
                (from, turn) = (to, turn + 1);
            }
            writer.end().unwrap();
            prop_assert!(writer.write(&values[..1]).is_err());
            let slices = ZarrSlices::open(&folder).unwrap();
            prop_assert_eq!((slices.shape(), slices.dtype()), (&shape[..], dtype));
            let read = slices.read(0, std::slice::from_ref(&(0..shape[0]))).unwrap();
            prop_assert_eq!(read, if wide { Pixels::F64(doubles) } else { Pixels::F32(values) });
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
}
