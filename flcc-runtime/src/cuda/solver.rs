//! The GPU's offers: which kernel or transform, in which type, by which tiles. Pure: no device is asked for anything.

use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;

use crate::cuda::driver::launch::MOST_CHANNELS;
use crate::cuda::solver::direct::{any, differences, listed, listed_scores, masked, mma_scores};
use crate::cuda::solver::library::{cufft, whole};
use crate::cuda::solver::recipe::Asked;
use crate::cuda::solver::separable::separable;
use crate::cuda::solver::transforms::{
    large, large_scores, lines, own_pairs, tile_scores, tiles, volume_scores, volumes,
};
use crate::cuda::tensor;
use crate::plan::machine::Machine;
use crate::plan::solver::{Method, Offer};
use crate::problem::scheme::refuse_inexact;

pub mod direct;
mod library;
pub mod recipe;
mod separable;
mod tiles;
mod transforms;
mod work;

/// Samples along an axis that kernels count with 32 bits.
const LONGEST: usize = 1 << 30;

/// The offers of a method, for the machine's devices together.
///
/// # Errors
/// Why the method does not serve the spec on a GPU.
pub fn offers(name: &'static str, method: Method, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal> {
    refuse_inexact(name, spec)?;
    let longest = spec.image().padded().into_iter().chain(spec.mode_region().shape.padded()).max().unwrap_or(0);
    if longest + spec.template().padded().into_iter().max().unwrap_or(0) >= LONGEST {
        return Err(Refusal::new(name, format!("an axis of {longest} samples is longer than {LONGEST}")));
    }
    if spec.channels() > MOST_CHANNELS {
        return Err(Refusal::new(name, format!("{} channels are more than {MOST_CHANNELS}", spec.channels())));
    }
    let ways = WAYS.iter().filter(|(of, _)| *of == method);
    let (mut offers, mut refused) = (Vec::new(), None);
    for (_, way) in ways {
        match way(&Asked { name, spec, machine }) {
            Ok(some) => offers.extend(some),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    if offers.is_empty() {
        let none = || Refusal::new(name, "no kernel serves this spec");
        return Err(refused.unwrap_or_else(none));
    }
    offers.sort_by(|a: &Offer, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    Ok(offers)
}

/// The offers of a method, where a kernel is asked for by its name.
///
/// # Errors
/// As [`offers`]; why that kernel is not among them, where the kernel is known and devices or spec are what it lacks.
pub fn offers_named(
    name: &'static str,
    method: Method,
    spec: &Spec,
    machine: &Machine,
    kernel: &KernelKey,
) -> Result<Vec<Offer>, Refusal> {
    let offers = offers(name, method, spec, machine)?;
    match tensor::kernel().filter(|entry| *entry.op == *kernel.op) {
        Some(entry) if offers.iter().all(|offer| offer.kernel.op != kernel.op) => {
            Err(Refusal::new(name, tensor::reason(entry, spec.template().padded(), machine.devices())))
        }
        _ => Ok(offers),
    }
}

/// The offers of one way to compute: none where it has nothing to do with a spec, a refusal where it lacks something.
type Way = fn(&Asked<'_>) -> Result<Vec<Offer>, Refusal>;

/// The one table of what GPUs offer, and by which method it is asked for.
const WAYS: &[(Method, Way)] = &[
    (Method::Direct, listed_scores),
    (Method::Direct, mma_scores),
    (Method::Direct, listed),
    (Method::Direct, any),
    (Method::Direct, masked),
    (Method::Direct, differences),
    (Method::Fourier, cufft),
    (Method::Fourier, whole),
    (Method::Fourier, tiles),
    (Method::Fourier, tile_scores),
    (Method::Fourier, large),
    (Method::Fourier, large_scores),
    (Method::Fourier, volumes),
    (Method::Fourier, volume_scores),
    (Method::Fourier, lines),
    (Method::Fourier, own_pairs),
    (Method::Separable, separable),
];

#[cfg(test)]
mod tests {
    use flcc_core::shape::join;

    use super::*;
    use crate::cuda::solver::recipe::Recipe;
    use crate::plan::cost::Term;
    use crate::plan::machine::Device;
    use crate::plan::solver::Eligible;

    pub(super) fn machine() -> Machine {
        let device = Device {
            index: 0,
            name: "a device".into(),
            capability: (9, 0),
            multiprocessors: 132,
            f32_per_f64: 2,
            memory: 80 << 30,
        };
        Machine::described(&[], 4).with_devices(vec![device], "described")
    }

    fn first(method: Method, spec: &str) -> Result<String, String> {
        let offers = offers("cuda", method, &spec.parse().unwrap(), &machine()).map_err(|refusal| refusal.reason)?;
        let first =
            offers.iter().find(|offer| offer.eligible != Eligible::ByName).expect("one that is no name's alone");
        Ok(first.kernel.to_string())
    }

    #[test]
    fn a_listed_size_has_its_kernel_and_others_the_one_for_any() {
        let name = |spec| first(Method::Direct, spec).unwrap();
        assert!(name("corr:f32:2000x2000*7x7:valid").starts_with("corr_f32_7x7_b"));
        assert!(name("zncc:f32:2000x2000*3x3:valid").starts_with("zncc_f32_3x3_b"));
        assert!(name("zncc:u8:2000x2000*1x2:valid").starts_with("znccmma_u8_any_b"));
        assert!(name("zncc:u8:2000x2000*16x16:valid").starts_with("znccmma_u8_any_b"));
        assert!(name("zncc:u8/f32:2000x2000*16x16:valid").starts_with("zncc_f32_16x16_b"));
        assert!(name("zncc:u16:2000x2000*16x16:valid").starts_with("zncc_f64_16x16_b"));
        assert!(name("zncc:f32:100x100x100*5x5x5:valid").starts_with("zncc_f32_5x5x5_b"));
        assert!(name("zncc:f32:100000*31:valid").starts_with("zncc_f32_31_b"));
        assert!(name("corr:f32:2000x2000*7x9:valid").starts_with("corr_f32_any_b"));
        assert!(name("ncc:f32:2000x2000*7x7:valid").starts_with("corr_f32_7x7_b"));
        // A score of 64 bits has no room where a cross term of 32 was.
        assert!(name("zncc:u8>f64:2000x2000*16x16:valid").starts_with("corr_u8_16x16_b"));
        assert!(name("zncc:f32:2000x2000*7x7:valid,mask01").starts_with("masked_f64_any_b"));
        assert!(name("sad:u8:2000x2000*7x7:valid").starts_with("sad_f64_any_b"));
        // Up to so many terms a sum in f32 is off by half of what it may at most; nssd has it twice.
        assert!(name("zncc:f32:2000x2000*32x32:valid").starts_with("zncc_f32_32x32_b"));
        assert!(name("ncc:f32:2000x2000*53x53:valid").starts_with("corr_f32_any_b"));
        assert!(name("ncc:f32:2000x2000*54x54:valid").starts_with("corr_f64_any_b"));
        assert!(name("nssd:f32:2000x2000*19x19:valid").starts_with("corr_f32_19x19_b"));
        assert!(name("nssd:f32:2000x2000*20x20:valid").starts_with("corr_f64_20x20_b"));
    }

    /// What a kernel's name finds for a spec on a device of this compute capability, or why it finds nothing.
    fn by_name(kernel: &str, spec: &str, capability: (u32, u32)) -> Result<Offer, String> {
        let devices = machine().devices().iter().map(|device| Device { capability, ..device.clone() }).collect();
        let machine = Machine::described(&[], 4).with_devices(devices, "described");
        let (kernel, spec): (KernelKey, Spec) = (kernel.parse().unwrap(), spec.parse().unwrap());
        let offers = offers_named("cuda direct", Method::Direct, &spec, &machine, &kernel);
        let mut offers = offers.map_err(|refusal| refusal.reason)?.into_iter();
        Ok(offers.find(|offer| offer.kernel.op == kernel.op).expect("one of that name"))
    }

    #[test]
    fn each_template_has_launches_of_its_own() {
        let launched = |method, kernel: &str, text: &str| {
            let offers = offers("cuda", method, &text.parse().unwrap(), &machine()).unwrap();
            let offer = offers.into_iter().find(|offer| offer.kernel.to_string().starts_with(kernel)).unwrap();
            [Term::DeviceStraight, Term::DeviceLaunch, Term::DeviceLibrary].map(|term| offer.work.of(term))
        };
        let (direct, fourier, separable) = (Method::Direct, Method::Fourier, Method::Separable);
        for (method, kernel, image, template, mode, one, four) in [
            // From the image to the result.
            (direct, "corr_f32_13x13", "corr:f32:164x164", "13x13", "same", [1.0, 0.0, 0.0], [4.0, 0.0, 0.0]),
            (fourier, "tile64", "corr:f32:164x164", "13x13", "same", [1.0, 0.0, 0.0], [4.0, 0.0, 0.0]),
            (fourier, "line4096", "conv:f32:48900", "36", "full", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
            (separable, "separable_f32", "corr:f32:300x300", "9x40", "valid", [1.0, 0.0, 0.0], [4.0, 0.0, 0.0]),
            // Scores in one kernel, and in two and a look at what is in doubt, whose counts are cleared first.
            (direct, "znccmma", "zncc:u8:210x69", "5x5", "same", [0.0, 1.0, 0.0], [0.0, 4.0, 0.0]),
            (fourier, "zncc64", "zncc:f32:249x780", "49x49", "valid", [0.0, 4.0, 0.0], [0.0, 13.0, 0.0]),
            // Gathered once; products and a finish for each.
            (direct, "corr_u8_any", "corr:u8:300x300", "9x40", "valid", [0.0, 3.0, 0.0], [0.0, 9.0, 0.0]),
            // Along two axes, there once and back for each; spectra are multiplied before they go.
            (fourier, "fourier_f64", "corr:u8:300x300", "9x40", "valid", [0.0, 3.0, 4.0], [0.0, 9.0, 10.0]),
        ] {
            assert_eq!(launched(method, kernel, &format!("{image}*{template}:{mode}")), one, "{kernel}");
            assert_eq!(launched(method, kernel, &format!("{image}*4@{template}:{mode}")), four, "{kernel}");
        }
    }

    /// Kernels of scores that take samples in f32 sum windows up in two floats on devices that are slow in f64; others
    /// do not, and no part of the pipeline depends on it.
    #[test]
    fn devices_that_are_slow_in_f64_have_two_floats() {
        let sources = |method, spec: &str, rates: &[u32]| {
            let of = |&f32_per_f64: &u32| Device { f32_per_f64, ..machine().devices()[0].clone() };
            let machine = Machine::described(&[], 4).with_devices(rates.iter().map(of).collect(), "described");
            let spec: Spec = spec.parse().unwrap();
            let offers = offers("cuda", method, &spec, &machine).unwrap();
            let recipe: &dyn std::any::Any = &*offers[0].recipe;
            recipe.downcast_ref::<Recipe>().unwrap().sources(&spec)
        };
        let option = "-DFLCC_SLOW_F64=1".to_string();
        for (method, spec, serves) in [
            (Method::Direct, "zncc:f32:300x400*16x16:valid", true),
            (Method::Direct, "zncc:u8/f32:300x400*16x16:valid", true),
            (Method::Direct, "zncc:u8:300x400*3x3:valid", false),
            (Method::Direct, "zncc:f64:300x400*16x16:valid", false),
            (Method::Direct, "zncc:f32:300x400*16x17:valid", false),
            (Method::Fourier, "zncc:f32:300x400*40x41:valid", true),
            (Method::Fourier, "zncc:u16:300x400*40x41:valid", true),
            (Method::Fourier, "zncc:f32:60x70x80*8x9x7:valid", true),
        ] {
            // One that is slow decides for all.
            for (rates, slow) in [(&[2][..], false), (&[64], true), (&[32], true), (&[2, 64], true)] {
                let sources = sources(method, spec, rates);
                assert_eq!(sources.own.contains(&option), serves && slow, "{spec}: {:?}", sources.own);
                assert!(!sources.options.contains(&option), "{spec}");
            }
        }
    }

    #[test]
    fn bytes_go_to_tensor_cores() {
        let kernel = "znccmma_u8_any_b32x8";
        for spec in [
            "zncc:u8:2000x2000*16x16:full",
            "zncc:u8:300x400*4x17:valid,acc=exact",
            "zncc:u8:0@480x640*3@64x64:same,reflect",
            "zncc:u8:300x400*9x256:same,constant(7.0)",
            "zncc:u8:200x200*1x16:valid",
        ] {
            let offer = by_name(kernel, spec, (9, 0)).unwrap();
            assert!(offer.kernel.to_string().starts_with(kernel), "{spec}: {}", offer.kernel);
            assert_eq!((offer.eligible, offer.method), (Eligible::ByCost, Method::Direct), "{spec}");
            let recipe: &dyn std::any::Any = &*offer.recipe;
            let sources = recipe.downcast_ref::<Recipe>().unwrap().sources(&spec.parse().unwrap());
            assert_eq!(sources.kernel.map(|entry| entry.op), Some(tensor::OP));
        }
        for [height, width] in [
            [2, 2],
            [1, 64],
            [3, 8],
            [64, 1],
            [4, 4],
            [8, 8],
            [16, 16],
            [24, 25],
            [32, 32],
            [64, 64],
            [90, 91],
            [32, 256],
        ] {
            let spec = format!("zncc:u8:2000x2000*{height}x{width}:full");
            let cheapest = [Method::Direct, Method::Fourier]
                .into_iter()
                .flat_map(|method| offers("cuda", method, &spec.parse().unwrap(), &machine()).unwrap())
                .min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
            let cheapest = cheapest.expect("some offer").kernel.to_string();
            assert!(cheapest.starts_with(kernel), "{spec}: {cheapest}");
        }
        let lacks = |spec, capability| by_name(kernel, spec, capability).unwrap_err();
        let reason = lacks("zncc:u8:2000x2000*16x16:full", (7, 5));
        assert_eq!(reason, "tensor cores for bytes need compute capability 8.0 or more, a device has 7.5");
        assert!(by_name(kernel, "zncc:u8:2000x2000*256x32:full", (9, 0)).is_ok());
        let reason = lacks("zncc:u8:2000x2000*256x32:full", (8, 6));
        assert!(reason.contains("a template of 256x32 needs ") && reason.contains("shared memory"), "{reason}");
        for spec in [
            "zncc:u8:400x400*1x257:valid",
            "zncc:u8:200x200*100x100:valid",
            "zncc:u8>f64:200x200*16x16:valid",
            "zncc:u8:200x200*16x16:valid,mask01",
            "zncc:u8:200x200*16x16:valid,channels=3",
            "zncc:u8/f32:200x200*16x16:valid",
            "zncc:u8:20x30x40*4x4x4:valid",
            "zncc:u8:2000*16:valid",
            "zncc:u8:200x200*16x16:full,constant(0.5)",
            "ncc:u8:200x200*16x16:valid",
        ] {
            let reason = lacks(spec, (9, 0));
            assert!(reason.contains("of images in u8 by templates in u8"), "{spec}: {reason}");
        }
        // Names of others find what they found.
        assert!(by_name("zncc_u8_16x16_b32x8", "zncc:u8:2000x2000*16x16:full", (7, 5)).is_ok());
    }

    /// With the specs of `xtask gpu-check`, which plans each of them.
    #[test]
    fn every_listed_kernel_is_what_a_spec_of_its_size_is_planned_with() {
        for entry in flcc_generated::kernels().iter().filter(|entry| entry.size().is_some()) {
            let image = ["2000", "150x161", "20x41x52"][entry.sides.len() - 1];
            let spec = format!("{}:{}:{image}*{}:valid", entry.op, entry.dtype, join(entry.sides, "x"));
            let kernel = first(Method::Direct, &spec).unwrap();
            let by_cost = kernel.starts_with(&format!("{}_", entry.name));
            // Of planes of bytes tensor cores may be faster, and of volumes a kernel of sums with window sums apart;
            // then it is there by its name.
            let others = match (entry.op, entry.dtype, entry.sides.len()) {
                ("zncc", "u8", 2) => tensor::OP,
                ("zncc", _, 3) => "corr_",
                _ => entry.name,
            };
            let by_its_name = kernel.starts_with(others) && by_name(entry.name, &spec, (9, 0)).is_ok();
            assert!(by_cost || by_its_name, "{spec}: {kernel}");
        }
    }

    #[test]
    fn sums_in_f32_are_transformed_by_tiles_that_pay() {
        let name = |spec: &str| first(Method::Fourier, spec).unwrap();
        for side in [16, 21] {
            assert!(name(&format!("corr:f32:2000x2000*{side}x{side}:full")).starts_with("tile64_f32_any_b"), "{side}");
        }
        for (spec, kernel) in [
            ("corr:f32:2000x2000*32x32:full", "tile128_"),
            ("conv:f32:2000x2000*64x64:same", "tile128_"),
            ("corr:f32:4096x4096*76x76:valid", "tile512_"),
            ("corr:f32:2000x2000*128x128:full", "tile512_"),
            ("corr:f32:2000x2000*200x200:full", "tile1024_"),
        ] {
            assert!(name(spec).starts_with(kernel), "{spec}: {}", name(spec));
        }
        for spec in ["ncc:f32:2000x2000*32x32:full", "corr:f64:900x900*32x32:full"] {
            assert!(name(spec).starts_with("fourier_"), "{spec}: {}", name(spec));
        }
        for spec in ["corr:f32:2000x2000*1000x1000:full", "corr:f32:512x512x512*32x32x32:full"] {
            assert!(name(spec).starts_with("whole_"), "{spec}: {}", name(spec));
        }
    }

    #[test]
    fn a_rank_says_when_products_of_lines_may_be_chosen() {
        let offer = |spec: &str| {
            let offers = offers("cuda", Method::Separable, &spec.parse().unwrap(), &machine()).unwrap();
            (offers[0].kernel.to_string(), offers[0].eligible, offers[0].estimate_ns)
        };
        for (spec, kernel, eligible) in [
            ("corr:f32:900x900*16x16:full", "separable_f32_any_b", Eligible::ByRank),
            ("corr:f32:900x900*16x16:full,rank=2", "separable_f32_any_b", Eligible::ByCost),
            ("zncc:u8:900x900*16x16:full,rank=1", "separable_f32_any_b", Eligible::ByCost),
            ("corr:f64:900x900*16x16:full,rank=1", "separable_f64_any_b", Eligible::ByCost),
            ("zncc:f32:900x900*16x16:full,rank=1,acc=exact", "separable_f64_any_b", Eligible::ByCost),
            // Other methods give these as integers, and weights may drown.
            ("corr:u8:900x900*16x16:full,rank=1", "separable_f64_any_b", Eligible::OnlyIfForced),
            ("corr:f32:900x900*16x16:full,rank=1,maskw", "separable_f64_any_b", Eligible::OnlyIfForced),
        ] {
            let (name, got, _) = offer(spec);
            assert!(name.starts_with(kernel) && got == eligible, "{spec}: {name}, {got:?}");
        }
        // Each product of lines costs as much as the first, and scores have one more for their mean.
        let [one, two, four] = [1, 2, 4].map(|rank| offer(&format!("corr:f64:900x900*16x16:full,rank={rank}")).2);
        assert!(two > one && ((four - two) / (two - one) - 2.0).abs() < 1e-3, "{one} {two} {four}");
        let fourier = |spec: &str| {
            let offers = offers("cuda", Method::Fourier, &spec.parse().unwrap(), &machine()).unwrap();
            offers.iter().fold(f64::INFINITY, |least, offer| least.min(offer.estimate_ns))
        };
        for spec in ["corr:f64:2000x2000*32x32:full,rank=1", "conv:f64:2000x2000*16x16:same,rank=2"] {
            assert!(offer(spec).2 < fourier(spec), "{spec}: {} and {}", offer(spec).2, fourier(spec));
        }
    }

    #[test]
    fn signals_in_f32_are_transformed_by_stretches() {
        let name = |spec: &str| first(Method::Fourier, spec).unwrap();
        for (spec, kernel) in [
            ("corr:f32:10000000*100:full", "line4096_"),
            ("corr:f32:10000000*500:full", "line4096_"),
            ("corr:f32:10000000*1500:valid", "line4096_"),
            ("conv:f32:10000000*5000:same", "line16384_"),
            ("corr:f32:1000000*100@500:full", "line4096_"),
            ("corr:f32:10000000*50000:full", "whole_"),
            ("ncc:f32:10000000*500:full", "fourier_"),
        ] {
            assert!(name(spec).starts_with(kernel), "{spec}: {}", name(spec));
        }
    }

    /// As they rank on an H200, bytes on an H100 (docs/gpu.md).
    #[test]
    fn the_fastest_method_is_the_cheapest() {
        let cheapest = |spec: &str| {
            let spec: Spec = spec.parse().unwrap();
            let all =
                [Method::Direct, Method::Fourier].map(|method| offers("cuda", method, &spec, &machine()).unwrap());
            let offers = all.iter().flatten().filter(|offer| offer.eligible == Eligible::ByCost);
            offers.min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns)).unwrap().kernel.to_string()
        };
        for (side, kernel) in [(3, "corr_"), (5, "corr_"), (8, "tile64_"), (11, "tile64_"), (16, "tile64_")]
            .into_iter()
            .chain([(21, "tile64_"), (32, "tile128_"), (64, "tile128_"), (128, "tile512_")])
        {
            let spec = format!("corr:f32:2000x2000*{side}x{side}:full");
            assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
        }
        let floats =
            [(3, "zncc_"), (8, "zncc_"), (16, "zncc64_"), (32, "zncc128_"), (100, "zncc512_"), (128, "zncc512_")];
        let bytes = [(3, "znccmma_"), (8, "znccmma_"), (16, "znccmma_"), (32, "znccmma_"), (64, "znccmma_")];
        for (dtype, list) in [("f32", &floats[..]), ("u8", &bytes)] {
            for (side, kernel) in list {
                let spec = format!("zncc:{dtype}:2000x2000*{side}x{side}:full");
                assert!(cheapest(&spec).starts_with(kernel), "{spec}: {}", cheapest(&spec));
            }
        }
    }

    /// Where few blocks of large tiles leave multiprocessors idle, smaller tiles are faster.
    #[test]
    fn small_images_keep_the_smaller_tiles() {
        let offers =
            offers("cuda", Method::Fourier, &"zncc:f32:1024x1024*76x76:full".parse().unwrap(), &machine()).unwrap();
        assert!(offers[0].kernel.to_string().starts_with("zncc128_"), "{}", offers[0].kernel);
    }

    #[test]
    fn what_a_gpu_does_not_serve_is_refused_with_a_reason() {
        for (text, reason) in [
            ("sad:f32:200x200*7x7:valid", "sad is no sum of products"),
            ("corr:f32:2000*7:valid", "nothing to separate"),
            ("corr:f32:20x30x40*3x3x3:valid", "images of two axes"),
            ("zncc:f32:200x200*7x7:valid,mask01", "window sums under a mask"),
            ("zncc:u8:200x200*7x7:valid,acc=exact", "no integers"),
            ("corr:f64:900x900*200x200:valid", "200x200 need "),
        ] {
            let refusal = first(Method::Separable, text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
        assert!(first(Method::Fourier, "sad:f32:200x200*7x7:valid").unwrap_err().contains("sad"));
        let spec: Spec = "corr:f32:20x20*7x7:valid".parse().unwrap();
        let channels = spec.with_channels(9).unwrap();
        assert!(offers("cuda", Method::Direct, &channels, &machine()).unwrap_err().reason.contains("9 channels"));
    }
}
