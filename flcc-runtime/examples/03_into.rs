//! Own the memory: results and scratch of the caller, nothing allocated while it runs with one thread.
//!
//!     cargo run --release --example 03_into

use flcc_runtime::{AnyView, Control, Pixels, Planner, Shape, Spec, ViewMut};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: Spec = "corr:u16>f64:64x80*5x7:valid".parse()?;
    let image = Pixels::U16((0..64 * 80).map(|i| (i * 13 % 4096) as u16).collect());
    let template = Pixels::U16((0..35).collect());
    let matcher =
        Planner::new()?.threads(1).plan(&spec)?.bind(&[AnyView::dense(&template, spec.template(), 1)?], None)?;

    // The result goes into a part of a larger buffer: 60 x 74 sums, rows 100 elements apart.
    let mut buffer = vec![0.0f64; 60 * 100];
    let mut scratch = matcher.make_scratch();
    let out = ViewMut::strided(&mut buffer, 0, Shape::new(&[60, 74])?, &[100, 1])?;
    let image = AnyView::dense(&image, spec.image(), 1)?;
    let statistics = matcher.execute_into(&[image], &mut [out.into()], &mut scratch, &Control::default())?;
    println!(
        "{} sums in {} tiles, {} bytes of scratch; the first is {}",
        statistics.panels,
        statistics.tiles,
        scratch.bytes(),
        buffer[0]
    );
    assert_eq!(buffer[0].fract(), 0.0);
    Ok(())
}
