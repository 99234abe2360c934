//! What a method has to say to the planner: whether it serves a spec here, with which kernels, at which estimated cost.

use flcc_core::error::{Refusal, SpecError};
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;
use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::plan::cost::Work;
use crate::plan::machine::Machine;
use crate::problem::scheme::factors_serve;
use crate::run::execute::Execute;

/// A method of computing, or the planner's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// The planner chooses.
    #[default]
    Auto,
    /// The template laid over every panel.
    Direct,
    /// Real transforms of tiles.
    Fourier,
    /// The template as a sum of products of lines.
    Separable,
}

impl Method {
    /// The method that a kernel's name speaks of.
    pub(crate) fn of(kernel: &KernelKey) -> Method {
        match &*kernel.op {
            // By a library, of tiles and of whole images.
            "fourier" | "whole" => Method::Fourier,
            "separable" => Method::Separable,
            // Transforms of tiles on GPUs have the side of a tile in their name: tile64, zncc128.
            op if op.ends_with(|last: char| last.is_ascii_digit()) => Method::Fourier,
            _ => Method::Direct,
        }
    }
}

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Platform {
    /// The planner chooses.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// When auto may choose an offer; a forced method takes it always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligible {
    /// By its cost.
    ByCost,
    /// When bound templates turn out to be of low rank.
    ByRank,
    /// Never: other methods give what it would only approximate.
    OnlyIfForced,
    /// Never: the same sums as another offer's, by a kernel that is not made for the template's size. It can be asked
    /// for by its name.
    ByName,
}

impl Eligible {
    /// Of products of lines, whose tiles may hide samples: by cost where a template's rank is known beforehand.
    pub fn of_factors(spec: &Spec, hides: bool) -> Eligible {
        match spec.rank() {
            _ if !factors_serve(spec, hides) => Eligible::OnlyIfForced,
            Some(_) => Eligible::ByCost,
            None => Eligible::ByRank,
        }
    }
}

/// One way to compute a spec.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The kernel's name, tile included: what wisdom remembers.
    pub kernel: KernelKey,
    /// The method.
    pub method: Method,
    /// What it does for one image and all templates.
    pub work: Work,
    /// What that is estimated to take on one thread, in nanoseconds.
    pub estimate_ns: f64,
    /// When auto may choose it.
    pub eligible: Eligible,
    /// How to build it.
    pub recipe: Arc<dyn Recipe>,
}

/// How to build what executes an offer: cheap to make, and no pixels.
pub trait Recipe: Any + fmt::Debug + Send + Sync {
    /// Where it computes.
    fn platform(&self) -> Platform;
    /// Builds it, to take at most so many bytes where it has a choice.
    ///
    /// # Errors
    /// This machine lacks what the described one has, or a device's reason.
    fn build(&self, spec: &Spec, memory_limit: Option<usize>) -> Result<Box<dyn Execute>, Refusal>;
}

/// A method on a platform. Pure: it looks at the spec and the machine, never at pixels or clocks.
pub trait Solver: Send + Sync {
    /// The solver's name in `explain()` and in refusals.
    fn name(&self) -> &'static str;
    /// The method that forces it.
    fn method(&self) -> Method;
    /// The platform that it runs on.
    fn platform(&self) -> Platform;
    /// The solver's offers, the most promising first; tiles of several sizes, so that a memory limit can be met.
    ///
    /// # Errors
    /// Why it does not serve the spec on this machine.
    fn offers(&self, spec: &Spec, machine: &Machine) -> Result<Vec<Offer>, Refusal>;

    /// Offers of which one is of this kernel, if it can be had: all of them, or fewer that are made sooner.
    ///
    /// # Errors
    /// As [`Solver::offers`].
    fn offers_named(&self, spec: &Spec, machine: &Machine, _kernel: &KernelKey) -> Result<Vec<Offer>, Refusal> {
        self.offers(spec, machine)
    }
}

macro_rules! names {
    ($type:ty, $argument:literal, $expected:literal, $($name:literal => $value:expr),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if *self == $value { return f.write_str($name); })+
                Ok(())
            }
        }

        impl FromStr for $type {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<$type, SpecError> {
                match text {
                    $($name => Ok($value),)+
                    _ => Err(SpecError::new($argument, $expected, text)),
                }
            }
        }
    };
}

names!(Method, "method", "auto, direct, fourier or separable",
    "auto" => Method::Auto, "direct" => Method::Direct, "fourier" => Method::Fourier, "separable" => Method::Separable);
names!(Platform, "platform", "auto, cpu or cuda",
    "auto" => Platform::Auto, "cpu" => Platform::Cpu, "cuda" => Platform::Cuda);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_tell_their_method() {
        for (name, method) in [
            ("corr_f32_w5_avx512_t64x204", Method::Direct),
            ("sad_f64_any_avx2", Method::Direct),
            ("zncc_f32_8x8_b32x8", Method::Direct),
            ("zncc128_f32_any_b16x32", Method::Fourier),
            ("tile64_f32_any_b16x16", Method::Fourier),
            ("volume32_f32_any_b32x16", Method::Fourier),
            ("fourier_f32_600x600_rustfft", Method::Fourier),
            ("separable_f32_2x2_avx512", Method::Separable),
        ] {
            assert_eq!(Method::of(&name.parse().unwrap()), method, "{name}");
        }
    }
}
