//! The interface of FLCC 1.3.

use std::sync::Mutex;

use flcc::memory::{flcc_free, flcc_malloc};
use flcc::types::flccResult::*;
use flcc::types::{flccPlatform, flccType};
use flcc_core::dtype::Pixels;
use flcc_core::reference::Oracle;
use flcc_core::spec::Spec;
use flcc_core::view::AnyView;

use crate::c::{self, Operation};
use crate::plans::noise;

const SINGLE: i32 = flccType::FLCC_SINGLE as i32;
const STREAM: i32 = flccType::FLCC_STREAM as i32;
const HOST: i32 = flccPlatform::FLCC_HOST as i32;
const DEVICE: i32 = flccPlatform::FLCC_DEVICE as i32;
const ANY: i32 = flccPlatform::FLCC_ANY as i32;

/// Who holds it is the only one to give memory back, so that an address given back twice is nobody's.
static MEMORY: Mutex<()> = Mutex::new(());

fn floats(count: usize, seed: u32) -> Vec<f32> {
    noise(count, seed).map(|value| value as f32).collect()
}

#[test]
fn results_are_full_with_zeros_outside() {
    let cases = [(Operation::Conv, "conv"), (Operation::Lcorr, "zncc")];
    let sizes = [(2, [[9, 11, 77], [4, 3, -7]], "9x11", "4x3"), (3, [[6, 5, 7], [2, 3, 4]], "6x5x7", "2x3x4")];
    for ((operation, op), (dim, sides, of_image, of_template)) in
        cases.into_iter().flat_map(|case| sizes.map(|size| (case, size)))
    {
        let spec: Spec = format!("{op}:f32:{of_image}*{of_template}:full").parse().unwrap();
        let (each, part, out) = (spec.image().len(), spec.template().len(), spec.out_shape().len());
        let (images, template) = (floats(3 * each, 4), floats(part, 6));
        let expected: Vec<f64> = images
            .chunks_exact(each)
            .flat_map(|image| {
                let (image, template) = (Pixels::F32(image.to_vec()), Pixels::F32(template.clone()));
                let view = |pixels, shape| AnyView::dense(pixels, shape, 1).unwrap();
                let (image, template) = (view(&image, spec.image()), view(&template, spec.template()));
                Oracle::new(&spec, &image, &template, None).unwrap().all()
            })
            .collect();
        let largest = expected.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
        let close = |got: &[f32]| {
            for (got, expected) in got.iter().zip(&expected) {
                assert!((f64::from(*got) - expected).abs() <= 1e-5 * largest, "{spec}: {got} for {expected}");
            }
        };
        for (kind, platform, count) in [(SINGLE, HOST, -5), (SINGLE, ANY, 1), (STREAM, HOST, 3), (STREAM, ANY, 1)] {
            let mut plan = c::declared();
            let made = operation.plan(Some(&mut plan), dim, sides, kind, platform);
            assert_eq!(made, FLCC_SUCCESS, "{}", c::message());
            let many = if kind == STREAM { count as usize } else { 1 };
            let mut got = vec![-9.0f32; 3 * out];
            // Twice: the second time the template is known.
            for _ in 0..2 {
                let run = operation.exec(Some(&mut plan), Some(&images), Some(&template), Some(&mut got), count);
                assert_eq!(run, FLCC_SUCCESS, "{}", c::message());
                close(&got[..many * out]);
                assert!(got[many * out..].iter().all(|&untouched| untouched == -9.0));
            }
            assert_eq!(operation.destroy(Some(&mut plan)), FLCC_SUCCESS);
        }
    }
}

#[test]
fn a_plan_takes_one_template_after_another() {
    let mut plan = c::declared();
    assert_eq!(Operation::Conv.plan(Some(&mut plan), 2, [[1, 3, 0], [1, 1, 0]], SINGLE, HOST), FLCC_SUCCESS);
    let mut out = [0.0f32; 3];
    for factor in [2.0, 3.0, -0.0, 0.0, 3.0] {
        let run = Operation::Conv.exec(Some(&mut plan), Some(&[1.0, 2.0, 3.0]), Some(&[factor]), Some(&mut out), 1);
        assert_eq!(run, FLCC_SUCCESS);
        assert_eq!(out, [factor, 2.0 * factor, 3.0 * factor]);
    }
    // A copy names the same plan; when that is destroyed, neither does.
    let mut copy = plan;
    assert_eq!(Operation::Conv.destroy(Some(&mut copy)), FLCC_SUCCESS);
    for plan in [&mut plan, &mut copy] {
        let run = Operation::Conv.exec(Some(&mut *plan), Some(&[1.0; 3]), Some(&[1.0]), Some(&mut out), 1);
        assert_eq!(run, FLCC_INVALID_PLAN);
        assert_eq!(Operation::Conv.destroy(Some(plan)), FLCC_INVALID_PLAN);
    }
}

#[test]
fn what_is_no_plan_is_told() {
    let (image, template) = ([1.0f32; 4], [1.0f32, 2.0, 3.0, 4.0]);
    let size = [[2, 2, 0]; 2];
    for (operation, other) in [(Operation::Conv, Operation::Lcorr), (Operation::Lcorr, Operation::Conv)] {
        let mut out = [0.0f32; 9];
        assert_eq!(operation.plan(None, 2, size, SINGLE, HOST), FLCC_INVALID_PLAN);
        assert_eq!(operation.exec(None, Some(&image), Some(&template), Some(&mut out), 1), FLCC_INVALID_PLAN);
        assert_eq!(operation.destroy(None), FLCC_INVALID_PLAN);
        let mut plan = c::declared();
        assert_eq!(operation.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
        assert_eq!(operation.plan(Some(&mut plan), 2, size, SINGLE, HOST), FLCC_SUCCESS);
        let run = other.exec(Some(&mut plan), Some(&image), Some(&template), Some(&mut out), 1);
        assert_eq!(run, FLCC_INVALID_PLAN);
        assert!(c::message().ends_with("got a plan of the other operation"), "{}", c::message());
        assert_eq!(other.destroy(Some(&mut plan)), FLCC_INVALID_PLAN);
        let run = operation.exec(Some(&mut plan), Some(&image), Some(&template), Some(&mut out), 1);
        assert_eq!(run, FLCC_SUCCESS);
        // Planning that fails leaves no plan.
        let mut failed = plan;
        assert_eq!(operation.plan(Some(&mut failed), 7, size, SINGLE, HOST), FLCC_INVALID_DIMENSION);
        assert_eq!(operation.destroy(Some(&mut failed)), FLCC_INVALID_PLAN);
        assert_eq!(
            [operation.destroy(Some(&mut plan)), operation.destroy(Some(&mut plan))],
            [FLCC_SUCCESS, FLCC_INVALID_PLAN]
        );
    }
}

#[test]
fn a_wrong_argument_has_its_code() {
    let plan = |dim, sizes, kind, platform| Operation::Lcorr.plan(Some(&mut c::declared()), dim, sizes, kind, platform);
    let good = [[8, 9, 5], [3, 4, 2]];
    for dim in [i32::MIN, -1, 0, 1, 4, i32::MAX] {
        assert_eq!(plan(dim, good, SINGLE, HOST), FLCC_INVALID_DIMENSION);
    }
    for bad in [[0, 9, 5], [8, -1, 5], [i32::MIN, 9, 5]] {
        assert_eq!(
            [plan(2, [bad, good[1]], SINGLE, HOST), plan(2, [good[0], bad], SINGLE, HOST)],
            [FLCC_INVALID_SIZE; 2]
        );
    }
    assert_eq!(
        [plan(3, [[8, 9, 0], good[1]], SINGLE, HOST), plan(2, [[8, 9, 0], good[1]], SINGLE, HOST)],
        [FLCC_INVALID_SIZE, FLCC_SUCCESS]
    );
    let huge = [i32::MAX; 3];
    assert_eq!(plan(3, [huge, good[1]], SINGLE, HOST), FLCC_INVALID_SIZE);
    assert_eq!(plan(2, [good[0], huge], SINGLE, HOST), FLCC_INVALID_SIZE);
    for kind in [-1, 2, i32::MAX] {
        assert_eq!(plan(2, good, kind, HOST), FLCC_INVALID_TYPE);
    }
    for platform in [-1, 3, i32::MIN] {
        assert_eq!(plan(2, good, STREAM, platform), FLCC_INVALID_PLATFORM);
    }
    let on_device = plan(2, good, SINGLE, DEVICE);
    assert!(matches!(on_device, FLCC_INVALID_PLATFORM | FLCC_SUCCESS), "{on_device:?} {}", c::message());

    let mut plan = c::declared();
    assert_eq!(Operation::Lcorr.plan(Some(&mut plan), 2, [[3, 3, 0], [2, 2, 0]], STREAM, HOST), FLCC_SUCCESS);
    let (image, template, mut out) = (floats(18, 2), floats(4, 3), vec![0.0f32; 32]);
    let run = |image: Option<&[f32]>, template: Option<&[f32]>, out: Option<&mut [f32]>, count| {
        Operation::Lcorr.exec(Some(&mut plan.clone()), image, template, out, count)
    };
    assert_eq!(run(None, Some(&template), Some(&mut out), 1), FLCC_INVALID_VALUE);
    assert_eq!(run(Some(&image), None, Some(&mut out), 1), FLCC_INVALID_VALUE);
    assert_eq!(run(Some(&image), Some(&template), None, 1), FLCC_INVALID_VALUE);
    assert_eq!(c::message(), "result: expected the address of f32 samples, got a null pointer");
    for count in [0, -1, i32::MIN] {
        assert_eq!(run(Some(&image), Some(&template), Some(&mut out), count), FLCC_INVALID_VALUE);
    }
    assert_eq!(run(Some(&image), Some(&[1.5; 4]), Some(&mut out), 2), FLCC_INVALID_VALUE);
    assert!(c::message().starts_with("template: expected"), "{}", c::message());
    assert_eq!(run(Some(&image), Some(&[1.0, 2.0, f32::NAN, 3.0]), Some(&mut out), 2), FLCC_INVALID_VALUE);
    assert_eq!(run(Some(&image), Some(&template), Some(&mut out), 2), FLCC_SUCCESS);
    let [from, part, to] = [&raw const image[0], &raw const template[0], &raw const out[0]].map(|at| at as usize);
    for wrong in [[from + 1, part, to], [from, part + 2, to], [from, part, to + 3], [from, to, to], [to, part, to]] {
        assert_eq!(Operation::Lcorr.exec_at(&mut plan, wrong, 1), FLCC_INVALID_VALUE);
    }
    let mut large = c::declared();
    let sizes = [[1 << 12, 1 << 12, 1 << 12], [1, 1, 2]];
    assert_eq!(Operation::Lcorr.plan(Some(&mut large), 3, sizes, STREAM, HOST), FLCC_SUCCESS, "{}", c::message());
    assert_eq!(Operation::Lcorr.exec_at(&mut large, [from, part, to], i32::MAX), FLCC_INVALID_SIZE);
}

#[test]
fn memory_is_zero_aligned_and_given_back_once() {
    let _alone = MEMORY.lock();
    for floats in [0, 1, 1024, 1 << 18] {
        let memory = c::Memory::of(&vec![1.5; floats]);
        let address = memory.address();
        drop(memory);
        flcc_free(address);
        assert_eq!(c::message(), "array: expected memory of flcc_malloc that was not given back, got another address");
    }
    flcc_free(std::ptr::null_mut());
    flcc_free(std::ptr::dangling_mut());
    for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
        assert!(flcc_malloc(bytes).is_null());
        assert!(c::message().starts_with("bytes: expected as many as there is memory for"), "{}", c::message());
    }
}

/// The same on a GPU, from memory that is pinned there. Without a GPU the test says so and passes, unless FLCC_REQUIRE
/// names `cuda`.
#[test]
fn a_gpu_computes_the_same_from_pinned_memory() {
    let _alone = MEMORY.lock();
    let required = std::env::var("FLCC_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word.trim() == "cuda"));
    let sizes = [[70, 90, 0], [8, 9, 0]];
    let (each, part, out) = (70 * 90, 8 * 9, 77 * 98);
    let mut on_device = c::declared();
    if Operation::Lcorr.plan(Some(&mut on_device), 2, sizes, STREAM, DEVICE) != FLCC_SUCCESS {
        assert!(!required, "FLCC_REQUIRE names cuda: {}", c::message());
        println!("not run: {}", c::message());
        return;
    }
    let (images, template) = (c::Memory::of(&floats(5 * each, 4)), c::Memory::of(&floats(part, 6)));
    assert!(images.is_pinned() && template.is_pinned());
    let mut results = c::Memory::of(&vec![0.0; 5 * out]);
    let run = |plan: &mut _, operation: Operation, to: &mut [f32]| {
        operation.exec(Some(plan), Some(images.samples()), Some(template.samples()), Some(to), 5)
    };
    for operation in [Operation::Lcorr, Operation::Conv] {
        let (mut here, mut there) = (c::declared(), c::declared());
        assert_eq!(operation.plan(Some(&mut here), 2, sizes, STREAM, HOST), FLCC_SUCCESS);
        assert_eq!(operation.plan(Some(&mut there), 2, sizes, STREAM, DEVICE), FLCC_SUCCESS, "{}", c::message());
        let mut expected = vec![0.0; 5 * out];
        assert_eq!(run(&mut here, operation, &mut expected), FLCC_SUCCESS);
        assert_eq!(run(&mut there, operation, results.samples_mut()), FLCC_SUCCESS, "{}", c::message());
        let largest = expected.iter().fold(1.0f32, |largest, value| largest.max(value.abs()));
        for (got, expected) in results.samples().iter().zip(&expected) {
            assert!((got - expected).abs() <= 1e-5 * largest, "{operation:?}: {got} for {expected}");
        }
        assert_eq!([operation.destroy(Some(&mut here)), operation.destroy(Some(&mut there))], [FLCC_SUCCESS; 2]);
    }
    assert_eq!(Operation::Lcorr.destroy(Some(&mut on_device)), FLCC_SUCCESS);
}
