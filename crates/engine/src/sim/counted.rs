//! Counters of a simulated drive's host operations, for any model.

use results::telemetry::Column;
use sys::op::{OpKind, Outcome};

/// Operations and bytes by kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    flushes: u64,
    deallocates: u64,
    deallocated_bytes: u64,
    failed: u64,
}

impl Counted {
    /// The columns of [`Self::values`].
    pub(super) const COLUMNS: [Column; 8] = [
        Column::SimReads,
        Column::SimReadBytes,
        Column::SimWrites,
        Column::SimWriteBytes,
        Column::SimFlushes,
        Column::SimDeallocates,
        Column::SimDeallocatedBytes,
        Column::SimFailed,
    ];

    #[inline]
    pub(super) fn add(&mut self, kind: OpKind, len: u32, outcome: Outcome) {
        if !outcome.is_done() {
            self.failed += 1;
            return;
        }
        let (operations, bytes) = match kind {
            OpKind::Read => (&mut self.reads, &mut self.read_bytes),
            OpKind::Write => (&mut self.writes, &mut self.write_bytes),
            OpKind::Deallocate => (&mut self.deallocates, &mut self.deallocated_bytes),
            OpKind::Flush => return self.flushes += 1,
        };
        *operations += 1;
        *bytes += u64::from(len);
    }

    pub(super) fn values(&self) -> [u64; 8] {
        let Self { reads, read_bytes, writes, write_bytes, flushes, deallocates, deallocated_bytes, failed } = *self;
        [reads, read_bytes, writes, write_bytes, flushes, deallocates, deallocated_bytes, failed]
    }
}
