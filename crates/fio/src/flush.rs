//! Flush calls after writes (`fsync`, `fdatasync`, `sync_file_range`).

use sys::op::{OpKind, WriteBack};

#[derive(Debug, Clone, Copy, Default)]
pub struct FlushOptions {
    /// For fsync, fdatasync and sync_file_range: number of writes between two calls; 0: no calls.
    pub every: [u64; 3],
    /// Flags of sync_file_range.
    pub write_back: WriteBack,
    pub at_end: bool,
}

impl FlushOptions {
    pub(super) fn follow_writes(&self) -> bool {
        self.every != [0; 3]
    }

    /// `write`: counted from 1. As in fio, at most one call follows a write: the first that is due.
    #[inline]
    pub(super) fn after_write(&self, write: u64) -> Option<OpKind> {
        let kinds = [
            OpKind::FlushFile,
            OpKind::Flush,
            OpKind::WriteBack(self.write_back),
        ];
        let mut all = self.every.iter().zip(kinds);
        all.find(|(every, _)| **every > 0 && write.is_multiple_of(**every))
            .map(|(_, kind)| kind)
    }
}
