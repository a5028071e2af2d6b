//! What others see of a job's verification.

use super::block::Damage;
use super::state::{LastWrites, State};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Wrong blocks that are kept to be written to files.
const DUMPS_MAX: usize = 32;

/// Counts of a clone, which only its own thread changes.
#[derive(Debug, Default)]
pub struct VerifyCounts {
    checked_bytes: AtomicU64,
    due_bytes: AtomicU64,
    unknown_bytes: AtomicU64,
    wrong_blocks: AtomicU64,
    dumps: Mutex<Vec<Damage>>,
    writes_begun: AtomicU64,
    writes_done: AtomicU64,
    /// File and offset of the last writes done, in a ring.
    last: OnceLock<Box<[[AtomicU64; 2]]>>,
}

impl VerifyCounts {
    /// Bytes that were read and are right.
    pub fn checked_bytes(&self) -> u64 {
        self.checked_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written and not read back.
    pub fn due_bytes(&self) -> u64 {
        self.due_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written twice at once, or by operations that failed, so that their contents are unknown.
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown_bytes.load(Ordering::Relaxed)
    }

    pub fn wrong_blocks(&self) -> u64 {
        self.wrong_blocks.load(Ordering::Relaxed)
    }

    /// Wrong blocks to be written to files.
    pub fn take_dumps(&self) -> Vec<Damage> {
        std::mem::take(&mut self.dumps.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far the writes came; `None` if the job writes nothing to verify.
    pub fn state(&self) -> Option<State> {
        let last = self.last.get()?;
        let known = (self.writes_done.load(Ordering::Relaxed) as usize).min(last.len());
        let done =
            last[..known].iter().map(|[file, offset]| (file.load(Ordering::Relaxed), offset.load(Ordering::Relaxed)));
        Some(State {
            writes: self.writes_begun.load(Ordering::Relaxed),
            depth: last.len() as u32,
            last: LastWrites::Done(done.collect()),
        })
    }

    /// Prepares for writes with a queue of `depth`.
    pub(super) fn expect_writes(&self, depth: u64) {
        let _ = self.last.set((0..depth).map(|_| Default::default()).collect());
    }

    pub(super) fn begin_write(&self, writes: u64) {
        self.writes_begun.store(writes, Ordering::Relaxed);
    }

    pub(super) fn end_write(&self, file: u64, offset: u64) {
        let done = self.writes_done.load(Ordering::Relaxed);
        if let Some(last) = self.last.get().filter(|last| !last.is_empty()) {
            let [of_file, at] = &last[done as usize % last.len()];
            of_file.store(file, Ordering::Relaxed);
            at.store(offset, Ordering::Relaxed);
        }
        self.writes_done.store(done + 1, Ordering::Relaxed);
    }

    pub(super) fn add_checked(&self, bytes: u64) {
        self.checked_bytes.store(self.checked_bytes() + bytes, Ordering::Relaxed);
    }

    pub(super) fn set_written(&self, due_bytes: u64, unknown_bytes: u64) {
        self.due_bytes.store(due_bytes, Ordering::Relaxed);
        self.unknown_bytes.store(unknown_bytes, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn add_wrong(&self, damage: Option<Damage>) {
        self.wrong_blocks.store(self.wrong_blocks() + 1, Ordering::Relaxed);
        let mut dumps = self.dumps.lock().unwrap_or_else(PoisonError::into_inner);
        if dumps.len() < DUMPS_MAX {
            dumps.extend(damage);
        }
    }
}
