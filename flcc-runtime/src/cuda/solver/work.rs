//! What an offer's work consists of besides its kernel: copies, launches, binding.

use flcc_core::spec::Spec;

use crate::cuda::decisions::Passes;
use crate::cuda::method::Method;
use crate::cuda::rooms::tiles_together;
use crate::cuda::solver::tiles::together;
use crate::plan::cost::{Term, Work};
use crate::plan::machine::Device;
use crate::problem::scheme::Scheme;
use crate::run::tiling::Tiling;

/// Multiprocessors of the first device: an image is computed by one.
pub(super) fn multiprocessors(devices: &[Device]) -> f64 {
    devices.first().map_or(1.0, |device| device.multiprocessors as f64)
}

/// The work of binding a template, where each image has one of its own.
pub(super) fn binding(spec: &Spec) -> Work {
    binding_with(spec, &[])
}

/// The same with what else it takes.
pub(super) fn binding_with(spec: &Spec, more: &[(Term, f64)]) -> Work {
    let each = if spec.pairs() { 1.0 } else { 0.0 };
    let bound = Work::default().and(Term::DeviceBind, each);
    more.iter().fold(bound, |work, &(term, amount)| work.and(term, each * amount))
}

/// The samples of a spectrum times their logarithm to base 2.
pub(super) fn transformed(samples: usize) -> f64 {
    samples as f64 * (samples as f64).log2()
}

/// What the pipeline does with tiles of a shape, and around what.
pub(super) struct Pipeline<'a> {
    pub spec: &'a Spec,
    pub method: &'a dyn Method,
    pub scheme: Scheme,
    pub tile: [usize; 3],
}

impl Pipeline<'_> {
    /// A method's work with that of the pipeline, where the method launches so many kernels for a batch of tiles:
    /// before the templates, and for each.
    pub fn with(&self, work: Work, own: [f64; 2]) -> Work {
        let Pipeline { spec, method, scheme, tile } = self;
        let passes = Passes::of(spec, *method, scheme);
        let (templates, template) = (spec.templates() as f64, spec.template().padded());
        // A tile may have room for positions that are not asked for.
        let sides = spec.out_shape().padded();
        let outputs = [0, 1, 2].map(|axis| tile[axis].min(sides[axis]));
        let tiles = Tiling::new(spec.frame(), *tile).count();
        let volume = |sides: [usize; 3]| (tiles * sides.iter().product::<usize>()) as f64;
        let computed = volume(outputs);
        let samples = volume(method.sides(outputs, template).samples) * spec.channels() as f64;
        let [first, each] = passes.launches(spec, scheme);
        let batches = batches(spec, *tile);
        let when = |so: bool, amount: f64| if so { amount } else { 0.0 };
        // What counts panels in doubt is cleared once for all batches of its images.
        let cleared = when(passes.doubts, 1.0 / together(spec, *tile) as f64);
        let launches = cleared + batches * (first + own[0] + templates * (each + own[1]));
        copies(work, spec, batches)
            .and(Term::DeviceLaunch, launches)
            .and(Term::DeviceGather, when(passes.gathers, samples * if passes.careful { 3.0 } else { 1.0 }))
            .and(Term::DeviceHits, when(passes.careful, samples))
            .and(Term::DeviceSum, when(passes.sums, samples * if passes.both { 2.0 } else { 1.0 }))
            .and(Term::DeviceFigures, when(passes.by_tile, samples + computed * templates))
            .and(Term::DeviceOutput, when(passes.gathers, computed * templates))
            .and(Term::DeviceScore, when(passes.sums, computed * templates))
    }
}

/// Batches of tiles of a shape that an image takes: its share of one, or several.
pub(super) fn batches(spec: &Spec, tile: [usize; 3]) -> f64 {
    let tiles = Tiling::new(spec.frame(), tile).count();
    let of_batch = tiles_together(tile.iter().product());
    tiles.div_ceil(of_batch) as f64 / together(spec, tile) as f64
}

/// With the launches of kernels from the image to the result: so many of them, each for all images of a batch of tiles.
pub(super) fn straight(work: Work, spec: &Spec, tile: [usize; 3], kernels: f64) -> Work {
    let batches = 1.0 / together(spec, tile) as f64;
    copies(work, spec, batches).and(Term::DeviceStraight, batches * kernels)
}

/// With what an image takes of calls of a device beside kernels: its share of one, and copies of the image and its
/// results.
pub(super) fn copies(work: Work, spec: &Spec, calls: f64) -> Work {
    let bytes = spec.image().len() * spec.channels() * spec.image_type().row().size
        + spec.out_shape().len() * spec.templates() * spec.out_type().row().size;
    work.and(Term::DeviceCopy, bytes as f64).and(Term::DeviceTrip, calls)
}
