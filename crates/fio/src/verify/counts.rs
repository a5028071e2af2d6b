//! Counts of a clone's verification, for reports and for the state file.

use super::super::counter::Counter;
use super::super::locked;
use super::damage::Damage;
use super::formats::{LastWrites, VerifyState};
use std::sync::{Mutex, OnceLock};

/// Maximum number of wrong blocks that are kept for `verify_dump`.
const DUMPS_MAX: usize = 32;

/// Only the clone's own thread changes these counts.
#[derive(Debug, Default)]
pub struct VerifyCounts {
    /// Bytes that were read and are right.
    pub checked_bytes: Counter,
    /// Bytes that were written and not read back.
    pub due_bytes: Counter,
    /// Bytes that were written twice at once, or by operations that failed, so that their contents are unknown.
    pub unknown_bytes: Counter,
    pub wrong_blocks: Counter,
    dumps: Mutex<Vec<Damage>>,
    pub(super) writes_begun: Counter,
    writes_done: Counter,
    /// File and offset of the last completed writes, in a ring.
    last_writes: OnceLock<Box<[[Counter; 2]]>>,
}

impl VerifyCounts {
    pub fn take_dumps(&self) -> Vec<Damage> {
        std::mem::take(&mut locked(&self.dumps))
    }

    /// Progress of the writes; `None` if the job writes nothing to verify.
    pub fn state(&self) -> Option<VerifyState> {
        let last_writes = self.last_writes.get()?;
        let known = (self.writes_done.get() as usize).min(last_writes.len());
        let completed = last_writes[..known]
            .iter()
            .map(|[file, offset]| (file.get(), offset.get()))
            .collect();
        Some(VerifyState {
            writes: self.writes_begun.get(),
            depth: last_writes.len() as u32,
            last_writes: LastWrites::Done(completed),
        })
    }

    pub(super) fn expect_writes(&self, depth: u64) {
        let _ = self
            .last_writes
            .set((0..depth).map(|_| Default::default()).collect());
    }

    pub(super) fn end_write(&self, file: u64, offset: u64) {
        if let Some(last_writes) = self.last_writes.get().filter(|last| !last.is_empty()) {
            let [of_file, at] = &last_writes[self.writes_done.get() as usize % last_writes.len()];
            of_file.set(file);
            at.set(offset);
        }
        self.writes_done.add(1);
    }

    #[cold]
    pub(super) fn add_wrong(&self, damage: Option<Damage>) {
        self.wrong_blocks.add(1);
        let mut dumps = locked(&self.dumps);
        if dumps.len() < DUMPS_MAX {
            dumps.extend(damage);
        }
    }
}
