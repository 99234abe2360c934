//! What a folder is: a zarr array, a group of such, or something else; and which folders an array may replace.

#[cfg(feature = "zarr")]
use std::fs;
#[cfg(feature = "zarr")]
use std::io::{self, ErrorKind};
use std::path::Path;

use flcc_runtime::rooms::files;
use serde_json::Value;

use super::super::error::IoError;

/// The extension of names of arrays.
pub const EXTENSION: &str = "zarr";

/// What a build without the feature says where it would need it.
pub const FEATURE: &str = "flcc with the feature zarr (cargo install --path flcc-cli --features zarr)";

/// Most bytes of the text that says what an array is: a hundred thousand chunks of unequal sides.
const MOST_BYTES: usize = 16 << 20;

/// What a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An array of version 2 or 3, as far as the text says that stands for it.
    Array,
    /// A group of arrays.
    Group,
    /// Named as an array, with no text that says what it is.
    Bare,
}

/// Whether a name ends in the extension of arrays.
pub fn named(path: &Path) -> bool {
    path.extension().is_some_and(|text| text.eq_ignore_ascii_case(EXTENSION))
}

/// What a path leads to, if that is a folder of zarr, or named as one.
pub fn kind(path: &Path) -> Option<Kind> {
    if !path.is_dir() {
        return None;
    }
    let there = |name: &str| path.join(name).is_file();
    if there("zarr.json") {
        // What cannot be read here is told where the array is opened.
        let text = files::read_bounded(&path.join("zarr.json"), MOST_BYTES).unwrap_or_default();
        let whole: Value = serde_json::from_slice(&text).unwrap_or_default();
        let group = whole.get("node_type").and_then(Value::as_str) == Some("group");
        return Some(if group { Kind::Group } else { Kind::Array });
    }
    match (there(".zarray"), there(".zgroup")) {
        (true, _) => Some(Kind::Array),
        (false, true) => Some(Kind::Group),
        (false, false) => named(path).then_some(Kind::Bare),
    }
}

/// Whether a path leads to an array.
pub fn is_array(path: &Path) -> bool {
    kind(path) == Some(Kind::Array)
}

/// The text that says what an array is.
///
/// # Errors
/// A folder that is no array; a text that is not read, or larger than any that is sound.
#[cfg(feature = "zarr")]
pub fn text(path: &Path) -> Result<Vec<u8>, IoError> {
    let name = path.display().to_string();
    let (expected, got) = match kind(path) {
        Some(Kind::Array) => {
            let file = ["zarr.json", ".zarray"].map(|file| path.join(file)).into_iter().find(|file| file.is_file());
            let file = file.unwrap_or_else(|| path.join("zarr.json"));
            return files::read_bounded(&file, MOST_BYTES)
                .map_err(|source| IoError::Read { name: file.display().to_string(), source });
        }
        Some(Kind::Group) => ("a zarr array, as one of a group by its own name", "a zarr group"),
        _ => ("a zarr array, with a file zarr.json or .zarray", "a folder without either"),
    };
    Err(IoError::Damaged { name, expected: expected.into(), got: got.into() })
}

/// The error of an array, in a build that reads none.
#[cfg(not(feature = "zarr"))]
pub fn unsupported(path: &Path) -> IoError {
    let expected = format!("for a zarr array {FEATURE}");
    IoError::Unsupported { name: path.display().to_string(), expected, got: "flcc without it".into() }
}

/// Refuses what a new array is not to be put in the place of: all but nothing and an array that holds nothing else.
///
/// # Errors
/// What is there.
#[cfg(feature = "zarr")]
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    let refused = |got: String| {
        let words = format!("{got} is there, and only a zarr array is replaced by one");
        Err(io::Error::new(ErrorKind::AlreadyExists, words))
    };
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    match kind(path) {
        Some(Kind::Array) => {}
        Some(Kind::Group) => return refused("a zarr group".into()),
        _ if meta.is_dir() => return refused("a folder that is no array".into()),
        _ => return refused(files::kind(&meta).into()),
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !is_of_array(&name.to_string_lossy()) {
            return refused(format!("an array that {:?} lies in", name.to_string_lossy()));
        }
    }
    Ok(())
}

/// Whether an entry of an array's folder is the array's own: the texts of both versions, and chunks by any of their
/// encodings.
#[cfg(feature = "zarr")]
fn is_of_array(name: &str) -> bool {
    let chunk = name.strip_prefix("c.").unwrap_or(name);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(name, "zarr.json" | ".zarray" | ".zattrs" | "c") || chunk.split('.').all(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder of one test, removed with everything in it.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("flcc-zarr-{}-{test}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        /// A folder in it with these files.
        fn with(&self, name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).unwrap();
            files.iter().for_each(|(file, text)| fs::write(path.join(file), text).unwrap());
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn folders_are_told_by_what_is_in_them() {
        let folder = Folder::new("kinds");
        let kind_of = |name: &str, files: &[(&str, &str)]| kind(&folder.with(name, files));
        assert_eq!(kind_of("a", &[("zarr.json", "{\"node_type\":\"array\"}")]), Some(Kind::Array));
        assert_eq!(kind_of("b", &[("zarr.json", "{\"node_type\":\"group\"}")]), Some(Kind::Group));
        assert_eq!(kind_of("c", &[("zarr.json", "{")]), Some(Kind::Array));
        assert_eq!(kind_of("d", &[(".zarray", "{}"), (".zgroup", "{}")]), Some(Kind::Array));
        assert_eq!(kind_of("e", &[(".zgroup", "{}")]), Some(Kind::Group));
        assert_eq!(kind_of("f.ZARR", &[]), Some(Kind::Bare));
        assert_eq!(kind_of("g", &[("x.png", "")]), None);
        assert_eq!(kind(&folder.0.join("none.zarr")), None);
    }

    #[cfg(feature = "zarr")]
    #[test]
    fn nothing_but_an_array_is_replaced() {
        let folder = Folder::new("replaced");
        let told = |path: &Path| check_replaceable(path).map_err(|error| error.to_string());
        let array = ("zarr.json", "{\"node_type\":\"array\"}");
        assert_eq!(told(&folder.0.join("none.zarr")), Ok(()));
        assert_eq!(told(&folder.with("v3", &[array, ("c", "")])), Ok(()));
        assert_eq!(
            told(&folder.with("v2", &[(".zarray", "{}"), (".zattrs", "{}"), ("0.12.3", ""), ("7", "")])),
            Ok(())
        );
        for (path, got) in [
            (folder.with("with", &[array, ("notes.txt", "")]), "an array that \"notes.txt\" lies in"),
            (folder.with("group", &[(".zgroup", "{}")]), "a zarr group"),
            (folder.with("empty.zarr", &[]), "a folder that is no array"),
            (folder.with("files", &[("file.zarr", "")]).join("file.zarr"), "a file"),
        ] {
            let line = format!("{got} is there, and only a zarr array is replaced by one");
            assert_eq!(told(&path), Err(line));
        }
    }
}
