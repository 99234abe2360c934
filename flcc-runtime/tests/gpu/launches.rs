//! How many kernels the estimate of each offer counts, held to what its plan puts into a stream: to the graph that the
//! stream records of a run, nothing of which runs.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::ptr;

use cudarc::driver::{CudaGraph, sys};
use flcc_generated::kernels;
use flcc_runtime::rooms::cuda::solver::offers;
use flcc_runtime::rooms::plan::cost::Term;
use flcc_runtime::rooms::plan::solver::Offer;
use flcc_runtime::{Method, Plan, Spec};

use super::common::{Seed, in_threads};
use super::queued::Laid;
use super::{device, emulated, gpu, seed, tensor};

/// Image, template and the rest of specs, each of which is computed by every way that serves it, with one template and
/// with four. Few types, and the same outside: what is compiled for one serves others, so kin do not stand together.
const SPECS: [[&str; 3]; 17] = [
    ["corr:f32:90x75", "13x13", "full"],
    ["zncc:f32:3@60x64", "13x13", "full"],
    ["corr:f32:3@3000", "300", "full"],
    ["zncc:u8:2@70x90", "16x12", "full,acc=exact"],
    ["nssd:f64:40x50", "6x7", "full"],
    ["zncc:f32:50x60", "9x9", "full,mask01,channels=3"],
    ["corr:f32:20x31x24", "5x6x7", "full"],
    ["ssd:f64:40x50", "6x7", "full"],
    ["corr:f32:60x61", "33x20", "full,pairs"],
    ["zncc:f32:14x30x28", "5x6x7", "full"],
    ["sad:u16:40x50", "7x5", "full,channels=3"],
    ["zncc:f32:400x300", "13x13", "full,roi=30,40:150x160"],
    ["corr:f32:40x50", "13x13", "full,channels=3"],
    ["zncc:f32:40x50", "13x13", "full,channels=3"],
    ["zncc:f32:5x30x28", "5x6x7", "valid"],
    // More tiles than a batch has.
    ["sad:u16:2100x2100", "7x5", "full"],
    ["sad:u16:900000", "7", "full"],
];

/// What a stream recorded of a run.
#[derive(Debug, Default)]
struct Recorded {
    /// Kernels of ours by their names, and memory that is filled.
    ours: Vec<String>,
    /// All else: the library's transforms, on a GPU their kernels.
    foreign: usize,
}

impl Recorded {
    fn of(graph: &CudaGraph) -> Recorded {
        let mut recorded = Recorded::default();
        let mut count = 0;
        // SAFETY: the graph lives as long as what is asked of it, and there is room for so many of its parts.
        let nodes = unsafe {
            sys::cuGraphGetNodes(graph.cu_graph(), ptr::null_mut(), &mut count).result().unwrap();
            let mut nodes = vec![ptr::null_mut(); count];
            sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count).result().unwrap();
            nodes
        };
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: a part of the graph, and room for its kind.
            unsafe { sys::cuGraphNodeGetType(node, &mut kind) }.result().unwrap();
            match kind {
                sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => recorded.ours.push("a fill".into()),
                sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => match name(node) {
                    Some(name) if is_ours(&name) => recorded.ours.push(name),
                    _ => recorded.foreign += 1,
                },
                _ => recorded.foreign += 1,
            }
        }
        recorded
    }
}

/// The name of the kernel of a part of a graph; a library may have one without a function.
fn name(node: sys::CUgraphNode) -> Option<String> {
    // SAFETY: the part is a kernel, whose parameters are plain numbers and addresses, which may be 0; a function's name
    // ends with 0 and stays where it is as long as the function.
    unsafe {
        let mut parameters: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        sys::cuGraphKernelNodeGetParams_v2(node, &mut parameters).result().unwrap();
        if parameters.func.is_null() {
            return None;
        }
        let mut name = ptr::null();
        sys::cuFuncGetName(&mut name, parameters.func).result().unwrap();
        Some(CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Whether a kernel is one of ours.
fn is_ours(name: &str) -> bool {
    name.starts_with("flcc_") || kernels().iter().any(|entry| entry.function == name)
}

/// Every offer for image, template and the rest of a spec, with its plan.
fn planned([image, template, rest]: &[&str; 3]) -> Vec<(Offer, Plan)> {
    // An image with a template of its own has one.
    let counts = if rest.contains("pairs") { &[""][..] } else { &["", "4@"] };
    let mut planned = Vec::new();
    for count in counts {
        let spec: Spec = format!("{image}*{count}{template}:{rest}").parse().unwrap();
        for method in [Method::Direct, Method::Fourier, Method::Separable] {
            let planner = gpu(method);
            for offer in offers("cuda", method, &spec, planner.machine()).unwrap_or_default() {
                let plan = planner.plan_with_kernel(&spec, &offer.kernel).unwrap();
                planned.push((offer, plan));
            }
        }
    }
    planned
}

/// What an offer counts otherwise than its plan launches for the images of its spec.
fn wrong(offer: &Offer, plan: &Plan, seed: &mut Seed) -> Option<String> {
    let (spec, images) = (plan.spec(), plan.spec().images().max(1));
    let laid = Laid::of(plan, images, seed);
    let Recorded { ours, foreign } = Recorded::of(&laid.record(&mut laid.queue()));
    let counted = |terms: &[Term]| terms.iter().map(|&term| offer.work.of(term)).sum::<f64>() * images as f64;
    let of_ours = counted(&[Term::DeviceLaunch, Term::DeviceStraight]);
    let of_library = counted(&[Term::DeviceLibrary]);
    let same = |counted: f64, launched: usize| (counted - launched as f64).abs() < 1e-3;
    // A GPU's library takes as many kernels as it likes.
    let right = same(of_ours, ours.len()) && (!emulated() || same(of_library, foreign * spec.image().axes()));
    let launched = format!("{foreign} transforms and {} of {ours:?}", ours.len());
    (!right).then(|| format!("{spec} by {}: {of_library} and {of_ours} are counted, {launched}", offer.kernel))
}

#[test]
fn as_many_kernels_are_launched_as_are_counted() {
    let Some(_device) = device() else { return };
    let mut seed = Seed(seed());
    let plans = in_threads(&SPECS, planned).concat();
    let wrong: Vec<String> = plans.iter().filter_map(|(offer, plan)| wrong(offer, plan, &mut seed)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let ops: BTreeSet<&str> = plans.iter().map(|(offer, _)| &*offer.kernel.op).collect();
    for entry in kernels().iter().filter(|entry| !tensor::is_one(entry) || tensor::are_there()) {
        assert!(ops.contains(entry.op), "no spec here is computed by {}", entry.name);
    }
    println!("{} plans by {ops:?}", plans.len());
}
