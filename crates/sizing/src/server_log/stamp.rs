//! When a line was logged: `Nov 20 2026 23:12:07.406 GMT+0100: `.

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// Longest stamp: `September 20 2026 23:12:07.406123 GMT+0100`.
const STAMP_BYTES_MAX: usize = 48;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The time of a line, as the server's clock and zone have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time as written.
    pub local: DateTime,
    /// Offset from UTC.
    pub offset: Offset,
}

impl Stamp {
    pub fn instant(&self) -> Timestamp {
        self.offset.to_timestamp(self.local).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Stamps of lines that follow one another: most of them have the one of the line before.
#[derive(Debug, Default)]
pub struct Stamps {
    text: Vec<u8>,
    stamp: Option<Stamp>,
}

impl Stamps {
    /// The stamp of a line, and what follows it.
    pub fn split<'a>(&mut self, line: &'a [u8]) -> Option<(Stamp, &'a [u8])> {
        if let Some(stamp) = self.stamp
            && line.starts_with(&self.text)
        {
            return Some((stamp, &line[self.text.len()..]));
        }
        let (stamp, rest) = split(line)?;
        self.text.clear();
        self.text.extend_from_slice(&line[..line.len() - rest.len()]);
        self.stamp = Some(stamp);
        Some((stamp, rest))
    }
}

/// The stamp at the begin of `line`, and what follows its `: `.
pub(super) fn split(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let head = &line[..line.len().min(STAMP_BYTES_MAX)];
    let mut rest = Bytes(head);
    let month = rest.month()?;
    rest.spaces()?;
    let day = rest.digits(1, 2)?;
    rest.spaces()?;
    let year = rest.digits(4, 4)?;
    rest.spaces()?;
    let hour = rest.digits(1, 2)?;
    rest.exact(b":")?;
    let minute = rest.digits(2, 2)?;
    rest.exact(b":")?;
    let second = rest.digits(2, 2)?;
    let mut nanos = 0;
    if rest.exact(b".").is_some() {
        let digits = rest.0.len();
        nanos = rest.digits(1, 9)?;
        for _ in digits - rest.0.len()..9 {
            nanos *= 10;
        }
    }
    rest.spaces()?;
    rest.exact(b"GMT").or_else(|| rest.exact(b"UTC"))?;
    let offset = rest.offset()?;
    rest.exact(b":")?;
    let _ = rest.spaces();
    let date = Date::new(year as i16, month, day as i8).ok()?;
    // A leap second is the first of the next minute.
    let (second, leap) = if second == 60 { (59, 1) } else { (second, 0) };
    let local = date.to_datetime(jiff::civil::Time::new(hour as i8, minute as i8, second as i8, nanos as i32).ok()?);
    let local = local.checked_add(SignedDuration::from_secs(leap)).ok()?;
    Some((Stamp { local, offset }, &line[head.len() - rest.0.len()..]))
}

/// Bytes not read yet.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn exact(&mut self, wanted: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(wanted)?;
        Some(())
    }

    fn spaces(&mut self) -> Option<()> {
        let count = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.0 = &self.0[count..];
        (count > 0).then_some(())
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let value = self.0[..count].iter().fold(0_u32, |value, byte| value * 10 + u32::from(byte - b'0'));
        self.0 = &self.0[count..];
        (count >= least).then_some(value)
    }

    /// A month by its name, or three or more letters of it.
    fn month(&mut self) -> Option<i8> {
        let letters = self.0.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (name, rest) = self.0.split_at(letters);
        let is_begin_of =
            |month: &&str| month.len() >= name.len() && month.as_bytes()[..name.len()].eq_ignore_ascii_case(name);
        let at = MONTHS.iter().position(is_begin_of).filter(|_| name.len() >= 3)?;
        self.0 = rest;
        Some(at as i8 + 1)
    }

    fn offset(&mut self) -> Option<Offset> {
        let sign = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Some(Offset::UTC),
        };
        self.0 = &self.0[1..];
        let (hours, minutes) = (self.digits(2, 2)?, self.digits(2, 2)?);
        Offset::from_seconds(sign * (hours as i32 * 3600 + minutes as i32 * 60)).ok()
    }
}
