//! ndarray in and out: a volume, a mask, a boundary.
//!
//!     cargo run --release --features flcc-runtime/ndarray --example 05_ndarray

use flcc_runtime::convert::{view_mut_of, view_of};
use flcc_runtime::{Control, Planner, Spec};
use ndarray::{Array3, s};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let volume = Array3::from_shape_fn((20, 24, 28), |(z, y, x)| ((z * 7 + y * 5 + x * 3) % 17) as f32);
    let template = volume.slice(s![4..9, 6..11, 8..13]).to_owned();
    let ball = Array3::from_shape_fn((5, 5, 5), |(z, y, x)| {
        let r2 = [z, y, x].iter().map(|&k| (k as f64 - 2.0).powi(2)).sum::<f64>();
        if r2 <= 6.0 { 1.0f64 } else { 0.0 }
    });
    let spec: Spec = "zncc:f32:20x24x28*5x5x5:valid,mask01".parse()?;
    let matcher = Planner::new()?.plan(&spec)?.bind(&[view_of(&template)?], Some(&view_of(&ball)?))?;
    let mut scores = Array3::<f32>::zeros((16, 20, 24));
    matcher.execute_into(
        &[view_of(&volume)?.into()],
        &mut [view_mut_of(&mut scores)?.into()],
        &mut matcher.make_scratch(),
        &Control::default(),
    )?;
    println!("r = {} where the template was cut out", scores[[4, 6, 8]]);
    assert!((scores[[4, 6, 8]] - 1.0).abs() < 1e-5);
    Ok(())
}
