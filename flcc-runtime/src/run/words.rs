//! Figures in words.

/// A time with a unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A count or an amount of a unit, with a prefix of thousands.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match value {
        value if value < 1e3 => format!("{value:.0} {unit}"),
        value if value < 1e6 => format!("{:.1} k{unit}", value / 1e3),
        value if value < 1e9 => format!("{:.1} M{unit}", value / 1e6),
        value => format!("{:.1} G{unit}", value / 1e9),
    }
}
