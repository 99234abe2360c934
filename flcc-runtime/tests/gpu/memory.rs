//! Images that lie on a device, and images and results in pinned memory: bit for bit what plain memory gives.

use std::sync::Arc;

use flcc_core::view::Layout;
use flcc_runtime::DeviceImage;
use flcc_runtime::rooms::cuda::driver::buffer::{Buffer, Pinned, Plain, bytes_of_mut};
use flcc_runtime::rooms::cuda::driver::launch::{Gpu, Stream, probe};
use flcc_runtime::{
    AnyView, AnyViewMut, AsImage, Control, Copies, DType, Matcher, Method, Pixels, ScoreMap, Shape, Spec, View, ViewMut,
};

use super::common::{Seed, planner};
use super::{data, device, emulated, fast_device, gpu, seed};

/// A matcher on the first device with made-up templates, and made-up images.
fn problem(spec: &str, method: Method, images: usize, seed: &mut Seed) -> (Matcher, Vec<Pixels>) {
    let spec: Spec = spec.parse().unwrap();
    let (_, templates, mask) = data(&spec, seed);
    let view = |pixels, channels| AnyView::dense(pixels, spec.template(), channels).unwrap();
    let templates: Vec<AnyView<'_>> = templates.iter().map(|pixels| view(pixels, spec.channels())).collect();
    let mask = mask.as_ref().map(|pixels| view(pixels, 1));
    let plan = gpu(method).plan(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let matcher = plan.bind(&templates, mask.as_ref().map(|mask| mask as _)).unwrap();
    (matcher, (0..images).map(|_| seed.pixels(spec.image().len() * spec.channels(), spec.image_type(), 3.0)).collect())
}

fn views<'a>(spec: &Spec, images: &'a [Pixels]) -> Vec<AnyView<'a>> {
    images.iter().map(|pixels| AnyView::dense(pixels, spec.image(), spec.channels()).unwrap()).collect()
}

/// The results of images on a device, in arrays full of NaN before.
fn resident(matcher: &Matcher, images: &[DeviceImage<'_>]) -> Vec<ScoreMap> {
    let spec = matcher.plan().spec();
    let count = images.len() * spec.templates();
    let mut results = vec![vec![f32::NAN; spec.out_shape().len()]; count];
    let mut outs: Vec<AnyViewMut<'_>> =
        results.iter_mut().map(|result| ViewMut::new(result, spec.out_shape()).unwrap().into()).collect();
    matcher
        .execute_resident(images, &mut outs, &mut matcher.make_scratch())
        .unwrap_or_else(|error| panic!("{spec}: {error}"));
    results.into_iter().map(|result| ScoreMap::new(spec.region(), Pixels::F32(result)).unwrap()).collect()
}

/// The same of results that stay on the device, behind an element that is nobody's, so that they are aligned for their
/// type alone.
fn on_device(matcher: &Matcher, stream: &Stream, images: &[DeviceImage<'_>]) -> Vec<ScoreMap> {
    let spec = matcher.plan().spec();
    let (len, count) = (spec.out_shape().len(), spec.templates());
    let mut scratch = matcher.make_scratch();
    let mut all = Vec::new();
    for image in images {
        let mut values = vec![f32::NAN; 1 + count * len];
        let mut buffer = Buffer::of(stream, &values).unwrap();
        let mut out = buffer.results(stream, DType::F32, spec.out_shape(), count).unwrap();
        matcher
            .execute_on_device(image, &mut out, &mut scratch, &Control::default())
            .unwrap_or_else(|error| panic!("{spec}: {error}"));
        let bytes = bytes_of_mut(&mut values);
        buffer.read(stream, 0, bytes).unwrap();
        assert!(values[0].is_nan(), "{spec}: written in front of the results");
        all.extend(
            values[1..].chunks(len).map(|result| ScoreMap::new(spec.region(), Pixels::F32(result.to_vec())).unwrap()),
        );
    }
    all
}

fn upload(stream: &Stream, pixels: &Pixels) -> Buffer {
    match pixels {
        Pixels::U8(samples) => Buffer::of(stream, samples),
        Pixels::U16(samples) => Buffer::of(stream, samples),
        Pixels::F32(samples) => Buffer::of(stream, samples),
        Pixels::F64(samples) => Buffer::of(stream, samples),
    }
    .unwrap()
}

/// The image that a program of one's own has laid at an address.
fn at(address: u64, dtype: DType, layout: Layout, device: usize) -> DeviceImage<'static> {
    // SAFETY: the callers below hold the buffer at this address for as long as they use the image, and made the layout
    // with the number of elements that the buffer has.
    unsafe { DeviceImage::new(address, dtype, layout, device) }
}

/// The same images backwards, in a buffer with other samples between them: last sample first, every second one, behind
/// seven.
fn scattered(spec: &Spec, pixels: &Pixels) -> (Pixels, Layout) {
    let (len, channels) = (spec.image().len(), spec.channels());
    let values = pixels.to_f64();
    let mut all = vec![77.0; 7 + 2 * len * channels];
    // Planar: the channels lie one behind the other.
    let place = |pixel: usize, channel: usize| 7 + 2 * (channel * len + len - 1 - pixel);
    for (index, &value) in values.iter().enumerate() {
        all[place(index / channels, index % channels)] = value;
    }
    let [_, height, width] = spec.image().padded();
    let steps = [2 * height * width, 2 * width, 2].map(|step| -(step as isize));
    let axes = spec.image().axes();
    let planar = 2 * len as isize;
    let layout = Layout::new(spec.image(), place(0, 0), &steps[3 - axes..], channels, planar, all.len()).unwrap();
    (Pixels::F64(all).cast(pixels.dtype()), layout)
}

#[test]
fn images_on_a_device_are_computed_as_those_of_the_host() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let gpu = Gpu::open(probe().devices[0].index).unwrap();
    let stream = gpu.stream().unwrap();
    for (spec, method) in [
        ("zncc:u8:0@61x83*3@9x11:same,reflect", Method::Direct),
        ("zncc:f32:0@161x83*2@16x16:valid", Method::Direct),
        ("zncc:f32:0@61x83*20x21:full", Method::Fourier),
        ("zncc:f32:0@19x41x50*5x8x6:full,reflect", Method::Fourier),
        ("nssd:f32:0@61x83*2@7x7:same,mask01,channels=3", Method::Auto),
        ("corr:u8:0@1x1009*2@1x31:full,wrap", Method::Auto),
        ("zncc:u8:0@17x19x23*3x4x5:valid,acc=exact", Method::Auto),
        ("sad:u8:501*64:full,mirror,channels=2", Method::Auto),
        // From the image to the result in one kernel.
        ("corr:f32:0@161x83*2@8x8:full,reflect", Method::Direct),
        ("conv:f32:0@200x183*2@33x20:same", Method::Fourier),
        ("corr:f32:17x39x43*3x3x3:valid", Method::Direct),
    ] {
        let (matcher, images) = problem(spec, method, if spec.contains("0@") { 3 } else { 1 }, &mut seed);
        let spec = matcher.plan().spec();
        let expected = matcher.execute(&views(spec, &images)).unwrap();
        let name = format!("{spec} by {}", matcher.kernel());
        let same = |how: &str, maps: Vec<ScoreMap>| {
            assert_eq!(maps.len(), expected.len(), "{name} {how}");
            for (index, (map, expected)) in maps.iter().zip(&expected).enumerate() {
                assert!(map.data() == expected.data(), "{name} {how}: result {index} has other bits");
            }
        };
        let buffers: Vec<Buffer> = images.iter().map(|pixels| upload(&stream, pixels)).collect();
        let own = |buffer: &Buffer| {
            at(
                buffer.address(&stream).number(),
                spec.image_type(),
                Layout::dense(spec.image(), spec.channels()),
                gpu.device.index,
            )
        };
        let of_buffer =
            |buffer| Buffer::image(buffer, &stream, spec.image_type(), spec.image(), spec.channels()).unwrap();
        same("in buffers", resident(&matcher, &buffers.iter().map(of_buffer).collect::<Vec<_>>()));
        same("to the device", on_device(&matcher, &stream, &buffers.iter().map(of_buffer).collect::<Vec<_>>()));
        same("at addresses", resident(&matcher, &buffers.iter().map(own).collect::<Vec<_>>()));
        let scattered: Vec<(Buffer, Layout)> = images
            .iter()
            .map(|pixels| scattered(spec, pixels))
            .map(|(pixels, layout)| (upload(&stream, &pixels), layout))
            .collect();
        let strided = |(buffer, layout): &(Buffer, Layout)| {
            at(buffer.address(&stream).number(), spec.image_type(), *layout, gpu.device.index)
        };
        let images: Vec<_> = scattered.iter().map(strided).collect();
        same("strided", resident(&matcher, &images));
        same("strided, to the device", on_device(&matcher, &stream, &images));
    }
}

#[test]
fn a_wrong_image_on_a_device_is_told() {
    let Some(_device) = device() else { return };
    let gpu = Gpu::open(probe().devices[0].index).unwrap();
    let stream = gpu.stream().unwrap();
    let (matcher, images) = problem("zncc:f32:30x40*5x5:valid", Method::Auto, 1, &mut Seed(seed()));
    let spec = matcher.plan().spec();
    let buffer = upload(&stream, &images[0]);
    let (dense, address) = (Layout::dense(spec.image(), 1), buffer.address(&stream).number());
    let told = |matcher: &Matcher, image: DeviceImage<'_>, len: usize| {
        let mut result = vec![0.0f32; len];
        let mut outs = [ViewMut::new(&mut result, Shape::new(&[26, len / 26]).unwrap()).unwrap().into()];
        matcher.execute_resident(&[image], &mut outs, &mut matcher.make_scratch()).unwrap_err().to_string()
    };
    let right = || at(address, DType::F32, dense, gpu.device.index);
    let len = spec.out_shape().len();
    assert_eq!(
        told(&matcher, at(address, DType::F32, dense, 99), len),
        "image: expected one on a device of the plan, got device 99"
    );
    let line = told(&matcher, at(address, DType::U8, dense, gpu.device.index), len);
    assert!(line.starts_with("image: expected f32 30x40 with 1 channel, got u8 30x40"), "{line}");
    let smaller = Layout::dense(Shape::new(&[30, 39]).unwrap(), 1);
    let line = told(&matcher, at(address, DType::F32, smaller, gpu.device.index), len);
    assert!(line.starts_with("image: expected f32 30x40") && line.contains("got f32 30x39"), "{line}");
    let line = told(&matcher, right(), 26 * 35);
    assert!(line.starts_with("outs: expected f32 26x36, got f32 26x35"), "{line}");
    let fault = buffer.image(&stream, DType::F64, spec.image(), 1).unwrap_err().to_string();
    assert!(fault.starts_with("image: 9600 bytes are needed where 4800 are"), "{fault}");
    // Results of another shape, and too few bytes for them.
    let mut results = Buffer::new(&stream, 4 * len).unwrap();
    let shape = Shape::new(&[26, 35]).unwrap();
    let mut out = results.results(&stream, DType::F32, shape, 1).unwrap();
    let error = matcher.execute_on_device(&right(), &mut out, &mut matcher.make_scratch(), &Control::default());
    let line = error.unwrap_err().to_string();
    assert!(
        line.starts_with("out: expected 1 results of f32 26x36 on device ") && line.contains("f32 26x35"),
        "{line}"
    );
    let fault = results.results(&stream, DType::F64, spec.out_shape(), 1).unwrap_err().to_string();
    assert!(fault.starts_with(&format!("results: {} bytes where {} are", 8 * len, 4 * len)), "{fault}");
    // A plan for the CPU does not take it.
    let template = Pixels::F32((0..25u8).map(f32::from).collect());
    let template = AnyView::dense(&template, spec.template(), 1).unwrap();
    let line = told(&planner(1).plan(spec).unwrap().bind(&[template], None).unwrap(), right(), len);
    assert!(line.starts_with("images: expected images in the memory of the host"), "{line}");
}

/// Samples in pinned memory.
enum Samples {
    Bytes(Pinned<u8>),
    Floats(Pinned<f32>),
}

/// A frame of them.
struct Frame(Samples, Shape);

impl Frame {
    fn new(gpu: &Arc<Gpu>, pixels: &Pixels, shape: Shape) -> Frame {
        fn pinned<T: Plain>(gpu: &Arc<Gpu>, samples: &[T]) -> Pinned<T> {
            let mut pinned = Pinned::new(gpu, samples.len()).unwrap();
            pinned.copy_from_slice(samples);
            pinned
        }
        match pixels {
            Pixels::U8(samples) => Frame(Samples::Bytes(pinned(gpu, samples)), shape),
            Pixels::F32(samples) => Frame(Samples::Floats(pinned(gpu, samples)), shape),
            other => unreachable!("no spec below has images of {}", other.dtype()),
        }
    }
}

impl AsImage for Frame {
    fn as_image(&self) -> AnyView<'_> {
        match &self.0 {
            Samples::Bytes(samples) => View::new(samples, self.1).unwrap().into(),
            Samples::Floats(samples) => View::new(samples, self.1).unwrap().into(),
        }
    }
}

#[test]
fn pinned_memory_gives_the_same_bits_in_order() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let gpu = Gpu::open(probe().devices[0].index).unwrap();
    let sizes = if emulated() { "40x50" } else { "120x130" };
    for spec in ["zncc:u8:0@{}*2@9x9:valid", "corr:f32:0@{}*20x21:same,reflect"] {
        let spec = &spec.replace("{}", sizes);
        let (matcher, _) = problem(spec, Method::Auto, 0, &mut seed);
        let spec = matcher.plan().spec();
        // More than all slots hold, and no multiple of it.
        let count = 2 * matcher.appetite() + 3;
        let mut images: Vec<Pixels> =
            (0..count).map(|_| seed.pixels(spec.image().len(), spec.image_type(), 3.0)).collect();
        // A group is computed again when its first results are on their way.
        if let Pixels::F32(samples) = &mut images[count / 2] {
            samples[count] = 1e30;
        }
        let expected = matcher.execute(&views(spec, &images)).unwrap();
        let check = |how: &str, index: usize, data: &Pixels| {
            assert!(
                data == expected[index].data(),
                "{spec} by {} {how}: result {index} of {count} images",
                matcher.kernel()
            );
        };

        let mut stream = matcher.stream();
        let results: Vec<_> = stream.run(images.iter().map(|pixels| Frame::new(&gpu, pixels, spec.image()))).collect();
        assert_eq!(results.len(), count);
        let maps = results.into_iter().flat_map(Result::unwrap);
        maps.enumerate().for_each(|(index, map)| check("streamed", index, map.data()));

        let len = spec.out_shape().len();
        let mut results: Pinned<f32> = Pinned::new(&gpu, expected.len() * len).unwrap();
        results.fill(f32::NAN);
        let mut outs: Vec<AnyViewMut<'_>> =
            results.chunks_mut(len).map(|result| ViewMut::new(result, spec.out_shape()).unwrap().into()).collect();
        matcher
            .execute_into(&views(spec, &images), &mut outs, &mut matcher.make_scratch(), &Control::default())
            .unwrap();
        results
            .chunks(len)
            .enumerate()
            .for_each(|(index, result)| check("into pinned memory", index, &Pixels::F32(result.to_vec())));
    }
}

/// However memory that is not pinned comes to a device and back, dense or not, results have the same bits.
#[test]
fn copies_change_no_bit() {
    let Some(_device) = fast_device() else { return };
    let mut seed = Seed(seed());
    for spec in ["zncc:u8:0@220x230*2@9x9:valid", "nssd:f32>f64:0@90x100*7x7:same", "corr:f32:0@1000x1100*20x21:valid"]
    {
        let (matcher, _) = problem(spec, Method::Auto, 0, &mut seed);
        let spec = matcher.plan().spec();
        let (count, [_, rows, columns]) = (2 * matcher.appetite() + 3, spec.image().padded());
        // Every second image lies in a wider one.
        let wide = Shape::new(&[rows, columns + 5]).unwrap();
        let shape = |index: usize| if index.is_multiple_of(2) { spec.image() } else { wide };
        let images: Vec<Pixels> =
            (0..count).map(|index| seed.pixels(shape(index).len(), spec.image_type(), 3.0)).collect();
        let views: Vec<AnyView<'_>> = images
            .iter()
            .enumerate()
            .map(|(index, pixels)| AnyView::dense(pixels, shape(index), 1).unwrap().part([0; 3], spec.image()).unwrap())
            .collect();
        let expected: Vec<Vec<f64>> = views
            .iter()
            .flat_map(|view| {
                let alone = Pixels::F64(view.to_f64()).cast(spec.image_type());
                let one = [AnyView::dense(&alone, spec.image(), 1).unwrap()];
                let (maps, _) =
                    matcher.execute_with(&one, &Control { copies: Copies::Direct, ..Control::default() }).unwrap();
                maps.into_iter().map(|map| map.data().to_f64()).collect::<Vec<_>>()
            })
            .collect();
        let len = spec.out_shape().len();
        // One scratch for all runs, so that a slot is used by both ways in turn.
        let mut scratch = matcher.make_scratch();
        for (number, copies) in [Copies::Staged, Copies::Staged, Copies::Direct, Copies::Staged].into_iter().enumerate()
        {
            // Results with a gap behind each value, and dense ones.
            for step in [1, 2] {
                let (singles, doubles) =
                    if spec.out_type() == DType::F32 { (expected.len(), 0) } else { (0, expected.len()) };
                let (mut single, mut double) =
                    (vec![vec![f32::NAN; step * len]; singles], vec![vec![f64::NAN; step * len]; doubles]);
                let strides = [(step * spec.out_shape().padded()[2]) as isize, step as isize];
                let mut outs: Vec<AnyViewMut<'_>> = match spec.out_type() {
                    DType::F32 => single
                        .iter_mut()
                        .map(|out| ViewMut::strided(out, 0, spec.out_shape(), &strides).unwrap().into())
                        .collect(),
                    _ => double
                        .iter_mut()
                        .map(|out| ViewMut::strided(out, 0, spec.out_shape(), &strides).unwrap().into())
                        .collect(),
                };
                matcher
                    .execute_into(&views, &mut outs, &mut scratch, &Control { copies, ..Control::default() })
                    .unwrap();
                for (index, expected) in expected.iter().enumerate() {
                    let got: Vec<f64> = match spec.out_type() {
                        DType::F32 => single[index].iter().step_by(step).map(|&value| value.into()).collect(),
                        _ => double[index].iter().step_by(step).copied().collect(),
                    };
                    assert!(
                        got == *expected,
                        "{spec} by {}: result {index} of run {number}, {copies:?}, step {step}",
                        matcher.kernel()
                    );
                }
            }
        }
    }
}
