//! The bits of results: every kernel that serves a spec gives the same ones for any number of threads, and a change
//! that is to change none can be held against what stood before.
//!
//! `FLCC_BITS=FILE cargo test --release -p flcc-runtime --test bits` writes a line for each kernel of each spec on each
//! instruction set (spec, instruction set, kernel, hash of the result) where FILE is not there, and compares where it
//! is. The lines are those of one machine: libraries choose their own code by the processor.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::{Problem, Seed};
use flcc_runtime::rooms::plan::solvers::SOLVERS;
use flcc_runtime::{Machine, Pixels, Planner, Platform, ScoreMap};

/// About 200 specs: every measure with every type in 1D, 2D and 3D, with templates of several sizes, and what else
/// takes a way of its own.
fn specs() -> Vec<String> {
    let mut all = Vec::new();
    let shapes = ["900*7", "700*80", "60x70*5x7", "70x90*16x16", "140x150*33x40", "14x15x16*3x4x5"];
    let modes = ["full", "same,reflect", "valid", "full,constant(3.0)", "valid", "same,wrap"];
    for (i, op) in ["corr", "conv", "zncc", "ncc", "ssd", "nssd", "sad"].iter().enumerate() {
        for (j, types) in ["u8", "u16", "f32", "f64", "f64>f32"].iter().enumerate() {
            for (k, shape) in shapes.iter().enumerate() {
                // Each pair of a measure and a type meets half of the shapes, and the other half meets the next type.
                if (i + j + k) % 2 == 0 {
                    all.push(format!("{op}:{types}:{shape}:{}", modes[(i + j + k / 2) % modes.len()]));
                }
            }
        }
    }
    for op in ["zncc", "ssd", "ncc"] {
        for types in ["u8", "f32", "f64"] {
            for (rest, shape) in [
                ("valid,acc=exact", "70x90*12x11"),
                ("full,acc=fast", "70x90*12x11"),
                ("full,maskw", "60x70*9x8"),
                ("valid,mask01", "60x70*9x8"),
                ("same,mirror,channels=3", "50x60*8x9"),
                ("valid", "60x70*3@9x8"),
                ("full,acc=fast", "3000*60"),
                ("valid", "30x30x30*8x8x8"),
            ] {
                all.push(format!("{op}:{types}:{shape}:{rest}"));
            }
        }
    }
    all
}

/// A spec's problem with what makes engines look twice: a bright sample, equal ones, and in floats one that is no
/// number.
fn problem(text: &str) -> Problem {
    let mut problem = Problem::new(text, 7);
    let mut values = problem.image.to_f64();
    let (count, float) = (values.len(), problem.spec.image_type().row().max.is_none());
    values[count / 3] = if float { 3e4 } else { 200.0 };
    values[count / 2..count / 2 + count / 10].fill(5.0);
    if float && text.contains("full") {
        values[count / 7] = f64::NAN;
    }
    problem.image = Pixels::F64(values).cast(problem.spec.image_type());
    problem
}

/// FNV-1a of a result's bits.
fn hash(maps: &[ScoreMap]) -> u64 {
    let values = maps.iter().flat_map(|map| (0..map.shape().len()).map(|at| map.get(at)));
    // What is no number has many bit patterns, of which none is promised.
    let bits = values.flat_map(|value| if value.is_nan() { [0xff; 8] } else { value.to_bits().to_le_bytes() });
    bits.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The hash of each kernel that serves a spec on each instruction set, by name.
fn hashes(text: &str) -> BTreeMap<String, u64> {
    let problem = problem(text);
    let spec = &problem.spec;
    let mut found = BTreeMap::new();
    let here = Machine::detect().unwrap();
    for isa in here.isas().iter() {
        let machine = here.clone().with_isa(isa);
        for solver in SOLVERS.iter().filter(|solver| solver.platform() == Platform::Cpu) {
            for offer in solver.offers(spec, &machine).into_iter().flatten() {
                let run = |threads: usize| {
                    let planner = Planner::with_machine(machine.clone()).threads(threads).platform(Platform::Cpu);
                    let plan = planner.plan_with_kernel(spec, &offer.kernel).unwrap();
                    let templates = vec![problem.template(); spec.templates()];
                    hash(
                        &plan
                            .execute(&[problem.image()], &templates, problem.mask().as_ref().map(|mask| mask as _))
                            .unwrap(),
                    )
                };
                let one = run(1);
                assert_eq!(one, run(3), "{text} by {} on {isa}: other bits for other threads", offer.kernel);
                found.insert(format!("{text} {isa} {}", offer.kernel), one);
            }
        }
    }
    found
}

#[test]
fn bits_do_not_depend_on_threads_nor_on_what_was_changed() {
    let specs = specs();
    let ledger = std::env::var_os("FLCC_BITS");
    // All of them where they are asked for; else some, for they take minutes without optimisation.
    let step = if ledger.is_some() { 1 } else { 16 };
    let chosen: Vec<&String> = specs.iter().skip(Seed(1).below(step)).step_by(step).collect();
    let found: BTreeMap<String, u64> = common::in_threads(&chosen, |text| hashes(text)).into_iter().flatten().collect();
    assert!(found.len() > chosen.len(), "{} kernels for {} specs", found.len(), chosen.len());
    let Some(path) = ledger else { return };
    let text = found.iter().fold(String::new(), |mut text, (name, hash)| {
        writeln!(text, "{hash:016x} {name}").unwrap();
        text
    });
    match std::fs::read_to_string(&path) {
        Err(_) => std::fs::write(&path, text).unwrap(),
        Ok(before) => {
            let changed: Vec<&str> = before.lines().filter(|line| !text.lines().any(|other| other == *line)).collect();
            assert!(changed.is_empty(), "{} of {} lines are not as before: {changed:#?}", changed.len(), found.len());
        }
    }
}
