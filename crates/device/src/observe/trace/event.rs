//! A trace event of a block request.

use super::tracefs::{FormatError, RecordField, parse_fields, parse_id};
use crate::discover::DeviceNumber;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A bio entered the block layer (`block_bio_queue`). A bio may become several requests, or a part of a request.
    Queue,
    /// A bio ended (`block_bio_complete`). An error mostly means that no tag was free for a bio that must not wait; the
    /// sender then sends the bio again. On a device without requests, an event without an error is the completion.
    Return,
    /// A request entered the queue of its device (`block_rq_insert`); some requests bypass the queue.
    Insert,
    /// A request was handed to the driver (`block_rq_issue`).
    Issue,
    /// The driver completed a request or a part of it (`block_rq_complete`).
    Complete,
    /// The driver returned a request, to be issued again (`block_rq_requeue`).
    Requeue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum EventOp {
    Read,
    /// Write, including zone append.
    Write,
    /// Flush of the device's volatile cache.
    Flush,
    Discard,
    /// Anything else: passthrough commands, write zeroes, zone management.
    #[default]
    Other,
}

/// A task of the kernel, by number and name.
///
/// The task of a request is the sender of its first bio, if the trace has that bio; otherwise the issuer. The issuer is
/// a kernel thread (`kworker/1:1H`) if the request had to wait, or if the kernel created the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TracedTask {
    /// Thread ID, called `pid` in the kernel; 0: unknown.
    pub pid: u32,
    /// Name, zero-terminated.
    comm: [u8; COMM_BYTES],
}

/// Length of a name in the kernel (`TASK_COMM_LEN`).
const COMM_BYTES: usize = 16;

impl TracedTask {
    /// Task `pid` with the name `comm`, truncated as in the kernel.
    pub fn new(pid: u32, comm: impl AsRef<[u8]>) -> Self {
        let mut comm_bytes = [0; COMM_BYTES];
        comm_bytes
            .iter_mut()
            .zip(comm.as_ref().iter().take_while(|byte| **byte != 0))
            .for_each(|(kept, byte)| *kept = *byte);
        Self {
            pid,
            comm: comm_bytes,
        }
    }

    /// Name; can contain any characters.
    pub fn comm(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(
            self.comm
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default(),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// `REQ_SYNC`: a task waits for the request.
    pub sync: bool,
    /// `REQ_FUA`: completes only when the data is on the medium.
    pub fua: bool,
    /// `REQ_PREFLUSH`: the cache is flushed before the request.
    pub preflush: bool,
    /// `REQ_META`: metadata of a file system.
    pub meta: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    pub cpu: u32,
    pub kind: EventKind,
    /// Number of the whole disk. For [`EventKind::Queue`]: of the device or partition to which the bio was sent.
    pub device: DeviceNumber,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Number of 512-byte sectors; 0 for flushes and passthrough.
    pub sectors: u32,
    pub op: EventOp,
    pub flags: Flags,
    /// The kernel's error number, 0 or negative; always 0 except for [`EventKind::Complete`] and [`EventKind::Return`].
    pub error: i32,
    /// Task that ran on the CPU at the event. For [`EventKind::Queue`], and mostly for [`EventKind::Issue`], this task
    /// requested the I/O.
    pub task: TracedTask,
}

/// Merges the events of all CPUs, which arrive one CPU after the other, in the order of time. At equal times, the order
/// of [`EventKind`] decides: an issue comes before a completion.
pub fn sort_by_time(events: &mut [TraceEvent]) {
    events.sort_by_key(|event| (event.time_ns, event.kind));
}

/// Turns records into events, with the field offsets that the running kernel reports.
#[derive(Debug)]
pub(super) struct RecordDecoder {
    common_type: RecordField,
    common_pid: RecordField,
    layouts: Vec<EventLayout>,
}

#[derive(Debug)]
struct EventLayout {
    id: u64,
    kind: EventKind,
    dev: RecordField,
    sector: RecordField,
    nr_sector: RecordField,
    rwbs: RecordField,
    error: Option<RecordField>,
    comm: Option<RecordField>,
}

/// Error: the record ends before its last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortRecord;

impl RecordDecoder {
    /// Builds a decoder from the `format` files of one or more kinds of events.
    pub(super) fn new(formats: &[(EventKind, String)]) -> Result<Self, FormatError> {
        let layouts = formats
            .iter()
            .map(|(kind, text)| EventLayout::parse(*kind, text))
            .collect::<Result<_, _>>()?;
        let (_, any_format) = formats.first().ok_or(FormatError::NoId)?;
        let common = parse_fields(any_format)?;
        Ok(Self {
            common_type: common.get("common_type")?,
            common_pid: common.get("common_pid")?,
            layouts,
        })
    }

    /// The event in `record`; `Ok(None)` for records of other types.
    pub(super) fn decode(
        &self,
        time_ns: u64,
        cpu: u32,
        record: &[u8],
    ) -> Result<Option<TraceEvent>, ShortRecord> {
        let id = self.common_type.unsigned(record).ok_or(ShortRecord)?;
        match self.layouts.iter().find(|layout| layout.id == id) {
            Some(layout) => {
                let pid = self.common_pid.unsigned(record).ok_or(ShortRecord)?;
                layout
                    .decode(time_ns, cpu, pid as u32, record)
                    .map(Some)
                    .ok_or(ShortRecord)
            }
            None => Ok(None),
        }
    }
}

impl EventLayout {
    fn parse(kind: EventKind, text: &str) -> Result<Self, FormatError> {
        let fields = parse_fields(text)?;
        let error = match kind {
            EventKind::Complete | EventKind::Return => Some(fields.get("error")?),
            _ => None,
        };
        Ok(Self {
            id: parse_id(text)?,
            kind,
            dev: fields.get("dev")?,
            sector: fields.get("sector")?,
            nr_sector: fields.get("nr_sector")?,
            rwbs: fields.get("rwbs")?,
            error,
            // Some kernels lack this field; then the name of the task is unknown.
            comm: fields.get("comm").ok(),
        })
    }

    fn decode(&self, time_ns: u64, cpu: u32, pid: u32, record: &[u8]) -> Option<TraceEvent> {
        // The kernel's internal dev_t: 12 bits of major and 20 bits of minor (not the C library's encoding).
        let dev = self.dev.unsigned(record)? as u32;
        let (op, flags) = parse_letters(self.rwbs.slice(record)?);
        Some(TraceEvent {
            time_ns,
            cpu,
            kind: self.kind,
            device: DeviceNumber::new(dev >> MINOR_BITS, dev & ((1 << MINOR_BITS) - 1)),
            sector: self.sector.unsigned(record)?,
            sectors: self.nr_sector.unsigned(record)? as u32,
            op,
            flags,
            error: self.error.map_or(Some(0), |error| error.int(record))?,
            task: TracedTask::new(
                pid,
                self.comm.map_or(Some(&[][..]), |comm| comm.slice(record))?,
            ),
        })
    }
}

/// Bits of the minor number in the kernel's dev_t (`include/linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

/// The device number in the format of the kernel's event filter.
pub(super) fn kernel_dev(DeviceNumber { major, minor }: DeviceNumber) -> u32 {
    major << MINOR_BITS | minor
}

/// Parses the letters of a request: `[F]` for a preflush, one or two letters for the operation, then flags: `F` FUA,
/// `A` read-ahead, `S` sync, `M` metadata, `U` atomic.
///
/// Source: `blk_fill_rwbs` in `kernel/trace/blktrace.c`.
pub(super) fn parse_letters(text: &[u8]) -> (EventOp, Flags) {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    // A leading F is a preflush only if the letter of an operation follows. Otherwise F is the operation (a flush).
    let (preflush, rest) = match text {
        [b'F', rest @ ..]
            if matches!(rest.first(), Some(b'R' | b'W' | b'D' | b'F' | b'N' | b'Z')) =>
        {
            (true, rest)
        }
        _ => (false, text),
    };
    let (op, flags) = match rest {
        [b'R', flags @ ..] => (EventOp::Read, flags),
        [b'W', b'Z', flags @ ..] => (EventOp::Other, flags),
        [b'W', flags @ ..] => (EventOp::Write, flags),
        [b'F', flags @ ..] => (EventOp::Flush, flags),
        [b'D', b'E', flags @ ..] | [b'D', flags @ ..] => (EventOp::Discard, flags),
        [b'Z', b'A', flags @ ..] => (EventOp::Write, flags),
        // The second letter of a zone command is not a flag.
        [b'Z', _, flags @ ..] => (EventOp::Other, flags),
        [_, flags @ ..] => (EventOp::Other, flags),
        [] => (EventOp::Other, &[][..]),
    };
    let has = |flag| flags.contains(&flag);
    (
        op,
        Flags {
            sync: has(b'S'),
            fua: has(b'F'),
            preflush,
            meta: has(b'M'),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "ID: 2107
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:int error;\toffset:28;\tsize:4;\tsigned:1;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
";

    fn record(id: u16) -> Vec<u8> {
        let mut record = vec![0; 44];
        record[0..2].copy_from_slice(&id.to_ne_bytes());
        record[4..8].copy_from_slice(&4711_u32.to_ne_bytes());
        record[8..12].copy_from_slice(&kernel_dev(DeviceNumber::new(259, 3)).to_ne_bytes());
        record[16..24].copy_from_slice(&0x1_0000_0008_u64.to_ne_bytes());
        record[24..28].copy_from_slice(&3_u32.to_ne_bytes());
        record[28..32].copy_from_slice(&(-5_i32).to_ne_bytes());
        record[34..37].copy_from_slice(b"WFS");
        record
    }

    #[test]
    fn a_record_becomes_an_event() {
        let decoder = RecordDecoder::new(&[(EventKind::Complete, COMPLETE.to_owned())]).unwrap();
        let event = decoder.decode(77, 2, &record(2107)).unwrap().unwrap();
        let expected = TraceEvent {
            time_ns: 77,
            cpu: 2,
            kind: EventKind::Complete,
            device: DeviceNumber::new(259, 3),
            sector: 0x1_0000_0008,
            sectors: 3,
            op: EventOp::Write,
            flags: Flags {
                sync: true,
                fua: true,
                ..Flags::default()
            },
            error: -5,
            task: TracedTask::new(4711, b""),
        };
        assert_eq!(event, expected);
    }

    #[test]
    fn records_of_other_types_are_skipped_and_short_records_are_errors() {
        let decoder = RecordDecoder::new(&[(EventKind::Complete, COMPLETE.to_owned())]).unwrap();
        assert_eq!(decoder.decode(0, 0, &record(5)), Ok(None));
        assert_eq!(decoder.decode(0, 0, &record(2107)[..40]), Err(ShortRecord));
        assert_eq!(decoder.decode(0, 0, &[]), Err(ShortRecord));
    }

    #[test]
    fn a_kernel_without_an_expected_field_is_an_error() {
        let text = COMPLETE.replace(" rwbs[", " flags[");
        let error = RecordDecoder::new(&[(EventKind::Complete, text)]).unwrap_err();
        assert_eq!(error, FormatError::NoField("rwbs"));
    }

    #[test]
    fn the_letters_of_a_request_are_parsed_as_operation_and_flags() {
        let parse = |text: &[u8]| {
            let (op, flags) = parse_letters(text);
            (op, flags.preflush, flags.fua, flags.sync)
        };
        assert_eq!(parse(b"R\0\0"), (EventOp::Read, false, false, false));
        assert_eq!(parse(b"RAM"), (EventOp::Read, false, false, false));
        assert_eq!(parse(b"WS"), (EventOp::Write, false, false, true));
        assert_eq!(parse(b"FWFS"), (EventOp::Write, true, true, true));
        assert_eq!(parse(b"FF"), (EventOp::Flush, true, false, false));
        assert_eq!(parse(b"F"), (EventOp::Flush, false, false, false));
        assert_eq!(parse(b"FS"), (EventOp::Flush, false, false, true));
        assert_eq!(parse(b"D"), (EventOp::Discard, false, false, false));
        assert_eq!(parse(b"DES"), (EventOp::Discard, false, false, true));
        assert_eq!(parse(b"ZA"), (EventOp::Write, false, false, false));
        assert_eq!(parse(b"ZF"), (EventOp::Other, false, false, false));
        assert_eq!(parse(b"WZS"), (EventOp::Other, false, false, true));
        assert_eq!(parse(b"N"), (EventOp::Other, false, false, false));
        assert_eq!(parse(b""), (EventOp::Other, false, false, false));
    }

    #[test]
    fn sorting_merges_cpus_and_keeps_issue_before_completion() {
        let decoder = RecordDecoder::new(&[(EventKind::Complete, COMPLETE.to_owned())]).unwrap();
        let complete = decoder.decode(5, 0, &record(2107)).unwrap().unwrap();
        let issue = TraceEvent {
            kind: EventKind::Issue,
            cpu: 1,
            ..complete
        };
        let first = TraceEvent {
            time_ns: 4,
            ..complete
        };
        let mut events = [complete, issue, first];
        sort_by_time(&mut events);
        assert_eq!(events, [first, issue, complete]);
    }
}
