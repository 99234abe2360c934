//! A stream of frames of any size, several templates at once, and the time when to stop.
//!
//!     cargo run --release --example 04_stream

use flcc_runtime::{AnyView, PeakOptions, Pixels, Planner, Shape, Spec, Subpixel, find_peaks};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = "zncc:u8:0@90x120*2@9x9:valid".parse()?;
    let noise = |seed: u32, count: usize| {
        let next = |i: u32| ((i ^ seed).wrapping_mul(2_654_435_761).rotate_left(11).wrapping_mul(40_503) >> 13) as u8;
        Pixels::U8((0..count as u32).map(next).collect())
    };
    let templates = [noise(1, 81), noise(2, 81)];
    let views: Vec<AnyView<'_>> =
        templates.iter().map(|pixels| AnyView::dense(pixels, spec.template(), 1)).collect::<Result<_, _>>()?;
    let mut stream = Planner::new()?.plan(&spec)?.bind(&views, None)?.stream();

    for (frame, size) in [[90, 120], [90, 120], [60, 200], [90, 120]].into_iter().enumerate() {
        let pixels = noise(100 + frame as u32, size[0] * size[1]);
        let maps = stream.push(&AnyView::dense(&pixels, Shape::new(&size)?, 1)?)?;
        for (number, map) in maps.iter().enumerate() {
            let best = &find_peaks(
                map,
                &PeakOptions { top: Some(1), subpixel: Some(Subpixel::default()), ..PeakOptions::default() },
            )[0];
            println!("frame {frame} template {number}: {:?} r = {:.3}", best.refined, best.score);
        }
    }
    Ok(())
}
