//! How much faster two threads are than one, beside what two threads gain where nothing but the processor or the memory
//! is asked.

use std::cell::RefCell;

use flcc_benches::ceiling::{Memory, MultiplyAdds};
use flcc_benches::turns::Turns;
use flcc_benches::{Case, Run};
use flcc_runtime::{Planner, Spec};

/// What takes over 2 ms on one thread.
const SPECS: [&str; 12] = [
    "corr:f32:2000x2000*3x3:valid",
    "corr:f32:2000x2000*8x8:valid",
    "corr:f32:2000x2000*16x16:valid",
    "corr:f32:2000x2000*32x32:valid",
    "corr:f32:2000x2000*64x64:valid",
    "zncc:f32:2000x2000*8x8:valid",
    "zncc:f32:2000x2000*16x16:valid",
    "zncc:f32:2000x2000*32x32:valid",
    "corr:f32:100x100x100*8x8x8:valid",
    "zncc:f32:100x100x100*8x8x8:valid",
    "corr:u8:2000x2000*16x16:valid",
    "corr:f32:10000000*500:valid",
];
/// How often each work has its turn.
const ROUNDS: usize = 15;
/// What one measurement lasts at least. For some milliseconds after threads were at rest, the system may keep two of
/// them on one core.
const LEAST_MS: f64 = 50.0;
/// The part of the ceiling's gain that is to be reached: the goal.
const GOAL: f64 = 0.93;
/// What two threads gain in multiply-adds, at least, while no other program takes the cores.
const QUIET: f64 = 1.8;
/// A spec that takes less than so many copies of its bytes waits for memory.
const COPIES: f64 = 2.0;

fn main() {
    let planner = Planner::new().expect("FLCC_ISA is unset or right");
    let cores = planner.machine().cores();
    if cores < 2 {
        println!("two threads were asked for, and this process may use {cores} core");
        return;
    }
    let (sums, memory) = (MultiplyAdds::new(&planner.machine().isas()), RefCell::new(Memory::new()));
    println!(
        "| spec | kernel | 1 thread ms | 2 threads ms | gain | single calls | multiply-adds | copy | quotient \
         | GFLOP/s | GB/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let quotients: Vec<_> = SPECS
        .iter()
        .filter_map(|text| measure(text, &planner, &sums, &memory).map(|quotient| (quotient, text)))
        .collect();
    let reached = quotients.iter().filter(|(quotient, _)| *quotient >= GOAL).count();
    let worst = quotients.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    println!("\nGFLOP/s and GB/s (read and written) are of the ceilings on one thread");
    if let Some((quotient, text)) = worst {
        println!("quotient: worst {quotient:.3}, {text}");
    }
    println!("quotient: {reached} of {} at least {GOAL}; {} busy", quotients.len(), SPECS.len() - quotients.len());
}

/// Times a row of the table and prints it; gives its gain over the ceiling's, unless others took the cores.
fn measure(text: &str, planner: &Planner, sums: &MultiplyAdds, memory: &RefCell<Memory>) -> Option<f64> {
    let case = Case::new(text);
    let [mut one, mut two] = [1, 2].map(|threads| Run::new(&case, &planner.clone().threads(threads)));
    let kernels = [&one, &two].map(|run| run.matcher().kernel().to_string());
    let turns = Turns::take(
        ROUNDS,
        LEAST_MS,
        &mut [
            &mut || one.execute(),
            &mut || two.execute(),
            &mut || sums.run(1),
            &mut || sums.run(2),
            &mut || memory.borrow_mut().run(1),
            &mut || memory.borrow_mut().run(2),
        ],
    );
    // One call at a time, the threads at rest before each.
    let single = Turns::take(ROUNDS, 0.0, &mut [&mut || one.execute(), &mut || two.execute()]).ratio(0, 1);
    let [gain, of_sums, of_copy] = [0, 2, 4].map(|work| turns.ratio(work, work + 1));
    let copied = memory.borrow().bytes();
    let waits = turns.ms(0) < COPIES * turns.ms(4) * bytes(&case.spec) / copied;
    let quotient = gain / if waits { of_sums.min(of_copy) } else { of_sums };
    let quiet = of_sums >= QUIET;
    let note = match (quiet, waits) {
        (false, _) => " (busy)",
        (true, true) => " (memory)",
        (true, false) => "",
    };
    let kernel = if kernels[0] == kernels[1] { kernels[0].clone() } else { kernels.join(", 2 threads: ") };
    println!(
        "| {text} | {kernel} | {:.2} | {:.2} | {gain:.2} | {single:.2} | {of_sums:.2} | {of_copy:.2} \
         | {quotient:.3}{note} | {:.0} | {:.1} |",
        turns.ms(0),
        turns.ms(1),
        sums.operations() / turns.ms(2) * 1e-6,
        copied / turns.ms(4) * 1e-6,
    );
    quiet.then_some(quotient)
}

/// Bytes of the image and of the result.
fn bytes(spec: &Spec) -> f64 {
    (spec.image().len() * spec.image_type().row().size + spec.out_shape().len() * spec.out_type().row().size) as f64
}
