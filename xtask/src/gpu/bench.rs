//! The command `flcc bench` as checks run it, and what it prints.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The arguments of a short bench of a spec on a GPU, by a method, planned by estimate, or by a kernel's name.
pub fn short_bench<'a>(by: &'a str, spec: &'a str) -> [&'a str; 11] {
    let asked = if ["auto", "direct", "fourier", "separable"].contains(&by) { "--method" } else { "--kernel" };
    ["bench", spec, "--platform", "cuda", asked, by, "--effort", "estimate", "--seconds", "0.01", "--json"]
}

/// Such a bench with no code kept by earlier ones, where [`forget`] was called after each.
pub fn cold_bench(folder: &Path, method: &str, spec: &str) -> Command {
    let mut command = Command::new(folder.join("flcc"));
    command.args(short_bench(method, spec)).env("FLCC_CACHE", cache()).env_remove("FLCC_WISDOM");
    command
}

/// The folder of the code that a cold bench keeps for itself.
fn cache() -> PathBuf {
    env::temp_dir().join(format!("flcc-gpu-check-{}", std::process::id()))
}

/// Removes that code: what the next spec shares with this one it compiles again.
pub fn forget() -> Result<(), String> {
    let cache = cache();
    if cache.exists() {
        fs::remove_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))
    } else {
        Ok(())
    }
}

/// The kernel in the line that bench prints.
pub fn kernel_of(output: &str) -> Result<&str, String> {
    Ok(output.split_once("\"kernel\":\"").ok_or("no kernel was run")?.1.split('"').next().unwrap_or_default())
}

/// A number in the line that bench prints.
pub fn field(output: &str, name: &str) -> Result<f64, String> {
    let behind = output.split_once(&format!("\"{name}\":")).ok_or_else(|| format!("no {name}"))?.1;
    let text = behind.split([',', '}']).next().unwrap_or_default();
    text.parse().map_err(|_| format!("{name}: expected a number, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_bench_is_understood() {
        let line = r#"{"spec":"x","plan_ns":120,"warm_plan_ns":7,"max_error":2.5e-7}"#;
        assert_eq!(
            ["plan_ns", "warm_plan_ns", "max_error"].map(|name| field(line, name)),
            [Ok(120.0), Ok(7.0), Ok(2.5e-7)]
        );
        assert!(field(line, "median_ns").is_err() && field(r#"{"max_error":null}"#, "max_error").is_err());
    }
}
