//! Anything at all, called: a code each, and no crash.

use flcc::plans::{flcc_matcher_destroy, flcc_plan_destroy};
use flcc::status::flcc_status::*;
use flcc::types::flccResult::*;
use flcc::types::{flcc_layout, flcc_matcher, flccPlan};
use proptest::prelude::*;

use crate::c::{self, Operation, Text};
use crate::plans::noise;

/// Sides that are small, absurd, or whatever.
fn side() -> impl Strategy<Value = i32> {
    prop_oneof![4 => 1..12i32, 1 => -2..=0i32, 1 => Just(i32::MAX), 1 => any::<i32>()]
}

/// Those of a template: where they are absurd, all are, so that no plan of them takes gigabytes and minutes.
fn template() -> impl Strategy<Value = [i32; 3]> {
    let small = prop_oneof![9 => 1..12i32, 1 => -2..=0i32, 1 => Just(i32::MIN)];
    prop_oneof![5 => [small.clone(), small.clone(), small], 1 => Just([i32::MAX; 3])]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![Just(Operation::Conv), Just(Operation::Lcorr)]
}

/// Whether arrays of such a problem can be made here.
fn small(sizes: [[i32; 3]; 2], dim: i32) -> Option<[usize; 3]> {
    let axes = if dim == 2 { 2 } else { 3 };
    let [image, template] = sizes.map(|size| size.map(|side| if (1..100).contains(&side) { side as usize } else { 0 }));
    let product = |size: &dyn Fn(usize) -> usize| (0..axes).map(size).product::<usize>();
    let lens =
        [product(&|at| image[at]), product(&|at| template[at]), product(&|at| (image[at] + template[at]).max(1) - 1)];
    lens.iter().all(|len| (1..10_000).contains(len)).then_some(lens)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn classic_calls_have_a_code_each(
        operation in operation(),
        other in operation(),
        dim in prop_oneof![3 => 2..=3i32, 1 => any::<i32>()],
        image_size in [side(), side(), side()],
        template_size in template(),
        kind in prop_oneof![3 => 0..=1i32, 1 => any::<i32>()],
        platform in prop_oneof![3 => Just(0i32), 1 => Just(2i32), 1 => any::<i32>()],
        count in prop_oneof![3 => 1..=3i32, 1 => any::<i32>()],
        nulls in any::<[bool; 3]>(),
        some_nulls in prop::bool::weighted(0.2),
        values in prop::collection::vec(prop_oneof![4 => -9.0f32..9.0, 1 => any::<f32>()], 1..20),
    ) {
        let mut plan = c::declared();
        let sizes = [image_size, template_size];
        let made = operation.plan(Some(&mut plan), dim, sizes, kind, platform);
        // What is right by the text of the interface is planned, what is wrong is not.
        if let Some(lens) = small(sizes, dim).filter(|_| made == FLCC_SUCCESS) {
            let many = if kind == 1 { count.clamp(1, 3) as usize } else { 1 };
            let cycle = |len: usize| values.iter().copied().cycle().take(len).collect::<Vec<f32>>();
            let (image, template, mut out) = (cycle(lens[0] * many), cycle(lens[1]), cycle(lens[2] * many));
            let nulls = nulls.map(|null| null && some_nulls);
            let given = |null: bool, array| if null { None } else { Some(array) };
            // More images than there are arrays for are asked for where null stops it.
            let asked = if kind == 1 && count > 3 && !nulls[0] { 3 } else { count };
            let run = other.exec(
                Some(&mut plan),
                given(nulls[0], &image[..]),
                given(nulls[1], &template[..]),
                if nulls[2] { None } else { Some(&mut out) },
                asked,
            );
            if other != operation {
                prop_assert_eq!(run, FLCC_INVALID_PLAN);
            } else if nulls.contains(&true) || kind == 1 && asked < 1 {
                prop_assert!(matches!(run, FLCC_INVALID_VALUE | FLCC_INVALID_SIZE), "{:?}", run);
            } else {
                prop_assert!(matches!(run, FLCC_SUCCESS | FLCC_INVALID_VALUE), "{:?} {}", run, c::message());
                prop_assert!(operation == Operation::Lcorr || run == FLCC_SUCCESS);
            }
        } else if made == FLCC_SUCCESS {
            prop_assert!(sizes.concat().iter().any(|side| *side > 12 || *side < 1));
        }
        let right = if made == FLCC_SUCCESS { FLCC_SUCCESS } else { FLCC_INVALID_PLAN };
        if other != operation {
            prop_assert_eq!(other.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
        }
        prop_assert_eq!(operation.destroy(Some(&mut plan)), right);
        prop_assert_eq!(operation.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
    }

    #[test]
    fn a_structure_of_garbage_is_no_plan(operation in operation(), words in any::<[u64; 4]>(), kept in 0..4usize) {
        let mut real = c::declared();
        prop_assert_eq!(operation.plan(Some(&mut real), 2, [[2, 2, 0]; 2], 0, 0), FLCC_SUCCESS);
        let mut plan = flccPlan { words };
        let mut out = [0.0f32; 9];
        let run = operation.exec(Some(&mut plan), Some(&[1.0; 4]), Some(&[1.0; 4]), Some(&mut out), 1);
        prop_assert_eq!(run, FLCC_INVALID_PLAN);
        prop_assert_eq!(operation.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
        // One word of a plan that there is, among others.
        plan.words[kept] = real.words[kept];
        prop_assert_eq!(operation.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
        prop_assert_eq!(operation.destroy(Some(&mut real)), FLCC_SUCCESS);
    }

    #[test]
    fn any_text_is_a_plan_or_an_error(
        spec in prop_oneof![
            "[a-z]{2,4}:(u8|u16|f32|f64):[0-9x@]{1,24}\\*[0-9x@]{1,6}:(full|same|valid)(,[a-z0-9=().,:]{0,20})?",
            "(conv|zncc|ssd):f32:([1-9][0-9]{0,18}x){0,2}[1-9]{1,18}\\*([1-9][0-9]{0,2}x){0,2}[1-9]:(full|same|valid)",
            ".{0,60}",
        ],
        settings in prop_oneof![
            Just(String::new()),
            "(effort|platform|devices|threads|memory|method|kernel|fallback)=[a-z0-9:]{0,12}(,memory=[0-9]{1,20})?",
            ".{0,40}",
        ],
    ) {
        let settings = settings.replace("measure", "").replace("patient", "");
        match c::plan_of_bytes(spec.as_bytes(), settings.as_bytes()) {
            Ok(plan) => {
                prop_assert!(c::told(Text::Spec(plan), 1000).is_ok());
                prop_assert_eq!(flcc_plan_destroy(plan), FLCC_OK);
            }
            Err(status) => {
                prop_assert!(status != FLCC_ERROR_INTERNAL && status != FLCC_OK, "{} {}", spec, c::message());
                prop_assert!(!c::message().is_empty());
            }
        }
    }

    #[test]
    fn any_handle_is_one_or_none(number in any::<usize>()) {
        let (image, mut out) = ([1.0f32; 4], [0.0f32; 4]);
        let matcher = number as *mut flcc_matcher;
        let expected = if number == 0 { FLCC_ERROR_NULL } else { FLCC_ERROR_HANDLE };
        prop_assert_eq!(c::execute(matcher, &image, None, 1, &mut out, None), expected);
        prop_assert_eq!(c::told(Text::Plan(matcher.cast_const().cast()), 9), Err(expected));
    }

    #[test]
    fn layouts_within_an_array_stay_in_it(
        starts in [0..40usize, 0..40usize],
        strides in prop::collection::vec(-9..9isize, 4),
        nexts in [-70..70isize, -70..70isize],
        count in 0..4usize,
    ) {
        let plan = c::plan("corr:f32:0@4x5*2x3:valid", "threads=1").unwrap();
        let matcher = c::matcher(plan, &noise(6, 1).map(|x| x as f32).collect::<Vec<_>>(), None, None).unwrap();
        let images: Vec<f32> = noise(120, 3).map(|x| x as f32).collect();
        let mut out = vec![f32::NAN; 120];
        let layout = |at: usize| {
            flcc_layout { strides: [strides[2 * at], strides[2 * at + 1], 0], channel: 1, next: nexts[at] }
        };
        // Where every sample lies, one by one.
        let places = |at: usize, [h, w]: [usize; 2]| -> Vec<Vec<isize>> {
            let of = layout(at);
            (0..count as isize)
                .map(|image| {
                    let first = starts[at] as isize + 40 + image * of.next;
                    let row = |y: isize| (0..w as isize).map(move |x| first + y * of.strides[0] + x * of.strides[1]);
                    (0..h as isize).flat_map(row).collect()
                })
                .collect()
        };
        let (read, written) = (places(0, [4, 5]), places(1, [3, 3]));
        if [&read, &written].into_iter().flatten().flatten().any(|at| !(0..120).contains(at)) {
            return Ok(());
        }
        let status = c::execute_from(
            matcher,
            (&images, starts[0] + 40, Some(layout(0))),
            count,
            (&mut out, starts[1] + 40, Some(layout(1))),
        );
        if status == FLCC_OK {
            let untouched = |at: &isize| !written.concat().contains(at);
            prop_assert!((0..120).filter(untouched).all(|at| out[at as usize].is_nan()));
            let mut alone = [0.0f32; 9];
            for (read, written) in read.iter().zip(&written) {
                let image: Vec<f32> = read.iter().map(|&at| images[at as usize]).collect();
                prop_assert_eq!(c::execute(matcher, &image, None, 1, &mut alone, None), FLCC_OK);
                let got: Vec<f32> = written.iter().map(|&at| out[at as usize]).collect();
                prop_assert_eq!(&got[..], &alone[..]);
            }
        } else {
            prop_assert_eq!(status, FLCC_ERROR_INVALID);
        }
        prop_assert_eq!([flcc_matcher_destroy(matcher), flcc_plan_destroy(plan)], [FLCC_OK; 2]);
    }
}
