//! merge: parts of a result, made by `--tile`, put together.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Map;

use flcc_runtime::core::each_type;
use flcc_runtime::{AnyView, DType, Shape, SpecError};

use super::correlate::{self, Found, Telling, numbered};
use super::templates::{self, Wanted};
use crate::args::{Merge, Planning};
use crate::error::Error;
use crate::io::{HELD, IoError, Source, write_together};
use crate::outputs::{self, Holds, Inputs, Output};
use crate::parts::{OfTemplate, Part, axis, complete, found};

/// Bytes of values that are copied at a time.
const AT_A_TIME: usize = 16 << 20;

/// Puts the parts together.
///
/// # Errors
/// A file that is no part, parts that are missing, there twice or of different results; a wrong call, a file.
pub fn run(args: &Merge, planning: &Planning, out: &mut dyn Write) -> Result<(), Error> {
    let mut inputs = Inputs::new();
    args.parts.iter().for_each(|path| inputs.add("PART", path));
    let open = |path: &PathBuf| Ok((path.clone(), Part::open(path).map_err(Error::io("PART"))?));
    let parts = complete(args.parts.iter().map(open).collect::<Result<_, Error>>()?)?;
    let first = &parts[0].1;
    let (search, count) = (&first.search, first.results.len());
    for (path, part) in &parts {
        part.results.iter().flat_map(|of| values(path, of)).for_each(|path| inputs.add("PART", &path));
    }
    inputs.check(&written(args, first)?)?;
    let mut told: Vec<(String, Found)> = Vec::new();
    for number in 0..count {
        let of = |part: &'_ Part| part.results[number].clone();
        let OfTemplate { template, spec, method, kernel, .. } = of(first);
        let top = search.as_ref().and_then(|search| Wanted::at_once(search, count).top);
        let output = args.output.as_deref().map(|path| numbered(path, (count > 1).then_some(number + 1)));
        if let Some(path) = &output {
            copy(&parts, number, path)?;
        }
        let found = found(spec.op().best(), top, parts.iter().map(|(_, part)| &part.results[number].found));
        let time = parts.iter().map(|(_, part)| Duration::from_nanos(part.results[number].ns)).sum();
        told.push((template.1, Found { spec, kernel, method, time, map: None, output, found, known: Map::new() }));
    }
    if let Some(search) = search {
        let all = told.iter_mut().map(|(_, found)| (&found.spec, &mut found.found.peaks));
        let took = templates::leave(search, &Wanted::at_once(search, count), all);
        told.iter_mut().for_each(|(_, found)| found.time += took.unwrap_or_default());
    }
    let telling = Telling { json: planning.json, search: search.as_ref(), table: args.table.as_deref() };
    correlate::tell(told.iter().map(|(name, found)| (name, found)), &telling, out)
}

/// The file of the values of a part, beside it.
fn values(path: &Path, of: &OfTemplate) -> Option<PathBuf> {
    of.values.as_ref().map(|name| path.with_file_name(name))
}

/// What is to be written.
fn written<'a>(args: &'a Merge, first: &Part) -> Result<Vec<Output<'a>>, Error> {
    let mut all = Vec::new();
    let count = first.results.len();
    if let Some(path) = &args.output {
        if !outputs::holds_values(path) {
            let expected = format!("a name that ends in {}", outputs::values_endings());
            return Err(SpecError::new("-o", expected, path.display()).into());
        }
        if first.results.iter().any(|of| of.values.is_none()) {
            let expected = "parts with values, which --tile writes with -o PART.npy";
            return Err(SpecError::new("-o", expected, "parts with peaks alone").into());
        }
        let output = |number: usize| numbered(path, (count > 1).then_some(number + 1));
        all.extend((0..count).map(|number| Output { argument: "-o", path: output(number), holds: Holds::Result }));
    } else if first.search.is_none() {
        return Err(SpecError::new("-o", format!("-o OUT.npy for parts of {}", first.command), "none").into());
    }
    if let Some(path) = &args.table {
        if first.search.is_none() {
            let expected = format!("none for parts of {}, which have no peaks", first.command);
            return Err(SpecError::new("--peaks", expected, path.display()).into());
        }
        all.push(Output { argument: "--peaks", path: path.clone(), holds: Holds::Peaks });
    }
    Ok(all)
}

/// Writes the values of all parts of a result behind each other: that is how they lie in it.
fn copy(parts: &[(PathBuf, Part)], number: usize, to: &PathBuf) -> Result<(), Error> {
    write_together(std::slice::from_ref(to), Error::io("-o"), |files| {
        let Some(file) = files.first_mut() else { return Ok(()) };
        let unwritten = |source| Error::io("-o")(IoError::Write { name: to.display().to_string(), source });
        let spec = &parts[0].1.results[number].spec;
        file.begin(spec.out_type(), spec.out_shape().lengths(), HELD).map_err(unwritten)?;
        for (path, part) in parts {
            let of = &part.results[number];
            let Some(path) = values(path, of) else { continue };
            let wrong = Error::io("PART");
            let axis = axis(&of.spec);
            let mut lengths = of.spec.out_shape().lengths().to_vec();
            lengths[axis] = of.range.len();
            let there = Source::open(&path).map_err(&wrong)?;
            let described = |dtype: DType, shape: &[usize]| format!("{dtype} {}", join(shape));
            let expected = described(of.spec.out_type(), &lengths);
            let got = there.as_ref().map(|there| described(there.dtype(), there.shape()));
            let Some(there) = there.filter(|_| got.as_ref() == Some(&expected)) else {
                let (name, got) = (path.display().to_string(), got.unwrap_or("another file".into()));
                return Err(wrong(IoError::Damaged { name, expected: format!("an array of {expected}"), got }));
            };
            let slice = lengths[axis + 1..].iter().product::<usize>() * of.spec.out_type().row().size;
            let step = (AT_A_TIME / slice.max(1)).max(1);
            for begin in (0..of.range.len()).step_by(step) {
                let run = begin..(begin + step).min(of.range.len());
                let pixels = there.read(axis, std::slice::from_ref(&run)).map_err(&wrong)?;
                let view = AnyView::dense(&pixels, Shape::new(&[pixels.len()])?, 1)?;
                each_type!(AnyView, &view, view => file.write(view.as_dense().unwrap_or(&[]))).map_err(unwritten)?;
            }
        }
        Ok(())
    })
}

fn join(shape: &[usize]) -> String {
    flcc_runtime::core::shape::join(shape, "x")
}
