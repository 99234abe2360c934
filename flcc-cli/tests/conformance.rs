//! The conformance vectors in process: every method, precision, number of threads, and a memory limit that forces
//! tiles.

use std::path::{Path, PathBuf};

use flcc_cli::conformance::{Options, Report, run};
use flcc_runtime::{Accuracy, DType, Method, Planner};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance").join(name)
}

/// Runs a folder; fails with the lines of every case that failed.
fn judge(name: &str, planner: Planner, precision: Option<DType>, what: &str) -> Report {
    judge_at(Accuracy::Promised, name, planner, precision, what)
}

fn judge_at(accuracy: Accuracy, name: &str, planner: Planner, precision: Option<DType>, what: &str) -> Report {
    let options = Options { planner, precision, accuracy, results: None };
    let report = run(&folder(name), &options, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    let failures: Vec<String> = report.failures().map(|case| format!("{} {:?}", case.id, case.state)).collect();
    assert!(failures.is_empty(), "{name} with {what}: {} failures\n{}", failures.len(), failures.join("\n"));
    assert!(!report.cases.is_empty());
    report
}

/// One test for both folders and both precisions, with one thread or two.
fn check(method: Method, threads: usize, memory_limit: Option<usize>, may_refuse: impl Fn(&str) -> bool) {
    for precision in [DType::F32, DType::F64] {
        for name in ["vectors", "real"] {
            let planner = Planner::new().unwrap().method(method).threads(threads).memory_limit(memory_limit);
            let report = judge(name, planner, Some(precision), &format!("{method}, {threads} threads, {precision}"));
            for (case, reason) in report.skips().filter(|(_, reason)| reason.starts_with("refused")) {
                assert!(may_refuse(&case.id) && reason.len() > "refused: ".len(), "{} {reason}", case.id);
            }
        }
    }
}

#[test]
fn auto() {
    check(Method::Auto, 1, None, |_| false);
    check(Method::Auto, 2, None, |_| false);
}

#[test]
fn direct() {
    check(Method::Direct, 1, None, |_| false);
    check(Method::Direct, 2, None, |_| false);
}

#[test]
fn fourier_refuses_only_sad() {
    check(Method::Fourier, 1, None, |id| id.contains("sad"));
    check(Method::Fourier, 2, None, |id| id.contains("sad"));
}

/// Reasons that the separable method has, and no other.
const SEPARABLE_REFUSES: [&str; 4] = [
    "a 1D template has one axis",
    "sad is no sum of products",
    "the factors of an integer template are no integers",
    "window sums under a mask",
];

#[test]
fn separable_refuses_only_lines_sad_and_exact_integers() {
    for threads in [1, 2] {
        for (precision, accuracy, least) in
            [(None, Accuracy::Promised, 175), (Some(DType::F64), Accuracy::Promised, 100), (None, Accuracy::Exact, 130)]
        {
            let planner = Planner::new().unwrap().method(Method::Separable).threads(threads);
            let report = judge_at(
                accuracy,
                "vectors",
                planner,
                precision,
                &format!("separable, {threads} threads, {accuracy:?}"),
            );
            for (case, reason) in report.skips().filter(|(_, reason)| reason.starts_with("refused")) {
                let allowed = |known: &str| {
                    reason.contains(known) && (accuracy == Accuracy::Exact || known != SEPARABLE_REFUSES[2])
                };
                assert!(SEPARABLE_REFUSES.iter().any(|known| allowed(known)), "{} {reason}", case.id);
            }
            let [pass, ..] = report.counts();
            assert!(pass >= least, "{pass} cases pass at {precision:?} {accuracy:?}, of {least} at least");
        }
    }
}

/// Every method keeps the tolerance, and constant panels at exactly 0, on every level of accuracy.
#[test]
fn fast_and_exact_keep_the_tolerance_too() {
    for accuracy in [Accuracy::Fast, Accuracy::Exact] {
        for method in [Method::Auto, Method::Direct, Method::Fourier] {
            let planner = Planner::new().unwrap().method(method).threads(2);
            let report = judge_at(accuracy, "vectors", planner, None, &format!("{method}, {accuracy:?}"));
            for (case, reason) in report.skips().filter(|(_, reason)| reason.starts_with("refused")) {
                assert!(method == Method::Fourier && case.id.contains("sad"), "{} {reason}", case.id);
            }
        }
    }
}

#[test]
fn a_memory_limit_forces_tiles() {
    check(Method::Auto, 2, Some(MEMORY_LIMIT), |_| false);
}

/// Bytes that hold a tile of every case, and not the whole of the larger ones.
const MEMORY_LIMIT: usize = 1 << 20;

#[test]
fn the_natural_precision() {
    judge("vectors", Planner::new().unwrap(), None, "the precision of the input");
}

#[test]
fn a_folder_without_an_index_is_an_error() {
    let options =
        Options { planner: Planner::new().unwrap(), precision: None, accuracy: Accuracy::Promised, results: None };
    let error = run(&folder("nowhere"), &options, |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("index.json") && !error.contains('\n'), "{error}");
}
