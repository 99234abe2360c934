//! A spec with data, and the check of its answer.

use flcc_runtime::core::reference::Oracle;
use flcc_runtime::{Accuracy, AnyView, Matcher, Pixels, Plan, ScoreMap, Spec};

/// The specs that are timed: the tables of the goals, from small to large.
pub const CASES: [&str; 14] = [
    "corr:f32:2000x2000*3x3:valid",
    "corr:f32:2000x2000*8x8:valid",
    "corr:f32:2000x2000*16x16:valid",
    "corr:f32:2000x2000*64x64:valid",
    "zncc:f32:2000x2000*8x8:valid",
    "zncc:f32:2000x2000*16x16:valid",
    "zncc:f32:2000x2000*64x64:valid",
    "zncc:f32:4096x4096*76x76:valid",
    "zncc:u8:303x384*52x52:valid",
    "zncc:u8:1080x1920*64x64:valid",
    "corr:f32:100x100x100*5x5x5:valid",
    "zncc:f32:100x100x100*5x5x5:valid",
    "corr:f32:10000000*64:valid",
    "corr:f32:10000000*500:valid",
];

/// A spec with data for it.
pub struct Case {
    /// The spec.
    pub spec: Spec,
    image: Pixels,
    template: Pixels,
}

impl Case {
    /// Fixed-seed noise for a spec text.
    ///
    /// # Panics
    /// A text that is no spec: the cases are literals.
    pub fn new(text: &str) -> Case {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut noise = |count: usize, dtype| {
            let values = (0..count).map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as f64 / 65536.0
            });
            Pixels::F64(values.collect()).cast(dtype)
        };
        let image = noise(spec.image().len(), spec.image_type());
        let template = noise(spec.template().len(), spec.template_type());
        Case { spec, image, template }
    }

    /// A spec with data of its own.
    ///
    /// # Panics
    /// Data that are not the spec's.
    pub fn of(spec: Spec, image: Pixels, template: Pixels) -> Case {
        assert_eq!((image.len(), image.dtype()), (spec.image().len(), spec.image_type()), "the image of {spec}");
        assert_eq!(
            (template.len(), template.dtype()),
            (spec.template().len(), spec.template_type()),
            "the template of {spec}"
        );
        Case { spec, image, template }
    }

    /// The image.
    pub fn image(&self) -> AnyView<'_> {
        AnyView::dense(&self.image, self.spec.image(), 1).expect("made for the spec")
    }

    /// The template.
    pub fn template(&self) -> AnyView<'_> {
        AnyView::dense(&self.template, self.spec.template(), 1).expect("made for the spec")
    }

    /// The template bound to a plan.
    ///
    /// # Panics
    /// Neither noise nor what is cut from an image is degenerate.
    pub fn bind(&self, plan: &Plan) -> Matcher {
        plan.bind(&[self.template()], None).unwrap_or_else(|error| panic!("{}: {error}", self.spec))
    }

    /// Compares a result with the oracle at places spread over it, and returns the largest error: absolute for
    /// normalised measures, else over the largest value.
    ///
    /// # Panics
    /// An error of 1e-5 or more, or of 1e-3 at accuracy fast, which promises less: what is wrong is not timed.
    pub fn check(&self, map: &ScoreMap, places: usize) -> f64 {
        let oracle = Oracle::new(&self.spec, &self.image(), &self.template(), None).expect("made for the spec");
        let len = map.shape().len();
        let (mut worst, mut largest) = (0.0f64, 0.0f64);
        for k in 0..places {
            let index = (k * 7919 + k * (len / places)) % len;
            let (expected, got) = (oracle.at(index), map.get(index));
            assert!(got.is_finite(), "{}: {got} at {index}, expected {expected}", self.spec);
            worst = worst.max((got - expected).abs());
            largest = largest.max(expected.abs());
        }
        let error = if self.spec.op().measure().row().normalised { worst } else { worst / largest };
        let most = if self.spec.accuracy() == Accuracy::Fast { 1e-3 } else { 1e-5 };
        assert!(error < most, "{}: error {error:e}, expected below {most:e}", self.spec);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_runtime::Planner;

    #[test]
    fn every_case_is_a_spec_in_its_canonical_form() {
        for text in CASES {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_case_is_checked() {
        let case = Case::new("zncc:u8:303x384*52x52:valid");
        let matcher = case.bind(&Planner::new().unwrap().plan(&case.spec).unwrap());
        assert!(case.check(&matcher.execute(&[case.image()]).unwrap()[0], 40) < 1e-6);
    }

    #[test]
    #[should_panic(expected = "NaN at 0")]
    fn nan_is_an_error() {
        let case = Case::new("corr:f32:9x9*3x3:valid");
        let nothing = Pixels::F32(vec![f32::NAN; case.spec.out_shape().len()]);
        case.check(&ScoreMap::new(case.spec.region(), nothing).unwrap(), 4);
    }
}
