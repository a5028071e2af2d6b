//! HdrHistogram interval logs of service, wait and lag: a line for each window, stream and device.
//!
//! HdrHistogram's tools (HistogramLogProcessor and the plotters) read this format, so the latencies of a run can be
//! viewed without this program: durations in nanoseconds, compressed V2 histograms, the maximum in milliseconds, lines
//! tagged `stream@device`. A window is a whole number of report intervals, usually at least 10 s. Cells without a
//! successful operation in a window have no line.
//!
//! Durations have a resolution of 1 us or two digits, whichever is coarser: finer steps would be noise. Wait and lag
//! have one digit, which is enough to see delays; with two digits they would take as much space as service.
//!
//! Source: HdrHistogram's `HistogramLogWriter`, format version 1.3.

use super::RunDirError;
use super::checksums::{FileCheck, RecordedSums};
use super::file::{AppendFile, HlogKind, WholeLines};
use crate::buckets::DURATION_MAX_NS;
use crate::cell::{
    Cell, Interval, Latencies, Layout, SIGNIFICANT_DIGITS, add_latencies, latencies,
};
use crate::files::{self, Links};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress, Status};
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Serializer, V2Serializer};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const WINDOW_SEC_MIN: u64 = 10;
/// Finest resolution, nanoseconds: the power of two nearest to 1 us, because bucket widths are powers of two.
const UNIT_NS: u64 = 1024;
/// HdrHistogram's tools expect the maximum in milliseconds, but histograms in nanoseconds.
const NS_PER_MS: f64 = 1e6;

/// Number of report intervals in a window: the shortest window of at least 10 s that divides a round of `round_sec`. A
/// round shorter than 10 s is one window. `round_sec` is a multiple of the report interval, or 0 without rounds.
pub(super) fn window_intervals(report_interval_sec: u64, round_sec: u64) -> u64 {
    let interval_sec = report_interval_sec.max(1);
    let window_min = WINDOW_SEC_MIN.div_ceil(interval_sec);
    match round_sec / interval_sec {
        0 => window_min,
        round if round <= window_min => round,
        round => (window_min..=round)
            .find(|window| round.is_multiple_of(*window))
            .unwrap_or(round),
    }
}

impl HlogKind {
    /// Significant digits of the histograms in the file.
    pub fn digits(self) -> u8 {
        match self {
            Self::Service => SIGNIFICANT_DIGITS,
            Self::Wait | Self::Lag => 1,
        }
    }

    fn latencies_in(self, cell: &Cell) -> &Latencies {
        match self {
            Self::Service => &cell.service,
            Self::Wait => &cell.wait,
            Self::Lag => &cell.lag,
        }
    }
}

/// The histogram at the log's resolution. Each bucket is a union of a cell's buckets, so no value is rounded twice.
fn coarser(histogram: &Latencies, digits: u8) -> Latencies {
    let coarse = Latencies::new_with_bounds(UNIT_NS, DURATION_MAX_NS, digits);
    let mut coarse = coarse.expect("bounds are constants in range");
    for value in histogram.iter_recorded() {
        let recorded = coarse.record_n(value.value_iterated_to(), value.count_at_value());
        recorded.expect("both have the same range");
    }
    coarse
}

/// Tag of a cell: `stream@device`, with `_` in place of characters that a tag must not contain.
fn tag(layout: &Layout, cell: usize) -> String {
    layout.cell_name(cell).replace(
        |c: char| c == ',' || c.is_whitespace() || c.is_control(),
        "_",
    )
}

fn header(kind: HlogKind, tool: &str, started_unix_ms: u64) -> String {
    let name = match kind {
        HlogKind::Service => "service: from the submission until the completion",
        HlogKind::Wait => "wait: for a free slot under the in-flight limit",
        HlogKind::Lag => "lag: delay of the submission by this program itself",
    };
    let started = started_unix_ms as f64 / 1000.0;
    format!(
        "#[{name}; nanoseconds, maximum in milliseconds; written by {}]\n\
         #[Histogram log format version 1.3]\n\
         #[BaseTime: {started:.3} (seconds since epoch)]\n\
         #[StartTime: {started:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        tool.replace(char::is_control, " ")
    )
}

/// First word of a compressed V2 histogram. Source: HdrHistogram's `EncodableHistogram`.
const COMPRESSED_COOKIE: u32 = 0x1c84_9304 | 0x10;

/// Writes compressed V2 histograms like the library's `V2DeflateSerializer`, but reuses the deflate state. The library
/// allocates 300 KB for each histogram; in a long run in virtual time, the page faults took a sixth of the time.
struct Compressor {
    serializer: V2Serializer,
    deflate: Compress,
    plain_bytes: Vec<u8>,
    bytes: Vec<u8>,
}

impl Compressor {
    fn new() -> Self {
        let deflate = Compress::new(Compression::default(), true);
        Self {
            serializer: V2Serializer::new(),
            deflate,
            plain_bytes: Vec::new(),
            bytes: Vec::new(),
        }
    }

    fn bytes(&mut self, histogram: &Latencies) -> &[u8] {
        self.plain_bytes.clear();
        self.serializer
            .serialize(histogram, &mut self.plain_bytes)
            .expect("a vector takes any bytes");
        self.compressed()
    }

    fn compressed(&mut self) -> &[u8] {
        self.bytes.clear();
        self.bytes.extend(COMPRESSED_COOKIE.to_be_bytes());
        self.bytes.extend([0; 4]);
        self.deflate.reset();
        loop {
            let offset = self.deflate.total_in() as usize;
            self.bytes.reserve(self.plain_bytes.len() / 2 + 64);
            let status = self.deflate.compress_vec(
                &self.plain_bytes[offset..],
                &mut self.bytes,
                FlushCompress::Finish,
            );
            if status.expect("a compressor that was reset takes any bytes") == Status::StreamEnd {
                break;
            }
        }
        let length = self.bytes.len() as u32 - 8;
        self.bytes[4..8].copy_from_slice(&length.to_be_bytes());
        &self.bytes
    }
}

/// The three logs of a run, with the durations since the last window.
pub(super) struct Hlogs {
    logs: Vec<HlogFile>,
    tags: Vec<String>,
    window_intervals: u64,
    intervals: u64,
    from_ns: u64,
    to_ns: u64,
    compressor: Compressor,
}

struct HlogFile {
    kind: HlogKind,
    file: AppendFile,
    durations: Vec<Option<Latencies>>,
}

impl Hlogs {
    pub(super) fn create(
        dir: &Path,
        layout: &Layout,
        tool: &str,
        started_unix_ms: u64,
        window_intervals: u64,
    ) -> Result<Self, RunDirError> {
        let mut logs = Vec::with_capacity(HlogKind::ALL.len());
        for kind in HlogKind::ALL {
            let mut file = AppendFile::create(dir.join(kind.file_name()))?;
            file.append(header(kind, tool, started_unix_ms).as_bytes())?;
            logs.push(HlogFile {
                kind,
                file,
                // Of many jobs with many files, most cells stay empty.
                durations: vec![None; layout.cells()],
            });
        }
        Ok(Self {
            logs,
            tags: (0..layout.cells()).map(|cell| tag(layout, cell)).collect(),
            window_intervals,
            intervals: 0,
            from_ns: 0,
            to_ns: 0,
            compressor: Compressor::new(),
        })
    }

    /// Adds an interval; writes the window once it is complete.
    pub(super) fn add(&mut self, interval: &Interval) -> Result<(), RunDirError> {
        for log in &mut self.logs {
            for (since, cell) in log
                .durations
                .iter_mut()
                .zip(&interval.cells)
                .filter(|(_, cell)| cell.counts.ops > 0)
            {
                add_latencies(
                    since.get_or_insert_with(latencies),
                    log.kind.latencies_in(cell),
                );
            }
        }
        self.intervals += 1;
        self.to_ns = self.to_ns.max(interval.end_ns);
        if self.intervals == self.window_intervals {
            self.write_window()
        } else {
            Ok(())
        }
    }

    /// Writes the durations since the last window, if any.
    pub(super) fn write_window(&mut self) -> Result<(), RunDirError> {
        let from_sec = self.from_ns as f64 / 1e9;
        let length_sec = (self.to_ns - self.from_ns) as f64 / 1e9;
        let mut lines = String::new();
        for log in &mut self.logs {
            lines.clear();
            for (durations, tag) in log
                .durations
                .iter_mut()
                .zip(&self.tags)
                .filter_map(|(since, tag)| Some((since.as_mut()?, tag)))
                .filter(|(since, _)| !since.is_empty())
            {
                let bytes = self
                    .compressor
                    .bytes(&coarser(durations, log.kind.digits()));
                let max_ms = durations.max() as f64 / NS_PER_MS;
                // Writing to a string cannot fail.
                let _ = write!(
                    lines,
                    "Tag={tag},{from_sec:.3},{length_sec:.3},{max_ms:.3},"
                );
                STANDARD.encode_string(bytes, &mut lines);
                lines.push('\n');
                durations.reset();
            }
            log.file.append(lines.as_bytes())?;
        }
        self.intervals = 0;
        self.from_ns = self.to_ns;
        Ok(())
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &AppendFile> {
        self.logs.iter().map(|log| &log.file)
    }

    pub(super) fn sync(&mut self) -> Result<(), RunDirError> {
        self.logs.iter_mut().try_for_each(|log| log.file.sync())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HistogramWindow {
    /// Index of the cell: see [`Layout::cell`].
    pub cell: usize,
    /// Start, seconds since the run began.
    pub from_sec: f64,
    pub length_sec: f64,
    /// Durations in nanoseconds.
    pub histogram: Latencies,
}

/// The buckets of a [`HistogramWindow`], as in the log. Reading buckets is three times as fast as reading a histogram.
#[derive(Debug)]
pub struct WindowBuckets<'a> {
    pub cell: usize,
    pub from_sec: f64,
    pub length_sec: f64,
    /// Non-empty buckets, ascending.
    pub buckets: &'a [HlogBucket],
    /// An empty histogram with the bounds of the log.
    empty: &'a Latencies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HlogBucket {
    pub least_ns: u64,
    pub most_ns: u64,
    pub count: u32,
}

impl WindowBuckets<'_> {
    fn window(&self) -> HistogramWindow {
        let Self {
            cell,
            from_sec,
            length_sec,
            ..
        } = *self;
        let mut histogram = self.empty.clone();
        for bucket in self.buckets {
            histogram
                .record_n(bucket.most_ns, bucket.count)
                .expect("each bucket is one of the histogram's");
        }
        HistogramWindow {
            cell,
            from_sec,
            length_sec,
            histogram,
        }
    }
}

/// Reads a log of the run in `dir` and calls `on_window` for every line, oldest first. Memory does not grow with the
/// log. A torn last line is dropped. Errors: the file cannot be read, is not a log of `layout`, or is damaged;
/// `on_window` then got the lines before the damage.
pub fn each_window(
    dir: &Path,
    layout: &Layout,
    kind: HlogKind,
    mut on_window: impl FnMut(HistogramWindow),
) -> Result<(), RunDirError> {
    each_buckets(dir, layout, kind, None, |buckets| {
        on_window(buckets.window())
    })
}

/// Like [`each_window`], with buckets instead of histograms. Only the lines of `stream`, if given, are decoded.
pub fn each_buckets(
    dir: &Path,
    layout: &Layout,
    kind: HlogKind,
    stream: Option<usize>,
    mut on_window: impl FnMut(WindowBuckets),
) -> Result<(), RunDirError> {
    let path = dir.join(kind.file_name());
    let FileCheck {
        good_bytes, damage, ..
    } = RecordedSums::read(dir).check(kind.file_name())?;
    windows(
        WholeLines::open(path.clone())?.limited(good_bytes),
        layout,
        stream,
        &mut on_window,
    )?;
    match damage {
        None => Ok(()),
        Some(_) if !path.exists() => Err(RunDirError::Missing { path }),
        Some(why) => Err(RunDirError::Damaged {
            path,
            why: format!("it {why}"),
        }),
    }
}

/// The lines of the newest window of a log. Only the end of the file is read, so the cost does not grow with the run.
/// Empty before the first window is complete. Errors: as [`each_window`].
pub fn last_windows(
    dir: &Path,
    layout: &Layout,
    kind: HlogKind,
) -> Result<Vec<HistogramWindow>, RunDirError> {
    let path = dir.join(kind.file_name());
    let file = end_of(&path).map_err(|error| RunDirError::io("reading", &path, error))?;
    let mut newest: Vec<HistogramWindow> = Vec::new();
    windows(
        WholeLines::new(path, Some(file)),
        layout,
        None,
        &mut |buckets| {
            newest.retain(|other| other.from_sec >= buckets.from_sec);
            newest.push(buckets.window());
        },
    )?;
    Ok(newest)
}

/// Opens a file at the first whole line within its last megabyte.
fn end_of(path: &Path) -> io::Result<File> {
    // A line has at most about 10 KB, so this is enough for a window of many streams and devices.
    const END_BYTES: u64 = 1 << 20;
    let mut file = files::open(path, Links::Refused)?;
    let tail_offset = file.metadata()?.len().saturating_sub(END_BYTES);
    if tail_offset > 0 {
        file.seek(SeekFrom::Start(tail_offset))?;
        let mut bytes = Vec::new();
        (&file).take(END_BYTES).read_to_end(&mut bytes)?;
        let torn = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), |end| end + 1);
        file.seek(SeekFrom::Start(tail_offset + torn as u64))?;
    }
    Ok(file)
}

/// Calls `on_window` for every window of a log, or only for the windows of `stream`. Not generic, because a generic
/// function would be compiled in the calling crate, with less optimisation.
fn windows(
    mut lines: WholeLines,
    layout: &Layout,
    stream: Option<usize>,
    on_window: &mut dyn FnMut(WindowBuckets),
) -> Result<(), RunDirError> {
    let devices = layout.devices.len().max(1);
    let tags: Vec<_> = (0..layout.cells()).map(|cell| tag(layout, cell)).collect();
    let mut decoder = HistogramDecoder::new();
    let mut text = String::new();
    while let Some(line) = lines.next()? {
        text.clear();
        text.extend([line, "\n"]);
        match IntervalLogIterator::new(text.as_bytes()).next() {
            Some(Ok(LogEntry::Interval(line))) => {
                let tag = line.tag().map_or("", |tag| tag.as_str());
                let cell = tags.iter().position(|known| *known == tag);
                let cell =
                    cell.ok_or_else(|| lines.error("the tag of a stream and device of the run"))?;
                if stream.is_none_or(|stream| stream == cell / devices) {
                    decoder
                        .read(line.encoded_histogram())
                        .map_err(|expected| lines.error(expected))?;
                    let from_sec = line.start_timestamp().as_secs_f64();
                    let length_sec = line.duration().as_secs_f64();
                    let HistogramDecoder { buckets, empty, .. } = &decoder;
                    on_window(WindowBuckets {
                        cell,
                        from_sec,
                        length_sec,
                        buckets,
                        empty,
                    });
                }
            }
            // Lines before the first window: comments, times, names of columns.
            None | Some(Ok(LogEntry::StartTime(_) | LogEntry::BaseTime(_))) => {}
            Some(Err(_)) => return Err(lines.error("a line of an interval log")),
        }
    }
    Ok(())
}

/// Maximum size of an uncompressed histogram, bytes: a histogram with five digits up to an hour is smaller.
const PLAIN_BYTES_MAX: usize = 16 << 20;

/// First word of a V2 histogram. Source: HdrHistogram's `EncodableHistogram`.
const PLAIN_COOKIE: u32 = 0x1c84_9303 | 0x10;

/// Reads histograms like the library, but reuses the inflate state and limits the memory. The library allocates 40 KB
/// for each histogram, plus as much memory as the histogram claims to need.
struct HistogramDecoder {
    bytes: Vec<u8>,
    inflate: Box<DecompressorOxide>,
    plain_bytes: Vec<u8>,
    buckets: Vec<HlogBucket>,
    empty: Latencies,
}

impl HistogramDecoder {
    fn new() -> Self {
        let bytes = Vec::new();
        let plain = Vec::new();
        Self {
            bytes,
            inflate: Box::default(),
            plain_bytes: plain,
            buckets: Vec::new(),
            empty: latencies(),
        }
    }

    /// Reads the buckets of a histogram. `Err` describes the expected text.
    fn read(&mut self, base64: &str) -> Result<(), &'static str> {
        self.bytes.clear();
        STANDARD
            .decode_vec(base64, &mut self.bytes)
            .map_err(|_| "a histogram in base64")?;
        let length = self.inflate().ok_or("a compressed histogram")?;
        self.read_plain(length)
            .ok_or("a histogram of durations with whole counts")
    }

    /// Decompresses a histogram; returns its length.
    fn inflate(&mut self) -> Option<usize> {
        let deflated = self.bytes.strip_prefix(&COMPRESSED_COOKIE.to_be_bytes())?;
        let (length, deflated) = deflated.split_first_chunk()?;
        let deflated = deflated.get(..u32::from_be_bytes(*length) as usize)?;
        self.inflate.init();
        let mut read = 0;
        let mut length = 0;
        loop {
            let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
            let (status, more_read, more) = decompress(
                &mut self.inflate,
                &deflated[read..],
                &mut self.plain_bytes,
                length,
                flags,
            );
            (read, length) = (read + more_read, length + more);
            match status {
                TINFLStatus::Done => return Some(length),
                TINFLStatus::HasMoreOutput if length < PLAIN_BYTES_MAX => {
                    self.plain_bytes.resize((2 * length).max(64 << 10), 0);
                }
                _ => return None,
            }
        }
    }

    fn read_plain(&mut self, length: usize) -> Option<()> {
        let mut rest = &self.plain_bytes[..length];
        let cookie = u32::from_be_bytes(take(&mut rest)?);
        let payload = u32::from_be_bytes(take(&mut rest)?) as usize;
        let offset = u32::from_be_bytes(take(&mut rest)?);
        let digits = u8::try_from(u32::from_be_bytes(take(&mut rest)?)).ok()?;
        let low = u64::from_be_bytes(take(&mut rest)?);
        let high = u64::from_be_bytes(take(&mut rest)?);
        let ratio = f64::from_be_bytes(take(&mut rest)?);
        if cookie != PLAIN_COOKIE || offset != 0 || ratio != 1.0 {
            return None;
        }
        if (self.empty.low(), self.empty.high(), self.empty.sigfig()) != (low, high, digits) {
            self.empty = Latencies::new_with_bounds(low, high, digits).ok()?;
        }
        // HdrHistogram's layout: equal buckets; then, for each doubling of the range, half as many of twice the width.
        let unit = low.ilog2();
        let half = (2 * 10_u64.pow(u32::from(digits)))
            .next_power_of_two()
            .max(2)
            / 2;
        let mut payload = rest.get(..payload)?;
        let mut index = 0;
        let value_count = self.empty.distinct_values() as u64;
        self.buckets.clear();
        while !payload.is_empty() {
            let number = unzigzag(leb128(&mut payload)?);
            if number < 0 {
                index = number.unsigned_abs().checked_add(index)?;
                continue;
            }
            if number > 0 {
                let count = u32::try_from(number).ok()?;
                let (doublings, step) = if index < 2 * half {
                    (0, index)
                } else {
                    (index / half - 1, index % half + half)
                };
                let shift = u32::try_from(doublings).ok()? + unit;
                let least_ns = step
                    .checked_shl(shift)
                    .filter(|least| index < value_count && least >> shift == step)?;
                self.buckets.push(HlogBucket {
                    least_ns,
                    most_ns: least_ns + ((1 << shift) - 1),
                    count,
                });
            }
            index += 1;
        }
        Some(())
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// A LEB128 number: 7 bits per byte, except for the ninth, which has 8.
fn leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..9 {
        let [byte] = take(bytes)?;
        if at == 8 || byte < 0x80 {
            return Some(number | u64::from(byte) << (7 * at));
        }
        number |= u64::from(byte & 0x7f) << (7 * at);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

    #[test]
    fn a_reused_compressor_writes_the_bytes_that_the_library_writes() {
        let mut compressor = Compressor::new();
        for (values, step_ns) in [(0, 1), (1, 90_000), (100, 1_013), (60_000, 50_021), (3, 1)] {
            let mut histogram = latencies();
            (0..values).for_each(|n: u64| histogram.saturating_record(n * n % 977 * step_ns));
            let mut expected = Vec::new();
            V2DeflateSerializer::new()
                .serialize(&histogram, &mut expected)
                .unwrap();
            assert_eq!(compressor.bytes(&histogram), expected, "{values} values");
        }
    }

    #[test]
    fn a_reused_decoder_reads_histograms_as_the_library_and_refuses_cut_or_huge_ones() {
        let mut compressor = Compressor::new();
        let mut decoder = HistogramDecoder::new();
        let mut random = 1_u64;
        for (low, high, digits) in [
            (1, DURATION_MAX_NS, 2),
            (UNIT_NS, DURATION_MAX_NS, 1),
            (1, 2, 0),
            (1_000, u64::MAX / 2, 3),
        ] {
            let mut histogram = Latencies::new_with_bounds(low, high, digits).unwrap();
            for bits in 0..64 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                histogram.saturating_record_n(random >> bits, (random >> 40) as u32 >> (bits % 24));
            }
            let bytes = compressor.bytes(&histogram).to_vec();
            decoder.read(&STANDARD.encode(&bytes)).unwrap();
            let buckets = &*decoder.buckets;
            let empty = &decoder.empty;
            let window = WindowBuckets {
                cell: 0,
                from_sec: 0.0,
                length_sec: 0.0,
                buckets,
                empty,
            };
            let of_library: Latencies = Deserializer::new().deserialize(&mut &*bytes).unwrap();
            assert_eq!(window.window().histogram, of_library.clone());
            assert_eq!(&of_library, &histogram);
            let edges = |value| {
                (
                    histogram.lowest_equivalent(value),
                    histogram.highest_equivalent(value),
                )
            };
            for (bucket, expected) in buckets.iter().zip(histogram.iter_recorded()) {
                assert_eq!(
                    (bucket.least_ns, bucket.most_ns),
                    edges(expected.value_iterated_to())
                );
            }
            for end in 0..bytes.len() {
                assert!(
                    decoder.read(&STANDARD.encode(&bytes[..end])).is_err(),
                    "{end} of {} bytes",
                    bytes.len()
                );
            }
        }
        // A few kilobytes that inflate to a huge size are refused.
        compressor.plain_bytes = vec![0; 2 * PLAIN_BYTES_MAX];
        let bomb = STANDARD.encode(compressor.compressed());
        assert!(bomb.len() < 128 << 10 && decoder.read(&bomb).is_err());
        assert!(decoder.plain_bytes.len() <= PLAIN_BYTES_MAX);
    }

    #[test]
    fn a_histogram_with_impossible_numbers_is_damage() {
        let mut compressor = Compressor::new();
        let mut decoder = HistogramDecoder::new();
        let mut histogram = latencies();
        histogram.record(5_000).unwrap();
        V2Serializer::new()
            .serialize(&histogram, &mut compressor.plain_bytes)
            .unwrap();
        let plain = compressor.plain_bytes.clone();
        let mut is_read = |changes: &[(usize, &[u8])]| {
            compressor.plain_bytes.clone_from(&plain);
            changes.iter().for_each(|(at, bytes)| {
                compressor.plain_bytes[*at..at + bytes.len()].copy_from_slice(bytes)
            });
            decoder
                .read(&STANDARD.encode(compressor.compressed()))
                .is_ok()
        };
        assert!(is_read(&[]));
        let length = &[255; 4][..];
        let zeros = &[255, 255, 255][..];
        for (at, bytes) in [
            (0, length),
            (4, length),
            (8, length),
            (12, length),
            (16, &[0; 8]),
            (24, &[0; 8]),
            (32, length),
        ] {
            assert!(!is_read(&[(at, bytes)]), "{at}");
        }
        // Refused: more zeros before the count than the histogram has buckets.
        assert!(!is_read(&[(40, zeros)]));
    }

    #[test]
    fn a_histogram_window_lasts_at_least_ten_seconds_or_one_round_and_divides_the_round() {
        assert_eq!(window_intervals(1, 0), 10, "no rounds");
        assert_eq!(window_intervals(1, 60), 10);
        assert_eq!(window_intervals(1, 5), 5, "a round shorter than a window");
        let found = window_intervals(7, 63);
        assert_eq!(found, 3, "9 intervals: 2 do not divide them");
        assert_eq!(window_intervals(1, 23), 23);
        assert_eq!(window_intervals(60, 60), 1);
    }
}
