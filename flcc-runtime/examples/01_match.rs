//! Find a part of an image again: one call, then the best place.
//!
//!     cargo run --release --example 01_match

use flcc_runtime::{Measure, PeakOptions, Shape, View, find_peaks, match_template};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A 120 x 160 image of 8-bit noise, and a 12 x 16 part of it as the template: no copy, a view.
    let pixels: Vec<u8> = (0..120 * 160u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let image = View::new(&pixels, Shape::new(&[120, 160])?)?;
    let template = image.part([70, 90], Shape::new(&[12, 16])?)?;

    let scores = match_template(&image, &template, None, Measure::Zncc)?;
    let best = &find_peaks(&scores, &PeakOptions { top: Some(1), ..PeakOptions::default() })[0];

    println!("best at {:?} with r = {}", best.position, best.score);
    assert_eq!(best.position, [70, 90]);
    assert!((best.score - 1.0).abs() < 1e-6);
    Ok(())
}
