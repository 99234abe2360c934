//! conv, corr, lcc and match by parts: of an image in a `.npy` file or a zarr array that is larger than what may be
//! held of it, and of one of several parts of a result (`--tile`). Slices of the image are read where they lie, band by
//! band.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Map;

use flcc_runtime::core::dtype::{Pixel, Pixels};
use flcc_runtime::core::peaks::{Candidates, Search};
use flcc_runtime::peaks::Found as PeaksFound;
use flcc_runtime::rooms::files;
use flcc_runtime::rooms::plan::settings::SOURCE;
use flcc_runtime::{
    AnyView, AnyViewMut, Control, DType, Effort, Matcher, PlanError, Platform, Refusal, Region, Regions, Shape, Spec,
    SpecError, ViewMut,
};

use super::correlate::{self, Found, Name, Opened, Telling, numbered};
use super::masked;
use super::templates::{self, Templates, Wanted};
use crate::args::{Correlate, Match, Planning};
use crate::data::{self, Image, open_mask};
use crate::error::Error;
use crate::io::{self, HELD, Hash, IoError, Loaded, Source, Values, write_together};
use crate::memory::{check, check_data, results};
use crate::outputs::{Holds, Inputs, Output, holds_values};
use crate::parts::{OfTemplate, Part};
use crate::session::{Progress, Session, wisdom_file};

/// Bytes of slices and results at a time where no limit is set.
const AT_A_TIME: usize = 256 << 20;

/// Runs conv, corr, lcc or (with `matching`) match: by parts where that is asked for or memory is limited, or whole.
///
/// # Errors
/// A wrong call, a file, a refusal.
pub fn run(
    name: Name,
    args: &Correlate,
    matching: Option<&Match>,
    planning: &Planning,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let file = match args.tile {
        // Images that are not all known are read whole.
        None if masked::asked(&args.extent, &args.known).is_some() => None,
        Some(_) => Some(source_of_tile(args, matching, planning)?),
        None => divisible(args, matching, planning),
    };
    match file {
        None => correlate::run(name, args, matching, planning, out),
        Some(file) => Call { name, args, matching, planning, file: &file, hidden: Cell::new(false) }.run(out),
    }
}

/// The file of an image of which one part of the result is asked for.
fn source_of_tile(args: &Correlate, matching: Option<&Match>, planning: &Planning) -> Result<Source, Error> {
    let others = [
        ("--heatmap", &args.heatmap),
        ("--annotate", matching.map_or(&None, |matching| &matching.annotate)),
        ("--peaks", matching.map_or(&None, |matching| &matching.table)),
    ];
    if let Some((argument, Some(path))) = others.into_iter().find(|(_, path)| path.is_some()) {
        let expected = "none with --tile (what flcc merge makes of all parts may have one)";
        return Err(SpecError::new(argument, expected, path.display()).into());
    }
    if let Some((argument, got)) = masked::asked(&args.extent, &args.known) {
        return Err(SpecError::new(argument, "none with --tile", got).into());
    }
    if planning.platform == Platform::Cuda {
        return Err(PlanError::Refused(Refusal::new("--tile", "parts are computed on platform cpu")).into());
    }
    let expected =
        if matching.is_some() { "-o PART.npy or -o PART.json with --tile" } else { "-o PART.npy with --tile" };
    let holds = |path: &PathBuf| match extension(path).as_str() {
        "json" => matching.is_some(),
        _ => holds_values(path),
    };
    match &args.output {
        Some(path) if holds(path) => {}
        Some(path) => return Err(SpecError::new("-o", expected, path.display()).into()),
        None => return Err(SpecError::new("-o", expected, "none").into()),
    }
    let file =
        if args.image == Path::new("-") { None } else { Source::open(&args.image).map_err(Error::io("IMAGE"))? };
    let wrong = || {
        let expected = "a .npy file in C order or a zarr array with --tile, of which parts are read";
        SpecError::new("IMAGE", expected, args.image.display()).into()
    };
    file.ok_or_else(wrong)
}

/// The file of an image that can be computed by parts, where memory is limited. What is wrong with it who reads it
/// whole tells.
fn divisible(args: &Correlate, matching: Option<&Match>, planning: &Planning) -> Option<Source> {
    planning.memory_limit?;
    let picture = args.heatmap.is_some() || matching.is_some_and(|matching| matching.annotate.is_some());
    let written = match &args.output {
        Some(path) => holds_values(path),
        None => matching.is_some(),
    };
    // Who measures where anything may compute may find that a GPU does.
    let here = match planning.platform {
        Platform::Cpu => true,
        Platform::Auto => planning.effort.unwrap_or_default() == Effort::Estimate && planning.devices.is_empty(),
        Platform::Cuda => false,
    };
    let headed =
        args.extent.reading.raw.is_empty() || extension(&args.image) == "npy" || io::zarr_kind(&args.image).is_some();
    if picture || !written || !here || !headed {
        return None;
    }
    Source::open(&args.image).ok().flatten()
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|text| text.to_str()).unwrap_or("").to_ascii_lowercase()
}

/// A call of which the image is read by parts.
struct Call<'a> {
    name: Name,
    args: &'a Correlate,
    matching: Option<&'a Match>,
    planning: &'a Planning,
    file: &'a Source,
    /// Whether it was told that samples hide peaks.
    hidden: Cell<bool>,
}

/// The result of a template, or of a part of it.
struct Computed {
    found: Found,
    /// Where it lies in the whole result.
    range: Range<usize>,
    /// Whether it was computed short of memory.
    short: bool,
}

impl Call<'_> {
    fn run(&self, out: &mut dyn Write) -> Result<(), Error> {
        let &Call { name, args, matching, planning, file, .. } = self;
        let mut problem = correlate::problem(name, args, planning)?;
        let inputs = correlate::inputs(args)?;
        inputs.check(&[])?;
        let image_name = args.image.display().to_string();
        let wrong = |error| SpecError { argument: "IMAGE".into(), ..error };
        let shape = Shape::new(file.shape()).map_err(wrong)?;
        let templates = correlate::open_templates(args, shape.axes(), &|place| self.part(shape, place))?;
        self.check_outputs(&inputs, templates.all().len())?;
        let mask = args.mask.as_deref().map(|path| open_mask("--mask", path, &args.extent.reading)).transpose()?;
        let specs = correlate::specs(&mut problem, args, (file.dtype(), shape, 1), &templates, mask.as_ref())?;
        if args.tile.is_none() && self.fits(&specs) {
            return correlate::run_opened(name, args, matching, planning, Some(Opened { templates, mask }), out);
        }
        file.notes().iter().for_each(|note| data::tell("IMAGE", &image_name, note));
        let (all, several) = (templates.all(), templates.all().len() > 1);
        // Only the CPU computes regions, whatever auto would take for a whole result.
        let here = Planning { platform: Platform::Cpu, ..planning.clone() };
        let session = Session::new(&here, Effort::Estimate, args.fall_back)?;
        let values = args.output.as_ref().filter(|path| holds_values(path));
        let mut wanted = matching.map(|matching| Wanted::new(&matching.search, all.len()));
        let mut found: Vec<(usize, Computed)> = Vec::new();
        for (group, spec) in templates.groups().iter().zip(&specs) {
            let number = |index: usize| several.then_some(index + 1);
            let paths: Vec<PathBuf> =
                values.iter().flat_map(|path| group.iter().map(move |&index| numbered(path, number(index)))).collect();
            let of_group = self.group(spec, &session, &templates, group, mask.as_ref(), (&paths, wanted))?;
            found.extend(group.iter().copied().zip(of_group));
        }
        found.sort_by_key(|(index, _)| *index);
        if args.tile.is_some() {
            self.save_part(&templates, mask.as_ref(), &found)?;
            return session.keep_wisdom();
        }
        if let (Some(matching), Some(wanted)) = (matching, &mut wanted) {
            let took = loop {
                let all = found.iter_mut().map(|(_, of)| (&of.found.spec, &mut of.found.found.peaks));
                if let Some(took) = templates::leave(&matching.search, &wanted.options(), all) {
                    break took;
                }
                wanted.lengthen();
                for (group, spec) in templates.groups().iter().zip(&specs) {
                    let more = self.group(spec, &session, &templates, group, mask.as_ref(), (&[], Some(*wanted)))?;
                    for (&index, more) in group.iter().zip(more) {
                        let (_, of) = &mut found[index];
                        of.found.found.peaks = more.found.found.peaks;
                        of.found.time += more.found.time;
                    }
                }
            };
            found.iter_mut().for_each(|(_, of)| of.found.time += took);
        }
        let telling = Telling {
            json: planning.json,
            search: matching.map(|matching| &matching.search),
            table: matching.and_then(|matching| matching.table.as_deref()),
        };
        let kept = session.keep_wisdom();
        correlate::tell(found.iter().map(|(index, of)| (&all[*index].name, &of.found)), &telling, out)?;
        kept
    }

    /// Whether the image, and the results that are held to be written, take no more than the memory limit.
    fn fits(&self, specs: &[Spec]) -> bool {
        let held = self.args.output.as_ref().map_or(0.0, |_| specs.iter().map(results).fold(0.0, f64::max));
        self.planning.memory_limit.is_none_or(|limit| self.file.bytes() + held <= limit.0 as f64)
    }

    /// Refuses files to write that would not be what the call says.
    fn check_outputs(&self, inputs: &Inputs, templates: usize) -> Result<(), Error> {
        let &Call { args, matching, planning, .. } = self;
        let (Some(_), Some(path)) = (args.tile, &args.output) else {
            return correlate::check_outputs(inputs, args, matching, planning, templates);
        };
        let part = Output { argument: "-o", path: path.with_extension("json"), holds: Holds::Part };
        let mut outputs = vec![part];
        if holds_values(path) {
            let number = |index: usize| (templates > 1).then_some(index + 1);
            outputs.extend((0..templates).map(|index| Output {
                argument: "-o",
                path: numbered(path, number(index)),
                holds: Holds::Result,
            }));
        }
        let wisdom = wisdom_file(planning)?;
        outputs.extend(wisdom.map(|(argument, path)| Output { argument, path, holds: Holds::Wisdom }));
        inputs.check(&outputs)?;
        match holds_values(path) {
            true => Part::is_there(&path.with_extension("json")).map(|_| ()),
            false => Ok(()),
        }
    }

    /// Removes what an older part said of itself, before its values are replaced: who is killed before the new part
    /// says what it is leaves none that says what is not so.
    fn forget_old_part(&self) -> Result<(), Error> {
        let (Some(_), Some(path)) = (self.args.tile, &self.args.output) else { return Ok(()) };
        let path = path.with_extension("json");
        let wrong = |source| Error::io("-o")(IoError::Write { name: path.display().to_string(), source });
        if Part::is_there(&path)? { files::target(&path).and_then(fs::remove_file).map_err(wrong) } else { Ok(()) }
    }

    /// A part of the image as a template.
    fn part(&self, shape: Shape, place: Region) -> Result<Image, Error> {
        place.shape.nonempty("--template-at")?;
        let (axes, origin, lengths) = (shape.axes(), shape.unpad(&place.origin), place.shape.lengths());
        let ends = || origin.iter().zip(lengths).zip(shape.lengths());
        if place.shape.axes() != axes
            || !ends().all(|((at, length), whole)| at.checked_add(*length).is_some_and(|end| end <= *whole))
        {
            let expected = format!("a part of the image, {shape}");
            return Err(SpecError::new("--template-at", expected, place).into());
        }
        let wrong = Error::io("IMAGE");
        let run = origin[0]..origin[0] + lengths[0];
        let pixels = self.file.read(0, std::slice::from_ref(&run)).map_err(wrong)?;
        let mut there = shape.lengths().to_vec();
        there[0] = lengths[0];
        let loaded = Loaded { shape: there, channels: 1, pixels, notes: Vec::new() };
        let slices = Image::new("IMAGE", self.args.image.display().to_string(), loaded, false)?;
        let mut from = place.origin;
        from[3 - axes] = 0;
        let mut part = slices.part("--template-at", Region { origin: from, ..place })?;
        part.name = place.to_string();
        Ok(part)
    }

    /// The results of a group of templates, with what is wanted of their peaks; their values into these files, or none.
    fn group(
        &self,
        spec: &Spec,
        session: &Session,
        templates: &Templates,
        group: &[usize],
        mask: Option<&Image>,
        (paths, wanted): (&[PathBuf], Option<Wanted>),
    ) -> Result<Vec<Computed>, Error> {
        if session.measures() {
            check_data(spec, spec.templates())?;
        }
        let plan = session.plan(spec)?;
        let taken = plan.held_bytes();
        let limit = self.planning.memory_limit.map(|limit| limit.0.saturating_sub(taken));
        let began = Instant::now();
        let mask = mask.map(Image::view).transpose()?;
        let matcher = templates.bind(group, &plan, session, "IMAGE", mask.as_ref())?;
        let regions =
            matcher.regions().ok_or_else(|| Error::Failed("regions: expected a plan for the CPU, got none".into()))?;
        // The slowest axis of more than one position.
        let lengths = spec.out_shape();
        let axis = lengths.lengths().iter().position(|length| *length > 1).unwrap_or(lengths.axes() - 1);
        let count = regions.count(axis);
        let range = match self.args.tile {
            Some(tile) => {
                tile.band(count + 1).map(|band| regions.seam(axis, band.start)..regions.seam(axis, band.end))?
            }
            None => 0..regions.seam(axis, count),
        };
        let search = self.matching.map(|matching| {
            let options = match (self.args.tile, wanted) {
                (None, Some(wanted)) => wanted.options(),
                _ => Wanted::at_once(&matching.search, templates.all().len()),
            };
            // A part of a result is not told what another may have.
            let told = self.args.tile.is_none() && matching.search.threshold.is_some();
            Search::of(spec, options).with_optimum(matching.search.count || told)
        });
        let image = self.args.image.display().to_string();
        let look = |pixels: &Pixels| {
            if self.matching.is_some()
                && !self.hidden.get()
                && let Some(note) = data::hidden_note(pixels)
            {
                data::tell("IMAGE", &image, note);
                self.hidden.set(true);
            }
        };
        // What is held of results until there are enough for a format is a quarter at most.
        let most = limit.unwrap_or(AT_A_TIME).min(AT_A_TIME);
        let arrays = paths.iter().filter(|path| io::names_array(path)).count();
        let held = (most / 4 / arrays.max(1)).min(HELD);
        let job = Job {
            file: self.file,
            look: &look,
            matcher: &matcher,
            regions,
            axis,
            search,
            range: range.clone(),
            most: most.saturating_sub(held * arrays),
            held,
            taken,
        };
        let mut found = Vec::new();
        let wrong = Error::io("-o");
        write_together(paths, &wrong, |files| {
            found = match spec.out_type() {
                DType::F64 => job.run::<f64>(files),
                _ => job.run::<f32>(files),
            }?;
            if paths.is_empty() { Ok(()) } else { self.forget_old_part() }
        })?;
        let time = began.elapsed();
        let mut paths = paths.iter().cloned();
        let told = |found| Computed {
            found: Found {
                spec: spec.clone(),
                kernel: matcher.kernel().to_string(),
                method: matcher.method().to_string(),
                time,
                map: None,
                output: paths.next(),
                found,
                known: Map::new(),
            },
            range: range.clone(),
            short: matcher.short_of_memory(),
        };
        Ok(found.into_iter().map(told).collect())
    }

    /// Writes what the part is.
    fn save_part(&self, templates: &Templates, mask: Option<&Image>, found: &[(usize, Computed)]) -> Result<(), Error> {
        let (Some(tile), Some(path)) = (self.args.tile, &self.args.output) else { return Ok(()) };
        let result = |(index, Computed { found, range, short }): &(usize, Computed)| OfTemplate {
            template: (samples(&templates.all()[*index]), templates.all()[*index].name.clone()),
            spec: found.spec.clone(),
            method: found.method.clone(),
            kernel: found.kernel.clone(),
            short: *short,
            range: range.clone(),
            values: found.output.as_ref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
            ns: u64::try_from(found.time.as_nanos()).unwrap_or(u64::MAX),
            found: found.found.clone(),
        };
        let print = self.file.fingerprint().map_err(Error::io("IMAGE"))?;
        let part = Part {
            tile,
            command: format!("{:?}", self.name).to_ascii_lowercase(),
            image: (print, self.args.image.display().to_string()),
            mask: mask.map(samples),
            search: self.matching.map(|matching| matching.search.clone()),
            source: SOURCE.into(),
            results: found.iter().map(result).collect(),
        };
        part.save(&path.with_extension("json"))
    }
}

/// What tells the samples of an image from others.
fn samples(image: &Image) -> String {
    let mut hash = Hash::default();
    hash.add(format!("{} {} {}", image.dtype(), image.shape(), image.channels()).as_bytes());
    image.pixels().to_f64().iter().for_each(|value| hash.add(&value.to_bits().to_le_bytes()));
    hash.text()
}

/// A run over the bands of a result.
struct Job<'a> {
    file: &'a Source,
    /// Looks at slices that were read.
    look: &'a dyn Fn(&Pixels),
    matcher: &'a Matcher,
    regions: Regions<'a>,
    /// The axis that bands lie along: regions that are whole along the others.
    axis: usize,
    search: Option<Search>,
    /// The positions that are asked for along the axis of the bands; the others are computed where a search needs them.
    range: Range<usize>,
    /// Bytes of slices and results at a time, if rows of tiles are not larger.
    most: usize,
    /// Bytes that are held of each file of values, where its format wants many at once.
    held: usize,
    /// Bytes that the plan takes beside.
    taken: usize,
}

impl Job<'_> {
    /// Results of one position along the axis of the bands.
    fn slice(&self) -> usize {
        let shape = self.matcher.plan().spec().out_shape();
        shape.lengths()[self.axis + 1..].iter().product()
    }

    fn seam(&self, number: usize) -> usize {
        self.regions.seam(self.axis, number)
    }

    /// The band from one seam to another, as a region.
    fn region(&self, band: Range<usize>) -> Vec<Range<usize>> {
        let shape = self.matcher.plan().spec().out_shape();
        let mut region: Vec<Range<usize>> = shape.lengths().iter().map(|length| 0..*length).collect();
        region[self.axis] = self.seam(band.start)..self.seam(band.end);
        region
    }

    /// The last seam at which positions before one begin, or the first behind them.
    fn seam_of(&self, position: usize, behind: bool) -> usize {
        let mut numbers = 0..self.regions.count(self.axis) + 1;
        while !numbers.is_empty() {
            let middle = numbers.start + numbers.len() / 2;
            let before = if behind { self.seam(middle) < position } else { self.seam(middle) <= position };
            if before { numbers.start = middle + 1 } else { numbers.end = middle }
        }
        if behind { numbers.start } else { numbers.start - 1 }
    }

    /// Bytes of the slices that a band takes, and of its results and those that are kept beside them.
    fn bytes(&self, band: Range<usize>, kept: usize) -> Result<usize, Error> {
        let spec = self.matcher.plan().spec();
        let axis = self.axis;
        let below = spec.image().len() / spec.image().lengths()[axis].max(1) * spec.image_type().row().size;
        let region = self.region(band);
        let slices: usize = self.regions.needs(&region)?[axis].iter().map(Range::len).sum();
        let results = (region[axis].len() + kept)
            .saturating_mul(self.slice())
            .saturating_mul(spec.templates())
            .saturating_mul(spec.out_type().row().size);
        Ok(slices.saturating_mul(below).saturating_add(results))
    }

    /// The seam up to which to compute after another.
    fn next(&self, from: usize, last: usize, kept: usize) -> Result<usize, Error> {
        // One is computed whatever it takes; more of them take more.
        let (mut fits, mut over) = (from + 1, last + 1);
        while over - fits > 1 {
            let middle = fits + (over - fits) / 2;
            let fitting = self.bytes(from..middle, kept)? <= self.most;
            *(if fitting { &mut fits } else { &mut over }) = middle;
        }
        Ok(fits)
    }

    /// Computes band by band: values to the files, if there are any, peaks from what is held.
    fn run<T: Pixel>(&self, files: &mut [Values]) -> Result<Vec<PeaksFound>, Error>
    where
        for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
    {
        let (spec, slice) = (self.matcher.plan().spec(), self.slice());
        let (axis, count) = (self.axis, self.seam(self.regions.count(self.axis)));
        let reach = self.search.as_ref().map_or(0, Search::reach).min(count);
        let (from, to) = (self.range.start.saturating_sub(reach), self.range.end.saturating_add(reach).min(count));
        let (mut seam, last) = (self.seam_of(from, false), self.seam_of(to, true));
        let (first, total) = (self.seam(seam), self.seam(last) - self.seam(seam));
        check(&spec.to_string(), (self.taken + self.bytes(seam..self.next(seam, last, 0)?, 0)?) as f64)?;
        let unwritten = |source| Error::io("-o")(IoError::Write { name: "values".into(), source });
        let mut lengths = spec.out_shape().lengths().to_vec();
        lengths[axis] = self.range.len();
        let begun = files.iter_mut().try_for_each(|file| file.begin(spec.out_type(), &lengths, self.held));
        begun.map_err(unwritten)?;
        let progress = Progress::new();
        let mut scratch = self.matcher.make_scratch();
        let mut rooms: Vec<Vec<T>> = vec![Vec::new(); spec.templates()];
        let mut candidates: Vec<Candidates<T>> =
            self.search.iter().flat_map(|search| rooms.iter().map(|_| search.candidates())).collect();
        // Positions that are held, and up to which all were searched.
        let (mut held, mut searched) = (first..first, self.range.start);
        while seam < last {
            // Those that the search still needs move to the front.
            let keep = match self.search {
                Some(_) => searched.saturating_sub(reach).clamp(held.start, held.end),
                None => held.end,
            };
            let kept = held.end - keep;
            let next = self.next(seam, last, kept)?;
            let end = self.seam(next);
            for room in &mut rooms {
                room.copy_within((keep - held.start) * slice..held.len() * slice, 0);
                room.resize((end - keep) * slice, T::default());
            }
            let (now, done) = (held.end..end, held.end - first);
            self.band(seam..next, &mut rooms, kept * slice, &mut scratch, &|part, of| {
                progress.tell(done + now.len() * part / of.max(1), total);
            })?;
            held = keep..end;
            let wanted = now.start.max(self.range.start)..now.end.min(self.range.end);
            for (file, room) in files.iter_mut().zip(&rooms).filter(|_| !wanted.is_empty()) {
                let values = &room[(wanted.start - keep) * slice..(wanted.end - keep) * slice];
                file.write(values).map_err(unwritten)?;
            }
            if let Some(search) = &self.search {
                let near = if next == last { end } else { end.saturating_sub(reach) };
                let until = near.min(self.range.end).max(searched);
                for (room, candidates) in rooms.iter().zip(&mut candidates) {
                    search.look(room, keep * slice, searched * slice..until * slice, candidates);
                }
                searched = until;
            }
            seam = next;
        }
        Ok(match &self.search {
            Some(search) => candidates.into_iter().map(|found| search.found([found])).collect(),
            None => vec![PeaksFound::default(); spec.templates()],
        })
    }

    /// Computes a band into the rooms from a place on.
    fn band<T: Pixel>(
        &self,
        band: Range<usize>,
        rooms: &mut [Vec<T>],
        place: usize,
        scratch: &mut flcc_runtime::Scratch,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(), Error>
    where
        for<'v> AnyViewMut<'v>: From<ViewMut<'v, T>>,
    {
        let (spec, axis) = (self.matcher.plan().spec(), self.axis);
        let region = self.region(band);
        let needs = self.regions.needs(&region)?;
        let mut there = spec.image().lengths().to_vec();
        there[axis] = needs[axis].iter().map(Range::len).sum();
        let pixels = self.file.read(axis, &needs[axis]).map_err(Error::io("IMAGE"))?;
        (self.look)(&pixels);
        let slices = AnyView::dense(&pixels, Shape::new(&there)?, 1)?;
        let shape = Shape::new(&region.iter().map(Range::len).collect::<Vec<_>>())?;
        let views = rooms.iter_mut().map(|room| ViewMut::new(&mut room[place..], shape).map(AnyViewMut::from));
        let mut outs = views.collect::<Result<Vec<_>, SpecError>>()?;
        let control = Control { progress: Some(progress), ..Control::default() };
        self.regions.execute_into(&region, &slices, &mut outs, scratch, &control)?;
        Ok(())
    }
}
