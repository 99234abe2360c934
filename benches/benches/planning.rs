//! How long it takes to choose a plan: by estimate, and from wisdom; and to build what executes it.

use std::time::Duration;

use flcc_runtime::account::Took;
use flcc_runtime::{Effort, Plan, Planner, Platform, Spec};

/// What is planned.
const SPECS: [&str; 8] = [
    "corr:f32:200x200*5x5:valid",
    "zncc:f32:300x300*16x16:valid",
    "zncc:f32:2000x2000*16x16:valid",
    "zncc:u8:480x640*32x32:valid",
    "zncc:f32:0@64x64*24x24:valid,pairs",
    "zncc:f32:100x100x100*5x5x5:valid",
    "conv:f32:1000000*500:full",
    "zncc:f32:1024x1024*413x413:valid",
];
/// How often each is planned.
const ROUNDS: usize = 101;
/// Microseconds that choosing may take by estimate and from wisdom: the goal.
const GOAL: [f64; 2] = [50.0, 20.0];

fn main() {
    let planner = Planner::new().expect("FLCC_ISA is unset or right").platform(Platform::Cpu);
    println!("| spec | kernel | by estimate us | from wisdom us | building us |");
    println!("|---|---|---|---|---|");
    let mut worst = [0.0f64; 2];
    for text in SPECS {
        let spec: Spec = text.parse().expect("the text of a spec");
        let plan = || planner.plan(&spec).expect("every spec here has a plan");
        let estimated = medians(plan);
        let kernel = plan().kernel().to_string();
        let measuring = planner.clone().effort(Effort::Measure);
        measuring.plan(&spec).expect("every spec here has a plan");
        let knowing = planner.clone().wisdom(measuring.learnt());
        let known = medians(|| knowing.plan(&spec).expect("every spec here has a plan"));
        let us = |took: Duration| took.as_secs_f64() * 1e6;
        let [estimate, wisdom] = [us(estimated.choosing), us(known.choosing)];
        worst = [worst[0].max(estimate), worst[1].max(wisdom)];
        println!("| {text} | {kernel} | {estimate:.1} | {wisdom:.1} | {:.1} |", us(estimated.building));
    }
    println!(
        "\nworst: {:.1} us by estimate (goal {}), {:.1} from wisdom (goal {})",
        worst[0], GOAL[0], worst[1], GOAL[1]
    );
}

/// The median times of making a plan again and again.
fn medians(plan: impl Fn() -> Plan) -> Took {
    let took: Vec<Took> = (0..ROUNDS).map(|_| plan().took()).collect();
    let median = |of: fn(&Took) -> Duration| {
        let mut times: Vec<Duration> = took.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Took { choosing: median(|took| took.choosing), building: median(|took| took.building) }
}
