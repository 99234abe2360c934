//! The files that a call is to write, judged by their names before anything is computed: what a name says must be the
//! format that is written, no output may take the place of an input or of another output, and each must be writable.

use std::fs;
use std::path::{Path, PathBuf};

use flcc_runtime::{SpecError, files};

use crate::error::Error;
use crate::io;

/// What an output is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An array.
    Npy,
    /// A picture.
    Png,
    /// Wisdom, which may have any name, and which is read before it is written.
    Wisdom,
}

impl Format {
    /// The extension of the format, and what is written in it.
    fn extension(self) -> Option<(&'static str, &'static str)> {
        match self {
            Format::Npy => Some(("npy", "results")),
            Format::Png => Some(("png", "pictures")),
            Format::Wisdom => None,
        }
    }
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// The argument that named it.
    pub argument: &'a str,
    /// The file.
    pub path: PathBuf,
    /// What it is written as.
    pub format: Format,
}

/// A file by all of its names: links are followed, and two names of one file are one.
struct Place {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    is_file: bool,
}

impl Place {
    fn of(path: &Path) -> Place {
        let meta = fs::metadata(path).ok();
        Place {
            path: files::target(path).unwrap_or_else(|_| path.to_path_buf()),
            identity: meta.as_ref().and_then(files::identity),
            is_file: meta.is_some_and(|meta| meta.is_file()),
        }
    }

    fn is(&self, other: &Place) -> bool {
        self.path == other.path || self.identity.is_some() && self.identity == other.identity
    }
}

/// Refuses outputs that would be no more what they were called, or would destroy something that the call names.
///
/// # Errors
/// The first that is wrong, by its argument: an extension of another format, a file that is read, a file that is
/// written twice; a file that cannot be written.
pub fn check(inputs: &[(&str, &Path)], outputs: &[Output<'_>]) -> Result<(), Error> {
    for Output { argument, path, format } in outputs {
        let Some((extension, what)) = format.extension() else { continue };
        if path.extension().is_some_and(|found| !found.eq_ignore_ascii_case(extension)) {
            let expected = format!("a name that ends in .{extension}, as which {what} are written");
            return Err(SpecError::new(*argument, expected, path.display()).into());
        }
    }
    // A pipe or a device is not destroyed by being written to.
    let inputs: Vec<(&str, Place)> =
        inputs.iter().map(|(argument, path)| (*argument, Place::of(path))).filter(|input| input.1.is_file).collect();
    let mut before: Vec<(&str, Place)> = Vec::new();
    for Output { argument, path, .. } in outputs {
        let place = Place::of(path);
        if let Some((other, _)) = inputs.iter().chain(&before).find(|(_, other)| place.is(other)) {
            return Err(SpecError::new(*argument, format!("another file than {other} names"), path.display()).into());
        }
        before.push((argument, place));
    }
    for Output { argument, path, format } in outputs {
        if *format != Format::Wisdom {
            io::check_writable(path).map_err(Error::io(argument))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output<'a>(argument: &'a str, path: &Path, format: Format) -> Output<'a> {
        Output { argument, path: path.into(), format }
    }

    #[test]
    fn an_extension_says_the_format() {
        let folder = std::env::temp_dir();
        let told = |name: &str, format| {
            check(&[], &[output("-o", &folder.join(name), format)]).map_err(|error| error.to_string())
        };
        for (name, format) in [
            ("x.npy", Format::Npy),
            ("x", Format::Npy),
            ("x.NPY", Format::Npy),
            (".npy", Format::Npy),
            ("x.y.png", Format::Png),
            ("w.x", Format::Wisdom),
        ] {
            assert_eq!(told(name, format), Ok(()), "{name}");
        }
        for name in ["x.txt", "x.png", "x.npy.gz", "x.", "x.npz", "x.tif"] {
            let line = told(name, Format::Npy).unwrap_err();
            assert!(
                line.starts_with("-o: expected a name that ends in .npy, as which results are written, got "),
                "{line}"
            );
        }
        assert!(told("x.jpg", Format::Png).unwrap_err().contains("ends in .png, as which pictures are written"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_known_by_all_of_its_names() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("flcc-outputs-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        let at = |name: &str| folder.join(name);
        fs::write(at("a.png"), b"").unwrap();
        fs::hard_link(at("a.png"), at("hard.png")).unwrap();
        symlink("a.png", at("soft.png")).unwrap();
        symlink("new.png", at("dangling.png")).unwrap();
        symlink(".", at("here")).unwrap();
        let both = |a: &str, b: &str| {
            let as_input = check(&[("IMAGE", &at(a))], &[output("--annotate", &at(b), Format::Png)]);
            let as_output =
                check(&[], &[output("--heatmap", &at(a), Format::Png), output("--annotate", &at(b), Format::Png)]);
            [as_input, as_output].map(|told| told.map_err(|error| error.to_string()))
        };
        for name in ["a.png", "./a.png", "sub/../a.png", "hard.png", "soft.png", "here/a.png"] {
            let [as_input, as_output] = both("a.png", name);
            assert!(
                as_input.unwrap_err().starts_with("--annotate: expected another file than IMAGE names, got "),
                "{name}"
            );
            assert!(
                as_output.unwrap_err().starts_with("--annotate: expected another file than --heatmap names, got "),
                "{name}"
            );
        }
        // What is not there yet is no input, but may be written twice.
        for name in ["new.png", "dangling.png", "here/new.png"] {
            let [as_input, as_output] = both("new.png", name);
            assert_eq!(as_input, Ok(()), "{name}");
            assert!(as_output.is_err(), "{name}");
        }
        assert_eq!(both("a.png", "b.png"), [Ok(()), Ok(())]);
        // A device is read and written at once, but not written by two.
        let null = Path::new("/dev/null");
        assert!(check(&[("IMAGE", null)], &[output("-o", null, Format::Npy)]).is_ok());
        assert!(check(&[], &[output("-o", null, Format::Npy), output("--heatmap", null, Format::Png)]).is_err());
        assert!(
            check(&[], &[output("-o", Path::new("-"), Format::Npy), output("--heatmap", Path::new("-"), Format::Png)])
                .is_err()
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
