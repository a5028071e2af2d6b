//! Values of the parameters of a simulated drive: sizes, times, shares, numbers.

use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

/// Parses megabytes per second, decimals allowed, as kB/s.
pub(super) fn kilobytes(value: &str) -> Result<u64, &'static str> {
    let kbps = value.parse::<f64>().ok().map(|mbps| (mbps * 1e3).round());
    let fits = kbps.filter(|kbps| (0.0..1e15).contains(kbps) && (*kbps > 0.0 || value.parse() == Ok(0.0)));
    fits.map(|kbps| kbps as u64).ok_or("megabytes a second, 0.001 or more, or 0 for no limit")
}

/// Parses a number of `unit_ns` as nanoseconds, at most about a century.
pub(super) fn nanoseconds(value: &str, unit_ns: f64) -> Result<u64, &'static str> {
    let number: f64 = value.parse().map_err(|_| "a number, such as 80 or 0.5")?;
    let ns = number * unit_ns;
    if (0.0..=3e18).contains(&ns) { Ok(ns.round() as u64) } else { Err("a number from 0 to a century") }
}

pub(super) fn range(value: &str) -> Option<Range<u64>> {
    let (start, end) = value.split_once('-')?;
    let range = size_bytes(start)?..size_bytes(end)?;
    (!range.is_empty()).then_some(range)
}

/// Parses a size in bytes: a number with an optional unit KiB MiB GiB TiB KB MB GB TB. `None` for anything else and
/// above 1e18.
pub fn size_bytes(value: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, *unit))).unwrap_or((value, 1));
    let size = number.parse::<f64>().ok()? * unit as f64;
    (0.0..=1e18).contains(&size).then_some(size.round() as u64)
}

/// Parses `7%` or `0.07`, above 0. Without `%`, 1 and more is refused: 7 would mean 700 %.
pub(super) fn share(value: &str) -> Option<f64> {
    let share = match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => value.parse().ok().filter(|share| *share < 1.0)?,
    };
    (share > 0.0 && share.is_finite()).then_some(share)
}

/// Parses a whole number in `range`.
pub(super) fn number<T: FromStr + PartialOrd>(value: &str, range: RangeInclusive<T>) -> Option<T> {
    value.parse().ok().filter(|n| range.contains(n))
}
