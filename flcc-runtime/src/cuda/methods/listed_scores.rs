//! Scores from the image by a kernel made for the template's size, which lies in its constant memory.

use flcc_core::dtype::DType;
use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::direct;
use crate::cuda::driver::launch::Function;
use crate::cuda::fault::Fault;
use crate::cuda::kernels::{Steps, score_options, wide_option};
use crate::cuda::method::{Around, Desk, Method, Run, Scoring, Source, Taps};
use crate::cuda::rooms::Makes;
use crate::problem::error_model::Figures;

/// The method, by its kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedScores(pub &'static Entry);

/// A copy of the kernel.
struct Kernel {
    entry: &'static Entry,
    function: Function,
}

impl Method for ListedScores {
    fn entry(&self) -> Option<&'static Entry> {
        Some(self.0)
    }

    fn makes(&self) -> Makes {
        Makes::Scores
    }

    fn wide(&self, slow: bool) -> Wide {
        if slow && self.0.dtype == DType::F32.name() { Wide::TwoSingles } else { Wide::Double }
    }

    fn source(&self, _template: [usize; 3], around: &Around<'_>) -> Option<Source> {
        let mut options = vec!["-DFLCC_FUSED".to_string()];
        options.extend(score_options(around.options));
        options.extend(wide_option(around.wide));
        Some(Source { text: self.0.source(), options })
    }

    fn figures(&self, template: [usize; 3], channels: &[Vec<f64>]) -> Figures {
        direct::figures(self.0, template, channels)
    }

    fn bind(&self, desk: &Desk<'_>, channels: &[Vec<f64>]) -> Result<Box<dyn Taps>, Fault> {
        let values = channels.first().ok_or_else(|| Fault::new(self.0.name, "a template without a channel"))?;
        let (_, function) = direct::constant(desk, self.0, values)?;
        Ok(Box::new(Kernel { entry: self.0, function }))
    }

    fn taps_bytes(&self, samples: usize) -> usize {
        samples * size_of::<f64>()
    }
}

impl Taps for Kernel {
    fn run(&self, at: &Run<'_>, of: &Scoring<'_>) -> Result<(), Fault> {
        Steps::score(at.stream, at.batch, (self.entry, &self.function), of.constants, of.view, of.lists)
    }
}
