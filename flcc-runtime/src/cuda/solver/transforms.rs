//! What transforms of our own offer: of tiles, lines, volumes and pairs.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;
use flcc_generated::Entry;

use crate::cuda::capability::most_shared;
use crate::cuda::large::{self, Large};
use crate::cuda::line::{self, Line};
use crate::cuda::method;
use crate::cuda::methods::large::LargeTiles;
use crate::cuda::methods::pairs::OwnPairs;
use crate::cuda::methods::scores::{TileScores, VolumeScores};
use crate::cuda::methods::transforms::{Lines, Tiles, Volumes};
use crate::cuda::pairs::{self, Pairs};
use crate::cuda::rooms::{images_together, tiles_together};
use crate::cuda::solver::recipe::{Asked, Recipe, named, offer, types};
use crate::cuda::solver::tiles::{MOST_TOGETHER, large_tile, plain_tiles, together};
use crate::cuda::solver::work::{Pipeline, binding_with, copies, multiprocessors, straight, transformed};
use crate::cuda::tile::{self, Shape};
use crate::cuda::transform::Transform;
use crate::cuda::types::Cross;
use crate::cuda::volume;
use crate::cuda::windows_of_planes::DownRows;
use crate::plan::cost::{Term, Work};
use crate::plan::solver::{Method, Offer};
use crate::problem::scheme::Scheme;
use crate::run::tiling::{Tiling, tile_name};

/// By transforms of tiles, from the image to the result in one kernel.
pub(super) fn tiles(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let offer = |entry: &'static Entry| {
        let shape = Shape::of(entry);
        let (pairs, ..) = shape.pairs(spec.template().padded(), spec.out_shape().padded());
        by_parts(
            asked,
            entry,
            Arc::new(Tiles::new(entry)),
            spec.templates(),
            (spectrum(spec, shape), Term::DeviceTile),
            &|images| shape.work(images * pairs, multiprocessors(machine.devices()) as usize),
        )
    };
    let kernels = tile::kernels(spec, machine.devices());
    kernels.into_iter().filter(|entry| !tile::makes_scores(entry)).map(offer).collect()
}

/// By transforms of tiles and window sums that run down rows, in two kernels.
pub(super) fn tile_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let (tile, template, outputs) = (large_tile(spec), spec.template().padded(), spec.out_shape().padded());
    // A region's tiles are parts of those of the whole, and their bits are.
    let whole = spec.mode_region().shape.padded();
    let sides = [0, 1, 2].map(|axis| tile[axis].min(whole[axis]));
    let (images, templates) = (together(spec, tile), spec.templates() as f64);
    let offer = |entry: &'static Entry| {
        let shape = Shape::of(entry);
        let (pairs, ..) = shape.pairs(template, outputs);
        let computed = shape.work(images * pairs, multiprocessors(machine.devices()) as usize);
        let each = templates / images as f64;
        let work = spectra(spec, shape)
            .and(Term::DeviceTileScores, computed * each)
            .and(Term::DeviceWindowRow, DownRows::rows(template, outputs) * templates)
            .and(Term::DeviceWindowStep, DownRows::steps_of_a_warp(template, outputs) as f64 * each);
        let method = TileScores::new(entry, template, sides);
        let work = scored(spec, &method, tile).with(work, [0.0, 2.0]);
        made(asked, entry, Arc::new(method), tile, work)
    };
    let kernels = tile::kernels(spec, machine.devices());
    kernels.into_iter().filter(|entry| tile::makes_scores(entry)).map(offer).collect()
}

/// By transforms of tiles that no block has room for, from the image to the result in three kernels.
pub(super) fn large(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let (template, outputs, templates) = (spec.template().padded(), spec.out_shape().padded(), spec.templates());
    let tile = tile_of_sums(spec);
    let offer = |entry: &'static Entry| {
        let large = Large::of(entry);
        let (pairs, ..) = large.shape.pairs(template, outputs);
        let method = Arc::new(LargeTiles::sums(entry, template, tile));
        let bound = binding_with(spec, &[(Term::DeviceBindSpectrum, large.bound(template))]);
        // The two kernels besides the one that every method has.
        let launches = 2.0 * templates as f64 / together(spec, tile) as f64;
        let bound = bound.and(Term::DeviceLaunch, launches);
        by_parts(asked, entry, method, templates, (bound, Term::DeviceLarge), &|images| {
            large.work(images * pairs, multiprocessors(machine.devices()) as usize)
        })
    };
    large::sums(spec, machine.devices()).into_iter().map(offer).collect()
}

/// Zncc by such transforms and window sums that run down rows.
pub(super) fn large_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let (tile, template, outputs) = (large_tile(spec), spec.template().padded(), spec.out_shape().padded());
    // A region's tiles are parts of those of the whole, and their bits are.
    let whole = spec.mode_region().shape.padded();
    let sides = [0, 1, 2].map(|axis| tile[axis].min(whole[axis]));
    let (images, templates) = (together(spec, tile), spec.templates() as f64);
    let offer = |entry: &'static Entry| {
        let large = Large::of(entry);
        let (pairs, ..) = large.shape.pairs(template, outputs);
        let computed = large.work(images * pairs, multiprocessors(machine.devices()) as usize);
        let work = binding_with(spec, &[(Term::DeviceBindSpectrum, 2.0 * large.bound(template))])
            .and(Term::DeviceLargeScores, computed * templates / images as f64)
            .and(Term::DeviceWindowRow, DownRows::rows(template, outputs) * templates)
            .and(
                Term::DeviceWindowStep,
                DownRows::steps_of_a_warp(template, outputs) as f64 * templates / images as f64,
            );
        let method = LargeTiles::scores(entry, template, sides);
        // Extents of samples, what is known of tiles, rows there, columns, rows back; bands and windows.
        let work = scored(spec, &method, tile).with(work, [0.0, 5.0 + DownRows::launches(template)]);
        made(asked, entry, Arc::new(method), tile, work)
    };
    large::scores(spec, machine.devices()).into_iter().map(offer).collect()
}

/// By transforms of stretches of signals, from the signal to the result in one kernel.
pub(super) fn lines(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let devices = machine.devices();
    let offer = |entry: &'static Entry| {
        let line = Line::of(entry);
        // Several templates share the transforms of samples, which are half of what one takes.
        let pairs = line.pairs(spec.template().len(), spec.out_shape().len());
        let most = devices.iter().map(|device| most_shared(device.capability)).min().unwrap_or(0);
        let shared = if line.shared_by_several(most) > 0 { spec.templates() / 2 } else { 0 };
        let blocks = pairs * (spec.templates() - shared);
        let term = if line.is_long() { Term::DeviceLineLong } else { Term::DeviceLine };
        by_parts(asked, entry, Arc::new(Lines::new(entry)), 1, (spectrum(spec, line), term), &|images| {
            line.work(images * blocks, multiprocessors(devices) as usize)
        })
    };
    line::kernels(spec, devices).into_iter().map(offer).collect()
}

/// By transforms of parts of volumes, from the volume to the result in one kernel.
pub(super) fn volumes(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let devices = machine.devices();
    let offer = |entry: &'static Entry| {
        let sides = [spec.template().padded(), spec.out_shape().padded()];
        let term = (spectrum(spec, volume::Block::of(entry)), Term::DeviceVolume);
        by_parts(asked, entry, Arc::new(Volumes::new(entry)), spec.templates(), term, &|images| {
            volume::work(sides, images, multiprocessors(devices) as usize)
        })
    };
    volume::kernel(spec, devices).into_iter().map(offer).collect()
}

/// Zncc by transforms of parts of volumes and window sums that run across planes, in two kernels.
pub(super) fn volume_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let devices = machine.devices();
    let Some(entry) = volume::scores(spec, devices) else { return Ok(Vec::new()) };
    let template = spec.template().padded();
    // A region's tiles are those of the whole, so that its bits are.
    let tile = volume::tile(template, spec.mode_region().shape.padded(), MOST_TOGETHER);
    let images = together(spec, tile);
    let sides = spec.out_shape().padded();
    let reached = [0, 1, 2].map(|axis| tile[axis].min(sides[axis]));
    let tiles = Tiling::new(spec.frame(), tile).count() * images;
    let computed = volume::work([template, reached], tiles, multiprocessors(devices) as usize);
    let (outputs, templates) = (spec.out_shape().len() as f64, spec.templates() as f64);
    let work = spectra(spec, volume::Block::of(entry))
        .and(Term::DeviceVolumeScores, computed * templates / images as f64)
        .and(Term::DeviceWindow, outputs * templates);
    let method = VolumeScores::new(entry, template, tile);
    let work = scored(spec, &method, tile).with(work, [0.0, 2.0]);
    Ok(vec![made(asked, entry, Arc::new(method), tile, work)?])
}

/// The offer of a kernel in f32.
fn made(
    asked: &Asked<'_>,
    entry: &'static Entry,
    method: Arc<dyn method::Method>,
    tile: [usize; 3],
    work: Work,
) -> Result<Offer, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let (types, devices) = (types(spec, DType::F32, Cross::F32), machine.devices().to_vec());
    let recipe = Recipe { method, tile, types, exact: false, rounds: false, devices };
    Ok(offer(machine, spec, Method::Fourier, kernel, work, recipe))
}

/// The work of binding by a template's spectrum.
fn spectrum(spec: &Spec, transform: impl Transform) -> Work {
    binding_with(spec, &[(Term::DeviceBindSpectrum, transformed(transform.samples()))])
}

/// The same where scores are made: what a template makes of the noise of tiles is found by a spectrum too.
fn spectra(spec: &Spec, transform: impl Transform) -> Work {
    binding_with(spec, &[(Term::DeviceBindSpectrum, 2.0 * transformed(transform.samples()))])
}

/// What the pipeline does around two kernels that make scores.
fn scored<'a>(spec: &'a Spec, method: &'a dyn method::Method, tile: [usize; 3]) -> Pipeline<'a> {
    Pipeline { spec, method, scheme: Scheme::new(spec, false, false), tile }
}

/// The pipeline's tile of kernels of sums, where samples are extraordinary: with all of an image the transforms are the
/// same.
fn tile_of_sums(spec: &Spec) -> [usize; 3] {
    let outputs = spec.out_shape();
    if outputs.len() <= MOST_TOGETHER { outputs.padded() } else { plain_tiles(spec)[0] }
}

/// The offer of so many kernels of sums that transform parts of an image: what binding takes, and how much of a term
/// one of them does for so many images at once.
fn by_parts(
    asked: &Asked<'_>,
    entry: &'static Entry,
    method: Arc<dyn method::Method>,
    kernels: usize,
    (bound, term): (Work, Term),
    computed: &dyn Fn(usize) -> f64,
) -> Result<Offer, Refusal> {
    let tile = tile_of_sums(asked.spec);
    let (images, kernels) = (together(asked.spec, tile), kernels as f64);
    let work = bound.and(term, kernels * computed(images) / images as f64);
    made(asked, entry, method, tile, straight(work, asked.spec, tile, kernels))
}

/// By transforms of rows of images and templates, which have one of their own each, in one kernel for all.
pub(super) fn own_pairs(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { spec, machine, .. } = *asked;
    let (devices, template, outputs) = (machine.devices(), spec.template().padded(), spec.out_shape().padded());
    let room = devices.iter().map(|device| most_shared(device.capability)).min().unwrap_or(0);
    let work = |entry: &'static Entry| {
        let part = Pairs::of(entry).part(template, outputs, room)?;
        // Templates are copied as images are; nothing is bound, and a call has many pairs.
        let bytes = spec.template().len() * spec.template_type().row().size;
        let together = images_together(tiles_together(spec.out_shape().len()), 1, spec.images());
        let calls = 1.0 / together as f64;
        let units = multiprocessors(devices) as usize;
        let [lines, products] = Pairs::of(entry).work([template, outputs], &part, together, units);
        let work = Work::default()
            .and(Term::DevicePairLine, lines)
            .and(Term::DevicePairProduct, products)
            .and(Term::DeviceCopy, bytes as f64);
        Some((entry, copies(work, spec, calls).and(Term::DeviceStraight, calls)))
    };
    let offer = |(entry, work)| made(asked, entry, Arc::new(OwnPairs(entry)), tile_of_sums(spec), work);
    pairs::kernels(spec, devices).into_iter().filter_map(work).map(offer).collect()
}
