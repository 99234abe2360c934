//! The arguments of every command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use crate::outputs::Pattern;
use crate::places::Places;
use crate::reading::Reading;
use crate::tile::Tile;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::{
    Accuracy, Boundary, DType, Effort, Measure, Method, Mode, Platform, Region, Shape, Spec, SpecError, Stat, Subpixel,
};

/// The measures, as the help shows them.
const MEASURES: &str = "cc|ncc|zncc|ssd|nssd|sad";

/// The values that completions offer; the help tells them in its own words.
mod offered {
    pub const METHODS: &[&str] = &["auto", "direct", "fourier", "separable"];
    pub const PLATFORMS: &[&str] = &["auto", "cpu", "cuda"];
    pub const EFFORTS: &[&str] = &["estimate", "measure", "patient"];
    pub const PRECISIONS: &[&str] = &["f32", "f64"];
    pub const ACCURACIES: &[&str] = &["fast", "promised", "exact"];
    pub const MODES: &[&str] = &["full", "same", "valid"];
    pub const BOUNDARIES: &[&str] = &["zero", "constant", "replicate", "reflect", "mirror", "wrap"];
    pub const MEASURES: &[&str] = &["cc", "ncc", "zncc", "ssd", "nssd", "sad"];
    pub const STATISTICS: &[&str] = &["sum", "mean", "var", "min", "max"];
    pub const FITS: &[&str] = &["quadratic", "gauss", "cubic", "septic"];
    pub const COMMANDS: &[&str] = &[
        "conv",
        "corr",
        "lcc",
        "match",
        "merge",
        "stream",
        "local",
        "conformance",
        "plan",
        "bench",
        "tune",
        "devices",
        "wisdom",
        "completions",
        "man",
    ];
}

/// A parser whose values completions list.
#[derive(Clone)]
struct Offering<P>(P, &'static [&'static str]);

impl<P: TypedValueParser> TypedValueParser for Offering<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.0.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.1.iter().map(|name| PossibleValue::new(*name))))
    }
}

/// The values that their type reads, of which some are offered.
fn offering<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    Offering(|text: &str| text.parse::<T>(), names)
}

/// The form of a spec, as the help shows it.
const SPEC: &str = "OP:TYPE[/TEMPLATETYPE][>OUTTYPE]:[N@]IMAGE*[N@]TEMPLATE:MODE[,OPTION...], \
    as zncc:f32:2000x2000*16x16:valid; \
    an OPTION is a boundary, constant(c), mask01, maskw, roi=ORIGIN:SHAPE (of the full \
    result), acc=fast, acc=exact, rank=R, pairs or channels=C";

/// What positions and --roi mean, below the options of each command that takes --roi.
macro_rules! places {
    () => {
        "\
Positions:
  A position is where the template's first sample lies in the image, slowest axis first: row,column
  of an image. It means that in every mode; in modes same and full it may be negative. --template-at
  and --roi speak of the same positions.

      image of 4x7, --roi 1,2:2x3           a template of 2x3 found at 2,4
      . . . . . . .                         . . . . . . .
      . . o o o . .   rows 1 and 2,         . . . . . . .
      . . o o o . .   columns 2, 3 and 4:   . . . . T t t
      . . . . . . .   its first sample      . . . . t t t"
    };
}

/// The fields of a peak in JSON.
macro_rules! peak_fields {
    () => {
        "
  peaks          each with position (where the template's first sample lies in the image), refined
                 (the same below a pixel, with --subpixel), index (in the result, as -o writes it),
                 origin (as position), score, null if it is no number, and rank, from 1
  optimum        with --count: the best score, and count, at how many positions it is"
    };
}

/// The fields of a result in JSON.
macro_rules! result_fields {
    () => {
        "

Fields of --json, one line a template:
  template       the file, file[3] of a stack (from 0), or the part of the image
  template_shape its shape, slowest axis first
  measure        cc, ncc, zncc, ssd, nssd or sad; not of conv
  spec           what was computed, in the words of flcc plan
  image_mask     with --image-mask or --boundary unknown: the file, null without; outside: unknown
                 or boundary; and min_overlap
  method, kernel how it was computed
  shape          the shape of the result
  output         the file of the result, with -o
  ns             nanoseconds to bind the templates of one shape and to compute and search them,
                 together; with --exclusive also what that takes for all templates"
    };
}

/// Below the options of conv, corr and lcc.
const BELOW_RESULTS: &str = concat!(places!(), result_fields!());

/// Below the options of match.
const BELOW_MATCH: &str = concat!(
    places!(),
    result_fields!(),
    peak_fields!(),
    "

With --rotate, --scale or --finest there are no method, kernel and shape, and:
  poses          how many were looked for
  left_out       how many were larger than the image
  peaks          each with middle (where the template's middle lies in the image), angle (degrees,
                 counterclockwise), scale, position and shape (the box around the turned template),
                 score and rank"
);

/// Below the options of stream.
const BELOW_STREAM: &str = concat!(
    "\
Fields, one line a frame and template:
  frame          the file, of a file of many frames with the frame's number as clip.y4m[7], or the
                 number of a frame on standard input; numbers count from 0
  template       the file, or file[3] of a stack, from 0
  error          why there is no result; then only frame stands beside it, and template where the
                 frame was read
  shape          the shape of the frame, slowest axis first
  template_shape the shape of the template
  measure        cc, ncc, zncc, ssd, nssd or sad
  image_mask     with --image-mask or --boundary unknown: the file, null without; outside: unknown
                 or boundary; and min_overlap
  ns             nanoseconds to plan, compute and search the frame for all templates, --exclusive
                 included; of frames computed together an equal share",
    peak_fields!()
);

/// Below the options of merge.
const BELOW_MERGE: &str = concat!(result_fields!(), peak_fields!());

/// Below the options of local.
const BELOW_LOCAL: &str = "\
Places:
  A value stands where its window begins: the place of the window's first sample in the image. In
  mode same, which it is without --mode, the middle of each window lies on a sample of the image:
  with --window 15x15 the first window begins at -7,-7, seven samples before the image on each axis.
  The positions of a .csv and the axes of a .png count so, too.

Fields of --json:
  statistic      sum, mean, var, min or max
  window         the shape of the window, slowest axis first
  shape          the shape of the result
  output         the file of the result
  ns             nanoseconds to compute it";

/// Below the options of conformance.
const BELOW_CONFORMANCE: &str = "\
Fields of --json:
  cases          how many there are
  pass, fail, skip
                 how many of them ended so
  results        each with id, group, state (pass, fail or skip), message (why it failed or was
                 skipped), ratio (the largest error over its tolerance), error (the largest), kernel
                 (which computed it), kernels (those that serve it) and status (the exit status of a
                 command that computes it); null where there is none";

/// Below the options of plan.
const BELOW_PLAN: &str = "\
Fields of --json, one line a spec:
  spec           what is computed
  kernel         the name of what computes it, with its tile
  method, platform
                 those of the kernel
  decided, place why this kernel, and why this platform, in a sentence each
  threads        how many work on an image
  tiles          how many an image has
  scratch_bytes  bytes of scratch while it is computed
  template_bytes bytes of each bound template
  ns             nanoseconds for one image with all templates, null where nothing is known
  measured       whether ns was measured; else it is an estimate
  floor          the least that the hardware takes: operations (multiply-adds) and operations_ns,
                 bytes (that are moved through memory) and bytes_ns
  choosing_ns    nanoseconds to choose the kernel
  building_ns    nanoseconds to build what executes it
  notes          what else there is to know, a sentence each
  candidates     what was considered, each with kernel, method, platform, outcome (estimated, known,
                 measured, stopped, named, slower, runner-up, failed or refused), estimate_ns,
                 least_ns (measured), bytes (of scratch and templates) and reason (why it failed or
                 refused); null where there is none";

/// Below the options of bench.
const BELOW_BENCH: &str = "\
Fields of --grid --json, one line a spec:
  spec           what is computed
  best, best_ns  the fastest kernel, and its nanoseconds
  measure, estimate
                 the kernels that these efforts choose
  measure_ratio, estimate_ratio
                 their time over the best
  spread         how far the same kernel is from itself, timed twice: a share
  plan_ns        nanoseconds to plan with effort measure
  timed          as whole calls, or on the device, without copies";

/// Below the options of tune.
const BELOW_TUNE: &str = "\
Fields of --json:
  processor, instructions
                 whose costs they are: the processor and its best instruction set, or the GPU and
                 its architecture
  cores          the cores that may be used
  specs, samples how many specs were timed, and how many ways to compute them
  timed          as whole calls, or on the device, without copies
  before, after  how estimates agree with times of the specs that were not fitted to, by the costs
                 before and by those after: the median and the worst of the larger over the smaller
  costs          what each kind of work costs, by its name

Fields of --unroll --json, one line a kernel:
  spec           what is computed
  kernel         the kernel that is made for the template's size
  own_ns, any_ns nanoseconds by it, and by the kernel for any size
  spread         how far the first is from itself, timed twice: a share
  pays           whether it takes less by more than that, and by 2 % at least
  timed          as above";

/// Below the options of devices.
const BELOW_DEVICES: &str = "\
Fields of --json:
  model          the processor's name
  cores          the cores that may be used
  instruction_sets
                 those that kernels take, the best first
  caches         bytes of the data caches l1d, l2 and l3 that a core sees
  cuda           what CUDA is here, or why there is none
  devices        the GPUs, each with index (as CUDA counts), name, target (its architecture, sm_90),
                 multiprocessors and memory (bytes)
  fingerprint    what wisdom knows this machine by";

/// Below the options of wisdom show.
const BELOW_SHOW: &str = "\
The wisdom file is an option: flcc wisdom show --wisdom w.txt

Fields of --json, one line an entry; costs are told without --json alone:
  machine        the fingerprint of the machine that measured, as flcc devices tells it
  source         the hash of the sources that were timed
  spec           what was computed
  threads        the threads that it was measured for
  kernel         the fastest
  least_ns       its nanoseconds
  workers        of how many threads it took the least time, null where one number was tried
  others         the other kernels and their nanoseconds";

/// Below the options of wisdom merge.
const BELOW_WISDOM_MERGE: &str = "\
Fields of --json:
  entries        how many the wisdom file has now";

/// Below the options of wisdom forget.
const BELOW_FORGET: &str = "\
Fields of --json:
  forgotten      how many entries are";

/// Template matching, convolution and correlation of 1D, 2D and 3D images.
///
/// Images are PNG, JPEG, TIFF (8 and 16 bit, float; pages are the slowest axis), PGM, PPM or .npy, and zarr arrays
/// (folders, versions 2 and 3) where flcc is built with the feature zarr. Sizes, origins and positions stand slowest
/// axis first. Exit status: 0 done, 1 a failure, 2 a wrong call, 3 a forced method or platform
/// refuses.
#[derive(Debug, Parser)]
// What an argument takes is told in words.
#[command(name = "flcc", version, hide_possible_values = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to do it.
    #[command(flatten)]
    pub planning: Planning,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Convolve an image with a template (the template is flipped)
    // It has no measure and takes no mask: what is given all the same is refused with the reason, and not offered.
    #[command(
        mut_arg("measure", |arg| arg.hide(true)),
        mut_arg("mask", |arg| arg.hide(true)),
        mut_arg("image_mask", |arg| arg.hide(true)),
        mut_arg("min_overlap", |arg| arg.hide(true)),
        after_help = BELOW_RESULTS
    )]
    Conv(Correlate),
    /// Cross-correlate an image with a template (nothing is flipped)
    #[command(mut_arg("measure", |arg| {
        let help = "The measure: cc, which it is without this; match takes all";
        arg.value_name("cc").value_parser(offering::<Measure>(&["cc"])).help(help)
    }), after_help = BELOW_RESULTS)]
    Corr(Correlate),
    /// Local correlation coefficients of an image and a template (the same as match --measure zncc)
    #[command(mut_arg("measure", |arg| {
        let help = "The measure: zncc, which it is without this; match takes all";
        arg.value_name("zncc").value_parser(offering::<Measure>(&["zncc"])).help(help)
    }), after_help = BELOW_RESULTS)]
    Lcc(Correlate),
    /// Find templates in an image: prints `rank position score` lines, the best first
    ///
    /// A position is where the template's first sample lies in the image, in every mode. With several templates each
    /// line ends with the template's name. --count adds a line `count N SCORE`.
    #[command(after_help = BELOW_MATCH)]
    Match(Box<Match>),
    /// Put the parts of a result together that --tile made: prints and writes what the whole call would have
    ///
    /// Parts are the .json files that conv, corr, lcc and match wrote with --tile, all of one result, in any order.
    /// Those that are missing, given twice or of another result are refused by name.
    #[command(after_help = BELOW_MERGE)]
    Merge(Merge),
    /// Find templates in frames as they come: prints one JSON line a frame and template
    ///
    /// On a CPU one frame is computed while the next is read. On GPUs the frames that have come, as many as keep the
    /// devices busy, are taken at a time; those of one type and size that follow each other are computed together, and
    /// as many more are read meanwhile, as long as frames and results take at most 1 GiB and half of the free memory.
    #[command(after_help = BELOW_STREAM)]
    Stream(Stream),
    /// Statistics of every window of an image
    ///
    /// Sums run in f64: of 8- and 16-bit pixels they are exact at every --accuracy (exact refuses what f64 would not
    /// hold). There is one kernel, on the CPU: other methods and platforms refuse, --effort and --wisdom are wrong
    /// calls.
    #[command(after_help = BELOW_LOCAL)]
    Local(Local),
    /// Judge a folder of vectors (an index.json) in this process
    ///
    /// A case of the index may say for itself how it is computed: method, kernel (as flcc plan prints it), threads,
    /// memory_limit, precision and accuracy, in the words of the options, and roi, in coordinates of the full result as
    /// in a spec. One that has neither an expected result nor an error is computed and counted as a skip. With --json
    /// each result tells, besides, kernels (those that serve the case) and status (the exit status of a command that
    /// computes it).
    #[command(after_help = BELOW_CONFORMANCE)]
    Conformance(Conformance),
    /// Show which kernel a spec is computed with
    #[command(after_help = BELOW_PLAN)]
    Plan(Plan),
    /// Check specs against the f64 oracle, then time them: prints a table, with --json one line a spec
    ///
    /// Data are noise of a fixed seed. The table has the median and the least time of a call in ms. Fields of --json:
    /// spec, method, kernel, threads; plan_ns, the time to make the plan; warm_plan_ns, that of making it again, when
    /// devices are open, code is compiled and what was measured is known; median_ns, min_ns and runs, of one call for
    /// all images and templates of the spec into results and scratch that are there; gflops, 2 operations for each
    /// multiply-add of the direct method, by the median; max_error over the checked positions, absolute for ncc, zncc
    /// and nssd, divided by the largest magnitude otherwise; checked, the number of positions: all of them up to 1e9
    /// multiply-adds, else 4096 of a fixed seed (or as many as --positions says), the corners and tile seams.
    ///
    /// With --resident the image, or the pairs of a kernel that takes them where they lie, and the results of all
    /// templates lie on the first GPU, in copies that take turns, so that each run finds its caches cold; results of
    /// all copies are the same bits, and those are checked. Three more columns, and fields kernel_median_ns,
    /// kernel_min_ns and kernel_max_ns, are what the GPU takes for the kernels of a run, between two events around a
    /// batch of runs, which are a CUDA graph but for pairs: of so many batches (kernel_batches) of so many runs
    /// (kernel_runs). kernel_gflops is by the median of these; buffers is the number of copies; queued says that all
    /// runs stood in the GPU's queue when a batch began, so that it never waited for the host.
    #[command(after_help = BELOW_BENCH)]
    Bench(Bench),
    /// Fit the costs that plans are estimated by to times on this machine
    ///
    /// Times every way to compute made-up specs on one thread, fits what each kind of work costs to that, and shows how
    /// well estimates agree with times, before and after, of every fifth spec, which is not fitted to. The costs go
    /// into the wisdom file, if --wisdom or FLCC_WISDOM names one, and plans that know it are estimated by them.
    ///
    /// With --platform cuda the GPU times its kernels, on data that lies there, and agreement is with these times. What
    /// a call takes besides, copies above all, is timed once a spec and fitted too. The field timed of --json says
    /// which.
    #[command(after_help = BELOW_TUNE)]
    Tune(Tune),
    /// Show the processor, its instruction sets and caches, and the GPUs
    #[command(after_help = BELOW_DEVICES)]
    Devices,
    /// Show, merge or forget wisdom: what measuring has taught (the file that --wisdom or FLCC_WISDOM names)
    #[command(subcommand, disable_help_subcommand = true)]
    Wisdom(Wisdom),
    /// Print the completions of a shell
    ///
    /// For bash: flcc completions bash > ~/.local/share/bash-completion/completions/flcc. For zsh: a file _flcc in a
    /// folder of $fpath. For fish: ~/.config/fish/completions/flcc.fish.
    Completions {
        /// The shell: bash, elvish, fish, powershell or zsh
        shell: Shell,
    },
    /// Print the manual page of flcc, or of one of its commands
    ///
    /// It is in the format of man: flcc man match | man -l -.
    Man {
        /// A command, as match, or as wisdom merge
        #[arg(value_parser = offering::<String>(offered::COMMANDS))]
        command: Vec<String>,
    },
}

/// How to compute: options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Planning {
    /// auto, direct, fourier or separable
    #[arg(
        long,
        global = true,
        default_value = "auto",
        value_name = "METHOD",
        value_parser = offering::<Method>(offered::METHODS)
    )]
    pub method: Method,
    /// Take the kernel of this name, whatever others would cost, or fail; `plan --explain` tells names. Without a tile
    /// (corr_f32_w9_avx512) the tile that is estimated to be the fastest
    #[arg(long, global = true, value_name = "NAME", value_parser = kernel)]
    pub kernel: Option<KernelKey>,
    /// auto (or any), cpu or cuda; auto looks for a GPU where the CPU is estimated to take more than half a second, and
    /// where plans are measured (--effort measure, patient)
    #[arg(
        long,
        global = true,
        default_value = "auto",
        value_name = "PLATFORM",
        value_parser = Offering(platform, offered::PLATFORMS)
    )]
    pub platform: Platform,
    /// GPUs by their numbers, as 0 or 0,1; images of a stream are spread over them [default: the first, with --platform
    /// cuda]
    #[arg(
        long,
        global = true,
        value_name = "NUMBERS",
        value_delimiter = ',',
        value_parser = count,
        allow_hyphen_values = true
    )]
    pub devices: Vec<usize>,
    /// Threads to compute with; 0 for one a core
    #[arg(long, global = true, default_value = "0", value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub threads: usize,
    /// estimate, measure or patient [default: estimate; bench: measure]
    #[arg(long, global = true, value_name = "EFFORT", value_parser = offering::<Effort>(offered::EFFORTS))]
    pub effort: Option<Effort>,
    /// Bytes that scratch and bound templates may take, as 64M or 1.5G (K, M and G count in powers of 1024); image,
    /// templates, result and pictures come on top. Of an image in a .npy file (C order) or a zarr array that is larger,
    /// alone or with the results to write, conv, corr, lcc and match compute as much at a time as fits, if results go
    /// to .npy files or zarr arrays
    #[arg(long, global = true, value_name = "BYTES", allow_hyphen_values = true)]
    pub memory_limit: Option<Bytes>,
    /// Wisdom file, read if it is there, added to after measuring; processes may share it [default: FLCC_WISDOM, if it
    /// is set]
    #[arg(long, global = true, value_name = "FILE")]
    pub wisdom: Option<PathBuf>,
    /// Type of the results, f32 or f64 [default: f32, f64 for f64 input]
    #[arg(long, global = true, value_name = "TYPE", value_parser = offering::<Precision>(offered::PRECISIONS))]
    pub precision: Option<Precision>,
    /// fast, promised or exact [default: promised]
    #[arg(long, global = true, value_name = "ACCURACY", value_parser = offering::<Accuracy>(offered::ACCURACIES))]
    pub accuracy: Option<Accuracy>,
    /// Print machine-readable output
    #[arg(long, global = true)]
    pub json: bool,
}

/// A number of bytes: `4096`, `64M`, `64MiB`, `1.5G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Bytes, SpecError> {
        let wrong = || SpecError::new("size", "a number of bytes, as 4096, 512K, 64M or 1.5G", text);
        let letter = text.strip_suffix("iB").unwrap_or(text);
        let (digits, unit) = match letter.as_bytes().last() {
            Some(b'K' | b'k') => (&letter[..letter.len() - 1], 1usize << 10),
            Some(b'M' | b'm') => (&letter[..letter.len() - 1], 1 << 20),
            Some(b'G' | b'g') => (&letter[..letter.len() - 1], 1 << 30),
            _ => (text, 1),
        };
        // A fraction counts parts of a unit, of which a byte has none.
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) if unit > 1 && !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(wrong()),
            None => (digits, "0"),
        };
        let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return Err(wrong());
        }
        // Rounded down; what lies behind 18 digits is no byte of a gigabyte.
        let fraction = &fraction[..fraction.len().min(18)];
        let parts = fraction.parse::<u128>().ok().map(|parts| parts * unit as u128 / 10u128.pow(fraction.len() as u32));
        let bytes = whole.parse::<usize>().ok().and_then(|count| count.checked_mul(unit));
        let parts = parts.and_then(|parts| usize::try_from(parts).ok());
        bytes.zip(parts).and_then(|(bytes, parts)| bytes.checked_add(parts)).map(Bytes).ok_or_else(wrong)
    }
}

/// The type of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision(pub DType);

impl FromStr for Precision {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Precision, SpecError> {
        match text.parse() {
            Ok(dtype @ (DType::F32 | DType::F64)) => Ok(Precision(dtype)),
            _ => Err(SpecError::new("precision", "f32 or f64", text)),
        }
    }
}

/// A platform; `any` is what the library calls `auto`.
/// A kernel's name.
fn kernel(text: &str) -> Result<KernelKey, SpecError> {
    text.parse()
}

fn platform(text: &str) -> Result<Platform, SpecError> {
    if text == "any" { Ok(Platform::Auto) } else { text.parse() }
}

/// A whole number, in digits.
fn count(text: &str) -> Result<usize, SpecError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = if digits { text.parse().ok() } else { None };
    value.ok_or_else(|| SpecError::new("number", format!("a whole number from 0 to {}", usize::MAX), text))
}

/// As [`count`], and not 0.
fn at_least_one(text: &str) -> Result<usize, SpecError> {
    count(text)
        .ok()
        .filter(|&count| count > 0)
        .ok_or_else(|| SpecError::new("number", "a whole number, at least 1", text))
}

/// Any number, not NaN.
fn number(text: &str) -> Result<f64, SpecError> {
    text.parse()
        .ok()
        .filter(|value: &f64| !value.is_nan())
        .ok_or_else(|| SpecError::new("number", "a number, as 0.8 or -1e3", text))
}

/// The extent of a result.
#[derive(Clone, Debug, Args)]
pub struct Extent {
    /// full, same or valid [default: valid for match, lcc and stream, full for conv and corr, same for local]
    #[arg(long, value_name = "MODE", value_parser = offering::<Mode>(offered::MODES))]
    pub mode: Option<Mode>,
    /// zero, constant, replicate, reflect, mirror or wrap, or a name that numpy, scipy or OpenCV has for one; of match,
    /// stream, lcc and corr also unknown, as --image-mask would have it outside
    #[arg(
        long,
        default_value = "zero",
        value_name = "BOUNDARY",
        value_parser = offering::<String>(offered::BOUNDARIES)
    )]
    pub boundary: String,
    /// The value outside the image, for --boundary constant [default: 0]
    #[arg(long, value_name = "C", value_parser = number, allow_hyphen_values = true)]
    pub cval: Option<f64>,
    /// How images are read.
    #[command(flatten)]
    pub reading: Reading,
}

impl Extent {
    /// The boundary rule that the options name together.
    ///
    /// # Errors
    /// An unknown name, a value that is not finite, `--cval` without `--boundary constant`.
    pub fn boundary(&self) -> Result<Boundary, SpecError> {
        let plain = Boundary::named(&self.boundary, self.cval.unwrap_or(0.0));
        match (plain, self.cval) {
            (Err(_), None) => self.boundary.parse(),
            (Ok(Boundary::Constant(value)), _) => Ok(Boundary::Constant(value)),
            (Ok(other), None) => Ok(other),
            (Ok(_), Some(_)) => {
                Err(SpecError::new("--cval", "--boundary constant with it", format!("--boundary {}", self.boundary)))
            }
            (Err(error), Some(_)) => Err(error),
        }
    }
}

/// conv, corr, lcc and match.
#[derive(Clone, Debug, Args)]
pub struct Correlate {
    /// The image; - is standard input
    pub image: PathBuf,
    /// The template, or several: a folder (the images in it in the order of their names), or with --stack a file with
    /// one axis more than the image (pages of a TIFF for an image, rows of a 50x400 array for a signal; templates of a
    /// volume are files of a folder), told by the file and their numbers from 0
    #[arg(value_name = "TEMPLATE")]
    pub positional: Option<PathBuf>,
    /// Another template, folder or stack; may be given several times
    #[arg(long, value_name = "FILE")]
    pub template: Vec<PathBuf>,
    /// Templates with one axis more than the image are stacks of templates along their slowest axis
    #[arg(long)]
    pub stack: bool,
    /// A part of the image as a template: 167,186:52x52
    #[arg(long, value_name = "ORIGIN:SHAPE")]
    pub template_at: Vec<Region>,
    /// Extent and boundary.
    #[command(flatten)]
    pub extent: Extent,
    /// The measure: cc, ncc, zncc, ssd, nssd or sad [default: zncc]
    #[arg(long, value_name = MEASURES, value_parser = offering::<Measure>(offered::MEASURES))]
    pub measure: Option<Measure>,
    /// Weights of the template's samples, >= 0; of an image of 8 or 16 bits that holds only 0 and 255, or 0 and 65535,
    /// the larger counts as 1
    #[arg(long, value_name = "MASK")]
    pub mask: Option<PathBuf>,
    /// What of the image is known.
    #[command(flatten)]
    pub known: Known,
    /// Where the template's first sample may lie in the image, as the picture below shows: 160,180:20x20
    #[arg(long, value_name = "ORIGIN:SHAPE", allow_hyphen_values = true)]
    pub roi: Option<Places>,
    /// The result, in the format of the name: .npy, .tif (f32 or f64 samples; a page for each plane of a volume), .png
    /// (as --heatmap draws it), .csv (of a signal: position,score), .zarr (a folder; where flcc is built with the
    /// feature zarr). With several templates there is no file OUT.npy, but OUT-1.npy, OUT-2.npy and on, in their order.
    /// - is standard output, as .npy; not of match, which prints peaks
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Part I, from 1, of the N that a result is split into along its slowest axis; of the image, a .npy file in C
    /// order or a zarr array, only what it needs is read. -o PART.npy (or PART.zarr) writes this part of the result and
    /// PART.json, with which flcc merge puts parts together; with match, -o PART.json has the peaks alone
    #[arg(long, value_name = "I/N")]
    pub tile: Option<Tile>,
    /// Compute on the CPU what GPUs fail at, or everything where there is none, and tell it on standard error
    #[arg(long)]
    pub fall_back: bool,
    /// A picture of the result with axes and a colour bar: of a volume the best slice and the best of all slices, of a
    /// line a plot; numbered as --output is
    #[arg(long, value_name = "OUT.png")]
    pub heatmap: Option<PathBuf>,
}

/// What is known of an image, or of all frames.
#[derive(Clone, Debug, Args)]
pub struct Known {
    /// Weights of the image's samples, or of every frame's, read as --mask is (an array in a .npy is taken as it is):
    /// what a sample holds does not matter where its weight is 0. A panel's weights are both masks' product, and means
    /// and norms are taken under it, of the template too
    #[arg(long, value_name = "MASK")]
    pub image_mask: Option<PathBuf>,
    /// The share, 0 to 1, of the template's weights that must lie on known samples: zncc and ncc are 0 where it is
    /// less, nssd is 1. With --image-mask or --boundary unknown [default: 0]
    #[arg(long, value_name = "X", value_parser = number, allow_hyphen_values = true)]
    pub min_overlap: Option<f64>,
}

/// match.
#[derive(Clone, Debug, Args)]
pub struct Match {
    /// Image, templates and results.
    #[command(flatten)]
    pub correlate: Correlate,
    /// What is looked for.
    #[command(flatten)]
    pub search: Peaks,
    /// How templates may stand in the image.
    #[command(flatten)]
    pub poses: Poses,
    /// The peaks as a table: template,rank,y,x,score, with --subpixel template,rank,y,x,refined_y,refined_x,score;
    /// z,y,x in volumes, x in signals; of poses template,rank,y,x,angle,scale,score, where y,x is the middle
    #[arg(long = "peaks", value_name = "OUT.csv")]
    pub table: Option<PathBuf>,
    /// The image with a numbered box around each peak, lettered where there are several templates: of a volume the
    /// slice of the best and all slices together, of a line a plot of signal and scores. A number without
    /// room is left out
    #[arg(long, value_name = "OUT.png")]
    pub annotate: Option<PathBuf>,
}

/// How templates may stand in an image, beside as they are.
#[derive(Clone, Copy, Debug, Args)]
pub struct Poses {
    /// Templates may be turned by these degrees, counterclockwise about their middle: 0:360:5, one as 30, or 0:360 in
    /// even steps by which no sample of the template moves further than one. Peaks are told as `rank middle score
    /// angle A scale S`, at most --top of all poses together, and of those near each other the best. For zncc, ncc and
    /// nssd in mode valid; with --mask, not with -o, --heatmap, --tile, --roi, --image-mask, --exclusive or --count
    #[arg(long, value_name = "FROM:TO[:STEP]", allow_hyphen_values = true)]
    pub rotate: Option<Sweep>,
    /// Templates may be so many times as large, from 1/64 to 64: 0.8:1.25:0.05, or 0.8:1.25 in even steps by which the
    /// template's ends move by one sample at most
    #[arg(long, value_name = "FROM:TO[:STEP]", allow_hyphen_values = true)]
    pub scale: Option<Sweep>,
    /// Look for poses in an image so many times smaller first, and follow the best there to the whole image: faster,
    /// and misses what the smaller image does not show. 8 samples of the template's smallest side must be left
    #[arg(long, value_name = "FACTOR")]
    pub coarse: Option<usize>,
    /// Look for each peak's pose between those of --rotate and --scale, in steps halved until the angle's are no larger
    /// than this
    #[arg(long, value_name = "DEGREES", value_parser = number, allow_hyphen_values = true)]
    pub finest: Option<f64>,
}

impl Poses {
    /// Whether any is asked for.
    pub fn asked(&self) -> bool {
        self.rotate.is_some() || self.scale.is_some() || self.coarse.is_some() || self.finest.is_some()
    }
}

/// Values from one to another, in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sweep {
    /// The first.
    pub from: f64,
    /// The last, or what it does not pass.
    pub to: f64,
    /// From one to the next; as fine as the template asks for without it.
    pub step: Option<f64>,
}

impl FromStr for Sweep {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Sweep, SpecError> {
        let wrong = || SpecError::new("range", "FROM:TO or FROM:TO:STEP, as 0:360:5", text);
        let parts = text.split(':').map(|part| part.trim().parse::<f64>().ok().filter(|value| value.is_finite()));
        match parts.collect::<Option<Vec<f64>>>().ok_or_else(wrong)?[..] {
            [value] => Ok(Sweep { from: value, to: value, step: Some(1.0) }),
            [from, to] => Ok(Sweep { from, to, step: None }),
            [from, to, step] => Ok(Sweep { from, to, step: Some(step) }),
            _ => Err(wrong()),
        }
    }
}

/// merge.
#[derive(Clone, Debug, Args)]
pub struct Merge {
    /// The .json files of all parts
    #[arg(value_name = "PART", required = true)]
    pub parts: Vec<PathBuf>,
    /// The result, a .npy file or a zarr array; of several templates numbered as match does it. The parts' .npy files
    /// lie where they were written, beside the .json files
    #[arg(short, long, value_name = "OUT.npy")]
    pub output: Option<PathBuf>,
    /// The peaks as a table, as match writes it
    #[arg(long = "peaks", value_name = "OUT.csv")]
    pub table: Option<PathBuf>,
}

/// The options that say which positions are told.
#[derive(Clone, Debug, Args)]
pub struct Peaks {
    /// At most so many peaks of each template [default: 1, or all that --threshold leaves]
    #[arg(long, value_name = "K", value_parser = at_least_one, allow_hyphen_values = true)]
    pub top: Option<usize>,
    /// Only scores at least as good as this: not below it, for ssd, nssd and sad not above it
    #[arg(long, value_name = "R", value_parser = number, allow_hyphen_values = true)]
    pub threshold: Option<f64>,
    /// How far from a peak, on every axis, there is no other [default: half the template's smallest side, at least 1]
    #[arg(long, value_name = "D", value_parser = count, allow_hyphen_values = true)]
    pub min_distance: Option<usize>,
    /// Leave no place to two templates: where their peaks are near, the better stays (of equal scores the earlier
    /// template's), and --top counts what stays. Near are boxes whose middles are no further apart, on every axis, than
    /// --min-distance, the larger of the two templates'
    #[arg(long)]
    pub exclusive: bool,
    /// Leave out so many positions at each end of every axis that has more than one; nothing is left of an axis of up
    /// to twice as many
    #[arg(long, default_value = "0", value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub exclude_border: usize,
    /// Tell how many positions attain the best score exactly, of all that --exclude-border leaves; --threshold, --top
    /// and --min-distance do not matter to it
    #[arg(long)]
    pub count: bool,
    /// Refine positions below a sample: by a paraboloid through the neighbours (quadratic), one through their
    /// logarithms (gauss), a spline of degree 3 (cubic) or 7 (septic) [without FIT: septic, the most exact]. One of
    /// these words behind --subpixel is the fit; a file of that name is ./cubic. A word that names no file is an error
    #[arg(
        long,
        value_name = "FIT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "septic",
        value_parser = offering::<Subpixel>(offered::FITS)
    )]
    pub subpixel: Option<Subpixel>,
}

/// stream.
#[derive(Clone, Debug, Args)]
pub struct Stream {
    /// The template, or several: a folder, or with --stack a file with one axis more than the frames
    pub template: PathBuf,
    /// Files, folders (their images in the order of their names), or - for frames on standard input [default: -]. A
    /// file of YUV4MPEG2 (8 bits, .y4m) has many frames, of which the luma is taken, as grey
    #[arg(value_name = "FRAMES")]
    pub frames: Vec<PathBuf>,
    /// Another template, folder or stack; may be given several times
    #[arg(long = "template", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Templates with one axis more than the image are stacks of templates along their slowest axis
    #[arg(long)]
    pub stack: bool,
    /// The raw frames on standard input, one behind another: u8:480x640. The type is u8, u16, f32, f64 (little-endian)
    /// or rgb24, in colour. YUV4MPEG2 on standard input needs none
    #[arg(long, value_name = "TYPE:SHAPE")]
    pub frame: Option<String>,
    /// A picture of each frame with its peaks, as match --annotate draws it (of a line without its scores), in numbered
    /// files: in the name %d stands for the number of the frame, from 0, %05d for the number in five digits
    #[arg(long, value_name = "OUT-%d.png")]
    pub annotate: Option<Pattern>,
    /// Extent and boundary.
    #[command(flatten)]
    pub extent: Extent,
    /// The measure
    #[arg(long, default_value = "zncc", value_name = MEASURES, value_parser = offering::<Measure>(offered::MEASURES))]
    pub measure: Measure,
    /// Weights of the template's samples, as for match
    #[arg(long, value_name = "MASK")]
    pub mask: Option<PathBuf>,
    /// What of the frames is known.
    #[command(flatten)]
    pub known: Known,
    /// What is looked for.
    #[command(flatten)]
    pub peaks: Peaks,
    /// Compute on the CPU what GPUs fail at, or everything where there is none, and tell it on standard error
    #[arg(long)]
    pub fall_back: bool,
}

/// local.
#[derive(Clone, Debug, Args)]
pub struct Local {
    /// sum, mean, var, min or max
    #[arg(value_parser = offering::<Stat>(offered::STATISTICS))]
    pub statistic: Stat,
    /// The image; - is standard input
    pub image: PathBuf,
    /// The window: 15x15
    #[arg(long, value_name = "SHAPE")]
    pub window: Shape,
    /// Extent and boundary.
    #[command(flatten)]
    pub extent: Extent,
    /// The result, in the format of the name: .npy, .tif (f32 or f64 samples; a page for each plane of a volume), .png
    /// (in colours), .csv (of a signal: a row for each position), .zarr (a folder; where flcc is built with the feature
    /// zarr). - is standard output, as .npy
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// conformance.
#[derive(Clone, Debug, Args)]
pub struct Conformance {
    /// A folder with an index.json
    pub folder: PathBuf,
    /// Print every case
    #[arg(long)]
    pub verbose: bool,
    /// Write every result into this folder, as ID.npy
    #[arg(long, value_name = "FOLDER")]
    pub results: Option<PathBuf>,
}

/// plan.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// What is to be computed, one or several.
    #[arg(required = true, value_name = "SPEC", help = SPEC)]
    pub specs: Vec<Spec>,
    /// Tell what was considered, at which cost, and why this was chosen
    #[arg(long)]
    pub explain: bool,
}

/// bench.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("count", |arg| arg.conflicts_with("specs")), mut_arg("seed", |arg| arg.conflicts_with("specs")))]
pub struct Bench {
    /// What is to be computed, one or several.
    #[arg(required_unless_present = "grid", value_name = "SPEC", help = SPEC)]
    pub specs: Vec<Spec>,
    /// Judge plans: time what efforts estimate and measure choose for the specs, or for made-up ones where none is
    /// given, beside the best of each method
    #[arg(long, conflicts_with_all = ["pairs", "seconds"])]
    pub grid: bool,
    /// Which specs are made up.
    #[command(flatten)]
    pub drawing: Drawing,
    /// Leave out so many of the made-up specs, the first: a long grid may be judged in several calls
    #[arg(long, value_name = "N", value_parser = count, default_value = "0", requires = "grid",
        conflicts_with = "specs", allow_hyphen_values = true)]
    pub skip: usize,
    /// For how long to repeat
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = number, allow_hyphen_values = true)]
    pub seconds: f64,
    /// Give each image of the spec a template of its own, bound whenever it is run, as the option pairs of a spec does
    #[arg(long)]
    pub pairs: bool,
    /// Bind the templates in each run, as a call for images that come alone does
    #[arg(long, conflicts_with_all = ["grid", "pairs"])]
    pub bind: bool,
    /// Check so many positions, the corners and tile seams besides, however little a check of all would take
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_hyphen_values = true, conflicts_with = "grid")]
    pub positions: Option<usize>,
    /// Lay image and results on the GPU, and time its kernels by its own clock besides the call
    #[arg(long, conflicts_with_all = ["grid", "pairs", "bind", "direct_copies"])]
    pub resident: bool,
    /// Leave copies to and from GPUs to the driver, to see what staging them gains
    #[arg(long, hide = true)]
    pub direct_copies: bool,
}

/// The options that say which specs are made up.
#[derive(Clone, Debug, Args)]
pub struct Drawing {
    /// How many specs are made up
    #[arg(long, default_value = "200", value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub count: usize,
    /// What they are made up from: other seeds, other specs
    #[arg(long, default_value = "1", value_name = "SEED", value_parser = count, allow_hyphen_values = true)]
    pub seed: usize,
}

/// tune.
#[derive(Clone, Debug, Args)]
pub struct Tune {
    /// Specs whose plans are measured besides and kept with the costs, one or several
    #[arg(value_name = "SPEC", requires = "wisdom", conflicts_with = "unroll")]
    pub specs: Vec<Spec>,
    /// Which specs are made up.
    #[command(flatten)]
    pub drawing: Drawing,
    /// Show what would be timed and about how long that takes, and time nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write the time and the work of every offer as CSV, spec by spec; what such a file has is not timed again
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Time kernels that are made for one template size beside those for any, and nothing else; with --platform cuda
    /// those of the GPU
    #[arg(long, conflicts_with = "samples")]
    pub unroll: bool,
}

/// wisdom.
#[derive(Clone, Debug, Subcommand)]
pub enum Wisdom {
    /// Show what is known
    #[command(after_help = BELOW_SHOW)]
    Show,
    /// Take over what other files know; of two timings of one thing the faster stays
    #[command(after_help = BELOW_WISDOM_MERGE)]
    Merge {
        /// Wisdom files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Forget what is known: all of it, of one machine, or of specs that begin with a text
    #[command(after_help = BELOW_FORGET)]
    Forget {
        /// Only of the machine with this fingerprint
        #[arg(long, conflicts_with = "spec")]
        machine: Option<String>,
        /// Only of specs that begin so: zncc:f32:
        #[arg(long)]
        spec: Option<String>,
    },
}

/// The arguments with `--subpixel FIT` as `--subpixel=FIT`, so that what follows a bare `--subpixel` is not its value;
/// behind `--` there are no options. A word that is neither a fit nor the name of a file, as a misspelt fit, is taken
/// for one, so that the error names the option.
pub fn with_fits(mut args: impl Iterator<Item = OsString>, is_file: impl Fn(&OsStr) -> bool) -> Vec<OsString> {
    let misspelt = |arg: &OsStr| {
        let letters = arg.to_str().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_alphabetic()));
        letters && !is_file(arg)
    };
    let mut joined: Vec<OsString> = Vec::new();
    while let Some(arg) = args.next() {
        if arg == "--" {
            joined.push(arg);
            joined.extend(args);
            break;
        }
        let fit = arg.to_str().filter(|text| text.parse::<Subpixel>().is_ok() || misspelt(&arg));
        match (joined.last_mut(), fit) {
            (Some(last), Some(fit)) if last == "--subpixel" => last.push(format!("={fit}")),
            _ => joined.push(arg),
        }
    }
    joined
}

/// The arguments with `help` where clap's own takes it: in front of the command's words, as in `help wisdom show` for
/// `wisdom help show`, and without the option that asks for the same.
pub fn with_help(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.len() > 2 && args[1] == "wisdom" && args[2] == "help" {
        args.swap(1, 2);
    }
    if args.len() > 2 && args[1] == "help" {
        args.retain(|arg| arg != "--help" && arg != "-h");
        if args.len() == 2 {
            args.push("help".into());
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_offered_is_accepted_and_all_that_is() {
        fn told<T: FromStr<Err = SpecError>>(names: &[&str]) {
            assert!(names.iter().all(|name| name.parse::<T>().is_ok()), "{names:?}");
            let Some(error) = "?".parse::<T>().err() else { panic!("{names:?}") };
            let (most, last) = (names[..names.len() - 1].join(", "), names[names.len() - 1]);
            assert!(error.expected.starts_with(&format!("{most} or {last}")), "{error}");
        }
        told::<Method>(offered::METHODS);
        told::<Platform>(offered::PLATFORMS);
        told::<Effort>(offered::EFFORTS);
        told::<Precision>(offered::PRECISIONS);
        told::<Accuracy>(offered::ACCURACIES);
        told::<Mode>(offered::MODES);
        told::<Measure>(offered::MEASURES);
        told::<Stat>(offered::STATISTICS);
        assert_eq!(MEASURES, offered::MEASURES.join("|"));
        assert_eq!(Subpixel::ALL.map(Subpixel::name), offered::FITS);
        let error = Boundary::named("?", 0.0).unwrap_err();
        assert!(error.expected.starts_with(&offered::BOUNDARIES.join(", ").replace(", wrap", " or wrap")), "{error}");
        assert!(offered::BOUNDARIES.iter().all(|name| Boundary::named(name, 1.0).is_ok()));
        let command = Cli::command();
        assert_eq!(command.get_subcommands().map(clap::Command::get_name).collect::<Vec<_>>(), offered::COMMANDS);
    }

    #[test]
    fn a_fit_is_joined_to_its_option() {
        let joined = |text: &str| {
            let joined = with_fits(text.split(' ').map(OsString::from), |name| name == "x").into_iter();
            joined.map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(joined("flcc --subpixel cubic x"), "flcc --subpixel=cubic x");
        assert_eq!(joined("flcc --subpixel ./cubic cubic"), "flcc --subpixel ./cubic cubic");
        assert_eq!(joined("flcc a -- --subpixel cubic"), "flcc a -- --subpixel cubic");
        assert_eq!(joined("flcc --subpixel x y"), "flcc --subpixel x y");
        assert_eq!(joined("flcc --subpixel cubik x"), "flcc --subpixel=cubik x");
        assert_eq!(joined("flcc --subpixel cubik.png --subpixel -"), "flcc --subpixel cubik.png --subpixel -");
    }

    #[test]
    fn bytes_with_units() {
        assert_eq!("64M".parse::<Bytes>().unwrap(), Bytes(64 << 20));
        assert_eq!("64MiB".parse::<Bytes>().unwrap(), Bytes(64 << 20));
        assert_eq!("4096".parse::<Bytes>().unwrap(), Bytes(4096));
        assert_eq!("1.5G".parse::<Bytes>().unwrap(), Bytes(3 << 29));
        assert_eq!("0.0009k".parse::<Bytes>().unwrap(), Bytes(0));
        assert_eq!("1.001K".parse::<Bytes>().unwrap(), Bytes(1025));
        assert_eq!("0.3333333333333333333333333M".parse::<Bytes>().unwrap(), Bytes(349_525));
        for wrong in [
            "",
            "K",
            "1.5",
            ".5G",
            "1.G",
            "1.2.3G",
            "1.-5G",
            "+1G",
            "-1",
            "1e9",
            "99999999999999999999",
            "18446744073709551615G",
            "ß",
        ] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_constant_has_its_value() {
        let extent = |boundary: &str, cval: Option<f64>| {
            Extent { mode: None, boundary: boundary.into(), cval, reading: Reading::default() }.boundary()
        };
        assert_eq!(extent("constant", Some(-2.5)).unwrap(), Boundary::Constant(-2.5));
        assert_eq!(extent("constant(3)", None).unwrap(), Boundary::Constant(3.0));
        assert_eq!(extent("symmetric", None).unwrap(), Boundary::Reflect);
        assert!(extent("reflect", Some(1.0)).is_err());
        assert!(extent("constant", Some(f64::NAN)).is_err());
        assert!(extent("bounce", None).is_err());
    }
}
