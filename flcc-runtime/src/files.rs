//! Files read within bounds, and written whole or not at all, whoever else reads, writes or is killed meanwhile.
//!
//! A file is written beside its name, as `.NAME.PID-N.tmp`, and renamed. Who writes holds a lock on that file, so the
//! next writer of the same name tells what a killed one left behind, and removes it. The system lets go of a lock when
//! its process ends, however that ends. A folder that is written as one thing is treated alike.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many links may lead to a file whose name is not there yet.
const MOST_LINKS: usize = 40;

/// How long a writer waits until it looks again whether its turn has come.
const PAUSE: Duration = Duration::from_millis(3);

/// Reads a file of at most so many bytes to its end; of one that has more, or no end, no more than that.
///
/// # Errors
/// What the operating system refuses; more bytes.
pub fn read_bounded(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() <= most {
        true => Ok(bytes),
        false => Err(io::Error::new(ErrorKind::FileTooLarge, format!("expected at most {most} bytes, got more"))),
    }
}

/// What a name stands for, in words.
pub fn kind(meta: &Metadata) -> &'static str {
    match meta.file_type() {
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a folder",
        _ => "a device or a pipe",
    }
}

/// The file that is written under a name: links are followed, also one whose file is not there yet. The path is
/// canonical.
///
/// # Errors
/// A folder that is not there, a path that names no file, links in a circle.
pub fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        let (folder, name) = (folder_of(&path), name_of(&path)?);
        match fs::read_link(&path) {
            Ok(link) => path = folder.join(link),
            Err(_) => return Ok(fs::canonicalize(folder)?.join(name)),
        }
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("more than {MOST_LINKS} links")))
}

/// Refuses a file that is read-only, before it is replaced by one that is not.
///
/// # Errors
/// It is.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.permissions().readonly() => {
            Err(io::Error::new(ErrorKind::PermissionDenied, "the file is read-only"))
        }
        _ => Ok(()),
    }
}

/// The folder that a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path names no file"))
}

/// A name in the same folder: `.NAME.END`.
fn beside(target: &Path, end: &str) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(name_of(target)?);
    name.push(".");
    name.push(end);
    Ok(target.with_file_name(name))
}

/// Puts a new file in the place of `target`, whole or not at all, and removes what killed writers of it left behind. A
/// link is replaced, not followed: [`target`] says where it leads.
///
/// # Errors
/// What `write` or the operating system refuses, a file that is read-only. Then the old file is as it was.
pub fn replace(target: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    check_writable(target)?;
    sweep(target)?;
    let (path, mut file) = unfinished(target)?;
    write(&mut file).and_then(|()| fs::rename(&path, target)).inspect_err(|_| {
        // The first error is the one to tell; what is left behind is only a temporary file.
        let _ = fs::remove_file(&path);
    })
}

/// Puts a new folder in the place of `target`, whole or not at all. `mine` refuses a folder that is not to be replaced:
/// it is asked of what lies at `target`, before `write` and after it, and of what killed writers left behind.
///
/// # Errors
/// What `mine`, `write` or the operating system refuses. Then what was there is as it was.
pub fn replace_folder(
    target: &Path,
    mine: impl Fn(&Path) -> io::Result<()>,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let there = || match fs::symlink_metadata(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => found.and_then(|_| mine(target)).map(|()| true),
    };
    there()?;
    sweep_folders(target, &mine)?;
    let (path, handle) = unfinished_folder(target)?;
    let put = || {
        if !there()? {
            return fs::rename(&path, target);
        }
        // A folder with something in it is not renamed over: the old one steps aside first.
        let aside = unused(target)?;
        fs::rename(target, &aside)?;
        if let Err(error) = fs::rename(&path, target) {
            return fs::rename(&aside, target).and(Err(error));
        }
        // What is not removed here the next writer removes.
        let _ = fs::remove_dir_all(&aside);
        Ok(())
    };
    let done = write(&path).and_then(|()| put()).inspect_err(|_| {
        // As of a file.
        let _ = fs::remove_dir_all(&path);
    });
    drop(handle);
    done
}

/// A name beside `target` that no other writer uses.
fn unused(target: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicUsize = AtomicUsize::new(0);
    beside(target, &format!("{}-{}.tmp", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)))
}

/// A folder of a name that no other writer uses, locked where folders can be.
fn unfinished_folder(target: &Path) -> io::Result<(PathBuf, Option<File>)> {
    loop {
        let path = unused(target)?;
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let handle = File::open(&path).ok();
        if let Some(handle) = &handle {
            // Where there are no locks nobody sweeps by them.
            let _ = handle.lock();
            // Another writer may have swept the folder away before it was locked.
            if !is_at(handle, &path) {
                continue;
            }
        }
        return Ok((path, handle));
    }
}

/// As [`sweep`], of folders: those that are `mine`, and empty ones.
fn sweep_folders(target: &Path, mine: &impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let name = name_of(target)?.as_encoded_bytes();
    let Ok(entries) = fs::read_dir(folder_of(target)) else { return Ok(()) };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let left = writer_of(found.as_encoded_bytes(), name).is_some_and(|process| !is_another(process));
        if !left || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let path = entry.path();
            let _ = if mine(&path).is_ok() { fs::remove_dir_all(path) } else { fs::remove_dir(path) };
        }
    }
    Ok(())
}

/// Whether a process of this number lives that is not this one, as far as the system says.
fn is_another(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

/// A file of a name that no other writer uses, locked.
fn unfinished(target: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let path = unused(target)?;
        let file = match File::create_new(&path) {
            // A process that had the same number was killed, and its file could not be removed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // Where there are no locks nobody sweeps by them.
        let _ = file.lock();
        // Another writer may have swept the file away between those two lines.
        if is_at(&file, &path) {
            return Ok((path, file));
        }
    }
}

/// Removes the unfinished files of writers that are no more: nobody holds their lock, and no other process has their
/// number. What cannot be removed stays.
fn sweep(target: &Path) -> io::Result<()> {
    let name = name_of(target)?.as_encoded_bytes();
    let Ok(entries) = fs::read_dir(folder_of(target)) else { return Ok(()) };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let Some(process) = writer_of(found.as_encoded_bytes(), name) else { continue };
        if is_another(process) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        if let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// The number of the process that writes `name` under the name `found`, if that is `.NAME.PID-N.tmp`.
fn writer_of(found: &[u8], name: &[u8]) -> Option<u32> {
    let middle = found.strip_prefix(b".")?.strip_prefix(name)?.strip_prefix(b".")?.strip_suffix(b".tmp")?;
    let (process, serial) = std::str::from_utf8(middle).ok()?.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(process) && digits(serial) { process.parse().ok() } else { None }
}

/// What tells a file from all others, whatever its names; none where the system does not say.
#[cfg(unix)]
pub fn identity(meta: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

/// What tells a file from all others, whatever its names; none where the system does not say.
#[cfg(not(unix))]
pub fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Whether an open file is the one that a path names, as far as the system says.
fn is_at(file: &File, path: &Path) -> bool {
    let Ok(named) = fs::symlink_metadata(path) else { return false };
    file.metadata().is_ok_and(|open| identity(&open) == identity(&named))
}

/// The turn to change a file, which one writer has at a time: a lock on `.NAME.lock` beside it, of all processes and
/// threads.
pub(crate) struct Turn {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// What the operating system refuses; a turn that does not come in time.
    pub(crate) fn wait(target: &Path, patience: Duration) -> io::Result<Turn> {
        let path = beside(target, "lock")?;
        let begin = Instant::now();
        loop {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            // That of another user is locked as well as it can be read.
            let file = file.or_else(|error| File::open(&path).map_err(|_| error))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Turn { path, _file: file }),
                // The one before has removed it.
                Ok(()) => continue,
                // A system without locks: nothing is lost but the turn.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                    return Ok(Turn { path, _file: file });
                }
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if begin.elapsed() < patience => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let waited = format!("another process has held {path:?} for {} s", patience.as_secs_f64());
                    return Err(io::Error::new(ErrorKind::TimedOut, waited));
                }
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Who waits for this lock sees that its file is gone, and makes another. Elsewhere than on Unix that cannot be
        // seen.
        if cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A folder of one test, removed with everything in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("flcc-files-{}-{test}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(fs::canonicalize(path).unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> =
                fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The number of a process that is no more.
    #[cfg(unix)]
    fn dead() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let number = child.id();
        child.wait().unwrap();
        number
    }

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let folder = Folder::new("bounded");
        fs::write(folder.at("x"), [7; 10]).unwrap();
        assert_eq!(read_bounded(&folder.at("x"), 10).unwrap(), [7; 10]);
        assert_eq!(read_bounded(&folder.at("x"), 9).unwrap_err().to_string(), "expected at most 9 bytes, got more");
        #[cfg(unix)]
        assert!(read_bounded(Path::new("/dev/zero"), 1000).is_err());
    }

    #[test]
    fn names_of_unfinished_files() {
        for (found, process) in [
            (".x.npy.12-0.tmp", Some(12)),
            (".x.npy.12-345.tmp", Some(12)),
            ("x.npy.12-0.tmp", None),
            (".x.npy.12.0.tmp", None),
            (".x.npy.-0.tmp", None),
            (".x.npy.12-.tmp", None),
            (".x.npy.12-0.tmp.npy", None),
            (".x.npy.99999999999-0.tmp", None),
            (".y.npy.12-0.tmp", None),
            (".x.npy", None),
        ] {
            assert_eq!(writer_of(found.as_bytes(), b"x.npy"), process, "{found}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_writer_left_is_removed_by_the_next() {
        let folder = Folder::new("killed");
        let gone = format!(".x.{}-0.tmp", dead());
        let ours = format!(".x.{}-4000000000.tmp", std::process::id());
        let (of_another, of_a_living) = (format!(".y.{}-0.tmp", dead()), ".x.1-0.tmp".to_string());
        for name in [&gone, &ours, &of_another, &of_a_living] {
            fs::write(folder.at(name), b"half").unwrap();
        }
        // One that a thread of this process writes at the moment.
        let (path, busy) = unfinished(&folder.at("x")).unwrap();
        replace(&folder.at("x"), |file| file.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(folder.at("x")).unwrap(), b"whole");
        let mut expected = vec![of_another, "x".into(), path.file_name().unwrap().to_str().unwrap().to_string()];
        if cfg!(target_os = "linux") {
            expected.push(of_a_living);
        }
        expected.sort();
        assert_eq!(folder.names(), expected);
        drop(busy);
        replace(&folder.at("x"), |file| file.write_all(b"again")).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = Folder::new("failed");
        fs::write(folder.at("x"), b"old").unwrap();
        let failed = replace(&folder.at("x"), |file| file.write_all(b"half").and(Err(io::Error::other("full"))));
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!((fs::read(folder.at("x")).unwrap(), folder.names()), (b"old".to_vec(), vec!["x".to_string()]));
        let mut permissions = fs::metadata(folder.at("x")).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(folder.at("x"), permissions).unwrap();
        assert_eq!(replace(&folder.at("x"), |_| Ok(())).unwrap_err().to_string(), "the file is read-only");
        assert_eq!(fs::read(folder.at("x")).unwrap(), b"old");
    }

    /// A folder with a file `x` that says what it is.
    fn folder_of_x(path: &Path, text: &str) -> io::Result<()> {
        fs::create_dir(path.join("c")).and_then(|()| fs::write(path.join("c/x"), text))
    }

    #[test]
    fn a_folder_is_replaced_whole_or_not_at_all() {
        let folder = Folder::new("folder");
        let (target, ours) =
            (
                folder.at("a"),
                |path: &Path| {
                    if path.join("c/x").exists() { Ok(()) } else { Err(io::Error::other("not mine")) }
                },
            );
        let read = || fs::read_to_string(target.join("c/x")).unwrap();
        for text in ["first", "second"] {
            replace_folder(&target, ours, |path| folder_of_x(path, text)).unwrap();
            assert_eq!((read().as_str(), folder.names()), (text, vec!["a".to_string()]));
        }
        let failed = replace_folder(&target, ours, |path| folder_of_x(path, "half").and(Err(io::Error::other("full"))));
        assert_eq!((failed.unwrap_err().to_string(), read()), ("full".into(), "second".into()));
        // What is not ours, or becomes so meanwhile, stays.
        let changed = replace_folder(&target, ours, |path| {
            fs::rename(target.join("c/x"), target.join("c/y")).and_then(|()| folder_of_x(path, "third"))
        });
        assert_eq!(changed.unwrap_err().to_string(), "not mine");
        assert!(target.join("c/y").exists());
        let refused = replace_folder(&target, ours, |_| panic!("written"));
        assert_eq!((refused.unwrap_err().to_string(), folder.names()), ("not mine".into(), vec!["a".to_string()]));
        fs::write(folder.at("file"), b"").unwrap();
        assert!(replace_folder(&folder.at("file"), ours, |_| Ok(())).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn folders_that_a_killed_writer_left_are_removed_by_the_next() {
        let folder = Folder::new("killed-folder");
        let [gone, foreign, living] = [(dead(), 0), (dead(), 1), (1, 0)].map(|(id, at)| format!(".a.{id}-{at}.tmp"));
        for (name, file) in [(&gone, "c/x"), (&foreign, "c/other"), (&living, "c/x")] {
            fs::create_dir_all(folder.at(name).join("c")).unwrap();
            fs::write(folder.at(name).join(file), b"half").unwrap();
        }
        let ours = |path: &Path| if path.join("c/x").exists() { Ok(()) } else { Err(io::Error::other("not mine")) };
        let (busy, handle) = unfinished_folder(&folder.at("a")).unwrap();
        replace_folder(&folder.at("a"), ours, |path| folder_of_x(path, "whole")).unwrap();
        let mut expected = vec!["a".into(), foreign, living, busy.file_name().unwrap().to_str().unwrap().to_string()];
        expected.sort();
        assert_eq!(folder.names(), expected);
        drop(handle);
        replace_folder(&folder.at("a"), ours, |path| folder_of_x(path, "again")).unwrap();
        assert!(!busy.exists());
    }

    #[test]
    fn writers_at_once_each_write_a_whole_file() {
        let folder = Folder::new("once");
        let path = folder.at("x");
        std::thread::scope(|scope| {
            for byte in 0..8u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace(path, |file| (0..100).try_for_each(|_| file.write_all(&[byte; 10]))).unwrap();
                    }
                });
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 1000 && bytes.iter().all(|&byte| byte == bytes[0]));
        assert_eq!(folder.names(), ["x"]);
    }

    #[test]
    fn one_writer_has_the_turn_and_the_next_waits() {
        let folder = Folder::new("turn");
        let path = folder.at("x");
        let turn = Turn::wait(&path, Duration::ZERO).unwrap();
        let waited = Turn::wait(&path, Duration::from_millis(20)).map(|_| ()).unwrap_err();
        assert!(waited.kind() == ErrorKind::TimedOut && waited.to_string().contains(".x.lock"), "{waited}");
        drop(turn);
        // What a killed process has left is a file without a lock.
        fs::write(folder.at(".x.lock"), b"").unwrap();
        drop(Turn::wait(&path, Duration::ZERO).unwrap());
        if cfg!(unix) {
            assert!(folder.names().is_empty(), "{:?}", folder.names());
        }
        let count = std::sync::Mutex::new(());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        let _turn = Turn::wait(&path, Duration::from_secs(60)).unwrap();
                        assert!(count.try_lock().is_ok(), "two have the turn");
                    }
                });
            }
        });
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_what_is_written() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new("links");
        fs::write(folder.at("file"), b"").unwrap();
        symlink("file", folder.at("link")).unwrap();
        symlink("nothing", folder.at("dangling")).unwrap();
        symlink("dangling", folder.at("twice")).unwrap();
        symlink("circle", folder.at("circle")).unwrap();
        for (name, leads) in
            [("link", "file"), ("./file", "file"), ("dangling", "nothing"), ("twice", "nothing"), ("new", "new")]
        {
            assert_eq!(target(&folder.at(name)).unwrap(), folder.at(leads), "{name}");
        }
        assert!(target(&folder.at("circle")).is_err());
        assert!(target(&folder.at("none/x")).is_err());
        assert_eq!(target(&folder.at("none/..")).unwrap_err().to_string(), "the path names no file");
        assert_eq!(target(Path::new("new")).unwrap(), std::env::current_dir().unwrap().join("new"));
    }
}
