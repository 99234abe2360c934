//! Where a plan will run: instruction sets, cores, caches and devices, detected once or described in a test.
//!
//! A `Machine` is looked at while planning and never while executing. It opens no device and loads no library: what
//! knows CUDA fills in [`Machine::with_devices`] or says why there are none.

use std::fmt;
use std::fs;

use flcc_core::error::SpecError;

use crate::isa::{ISAS, Isa, IsaSet, detected};
use crate::plan::cost::Costs;
use crate::plan::profiles::PROFILES;

/// The environment variable that leaves out the instruction sets above the one it names: `amx`, `avx512vnni`, `avx512`,
/// `avx2`, `neondot`, `neon` or `portable`.
///
/// Where `amx` may be used and the processor has it, Linux is asked to keep the 8 KiB of tile registers for this
/// process (`arch_prctl(ARCH_REQ_XCOMP_PERM)`), once and for good. From then on it refuses alternate signal stacks that
/// have no room for them; a sandbox has to let the call pass. `avx512vnni` or less leaves the request out.
pub const ISA_VARIABLE: &str = "FLCC_ISA";

/// The machine of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    isas: IsaSet,
    arch: String,
    model: String,
    cores: usize,
    caches: Caches,
    devices: Vec<Device>,
    cuda: String,
    costs: Option<Costs>,
    /// The costs that FLCC comes with for this processor and its first GPU.
    profiled: Costs,
}

/// Bytes of data cache that one core sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// First level, data.
    pub l1d: usize,
    /// Second level.
    pub l2: usize,
    /// Third level, all of it although cores share it.
    pub l3: usize,
}

/// What is assumed of a level that the operating system does not tell: the smallest that current 64-bit cores have, so
/// that a tile chosen by it fits everywhere.
impl Default for Caches {
    fn default() -> Caches {
        Caches { l1d: 32 << 10, l2: 256 << 10, l3: 4 << 20 }
    }
}

/// A GPU that plans may be made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The device's number, as CUDA counts.
    pub index: usize,
    /// The device's name.
    pub name: String,
    /// Compute capability, major and minor: `(9, 0)` is sm_90.
    pub capability: (u32, u32),
    /// How many multiprocessors it has.
    pub multiprocessors: usize,
    /// How many operations in f32 it does in the time of one in f64: 2 on most chips for data centres, 32 or 64 on
    /// others.
    pub f32_per_f64: u32,
    /// Bytes of its memory.
    pub memory: usize,
}

impl Machine {
    /// The machine this runs on, without devices.
    ///
    /// Cores are those the process may use (affinity and cgroup quota included). Caches and model come from `/sys` and
    /// `/proc` where these exist, else they are [`Caches::default`] and the architecture's name. [`ISA_VARIABLE`]
    /// leaves out instruction sets; empty is as if it were not set, and one that the processor lacks leaves the lesser
    /// ones.
    ///
    /// # Errors
    /// [`ISA_VARIABLE`] holds something that is no instruction set.
    pub fn detect() -> Result<Machine, SpecError> {
        let variable = std::env::var_os(ISA_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let read = |path: &str| fs::read_to_string(path).ok();
        let mut machine = Machine::described(&[], cores).with_caches(caches(read));
        machine.isas = allowed(variable.as_deref())?.filter(detected);
        if let Some(model) = model(read) {
            machine.model = model;
        }
        Ok(machine.looked_up())
    }

    /// A machine that has these instruction sets (and the portable one) and so many cores, default caches, no devices
    /// and this architecture's name for a model. For tests and for planning from afar.
    pub fn described(isas: &[Isa], cores: usize) -> Machine {
        let isas = IsaSet::of(isas);
        let machine = Machine {
            isas,
            arch: std::env::consts::ARCH.to_string(),
            model: std::env::consts::ARCH.to_string(),
            cores: cores.max(1),
            caches: Caches::default(),
            devices: vec![],
            costs: None,
            cuda: if cfg!(feature = "cuda") {
                "GPUs were not looked for"
            } else {
                "CUDA is not in this build (feature cuda)"
            }
            .to_string(),
            profiled: Costs::usual(&isas),
        };
        machine.looked_up()
    }

    /// The machine with other caches.
    pub fn with_caches(self, caches: Caches) -> Machine {
        Machine { caches, ..self }
    }

    /// The machine with another processor model.
    pub fn with_model(self, model: impl Into<String>) -> Machine {
        Machine { model: model.into(), ..self }.looked_up()
    }

    /// The machine without the instruction sets preferred to `isa`.
    pub fn with_isa(self, isa: Isa) -> Machine {
        Machine { isas: self.isas.restrict(isa), ..self }.looked_up()
    }

    /// The machine with these devices; `cuda` says in a few words what CUDA is here (versions), or why there is none.
    pub fn with_devices(self, devices: Vec<Device>, cuda: impl Into<String>) -> Machine {
        Machine { devices, cuda: cuda.into(), ..self }.looked_up()
    }

    /// The machine with costs that were measured on it.
    pub fn with_costs(self, costs: Costs) -> Machine {
        Machine { costs: Some(costs), ..self }
    }

    /// What work costs here: as it was measured on this machine, else on another with this processor and these
    /// instruction sets, else as is usual for the instruction sets.
    pub fn costs(&self) -> &Costs {
        self.costs.as_ref().unwrap_or(&self.profiled)
    }

    /// The costs that FLCC comes with for this processor and its first GPU.
    pub(crate) fn profiled(&self) -> Costs {
        self.profiled
    }

    /// The machine with the costs of its processor and its first GPU: looked up once, for a plan asks for them with
    /// every offer.
    fn looked_up(self) -> Machine {
        let device = self.devices.first();
        let alike = |[name, kind, _]: &[&str; 3]| {
            let processor = *name == self.model && self.isas.iter().any(|isa| isa.name() == *kind);
            processor || device.is_some_and(|device| *name == device.name && *kind == device.target())
        };
        // The texts are read in a test. Those of a GPU are of its own terms.
        let with = |costs: Costs, [.., text]: &[&str; 3]| costs.read(text).unwrap_or(costs);
        let profiled = PROFILES.iter().filter(|profile| alike(profile)).fold(Costs::usual(&self.isas), with);
        Machine { profiled, ..self }
    }

    /// The instruction sets that may be used.
    pub fn isas(&self) -> IsaSet {
        self.isas
    }

    /// The cores that may be used, at least 1.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// The data caches.
    pub fn caches(&self) -> Caches {
        self.caches
    }

    /// The processor's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The GPUs that plans may be made for.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What CUDA is here, or why there is none.
    pub fn cuda(&self) -> &str {
        &self.cuda
    }

    /// What timings hold for, as one word without spaces: architecture, model, instruction sets, cores, devices and
    /// FLCC's version. Equal machines have equal fingerprints, today and after a restart.
    ///
    /// `x86_64/intel-xeon-processor-2-50ghz/avx512+avx2+portable/2cores/flcc-0.1.0`
    pub fn fingerprint(&self) -> String {
        self.told_apart(&self.devices)
    }

    /// The fingerprint that it has without its devices: what costs of the CPU hold for.
    pub fn without_devices(&self) -> String {
        self.told_apart(&[])
    }

    fn told_apart(&self, devices: &[Device]) -> String {
        let mut parts =
            vec![slug(&self.arch, '_'), slug(&self.model, '-'), names(&self.isas, "+"), format!("{}cores", self.cores)];
        parts.extend(devices.iter().map(|device| format!("{}-{}", slug(&device.name, '-'), device.target())));
        parts.push(concat!("flcc-", env!("CARGO_PKG_VERSION")).to_string());
        parts.join("/")
    }
}

impl Device {
    /// The architecture in the compiler's words: `sm_90`.
    pub fn target(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// Whether sums of two numbers in f32 are faster than f64. One addition of two such takes 11 operations.
    pub fn is_slow_in_f64(&self) -> bool {
        self.f32_per_f64 > 11
    }
}

/// A few lines, as `flcc devices` shows them.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caches { l1d, l2, l3 } = self.caches;
        writeln!(f, "cpu: {}, {}, {} cores", self.model, self.arch, self.cores)?;
        writeln!(f, "instruction sets: {}", names(&self.isas, ", "))?;
        writeln!(f, "caches: L1d {}, L2 {}, L3 {}", bytes(l1d), bytes(l2), bytes(l3))?;
        write!(f, "cuda: {}", self.cuda)?;
        for device in &self.devices {
            let Device { index, name, multiprocessors, memory, .. } = device;
            write!(
                f,
                "\ncuda {index}: {name}, {}, {multiprocessors} multiprocessors, {}",
                device.target(),
                bytes(*memory)
            )?;
        }
        Ok(())
    }
}

/// The instruction sets that [`ISA_VARIABLE`] leaves, whatever the processor has: to ask for some of them has effects.
fn allowed(variable: Option<&str>) -> Result<IsaSet, SpecError> {
    let all = IsaSet::of(&ISAS);
    match variable {
        None | Some("") => Ok(all),
        Some(name) => {
            let known = || ISAS.map(Isa::name).join(", ");
            Ok(all
                .restrict(name.parse().map_err(|_| SpecError::new(ISA_VARIABLE, format!("one of {}", known()), name))?))
        }
    }
}

/// The levels that Linux tells of its first core.
fn caches(read: impl Fn(&str) -> Option<String>) -> Caches {
    let mut caches = Caches::default();
    for index in 0..8 {
        let entry = |name: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
        let (Some(level), Some(kind), Some(size)) =
            (entry("level"), entry("type"), entry("size").and_then(|size| size_of(&size)))
        else {
            continue;
        };
        match (level.trim(), kind.trim()) {
            ("1", "Data" | "Unified") => caches.l1d = size,
            ("2", "Data" | "Unified") => caches.l2 = size,
            ("3", "Data" | "Unified") => caches.l3 = size,
            _ => {}
        }
    }
    caches
}

/// `32K`, `36608K`, `2M`; nothing of an unknown form, and no cache of zero bytes.
fn size_of(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit).filter(|&size| size > 0)
}

fn model(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let value = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "model name")?.1;
    let model = value.split_whitespace().collect::<Vec<_>>().join(" ");
    if model.is_empty() { None } else { Some(model) }
}

fn names(isas: &IsaSet, separator: &str) -> String {
    isas.iter().map(Isa::name).collect::<Vec<_>>().join(separator)
}

/// Lower-case letters and digits with single separators between them; trademark signs are dropped.
fn slug(text: &str, separator: char) -> String {
    let text = text.to_ascii_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "unknown".to_string() } else { words.join(&separator.to_string()) }
}

fn bytes(n: usize) -> String {
    let (unit, name) = match n {
        0..0x10_0000 => (1u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let text = format!("{:.1}", n as f64 / unit as f64);
    format!("{} {name}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn xeon() -> Machine {
        let machine =
            Machine::described(&[Isa::Avx512, Isa::Avx2], 2).with_model("Intel(R) Xeon(R) Processor @ 2.50GHz");
        Machine { arch: "x86_64".into(), ..machine.with_caches(Caches { l1d: 32 << 10, l2: 1 << 20, l3: 36608 << 10 }) }
    }

    fn h200() -> Device {
        Device {
            index: 0,
            name: "NVIDIA H200".into(),
            capability: (9, 0),
            multiprocessors: 132,
            f32_per_f64: 2,
            memory: 139 << 30,
        }
    }

    #[test]
    fn costs_of_profiles_are_those_of_their_processors() {
        for [model, isa, costs] in PROFILES {
            if isa.starts_with("sm_") {
                // Of a GPU, whatever the processor beside it.
                let device = Device { name: model.to_string(), ..h200() };
                let usual = Costs::usual(&xeon().isas());
                let machine = xeon().with_devices(vec![device], "12.9");
                assert_eq!(*machine.costs(), usual.read(costs).unwrap());
                let other = Device { name: "another".into(), ..h200() };
                assert_eq!(*xeon().with_devices(vec![other], "12.9").costs(), usual);
                continue;
            }
            let isa: Isa = isa.parse().unwrap();
            let machine = Machine::described(&[isa], 2).with_model(*model);
            assert_eq!(*machine.costs(), Costs::usual(&machine.isas()).read(costs).unwrap());
            // Without the instructions that they were measured with, or on another processor, they say nothing.
            let lesser = Machine::described(&[], 2).with_model(*model);
            assert!(isa == Isa::Portable || *lesser.costs() == Costs::usual(&lesser.isas()));
            assert_eq!(*xeon().with_model("another").costs(), Costs::usual(&xeon().isas()));
        }
    }

    #[test]
    fn this_machine() {
        let machine = Machine::detect().unwrap();
        assert!(machine.cores() >= 1);
        assert!(machine.isas().has(Isa::Portable));
        assert!(machine.caches().l1d >= 4 << 10);
        assert_eq!(machine, Machine::detect().unwrap());
    }

    #[test]
    fn a_fingerprint_is_one_word() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            xeon().fingerprint(),
            format!("x86_64/intel-xeon-processor-2-50ghz/avx512+avx2+portable/2cores/flcc-{version}")
        );
        assert_eq!(
            xeon().with_isa(Isa::Avx2).with_devices(vec![h200()], "12.9").fingerprint(),
            format!("x86_64/intel-xeon-processor-2-50ghz/avx2+portable/2cores/nvidia-h200-sm_90/flcc-{version}")
        );
        for model in ["", " \t\n", "Ä ß", "a b\tc\nd"] {
            let fingerprint = xeon().with_model(model).fingerprint();
            assert!(!fingerprint.contains(|c: char| c.is_whitespace() || c.is_control()), "{fingerprint}");
        }
    }

    #[test]
    fn shown() {
        let text = "cpu: Intel(R) Xeon(R) Processor @ 2.50GHz, x86_64, 2 cores
instruction sets: avx512, avx2, portable
caches: L1d 32 KiB, L2 1 MiB, L3 35.8 MiB
cuda: ";
        assert_eq!(xeon().to_string(), format!("{text}{}", xeon().cuda()));
        assert_eq!(
            xeon().with_devices(vec![h200()], "driver 13.0").to_string(),
            format!("{text}driver 13.0\ncuda 0: NVIDIA H200, sm_90, 132 multiprocessors, 139 GiB")
        );
    }

    #[test]
    fn the_variable_restricts() {
        let all = IsaSet::of(&ISAS);
        assert_eq!(allowed(None), Ok(all));
        assert_eq!(allowed(Some("")), Ok(all));
        assert_eq!(allowed(Some("amx")), Ok(all));
        assert_eq!(allowed(Some("avx2")), Ok(IsaSet::of(&[Isa::Avx2, Isa::NeonDot, Isa::Neon])));
        assert_eq!(allowed(Some("neon")), Ok(IsaSet::of(&[Isa::Neon])));
        assert_eq!(allowed(Some("portable")), Ok(IsaSet::of(&[])));
        let error = allowed(Some("sse9")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FLCC_ISA: expected one of amx, avx512vnni, avx512, avx2, neondot, neon, portable, got sse9"
        );
    }

    /// One that the processor lacks leaves the lesser ones, and nothing is asked about what is left out: of AMX that
    /// would be a request.
    #[test]
    fn what_the_variable_leaves_out_is_not_asked_for() {
        let asked = RefCell::new(vec![]);
        let isas = allowed(Some("avx512")).unwrap().filter(|isa| {
            asked.borrow_mut().push(isa);
            isa == Isa::Avx2
        });
        assert_eq!(isas, IsaSet::of(&[Isa::Avx2]));
        assert_eq!(*asked.borrow(), [Isa::Avx512, Isa::Avx2, Isa::NeonDot, Isa::Neon]);
    }

    #[test]
    fn caches_as_linux_tells_them() {
        let files = [
            ("index0/level", "1\n"),
            ("index0/type", "Data\n"),
            ("index0/size", "48K\n"),
            ("index1/level", "1\n"),
            ("index1/type", "Instruction\n"),
            ("index1/size", "64K\n"),
            ("index2/level", "2\n"),
            ("index2/type", "Unified\n"),
            ("index2/size", "2M\n"),
            ("index3/level", "3\n"),
            ("index3/type", "Unified\n"),
            ("index3/size", "lots\n"),
        ];
        let read =
            |path: &str| files.iter().find(|(name, _)| path.ends_with(name)).map(|(_, text)| (*text).to_string());
        assert_eq!(caches(read), Caches { l1d: 48 << 10, l2: 2 << 20, ..Caches::default() });
        assert_eq!(caches(|_| None), Caches::default());
        for wrong in ["", "K", "-1K", "99999999999999999999", "18446744073709551615G", "0K", "12 K", "ß"] {
            assert_eq!(size_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn models_as_linux_tells_them() {
        let read = |text: &'static str| move |_: &str| Some(text.to_string());
        assert_eq!(
            model(read("processor\t: 0\nmodel name\t: AMD  EPYC 9654\nmodel name\t: other")),
            Some("AMD EPYC 9654".into())
        );
        assert_eq!(model(read("processor : 0\nmodel name :  \n")), None);
        assert_eq!(model(|_| None), None);
    }
}
