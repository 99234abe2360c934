//! Runs that are put into streams of the caller's: the results of calls that wait, by themselves and out of a recorded
//! graph that is launched again on other images.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream, DevicePtr, sys};
use flcc_runtime::core::view::Layout;
use flcc_runtime::{
    AnyView, DType, DeviceImage, DeviceImages, DeviceQueue, DeviceResults, DeviceStream, ExecError, Extraordinary,
    Matcher, Method, Pixels, Plan, Spec,
};

use super::common::{Problem, Seed, planner};
use super::{device, gpu, part, seed};

/// What is computed, by which method, and whether its last bits are a library's, which promises no order of its sums.
const SPECS: [(&str, Method, bool); 15] = [
    ("corr:f32:0@61x70*5x5:full", Method::Direct, false),
    ("conv:f64:3@40x50*6x7:same,reflect", Method::Direct, false),
    ("corr:f32:0@90x75*3@20x17:valid", Method::Fourier, false),
    ("corr:f32:0@3000*2@300:full", Method::Fourier, false),
    ("corr:f32:0@20x31x24*5x6x7:full", Method::Fourier, false),
    ("conv:f32:70x80*130x20:full", Method::Fourier, true),
    ("zncc:f32:3@60x64*2@8x8:full", Method::Direct, false),
    ("zncc:f32:0@90x100*20x24:same,mirror", Method::Fourier, false),
    ("zncc:u8:0@70x90*16x12:full", Method::Direct, false),
    ("zncc:u8/f32:0@50x60*9x9:valid,mask01", Method::Direct, false),
    ("ncc:f32:2@50x60*17x9:full", Method::Fourier, true),
    ("sad:u16:0@40x50*7x5:valid", Method::Direct, false),
    ("nssd:f32:0@45x50*2@6x5:same,constant(1.5),channels=3", Method::Direct, false),
    ("zncc:f32:0@14x30x28*5x8x6:full", Method::Fourier, false),
    ("zncc:u16:0@40x44*6x7:full,acc=exact", Method::Direct, false),
];

/// Samples between two images, which belong to none.
const GAP: usize = 24;

fn bytes(pixels: &Pixels) -> Vec<u8> {
    match pixels {
        Pixels::U8(samples) => samples.clone(),
        Pixels::U16(samples) => samples.iter().flat_map(|sample| sample.to_ne_bytes()).collect(),
        Pixels::F32(samples) => samples.iter().flat_map(|sample| sample.to_ne_bytes()).collect(),
        Pixels::F64(samples) => samples.iter().flat_map(|sample| sample.to_ne_bytes()).collect(),
    }
}

fn values(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect(),
        DType::F64 => bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect(),
        other => panic!("results of {other}"),
    }
}

/// Images of a spec with templates, beside each other on a device with room for their results.
pub(super) struct Laid {
    spec: Spec,
    images: Vec<Pixels>,
    matcher: Matcher,
    stream: Arc<CudaStream>,
    there: CudaSlice<u8>,
    out: CudaSlice<u8>,
}

impl Laid {
    fn new(text: &str, method: Method, count: usize, seed: &mut Seed) -> Laid {
        let plan = gpu(method).plan(&text.parse().unwrap()).unwrap_or_else(|error| panic!("{text}: {error}"));
        Laid::of(&plan, count, seed)
    }

    /// So many images of a plan's spec.
    pub(super) fn of(plan: &Plan, count: usize, seed: &mut Seed) -> Laid {
        let problem = Problem::new(&plan.spec().to_string(), seed.bits());
        let spec = problem.spec.clone();
        let samples = |seed: &mut Seed, of: usize, dtype| seed.pixels(of * spec.channels(), dtype, 2.0);
        let templates: Vec<Pixels> =
            (0..spec.templates()).map(|_| samples(seed, spec.template().len(), spec.template_type())).collect();
        let views: Vec<_> = templates
            .iter()
            .map(|template| AnyView::dense(template, spec.template(), spec.channels()).unwrap())
            .collect();
        let mask = problem.mask();
        let matcher = plan.bind(&views, mask.as_ref().map(|mask| mask as _)).unwrap();
        let images: Vec<Pixels> = (0..count).map(|_| samples(seed, spec.image().len(), spec.image_type())).collect();
        let context = CudaContext::new(0).unwrap();
        // SAFETY: all that is allocated here is used in one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let apart = (spec.image().len() * spec.channels() + GAP) * spec.image_type().row().size;
        let there = stream.alloc_zeros::<u8>(count * apart).unwrap();
        let poison = vec![0xa5; count * spec.templates() * spec.out_shape().len() * spec.out_type().row().size];
        let out = stream.clone_htod(&poison).unwrap();
        let mut laid = Laid { spec, images, matcher, stream, there, out };
        laid.lay();
        laid
    }

    /// Elements from one image to the next.
    fn apart(&self) -> usize {
        self.spec.image().len() * self.spec.channels() + GAP
    }

    /// Copies the images there, when all that is in the stream is done.
    fn lay(&mut self) {
        let size = self.spec.image_type().row().size;
        let gap = vec![0xff; GAP * size];
        let all: Vec<u8> = self.images.iter().flat_map(|image| [bytes(image), gap.clone()].concat()).collect();
        self.stream.memcpy_htod(&all, &mut self.there).unwrap();
        self.stream.synchronize().unwrap();
    }

    fn enqueue(&self, queue: &mut DeviceQueue) -> Result<(), ExecError> {
        let layout = Layout::dense(self.spec.image(), self.spec.channels());
        let count = self.images.len();
        self.enqueue_as(queue, layout, count, count * self.spec.templates())
    }

    /// So many images of a layout, with room for so many results.
    fn enqueue_as(
        &self,
        queue: &mut DeviceQueue,
        layout: Layout,
        count: usize,
        results: usize,
    ) -> Result<(), ExecError> {
        let spec = &self.spec;
        let (at, out) = (self.there.device_ptr(&self.stream).0, self.out.device_ptr(&self.stream).0);
        // SAFETY: so many images lie there with so many elements between them, and as many results behind each other,
        // or the run is refused; the stream was waited for before they go, and it is the only one.
        unsafe {
            let stream = DeviceStream::new(self.stream.cu_stream() as u64);
            let first = DeviceImage::new(at, spec.image_type(), layout, 0);
            let mut out = DeviceResults::new(out, spec.out_type(), spec.out_shape(), results, 0);
            queue.enqueue(stream, DeviceImages::new(first, self.apart(), count), &mut out)
        }
    }

    /// The graph of a run.
    pub(super) fn record(&self, queue: &mut DeviceQueue) -> CudaGraph {
        self.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
        self.enqueue(queue).unwrap_or_else(|error| panic!("{} recorded: {error}", self.spec));
        self.stream.end_capture(sys::CUgraphInstantiate_flags(0)).unwrap().expect("a graph with work in it")
    }

    /// A queue for runs of its templates.
    pub(super) fn queue(&self) -> DeviceQueue {
        self.matcher.queue(0, Extraordinary::Told).unwrap()
    }

    fn results(&self) -> Vec<f64> {
        let bytes = self.stream.clone_dtoh(&self.out).unwrap();
        self.stream.synchronize().unwrap();
        values(&bytes, self.spec.out_type())
    }

    /// What calls that wait make of the images.
    fn wanted(&self) -> Vec<f64> {
        let views: Vec<_> = self
            .images
            .iter()
            .map(|image| AnyView::dense(image, self.spec.image(), self.spec.channels()).unwrap())
            .collect();
        self.matcher.execute(&views).unwrap().iter().flat_map(|map| map.data().to_f64()).collect()
    }

    /// Holds the results against those.
    fn check(&self, library: bool, what: &str) {
        let (got, wanted) = (self.results(), self.wanted());
        assert_eq!(got.len(), wanted.len());
        let largest = wanted.iter().filter(|value| value.is_finite()).fold(1.0f64, |most, value| most.max(value.abs()));
        for (index, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            let same = got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan());
            let near = library && (got - wanted).abs() <= 1e-5 * largest;
            assert!(same || near, "{} {what}, {index}: {got}, not {wanted}", self.spec);
        }
    }
}

/// How many images a run has: what the spec says, else three.
fn images(text: &str) -> usize {
    match text.parse::<Spec>().unwrap().images() {
        0 => 3,
        count => count,
    }
}

#[test]
fn a_queued_run_has_the_results_of_one_that_is_waited_for() {
    let Some(_device) = device() else { return };
    let start = seed();
    let mut seed = Seed(start);
    for &(text, method, library) in part(&SPECS, 2, start) {
        let mut laid = Laid::new(text, method, images(text), &mut seed);
        let mut queue = laid.queue();
        laid.enqueue(&mut queue).unwrap();
        laid.check(library, "queued");
        assert!(!queue.unserved(), "{text}");
        // Out of a graph: what was recorded reads what lies there when it runs.
        let graph = laid.record(&mut queue);
        for _ in 0..2 {
            let (of, channels, dtype) = (laid.spec.image().len(), laid.spec.channels(), laid.spec.image_type());
            laid.images = laid.images.iter().map(|_| seed.pixels(of * channels, dtype, 1.0)).collect();
            laid.lay();
            graph.launch().unwrap();
            laid.stream.synchronize().unwrap();
            laid.check(library, "out of a graph");
        }
        assert!(!queue.forget(), "{text}");
        laid.stream.synchronize().unwrap();
    }
}

#[test]
fn a_queue_tells_of_extraordinary_samples_or_computes_them() {
    let Some(_device) = device() else { return };
    let start = seed();
    let mut seed = Seed(start);
    let floats: Vec<_> = SPECS.into_iter().filter(|(text, ..)| text.contains(":f") && text.contains("0@")).collect();
    for &(text, method, library) in part(&floats, 2, start) {
        let mut laid = Laid::new(text, method, 3, &mut seed);
        let sums = text.starts_with("co");
        let [mut told, mut computed] =
            [Extraordinary::Told, Extraordinary::Computed].map(|how| laid.matcher.queue(0, how).unwrap());
        let mut values = laid.images[1].to_f64();
        let (count, at) = (values.len(), seed.below(values.len()));
        values[at] = f64::NAN;
        values[(at + 7) % count] = f64::INFINITY;
        laid.images[1] = Pixels::F64(values).cast(laid.spec.image_type());
        laid.lay();
        laid.enqueue(&mut computed).unwrap();
        laid.check(library, "with extraordinary samples");
        assert!(!computed.unserved(), "{text}");
        laid.enqueue(&mut told).unwrap();
        laid.stream.synchronize().unwrap();
        // Kernels of scores serve all samples.
        assert_eq!((told.unserved(), told.unserved(), told.forget(), told.unserved()), (sums, sums, sums, false));
        // Ordinary ones again.
        laid.images[1] = laid.images[0].clone();
        laid.lay();
        laid.enqueue(&mut told).unwrap();
        laid.check(library, "after extraordinary samples");
        assert!(!told.unserved(), "{text}");
    }
}

/// Kernels choose their offsets by where samples are in the image, not by how they lie.
#[test]
fn an_image_that_lies_in_columns_has_the_bits_of_one_in_rows() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for (text, method) in [
        ("zncc:f32:0@150x180*20x24:same", Method::Fourier),
        ("zncc:u16:0@150x230*40x33:valid", Method::Fourier),
        ("corr:f32:0@150x180*20x24:same", Method::Fourier),
        ("zncc:f32:0@40x80x72*4x9x8:full", Method::Fourier),
        ("zncc:f32:0@90x100*8x8:full", Method::Direct),
    ] {
        let mut laid = Laid::new(text, method, 1, &mut seed);
        let wanted = laid.wanted();
        let (shape, samples) = (laid.spec.image(), laid.images[0].to_f64());
        let [depth, height, width] = shape.padded();
        let columns = (0..samples.len())
            .map(|at| samples[(at / (height * width) * height + at % height) * width + at / height % width]);
        laid.images[0] = Pixels::F64(columns.collect()).cast(laid.spec.image_type());
        laid.lay();
        let strides = [(height * width) as isize, 1, height as isize];
        let strides = &strides[3 - shape.axes()..];
        let layout = Layout::new(shape, 0, strides, 1, 1, depth * height * width).unwrap();
        let mut queue = laid.matcher.queue(0, Extraordinary::Told).unwrap();
        laid.enqueue_as(&mut queue, layout, 1, 1).unwrap();
        let same = laid.results().iter().zip(&wanted).filter(|(got, wanted)| got.to_bits() == wanted.to_bits()).count();
        assert_eq!(same, wanted.len(), "{text}");
    }
}

/// What a matcher has on the device stays until the runs of its queue are done, though the queue alone is left of it.
#[test]
fn a_queue_that_goes_waits_for_its_runs() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    for (text, method) in
        [("corr:f32:0@61x70*5x5:full", Method::Direct), ("zncc:f32:0@90x100*20x24:full", Method::Fourier)]
    {
        let mut laid = Laid::new(text, method, 2, &mut seed);
        let wanted = laid.wanted();
        let mut queue = laid.matcher.queue(0, Extraordinary::Told).unwrap();
        laid.matcher = Laid::new("corr:f32:0@30x40*5x5:valid", Method::Direct, 1, &mut seed).matcher;
        laid.enqueue(&mut queue).unwrap();
        drop(queue);
        let same = laid.results().iter().zip(&wanted).filter(|(got, wanted)| got.to_bits() == wanted.to_bits()).count();
        assert_eq!(same, wanted.len(), "{text}");
    }
}

#[test]
fn a_queue_refuses_what_is_not_its_plans() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let laid = Laid::new("corr:f32:0@30x40*5x5:valid", Method::Direct, 2, &mut seed);
    let error = laid.matcher.queue(77, Extraordinary::Told).err().expect("no such device").to_string();
    assert!(error.contains("device 77") && error.contains("a device of the plan"), "{error}");
    let problem = Problem::new("corr:f32:30x40*5x5:valid", 1);
    let here = planner(1).plan(&problem.spec).unwrap().bind(&[problem.template()], None).unwrap();
    if here.devices().is_empty() {
        let error = here.queue(0, Extraordinary::Told).err().expect("a plan of the CPU").to_string();
        assert!(error.contains("one for the CPU"), "{error}");
    }
    let mut queue = laid.matcher.queue(0, Extraordinary::Told).unwrap();
    assert_eq!(queue.device(), 0);
    let dense = Layout::dense(laid.spec.image(), 1);
    let other = Layout::dense("31x40".parse().unwrap(), 1);
    for (layout, images, results, named) in
        [(dense, 0, 2, "at least one image"), (other, 2, 2, "31x40"), (dense, 2, 3, "2 results of f32 26x36")]
    {
        let error = laid.enqueue_as(&mut queue, layout, images, results).expect_err(named).to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
    laid.stream.synchronize().unwrap();
}
