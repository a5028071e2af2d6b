//! fio's logs of operations: the log that a job replays (`read_iolog`), and the log that a job writes (`write_iolog`).
//!
//! A log with times is an open loop: each operation is due at its logged time. A due operation waits while the job is
//! at its maximum depth, and the wait is recorded. A log without times, or with `replay_no_stall`, is a closed loop.
//!
//! Source: fio's iolog.c.

use super::counter::Counter;
use super::directions::{FLUSHES, KINDS, TRIMS, WRITES, kind_number};
use super::locked;
use super::parse::{BLOCK_MAX, parse_word};
use load::choice::with_defaults;
use load::stream::IoRequest;
use load::workload::DeviceShape;
use results::files::{self, Links};
use results::format::quoted;
use results::times::Times;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use sys::op::OpKind;

/// Maximum size of a log that is read, bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Maximum number of operations of a log. These operations take 1 GiB of memory.
const OPERATIONS_MAX: usize = 32 << 20;

/// Maximum number of operations that wait to be written to a log.
const KEPT_MAX: usize = 4 << 20;

const FILES_MAX: usize = 1_024;

with_defaults! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReplayOptions {
        /// Path of the log; `None`: the job generates its operations.
        pub file: Option<String> = None,
        /// True: operations are issued as fast as the depth allows, without regard to their logged times.
        pub no_stall: bool = false,
        /// Device for all operations.
        pub redirect: Option<String> = None,
        /// Offsets are rounded down to multiples of this, bytes.
        pub align: u64 = 1,
        /// Divisor of offsets.
        pub scale: u64 = 1,
    }
}

const ACTIONS: [(&str, OpKind); 5] = [
    ("read", OpKind::Read),
    ("write", OpKind::Write),
    ("trim", OpKind::Deallocate),
    ("sync", OpKind::FlushFile),
    ("datasync", OpKind::Flush),
];

const KIND_NAMES: [&str; KINDS] = ["read", "write", "trim", "sync"];

/// Maximum length of an operation, bytes. A trim has no buffer.
fn len_max(kind: OpKind) -> u64 {
    if kind == OpKind::Deallocate {
        u32::MAX.into()
    } else {
        BLOCK_MAX
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedOp {
    pub kind: OpKind,
    /// Index into [`Iolog::files`].
    pub file: u16,
    pub offset: u64,
    pub len: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Iolog {
    pub files: Vec<String>,
    pub operations: Arc<[LoggedOp]>,
    /// Due times of the operations, ascending, nanoseconds; the last time is repeated as the end. Empty: a closed loop.
    pub at_ns: Arc<[u64]>,
}

impl Iolog {
    pub(super) fn read(
        options: &ReplayOptions,
        path: &str,
        readonly: bool,
    ) -> Result<Self, String> {
        let cannot = |why: String| format!("cannot replay the log {} - {why}", quoted(path));
        let bytes = files::read(Path::new(path), Links::Followed, BYTES_MAX)
            .map_err(|error| cannot(error.to_string()))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| {
            cannot(
                "the file is not text - give a log that write_iolog wrote; to replay a trace of blktrace: blkparse -i \
                 FILE | flashproof storage --replay -"
                    .into(),
            )
        })?;
        let log = Self::parse(options, text)
            .map_err(|(line, why)| cannot(format!("line {line}: {why}")))?;
        let writes = log
            .operations
            .iter()
            .any(|operation| matches!(kind_number(operation.kind), WRITES | TRIMS));
        if readonly && writes {
            return Err(cannot(
                "the log has writes or trims, which --readonly forbids - leave out --readonly"
                    .into(),
            ));
        }
        if log
            .operations
            .iter()
            .all(|operation| kind_number(operation.kind) == FLUSHES)
        {
            Err(cannot(
                "the log has no read, write or trim to replay - give the log of a job that does I/O".into(),
            ))
        } else {
            Ok(log)
        }
    }

    /// Errors, with the number of the line: an invalid line, or too many operations or files.
    fn parse(options: &ReplayOptions, text: &str) -> Result<Self, (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        let is_timed = match lines.next().map(|(_, line)| line.trim_end()) {
            Some("fio version 2 iolog") => false,
            Some("fio version 3 iolog") => true,
            _ => {
                return Err((
                    1,
                    "the first line must be \"fio version 2 iolog\" or \"fio version 3 iolog\""
                        .into(),
                ));
            }
        };
        let mut names = HashMap::new();
        let mut files = Vec::new();
        let mut words = Vec::new();
        let mut operations = Vec::new();
        let mut at_ns = Vec::<u64>::new();
        let mut first_us = None;
        let mut now_ns = 0_u64;
        let mut has_times = is_timed;
        for (at, line) in lines {
            let invalid_line = || (at, format!("{} is not a line of a fio log", quoted(line)));
            let in_ns =
                |time: u64, unit_ns: u64| time.checked_mul(unit_ns).ok_or_else(invalid_line);
            words.clear();
            words.extend(line.split_ascii_whitespace());
            let mut fields = &words[..];
            if is_timed && let [us, others @ ..] = fields {
                let us: u64 = us.parse().map_err(|_| invalid_line())?;
                // As in fio, a time before the previous time is replaced by the previous time.
                now_ns = now_ns.max(in_ns(
                    us.saturating_sub(*first_us.get_or_insert(us)),
                    1_000,
                )?);
                fields = others;
            }
            let [name, action, offset, len] = match *fields {
                [] if words.is_empty() => continue,
                [_, "add" | "open" | "close", ..] => continue,
                [_, "wait", ms, ..] if !is_timed => {
                    // As in fio, the wait is in milliseconds since the start of the log, not since the last operation.
                    let ms = ms.parse().map_err(|_| invalid_line())?;
                    (now_ns, has_times) = (now_ns.max(in_ns(ms, 1_000_000)?), true);
                    continue;
                }
                [name, action, offset, len] => [name, action, offset, len],
                _ => return Err(invalid_line()),
            };
            let kind = parse_word(action, &ACTIONS).map_err(|_| invalid_line())?;
            let offset: u64 = offset.parse().map_err(|_| invalid_line())?;
            let len: u32 = len.parse().map_err(|_| invalid_line())?;
            let name = options.redirect.as_deref().unwrap_or(name);
            let file = *names.entry(name).or_insert_with(|| {
                files.push(name.to_owned());
                files.len() - 1
            });
            let offset_on_device = offset / options.scale / options.align * options.align;
            let mut operation = LoggedOp {
                kind,
                file: file as u16,
                offset: offset_on_device,
                len,
            };
            if kind_number(operation.kind) == FLUSHES {
                (operation.offset, operation.len) = (0, 0);
            } else if len == 0
                || u64::from(len) > len_max(kind)
                || offset.checked_add(len.into()).is_none()
            {
                let why = format!(
                    "the length of the operation at offset {offset} is {len} bytes, but must be 1 to {}",
                    len_max(kind)
                );
                return Err((at, why));
            }
            if operations.len() >= OPERATIONS_MAX {
                return Err((
                    at,
                    format!("the log has more than {OPERATIONS_MAX} operations - split it"),
                ));
            }
            operations.push(operation);
            at_ns.push(now_ns);
            if files.len() > FILES_MAX {
                let why = format!(
                    "the log has more than {FILES_MAX} files - split it, or give replay_redirect"
                );
                return Err((at, why));
            }
        }
        let is_open = has_times && !options.no_stall;
        at_ns.extend(at_ns.last().copied());
        let at_ns = if is_open {
            at_ns.into()
        } else {
            Arc::default()
        };
        Ok(Self {
            files,
            operations: operations.into(),
            at_ns,
        })
    }

    /// Number of operations of a kind, and their maximum length.
    pub(super) fn of_kind(&self, kind: usize) -> (u64, u64) {
        let all = self
            .operations
            .iter()
            .filter(|operation| kind_number(operation.kind) == kind);
        all.fold((0, 0), |(count, most), operation| {
            (count + 1, most.max(operation.len.into()))
        })
    }

    /// `None`: a closed loop.
    pub(super) fn iops(&self, kind: usize) -> Option<f64> {
        let last_ns = *self.at_ns.last()?;
        Some(self.of_kind(kind).0 as f64 * 1e9 / last_ns.max(1_000_000_000) as f64)
    }

    /// Size that the file `name` needs for the operations of the log, bytes.
    pub(super) fn end_bytes(&self, name: &str) -> Option<u64> {
        let file = self.files.iter().position(|file| file == name)?;
        let of_file = self
            .operations
            .iter()
            .filter(|operation| usize::from(operation.file) == file);
        of_file
            .map(|operation| operation.offset + u64::from(operation.len))
            .max()
    }

    /// `shapes` are in the order of `files`. Errors: an operation is beyond the end of its file, or not aligned for
    /// direct I/O.
    pub(super) fn check(&self, shapes: &[&DeviceShape], direct: bool) -> Result<(), String> {
        for operation in self
            .operations
            .iter()
            .filter(|operation| kind_number(operation.kind) != FLUSHES)
        {
            let Some(shape) = shapes.get(usize::from(operation.file)) else {
                continue;
            };
            let (LoggedOp { kind, offset, .. }, len) = (*operation, u64::from(operation.len));
            let (
                DeviceShape {
                    name, size_bytes, ..
                },
                unit,
            ) = (shape, u64::from(shape.min_io_bytes));
            if offset + len > *size_bytes {
                return Err(format!(
                    "the log has a {kind} of {len} bytes at {offset}, beyond the {size_bytes} bytes of {name} - use a larger device or file, or give replay_scale"
                ));
            }
            if (direct || kind == OpKind::Deallocate) && !(offset | len).is_multiple_of(unit) {
                return Err(format!(
                    "the log has a {kind} of {len} bytes at {offset}, but direct I/O of {name} must be aligned to {unit} bytes - set direct=0, or give replay_align"
                ));
            }
        }
        Ok(())
    }
}

/// Operations for a log that a job writes, in the order in which they were issued.
#[derive(Debug, Default)]
pub struct IssuedOps {
    /// Operations with the time of their issue, nanoseconds of the run.
    unwritten: Mutex<Vec<(u64, IoRequest)>>,
    /// Operations that the log writer took and holds back for sorting. No issuing thread waits for this lock.
    queued_requests: Mutex<Vec<(u64, IoRequest)>>,
    /// Operations dropped because they were not written in time.
    pub dropped: Counter,
}

/// Time for which operations are held to sort them by issue time, nanoseconds: an operation issued later may complete
/// earlier.
const HOLD_NS: u64 = 2_000_000_000;

impl IssuedOps {
    pub(super) fn add(&self, request: &IoRequest, times: &Times) {
        let mut unwritten = locked(&self.unwritten);
        if unwritten.len() < KEPT_MAX {
            unwritten.push((times.completed_ns() - times.service_ns(), *request))
        } else {
            self.dropped.add(1)
        }
    }

    /// Log lines that are ready; with `is_over`, all remaining lines. `name` returns the name of a target.
    pub fn take(&self, is_over: bool, name: impl Fn(u16) -> String) -> String {
        let new = std::mem::take(&mut *locked(&self.unwritten));
        let mut queued_requests = locked(&self.queued_requests);
        queued_requests.extend(new);
        queued_requests.sort_by_key(|(issued_ns, ..)| *issued_ns);
        let last_ns = queued_requests
            .last()
            .map_or(0, |(issued_ns, ..)| *issued_ns);
        let until_ns = if is_over {
            u64::MAX
        } else {
            last_ns.saturating_sub(HOLD_NS)
        };
        let ready_count = queued_requests.partition_point(|(issued_ns, ..)| *issued_ns < until_ns);
        let mut text = String::new();
        for (issued_ns, request) in queued_requests.drain(..ready_count) {
            let action = if request.kind == OpKind::Flush {
                "datasync"
            } else {
                KIND_NAMES[kind_number(request.kind)]
            };
            let us = issued_ns / 1_000;
            text += &format!(
                "{us} {} {action} {} {}\n",
                name(request.target),
                request.offset,
                request.len
            );
        }
        text
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
        let kinds: Vec<_> = log
            .operations
            .iter()
            .map(|operation| (operation.kind, operation.file))
            .collect();
        assert_eq!(
            kinds,
            [
                (OpKind::Read, 0),
                (OpKind::Write, 1),
                (OpKind::Flush, 0),
                (OpKind::Deallocate, 0)
            ]
        );
        assert_eq!(log.files, ["a", "b"]);
        assert_eq!(
            log.at_ns[..],
            [100_000, 100_000, 1_100_000, 2_100_000, 2_100_000],
            "the last time is repeated"
        );
        assert_eq!(log.end_bytes("a"), Some(12_288));
        assert_eq!(log.end_bytes("b"), Some(4_096));
        assert_eq!(log.end_bytes("c"), None);
        let options = ReplayOptions {
            redirect: Some("c".into()),
            align: 4_096,
            scale: 3,
            ..ReplayOptions::default()
        };
        let log = parse(&options, V3).unwrap();
        let places: Vec<_> = log
            .operations
            .iter()
            .map(|operation| (operation.kind, operation.offset))
            .collect();
        assert_eq!(
            places,
            [
                (OpKind::Read, 0),
                (OpKind::Write, 0),
                (OpKind::Flush, 0),
                (OpKind::Deallocate, 0)
            ],
            "8192 / 3 is rounded down to a multiple of 4096"
        );
        assert_eq!(log.files, ["c"]);
        assert!(
            parse(
                &ReplayOptions {
                    no_stall: true,
                    ..options
                },
                V3
            )
            .unwrap()
            .at_ns
            .is_empty()
        );
    }

    #[test]
    fn iologs_of_version_2_have_no_times_except_those_of_wait_lines() {
        let closed = "fio version 2 iolog\na add\na read 0 4096\na write 4096 4096\n";
        assert!(
            parse(&ReplayOptions::default(), closed)
                .unwrap()
                .at_ns
                .is_empty()
        );
        let waits = format!("{closed}a wait 500 0\na sync 0 0\na wait 300 0\na read 0 512\n");
        let log = parse(&ReplayOptions::default(), &waits).unwrap();
        let ms: Vec<_> = log.at_ns.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 500, 500, 500]);
    }

    #[test]
    fn a_binary_trace_is_refused_with_the_command_that_replays_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\x07tae\x01\0\0\0\xd2").unwrap();
        let path = file.path().to_str().unwrap();
        let refused = Iolog::read(&ReplayOptions::default(), path, false).unwrap_err();
        results::assert_contains!(refused, "blkparse -i FILE | flashproof storage --replay -");
    }

    #[test]
    fn invalid_lines_of_a_log_are_refused_with_their_number() {
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
            let found = parse(&ReplayOptions::default(), text).map_err(|(at, _)| at);
            assert_eq!(found, Err(line), "{text}");
        }
    }
}
