//! Every CUDA source compiles to machine code for the architectures that are served, without spilling a register. Needs
//! NVRTC and no GPU; where NVRTC is absent, that is said. Of sources that generated/PROVEN has by their hash, a sample
//! of the compilations is repeated.
//!
//! With `FLCC_PROVE=FILE` it compiles every source for every architecture and writes a line each: name, hash of the
//! source, architecture, registers, bytes spilled. `cargo xtask gen --prove` makes generated/PROVEN of that. With
//! `FLCC_PROVE_ONLY=WORD` beside it, those are compiled whose names begin with that word.
#![cfg(feature = "cuda")]

mod common;

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use common::absent;
use flcc_generated::{Entry, PEAKS, PIPELINE, STRAIGHT, kernels};
use flcc_runtime::machine::Device;
use flcc_runtime::rooms::cuda::driver::compile::{architectures, compile_with_log, version};
use flcc_runtime::rooms::cuda::kernels::Part;
use flcc_runtime::rooms::cuda::solver::direct::holds_integers;
use flcc_runtime::rooms::cuda::solver::recipe::Recipe;
use flcc_runtime::rooms::plan::solvers::SOLVERS;
use flcc_runtime::{Machine, Platform, Spec};

/// The architecture that most are compiled for in each run.
const MAIN: u32 = 90;

/// The others. NVRTC knows 100 and 120 since 12.8.
const OTHERS: [u32; 6] = [75, 80, 86, 89, 100, 120];

/// Why a kernel spills whose transforms alone take 64 of the 128 registers a thread.
const HELD: &str = "some numbers are held over two transforms, stored and loaded once";

/// Spills that are accepted: source, architecture, bytes, and why.
const ACCEPTED: &[(&str, u32, usize, &str)] = &[
    ("zncc_f32_11x11_b32x8", 100, 24, "stored and loaded once: 16 bytes by NVRTC 12.9, 24 by 12.8"),
    ("zncc32_f32_any_b32x16", 100, 40, HELD),
    ("zncc32_f32_any_b32x16", 120, 40, HELD),
    ("zncc64_f32_any_b16x16", 90, 16, "stored and loaded once, where a value stands outside the image"),
];

const PARTS: [(Part, &str); 5] = [
    (Part::Gather, "gather"),
    (Part::Sums, "sums"),
    (Part::Fourier, "fourier"),
    (Part::Finish, "finish"),
    (Part::Repair, "repair"),
];

/// The options with their values, as templates/cuda/pipeline/{words,fold} have them.
const OPTIONS: [(&str, usize); 9] = [
    ("PIXEL", 4),
    ("REAL", 4),
    ("CROSS", 4),
    ("OUT", 4),
    ("BOUNDARY", 6),
    ("MEASURE", 6),
    ("INTEGERS", 3),
    ("ROUNDS", 2),
    ("LARGE", 2),
];

/// The options that a part's code depends on; `the_other_options_change_nothing` holds it to that.
fn matters(part: Part, option: &str) -> bool {
    let those: &[&str] = match part {
        Part::Gather => &["PIXEL", "REAL", "BOUNDARY"],
        Part::Sums => &["REAL", "MEASURE"],
        Part::Fourier => &["REAL", "CROSS"],
        Part::Finish => &["PIXEL", "REAL", "CROSS", "OUT", "MEASURE", "INTEGERS", "ROUNDS"],
        Part::Repair => &["PIXEL", "BOUNDARY", "OUT", "MEASURE", "INTEGERS", "LARGE"],
    };
    those.contains(&option)
}

/// Whether a kernel makes scores on tensor cores, with the template's sides as constants.
fn on_tensor_cores(entry: &Entry) -> bool {
    entry.op.starts_with("znccmma")
}

/// The options of a kernel of scores, with other values for some; none for the others.
fn scores(entry: &Entry, others: &[(&str, usize)]) -> Vec<String> {
    if entry.op != "zncc" && !on_tensor_cores(entry) {
        return Vec::new();
    }
    let (real, integers) = match entry.dtype {
        "u8" => (0, 1),
        "f32" => (2, 0),
        _ => (3, 0),
    };
    let mut values = BTreeMap::from([
        ("PIXEL", real),
        ("REAL", real),
        ("OUT", if real == 3 { 3 } else { 2 }),
        ("INTEGERS", integers),
        ("BOUNDARY", 3),
    ]);
    values.extend(others.iter().copied());
    let mut options: Vec<String> = if entry.op == "zncc" { vec!["-DFLCC_FUSED".into()] } else { Vec::new() };
    options.extend(values.iter().map(|(name, value)| format!("-DFLCC_{name}={value}")));
    if values["INTEGERS"] > 0 {
        options.extend(["--fmad=false".into(), "--device-int128".into()]);
    }
    options
}

/// The kernels of scores in f64 that integers are given to.
fn integers() -> impl Iterator<Item = &'static Entry> {
    kernels()
        .iter()
        .filter(|entry| entry.op == "zncc" && entry.dtype == "f64" && entry.size().is_some_and(holds_integers))
}

/// Whether a kernel sums windows up in two floats where f64 is slow.
fn sums_in_two(entry: &Entry) -> bool {
    entry.op.starts_with("zncc") && entry.dtype == "f32"
}

/// One of them that does, with other values for some options.
fn slow(entry: &Entry, others: &[(&str, usize)], architecture: u32) -> Unit {
    let mut options = scores(entry, others);
    if options.is_empty() {
        options.extend(others.iter().map(|(name, value)| format!("-DFLCC_{name}={value}")));
    }
    options.push("-DFLCC_SLOW_F64=1".into());
    Unit { options, ..Unit::of(entry, architecture) }
}

/// Scores by large transforms whose windows are those of wide templates, with other values for some options.
fn teams(others: &[(&str, usize)], architecture: u32) -> Vec<Unit> {
    let entries = kernels().iter().filter(|entry| entry.function == "flcc_rows_there");
    let unit = |entry| {
        let mut options: Vec<String> = others.iter().map(|(name, value)| format!("-DFLCC_{name}={value}")).collect();
        options.push("-DFLCC_TEAM=4".into());
        Unit { options, ..Unit::of(entry, architecture) }
    };
    entries.map(unit).collect()
}

/// One of them with integers of 16 bits.
fn exact(entry: &Entry, architecture: u32) -> Unit {
    Unit { options: scores(entry, &[("PIXEL", 1), ("OUT", 2), ("INTEGERS", 1)]), ..Unit::of(entry, architecture) }
}

/// Sides of templates that a kernel on tensor cores is compiled for: the least, one and two stretches of 16 samples at
/// a time, an odd number of rows, the most rows, columns and taps.
const TENSOR_SIDES: [[usize; 2]; 8] = [[4, 4], [16, 16], [7, 17], [33, 50], [64, 64], [4, 256], [32, 256], [256, 32]];

/// The kernels on tensor cores with each of those.
fn tensor(architecture: u32) -> impl Iterator<Item = Unit> {
    let entries = kernels().iter().filter(|entry| on_tensor_cores(entry));
    entries.flat_map(move |entry| {
        TENSOR_SIDES.map(|[height, width]| {
            let mut unit = Unit::of(entry, architecture);
            unit.options.extend([format!("-DFLCC_TH={height}"), format!("-DFLCC_TW={width}")]);
            unit
        })
    })
}

/// The name of a define in `-DFLCC_NAME=VALUE`.
fn define(option: &str) -> Option<&str> {
    option.strip_prefix("-DFLCC_")?.split('=').next()
}

/// One compilation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    name: String,
    source: Cow<'static, str>,
    options: Vec<String>,
    architecture: u32,
}

impl Unit {
    fn of(entry: &Entry, architecture: u32) -> Unit {
        Unit { name: entry.name.into(), source: entry.source().into(), options: scores(entry, &[]), architecture }
    }

    fn title(&self) -> String {
        format!("{} for sm_{} {}", self.name, self.architecture, self.options.join(" "))
    }

    fn compile(&self) -> Result<(Vec<u8>, String), String> {
        let target = format!("sm_{}", self.architecture);
        // Scores by large transforms follow a source whose own ends they leave out.
        let large = flcc_generated::kernel(&self.name).filter(|entry| entry.function == "flcc_rows_there");
        let mut options = self.options.clone();
        options.extend(large.map(|_| "-DFLCC_SCORED".into()));
        compile_with_log(&self.name.replace('/', "_"), &self.source, &options, &target)
            .map_err(|fault| fault.to_string())
    }
}

/// The instructions of a cubin: its sections `.text.*` by name. Beside them lie constants that nothing reads.
fn instructions(cubin: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let number = |at: usize, bytes: usize| {
        cubin[at..at + bytes].iter().rev().fold(0usize, |all, &byte| all << 8 | usize::from(byte))
    };
    let header = |index: usize| number(0x28, 8) + index * number(0x3a, 2);
    let body = |index: usize| &cubin[number(header(index) + 0x18, 8)..][..number(header(index) + 0x20, 8)];
    let names = body(number(0x3e, 2));
    let name = |index: usize| {
        let bytes = names[number(header(index), 4)..].iter().take_while(|byte| **byte != 0);
        bytes.map(|byte| char::from(*byte)).collect::<String>()
    };
    let text = (0..number(0x3c, 2)).filter(|&index| name(index).starts_with(".text."));
    text.map(|index| (name(index), body(index).to_vec())).collect()
}

/// What a thread takes: the most of a source's kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    registers: usize,
    spilled: usize,
}

impl Usage {
    fn most(self, other: Usage) -> Usage {
        Usage { registers: self.registers.max(other.registers), spilled: self.spilled.max(other.spilled) }
    }
}

/// What the assembler said; `None` if it did not say it of every kernel.
fn usage(log: &str) -> Option<Usage> {
    // The number right before a phrase.
    let number = |line: &str, phrase: &str| line.split_once(phrase)?.0.rsplit(' ').next()?.parse::<usize>().ok();
    let (mut most, mut kernels, mut used, mut spills) = (Usage::default(), 0, 0, 0);
    for line in log.lines() {
        kernels += usize::from(line.contains("Compiling entry function"));
        if line.contains(" bytes spill stores") {
            spills += 1;
            most.spilled = most.spilled.max(number(line, " bytes spill stores")? + number(line, " bytes spill loads")?);
        }
        if line.contains(" : Used ") {
            used += 1;
            most.registers = most.registers.max(number(line, " registers")?);
        }
    }
    (kernels > 0 && spills >= kernels && used == kernels).then_some(most)
}

/// The number of this process and of all of them: NVRTC compiles one program at a time in a process, so several share
/// the work.
const SHARE: &str = "FLCC_NVRTC_SHARE";

/// What every unit takes, compiled by as many processes as there are cores: this test again, each with its share.
fn compile_all(units: &[Unit]) -> Vec<Result<Usage, String>> {
    let program = env::current_exe().expect("this test is a program");
    let count = thread::available_parallelism().map_or(1, usize::from);
    let start = |share: usize| {
        let mut command = Command::new(&program);
        command.args(["--exact", "every_source_compiles_and_spills_nothing", "--nocapture"]);
        // What NVRTC takes from the cache of a driver comes without the assembler's log.
        command.env("CUDA_CACHE_DISABLE", "1");
        command.env(SHARE, format!("{share}/{count}")).stdout(Stdio::piped()).spawn().expect("it starts again")
    };
    let others: Vec<_> = (0..count).map(start).collect();
    let mut results = vec![Err("its process told nothing of it".to_string()); units.len()];
    // All write at once, so each is read by a thread of its own.
    let told = in_parallel(others, |other| other.wait_with_output().expect("it ends").stdout);
    for line in told.iter().flat_map(|text| std::str::from_utf8(text).expect("text").lines()) {
        let Some((at, result)) = line.strip_prefix("unit ").and_then(|rest| rest.split_once(' ')) else { continue };
        let at: usize = at.parse().expect("a number");
        let usage = result
            .split_once(' ')
            .and_then(|(registers, spilled)| Some((registers.parse().ok()?, spilled.parse().ok()?)));
        results[at] =
            usage.map(|(registers, spilled)| Usage { registers, spilled }).ok_or_else(|| result.replace("\\n", "\n"));
    }
    results
}

/// Compiles this process's share and prints a line for each: its number, then registers and bytes spilled, or what went
/// wrong.
fn compile_share(units: &[Unit], share: &str) {
    let (mine, all) = share.split_once('/').expect("two numbers");
    let (mine, all): (usize, usize) = (mine.parse().expect("a number"), all.parse().expect("a number"));
    for (at, unit) in units.iter().enumerate().skip(mine).step_by(all) {
        match compile(unit) {
            Ok(usage) => println!("unit {at} {} {}", usage.registers, usage.spilled),
            Err(reason) => println!("unit {at} {}", reason.replace('\n', "\\n")),
        }
    }
}

fn in_parallel<T: Send, R: Send>(list: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = list.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no work panics")).collect()
    })
}

fn compile(unit: &Unit) -> Result<Usage, String> {
    let (cubin, log) = unit.compile()?;
    if !cubin.starts_with(b"\x7fELF") {
        return Err("no machine code".into());
    }
    if !log.contains("ptxas info") && version().is_ok_and(|version| version >= UNTOLD) {
        return Ok(Usage::default());
    }
    usage(&log).ok_or_else(|| format!("a log that is not understood: {log}"))
}

/// From this version on NVRTC's log does not hold what the assembler says of registers and spills.
const UNTOLD: (i32, i32) = (13, 0);

/// Every specialisation of the pipeline that a spec can lead to, by part, less the options that do not matter there.
fn specialisations() -> Vec<(Part, BTreeSet<Vec<String>>)> {
    let device = Device {
        index: 0,
        name: "described".into(),
        capability: (9, 0),
        multiprocessors: 132,
        f32_per_f64: 2,
        memory: 80 << 30,
    };
    let machine = Machine::described(&[], 1).with_devices(vec![device], "described");
    let mut found: Vec<(Part, BTreeSet<Vec<String>>)> =
        PARTS.iter().map(|(part, _)| (*part, BTreeSet::new())).collect();
    let mut see = |spec: &str| {
        let Ok(spec) = spec.parse::<Spec>() else { return };
        let offers = SOLVERS
            .iter()
            .filter(|solver| solver.platform() == Platform::Cuda)
            .filter_map(|solver| solver.offers(&spec, &machine).ok());
        for offer in offers.flatten() {
            let recipe: &dyn Any = &*offer.recipe;
            let recipe = recipe.downcast_ref::<Recipe>().expect("offers of platform cuda have its recipes");
            let sources = recipe.sources(&spec);
            for (part, set) in found.iter_mut().filter(|(part, _)| sources.parts.contains(part)) {
                let kept =
                    sources.options.iter().filter(|option| define(option).is_none_or(|name| matters(*part, name)));
                set.insert(kept.cloned().collect());
            }
        }
    };
    let types = ["u8", "u16", "f32", "f64"];
    // Listed and not, more taps than nssd takes in f32, and enough for sums of 16-bit samples to need 128 bits.
    for size in ["7x7", "5x9", "20x25", "200x210"] {
        for (image, template) in types.into_iter().flat_map(|image| types.map(|template| (image, template))) {
            for op in ["corr", "ncc", "zncc", "ssd", "nssd", "sad"] {
                for boundary in ["zero", "constant(1.5)", "replicate", "reflect", "mirror", "wrap"] {
                    for (mask, accuracy) in ["", ",mask01", ",maskw"]
                        .into_iter()
                        .flat_map(|mask| ["", ",acc=fast", ",acc=exact"].map(|a| (mask, a)))
                    {
                        for out in ["f32", "f64"] {
                            see(&format!(
                                "{op}:{image}/{template}>{out}:300x320*{size}:same,{boundary}{mask}{accuracy}"
                            ));
                        }
                    }
                }
            }
        }
    }
    found
}

/// A few of the specialisations with every value of every option that matters.
fn cover(all: &BTreeSet<Vec<String>>) -> Vec<Vec<String>> {
    let mut missing: BTreeSet<&String> = all.iter().flatten().collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let most = all.iter().max_by_key(|options| options.iter().filter(|option| missing.contains(option)).count());
        let Some(options) = most else { break };
        missing.retain(|option| !options.contains(option));
        chosen.push(options.clone());
    }
    chosen
}

fn pipeline(part: Part, options: &[String], architecture: u32) -> Unit {
    let word = PARTS.iter().find(|(of, _)| *of == part).expect("every part has a row").1;
    let mut options = options.to_vec();
    options.push(format!("-DFLCC_PARTS={}", part as usize));
    Unit { name: format!("pipeline/{word}"), source: PIPELINE.into(), options, architecture }
}

/// A listed correlation in floats with the kernel from the image to the result.
fn straight(entry: &Entry, boundary: usize, architecture: u32) -> Unit {
    let real = if entry.dtype == "f32" { 2 } else { 3 };
    let options = [("PIXEL", real), ("REAL", real), ("OUT", real), ("BOUNDARY", boundary), ("WARPS", entry.warps)];
    Unit {
        name: format!("straight/{}", entry.name),
        source: (entry.source() + STRAIGHT).into(),
        options: options.map(|(name, value)| format!("-DFLCC_{name}={value}")).into(),
        architecture,
    }
}

/// The kernels that find peaks among scores of each type.
fn peaks(architecture: u32) -> impl Iterator<Item = Unit> {
    [2, 3].into_iter().map(move |out| Unit {
        name: "peaks".into(),
        source: PEAKS.into(),
        options: vec![format!("-DFLCC_OUT={out}")],
        architecture,
    })
}

/// Whether a kernel from the image to the result follows its source.
fn goes_straight(entry: &Entry) -> bool {
    entry.op == "corr" && entry.dtype != "u8" && !entry.sides.is_empty()
}

/// The smallest, the median and the largest size of every operation and type, and the kernels of any size.
fn samples() -> Vec<&'static Entry> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    let mut chosen: Vec<&Entry> = Vec::new();
    for entry in kernels() {
        if entry.sides.is_empty() {
            chosen.push(entry);
        } else {
            groups.entry((entry.op, entry.dtype)).or_default().push(entry);
        }
    }
    for group in groups.values_mut() {
        group.sort_by_key(|entry| (entry.sides.iter().product::<usize>(), entry.sides));
        chosen.extend([group[0], group[group.len() / 2], group[group.len() - 1]]);
    }
    chosen
}

/// What a run compiles, but for what is proven: samples of the listed sizes and one specialisation for each value of
/// each option; for [`MAIN`] all specialisations.
fn usual() -> Vec<Unit> {
    let parts = specialisations();
    let mut units: Vec<Unit> = samples().into_iter().map(|entry| Unit::of(entry, MAIN)).collect();
    units.extend(parts.iter().flat_map(|(part, all)| all.iter().map(|options| pipeline(*part, options, MAIN))));
    // Scores of other pixels, other results, all rules for samples outside, and of integers in f64.
    units.extend(tensor(MAIN));
    for entry in samples().into_iter().filter(|entry| !scores(entry, &[]).is_empty()) {
        let others: &[&[(&str, usize)]] = match entry.dtype {
            "u8" => &[],
            "f32" => &[&[("PIXEL", 0), ("BOUNDARY", 1)], &[("PIXEL", 1)], &[("PIXEL", 3)]],
            _ => &[&[("PIXEL", 2), ("OUT", 2)]],
        };
        let boundaries = [0, 1, 2, 4, 5].map(|boundary| [("BOUNDARY", boundary)]);
        let all = others.iter().copied().chain(boundaries.iter().map(|one| &one[..]));
        units.extend(all.map(|others| Unit { options: scores(entry, others), ..Unit::of(entry, MAIN) }));
    }
    units.extend(
        integers()
            .filter(|entry| entry.sides.iter().all(|side| [2, 16, 64].contains(side)))
            .map(|entry| exact(entry, MAIN)),
    );
    // Windows in two floats, of every pixel, with a value outside and without.
    for entry in samples().into_iter().filter(|entry| sums_in_two(entry)) {
        let all = [0, 1, 2].into_iter().flat_map(|pixel| [1, 3].map(|boundary| (pixel, boundary)));
        let options = |(pixel, boundary)| [("PIXEL", pixel), ("BOUNDARY", boundary)];
        units.extend(all.map(|of| slow(entry, &options(of), MAIN)));
        units.extend(OTHERS.map(|architecture| slow(entry, &[], architecture)));
    }
    // Sides that are constants: no side at all, all that a chunk holds, and several planes.
    for (entry, [rows, columns]) in kernels().iter().filter_map(|entry| Some((entry, entry.chunk?))) {
        for [depth, height, width] in [[1, 1, 1], [1, rows, columns], [if rows > 1 { 3 } else { 1 }, rows.min(5), 7]] {
            let sides =
                [("TD", depth), ("TH", height), ("TW", width)].map(|(name, side)| format!("-DFLCC_{name}={side}"));
            units.push(Unit { options: sides.into(), ..Unit::of(entry, MAIN) });
        }
    }
    for entry in samples().into_iter().filter(|entry| goes_straight(entry)) {
        units.extend((0..6).map(|boundary| straight(entry, boundary, MAIN)));
        units.extend(OTHERS.map(|architecture| straight(entry, 3, architecture)));
    }
    // What goes from the image to the result by itself, with the rules that are not the one by default.
    let alone = |entry: &&Entry| {
        entry.op.ends_with(|last: char| last.is_ascii_digit()) || ["separable", "whole"].contains(&entry.op)
    };
    for entry in kernels().iter().filter(alone) {
        let options = |boundary: usize, pixel: usize| {
            vec![format!("-DFLCC_BOUNDARY={boundary}"), format!("-DFLCC_PIXEL={pixel}")]
        };
        let scores = entry.op.starts_with("zncc");
        let pixels = if scores { 0..3 } else { 2..3 };
        let all = pixels.flat_map(|pixel| (0..6).map(move |boundary| (boundary, pixel)));
        units.extend(all.map(|(boundary, pixel)| Unit { options: options(boundary, pixel), ..Unit::of(entry, MAIN) }));
        // Bytes take integers, or floats where what lies outside is none.
        let others = OTHERS.iter().filter(|_| scores).flat_map(|&other| [0, 1].map(|boundary| (boundary, other)));
        units.extend(others.map(|(boundary, other)| Unit { options: options(boundary, 0), ..Unit::of(entry, other) }));
    }
    for pixel in 0..3 {
        units.extend([0, 3].into_iter().flat_map(|rule| teams(&[("PIXEL", pixel), ("BOUNDARY", rule)], MAIN)));
    }
    units.extend(peaks(MAIN));
    for architecture in OTHERS {
        units.extend(teams(&[], architecture));
        units.extend(teams(&[("PIXEL", 0), ("SLOW_F64", 1)], architecture));
        units.extend(peaks(architecture));
        units.extend(samples().into_iter().map(|entry| Unit::of(entry, architecture)));
        units.extend(
            parts
                .iter()
                .flat_map(|(part, all)| cover(all).into_iter().map(|options| pipeline(*part, &options, architecture))),
        );
    }
    units
}

/// Every kernel for every architecture, every specialisation for [`MAIN`] and a cover for the others.
fn product() -> Vec<Unit> {
    let mut units = usual();
    for architecture in [MAIN].into_iter().chain(OTHERS) {
        units.extend(kernels().iter().map(|entry| Unit::of(entry, architecture)));
        units.extend(kernels().iter().filter(|entry| sums_in_two(entry)).map(|entry| slow(entry, &[], architecture)));
        units.extend(tensor(architecture));
        let listed = kernels().iter().filter(|entry| goes_straight(entry));
        units.extend(listed.map(|entry| straight(entry, 3, architecture)));
        units.extend(integers().map(|entry| exact(entry, architecture)));
    }
    units.sort();
    units.dedup();
    units
}

/// 64-bit FNV-1a of a text but for its banners, as xtask computes it.
fn hash(text: &str) -> u64 {
    text.split_inclusive('\n')
        .filter(|line| !line.starts_with("// Generated by "))
        .flat_map(str::bytes)
        .fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Of how many compilations of proven sources one is repeated: another one with every change of a source.
const REPEATED: u64 = 8;

/// The beginnings of the lines of generated/PROVEN: source, hash, architecture.
fn proven() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../generated/PROVEN");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let begin = |line: &str| line.split(' ').take(3).collect::<Vec<_>>().join(" ");
    text.lines().filter(|line| !line.starts_with('#')).map(begin).collect()
}

/// Whether a compilation was proven and is not one of those that are repeated.
fn is_settled(unit: &Unit, proven: &BTreeSet<String>) -> bool {
    let hash = hash(&unit.source);
    let of_unit = self::hash(&unit.title()).wrapping_add(hash);
    proven.contains(&format!("{} {hash:016x} sm_{}", unit.name, unit.architecture)) && !of_unit.is_multiple_of(REPEATED)
}

#[test]
fn every_source_compiles_and_spills_nothing() {
    let known = match architectures() {
        Ok(known) => known,
        Err(fault) => return absent("nvrtc", &fault.to_string()),
    };
    let proof = env::var_os("FLCC_PROVE");
    let mut units = if proof.is_some() { product() } else { usual() };
    if proof.is_none() {
        let proven = proven();
        units.retain(|unit| !is_settled(unit, &proven));
    }
    if let Some(word) = proof.as_ref().and_then(|_| env::var("FLCC_PROVE_ONLY").ok()) {
        units.retain(|unit| unit.name.starts_with(&word));
    }
    let unknown: Vec<u32> = OTHERS.into_iter().filter(|architecture| !known.contains(architecture)).collect();
    if !unknown.is_empty() {
        println!("NVRTC {:?} does not know {unknown:?}; nothing was compiled for them", version());
        assert!(proof.is_none(), "a proof takes an NVRTC that knows {OTHERS:?}: 12.8 or newer");
        units.retain(|unit| known.contains(&unit.architecture));
    }
    if let Ok(share) = env::var(SHARE) {
        println!();
        return compile_share(&units, &share);
    }
    let (mut failures, mut failed) = (Vec::new(), Vec::new());
    let mut most: BTreeMap<(&str, u32), (u64, Usage)> = BTreeMap::new();
    for (unit, result) in units.iter().zip(compile_all(&units)) {
        match result {
            Ok(usage) => {
                let accepted = ACCEPTED
                    .iter()
                    .find(|(name, architecture, ..)| *name == unit.name && *architecture == unit.architecture);
                if usage.spilled > accepted.map_or(0, |(_, _, bytes, _)| *bytes) {
                    failures.push(format!("{}: {} bytes spilled", unit.title(), usage.spilled));
                    failed.push(&unit.name);
                }
                let (_, all) = most.entry((&unit.name, unit.architecture)).or_insert((hash(&unit.source), usage));
                *all = all.most(usage);
            }
            Err(reason) => {
                failures.push(format!("{}: {reason}", unit.title()));
                failed.push(&unit.name);
            }
        }
    }
    println!("{} compilations by NVRTC {:?}, {} failures", units.len(), version(), failures.len());
    if most.values().any(|(_, usage)| usage.registers == 0) {
        println!("it does not tell registers and spills: only that every source compiles was seen");
        assert!(proof.is_none(), "a proof takes an NVRTC that tells them: 12.8 or 12.9");
    }
    // What else was proven need not be compiled again when a failure is mended.
    if let Some(file) = proof {
        failed.iter().for_each(|name| most.retain(|(other, _), _| other != name));
        let line = |((name, architecture), (hash, usage)): (&(&str, u32), &(u64, Usage))| {
            format!("{name} {hash:016x} sm_{architecture} {} {}\n", usage.registers, usage.spilled)
        };
        fs::write(file, most.iter().map(line).collect::<String>()).expect("the proof is written");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Code must not depend on the options that specialisations are told apart without.
#[test]
fn the_other_options_change_nothing() {
    if let Err(fault) = version() {
        return absent("nvrtc", &fault.to_string());
    }
    for (part, all) in specialisations() {
        let options = all.iter().max_by_key(|options| options.len()).expect("every part is used");
        let others = OPTIONS.into_iter().filter(|(name, _)| !matters(part, name));
        let units: Vec<Unit> = std::iter::once(pipeline(part, options, MAIN))
            .chain(others.map(|(name, values)| {
                let more: Vec<String> =
                    options.iter().cloned().chain([format!("-DFLCC_{name}={}", values - 1)]).collect();
                pipeline(part, &more, MAIN)
            }))
            .collect();
        let code =
            |unit: &Unit| instructions(&unit.compile().unwrap_or_else(|reason| panic!("{}: {reason}", unit.title())).0);
        let codes: Vec<_> = units.iter().map(code).collect();
        assert!(!codes[0].is_empty());
        for (unit, code) in units.iter().zip(&codes) {
            assert!(*code == codes[0], "{}: other code than {}", unit.title(), units[0].title());
        }
    }
}

#[test]
fn a_boundary_that_is_not_known_is_an_error() {
    if let Err(fault) = version() {
        return absent("nvrtc", &fault.to_string());
    }
    let (_, boundaries) = OPTIONS.into_iter().find(|(name, _)| *name == "BOUNDARY").expect("an option");
    let of = |boundary: usize| pipeline(Part::Gather, &[format!("-DFLCC_BOUNDARY={boundary}")], MAIN);
    of(boundaries - 1).compile().expect("the last that is known");
    let message = of(boundaries).compile().expect_err("one more");
    assert!(message.contains("none that fold knows"), "{message}");
}

#[test]
fn every_value_of_every_option_is_compiled() {
    let found: BTreeSet<String> =
        specialisations().into_iter().flat_map(|(_, all)| all.into_iter().flatten()).collect();
    for (name, values) in OPTIONS {
        for value in 0..values {
            // There are no samples of 16 bits and no results of integers.
            let never = matches!((name, value), ("REAL", 1) | ("OUT", 0 | 1));
            assert_eq!(found.contains(&format!("-DFLCC_{name}={value}")), !never, "{name}={value}");
        }
    }
}

#[test]
fn a_log_is_understood() {
    let log = "ptxas info    : Compiling entry function 'a' for 'sm_90'\nptxas info    : Function properties for a\n\
        ptxas         .     24 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
        ptxas info    : Used 58 registers, used 1 barriers, 20672 bytes smem\n";
    assert_eq!(usage(log), Some(Usage { registers: 58, spilled: 20 }));
    // NVRTC 12.0 ends the line where there is nothing more to tell.
    let bare = log.replace(", used 1 barriers, 20672 bytes smem", "");
    assert_eq!(usage(&bare), Some(Usage { registers: 58, spilled: 20 }));
    assert_eq!(usage(""), None);
    assert_eq!(usage(&log.replace("Used", "Took").replace("registers", "of them")), None);
}
