//! Parsers of option values that several commands share.

use jiff::{Span, SpanRelativeTo};
use report::comparison::Named;
use std::ops::RangeInclusive;
use std::path::Path;

/// Parses a time span as whole seconds: `24h`, `1h 30m`, `5400`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let expected = "give something like 24h, 90m or 3600 (seconds)";
    let seconds = match text.trim().parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let span =
                text.trim().parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
            let span = span.map_err(|_| format!("that is no time - {expected}"))?;
            if span.subsec_nanos() != 0 {
                return Err(format!("only whole seconds are counted - {expected}"));
            }
            u64::try_from(span.as_secs()).map_err(|_| format!("a time is not below 0 - {expected}"))?
        }
    };
    match u32::try_from(seconds) {
        Ok(0) => Err(format!("that is no time at all - {expected}")),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(format!("{seconds} s is longer than {} s, the most that is counted - {expected}", u32::MAX)),
    }
}

/// Parses `DIR` or `NAME=DIR`. An existing directory with `=` in its path is a `DIR`.
pub(super) fn named(text: &str) -> Result<Named, String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() && !Path::new(text).exists() => {
            Ok(Named { name: Some(name.to_owned()), dir: dir.into() })
        }
        _ => Ok(Named { name: None, dir: text.into() }),
    }
}

/// Parses `NAME=N`. The name may contain `=`.
pub(super) fn number(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("write NAME=NUMBER")?;
    if name.is_empty() {
        return Err("the name before \"=\" is missing".to_owned());
    }
    Ok((name.to_owned(), positive(value)?))
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{} is no number above 0", results::units::quoted(text))),
    }
}

/// Parses a percentage within `range`, with or without `%`.
pub(super) fn percent(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').parse().ok().filter(|percent| range.contains(percent));
    percent.ok_or_else(|| format!("that is no percentage from {} to {}, such as 2", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::{percent, seconds};

    #[test]
    fn a_time_is_a_number_of_seconds_or_has_units() {
        for (text, sec) in
            [("3600", 3_600), ("24h", 86_400), ("1h 30m", 5_400), ("2d", 172_800), ("1w", 604_800), ("90 min", 5_400)]
        {
            assert_eq!(seconds(text), Ok(sec), "{text}");
        }
        for (text, why) in [
            ("0", "no time at all"),
            ("-5m", "not below 0"),
            ("1500ms", "only whole seconds"),
            ("1d2x", "that is no time"),
            ("1y", "that is no time"),
            ("", "that is no time"),
            ("4294967296", "longer than"),
        ] {
            assert!(seconds(text).unwrap_err().contains(why), "{text}: {:?}", seconds(text));
        }
    }

    #[test]
    fn a_percentage_lies_within_its_range() {
        assert_eq!((percent("2", 1.0..=50.0), percent("5%", 1.0..=50.0)), (Ok(2.0), Ok(5.0)));
        assert!(["0.5", "51", "0", "two", "nan"].iter().all(|text| percent(text, 1.0..=50.0).is_err()));
    }
}
