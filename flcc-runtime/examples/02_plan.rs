//! Plan once, execute often: a spec, a plan that explains itself, a template bound to it, images one after another.
//!
//!     cargo run --release --example 02_plan

use flcc_runtime::{AnyView, Effort, Pixels, Planner, Spec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = "zncc:f32:0@200x300*15x15:same,reflect".parse()?;
    let planner = Planner::new()?.effort(Effort::Measure);
    let plan = planner.plan(&spec)?;
    println!("{}", plan.explain());

    let wave = |phase: f32, count: usize| Pixels::F32((0..count).map(|i| (i as f32 * 0.7 + phase).sin()).collect());
    let template = wave(0.0, 225);
    let matcher = plan.bind(&[AnyView::dense(&template, spec.template(), 1)?], None)?;
    for frame in 0..3 {
        let image = wave(frame as f32, 200 * 300);
        let scores = matcher.execute(&[AnyView::dense(&image, spec.image(), 1)?])?;
        assert_eq!(scores[0].shape(), spec.image());
        println!("frame {frame}: r at the first pixel {:.4}", scores[0].get(0));
    }
    // What was measured can be kept in a file and used by the next program.
    println!("{}", planner.learnt().to_text());
    Ok(())
}
