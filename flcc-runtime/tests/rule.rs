//! What stands twice, in Rust and in a kernel: by the rule of doubt random figures of tiles lead to the same
//! thresholds, and panels in doubt to the same scores.
//!
//! The kernels run on the CPU, through flcc-codegen's shim.h and the system's C++ compiler. Without one the tests say
//! so and pass, unless FLCC_REQUIRE names `cxx`.
#![cfg(feature = "cuda")]

mod common;
#[path = "rule/repair.rs"]
mod repair;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{Seed, absent};
use flcc_runtime::Measure;
use flcc_runtime::core::wide::Wide;
use flcc_runtime::rooms::cuda::driver::buffer::bytes_of;
use flcc_runtime::rooms::cuda::driver::launch::{Thresholds, TileFigures};
use flcc_runtime::rooms::problem::error_model::{Doubt, Figures, Library, Model, Promise, Rounding, Strong, Unseen};

/// Tiles of each template.
const TILES: usize = 500;

/// Reads thresholds with the results of a transform, what a wave comes to and the figures of tiles, and prints the bits
/// of what the kernel makes of them.
const PROGRAM: &str = r#"
// Parts of a tile: more than a warp has threads.
constexpr int SLICES = 40;
int main(int, char** arguments) {
  FILE* in = std::fopen(arguments[1], "rb");
  FlccDoubt d;
  while (std::fread(&d, sizeof d, 1, in) == 1) {
    double results, wave;
    if (std::fread(&results, 8, 1, in) + std::fread(&wave, 8, 1, in) != 2) return 1;
    std::vector<FlccFigures> samples(TILES), cross(TILES);
    // Two channels.
    std::vector<double> strong(TILES * (1 + 2 * SLICES));
    for (int i = 0; i < TILES; i++) {
      double parts[3];
      if (std::fread(&samples[i], 16, 1, in) + std::fread(&cross[i], 16, 1, in) + std::fread(parts, 24, 1, in) != 3)
        return 1;
      double* of_tile = &strong[i * (1 + 2 * SLICES)];
      of_tile[0] = parts[0], of_tile[1] = parts[1], of_tile[2 * SLICES] = parts[2];
    }
    std::vector<double> doubt(2 * TILES);
    launch({(TILES + 7) / 8, 1, 1}, {256, 1, 1}, [&] {
      flcc_doubt(d, results, wave, samples.data(), cross.data(), strong.data(), SLICES, doubt.data(), TILES, 2);
    });
    for (double value : doubt) std::printf("%llx\n", (unsigned long long)__double_as_longlong(value));
  }
  return 0;
}
"#;

/// The folder in which a program of the pipeline is compiled, with what stands before its source and after it; `None`
/// without a compiler.
fn compiled(name: &str, before: &str, after: &str) -> Option<PathBuf> {
    if !Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success()) {
        absent("cxx", "g++");
        return None;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let [text, program] = ["run.cpp", "run"].map(|name| folder.join(name));
    fs::write(&text, format!("#include \"shim.h\"\n{before}{}{after}", flcc_generated::PIPELINE)).unwrap();
    let shim = concat!(env!("CARGO_MANIFEST_DIR"), "/../flcc-codegen/tests");
    let flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-I", shim, "-o"];
    let compiled = Command::new("g++").args(flags).arg(&program).arg(&text).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(folder)
}

/// A number of any size, now and then 0.
fn any_size(seed: &mut Seed) -> f64 {
    if seed.below(9) == 0 { 0.0 } else { (seed.unit() + 0.5) * 10f64.powi(seed.below(40) as i32 - 20) }
}

/// What the model says of a random template, and thresholds that no model makes.
fn templates(seed: &mut Seed) -> Vec<(Doubt, Figures)> {
    let mut found = Vec::new();
    for (deviations, by) in
        [Some(8.0), Some(3.0), None].into_iter().flat_map(|of| [Library::CUFFT, Library::RUSTFFT].map(|by| (of, by)))
    {
        let weights: Vec<f64> = (0..77).map(|_| seed.unit()).collect();
        for (measure, weights) in [(Measure::Zncc, None), (Measure::Nssd, Some(&weights[..]))] {
            let values: Vec<f64> = (0..77).map(|_| seed.normal()).collect();
            let figures = Figures { wave: 9.0 * seed.unit(), ..Figures::of([&values[..]].into_iter()) };
            let rounding = Rounding::Fourier { len: (1 << seed.below(22)) as f64, by };
            let promise = Some(Promise { error: 1e-5, deviations });
            let (roundoff, samples) = (f64::from(f32::EPSILON) / 2.0, seed.unit());
            let rounds_samples = seed.below(2) == 0;
            let wide = Wide::default();
            let model =
                Model { measure, promise, roundoff, taps: 77.0, samples, rounds_samples, rounding, wide, weights };
            found.push((model.doubt(&figures), figures));
        }
    }
    for _ in 0..40 {
        let [of_tile, of_result, of_peak, of_energy, least, share] = [0; 6].map(|_| any_size(seed));
        let figures = Figures { largest: any_size(seed), wave: any_size(seed), ..Figures::default() };
        found.push((Doubt { of_tile, of_result, of_peak, of_energy, least, share }, figures));
    }
    found
}

struct Tile {
    results: f64,
    samples: TileFigures,
    cross: TileFigures,
    strong: Strong,
}

#[test]
fn the_kernel_of_doubt_has_the_rule_of_the_cpu() {
    let Some(folder) =
        compiled("rule", &format!("#define FLCC_MEASURE FLCC_ZNCC\nconstexpr int TILES = {TILES};\n"), PROGRAM)
    else {
        return;
    };
    let [program, numbers] = ["run", "numbers"].map(|name| folder.join(name));

    let mut seed = Seed(3);
    let templates = templates(&mut seed);
    let mut tiles: Vec<Tile> = Vec::new();
    let mut bytes: Vec<u8> = Vec::new();
    for (doubt, of_template) in &templates {
        bytes.extend_from_slice(bytes_of(&[Thresholds::new(*doubt, of_template.largest)]));
        let results = (1 + seed.below(1 << 25)) as f64;
        bytes.extend_from_slice(bytes_of(&[results, of_template.wave]));
        for _ in 0..TILES {
            let mut figures = || TileFigures { squares: any_size(&mut seed), largest: any_size(&mut seed) };
            let (samples, cross) = (figures(), figures());
            bytes.extend_from_slice(bytes_of(&[samples.squares, samples.largest, cross.squares, cross.largest]));
            let [usual, first, second] = [0; 3].map(|_| any_size(&mut seed));
            bytes.extend_from_slice(bytes_of(&[usual, first, second]));
            tiles.push(Tile { results, samples, cross, strong: Strong { usual, sum: first + second } });
        }
    }
    fs::write(&numbers, bytes).unwrap();
    let output = Command::new(&program).arg(&numbers).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let told = String::from_utf8(output.stdout).unwrap();
    let found: Vec<f64> = told.lines().map(|line| f64::from_bits(u64::from_str_radix(line, 16).unwrap())).collect();
    assert_eq!(found.len(), 2 * tiles.len());

    let (mut of_peak, mut of_copies) = (0, 0);
    for (index, (tile, found)) in tiles.iter().zip(found.chunks(2)).enumerate() {
        let (doubt, of_template) = templates[index / TILES];
        let result = (tile.cross.squares / tile.results).sqrt();
        // As cpu/score/ways/rows.rs calls it; and without copies.
        let TileFigures { squares, largest } = tile.samples;
        let unseen = Unseen { largest: of_template.largest, wave: of_template.wave };
        let (low, share) = doubt.at_peak(squares, result, tile.cross.largest.max(unseen.most(largest, &tile.strong)));
        let seen = tile.cross.largest.max(largest * of_template.largest);
        assert!((found[0] - low).abs() <= 1e-12 * low, "{doubt:?}, {of_template:?}: {}, expected {low}", found[0]);
        assert_eq!(found[1], share);
        of_peak += usize::from(low > 1.001 * doubt.at(tile.samples.squares, result).0);
        of_copies += usize::from(low > 1.001 * doubt.at_peak(tile.samples.squares, result, seen).0);
    }
    assert!(of_copies > tiles.len() / 100, "copies count in {of_copies} of {} tiles", tiles.len());
    assert!(
        of_peak > tiles.len() / 4 && of_peak < tiles.len(),
        "the peak counts in {of_peak} of {} tiles",
        tiles.len()
    );
}
