//! Devices that fail: one that is full stands for all others.

use std::sync::Mutex;

use flcc_runtime::rooms::cuda::driver::buffer::Buffer;
use flcc_runtime::rooms::cuda::driver::launch::{Gpu, Stream, probe};
use flcc_runtime::{AnyView, Control, ExecError, Matcher, Method, Pixels, Planner, Platform, ScoreMap, Shape, Spec};

use super::common::{Seed, planner};
use super::{device, emulated, gpu, seed};

/// Memory that is lost when a run leaves some behind: the driver's own pools may keep less.
const SLACK: usize = 32 << 20;

/// All of a device's memory, until it is dropped.
struct Filled {
    held: Vec<Buffer>,
    stream: Stream,
}

impl Filled {
    fn new(device: usize) -> Filled {
        let stream = Gpu::open(device).unwrap().stream().unwrap();
        let (mut held, mut bytes) = (Vec::new(), 1usize << 33);
        while bytes >= 1 << 18 {
            match Buffer::new(&stream, bytes) {
                Ok(buffer) => held.push(buffer),
                Err(_) => bytes /= 2,
            }
        }
        Filled { held, stream }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.held.clear();
        drop(self.stream.wait());
    }
}

/// What is free when the driver has taken back what was given back.
fn free(device: usize) -> usize {
    let gpu = Gpu::open(device).unwrap();
    gpu.stream().unwrap().wait().unwrap();
    gpu.free_memory().unwrap()
}

/// Matchers of one problem whose integers are exact, so that every platform gives the same bits.
struct Exact {
    spec: Spec,
    template: Pixels,
}

impl Exact {
    fn new(seed: &mut Seed) -> Exact {
        // Groups of so few that there is work for all slots.
        let sizes = if emulated() { "350x400" } else { "700x800" };
        let spec: Spec = format!("zncc:u8:0@{sizes}*9x9:valid,acc=exact").parse().unwrap();
        Exact { template: seed.pixels(81, spec.image_type(), 0.0), spec }
    }

    fn bind(&self, planner: &Planner) -> Matcher {
        let template = AnyView::dense(&self.template, self.spec.template(), 1).unwrap();
        planner.plan(&self.spec).unwrap().bind(&[template], None).unwrap()
    }

    fn images(&self, count: usize, seed: &mut Seed) -> Vec<Pixels> {
        (0..count).map(|_| seed.pixels(self.spec.image().len(), self.spec.image_type(), 0.0)).collect()
    }

    fn views<'a>(&self, images: &'a [Pixels]) -> Vec<AnyView<'a>> {
        images.iter().map(|pixels| AnyView::dense(pixels, self.spec.image(), 1).unwrap()).collect()
    }
}

#[track_caller]
fn same(maps: &[ScoreMap], expected: &[ScoreMap]) {
    assert_eq!(maps.len(), expected.len());
    for (index, (map, expected)) in maps.iter().zip(expected).enumerate() {
        assert!(map.data() == expected.data(), "result {index} of {} has other bits", maps.len());
    }
}

#[test]
fn a_full_device_is_an_error_that_names_it() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let exact = Exact::new(&mut seed);
    let images = exact.images(7, &mut seed);
    let views = exact.views(&images);
    let expected = exact.bind(&gpu(Method::Auto)).execute(&views).unwrap();
    let index = probe().devices[0].index;
    let matcher = exact.bind(&gpu(Method::Auto));
    let before = free(index);
    let filled = Filled::new(index);
    for _ in 0..3 {
        match matcher.execute(&views) {
            Err(error @ ExecError::Device { .. }) => {
                assert!(error.to_string().starts_with(&format!("device: device {index}: ")), "{error}")
            }
            other => panic!("expected an error of the device, got {:?}", other.map(|maps| maps.len())),
        }
    }
    drop(filled);
    // The next run finds everything as it was.
    same(&matcher.execute(&views).unwrap(), &expected);
    drop(matcher);
    let lost = before.saturating_sub(free(index));
    assert!(lost <= SLACK, "{lost} bytes of device memory are gone");
}

#[test]
fn a_device_with_room_for_one_slot_goes_on_with_it() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let exact = Exact::new(&mut seed);
    let images = exact.images(61, &mut seed);
    let views = exact.views(&images);
    let expected = exact.bind(&gpu(Method::Auto)).execute(&views).unwrap();
    let matcher = exact.bind(&gpu(Method::Auto));
    assert!(matcher.appetite() / 2 < views.len(), "there is work for two slots");
    let slot = matcher.plan().scratch_bytes() / 2;
    let stream = Gpu::open(probe().devices[0].index).unwrap().stream().unwrap();
    let spare = Buffer::new(&stream, slot + slot / 2).unwrap();
    let filled = Filled::new(probe().devices[0].index);
    drop(spare);
    stream.wait().unwrap();
    same(&matcher.execute(&views).unwrap(), &expected);
    drop(filled);
}

#[test]
fn the_cpu_goes_on_where_no_device_is_left() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let exact = Exact::new(&mut seed);
    let images = exact.images(5, &mut seed);
    let views = exact.views(&images);
    let cpu = exact.bind(&planner(2).platform(Platform::Cpu));
    let expected = cpu.execute(&views).unwrap();
    let index = probe().devices[0].index;
    let matcher = exact.bind(&gpu(Method::Auto).fall_back(true));
    let told = Mutex::new(Vec::new());
    let failed = |words: &str| told.lock().unwrap().push(words.to_string());
    let control = Control { failed: Some(&failed), ..Control::default() };
    let filled = Filled::new(index);
    same(&matcher.execute_with(&views, &control).unwrap().0, &expected);
    {
        let told = told.lock().unwrap();
        assert!(told.len() == 1 && told[0].starts_with(&format!("device {index}: ")), "{told:?}");
    }
    // A stream of them, with an image of a size that is planned while the device is full.
    let [_, rows, columns] = exact.spec.image().padded();
    let smaller = Shape::new(&[rows - 100, columns]).unwrap();
    let other = seed.pixels(smaller.len(), exact.spec.image_type(), 0.0);
    let other = AnyView::dense(&other, smaller, 1).unwrap();
    let stream = |matcher: &Matcher| -> Vec<ScoreMap> {
        matcher.stream().run_with(views.iter().copied().chain([other]), &control).flat_map(Result::unwrap).collect()
    };
    same(&stream(&matcher), &stream(&cpu));
    drop(filled);
    // The device is asked again, and answers.
    told.lock().unwrap().clear();
    same(&matcher.execute_with(&views, &control).unwrap().0, &expected);
    assert!(told.lock().unwrap().is_empty());
}

#[test]
fn another_device_computes_what_a_full_one_had() {
    let Some(_device) = device() else { return };
    let found = &probe().devices;
    if found.len() < 2 {
        println!("absent: a second device; nothing was tested");
        return;
    }
    let numbers = [found[0].index, found[1].index];
    let mut seed = Seed(seed());
    let exact = Exact::new(&mut seed);
    let images = exact.images(61, &mut seed);
    let expected = exact.bind(&gpu(Method::Auto)).execute(&exact.views(&images)).unwrap();
    for full in numbers {
        // One image alone finds the full device first, or never comes to it.
        for count in [1, 2, 61] {
            let matcher = exact.bind(&gpu(Method::Auto).devices(&numbers).unwrap());
            let told = Mutex::new(Vec::new());
            let failed = |words: &str| told.lock().unwrap().push(words.to_string());
            let control = Control { failed: Some(&failed), ..Control::default() };
            let unwatched = exact.bind(&gpu(Method::Auto).devices(&numbers).unwrap());
            let alone = exact.bind(&gpu(Method::Auto).devices(&numbers[..1]).unwrap());
            let views = exact.views(&images[..count]);
            let filled = Filled::new(full);
            let (maps, statistics) = matcher.execute_with(&views, &control).unwrap();
            same(&maps, &expected[..count]);
            assert_eq!(statistics.panels, (count * exact.spec.out_shape().len()) as u64);
            let told = told.into_inner().unwrap();
            // Two slots of two devices take as many groups.
            let groups = count.div_ceil(matcher.appetite() / 4);
            let times = usize::from(groups > 1 || full == numbers[0]);
            assert!(
                told.len() == times && told.iter().all(|words| words.starts_with(&format!("device {full}: "))),
                "{count}: {told:?}"
            );
            // Who watches nothing gets an error.
            assert_eq!(alone.execute(&views).is_err(), full == numbers[0]);
            assert_eq!(unwatched.execute(&views).is_err(), times == 1);
            drop(filled);
        }
    }
}
