//! Counts of a job's verification, for its report.

use super::block::Damage;
use super::state::{LastWrites, State};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Wrong blocks that are kept to be written to files.
const DUMPS_MAX: usize = 32;

/// A number that one thread changes while others look.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }
}

/// Counts of a clone, which only its own thread changes.
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
    /// File and offset of the last writes done, in a ring.
    last: OnceLock<Box<[[Counter; 2]]>>,
}

impl VerifyCounts {
    /// Wrong blocks to be written to files.
    pub fn take_dumps(&self) -> Vec<Damage> {
        std::mem::take(&mut self.dumps.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far the writes came; `None` if the job writes nothing to verify.
    pub fn state(&self) -> Option<State> {
        let last = self.last.get()?;
        let known = (self.writes_done.get() as usize).min(last.len());
        let done = last[..known].iter().map(|[file, offset]| (file.get(), offset.get())).collect();
        Some(State { writes: self.writes_begun.get(), depth: last.len() as u32, last: LastWrites::Done(done) })
    }

    /// Prepares for writes with a queue of `depth`.
    pub(super) fn expect_writes(&self, depth: u64) {
        let _ = self.last.set((0..depth).map(|_| Default::default()).collect());
    }

    pub(super) fn end_write(&self, file: u64, offset: u64) {
        if let Some(last) = self.last.get().filter(|last| !last.is_empty()) {
            let [of_file, at] = &last[self.writes_done.get() as usize % last.len()];
            of_file.set(file);
            at.set(offset);
        }
        self.writes_done.add(1);
    }

    #[cold]
    pub(super) fn add_wrong(&self, damage: Option<Damage>) {
        self.wrong_blocks.add(1);
        let mut dumps = self.dumps.lock().unwrap_or_else(PoisonError::into_inner);
        if dumps.len() < DUMPS_MAX {
            dumps.extend(damage);
        }
    }
}
