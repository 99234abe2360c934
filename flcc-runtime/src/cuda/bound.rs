//! Templates and mask on a device.

use flcc_core::measure::Scaling;

use crate::cuda::decisions::Decisions;
use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Constants, MOST_CHANNELS, Stream, Thresholds};
use crate::cuda::fault::Fault;
use crate::cuda::method::{Desk, Taps, Unbound};
use crate::problem::error_model::Figures;
use crate::problem::template::{Checked, Weights, weighted};

/// The largest factor that a kernel from image to result multiplies sums with: far from what `f32` lacks.
const MOST_FACTOR: f64 = 1e30;

/// Templates and mask on a device.
pub struct DeviceTemplates {
    pub(crate) templates: Vec<BoundTemplate>,
    /// The mask's weights, or ones where a kernel wants some.
    pub(crate) weights: Option<Buffer>,
    /// What the method made of the mask.
    pub(crate) mask: Option<Buffer>,
    /// What the buffers were made on.
    _stream: Stream,
}

/// A template on a device.
pub(crate) struct BoundTemplate {
    pub taps: Box<dyn Taps>,
    pub constants: Constants,
    /// The thresholds of doubt, where they are not the same for all tiles.
    pub thresholds: Option<Thresholds>,
    pub values: Buffer,
    /// The values before centring and scaling, where panels in doubt are computed of them.
    pub raw: Option<Buffer>,
    /// What is subtracted from each channel of the image, as it was from the template; none where that is nothing.
    pub offsets: Option<Buffer>,
    /// Whether samples are gathered for it: what is subtracted is not what was for the template before.
    pub gathers: bool,
    /// What a kernel from the image to the result multiplies its sums with, where one serves.
    pub straight: Option<f64>,
}

impl DeviceTemplates {
    /// Templates and mask for a method, whose kernel may go from the image to the result if the desk says so.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        desk: &Desk<'_>,
        decisions: &Decisions,
        doubts: bool,
        checked: &[Checked],
        weights: &Weights,
    ) -> Result<DeviceTemplates, Fault> {
        let unbound: Vec<Unbound> = checked.iter().map(|checked| unbound(desk, decisions, checked, weights)).collect();
        let taps = decisions.method.bind_all(desk, &unbound)?;
        let bound = checked.iter().zip(&unbound).zip(taps);
        let one =
            |((checked, unbound), taps)| BoundTemplate::new(desk, decisions, doubts, (checked, unbound, taps), weights);
        let mut templates = bound.map(one).collect::<Result<Vec<_>, _>>()?;
        for (template, pair) in templates.iter_mut().skip(1).zip(checked.windows(2)) {
            template.gathers = pair[0].offsets != pair[1].offsets;
        }
        let needed = decisions.scheme.masked || decisions.method.weighs();
        let values = weights.values.clone().unwrap_or_else(|| vec![1.0; desk.template.iter().product()]);
        let mask = decisions.method.mask(desk, &values)?;
        let weights = if needed { Some(Buffer::of(desk.stream, &values)?) } else { None };
        desk.stream.wait()?;
        Ok(DeviceTemplates { templates, weights, mask, _stream: desk.stream.clone() })
    }

    /// Whether kernels from the image to the result serve all of them, where samples are ordinary.
    pub(crate) fn goes_straight(&self) -> bool {
        self.templates.iter().all(|template| template.straight.is_some())
    }
}

/// A template as its method is to bind it.
fn unbound(desk: &Desk<'_>, decisions: &Decisions, checked: &Checked, weights: &Weights) -> Unbound {
    let Decisions { method, scheme, .. } = decisions;
    let source = if scheme.integers.is_some() { &checked.raw } else { &checked.values };
    let channels = source
        .iter()
        .map(|channel| if method.weighs() { channel.clone() } else { weighted(channel, weights).into_owned() })
        .collect();
    // What a kernel multiplies sums with is a power of two that both types hold.
    let factor = 1.0 / checked.scale;
    let serves = desk.straight && !checked.nonfinite && (MOST_FACTOR.recip()..=MOST_FACTOR).contains(&factor);
    Unbound { channels, straight: serves.then_some(factor) }
}

impl BoundTemplate {
    fn new(
        desk: &Desk<'_>,
        decisions: &Decisions,
        doubts: bool,
        (checked, unbound, taps): (&Checked, &Unbound, Box<dyn Taps>),
        weights: &Weights,
    ) -> Result<BoundTemplate, Fault> {
        let Decisions { method, scheme, template, .. } = decisions;
        let figures = Figures { wave: taps.wave(), ..method.figures(*template, &unbound.channels) };
        let count = template.iter().product::<usize>() * desk.channels;
        let how = taps.rounding(method.rounding(*template));
        let doubt = decisions.doubt_by(how, &figures, count, checked.energy, weights.values.as_deref());
        let constant = doubt.at(0.0, 0.0);
        let wide = |value: i128| [value as i64, (value >> 64) as i64];
        let mut exact_sum = [[0; 2]; MOST_CHANNELS];
        checked.exact_sums.iter().zip(&mut exact_sum).for_each(|(&sum, to)| *to = wide(sum));
        let constants = Constants {
            n: weights.n,
            energy: checked.energy,
            doubt: [constant.0, constant.1],
            template_scale: checked.scale,
            exact_sum,
            exact_energy: wide(checked.exact_energy),
            nonfinite: i32::from(checked.nonfinite),
            masked: i32::from(scheme.masked),
        };
        let raw = if doubts && matches!(scheme.measure.row().scaling, Scaling::Common | Scaling::Relative) {
            Some(Buffer::of(desk.stream, &checked.raw.concat())?)
        } else {
            None
        };
        let thresholds = (!doubt.is_constant()).then(|| Thresholds::new(doubt, figures.largest * desk.channels as f64));
        let values = Buffer::of(desk.stream, &checked.values.concat())?;
        let shifted = checked.offsets.iter().any(|&offset| offset != 0.0);
        let offsets = shifted.then(|| Buffer::of(desk.stream, &checked.offsets)).transpose()?;
        let straight = unbound.straight;
        Ok(BoundTemplate { taps, constants, thresholds, values, raw, offsets, gathers: true, straight })
    }
}
