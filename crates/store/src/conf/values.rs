//! Values of directives: numbers, sizes, times, yes and no.

use super::blocks::Directive;
use results::units::quoted;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The only value of a directive.
pub(super) fn text<'a>(directive: &Directive<'a>) -> Result<&'a str, String> {
    match directive.values[..] {
        [value] => Ok(value),
        [] => Err("it has no value".to_owned()),
        _ => Err(format!("expected one value, found {}", directive.values.len())),
    }
}

/// `true`, `yes`, `false`, `no`; nothing is true.
pub(super) fn flag(directive: &Directive<'_>) -> Result<bool, String> {
    match directive.values[..] {
        [] | ["true" | "yes"] => Ok(true),
        ["false" | "no"] => Ok(false),
        _ => Err(format!("expected true or false, found {}", quoted(&directive.values.join(" ")))),
    }
}

fn suffixed(text: &str, suffixes: &[(char, u64)]) -> Option<u64> {
    let found = suffixes.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(*suffix)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1));
    // A sign would be taken by parse.
    digits.starts_with(|c: char| c.is_ascii_digit()).then(|| digits.parse::<u64>().ok()?.checked_mul(factor))?
}

fn within<T: TryFrom<u64> + PartialOrd + Display + Copy>(
    directive: &Directive<'_>,
    suffixes: &[(char, u64)],
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, String> {
    let text = text(directive)?;
    let ascii = text.to_ascii_uppercase();
    let value = suffixed(&ascii, suffixes).ok_or_else(|| format!("expected {what}, found {}", quoted(text)))?;
    T::try_from(value)
        .ok()
        .filter(|value| range.contains(value))
        .ok_or_else(|| format!("{text} is out of range: {} to {}", range.start(), range.end()))
}

/// Parses a whole number.
pub(super) fn number<T: TryFrom<u64> + PartialOrd + Display + Copy>(
    directive: &Directive<'_>,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    within(directive, &[], range, "a whole number")
}

/// Parses bytes: `128K`, `4G`.
pub(super) fn bytes<T: TryFrom<u64> + PartialOrd + Display + Copy>(
    directive: &Directive<'_>,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let suffixes = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40), ('P', 1 << 50)];
    within(directive, &suffixes, range, "bytes such as 128K")
}

/// Seconds: `30`, `5m`, `2h`, `7d`.
pub(super) fn seconds(directive: &Directive<'_>, range: RangeInclusive<u32>) -> Result<u32, String> {
    within(directive, &[('S', 1), ('M', 60), ('H', 3_600), ('D', 86_400)], range, "a time such as 30 or 2h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(values: &[&'a str]) -> Directive<'a> {
        Directive { line: 1, name: "", values: values.to_vec(), block: None }
    }

    #[test]
    fn values_are_read_with_their_suffixes_and_within_their_ranges() {
        assert_eq!(bytes(&of(&["128K"]), 0..=u64::MAX), Ok(131_072));
        assert_eq!(bytes(&of(&["4g"]), 0..=u64::MAX), Ok(4 << 30));
        assert_eq!(bytes(&of(&["4G"]), 0..=u32::MAX), Err("4G is out of range: 0 to 4294967295".to_owned()));
        assert_eq!(seconds(&of(&["2h"]), 0..=u32::MAX), Ok(7_200));
        assert_eq!(number(&of(&["5"]), 1..=99u8), Ok(5));
        assert_eq!(number(&of(&["300"]), 1..=99u8), Err("300 is out of range: 1 to 99".to_owned()));
        for wrong in ["", "K", "+1", "-1", "1.5K", "1KK", "99999999999999999999", "17179869184G", "é"] {
            let error = bytes(&of(&[wrong]), 0..=u64::MAX).unwrap_err();
            assert_eq!(error, format!("expected bytes such as 128K, found {}", quoted(wrong)));
        }
        assert_eq!((flag(&of(&[])), flag(&of(&["no"]))), (Ok(true), Ok(false)));
        assert!(flag(&of(&["1"])).is_err() && text(&of(&[])).is_err() && text(&of(&["a", "b"])).is_err());
    }
}
