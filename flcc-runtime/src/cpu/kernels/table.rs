//! The table of CPU kernels: every body and its row, emitted by `flcc_macros::direct_kernels`, and the choice among
//! them.
//!
//! Their register blocks are those of `flcc_core::isa`.

use std::sync::LazyLock;

use flcc_core::dtype::DType;

#[cfg(target_arch = "x86_64")]
use crate::cpu::kernels::amx::correlate_tiles;
use crate::cpu::kernels::kernel::{Function, Kernel, KernelOp, Widths};
use crate::isa::{Isa, IsaSet};

flcc_macros::direct_kernels! { amx = correlate_tiles }

/// Every kernel of this target, also those that this processor cannot run.
pub fn kernels() -> &'static [Kernel] {
    KERNELS
}

/// The kernel of that name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// The kernel to prefer for a template of `kernel_shape` and outputs of one row (`line`) or more: of the best
/// instruction set in `isas`, and there the one written for the template's width before the one for every width.
///
/// # Panics
///
/// If `dtype` is an integer type: kernels compute in `f32` and `f64`.
pub fn best(op: KernelOp, dtype: DType, kernel_shape: [usize; 3], line: bool, isas: &IsaSet) -> &'static Kernel {
    let width = kernel_shape[2];
    let wanted = if line { [Widths::Line(width), Widths::AnyLine] } else { [Widths::Row(width), Widths::Any] };
    first(op, dtype, &wanted, isas)
}

/// The kernel written for templates of every size, of the first instruction set that has one.
///
/// # Panics
///
/// As [`best`].
pub fn general(op: KernelOp, dtype: DType, line: bool, isas: &IsaSet) -> &'static Kernel {
    first(op, dtype, if line { &[Widths::AnyLine] } else { &[Widths::Any] }, isas)
}

/// The kernel of the first instruction set that has one of these widths, the first of them before the others.
fn first(op: KernelOp, dtype: DType, wanted: &[Widths], isas: &IsaSet) -> &'static Kernel {
    let of_set = |isa| {
        let family = family(isa, dtype);
        wanted.iter().find_map(|width| family.iter().find(|row| row.op == op && row.width == *width))
    };
    isas.iter().find_map(of_set).unwrap_or_else(|| panic!("expected f32 or f64 to compute in, got {dtype}"))
}

/// The kernels of bytes for outputs of one row (`line`) or more, one for each set of `isas` that has some, the best set
/// first.
pub fn bytes(line: bool, isas: &IsaSet) -> impl Iterator<Item = &'static Kernel> {
    // A set without a body of lines has one for both.
    let wanted: &[Widths] = if line { &[Widths::AnyLine, Widths::Any] } else { &[Widths::Any] };
    isas.iter().filter_map(|isa| {
        let family = family(isa, DType::U8);
        wanted.iter().find_map(|width| family.iter().find(|row| row.width == *width))
    })
}

/// The kernels of an instruction set in a type.
fn family(isa: Isa, dtype: DType) -> &'static [Kernel] {
    static FAMILIES: LazyLock<Vec<&'static [Kernel]>> =
        LazyLock::new(|| KERNELS.chunk_by(|one, next| (one.isa, one.dtype) == (next.isa, next.dtype)).collect());
    FAMILIES.iter().find(|family| (family[0].isa, family[0].dtype) == (isa, dtype)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flcc_core::blocks::Blocks;

    use super::*;
    use crate::cpu::engines::bytes;
    use crate::cpu::kernels::kernel::{Bound, BoundBytes, Float, Tile, extent, reached};
    use crate::isa::{ISAS, detect, detected};

    #[test]
    fn kernels_of_a_family_stand_side_by_side() {
        let key = |kernel: &Kernel| (kernel.isa, kernel.dtype);
        let keys: std::collections::HashSet<_> = KERNELS.iter().map(key).collect();
        assert_eq!(KERNELS.chunk_by(|one, next| key(one) == key(next)).count(), keys.len());
        assert!(
            KERNELS.iter().all(|kernel| family(kernel.isa, kernel.dtype).iter().any(|one| one.name == kernel.name))
        );
    }

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn bits(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        /// An integer in `-8..=8`, or a number in `-1..1`.
        fn value(&mut self, integer: bool) -> f64 {
            if integer {
                (self.bits() % 17) as f64 - 8.0
            } else {
                (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            }
        }

        fn below(&mut self, n: usize) -> usize {
            (self.bits() % n as u64) as usize
        }
    }

    /// A problem for one kernel: everything else follows from the seed.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        kernel_shape: [usize; 3],
        out_shape: [usize; 3],
        integer: bool,
        accumulate: bool,
        within: bool,
        seed: u64,
    }

    /// Runs a kernel on a case and compares it with a plain loop in f64. What it may read past the input is NaN, as is
    /// what it may not read of the output, and what it must not write.
    fn check<T: Float>(bound: &Bound<T>, case: Case) {
        let kernel = bound.kernel();
        let Case { kernel_shape: [kd, kh, kw], out_shape: [depth, height, width], integer, accumulate, within, seed } =
            case;
        let mut random = Random(seed);
        let [_, rounded_height, rounded_width] = if within { case.out_shape } else { kernel.rounded(case.out_shape) };
        let in_row = rounded_width + kw - 1 + random.below(5);
        let in_plane = (rounded_height + kh - 1) * in_row + random.below(5);
        let out_row = rounded_width + random.below(5);
        let out_plane = rounded_height * out_row + random.below(5);

        let mut input = vec![f64::NAN; reached(kernel.rounded(case.out_shape), case.kernel_shape, in_row, in_plane)];
        for z in 0..depth + kd - 1 {
            for y in 0..height + kh - 1 {
                for x in 0..width + kw - 1 {
                    input[z * in_plane + y * in_row + x] = random.value(integer);
                }
            }
        }
        let template: Vec<f64> = (0..kd * kh * kw).map(|_| random.value(integer)).collect();
        let weights: Vec<f64> = match kernel.op {
            KernelOp::Correlate => Vec::new(),
            KernelOp::AbsDiff => template.iter().map(|_| random.value(integer).abs()).collect(),
        };
        let typed = |values: &[f64]| -> Vec<T> { values.iter().map(|&value| T::from_f64(value)).collect() };
        let exact = |values: Vec<T>| -> Vec<f64> { values.into_iter().map(T::to_f64).collect() };
        let (input, template, weights) = (typed(&input), typed(&template), typed(&weights));
        let mut before = vec![f64::NAN; extent(kernel.rounded(case.out_shape), out_row, out_plane)];
        if accumulate {
            before.iter_mut().for_each(|value| *value = random.value(integer));
        }
        let mut out = typed(&before);
        let before = exact(out.clone());
        let mut tile = Tile {
            input: &input,
            in_row,
            in_plane,
            template: &template,
            weights: &weights,
            kernel_shape: case.kernel_shape,
            blocks: if seed.is_multiple_of(3) {
                Blocks::strict(case.kernel_shape)
            } else {
                Blocks::even(case.kernel_shape)
            },
            out: &mut out,
            out_row,
            out_plane,
            out_shape: case.out_shape,
            accumulate,
            within,
            largest: T::default(),
        };
        bound.run(&mut tile);
        let largest = tile.largest.to_f64();
        let (input, template, weights, out) = (exact(input), exact(template), exact(weights), exact(out));

        let unit = if T::DTYPE == DType::F32 { f32::EPSILON as f64 / 2.0 } else { f64::EPSILON / 2.0 };
        let bound = if integer { 0.0 } else { (16.0 + ((kd * kh * kw) as f64).sqrt()) * unit };
        let mut most = 0.0f64;
        for z in 0..depth {
            for y in 0..height {
                for x in 0..width {
                    let at = z * out_plane + y * out_row + x;
                    let (mut want, mut norm) = if accumulate { (before[at], before[at].abs()) } else { (0.0, 0.0) };
                    let (mut in_squares, mut template_squares) = (0.0, 0.0);
                    let mut tap = 0;
                    for dz in 0..kd {
                        for i in 0..kh {
                            for j in 0..kw {
                                let value = input[(z + dz) * in_plane + (y + i) * in_row + x + j];
                                match kernel.op {
                                    KernelOp::Correlate => {
                                        want += value * template[tap];
                                        in_squares += value * value;
                                        template_squares += template[tap] * template[tap];
                                    }
                                    KernelOp::AbsDiff => {
                                        want += weights[tap] * (value - template[tap]).abs();
                                        norm += weights[tap] * (value - template[tap]).abs();
                                    }
                                }
                                tap += 1;
                            }
                        }
                    }
                    norm += (in_squares * template_squares).sqrt();
                    let got = out[at];
                    most = most.max(got.abs());
                    assert!(
                        (got - want).abs() <= bound * norm,
                        "{} {case:?}: out[{z}, {y}, {x}] is {got}, expected {want} within {}",
                        kernel.name,
                        bound * norm
                    );
                }
            }
        }
        if kernel.op == KernelOp::Correlate && within {
            assert_eq!(largest, most, "{} {case:?}", kernel.name);
        }
        for (at, (&got, &was)) in out.iter().zip(&before).enumerate() {
            let (y, x) = (at % out_plane / out_row, at % out_plane % out_row);
            let gap = y >= rounded_height || x >= rounded_width;
            assert!(
                !gap || got.to_bits() == was.to_bits(),
                "{} {case:?}: wrote out[{at}], past its blocks",
                kernel.name
            );
        }
    }

    /// A number of a name: where a failing case is found again.
    fn seed(name: &str) -> u64 {
        name.bytes().fold(7, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Template shapes that fit a kernel: squares, flat ones, tall ones, boxes.
    fn kernel_shapes(kernel: &Kernel) -> Vec<[usize; 3]> {
        match kernel.width {
            Widths::Row(w) => vec![[1, w, w], [3, w, w], [1, 1, w], [2, 3, w], [1, 13, w]],
            Widths::Line(w) => vec![[1, 1, w], [2, 3, w]],
            Widths::Any => vec![[1, 1, 1], [1, 2, 5], [3, 3, 3], [1, 6, 1], [2, 5, 9], [1, 33, 33], [1, 7, 40]],
            Widths::AnyLine => vec![[1, 1, 1], [1, 1, 7], [2, 3, 9], [1, 1, 200]],
        }
    }

    /// Output shapes: one value, whole blocks, wide and single-vector blocks, ragged ones.
    fn out_shapes(kernel: &Kernel) -> Vec<[usize; 3]> {
        let (rows, lanes) = (kernel.block_rows, kernel.lanes);
        vec![
            [1, 1, 1],
            [1, rows, 4 * lanes],
            [1, rows + 1, 5 * lanes + 3],
            [2, 2 * rows - 1, 9 * lanes - 1],
            [1, 1, 17 * lanes + 1],
        ]
    }

    fn conforms<T: Float>(bound: &Bound<T>) {
        let mut seed = seed(bound.kernel().name);
        for kernel_shape in kernel_shapes(bound.kernel()) {
            for out_shape in out_shapes(bound.kernel()) {
                seed += 1;
                let (integer, accumulate) = (seed.is_multiple_of(2), (seed / 2).is_multiple_of(3));
                check(bound, Case { kernel_shape, out_shape, integer, accumulate, within: false, seed });
                check(
                    bound,
                    Case { kernel_shape, out_shape, integer: !integer, accumulate: false, within: false, seed },
                );
                let kernel = bound.kernel();
                if out_shape[1] >= kernel.block_rows && out_shape[2] >= kernel.lanes {
                    check(bound, Case { kernel_shape, out_shape, integer, accumulate: false, within: true, seed });
                }
            }
        }
    }

    /// The same neighbourhood gives the same bits wherever it lies: a periodic input has a periodic output.
    fn is_independent_of_position<T: Float>(bound: &Bound<T>) {
        const PERIOD: [usize; 2] = [5, 7];
        let kernel = bound.kernel();
        let mut random = Random(seed(kernel.name));
        let cell: Vec<T> = (0..PERIOD[0] * PERIOD[1]).map(|_| T::from_f64(random.value(false))).collect();
        let orders = |shape: [usize; 3]| [Blocks::even(shape), Blocks::strict(shape)].map(|blocks| (shape, blocks));
        for (kernel_shape, blocks) in kernel_shapes(kernel).into_iter().flat_map(orders) {
            let taps: usize = kernel_shape.iter().product();
            let template: Vec<T> = (0..taps).map(|_| T::from_f64(random.value(false))).collect();
            let out_shape = [1, 2 * kernel.block_rows + 1, 9 * kernel.lanes + 1];
            let [_, _, out_row] = kernel.rounded(out_shape);
            let in_row = out_row + kernel_shape[2] - 1;
            let in_plane = in_row * PERIOD[0] * 16;
            let input: Vec<T> = (0..reached(kernel.rounded(out_shape), kernel_shape, in_row, in_plane))
                .map(|at| cell[at / in_row % PERIOD[0] * PERIOD[1] + at % in_row % PERIOD[1]])
                .collect();
            let mut out = vec![T::default(); extent(kernel.rounded(out_shape), out_row, 0)];
            let weights = if kernel.op == KernelOp::AbsDiff { &template[..] } else { &[] };
            bound.run(&mut Tile {
                input: &input,
                in_row,
                in_plane,
                template: &template,
                weights,
                kernel_shape,
                blocks,
                out: &mut out,
                out_row,
                out_plane: 0,
                out_shape,
                accumulate: false,
                within: false,
                largest: T::default(),
            });
            for y in 0..out_shape[1] {
                for x in 0..out_shape[2] {
                    let (got, first) = (out[y * out_row + x], out[y % PERIOD[0] * out_row + x % PERIOD[1]]);
                    assert_eq!(
                        got.to_f64().to_bits(),
                        first.to_f64().to_bits(),
                        "{} {kernel_shape:?}: out[{y}, {x}] = {got:?} is not {first:?}, one period away",
                        kernel.name
                    );
                }
            }
        }
    }

    /// The test of one kernel of the table: its answers, and that they do not depend on their places.
    pub(crate) fn kernel_conforms(name: &str) {
        let kernel = find(name).expect("a kernel of that name");
        let isas = detect();
        if !isas.has(kernel.isa) {
            eprintln!("absent: {}; {name} was not tested", kernel.isa);
        } else if let Some(bound) = BoundBytes::new(kernel, &isas) {
            bytes::tests::bound_conforms(&bound);
        } else if let Some(bound) = Bound::<f32>::new(kernel, &isas) {
            conforms(&bound);
            is_independent_of_position(&bound);
        } else {
            let bound = Bound::<f64>::new(kernel, &isas).expect("a kernel computes in f32 or f64");
            conforms(&bound);
            is_independent_of_position(&bound);
        }
    }

    /// NaN is larger than infinity, and that than all others, wherever in a tile it is; `largest` sees what any output
    /// is.
    #[test]
    fn the_largest_output_may_be_infinite_or_not_a_number() {
        let isas = detect();
        for kernel in kernels()
            .iter()
            .filter(|kernel| kernel.op == KernelOp::Correlate && isas.has(kernel.isa) && detected(kernel.isa))
        {
            let Some(bound) = Bound::<f32>::new(kernel, &isas) else { continue };
            let width = if let Widths::Row(width) | Widths::Line(width) = kernel.width { width } else { 3 };
            let (kernel_shape, out_shape) = ([1, 1, width], [1, kernel.block_rows + 1, 7 * kernel.lanes + 1]);
            let in_row = out_shape[2] + width - 1;
            for (value, at) in
                [(f32::NAN, 0), (f32::INFINITY, in_row * out_shape[1] - 1), (-7e30, in_row), (f32::NAN, in_row - 1)]
            {
                let (mut input, mut out) = (vec![-1.0; in_row * out_shape[1]], vec![0.0; out_shape.iter().product()]);
                input[at] = value;
                let mut tile = Tile {
                    input: &input,
                    in_row,
                    in_plane: 0,
                    template: &vec![1.0; width],
                    weights: &[],
                    kernel_shape,
                    blocks: Blocks::even(kernel_shape),
                    out: &mut out,
                    out_row: out_shape[2],
                    out_plane: 0,
                    out_shape,
                    accumulate: false,
                    within: true,
                    largest: 0.0,
                };
                bound.run(&mut tile);
                let expected = if value == f32::INFINITY { value.to_bits() } else { value.abs().to_bits() };
                let told = tile.largest;
                assert!(
                    told.to_bits() == expected || told.is_nan() && value.is_nan(),
                    "{}: {told} for {value} at {at}",
                    kernel.name
                );
            }
        }
    }

    #[test]
    fn portable_kernels_under_miri() {
        fn small<T: Float>() {
            for (name, kernel_shape) in [
                ("corr_T_w3_portable", [2, 2, 3]),
                ("corr_T_n5_portable", [1, 1, 5]),
                ("corr_T_any_portable", [1, 5, 2]),
            ]
            .into_iter()
            .chain([("sad_T_any_portable", [1, 2, 2]), ("sad_T_anyline_portable", [1, 1, 3])])
            {
                let name = name.replace('T', T::DTYPE.name());
                let kernel = find(&name).expect("a kernel of that name");
                let bound = Bound::<T>::new(kernel, &detect()).expect("every machine has the portable kernels");
                check(
                    &bound,
                    Case {
                        kernel_shape,
                        out_shape: [1, 3, 9],
                        integer: true,
                        accumulate: true,
                        within: false,
                        seed: seed(&name),
                    },
                );
            }
        }
        small::<f32>();
        small::<f64>();
    }

    #[test]
    fn absent_instruction_sets_are_reported() {
        let required = std::env::var("FLCC_REQUIRE").unwrap_or_default();
        let absent: Vec<_> = ISAS.into_iter().filter(|&isa| !detected(isa)).collect();
        for isa in &absent {
            let rows = kernels().iter().filter(|kernel| kernel.isa == *isa).count();
            eprintln!("absent: {isa}; {rows} kernels were not tested");
            assert!(
                !required.split(',').any(|name| name == isa.name()),
                "FLCC_REQUIRE has {isa}, this processor has not"
            );
        }
        eprintln!("instruction sets: {} of {} tested", ISAS.len() - absent.len(), ISAS.len());
    }

    #[test]
    fn a_name_says_what_the_row_says_and_is_unique() {
        let mut names: Vec<_> = kernels().iter().map(|kernel| kernel.name).collect();
        for kernel in kernels() {
            let op = if kernel.op == KernelOp::Correlate { "corr" } else { "sad" };
            let width = match kernel.width {
                Widths::Any => "any".to_string(),
                Widths::AnyLine => "anyline".to_string(),
                Widths::Row(w) => format!("w{w}"),
                Widths::Line(w) => format!("n{w}"),
            };
            assert_eq!(kernel.name, format!("{op}_{}_{width}_{}", kernel.dtype.name(), kernel.isa));
            assert!(kernel.lanes * kernel.dtype.row().size <= 64 && kernel.block_rows > 0);
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn every_listed_size_has_a_row() {
        for (dtype, isa) in [DType::F32, DType::F64].into_iter().zip([Isa::Portable; 2]) {
            let isas = IsaSet::of(&[isa]);
            for width in flcc_core::sizes::row_widths() {
                assert_eq!(best(KernelOp::Correlate, dtype, [1, 4, width], false, &isas).width, Widths::Row(width));
            }
            for width in flcc_core::sizes::line_widths() {
                assert_eq!(best(KernelOp::Correlate, dtype, [1, 1, width], true, &isas).width, Widths::Line(width));
            }
        }
    }

    #[test]
    fn the_best_kernel_is_the_closest_of_the_best_instruction_set() {
        let name = |op, shape, line, isas| best(op, DType::F64, shape, line, &isas).name;
        let none = IsaSet::of(&[]);
        assert_eq!(name(KernelOp::Correlate, [1, 5, 7], false, none), "corr_f64_w7_portable");
        assert_eq!(name(KernelOp::Correlate, [1, 5, 70], false, none), "corr_f64_any_portable");
        assert_eq!(name(KernelOp::Correlate, [1, 1, 33], true, none), "corr_f64_n33_portable");
        assert_eq!(name(KernelOp::AbsDiff, [1, 1, 33], true, none), "sad_f64_anyline_portable");
        if cfg!(target_arch = "x86_64") {
            let all = IsaSet::of(&ISAS);
            assert_eq!(name(KernelOp::Correlate, [9, 9, 9], false, all), "corr_f64_w9_avx512");
            assert_eq!(name(KernelOp::Correlate, [1, 5, 70], false, all), "corr_f64_any_avx512");
            assert_eq!(name(KernelOp::AbsDiff, [1, 5, 7], false, all.restrict(Isa::Avx2)), "sad_f64_any_avx2");
        }
    }

    #[test]
    fn a_kernel_is_bound_where_it_is_allowed_and_of_its_type() {
        let kernel = find("corr_f32_any_portable").expect("a kernel of that name");
        assert!(Bound::<f32>::new(kernel, &detect()).is_some());
        assert!(Bound::<f64>::new(kernel, &detect()).is_none());
        for isa in ISAS.into_iter().filter(|isa| *isa != Isa::Portable) {
            let kernels = kernels().iter().filter(|kernel| kernel.isa == isa && kernel.dtype == DType::F32);
            for kernel in kernels {
                assert!(Bound::<f32>::new(kernel, &IsaSet::of(&[])).is_none());
                assert_eq!(Bound::<f32>::new(kernel, &IsaSet::of(&ISAS)).is_some(), detected(isa));
            }
        }
    }

    /// The message for a tile of a 3x3 template and 2x8 outputs, after one change.
    fn misfit(change: fn(&mut Tile<'_, f32>)) -> String {
        let kernel = find("corr_f32_w3_portable").expect("a kernel of that name");
        let (input, template, mut out) = (vec![0.0; 5 * 16 + 10], vec![0.0; 9], vec![0.0; 3 * 8 + 8]);
        let mut tile = Tile {
            input: &input,
            in_row: 16,
            in_plane: 0,
            template: &template,
            weights: &[],
            kernel_shape: [1, 3, 3],
            blocks: Blocks::even([1, 3, 3]),
            out: &mut out,
            out_row: 8,
            out_plane: 0,
            out_shape: [1, 2, 8],
            accumulate: false,
            within: false,
            largest: 0.0,
        };
        assert_eq!(tile.check(kernel), Ok(()));
        change(&mut tile);
        tile.check(kernel).expect_err("a misfit").to_string()
    }

    #[test]
    fn a_tile_that_does_not_fit_is_told_why() {
        let needs = "corr_f32_w3_portable needs";
        let input = misfit(|tile| tile.input = &tile.input[1..]);
        assert_eq!(input, format!("{needs} an input slice of at least 90, got 89"));
        assert_eq!(
            misfit(|tile| tile.out_row = 7),
            format!("{needs} an output row pitch of at least the rounded width, 8, got 7")
        );
        assert_eq!(misfit(|tile| tile.out_shape[1] = 5), format!("{needs} an output slice of at least 64, got 32"));
        assert_eq!(misfit(|tile| tile.kernel_shape[2] = 4), format!("{needs} a template width of 3, got 4"));
        assert_eq!(
            misfit(|tile| tile.kernel_shape[0] = 0),
            format!("{needs} a side of the template of at least 1, got 0")
        );
        assert_eq!(
            misfit(|tile| tile.within = true),
            format!("{needs} rows of outputs, if it is to stay within them, of at least 4, got 2")
        );
        let template = misfit(|tile| tile.kernel_shape[1] = 2);
        assert_eq!(template, format!("{needs} as many template values as its shape has, 6, got 9"));
    }
}
