//! The direct method for bytes: images and templates of u8, exact sums of products, four taps at a time or by tiles
//! (`amx.rs`).
//!
//! The instructions add products of unsigned with signed bytes. Taps are taken as they are and samples less 128, which
//! is one bit turned; what that takes from a sum is 128 times the sum of the taps, the [bias](ByteTaps), where the
//! accumulators begin. A tile's samples are gathered with that bit turned ([`crate::cpu::gather::bytes`]): a quarter of
//! what f32 takes, so they stay in the cache, and every boundary and stride is served the same way.
//!
//! Sums are of 32 bits modulo `2^32`; they come out right where the true sum is below `2^31` ([`MOST_TAPS`]), whatever
//! happens on the way.

use crate::cpu::aligned::Aligned;
use crate::cpu::bands::Bands;
use crate::cpu::engine::{Channels, Cross, Engine, Expected, Most, Pitches};
use crate::cpu::in_place::InPlace;
use crate::cpu::kernels::form::Form;
use crate::cpu::kernels::kernel::{BoundBytes, Kernel};
use crate::cpu::kernels::operands::{ByteTile, GROUP};
use crate::cpu::kernels::table;
use crate::cpu::memory::Memory;
use crate::cpu::slab;
use crate::isa::{IsaSet, Vectors};
use crate::problem::error_model::{Figures, Rounding};
use crate::problem::factor::FactorError;
use crate::run::geometry::{Pitch, Samples};
use crate::run::results::Rows;

/// The most taps of a template: `255 * 255` times as many is below `2^31`.
pub const MOST_TAPS: usize = i32::MAX as usize / (255 * 255);

/// A template as a kernel takes it.
pub struct ByteTaps {
    groups: Aligned<[u8; GROUP]>,
    bias: i32,
}

impl ByteTaps {
    /// A template of values that are integers from 0 to 255.
    fn new(values: &[f64], form: &Form) -> ByteTaps {
        let mut groups = Aligned::new([0; GROUP], form.groups());
        match form {
            Form::Rows([_, _, width]) => {
                for (row, groups) in values.chunks(*width).zip(groups.chunks_mut(width.div_ceil(GROUP))) {
                    row.iter().zip(groups.as_flattened_mut()).for_each(|(&tap, byte)| *byte = tap as u8);
                }
            }
            Form::Tiles(plot) => plot.lay(values, &mut groups),
        }
        let sum = values.iter().fold(0i32, |sum, &tap| sum.wrapping_add(i32::from(tap as u8)));
        ByteTaps { groups, bias: sum.wrapping_mul(128) }
    }
}

/// A kernel bound to this processor, for templates of one shape.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    kernel: BoundBytes,
    shape: [usize; 3],
}

/// The kernels for a template and outputs of one row or more, one for each instruction set that has some, the best set
/// first.
pub fn choices(template: [usize; 3], out: [usize; 3], isas: &IsaSet) -> impl Iterator<Item = &'static Kernel> {
    // What scores the sums is in vectors of floats as wide.
    let floats = Vectors::isa(isas).map(|isa| isa.row().vector_bytes);
    let served = move |kernel: &&Kernel| floats == Some(kernel.isa.row().vector_bytes);
    table::bytes(out[1] == 1 && template[1] == 1, isas).filter(served)
}

/// The samples of a tile and where its sums go.
pub struct ByteRun<'a> {
    /// Samples, as [`crate::cpu::gather::bytes`] gathers them.
    pub samples: &'a [i8],
    /// Their pitches.
    pub in_pitch: Pitch,
    /// Room for what the kernel makes of them first, [`Bytes::room`] long.
    pub room: &'a mut [i8],
    /// The tile's sums.
    pub out: &'a mut [f32],
    /// From one row of sums to the next.
    pub out_row: usize,
    /// From one plane of sums to the next.
    pub out_plane: usize,
    /// Outputs: these and no others are written.
    pub outputs: [usize; 3],
    /// Whether sums are written as the bits of `i32`.
    pub bits: bool,
}

impl Bytes {
    /// The engine for a kernel, if this processor has its instruction set.
    pub fn new(kernel: &'static Kernel, shape: [usize; 3], isas: &IsaSet) -> Option<Bytes> {
        Some(Bytes { kernel: BoundBytes::new(kernel, isas)?, shape })
    }

    /// The kernel.
    pub fn kernel(&self) -> &'static Kernel {
        self.kernel.kernel()
    }

    fn form(&self) -> Form {
        Form::of(self.kernel.kernel(), self.shape)
    }

    /// A template of values that are integers from 0 to 255.
    pub fn prepare(&self, values: &[f64]) -> ByteTaps {
        ByteTaps::new(values, &self.form())
    }

    /// Bytes of a template in the form of its kernel.
    pub fn taps_bytes(&self) -> usize {
        Aligned::<[u8; GROUP]>::bytes(self.form().groups())
    }

    /// Bytes that it needs beside the samples, for tiles of up to `out` outputs.
    pub fn room(&self, out: [usize; 3]) -> usize {
        self.form().room([out[0], out[1], out[2].next_multiple_of(self.kernel.kernel().lanes)])
    }

    /// Pitches of the samples of a tile of up to `out` outputs, with the kernel's slack.
    pub fn pitch(&self, out: [usize; 3]) -> Pitch {
        pitch(self.kernel.kernel(), self.shape, out)
    }

    /// The cross term of a tile: `out = sum P t`.
    pub fn run(&self, taps: &ByteTaps, run: ByteRun<'_>) {
        let ByteRun { samples, in_pitch, room, out, out_row, out_plane, outputs, bits } = run;
        self.kernel.run(&mut ByteTile {
            input: samples.as_chunks().0,
            in_row: in_pitch.row / GROUP,
            in_plane: in_pitch.plane / GROUP,
            template: &taps.groups,
            room,
            bias: taps.bias,
            kernel_shape: self.shape,
            out,
            out_row,
            out_plane,
            out_shape: outputs,
            bits,
        });
    }
}

impl Engine<f32> for Bytes {
    type Template = ByteTaps;
    /// What the kernel makes of the samples first.
    type Work = Aligned<i8>;

    fn pitches(&self, outputs: [usize; 3]) -> Pitches {
        // Who scores the sums takes the samples as floats, too.
        let (samples, cross) = slab::pitches(&[self.kernel()], self.shape, outputs);
        Pitches { samples, cross, bytes: Some(self.pitch(outputs)) }
    }

    fn work(&self, most: Most, memory: &mut Memory) -> Aligned<i8> {
        memory.aligned(0, self.room(most.outputs))
    }

    fn template_bytes(&self) -> usize {
        self.taps_bytes()
    }

    fn prepare(&self, values: &[f64], _mask: Option<&[f64]>) -> Result<ByteTaps, FactorError> {
        Ok(self.prepare(values))
    }

    fn rounding(
        &self,
        channels: Channels<'_>,
        _prepared: &mut dyn Iterator<Item = &ByteTaps>,
        _promised: bool,
    ) -> (Rounding, Figures) {
        // Exact integers: no panel's energy is in doubt.
        (Rounding::Direct { fused: true }, Figures::of(channels.iter()))
    }

    fn cross(&self, template: &ByteTaps, job: Cross<'_, f32>, work: &mut Aligned<i8>) {
        let Cross { bytes: samples, out, pitches, outputs, bits, .. } = job;
        let Some(in_pitch) = pitches.bytes else { return };
        // Whole vectors, as those who go on with them take them.
        let outputs = [outputs[0], outputs[1], outputs[2].next_multiple_of(16)];
        let Pitch { row: out_row, plane: out_plane, .. } = pitches.cross;
        self.run(template, ByteRun { samples, in_pitch, room: work, out, out_row, out_plane, outputs, bits });
    }

    fn bands<'a>(&self, _channel: usize, _outputs: [usize; 2], _work: &'a Aligned<i8>) -> Bands<'a> {
        Bands::Own
    }

    fn expected(&self) -> Option<Expected> {
        None
    }

    /// The samples are gathered first, and only those of what is asked for.
    fn in_place<'a>(
        &self,
        job: InPlace<'_, '_>,
        templates: &dyn Fn(usize) -> (&'a ByteTaps, &'a [f64]),
        work: &mut Aligned<i8>,
    ) -> Option<()> {
        let InPlace { image, tile, samples: whole, template, room, rows, .. } = job;
        let (buffer, in_pitch) = (room.bytes, room.byte_pitch?);
        let outputs = tile.keep.map(|(from, to)| to - from);
        let part = Samples {
            begin: [0, 1, 2].map(|axis| whole.begin[axis] + tile.keep[axis].0 as isize),
            len: [0, 1, 2].map(|axis| outputs[axis] + template[axis] - 1),
        };
        let mut gathered = false;
        for number in 0..job.templates {
            for z in 0..outputs[0] {
                let Rows { out, pitch: out_row, .. } =
                    rows(number, [tile.place[0] + z, tile.place[1], tile.place[2]], 1)?;
                if !gathered {
                    image.bytes(part, buffer, in_pitch)?;
                    gathered = true;
                }
                let samples = &buffer[z * in_pitch.plane..];
                let outputs = [1, outputs[1], outputs[2]];
                let run =
                    ByteRun { samples, in_pitch, room: &mut *work, out, out_row, out_plane: 0, outputs, bits: false };
                self.run(templates(number).0, run);
            }
        }
        Some(())
    }
}

fn pitch(kernel: &Kernel, shape: [usize; 3], out: [usize; 3]) -> Pitch {
    let [depth, height, width] = kernel.rounded(out);
    let row = Form::of(kernel, shape).reach(width).next_multiple_of(64);
    // Rows a page apart evict each other.
    let row = if row.is_multiple_of(2048) { row + 64 } else { row };
    let rows = height + shape[1] - 1;
    Pitch { row, plane: row * rows, rows, planes: depth + shape[0] - 1 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cpu::kernels::kernel::Widths;
    use crate::isa::{self, Isa};

    /// A kernel, and what runs a tile as it would.
    pub(crate) struct Subject<'a> {
        pub kernel: &'static Kernel,
        pub run: &'a dyn Fn(&mut ByteTile<'_>),
    }

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) % n as u64) as usize
        }
    }

    /// What the samples and taps of a case are.
    #[derive(Clone, Copy, Debug)]
    enum Fill {
        Random,
        /// The largest sums.
        All255,
        /// Zeros, which are -128 to the kernel, under the largest taps.
        Dark,
        /// Samples and taps 0 or 255.
        Extremes,
    }

    impl Fill {
        fn sample(self, random: &mut Random) -> u8 {
            match self {
                Fill::Random => random.below(256) as u8,
                Fill::All255 => 255,
                Fill::Dark => 0,
                Fill::Extremes => 255 * random.below(2) as u8,
            }
        }

        fn tap(self, random: &mut Random) -> u8 {
            match self {
                Fill::Dark => 255,
                _ => self.sample(random),
            }
        }
    }

    /// Runs a kernel on a case and compares it with a plain loop in integers. Bytes that may be read and must not
    /// matter, and places that must not be written, are poisoned.
    fn check(subject: &Subject<'_>, shape: [usize; 3], outputs: [usize; 3], fill: Fill, seed: u64) {
        let mut random = Random(seed);
        let kernel = subject.kernel;
        let form = Form::of(kernel, shape);
        let mut pitch = pitch(kernel, shape, outputs);
        pitch.row += GROUP * random.below(3);
        pitch.plane = pitch.rows * pitch.row + GROUP * random.below(3);
        let ([kd, kh, kw], [depth, height, width]) = (shape, outputs);
        let (out_row, samples) = (width + random.below(5), [depth + kd - 1, height + kh - 1, width + kw - 1]);
        let out_plane = height * out_row + 1 + random.below(5);
        let mut input: Vec<i8> = (0..pitch.elements()).map(|_| random.below(256) as u8 as i8).collect();
        let mut image = vec![0u8; samples.iter().product()];
        for (at, pixel) in image.iter_mut().enumerate() {
            let [z, y, x] = [at / (samples[1] * samples[2]), at / samples[2] % samples[1], at % samples[2]];
            *pixel = fill.sample(&mut random);
            input[z * pitch.plane + y * pitch.row + x] = (*pixel ^ 0x80) as i8;
        }
        let template: Vec<f64> = (0..kd * kh * kw).map(|_| fill.tap(&mut random).into()).collect();
        let mut out = vec![f32::NAN; depth * out_plane + 7];
        let bits = seed.is_multiple_of(3);
        let mut room: Vec<i8> = (0..form.room(outputs)).map(|_| random.below(256) as u8 as i8).collect();
        let taps = ByteTaps::new(&template, &form);
        (subject.run)(&mut ByteTile {
            input: input.as_chunks().0,
            in_row: pitch.row / GROUP,
            in_plane: pitch.plane / GROUP,
            template: &taps.groups,
            room: &mut room,
            bias: taps.bias,
            kernel_shape: shape,
            out: &mut out,
            bits,
            out_row,
            out_plane,
            out_shape: outputs,
        });
        for (at, &got) in out.iter().enumerate() {
            let [z, y, x] = [at / out_plane, at % out_plane / out_row, at % out_plane % out_row];
            if z >= depth || y >= height || x >= width {
                assert!(got.is_nan(), "{shape:?} {outputs:?} {fill:?}: wrote out[{at}], which is no output");
                continue;
            }
            let want: i64 = template
                .iter()
                .enumerate()
                .map(|(tap, &value)| {
                    let [dz, i, j] = [tap / (kh * kw), tap / kw % kh, tap % kw];
                    value as i64 * i64::from(image[((z + dz) * samples[1] + y + i) * samples[2] + x + j])
                })
                .sum();
            let want = if bits { f32::from_bits(want as u32) } else { want as f32 };
            assert_eq!(
                got.to_bits(),
                want.to_bits(),
                "{} {shape:?} {outputs:?} {fill:?}: out[{z}, {y}, {x}]",
                kernel.name
            );
        }
    }

    /// Shapes of templates: for rows of outputs, for one row, and what fills windows of tiles or is one tap too wide.
    const BLOCKS: [[usize; 3]; 8] =
        [[1, 1, 1], [1, 2, 5], [3, 3, 3], [1, 6, 1], [2, 5, 9], [1, 8, 8], [1, 33, 33], [1, 7, 40]];
    const LINES: [[usize; 3]; 5] = [[1, 1, 1], [1, 1, 4], [1, 1, 7], [2, 3, 9], [1, 1, 200]];
    const TILES: [[usize; 3]; 10] = [
        [1, 9, 13],
        [2, 3, 14],
        [1, 4, 25],
        [1, 5, 26],
        [2, 2, 49],
        [1, 3, 50],
        [1, 64, 64],
        [3, 1, 70],
        [1, 1, 49],
        [1, 1, 50],
    ];

    /// The test of a kernel.
    pub(crate) fn conforms(subject: &Subject<'_>) {
        let shapes = match subject.kernel.width {
            _ if subject.kernel.isa == Isa::Amx => [&BLOCKS[..], &LINES, &TILES].concat(),
            Widths::AnyLine => LINES.to_vec(),
            _ => BLOCKS.to_vec(),
        };
        let mut seed = 1;
        for shape in shapes {
            for outputs in
                [[1, 1, 1], [1, 6, 64], [1, 7, 65], [2, 11, 63], [1, 3, 130], [1, 26, 17], [1, 1, 600], [1, 0, 5]]
            {
                for fill in [Fill::Random, Fill::All255, Fill::Dark, Fill::Extremes] {
                    seed += 1;
                    check(subject, shape, outputs, fill, seed);
                }
            }
        }
    }

    /// The test of a kernel of the table, which this processor runs.
    pub(crate) fn bound_conforms(bound: &BoundBytes) {
        conforms(&Subject { kernel: bound.kernel(), run: &|tile| bound.run(tile) });
    }

    /// The largest sum that a template may have is still an `i32`.
    #[test]
    fn the_largest_template_does_not_overflow() {
        assert!(
            MOST_TAPS as i64 * 255 * 255 <= i64::from(i32::MAX)
                && (MOST_TAPS as i64 + 1) * 255 * 255 > i64::from(i32::MAX)
        );
        let isas = isa::detect();
        let mut bounds =
            choices([1, 3, 3], [1, 9, 9], &isas).filter_map(|kernel| BoundBytes::new(kernel, &isas)).peekable();
        if bounds.peek().is_none() {
            return eprintln!("absent: no instruction set with kernels of bytes");
        }
        let shape = [1, MOST_TAPS / 127, 127];
        for bound in bounds {
            let subject = Subject { kernel: bound.kernel(), run: &|tile| bound.run(tile) };
            check(&subject, shape, [1, 2, 3], Fill::All255, 1);
            check(&subject, shape, [1, 2, 3], Fill::Dark, 2);
        }
    }

    #[test]
    fn a_tile_that_does_not_fit_is_told_why() {
        let Some(kernel) = table::kernels().iter().find(|kernel| kernel.name == "corr_u8_any_avx512vnni") else {
            return;
        };
        let misfit = |change: fn(&mut ByteTile<'_>)| {
            let (input, template, mut out) = (vec![[0; 4]; 7 * 20 + 17], vec![[0; 4]; 3], vec![0.0; 18]);
            let mut tile = ByteTile {
                input: &input,
                in_row: 20,
                in_plane: 0,
                template: &template,
                room: &mut [],
                bias: 0,
                kernel_shape: [1, 3, 3],
                out: &mut out,
                out_row: 10,
                out_plane: 0,
                out_shape: [1, 2, 8],
                bits: false,
            };
            assert_eq!(tile.check(kernel), Ok(()));
            change(&mut tile);
            tile.check(kernel).expect_err("a misfit").to_string()
        };
        let needs = "corr_u8_any_avx512vnni needs";
        assert_eq!(
            misfit(|tile| tile.input = &tile.input[1..]),
            format!("{needs} an input slice of at least 157, got 156")
        );
        assert_eq!(
            misfit(|tile| tile.out_row = 7),
            format!("{needs} an output row pitch of at least the width, 8, got 7")
        );
        assert_eq!(misfit(|tile| tile.out_row = 11), format!("{needs} an output slice of at least 19, got 18"));
        assert_eq!(
            misfit(|tile| tile.kernel_shape[1] = 0),
            format!("{needs} a side of the template of at least 1, got 0")
        );
        let groups = misfit(|tile| tile.kernel_shape[2] = 5);
        assert_eq!(groups, format!("{needs} as many groups of taps as its shape has, 6, got 3"));
    }
}
