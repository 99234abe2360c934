//! Runs rendered kernels on the CPU, through shim.h and the system's C++ compiler, against a plain loop.
//!
//! Of each template the smallest, the median and the largest size, and the kernels of any size, with every boundary. Without a
//! compiler the tests say so and pass, unless FLCC_REQUIRE names `cxx`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use flcc_codegen::{Kernel, Matrix, render};
use flcc_core::dtype::DType;

/// The namespaces of check.h, in the order of the numbers in parts/load.
const BOUNDARIES: [&str; 6] = ["zero", "constant", "replicate", "reflect", "mirror", "wrap"];

/// Whether there is a compiler. Absence is printed; FLCC_REQUIRE=cxx makes it a failure.
fn compiler_present() -> bool {
    let present = cfg!(target_os = "linux") && Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    let required = std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == "cxx"));
    assert!(present || !required, "FLCC_REQUIRE names cxx, and g++ on Linux is absent");
    if !present {
        println!("absent: g++ on Linux, so no kernel ran");
    }
    present
}

fn kernel(name: &str) -> (Kernel, String) {
    let matrix = Matrix::committed();
    let kernel = matrix.kernels.iter().find(|kernel| kernel.key.to_string() == name).unwrap_or_else(|| panic!("no kernel {name}"));
    let files = render(&matrix).expect("the matrix renders");
    let file = files.into_iter().find(|file| file.path == format!("cuda/{name}.cu")).expect("a kernel has its file");
    (kernel.clone(), file.text)
}

/// Compiles `source` once per boundary into one program and runs it.
fn run(kernel: &Kernel, source: &str, case: &str) -> Output {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{case}", kernel.key));
    fs::create_dir_all(&folder).unwrap();
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

    let mut program = String::from("#include \"shim.h\"\n");
    // Six copies of one C function would be one function.
    let source = source.replace("extern \"C\" ", "");
    for (number, name) in BOUNDARIES.iter().enumerate() {
        program += &format!("#undef FLCC_BOUNDARY\n#define FLCC_BOUNDARY {number}\nnamespace {name} {{\n{source}}}\n");
    }
    program += &format!(
        "#define KERNEL {}\n#define SIDE {}\n#define FLOATS {}\n#define TAPS_STRIDE {}\n#include \"check.h\"\n",
        kernel.key,
        kernel.sides().map_or(0, |[height, _]| height),
        kernel.key.dtype() == DType::F32,
        kernel.taps_stride().unwrap_or(0),
    );
    let (text, binary) = (folder.join("run.cpp"), folder.join("run"));
    fs::write(&text, program).unwrap();
    let flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-I", tests, "-o"];
    let compiled = Command::new("g++").args(flags).arg(&binary).arg(&text).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Command::new(&binary).output().unwrap()
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
        assert!(source.contains(from), "{name} does not hold {from}");
        let output = run(&kernel, &source.replacen(from, to, 1), case);
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
            for dtype in [DType::F32, DType::U8] {
                let mut sides: Vec<[usize; 2]> =
                    Matrix::committed().kernels.iter().filter(|kernel| kernel.key.dtype() == dtype).filter_map(Kernel::sides).collect();
                sides.sort();
                for [height, width] in [sides[0], sides[sides.len() / 2], sides[sides.len() - 1]] {
                    let start = format!("corr_{dtype}_{height}x{width}_");
                    assert!(listed.iter().any(|name| name.starts_with(&start)), "{start} is not run");
                }
                assert!(listed.iter().any(|name| name.starts_with(&format!("corr_{dtype}_any_"))));
            }
        }
    };
}

kernels! {
    corr_f32_2x2_b32x8
    corr_f32_11x11_b32x8
    corr_f32_32x32_b16x8
    corr_f32_any_b32x8
    corr_u8_2x2_b32x8
    corr_u8_11x11_b32x8
    corr_u8_32x32_b32x8
    corr_u8_any_b32x8
}

#[test]
fn a_missing_barrier_is_found() {
    check_broken("corr_f32_2x2_b32x8", "load", "g.origin_x + x0);\n  __syncthreads();", "g.origin_x + x0);");
    check_broken("corr_f32_2x2_b32x8", "stage", "__syncthreads();  // the stage", "// the stage");
}

#[test]
fn a_wrong_fold_is_found() {
    check_broken("corr_u8_2x2_b32x8", "mirror", "2 * n - 2 - j", "2 * n - 1 - j");
    check_broken("corr_u8_2x2_b32x8", "wrap", "if (j < 0) j += period;", "");
}

#[test]
fn a_store_outside_is_found() {
    check_broken("corr_u8_2x2_b32x8", "store", "x0 + x < g.out_width", "x0 + x < g.out_width + 1");
}
