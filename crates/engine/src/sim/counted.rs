//! Counters of a simulated drive's host operations, for any model.

use results::telemetry::Column;
use sys::op::OpKind;

/// Counts of operations and bytes, in the order of [`Self::COLUMNS`].
#[derive(Debug, Clone, Default)]
pub(super) struct Counted([u64; 8]);

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
    pub(super) fn add(&mut self, kind: OpKind, len: u64, errno: i32) {
        let [reads, read_bytes, writes, write_bytes, flushes, deallocates, deallocated_bytes, failed] = &mut self.0;
        let (operations, bytes) = match kind {
            _ if errno != 0 => return *failed += 1,
            OpKind::Read => (reads, read_bytes),
            OpKind::Write => (writes, write_bytes),
            OpKind::Deallocate | OpKind::ResetZone => (deallocates, deallocated_bytes),
            OpKind::Flush | OpKind::FlushFile => return *flushes += 1,
            OpKind::WriteBack(_) => return,
        };
        *operations += 1;
        *bytes += len;
    }

    pub(super) fn values(&self) -> [u64; 8] {
        self.0
    }
}
