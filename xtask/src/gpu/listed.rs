//! Plans of the sizes that have kernels of their own, cold and warm: each takes its kernel; what they take is told.

use std::path::Path;
use std::time::Instant;

use flcc_codegen::Kernel;
use flcc_codegen::matrix::{Matrix, cubes, lines, squares};

use super::bench::{cold_bench, field, forget, kernel_of};
use super::log::{Log, Outcome, ended};

/// Nanoseconds of a spec's plans: in a new process with no code kept, and again in that process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    cold: f64,
    warm: f64,
}

/// A kernel made for a size, and a spec that is planned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    kernel: String,
    spec: String,
}

impl Listed {
    /// `None`: the kernel is one for any size.
    fn new(kernel: &Kernel) -> Option<Listed> {
        let image = ["2000", "150x161", "20x41x52"].get(kernel.sides.len().checked_sub(1)?)?;
        let (op, dtype) = (kernel.op.name(), kernel.dtype.name());
        let sides: Vec<String> = kernel.sides.iter().map(usize::to_string).collect();
        Some(Listed { kernel: kernel.name(), spec: format!("{op}:{dtype}:{image}*{}:valid", sides.join("x")) })
    }

    /// Plans it from nothing and again.
    fn plan(&self, folder: &Path) -> Result<Times, String> {
        // Of planes of bytes tensor cores are faster: their kernels are asked for by name.
        let by = if self.kernel.starts_with("zncc_u8_") { &self.kernel } else { "direct" };
        let (output, ended) = ended(&mut cold_bench(folder, by, &self.spec));
        ended.map_err(|status| format!("{status}: {}", output.lines().last().unwrap_or_default()))?;
        let kernel = kernel_of(&output)?;
        if !kernel.starts_with(&format!("{}_", self.kernel)) {
            return Err(format!("planned with {kernel}, expected {}", self.kernel));
        }
        Ok(Times { cold: field(&output, "plan_ns")?, warm: field(&output, "warm_plan_ns")? })
    }
}

/// Whether a kernel is planned: each of f32; of other types the shortest, the middle and the longest side of an
/// operation's lines, squares and cubes, since all of them would take several minutes.
fn is_chosen(kernel: &Kernel) -> bool {
    let family: Vec<usize> = match kernel.sides.len() {
        1 => lines().collect(),
        2 => squares().collect(),
        3 => cubes().collect(),
        _ => return false,
    };
    let some = [0, family.len() / 2, family.len() - 1].map(|at| family[at]);
    kernel.dtype.name() == "f32" || some.contains(&kernel.sides[0])
}

/// Plans them, each in a process of its own, so that nothing is compiled or opened before.
pub fn check(log: &Log, folder: &Path) -> Result<(), String> {
    let began = Instant::now();
    let kernels = Matrix::committed().kernels;
    let listed = kernels.iter().filter(|kernel| !kernel.sides.is_empty()).count();
    let (mut plans, mut wrong) = (Vec::new(), Vec::new());
    for one in kernels.iter().filter(|kernel| is_chosen(kernel)).filter_map(Listed::new) {
        match one.plan(folder) {
            Ok(times) => plans.push((one.spec, times)),
            Err(reason) => wrong.push(format!("{}: {reason}", one.spec)),
        }
        forget()?;
    }
    let words = told(&plans);
    let outcome = if words.is_some() && wrong.is_empty() { Outcome::Pass } else { Outcome::Fail };
    let chosen = format!(
        "{} of {listed} (all of f32; smallest, middle and largest of u8 and f64), {} failed",
        plans.len(),
        wrong.len()
    );
    log.add(
        "plans of listed kernels",
        outcome,
        &format!("{chosen}; {}", words.as_deref().unwrap_or("no plan")),
        began.elapsed().as_secs_f64(),
    );
    wrong.iter().take(40).for_each(|line| println!("    {line}"));
    Ok(())
}

/// The median and the worst of the plans, in words; `None` if there are none.
fn told(plans: &[(String, Times)]) -> Option<String> {
    let cold = worst("cold", plans.iter().map(|(spec, times)| (times.cold, spec.as_str())).collect())?;
    let warm = worst("warm", plans.iter().map(|(spec, times)| (times.warm, spec.as_str())).collect())?;
    Some(format!("{cold}; {warm}"))
}

/// The words for times and their specs; `None` if there are none.
fn worst(name: &str, mut times: Vec<(f64, &str)>) -> Option<String> {
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((median, _), (worst, spec)) = (times.get(times.len() / 2)?, times.last()?);
    Some(format!("{name} median {:.1} ms, worst {:.1} ms ({spec})", median / 1e6, worst / 1e6))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flcc_core::spec::Spec;

    use super::*;

    #[test]
    fn every_listed_kernel_has_one_spec() {
        let kernels = Matrix::committed().kernels;
        let listed: Vec<(&Kernel, Listed)> =
            kernels.iter().filter_map(|kernel| Some((kernel, Listed::new(kernel)?))).collect();
        // Two operations, three types; lines, squares and cubes.
        assert_eq!(listed.len(), 2 * 3 * (63 + 31 + 7));
        let names: BTreeSet<&str> = listed.iter().flat_map(|(_, listed)| [&*listed.kernel, &*listed.spec]).collect();
        assert_eq!(names.len(), 2 * listed.len());
        for (kernel, Listed { kernel: name, spec }) in &listed {
            let spec: Spec = spec.parse().unwrap();
            assert_eq!((spec.template().lengths(), spec.image_type()), (&kernel.sides[..], kernel.dtype), "{spec}");
            assert!(name.starts_with(&format!("{}_{}_", kernel.op.name(), kernel.dtype)), "{name}");
        }
        assert!(kernels.iter().filter(|kernel| kernel.sides.is_empty()).all(|kernel| Listed::new(kernel).is_none()));
        let spec = |name: &str| {
            listed.iter().find(|(_, listed)| listed.kernel == name).map(|(_, listed)| listed.spec.as_str())
        };
        assert_eq!(spec("zncc_f32_20x20_b16x8"), Some("zncc:f32:150x161*20x20:valid"));
        assert_eq!(spec("zncc_f32_8x8x8_b32x4"), Some("zncc:f32:20x41x52*8x8x8:valid"));
        assert_eq!(spec("corr_u8_64_b128x1"), Some("corr:u8:2000*64:valid"));
    }

    #[test]
    fn all_sizes_of_f32_are_planned_and_some_of_others() {
        let kernels = Matrix::committed().kernels;
        let chosen: Vec<&Kernel> = kernels.iter().filter(|kernel| is_chosen(kernel)).collect();
        let (single, others): (Vec<&Kernel>, Vec<&Kernel>) =
            chosen.iter().partition(|kernel| kernel.dtype.name() == "f32");
        assert_eq!((single.len(), others.len()), (2 * (63 + 31 + 7), 2 * 2 * 3 * 3));
        let sides: Vec<usize> = others
            .iter()
            .filter(|kernel| kernel.name().starts_with("zncc_u8_"))
            .map(|kernel| kernel.sides[0])
            .collect();
        assert_eq!(sides, [2, 33, 64, 2, 17, 32, 2, 5, 8]);
    }

    #[test]
    fn the_worst_plan_is_told() {
        let plan = |spec: &str, cold: f64, warm: f64| (spec.to_string(), Times { cold: cold * 1e6, warm: warm * 1e6 });
        let plans = [plan("a", 300.0, 1.0), plan("b", 1000.0, 2.0), plan("c", 200.0, 20.0)];
        let words = "cold median 300.0 ms, worst 1000.0 ms (b); warm median 2.0 ms, worst 20.0 ms (c)";
        assert_eq!(told(&plans).as_deref(), Some(words));
        assert_eq!(told(&[]), None);
    }
}
