//! Which kernels are generated, and with what blocks and patches. The one hand-edited list of the CUDA side.

use flcc_core::dtype::DType;
use flcc_core::key::KernelKey;
use flcc_core::runs::{self, Run, Steps, Together};
use flcc_core::sizes;

use crate::templates::{LARGE, LIBRARY, LINE, MMA, PAIRS, SCORES, SEPARABLE, TILE, VOLUME};

/// Most multiply-adds (or dot products of four) of one thread that a kernel's text unrolls. An instruction takes 16
/// bytes, so this is 16 KB of loop: beyond it the instruction cache decides, and a 16x16 kernel with 64 KB of loop is a
/// quarter slower.
pub const MAX_UNROLLED: usize = 1024;

/// The types of samples that kernels compute in. Others are converted when samples are loaded.
pub const TYPES: [DType; 3] = [DType::F32, DType::F64, DType::U8];

/// Products that a kernel for any size adds up before their sum goes to a subtotal, and one of lines.
pub const RUN: usize = 16;

/// What a kernel sums over the taps of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `P t`.
    Corr,
    /// `w |P - t|`.
    Sad,
    /// `P w t`, `P w` and `P P w`, three results.
    Masked,
    /// `P t`, `P` and `P P`, and the score that they make.
    Zncc,
    /// `P t`, by templates that are a sum of products of lines.
    Separable,
    /// `P t`, by transforms of 64x64 samples.
    Tile64,
    /// `P t`, by transforms of 128x128 samples.
    Tile128,
    /// `P t`, by transforms of 256x256 samples, in kernels for rows and for columns.
    Tile256,
    /// The same, by transforms of 512x512 samples.
    Tile512,
    /// The same, by transforms of 1024x1024 samples.
    Tile1024,
    /// `P t` of volumes, by transforms of 16x32x32 samples.
    Volume,
    /// zncc of volumes, by transforms of 16x32x32 samples.
    Zncc32,
    /// `P t` of signals, by transforms of 4096 samples.
    Line4096,
    /// The same, by transforms of 16384 samples.
    Line16384,
    /// `P t` of images that have a template of their own each, by transforms of rows of 64 samples.
    Pairs64,
    /// The same, by transforms of rows of 128 samples.
    Pairs128,
    /// Scores, by transforms of 64x64 samples.
    Zncc64,
    /// Scores, by transforms of 128x128 samples.
    Zncc128,
    /// Scores, by transforms of 256x256 samples, in kernels for rows and for columns.
    Zncc256,
    /// The same, by transforms of 512x512 samples.
    Zncc512,
    /// The same, by transforms of 1024x1024 samples.
    Zncc1024,
    /// Scores of bytes on tensor cores.
    ZnccMma,
    /// `P t`, by a library's transforms of a whole image, which this stands around.
    Whole,
}

impl Op {
    /// Its word in names.
    pub fn name(self) -> &'static str {
        match self {
            Op::Corr => "corr",
            Op::Sad => "sad",
            Op::Masked => "masked",
            Op::Zncc => "zncc",
            Op::Separable => "separable",
            Op::Tile64 => "tile64",
            Op::Tile128 => "tile128",
            Op::Tile256 => "tile256",
            Op::Tile512 => "tile512",
            Op::Tile1024 => "tile1024",
            Op::Volume => "volume32",
            Op::Zncc32 => "zncc32",
            Op::Line4096 => "line4096",
            Op::Line16384 => "line16384",
            Op::Pairs64 => "pairs64",
            Op::Pairs128 => "pairs128",
            Op::Zncc64 => "zncc64",
            Op::Zncc128 => "zncc128",
            Op::Zncc256 => "zncc256",
            Op::Zncc512 => "zncc512",
            Op::Zncc1024 => "zncc1024",
            Op::ZnccMma => "znccmma",
            Op::Whole => "whole",
        }
    }

    /// Whether it is computed by transforms.
    pub fn transforms(self) -> bool {
        matches!(self, Op::Tile64 | Op::Tile128 | Op::Volume | Op::Zncc32 | Op::Zncc64 | Op::Zncc128)
            || self.is_large()
            || self.is_pairs()
            || self.is_line()
    }

    /// Whether tiles are transformed that no block has room for, in kernels for rows and for columns.
    pub fn is_large(self) -> bool {
        self.sums_of_large() != self || matches!(self, Op::Tile256 | Op::Tile512 | Op::Tile1024)
    }

    /// Of scores by such transforms the sums whose source theirs follows; of the others the operation itself.
    fn sums_of_large(self) -> Op {
        match self {
            Op::Zncc256 => Op::Tile256,
            Op::Zncc512 => Op::Tile512,
            Op::Zncc1024 => Op::Tile1024,
            other => other,
        }
    }

    /// Whether it adds up products one after the other.
    pub fn adds_products(self) -> bool {
        !self.transforms() && !matches!(self, Op::Separable | Op::Whole)
    }

    /// Whether signals are transformed.
    pub fn is_line(self) -> bool {
        matches!(self, Op::Line4096 | Op::Line16384)
    }

    /// Whether each image has a template of its own.
    pub fn is_pairs(self) -> bool {
        matches!(self, Op::Pairs64 | Op::Pairs128)
    }

    /// Whether it is computed on tensor cores, by a kernel that is compiled for the template's sides. Such a kernel
    /// lists no size and yet has no chunk of taps, unlike the others that serve any size: it has a template of its own,
    /// takes all taps from a table, and makes scores.
    pub fn is_tensor(self) -> bool {
        self == Op::ZnccMma
    }
}

/// One kernel to render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it computes.
    pub op: Op,
    /// The type of samples and template.
    pub dtype: DType,
    /// The template's sides, one to three, slowest axis first; empty: any.
    pub sides: Vec<usize>,
    /// Threads of a block: rows, columns.
    pub block: [usize; 2],
    /// Outputs of one thread: rows, columns. Columns are a multiple of 4. Of a transform its numbers.
    pub patch: [usize; 2],
}

/// The kernels of one rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// In any order; a name comes once.
    pub kernels: Vec<Kernel>,
}

impl Matrix {
    /// What the repository holds: direct correlation and zncc in each of [`TYPES`] for the [`lines`], [`squares`] and
    /// [`cubes`]; direct correlation for any size, with tiles of one row too; absolute differences and masked sums for
    /// any size, in f64, which holds their integers exactly; correlation and zncc by transforms of tiles and volumes,
    /// correlation of signals and of pairs, and what a library's transforms need, in f32; correlation by products of
    /// lines, in f32 and f64; zncc of bytes on tensor cores.
    pub fn committed() -> Matrix {
        let mut kernels = Vec::new();
        for dtype in TYPES {
            kernels.extend(lines().map(|length| line(dtype, vec![length])));
            kernels.extend(squares().map(|side| direct(dtype, vec![side; 2])));
            kernels.extend(cubes().map(|side| direct(dtype, vec![side; 3])));
        }
        let fused: Vec<Kernel> = kernels.iter().map(|kernel| Kernel { op: Op::Zncc, ..kernel.clone() }).collect();
        kernels.extend(fused);
        kernels.extend(TYPES.into_iter().flat_map(|dtype| [direct(dtype, Vec::new()), line(dtype, Vec::new())]));
        for op in [Op::Sad, Op::Masked] {
            // Three sums of a patch, each in runs, subtotals and totals, leave room for two rows.
            let patch = if op == Op::Masked { [2, 4] } else { [4, 4] };
            let plane = Kernel { patch, ..direct(DType::F64, Vec::new()) };
            kernels.extend([plane, line(DType::F64, Vec::new())].map(|kernel| Kernel { op, ..kernel }));
        }
        let tile = |op, block, patch| Kernel { op, dtype: DType::F32, sides: Vec::new(), block, patch };
        for (small, large) in [(Op::Tile64, Op::Tile128), (Op::Zncc64, Op::Zncc128)] {
            kernels.extend([tile(small, [16, 16], [4, 4]), tile(large, [32, 16], [4, 8])]);
        }
        // Rows of a block and threads of a row; rows of a transform for one of these, and numbers of a thread.
        for (ops, block, patch) in [
            ([Op::Tile256, Op::Zncc256], [16, 16], [16, 16]),
            ([Op::Tile512, Op::Zncc512], [16, 16], [32, 32]),
            ([Op::Tile1024, Op::Zncc1024], [8, 32], [128, 32]),
        ] {
            kernels.extend(ops.map(|op| tile(op, block, patch)));
        }
        // Two halves of a block's rows, and the columns of a transform; a thread has 13 outputs of a column at a time.
        kernels.extend([(Op::Pairs64, 64), (Op::Pairs128, 128)].map(|(op, length)| tile(op, [2, length], [13, 1])));
        kernels.extend([tile(Op::Line4096, [1, 256], [1, 16]), tile(Op::Line16384, [1, 512], [1, 32])]);
        // Rows and columns of a plane of a transform; of its 16 planes a thread has two.
        kernels.extend([Op::Volume, Op::Zncc32].map(|op| tile(op, [16, 32], [2, 1])));
        kernels.push(tile(Op::Whole, [1, 256], [8, 2]));
        // A thread has outputs of one column; in f64 half as many, since each takes two registers.
        kernels.extend(
            [(DType::F32, 16), (DType::F64, 8)]
                .map(|(dtype, rows)| Kernel { dtype, ..tile(Op::Separable, [4, 64], [rows, 1]) }),
        );
        // Warps of a row of threads each, whose lanes have 8 outputs of a row.
        kernels.push(Kernel { op: Op::ZnccMma, dtype: DType::U8, sides: Vec::new(), block: [8, 32], patch: [4, 8] });
        Matrix { kernels }
    }
}

/// The lengths of [`sizes::lines`], all of them.
pub fn lines() -> impl Iterator<Item = usize> {
    sizes::lines()
}

/// The sides of [`sizes::squares`], all of them: even where rows are rolled (see [`MAX_UNROLLED`]), a kernel for the
/// size takes 0.4 of the time of the one for any (H200, 2000x2000, us: f32 17x17 59 and 147, 28x28 132 and 324; u8 31
/// and 63, 65 and 114).
pub fn squares() -> impl Iterator<Item = usize> {
    sizes::squares()
}

/// The sides of [`sizes::cubes`] that have a source of their own: those whose planes are unrolled whole.
pub fn cubes() -> impl Iterator<Item = usize> {
    sizes::cubes().filter(|side| *side <= 8)
}

/// The direct correlation of a type and size, with the block and the patch that measurements favour.
fn direct(dtype: DType, sides: Vec<usize>) -> Kernel {
    let large = sides.last().is_some_and(|width| *width >= 12);
    // 4x4 outputs a thread are enough for small templates. From 12 on an f32 thread takes 4x8: a row read from shared
    // memory then serves twice as many multiply-adds, which shared memory would else hold back. 16 threads a row keep
    // the tile under 48 KB; so they do for f64, whose instructions take twice as long and wait for shared memory less.
    let (patch, columns) = match dtype {
        DType::F32 if large => ([4, 8], 16),
        DType::F64 => ([4, 4], 16),
        _ => ([4, 4], 32),
    };
    // Few rows for volumes in f32, whose planes are small, so that there are blocks for all multiprocessors (H200,
    // 100x100x100, from image to result, us with 8, 4 and 2 rows: 2^3 14.1, 11.9, 8.8; 3^3 19.9, 16.9, 13.2; 4^3 26.1,
    // 23.2, 20.3; 5^3 37.1, 34.6, 35.7; 6^3 49.9, 49.1, 51.2; 8^3 85.3, 82.3, 87.1).
    let rows = match (dtype, &sides[..]) {
        (DType::F32, [depth, _, _]) if *depth <= 4 => 2,
        (DType::F32, [_, _, _]) => 4,
        _ => 8,
    };
    Kernel { op: Op::Corr, dtype, sides, block: [rows, columns], patch }
}

/// The direct correlation of a signal: one row, so a wide patch is what reuses a window.
fn line(dtype: DType, sides: Vec<usize>) -> Kernel {
    Kernel { op: Op::Corr, dtype, sides, block: [1, 128], patch: [1, 8] }
}

impl Kernel {
    /// Its one name, in parts.
    pub fn key(&self) -> KernelKey {
        let sides: Vec<String> = self.sides.iter().map(usize::to_string).collect();
        KernelKey {
            op: self.op.name().into(),
            dtype: self.dtype.name().into(),
            size: if sides.is_empty() { "any".into() } else { sides.join("x").into() },
            target: format!("b{}x{}", self.block[1], self.block[0]).into(),
            tile: "".into(),
        }
    }

    /// Its one name.
    pub fn name(&self) -> String {
        self.key().to_string()
    }

    /// The template it is rendered from; `None`: its text is that of the direct correlation of its size, followed by
    /// what makes scores.
    pub fn template(&self) -> Option<&'static str> {
        match (self.op, &self.sides[..]) {
            (Op::Zncc, _) => None,
            (op, _) if op.is_large() => (op.sums_of_large() == op).then_some(LARGE),
            (Op::Tile64 | Op::Tile128, _) => Some(TILE),
            (Op::Volume, _) => Some(VOLUME),
            (Op::Zncc32 | Op::Zncc64 | Op::Zncc128, _) => Some(SCORES),
            (Op::Whole, _) => Some(LIBRARY),
            (Op::Separable, _) => Some(SEPARABLE),
            (op, _) if op.is_line() => Some(LINE),
            (op, _) if op.is_pairs() => Some(PAIRS),
            (op, _) if op.is_tensor() => Some(MMA),
            (_, []) => Some("generic.cu.tera"),
            _ => Some("kernel.cu.tera"),
        }
    }

    /// The name of its function.
    pub fn function(&self) -> String {
        match self.op {
            Op::Zncc => "flcc_zncc".into(),
            op if op.sums_of_large() != op => "flcc_rows_there".into(),
            _ => self.name(),
        }
    }

    /// The files that make its source, one after another, below `cuda/`.
    pub fn files(&self) -> Vec<String> {
        let own = Kernel { op: if self.op == Op::Zncc { Op::Corr } else { self.op.sums_of_large() }, ..self.clone() };
        let mut files = vec![format!("{}.cu", own.name())];
        if own.op != self.op {
            files.push(if self.op == Op::Zncc { "zncc.cu" } else { "large_scores.cu" }.into());
        }
        files
    }

    /// Whether a kernel from the image to the result follows its source.
    pub fn goes_straight(&self) -> bool {
        self.op == Op::Corr && self.dtype != DType::U8 && !self.sides.is_empty()
    }

    /// Warps of a block of that kernel, where each takes samples from memory on its own; 0: threads of a block share
    /// them. Planes of up to 7x7 and volumes of up to 4x4x4 leave registers for it (H200, us: 2000x2000*3x3 10.6 for
    /// 15.9, 5x5 13.4 for 18.3, 7x7 17.9 for 22.6; 8x8 would spill, blocks of 8 warps take 0.5 more).
    pub fn warps(&self) -> usize {
        match self.sides[..] {
            _ if !self.goes_straight() || self.dtype != DType::F32 => 0,
            [height, _] if height <= 7 => 4,
            [depth, _, _] if depth <= 4 => self.block[0],
            _ => 0,
        }
    }

    /// Depth, height and width of its templates; `None`: any.
    pub fn size(&self) -> Option<[usize; 3]> {
        match self.sides[..] {
            [width] => Some([1, 1, width]),
            [height, width] => Some([1, height, width]),
            [depth, height, width] => Some([depth, height, width]),
            _ => None,
        }
    }

    /// Outputs of a block: rows, columns; of a transform its samples.
    pub fn tile(&self) -> [usize; 2] {
        [self.block[0] * self.patch[0], self.block[1] * self.patch[1]]
    }

    /// Rows and columns of taps that a kernel of any size holds in shared memory. A sum of that many products of bytes
    /// fits 32 bits.
    pub fn chunk(&self) -> [usize; 2] {
        if self.tile()[0] == 1 { [1, 256] } else { [16, 16] }
    }

    /// The C type of its results. A listed sum of bytes fits 32 bits.
    pub fn c_out(&self) -> &'static str {
        match self.dtype {
            // They make scores, though their samples are bytes and they list no size: that goes before the rows below.
            _ if self.op.is_tensor() => "float",
            DType::U8 if self.sides.is_empty() => "unsigned long long",
            DType::U8 => "unsigned",
            other => other.row().c_name,
        }
    }

    /// Instructions that one template row costs a thread.
    fn row_cost(&self, width: usize) -> usize {
        let taps = if self.dtype == DType::U8 { width.div_ceil(4) } else { width };
        self.patch[0] * self.patch[1] * taps
    }

    /// How many template rows the text unrolls: all of a plane where [`MAX_UNROLLED`] allows, else two, else one.
    pub fn unrolled_rows(&self) -> Option<usize> {
        let [_, height, width] = self.size()?;
        // Of rows that long in f64 two at a time spill on sm_100.
        if self.dtype == DType::F64 && height > 1 && width > 28 {
            return Some(1);
        }
        let cost = self.row_cost(width);
        Some([height, 2.min(height)].into_iter().find(|rows| rows * cost <= MAX_UNROLLED).unwrap_or(1))
    }

    /// How it takes products together; `None` for any size.
    pub fn together(&self) -> Option<Together> {
        let [depth, height, width] = self.size()?;
        if self.dtype == DType::U8 || depth * height * width <= RUN {
            return Some(Together::default());
        }
        // Scores in f64 have no registers for a sum apart, but along lines.
        let scores = self.op == Op::Zncc && self.dtype == DType::F64;
        if scores && depth > 4 {
            return Some(Together::default());
        }
        // Lines are cut; rows of 32 taps and fewer are not, for there are as many of them.
        let run = if height == 1 { RUN } else { width };
        // One sum for all rows does up to 15x15, and up to 4x4x4.
        let rows = if depth == 1 && height > 15 && !scores { 8 } else { 0 };
        Some(Together { run, rows, planes: depth > 4 })
    }

    /// Products that it adds up before their sum goes on, where it serves any size. Of lines in f64 fewer: a thread
    /// keeps as many elements, and has no registers for those of 16.
    pub fn run(&self) -> usize {
        if self.op == Op::Separable && self.dtype == DType::F64 { RUN / 2 } else { RUN }
    }

    /// The runs in which it adds up products of a template of this depth, height and width.
    pub fn runs(&self, template: [usize; 3]) -> Vec<Run> {
        let steps = Steps { chunk: self.chunk(), step: self.patch[1], run: self.run() };
        self.together().map_or_else(|| steps.runs(template), |together| together.runs(template))
    }

    /// The most roundings that a product goes through on its way into a sum over a template, its own included. Bytes
    /// are exact.
    pub fn chain(&self, template: [usize; 3]) -> usize {
        runs::roundings(&self.runs(template)).into_iter().max().unwrap_or(0) as usize
    }

    /// Elements between the rows of the template that is copied to the kernel's constant memory; bytes fill whole
    /// words.
    pub fn taps_stride(&self) -> Option<usize> {
        let [_, _, width] = self.size()?;
        Some(if self.dtype == DType::U8 { width.next_multiple_of(4) } else { width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str) -> Kernel {
        Matrix::committed().kernels.into_iter().find(|kernel| kernel.name() == name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn the_shared_memory_of_every_device_suffices() {
        // 64 KB for a block are there from compute capability 7.5 on.
        for kernel in Matrix::committed().kernels {
            let shared = kernel.shared();
            assert_eq!(shared > 0, kernel.op == Op::Zncc || kernel.op.transforms());
            // The larger transform, and scores by transforms, are for devices that have more.
            let large = matches!(kernel.op, Op::Tile128 | Op::Volume | Op::Line16384 | Op::Zncc32 | Op::Zncc128);
            assert!(shared <= 64 << 10 || large, "{}: {shared}", kernel.name());
        }
    }

    #[test]
    fn small_templates_are_unrolled_whole_and_large_ones_by_rows() {
        assert_eq!(kernel("corr_f32_7x7_b32x8").unrolled_rows(), Some(7));
        assert_eq!(kernel("corr_f32_11x11_b32x8").unrolled_rows(), Some(2));
        assert_eq!(kernel("corr_f32_16x16_b16x8").unrolled_rows(), Some(2));
        assert_eq!(kernel("corr_f32_32x32_b16x8").unrolled_rows(), Some(1));
        assert_eq!(kernel("corr_u8_16x16_b32x8").unrolled_rows(), Some(16));
        assert_eq!(kernel("corr_f64_64_b128x1").unrolled_rows(), Some(1));
        assert_eq!(kernel("corr_f32_any_b32x8").unrolled_rows(), None);
        assert!(
            cubes().all(|side| kernel(&format!("corr_f64_{side}x{side}x{side}_b16x8")).unrolled_rows() == Some(side))
        );
    }

    #[test]
    fn a_listed_sum_of_bytes_fits_32_bits() {
        let taps = |kernel: Kernel| kernel.sides.iter().product::<usize>() as u64;
        assert!(Matrix::committed().kernels.into_iter().all(|kernel| taps(kernel) * 255 * 255 <= u64::from(u32::MAX)));
    }

    /// Section 7 of the conventions grants `16 + sqrt(taps)` roundoffs, one of them for a sample and one for a tap that
    /// were rounded. No sum is shown of those that scores in f64 are made of in one kernel: there the doubt counts on
    /// what they go through.
    #[test]
    fn no_product_goes_through_more_roundings_than_are_granted() {
        let granted = |template: [usize; 3]| flcc_core::blocks::granted(template.iter().product());
        let scores = |kernel: &Kernel| kernel.op == Op::Zncc && kernel.dtype == DType::F64;
        for kernel in Matrix::committed()
            .kernels
            .into_iter()
            .filter(|kernel| kernel.dtype != DType::U8 && !scores(kernel) && kernel.op.adds_products())
        {
            let sizes: Vec<[usize; 3]> = match kernel.size() {
                Some(size) => vec![size],
                None if kernel.chunk()[0] == 1 => (1..=3000)
                    .map(|width| [1, 1, width])
                    .chain([[1, 1, 123_456], [30, 1, 7], [40, 1, 300], [300, 1, 1]])
                    .collect(),
                None => {
                    let few = (1..=5).flat_map(|d| (1..=36).flat_map(move |h| (1..=36).map(move |w| [d, h, w])));
                    few.chain([
                        [300, 1, 1],
                        [200, 3, 2],
                        [1, 300, 1],
                        [1, 1, 300],
                        [1, 400, 500],
                        [1, 1024, 1023],
                        [100, 100, 100],
                        [3, 17, 1000],
                    ])
                    .collect()
                }
            };
            for size in sizes {
                let (chain, granted) = (kernel.chain(size), granted(size));
                assert!(chain <= granted, "{} of {size:?}: {chain} of {granted}", kernel.name());
            }
        }
    }

    #[test]
    fn scores_in_f64_add_up_longer() {
        let chain = |name: &str| kernel(name).chain(kernel(name).size().unwrap());
        assert_eq!(["zncc_f64_64_b128x1", "zncc_f64_15x15_b16x8", "zncc_f64_4x4x4_b16x8"].map(chain), [19, 29, 19]);
        assert_eq!(["zncc_f64_16x16_b16x8", "zncc_f64_32x32_b16x8"].map(chain), [31, 63]);
        assert_eq!(["zncc_f64_5x5x5_b16x8", "zncc_f64_8x8x8_b16x8"].map(chain), [125, 512]);
        // Those of the cross term alone, and scores in f32, have subtotals.
        assert_eq!(["corr_f64_32x32_b16x8", "zncc_f32_32x32_b16x8"].map(chain), [42, 42]);
        assert_eq!(["corr_f64_8x8x8_b16x8", "zncc_f32_8x8x8_b32x4"].map(chain), [22, 22]);
    }

    #[test]
    fn names_are_keys() {
        for kernel in Matrix::committed().kernels {
            assert_eq!(kernel.name().parse::<KernelKey>().unwrap(), kernel.key());
        }
    }

    #[test]
    fn the_list_lies_in_the_unroll_range() {}
}
