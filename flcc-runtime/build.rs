//! Names the code that results are computed with, so that wisdom of other code is other wisdom: `FLCC_CODE`, a hash of
//! the sources that decide what kernels, transforms, tiles and measures do.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where that code stands. What lies outside of the package is there in a checkout; elsewhere its version stands for
/// it. Of flcc-core it is what kernels are made of (instruction sets, sizes), the order of sums (blocks, runs) and the
/// measures.
const CODE: [&str; 15] = [
    "src/isa.rs",
    "src/isa",
    "src/cpu",
    "src/cuda",
    "src/problem",
    "src/run",
    "../flcc-core/src/blocks.rs",
    "../flcc-core/src/isa.rs",
    "../flcc-core/src/measure.rs",
    "../flcc-core/src/measure",
    "../flcc-core/src/runs.rs",
    "../flcc-core/src/sizes.rs",
    "../flcc-core/src/sizes",
    "../flcc-macros/src",
    "../generated/cuda",
];

/// The files at a path or below it.
fn files(path: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| files(&entry?.path(), found))
    } else {
        found.push(path.to_path_buf());
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let mut found = Vec::new();
    for path in CODE.map(Path::new).into_iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
        files(path, &mut found)?;
    }
    found.sort();
    // FNV-1a of 64 bits.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for path in found {
        for byte in fs::read(path)? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=FLCC_CODE={hash:016x}");
    Ok(())
}
