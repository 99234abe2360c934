//! How much memory is free.

/// Kept back of a limited address space, for stacks of threads and the allocator's own books.
const RESERVE: f64 = 64.0 * 1024.0 * 1024.0;

/// Bytes that can still be had: what is free, as Linux tells it (a guess elsewhere), and what a limit of the address
/// space (`ulimit -v`) leaves.
pub fn available() -> f64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let free = kilobytes(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(16e9);
    match address_space(&read("/proc/self/limits")) {
        Some(limit) => {
            free.min((limit - kilobytes(&read("/proc/self/status"), "VmSize:").unwrap_or(0.0) - RESERVE).max(0.0))
        }
        None => free,
    }
}

/// What is free, where so many bytes are more.
pub fn short_of(bytes: f64) -> Option<f64> {
    let free = available();
    (bytes > free).then_some(free)
}

/// A line `NAME 123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kilobytes| 1024.0 * kilobytes)
}

/// The soft limit of the address space, in bytes; none if it is unlimited.
fn address_space(limits: &str) -> Option<f64> {
    limits.lines().find_map(|line| line.strip_prefix("Max address space"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_system_are_understood() {
        assert_eq!(kilobytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", "MemAvailable:"), Some(2048.0 * 1024.0));
        assert_eq!(kilobytes("MemTotal: 9 kB\n", "MemAvailable:"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax address space         6144000000  unlimited  bytes\n";
        assert_eq!(address_space(limits), Some(6_144_000_000.0));
        assert_eq!(address_space("Max address space         unlimited            unlimited            bytes\n"), None);
        assert!(available() > 0.0);
        assert!(short_of(1.0).is_none() && short_of(1e18).is_some_and(|free| free > 0.0));
    }
}
