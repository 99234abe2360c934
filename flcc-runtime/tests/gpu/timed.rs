//! Kernels that a device times where images lie on it: of which specs it can, and what is told of them.

use flcc_runtime::rooms::plan::cost::Term;
use flcc_runtime::rooms::tune::grid::{Sample, Timed, samples};
use flcc_runtime::{Method, Spec};

use super::{device, gpu};

/// What is timed of a spec.
fn timed(spec: &str) -> Vec<Sample> {
    let spec: Spec = spec.parse().unwrap();
    let found = samples(&gpu(Method::Auto).threads(1), &spec, 1e3, 3);
    assert!(!found.is_empty() && found.iter().all(|sample| sample.ns > 0.0), "{spec}: {found:?}");
    found
}

fn count(samples: &[Sample], timed: Timed) -> usize {
    samples.iter().filter(|sample| sample.timed == timed).count()
}

#[test]
fn kernels_are_timed_without_copies() {
    let Some(_device) = device() else { return };
    for spec in [
        "corr:f32:60x61*8x8:full",
        "zncc:u8:50x41*2@7x7:valid",
        "ncc:f32:0@30x41*6x7:same",
        "sad:u16:300*9:valid",
        "corr:f64:9x20x21*3x4x5:valid",
    ] {
        let found = timed(spec);
        assert_eq!(count(&found, Timed::Calls), 0, "{spec}: {found:?}");
        assert!(count(&found, Timed::Kernels) >= 1 && count(&found, Timed::Rest) <= 1, "{spec}: {found:?}");
        for sample in found {
            let copies = sample.work.of(Term::DeviceCopy) > 0.0 && sample.work.of(Term::DeviceTrip) > 0.0;
            assert_eq!(copies, sample.timed == Timed::Rest, "{spec}: {sample:?}");
        }
    }
}

#[test]
fn pairs_are_timed_by_calls_where_templates_are_bound_one_by_one() {
    let Some(_device) = device() else { return };
    let found = timed("corr:f32:2@60x61*24x25:valid,pairs");
    assert!(count(&found, Timed::Kernels) > 0, "{found:?}");
    for sample in found {
        let one_kernel = sample.kernel.op.starts_with("pairs");
        assert_eq!(sample.timed == Timed::Calls, !one_kernel, "{sample:?}");
    }
}
