//! Runs the pipeline's kernels on the CPU, through shim.h and the system's C++ compiler, against plain loops.
//!
//! Each row is one set of options; together they name every pixel type, boundary and measure. Without a compiler the
//! tests say so and pass, unless FLCC_REQUIRE names `cxx`.

mod gxx;

use std::process::Output;

use gxx::{broken, compile_and_run, compiler_present, text_of};

/// Options of a compilation, by the names of the source without `FLCC_`.
type Options<'a> = &'a [(&'a str, &'a str)];

fn source() -> &'static str {
    text_of("pipeline.cu")
}

fn run(source: &str, options: Options<'_>, case: &str) -> Output {
    let defines: String = options.iter().map(|(name, value)| format!("#define FLCC_{name} {value}\n")).collect();
    let program = format!("#include \"shim.h\"\n{defines}{source}#include \"pipeline_check.h\"\n");
    compile_and_run(&format!("pipeline-{case}"), &program)
}

#[track_caller]
fn check(case: &str, options: Options<'_>) {
    if compiler_present() {
        let output = run(source(), options, case);
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A source that is changed must not pass.
#[track_caller]
fn check_broken(case: &str, options: Options<'_>, from: &str, to: &str) {
    if compiler_present() {
        let output = run(&broken(source(), from, to), options, case);
        assert!(!output.status.success(), "the source passes with {to:?} for {from:?}");
    }
}

macro_rules! rows {
    ($($case:ident: $($name:ident = $value:ident),*;)*) => {
        $(
            #[test]
            fn $case() {
                check(stringify!($case), &[$((stringify!($name), concat!("FLCC_", stringify!($value)))),*]);
            }
        )*
    };
}

rows! {
    zncc_f32: PIXEL = F32, REAL = F32, CROSS = CROSS_F32, BOUNDARY = ZERO, MEASURE = ZNCC, OUT = F32;
    zncc_f32_of_large_panels: PIXEL = F32, REAL = F32, CROSS = CROSS_F32, BOUNDARY = WRAP, MEASURE = ZNCC, OUT = F32,
        LARGE = YES;
    zncc_f64_in_f32: PIXEL = F64, REAL = F32, CROSS = CROSS_F32, BOUNDARY = MIRROR, MEASURE = ZNCC, OUT = F32;
    zncc_f64: PIXEL = F64, REAL = F64, CROSS = CROSS_F64, BOUNDARY = CONSTANT, MEASURE = ZNCC, OUT = F64;
    zncc_u16_in_f32: PIXEL = U16, REAL = F32, CROSS = CROSS_F32, BOUNDARY = REPLICATE, MEASURE = ZNCC, OUT = F32;
    ncc_f32: PIXEL = F32, REAL = F32, CROSS = CROSS_F32, BOUNDARY = REPLICATE, MEASURE = NCC, OUT = F32;
    nssd_f64: PIXEL = F64, REAL = F64, CROSS = CROSS_F64, BOUNDARY = REFLECT, MEASURE = NSSD, OUT = F64;
    cc_f64: PIXEL = F64, REAL = F64, CROSS = CROSS_F64, BOUNDARY = WRAP, MEASURE = CC, OUT = F64;
    ssd_f64: PIXEL = F64, REAL = F64, CROSS = CROSS_F64, BOUNDARY = REPLICATE, MEASURE = SSD, OUT = F64;
    ssd_f32: PIXEL = F32, REAL = F32, CROSS = CROSS_F32, BOUNDARY = ZERO, MEASURE = SSD, OUT = F32;
    sad_f32_in_f64: PIXEL = F32, REAL = F64, CROSS = CROSS_F64, BOUNDARY = CONSTANT, MEASURE = SAD, OUT = F64;

    integers_zncc_u8: PIXEL = U8, REAL = U8, CROSS = CROSS_U32, BOUNDARY = CONSTANT, MEASURE = ZNCC, OUT = F32,
        INTEGERS = NARROW;
    integers_cc_u8: PIXEL = U8, REAL = U8, CROSS = CROSS_U64, BOUNDARY = REFLECT, MEASURE = CC, OUT = F64,
        INTEGERS = NARROW;
    integers_zncc_u16: PIXEL = U16, REAL = F64, CROSS = CROSS_F64, BOUNDARY = WRAP, MEASURE = ZNCC, OUT = F64,
        INTEGERS = WIDE, ROUNDS = YES;
    integers_ssd_u16: PIXEL = U16, REAL = F64, CROSS = CROSS_F64, BOUNDARY = MIRROR, MEASURE = SSD, OUT = F64,
        INTEGERS = WIDE;
    integers_nssd_u16: PIXEL = U16, REAL = F64, CROSS = CROSS_F64, BOUNDARY = REFLECT, MEASURE = NSSD, OUT = F64,
        INTEGERS = WIDE;
}

const ZNCC_F32: Options<'static> = &[("MEASURE", "FLCC_ZNCC")];

#[test]
fn a_missing_barrier_is_found() {
    check_broken("barrier", ZNCC_F32, "  __syncthreads();  // both buffers are still being read\n", "");
}

#[test]
fn a_wrong_sum_is_found() {
    check_broken("window", ZNCC_F32, "held(next + rest + j)", "held(next + rest)");
    check_broken("column", ZNCC_F32, "if (r > 0) sum += prefix", "if (r > 1) sum += prefix");
    check_broken("group", ZNCC_F32, "rest + i == DEEP", "rest + i == DEEP + 1");
    check_broken("groups", ZNCC_F32, "groups[group + i][lane]", "groups[group + 1][lane]");
}

#[test]
fn a_wrong_sample_is_found() {
    check_broken("offset", ZNCC_F32, "below == count / 2", "below == 0");
    check_broken("given", ZNCC_F32, "given[channel]", "given[0]");
    check_broken("scale", ZNCC_F32, "power_of_two(-e);", "power_of_two(1 - e);");
    // The fill counts for tiles that reach outside, and for no others.
    let constant = [("PIXEL", "FLCC_F64"), ("REAL", "FLCC_F64"), ("CROSS", "FLCC_CROSS_F64"), ("OUT", "FLCC_F64")];
    let constant = [&constant[..], &[("MEASURE", "FLCC_ZNCC"), ("BOUNDARY", "FLCC_CONSTANT")]].concat();
    check_broken("fill", &constant, "double most = 0;", "double most = difference(fill_of(im));");
    check_broken("hit", ZNCC_F32, "d < j + window) hit", "d < j + window - 1) hit");
}

#[test]
fn a_wrong_decision_is_found() {
    check_broken("doubt", ZNCC_F32, "energy > low + share * all_squares", "energy > 0");
    check_broken("faint", ZNCC_F32, "energy > low + share * all_squares", "energy > share * all_squares");
    check_broken("peak", ZNCC_F32, "added ? all.largest + largest", "false ? all.largest + largest");
    check_broken(
        "overflow",
        &[("MEASURE", "FLCC_SSD")],
        "return !(panel + of_template <= limit) &&",
        "return false &&",
    );
    check_broken("noise", ZNCC_F32, "noise.rows[line - z * height]", "noise.rows[0]");
    check_broken("strong", ZNCC_F32, "> usual ? value * factor : 0.0", "> usual ? value * factor : value");
    check_broken(
        "channels",
        ZNCC_F32,
        "(tile * channels + channel) * gridDim.x + blockIdx.x",
        "tile * channels * gridDim.x + blockIdx.x",
    );
}

#[test]
fn a_wrong_rounding_is_found() {
    const WIDE: Options<'static> =
        &[("PIXEL", "FLCC_U16"), ("REAL", "FLCC_F64"), ("CROSS", "FLCC_CROSS_F64"), ("INTEGERS", "2")];
    check_broken("rounding", WIDE, "low << shift != 0 ? 1 : 0", "0");
}
