//! Numbers as fio prints them.

/// `value` in at most `digits` digits, with a prefix of 1024 (`Ki`) or 1000 (`k`), and `unit`.
pub(super) fn short(value: u64, digits: u32, binary: bool, unit: &str) -> String {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let thousand = if binary { 1024 } else { 1000 };
    let (mut value, mut rest, mut prefix) = (value, None, 0);
    while value >= 10_u64.pow(digits) {
        (value, rest, prefix) = (value / thousand, Some(value % thousand), prefix + 1);
    }
    let prefix = if binary { BINARY[prefix] } else { DECIMAL[prefix] };
    let length = value.to_string().len() as u32;
    match rest {
        None => format!("{value}{prefix}{unit}"),
        Some(rest) if length + 1 >= digits => format!("{}{prefix}{unit}", value + u64::from(rest >= thousand / 2)),
        Some(rest) => {
            let decimals = (digits - length - 1) as usize;
            format!("{:.decimals$}{prefix}{unit}", value as f64 + rest as f64 / thousand as f64)
        }
    }
}

/// The unit in which fio shows durations from `min` to `max`, and how many nanoseconds it is.
pub(super) fn scale(min_ns: u64, max_ns: u64, deviation_ns: f64) -> (&'static str, u64) {
    match () {
        () if min_ns > 2_000_000 && max_ns > 99_999_999 && deviation_ns > 1e6 => ("msec", 1_000_000),
        () if min_ns > 2_000 && max_ns > 99_999 && deviation_ns > 1e3 => ("usec", 1_000),
        () => ("nsec", 1),
    }
}
