//! Numbers as text: formats every printed count, share, duration, size and date.
//!
//! Measured values have three digits, which is more than their accuracy. Exact values (counts, limits) are printed in
//! full.
//!
//! This module also sanitises text from files and devices: names of devices, streams and directories can contain
//! control characters, which would move the cursor or hide other text.

use jiff::{Span, SpanRelativeTo, Timestamp};
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::ops::Rem;
use textwrap::{Options, WordSplitter};

/// Last moment whose year has four digits, milliseconds since 1970.
const DATE_MAX_MS: u64 = 253_402_300_799_000;

/// A whole number with commas between thousands.
#[derive(Debug, Clone, Copy)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A count with its noun: `1 sample`, `2,000 samples`.
pub fn count(count: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        Grouped(count),
        if count == 1 { "" } else { "s" }
    )
}

/// Up to four of `names`, and the number of the rest: `S1, S2, S3, S4 and 996 more`.
pub fn first_names(names: impl IntoIterator<Item = String>) -> String {
    const SHOWN: usize = 4;
    let mut names: Vec<String> = names.into_iter().collect();
    let more = names.split_off(SHOWN.min(names.len())).len() as u64;
    match more {
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), Grouped(more)),
    }
}

/// A number with three digits (without decimals from 100 on), thousands grouped.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs();
    if magnitude >= 99.95 {
        let whole = Grouped(magnitude.round() as u64);
        return if value < 0.0 {
            format!("-{whole}")
        } else {
            whole.to_string()
        };
    }
    if magnitude < 1e-6 {
        return format!("{value:.1e}");
    }
    let decimals = (2 - magnitude.log10().floor() as i32).clamp(0, 9) as usize;
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A load as a multiple of 1x, to the thousandth: `20x`, `103.5x`.
pub fn multiple(multiple: f64) -> String {
    format!("{}x", trimmed(format!("{multiple:.3}")))
}

/// A share as percent with three digits: `0.123 %`. A share above zero never shows as 0.
pub fn percent(share: f64) -> String {
    format!("{} %", percent_digits(share))
}

/// Like [`percent`], without the percent sign: for columns with the sign in the heading.
pub fn percent_digits(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        p if p >= 99.95 => 0,
        p if p >= 9.995 => 1,
        p if p >= 0.9995 => 2,
        p if p >= 0.09995 => 3,
        0.0 => 0,
        _ => 4,
    };
    let text = format!("{percent:.decimals$}");
    if percent > 0.0 && text == "0.0000" {
        "<0.0001".to_owned()
    } else {
        text
    }
}

/// A limit as percent, exact, without trailing zeros: `5 %`, `0.1 %`.
pub fn percent_exact(share: f64) -> String {
    format!("{} %", trimmed(format!("{:.7}", share * 100.0)))
}

/// A share in whole percent, for estimates; `0 %` and `100 %` only for exactly these shares.
pub fn percent_whole(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "below 1 %".to_owned(),
        percent if percent < 100.0 && percent > 99.5 => "over 99 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// A latency in the unit that reads best: `85 us`, `1.2 ms`, `3.5 s`.
pub fn duration(ns: u64) -> String {
    milliseconds(ns as f64 / 1e6)
}

/// Like [`duration`], for milliseconds.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 1_000.0 => format!("{} s", number(ms / 1_000.0)),
        ms if ms >= 1.0 => format!("{} ms", number(ms)),
        ms => format!("{} us", number((ms * 1_000.0).max(0.0))),
    }
}

/// Units of a threshold. `s` is last, because the other units end with `s`, too.
pub(crate) const UNITS_NS: [(&str, u64); 4] = [
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
];

/// A threshold in the largest unit without a fraction: `8ms`, `500us`; `{:#}` prints `8 ms`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThresholdText(pub(crate) u64);

impl fmt::Display for ThresholdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = UNITS_NS
            .into_iter()
            .filter(|(_, unit_ns)| self.0.is_multiple_of(*unit_ns));
        let (unit, unit_ns) = largest
            .max_by_key(|(_, unit_ns)| *unit_ns)
            .unwrap_or(("ns", 1));
        write!(
            f,
            "{}{}{unit}",
            self.0 / unit_ns,
            if f.alternate() { " " } else { "" }
        )
    }
}

/// A time span: `24 h`, `1 h 30 min`, `90 s`.
pub fn span(sec: u64) -> String {
    if sec < 120 {
        return format!("{sec} s");
    }
    let parts = [(sec / 3_600, "h"), (sec / 60 % 60, "min"), (sec % 60, "s")];
    let parts = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"));
    parts.collect::<Vec<_>>().join(" ")
}

/// A time span rounded to seconds, like [`span`]; below half a second with three digits.
pub fn span_of(sec: f64) -> String {
    if sec < 0.5 {
        format!("{} s", number(sec))
    } else {
        span(sec.round() as u64)
    }
}

/// A time span in its largest unit, rounded: `119 s`, `10 min`, `12 days`.
pub fn span_about(sec: f64) -> String {
    match sec {
        sec if sec < 120.0 => format!("{sec:.0} s"),
        sec if sec < 7_200.0 => format!("{:.0} min", sec / 60.0),
        sec if sec < 172_800.0 => format!("{:.0} h", sec / 3_600.0),
        sec => format!("{:.0} days", sec / 86_400.0),
    }
}

/// Hours, minutes and seconds, `25:00:09`.
pub fn clock(sec: u64) -> String {
    format!("{:02}:{:02}:{:02}", sec / 3_600, sec / 60 % 60, sec % 60)
}

/// Seconds since 1970 as `2026-11-21T14:00:32Z`.
pub fn rfc3339(unix_sec: u64) -> String {
    let at = i64::try_from(unix_sec)
        .ok()
        .and_then(|sec| Timestamp::from_second(sec).ok());
    at.unwrap_or(Timestamp::MAX).to_string()
}

/// Milliseconds since 1970 as a date: `2026-11-21 14:00:32 UTC`.
pub fn date(unix_ms: u64) -> String {
    if unix_ms == 0 || unix_ms > DATE_MAX_MS {
        return "at an unknown time".to_owned();
    }
    rfc3339(unix_ms / 1_000)
        .replace('T', " ")
        .replace('Z', " UTC")
}

/// Like [`date`], to the minute: `2026-11-21 14:00 UTC`.
pub fn date_to_minute(unix_ms: u64) -> String {
    let date = date(unix_ms);
    match date.strip_suffix(" UTC").and_then(|date| date.get(..16)) {
        Some(date) => format!("{date} UTC"),
        None => date,
    }
}

/// Parses a time span as whole seconds: `24h`, `1h 30m`, `5400`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let expected = "give something like 24h, 90m or 3600 (seconds)";
    let seconds = match text.trim().parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let span = text
                .trim()
                .parse::<Span>()
                .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
            let span = span.map_err(|_| format!("not a time span - {expected}"))?;
            if span.subsec_nanos() != 0 {
                return Err(format!("not a whole number of seconds - {expected}"));
            }
            u64::try_from(span.as_secs())
                .map_err(|_| format!("a time span cannot be negative - {expected}"))?
        }
    };
    match u32::try_from(seconds) {
        Ok(0) => Err(format!("a time span must be at least 1 s - {expected}")),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(format!(
            "{seconds} s is longer than the maximum of {} s - {expected}",
            u32::MAX
        )),
    }
}

/// Implements `Display` for an enum without fields: `display!(Kind { First => "the first", });`.
#[macro_export]
macro_rules! display {
    ($name:ident { $($variant:ident => $text:literal,)+ }) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $text,)+
                })
            }
        }
    };
}

/// Sort key that puts `nvme2n1` before `nvme10n1`. The key alternates texts and numbers.
pub fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_at = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits_at);
        let digits_end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        parts.push((text.to_owned(), tail[..digits_end].parse().unwrap_or(0)));
        rest = &tail[digits_end..];
    }
    parts
}

/// The greatest common divisor. If one number is 0: the other number.
pub fn greatest_divisor<T: Copy + Default + PartialEq + Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

/// A number of bytes in decimal units, as in the capacity of drives: `512 B`, `68.7 GB`.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (1e18, "EB"),
        (1e15, "PB"),
        (1e12, "TB"),
        (1e9, "GB"),
        (1e6, "MB"),
        (1e3, "kB"),
    ];
    // A value that would be rounded to 1,000 is shown in the next unit.
    let unit = UNITS
        .into_iter()
        .find(|(unit, _)| bytes.abs() >= unit * 0.9995);
    unit.map_or_else(
        || format!("{} B", number(bytes)),
        |(unit, name)| format!("{} {name}", number(bytes / unit)),
    )
}

/// Two hexadecimal digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number of bytes in binary units, for sizes of operations: `512 B`, `4 KiB`, `1.5 KiB`.
pub fn binary_bytes(bytes: f64) -> String {
    const UNITS: [(f64, &str); 3] = [
        (1_073_741_824.0, "GiB"),
        (1_048_576.0, "MiB"),
        (1_024.0, "KiB"),
    ];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes.abs() >= *unit);
    unit.map_or_else(
        || format!("{} B", number(bytes)),
        |(unit, name)| format!("{} {name}", number(bytes / unit)),
    )
}

/// Breaks `text` between words into lines of at most `columns`, each with `indent` before it and a newline after it.
/// Long words and names with hyphens are not broken, so that users can paste and search them.
pub fn wrapped(text: &str, indent: &str, columns: usize) -> String {
    let options = Options::new(columns)
        .initial_indent(indent)
        .subsequent_indent(indent);
    textwrap::fill(
        text,
        options
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation),
    ) + "\n"
}

/// The lines of a table's cell that is `columns` wide. Words that are too long are broken.
pub fn wrapped_cell(text: &str, columns: usize) -> Vec<Cow<'_, str>> {
    if text.chars().count() <= columns {
        return vec![Cow::Borrowed(text)];
    }
    textwrap::wrap(
        text,
        Options::new(columns).word_splitter(WordSplitter::NoHyphenation),
    )
}

/// Quotes a word for a shell: names come from servers and may contain anything. Within single quotes, only another
/// single quote is special. A single quote is written as `'\''`.
pub fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._:@%+=,-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// True for characters that a reader cannot see: control characters (except newline and tab), marks of the direction of
/// text, and spaces that look like a blank or like nothing, as pages of the web have them. Source: Unicode 16, categories
/// Cc and Cf, and UAX #9, table 1.
pub fn is_unprintable(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{2060}'..='\u{2069}' | '\u{61c}' | '\u{feff}')
        || c.is_control() && c != '\n' && c != '\t'
}

/// Replaces unprintable characters by escapes such as `\u001b`, which a JSON parser turns back into the same text.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unprintable(c) {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c)
        }
    }
    Cow::Owned(safe)
}

/// `text` in quotes and on one line, for messages; only unprintable characters are changed.
pub fn quoted(text: &str) -> String {
    let quote = if text.contains('"') { '\'' } else { '"' };
    format!("{quote}{}{quote}", in_one_line(text))
}

/// The part of `text` that a message can show: its first 60 characters.
fn start_of(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The first 60 characters of `text`, [`quoted`].
pub fn quoted_start(text: &str) -> String {
    quoted(&start_of(text))
}

/// As [`quoted_start`], but without the quotes.
pub fn bare_start(text: &str) -> String {
    in_one_line(&start_of(text))
}

/// Like [`printable`], with `\u000a` and `\u0009` for newline and tab.
pub fn in_one_line(text: &str) -> String {
    printable(text)
        .replace('\n', "\\u000a")
        .replace('\t', "\\u0009")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_of_seconds_or_has_units() {
        for (text, sec) in [
            ("3600", 3_600),
            ("24h", 86_400),
            ("1h 30m", 5_400),
            ("2d", 172_800),
            ("1w", 604_800),
            ("90 min", 5_400),
        ] {
            assert_eq!(seconds(text), Ok(sec), "{text}");
        }
        for (text, why) in [
            ("0", "at least 1 s"),
            ("-5m", "cannot be negative"),
            ("1500ms", "not a whole number of seconds"),
            ("1d2x", "not a time span"),
            ("1y", "not a time span"),
            ("", "not a time span"),
            ("4294967296", "longer than the maximum"),
        ] {
            assert!(
                seconds(text).unwrap_err().contains(why),
                "{text}: {:?}",
                seconds(text)
            );
        }
    }

    #[test]
    fn counts_are_grouped_and_agree_with_their_noun() {
        let texts: Vec<_> = [0, 999, 1_000, 1_234_567]
            .map(|n| Grouped(n).to_string())
            .into();
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1, 2_000].map(|n| count(n, "sample")),
            ["0 samples", "1 sample", "2,000 samples"]
        );
    }

    #[test]
    fn numbers_have_three_digits_and_small_ones_do_not_become_0() {
        let texts = [0.0, 0.001_253_75, 0.5, 9.999, 42.25, 1_234.5, -3.0, 2e-9].map(number);
        assert_eq!(
            texts,
            ["0", "0.00125", "0.5", "10", "42.2", "1,235", "-3", "2.0e-9"]
        );
        assert_eq!(
            [1.0, 103.5, 2.0 / 3.0].map(multiple),
            ["1x", "103.5x", "0.667x"]
        );
    }

    #[test]
    fn a_long_list_of_names_ends_with_a_count() {
        let names = |count: u32| first_names((0..count).map(|n| format!("S{n}")));
        assert_eq!(names(4), "S0, S1, S2, S3");
        assert_eq!(names(1_005), "S0, S1, S2, S3 and 1,001 more");
    }

    #[test]
    fn percentages_have_three_digits_and_a_share_above_0_is_not_shown_as_0() {
        let shares = [0.0, 1.0, 0.5, 0.05, 0.00123, 0.00001234, 1e-9];
        assert_eq!(
            shares.map(percent_digits),
            ["0", "100", "50.0", "5.00", "0.123", "0.0012", "<0.0001"]
        );
        assert_eq!(percent(0.05), "5.00 %");
        assert_eq!(percent_exact(0.05), "5 %");
        assert_eq!(percent_exact(0.001), "0.1 %");
        let texts = [0.0, 0.001, 0.924, 0.999, 1.0].map(percent_whole);
        assert_eq!(texts, ["0 %", "below 1 %", "92 %", "over 99 %", "100 %"]);
    }

    #[test]
    fn durations_are_printed_in_the_units_that_fit() {
        let texts = [
            0,
            900,
            80_000,
            4_200_000,
            1_000_000,
            78_400_000,
            1_250_000_000,
        ]
        .map(duration);
        assert_eq!(
            texts,
            [
                "0 us", "0.9 us", "80 us", "4.2 ms", "1 ms", "78.4 ms", "1.25 s"
            ]
        );
        assert_eq!([0.4, 1.6].map(span_of), ["0.4 s", "2 s"]);
        let texts = [0, 90, 120, 3_600, 5_400, 86_400, 86_461].map(span);
        assert_eq!(
            texts,
            [
                "0 s",
                "90 s",
                "2 min",
                "1 h",
                "1 h 30 min",
                "24 h",
                "24 h 1 min 1 s"
            ]
        );
        assert_eq!(
            [2.0, 119.0, 600.0, 7200.0, 1e6].map(span_about),
            ["2 s", "119 s", "10 min", "2 h", "12 days"]
        );
        assert_eq!(clock(90_009), "25:00:09");
    }

    #[test]
    fn impossible_dates_are_not_printed() {
        assert_eq!(date(1_795_271_232_147), "2026-11-21 14:27:12 UTC");
        assert_eq!(date(0), "at an unknown time");
        assert_eq!(date(u64::MAX), "at an unknown time");
        assert_eq!(date_to_minute(1_709_208_000_000), "2024-02-29 12:00 UTC");
        assert_eq!(date_to_minute(0), "at an unknown time");
    }

    #[test]
    fn byte_counts_are_printed_in_decimal_units_as_on_the_labels_of_drives() {
        let texts = [
            0.0,
            512.0,
            999_600.0,
            67_108_864.0,
            512_110_190_592.0,
            1_920_383_410_176.0,
            7.99e18,
        ]
        .map(bytes);
        assert_eq!(
            texts,
            [
                "0 B", "512 B", "1 MB", "67.1 MB", "512 GB", "1.92 TB", "7.99 EB"
            ]
        );
    }

    #[test]
    fn lines_are_broken_between_words() {
        let found = wrapped("one two-2 three", "> ", 9);
        assert_eq!(found, "> one\n> two-2\n> three\n");
        assert_eq!(wrapped("incomprehensible", "", 7), "incomprehensible\n");
    }

    #[test]
    fn invisible_characters_are_escaped_and_others_stay() {
        let plain = "reads on /dev/nvme0n1: 5 % é 日本\n\tnext";
        assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        let found = printable("a\x1b[2J\r\u{9b}b\u{202e}c\u{7f}");
        assert_eq!(found, "a\\u001b[2J\\u000d\\u009bb\\u202ec\\u007f");
        let found = quoted("a \"b\"\\\n\u{1b}\t");
        assert_eq!(found, r#"'a "b"\\u000a\u001b\u0009'"#);
        // The escaped text, parsed as a JSON string, is the original name.
        let name = "x\u{85}y\u{202e}z";
        let json = serde_json::to_string(name).unwrap();
        let found = serde_json::from_str::<String>(&printable(&json)).unwrap();
        assert_eq!(found, name);
    }

    #[test]
    fn quoted_text_stays_on_one_line_and_is_cut() {
        let found = quoted_start("a\r\n\tb\u{1b}[2J");
        assert_eq!(found, r#""a\u000d\u000a\u0009b\u001b[2J""#);
        assert_eq!(quoted_start(r#""sim:""#), r#"'"sim:"'"#);
        assert_eq!(quoted_start(r#"a\b"#), r#""a\b""#);
        let found = quoted_start(&"é".repeat(100));
        assert_eq!(found, format!("\"{}...\"", "é".repeat(60)));
    }
}
