//! Peaks that a device finds in its results: those of the maps, whatever is asked for.

use flcc_core::peaks::Search;
use flcc_core::subpixel::Subpixel;
use flcc_runtime::{PeakOptions, Planner};

use super::*;

const SPECS: [&str; 12] = [
    "zncc:f32:3@90x70*2@7x6:valid",
    "zncc:f32:300x330*9x40:valid",
    "ssd:u8:50x61*5x5:same,reflect",
    "ncc:f64:3000*9:full",
    "corr:f32:20000*31:valid",
    "zncc:u8:2@20x21x22*3x4x5:valid",
    "corr:f32:25x40x33*3x3x3:same,wrap",
    "sad:f32:64x300*3x70:valid,roi=10,90:40x150",
    "corr:f32:1x4000*1x31:valid",
    "zncc:f32:200x12*20x12:valid",
    "nssd:u16:4x60x30*4x3x3:valid",
    "corr:f64:150x160*3x3:valid",
];

/// Samples of few levels, so that scores are equal, or of many; some no numbers.
fn noise(spec: &Spec, levels: usize, seed: &mut Seed) -> Pixels {
    let count = spec.image().len();
    let mut draw = |_| if seed.below(3000) == 0 { f64::NAN } else { seed.below(levels) as f64 };
    Pixels::F64((0..count).map(&mut draw).collect()).cast(spec.image_type())
}

/// What a search may be asked for.
fn options(seed: &mut Seed) -> PeakOptions {
    let some = |seed: &mut Seed| seed.below(2) == 0;
    PeakOptions {
        top: [None, Some(0), Some(1), Some(1), Some(3), Some(16), Some(300)][seed.below(7)],
        threshold: some(seed).then(|| seed.below(15) as f64 / 10.0 - 0.5),
        min_distance: [None, Some(0), Some(1), Some(2), Some(5), Some(8), Some(40), Some(usize::MAX)][seed.below(8)],
        exclude_border: [0, 0, 1, 3, usize::MAX][seed.below(5)],
        subpixel: some(seed).then(|| Subpixel::ALL[seed.below(4)]),
    }
}

fn hold_to_maps(planner: &Planner, text: &str, seed: &mut Seed) {
    let spec: Spec = text.parse().unwrap();
    let levels = [3, 5, 1 << 16][seed.below(3)];
    let images: Vec<Pixels> = (0..spec.images().max(1)).map(|_| noise(&spec, levels, seed)).collect();
    let views: Vec<AnyView<'_>> = images.iter().map(|image| AnyView::dense(image, spec.image(), 1).unwrap()).collect();
    let templates: Vec<Pixels> = (0..spec.templates())
        .map(|_| {
            Pixels::F64((0..spec.template().len()).map(|_| seed.below(9) as f64).collect()).cast(spec.template_type())
        })
        .collect();
    let templates: Vec<AnyView<'_>> =
        templates.iter().map(|values| AnyView::dense(values, spec.template(), 1).unwrap()).collect();
    let matcher = planner.plan(&spec).unwrap().bind(&templates, None).unwrap();
    let maps = matcher.execute(&views).unwrap();
    for _ in 0..if emulated() { 3 } else { 10 } {
        let (options, optimum) = (options(seed), seed.below(2) == 0);
        let search = Search::of(&spec, options).with_optimum(optimum);
        let expected: Vec<_> = maps.iter().map(|map| search.in_view(&map.view())).collect();
        let found = matcher.search(&views, &options, optimum, &Control::default()).unwrap().0;
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{text} {options:?} {levels} levels");
    }
}

#[test]
fn a_device_finds_the_peaks_of_the_map() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for method in [Method::Auto, Method::Direct] {
        for text in SPECS {
            hold_to_maps(&gpu(method), text, &mut seed);
        }
    }
}
