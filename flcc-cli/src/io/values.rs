//! Arrays that are written as their values come, and several of them together.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flcc_core::dtype::{DType, Pixel, Pixels};
#[cfg(feature = "zarr")]
use flcc_runtime::rooms::files;

use super::error::IoError;
use super::save::{atomically, npy_begin, write_samples};
use super::zarr::folder;
#[cfg(feature = "zarr")]
use super::zarr::write::ZarrWriter;

/// Bytes that are held of an array, where its format wants many values at once.
pub const HELD: usize = 32 << 20;

/// An array that is being written: what it is, then its values in C order.
pub enum Values {
    /// A `.npy` file.
    Npy(BufWriter<File>),
    /// A zarr array in a folder, once it is begun.
    #[cfg(feature = "zarr")]
    Zarr(PathBuf, Option<Box<ZarrWriter>>),
}

impl Values {
    /// A zarr array that will lie in a folder, which is empty.
    #[cfg(feature = "zarr")]
    fn zarr(folder: &Path) -> io::Result<Values> {
        Ok(Values::Zarr(folder.into(), None))
    }

    /// A zarr array that will lie in a folder: none in this build.
    #[cfg(not(feature = "zarr"))]
    fn zarr(_: &Path) -> io::Result<Values> {
        Err(io::Error::new(io::ErrorKind::Unsupported, folder::FEATURE))
    }

    /// Says what the array is. At most so many bytes are held until there are as many values as the format wants at
    /// once, or those of a slice along the slowest axis.
    ///
    /// # Errors
    /// What the system said.
    #[cfg_attr(not(feature = "zarr"), expect(unused_variables, reason = "a file holds no values"))]
    pub fn begin(&mut self, dtype: DType, shape: &[usize], most: usize) -> io::Result<()> {
        match self {
            Values::Npy(file) => file.write_all(&npy_begin(dtype, shape)),
            #[cfg(feature = "zarr")]
            Values::Zarr(folder, writer) => {
                *writer = Some(Box::new(ZarrWriter::new(folder, dtype, shape, most)?));
                Ok(())
            }
        }
    }

    /// Writes the values that follow.
    ///
    /// # Errors
    /// What the system said.
    pub fn write<T: Pixel>(&mut self, values: &[T]) -> io::Result<()> {
        match self {
            Values::Npy(file) => write_samples(file, values),
            #[cfg(feature = "zarr")]
            Values::Zarr(_, Some(writer)) => writer.write(values),
            #[cfg(feature = "zarr")]
            Values::Zarr(_, None) => Err(io::Error::other("values before what they are")),
        }
    }

    /// Writes what is held.
    fn end(&mut self) -> io::Result<()> {
        match self {
            Values::Npy(file) => file.flush(),
            #[cfg(feature = "zarr")]
            Values::Zarr(_, Some(writer)) => writer.end(),
            #[cfg(feature = "zarr")]
            Values::Zarr(_, None) => Err(io::Error::other("no values")),
        }
    }
}

/// Writes a zarr array whole, from what is in memory.
///
/// # Errors
/// [`IoError::Write`], also where something else than an array is in its place.
pub fn save_zarr(path: &Path, shape: &[usize], pixels: &Pixels) -> Result<(), IoError> {
    array(path, |folder| {
        let mut values = Values::zarr(folder)?;
        values.begin(pixels.dtype(), shape, HELD)?;
        match pixels {
            Pixels::U8(data) => values.write(data),
            Pixels::U16(data) => values.write(data),
            Pixels::F32(data) => values.write(data),
            Pixels::F64(data) => values.write(data),
        }?;
        values.end()
    })
}

/// Tells what would keep [`save_zarr`] from a folder, before there is anything to write.
///
/// # Errors
/// [`IoError::Write`]: something else than an array in its place, a name in a folder that is not there.
pub fn check_array(path: &Path) -> Result<(), IoError> {
    #[cfg(feature = "zarr")]
    let run = || files::target(path).and_then(|path| folder::check_replaceable(&path));
    #[cfg(not(feature = "zarr"))]
    let run = || Values::zarr(path).map(|_| ());
    run().map_err(|source| IoError::Write { name: path.display().to_string(), source })
}

/// Puts a new array in the place of the one at `path`, or of the one that the link there leads to.
fn array(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), IoError> {
    #[cfg(feature = "zarr")]
    let run = || files::replace_folder(&files::target(path)?, folder::check_replaceable, write);
    // There is nothing to write, which says so.
    #[cfg(not(feature = "zarr"))]
    let run = || write(path);
    run().map_err(|source| IoError::Write { name: path.display().to_string(), source })
}

/// Writes several files or folders of arrays together, each whole or not at all: none of them appears before all are
/// written.
///
/// # Errors
///
/// What `run` says; what `wrong` makes of an [`IoError::Write`] of a file that is not opened, ended or put in its
/// place.
pub fn write_together<E>(
    paths: &[PathBuf],
    wrong: impl Fn(IoError) -> E,
    run: impl FnOnce(&mut [Values]) -> Result<(), E>,
) -> Result<(), E> {
    /// Opens one file after the other, each within the writing of the one before.
    fn open(
        paths: &[PathBuf],
        files: &mut Vec<Values>,
        run: &mut dyn FnMut(&mut [Values]) -> io::Result<()>,
        failed: &mut Option<IoError>,
    ) -> Result<(), IoError> {
        let Some((path, rest)) = paths.split_first() else {
            let ended = run(files).and_then(|()| files.iter_mut().try_for_each(Values::end));
            return ended.map_err(|source| IoError::Write { name: "output".into(), source });
        };
        let mut inner = |files: &mut Vec<Values>| {
            open(rest, files, run, failed).map_err(|error| {
                // The innermost is the one to tell.
                failed.get_or_insert(error);
                io::Error::other("another file")
            })
        };
        if folder::named(path) {
            return array(path, |folder| {
                files.push(Values::zarr(folder)?);
                inner(files)
            });
        }
        atomically(path, |out| {
            files.push(Values::Npy(BufWriter::new(out.get_ref().try_clone()?)));
            inner(files)
        })
    }
    let (mut run, mut said, mut failed) = (Some(run), Ok(()), None);
    let mut once = |files: &mut [Values]| {
        said = run.take().map_or(Ok(()), |run| run(files));
        if said.is_ok() { Ok(()) } else { Err(io::Error::other("what is written")) }
    };
    let opened = open(paths, &mut Vec::new(), &mut once, &mut failed);
    said?;
    opened.map_err(|error| wrong(failed.unwrap_or(error)))
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;
    use std::fs;

    /// A folder of one test, removed with everything in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("flcc-values-{}-{test}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_that_are_written_together_appear_together() {
        let folder = Folder::new("together");
        let paths = ["a.npy", "b.npy", "c.npy"].map(|name| folder.0.join(name));
        fs::write(&paths[1], b"old").unwrap();
        let write = |fails: bool| {
            write_together(&paths, std::convert::identity, |files| {
                for (number, file) in files.iter_mut().enumerate() {
                    file.begin(DType::U8, &[2], HELD).unwrap();
                    file.write(&[number as u8, 7]).unwrap();
                }
                let (name, expected, got) = ("x".into(), "a".into(), "b".into());
                if fails { Err(IoError::Unsupported { name, expected, got }) } else { Ok(()) }
            })
        };
        assert_eq!(write(true).unwrap_err().to_string(), "\"x\": expected a, got b");
        assert_eq!((folder.names(), fs::read(&paths[1]).unwrap()), (vec!["b.npy".to_string()], b"old".to_vec()));
        write(false).unwrap();
        for (number, path) in paths.iter().enumerate() {
            assert_eq!(load(path).unwrap().pixels, Pixels::U8(vec![number as u8, 7]));
        }
        let nowhere = [folder.0.join("d.npy"), folder.0.join("none/e.npy")];
        let told = write_together(&nowhere, std::convert::identity, |_| Ok(())).unwrap_err().to_string();
        assert!(told.contains("none/e.npy") && folder.names().len() == 3, "{told}");
    }

    #[cfg(feature = "zarr")]
    #[test]
    fn folders_of_arrays_appear_together_and_replace_arrays_alone() {
        let folder = Folder::new("arrays");
        let paths = ["a.zarr", "b.npy", "c.zarr"].map(|name| folder.0.join(name));
        let write = |value: u8, fails: bool| {
            write_together(&paths, std::convert::identity, |files| {
                for file in files {
                    file.begin(DType::U8, &[2, 3], HELD).unwrap();
                    [value; 6].chunks(4).for_each(|values| file.write(values).unwrap());
                }
                let (name, expected, got) = ("x".into(), "a".into(), "b".into());
                if fails { Err(IoError::Unsupported { name, expected, got }) } else { Ok(()) }
            })
        };
        assert!(write(1, true).is_err() && folder.names().is_empty());
        for value in [2, 3] {
            write(value, false).unwrap();
            assert!(paths.iter().all(|path| load(path).unwrap().pixels == Pixels::U8(vec![value; 6])));
        }
        assert_eq!(folder.names().len(), 3);
        fs::write(paths[2].join("notes"), b"mine").unwrap();
        let told = write(4, false).unwrap_err().to_string();
        assert!(told.ends_with("an array that \"notes\" lies in is there, and only a zarr array is replaced by one"));
        assert_eq!((folder.names().len(), load(&paths[2]).unwrap().pixels), (3, Pixels::U8(vec![3; 6])));
        // Of too few values there is no array.
        let short = folder.0.join("short.zarr");
        assert!(save_zarr(&short, &[7], &Pixels::U8(vec![0; 6])).is_err() && !short.exists());
        save_zarr(&short, &[6], &Pixels::U8(vec![0; 6])).unwrap();
        assert_eq!(load(&short).unwrap().pixels, Pixels::U8(vec![0; 6]));
    }
}
