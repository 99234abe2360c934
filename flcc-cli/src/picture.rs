//! Pictures of results as PNG: an image with its peaks marked, a map in colours, lines as plots.
//!
//! Nothing here is measured from: values are stretched to what a screen shows. Small images are enlarged by whole
//! factors so that they can be read, large ones shrunk by whole cells. Axes count samples, or carry the measure's name;
//! what is no number is hatched.

use std::path::Path;

use crate::error::Error;

mod annotate;
mod axes;
mod canvas;
mod curve;
mod heat;
mod labels;
mod line;
mod panel;
mod scene;
mod tones;

pub use curve::Curve;
pub use scene::{Heat, Mark, Scene};

/// Writes the image with a numbered box around each mark: of a volume the slice through the middle of the best peak
/// with the marks that it cuts and beside it all slices together, of a line a plot of signal and scores.
///
/// # Errors
/// Too little memory; a file that is not written.
pub fn save_annotated(path: &Path, scene: &Scene<'_>) -> Result<(), Error> {
    annotate::picture(scene)?.save("--annotate", path)
}

/// Writes a map in colours from its smallest to its largest finite value, the better the brighter, with a bar that
/// tells the values. Of a volume the slice of the best position and beside it the best of all slices; of a line a plot.
///
/// # Errors
/// Too little memory; a file that is not written.
pub fn save_heatmap(path: &Path, heat: &Heat<'_>) -> Result<(), Error> {
    heat::picture(heat)?.save("--heatmap", path)
}
