//! Parses the text after the time stamp of a line: histograms, counts of drives, facts of the start.
//!
//! ```text
//! INFO (info): (hist.c:319) histogram dump: {test}-read (397556 total) usec
//! INFO (info): (hist.c:330)  (04: 0000001707) (05: 0000001582) (06: 0000001397) (07: 0000035030)
//! INFO (drv_ssd): (drv_ssd.c:2133) {test} /dev/sdb: used-bytes 893760160 free-wblocks 112 write-q 0 write (914,3.2) ...
//! INFO (drv_ssd): (drv_ssd.c::2088) device /dev/sdb: used 1013766400, contig-free 15169M (15169 wblocks), ...
//! DETAIL (drv_ssd): (drv_ssd.c:2140) {test} /dev/sdb: free-wblocks (5,107) defrag-io-skips (0,0.0) direct-frees (0,0.0)
//! ```
//!
//! Required closing parentheses prevent a truncated number from being read as a smaller number.
//!
//! Also parses the time of a line: `Nov 20 2026 23:12:07.406 GMT+0100: `.

use super::{BUCKETS, DriveDetail, DriveLine, HistogramUnit, PrintedRates};
use jiff::civil::{Date, DateTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use memchr::memchr;
use memchr::memmem::Finder;
use results::format::is_unprintable;
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogMessage<'a> {
    /// `INFO`.
    pub(crate) level: &'a [u8],
    /// Context of the message, such as `info` or `drv_ssd`.
    pub(crate) context: &'a [u8],
    /// `hist.c`, without folder and line.
    pub(crate) file: &'a [u8],
    pub(crate) text: &'a [u8],
}

impl LogMessage<'_> {
    /// True for the storage engine that keeps records in memory. Servers 7.0 to 8.1 call its context `drv-mem` (source:
    /// `log.c`, `context_strings`); some logs have `drv_mem`.
    pub(super) fn is_of_memory_engine(self) -> bool {
        matches!(self.context, b"drv-mem" | b"drv_mem")
    }
}

/// Splits the text after a stamp: `LEVEL (context): (file.c:line) text`.
pub(crate) fn parts(line: &[u8]) -> Option<LogMessage<'_>> {
    let open = memchr(b'(', &line[..line.len().min(16)])?;
    let level = line[..open].trim_ascii();
    let rest = &line[open + 1..];
    let close = memchr(b')', rest)?;
    let context = &rest[..close];
    let rest = rest[close..].strip_prefix(b"): (")?;
    let close = memchr(b')', rest)?;
    let file = &rest[..close];
    let file = &file[..memchr(b':', file).unwrap_or(file.len())];
    let file = &file[memchr::memrchr(b'/', file).map_or(0, |at| at + 1)..];
    let text = &rest[close + 1..];
    Some(LogMessage {
        level,
        context,
        file,
        text: text.strip_prefix(b" ").unwrap_or(text),
    })
}

/// Position of the server's message in a line of its syslog sink: `PREFIX LEVEL (context): (file.c:line) text`.
pub(super) fn message_at(line: &[u8]) -> Option<usize> {
    let head = &line[..line.len().min(SINK_PREFIX_BYTES_MAX)];
    memchr::memchr_iter(b'(', head).find_map(|open| {
        let before = head[..open].strip_suffix(b" ")?;
        let begin = memchr::memrchr(b' ', before).map_or(0, |at| at + 1);
        let is_level = matches!(
            &before[begin..],
            b"CRITICAL" | b"WARNING" | b"INFO" | b"DEBUG" | b"DETAIL"
        );
        (is_level && parts(&line[begin..]).is_some()).then_some(begin)
    })
}

/// The time in the prefix of a syslog line, if it has a full date and an offset: `2026-11-20T23:12:07.406+01:00`.
pub(super) fn syslog_stamp(prefix: &[u8]) -> Option<Stamp> {
    let words = prefix.split(|byte| *byte == b' ');
    words
        .filter_map(|word| Pieces::parse(word).ok())
        .find_map(|pieces| {
            Some(Stamp {
                local: pieces.date().to_datetime(pieces.time()?),
                offset: pieces.to_numeric_offset()?,
            })
        })
}

/// Longest prefix of a syslog line, bytes.
const SINK_PREFIX_BYTES_MAX: usize = 256;

/// First words of the line that begins a histogram.
pub(crate) const DUMP: &[u8] = b"histogram dump: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DumpHeader<'a> {
    pub(crate) name: &'a str,
    pub(crate) total: u64,
    /// Unit of the histogram's values; `Err` for an unknown word.
    pub(crate) unit: Result<HistogramUnit, &'a str>,
}

/// Reads `NAME (N total) UNIT`, which follows [`DUMP`].
pub(crate) fn dump_header(text: &[u8]) -> Option<DumpHeader<'_>> {
    let text = printable(text)?;
    let (name, rest) = text.rsplit_once(" (")?;
    let (total, unit) = rest.split_once(" total)")?;
    let unit = match unit.trim() {
        "msec" | "" => Ok(HistogramUnit::Millis),
        "usec" => Ok(HistogramUnit::Micros),
        "bytes" => Ok(HistogramUnit::Bytes),
        "count" => Ok(HistogramUnit::Count),
        other => Err(other),
    };
    Some(DumpHeader {
        name,
        total: number(total)?,
        unit,
    })
    .filter(|header| !header.name.is_empty())
}

/// The text as a name; `None` if control characters show that the line is damaged.
fn printable(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.contains(|c: char| c.is_control() || is_unprintable(c)))
}

/// Maximum number of buckets in a line; servers write four.
const BUCKETS_OF_LINE_MAX: usize = 16;

/// Reads ` (04: 0000001707) (05: 0000001582)`: buckets and their counts. `None` for any other line.
pub(crate) fn buckets(text: &[u8]) -> Option<([(usize, u64); BUCKETS_OF_LINE_MAX], usize)> {
    let mut pairs = [(0, 0); BUCKETS_OF_LINE_MAX];
    let mut count = 0;
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(b"(")?;
        let close = memchr(b')', inner)?;
        let colon = memchr(b':', &inner[..close])?;
        let bucket = digits(&inner[..colon])? as usize;
        *pairs.get_mut(count)? = (bucket, digits(inner[colon + 1..close].trim_ascii_start())?);
        if bucket >= BUCKETS || count > 0 && pairs[count - 1].0 >= bucket {
            return None;
        }
        count += 1;
        rest = inner[close + 1..].trim_ascii_start();
    }
    (count > 0).then_some((pairs, count))
}

/// The text after the buckets of a line of buckets.
pub(super) fn after_buckets(message: LogMessage<'_>) -> Option<&[u8]> {
    let mut rest = message.text.trim_ascii_start();
    if message.file != b"hist.c" || !rest.starts_with(b"(") {
        return None;
    }
    while let Some(inner) = rest.strip_prefix(b"(") {
        rest = &inner[memchr(b')', inner)? + 1..];
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        rest = &rest[spaces..];
    }
    Some(rest)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DriveCounts<'a> {
    /// Empty in old versions.
    pub(crate) namespace: &'a str,
    /// For example `/dev/sdb`.
    pub(crate) device: &'a str,
    /// Counts in the order printed, each with its key and the rate printed beside the count.
    counts: Vec<(&'a str, u64, Option<f64>)>,
    /// Bytes of a write block, from `contig-free 15169M (15169 wblocks)`.
    block_bytes: Option<u64>,
}

/// Keys of counts that are read.
const KEYS: &[&str] = &[
    "used-bytes",
    "used",
    "free-wblocks",
    "write",
    "w-tot",
    "defrag-q",
    "defrag-read",
    "defrag-tot",
    "defrag-write",
    "defrag-w-tot",
    "shadow-write-q",
    "write-q",
    "tomb-raider-read",
    "defrag-io-skips",
    "direct-frees",
    "partial-writes",
    "defrag-partial-writes",
];

pub(super) const DRIVE_LINE: &str = ": used";
/// Text of the detail line that follows a drive line.
pub(super) const DETAIL_LINE: &str = " defrag-io-skips ";

/// Searchers for the texts of lines with a drive's counters.
static COUNTERS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [DRIVE_LINE, DETAIL_LINE].map(Finder::new));

/// True if the line should contain a drive's counters. If such a line is unreadable, a remark counts it.
pub(crate) fn is_drive_line(text: &[u8]) -> bool {
    COUNTERS
        .iter()
        .any(|counters| counters.find(text).is_some())
}

pub(crate) fn drive_line(text: &[u8]) -> Option<DriveCounts<'_>> {
    let text = printable(text)?;
    let (head, rest) = text.split_once(": ")?;
    let (namespace, device) = match head.strip_prefix('{') {
        Some(head) => head.split_once("} ")?,
        None => ("", head.strip_prefix("device ")?),
    };
    let mut counts: Vec<(&str, u64, Option<f64>)> = Vec::new();
    let mut words = rest
        .split_ascii_whitespace()
        .map(|word| word.trim_end_matches(','));
    let mut last = "";
    let mut block_bytes = None;
    while let Some(key) = words.next() {
        // Old versions print rates after counts: `w-tot 0 (0.0/s)`.
        if let Some(printed) = key
            .strip_prefix('(')
            .and_then(|rate| rate.strip_suffix("/s)"))
        {
            let printed = rate(printed)?;
            if let Some((_, _, rate)) = counts.last_mut().filter(|(key, ..)| *key == last) {
                *rate = Some(printed);
            }
            continue;
        }
        last = key;
        let value = words.next()?;
        if key == "contig-free" {
            // The free blocks in `contig-free 15169M (15169 wblocks)`.
            let blocks = number(words.next()?.strip_prefix('(')?)?;
            counts.push(("free-wblocks", blocks, None));
            block_bytes = size_bytes(value).and_then(|free| block_size(free, blocks));
            words.next().filter(|word| *word == "wblocks)")?;
        } else if KEYS.contains(&key) {
            // A count N, or `(N,r)` with the rate r.
            let (count, printed) = match value.strip_prefix('(') {
                Some(pair) => pair.strip_suffix(')')?.split_once(',')?,
                None => (value, ""),
            };
            let printed = if printed.is_empty() {
                None
            } else {
                Some(rate(printed)?)
            };
            counts.push((key, number(count)?, printed));
        }
    }
    Some(DriveCounts {
        namespace,
        device,
        counts,
        block_bytes,
    })
}

/// Size of a write block, if `blocks` blocks have `bytes`, rounded down to MiB; `None` for too few blocks.
fn block_size(bytes: u64, blocks: u64) -> Option<u64> {
    let size = bytes
        .checked_add(1 << 19)?
        .checked_div(blocks)?
        .checked_next_power_of_two()?;
    let nearest = [size / 2, size].into_iter().find(|size: &u64| {
        size.checked_mul(blocks)
            .is_some_and(|all| all.abs_diff(bytes) <= 1 << 20)
    })?;
    (blocks > 8 && is_block_size(nearest)).then_some(nearest)
}

impl DriveCounts<'_> {
    /// The count of a key; `names` has the key's names in all versions.
    fn count(&self, names: &[&str]) -> Option<u64> {
        self.counts
            .iter()
            .rfind(|(key, ..)| names.contains(key))
            .map(|(_, count, _)| *count)
    }

    /// The rate printed beside a count.
    pub(crate) fn rate(&self, names: &[&str]) -> Option<f64> {
        self.counts
            .iter()
            .filter(|(key, ..)| names.contains(key))
            .filter_map(|(.., rate)| *rate)
            .next_back()
    }

    pub(crate) fn detail(&self) -> Option<DriveDetail> {
        Some(DriveDetail {
            defrag_io_skips: self.count(&["defrag-io-skips"])?,
            direct_frees: self.count(&["direct-frees"])?,
            partial_writes: self.count(&["partial-writes"]),
            defrag_partial_writes: self.count(&["defrag-partial-writes"]),
        })
    }

    /// The counters of a line logged at `at`; `None` if a counter that every version prints is missing.
    /// `is_memory`: the line is of the storage engine that keeps records in memory.
    pub(crate) fn at(&self, at: Timestamp, is_memory: bool) -> Option<DriveLine> {
        let writes = ["write", "w-tot"];
        let reads = ["defrag-read", "defrag-tot"];
        let defrag_writes = ["defrag-write", "defrag-w-tot"];
        Some(DriveLine {
            timestamp: at,
            used_bytes: self.count(&["used-bytes", "used"])?,
            free_wblocks: self.count(&["free-wblocks"])?,
            shadow_write_q: self.count(&["shadow-write-q"]),
            write_q: self.count(&["write-q"]),
            tomb_raider_reads: self.count(&["tomb-raider-read"]).unwrap_or(0),
            block_bytes: self.block_bytes,
            is_memory,
            writes: self.count(&writes)?,
            defrag_q: self.count(&["defrag-q"])?,
            defrag_reads: self.count(&reads)?,
            defrag_writes: self.count(&defrag_writes),
            detail: None,
            printed: PrintedRates {
                writes: self.rate(&writes).unwrap_or(0.0),
                defrag_reads: self.rate(&reads).unwrap_or(0.0),
                defrag_writes: self.rate(&defrag_writes),
                defrag_io_skips: self.rate(&["defrag-io-skips"]),
                direct_frees: self.rate(&["direct-frees"]),
                tomb_raider_reads: self.rate(&["tomb-raider-read"]).unwrap_or(0.0),
            },
        })
    }
}

fn rate(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)
}

/// Text of a line that gives the size of write blocks.
pub(crate) const WBLOCKS: &str = " wblocks of size ";

/// Reads a size in the notation of aerospike.conf: `131072`, `128K`, `1M`.
pub fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// True if write blocks and flushes can have this size: a power of two from 512 B to 8 MiB.
pub(crate) fn is_block_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && (512..=8 << 20).contains(&bytes)
}

/// Device and bytes of `/dev/sdb has 16384 wblocks of size 131072`. `None` also for an impossible size: a cut line.
pub(crate) fn wblocks(text: &[u8]) -> Option<(&str, u64)> {
    let text = printable(text)?;
    let (head, size) = text.split_once(WBLOCKS)?;
    let (device, count) = head.rsplit_once(" has ")?;
    number(count)?;
    let device = device.strip_prefix("device ").unwrap_or(device);
    let bytes = number(size.split([' ', ',']).next()?).filter(|bytes| is_block_size(*bytes))?;
    Some((device, bytes))
}

/// The version in `<><><>  Aerospike Community Edition build 8.0.0.15  <><><>`, which a server logs when it starts.
pub(crate) fn start(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text.strip_prefix(b"<><>")?).ok()?;
    text.split_once(" build ")?
        .1
        .split_ascii_whitespace()
        .next()
}

/// The node's id, from a ticker line or from lines of the start.
pub(crate) fn node_id(message: LogMessage<'_>) -> Option<String> {
    let id = match message.text.strip_prefix(b"NODE-ID ") {
        Some(id) => id,
        None if message.context == b"config" => message.text.strip_prefix(b"node-id ")?,
        None => return None,
    };
    let digits = id
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let ends = id.get(digits).is_none_or(|byte| *byte == b' ');
    (ends && (1..=16).contains(&digits)).then(|| {
        String::from_utf8_lossy(&id[..digits])
            .trim_start_matches('0')
            .to_ascii_uppercase()
    })
}

fn number(text: &str) -> Option<u64> {
    digits(text.as_bytes())
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Longest stamp: `September 20 2026 23:12:07.406123 GMT+0100`.
const STAMP_BYTES_MAX: usize = 48;

const MONTHS: &str =
    "january february march april may june july august september october november december";

/// The time of a line, by the server's clock and time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time as written.
    pub local: DateTime,
    pub offset: Offset,
}

impl Stamp {
    pub fn instant(&self) -> Timestamp {
        self.offset
            .to_timestamp(self.local)
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Caches the last stamp: most lines have the same stamp as the previous line.
#[derive(Debug, Default)]
pub struct Stamps {
    text: Vec<u8>,
    stamp: Option<Stamp>,
}

impl Stamps {
    pub fn split<'a>(&mut self, line: &'a [u8]) -> Option<(Stamp, &'a [u8])> {
        if let Some(stamp) = self.stamp
            && line.starts_with(&self.text)
        {
            return Some((stamp, &line[self.text.len()..]));
        }
        let (stamp, rest) = split(line)?;
        self.text.clear();
        self.text
            .extend_from_slice(&line[..line.len() - rest.len()]);
        self.stamp = Some(stamp);
        Some((stamp, rest))
    }
}

/// The stamp at the beginning of `line`, and the text after its `: `.
pub(super) fn split(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let head = &line[..line.len().min(STAMP_BYTES_MAX)];
    let mut rest = ByteParser(head);
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
    // A leap second counts as the first second of the next minute.
    let (second, leap) = if second == 60 { (59, 1) } else { (second, 0) };
    let local = date.to_datetime(
        jiff::civil::Time::new(hour as i8, minute as i8, second as i8, nanos as i32).ok()?,
    );
    let local = local.checked_add(SignedDuration::from_secs(leap)).ok()?;
    Some((Stamp { local, offset }, &line[head.len() - rest.0.len()..]))
}

/// Bytes not read yet.
struct ByteParser<'a>(&'a [u8]);

impl ByteParser<'_> {
    fn exact(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    fn spaces(&mut self) -> Option<()> {
        let count = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.0 = &self.0[count..];
        (count > 0).then_some(())
    }

    fn digits(&mut self, digits_min: usize, digits_max: usize) -> Option<u32> {
        let count = self
            .0
            .iter()
            .take(digits_max)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let value = self.0[..count]
            .iter()
            .fold(0_u32, |value, byte| value * 10 + u32::from(byte - b'0'));
        self.0 = &self.0[count..];
        (count >= digits_min).then_some(value)
    }

    /// A month by its name, or by the first three or more letters of the name.
    fn month(&mut self) -> Option<i8> {
        let letters = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        let (name, rest) = self.0.split_at(letters);
        let at = MONTHS
            .split(' ')
            .position(|month: &str| {
                month
                    .as_bytes()
                    .get(..letters)
                    .is_some_and(|it| it.eq_ignore_ascii_case(name))
            })
            .filter(|_| letters >= 3)?;
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
        let hours = self.digits(2, 2)?;
        let minutes = self.digits(2, 2)?;
        Offset::from_seconds(sign * (hours as i32 * 3600 + minutes as i32 * 60)).ok()
    }
}
