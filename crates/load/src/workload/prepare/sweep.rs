//! A walk over a device from one byte to another, writing all of it once.
//!
//! ```text
//! from ...... mark ....... next ........ end
//!      written     in flight    to come
//! ```
//!
//! Blocks complete in any order. The mark is the first byte not known to be written: a sweep resumed there skips
//! nothing. The mark is shared, so that it can be recorded during the sweep.

use super::DEPTH;
use crate::stream::{Request, Stream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::op::{OpKind, Outcome};

/// Bytes of a write: ACT prepares with the same.
pub const BLOCK_BYTES: u32 = 128 * 1024;

/// Writes target 0 from end to end.
#[derive(Debug)]
pub struct Sweep {
    next: u64,
    end: u64,
    /// Offsets not known to be written. A failed one stays here for good.
    open: Vec<u64>,
    mark: Arc<AtomicU64>,
}

impl Sweep {
    /// Writes the bytes in `range`, starting at a multiple of [`BLOCK_BYTES`] and ending at one of the device's minimum
    /// direct I/O. `mark` follows: the range before it is written.
    pub fn new(range: Range<u64>, mark: Arc<AtomicU64>) -> Self {
        mark.store(range.start, Ordering::Release);
        Self { next: range.start, end: range.end, open: Vec::with_capacity(DEPTH as usize), mark }
    }
}

impl Stream for Sweep {
    #[inline]
    fn next(&mut self) -> Option<Request> {
        let offset = self.next;
        let len = self.end.checked_sub(offset).filter(|left| *left > 0)?.min(BLOCK_BYTES.into());
        self.next += len;
        self.open.push(offset);
        Some(Request { offset, len: len as u32, ..Request::new(OpKind::Write, 0, 0, 0) })
    }

    #[inline]
    fn on_completion(&mut self, request: &Request, outcome: Outcome) -> Option<Request> {
        if outcome.is_done() {
            self.open.retain(|offset| *offset != request.offset);
            let mark = self.open.iter().copied().min().unwrap_or(self.next);
            self.mark.store(mark, Ordering::Release);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    fn sweep(from: u64, end: u64) -> (Sweep, Arc<AtomicU64>) {
        let mark = Arc::new(AtomicU64::new(77));
        (Sweep::new(from..end, mark.clone()), mark)
    }

    #[test]
    fn every_byte_is_written_once_the_part_of_a_block_at_the_end_too() {
        let (sweep, _) = sweep(BLOCK, 3 * BLOCK + 5 * 512);
        let requests: Vec<_> = std::iter::from_fn({
            let mut sweep = sweep;
            move || sweep.next()
        })
        .map(|request| (request.offset, request.len))
        .collect();
        assert_eq!(requests, [(BLOCK, BLOCK_BYTES), (2 * BLOCK, BLOCK_BYTES), (3 * BLOCK, 5 * 512)]);
    }

    #[test]
    fn the_mark_waits_for_the_slowest_and_never_passes_a_failure() {
        let (mut sweep, mark) = sweep(0, 5 * BLOCK);
        let requests: Vec<_> = std::iter::from_fn(|| sweep.next()).collect();
        let mut end = |index: usize, outcome| {
            sweep.on_completion(&requests[index], outcome);
            mark.load(Ordering::Acquire) / BLOCK
        };
        assert_eq!(end(1, Outcome::Done), 0, "block 0 is still out");
        assert_eq!(end(0, Outcome::Done), 2);
        assert_eq!(end(3, Outcome::Done), 2);
        assert_eq!(end(2, Outcome::Errno(5)), 2);
        assert_eq!(end(4, Outcome::Done), 2, "block 2 failed");
    }

    #[test]
    fn a_sweep_that_is_done_has_its_mark_at_the_end() {
        let (mut sweep, mark) = sweep(BLOCK, 2 * BLOCK + 512);
        assert_eq!(mark.load(Ordering::Acquire), BLOCK);
        while let Some(request) = sweep.next() {
            sweep.on_completion(&request, Outcome::Done);
        }
        assert_eq!(mark.load(Ordering::Acquire), 2 * BLOCK + 512);
        assert!(sweep.next().is_none());
    }
}
