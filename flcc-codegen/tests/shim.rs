//! Runs rendered kernels on the CPU, through shim.h and the system's C++ compiler, against a plain loop.
//!
//! Of each template, type and number of axes the smallest, the median and the largest size, and the kernels of any
//! size. Without a compiler the tests say so and pass, unless FLCC_REQUIRE names `cxx`.

mod gxx;

use std::process::Output;

use flcc_codegen::matrix::{RUN, TYPES};
use flcc_codegen::{Kernel, Matrix, Op};
use flcc_core::dtype::DType;
use flcc_core::runs::Together;
use flcc_core::wide::Wide;
use gxx::{broken, compile_and_run, compiler_present, text_of};

fn kernel(name: &str) -> (Kernel, String) {
    let kernels = Matrix::committed().kernels;
    let kernel = kernels.into_iter().find(|kernel| kernel.name() == name);
    let kernel = kernel.unwrap_or_else(|| panic!("no kernel {name}"));
    let source = kernel.files().iter().map(|file| text_of(file)).collect();
    (kernel, source)
}

/// The case in which a kernel of scores in f64 gets integers of 16 bits.
const INTEGERS: &str = "integers";

/// What a case of a wrong kernel of large transforms begins with.
const WRONG: &str = "wrong";

/// The case in which a kernel of scores by transforms gets bytes.
const BYTES: &str = "bytes";

/// What cases have in their names in which the warps of a block make windows of strips together.
const TEAM: &str = "team";

/// The case in which transforms and windows of volumes take their samples less offsets that are far apart.
const APART: &str = "apart";

/// What cases begin with in which windows are summed up in two floats, as on devices where f64 is slow.
const SLOW: &str = "slow-f64";

/// The lines of a program that say so, or do not, and what sums of windows of a kernel round.
fn wide(kernel: &Kernel, case: &str) -> String {
    let slow = case.starts_with(SLOW);
    let wide = if slow && kernel.dtype == DType::F32 { Wide::TwoSingles } else { Wide::Double };
    format!("#define FLCC_SLOW_F64 {}\n#define WIDE_ROUNDOFF {:e}\n", u8::from(slow), wide.roundoff())
}

/// Compiles `source` into a program that checks it, and runs that.
fn run(kernel: &Kernel, source: &str, case: &str) -> Output {
    let folder = format!("{}-{case}", kernel.name());
    if kernel.op == Op::Zncc32 {
        return volume_scores(kernel, source, ([3, 8, 5], 3), case);
    }
    if !kernel.op.adds_products() {
        // Scores take samples by other ways where what stands outside is a value.
        let scores = matches!(kernel.op, Op::Zncc64 | Op::Zncc128) || scores_of_large(kernel);
        return tile(kernel, source, if scores { 0 } else { 3 }, case);
    }
    if kernel.op.is_tensor() {
        return tensor(kernel, source, ([16, 16], 3), case);
    }
    if kernel.op == Op::Zncc {
        let dtype = match kernel.dtype {
            DType::F64 if case == INTEGERS => "#define FLCC_REAL 3\n#define FLCC_PIXEL 1\n#define FLCC_INTEGERS 1\n",
            DType::F32 => "#define FLCC_REAL 2\n#define FLCC_PIXEL 2\n",
            DType::F64 => "#define FLCC_REAL 3\n#define FLCC_PIXEL 3\n#define FLCC_OUT 3\n",
            _ => "#define FLCC_REAL 0\n#define FLCC_PIXEL 0\n#define FLCC_INTEGERS 1\n",
        };
        let stride = kernel.taps_stride().unwrap_or(0);
        // Each rule for samples outside with some sizes.
        let boundary = kernel.sides.iter().sum::<usize>() % 6;
        let program = format!(
            "#include \"shim.h\"\n#define FLCC_FUSED\n#define FLCC_BOUNDARY {boundary}\n\
             #define TAPS_STRIDE {stride}\n{}{dtype}{source}#include \"zncc_check.h\"\n",
            wide(kernel, case)
        );
        return compile_and_run(&folder, &program);
    }
    compile_and_run(&folder, &sums(kernel, source, kernel))
}

/// Whether a kernel of large transforms makes scores.
fn scores_of_large(kernel: &Kernel) -> bool {
    kernel.op.is_large() && kernel.function() != kernel.name()
}

/// Runs a program that checks a tile transform from the image to the result.
fn tile(kernel: &Kernel, source: &str, boundary: usize, case: &str) -> Output {
    let folder = format!("{}-{boundary}-{case}", kernel.name());
    let pixel = if case.ends_with(BYTES) { "#define FLCC_PIXEL 0\n" } else { "" };
    let large = match kernel.op.is_large() {
        true if scores_of_large(kernel) => "#define LARGE_TILES\n#define FLCC_SCORED\n",
        true => "#define LARGE_TILES\n",
        false => "",
    };
    // What is wrong shows in few kinds of images.
    let few = kernel.op.is_large() && (case.starts_with(WRONG) || case.contains(TEAM) && case != TEAM);
    let large = if few { format!("{large}#define FEW\n") } else { large.into() };
    let large = if case.contains(TEAM) { format!("{large}#define FLCC_TEAM 4\n") } else { large };
    // Each rule for samples outside with templates whose widths leave something else over eight.
    let rest = (3 * boundary + 4) % 8;
    let program = format!(
        "#include \"shim.h\"\n#define FLCC_BOUNDARY {boundary}\n#define REST {rest}\n{pixel}{large}{}\
         #define KERNEL {}\n#define SHARED {}\n{source}#include \"{}\"\n",
        wide(kernel, case),
        kernel.name(),
        kernel.shared(),
        match kernel.op {
            Op::Tile64 | Op::Tile128 => "tile_check.h",
            op if op.is_large() && !scores_of_large(kernel) => "tile_check.h",
            Op::Volume => "volume_check.h",
            Op::Whole => "whole_check.h",
            Op::Separable => "separable_check.h",
            op if op.is_line() => "line_check.h",
            op if op.is_pairs() => "pairs_check.h",
            _ => "scores_check.h",
        },
    );
    compile_and_run(&folder, &program)
}

/// Runs a program that checks scores of volumes, with a template of some sides and a rule for samples outside.
fn volume_scores(kernel: &Kernel, source: &str, (sides, boundary): ([usize; 3], usize), case: &str) -> Output {
    let [depth, height, width] = sides;
    let folder = format!("{}-{depth}x{height}x{width}-{boundary}-{case}", kernel.name());
    let pixel = if case.ends_with(BYTES) { "#define FLCC_PIXEL 0\n" } else { "" };
    let apart = if case.contains(APART) { "#define OFFSETS_APART\n" } else { "" };
    let program = format!(
        "#include \"shim.h\"\n#define FLCC_BOUNDARY {boundary}\n{pixel}{apart}{}#define FLCC_TD {depth}\n\
         #define FLCC_TH {height}\n#define FLCC_TW {width}\n#define KERNEL {}\n#define CROSS_SHARED {}\n{source}\
         #include \"volume_scores_check.h\"\n",
        wide(kernel, case),
        kernel.name(),
        kernel.shared(),
    );
    compile_and_run(&folder, &program)
}

/// Runs a program that checks scores on tensor cores, with a template of some sides and a rule for samples outside.
fn tensor(kernel: &Kernel, source: &str, ([height, width], boundary): ([usize; 2], usize), case: &str) -> Output {
    let folder = format!("{}-{height}x{width}-{boundary}-{case}", kernel.name());
    let program = format!(
        "#include \"shim.h\"\n#define FLCC_BOUNDARY {boundary}\n#define FLCC_TH {height}\n#define FLCC_TW {width}\n\
         #define KERNEL {}\n{source}#include \"mma_check.h\"\n",
        kernel.name(),
    );
    compile_and_run(&folder, &program)
}

/// A program that checks the sums of `source`, a cross term of the kernel `corr`, which are to be taken together as
/// `as_kernel` takes them.
fn sums(corr: &Kernel, source: &str, as_kernel: &Kernel) -> String {
    let [depth, height, width] = corr.size().unwrap_or([0; 3]);
    let Together { run, rows, planes } = as_kernel.together().unwrap_or_default();
    // Of a kernel for any size: what the conventions grant, less one rounding for a sample and one for a tap.
    let most =
        as_kernel.size().map_or("14 + (int)std::sqrt((double)all)".into(), |size| as_kernel.chain(size).to_string());
    let together = format!(
        "#define TOGETHER_RUN {run}\n#define TOGETHER_ROWS {rows}\n#define TOGETHER_PLANES {}\n",
        u8::from(planes)
    );
    let together = format!("{together}#define MOST_ROUNDINGS {most}\n");
    format!(
        "#include \"shim.h\"\n{source}\n{together}#define RUN_OF_ANY {RUN}\n#define KERNEL {}\n#define OP {}\n\
         #define DEPTH {depth}\n#define HEIGHT {height}\n#define WIDTH {width}\n\
         #define TAPS_STRIDE {}\n{}#include \"check.h\"\n",
        corr.name(),
        corr.op.name().to_uppercase(),
        corr.taps_stride().unwrap_or(0),
        // A listed kernel has one chunk; the others have their own constants of these names.
        if width > 0 { format!("#define CHUNK_H {height}\n#define CHUNK_W {width}\n") } else { String::new() },
    )
}

#[track_caller]
fn check(name: &str) {
    if compiler_present() {
        let (kernel, source) = kernel(name);
        let output = run(&kernel, &source, "right");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A kernel whose text is changed must not pass.
#[track_caller]
fn check_broken(name: &str, case: &str, from: &str, to: &str) {
    if compiler_present() {
        let (kernel, source) = kernel(name);
        let output = run(&kernel, &broken(&source, from, to), case);
        assert!(!output.status.success(), "{name} passes with {to:?} for {from:?}");
    }
}

macro_rules! kernels {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn the_list_covers_the_matrix() {
            let listed = [$(stringify!($name)),*];
            let kernels = Matrix::committed().kernels;
            let typed = [Op::Corr, Op::Zncc].into_iter().flat_map(|op| TYPES.map(|dtype| (op, dtype)));
            for (op, dtype, axes) in typed.flat_map(|(op, dtype)| [1, 2, 3].map(|axes| (op, dtype, axes))) {
                let mut of: Vec<&Kernel> = kernels
                    .iter()
                    .filter(|kernel| kernel.op == op && kernel.dtype == dtype && kernel.sides.len() == axes)
                    .collect();
                of.sort_by_key(|kernel| &kernel.sides);
                for kernel in [of[0], of[of.len() / 2], of[of.len() - 1]] {
                    assert!(listed.contains(&kernel.name().as_str()), "{} is not run", kernel.name());
                }
            }
            for kernel in kernels.iter().filter(|kernel| kernel.sides.is_empty()) {
                assert!(listed.contains(&kernel.name().as_str()), "{} is not run", kernel.name());
            }
        }
    };
}

kernels! {
    corr_f32_2_b128x1
    corr_f32_33_b128x1
    corr_f32_64_b128x1
    corr_f32_2x2_b32x8
    corr_f32_11x11_b32x8
    corr_f32_17x17_b16x8
    corr_f32_32x32_b16x8
    corr_f32_2x2x2_b32x2
    corr_f32_5x5x5_b32x4
    corr_f32_8x8x8_b32x4
    corr_f32_any_b32x8
    corr_f32_any_b128x1
    corr_f64_2_b128x1
    corr_f64_33_b128x1
    corr_f64_64_b128x1
    corr_f64_2x2_b16x8
    corr_f64_11x11_b16x8
    corr_f64_17x17_b16x8
    corr_f64_32x32_b16x8
    corr_f64_2x2x2_b16x8
    corr_f64_5x5x5_b16x8
    corr_f64_8x8x8_b16x8
    corr_f64_any_b16x8
    corr_f64_any_b128x1
    corr_u8_2_b128x1
    corr_u8_33_b128x1
    corr_u8_64_b128x1
    corr_u8_2x2_b32x8
    corr_u8_11x11_b32x8
    corr_u8_17x17_b32x8
    corr_u8_32x32_b32x8
    corr_u8_2x2x2_b32x8
    corr_u8_5x5x5_b32x8
    corr_u8_8x8x8_b32x8
    corr_u8_any_b32x8
    corr_u8_any_b128x1
    line16384_f32_any_b512x1
    line4096_f32_any_b256x1
    masked_f64_any_b16x8
    masked_f64_any_b128x1
    pairs128_f32_any_b128x2
    pairs64_f32_any_b64x2
    sad_f64_any_b16x8
    sad_f64_any_b128x1
    separable_f32_any_b64x4
    separable_f64_any_b64x4
    tile1024_f32_any_b32x8
    tile128_f32_any_b16x32
    tile256_f32_any_b16x16
    tile512_f32_any_b16x16
    tile64_f32_any_b16x16
    volume32_f32_any_b32x16
    zncc32_f32_any_b32x16
    whole_f32_any_b256x1
    zncc1024_f32_any_b32x8
    zncc128_f32_any_b16x32
    zncc256_f32_any_b16x16
    zncc512_f32_any_b16x16
    zncc64_f32_any_b16x16
    znccmma_u8_any_b32x8
    zncc_f32_2_b128x1
    zncc_f32_33_b128x1
    zncc_f32_64_b128x1
    zncc_f32_2x2_b32x8
    zncc_f32_11x11_b32x8
    zncc_f32_17x17_b16x8
    zncc_f32_32x32_b16x8
    zncc_f32_2x2x2_b32x2
    zncc_f32_5x5x5_b32x4
    zncc_f32_8x8x8_b32x4
    zncc_f64_2_b128x1
    zncc_f64_33_b128x1
    zncc_f64_64_b128x1
    zncc_f64_2x2_b16x8
    zncc_f64_11x11_b16x8
    zncc_f64_17x17_b16x8
    zncc_f64_32x32_b16x8
    zncc_f64_2x2x2_b16x8
    zncc_f64_5x5x5_b16x8
    zncc_f64_8x8x8_b16x8
    zncc_u8_2_b128x1
    zncc_u8_33_b128x1
    zncc_u8_64_b128x1
    zncc_u8_2x2_b32x8
    zncc_u8_11x11_b32x8
    zncc_u8_17x17_b32x8
    zncc_u8_32x32_b32x8
    zncc_u8_2x2x2_b32x8
    zncc_u8_5x5x5_b32x8
    zncc_u8_8x8x8_b32x8
}

#[test]
fn sides_can_be_constants_of_the_compilation() {
    if compiler_present() {
        let (kernel, source) = kernel("corr_f32_any_b32x8");
        let output =
            run(&kernel, &format!("#define FLCC_TD 1\n#define FLCC_TH 7\n#define FLCC_TW 19\n{source}"), "constant");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A program that checks the kernel from the image to the result, which follows the source of a listed correlation.
fn straight(name: &str, boundary: usize, change: impl Fn(String) -> String, case: &str) -> Output {
    let (kernel, source) = kernel(name);
    let real = if kernel.dtype == DType::F32 { 2 } else { 3 };
    let stride = kernel.taps_stride().unwrap_or(0);
    let program = format!(
        "#include \"shim.h\"\n#define FLCC_REAL {real}\n#define FLCC_PIXEL {real}\n#define FLCC_OUT {real}\n\
         #define FLCC_BOUNDARY {boundary}\n#define FLCC_WARPS {}\n#define KERNEL {name}\n\
         #define TAPS_STRIDE {stride}\n{source}{}#include \"straight_check.h\"\n",
        kernel.warps(),
        change(text_of("straight.cu").to_owned())
    );
    let folder = format!("{name}-straight-{boundary}-{case}");
    compile_and_run(&folder, &program)
}

#[test]
fn from_image_to_result_in_one_kernel() {
    if compiler_present() {
        for (name, boundary) in [
            ("corr_f32_2_b128x1", 3),
            ("corr_f32_64_b128x1", 0),
            ("corr_f32_3x3_b32x8", 0),
            ("corr_f32_3x3_b32x8", 4),
            ("corr_f32_7x7_b32x8", 1),
            ("corr_f32_2x2x2_b32x2", 2),
            ("corr_f32_8x8_b32x8", 4),
            ("corr_f32_11x11_b32x8", 5),
            ("corr_f32_17x17_b16x8", 1),
            ("corr_f32_32x32_b16x8", 2),
            ("corr_f32_5x5x5_b32x4", 3),
            ("corr_f64_33_b128x1", 1),
            ("corr_f64_11x11_b16x8", 3),
            ("corr_f64_3x3x3_b16x8", 5),
        ] {
            let output = straight(name, boundary, |text| text, "right");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn a_wrong_way_from_the_image_is_found() {
    if compiler_present() {
        for (case, from, to) in [
            ("plane", "if (plane > 0) __syncthreads();", ""),
            ("high", "return most > REAL_HIGH;", "return false;"),
            ("faint", "return most < REAL_LOW;", "return false;"),
            ("nothing", "(faint() && most != 0)", "faint()"),
            ("side", "y >= 0 &&", ""),
            ("before", "x < columns && x0 + x >= 0", "x < columns"),
            ("pieces", "tile + row * TILE_PITCH + piece % GROUPS", "tile + row * TILE_PITCH + 1 + piece % GROUPS"),
            ("factor", "if (factor != 1)", "if (false)"),
            ("image", "blockIdx.z / g.out_depth * im.image_stride", "0"),
        ] {
            let output = straight("corr_f32_5x5x5_b32x4", 3, |text| broken(&text, from, to), case);
            assert!(!output.status.success(), "{case} passes");
        }
        // By warps.
        for (case, from, to) in [
            ("high", "return most > REAL_HIGH;", "return false;"),
            ("faint", "return most < REAL_LOW;", "return false;"),
            ("plane", "  __syncwarp();  // the rows are still being read", ""),
            ("loaded", "  __syncwarp();\n  add_rows", "  add_rows"),
            (
                "stored",
                "  __syncwarp();\n#pragma unroll\n  for (int y = 0; y < PATCH_H; y++) {\n    if (y >= left)",
                "#pragma unroll\n  for (int y = 0; y < PATCH_H; y++) {\n    if (y >= left)",
            ),
            ("last", " && blockIdx.x < gridDim.x - 1", ""),
            ("below", " && more", ""),
            ("side", "y >= 0 && y + ROWS", "y + ROWS"),
            (
                "column",
                " && x >= 0 &&\n                      x + COLUMNS <= im.lengths[2];\n  const bool next",
                " && x >= 0;\n  const bool next",
            ),
            ("step", "next = inside && im.stride[2] == 1;", "next = inside;"),
            ("whole", " && im.stride[1] % PIECE == 0 && (size_t)from", " && (size_t)from"),
            ("left", "if (y >= left) break;", ""),
            ("before", "if (x0 + x >= 0 && x0 + x <", "if (x0 + x <"),
            ("factor", "if (factor != 1)", "if (false)"),
            ("image", "blockIdx.z / g.out_depth * im.image_stride", "0"),
        ] {
            let case = format!("warps-{case}");
            let output = straight("corr_f32_3x3x3_b32x2", 3, |text| broken(&text, from, to), &case);
            assert!(!output.status.success(), "{case} passes");
        }
    }
}

#[test]
fn tiles_meet_every_boundary() {
    if compiler_present() {
        for (name, boundaries) in [
            ("tile64_f32_any_b16x16", &[0, 1, 2, 4, 5][..]),
            ("tile128_f32_any_b16x32", &[0, 1][..]),
            ("tile256_f32_any_b16x16", &[0, 1][..]),
            ("volume32_f32_any_b32x16", &[0, 1, 5][..]),
            ("line4096_f32_any_b256x1", &[0, 1, 2, 4, 5][..]),
            ("line16384_f32_any_b512x1", &[1][..]),
            ("pairs64_f32_any_b64x2", &[0, 1, 2, 4, 5][..]),
            ("whole_f32_any_b256x1", &[0, 1, 2, 4, 5][..]),
            ("pairs128_f32_any_b128x2", &[0, 1][..]),
            ("separable_f32_any_b64x4", &[0, 1, 2, 4, 5][..]),
            ("separable_f64_any_b64x4", &[0][..]),
            ("zncc64_f32_any_b16x16", &[0, 1, 3, 5][..]),
            ("zncc128_f32_any_b16x32", &[4][..]),
            ("zncc256_f32_any_b16x16", &[5][..]),
        ] {
            let (kernel, source) = kernel(name);
            for &boundary in boundaries {
                let output = tile(&kernel, &source, boundary, "right");
                assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
}

#[test]
fn scores_of_volumes_take_templates_of_any_sides() {
    if compiler_present() {
        let (kernel, source) = kernel("zncc32_f32_any_b32x16");
        for (sides, boundary, case) in [
            ([8, 3, 9], 0, "right"),
            ([2, 2, 2], 1, "right"),
            ([5, 12, 4], 5, "right"),
            ([3, 8, 5], 2, BYTES),
            ([14, 24, 24], 0, APART),
        ] {
            let output = volume_scores(&kernel, &source, (sides, boundary), case);
            assert!(output.status.success(), "{sides:?}: {}", String::from_utf8_lossy(&output.stdout));
        }
        let wrong = broken(&source, "(float)offset - of_tile.offset", "0");
        let output = volume_scores(&kernel, &wrong, ([14, 24, 24], 0), &format!("{APART}-unseen"));
        assert!(!output.status.success(), "offsets that are apart pass unseen");
    }
}

/// Runs a program that checks the operations of two floats, as the source of a kernel has them.
fn operations(change: impl Fn(String) -> String, case: &str) -> Output {
    let (kernel, source) = kernel("zncc64_f32_any_b16x16");
    let program = format!("#include \"shim.h\"\n{}{}#include \"wide_check.h\"\n", wide(&kernel, SLOW), change(source));
    compile_and_run(&format!("wide-{case}"), &program)
}

#[test]
fn two_floats_round_as_they_are_said_to() {
    if compiler_present() {
        let output = operations(|source| source, "right");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        println!("{text}");
        for (case, from, to) in [
            ("low", "__fadd_rn(sum.low, __fadd_rn(a.low, b.low))", "sum.low"),
            ("float", "__fadd_rn(a.low, sum.low)", "a.low"),
            ("rest", "__fsub_rn(b, __fsub_rn(sum, a))", "0"),
            ("square", "__fmaf_rn(value, value, -high)", "0"),
            ("product", "__fmaf_rn(a.low, b.high, __fmul_rn(a.high, b.low))", "__fmul_rn(a.high, b.low)"),
            ("twice", "2 * a.high, a.low", "a.high, a.low"),
            ("threshold", "value * (1 + 1e-6)", "value * (1 - 1e-6)"),
            ("none", "return sample > most ? most", "return !(sample <= most) ? most"),
        ] {
            let output = operations(|source| broken(&source, from, to), case);
            assert!(!output.status.success(), "{case} passes");
        }
    }
}

#[test]
fn scores_of_listed_sizes_are_right_where_f64_is_slow() {
    if compiler_present() {
        // Scores of f64 and of bytes do not depend on it.
        for name in [
            "zncc_f32_2_b128x1",
            "zncc_f32_64_b128x1",
            "zncc_f32_2x2_b32x8",
            "zncc_f32_3x3_b32x8",
            "zncc_f32_11x11_b32x8",
            "zncc_f32_32x32_b16x8",
            "zncc_f32_2x2x2_b32x2",
            "zncc_f32_8x8x8_b32x4",
            "zncc_f64_11x11_b16x8",
            "zncc_u8_11x11_b32x8",
        ] {
            let (kernel, source) = kernel(name);
            let output = run(&kernel, &source, SLOW);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
        for (name, case, from, to) in [
            ("zncc_f32_11x11_b32x8", "low", "__fadd_rn(sum.low, __fadd_rn(a.low, b.low))", "sum.low"),
            ("zncc_f32_11x11_b32x8", "square", "__fmaf_rn(value, value, -high)", "0"),
            ("zncc_f32_2x2_b32x8", "large", "limited(centre(pixel, offset), LARGE)", "centre(pixel, offset)"),
            ("zncc_f32_2x2_b32x8", "faint", "square == 0 && !faint", "square == 0"),
            ("zncc_f32_2x2_b32x8", "low-of", "low(threshold(k.doubt[0]))", "low(0)"),
        ] {
            let (kernel, source) = kernel(name);
            let output = run(&kernel, &broken(&source, from, to), &format!("{SLOW}-{case}"));
            assert!(!output.status.success(), "{name} passes with {to:?} for {from:?}");
        }
    }
}

#[test]
fn scores_of_planes_are_right_where_f64_is_slow() {
    if compiler_present() {
        let bytes = format!("{SLOW}-{BYTES}");
        for (name, boundary, case) in [
            ("zncc64_f32_any_b16x16", 0, SLOW),
            ("zncc64_f32_any_b16x16", 3, SLOW),
            ("zncc64_f32_any_b16x16", 5, SLOW),
            ("zncc128_f32_any_b16x32", 4, SLOW),
            ("zncc64_f32_any_b16x16", 0, &bytes),
            ("zncc64_f32_any_b16x16", 1, &bytes),
        ] {
            let (kernel, source) = kernel(name);
            let output = tile(&kernel, &source, boundary, case);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
        let (kernel, source) = kernel("zncc64_f32_any_b16x16");
        for (case, from, to) in [
            ("low", "__fadd_rn(sum.low, __fadd_rn(a.low, b.low))", "sum.low"),
            ("below", "__shfl_up_sync(~0u, a.low, by)", "0"),
            ("where", "counts ? other.high : 0", "other.high"),
            ("lost", "const float lost = (float)((Head)(d.of_energy * 1.01) * largest);", "const float lost = 0;"),
        ] {
            let output = tile(&kernel, &broken(&source, from, to), 0, &format!("{SLOW}-{case}"));
            assert!(!output.status.success(), "{case} passes");
        }
    }
}

#[test]
fn scores_of_volumes_are_right_where_f64_is_slow() {
    if compiler_present() {
        let [bytes, apart] = [BYTES, APART].map(|case| format!("{SLOW}-{case}"));
        let (kernel, source) = kernel("zncc32_f32_any_b32x16");
        for (sides, boundary, case) in
            [([8, 3, 9], 0, SLOW), ([5, 12, 4], 5, SLOW), ([3, 8, 5], 2, &bytes), ([14, 24, 24], 0, &apart)]
        {
            let output = volume_scores(&kernel, &source, (sides, boundary), case);
            assert!(output.status.success(), "{sides:?}: {}", String::from_utf8_lossy(&output.stdout));
        }
        let wrong = broken(&source, "__fadd_rn(sum.low, __fadd_rn(a.low, b.low))", "sum.low");
        let output = volume_scores(&kernel, &wrong, ([3, 8, 5], 3), &format!("{SLOW}-low"));
        assert!(!output.status.success(), "a low part that is dropped passes");
    }
}

#[test]
fn scores_of_bytes_are_made_of_integers() {
    if compiler_present() {
        // With a value outside that is no integer they are not.
        for (name, boundary) in [
            ("zncc64_f32_any_b16x16", 0),
            ("zncc64_f32_any_b16x16", 1),
            ("zncc128_f32_any_b16x32", 4),
            ("zncc256_f32_any_b16x16", 2),
        ] {
            let (kernel, source) = kernel(name);
            let output = tile(&kernel, &source, boundary, BYTES);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn a_wrong_transform_is_found() {
    let (small, large) = ("tile64_f32_any_b16x16", "tile128_f32_any_b16x32");
    check_broken(small, "group", "wait_for_group(t / GROUP, GROUP);", "");
    check_broken(large, "block", "  __syncthreads();\n  {", "  {");
    check_broken(large, "eighth", "turns[at + LENGTH / 8]", "turns[at]");
    check_broken(small, "second", "if (COUNT > 2) w.second = turns[2 * at];", "if (COUNT > 2) w.second = turns[at];");
    check_broken(small, "swap", "{product.im, product.re}", "product");
    let line = "line4096_f32_any_b256x1";
    check_broken(line, "again", "      __syncthreads();  // results of the last template are still being read\n", "");
    check_broken(line, "factor", "factors[number]", "factors[0]");
    let volume = "volume32_f32_any_b32x16";
    check_broken(volume, "planes", "LENGTH / DEPTH * anew(at.z)", "anew(at.z)");
    check_broken(volume, "set", "LENGTH / LANES * set", "0 * set");
    check_broken(volume, "shown", "at.z + k * LANES < tile.out.z &&", "");
    check_broken(volume, "inside", " z >= 0 &&", "");
    check_broken(small, "high", "most > high ||", "");
    check_broken(small, "faint", " || (!some && most != 0)", "");
    check_broken(small, "nothing", "(!some && most != 0)", "!some");
    check_broken(small, "finite", "!(fabsf(v[0].re) + fabsf(v[0].im) <= 3e38f)", "false");
    check_broken(small, "rows", "at.y + j * ROWS < tile.rows", "true");
    check_broken(small, "inside", "y >= 0 && x >= 0 &&", "x >= 0 &&");
    check_broken(small, "step", " && im.stride[2] == 1", "");
    check_broken(small, "image", "image += blockIdx.z * im.image_stride;", "");
}

#[test]
fn wrong_large_transforms_are_found() {
    let sums = "tile256_f32_any_b16x16";
    for (case, from, to) in [
        ("row", "if (ROWS) __syncwarp();", "if (ROWS) {\n  }"),
        ("column", "  else __syncthreads();", ""),
        ("swap", "{product.im, product.re}", "product"),
        ("faint", " || (!some && most != 0)", ""),
        ("finite", "!(fabsf(v[0].re) + fabsf(v[0].im) <= 3e38f)", "false"),
        ("kept", "if (at.row >= tile.rows) continue;", ""),
        ("step", "      im.stride[2] == 1) {\n    const Sample* from", "      true) {\n    const Sample* from"),
        ("image", "image += pair.image * im.image_stride;", ""),
        ("first", "all = first + blockIdx.y", "all = blockIdx.y"),
    ] {
        check_broken(sums, &format!("{WRONG}-{case}"), from, to);
    }
    let scores = "zncc256_f32_any_b16x16";
    for (case, from, to) in [
        ("noise", "v[i] = {fmaf(by, noise, v[i].re), fmaf(by, noise, v[i].im)};", ""),
        ("doubt", "ordinary ? doubt_of(d, SAMPLES, of_samples, of_cross)", "ordinary ? 0"),
        ("finite", "if (FLCC_PIXEL == FLCC_F32) value = fabsf(value) <= MOST ? value : 0;", ""),
        ("last", "!= LENGTH / LINES) return;", "!= 1) return;"),
        ("image", "  image += pair.whole.image * im.image_stride;\n  const Source", "  const Source"),
        ("kept", "part.from.x) < count", "part.from.x) <= count"),
        ("offset", "return (float)pixel - offset;", "return (float)pixel - 0.5f * offset;"),
    ] {
        check_broken(scores, &format!("{WRONG}-{case}"), from, to);
    }
}

#[test]
fn wrong_signals_and_pairs_are_found() {
    let line = "line4096_f32_any_b256x1";
    for (case, from, to) in [
        ("first", "__syncthreads();\n#pragma unroll\n  for (int set", "#pragma unroll\n  for (int set"),
        ("turn", "1, LATER>(u, turns, last * OUTER);", "1, LATER>(u, turns, last);"),
        ("quarter", "turns[at + k * (LENGTH / COUNT)]", "turns[at + k]"),
        ("swap", "{product.im, product.re}", "product"),
        ("high", "most > high ||", ""),
        ("faint", " || (!some && most != 0)", ""),
        ("finite", "!(fabsf(v[0].re) + fabsf(v[0].im) <= 3e38f)", "false"),
        ("outputs", "to + i * THREADS < first.outputs", "true"),
        ("inside", "x >= 0 && x <= im.lengths[2] - LENGTH", "x >= 0"),
        ("step", " && im.stride[2] == 1", ""),
        ("signal", "signal += blockIdx.z * im.image_stride;", ""),
    ] {
        check_broken(line, case, from, to);
    }
    let whole = "whole_f32_any_b256x1";
    for (case, from, to) in [
        ("needed", "y < g.needed[1]) value", "true) value"),
        ("fill", "wanted[i] && y < g.needed[1] ? fill : 0", "NAN"),
        ("high", "most > high ||", ""),
        ("faint", " || (!some && most != 0)", ""),
        ("finite", "if (!finite)", "if (false)"),
        ("count", "if (i >= count) return;", ""),
        ("rows", "if (y >= g.out[1]) break;", ""),
    ] {
        check_broken(whole, case, from, to);
    }
    let pairs = "pairs64_f32_any_b64x2";
    for (case, from, to) in [
        (
            "warp",
            "  __syncwarp();\n  if (!some) return;\n#pragma unroll\n  for (int set",
            "#pragma unroll\n  for (int set",
        ),
        ("sign", "real ? 0 : k == low ? -1 : 1", "real ? 0 : 1"),
        ("real", "real && second ? tap.im : tap.re", "tap.re"),
        ("odd", "high = {(a.im + b.im) * HALF, (b.re - a.re) * HALF};", ""),
        ("up", "group == 0 ? 0 : kh - 1", "0"),
        ("flips", "if (of_taps.stride[1] < 0)", "if (false)"),
        ("own", "taps += blockIdx.z * of_taps.image_stride;", ""),
        ("faint", "(!some_taps && of_own.most != 0)", "false"),
        ("high", "fmaxf(of_image.most, of_own.most) > high", "false"),
        ("finite", "!(fabsf(v[0].re) + fabsf(v[0].im) <= 3e38f)", "false"),
        ("lower", "row + upper < rows", "true"),
        ("each", "extraordinary[blockIdx.z * each] = 1;\n  }", "extraordinary[0] = 1;\n  }"),
    ] {
        check_broken(pairs, case, from, to);
    }
}

#[test]
fn wrong_scores_of_volumes_are_found() {
    let name = "zncc32_f32_any_b32x16";
    for (case, from, to) in [
        ("noise", "value = {fmaf(by, made.at[j], value.re), fmaf(by, made.at[j], value.im)};", ""),
        ("quiet", "float of_plane = largest * lines", "float of_plane = 0 * lines"),
        ("doubt", "ordinary ? doubt_of(d, SAMPLES, of_samples, of_cross)", "ordinary ? 0"),
        ("step", "at_once = im.stride[2] == 1 && ", "at_once = "),
        ("offset", "v[i] = {v[i].re - first, v[i].im - second};", "v[i] = {v[i].re, v[i].im - second + 0 * first};"),
        ("image", "    image += whole.image * im.image_stride;\n    const Source", "    const Source"),
        ("remove", "sums[i].remove(centre(leave[i], offset));", ";"),
        ("finite", "mode == AT_ONCE && !(all.squares <= MOST)", "false"),
        ("marks", "if (mode == MARKS || !unknown) break;", "break;"),
        ("run", "      begin_run(z);\n", ""),
        ("fractions", "!is_whole((float)enter[i])", "!is_whole(value)"),
        ("lost", "const float lost = (float)(d.of_energy * 1.01) * all.squares;", "const float lost = 0;"),
        ("lows", "(asked.at.z + z) / step.z * asked.tiles_plane", "0"),
        ("columns", "sum.remove(from[(k - 1) * APART]);", ""),
        (
            "wait",
            "  __syncthreads();\n    if (const int number = anew(t); number",
            "  if (const int number = anew(t); number",
        ),
        ("wanted", "if (y < asked.from.y || y >= asked.end.y) continue;", ""),
    ] {
        check_broken(name, case, from, to);
    }
}

#[test]
fn wrong_products_of_lines_are_found() {
    let name = "separable_f32_any_b64x4";
    for (case, from, to) in [
        ("run", "constexpr int RUN = 16;", "constexpr int RUN = 32;"),
        ("fours", "if (step < fours) {", "{"),
        ("window", "window[i] = window[RUN + i];", "window[i] = window[RUN - 1 + i];"),
        ("lines", "lines[term * of_term + i]", "lines[i]"),
        ("turn", "if (term + 1 < terms) bring_taps(term + 1);", ""),
        ("rows", "const bool some = __syncthreads_or(most >= REAL_LOW);", "const bool some = most >= REAL_LOW;"),
        ("columns", "    __syncthreads();\n    if (term + 1", "    if (term + 1"),
        ("again", "    __syncthreads();  // sums along rows are still being read\n", ""),
        ("inside", "y >= 0 && x >= 0", "y >= 0"),
        ("fold", "fold(y + row, im.lengths[1])", "fold(y + row, im.lengths[2])"),
        ("high", "most > REAL_HIGH ||", ""),
        ("faint", "|| (!some && most != 0)", ""),
        ("image", "image + blockIdx.z * im.image_stride", "image"),
        ("factor", "sums[i] * (Real)factor", "sums[i]"),
        ("kept", "group + i < rows", "group + i <= rows"),
    ] {
        check_broken(name, case, from, to);
    }
}

#[test]
fn wrong_scores_of_planes_are_found() {
    let name = "zncc64_f32_any_b16x16";
    for (case, from, to) in [
        ("group", "wait_for_group(t / GROUP, GROUP);", ""),
        ("noise", "value = {fmaf(by, made.at[j], value.re), fmaf(by, made.at[j], value.im)};", ""),
        ("quiet", "float of_plane = largest * lines", "float of_plane = 0 * lines"),
        ("doubt", "ordinary ? doubt_of(d, SAMPLES, of_samples, of_cross)", "ordinary ? 0"),
        ("image", "    image += whole.image * im.image_stride;\n    const Source", "    const Source"),
        ("second", "if (++place.x == (int)across) place.x = 0, place.y++;", "place.x++;"),
        ("remove", "else sums[i].remove(value);", ""),
        ("finite", "FROM != ANYWHERE && !(total <= MOST)", "false"),
        ("marks", "if (!any_of_team(ground.unknown)) return;", "return;"),
        ("listed", "FROM == ANYWHERE && any_of_team(ground.unknown)", "false"),
        ("fractions", "is_whole((float)from.at(i))", "is_whole((float)from.at(i) - (float)offset)"),
        ("lost", "const float lost = (float)((Head)(d.of_energy * 1.01) * largest);", "const float lost = 0;"),
        ("tiles", "row * tiles_x + (first_x + x) / step_x", "(first_x + x) / step_x"),
        ("place", "column % OWN * APART + column / OWN", "column / OWN * APART + column % OWN"),
        ("before", "        all.remove(sums[i]);\n", ""),
        ("wait", "      wait_for_team();\n      // 1 for what f32 rounds.", "      // 1 for what f32 rounds."),
        ("rows", "const unsigned wanted = y >= from_y ? asked : 0;", "const unsigned wanted = ~0u;"),
        ("grain", "grained = !ground.fraction && largest < EXACT;", "grained = !ground.fraction;"),
        ("fraction", "grained = !ground.fraction && largest < EXACT;", "grained = largest < EXACT;"),
    ] {
        check_broken(name, case, from, to);
    }
}

/// Windows of wide templates, which blocks make with sums of bands. Their text serves templates of any width.
#[test]
fn teams_make_windows_with_sums_of_bands() {
    if compiler_present() {
        let (kernel, source) = kernel("zncc256_f32_any_b16x16");
        let [bytes, slow] = [format!("{TEAM}-{BYTES}"), format!("{SLOW}-{TEAM}")];
        for (boundary, case) in [(0, TEAM), (3, &slow), (1, &bytes)] {
            let output = tile(&kernel, &source, boundary, case);
            assert!(output.status.success(), "{boundary} {case}: {}", String::from_utf8_lossy(&output.stdout));
        }
        for (case, from, to) in [
            ("exchange", "if (lane == 31) own.of_warp", "if (lane == 30) own.of_warp"),
            ("before", "if (warp == thread / 32) all.add(up_to);", ""),
            ("ahead", "begun = end * w.band - ahead;", "begun = end * w.band;"),
            ("lead", "ground.take_all<FROM>(sums, 0, band * w.band - ahead);", ""),
            ("region", "* w.regions + region) * w.bands", "* w.regions) * w.bands"),
            ("strip", "(number * w.across + strip) * STRIP + thread", "number * w.across * STRIP + thread"),
        ] {
            let output = tile(&kernel, &broken(&source, from, to), 0, &format!("{WRONG}-{TEAM}-{case}"));
            assert!(!output.status.success(), "{case} passes");
        }
    }
}

/// Of one to five stretches of samples, an odd number of rows, more rows than taps of one, and all rules outside.
#[test]
fn tensor_cores_take_templates_of_any_sides() {
    if compiler_present() {
        let (kernel, source) = kernel("znccmma_u8_any_b32x8");
        let few = [([1, 2], 1), ([2, 33], 0), ([3, 8], 2), ([21, 1], 4)];
        let many = [([4, 4], 0), ([5, 18], 1), ([33, 7], 2), ([8, 34], 4), ([13, 65], 5), ([7, 17], 0), ([9, 50], 1)];
        for case in few.into_iter().chain(many) {
            let output = tensor(&kernel, &source, case, "right");
            assert!(output.status.success(), "{case:?}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn wrong_scores_on_tensor_cores_are_found() {
    let name = "znccmma_u8_any_b32x8";
    for (case, from, to) in [
        ("load", "wait_for_copies();\n  __syncthreads();", "wait_for_copies();"),
        ("step", "near = fma(score, fma(half * root, root, 0.5), score)", "near = score"),
        ("sign", "(int)lower;", "lower;"),
        ("first", "NUMBER < ROWS ? NUMBER + 1 : ROWS", "NUMBER < ROWS ? NUMBER + (NUMBER != 1) : ROWS"),
        ("last", "0 : NUMBER - HEIGHT + 1", "0 : NUMBER - HEIGHT + (NUMBER != HEIGHT + 1)"),
        ("round", "held[(number - r + ROWS) % ROWS]", "held[number % ROWS]"),
        ("half", "line[4 * i - 2 * half]", "line[4 * i]"),
        ("more", "(a - b) * (a + b)", "(a - b) * a"),
        ("odd", "0x4341", "0x4240"),
        ("bytes", "which == 0 ? 0x6240 : 0x7351", "0x6240"),
        ("row", "samples[(i - 1) * TILE_PITCH + word(turn)]", "samples[i * TILE_PITCH + word(turn)]"),
        ("turn", "j + 1 < ROWS; j++) cross[j] = cross[j + 1]", "j + 2 < ROWS; j++) cross[j] = cross[j + 1]"),
        ("columns", "output(j) >= begin && output", "output"),
        ("beyond", "begin + PIECE <= im.lengths[2])\n        copy", "begin < im.lengths[2])\n        copy"),
        ("past", "window_at(words[u][j], words[u][j + 1], past[u])", "words[u][j]"),
        ("image", "image + tile.image * im.image_stride", "image"),
    ] {
        check_broken(name, case, from, to);
    }
}

/// A root that is off by 2^-15 shows in scores, unless more of them are left to the rule; and so may all be.
#[test]
fn close_scores_on_tensor_cores_are_made_by_the_rule() {
    if compiler_present() {
        let (kernel, source) = kernel("znccmma_u8_any_b32x8");
        let change = |source: &str, (from, to): (&str, &str)| {
            assert!(source.contains(from), "{from}");
            source.replacen(from, to, 1)
        };
        let off = ("near_rsqrt(__uint_as_float(known))", "0x1.0002p+0f * near_rsqrt(__uint_as_float(known))");
        let more = ("CLOSE = 1 << 10", "CLOSE = 1 << 26");
        let all = ("if (least >= TOO_CLOSE) continue;", "");
        let (rough, every) = (change(&source, off), change(&source, all));
        for (case, source, passes) in
            [("rough", &rough, false), ("more", &change(&rough, more), true), ("every", &every, true)]
        {
            for sides in [[16, 16], [19, 20]] {
                let output = tensor(&kernel, source, (sides, 3), case);
                assert_eq!(output.status.success(), passes, "{case}: {}", String::from_utf8_lossy(&output.stdout));
            }
        }
    }
}

#[test]
fn a_missing_barrier_is_found() {
    check_broken("corr_f32_2x2_b32x8", "load", "INPUT_PIECES);\n  __syncthreads();", "INPUT_PIECES);");
    check_broken("corr_f32_2x2_b32x8", "stage", "__syncthreads();  // what lies there", "// what lies there");
    check_broken("corr_f32_2x2x2_b32x2", "plane", "__syncthreads();  // the last plane", "// the last plane");
    check_broken("corr_f32_any_b32x8", "chunk", "__syncthreads();  // the last chunk", "// the last chunk");
}

#[test]
fn integers_of_16_bits_are_exact_in_f64() {
    if compiler_present() {
        for name in ["zncc_f64_33_b128x1", "zncc_f64_11x11_b16x8", "zncc_f64_5x5x5_b16x8"] {
            let (kernel, source) = kernel(name);
            let output = run(&kernel, &source, INTEGERS);
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn a_wrong_score_is_found() {
    let name = "zncc_f32_2x2_b32x8";
    check_broken(name, "load", "    __syncthreads();\n    const auto add_sums", "    const auto add_sums");
    check_broken(name, "stage", "__syncthreads();  // the samples", "// the samples");
    check_broken(name, "window", "i < j + LENGTH) to[j]", "i < j + 1) to[j]");
    check_broken("zncc_f32_11x11_b32x8", "longer", "at(LENGTH - 1 + j)", "at(LENGTH + j)");
    check_broken("zncc_f32_11x11_b32x8", "along", "sums_of(sample(WIDTH))", "sums_of(sample(WIDTH - 1))");
    check_broken("zncc_f32_2x2x2_b32x2", "planes", "plane == 0 ? some", "plane >= 0 ? some");
    check_broken("zncc_f32_2x2x2_b32x2", "plane", "if (plane > 0) __syncthreads();", "");
    check_broken(name, "doubt", "energy > low + slope * square", "energy > low");
    check_broken(name, "faint", "low(threshold(k.doubt[0]))", "low(0)");
    check_broken(name, "large", " && square < MOST", "");
    check_broken(name, "nan", "if (square != square)", "if (false)");
    check_broken(name, "offset", "below == count / 2", "below == count / 3");
    check_broken("zncc_f32_3x3_b32x8", "fill", "(fill_of(im) - median)", "(fill_of(im))");
    check_broken(name, "keep", "x < wanted.from[1] || ", "");
    check_broken(name, "image", "image += tile.image * im.image_stride;", "");
    check_broken("zncc_f32_2_b128x1", "clamp", "return score < -1 ? -1 : score > 1 ? 1 : score;", "return score;");
    let bytes = "zncc_u8_2x2_b32x8";
    check_broken(bytes, "energy", "if (panel == 0) return Formula::DEGENERATE;", "");
    check_broken(bytes, "mask", "bytes(x - 4 * j, x + WIDTH - 4 * j)", "bytes(x - 4 * j, x + WIDTH + 1 - 4 * j)");
    check_broken(
        bytes,
        "middle",
        "if (rest - (0x10000000u - 64) < 128)",
        "if (true) return (Score)(1.0000002 * near); else",
    );
}

#[test]
fn a_longer_sum_is_found() {
    check_broken("corr_f32_17x17_b16x8", "subtotal", "if ((r + 1) % 8 == 0) patch.add_up();", "");
    check_broken("corr_f64_5x5x5_b16x8", "plane", "  patch.add_up();\n}", "}");
    check_broken("corr_f32_33_b128x1", "run", "constexpr int RUN = 16;", "constexpr int RUN = 32;");
    check_broken("corr_f32_any_b32x8", "any", "if (taken + count > RUN)", "if (taken + count > 2 * RUN)");
    check_broken("sad_f64_any_b16x8", "side", "++runs == side", "++runs == side + 1");
}

/// The cross term's source for scores in f64, with its own kernel in spite of `FLCC_FUSED`, adds up as `Kernel::chain`
/// says.
#[test]
fn scores_in_f64_add_up_as_they_are_said_to() {
    if compiler_present() {
        for size in ["33_b128x1", "11x11_b16x8", "17x17_b16x8", "32x32_b16x8", "4x4x4_b16x8", "5x5x5_b16x8"] {
            let ((corr, source), (scores, _)) =
                (kernel(&format!("corr_f64_{size}")), kernel(&format!("zncc_f64_{size}")));
            let own = "#ifndef FLCC_FUSED  // else the kernel";
            assert!(source.contains(own));
            let folder = format!("{}-sums", scores.name());
            let source = format!("#define FLCC_FUSED\n{}", source.replace(own, "#if 1  // the kernel"));
            let output = compile_and_run(&folder, &sums(&corr, &source, &scores));
            assert!(output.status.success(), "{size}: {}", String::from_utf8_lossy(&output.stdout));
            if scores.together() != corr.together() {
                let output = compile_and_run(&folder, &sums(&corr, &source, &corr));
                assert!(!output.status.success(), "{size}: scores are said to add up as the cross term does");
            }
        }
    }
}

#[test]
fn a_read_beyond_the_samples_is_found() {
    check_broken("corr_f32_2x2_b32x8", "rows", "INPUT_H = TILE_H + 2 - 1;", "INPUT_H = TILE_H + 2;");
    check_broken("corr_f64_any_b16x8", "columns", "(columns - 1 + PIECE - 1)", "(columns + 7 + PIECE - 1)");
    check_broken(
        "corr_f32_2_b128x1",
        "pieces",
        "INPUT_PIECES = BLOCK_W * GROUPS + 1",
        "INPUT_PIECES = BLOCK_W * GROUPS + 3",
    );
}

#[test]
fn a_store_outside_is_found() {
    check_broken("corr_u8_2x2_b32x8", "column", "x < columns", "x <= columns");
    check_broken("corr_f64_2x2_b16x8", "row", "y >= rows", "y > rows");
}

#[test]
fn another_order_of_adding_is_found() {
    let (from, to) = ("add_taps(acc[0], window, taps[r + 0], 2);", "");
    check_broken("corr_f32_2x2_b32x8", "missing", from, to);
    check_broken(
        "sad_f64_any_b16x8",
        "order",
        "for (int left = 0; left < width; left += CHUNK_W)",
        "for (int left = (width - 1) / CHUNK_W * CHUNK_W; left >= 0; left -= CHUNK_W)",
    );
}
