//! Writes a range of a device once, from its first byte to its last.
//!
//! ```text
//! from ...... mark ....... next ........ end
//!      written     in flight    to come
//! ```
//!
//! Blocks complete in any order. The mark is the first byte not known to be written: a sweep resumed there skips
//! nothing. The mark is shared, so that it can be recorded during the sweep.
//!
//! A sweep with an [`Order`] writes the blocks in that order. Its positions count bytes written, not device offsets.

use super::DEPTHS;
use super::order::Order;
use crate::stream::{IoRequest, Stream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::op::{OpKind, Outcome};

/// Bytes of a write: the same as ACT's preparation.
pub const BLOCK_BYTES: u32 = 128 * 1024;

/// Buffer classes of writes that last, and of writes that are overwritten later.
const LASTING: u16 = 0;
const FIRST: u16 = 1;

/// Writes target 0 from end to end.
#[derive(Debug)]
pub(super) struct SweepStream {
    next_position: u64,
    end: u64,
    device_bytes: u64,
    order: Option<Arc<Order>>,
    /// Positions not known to be written, and their offsets. The position of a failed write is never removed.
    pending: Vec<(u64, u64)>,
    mark: Arc<AtomicU64>,
}

impl SweepStream {
    /// `range` starts at a multiple of [`BLOCK_BYTES`] and ends at a multiple of the device's minimum direct I/O.
    pub(super) fn new(range: Range<u64>, mark: Arc<AtomicU64>) -> Self {
        mark.store(range.start, Ordering::Release);
        let Range { start, end } = range;
        let pending = Vec::with_capacity(*DEPTHS.end() as usize);
        Self {
            next_position: start,
            end,
            device_bytes: end,
            order: None,
            pending,
            mark,
        }
    }

    pub(super) fn ordered(
        start: u64,
        order: Arc<Order>,
        device_bytes: u64,
        mark: Arc<AtomicU64>,
    ) -> Self {
        let end = order.writes() * u64::from(order.block_bytes());
        Self {
            device_bytes,
            order: Some(order),
            ..Self::new(start..end, mark)
        }
    }

    /// First position not known to be written.
    fn oldest(&self) -> u64 {
        self.pending
            .iter()
            .map(|(position, _)| *position)
            .min()
            .unwrap_or(self.next_position)
    }
}

impl Stream for SweepStream {
    #[inline]
    fn next(&mut self) -> Option<IoRequest> {
        loop {
            let position = self.next_position;
            let bytes_left = self.end.checked_sub(position).filter(|left| *left > 0)?;
            let (offset, step_bytes, buffers) = match &self.order {
                None => (position, bytes_left.min(BLOCK_BYTES.into()), LASTING),
                Some(_) if self.stuck().is_some() => return None,
                Some(order) => {
                    let write = order.write(position / u64::from(order.block_bytes()));
                    (
                        write.offset,
                        order.block_bytes().into(),
                        if write.is_lasting { LASTING } else { FIRST },
                    )
                }
            };
            self.next_position += step_bytes;
            // The device's last bytes may be too few for direct I/O: then the last block is not written.
            let len = self.device_bytes.saturating_sub(offset).min(step_bytes);
            if len > 0 {
                self.pending.push((position, offset));
                return Some(IoRequest {
                    offset,
                    len: len as u32,
                    ..IoRequest::new(OpKind::Write, 0, 0, buffers)
                });
            }
        }
    }

    /// A sweep in random order stops at a failed write, because the two writes of a block must never be in flight
    /// together: either could be the last.
    fn stuck(&self) -> Option<String> {
        let order = self
            .order
            .as_ref()
            .filter(|_| self.next_position < self.end)?;
        let oldest = self.oldest();
        let blocks_ahead = (self.next_position - oldest) / u64::from(order.block_bytes());
        (blocks_ahead > order.gap())
            .then(|| format!("the write at byte {oldest} of the pass failed"))
    }

    #[inline]
    fn on_completion(&mut self, request: &IoRequest, outcome: Outcome) -> Option<IoRequest> {
        if outcome.is_done() {
            self.pending.retain(|(_, offset)| *offset != request.offset);
            self.mark.store(self.oldest(), Ordering::Release);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::OrderSpec;
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    fn sweep(from: u64, end: u64) -> (SweepStream, Arc<AtomicU64>) {
        let mark = Arc::new(AtomicU64::new(77));
        (SweepStream::new(from..end, mark.clone()), mark)
    }

    #[test]
    fn every_byte_is_written_once_including_a_partial_last_block() {
        let (sweep, _) = sweep(BLOCK, 3 * BLOCK + 5 * 512);
        let requests: Vec<_> = std::iter::from_fn({
            let mut sweep = sweep;
            move || sweep.next()
        })
        .map(|request| (request.offset, request.len))
        .collect();
        assert_eq!(
            requests,
            [
                (BLOCK, BLOCK_BYTES),
                (2 * BLOCK, BLOCK_BYTES),
                (3 * BLOCK, 5 * 512)
            ]
        );
    }

    #[test]
    fn progress_waits_for_the_slowest_write_and_never_passes_a_failure() {
        let (mut sweep, mark) = sweep(0, 5 * BLOCK);
        let requests: Vec<_> = std::iter::from_fn(|| sweep.next()).collect();
        let mut end = |index: usize, outcome| {
            sweep.on_completion(&requests[index], outcome);
            mark.load(Ordering::Acquire) / BLOCK
        };
        assert_eq!(end(1, Outcome::Done), 0, "block 0 is still in flight");
        assert_eq!(end(0, Outcome::Done), 2);
        assert_eq!(end(3, Outcome::Done), 2);
        assert_eq!(end(2, Outcome::Errno(5)), 2);
        assert_eq!(end(4, Outcome::Done), 2, "block 2 failed");
    }

    #[test]
    fn a_finished_sweep_has_its_progress_at_the_end() {
        let (mut sweep, mark) = sweep(BLOCK, 2 * BLOCK + 512);
        assert_eq!(mark.load(Ordering::Acquire), BLOCK);
        while let Some(request) = sweep.next() {
            sweep.on_completion(&request, Outcome::Done);
        }
        assert_eq!(mark.load(Ordering::Acquire), 2 * BLOCK + 512);
        assert!(sweep.next().is_none());
    }

    #[test]
    fn two_writes_of_a_block_are_never_in_flight_together() {
        let block = 4096;
        let blocks = 2048_u64;
        let spec = OrderSpec {
            block_bytes: 4096,
            pass_bytes: 2400 * block,
            cache_bytes: 20 * block,
            seed: 1,
        };
        let order = Arc::new(Order::new(blocks * block - 512, spec).unwrap());
        let mark = Arc::new(AtomicU64::new(0));
        let mut sweep = SweepStream::ordered(0, order.clone(), blocks * block - 512, mark.clone());
        // The first write stays in flight for as long as the sweep allows.
        let slow = sweep.next().unwrap();
        let mut bytes = u64::from(slow.len);
        let mut ahead = 0;
        while let Some(request) = sweep.next() {
            ahead += 1;
            bytes += u64::from(request.len);
            sweep.on_completion(&request, Outcome::Done);
        }
        assert!(
            sweep.stuck().is_some() && ahead == order.gap(),
            "{ahead} of {}",
            order.gap()
        );
        assert_eq!(mark.load(Ordering::Acquire), 0);
        sweep.on_completion(&slow, Outcome::Done);
        assert_eq!(sweep.stuck(), None);
        assert_eq!(mark.load(Ordering::Acquire), (ahead + 1) * block);
        let mut classes = [0; 2];
        while let Some(request) = sweep.next() {
            bytes += u64::from(request.len);
            classes[usize::from(request.buffers)] += 1;
            sweep.on_completion(&request, Outcome::Done);
        }
        // The short block at the end was written once or twice.
        assert!(
            [1, 2].contains(&((2400 * block - bytes) / 512)) && sweep.stuck().is_none(),
            "{bytes}"
        );
        assert_eq!(mark.load(Ordering::Acquire), 2400 * block);
        assert!(classes[0] > classes[1] && classes[1] > 0, "{classes:?}");
    }
}
