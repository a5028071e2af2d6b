//! Operations in flight of a store: numbers, purposes, buffers. Also the stores' I/O counters, which other threads can
//! read: the numbers that iostat shows, but only for the I/O of stores.

use crate::index::RecordLocation;
use crate::record::UNIT;
use crate::{StoreDisk, Transaction};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::buffer::{ALIGN, Buf};
use sys::op::{Completion, Op, OpKind, TargetId, WriteSync};

#[derive(Debug)]
pub(crate) enum OpPurpose {
    /// Read of a record for a transaction. `seed`: start value of the checksum; `skip`: bytes before the record.
    Record {
        number: u64,
        transaction: Transaction,
        location: RecordLocation,
        seed: u32,
        skip: u32,
    },
    Write {
        volume: u8,
        buffer: u32,
    },
    Collect {
        volume: u8,
    },
    /// Read of blocks at a cold start. `tries`: number of earlier attempts.
    Scan {
        volume: u8,
        blocks: Range<u32>,
        tries: u32,
    },
    /// Read of a block in the search for unneeded tombstones.
    Raid,
    /// Read of a volume's marks at a cold start.
    Marks {
        volume: u8,
        tries: u32,
    },
    Mark {
        volume: u8,
    },
    /// Flush that ends a cold start.
    Flush {
        volume: u8,
        tries: u32,
    },
}

/// Operation numbers that are reserved for operations other than record reads.
const RESERVED: usize = 8;

/// Minimum number of operations in flight that a store needs.
pub(crate) const TOKENS_MIN: u32 = 16;

#[derive(Debug)]
pub(crate) struct Io {
    first_token: u32,
    /// For each operation number: purpose, kind and bytes of the operation in flight.
    pending: Vec<Option<(OpPurpose, OpKind, u32)>>,
    pub(crate) counts: Arc<IoCounts>,
    free_slots: Vec<u32>,
    /// Unused buffers, indexed by the binary logarithm of their length.
    buffers: Vec<Vec<Buf>>,
}

impl Io {
    pub(crate) fn new(tokens: Range<u32>) -> Self {
        Self {
            first_token: tokens.start,
            pending: tokens.clone().map(|_| None).collect(),
            counts: Arc::default(),
            free_slots: (0..tokens.len() as u32).rev().collect(),
            buffers: Vec::new(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len() - self.free_slots.len()
    }

    pub(crate) fn may_read(&self) -> bool {
        self.free_slots.len() > RESERVED
    }

    pub(crate) fn may_begin(&self) -> bool {
        !self.free_slots.is_empty()
    }

    /// A buffer of at least `len` bytes; `None` if none is unused and the engine has no memory left.
    pub(crate) fn buffer(&mut self, len: usize, disk: &mut impl StoreDisk) -> Option<Buf> {
        let class = len.max(ALIGN).next_power_of_two().ilog2() as usize;
        if self.buffers.len() <= class {
            self.buffers.resize_with(class + 1, Vec::new);
        }
        if let Some(buf) = self.buffers[class].pop() {
            return Some(buf);
        }
        disk.buffer(1 << class)
            .or_else(|| self.buffers[class..].iter_mut().find_map(Vec::pop))
    }

    pub(crate) fn recycle(&mut self, buf: Buf) {
        if let Some(class) = buf.len().checked_ilog2() {
            self.buffers[class as usize].push(buf);
        }
    }

    /// Submits an operation. The caller has checked that an operation number is free.
    pub(crate) fn submit(
        &mut self,
        purpose: OpPurpose,
        (target, kind): (TargetId, OpKind),
        bytes: Range<u64>,
        buf: Buf,
        disk: &mut impl StoreDisk,
    ) {
        let Some(slot) = self.free_slots.pop() else {
            return;
        };
        let offset = bytes.start;
        let len = (bytes.end - bytes.start) as u32;
        let sync = if kind == OpKind::Write {
            WriteSync::Data
        } else {
            WriteSync::No
        };
        self.pending[slot as usize] = Some((purpose, kind, len));
        disk.submit(Op {
            target,
            sync,
            token: self.first_token + slot,
            ..Op::new(kind, offset, len, buf)
        });
    }

    /// Frees the number of a completed operation, and returns the purpose.
    pub(crate) fn take(&mut self, completion: &Completion) -> Option<OpPurpose> {
        let slot = completion.token.checked_sub(self.first_token)?;
        let (purpose, kind, bytes) = self.pending.get_mut(slot as usize)?.take()?;
        self.free_slots.push(slot);
        if completion.outcome.is_done() {
            self.counts.add(
                kind,
                bytes,
                completion.completed_ns.saturating_sub(completion.issued_ns),
            );
        }
        Some(purpose)
    }
}

/// The aligned bytes to read from a device for a record, and the offset of the record in them.
pub(crate) fn read_range(begin: u64, location: RecordLocation, min_io: u64) -> (Range<u64>, u32) {
    let start = begin + u64::from(location.offset) * UNIT as u64;
    let end = start + u64::from(location.units) * UNIT as u64;
    let aligned = start / min_io * min_io..end.next_multiple_of(min_io);
    (aligned.clone(), (start - aligned.start) as u32)
}

/// Counters of the I/O of all cores' stores, in the order of the fields of [`IoSnapshot`].
#[derive(Debug, Default)]
pub struct IoCounts([AtomicU64; 5]);

/// Snapshot of [`IoCounts`], or the difference of two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoSnapshot {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    /// Sum of service times, ns.
    pub service_ns: u64,
}

impl IoCounts {
    pub fn now(&self) -> IoSnapshot {
        let counts = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [reads, read_bytes, writes, write_bytes, service_ns] = counts;
        IoSnapshot {
            reads,
            read_bytes,
            writes,
            write_bytes,
            service_ns,
        }
    }

    pub(crate) fn add(&self, kind: OpKind, bytes: u32, service_ns: u64) {
        let [reads, read_bytes, writes, write_bytes, sum_ns] = &self.0;
        let (count, byte_count) = match kind {
            OpKind::Read => (reads, read_bytes),
            OpKind::Write => (writes, write_bytes),
            OpKind::Flush | OpKind::FlushFile | OpKind::WriteBack(_) => return,
            OpKind::Deallocate => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
        byte_count.fetch_add(bytes.into(), Ordering::Relaxed);
        sum_ns.fetch_add(service_ns, Ordering::Relaxed);
    }
}

impl IoSnapshot {
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, |now, then| now - then)
    }

    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    fn with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            reads: combine(self.reads, other.reads),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            writes: combine(self.writes, other.writes),
            write_bytes: combine(self.write_bytes, other.write_bytes),
            service_ns: combine(self.service_ns, other.service_ns),
        }
    }
}
