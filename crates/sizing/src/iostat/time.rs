//! Parses the time of a report, in the formats of locales whose dates are numbers or have English names of months.
//!
//! ```text
//! 11/20/26 23:02:35        C              20/11/26 23:02:35       en_GB
//! 11/20/2026 11:02:35 PM   en_US          20.11.2026 23:02:35     de_DE
//! Fri 20 Nov 2026 23:02:35 en_IN          20.11.2026 23.02.35     fi_FI
//! 2026-11-20T23:02:35+0100 ISO            Time: 23:02:35          before version 9, the date stands in the banner
//! ```
//!
//! A time with an unknown word beside its clock is not read: in Greek, `11:02:35 μμ` is in the evening.
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
    /// True if the day certainly comes first, as before points.
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

/// Formats of dates with the name of the month; the words are separated by one space.
const NAMED_DATES: [&str; 4] = ["%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y"];

/// Chinese, Japanese and Korean words for day and second, which stand beside the clock of each time.
const UNITS: [&str; 4] = ["日", "일", "秒", "초"];

/// Reads a line that is a time, with or without a date and an offset from UTC.
pub(super) fn moment(line: &str) -> Option<(Option<WrittenDate>, Time, Option<Offset>)> {
    if line.len() > 80 {
        return None;
    }
    let groups = groups(line);
    let clock = groups
        .windows(3)
        .enumerate()
        .position(|(at, window)| is_clock(line, window, at > 1))?;
    let [hour, minute, second] = [0, 1, 2].map(|at| groups[clock + at]);
    let before = &line[..hour.0];
    let after = &line[end(second)..];
    let date = match clock {
        0 => None,
        3 => Some(written(before)?),
        _ => Some(named(before).or_else(|| named(&with_year(before, after)))?),
    };
    let date_end = clock.checked_sub(1).map_or(hour.0, |at| end(groups[at]));
    let beside = format!("{} {after}", &line[date_end..hour.0]);
    let hour = hour_of_day(hour.1.parse().ok()?, line, &beside)?;
    let time = Time::new(hour, minute.1.parse().ok()?, second.1.parse().ok()?, 0).ok()?;
    Some((date, time, offset(after)))
}

/// True if three groups of digits are hour, minute and second. With points they are a clock only behind a date, because
/// `20.11.26` may be a date itself.
fn is_clock(line: &str, window: &[(usize, &str)], may_follow_date: bool) -> bool {
    let [hour, minute, second] = window else {
        return false;
    };
    let separators = [&line[end(*hour)..minute.0], &line[end(*minute)..second.0]];
    let is_known = matches!(
        separators.map(str::trim),
        [":", ":"] | ["時" | "时" | "시", "分" | "분"]
    );
    let has_digits = hour.1.len() <= 2 && minute.1.len() == 2 && second.1.len() == 2;
    has_digits && (is_known || may_follow_date && separators == [".", "."])
}

/// `before` and the year in `Fri Nov 20 23:02:35 UTC 2026`, as the command date prints it.
fn with_year(before: &str, after: &str) -> String {
    format!("{before} {}", after.rsplit(' ').next().unwrap_or_default())
}

/// The hour from 0, by the mark of the half day in `line`. `None`: a word `beside` the clock may be such a mark in
/// another language.
fn hour_of_day(hour: i8, line: &str, beside: &str) -> Option<i8> {
    match words(line).find_map(|word| half_day(&word)) {
        Some(begin) if hour <= 12 => Some(hour % 12 + begin),
        None if words(beside).any(|word| !is_unit_or_zone(&word)) => None,
        _ => Some(hour),
    }
}

/// The first hour of the half day.
fn half_day(mark: &str) -> Option<i8> {
    match &*mark.to_lowercase() {
        "am" | "上午" | "午前" => Some(0),
        "pm" | "下午" | "午後" => Some(12),
        _ => None,
    }
}

/// True for a unit, the `T` and `Z` of ISO 8601, and a zone such as `UTC`. Two letters are no zone: Albanian marks of
/// the half day are `PD` and `MD`.
fn is_unit_or_zone(word: &str) -> bool {
    let is_upper = word.bytes().all(|byte| byte.is_ascii_uppercase());
    UNITS.contains(&word) || is_upper && word.len() != 2
}

/// Words of letters; `pm` of `p.m.`.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphabetic() && c != '.')
        .map(|word| word.replace('.', ""))
        .filter(|word| !word.is_empty())
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
    named(text).or_else(|| numeric(text))
}

/// Reads `20 Nov 2026` or `November 20, 2026`, also behind the name of a weekday.
fn named(text: &str) -> Option<WrittenDate> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let date = words.windows(3).find_map(|three| {
        let text = three.join(" ");
        NAMED_DATES
            .iter()
            .find_map(|format| Date::strptime(format, &text).ok())
    })?;
    Some(WrittenDate {
        parts: [date.day() as u16, date.month() as u16, date.year() as u16],
        year_first: false,
        day_first: true,
    })
}

fn numeric(text: &str) -> Option<WrittenDate> {
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

fn end((begin, digits): (usize, &str)) -> usize {
    begin + digits.len()
}

/// Groups of digits, with their positions.
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
