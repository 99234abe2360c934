//! Which template sizes are worth a kernel of their own on a machine: that kernel beside the one for any size.

use flcc_core::error::PlanError;
use flcc_core::key::KernelKey;
use flcc_core::sizes;
use flcc_core::spec::Spec;

use crate::plan::settings::{Effort, Planner};
use crate::plan::solver::{Method, Platform};
use crate::tune::grid::{Timed, in_turns};

/// What a size's own kernel brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// What was computed.
    pub spec: Spec,
    /// The kernel that is made for the template's size.
    pub own: KernelKey,
    /// The median time of that kernel in nanoseconds.
    pub own_ns: f64,
    /// The median time of the kernel for any size, with the same tiles where it has them.
    pub any_ns: f64,
    /// How far the first is from itself, timed twice in the same rounds: a share.
    pub spread: f64,
    /// What was timed of both.
    pub timed: Timed,
}

impl Gain {
    /// Whether it takes less time than the kernel for any size, by more than the spread and by two percent at least.
    pub fn pays(&self) -> bool {
        self.any_ns > self.own_ns * (1.0 + self.spread.max(0.02))
    }
}

/// A correlation with each listed size, of f32 and f64 samples, that is large enough to be timed: squares in an image,
/// cubes in a volume and lines.
pub fn specs(platform: Platform) -> Vec<Spec> {
    let on_gpu = platform == Platform::Cuda;
    let squares: Vec<usize> = if on_gpu { sizes::squares().collect() } else { sizes::row_widths().collect() };
    let lines: Vec<usize> = if on_gpu { sizes::lines().collect() } else { sizes::line_widths().collect() };
    let image = if on_gpu { ["2000x2000", "100x100x100", "4000000"] } else { ["300x300", "48x48x48", "100000"] };
    let mut specs = Vec::new();
    for dtype in ["f32", "f64"] {
        let text = |image: &str, template: String| format!("corr:{dtype}:{image}*{template}:valid").parse();
        specs.extend(squares.iter().filter_map(|side| text(image[0], format!("{side}x{side}")).ok()));
        specs.extend(sizes::cubes().filter_map(|side| text(image[1], format!("{side}x{side}x{side}")).ok()));
        specs.extend(lines.iter().filter_map(|length| text(image[2], length.to_string()).ok()));
    }
    specs
}

/// Times the kernel for a spec's size beside the one for any size; `None` where the size has none.
///
/// # Errors
/// As [`Planner::plan`], or a plan that fails.
pub fn gain(planner: &Planner, spec: &Spec) -> Result<Option<Gain>, PlanError> {
    let planner = planner.clone().effort(Effort::Estimate).method(Method::Direct);
    let own = planner.plan(spec)?;
    let KernelKey { op, dtype, size, .. } = own.kernel().clone();
    // What the CPU computes along lines has a body for all of these.
    let general = match size.chars().next() {
        Some('n') => "anyline",
        Some('a') | None => return Ok(None),
        Some(_) => "any",
    };
    let like = |offered: &KernelKey| offered.op == op && offered.dtype == dtype && offered.size == general;
    let mut others: Vec<KernelKey> = planner.offered(spec).into_iter().filter(like).collect();
    others.sort_by_key(|other| other.tile != own.kernel().tile);
    let Some(general) = others.into_iter().next() else { return Ok(None) };
    let any = planner.plan_with_kernel(spec, &general)?;
    let (times, timed) = in_turns(spec, &[own.clone(), own.clone(), any])?;
    Ok(Some(Gain {
        spec: spec.clone(),
        own: own.kernel().clone(),
        own_ns: times[0].min(times[1]),
        any_ns: times[2],
        spread: (times[0] / times[1]).max(times[1] / times[0]) - 1.0,
        timed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::plan::machine::Machine;

    #[test]
    fn every_listed_size_is_compared_with_the_kernel_for_any() {
        let specs = specs(Platform::Cpu);
        assert!(specs.len() >= 2 * (sizes::squares().count() + sizes::line_widths().count()));
        let planner = Planner::with_machine(Machine::described(&[Isa::Portable], 1));
        for spec in ["corr:f32:40x40*3x3:valid", "corr:f64:900*20:valid"] {
            let gain = gain(&planner, &spec.parse().unwrap()).unwrap().expect("a listed size");
            assert!(gain.own_ns > 0.0 && gain.any_ns > 0.0 && gain.spread >= 0.0, "{gain:?}");
            assert!(!gain.own.size.starts_with("any") && gain.timed == Timed::Calls, "{gain:?}");
        }
        // A size without a kernel of its own has nothing to compare.
        assert_eq!(gain(&planner, &"corr:f32:300x300*3x201:valid".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn a_gain_within_the_spread_does_not_pay() {
        let gain = |any_ns, spread| Gain {
            spec: "corr:f32:40x40*3x3:valid".parse().unwrap(),
            own: "corr_f32_w3_portable".parse().unwrap(),
            own_ns: 100.0,
            any_ns,
            spread,
            timed: Timed::Calls,
        };
        assert!(gain(106.0, 0.05).pays() && gain(103.0, 0.0).pays());
        assert!(!gain(104.0, 0.05).pays() && !gain(101.0, 0.0).pays() && !gain(90.0, 0.0).pays());
    }
}
