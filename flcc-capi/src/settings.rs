//! Texts beside that of a spec: what a plan is made with, and which peaks are looked for.
//!
//! A text is a list of `name=value` with commas between them; each name stands once. An empty one asks for what is
//! usual.

use std::str::FromStr;

use flcc_core::error::SpecError;
use flcc_core::key::KernelKey;
use flcc_core::peaks::PeakOptions;
use flcc_core::pose::Poses;
use flcc_core::spec::Spec;
use flcc_core::subpixel::Subpixel;
use flcc_core::view::AnyView;
use flcc_runtime::rooms::problem::template::check_mask;
use flcc_runtime::{Control, Effort, Machine, Method, Plan, Planner, Platform, PosedOptions, PosedPeak, cuda};

use crate::learnt;
use crate::needed;
use crate::status::Failure;
use crate::status::flcc_status::FLCC_ERROR_DIMS_MISMATCH;

/// The names and values of a text.
fn pairs<'a>(argument: &str, text: &'a str) -> Result<Vec<(&'a str, &'a str)>, SpecError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (name, value) =
            part.split_once('=').ok_or_else(|| SpecError::new(argument, "NAME=VALUE[,NAME=VALUE...]", part))?;
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(SpecError::new(argument, format!("{name} once"), text));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn value<T: FromStr>(name: &str, expected: &str, text: &str) -> Result<T, SpecError> {
    // Rust reads `+1`, which no text here is written with.
    let read = if text.starts_with('+') { None } else { text.parse().ok() };
    read.ok_or_else(|| SpecError::new(name, expected, text))
}

fn yes_or_no(name: &str, text: &str) -> Result<bool, SpecError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(SpecError::new(name, "yes or no", text)),
    }
}

/// What a plan is made with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub effort: Effort,
    /// `None` is the CPU, without a look for GPUs.
    pub platform: Option<Platform>,
    pub devices: Option<Vec<usize>>,
    pub threads: usize,
    pub memory: Option<usize>,
    pub method: Method,
    pub kernel: Option<KernelKey>,
    pub fall_back: bool,
}

const SETTINGS: &str = "effort, platform, devices, threads, memory, method, kernel or fallback";

impl FromStr for Settings {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Settings, SpecError> {
        let mut settings = Settings::default();
        for (name, text) in pairs("settings", text)? {
            match name {
                "effort" => settings.effort = text.parse()?,
                "platform" => settings.platform = Some(text.parse()?),
                "devices" => {
                    let number = |text| value("devices", "numbers with ':' between them", text);
                    settings.devices = Some(text.split(':').map(number).collect::<Result<_, _>>()?);
                }
                "threads" => settings.threads = value(name, "a number, 0 for one a core", text)?,
                "memory" => settings.memory = Some(value(name, "a number of bytes", text)?),
                "method" => settings.method = text.parse()?,
                "kernel" => settings.kernel = Some(text.parse()?),
                "fallback" => settings.fall_back = yes_or_no(name, text)?,
                _ => return Err(SpecError::new("settings", SETTINGS, name)),
            }
        }
        Ok(settings)
    }
}

impl Settings {
    fn planner(&self) -> Result<Planner, SpecError> {
        let planner = match self.platform {
            // To choose among what there is, it has to be looked for.
            Some(Platform::Auto) => {
                let machine = cuda::with_devices(Machine::detect()?);
                let (first, about) = (machine.devices().iter().take(1).cloned().collect(), machine.cuda().to_string());
                Planner::with_machine(machine.with_devices(first, about))
            }
            _ => Planner::new()?,
        };
        let planner = match &self.devices {
            Some(numbers) => planner.devices(numbers)?,
            None => planner,
        };
        let planner = planner.platform(self.platform.unwrap_or_default());
        let planner = planner.effort(self.effort).threads(self.threads).memory_limit(self.memory);
        Ok(planner.method(self.method).fall_back(self.fall_back))
    }

    /// The plan of a spec, with what the process knows; what is learnt while it is made, it knows then.
    pub fn plan(&self, spec: &Spec) -> Result<Plan, Failure> {
        needed::to_plan(spec)?;
        self.learning(|planner| match &self.kernel {
            Some(kernel) => Ok(planner.plan_with_kernel(spec, kernel)?),
            None => Ok(planner.plan(spec)?),
        })
    }

    /// The places where an image of a spec holds a template in any of some poses, best first.
    pub fn find_posed(
        &self,
        spec: &Spec,
        [image, template]: [&AnyView<'_>; 2],
        poses: &Poses,
        options: &PosedOptions<'_>,
    ) -> Result<Vec<PosedPeak>, Failure> {
        if let Some(kernel) = &self.kernel {
            return Err(Failure::invalid("kernel", "none where poses are looked for, which have plans each", kernel));
        }
        if spec.images() > 1 {
            let expected = "a spec of one image, or of any number (0@)";
            return Err(Failure::new(FLCC_ERROR_DIMS_MISMATCH, "spec", expected, spec));
        }
        needed::to_plan(spec)?;
        self.learning(|planner| {
            needed::to_pose(spec, &options.peaks, poses.all().len(), planner.machine().cores().max(self.threads))?;
            // As of a template that is bound: the poses have masks of their own.
            check_mask(spec, options.mask.as_ref())?;
            let matcher = planner.posed_with(spec, template, poses, options, &Control::default())?;
            Ok(matcher.search(image, options, &Control::default())?)
        })
    }

    /// What a planner makes that has what the process knows; what is learnt meanwhile, it knows then.
    fn learning<T>(&self, make: impl FnOnce(&Planner) -> Result<T, Failure>) -> Result<T, Failure> {
        let known = learnt::with(|known| known.clone());
        let planner = self.planner()?.wisdom(known.clone());
        let made = make(&planner)?;
        let now = planner.learnt();
        learnt::with(|known_now| known_now.follow(&known, now));
        Ok(made)
    }
}

const PEAKS: &str = "threshold, distance, border or subpixel";

/// Which peaks are looked for, and at most how many.
pub(crate) fn peak_options(text: &str, top: usize) -> Result<PeakOptions, SpecError> {
    let mut options = PeakOptions { top: Some(top), ..PeakOptions::default() };
    for (name, text) in pairs("options", text)? {
        if !set(&mut options, name, text)? {
            return Err(SpecError::new("options", PEAKS, name));
        }
    }
    Ok(options)
}

/// Which peaks are looked for in all poses together, and how finely these are told; without the mask.
pub(crate) fn posed_options(text: &str, top: usize) -> Result<PosedOptions<'static>, SpecError> {
    let peaks = PeakOptions { top: Some(top), ..PeakOptions::default() };
    let mut options = PosedOptions { peaks, ..PosedOptions::default() };
    for (name, text) in pairs("options", text)? {
        if name == "finest" {
            options.finest = Some(value(name, "degrees above 0", text)?);
        } else if name == "coarse" {
            options.coarse = Some(value(name, "a factor of 2 or more", text)?);
        } else if !set(&mut options.peaks, name, text)? {
            return Err(SpecError::new("options", format!("coarse, finest, {PEAKS}"), name));
        }
    }
    Ok(options)
}

/// Sets the option of a name; false where it is none of peaks.
fn set(options: &mut PeakOptions, name: &str, text: &str) -> Result<bool, SpecError> {
    match name {
        "threshold" => {
            let threshold: f64 = value(name, "a number", text)?;
            if threshold.is_nan() {
                return Err(SpecError::new(name, "a number", text));
            }
            options.threshold = Some(threshold);
        }
        "distance" => options.min_distance = Some(value(name, "a number of positions", text)?),
        "border" => options.exclude_border = value(name, "a number of positions", text)?,
        "subpixel" => options.subpixel = Some(text.parse::<Subpixel>()?),
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_each_setting_once() {
        let settings: Settings = "effort=measure,threads=3,memory=1000,devices=0:2,fallback=yes".parse().unwrap();
        assert_eq!((settings.effort, settings.threads, settings.memory), (Effort::Measure, 3, Some(1000)));
        assert_eq!((settings.devices, settings.fall_back), (Some(vec![0, 2]), true));
        assert_eq!("".parse::<Settings>().unwrap().method, Method::Auto);
        for (wrong, told) in [
            ("threads=3,threads=4", "settings: expected threads once, got threads=3,threads=4"),
            ("threads", "settings: expected NAME=VALUE[,NAME=VALUE...], got threads"),
            ("threads=+3", "threads: expected a number, 0 for one a core, got +3"),
            ("speed=high", &format!("settings: expected {SETTINGS}, got speed")),
            ("memory=", "memory: expected a number of bytes, got nothing"),
            ("fallback=1", "fallback: expected yes or no, got 1"),
        ] {
            assert_eq!(wrong.parse::<Settings>().unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn options_of_peaks() {
        let options = peak_options("threshold=0.5,distance=0,border=2,subpixel=septic", 7).unwrap();
        assert_eq!((options.top, options.threshold, options.min_distance), (Some(7), Some(0.5), Some(0)));
        assert_eq!((options.exclude_border, options.subpixel), (2, Some(Subpixel::Septic)));
        assert_eq!(peak_options("threshold=nan", 1).unwrap_err().to_string(), "threshold: expected a number, got nan");
        assert!(peak_options("top=3", 1).unwrap_err().to_string().contains(PEAKS));
        let posed = posed_options("coarse=4,finest=0.25,border=2", 7).unwrap();
        assert_eq!(posed.coarse, Some(4));
        assert_eq!((posed.finest, posed.peaks.exclude_border, posed.peaks.top), (Some(0.25), 2, Some(7)));
        for (wrong, told) in [
            ("finest=x", "finest: expected degrees above 0, got x".to_string()),
            ("top=3", format!("options: expected coarse, finest, {PEAKS}, got top")),
        ] {
            assert_eq!(posed_options(wrong, 1).unwrap_err().to_string(), told);
        }
        assert!(peak_options("finest=1", 1).is_err());
    }
}
