//! What peaks cost beside the map that they are found in: `Matcher::peaks`, which keeps no map, over
//! `Matcher::execute_into`, and `find_peaks` of the finished map, by all cores, over that; all in turns.

use std::cell::RefCell;

use flcc_benches::turns::Turns;
use flcc_benches::{Case, Run};
use flcc_runtime::{PeakOptions, Planner, find_peaks};

const SPECS: [&str; 10] = [
    "zncc:f32:2000x2000*16x16:valid",
    "zncc:f32:2000x2000*64x64:valid",
    "zncc:f64:1000x1000*16x16:valid",
    "zncc:u8:480x640*32x32:valid",
    "zncc:u8:1080x1920*52x52:valid",
    "zncc:u16:1000x1000*20x20:valid",
    "ssd:f32:1000x1000*16x16:valid",
    "zncc:f32:100x100x100*8x8x8:valid",
    "zncc:f32:10000000*64:valid",
    "zncc:f32:8640000*500:valid",
];
/// Many and short: the machine's speed drifts within a second, and a ratio is of one round.
const ROUNDS: usize = 61;
const LEAST_MS: f64 = 4.0;
/// The goal for the best place and for places over a threshold, and for the best sixteen with suppression: map and
/// search together, over the map.
const GOALS: [f64; 3] = [1.10, 1.10, 1.15];

fn main() {
    for threads in [1, 2] {
        let planner = Planner::new().expect("FLCC_ISA is unset or right").threads(threads);
        println!("\n{threads} threads\n");
        println!(
            "| spec | kernel | map ms | again | best | threshold | best 16 | of the map: best | threshold | best 16 |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        let missed: Vec<String> = SPECS.iter().flat_map(|text| measure(text, &planner)).collect();
        println!("\nratios over the map's time; `peaks` over the goals {GOALS:?}: {}", missed.join("; "));
    }
}

/// Prints a line; what misses its goal.
fn measure(text: &str, planner: &Planner) -> Vec<String> {
    let case = Case::new(text);
    let run = RefCell::new(Run::new(&case, planner));
    let matcher = run.borrow().matcher().clone();
    let threshold = find_peaks(run.borrow().map(), &PeakOptions { top: Some(1), ..PeakOptions::default() })[0].score;
    let best = PeakOptions { top: Some(1), ..PeakOptions::default() };
    let options = [
        best,
        PeakOptions { threshold: Some(threshold), ..PeakOptions::default() },
        PeakOptions { top: Some(16), ..PeakOptions::default() },
    ];
    let peaks = |options: &PeakOptions| matcher.peaks(&[case.image()], options).expect("made for the spec").remove(0);
    for options in &options {
        assert_eq!(peaks(options), find_peaks(run.borrow().map(), options), "{text}: other peaks than the map's");
    }
    let turns = Turns::take(
        ROUNDS,
        LEAST_MS,
        &mut [
            &mut || run.borrow_mut().execute(),
            &mut || drop(peaks(&options[0])),
            &mut || drop(peaks(&options[1])),
            &mut || drop(peaks(&options[2])),
            &mut || run.borrow_mut().execute(),
            &mut || drop(find_peaks(run.borrow().map(), &options[0])),
            &mut || drop(find_peaks(run.borrow().map(), &options[1])),
            &mut || drop(find_peaks(run.borrow().map(), &options[2])),
        ],
    );
    let ratios = [1, 2, 3].map(|work| turns.ratio(work, 0));
    let told: Vec<String> = [4, 1, 2, 3, 5, 6, 7].iter().map(|&work| format!("{:.2}", turns.ratio(work, 0))).collect();
    println!("| {text} | {} | {:.2} | {} |", matcher.kernel(), turns.ms(0), told.join(" | "));
    let missed = ratios.into_iter().zip(GOALS).filter(|(ratio, goal)| ratio > goal);
    missed.map(|(ratio, _)| format!("{text} {ratio:.2}")).collect()
}
