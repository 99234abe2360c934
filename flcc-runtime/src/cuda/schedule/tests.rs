//! Runs on made-up devices that fail at any moment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use flcc_core::error::ExecError;
use flcc_core::shape::Shape;
use flcc_core::view::{AnyView, AnyViewMut, View, ViewMut};
use proptest::prelude::*;

use super::fake::{Account, Call, Fake, Fate, SLOTS, Slot, TILES, Templates, counts, fault, score};
use super::{Control, Seat, run};
use crate::run::execute::{Copies, Statistics, Unfinished};

use Call::{Collect, Submit};
use Fate::{Lost, Small, Sound};

/// A run to make.
#[derive(Clone, Debug)]
struct Case {
    /// The fate of each device.
    fates: Vec<Fate>,
    /// Images of a group.
    group: usize,
    images: usize,
    templates: usize,
    /// Whether the caller watches failures.
    watched: bool,
    /// The submit in whose midst the run is cancelled.
    cancel: Option<usize>,
}

/// One image a group, two templates, failures watched.
fn case(fates: &[Fate], images: usize) -> Case {
    Case { fates: fates.to_vec(), group: 1, images, templates: 2, watched: true, cancel: None }
}

/// How a run ended.
struct Ended {
    result: Result<Statistics, Box<Unfinished>>,
    /// The score and the number of writes of each result.
    outs: Vec<[f32; 2]>,
    /// What the caller was told of failures.
    told: Vec<String>,
    /// What the caller was told of progress.
    progress: Vec<(usize, usize)>,
}

fn devices<'a>(case: &Case, account: &'a Account) -> Vec<Fake<'a>> {
    case.fates.iter().enumerate().map(|(unit, &fate)| Fake::new(unit, fate, case.group, account)).collect()
}

/// Runs; `heard` hears both callbacks first.
fn play<'a>(
    case: &Case,
    account: &'a Account,
    units: &[Fake<'a>],
    seats: &mut Vec<Seat<Slot<'a>>>,
    heard: &(dyn Fn(&str) + Sync),
) -> Ended {
    let bound: Vec<Templates> = (0..units.len()).map(|unit| Templates { unit, count: case.templates }).collect();
    let pixels: Vec<f32> = (0..case.images).map(|image| image as f32).collect();
    let one = Shape::new(&[1]).unwrap();
    let images: Vec<AnyView<'_>> = pixels.chunks(1).map(|pixel| View::new(pixel, one).unwrap().into()).collect();
    let mut outs = vec![[f32::NAN, 0.0]; case.images * case.templates];
    let two = Shape::new(&[2]).unwrap();
    let mut views: Vec<AnyViewMut<'_>> =
        outs.iter_mut().map(|out| ViewMut::new(&mut out[..], two).unwrap().into()).collect();
    let (told, progress) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let failed = |words: &str| {
        heard("failed");
        told.lock().unwrap().push(words.to_string());
    };
    let advanced = |done: usize, total: usize| {
        heard("progress");
        progress.lock().unwrap().push((done, total));
    };
    let control = Control {
        progress: Some(&advanced),
        cancel: Some(&account.cancel.0),
        failed: case.watched.then_some(&failed),
        copies: Copies::Direct,
        ..Control::default()
    };
    let result = run(units, &bound, &images, &mut views, seats, &control);
    Ended { result, outs, told: told.into_inner().unwrap(), progress: progress.into_inner().unwrap() }
}

/// Runs, and checks all that holds of every run.
fn check(case: &Case) -> Ended {
    let account = Account::cancelling(case.cancel);
    let units = devices(case, &account);
    let mut seats = Vec::new();
    let ended = play(case, &account, &units, &mut seats, &|_| ());
    let seated = seats.len();
    assert_eq!(account.unsettled(|_| true), 0, "slots that nobody settled");

    // A result is written once or not at all, and an image has all of its results or none.
    let written = |image: usize| {
        let outs = &ended.outs[image * case.templates..(image + 1) * case.templates];
        assert!(outs.iter().all(|out| out[1] == outs[0][1] && out[1] <= 1.0), "image {image}: {outs:?}");
        let done = outs[0][1] == 1.0;
        assert!(
            !done || outs.iter().enumerate().all(|(template, out)| out[0] == score(image, template)),
            "image {image}: {outs:?}"
        );
        done
    };
    let (done, undone): (Vec<usize>, Vec<usize>) = (0..case.images).partition(|&image| written(image));

    // Each group is counted once, when it is done.
    let total = case.images * TILES;
    let steps: Vec<usize> = ended.progress.iter().map(|(done, _)| *done).collect();
    assert!(
        steps.is_sorted_by(|a, b| a < b) && ended.progress.iter().all(|(_, of)| *of == total),
        "{:?}",
        ended.progress
    );
    assert_eq!(steps.last().copied().unwrap_or(0), done.len() * TILES);
    assert_eq!(steps.len(), (0..case.images).step_by(case.group).filter(|first| done.contains(first)).count());

    // Failures are told once each, but for the one that is the error.
    let lost = account.lost.borrow().clone();
    let (statistics, told) = match &ended.result {
        Ok(statistics) => {
            assert!(undone.is_empty() && !account.cancel.0.is_cancelled(), "{undone:?}");
            assert!(case.watched && lost.len() < case.fates.len() || lost.is_empty(), "{lost:?}");
            (statistics, &lost[..])
        }
        Err(unfinished) => {
            assert_eq!(unfinished.undone, undone);
            assert_eq!(seated, 0);
            let told = match unfinished.error {
                ExecError::Cancelled { .. } => {
                    assert!(account.cancel.0.is_cancelled());
                    assert_eq!(unfinished.error, ExecError::Cancelled { done: done.len() * TILES, total });
                    &lost[..]
                }
                _ => {
                    let (last, before) = lost.split_last().expect("a device that failed");
                    assert_eq!(unfinished.error, fault(*last).into());
                    assert_eq!(lost.len(), if case.watched { case.fates.len() } else { 1 });
                    before
                }
            };
            (&unfinished.statistics, told)
        }
    };
    assert_eq!(*statistics, counts(&done, case.templates));
    assert_eq!(ended.told, told.iter().map(|&unit| fault(unit).to_string()).collect::<Vec<_>>());

    // As many seats as help.
    if case.fates.iter().all(|fate| *fate == Sound) && ended.result.is_ok() {
        assert_eq!(seated, case.images.div_ceil(case.group).min(SLOTS * case.fates.len()));
    }
    drop(seats);
    assert_eq!(*account.complaints.borrow(), [""; 0]);
    ended
}

/// The error and the undone images of a run that does not finish.
fn unfinished(case: &Case) -> (ExecError, Vec<usize>) {
    let unfinished = check(case).result.expect_err("a run that does not finish");
    (unfinished.error, unfinished.undone)
}

#[test]
fn what_a_lost_device_had_is_computed_by_the_others() {
    for (call, at) in [(Call::Slot, 0), (Submit, 0), (Submit, 2), (Collect, 0), (Collect, 1)] {
        for group in [1, 3] {
            for fates in [[Lost(call, at), Sound, Sound], [Sound, Sound, Lost(call, at)]] {
                let ended = check(&Case { group, ..case(&fates, 60) });
                assert!(
                    ended.result.is_ok() && ended.told.len() == 1,
                    "{fates:?}, groups of {group}: {:?}",
                    ended.told
                );
            }
        }
    }
}

#[test]
fn the_failure_that_nobody_watches_is_the_error() {
    // Units take turns: 0 and 2 go to one, 1 and 3 to the other. Image 0 comes out, then image 1 does not.
    let unwatched = Case { watched: false, ..case(&[Sound, Lost(Collect, 0)], 6) };
    assert_eq!(unfinished(&unwatched), (fault(1).into(), vec![1, 2, 3, 4, 5]));
    // Of two groups the first is given to a unit and the second finds none.
    let unwatched = Case { group: 3, watched: false, ..case(&[Sound, Lost(Call::Slot, 0)], 5) };
    assert_eq!(unfinished(&unwatched), (fault(1).into(), vec![0, 1, 2, 3, 4]));
}

#[test]
fn the_failure_of_the_last_device_is_the_error() {
    // Unit 0 gives 0, takes 4, gives 2 and is lost when it is to take 6; unit 1 has given 1 and fails when it is to
    // give 3.
    let ended = check(&case(&[Lost(Submit, 3), Lost(Collect, 1)], 7));
    let unfinished = ended.result.unwrap_err();
    assert_eq!(ended.told, ["device 4: a call: it is lost"]);
    assert_eq!(unfinished.error, fault(1).into());
    assert_eq!(unfinished.undone, [3, 4, 5, 6]);
    assert_eq!(unfinished.statistics, counts(&[0, 1, 2], 2));
    assert_eq!(ended.progress, [(3, 21), (6, 21), (9, 21)]);
}

#[test]
fn a_device_without_room_for_a_second_slot_goes_on_with_one() {
    for fates in [&[Small][..], &[Small, Sound], &[Small, Small, Small]] {
        let ended = check(&case(fates, 9));
        assert!(ended.result.is_ok() && ended.told.is_empty());
    }
    // One that has no second slot since it is lost fails with its first.
    assert_eq!(check(&case(&[Lost(Call::Slot, 1), Sound], 9)).told, [fault(0).to_string()]);
}

#[test]
fn a_cancelled_run_says_how_far_it_came() {
    let cancelled = |fates: &[Fate], at: usize| unfinished(&Case { cancel: Some(at), ..case(fates, 6) });
    let error = |done: usize| ExecError::Cancelled { done: done * TILES, total: 6 * TILES };
    // Two seats are filled before the first result is taken.
    assert_eq!(cancelled(&[Sound], 0), (error(0), vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(cancelled(&[Sound], 1), (error(0), vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(cancelled(&[Sound], 3), (error(2), vec![2, 3, 4, 5]));
    assert_eq!(cancelled(&[Lost(Collect, 1), Sound], 5), (error(2), vec![2, 3, 4, 5]));
}

#[test]
fn a_callback_that_panics_leaves_nothing_in_a_queue() {
    for callback in ["progress", "failed"] {
        let case = case(&[Lost(Collect, 1), Sound], 9);
        let account = Account::default();
        let units = devices(&case, &account);
        let mut seats = Vec::new();
        let heard = |name: &str| assert_ne!(name, callback, "as the test wants it");
        let ended = catch_unwind(AssertUnwindSafe(|| play(&case, &account, &units, &mut seats, &heard)));
        assert!(ended.is_err(), "{callback}");
        assert!(!seats.is_empty());
        assert_eq!(account.unsettled(|_| true), 0, "{callback}");
    }
}

#[test]
fn seats_serve_the_next_run_and_lost_devices_are_asked_again() {
    let case = case(&[Sound, Lost(Submit, 3)], 9);
    let account = Account::default();
    let units = devices(&case, &account);
    let mut seats = Vec::new();
    for _ in 0..3 {
        let ended = play(&case, &account, &units, &mut seats, &|_| ());
        assert_eq!(ended.result.unwrap(), counts(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 2));
        assert_eq!(ended.told, [fault(1).to_string()]);
        assert_eq!((seats.len(), account.unsettled(|_| true)), (4, 0));
        assert_eq!(account.lost.take(), [1]);
    }
    assert_eq!(*account.complaints.borrow(), [""; 0]);
}

fn fate() -> impl Strategy<Value = Fate> {
    let call = prop_oneof![Just(Call::Slot), Just(Submit), Just(Collect)];
    prop_oneof![2 => Just(Sound), 1 => Just(Small), 5 => (call, 0..5usize).prop_map(|(call, at)| Lost(call, at))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_fails_no_image_is_lost_or_done_twice(
        fates in prop::collection::vec(fate(), 1..=3),
        group in prop_oneof![Just(1usize), Just(3)],
        images in 0..20usize,
        templates in 1..3usize,
        watched in any::<bool>(),
        cancel in prop_oneof![3 => Just(None), 1 => (0..10usize).prop_map(Some)],
    ) {
        check(&Case { fates, group, images, templates, watched, cancel });
    }
}
