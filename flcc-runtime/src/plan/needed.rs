//! What memory plans, bound templates, executions and lists of peaks take on the host, for those who refuse more than
//! is free before any of it is asked for.

use flcc_core::peaks::PeakOptions;
use flcc_core::spec::Spec;

use crate::plan::planned::Plan;
use crate::plan::solver::Platform;

/// Bytes of the results of a spec.
pub fn results(spec: &Spec) -> f64 {
    let count = spec.out_shape().len() as f64 * spec.images().max(1) as f64 * spec.templates() as f64;
    count * spec.out_type().row().size as f64
}

/// Samples of a template, with its channels.
fn samples(spec: &Spec) -> f64 {
    spec.template().len() as f64 * spec.channels() as f64
}

/// Bytes that a plan takes: it may hold the tables of transforms as long as the template.
pub fn planning(spec: &Spec) -> f64 {
    64.0 * samples(spec)
}

/// Bytes of templates while they are checked: their values in f64 and as integers.
pub fn checking(spec: &Spec) -> f64 {
    32.0 * samples(spec) * spec.templates() as f64
}

/// Bytes that bound templates take, while they are bound and after that. Those of a plan for a device lie there, and
/// were held against what is there.
pub fn binding(plan: &Plan) -> f64 {
    let spec = plan.spec();
    let bound = if on_host(plan) { plan.template_bytes() as f64 * spec.templates() as f64 } else { 0.0 };
    bound + checking(spec)
}

/// Bytes of the scratch of one execution; those of a plan for a device lie there.
pub fn scratch(plan: &Plan) -> f64 {
    if on_host(plan) { plan.scratch_bytes() as f64 } else { 0.0 }
}

/// Bytes of one execution and the templates that are bound for it.
pub fn execution(plan: &Plan) -> f64 {
    scratch(plan) + binding(plan)
}

/// Bytes of a search for so many poses of a spec's template by so many threads, each of which has one at a time that is
/// no larger than the image: its samples in f64, what each counts twice, its mask and its scores; and of the best
/// scores of all.
pub fn posing(spec: &Spec, poses: usize, threads: usize) -> f64 {
    /// Of a plan.
    const EACH: f64 = 4096.0;
    let scores = spec.out_type().row().size;
    let of_one = (8.0 * spec.channels() as f64 + 17.0 + scores as f64) * spec.image().len() as f64;
    // Middles lie on samples, or between two in poses turned by a quarter: two sheets at most of scores and whose they
    // are.
    let of_all = 2.0 * (scores + size_of::<u32>()) as f64 * spec.image().len() as f64;
    of_one * threads as f64 + of_all + EACH * poses as f64
}

fn on_host(plan: &Plan) -> bool {
    plan.platform() != Platform::Cuda
}

/// The most peaks that one image has of all templates: as many of each as are asked for, or as there is room for, since
/// each keeps a box of its distance for itself.
pub fn peaks(spec: &Spec, options: &PeakOptions) -> f64 {
    let side = options.distance(Some(spec.template())).saturating_add(1);
    let boxes: f64 = spec.out_shape().lengths().iter().map(|length| length.div_ceil(side) as f64).product();
    options.top.map_or(boxes, |top| boxes.min(top as f64)) * spec.templates() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::settings::Planner;

    #[test]
    fn the_host_holds_what_is_computed_there() {
        let spec: Spec = "zncc:f32:40x50*5x7:valid".parse().unwrap();
        let plan = Planner::new().unwrap().platform(Platform::Cpu).plan(&spec).unwrap();
        assert_eq!(results(&spec), 36.0 * 44.0 * 4.0);
        assert_eq!(checking(&spec), 32.0 * 35.0);
        assert_eq!(binding(&plan), plan.template_bytes() as f64 + 32.0 * 35.0);
        assert_eq!(execution(&plan), plan.scratch_bytes() as f64 + binding(&plan));
        assert_eq!(posing(&spec, 7, 3), (29.0 * 3.0 + 16.0) * 2000.0 + 7.0 * 4096.0);
    }

    #[test]
    fn peaks_are_as_many_as_are_asked_for_or_have_room() {
        let spec: Spec = "zncc:f32:40x50*5x7:valid".parse().unwrap();
        let spec = spec.with_templates(3).unwrap();
        let of = |top| peaks(&spec, &PeakOptions { top, min_distance: Some(9), ..PeakOptions::default() });
        // Boxes of 10x10 on 36x44.
        assert_eq!([of(None), of(Some(100)), of(Some(7))], [60.0, 60.0, 21.0]);
    }
}
