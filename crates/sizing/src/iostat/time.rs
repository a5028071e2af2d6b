//! Parses the time of a report, in the formats of all locales.
//!
//! ```text
//! 11/20/26 23:02:35        C              20/11/26 23:02:35       en_GB
//! 11/20/2026 11:02:35 PM   en_US          20.11.2026 23:02:35     de_DE
//! 2026-11-20T23:02:35+0100 ISO            Time: 23:02:35          before version 9, the date stands in the banner
//! ```
//!
//! If a date does not show the order of month and day, the other dates decide. If the other dates do not show the order
//! either, a day near the reports decides, which the caller gives.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrittenDate {
    parts: [u16; 3],
    year_first: bool,
    /// True if the separator, a point, shows that the day comes first.
    day_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateOrder {
    MonthDay,
    DayMonth,
}

impl WrittenDate {
    pub(super) fn date(self, order: DateOrder) -> Option<Date> {
        let [a, b, c] = self.parts;
        let (year, month, day) = match (
            self.year_first,
            self.day_first || order == DateOrder::DayMonth,
        ) {
            (true, _) => (a, b, c),
            (false, true) => (c, b, a),
            (false, false) => (c, a, b),
        };
        let year = if year < 100 { year + 2000 } else { year };
        Date::new(year as i16, month as i8, day as i8).ok()
    }
}

/// Reads a line that is a time, with or without a date and an offset from UTC.
pub(super) fn moment(line: &str) -> Option<(Option<WrittenDate>, Time, Option<Offset>)> {
    if line.len() > 80 {
        return None;
    }
    let groups = groups(line);
    let clock = groups.windows(3).position(|window| {
        window[0].1.len() <= 2 && window.iter().skip(1).all(|(_, digits)| digits.len() == 2) && {
            let between =
                |at: usize| line[window[at].0 + window[at].1.len()..window[at + 1].0].trim();
            matches!(
                (between(0), between(1)),
                (":", ":") | ("時" | "时" | "시", "分" | "분")
            )
        }
    })?;
    let number = |at: usize| groups[at].1.parse::<i8>().ok();
    let mut hour = number(clock)?;
    let minute = number(clock + 1)?;
    let second = number(clock + 2)?;
    let lower = line.to_lowercase();
    let has_word = |words: [&str; 4]| words.iter().any(|word| lower.contains(word));
    if has_word(["pm", "p.m", "下午", "午後"]) {
        hour = hour % 12 + 12;
    } else if has_word(["am", "a.m", "上午", "午前"]) && hour <= 12 {
        hour %= 12;
    }
    let time = Time::new(hour, minute, second, 0).ok()?;
    match clock {
        0 => Some((None, time, None)),
        3 => {
            let (at, digits) = groups[clock + 2];
            Some((written(line), time, offset(&line[at + digits.len()..])))
        }
        _ => None,
    }
}

/// Reads `+0530`, `-08:00` or `Z`.
fn offset(text: &str) -> Option<Offset> {
    let text = text.trim();
    if text == "Z" {
        return Some(Offset::UTC);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.strip_prefix(['+', '-'])?.replace(':', "");
    let digits = digits
        .parse::<i32>()
        .ok()
        .filter(|_| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    Offset::from_seconds(sign * (digits / 100 * 3600 + digits % 100 * 60)).ok()
}

/// Reads a date at the beginning of a text.
pub(super) fn written(text: &str) -> Option<WrittenDate> {
    let groups = groups(text);
    let [(_, a), (at, b), (end, c), ..] = groups[..] else {
        return None;
    };
    let year_first = a.len() == 4;
    let fits = a.len() <= 4 && b.len() <= 2 && (c.len() == 2 || c.len() == 4 && !year_first);
    let between = text[..at].chars().next_back();
    let parts = [a.parse().ok()?, b.parse().ok()?, c.parse().ok()?];
    let compact = end - groups[0].0 <= 16;
    let day_first = !year_first && between == Some('.');
    (fits && compact).then_some(WrittenDate {
        parts,
        year_first,
        day_first,
    })
}

fn groups(text: &str) -> Vec<(usize, &str)> {
    let runs = text
        .as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let mut end = 0;
    let groups = runs.filter_map(|run| {
        let begin = end;
        end += run.len();
        run[0].is_ascii_digit().then(|| (begin, &text[begin..end]))
    });
    groups.collect()
}

/// Order of day and month in the dates, and true if the order is certain. A date that fits only one order decides.
/// Otherwise the order with the shorter span of ascending dates is taken. If both spans are equal, the order that puts
/// the first date nearer to `near_date` is taken.
pub(super) fn order(dates: &[WrittenDate], near_date: Option<Date>) -> (DateOrder, bool) {
    let unclear: Vec<_> = dates
        .iter()
        .filter(|date| !date.year_first && !date.day_first)
        .collect();
    let fits = |order| unclear.iter().all(|date| date.date(order).is_some());
    // The order with the smaller result of `by`; `None`: both orders have the same result, or neither has a result.
    let smaller_order = |by: &dyn Fn(DateOrder) -> Option<i32>| match (
        by(DateOrder::MonthDay),
        by(DateOrder::DayMonth),
    ) {
        (Some(a), Some(b)) if a == b => None,
        (Some(a), b) if b.is_none_or(|b| a < b) => Some(DateOrder::MonthDay),
        (None, None) => None,
        _ => Some(DateOrder::DayMonth),
    };
    if unclear.is_empty() {
        return (DateOrder::MonthDay, true);
    }
    let fitting_order = smaller_order(&|order| fits(order).then_some(0));
    let sure = fitting_order
        .or_else(|| {
            // Dates that span months in one order span days in the other order.
            smaller_order(&|order| {
                let dates: Vec<Date> = unclear.iter().filter_map(|date| date.date(order)).collect();
                let first = dates.iter().min()?;
                let last = dates.iter().max()?;
                dates
                    .is_sorted()
                    .then(|| first.until(*last).map(|span| span.get_days()).ok())
                    .flatten()
            })
        })
        .or_else(|| {
            let near_date = near_date?;
            let first = unclear.first()?;
            let days = |order| days_between(near_date, first.date(order)?);
            smaller_order(&|order| {
                days(DateOrder::MonthDay)
                    .and(days(DateOrder::DayMonth))
                    .and(days(order))
            })
        });
    match sure {
        Some(order) => (order, true),
        None => (
            DateOrder::MonthDay,
            unclear.iter().all(|date| date.parts[0] == date.parts[1]),
        ),
    }
}

fn days_between(one: Date, other: Date) -> Option<i32> {
    let span = one.until(other).ok()?;
    Some(span.get_days().abs())
}

/// A time without a date, after `last`: on the next day if the clock has passed midnight.
pub(super) fn after(last: Option<DateTime>, date: Date, time: Time) -> DateTime {
    match last {
        None => date.to_datetime(time),
        Some(last) if time < last.time() => (last.date().saturating_add(1.day())).to_datetime(time),
        Some(last) => last.date().to_datetime(time),
    }
}
