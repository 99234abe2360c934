//! What measuring found out, kept as text: for a machine, a source hash, a spec and a number of threads, the *name* of
//! the kernel that won and the times of all that took part.
//!
//! Never a pixel, never an index into a table, and nothing is taken on trust: every line is checked when it is read,
//! and a file that is not whole is an error. Whether a name still is a kernel here is the planner's question.
//!
//! ```text
//! flcc-wisdom 2
//! # comments and blank lines anywhere below
//! machine x86_64/intel-xeon/avx2+portable/2cores/flcc-0.1.0 flcc-0.1.0-9f3c2ad018b36475
//! costs<TAB>tap_f32=0.0119<TAB>tile=410.5
//! plan<TAB>zncc:f32:2000x2000*16x16:valid<TAB>threads=2<TAB>corr_f32_16x16_avx2<TAB>least_ns=8123456
//!     <TAB>workers=2<TAB>fourier_f32_any_rustfft=9000123
//! end 1
//! ```
//!
//! `workers` is how many of the threads the winner took the least time with, where others were tried.
//! The last line counts the entries, costs among them, so that a file cut short is noticed. `costs` is what
//! `flcc tune` found that kinds of work cost there, in nanoseconds.
//!
//! A file may have many writers, processes and threads. Each changes it in its turn ([`Wisdom::update`]), so that none
//! loses what another wrote; readers need no turn, for a file is replaced whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flcc_core::error::SpecError;
use flcc_core::key::KernelKey;
use flcc_core::spec::Spec;
use thiserror::Error;

use crate::files::{self, Turn};
use crate::plan::cost::{Costs, TERMS, Term};

/// The first line of a file.
const HEADER: &str = "flcc-wisdom 2";

/// What stands between a machine's fingerprint and which offers alone were timed: `method=direct`.
pub(crate) const ONLY: &str = "/only:";

/// The most bytes that are read as wisdom: 64 MiB, a hundred thousand plans.
const MOST_BYTES: usize = 64 << 20;

/// How long a writer waits for its turn, which others have for milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that is known, of any number of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wisdom {
    entries: BTreeMap<Key, Entry>,
    /// By machine and source hash.
    costs: BTreeMap<(String, String), NamedCosts>,
}

/// Nanoseconds by the names of terms ([`cost`](crate::plan::cost)), which other versions may call otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedCosts(BTreeMap<String, f64>);

// No cost is NaN.
impl Eq for NamedCosts {}

impl NamedCosts {
    /// The costs of a table.
    pub fn of(costs: &Costs) -> NamedCosts {
        NamedCosts(TERMS.iter().map(|term| (term.name().to_string(), costs.of(*term))).collect())
    }

    /// A table with these in the place of its own.
    #[must_use]
    pub fn over(&self, table: Costs) -> Costs {
        let known = |term: &Term| Some((*term, *self.0.get(term.name())?));
        TERMS.iter().filter_map(known).fold(table, |costs, (term, ns)| costs.with(term, ns))
    }
}

/// What an entry was measured for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The machine's fingerprint.
    pub machine: String,
    /// The hash of the sources that were timed.
    pub source: String,
    /// The spec's text.
    pub spec: String,
    /// The number of threads.
    pub threads: usize,
}

/// What was measured: the winner, and the others by their time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    kernel: KernelKey,
    least_ns: u64,
    /// How many threads it took least with; `None` where only its estimate knows.
    workers: Option<usize>,
    others: Vec<(KernelKey, u64)>,
}

/// Which entries are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget<'a> {
    /// All of them.
    All,
    /// The entries of the machine with this fingerprint.
    Machine(&'a str),
    /// The entries whose spec begins with this text: `zncc:`, `zncc:f32:2000x2000`.
    Spec(&'a str),
}

/// Why wisdom was not read or not written.
#[derive(Debug, Error)]
pub enum WisdomError {
    /// A line that is not wisdom.
    #[error("{}line {line}: {error}", prefix(file))]
    Line {
        /// The file, if it came from one.
        file: Option<PathBuf>,
        /// The line, from 1.
        line: usize,
        /// What was expected there and what came.
        error: SpecError,
    },
    /// A file that could not be read or written.
    #[error("{}: cannot {action} wisdom: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// `read` or `write`.
        action: &'static str,
        /// What the operating system said.
        #[source]
        error: io::Error,
    },
}

impl WisdomError {
    fn write(path: &Path) -> impl Fn(io::Error) -> WisdomError {
        let file = path.to_path_buf();
        move |error| WisdomError::File { file: file.clone(), action: "write", error }
    }
}

fn prefix(file: &Option<PathBuf>) -> String {
    file.as_ref().map_or("wisdom ".to_string(), |file| format!("{}: wisdom ", file.display()))
}

impl Entry {
    /// The winner with the least of its times, which decided, and the others that were timed, in any order.
    ///
    /// # Errors
    /// A key whose name does not read back as itself, or a kernel that stands there twice.
    pub fn new(kernel: KernelKey, least_ns: u64, mut others: Vec<(KernelKey, u64)>) -> Result<Entry, SpecError> {
        let mut names = BTreeSet::new();
        for key in std::iter::once(&kernel).chain(others.iter().map(|(key, _)| key)) {
            let name = key.to_string();
            if name.parse::<KernelKey>()? != *key {
                return Err(SpecError::new("kernel name", "a name that reads back as itself", name));
            }
            if !names.insert(name.clone()) {
                return Err(SpecError::new("kernel name", "each kernel once in an entry", name));
            }
        }
        others.sort_by_cached_key(|(key, ns)| (*ns, key.to_string()));
        Ok(Entry { kernel, least_ns, workers: None, others })
    }

    /// The entry with how many threads the winner took the least time with.
    #[must_use]
    pub fn with_workers(self, workers: usize) -> Entry {
        Entry { workers: Some(workers), ..self }
    }

    /// How many threads the winner took the least time with, where others were tried.
    pub fn workers(&self) -> Option<usize> {
        self.workers
    }

    /// The kernel that won.
    pub fn kernel(&self) -> &KernelKey {
        &self.kernel
    }

    /// The least of its times, in ns.
    pub fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// The others with their times, the fastest first.
    pub fn others(&self) -> &[(KernelKey, u64)] {
        &self.others
    }
}

impl Wisdom {
    /// Wisdom that knows nothing yet.
    pub fn new() -> Wisdom {
        Wisdom::default()
    }

    /// Reads a whole text.
    ///
    /// # Errors
    /// The first line that is not as described above, by its number. Also: a spec that is not in canonical form, two
    /// entries with one key, a machine that is begun twice, a number with a sign or leading zeros, an `end` that is
    /// missing or counts otherwise.
    pub fn parse(text: &str) -> Result<Wisdom, WisdomError> {
        let mut wisdom = Wisdom::new();
        let mut sections = BTreeSet::new();
        let mut section: Option<(String, String)> = None;
        let mut ended = false;
        let mut lines = text.lines().zip(1..);
        let at = |line: usize| move |error: SpecError| WisdomError::Line { file: None, line, error };
        let first = lines.next().map_or("", |(line, _)| line);
        if first != HEADER {
            return Err(at(1)(SpecError::new("header", HEADER, first)));
        }
        for (line, number) in lines {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if ended {
                return Err(at(number)(SpecError::new("line", "nothing after 'end'", line)));
            }
            let begun = || {
                let expected = "a 'machine' line before the first plan or costs";
                section.clone().ok_or_else(|| at(number)(SpecError::new("line", expected, line)))
            };
            if let Some(count) = line.strip_prefix("end ") {
                wisdom.check_end(count).map_err(at(number))?;
                ended = true;
            } else if let Some(machine) = line.strip_prefix("machine ") {
                let begun = machine_line(machine).map_err(at(number))?;
                if !sections.insert(begun.clone()) {
                    return Err(at(number)(SpecError::new("machine", "each machine and source hash once", machine)));
                }
                section = Some(begun);
            } else if let Some(plan) = line.strip_prefix("plan\t") {
                let (spec, threads, entry) = plan_line(plan).map_err(at(number))?;
                let (machine, source) = begun()?;
                if wisdom.entries.insert(Key { machine, source, spec, threads }, entry).is_some() {
                    return Err(at(number)(SpecError::new(
                        "plan",
                        "each spec and number of threads once in a machine",
                        line,
                    )));
                }
            } else if let Some(costs) = line.strip_prefix("costs\t") {
                let costs = costs_line(costs).map_err(at(number))?;
                if wisdom.costs.insert(begun()?, costs).is_some() {
                    return Err(at(number)(SpecError::new("costs", "costs once in a machine", line)));
                }
            } else {
                return Err(at(number)(SpecError::new(
                    "line",
                    "'machine ', 'costs<TAB>', 'plan<TAB>', 'end ', '#' or nothing",
                    line,
                )));
            }
        }
        if !ended {
            let error = SpecError::new("last line", format!("end {}", wisdom.len()), "the end of the text");
            return Err(at(text.lines().count() + 1)(error));
        }
        Ok(wisdom)
    }

    fn check_end(&self, count: &str) -> Result<(), SpecError> {
        if number(count, "end")? == self.len() as u64 {
            Ok(())
        } else {
            Err(SpecError::new("end", format!("{}, the number of entries above", self.len()), count))
        }
    }

    /// The text, sorted by machine, source, spec and threads. Reads back as the same wisdom.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        let of_plans = self.entries.keys().map(|key| (key.machine.clone(), key.source.clone()));
        let sections: BTreeSet<(String, String)> = of_plans.chain(self.costs.keys().cloned()).collect();
        for section in &sections {
            let (machine, source) = section;
            text.push_str(&format!("machine {machine} {source}\n"));
            if let Some(NamedCosts(costs)) = self.costs.get(section) {
                let costs: String = costs.iter().map(|(name, ns)| format!("\t{name}={ns}")).collect();
                text.push_str(&format!("costs{costs}\n"));
            }
            let first = Key { machine: machine.clone(), source: source.clone(), spec: String::new(), threads: 0 };
            let own = self.entries.range(first..);
            for (Key { spec, threads, .. }, Entry { kernel, least_ns, workers, others }) in
                own.take_while(|(key, _)| key.machine == *machine && key.source == *source)
            {
                let workers = workers.map_or(String::new(), |workers| format!("\tworkers={workers}"));
                let others: String = others.iter().map(|(other, ns)| format!("\t{other}={ns}")).collect();
                text.push_str(&format!(
                    "plan\t{spec}\tthreads={threads}\t{kernel}\tleast_ns={least_ns}{workers}{others}\n"
                ));
            }
        }
        text.push_str(&format!("end {}\n", self.len()));
        text
    }

    /// What work costs on this machine with these sources, where it was tuned.
    pub fn costs(&self, machine: &str, source: &str) -> Option<&NamedCosts> {
        self.costs.get(&(machine.to_string(), source.to_string()))
    }

    /// What it knows of a spec that a plan with this kernel did not take, in a sentence; `None` where it took what is
    /// known, or where nothing is.
    pub(crate) fn passed_over(
        &self,
        machine: &str,
        source: &str,
        spec: &Spec,
        threads: usize,
        taken: &KernelKey,
    ) -> Option<String> {
        if let Some(entry) = self.lookup(machine, source, spec, threads) {
            let kernel = entry.kernel();
            return (kernel != taken).then(|| {
                format!("wisdom of this spec is ignored: it names {kernel}, which is no offer here that may be taken")
            });
        }
        let text = spec.to_string();
        let others = self.entries.keys().filter(|key| key.spec == text);
        // The one that has most in common.
        let nearest =
            others.max_by_key(|key| (key.machine == machine, key.source == source, key.threads == threads))?;
        let only = nearest.machine.strip_prefix(machine).and_then(|rest| rest.strip_prefix(ONLY));
        let of = if let Some(only) = only {
            format!("{} alone", only.replace(ONLY, " and "))
        } else if nearest.machine != machine {
            format!("another machine, {}", nearest.machine)
        } else if nearest.source != source {
            format!("other code, {} and not {source}", nearest.source)
        } else {
            format!("{} threads and not {threads}", nearest.threads)
        };
        Some(format!("wisdom of this spec is ignored: it is of {of}"))
    }

    /// Why costs that were tuned on this machine are not taken, in a sentence.
    pub(crate) fn costs_passed_over(&self, machine: &str, source: &str) -> Option<String> {
        let of = |(of, _): &&(String, String)| of == machine;
        if self.costs(machine, source).is_some() {
            return None;
        }
        let (_, other) = self.costs.keys().find(of)?;
        Some(format!("costs that were tuned here are ignored: they are of other code, {other} and not {source}"))
    }

    /// Keeps what work costs, in the place of older costs.
    ///
    /// # Errors
    /// A fingerprint or a source hash that is not one word.
    pub fn insert_costs(&mut self, machine: &str, source: &str, costs: &Costs) -> Result<(), SpecError> {
        let section = (word(machine, "machine")?, word(source, "source hash")?);
        self.costs.insert(section, NamedCosts::of(costs));
        Ok(())
    }

    /// Reads a file; one without a byte, as `mktemp` makes it, knows nothing yet.
    ///
    /// # Errors
    /// As [`Wisdom::parse`], a file that cannot be read, has more than 64 MiB or is not UTF-8; each names the file.
    pub fn load(path: &Path) -> Result<Wisdom, WisdomError> {
        let file = || path.to_path_buf();
        let bytes = files::read_bounded(path, MOST_BYTES).map_err(|error| WisdomError::File {
            file: file(),
            action: "read",
            error,
        })?;
        if bytes.is_empty() {
            return Ok(Wisdom::new());
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            let got = format!("byte 0x{:02x}", bytes[error.valid_up_to()]);
            WisdomError::Line { file: Some(file()), line, error: SpecError::new("line", "UTF-8 text", got) }
        })?;
        Wisdom::parse(text).map_err(|error| match error {
            WisdomError::Line { line, error, .. } => WisdomError::Line { file: Some(file()), line, error },
            other => other,
        })
    }

    /// Writes a file, whole or not at all, in the place of what it held: [`Wisdom::update`] keeps that. Makes the
    /// folder if there is none.
    ///
    /// # Errors
    /// What the operating system refuses, a name that stands for something else than a file, a file that is read-only;
    /// each names the file.
    pub fn save(&self, path: &Path) -> Result<(), WisdomError> {
        Wisdom::turn(path).and_then(|(target, _turn)| self.replace(&target)).map_err(WisdomError::write(path))
    }

    /// Changes what a file holds: reads it, changes it, and writes it as [`Wisdom::save`] does, while no other writer
    /// does. A file that is not there holds nothing; one that is the same afterwards is not written. Returns what the
    /// file holds now, with what `change` returned.
    ///
    /// # Errors
    /// As [`Wisdom::load`] and [`Wisdom::save`]; other writers that leave no turn for a minute.
    pub fn update<T>(path: &Path, change: impl FnOnce(&mut Wisdom) -> T) -> Result<(Wisdom, T), WisdomError> {
        let (target, _turn) = Wisdom::turn(path).map_err(WisdomError::write(path))?;
        let before = match Wisdom::load(&target) {
            Err(WisdomError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read?),
        };
        let mut wisdom = before.clone().unwrap_or_default();
        let told = change(&mut wisdom);
        if before.as_ref() != Some(&wisdom) {
            wisdom.replace(&target).map_err(WisdomError::write(path))?;
        }
        Ok((wisdom, told))
    }

    /// The file that a name stands for, with the turn to write it.
    fn turn(path: &Path) -> io::Result<(PathBuf, Turn)> {
        if let Ok(meta) = fs::metadata(path)
            && !meta.is_file()
        {
            let expected = format!("expected a file, or none yet, got {}", files::kind(&meta));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, expected));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let target = files::target(path)?;
        let turn = Turn::wait(&target, PATIENCE)?;
        Ok((target, turn))
    }

    fn replace(&self, target: &Path) -> io::Result<()> {
        files::replace(target, |file| {
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()
        })
    }

    /// Takes over what changed from `before` to `after`, two states of one planner's wisdom. Where this has come to
    /// hold something else than `before` had, of the two timings the faster stays.
    pub fn follow(&mut self, before: &Wisdom, after: Wisdom) {
        let changed = after.entries.into_iter().filter(|(key, entry)| before.entries.get(key) != Some(entry));
        let changed = Wisdom { entries: changed.collect(), costs: BTreeMap::new() };
        self.entries
            .retain(|key, entry| !(changed.entries.contains_key(key) && before.entries.get(key) == Some(entry)));
        self.merge(changed);
        let tuned = after.costs.into_iter().filter(|(section, costs)| before.costs.get(section) != Some(costs));
        self.costs.extend(tuned);
    }

    /// Takes over what another knows. Of two entries with one key the smaller time stays; equal ones leave this one, as
    /// costs do.
    pub fn merge(&mut self, other: Wisdom) {
        for (section, costs) in other.costs {
            self.costs.entry(section).or_insert(costs);
        }
        for (key, entry) in other.entries {
            match self.entries.get(&key) {
                Some(known) if known.least_ns <= entry.least_ns => {}
                _ => {
                    self.entries.insert(key, entry);
                }
            }
        }
    }

    /// Forgets some entries and says how many.
    pub fn forget(&mut self, filter: Forget<'_>) -> usize {
        let before = self.len();
        self.entries.retain(|key, _| match filter {
            Forget::All => false,
            Forget::Machine(machine) => key.machine != machine,
            Forget::Spec(prefix) => !key.spec.starts_with(prefix),
        });
        self.costs.retain(|(machine, _), _| match filter {
            Forget::All => false,
            Forget::Machine(forgotten) => machine != forgotten,
            Forget::Spec(_) => true,
        });
        before - self.len()
    }

    /// What won for this spec with so many threads, on this machine and with these sources.
    pub fn lookup(&self, machine: &str, source: &str, spec: &Spec, threads: usize) -> Option<&Entry> {
        self.entries.get(&Key { machine: machine.into(), source: source.into(), spec: spec.to_string(), threads })
    }

    /// Keeps an entry, in the place of an older one with the same key, which is returned.
    ///
    /// # Errors
    /// A fingerprint or a source hash that is not one word, no threads.
    pub fn insert(
        &mut self,
        machine: &str,
        source: &str,
        spec: &Spec,
        threads: usize,
        entry: Entry,
    ) -> Result<Option<Entry>, SpecError> {
        word(machine, "machine")?;
        word(source, "source hash")?;
        if threads == 0 {
            return Err(SpecError::new("threads", "at least 1", threads));
        }
        Ok(self
            .entries
            .insert(Key { machine: machine.into(), source: source.into(), spec: spec.to_string(), threads }, entry))
    }

    /// All entries in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The number of entries and of tables of costs.
    pub fn len(&self) -> usize {
        self.entries.len() + self.costs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `FINGERPRINT SOURCEHASH`.
fn machine_line(text: &str) -> Result<(String, String), SpecError> {
    let (machine, source) =
        text.split_once(' ').ok_or_else(|| SpecError::new("machine", "FINGERPRINT SOURCEHASH", text))?;
    Ok((word(machine, "machine")?, word(source, "source hash")?))
}

/// `SPEC<TAB>threads=N<TAB>KERNEL<TAB>least_ns=N[<TAB>workers=N][<TAB>KERNEL=N...]`.
fn plan_line(text: &str) -> Result<(String, usize, Entry), SpecError> {
    let fields: Vec<&str> = text.split('\t').collect();
    let [spec, threads, kernel, least, others @ ..] = &fields[..] else {
        let expected = "SPEC<TAB>threads=N<TAB>KERNEL<TAB>least_ns=N[<TAB>workers=N][<TAB>KERNEL=N...]";
        return Err(SpecError::new("plan", expected, text));
    };
    let canonical = spec.parse::<Spec>()?.to_string();
    if canonical != *spec {
        return Err(SpecError::new("spec", format!("the canonical form {canonical}"), spec));
    }
    let count = |name: &str, text: &str| {
        let count = number(after(&format!("{name}="), text)?, name)?;
        let some = usize::try_from(count).ok().filter(|&n| n > 0);
        some.ok_or_else(|| SpecError::new(name, "at least 1", count))
    };
    let threads = count("threads", threads)?;
    let (workers, others) = match others {
        [first, rest @ ..] if first.starts_with("workers=") => {
            let workers = count("workers", first)?;
            if workers > threads {
                return Err(SpecError::new("workers", format!("at most the {threads} threads of the plan"), workers));
            }
            (Some(workers), rest)
        }
        _ => (None, others),
    };
    let least_ns = number(after("least_ns=", least)?, "least_ns")?;
    let other = |field: &&str| {
        let (name, ns) = field.split_once('=').ok_or_else(|| SpecError::new("other kernel", "KERNEL=N", field))?;
        Ok((name.parse::<KernelKey>()?, number(ns, name)?))
    };
    let others = others.iter().map(other).collect::<Result<_, SpecError>>()?;
    Ok((canonical, threads, Entry { workers, ..Entry::new(kernel.parse()?, least_ns, others)? }))
}

/// `TERM=NS[<TAB>TERM=NS...]`.
fn costs_line(text: &str) -> Result<NamedCosts, SpecError> {
    let mut costs = BTreeMap::new();
    for field in text.split('\t') {
        let (name, ns) = field.split_once('=').ok_or_else(|| SpecError::new("costs", "TERM=NS", field))?;
        let name = word(name, "costs")?;
        let value = ns.parse().ok().filter(|value: &f64| (0.0..1e12).contains(value) && value.to_string() == ns);
        let value = value.ok_or_else(|| SpecError::new("costs", "nanoseconds from 0 to 1e12", field))?;
        if costs.insert(name, value).is_some() {
            return Err(SpecError::new("costs", "each term once", field));
        }
    }
    Ok(NamedCosts(costs))
}

fn after<'a>(label: &str, text: &'a str) -> Result<&'a str, SpecError> {
    text.strip_prefix(label).ok_or_else(|| SpecError::new("plan", format!("{label}N"), text))
}

/// Digits in the one form in which they are written.
fn number(text: &str, argument: &str) -> Result<u64, SpecError> {
    let value = text.parse::<u64>().ok().filter(|value| value.to_string() == text);
    value.ok_or_else(|| SpecError::new(argument, "a whole number of ordinary form", text))
}

fn word(text: &str, argument: &str) -> Result<String, SpecError> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(SpecError::new(argument, "one word without spaces", text));
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Isa, IsaSet};
    use proptest::prelude::*;

    const TEXT: &str = "flcc-wisdom 2
machine x86_64/a/avx2/2cores 9f3c
plan\tconv:u8:100x100x100*5x5x5:full,reflect\tthreads=1\tcorr_f32_w5_avx2\tleast_ns=10
plan\tzncc:f32:64x64*7x7:valid\tthreads=1\tcorr_f32_7x7_avx2\tleast_ns=812\tsad_f32_w7_avx2=812\
\tfourier_f32_any_rustfft=9001
plan\tzncc:f32:64x64*7x7:valid\tthreads=2\tcorr_f32_7x7_avx2\tleast_ns=500\tworkers=1
machine x86_64/b/avx2/2cores 9f3c
plan\tzncc:f32:64x64*7x7:valid\tthreads=2\tfourier_f32_any_rustfft\tleast_ns=18446744073709551615
end 4
";

    fn spec(text: &str) -> Spec {
        text.parse().unwrap()
    }

    fn entry(kernel: &str, ns: u64) -> Entry {
        Entry::new(kernel.parse().unwrap(), ns, vec![]).unwrap()
    }

    fn fails(text: &str) -> String {
        Wisdom::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn costs_are_kept_beside_plans() {
        let table = Costs::usual(&IsaSet::of(&[])).with(Term::Tile, 412.25);
        let mut wisdom = Wisdom::new();
        wisdom.insert_costs("m", "s", &table).unwrap();
        wisdom.insert_costs("m", "t", &table.with(Term::Call, 3.0)).unwrap();
        assert_eq!(wisdom.len(), 2);
        let again = Wisdom::parse(&wisdom.to_text()).unwrap();
        assert_eq!(again, wisdom);
        let usual = Costs::usual(&IsaSet::of(&[Isa::Avx2]));
        assert_eq!(again.costs("m", "s").unwrap().over(usual), table);
        assert_eq!(again.costs("n", "s"), None);
        // What is named otherwise is kept, and changes nothing.
        let text = "flcc-wisdom 2\nmachine m s\ncosts\tother=1.5\ttile=2\nend 1\n";
        let other = Wisdom::parse(text).unwrap();
        assert_eq!(other.to_text(), text);
        assert_eq!(other.costs("m", "s").unwrap().over(usual), usual.with(Term::Tile, 2.0));
        // Of two tables that of the file stays; a planner's new one takes its place.
        let mut merged = other.clone();
        merged.merge(wisdom.clone());
        assert_eq!((merged.costs("m", "s"), merged.len()), (other.costs("m", "s"), 2));
        let mut followed = other.clone();
        followed.follow(&Wisdom::new(), wisdom.clone());
        assert_eq!(followed, wisdom);
        assert_eq!((merged.forget(Forget::Spec("zncc")), merged.forget(Forget::Machine("m"))), (0, 2));
        for (line, expected) in [
            ("costs\ttile", "TERM=NS"),
            ("costs\ttile=-1", "nanoseconds"),
            ("costs\ttile=NaN", "nanoseconds"),
            ("costs\ttile=01", "nanoseconds"),
            ("costs\ttile=1\ttile=1", "each term once"),
            ("costs\ttile=1\ncosts\ttile=1", "costs once"),
        ] {
            let error = Wisdom::parse(&format!("flcc-wisdom 2\nmachine m s\n{line}\nend 1\n")).unwrap_err();
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
        assert!(Wisdom::parse("flcc-wisdom 2\ncosts\ttile=1\nend 1\n").is_err());
    }

    #[test]
    fn text_and_back() {
        let wisdom = Wisdom::parse(TEXT).unwrap();
        assert_eq!(wisdom.to_text(), TEXT);
        let found = wisdom.lookup("x86_64/a/avx2/2cores", "9f3c", &spec("zncc:f32:64x64*7x7:valid"), 1).unwrap();
        assert_eq!(found.kernel().to_string(), "corr_f32_7x7_avx2");
        assert_eq!((found.least_ns(), found.others().len()), (812, 2));
        assert_eq!(wisdom.lookup("x86_64/a/avx2/2cores", "other", &spec("zncc:f32:64x64*7x7:valid"), 1), None);
        assert_eq!(Wisdom::parse(&Wisdom::new().to_text()).unwrap(), Wisdom::new());
        assert_eq!(Wisdom::new().to_text(), "flcc-wisdom 2\nend 0\n");
    }

    #[test]
    fn order_comments_and_blank_lines_do_not_matter() {
        let lines: Vec<&str> = TEXT.lines().collect();
        let text = [
            lines[0],
            "",
            "# b first",
            lines[5],
            lines[6],
            lines[1],
            lines[4],
            "#",
            lines[3],
            lines[2],
            lines[7],
            "# done",
        ];
        assert_eq!(Wisdom::parse(&text.join("\r\n")).unwrap().to_text(), TEXT);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let change = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            fails(&TEXT.replacen(from, to, 1))
        };
        assert_eq!(fails(""), "wisdom line 1: header: expected flcc-wisdom 2, got nothing");
        assert!(change("workers=1", "workers=0").contains("workers: expected at least 1, got 0"));
        assert!(
            change("workers=1", "workers=3").contains("workers: expected at most the 2 threads of the plan, got 3")
        );
        assert_eq!(change("wisdom 2", "wisdom 1"), "wisdom line 1: header: expected flcc-wisdom 2, got flcc-wisdom 1");
        assert_eq!(change("5x5x5:full", "5x5x5:fool"), "wisdom line 3: mode: expected full, same or valid, got fool");
        assert_eq!(
            change("64x64*7x7:valid", "064x64*7x7:valid"),
            "wisdom line 4: spec: expected the canonical form zncc:f32:64x64*7x7:valid, got zncc:f32:064x64*7x7:valid"
        );
        assert!(change("zncc:f32", "lcc:f32").starts_with("wisdom line 4: spec: expected the canonical form zncc:"));
        assert!(change("threads=2", "threads=1").starts_with("wisdom line 5: plan: expected each spec"));
        assert_eq!(change("threads=1", "threads=0"), "wisdom line 3: threads: expected at least 1, got 0");
        assert_eq!(change("threads=1", "thread=1"), "wisdom line 3: plan: expected threads=N, got thread=1");
        assert!(change("corr_f32_w5_avx2", "7").starts_with("wisdom line 3: kernel"));
        for wrong in ["-10", "+10", "010", "1e3", "10.0", "", " 10", "18446744073709551616", "NaN"] {
            let message = change("least_ns=10", &format!("least_ns={wrong}"));
            assert!(message.starts_with("wisdom line 3: least_ns: expected a whole number"), "{message}");
        }
        assert!(change("sad_f32_w7_avx2=812", "sad_f32_w7_avx2").contains("line 4: other kernel: expected KERNEL=N"));
        assert!(
            change("sad_f32_w7_avx2=", "corr_f32_7x7_avx2=").contains("line 4: kernel name: expected each kernel once")
        );
        assert!(change("machine x86_64/b", "machine x86_64/a").contains("line 6: machine: expected each machine"));
        assert!(change("cores 9f3c", "cores").contains("line 2: machine: expected FINGERPRINT SOURCEHASH"));
        assert!(change("cores 9f3c", "cores 9f3c x").contains("line 2: source hash: expected one word"));
        assert!(change("machine x86_64/a/avx2/2cores 9f3c\n", "").contains("line 2: line: expected a 'machine' line"));
        assert!(
            change("plan\tconv", "plan conv").contains("line 3: line: expected 'machine ', 'costs<TAB>', 'plan<TAB>'")
        );
        assert_eq!(change("end 4", "end 5"), "wisdom line 8: end: expected 4, the number of entries above, got 5");
        assert_eq!(change("end 4\n", ""), "wisdom line 8: last line: expected end 4, got the end of the text");
        assert!(fails(&format!("{TEXT}end 4\n")).contains("line 9: line: expected nothing after 'end'"));
    }

    #[test]
    fn a_text_cut_anywhere_is_noticed() {
        for cut in 0..TEXT.len() - 1 {
            assert!(Wisdom::parse(&TEXT[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn insert_keeps_out_what_could_not_be_read_again() {
        let mut wisdom = Wisdom::new();
        let spec = spec("corr:f32:9*3:full");
        let one = entry("corr_f32_3_avx2", 7);
        for wrong in ["", "a b", "a\tb", "a\n", "a\u{85}b"] {
            assert!(wisdom.insert(wrong, "s", &spec, 1, one.clone()).is_err());
            assert!(wisdom.insert("m", wrong, &spec, 1, one.clone()).is_err());
        }
        assert!(wisdom.insert("m", "s", &spec, 0, one.clone()).is_err());
        let twice = one.kernel().clone();
        assert!(Entry::new(twice.clone(), 1, vec![(twice, 2)]).is_err());
        assert_eq!(wisdom.insert("m", "s", &spec, 1, one.clone()), Ok(None));
        assert_eq!(wisdom.insert("m", "s", &spec, 1, entry("corr_f32_3_avx2", 9)), Ok(Some(one)));
        assert_eq!(wisdom.len(), 1);
    }

    #[test]
    fn merge_keeps_the_faster() {
        let (a, b) = (spec("corr:f32:9*3:full"), spec("corr:f32:9*4:full"));
        let mut ours = Wisdom::new();
        let mut theirs = Wisdom::new();
        ours.insert("m", "s", &a, 1, entry("ncc_f32_3_avx2", 5)).unwrap();
        theirs.insert("m", "s", &a, 1, entry("sad_f32_3_avx2", 4)).unwrap();
        ours.insert("m", "s", &b, 1, entry("ncc_f32_3_avx2", 5)).unwrap();
        theirs.insert("m", "s", &b, 1, entry("sad_f32_3_avx2", 5)).unwrap();
        theirs.insert("n", "s", &b, 1, entry("sad_f32_3_avx2", 6)).unwrap();
        ours.merge(theirs);
        assert_eq!(ours.len(), 3);
        assert_eq!(ours.lookup("m", "s", &a, 1).unwrap().kernel().to_string(), "sad_f32_3_avx2");
        assert_eq!(ours.lookup("m", "s", &b, 1).unwrap().kernel().to_string(), "ncc_f32_3_avx2");
    }

    #[test]
    fn forgetting() {
        let all = Wisdom::parse(TEXT).unwrap();
        let forget = |filter| {
            let mut wisdom = all.clone();
            (wisdom.forget(filter), wisdom.len())
        };
        assert_eq!(forget(Forget::All), (4, 0));
        assert_eq!(forget(Forget::Machine("x86_64/a/avx2/2cores")), (3, 1));
        assert_eq!(forget(Forget::Machine("x86_64/a")), (0, 4));
        assert_eq!(forget(Forget::Spec("zncc:f32")), (3, 1));
        assert_eq!(forget(Forget::Spec("sad:")), (0, 4));
    }

    #[test]
    fn files() {
        let folder = std::env::temp_dir().join(format!("flcc-wisdom-{}", std::process::id()));
        let path = folder.join("deep").join("wisdom.txt");
        let wisdom = Wisdom::parse(TEXT).unwrap();
        wisdom.save(&path).unwrap();
        wisdom.save(&path).unwrap();
        assert_eq!(Wisdom::load(&path).unwrap(), wisdom);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::write(&path, b"flcc-wisdom 2\n\xff").unwrap();
        assert_eq!(
            Wisdom::load(&path).unwrap_err().to_string(),
            format!("{}: wisdom line 2: line: expected UTF-8 text, got byte 0xff", path.display())
        );
        fs::write(&path, "flcc-wisdom 2\nend 1").unwrap();
        assert!(
            Wisdom::load(&path)
                .unwrap_err()
                .to_string()
                .starts_with(&format!("{}: wisdom line 2: end:", path.display()))
        );
        let missing = folder.join("none.txt");
        assert!(
            Wisdom::load(&missing)
                .unwrap_err()
                .to_string()
                .starts_with(&format!("{}: cannot read wisdom: ", missing.display()))
        );
        let on_a_folder = wisdom.save(&folder).unwrap_err().to_string();
        assert!(on_a_folder.starts_with(&format!("{}: cannot write wisdom: ", folder.display())), "{on_a_folder}");
        assert!(on_a_folder.ends_with("expected a file, or none yet, got a folder"), "{on_a_folder}");
        assert!(wisdom.save(&folder.join("..")).is_err());
        assert!(wisdom.save(&path.join("below a file")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn many_writers_lose_nothing() {
        let folder = std::env::temp_dir().join(format!("flcc-wisdom-many-{}", std::process::id()));
        let path = folder.join("w");
        let wisdom = |thread: usize, n: usize| {
            let mut wisdom = Wisdom::new();
            wisdom
                .insert("m", "s", &spec(&format!("corr:f32:{n}*3:full")), 1 + thread, entry("corr_f32_3_avx2", 7))
                .unwrap();
            wisdom
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for n in 9..29 {
                        let (all, ()) = Wisdom::update(path, |there| there.merge(wisdom(thread, n))).unwrap();
                        assert!(all.len() > n - 9);
                        Wisdom::load(path).unwrap();
                    }
                });
            }
        });
        assert_eq!(Wisdom::load(&path).unwrap().len(), 8 * 20);
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!cfg!(unix) || left == ["w"], "{left:?}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_update_keeps_what_it_does_not_change() {
        let folder = std::env::temp_dir().join(format!("flcc-wisdom-update-{}", std::process::id()));
        let path = folder.join("w");
        assert_eq!(Wisdom::update(&path, |there| there.len()).unwrap(), (Wisdom::new(), 0));
        assert_eq!(Wisdom::load(&path).unwrap(), Wisdom::new());
        Wisdom::parse(TEXT).unwrap().save(&path).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(Wisdom::update(&path, |there| there.forget(Forget::Spec("nothing"))).unwrap().1, 0);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        assert_eq!(Wisdom::update(&path, |there| there.forget(Forget::Spec("zncc:f32"))).unwrap().1, 3);
        assert_eq!(Wisdom::load(&path).unwrap().len(), 1);
        fs::write(&path, "flcc-wisdom 2\nend 1\n").unwrap();
        assert!(Wisdom::update(&path, |_| ()).unwrap_err().to_string().contains("line 2: end:"));
        assert_eq!(fs::read(&path).unwrap(), b"flcc-wisdom 2\nend 1\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_changed_is_taken_over() {
        let [a, b, c] = ["corr:f32:9*3:full", "corr:f32:9*4:full", "corr:f32:9*5:full"].map(spec);
        let of = |entries: &[(&Spec, u64)]| {
            let mut wisdom = Wisdom::new();
            for (spec, ns) in entries {
                wisdom.insert("m", "s", spec, 1, entry("corr_f32_3_avx2", *ns)).unwrap();
            }
            wisdom
        };
        let follow = |there: &[(&Spec, u64)], before: &[(&Spec, u64)], after: &[(&Spec, u64)]| {
            let mut there = of(there);
            there.follow(&of(before), of(after));
            there
        };
        // Measured again and found slower, because its code has changed: as if nobody else had written.
        assert_eq!(follow(&[(&a, 5)], &[(&a, 5)], &[(&a, 9), (&b, 1)]), of(&[(&a, 9), (&b, 1)]));
        // Another has measured it meanwhile: the faster stays.
        assert_eq!(follow(&[(&a, 6), (&c, 2)], &[(&a, 5)], &[(&a, 9)]), of(&[(&a, 6), (&c, 2)]));
        assert_eq!(follow(&[(&a, 6)], &[], &[(&a, 3)]), of(&[(&a, 3)]));
        // Another has forgotten what was only known: it stays forgotten.
        assert_eq!(follow(&[], &[(&a, 5)], &[(&a, 5), (&b, 4)]), of(&[(&b, 4)]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        for device in ["/dev/zero", "/dev/full"] {
            let read = Wisdom::load(Path::new(device)).unwrap_err().to_string();
            assert_eq!(read, format!("{device}: cannot read wisdom: expected at most 67108864 bytes, got more"));
            let written = Wisdom::new().save(Path::new(device)).unwrap_err().to_string();
            assert_eq!(
                written,
                format!("{device}: cannot write wisdom: expected a file, or none yet, got a device or a pipe")
            );
            assert!(Wisdom::update(Path::new(device), |_| ()).is_err());
            assert!(!fs::metadata(device).unwrap().is_file());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_a_read_only_file_too() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = std::env::temp_dir().join(format!("flcc-wisdom-link-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        symlink("file", &link).unwrap();
        let wisdom = Wisdom::parse(TEXT).unwrap();
        wisdom.save(&link).unwrap();
        wisdom.save(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(Wisdom::load(&file).unwrap(), wisdom);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let refused = Wisdom::new().save(&file).unwrap_err().to_string();
        assert_eq!(refused, format!("{}: cannot write wisdom: the file is read-only", file.display()));
        assert_eq!(Wisdom::load(&file).unwrap(), wisdom);
        // What is the same needs no writing.
        Wisdom::update(&file, |_| ()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Whatever was read is written in one form, and that form reads back as the same.
    fn check_stable(text: &str) {
        if let Ok(wisdom) = Wisdom::parse(text) {
            let written = wisdom.to_text();
            assert_eq!(Wisdom::parse(&written).unwrap(), wisdom);
            assert_eq!(Wisdom::parse(&written).unwrap().to_text(), written);
        }
    }

    fn entries() -> impl Strategy<Value = Wisdom> {
        let kernel = "(corr|sad|fourier)_(u8|f32)_(any|w[1-9]|[1-9]x[1-9])_(avx2|portable|b32x8)";
        let one = (
            "[!-~]{1,9}",
            "[0-9a-f]{1,8}",
            3usize..90,
            1usize..5,
            kernel,
            any::<u64>(),
            prop::collection::btree_map(kernel, any::<u64>(), 0..4),
        );
        prop::collection::vec(one, 0..12).prop_map(|all| {
            let mut wisdom = Wisdom::new();
            for (machine, source, n, threads, kernel, ns, mut others) in all {
                others.remove(&kernel);
                let others = others.into_iter().map(|(name, ns)| (name.parse().unwrap(), ns)).collect();
                let entry = Entry::new(kernel.parse().unwrap(), ns, others).unwrap();
                wisdom.insert(&machine, &source, &spec(&format!("zncc:f32:{n}*3:valid")), threads, entry).unwrap();
            }
            wisdom
        })
    }

    proptest! {
        #[test]
        fn any_wisdom_round_trips(wisdom in entries()) {
            prop_assert_eq!(&Wisdom::parse(&wisdom.to_text()).unwrap(), &wisdom);
        }

        #[test]
        fn any_text_is_wisdom_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = String::from_utf8_lossy(&bytes);
            check_stable(&text);
            check_stable(&format!("{HEADER}\n{text}\nend 0\n"));
            check_stable(&format!("{HEADER}\nmachine a b\nplan\t{text}\nend 1\n"));
        }

        #[test]
        fn a_changed_byte_is_harmless(at in 0..TEXT.len(), byte in any::<u8>()) {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = byte;
            check_stable(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn changed_lines_are_harmless(
            wisdom in entries(),
            from in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
        ) {
            let text = wisdom.to_text();
            let mut lines: Vec<&str> = text.lines().collect();
            let line = lines.remove(from.index(lines.len()));
            check_stable(&lines.join("\n"));
            prop_assert!(Wisdom::parse(&lines.join("\n")).is_err() || line.starts_with("machine "));
            lines.insert(to.index(lines.len() + 1), line);
            check_stable(&lines.join("\n"));
        }
    }
}
