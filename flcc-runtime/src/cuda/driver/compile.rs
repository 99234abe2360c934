//! NVRTC, and what it made kept on disk.
//!
//! An entry of the cache is named by a hash of everything that its machine code depends on, and holds a hash of the
//! code itself: a damaged entry is compiled again. Entries are written aside and renamed, so that a reader sees whole
//! ones.

use std::env;
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use cudarc::nvrtc::{result, sys};

use crate::cuda::fault::Fault;
use crate::files;

/// The environment variable that names the cache's folder; empty for no cache.
pub const CACHE_VARIABLE: &str = "FLCC_CACHE";

/// Bytes of machine code that the cache keeps, and the most that an entry has; beyond, the entries that were used least
/// lately go.
const MOST_BYTES: u64 = 256 << 20;

/// What every entry begins with.
const MAGIC: &[u8; 16] = b"flcc cubin v001\n";

/// The machine code of a kernel, for one architecture.
#[derive(Clone, Debug)]
pub struct Code {
    /// The code.
    pub cubin: Vec<u8>,
    /// What it depends on, as a number.
    pub key: u128,
    /// Whether it came from the cache.
    pub cached: bool,
    /// How long it took to come.
    pub time: Duration,
}

/// Compiles a source for an architecture (`sm_90`), or takes it from the cache.
///
/// # Errors
/// No NVRTC, or what it says of the source.
pub fn compile(name: &str, source: &str, options: &[String], architecture: &str) -> Result<Code, Fault> {
    let begin = Instant::now();
    let (major, minor) = version()?;
    let options = all_options(options, architecture);
    let text = format!("{major}.{minor}\n{}\n{source}", options.join("\n"));
    let key = hash(text.as_bytes());
    let entry = folder().map(|folder| folder.join(format!("{key:032x}.cubin")));
    if let Some(cubin) = entry.as_deref().and_then(read) {
        return Ok(Code { cubin, key, cached: true, time: begin.elapsed() });
    }
    let (cubin, _) = run(name, source, &options)?;
    if let Some(entry) = entry {
        // A cache that cannot be written is no reason not to compute.
        let _ = write(&entry, &cubin);
    }
    Ok(Code { cubin, key, cached: false, time: begin.elapsed() })
}

/// Compiles a source past the cache: the machine code, and what the compiler and the assembler say of it.
///
/// # Errors
/// As [`compile`].
pub fn compile_with_log(
    name: &str,
    source: &str,
    options: &[String],
    architecture: &str,
) -> Result<(Vec<u8>, String), Fault> {
    version()?;
    let mut options = all_options(options, architecture);
    options.push("--ptxas-options=-v".into());
    run(name, source, &options)
}

/// What every compilation is asked for besides its own options.
fn all_options(options: &[String], architecture: &str) -> Vec<String> {
    let always = [format!("--gpu-architecture={architecture}"), "--std=c++17".into(), "-default-device".into()];
    options.iter().cloned().chain(always).collect()
}

/// The architectures that NVRTC makes machine code for, by their numbers: 90 for `sm_90`.
///
/// # Errors
/// No NVRTC, or it does not say.
pub fn architectures() -> Result<Vec<u32>, Fault> {
    version()?;
    let fault = |error: result::NvrtcError| Fault::new("NVRTC's architectures", error);
    let mut count = 0;
    // SAFETY: the library is there, and this function is in it since 11.2, which `version` asked for; it writes one
    // integer.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(fault)?;
    let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: as above; it writes as many integers as it said.
    unsafe { sys::nvrtcGetSupportedArchs(found.as_mut_ptr()) }.result().map_err(fault)?;
    Ok(found.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
}

/// The version of NVRTC.
///
/// # Errors
/// There is none.
pub fn version() -> Result<(i32, i32), Fault> {
    static VERSION: OnceLock<Result<(i32, i32), String>> = OnceLock::new();
    let found = VERSION.get_or_init(|| {
        // SAFETY: it loads a library by its well-known names and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err("the library libnvrtc was not found".into());
        }
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is there, and this function is in every version of it; it writes two integers.
        unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(|error| error.to_string())?;
        // Machine code, rather than PTX, is given out since 11.1.
        if (major, minor) < (11, 2) {
            Err(format!("NVRTC {major}.{minor} is too old, expected at least 11.2"))
        } else {
            Ok((major, minor))
        }
    });
    found.clone().map_err(|reason| Fault::new("NVRTC", reason))
}

/// A program of NVRTC.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was made by `create_program` and is destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// Machine code and log.
fn run(name: &str, source: &str, options: &[String]) -> Result<(Vec<u8>, String), Fault> {
    let fault = |error: String| Fault::new(format!("NVRTC on {name}"), error);
    let text = CString::new(source).map_err(|error| fault(error.to_string()))?;
    let file = CString::new(format!("{name}.cu")).map_err(|error| fault(error.to_string()))?;
    let program = Program(result::create_program(&text, Some(&file)).map_err(|error| fault(error.to_string()))?);
    // SAFETY: the program lives until the end of this function.
    let compiled = unsafe { result::compile_program(program.0, options) };
    // SAFETY: as above.
    let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
    let log: Vec<u8> = log.into_iter().map(|c| c as u8).take_while(|c| *c != 0).collect();
    let log = String::from_utf8_lossy(&log).into_owned();
    compiled.map_err(|error| fault(format!("{error}: {log}")))?;
    let mut size = 0;
    // SAFETY: as above; it writes one number.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result().map_err(|error| fault(error.to_string()))?;
    let mut cubin = vec![0u8; size];
    // SAFETY: as above; the buffer has the size that was asked for.
    unsafe { sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast()) }
        .result()
        .map_err(|error| fault(error.to_string()))?;
    Ok((cubin, log))
}

/// Where entries lie, if anywhere.
fn folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os(CACHE_VARIABLE) {
        return (!folder.is_empty()).then(|| PathBuf::from(folder));
    }
    let below = |variable: &str, path: &str| {
        env::var_os(variable).filter(|value| !value.is_empty()).map(|value| Path::new(&value).join(path))
    };
    below("XDG_CACHE_HOME", "flcc").or_else(|| below("LOCALAPPDATA", "flcc")).or_else(|| below("HOME", ".cache/flcc"))
}

/// The code of a whole entry.
fn read(entry: &Path) -> Option<Vec<u8>> {
    let bytes = files::read_bounded(entry, MOST_BYTES as usize).ok()?;
    let code = bytes.strip_prefix(MAGIC)?;
    let (sum, code) = code.split_first_chunk::<16>()?;
    if u128::from_le_bytes(*sum) != hash(code) {
        return None;
    }
    // The time says when it was used last.
    let _ = fs::File::options().append(true).open(entry).and_then(|file| file.set_modified(SystemTime::now()));
    Some(code.to_vec())
}

fn write(entry: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = entry.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let placed = files::replace(entry, |file| {
        file.write_all(MAGIC)?;
        file.write_all(&hash(code).to_le_bytes())?;
        file.write_all(code)
    });
    shrink(folder, MOST_BYTES);
    placed
}

/// Removes the entries that were used least lately until the rest fits.
fn shrink(folder: &Path, most: u64) {
    let Ok(files) = fs::read_dir(folder) else { return };
    let mut entries: Vec<(SystemTime, u64, PathBuf)> = files
        .filter_map(|file| {
            let file = file.ok()?;
            let metadata = file.metadata().ok()?;
            let path = file.path();
            (path.extension()? == "cubin").then_some((metadata.modified().ok()?, metadata.len(), path))
        })
        .collect();
    let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    entries.sort();
    for (_, bytes, path) in entries {
        if total <= most {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}

/// 128-bit FNV-1a: tells texts apart; it protects from accidents, not from attackers.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |state, byte| (state ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn a_damaged_entry_is_no_entry() {
        let folder = env::temp_dir().join(format!("flcc-cache-test-{}", std::process::id()));
        let entry = folder.join("a.cubin");
        write(&entry, b"some code").unwrap();
        assert_eq!(read(&entry).as_deref(), Some(&b"some code"[..]));
        let whole = fs::read(&entry).unwrap();
        for (at, change) in [(0, 1), (20, 1), (whole.len() - 1, 4)] {
            let mut damaged = whole.clone();
            damaged[at] ^= change;
            fs::write(&entry, &damaged).unwrap();
            assert_eq!(read(&entry), None, "byte {at}");
        }
        fs::write(&entry, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(&entry), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_cache_is_bounded() {
        let folder = env::temp_dir().join(format!("flcc-cache-bound-{}", std::process::id()));
        for (name, age) in [("old", 100), ("new", 0), ("older", 200)] {
            let entry = folder.join(format!("{name}.cubin"));
            write(&entry, &[0; 1000]).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().append(true).open(&entry).unwrap().set_modified(then).unwrap();
        }
        shrink(&folder, 2500);
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["new.cubin", "old.cubin"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
