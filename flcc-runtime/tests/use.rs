//! The library as it is used: strided views, several images and templates, streams, memory limits, cancelling, wisdom.

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Problem, Seed, check, planner};
use flcc_runtime::WindowStats;
use flcc_runtime::account::Outcome;
use flcc_runtime::core::reference::Oracle;
use flcc_runtime::peaks::{Search, find_peaks_from};
use flcc_runtime::{
    AnyView, AnyViewMut, AsImage, Best, CancelToken, Control, DType, Effort, ExecError, Image, Kind, Machine, MaskKind,
    MaskedOptions, Measure, Method, PeakOptions, Pixels, PlanError, Planner, Platform, ScoreMap, Shape, Spec, Stat,
    View, ViewMut, find_peaks, find_peaks_in, mask_kind, match_masked, match_template, window_stats,
};

fn shape(lengths: &[usize]) -> Shape {
    Shape::new(lengths).unwrap()
}

#[test]
fn strided_views_in_and_out() {
    let problem = Problem::new("zncc:f32:40x50*7x6:same,reflect", 1);
    let expected = problem.expected();
    let Pixels::F32(dense) = &problem.image else { unreachable!() };
    // The image backwards, transposed, and every third sample of a larger buffer.
    let mut scattered = vec![f32::NAN; 40 * 50 * 3 + 7];
    for y in 0..40 {
        for x in 0..50 {
            scattered[5 + 3 * (x * 40 + (39 - y))] = dense[y * 50 + x];
        }
    }
    let view = View::strided(&scattered, 5 + 3 * 39, shape(&[40, 50]), &[-3, 120]).unwrap();
    let plan = planner(2).plan(&problem.spec).unwrap();
    let matcher = plan.bind(&[problem.template()], None).unwrap();
    let mut out = vec![-7.0f32; 40 * 50 * 2];
    {
        let view_out = ViewMut::strided(&mut out, 2 * 40 * 50 - 1, shape(&[40, 50]), &[-2, -80]).unwrap();
        let mut outs: [AnyViewMut<'_>; 1] = [view_out.into()];
        matcher.execute_into(&[view.into()], &mut outs, &mut matcher.make_scratch(), &Control::default()).unwrap();
    }
    let got: Vec<f32> = (0..2000).map(|i| out[2 * 2000 - 1 - (2 * (i / 50) + 80 * (i % 50))]).collect();
    check("strided", &ScoreMap::new(problem.spec.region(), Pixels::F32(got)).unwrap(), &expected, 1e-5);
    assert_eq!(out.iter().filter(|&&value| value == -7.0).count(), 2000, "nothing between the positions is written");
}

#[test]
fn several_images_and_templates_are_each_with_each() {
    let spec: Spec = "zncc:u8:3@60x70*4@9x8:valid".parse().unwrap();
    let mut seed = Seed(2);
    let images: Vec<Pixels> = (0..3).map(|_| seed.pixels(60 * 70, DType::U8, 0.0)).collect();
    let templates: Vec<Pixels> = (0..4).map(|_| seed.pixels(72, DType::U8, 0.0)).collect();
    let images: Vec<AnyView<'_>> =
        images.iter().map(|pixels| AnyView::dense(pixels, spec.image(), 1).unwrap()).collect();
    let templates: Vec<AnyView<'_>> =
        templates.iter().map(|pixels| AnyView::dense(pixels, spec.template(), 1).unwrap()).collect();
    let one: Spec = "zncc:u8:60x70*9x8:valid".parse().unwrap();
    for method in [Method::Direct, Method::Fourier, Method::Separable] {
        let maps = planner(2).method(method).plan(&spec).unwrap().execute(&images, &templates, None).unwrap();
        assert_eq!(maps.len(), 12);
        for (index, map) in maps.iter().enumerate() {
            let oracle = Oracle::new(&one, &images[index / 4], &templates[index % 4], None).unwrap();
            check(&format!("{method} {index}"), map, &oracle.all(), 1e-5);
        }
    }
}

#[test]
fn unnormalised_templates_of_very_different_size_share_an_image() {
    let spec: Spec = "ssd:f64:30x30*3@4x4:valid".parse().unwrap();
    let mut seed = Seed(3);
    let image = seed.pixels(900, DType::F64, 0.0);
    let base = seed.pixels(16, DType::F64, 0.0).to_f64();
    let templates: Vec<Pixels> =
        [1.0, 1e60, 1e-60].iter().map(|gain| Pixels::F64(base.iter().map(|v| gain * v).collect())).collect();
    let image = AnyView::dense(&image, spec.image(), 1).unwrap();
    let views: Vec<AnyView<'_>> =
        templates.iter().map(|pixels| AnyView::dense(pixels, spec.template(), 1).unwrap()).collect();
    let one: Spec = "ssd:f64:30x30*4x4:valid".parse().unwrap();
    for (map, template) in planner(1).plan(&spec).unwrap().execute(&[image], &views, None).unwrap().iter().zip(&views) {
        let expected = Oracle::new(&one, &image, template, None).unwrap().all();
        let largest = expected.iter().copied().fold(0.0, f64::max);
        check("ssd", map, &expected, 1e-13 * largest);
    }
}

#[test]
fn a_stream_takes_images_of_any_size_in_order() {
    let template_spec: Spec = "zncc:u8:0@50x60*8x8:valid".parse().unwrap();
    let mut seed = Seed(4);
    let template = seed.pixels(64, DType::U8, 0.0);
    let template = AnyView::dense(&template, template_spec.template(), 1).unwrap();
    let matcher = planner(2).plan(&template_spec).unwrap().bind(&[template], None).unwrap();
    let mut stream = matcher.stream();
    let sizes = [[50, 60], [40, 30], [50, 60], [8, 8], [61, 17], [40, 30], [33, 44], [90, 10]];
    let images: Vec<(Pixels, Shape)> =
        sizes.iter().map(|size| (seed.pixels(size[0] * size[1], DType::U8, 0.0), shape(size))).collect();
    let views: Vec<AnyView<'_>> =
        images.iter().map(|(pixels, shape)| AnyView::dense(pixels, *shape, 1).unwrap()).collect();
    let results: Vec<_> = stream.run(&views).collect();
    for (view, result) in views.iter().zip(results) {
        let spec = template_spec.with_image_shape(view.shape()).unwrap();
        let expected = Oracle::new(&spec, view, &template, None).unwrap().all();
        check(&spec.to_string(), &result.unwrap()[0], &expected, 1e-5);
    }
    // A frame that cannot be matched is an error of its own; the next one goes on.
    let small = Pixels::U8(vec![1; 49]);
    let error = stream.push(&AnyView::dense(&small, shape(&[7, 7]), 1).unwrap()).unwrap_err();
    assert!(matches!(&error, ExecError::Spec(spec) if spec.kind == Kind::TemplateLargerThanImage), "{error}");
    assert_eq!(stream.push(&views[0]).unwrap()[0].shape().lengths(), [43, 53]);
}

#[test]
fn a_memory_limit_is_kept_or_refused_with_what_it_takes() {
    for text in ["zncc:f32:260x300*23x21:valid", "corr:f32:40x41x42*5x5x5:full", "zncc:u8:20000*100:same,mirror"] {
        let problem = Problem::new(text, 5);
        let expected = problem.expected();
        for method in [Method::Auto, Method::Direct, Method::Fourier] {
            let free = planner(2).method(method).plan(&problem.spec).unwrap();
            let PlanError::Memory { needed, limit } =
                planner(2).method(method).memory_limit(Some(100)).plan(&problem.spec).map(|_| ()).unwrap_err()
            else {
                panic!("{text} cannot fit in 100 bytes");
            };
            assert_eq!(limit, 100);
            assert!(needed < free.scratch_bytes() + free.template_bytes());
            let tight = planner(2).method(method).memory_limit(Some(needed)).plan(&problem.spec).unwrap();
            assert!(tight.scratch_bytes() + tight.template_bytes() <= needed, "{text}");
            check(
                &format!("{text} by {} in {needed} bytes", tight.kernel()),
                &problem.run(&tight),
                &expected,
                problem.tolerance(),
            );
        }
    }
}

#[test]
fn a_limit_is_kept_by_what_computes_parts_again_as_well() {
    // What is in doubt is computed directly in f64, of 957 taps, by parts that are no larger than the tiles.
    let problem = Problem::new("zncc:f32:118x97*33x29:full", 7);
    let plan = planner(1).memory_limit(Some(1 << 18)).plan(&problem.spec).unwrap();
    assert!(plan.scratch_bytes() + plan.template_bytes() <= 1 << 18);
    check(&plan.kernel().to_string(), &problem.run(&plan), &problem.expected(), problem.tolerance());
}

#[test]
fn progress_counts_every_tile_and_a_token_stops() {
    let problem = Problem::new("zncc:f32:700x800*9x9:valid", 6);
    let plan = planner(2).method(Method::Direct).plan(&problem.spec).unwrap();
    let matcher = plan.bind(&[problem.template()], None).unwrap();
    let seen = Mutex::new(Vec::new());
    let progress = |done: usize, total: usize| seen.lock().unwrap().push((done, total));
    let (_, statistics) =
        matcher.execute_with(&[problem.image()], &Control { progress: Some(&progress), ..Control::default() }).unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=plan.tiles()).map(|done| (done, plan.tiles())).collect::<Vec<_>>());
    assert_eq!(statistics.tiles as usize, plan.tiles());
    assert_eq!(statistics.panels as usize, problem.spec.out_shape().len());
    let token = CancelToken::new();
    let count = AtomicUsize::new(0);
    let stop = |_: usize, _: usize| {
        if count.fetch_add(1, Ordering::Relaxed) == 1 {
            token.cancel();
        }
    };
    let error = matcher
        .execute_with(
            &[problem.image()],
            &Control { progress: Some(&stop), cancel: Some(&token), ..Control::default() },
        )
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, ExecError::Cancelled { done, total } if done < total), "{error}");
}

#[test]
fn one_plan_serves_many_threads() {
    let problem = Problem::new("zncc:f32:200x220*15x15:full", 7);
    let matcher = planner(2).plan(&problem.spec).unwrap().bind(&[problem.template()], None).unwrap();
    let first = matcher.execute(&[problem.image()]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(matcher.execute(&[problem.image()]).unwrap(), first);
                }
            });
        }
    });
}

#[test]
fn wisdom_is_measured_once_and_used_then() {
    let spec: Spec = "corr:f32:120x130*6x6:valid".parse().unwrap();
    let measuring = planner(1).effort(Effort::Measure);
    let plan = measuring.plan(&spec).unwrap();
    assert!(
        plan.candidates().iter().any(|candidate| matches!(candidate.outcome, Outcome::Measured(_))),
        "{}",
        plan.explain()
    );
    let wisdom = measuring.learnt();
    assert_eq!(wisdom.len(), 1);
    let text = wisdom.to_text();
    let again = planner(1).wisdom(flcc_runtime::Wisdom::parse(&text).unwrap()).plan(&spec).unwrap();
    assert_eq!(again.kernel(), plan.kernel());
    assert!(
        again.candidates().iter().any(|candidate| matches!(candidate.outcome, Outcome::Known(_))),
        "{}",
        again.explain()
    );
}

#[test]
fn plans_for_described_machines() {
    let machine = |isa: &str| Machine::described(&[isa.parse().unwrap()], 4);
    let chosen = |machine: &Machine, spec: &str| {
        Planner::with_machine(machine.clone()).plan(&spec.parse().unwrap()).map(|plan| plan.kernel().to_string())
    };
    assert!(
        chosen(&machine("portable"), "corr:f32:2000x2000*3x3:valid").unwrap().starts_with("corr_f32_w3_portable_t")
    );
    assert!(
        chosen(&machine("portable"), "sad:f32:2000x2000*64x64:valid").unwrap().starts_with("sad_f32_any_portable_t")
    );
    assert!(chosen(&machine("portable"), "zncc:f32:2000x2000*64x64:valid").unwrap().starts_with("fourier_f32_"));
    assert!(chosen(&machine("portable"), "zncc:f32:1000000*2000:valid").unwrap().starts_with("fourier_f32_"));
}

#[test]
fn refusals_and_mistakes_have_reasons() {
    let fails = |planner: Planner, spec: &str| planner.plan(&spec.parse().unwrap()).map(|_| ()).unwrap_err();
    assert!(
        fails(planner(1).method(Method::Fourier), "sad:f32:20x20*3x3:valid")
            .to_string()
            .contains("no product of spectra")
    );
    // Where there is a GPU there is a plan.
    if let Err(error) = planner(1).platform(Platform::Cuda).plan(&"corr:f32:20x20*3x3:valid".parse().unwrap()) {
        assert!(error.to_string().starts_with("cuda direct refuses: "), "{error}");
    }
    assert!(
        fails(planner(1).method(Method::Separable), "corr:f32:20*3:valid").to_string().contains("nothing to separate")
    );
    assert!(
        fails(planner(1).method(Method::Separable), "corr:u8:20x20*3x3:valid,acc=exact")
            .to_string()
            .contains("not exact")
    );
    let problem = Problem::new("zncc:f32:20x20*3x3:valid", 8);
    let plan = planner(1).plan(&problem.spec).unwrap();
    let bytes = Pixels::U8((0..9).collect());
    let error = plan.bind(&[AnyView::dense(&bytes, shape(&[3, 3]), 1).unwrap()], None).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "template: expected f32 3x3, got u8 3x3");
    let matcher = plan.bind(&[problem.template()], None).unwrap();
    let none: [AnyView<'_>; 0] = [];
    assert_eq!(matcher.execute(&none).unwrap_err().to_string(), "images: expected 1 image, got 0");
    assert!(matcher.execute(&[problem.template()]).unwrap_err().to_string().starts_with("image: expected f32 20x20"));
    let other = planner(1).plan(&"zncc:f64:20x20*3x3:valid".parse().unwrap()).unwrap();
    let other =
        other.bind(&[AnyView::dense(&problem.template.cast(DType::F64), shape(&[3, 3]), 1).unwrap()], None).unwrap();
    let mut map = ScoreMap::zeros(problem.spec.region(), DType::F32);
    let error = matcher
        .execute_into(&[problem.image()], &mut [map.view_mut()], &mut other.make_scratch(), &Control::default())
        .unwrap_err();
    assert!(error.to_string().starts_with("scratch: expected"), "{error}");
}

#[test]
fn separable_templates_are_noticed() {
    let line: Vec<f64> = (0..16).map(|i| (-((i as f64 - 7.0) / 6.0).powi(2)).exp()).collect();
    let gauss: Vec<f64> = line.iter().flat_map(|a| line.iter().map(move |b| a * b)).collect();
    // In f64, where the Fourier method is not so fast that only much larger templates are worth their decomposition.
    let spec: Spec = "corr:f64:900x900*16x16:valid".parse().unwrap();
    let plan = planner(1).plan(&spec).unwrap();
    let gauss = Pixels::F64(gauss);
    let matcher = plan.bind(&[AnyView::dense(&gauss, spec.template(), 1).unwrap()], None).unwrap();
    assert_eq!(matcher.method(), Method::Separable, "{}", matcher.explain());
    let noise = Seed(9).pixels(16 * 16, DType::F64, 0.0);
    let matcher = plan.bind(&[AnyView::dense(&noise, spec.template(), 1).unwrap()], None).unwrap();
    assert_ne!(matcher.method(), Method::Separable, "{}", matcher.explain());
}

#[test]
fn statistics_of_windows() {
    let mut seed = Seed(10);
    for (lengths, window) in [(vec![40], vec![7]), (vec![30, 300], vec![5, 90]), (vec![9, 10, 40], vec![3, 4, 33])] {
        for dtype in [DType::U8, DType::U16, DType::F32, DType::F64] {
            for (mode, boundary) in
                [("full", "reflect"), ("same", "constant(2.5)"), ("valid", "zero"), ("full", "wrap")]
            {
                let (image_shape, window) = (shape(&lengths), shape(&window));
                let image = seed.pixels(image_shape.len(), dtype, 1000.0);
                let view = AnyView::dense(&image, image_shape, 1).unwrap();
                for stat in [Stat::Sum, Stat::Mean, Stat::Var, Stat::Min, Stat::Max] {
                    let (mode, rule) = (mode.parse().unwrap(), boundary.parse().unwrap());
                    let map = window_stats(&view, window, stat, mode, rule, DType::F64).unwrap();
                    let region = flcc_runtime::Mode::region(mode, image_shape, window).unwrap();
                    let n = window.len() as f64;
                    for index in (0..map.shape().len()).step_by(7) {
                        let at = map.shape().position(index);
                        let mut samples = Vec::new();
                        for k in 0..window.len() {
                            let offset = window.position(k);
                            let fold = |axis: usize| {
                                let i = (region.origin[axis] + at[axis] + offset[axis]) as isize
                                    - (window.padded()[axis] as isize - 1);
                                rule.fold(i, image_shape.padded()[axis])
                            };
                            samples.push(match (fold(0), fold(1), fold(2)) {
                                (Some(z), Some(y), Some(x)) => view.at([z, y, x]),
                                _ => rule.value().unwrap(),
                            });
                        }
                        let mean = samples.iter().sum::<f64>() / n;
                        let (expected, tolerance) = match stat {
                            Stat::Sum => {
                                (samples.iter().sum(), if dtype.is_integer() { 0.0 } else { 1e-12 * n * mean.abs() })
                            }
                            Stat::Mean => (mean, 1e-12 * mean.abs()),
                            Stat::Var => {
                                let var = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                                (var, 1e-9 * (1.0 + var))
                            }
                            Stat::Min => (samples.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
                            Stat::Max => (samples.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
                        };
                        assert!(
                            (map.get(index) - expected).abs() <= tolerance,
                            "{stat} {dtype} {mode} {boundary}: {} {expected}",
                            map.get(index)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn statistics_of_windows_on_threads_and_in_little_memory() {
    let mut seed = Seed(11);
    for (lengths, window) in [
        (vec![200_000], vec![70_000]),
        (vec![700, 900], vec![5, 3]),
        (vec![500, 420], vec![310, 290]),
        (vec![40, 70, 300], vec![3, 60, 7]),
    ] {
        let (image_shape, window) = (shape(&lengths), shape(&window));
        let image = seed.pixels(image_shape.len(), DType::F32, 1000.0);
        let view = AnyView::dense(&image, image_shape, 1).unwrap();
        for stat in [Stat::Sum, Stat::Var, Stat::Max] {
            let problem = WindowStats::new(
                &view,
                window,
                stat,
                flcc_runtime::Mode::Same,
                flcc_runtime::Boundary::Reflect,
                DType::F64,
            )
            .unwrap();
            let seen = AtomicUsize::new(0);
            let progress = |_: usize, _: usize| {
                seen.fetch_add(1, Ordering::Relaxed);
            };
            let one = problem
                .clone()
                .threads(1)
                .unwrap()
                .run(&Control { progress: Some(&progress), ..Control::default() })
                .unwrap();
            for threads in [0, 2, 5] {
                let many = problem.clone().threads(threads).unwrap().run(&Control::default()).unwrap();
                assert!(many == one, "{stat} {lengths:?} on {threads} threads");
            }
            assert!(seen.into_inner() > 0);
            let whole = problem.clone().threads(1).unwrap();
            let bytes = whole.scratch_bytes().unwrap();
            let tight = whole.clone().memory_limit(Some(bytes - 1));
            assert!(tight.scratch_bytes().unwrap() < bytes);
            let map = tight.run(&Control::default()).unwrap();
            for index in (0..map.shape().len()).step_by(101) {
                assert!(
                    (map.get(index) - one.get(index)).abs() <= 1e-9 * one.get(index).abs().max(1.0),
                    "{stat} {lengths:?} at {index}"
                );
            }
            assert!(matches!(
                whole.memory_limit(Some(64)).run(&Control::default()),
                Err(ExecError::Plan(PlanError::Memory { needed, limit: 64 })) if needed > 64
            ));
            let token = CancelToken::new();
            token.cancel();
            assert!(matches!(
                problem.run(&Control { progress: None, cancel: Some(&token), ..Control::default() }),
                Err(ExecError::Cancelled { done: 0, .. })
            ));
        }
    }
}

/// Samples read for an output: the margin of a tile never costs more than the tile does on an axis.
#[test]
fn a_large_window_takes_large_tiles() {
    let image = Pixels::U8(vec![1; 1024 * 1024]);
    let view = AnyView::dense(&image, shape(&[1024, 1024]), 1).unwrap();
    for side in [3, 65, 257, 513] {
        let problem = WindowStats::new(
            &view,
            shape(&[side, side]),
            Stat::Sum,
            flcc_runtime::Mode::Same,
            flcc_runtime::Boundary::Wrap,
            DType::F64,
        )
        .unwrap();
        let tiles = AtomicUsize::new(0);
        let count = |_: usize, total: usize| tiles.store(total, Ordering::Relaxed);
        let map = problem.run(&Control { progress: Some(&count), ..Control::default() }).unwrap();
        assert!((0..map.shape().len()).step_by(997).all(|index| map.get(index) == (side * side) as f64));
        let tile = 1024.0 * 1024.0 / tiles.into_inner() as f64;
        assert!(tile.sqrt() >= 0.7 * side as f64, "{tile} outputs a tile for windows of {side}");
    }
}

#[test]
fn views_and_maps_are_images_of_a_stream() {
    let spec: Spec = "corr:f32:0@3x3*1x1:valid".parse().unwrap();
    let two = Pixels::F32(vec![2.0]);
    let matcher =
        planner(1).plan(&spec).unwrap().bind(&[AnyView::dense(&two, shape(&[1, 1]), 1).unwrap()], None).unwrap();
    let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    let view = View::new(&data, shape(&[3, 3])).unwrap();
    let mut stream = matcher.stream();
    let first = stream.run([view]).next().unwrap().unwrap();
    let again = stream.run(&first).next().unwrap().unwrap();
    assert_eq!(again[0].data(), &Pixels::F32(data.iter().map(|value| 4.0 * value).collect()));
}

mod odd {
    //! Odd shapes and strides: any view is read as what it says, or refused; nothing panics.
    use super::*;
    use proptest::prelude::*;

    /// So many cases, unless PROPTEST_CASES names another number.
    fn cases(count: u32) -> ProptestConfig {
        let config = ProptestConfig::default();
        if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: count, ..config } }
    }

    proptest! {
        #![proptest_config(cases(200))]

        #[test]
        fn any_layout_is_refused_or_computed(
            lengths in prop::collection::vec(0usize..14, 1..4),
            strides in prop::collection::vec(-40isize..40, 1..4),
            offset in 0usize..300,
            out_strides in prop::collection::vec(-40isize..40, 1..4),
            out_offset in 0usize..300,
            side in 1usize..4,
        ) {
            let data: Vec<u16> = (0..300u32).map(|i| (i * 7919 % 1009) as u16).collect();
            let Ok(image_shape) = Shape::new(&lengths) else { return Ok(()) };
            let template_shape = Shape::new(&vec![side; lengths.len()]).unwrap();
            let template = Pixels::U16((0..template_shape.len()).map(|i| (i * i) as u16).collect());
            let Ok(view) = View::strided(&data, offset, image_shape, &strides) else { return Ok(()) };
            let (op, mode) = (flcc_runtime::Op::Correlate, flcc_runtime::Mode::Same);
            let Ok(spec) = Spec::new(op, DType::U16, image_shape, DType::U16, template_shape, mode) else {
                return Ok(());
            };
            let template = AnyView::dense(&template, template_shape, 1).unwrap();
            let matcher = planner(1).plan(&spec).unwrap().bind(&[template], None).unwrap();
            let mut out = vec![-1.0f32; 300];
            if let Ok(out_view) = ViewMut::strided(&mut out, out_offset, image_shape, &out_strides) {
                let layout = *out_view.layout();
                let (mut scratch, control) = (matcher.make_scratch(), Control::default());
                matcher.execute_into(&[view.into()], &mut [out_view.into()], &mut scratch, &control).unwrap();
                let expected = Oracle::new(&spec, &view.into(), &template, None).unwrap().all();
                for (index, value) in expected.iter().enumerate() {
                    let got = out[layout.offset(image_shape.position(index), 0)];
                    prop_assert_eq!(f64::from(got), *value as f32 as f64);
                }
                prop_assert_eq!(out.iter().filter(|&&value| value == -1.0).count(), 300 - expected.len());
            }
        }
    }
}

/// A device that is described and not there stands for one that was lost before the plan was made.
#[cfg(feature = "cuda")]
#[test]
fn a_plan_that_no_device_takes_is_one_for_the_cpu_if_asked_for() {
    let (name, about) = ("described".to_string(), "described");
    let device = flcc_runtime::machine::Device {
        index: 99,
        name,
        capability: (9, 0),
        multiprocessors: 132,
        f32_per_f64: 2,
        memory: 1 << 37,
    };
    let machine = Machine::detect().unwrap().with_devices(vec![device], about);
    let planner = Planner::with_machine(machine).platform(Platform::Cuda);
    let problem = Problem::new("zncc:u8:60x70*9x8:valid", 12);
    assert!(matches!(problem.plan(&planner), Err(PlanError::Refused(_))));
    let plan = problem.plan(&planner.clone().fall_back(true)).unwrap();
    assert_eq!(plan.platform(), Platform::Cpu);
    assert!(plan.candidates().iter().any(|candidate| {
        let kernel = candidate.kernel.parse::<flcc_runtime::core::key::KernelKey>().is_ok();
        kernel && matches!(&candidate.outcome, Outcome::Refused(reason) if !reason.is_empty())
    }));
    check("on the CPU", &problem.run(&plan), &problem.expected(), 1e-5);
    // As it does where there is none.
    let absent = Planner::with_machine(Machine::detect().unwrap().with_devices(Vec::new(), "no driver"));
    let absent = absent.platform(Platform::Cuda);
    if absent.machine().devices().is_empty() {
        assert!(matches!(problem.plan(&absent), Err(PlanError::Refused(_))));
        assert_eq!(problem.plan(&absent.fall_back(true)).unwrap().platform(), Platform::Cpu);
    }
    // What no device serves is a refusal still.
    let separable = planner.method(Method::Separable).fall_back(true);
    assert_eq!(problem.plan(&separable).unwrap().platform(), Platform::Cpu);
    let volume = Problem::new("zncc:u8:9x10x11*3x4x2:valid", 12);
    assert!(matches!(volume.plan(&separable), Err(PlanError::Refused(_))));
}

/// A map of more positions than one thread is given at a time.
#[test]
fn peaks_are_the_best_of_their_measure_by_any_number_of_threads() {
    let mut problem = Problem::new("ssd:f32:500x600*8x9:valid", 31);
    let image = problem.image.to_f64();
    let cut = (0..8).flat_map(|y| image[(120 + y) * 600 + 77..][..9].iter().copied()).collect();
    problem.template = Pixels::F64(cut).cast(DType::F32);
    let map = problem.run(&planner(2).plan(&problem.spec).unwrap());
    let top = PeakOptions { top: Some(1), ..PeakOptions::default() };
    let best = find_peaks(&map, &top);
    assert_eq!(best[0].position, [120, 77]);
    assert!(best[0].score.abs() < 1e-3, "{}", best[0].score);
    assert_eq!(find_peaks_in(&map.view(), Best::Smallest, &top), best);
    assert_ne!(find_peaks_in(&map.view(), Best::Largest, &top), best);
    assert_eq!(find_peaks_from(&map.view(), [0, 5, 7], Best::Smallest, &top)[0].position, [125, 84]);
    for options in [
        PeakOptions::default(),
        PeakOptions { top: Some(16), min_distance: Some(1), ..PeakOptions::default() },
        PeakOptions { threshold: Some(60.0), exclude_border: 3, subpixel: Some(Default::default()), ..top },
    ] {
        let whole = Search::in_map(&map, options).in_view(&map.view()).peaks;
        assert!(!whole.is_empty());
        assert_eq!(find_peaks(&map, &options), whole, "{options:?}");
    }
}

#[test]
fn masks_are_whatever_is_an_image() {
    let problem = Problem::new("zncc:u8:40x50*7x6:valid", 3);
    let (image, template) = (problem.image(), problem.template());
    let weights: Vec<u8> = (0..42).map(|tap| u8::from(tap % 5 != 0)).collect();
    let view = View::new(&weights, shape(&[7, 6])).unwrap();
    let (any, owned) = (AnyView::from(view), Image::new(weights.clone(), shape(&[7, 6])).unwrap());
    let masks: [&dyn AsImage; 3] = [&view, &any, &owned];
    let kind = mask_kind(Some(&view));
    assert_eq!((kind, mask_kind(None)), (MaskKind::Binary, MaskKind::None));
    let plan = planner(1).plan(&problem.spec.clone().with_mask(kind).unwrap()).unwrap();
    let expected = plan.execute(&[image], &[template], Some(&view)).unwrap().remove(0);
    assert_eq!(match_template(&image, &template, Some(&owned), Measure::Zncc).unwrap().data(), expected.data());
    assert_ne!(match_template(&image, &template, None, Measure::Zncc).unwrap().data(), expected.data());
    // Images are whatever is one, too.
    let Pixels::U8(samples) = &problem.image else { unreachable!() };
    let frame = Image::new(samples.clone(), shape(&[40, 50])).unwrap();
    for mask in masks {
        let matcher = plan.bind(&[template], Some(mask)).unwrap();
        let (maps, _) = matcher.execute_with(&[&frame], &Control::default()).unwrap();
        assert_eq!(maps[0].data(), expected.data());
        let (found, _) = matcher.search(&[&frame], &PeakOptions::default(), false, &Control::default()).unwrap();
        assert_eq!(found[0].peaks, find_peaks(&expected, &PeakOptions::default()));
        let pairs = plan.pairs(Some(mask)).unwrap();
        assert_eq!(&pairs.execute_with(&[&frame], &[template], &Control::default()).unwrap().0, expected.data());
    }
    let options = MaskedOptions { mask: Some(view.into()), ..MaskedOptions::default() };
    let known = View::new(&[1u8; 2000], shape(&[40, 50])).unwrap();
    let map = match_masked(&image, &known, &template, Measure::Zncc, &options).unwrap();
    let near = |index| (map.get(index) - expected.get(index)).abs() < 1e-5;
    assert!(map.shape() == expected.shape() && (0..map.shape().len()).all(near));
}
