//! What products of lines offer.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;

use crate::cuda::decisions::goes_straight;
use crate::cuda::methods::separable::Separable;
use crate::cuda::separable::{Shape, kernel};
use crate::cuda::solver::recipe::{Asked, Recipe, beyond_single, named, offer, types};
use crate::cuda::solver::tiles::{plain_tiles, together};
use crate::cuda::solver::work::{Pipeline, binding, multiprocessors, straight};
use crate::cuda::types::Cross;
use crate::plan::cost::Term;
use crate::plan::solver::{Eligible, Method, Offer};
use crate::problem::scheme::{Scheme, factored_terms, factors_in_double, refuse_factors};
use crate::run::tiling::tile_name;

/// By products of lines along rows and columns, both in one kernel.
pub(super) fn separable(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let Asked { name, spec, machine } = *asked;
    refuse_factors(name, spec)?;
    if spec.image().axes() != 2 {
        return Err(Refusal::new(name, "kernels of products of lines on GPUs serve images of two axes"));
    }
    let double = factors_in_double(spec) || beyond_single(spec);
    let (real, cross) = if double { (DType::F64, Cross::F64) } else { (DType::F32, Cross::F32) };
    let entry = kernel(real).ok_or_else(|| Refusal::new(name, format!("there is no kernel of lines for {real}")))?;
    let (shape, devices) = (Shape::of(entry, spec.template().padded()), machine.devices());
    if let Some(lacking) = shape.lacking(devices) {
        return Err(Refusal::new(name, lacking));
    }
    let (method, types, scheme) =
        (Arc::new(Separable(entry)), types(spec, real, cross), Scheme::new(spec, false, false));
    let in_one = goes_straight(spec, &*method, &scheme, types);
    let kernels = (spec.templates() * spec.channels()) as f64;
    let multiply_add = if double { Term::DeviceFactorDouble } else { Term::DeviceFactor };
    let offer = |tile: [usize; 3]| {
        let images = together(spec, tile);
        let units = multiprocessors(devices) as usize;
        let [samples, products] = shape.work(spec.out_shape().padded(), images, units).map(|all| all / images as f64);
        let work = binding(spec)
            .and(Term::DeviceFactorSample, samples * kernels)
            .and(multiply_add, products * factored_terms(spec) * kernels);
        let work = match in_one {
            true => straight(work, spec, tile, kernels),
            false => Pipeline { spec, method: &*method, scheme, tile }.with(work, [0.0, spec.channels() as f64]),
        };
        let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..named(name, entry)? };
        let recipe =
            Recipe { method: method.clone(), tile, types, exact: false, rounds: false, devices: devices.to_vec() };
        let by_cost = offer(machine, spec, Method::Separable, kernel, work, recipe);
        Ok(Offer { eligible: Eligible::of_factors(spec, false), ..by_cost })
    };
    plain_tiles(spec).into_iter().map(offer).collect()
}
