//! fio's logs of operations: those that a job replays (`read_iolog`), and the one that it writes (`write_iolog`).
//!
//! A log with times is an open loop: each operation is wanted at its instant, and one that finds the depth reached waits,
//! which is recorded. A log without times, or with `replay_no_stall`, is a closed loop.
//!
//! Source: fio's iolog.c.

use super::job::{DIRECTIONS, FLUSHES, READS, TRIMS, WRITES};
use super::text::Surroundings;
use crate::stream::Request;
use crate::workload::DeviceShape;
use results::files::{self, Links};
use results::times::Times;
use results::units::quoted;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use sys::op::OpKind;

/// Longest log that is read.
const BYTES_MAX: u64 = 1 << 30;

/// Most operations of a log: 1 GiB of memory.
const OPERATIONS_MAX: usize = 32 << 20;

/// Operations that wait to be written, at most.
const KEPT_MAX: usize = 4 << 20;

/// Files of a log, at most.
const FILES_MAX: usize = 1_024;

/// Largest operation of a log: a buffer of this size for each that is in flight.
const BLOCK_MAX: u64 = 1 << 30;

/// Options of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The log; none: the job makes its operations up.
    pub file: Option<String>,
    /// True: as fast as the depth allows.
    pub no_stall: bool,
    /// Device for all operations.
    pub redirect: Option<String>,
    /// Percent of the recorded speed.
    pub time_scale: u64,
    /// Offsets are multiples of it.
    pub align: u64,
    /// Offsets are divided by it.
    pub scale: u64,
    /// Kinds that are left out, by number: reads, writes, trims, flushes.
    pub skip: [bool; DIRECTIONS + 1],
}

impl Default for ReplayOptions {
    fn default() -> Self {
        let skip = Default::default();
        Self { file: None, no_stall: false, redirect: None, time_scale: 100, align: 1, scale: 1, skip }
    }
}

/// Kinds in the value of `replay_skip`: `write,trim`.
pub(super) fn skipped(text: &str) -> Result<[bool; DIRECTIONS + 1], String> {
    let mut skip = [false; DIRECTIONS + 1];
    for word in text.split(',') {
        let kind = ["read", "write", "trim", "sync"].iter().position(|known| *known == word.trim());
        skip[kind.ok_or("it is a list of read, write, trim, sync")?] = true;
    }
    Ok(skip)
}

/// An operation of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    pub kind: OpKind,
    /// Index into [`Iolog::files`].
    pub file: u16,
    pub offset: u64,
    pub len: u32,
}

impl Logged {
    /// A direction, or [`FLUSHES`].
    #[inline]
    pub(super) fn number(self) -> usize {
        match self.kind {
            OpKind::Read => READS,
            OpKind::Write => WRITES,
            OpKind::Deallocate | OpKind::ResetZone => TRIMS,
            _ => FLUSHES,
        }
    }
}

/// A log that is replayed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Iolog {
    pub files: Vec<String>,
    pub operations: Arc<[Logged]>,
    /// When each operation is wanted, ascending nanoseconds, and the last once more, for the end; empty: a closed loop.
    pub at_ns: Arc<[u64]>,
}

impl Iolog {
    /// Reads the log of `options`. Errors: the reason.
    pub(super) fn read(options: &ReplayOptions, path: &str, around: &Surroundings<'_>) -> Result<Self, String> {
        let cannot = |why: String| format!("cannot replay the log {} - {why}", quoted(path));
        let bytes =
            files::read(Path::new(path), Links::Followed, BYTES_MAX).map_err(|error| cannot(error.to_string()))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| {
            cannot("it is no text; a trace of blktrace is replayed by flashproof storage --replay".into())
        })?;
        let log = Self::parse(options, text).map_err(|(line, why)| cannot(format!("line {line}: {why}")))?;
        let writes = log.operations.iter().any(|operation| matches!(operation.number(), WRITES | TRIMS));
        match () {
            () if around.readonly && writes => Err(cannot("it writes or trims, and --readonly forbids that".into())),
            () if log.operations.iter().all(|operation| operation.number() == FLUSHES) => {
                Err(cannot("no read, write or trim is left in it".into()))
            }
            () => Ok(log),
        }
    }

    /// Errors: number of a line, and the reason.
    fn parse(options: &ReplayOptions, text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let version = match lines.next().map(|(_, line)| line.trim_end()) {
            Some("fio version 2 iolog") => 2,
            Some("fio version 3 iolog") => 3,
            _ => return Err((1, "it begins with none of \"fio version 2 iolog\", \"fio version 3 iolog\"".into())),
        };
        let (mut names, mut files) = (HashMap::new(), Vec::new());
        let (mut operations, mut at_ns) = (Vec::new(), Vec::<u64>::new());
        let (mut first_us, mut now_ns, mut has_times) = (None, 0_u64, version == 3);
        for (at, line) in lines {
            let mut words = line.split_ascii_whitespace();
            let wrong = || (at, format!("{} is no line of such a log", quoted(line)));
            if version == 3 {
                let Some(word) = words.next() else { continue };
                let us: u64 = word.parse().map_err(|_| wrong())?;
                // As in fio, time that runs backwards stands still.
                let since_us = us.saturating_sub(*first_us.get_or_insert(us));
                let ns = u128::from(since_us) * 100_000 / u128::from(options.time_scale.max(1));
                now_ns = now_ns.max(u64::try_from(ns).map_err(|_| wrong())?);
            }
            let (Some(name), Some(action)) = (words.next(), words.next()) else {
                if line.trim().is_empty() {
                    continue;
                }
                return Err(wrong());
            };
            let kind = match action {
                "add" | "open" | "close" => continue,
                "read" => OpKind::Read,
                "write" => OpKind::Write,
                "trim" => OpKind::Deallocate,
                "sync" => OpKind::FlushFile,
                "datasync" => OpKind::Flush,
                "wait" if version == 2 => {
                    // As in fio milliseconds since the beginning.
                    let ms: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                    let ns = u128::from(ms) * 100_000_000 / u128::from(options.time_scale.max(1));
                    (now_ns, has_times) = (now_ns.max(u64::try_from(ns).map_err(|_| wrong())?), true);
                    continue;
                }
                _ => return Err(wrong()),
            };
            let (offset, len): (Option<u64>, Option<u32>) = match (words.next(), words.next(), words.next()) {
                (Some(offset), Some(len), None) => (offset.parse().ok(), len.parse().ok()),
                _ => (None, None),
            };
            let (offset, len) = offset.zip(len).ok_or_else(wrong)?;
            let name = options.redirect.as_deref().unwrap_or(name);
            let file = *names.entry(name).or_insert_with(|| {
                files.push(name.to_owned());
                files.len() - 1
            });
            let align = options.align.max(1);
            let offset_on_device = offset / options.scale.max(1) / align * align;
            let mut operation = Logged { kind, file: file as u16, offset: offset_on_device, len };
            if operation.number() == FLUSHES {
                (operation.offset, operation.len) = (0, 0);
            } else if len == 0 || u64::from(len) > BLOCK_MAX || offset.checked_add(len.into()).is_none() {
                return Err((at, format!("an operation of {len} bytes at {offset}: it has 1 to {BLOCK_MAX}")));
            }
            if operations.len() >= OPERATIONS_MAX {
                return Err((at, format!("it has more than {OPERATIONS_MAX} operations - split it")));
            }
            if !options.skip[operation.number()] {
                operations.push(operation);
                at_ns.push(now_ns);
            }
            if files.len() > FILES_MAX {
                return Err((at, format!("it has more than {FILES_MAX} files")));
            }
        }
        let is_open = has_times && !options.no_stall;
        at_ns.extend(at_ns.last().copied());
        let at_ns = if is_open { at_ns.into() } else { Arc::default() };
        Ok(Self { files, operations: operations.into(), at_ns })
    }

    /// Operations of a kind, and their largest length.
    pub(super) fn of_kind(&self, kind: usize) -> (u64, u64) {
        let all = self.operations.iter().filter(|operation| operation.number() == kind);
        all.fold((0, 0), |(count, most), operation| (count + 1, most.max(operation.len.into())))
    }

    /// Operations a second of a kind; `None`: a closed loop.
    pub(super) fn iops(&self, kind: usize) -> Option<f64> {
        let last_ns = *self.at_ns.last()?;
        Some(self.of_kind(kind).0 as f64 * 1e9 / last_ns.max(1_000_000_000) as f64)
    }

    /// Bytes that the file `name` needs.
    pub(super) fn end_bytes(&self, name: &str) -> Option<u64> {
        let file = self.files.iter().position(|file| file == name)?;
        let of_file = self.operations.iter().filter(|operation| usize::from(operation.file) == file);
        of_file.map(|operation| operation.offset + u64::from(operation.len)).max()
    }

    /// Checks that its operations fit the devices or files, of which `shapes` are those of `files` in order. Errors: the
    /// reason, a phrase.
    pub(super) fn check(&self, shapes: &[&DeviceShape], direct: bool) -> Result<(), String> {
        for operation in self.operations.iter().filter(|operation| operation.number() != FLUSHES) {
            let Some(shape) = shapes.get(usize::from(operation.file)) else { continue };
            let (offset, len, unit) = (operation.offset, u64::from(operation.len), u64::from(shape.min_io_bytes));
            if offset + len > shape.size_bytes {
                return Err(format!(
                    "its log has a {} of {len} bytes at {offset}, beyond the {} bytes of {} - use a larger one, or replay_scale",
                    operation.kind, shape.size_bytes, shape.name
                ));
            }
            if (direct || operation.kind == OpKind::Deallocate) && !(offset | len).is_multiple_of(unit) {
                return Err(format!(
                    "its log has a {} of {len} bytes at {offset}, and direct I/O of {} must be aligned to {unit} - set direct=0, or replay_align",
                    operation.kind, shape.name
                ));
            }
        }
        Ok(())
    }
}

/// Operations for a log that a job writes, in the order in which they were issued.
#[derive(Debug, Default)]
pub struct Issued {
    unwritten: Mutex<Unwritten>,
    /// Operations that the writer of the log took and holds back. No issuing thread waits for this lock.
    held: Mutex<Vec<(u64, Request)>>,
}

#[derive(Debug, Default)]
struct Unwritten {
    /// Nanoseconds of the run, operation.
    operations: Vec<(u64, Request)>,
    left_out: u64,
}

/// Operations are held back for so long, nanoseconds, because those issued later may come back earlier.
const HOLD_NS: u64 = 2_000_000_000;

impl Issued {
    pub(super) fn add(&self, request: &Request, times: &Times) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        match unwritten.operations.len() < KEPT_MAX {
            true => unwritten.operations.push((times.completed_ns() - times.service_ns(), *request)),
            false => unwritten.left_out += 1,
        }
    }

    /// Lines of operations that can be written now; `is_over`: all that are left. `name` has the name of a target.
    pub fn take(&self, is_over: bool, name: impl Fn(u16) -> String) -> String {
        let new = std::mem::take(&mut self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).operations);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(new);
        held.sort_by_key(|(issued_ns, ..)| *issued_ns);
        let last_ns = held.last().map_or(0, |(issued_ns, ..)| *issued_ns);
        let until_ns = if is_over { u64::MAX } else { last_ns.saturating_sub(HOLD_NS) };
        let ready = held.partition_point(|(issued_ns, ..)| *issued_ns < until_ns);
        let mut text = String::new();
        for (issued_ns, request) in held.drain(..ready) {
            let action = match request.kind {
                OpKind::Read => "read",
                OpKind::Write => "write",
                OpKind::Deallocate | OpKind::ResetZone => "trim",
                OpKind::Flush => "datasync",
                _ => "sync",
            };
            let us = issued_ns / 1_000;
            text += &format!("{us} {} {action} {} {}\n", name(request.target), request.offset, request.len);
        }
        text
    }

    /// Operations dropped because they were not written in time.
    pub fn left_out(&self) -> u64 {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &ReplayOptions, text: &str) -> Result<Iolog, (usize, String)> {
        Iolog::parse(options, text)
    }

    const V3: &str = "fio version 3 iolog\n100 a add\n100 a open\n200 a read 4096 512\n150 b write 0 4096\n\
        1200 a datasync 0 0\n2200 a trim 8192 4096\n2300 a close\n";

    #[test]
    fn operations_of_a_log_are_replayed_at_their_times() {
        let log = parse(&ReplayOptions::default(), V3).unwrap();
        let kinds: Vec<_> = log.operations.iter().map(|operation| (operation.kind, operation.file)).collect();
        assert_eq!(kinds, [(OpKind::Read, 0), (OpKind::Write, 1), (OpKind::Flush, 0), (OpKind::Deallocate, 0)]);
        assert_eq!(log.files, ["a", "b"]);
        assert_eq!(log.at_ns[..], [100_000, 100_000, 1_100_000, 2_100_000, 2_100_000], "the last once more");
        assert_eq!((log.end_bytes("a"), log.end_bytes("b"), log.end_bytes("c")), (Some(12_288), Some(4_096), None));
        let options = ReplayOptions {
            redirect: Some("c".into()),
            time_scale: 200,
            align: 4_096,
            scale: 3,
            skip: skipped("write,sync").unwrap(),
            ..ReplayOptions::default()
        };
        let log = parse(&options, V3).unwrap();
        let places: Vec<_> = log.operations.iter().map(|operation| (operation.kind, operation.offset)).collect();
        assert_eq!(places, [(OpKind::Read, 0), (OpKind::Deallocate, 0)]);
        assert_eq!((&log.files[..], &log.at_ns[..]), (&["c".to_owned()][..], &[50_000, 1_050_000, 1_050_000][..]));
        assert!(parse(&ReplayOptions { no_stall: true, ..options }, V3).unwrap().at_ns.is_empty());
    }

    #[test]
    fn version_2_has_waits_or_no_times() {
        let closed = "fio version 2 iolog\na add\na read 0 4096\na write 4096 4096\n";
        assert!(parse(&ReplayOptions::default(), closed).unwrap().at_ns.is_empty());
        let waits = format!("{closed}a wait 500 0\na sync 0 0\na wait 300 0\na read 0 512\n");
        let log = parse(&ReplayOptions::default(), &waits).unwrap();
        let ms: Vec<_> = log.at_ns.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 500, 500, 500]);
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for (line, text) in [
            (1, ""),
            (1, "fio version 1 iolog\n"),
            (2, "fio version 2 iolog\na\n"),
            (2, "fio version 2 iolog\na read 0\n"),
            (3, "fio version 2 iolog\n\na read 0 4096 7\n"),
            (2, "fio version 2 iolog\na read -1 4096\n"),
            (2, "fio version 2 iolog\na read 0 4294967296\n"),
            (2, "fio version 2 iolog\na read 0 0\n"),
            (2, "fio version 2 iolog\na read 18446744073709551615 4096\n"),
            (2, "fio version 3 iolog\nx a read 0 4096\n"),
            (2, "fio version 3 iolog\n1 a wait 0 4096\n"),
            (2, "fio version 3 iolog\n1 a erase 0 4096\n"),
        ] {
            assert_eq!(parse(&ReplayOptions::default(), text).map_err(|(at, _)| at), Err(line), "{text}");
        }
        assert!(skipped("reads").is_err());
    }
}
