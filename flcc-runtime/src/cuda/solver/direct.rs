//! What direct kernels offer: for a template's size, for any, on tensor cores, under masks, of differences.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::error::Refusal;
use flcc_core::key::KernelKey;
use flcc_core::measure::Measure;
use flcc_core::spec::{MaskKind, Spec};
use flcc_generated::Entry;

use crate::cuda::decisions::goes_straight;
use crate::cuda::method;
use crate::cuda::methods::any::Any;
use crate::cuda::methods::differences::Differences;
use crate::cuda::methods::listed::Listed;
use crate::cuda::methods::listed_scores::ListedScores;
use crate::cuda::methods::masked::Masked;
use crate::cuda::methods::mma_scores::MmaScores;
use crate::cuda::solver::recipe::{Asked, Recipe, beyond_single, named, offer, types};
use crate::cuda::solver::tiles::{large_tile, plain_tiles, together};
use crate::cuda::solver::work::{Pipeline, binding, binding_with, multiprocessors, straight};
use crate::cuda::tensor;
use crate::cuda::types::{Cross, Types};
use crate::plan::cost::{Term, Work};
use crate::plan::machine::Device;
use crate::plan::solver::{Eligible, Method, Offer};
use crate::problem::scheme::{Integers, Scheme, exact_in_f64, sums_in_double};
use crate::run::tiling::tile_name;

/// How direct kernels serve a spec.
struct Direct<'a> {
    asked: &'a Asked<'a>,
    /// The type of samples and taps.
    real: DType,
    /// Sums are integers.
    exact: bool,
    masked: bool,
}

impl Direct<'_> {
    fn of<'a>(asked: &'a Asked<'a>) -> Direct<'a> {
        let spec = asked.spec;
        let measure = spec.op().measure();
        let masked = spec.mask() != MaskKind::None;
        let exact = exact_in_f64(spec);
        let bytes = exact
            && !masked
            && spec.image_type() == DType::U8
            && spec.template_type() == DType::U8
            && measure != Measure::Sad;
        let real = if bytes {
            DType::U8
        } else if sums_in_double(spec) || beyond_single(spec) || measure == Measure::Sad {
            DType::F64
        } else {
            DType::F32
        };
        Direct { asked, real, exact, masked }
    }

    /// Whether it takes sums of products, whose window sums are not under a mask.
    fn sums(&self) -> bool {
        let measure = self.asked.spec.op().measure();
        measure != Measure::Sad && !self.masked_sums()
    }

    /// Whether it takes window sums under a mask.
    fn masked_sums(&self) -> bool {
        self.masked && self.asked.spec.op().measure().row().needs.square
    }

    /// The kernel of an operation for the template's size.
    fn listed(&self, op: &str) -> Option<&'static Entry> {
        flcc_generated::listed(op, self.real.name(), self.asked.spec.template().padded())
    }

    /// The one for any size.
    fn generic(&self, op: &str) -> Result<&'static Entry, Refusal> {
        let Asked { name, spec, .. } = *self.asked;
        let flat = spec.template().padded()[1] == 1 && spec.mode_region().shape.padded()[1] == 1;
        flcc_generated::generic(op, self.real.name(), flat)
            .ok_or_else(|| Refusal::new(name, format!("there is no kernel {op} for {}", self.real)))
    }

    /// The types, with this one of cross terms of bytes.
    fn types(&self, of_bytes: Cross) -> Types {
        let cross = match self.real {
            DType::U8 => of_bytes,
            DType::F32 => Cross::F32,
            _ => Cross::F64,
        };
        types(self.asked.spec, self.real, cross)
    }

    /// Products that one of the multiprocessors makes for an image, of so many at once: a launch for each template.
    fn products(&self, entry: &Entry, images: usize) -> f64 {
        let (spec, devices) = (self.asked.spec, self.asked.machine.devices());
        let taps = spec.template().len() * spec.channels();
        let outputs = spec.out_shape().len() as f64;
        let sums = if self.masked_sums() { 3.0 } else { 1.0 };
        let products = outputs * taps as f64 * spec.templates() as f64 * sums;
        occupied(entry, spec, images, devices) * products / multiprocessors(devices)
    }

    /// The work of those, with what kernels for any size take more.
    fn taps(&self, entry: &Entry, images: usize) -> Work {
        let (tap, more) = match self.real {
            DType::U8 => (Term::DeviceTapByte, Some(Term::DeviceTapAnyByte)),
            DType::F32 => (Term::DeviceTapSingle, Some(Term::DeviceTapAny)),
            // There are none for a size.
            _ if entry.op == "sad" => (Term::DeviceDifference, None),
            _ => (Term::DeviceTapDouble, Some(Term::DeviceTapAnyDouble)),
        };
        let (products, any) = (self.products(entry, images), entry.sides.is_empty());
        // Planes are loaded one by one, which no products hide, and scores sum up every plane twice more.
        let planes = match (self.asked.spec.template().padded()[0], entry.op) {
            (1, _) => 0.0,
            (_, "zncc") if self.real == DType::F32 => 3.0,
            _ => 1.0,
        };
        // A kernel for a size has the taps in its code.
        let loaded = if any { 0.0 } else { 1.0 };
        let work = binding_with(self.asked.spec, &[(Term::DeviceBindTaps, loaded)])
            .and(tap, products)
            .and(Term::DeviceTapVolume, planes * products);
        match more.filter(|_| any) {
            Some(more) => work.and(more, products),
            None => work,
        }
    }

    /// The work of a kernel that computes cross terms, or scores, for tiles of a shape, with what is around it.
    fn piped(&self, method: &dyn method::Method, taps: Work, tile: [usize; 3]) -> Work {
        let spec = self.asked.spec;
        let pipeline = Pipeline { spec, method, scheme: Scheme::new(spec, self.exact, false), tile };
        pipeline.with(taps, [0.0, spec.channels() as f64])
    }

    /// The offers of a kernel by several tiles.
    fn offers(
        &self,
        method: impl method::Method + 'static,
        entry: &'static Entry,
        types: Types,
        tiles: Vec<[usize; 3]>,
        work: impl Fn([usize; 3]) -> Work,
    ) -> Result<Vec<Offer>, Refusal> {
        let Asked { name, spec, machine } = *self.asked;
        let body = named(name, entry)?;
        let method: Arc<dyn method::Method> = Arc::new(method);
        let offer = |tile| {
            let kernel = KernelKey { tile: tile_name(spec.frame(), tile).into(), ..body.clone() };
            let (method, devices) = (Arc::clone(&method), machine.devices().to_vec());
            let recipe = Recipe { method, tile, types, exact: self.exact, rounds: false, devices };
            offer(machine, spec, Method::Direct, kernel, work(tile), recipe)
        };
        Ok(tiles.into_iter().map(offer).collect())
    }
}

/// By a kernel for the template's size that makes scores in one go.
pub(super) fn listed_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let serves = direct.sums() && one_kernel(spec, direct.exact, direct.real);
    let Some(entry) = direct.listed("zncc").filter(|_| serves) else { return Ok(Vec::new()) };
    let each = spec.out_shape().len() as f64 * spec.templates() as f64;
    direct.offers(ListedScores(entry), entry, direct.types(Cross::Unsigned), vec![large_tile(spec)], |tile| {
        let taps = direct.taps(entry, together(spec, tile));
        direct.piped(&ListedScores(entry), taps, tile).and(Term::DeviceFused, each)
    })
}

/// By the kernel on tensor cores that makes scores of bytes in one go.
pub(super) fn mma_scores(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let template = spec.template().padded();
    let bytes = direct.real == DType::U8 && direct.sums() && one_kernel(spec, direct.exact, direct.real);
    if !(bytes && spec.image().axes() == 2 && tensor::holds(template)) {
        return Ok(Vec::new());
    }
    let each = spec.out_shape().len() as f64 * spec.templates() as f64;
    let able = |entry: &&'static Entry| tensor::lacking(entry, template, asked.machine.devices()).is_none();
    let Some(entry) = tensor::kernel().filter(able) else { return Ok(Vec::new()) };
    let in_all = tensor::Shape::of(entry, template).products() as f64 / spec.template().len() as f64;
    direct.offers(MmaScores(entry), entry, direct.types(Cross::Unsigned), vec![large_tile(spec)], |tile| {
        let products = in_all * direct.products(entry, together(spec, tile));
        let taps = binding(spec).and(Term::DeviceTapTensor, products);
        direct.piped(&MmaScores(entry), taps, tile).and(Term::DeviceFusedTensor, each)
    })
}

/// By a kernel for the template's size.
pub(super) fn listed(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    let Some(entry) = direct.listed("corr").filter(|_| direct.sums()) else { return Ok(Vec::new()) };
    let types = direct.types(Cross::Unsigned);
    let in_one = goes_straight(spec, &Listed(entry), &Scheme::new(spec, direct.exact, false), types);
    direct.offers(Listed(entry), entry, types, plain_tiles(spec), |tile| {
        let taps = direct.taps(entry, together(spec, tile));
        if in_one {
            straight(taps, spec, tile, spec.templates() as f64)
        } else {
            direct.piped(&Listed(entry), taps, tile)
        }
    })
}

/// By a kernel for any size: the choice where there is none for the template's, taken by its name beside that one.
pub(super) fn any(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let (direct, spec) = (Direct::of(asked), asked.spec);
    if !direct.sums() {
        return Ok(Vec::new());
    }
    let entry = direct.generic("corr")?;
    let offers = direct.offers(Any(entry), entry, direct.types(Cross::Long), plain_tiles(spec), |tile| {
        direct.piped(&Any(entry), direct.taps(entry, together(spec, tile)), tile)
    })?;
    let eligible = if direct.listed("corr").is_some() { Eligible::ByName } else { Eligible::ByCost };
    Ok(offers.into_iter().map(|offer| Offer { eligible, ..offer }).collect())
}

/// By one that makes window sums under a mask too.
pub(super) fn masked(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let direct = Direct::of(asked);
    if !direct.masked_sums() || asked.spec.op().measure() == Measure::Sad {
        return Ok(Vec::new());
    }
    let entry = direct.generic("masked")?;
    direct.offers(Masked(entry), entry, direct.types(Cross::Long), plain_tiles(asked.spec), |tile| {
        direct.piped(&Masked(entry), direct.taps(entry, together(asked.spec, tile)), tile)
    })
}

/// By one of absolute differences.
pub(super) fn differences(asked: &Asked<'_>) -> Result<Vec<Offer>, Refusal> {
    let direct = Direct::of(asked);
    if asked.spec.op().measure() != Measure::Sad {
        return Ok(Vec::new());
    }
    let entry = direct.generic("sad")?;
    direct.offers(Differences(entry), entry, direct.types(Cross::Long), plain_tiles(asked.spec), |tile| {
        direct.piped(&Differences(entry), direct.taps(entry, together(asked.spec, tile)), tile)
    })
}

/// Whether a kernel that makes scores in one go serves: zncc of one channel without a mask, with room for a score where
/// the cross term was, with sums whose products fit 64 bits, and with enough registers.
fn one_kernel(spec: &Spec, exact: bool, real: DType) -> bool {
    let integers = Scheme::new(spec, exact, false).integers;
    let plain = spec.op().measure() == Measure::Zncc && spec.mask() == MaskKind::None && spec.channels() == 1;
    let room = real == DType::F64 || spec.out_type() == DType::F32;
    let registers = real != DType::F64 || integers.is_none() || holds_integers(spec.template().padded());
    plain && room && registers && integers != Some(Integers::Wide)
}

/// Whether a thread of the kernel of scores in f64 has registers for sums that are integers. It keeps them, two for
/// each of its 16 outputs, beside the cross term and a row of samples; of 32 columns, 16 bytes were spilled on sm_90,
/// of 24 columns 32 bytes on sm_120 (NVRTC 13.0).
pub fn holds_integers([_, height, width]: [usize; 3]) -> bool {
    height == 1 || width < 24
}

/// Blocks of a direct kernel that a multiprocessor runs in the time of one: of 1333 ways to compute 240 specs on an
/// H200, costs fit best with this.
const RESIDENT: f64 = 1.3;

/// How many times longer a direct kernel takes for so many images at once than if its blocks kept every multiprocessor
/// busy all the time, with outputs that are all asked for.
fn occupied(entry: &Entry, spec: &Spec, images: usize, devices: &[Device]) -> f64 {
    let [planes, rows, columns] = spec.out_shape().padded();
    let of_plane = rows.div_ceil(entry.tile[0]) * columns.div_ceil(entry.tile[1]);
    let blocks = images * planes * of_plane;
    let computed = (of_plane * entry.tile[0] * entry.tile[1]) as f64 / (rows * columns) as f64;
    let all = multiprocessors(devices);
    computed * (blocks as f64 / all).ceil().max(RESIDENT) * all / blocks as f64
}
