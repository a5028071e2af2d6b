//! Numbers and names in words: how all forms of a report say a duration, a share, a date.

use humantime::format_rfc3339_seconds;
use results::judge::{Class, Outcome};
use std::time::{Duration, UNIX_EPOCH};

/// Last moment that has a date of four digits for its year, milliseconds since 1970.
const DATE_MAX_MS: u64 = 253_402_300_799_000;

/// A fraction as percent with three digits and no zeros at its end: `0.125 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// A number with three digits (whole from 100 on), thousands grouped.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs();
    if magnitude >= 99.95 {
        let whole = results::judge::Grouped(magnitude.round() as u64).to_string();
        return if value < 0.0 { format!("-{whole}") } else { whole };
    }
    if magnitude < 1e-6 {
        return format!("{value:.1e}");
    }
    let decimals = (2 - magnitude.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A duration in milliseconds, in the unit that reads best: `85 us`, `1.2 ms`, `3.5 s`.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 1_000.0 => format!("{} s", number(ms / 1_000.0)),
        ms if ms >= 1.0 => format!("{} ms", number(ms)),
        ms => format!("{} us", number((ms * 1_000.0).max(0.0))),
    }
}

/// A threshold in nanoseconds: `8 ms`.
pub(crate) fn threshold(ns: u64) -> String {
    milliseconds(ns as f64 / 1e6)
}

/// Seconds in words: `24 h`, `1 h 30 min`, `90 s`.
pub(crate) fn seconds(sec: f64) -> String {
    let whole = sec.round() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    let parts = match whole {
        0 => return format!("{} s", number(sec)),
        1..120 => return format!("{whole} s"),
        _ => [(hours, "h"), (minutes, "min"), (rest, "s")],
    };
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// Milliseconds since 1970 as a date: `2026-11-21 14:00:32 UTC`.
pub(crate) fn date(unix_ms: u64) -> String {
    if unix_ms == 0 || unix_ms > DATE_MAX_MS {
        return "at an unknown time".to_owned();
    }
    let text = format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(unix_ms)).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// Bytes: `68.7 GB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(unit, _)| bytes.abs() >= *unit);
    unit.map_or_else(|| format!("{} B", number(bytes)), |(unit, name)| format!("{} {name}", number(bytes / unit)))
}

/// Device of a group or share: its name, or all together.
pub(crate) fn device(device: Option<&str>) -> &str {
    device.unwrap_or("all devices together")
}

/// The outcome as one capital word.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::Invalid => "INVALID",
    }
}

/// What a run of this class may be called. Anything shorter than a day, or simulated, certifies nothing.
pub(crate) fn class(class: Class, simulated: bool, ran_sec: f64, partial: bool) -> String {
    let length = seconds(ran_sec);
    let partial = if partial { ", stopped before its time" } else { "" };
    match (class, simulated) {
        (_, true) => format!("screening of {length} on simulated drives{partial}: it certifies nothing"),
        (Class::Screening, false) => format!("screening of {length}{partial}: it certifies nothing"),
        (Class::CertificationLoad, false) => format!("a certification's load, for {length}{partial}"),
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let texts = [0.4, 90.0, 120.0, 3_600.0, 5_400.0, 86_400.0, 86_461.0].map(seconds);
        assert_eq!(texts, ["0.4 s", "90 s", "2 min", "1 h", "1 h 30 min", "24 h", "24 h 1 min 1 s"]);
        assert_eq!([0.085, 1.0, 8.0, 1_250.0].map(milliseconds), ["85 us", "1 ms", "8 ms", "1.25 s"]);
    }

    #[test]
    fn numbers_have_three_digits_and_small_ones_do_not_become_nothing() {
        let texts = [0.0, 0.001_253_75, 0.5, 9.999, 42.25, 1_234.5, -3.0, 2e-9].map(number);
        assert_eq!(texts, ["0", "0.00125", "0.5", "10", "42.2", "1,235", "-3", "2.0e-9"]);
        assert_eq!(percent(0.001_253_75), "0.125 %");
        assert_eq!(bytes(68_719_476_736.0), "68.7 GB");
    }

    #[test]
    fn dates_that_nobody_can_have_meant_are_not_printed() {
        assert_eq!(date(1_795_271_232_147), "2026-11-21 14:27:12 UTC");
        assert_eq!((date(0), date(u64::MAX)), ("at an unknown time".into(), "at an unknown time".into()));
    }

    #[test]
    fn a_simulated_day_is_a_screening() {
        let words = class(Class::CertificationLoad, true, 86_400.0, false);
        assert_eq!(words, "screening of 24 h on simulated drives: it certifies nothing");
        assert!(class(Class::Screening, false, 21_600.0, true).starts_with("screening of 6 h, stopped before"));
        assert_eq!(class(Class::CertificationLoad, false, 86_400.0, false), "a certification's load, for 24 h");
    }
}
