//! Plans by the text of a spec.

use std::ffi::c_int;
use std::sync::Barrier;

use flcc::plans::*;
use flcc::queues::*;
use flcc::status::flcc_status::{self, *};
use flcc::types::*;
use flcc_core::dtype::Pixels;
use flcc_core::reference::Oracle;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;

use crate::c::{self, Text};

/// Samples that repeat after 2^32.
pub fn noise(count: usize, seed: u32) -> impl Iterator<Item = f64> {
    let mut state = seed;
    (0..count).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 24)
    })
}

fn pixels(dtype: flcc_core::dtype::DType, count: usize, seed: u32) -> Pixels {
    Pixels::F64(noise(count, seed).collect()).cast(dtype)
}

fn results(spec: &Spec, plan: *const flcc_plan, images: &Pixels, templates: &Pixels, mask: Option<&[f32]>) -> Vec<f64> {
    let mask = mask.map(|mask| (mask, flcc_type::FLCC_F32));
    let matcher = flcc_core::each_type!(Pixels, templates, data => c::matcher(plan, data, None, mask)).unwrap();
    let count = spec.images().max(1);
    let len = spec.out_shape().len() * spec.templates() * count;
    let (mut single, mut double) = (vec![0f32; len], vec![0f64; len]);
    let wide = spec.out_type() == flcc_core::dtype::DType::F64;
    let status = flcc_core::each_type!(Pixels, images, data => match wide {
        true => c::execute(matcher, data, None, count, &mut double, None),
        false => c::execute(matcher, data, None, count, &mut single, None),
    });
    assert_eq!(status, FLCC_OK, "{}", c::message());
    assert_eq!(flcc_matcher_destroy(matcher), FLCC_OK);
    if wide { double } else { single.into_iter().map(f64::from).collect() }
}

#[test]
fn every_type_measure_and_option_is_what_the_oracle_says() {
    for text in [
        "zncc:u8:30x41*7x5:valid",
        "zncc:f32:2@30x41*3@7x5:full,reflect",
        "ncc:u16:200*17:same,mirror",
        "conv:f64:9x10x11*3x2x4:full",
        "corr:f32/u8>f64:2@20x20*6x6:same,wrap,maskw",
        "ssd:u8:30x30*2@9x9:valid,mask01",
        "nssd:u8/f32:24x25*4x3:full,constant(3.0)",
        "sad:u16:14x15*4x4:valid,channels=3",
        "zncc:u8>f64:30x31*6x6:valid,acc=exact",
        "zncc:f32:40x40*5x5:full,roi=10,12:20x9",
        "lcc:f32:2@50x50*12x12:valid,acc=fast",
    ] {
        let spec: Spec = text.parse().unwrap();
        let plan = c::plan(text, "").unwrap_or_else(|_| panic!("{text}: {}", c::message()));
        let (each, part) = (spec.image().len() * spec.channels(), spec.template().len() * spec.channels());
        let count = spec.images().max(1);
        let images = pixels(spec.image_type(), each * count, 1);
        let templates = pixels(spec.template_type(), part * spec.templates(), 2);
        let weights: Vec<f32> = (0..spec.template().len()).map(|i| [0.0, 1.0, 1.0][i % 3]).collect();
        let mask = (text.contains("mask")).then_some(&weights[..]);
        let got = results(&spec, plan, &images, &templates, mask);
        let part_of = |pixels: &Pixels, at: usize, len: usize| {
            Pixels::F64(pixels.to_f64()[at * len..][..len].to_vec()).cast(pixels.dtype())
        };
        for (number, got) in got.chunks_exact(spec.out_shape().len()).enumerate() {
            let (image, template) = (number / spec.templates(), number % spec.templates());
            let (image, template) = (part_of(&images, image, each), part_of(&templates, template, part));
            let held = mask.map(|mask| Pixels::F32(mask.to_vec()));
            let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
            let mask = held.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
            let (image, template) = (view(&image, spec.image()), view(&template, spec.template()));
            let expected = Oracle::new(&spec, &image, &template, mask.as_ref()).unwrap().all();
            let largest = expected.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() <= 1e-5 * largest, "{text}: {got} for {expected}");
            }
        }
        assert_eq!(flcc_plan_destroy(plan), FLCC_OK);
    }
}

#[test]
fn layouts_read_and_write_where_they_say() {
    let plan = c::plan("conv:f32:0@2x3*1x2:valid", "").unwrap();
    let matcher = c::matcher(plan, &[10.0f32, 1.0], None, None).unwrap();
    // Rows of 4, the last sample unused, columns backwards, images 9 apart.
    let images = [3.0f32, 2.0, 1.0, 9.0, 6.0, 5.0, 4.0, 9.0, 9.0, 30.0, 20.0, 10.0, 9.0, 60.0, 50.0, 40.0, 9.0];
    let from = flcc_layout { strides: [4, -1, 77], channel: 0, next: 9 };
    // Results transposed, the second before the first.
    let to = flcc_layout { strides: [1, 2, -5], channel: 3, next: -6 };
    let mut out = [-1.0f32; 11];
    assert_eq!(
        c::execute_from(matcher, (&images, 2, Some(from)), 2, (&mut out, 6, Some(to))),
        FLCC_OK,
        "{}",
        c::message()
    );
    let [a, b, d, e] = [21.0, 32.0, 54.0, 65.0].map(|value: f32| value);
    let times = |value: f32| value * 10.0;
    assert_eq!(out, [times(a), times(d), times(b), times(e), -1.0, -1.0, a, d, b, e, -1.0]);

    // The same address for every image, and results that would lie among each other.
    let still = flcc_layout { strides: [4, 1, 0], channel: 0, next: 0 };
    let mut out = [0.0f32; 8];
    assert_eq!(c::execute(matcher, &images, Some(still), 2, &mut out, None), FLCC_OK);
    assert_eq!(out[..4], out[4..]);
    let among = flcc_layout { strides: [4, 2, 0], channel: 0, next: 1 };
    assert_eq!(c::execute(matcher, &images, Some(still), 2, &mut out, Some(among)), FLCC_ERROR_INVALID);
    assert_eq!(
        c::message(),
        "results: expected arrays behind each other, each 7 elements or more from the last, got 1 elements"
    );
    let shared = flcc_layout { strides: [1, 1, 0], channel: 0, next: 9 };
    assert_eq!(c::execute(matcher, &images, Some(still), 1, &mut out, Some(shared)), FLCC_ERROR_INVALID);
    assert!(c::message().contains("positions that share no element"), "{}", c::message());
    let far = flcc_layout { strides: [isize::MAX, isize::MAX, 0], channel: 0, next: 0 };
    assert_eq!(c::execute(matcher, &images, Some(far), 1, &mut out, None), FLCC_ERROR_INVALID);
    assert!(c::message().starts_with("images: expected arrays that lie within the addresses"), "{}", c::message());
}

#[test]
fn an_info_says_what_is_planned() {
    let plan = c::plan("zncc:u8/f32:0@40x50*2@8x6:same,channels=3", "threads=1").unwrap();
    let info = c::info(plan, size_of::<flcc_info>()).unwrap();
    assert_eq!(info.image, flcc_shape { axes: 2, lengths: [40, 50, 1] });
    assert_eq!((info.templat.lengths, info.result.lengths), ([8, 6, 1], [40, 50, 1]));
    assert_eq!((info.origin, info.images, info.templates, info.channels), ([-4, -3, 0], 0, 2, 3));
    assert_eq!((info.threads, info.platform), (1, flccPlatform::FLCC_HOST));
    let types = (info.image_type, info.template_type, info.result_type);
    assert_eq!(types, (flcc_type::FLCC_U8, flcc_type::FLCC_F32, flcc_type::FLCC_F32));
    // A caller of a header that had only the first two fields.
    let short = c::info(plan, size_of::<usize>() + size_of::<flcc_shape>()).unwrap();
    assert_eq!((short.image, short.templat.axes, short.size), (info.image, 0, 40));
    assert_eq!(c::info(plan, 3), Err(FLCC_ERROR_INVALID));
}

#[test]
fn texts_fit_or_are_cut() {
    let plan = c::plan("lcc:f32:1@30x40*5x5:valid,zero", "").unwrap();
    let spec = "zncc:f32:30x40*5x5:valid";
    assert_eq!(c::told(Text::Spec(plan), 100), Ok((spec.into(), spec.len())));
    assert_eq!(c::told(Text::Spec(plan), 5), Ok(("zncc".into(), spec.len())));
    assert_eq!(c::told(Text::Spec(plan), 0), Ok((String::new(), spec.len())));
    assert_eq!(c::told_nowhere(plan), FLCC_OK);
    let (explained, _) = c::told(Text::Plan(plan), 10_000).unwrap();
    assert!(explained.contains("chosen by estimate"), "{explained}");
    let matcher = c::matcher(plan, &noise(25, 3).map(|x| x as f32).collect::<Vec<_>>(), None, None).unwrap();
    let (bound, _) = c::told(Text::Matcher(matcher), 10_000).unwrap();
    assert!(bound.starts_with(&explained), "{bound}");
    // The kernel that it tells can be asked for.
    let kernel = explained.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap();
    c::plan(spec, &format!("kernel={kernel}")).unwrap();
}

#[test]
fn peaks_are_where_the_template_was_cut_out() {
    let plan = c::plan("zncc:u8:0@60x80*2@9x9:valid", "").unwrap();
    let images: Vec<u8> = noise(2 * 60 * 80, 5).map(|x| x as u8).collect();
    let cut = |image: usize, y: usize, x: usize| -> Vec<u8> {
        (0..81).map(|i| images[image * 4800 + (y + i / 9) * 80 + x + i % 9]).collect()
    };
    let templates = [cut(0, 12, 34), cut(1, 40, 7)].concat();
    let matcher = c::matcher(plan, &templates, None, None).unwrap();
    let found = c::peaks(matcher, &images, 2, 2, "threshold=0.9,subpixel=septic", 3).unwrap();
    let places: Vec<Vec<[usize; 3]>> =
        found.iter().map(|peaks| peaks.iter().map(|peak| peak.position).collect()).collect();
    assert_eq!(places, [vec![[12, 34, 0]], vec![], vec![], vec![[40, 7, 0]]]);
    let peak = found[3][0];
    assert!((peak.score - 1.0).abs() < 1e-6 && (peak.refined[0] - 40.0).abs() < 0.5 && peak.refined[2] == 0.0);
    let found = c::peaks(matcher, &images, 2, 2, "distance=0", 5).unwrap();
    assert!(found.iter().all(|peaks| peaks.len() == 5 && peaks[0].refined[0] == peaks[0].position[0] as f64));
    assert_eq!(c::peaks(matcher, &images, 1, 2, "", 0).unwrap(), [vec![], vec![]]);
    assert_eq!(c::peaks(matcher, &images, 1, 2, "top=3", 1), Err(FLCC_ERROR_INVALID));
}

/// A call that looks for a template of 9x11 from 20,30 on in noise of 60x80, in u8.
fn posed<'a>(image: &'a [u8], template: &'a [u8], options: &'a str) -> c::Posed<'a, u8> {
    c::Posed {
        spec: "zncc:u8:60x80*9x11:valid",
        settings: "threads=1",
        image: (image, None),
        template: (template, None),
        mask: None,
        angles: None,
        scales: None,
        options,
    }
}

fn posed_arrays() -> (Vec<u8>, Vec<u8>) {
    let image: Vec<u8> = noise(60 * 80, 9).map(|x| x as u8).collect();
    let template = (0..99).map(|i| image[(20 + i / 11) * 80 + 30 + i % 11]).collect();
    (image, template)
}

#[test]
fn as_it_is_a_template_has_the_peaks_of_its_matcher() {
    let (image, template) = posed_arrays();
    let plan = c::plan("zncc:u8:60x80*9x11:valid", "threads=1").unwrap();
    let matcher = c::matcher(plan, &template, None, None).unwrap();
    for (options, room) in [("", 5), ("threshold=0.9", 3), ("subpixel=septic,distance=6", 4), ("border=25", 4)] {
        let plain = c::peaks(matcher, &image, 1, 1, options, room).unwrap().remove(0);
        let found = c::find_posed(&posed(&image, &template, options), room).unwrap();
        assert_eq!(found.len(), plain.len());
        for (found, plain) in found.iter().zip(&plain) {
            let [y, x, _] = plain.refined;
            assert_eq!(
                (found.score, found.position, found.middle),
                (plain.score, plain.position, [y + 4.0, x + 5.0, 0.0])
            );
            assert_eq!((found.angle, found.scale), (0.0, 1.0));
            assert_eq!(found.shape, flcc_shape { axes: 2, lengths: [9, 11, 1] });
        }
    }
    let found = c::find_posed(&posed(&image, &template, "threshold=0.9"), 9).unwrap();
    assert_eq!((found.len(), found[0].position), (1, [20, 30, 0]));
    assert_eq!(c::find_posed(&posed(&image, &template, "threshold=1.5"), 9).unwrap(), []);
    assert_eq!(c::find_posed(&posed(&image, &template, ""), 0).unwrap(), []);
}

#[test]
fn a_template_is_found_as_it_stands() {
    let (image, template) = posed_arrays();
    // Turned by a quarter, counterclockwise: it stands turned back.
    let turned: Vec<u8> = (0..99).map(|i| template[i % 9 * 11 + 10 - i / 9]).collect();
    let quarters = [0.0, 90.0, 180.0, 270.0];
    let call = c::Posed { spec: "zncc:u8:0@60x80*11x9:valid", angles: Some(&quarters), ..posed(&image, &turned, "") };
    let check = |found: Result<Vec<flcc_posed_peak>, flcc_status>| {
        let found = found.unwrap_or_else(|status| panic!("{status:?}: {}", c::message()));
        let [found] = &found[..] else { panic!("{found:?}") };
        assert!((found.score - 1.0).abs() < 1e-5, "{found:?}");
        assert_eq!((found.angle, found.position, found.middle), (270.0, [20, 30, 0], [24.0, 35.0, 0.0]));
        assert_eq!((found.scale, found.shape.lengths), (1.0, [9, 11, 1]));
    };
    check(c::find_posed(&call, 1));
    check(c::find_posed(&c::Posed { scales: Some(&[0.5, 1.0, 2.0]), settings: "", ..call }, 1));
    check(c::find_posed(&c::Posed { options: "finest=10,threshold=0.99", ..call }, 4));
    // The template where it lies in the image, with a mask whose corners are left out.
    let rows = flcc_layout { strides: [80, 1, 0], channel: 1, next: 0 };
    let mask: Vec<f32> = (0..99).map(|i| if i % 11 + i / 11 > 1 { 1.0 } else { 0.0 }).collect();
    let angles = [0.0, 45.0];
    let part = c::Posed {
        spec: "zncc:u8:60x80*9x11:valid,mask01",
        template: (&image[20 * 80 + 30..], Some(rows)),
        mask: Some(&mask),
        angles: Some(&angles),
        ..call
    };
    let found = c::find_posed(&part, 2).unwrap();
    assert_eq!((found[0].angle, found[0].position), (0.0, [20, 30, 0]));
    // Waves, drawn at 30 degrees about 40,40.
    let wave = |y: f64, x: f64| (0.31 * x + 0.11 * y).sin() + (0.23 * y - 0.37 * x).cos() + (0.004 * x * y).sin();
    let scene: Vec<u8> =
        (0..4800).map(|i| (f64::from(i / 80), f64::from(i % 80))).map(|(y, x)| wave(y, x)).map(shade).collect();
    fn shade(wave: f64) -> u8 {
        (128.0 + 40.0 * wave) as u8
    }
    let (sin, cos) = 30f64.to_radians().sin_cos();
    let drawn = |i: i32| {
        let (y, x) = (f64::from(i / 21 - 10), f64::from(i % 21 - 10));
        shade(wave(30.0 + cos * y - sin * x, 40.0 + sin * y + cos * x))
    };
    let drawn: Vec<u8> = (0..441).map(drawn).collect();
    let steps: Vec<f64> = (0..45).map(|step| 8.0 * f64::from(step)).collect();
    let call = c::Posed {
        spec: "zncc:u8:60x80*21x21:valid",
        angles: Some(&steps),
        ..posed(&scene, &drawn, "finest=0.25,subpixel=quadratic")
    };
    let found = c::find_posed(&call, 1).unwrap()[0];
    assert!((found.angle - 30.0).abs() <= 0.5 && found.score > 0.98, "{found:?}");
    assert!((found.middle[0] - 30.0).abs() < 0.25 && (found.middle[1] - 40.0).abs() < 0.25, "{found:?}");
}

#[test]
fn a_wrong_call_for_poses_has_its_code_and_says_why() {
    let (image, template) = posed_arrays();
    let right = posed(&image, &template, "");
    let wrong = |call: c::Posed<'_, u8>, status: flcc_status, told: &str| {
        assert_eq!(c::find_posed(&call, 3), Err(status), "{told}: {}", c::message());
        assert!(c::message().contains(told), "{told}: {}", c::message());
    };
    let spec = |spec| c::Posed { spec, ..right };
    wrong(spec("zncc:u8:60x80*9x11:vald"), FLCC_ERROR_INVALID, "mode: expected full, same or valid");
    wrong(spec("ssd:u8:60x80*9x11:valid"), FLCC_ERROR_INVALID, "measure: expected a normalised measure");
    wrong(spec("zncc:u8:60x80*2@3x11:valid"), FLCC_ERROR_INVALID, "spec: expected one template");
    wrong(spec("zncc:u8:2@30x80*9x11:valid"), FLCC_ERROR_DIMS_MISMATCH, "spec: expected a spec of one image");
    wrong(spec("zncc:u8:60x80*9x11:valid,mask01"), FLCC_ERROR_INVALID, "mask: expected a mask, as the spec says");
    let mask = [0.5f32; 99];
    wrong(c::Posed { mask: Some(&mask), ..right }, FLCC_ERROR_INVALID, "mask: expected null, as the spec has no mask");
    let masked = c::Posed { mask: Some(&mask), ..spec("zncc:u8:60x80*9x11:valid,mask01") };
    wrong(masked, FLCC_ERROR_MASK_INVALID, "mask: expected weights 0 and 1");
    wrong(c::Posed { settings: "method=magic", ..right }, FLCC_ERROR_INVALID, "method: expected auto");
    wrong(c::Posed { settings: "kernel=direct_u8_any_b4x4", ..right }, FLCC_ERROR_INVALID, "kernel: expected");
    wrong(c::Posed { options: "best=3", ..right }, FLCC_ERROR_INVALID, "options: expected coarse, finest, threshold");
    wrong(
        c::Posed { options: "coarse=2", ..right },
        FLCC_ERROR_INVALID,
        "coarse: expected none for a template of 9x11",
    );
    wrong(c::Posed { options: "finest=0.1", ..right }, FLCC_ERROR_INVALID, "finest: expected none of poses");
    let angles = |angles| c::Posed { angles: Some(angles), ..right };
    wrong(
        c::Posed { options: "finest=0", ..angles(&[0.0, 9.0]) },
        FLCC_ERROR_INVALID,
        "finest: expected degrees above 0",
    );
    wrong(angles(&[]), FLCC_ERROR_EMPTY_INPUT, "angles: expected at least one, got none");
    wrong(angles(&[0.0, f64::NAN]), FLCC_ERROR_INVALID, "angle: expected a finite number of degrees");
    let scales = |scales| c::Posed { scales: Some(scales), ..right };
    wrong(scales(&[1.0, 65.0]), FLCC_ERROR_INVALID, "scale: expected 0.015625 to 64, got 65");
    wrong(
        scales(&[8.0]),
        FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE,
        "poses: expected a pose that fits in the image, 60x80",
    );
    wrong(c::Posed { template: (&[7; 99], None), ..right }, FLCC_ERROR_CONSTANT_TEMPLATE, "template: expected");
    let many = vec![1.0; 2000];
    wrong(c::Posed { scales: Some(&many), ..angles(&many) }, FLCC_ERROR_INVALID, "poses: expected at most 1048576");

    use c::Wrong::*;
    for (which, status, told) in [
        (NoSpec, FLCC_ERROR_NULL, "spec: expected a text, got a null pointer"),
        (Image(0), FLCC_ERROR_NULL, "images: expected the address of f32 samples"),
        (Image(2), FLCC_ERROR_INVALID, "images: expected an address that is a multiple of 4"),
        (Template(0), FLCC_ERROR_NULL, "templat: expected the address of f32 samples"),
        (Angles(0, 1), FLCC_ERROR_NULL, "angles: expected an address, got a null pointer"),
        (Angles(4, 1), FLCC_ERROR_INVALID, "angles: expected an address that is a multiple of 8"),
        (Angles(8, usize::MAX), FLCC_ERROR_INVALID, "angles: expected numbers that lie within the addresses there are"),
        (Scales(0, 1), FLCC_ERROR_NULL, "scales: expected an address, got a null pointer"),
        (Scales(usize::MAX - 7, 1), FLCC_ERROR_INVALID, "scales: expected numbers that lie within"),
        (NoPeaks, FLCC_ERROR_NULL, "peaks: expected an address, got a null pointer"),
        (NoFound, FLCC_ERROR_NULL, "found: expected an address, got a null pointer"),
        (Room(usize::MAX), FLCC_ERROR_INVALID, "room: expected peaks that there are addresses for"),
    ] {
        assert_eq!(c::find_posed_with(which), status, "{which:?}: {}", c::message());
        assert!(c::message().starts_with(told), "{which:?}: {}", c::message());
    }
}

#[test]
fn a_wrong_call_has_its_code_and_says_why() {
    let wrong = |spec: &str, settings: &str, status: flcc_status, told: &str| {
        assert_eq!(c::plan(spec, settings), Err(status), "{spec} {settings}");
        assert!(c::message().contains(told), "{spec} {settings}: {}", c::message());
    };
    wrong("", "", FLCC_ERROR_INVALID, "spec: expected OP:TYPE");
    wrong("zncc:f32:8x8*9x9:valid", "", FLCC_ERROR_TEMPLATE_LARGER_THAN_IMAGE, "template: expected at most 8x8");
    wrong("zncc:f32:8*3x3:valid", "", FLCC_ERROR_DIMS_MISMATCH, "template: expected 1 axis, as the image");
    wrong("zncc:f32:8x0*3x3:full", "", FLCC_ERROR_EMPTY_INPUT, "image: expected at least one sample");
    wrong("zncc:u8:9x9*3x3:same,constant(0.5),acc=exact", "", FLCC_ERROR_NOT_EXACT, "cval: expected an integer");
    wrong("zncc:f32:9x9*3x3:valid", "method=separately", FLCC_ERROR_INVALID, "method: expected auto");
    wrong("sad:f32:9x9*3x3:valid", "method=fourier", FLCC_ERROR_REFUSED, "refuses");
    wrong("zncc:f32:9x9*3x3:valid", "memory=1", FLCC_ERROR_MEMORY_LIMIT, "memory limit: expected at least");
    wrong("zncc:f32:9x9*3x3:valid", "devices=77", FLCC_ERROR_INVALID, "devices: expected numbers");
    assert_eq!(c::plan_of_nulls(), [FLCC_ERROR_NULL; 2]);
    assert_eq!(c::message(), "plan: expected an address, got a null pointer");
    assert_eq!(c::plan_of_bytes(b"\xff\xfe", b""), Err(FLCC_ERROR_INVALID));

    let plan = c::plan("zncc:f32:9x9*3x3:valid", "").unwrap();
    let template = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, f32::NAN];
    assert_eq!(c::matcher(plan, &[1.0f32; 9], None, None), Err(FLCC_ERROR_CONSTANT_TEMPLATE));
    assert_eq!(c::matcher(plan, &template, None, None), Err(FLCC_ERROR_NONFINITE_TEMPLATE));
    assert_eq!(c::matcher(plan, &template, None, Some((&[1.0; 9], flcc_type::FLCC_F32))), Err(FLCC_ERROR_INVALID));
    assert_eq!(c::message(), "mask: expected null, as the spec has no mask, got a mask");
    assert_eq!([c::matcher_at(plan, 0), c::matcher_at(plan, 4097)], [FLCC_ERROR_NULL, FLCC_ERROR_INVALID]);
    let masked = c::plan("ncc:f32:9x9*3x3:valid,mask01", "").unwrap();
    let mask = |value| Some(([value; 9], flcc_type::FLCC_F32));
    for (value, status) in
        [(0.0, FLCC_ERROR_MASK_INVALID), (0.5, FLCC_ERROR_MASK_INVALID), (-1.0, FLCC_ERROR_MASK_INVALID)]
    {
        let mask = mask(value);
        let mask = mask.as_ref().map(|(mask, of)| (&mask[..], *of));
        assert_eq!(c::matcher(masked, &[1.0f32; 9], None, mask), Err(status), "{value}");
    }
    assert_eq!(
        c::matcher(masked, &[0.0f32; 9], None, Some((&[1.0; 9], flcc_type::FLCC_F32))),
        Err(FLCC_ERROR_ZERO_TEMPLATE)
    );
    assert_eq!(c::matcher(masked, &[1.0f32; 9], None, None), Err(FLCC_ERROR_INVALID));

    let matcher = c::matcher(plan, &template.map(|x| if x.is_nan() { 0.0 } else { x }), None, None).unwrap();
    let (image, mut out) = ([1.0f32; 162], [0.0f32; 98]);
    for count in [0, 2] {
        assert_eq!(c::execute(matcher, &image, None, count, &mut out, None), FLCC_ERROR_DIMS_MISMATCH, "{count}");
        assert_eq!(c::message(), format!("images: expected 1 image, got {count}"));
    }
    let at = &raw const image as usize;
    assert_eq!(c::execute_at(matcher, 0, 1, at), FLCC_ERROR_NULL);
    assert_eq!(c::execute_at(matcher, at, 1, 0), FLCC_ERROR_NULL);
    assert_eq!(c::execute_at(matcher, at + 1, 1, at), FLCC_ERROR_INVALID);
    assert_eq!(c::execute_at(matcher, at, 1, at + 80 * 4), FLCC_ERROR_INVALID);
    assert_eq!(c::message(), "results: expected memory apart from that of the images, got memory that both lie in");
    assert_eq!(c::execute_at(matcher, at, usize::MAX, at), FLCC_ERROR_INVALID);
    assert_eq!(c::peaks_in_room(matcher, &image, usize::MAX), FLCC_ERROR_INVALID);
    assert_eq!(c::peaks_in_room(matcher, &image, 0), FLCC_ERROR_NULL);
    assert_eq!(c::message(), "counts: expected an address, got a null pointer");
}

#[test]
fn a_handle_that_is_none_is_told() {
    let plan = c::plan("zncc:f32:9x9*3x3:valid", "").unwrap();
    let template: Vec<f32> = noise(9, 1).map(|x| x as f32).collect();
    let matcher = c::matcher(plan, &template, None, None).unwrap();
    let on_stack = 7u64;
    for garbage in [1usize, 4096, usize::MAX, &raw const on_stack as usize, plan as usize + 2, matcher as usize] {
        let plan = garbage as *mut flcc_plan;
        assert_eq!(flcc_plan_destroy(plan), FLCC_ERROR_HANDLE);
        assert_eq!(c::told(Text::Plan(plan), 10), Err(FLCC_ERROR_HANDLE));
        assert_eq!(c::info(plan, size_of::<flcc_info>()), Err(FLCC_ERROR_HANDLE));
        assert_eq!(c::matcher(plan, &template, None, None), Err(FLCC_ERROR_HANDLE));
    }
    let (image, mut out) = ([1.0f32; 81], [0.0f32; 49]);
    assert_eq!(c::execute(plan.cast(), &image, None, 1, &mut out, None), FLCC_ERROR_HANDLE);
    assert_eq!(c::execute(std::ptr::null(), &image, None, 1, &mut out, None), FLCC_ERROR_NULL);
    assert_eq!(c::message(), "matcher: expected a matcher, got a null pointer");
    // A matcher outlives its plan, and both are destroyed once.
    assert_eq!([flcc_plan_destroy(plan), flcc_plan_destroy(plan)], [FLCC_OK, FLCC_ERROR_HANDLE]);
    assert_eq!(c::execute(matcher, &image, None, 1, &mut out, None), FLCC_OK);
    assert_eq!([flcc_matcher_destroy(matcher), flcc_matcher_destroy(matcher)], [FLCC_OK, FLCC_ERROR_HANDLE]);
    assert_eq!(c::execute(matcher, &image, None, 1, &mut out, None), FLCC_ERROR_HANDLE);
    assert_eq!([flcc_plan_destroy(std::ptr::null_mut()), flcc_matcher_destroy(std::ptr::null_mut())], [FLCC_OK; 2]);
}

#[test]
fn threads_share_a_matcher_and_keep_their_own_messages() {
    let plan = c::plan("zncc:f32:0@40x40*5x5:valid", "").unwrap();
    let template: Vec<f32> = noise(25, 9).map(|x| x as f32).collect();
    let matcher = c::matcher(plan, &template, None, None).unwrap() as usize;
    let alone = |seed: u32| {
        let image: Vec<f32> = noise(1600, seed).map(|x| x as f32).collect();
        let mut out = vec![0.0f32; 36 * 36];
        assert_eq!(c::execute(matcher as *const flcc_matcher, &image, None, 1, &mut out, None), FLCC_OK);
        out
    };
    let expected: Vec<Vec<f32>> = (0..4).map(alone).collect();
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for (seed, expected) in (0..4).zip(&expected) {
            let (together, alone) = (&together, &alone);
            scope.spawn(move || {
                together.wait();
                (0..20).for_each(|_| assert_eq!(&alone(seed), expected));
                assert_eq!(c::message(), "");
                assert!(c::plan(&format!("no{seed}:f32:4*2:valid"), "").is_err());
                together.wait();
                assert!(c::message().contains(&format!("no{seed}")), "{}", c::message());
            });
        }
    });
}

#[test]
fn a_matcher_that_is_destroyed_meanwhile_ends_its_calls_well() {
    for _ in 0..20 {
        let plan = c::plan("zncc:f32:0@40x40*5x5:valid", "").unwrap();
        let template: Vec<f32> = noise(25, 9).map(|x| x as f32).collect();
        let matcher = c::matcher(plan, &template, None, None).unwrap() as usize;
        let (image, together) = (vec![1.5f32; 1600], Barrier::new(3));
        let run = || {
            let mut out = vec![9.0f32; 36 * 36];
            together.wait();
            loop {
                match c::execute(matcher as *const flcc_matcher, &image, None, 1, &mut out, None) {
                    FLCC_OK => assert!(out.iter().all(|&score| score == 0.0)),
                    status => break assert_eq!(status, FLCC_ERROR_HANDLE),
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(run);
            scope.spawn(run);
            together.wait();
            assert_eq!(flcc_plan_destroy(plan), FLCC_OK);
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert_eq!(flcc_matcher_destroy(matcher as *mut flcc_matcher), FLCC_OK);
        });
    }
}

#[test]
fn wisdom_goes_from_process_to_process() {
    let spec = "zncc:f32:70x71*9x8:valid";
    let plan = c::plan(spec, "effort=measure").unwrap();
    let (explained, _) = c::told(Text::Plan(plan), 100_000).unwrap();
    let kernel = explained.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap();
    let (learnt, length) = c::told(Text::Wisdom, 1 << 20).unwrap();
    assert!(learnt.contains(kernel) && learnt.len() == length, "{learnt}");

    let folder = std::env::temp_dir().join(format!("flcc-capi-{}", std::process::id()));
    let path = folder.join("wisdom");
    let path = path.to_str().unwrap();
    assert_eq!(c::wisdom(flcc_wisdom_save, path), FLCC_OK, "{}", c::message());
    flcc_wisdom_forget();
    assert!(!c::told(Text::Wisdom, 1 << 20).unwrap().0.contains(kernel));
    assert_eq!(c::wisdom(flcc_wisdom_load, path), FLCC_OK, "{}", c::message());
    let (explained, _) = c::told(Text::Plan(c::plan(spec, "").unwrap()), 100_000).unwrap();
    assert!(explained.contains("chosen by wisdom"), "{explained}");
    flcc_wisdom_forget();
    assert_eq!(c::wisdom(flcc_wisdom_import, &learnt), FLCC_OK);
    assert!(c::told(Text::Wisdom, 1 << 20).unwrap().0.contains(kernel));
    assert_eq!(c::wisdom(flcc_wisdom_import, "wisdom?"), FLCC_ERROR_INVALID);
    assert_eq!(c::wisdom(flcc_wisdom_load, &format!("{path}-of-nobody")), FLCC_ERROR_FILE);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn versions_and_words_are_told() {
    let parts = [FLCC_VERSION_MAJOR, FLCC_VERSION_MINOR, FLCC_VERSION_PATCH].map(|part| part.to_string());
    assert_eq!((c::version(), parts.join(".")), (env!("CARGO_PKG_VERSION").into(), env!("CARGO_PKG_VERSION").into()));
    assert_eq!((c::words(0), c::words(7)), ("ok".into(), "constant template".into()));
    for number in [-1, 19, c_int::MAX, c_int::MIN] {
        assert_eq!(c::words(number), "no status of this library");
    }
}

#[test]
fn images_with_a_template_each_are_those_of_matchers() {
    let weights: Vec<f32> = (0..12 * 12).map(|i| [0.0, 1.0, 1.0][i % 3]).collect();
    for (text, mask) in [
        ("zncc:f32:0@32x32*12x12:valid", None),
        ("zncc:f32:0@32x32*12x12:valid,pairs", None),
        ("nssd:f32:0@32x32*12x12:same,reflect,mask01", Some(&weights[..])),
    ] {
        let spec: Spec = text.parse().unwrap();
        let plan = c::plan(text, "threads=2").unwrap_or_else(|_| panic!("{text}: {}", c::message()));
        // More than are looked at together; windows of one frame, every second sample, templates of the other.
        let (count, width) = (1300, 32 + 2 * 1300);
        let [one, two] = [1, 2].map(|seed| noise(width * 32, seed).map(|value| value as f32).collect::<Vec<_>>());
        let of_images = flcc_layout { strides: [width as isize, 1, 0], channel: 1, next: 2 };
        let of_templates = flcc_layout { strides: [width as isize, 1, 0], channel: 1, next: 1 };
        let len = spec.out_shape().len();
        let mut got = vec![f32::NAN; count * len];
        let (images, templates) = ((&one[..], Some(of_images)), (&two[..], Some(of_templates)));
        assert_eq!(c::execute_pairs(plan, images, templates, mask, count, &mut got), FLCC_OK, "{}", c::message());
        let single = c::plan(&text.replace(",pairs", ""), "threads=1").unwrap();
        for number in [0, 1, 700, 1023, 1024, 1299] {
            let mask = mask.map(|mask| (mask, flcc_type::FLCC_F32));
            let matcher = c::matcher(single, &two[number..], Some(of_templates), mask).unwrap();
            let mut expected = vec![0f32; len];
            let image = (&one[2 * number..], 0, Some(of_images));
            assert_eq!(c::execute_from(matcher, image, 1, (&mut expected, 0, None)), FLCC_OK, "{}", c::message());
            for (got, expected) in got[number * len..][..len].iter().zip(&expected) {
                assert!((got - expected).abs() <= 2e-5, "{text}, pair {number}: {got} for {expected}");
            }
            assert_eq!(flcc_matcher_destroy(matcher), FLCC_OK);
        }
        if mask.is_none() {
            let mut two = two.clone();
            for row in two.chunks_mut(width) {
                row[1100..1112].fill(7.0);
            }
            let templates = (&two[..], Some(of_templates));
            let status = c::execute_pairs(plan, images, templates, None, count, &mut got);
            assert_eq!(status, FLCC_ERROR_CONSTANT_TEMPLATE, "{}", c::message());
            assert!(c::message().starts_with("template 1100: "), "{}", c::message());
            let status = c::execute_pairs(plan, images, templates, Some(&weights), count, &mut got);
            assert_eq!((status, c::message().starts_with("mask: ")), (FLCC_ERROR_INVALID, true), "{}", c::message());
        }
        assert_eq!([flcc_plan_destroy(plan), flcc_plan_destroy(single)], [FLCC_OK; 2]);
    }
    let several = c::plan("zncc:f32:30x30*2@5x5:valid", "").unwrap();
    let (samples, mut out) = (vec![1.0f32; 900], vec![0f32; 26 * 26]);
    let status = c::execute_pairs(several, (&samples, None), (&samples, None), None, 1, &mut out);
    assert_eq!(status, FLCC_ERROR_DIMS_MISMATCH, "{}", c::message());
    assert_eq!(flcc_plan_destroy(several), FLCC_OK);
}

#[test]
fn images_on_a_device_are_refused_where_they_are_none() {
    let template: Vec<f32> = noise(25, 1).map(|value| value as f32).collect();
    let (one, two) =
        (c::plan("zncc:f32:30x40*5x5:valid", "").unwrap(), c::plan("zncc:f32:2@30x40*5x5:valid", "").unwrap());
    let [of_one, of_two] = [one, two].map(|plan| c::matcher(plan, &template, None, None).unwrap());
    let refused = |matcher, image, result, status, words: &str| {
        assert_eq!(c::execute_on_device(matcher, image, result), status, "{}", c::message());
        assert!(c::message().contains(words), "{}", c::message());
    };
    let null = std::ptr::null();
    refused(null, 4096, 1 << 20, FLCC_ERROR_NULL, "matcher");
    refused(of_one, 0, 1 << 20, FLCC_ERROR_NULL, "images");
    refused(of_one, 4096, 0, FLCC_ERROR_NULL, "results");
    refused(of_one, 4097, 1 << 20, FLCC_ERROR_INVALID, "images: expected an address that is a multiple of 4");
    refused(of_one, 4096, 4100, FLCC_ERROR_INVALID, "results: expected memory apart from that of the images");
    refused(of_two, 4096, 1 << 20, FLCC_ERROR_DIMS_MISMATCH, "matcher: expected a plan of one image");
    refused(of_one, 4096, 1 << 20, FLCC_ERROR_REFUSED, "matcher: expected");
    let no_queue = |matcher, status, words: &str| {
        assert_eq!(c::queue(matcher, 0, 0).err(), Some(status), "{}", c::message());
        assert!(c::message().contains(words), "{}", c::message());
    };
    no_queue(null, FLCC_ERROR_NULL, "matcher");
    let none = std::ptr::null_mut();
    assert_eq!(flcc_queue_destroy(none), FLCC_OK);
    if cfg!(feature = "cuda") {
        no_queue(of_one, FLCC_ERROR_INVALID, "plan: expected one for GPUs, got one for the CPU");
        assert_eq!(c::enqueue(none, 4096, 1, 1 << 20), FLCC_ERROR_NULL);
        assert_eq!(c::unserved(none, true), Err(FLCC_ERROR_NULL));
    } else {
        no_queue(of_one, FLCC_ERROR_REFUSED, "queue: expected a library with CUDA in it");
        assert_eq!(c::enqueue(none, 4096, 1, 1 << 20), FLCC_ERROR_REFUSED);
    }
    for (matcher, plan) in [(of_one, one), (of_two, two)] {
        assert_eq!([flcc_matcher_destroy(matcher), flcc_plan_destroy(plan)], [FLCC_OK; 2]);
    }
}

/// An image and results in the memory of a GPU. Without one the test says so and passes, unless FLCC_REQUIRE names
/// `cuda`.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_computes_where_the_image_lies() {
    use flcc_runtime::rooms::cuda::driver::buffer::{Buffer, bytes_of_mut};
    use flcc_runtime::rooms::cuda::driver::launch::{Gpu, probe};

    let required = std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == "cuda"));
    let Some(device) = probe().devices.first() else {
        assert!(!required, "FLCC_REQUIRE names cuda: {}", probe().about);
        println!("not run: {}", probe().about);
        return;
    };
    let stream = Gpu::open(device.index).unwrap().stream().unwrap();
    for text in ["zncc:f32:90x101*2@9x8:same,reflect", "corr:f32:90x101*2@8x8:full", "zncc:f32:0@90x101*2@33x20:valid"]
    {
        let spec: Spec = text.parse().unwrap();
        let floats = |count, seed| -> Vec<f32> { noise(count, seed).map(|value| value as f32).collect() };
        let (image, templates) = (floats(spec.image().len(), 1), floats(2 * spec.template().len(), 2));
        let plan = c::plan(text, "platform=cuda").unwrap_or_else(|status| panic!("{status:?}: {}", c::message()));
        let matcher = c::matcher(plan, &templates, None, None).unwrap();
        let mut expected = vec![0f32; 2 * spec.out_shape().len()];
        assert_eq!(c::execute(matcher, &image, None, 1, &mut expected, None), FLCC_OK, "{}", c::message());
        let mut got = vec![f32::NAN; expected.len()];
        let (there, results) = (Buffer::of(&stream, &image).unwrap(), Buffer::of(&stream, &got).unwrap());
        let [from, to] = [&there, &results].map(|buffer| buffer.address(&stream).number());
        assert_eq!(c::execute_on_device(matcher, from, to), FLCC_OK, "{}", c::message());
        results.read(&stream, 0, bytes_of_mut(&mut got)).unwrap();
        assert!(got == expected, "{text}: other bits");
        // The same by a queue, of two images behind each other.
        let two = [&image[..], &image[..]].concat();
        let (there, results) =
            (Buffer::of(&stream, &two).unwrap(), Buffer::of(&stream, &vec![f32::NAN; 2 * got.len()]).unwrap());
        let [images, outs] = [&there, &results].map(|buffer| buffer.address(&stream).number());
        for computes in [0, 1] {
            let queue = c::queue(matcher, device.index, computes).unwrap_or_else(|_| panic!("{}", c::message()));
            assert_eq!(c::enqueue(queue, images, 2, outs), FLCC_OK, "{}", c::message());
            assert_eq!(c::enqueue(queue, images, 0, outs), FLCC_ERROR_DIMS_MISMATCH);
            assert_eq!(c::enqueue(queue, two.as_ptr() as u64, 2, outs), FLCC_ERROR_INVALID);
            // When it goes the device has done all.
            assert_eq!(flcc_queue_destroy(queue), FLCC_OK);
            assert_eq!(flcc_queue_destroy(queue), FLCC_ERROR_HANDLE);
            let mut both = vec![f32::NAN; 2 * got.len()];
            results.read(&stream, 0, bytes_of_mut(&mut both)).unwrap();
            assert!(both == [&expected[..], &expected[..]].concat(), "{text}: other bits by a queue");
        }
        let queue = c::queue(matcher, device.index, 0).unwrap();
        assert_eq!((c::unserved(queue, false), c::unserved(queue, true)), (Ok(false), Ok(false)));
        assert_eq!(flcc_queue_destroy(queue), FLCC_OK);
        assert_eq!(c::queue(matcher, 77, 0).err(), Some(FLCC_ERROR_INVALID), "{}", c::message());
        assert!(
            c::message().contains("device: expected one on a device of the plan, got device 77"),
            "{}",
            c::message()
        );
        assert_eq!(c::queue(matcher, device.index, 2).err(), Some(FLCC_ERROR_INVALID), "{}", c::message());
        // Memory of this process is none of the device.
        assert_eq!(c::execute_on_device(matcher, image.as_ptr() as u64, to), FLCC_ERROR_INVALID);
        assert!(c::message().contains("images: expected an address in the memory of device"), "{}", c::message());
        assert_eq!([flcc_matcher_destroy(matcher), flcc_plan_destroy(plan)], [FLCC_OK; 2]);
    }
}
