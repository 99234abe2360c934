//! The conformance vectors, judged as `run_vectors.py` judges them: a folder with an index.json, in this process.
//!
//! A case passes if `abs(got - expected) <= atol * cond^power` everywhere, by the tolerance of the output's type;
//! non-finite positions must agree, nssd is compared after `min(1, .)`, and a case that names an error must give that
//! one. A refusal by a forced method or platform is a skip, and so is a case that expects neither a result nor an
//! error: with a folder for results another program judges it. A case may say for itself how it is computed: `method`,
//! `kernel`, `threads`, `memory_limit`, `precision` and `accuracy`, in the words of the command line, and `roi`, in
//! coordinates of the full result as in a spec; what it does not say holds for the whole folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flcc_runtime::account::Outcome;
use flcc_runtime::core::key::KernelKey;
use flcc_runtime::rooms::files;
use flcc_runtime::{Accuracy, DType, Kind, Measure, Method, Mode, Op, Planner, Region, ScoreMap, SpecError};
use serde_json::Value;

use crate::args::{Bytes, Extent, Precision};
use crate::data::{Image, Problem, open_mask};
use crate::error::Error;
use crate::io;
use crate::outputs::{Holds, Inputs, Output};
use crate::reading::Reading;

/// The most bytes that are read as an index: 64 MiB.
const MOST_BYTES: usize = 64 << 20;

/// How the cases are computed.
#[derive(Clone)]
pub struct Options {
    /// The planner, with its method, platform, threads and memory limit.
    pub planner: Planner,
    /// The type of the results, if not the one that follows from the arrays.
    pub precision: Option<DType>,
    /// What is promised.
    pub accuracy: Accuracy,
    /// Where to write every result, as `ID.npy`.
    pub results: Option<PathBuf>,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Within its tolerance, or the error that was due.
    Pass,
    /// Not.
    Fail(String),
    /// Not judged: a refusal, or no tolerance for this type.
    Skip(String),
}

/// A case and its result.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Its name.
    pub id: String,
    /// Operation, measure and dimensions.
    pub group: String,
    /// What became of it.
    pub state: State,
    /// The largest error over its tolerance; `None` where nothing was compared.
    pub ratio: Option<f64>,
    /// The largest absolute error.
    pub error: Option<f64>,
    /// The kernel that computed it.
    pub kernel: Option<String>,
    /// The kernels that could have.
    pub kernels: Vec<String>,
    /// The exit status of a command that computes it: not 0 where there is no result.
    pub status: u8,
}

/// All cases of a folder.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the index.
    pub cases: Vec<CaseResult>,
}

impl Report {
    /// How many cases passed, failed and were skipped.
    pub fn counts(&self) -> [usize; 3] {
        counts(self.cases.iter())
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &CaseResult> {
        self.cases.iter().filter(|case| matches!(case.state, State::Fail(_)))
    }

    /// The cases that were skipped, with the reason.
    pub fn skips(&self) -> impl Iterator<Item = (&CaseResult, &str)> {
        self.cases
            .iter()
            .filter_map(|case| if let State::Skip(reason) = &case.state { Some((case, reason.as_str())) } else { None })
    }

    /// The groups with their counts and worst ratio.
    pub fn groups(&self) -> Vec<(String, [usize; 3], f64)> {
        let mut groups: BTreeMap<&str, Vec<&CaseResult>> = BTreeMap::new();
        for case in &self.cases {
            groups.entry(&case.group).or_default().push(case);
        }
        let worst = |cases: &[&CaseResult]| cases.iter().filter_map(|case| case.ratio).fold(0.0, f64::max);
        groups.iter().map(|(name, cases)| ((*name).to_string(), counts(cases.iter().copied()), worst(cases))).collect()
    }

    /// The case with the largest error over its tolerance.
    pub fn worst(&self) -> Option<&CaseResult> {
        self.cases
            .iter()
            .filter(|case| case.ratio.is_some())
            .max_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)))
    }
}

fn counts<'a>(cases: impl Iterator<Item = &'a CaseResult>) -> [usize; 3] {
    let mut counts = [0; 3];
    for case in cases {
        counts[match case.state {
            State::Pass => 0,
            State::Fail(_) => 1,
            State::Skip(_) => 2,
        }] += 1;
    }
    counts
}

/// The last line of a run: `RESULT cases N pass N fail N skip N; worst error E = R x tolerance (ID)`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [pass, fail, skip] = self.counts();
        write!(f, "RESULT cases {} pass {pass} fail {fail} skip {skip}; ", self.cases.len())?;
        match self.worst() {
            Some(case) => {
                write!(
                    f,
                    "worst error {:.3e} = {:.3} x tolerance ({})",
                    case.error.unwrap_or(f64::INFINITY),
                    case.ratio.unwrap_or(f64::INFINITY),
                    case.id
                )
            }
            None => f.write_str("no case scored"),
        }
    }
}

/// Runs every case of a folder; `each` is called after each of them with the number of all.
///
/// # Errors
/// An index that is not read or not understood. A case that fails is a result, not an error.
pub fn run(folder: &Path, options: &Options, mut each: impl FnMut(&CaseResult, usize)) -> Result<Report, Error> {
    let path = folder.join("index.json");
    let wrong =
        |got: &str| Error::Failed(format!("index {path:?}: expected an object with a list of cases, got {got}"));
    let text = read_text(&path)
        .map_err(|error| Error::Failed(format!("index {path:?}: expected a readable file, got: {error}")))?;
    let index: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    let cases = index.get("cases").and_then(Value::as_array).ok_or_else(|| wrong("no list named cases"))?;
    let whole = |(case, number)| {
        let lacking = || wrong(&format!("case {number} without id, op, dims, mode, boundary, image or template"));
        Case::new(case).ok_or_else(lacking)
    };
    let cases = cases.iter().zip(0..).map(whole).collect::<Result<Vec<Case<'_>>, Error>>()?;
    check_results(&cases, &path, folder, options)?;
    let mut report = Report::default();
    for case in &cases {
        let result = case.run(folder, options);
        each(&result, cases.len());
        report.cases.push(result);
    }
    Ok(report)
}

/// Refuses results that would replace a file of a case or another result, or lie elsewhere than they were asked for.
fn check_results(cases: &[Case<'_>], index: &Path, folder: &Path, options: &Options) -> Result<(), Error> {
    let Some(results) = &options.results else { return Ok(()) };
    let mut inputs = Inputs::new();
    inputs.add("the index", index);
    let mut outputs = Vec::new();
    for case in cases {
        if Path::new(case.id).file_name() != Some(case.id.as_ref()) {
            return Err(SpecError::new("id", "the name of a file, since results are asked for", case.id).into());
        }
        let others = ["mask", "expected"].into_iter().filter_map(|name| case.text(name));
        for file in [case.image, case.template].into_iter().chain(others) {
            inputs.add(&format!("case {:?}", case.id), &folder.join(file));
        }
        outputs.push(Output { argument: "--results", path: case.result(results), holds: Holds::Result });
    }
    inputs.check(&outputs)
}

/// A file of text, as far as that has an end.
fn read_text(path: &Path) -> std::io::Result<String> {
    let bytes = files::read_bounded(path, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()))
}

/// The name that the conventions have for an error.
fn name_of(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::EmptyInput => "empty_input",
        Kind::DimsMismatch => "dims_mismatch",
        Kind::TemplateLargerThanImage => "template_larger_than_image",
        Kind::ConstantTemplate => "constant_template",
        Kind::ZeroTemplate => "zero_template",
        Kind::NonfiniteTemplate => "nonfinite_template",
        Kind::MaskShape => "mask_shape",
        Kind::MaskInvalid => "mask_invalid",
        Kind::Invalid | Kind::NotExact => return None,
    })
}

/// A kernel by its name.
fn kernel_named(name: &str) -> Result<KernelKey, Error> {
    name.parse()
        .map_err(|_| Error::from(SpecError::new("kernel", "the name of a kernel, as flcc plan prints it", name)))
}

/// A case as the index has it.
struct Case<'a> {
    fields: &'a Value,
    id: &'a str,
    op: &'a str,
    mode: &'a str,
    boundary: &'a str,
    image: &'a str,
    template: &'a str,
}

/// A result, or why there is none.
struct Computed {
    map: ScoreMap,
    kernel: String,
    kernels: Vec<String>,
}

impl<'a> Case<'a> {
    fn new(fields: &'a Value) -> Option<Case<'a>> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        Some(Case {
            fields,
            id: text("id")?,
            op: text("op")?,
            mode: text("mode")?,
            boundary: text("boundary")?,
            image: text("image")?,
            template: text("template")?,
        })
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// `match-zncc 2d`.
    fn group(&self) -> String {
        let measure =
            self.text("measure").filter(|_| self.op == "match").map_or(String::new(), |measure| format!("-{measure}"));
        let dims = self.fields.get("dims").and_then(Value::as_u64).unwrap_or(0);
        format!("{}{measure} {dims}d", self.op)
    }

    fn run(&self, folder: &Path, options: &Options) -> CaseResult {
        let (ratio, error, kernel, kernels) = (None, None, None, Vec::new());
        let mut result = CaseResult {
            id: self.id.into(),
            group: self.group(),
            state: State::Pass,
            ratio,
            error,
            kernel,
            kernels,
            status: 0,
        };
        let due = self.text("error");
        let computed = self.compute(folder, options).and_then(|computed| self.save(computed, options));
        result.status = computed.as_ref().map_or_else(Error::status, |_| 0);
        match (computed, due) {
            (Ok(computed), None) => {
                (result.kernel, result.kernels) = (Some(computed.kernel), computed.kernels);
                match self.judge(folder, &computed.map) {
                    Ok(judged) => {
                        (result.ratio, result.error) = (judged.ratio, judged.error);
                        result.state = judged.state;
                    }
                    Err(error) => result.state = State::Fail(error.to_string()),
                }
            }
            (Ok(computed), Some(due)) => {
                result.state =
                    State::Fail(format!("a result of shape {}, an error was due: {due}", computed.map.shape()))
            }
            (Err(error), Some(due)) if error.spec().and_then(|error| name_of(error.kind)) == Some(due) => {}
            (Err(error), _) if error.is_refusal() => result.state = State::Skip(format!("refused: {error}")),
            (Err(error), due) => {
                let due = due.map_or(String::new(), |due| format!("the error {due} was due, got: "));
                result.state = State::Fail(format!("{due}{error}"));
                result.ratio = Some(f64::INFINITY);
            }
        }
        result
    }

    /// The file of its result.
    fn result(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.npy", self.id))
    }

    /// Writes a result, where results are asked for.
    fn save(&self, computed: Computed, options: &Options) -> Result<Computed, Error> {
        if let Some(folder) = &options.results {
            let path = self.result(folder);
            io::save_npy(&path, computed.map.shape().lengths(), computed.map.data()).map_err(Error::io("--results"))?;
        }
        Ok(computed)
    }

    /// What the case says for itself; `None` where it does not.
    fn own<T: FromStr<Err = SpecError>>(&self, name: &str) -> Result<Option<T>, Error> {
        Ok(self.text(name).map(str::parse).transpose()?)
    }

    /// The planner of this case.
    fn planner(&self, options: &Options) -> Result<Planner, Error> {
        let mut planner = options.planner.clone();
        if let Some(method) = self.own::<Method>("method")? {
            planner = planner.method(method);
        }
        if let Some(threads) = self.fields.get("threads").and_then(Value::as_u64) {
            planner = planner.threads(usize::try_from(threads).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = self.own::<Bytes>("memory_limit")? {
            planner = planner.memory_limit(Some(bytes.0));
        }
        Ok(planner)
    }

    fn compute(&self, folder: &Path, options: &Options) -> Result<Computed, Error> {
        let op = match self.op {
            "match" => Op::Match(self.text("measure").unwrap_or("zncc").parse::<Measure>()?).canonical(),
            name => name.parse::<Op>()?,
        };
        let cval = self.fields.get("cval").and_then(Value::as_f64).filter(|_| self.boundary == "constant");
        let extent = Extent { mode: None, boundary: self.boundary.into(), cval, reading: Reading::default() };
        let problem = Problem {
            op,
            mode: self.mode.parse::<Mode>()?,
            boundary: extent.boundary()?,
            precision: self.own::<Precision>("precision")?.map(|precision| precision.0).or(options.precision),
            accuracy: self.own::<Accuracy>("accuracy")?.unwrap_or(options.accuracy),
            roi: self.own::<Region>("roi")?,
        };
        let image = Image::open("image", &folder.join(self.image), &Reading::default())?;
        let template = Image::open("template", &folder.join(self.template), &Reading::default())?;
        let mask =
            self.text("mask").map(|name| open_mask("--mask", &folder.join(name), &Reading::default())).transpose()?;
        let (image, template, mask) = (image.view()?, template.view()?, mask.as_ref().map(Image::view).transpose()?);
        let spec = problem.spec(&image, &template, 1, mask.as_ref())?;
        let planner = self.planner(options)?;
        let plan = match self.text("kernel") {
            Some(name) => planner.plan_with_kernel(&spec, &kernel_named(name)?)?,
            None => planner.plan(&spec)?,
        };
        let served = plan
            .candidates()
            .iter()
            .filter(|candidate| !matches!(candidate.outcome, Outcome::Refused(_) | Outcome::Failed(_)));
        let kernels = served.map(|candidate| candidate.kernel.clone()).collect();
        let matcher = plan.bind(&[template], mask.as_ref().map(|mask| mask as _))?;
        let kernel = matcher.kernel().to_string();
        match matcher.execute(&[image])?.pop() {
            Some(map) => Ok(Computed { map, kernel, kernels }),
            None => Err(Error::Failed("execution: expected a result, got none".into())),
        }
    }

    fn judge(&self, folder: &Path, map: &ScoreMap) -> Result<Judged, Error> {
        let Some(expected) = self.text("expected") else {
            return Ok(Judged { state: State::Skip("it expects no result".into()), ratio: None, error: None });
        };
        let expected = io::load(&folder.join(expected)).map_err(Error::io("expected"))?;
        if expected.shape != map.shape().lengths() {
            return Ok(Judged::fail(
                f64::INFINITY,
                format!("shape {:?}, expected {:?}", map.shape().lengths(), expected.shape),
            ));
        }
        let precision = map.data().dtype();
        let tolerance = self.fields.get("tol").and_then(|tolerances| tolerances.get(precision.name()));
        let number = |name: &str| tolerance.and_then(|tolerance| tolerance.get(name)).and_then(Value::as_f64);
        let (Some(atol), Some(power)) = (number("atol"), number("power")) else {
            return Ok(Judged {
                state: State::Skip(format!("no {precision} claim for this case")),
                ratio: None,
                error: None,
            });
        };
        let expected = expected.pixels.to_f64();
        let cond = match self.text("cond") {
            Some(name) => io::load(&folder.join(name)).map_err(Error::io("cond"))?.pixels.to_f64(),
            None => vec![1.0],
        };
        if cond.len() != 1 && cond.len() != expected.len() {
            return Err(Error::Failed(format!(
                "case: expected {} condition numbers, got {}",
                expected.len(),
                cond.len()
            )));
        }
        let nssd = self.op == "match" && self.text("measure") == Some("nssd");
        let (mut worst, mut largest, mut worst_at, mut outside) = (0.0f64, 0.0f64, 0, 0);
        for (index, &wanted) in expected.iter().enumerate() {
            let got = map.get(index);
            let got = if nssd && got.is_finite() { got.min(1.0) } else { got };
            let place = || map.shape().unpad(&map.shape().position(index));
            match (got.is_finite(), wanted.is_finite()) {
                (true, false) => {
                    return Ok(Judged::fail(
                        f64::INFINITY,
                        format!("the finite value {got} where a panel touches NaN or an infinity, at {:?}", place()),
                    ));
                }
                (false, true) => {
                    return Ok(Judged::fail(f64::INFINITY, format!("{got} instead of {wanted} at {:?}", place())));
                }
                (false, false) => continue,
                (true, true) => {}
            }
            let error = (got - wanted).abs();
            let limit = atol * cond[if cond.len() == 1 { 0 } else { index }].powf(power);
            let ratio = if error == 0.0 { 0.0 } else { error / if limit > 0.0 { limit } else { f64::MIN_POSITIVE } };
            largest = largest.max(error);
            outside += usize::from(ratio.is_nan() || ratio > 1.0);
            if ratio > worst {
                (worst, worst_at) = (ratio, index);
            }
        }
        if outside > 0 {
            let place = map.shape().unpad(&map.shape().position(worst_at));
            let message = format!(
                "error {:.3e} at {place:?} is {worst:.3} x tolerance ({precision}), got {}, expected {}; \
                 {outside} of {} values out",
                (map.get(worst_at) - expected[worst_at]).abs(),
                map.get(worst_at),
                expected[worst_at],
                expected.len()
            );
            return Ok(Judged { state: State::Fail(message), ratio: Some(worst), error: Some(largest) });
        }
        Ok(Judged { state: State::Pass, ratio: Some(worst), error: Some(largest) })
    }
}

struct Judged {
    state: State,
    ratio: Option<f64>,
    error: Option<f64>,
}

impl Judged {
    fn fail(ratio: f64, message: String) -> Judged {
        Judged { state: State::Fail(message), ratio: Some(ratio), error: Some(ratio) }
    }
}
