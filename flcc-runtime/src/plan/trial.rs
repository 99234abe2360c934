//! Made-up problems that offers are timed on.

use std::fmt;
use std::time::{Duration, Instant};

use flcc_core::dtype::Pixels;
use flcc_core::score::ScoreMap;
use flcc_core::spec::{MaskKind, Spec};
use flcc_core::view::AnyView;

use crate::plan::settings::Effort;
use crate::problem::template;
use crate::run::execute::{Control, Execute};

/// Made-up data of a spec's types and shapes, to time offers with.
pub(crate) struct Trial {
    spec: Spec,
    image: Pixels,
    templates: Vec<Pixels>,
    mask: Option<Pixels>,
}

impl Trial {
    pub(crate) fn new(spec: &Spec) -> Trial {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut noise = |count: usize, dtype| {
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 40) as f64 / 65536.0
                })
                .collect();
            Pixels::F64(values).cast(dtype)
        };
        let image = noise(spec.image().len() * spec.channels(), spec.image_type());
        let templates = (0..spec.templates())
            .map(|_| noise(spec.template().len() * spec.channels(), spec.template_type()))
            .collect();
        let mask = (spec.mask() != MaskKind::None)
            .then(|| Pixels::F64((0..spec.template().len()).map(|k| f64::from(u8::from(k % 3 != 1))).collect()));
        Trial { spec: spec.clone(), image, templates, mask }
    }

    /// The times of a few runs, in nanoseconds; at least one.
    pub(crate) fn time(
        &self,
        execute: &dyn Execute,
        workers: usize,
        effort: Effort,
        best: Option<u64>,
    ) -> Result<Vec<u64>, String> {
        let failed = |error: &dyn fmt::Display| error.to_string();
        let view = |pixels, shape, channels| AnyView::dense(pixels, shape, channels).map_err(|error| failed(&error));
        let image = view(&self.image, self.spec.image(), self.spec.channels())?;
        let mask = self.mask.as_ref().map(|mask| view(mask, self.spec.template(), 1)).transpose()?;
        let templates = self
            .templates
            .iter()
            .map(|t| view(t, self.spec.template(), self.spec.channels()))
            .collect::<Result<Vec<_>, _>>()?;
        let (checked, weights) =
            template::check(&self.spec, &templates, mask.as_ref()).map_err(|error| failed(&error))?;
        let bound = execute.bind(checked, weights).map_err(|error| failed(&error))?;
        let mut maps: Vec<_> = templates.iter().map(|_| ScoreMap::of(&self.spec)).collect();
        let mut scratch = execute.scratch(workers, maps.len());
        let (most, budget) =
            if effort == Effort::Patient { (6, Duration::from_millis(200)) } else { (3, Duration::from_millis(60)) };
        let began = Instant::now();
        let mut times = Vec::new();
        for run in 0..=most {
            let mut outs: Vec<_> = maps.iter_mut().map(ScoreMap::view_mut).collect();
            let start = Instant::now();
            execute
                .execute(bound.as_ref(), &[image], &mut outs, &mut scratch, &Control::default())
                .map_err(|run| failed(&run.error))?;
            let ns = start.elapsed().as_nanos() as u64;
            // The first run warms caches and pages; it counts only where a second is not worth its time.
            let hopeless = best.is_some_and(|best| ns > 3 * best);
            if run > 0 || began.elapsed() > budget || hopeless {
                times.push(ns);
            }
            if hopeless || (began.elapsed() > budget && !times.is_empty()) {
                break;
            }
        }
        Ok(times)
    }
}
