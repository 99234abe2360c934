//! The templates, which are part of this crate.

/// One embedded template.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Its path below `templates/cuda`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! template {
    ($name:literal) => {
        Template { name: $name, text: include_str!(concat!("../../templates/cuda/", $name)) }
    };
}

/// Every template there is.
pub const TEMPLATES: [Template; 60] = [
    template!("kernel.cu.tera"),
    template!("generic.cu.tera"),
    template!("parts/words.tera"),
    template!("parts/ptx.tera"),
    template!("parts/load.tera"),
    template!("parts/accumulate.tera"),
    template!("parts/store.tera"),
    template!("pipeline.cu.tera"),
    template!("zncc.cu.tera"),
    template!("straight.cu.tera"),
    template!("peaks.cu.tera"),
    template!("tile.cu.tera"),
    template!("large.cu.tera"),
    template!("large_scores.cu.tera"),
    template!("separable.cu.tera"),
    template!("pairs.cu.tera"),
    template!("volume.cu.tera"),
    template!("line.cu.tera"),
    template!("whole.cu.tera"),
    template!("scores.cu.tera"),
    template!("mma.cu.tera"),
    template!("pipeline/words.tera"),
    template!("pipeline/bits.tera"),
    template!("pipeline/places.tera"),
    template!("pipeline/fold.tera"),
    template!("pipeline/magnitude.tera"),
    template!("pipeline/reach.tera"),
    template!("pipeline/complex.tera"),
    template!("pipeline/powers.tera"),
    template!("pipeline/turns.tera"),
    template!("pipeline/pair.tera"),
    template!("pipeline/transform.tera"),
    template!("pipeline/volume.tera"),
    template!("pipeline/sides.tera"),
    template!("pipeline/wide.tera"),
    template!("pipeline/windows.tera"),
    template!("pipeline/windows_of_planes.tera"),
    template!("pipeline/bands.tera"),
    template!("pipeline/windows_of_volumes.tera"),
    template!("pipeline/doubt.tera"),
    template!("pipeline/offset.tera"),
    template!("pipeline/centre.tera"),
    template!("pipeline/plane.tera"),
    template!("pipeline/image.tera"),
    template!("pipeline/load.tera"),
    template!("pipeline/marks.tera"),
    template!("pipeline/sums.tera"),
    template!("pipeline/norms.tera"),
    template!("pipeline/fourier.tera"),
    template!("pipeline/rounding.tera"),
    template!("pipeline/within.tera"),
    template!("pipeline/exact.tera"),
    template!("pipeline/finish.tera"),
    template!("pipeline/repair.tera"),
    template!("measure/cc.tera"),
    template!("measure/ncc.tera"),
    template!("measure/zncc.tera"),
    template!("measure/ssd.tera"),
    template!("measure/nssd.tera"),
    template!("measure/sad.tera"),
];

/// The template of transforms of tiles, which reads images as the pipeline does.
pub(crate) const TILE: &str = "tile.cu.tera";

/// The template of transforms of tiles that no block has room for.
pub(crate) const LARGE: &str = "large.cu.tera";

/// The template of sums of products of lines.
pub(crate) const SEPARABLE: &str = "separable.cu.tera";

/// The template of correlation of images that have a template of their own each.
pub(crate) const PAIRS: &str = "pairs.cu.tera";

/// The template of what stands around a library's transforms of whole images.
pub(crate) const LIBRARY: &str = "whole.cu.tera";

/// The template of correlation by transforms of parts of volumes.
pub(crate) const VOLUME: &str = "volume.cu.tera";

/// The template of correlation by transforms of signals.
pub(crate) const LINE: &str = "line.cu.tera";

/// The template of zncc by transforms of tiles and of parts of volumes.
pub(crate) const SCORES: &str = "scores.cu.tera";

/// The template of scores of bytes on tensor cores.
pub(crate) const MMA: &str = "mma.cu.tera";

/// The templates that are the same for every matrix: the kernels around a cross term, and what follows a listed kernel
/// to make scores, or to read the image and write the result by itself, or large transforms to make scores; and those
/// that find peaks in results.
pub(crate) const WHOLE: [&str; 5] =
    ["pipeline.cu.tera", "zncc.cu.tera", "straight.cu.tera", "large_scores.cu.tera", "peaks.cu.tera"];
