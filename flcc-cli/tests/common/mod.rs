//! What tests of the command share: a folder for each, files of arrays, samples at random, and runs.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of one test, removed with everything in it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("flcc-cli-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What a file holds.
    pub fn contents(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a file, and makes the folder that it lies in.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Writes a `.npy` file of a type's code, in C order, with these bytes of samples.
    pub fn npy(&self, name: &str, code: &str, shape: &[usize], data: &[u8]) {
        self.write(name, npy(code, false, shape, data));
    }

    /// The command in this folder, without wisdom; arguments are separated by spaces.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flcc"));
        command.args(args.split_whitespace()).current_dir(&self.0).env_remove("FLCC_WISDOM");
        command
    }

    /// Runs the command; its status, and what it said on both outputs.
    pub fn said(&self, args: &str) -> (i32, String, String) {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// The one line of a command that does not end well.
    pub fn wrong(&self, args: &str, status: i32) -> String {
        let (got, out, err) = self.said(args);
        assert_eq!((got, out.as_str(), err.lines().count()), (status, "", 1), "flcc {args}: {err}");
        err.trim_end().strip_prefix("error: ").unwrap().to_string()
    }

    /// The most memory that a command took that prints more than a pipe takes, in KiB, before anyone reads that.
    #[cfg(target_os = "linux")]
    pub fn peak(&self, args: &str) -> u64 {
        use std::io::Read;
        let mut child = self.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0];
        out.read_exact(&mut first).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).unwrap();
        assert!(child.wait().unwrap().success() && rest.len() > 1 << 17, "{} bytes", rest.len());
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A `.npy` file of a type's code, in C or Fortran order, with these bytes of samples.
pub fn npy(code: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let lengths: String = shape.iter().map(|length| format!("{length},")).collect();
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{code}', 'fortran_order': {order}, 'shape': ({lengths}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

/// Numbers below `levels`.
pub fn draw(count: usize, levels: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) % levels
    };
    (0..count).map(|_| next()).collect()
}
