//! The oracle: every operation, slow and obvious, in f64, straight from the definitions.
//!
//! A panel is collected sample by sample through the boundary rule, brought near 1 by a power of two, centred where the
//! measure is, and summed with compensation. Nothing here is shared with the fast methods but the words of the spec.

use crate::boundary::Boundary;
use crate::error::{SpecError, counted};
use crate::extent::Mode;
use crate::measure::Measure;
use crate::op::Op;
use crate::shape::Shape;
use crate::spec::Spec;
use crate::view::AnyView;

/// A problem with its data, as f64: image and template interleaved by channel.
pub struct Oracle {
    op: Op,
    boundary: Boundary,
    origin: [usize; 3],
    out: Shape,
    image_shape: [usize; 3],
    template_shape: [usize; 3],
    channels: usize,
    image: Vec<f64>,
    template: Vec<f64>,
    /// A weight for each sample of a panel, channels side by side.
    weights: Vec<f64>,
    /// Samples of positive weight, channel by channel.
    used: Vec<Vec<usize>>,
    /// The template minus its mean, for zncc.
    centred: Vec<f64>,
}

impl Oracle {
    /// The oracle of a spec for one image, one template and, optionally, a mask of the template's shape.
    ///
    /// # Errors
    /// Arrays that are not of the spec's shapes.
    pub fn new(
        spec: &Spec,
        image: &AnyView<'_>,
        template: &AnyView<'_>,
        mask: Option<&AnyView<'_>>,
    ) -> Result<Oracle, SpecError> {
        for (name, view, shape) in [("image", image, spec.image()), ("template", template, spec.template())] {
            if view.shape() != shape || view.channels() != spec.channels() {
                return Err(SpecError::new(
                    name,
                    format!("{shape} with {}", counted(spec.channels(), "channel")),
                    format!("{} with {}", view.shape(), counted(view.channels(), "channel")),
                ));
            }
        }
        let weights = match mask {
            Some(mask) if mask.shape() != spec.template() => {
                return Err(SpecError::new("mask", spec.template().to_string(), mask.shape()));
            }
            Some(mask) => mask.channel(0).to_f64(),
            None => vec![1.0; spec.template().len()],
        };
        let channels = spec.channels();
        let weights: Vec<f64> = weights.iter().flat_map(|&weight| std::iter::repeat_n(weight, channels)).collect();
        let used = (0..channels)
            .map(|c| (c..weights.len()).step_by(channels).filter(|&k| weights[k] > 0.0).collect())
            .collect();
        let mut template = template.to_f64();
        if spec.op().flips() {
            let pixels: Vec<&[f64]> = template.chunks(spec.channels()).rev().collect();
            template = pixels.concat();
        }
        let mut oracle = Oracle {
            op: spec.op(),
            boundary: if spec.mode() == Mode::Valid { Boundary::Zero } else { spec.boundary() },
            origin: spec.region().origin,
            out: spec.out_shape(),
            image_shape: spec.image().padded(),
            template_shape: spec.template().padded(),
            channels: spec.channels(),
            image: image.to_f64(),
            template,
            weights,
            used,
            centred: Vec::new(),
        };
        oracle.centred = oracle.centred(&oracle.template);
        Ok(oracle)
    }

    /// The whole result, row-major.
    pub fn all(&self) -> Vec<f64> {
        (0..self.out.len()).map(|index| self.at(index)).collect()
    }

    /// One value of the result, by flat index.
    pub fn at(&self, index: usize) -> f64 {
        let position = self.out.position(index);
        let begin: [isize; 3] = std::array::from_fn(|axis| {
            (self.origin[axis] + position[axis]) as isize - (self.template_shape[axis] as isize - 1)
        });
        let panel = self.panel(begin);
        if self.all_used().any(|k| !panel[k].is_finite()) {
            return f64::NAN;
        }
        self.measure(self.op.measure(), &panel)
    }

    fn all_used(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter().flatten().copied()
    }

    fn panel(&self, begin: [isize; 3]) -> Vec<f64> {
        let [kd, kh, kw] = self.template_shape;
        let [_, h, w] = self.image_shape;
        let mut panel = Vec::with_capacity(self.template.len());
        for dz in 0..kd {
            for dy in 0..kh {
                for dx in 0..kw {
                    let fold = |axis: usize, step: usize| {
                        self.boundary.fold(begin[axis] + step as isize, self.image_shape[axis])
                    };
                    match (fold(0, dz), fold(1, dy), fold(2, dx)) {
                        (Some(z), Some(y), Some(x)) => {
                            let first = ((z * h + y) * w + x) * self.channels;
                            panel.extend_from_slice(&self.image[first..first + self.channels]);
                        }
                        _ => panel.extend(std::iter::repeat_n(self.boundary.value().unwrap_or(0.0), self.channels)),
                    }
                }
            }
        }
        panel
    }

    fn measure(&self, measure: Measure, panel: &[f64]) -> f64 {
        let (w, t) = (&self.weights, &self.template);
        match measure {
            Measure::Cc => sum(self.all_used().map(|k| w[k] * panel[k] * t[k])),
            Measure::Sad => sum(self.all_used().map(|k| w[k] * (panel[k] - t[k]).abs())),
            Measure::Ssd => sum(self.all_used().map(|k| w[k] * (panel[k] - t[k]).powi(2))),
            Measure::Zncc => {
                if self.used.iter().all(|channel| channel.iter().all(|&k| panel[k] == panel[channel[0]])) {
                    return 0.0;
                }
                self.cosine(&self.centred(panel), &self.centred).clamp(-1.0, 1.0)
            }
            Measure::Ncc => {
                if self.all_used().all(|k| panel[k] == 0.0) {
                    return 0.0;
                }
                self.cosine(&scaled(panel), &scaled(t)).clamp(-1.0, 1.0)
            }
            Measure::Nssd => {
                if self.all_used().all(|k| panel[k] == 0.0) {
                    return 1.0;
                }
                let both = scaled(&[panel, t].concat());
                let (p, t) = both.split_at(panel.len());
                let energy = |v: &[f64]| sum(self.all_used().map(|k| w[k] * v[k] * v[k]));
                let ssd = sum(self.all_used().map(|k| w[k] * (p[k] - t[k]).powi(2)));
                (ssd / (energy(p).sqrt() * energy(t).sqrt())).min(1.0)
            }
        }
    }

    /// `sum w p t / sqrt(sum w p^2 sum w t^2)`.
    fn cosine(&self, p: &[f64], t: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| sum(self.all_used().map(|k| self.weights[k] * a[k] * b[k]));
        dot(p, t) / (dot(p, p).sqrt() * dot(t, t).sqrt())
    }

    /// Samples minus the weighted mean of their channel, scaled near 1. The mean is subtracted twice: the second pass
    /// removes what rounding left of the first.
    fn centred(&self, samples: &[f64]) -> Vec<f64> {
        let mut samples = scaled(samples);
        for channel in &self.used {
            let n = sum(channel.iter().map(|&k| self.weights[k]));
            for _ in 0..2 {
                let mean = sum(channel.iter().map(|&k| self.weights[k] * samples[k])) / n;
                channel.iter().for_each(|&k| samples[k] -= mean);
            }
        }
        scaled(&samples)
    }
}

/// The samples times the power of two that brings the largest near 1.
fn scaled(samples: &[f64]) -> Vec<f64> {
    let largest = samples.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return samples.to_vec();
    }
    let exponent = largest.log2().floor() as i32;
    // In two steps: 2^1074 alone is not a number of this type.
    let (half, rest) = (-exponent / 2, -exponent - -exponent / 2);
    let (half, rest) = (2f64.powi(half), 2f64.powi(rest));
    samples.iter().map(|v| v * half * rest).collect()
}

/// Neumaier's compensated sum.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
        total = next;
    }
    if total.is_finite() { total + lost } else { total }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Pixels;

    fn oracle(spec: &str, image: &[f64], template: &[f64], mask: Option<&[f64]>) -> Vec<f64> {
        let spec: Spec = spec.parse().unwrap();
        let wrap = |data: &[f64]| Pixels::F64(data.to_vec());
        let (image, template, mask) = (wrap(image), wrap(template), mask.map(wrap));
        let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
        let mask = mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap());
        Oracle::new(&spec, &view(&image, spec.image()), &view(&template, spec.template()), mask.as_ref()).unwrap().all()
    }

    #[test]
    fn literal_convolution_and_correlation() {
        // numpy.convolve([1,2,3], [0,1,0.5]) and numpy.correlate(..., 'full')
        assert_eq!(oracle("conv:f64:3*3:full", &[1.0, 2.0, 3.0], &[0.0, 1.0, 0.5], None), [0.0, 1.0, 2.5, 4.0, 1.5]);
        assert_eq!(oracle("corr:f64:3*3:full", &[1.0, 2.0, 3.0], &[0.0, 1.0, 0.5], None), [0.5, 2.0, 3.5, 3.0, 0.0]);
        assert_eq!(oracle("conv:f64:3*3:same", &[1.0, 2.0, 3.0], &[0.0, 1.0, 0.5], None), [1.0, 2.5, 4.0]);
        assert_eq!(oracle("corr:f64:2x2*2x2:valid", &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 10.0], None), [41.0]);
    }

    #[test]
    fn a_self_match_is_one_and_its_negative_minus_one() {
        let image = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0];
        let r = oracle("zncc:f64:6*3:valid", &image, &[1.0, 4.0, 1.0], None);
        assert!((r[1] - 1.0).abs() < 1e-15);
        let negative = oracle("zncc:f64:6*3:valid", &image, &[-1.0, -4.0, -1.0], None);
        assert!((negative[1] + 1.0).abs() < 1e-15);
        let gained: Vec<f64> = image.iter().map(|v| 1e300 * v).collect();
        let same = oracle("zncc:f64:6*3:valid", &gained, &[1e-300, 4e-300, 1e-300], None);
        assert!(r.iter().zip(same).all(|(a, b)| (a - b).abs() < 1e-14));
    }

    #[test]
    fn degenerate_panels() {
        let flat = [2.0, 2.0, 2.0, 7.0];
        assert_eq!(oracle("zncc:f64:4*2:valid", &flat, &[1.0, 2.0], None)[..2], [0.0, 0.0]);
        assert_eq!(oracle("ncc:f64:4*2:full", &[0.0; 4], &[1.0, 2.0], None), [0.0; 5]);
        assert_eq!(oracle("nssd:f64:4*2:full", &[0.0; 4], &[1.0, 2.0], None), [1.0; 5]);
        let nan = oracle("zncc:f64:4*2:valid", &[1.0, f64::NAN, 3.0, 5.0], &[1.0, 2.0], None);
        assert!(nan[0].is_nan() && nan[1].is_nan() && (nan[2] - 1.0).abs() < 1e-15);
        let hidden = oracle("sad:f64:4*2:valid,mask01", &[1.0, f64::NAN, 3.0, 5.0], &[1.0, 2.0], Some(&[1.0, 0.0]));
        assert_eq!(hidden[0], 0.0);
        assert!(hidden[1].is_nan());
    }

    #[test]
    fn weights_and_channels() {
        assert_eq!(oracle("ssd:f64:2*2:valid,maskw", &[1.0, 2.0], &[0.0, 5.0], Some(&[2.0, 0.5])), [2.0 + 4.5]);
        assert_eq!(oracle("sad:f64:2*1:valid,channels=2", &[1.0, 2.0, 10.0, 20.0], &[1.0, 1.0], None), [1.0, 28.0]);
        // A mean for each channel: an offset of one channel alone changes nothing.
        let (plain, shifted) = ([1.0, 5.0, 2.0, 9.0, 7.0, 4.0], [101.0, 5.0, 102.0, 9.0, 107.0, 4.0]);
        let t = [0.0, 3.0, 1.0, 1.0, 2.0, 8.0];
        let a = oracle("zncc:f64:3*3:valid,channels=2", &plain, &t, None);
        let b = oracle("zncc:f64:3*3:valid,channels=2", &shifted, &t, None);
        assert!((a[0] - b[0]).abs() < 1e-14);
    }
}
