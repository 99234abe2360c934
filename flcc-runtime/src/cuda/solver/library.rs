//! What cuFFT offers: by tiles, and of whole images.

use std::sync::Arc;

use flcc_core::boundary::Boundary;
use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::shape::join;
use flcc_core::spec::{Accuracy, MaskKind, Spec};

use crate::cuda::decisions::{Passes, goes_straight};
use crate::cuda::driver::launch::MOST_BLOCKS;
use crate::cuda::methods::cufft::{Cufft, Whole};
use crate::cuda::solver::recipe::{Asked, Recipe, beyond_single, named, offer, types};
use crate::cuda::solver::tiles::together;
use crate::cuda::solver::work::{Pipeline, batches, binding_with, copies, multiprocessors, transformed};
use crate::cuda::types::Cross;
use crate::plan::cost::{Term, Work};
use crate::plan::machine::Device;
use crate::plan::solver::{Eligible, Method, Offer};
use crate::problem::scheme::{
    Scheme, accurate_shape, differences_drown, not_rounded, refuse_differences, rounding_bound, rounds,
    transforms_in_double, transforms_serve,
};
use crate::run::tiling::{Tiling, covering, tile_name};

/// By cuFFT.
pub(super) fn cufft(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let devices = machine.devices();
    let measure = spec.op().measure();
    refuse_differences(name, spec)?;
    let double = transforms_in_double(spec) || beyond_single(spec);
    let few = !measure.row().normalised && spec.template().len() < LEAST_SINGLE;
    let drowned = if double { 0.0 } else { drowned(spec) };
    // In f64 nothing drowns, and sums of few products keep what is granted.
    let precisions = if !double && (few || drowned > 0.0) { &[false, true][..] } else { &[double][..] };
    let ways = precisions.iter().flat_map(|&double| {
        // Rows of whole vectors.
        let accurate = accurate_shape(spec, true).filter(|_| double).map(|[z, y, x]| vec![[z, y, x.max(ROW_STEP)]]);
        accurate.unwrap_or_else(|| shapes(spec, least_memory(devices))).into_iter().map(move |shape| (double, shape))
    });
    let mut offers = Vec::new();
    let mut bound = f64::INFINITY;
    for (double, shape) in ways {
        let (real, cross) = if double { (DType::F64, Cross::F64) } else { (DType::F32, Cross::F32) };
        bound = bound.min(rounding_bound(spec, shape));
        let Some(rounds) = rounds(spec, shape) else { continue };
        let template = spec.template().padded();
        let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
        let samples = Tiling::new(spec.frame(), tile).count() as f64 * shape.iter().product::<usize>() as f64;
        let masked = spec.mask() != MaskKind::None;
        let sums = masked && measure.row().needs.square;
        let method = Cufft { shape, double, masked, sums, whole: None };
        let scheme = Scheme::new(spec, rounds, rounds);
        // Window sums under a mask take one transform there and two back more, and as many kernels: squares, and two
        // products of spectra.
        let (templates, of_sums) = (spec.templates() as f64, if sums { 3.0 } else { 0.0 });
        let transforms = 1.0 + templates + of_sums;
        // Two passes over memory each.
        let paces: Vec<f64> = shape.iter().filter(|&&side| side > 1).map(|&side| pace(side)).collect();
        let axes = paces.len().max(1) as f64;
        let moved = 4.0 * cross.size() as f64 * paces.iter().sum::<f64>() / axes;
        let bytes = samples * spec.channels() as f64 * transforms * moved;
        let again = if double { 0.0 } else { drowned * spec.template().len() as f64 * spec.channels() as f64 };
        let batches = batches(spec, tile);
        let count = transformed(shape.iter().product());
        let bound = binding_with(spec, &[(Term::DeviceBindLibrary, 1.0), (Term::DeviceBindTransform, count)]);
        let work = bound
            .and(Term::DeviceTransform, bytes / multiprocessors(devices))
            .and(Term::DeviceLibrary, batches * axes * transforms)
            .and(Term::DeviceAgain, again * templates / multiprocessors(devices));
        // Samples in f32 have noise where results may be in doubt. A product of spectra for each template.
        let noise = !sums && !double && Passes::of(spec, &method, &scheme).by_tile;
        let work = Pipeline { spec, method: &method, scheme, tile }.with(work, [of_sums + f64::from(noise), 1.0]);
        let kernel = KernelKey {
            op: "fourier".into(),
            dtype: real.name().into(),
            size: join(&spec.image().unpad(&shape), "x").into(),
            target: "cufft".into(),
            tile: tile_name(spec.frame(), tile).into(),
        };
        let recipe = Recipe {
            method: Arc::new(method),
            tile,
            types: types(spec, real, cross),
            exact: rounds,
            rounds,
            devices: devices.to_vec(),
        };
        let by_cost = offer(machine, spec, Method::Fourier, kernel, work, recipe);
        let eligible = match () {
            () if few && !double => Eligible::ByName,
            () if transforms_serve(spec, rounds, false) => Eligible::ByCost,
            () => Eligible::OnlyIfForced,
        };
        offers.push(Offer { eligible, ..by_cost });
    }
    if offers.is_empty() {
        return Err(not_rounded(name, bound));
    }
    Ok(offers)
}

/// The least template whose sums cuFFT's transforms in f32 are trusted with, in samples. Their errors are in proportion
/// to the norm of the tile and those that the conventions grant to that of a panel, `sqrt(N / n)` of it at least. Waves
/// in 11 shapes of up to 4e6 samples found 1.38 times what is granted for 2 samples and 0.66 for 128.
const LEAST_SINGLE: usize = 128;

/// By cuFFT's transforms of the whole image, from the image to the result: sums of an image in f32 by one template.
pub(super) fn whole(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    let devices = machine.devices();
    let types = types(spec, DType::F32, Cross::F32);
    let single = spec.templates() == 1 && !spec.pairs() && spec.accuracy() != Accuracy::Exact;
    let Some(entry) = flcc_generated::generic("whole", DType::F32.name(), false).filter(|_| single) else {
        return Ok(Vec::new());
    };
    let wraps = matches!(spec.boundary(), Boundary::Zero | Boundary::Constant(_));
    let template = spec.template().padded();
    let shape = whole_shape(spec, wraps);
    let method = Cufft { shape, double: false, masked: false, sums: false, whole: Some(Whole { entry, wraps }) };
    let samples = shape.iter().map(|&side| side as f64).product::<f64>();
    let in_one = goes_straight(spec, &method, &Scheme::new(spec, false, false), types);
    if !in_one || samples * BYTES_OF_WHOLE > 0.3 * least_memory(devices) {
        return Ok(Vec::new());
    }
    // What is computed again of extraordinary samples goes by tiles, whose results do not wrap round.
    let tile = covering(spec.frame(), [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]));
    let axes: Vec<f64> = shape.iter().filter(|&&side| side > 1).map(|&side| pace(side)).collect();
    let bytes = samples * (TRANSFORMED * axes.iter().sum::<f64>() / axes.len().max(1) as f64 + AROUND);
    // Images of a batch go one by one.
    let work = copies(Work::default(), spec, 1.0 / together(spec, tile) as f64)
        .and(Term::DeviceTransform, bytes / multiprocessors(devices))
        .and(Term::DeviceLaunch, 3.0)
        .and(Term::DeviceLibrary, 2.0 * axes.len().max(1) as f64);
    let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
    let recipe =
        Recipe { method: Arc::new(method), tile, types, exact: false, rounds: false, devices: devices.to_vec() };
    let few = spec.template().len() < LEAST_SINGLE;
    let eligible = if few { Eligible::ByName } else { Eligible::ByCost };
    Ok(vec![Offer { eligible, ..offer(machine, spec, Method::Fourier, kernel, work, recipe) }])
}

/// Bytes that a slot takes for a sample of a whole image: samples, sums and both spectra, image and result, marks.
const BYTES_OF_WHOLE: f64 = 28.0;

/// Bytes that two transforms move for each sample, where a length has the pace of 1, and what stands around them.
const TRANSFORMED: f64 = 32.0;
const AROUND: f64 = 20.0;

/// What cuFFT takes for a sample along an axis of such a length, over what it takes along one of 2048: of squares and
/// cubes, there and back, with 14 us less for launches (H200, cuFFT of CUDA 13.0; 2048x2048 takes 62.5 us).
const PACES: [(usize, f64); 38] = [
    (108, 1.3),
    (112, 1.5),
    (120, 1.3),
    (128, 1.0),
    (256, 1.0),
    (264, 1.5),
    (270, 1.25),
    (280, 1.5),
    (288, 1.3),
    (512, 1.0),
    (520, 1.7),
    (540, 1.25),
    (544, 1.7),
    (560, 1.2),
    (576, 1.4),
    (588, 1.3),
    (640, 1.25),
    (1024, 1.0),
    (1440, 2.15),
    (1458, 1.7),
    (1470, 1.7),
    (1500, 2.4),
    (1512, 2.05),
    (1536, 2.05),
    (1568, 1.75),
    (1600, 1.95),
    (1620, 1.95),
    (1792, 1.6),
    (2048, 1.0),
    (2160, 2.1),
    (2187, 1.4),
    (2240, 2.45),
    (2250, 1.85),
    (2268, 2.3),
    (2304, 1.95),
    (2401, 1.85),
    (2560, 1.7),
    (4096, 1.25),
];

/// The pace of a length, relative to the fastest: as measured, or as lengths around it take, in one kernel or in two.
fn pace(length: usize) -> f64 {
    let known = PACES.iter().find(|(known, _)| *known == length).map(|(_, pace)| *pace);
    known.unwrap_or(match length {
        _ if length.is_power_of_two() && length <= 4096 => 1.0,
        ..=1024 => 1.5,
        _ => 2.1,
    })
}

/// The lengths that a whole image is transformed in: no less than its results and the template need, by what they cost.
fn whole_shape(spec: &Spec, wraps: bool) -> [usize; 3] {
    let (region, image, template) = (spec.mode_region(), spec.image().padded(), spec.template().padded());
    [0, 1, 2].map(|axis| {
        let outputs = region.shape.padded()[axis];
        let origin = region.origin[axis] as i64 + 1 - template[axis] as i64;
        let reach = origin + (outputs + template[axis]) as i64 - 1;
        // Where what lies outside is one value, samples before the first may come after the last.
        let least = match wraps {
            true => (reach - origin.max(0)).max(reach.min(image[axis] as i64) - origin.min(0)),
            false => reach - origin,
        };
        // A template that is longer than the image may be longer than that, too.
        let least = (least as usize).max(template[axis]);
        if least == 1 {
            return 1;
        }
        // Samples of a row are gathered four at a time where a tile is.
        let known = |length: usize| PACES.iter().any(|(known, _)| *known == length);
        let fits = |length: usize| match axis {
            2 => length.is_multiple_of(4),
            _ => length.is_multiple_of(2) || known(length),
        };
        let fast = (least..=least + least / 4 + ROW_STEP).filter(|&length| smooth(length) && fits(length));
        let cost = |length: usize| length as f64 * (TRANSFORMED * pace(length) + AROUND);
        fast.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or_else(|| least.next_power_of_two().max(4))
    })
}

/// Transforms in f32 of samples of one sign leave windows of ncc in doubt up to this share of which lies in the image,
/// with zeros beside it. Measured of bytes at random: 0.06 to 0.12, in images of 146x233 to 300x400 with templates of
/// 33x33 and 65x65.
const DROWNS: f64 = 0.1;

/// How many scores of a template a transform in f32 leaves in doubt of images whose samples have one sign. Of squared
/// differences they are nearly all: what the library's transforms are granted comes to more than half of the promise
/// (H200, 20 specs: 4 to 47 times as long as without). Of ncc they are those of which little lies in the image.
fn drowned(spec: &Spec) -> f64 {
    if differences_drown(spec) {
        return spec.out_shape().len() as f64;
    }
    let beside = spec.boundary().value() == Some(0.0);
    if !(spec.accuracy() == Accuracy::Promised && spec.op().measure() == Measure::Ncc && beside) {
        return 0.0;
    }
    let (region, image, template) = (spec.mode_region(), spec.image().padded(), spec.template().padded());
    // How many windows have so many samples in the image, along an axis.
    let counts = [0, 1, 2].map(|axis| {
        let mut counts = vec![0.0f64; template[axis] + 1];
        let first = region.origin[axis];
        for last in first..first + region.shape.padded()[axis] {
            let outside = (last + 1).saturating_sub(image[axis]) + template[axis].saturating_sub(last + 1);
            counts[template[axis].saturating_sub(outside)] += 1.0;
        }
        counts
    });
    let up_to: Vec<f64> = counts[2]
        .iter()
        .scan(0.0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
        .collect();
    let most = DROWNS * spec.template().len() as f64;
    let mut windows = 0.0;
    for (planes, of_planes) in counts[0].iter().enumerate() {
        for (rows, of_rows) in counts[1].iter().enumerate() {
            let columns = (most / (planes * rows).max(1) as f64) as usize;
            windows += of_planes * of_rows * up_to[columns.min(template[2])];
        }
    }
    windows
}

/// What rows of transforms are whole multiples of.
const ROW_STEP: usize = 16;

/// Bytes that the slots of a device take for a sample of a tile, about.
const BYTES_OF_TILE: f64 = 160.0;

/// Bytes that a template's spectrum takes for a sample of a tile, at most.
const BYTES_OF_SPECTRUM: f64 = 8.0;

/// Samples of a tile that every device has the memory for.
const ALWAYS_HELD: f64 = (1u32 << 25) as f64;

/// Bytes of the device that has the fewest.
fn least_memory(devices: &[Device]) -> f64 {
    devices.iter().map(|device| device.memory).min().unwrap_or(0) as f64
}

/// Transform shapes to choose from: of lengths that are fast, rows of whole vectors, whole axes where they are short,
/// in up to a third of so many bytes of memory.
fn shapes(spec: &Spec, memory: f64) -> Vec<[usize; 3]> {
    let template = spec.template().padded();
    let whole = spec.mode_region().shape.padded();
    let fast = |least: usize, axis: usize| {
        let step = if axis == 2 { ROW_STEP } else { 1 };
        (least..).find(|&length| length % step == 0 && smooth(length)).unwrap_or(least)
    };
    let single = [0, 1, 2].map(|axis| {
        if whole[axis] + template[axis] - 1 == 1 && axis < 2 { 1 } else { fast(whole[axis] + template[axis] - 1, axis) }
    });
    let lengths: &[usize] = match spec.image().axes() {
        1 => &[4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22],
        2 => &[128, 256, 512, 1024, 2048, 4096],
        _ => &[32, 64, 128, 256, 512, 1024],
    };
    let mut found: Vec<[usize; 3]> = Vec::new();
    for &length in lengths {
        let shape = [0, 1, 2].map(|axis| {
            if single[axis] <= length {
                single[axis]
            } else {
                fast(length.max(template[axis] + template[axis] / 2 + 1), axis).min(single[axis])
            }
        });
        if !found.contains(&shape) {
            found.push(shape);
        }
    }
    let samples = |shape: &[usize; 3]| shape.iter().map(|&side| side as f64).product::<f64>();
    let bytes = spec.channels() as f64 * (BYTES_OF_TILE + BYTES_OF_SPECTRUM * spec.templates() as f64);
    let held = (0.3 * memory / bytes).max(ALWAYS_HELD);
    let most = found.iter().map(samples).fold(f64::INFINITY, f64::min).max(held);
    // Window sums take a block for 32 outputs of an axis, and for each row or plane of the other.
    let narrow = |shape: &[usize; 3]| {
        let [depth, height, _] = [0, 1, 2].map(|axis| shape[axis] + 1 - template[axis]);
        (height.div_ceil(32) * shape[0]).max(depth.div_ceil(32) * height) <= MOST_BLOCKS
    };
    let smallest = found.first().copied();
    found.retain(|shape| samples(shape) <= most && narrow(shape));
    if found.is_empty() { smallest.into_iter().collect() } else { found }
}

/// Whether a length has no prime factor above 7.
fn smooth(mut length: usize) -> bool {
    for factor in [2, 3, 5, 7] {
        while length.is_multiple_of(factor) {
            length /= factor;
        }
    }
    length == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::solver::offers;
    use crate::cuda::solver::tests::machine;

    #[test]
    fn whole_images_are_transformed_in_lengths_that_are_fast() {
        let shape = |spec: &str, wraps| {
            let spec: Spec = spec.parse().unwrap();
            whole_shape(&spec, wraps)
        };
        // No longer than the results where samples may wrap round, than all samples that they meet elsewhere.
        assert_eq!(shape("corr:f32:2000x2000*128x128:full", true), [1, 2187, 2160]);
        assert_eq!(shape("corr:f32:2000x2000*128x128:full,reflect", false), [1, 2304, 2304]);
        assert_eq!(shape("corr:f32:2000x2000*128x128:valid", true), [1, 2048, 2048]);
        assert_eq!(shape("corr:f32:512x512x512*32x32x32:full", true), [560; 3]);
        assert_eq!(shape("corr:f32:100x100x100*8x8x8:full", true), [108; 3]);
        let [depth, height, width] = shape("corr:f32:30000*20000:full", true);
        assert!([depth, height] == [1, 1] && (49999..62000).contains(&width) && width % 4 == 0, "{width}");
        let taps = |side: usize| [1, side.div_ceil(2), 37, 3 * side].map(|taps| (side, taps));
        for (side, taps) in (1usize..400).flat_map(taps) {
            for mode in ["full", "same"] {
                let shape = shape(&format!("corr:f32:{side}x{side}*{taps}x{taps}:{mode}"), true);
                let least = if mode == "full" { side + taps - 1 } else { side.max(taps) };
                assert!(shape[1..].iter().all(|&length| length >= least), "{side} {taps} {mode}: {shape:?}");
                assert!(shape[2] % 4 == 0 || shape[2] == 1, "{side} {taps} {mode}: {shape:?}");
            }
        }
    }

    #[test]
    fn windows_that_hang_over_an_image_are_counted() {
        for text in
            ["ncc:u8:23x31*7x9:full", "ncc:u8:23x31*7x9:same", "ncc:f32:9x11x13*3x4x5:full", "ncc:u16:50*9:full"]
        {
            let spec: Spec = text.parse().unwrap();
            let (image, template, region) = (spec.image().padded(), spec.template().padded(), spec.mode_region());
            let most = DROWNS * spec.template().len() as f64;
            let shape = region.shape.padded();
            let inside = |axis: usize, at: usize| {
                let last = region.origin[axis] + at;
                (0..template[axis]).filter(|&k| last >= k && last - k < image[axis]).count()
            };
            let windows = (0..shape.iter().product()).filter(|&at: &usize| {
                let at = [at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]];
                [0, 1, 2].iter().map(|&axis| inside(axis, at[axis])).product::<usize>() as f64 <= most
            });
            assert_eq!(drowned(&spec), windows.count() as f64, "{text}");
        }
        for text in ["zncc:u8:23x31*7x9:full", "ncc:u8:23x31*7x9:valid", "ncc:u8:23x31*7x9:full,reflect"] {
            assert_eq!(drowned(&text.parse().unwrap()), 0.0, "{text}");
        }
        // Of squared differences over both norms all do, wherever they lie.
        for text in ["nssd:u8:23x31*7x9:valid", "nssd:f32:500*9:same,reflect"] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(drowned(&spec), spec.out_shape().len() as f64, "{text}");
        }
        assert_eq!(drowned(&"nssd:u8:23x31*7x9:valid,acc=fast".parse().unwrap()), 0.0);
        // Where many drown, transforms in f64 are offered, and the cheaper ones.
        let offers = |text: &str| offers("cuda", Method::Fourier, &text.parse().unwrap(), &machine()).unwrap();
        let first = |text: &str| offers(text)[0].kernel.dtype.to_string();
        assert_eq!(first("ncc:u8:593x1361*178x178:full"), "f64");
        assert_eq!(first("nssd:u16:3090669*5228:valid"), "f64");
        assert!(offers("ncc:u8:593x1361*178x178:full").iter().any(|offer| offer.kernel.dtype == "f32"));
        assert!(offers("ncc:u8:593x1361*178x178:valid").iter().all(|offer| offer.kernel.dtype == "f32"));
    }

    #[test]
    fn transforms_hold_the_template_and_rows_of_whole_vectors() {
        for spec in [
            "zncc:f32:2000x2000*64x64:valid",
            "corr:f32:300x40*280x33:full",
            "zncc:f32:100x90x80*9x9x9:same",
            "corr:f32:100000*700:full",
        ] {
            let spec: Spec = spec.parse().unwrap();
            for shape in shapes(&spec, 141e9) {
                let template = spec.template().padded();
                assert!((0..3).all(|axis| shape[axis] >= template[axis] && smooth(shape[axis])), "{spec}: {shape:?}");
                assert_eq!(shape[2] % 16, 0, "{spec}: {shape:?}");
            }
        }
    }

    #[test]
    fn volumes_are_transformed_whole_where_memory_holds_them() {
        let spec: Spec = "zncc:f32:512x512x512*32x32x32:full".parse().unwrap();
        let whole = |memory| shapes(&spec, memory).iter().any(|shape| shape.iter().all(|&side| side >= 543));
        assert!(whole(141e9) && !whole(16e9));
        // Spectra of many templates take memory too, and window sums of a flat volume would take too many blocks.
        let many: Spec = "zncc:f32:512x512x512*100@32x32x32:full".parse().unwrap();
        assert!(shapes(&many, 141e9).iter().all(|shape| shape.iter().all(|&side| side <= 512)));
        let flat: Spec = "zncc:f32:2000x1000x16*1400x3x3:same".parse().unwrap();
        assert!(shapes(&flat, 141e9).iter().all(|shape| 31 * shape[0] <= MOST_BLOCKS || shape[1] < 900));
        assert!(shapes(&spec, 16e9).iter().all(|shape| shape.iter().all(|&side| side <= 256)));
    }
}
