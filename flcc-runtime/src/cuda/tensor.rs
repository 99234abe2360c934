//! zncc of bytes on tensor cores: which templates and devices its kernel serves, what it takes of shared memory, and
//! the table that it takes a template's rows from. The kernel's text, templates/cuda/mma, has the derivation.

use flcc_generated::Entry;

use crate::cuda::capability::{BYTES_ON_TENSOR_CORES, most_shared};
use crate::plan::machine::Device;

/// The operation of its kernel.
pub(crate) const OP: &str = "znccmma";

/// The least and the greatest side of a template: sums down a column have two bytes, those of squares three, and lanes
/// hold those of a row of samples in registers, of four words each at most.
const SIDES: (usize, usize) = (1, 256);

/// The most taps, whose sums the rule of scores counts on.
const MOST_TAPS: usize = 8192;

/// Neighbouring outputs that take their samples together.
const CHUNK: usize = 16;

/// Copies of a template's row, each a byte further on.
const COPIES: usize = 4;

/// Samples that one instruction multiplies by taps, of each stretch.
const SAMPLES: usize = 32;

/// What a kernel takes of a template of some sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    height: usize,
    width: usize,
    /// Warps of a block, and rows of outputs of a block.
    warps: usize,
    rows: usize,
}

impl Shape {
    pub fn of(entry: &Entry, [_, height, width]: [usize; 3]) -> Shape {
        Shape { height, width, warps: entry.block[0], rows: entry.tile[0] }
    }

    /// Stretches of samples that neighbouring outputs meet of a row.
    fn chunks(self) -> usize {
        (self.width + CHUNK - 1).div_ceil(CHUNK)
    }

    /// Words between the copies of a row, zeros on both sides included: an odd multiple of 8.
    fn apart(self) -> usize {
        (4 * self.chunks() + 11) / 16 * 16 + 8
    }

    /// Words of the table: of each row, one of zeros and one of ones.
    fn table_words(self) -> usize {
        (self.height + 2) * COPIES * self.apart()
    }

    /// Bytes of the table.
    pub fn table_bytes(self) -> usize {
        self.table_words() * size_of::<u32>()
    }

    /// Products that an output takes: of each row of taps as many as the samples of whole instructions.
    pub fn products(self) -> usize {
        self.height * (self.chunks() * CHUNK).next_multiple_of(SAMPLES)
    }

    /// Bytes of shared memory of a block: the table, samples, and for each warp a row of sums, five bytes a column.
    pub fn shared(self) -> usize {
        let row = (15 + self.chunks()) * CHUNK;
        self.table_bytes() + (self.rows + self.height - 1 + 5 * self.warps) * row
    }

    /// A template as its kernel takes it. Word `j` of copy `s` of a row holds the taps from `4 (j - 4) + s` on.
    pub fn table(self, values: &[f64]) -> Vec<u32> {
        let tap = |row: usize, column: Option<usize>| match column {
            Some(column) if column < self.width => match row.checked_sub(self.height) {
                None => values[row * self.width + column] as u8,
                Some(below) => below as u8,
            },
            _ => 0,
        };
        let apart = self.apart();
        let word = |at: usize| {
            let (row, copy, word) = (at / (COPIES * apart), at / apart % COPIES, at % apart);
            u32::from_le_bytes([0, 1, 2, 3].map(|byte| tap(row, (4 * word + copy + byte).checked_sub(CHUNK))))
        };
        (0..self.table_words()).map(word).collect()
    }
}

/// No less than the bytes of the table of any template of so many samples: of four columns or more, or of as many rows
/// as it may have.
pub(crate) fn most_table_bytes(samples: usize) -> usize {
    ((samples / 4).max(samples.min(SIDES.1)) + 2) * 448
}

/// The kernel.
pub(crate) fn kernel() -> Option<&'static Entry> {
    flcc_generated::generic(OP, "u8", false)
}

/// Whether it is there for templates of such sides.
pub(crate) fn holds([depth, height, width]: [usize; 3]) -> bool {
    let (least, most) = SIDES;
    let sides = [height, width].iter().all(|side| (least..=most).contains(side));
    depth == 1 && sides && height * width <= MOST_TAPS
}

/// What one of these devices lacks for the kernel to take such a template, if it lacks something.
pub(crate) fn lacking(entry: &Entry, template: [usize; 3], devices: &[Device]) -> Option<String> {
    let needed = Shape::of(entry, template).shared();
    devices.iter().find_map(|Device { name, capability: (major, minor), .. }| {
        let (least, there) = (BYTES_ON_TENSOR_CORES, most_shared((*major, *minor)));
        if (*major, *minor) < least {
            let least = format!("{}.{}", least.0, least.1);
            return Some(format!(
                "tensor cores for bytes need compute capability {least} or more, {name} has {major}.{minor}"
            ));
        }
        (needed > there).then(|| {
            let [_, height, width] = template;
            format!("a template of {height}x{width} needs {needed} bytes of shared memory a block, {name} has {there}")
        })
    })
}

/// Why the kernel does not serve a template on these devices, once it is known that it does not.
pub(crate) fn reason(entry: &Entry, template: [usize; 3], devices: &[Device]) -> String {
    let (least, most) = SIDES;
    let serves = || {
        format!(
            "it serves zncc in f32 of images in u8 by templates in u8, both of two axes and one channel, without a \
             mask, where samples outside are bytes too, with {least} to {most} taps a side and {MOST_TAPS} in all"
        )
    };
    lacking(entry, template, devices).unwrap_or_else(serves)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a warp's lanes take them: of column `g` the four bytes from `4 t - g` on, 16 bytes or 8 columns further.
    #[test]
    fn a_table_has_every_fragment_of_a_row() {
        for [height, width] in [[4, 4], [5, 17], [3, 18], [9, 64], [2, 100], [256, 1], [1, 256], [33, 3]] {
            let values: Vec<f64> = (0..height * width).map(|tap| (tap % 255 + 1) as f64).collect();
            let entry = kernel().unwrap();
            let shape = Shape::of(entry, [1, height, width]);
            let table = shape.table(&values);
            assert_eq!(table.len() * 4, shape.table_bytes());
            assert!(shape.table_bytes() <= most_table_bytes(height * width), "{height}x{width}");
            for (row, lane, chunk, half) in (0..height + 2)
                .flat_map(|row| (0..32).map(move |lane| (row, lane)))
                .flat_map(|(row, lane)| (0..shape.chunks()).map(move |chunk| (row, lane, chunk)))
                .flat_map(|(row, lane, chunk)| [0, 1].map(|half| (row, lane, chunk, half)))
            {
                let (g, t) = (lane / 4, lane % 4);
                let first = (32 - g) % 4 * shape.apart() + 4 + t - g.div_ceil(4);
                let word = table[row * COPIES * shape.apart() + first + 4 * chunk - 2 * half];
                let expected = [0, 1, 2, 3].map(|byte| {
                    let column = (16 * chunk + 4 * t + byte) as i64 - (g + 8 * half) as i64;
                    match usize::try_from(column) {
                        Ok(column) if column < width && row < height => values[row * width + column] as u8,
                        Ok(column) if column < width => u8::from(row > height),
                        _ => 0,
                    }
                });
                assert_eq!(word.to_le_bytes(), expected, "{height}x{width}: {row}, {lane}, {chunk}, {half}");
            }
        }
    }

    #[test]
    fn blocks_have_room_for_templates_of_64_rows_everywhere() {
        let device = |capability| Device {
            index: 0,
            name: "a device".into(),
            capability,
            multiprocessors: 50,
            f32_per_f64: 2,
            memory: 8 << 30,
        };
        let lacks = |entry, [height, width]: [usize; 2], capability| {
            lacking(entry, [1, height, width], &[device((9, 0)), device(capability)])
        };
        let entry = kernel().unwrap();
        for capability in [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)] {
            assert_eq!(lacks(entry, [64, 64], capability), None, "{capability:?}");
        }
        let reason = lacks(entry, [16, 16], (7, 5)).unwrap();
        assert!(reason.contains("compute capability 8.0 or more, a device has 7.5"), "{reason}");
        let reason = lacks(entry, [256, 32], (8, 6)).unwrap();
        assert!(reason.starts_with("a template of 256x32 needs ") && reason.ends_with("has 101376"), "{reason}");
        assert!(holds([1, 256, 32]) && holds([1, 1, 256]));
        assert!(!holds([1, 257, 9]) && !holds([1, 9, 257]) && !holds([1, 100, 100]));
        assert!(!holds([2, 9, 9]));
    }
}
