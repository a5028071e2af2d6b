//! Parsers of option values that several commands share.

use report::comparison::Named;
pub use results::units::seconds;
use std::ops::RangeInclusive;
use std::path::Path;

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
    use super::percent;

    #[test]
    fn a_percentage_lies_within_its_range() {
        assert_eq!((percent("2", 1.0..=50.0), percent("5%", 1.0..=50.0)), (Ok(2.0), Ok(5.0)));
        assert!(["0.5", "51", "0", "two", "nan"].iter().all(|text| percent(text, 1.0..=50.0).is_err()));
    }
}
