//! Operations in flight of a store: numbers, purposes, buffers.

use crate::record::UNIT;
use crate::{Disk, IoCounts, Transaction, index::Place};
use std::ops::Range;
use std::sync::Arc;
use sys::buffer::{ALIGN, Buf};
use sys::op::{Completion, Op, OpKind, TargetId, WriteSync};

/// Purpose of an operation.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A transaction that needs the record which was at `place`, in a block of this seed.
    Record { number: u64, transaction: Transaction, place: Place, seed: u32, skip: u32 },
    /// A write buffer of a volume, up to this byte.
    Write { volume: u8, buffer: u32 },
    /// The block that a volume collects.
    Collect { volume: u8 },
    /// Blocks of a volume at a cold start, and how often they were tried before.
    Scan { volume: u8, blocks: Range<u32>, tries: u32 },
    /// The block being read for hidden versions.
    Raid,
    /// The marks of a volume at a cold start.
    Marks { volume: u8, tries: u32 },
    /// A mark of a volume.
    Mark { volume: u8 },
    /// Ends a cold start.
    Flush { volume: u8, tries: u32 },
}

/// Numbers that reads of records leave to the rest.
const RESERVED: usize = 8;

/// Fewest numbers of a store.
pub(crate) const TOKENS_MIN: u32 = 16;

/// The operations of a store.
#[derive(Debug)]
pub(crate) struct Io {
    first: u32,
    /// Each with its kind and bytes.
    pending: Vec<Option<(Pending, OpKind, u32)>>,
    counts: Arc<IoCounts>,
    unused: Vec<u32>,
    /// Buffers that are not in use, by the power of two that is their length.
    buffers: Vec<Vec<Buf>>,
}

impl Io {
    pub(crate) fn new(tokens: Range<u32>) -> Self {
        Self {
            first: tokens.start,
            pending: tokens.clone().map(|_| None).collect(),
            counts: Arc::default(),
            unused: (0..tokens.len() as u32).rev().collect(),
            buffers: Vec::new(),
        }
    }

    /// Counts I/O there from now on.
    pub(crate) fn count_into(&mut self, counts: Arc<IoCounts>) {
        self.counts = counts;
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len() - self.unused.len()
    }

    /// True if a read of a record may begin.
    pub(crate) fn may_read(&self) -> bool {
        self.unused.len() > RESERVED
    }

    pub(crate) fn may_begin(&self) -> bool {
        !self.unused.is_empty()
    }

    /// A buffer of at least `len` bytes; `None` if the engine has no memory left and no buffer of that length is
    /// unused.
    pub(crate) fn buffer(&mut self, len: usize, disk: &mut impl Disk) -> Option<Buf> {
        let class = len.max(ALIGN).next_power_of_two().ilog2() as usize;
        if self.buffers.len() <= class {
            self.buffers.resize_with(class + 1, Vec::new);
        }
        if let Some(buf) = self.buffers[class].pop() {
            return Some(buf);
        }
        let larger = |io: &mut Self| io.buffers[class..].iter_mut().find_map(Vec::pop);
        disk.buffer(1 << class).or_else(|| larger(self))
    }

    /// Returns a buffer.
    pub(crate) fn recycle(&mut self, buf: Buf) {
        if let Some(class) = buf.len().checked_ilog2() {
            self.buffers[class as usize].push(buf);
        }
    }

    /// Begins an operation. There must be a number for it.
    pub(crate) fn submit(
        &mut self,
        pending: Pending,
        (target, kind): (TargetId, OpKind),
        bytes: Range<u64>,
        buf: Buf,
        disk: &mut impl Disk,
    ) {
        let Some(slot) = self.unused.pop() else { return };
        let (offset, len) = (bytes.start, (bytes.end - bytes.start) as u32);
        let sync = if kind == OpKind::Write { WriteSync::Data } else { WriteSync::No };
        self.pending[slot as usize] = Some((pending, kind, len));
        disk.submit(Op { target, sync, token: self.first + slot, ..Op::new(kind, offset, len, buf) });
    }

    /// Purpose of a completed operation.
    pub(crate) fn take(&mut self, done: &Completion) -> Option<Pending> {
        let slot = done.token.checked_sub(self.first)?;
        let (pending, kind, bytes) = self.pending.get_mut(slot as usize)?.take()?;
        self.unused.push(slot);
        if done.outcome.is_done() {
            self.counts.add(kind, bytes, done.completed_ns.saturating_sub(done.issued_ns));
        }
        Some(pending)
    }
}

/// The bytes to read from a device for a record, and the number of bytes before the record.
pub(crate) fn read_range(begin: u64, place: Place, min_io: u64) -> (Range<u64>, u32) {
    let start = begin + u64::from(place.offset) * UNIT as u64;
    let end = start + u64::from(place.units) * UNIT as u64;
    let aligned = start / min_io * min_io..end.next_multiple_of(min_io);
    (aligned.clone(), (start - aligned.start) as u32)
}
