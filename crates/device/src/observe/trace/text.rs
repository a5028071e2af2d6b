//! Parses the text output of tracing programs into requests.
//!
//! ```text
//! # ftrace: trace, trace_pipe, trace-cmd report; perf script
//!     asd-17665   [001] .....  3272.334513: block_rq_issue: 7,2 RS 8704 () 1293793 + 17 be,0,4 [asd]
//! # blkparse
//!   7,2    1        1     0.000000000 17665  D  RS 1293793 + 17 [asd]
//! # iosnoop of perf-tools, with or without -s and -t; flashproof trace --ops
//! STARTs          COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
//! 3272.334513     asd              17665  RS   7,2      1293793      8704      0.390
//! ```
//!
//! The format of each line is recognised separately; a table has the names of its columns in its heading. Kernels
//! differ: some print no bytes before the sector, and Linux before 6.10 prints no priority after the sectors. A process
//! can have any name, even `a: block_rq_issue: b`, so the parser tries each `block_` from the left until the rest of
//! the line fits. Unreadable lines are counted, and the first is stored. Memory is bounded for any input.

use super::event::{EventOp, Flags, parse_letters};
use super::pair::RecentEnds;
use super::{BlockRequest, EventKind, Pairing, TraceEvent, TracedTask};
use crate::discover::DeviceNumber;
use crate::observe::diskstats::SECTOR_BYTES;
use results::files::next_line;
use std::collections::HashSet;
use std::io::{self, BufReader, Read};

/// Maximum length of a line; longer lines are skipped.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Maximum number of devices, more than any machine has. Events of further devices are skipped.
const DEVICES_MAX: usize = 256;

const SHOWN_BYTES: usize = 120;

const NS_PER_SEC: u64 = 1_000_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceText {
    pub lines: u64,
    /// Number of lines that are not part of a trace.
    pub unread_lines: u64,
    /// Number and beginning of the first line that is not part of a trace.
    pub first_unread: Option<(u64, String)>,
    /// Events that the tracing program reported as lost.
    pub lost: u64,
    /// Rows of reads and writes without a size (iosnoop prints 0 on recent kernels, and + for the sector).
    pub without_size: u64,
    /// Events and requests that were skipped, because the text already had [`DEVICES_MAX`] other devices.
    pub of_further_devices: u64,
    /// Rows without a start time (iosnoop without -s).
    pub without_time: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the text is empty - record again, and check the output of the tracing program")]
    Empty,
    #[error(
        "none of its {} is an event of a block request - enable block_rq_issue and block_rq_complete, switch tracing on, \
         and record again", results::format::count(*.lines, "line")
    )]
    NoEvents { lines: u64 },
    #[error(
        "the trace has the completions of requests, but not their issues - also record block_rq_issue (blktrace: -a issue)"
    )]
    NoIssues,
    /// The text of another program: what it is, and what to do.
    #[error("{0}")]
    OtherFormat(&'static str),
    /// No line is part of a trace. `line`, `text`: number and beginning of the first unreadable line.
    #[error(
        "no line is a block tracepoint of ftrace, trace-cmd, perf script or blkparse, or a row of iosnoop or of \
         flashproof trace --ops; line {line}: {}",
        results::format::quoted(text)
    )]
    NoTrace { line: u64, text: String },
}

/// Texts that people take for traces: beginning of the first line, and advice.
const OTHER_FORMATS: [(&str, &str); 2] = [
    (
        "fio version ",
        "it is a log of fio's operations, not a block trace - replay it with flashproof fio --name=replay \
         --read_iolog=FILE",
    ),
    (
        "TIME(",
        "it is the output of biosnoop, which has the names of disks but not their numbers - record with flashproof \
         trace --ops",
    ),
];

impl TraceText {
    /// `sink` gets the requests in the order of completion; requests without completion come last.
    pub fn read(input: impl Read, sink: &mut dyn FnMut(BlockRequest)) -> Result<Self, TextError> {
        let mut reader = TraceTextReader::default();
        let mut input = BufReader::with_capacity(256 << 10, input);
        let mut line = Vec::new();
        let mut has_events = false;
        while next_line(&mut input, LINE_BYTES_MAX, &mut line)? {
            reader.facts.lines += 1;
            let meaning = if line.len() as u64 >= LINE_BYTES_MAX {
                ParsedLine::None
            } else {
                reader.meaning(&String::from_utf8_lossy(&line))
            };
            match meaning {
                ParsedLine::Event(TraceEvent { device, .. })
                | ParsedLine::Request(BlockRequest { device, .. })
                    if !reader.knows(device) =>
                {
                    reader.facts.of_further_devices += 1;
                }
                ParsedLine::Event(event) => {
                    reader.pairing.add(&event);
                    has_events = true;
                }
                ParsedLine::Request(mut request) => {
                    request.sequential = reader.recent_ends.follows(&request);
                    reader.facts.note(&request);
                    reader.requests += 1;
                    sink(request);
                }
                ParsedLine::Lost(events) => {
                    reader.facts.lost = reader.facts.lost.saturating_add(events)
                }
                ParsedLine::Nothing => {}
                ParsedLine::None => {
                    reader.facts.unread_lines += 1;
                    if reader.facts.first_unread.is_none() {
                        let shown = &line[..line.len().min(SHOWN_BYTES)];
                        let text = String::from_utf8_lossy(shown).into_owned();
                        reader.facts.first_unread = Some((reader.facts.lines, text));
                    }
                }
            }
            reader.hand_over(sink);
        }
        reader.pairing.finish();
        reader.hand_over(sink);
        reader.facts.lost = reader.facts.lost.saturating_add(reader.pairing.lost());
        match reader.requests {
            0 if has_events => Err(TextError::NoIssues),
            0 => Err(reader.facts.no_trace()),
            _ => Ok(reader.facts),
        }
    }

    /// The reason why a text without events is not a trace.
    fn no_trace(self) -> TextError {
        let lines = self.lines;
        let Some((line, text)) = self.first_unread else {
            return match lines {
                0 => TextError::Empty,
                _ => TextError::NoEvents { lines },
            };
        };
        let other = OTHER_FORMATS
            .iter()
            .find(|(start, _)| text.trim_ascii_start().starts_with(start));
        other.map_or(TextError::NoTrace { line, text }, |(_, advice)| {
            TextError::OtherFormat(advice)
        })
    }

    /// Counts what is missing in a row.
    fn note(&mut self, request: &BlockRequest) {
        let moves_data = matches!(
            request.op,
            EventOp::Read | EventOp::Write | EventOp::Discard
        );
        self.without_size += u64::from(moves_data && request.sectors == 0);
        self.without_time += u64::from(request.issued_ns.is_none());
    }
}

#[derive(Debug, PartialEq)]
enum ParsedLine {
    Event(TraceEvent),
    Request(BlockRequest),
    Lost(u64),
    /// A heading, a comment, or an event of another kind.
    Nothing,
    /// Not a trace line.
    None,
}

#[derive(Default)]
struct TraceTextReader {
    facts: TraceText,
    pairing: Pairing,
    /// `None` before the heading of the table.
    columns: Option<RequestColumns>,
    recent_ends: RecentEnds,
    devices: HashSet<DeviceNumber>,
    /// Number of requests that the sink has got.
    requests: u64,
}

impl TraceTextReader {
    /// True if the device is one of the first [`DEVICES_MAX`] devices of the text.
    fn knows(&mut self, device: DeviceNumber) -> bool {
        self.devices.contains(&device)
            || self.devices.len() < DEVICES_MAX && self.devices.insert(device)
    }

    fn hand_over(&mut self, sink: &mut dyn FnMut(BlockRequest)) {
        self.requests += self.pairing.requests().len() as u64;
        self.pairing.drain().for_each(sink);
    }

    fn meaning(&mut self, line: &str) -> ParsedLine {
        let text = line.trim_ascii();
        if text.is_empty() {
            return ParsedLine::Nothing;
        }
        if text.starts_with('#') {
            return remark(text);
        }
        if let Some(event) = ftrace(text) {
            return event;
        }
        if let Some(columns) = RequestColumns::from_line(text) {
            self.columns = Some(columns);
            return ParsedLine::Nothing;
        }
        if let Some(request) = self
            .columns
            .as_ref()
            .and_then(|columns| columns.request(text))
        {
            return ParsedLine::Request(request);
        }
        // After events and rows: QEMU calls its threads `CPU 0/KVM`.
        if REMARKS.iter().any(|start| text.starts_with(start)) {
            return remark(text);
        }
        blkparse(text).unwrap_or(ParsedLine::None)
    }
}

/// Beginnings of remarks of ftrace, trace-cmd, blkparse and blktrace. Some remarks report lost events.
const REMARKS: [&str; 4] = ["CPU:", "CPU ", "Skips:", "You have "];

fn remark(text: &str) -> ParsedLine {
    lost(text).map_or(ParsedLine::Nothing, ParsedLine::Lost)
}

fn lost(text: &str) -> Option<u64> {
    if let Some(counts) = text.strip_prefix("# entries-in-buffer/entries-written:") {
        let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
        return Some(
            written
                .parse::<u64>()
                .ok()?
                .saturating_sub(kept.parse().ok()?),
        )
        .filter(|lost| *lost > 0);
    }
    if let Some(count) = text.strip_prefix(LOST_COMMENT) {
        return count.trim().parse().ok();
    }
    // blkparse: `Skips: 3 forward (12,345 -  45.2%)`. The numbers of the events have 3 gaps of 12,345 events in all.
    // Source: collect_pdi_skips in blkparse.c.
    if let Some(gaps) = text.strip_prefix("Skips:") {
        let events = gaps.split_once('(')?.1.split_once(" -")?.0;
        let digits: String = events.chars().filter(char::is_ascii_digit).collect();
        return digits.parse().ok();
    }
    // blktrace: `You have 1234 ( 12.3%) dropped events`.
    if let Some(events) = text.strip_prefix("You have ") {
        let count = events.strip_suffix("dropped events")?.split_once('(')?.0;
        return count.trim().parse().ok();
    }
    // ftrace: `CPU:1 [LOST 532 EVENTS]`; trace-cmd: `CPU:1 [532 EVENTS DROPPED]`. Without a number: one event.
    let lost = text.split_once('[')?.1.split_once(']')?.0;
    let count = match lost.strip_prefix("LOST ") {
        Some(count) => count.strip_suffix("EVENTS")?.trim(),
        None => lost.strip_suffix("EVENTS DROPPED")?.trim(),
    };
    Some(if count.is_empty() {
        1
    } else {
        count.parse().ok()?
    })
}

/// Text before the number of lost events in the output of `flashproof trace --ops`.
pub const LOST_COMMENT: &str = "# lost events:";

fn ftrace(line: &str) -> Option<ParsedLine> {
    for (at, _) in line.match_indices("block_") {
        // perf script prints the subsystem before the event name.
        let head = line[..at].strip_suffix("block:").unwrap_or(&line[..at]);
        let Some(head) = head.trim_ascii_end().strip_suffix(':') else {
            continue;
        };
        let Some((time_ns, cpu, task)) = ftrace_head(head) else {
            continue;
        };
        let Some((name, body)) = line[at..].split_once(':') else {
            continue;
        };
        let kind = match name {
            "block_rq_issue" => EventKind::Issue,
            "block_rq_complete" => EventKind::Complete,
            "block_rq_insert" => EventKind::Insert,
            "block_rq_requeue" => EventKind::Requeue,
            "block_bio_queue" => EventKind::Queue,
            "block_bio_complete" => EventKind::Return,
            name if name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_') =>
            {
                return Some(ParsedLine::Nothing);
            }
            _ => continue,
        };
        if let Some(event) = event(kind, time_ns, cpu, task, body) {
            return Some(ParsedLine::Event(event));
        }
    }
    None
}

/// Parses `asd-17665   [001] .....  3272.334513`, or of perf `asd 17665 [001]  3272.334513`. `( 1234)` before the CPU
/// is the PID of the process.
fn ftrace_head(head: &str) -> Option<(u64, u32, TracedTask)> {
    let (rest, time) = last_word(head)?;
    let time_ns = nanoseconds(time)?;
    let (mut rest, mut word) = last_word(rest)?;
    if !word.starts_with('[') {
        // Skips the flags: interrupts off, preemption...
        (rest, word) = last_word(rest)?;
    }
    let cpu = number(word.strip_prefix('[')?.strip_suffix(']')?)?;
    let mut rest = rest.trim_ascii();
    if rest.ends_with(')') {
        rest = rest[..rest.rfind('(')?].trim_ascii_end();
    }
    let (before, pid) = rest.split_at(rest.rfind(['-', ' ', '/'])?);
    let comm = if pid.starts_with('/') {
        last_word(before)?.0
    } else {
        before
    };
    Some((
        time_ns,
        cpu as u32,
        TracedTask::new(number(&pid[1..])? as u32, comm.trim_ascii()),
    ))
}

/// Parses `7,2 RS 8704 () 1293793 + 17 be,0,4 [asd]`. Only requests, not bios, have bytes and a command. Text in the
/// parentheses is a passthrough command, even if the letters are those of a read or write.
fn event(
    kind: EventKind,
    time_ns: u64,
    cpu: u32,
    task: TracedTask,
    body: &str,
) -> Option<TraceEvent> {
    let ([device, letters], rest) = first_words(body)?;
    let mut rest = rest.trim_ascii_start();
    let mut is_passthrough = false;
    let behind_bytes = rest
        .trim_start_matches(|c: char| c.is_ascii_digit())
        .trim_ascii_start();
    if let Some(command) = behind_bytes.strip_prefix('(') {
        is_passthrough = !command.starts_with(')');
        rest = command.split_once(')')?.1;
    }
    let ([sector, "+", sectors], rest) = first_words(rest)? else {
        return None;
    };
    let bracketed = rest
        .split_once('[')
        .and_then(|(_, rest)| rest.rsplit_once(']'))
        .map(|(last, _)| last);
    let is_done = matches!(
        kind,
        EventKind::Complete | EventKind::Return | EventKind::Requeue
    );
    let error: Option<i32> = bracketed
        .filter(|_| is_done)
        .and_then(|text| text.parse().ok());
    let task = bracketed
        .filter(|_| !is_done)
        .map_or(task, |comm| TracedTask::new(task.pid, comm));
    let sectors = u32::try_from(number(sectors)?).ok()?;
    let (op_of_letters, flags) = letters_of(letters)?;
    let op = match op_of_letters {
        // blkparse prints no operation letter for a flush, because a flush moves no data.
        EventOp::Other if flags.preflush && sectors == 0 => EventOp::Flush,
        _ if is_passthrough => EventOp::Other,
        op => op,
    };
    Some(TraceEvent {
        time_ns,
        cpu,
        kind,
        device: device_number(device)?,
        sector: number(sector)?,
        sectors,
        op,
        flags,
        // blkparse prints -5 as 65531, because blktrace records 16 bits.
        error: error.map_or(0, |error| i32::from(error as i16)),
        task,
    })
}

/// `8,0  1  17  0.000012345  1234  D  RS 1293793 + 17 [asd]`
fn blkparse(line: &str) -> Option<ParsedLine> {
    let ([device, cpu, sequence, time, pid, action], rest) = first_words(line)?;
    let cpu = number(cpu)? as u32;
    let time_ns = nanoseconds(time)?;
    let pid = number(pid)? as u32;
    number(sequence)?;
    device_number(device)?;
    let kind = match action {
        "D" => EventKind::Issue,
        "C" => EventKind::Complete,
        "I" => EventKind::Insert,
        "R" => EventKind::Requeue,
        "Q" => EventKind::Queue,
        _ => return Some(ParsedLine::Nothing),
    };
    let body = ftrace_body(kind, device, rest)?;
    event(kind, time_ns, cpu, TracedTask::new(pid, ""), &body).map(ParsedLine::Event)
}

/// Text of blkparse behind the action in the form of ftrace.
///
/// `RS 1293793 + 17 [asd]` has that form. Without `+`, a number in a completion is the first sector (`WS 1293793 [0]`),
/// and the bytes of a passthrough command in any other event (`R 512 (a1 08 ..) [asd]`). Passthrough commands complete
/// without a number (`R (a1 08 ..) [0]`), and flushes are issued without one (`FN [asd]`).
///
/// Source: `process_default` in blkparse_fmt.c.
fn ftrace_body(kind: EventKind, device: &str, rest: &str) -> Option<String> {
    if let Some(([_, _, "+"], _)) = first_words(rest) {
        return Some(format!("{device} {rest}"));
    }
    let ([letters], rest) = first_words(rest)?;
    let number = first_words(rest).and_then(|([word], _)| number(word));
    let is_completion = matches!(kind, EventKind::Complete | EventKind::Requeue);
    let command = if number.is_some() == is_completion {
        "()"
    } else {
        "(passthrough)"
    };
    let sector = number.filter(|_| is_completion).unwrap_or(0);
    Some(format!("{device} {letters} {command} {sector} + 0 {rest}"))
}

/// Column names by position. COMM can contain blanks, so the columns behind COMM are counted from the end of the line.
#[derive(Debug, Clone, PartialEq)]
struct RequestColumns {
    names: Vec<String>,
    comm: usize,
}

impl RequestColumns {
    /// `None` if the line is not a heading.
    fn from_line(line: &str) -> Option<Self> {
        let names: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        let has = |name: &str| names.iter().any(|found| found == name);
        let comm = names.iter().position(|name| name == "COMM")?;
        ["PID", "TYPE", "DEV", "BLOCK", "BYTES", "LATms"]
            .into_iter()
            .all(has)
            .then_some(Self { names, comm })
    }

    fn request(&self, line: &str) -> Option<BlockRequest> {
        let mut words = vec![""; self.names.len()];
        let mut rest = line;
        for word in &mut words[..self.comm] {
            ([*word], rest) = first_words(rest)?;
        }
        for word in words[self.comm + 1..].iter_mut().rev() {
            (rest, *word) = last_word(rest)?;
        }
        words[self.comm] = rest.trim_ascii();
        let column_at = |name: &str| self.names.iter().position(|found| found == name);
        let column_text = |name: &str| column_at(name).map(|at| words[at]);
        let seconds = |name: &str| column_text(name).and_then(nanoseconds);
        // Parses milliseconds as seconds, then divides by 1,000.
        let milliseconds =
            |name: &str| column_text(name).and_then(nanoseconds).map(|ns| ns / 1_000);
        let (op, flags) = letters_of(column_text("TYPE")?)?;
        let device_ns = milliseconds("LATms");
        let queue_ns = milliseconds("QUEms");
        let issued_ns = seconds("STARTs").or_else(|| seconds("ENDs")?.checked_sub(device_ns?));
        Some(BlockRequest {
            device: device_number(column_text("DEV")?)?,
            // On recent kernels iosnoop prints `+` as the sector, because it reads the wrong column of the event.
            sector: if column_text("BLOCK")? == "+" {
                0
            } else {
                number(column_text("BLOCK")?)?
            },
            sectors: u32::try_from(number(column_text("BYTES")?)? / SECTOR_BYTES).ok()?,
            op,
            flags,
            sequential: false,
            task: TracedTask::new(number(column_text("PID")?)? as u32, words[self.comm]),
            queued_ns: queue_ns.and_then(|queue_ns| issued_ns?.checked_sub(queue_ns)),
            issued_ns,
            device_ns,
            error: 0,
        })
    }
}

/// `None` for other letters.
fn letters_of(text: &str) -> Option<(EventOp, Flags)> {
    let known = text.len() <= 10 && text.chars().all(|c| "RWFDNSAMUEZPCOI".contains(c));
    (known && !text.is_empty()).then(|| parse_letters(text.as_bytes()))
}

/// Parses `7,2`.
fn device_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(',')?;
    let part = |text| u32::try_from(number(text)?).ok();
    Some(DeviceNumber::new(part(major)?, part(minor)?))
}

/// Parses a whole number without a sign; `None` if too large.
fn number(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Parses a decimal number of seconds as nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let digits = part
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| part.get(..9).unwrap_or(part))?;
    let part_ns = number(digits)? * 10_u64.pow(9 - digits.len() as u32);
    number(whole)?.checked_mul(NS_PER_SEC)?.checked_add(part_ns)
}

fn first_words<const N: usize>(text: &str) -> Option<([&str; N], &str)> {
    let mut words = [""; N];
    let mut rest = text;
    for word in &mut words {
        let text = rest.trim_ascii_start();
        (*word, rest) = text.split_at(
            text.find(|c: char| c.is_ascii_whitespace())
                .unwrap_or(text.len()),
        );
    }
    (!words.contains(&"")).then_some((words, rest))
}

fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_end();
    let start = text
        .rfind(|c: char| c.is_ascii_whitespace())
        .map_or(0, |at| at + 1);
    (start < text.len()).then(|| text.split_at(start))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
