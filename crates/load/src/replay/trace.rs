//! A trace in memory: 24 bytes per operation, by device and stream.

use crate::factor::{Factor, ONE};
use crate::workload::CannotRun;
use device::discover::DeviceNumber;
use device::observe::diskstats::SECTOR_BYTES;
use device::observe::trace::{BlockRequest, EventOp};
use results::format::Grouped;
use std::collections::BTreeMap;
use std::sync::Arc;
use sys::op::{OpKind, WriteSync};

/// Maximum number of operations: 240 MB of memory, and briefly as much again while the largest stream is sorted.
pub const OPERATIONS_MAX: u64 = 10_000_000;

/// Operations below this size are small. Size of ACT's large block, and of the modelled servers' smallest write block.
const LARGE_BYTES: u64 = 128 << 10;

/// Memory for the buffers of a stream on a device, including those salted ahead, bytes.
pub(super) const LANE_MEMORY_BYTES: u64 = 32 << 20;

/// Maximum bytes of a read or write: no kernel request is larger, and a buffer must fit in the memory of a stream.
const BYTES_MAX: u64 = LANE_MEMORY_BYTES;

/// Maximum bytes of a discard: the kernel counts the bytes of a request in 32 bits, and rounding to units of direct I/O
/// may enlarge the discard at both ends.
const DISCARD_BYTES_MAX: u64 = u32::MAX as u64 - 2 * 4_096;

/// Maximum sector number: no device is larger (8 EiB), and sums of bytes stay within 64 bits.
const SECTORS_MAX: u64 = 1 << 54;

/// Streams of a replay, by kind and size of their operations. The first class that occurs in the trace is judged.
/// `Reads` and `Writes` are smaller than [`LARGE_BYTES`], large ones are not; flushes and discards have any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Reads,
    Writes,
    LargeReads,
    LargeWrites,
    Flushes,
    Discards,
}

impl Class {
    fn from_request(request: &BlockRequest) -> Option<Self> {
        let is_small = request.bytes() < LARGE_BYTES;
        match request.op {
            EventOp::Read if is_small => Some(Self::Reads),
            EventOp::Read => Some(Self::LargeReads),
            EventOp::Write if is_small => Some(Self::Writes),
            EventOp::Write => Some(Self::LargeWrites),
            EventOp::Flush => Some(Self::Flushes),
            EventOp::Discard => Some(Self::Discards),
            EventOp::Other => None,
        }
    }

    fn name_and_kind(self) -> (&'static str, OpKind) {
        match self {
            Self::Reads => ("reads", OpKind::Read),
            Self::Writes => ("writes", OpKind::Write),
            Self::LargeReads => ("large-reads", OpKind::Read),
            Self::LargeWrites => ("large-writes", OpKind::Write),
            Self::Flushes => ("flushes", OpKind::Flush),
            Self::Discards => ("discards", OpKind::Deallocate),
        }
    }

    pub fn name(self) -> &'static str {
        self.name_and_kind().0
    }

    pub fn kind(self) -> OpKind {
        self.name_and_kind().1
    }

    /// True for classes with many operations in flight.
    pub fn is_small(self) -> bool {
        matches!(self, Self::Reads | Self::Writes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    sector: u64,
    sectors: u32,
    pub sync: WriteSync,
}

impl Operation {
    pub fn start(&self) -> u64 {
        self.sector * SECTOR_BYTES
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }
}

/// The operations of a stream on a device, ordered by start time.
#[derive(Debug)]
pub struct ClassOps {
    /// Start times, nanoseconds since the first operation of the trace.
    pub at_ns: Arc<[u64]>,
    pub operations: Arc<[Operation]>,
}

fn wrong<T>(why: impl Into<String>) -> Result<T, CannotRun> {
    Err(CannotRun(why.into()))
}

#[derive(Debug, Default)]
pub struct TraceBuilder {
    groups: BTreeMap<(DeviceNumber, Class), Vec<(u64, Operation)>>,
    operations: u64,
    left_out: u64,
    without_size: u64,
    without_time: u64,
}

impl TraceBuilder {
    pub fn add(&mut self, request: &BlockRequest) -> Result<(), CannotRun> {
        let Some(class) = Class::from_request(request) else {
            self.left_out += 1;
            return Ok(());
        };
        self.without_size += u64::from(request.sectors == 0 && class != Class::Flushes);
        if self.operations == OPERATIONS_MAX {
            return wrong(format!(
                "the trace has more than {} operations, which take {} MB - replay a part of it (head, grep)",
                Grouped(OPERATIONS_MAX),
                OPERATIONS_MAX * 24 / 1_000_000
            ));
        }
        if request.sector > SECTORS_MAX && class != Class::Flushes {
            return wrong(format!(
                "the trace has sector {}, beyond the end of any device - the trace is damaged",
                request.sector
            ));
        }
        let bytes_max = if class.kind().moves_data() {
            BYTES_MAX
        } else {
            DISCARD_BYTES_MAX
        };
        if request.bytes() > bytes_max {
            let bytes = request.bytes();
            return wrong(format!(
                "an operation of the trace has {bytes} bytes, more than the maximum of {bytes_max} for one request - the trace is damaged"
            ));
        }
        self.operations += 1;
        // A flush has no offset, even if the trace has one.
        let (sector, sectors) = if class == Class::Flushes {
            (0, 0)
        } else {
            (request.sector, request.sectors)
        };
        // A bio can request a flush before its data, or FUA. In both cases a durable write is replayed.
        let sync = if request.flags.fua || request.flags.preflush {
            WriteSync::Data
        } else {
            WriteSync::No
        };
        let Some(at_ns) = request.requested_ns() else {
            self.without_time += 1;
            return Ok(());
        };
        let operation = Operation {
            sector,
            sectors,
            sync,
        };
        self.groups
            .entry((request.device, class))
            .or_default()
            .push((at_ns, operation));
        Ok(())
    }

    pub fn build(self, speed: Factor) -> Result<Trace, CannotRun> {
        let Self {
            groups,
            operations,
            left_out,
            without_size,
            without_time,
        } = self;
        let remedy = "record it with flashproof trace --ops";
        match (without_size, without_time) {
            (0, 0) if operations == 0 => {
                return wrong("the trace has no read, write, flush or discard");
            }
            (0, 0) => {}
            (0, count) => {
                return wrong(format!(
                    "the trace has no start time for {count} of its operations - {remedy}, or iosnoop -s"
                ));
            }
            (count, _) => {
                return wrong(format!(
                    "the trace has no size for {count} of its operations - {remedy}"
                ));
            }
        }
        let instants = groups.values().flatten().map(|(at_ns, _)| *at_ns);
        let (first_ns, last_ns) = instants.fold((u64::MAX, 0), |(first, last), at| {
            (first.min(at), last.max(at))
        });
        let groups = groups
            .into_iter()
            .map(|(key, mut group)| {
                group.sort_by_key(|(at_ns, _)| *at_ns);
                let at_ns = group
                    .iter()
                    .map(|(at_ns, _)| replayed_ns(at_ns - first_ns, speed))
                    .collect();
                let operations = group.into_iter().map(|(_, operation)| operation).collect();
                (key, ClassOps { at_ns, operations })
            })
            .collect();
        Ok(Trace {
            groups,
            operations,
            left_out,
            span_ns: replayed_ns(last_ns - first_ns, speed),
            speed,
        })
    }
}

fn replayed_ns(recorded_ns: u64, speed: Factor) -> u64 {
    let ns = u128::from(recorded_ns) * u128::from(ONE) / u128::from(speed.billionths);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[derive(Debug)]
pub struct Trace {
    groups: BTreeMap<(DeviceNumber, Class), ClassOps>,
    pub operations: u64,
    /// Requests that are not replayed: passthrough commands and the like.
    pub left_out: u64,
    /// Time from the first operation to the last, nanoseconds, at the speed of the replay.
    pub span_ns: u64,
    /// Speed relative to the recording.
    pub speed: Factor,
}

impl Trace {
    pub fn devices(&self) -> Vec<DeviceNumber> {
        let mut devices: Vec<_> = self.groups.keys().map(|(device, _)| *device).collect();
        devices.dedup();
        devices
    }

    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<_> = self.groups.keys().map(|(_, class)| *class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// The stream that is judged: the first of [`Class`] that has operations.
    pub fn judged(&self) -> Option<Class> {
        self.classes().first().copied()
    }

    pub fn streams_on(&self, device: DeviceNumber) -> Vec<(Class, &ClassOps)> {
        let own = self.groups.iter().filter(|((of, _), _)| *of == device);
        own.map(|((_, class), group)| (*class, group)).collect()
    }

    /// Operations and bytes of a stream, over all devices.
    pub fn totals(&self, class: Class) -> (u64, u64) {
        let own = self.groups.iter().filter(|((_, of), _)| *of == class);
        let operations = own.flat_map(|(_, group)| group.operations.iter());
        operations.fold((0, 0), |(count, bytes), operation| {
            (count + 1, bytes + operation.bytes())
        })
    }

    pub fn largest_bytes(&self) -> u64 {
        self.groups
            .values()
            .flat_map(|group| group.operations.iter())
            .map(Operation::bytes)
            .max()
            .unwrap_or(0)
    }
}
