//! Images with a template each: the bits of binding and executing them one by one, and the same errors.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Problem, Seed, check, planner};
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{
    AnyView, AnyViewMut, CancelToken, Control, DType, ExecError, Kind, Method, Pairs, Pixels, PlanError, ScoreMap,
    Scratch, Shape, Spec, View, ViewMut,
};

/// So many images and templates of a spec: the second image is constant in part, the third holds NaN and infinities
/// where it can, the fourth extraordinary magnitudes; templates of the sixth pair on are far apart in scale.
fn data(spec: &Spec, count: usize, seed: u64) -> (Vec<Pixels>, Vec<Pixels>) {
    let mut seed = Seed(seed);
    let (images, templates) = (spec.image().len() * spec.channels(), spec.template().len() * spec.channels());
    let image = |number: usize| {
        let pixels = seed.pixels(images, spec.image_type(), 3.0);
        let mut values = pixels.to_f64();
        let floats = spec.image_type().row().max.is_none();
        match number {
            1 => values[..images / 2].fill(7.0),
            2 if floats => (values[images / 2], values[images / 3]) = (f64::NAN, f64::INFINITY),
            3 if floats => values.iter_mut().for_each(|value| *value *= 1e20),
            _ => return pixels,
        }
        Pixels::F64(values).cast(spec.image_type())
    };
    let images = (0..count).map(image).collect();
    let template = |number: usize| {
        let scale = if number > 4 && spec.template_type().row().max.is_none() { 1e15 } else { 1.0 };
        let values = seed.pixels(templates, spec.template_type(), 1.0).to_f64();
        Pixels::F64(values.into_iter().map(|value| value * scale).collect()).cast(spec.template_type())
    };
    let templates = (0..count).map(template).collect();
    (images, templates)
}

fn views<'a>(pixels: &'a [Pixels], shape: Shape, channels: usize) -> Vec<AnyView<'a>> {
    pixels.iter().map(|pixels| AnyView::dense(pixels, shape, channels).unwrap()).collect()
}

fn bits(pixels: &Pixels) -> Vec<u64> {
    pixels.to_f64().into_iter().map(f64::to_bits).collect()
}

const METHODS: [Method; 3] = [Method::Direct, Method::Fourier, Method::Separable];

#[test]
fn the_bits_are_those_of_binding_each_template() {
    let specs = [
        "zncc:f32:64x64*24x24:valid",
        "zncc:f32:40x33*12x9:full",
        "zncc:f32:40x33*12x9:same,mirror",
        "zncc:f32:130x70*9x9:valid",
        "zncc:f32:64x64*24x24:valid,acc=fast",
        "zncc:f32:30x30*8x8:valid,acc=exact",
        "zncc:u8:64x64*24x24:valid",
        "zncc:u16:30x31*9x8:same,reflect",
        "zncc:f64:30x31*9x8:valid",
        "ncc:f32:64x64*16x20:full,wrap",
        "ncc:f32:40x30*8x7:valid,mask01",
        "zncc:f32:40x30*8x7:valid,maskw",
        "corr:f32:64x64*24x24:valid",
        "corr:u8:40x30*8x7:full",
        "conv:f32:40x30*8x7:same,replicate",
        "ssd:f32:40x30*8x7:valid",
        "nssd:f32:40x30*8x7:full,constant(2.5)",
        "sad:u8:40x30*8x7:valid",
        "sad:f32:40x30*8x7:valid",
        "zncc:f32:500*30:valid",
        "corr:f32:500*30:full",
        "zncc:f32:14x15x16*4x5x6:valid",
        "zncc:f32:20x20*5x5:valid,channels=3",
    ];
    let mut compared = 0;
    for text in specs {
        // A spec text that names no such thing would be no test.
        let Ok(spec) = text.parse::<Spec>() else { panic!("{text}") };
        let open = spec.clone().with_images(0).unwrap();
        let (images, templates) = data(&spec, 9, 4);
        let (images, templates) =
            (views(&images, spec.image(), spec.channels()), views(&templates, spec.template(), spec.channels()));
        let problem = Problem::new(text, 1);
        let mask = problem.mask();
        for (method, threads) in METHODS.into_iter().flat_map(|method| [(method, 1), (method, 3)]) {
            let plan = match planner(threads).method(method).plan(&open) {
                Ok(plan) => plan,
                Err(PlanError::Refused(_)) => continue,
                Err(error) => panic!("{text}: {error}"),
            };
            let got = plan.pairs(mask.as_ref().map(|mask| mask as _)).unwrap().execute(&images, &templates).unwrap();
            let one = |number: usize| {
                plan.execute(&images[number..=number], &templates[number..=number], mask.as_ref().map(|mask| mask as _))
                    .unwrap()
                    .remove(0)
            };
            let want: Vec<u64> = (0..images.len()).flat_map(|number| bits(one(number).data())).collect();
            assert!(bits(&got) == want, "{text} by {} on {threads} threads", plan.kernel());
            compared += 1;
        }
    }
    assert!(compared > 80, "only {compared} plans were compared");
}

#[test]
fn windows_are_cut_from_frames_and_scores_are_right() {
    let spec: Spec = "zncc:f32:0@64x64*24x24:valid".parse().unwrap();
    let (mut seed, frame) = (Seed(8), Shape::new(&[300, 280]).unwrap());
    let frames = [(); 2].map(|()| seed.pixels(frame.len(), DType::F32, 100.0));
    let [after, before] = frames.each_ref().map(|pixels| AnyView::dense(pixels, frame, 1).unwrap());
    let corners: Vec<[usize; 3]> = (0..40).map(|_| [0, seed.below(300 - 64), seed.below(280 - 64)]).collect();
    let images: Vec<_> = corners.iter().map(|&at| after.part(at, spec.image()).unwrap()).collect();
    let templates: Vec<_> =
        corners.iter().map(|&[_, y, x]| before.part([0, y + 20, x + 20], spec.template()).unwrap()).collect();
    let pairs = planner(2).plan(&spec).unwrap().pairs(None).unwrap();
    assert_eq!(pairs.workers(), 2, "pairs that are not counted yet are shared by all threads");
    // Results turned by a quarter, with room between them.
    let mut out = vec![-7.0f32; 40 * 2000];
    let shape = Shape::new(&[41, 41]).unwrap();
    let view = |out| AnyViewMut::from(ViewMut::strided(out, 0, shape, &[1, 41]).unwrap());
    let mut outs: Vec<_> = out.chunks_exact_mut(2000).map(view).collect();
    let mut scratch = pairs.make_scratch();
    let statistics = pairs.execute_into(&images, &templates, &mut outs, &mut scratch, &Control::default()).unwrap();
    assert_eq!((statistics.tiles, statistics.panels), (40, 40 * 41 * 41));
    assert!(
        out.chunks_exact(2000).all(|result| result[1681..].iter().all(|&value| value == -7.0)),
        "nothing else is written"
    );
    let one: Spec = "zncc:f32:64x64*24x24:valid".parse().unwrap();
    for (number, result) in out.chunks_exact(2000).enumerate() {
        let map = (0..1681).map(|i| result[i / 41 + 41 * (i % 41)]).collect();
        let map = ScoreMap::new(one.region(), Pixels::F32(map)).unwrap();
        let oracle = Oracle::new(&one, &images[number], &templates[number], None).unwrap();
        check(&format!("pair {number}"), &map, &oracle.all(), 1e-5);
    }
}

#[test]
fn errors_say_which_array() {
    let spec: Spec = "zncc:f32:5@20x20*5x5:valid".parse().unwrap();
    let (images, mut templates) = data(&spec, 5, 2);
    templates[3] = Pixels::F32(vec![2.0; 25]);
    templates[4] = Pixels::F32(vec![f32::NAN; 25]);
    let (images, all) = (views(&images, spec.image(), 1), views(&templates, spec.template(), 1));
    for threads in [1, 2] {
        let plan = planner(threads).plan(&spec).unwrap();
        let pairs = plan.pairs(None).unwrap();
        let told =
            |images: &[AnyView<'_>], templates: &[AnyView<'_>]| match pairs.execute(images, templates).unwrap_err() {
                ExecError::Spec(error) => (error.kind, error.to_string()),
                other => panic!("{other}"),
            };
        let (kind, text) = told(&images, &all);
        assert_eq!(
            (kind, text.as_str()),
            (Kind::ConstantTemplate, "template 3: expected samples that are not all equal, got all samples 2")
        );
        assert_eq!(told(&images, &all[..4]).1, "templates: expected 5 templates, one for each image, got 4");
        assert_eq!(told(&images[..4], &all[..4]).1, "images: expected 5 images, got 4");
        let small = [0.0f32; 16];
        let mut others = all.clone();
        others[2] = View::new(&small, Shape::new(&[4, 4]).unwrap()).unwrap().into();
        assert_eq!(told(&images, &others).1, "template 2: expected f32 5x5, got f32 4x4");
        let mut others = images.clone();
        others[1] = all[0];
        assert_eq!(told(&others, &all).1, "image 1: expected f32 20x20, got f32 5x5");
        let mut scratch = pairs.make_scratch();
        let error = pairs.execute_into(&images, &all, &mut [], &mut scratch, &Control::default()).unwrap_err();
        assert_eq!(error.to_string(), "outs: expected 5 results, one for each pair, got 0");
    }
    let several: Spec = "zncc:f32:20x20*2@5x5:valid".parse().unwrap();
    let error = planner(1).plan(&several).unwrap().pairs(None).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "spec: expected one template, since each image has its own, got 2");
}

#[test]
fn no_pairs_have_no_results() {
    let spec: Spec = "zncc:f32:0@20x20*5x5:valid".parse().unwrap();
    let (pairs, none): (_, [AnyView<'_>; 0]) = (planner(2).plan(&spec).unwrap().pairs(None).unwrap(), []);
    assert_eq!(pairs.execute(&none, &none).unwrap(), Pixels::F32(Vec::new()));
}

#[test]
fn pairs_tell_their_progress_and_can_be_cancelled() {
    let spec: Spec = "zncc:f32:0@20x20*5x5:valid".parse().unwrap();
    let (images, templates) = data(&spec, 6, 2);
    let (images, templates) = (views(&images, spec.image(), 1), views(&templates, spec.template(), 1));
    let pairs = planner(1).plan(&spec).unwrap().pairs(None).unwrap();
    let (token, calls) = (CancelToken::new(), AtomicUsize::new(0));
    let progress = |done: usize, total: usize| {
        assert_eq!((done, total), (calls.fetch_add(1, Ordering::Relaxed) + 1, 6));
        if done == 4 {
            token.cancel();
        }
    };
    let control = Control { progress: Some(&progress), cancel: Some(&token), ..Control::default() };
    let error = pairs.execute_with(&images, &templates, &control).unwrap_err();
    assert_eq!(error, ExecError::Cancelled { done: 4, total: 6 });
}

/// The bits of all results of pairs by a scratch that is brought along.
fn run(
    pairs: &Pairs,
    images: &[AnyView<'_>],
    templates: &[AnyView<'_>],
    scratch: &mut Scratch,
) -> Result<Vec<u64>, ExecError> {
    run_under(pairs, images, templates, scratch, &Control::default())
}

fn run_under(
    pairs: &Pairs,
    images: &[AnyView<'_>],
    templates: &[AnyView<'_>],
    scratch: &mut Scratch,
    control: &Control<'_>,
) -> Result<Vec<u64>, ExecError> {
    let spec = pairs.plan().spec();
    let mut maps: Vec<ScoreMap> = images.iter().map(|_| ScoreMap::zeros(spec.region(), spec.out_type())).collect();
    let mut outs: Vec<_> = maps.iter_mut().map(ScoreMap::view_mut).collect();
    pairs.execute_into(images, templates, &mut outs, scratch, control)?;
    Ok(maps.iter().flat_map(|map| bits(map.data())).collect())
}

/// Plans of a spec by every method that takes it.
fn pairs_by_method(spec: &Spec, mask: Option<&AnyView<'_>>, mut check: impl FnMut(&Pairs, Method)) {
    let mut checked = 0;
    for method in METHODS {
        match planner(1).method(method).plan(spec) {
            Ok(plan) => {
                check(&plan.pairs(mask.map(|mask| mask as _)).unwrap(), method);
                checked += 1;
            }
            Err(PlanError::Refused(_)) => {}
            Err(error) => panic!("{spec}: {error}"),
        }
    }
    assert!(checked > 0, "no method took {spec}");
}

#[test]
fn scratch_serves_again_after_an_error() {
    for text in ["zncc:f32:0@64x64*24x24:valid", "zncc:f32:0@30x20*5x5:same", "zncc:u8:0@30x20*5x5:valid"] {
        let spec: Spec = text.parse().unwrap();
        let (images, templates) = data(&spec, 5, 3);
        let count = spec.template().len();
        let mut wrong = templates.clone();
        wrong[2] = Pixels::F64(vec![2.0; count]).cast(spec.template_type());
        let (images, wrong) = (views(&images, spec.image(), 1), views(&wrong, spec.template(), 1));
        let templates = views(&templates, spec.template(), 1);
        pairs_by_method(&spec, None, |pairs, method| {
            let want = run(pairs, &images, &templates, &mut pairs.make_scratch()).unwrap();
            let mut scratch = pairs.make_scratch();
            for _ in 0..2 {
                let ExecError::Spec(error) = run(pairs, &images, &wrong, &mut scratch).unwrap_err() else {
                    panic!("{text} by {method}")
                };
                assert_eq!((error.kind, error.argument.as_str()), (Kind::ConstantTemplate, "template 2"));
                assert!(run(pairs, &images, &templates, &mut scratch).unwrap() == want, "{text} by {method}");
            }
        });
    }
}

#[test]
fn scratch_serves_again_after_a_cancelled_run() {
    let spec: Spec = "zncc:f32:0@64x64*24x24:valid".parse().unwrap();
    let (images, templates) = data(&spec, 6, 5);
    let (images, templates) = (views(&images, spec.image(), 1), views(&templates, spec.template(), 1));
    pairs_by_method(&spec, None, |pairs, method| {
        let want = run(pairs, &images, &templates, &mut pairs.make_scratch()).unwrap();
        let (mut scratch, token) = (pairs.make_scratch(), CancelToken::new());
        let progress = |done: usize, _: usize| {
            if done == 3 {
                token.cancel();
            }
        };
        let control = Control { progress: Some(&progress), cancel: Some(&token), ..Control::default() };
        let error = run_under(pairs, &images, &templates, &mut scratch, &control).unwrap_err();
        assert_eq!(error, ExecError::Cancelled { done: 3, total: 6 });
        // In another order: nothing of the run before may show.
        let (late, early): (Vec<_>, Vec<_>) =
            (images.iter().rev().copied().collect(), templates.iter().rev().copied().collect());
        let count = spec.out_shape().len();
        let want: Vec<u64> = want.chunks_exact(count).rev().flatten().copied().collect();
        assert!(run(pairs, &late, &early, &mut scratch).unwrap() == want, "by {method}");
    });
}

#[test]
fn scratch_serves_pairs_of_another_mask() {
    let spec: Spec = "zncc:f32:0@40x30*8x7:valid,mask01".parse().unwrap();
    let (images, templates) = data(&spec, 5, 6);
    let (images, templates) = (views(&images, spec.image(), 1), views(&templates, spec.template(), 1));
    let masks = [3, 5].map(|step| Pixels::U8((0..56).map(|i| u8::from(i % step > 0)).collect()));
    let [first, second] = masks.each_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
    pairs_by_method(&spec, Some(&first), |pairs, method| {
        let others = pairs.plan().pairs(Some(&second)).unwrap();
        let want = [pairs, &others].map(|pairs| run(pairs, &images, &templates, &mut pairs.make_scratch()).unwrap());
        assert!(want[0] != want[1], "masks that make no difference are no test");
        let mut scratch = pairs.make_scratch();
        for turn in 0..4 {
            let pairs = [pairs, &others][turn % 2];
            assert!(
                run(pairs, &images, &templates, &mut scratch).unwrap() == want[turn % 2],
                "turn {turn} by {method}"
            );
        }
    });
}

#[test]
fn a_template_of_nan_leaves_nothing_to_the_next() {
    let spec: Spec = "corr:f32:0@64x64*24x24:valid".parse().unwrap();
    let (images, mut templates) = data(&spec, 4, 7);
    let finite = templates.clone();
    for (number, bad) in [(0, f32::NAN), (2, f32::INFINITY)] {
        let Pixels::F32(values) = &mut templates[number] else { panic!("templates of f32") };
        values[100] = bad;
    }
    let images = views(&images, spec.image(), 1);
    let (templates, finite) = (views(&templates, spec.template(), 1), views(&finite, spec.template(), 1));
    let count = spec.out_shape().len();
    pairs_by_method(&spec, None, |pairs, method| {
        let want = run(pairs, &images, &finite, &mut pairs.make_scratch()).unwrap();
        let mut scratch = pairs.make_scratch();
        for turn in 0..2 {
            let got = run(pairs, &images, &templates, &mut scratch).unwrap();
            for (number, (got, want)) in got.chunks_exact(count).zip(want.chunks_exact(count)).enumerate() {
                match number {
                    0 | 2 => assert!(
                        got.iter().all(|&bits| f64::from_bits(bits).is_nan()),
                        "pair {number}, turn {turn}, by {method}"
                    ),
                    _ => assert!(got == want, "pair {number}, turn {turn}, by {method}"),
                }
            }
        }
    });
}
